"""What stops the simulated device, as values that a verdict can be made of."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NoReturn

from oracle.errors import WarpfuzzError


class TrapKind(StrEnum):
    """Why a module was refused or a launch stopped."""

    PARSE = "parse error"
    UNSUPPORTED = "unsupported"
    ILLEGAL = "illegal for the target"
    MISALIGNED = "misaligned address"
    OUT_OF_BOUNDS = "out-of-bounds access"
    DIVERGENT = "divergent warp"
    UNINITIALISED = "uninitialised register"
    RACE = "race"  # what two threads do to the same memory has no order
    STOPPED = "trap instruction"
    HANG = "hang"

    @property
    def at_load(self) -> bool:
        """Whether the module is refused before anything runs, as an assembler would."""
        return self in (TrapKind.PARSE, TrapKind.UNSUPPORTED, TrapKind.ILLEGAL)


@dataclass(frozen=True, kw_only=True)
class Trap:
    """One refusal: what, in which line (0: none is to blame), and of which images of a launch."""

    kind: TrapKind
    line: int
    message: str
    warps: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"line {self.line}: {self.kind}: {self.message}"


class SimulatedTrap(WarpfuzzError):  # noqa: N818 (a trap is what a device calls it)
    """Carries a `Trap` out of the device; `trap` is the value to record."""

    def __init__(self, trap: Trap) -> None:
        super().__init__(str(trap))
        self.trap = trap

    def at(self, line: int) -> "SimulatedTrap":
        """Return the same trap at a line, if it has none: operations leave that to their caller."""
        return self if self.trap.line else SimulatedTrap(replace(self.trap, line=line))


def refuse(kind: TrapKind, line: int, message: str, warps: tuple[int, ...] = ()) -> NoReturn:
    """Raise `SimulatedTrap` with this trap."""
    raise SimulatedTrap(Trap(kind=kind, line=line, message=message, warps=warps))
