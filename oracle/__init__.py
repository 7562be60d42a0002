"""Executable specification of the warp-level matrix instructions of PTX.

Text of an instruction in, verdict out: `explain`. Raw bit patterns in, raw bit patterns out: `mma`
on matrices, `mma_sync`, `ldmatrix`, `stmatrix` and `movmatrix` on the registers of the lanes;
`permitted` gives the bounds that the ISA promises on every target.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oracle.errors import InfrastructureError, UndefinedProgramError, UsageError, WarpfuzzError

if TYPE_CHECKING:
    from oracle.lane_products import mma_sync
    from oracle.legality import Explanation, Verdict, explain
    from oracle.matrix_moves import ldmatrix, movmatrix, stmatrix
    from oracle.multiply import mma, permitted

__all__ = [
    "Explanation",
    "InfrastructureError",
    "UndefinedProgramError",
    "UsageError",
    "Verdict",
    "WarpfuzzError",
    "explain",
    "ldmatrix",
    "mma",
    "mma_sync",
    "movmatrix",
    "permitted",
    "stmatrix",
]

_HOMES = {
    "Explanation": "oracle.legality",
    "Verdict": "oracle.legality",
    "explain": "oracle.legality",
    "ldmatrix": "oracle.matrix_moves",
    "mma": "oracle.multiply",
    "mma_sync": "oracle.lane_products",
    "movmatrix": "oracle.matrix_moves",
    "permitted": "oracle.multiply",
    "stmatrix": "oracle.matrix_moves",
}


def __getattr__(name: str) -> Any:
    """Import the part that holds `name` when it is first asked for: legality needs no NumPy."""
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(home), name)
