"""Shrinking an instruction on which assembler and ISA disagree, with Hypothesis."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample, StopTest

from corpus import ShrinkStatus
from strategies.drafts import Draft
from strategies.simplification import parts, simplified

_ATTEMPTS = 40
"""Instructions that Hypothesis tries at most; what it leaves is tried part by part."""


def shrink(
    draft: Draft, disagrees: Callable[[Draft], bool], key: int
) -> tuple[Draft, ShrinkStatus]:
    """Return the plainest instruction that still disagrees in the same way.

    Parameters
    ----------
    draft
        The instruction as it was found.
    disagrees
        Whether an instruction shows the same disagreement.
    key
        Seed; the same gives the same.
    """
    names = parts(draft)
    tried: dict[Draft, bool] = {}

    def fails(kept: list[bool]) -> bool:
        plain = frozenset(name for name, keep in zip(names, kept, strict=True) if not keep)
        candidate = simplified(draft, plain)
        if candidate not in tried and len(tried) >= _ATTEMPTS:
            return False
        return _remembered(candidate, disagrees, tried)

    flags = st.lists(st.booleans(), min_size=len(names), max_size=len(names))
    try:
        kept = find(
            flags,
            fails,
            settings=settings(
                max_examples=_ATTEMPTS,
                database=None,
                deadline=None,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
            random=random.Random(key),
        )
    except (NoSuchExample, StopTest):
        # Nothing plainer was drawn that disagrees; every part may be needed.
        kept = [True] * len(names)
    plain = {name for name, keep in zip(names, kept, strict=True) if not keep}
    # One at a time to the end: Hypothesis tries few draws where only one combination disagrees.
    again = True
    while again:
        again = False
        for name in names:
            candidate = simplified(draft, frozenset(plain | {name}))
            if name not in plain and _remembered(candidate, disagrees, tried):
                plain.add(name)
                again = True
    return simplified(draft, frozenset(plain)), ShrinkStatus.COMPLETE


def _remembered(draft: Draft, disagrees: Callable[[Draft], bool], tried: dict[Draft, bool]) -> bool:
    if draft not in tried:
        tried[draft] = disagrees(draft)
    return tried[draft]
