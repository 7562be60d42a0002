"""Toolchains: compilers that are here, as values that processes pass on to each other.

Each kind says the same of itself: which modules it takes, at which levels, and what compiles with
it. `runners.compilers` finds them by what a person types.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Unpack

from oracle.errors import InfrastructureError, UsageError
from oracle.isa.targets import VERSIONS, PtxVersion
from oracle.program.program import Program
from runners.cuda.compilation import DEFAULT_LEVEL, LEVELS, Compiler, CompilerLimits, DriverCompiler
from runners.folders import cache_folder, temporary_folder, writing
from runners.processes import Tool, helper

VERSION = re.compile(r"\d{1,4}(\.\d{1,4}){0,3}")
"""What a person types for a version: "15", "12.4.131"."""
_NAMED = re.compile(r"([a-z]+)(?::(.*))?", re.DOTALL)
_TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH")
_TOOLKIT_FOLDER = Path("/usr/local")  # where NVIDIA's installers put cuda-13.5 and the like


@dataclass(frozen=True, kw_only=True)
class Toolchain(ABC):
    """A compiler that is here; an InfrastructureError says if it cannot be run after all."""

    kind: str
    """"ptxas", "driver", or the language that a front end reads: "llvm", "nvcc", "nvrtc"."""
    version: str  # version, such as "V13.5.37" or "15.0.7"; for a command, the command
    spelled: str = field(default="", compare=False)  # what a person types to have it

    writes_ptx: ClassVar[bool] = False  # whether it is given programs and writes PTX: a front end
    default_level: ClassVar[int] = DEFAULT_LEVEL  # -O level where nobody says
    line_bytes: ClassVar[int] = 1
    """Alignment of wmma addresses in bytes, if the language requires more than PTX."""

    @property
    def levels(self) -> tuple[int, ...]:
        """-O levels that it has."""
        return LEVELS

    @property
    def label(self) -> str:
        """What a finding calls it: "V13.5.37", "llvm:15.0.7", "driver"."""
        return self.version

    @property
    def named(self) -> str:
        """The compiler's name in a sentence: "ptxas V13.5.37", "llvm:15.0.7"."""
        return self.label

    @property
    def order(self) -> tuple[int, ...]:
        """Key that sorts older versions before newer ones; empty for what has none."""
        return version_order(self.version.removeprefix("V"))

    def has_version(self, version: str) -> bool:
        """Whether this is what "13", "13.5" or "13.5.37" names."""
        parts = version_order(version)
        return self.order[: len(parts)] == parts

    def says(self, program: Program) -> bool:
        """Whether it is given programs like this one; what reads PTX is given all."""
        return True

    @abstractmethod
    def knows(self, target: str, version: str, architecture: str) -> bool:
        """Whether it compiles modules of a target and PTX ISA version for an architecture."""

    @abstractmethod
    def newest(self, target: str, architecture: str) -> PtxVersion | None:
        """Return the newest PTX ISA version of such modules; None if it knows none."""

    @abstractmethod
    def compiler(self, level: int, **limits: Unpack[CompilerLimits]) -> Compiler:
        """Return what compiles at a level; the caller closes it."""


@dataclass(frozen=True, kw_only=True)
class Driver(Toolchain):
    """The compiler inside the driver of the device."""

    kind: str = "driver"
    version: str = "driver"
    spelled: str = field(default="driver", compare=False)

    def knows(self, target: str, version: str, architecture: str) -> bool:
        """Whether it compiles such modules: the device says so when it loads them."""
        return True

    def newest(self, target: str, architecture: str) -> PtxVersion:
        """Return the newest version there is: what the driver reads decides."""
        return VERSIONS[-1]

    def compiler(self, level: int, **limits: Unpack[CompilerLimits]) -> DriverCompiler:
        """Return what gives PTX to the driver at a level."""
        return DriverCompiler(level=level)


DRIVER = Driver()


def version_order(version: str) -> tuple[int, ...]:
    """Return a key that sorts older versions before newer ones; empty for what is none."""
    return tuple(map(int, version.split("."))) if VERSION.fullmatch(version) else ()


class ToolOrigin(StrEnum):
    """Where a program was found."""

    GIVEN = "given"
    PATH = "PATH"
    TOOLKIT = "toolkit"
    WHEEL = "wheel"
    CACHE = "cache"


