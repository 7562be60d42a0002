"""Executable specification of the warp-level matrix instructions of PTX.

Text of an instruction in, verdict out: `explain`. Raw bit patterns in, raw bit patterns out: `mma`
on matrices, `mma_sync`, `mma_sp`, `ldmatrix`, `stmatrix` and `movmatrix` on the registers of lanes;
`permitted` gives the bounds that the ISA promises on every target. A program on images of memory:
`execute`. How a target computes: `model_for`, `read_model`, and `model_text`, `model_json` and
`model_header`, which write it down. `docs/library.md` has examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.errors import (
    DeviceLostError,
    InfrastructureError,
    UndefinedProgramError,
    UsageError,
    WarpfuzzError,
)
from oracle.lazy import lazily

if TYPE_CHECKING:
    from oracle.execution import Expectation as Expectation
    from oracle.execution import execute as execute
    from oracle.lane_products import mma_sp as mma_sp
    from oracle.lane_products import mma_sync as mma_sync
    from oracle.lane_products import permitted as permitted
    from oracle.legality import Explanation as Explanation
    from oracle.legality import Verdict as Verdict
    from oracle.legality import explain as explain
    from oracle.matrix_moves import ldmatrix as ldmatrix
    from oracle.matrix_moves import movmatrix as movmatrix
    from oracle.matrix_moves import stmatrix as stmatrix
    from oracle.models import Model as Model
    from oracle.models import model_for as model_for
    from oracle.models.exports import model_header as model_header
    from oracle.models.exports import model_json as model_json
    from oracle.models.files import model_text as model_text
    from oracle.models.files import read_model as read_model
    from oracle.multiply import mma as mma
    from oracle.program import Program as Program
    from oracle.targets import Module as Module

_HOMES = {
    "oracle.execution": ("Expectation", "execute"),
    "oracle.lane_products": ("mma_sp", "mma_sync", "permitted"),
    "oracle.legality": ("Explanation", "Verdict", "explain"),
    "oracle.matrix_moves": ("ldmatrix", "movmatrix", "stmatrix"),
    "oracle.models": ("Model", "model_for"),
    "oracle.models.exports": ("model_header", "model_json"),
    "oracle.models.files": ("model_text", "read_model"),
    "oracle.multiply": ("mma",),
    "oracle.program": ("Program",),
    "oracle.targets": ("Module",),
}
__getattr__ = lazily(__name__, _HOMES)
__all__ = [
    "DeviceLostError",
    "InfrastructureError",
    "UndefinedProgramError",
    "UsageError",
    "WarpfuzzError",
    *(name for names in _HOMES.values() for name in names),
]
