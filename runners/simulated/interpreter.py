"""Executes a kernel's steps for all warps at once, apart only where branches part them."""

import numpy as np
from numpy.typing import NDArray

from runners.simulated.decoder import Kernel, Step
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.warps import Mask, Warps

LARGEST_STEP_COUNT = 200_000
"""Steps of one launch after which it counts as hung: seconds of work, where a drawn kernel of
dozens of instructions with short loops takes hundreds."""


def _guard(step: Step, warps: Warps, mask: Mask) -> Mask:
    """Return the threads for which a step's guard, within the mask, holds."""
    if step.guard is None:
        return mask
    predicate = warps.read(step.guard.register, step.line) ^ step.guard.negated
    return predicate if mask is None else predicate & mask


def _leaving(step: Step, warps: Warps, mask: Mask) -> NDArray[np.bool_]:
    """Return the (warps,) that follow a branch or exit; all lanes of a warp have to agree."""
    if step.guard is None:
        held = np.ones((1, 1), np.bool_) if mask is None else mask
    else:
        predicate = warps.read(step.guard.register, step.line) ^ step.guard.negated
        held = warps.uniform(predicate, step.line, "a branch or exit condition", mask)
        held = held if mask is None else held & mask
    return np.broadcast_to(held[0], warps.indices.shape)


def run(kernel: Kernel, warps: Warps) -> None:
    """Run all warps until they have exited.

    Warps at the lowest step go first, so that those that a branch parted meet again behind it.

    Raises
    ------
    SimulatedTrap
        For what a device would trap on, with the warps that it concerns.
    """
    steps = kernel.steps
    at = np.zeros(warps.indices.size, np.int64)
    for _ in range(LARGEST_STEP_COUNT):
        if not at.size:
            return
        index = int(at.min())
        if index == len(steps):
            return
        here = at == index
        mask: Mask = None if here.all() else here[None]
        step = steps[index]
        warps.steps += 1
        if step.operation is not None:
            step.operation(warps, _guard(step, warps, mask))
            at[here] += 1
            continue
        leaving = _leaving(step, warps, mask)
        at[here & ~leaving] += 1
        if step.goal is None:
            kept = ~(here & leaving)
            warps.drop(kept)
            at = at[kept]
        else:
            at[here & leaving] = step.goal
    refuse(
        TrapKind.HANG,
        steps[int(at.min())].line,
        f"still running after {LARGEST_STEP_COUNT} steps",
        tuple(int(i) for i in warps.indices),
    )
