"""stmatrix (PTX ISA 9.7.14.5.16): a row."""

from __future__ import annotations

from oracle.instructions.row import SHARED_SPACES, SPECIFIC_TARGETS, Block, Instruction, Note, Quote
from oracle.targets import PtxVersion

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
        Note("Introduced in PTX ISA version 7.8.", since=PtxVersion(7, 8)),
        Note(
            "Support for .m16n8 shape and .b8 type introduced in PTX ISA version 8.6.",
            since=PtxVersion(8, 6),
            where=_B8,
        ),
        Note("Requires sm_90 or higher.", target=90),
        Note(
            f"Shape .m16n8 and type .b8 {SPECIFIC_TARGETS}",
            specific=True,
            where=_B8,
        ),
    ),
    quotes=(
        Quote(
            "Collectively store one or more matrices across all threads in a warp to the "
            "location indicated by the address operand p, in .shared state space.",
        ),
    ),
    fertile=(("shape", "num", "type"), ("shape", "trans", "type")),
)
