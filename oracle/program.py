"""Programs of warp-level matrix instructions: what one warp does to one memory image.

A program is a tuple of steps over named buffers. It holds no register numbers, no addresses and
no text: those are chosen by whoever turns it into instructions. Everything is frozen, hashable
and made of tuples, so that programs can be cached, compared and shrunk.

Memory
------
One warp works on one *image*: the program's global buffers, back to back in the order of
`Program.buffers`, each at a multiple of its alignment, the whole rounded up to 256 bytes.
Images start at multiples of 256 bytes, so the alignment of every address is known. Shared
buffers are laid out in the same way in memory of the warp's own; it starts out undefined and
reaches the image only through steps.

Names
-----
Fragments and the registers of ldmatrix are named. A name may be written again, also with a
fragment of another kind. Whether each use meets what it needs is `oracle.definedness`'s matter:
rows here refuse only what cannot be written down at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from oracle.errors import UsageError
from oracle.formats import Format, Kind
from oracle.isa import LANES, Form, LdmatrixForm, LoadForm, Matrix, MmaForm, StoreForm

IMAGE_ALIGNMENT = 256
"""Alignment of every image and of a warp's shared memory, in bytes: what cuMemAlloc guarantees
(CUDA C++ Programming Guide, "Device Memory Accesses"), and more than any fragment asks for."""

MAX_ITERATIONS = 15
"""Most iterations of one loop: enough to unroll, few enough that nested loops end soon."""

SPACES = ("global", "shared")

_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise UsageError(message)


def _check_name(name: str, what: str) -> None:
    _check(
        _NAME.fullmatch(name) is not None,
        f"{name!r} cannot name a {what}: a name is a lower-case letter followed by at most 30 "
        "lower-case letters, digits and underscores",
    )


def _check_range(value: int, low: int, high: int, what: str) -> None:
    _check(low <= value <= high, f"{what} is {value}; it must lie in {low} to {high}")


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """A run of bytes in global or shared memory."""

    name: str
    space: str
    """"global" or "shared"."""
    size: int
    """Bytes."""
    alignment: int = IMAGE_ALIGNMENT
    """Bytes; a power of two, at most IMAGE_ALIGNMENT."""

    def __post_init__(self) -> None:
        _check_name(self.name, "buffer")
        _check(self.space in SPACES, f"space {self.space!r} is none of {', '.join(SPACES)}")
        _check_range(self.size, 1, 1 << 24, f"size of buffer {self.name}, in bytes,")
        _check(
            1 <= self.alignment <= IMAGE_ALIGNMENT and self.alignment & (self.alignment - 1) == 0,
            f"alignment of buffer {self.name} is {self.alignment}; it must be a power of two, "
            f"at most {IMAGE_ALIGNMENT}",
        )


@dataclass(frozen=True, kw_only=True)
class Place:
    """A byte in a buffer. It may lie outside of the buffer: an access there is undefined."""

    buffer: str
    offset: int = 0
    """Bytes from the start of the buffer."""

    def __post_init__(self) -> None:
        _check_range(self.offset, -(1 << 31), (1 << 31) - 1, "offset of a place, in bytes,")


@dataclass(frozen=True, kw_only=True)
class Word:
    """A number that the warp reads from its image: the 32-bit word at a place, under a mask.

    The word is little-endian and read by every lane. A branch takes its first arm if the masked
    word is not zero; a loop runs as many iterations as the masked word says.
    """

    place: Place
    mask: int

    def __post_init__(self) -> None:
        _check_range(self.mask, 0, (1 << 32) - 1, "mask of a word")


Uniform = int | Word
"""A number that is the same in every lane: a constant, which a compiler can fold, or a word of
the image, which it cannot."""


def _check_access(stride: int | None, stride_in_register: bool, immediate: int) -> None:
    if stride is None:
        _check(not stride_in_register, "a default stride stands in no register; give a stride")
    else:
        # "stride is an optional 32-bit integer operand" (9.7.14.4.3)
        _check_range(stride, 0, (1 << 32) - 1, "stride, in elements,")
    _check_range(immediate, -(1 << 31), (1 << 31) - 1, "immediate part of an address, in bytes,")


@dataclass(frozen=True, kw_only=True)
class Load:
    """wmma.load of a fragment (9.7.14.4.3)."""

    form: LoadForm
    fragment: str
    place: Place
    stride: int | None = None
    """Elements from one row (or column) to the next; None: the operand is left out."""
    stride_in_register: bool = False
    """Whether the stride operand is a register; otherwise an immediate."""
    immediate: int = 0
    """Bytes of the address that stand in the instruction, as in `[p+immediate]`; the register
    holds the rest."""

    def __post_init__(self) -> None:
        _check_name(self.fragment, "fragment")
        _check_access(self.stride, self.stride_in_register, self.immediate)


@dataclass(frozen=True, kw_only=True)
class Multiply:
    """wmma.mma: D = A x B + C (9.7.14.4.5). `d` may be the name of any of the other three."""

    form: MmaForm
    d: str
    a: str
    b: str
    c: str

    def __post_init__(self) -> None:
        for name in (self.d, self.a, self.b, self.c):
            _check_name(name, "fragment")


@dataclass(frozen=True, kw_only=True)
class Store:
    """wmma.store of a fragment (9.7.14.4.4)."""

    form: StoreForm
    fragment: str
    place: Place
    stride: int | None = None
    """As in Load."""
    stride_in_register: bool = False
    """As in Load."""
    immediate: int = 0
    """As in Load."""

    def __post_init__(self) -> None:
        _check_name(self.fragment, "fragment")
        _check_access(self.stride, self.stride_in_register, self.immediate)


class Operation(StrEnum):
    """Operations that treat every element of a fragment alike (9.7.14.4.1).

    Each is one instruction per register; those on bits work on registers that hold several
    elements with the constant replicated. NEGATE and ABSOLUTE of floats flip and clear the sign
    bit (`xor`, `and`), because PTX leaves the NaN that `neg` and `abs` return open. Integers
    wrap.
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

    @property
    def takes_constant(self) -> bool:
        """Whether the operation has a constant operand."""
        return self in _WITH_CONSTANT

    def accepts(self, type_: Format) -> bool:
        """Whether the operation is defined on fragments of this element type.

        Arithmetic is there for the types that registers compute in (`.f16x2`, `.f32`, `.f64`,
        `.s32`); operations on bits for those whose registers are untyped or integers.
        ABSOLUTE of s32 is left out: PTX does not say what it makes of -2^31.
        """
        match self:
            case Operation.COPY:
                return True
            case Operation.NEGATE:
                return type_.is_float or type_.name == "s32"
            case Operation.ABSOLUTE:
                return type_.is_float
            case Operation.MULTIPLY | Operation.ADD:
                return type_.name in ("f16", "f32", "f64", "s32")
            case _:
                return type_.kind is not Kind.FLOAT


