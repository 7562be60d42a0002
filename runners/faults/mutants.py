"""The simulated device with a planted fault, without a runner around it."""

from __future__ import annotations

from oracle.errors import InfrastructureError
from oracle.program.program import different
from runners.faults import Fault, FaultPlace
from runners.faults.rewriters import statements
from runners.kernels import LANES, KernelModule
from runners.protocol import Images
from runners.simulated import LoadedModule, SimulatedDevice, SimulatedTrap, TrapKind


class Emitted:
    """A module of one kernel, with the opcodes that every mutant asks for, read once."""

    def __init__(self, module: KernelModule) -> None:
        self.module = module
        self.opcodes = frozenset(statement.opcode for statement in statements(module.ptx))


class Mutant:
    """A simulated device with one fault, or without any.

    It is used without a runner around it: runners keep modules, and a hundred of them would keep
    thousands. A trap is what a runner would report as a failure.
    """

    def __init__(self, fault: Fault | None, *, target: str, layout: int) -> None:
        self._fault = fault
        faults = [fault] if fault is not None and fault.place is FaultPlace.DEVICE else []
        self._device = SimulatedDevice(target, layout_seed=layout, faults=faults)

    def load(self, emitted: Emitted) -> LoadedModule | SimulatedTrap | None:
        """Load a module as the fault leaves it; None if the fault touches nothing in it."""
        fault, ptx = self._fault, emitted.module.ptx
        if fault is not None and not any(map(fault.opcodes.search, emitted.opcodes)):
            return None
        if fault is not None and fault.place is FaultPlace.PTX:
            ptx = fault.rewrite(ptx)
            if ptx == emitted.module.ptx:
                return None
        try:
            return self._device.load(ptx)
        except SimulatedTrap as trap:
            return _checked(trap)

    def first_wrong(
        self, module: LoadedModule | SimulatedTrap, emitted: Emitted, images: Images,
        expected: Images,
    ) -> int | None:  # fmt: skip
        """Return the number of the first image that comes out wrong, or None.

        What was refused when it was loaded is wrong at the first image. A launch that traps is
        wrong at the first image that is to blame, which a campaign isolates.
        """
        if isinstance(module, SimulatedTrap):
            return 0
        kernel = emitted.module.kernel()
        try:
            results, _ = module.launch(kernel.entry, images, threads=LANES * kernel.warps_per_block)
        except SimulatedTrap as trap:
            return min(_checked(trap).trap.warps, default=len(images) - 1)
        wrong = different(expected, results)
        return int(wrong[0]) if len(wrong) else None


def _checked(trap: SimulatedTrap) -> SimulatedTrap:
    """Return a trap that a campaign would report."""
    if trap.trap.kind is TrapKind.UNSUPPORTED:
        raise InfrastructureError(f"the simulated device cannot run a program of the bench: {trap}")
    return trap
