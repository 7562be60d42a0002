"""Fetching assemblers: a wheel through pip, so that the user's own index settings hold."""

from __future__ import annotations

import contextlib
import errno
import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.assembler import Assembler, Origin, identify
from runners.assemblers.discovery import fetched_folder
from runners.folders import temporary_folder, writing
from runners.wheels import Progress, downloaded, unpack_member

DISTRIBUTIONS = {13: "nvidia-cuda-nvcc", 12: "nvidia-cuda-nvcc-cu12", 11: "nvidia-cuda-nvcc-cu11"}
"""Distribution that holds the ptxas of each major version; the newest also of later ones."""
_VERSION = re.compile(r"(\d+)\.(\d+)(\.\d+)?")
_MEMBER = re.compile(r"(?:.*/)?bin/ptxas")
_LICENCE = re.compile(r"[^/]+\.dist-info/(?:licenses/)?licen[cs]e[^/]*", re.IGNORECASE)
ORIGIN_NAME = "origin.json"


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
        return unpack(downloaded(wanted, folder, what=f"ptxas {version}", progress=progress))


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
                unpack_member(archive, name, folder / Path(name).name)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise InfrastructureError(f"{wheel.name} is not a wheel: {error}; fetch it again") from None
    (folder / "ptxas").chmod(0o755)
    note = {"wheel": wheel.name, "member": program}
    (folder / ORIGIN_NAME).write_text(json.dumps(note, indent=2) + "\n")
