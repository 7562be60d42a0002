"""Compilers by the names that a person types: versions, files, folders, commands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.assembler import Assembler, identify
from runners.cuda.compilation import LEVELS
from runners.front_ends.languages import Llvmlite, Nvcc, Nvrtc
from runners.front_ends.protocol import FrontEndToolchain
from runners.toolchains import (
    DRIVER,
    VERSION,
    WHEELS,
    Toolchain,
    ToolOrigin,
    each,
    fetched_folders,
    parted,
    places,
    version_order,
)
from runners.toolchains import fetched as fetched_wheels
from runners.variants import PLAIN, Variant, split_variant

T = TypeVar("T", bound=Toolchain)

ALL = "all"  # in place of a front end: every one that is here
LANGUAGES: dict[str, type[FrontEndToolchain]] = {one.kind: one for one in (Llvmlite, Nvcc, Nvrtc)}
"""Front ends, by the word before the colon in their names."""


class FoundCompiler(NamedTuple):
    """What a search for assemblers found."""

    assemblers: tuple[Assembler, ...]
    """Newest first; each version once, from the place that was searched first."""
    problems: tuple[str, ...] = ()  # A sentence for each file that is called ptxas and is none


# Finding


def discover_assemblers() -> FoundCompiler:
    """Search PATH, the toolkit folders, the installed wheels and the cache."""
    found: dict[str, Assembler] = {}
    problems, seen = list[str](), set[Path]()
    for path, origin in _assembler_places():
        if path.resolve() in seen or not path.is_file():
            continue
        seen.add(path.resolve())
        try:
            assembler = identify(path, origin)
        except UsageError as error:
            problems.append(str(error))
        else:
            found.setdefault(assembler.version, assembler)
    return FoundCompiler(tuple(_newest_first(found.values())), tuple(problems))


def _newest_first(assemblers: Iterable[Assembler]) -> list[Assembler]:
    return sorted(assemblers, key=lambda one: one.order, reverse=True)


def _assembler_places() -> list[tuple[Path, ToolOrigin]]:
    in_cache = [(folder / "ptxas", ToolOrigin.CACHE) for folder, _ in fetched_folders("ptxas")]
    return [*places("ptxas"), *in_cache]


def is_discovered(path: str) -> bool:
    """Whether `discover_assemblers` looks at a file of this path: nobody has to name it."""
    return any(str(place) == path for place, _ in _assembler_places())


def discover_front_ends() -> list[FrontEndToolchain]:
    """Return all front ends that are installed or were fetched, newest first in each language."""
    return [one for language in LANGUAGES.values() for one in language.discover()]


def find_assembler(wanted: str | None = None) -> Assembler:
    """Return the assembler of a path or a version such as "13.5"; the newest without one.

    Options stand behind it: "13.5+maxrregcount=32". Raises UsageError if there is none such; the
    message lists those that are here.
    """
    name, variant = split_variant(wanted or "")
    if variant:
        return find_assembler(name).having(variant)
    if wanted is not None and VERSION.fullmatch(wanted) is None:
        return identify(Path(wanted).expanduser(), spelled=wanted)
    assemblers = discover_assemblers().assemblers
    found = _newest(assemblers, wanted)
    if found is not None:
        return found if wanted is None else replace(found, spelled=wanted)
    raise UsageError(
        f"no ptxas {f'{wanted} ' if wanted else ''}is here (found: {_versions(assemblers)}); fetch "
        f"one with `warpfuzz compilers fetch {wanted or '13.0'}`, install one with `pip install "
        "nvidia-cuda-nvcc`, or give its path"
    )


def named_assembler(wanted: str, *, elsewhere: bool = False) -> Assembler:
    """Return an assembler as `find_assembler` does; what is wrong with a file, campaigns find.

    Elsewhere: it is looked for on the hosts of a fleet, if it is not here.
    """
    name, variant = split_variant(wanted)
    path = Path(name)
    try:
        return find_assembler(wanted)
    except UsageError:
        if not path.is_file() and not elsewhere:
            raise
        return Assembler(path=path, spelled=wanted, variant=variant)


def find_front_end(spelled: str) -> FrontEndToolchain:
    """Return the front end of a name: "llvm" (the newest), "llvm:15", "llvm:FOLDER" or a command.

    Raises UsageError if there is none such.
    """
    name, which = parted(spelled)
    language = _language(name, spelled)
    if which and not VERSION.fullmatch(which):
        folder = Path(which).expanduser()
        return language.in_folder(folder) if folder.is_dir() else language.by_command(which)
    here = language.discover()
    found = _newest(here, which or None)
    if found is None:
        raise UsageError(
            f"no {name} {which or 'at all'} is here (found: {_versions(here)}); fetch one with "
            f"`warpfuzz compilers fetch {name}:{which or WHEELS[name].releases[-1]}`, or give "
            f"`{name}:FOLDER`{f' or `{name}:COMMAND`' if language.takes_commands else ''}"
        )
    return found


def find_front_ends(spelled: Sequence[str]) -> tuple[FrontEndToolchain, ...]:
    """Return the front ends that texts name, each once; "all" names those that are here."""
    found: list[FrontEndToolchain] = []
    for name in each(spelled):
        here = discover_front_ends() if name == ALL else [find_front_end(name)]
        if not here:
            raise UsageError(
                "no front end is here; fetch one with `warpfuzz compilers fetch "
                f"llvm:{WHEELS['llvm'].releases[-1]}`"
            )
        found += here
    return tuple({one.spelled: one for one in found}.values())


def assembler_on_this_host(assembler: Assembler) -> Assembler:
    """Return an assembler as it lies here, of a fleet's hosts: by its name if not at its path."""
    return assembler if assembler.path.is_file() else find_assembler(assembler.spelled)


