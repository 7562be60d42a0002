"""The faults inside the simulated device: its units, its loads and stores, its wires."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.faults import rewriters as rw
from runners.faults.rewriters import Fault, planted
from runners.simulated.fused import FusedNan, Rounding
from runners.simulated.silicon import (
    BitOperation,
    BitUnit,
    Corruption,
    Damage,
    DoubleUnit,
    FloatUnit,
    FragmentUnit,
    GroupUnit,
    IntegerUnit,
    QuadUnit,
    RowUnit,
    ScaledUnit,
    SparseUnit,
    TransferUnit,
    Unit,
    UnitMatrix,
)
from runners.simulated.warps import LANES, Site, Values

Change = Callable[[Any], Unit]


def _unit(
    name: str, pattern: str, kind: type[Unit], change: Change, meaning: str, **more: Any
) -> Fault:
    """Return a fault of the units that carry out what a pattern of opcodes finds."""
    damage = Damage(opcodes=re.compile(pattern), unit=kind, change=change)
    return planted(name, pattern, meaning, damage=damage, **more)


def _wire(name: str, pattern: str, corrupt: Corruption, meaning: str, **more: Any) -> Fault:
    """Return a fault of the wires that bring the results of what a pattern of opcodes finds."""
    damage = Damage(opcodes=re.compile(pattern), corrupt=corrupt)
    return planted(name, pattern, meaning, damage=damage, **more)


def _with(**fields: Any) -> Change:
    """Return what replaces fields of a unit, with values or with functions of the old ones."""
    return lambda unit: replace(unit, **{
        name: value(getattr(unit, name)) if callable(value) else value
        for name, value in fields.items()
    })  # fmt: skip


def _whole(words: list[Values], site: Site) -> list[Values]:
    """Return copies that can be written to, (lanes, warps) each."""
    shape = (LANES, site.warps.size)
    return [np.array(np.broadcast_to(word, shape)) for word in words]


def stuck_bit(*, register: int, lane: int, bit: int, high: bool) -> Corruption:
    """Hold one bit of one lane's register; the last one if there are fewer registers."""

    def corrupt(words: list[Values], site: Site) -> list[Values]:
        words = _whole(words, site)
        word = words[min(register, len(words) - 1)]
        flag = word.dtype.type(1 << bit)
        if high:
            word[lane] |= flag
        else:
            word[lane] &= ~flag
        return words

    return corrupt


def _only_where(
    struck: Callable[[NDArray[Any]], NDArray[np.bool_]], corruption: Corruption
) -> Corruption:
    def corrupt(words: list[Values], site: Site) -> list[Values]:
        here = struck(site.sms)
        if not here.any():
            return words
        pairs = zip(_whole(words, site), corruption(words, site), strict=True)
        return [np.where(here, broken, sound) for sound, broken in pairs]

    return corrupt


def on_one_multiprocessor(sm: int, corruption: Corruption) -> Corruption:
    """Corrupt only what runs on one multiprocessor."""
    return _only_where(lambda sms: sms == sm, corruption)


def on_loaded_multiprocessors(warps: int, corruption: Corruption) -> Corruption:
    """Corrupt only what runs on multiprocessors that have at least so many warps."""
    return _only_where(lambda sms: np.bincount(sms)[sms] >= warps, corruption)


