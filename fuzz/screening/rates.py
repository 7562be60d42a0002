"""How often something came out wrong, with its bound."""

from __future__ import annotations

from dataclasses import dataclass

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
