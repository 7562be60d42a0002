"""Executes a kernel's steps for all threads at once, apart only where branches part them.

Threads that are at the lowest step go first, so that those that a branch parted meet again behind
it. Where an instruction is for a whole warp, lanes wait until all others have come; when nobody is
left who could come, the program traps.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.access import WarpBarrier
from runners.simulated.decoder import DecodedKernel, Step, Waits
from runners.simulated.scalar import LANE_BITS
from runners.simulated.traps import SimulatedTrap, TrapKind, refuse
from runners.simulated.warps import LANES, Mask, WarpState

LARGEST_STEP_COUNT = 200_000
"""Steps of one pass through a kernel after which it counts as hung: seconds of work, where a drawn
kernel of dozens of instructions with short loops takes hundreds."""
LONGEST_SECONDS = 5.0
"""Processor time, which other work does not take, of a small launch after which it counts as hung;
a batch on a GPU may take 10 s."""
STEP_SECONDS = 1e-5
"""Processor time of a larger launch after which it counts as hung, for each warp, each step of the
kernel and each image that a warp takes. Those of a preflight take 2.6e-6 s at most (44 launches on
two cores with seven processes, 2026-11-27)."""
_NOWHERE = np.iinfo(np.int64).max
"""Where threads are that have exited."""

Places = NDArray[np.int64]
"""(1 or 32 lanes, warps) index of the next step of each thread."""
Flags = NDArray[np.bool_]


def _holding(step: Step, warps: WarpState, mask: Mask) -> Mask:
    """Return the threads for which a step's guard, within the mask, holds."""
    if step.guard is None:
        return mask
    predicate = warps.registers[step.guard]
    if step.negated:
        predicate = ~predicate
    return predicate if mask is None else predicate & mask


