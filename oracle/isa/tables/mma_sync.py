"""mma.sync (PTX ISA 9.7.14.5.14): a row."""

from __future__ import annotations

from oracle.isa.tables.row import (
    LAYOUTS,
    PRODUCT,
    ROUNDINGS,
    SATURATIONS,
    Block,
    Instruction,
    IsaNote,
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
