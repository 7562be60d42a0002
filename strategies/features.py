"""What a program is made of, as features that can be counted and asked for.

Features are a pure function of a program, never of how it was drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from typing import Any, Self, assert_never

from oracle.isa.forms import ROW_BYTES, Form, Matrix
from oracle.isa.lookup import FORMS, INSTRUCTIONS
from oracle.layouts import is_packed
from oracle.program import lane_code
from oracle.program import steps as ops
from oracle.program.lane_code import Assign, If, LaneCode, Leave, Repeat, Statement, every, inside
from oracle.program.operands import (
    MOST_REGISTERS,
    Operation,
    Register,
    Span,
    Turn,
    Use,
    Word,
    listed,
)
from oracle.program.operations import Elementwise, Scalar
from oracle.program.overlaps import Way, way_of
from oracle.program.program import Program, walk
from oracle.program.steps import Barrier, Branch, Copy, Loop, PlainAccess, Step, is_lane_code
from oracle.program.warpgroup import AsyncProduct, WarpgroupSync
from oracle.scalar import SCALARS
from strategies.liveness import chains, most_live

HUGE_PITCH, LARGE_FACTOR = 4096, 2  # Strides that are huge, in bytes, and large, in default ones
SHARED_ROW_BYTES = 16
"""Alignment of lines in shared memory, below which sm_90 traps (H200; docs/findings.md)."""


class Dimension(StrEnum):
    """What kind of thing a feature says."""

    STEP = "step kind"
    PROGRAM = "program"
    STRIDE = "stride class"
    ADDRESS = "address class"
    SPACE = "state space"
    LANES = "scalar code"
    SCALAR = "scalar instruction"


class Feature(str):
    """Something that a program has, which is what it is called: no two have the same name."""

    value: str
    dimension: Dimension
    opaque: bool | None
    """Whether only programs on wmma's fragments have it, or (False) on registers known by lane."""
    operand: str  # Without this kind no program has it

    def __new__(
        cls, value: str, dimension: Dimension, opaque: bool | None = None, operand: str = ""
    ) -> Self:
        """Return what has a name, a dimension and so on."""
        made = super().__new__(cls, value)
        made.value, made.dimension, made.opaque, made.operand = value, dimension, opaque, operand
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:  # of a copy in another process
        return self.value, self.dimension, self.opaque, self.operand


@cache
def of_form(form: Form, memory: str = "") -> tuple[Feature, ...]:
    """Return the step that an instruction is and, if it has an address, how it names the memory."""
    # Of a form of wmma, `memory` is the state space of the buffer that it accesses.
    step = verb = INSTRUCTIONS[form.mnemonic].name
    opaque = form.opaque or (None if form.is_load else False)  # loads of rows stand anywhere
    if form.opaque:
        verb = "multiplication" if form.is_product else "load" if form.is_load else "store"
        step = f"load {form.matrix().operand}" if form.is_load else verb
    found = Feature(step, Dimension.STEP, opaque)
    if ops.memory_of(form) is None:
        return (found,)
    generic = f"generic, {memory}" if form.opaque else "generic"
    space = f"{verb}: {'.' + form.space if form.space else generic}"
    return found, Feature(space, Dimension.SPACE, opaque)


def _of_forms(forms: Iterable[Form]) -> tuple[Feature, ...]:
    memories = ("global", "shared")
    found = (one for form in forms for memory in memories for one in of_form(form, memory))
    return tuple(dict.fromkeys(found))


ROW_LOADS = _of_forms(form for form in FORMS if ops.memory_of(form) is ops.Rows and form.is_load)
"""Steps and state spaces of instructions that load rows, as `ROW_STORES` of those that store."""
ROW_STORES = _of_forms(form for form in FORMS if ops.memory_of(form) is ops.Rows and form.is_store)
MOVES = _of_forms(form for form in FORMS if ops.memory_of(form) is None and not form.is_product)
"""Features of instructions that move registers to registers."""
_PRODUCTS = frozenset(of_form(form)[0] for form in FORMS if form.is_product and not form.opaque)
"""Features of multiplications of registers: programs about other forms are not asked for them."""
OF_OPERATION = {
    operation: Feature(f"elements: {operation}", Dimension.STEP, opaque=True)
    for operation in Operation
}
OF_SCALAR = {
    row.family: Feature(row.family, Dimension.SCALAR)
    for row in SCALARS.values()
    if not row.nan or row.settled_by
}
"""The feature of each scalar instruction, by its first word: of those whose results PTX says, on
some operands at least, or that another instruction settles."""
_step, _program, _stride, _address, _, _lanes, _ = (
    partial(Feature, dimension=d) for d in Dimension
)
_of_group = partial(_step, opaque=False, operand="scale-d")


