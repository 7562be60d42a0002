"""The warp-level matrix instructions, one row for each with everything that the ISA says of it.

Forms, legality, availability, drafts and explanations are derived from these rows. A new
instruction is

- a row in a file of its own here, and a place in INSTRUCTIONS;
- what it does: its layout in registers (`oracle.layouts.lane_fragments`), where metadata lie
(`Metadata` of
  the row), or what it moves (`oracle.layouts.storage`);
- the same once more, independently, in a file of `runners.simulated` and a row of its decoder;
- rows of planted faults (`runners.faults`);
- the name of its intrinsic (`runners.front_ends.llvm_text`), where LLVM has one;
- what it may follow in a program (`strategies.programs`).
"""

from __future__ import annotations

from oracle.isa.tables.ldmatrix import LDMATRIX, MOVMATRIX, STMATRIX
from oracle.isa.tables.mma import MMA_SP, MMA_SP_ORDERED, MMA_SYNC
from oracle.isa.tables.row import Instruction
from oracle.isa.tables.wmma import WMMA_LOAD, WMMA_MMA, WMMA_STORE

_ROWS = (
    WMMA_LOAD, WMMA_MMA, WMMA_STORE, LDMATRIX, MMA_SYNC, STMATRIX, MOVMATRIX, MMA_SP,
    MMA_SP_ORDERED,
)  # fmt: skip
INSTRUCTIONS: dict[str, Instruction] = {row.mnemonic: row for row in _ROWS}
"""Rows by mnemonic, in the order in which they are listed to a user."""
