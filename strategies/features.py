"""What a program is made of, as features that can be counted and asked for.

Features are a pure function of a program, never of how it was drawn. They stand in dimensions, so
that a table of what a campaign reached can be printed, and so that two features of one dimension
are told apart from two ways in which a program is peculiar.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from oracle.errors import UsageError
from oracle.forms import ROW_BYTES, Form
from oracle.matrices import LANES, Matrix
from oracle.operands import Use
from oracle.operations import Operation
from oracle.ops import (
    AnyOp,
    MatrixAccess,
    Op,
    Product,
    RowAccess,
    accesses_matrix,
    accesses_rows,
    is_main,
    loads_rows,
    multiplies,
    multiplies_registers,
    stores_rows,
)
from oracle.places import Span, Word
from oracle.program import Program, walk
from oracle.registers import MOST_REGISTERS, Register, listed
from oracle.sharing import Way, way_of
from oracle.steps import (
    Barrier,
    Branch,
    Copy,
    Elementwise,
    Loop,
    MoveRegisters,
    PackRegisters,
    PlainAccess,
    SetRegisters,
    Step,
)
from strategies.fragment_flow import Flow, most_live

HUGE_PITCH = 4096
"""Bytes between lines from which a stride counts as huge: a page of memory each."""
LARGE_FACTOR = 2
"""Times the default from which a stride counts as large."""
SHARED_ROW_BYTES = 16
"""Alignment of lines in shared memory. The page asks for less where a fragment is smaller, and
sm_90 raises "misaligned address" there (measured on H200, 2026-11-21; docs/findings.md)."""


class Dimension(StrEnum):
    """What kind of thing a feature says."""

    STEP = "step kind"
    PROGRAM = "program"
    STRIDE = "stride class"
    ADDRESS = "address class"
    SPACE = "state space"


class Feature(StrEnum):
    """Something that a program has."""

    dimension: Dimension

    def __new__(cls, name: str, dimension: Dimension = Dimension.STEP) -> Feature:
        """Make a member of its name, which is its value, and its dimension."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.dimension = dimension
        return member

    LOAD_A = "load a", Dimension.STEP
    LOAD_B = "load b", Dimension.STEP
    LOAD_C = "load c", Dimension.STEP
    MULTIPLICATION = "multiplication", Dimension.STEP
    STORE = "store", Dimension.STEP
    ELEMENTS_COPY = "elements: copy", Dimension.STEP
    ELEMENTS_NEGATE = "elements: negate", Dimension.STEP
    ELEMENTS_ABSOLUTE = "elements: absolute", Dimension.STEP
    ELEMENTS_MULTIPLY = "elements: multiply", Dimension.STEP
    ELEMENTS_ADD = "elements: add", Dimension.STEP
    ELEMENTS_AND = "elements: and", Dimension.STEP
    ELEMENTS_OR = "elements: or", Dimension.STEP
    ELEMENTS_XOR = "elements: xor", Dimension.STEP
    ELEMENTS_NOT = "elements: not", Dimension.STEP
    LDMATRIX = "ldmatrix", Dimension.STEP
    MMA_SYNC = "mma.sync", Dimension.STEP
    STMATRIX = "stmatrix", Dimension.STEP
    MOVMATRIX = "movmatrix", Dimension.STEP
    PACKED = "pairs of registers packed", Dimension.STEP
    LOAD_REGISTERS = "load of registers", Dimension.STEP
    STORE_REGISTERS = "store of registers", Dimension.STEP
    STORE_BY_LANE = "store of registers by some lanes", Dimension.STEP
    COPY = "copy", Dimension.STEP
    BARRIER = "barrier", Dimension.STEP
    BRANCH = "branch", Dimension.STEP
    LOOP = "loop", Dimension.STEP

    ONE_MULTIPLICATION = "one multiplication", Dimension.PROGRAM
    D_AS_C = "d used as c", Dimension.PROGRAM
    CHAIN = "chain of three accumulations", Dimension.PROGRAM
    IN_PLACE_REGISTERS = "d in the registers of c", Dimension.PROGRAM
    OVER_MULTIPLICAND = "d in the registers of a or b", Dimension.PROGRAM
    IN_PLACE_MEMORY = "d stored over c", Dimension.PROGRAM
    A_REUSED = "a used again", Dimension.PROGRAM
    B_REUSED = "b used again", Dimension.PROGRAM
    SEVERAL_SHAPES = "several shapes", Dimension.PROGRAM
    SEVERAL_TYPES = "several types", Dimension.PROGRAM
    LIVE_8 = "8 live fragments", Dimension.PROGRAM
    LIVE_16 = "16 live fragments", Dimension.PROGRAM
    SPILLS = "more live registers than there are", Dimension.PROGRAM
    TILES = "tiles of a larger matrix", Dimension.PROGRAM
    OVERLAPPING_READS = "overlapping reads", Dimension.PROGRAM
    STORED_AND_LOADED = "stored and loaded again", Dimension.PROGRAM
    GLOBAL_AND_SHARED = "matrices in global and shared memory", Dimension.PROGRAM
    CHANGED_MULTIPLICAND = "elements of a or b changed", Dimension.PROGRAM
    CHANGED_ACCUMULATOR = "elements of c or d changed", Dimension.PROGRAM
    LDMATRIX_OF_STORE = "ldmatrix reads what wmma.store wrote", Dimension.PROGRAM
    LDMATRIX_LOADED = "registers of ldmatrix are stored and loaded by wmma", Dimension.PROGRAM
    FED_BY_LDMATRIX = "ldmatrix feeds mma.sync", Dimension.PROGRAM
    D_AS_MULTIPLICAND = "d of mma.sync is a or b of the next", Dimension.PROGRAM
    STMATRIX_OF_D = "stmatrix stores d of mma.sync", Dimension.PROGRAM
    OVER_PART = "d in some of the registers of a or b", Dimension.PROGRAM
    C_ORDER = "c in the registers of d in another order", Dimension.PROGRAM
    C_PART = "c in some of the registers of d", Dimension.PROGRAM
    C_REPEATED = "c repeats a register", Dimension.PROGRAM
    AMONG_MULTIPLICANDS = "d among the registers of a or b", Dimension.PROGRAM
    A_WITH_B = "a and b in one bank of registers", Dimension.PROGRAM
    ADDRESS_LOADED = "address in a register that is loaded", Dimension.PROGRAM
    STMATRIX_REPEATED = "stmatrix repeats a register", Dimension.PROGRAM
    MOVMATRIX_IN_PLACE = "movmatrix into its source", Dimension.PROGRAM
    LOOP_CONSTANT = "loop with a constant count", Dimension.PROGRAM
    LOOP_WORD = "loop with a count from memory", Dimension.PROGRAM
    BRANCH_CONSTANT = "branch on a constant", Dimension.PROGRAM
    BRANCH_WORD = "branch on a word from memory", Dimension.PROGRAM
    TWO_ARMS = "branch with two arms", Dimension.PROGRAM
    NESTED = "branch or loop in another", Dimension.PROGRAM
    STEPS_12 = "12 steps", Dimension.PROGRAM
    STEPS_24 = "24 steps", Dimension.PROGRAM

    STRIDE_OMITTED = "default, left out", Dimension.STRIDE
    STRIDE_DEFAULT = "default, written", Dimension.STRIDE
    STRIDE_LEAST = "padded by the least", Dimension.STRIDE
    STRIDE_ODD = "odd number of units", Dimension.STRIDE
    STRIDE_LARGE = "large", Dimension.STRIDE
    STRIDE_HUGE = "huge", Dimension.STRIDE
    STRIDE_REGISTER = "in a register", Dimension.STRIDE
    STRIDE_IMMEDIATE = "immediate", Dimension.STRIDE

    ALIGNED_LEAST = "aligned as little as may be", Dimension.ADDRESS
    ALIGNED_MORE = "aligned to twice that", Dimension.ADDRESS
    ALIGNED_128 = "aligned to 128 bytes", Dimension.ADDRESS
    OFFSET_IMMEDIATE = "offset in the instruction", Dimension.ADDRESS
    OFFSET_NEGATIVE = "negative offset in the instruction", Dimension.ADDRESS
    BUFFER_END = "last byte is the buffer's last", Dimension.ADDRESS

    LOAD_GENERIC_GLOBAL = "load: generic, global", Dimension.SPACE
    LOAD_GENERIC_SHARED = "load: generic, shared", Dimension.SPACE
    LOAD_GLOBAL = "load: .global", Dimension.SPACE
    LOAD_SHARED = "load: .shared", Dimension.SPACE
    LOAD_SHARED_CTA = "load: .shared::cta", Dimension.SPACE
    STORE_GENERIC_GLOBAL = "store: generic, global", Dimension.SPACE
    STORE_GENERIC_SHARED = "store: generic, shared", Dimension.SPACE
    STORE_GLOBAL = "store: .global", Dimension.SPACE
    STORE_SHARED = "store: .shared", Dimension.SPACE
    STORE_SHARED_CTA = "store: .shared::cta", Dimension.SPACE
    LDMATRIX_GENERIC = "ldmatrix: generic", Dimension.SPACE
    LDMATRIX_SHARED = "ldmatrix: .shared", Dimension.SPACE
    LDMATRIX_SHARED_CTA = "ldmatrix: .shared::cta", Dimension.SPACE
    STMATRIX_GENERIC = "stmatrix: generic", Dimension.SPACE
    STMATRIX_SHARED = "stmatrix: .shared", Dimension.SPACE
    STMATRIX_SHARED_CTA = "stmatrix: .shared::cta", Dimension.SPACE


