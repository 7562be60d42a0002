"""The strategy for defined programs: how many multiplications, inside of what, beside what."""

from __future__ import annotations

from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.strategies import SearchStrategy

from oracle.errors import UsageError
from oracle.formats import FORMATS
from oracle.forms import Form
from oracle.isa import SHAPES, is_available
from oracle.matrices import Matrix
from oracle.operands import Fragment
from oracle.places import Place, Span
from oracle.program import Program, walk
from oracle.steps import Copy
from oracle.targets import Module
from strategies.features import FEATURES, MOVES, OF_CODE, ROW_LOADS, ROW_STORES, Feature, Focus, Has
from strategies.programs.accesses import STORES, TIGHT, load
from strategies.programs.builder import Builder, Dice
from strategies.programs.controlling import BRANCHES, LOOPS, around
from strategies.programs.forms import Palette, everything, families, palette
from strategies.programs.lane_code import append_alone
from strategies.programs.products import (
    LIVE,
    change,
    complete_registers,
    flush,
    load_accumulator,
    move_rows,
    multiply_all,
    store,
)
from strategies.programs.registers import between_stores, row_load
from strategies.programs.selecting import beside, fitting, main_form, multiplication, unmet
from strategies.programs.sharing import with_shared_registers

_SIZES = (1, 1, 1, 2, 1, 1, 1, 3, 1, 2, 1, 4, 1, 2, 3, 8)
"""Multiplications of a program; all equally likely, so that more than half have one."""
_BETWEEN_IN = 8
"""One program in so many has a warp-level step between two stores of the same lanes."""
_MOST_ADDED = 12
"""Parts that are appended at most until a program is as long as was asked."""
_MOST_COPIED = 300
"""Bytes of the longest copy that is a step of its own."""
BALLAST = 32
"""Accumulators of eight registers that leave none of the 255 registers of a thread free."""

_OF_ROWS = frozenset(
    {
        *ROW_LOADS, Has.STORE_REGISTERS, Has.STORE_BY_LANE, Has.ROWS_OF_STORE,
        Has.ROWS_COMPUTED,
    }
)  # fmt: skip
"""Features that an ldmatrix behind everything else gives."""
_OF_ROWS_ALONE = _OF_ROWS - {Has.ROWS_OF_STORE} | {
    Has.COPY, Has.BARRIER, Has.OFFSET_IMMEDIATE, Has.OFFSET_NEGATIVE,
    Has.BRANCH, Has.LOOP, Has.NESTED, *LOOPS, *BRANCHES,
}  # fmt: skip
"""Features that a program without a multiplication can have."""
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
    """Draw programs that a module can have and that the ISA defines.

    They shrink towards one multiplication of matrices at the start of their buffers in global
    memory, by rows, with the stride left out; about a form of ldmatrix, towards that alone.

    Parameters
    ----------
    focus
        What the programs should be about. Its form is in every program, whether `forms` has it or
        not; its features are where they are possible together.
    module
        The target and the PTX ISA version.
    forms
        What the programs may multiply and read by ldmatrix. Of wmma.load and wmma.store they take
        what they need; if `forms` has these only, every multiplication may be used.

    Raises
    ------
    UsageError
        If the form of the focus does not exist there, or `forms` has nothing that does.
    """
    known = palette(forms, module)
    if focus.form is not None and not is_available(focus.form, module):
        raise UsageError(
            f"{focus.form.opcode} does not exist on {module}; "
            f"`warpfuzz explain '{focus.form.opcode}'` says where it does"
        )
    anything = known.fragment_products or known.row_loads or known.register_products or known.moves
    if focus.form is None and not anything:
        raise UsageError(
            f"{module} has none of the forms that are given; "
            f"`warpfuzz isa --target {module.target.name} --ptx-version {module.version}` lists "
            "what there is"
        )
    return _Programs(focus, module, known)


class _Programs(SearchStrategy[Program]):
    """What `programs` returns."""

    def __init__(self, focus: Focus, module: Module, known: Palette) -> None:
        super().__init__()
        self._focus, self._module, self._known = focus, module, known

    def do_draw(self, data: ConjectureData) -> Program:
        focus, module = self._focus, self._module
        builder = Builder(data, self._known, everything(module), focus, module)
        program = _ProgramDraw(builder).program()
        return with_shared_registers(program, builder.dice, focus, module.target.name)


