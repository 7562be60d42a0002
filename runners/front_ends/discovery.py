"""Finding front ends, and fetching them: which languages there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oracle.errors import UsageError
from runners.front_ends import cuda_wheels, llvm, nvcc, nvrtc
from runners.front_ends.protocol import Installed, parted
from runners.wheels import Progress


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language in which programs are given to front ends."""

    find: Callable[[str], Installed]
    """By a version, a folder or a command; "": the one that is installed, or the newest."""
    discover: Callable[[], list[Installed]]
    """All that are here, newest first."""
    fetch: Callable[[str, Progress | None], Installed]
    """By a version."""
    releases: tuple[str, ...]
    """Versions that can be fetched, oldest first."""


LANGUAGES: Mapping[str, Language] = {
    "llvm": Language(
        find=llvm.find, discover=llvm.discover, fetch=llvm.fetch, releases=tuple(llvm.WHEELS)
    ),
    "nvcc": Language(
        find=nvcc.find,
        discover=nvcc.discover,
        fetch=nvcc.fetch,
        releases=cuda_wheels.RELEASES["nvcc"],
    ),
    "nvrtc": Language(
        find=nvrtc.find,
        discover=nvrtc.discover,
        fetch=nvrtc.fetch,
        releases=cuda_wheels.RELEASES["nvrtc"],
    ),
}
"""By the name that stands before the colon."""


def _parted(spelled: str) -> tuple[Language, str]:
    name, which = parted(spelled)
    if name not in LANGUAGES:
        raise UsageError(
            f"{spelled!r:.200} names no front end; there are {', '.join(LANGUAGES)}, each alone or "
            "with a version, a folder or a command after a colon"
        )
    return LANGUAGES[name], which


def find(spelled: str) -> Installed:
    """Return the front end of a name such as "llvm", "llvm:15" or "llvm:COMMAND".

    Raises
    ------
    UsageError
        If there is none such.
    InfrastructureError
        If it cannot be run.
    """
    language, which = _parted(spelled)
    return language.find(which)


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
    return language.fetch(which, progress)
