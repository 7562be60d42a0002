"""The strategy for defined programs: how many multiplications, inside of what, beside what."""

from __future__ import annotations

from hypothesis import strategies as st

from oracle.errors import UsageError
from oracle.forms import Form
from oracle.isa import is_available
from oracle.program import Program, walk
from oracle.targets import Module
from strategies.features import Feature, Focus
from strategies.programs.accesses import STORES, TIGHT, load, store
from strategies.programs.building import Builder
from strategies.programs.choices import Choices, Dice
from strategies.programs.controlling import BRANCHES, LOOPS, around
from strategies.programs.elements import change
from strategies.programs.forms import Palette, everything, families, palette
from strategies.programs.interludes import ballast, between_stores, copy, row_load
from strategies.programs.lanes import (
    Neighbours,
    beside_lanes,
    complete_lanes,
    flush_lanes,
    load_accumulator,
    move_rows,
    multiply_lanes,
    neighbours,
)
from strategies.programs.multiplying import flush, multiply_all
from strategies.programs.selecting import (
    beside,
    main_form,
    multiplication,
    row_form,
    unmet,
)
from strategies.programs.sharing import with_shared_registers

_SIZES = (1, 1, 1, 2, 1, 1, 1, 3, 1, 2, 1, 4, 1, 2, 3, 8)
"""Multiplications of a program; all equally likely, so that more than half have one."""
_BETWEEN_IN = 8
"""Of so many programs, one has a warp-level step between two stores of the same lanes."""
_MOST_ADDED = 12
"""Parts that are appended at most until a program is as long as was asked."""

_OF_ROWS = frozenset(
    {
        Feature.LDMATRIX, Feature.STORE_REGISTERS, Feature.STORE_BY_LANE, Feature.LDMATRIX_GENERIC,
        Feature.LDMATRIX_SHARED, Feature.LDMATRIX_SHARED_CTA, Feature.LDMATRIX_OF_STORE,
    }
)  # fmt: skip
"""Features that an ldmatrix behind everything else gives."""
_OF_ROWS_ALONE = _OF_ROWS - {Feature.LDMATRIX_OF_STORE} | {
    Feature.COPY, Feature.BARRIER, Feature.OFFSET_IMMEDIATE, Feature.OFFSET_NEGATIVE,
    Feature.BRANCH, Feature.LOOP, Feature.NESTED, *LOOPS, *BRANCHES,
}  # fmt: skip
"""Features that a program without a multiplication can have."""
_LEAST_MULTIPLICATIONS = {
    Feature.D_AS_C: 2, Feature.CHAIN: 3, Feature.A_REUSED: 2, Feature.B_REUSED: 2,
    Feature.SEVERAL_SHAPES: 2, Feature.SEVERAL_TYPES: 2, Feature.LIVE_8: 3, Feature.LIVE_16: 6,
    Feature.TILES: 2, Feature.STORED_AND_LOADED: 2, Feature.IN_PLACE_MEMORY: 2,
    Feature.D_AS_MULTIPLICAND: 2, Feature.OVER_PART: 2, Feature.STORE_BY_LANE: 2,
    Feature.STEPS_12: 3, Feature.STEPS_24: 5,
}  # fmt: skip
_NEEDS = {
    Feature.ADDRESS_LOADED: Feature.LOAD_SHARED, Feature.STMATRIX_REPEATED: Feature.STMATRIX,
    Feature.MOVMATRIX_IN_PLACE: Feature.MOVMATRIX,
}  # fmt: skip
"""What a program must have for a feature that is made of it in the end."""
_LIVE = (Feature.LIVE_8, Feature.LIVE_16)
_STEPS = ((Feature.STEPS_12, 12), (Feature.STEPS_24, 24))


def programs(
    focus: Focus, *, module: Module, forms: tuple[Form, ...]
) -> st.SearchStrategy[Program]:
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
    anything = known.multiplications or known.row_loads or known.lane_multiplications or known.moves
    if focus.form is None and not anything:
        raise UsageError(
            f"{module} has none of the forms that are given; "
            f"`warpfuzz isa --target {module.target.name} --ptx-version {module.version}` lists "
            "what there is"
        )
    return _programs(focus, known, everything(module), module)


@st.composite
def _programs(
    draw: st.DrawFn, focus: Focus, known: Palette, everything: Palette, module: Module
) -> Program:
    return _Drawing(Builder(Choices(draw), known, focus), focus, everything, module).program()


