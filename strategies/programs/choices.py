"""Decisions of a program, several to a drawn integer.

A draw costs more than what is decided by it, so that decisions which belong together (all about
one access, all about one multiplication) are the digits of one integer. Every digit 0 stands for
the plainest choice: an integer that shrinks to 0 makes everything about its access plain at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

_DIGITS = st.integers(0, (1 << 60) - 1)
"""More than the product of the radices of any group, by so much that digits are uniform."""


class Dice:
    """The digits of one drawn integer, each in a base of its own."""

    def __init__(self, value: int) -> None:
        self._rest = value

    def below(self, bound: int) -> int:
        """Return a digit from 0 to `bound`, exclusive."""
        self._rest, digit = divmod(self._rest, bound)
        return digit

    def one_of(self, items: Sequence[T]) -> T:
        """Return an item; the first is the plainest."""
        return items[self.below(len(items))]

    def once_in(self, times: int) -> bool:
        """Return True once in so many times; False is the plainest."""
        return self.below(times) == times - 1


class Choices:
    """Where the dice of one program come from."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def dice(self) -> Dice:
        """Draw the digits of a group of decisions."""
        return Dice(self._draw(_DIGITS))
