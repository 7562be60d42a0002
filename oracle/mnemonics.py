"""Each instruction in one row: its operands, what of its opcode has to be there, its notes."""

from __future__ import annotations

import re
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

_UNJUDGED = frozenset(
    """abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra
    brev brkpt brx call clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard
    div dp2a dp4a elect ex2 exit fence fma fns getctarank griddepcontrol isspacep istypep ld ldu lg2
    lop3 mad mad24 madc mapa match max mbarrier membar min mov mul mul24 multimem nanosleep neg not
    or pmevent popc prefetch prefetchu prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp
    shf shfl shl shr sin slct sqrt st stackrestore stacksave sub subc suld suq sured sust szext tanh
    tcgen05 tensormap testp tex tld4 trap txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2
    vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset vset2 vset4 vshl vshr vsub vsub2 vsub4
    wgmma xor""".split()  # noqa: SIM905
)
"""Instructions of the PTX ISA that are none of these: their opcodes up to the first dot (4.3.2,
and chapter 9 of PTX ISA 9.0)."""
KEYWORDS = "4.3.2"
"""Section of the PTX ISA that lists the names of its instructions."""
_UNJUDGED_QUALIFIERS = re.compile(r"sp(::\w+)?|kind::\w+|block_scale|scale_vec::\w+", re.ASCII)
"""Qualifiers of `mma` that make it one of those with a sparse A (9.7.14.6) or with scaled blocks
and other 8-, 6- and 4-bit types (9.7.14.5.14, since PTX ISA 8.7)."""


def is_unjudged(opcode: str) -> bool:
    """Whether an opcode is of an instruction of the PTX ISA of which the rows here say nothing."""
    name, *qualifiers = opcode.split(".")
    if name == "mma":
        return any(map(_UNJUDGED_QUALIFIERS.fullmatch, qualifiers))
    return name in _UNJUDGED
