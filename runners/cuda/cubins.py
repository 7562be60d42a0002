"""Machine code on disk, by the hash of everything that decides it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

import platformdirs

_DIGEST_BYTES = 32
_EM_CUDA = 190
"""Machine number of NVIDIA's ELF files (ELF specification, e_machine registry)."""


def is_cubin(code: bytes) -> bool:
    """Whether bytes look like an ELF file of machine code for a GPU."""
    return code[:4] == b"\x7fELF" and int.from_bytes(code[18:20], "little") == _EM_CUDA


class CubinFolder:
    """A folder of cubins, each behind its SHA-256, so that a damaged file is made again.

    A cache: whatever goes wrong in it means no more than compiling once more.
    """

    def __init__(self, folder: Path | None = None, *, limit_bytes: int = 512 << 20) -> None:
        self.folder = folder or platformdirs.user_cache_path("warpfuzz") / "cubins"
        self._limit = limit_bytes

    def get(self, key: str) -> bytes | None:
        """Return what was put under a key, or None."""
        try:
            data = self._path(key).read_bytes()
        except OSError:
            return None
        digest, code = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        return code if hashlib.sha256(code).digest() == digest and is_cubin(code) else None

    def put(self, key: str, code: bytes) -> None:
        """Keep machine code; a folder that cannot be written is none."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self.folder, prefix="new-")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(hashlib.sha256(code).digest() + code)
                Path(name).replace(self._path(key))
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
            self._prune()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.cubin"

    def _prune(self) -> None:
        """Drop the oldest files until the folder is within its limit."""
        files = [(path, path.stat()) for path in self.folder.iterdir()]
        total = sum(stat.st_size for _, stat in files)
        for path, stat in sorted(files, key=lambda entry: entry[1].st_mtime):
            if total <= self._limit:
                break
            path.unlink(missing_ok=True)
            total -= stat.st_size
