"""wmma.load, wmma.mma and wmma.store (PTX ISA 9.7.14.4): rows."""

from __future__ import annotations

from oracle.isa.tables.row import (
    EXPLICIT_CTA,
    LAYOUTS,
    ROUNDINGS,
    SATURATIONS,
    STATE_SPACES,
    Block,
    Instruction,
    IsaNote,
    Quote,
    introduced,
    required,
)
from oracle.isa.targets import PtxVersion

FRAGMENTS = "9.7.14.4.1"
"""Section of the PTX ISA on the registers of fragments."""
STORAGE = "9.7.14.4.2"
"""Section on matrices in memory: layouts, strides, alignment."""

_HALVES = "m16n16k16|m8n32k16|m32n8k16"

# `.aligned` "is required from PTX ISA version 6.3 onwards" (notes of 9.7.14.4.3 to .5).
_ALIGNED_SINCE = PtxVersion(6, 3)

_INTEGER = f"shape: {_HALVES}; type: s8|u8|s32"
_SUB_BYTE_OR_BIT = "shape: m8n8k32|m8n8k128"
_SINCE_AMPERE = "type: bf16|tf32|f64 or shape: m16n16k8"
"""f64, and the notes' "alternate floating point" (9.7.14.4.3, headings of the syntax)."""
_AND = "op: and"

_COMMON = (
    introduced("", (6, 0)),
    introduced(".m8n32k16 and .m32n8k16", (6, 1), "shape: m8n32k16|m32n8k16"),
    introduced(
        "Integer, sub-byte integer and single-bit wmma", (6, 3), f"{_INTEGER} or {_SUB_BYTE_OR_BIT}"
    ),
    required("Floating point wmma", 70, "type: f16|f32|f64|bf16|tf32"),
    required("Integer wmma", 72, _INTEGER),
    required("Sub-byte and single-bit wmma", 75, _SUB_BYTE_OR_BIT),
)
"""Notes that the three pages share."""
_WIDE_FLOATS = introduced(
    "Double precision and alternate floating point precision wmma", (7, 0), _SINCE_AMPERE
)
_ACCESSED = (("matrix", "shape", "type"),)

# 9.7.14.4.3, one row per block of the syntax: heading, shapes, multiplicand types, accumulator
# types, layouts of A, layouts of B.
_LOADS = (
    (".f16", _HALVES, "f16|s8|u8", "f16|f32|s32", LAYOUTS, LAYOUTS),
    (".bf16", _HALVES, "bf16", None, LAYOUTS, LAYOUTS),  # its .f32 C is in the first row
    (".tf32", "m16n16k8", "tf32", "f32", LAYOUTS, LAYOUTS),
    (".f64", "m8n8k4", "f64", "f64", LAYOUTS, LAYOUTS),
    ("sub-byte", "m8n8k32", "s4|u4", "s32", "row", "col"),
    ("single-bit", "m8n8k128", "b1", "s32", "row", "col"),
)


def _access(heading: str, matrix: str, layouts: str, shapes: str, types: str) -> Block:
    return Block(
        heading,
        f"matrix: {matrix}; layout: {layouts}; shape: {shapes}; space: {STATE_SPACES}; "
        f"type: {types}",
    )


WMMA_LOAD = Instruction(
    mnemonic="wmma.load",
    section="9.7.14.4.3",
    lengths=FRAGMENTS,
    operands=("r", "p", "stride"),
    opaque=True,
    syntax="matrix sync aligned layout shape space? type",
    aligned_since=_ALIGNED_SINCE,
    blocks=tuple(
        _access(heading, matrix, layouts, shapes, types)
        for heading, shapes, multiplicands, accumulators, a_layouts, b_layouts in _LOADS
        for matrix, layouts, types in (
            ("a", a_layouts, multiplicands),
            ("b", b_layouts, multiplicands),
            ("c", LAYOUTS, accumulators),
        )
        if types is not None
    ),
    notes=(
        *_COMMON,
        introduced(".m8n8k4 and .m16n16k8 on wmma", (7, 0), "shape: m8n8k4|m16n16k8"),
        _WIDE_FLOATS,
        EXPLICIT_CTA,
        required("Double precision and alternate floating point precision wmma", 80, _SINCE_AMPERE),
    ),
    quotes=(
        Quote(
            "Collectively load a matrix across all threads in a warp from the location indicated "
            "by address operand `p` in the specified state space into destination register `r`.",
        ),
        Quote(
            "`stride` is an optional 32-bit integer operand that provides an offset in terms of "
            "matrix elements between the start of consecutive instances of the _leading "
            "dimension_ (rows or columns).",
        ),
    ),
    fertile=_ACCESSED,
)

