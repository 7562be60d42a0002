"""The strategy for defined programs: how many multiplications, inside of what, beside what."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.strategies import SearchStrategy

from oracle.errors import UsageError
from oracle.isa.forms import FORMATS, Form, Matrix
from oracle.isa.lookup import SHAPES, is_available
from oracle.isa.targets import Module
from oracle.program.operands import Fragment, Place, Registers, Span, Uniform, Word
from oracle.program.program import Program, walk
from oracle.program.steps import (
    Branch,
    Copy,
    Loop,
)
from strategies.draws import Drawn
from strategies.features import (
    FEATURES,
    LIVE,
    MOVES,
    OF_CODE,
    ROW_LOADS,
    ROW_STORES,
    Feature,
    Focus,
    Has,
)
from strategies.programs import accesses, products
from strategies.programs.accesses import STORES, TIGHT, load
from strategies.programs.builder import (
    Builder,
    Dice,
    beside,
    chosen_form,
    everything,
    families,
    fitting,
    multiplication,
    operand_of,
    palette,
    unmet,
)
from strategies.programs.code_around import computed
from strategies.programs.products import with_shared_registers
from strategies.programs.warpgroups import group_program

_SIZES = (1, 1, 1, 2, 1, 1, 1, 3, 1, 2, 1, 4, 1, 2, 3, 8)
"""Multiplications of a program; all equally likely, so that more than half have one."""
_BETWEEN_IN = 8  # One program in so many has a warp-level step between two stores of the same lanes
_MOST_ADDED = 12  # Parts that are appended at most until a program is as long as was asked
_MOST_COPIED = 300  # Bytes of the longest copy that is a step of its own
BALLAST = 32  # Accumulators of eight registers that leave none of a thread's 255 free

_LOOPS = (Has.LOOP_CONSTANT, Has.LOOP_WORD)
_BRANCHES = (Has.BRANCH_CONSTANT, Has.BRANCH_WORD)
_COUNTS = (2, 3, 1, 4, 2, 3, 7, 2)  # Constants that loops run to; most compilers unroll them
_COUNT_MASKS = (3, 1, 2, 7)
_CONDITIONS = (1, 0, 0xFFFF_FFFF, 0x8000_0000)
_CONDITION_MASKS = (1, 2, 0x8000, 0x8000_0000)
"""Masks of words on which a branch depends: single bits, so that both arms are taken."""
_WORDS = 8  # Words of the buffer of words

_OF_ROWS = frozenset(
    {*ROW_LOADS, Has.STORE_REGISTERS, Has.STORE_BY_LANE, Has.ROWS_OF_STORE, Has.ROWS_COMPUTED}
)
"""Features that an ldmatrix behind everything else gives."""
_OF_ROWS_ALONE = _OF_ROWS - {Has.ROWS_OF_STORE} | {
    Has.COPY, Has.BARRIER, Has.OFFSET_IMMEDIATE, Has.OFFSET_NEGATIVE,
    Has.BRANCH, Has.LOOP, Has.NESTED, *_LOOPS, *_BRANCHES,
}  # fmt: skip
"""Features of programs without a multiplication."""
_LEAST_MULTIPLICATIONS = {
    Has.D_AS_C: 2, Has.CHAIN: 3, Has.A_REUSED: 2, Has.B_REUSED: 2,
    Has.SEVERAL_SHAPES: 2, Has.SEVERAL_TYPES: 2, Has.LIVE_8: 3, Has.LIVE_16: 6,
    Has.TILES: 2, Has.STORED_AND_LOADED: 2, Has.IN_PLACE_MEMORY: 2,
    Has.D_AS_MULTIPLICAND: 2, Has.OVER_PART: 2, Has.STORE_BY_LANE: 2,
    Has.STEPS_12: 3, Has.STEPS_24: 5,
}  # fmt: skip
_NEEDS = {
    Has.ADDRESS_LOADED: FEATURES["load: .shared"], Has.ROWS_REPEATED: ROW_STORES[0],
    Has.MOVED_IN_PLACE: MOVES[0],
}  # fmt: skip
"""What a program must have for a feature that is made of it in the end."""
_STEPS = ((Has.STEPS_12, 12), (Has.STEPS_24, 24))


def programs(focus: Focus, *, module: Module, forms: tuple[Form, ...]) -> SearchStrategy[Program]:
    """Draw programs that a module can have and that the ISA defines."""
    # They shrink towards one plain multiplication; about a form of ldmatrix, towards it alone. The
    # form of the focus is in every program, its features are where they are possible together. If
    # `forms` has loads and stores of wmma only, every multiplication may be used. UsageError says
    # that the form of the focus, or every other one, does not exist.
    about = focus.form or next(iter(forms), None)
    if about is not None and about.warps > 1 and Has.LANES_ALONE not in focus.features:
        return Drawn(lambda data: group_program(data, focus, forms, module, _program))
    known = palette(forms, module)
    if focus.form is not None and not is_available(focus.form, module):
        raise UsageError(
            f"{focus.form.opcode} does not exist on {module}; "
            f"`warpfuzz explain '{focus.form.opcode}'` says where it does"
        )
    anything = (
        known.fragment_products
        or known.row_loads
        or known.register_products
        or (*known.row_stores, *known.transpositions)
    )
    if focus.form is None and not anything:
        said = f"`warpfuzz isa --target {module.target.name}` lists those that it has"
        raise UsageError(f"{module} has none of the given forms; {said}")

    def drawn(data: ConjectureData) -> Program:
        builder = Builder(data, known, everything(module), focus, module)
        return with_shared_registers(_program(builder), builder)

    return Drawn(drawn)


Part = Callable[[], None]  # Appends steps to the builder's scope, and leaves nothing unstored


def _program(builder: Builder) -> Program:
    """Draw a program, from what it is about to its last store."""
    wanted = builder.asked
    builder.single = Has.ONE_MULTIPLICATION in wanted and not any(
        _LEAST_MULTIPLICATIONS.get(feature, 1) > 1 and feature != Has.IN_PLACE_MEMORY
        for feature in wanted
    )
    builder.wanted |= {_NEEDS[feature] for feature in wanted & _NEEDS.keys()}
    dice = builder.dice()
    if not wanted.isdisjoint(OF_CODE):
        # Code of lanes alone, perhaps in a branch or a loop that all take together.
        code = partial(_lane_code, builder)
        for kinds in _controls(builder, dice) if dice.once_in(4) else [()]:
            _around(builder, kinds, code, code)
        return builder.finish()
    main = chosen_form(builder, builder.focus.form, dice, rows=not wanted)
    # On opaque fragments, beside which ldmatrix may stand, or on registers of a known layout.
    opaque = main.opaque or main.is_load
    if opaque:
        builder.plain_spaces = not dice.below(3)
    number = _number(builder, main, dice)
    hoisted = dice.once_in(5) and not (opaque and wanted)
    hoisted |= not opaque and builder.wants((*LIVE, Has.STORE_BY_LANE))
    rows_too, copied = opaque and dice.once_in(6), dice.once_in(8)
    full = opaque and dice.once_in(128)
    controls = _controls(builder, dice)
    between = dice.once_in(_BETWEEN_IN) and not wanted
    if main.is_load:
        _move(builder, main, [()] if number else controls)
        rows_too = False
        if number:
            main = multiplication(builder, builder.dice())
    elif opaque and Has.ROWS_LOADED in wanted:
        _row_load(builder)
    if builder.take(Has.COPY) or copied:
        _copy(builder)
    # All warps of a warpgroup have no fragments of wmma.
    spilled = opaque and builder.everything.fragment_products
    if spilled and (Has.SPILLS in wanted or (full and not wanted)):
        _ballast(builder)
    if main.is_product:
        _multiply(builder, main, number, controls, hoisted=hoisted)
    elif not opaque:
        known = builder.palette.register_products
        if known and dice.once_in(2) and not (builder.single or wanted):
            products.multiply_all(
                builder, [dice.one_of(dice.one_of(families(known)))], hoisted=False
            )
        _move(builder, main, controls)
    if between and opaque and main.is_product:
        pending = [*builder.scope.pending()]
        last = pending[-1] if pending else products.load_accumulator(builder, main)
        accesses.between_stores(builder, lambda: products.store(builder, last))
    products.flush(builder)
    if opaque and (rows_too or builder.wants(_OF_ROWS)):
        _row_load(builder)
    if not opaque:
        if between and builder.palette.row_loads:
            accesses.between_stores(builder, partial(_row_load, builder))
        _complete_registers(builder)
    if builder.take(Has.BARRIER):
        builder.scope.barrier()
    for steps in [steps for feature, steps in _STEPS if feature in wanted]:
        for _ in range(_MOST_ADDED):
            if sum(1 for _ in walk(tuple(builder.scope.steps))) < steps:
                _lengthen(builder, opaque=opaque)
    return builder.finish()


def _lane_code(builder: Builder) -> None:
    """Append code that reads 8 words of each lane from memory and stores what it makes."""
    dice, holds = builder.dice(), Registers(registers=8)
    builder.take(Has.LANES_ALONE)
    value = accesses.load_registers(builder, holds, builder.name("x"), dice)
    accesses.store_registers(builder, computed(builder, value, holds, alone=True), dice)


def _number(builder: Builder, main: Form, dice: Dice) -> int:
    """Choose how many multiplications a program has; 0 about a load of rows alone."""
    wanted = builder.asked
    if builder.single and not (main.opaque or main.is_load):
        return 1
    number = dice.one_of(_SIZES)
    if main.is_load:
        alone = number == 1 or not builder.palette.fragment_products
        if (alone and wanted <= _OF_ROWS_ALONE) or not builder.everything.fragment_products:
            return 0
    if builder.single:
        return 1
    least = [_LEAST_MULTIPLICATIONS.get(feature, 0) for feature in wanted]
    if builder.form and builder.form.is_store and wanted.intersection(STORES):
        least.append(2)  # one store where the form has it, another where it is asked for
    if main.opaque:
        least.append(1 + len(unmet(builder, main)))
    return max(number, *least, 1)


def _controls(builder: Builder, dice: Dice) -> list[tuple[Feature, ...]]:
    """Choose the loops and branches around each part of a program, the outermost first."""
    kinds = [kind for kind in (*_LOOPS, *_BRANCHES) if kind in builder.wanted]
    drawn = (dice.one_of(_LOOPS), dice.one_of(_BRANCHES))
    choice = dice.below(8)
    if not builder.wants(_LOOPS) and Has.LOOP in builder.wanted:
        kinds.append(drawn[0])
    if not builder.wants(_BRANCHES) and builder.wants((Has.BRANCH, Has.TWO_ARMS)):
        kinds.append(drawn[1])
    nested = Has.NESTED in builder.wanted
    if nested and len(kinds) < 2:
        kinds += [kind for kind in drawn if kind not in kinds]
    if not kinds:
        return [{5: drawn[:1], 6: drawn[1:], 7: drawn}.get(choice, ())]
    return [tuple(kinds)] if nested or builder.single else [(kind,) for kind in kinds]


def _multiply(
    builder: Builder, main: Form, number: int, controls: list[tuple[Feature, ...]], *, hoisted: bool
) -> None:
    forms = beside(builder, main, max(number, len(controls)))
    if main.opaque and builder.wants(LIVE):
        products.multiply_all(builder, forms, hoisted=True)
        products.flush(builder)
        builder.take(*LIVE)
        if controls == [()]:
            return
        forms = forms[: len(controls)]
    size = -(-len(forms) // len(controls))
    for index, kinds in enumerate(controls):
        if part := forms[index * size : (index + 1) * size]:
            _part(builder, part, kinds, hoisted=hoisted)


def _part(
    builder: Builder, forms: list[Form], kinds: tuple[Feature, ...], *, hoisted: bool
) -> None:
    first = forms[0]

    def part() -> None:
        products.multiply_all(builder, forms, hoisted=hoisted)
        if kinds:
            products.flush(builder)

    carries = kinds and not hoisted and first.c_type == first.d_type
    # An accumulator that the loop carries, or that the branch leaves as it was.
    if carries and not builder.dice().once_in(4):
        products.load_accumulator(builder, first).pending = True
    _around(builder, kinds, part, partial(_other, builder, first))


def _other(builder: Builder, form: Form) -> None:
    """Append what stands in the other arm of a branch around a multiplication."""
    if not form.opaque:
        _copy(builder)
        return
    dice = builder.dice()
    values = [
        value for value in builder.scope.values.values()
        if isinstance(value.holds, Fragment) and not value.pins
    ]  # fmt: skip
    if values and (dice.once_in(2) or builder.single):
        products.change(builder, values[dice.below(len(values))], dice)
    elif builder.single:
        _copy(builder)
    else:
        products.multiply_all(builder, (form,), hoisted=False)
    products.flush(builder)


def _move(builder: Builder, form: Form, controls: list[tuple[Feature, ...]]) -> None:
    part = partial(accesses.row_load if form.is_load else _move_rows, builder, form)
    for kinds in controls:
        _around(builder, kinds, part, part)


def _row_load(builder: Builder) -> None:
    dice, form, known = builder.dice(), builder.focus.form, builder.palette.row_loads
    if not known and form is not None and form.is_main and form.is_load:
        known = (form,)
    if known:
        accesses.row_load(builder, fitting(builder, known, dice))


def _lengthen(builder: Builder, *, opaque: bool) -> None:
    full = builder.image_bytes() > 2 * TIGHT
    if not opaque or builder.single or full or not builder.everything.fragment_products:
        _copy(builder)
        return
    products.multiply_all(builder, (multiplication(builder, builder.dice()),), hoisted=False)
    products.flush(builder)


def _around(builder: Builder, kinds: tuple[Feature, ...], part: Part, other: Part) -> None:
    """Append a part inside of loops and branches; `other` stands in a second arm of a branch."""
    if not kinds:
        part()
        return
    kind, inner = kinds[0], kinds[1:]
    if inner:
        builder.take(Has.NESTED)
    dice = builder.dice()
    is_loop, outer = kind in _LOOPS, builder.scope
    builder.take(kind, Has.LOOP if is_loop else Has.BRANCH)
    uniform: Uniform
    two = not is_loop and dice.once_in(2)
    two |= not is_loop and builder.take(Has.TWO_ARMS)
    by_word = kind in (Has.LOOP_WORD, Has.BRANCH_WORD)
    if by_word:
        uniform = _word(builder, dice, dice.one_of(_COUNT_MASKS if is_loop else _CONDITION_MASKS))
    else:
        uniform = dice.one_of(_COUNTS if is_loop else _CONDITIONS)
    # What memory holds decides: it makes no difference which arm is which.
    swapped = dice.once_in(2) if by_word and not is_loop else uniform == 0
    arms = [outer.child(), outer.child()]
    builder.inside(arms[0], partial(_around, builder, inner, part, other))
    if is_loop:
        if arms[0].has_written:  # else its next turn could race with this one
            arms[0].barrier()
        outer.join(arms[1], arms[0])
        builder.add(Loop(count=uniform, body=tuple(arms[0].steps)))
        return
    if two:
        builder.inside(arms[1], other)
    outer.join(*arms)
    then, otherwise = (tuple(arm.steps) for arm in arms)
    if swapped and (otherwise or not by_word):
        then, otherwise = otherwise, then
    builder.add(Branch(condition=uniform, then=then, otherwise=otherwise))


def _move_rows(builder: Builder, form: Form) -> None:
    dice = builder.dice()
    holds = operand_of(form) if form.is_store else Registers(registers=dice.one_of((1, 2, 4)))
    there = [value for value in builder.scope.like(holds) if value.computed]
    value = (
        there[-1] if there and dice.once_in(2) else accesses.load_or_read(builder, holds, "r", dice)
    )
    if form.is_store:
        accesses.store_rows(builder, value, [form], dice)
    else:
        products.store(builder, accesses.transposed(builder, value, form))


def _complete_registers(builder: Builder) -> None:
    """Append moves that are still asked for."""
    known = builder.everything
    if known.plain_row_loads and builder.wants(accesses.ROW_LOADS_ASKED):
        accesses.row_load(builder, fitting(builder, known.plain_row_loads, builder.dice()))
    if known.row_stores and builder.wants(ROW_STORES):
        _move_rows(builder, fitting(builder, known.row_stores, builder.dice()))
    if known.transpositions and builder.wants(MOVES):
        _move_rows(builder, known.transpositions[0])
    if known.packs and Has.PACKED in builder.wanted:
        dice = builder.dice()
        value = accesses.load_registers(
            builder, Registers(registers=dice.one_of((4, 2, 8))), "c", dice
        )
        products.store(builder, accesses.packed(builder, value, dice))


def _word(builder: Builder, dice: Dice, mask: int) -> Word:
    """Choose a word of the image: one of its own, or one among the elements of a matrix."""
    regions = [region for region in builder.regions(shared=False) if region.span.end >= 8]
    if regions and dice.once_in(2):
        region = regions[dice.below(len(regions))]
        first, last = -(-region.span.start // 4), region.span.end // 4 - 1
        place = Place(buffer=region.arena.buffer, offset=min(first + dice.below(8), last) * 4)
    else:
        arena = builder.words
        if arena is None:
            arena = builder.words = builder.arena("n")
            builder.block(arena, 0, 4 * _WORDS)
        place = Place(buffer=arena.buffer, offset=4 * dice.below(_WORDS))
    builder.scope.access(reads=(Span.block(place.buffer, place.offset, 4),))
    return Word(place=place, mask=mask)


def _copy(builder: Builder) -> None:
    dice = builder.dice()
    builder.take(Has.COPY)
    size, offset = 1 + dice.below(_MOST_COPIED), dice.below(33)
    if builder.arenas:
        arena = builder.arenas[dice.below(len(builder.arenas))]
        offset = min(offset, arena.size - 1)
        size = min(size, arena.size - offset)
    else:
        arena = builder.arena("i")
        builder.block(arena, offset, size)
    target, start = builder.arena("o"), dice.below(33)
    region = builder.block(target, start, size, written=True)
    builder.scope.access(reads=(Span.block(arena.buffer, offset, size),), writes=(region.span,))
    source = Place(buffer=arena.buffer, offset=offset)
    destination = Place(buffer=target.buffer, offset=start)
    builder.add(Copy(source=source, destination=destination, size=size))


def _ballast(builder: Builder) -> None:
    """Append loads of so many accumulators that nothing else finds a register."""
    # They are stored when the scope ends, each to a place of its own.
    builder.take(Has.SPILLS, *LIVE)
    matrix = Matrix(operand="c", shape=SHAPES["m16n16k16"], type=FORMATS["f32"])
    for _ in range(BALLAST):
        value = load(builder, matrix, None, "x", near=True)
        value.pins = 1  # no multiplication takes it
        value.pending = True
