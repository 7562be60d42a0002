"""Writes programs as PTX, and runs or judges PTX.

`emit` and `emit_all` write PTX; `SimulatedRunner` runs modules, `SimulatedDevice` any kernel of its
dialect (`docs/library.md`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.lazy import lazily

if TYPE_CHECKING:
    from runners.emission import emit as emit
    from runners.emission import emit_all as emit_all
    from runners.kernels import Kernel as Kernel
    from runners.kernels import KernelModule as KernelModule
    from runners.kernels import Launch as Launch
    from runners.protocol import Compiled as Compiled
    from runners.protocol import Failure as Failure
    from runners.protocol import Ran as Ran
    from runners.protocol import Runner as Runner
    from runners.protocol import Trouble as Trouble
    from runners.simulated import SimulatedDevice as SimulatedDevice
    from runners.simulated import SimulatedTrap as SimulatedTrap
    from runners.simulated_runner import SimulatedRunner as SimulatedRunner

_HOMES = {
    "runners.emission": ("emit", "emit_all"),
    "runners.kernels": ("Kernel", "KernelModule", "Launch"),
    "runners.protocol": ("Compiled", "Failure", "Ran", "Runner", "Trouble"),
    "runners.simulated": ("SimulatedDevice", "SimulatedTrap"),
    "runners.simulated_runner": ("SimulatedRunner",),
}
__getattr__ = lazily(__name__, _HOMES)
__all__ = [name for names in _HOMES.values() for name in names]
