"""Fetching assemblers: a wheel through pip, so that the user's own index settings hold."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.assembler import Assembler, Origin, identify
from runners.assemblers.discovery import fetched_folder
from runners.folders import disk_full, temporary_folder, writing
from runners.processes import helper

DISTRIBUTIONS = {13: "nvidia-cuda-nvcc", 12: "nvidia-cuda-nvcc-cu12", 11: "nvidia-cuda-nvcc-cu11"}
"""Distribution that holds the ptxas of each major version; the newest also of later ones."""
_VERSION = re.compile(r"(\d+)\.(\d+)(\.\d+)?")
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
# The first pip that prints progress for programs to read (pip changelog, 24.1).
_RAW_PROGRESS = (24, 1)
_PIP_VERSION = re.compile(r"pip (\d+)\.(\d+)")
_OFFERED = re.compile(r"\(from versions: ([^)]*)\)")
_MEMBER = re.compile(r"(?:.*/)?bin/ptxas")
_LICENCE = re.compile(r"[^/]+\.dist-info/(?:licenses/)?licen[cs]e[^/]*", re.IGNORECASE)
ORIGIN_NAME = "origin.json"
_MEMBER_BYTES = 256 << 20
"""Most bytes of an assembler or a licence, unpacked; a ptxas of CUDA 13 has 51 MB (2026-11)."""
_PART_BYTES = 1 << 20

Progress = Callable[[int, int], None]
"""Told the bytes that are there and the bytes that there will be."""


def fetch(version: str, progress: Progress | None = None) -> Assembler:
    """Download an assembler and unpack it into the user's cache folder, unless it is there.

    Parameters
    ----------
    version : str
        "13.5", or a full version such as "12.4.131".
    progress : callable, optional
        Called as the download goes on; not at all where pip is older than 24.1.

    Raises
    ------
    UsageError
        If the version is none, or does not exist; the message lists those that do.
    InfrastructureError
        If there is no pip, no network or no space, or the wheel holds no working ptxas.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise UsageError(
            f'{version!r} is not a version; they are written like "13.5" or "12.4.131"'
        )
    major = int(match[1])
    if major < min(DISTRIBUTIONS):
        raise UsageError(f"there is no wheel of ptxas {version}; the oldest are 11.7 and 11.8")
    here = [one for one in _fetched() if one.has_version(version)]
    if here:
        return max(here, key=lambda one: one.order)
    name = DISTRIBUTIONS[min(major, max(DISTRIBUTIONS))]
    wanted = f"{name}=={version}" + ("" if match[3] else ".*")
    target = _made_folder()
    with temporary_folder(target) as folder:
        _download(wanted, folder, version, progress)
        wheels = sorted(folder.glob("*.whl"))
        if not wheels:
            raise InfrastructureError(
                f"pip downloaded no wheel of {wanted}; try `pip download {wanted}`"
            )
        return unpack(wheels[0])


def unpack(wheel: Path) -> Assembler:
    """Unpack the assembler of a wheel into the user's cache folder.

    The folder is made complete under another name and then renamed, so that it is there whole or
    not at all. It holds the assembler, the licence and a note of where both come from.

    Raises
    ------
    InfrastructureError
        If the wheel is broken or holds no working ptxas, or the folder cannot be written.
    """
    target = _made_folder()
    with writing(target):
        fresh = Path(tempfile.mkdtemp(prefix="fresh-", dir=target))
    try:
        with writing(fresh):
            _extract(wheel, fresh)
        found = _identified(wheel, fresh / "ptxas")
        final = target / found.version.removeprefix("V")
        with writing(target):
            # Where another process was faster, its folder stays.
            if not (final / "ptxas").is_file():
                shutil.rmtree(final, ignore_errors=True)
                fresh.chmod(0o755)
                _rename(fresh, final)
        return identify(final / "ptxas", Origin.CACHE)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _made_folder() -> Path:
    folder = fetched_folder()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _fetched() -> Iterator[Assembler]:
    for path in fetched_folder().glob("[0-9]*/ptxas"):
        with contextlib.suppress(UsageError):  # a damaged one is fetched again
            yield identify(path, Origin.CACHE)


def _identified(wheel: Path, program: Path) -> Assembler:
    try:
        return identify(program)
    except UsageError as error:
        raise InfrastructureError(f"{wheel.name} holds no working ptxas: {error}") from None


def _rename(fresh: Path, final: Path) -> None:
    try:
        fresh.rename(final)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


def _extract(wheel: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            program = next((name for name in names if _MEMBER.fullmatch(name)), None)
            if program is None:
                raise InfrastructureError(f"{wheel.name} holds no bin/ptxas; fetch another version")
            for name in (program, *filter(_LICENCE.fullmatch, names)):
                _unpack_member(archive, name, folder / Path(name).name)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise InfrastructureError(f"{wheel.name} is not a wheel: {error}; fetch it again") from None
    (folder / "ptxas").chmod(0o755)
    note = {"wheel": wheel.name, "member": program}
    (folder / ORIGIN_NAME).write_text(json.dumps(note, indent=2) + "\n")


def _unpack_member(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    room = _MEMBER_BYTES
    with archive.open(name) as source, path.open("wb") as sink:
        while part := source.read(_PART_BYTES):
            room -= len(part)
            if room < 0:
                raise zipfile.BadZipFile(f"{name} has more than {_MEMBER_BYTES >> 20} MiB")
            sink.write(part)


def _download(wanted: str, folder: Path, version: str, progress: Progress | None) -> None:
    raw = progress is not None and _pip_version() >= _RAW_PROGRESS
    command = helper(
        "pip", "download", "--no-deps", "--no-input",
        "--disable-pip-version-check", "--only-binary=:all:", "--dest", str(folder),
        f"--progress-bar={'raw' if raw else 'off'}", wanted,
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
        raise _pip_error("\n".join(told), wanted, version, folder)


def _pip_error(told: str, wanted: str, version: str, folder: Path) -> Exception:
    """Return a sentence for what pip said."""
    if "No module named pip" in told:
        return InfrastructureError(
            f"this Python ({sys.executable}) has no pip to fetch with; install it (`python -m "
            "ensurepip`), or give the path of a ptxas with --assembler"
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
            f"there is no wheel of ptxas {version} for this machine; of this CUDA there are "
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