class _Drawing:
    """One program, from what it is about to its last store."""

    def __init__(self, builder: Builder, focus: Focus, everything: Palette, module: Module) -> None:
        self.builder = builder
        self.module = module
        self.focus = focus
        self.everything = everything
        self.one = Feature.ONE_MULTIPLICATION in focus.features and not any(
            _LEAST_MULTIPLICATIONS.get(feature, 1) > 1 and feature is not Feature.IN_PLACE_MEMORY
            for feature in focus.features
        )
        """Whether the program is to have one multiplication."""
        builder.wanted |= {_NEEDS[feature] for feature in focus.features & _NEEDS.keys()}

    def program(self) -> Program:
        """Draw the program."""
        builder, wanted = self.builder, self.focus.features
        dice = builder.dice()
        rows_alone = wanted <= _OF_ROWS_ALONE
        main = main_form(builder, self.focus.form, self.everything, dice, rows=not wanted)
        if not main.opaque and main.mnemonic != "ldmatrix":
            return self._shared(self._lanes(main, dice))
        builder.plain_spaces = not dice.below(3)
        number = self._number(main, dice, rows_alone=rows_alone)
        hoisted = dice.once_in(5) and not wanted
        rows_too, copied, full = dice.once_in(6), dice.once_in(8), dice.once_in(128)
        controls = self._controls(dice)
        between = dice.once_in(_BETWEEN_IN) and not wanted
        if main.mnemonic == "ldmatrix":
            self._rows(main, [()] if number else controls)
            rows_too = False
            if number:
                main = multiplication(builder, self.everything, builder.dice())
        elif Feature.LDMATRIX_LOADED in wanted:
            self._row_load()
        if builder.take(Feature.COPY) or copied:
            copy(builder)
        if Feature.SPILLS in wanted or (full and not wanted):
            ballast(builder)
        if main.is_product:
            self._multiply(main, number, controls, hoisted=hoisted)
        if between and main.is_product:
            pending = [*builder.scope.pending()]
            last = pending[-1] if pending else load(builder, main.matrix("c"), None, "c")
            between_stores(builder, lambda: store(builder, last, last.region))
        flush(builder)
        if rows_too or builder.wants(_OF_ROWS):
            self._row_load()
        self._complete()
        return self._shared(builder.finish())

    def _shared(self, program: Program) -> Program:
        return with_shared_registers(
            program, self.builder.dice, self.focus, self.module.target.name
        )

    def _lanes(self, main: Form, dice: Dice) -> Program:
        """Draw a program on registers that are known by lane."""
        builder, wanted = self.builder, self.focus.features
        near = neighbours(self.module)
        known = builder.palette.lane_multiplications
        least = max([_LEAST_MULTIPLICATIONS.get(feature, 0) for feature in wanted], default=0)
        number = 1 if self.one else max(dice.one_of(_SIZES), least)
        hoisted = dice.once_in(5) or builder.wants((*_LIVE, Feature.STORE_BY_LANE))
        copied = dice.once_in(8)
        controls = self._controls(dice)
        between = dice.once_in(_BETWEEN_IN) and not wanted
        if builder.take(Feature.COPY) or copied:
            copy(builder)
        if main.is_product:
            forms = beside_lanes(builder, main, max(number, len(controls)), known)
            size = -(-len(forms) // len(controls))
            for index, kinds in enumerate(controls):
                part = forms[index * size : (index + 1) * size]
                if part:
                    self._lane_part(part, kinds, near, hoisted=hoisted)
        elif known and dice.once_in(2) and not (self.one or wanted):
            form = dice.one_of(dice.one_of(families(known)))
            multiply_lanes(builder, [form], near, hoisted=False)
        if not main.is_product:
            for kinds in controls:
                around(
                    builder, kinds, lambda: move_rows(builder, main, near),
                    lambda: move_rows(builder, main, near),
                )  # fmt: skip
        flush_lanes(builder, near)
        if between and builder.palette.row_loads:
            between_stores(builder, self._row_load)
        complete_lanes(builder, near)
        if builder.take(Feature.BARRIER):
            builder.scope.barrier()
        for feature, steps in _STEPS:
            for _ in range(_MOST_ADDED):
                if feature not in wanted or self._steps() >= steps:
                    break
                copy(builder)
        return builder.finish()

    def _lane_part(
        self,
        forms: list[Form],
        kinds: tuple[Feature, ...],
        near: Neighbours,
        *,
        hoisted: bool,
    ) -> None:
        builder, first = self.builder, forms[0]

        def part() -> None:
            multiply_lanes(builder, forms, near, hoisted=hoisted)
            if kinds:
                flush_lanes(builder, near)

        def other() -> None:
            copy(builder)

        # An accumulator that the loop carries, or that the branch leaves as it was.
        if kinds and not hoisted and first.c_type == first.d_type and not builder.dice().once_in(4):
            load_accumulator(builder, first)
        around(builder, kinds, part, other)

    def _number(self, main: Form, dice: Dice, *, rows_alone: bool) -> int:
        """Choose how many multiplications there are."""
        builder, wanted = self.builder, self.focus.features
        number = dice.one_of(_SIZES)
        if main.mnemonic == "ldmatrix":
            if not self.everything.multiplications:
                return 0
            if rows_alone and (number == 1 or not builder.palette.multiplications):
                return 0
        if self.one:
            return 1
        least = [_LEAST_MULTIPLICATIONS.get(feature, 0) for feature in wanted]
        if builder.form and builder.form.mnemonic == "wmma.store" and wanted.intersection(STORES):
            least.append(2)  # one store where the form has it, another where it is asked for
        unmet_needs = len(unmet(builder, main)) if main.is_product else 0
        return max(number, 1 + unmet_needs, *least, 0)

    def _controls(self, dice: Dice) -> list[tuple[Feature, ...]]:
        """Choose what parts of the program stand in branches and loops, the outermost first."""
        builder = self.builder
        kinds = [kind for kind in (*LOOPS, *BRANCHES) if kind in builder.wanted]
        drawn = (dice.one_of(LOOPS), dice.one_of(BRANCHES))
        choice = dice.below(8)
        if not builder.wants(LOOPS) and Feature.LOOP in builder.wanted:
            kinds.append(drawn[0])
        if not builder.wants(BRANCHES) and builder.wants((Feature.BRANCH, Feature.TWO_ARMS)):
            kinds.append(drawn[1])
        nested = Feature.NESTED in builder.wanted
        if nested and len(kinds) < 2:
            kinds += [kind for kind in drawn if kind not in kinds]
        if not kinds:
            some: dict[int, list[Feature]] = {5: [drawn[0]], 6: [drawn[1]], 7: [*drawn]}
            return [tuple(some.get(choice, ()))]
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
        forms = beside(builder, main, max(number, len(controls)), self.everything)
        if builder.wants(_LIVE):
            multiply_all(builder, forms, hoisted=True)
            flush(builder)
            builder.wanted.difference_update(_LIVE)
            if controls == [()]:
                return
            forms = forms[: len(controls)]
        size = -(-len(forms) // len(controls))
        for index, kinds in enumerate(controls):
            part = tuple(forms[index * size : (index + 1) * size])
            if part:
                self._part(part, kinds, hoisted=hoisted)

    def _part(self, forms: tuple[Form, ...], kinds: tuple[Feature, ...], *, hoisted: bool) -> None:
        builder, first = self.builder, forms[0]

        def part() -> None:
            multiply_all(builder, forms, hoisted=hoisted)
            if kinds:
                flush(builder)

        carries = kinds and not hoisted and first.c_type == first.d_type
        # An accumulator that the loop carries, or that the branch leaves as it was.
        if carries and not builder.dice().once_in(4):
            load(builder, first.matrix("c"), None, "c").pending = True
        around(builder, kinds, part, lambda: self._other(first))

    def _other(self, form: Form) -> None:
        """Append what stands in the other arm of a branch."""
        builder = self.builder
        dice = builder.dice()
        values = [value for value in builder.scope.values.values() if not value.pins]
        if values and (dice.once_in(2) or self.one):
            change(builder, values[dice.below(len(values))], dice)
        elif self.one:
            copy(builder)
        else:
            multiply_all(builder, (form,), hoisted=False)
        flush(builder)

    def _rows(self, form: Form, controls: list[tuple[Feature, ...]]) -> None:
        """Append an ldmatrix that the program is about."""
        builder = self.builder
        for kinds in controls:
            around(builder, kinds, lambda: row_load(builder, form), lambda: row_load(builder, form))

    def _row_load(self) -> None:
        """Append an ldmatrix of any form that is allowed, if one is."""
        dice = self.builder.dice()
        form = row_form(self.builder, self.focus.form, dice)
        if form is not None:
            row_load(self.builder, form)

    def _complete(self) -> None:
        """Append what is still asked for."""
        builder = self.builder
        if builder.take(Feature.BARRIER):
            builder.scope.barrier()
        for feature, steps in _STEPS:
            for _ in range(_MOST_ADDED):
                if feature not in self.focus.features or self._steps() >= steps:
                    break
                self._lengthen()

    def _steps(self) -> int:
        return sum(1 for _ in walk(tuple(self.builder.scope.steps)))

    def _lengthen(self) -> None:
        builder = self.builder
        full = builder.memory.size(shared=False) > 2 * TIGHT
        if self.one or full or not self.everything.multiplications:
            copy(builder)
            return
        form = multiplication(builder, self.everything, builder.dice())
        multiply_all(builder, (form,), hoisted=False)
        flush(builder)
