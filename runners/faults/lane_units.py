"""Faults of the simulated device's mma.sync, stmatrix and movmatrix."""

from dataclasses import replace

from runners.faults.corruptions import stuck_bit
from runners.faults.device_rows import DeviceRow, with_fields
from runners.faults.fault import Fault
from runners.simulated.units import (
    DoubleUnit,
    FloatUnit,
    FragmentUnit,
    IntegerUnit,
    Matrix,
    QuadUnit,
    RowUnit,
)

_ANY = r"^mma\.sync"
# A has two registers or more in every shape of 16 rows.
_TALL = r"^mma\.sync.*\.m16"
_NARROW = r"(?:f16|bf16|e4m3|e5m2|[su][48]|b1)"
# Several elements of A stand in one register.
_PACKED = rf"^mma\.sync.*\.{_NARROW}\.{_NARROW}\.\w+(?:\.(?:xor|and)\.popc)?$"
_TO_F32 = r"^mma\.sync.*\.m16.*\.f32\.(?:f16|bf16|tf32)\.(?:f16|bf16|tf32)\.f32$"
_MOST_PRODUCTS = (
    r"^mma\.sync.*(?:m16n8k16.*\.(?:f16\.f16|bf16\.bf16)|m16n8k8.*\.tf32\.tf32)\.f(?:16|32)$"
)
_EIGHT_BITS = r"^mma\.sync.*\.e[45]m[32]\.e[45]m[32]\."
_LONG_EIGHT_BITS = r"^mma\.sync.*\.m16n8k32\..*\.f32\.e[45]m[32]\.e[45]m[32]\.f32$"
_LONG_DOUBLES = r"^mma\.sync.*\.m16n8k(?:8|16)\..*\.f64$"
_MIXED_SIGNS = r"^mma\.sync.*\.(?:s[48]\.u|u[48]\.s)[48]\.s32$"
_QUADS = r"^mma\.sync.*\.m8n8k4\..*\.f16\.f16\.\w+$"
_STMATRIX = r"^stmatrix"
_MOVMATRIX = r"^movmatrix"

_WIRING = (
    DeviceRow(
        name="lanes-a-registers-exchanged",
        meaning="mma.sync takes A's first register for its second, and the other way",
        stands_for="a layout of another shape chosen",
        pattern=_TALL,
        unit=FragmentUnit,
        change=with_fields(exchanged_registers=frozenset({Matrix.A})),
    ),
    DeviceRow(
        name="lanes-b-crossed",
        meaning="mma.sync takes each even lane's part of B for the next lane's",
        stands_for="a crossbar set wrongly",
        pattern=_ANY,
        unit=FragmentUnit,
        change=with_fields(crossed_lanes=frozenset({Matrix.B})),
    ),
    DeviceRow(
        name="lanes-c-registers-exchanged",
        meaning="mma.sync takes C's first register for its second, and the other way",
        stands_for="rows of an accumulator allotted wrongly",
        pattern=_ANY,
        unit=FragmentUnit,
        change=with_fields(exchanged_registers=frozenset({Matrix.C})),
    ),
    DeviceRow(
        name="lanes-d-crossed",
        meaning="mma.sync gives neighbouring lanes each other's part of D",
        stands_for="write ports crossed",
        pattern=_ANY,
        unit=FragmentUnit,
        change=with_fields(crossed_lanes=frozenset({Matrix.D})),
    ),
    DeviceRow(
        name="lanes-a-parts-reversed",
        meaning="mma.sync takes the elements of each register of A from the high end",
        stands_for="a byte order confused",
        pattern=_PACKED,
        unit=FragmentUnit,
        change=with_fields(reversed_parts=frozenset({Matrix.A})),
    ),
    DeviceRow(
        name="lanes-stuck-bit",
        meaning="bit 9 of lane 13's second result register of mma.sync is always set",
        stands_for="a stuck-at fault in one lane of a data path",
        pattern=_ANY,
        corrupt=stuck_bit(register=1, lane=13, bit=9, high=True),
    ),
)

