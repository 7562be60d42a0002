"""The faults that sit in the simulated device: what a unit computes, and what its wires carry."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from runners.faults.corruptions import (
    lanes_crossed,
    on_one_multiprocessor,
    register_lost,
    stuck_bit,
    transient,
)
from runners.faults.fault import Fault
from runners.simulated.binary import Rounding
from runners.simulated.fused import NanRule
from runners.simulated.silicon import Corruption, Damage
from runners.simulated.units import (
    BitOperation,
    BitUnit,
    DoubleUnit,
    FloatUnit,
    IntegerUnit,
    Matrix,
    RowUnit,
    TransferUnit,
    Unit,
)

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
_INTEGERS = r"^wmma\.mma.*\.[su][48]\.s32(?:\.satfinite)?$"
_WRAPPING = r"^wmma\.mma.*\.[su][48]\.s32$"
_CLAMPING = r"^wmma\.mma.*\.satfinite$"
# Unsigned products only ever move a sum up: clamping each step or once is the same for them.
_SIGNED_CLAMPING = r"^wmma\.mma.*\.s[48]\.s32\.satfinite$"
_BITS = r"^wmma\.mma.*\.b1\.s32$"
_ANY_MMA = r"^wmma\.mma"

Change = Callable[[Any], Unit]


def _with(**fields: Any) -> Change:
    """Return what replaces fields of a unit."""
    return lambda unit: replace(unit, **fields)


def _flushing(matrix: Matrix) -> Change:
    return lambda unit: replace(unit, flushed=unit.flushed | {matrix})


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A fault of the device."""

    name: str
    meaning: str
    stands_for: str
    pattern: str
    unit: type[Unit] | None = None
    change: Change | None = None
    corrupt: Corruption | None = None

    def fault(self) -> Fault:
        opcodes = re.compile(self.pattern)
        return Fault(
            name=self.name,
            meaning=self.meaning,
            stands_for=self.stands_for,
            opcodes=opcodes,
            damage=Damage(
                opcodes=opcodes, unit=self.unit, change=self.change, corrupt=self.corrupt
            ),
        )


