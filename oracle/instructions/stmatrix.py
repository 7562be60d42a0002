"""stmatrix (PTX ISA 9.7.14.5.16): a row."""

from __future__ import annotations

from oracle.instructions.row import (
    SHARED_SPACES,
    SPECIFIC_TARGETS,
    Block,
    Instruction,
    Note,
    Quote,
    introduced,
    required,
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
        Note(f"Shape .m16n8 and type .b8 {SPECIFIC_TARGETS}", specific=True, where=_B8),
    ),
    quotes=(
        Quote(
            "Collectively store one or more matrices across all threads in a warp to the "
            "location indicated by the address operand p, in .shared state space."
        ),
    ),
    fertile=(("shape", "num", "type"), ("shape", "trans", "type")),
)