_ARITHMETIC = (
    DeviceRow(
        name="lanes-alignment-one-bit-less",
        meaning="mma.sync keeps one bit less below the block's largest exponent (F - 1)",
        stands_for="an adder one bit too narrow",
        pattern=_TO_F32,
        unit=FloatUnit,
        change=lambda unit: replace(unit, fraction=unit.fraction - 1),
    ),
    DeviceRow(
        name="lanes-block-halved",
        meaning="mma.sync adds half of its products first, and then the other half",
        stands_for="a wider instruction split in two, as wmma's tf32 is",
        pattern=_MOST_PRODUCTS,
        unit=FloatUnit,
        change=lambda unit: replace(unit, block=unit.block // 2),
    ),
    DeviceRow(
        name="lanes-eight-bit-c-first",
        meaning="mma.sync of e4m3 and e5m2 adds C with the first block, and not behind the last",
        stands_for="an emulation that takes the unit's own accumulator",
        pattern=_EIGHT_BITS,
        unit=FloatUnit,
        change=with_fields(accumulator_last=False),
    ),
    DeviceRow(
        name="lanes-eight-bit-blocks-apart",
        meaning="mma.sync.m16n8k32 of e4m3 and e5m2 sums both blocks from zero and adds the sums",
        stands_for="the code of ptxas 12.4 to 12.6, where the target's own is that of 12.8",
        pattern=_LONG_EIGHT_BITS,
        unit=FloatUnit,
        change=with_fields(blocks_apart=True),
    ),
    DeviceRow(
        name="lanes-doubles-backwards",
        meaning="mma.sync of f64 with k of 8 or 16 adds from the highest k down",
        stands_for="a long form made of short ones in the wrong order",
        pattern=_LONG_DOUBLES,
        unit=DoubleUnit,
        change=with_fields(descending=True),
    ),
    DeviceRow(
        name="lanes-mixed-signs",
        meaning="mma.sync of integers takes B as signed where A is, and as unsigned where A is not",
        stands_for="a type qualifier read twice",
        pattern=_MIXED_SIGNS,
        unit=IntegerUnit,
        change=lambda unit: replace(unit, signed_b=unit.signed_a),
    ),
    DeviceRow(
        name="lanes-quad-order",
        meaning="mma.sync.m8n8k4 of f16 adds pairs of products where it adds one at a time",
        stands_for="an emulation for other types chosen",
        pattern=_QUADS,
        unit=QuadUnit,
        change=lambda unit: replace(unit, pairs=not unit.pairs),
    ),
)

_MOVES = (
    DeviceRow(
        name="stmatrix-wrong-transpose",
        meaning="stmatrix transposes exactly where it should not",
        stands_for="a modifier bit inverted in decoding",
        pattern=_STMATRIX,
        unit=RowUnit,
        change=lambda unit: replace(unit, transposed=not unit.transposed),
    ),
    DeviceRow(
        name="stmatrix-rotated-rows",
        meaning="stmatrix takes each row address from the next lane",
        stands_for="an address crossbar off by one",
        pattern=_STMATRIX,
        unit=RowUnit,
        change=with_fields(rotation=1),
    ),
    DeviceRow(
        name="stmatrix-registers-exchanged",
        meaning="stmatrix exchanges its first two registers",
        stands_for="read ports crossed",
        pattern=r"^stmatrix.*\.x[24]",
        unit=RowUnit,
        change=with_fields(exchanged_registers=True),
    ),
    DeviceRow(
        name="movmatrix-not-transposed",
        meaning="movmatrix gives back what it was given",
        stands_for="a move taken for a copy",
        pattern=_MOVMATRIX,
        unit=RowUnit,
        change=with_fields(transposed=False),
    ),
    DeviceRow(
        name="movmatrix-halves-exchanged",
        meaning="movmatrix exchanges the 16-bit halves of its result",
        stands_for="a byte order confused",
        pattern=_MOVMATRIX,
        unit=RowUnit,
        change=with_fields(swapped_halves=True),
    ),
)

LANE_FAULTS: tuple[Fault, ...] = tuple(row.fault() for row in (*_WIRING, *_ARITHMETIC, *_MOVES))
"""Every fault of the instructions whose registers are known by lane."""
