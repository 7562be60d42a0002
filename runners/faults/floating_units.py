"""Faults of the simulated device's floating-point units."""

from dataclasses import replace

from runners.faults.device_rows import DeviceRow, flushing, with_fields
from runners.faults.fault import Fault
from runners.simulated.binary import Rounding
from runners.simulated.fused import NanRule
from runners.simulated.units import DoubleUnit, FloatUnit, Matrix

# Which wmma.mma the rows are about, by the qualifiers that end the opcode.
_FLOATS = r"^wmma\.mma.*(?:(?:f16|f32)\.(?:f16|f32)|bf16\.bf16\.f32|tf32\.tf32\.f32)$"
_TO_F32 = r"^wmma\.mma.*(?:f32\.f16|f32\.f32|f16\.f32|bf16\.f32|tf32\.f32)$"
_TO_F16 = r"^wmma\.mma.*\d\.f16\.f16$"
_NARROWED = r"^wmma\.mma.*\d\.f16\.f32$"
_WIDE_RANGE = r"^wmma\.mma.*(?:bf16|tf32)\.f32$"
# Products of f16 are far above f32's least numbers and far below its largest, so that with an f32
# sum the exponent of zeros never decides, and a sum never overflows before it is narrowed.
_ZERO_DECIDES = rf"{_TO_F16}|{_WIDE_RANGE}"
_OVERFLOWING = rf"{_TO_F16}|{_NARROWED}|{_WIDE_RANGE}"
# Neither products nor sums of f16 come near f32's subnormals.
_SMALL_RESULTS = rf"{_TO_F16}|{_NARROWED}|{_WIDE_RANGE}|^wmma\.mma.*\d\.f32\.f32$"
_TF32 = r"^wmma\.mma.*\.tf32\.f32$"
_BLOCKS_OF_16 = r"^wmma\.mma.*(?:\d\.f(?:16|32)\.f(?:16|32)|bf16\.f32)$"
_F64 = r"^wmma\.mma.*\.f64$"

