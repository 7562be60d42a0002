"""Machine code of warpfuzz's own kernels, kept for the processes that come after.

None of programs under test: those are compiled anew each time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections.abc import Callable

from runners.folders import cache_folder

_FOLDER = "machine code"
_DIGEST_BYTES = hashlib.sha256().digest_size


def kept_code(identity: str, made: Callable[[], bytes | None]) -> bytes | None:
    """Return machine code that was kept, or have it made and keep it.

    The driver takes 6 to 12 s for the reference while others work (H200, 2026-11-28), and so would
    each process that replaces one whose context is lost. While one has it made, the others wait.

    Parameters
    ----------
    identity
        All that it depends on.
    made
        Makes it; None if that fails, and then nothing is kept.
    """
    name = hashlib.sha256(identity.encode()).hexdigest()
    with contextlib.ExitStack() as stack:
        file = None
        # Without a folder that can be written it is made each time.
        with contextlib.suppress(OSError):
            folder = cache_folder() / _FOLDER
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context((folder / name).open("a+b"))
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            digest, code = file.read(_DIGEST_BYTES), file.read()
            # Of one that was written in part, as when a disk is full, it is not the digest.
            if digest == hashlib.sha256(code).digest():
                return code
        new = made()
        if file is not None and new is not None:
            with contextlib.suppress(OSError):
                file.truncate(0)
                file.write(hashlib.sha256(new).digest() + new)
                file.flush()
        return new
