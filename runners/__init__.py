"""Writes programs as PTX, and runs or judges PTX.

`emit` and `emit_all` write PTX; `SimulatedRunner` runs modules, `SimulatedDevice` any kernel of its
dialect (`docs/library.md`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.lazy import lazily

if TYPE_CHECKING:
    from runners.api import *  # noqa: F403

__getattr__ = lazily(__name__)
