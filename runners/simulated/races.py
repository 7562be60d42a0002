"""Detects races: which accesses of threads to memory are ordered, and which are not.

Source: PTX ISA 8 (Memory Consistency Model), 9.7.13.1 (bar.sync), 9.7.13.2 (bar.warp.sync). Two
accesses to the same bytes, of which one writes, have an order where one thread makes both, where
all threads of its block pass a barrier between them, or all lanes of its warp a `bar.warp.sync`.
Stores of the same value to the same bytes need none: whichever is the last, that is there.
Atomic operations on the same bytes need none as long as they are all the same, their order changes
no sum, and nobody asks what was there before. Other ways to make an order (fences, flags,
barriers for some lanes) are not followed: what relies on them counts as a race.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from runners.simulated.decoder import Kernel, Step, Waits
from runners.simulated.dependence import Dependence, dependence
from runners.simulated.memory import VARIABLES_BASE, Memory, Owner, Owners, Place, Segment, Space
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.warps import LANES, Key, Mask, Operation, Registers, Values, Warps, poison

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_MEMORY = re.compile(r"(?:ld|ldu|st|atom|red|cp)\b")
_NARROW = re.compile(r"\.[bus](8|16)\b|\.b?f(16)\b")
_SUM = re.compile(
    r"(?:red|atom)\.(?P<sort>(?:\S+\.)?(?:add|min|max|and|or|xor)\.(?:\S+\.)?[bus]\d+)\s+(?P<held>[^,\s]+)"
)
"""Atomic operations of integers, whose order nobody can tell from what is there in the end, and, of
atom, the register that gets what was there before."""
_NAME = re.compile(r"[%\w$]+")
_COPIES = re.compile(r"cp\.async\.(?:(?P<ends>commit_group)|wait_all|wait_group\s+(?P<left>\d+))")
"""Ends of groups of asynchronous copies, and waits for all, or for all but the last groups of a
thread (PTX ISA 9.7.9.25.3.2, 9.7.9.25.3.3)."""
_VARIABLES = range(VARIABLES_BASE, VARIABLES_BASE + (1 << 32))
_READ_ONLY = re.compile(r"ldu\b|ld\.(?:\S*\.)?nc\b")
"""Loads of what nobody writes while the kernel runs (PTX ISA 9.7.9.9, 9.7.9.10)."""
_PLACES = LANES + 1
"""Numbers of a warp: one a thread, and one for what a warp does as a whole. Nobody says which of
its threads reads or writes what then, so that none of them did it (PTX ISA 9.7.14.4, 9.7.14.5:
loads and stores of matrices)."""
_UNTOLD = -1
_NOBODY = np.iinfo(np.int64).max


class _Group:
    """Who did something to each granule of a segment last: a range of threads, and when."""

    def __init__(self, size: int) -> None:
        self.low, self.high = np.full(size, _NOBODY), np.full(size, -1)
        """Lowest and highest thread; the lowest is above the highest where nobody did."""
        self.epoch, self.turn = np.zeros(size, np.int64), np.zeros(size, np.int64)
        """Barriers of the block, the most of any, and of the warp, before the last of them."""
        self.line = np.zeros(size, np.int64)

    def forget(self, where: Ints) -> None:
        self.low[where], self.high[where] = _NOBODY, -1

    def add(self, access: "_Access") -> None:
        where = access.where
        np.minimum.at(self.low, where, access.thread)
        np.maximum.at(self.high, where, access.thread)
        self.turn[where] = access.turn
        np.maximum.at(self.epoch, where, access.arrived)
        self.line[where] = access.line

    def before(self, access: "_Access") -> Flags:
        """Return where all of them come before an access of the same block by a barrier of it."""
        low, high = self.low[access.where], self.high[access.where]
        same = (low // access.threads == access.block) & (high // access.threads == access.block)
        found: Flags = same & (self.epoch[access.where] < access.epoch)
        return found

    def races(self, access: "_Access") -> Flags:
        """Return where one of them has no order beside an access."""
        where, thread = access.where, access.thread
        low, high = self.low[where], self.high[where]
        warp = thread // _PLACES
        same = (low // _PLACES == warp) & (high // _PLACES == warp)
        fine = (low > high) | ((low == thread) & (high == thread)) | self.before(access)
        found: Flags = ~(fine | (same & (self.turn[where] < access.turn)))
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class _Access:
    """What one instruction does to granules of a segment, all of the same shape."""

    where: Ints
    thread: Ints
    block: Ints
    epoch: Ints
    """The last barrier of the block at which the thread waited, counted from 1."""
    arrived: Ints
    """The last at which it was."""
    turn: Ints
    line: int
    threads: int
    """Numbers of a block."""
    values: NDArray[np.uint64] | None
    """What is written; None where that is not told."""


class _Shadow:
    """What happened to the granules of a segment."""

    def __init__(self, size: int) -> None:
        self.written, self.read = _Group(size), _Group(size)
        self.sums = np.zeros(size, np.int64)
        """Which atomic operation wrote it; 0 where a store did whose value is told."""
        self.copying = np.zeros(size, np.int64)
        """Group of the asynchronous copy to it that may be on its way, counted from 1; else 0."""
        self.values = np.zeros(size, np.uint64)
        """What was stored last."""
        self.touched = np.zeros(size, np.bool_)
        self.changed, self.kept = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        """What somebody wrote, and what somebody read who said that nobody does."""


class _Garbled(Registers):
    """Registers of which an instruction sees only those of the lanes that execute it."""

    def __init__(self, values: Registers, garbage: int) -> None:
        super().__init__(values)
        self.seen: Mask = None
        self.garbage = garbage

    def __getitem__(self, key: Key) -> Values:
        value: Values = super().__getitem__(key)
        if self.seen is None or isinstance(key, tuple):
            return value
        return np.where(self.seen, value, poison(value.dtype, self.garbage, key))

    def kept(self, kept: Flags) -> Registers:
        return _Garbled(super().kept(kept), self.garbage)


class Watch:
    """Follows the accesses of a launch to global and shared memory.

    A granule has the bytes of the narrowest access; a lenient watch refuses nothing.
    """

    def __init__(self, warps: Warps, granule: int, *, lenient: bool) -> None:
        self._warps, self._granule, self._lenient = warps, granule, lenient
        self._waited, self._arrived = np.zeros((2, _PLACES * warps.indices.size), np.int64)
        self._turns = np.zeros(warps.indices.size, np.int64)
        self._groups = np.ones(_PLACES * warps.indices.size, np.int64)
        """The group of each thread's next asynchronous copy."""
        self._shadows: dict[int, _Shadow] = {}
        self._marks: dict[int, Flags] = {}
        """By segments: whether what was written last depends on approximate instructions."""
        self._sums: dict[str, int] = {}
        self.unasked: frozenset[str] = frozenset()
        """Atomic operations whose order nobody can tell."""
        self.approximate = Dependence(frozenset(), False)
        self.inexact_loads: set[str] = set()
        """Instructions that read what depends on approximate ones."""
        self.step = Step(line=0)
        """What executes."""

    def end(self) -> None:
        """Watch no longer: memory and watch hold each other, and 100 MB wait to be collected."""
        assert isinstance(self._warps.memory, WatchedMemory)
        del self._warps.memory.watch

    def passed(self, mask: Mask, waited: bool) -> None:
        """Take note that threads were at a barrier of their block, and whether they waited.

        A warp as a whole was where one of its lanes was, and waited where all did.
        """
        there = np.broadcast_to(np.True_ if mask is None else mask, self._warps.places.shape)
        at = [numbers.reshape(-1, _PLACES)[self._warps.indices].T for numbers in
              (self._arrived, self._waited)]  # fmt: skip
        at[0][:LANES] += there
        at[0][LANES] = at[0][:LANES].max(axis=0)
        if waited:
            at[1][:LANES] = np.where(there, at[0][:LANES], at[1][:LANES])
            at[1][LANES] = at[1][:LANES].min(axis=0)
        for numbers, new in zip((self._arrived, self._waited), at, strict=True):
            numbers.reshape(-1, _PLACES)[self._warps.indices] = new.T

    def rejoined(self, mask: Mask) -> None:
        """Take note of a barrier of lanes; it counts where all of the warp are there."""
        warps = self._warps
        all_there = np.broadcast_to(
            np.True_ if mask is None else (mask | (warps.places >= warps.threads)).all(axis=0),
            warps.indices.shape,
        )
        self._turns[warps.indices[all_there]] += 1

    def copies(self, found: re.Match[str], mask: Mask) -> None:
        """Take note that threads end a group of asynchronous copies, or that copies are there."""
        threads = self._threads()
        those = threads[np.broadcast_to(np.True_ if mask is None else mask, threads.shape)]
        if found["ends"]:
            self._groups[those] += 1
            return
        there = np.full(self._groups.size, -1)
        there[those] = (
            _NOBODY if found["left"] is None else self._groups[those] - int(found["left"])
        )
        for shadow in self._shadows.values():
            (where,) = np.nonzero(shadow.copying)
            done = shadow.copying[where] < there[shadow.written.low[where]]
            shadow.copying[where[done]] = 0

    def saw(self, place: Place, space: Space, span: int, writes: bool) -> None:
        """Take note of accesses of `span` bytes, or refuse them."""
        segment = place.segment
        if segment.read_only or (segment.owner is Owner.THREAD and not self.approximate.stores):
            return
        access = self._access(place, span, writes)
        if self.approximate.stores:
            self._mark(segment, access.where, writes)
        if segment.owner is Owner.THREAD:
            return
        if writes and segment.base in _VARIABLES:
            everywhere = np.ones(access.where.shape, np.bool_)
            said = "a variable of the module: the next launch would find that there"
            self._refuse(TrapKind.RACE, access, everywhere, segment, "writes", said)
        if (shadow := self._shadows.get(id(segment))) is None:
            shadow = _Shadow(-(-segment.data.size // self._granule))
            self._shadows[id(segment)] = shadow
        shadow.touched[access.where] = True
        is_copy, does = self.step.text.startswith("cp.async"), "writes" if writes else "reads"
        is_kept = not writes and _READ_ONLY.match(self.step.text) is not None
        if (writes or is_kept) and (
            early := (shadow.kept if writes else shadow.changed)[access.where]
        ).any():
            said = "read as what nobody writes (ldu, ld.global.nc), and written by the kernel"
            self._refuse(TrapKind.RACE, access, early, segment, "reaches", said)
        shadow.kept[access.where] |= is_kept
        shadow.changed[access.where] |= writes
        if (early := shadow.copying[access.where] > 0).any():
            said = "an asynchronous copy that nobody waited for may still write"
            self._refuse(TrapKind.RACE, access, early, segment, does, said)
        if writes:
            self._write(shadow, access, segment)
            if is_copy:
                shadow.copying[access.where] = self._groups[access.thread]
            return
        shared = segment.owner is Owner.BLOCK
        if shared and (empty := shadow.written.low[access.where] == _NOBODY).any():
            self._refuse(TrapKind.UNINITIALISED, access, empty, segment, "reads", "nobody wrote")
        self._check(shadow.written, access, segment, "reads", "written")
        shadow.read.forget(access.where[shadow.read.before(access)])
        shadow.read.add(access)

    def touched(self, segment: Segment) -> int:
        """Return the bytes of a segment up to the last that was read or written."""
        shadow = self._shadows.get(id(segment))
        if shadow is None:
            return 0
        seen = np.flatnonzero(shadow.touched)
        return int(seen[-1] + 1) * self._granule if seen.size else 0

    def _mark(self, segment: Segment, where: Ints, writes: bool) -> None:
        """Take note of what depends on approximate instructions, and of who reads that."""
        text = self.step.text
        marks = self._marks.get(id(segment))
        if marks is None:
            marks = self._marks[id(segment)] = np.zeros(
                -(-segment.data.size // self._granule), bool
            )
        if marks[where].any() and (not writes or text.startswith(("atom", "red"))):
            self.inexact_loads.add(text)
        if writes:
            marks[where] = text in self.approximate.stores

    def approximate_bytes(self, segment: Segment) -> Flags:
        """Return (size,) the bytes that hold what depends on approximate instructions."""
        marks = self._marks.get(id(segment))
        if marks is None or self.approximate.everywhere:
            return np.full(segment.size, self.approximate.everywhere)
        return np.repeat(marks, self._granule)[: segment.size]

    def _write(self, shadow: _Shadow, access: _Access, segment: Segment) -> None:
        where, written = access.where, shadow.written
        self._check(shadow.read, access, segment, "writes", "read")
        number = 0 if access.values is not None else _UNTOLD
        beside = np.zeros(where.shape, np.bool_)
        if self.step.text in self.unasked:
            sort = self.step.text.split()[0].partition(".")[2]
            number = self._sums.setdefault(sort, len(self._sums) + 1)
            beside = shadow.sums[where] == number
        elif access.values is not None:
            beside = (shadow.values[where] == access.values) & (shadow.sums[where] == 0)
        beside &= written.races(access)
        self._check(written, access, segment, "writes", "written", but=beside)
        written.forget(where[~beside])
        shadow.read.forget(where)
        written.add(access)
        shadow.sums[where] = number
        alike = np.full(where.shape, number > 0)
        if access.values is not None and number == 0:
            shadow.values[where] = access.values
            alike = shadow.values[where] == access.values
        self._check(written, access, segment, "writes", "written", but=alike | beside)

    def _threads(self) -> Ints:
        """Return (32, warps) numbers of threads."""
        found: Ints = np.arange(LANES)[:, None] + _PLACES * self._warps.indices
        return found

    def _access(self, place: Place, span: int, writes: bool) -> _Access:
        warps = self._warps
        threads, offsets = self._threads(), place.offsets
        if self.step.waits is Waits.WARP:
            threads = np.broadcast_to(threads[:1] + LANES, (offsets.shape[0], threads.shape[1]))
        count = -(-span // self._granule)
        shape = threads.shape
        chosen = np.broadcast_to(np.True_ if place.chosen is None else place.chosen, shape)
        first = np.broadcast_to(offsets // self._granule, shape)[chosen]
        per_block = warps.per_block
        thread = np.repeat(threads[chosen], count)
        warp = thread // _PLACES
        block = warp // per_block
        return _Access(
            where=(first[:, None] + np.arange(count)).reshape(-1),
            thread=thread, block=block, epoch=self._waited[thread],
            arrived=self._arrived[thread], turn=self._turns[warp],
            line=self.step.line, threads=_PLACES * per_block,
            values=self._values(chosen, count, span) if writes else None,
        )  # fmt: skip

    def _values(self, chosen: Flags, count: int, span: int) -> NDArray[np.uint64] | None:
        """Return what the chosen threads write to granules, as far as a store says it."""
        written = self._warps.memory.written
        if written is None or count * self._granule != span:
            return None
        rows, warps = chosen.shape
        whole = np.broadcast_to(written, (rows, written.shape[1], warps)).swapaxes(1, 2)
        parts = np.ascontiguousarray(whole).view(f"u{self._granule}")
        return parts.reshape(rows, warps, count)[chosen].reshape(-1).astype(np.uint64)

    def _check(
        self,
        group: _Group,
        access: _Access,
        segment: Segment,
        does: str,
        done: str,
        *,
        but: Flags | None = None,
    ) -> None:
        """Refuse an access that has no order beside those of a group."""
        bad = group.races(access)
        if but is not None:
            bad &= ~but
        if not bad.any():
            return
        at = int(np.argmax(bad))
        granule, thread = access.where[at], int(access.thread[at])
        other = int(group.low[granule])
        if other == thread:
            other = int(group.high[granule])
        said = (
            f"{done} in line {group.line[granule]} by {self._name(other)}, with no common barrier "
            "in between"
        )
        self._refuse(TrapKind.RACE, access, bad, segment, does, said)

    def _refuse(
        self, kind: TrapKind, access: _Access, bad: Flags, segment: Segment, does: str, said: str
    ) -> None:
        if self._lenient:
            return
        at = int(np.argmax(bad))
        byte = int(access.where[at]) * self._granule
        where = f"byte {byte} of a buffer of {segment.size} bytes"
        if segment.owner is Owner.BLOCK:
            where = f"byte {segment.base + byte % segment.pitch:#x} of shared memory"
        refuse(
            kind,
            access.line,
            f"{self._name(int(access.thread[at]))} {does} {where}, {said}",
            (int(access.thread[at]) // _PLACES,),
        )

    def _name(self, thread: int) -> str:
        warps = self._warps
        warp, lane = divmod(thread, _PLACES)
        block, place = divmod(warp, warps.per_block)
        said = _along(LANES * place + lane % LANES, warps.block)
        of_block = f"of block {_along(block, warps.grid)}"
        if lane == LANES:
            return f"the warp of thread {said} {of_block} as a whole"
        return f"thread {said} {of_block}"


def _along(number: int, shape: tuple[int, int, int]) -> str:
    """Return a number as it is counted along the axes that there are."""
    x, y, _ = shape
    parts = [number % x, number // x % y, number // (x * y)]
    while len(parts) > 1 and shape[len(parts) - 1] == 1:
        parts.pop()
    return str(parts[0]) if len(parts) == 1 else f"({', '.join(map(str, parts))})"


class WatchedMemory(Memory):
    """Memory that lets a `Watch` see every access."""

    watch: Watch

    def synchronised(self, mask: Mask, *, waited: bool) -> None:
        """Take note that threads were at a barrier of their block, and whether they waited."""
        self.watch.passed(mask, waited)

    def everywhere(self, *_: object) -> None:
        """Have every access go by `places`."""
        return

    def places(
        self,
        space: Space,
        address: NDArray[np.uint64],
        width: int,
        owners: Owners,
        mask: Flags | None,
        writes: bool,
    ) -> tuple[list[Place], Flags | None, int]:
        """Find the bytes that addresses stand for; traps at a race."""
        found = super().places(space, address, width, owners, mask, writes)
        for place in found[0]:
            self.watch.saw(place, space, width, writes)
        self.written = None
        return found


def watched(kernel: Kernel, warps: Warps, *, lenient: bool = False) -> tuple[Kernel, Watch]:
    """Return a kernel that is watched, on warps whose memory is a `WatchedMemory`, and by whom.

    A lenient watch refuses no race.
    """
    texts = [step.text for step in kernel.steps if _MEMORY.match(step.text)]
    widths = [int(found[1] or found[2]) // 8 for one in texts if (found := _NARROW.search(one))]
    watch = Watch(warps, min(widths, default=4), lenient=lenient)
    watch.unasked = _unasked([step.text for step in kernel.steps])
    watch.approximate = dependence(kernel.steps, kernel.inexact_loads)
    assert isinstance(warps.memory, WatchedMemory)
    warps.memory.watch = watch
    warps.registers = _Garbled(warps.registers, warps.garbage)
    return replace(kernel, steps=tuple(_watched(step, watch) for step in kernel.steps)), watch


def _unasked(texts: Sequence[str]) -> frozenset[str]:
    """Return the atomic operations of a kernel whose order nobody can tell: nobody asks.

    Of `atom`, the register that gets what was there before is read nowhere in the text.
    """
    sums = {one: found for one in texts if (found := _SUM.match(one))}
    read = {
        name
        for one in texts
        for name in _NAME.findall(one[sums[one].end() :] if one in sums else one)
    }
    return frozenset(
        one for one, found in sums.items() if one.startswith("red") or found["held"] not in read
    )


def _watched(step: Step, watch: Watch) -> Step:
    operation = step.operation
    if operation is None:
        return step
    members, rejoins = step.members, step.text.startswith("bar.warp.sync")
    copies = _COPIES.match(step.text)

    def run(warps: Warps, mask: Mask) -> None:
        watch.step = step
        if members is None:
            operation(warps, mask)
            if copies:
                watch.copies(copies, mask)
            return
        _check_members(warps, members(warps), mask)
        registers = warps.registers
        assert isinstance(registers, _Garbled)
        registers.seen = mask
        operation(warps, mask)
        registers.seen = None
        if rejoins:
            watch.rejoined(mask)

    found: Operation = run
    return replace(step, operation=found)


def _check_members(warps: Warps, members: Values, mask: Mask) -> None:
    """Refuse an instruction of some lanes unless they are those that each of them names.

    Source: PTX ISA 9.7.9.6 (shfl.sync): a lane that executes it is in its mask, all lanes of the
    mask execute it with the same mask, or have exited.
    """
    shape = (LANES, warps.indices.size)
    active = np.broadcast_to(np.True_ if mask is None else mask, shape)
    exited = warps.exited()
    alive = ~np.broadcast_to(np.False_ if exited is None else exited, shape)
    named = np.broadcast_to(members, shape).astype(np.int64)
    # (lanes that execute, lanes that they name, warps)
    names = (named[:, None] >> np.arange(LANES)[None, :, None]) & 1 == 1
    fine = (active[None] & (named[:, None] == named[None])) | ~alive[None]
    lanes = np.arange(LANES)
    bad = active & (~names[lanes, lanes] | (names & ~fine).any(axis=1))
    if bad.any():
        said = "the lanes that execute this are not those that their mask names"
        refuse(TrapKind.DIVERGENT, 0, said, warps.names(bad))
