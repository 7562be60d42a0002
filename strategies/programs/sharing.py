"""Operands that share registers: a program is drawn with names, and here some become vectors.

Whatever holds together afterwards is another program that the ISA defines: what would be undefined
is tried in another way, or left as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from oracle.isa.forms import replicated
from oracle.program.operands import Register, Use, listed, text_of
from oracle.program.operations import copied, set_registers
from oracle.program.program import Program, fresh_bank, space_of, undefined, walk
from oracle.program.steps import (
    Product,
    Step,
    is_main,
    multiplies,
    multiplies_registers,
    stores_rows,
)
from strategies.features import Feature, Focus, Has
from strategies.programs.builder import Dice

_PRODUCTS_IN = 10
"""One multiplication in so many gets operands that share registers without being asked for; with
those that are asked for, it is one in eight of a campaign (164 of 1,321 in 25 rounds, 2026-11)."""
_OTHERS_IN = 48
"""One load in so many that can has its address in its destination; one store of rows or move in
so many repeats registers or writes its source."""
_TRIED = 4  # Ways of one kind that are tried until one leaves a defined program

SHARING = (
    Has.C_ORDER, Has.C_PART, Has.C_REPEATED, Has.AMONG_MULTIPLICANDS,
    Has.OVER_METADATA, Has.A_WITH_B, Has.ADDRESS_LOADED, Has.ROWS_REPEATED,
    Has.MOVED_IN_PLACE,
)  # fmt: skip
"""Features that are made here."""
_KEPT = frozenset(
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


def with_shared_registers(
    program: Program, dice: Callable[[], Dice], focus: Focus, target: str
) -> Program:
    """Return a program, defined on a target, with operands in shared registers, as its focus says.

    `dice` draws the digits of a group of decisions.
    """
    if focus.shares_registers is False:
        return program
    first = dice()
    asked = [feature for feature in SHARING if feature in focus.features]
    every = bool(focus.shares_registers)
    free = every or _KEPT.isdisjoint(focus.features)
    steps = [*walk(program.steps)]
    # From the last on: what comes before a step that shares leaves those before it where they are.
    for number in reversed(range(len(steps))):
        step = steps[number]
        if not (is_main(step) or _loads(step)):
            continue
        chosen = first.once_in(_PRODUCTS_IN if multiplies(step) else _OTHERS_IN) or every
        if asked or (chosen and free):
            changed = _changed(program, number, dice(), asked, target)
            if changed is not None:
                program, feature = changed
                asked = [one for one in asked if one is not feature]
    return program


def _changed(
    program: Program, number: int, dice: Dice, asked: Sequence[Feature], target: str
) -> tuple[Program, Feature] | None:
    step = [*walk(program.steps)][number]
    ways: dict[Feature, list[Sharing]] = {}
    for way in _sharings(program, step, dice):
        if not asked or way.feature in asked:
            ways.setdefault(way.feature, []).append(way)
    features = list(ways)
    first = dice.below(len(features)) if features else 0
    for feature in (*features[first:], *features[:first]):
        group = ways[feature]
        start = dice.below(len(group))
        for way in (*group[start:], *group[:start])[:_TRIED]:
            for tried in (way, replace(way, back=True)) if way.result else (way,):
                changed = _shared(program, step, tried)
                if not undefined(changed, target=target):
                    return changed, feature
    return None


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
    metadata = [one for use in step.uses[4:] for one in use.registers]
    # A D of which one register holds the metadata before.
    over_metadata = [
        (Has.OVER_METADATA, (*own[:place], *metadata, *own[place + 1 :]))
        for place in ((0, len(own) - 1) if metadata else ())
    ]
    for feature, vector in (*_destinations(own, a, b, c, dice), *over_metadata):
        if text_of(vector) != text_of(d.registers):
            yield Sharing(feature, text_of(vector))
    if multiplies_registers(step):
        of_c, size = c.registers, len(c.registers)
        for places in (lambda i: 0, lambda i: i & ~1, lambda i: i % max(1, size // 2)):
            if size > 1:
                repeated = text_of([of_c[places(index)] for index in range(size)])
                yield Sharing(Has.C_REPEATED, own={"c": repeated})
        if a.holds.bits == b.holds.bits:
            yield Sharing(Has.A_WITH_B, own={"b": text_of(_filled(a.registers, b.registers))})
    yield from _one_number(program, step, c, own, dice)
    if a.holds.bits == b.holds.bits and a.name != b.name:
        yield _interleaved(program, a, b)


def _destinations(
    own: Vector, a: Use, b: Use, c: Use, dice: Dice
) -> Iterator[tuple[Feature, Vector]]:
    """Iterate over vectors for D that share registers with C, or with A and B."""
    # `own` are registers that D can have for itself.
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
        for vector in (of_c[half:], of_c[:half]):
            if 0 < len(vector) <= size:
                yield Has.C_PART, _filled(vector, own)
        if half < size:
            yield Has.C_PART, _filled(of_c[:half][::-1], own)
            yield Has.C_PART, (*own[: size - half], *of_c[:half])
    for of, other in ((a, b), (b, a)):
        if of.holds.bits == other.holds.bits == bits:
            pairs = zip(of.registers, other.registers, strict=False)
            both = list(dict.fromkeys(one for pair in pairs for one in pair))
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
        registers = [Register(bank, bits, index % count) for index in range(c.holds.registers)]
        if count == c.holds.registers:
            continue
        before = (set_registers(destination=bank, count=count, constant=constant, bits=bits),)
        fields = {"c": text_of(registers)}
        yield Sharing(Has.C_REPEATED, own=fields, before=before)
        if own[0].bits == bits:
            over = text_of(_filled(registers[:1], own))
            yield Sharing(Has.C_REPEATED, over, fields, before)


def _interleaved(program: Program, a: Use, b: Use) -> Sharing:
    bank, bits = fresh_bank(program, "m"), a.holds.bits
    first, second = (
        text_of(Register(bank, bits, 2 * index + odd) for index in range(use.holds.registers))
        for odd, use in enumerate((a, b))
    )
    if _movable(program, a.name) and _movable(program, b.name):
        return Sharing(Has.A_WITH_B, renamed={a.name: first, b.name: second})
    before = copied(a, a.name, first), copied(b, b.name, second)
    return Sharing(Has.A_WITH_B, own={"a": first, "b": second}, before=before)


def _movable(program: Program, name: str) -> bool:
    sizes = set()
    for step in walk(program.steps):
        for use in step.uses:
            if use.name == name:
                sizes.add((use.holds.registers, use.holds.bits))
            elif listed(use.name) and any(one.bank == name for one in use.registers):
                return False
    return len(sizes) == 1 and not listed(name)


def _filled(registers: Vector, own: Vector) -> Vector:
    """Return a vector as long as `own` that begins with some registers, and has own ones behind."""
    found = [*registers[: len(own)]]
    return [*found, *(one for one in own if one not in found)][: len(own)]
