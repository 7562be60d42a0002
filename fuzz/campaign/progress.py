"""What a campaign against an assembler has done so far, and who is told of it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from fuzz.findings.groups import FamilyState
from fuzz.output import counted
from runners.assemblers.assembler import Assembler


@dataclass
class Progress:
    """What a campaign has done so far."""

    seed: int
    assemblers: tuple[Assembler, ...]
    forms: int
    """Documented forms that the selection covers."""
    started: float = field(default_factory=time.monotonic)
    cases: int = 0
    """Instructions drawn."""
    judged: int = 0
    """Distinct instructions that went to an assembler."""
    rounds: int = 0
    pair: str = ""
    """Target and PTX ISA version of the current round."""
    reached: set[str] = field(default_factory=set)
    """Opcodes of the documented forms that were drawn."""
    agreements: Counter[str] = field(default_factory=Counter)
    """Cases by the oracle's verdict."""
    skipped: int = 0
    """Illegal instructions left out, because others like them killed the assembler."""
    unconfirmed: int = 0
    """Disagreements that were gone when the instruction was assembled by itself."""
    families: dict[str, FamilyState] = field(default_factory=dict)
    """By the key of the family."""
    seconds: float = 0.0
    stopped: str = ""
    """Why the campaign ended; empty while it goes on."""

    judged_so: ClassVar[str] = "different"
    """What the cases are that were judged."""
    forms_are: ClassVar[str] = "documented ones"
    """What the forms are of which some were reached."""
    agreement: ClassVar[str] = "Assembler and ISA agree on every case."
    """What is to be said if nothing was found."""

    @property
    def subject(self) -> str:
        """What is judged."""
        return " and ".join(f"ptxas {assembler.version}" for assembler in self.assemblers)

    @property
    def checked(self) -> str:
        """What was looked at, in words."""
        verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in self.agreements.items())
        drawn = counted(self.agreements.total(), "instruction")
        return f"{drawn} ({verdicts}), {self.judged:,} of them different,"

    @property
    def findings(self) -> list[FamilyState]:
        """Families that nobody has explained yet."""
        return [family for family in self.families.values() if family.known is None]


class Observer(Protocol):
    """Somebody who watches a campaign."""

    def progressed(self, progress: Progress) -> None:
        """Hear that counters changed."""

    def found(self, progress: Progress, family: FamilyState) -> None:
        """Hear of a family when its first member is stored."""
