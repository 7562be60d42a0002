"""Simulated devices with one planted fault each, and whether a batch of images shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from oracle.errors import InfrastructureError
from runners.faults import Fault, Place
from runners.faults.statements import statements
from runners.kernels import LANES, KernelModule
from runners.protocol import Images
from runners.simulated import Module, SimulatedDevice, SimulatedTrap, TrapKind


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """A module of one kernel, with what every mutant asks of its text."""

    module: KernelModule
    opcodes: frozenset[str]
    """Of its instructions."""

    @classmethod
    def of(cls, module: KernelModule) -> Emitted:
        """Read the opcodes once for all mutants."""
        return cls(module=module, opcodes=frozenset(s.opcode for s in statements(module.ptx)))

    def has(self, pattern: re.Pattern[str]) -> bool:
        """Whether the pattern finds something in an opcode."""
        return any(pattern.search(opcode) for opcode in self.opcodes)


class Mutant:
    """A simulated device with one fault, or without any.

    It is used without a runner around it: runners keep modules, and a hundred of them would keep
    thousands. A trap is what a runner would report as a failure.

    Parameters
    ----------
    fault
        None for a sound device.
    target
        Architecture of the device.
    layout
        Which fragment layout it has.
    """

    def __init__(self, fault: Fault | None, *, target: str, layout: int) -> None:
        self._fault = fault
        faults = [fault] if fault is not None and fault.place is Place.DEVICE else []
        self._device = SimulatedDevice(target, layout_seed=layout, faults=faults)

    def load(self, emitted: Emitted) -> Module | SimulatedTrap | None:
        """Load a module as the fault leaves it; None if the fault touches nothing in it."""
        fault, ptx = self._fault, emitted.module.ptx
        if fault is not None and not emitted.has(fault.opcodes):
            return None
        if fault is not None and fault.place is Place.PTX:
            ptx = fault.rewrite(ptx)
            if ptx == emitted.module.ptx:
                return None
        try:
            return self._device.load(ptx)
        except SimulatedTrap as trap:
            return _checked(trap)

    def first_wrong(
        self, module: Module | SimulatedTrap, emitted: Emitted, images: Images, expected: Images
    ) -> int | None:
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
        wrong = np.flatnonzero((results != expected).any(axis=1))
        return int(wrong[0]) if len(wrong) else None


def _checked(trap: SimulatedTrap) -> SimulatedTrap:
    """Return a trap that a campaign would report.

    Raises
    ------
    InfrastructureError
        If the simulated device cannot do this by design: then nothing was found.
    """
    if trap.trap.kind is TrapKind.UNSUPPORTED:
        raise InfrastructureError(f"the simulated device cannot run a program of the bench: {trap}")
    return trap
