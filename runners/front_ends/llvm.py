"""LLVM as a front end: that of an llvmlite, of any version, opt and llc, or any other command."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.answers import cache_folder
from runners.folders import temporary_folder, writing
from runners.front_ends.commands import check_there, stages
from runners.front_ends.llvm_command import LlvmCommand, build_command
from runners.front_ends.llvmlite_process import LlvmliteFrontEnd
from runners.front_ends.protocol import RELEASE, Installed
from runners.wheels import Progress, downloaded, unpack_member

WHEELS = {"14": "0.43", "15": "0.44", "20": "0.47", "22": "0.50"}
"""Release of llvmlite that carries a major version of LLVM (asked of the wheels of 0.43 to 0.50,
2026-11)."""
LEVEL = 2
"""-O level where nobody says: that of clang -O2."""
_PYTHON = "3.11"
"""Python of the wheel that is fetched. llvmlite reaches LLVM through ctypes, so that any later
Python runs it, too (0.43 to 0.50 with 3.11 to 3.13, tried 2026-11)."""
_PACKAGE = re.compile(r"llvmlite/.*|[^/]+\.dist-info/(?:licenses/)?licen[cs]e[^/]*", re.IGNORECASE)
_FETCHED = "llvm-"


@dataclass(frozen=True, kw_only=True)
class Llvmlite(Installed):
    """The LLVM inside an llvmlite; its `path` is the folder in which the package lies."""

    @property
    def default_level(self) -> int:
        """-O level where nobody says."""
        return LEVEL

    def knows(self, target: str, version: str) -> bool:
        """Whether this LLVM writes modules of this target and PTX ISA version, by asking it."""
        with self.opened(0) as front_end:
            return front_end.writes(target, version)

    def opened(self, level: int) -> LlvmliteFrontEnd:
        """Return the compiler, with a process of its own."""
        return LlvmliteFrontEnd(Path(self.path), level=level)


def by_command(command: str) -> Installed:
    """Return a command that makes PTX of LLVM IR."""
    check_there(stages(command), f"llvm:{command}")
    return LlvmCommand(
        language="llvm", version=command, spelled=f"llvm:{command}", path=command, level=LEVEL
    )


def in_folder(folder: Path) -> Installed:
    """Return opt and llc of a folder, or of its bin.

    Raises
    ------
    UsageError
        If they are not there.
    """
    command = build_command(folder)
    return LlvmCommand(
        language="llvm", version=command, spelled=f"llvm:{folder}", path=str(folder), level=LEVEL
    )


def _installed() -> Path | None:
    """Return the folder in which this Python's llvmlite lies, if it has one."""
    spec = find_spec("llvmlite")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent.parent


def _of(folder: Path, version: str | None = None) -> Llvmlite:
    number = version or _version(folder)
    return Llvmlite(language="llvm", version=number, spelled=f"llvm:{number}", path=str(folder))


@cache
def _version(folder: Path) -> str:
    with LlvmliteFrontEnd(folder, level=0) as front_end:
        return front_end.version


def discover() -> list[Installed]:
    """Return the LLVM of this Python's llvmlite and those that were fetched, newest first."""
    found = {one.version: one for one in _fetched()}
    if (folder := _installed()) is not None:
        with contextlib.suppress(InfrastructureError):
            one = _of(folder)
            found.setdefault(one.version, one)
    return sorted(found.values(), key=lambda one: one.order, reverse=True)


def _fetched() -> Iterator[Llvmlite]:
    for folder in _folder().glob(f"{_FETCHED}[0-9]*"):
        version = folder.name.removeprefix(_FETCHED)
        if RELEASE.fullmatch(version) and (folder / "llvmlite").is_dir():
            yield _of(folder, version)


def _folder() -> Path:
    return cache_folder() / "front-ends"


def download(version: str, progress: Progress | None = None) -> Installed:
    """Download an LLVM and unpack it into the user's cache folder.

    Raises
    ------
    UsageError
        If there is no wheel of this version.
    InfrastructureError
        If it cannot be downloaded, or does not work.
    """
    if version not in WHEELS:
        raise UsageError(
            f"there is no wheel of LLVM {version or 'without a version'}; there are "
            f"{', '.join(f'llvm:{one}' for one in WHEELS)}"
        )
    target = _folder()
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
    with temporary_folder(target) as folder:
        wheel = downloaded(
            f"llvmlite=={WHEELS[version]}.*", folder, what=f"LLVM {version}", progress=progress,
            options=("--python-version", _PYTHON),
        )  # fmt: skip
        return _unpacked(wheel, target)


def _unpacked(wheel: Path, target: Path) -> Llvmlite:
    """Unpack a wheel under another name and rename it, so that it is there whole or not at all."""
    with writing(target):
        fresh = Path(tempfile.mkdtemp(prefix="fresh-", dir=target))
    try:
        with writing(fresh):
            _extract(wheel, fresh)
        with LlvmliteFrontEnd(fresh, level=0) as front_end:
            version = front_end.version
        final = target / f"{_FETCHED}{version}"
        with writing(target):
            shutil.rmtree(final, ignore_errors=True)
            fresh.chmod(0o755)
            fresh.rename(final)
        return _of(final, version)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _extract(wheel: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in filter(_PACKAGE.fullmatch, archive.namelist()):
                path = folder / name
                if ".." in Path(name).parts or name.endswith("/"):
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                unpack_member(archive, name, path)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise InfrastructureError(f"{wheel.name} is not a wheel: {error}; fetch it again") from None
    note = {"wheel": wheel.name, "member": "llvmlite"}
    (folder / "origin.json").write_text(json.dumps(note, indent=2) + "\n")
