"""Compilers and their -O levels in few words: neighbouring versions are named together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Named(Protocol):
    """A compiler at a level."""

    @property
    def version(self) -> str:
        """Such as "V13.5.37"."""
        ...

    @property
    def level(self) -> int:
        """0 to 3."""
        ...


_Named = TypeVar("_Named", bound=Named)


def versions_described(members: Sequence[Named], among: Sequence[Named]) -> str:
    """Name the versions of members, whatever their levels, neighbours together."""
    found = {member.version for member in members}
    groups: list[list[str]] = [[]]
    for version in dict.fromkeys(member.version for member in among):
        if version in found:
            groups[-1].append(version)
        elif groups[-1]:
            groups.append([])
    return ", ".join(_span(versions) for versions in groups if versions)


def described(members: Sequence[Named], among: Sequence[Named]) -> str:
    """Name members, neighbouring versions with the same levels together.

    Parameters
    ----------
    among
        All members, oldest first: which versions are neighbours.
    """
    levels: dict[str, tuple[int, ...]] = {}
    for member in members:
        levels[member.version] = (*levels.get(member.version, ()), member.level)
    groups: list[tuple[tuple[int, ...], list[str]]] = []
    for version in dict.fromkeys(member.version for member in among):
        own = levels.get(version, ())
        if groups and groups[-1][0] == own:
            groups[-1][1].append(version)
        else:
            groups.append((own, [version]))
    return ", ".join(
        f"{_span(versions)} {' '.join(f'-O{level}' for level in sorted(own))}"
        for own, versions in groups
        if own
    )


def spanned(text: str, among: Sequence[_Named]) -> list[_Named]:
    """Return the compilers that a text names which `described` or `versions_described` gave.

    Where it names no levels, all levels of a version are meant.
    """
    versions = list(dict.fromkeys(one.version for one in among))
    found: list[_Named] = []
    for part in text.removeprefix("only ").split(", "):
        names, *levels = part.split(" -O")
        first, _, last = names.partition(" to ")
        if first in versions and (last or first) in versions:
            some = versions[versions.index(first) : versions.index(last or first) + 1]
            found += [
                one
                for one in among
                if one.version in some and (not levels or str(one.level) in levels)
            ]
    return found


def _span(versions: Sequence[str]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
