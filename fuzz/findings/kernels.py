"""The smallest kernel that shows a finding: one warp, one pointer, and as little text as does."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from corpus import Kind
from fuzz.findings.replay import Attempt, Subject, attempt
from fuzz.reducer import Reducer, indented
from oracle.targets import Module
from runners.emission import emit_single
from runners.kernels import KernelModule
from runners.protocol import Runner
from runners.simulated import SimulatedDevice, SimulatedTrap

KERNEL_SECONDS = 10.0
"""Time for the text of one kernel: of 20 lines it takes 100 tries, of 20 ms to 50 ms each on the
simulated device (2026-11-28)."""


def smallest_kernel(
    runner: Runner, subject: Subject, kind: Kind, *, seconds: float = KERNEL_SECONDS
) -> str | None:
    """Return the PTX of a subject's smallest kernel if it shows the same kind.

    It is `emit_single`'s, made smaller as far as the simulated device still leaves with it what
    the oracle expects of the program, wherever it runs and whatever nobody wrote: so it is the
    runner that is wrong, and not the kernel. None where even that of the program does not show it,
    and where other kernels or several copies are needed. Raises as `attempt`.

    Parameters
    ----------
    seconds
        After which what was reached is returned.
    """
    if subject.others or subject.copies > 1 or not kind.shares_cause:
        return None
    named = Module.named(subject.module.target, subject.module.version)
    module = emit_single(subject.program, module=named)
    seen = _attempt(runner, subject, module, module.ptx)
    if seen.kind is not kind:
        return None
    if seen.compiled is None or seen.expected is None:
        return module.ptx
    kernel, expected = module.kernels[0], seen.expected
    assert kernel.launch is not None
    launch = kernel.launch
    # "sm_90" of "sm_90@13.0"
    target = seen.compiled.architecture
    devices = [SimulatedDevice(target, otherwise=other) for other in (False, True)]

    def holds(ptx: str) -> bool:
        try:
            right = all(
                np.array_equal(
                    device.load(ptx).launch_grid(kernel.entry, subject.image, launch).image,
                    expected,
                )
                for device in devices
            )
        except SimulatedTrap:
            return False
        return right and _attempt(runner, subject, module, ptx).kind is kind

    reducer = Reducer(holds, module.ptx, end=time.monotonic() + seconds)
    reducer.reduce()
    return module.ptx if reducer.tries == 0 else indented(reducer.text)


def _attempt(runner: Runner, subject: Subject, module: KernelModule, ptx: str) -> Attempt:
    return attempt(runner, replace(subject, module=replace(module, ptx=ptx)))