def front_end_on_this_host(front_end: FrontEndToolchain) -> FrontEndToolchain:
    """Return a front end as it lies here, of a fleet's hosts: by its name if not at its path."""
    is_here = not version_order(front_end.version) or Path(front_end.path).exists()
    return front_end if is_here else find_front_end(front_end.spelled)


def _newest(here: Sequence[T], version: str | None) -> T | None:
    return next((one for one in here if version is None or one.has_version(version)), None)


def _versions(here: Sequence[Toolchain]) -> str:
    return ", ".join(one.version for one in here) or "none"


def _language(name: str, spelled: str) -> type[FrontEndToolchain]:
    if name not in LANGUAGES:
        raise UsageError(
            f"{spelled!r:.200} names no front end; there are {', '.join(LANGUAGES)}, each alone or "
            f"with a version, a folder or a command after a colon, and {ALL}"
        )
    return LANGUAGES[name]


# Fetching


def fetched_compiler(name: str) -> Assembler | FrontEndToolchain:
    """Return a ptxas ("13.5") or a front end ("llvm:15") that is fetched if it is not here.

    Raises UsageError if there is no such version, InfrastructureError if it cannot be downloaded,
    or does not work.
    """
    if ":" not in name:
        return fetched_assembler(name)
    kind, version = parted(name)
    language = _language(kind, name)
    found = _newest(language.discover(), version) if VERSION.fullmatch(version) else None
    if found is None:
        folder = fetched_wheels(kind, version, language.version_of)
        found = language.in_cache(folder, folder.name.removeprefix(WHEELS[kind].prefix))
    if found is None:
        raise InfrastructureError(f"{folder} holds no {kind}; fetch another version")
    return found


def fetched_assembler(version: str) -> Assembler:
    """Return the newest assembler of a version in the cache, fetched unless it is there."""
    version, variant = split_variant(version)
    WHEELS["ptxas"].requirements(version)  # refuses what is no version
    here = []
    for folder, _ in fetched_folders("ptxas"):
        with contextlib.suppress(UsageError):  # a damaged one is fetched again
            here.append(identify(folder / "ptxas", ToolOrigin.CACHE))
    found = _newest(_newest_first(here), version) or identify(
        fetched_wheels("ptxas", version, assembler_version) / "ptxas", ToolOrigin.CACHE
    )
    return found.having(variant) if variant else found


def assembler_version(folder: Path) -> str:
    """Return the version of the ptxas in a folder of the cache; UsageError if it does not work."""
    return identify(folder / "ptxas").version.removeprefix("V")