def places(program: str) -> Iterator[tuple[Path, ToolOrigin]]:
    """Iterate over where a program of the toolkit may be: PATH, toolkit folders, wheels."""
    for folder in os.get_exec_path():
        if folder:
            yield Path(folder) / program, ToolOrigin.PATH
    given = [Path(folder) for folder in map(os.environ.get, _TOOLKIT_VARIABLES) if folder]
    for toolkit in (*given, *sorted(_TOOLKIT_FOLDER.glob("cuda*"), reverse=True)):
        yield toolkit / "bin" / program, ToolOrigin.TOOLKIT
    for name in HOLDING[program]:
        with suppress(importlib.metadata.PackageNotFoundError):
            for file in importlib.metadata.files(name) or []:
                if file.parts[-2:] == ("bin", program):
                    yield Path(str(file.locate())), ToolOrigin.WHEEL


def parted(spelled: str) -> tuple[str, str]:
    """Return the language that the name of a front end begins with, and what is after the colon.

    Raises UsageError if it begins with none.
    """
    found = _NAMED.fullmatch(spelled.strip())
    if found is None:
        raise UsageError(
            f"{spelled!r:.200} names no front end; give a language, and after a colon a version, a "
            "folder or a command, such as llvm, llvm:15 or 'llvm:my-llc {level}'"
        )
    return found[1], (found[2] or "").strip()


def names_program(spelled: str) -> bool:
    """Whether the name of a front end has a folder or a command in it, and no mere version."""
    which = parted(spelled)[1]
    return bool(which) and VERSION.fullmatch(which) is None


def each(spelled: Sequence[str]) -> tuple[str, ...]:
    """Return the front ends that texts name, each once: versions may have commas between them."""
    found: dict[str, None] = {}
    for text in spelled:
        parts = [part.strip() for part in text.split(",")]
        plain = all(_NAMED.fullmatch(part) and not names_program(part) for part in parts)
        found |= dict.fromkeys(parts if plain else [text])
    return tuple(found)


# Fetched ones: which wheels hold what; pip downloads them, so that the user's index settings hold

RELEASES = (
    "11.7", "11.8", "12.0", "12.1", "12.2", "12.3", "12.4", "12.5", "12.6", "12.8", "12.9", "13.0",
    "13.1", "13.2", "13.3", "13.4", "13.5",
)  # fmt: skip
"""Releases of CUDA of which there are wheels (the package index, 2026-11)."""
HOLDING = {
    "ptxas": ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc-cu11"),
    "nvcc": ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc-cu11"),
    "nvdisasm": ("nvidia-cuda-nvdisasm",),
}
"""Distributions that hold a program, where a person installed them."""
_LLVMLITE = {14: "0.43", 15: "0.44", 20: "0.47", 22: "0.50"}
"""Release of llvmlite that carries a major version of LLVM (asked of the wheels of 0.43 to 0.50,
2026-11)."""
_LLVMLITE_PYTHON = "3.11"
"""Python of the wheel that is fetched. llvmlite reaches LLVM through ctypes, so that any later
Python runs it, too (0.43 to 0.50 with 3.11 to 3.13, tried 2026-11)."""
# Nothing of cccl 13.4 is there (2026-11); cuda_fp16.h takes one header of it, nv/target.
_HEADERS = (
    "nvidia-cuda-runtime=={release}.*", "nvidia-cuda-crt=={release}.*",
    "nvidia-cuda-cccl>=13.0,<13.{next}",
)  # fmt: skip
_VERSION = re.compile(r"(\d+)\.(\d+)(\.\d+)?")
_LICENCE = r"[^/]+\.dist-info/(?:licenses/)?(licen[cs]e[^/]*)"
_TOP = r"nvidia/(?:cu\d+|cuda_\w+|nvvm)/"
_OFFERED = re.compile(r"\(from versions: ([^)]*)\)")
_COMPLAINT = re.compile(r"^(?:ERROR|WARNING).*", re.MULTILINE)
_MEMBER_BYTES = 256 << 20
"""Most bytes of a file of a wheel; a ptxas of CUDA 13 has 51 MB, the library of llvmlite 0.43
134 MB (2026-11)."""


