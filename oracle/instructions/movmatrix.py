"""movmatrix (PTX ISA 9.7.14.5.17): a row."""

from __future__ import annotations

from oracle.instructions.row import Block, Instruction, Quote, introduced, required

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
