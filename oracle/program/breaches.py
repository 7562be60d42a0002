"""What makes a program undefined, and what a register is known to hold on the way to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from oracle.isa.legality import cited
from oracle.program.operands import Held

# Sections: of the memory consistency model (conflicting accesses without synchronisation race), of
# state spaces (shared memory has no initial values), of vectors as operands, and of addresses.
CONSISTENCY, STATE_SPACES, VECTORS, ADDRESSES = "8", "5.1", "6.4.3", "6.4"
LAST_WITH_ALL_ADDRESSES = 75
"""Last target on which every lane of ldmatrix needs a valid address (9.7.14.5.15, a note)."""


class Breach(StrEnum):
    """What sort of thing makes a program undefined."""

    STRIDE = "stride below the default"
    PITCH = "stride not aligned"
    ADDRESS = "address not aligned"
    OUTSIDE = "outside of its buffer"
    SPACE = "other state space"
    RACE = "no barrier between accesses"
    OVERLAP = "copy onto itself"
    UNWRITTEN = "shared memory read unwritten"
    CONTENT = "name holds something else"
    SELECTOR = "sparsity selector"
    METADATA = "metadata without a meaning"
    TWICE = "register twice in a destination"
    SHORT_ADDRESS = "address too narrow for its state space"
    IN_FLIGHT = "multiplication in flight"
    UNFENCED = "no wgmma.fence"
    PROXY = "no proxy fence"
    PHASE = "phase of an mbarrier"


@dataclass(frozen=True, kw_only=True)
class BreachReason:
    """Why a program is undefined."""

    cause: Breach
    text: str
    section: str
    step: str
    """Where: the position of the step, as in "3" or "3.then.0"."""

    def __str__(self) -> str:
        return f"step {self.step}: {self.text} ({cited(self.section)})"


class Mixed(StrEnum):
    """What registers hold that are no whole value."""

    CONFLICTING = "what not every path to this step has written, or has written alike"
    PIECES = "registers of several fragments, a part of one, or one in another order"


class RegisterContent(NamedTuple):
    """What a register holds: a part of what one step wrote, or several on paths that meet."""

    maker: object
    """What is equal for what one step, or the same ones, wrote."""
    holds: Held | Mixed
    part: int
    constant: int | None


def met(cell: RegisterContent | None, other: RegisterContent | None) -> RegisterContent:
    """Return what a register holds where two paths meet."""
    if cell is None or other is None or (cell.holds, cell.part) != (other.holds, other.part):
        return RegisterContent(None, Mixed.CONFLICTING, 0, None)
    if cell == other:
        return cell
    constant = cell.constant if cell.constant == other.constant else None
    return RegisterContent((cell.maker, other.maker), cell.holds, cell.part, constant)
