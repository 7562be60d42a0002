"""What a compiler does with a module that it does not survive, and the smallest such module."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fuzz.reducer import Reducer
from runners.assemblers.judgements import Response, ToolVerdict, normalised
from runners.assemblers.judging import DEADLINE_SECONDS

Ask = Callable[[str, float], ToolVerdict]
"""What a compiler does with a module, in so many seconds at most."""

_SAYING = (Response.ACCEPTED, Response.REJECTED, Response.INTERNAL)
"""Outcomes of which messages say what is wrong; of others how the process ended does."""
_LONGEST = 10.0
"""Times that a smaller module may take of what the whole one took, before it counts as hung."""


@dataclass(frozen=True, kw_only=True)
class CompilerFailure:
    """How a compiler fails on a module."""

    verdict: ToolVerdict
    said: str = ""  # only messages that contain this count
    _keys: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        told = (one for one in self.verdict.messages if self.said in one)
        object.__setattr__(self, "_keys", frozenset(map(self._key, told)))

    def _key(self, message: str) -> str:
        """Return what a message says whatever it numbers and names; all, of what is refused."""
        return message if self.verdict.outcome is Response.REJECTED else normalised([message])

    def is_shown_by(self, verdict: ToolVerdict) -> bool:
        """Whether a compiler fails in the same way: the same outcome, and message or signal."""
        if verdict.outcome is not self.verdict.outcome:
            return False
        if self.said or verdict.outcome in _SAYING:
            return any(self._key(one) in self._keys for one in verdict.messages)
        return verdict.ending == self.verdict.ending

    @property
    def message(self) -> str:
        """What it says, or how it ends where it says nothing."""
        told = (one for one in self.verdict.messages if self._key(one) in self._keys)
        return next(told, self.verdict.ending)

    @property
    def abstracted(self) -> str:
        """The message without its numbers and names, or how it ends."""
        says = self.verdict.outcome in _SAYING and self.verdict.messages
        return normalised([self.message]) if says else self.verdict.ending

    def reducer(
        self, ptx: str, guilty: Ask, innocent: Ask | None, *, took: float, end: float
    ) -> Reducer:
        """Return what makes the module smaller on which it fails.

        `guilty` is the compiler, and took so many seconds over the module; `innocent` accepts it,
        if anybody does, and has to accept what is left of it: so that stays PTX. It ends where
        `time.monotonic()` is `end`.
        """
        hung = self.verdict.outcome is Response.HUNG
        deadline = DEADLINE_SECONDS if hung else max(DEADLINE_SECONDS, _LONGEST * took)

        def left() -> float:
            return min(deadline, max(0.1, end - time.monotonic()))

        def holds(text: str) -> bool:
            shown = self.is_shown_by(guilty(text, left()))
            return shown and (
                innocent is None or innocent(text, left()).outcome is Response.ACCEPTED
            )

        return Reducer(holds, ptx, end=end)
