"""How often something is repeated, so that what fails now and then is not missed."""

from __future__ import annotations

import math

from corpus import Finding

MISSED = 1e-3
"""Probability with which a failure of the known rate may be overlooked."""
_LEAST = 2
"""Runs of what fails every time: one that is not repeated says nothing about being flaky."""
_MOST = 10_000
"""Runs after which the search gives up on rarer failures; the chance that is left is reported."""


def repeats_for(rate: float) -> int:
    """Return how many runs miss a failure of this rate with a probability below `MISSED`.

    All n runs pass with a probability of (1 - rate)^n.

    Parameters
    ----------
    rate
        Share of runs that fail, above 0 and up to 1.
    """
    if rate >= 1:
        return _LEAST
    if rate <= 0:
        return _MOST
    return max(_LEAST, min(_MOST, math.floor(math.log(MISSED) / math.log1p(-rate)) + 1))


def missed(rate: float, times: int) -> float:
    """Return the probability that `times` runs all pass although each fails with this rate."""
    return float((1 - min(max(rate, 0.0), 1.0)) ** times)


def rate_of(finding: Finding) -> float:
    """Return the share of a finding's runs that failed when it was confirmed; 1 if none is told."""
    runs, failed = finding.details.get("runs"), finding.details.get("failed runs")
    if isinstance(runs, int) and isinstance(failed, int) and 0 < failed <= runs:
        return failed / runs
    rate = finding.details.get("rate")
    if isinstance(rate, float) and 0 < rate <= 1:
        return rate
    return 1.0
