"""What a screening has counted: for each multiprocessor, and for a device as a whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from runners.ledger import ROWS, Ledger

_RULE_OF_THREE = 3.0
"""None in n: with 95 % confidence the rate is below 3/n, because (1 - 3/n)^n is about exp(-3), 0.05
(Hanley and Lippman-Hand, JAMA 1983, "If nothing goes wrong, is everything all right?")."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often something came out wrong."""

    cases: int
    wrong: int

    @property
    def value(self) -> float | None:
        """Wrong ones of all; None if there are none."""
        return self.wrong / self.cases if self.cases else None

    @property
    def bound(self) -> float | None:
        """Below which the rate is with 95 % confidence; known where nothing was wrong."""
        return _RULE_OF_THREE / self.cases if self.cases and not self.wrong else None

    def __str__(self) -> str:
        """Return it in words, such as "1 in 4,000,000" or "none in 2.1e+09, below 1.4e-09"."""
        if not self.cases:
            return "not run"
        if self.bound is not None:
            return f"none in {self.cases:,}, below {self.bound:.1e}"
        if self.wrong == self.cases:
            return f"always ({self.cases:,} times)"
        return f"{self.wrong:,} of {self.cases:,}, 1 in {self.cases / self.wrong:,.0f}"


@dataclass(kw_only=True)
class Tally:
    """Counts of one device."""

    cases: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(ROWS, np.uint64))
    """(ROWS,) images that each multiprocessor ran and compared."""
    wrong: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(ROWS, np.uint64))
    """(ROWS,) those of them that differed."""
    bits: Counter[int] = field(default_factory=Counter)
    """By number of the bit in its element, counted from the lowest: how many elements differed in
    it, of the images that were kept."""
    programs: Counter[str] = field(default_factory=Counter)
    """By program: how many images differed."""

    def add(self, ledger: Ledger, entry: str) -> None:
        """Count a launch of a program."""
        self.cases += ledger.finished
        self.wrong += ledger.wrong
        wrong = int(ledger.wrong.sum())
        if wrong:
            self.programs[entry] += wrong

    @property
    def multiprocessors(self) -> NDArray[np.intp]:
        """Numbers of those that ran anything."""
        return np.flatnonzero(self.cases)

    @property
    def faulty(self) -> NDArray[np.intp]:
        """Numbers of those on which something differed."""
        return np.flatnonzero(self.wrong)

    @property
    def total(self) -> Rate:
        """The rate of the device."""
        return Rate(cases=int(self.cases.sum()), wrong=int(self.wrong.sum()))

    def rate(self, sm: int) -> Rate:
        """Return the rate of a multiprocessor."""
        return Rate(cases=int(self.cases[sm]), wrong=int(self.wrong[sm]))

    @property
    def pattern(self) -> str:
        """Say whether it is always the same unit, bit or instruction; empty if nothing differed."""
        if not self.faulty.size:
            return ""
        where = (
            f"always multiprocessor {self.faulty[0]}"
            if self.faulty.size == 1
            else f"{self.faulty.size} of {self.multiprocessors.size} multiprocessors"
        )
        bit = f"always bit {next(iter(self.bits))}" if len(self.bits) == 1 else "several bits"
        programs = f"{len(self.programs)} program{'s' if len(self.programs) != 1 else ''}"
        return f"{where}, {bit}, in {programs}"
