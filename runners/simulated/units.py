"""What each generation's matrix units do where the ISA leaves it open, as data.

Sources. Measured: one NVIDIA H200, November 2026 (facts noted when the project began): sm_90 in
every row. Published: the parameters of MMA-Sim (Microsoft, "mmasim") for sm_70, 75, 80, 89, 100
and 120. Inferred: sm_72 is taken as sm_70, sm_86 and sm_87 as sm_80, sm_101, 103, 110 and 121 as
sm_100; tf32's block follows from the disassembly (HMMA.1684).

A unit holds the right behaviour by default; planted faults replace fields of it.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from runners.simulated.binary import NAMED, Binary, Rounding
from runners.simulated.fused import NanRule


class Matrix(StrEnum):
    """A matrix of D = A times B plus C."""

    A = "a"
    B = "b"
    C = "c"
    D = "d"


@dataclass(frozen=True, kw_only=True)
class FloatUnit:
    """A truncated fused dot product: blocks of products and the accumulator added at once."""

    multiplicand: Binary
    accumulator: Binary
    """Format of the running sum between blocks."""
    fraction: int
    """Bits kept below the binary point at a block's largest exponent (F), 8 to 30."""
    block: int
    """Products added at once (L), 1 to 32."""
    zero_exponent: int
    """Exponent at which a term that is zero takes part (e_zero), if one does."""
    rounding: Rounding
    """Rounding of each block's sum to the accumulator's format."""
    nan: int
    """The word of every NaN result, in the accumulator's format."""

    # What follows never differs between generations; planted faults change it.
    narrowing: Rounding = Rounding.NEAREST_EVEN
    """From an f32 sum to an f16 result."""
    descending: bool = False
    """The block with the highest k comes first."""
    run: int | None = None
    """Neighbouring products that go to one block, where runs of them are dealt out to the blocks
    in turn; None puts the products of a block next to each other."""
    products: int | None = None
    """How many products of each dot product are added; None is all."""
    normalised_products: bool = False
    """A product of 2 or more is brought below 2 before its exponent counts."""
    flushed: frozenset[Matrix] = frozenset()
    """Matrices whose subnormal elements become zero."""
    zero_sign: bool = False
    """A sum that is zero is negative."""
    saturating: bool = False
    """A sum beyond the largest finite value becomes that value."""
    wide_products: bool = True
    """A product too large for f32 is still finite inside a block."""
    invalid_is_nan: bool = True
    """Zero times infinity, and infinity minus infinity, are NaN; else they count as zero."""
    accumulator_last: bool = False
    """The accumulator is added to the rounded sum of the products, and rounded again."""
    blocks_apart: bool = False
    """Each block starts at zero, and the rounded sums of the blocks are added up."""
    addition: Rounding | None = None
    """Rounding of those additions; None: `rounding`."""
    ignores_c: bool = False
    """The accumulator starts as zero."""
    rounded_multiplicands: bool = False
    """tf32 multiplicands are rounded to nearest where they should be cut."""

    # Units of 8-bit elements have these.
    kept: int | None = None
    """Bits of the fraction that each block's sum keeps; None is all of the accumulator's."""
    bottoms: tuple[int, int] | None = None
    """Exponents below which elements of A and of B are subnormal, where those are their own
    formats'; None is that of the multiplicand, f16, to which they are unpacked."""

    def __post_init__(self) -> None:
        # The sum of a block stays below 2^(F + 8), which `rounded` takes up to 2^53.
        if not 8 <= self.fraction <= 30:
            raise ValueError(f"{self.fraction} fraction bits; 8 to 30 can be summed")
        if not 1 <= self.block <= 32:
            raise ValueError(f"blocks of {self.block} products; 1 to 32 can be added at once")
        if self.kept is not None and not 0 < self.kept <= self.accumulator.fraction:
            raise ValueError(f"{self.kept} bits kept; give 1 to {self.accumulator.fraction}")
        if self.run is not None and (self.run < 1 or self.block % self.run):
            raise ValueError(f"runs of {self.run} in blocks of {self.block}; give a divisor")