class _ProgramDraw:
    """One program, from what it is about to its last store."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.wanted = wanted = builder.focus.features
        self.one = Has.ONE_MULTIPLICATION in wanted and not any(
            _LEAST_MULTIPLICATIONS.get(feature, 1) > 1 and feature != Has.IN_PLACE_MEMORY
            for feature in wanted
        )
        """Whether the program is to have one multiplication."""
        builder.wanted |= {_NEEDS[feature] for feature in wanted & _NEEDS.keys()}

    def program(self) -> Program:
        builder, wanted = self.builder, self.wanted
        dice = builder.dice()
        if any(feature in OF_CODE for feature in wanted):
            return self._lanes_alone(dice)
        main = main_form(builder, builder.focus.form, dice, rows=not wanted)
        # On opaque fragments, beside which ldmatrix may stand, or on registers of a known layout.
        opaque = main.opaque or main.is_load
        if opaque:
            builder.plain_spaces = not dice.below(3)
        number = self._number(main, dice)
        hoisted = dice.once_in(5) and not (opaque and wanted)
        hoisted |= not opaque and builder.wants((*LIVE, Has.STORE_BY_LANE))
        rows_too = opaque and dice.once_in(6)
        copied = dice.once_in(8)
        full = opaque and dice.once_in(128)
        controls = self._controls(dice)
        between = dice.once_in(_BETWEEN_IN) and not wanted
        if main.is_load:
            self._move(main, [()] if number else controls)
            rows_too = False
            if number:
                main = multiplication(builder, builder.dice())
        elif opaque and Has.ROWS_LOADED in wanted:
            self._row_load()
        if builder.take(Has.COPY) or copied:
            _copy(builder)
        if opaque and (Has.SPILLS in wanted or (full and not wanted)):
            _ballast(builder)
        if main.is_product:
            self._multiply(main, number, controls, hoisted=hoisted)
        elif not opaque:
            known = builder.palette.register_products
            if known and dice.once_in(2) and not (self.one or wanted):
                multiply_all(builder, [dice.one_of(dice.one_of(families(known)))], hoisted=False)
            self._move(main, controls)
        if between and opaque and main.is_product:
            pending = [*builder.scope.pending()]
            last = pending[-1] if pending else load_accumulator(builder, main)
            between_stores(builder, lambda: store(builder, last))
        flush(builder)
        if opaque and (rows_too or builder.wants(_OF_ROWS)):
            self._row_load()
        if not opaque:
            if between and builder.palette.row_loads:
                between_stores(builder, self._row_load)
            complete_registers(builder)
        self._complete(opaque=opaque)
        return builder.finish()

    def _lanes_alone(self, dice: Dice) -> Program:
        """Draw a program of code of lanes, perhaps in a branch or a loop that all take together."""
        builder = self.builder

        def part() -> None:
            append_alone(builder)

        controls = self._controls(dice) if dice.once_in(4) else [()]
        for kinds in controls:
            around(builder, kinds, part, part)
        return builder.finish()

    def _number(self, main: Form, dice: Dice) -> int:
        builder, wanted = self.builder, self.wanted
        if self.one and not (main.opaque or main.is_load):
            return 1
        number = dice.one_of(_SIZES)
        if main.is_load:
            alone = wanted <= _OF_ROWS_ALONE
            alone &= number == 1 or not builder.palette.fragment_products
            if alone or not builder.everything.fragment_products:
                return 0
        if self.one:
            return 1
        least = [_LEAST_MULTIPLICATIONS.get(feature, 0) for feature in wanted]
        if builder.form and builder.form.is_store and wanted.intersection(STORES):
            least.append(2)  # one store where the form has it, another where it is asked for
        if main.opaque:
            least.append(1 + len(unmet(builder, main)))
        return max(number, *least, 1)

    def _controls(self, dice: Dice) -> list[tuple[Feature, ...]]:
        """Choose what parts of the program stand in branches and loops, the outermost first."""
        builder = self.builder
        kinds = [kind for kind in (*LOOPS, *BRANCHES) if kind in builder.wanted]
        drawn = (dice.one_of(LOOPS), dice.one_of(BRANCHES))
        choice = dice.below(8)
        if not builder.wants(LOOPS) and Has.LOOP in builder.wanted:
            kinds.append(drawn[0])
        if not builder.wants(BRANCHES) and builder.wants((Has.BRANCH, Has.TWO_ARMS)):
            kinds.append(drawn[1])
        nested = Has.NESTED in builder.wanted
        if nested and len(kinds) < 2:
            kinds += [kind for kind in drawn if kind not in kinds]
        if not kinds:
            return [{5: drawn[:1], 6: drawn[1:], 7: drawn}.get(choice, ())]
        return [tuple(kinds)] if nested or self.one else [(kind,) for kind in kinds]

    def _multiply(
        self,
        main: Form,
        number: int,
        controls: list[tuple[Feature, ...]],
        *,
        hoisted: bool,
    ) -> None:
        """Append multiplications, in as many parts as there are controls."""
        builder = self.builder
        forms = beside(builder, main, max(number, len(controls)))
        if main.opaque and builder.wants(LIVE):
            multiply_all(builder, forms, hoisted=True)
            flush(builder)
            builder.take(*LIVE)
            if controls == [()]:
                return
            forms = forms[: len(controls)]
        size = -(-len(forms) // len(controls))
        for index, kinds in enumerate(controls):
            part = forms[index * size : (index + 1) * size]
            if part:
                self._part(part, kinds, hoisted=hoisted)

    def _part(self, forms: list[Form], kinds: tuple[Feature, ...], *, hoisted: bool) -> None:
        builder, first = self.builder, forms[0]

        def part() -> None:
            multiply_all(builder, forms, hoisted=hoisted)
            if kinds:
                flush(builder)

        carries = kinds and not hoisted and first.c_type == first.d_type
        # An accumulator that the loop carries, or that the branch leaves as it was.
        if carries and not builder.dice().once_in(4):
            load_accumulator(builder, first).pending = True
        around(builder, kinds, part, lambda: self._other(first))

    def _other(self, form: Form) -> None:
        builder = self.builder
        if not form.opaque:
            _copy(builder)
            return
        dice = builder.dice()
        values = [
            value for value in builder.scope.values.values()
            if isinstance(value.holds, Fragment) and not value.pins
        ]  # fmt: skip
        if values and (dice.once_in(2) or self.one):
            change(builder, values[dice.below(len(values))], dice)
        elif self.one:
            _copy(builder)
        else:
            multiply_all(builder, (form,), hoisted=False)
        flush(builder)

    def _move(self, form: Form, controls: list[tuple[Feature, ...]]) -> None:
        """Append a load or store of rows, or a move of registers, that the program is about."""

        def part() -> None:
            (row_load if form.is_load else move_rows)(self.builder, form)

        for kinds in controls:
            around(self.builder, kinds, part, part)

    def _row_load(self) -> None:
        """Append an ldmatrix of any form that is allowed, if one is."""
        builder, form = self.builder, self.builder.focus.form
        dice = builder.dice()
        known = builder.palette.row_loads
        if not known and form is not None and form.is_main and form.is_load:
            known = (form,)
        if known:
            row_load(builder, fitting(builder, known, dice))

    def _complete(self, *, opaque: bool) -> None:
        builder = self.builder
        if builder.take(Has.BARRIER):
            builder.scope.barrier()
        for steps in [steps for feature, steps in _STEPS if feature in self.wanted]:
            for _ in range(_MOST_ADDED):
                if sum(1 for _ in walk(tuple(builder.scope.steps))) >= steps:
                    break
                self._lengthen(opaque=opaque)

    def _lengthen(self, *, opaque: bool) -> None:
        builder = self.builder
        full = builder.memory.size(shared=False) > 2 * TIGHT
        if not opaque or self.one or full or not builder.everything.fragment_products:
            _copy(builder)
            return
        form = multiplication(builder, builder.dice())
        multiply_all(builder, (form,), hoisted=False)
        flush(builder)


def _copy(builder: Builder) -> None:
    """Append a copy of bytes that are there already, of any size and alignment."""
    dice = builder.dice()
    builder.take(Has.COPY)
    arenas = builder.memory.arenas
    size = 1 + dice.below(_MOST_COPIED)
    offset = dice.below(33)
    if arenas:
        arena = arenas[dice.below(len(arenas))]
        offset = min(offset, arena.size - 1)
        size = min(size, arena.size - offset)
    else:
        arena = builder.memory.arena("i", shared=False)
        builder.memory.block(arena, offset, size, written=False)
    target = builder.memory.arena("o", shared=False)
    start = dice.below(33)
    region = builder.memory.block(target, start, size, written=True)
    builder.scope.access(reads=(Span.block(arena.buffer, offset, size),), writes=(region.span,))
    builder.add(
        Copy(
            source=Place(buffer=arena.buffer, offset=offset),
            destination=Place(buffer=target.buffer, offset=start),
            size=size,
        )
    )


def _ballast(builder: Builder) -> None:
    """Append loads of so many accumulators that nothing else finds a register.

    They are stored when the scope ends, each to a place of its own.
    """
    builder.take(Has.SPILLS, *LIVE)
    matrix = Matrix(operand="c", shape=SHAPES["m16n16k16"], type=FORMATS["f32"])
    for _ in range(BALLAST):
        value = load(builder, matrix, None, "x", near=True)
        value.pins = 1  # no multiplication takes it
        value.pending = True
