"""`python compile_once.py FOLDER COMPILER ARGUMENTS...`: what was compiled before is copied.

Every worker of the tests, and every process of theirs that needs the reference, would compile the
same text, for 5 s of a core each. What was made is known by the options and by the text behind its
`#include`s.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path


def compiled(folder: Path, compiler: str, arguments: list[str]) -> int:
    """Compile, or copy what the same options made of the same text; return the exit status."""
    if "-o" not in arguments:
        return subprocess.call([compiler, *arguments])
    at = arguments.index("-o")
    output, options = Path(arguments[at + 1]), [*arguments[:at], *arguments[at + 2 :]]
    text = subprocess.run([compiler, *options, "-E", "-P"], capture_output=True)
    if text.returncode != 0:
        return subprocess.call([compiler, *arguments])
    own = [one for one in options if not os.path.exists(one.removeprefix("-I"))]  # noqa: PTH110
    key = hashlib.sha256("\0".join((compiler, *own, "")).encode() + text.stdout).hexdigest()
    made = folder / key
    with (folder / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            status = subprocess.call([compiler, *arguments])
            if status == 0:
                shutil.copy(output, made.with_suffix(".part"))
                made.with_suffix(".part").rename(made)
            return status
    shutil.copy(made, output)
    return 0


if __name__ == "__main__":
    sys.exit(compiled(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
