"""Each instruction in one row: its operands, what of its opcode has to be there, its notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oracle.forms import FRAGMENTS, LDMATRIX, LOAD, MMA, MMA_SYNC, MOVMATRIX, STMATRIX, STORE
from oracle.notes import (
    LDMATRIX_NOTES,
    LOAD_NOTES,
    MMA_NOTES,
    MMA_SYNC_NOTES,
    MOVMATRIX_NOTES,
    STMATRIX_NOTES,
    STORE_NOTES,
    Note,
)
from oracle.targets import PtxVersion


@dataclass(frozen=True, kw_only=True)
class Mnemonic:
    """What all forms of one instruction have in common."""

    name: str
    section: str
    """Section of the PTX ISA that describes the instruction."""
    fragments: str
    """Section that says how many registers its vectors have."""
    operands: tuple[str, ...]
    """Kinds in the order of the syntax: "p" an address, "stride" an optional stride, "to" and
    "from" a register each; every other is a vector of registers."""
    required: tuple[str, ...]
    """Kinds of qualifiers without which no form is spelled."""
    most: Mapping[str, int] = field(default_factory=dict)
    """How many qualifiers of a kind there are at most, where it is not one."""
    aligned_since: PtxVersion | None = None
    """First PTX ISA version in which `.aligned` has to be written; None: it always has to be."""
    notes: tuple[Note, ...]
    """In the order of the page."""


# `.aligned` "is required from PTX ISA version 6.3 onwards" (notes of 9.7.14.4.3 to .5).
_WMMA_ALIGNED = PtxVersion(6, 3)

_ROWS = (
    Mnemonic(
        name="wmma.load",
        section=LOAD,
        fragments=FRAGMENTS,
        operands=("r", "p", "stride"),
        required=("matrix", "sync", "layout", "shape", "type"),
        aligned_since=_WMMA_ALIGNED,
        notes=LOAD_NOTES,
    ),
    Mnemonic(
        name="wmma.mma",
        section=MMA,
        fragments=FRAGMENTS,
        operands=("d", "a", "b", "c"),
        required=("sync", "layout", "shape"),
        most={"layout": 2, "type": 4},
        aligned_since=_WMMA_ALIGNED,
        notes=MMA_NOTES,
    ),
    Mnemonic(
        name="wmma.store",
        section=STORE,
        fragments=FRAGMENTS,
        operands=("p", "r", "stride"),
        required=("matrix", "sync", "layout", "shape", "type"),
        aligned_since=_WMMA_ALIGNED,
        notes=STORE_NOTES,
    ),
    Mnemonic(
        name="ldmatrix",
        section=LDMATRIX,
        fragments=LDMATRIX,
        operands=("r", "p"),
        required=("sync", "shape", "num"),
        notes=LDMATRIX_NOTES,
    ),
    Mnemonic(
        name="mma",
        section=MMA_SYNC,
        fragments=MMA_SYNC,
        operands=("d", "a", "b", "c"),
        required=("sync", "shape", "layout", "type"),
        most={"layout": 2, "type": 4},
        notes=MMA_SYNC_NOTES,
    ),
    Mnemonic(
        name="stmatrix",
        section=STMATRIX,
        fragments=STMATRIX,
        operands=("p", "r"),
        required=("sync", "shape", "num", "type"),
        notes=STMATRIX_NOTES,
    ),
    Mnemonic(
        name="movmatrix",
        section=MOVMATRIX,
        fragments=MOVMATRIX,
        operands=("to", "from"),
        required=("sync", "shape", "trans", "type"),
        notes=MOVMATRIX_NOTES,
    ),
)
MNEMONICS: dict[str, Mnemonic] = {row.name: row for row in _ROWS}
"""Rows by name, in the order in which they are listed to a user."""