class Has:
    """Features that are no single instruction's; where one names an instruction, the first one."""

    PACKED = _step("pairs of registers packed", opaque=False)
    LOAD_REGISTERS = _step("load of registers", opaque=False)
    STORE_REGISTERS = _step("store of registers")
    STORE_BY_LANE = _step("store of registers by some lanes")
    COPY = _step("copy")
    BARRIER = _step("barrier")
    BRANCH = _step("branch")
    LOOP = _step("loop")
    ONE_WARP = _of_group("steps of one warp of a warpgroup")

    ONE_MULTIPLICATION = _program("one multiplication")
    D_AS_C = _program("d used as c")
    CHAIN = _program("chain of three accumulations")
    IN_PLACE_REGISTERS = _program("d in the registers of c")
    OVER_MULTIPLICAND = _program("d in the registers of a or b")
    IN_PLACE_MEMORY = _program("d stored over c", opaque=True)
    A_REUSED = _program("a used again")
    B_REUSED = _program("b used again")
    SEVERAL_SHAPES = _program("several shapes")
    SEVERAL_TYPES = _program("several types")
    LIVE_8 = _program("8 live fragments")
    LIVE_16 = _program("16 live fragments")
    SPILLS = _program("more live registers than there are", opaque=True)
    TILES = _program("tiles of a larger matrix", opaque=True)
    OVERLAPPING_READS = _program("overlapping reads", opaque=True)
    STORED_AND_LOADED = _program("stored and loaded again", opaque=True)
    GLOBAL_AND_SHARED = _program("matrices in global and shared memory", opaque=True)
    CHANGED_MULTIPLICAND = _program("elements of a or b changed", opaque=True)
    CHANGED_ACCUMULATOR = _program("elements of c or d changed", opaque=True)
    ROWS_OF_STORE = _program(f"{ROW_LOADS[0]} reads what wmma.store wrote", opaque=True)
    ROWS_LOADED = _program(
        f"registers of {ROW_LOADS[0]} are stored and loaded by wmma", opaque=True
    )
    FED_BY_ROWS = _program(f"{ROW_LOADS[0]} feeds mma.sync", opaque=False)
    WIDENED = _program(f"{ROW_LOADS[0]} widens elements that mma.sync multiplies", opaque=False)
    D_AS_MULTIPLICAND = _program("d of mma.sync is a or b of the next", opaque=False)
    ROWS_OF_D = _program(f"{ROW_STORES[0]} stores d of mma.sync", opaque=False)
    OVER_PART = _program("d in some of the registers of a or b", opaque=False)
    C_ORDER = _program("c in the registers of d in another order")
    C_PART = _program("c in some of the registers of d")
    C_REPEATED = _program("c repeats a register")
    AMONG_MULTIPLICANDS = _program("d among the registers of a or b")
    A_WITH_B = _program("a and b in one bank of registers")
    ADDRESS_LOADED = _program("address in a register that is loaded")
    SELECTOR = _program("sparsity selector above 0", opaque=False, operand="selector")
    METADATA_SET = _program("metadata in registers that are set", opaque=False, operand="e")
    OVER_METADATA = _program("d in the register of the metadata", opaque=False, operand="e")
    SCALE_IDS = _program("selectors of scales above 0", opaque=False, operand="sa")
    IDS_IN_REGISTERS = _program("selectors of scales in registers", opaque=False, operand="sa")
    OVER_SCALES = _program("d in a register of scales", opaque=False, operand="sa")
    ROWS_REPEATED = _program(f"{ROW_STORES[0]} repeats a register", opaque=False)
    MOVED_IN_PLACE = _program(f"{MOVES[0]} into its source", opaque=False)
    LOOP_CONSTANT = _program("loop with a constant count")
    LOOP_WORD = _program("loop with a count from memory")
    BRANCH_CONSTANT = _program("branch on a constant")
    BRANCH_WORD = _program("branch on a word from memory")
    TWO_ARMS = _program("branch with two arms")
    NESTED = _program("branch or loop in another")
    STEPS_12 = _program("12 steps")
    STEPS_24 = _program("24 steps")

    STRIDE_OMITTED = _stride("default, left out", opaque=True)
    STRIDE_DEFAULT = _stride("default, written", opaque=True)
    STRIDE_LEAST = _stride("padded by the least", opaque=True)
    STRIDE_ODD = _stride("odd number of units", opaque=True)
    STRIDE_LARGE = _stride("large", opaque=True)
    STRIDE_HUGE = _stride("huge", opaque=True)
    STRIDE_REGISTER = _stride("in a register", opaque=True)
    STRIDE_IMMEDIATE = _stride("immediate", opaque=True)

    ALIGNED_LEAST = _address("aligned as little as may be", opaque=True)
    ALIGNED_MORE = _address("aligned to twice that", opaque=True)
    ALIGNED_128 = _address("aligned to 128 bytes", opaque=True)
    OFFSET_IMMEDIATE = _address("offset in the instruction")
    OFFSET_NEGATIVE = _address("negative offset in the instruction")
    ROWS_COMPUTED = _address("rows at addresses that lanes compute")
    BUFFER_END = _address("last byte is the buffer's last", opaque=True)

    LANES_ALONE = _program("code of lanes alone", opaque=False)
    LANES_BEFORE = _program("code of lanes before mma.sync", opaque=False)
    LANES_BEHIND = _program("code of lanes behind mma.sync", opaque=False)
    UNPACKED = _program("code of lanes that unpacks A or B", opaque=False)
    PACKED_BEHIND = _program("code of lanes that packs D", opaque=False)
    GUARD = _lanes("instruction under a predicate")
    IF = _lanes("branch of lanes")
    IF_ELSE = _lanes("branch of lanes with two arms")
    REPEAT = _lanes("loop of lanes with a constant count")
    REPEAT_BY_LANE = _lanes("loop of lanes with a count of each")
    REPEAT_DOWN = _lanes("loop of lanes that counts down")
    REPEAT_LATE = _lanes("loop of lanes that asks behind its body")
    REPEAT_ENTRY = _lanes("loop of lanes entered within its body")
    LEAVE = _lanes("lanes leave a loop")
    LEAVE_TURN = _lanes("lanes leave a turn of a loop")
    DEPTH_2 = _lanes("branches and loops of lanes, 2 deep")
    DEPTH_3 = _lanes("branches and loops of lanes, 3 deep")
    CARRY = _lanes("carry")
    CROSSING = _lanes("lanes read what others hold")

    BY_TURN = _of_group("branch by the turn of a loop")
    STAGES = _of_group("matrix of wgmma overwritten in a loop")
    UNSET = _of_group("d of wgmma that nothing writes before")
    BULK = _of_group("copy in bulk")