def _random_words(site: Site, seed: int, count: int) -> NDArray[np.uint64]:
    """Return (count, warps) random words that depend on seed, launch, line and warp alone."""
    order = np.arange(count, dtype=np.uint64)[:, None] << np.uint64(40)
    state = site.warps.astype(np.uint64) + order
    state += np.uint64((seed << 48) ^ (site.launch << 20) ^ site.line)
    return _mixed(state)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return words in which every bit depends on all bits of those that are given."""
    # The finaliser of SplitMix64 (Steele, Lea and Flood, 2014), a mixing of all bits.
    for factor, shift in ((0xBF58_476D_1CE4_E5B9, 30), (0x94D0_49BB_1331_11EB, 27)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    words: NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return words


def transient(*, one_in: int, seed: int) -> Corruption:
    """Flip one random bit of a fragment for about one warp in so many, anew in every launch."""

    def corrupt(words: list[Values], site: Site) -> list[Values]:
        chance, place = _random_words(site, seed, 2)
        hit = np.flatnonzero(chance % np.uint64(one_in) == 0)
        if not hit.size:
            return words
        words = _whole(words, site)
        bits = 8 * words[0].itemsize
        for warp in hit:
            rest, bit = divmod(int(place[warp]) >> 8, bits)
            register, lane = rest % len(words), rest // len(words) % LANES
            words[register][lane, warp] ^= words[register].dtype.type(1 << bit)
        return words

    return corrupt


_OUTCOMES = 10_000
_NOT_FINITE, _SINGLE_BIT = 101, 3_860
"""Of so many silently wrong results, those that are NaN or infinity, 1.01 %, and those that differ
in one bit, fewer than 40 % of the others: 3 million hours of gate-level simulation of stuck-at
faults in a GPU (Tung et al., "The Anatomy of Silent Data Corruption", DSN 2026, arXiv:2605.04213,
abstract; in how many bits the rest differs is chosen here: two, and an eighth of the others)."""
_EXPONENT, _LOWEST = np.uint32(0x7F80_0000), np.uint32(0x0080_0000)
"""Of f32: the exponent, and its lowest bit."""


def silent_corruption(*, register: int, lane: int, period: int = LANES) -> Corruption:
    """Corrupt an f32 result register of a lane, and of every so many lanes behind it.

    What becomes of a result depends on that alone, as behind a gate that is stuck. Lanes at one
    distance from each other share what computes: wrong results were found at a period along warps
    (as above).
    """

    def corrupt(words: list[Values], site: Site) -> list[Values]:
        words = _whole(words, site)
        struck = words[min(register, len(words) - 1)][lane::period]
        mixed = _mixed(struck.astype(np.uint64) + np.uint64(1))
        outcome = mixed % np.uint64(_OUTCOMES)
        first, distance, most = (mixed >> np.uint64(16)) % 32, (mixed >> np.uint64(21)) % 31, mixed
        for shift in (26, 29):
            most = most & (mixed >> np.uint64(shift))
        one = (np.uint64(1) << first).astype(np.uint32)
        two = (np.uint64(1) << (first + distance + np.uint64(1)) % 32).astype(np.uint32)
        several = one | two | most.astype(np.uint32)
        flipped = struck ^ np.where(outcome < _NOT_FINITE + _SINGLE_BIT, one, several)
        # A bit that made it NaN by chance would add to those.
        chance = (flipped & _EXPONENT == _EXPONENT) & (struck & _EXPONENT != _EXPONENT)
        flipped ^= np.where(chance, _LOWEST, np.uint32(0))
        struck[...] = np.where(outcome < _NOT_FINITE, struck | _EXPONENT, flipped)
        return words

    return corrupt


def lanes_crossed(first: int, second: int) -> Corruption:
    """Give two lanes each other's results."""

    def corrupt(words: list[Values], site: Site) -> list[Values]:
        words = _whole(words, site)
        for word in words:
            word[[first, second]] = word[[second, first]]
        return words

    return corrupt


def halves_exchanged(words: list[Values], site: Site) -> list[Values]:
    """Exchange the first half of the registers and the second."""
    half = len(words) // 2
    return [*words[half:], *words[:half]]


