"""What was reached up to which round, so that a round knows the same whoever runs it when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from fuzz.coverage import Coverage
from fuzz.value_rounds import epoch_known


class Reached:
    """Coverage of the committed rounds, the newest of them apart."""

    def __init__(self) -> None:
        self.total = Coverage()
        """All of it."""
        self._base = Coverage()
        self._first = 0
        """Rounds before this one are in the base."""
        self._rounds: dict[int, Coverage] = {}

    def add(self, number: int, reached: Coverage) -> None:
        """Add what a round, or a part of one, has reached."""
        self.total.merge(reached)
        self._rounds.setdefault(number, Coverage()).merge(reached)

    def known_to(self, number: int) -> Coverage:
        """Return what a round takes into account; every round before that is committed."""
        known = Coverage()
        known.merge(self._base)
        for earlier in range(self._first, epoch_known(number)):
            if earlier in self._rounds:
                known.merge(self._rounds[earlier])
        return known

    def settle(self, following: int) -> None:
        """Put together what every round from `following` on takes into account."""
        for earlier in range(self._first, epoch_known(following)):
            reached = self._rounds.pop(earlier, None)
            if reached is not None:
                self._base.merge(reached)
            self._first = earlier + 1

    def state(self) -> dict[str, object]:
        """Return all of it as JSON takes it."""
        return {
            "base": self._base.state(),
            "first": self._first,
            "rounds": {str(number): one.state() for number, one in self._rounds.items()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, object]) -> Self:
        """Return what `state` was called of.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is something else.
        """
        made = cls()
        base, first, rounds = state["base"], state["first"], state["rounds"]
        if not (isinstance(base, dict) and isinstance(first, int) and isinstance(rounds, dict)):
            raise TypeError("coverage has the fields base, first and rounds")
        made._base, made._first = Coverage.from_state(base), first
        made._rounds = {int(number): Coverage.from_state(one) for number, one in rounds.items()}
        for part in (made._base, *made._rounds.values()):
            made.total.merge(part)
        return made