LIVE = (Has.LIVE_8, Has.LIVE_16)
_OF_FORMS = _of_forms(FORMS)
_ROWS = (
    *(one for one in _OF_FORMS if one.dimension is Dimension.STEP and one.opaque),
    *OF_OPERATION.values(),
    *(one for one in _OF_FORMS if one.dimension is Dimension.STEP and not one.opaque),
    *(one for one in vars(Has).values() if isinstance(one, Feature)),
    *(one for one in _OF_FORMS if one.dimension is Dimension.SPACE),
    *OF_SCALAR.values(),
)
FEATURES: dict[str, Feature] = {one.value: one for one in _ROWS}
"""All by their names, in the order in which they are asked for and listed."""
WISHED = tuple(one for one in Dimension if one not in (Dimension.LANES, Dimension.SCALAR))
"""Dimensions of what programs about a form are asked for."""
OF_CODE = frozenset({Has.LANES_ALONE, *(one for one in _ROWS if one.dimension not in WISHED)})
"""Features that programs of code of lanes alone are asked for."""
OF_LANES = frozenset(one for one in _ROWS if one.opaque is False)
OF_OPERANDS = frozenset(one for one in _ROWS if one.operand)
OF_GROUPS = frozenset(one for one in _ROWS if one.operand == "scale-d")
"""Features of programs of a warpgroup."""