_WITH_CONSTANT = frozenset(
    {Operation.MULTIPLY, Operation.ADD, Operation.AND, Operation.OR, Operation.XOR}
)


@dataclass(frozen=True, kw_only=True)
class Elementwise:
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
        _check_name(self.source, "fragment")
        _check_name(self.destination, "fragment")
        type_ = self.matrix.type
        _check(
            self.operation.accepts(type_),
            f"{self.operation} is not an element-wise operation on {type_.name}; allowed are "
            + ", ".join(f"{name}" for name in operations(type_)),
        )
        high = (1 << type_.bits) - 1 if self.operation.takes_constant else 0
        _check_range(self.constant, 0, high, f"constant of {self.operation} on {type_.name}")


def operations(type_: Format) -> tuple[Operation, ...]:
    """Return the element-wise operations on fragments of this element type."""
    return tuple(operation for operation in Operation if operation.accepts(type_))


@dataclass(frozen=True, kw_only=True)
class LoadRows:
    """ldmatrix: rows at 32 addresses of shared memory into registers (9.7.14.5.15)."""

    form: LdmatrixForm
    registers: str
    """Name of the destination: `form.registers` registers of 32 bits in each lane."""
    buffer: str
    addresses: tuple[int, ...]
    """For each of the 32 lanes, bytes from the start of the buffer. Those of the lanes that
    `form.addresses` leaves out are not used, except on sm_75, where they must be valid."""
    immediate: int = 0
    """Bytes of every address that stand in the instruction; the lanes' registers hold the
    rest."""

    def __post_init__(self) -> None:
        _check_name(self.registers, "vector of registers")
        _check(
            len(self.addresses) == LANES,
            f"{len(self.addresses)} addresses given; ldmatrix takes one for each of {LANES} lanes",
        )
        for address in self.addresses:
            _check_range(address, -(1 << 31), (1 << 31) - 1, "address of a row, in bytes,")
        _check_range(
            self.immediate, -(1 << 31), (1 << 31) - 1, "immediate part of an address, in bytes,"
        )


@dataclass(frozen=True, kw_only=True)
class StoreRegisters:
    """Each lane stores its registers of 32 bits: lane l its i-th at place + 4 (l count + i)."""

    registers: str
    count: int
    """Registers in each lane: 1, 2 or 4, as the ldmatrix that wrote them has."""
    place: Place

    def __post_init__(self) -> None:
        _check_name(self.registers, "vector of registers")
        _check(self.count in (1, 2, 4), f"{self.count} registers given; there are 1, 2 or 4")

    @property
    def size(self) -> int:
        """Bytes that are written."""
        return LANES * self.count * 4