class _Threads:
    """Where the threads of a launch are; only one number as long as all are at the same step."""

    def __init__(self, kernel: DecodedKernel, warps: WarpState) -> None:
        self._steps, self._warps = kernel.steps, warps
        self._end = len(kernel.steps)
        self._most_steps = warps.most_steps or LARGEST_STEP_COUNT * warps.passes
        size = warps.indices.size * len(kernel.steps) * warps.passes
        self._most_seconds = max(LONGEST_SECONDS, STEP_SECONDS * size)
        self._begun, self._since = time.thread_time(), time.monotonic()
        self._at: Places | None = None  # where all are together
        warps.exited = lambda: None if self._at is None else self._at >= self._end
        if warps.threads % LANES:
            self._at = np.where(warps.places < warps.threads, 0, self._end)
        self._together = 0
        self._waiting: Flags | None = None
        """Shaped like `_at`: threads that cannot go on by themselves; None is nobody."""
        self._arrived, self._numbers = np.zeros((2, LANES, warps.indices.size), np.int64)
        """Barriers that each thread was at since some did not wait there, and the number of the
        last at which it did not; by their warps in the launch."""

    def run(self) -> None:
        """Execute until all threads have exited."""
        while True:
            here: Mask = None
            index, limit = self._together, self._end
            if self._at is not None:
                runnable = self._at
                if self._waiting is not None:
                    runnable = np.where(self._waiting, _NOWHERE, runnable)
                index = int(runnable.min(initial=_NOWHERE))
                if index >= self._end:
                    if self._waiting is None:
                        return
                    self._try_again()
                    continue
                here = runnable == index
                limit = min(int(runnable[~here].min(initial=_NOWHERE)), self._end)
            index = self._straight(index, limit, here)
            if self._at is None or here is None:
                self._together = index
                if index == self._end:
                    return
            else:
                self._at[here] = index
            if index < limit:
                self._turn(index, here)
            self._gather()

    def _straight(self, index: int, limit: int, here: Mask) -> int:
        """Execute steps up to one at which threads may part or wait; return its index."""
        warps, steps = self._warps, self._steps
        whole = here is None or here.shape[0] == 1
        while index < limit:
            step = steps[index]
            warps.line = step.line
            warps.steps += 1
            # Of the clocks, first the one that costs a tenth.
            if warps.steps > self._most_steps or (
                time.monotonic() - self._since > self._most_seconds
                and time.thread_time() - self._begun > self._most_seconds
            ):
                said = f"{self._most_seconds:.3g} s, at step {warps.steps}"
                if warps.steps > self._most_steps:
                    said = f"{self._most_steps} steps"
                refuse(TrapKind.HANG, step.line, f"still running after {said}", warps.names())
            if step.operation is None or (step.waits is not None and not whole):
                break
            step.operation(warps, here if step.guard is None else _holding(step, warps, here))
            index += 1
        return index

    def _apart(self) -> Places:
        """Return where each thread is, in an array of its own."""
        if self._at is None:
            self._at = np.full((1, self._warps.indices.size), self._together, np.int64)
        return self._at

    def _turn(self, index: int, here: Mask) -> None:
        """Execute a step at which threads may part, exit or wait."""
        step = self._steps[index]
        if step.waits is not None:
            self._wait(step, index, here)
            return
        leaving = _holding(step, self._warps, here)
        goal: int | Places = step.goals[0] if step.goals else _NOWHERE
        if step.index is not None:
            choice = step.index(self._warps)
            beyond = choice >= len(step.goals)
            if leaving is not None:
                beyond = beyond & leaving
            if beyond.any():
                said = f"a branch index is not below {len(step.goals)}"
                refuse(TrapKind.OUT_OF_BOUNDS, 0, said, self._warps.names(beyond))
            goals = np.array(step.goals, np.int64)[np.minimum(choice, len(step.goals) - 1)]
            goal = np.broadcast_to(goals, (goals.shape[0], self._warps.indices.size))
        elif here is None and (leaving is None or leaving.all()):
            self._together = min(int(goal), self._end)
            return
        elif here is None and leaving is not None and not leaving.any():
            self._together = index + 1
            return
        self._move(here, index + 1)
        self._move(leaving, goal)

    def _move(self, mask: Mask, goal: int | Places) -> None:
        """Let the threads of a mask be at a step."""
        at = self._apart()
        if mask is None:
            self._at = np.broadcast_to(goal, np.broadcast_shapes(at.shape, np.shape(goal))).copy()
            return
        rows = max(mask.shape[0], np.shape(goal)[0] if np.ndim(goal) else 1)
        if at.shape[0] < rows:
            at = np.broadcast_to(at, (LANES, at.shape[1])).copy()
            if self._waiting is not None:
                self._waiting = np.broadcast_to(self._waiting, at.shape).copy()
        self._at = np.where(mask, goal, at)

    def _wait(self, step: Step, index: int, here: Mask) -> None:
        """Execute a step for those for whom all others have come; let the rest wait."""
        warps, barrier = self._warps, step.barrier
        if here is None and self._arrived.any():
            here = np.ones((1, warps.indices.size), np.bool_)
        if here is None:
            if barrier is not None:
                warps.memory.synchronised(None, waited=not barrier.arrives)
                barrier.pass_through(warps, None)
            self._together = index + 1
            return
        if barrier is not None:
            if barrier.arrives:
                self._arrive(barrier, index, here)
            else:
                self._wait_for_block(here)
            return
        at = self._apart()
        come = at == index
        if step.members is None:
            ready = np.broadcast_to(come.all(axis=0), come.shape)
        else:
            # Those whose members have all come or exited.
            there = warps.all_of(come | (at >= self._end))
            bits = np.where(there, LANE_BITS, np.uint64(0)).sum(axis=0)
            wanted = step.members(warps).astype(np.uint64)
            ready = np.logical_and(come, (wanted & ~bits[None]) == 0)
        if ready.any():
            mask = ready[:1] if step.members is None else ready
            assert step.operation is not None
            step.operation(warps, _holding(step, warps, mask))
            at[ready] = index + 1
        self._hold(here & ~ready, ready)

    def _hold(self, held: Flags, released: Flags) -> None:
        waiting: Any = np.False_ if self._waiting is None else self._waiting
        waiting = (np.broadcast_to(waiting, self._apart().shape) | held) & ~released
        self._waiting = waiting if waiting.any() else None

    def _wait_for_block(self, here: Flags) -> None:
        """Let threads wait at a barrier, or go on where all of their block have come to one."""
        at, warps = self._apart(), self._warps
        barriers = np.array([step.waits is Waits.BLOCK for step in self._steps] + [False])
        waiting = here if self._waiting is None else self._waiting | here
        stopped = waiting & barriers[np.minimum(at, self._end)]
        arrived = self._arrived[:, warps.indices]
        if arrived.any():
            self._at = at = np.broadcast_to(at, arrived.shape).copy()
            stopped = np.broadcast_to(stopped, arrived.shape)
        else:
            arrived = arrived[: at.shape[0]]
        blocks, order = np.unique(warps.blocks, return_inverse=True)
        # Barriers that all of a block have come to.
        common = np.full(blocks.size, _NOWHERE)
        came = np.where(at >= self._end, _NOWHERE, arrived + stopped)
        np.minimum.at(common, order, came.min(axis=0))
        released = stopped & (arrived < common[order][None])
        warps.memory.synchronised(released, waited=True)
        self._check_numbers(at, released, arrived == common[order][None])
        for index in np.unique(at[released]).tolist():
            step, those = self._steps[index], released & (at == index)
            assert step.barrier is not None
            elsewhere = released & ~those & np.isin(order, order[those.any(axis=0)])
            if step.barrier.held is not None and elsewhere.any():
                said = "threads of a block are at other barriers than the one that joins their "
                names = warps.names(elsewhere)
                refuse(TrapKind.DIVERGENT, step.line, f"{said}predicates", names)
            warps.line = step.line
            step.barrier.pass_through(warps, those)
        at[released] += 1
        if self._arrived.any():
            self._arrived[:, warps.indices] += released
        self._hold(here, released)

    def _arrive(self, barrier: WarpBarrier, index: int, here: Flags) -> None:
        """Let threads go on that others wait for at a barrier, who need not wait for those."""
        warps = self._warps
        those = warps.all_of(here)
        barrier.pass_through(warps, those)
        warps.memory.synchronised(those, waited=False)
        self._arrived[:, warps.indices] += those
        numbers = self._numbers[:, warps.indices]
        self._numbers[:, warps.indices] = np.where(those, barrier.number(warps), numbers)
        self._move(here, index + 1)

    def _check_numbers(self, at: Places, released: Flags, before: Flags) -> None:
        """Refuse threads of a block that wait at barriers of different numbers, for ever.

        Those `before` them have arrived at the barrier that the others wait at.
        """
        warps = self._warps
        numbers = self._numbers[: at.shape[0], warps.indices].copy()
        for index in np.unique(at[released]):
            barrier = self._steps[index].barrier
            assert barrier is not None
            numbers = np.where(at == index, barrier.number(warps), numbers)
        blocks = np.broadcast_to(warps.blocks, at.shape)
        going = np.isin(warps.blocks, warps.blocks[released.any(axis=0)])
        seen = released | (before & going)
        pairs = np.unique(np.stack((blocks[seen], numbers[seen])), axis=1)[0]
        if (apart := pairs[1:][pairs[1:] == pairs[:-1]]).size:
            bad = released & (warps.blocks == apart[0])
            said = "threads of a block wait at barriers of different numbers, for each other"
            line = self._steps[at[bad].min()].line
            refuse(TrapKind.DIVERGENT, line, said, warps.names(bad))

    def _gather(self) -> None:
        """Forget warps that have exited, and keep no more places than differ."""
        at, waiting = self._at, self._waiting
        if at is None:
            return
        gone: Flags = np.all(at >= self._end, axis=0)
        if gone.any():
            if gone.all():
                self._at, self._waiting = at[:, :0], None
                return
            kept = np.logical_not(gone)
            self._warps.drop(kept)
            self._at = at = at[:, kept]
            self._waiting = waiting = None if waiting is None else waiting[:, kept]
        if waiting is None and (at == at[0, 0]).all():
            self._together, self._at = int(at[0, 0]), None
        elif at.shape[0] > 1 and all((each == each[:1]).all() for each in (at, waiting)
                                     if each is not None):  # fmt: skip
            self._at = at[:1].copy()
            self._waiting = None if waiting is None else waiting[:1].copy()

    def _try_again(self) -> None:
        """Let those go on who waited for threads that have exited since, or trap."""
        assert self._at is not None and self._waiting is not None  # noqa: PT018
        waited = [int(index) for index in np.unique(self._at[self._waiting])]
        for index in waited:
            held = int(self._waiting.sum())
            self._wait(self._steps[index], index, self._waiting & (self._at == index))
            if self._waiting is None or int(self._waiting.sum()) < held:
                self._gather()
                return
        # A matrix instruction is to blame before what only waits for those who are at it.
        index = min(waited, key=lambda each: (self._steps[each].waits is not Waits.WARP, each))
        bad = self._waiting & (self._at == index)
        said = "a warp-level instruction or barrier waits for threads that are elsewhere or gone"
        refuse(TrapKind.DIVERGENT, self._steps[index].line, said, self._warps.names(bad))


def run(kernel: DecodedKernel, warps: WarpState) -> None:
    """Run all warps until they have exited, or raise `SimulatedTrap` with those it concerns."""
    try:
        _Threads(kernel, warps).run()
    except SimulatedTrap as trap:
        raise trap.at(warps.line) from None
    finally:
        # Threads and warps hold each other: else all memory of the launch waits to be collected.
        warps.exited = lambda: None