OF_LANES = frozenset(
    {
        Feature.MMA_SYNC, Feature.STMATRIX, Feature.MOVMATRIX, Feature.PACKED,
        Feature.LOAD_REGISTERS, Feature.FED_BY_LDMATRIX, Feature.D_AS_MULTIPLICAND,
        Feature.STMATRIX_OF_D, Feature.OVER_PART, Feature.STMATRIX_GENERIC,
        Feature.STMATRIX_SHARED, Feature.STMATRIX_SHARED_CTA, Feature.STMATRIX_REPEATED,
        Feature.MOVMATRIX_IN_PLACE,
    }
)  # fmt: skip
"""Features that only programs on registers known by lane have."""
_OF_BOTH = frozenset(
    {
        Feature.LDMATRIX, Feature.LDMATRIX_GENERIC, Feature.LDMATRIX_SHARED,
        Feature.LDMATRIX_SHARED_CTA, Feature.STORE_REGISTERS, Feature.COPY, Feature.BARRIER,
        Feature.STORE_BY_LANE,
        Feature.BRANCH, Feature.LOOP, Feature.ONE_MULTIPLICATION, Feature.D_AS_C, Feature.CHAIN,
        Feature.IN_PLACE_REGISTERS, Feature.OVER_MULTIPLICAND, Feature.A_REUSED, Feature.B_REUSED,
        Feature.SEVERAL_SHAPES, Feature.SEVERAL_TYPES, Feature.LIVE_8, Feature.LIVE_16,
        Feature.LOOP_CONSTANT, Feature.LOOP_WORD, Feature.BRANCH_CONSTANT, Feature.BRANCH_WORD,
        Feature.TWO_ARMS, Feature.NESTED, Feature.STEPS_12, Feature.STEPS_24,
        Feature.OFFSET_IMMEDIATE, Feature.OFFSET_NEGATIVE, Feature.C_ORDER, Feature.C_PART,
        Feature.C_REPEATED, Feature.AMONG_MULTIPLICANDS, Feature.A_WITH_B, Feature.ADDRESS_LOADED,
    }
)  # fmt: skip
"""Features that these programs and those of wmma can have."""