def register_lost(register: int) -> Corruption:
    """Write zero to one register of the fragment; the last one if there are fewer."""

    def corrupt(words: list[Values], site: Site) -> list[Values]:
        words = _whole(words, site)
        words[min(register, len(words) - 1)][...] = 0
        return words

    return corrupt


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
    _unit("alignment-one-bit-more", _FLOATS, FloatUnit, _with(fraction=lambda old: old + 1),
          "terms keep one bit more below the block's largest exponent (F + 1)"),
    _unit("alignment-one-bit-less", _FLOATS, FloatUnit, _with(fraction=lambda old: old - 1),
          "terms keep one bit less below the block's largest exponent (F - 1)"),
    _unit("block-halved", _FLOATS, FloatUnit, _with(block=lambda old: max(1, old // 2)),
          "half as many products are added at once (L / 2)"),
    _unit("block-doubled", _TF32, FloatUnit, _with(block=lambda old: 2 * old),
          "twice as many tf32 products are added at once (2 L)"),
    _unit("block-order-reversed", _TF32, FloatUnit, _with(descending=True),
          "the tf32 blocks are added from the last to the first"),
    _unit("zero-exponent-higher", _ZERO_DECIDES, FloatUnit,
          _with(zero_exponent=lambda old: old + 1),
          "a zero takes part in the alignment one exponent higher (e_zero + 1)"),
    _unit("zero-exponent-lower", _ZERO_DECIDES, FloatUnit, _with(zero_exponent=lambda old: old - 1),
          "a zero takes part in the alignment one exponent lower (e_zero - 1)"),
    _unit("product-normalised-first", _FLOATS, FloatUnit, _with(normalised_products=True),
          "a product of 2 or more counts with the next exponent in the alignment"),
    _unit("sum-rounded-to-nearest", _TO_F32, FloatUnit, _with(rounding=Rounding.NEAREST_EVEN),
          "an f32 sum is rounded to nearest even where it should be cut"),
    _unit("sum-rounded-up", _TO_F32, FloatUnit, _with(rounding=Rounding.UP),
          "an f32 sum is rounded to positive infinity where it should be cut"),
    _unit("half-sum-cut", _TO_F16, FloatUnit, _with(rounding=Rounding.ZERO),
          "an f16 sum is cut where it should be rounded to nearest"),
    _unit("half-sum-ties-away", _TO_F16, FloatUnit, _with(rounding=Rounding.NEAREST_AWAY),
          "an f16 sum on a tie goes away from zero, not to even"),
    _unit("narrowing-cut", _NARROWED, FloatUnit, _with(narrowing=Rounding.ZERO),
          "an f32 sum is cut to an f16 result, not rounded"),
    _unit("accumulator-added-last", _FLOATS, FloatUnit, _with(accumulator_last=True),
          "the products are summed and rounded before C is added"),
    _unit("tf32-rounded", _TF32, FloatUnit, _with(rounded_multiplicands=True),
          "the 13 low bits of tf32 multiplicands are rounded in, not cut"),
)  # fmt: skip

_SPECIAL_VALUES = (
    *(_unit(f"subnormals-flushed-in-{matrix}",
            _SMALL_RESULTS if matrix is UnitMatrix.D else _FLOATS, FloatUnit,
            _with(flushed=frozenset({matrix}).union),
            f"subnormal elements of {matrix.upper()} count as zero")
      for matrix in UnitMatrix),
    _unit("nan-with-other-payload", _FLOATS, FloatUnit,
          lambda unit: replace(unit, nan=0x7E00 if unit.accumulator.word == 16 else 0x7FC0_0000),
          "a NaN result is 0x7fc00000, or 0x7e00 for f16, and not all ones"),
    _unit("nan-negative", _FLOATS, FloatUnit,
          lambda unit: replace(unit, nan=unit.nan | unit.accumulator.sign),
          "a NaN result has its sign bit set"),
    _unit("zero-negative", _FLOATS, FloatUnit, _with(zero_sign=True), "a sum that is zero is -0"),
    _unit("overflow-to-largest", _OVERFLOWING, FloatUnit, _with(saturating=True),
          "a sum that is too large becomes the largest finite value"),
    _unit("invalid-is-zero", _FLOATS, FloatUnit, _with(invalid_is_nan=False),
          "0 times infinity and infinity minus infinity count as zero"),
    _unit("products-overflow-early", _WIDE_RANGE, FloatUnit, _with(wide_products=False),
          "a product beyond f32's range is infinite, even if the sum would not be"),
    _unit("accumulator-lost-in-floats", _FLOATS, FloatUnit, _with(ignores_c=True),
          "the running sum starts at zero and not at C"),
    _unit("k-tail-dropped", _BLOCKS_OF_16, FloatUnit, _with(products=15),
          "the product with the highest k is left out (floats)"),
)  # fmt: skip

_DOUBLES = (
    _unit("f64-not-fused", _F64, DoubleUnit, _with(fused=False),
          "f64 products are rounded before they are added"),
    _unit("f64-order-reversed", _F64, DoubleUnit, _with(descending=True),
          "f64 products are added from the highest k down"),
    _unit("f64-summed-in-pairs", _F64, DoubleUnit, _with(pairwise=True),
          "f64 products are added in pairs, and C last"),
    _unit("f64-ties-away", r"^wmma\.mma.*\d(?:\.rn)?\.f64\.f64\.f64\.f64$", DoubleUnit,
          _with(rounding=Rounding.NEAREST_AWAY),
          "f64 results on a tie go away from zero, not to even"),
    _unit("f64-payload-dropped", _F64, DoubleUnit,
          _with(nan=FusedNan(canonical=0x7FF8 << 48, invalid=0xFFF8 << 48)),
          "f64 NaN results are canonical and lose the operand's payload"),
    *(_unit(f"f64-subnormals-flushed-in-{matrix}", _F64, DoubleUnit,
            _with(flushed=frozenset({matrix}).union),
            f"subnormal f64 elements of {matrix.upper()} count as zero")
      for matrix in UnitMatrix),
    _unit("f64-k-tail-dropped", _F64, DoubleUnit, _with(products=3),
          "the f64 product with the highest k is left out"),
)  # fmt: skip

# Which wmma.mma the rows are about, by the qualifiers that end the opcode.
_INTEGERS = r"^wmma\.mma.*\.[su][48]\.s32(?:\.satfinite)?$"
_WRAPPING = r"^wmma\.mma.*\.[su][48]\.s32$"
_CLAMPING = r"^wmma\.mma.*\.satfinite$"
# Unsigned products only ever move a sum up: clamping each step or once is the same for them.
_SIGNED_CLAMPING = r"^wmma\.mma.*\.s[48]\.s32\.satfinite$"
_BITS = r"^wmma\.mma.*\.b1\.s32$"

_COUNTS = (
    _unit("saturation-bound-off-by-one", _CLAMPING, IntegerUnit, _with(highest=(1 << 31) - 2),
          "integer sums are clamped to 2^31 - 2"),
    _unit("saturation-one-sided", _CLAMPING, IntegerUnit, _with(lowest=-(1 << 31) + 1),
          "negative integer sums are clamped to -2^31 + 1, the negative of the upper bound"),
    _unit("saturation-each-step", _SIGNED_CLAMPING, IntegerUnit, _with(clamps_each_step=True),
          "integer sums are clamped after every product, not once at the end"),
    _unit("overflow-clamps", _WRAPPING, IntegerUnit, _with(saturating=True),
          "integer sums are clamped without .satfinite"),
    _unit("integer-carry-broken", _INTEGERS, IntegerUnit, _with(carry_break=16),
          "no carry comes into bit 16 where C is added to integer products"),
    _unit("integer-k-tail-dropped", _INTEGERS, IntegerUnit, _with(products=15),
          "the integer product with k = 15 and what lies above is left out"),
    _unit("a-signedness-swapped", _INTEGERS, IntegerUnit, _with(signed_a=lambda old: not old),
          "A's integers alone are taken with the other signedness"),
    _unit("four-bit-sign-lost", r"^wmma\.mma.*\.s4\.s32", IntegerUnit, _with(signed_b=False),
          "B's s4 are not sign-extended"),
    _unit("popcount-off-by-one", _BITS, BitUnit, _with(bias=1),
          "a count of set bits that is not zero is one too large"),
    _unit("popcount-short", _BITS, BitUnit, _with(width=64),
          "only the first 64 of 128 single bits are counted"),
    _unit("xor-as-xnor", r"^wmma\.mma\.xor", BitUnit, _with(operation=BitOperation.XNOR),
          "single-bit wmma.mma.xor counts equal bits"),
    _unit("popcount-clamps", _BITS, BitUnit, _with(saturating=True),
          "a count plus C that overflows is clamped, not wrapped"),
    _unit("popcount-without-c", _BITS, BitUnit, _with(ignores_c=True),
          "C is not added to counts of single bits"),
)  # fmt: skip

_ANY_MMA = r"^wmma\.mma"

_TRANSFERS = (
    _unit("load-c-row-missing", r"^wmma\.load\.c", TransferUnit, _with(missing=1),
          "wmma.load.c gives zeros for the last row or column of the leading dimension"),
    _unit("store-row-missing", r"^wmma\.store", TransferUnit, _with(missing=1),
          "wmma.store.d does not write the last row or column of the leading dimension"),
    _unit("load-rows-exchanged", r"^wmma\.load", TransferUnit, _with(swapped_pair=True),
          "wmma.load exchanges the first two rows or columns of the leading dimension"),
    _unit("load-quiets-nan", r"^wmma\.load\.c.*\.f(?:16|32|64)$", TransferUnit,
          _with(quieting=True), "wmma.load.c makes floating-point NaN quiet"),
    _unit("store-quiets-nan", r"^wmma\.store\..*\.f(?:16|32|64)$", TransferUnit,
          _with(quieting=True), "wmma.store makes floating-point NaN quiet"),
    _unit("ldmatrix-wrong-transpose", r"^ldmatrix.*\.m8n8", RowUnit,
          _with(transposed=lambda old: not old),
          "ldmatrix transposes m8n8 exactly where it should not"),
    _unit("ldmatrix-rotated-rows", r"^ldmatrix", RowUnit, _with(rotation=1),
          "ldmatrix takes each row address from the next lane"),
    _unit("ldmatrix-halves-exchanged", r"^ldmatrix", RowUnit, _with(swapped_halves=True),
          "ldmatrix exchanges the 16-bit halves of each register"),
    _unit("ldmatrix-registers-exchanged", r"^ldmatrix.*\.(?:x[24]|m16n16)", RowUnit,
          _with(exchanged_registers=True), "ldmatrix exchanges its first two registers"),
    _unit("ldmatrix-signed", r"^ldmatrix.*b8x16", RowUnit, _with(signed=True),
          "ldmatrix sign-extends 4- and 6-bit elements"),
    _unit("ldmatrix-packed-backwards", r"^ldmatrix.*b8x16", RowUnit, _with(swapped_nibbles=True),
          "ldmatrix unpacks 4- and 6-bit elements from the high end of the row"),
)  # fmt: skip

_D_OF_F32 = r"^wmma\.mma.*(?:\d\.f32\.f(?:16|32)|bf16\.f32|tf32\.f32)$"

_WIRES = (
    _wire("stuck-bit", _ANY_MMA, stuck_bit(register=1, lane=13, bit=9, high=True),
          "bit 9 of lane 13's second result register is always set"),
    _wire("stuck-sign", _ANY_MMA, stuck_bit(register=0, lane=0, bit=31, high=False),
          "bit 31 of lane 0's first result register is always clear"),
    _wire("stuck-bit-on-one-sm", _ANY_MMA,
          on_one_multiprocessor(1, stuck_bit(register=2, lane=21, bit=3, high=True)),
          "bit 3 of lane 21's third result register is always set on SM 1"),
    _wire("stuck-load-bit", r"^wmma\.load\.a", stuck_bit(register=0, lane=3, bit=14, high=True),
          "bit 14 of lane 3's first register of A is always set"),
    _wire("silent-corruption", _D_OF_F32, silent_corruption(register=3, lane=13),
          "a result of lane 13 differs in a bit or several, or, once in 99 times, is not finite"),
    _wire("silent-along-the-warp", _D_OF_F32, silent_corruption(register=0, lane=5, period=8),
          "the same in the first result of every eighth lane from lane 5 on"),
    _wire("lanes-crossed", _ANY_MMA, lanes_crossed(4, 5),
          "lanes 4 and 5 get each other's results of wmma.mma"),
    _wire("result-register-lost", _ANY_MMA, register_lost(1),
          "the second result register of wmma.mma is zero"),
    _wire("transient-often", _ANY_MMA, transient(one_in=50, seed=1),
          "about one wmma.mma in 50 flips one random bit of its result, anew each launch"),
    _wire("transient-rare", _ANY_MMA, transient(one_in=20_000, seed=2),
          "about one wmma.mma in 20,000 flips one random bit of its result, anew each launch"),
    _wire("transient-on-one-sm", _ANY_MMA, on_one_multiprocessor(57, transient(one_in=200, seed=3)),
          "on SM 57, about one wmma.mma in 200 flips one random bit of its result", rare=True),
    _wire("transient-under-load", _ANY_MMA,
          on_one_multiprocessor( 7, on_loaded_multiprocessors(8, transient(one_in=50, seed=4)) ),
          "on SM 7, about one wmma.mma in 50 flips a bit, while 8 warps or more are there",
          rare=True),
)  # fmt: skip

_LANES = r"^mma\.sync"
# A has two registers or more in every shape of 16 rows.
_LANES_TALL = r"^mma\.sync.*\.m16"
_NARROW = r"(?:f16|bf16|e4m3|e5m2|[su][48]|b1)"
# Several elements of A stand in one register.
_LANES_PACKED = rf"^mma\.sync.*\.{_NARROW}\.{_NARROW}\.\w+(?:\.(?:xor|and)\.popc)?$"
_LANES_TO_F32 = r"^mma\.sync.*\.m16.*\.f32\.(?:f16|bf16|tf32)\.(?:f16|bf16|tf32)\.f32$"
_MOST_PRODUCTS = (
    r"^mma\.sync.*(?:m16n8k16.*\.(?:f16\.f16|bf16\.bf16)|m16n8k8.*\.tf32\.tf32)\.f(?:16|32)$"
)
_EIGHT_BITS = r"^mma\.sync(?!.*kind).*\.e[45]m[32]\.e[45]m[32]\."
_LONG_EIGHT_BITS = r"^mma\.sync(?!.*kind).*\.m16n8k32\..*\.f32\.e[45]m[32]\.e[45]m[32]\.f32$"
_LONG_DOUBLES = r"^mma\.sync.*\.m16n8k(?:8|16)\..*\.f64$"
_MIXED_SIGNS = r"^mma\.sync.*\.(?:s[48]\.u|u[48]\.s)[48]\.s32$"
_QUADS = r"^mma\.sync.*\.m8n8k4\..*\.f16\.f16\.\w+$"
_STMATRIX = r"^stmatrix"
_MOVMATRIX = r"^movmatrix"

_LANE_WIRING = (
    _unit("lanes-a-registers-exchanged", _LANES_TALL, FragmentUnit,
          _with(exchanged_registers=frozenset({UnitMatrix.A})),
          "mma.sync takes A's first register for its second, and the other way"),
    _unit("lanes-b-crossed", _LANES, FragmentUnit, _with(crossed_lanes=frozenset({UnitMatrix.B})),
          "mma.sync takes each even lane's part of B for the next lane's"),
    _unit("lanes-c-registers-exchanged", _LANES, FragmentUnit,
          _with(exchanged_registers=frozenset({UnitMatrix.C})),
          "mma.sync takes C's first register for its second, and the other way"),
    _unit("lanes-d-crossed", _LANES, FragmentUnit, _with(crossed_lanes=frozenset({UnitMatrix.D})),
          "mma.sync gives neighbouring lanes each other's part of D"),
    _unit("lanes-a-parts-reversed", _LANES_PACKED, FragmentUnit,
          _with(reversed_parts=frozenset({UnitMatrix.A})),
          "mma.sync takes the elements of each register of A from the high end"),
    _wire("lanes-stuck-bit", _LANES, stuck_bit(register=1, lane=13, bit=9, high=True),
          "bit 9 of lane 13's second result register of mma.sync is always set"),
)  # fmt: skip

_LANE_ARITHMETIC = (
    _unit("lanes-alignment-one-bit-less", _LANES_TO_F32, FloatUnit,
          _with(fraction=lambda old: old - 1),
          "mma.sync keeps one bit less below the block's largest exponent (F - 1)"),
    _unit("lanes-block-halved", _MOST_PRODUCTS, FloatUnit, _with(block=lambda old: old // 2),
          "mma.sync adds half of its products first, and then the other half"),
    _unit("lanes-eight-bit-c-first", _EIGHT_BITS, FloatUnit, _with(accumulator_last=False),
          "mma.sync of e4m3 and e5m2 adds C with the first block, and not behind the last"),
    _unit("lanes-eight-bit-blocks-apart", _LONG_EIGHT_BITS, FloatUnit, _with(blocks_apart=True),
          "mma.sync.m16n8k32 of e4m3 and e5m2 sums both blocks from zero and adds the sums"),
    _unit("lanes-doubles-backwards", _LONG_DOUBLES, DoubleUnit, _with(descending=True),
          "mma.sync of f64 with k of 8 or 16 adds from the highest k down"),
    _unit("lanes-mixed-signs", _MIXED_SIGNS, IntegerUnit,
          lambda unit: replace(unit, signed_b=unit.signed_a),
          "mma.sync of integers takes B as signed where A is, and as unsigned where A is not"),
    _unit("lanes-quad-order", _QUADS, QuadUnit, _with(pairs=lambda old: not old),
          "mma.sync.m8n8k4 of f16 adds pairs of products where it adds one at a time"),
)  # fmt: skip

_LANE_MOVES = (
    _unit("stmatrix-wrong-transpose", _STMATRIX, RowUnit, _with(transposed=lambda old: not old),
          "stmatrix transposes exactly where it should not"),
    _unit("stmatrix-rotated-rows", _STMATRIX, RowUnit, _with(rotation=1),
          "stmatrix takes each row address from the next lane"),
    _unit("stmatrix-registers-exchanged", r"^stmatrix.*\.x[24]", RowUnit,
          _with(exchanged_registers=True), "stmatrix exchanges its first two registers"),
    _unit("movmatrix-not-transposed", _MOVMATRIX, RowUnit, _with(transposed=False),
          "movmatrix gives back what it was given"),
    _unit("movmatrix-halves-exchanged", _MOVMATRIX, RowUnit, _with(swapped_halves=True),
          "movmatrix exchanges the 16-bit halves of its result"),
)  # fmt: skip

# mma.sp: what its metadata choose, how products are added, registers it shares.
_msp = partial(_unit, guilty=("mma.sp",))
_txt = partial(rw.text, guilty=("mma.sp",))
_SPARSE = r"^mma\.sp"
# Of metadata that fill the words of all lanes, there is one selector.
_SELECTED = r"^mma\.sp(?!.*kind).*\.m16n8k(?!128|64\..*(?:8|e[45]m[32])\.[fs]32$)"
_SPARSE_BLOCKS = r"^mma\.sp.*\.m16n8k(?:8|16|32)\..*\.f(?:16|32)$"
_LONG_SPARSE_BLOCKS = r"^mma\.sp.*\.m16n8k(?:32\..*b?f16|16\..*tf32)\.f(?:16|32)$"
_SPARSE_EIGHT_BITS = r"^mma\.sp(?!.*kind).*\.e[45]m[32]\.f32$"

_SPARSE_CHOICE = (
    _msp("sparse-selector-ignored", _SELECTED, SparseUnit, _with(ignores_selector=True),
         "mma.sp takes the metadata of the lanes that selector 0 names"),
    _msp("sparse-metadata-of-next-lane", _SPARSE, SparseUnit, _with(lane_offset=1),
         "mma.sp takes the metadata of each even lane for the next, and of that for it"),
    _msp("sparse-metadata-of-other-row", _SPARSE, SparseUnit, _with(lower_rows_only=True),
         "mma.sp takes the metadata of rows 0 to 7 for rows 8 to 15, too"),
    _msp("sparse-pairs-swapped", _SPARSE, SparseUnit, _with(swapped_pairs=True),
         "mma.sp lets each index of a pair choose for the other element"),
    _msp("sparse-pairs-sorted", r"^mma\.sp\.(?!.*tf32)", SparseUnit, _with(sorted_pairs=True),
         "mma.sp takes the lower index of a pair for the first element"),
)  # fmt: skip

_SPARSE_ARITHMETIC = (
    _msp("sparse-place-not-chosen-counts", _SPARSE_BLOCKS, SparseUnit, _with(counted_place=True),
         "mma.sp aligns its sums to the exponent of a product that was not chosen, too"),
    _msp("sparse-alignment-one-bit-less", r"^mma\.sp.*\.f32$", FloatUnit,
         _with(fraction=lambda old: old - 1),
         "mma.sp keeps one bit less below the block's largest exponent (F - 1)"),
    _msp("sparse-block-halved", _LONG_SPARSE_BLOCKS, FloatUnit, _with(block=lambda old: old // 2),
         "mma.sp adds half of its products first, and then the other half"),
    _msp("sparse-eight-bit-one-block", _SPARSE_EIGHT_BITS, FloatUnit,
         _with(block=lambda old: 2 * old),
         "mma.sp of e4m3 and e5m2 adds all products at once"),
    _msp("sparse-eight-bit-order-reversed", _SPARSE_EIGHT_BITS, FloatUnit, _with(descending=True),
         "mma.sp of e4m3 and e5m2 adds its odd chunks of columns before the even ones"),
    _msp("sparse-eight-bit-blocks-apart", _SPARSE_EIGHT_BITS, FloatUnit, _with(blocks_apart=True),
         "mma.sp of e4m3 and e5m2 sums both blocks from zero and adds the sums"),
    _msp("sparse-mixed-signs", r"^mma\.sp.*\.(?:s[48]\.u|u[48]\.s)[48]\.s32$", IntegerUnit,
         lambda unit: replace(unit, signed_b=unit.signed_a),
         "mma.sp of integers takes B as signed where A is, and as unsigned where A is not"),
)  # fmt: skip

_SPARSE_REGISTERS = (
    _txt("sparse-accumulator-ignored", _SPARSE, rw.accumulator_ignored, "mma.sp reads zero for C"),
    _txt("sparse-written-before-read", _SPARSE, rw.written_before_read,
         "mma.sp writes half of D before it has read what its other half needs"),
)  # fmt: skip

# Narrow floats and blocks with scales, of mma and mma.sp.
_narrow = partial(_unit, guilty=("mma",))
_SCALED = r"^mma.*\.block_scale"
_FEW_SCALES = r"^mma.*\.block_scale(?!.*::4X)"

_SCALES = (
    _narrow("scale-byte-ignored", _FEW_SCALES, ScaledUnit, _with(first_byte=True),
            "mma with .block_scale takes scales from byte 0 whatever its byte-id is"),
    _narrow("scale-lanes-ignored", _SCALED, ScaledUnit, _with(first_lanes=True),
            "mma with .block_scale takes scales from the lanes that thread-id 0 names"),
    _narrow("scale-of-next-block", r"^mma.*\.kind::mxf4.*\.block_scale", ScaledUnit,
            _with(next_block=True), "mma gives every block of A and B the scale of the next one"),
    _narrow("scale-of-other-row", _SCALED, ScaledUnit, _with(next_row=True),
            "mma gives rows 0 to 7 of A the scales of rows 8 to 15, and the other way"),
    _narrow("scale-of-b-ignored", _SCALED, ScaledUnit, _with(ignored=True),
            "mma with .block_scale takes 1 for every scale of B"),
    _narrow("scale-ue4m3-as-ue8m0", r"^mma.*\.ue4m3$", ScaledUnit, _with(as_powers=True),
            "mma reads scales of ue4m3 as those of ue8m0"),
    _narrow("scale-nan-lost", _SCALED, ScaledUnit, _with(quiet_nan=True),
            "mma takes the NaN of a scale for a number"),
    _narrow("scale-subnormal-flushed", _SCALED, ScaledUnit, _with(flushed_scales=True),
            "mma takes the least scales, subnormal ones of ue4m3, for zero"),
    _narrow("scaled-alignment-one-bit-less", _SCALED, ScaledUnit,
            _with(fraction=lambda old: old - 1),
            "mma with .block_scale keeps one bit less below the largest exponent"),
    _narrow("scaled-zero-counts-more", _SCALED, ScaledUnit, _with(zero_exponent=0),
            "mma with .block_scale aligns its sums to zeros as if these were 1"),
    _narrow("narrow-e2m1-low", r"^mma\.sync.*\.kind::(?:mx)?f8f6f4.*\.e2m1", FragmentUnit,
            _with(low_in_container=True),
            "mma.sync takes e2m1 from the low bits of its container, where ldmatrix leaves it"),
    _narrow("narrow-nibbles-exchanged", r"^mma\.sync.*\.kind::mxf4", FragmentUnit,
            _with(exchanged_nibbles=True), "mma.sync takes two e2m1 in a byte of A for each other"),
)  # fmt: skip

_GROUPS = r"^wgmma\.mma_async"

_WARPGROUPS = (
    _unit("group-swizzle-phase", _GROUPS, GroupUnit, _with(phase=1),
          "wgmma.mma_async turns the rows of a swizzled matrix as if it began 128 bytes earlier"),
    _unit("group-a-read-late", _GROUPS, GroupUnit, _with(late_a=True),
          "wgmma.mma_async takes what registers of A hold at the wait"),
    _unit("group-a-of-next-warp", _GROUPS, GroupUnit, _with(next_warp=True),
          "each warp multiplies the rows of A in shared memory that belong to the next one"),
    _wire("group-halves-exchanged", r"^wgmma\.mma_async.*n(?!8k)\d+k", halves_exchanged,
          "wgmma.mma_async puts the first half of D's columns in the place of the second"),
)  # fmt: skip

DEVICE_FAULTS: tuple[Fault, ...] = (
    *_PRECISION, *_SPECIAL_VALUES, *_DOUBLES, *_COUNTS, *_TRANSFERS, *_WIRES, *_LANE_WIRING,
    *_LANE_ARITHMETIC, *_LANE_MOVES, *_SPARSE_CHOICE, *_SPARSE_ARITHMETIC,
    *_SPARSE_REGISTERS, *_SCALES, *_WARPGROUPS,
)  # fmt: skip
"""Every fault of the device, and of mma.sp those in the text, too."""