WMMA_STORE = Instruction(
    mnemonic="wmma.store",
    section="9.7.14.4.4",
    lengths=FRAGMENTS,
    operands=("p", "r", "stride"),
    opaque=True,
    syntax="matrix sync aligned layout shape space? type",
    aligned_since=_ALIGNED_SINCE,
    blocks=(
        _access("m16n16k16, m8n32k16, m32n8k16", "d", LAYOUTS, _HALVES, "f16|f32|s32"),
        _access("m8n8k32, m8n8k128", "d", LAYOUTS, "m8n8k32|m8n8k128", "s32"),
        _access("m16n16k8", "d", LAYOUTS, "m16n16k8", "f32"),
        _access("m8n8k4", "d", LAYOUTS, "m8n8k4", "f64"),
    ),
    notes=(
        *_COMMON,
        introduced(".m16n16k8", (7, 0), "shape: m16n16k8"),
        introduced("Double precision wmma", (7, 0), "type: f64"),
        EXPLICIT_CTA,
        required("Double precision wmma and shape .m16n16k8", 80, "shape: m16n16k8 or type: f64"),
    ),
    quotes=(
        Quote(
            "Collectively store a matrix across all threads in a warp at the location indicated "
            "by address operand `p` in the specified state space from source register `r`.",
        ),
        Quote(
            "`stride` is an optional 32-bit integer operand that provides an offset in terms of "
            "matrix elements between the start of consecutive instances of the _leading "
            "dimension_ (rows or columns).",
        ),
    ),
    fertile=_ACCESSED,
)


_ANY_LAYOUTS = f"alayout: {LAYOUTS}; blayout: {LAYOUTS}; shape:"

_UNSPECIFIED = "The accumulation order, rounding and handling of subnormal inputs is unspecified."
_ROUNDED = {
    "": "Rounding modifiers on double precision `wmma.mma` (default is `.rn`)",
    "rn": "`.rn`: mantissa LSB rounds to nearest even",
    "rz": "`.rz`: mantissa LSB rounds towards zero",
    "rm": "`.rm`: mantissa LSB rounds towards negative infinity",
    "rp": "`.rp`: mantissa LSB rounds towards positive infinity",
}

