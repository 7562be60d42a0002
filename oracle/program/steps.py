"""Steps: what one warp does, one after the other.

A step names registers and buffers, and says what it reads and writes, the steps inside it, and
itself in a line. Whoever only asks for these need not know which steps there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, TypeGuard

from oracle.isa.matrices import LANES, Matrix
from oracle.program.lane_code import LaneCode
from oracle.program.operands import Fragment, Registers, StepBase, Use
from oracle.program.operations import Operation, operations
from oracle.program.ops import COUNTS, AnyOp, accesses_rows, address_text, check_address
from oracle.program.places import WORD_BYTES, Place, Span, Uniform, Word, check, check_range
from oracle.program.registers import check_vector

MAX_ITERATIONS = 15
"""Most iterations of one loop: enough to unroll, few enough that nested loops end soon."""

MAX_NESTING = 8
"""Most branches and loops around one step: drawn programs have 2 (2026-11)."""
_COPIED_AT_ONCE = 4096
"""Bytes of a copy that count as one step."""


def _check_registers(name: str, count: int, bits: int) -> None:
    check_vector(name, "vector of registers")
    check(count in COUNTS, f"{count} registers given; there are 1, 2, 4 or 8")
    check(bits in (32, 64), f"registers of {bits} bits given; they have 32 or 64")


@dataclass(frozen=True, kw_only=True)
class PlainAccess(StepBase):
    """Each lane loads or stores registers: lane l its i-th at place + bits / 8 (l count + i)."""

    loads: bool
    registers: str
    count: int
    """Registers in each lane: 1, 2, 4 or 8; of a store as what wrote them has."""
    place: Place
    bits: int = 32
    lanes: int = LANES
    """Lanes that store, from the first on; the others skip it under a condition. All load."""
    address: int | None = None
    """Which register holds the address before a load; None: another one."""

    def __post_init__(self) -> None:
        _check_registers(self.registers, self.count, self.bits)
        check_range(self.lanes, LANES if self.loads else 1, LANES, "lanes that access registers")
        check(self.loads or self.address is None, "a store overwrites no register of its address")
        check_address(self.address, self.count)

    @property
    def size(self) -> int:
        """Bytes that are read or written."""
        return self.lanes * self.count * self.bits // 8

    @property
    def action(self) -> str:
        return "load_registers" if self.loads else "store_registers"

    @property
    def fields(self) -> dict[str, Any]:
        names = ["registers", "count", "place", "bits", "address" if self.loads else "lanes"]
        return {name: getattr(self, name) for name in names}

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        holds = Registers(registers=self.count, bits=self.bits)
        return (Use(field="registers", name=self.registers, holds=holds, written=self.loads),)

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        return self._spans if self.loads else ()

    @cached_property
    def bytes_written(self) -> tuple[Span, ...]:
        return () if self.loads else self._spans

    @property
    def _spans(self) -> tuple[Span, ...]:
        return (Span.block(self.place.buffer, self.place.offset, self.size),)

    def __str__(self) -> str:
        if self.loads:
            return f"load registers {self.registers} from {self.place}{address_text(self.address)}"
        who = "" if self.lanes == LANES else f" of lanes below {self.lanes}"
        return f"store registers {self.registers}{who} to {self.place}"


plain_load = partial(PlainAccess, loads=True)
plain_store = partial(PlainAccess, loads=False)


class ScalarRow(NamedTuple):
    """An instruction that each lane executes for every register of its destination."""

    opcode: str
    """With places for the size of a register in bits, or for a type."""
    sources: int
    """Registers of the source for one of the destination; 0: it has a constant."""
    fields: tuple[str, ...]
    text: str
    """The step in a line, with places for its fields."""
    types: tuple[str, ...] = ("",)


SCALARS: Mapping[str, ScalarRow] = {
    # The only registers of which several can be a fragment of wmma in any order, or one of them all
    # of it, are those that hold the same number in every lane: zeros for accumulators, for one.
    "set_registers": ScalarRow(
        "mov.b{bits}", 0, ("destination", "count", "constant", "bits"),
        "set registers {destination} to {constant:#x}",
    ),
    "move_registers": ScalarRow(
        "mov.b{bits}", 1, ("source", "destination", "count", "bits"), "{destination} = {source}",
    ),
    # How attention kernels turn a D into the next A (9.7.9.23; sm_80 and PTX 7.0 on): register 2 i
    # goes to the low half of register i.
    "pack_registers": ScalarRow(
        "cvt.rn.{type}x2.f32", 2, ("type", "source", "destination", "count"),
        "{destination} = pairs of {source} as {type}", ("f16", "bf16"),
    ),
}  # fmt: skip
"""Scalar instructions, by the action of their step."""


@dataclass(frozen=True, kw_only=True)
class Scalar(StepBase):
    """A scalar instruction on registers of every lane, all of them read before one is written."""

    operation: str
    """A key of SCALARS."""
    source: str = ""
    destination: str
    count: int
    """Registers of the source in each lane, or of the destination: 1, 2, 4 or 8."""
    bits: int = 32
    """Size of one register: 32, or 64 for f64."""
    type: str = ""
    """What the halves of packed registers are: "f16" or "bf16"."""
    constant: int = 0
    """What each register gets that is set: its bits, as an unsigned number."""

    def __post_init__(self) -> None:
        known = ", ".join(SCALARS)
        check(self.operation in SCALARS, f"there is no {self.operation!r}; there are {known}")
        for one in fields(self):
            own = one.name in ("operation", *self.row.fields)
            check(
                own or getattr(self, one.name) == one.default,
                f"{self.operation} has no {one.name}; leave it out",
            )
        types, sources = self.row.types, self.row.sources
        for name in (self.source, self.destination) if sources else (self.destination,):
            _check_registers(name, self.count, self.bits)
        if sources > 1:
            check(self.count > 1, "1 register given; pairs are packed, so give 2, 4 or 8")
            check(
                self.type in types,
                f"registers are packed as {' or '.join(types)}, not as {self.type!r}",
            )
        check_range(self.constant, 0, (1 << self.bits) - 1, "constant of registers")

    @property
    def action(self) -> str:
        return self.operation

    @property
    def row(self) -> ScalarRow:
        """What there is to know of the instruction."""
        return SCALARS[self.operation]

    @property
    def opcode(self) -> str:
        """Text of the instruction without its operands."""
        return self.row.opcode.format(bits=self.bits, type=self.type)

    @property
    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.row.fields}

    @property
    def sets(self) -> int | None:
        return None if self.row.sources else self.constant

    @property
    def copies(self) -> bool:
        return self.row.sources == 1

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        sources = self.row.sources
        made = Registers(registers=self.count // max(1, sources), bits=self.bits)
        written = Use(field="destination", name=self.destination, holds=made, written=True)
        if not sources:
            return (written,)
        holds = Registers(registers=self.count, bits=self.bits)
        return Use(field="source", name=self.source, holds=holds), written

    @property
    def carried(self) -> str | None:
        return self.source or None

    def __str__(self) -> str:
        return self.row.text.format(**self.fields)


set_registers = partial(Scalar, operation="set_registers")
move_registers = partial(Scalar, operation="move_registers")
pack_registers = partial(Scalar, operation="pack_registers")


@dataclass(frozen=True, kw_only=True)
class Elementwise(StepBase):
    """The same operation on every register of a fragment ("Manipulating fragment contents")."""

    action: ClassVar[str] = "elementwise"

    operation: Operation
    matrix: Matrix
    """Accumulators are operand "c" (or "d", which is the same)."""
    source: str
    destination: str
    constant: int = 0
    """Raw pattern of one element, of which every one of a register gets it; 0 for none."""

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

    @property
    def changes(self) -> Operation:
        return self.operation

    @property
    def copies(self) -> bool:
        return self.operation is Operation.COPY

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

    action: ClassVar[str] = "copy"

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

    action: ClassVar[str] = "barrier"

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

    action: ClassVar[str] = "branch"

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

    action: ClassVar[str] = "loop"

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


def _is(kind: type) -> Any:
    return lambda step: isinstance(step, kind)


accesses_registers: Callable[[object], TypeGuard[PlainAccess]] = _is(PlainAccess)
"""Whether a step loads or stores registers lane by lane, with no matrix instruction."""
changes_elements: Callable[[object], TypeGuard[Elementwise]] = _is(Elementwise)
copies_bytes: Callable[[object], TypeGuard[Copy]] = _is(Copy)
is_lane_code: Callable[[object], TypeGuard[LaneCode]] = _is(LaneCode)


def is_plain_load(step: Step) -> bool:
    """Whether a step loads an operand as it lies there: a fragment, or each lane's registers."""
    return step.writes is not None and bool(step.bytes_read) and not accesses_rows(step)


def copied(use: Use, source: str, destination: str) -> Elementwise | Scalar:
    """Return the step that copies what an operand holds from registers to others."""
    holds = use.holds
    if isinstance(holds, Fragment):
        return Elementwise(
            operation=Operation.COPY, matrix=holds.matrix, source=source, destination=destination
        )
    return move_registers(
        source=source, destination=destination, count=holds.registers, bits=holds.bits
    )


Straight = AnyOp | PlainAccess | Elementwise | Scalar | LaneCode | Copy | Barrier
"""The steps that hold no other steps."""

Step = Straight | Branch | Loop
