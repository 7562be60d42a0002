"""What was reached up to which round, so that a round knows the same whoever runs it when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from fuzz.campaign.coverage import Coverage
from fuzz.checks.program_draws import EPOCH, epoch_known


class Reached:
    """Coverage of the committed rounds, the newest of them apart."""

    def __init__(self) -> None:
        self.total = Coverage()
        """All of it."""
        self._base = Coverage()
        self._first = 0
        """Rounds before this one, a multiple of EPOCH, are in the base."""
        self._epochs: dict[int, Coverage] = {}
        """By the first round of an epoch of EPOCH rounds; no round knows a part of one."""

    def add(self, number: int, reached: Coverage) -> None:
        """Add what a round, or a part of one, has reached."""
        self.total.merge(reached)
        self._epochs.setdefault(number - number % EPOCH, Coverage()).merge(reached)

    def known_to(self, number: int) -> Coverage:
        """Return what a round takes into account; every round before that is committed."""
        known = Coverage()
        known.merge(self._base)
        for earlier in range(self._first, epoch_known(number), EPOCH):
            if earlier in self._epochs:
                known.merge(self._epochs[earlier])
        return known

    def settle(self, following: int) -> None:
        """Put together what every round from `following` on takes into account."""
        for earlier in range(self._first, epoch_known(following), EPOCH):
            reached = self._epochs.pop(earlier, None)
            if reached is not None:
                self._base.merge(reached)
            self._first = earlier + EPOCH

    def state(self) -> dict[str, object]:
        """Return all of it as JSON takes it."""
        return {
            "base": self._base.state(),
            "first": self._first,
            "epochs": {str(number): one.state() for number, one in self._epochs.items()},
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
        base, first, epochs = state["base"], state["first"], state["epochs"]
        if not (isinstance(base, dict) and isinstance(first, int) and isinstance(epochs, dict)):
            raise TypeError("coverage has the fields base, first and epochs")
        made._base, made._first = Coverage.from_state(base), first
        made._epochs = {int(number): Coverage.from_state(one) for number, one in epochs.items()}
        for part in (made._base, *made._epochs.values()):
            made.total.merge(part)
        return made
