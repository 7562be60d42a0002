"""A simulated GPU that reads PTX text and shares nothing with the oracle."""

from runners.simulated.device import Module, SimulatedDevice
from runners.simulated.traps import SimulatedTrap, Trap, TrapKind

__all__ = ["Module", "SimulatedDevice", "SimulatedTrap", "Trap", "TrapKind"]