def possible_features(form: Form) -> tuple[Feature, ...]:
    """Return what a program about a form can be asked for, in the order of `FEATURES`."""
    opaque, others = form.opaque or form.is_load, _PRODUCTS - {*of_form(form)} | OF_CODE
    others |= {Has.SELECTOR} if form.is_scaled else set()  # it is 0 there
    if not (form.is_product and any(form.type(operand).padding for operand in "ab")):
        others |= {Has.WIDENED}
    return tuple(
        feature
        for feature in FEATURES.values()
        if feature.opaque in (None, opaque)
        and feature.operand in ("", *form.operands)
        and feature not in others
    )


@dataclass(frozen=True, kw_only=True)
class Focus:
    """What a program should be about. Nothing that is asked for: anything goes."""

    form: Form | None = None  # An instruction that the program should have
    features: frozenset[Feature] = frozenset()  # As far as that is possible together
    line_bytes: int = 1
    """Bytes of which wmma's addresses, and strides beyond the default, are multiples, at least."""
    shares_registers: bool | None = None
    """Whether operands share registers as only PTX can say: None by chance, or where asked for."""


def unit_bytes(matrix: Matrix, *, shared: bool, line_bytes: int = 1) -> int:
    """Return of how many bytes lines of a matrix, and strides beyond the default, are multiples."""
    # 9.7.14.4.2: the size of a fragment, where that is less than what is asked for here.
    return max(matrix.fragment_bytes, SHARED_ROW_BYTES if shared else 1, line_bytes)


def features_of(program: Program) -> frozenset[Feature]:
    """Return all features that a program has."""
    steps = tuple(walk(program.steps))
    found = {*_of_structure(program, steps), *_of_registers(steps), *_of_memory(program, steps)}
    return frozenset(found.union(*(_of_step(step, program) for step in steps)))


def _those(found: Mapping[Feature, bool]) -> Iterator[Feature]:
    return (feature for feature, there in found.items() if there)


def _of_step(step: Step, program: Program) -> Iterator[Feature]:
    match step:
        case ops.Op() if ops.accesses_matrix(step):
            yield from of_form(step.form, program.buffer(step.memory.place.buffer).space)
            yield from _of_access(program, step)
        case ops.Op():
            yield from of_form(step.form)
            if ops.accesses_rows(step):
                yield from _immediate(step.memory.immediate)
                repeats = step.stores and _repeats(step.reads[0])
                computed = bool(step.memory.computed)
                yield from _those({Has.ROWS_COMPUTED: computed, Has.ROWS_REPEATED: repeats})
            elif ops.multiplies(step):
                yield from _of_sharing(step, program)
            elif step.names["source"] == step.names["destination"]:
                yield Has.MOVED_IN_PLACE
        case Elementwise():
            yield OF_OPERATION[step.operation]
            multiplicand = step.matrix.operand in "ab"
            yield Has.CHANGED_MULTIPLICAND if multiplicand else Has.CHANGED_ACCUMULATOR
        case Scalar():
            yield from _those({Has.PACKED: step.action == "pack_registers"})
        case LaneCode():
            yield from _of_lane_code(step)
        case PlainAccess():
            yield Has.LOAD_REGISTERS if step.loads else Has.STORE_REGISTERS
            yield from _those({Has.STORE_BY_LANE: step.lanes != program.threads})
        case AsyncProduct():
            yield from of_form(step.form)
        case Copy():
            yield Has.COPY if step.mbarrier is None else Has.BULK
        case Barrier():
            yield Has.BARRIER
        case WarpgroupSync():
            pass
        case Branch(condition=condition):
            yield from (Has.BRANCH, *([Has.TWO_ARMS] if step.then and step.otherwise else []))
            kinds = {Word: Has.BRANCH_WORD, Turn: Has.BY_TURN}
            yield kinds.get(type(condition), Has.BRANCH_CONSTANT)
        case Loop(count=count):
            yield from (Has.LOOP, Has.LOOP_WORD if isinstance(count, Word) else Has.LOOP_CONSTANT)
            inside = [*walk(step.body)]
            read = (s.tiles.values() for s in inside if isinstance(s, AsyncProduct))
            names = {tile.place.buffer for tiles in read for tile in tiles}
            written = {span.buffer for s in inside for span in s.bytes_written}
            yield from _those({Has.STAGES: not names.isdisjoint(written)})
        case ops.OneWarp():
            yield Has.ONE_WARP
        case _:
            assert_never(step)
    if step.address is not None:
        yield Has.ADDRESS_LOADED
    if any(inner.blocks for inside in step.blocks.values() for inner in inside):
        yield Has.NESTED


