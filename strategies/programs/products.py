"""Multiplications: where A, B and C come from, and where D goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from oracle.isa.forms import Form, Format, Matrix
from oracle.isa.lookup import chunks_of, selectors_of
from oracle.program.lane_code import LANE, Assign, LaneCode, Statement
from oracle.program.operands import Fragment, Held, Operation, Registers, operations
from oracle.program.operations import Elementwise, set_registers
from oracle.program.steps import Op
from oracle.scalar import SCALARS
from strategies.features import (
    LIVE,
    MOVES,
    OF_OPERATION,
    ROW_LOADS,
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
    operand_of,
)
from strategies.programs.lane_code import Lanes, computed
from strategies.programs.scalar_rows import settled

T = TypeVar("T")

_SCALES = {
    "f16": (0x2C00, 0x3C00, 0x3400, 0x2E66), "bf16": (0x3D80, 0x3F80, 0x3E80, 0x3DCD),
    "f32": (0x3D80_0000, 0x3F80_0000, 0x3E80_0000, 0x3DCC_CCCD),
}  # fmt: skip
"""1/16, 1, 1/4 and the number next to 0.1."""
_LARGEST_OF_S8 = 0x42FE_0000  # 127, as f32
_EIGHT_BITS = {"e4m3": 0x7777_7777, "e5m2": 0xBBBB_BBBB}  # NaN do not have them all


class _Chain:
    """Instructions on the registers of a value that each write a register of their own."""

    def __init__(self, builder: Builder, value: LiveValue) -> None:
        self._builder = builder
        self.words = [f"r{index}" for index in range(value.holds.registers)]
        self._lanes = Lanes(builder, self.words)
        self.dice = builder.wide_dice()
        self.code: list[Statement] = []

    def has(self, opcode: str) -> bool:
        return SCALARS[opcode].exists(self._builder.module)

    def make(self, opcode: str, *sources: str | int, settles: bool = False) -> str:
        made: list[Assign] = []
        result = self._lanes.make(made, opcode, *sources)
        self.code += settled(made[0]) if settles else made
        return result

    def halves(self, word: str) -> tuple[str, str]:
        """Append what parts a word into registers of 16 bits, the low one first."""
        made: list[Assign] = []
        self._lanes.make(made, "mov.b32.unpack", word)
        self.code += made
        low, high = made[0].destinations
        return low, high

    def byte(self, word: str, index: int, *, signed: bool) -> str:
        """Append what extracts a byte as a number of 32 bits, in one of the ways of kernels."""
        kind = "s32" if signed else "u32"
        match self.dice.below(3):
            case 0:
                return self.make(f"bfe.{kind}", word, 8 * index, 8)
            case 1:
                return self.make(f"shr.{kind}", self.make("shl.b32", word, 24 - 8 * index), 24)
        sign = 8 + index if signed else 4
        return self.make("prmt.b32", word, 0, sign << 12 | sign << 8 | sign << 4 | index)


def in_lanes(
    builder: Builder, value: LiveValue, type_: str, made: Registers | None = None
) -> LiveValue | None:
    """Append code that makes multiplicands of a type of fewer registers, or that packs a D."""
    # As quantised kernels do; no NaN is made whose bits PTX leaves open, or it is made canonical.
    # `made` are the registers of the multiplicands; None if there is no such code.
    chain, results = _Chain(builder, value), list[str]()
    if made is None and type_ in ("f16", "f32", "s32"):
        results = _packed(chain, type_)
    elif made is not None and value.holds.bits == 32:
        results = _multiplicands(chain, type_, made.registers)
    if not results:
        return None
    builder.take(Has.PACKED_BEHIND if made is None else Has.UNPACKED)
    name = builder.name("q")
    builder.add(
        LaneCode(
            source=value.name, count=len(chain.words), destination=name,
            results=tuple(results), code=tuple(chain.code),
        )
    )  # fmt: skip
    value.pending = False
    return builder.define(name, Registers(registers=len(results)), pending=True)


def _multiplicands(chain: _Chain, type_: str, count: int) -> list[str]:
    dice, words = chain.dice, chain.words
    kind, scale = dice.below(3), dice.one_of(_SCALES.get(type_, _SCALES["f32"]))
    made: list[str] = []
    for index in range(count):
        part, place = divmod(index, len(words))
        word = words[place]
        match type_:
            case "f16" | "bf16":
                made.append(_halves(chain, type_, word, part, kind, scale))
            case "f32" | "tf32":
                number = _scaled(chain, word, part, scale)
                if type_ == "tf32" and chain.has("cvt.rna.tf32.f32"):
                    number = chain.make("cvt.rna.tf32.f32", number)
                made.append(number)
            case "s8" | "u8" | "s4" | "u4" | "b1":
                made.append(_integers(chain, type_, word, part))
            case "e4m3" | "e5m2" if chain.has(f"cvt.rn.satfinite.{type_}x2.f32"):
                numbers = [_scaled(chain, word, part + each, scale) for each in range(4)]
                opcode = f"cvt.rn.satfinite.{type_}x2.f32"
                pairs = [chain.make(opcode, numbers[i + 1], numbers[i]) for i in (0, 2)]
                made.append(chain.make("mov.b32.pack", *pairs))
            case _:
                return []
    return made


def _scaled(chain: _Chain, word: str, part: int, scale: int) -> str:
    byte = chain.byte(word, part % 4, signed=True)
    return chain.make("mul.rn.f32", chain.make("cvt.rn.f32.s32", byte), scale)


def _halves(chain: _Chain, type_: str, word: str, part: int, kind: int, scale: int) -> str:
    """Append what makes two numbers of 16 bits."""
    has, both = chain.has, scale << 16 | scale
    fmt = f"{type_}x2"
    if kind == 2 and type_ == "f16" and has("cvt.rn.f16x2.e4m3x2"):
        eight = chain.dice.one_of(tuple(_EIGHT_BITS))
        masked = chain.make("and.b32", word, _EIGHT_BITS[eight]) if chain.dice.below(2) else word
        half = chain.halves(masked)[part % 2]
        return chain.make(f"cvt.rn.f16x2.{eight}x2", half, settles=True)
    if not has(f"fma.rn.{fmt}"):
        low, high = (_scaled(chain, word, 2 * part + each, _SCALES["f32"][1]) for each in (0, 1))
        narrow = (chain.make(f"cvt.rn.{type_}.f32", one) for one in (low, high))
        return chain.make("mov.b32.pack", *narrow)
    if kind == 1 and type_ == "f16":
        # 1024 + byte, less 1024 + 128.
        pair = chain.make("prmt.b32", word, 0x6464_6464, (0x4140, 0x4342)[part % 2])
        number = chain.make("sub.rn.f16x2", pair, 0x6480_6480)
    else:
        # The lowest bits of 1024 or 128 are those of a number below 16.
        shifted = chain.make("shr.u32", word, 4 * (part % 4)) if part % 4 else word
        one, less, magic = {
            "f16": (0x3C00_3C00, 0xE408_E408, 0x6400_6400),
            "bf16": (0x3F80_3F80, 0xC308_C308, 0x4300_4300),
        }[type_]
        pair = chain.make("lop3.b32", shifted, 0x000F_000F, magic, 0xEA)
        number = chain.make(f"fma.rn.{fmt}", pair, one, less)
    if chain.dice.below(3) or not has(f"max.NaN.{fmt}"):
        return chain.make(f"fma.rn.{fmt}", number, both, 0x8000_8000)
    # A scale from memory may be NaN.
    return chain.make(f"fma.rn.{fmt}", number, word, 0x8000_8000, settles=True)


def _integers(chain: _Chain, type_: str, word: str, part: int) -> str:
    """Append what makes integers of 8, 4 or 1 bits: of halves of bytes, or of other places."""
    if type_ == "b1":
        return chain.make("lop3.b32", word, chain.make("brev.b32", word), 1 << part, 0x96)
    turned = chain.make("prmt.b32", word, 0, (0x3210, 0x0123, 0x1032, 0x2301)[part % 4])
    if type_ in ("s4", "u4"):
        return chain.make("lop3.b32", word, chain.make("shl.b32", turned, 4), 0x0F0F_0F0F, 0xAC)
    shifted = chain.make("shr.u32", turned, 4) if part % 2 else turned
    small = chain.make("and.b32", shifted, 0x0F0F_0F0F)
    if type_ == "u8":
        return small
    sign = chain.make("and.b32", small, 0x0808_0808)
    return chain.make("or.b32", small, chain.make("mul.lo.u32", sign, 0x1E))


def _packed(chain: _Chain, type_: str) -> list[str]:
    dice = chain.dice
    scale, bias = dice.one_of(_SCALES["f32"]), dice.one_of((0, 0x3F00_0000, 0xC100_0000))
    rectifies, kind = dice.below(3), dice.below(3)
    numbers: list[str] = []
    for word in chain.words:
        if type_ == "f16":
            some = [chain.make("cvt.f32.f16", half) for half in chain.halves(word)]
        else:
            some = [chain.make("cvt.rn.f32.s32", word) if type_ == "s32" else word]
        for one in some:
            number = chain.make("fma.rn.f32", one, scale, bias)
            if rectifies:
                # The first lets NaN through.
                opcode = "max.NaN.f32" if rectifies == 1 and chain.has("max.NaN.f32") else "max.f32"
                number = chain.make(opcode, number, 0)
            numbers.append(chain.make("min.f32", number, _LARGEST_OF_S8))
    if kind == 1 and chain.has("cvt.rn.satfinite.e4m3x2.f32"):
        opcode = "cvt.rn.satfinite.e4m3x2.f32"
        pairs = [chain.make(opcode, high, low) for low, high in _pairs(numbers)]
        made = [chain.make("mov.b32.pack", *both) for both in _pairs(pairs)]
    elif kind == 2 and chain.has("cvt.rn.f16x2.f32"):
        made = [
            chain.make("cvt.rn.f16x2.f32", high, low, settles=True) for low, high in _pairs(numbers)
        ]
    else:
        made = _bytes(chain, [chain.make("cvt.rni.s32.f32", one) for one in numbers])
    if dice.below(3) == 0:
        # As at the edge of a matrix, which not all lanes have.
        inside = chain.make("setp.lt.u32", LANE, 1 + dice.below(31))
        chain.code += [
            Assign(opcode="mov.b32", destinations=(one,), sources=(0,), guard=f"!{inside}")
            for one in made
        ]
    return made


def _bytes(chain: _Chain, whole: Sequence[str]) -> list[str]:
    """Append what packs integers, four in a word: clamped by one instruction, or by two."""
    made = []
    way = chain.dice.below(2)
    for low, high in _pairs([*_pairs(whole)]):
        four = (*low, *high)
        if way and chain.has("cvt.pack.sat.s8.s32.b32"):
            upper = chain.make("cvt.pack.sat.s8.s32.b32", four[3], four[2], 0)
            made.append(chain.make("cvt.pack.sat.s8.s32.b32", four[1], four[0], upper))
            continue
        held = [chain.make("max.s32", chain.make("min.s32", one, 127), 0xFFFF_FF80) for one in four]
        joined = chain.make("and.b32", held[0], 0xFF)
        for place, one in enumerate(held[1:], start=1):
            joined = chain.make("bfi.b32", one, joined, 8 * place, 8)
        made.append(joined)
    return made


def _pairs(items: Sequence[T]) -> list[tuple[T, T]]:
    """Return items in pairs; what is left over is its own neighbour."""
    return [(items[i], items[min(i + 1, len(items) - 1)]) for i in range(0, len(items), 2)]


_COMPUTED_IN = 6  # Scalar code works on one A, B or D of mma.sync in so many
_KEPT = frozenset(
    {Has.FED_BY_ROWS, Has.D_AS_MULTIPLICAND, Has.ROWS_OF_D, *ROW_LOADS, *ROW_STORES, *MOVES}
)
"""Features that are gone where code of lanes stands between two instructions."""
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
    """Append multiplications of some forms, all on fragments or all on registers."""
    # `hoisted` says that all operands are loaded before the first multiplication and stored behind
    # the last, so that many are live at once.
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
        dice = builder.dice()
        # What is not stored here can be the next C, A or B; all is stored in the end.
        kept = builder.wants((*ACCUMULATED, Has.D_AS_MULTIPLICAND, Has.ROWS_OF_D))
        # A store that is asked for must not wait: the next multiplication may take D.
        asked = Has.STORED_AND_LOADED in builder.wanted or accesses.is_asked_of(builder, d)
        if (opaque and asked) or (dice.once_in(2) and not kept):
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
        made = None
        if builder.dice().below(2) or Has.PACKED_BEHIND in builder.wanted:
            made = in_lanes(builder, value, value.type)
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
        asked = operand != "c" and _wants_change(builder, value.matrix)
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
        type_ = form.type(operand).name
        found[operand] = value or _loaded(builder, holds, operand, dice, type_)
    if "e" in form.operands:
        found["e"] = _metadata(builder, form, builder.dice())
    taken = {one.name for one in found.values()}
    holds = operand_of(form, "c")
    there = scope.like(holds)
    made = [value for value in there if value.computed and value.name not in taken]
    carried = [value for value in there if value.depth < scope.depth and value.pending]
    chained = dice.once_in(2) or builder.wants(ACCUMULATED)
    usable = carried or (made if chained else [])
    if usable and not fresh:
        return {**found, "c": usable[-1]}
    return {**found, "c": accesses.load_registers(builder, holds, "c", dice)}


def _loaded(builder: Builder, holds: Held, operand: str, dice: Dice, type_: str) -> LiveValue:
    own = builder.dice()
    drawn = own.once_in(_COMPUTED_IN)
    asked = builder.wants((Has.LANES_BEFORE, Has.UNPACKED))
    if not _may_compute(builder, holds, drawn, asked):
        return accesses.load_or_read(builder, holds, operand, dice)
    assert isinstance(holds, Registers)
    builder.take(Has.LANES_BEFORE)
    count = own.one_of([count for count in (1, 2, 4, 8) if count <= holds.registers])
    narrow = Registers(registers=count, bits=holds.bits)
    given = accesses.load_or_read(builder, narrow, operand, dice)
    made = None
    if own.below(2) or Has.UNPACKED in builder.wanted:
        made = in_lanes(builder, given, type_, holds)
    return made or computed(builder, given, holds)


def _may_compute(builder: Builder, holds: Held, drawn: bool, asked: bool) -> bool:
    """Whether code of lanes may work on registers: drawn or asked for, where only PTX says them."""
    wanted = asked or (drawn and builder.asked.isdisjoint(_KEPT))
    only_ptx = builder.focus.shares_registers is not False
    return wanted and only_ptx and isinstance(holds, Registers)


def _metadata(builder: Builder, form: Form, dice: Dice) -> LiveValue:
    """Load or choose metadata, or set them to a number of which the ISA allows all."""
    # Those from memory are filled so that every multiplication that takes them allows them.
    holds = operand_of(form, "e")
    again = [value for value in builder.scope.like(holds) if "e" in value.used]
    asked = builder.take(Has.METADATA_SET)
    if (dice.once_in(4) or asked) and builder.focus.shares_registers is not False:
        name, pairs = builder.name("m"), chunks_of(form)
        alike = [dice.one_of(pairs)] * 8
        chosen = alike if dice.once_in(2) else [dice.one_of(pairs) for _ in alike]
        constant = sum(pair << 4 * place for place, pair in enumerate(chosen))
        builder.add(set_registers(destination=name, count=1, constant=constant))
        # Another form may not allow it, so that it is offered to none.
        return LiveValue(name=name, holds=holds, depth=builder.scope.depth)
    return (
        again[-1]
        if again and dice.once_in(2)
        else accesses.load_registers(builder, holds, "e", dice)
    )


def _from_d(
    builder: Builder, form: Form, operand: str, dice: Dice, taken: Mapping[str, LiveValue]
) -> LiveValue | None:
    """Choose a D as A or B, packed where that makes it fit; None for none."""
    # What the operands that are `taken` already hold must stay.
    drawn = dice.once_in(3) and not builder.wants(ACCUMULATED)
    if not drawn and Has.D_AS_MULTIPLICAND not in builder.wanted:
        return None
    needs, names = operand_of(form, operand), {one.name for one in taken.values()}
    for value in reversed(tuple(builder.scope.values.values())):
        if not value.computed or value.name in names:
            continue
        if value.holds == needs:
            builder.take(Has.D_AS_MULTIPLICAND)
            return value
        wide = value.type == "f32" and value.holds.registers == 2 * needs.registers
        if wide and builder.everything.packs and needs.bits == 32:
            builder.take(Has.D_AS_MULTIPLICAND)
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
    # A name changes what it holds only in the scope that it comes from: joins stay alike.
    if target != "d" and free[target]:
        value = operands[target]
        if value.depth == scope.depth or value.holds == held:
            name, depth = value.name, scope.values[value.name].depth
            builder.take(Has.IN_PLACE_REGISTERS if target == "c" else Has.OVER_MULTIPLICAND)
            if value.holds.words > held.words:
                builder.take(Has.OVER_PART)
    names = {"d": name or builder.name("d")} | {one: operands[one].name for one in operands}
    fields: dict[str, Any] = {}
    known = selectors_of(form)
    if known:
        above = builder.take(Has.SELECTOR) and len(known) > 1
        fields["selector"] = dice.one_of(known[1:] if above else known)
    builder.add(Op.of(form, **names, **fields))
    if not form.opaque:
        builder.take(*of_form(form))
    for operand, value in operands.items():
        value.pins -= 1
        value.used |= {operand}
    c.pending = False
    over = c.region if c.region is not None and c.region.type == form.d_type else None
    known_of_d = {"depth": depth, "type": form.d_type.name, "pending": True, "computed": True}
    d = builder.define(names["d"], held, region=over, **known_of_d)
    if isinstance(held, Registers):
        return d
    changed = dice.once_in(_CHANGED_IN // 2) or _wants_change(builder, held.matrix)
    return change(builder, d, builder.dice()) if changed else d


def _wants_change(builder: Builder, matrix: Matrix) -> bool:
    asked = asked_operations(builder)
    return _of_operand(matrix) in builder.wanted or any(one.accepts(matrix.type) for one in asked)


def change(builder: Builder, value: LiveValue, dice: Dice) -> LiveValue:
    """Append an element-wise operation on a fragment; return what the result stands in."""
    type_ = value.matrix.type
    allowed = operations(type_)
    drawn = dice.one_of(allowed)
    operation = next((one for one in asked_operations(builder) if one in allowed), drawn)
    builder.take(OF_OPERATION[operation], _of_operand(value.matrix))
    pending = value.matrix.operand == "c"
    elsewhere = dice.once_in(4)
    destination = builder.name(value.name.rstrip("0123456789")) if elsewhere else value.name
    constant = _constant(operation, type_, dice)
    builder.add(
        Elementwise(
            operation=operation, matrix=value.matrix, source=value.name, destination=destination,
            constant=constant,
        )
    )  # fmt: skip
    if not elsewhere:
        value.pending = pending
        return value
    return builder.define(destination, value.holds, pending=pending, region=value.region)


def _of_operand(matrix: Matrix) -> Feature:
    multiplicand = matrix.operand in "ab"
    return Has.CHANGED_MULTIPLICAND if multiplicand else Has.CHANGED_ACCUMULATOR


def _constant(operation: Operation, type_: Format, dice: Dice) -> int:
    if not operation.takes_constant:
        return 0
    ones = (1 << type_.bits) - 1
    drawn = dice.below(1 << min(type_.bits, 32)) * ((1 << type_.bits) // (1 << min(type_.bits, 32)))
    if operation in (Operation.MULTIPLY, Operation.ADD):
        plain = _FLOATS.get(type_.name, (1, 3, ones, 2))
        return dice.one_of((*plain, drawn))
    return dice.one_of((ones if operation is Operation.AND else 1, drawn & ones))