# Choosing several


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A compiler that is here, or one that can be fetched."""

    name: str
    """What it is called here: the full version of a ptxas, such as "V13.5.37", or "llvm:15.0.7";
    what can be fetched where it is not here yet: "13.5", "llvm:15"."""
    order: tuple[int, ...]  # key that sorts older before newer
    here: Toolchain | None = None  # none until it is fetched

    def having(self, variant: Variant) -> Candidate:
        """Return the same ptxas with some options, unless it has some."""
        if not variant or split_variant(self.name)[1]:
            return self
        here = self.here.having(variant) if isinstance(self.here, Assembler) else None
        return replace(self, name=f"{self.name}{variant}", here=here)


@dataclass(frozen=True, kw_only=True)
class Selected:
    """The compilers of a matrix or a bisection."""

    candidates: tuple[Candidate, ...]
    """Oldest first, each version once; those with options behind the others."""
    driver: bool = False  # whether the driver's compiler is one more

    @property
    def toolchains(self) -> tuple[Toolchain, ...]:
        """The compilers that are here, oldest first; UsageError if one is not."""
        missing = next((one.name for one in self.candidates if one.here is None), None)
        if missing is not None:
            raise UsageError(
                f"ptxas {missing} is not here; fetch it with `warpfuzz compilers fetch {missing}`"
            )
        return tuple(one.here for one in self.candidates if one.here is not None)

    def having(self, *variants: Variant) -> Selected:
        """Return each ptxas that has no options with each of some variants."""
        made = (one.having(variant) for variant in variants for one in self.candidates)
        return replace(self, candidates=tuple({one.name: one for one in made}.values()))


def parse_levels(text: str | None) -> tuple[int, ...]:
    """Return the -O levels that a text such as "0,1,2,3" names; all of them where it is None."""
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
    """Return the compilers that a text names; UsageError for what is no compiler, or for none.

    Between commas: versions ("12.4"), paths of a ptxas, folders with some, "installed" (as None),
    "all" for every release, "driver"; options stand behind each: "12.4+maxrregcount=32".
    """
    found: dict[tuple[Variant, tuple[int, ...]], Candidate] = {}
    variants, driver = [PLAIN], False
    for part in ("installed" if text is None else text).split(","):
        word, variant = split_variant(part.strip())
        if word == DRIVER.kind:
            if variant:
                raise UsageError(
                    f"{part} names options of the driver's compiler; name a ptxas instead"
                )
            driver = True
            continue
        variants.append(variant)
        for candidate in _named(word):
            found.setdefault((variant, candidate.order), candidate.having(variant))
    if not found and not driver:
        raise UsageError(
            "no ptxas is here; name some with --compilers, as versions, paths or `all`, or fetch "
            "them with `warpfuzz compilers fetch 13.5`"
        )
    ordered = sorted(found, key=lambda key: (variants.index(key[0]), key[1]))
    return Selected(candidates=tuple(map(found.__getitem__, ordered)), driver=driver)


def front_ends_selected(front_ends: Sequence[FrontEndToolchain]) -> Selected:
    """Return front ends as compilers of a matrix, older versions first, commands last."""
    languages = list(LANGUAGES)
    ordered = sorted(
        front_ends, key=lambda one: (languages.index(one.kind), not one.order, one.order)
    )
    return Selected(candidates=tuple(map(_here, ordered)))


def front_ends_of(language: str) -> Selected:
    """Return the versions of a language's front end that are here, oldest first."""
    find_front_end(language)  # refuses a language of which none is here
    return front_ends_selected([one for one in discover_front_ends() if one.kind == language])


def fetched(candidate: Candidate, fetch: Callable[[str], Toolchain]) -> Candidate:
    """Return a candidate that is here; raises as `fetched_compiler` does."""
    return candidate if candidate.here else replace(candidate, here=fetch(candidate.name))


def all_fetched(selected: Selected, fetch: Callable[[str], Toolchain]) -> Selected:
    """Return compilers that are all here. Raises as `fetched_compiler` does."""
    return replace(selected, candidates=tuple(fetched(one, fetch) for one in selected.candidates))


def _named(word: str) -> Sequence[Candidate]:
    path = Path(word).expanduser()
    if word in ("installed", ALL):
        here = [_here(one) for one in discover_assemblers().assemblers]
        releases = {one.order[:2] for one in here}
        known = WHEELS["ptxas"].releases if word == ALL else ()
        return [*here, *(one for one in map(_to_fetch, known) if one.order not in releases)]
    if word and path.is_dir():
        found = []
        for file in sorted([*path.glob("ptxas*"), *path.glob("*/ptxas*"), *path.glob("bin/*")]):
            if file.is_file() and file.name.startswith("ptxas"):
                with contextlib.suppress(UsageError):  # a file that only has such a name
                    found.append(_here(identify(file)))
        if not found:
            raise UsageError(f"no ptxas is in {path}, or in a folder in it; name their paths")
        return found
    if path.is_file():
        return [_here(identify(path))]
    if VERSION.fullmatch(word):
        matching = _newest(discover_assemblers().assemblers, word)
        return [_to_fetch(word) if matching is None else _here(matching)]
    raise UsageError(
        f"{word!r} names no compiler; give a version such as 12.4, the path of a ptxas or of a "
        f"folder with some, `installed`, `all`, or `{DRIVER.kind}`; --front-end takes compilers "
        "above PTX, such as llvm:20"
    )


def _here(toolchain: Toolchain) -> Candidate:
    return Candidate(name=toolchain.label, order=toolchain.order, here=toolchain)


def _to_fetch(release: str) -> Candidate:
    return Candidate(name=release, order=tuple(map(int, release.split("."))))
