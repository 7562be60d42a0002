"""mma.sync (PTX ISA 9.7.14.5.14).

What the units of sm_90 do was measured on an H200 (November 2026): f16, bf16 and tf32 are blocks
of as many products as one instruction has, tf32 too; e4m3 and e5m2 are unpacked to f16, added up in
two blocks, from zero, and meet C behind that (sm_89 and sm_120 have a unit for them); m8n8k4 of f16
is scalar arithmetic in f32, but on sm_70 and sm_75, which have a unit for it. Other architectures
are given the same with their own blocks.
"""

import re
from dataclasses import replace

from runners.simulated.binary import Rounding
from runners.simulated.integers import Qualifiers
from runners.simulated.layouts import QUADS, documented_layout
from runners.simulated.matrices import Form, Multiplicands, check_product, dense
from runners.simulated.operands import Operands
from runners.simulated.products import MultiplyUnit, Types, sound_unit
from runners.simulated.silicon import Chip
from runners.simulated.units import FragmentUnit, QuadUnit
from runners.simulated.warps import Operation

_OPCODE = re.compile(
    r"mma\.sync\.aligned\.(?P<shape>m\d+n\d+k\d+)\.(?P<a_order>row|col)\.(?P<b_order>row|col)"
    r"(?:\.(?P<rounding>rn|rz|rm|rp))?(?P<satfinite>\.satfinite)?"
    r"\.(?P<d>\w+)\.(?P<a>\w+)\.(?P<b>\w+)\.(?P<c>\w+)(?:\.(?P<op>xor|and)\.popc)?"
)

# The tables of 9.7.14.5, and Target ISA Notes of .14.
_QUADS = Multiplicands("f16", {"m8n8k4": 70}, "f16.f16 f32.f32 f32.f16", any_order=True)
_ROWS = (
    _QUADS,
    Multiplicands("f16", {"m16n8k8": 75, "m16n8k16": 80}, "f16.f16 f32.f32"),
    Multiplicands("bf16", {"m16n8k8": 80, "m16n8k16": 80}, "f32.f32"),
    Multiplicands("tf32", {"m16n8k4": 80, "m16n8k8": 80}, "f32.f32"),
    Multiplicands("e4m3 e5m2", {"m16n8k16": 89, "m16n8k32": 89}, "f16.f16 f32.f32"),
    Multiplicands("f64", {"m8n8k4": 80, "m16n8k4": 90, "m16n8k8": 90, "m16n8k16": 90}, "f64.f64"),
    Multiplicands("s8 u8", {"m8n8k16": 75, "m16n8k16": 80, "m16n8k32": 80}, "s32.s32"),
    Multiplicands("s4 u4", {"m8n8k32": 75, "m16n8k32": 80, "m16n8k64": 80}, "s32.s32"),
    Multiplicands("b1", {"m8n8k128": 75, "m16n8k128": 80, "m16n8k256": 80}, "s32.s32"),
)


def product_unit(chip: Chip, types: Types, k: int, q: Qualifiers) -> MultiplyUnit:
    """Return the unit that computes a form with so many products in each sum."""
    if types.a in ("e4m3", "e5m2") and ".".join(types) not in chip.floats:
        unit = chip.floats[f"{types.d}.f16.f16.{types.c}"]
        late = Rounding.NEAREST_EVEN
        return replace(unit, block=k // 2, run=2, accumulator_last=True, addition=late)
    if types.a == "tf32":
        # wmma's is cut in two by the HMMA.1684 that it is made of; this one is not.
        halves, unit = (chip.floats[f"f32.{kind}.{kind}.f32"] for kind in ("f16", "tf32"))
        return replace(unit, block=max(unit.block, halves.block // 2))
    return sound_unit(chip, types, q["op"], q["rounding"], bool(q["satfinite"]))


def _decode(operands: Operands, match: re.Match[str]) -> Operation:
    operands.expect(4)
    q = Qualifiers(match.groupdict(""))
    shape, orders = q["shape"], (q["a_order"], q["b_order"])
    types = Types(*match.group("d", "a", "b", "c"))
    check_product(operands, _ROWS, shape, types, orders, q, "no such shape and types are known")
    if types.a == _QUADS.types and shape in _QUADS.shapes:
        quads = QUADS
        native = operands.silicon.chip.quads.get(".".join(types))
        sound: MultiplyUnit = native or QuadUnit(pairs=types.c == types.d == "f16")
    else:
        quads, k = 1, int(shape.rpartition("k")[2])
        sound = product_unit(operands.silicon.chip, types, k, q)
    wires = operands.unit(FragmentUnit())
    layouts = {
        role: documented_layout(role, shape, getattr(types, role), order, wires, quads)
        for role, order in zip("abcd", (*orders, "row", "row"), strict=True)
    }
    return dense(operands, shape, types, layouts, sound, quads)


FORMS: tuple[Form, ...] = ((_OPCODE, _decode),)
