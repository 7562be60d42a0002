"""What a campaign on values has done so far, as views and reports take it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from corpus import Kind
from fuzz.instruction_progress import Progress
from fuzz.wording import counted


@dataclass
class ValueProgress(Progress):
    """What a campaign against a device has done so far."""

    runner: str = ""
    """What is judged, in words."""
    compiled: int = 0
    """Programs that were compiled."""
    uncompiled: int = 0
    """Programs that were not."""
    missing: int = 0
    """Images without a result, because something among them failed too often."""
    by_kind: Counter[Kind] = field(default_factory=Counter)
    """Images that were judged so, before they were replayed."""
    skipped_rounds: dict[int, str] = field(default_factory=dict)
    """Rounds that nobody could run, and why."""
    judged_so: ClassVar[str] = "compared"
    forms_are: ClassVar[str] = "selected ones"
    agreement: ClassVar[str] = "Every image is what the oracle says."

    @property
    def subject(self) -> str:
        """What is judged."""
        return self.runner

    @property
    def checked(self) -> str:
        """What was looked at, in words."""
        images = counted(self.judged, "whole image")
        return f"{images} of {counted(self.compiled, 'program')}"
