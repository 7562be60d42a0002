"""Draws, counts and simplifies what is tested: instructions, programs and contents.

Strategies of Hypothesis draw; the rounds of a campaign are functions of a seed, of the number of
the round and of what was reached before it. Nothing here knows how a case is run or judged.
`samples` draws programs with their contents for tests of one's own (`docs/library.md`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.lazy import lazily

if TYPE_CHECKING:
    from strategies.api import *  # noqa: F403

__getattr__ = lazily(__name__)