@dataclass(frozen=True, kw_only=True)
class IntegerUnit:
    """An exact sum of products of small integers, plus C, in 32 bits."""

    signed_a: bool
    signed_b: bool
    saturating: bool
    """Clamp where the sum overflows (`.satfinite`), else wrap."""
    lowest: int = -(1 << 31)
    highest: int = (1 << 31) - 1
    """Bounds of the clamp."""
    products: int | None = None
    """How many products of each dot product are added; None is all."""
    clamps_each_step: bool = False
    """Clamp after every product, and not once at the end."""
    carry_break: int | None = None
    """Bit of the sum into which no carry comes; None is a whole adder."""


class BitOperation(StrEnum):
    """What meets the bits of A and B before they are counted."""

    XOR = "xor"
    AND = "and"
    XNOR = "xnor"
    """No PTX modifier asks for this; a planted fault does."""


@dataclass(frozen=True, kw_only=True)
class BitUnit:
    """A count of set bits, plus C, wrapped to 32 bits."""

    operation: BitOperation
    bias: int = 0
    """Added to a count that is not zero."""
    width: int | None = None
    """Bits of a row that are counted; None is all."""
    ignores_c: bool = False
    saturating: bool = False
    """Clamp where the sum overflows."""


F64_NAN = NanRule(canonical=None, invalid=0xFFF8_0000_0000_0000)
"""Measured on an H200: payloads pass, quieted; 0 times infinity gives this word."""


@dataclass(frozen=True, kw_only=True)
class DoubleUnit:
    """A chain of fused multiply-adds in f64."""

    rounding: Rounding = Rounding.NEAREST_EVEN
    nan: NanRule = F64_NAN
    descending: bool = False
    """k runs from the highest to the lowest."""
    fused: bool = True
    """Each product is added unrounded."""
    products: int | None = None
    """How many products of each dot product are added; None is all."""
    flushed: frozenset[Matrix] = frozenset()
    """Matrices whose subnormal elements become zero."""
    pairwise: bool = False
    """Products are added in pairs, and C last."""


@dataclass(frozen=True, kw_only=True)
class RowUnit:
    """What an instruction does with rows: fetched, to be written, or held in registers."""

    transposed: bool
    signed: bool = False
    """Narrow elements are sign-extended to bytes, and not padded with zeros."""
    swapped_nibbles: bool = False
    """Packed elements are taken from the high end of the row first."""
    rotation: int = 0
    """Lanes by which the row addresses (of rows that are held, the results) are off."""
    exchanged_registers: bool = False
    """The first two registers are exchanged."""
    swapped_halves: bool = False
    """The 16-bit halves of each register are exchanged."""


@dataclass(frozen=True, kw_only=True)
class TransferUnit:
    """What wmma.load and wmma.store do beyond moving a matrix."""

    missing: int = 0
    """Rows or columns at the end of the leading dimension that are not moved: zeros when loading,
    memory left alone when storing."""
    quieting: bool = False
    """Floating-point NaN are made quiet on the way."""
    swapped_pair: bool = False
    """The first two rows (or columns) of the leading dimension are exchanged."""


@dataclass(frozen=True, kw_only=True)
class FragmentUnit:
    """How mma.sync finds the elements of its matrices in the registers of the lanes."""

    exchanged_registers: frozenset[Matrix] = frozenset()
    """Matrices of which the first two registers are exchanged."""
    crossed_lanes: frozenset[Matrix] = frozenset()
    """Matrices for which each even lane is exchanged with the next one."""
    reversed_parts: frozenset[Matrix] = frozenset()
    """Matrices whose elements stand in a register from the high end."""