_PRECISION = (
    DeviceRow(
        name="alignment-one-bit-more",
        meaning="terms keep one bit more below the block's largest exponent (F + 1)",
        stands_for="another generation's adder, or a model of one",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=lambda unit: replace(unit, fraction=unit.fraction + 1),
    ),
    DeviceRow(
        name="alignment-one-bit-less",
        meaning="terms keep one bit less below the block's largest exponent (F - 1)",
        stands_for="an adder one bit too narrow",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=lambda unit: replace(unit, fraction=unit.fraction - 1),
    ),
    DeviceRow(
        name="block-halved",
        meaning="half as many products are added at once (L / 2)",
        stands_for="a wider instruction split in two",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=lambda unit: replace(unit, block=max(1, unit.block // 2)),
    ),
    DeviceRow(
        name="block-doubled",
        meaning="twice as many tf32 products are added at once (2 L)",
        stands_for="another instruction chosen for the same step (HMMA.1688 for HMMA.1684)",
        pattern=_TF32,
        unit=FloatUnit,
        change=lambda unit: replace(unit, block=2 * unit.block),
    ),
    DeviceRow(
        name="block-order-reversed",
        meaning="the tf32 blocks are added from the last to the first",
        stands_for="an expansion that was reordered",
        pattern=_TF32,
        unit=FloatUnit,
        change=with_fields(descending=True),
    ),
    DeviceRow(
        name="zero-exponent-higher",
        meaning="a zero takes part in the alignment one exponent higher (e_zero + 1)",
        stands_for="a special case of the exponent unit off by one",
        pattern=_ZERO_DECIDES,
        unit=FloatUnit,
        change=lambda unit: replace(unit, zero_exponent=unit.zero_exponent + 1),
    ),
    DeviceRow(
        name="zero-exponent-lower",
        meaning="a zero takes part in the alignment one exponent lower (e_zero - 1)",
        stands_for="a special case of the exponent unit off by one",
        pattern=_ZERO_DECIDES,
        unit=FloatUnit,
        change=lambda unit: replace(unit, zero_exponent=unit.zero_exponent - 1),
    ),
    DeviceRow(
        name="product-normalised-first",
        meaning="a product of 2 or more counts with the next exponent in the alignment",
        stands_for="a normalisation step that the design leaves out",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=with_fields(normalised_products=True),
    ),
    DeviceRow(
        name="sum-rounded-to-nearest",
        meaning="an f32 sum is rounded to nearest even where it should be cut",
        stands_for="a rounding mode set wrongly",
        pattern=_TO_F32,
        unit=FloatUnit,
        change=with_fields(rounding=Rounding.NEAREST_EVEN),
    ),
    DeviceRow(
        name="sum-rounded-up",
        meaning="an f32 sum is rounded to positive infinity where it should be cut",
        stands_for="a rounding mode set wrongly",
        pattern=_TO_F32,
        unit=FloatUnit,
        change=with_fields(rounding=Rounding.UP),
    ),
    DeviceRow(
        name="half-sum-cut",
        meaning="an f16 sum is cut where it should be rounded to nearest",
        stands_for="a rounding mode set wrongly",
        pattern=_TO_F16,
        unit=FloatUnit,
        change=with_fields(rounding=Rounding.ZERO),
    ),
    DeviceRow(
        name="half-sum-ties-away",
        meaning="an f16 sum on a tie goes away from zero, not to even",
        stands_for="a sticky bit that is not looked at",
        pattern=_TO_F16,
        unit=FloatUnit,
        change=with_fields(rounding=Rounding.NEAREST_AWAY),
    ),
    DeviceRow(
        name="narrowing-cut",
        meaning="an f32 sum is cut to an f16 result, not rounded",
        stands_for="a conversion with the wrong rounding behind an expansion",
        pattern=_NARROWED,
        unit=FloatUnit,
        change=with_fields(narrowing=Rounding.ZERO),
    ),
    DeviceRow(
        name="accumulator-added-last",
        meaning="the products are summed and rounded before C is added",
        stands_for="a fused step split in two",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=with_fields(accumulator_last=True),
    ),
    DeviceRow(
        name="tf32-rounded",
        meaning="the 13 low bits of tf32 multiplicands are rounded in, not cut",
        stands_for="a conversion in front of the multiplier",
        pattern=_TF32,
        unit=FloatUnit,
        change=with_fields(rounded_multiplicands=True),
    ),
)

_SPECIAL_VALUES = (
    *(
        DeviceRow(
            name=f"subnormals-flushed-in-{matrix}",
            meaning=f"subnormal elements of {matrix.upper()} count as zero",
            stands_for="flush-to-zero switched on where it must not be",
            pattern=_SMALL_RESULTS if matrix is Matrix.D else _FLOATS,
            unit=FloatUnit,
            change=flushing(matrix),
        )
        for matrix in Matrix
    ),
    DeviceRow(
        name="nan-with-other-payload",
        meaning="a NaN result is 0x7fc00000, or 0x7e00 for f16, and not all ones",
        stands_for="another convention for the canonical NaN",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=lambda unit: replace(
            unit, nan=0x7E00 if unit.accumulator.word == 16 else 0x7FC0_0000
        ),
    ),
    DeviceRow(
        name="nan-negative",
        meaning="a NaN result has its sign bit set",
        stands_for="a sign that is not suppressed",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=lambda unit: replace(unit, nan=unit.nan | unit.accumulator.sign),
    ),
    DeviceRow(
        name="zero-negative",
        meaning="a sum that is zero is -0",
        stands_for="a sign kept where the sum vanishes",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=with_fields(zero_sign=True),
    ),
    DeviceRow(
        name="overflow-to-largest",
        meaning="a sum that is too large becomes the largest finite value",
        stands_for="saturation left switched on",
        pattern=_OVERFLOWING,
        unit=FloatUnit,
        change=with_fields(saturating=True),
    ),
    DeviceRow(
        name="invalid-is-zero",
        meaning="0 times infinity and infinity minus infinity count as zero",
        stands_for="a special case that is not recognised",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=with_fields(invalid_is_nan=False),
    ),
    DeviceRow(
        name="products-overflow-early",
        meaning="a product beyond f32's range is infinite, even if the sum would not be",
        stands_for="a narrower exponent range inside the block",
        pattern=_WIDE_RANGE,
        unit=FloatUnit,
        change=with_fields(wide_products=False),
    ),
    DeviceRow(
        name="accumulator-lost-in-floats",
        meaning="the running sum starts at zero and not at C",
        stands_for="an accumulator that is cleared",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=with_fields(ignores_c=True),
    ),
    DeviceRow(
        name="k-tail-dropped",
        meaning="the product with the highest k is left out (floats)",
        stands_for="a loop over k that ends too early",
        pattern=_BLOCKS_OF_16,
        unit=FloatUnit,
        change=with_fields(products=15),
    ),
)

_DOUBLES = (
    DeviceRow(
        name="f64-not-fused",
        meaning="f64 products are rounded before they are added",
        stands_for="a fused multiply-add split in two",
        pattern=_F64,
        unit=DoubleUnit,
        change=with_fields(fused=False),
    ),
    DeviceRow(
        name="f64-order-reversed",
        meaning="f64 products are added from the highest k down",
        stands_for="an expansion that was reordered",
        pattern=_F64,
        unit=DoubleUnit,
        change=with_fields(descending=True),
    ),
    DeviceRow(
        name="f64-summed-in-pairs",
        meaning="f64 products are added in pairs, and C last",
        stands_for="an expansion that was rebalanced",
        pattern=_F64,
        unit=DoubleUnit,
        change=with_fields(pairwise=True),
    ),
    DeviceRow(
        name="f64-ties-away",
        meaning="f64 results on a tie go away from zero, not to even",
        stands_for="a sticky bit that is not looked at",
        pattern=r"^wmma\.mma.*\d(?:\.rn)?\.f64\.f64\.f64\.f64$",
        unit=DoubleUnit,
        change=with_fields(rounding=Rounding.NEAREST_AWAY),
    ),
    DeviceRow(
        name="f64-payload-dropped",
        meaning="f64 NaN results are canonical and lose the operand's payload",
        stands_for="another convention for NaN",
        pattern=_F64,
        unit=DoubleUnit,
        change=with_fields(nan=NanRule(canonical=0x7FF8 << 48, invalid=0xFFF8 << 48)),
    ),
    *(
        DeviceRow(
            name=f"f64-subnormals-flushed-in-{matrix}",
            meaning=f"subnormal f64 elements of {matrix.upper()} count as zero",
            stands_for="flush-to-zero switched on where it must not be",
            pattern=_F64,
            unit=DoubleUnit,
            change=flushing(matrix),
        )
        for matrix in Matrix
    ),
    DeviceRow(
        name="f64-k-tail-dropped",
        meaning="the f64 product with the highest k is left out",
        stands_for="a loop over k that ends too early",
        pattern=_F64,
        unit=DoubleUnit,
        change=with_fields(products=3),
    ),
)

FLOATING_FAULTS: tuple[Fault, ...] = tuple(
    row.fault() for row in (*_PRECISION, *_SPECIAL_VALUES, *_DOUBLES)
)
"""Every fault of a floating-point unit."""