WMMA_MMA = Instruction(
    mnemonic="wmma.mma",
    function="mma",
    section="9.7.14.4.5",
    lengths=FRAGMENTS,
    operands=("d", "a", "b", "c"),
    opaque=True,
    syntax="op? popc? sync aligned alayout blayout shape rnd? dtype atype? btype? ctype satfinite?",
    aligned_since=_ALIGNED_SINCE,
    blocks=(
        # .satfinite was removed from the floating-point form in PTX ISA 6.5 (notes of 9.7.14.4.5);
        # it stands behind .ctype, as in the PTX ISA 6.0 manual, 9.7.12.4.
        Block(
            "Floating point (.f16 multiplicands)",
            f"{_ANY_LAYOUTS} {_HALVES}; dtype: f16|f32; ctype: f16|f32; satfinite: {SATURATIONS}",
        ),
        Block(
            "Integer (.u8/.s8 multiplicands)",
            f"{_ANY_LAYOUTS} {_HALVES}; atype btype: s8|u8; dtype ctype: s32; "
            f"satfinite: {SATURATIONS}",
        ),
        Block(
            "Floating point format .bf16",
            f"{_ANY_LAYOUTS} {_HALVES}; atype btype: bf16; dtype ctype: f32",
        ),
        Block(
            "Floating point format .tf32",
            f"{_ANY_LAYOUTS} m16n16k8; atype btype: tf32; dtype ctype: f32",
        ),
        Block(
            "Floating point Double precision",
            f"{_ANY_LAYOUTS} m8n8k4; atype btype: f64; dtype ctype: f64; rnd: {ROUNDINGS}",
        ),
        Block(
            "Sub-byte",
            "alayout: row; blayout: col; shape: m8n8k32; atype btype: s4|u4; dtype ctype: s32; "
            f"satfinite: {SATURATIONS}",
        ),
        Block(
            "Single-bit",
            "op popc: xor popc|and popc; alayout: row; blayout: col; shape: m8n8k128; "
            "atype btype: b1; dtype ctype: s32",
        ),
    ),
    notes=(
        *_COMMON,
        _WIDE_FLOATS,
        introduced("Support for .and operation in single-bit wmma", (7, 1), _AND),
        IsaNote(
            "Support for .satfinite on floating point wmma.mma is deprecated in PTX ISA "
            "version 6.4 and is removed from PTX ISA version 6.5.",
            deprecated=PtxVersion(6, 4),
            until=PtxVersion(6, 5),
            where="satfinite: satfinite; atype:",
        ),
        IsaNote(
            "Double precision, alternate floating point precision wmma require sm_80 or higher.",
            target=80,
            where=_SINCE_AMPERE,
        ),
        required(".and operation in single-bit wmma", 80, _AND),
    ),
    quotes=(
        Quote(
            "Perform a warp-level matrix multiply-and-accumulate computation `D = A * B + C` "
            "using matrices A, B and C loaded in registers `a`, `b` and `c` respectively, and "
            "store the result matrix in register `d`."
        ),
        Quote(
            "For single-bit `wmma`, multiplication is replaced by a sequence of logical "
            "operations; specifically, `wmma.xor.popc` and `wmma.and.popc` computes the XOR, AND "
            "respectively of a 128-bit row of A with a 128-bit column of B, then counts the number "
            "of set bits in the result (`popc`). This result is added to the corresponding element "
            "of C and written into D.",
            where="atype: b1",
        ),
        Quote(
            "The optional qualifier `.satfinite` indicates that the final values in the "
            "destination register are saturated as follows: The output is clamped to the minimum "
            "or maximum 32-bit signed integer value. Otherwise, if the accumulation would "
            "overflow, the value wraps.",
            where="atype: s8|u8|s4|u4",
        ),
        *(Quote(text, where=f"atype: f64; rnd: {rounding}") for rounding, text in _ROUNDED.items()),
        Quote(
            "Element-wise multiplication of matrix A and B is performed with at least single "
            "precision. When `.ctype` or `.dtype` is `.f32`, accumulation of the intermediate "
            "values is performed with at least single precision. When both `.ctype` and `.dtype` "
            "are specified as `.f16`, the accumulation is performed with at least half precision.",
            where="atype:",
        ),
        Quote(
            "Element-wise multiplication of matrix A and B is performed with specified "
            "precision. Accumulation of the intermediate values is performed with at least single "
            "precision.",
            where="atype: bf16|tf32",
        ),
        Quote(_UNSPECIFIED, where="atype: |bf16|tf32"),
        Quote(
            "The fragment returned by a `wmma` operation can be used as an operand for "
            "another `wmma` operation if the shape, layout and element type of the underlying "
            "matrix matches.",
            section=FRAGMENTS,
        ),
    ),
    fertile=(
        ("shape", "dtype atype btype ctype"),
        ("shape", "atype btype", "dtype ctype"),
        ("shape", "dtype", "ctype"),
        ("op", "shape", "atype btype"),
    ),
)
