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

from oracle.forms import Form
from oracle.held import Fragment, StepBase, Use
from oracle.lane_steps import (
    LaneStep,
    LoadRows,
    MoveRegisters,
    MultiplyLanes,
    StoreRows,
    TransposeRegisters,
    address_text,
    check_address,
)
from oracle.matrices import Matrix
from oracle.operations import Operation, operations
from oracle.places import WORD_BYTES, Place, Span, Uniform, Word, check, check_range
from oracle.registers import check_vector
from oracle.storage import Tile

MAX_ITERATIONS = 15
"""Most iterations of one loop: enough to unroll, few enough that nested loops end soon."""

MAX_NESTING = 8
"""Most branches and loops around one step: drawn programs have 2 (2026-11). Whatever goes down
into steps calls itself as often."""
_COPIED_AT_ONCE = 4096
"""Bytes of a copy that count as one step."""


def _check_access(stride: int | None, stride_in_register: bool, immediate: int) -> None:
    if stride is None:
        check(not stride_in_register, "a default stride stands in no register; give a stride")
    else:
        # "stride is an optional 32-bit integer operand" (9.7.14.4.3)
        check_range(stride, 0, (1 << 32) - 1, "stride, in elements,")
    check_range(immediate, -(1 << 31), (1 << 31) - 1, "immediate part of an address, in bytes,")


def _lines(matrix: Matrix, layout: str, place: Place, stride: int | None) -> Span:
    """Return the bytes of a matrix: its rows, or its columns where they are what is contiguous."""
    length = matrix.default_stride(layout)
    return Span(
        buffer=place.buffer,
        start=place.offset,
        run=length * matrix.type.bits // 8,
        pitch=(length if stride is None else stride) * matrix.type.bits // 8,
        runs=matrix.leading_instances(layout),
    )


def _tile_text(matrix: Matrix, layout: str, place: Place, stride: int | None) -> str:
    return (
        f"{matrix.operand.upper()} {matrix.rows}x{matrix.columns} {matrix.type.name} "
        f"{layout}-major at {place}, stride {'default' if stride is None else stride}"
    )


@dataclass(frozen=True, kw_only=True)
class Load(StepBase):
    """wmma.load of a fragment (9.7.14.4.3)."""

    form: Form
    fragment: str
    place: Place
    stride: int | None = None
    """Elements from one row (or column) to the next; None: the operand is left out."""
    stride_in_register: bool = False
    """Whether the stride operand is a register; otherwise an immediate."""
    immediate: int = 0
    """Bytes of the address that stand in the instruction, as in `[p+immediate]`; the register
    holds the rest."""
    address: int | None = None
    """Which register of the destination holds the address before the load, counted from 0; None:
    one that is no part of it."""

    def __post_init__(self) -> None:
        check_vector(self.fragment, "fragment")
        check_address(self.address, self.form.matrix().registers)
        _check_access(self.stride, self.stride_in_register, self.immediate)

    @cached_property
    def tile(self) -> Tile:
        """The matrix as it lies in memory, from `place` on."""
        return Tile(matrix=self.form.matrix(), layout=self.form.layout, stride=self.stride)

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        holds = Fragment.of(self.form.matrix(), self.form.layout)
        return (Use(field="fragment", name=self.fragment, holds=holds, written=True),)

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        return (_lines(self.form.matrix(), self.form.layout, self.place, self.stride),)

    def __str__(self) -> str:
        tile = _tile_text(self.form.matrix(), self.form.layout, self.place, self.stride)
        return f"load {self.fragment} = {tile}{address_text(self)}"


@dataclass(frozen=True, kw_only=True)
class Multiply(StepBase):
    """wmma.mma: D = A x B + C (9.7.14.4.5). `d` may have registers of any of the other three."""

    form: Form
    d: str
    a: str
    b: str
    c: str

    def __post_init__(self) -> None:
        for name in (self.d, self.a, self.b, self.c):
            check_vector(name, "fragment")

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        form = self.form
        return tuple(
            Use(
                field=operand,
                name=name,
                holds=Fragment.of(form.matrix(operand), layout),
                written=operand == "d",
            )
            for operand, name, layout in (
                ("d", self.d, None),
                ("a", self.a, form.a_layout),
                ("b", self.b, form.b_layout),
                ("c", self.c, None),
            )
        )

    @property
    def carried(self) -> str:
        return self.c

    def __str__(self) -> str:
        return f"{self.d} = {self.a} x {self.b} + {self.c}"


@dataclass(frozen=True, kw_only=True)
class Store(StepBase):
    """wmma.store of a fragment (9.7.14.4.4)."""

    form: Form
    fragment: str
    place: Place
    stride: int | None = None
    """As in Load."""
    stride_in_register: bool = False
    """As in Load."""
    immediate: int = 0
    """As in Load."""

    stores = True

    def __post_init__(self) -> None:
        check_vector(self.fragment, "fragment")
        _check_access(self.stride, self.stride_in_register, self.immediate)

    @cached_property
    def tile(self) -> Tile:
        """The matrix as it lies in memory, from `place` on."""
        return Tile(matrix=self.form.matrix(), layout=self.form.layout, stride=self.stride)

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        holds = Fragment.of(self.form.matrix(), None)
        return (Use(field="fragment", name=self.fragment, holds=holds),)

    @cached_property
    def bytes_written(self) -> tuple[Span, ...]:
        return (_lines(self.form.matrix(), self.form.layout, self.place, self.stride),)

    def __str__(self) -> str:
        tile = _tile_text(self.form.matrix(), self.form.layout, self.place, self.stride)
        return f"store {self.fragment} to {tile}"


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


Straight = Load | Multiply | Store | Elementwise | LaneStep | Copy | Barrier
"""The steps that hold no other steps."""

Step = Straight | Branch | Loop

Product = Multiply | MultiplyLanes
"""The steps that multiply matrices."""

Main = Product | LoadRows | StoreRows | TransposeRegisters
"""The steps that a program can be about: each is a matrix instruction that computes or moves."""

Instruction = Load | Store | Main
"""The steps that are matrix instructions of one form each, `form`."""
