"""Multiplications: where A, B and C come from, where D goes, and what shares registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from oracle.isa.forms import Form, Format, Matrix, replicated
from oracle.isa.lookup import selectors_of
from oracle.program.definedness import undefined
from oracle.program.operands import (
    WITH_CONSTANT,
    Fragment,
    Held,
    Operation,
    Register,
    Registers,
    Use,
    listed,
    operations,
    text_of,
)
from oracle.program.operations import Elementwise, copied, set_registers
from oracle.program.program import Program, fresh_bank, space_of, walk
from oracle.program.steps import (
    Op,
    Product,
    Step,
    is_main,
    multiplies,
    multiplies_registers,
    stores_rows,
)
from strategies.features import (
    LIVE,
    MOVES,
    OF_OPERATION,
    ROW_STORES,
    Feature,
    Has,
    of_form,
)
from strategies.programs import accesses
from strategies.programs.builder import (
    ACCUMULATED,
    Builder,
    Dice,
    LiveValue,
    asked_operations,
    matrix_of,
    operand_of,
)
from strategies.programs.chosen import metadata, scales
from strategies.programs.code_around import computed, in_lanes

_COMPUTED_IN = 6  # Scalar code works on one A, B or D of mma.sync in so many
_CHANGED_IN = 24  # The elements of one fragment in so many are changed, on average
_FLOATS = {
    "f16": (0x3C00, 0x4000, 0xBC00, 0x3800),
    "f32": (0x3F80_0000, 0x4000_0000, 0xBF80_0000, 0x3F00_0000),
    "f64": (0x3FF0 << 48, 0x4000 << 48, 0xBFF0 << 48, 0x3FE0 << 48),
}
"""1, 2, -1 and 1/2: constants that keep what they are applied to visible."""
_BEHIND = (Has.LANES_BEHIND, Has.PACKED_BEHIND)
_REUSED = (Has.A_REUSED, Has.B_REUSED)


def multiply_all(builder: Builder, forms: Sequence[Form], *, hoisted: bool) -> None:
    """Append multiplications of some forms, all on fragments or all on registers.

    `hoisted`: all operands are loaded first and stored last, so that many are live at once.
    """
    opaque = forms[0].opaque
    choose = _fragments if opaque else _registers
    if hoisted:
        planned = [choose(builder, form, fresh=True) for form in forms]
        # Nothing but multiplications between stores: compilers join what they do for some lanes.
        at_once = not (opaque or builder.wants((*LIVE, *_BEHIND))) and (
            builder.dice().once_in(2) or Has.STORE_BY_LANE in builder.asked
        )
        for form, operands in zip(forms, planned, strict=True):
            d = _multiply(builder, form, operands)
            if at_once:
                accesses.store_registers(builder, d, builder.dice())
        return
    for form in forms:
        d = _multiply(builder, form, choose(builder, form, fresh=False))
        drawn = builder.dice().once_in(2)
        # What is not stored here can be the next C, A or B; all is stored in the end.
        kept = builder.wants((*ACCUMULATED, Has.D_AS_MULTIPLICAND, Has.ROWS_OF_D))
        # A store that is asked for must not wait: the next multiplication may take D.
        asked = Has.STORED_AND_LOADED in builder.wanted or accesses.is_asked_of(builder, d)
        if (opaque and asked) or (drawn and not kept):
            store(builder, d)


def flush(builder: Builder) -> None:
    """Store what would be lost at the end of the scope."""
    for value in builder.scope.pending():
        store(builder, value)


def load_accumulator(builder: Builder, form: Form) -> LiveValue:
    """Append a load of a C."""
    holds = operand_of(form, "c")
    if isinstance(holds, Registers):
        return accesses.load_registers(builder, holds, "c", builder.dice())
    return accesses.load(builder, holds.matrix, None, "c")


def store(builder: Builder, value: LiveValue) -> None:
    """Append what stores a value: registers on their own, in rows, transposed or packed before."""
    if isinstance(value.holds, Fragment):
        accesses.store(builder, value, value.region)
        return
    dice, known = builder.dice(), builder.everything
    value.pending = False
    wide = value.type == "f32" and value.holds.registers > 1
    kind = dice.one_of(("plain", "rows", "plain", "shared", "rows", "plain"))
    asked = builder.wants((Has.ROWS_OF_D, *ROW_STORES))
    drawn = builder.dice().once_in(_COMPUTED_IN)
    behind = value.computed and builder.wants(_BEHIND)
    if _may_compute(builder, value.holds, drawn and value.computed, behind):
        builder.take(Has.LANES_BEHIND)
        packs = builder.dice().below(2) or Has.PACKED_BEHIND in builder.wanted
        made = in_lanes(builder, value, value.type) if packs else None
        value = made or computed(builder, value, value.holds)
        value.pending = False
        wide &= made is None
    if wide and known.packs and (dice.once_in(4) or Has.PACKED in builder.wanted):
        value = accesses.packed(builder, value, dice)
    turned = dice.once_in(8) or builder.wants(MOVES)
    if known.transpositions and value.holds.bits == 32 and turned:
        value = accesses.transposed(builder, value, known.transpositions[0])
    forms = [form for form in known.row_stores if operand_of(form) == value.holds]
    if forms and (kind == "rows" or asked):
        accesses.store_rows(builder, value, forms, dice)
    else:
        accesses.store_registers(builder, value, dice, shared=kind == "shared")


def _fragments(builder: Builder, form: Form, *, fresh: bool) -> dict[str, LiveValue]:
    dice = builder.dice()
    reuse = {operand: not fresh and dice.once_in(4) for operand in "ab"}
    # Where all are loaded first, there is no D yet.
    chained = not fresh and dice.once_in(2)
    found, made = {}, dict[str, LiveValue]()
    for operand, feature in zip("ab", _REUSED, strict=True):
        holds = operand_of(form, operand)
        assert isinstance(holds, Fragment)
        there = builder.scope.like(holds)
        tight = builder.image_bytes() > accesses.TIGHT
        if there and (reuse[operand] or feature in builder.wanted or (tight and not fresh)):
            used = [value for value in there if value.used] or there
            found[operand] = used[dice.below(len(used))]
            if found[operand].used:
                builder.take(feature)
        else:
            found[operand] = accesses.load(builder, holds.matrix, holds.layout, operand)
        found[operand].pins += 1
    found["c"] = _accumulator(builder, form, dice, chained=chained, fresh=fresh)
    found["c"].pins += 1
    for operand, value in found.items():
        # The elements of a fragment are changed, perhaps, before it is multiplied.
        made[operand] = value
        if value.used and not builder.asked.isdisjoint(_REUSED):
            continue
        drawn = dice.once_in(_CHANGED_IN)
        asked = operand != "c" and _wants_change(builder, matrix_of(value))
        if value.pins == 1 and (drawn or asked):
            made[operand] = change(builder, value, builder.dice())
            value.pins, made[operand].pins = 0, 1
    return made


def _accumulator(
    builder: Builder, form: Form, dice: Dice, *, chained: bool, fresh: bool
) -> LiveValue:
    there = [value for value in builder.scope.like(operand_of(form, "c")) if value.pins == 0]
    made = [value for value in there if value.computed]
    asked = builder.wants(ACCUMULATED)
    if not asked and builder.wants((Has.IN_PLACE_MEMORY, Has.STORED_AND_LOADED)):
        fresh = True  # both need a C that comes from memory
    if made and not fresh and (chained or asked):
        if not asked and dice.once_in(4):
            accesses.store(builder, made[-1])
        return made[-1]
    carried = [value for value in there if value.depth < builder.scope.depth]
    return carried[-1] if carried and not fresh else load_accumulator(builder, form)


def _registers(builder: Builder, form: Form, *, fresh: bool) -> dict[str, LiveValue]:
    dice, scope = builder.dice(), builder.scope
    found: dict[str, LiveValue] = {}
    for operand, feature in zip("ab", _REUSED, strict=True):
        holds = operand_of(form, operand)
        again = [value for value in scope.like(holds) if operand in value.used]
        reuse = dice.once_in(4) and not fresh
        kept = fresh or (again and feature in builder.wanted)
        value = None if kept else _from_d(builder, form, operand, dice, found)
        if value is None and again and not fresh and (reuse or feature in builder.wanted):
            builder.take(feature)
            value = again[-1]
        found[operand] = value or _loaded(builder, holds, operand, dice, form.type(operand).name)
    if "e" in form.operands:
        found["e"] = metadata(builder, form, builder.dice())
    if form.is_scaled:
        found |= {name: scales(builder, form, name, builder.dice()) for name in ("sa", "sb")}
    taken, holds = {value.name for value in found.values()}, operand_of(form, "c")
    there = scope.like(holds)
    made = [value for value in there if value.computed and value.name not in taken]
    carried = [value for value in there if value.depth < scope.depth and value.pending]
    chained = dice.once_in(2) or builder.wants(ACCUMULATED)
    usable = [] if fresh else carried or (made if chained else [])
    c = usable[-1] if usable else accesses.load_registers(builder, holds, "c", dice)
    return {**found, "c": c}


def _loaded(builder: Builder, holds: Held, operand: str, dice: Dice, type_: str) -> LiveValue:
    own = builder.dice()
    drawn = own.once_in(_COMPUTED_IN)
    asked = builder.wants((Has.LANES_BEFORE, Has.UNPACKED))
    if not _may_compute(builder, holds, drawn, asked):
        return accesses.load_or_read(builder, holds, operand, dice, type_)
    assert isinstance(holds, Registers)
    builder.take(Has.LANES_BEFORE)
    count = own.one_of([count for count in (1, 2, 4, 8) if count <= holds.registers])
    narrow = Registers(registers=count, bits=holds.bits)
    given = accesses.load_or_read(builder, narrow, operand, dice)
    unpacks = own.below(2) or Has.UNPACKED in builder.wanted
    made = in_lanes(builder, given, type_, holds) if unpacks else None
    return made or computed(builder, given, holds)


def _may_compute(builder: Builder, holds: Held, drawn: bool, asked: bool) -> bool:
    """Whether code of lanes may work on registers: drawn or asked for, where only PTX says them."""
    wanted = asked or (drawn and builder.asked.isdisjoint(accesses.KEPT))
    return wanted and builder.only_ptx and isinstance(holds, Registers)


def _from_d(
    builder: Builder, form: Form, operand: str, dice: Dice, taken: Mapping[str, LiveValue]
) -> LiveValue | None:
    """Choose a D as A or B, packed where that makes it fit; what is `taken` must stay."""
    drawn = dice.once_in(3) and not builder.wants(ACCUMULATED)
    if not drawn and Has.D_AS_MULTIPLICAND not in builder.wanted:
        return None
    needs, names = operand_of(form, operand), {value.name for value in taken.values()}
    for value in reversed(tuple(builder.scope.values.values())):
        wide = value.type == "f32" and value.holds.registers == 2 * needs.registers
        packs = wide and builder.everything.packs and needs.bits == 32
        if value.computed and value.name not in names and (value.holds == needs or packs):
            builder.take(Has.D_AS_MULTIPLICAND)
            if value.holds == needs:
                return value
            return accesses.packed(builder, value, dice, type_=form.a_type.name)
    return None


def _multiply(builder: Builder, form: Form, operands: Mapping[str, LiveValue]) -> LiveValue:
    """Append a multiplication; return D."""
    dice, scope, held = builder.dice(), builder.scope, operand_of(form, "d")
    a, c = operands["a"], operands["c"]
    free = {
        operand: isinstance(value.holds, Registers) or value.pins == 1
        for operand, value in operands.items()
    }
    target = dice.one_of(("d", "c", "d", "a", "c", "b"))
    if builder.wants(_REUSED):
        target = "d"
    elif Has.IN_PLACE_REGISTERS in builder.wanted:
        target = "c"
    elif builder.wants((Has.OVER_MULTIPLICAND, Has.OVER_PART)):
        target = "a" if free["a"] and a.depth == scope.depth else "b"
    elif c.depth < scope.depth:
        target = "c"  # what a loop carries, or both arms of a branch change
    name, depth = "", scope.depth
    value = operands.get(target)
    # A name changes what it holds only in the scope that it comes from: joins stay alike.
    if value and free[target] and (value.depth == scope.depth or value.holds == held):
        name, depth = value.name, scope.values[value.name].depth
        builder.take(Has.IN_PLACE_REGISTERS if target == "c" else Has.OVER_MULTIPLICAND)
        if value.holds.words > held.words:
            builder.take(Has.OVER_PART)
    fields: dict[str, Any] = {operand: value.name for operand, value in operands.items()}
    fields["d"] = name or builder.name("d")
    known = selectors_of(form)
    if known:
        feature = Has.SCALE_IDS if form.is_scaled else Has.SELECTOR
        above = builder.take(feature) and len(known) > 1
        fields["selector"] = dice.one_of(known[1:] if above else known)
    if form.is_scaled:
        asked = builder.take(Has.IDS_IN_REGISTERS)
        fields["ids_in_registers"] = dice.once_in(4) or asked
    builder.add(Op.of(form, **fields))
    if not form.opaque:
        builder.take(*of_form(form))
    for operand, value in operands.items():
        value.pins -= 1
        value.used |= {operand}
    c.pending = False
    over = c.region if c.region is not None and c.region.type == form.d_type else None
    known_of_d = {"depth": depth, "type": form.d_type.name, "pending": True, "computed": True}
    d = builder.define(fields["d"], held, region=over, **known_of_d)
    if isinstance(held, Registers):
        return d
    changed = dice.once_in(_CHANGED_IN // 2) or _wants_change(builder, held.matrix)
    return change(builder, d, builder.dice()) if changed else d


def _wants_change(builder: Builder, matrix: Matrix) -> bool:
    allowed, asked = operations(matrix.type), asked_operations(builder)
    return _of_operand(matrix) in builder.wanted or any(one in allowed for one in asked)


def change(builder: Builder, value: LiveValue, dice: Dice) -> LiveValue:
    """Append an element-wise operation on a fragment; return what the result stands in."""
    matrix = matrix_of(value)
    type_ = matrix.type
    allowed = operations(type_)
    drawn = dice.one_of(allowed)
    operation = next((one for one in asked_operations(builder) if one in allowed), drawn)
    builder.take(OF_OPERATION[operation], _of_operand(matrix))
    pending = matrix.operand == "c"
    elsewhere = dice.once_in(4)
    destination = builder.name(value.name.rstrip("0123456789")) if elsewhere else value.name
    builder.add(
        Elementwise(
            operation=operation, matrix=matrix, source=value.name, destination=destination,
            constant=_constant(operation, type_, dice),
        )
    )  # fmt: skip
    if not elsewhere:
        value.pending = pending
        return value
    return builder.define(destination, value.holds, pending=pending, region=value.region)


def _of_operand(matrix: Matrix) -> Feature:
    return Has.CHANGED_MULTIPLICAND if matrix.operand in "ab" else Has.CHANGED_ACCUMULATOR


def _constant(operation: Operation, type_: Format, dice: Dice) -> int:
    if operation not in WITH_CONSTANT:
        return 0
    ones, bits = (1 << type_.bits) - 1, min(type_.bits, 32)
    drawn = dice.below(1 << bits) << type_.bits - bits
    if operation in (Operation.MULTIPLY, Operation.ADD):
        plain = _FLOATS.get(type_.name, (1, 3, ones, 2))
        return dice.one_of((*plain, drawn))
    return dice.one_of((ones if operation is Operation.AND else 1, drawn & ones))


_PRODUCTS_IN = 10
"""One multiplication in so many gets operands that share registers without being asked for; with
those that are asked for, it is one in eight of a campaign (164 of 1,321 in 25 rounds, 2026-11)."""
_OTHERS_IN = 48  # The same of loads, stores of rows and moves
_TRIED = 4  # Ways of one kind that are tried until one leaves a defined program

SHARING = (
    Has.C_ORDER, Has.C_PART, Has.C_REPEATED, Has.AMONG_MULTIPLICANDS,
    Has.OVER_METADATA, Has.OVER_SCALES, Has.A_WITH_B, Has.ADDRESS_LOADED, Has.ROWS_REPEATED,
    Has.MOVED_IN_PLACE,
)  # fmt: skip
_NOT_SHARED = frozenset(
    {
        Has.IN_PLACE_REGISTERS, Has.OVER_MULTIPLICAND, Has.OVER_PART, Has.A_REUSED, Has.B_REUSED,
        Has.D_AS_C, Has.CHAIN, Has.D_AS_MULTIPLICAND, Has.ROWS_OF_D, Has.FED_BY_ROWS,
    }
)  # fmt: skip
"""Features that may go where other registers are taken."""
Vector = Sequence[Register]


@dataclass(frozen=True)
class Sharing:
    """How a program changes so that operands of one of its steps share registers."""

    feature: Feature
    result: str = ""  # What the step writes, for the step itself and for later steps that read it
    own: Mapping[str, object] = field(default_factory=dict)  # Fields of the step alone
    before: tuple[Step, ...] = ()  # What comes before the step
    renamed: Mapping[str, str] = field(default_factory=dict)  # Operands, by what they are named
    back: bool = False  # Whether the result is copied to where it was, and nobody else reads it


def with_shared_registers(program: Program, builder: Builder) -> Program:
    """Return the program of a builder with operands in shared registers, as its focus says."""
    if not builder.only_ptx:
        return program
    first, target = builder.dice(), builder.module.target.name
    asked = [feature for feature in SHARING if feature in builder.asked]
    every = bool(builder.focus.shares_registers)
    free = every or _NOT_SHARED.isdisjoint(builder.asked)
    steps = [*walk(program.steps)]
    # From the last on: what comes before a step that shares leaves those before it where they are.
    for number in reversed(range(len(steps))):
        step = steps[number]
        if not (is_main(step) or _loads(step)):
            continue
        chosen = first.once_in(_PRODUCTS_IN if multiplies(step) else _OTHERS_IN) or every
        if asked or (chosen and free):
            step = [*walk(program.steps)][number]
            for way in _tried(program, step, builder.dice(), asked):
                changed = _shared(program, step, way)
                if not undefined(changed, target=target):
                    program = changed
                    asked = [feature for feature in asked if feature is not way.feature]
                    break
    return program


def _tried(program: Program, step: Step, dice: Dice, asked: Sequence[Feature]) -> Iterator[Sharing]:
    """Iterate over a few ways of each feature, from drawn ones on."""
    ways: dict[Feature, list[Sharing]] = {}
    for way in _sharings(program, step, dice):
        if not asked or way.feature in asked:
            ways.setdefault(way.feature, []).append(way)
    groups = [*ways.values()]
    first = dice.below(len(groups)) if groups else 0
    for group in (*groups[first:], *groups[:first]):
        start = dice.below(len(group))
        for way in (*group[start:], *group[:start])[:_TRIED]:
            yield from (way, replace(way, back=True)) if way.result else (way,)


def _shared(program: Program, changed: Step, way: Sharing) -> Program:
    renamed = dict(way.renamed)

    def fits(use: Use) -> bool:
        text = renamed.get(use.name)
        return text is not None and (not listed(text) or text.count(" ") + 1 == use.holds.registers)

    def rewritten(step: Step) -> Iterator[Step]:
        made = step.writes
        fields: dict[str, Any] = {use.field: renamed[use.name] for use in step.reads if fits(use)}
        if step is changed:
            yield from way.before
            fields |= way.own
            if way.result and made is not None:
                if way.back:
                    yield step.changed(**{**fields, made.field: way.result})
                    yield copied(made, way.result, made.name)
                    return
                renamed[made.name] = way.result
        elif way.result and made is not None and made.name not in way.renamed:
            renamed.pop(made.name, None)
        if made is not None and fits(made):
            fields[made.field] = renamed[made.name]
        fields |= {name: every(inside) for name, inside in step.blocks.items()}
        yield step.changed(**fields)

    def every(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(new for step in steps for new in rewritten(step))

    return replace(program, steps=every(program.steps))


def _sharings(program: Program, step: Step, dice: Dice) -> Iterator[Sharing]:
    if multiplies(step):
        yield from _of_product(program, step, dice)
    elif _loads(step):
        (use,) = step.uses
        near = space_of(program, step).startswith("shared")
        if step.address is None and (use.holds.bits == 64 or near):
            # The last one, mostly: those before it are written first.
            number = use.holds.registers - 1 - dice.below(use.holds.registers)
            yield Sharing(Has.ADDRESS_LOADED, own={"address": number})
    elif stores_rows(step):
        (use,) = step.uses
        registers = use.registers
        if len(registers) > 1:
            first = dice.below(len(registers) - 1)
            repeated = (*registers[: first + 1], *registers[first:-1])
            for vector in (repeated, (registers[first],) * len(registers)):
                yield Sharing(Has.ROWS_REPEATED, own={use.field: text_of(vector)})
    elif is_main(step) and step.names["source"] != step.names["destination"]:
        yield Sharing(Has.MOVED_IN_PLACE, step.names["source"])


def _loads(step: Step) -> bool:
    return step.writes is not None and bool(step.bytes_read)


def _of_product(program: Program, step: Product, dice: Dice) -> Iterator[Sharing]:
    uses = {use.field: use for use in step.uses}
    d, a, b, c = (uses[name] for name in "dabc")
    bank = fresh_bank(program, "d")
    own = [Register(bank, d.holds.bits, index) for index in range(d.holds.registers)]
    # A D of which one register holds metadata, or scales, before.
    over_metadata = [
        (
            Has.OVER_METADATA if use.field == "e" else Has.OVER_SCALES,
            (*own[:place], *use.registers, *own[place + 1 :]),
        )
        for use in step.uses[4:]
        for place in (0, len(own) - 1)
    ]
    for feature, vector in (*_destinations(own, a, b, c, dice), *over_metadata):
        if text_of(vector) != text_of(d.registers):
            yield Sharing(feature, text_of(vector))
    if multiplies_registers(step):
        of_c, size = c.registers, len(c.registers)
        for places in (lambda i: 0, lambda i: i & ~1, lambda i: i % (size // 2)):
            if size > 1:
                repeated = text_of(of_c[places(index)] for index in range(size))
                yield Sharing(Has.C_REPEATED, own={"c": repeated})
        if a.holds.bits == b.holds.bits:
            yield Sharing(Has.A_WITH_B, own={"b": text_of(_filled(a.registers, b.registers))})
    yield from _one_number(program, step, c, own, dice)
    if a.holds.bits != b.holds.bits or a.name == b.name:
        return
    bank = fresh_bank(program, "m")
    first, second = (
        text_of(Register(bank, a.holds.bits, 2 * i + odd) for i in range(use.holds.registers))
        for odd, use in enumerate((a, b))
    )
    if _movable(program, a.name) and _movable(program, b.name):
        yield Sharing(Has.A_WITH_B, renamed={a.name: first, b.name: second})
    else:
        before = copied(a, a.name, first), copied(b, b.name, second)
        yield Sharing(Has.A_WITH_B, own={"a": first, "b": second}, before=before)


def _destinations(
    own: Vector, a: Use, b: Use, c: Use, dice: Dice
) -> Iterator[tuple[Feature, Vector]]:
    """Iterate over vectors for D that share registers with C, or with A and B; it has its own."""
    bits, size = own[0].bits, len(own)
    of_c = c.registers
    if c.holds.bits == bits:
        whole = of_c[:size]
        turn = 1 + dice.below(len(whole) - 1)
        swapped = [whole[index ^ 1] for index in range(len(whole) & ~1)]
        for vector in (whole[::-1], (*whole[turn:], *whole[:turn]), swapped):
            yield Has.C_ORDER, _filled(vector, own)
        half = max(1, len(of_c) // 2)
        # C's second half is D's first, and the reverse; or D has one half of C in its place.
        parts = [vector for vector in (of_c[half:], of_c[:half]) if 0 < len(vector) <= size]
        yield from ((Has.C_PART, _filled(vector, own)) for vector in parts)
        if half < size:
            yield Has.C_PART, _filled(of_c[:half][::-1], own)
            yield Has.C_PART, (*own[: size - half], *of_c[:half])
    for of, other in ((a, b), (b, a)):
        if of.holds.bits == other.holds.bits == bits:
            pairs = zip(of.registers, other.registers, strict=False)
            both = list(dict.fromkeys(register for pair in pairs for register in pair))
            half = max(1, len(of.registers) // 2)
            for vector in (of.registers, of.registers[::-1], of.registers[half:], both):
                filled = _filled(vector, own)
                if vector and text_of(filled) != text_of(of.registers):
                    yield Has.AMONG_MULTIPLICANDS, filled


def _one_number(
    program: Program, step: Product, c: Use, own: Vector, dice: Dice
) -> Iterator[Sharing]:
    """Iterate over ways in which C is one number: in one register, or in two; D has one of them."""
    # What a product before it made stays C: nothing else might read it.
    earlier = takewhile(lambda other: other is not step, walk(program.steps))
    if any(multiplies(other) and other.names["d"] == c.name for other in earlier):
        return
    bank, bits, type_ = fresh_bank(program, "z"), c.holds.bits, step.form.c_type
    constant = replicated(dice.one_of((0, type_.one)), type_.bits, bits)
    for count in (1, 2):
        if count == c.holds.registers:
            continue
        registers = [Register(bank, bits, index % count) for index in range(c.holds.registers)]
        before = (set_registers(destination=bank, count=count, constant=constant, bits=bits),)
        fields = {"c": text_of(registers)}
        overs = [text_of(_filled(registers[:1], own))] if own[0].bits == bits else []
        yield from (Sharing(Has.C_REPEATED, over, fields, before) for over in ("", *overs))


def _movable(program: Program, name: str) -> bool:
    uses = [use for step in walk(program.steps) for use in step.uses]
    sizes = {(use.holds.registers, use.holds.bits) for use in uses if use.name == name}
    parts = (use.registers for use in uses if use.name != name and listed(use.name))
    apart = all(register.bank != name for some in parts for register in some)
    return apart and len(sizes) == 1 and not listed(name)


def _filled(registers: Vector, own: Vector) -> Vector:
    """Return a vector as long as `own` that begins with some registers, and has own ones behind."""
    found = [*registers[: len(own)]]
    return [*found, *(register for register in own if register not in found)][: len(own)]
