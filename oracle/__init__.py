"""Executable specification of the warp-level matrix instructions of PTX.

Text of an instruction in, verdict out: `explain`. Raw bit patterns in, raw bit patterns out: `mma`
on matrices, `mma_sync`, `mma_sp`, `ldmatrix`, `stmatrix` and `movmatrix` on the registers of lanes;
`permitted` gives the bounds that the ISA promises on every target.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oracle.errors import InfrastructureError, UndefinedProgramError, UsageError, WarpfuzzError

if TYPE_CHECKING:
    from oracle.lane_products import mma_sp as mma_sp
    from oracle.lane_products import mma_sync as mma_sync
    from oracle.legality import Explanation as Explanation
    from oracle.legality import Verdict as Verdict
    from oracle.legality import explain as explain
    from oracle.matrix_moves import ldmatrix as ldmatrix
    from oracle.matrix_moves import movmatrix as movmatrix
    from oracle.matrix_moves import stmatrix as stmatrix
    from oracle.multiply import mma as mma
    from oracle.multiply import permitted as permitted

_HOMES = {
    "oracle.lane_products": ("mma_sp", "mma_sync"),
    "oracle.legality": ("Explanation", "Verdict", "explain"),
    "oracle.matrix_moves": ("ldmatrix", "movmatrix", "stmatrix"),
    "oracle.multiply": ("mma", "permitted"),
}
_MODULES = {name: home for home, names in _HOMES.items() for name in names}
__all__ = ["InfrastructureError", "UndefinedProgramError", "UsageError", "WarpfuzzError", *_MODULES]


def __getattr__(name: str) -> Any:
    """Import the part that holds `name` when it is first asked for: legality needs no NumPy."""
    try:
        home = _MODULES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(home), name)