def possible_features(form: Form) -> tuple[Feature, ...]:
    """Return what a program about a form can be asked for, in the order of `Feature`."""
    if not form.opaque and form.mnemonic != "ldmatrix":
        return tuple(one for one in Feature if one in OF_LANES or one in _OF_BOTH)
    return tuple(one for one in Feature if one not in OF_LANES)


@dataclass(frozen=True, kw_only=True)
class Focus:
    """What a program should be about. Nothing that is asked for: anything goes."""

    form: Form | None = None
    """An instruction that the program should have."""
    features: frozenset[Feature] = frozenset()
    """What else it should have, as far as that is possible together."""
    line_bytes: int = 1
    """Bytes of which the addresses and the strides beyond the default of wmma are multiples, where
    the ISA asks for fewer."""
    shares_registers: bool | None = None
    """Whether operands share registers in ways that only PTX can say: None by chance and where a
    feature asks for it, False never, True of every step that can."""


def stride_unit(matrix: Matrix, *, shared: bool, line_bytes: int = 1) -> int:
    """Return of how many elements strides beyond the default are multiples (9.7.14.4.2).

    Each line starts at a multiple of the fragment's size, in shared memory of 16 bytes at least.
    """
    return unit_bytes(matrix, shared=shared, line_bytes=line_bytes) * 8 // matrix.type.bits


