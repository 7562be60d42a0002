"""Steps: what one warp does, one after the other.

A step names registers and buffers; it holds no numbers of the machine's registers, no addresses
and no text of an instruction. Each says what there is to know of it: the registers that it reads
and writes and what they hold, the bytes that it reads and writes, the steps inside it, and itself
in a line. Whoever only asks for these need not know which steps there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from oracle.held import Fragment, StepBase, Use
from oracle.lane_steps import LaneStep, MoveRegisters
from oracle.matrices import Matrix
from oracle.operations import Operation, operations
from oracle.ops import AnyOp
from oracle.places import WORD_BYTES, Place, Span, Uniform, Word, check, check_range
from oracle.registers import check_vector

MAX_ITERATIONS = 15
"""Most iterations of one loop: enough to unroll, few enough that nested loops end soon."""

MAX_NESTING = 8
"""Most branches and loops around one step: drawn programs have 2 (2026-11). Whatever goes down
into steps calls itself as often."""
_COPIED_AT_ONCE = 4096
"""Bytes of a copy that count as one step."""


@dataclass(frozen=True, kw_only=True)
class Elementwise(StepBase):
    """The same operation on every register of a fragment ("Manipulating fragment contents")."""

    operation: Operation
    matrix: Matrix
    """What source and destination hold; accumulators are operand "c" (or "d", which is the
    same)."""
    source: str
    destination: str
    constant: int = 0
    """Raw bit pattern of one element, unsigned; every element of a register gets it. 0 where the
    operation takes none."""

    def __post_init__(self) -> None:
        check_vector(self.source, "fragment")
        check_vector(self.destination, "fragment")
        type_ = self.matrix.type
        check(
            self.operation.accepts(type_),
            f"{self.operation} is not an element-wise operation on {type_.name}; allowed are "
            + ", ".join(f"{name}" for name in operations(type_)),
        )
        high = (1 << type_.bits) - 1 if self.operation.takes_constant else 0
        check_range(self.constant, 0, high, f"constant of {self.operation} on {type_.name}")

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        # A multiplicand's layout stays what it is.
        holds = Fragment.of(self.matrix, None)
        return (
            Use(field="source", name=self.source, holds=holds),
            Use(field="destination", name=self.destination, holds=holds, written=True),
        )

    @property
    def carried(self) -> str:
        return self.source

    def __str__(self) -> str:
        constant = f" {self.constant:#x}" if self.operation.takes_constant else ""
        return f"{self.destination} = {self.operation}{constant} of {self.source}, every element"


@dataclass(frozen=True, kw_only=True)
class Copy(StepBase):
    """The lanes copy bytes between buffers, in no particular order."""

    source: Place
    destination: Place
    size: int
    """Bytes."""

    def __post_init__(self) -> None:
        check_range(self.size, 1, 1 << 24, "size of a copy, in bytes,")

    @property
    def cost(self) -> int:
        return 1 + self.size // _COPIED_AT_ONCE

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        return (Span.block(self.source.buffer, self.source.offset, self.size),)

    @cached_property
    def bytes_written(self) -> tuple[Span, ...]:
        return (Span.block(self.destination.buffer, self.destination.offset, self.size),)

    def __str__(self) -> str:
        return f"copy {self.size} bytes from {self.source} to {self.destination}"


@dataclass(frozen=True, kw_only=True)
class Barrier(StepBase):
    """`bar.warp.sync` of all lanes: orders the memory accesses before it with those after it."""

    def __str__(self) -> str:
        return "barrier"


def _word_bytes(value: Uniform) -> tuple[Span, ...]:
    if not isinstance(value, Word):
        return ()
    return (Span.block(value.place.buffer, value.place.offset, WORD_BYTES),)


def _nesting(steps: tuple[Step, ...]) -> int:
    """Branches and loops around the innermost of some steps."""
    inside = (1 + _nesting(block) for step in steps for block in step.blocks.values())
    return max(inside, default=0)


def _check_nesting(steps: tuple[Step, ...]) -> None:
    # Checked as each step is made, so that no step is ever nested deeper.
    nesting = 1 + _nesting(steps)
    check(
        nesting <= MAX_NESTING,
        f"branches and loops are nested {nesting} deep; at most {MAX_NESTING} are possible",
    )


@dataclass(frozen=True, kw_only=True)
class Branch(StepBase):
    """A warp-uniform branch."""

    condition: Uniform
    then: tuple[Step, ...]
    """Taken if the condition is not zero."""
    otherwise: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        _check_nesting((*self.then, *self.otherwise))
        if not isinstance(self.condition, Word):
            check_range(self.condition, 0, (1 << 32) - 1, "condition of a branch")

    @property
    def uniform(self) -> Uniform:
        return self.condition

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        return _word_bytes(self.condition)

    @property
    def blocks(self) -> Mapping[str, tuple[Step, ...]]:
        return {"then": self.then, "otherwise": self.otherwise}

    def __str__(self) -> str:
        return f"if {self.condition}"


@dataclass(frozen=True, kw_only=True)
class Loop(StepBase):
    """A warp-uniform loop; the count is read once, before the first iteration."""

    count: Uniform
    body: tuple[Step, ...]

    def __post_init__(self) -> None:
        _check_nesting(self.body)
        if isinstance(self.count, Word):
            check_range(self.count.mask, 0, MAX_ITERATIONS, "mask of a loop's count")
        else:
            check_range(self.count, 0, MAX_ITERATIONS, "count of a loop")

    @property
    def uniform(self) -> Uniform:
        return self.count

    @property
    def turns(self) -> int:
        return max(1, self.count.mask if isinstance(self.count, Word) else self.count)

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        return _word_bytes(self.count)

    @property
    def blocks(self) -> Mapping[str, tuple[Step, ...]]:
        return {"body": self.body}

    def __str__(self) -> str:
        return f"repeat {self.count} times"


def copied(use: Use, source: str, destination: str) -> Elementwise | MoveRegisters:
    """Return the step that copies what an operand holds from registers to others."""
    holds = use.holds
    if isinstance(holds, Fragment):
        return Elementwise(
            operation=Operation.COPY, matrix=holds.matrix, source=source, destination=destination
        )
    return MoveRegisters(
        source=source, destination=destination, count=holds.registers, bits=holds.bits
    )


Straight = AnyOp | Elementwise | LaneStep | Copy | Barrier
"""The steps that hold no other steps."""

Step = Straight | Branch | Loop
