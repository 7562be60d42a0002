"""Finding the assemblers of this machine, and choosing one."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oracle.errors import UsageError
from runners.assemblers.answers import cache_folder
from runners.assemblers.assembler import Assembler, Origin, identify

WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc-cu11")
"""Distributions that hold a ptxas: of CUDA 13, 12 and 11."""
_TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH")
_TOOLKIT_FOLDER = Path("/usr/local")  # where NVIDIA's installers put cuda-13.5 and the like
_NAME = "ptxas"
_RELEASE = re.compile(r"\d+(\.\d+)*")


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search found."""

    assemblers: tuple[Assembler, ...]
    """Newest first; each version once, from the place that was searched first."""
    problems: tuple[str, ...]
    """A sentence for each file that is called ptxas and is none."""


def fetched_folder() -> Path:
    """Return the folder where fetched assemblers are unpacked, one folder each."""
    return cache_folder() / "assemblers"


def discover() -> Found:
    """Search PATH, the toolkit folders, the installed wheels and the cache."""
    found: dict[str, Assembler] = {}
    problems = []
    seen: set[Path] = set()
    for path, origin in _all_places():
        real = path.resolve()
        if real in seen or not path.is_file():
            continue
        seen.add(real)
        try:
            assembler = identify(path, origin)
        except UsageError as error:
            problems.append(str(error))
        else:
            found.setdefault(assembler.version, assembler)
    newest_first = sorted(found.values(), key=lambda one: one.order, reverse=True)
    return Found(assemblers=tuple(newest_first), problems=tuple(problems))


def find(wanted: str | None = None) -> Assembler:
    """Return one assembler.

    Parameters
    ----------
    wanted : str, optional
        A path, or a version such as "13.5" or "13.5.37"; the newest where it is not given.

    Raises
    ------
    UsageError
        If there is none such; the message lists those that are here.
    """
    if wanted is not None and _RELEASE.fullmatch(wanted) is None:
        return identify(Path(wanted).expanduser())
    assemblers = discover().assemblers
    if wanted is None:
        matching = assemblers
    else:
        matching = tuple(one for one in assemblers if one.has_version(wanted))
    if matching:
        return matching[0]
    here = ", ".join(one.version for one in assemblers) or "none"
    asked = "no ptxas is here" if wanted is None else f"no ptxas {wanted} is here"
    raise UsageError(
        f"{asked} (found: {here}); fetch one with `warpfuzz compilers fetch {wanted or '13.0'}`, "
        "install one with `pip install nvidia-cuda-nvcc`, or give its path"
    )


def places(program: str) -> Iterator[tuple[Path, Origin]]:
    """Iterate over where a program of the toolkit may be: PATH, toolkit folders, wheels."""
    for folder in os.get_exec_path():
        if folder:
            yield Path(folder) / program, Origin.PATH
    for variable in _TOOLKIT_VARIABLES:
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin" / program, Origin.TOOLKIT
    for toolkit in sorted(_TOOLKIT_FOLDER.glob("cuda*"), reverse=True):
        yield toolkit / "bin" / program, Origin.TOOLKIT
    for name in WHEELS:
        for path in _in_wheel(name, program):
            yield path, Origin.WHEEL


def _all_places() -> Iterator[tuple[Path, Origin]]:
    yield from places(_NAME)
    for path in sorted(fetched_folder().glob(f"[0-9]*/{_NAME}")):
        yield path, Origin.CACHE


def _in_wheel(name: str, program: str) -> Iterator[Path]:
    try:
        files = importlib.metadata.files(name) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for file in files:
        if file.parts[-2:] == ("bin", program):
            yield Path(str(file.locate()))