_PRECISION = (
    _Row(
        name="alignment-one-bit-more",
        meaning="terms keep one bit more below the block's largest exponent (F + 1)",
        stands_for="another generation's adder, or a model of one",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=lambda unit: replace(unit, fraction=unit.fraction + 1),
    ),
    _Row(
        name="alignment-one-bit-less",
        meaning="terms keep one bit less below the block's largest exponent (F - 1)",
        stands_for="an adder one bit too narrow",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=lambda unit: replace(unit, fraction=unit.fraction - 1),
    ),
    _Row(
        name="block-halved",
        meaning="half as many products are added at once (L / 2)",
        stands_for="a wider instruction split in two",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=lambda unit: replace(unit, block=max(1, unit.block // 2)),
    ),
    _Row(
        name="block-doubled",
        meaning="twice as many tf32 products are added at once (2 L)",
        stands_for="another instruction chosen for the same step (HMMA.1688 for HMMA.1684)",
        pattern=_TF32,
        unit=FloatUnit,
        change=lambda unit: replace(unit, block=2 * unit.block),
    ),
    _Row(
        name="block-order-reversed",
        meaning="the tf32 blocks are added from the last to the first",
        stands_for="an expansion that was reordered",
        pattern=_TF32,
        unit=FloatUnit,
        change=_with(descending=True),
    ),
    _Row(
        name="zero-exponent-higher",
        meaning="a zero takes part in the alignment one exponent higher (e_zero + 1)",
        stands_for="a special case of the exponent unit off by one",
        pattern=_ZERO_DECIDES,
        unit=FloatUnit,
        change=lambda unit: replace(unit, zero_exponent=unit.zero_exponent + 1),
    ),
    _Row(
        name="zero-exponent-lower",
        meaning="a zero takes part in the alignment one exponent lower (e_zero - 1)",
        stands_for="a special case of the exponent unit off by one",
        pattern=_ZERO_DECIDES,
        unit=FloatUnit,
        change=lambda unit: replace(unit, zero_exponent=unit.zero_exponent - 1),
    ),
    _Row(
        name="product-normalised-first",
        meaning="a product of 2 or more counts with the next exponent in the alignment",
        stands_for="a normalisation step that the design leaves out",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=_with(normalised_products=True),
    ),
    _Row(
        name="sum-rounded-to-nearest",
        meaning="an f32 sum is rounded to nearest even where it should be cut",
        stands_for="a rounding mode set wrongly",
        pattern=_TO_F32,
        unit=FloatUnit,
        change=_with(rounding=Rounding.NEAREST_EVEN),
    ),
    _Row(
        name="sum-rounded-up",
        meaning="an f32 sum is rounded to positive infinity where it should be cut",
        stands_for="a rounding mode set wrongly",
        pattern=_TO_F32,
        unit=FloatUnit,
        change=_with(rounding=Rounding.UP),
    ),
    _Row(
        name="half-sum-cut",
        meaning="an f16 sum is cut where it should be rounded to nearest",
        stands_for="a rounding mode set wrongly",
        pattern=_TO_F16,
        unit=FloatUnit,
        change=_with(rounding=Rounding.ZERO),
    ),
    _Row(
        name="half-sum-ties-away",
        meaning="an f16 sum on a tie goes away from zero, not to even",
        stands_for="a sticky bit that is not looked at",
        pattern=_TO_F16,
        unit=FloatUnit,
        change=_with(rounding=Rounding.NEAREST_AWAY),
    ),
    _Row(
        name="narrowing-cut",
        meaning="an f32 sum is cut to an f16 result, not rounded",
        stands_for="a conversion with the wrong rounding behind an expansion",
        pattern=_NARROWED,
        unit=FloatUnit,
        change=_with(narrowing=Rounding.ZERO),
    ),
    _Row(
        name="accumulator-added-last",
        meaning="the products are summed and rounded before C is added",
        stands_for="a fused step split in two",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=_with(accumulator_last=True),
    ),
    _Row(
        name="tf32-rounded",
        meaning="the 13 low bits of tf32 multiplicands are rounded in, not cut",
        stands_for="a conversion in front of the multiplier",
        pattern=_TF32,
        unit=FloatUnit,
        change=_with(rounded_multiplicands=True),
    ),
)

_SPECIAL_VALUES = (
    *(
        _Row(
            name=f"subnormals-flushed-in-{matrix}",
            meaning=f"subnormal elements of {matrix.upper()} count as zero",
            stands_for="flush-to-zero switched on where it must not be",
            pattern=_SMALL_RESULTS if matrix is Matrix.D else _FLOATS,
            unit=FloatUnit,
            change=_flushing(matrix),
        )
        for matrix in Matrix
    ),
    _Row(
        name="nan-with-other-payload",
        meaning="a NaN result is 0x7fc00000, or 0x7e00 for f16, and not all ones",
        stands_for="another convention for the canonical NaN",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=lambda unit: replace(
            unit, nan=0x7E00 if unit.accumulator.word == 16 else 0x7FC0_0000
        ),
    ),
    _Row(
        name="nan-negative",
        meaning="a NaN result has its sign bit set",
        stands_for="a sign that is not suppressed",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=lambda unit: replace(unit, nan=unit.nan | unit.accumulator.sign),
    ),
    _Row(
        name="zero-negative",
        meaning="a sum that is zero is -0",
        stands_for="a sign kept where the sum vanishes",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=_with(zero_sign=True),
    ),
    _Row(
        name="overflow-to-largest",
        meaning="a sum that is too large becomes the largest finite value",
        stands_for="saturation left switched on",
        pattern=_OVERFLOWING,
        unit=FloatUnit,
        change=_with(saturating=True),
    ),
    _Row(
        name="invalid-is-zero",
        meaning="0 times infinity and infinity minus infinity count as zero",
        stands_for="a special case that is not recognised",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=_with(invalid_is_nan=False),
    ),
    _Row(
        name="products-overflow-early",
        meaning="a product beyond f32's range is infinite, even if the sum would not be",
        stands_for="a narrower exponent range inside the block",
        pattern=_WIDE_RANGE,
        unit=FloatUnit,
        change=_with(wide_products=False),
    ),
    _Row(
        name="accumulator-lost-in-floats",
        meaning="the running sum starts at zero and not at C",
        stands_for="an accumulator that is cleared",
        pattern=_FLOATS,
        unit=FloatUnit,
        change=_with(ignores_c=True),
    ),
    _Row(
        name="k-tail-dropped",
        meaning="the product with the highest k is left out (floats)",
        stands_for="a loop over k that ends too early",
        pattern=_BLOCKS_OF_16,
        unit=FloatUnit,
        change=_with(products=15),
    ),
)

_DOUBLES = (
    _Row(
        name="f64-not-fused",
        meaning="f64 products are rounded before they are added",
        stands_for="a fused multiply-add split in two",
        pattern=_F64,
        unit=DoubleUnit,
        change=_with(fused=False),
    ),
    _Row(
        name="f64-order-reversed",
        meaning="f64 products are added from the highest k down",
        stands_for="an expansion that was reordered",
        pattern=_F64,
        unit=DoubleUnit,
        change=_with(descending=True),
    ),
    _Row(
        name="f64-summed-in-pairs",
        meaning="f64 products are added in pairs, and C last",
        stands_for="an expansion that was rebalanced",
        pattern=_F64,
        unit=DoubleUnit,
        change=_with(pairwise=True),
    ),
    _Row(
        name="f64-ties-away",
        meaning="f64 results on a tie go away from zero, not to even",
        stands_for="a sticky bit that is not looked at",
        pattern=r"^wmma\.mma.*\d(?:\.rn)?\.f64\.f64\.f64\.f64$",
        unit=DoubleUnit,
        change=_with(rounding=Rounding.NEAREST_AWAY),
    ),
    _Row(
        name="f64-payload-dropped",
        meaning="f64 NaN results are canonical and lose the operand's payload",
        stands_for="another convention for NaN",
        pattern=_F64,
        unit=DoubleUnit,
        change=_with(nan=NanRule(canonical=0x7FF8 << 48, invalid=0xFFF8 << 48)),
    ),
    *(
        _Row(
            name=f"f64-subnormals-flushed-in-{matrix}",
            meaning=f"subnormal f64 elements of {matrix.upper()} count as zero",
            stands_for="flush-to-zero switched on where it must not be",
            pattern=_F64,
            unit=DoubleUnit,
            change=_flushing(matrix),
        )
        for matrix in Matrix
    ),
    _Row(
        name="f64-k-tail-dropped",
        meaning="the f64 product with the highest k is left out",
        stands_for="a loop over k that ends too early",
        pattern=_F64,
        unit=DoubleUnit,
        change=_with(products=3),
    ),
)

_COUNTS = (
    _Row(
        name="saturation-bound-off-by-one",
        meaning="integer sums are clamped to 2^31 - 2",
        stands_for="a comparison with the wrong bound",
        pattern=_CLAMPING,
        unit=IntegerUnit,
        change=_with(highest=(1 << 31) - 2),
    ),
    _Row(
        name="saturation-one-sided",
        meaning="negative integer sums are clamped to -2^31 + 1, the negative of the upper bound",
        stands_for="bounds taken for symmetric",
        pattern=_CLAMPING,
        unit=IntegerUnit,
        change=_with(lowest=-(1 << 31) + 1),
    ),
    _Row(
        name="saturation-each-step",
        meaning="integer sums are clamped after every product, not once at the end",
        stands_for="a saturating adder in a chain",
        pattern=_SIGNED_CLAMPING,
        unit=IntegerUnit,
        change=_with(clamps_each_step=True),
    ),
    _Row(
        name="overflow-clamps",
        meaning="integer sums are clamped without .satfinite",
        stands_for="a modifier that is always set",
        pattern=_WRAPPING,
        unit=IntegerUnit,
        change=_with(saturating=True),
    ),
    _Row(
        name="integer-carry-broken",
        meaning="no carry comes into bit 16 where C is added to integer products",
        stands_for="a broken carry chain",
        pattern=_INTEGERS,
        unit=IntegerUnit,
        change=_with(carry_break=16),
    ),
    _Row(
        name="integer-k-tail-dropped",
        meaning="the integer product with k = 15 and what lies above is left out",
        stands_for="a loop over k that ends too early",
        pattern=_INTEGERS,
        unit=IntegerUnit,
        change=_with(products=15),
    ),
    _Row(
        name="a-signedness-swapped",
        meaning="A's integers alone are taken with the other signedness",
        stands_for="mixed-sign multiplier wired wrongly",
        pattern=_INTEGERS,
        unit=IntegerUnit,
        change=lambda unit: replace(unit, signed_a=not unit.signed_a),
    ),
    _Row(
        name="four-bit-sign-lost",
        meaning="B's s4 are not sign-extended",
        stands_for="an emulation that forgets the sign",
        pattern=r"^wmma\.mma.*\.s4\.s32",
        unit=IntegerUnit,
        change=_with(signed_b=False),
    ),
    _Row(
        name="popcount-off-by-one",
        meaning="a count of set bits that is not zero is one too large",
        stands_for="a carry set in a population count",
        pattern=_BITS,
        unit=BitUnit,
        change=_with(bias=1),
    ),
    _Row(
        name="popcount-short",
        meaning="only the first 64 of 128 single bits are counted",
        stands_for="half of a wide operand lost",
        pattern=_BITS,
        unit=BitUnit,
        change=_with(width=64),
    ),
    _Row(
        name="xor-as-xnor",
        meaning="single-bit wmma.mma.xor counts equal bits",
        stands_for="an inverted input",
        pattern=r"^wmma\.mma\.xor",
        unit=BitUnit,
        change=_with(operation=BitOperation.XNOR),
    ),
    _Row(
        name="popcount-clamps",
        meaning="a count plus C that overflows is clamped, not wrapped",
        stands_for="an emulation by saturating integer products",
        pattern=_BITS,
        unit=BitUnit,
        change=_with(saturating=True),
    ),
    _Row(
        name="popcount-without-c",
        meaning="C is not added to counts of single bits",
        stands_for="an accumulator that is cleared",
        pattern=_BITS,
        unit=BitUnit,
        change=_with(ignores_c=True),
    ),
)

_TRANSFERS = (
    _Row(
        name="load-c-row-missing",
        meaning="wmma.load.c gives zeros for the last row or column of the leading dimension",
        stands_for="a loop over rows that ends too early",
        pattern=r"^wmma\.load\.c",
        unit=TransferUnit,
        change=_with(missing=1),
    ),
    _Row(
        name="store-row-missing",
        meaning="wmma.store.d does not write the last row or column of the leading dimension",
        stands_for="a loop over rows that ends too early",
        pattern=r"^wmma\.store",
        unit=TransferUnit,
        change=_with(missing=1),
    ),
    _Row(
        name="load-rows-exchanged",
        meaning="wmma.load exchanges the first two rows or columns of the leading dimension",
        stands_for="addresses of two lanes crossed",
        pattern=r"^wmma\.load",
        unit=TransferUnit,
        change=_with(swapped_pair=True),
    ),
    _Row(
        name="load-quiets-nan",
        meaning="wmma.load.c makes floating-point NaN quiet",
        stands_for="data moved through an arithmetic path",
        pattern=r"^wmma\.load\.c.*\.f(?:16|32|64)$",
        unit=TransferUnit,
        change=_with(quieting=True),
    ),
    _Row(
        name="store-quiets-nan",
        meaning="wmma.store makes floating-point NaN quiet",
        stands_for="data moved through an arithmetic path",
        pattern=r"^wmma\.store\..*\.f(?:16|32|64)$",
        unit=TransferUnit,
        change=_with(quieting=True),
    ),
    _Row(
        name="ldmatrix-wrong-transpose",
        meaning="ldmatrix transposes m8n8 exactly where it should not",
        stands_for="a modifier bit inverted in decoding",
        pattern=r"^ldmatrix.*\.m8n8",
        unit=RowUnit,
        change=lambda unit: replace(unit, transposed=not unit.transposed),
    ),
    _Row(
        name="ldmatrix-rotated-rows",
        meaning="ldmatrix takes each row address from the next lane",
        stands_for="an address crossbar off by one",
        pattern=r"^ldmatrix",
        unit=RowUnit,
        change=_with(rotation=1),
    ),
    _Row(
        name="ldmatrix-halves-exchanged",
        meaning="ldmatrix exchanges the 16-bit halves of each register",
        stands_for="a byte order confused",
        pattern=r"^ldmatrix",
        unit=RowUnit,
        change=_with(swapped_halves=True),
    ),
    _Row(
        name="ldmatrix-registers-exchanged",
        meaning="ldmatrix exchanges its first two registers",
        stands_for="write ports crossed",
        pattern=r"^ldmatrix.*\.(?:x[24]|m16n16)",
        unit=RowUnit,
        change=_with(exchanged_registers=True),
    ),
    _Row(
        name="ldmatrix-signed",
        meaning="ldmatrix sign-extends 4- and 6-bit elements",
        stands_for="an expansion for another format",
        pattern=r"^ldmatrix.*b8x16",
        unit=RowUnit,
        change=_with(signed=True),
    ),
    _Row(
        name="ldmatrix-packed-backwards",
        meaning="ldmatrix unpacks 4- and 6-bit elements from the high end of the row",
        stands_for="a byte order confused",
        pattern=r"^ldmatrix.*b8x16",
        unit=RowUnit,
        change=_with(swapped_nibbles=True),
    ),
)

_WIRES = (
    _Row(
        name="stuck-bit",
        meaning="bit 9 of lane 13's second result register is always set",
        stands_for="a stuck-at fault in one lane of a data path",
        pattern=_ANY_MMA,
        corrupt=stuck_bit(register=1, lane=13, bit=9, high=True),
    ),
    _Row(
        name="stuck-sign",
        meaning="bit 31 of lane 0's first result register is always clear",
        stands_for="a stuck-at fault in one lane of a data path",
        pattern=_ANY_MMA,
        corrupt=stuck_bit(register=0, lane=0, bit=31, high=False),
    ),
    _Row(
        name="stuck-bit-on-one-sm",
        meaning="bit 3 of lane 21's third result register is always set on SM 1",
        stands_for="one bad multiprocessor",
        pattern=_ANY_MMA,
        corrupt=on_one_multiprocessor(1, stuck_bit(register=2, lane=21, bit=3, high=True)),
    ),
    _Row(
        name="stuck-load-bit",
        meaning="bit 14 of lane 3's first register of A is always set",
        stands_for="a stuck-at fault in the load path",
        pattern=r"^wmma\.load\.a",
        corrupt=stuck_bit(register=0, lane=3, bit=14, high=True),
    ),
    _Row(
        name="lanes-crossed",
        meaning="lanes 4 and 5 get each other's results of wmma.mma",
        stands_for="a crossbar set wrongly",
        pattern=_ANY_MMA,
        corrupt=lanes_crossed(4, 5),
    ),
    _Row(
        name="result-register-lost",
        meaning="the second result register of wmma.mma is zero",
        stands_for="a register file write that is lost",
        pattern=_ANY_MMA,
        corrupt=register_lost(1),
    ),
    _Row(
        name="transient-often",
        meaning="about one wmma.mma in 50 flips one random bit of its result, anew each launch",
        stands_for="a marginal path at the edge of its timing",
        pattern=_ANY_MMA,
        corrupt=transient(one_in=50, seed=1),
    ),
    _Row(
        name="transient-rare",
        meaning="about one wmma.mma in 20,000 flips one random bit of its result, anew each launch",
        stands_for="silent data corruption",
        pattern=_ANY_MMA,
        corrupt=transient(one_in=20_000, seed=2),
    ),
)

HARDWARE_FAULTS: tuple[Fault, ...] = tuple(
    row.fault()
    for row in (*_PRECISION, *_SPECIAL_VALUES, *_DOUBLES, *_COUNTS, *_TRANSFERS, *_WIRES)
)
"""Every fault that is planted inside the simulated device."""
