"""What executes: the steps of a kernel, with the functions that it calls put in place."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from runners.simulated.memory import Static
from runners.simulated.operands import Source
from runners.simulated.warps import Operation


class Waits(StrEnum):
    """Who has to come to a step before it executes."""

    WARP = "all lanes of the warp"
    MEMBERS = "the lanes that the instruction names"
    BLOCK = "all threads of the block"


Decoded = tuple[Operation, Waits | None, Source | None]
"""What an instruction does, who waits for it, and the lanes that it names."""


class Kept(NamedTuple):
    """What the text of an instruction was decoded to in the modules of a device."""

    names: tuple[tuple[str, str, int], ...] | None
    """`Operands.names`."""
    decoded: dict[tuple[str, ...], Decoded]
    """By what these mean (`Operands.meaning`)."""


@dataclass(slots=True, kw_only=True, eq=False)
class Step:
    """One decoded instruction. Without operation, goals and waiting it ends the thread."""

    line: int
    guard: str | None = None
    """Key of the predicate under which it executes."""
    negated: bool = False
    operation: Operation | None = None
    goals: tuple[int, ...] = ()
    """Indices of the steps that a branch can go to."""
    index: Source | None = None
    """Which of them, where there are several."""
    waits: Waits | None = None
    members: Source | None = None
    """Lanes to wait for, a bit each."""

    @property
    def ends(self) -> bool:
        """Whether it ends every thread that comes to it."""
        return not (self.guard or self.operation or self.goals or self.waits)


@dataclass(frozen=True, kw_only=True, eq=False)
class Kernel:
    """An entry that can run."""

    name: str
    steps: tuple[Step, ...]
    parameters: tuple[tuple[int, int], ...]
    """Offset in bytes and bits of each parameter."""
    static: Static

    def parameter_block(self, arguments: Sequence[int]) -> bytes:
        """Return the parameters as they lie in memory."""
        block = bytearray()
        for (offset, bits), value in zip(self.parameters, arguments, strict=True):
            block += bytes(offset - len(block)) + value.to_bytes(bits // 8, "little")
        return bytes(block)


@dataclass(kw_only=True, eq=False)
class Expansion:
    """A function's body on its way to becoming steps of a kernel."""

    starts: list[int] = field(default_factory=list)
    """Index of the first step of each instruction."""
    branches: list[tuple[Step, tuple[int, ...]]] = field(default_factory=list)
    """Steps that go to instructions of the body."""
    returns: list[Step] = field(default_factory=list)
    """Steps that go behind the body."""

    def close(self, end: int) -> None:
        """Say where the branches go, once all of the body is there and `end` is behind it."""
        self.starts.append(end)
        for step, instructions in self.branches:
            step.goals = tuple(self.starts[index] for index in instructions)
        for step in self.returns:
            step.goals = (end,)
