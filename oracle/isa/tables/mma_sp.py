"""mma.sp and mma.sp::ordered_metadata (PTX ISA 9.7.14.6.3): two rows, and what metadata mean.

The figures of both are those of the first: ptxas 13.0 makes the same instructions of both, form by
form (2026-11-23). A lies in registers as that of a mma of half its columns, those that are stored.

A unit of a stored row is an element of 16 or 8 bits, a pair of 4-bit elements, or a half of a tf32
word. With lane = 4 g + t, row i = g + 8 h and w = `metadata_lanes`, unit u of a row has its index
in (9.7.14.6.2)

======================  =====================================  ======================
A of                    lane                                   bits
======================  =====================================  ======================
16 bits and more        4 g + w * selector + u div 8           16 h + 2 (u mod 8)
8 and 4 bits            4 g + w * selector + h + 2 (u div 16)  2 (u mod 16)
======================  =====================================  ======================

An H200 does so with indices of any kind, equal and descending ones too, which the ISA leaves
undefined (measured 2026-11-23).
"""

from __future__ import annotations

from functools import cache

from oracle.isa.forms import Form
from oracle.isa.matrices import LANES
from oracle.isa.tables.row import (
    PRODUCT,
    SATURATIONS,
    Block,
    Instruction,
    IsaNote,
    Metadata,
    Quote,
    introduced,
    required,
)

_LAYOUTS = "alayout: row; blayout: col; shape:"
_FP8 = "atype: e4m3|e5m2"
_OPERANDS = ("d", "a", "b", "c", "e", "selector")
_BLOCKS = (
    Block(
        "Half precision floating point type",
        f"{_LAYOUTS} m16n8k16|m16n8k32; dtype ctype: f16|f32; atype btype: f16",
    ),
    Block(
        "Alternate floating point type",
        f"{_LAYOUTS} m16n8k16|m16n8k32; dtype ctype: f32; atype btype: bf16",
    ),
    Block(
        "Alternate floating point type",
        f"{_LAYOUTS} m16n8k8|m16n8k16; dtype ctype: f32; atype btype: tf32",
    ),
    Block(
        "Alternate floating point type",
        f"{_LAYOUTS} m16n8k64; dtype ctype: f32; atype: e4m3|e5m2; btype: e4m3|e5m2",
    ),
    Block(
        "Integer type",
        f"{_LAYOUTS} m16n8k32|m16n8k64; dtype ctype: s32; atype: u8|s8; btype: u8|s8; "
        f"satfinite: {SATURATIONS}",
    ),
    Block(
        "Integer type",
        f"{_LAYOUTS} m16n8k64|m16n8k128; dtype ctype: s32; atype: u4|s4; btype: u4|s4; "
        f"satfinite: {SATURATIONS}",
    ),
)
_NOTES = (
    introduced("", (7, 1)),
    introduced(
        "Support for .e4m3 and .e5m2 alternate floating point type mma operation", (8, 4), _FP8
    ),
    required("", 80),
    required(".e4m3 and .e5m2 alternate floating point type mma operation", 89, _FP8),
)
_STORED = Quote(
    "For each K-wide row of matrix A, 50% elements are zeros and the remaining K/2 non-zero "
    "elements are packed in the operand representing matrix A. The mapping of these K/2 elements "
    "to the corresponding K-wide row is provided explicitly as metadata.",
    section="9.7.14.6",
)


_ORDERED = (0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110)
"""Pairs of indices that rise (9.7.14.6.1); of e4m3 and e5m2 it names no others."""
_EQUAL = (0b0000, 0b0101, 0b1010, 0b1111)
"""Pairs of indices that are invalid for all (9.7.14.6.1)."""
_HALVES = (0b0100, 0b1110)
"""Pairs of indices of a tf32 word (9.7.14.6.1)."""


@cache
def legal_pairs(form: Form) -> tuple[int, ...]:
    """Return the values of 4 bits of metadata, two indices, that the ISA gives a meaning."""
    if form.a_type.name == "tf32":
        return _HALVES
    if form.mnemonic != "mma.sp" or (form.a_type.is_float and form.a_type.bits == 8):
        return _ORDERED
    return tuple(pair for pair in range(16) if pair not in _EQUAL)


def _unit_bits(form: Form) -> int:
    return 16 if form.a_type.bits >= 16 else 8


@cache
def metadata_lanes(form: Form) -> int:
    """Return how many lanes of each group of four hold metadata: 1, 2 or 4."""
    units = form.matrix("a").columns * form.a_type.bits // _unit_bits(form)
    return form.shape.m * units * 2 // (LANES // 4 * 32)


@cache
def selectors(form: Form) -> range:
    """Return the sparsity selectors that the ISA defines; it takes 0 to 3 (9.7.14.6.3)."""
    return range(4 // metadata_lanes(form))


def _index_bit(form: Form, selector: int, row: int, unit: int) -> int:
    lane, half = row % 8 * 4 + metadata_lanes(form) * selector, row // 8
    if form.a_type.bits >= 16:
        return 32 * (lane + unit // 8) + 16 * half + 2 * (unit % 8)
    return 32 * (lane + half + 2 * (unit // 16)) + 2 * (unit % 16)


_METADATA = Metadata(
    section="9.7.14.6.1",
    selectors=selectors,
    pairs=legal_pairs,
    unit_bits=_unit_bits,
    index_bit=_index_bit,
)


def _row(mnemonic: str, notes: tuple[IsaNote, ...], *quotes: Quote) -> Instruction:
    return Instruction(
        mnemonic=mnemonic,
        function="mma_sp",
        section="9.7.14.6.3",
        operands=_OPERANDS,
        syntax="sync aligned shape alayout blayout satfinite? dtype atype btype ctype",
        metadata=_METADATA,
        figures="mma.sp",
        blocks=_BLOCKS,
        notes=notes,
        quotes=(PRODUCT, _STORED, *quotes),
        fertile=(
            ("shape", "dtype atype btype ctype"),
            ("shape", "atype btype", "dtype ctype"),
            ("atype", "btype", "dtype ctype"),
        ),
    )


MMA_SP = _row("mma.sp", _NOTES)
MMA_SP_ORDERED = _row(
    "mma.sp::ordered_metadata",
    (*_NOTES, introduced("mma.sp::ordered_metadata", (8, 5))),
    Quote(
        "Instruction mma.sp::ordered_metadata requires the indices in the sparsity metadata to be "
        "sorted in an increasing order starting from LSB, otherwise behavior is undefined."
    ),
)