def _immediate(immediate: int) -> Iterator[Feature]:
    return _those({Has.OFFSET_IMMEDIATE: immediate > 0, Has.OFFSET_NEGATIVE: immediate < 0})


def _repeats(use: Use) -> bool:
    return len(set(use.registers)) < len(use.registers)


def _of_lane_code(step: LaneCode) -> Iterator[Feature]:
    for one in every(step.code):
        match one:
            case Assign(guard=guard):
                row = lane_code.row_of(one)
                if row.family in OF_SCALAR:
                    yield OF_SCALAR[row.family]
                if guard:
                    yield Has.GUARD
                if row.carry_in:
                    yield Has.CARRY
                if row.warp:
                    yield Has.CROSSING
            case If():
                yield Has.IF_ELSE if one.then and one.otherwise else Has.IF
            case Repeat(down=down, late=late, entry=entry):
                yield Has.REPEAT if isinstance(one.count, int) else Has.REPEAT_BY_LANE
                found = {
                    Has.REPEAT_DOWN: down,
                    Has.REPEAT_LATE: late,
                    Has.REPEAT_ENTRY: entry != "",
                }
                yield from _those(found)
            case Leave():
                yield Has.LEAVE_TURN if one.turn else Has.LEAVE

    def depth(code: tuple[Statement, ...]) -> int:
        blocks = (block for one in code for block in inside(one).values())
        return max((1 + depth(block) for block in blocks), default=0)

    yield from _those({Has.DEPTH_2: depth(step.code) >= 2, Has.DEPTH_3: depth(step.code) >= 3})


_OVER = {"e": Has.OVER_METADATA, "sa": Has.OVER_SCALES, "sb": Has.OVER_SCALES}
_ORDERS = (Way.REVERSED, Way.SWAPPED, Way.ROTATED, Way.SHUFFLED)


def _of_sharing(step: ops.Product, program: Program) -> Iterator[Feature]:
    """Yield how the operands of a multiplication share registers."""
    d, a, b, c = step.uses[:4]
    way, over = way_of(d, c, program.shared_banks), d.name in (a.name, b.name)
    a_with_b = {one.bank for one in a.registers} & {one.bank for one in b.registers}
    return _those(
        {
            (Has.SCALE_IDS if step.form.is_scaled else Has.SELECTOR): bool(step.selector),
            Has.IDS_IN_REGISTERS: step.ids_in_registers,
            **{_OVER[u.field]: True for u in step.uses[4:] if {*d.registers} & {*u.registers}},
            Has.IN_PLACE_REGISTERS: d.name == c.name,
            Has.C_ORDER: way in _ORDERS,
            Has.C_PART: way is Way.PART,
            Has.C_REPEATED: _repeats(c),
            Has.OVER_MULTIPLICAND: over,
            Has.AMONG_MULTIPLICANDS: not over
            and any(way_of(d, one, program.shared_banks) for one in (a, b)),
            Has.A_WITH_B: (listed(a.name) or listed(b.name)) and bool(a_with_b),
            Has.OVER_PART: not d.is_fragment
            and any(one.name == d.name and one.holds.words > d.holds.words for one in (a, b)),
        }
    )