@dataclass(frozen=True, kw_only=True)
class Wheels:
    """Which wheels hold a toolchain, and what of them is kept."""

    title: str  # what is in them, for messages
    releases: tuple[str, ...]  # versions that can be fetched, oldest first
    unlisted: bool = False  # whether pip is asked for other releases, too
    distributions: Mapping[int, tuple[str, ...]]
    """By major version, the newest also for later ones: what pip is asked for, the compiler last.
    {exact} is the version, {release} the release, {next} the minor one behind it."""
    kept: str  # expression for the files that are kept; its first group is where, in the folder
    needed: str  # what the last wheel has to hold, for messages
    folder: str  # below the user's cache folder; in it one folder each
    prefix: str = ""  # text before the version in the name of that folder
    options: tuple[str, ...] = ()  # more options of `pip download`
    spelled: str = ""  # what a message has before each of the releases

    def requirements(self, version: str) -> list[str]:
        """Return what pip is asked for; UsageError if there is no wheel of a version."""
        match, oldest = _VERSION.fullmatch(version), min(self.distributions)
        release = f"{match[1]}.{match[2]}" if match else version
        asked = self.unlisted and match is not None and int(match[1]) >= oldest
        if release not in self.releases and not asked:
            there = ", ".join(self.spelled + one for one in self.releases)
            raise UsageError(f"there is no wheel of {self.title} {version!r}; there are {there}")
        major, _, minor = release.partition(".")
        exact = f"=={version}" if match and match[3] else f"=={release}.*"
        following = int(minor or 0) + 1
        own = self.distributions[min(int(major), max(self.distributions))]
        return [one.format(exact=exact, release=release, next=following) for one in own]


WHEELS = {
    "ptxas": Wheels(
        title="ptxas", releases=RELEASES, unlisted=True, folder="assemblers",
        distributions={
            11: ("nvidia-cuda-nvcc-cu11{exact}",), 12: ("nvidia-cuda-nvcc-cu12{exact}",),
            13: ("nvidia-cuda-nvcc{exact}",),
        },
        kept=r"(?:.*/)?bin/(ptxas)", needed="bin/ptxas",
    ),
    "llvm": Wheels(
        title="LLVM", releases=tuple(map(str, _LLVMLITE)), folder="front-ends", prefix="llvm-",
        spelled="llvm:",
        distributions={llvm: (f"llvmlite=={one}.*",) for llvm, one in _LLVMLITE.items()},
        kept=r"(llvmlite/.*)", needed="llvmlite",
        options=("--python-version", _LLVMLITE_PYTHON),
    ),
    # The wheels of CUDA 11 and 12 hold no nvcc. It is unpacked as a toolkit's folder.
    "nvcc": Wheels(
        title="nvcc", releases=tuple(one for one in RELEASES if one.startswith("13.")),
        distributions={13: (*_HEADERS, "nvidia-nvvm{exact}", "nvidia-cuda-nvcc{exact}")},
        folder="front-ends", prefix="nvcc-", needed="bin/nvcc",
        kept=rf"{_TOP}(bin/nvcc(?:\.profile)?|nvvm/bin/cicc|nvvm/libdevice/.*|include/.*)",
    ),
    "nvrtc": Wheels(
        title="nvrtc", releases=RELEASES, folder="front-ends", prefix="nvrtc-",
        distributions={
            **{
                major: (
                    f"nvidia-cuda-runtime-cu{major}=={{release}}.*",
                    f"nvidia-cuda-nvcc-cu{major}=={{release}}.*",
                    f"nvidia-cuda-nvrtc-cu{major}{{exact}}",
                )
                for major in (11, 12)
            },
            13: (*_HEADERS, "nvidia-cuda-nvrtc{exact}"),
        },
        kept=rf"{_TOP}(lib/libnvrtc(?:-builtins)?\.so[.\d]*|include/.*)",
        needed="lib/libnvrtc.so",
    ),
}  # fmt: skip
"""By the name of a toolchain."""


def fetched_folders(name: str) -> Iterator[tuple[Path, str]]:
    """Iterate over the folders of what was fetched under a name, each with its version."""
    prefix = WHEELS[name].prefix
    for folder in sorted((cache_folder() / WHEELS[name].folder).glob(f"{prefix}[0-9]*")):
        yield folder, folder.name.removeprefix(prefix)


def fetched(name: str, version: str, version_of: Callable[[Path], str] | None = None) -> Path:
    """Download a version such as "13.5" or "12.4.131", and unpack it as `unpacked` does.

    Raises UsageError if the version is none, or does not exist; the message lists those that do.
    InfrastructureError if there is no pip, no network or no space, or nothing in it works.
    """
    row = WHEELS[name]
    requirements = row.requirements(version)
    with temporary_folder(_made(row)) as room:
        what = f"{row.title} {version}"
        wheels = [
            _downloaded(wanted, room / str(number), row.options, what)
            for number, wanted in enumerate(requirements)
        ]
        return unpacked(name, wheels, version_of)


