"""Hypothesis as a source of draws that mean the same on every machine.

Its own source of randomness is made for tests: one integer in twenty is a constant of a module that
lies outside of site-packages, so that a seed means one thing in a clone, another where it is
installed; and small integers and bounds are several times as likely as others, so that the first
forms of a list would be. Here bounded integers are uniform and come from the seed alone.
"""

from __future__ import annotations

from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

BACKEND = "warpfuzz"
"""Value for the setting `backend`."""


class UniformProvider(HypothesisProvider):
    """Draws bounded integers uniformly; everything else as Hypothesis does."""

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        """Draw an integer; uniform where it has two bounds, whatever its weights."""
        if min_value is None or max_value is None or self._random is None:
            return super().draw_integer(
                min_value, max_value, weights=weights, shrink_towards=shrink_towards
            )
        return self._random.randint(min_value, max_value)


AVAILABLE_PROVIDERS[BACKEND] = f"{__name__}.{UniformProvider.__name__}"
