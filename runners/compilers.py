"""Compilers that a person names: versions, files, folders, all, the driver's; fetched if needed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oracle.errors import UsageError
from runners.assemblers.assembler import Assembler, identify
from runners.assemblers.discovery import discover
from runners.assemblers.fetching import fetch
from runners.front_ends.discovery import LANGUAGES
from runners.front_ends.discovery import discover as discover_front_ends
from runners.front_ends.discovery import fetch as fetch_front_end
from runners.front_ends.discovery import find as find_front_end
from runners.front_ends.discovery import named as front_ends_named
from runners.front_ends.protocol import Installed
from runners.wheels import Progress

DRIVER = "driver"
"""Name of the compiler inside the driver."""
LEVELS = (0, 1, 2, 3)
"""-O levels of ptxas and of the driver's compiler (ptxas --help, 11.7 to 13.5)."""
RELEASES = (
    "11.7", "11.8", "12.0", "12.1", "12.2", "12.3", "12.4", "12.5", "12.6", "12.8", "12.9", "13.0",
    "13.1", "13.2", "13.3", "13.4", "13.5",
)  # fmt: skip
"""Releases of which there are wheels with a ptxas (the package index, 2026-11)."""
_RELEASE = re.compile(r"\d+(\.\d+)*")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A compiler that is here, or one that can be fetched."""

    name: str
    """What it is called here: the full version of a ptxas, such as "V13.5.37", or "llvm:15.0.7";
    what can be fetched where it is not here yet: "13.5", "llvm:15"."""
    order: tuple[int, ...]
    """Key that sorts older before newer."""
    here: Assembler | Installed | None
    """None until it is fetched."""


@dataclass(frozen=True, kw_only=True)
class Selected:
    """The compilers of a matrix or a bisection."""

    candidates: tuple[Candidate, ...]
    """Oldest first, each version once."""
    driver: bool
    """Whether the driver's compiler is one more."""


def parse_levels(text: str | None) -> tuple[int, ...]:
    """Return the -O levels that a text such as "0,1,2,3" names; all of them where it is None.

    Raises
    ------
    UsageError
        If it names something else.
    """
    if text is None:
        return LEVELS
    parts = [part.strip().removeprefix("-O").removeprefix("O") for part in text.split(",")]
    if not all(part in map(str, LEVELS) for part in parts):
        raise UsageError(
            f"--opt {text} names no -O levels; give some of {', '.join(map(str, LEVELS))}, with "
            "commas between them"
        )
    return tuple(sorted({int(part) for part in parts}))


def select(text: str | None) -> Selected:
    """Return the compilers that a text names.

    Parameters
    ----------
    text
        With commas between them: versions ("12.4"), paths of a ptxas, folders in which some lie,
        "installed" for all that are here, "all" for every release, and "driver". None is
        "installed".

    Raises
    ------
    UsageError
        If it names something that is no compiler, or none.
    """
    found: dict[tuple[int, ...], Candidate] = {}
    driver = False
    for word in (part.strip() for part in ("installed" if text is None else text).split(",")):
        if word == DRIVER:
            driver = True
            continue
        for candidate in _named(word):
            found.setdefault(candidate.order, candidate)
    if not found and not driver:
        raise UsageError(
            "no ptxas is here; name some with --compilers, as versions, paths or `all`, or fetch "
            "them with `warpfuzz compilers fetch 13.5`"
        )
    ordered = sorted(found.values(), key=lambda one: one.order)
    return Selected(candidates=tuple(ordered), driver=driver)


def select_front_ends(spelled: Sequence[str]) -> Selected:
    """Return the front ends that texts name, older versions first, commands last.

    Parameters
    ----------
    spelled
        As `runners.front_ends.discovery.named` takes them.

    Raises
    ------
    UsageError, InfrastructureError
        If one is not here.
    """
    found = {one.spelled: one for one in map(find_front_end, front_ends_named(spelled))}
    languages = list(LANGUAGES)
    ordered = sorted(
        found.values(), key=lambda one: (languages.index(one.language), not one.order, one.order)
    )
    return Selected(
        candidates=tuple(Candidate(name=one.spelled, order=one.order, here=one) for one in ordered),
        driver=False,
    )


def front_ends_of(language: str) -> Selected:
    """Return the versions of a language's front end that are here, oldest first.

    Raises
    ------
    UsageError
        If there is none.
    """
    here = [one.spelled for one in discover_front_ends() if one.language == language]
    if not here:
        raise UsageError(
            f"no front end of {language} is here; fetch some with `warpfuzz compilers fetch "
            f"{language}:VERSION`"
        )
    return select_front_ends(here)


def fetched(candidate: Candidate, fetch: Callable[[str], Assembler | Installed]) -> Candidate:
    """Return a candidate that is here.

    Raises
    ------
    UsageError, InfrastructureError
        As `runners.assemblers.fetching.fetch` does.
    """
    if candidate.here is not None:
        return candidate
    return replace(candidate, here=fetch(candidate.name))


def all_fetched(selected: Selected, fetch: Callable[[str], Assembler | Installed]) -> Selected:
    """Return compilers that are all here. Raises as `fetched` does."""
    candidates = tuple(fetched(one, fetch) for one in selected.candidates)
    return replace(selected, candidates=candidates)


def _named(word: str) -> Sequence[Candidate]:
    if word in ("installed", "all"):
        here = [_here(one) for one in discover().assemblers]
        if word == "installed":
            return here
        releases = {one.order[:2] for one in here}
        missing = [one for one in map(_to_fetch, RELEASES) if one.order not in releases]
        return [*here, *missing]
    path = Path(word).expanduser()
    if word and path.is_dir():
        return _in_folder(path)
    if path.is_file():
        return [_here(identify(path))]
    if _RELEASE.fullmatch(word):
        matching = [one for one in discover().assemblers if one.has_version(word)]
        return [_here(matching[0]) if matching else _to_fetch(word)]
    raise UsageError(
        f"{word!r} names no compiler; give a version such as 12.4, the path of a ptxas or of a "
        f"folder with some, `installed`, `all`, or `{DRIVER}`"
    )


def _in_folder(folder: Path) -> Sequence[Candidate]:
    """Return every ptxas in a folder: files, or one in each folder in it."""
    found = []
    for path in sorted([*folder.glob("ptxas*"), *folder.glob("*/ptxas*"), *folder.glob("bin/*")]):
        if path.is_file() and path.name.startswith("ptxas"):
            with contextlib.suppress(UsageError):  # a file that only has such a name
                found.append(_here(identify(path)))
    if not found:
        raise UsageError(f"no ptxas is in {folder}, or in a folder in it; name their paths")
    return found


def _here(assembler: Assembler) -> Candidate:
    return Candidate(name=assembler.version, order=assembler.order, here=assembler)


def _to_fetch(release: str) -> Candidate:
    order = tuple(int(part) for part in release.split("."))
    return Candidate(name=release, order=order, here=None)


def fetched_compiler(name: str, progress: Progress | None = None) -> Assembler | Installed:
    """Return a ptxas ("13.5") or a front end ("llvm:15") that is fetched if it is not here.

    Raises
    ------
    UsageError, InfrastructureError
        As `runners.assemblers.fetching.fetch` does.
    """
    return fetch_front_end(name, progress) if ":" in name else fetch(name, progress)
