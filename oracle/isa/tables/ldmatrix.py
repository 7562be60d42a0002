"""ldmatrix, stmatrix and movmatrix (PTX ISA 9.7.14.5.15 to .17): rows."""

from __future__ import annotations

from oracle.isa.tables.row import (
    EXPLICIT_CTA,
    SHARED_SPACES,
    SPECIFIC_TARGETS,
    Block,
    Instruction,
    IsaNote,
    Quote,
    introduced,
    required,
)

_TYPED = ".shape.num{.trans}{.ss}.type"
_PACKED = f"space: {SHARED_SPACES}; dst_fmt: b8x16; src_fmt: b6x16_p32|b4x16_p64"
_WIDE = "shape: m16n16|m8n16"
_SIGNED = "dst_fmt: s8"

LDMATRIX = Instruction(
    mnemonic="ldmatrix",
    function="ldmatrix",
    section="9.7.14.5.15",
    operands=("r", "p"),
    syntax="sync aligned shape num trans? space? type? dst_fmt? src_fmt?",
    blocks=(
        Block(
            _TYPED, f"shape: m8n8; num: x1|x2|x4; trans: |trans; space: {SHARED_SPACES}; type: b16"
        ),
        Block(_TYPED, f"shape: m16n16; num: x1|x2; trans: trans; space: {SHARED_SPACES}; type: b8"),
        Block(".m8n16.num{.ss}.dst_fmt.src_fmt", f"shape: m8n16; num: x1|x2|x4; {_PACKED}"),
        Block(
            ".m16n16.num.trans{.ss}.dst_fmt.src_fmt",
            f"shape: m16n16; num: x1|x2; trans: trans; {_PACKED}",
        ),
        Block(
            ".m8n16.num{.ss}.dst_fmt.src_fmt",
            f"shape: m8n16; num: x1|x2|x4; space: {SHARED_SPACES}; {_SIGNED}; src_fmt: s4",
        ),
    ),
    notes=(
        introduced("", (6, 5)),
        EXPLICIT_CTA,
        introduced("Support for .m16n16, .m8n16 shapes", (8, 6), _WIDE),
        introduced("Support for .b8 type with ldmatrix is", (8, 6), "type: b8"),
        introduced("Support for .src_fmt, .dst_fmt qualifiers", (8, 6), "dst_fmt: b8x16"),
        # In our words: the page of 9.4 is not among the stored ones. Asked of ptxas 13.3 to 13.5,
        # which take them from 9.4 on for these targets and no others, 2026-11-28.
        introduced("Support for .s8 with .s4", (9, 4), _SIGNED),
        IsaNote(
            ".s8 with .s4 is supported on sm_90a, sm_100f, sm_110f, sm_120f or higher in the same "
            "family.",
            specific=True,
            also="sm_90a",
            where=_SIGNED,
        ),
        required("", 75),
        # Three lists of the page, word for word the same, one for the shapes, one for .b8 and one
        # for the formats; each of those forms has one of the shapes.
        IsaNote(
            f"Shapes .m16n16, .m8n16 {SPECIFIC_TARGETS}",
            specific=True,
            where="shape: m16n16 or dst_fmt: b8x16",
        ),
    ),
    quotes=(
        Quote(
            "Collectively load one or more matrices across all threads in a warp from the "
            "location indicated by the address operand `p`, from `.shared` state space into "
            "destination register `r`."
        ),
        Quote(
            "Each thread in a warp loads fragments of a row, with thread 0 receiving the "
            "first fragment in its register `r`, and so on. A group of four threads loads an "
            "entire row of the matrix"
        ),
    ),
    fertile=(("shape", "num", "type"), ("shape", "dst_fmt", "src_fmt")),
)


_LINE = ".shape.num{.trans}{.ss}.type"
_B8 = "type: b8"

STMATRIX = Instruction(
    mnemonic="stmatrix",
    function="stmatrix",
    section="9.7.14.5.16",
    operands=("p", "r"),
    syntax="sync aligned shape num trans? space? type",
    blocks=(
        Block(
            _LINE, f"shape: m8n8; num: x1|x2|x4; trans: |trans; space: {SHARED_SPACES}; type: b16"
        ),
        Block(
            _LINE, f"shape: m16n8; num: x1|x2|x4; trans: trans; space: {SHARED_SPACES}; type: b8"
        ),
    ),
    notes=(
        introduced("", (7, 8)),
        introduced("Support for .m16n8 shape and .b8 type", (8, 6), _B8),
        required("", 90),
        IsaNote(f"Shape .m16n8 and type .b8 {SPECIFIC_TARGETS}", specific=True, where=_B8),
    ),
    quotes=(
        Quote(
            "Collectively store one or more matrices across all threads in a warp to the "
            "location indicated by the address operand p, in .shared state space."
        ),
    ),
    fertile=(("shape", "num", "type"), ("shape", "trans", "type")),
)


MOVMATRIX = Instruction(
    mnemonic="movmatrix",
    function="movmatrix",
    section="9.7.14.5.17",
    operands=("to", "from"),
    syntax="sync aligned shape trans type",
    blocks=(Block(".shape.trans.type", "shape: m8n8; trans: trans; type: b16"),),
    notes=(introduced("", (7, 8)), required("", 75)),
    quotes=(
        Quote(
            "Move a row-major matrix across all threads in a warp, reading elements from "
            "source a, and writing the transposed elements to destination d."
        ),
    ),
    fertile=(("shape", "type"), ("shape", "trans")),
)
