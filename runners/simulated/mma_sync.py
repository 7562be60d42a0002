"""mma.sync and movmatrix (PTX ISA 9.7.14.5.14 and .17).

What the units of sm_90 do was measured on an H200 (November 2026): f16, bf16 and tf32 are blocks
of as many products as one instruction has, tf32 too; e4m3 and e5m2 are unpacked to f16, added up in
two blocks, from zero, and meet C behind that; m8n8k4 of f16 is scalar arithmetic in f32, but on
sm_70 and sm_75, which have a unit for it. Other architectures are given the same with their own
blocks.
"""

import re
from dataclasses import dataclass, replace

import numpy as np

from runners.simulated.binary import F32, NAMED, Rounding
from runners.simulated.chained import multiply_doubles
from runners.simulated.counted import count_bits, multiply_integers
from runners.simulated.fragments import Elements, gather, scatter
from runners.simulated.fused import NanRule, Product, add, multiply_add, products
from runners.simulated.lane_layouts import BITS, QUADS, is_quads, lane_layout
from runners.simulated.operands import Operands
from runners.simulated.silicon import Silicon
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.truncated import multiply, narrowed, widened
from runners.simulated.units import (
    BitOperation,
    BitUnit,
    DoubleUnit,
    FloatUnit,
    FragmentUnit,
    IntegerUnit,
    QuadUnit,
    RowUnit,
)
from runners.simulated.warps import DTYPES, LANES, Mask, Operation, Values, Warps

MMA_SYNC = re.compile(
    r"mma\.sync\.aligned\.m(?P<m>\d+)n(?P<n>\d+)k(?P<k>\d+)\.(?P<a_order>row|col)\."
    r"(?P<b_order>row|col)(?:\.(?P<rounding>rn|rz|rm|rp))?(?P<satfinite>\.satfinite)?"
    r"\.(?P<d>\w+)\.(?P<a>\w+)\.(?P<b>\w+)\.(?P<c>\w+)(?:\.(?P<op>xor|and)\.popc)?"
)
MOVMATRIX = re.compile(r"movmatrix\.sync\.aligned\.m8n8\.trans\.b16")

_Sizes = tuple[int, int, int]

# The tables of 9.7.14.5, and Target ISA Notes of .14: the architecture that each shape needs.
_SHAPES: dict[str, dict[_Sizes, int]] = {
    "f16": {(8, 8, 4): 70, (16, 8, 8): 75, (16, 8, 16): 80},
    "bf16": {(16, 8, 8): 80, (16, 8, 16): 80},
    "tf32": {(16, 8, 4): 80, (16, 8, 8): 80},
    "f8": {(16, 8, 16): 89, (16, 8, 32): 89},
    "f64": {(8, 8, 4): 80, (16, 8, 4): 90, (16, 8, 8): 90, (16, 8, 16): 90},
    "i8": {(8, 8, 16): 75, (16, 8, 16): 80, (16, 8, 32): 80},
    "i4": {(8, 8, 32): 75, (16, 8, 32): 80, (16, 8, 64): 80},
    "b1": {(8, 8, 128): 75, (16, 8, 128): 80, (16, 8, 256): 80},
}
_FAMILY = {
    **{name: name for name in ("f16", "bf16", "tf32", "f64", "b1")},
    **dict.fromkeys(("e4m3", "e5m2"), "f8"),
    **dict.fromkeys(("s8", "u8"), "i8"),
    **dict.fromkeys(("s4", "u4"), "i4"),
}
# C and D of each family: the pairs (d, c) that there are.
_ACCUMULATORS: dict[str, tuple[tuple[str, str], ...]] = {
    **dict.fromkeys(("f16", "f8"), (("f16", "f16"), ("f32", "f32"))),
    **dict.fromkeys(("bf16", "tf32"), (("f32", "f32"),)),
    "f64": (("f64", "f64"),),
    **dict.fromkeys(("i8", "i4", "b1"), (("s32", "s32"),)),
}

_Unit = FloatUnit | DoubleUnit | IntegerUnit | BitUnit | QuadUnit


@dataclass(frozen=True, kw_only=True)
class _Form:
    """What an opcode spells."""

    sizes: _Sizes
    types: dict[str, str]
    """By matrix."""
    orders: dict[str, str]

    @property
    def family(self) -> str:
        return _FAMILY[self.types["a"]]

    @property
    def quads(self) -> int:
        return QUADS if is_quads(self.sizes, self.types["a"]) else 1

    def dimensions(self, role: str) -> tuple[int, int]:
        m, n, k = self.sizes
        return {"a": (m, k), "b": (k, n)}.get(role, (m, n))


