"""Finding front ends, and fetching them: which languages there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from oracle.errors import UsageError
from runners.front_ends import cuda_wheels, llvm, nvcc, nvrtc
from runners.front_ends.protocol import RELEASE, Installed, each, parted
from runners.wheels import Progress


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language in which programs are given to front ends, and who reads it."""

    name: str
    """What stands before the colon: "llvm"."""
    discover: Callable[[], list[Installed]]
    """Those that are installed or were fetched, newest first."""
    in_folder: Callable[[Path], Installed]
    """That of a build or a toolkit."""
    by_command: Callable[[str], Installed] | None
    """A command that reads the language; None where that is none."""
    download: Callable[[str, Progress | None], Installed]
    """That of a version."""
    releases: tuple[str, ...]
    """Versions that can be fetched, oldest first."""


LANGUAGES = {
    one.name: one
    for one in (
        Language(
            name="llvm", discover=llvm.discover, in_folder=llvm.in_folder,
            by_command=llvm.by_command, download=llvm.download, releases=tuple(llvm.WHEELS),
        ),
        Language(
            name="nvcc", discover=nvcc.discover, in_folder=nvcc.in_folder,
            by_command=nvcc.by_command, download=nvcc.download,
            releases=cuda_wheels.RELEASES["nvcc"],
        ),
        Language(
            name="nvrtc", discover=nvrtc.discover, in_folder=nvrtc.in_folder, by_command=None,
            download=nvrtc.download, releases=cuda_wheels.RELEASES["nvrtc"],
        ),
    )
}  # fmt: skip
"""By their names."""


ALL = "all"
"""In place of a front end: every one that is here."""


def _parted(spelled: str) -> tuple[Language, str]:
    name, which = parted(spelled)
    if name not in LANGUAGES:
        raise UsageError(
            f"{spelled!r:.200} names no front end; there are {', '.join(LANGUAGES)}, each alone or "
            f"with a version, a folder or a command after a colon, and {ALL}"
        )
    return LANGUAGES[name], which


def find(spelled: str) -> Installed:
    """Return the front end of a name: "llvm" (the newest), "llvm:15", "llvm:FOLDER" or a command.

    Raises
    ------
    UsageError
        If there is none such.
    InfrastructureError
        If it cannot be run.
    """
    language, which = _parted(spelled)
    name = language.name
    if not which or RELEASE.fullmatch(which):
        here = language.discover()
        found = next((one for one in here if not which or one.has_version(which)), None)
        if found is not None:
            return found
        versions = ", ".join(one.version for one in here) or "none"
        raise UsageError(
            f"no {name} {which or 'at all'} is here (found: {versions}); fetch one with `warpfuzz "
            f"compilers fetch {name}:{which or language.releases[-1]}`, or give `{name}:FOLDER`"
            f"{f' or `{name}:COMMAND`' if language.by_command else ''}"
        )
    folder = Path(which).expanduser()
    if folder.is_dir():
        return language.in_folder(folder)
    if language.by_command is None:
        raise UsageError(f"{spelled!r:.200} names no folder, and commands of {name} are not known")
    return language.by_command(which)


def named(spelled: Sequence[str]) -> tuple[str, ...]:
    """Return the front ends that texts name, each once; "all" names those that are here.

    Raises
    ------
    UsageError
        If all are asked for, and none is here.
    """
    found: list[str] = []
    for one in each(spelled):
        here = [other.spelled for other in discover()] if one == ALL else [one]
        if not here:
            name, version = "llvm", LANGUAGES["llvm"].releases[-1]
            raise UsageError(
                f"no front end is here; fetch one with `warpfuzz compilers fetch {name}:{version}`"
            )
        found += here
    return tuple(dict.fromkeys(found))


def discover() -> list[Installed]:
    """Return all front ends that are installed or were fetched, newest first in each language."""
    return [one for language in LANGUAGES.values() for one in language.discover()]


def fetch(spelled: str, progress: Progress | None = None) -> Installed:
    """Download a front end, such as "llvm:15", unless it is here.

    Raises
    ------
    UsageError
        If there is no such version.
    InfrastructureError
        If it cannot be downloaded.
    """
    language, which = _parted(spelled)
    here = language.discover() if RELEASE.fullmatch(which) else ()
    found = next((one for one in here if one.has_version(which)), None)
    return language.download(which, progress) if found is None else found
