"""Compilers and their -O levels in few words: neighbouring versions are named together.

Those with other options are no neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Protocol, TypeVar

from runners.variants import Variant, split_variant


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
    return ", ".join(span for span, _ in _spans({one.version: (0,) for one in members}, among))


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
    return ", ".join(
        f"{span} {' '.join(f'-O{level}' for level in sorted(own))}"
        for span, own in _spans(levels, among)
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


def _spans(
    levels: Mapping[str, tuple[int, ...]], among: Sequence[Named]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield neighbouring versions with the same levels and options, and the levels."""

    def alike(version: str) -> tuple[tuple[int, ...], Variant]:
        return levels.get(version, ()), split_variant(version)[1]

    for (own, _), group in groupby(dict.fromkeys(one.version for one in among), alike):
        versions = [*group]
        span = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
        if own:
            yield span, own