def _of_access(program: Program, step: ops.MatrixAccess) -> Iterator[Feature]:
    matrix, layout, memory = step.form.matrix(), step.form.layout, step.memory
    buffer, stride = program.buffer(memory.place.buffer), memory.stride
    shared = buffer.space == "shared"
    unit = unit_bytes(matrix, shared=shared)
    address = program.offset(buffer.name) + memory.place.offset
    yield from _immediate(memory.immediate)
    found = {
        Has.BUFFER_END: memory.place.offset + step.tile.extent == buffer.size,
        Has.ALIGNED_128: address % 128 == 0,
        Has.ALIGNED_LEAST: address % 128 != 0 and address % (2 * unit) != 0,
        Has.ALIGNED_MORE: address % 128 != 0 and address % (2 * unit) == 0,
        Has.STRIDE_OMITTED: stride is None,
    }
    if stride is not None:
        default, elements = matrix.default_stride(layout), unit * 8 // matrix.type.bits
        padded = stride != default
        least = padded and stride == (default // elements + 1) * elements
        huge = padded and stride * matrix.type.bits // 8 >= HUGE_PITCH
        odd = stride // elements % 2 == 1
        found |= {
            Has.STRIDE_REGISTER: memory.stride_in_register,
            Has.STRIDE_IMMEDIATE: not memory.stride_in_register,
            Has.STRIDE_DEFAULT: not padded,
            Has.STRIDE_LEAST: least,
            Has.STRIDE_ODD: padded and not least and odd,
            Has.STRIDE_HUGE: huge,
            Has.STRIDE_LARGE: padded and not huge and stride >= LARGE_FACTOR * default,
        }
    yield from _those(found)


def _of_structure(program: Program, steps: Sequence[Step]) -> Iterator[Feature]:
    """Yield what follows from the steps' order and from the names, not from addresses."""
    products = [step for step in steps if ops.multiplies(step)]
    chain, reused = chains(program.steps)
    fragments, registers = most_live(program.steps)
    instructions, code = any(s.instruction for s in steps), any(map(is_lane_code, steps))
    return _those(
        {
            Has.ONE_MULTIPLICATION: len(products) == 1,
            Has.LANES_ALONE: code and not instructions,
            Has.SEVERAL_SHAPES: len({step.form.shape for step in products}) > 1,
            Has.SEVERAL_TYPES: len({step.form.a_type for step in products}) > 1,
            Has.D_AS_C: chain >= 1,
            Has.CHAIN: chain >= 2,
            Has.A_REUSED: reused["a"] > 1,
            Has.B_REUSED: reused["b"] > 1,
            Has.LIVE_8: fragments >= 8,
            Has.LIVE_16: fragments >= 16,
            Has.SPILLS: registers > MOST_REGISTERS,
            Has.STEPS_12: len(steps) >= 12,
            Has.STEPS_24: len(steps) >= 24,
        }
    )


def _of_registers(steps: Sequence[Step]) -> Iterator[Feature]:
    """Yield where registers known by lane come from, each from the last step that wrote it."""
    makers: dict[Register, Step] = {}
    widening = list[Step]()  # Loads that widen elements, and code of lanes behind them

    def has(step: LaneCode, *families: str) -> bool:
        return any(SCALARS[opcode].family in families for opcode in step.opcodes)

    for step in steps:
        sources = {
            use.field: [makers[register] for register in use.registers if register in makers]
            for use in step.reads
        }
        every_ = [one for some in sources.values() for one in some]
        if (ops.loads_rows(step) and is_packed(step.form)) or (
            is_lane_code(step) and any(one is other for one in every_ for other in widening)
        ):
            widening.append(step)
        if ops.multiplies_registers(step):
            code = list(filter(is_lane_code, every_))
            multiplicands = (*sources["a"], *sources["b"])
            found = {
                Has.METADATA_SET: any(one.sets is not None for one in sources.get("e", ())),
                Has.FED_BY_ROWS: any(map(ops.loads_rows, every_)),
                Has.D_AS_MULTIPLICAND: any(map(ops.multiplies_registers, multiplicands)),
                Has.WIDENED: any(one is other for one in multiplicands for other in widening),
                Has.LANES_BEFORE: bool(code),
                Has.UNPACKED: any(has(one, "cvt", "prmt", "lop3", "bfe") for one in code),
            }
            yield from _those(found)
        elif is_lane_code(step) and any(map(ops.multiplies_registers, every_)):
            packs = has(step, "cvt", "bfi") and len(step.results) < step.count
            yield from _those({Has.LANES_BEHIND: True, Has.PACKED_BEHIND: packs})
        elif ops.stores_rows(step) and any(map(ops.multiplies_registers, sources["registers"])):
            yield Has.ROWS_OF_D
        if isinstance(step, AsyncProduct) and makers.keys().isdisjoint(step.of_d):
            yield Has.UNSET
        if step.writes is not None:
            # What is moved, packed or transposed is still the D that it was.
            moved = "source" in sources and not (step.writes.is_fragment or is_lane_code(step))
            first = makers.get(step.reads[0].registers[0], step) if moved else step
            makers |= dict.fromkeys(step.writes.registers, first)


def _of_memory(program: Program, steps: Sequence[Step]) -> Iterator[Feature]:
    """Yield what follows from where the accesses lie to each other."""
    spaces, seen = set(), list[tuple[ops.MatrixAccess, Span]]()
    stored, registers = list[Span](), list[Span]()
    for step in steps:
        if ops.loads_rows(step):
            # The bytes from the first to the last that ldmatrix may read.
            low, high = min(step.memory.addresses), max(step.memory.addresses) + ROW_BYTES
            if any(map(Span.block(step.memory.buffer, low, high - low).meets, stored)):
                yield Has.ROWS_OF_STORE
        if step.stores and not step.instruction:
            registers += step.bytes_written
        if not ops.accesses_matrix(step):
            continue
        (span,) = (*step.bytes_read, *step.bytes_written)
        spaces.add(program.buffer(span.buffer).space)
        for other, its in seen:
            if its.buffer == span.buffer:
                meet, of_c = its.meets(span), other.form.matrix().operand == "c"
                same_layout = other.form.layout == step.form.layout
                found = {
                    Has.STORED_AND_LOADED: meet and other.stores and not step.stores,
                    Has.OVERLAPPING_READS: meet and not (other.stores or step.stores),
                    Has.IN_PLACE_MEMORY: step.stores and its == span and of_c and same_layout,
                    Has.TILES: not meet
                    and other.form.type() == step.form.type()
                    and same_layout
                    and its.pitch == span.pitch > its.run
                    and abs(its.start - span.start) < its.pitch * its.runs,
                }
                yield from _those(found)
        seen.append((step, span))
        if step.stores:
            stored.append(span)
        elif any(one.meets(span) for one in registers):
            yield Has.ROWS_LOADED
    yield from _those({Has.GLOBAL_AND_SHARED: len(spaces) > 1})


_NARROW = 6
"""Registers with which a D of a warpgroup counts twice. D of the first 300, 1,000, 3,496 programs
have 29, 40, 49 words on average, 57 if all count alike; the last reach 1,068 of 1,074 forms, and
1,073 if all do (seed 424242, 2026-11-30)."""


def _cost(form: Form) -> float:
    """Return what a program about a form counts, in those of the narrowest of its kind.

    ptxas 13.0.88 at -O3 takes 24 ms of a warpgroup's program about a D of 4 to 16 registers, 66 of
    one of 97 to 128 (160 programs, 2026-11-30), and narrow ones are wrong more often: 22 in 100
    with N up to 64, 15 from 193 on (names of wrong results per program, 13.5.37, 4,096 programs,
    2026-11-29).
    """
    return 1 + form.words("d") / _NARROW if form.warps > 1 else 1


def least_reached(forms: Sequence[Form], reached: Mapping[str, int]) -> Form:
    """Return the form with the fewest programs for its cost; of equal ones the first.

    The place counts as a part of a program, so that wide forms come late at first, too.
    """
    _, form = min(
        enumerate(forms, 1),
        key=lambda at: (reached.get(at[1].opcode, 0) + at[0] / len(forms)) * _cost(at[1]),
    )
    return form


def main_form(program: Program) -> Form | None:
    """Return the form that a program is about: its first mma.sync, or else its first main step."""
    found = [step.form for step in walk(program.steps) if ops.is_main(step)]
    products = (form for form in found if form.is_product and not form.opaque)
    return next(products, found[0] if found else None)