def unpacked(
    name: str, wheels: Sequence[Path], version_of: Callable[[Path], str] | None = None
) -> Path:
    """Unpack the wheels of a toolchain into the user's cache folder; return its folder.

    It is there whole or not at all, with the licence and a note of where both come from.
    `version_of` tells the version of what lies in a folder by running it; what is there already
    and works stays. None: the version is that of the last wheel, and what is there is replaced.
    Raises InfrastructureError if a wheel is broken, nothing works, or nothing can be written.
    """
    row, last = WHEELS[name], wheels[-1]
    target = _made(row)
    with temporary_folder(target) as room, writing(target):
        fresh = room / "fresh"
        fresh.mkdir()
        kept = [_extract(wheel, row, fresh) for wheel in wheels][-1]
        if not kept:
            raise InfrastructureError(f"{last.name} holds no {row.needed}; fetch another version")
        note = {"wheels": [wheel.name for wheel in wheels], "member": kept[-1]}
        (fresh / "origin.json").write_text(json.dumps(note, indent=2) + "\n")
        try:
            # The name of a wheel has its version behind the first dash.
            version = version_of(fresh) if version_of else last.name.split("-")[1]
        except UsageError as error:
            said = f"{last.name} holds no working {row.title}: {error}"
            raise InfrastructureError(said) from None
        final = target / f"{row.prefix}{version}"
        with contextlib.suppress(UsageError, InfrastructureError):
            if version_of is not None and final.is_dir() and version_of(final):
                return final
        shutil.rmtree(final, ignore_errors=True)
        try:
            fresh.rename(final)
        except OSError as error:
            # Where another process was faster, its folder stays.
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        return final


def _made(row: Wheels) -> Path:
    folder = cache_folder() / row.folder
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _extract(wheel: Path, row: Wheels, folder: Path) -> list[str]:
    """Unpack what is kept of a wheel; return its names there, the licence left out."""
    wanted = re.compile(rf"(?:{row.kept})|{_LICENCE}", re.IGNORECASE)
    kept = []
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                name = member.filename
                found = wanted.fullmatch(name)
                if found is None or member.is_dir() or ".." in Path(name).parts:
                    continue
                if member.file_size > _MEMBER_BYTES:  # no more is read, whatever is packed
                    most = f"{name} has more than {_MEMBER_BYTES >> 20} MiB"
                    raise zipfile.BadZipFile(most)
                path = folder / (found[1] or found[2])
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as source, path.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
                if found[1]:
                    kept.append(name)
                if "bin" in Path(name).parts:
                    path.chmod(0o755)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise InfrastructureError(f"{wheel.name} is not a wheel: {error}; fetch it again") from None
    return kept


def _downloaded(wanted: str, folder: Path, options: Sequence[str], what: str) -> Path:
    """Download a wheel ("nvidia-cuda-nvcc==13.5.*", as pip reads it); `what` is "ptxas 13.5"."""
    folder.mkdir()
    command = helper(
        "pip", "download", "--no-deps", "--no-input", "--disable-pip-version-check",
        "--only-binary=:all:", "--dest", str(folder), "--progress-bar=off", *options, wanted,
    )  # fmt: skip
    # pip keeps what it has not finished in its own temporary folder, which goes with ours.
    environment = {**os.environ, "TMPDIR": str(folder)}
    pip = Tool(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, environment=environment)
    try:
        told = pip.process.communicate()[0].decode(errors="replace")
    finally:
        pip.kill()
    wheels = sorted(folder.glob("*.whl"))
    if pip.process.returncode == 0 and wheels:
        return wheels[0]
    if "No module named pip" in told:
        raise InfrastructureError(
            f"this Python ({sys.executable}) has no pip to fetch with; install it (`python -m "
            "ensurepip`), or give the path of a compiler that is here"
        )
    offered = _OFFERED.search(told)
    if offered and offered[1].strip() not in ("", "none"):
        raise UsageError(
            f"there is no wheel of {what} for this machine; the package that would have it has "
            f"{offered[1]}"
        )
    reason = (_COMPLAINT.findall(told) or told.splitlines() or ["nothing"])[-1]
    raise InfrastructureError(
        f"pip could not download {wanted}: it said {reason!r}; check the network and pip's index "
        f"settings (`pip config list`), or try `pip download {wanted}`"
    )
