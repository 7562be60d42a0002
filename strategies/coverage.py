"""What a campaign has reached: counts that steer later rounds, and that people are shown.

A round takes into account what all epochs before the last have reached, so that it is the same
whoever runs how many rounds at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from oracle.errors import InfrastructureError

EPOCH = 16
"""Rounds between two looks at what was reached, at first. A round knows the counts up to the epoch
before the last, whoever runs how many rounds at once."""
LONGEST_EPOCH = 16384
"""Rounds of an epoch late in a campaign: at least so many rounds can be run at once, one for
each worker of 1,000 GPUs with 15 cores. By then, everything that is drawn was reached many
times."""
_SHOWN_MISSING = 8
"""Names of what is missing that a line shows."""


def epoch_known(number: int) -> int:
    """Return how many rounds (0 to that, exclusive) a round takes into account.

    All of the epochs before the last. As many rounds as lie between can be run at once, so epochs
    grow with the number of the round.
    """
    quarter = (1 << number.bit_length()) // 4  # of the next power of two
    epoch = max(EPOCH, min(quarter, LONGEST_EPOCH))
    return max(0, number // epoch - 1) * epoch


def _part(number: int) -> int:
    """Return the first round of the part of a campaign that a round is in.

    `epoch_known` is always the first round of a part: a multiple of EPOCH at first, then a power of
    two, then a multiple of LONGEST_EPOCH.
    """
    whole = (1 << number.bit_length()) // 2  # the last power of two
    length = max(EPOCH, min(whole, LONGEST_EPOCH))
    return number - number % length


@dataclass(frozen=True, kw_only=True)
class CoverageLine:
    """One dimension of what was reached."""

    name: str
    """Name of the dimension: "forms", "stride classes", "value classes"."""
    reached: int
    total: int | None
    """How many there are; None where nobody has counted them."""
    missing: Sequence[str] = ()
    """Some of what was not reached."""

    @classmethod
    def of(cls, name: str, counts: Mapping[str, int]) -> Self:
        """Return the line of a dimension from how often each of its values was reached."""
        missing = [value for value, count in counts.items() if not count]
        return cls(
            name=name,
            reached=len(counts) - len(missing),
            total=len(counts),
            missing=tuple(missing[:_SHOWN_MISSING]),
        )


class Coverage(ABC):
    """Counts of what was reached, by dimension and value.

    A check has a class of its own, with the names of the dimensions that it counts.
    """

    NAMES: ClassVar[tuple[str, ...]]
    """Dimensions that are counted; the first has the forms that cases were about."""

    def __init__(self) -> None:
        self.programs = 0
        """Programs, or other things that were looked at."""
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in self.NAMES}

    @abstractmethod
    def lines(self, forms: Collection[str]) -> Sequence[CoverageLine]:
        """Return how much of each dimension was reached, of these opcodes and of all else."""

    @property
    def forms_reached(self) -> frozenset[str]:
        """Opcodes of documented forms that some case was about."""
        return frozenset(self.counts[self.NAMES[0]])

    def merge(self, other: Self) -> None:
        """Add what another has counted."""
        self.programs += other.programs
        for name, counts in other.counts.items():
            self.counts[name].update(counts)

    def state(self) -> dict[str, Any]:
        """Return the counts as JSON can hold them."""
        counts = {name: dict(counter) for name, counter in self.counts.items()}
        return {"programs": self.programs, **counts}

    @classmethod
    def from_state(cls, state: object) -> Self:
        """Return the counts that `state` gave.

        Raises
        ------
        InfrastructureError
            If they are no such counts.
        """
        made = cls()
        try:
            if not isinstance(state, Mapping):
                raise TypeError("they are no object")
            made.programs = int(str(state["programs"]))
            for name, counter in made.counts.items():
                counts = state[name]
                if not isinstance(counts, Mapping):
                    raise TypeError(f"{name} is no object")
                counter.update({str(key): int(count) for key, count in counts.items()})
        except (KeyError, TypeError, ValueError) as error:
            raise InfrastructureError(
                f"the counts of what was reached cannot be read ({error!r}); delete the campaign's "
                "state and start it anew"
            ) from None
        return made


class Reached:
    """Coverage of the committed rounds, the newest of them apart.

    Parameters
    ----------
    kind
        The counts of the campaign's check.
    """

    def __init__(self, kind: type[Coverage]) -> None:
        self._kind = kind
        self.total = kind()
        """All of it."""
        self._base = kind()
        self._first = 0
        """Rounds before this one, a multiple of EPOCH, are in the base."""
        self._epochs: dict[int, Coverage] = {}
        """By the first round of a part of the campaign; no round knows less than all of one."""
        self._known: tuple[int, Coverage] = (-1, kind())
        """What the last round took into account that was asked for, and up to which round."""

    def add(self, number: int, reached: Coverage) -> None:
        """Add what a round, or a part of one, has reached."""
        self.total.merge(reached)
        self._epochs.setdefault(_part(number), self._kind()).merge(reached)

    def known_to(self, number: int) -> Coverage:
        """Return what a round takes into account; every round before that is committed.

        It is the same object for all rounds of an epoch, and to be read alone.
        """
        if self._known[0] == epoch_known(number):
            return self._known[1]
        known = self._kind()
        known.merge(self._base)
        for earlier in self._before(number):
            known.merge(self._epochs[earlier])
        self._known = epoch_known(number), known
        return known

    def _before(self, number: int) -> list[int]:
        """Return the epochs that a round takes into account and that are not in the base."""
        return sorted(earlier for earlier in self._epochs if earlier < epoch_known(number))

    def settle(self, following: int) -> None:
        """Put together what every round from `following` on takes into account."""
        if epoch_known(following) <= self._first:
            return
        for earlier in self._before(following):
            self._base.merge(self._epochs.pop(earlier))
        self._first = max(self._first, epoch_known(following))

    def state(self) -> dict[str, Any]:
        """Return all of it as JSON takes it."""
        return {
            "base": self._base.state(),
            "first": self._first,
            "epochs": {str(number): one.state() for number, one in self._epochs.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` was called of.

        Raises
        ------
        KeyError, TypeError, ValueError, InfrastructureError
            If it is something else.
        """
        base, first, epochs = state["base"], state["first"], state["epochs"]
        if not (isinstance(base, dict) and isinstance(first, int) and isinstance(epochs, dict)):
            raise TypeError("coverage has the fields base, first and epochs")
        self._base, self._first = self._kind.from_state(base), first
        self._known = -1, self._kind()
        self._epochs = {int(name): self._kind.from_state(one) for name, one in epochs.items()}
        for part in (self._base, *self._epochs.values()):
            self.total.merge(part)
