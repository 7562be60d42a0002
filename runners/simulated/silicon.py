"""A device under its instructions: its target, its units, its wiring, and what is broken in it.

Where the ISA leaves open what a matrix unit does, each generation's figures stand here, as data.
Sources. Measured: one NVIDIA H200, November 2026: sm_90 in every row. Published: the parameters of
MMA-Sim (Microsoft, "mmasim") for sm_70, 75, 80, 89, 100 and 120. Inferred: sm_72 is taken as sm_70,
sm_86 and sm_87 as sm_80, sm_101, 103, 110 and 121 as sm_100; tf32's block from the disassembly.

A device may be given other units, as `SimulatedRunner("sm_90", chip=replace(chip_of("sm_90"),
doubles=DoubleUnit(descending=True)))`. A unit holds the right behaviour by default; planted faults
replace fields of it.

A layout says which element of a matrix each place in the registers of a warp holds. For wmma the
ISA leaves it open (9.7.14.4.1), and so these are nobody else's; for mma.sync it is documented
(9.7.14.5.1 to .13, compared with an H200, November 2026).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple, Protocol, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from runners.simulated.fused import NAMED, BinaryNumber, FusedNan, Rounding
from runners.simulated.warps import DTYPES, LANES, Site, Values, spread


class UnitMatrix(StrEnum):
    """A matrix of D = A times B plus C."""

    A = "a"
    B = "b"
    C = "c"
    D = "d"


@dataclass(frozen=True, kw_only=True)
class FloatUnit:
    """A truncated fused dot product: blocks of products and the accumulator added at once."""

    multiplicand: BinaryNumber
    accumulator: BinaryNumber  # format of the running sum between blocks
    fraction: int  # bits kept below the binary point at a block's largest exponent (F), 8 to 30
    block: int  # products added at once (L), 1 to 32
    zero_exponent: int  # exponent at which a term that is zero takes part (e_zero), if one does
    rounding: Rounding  # rounding of each block's sum to the accumulator's format
    nan: int  # the word of every NaN result, in the accumulator's format

    # What follows never differs between generations; planted faults change it.
    narrowing: Rounding = Rounding.NEAREST_EVEN  # from an f32 sum to an f16 result
    descending: bool = False  # the block with the highest k comes first
    run: int | None = None  # length of the runs of products that are dealt out to the blocks
    products: int | None = None  # how many products of each dot product are added; None is all
    normalised_products: bool = False  # below 2, before the exponent of one counts
    flushed: frozenset[UnitMatrix] = frozenset()  # matrices whose subnormal elements become zero
    zero_sign: bool = False  # a sum that is zero is negative
    saturating: bool = False  # a sum beyond the largest finite value becomes that value
    wide_products: bool = True  # a product too large for f32 is still finite inside a block
    invalid_is_nan: bool = True  # zero times infinity, infinity minus infinity; else they are zero
    accumulator_last: bool = False  # added to the rounded sum of the products, and rounded again
    blocks_apart: bool = False  # each starts at zero, and their rounded sums are added up
    addition: Rounding | None = None  # rounding of those additions; None: `rounding`
    ignores_c: bool = False  # the accumulator starts as zero
    rounded_multiplicands: bool = False  # tf32 is rounded to nearest where it should be cut

    # Units of 8-bit elements have these: bits of the fraction that each block's sum keeps, None for
    # all; exponents below which elements of A and of B are subnormal, None for that of f16, to
    # which they are unpacked.
    kept: int | None = None
    bottoms: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        # The sum of a block stays below 2^(F + 8), which `rounded` takes up to 2^53.
        run, most = self.run or 1, self.accumulator.fraction
        if not (8 <= self.fraction <= 30 and 1 <= self.block <= 32):
            said = f"{self.fraction} fraction bits, and blocks of {self.block} products"
            raise ValueError(f"{said}; 8 to 30, and 1 to 32, can be summed")
        if self.kept not in (None, *range(1, most + 1)) or run < 1 or self.block % run:
            said = f"{self.kept} bits kept, and runs of {run}"
            raise ValueError(f"{said}; give 1 to {most}, and a divisor of the block")


@dataclass(frozen=True, kw_only=True)
class IntegerUnit:
    """An exact sum of products of small integers, plus C, in 32 bits."""

    signed_a: bool
    signed_b: bool
    saturating: bool  # clamp where the sum overflows (`.satfinite`), else wrap
    lowest: int = -(1 << 31)
    highest: int = (1 << 31) - 1  # bounds of the clamp
    products: int | None = None  # of each dot product that are added; None is all
    clamps_each_step: bool = False  # after every product, and not once at the end
    carry_break: int | None = None  # bit of the sum into which no carry comes


class BitOperation(StrEnum):
    """What meets the bits of A and B before they are counted."""

    XOR = "xor"
    AND = "and"
    XNOR = "xnor"  # no PTX modifier asks for this; a planted fault does


@dataclass(frozen=True, kw_only=True)
class BitUnit:
    """A count of set bits, plus C, wrapped to 32 bits."""

    operation: BitOperation
    bias: int = 0  # added to a count that is not zero
    width: int | None = None  # bits of a row that are counted; None is all
    ignores_c: bool = False
    saturating: bool = False  # clamp where the sum overflows


F64_NAN = FusedNan(canonical=None, invalid=0xFFF8_0000_0000_0000)
"""Measured on an H200: payloads pass, quieted; 0 times infinity gives this word."""


@dataclass(frozen=True, kw_only=True)
class DoubleUnit:
    """A chain of fused multiply-adds in f64."""

    rounding: Rounding = Rounding.NEAREST_EVEN
    nan: FusedNan = F64_NAN
    descending: bool = False  # k runs from the highest to the lowest
    fused: bool = True  # each product is added unrounded
    products: int | None = None  # of each dot product that are added; None is all
    flushed: frozenset[UnitMatrix] = frozenset()  # their subnormal elements become zero
    pairwise: bool = False  # products are added in pairs, and C last


@dataclass(frozen=True, kw_only=True)
class QuadUnit:
    """Scalar f32 arithmetic in place of a unit: mma.sync.m8n8k4 of f16 on sm_90."""

    pairs: bool  # two products are added before they meet the sum; else all, and C behind them
    nan: int = 0x7FFF_FFFF  # the word of every NaN result, in f32


@dataclass(frozen=True, kw_only=True)
class RowUnit:
    """What an instruction does with rows: fetched, to be written, or held in registers."""

    transposed: bool
    signed: bool = False  # narrow elements are sign-extended to bytes, not padded with zeros
    swapped_nibbles: bool = False  # packed elements are taken from the high end of the row first
    rotation: int = 0  # lanes by which row addresses (of rows that are held, results) are off
    exchanged_registers: bool = False  # the first two
    swapped_halves: bool = False  # the 16-bit halves of each register are exchanged


@dataclass(frozen=True, kw_only=True)
class TransferUnit:
    """What wmma.load and wmma.store do beyond moving a matrix."""

    missing: int = 0  # rows or columns at the end of the leading dimension that are not moved
    quieting: bool = False  # floating-point NaN are made quiet on the way
    swapped_pair: bool = False  # the first two rows (or columns) are exchanged


@dataclass(frozen=True, kw_only=True)
class FragmentUnit:
    """How mma.sync finds the elements of its matrices in the registers of the lanes."""

    exchanged_registers: frozenset[UnitMatrix] = frozenset()  # the first two of these matrices
    crossed_lanes: frozenset[UnitMatrix] = frozenset()  # each even lane with the next one
    reversed_parts: frozenset[UnitMatrix] = frozenset()  # elements stand from the high end
    exchanged_nibbles: bool = False  # two elements of 4 bits in a byte of A, for each other
    low_in_container: bool = False  # e2m1 are taken from the low bits of their containers


@dataclass(frozen=True, kw_only=True)
class SparseUnit(FragmentUnit):
    """How mma.sp finds the elements of its matrices, and what its metadata choose."""

    ignores_selector: bool = False  # the selector counts as 0
    lane_offset: int = 0  # exclusive-ored to the number of the lane whose metadata count
    lower_rows_only: bool = False  # rows 8 to 15 of A take the metadata of rows 0 to 7
    swapped_pairs: bool = False  # each index of a pair chooses for the other
    sorted_pairs: bool = False  # the lower index of a pair chooses for its first element
    counted_place: bool = False  # a row's first element aligns sums with a place not chosen, too


@dataclass(frozen=True, kw_only=True)
class GroupUnit:
    """How a multiplication of a warpgroup finds A and B; planted faults change it."""

    phase: int = 0  # rows of 128 bytes by which the pattern of a swizzle is off
    late_a: bool = False  # registers of A are read at the wait, whatever they hold then
    next_warp: bool = False  # each warp takes the rows of A in shared memory of the next one


@dataclass(frozen=True, kw_only=True)
class ScaledUnit:
    """A truncated fused dot product of blocks with scales, into f32."""

    group: int  # neighbouring products that are added before anything is cut
    fraction: int  # bits kept below the binary point at the largest exponent of all terms
    zero_exponent: int  # exponent at which a term or C takes part that is zero
    of_products: bool  # exponents of the products count beside those of the scales
    nan: int = 0x7FFF_FFFF
    # How it finds and reads its scales; planted faults change it.
    first_byte: bool = False  # byte-id-a and byte-id-b count as 0
    first_lanes: bool = False  # so do thread-id-a and thread-id-b
    next_block: bool = False  # every block has the scale of the next one, the last of the first
    next_row: bool = False  # rows of A have the scales of the rows that are 8 further on
    as_powers: bool = False  # ue4m3 is read as ue8m0
    quiet_nan: bool = False  # the NaN of a scale is a number like the others
    ignored: bool = False  # scales of B count as 1
    flushed_scales: bool = False  # subnormal ue4m3 is zero, and the least ue8m0, too


MultiplyUnit = FloatUnit | IntegerUnit | DoubleUnit | BitUnit | QuadUnit
Unit = MultiplyUnit | ScaledUnit | RowUnit | FragmentUnit | TransferUnit | GroupUnit
AnyUnit = TypeVar("AnyUnit", bound=Unit)


class _Generation(NamedTuple):
    """The floating-point parameters of one architecture for 16-bit multiplicands."""

    fraction: int
    block: int
    zero_exponents: dict[str, int]
    tf32_block: int
    byte_block: int | None = None  # products of e4m3 and e5m2 at once; None where there is no unit
    byte_fraction: int = 0  # bits kept below the largest; of f32 sums, too, if fewer than 23


# Published for sm_70, with sm_72 inferred.
_VOLTA = _Generation(23, 4, {"f32": -131, "f16": -19}, tf32_block=2)
# Published for sm_75, sm_80, sm_89; tf32 exists from sm_80: half of the block, one HMMA.1684.
_AMPERE = _Generation(24, 8, {"f32": -132, "f16": -20}, tf32_block=4)
# Measured on sm_90, published for sm_100, sm_120; HMMA.1684.F32.TF32 takes 4, not half of a block.
_HOPPER = _Generation(25, 16, {"f32": -133, "f16": -21}, tf32_block=4)
_GENERATIONS = {
    **dict.fromkeys((70, 72), _VOLTA),
    **dict.fromkeys((75, 80, 86, 87, 88), _AMPERE),
    # Published: 8-bit elements have a unit of their own there (QMMA).
    89: _AMPERE._replace(byte_block=16, byte_fraction=13),
    **dict.fromkeys((90, 100, 101, 103, 110), _HOPPER),
    **dict.fromkeys((120, 121), _HOPPER._replace(byte_block=32, byte_fraction=25)),
}
ARCHITECTURES = tuple(_GENERATIONS)  # that can be simulated: 90 is sm_90
# The canonical NaN of each accumulator format (measured on an H200).
_NAN = {"f16": 0x7FFF, "f32": 0x7FFF_FFFF}
# Least exponents of the formats of 8 bits and fewer (OCP OFP8 1.0, table 1; MX 1.0, tables 3, 4).
BOTTOMS = {"e4m3": -6, "e5m2": -14, "e3m2": -2, "e2m3": 0, "e2m1": 0, "packed e2m1": 0}
# Published for sm_120: one term for each product, or for 16 of them.
SCALED = {
    "kind::mxf8f6f4": ScaledUnit(group=1, fraction=25, zero_exponent=-133, of_products=True),
    **dict.fromkeys(
        ("kind::mxf4", "kind::mxf4nvf4"),
        ScaledUnit(group=16, fraction=35, zero_exponent=-139, of_products=False),
    ),
}


def float_unit(architecture: int, multiplicand: str, accumulator: str) -> FloatUnit:
    """Return the unit of an architecture for f16, bf16 or tf32, with sums of f16 or f32."""
    row = _GENERATIONS[architecture]
    return FloatUnit(
        multiplicand=NAMED[multiplicand], accumulator=NAMED[accumulator], fraction=row.fraction,
        block=row.tf32_block if multiplicand == "tf32" else row.block,
        zero_exponent=row.zero_exponents[accumulator], nan=_NAN[accumulator],
        rounding=Rounding.NEAREST_EVEN if accumulator == "f16" else Rounding.ZERO,
    )  # fmt: skip


_TARGET = re.compile(r"sm_(\d+)([af]?)")
# sm_101 was renamed to sm_110 with PTX ISA 9.0 (9.7.14.5.15, Target ISA Notes).
_RENAMED = {101: 110}
_OLDER = (10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62)
"""Targets of modules alone (PTX ISA 11.1.2, .target): every later device runs them."""
OLDEST = f"sm_{min(ARCHITECTURES)}"
"""The oldest device that can be simulated."""


def is_older(target: str) -> bool:
    """Whether a target of modules is older than every device that can be simulated."""
    return target in [f"sm_{number}" for number in _OLDER]


@dataclass(frozen=True, kw_only=True)
class SiliconTarget:
    """A target architecture as `.target` names it; the suffix is `a`, `f` or empty."""

    architecture: int
    suffix: str
    name: str  # of both


def target_named(name: str) -> SiliconTarget:
    """Return the target of this name; raise `UsageError` if no module that is run has it."""
    match = _TARGET.fullmatch(name)
    if match is None or (number := int(match[1])) not in (*_OLDER, *ARCHITECTURES):
        known = ", ".join(f"sm_{number}" for number in ARCHITECTURES)
        raise UsageError(
            f"no simulated device is called {name!r}; there are {known}, each with the suffix "
            "a or f where the ISA has it; modules for older targets run on each of them"
        )
    return SiliconTarget(architecture=number, suffix=match[2], name=f"sm_{number}{match[2]}")


def runs(device: SiliconTarget, module: SiliconTarget) -> bool:
    """Return whether a device of a target runs a module that was written for another.

    Plain targets run on later devices, family-specific ones on later ones of the family,
    architecture-specific ones on their own (PTX ISA 11.1.2, .target).
    """
    own, other = (_RENAMED.get(each.architecture, each.architecture) for each in (device, module))
    if module.suffix == "a":
        return own == other
    return own >= other and not (module.suffix == "f" and own // 10 != other // 10)


TYPES = {
    "f32.f16.f16.f32": ("f16", "f32"),
    # Where only one of C and D is f16, the sum runs in f32 (measured on an H200, November 2026).
    "f32.f16.f16.f16": ("f16", "f32"),
    "f16.f16.f16.f32": ("f16", "f32"),
    "f16.f16.f16.f16": ("f16", "f16"),
    "f32.bf16.bf16.f32": ("bf16", "f32"),
    "f32.tf32.tf32.f32": ("tf32", "f32"),
}
"""Formats of the multiplicands and of the running sum, by the types of D, A, B and C."""
_QUADS = ("f32.f16.f16.f32", "f32.f16.f16.f16", "f16.f16.f16.f16")


@dataclass(frozen=True, kw_only=True)
class Chip:
    """The floating-point units of a device; its exact ones are the same everywhere."""

    floats: Mapping[str, FloatUnit]
    """By the types of D, A, B and C, as an opcode has them: "f32.bf16.bf16.f32". Where those of
    e4m3 and e5m2 are missing, the one of f16 stands for them."""
    doubles: DoubleUnit  # the rounding is each instruction's
    quads: Mapping[str, FloatUnit] = field(default_factory=dict)
    """Behind mma.sync.m8n8k4 of f16, by the same types; where none is, scalar arithmetic."""


def chip_of(target: str) -> Chip:
    """Return the chip of an architecture that can be simulated, such as "sm_90"."""
    known = {f"sm_{number}": number for number in ARCHITECTURES}
    if target not in known:
        raise UsageError(f"no chip is known of {target!r}; known are {', '.join(known)}")
    row = _GENERATIONS[number := known[target]]
    floats = {types: float_unit(number, *formats) for types, formats in TYPES.items()}
    narrow = [*BOTTOMS][: 5 if number >= 120 else 2]
    for d, a, b in product(("f32", "f16"), narrow, narrow) if row.byte_block else ():
        floats[f"{d}.{a}.{b}.{d}"] = replace(
            float_unit(number, "f16", d), block=row.byte_block or 0, fraction=row.byte_fraction,
            kept=min(row.byte_fraction, 23) if d == "f32" else None,
            bottoms=(BOTTOMS[a], BOTTOMS[b]),
        )  # fmt: skip
    # Published: sm_75 computes this shape as sm_70 does.
    quads = {types: float_unit(70, *TYPES[types]) for types in _QUADS if number < 80}
    return Chip(floats=floats, doubles=DoubleUnit(), quads=quads)


Corruption = Callable[[list[Values], Site], list[Values]]
"""Changes the registers that an instruction is about to write."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One thing that is broken in a device, in instructions whose opcode a pattern is found in.

    `change` returns the broken unit for a sound one of a kind; or `corrupt` is done to results.
    """

    opcodes: re.Pattern[str]
    unit: type[Unit] | None = None
    change: Callable[[Any], Any] | None = None
    corrupt: Corruption | None = None


class Planted(Protocol):
    """A fault that a device can be given."""

    @property
    def damage(self) -> Damage | None:
        """What is broken in the device; None for a fault of a compiler."""

    def rewrite(self, ptx: str) -> str:
        """Return the text that reaches the device."""


@dataclass(frozen=True, kw_only=True)
class Silicon:
    """A device as instructions see it when they are decoded."""

    architecture: int  # of the device: what it traps on
    target: SiliconTarget  # of the module: what instructions it may use
    chip: Chip
    layout_seed: int
    damages: tuple[Damage, ...]
    otherwise: bool = False  # whether all that the ISA leaves open is other than by itself
    base: int = 0  # address of the first variable in shared memory
    decoded: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)  # instructions


BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8,
    "e3m2": 8, "e2m3": 8, "e2m1": 8, "packed e2m1": 4,
    "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32,
}  # fmt: skip
"""Bits that an element of a matrix occupies in memory and in a register."""
QUADS = 4
"""Multiplications of mma.sync.m8n8k4 of f16, one for each group of eight lanes (9.7.14.5.1)."""
Elements = NDArray[Any]
"""(elements, warps): raw elements, the matrix row by row, each in an unsigned word of its own."""
Indices = NDArray[np.int64]


@lru_cache(maxsize=256)
def dimensions(role: str, shape: str) -> tuple[int, int]:
    """Return (rows, columns) of matrix `a`, `b`, `c` or `d` of a shape, such as `m16n8k16`."""
    m, n, k = map(int, re.findall(r"\d+", shape))
    return {"a": (m, k), "b": (k, n)}.get(role, (m, n))


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One fragment's layout, of elements of so many bits, in `count` registers of `width` bits.

    `slots`, (positions, registers, lanes), has the element that each place holds, whose index
    counts the matrix row by row, or matrix after matrix; `homes`, (elements,) register-and-lane,
    and (elements, 1) bits below, where each is read.
    """

    bits: int
    count: int
    width: int
    slots: Indices
    homes: tuple[Indices, NDArray[np.uint32]]


