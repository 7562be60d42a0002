"""Buffers and places in them, registers and fragments: what the steps of a program work on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.isa.forms import Form, Format, Matrix, Vector

IMAGE_ALIGNMENT = 256
"""Alignment of images, in bytes: what cuMemAlloc guarantees (CUDA C++ Programming Guide)."""

SPACES = ("global", "shared")
WORD_BYTES = 4
OFFSETS = (-(1 << 31), (1 << 31) - 1)
"""Least and greatest offset and immediate part of an address, in bytes."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")


def check(condition: bool, message: str, *given: object) -> None:
    """Raise UsageError unless a condition holds; `given` is put into a message that has fields."""
    if not condition:
        raise UsageError(message.format(*given) if given else message)


def fields_alone(made: Any) -> dict[str, Any]:
    """Return what pickle takes of a dataclass: what it keeps beside its fields is made again.

    Hashes of text are others in another process.
    """
    return {one.name: getattr(made, one.name) for one in fields(made)}


def check_name(name: str, what: str) -> None:
    """Raise UsageError unless a text can name a buffer, a fragment or registers."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} cannot name a {what}: a name is a lower-case letter followed by at most 30 "
            "lower-case letters, digits and underscores"
        )


def check_range(value: int, low: int, high: int, what: str) -> None:
    """Raise UsageError unless a number lies in low to high, both included."""
    if not low <= value <= high:
        raise UsageError(f"{what} is {value}; it must lie in {low} to {high}")


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """A run of bytes in global or shared memory."""

    name: str
    space: str
    size: int
    alignment: int = IMAGE_ALIGNMENT
    """Bytes; a power of two, at most IMAGE_ALIGNMENT."""


@lru_cache(maxsize=1 << 12)
def check_buffer(buffer: Buffer) -> None:
    """Raise UsageError unless a program can have a buffer."""
    check_name(buffer.name, "buffer")
    check(buffer.space in SPACES, f"space {buffer.space!r} is none of {', '.join(SPACES)}")
    check_range(buffer.size, 1, 1 << 24, f"size of buffer {buffer.name}, in bytes,")
    check(
        1 <= buffer.alignment <= IMAGE_ALIGNMENT and buffer.alignment.bit_count() == 1,
        f"alignment of buffer {buffer.name} is {buffer.alignment}; it must be a power of two, "
        f"at most {IMAGE_ALIGNMENT}",
    )


@dataclass(frozen=True, kw_only=True)
class Place:
    """A byte in a buffer. It may lie outside of the buffer: an access there is undefined."""

    buffer: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.buffer}+{self.offset}" if self.offset else self.buffer


@dataclass(frozen=True, kw_only=True)
class Word:
    """The 32-bit little-endian word at a place of the image, under a mask; every lane reads it."""

    place: Place
    mask: int

    def __str__(self) -> str:
        return f"(word at {self.place} & {self.mask:#x})"


Count = int | Word
"""A constant, which a compiler can fold, or a word of the image, which it cannot."""
MAX_ITERATIONS = 15
"""Most iterations of one loop: enough to unroll, few enough that nested loops end soon."""
TURNS: Mapping[str, tuple[str, Callable[[int, int, int], bool]]] = {
    "ne": ("turn != {}", lambda turn, turns, number: turn != number),
    "lt": ("turn < {}", lambda turn, turns, number: turn < number),
    "and": ("turn & {}", lambda turn, turns, number: bool(turn & number)),
    "more": ("turn + {} < turns", lambda turn, turns, number: turn + number < turns),
}
"""What is asked of the turn of a loop, in words, and as a function of turn, turns, and number."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """1 in the turns of the loop around, counted from 0, of which something holds; else 0."""

    asks: str
    """A key of TURNS."""
    number: int

    mask: ClassVar[int] = 1
    """Bits that it may have, as those of a word."""

    def __post_init__(self) -> None:
        check(self.asks in TURNS, f"of a turn, {', '.join(TURNS)} can be asked, no {self.asks!r}")
        check_range(self.number, 0, MAX_ITERATIONS, "number that a turn is compared with")

    def of(self, turn: int, turns: int) -> int:
        """Return what it is in one of so many turns."""
        return int(TURNS[self.asks][1](turn, turns, self.number))

    def __str__(self) -> str:
        return TURNS[self.asks][0].format(self.number)


Uniform = Count | Turn
"""What all threads have alike."""


def most_of(value: Uniform) -> int:
    """Return the most that a value can be."""
    return value if isinstance(value, int) else value.mask


@dataclass(frozen=True, slots=True)
class Span:
    """Runs of bytes, equally far apart, in one buffer."""

    buffer: str
    start: int
    run: int
    """Bytes of one."""
    pitch: int
    """Bytes from one to the next."""
    runs: int

    @staticmethod
    def block(buffer: str, start: int, size: int) -> Span:
        """Return bytes that lie next to each other."""
        return Span(buffer, start, size, size, 1)

    @property
    def end(self) -> int:
        """Byte behind the last."""
        return self.start + (self.runs - 1) * self.pitch + self.run

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Every byte, counted from the start of the buffer, int64 (runs, run)."""
        import numpy as np

        if self.runs == 1:
            return np.arange(self.start, self.start + self.run, dtype=np.int64)[None]
        starts = self.start + self.pitch * np.arange(self.runs, dtype=np.int64)
        return starts[:, None] + np.arange(self.run, dtype=np.int64)

    def meets(self, other: Span) -> bool:
        """Tell whether a byte belongs to both: exact of one run or equal pitches, else perhaps."""
        if self.buffer != other.buffer or self.start >= other.end or other.start >= self.end:
            return False
        if self.runs == 1 or other.runs == 1:
            block, comb = (self, other) if self.runs == 1 else (other, self)
            return comb._meets_block(block.start, block.end)
        if self.pitch != other.pitch or max(self.run, other.run) > self.pitch:
            return True
        # The distance between the two starts decides, up to whole pitches.
        distance = (other.start - self.start) % self.pitch
        return distance < self.run or distance + other.run > self.pitch

    def _meets_block(self, start: int, end: int) -> bool:
        if self.runs == 1 or self.run >= self.pitch:
            return start < self.end and self.start < end
        # The first run that ends behind the start of the block.
        index = max(0, (start - self.start - self.run) // self.pitch + 1)
        return index < self.runs and self.start + index * self.pitch < end


MOST_REGISTERS = 255
"""Registers of 32 bits of one thread, on every target since sm_35 (CUDA C++ Programming Guide,
Technical Specifications per Compute Capability)."""

MOST_LISTED = 8
"""Registers of the largest operand: a fragment of wmma, or C of mma.sync (9.7.14.4.1, .5)."""

_REGISTER = re.compile(r"([a-z][a-z0-9_]{0,30})\.(0|[1-9][0-9]{0,2})")


class Register(NamedTuple):
    """One register in each lane."""

    bank: str
    bits: int
    number: int


def listed(text: str) -> bool:
    """Tell whether an operand lists its registers, rather than naming a bank."""
    return "." in text


def check_vector(text: str, what: str) -> None:
    """Raise UsageError unless a text can be an operand."""
    if listed(text):
        _parsed(text)
    else:
        check_name(text, what)


@lru_cache(maxsize=1 << 12)
def vector(text: str, count: int, bits: int) -> tuple[Register, ...]:
    """Return the registers that a name, or a list of `count`, stands for; or UsageError."""
    if not listed(text):
        return tuple(Register(text, bits, index) for index in range(count))
    named = _parsed(text)
    wrong = f"the vector {text!r:.300} lists {len(named)} registers; this operand has {count}"
    check(len(named) == count, wrong)
    return tuple(Register(bank, bits, index) for bank, index in named)


def text_of(registers: Iterable[Register]) -> str:
    """Return the vector that lists some registers."""
    return " ".join(f"{register.bank}.{register.number}" for register in registers)


@lru_cache(maxsize=1 << 12)
def _parsed(text: str) -> tuple[tuple[str, int], ...]:
    parts = text.split(" ", MOST_LISTED)
    most = f"the vector {text!r:.80} lists more than {MOST_LISTED} registers; no operand has more"
    check(len(parts) <= MOST_LISTED, most)
    found = []
    for part in parts:
        match = _REGISTER.fullmatch(part)
        if match is None or int(match[2]) >= MOST_REGISTERS:
            text = f"{part!r:.80} is no register of a vector, such as 'd.3 d.2 d.1 d.0', of numbers"
            raise UsageError(f"{text} below {MOST_REGISTERS}")
        found.append((match[1], int(match[2])))
    return tuple(found)


COUNTS = (1, 2, 4, 8)
"""Registers that an operand of a warp has whose layout is known."""
_MOST_OF_D = 128
"""Registers of D of a warpgroup's m64n256 with f32 (PTX ISA 9.7.15.5.1.1)."""


def check_registers(name: str, count: int, bits: int) -> None:
    """Raise UsageError unless there can be so many registers of a size, and of this name."""
    check_vector(name, "vector of registers")
    text = f"{count} registers given; there are 1, 2, 4 or 8, or an even number up to {_MOST_OF_D}"
    check(count in COUNTS or count in range(2, _MOST_OF_D + 1, 2), text)
    check(bits in (32, 64), f"registers of {bits} bits given; they have 32 or 64")


class Operation(StrEnum):
    """Operations that treat every element of a fragment alike (9.7.14.4.1), one a register.

    NEGATE and ABSOLUTE of floats are `xor` and `and`: PTX leaves the NaN of `neg` and `abs` open.
    """

    COPY = "copy"
    NEGATE = "negate"
    ABSOLUTE = "absolute"
    MULTIPLY = "multiply"
    """By the constant; `mul.rn` of f16x2, f32 and f64, `mul.lo.s32`."""
    ADD = "add"
    """The constant; `add.rn` of f16x2, f32 and f64, `add.s32`."""
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"


_ARITHMETIC = (Operation.MULTIPLY, Operation.ADD)
_BITWISE = (Operation.AND, Operation.OR, Operation.XOR)
WITH_CONSTANT = frozenset((*_ARITHMETIC, *_BITWISE))
"""The operations that have a constant operand."""


@cache
def operations(type_: Format) -> tuple[Operation, ...]:
    """Return what can be done with elements of a type; |-2^31| of s32 cannot (PTX does not say)."""
    found = [Operation.COPY]
    if type_.is_float or type_.name == "s32":
        found.append(Operation.NEGATE)
    if type_.is_float:
        found.append(Operation.ABSOLUTE)
    if type_.name in ("f16", "f32", "f64", "s32"):
        found += _ARITHMETIC
    return (*found, *(() if type_.is_float else (*_BITWISE, Operation.NOT)))


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """A fragment of wmma: which lane holds which element is left open (9.7.14.4.1)."""

    matrix: Matrix
    """Accumulators are operand "c", whether a load or a multiplication wrote them."""
    layout: str | None
    """"row" or "col" of a multiplicand, None where any will do; accumulators have none."""

    @staticmethod
    @cache
    def of(matrix: Matrix, layout: str | None) -> Fragment:
        """Return the fragment of a matrix; that of a D is one of C."""
        if matrix.operand in "cd":
            return Fragment(matrix=replace(matrix, operand="c"), layout=None)
        return Fragment(matrix=matrix, layout=layout)

    @property
    def any_layout(self) -> bool:
        """Whether it is a multiplicand whose layout is left open."""
        return self.layout is None and self.matrix.operand in "ab"

    @property
    def register_type(self) -> str:
        """PTX type in which the registers are declared, without the dot."""
        return self.matrix.register_type

    @property
    def registers(self) -> int:
        """Registers in each lane."""
        return self.matrix.registers

    @property
    def bits(self) -> int:
        """Size of one register."""
        return self.matrix.register_bits

    @property
    def words(self) -> int:
        """Registers of 32 bits that it takes in each lane."""
        return self.matrix.registers * self.matrix.register_bits // 32

    def __str__(self) -> str:
        m = self.matrix
        role = "accumulator" if m.operand == "c" else f"multiplicand {m.operand.upper()}"
        layout = f" .{self.layout}" if self.layout else ""
        return f"{role} .{m.shape.name} .{m.type.name}{layout}"


@dataclass(frozen=True, kw_only=True)
class Registers:
    """Registers in each lane, whose contents are known lane by lane."""

    registers: int
    bits: int = 32
    """Size of one register: 32, or 64 for f64."""

    @staticmethod
    @cache
    def of(vector: Vector) -> Registers:
        """Return the registers of an operand whose layout is known."""
        return Registers(
            registers=vector.registers, bits=64 if vector.register_type == "f64" else 32
        )

    @property
    def register_type(self) -> str:
        """PTX type of the registers, untyped, so that a D can be an A ("untyped bits", 5.2.1)."""
        return f"b{self.bits}"

    @property
    def words(self) -> int:
        return self.registers * self.bits // 32

    def __str__(self) -> str:
        return f"{self.registers} registers of {self.bits} bits"


Held = Fragment | Registers


@dataclass(frozen=True, kw_only=True)
class Use:
    """One operand of a step: registers that it reads or writes."""

    field: str
    """Field of the step: "a", "fragment", ..."""
    name: str
    """Name of a bank, or the registers themselves (`oracle.program.operands`)."""
    holds: Held
    """Before a read, or after a write."""
    written: bool = False

    @cached_property
    def registers(self) -> tuple[Register, ...]:
        """The registers, in the order of the operand; UsageError if they are more or fewer."""
        return vector(self.name, self.holds.registers, self.holds.bits)

    @property
    def bank(self) -> str:
        """Name of the bank of the first register."""
        return self.registers[0].bank

    @cached_property
    def is_fragment(self) -> bool:
        """Whether it is a fragment of wmma."""
        return isinstance(self.holds, Fragment)


def first_registers(use: Use, count: int) -> str:
    """Return an operand of the first registers of another, as it is named or listed."""
    return text_of(use.registers[:count]) if listed(use.name) else use.name


class StepBase:
    """Interface of a step, which does not change; properties that one does not have are empty."""

    @property
    def action(self) -> str:
        """Name of what it does: the method of `oracle.execution.execution.Warps` that takes it."""
        raise NotImplementedError

    @property
    def instruction(self) -> Form | None:
        """Form of the matrix instruction that it is."""
        return None

    @property
    def fields(self) -> dict[str, Any]:
        """What it is stored with, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]

    @property
    def address(self) -> int | None:
        """Which register of the destination has the address before a load, counted from 0."""
        return None

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """Names in the order of the fields."""
        return ()

    @cached_property
    def reads(self) -> tuple[Use, ...]:
        """Names that are read."""
        return tuple(use for use in self.uses if not use.written)

    @cached_property
    def writes(self) -> Use | None:
        """The name that is written."""
        return next((use for use in self.uses if use.written), None)

    @property
    def sets(self) -> int | None:
        """Number that every register of its destination gets in every lane; None of others."""
        return None

    @property
    def changes(self) -> Operation | None:
        """What it does with every element of a fragment."""
        return None

    @property
    def copies(self) -> bool:
        """Whether it copies registers to others as they are."""
        return False

    @cached_property
    def names(self) -> dict[str, str]:
        """Names, or lists of registers, by the fields that say them."""
        return {use.field: use.name for use in self.uses}

    @cached_property
    def stores(self) -> bool:
        """Whether it writes to memory what a name holds."""
        return bool(self.bytes_written and self.reads)

    @property
    def carried(self) -> str | None:
        """Name of the value that the result continues: the accumulator, or the source."""
        return None

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        """Bytes of buffers that are read."""
        place = self.uniform.place if isinstance(self.uniform, Word) else None
        return () if place is None else (Span.block(place.buffer, place.offset, WORD_BYTES),)

    @cached_property
    def bytes_written(self) -> tuple[Span, ...]:
        """Bytes of buffers that are written."""
        return ()

    steered: ClassVar[str] = ""
    """Field with a value that all threads have alike, on which depends what is done."""

    @property
    def uniform(self) -> Uniform | None:
        """That value."""
        return getattr(self, self.steered) if self.steered else None

    @cached_property
    def by_turn(self) -> bool:
        """Whether what it does, or a step inside, depends on the turn of the loop around."""
        inside = (step.by_turn for steps in self.blocks.values() for step in steps)
        return isinstance(self.uniform, Turn) or any(inside)

    def in_turn(self, turn: int, turns: int) -> Self:
        """Return the step as it is in one of so many turns of the loop around: with constants."""
        if not self.by_turn:
            return self
        changes: dict[str, Any] = {
            name: tuple(step.in_turn(turn, turns) for step in steps)
            for name, steps in self.blocks.items()
        }
        if isinstance(self.uniform, Turn):
            changes[self.steered] = self.uniform.of(turn, turns)
        return self.changed(**changes)

    @property
    def cost(self) -> int:
        """Work units of one execution, nested steps excluded."""
        return 1

    @property
    def turns(self) -> int:
        """How often the steps inside are taken at most; at least 1."""
        return 1

    @property
    def blocks(self) -> Mapping[str, tuple[Any, ...]]:
        """Steps inside, by the field that holds them."""
        return {}

    def __str__(self) -> str:
        return self.action

    def changed(self, **changes: Any) -> Self:
        """Return the step with other fields."""
        return replace(self, **changes) if changes else self  # type: ignore[type-var]

    def reading(self, old: str, new: str) -> Self:
        """Return the step with one name read where it reads another."""
        return self.changed(**{use.field: new for use in self.reads if use.name == old})


def is_repeatable(steps: tuple[StepBase, ...]) -> bool:
    """Whether steps that are taken again do the same again: none reads what one has written."""
    read, written = set[Register](), set[Register]()
    loaded, stored = list[Span](), list[Span]()

    def follow(steps: Iterable[StepBase], before: frozenset[Register]) -> None:
        """Note what is accessed, and read as it was before all; `before` is written by then."""
        for step in steps:
            loaded.extend(step.bytes_read)
            stored.extend(step.bytes_written)
            for use in step.reads:
                read.update(one for one in use.registers if one not in before)
            for inside in step.blocks.values():
                follow(inside, before)  # what an arm writes another path may read
            if step.writes is not None:
                written.update(step.writes.registers)
                before = before.union(step.writes.registers)

    follow(steps, frozenset())
    return read.isdisjoint(written) and not any(
        one.meets(other) for one in loaded for other in stored
    )
