"""Executable specification of the warp-level matrix instructions of PTX.

Text of an instruction in, verdict out: `explain`. Raw bit patterns in, raw bit patterns out: `mma`
on matrices, `mma_sync` and others on the registers of lanes; `permitted` gives the bounds that the
ISA promises on every target. A program on images of memory: `execute`. How a target computes:
`model_for`, `read_model`, and what writes it down. `oracle.api` has every name, and
`docs/library.md` examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.lazy import lazily

if TYPE_CHECKING:
    from oracle.api import *  # noqa: F403

__getattr__ = lazily(__name__)