@dataclass(frozen=True, kw_only=True)
class Copy:
    """The lanes copy bytes between buffers, in no particular order."""

    source: Place
    destination: Place
    size: int
    """Bytes."""

    def __post_init__(self) -> None:
        _check_range(self.size, 1, 1 << 24, "size of a copy, in bytes,")


@dataclass(frozen=True, kw_only=True)
class Barrier:
    """`bar.warp.sync` of all lanes: orders the memory accesses before it with those after it."""


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A warp-uniform branch."""

    condition: Uniform
    then: tuple[Step, ...]
    """Taken if the condition is not zero."""
    otherwise: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.condition, Word):
            _check_range(self.condition, 0, (1 << 32) - 1, "condition of a branch")


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A warp-uniform loop; the count is read once, before the first iteration."""

    count: Uniform
    body: tuple[Step, ...]

    def __post_init__(self) -> None:
        if isinstance(self.count, Word):
            _check_range(self.count.mask, 0, MAX_ITERATIONS, "mask of a loop's count")
        else:
            _check_range(self.count, 0, MAX_ITERATIONS, "count of a loop")


Step = (
    Load
    | Multiply
    | Store
    | Elementwise
    | LoadRows
    | StoreRegisters
    | Copy
    | Barrier
    | Branch
    | Loop
)


@dataclass(frozen=True, kw_only=True)
class Program:
    """Buffers and the steps that one warp takes on them.

    Raises
    ------
    UsageError
        If two buffers have one name, none is global, a step names a buffer that is not there,
        or a word lies in shared memory.
    """

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        names = [buffer.name for buffer in self.buffers]
        _check(len(set(names)) == len(names), f"buffer names repeat: {', '.join(names)}")
        spaces = {buffer.name: buffer.space for buffer in self.buffers}
        _check("global" in spaces.values(), "no buffer is global; results need one to be seen in")
        for step in walk(self.steps):
            for name in _buffers(step):
                _check(
                    name in spaces,
                    f"a step names buffer {name!r}; the program has {', '.join(names) or 'none'}",
                )
            word = step.condition if isinstance(step, Branch) else None
            word = step.count if isinstance(step, Loop) else word
            if isinstance(word, Word):
                _check(
                    spaces[word.place.buffer] == "global",
                    f"a word is read from shared buffer {word.place.buffer!r}; words are read "
                    "from the image, so name a global buffer",
                )

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of this name.

        Raises
        ------
        UsageError
            If there is none.
        """
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise UsageError(f"the program has no buffer {name!r}")

    @cached_property
    def _offsets(self) -> dict[str, int]:
        return {**_lay_out(self.buffers, "global")[0], **_lay_out(self.buffers, "shared")[0]}

    def offset(self, buffer: str) -> int:
        """Bytes from the start of the image, or of the warp's shared memory, to a buffer."""
        self.buffer(buffer)
        return self._offsets[buffer]

    @cached_property
    def image_bytes(self) -> int:
        """Size of one image, in bytes: the global buffers, rounded up to IMAGE_ALIGNMENT."""
        return _lay_out(self.buffers, "global")[1]

    @cached_property
    def shared_bytes(self) -> int:
        """Shared memory of one warp, in bytes, rounded up to IMAGE_ALIGNMENT; 0 without any."""
        return _lay_out(self.buffers, "shared")[1]


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Iterate over steps and the steps inside branches and loops, in the order of the text."""
    for step in steps:
        yield step
        if isinstance(step, Branch):
            yield from walk(step.then)
            yield from walk(step.otherwise)
        elif isinstance(step, Loop):
            yield from walk(step.body)


def requirements(program: Program) -> frozenset[Form]:
    """Return the forms of instructions that a program uses."""
    return frozenset(
        step.form
        for step in walk(program.steps)
        if isinstance(step, Load | Multiply | Store | LoadRows)
    )


def _buffers(step: Step) -> tuple[str, ...]:
    """Names of the buffers that a step itself (not the steps inside it) accesses."""
    match step:
        case Load() | Store() | StoreRegisters():
            return (step.place.buffer,)
        case LoadRows():
            return (step.buffer,)
        case Copy():
            return (step.source.buffer, step.destination.buffer)
        case Branch(condition=Word() as word) | Loop(count=Word() as word):
            return (word.place.buffer,)
        case _:
            return ()


def _lay_out(buffers: tuple[Buffer, ...], space: str) -> tuple[dict[str, int], int]:
    """Offsets of the buffers of a space, and the bytes that they take."""
    offsets: dict[str, int] = {}
    end = 0
    for buffer in buffers:
        if buffer.space == space:
            offsets[buffer.name] = -(-end // buffer.alignment) * buffer.alignment
            end = offsets[buffer.name] + buffer.size
    return offsets, -(-end // IMAGE_ALIGNMENT) * IMAGE_ALIGNMENT
