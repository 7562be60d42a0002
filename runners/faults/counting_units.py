"""Faults of the simulated device's integer and single-bit units."""

from dataclasses import replace

from runners.faults.device_rows import DeviceRow, with_fields
from runners.faults.fault import Fault
from runners.simulated.units import BitOperation, BitUnit, IntegerUnit

# Which wmma.mma the rows are about, by the qualifiers that end the opcode.
_INTEGERS = r"^wmma\.mma.*\.[su][48]\.s32(?:\.satfinite)?$"
_WRAPPING = r"^wmma\.mma.*\.[su][48]\.s32$"
_CLAMPING = r"^wmma\.mma.*\.satfinite$"
# Unsigned products only ever move a sum up: clamping each step or once is the same for them.
_SIGNED_CLAMPING = r"^wmma\.mma.*\.s[48]\.s32\.satfinite$"
_BITS = r"^wmma\.mma.*\.b1\.s32$"

_COUNTS = (
    DeviceRow(
        name="saturation-bound-off-by-one",
        meaning="integer sums are clamped to 2^31 - 2",
        stands_for="a comparison with the wrong bound",
        pattern=_CLAMPING,
        unit=IntegerUnit,
        change=with_fields(highest=(1 << 31) - 2),
    ),
    DeviceRow(
        name="saturation-one-sided",
        meaning="negative integer sums are clamped to -2^31 + 1, the negative of the upper bound",
        stands_for="bounds taken for symmetric",
        pattern=_CLAMPING,
        unit=IntegerUnit,
        change=with_fields(lowest=-(1 << 31) + 1),
    ),
    DeviceRow(
        name="saturation-each-step",
        meaning="integer sums are clamped after every product, not once at the end",
        stands_for="a saturating adder in a chain",
        pattern=_SIGNED_CLAMPING,
        unit=IntegerUnit,
        change=with_fields(clamps_each_step=True),
    ),
    DeviceRow(
        name="overflow-clamps",
        meaning="integer sums are clamped without .satfinite",
        stands_for="a modifier that is always set",
        pattern=_WRAPPING,
        unit=IntegerUnit,
        change=with_fields(saturating=True),
    ),
    DeviceRow(
        name="integer-carry-broken",
        meaning="no carry comes into bit 16 where C is added to integer products",
        stands_for="a broken carry chain",
        pattern=_INTEGERS,
        unit=IntegerUnit,
        change=with_fields(carry_break=16),
    ),
    DeviceRow(
        name="integer-k-tail-dropped",
        meaning="the integer product with k = 15 and what lies above is left out",
        stands_for="a loop over k that ends too early",
        pattern=_INTEGERS,
        unit=IntegerUnit,
        change=with_fields(products=15),
    ),
    DeviceRow(
        name="a-signedness-swapped",
        meaning="A's integers alone are taken with the other signedness",
        stands_for="mixed-sign multiplier wired wrongly",
        pattern=_INTEGERS,
        unit=IntegerUnit,
        change=lambda unit: replace(unit, signed_a=not unit.signed_a),
    ),
    DeviceRow(
        name="four-bit-sign-lost",
        meaning="B's s4 are not sign-extended",
        stands_for="an emulation that forgets the sign",
        pattern=r"^wmma\.mma.*\.s4\.s32",
        unit=IntegerUnit,
        change=with_fields(signed_b=False),
    ),
    DeviceRow(
        name="popcount-off-by-one",
        meaning="a count of set bits that is not zero is one too large",
        stands_for="a carry set in a population count",
        pattern=_BITS,
        unit=BitUnit,
        change=with_fields(bias=1),
    ),
    DeviceRow(
        name="popcount-short",
        meaning="only the first 64 of 128 single bits are counted",
        stands_for="half of a wide operand lost",
        pattern=_BITS,
        unit=BitUnit,
        change=with_fields(width=64),
    ),
    DeviceRow(
        name="xor-as-xnor",
        meaning="single-bit wmma.mma.xor counts equal bits",
        stands_for="an inverted input",
        pattern=r"^wmma\.mma\.xor",
        unit=BitUnit,
        change=with_fields(operation=BitOperation.XNOR),
    ),
    DeviceRow(
        name="popcount-clamps",
        meaning="a count plus C that overflows is clamped, not wrapped",
        stands_for="an emulation by saturating integer products",
        pattern=_BITS,
        unit=BitUnit,
        change=with_fields(saturating=True),
    ),
    DeviceRow(
        name="popcount-without-c",
        meaning="C is not added to counts of single bits",
        stands_for="an accumulator that is cleared",
        pattern=_BITS,
        unit=BitUnit,
        change=with_fields(ignores_c=True),
    ),
)

COUNTING_FAULTS: tuple[Fault, ...] = tuple(row.fault() for row in _COUNTS)
"""Every fault of an integer or single-bit unit."""