def _form(operands: Operands, match: re.Match[str]) -> _Form:
    """Return the form, or refuse what 9.7.14.5.14 does not list."""
    form = _Form(
        sizes=(int(match["m"]), int(match["n"]), int(match["k"])),
        types={role: match[role] for role in "dabc"},
        orders={"a": match["a_order"], "b": match["b_order"], "c": "row", "d": "row"},
    )
    known = _FAMILY.get(match["a"]), _FAMILY.get(match["b"])
    if None in known or known[0] != known[1] or form.sizes not in _SHAPES[form.family]:
        operands.unsupported("no such shape and types are known")
    pairs = _ACCUMULATORS[form.family]
    if form.quads > 1:
        pairs = (*pairs, ("f32", "f16"))
    wrong = (
        (match["d"], match["c"]) not in pairs
        or (form.quads == 1 and (match["a_order"], match["b_order"]) != ("row", "col"))
        or (match["rounding"] is not None and form.family != "f64")
        or (match["satfinite"] is not None and form.family not in ("i8", "i4"))
        or ((match["op"] is None) == (form.family == "b1"))
    )
    if wrong:
        operands.unsupported("this combination of qualifiers is not known")
    return form


def _sound_unit(silicon: Silicon, match: re.Match[str], form: _Form) -> _Unit:
    """Return the unit that computes a form."""
    types = form.types
    match form.family:
        case "b1":
            return BitUnit(operation=BitOperation(match["op"]))
        case "f64":
            return replace(silicon.chip.doubles, rounding=Rounding(match["rounding"] or "rn"))
        case "i8" | "i4":
            return IntegerUnit(
                signed_a=types["a"].startswith("s"),
                signed_b=types["b"].startswith("s"),
                saturating=match["satfinite"] is not None,
            )
        case "f8":
            unit = silicon.chip.floats[f"{types['d']}.f16.f16.{types['c']}"]
            return replace(
                unit, block=form.sizes[2] // 2, run=2, accumulator_last=True,
                addition=Rounding.NEAREST_EVEN,
            )  # fmt: skip
        case _ if form.quads > 1:
            native = silicon.chip.quads.get(".".join(types[role] for role in "dabc"))
            return native or QuadUnit(pairs=types["c"] == types["d"] == "f16")
        case "tf32":
            # wmma's is cut in two by the HMMA.1684 that it is made of; this one is not.
            halves = silicon.chip.floats["f32.f16.f16.f32"]
            unit = silicon.chip.floats["f32.tf32.tf32.f32"]
            return replace(unit, block=max(unit.block, halves.block // 2))
    return silicon.chip.floats[".".join(types[role] for role in "dabc")]


def _as_f16(words: Values, kind: str) -> Values:
    """Return f16 words of the same numbers as e4m3 or e5m2 words; NaN becomes some NaN."""
    wide = words.astype(np.uint16)
    if kind == "e5m2":
        return wide << np.uint16(8)
    sign, rest = (wide & np.uint16(0x80)) << np.uint16(8), wide & np.uint16(0x7F)
    # The fields fall into place 7 bits further up; the biases are 7 and 15.
    normal = (rest << np.uint16(7)) + np.uint16(8 << 10)
    # A subnormal is so many times 2^-9; f16 has the powers 2^-9 to 2^-7 as normal numbers.
    lead = (rest > 3).astype(np.uint16) + (rest > 1).astype(np.uint16)
    fraction = (rest << (np.uint16(10) - lead)) & np.uint16(0x3FF)
    small = ((lead + np.uint16(6)) << np.uint16(10)) | fraction
    found = np.where(rest < 8, np.where(rest == 0, np.uint16(0), small), normal)
    return sign | np.where(rest == 0x7F, np.uint16(0x7E00), found)


def _scalar(a: Elements, b: Elements, c: Elements, unit: QuadUnit, result: str) -> Elements:
    """Return A times B plus C in f32 operations, each rounded to nearest even."""
    rule = NanRule(canonical=unit.nan, invalid=unit.nan)

    def fused(product: Product, z: Values) -> Values:
        summed: Values = add(product, z, Rounding.NEAREST_EVEN, rule)
        return summed

    def plus(x: Values, y: Values) -> Values:
        one = np.array(0x3F80_0000, np.uint64)
        summed: Values = multiply_add(x, one, y, F32, Rounding.NEAREST_EVEN, rule)
        return summed

    exact = products(widened(a), widened(b), F32)
    addend = (widened(c) if c.itemsize == 2 else c).astype(np.uint64)
    order = range(a.shape[1])
    if unit.pairs:
        total = addend
        for k in order[::2]:
            pair = fused(exact[k + 1], fused(exact[k], np.full_like(addend, F32.sign)))
            total = plus(pair, total)
    else:
        total = np.zeros_like(addend)
        for k in order:
            total = fused(exact[k], total)
        total = plus(total, addend)
    words = total.astype(np.uint32)
    return narrowed(words, unit.nan) if result == "f16" else words


def _multiply(unit: _Unit, a: Elements, b: Elements, c: Elements, form: _Form) -> Elements:
    types = form.types
    match unit:
        case FloatUnit():
            if form.family == "f8":
                a, b = _as_f16(a, types["a"]), _as_f16(b, types["b"])
            return multiply(a, b, c, unit, NAMED[types["d"]])
        case QuadUnit():
            return _scalar(a, b, c, unit, types["d"])
        case IntegerUnit():
            return multiply_integers(a, b, c, BITS[types["a"]], unit)
        case BitUnit():
            return count_bits(a, b, c, unit)
        case DoubleUnit():
            return multiply_doubles(a, b, c, unit)


def mma_sync(operands: Operands, silicon: Silicon, match: re.Match[str]) -> Operation:
    """Decode mma.sync."""
    given = operands.expect(4)
    form = _form(operands, match)
    opcode, line = operands.instruction.opcode, operands.line
    needed = max(_SHAPES[form.family][form.sizes], 80 if match["op"] == "and" else 0)
    if silicon.target.architecture < needed:
        refuse(
            TrapKind.ILLEGAL,
            line,
            f"{opcode} needs sm_{needed}; the module is for {silicon.target.name}",
        )
    wires = silicon.unit(opcode, FragmentUnit())
    layouts = {
        role: lane_layout(role, form.sizes, form.types[role], form.orders[role], wires)
        for role in "dabc"
    }
    names = operands.registers(given[0], layouts["d"].count, layouts["d"].width)
    sources = {
        role: operands.sources(operand, layouts[role].count, layouts[role].width)
        for operand, role in zip(given[1:], "abc", strict=True)
    }
    unit = silicon.unit(opcode, _sound_unit(silicon, match, form))
    corrupt = silicon.corruption(opcode)

    def fetch(warps: Warps, role: str) -> Elements:
        words = [source(warps) for source in sources[role]]
        elements = gather(words, layouts[role], warps.indices.size)
        rows, columns = form.dimensions(role)
        # The multiplications of m8n8k4 lie beside each other, as more warps would.
        quads = elements.reshape(form.quads, rows, columns, -1).transpose(1, 2, 0, 3)
        return quads.reshape(rows, columns, -1)

    def execute(warps: Warps, mask: Mask) -> None:
        mask = warps.whole(mask)
        a, b, c = (fetch(warps, role) for role in "abc")
        d = _multiply(unit, a, b, c, form)
        rows, columns = form.dimensions("d")
        quads = d.reshape(rows, columns, form.quads, -1).transpose(2, 0, 1, 3)
        elements = quads.reshape(-1, warps.indices.size).astype(DTYPES[BITS[form.types["d"]]])
        words = scatter(elements, layouts["d"])
        if corrupt is not None:
            words = corrupt(words, warps.site())
        for name, word in zip(names, words, strict=True):
            warps.write(name, word, mask)

    return execute


def movmatrix(operands: Operands, silicon: Silicon, match: re.Match[str]) -> Operation:
    """Decode movmatrix: lane 4 g + t gets elements (2 t, g) and (2 t + 1, g)."""
    target_operand, source_operand = operands.expect(2)
    opcode, line = operands.instruction.opcode, operands.line
    if silicon.target.architecture < 75:
        refuse(
            TrapKind.ILLEGAL, line, f"{opcode} needs sm_75; the module is for {silicon.target.name}"
        )
    unit = silicon.unit(opcode, RowUnit(transposed=True))
    corrupt = silicon.corruption(opcode)
    target = operands.destination(target_operand, 32)
    source = operands.source(source_operand, 32)
    lane = np.arange(LANES)
    givers, halves = [], []
    for position in range(2):
        row, column = 2 * (lane % 4) + position, lane // 4
        if not unit.transposed:
            row, column = column, row
        givers.append(4 * row + column // 2)
        halves.append((column % 2)[:, None].astype(np.uint32) * np.uint32(16))

    def execute(warps: Warps, mask: Mask) -> None:
        mask = warps.whole(mask)
        held = np.broadcast_to(source(warps), (LANES, warps.indices.size))
        low, high = (
            (held[giver] >> shift) & np.uint32(0xFFFF)
            for giver, shift in zip(givers, halves, strict=True)
        )
        word = high | low << np.uint32(16) if unit.swapped_halves else low | high << np.uint32(16)
        if unit.rotation:
            word = np.roll(word, -unit.rotation, axis=0)
        words = [word.astype(np.uint32)]
        if corrupt is not None:
            words = corrupt(words, warps.site())
        warps.write(target, words[0], mask)

    return execute
