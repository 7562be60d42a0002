"""A simulated GPU that reads PTX text and shares nothing with the oracle."""

from runners.simulated.device import LoadedModule, SimulatedDevice
from runners.simulated.syntax import SimulatedTrap, Trap, TrapKind

__all__ = ["LoadedModule", "SimulatedDevice", "SimulatedTrap", "Trap", "TrapKind"]