@dataclass(frozen=True, kw_only=True)
class QuadUnit:
    """Scalar f32 arithmetic in place of a unit: mma.sync.m8n8k4 of f16 on sm_90."""

    pairs: bool
    """Two products are added before they meet the sum; else all, and C behind them."""
    nan: int = 0x7FFF_FFFF
    """The word of every NaN result, in f32."""


Unit = (
    FloatUnit
    | IntegerUnit
    | BitUnit
    | DoubleUnit
    | QuadUnit
    | RowUnit
    | FragmentUnit
    | TransferUnit
)


@dataclass(frozen=True, kw_only=True)
class Generation:
    """The floating-point parameters of one architecture for 16-bit multiplicands."""

    fraction: int
    block: int
    zero_exponent_f32: int
    zero_exponent_f16: int
    tf32_block: int
    byte_block: int | None = None
    """Products of e4m3 and e5m2 that are added at once; None where there is no unit for them."""
    byte_fraction: int = 0
    """Bits kept below the largest of them; of f32 sums, too, if they are fewer than 23."""


# Published for sm_70, with sm_72 inferred.
_VOLTA = Generation(
    fraction=23, block=4, zero_exponent_f32=-131, zero_exponent_f16=-19, tf32_block=2
)
# Published for sm_75, sm_80, sm_89; tf32 exists from sm_80: half of the block, which HMMA.1684
# holds in one step.
_AMPERE = Generation(
    fraction=24, block=8, zero_exponent_f32=-132, zero_exponent_f16=-20, tf32_block=4
)
# Measured on sm_90, published for sm_100 and sm_120. Half of the block would be 8 for tf32, but
# HMMA.1684.F32.TF32 takes 4 at a time.
_HOPPER = Generation(
    fraction=25, block=16, zero_exponent_f32=-133, zero_exponent_f16=-21, tf32_block=4
)

_GENERATIONS = {
    **dict.fromkeys((70, 72), _VOLTA),
    **dict.fromkeys((75, 80, 86, 87, 88), _AMPERE),
    # Published: 8-bit elements have a unit of their own there (QMMA).
    89: replace(_AMPERE, byte_block=16, byte_fraction=13),
    **dict.fromkeys((90, 100, 101, 103, 110), _HOPPER),
    **dict.fromkeys((120, 121), replace(_HOPPER, byte_block=32, byte_fraction=25)),
}

ARCHITECTURES = tuple(_GENERATIONS)
"""Numbers of the architectures that can be simulated: 90 is sm_90."""

# The canonical NaN of each accumulator format (measured on an H200).
_NAN = {"f16": 0x7FFF, "f32": 0x7FFF_FFFF}


def float_unit(architecture: int, multiplicand: str, accumulator: str) -> FloatUnit:
    """Return the unit of an architecture for f16, bf16 or tf32, with sums of f16 or f32."""
    row = _GENERATIONS[architecture]
    narrow = accumulator == "f16"
    return FloatUnit(
        multiplicand=NAMED[multiplicand],
        accumulator=NAMED[accumulator],
        fraction=row.fraction,
        block=row.tf32_block if multiplicand == "tf32" else row.block,
        zero_exponent=row.zero_exponent_f16 if narrow else row.zero_exponent_f32,
        rounding=Rounding.NEAREST_EVEN if narrow else Rounding.ZERO,
        nan=_NAN[accumulator],
    )


# Of e4m3 and e5m2 (OCP OFP8 1.0, table 1).
_BOTTOMS = {"e4m3": -6, "e5m2": -14}


def byte_unit(architecture: int, a: str, b: str, accumulator: str) -> FloatUnit | None:
    """Return the unit for e4m3 and e5m2, with sums of f16 or f32; None if there is none."""
    row = _GENERATIONS[architecture]
    if row.byte_block is None:
        return None
    return replace(
        float_unit(architecture, "f16", accumulator),
        block=row.byte_block,
        fraction=row.byte_fraction,
        kept=min(row.byte_fraction, 23) if accumulator == "f32" else None,
        bottoms=(_BOTTOMS[a], _BOTTOMS[b]),
    )
