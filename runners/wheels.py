"""Wheels: downloading one through pip, so that the user's own index settings hold."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from oracle.errors import InfrastructureError, UsageError
from runners.folders import disk_full
from runners.processes import helper

_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
# The first pip that prints progress for programs to read (pip changelog, 24.1).
_RAW_PROGRESS = (24, 1)
_PIP_VERSION = re.compile(r"pip (\d+)\.(\d+)")
_OFFERED = re.compile(r"\(from versions: ([^)]*)\)")
_MEMBER_BYTES = 256 << 20
"""Most bytes of a file of a wheel; a ptxas of CUDA 13 has 51 MB, the library of llvmlite 0.43
134 MB (2026-11)."""
_PART_BYTES = 1 << 20

Progress = Callable[[int, int], None]
"""Told the bytes that are there and the bytes that there will be."""


def downloaded(
    wanted: str,
    folder: Path,
    *,
    what: str,
    progress: Progress | None = None,
    options: Sequence[str] = (),
) -> Path:
    """Download a wheel.

    Parameters
    ----------
    wanted
        Distribution and version, as pip reads them: "nvidia-cuda-nvcc==13.5.*".
    folder
        Where it is put.
    what
        What is in it, for messages: "ptxas 13.5".
    progress
        Called as the download goes on; not at all where pip is older than 24.1.
    options
        More options of `pip download`.

    Raises
    ------
    UsageError
        If there is no such version; the message lists those that there are.
    InfrastructureError
        If there is no pip, no network or no space.
    """
    raw = progress is not None and _pip_version() >= _RAW_PROGRESS
    command = helper(
        "pip", "download", "--no-deps", "--no-input",
        "--disable-pip-version-check", "--only-binary=:all:", "--dest", str(folder),
        f"--progress-bar={'raw' if raw else 'off'}", *options, wanted,
    )  # fmt: skip
    # pip keeps what it has not finished in its own temporary folder, which goes with ours.
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    told = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env=environment,
    ) as pip:  # fmt: skip
        if pip.stdout is None:
            raise InfrastructureError("pip could not be listened to")
        try:
            for line in pip.stdout:
                counted = _PROGRESS.search(line)
                if counted is None:
                    told.append(line.strip())
                elif progress is not None:
                    progress(int(counted[1]), int(counted[2]))
        except BaseException:
            pip.kill()
            raise
    if pip.returncode != 0:
        raise _pip_error("\n".join(told), wanted, what, folder)
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        raise InfrastructureError(
            f"pip downloaded no wheel of {wanted}; try `pip download {wanted}`"
        )
    return wheels[0]


def _pip_error(told: str, wanted: str, what: str, folder: Path) -> Exception:
    """Return a sentence for what pip said."""
    if "No module named pip" in told:
        return InfrastructureError(
            f"this Python ({sys.executable}) has no pip to fetch with; install it (`python -m "
            "ensurepip`), or give the path of a compiler that is here"
        )
    if "No space left" in told or os.strerror(errno.EDQUOT) in told:
        return disk_full(folder)
    offered = _OFFERED.search(told)
    if offered and offered[1].strip() not in ("", "none"):
        releases = sorted(
            {".".join(one.split(".")[:2]) for one in offered[1].split(", ") if _is_release(one)},
            key=lambda one: tuple(map(int, one.split("."))),
        )
        return UsageError(
            f"there is no wheel of {what} for this machine; of this kind there are "
            f"{', '.join(releases) or 'none'}"
        )
    reason = next(
        (line for line in reversed(told.splitlines()) if line.startswith(("ERROR", "WARNING"))),
        told.splitlines()[-1] if told else "nothing",
    )
    return InfrastructureError(
        f"pip could not download {wanted}: it said {reason!r}; check the network and pip's index "
        f"settings (`pip config list`), or try `pip download {wanted}`"
    )


def _is_release(version: str) -> bool:
    return re.fullmatch(r"[1-9]\d*(\.\d+)+", version) is not None


def _pip_version() -> tuple[int, int]:
    told = subprocess.run(
        helper("pip", "--version"), capture_output=True, text=True, check=False
    ).stdout
    match = _PIP_VERSION.search(told)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def unpack_member(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    """Unpack a file of a wheel; BadZipFile if it is larger than any that there is."""
    room = _MEMBER_BYTES
    with archive.open(name) as source, path.open("wb") as sink:
        while part := source.read(_PART_BYTES):
            room -= len(part)
            if room < 0:
                raise zipfile.BadZipFile(f"{name} has more than {_MEMBER_BYTES >> 20} MiB")
            sink.write(part)