def layout_of(bits: int, elements: Indices, *, last_copy: bool = False) -> Layout:
    """Return the layout of (registers, lanes, positions) elements of so many bits.

    Of one that is repeated, the last or first copy is read.
    """
    flat, positions = elements.reshape(-1), elements.shape[2]
    places = np.arange(flat.size)
    if not last_copy:
        flat, places = flat[::-1], places[::-1]
    home = np.empty(flat.max() + 1, np.int64)
    home[flat] = places
    shifts = (home % positions * bits).astype(np.uint32)[:, None]
    return Layout(
        bits=bits, count=len(elements), width=max(32, bits), homes=(home // positions, shifts),
        slots=np.ascontiguousarray(elements.transpose(2, 0, 1)),
    )  # fmt: skip


def scatter(elements: Elements, layout: Layout) -> list[Values]:
    """Return the registers, (lanes, warps) each, that hold a matrix's elements."""
    dtype = DTYPES[layout.width]
    whole = elements.astype(dtype, copy=False)
    # `take` of whole rows is several times faster than an index, where there are few warps.
    words = whole.take(layout.slots[0], axis=0)
    for position, slots in enumerate(layout.slots[1:], 1):
        words |= whole.take(slots, axis=0) << dtype.type(position * layout.bits)
    return list(words)


def gather(words: list[Values], layout: Layout, warps: int) -> Elements:
    """Return a matrix's elements from the registers of its fragment."""
    stacked = np.concatenate([spread(word, (LANES, warps)) for word in words])
    home, shifts = layout.homes
    held: Elements = stacked.take(home, axis=0)
    if layout.bits == layout.width:
        return held
    held >>= shifts
    held &= held.dtype.type((1 << layout.bits) - 1)
    elements: Elements = held.astype(DTYPES[max(8, layout.bits)])
    return elements


def _scattered(count: int, key: int) -> Indices:
    """Return a permutation of 0 … count - 1, a power of two, that depends on the key.

    Each step is a bijection: times an odd number plus a constant, then a xor of the high half.
    """
    order = np.arange(count, dtype=np.int64)
    for turn, part in enumerate(key.to_bytes(4, "little")[:3]):
        order = (order * (2 * part + 1) + 7 * part + turn) & (count - 1)
        order ^= order >> max(1, (count.bit_length() - 1) // 2)
    return order


@lru_cache(maxsize=512)
def opaque_layout(role: str, shape: str, kind: str, order: str, seed: int) -> Layout:
    """Return the layout of a fragment of wmma: `role` a to d, `order` row or col in memory.

    A fragment of f16 multiplicands has eight registers whatever its matrix (9.7.14.4.1), and holds
    some elements several times, as real devices do. Those of A and B differ between row- and
    column-major matrices, which the ISA allows; those of C and D do not.

    Layout 0 deals the elements out in the order in which they lie in memory, from the second on
    where that is column by column: a fragment that is taken for one of the other layout is never
    right. Every other seed scatters them by a permutation of its own.
    """
    rows, columns = dimensions(role, shape)
    bits = BITS[kind]
    positions = max(32, bits) // bits
    count = 8 if role in "ab" and kind == "f16" else rows * columns // (LANES * positions)
    slots = count * LANES * positions
    if role in "cd":
        role, order = "accumulator", "row"
    sequence = np.arange(slots) + (order == "col")
    if seed:
        sequence = _scattered(slots, crc32(f"{seed} {role} {shape} {kind} {order}".encode()))
    in_memory = sequence % (rows * columns)
    elements = in_memory % rows * columns + in_memory // rows if order == "col" else in_memory
    # Lane by lane, so that neighbours in memory tend to share a lane in layout 0.
    by_lane = elements.reshape(LANES, count, positions)
    by_register = np.ascontiguousarray(by_lane.transpose(1, 0, 2))
    return layout_of(bits, by_register, last_copy=seed % 2 == 1)


@lru_cache(maxsize=512)
def documented_layout(
    role: str, shape: str, kind: str, order: str, unit: FragmentUnit, quads: int = 1
) -> Layout:
    """Return the layout of an operand of mma.sync, of lanes that are wired as `unit` says.

    With lane = 4 g + t, a register holds p neighbours along K (A, B) or N (C, D), the first in the
    lowest bits. Eight rows of A make one register of every four lanes; further ones go down M
    first, then along K. `order` matters for m8n8k4 of f16 alone, of which a warp does `QUADS`.
    """
    rows, columns = dimensions(role, shape)
    bits = BITS[kind]
    in_register = max(32, bits) // bits
    registers = quads * rows * columns // (LANES * in_register)
    register, lane, position = np.meshgrid(
        np.arange(registers), np.arange(LANES), np.arange(in_register), indexing="ij"
    )
    if role in unit.exchanged_registers and registers > 1:
        register = np.where(register < 2, 1 - register, register)
    if role in unit.crossed_lanes:
        lane = lane ^ 1
    if unit.exchanged_nibbles and (role, bits) == ("a", 4):
        position = position ^ 1
    if role in unit.reversed_parts:
        position = in_register - 1 - position
    group, thread = lane >> 2, lane & 3
    element = register * in_register + position
    which: Indices = np.zeros_like(lane)
    if quads > 1:
        # Lanes 4 q to 4 q + 3 and those 16 further on do multiplication q.
        which, half = group & 3, np.where(lane < 16, 0, 4)
        if role in "cd" and kind == "f32":
            row = (lane & 1) + (element & 2) + half
            column = (element & 4) + (lane & 2) + (element & 1)
        elif role in "cd" or (role, order) == ("a", "row"):
            row, column = thread + half, element
        elif (role, order) == ("b", "col"):
            row, column = element, thread + half
        elif role == "a":
            row, column = element + half, thread
        else:
            row, column = thread, element + half
    elif role == "a":
        row = group + 8 * (register % (rows // 8))
        column = in_register * (4 * (register // (rows // 8)) + thread) + position
    elif role == "b":
        row, column = in_register * (4 * register + thread) + position, group
    else:
        # Two neighbours along N to each row, whether they share a register or not.
        row = group + 8 * (element >> 1 & 1)
        column = 8 * (element >> 2) + 2 * thread + (element & 1)
    return layout_of(bits, (which * rows + row) * columns + column)
