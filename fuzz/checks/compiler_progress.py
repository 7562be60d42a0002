"""What a campaign over a matrix of compilers has done so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from fuzz.campaign.progress import Progress
from fuzz.compilers.expansions import Note
from fuzz.compilers.members import Member


@dataclass
class MatrixProgress(Progress):
    """Counters of a campaign over a matrix."""

    members: tuple[Member, ...] = ()
    """Who compiles."""
    device: str = ""
    """Where binaries run; empty where none do."""
    skipped_members: tuple[str, ...] = ()
    """Sentences about compilers that do not know the target or the PTX ISA version."""
    programs: int = 0
    """Programs drawn and compiled."""
    binaries: int = 0
    """Programs times the members that compiled them."""
    distinct: int = 0
    """Different machine codes of kernels among those."""
    differences: int = 0
    """Programs that not all members compile to the same results, or compile at all."""
    wrong: int = 0
    """Programs of which some binary does not compute what the oracle does."""
    uncompiled: int = 0
    """Programs that some member did not compile."""
    compile_seconds: float = 0.0
    """Time that the campaign waited for compilers."""
    run_seconds: float = 0.0
    """Time that it waited for the device and the oracle."""
    surveyed: int = 0
    """Programs whose matrix instructions were compared, of all members."""
    notes: list[Note] = field(default_factory=list)

    judged_so: ClassVar[str] = "compared"
    agreement: ClassVar[str] = "All compilers and the oracle agree."

    @property
    def subject(self) -> str:
        """What is judged."""
        where = f" on {self.device}" if self.device else ""
        return f"{described(self.members, self.members)}{where}"

    @property
    def checked(self) -> str:
        """What was looked at, in words."""
        return (
            f"{self.programs:,} programs in {self.binaries:,} binaries ({self.distinct:,} "
            f"different, {self.judged:,} whole images compared)"
        )


def described(members: Sequence[Member], among: Sequence[Member]) -> str:
    """Name members, neighbouring versions with the same levels together.

    Parameters
    ----------
    among
        All members, oldest first: which versions are neighbours.
    """
    levels: dict[str, tuple[int, ...]] = {}
    for member in members:
        levels[member.version] = (*levels.get(member.version, ()), member.level)
    groups: list[tuple[tuple[int, ...], list[str]]] = []
    for version in dict.fromkeys(member.version for member in among):
        own = levels.get(version, ())
        if groups and groups[-1][0] == own:
            groups[-1][1].append(version)
        else:
            groups.append((own, [version]))
    return ", ".join(
        f"{_span(versions)} {' '.join(f'-O{level}' for level in sorted(own))}"
        for own, versions in groups
        if own
    )


def _span(versions: Sequence[str]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
