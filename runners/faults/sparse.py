"""The faults of mma.sp: what its metadata choose, how products are added, registers it shares."""

from dataclasses import replace
from functools import partial

from runners.faults import fault
from runners.faults.fault import Fault
from runners.faults.fault import changed as _with
from runners.faults.rewriters import accumulator_ignored, written_before_read
from runners.simulated.silicon import FloatUnit, IntegerUnit, SparseUnit

_GUILTY = ("mma.sp",)
_unit = partial(fault.unit, guilty=_GUILTY)
_text = partial(fault.text, guilty=_GUILTY)

_SPARSE = r"^mma\.sp"
# Of metadata that fill the words of all lanes, there is one selector.
_SELECTED = r"^mma\.sp.*\.m16n8k(?!128|64\..*(?:8|e[45]m[32])\.[fs]32$)"
_SPARSE_BLOCKS = r"^mma\.sp.*\.m16n8k(?:8|16|32)\..*\.f(?:16|32)$"
_LONG_SPARSE_BLOCKS = r"^mma\.sp.*\.m16n8k(?:32\..*b?f16|16\..*tf32)\.f(?:16|32)$"
_SPARSE_EIGHT_BITS = r"^mma\.sp.*\.e[45]m[32]\.f32$"

_CHOICE = (
    _unit("sparse-selector-ignored", _SELECTED, SparseUnit, _with(ignores_selector=True),
          "mma.sp takes the metadata of the lanes that selector 0 names",
          "an immediate lost in instruction selection"),
    _unit("sparse-metadata-of-next-lane", _SPARSE, SparseUnit, _with(lane_offset=1),
          "mma.sp takes the metadata of each even lane for the next, and of that for it",
          "a crossbar set wrongly"),
    _unit("sparse-metadata-of-other-row", _SPARSE, SparseUnit, _with(lower_rows_only=True),
          "mma.sp takes the metadata of rows 0 to 7 for rows 8 to 15, too",
          "a half of a word, or a lane of a pair, that is not looked at"),
    _unit("sparse-pairs-swapped", _SPARSE, SparseUnit, _with(swapped_pairs=True),
          "mma.sp lets each index of a pair choose for the other element",
          "a bit order confused"),
    _unit("sparse-pairs-sorted", r"^mma\.sp\.(?!.*tf32)", SparseUnit, _with(sorted_pairs=True),
          "mma.sp takes the lower index of a pair for the first element",
          "metadata taken for those of mma.sp::ordered_metadata"),
)  # fmt: skip

_ARITHMETIC = (
    _unit("sparse-place-not-chosen-counts", _SPARSE_BLOCKS, SparseUnit, _with(counted_place=True),
          "mma.sp aligns its sums to the exponent of a product that was not chosen, too",
          "a choice made behind the exponent unit"),
    _unit("sparse-alignment-one-bit-less", r"^mma\.sp.*\.f32$", FloatUnit,
          lambda unit: replace(unit, fraction=unit.fraction - 1),
          "mma.sp keeps one bit less below the block's largest exponent (F - 1)",
          "an adder one bit too narrow"),
    _unit("sparse-block-halved", _LONG_SPARSE_BLOCKS, FloatUnit,
          lambda unit: replace(unit, block=unit.block // 2),
          "mma.sp adds half of its products first, and then the other half",
          "a wider instruction split in two"),
    _unit("sparse-eight-bit-one-block", _SPARSE_EIGHT_BITS, FloatUnit,
          lambda unit: replace(unit, block=2 * unit.block),
          "mma.sp of e4m3 and e5m2 adds all products at once",
          "an expansion taken for one instruction"),
    _unit("sparse-eight-bit-order-reversed", _SPARSE_EIGHT_BITS, FloatUnit, _with(descending=True),
          "mma.sp of e4m3 and e5m2 adds its odd chunks of columns before the even ones",
          "an expansion that was reordered"),
    _unit("sparse-eight-bit-blocks-apart", _SPARSE_EIGHT_BITS, FloatUnit, _with(blocks_apart=True),
          "mma.sp of e4m3 and e5m2 sums both blocks from zero and adds the sums",
          "the code of ptxas 12.4 and 12.5, where the target's own is that of 12.8"),
    _unit("sparse-mixed-signs", r"^mma\.sp.*\.(?:s[48]\.u|u[48]\.s)[48]\.s32$", IntegerUnit,
          lambda unit: replace(unit, signed_b=unit.signed_a),
          "mma.sp of integers takes B as signed where A is, and as unsigned where A is not",
          "a type qualifier read twice"),
)  # fmt: skip

_REGISTERS = (
    _text("sparse-accumulator-ignored", _SPARSE, accumulator_ignored,
          "mma.sp reads zero for C",
          "ptxas 12.4.131, where 8-bit floats add their product to itself"),
    _text("sparse-written-before-read", _SPARSE, written_before_read,
          "mma.sp writes half of D before it has read what its other half needs",
          "an expansion into two instructions that overlooks shared registers"),
)  # fmt: skip

SPARSE_FAULTS: tuple[Fault, ...] = (*_CHOICE, *_ARITHMETIC, *_REGISTERS)
"""Every fault of mma.sp."""