def unit_bytes(matrix: Matrix, *, shared: bool, line_bytes: int = 1) -> int:
    """Return of how many bytes addresses of a matrix are multiples (see `stride_unit`)."""
    return max(matrix.fragment_bytes, SHARED_ROW_BYTES if shared else 1, line_bytes)


def least_padded(matrix: Matrix, layout: str, *, shared: bool, line_bytes: int = 1) -> int:
    """Return the smallest stride above the default that keeps lines aligned, in elements."""
    unit = stride_unit(matrix, shared=shared, line_bytes=line_bytes)
    return (matrix.default_stride(layout) // unit + 1) * unit


def features_of(program: Program) -> frozenset[Feature]:
    """Return all features that a program has."""
    found = set(_structure(program))
    for step in walk(program.steps):
        found.update(_of_step(step, program))
    found.update(_of_memory(program))
    return frozenset(found)


_OF_PRODUCT = {"wmma.mma": Feature.MULTIPLICATION, "mma": Feature.MMA_SYNC}
"""By mnemonics."""


def _of_op(step: AnyOp, program: Program) -> Iterator[Feature]:
    """Yield what an instruction is, and how it addresses memory and shares registers."""
    if accesses_matrix(step):
        yield from _of_access(program, step)
    elif accesses_rows(step):
        form = step.form
        yield Feature(form.mnemonic)
        yield Feature(f"{form.mnemonic}: {'.' + form.space if form.space else 'generic'}")
        yield from _of_immediate(step.memory.immediate)
        if step.stores and _repeats(step.reads[0]):
            yield Feature.STMATRIX_REPEATED
    elif multiplies(step):
        yield _OF_PRODUCT[step.form.mnemonic]
        yield from _of_sharing(step, program)
        d, *multiplicands, _ = step.uses
        if not d.is_fragment and any(
            use.name == d.name and use.holds.words > d.holds.words for use in multiplicands
        ):
            yield Feature.OVER_PART
    else:
        yield Feature(step.form.mnemonic)
        if step.names["source"] == step.names["destination"]:
            yield Feature.MOVMATRIX_IN_PLACE


def _of_step(step: Step, program: Program) -> Iterator[Feature]:
    match step:
        case Op():
            yield from _of_op(step, program)
        case Elementwise():
            yield Feature(f"elements: {step.operation}")
            multiplicand = step.matrix.operand in "ab"
            yield Feature.CHANGED_MULTIPLICAND if multiplicand else Feature.CHANGED_ACCUMULATOR
        case PackRegisters():
            yield Feature.PACKED
        case SetRegisters() | MoveRegisters():
            pass
        case PlainAccess():
            yield Feature.LOAD_REGISTERS if step.loads else Feature.STORE_REGISTERS
            if step.lanes != LANES:
                yield Feature.STORE_BY_LANE
        case Copy():
            yield Feature.COPY
        case Barrier():
            yield Feature.BARRIER
        case Branch():
            yield Feature.BRANCH
            word = isinstance(step.condition, Word)
            yield Feature.BRANCH_WORD if word else Feature.BRANCH_CONSTANT
            if step.then and step.otherwise:
                yield Feature.TWO_ARMS
        case Loop():
            yield Feature.LOOP
            yield Feature.LOOP_WORD if isinstance(step.count, Word) else Feature.LOOP_CONSTANT
        case _:
            assert_never(step)
    if step.address is not None:
        yield Feature.ADDRESS_LOADED
    if any(inner.blocks for inside in step.blocks.values() for inner in inside):
        yield Feature.NESTED


_ORDERS = (Way.REVERSED, Way.SWAPPED, Way.ROTATED, Way.SHUFFLED)


def _of_sharing(step: Product, program: Program) -> Iterator[Feature]:
    """Yield how the operands of a multiplication share registers."""
    d, a, b, c = step.uses
    if d.name == c.name:
        yield Feature.IN_PLACE_REGISTERS
    way = way_of(d, c, program.shared_banks)
    if way in _ORDERS:
        yield Feature.C_ORDER
    elif way is Way.PART:
        yield Feature.C_PART
    if _repeats(c):
        yield Feature.C_REPEATED
    if d.name in (a.name, b.name):
        yield Feature.OVER_MULTIPLICAND
    elif any(way_of(d, one, program.shared_banks) for one in (a, b)):
        yield Feature.AMONG_MULTIPLICANDS
    if (listed(a.name) or listed(b.name)) and {one.bank for one in a.registers} & {
        one.bank for one in b.registers
    }:
        yield Feature.A_WITH_B


def _repeats(use: Use) -> bool:
    return len(set(use.registers)) < len(use.registers)


def _of_immediate(immediate: int) -> Iterator[Feature]:
    if immediate > 0:
        yield Feature.OFFSET_IMMEDIATE
    elif immediate < 0:
        yield Feature.OFFSET_NEGATIVE


def _of_access(program: Program, step: MatrixAccess) -> Iterator[Feature]:
    form, matrix, place = step.form, step.form.matrix(), step.memory.place
    yield Feature.STORE if step.stores else Feature(f"load {matrix.operand}")
    buffer = program.buffer(place.buffer)
    shared = buffer.space == "shared"
    verb = "store" if step.stores else "load"
    yield Feature(f"{verb}: {'.' + form.space if form.space else 'generic, ' + buffer.space}")
    yield from _of_immediate(step.memory.immediate)
    yield from _of_stride(step, shared=shared)
    unit = unit_bytes(matrix, shared=shared)
    address = program.offset(buffer.name) + place.offset
    if address % 128 == 0:
        yield Feature.ALIGNED_128
    elif address % (2 * unit) == 0:
        yield Feature.ALIGNED_MORE
    else:
        yield Feature.ALIGNED_LEAST
    if place.offset + step.tile.extent == buffer.size:
        yield Feature.BUFFER_END


def _of_stride(step: MatrixAccess, *, shared: bool) -> Iterator[Feature]:
    form, matrix, stride = step.form, step.form.matrix(), step.memory.stride
    if stride is None:
        yield Feature.STRIDE_OMITTED
        return
    yield Feature.STRIDE_REGISTER if step.memory.stride_in_register else Feature.STRIDE_IMMEDIATE
    default = matrix.default_stride(form.layout)
    if stride == default:
        yield Feature.STRIDE_DEFAULT
        return
    least = least_padded(matrix, form.layout, shared=shared)
    if stride == least:
        yield Feature.STRIDE_LEAST
    elif stride // stride_unit(matrix, shared=shared) % 2:
        yield Feature.STRIDE_ODD
    pitch = stride * matrix.type.bits // 8
    if pitch >= HUGE_PITCH:
        yield Feature.STRIDE_HUGE
    elif stride >= LARGE_FACTOR * default:
        yield Feature.STRIDE_LARGE


def _structure(program: Program) -> Iterator[Feature]:
    """Yield what follows from the steps' order and from the names, not from addresses."""
    steps = tuple(walk(program.steps))
    products = [step for step in steps if multiplies(step)]
    if len(products) == 1:
        yield Feature.ONE_MULTIPLICATION
    if len({step.form.shape for step in products}) > 1:
        yield Feature.SEVERAL_SHAPES
    if len({step.form.a_type for step in products}) > 1:
        yield Feature.SEVERAL_TYPES
    yield from _of_registers(steps)
    flow = Flow.of(program.steps)
    if flow.chain >= 1:
        yield Feature.D_AS_C
    if flow.chain >= 2:
        yield Feature.CHAIN
    if flow.uses["a"] > 1:
        yield Feature.A_REUSED
    if flow.uses["b"] > 1:
        yield Feature.B_REUSED
    live = most_live(program.steps)
    if live.fragments >= 8:
        yield Feature.LIVE_8
    if live.fragments >= 16:
        yield Feature.LIVE_16
    if live.registers > MOST_REGISTERS:
        yield Feature.SPILLS
    if len(steps) >= 12:
        yield Feature.STEPS_12
    if len(steps) >= 24:
        yield Feature.STEPS_24


def _of_registers(steps: tuple[Step, ...]) -> Iterator[Feature]:
    """Yield where registers known by lane come from, each from the last step that wrote it."""
    makers: dict[Register, Step] = {}
    for step in steps:
        sources = {
            use.field: [makers.get(register) for register in use.registers] for use in step.reads
        }
        if multiplies_registers(step):
            if any(loads_rows(one) for source in sources.values() for one in source):
                yield Feature.FED_BY_LDMATRIX
            if any(multiplies_registers(one) for name in "ab" for one in sources[name]):
                yield Feature.D_AS_MULTIPLICAND
        elif stores_rows(step) and any(map(multiplies_registers, sources["registers"])):
            yield Feature.STMATRIX_OF_D
        if step.writes is not None:
            # What is moved, packed or transposed is still the D that it was.
            moved = "source" in sources and not step.writes.is_fragment
            carried = sources["source"][0] if moved else None
            makers |= dict.fromkeys(step.writes.registers, step if carried is None else carried)


def _of_memory(program: Program) -> Iterator[Feature]:
    """Yield what follows from where the accesses lie to each other."""
    spaces = set()
    seen: list[tuple[MatrixAccess, Span]] = []
    stored: list[Span] = []
    registers: list[Span] = []
    for step in walk(program.steps):
        if loads_rows(step) and any(_rows(step).meets(one) for one in stored):
            yield Feature.LDMATRIX_OF_STORE
        if step.stores and not step.instruction:
            registers += step.bytes_written
        if not accesses_matrix(step):
            continue
        (span,) = (*step.bytes_read, *step.bytes_written)
        spaces.add(program.buffer(span.buffer).space)
        for other, its in seen:
            if its.buffer == span.buffer:
                yield from _of_pair(other, its, step, span)
        seen.append((step, span))
        if step.stores:
            stored.append(span)
        elif any(one.meets(span) for one in registers):
            yield Feature.LDMATRIX_LOADED
    if len(spaces) > 1:
        yield Feature.GLOBAL_AND_SHARED


def _rows(step: RowAccess) -> Span:
    """Return the bytes from the first to the last that ldmatrix may read."""
    addresses = step.memory.addresses
    low, high = min(addresses), max(addresses) + ROW_BYTES
    return Span.block(step.memory.buffer, low, high - low)


def _of_pair(first: MatrixAccess, its: Span, second: MatrixAccess, span: Span) -> Iterator[Feature]:
    """Yield what two accesses to one buffer make, the first earlier in the text."""
    meet = its.meets(span)
    if meet and not second.stores:
        yield Feature.STORED_AND_LOADED if first.stores else Feature.OVERLAPPING_READS
    if (
        second.stores
        and its == span
        and first.form.matrix().operand == "c"
        and first.form.layout == second.form.layout
    ):
        yield Feature.IN_PLACE_MEMORY
    if (
        not meet
        and first.form.type() == second.form.type()
        and first.form.layout == second.form.layout
        and its.pitch == span.pitch > its.run
        and abs(its.start - span.start) < its.pitch * its.runs
    ):
        yield Feature.TILES


OF_OPERATION: dict[Operation, Feature] = {
    operation: Feature(f"elements: {operation}") for operation in Operation
}
"""The feature of each element-wise operation."""


def main_form(program: Program) -> Form:
    """Return the form of the step that a program is about.

    That is its first mma.sync, which ldmatrix feeds and stmatrix stores; without one, its first
    wmma.mma, ldmatrix, stmatrix or movmatrix.

    Raises
    ------
    UsageError
        If it has none.
    """
    found = [step.form for step in walk(program.steps) if is_main(step)]
    if not found:
        raise UsageError("the program has no matrix instruction; there is nothing to judge")
    return next((form for form in found if form.is_product and not form.opaque), found[0])
