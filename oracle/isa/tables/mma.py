"""mma.sync, mma.sp and mma.sp::ordered_metadata (PTX ISA 9.7.14.5.14, 9.7.14.6.3): rows.

Where metadata lie is in `docs/oracle.md`, "Metadata". ptxas 13.0 makes the same machine
instructions of both kinds of mma.sp (2026-11-23).
"""

from __future__ import annotations

from functools import cache

from oracle.isa.forms import LANES, Form
from oracle.isa.tables.row import (
    LAYOUTS,
    PRODUCT,
    ROUNDINGS,
    SATURATIONS,
    Block,
    Instruction,
    IsaNote,
    Metadata,
    Quote,
    introduced,
    required,
)

_PLAIN = "alayout: row; blayout: col; shape:"


# The page of mma is not among the stored ones: these are its notes (PTX ISA 9.0, 9.7.14.5.14) in
# a uniform wording. Their versions and targets were asked of ptxas 11.7 to 13.5.
def _introduced(
    what: str, version: tuple[int, int], target: int, types: str, *shapes: str
) -> tuple[IsaNote, IsaNote]:
    listed = ", ".join(f".{shape}" for shape in shapes)
    operation = f"{what} type mma operation{f' with {listed}' if listed else ''}"
    where = f"atype: {types}" + (f"; shape: {'|'.join(shapes)}" if shapes else "")
    return introduced(operation, version, where), required(operation, target, where)


_AND = "op: and"

MMA_SYNC = Instruction(
    mnemonic="mma",
    function="mma_sync",
    alias="mma.sync",
    section="9.7.14.5.14",
    operands=("d", "a", "b", "c"),
    # The rounding stands in the examples alone.
    syntax="sync aligned shape alayout blayout satfinite? dtype atype btype ctype rnd? op? popc?",
    blocks=(
        Block(
            "Half precision (.f16)",
            f"shape: m8n8k4; atype btype: f16; alayout: {LAYOUTS}; blayout: {LAYOUTS}; "
            "dtype ctype: f16 f16|f32 f16|f32 f32",
        ),
        Block(
            "Half precision (.f16)",
            f"{_PLAIN} m16n8k8|m16n8k16; dtype ctype: f16|f32; atype btype: f16",
        ),
        Block(
            "Alternate floating point (.e4m3/.e5m2)",
            f"{_PLAIN} m16n8k16|m16n8k32; dtype ctype: f16|f32; atype: e4m3|e5m2; btype: e4m3|e5m2",
        ),
        Block(
            "Alternate floating point (.bf16)",
            f"{_PLAIN} m16n8k8|m16n8k16; dtype ctype: f32; atype btype: bf16",
        ),
        Block(
            "Alternate floating point (.tf32)",
            f"{_PLAIN} m16n8k4|m16n8k8; dtype ctype: f32; atype btype: tf32",
        ),
        Block(
            "Double precision",
            f"{_PLAIN} m8n8k4|m16n8k4|m16n8k8|m16n8k16; dtype ctype: f64; atype btype: f64; "
            f"rnd: {ROUNDINGS}",
        ),
        Block(
            "Integer (.u8/.s8)",
            f"{_PLAIN} m8n8k16|m16n8k16|m16n8k32; dtype ctype: s32; atype: u8|s8; btype: u8|s8; "
            f"satfinite: {SATURATIONS}",
        ),
        Block(
            "Sub-byte (.u4/.s4)",
            f"{_PLAIN} m8n8k32|m16n8k32|m16n8k64; dtype ctype: s32; atype: u4|s4; btype: u4|s4; "
            f"satfinite: {SATURATIONS}",
        ),
        Block(
            "Single-bit",
            f"{_PLAIN} m8n8k128|m16n8k128|m16n8k256; dtype ctype: s32; atype btype: b1; "
            "op popc: xor popc|and popc",
        ),
    ),
    notes=(
        introduced("", (6, 4)),
        required("", 70),
        *_introduced(".f16 floating point", (6, 5), 75, "f16", "m16n8k8"),
        *_introduced(".f16 floating point", (7, 0), 80, "f16", "m16n8k16"),
        *_introduced(".bf16 alternate floating point", (7, 0), 80, "bf16"),
        *_introduced(".tf32 alternate floating point", (7, 0), 80, "tf32"),
        *_introduced(".e4m3/.e5m2 alternate floating point", (8, 4), 89, "e4m3|e5m2"),
        introduced(
            "Support for shape .m16n8k16 and .f16 dtype/ctype with .e4m3/.e5m2 alternate floating "
            "point type mma operation",
            (8, 7),
            "atype: e4m3|e5m2; shape: m16n8k16 or atype: e4m3|e5m2; dtype: f16",
        ),
        *_introduced(".f64 floating point", (7, 0), 80, "f64", "m8n8k4"),
        *_introduced(".f64 floating point", (7, 8), 90, "f64", "m16n8k4", "m16n8k8", "m16n8k16"),
        *_introduced(".u8/.s8 integer", (6, 5), 75, "u8|s8", "m8n8k16"),
        *_introduced(".u8/.s8 integer", (7, 0), 80, "u8|s8", "m16n8k16", "m16n8k32"),
        *_introduced(".u4/.s4 integer", (6, 5), 75, "u4|s4", "m8n8k32"),
        *_introduced(".u4/.s4 integer", (7, 0), 80, "u4|s4", "m16n8k32", "m16n8k64"),
        *_introduced(".b1 single-bit integer", (7, 0), 75, "b1", "m8n8k128"),
        *_introduced(".b1 single-bit integer", (7, 0), 80, "b1", "m16n8k128", "m16n8k256"),
        introduced("Support for .and operation in single-bit mma", (7, 1), _AND),
        required(".and operation in single-bit mma", 80, _AND),
    ),
    quotes=(
        PRODUCT,
        Quote(
            "For single-bit mma.sync, multiplication is replaced by a sequence of logical "
            "operations; specifically, mma.xor.popc and mma.and.popc computes the XOR, AND "
            "respectively of a k-bit row of A with a k-bit column of B, then counts the number of "
            "set bits in the result (popc).",
            where="atype: b1",
        ),
    ),
    fertile=(
        ("shape", "dtype atype btype ctype"),
        ("shape", "atype btype", "dtype ctype"),
        ("atype", "btype", "dtype ctype"),
        ("op", "shape", "atype btype"),
    ),
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
