"""Ranges of versions, such as ">=12.0,<13.2"."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from oracle.errors import UsageError

Numbers = tuple[int, ...]

_OPERATORS: dict[str, Callable[[Numbers, Numbers], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_BOUND = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*(\d{1,9}(?:\.\d{1,9}){0,9})\s*", re.ASCII)
_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,9}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class VersionRange:
    """Bounds that a version has to keep, all of them.

    A version is compared by as many numbers as the bound has, so that "<=12.8" and "==12.8" hold
    for 12.8.93: the bounds name releases, and assemblers name builds.
    """

    bounds: tuple[tuple[str, Numbers], ...]

    def __contains__(self, version: str) -> bool:
        """Whether a version, such as "V13.5.37", keeps every bound; one without numbers does not.

        Numbers that it lacks count as zero.
        """
        found = _NUMBERS.search(version)
        if found is None:
            return False
        numbers = _numbers(found[0])
        return all(
            _OPERATORS[sign]((*numbers, *(0,) * len(bound))[: len(bound)], bound)
            for sign, bound in self.bounds
        )


def parse_range(text: str) -> VersionRange:
    """Return the range that a text such as ">=12.0,<13.2" names.

    Raises
    ------
    UsageError
        If it names none.
    """
    bounds = []
    for part in text.split(","):
        found = _BOUND.fullmatch(part)
        if found is None:
            raise UsageError(
                f"{text!r} is no range of versions: {part.strip()!r} has to be one of "
                f"{', '.join(_OPERATORS)} and a version; write it like '>=12.0,<13.2'"
            )
        bounds.append((found[1], _numbers(found[2])))
    return VersionRange(bounds=tuple(bounds))


def _numbers(text: str) -> Numbers:
    return tuple(int(number) for number in text.split("."))
