"""Detects races: which accesses of threads to memory are ordered, and which are not.

Source: PTX ISA 8 (Memory Consistency Model), 9.7.13.1 (bar.sync), 9.7.13.2 (bar.warp.sync). Two
accesses to the same bytes, of which one writes, have an order where one thread makes both, where
all threads of its block pass a barrier between them, or all lanes of its warp a `bar.warp.sync`,
or where one arrives at an mbarrier and the other has waited for that (`mbarriers`). Stores of the
same value need none, nor do atomic operations that are all the same, whose order changes no sum,
where nobody asks what was there before. Of threads that wait at a barrier for a part of their block
each has an order beside the others (9.7.13.1), followed as that of mbarriers. Fences, flags and
barriers for some lanes are not followed: what relies on them counts as a race.

Beside that it follows what of a kernel's results depends on instructions whose error alone the ISA
bounds: registers by their names through the whole text, whatever the order; in memory the bytes
that they write.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runners.simulated.decoder import DecodedKernel, Step, Waits
from runners.simulated.in_flight import PLACES, Queue, queue_of, threads_of
from runners.simulated.mbarriers import Mbarriers, mbarriers_of
from runners.simulated.scalar import APPROXIMATE
from runners.simulated.syntax import TrapKind, refuse
from runners.simulated.warps import (
    LANES,
    VARIABLES_BASE,
    Mask,
    Memory,
    MemoryPlace,
    Owner,
    Segment,
    Space,
    Values,
    WarpState,
)

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_MEMORY = re.compile(r"(?:ld|ldu|st|atom|red|cp)\b")
_NARROW = re.compile(r"\.[bus](8|16)\b|\.b?f(16)\b")
_SUM = re.compile(
    r"(?:red|atom)\.(?P<sort>(?:\S+\.)?(?:add|min|max|and|or|xor)\.(?:\S+\.)?[bus]\d+)\s+(?P<held>[^,\s]+)"
)
"""Atomic operations of integers, and, of atom, the register that gets what was there before."""
_NAME = re.compile(r"[%\w$]+")
_COPIES = re.compile(r"cp\.async\.(?:(?P<ends>commit_group)|wait_all|wait_group\s+(?P<left>\d+))")
"""Ends of groups of asynchronous copies, and waits for all, or all but the last groups of a thread
(PTX ISA 9.7.9.25.3.2, 9.7.9.25.3.3).
"""
_VARIABLES = range(VARIABLES_BASE, VARIABLES_BASE + (1 << 32))
_READ_ONLY = re.compile(r"ldu\b|ld\.(?:\S*\.)?nc\b")
"""Loads of what nobody writes meanwhile (PTX ISA 9.7.9.9, 9.7.9.10)."""
_GROUP = 4  # warps of a warpgroup (PTX ISA 9.7.15.1)
_UNPROXIED = "written with no fence.proxy.async and barrier since"
_UNTOLD = -1
_NOBODY = np.iinfo(np.int64).max
_REGISTER = re.compile(r"(?<![\w$%.])[%$A-Za-z_][\w$%]*")
_OPERAND = re.compile(r"(?:\[[^\]]*\]|\{[^}]*\}|\([^)]*\)|[^,;\[{(])+")
_ATOMIC = re.compile(r"(?:atom|red)\b")
_SIZED = re.compile(r"bar(?:rier)?(?:\.cta)?\.sync(?:\.aligned)?\s[^,;]+,\s*([^,;\s]+)")
"""A barrier that says for how many threads it is (PTX ISA 9.7.13.1)."""
_NOWHERE = re.compile(r"(?:bra|brx|call|bar|barrier)\b(?!\.\S*red)")
"""Instructions whose first operand is no register that they write."""


def _is_for_some(text: str, threads: int) -> bool:
    """Whether an instruction is a barrier for other threads than all of a block, or may be one."""
    found = _SIZED.match(text)
    return found is not None and found[1] != str(threads)


def _names(*texts: str) -> set[str]:
    return set(_REGISTER.findall(" ".join(texts)))


def _dependent(steps: Sequence[Step], loads: Collection[str]) -> tuple[frozenset[str], bool]:
    """Return the stores of what depends on approximate instructions, by their texts.

    And whether they decide where something is written, or what is executed. `loads` are the texts
    of instructions that were seen to read what does.
    """
    found = {step.text for step in steps if APPROXIMATE.match(step.text)}
    if not found:
        return frozenset(), False
    found |= set(loads)
    rows = []  # of each step what it writes, what it reads, and what of that decides
    stores = set()
    for step in steps:
        opcode, _, rest = step.text.rstrip(";").partition(" ")
        operands = [each.strip() for each in _OPERAND.findall(rest)]
        guard = {step.guard.rpartition(":")[2].partition("#")[0]} if step.guard else set()
        at_first = bool(operands) and operands[0].startswith("[")
        written = operands[:1] if not (at_first or _NOWHERE.match(opcode)) else []
        deciding = set[str]()
        if step.goals or step.index or not (step.operation or step.barrier):
            deciding = _names(*operands) | guard
        elif at_first or _ATOMIC.match(opcode):
            stores.add(step.text)
            deciding = _names(*[each for each in operands if each.startswith("[")][:1]) | guard
        read = _names(*operands[len(written) :]) | guard
        rows.append((step.text, _names(*written) - {"_"}, read, deciding))
    names, before = set[str](), -1
    while before < len(names) + len(found):
        before = len(names) + len(found)
        for text, written_names, read, _ in rows:
            if text in found or read & names:
                found.add(text)
                names |= written_names
    return frozenset(stores & found), any(deciding & names for *_, deciding in rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class _TracedAccess:
    """What one instruction does to granules of a segment; all arrays are of the same shape."""

    segment: Segment
    where: Ints
    thread: Ints
    block: Ints
    epoch: Ints  # the last barrier of its block at which the thread waited, counted from 1
    arrived: Ints  # the last at which it was
    turn: Ints  # barriers of the warp
    values: NDArray[np.uint64] | None  # what is written, if that is told
    writes: bool
    order: Mbarriers | None
    """Who knows what of whom, where there are mbarriers; `arrived` is its time then."""


class _Group(NamedTuple):
    """Who did something to each granule of a segment last: a range of threads, and when.

    The lowest is above the highest where nobody did; before the last of them were so many barriers
    of the block, the most of any, and of the warp.
    """

    low: Ints
    high: Ints
    epoch: Ints
    turn: Ints
    line: Ints


def _nobody(size: int) -> _Group:
    return _Group(np.full(size, _NOBODY), np.full(size, -1), *np.zeros((3, size), np.int64))


def _forget(group: _Group, where: Ints) -> None:
    group.low[where], group.high[where] = _NOBODY, -1


def _add(group: _Group, access: _TracedAccess, line: int) -> None:
    where = access.where
    # Of lanes and of warps as a whole, all in between are asked for later.
    low, whole = group.low[where], _whole(access)
    mixed = (low <= group.high[where]) & ((low % PLACES == LANES) != whole)
    np.minimum.at(group.low, where, access.thread)
    group.low[where[mixed]] -= group.low[where[mixed]] % PLACES
    np.maximum.at(group.high, where, access.thread)
    group.turn[where] = access.turn
    np.maximum.at(group.epoch, where, access.arrived)
    group.line[where] = line


def _whole(access: _TracedAccess) -> Flags:
    """Return where warps access as a whole: twice, these may be two threads."""
    found: Flags = access.thread % PLACES == LANES
    return found


def _before(group: _Group, access: _TracedAccess, per_block: int) -> Flags:
    """Return where all of a group come before an access of the same block by a barrier of it."""
    low, high = group.low[access.where], group.high[access.where]
    same: Flags = (low // per_block == access.block) & (high // per_block == access.block)
    epoch = group.epoch[access.where]
    if access.order is None:
        same &= epoch < access.epoch
        return same
    same[same] = access.order.before(epoch[same], low[same], high[same], access.thread[same])
    return same


def _racing(
    group: _Group, access: _TracedAccess, per_block: int, *, present: bool = False
) -> Flags:
    """Return where one of a group has no order beside an access, which, `present`, is the group."""
    where, thread = access.where, access.thread
    low, high = group.low[where], group.high[where]
    warp = thread // PLACES
    same = (low // PLACES == warp) & (high // PLACES == warp)
    alone = (low == thread) & (high == thread) & (present | ~_whole(access))
    fine = (low > high) | alone | _before(group, access, per_block)
    found: Flags = ~(fine | (same & (group.turn[where] < access.turn)))
    return found


class _Shadow(NamedTuple):
    """What happened to the granules of a segment."""

    written: _Group
    read: _Group
    sums: Ints  # which atomic operation wrote it, 0 where a store did whose value is told
    copying: Ints  # group of the asynchronous copy to it that may be on its way, counted from 1
    values: NDArray[np.uint64]  # what was stored last
    touched: Flags  # what somebody touched, wrote, and read who said that nobody writes it
    changed: Flags
    kept: Flags


def _untouched(size: int) -> _Shadow:
    (sums, copying), flags = np.zeros((2, size), np.int64), np.zeros((3, size), np.bool_)
    return _Shadow(_nobody(size), _nobody(size), sums, copying, np.zeros(size, np.uint64), *flags)


class WatchedMemory(Memory):
    """Memory that follows the accesses of a launch to it, and refuses races.

    A granule has the bytes of the narrowest access.
    """

    def watch(self, kernel: DecodedKernel, warps: WarpState) -> DecodedKernel:
        """Return a kernel that is watched while it runs on warps whose memory this is."""
        texts = [step.text for step in kernel.steps]
        narrow = [
            found for text in texts if _MEMORY.match(text) and (found := _NARROW.search(text))
        ]
        self._granule = min([int(found[1] or found[2]) // 8 for found in narrow], default=4)
        self._warps = warps
        self._per_block = PLACES * warps.per_block
        self._waited, self._arrived = np.zeros((2, PLACES * warps.indices.size), np.int64)
        self._turns = np.zeros(warps.indices.size, np.int64)
        self._groups = np.ones(PLACES * warps.indices.size, np.int64)  # of each next copy
        self._shadows: dict[int, _Shadow] = {}  # by segments, as what follows
        self._marks: dict[int, Flags] = {}  # what depends on approximate instructions
        self._sums: dict[str, int] = {}
        self._unasked = frozenset(_unasked(texts))
        self._stores, self._everywhere = _dependent(kernel.steps, kernel.inexact_loads)
        self.inexact_loads: set[str] = set()  # instructions that read what is marked
        self._step = Step(line=0)  # what executes
        self._mbarriers: Mbarriers | None = None
        if any("mbarrier" in text or _is_for_some(text, warps.threads) for text in texts):
            self._mbarriers = mbarriers_of(warps)
            self._mbarriers.watching = self
        self._queue: Queue | None = None
        if any(text.startswith("wgmma") for text in texts):
            self._queue = queue_of(warps)
        warps.watched = True
        return replace(kernel, steps=tuple(map(self._watched, kernel.steps)))

    def end(self) -> None:
        """Watch no longer: memory and warps hold each other, and 100 MB wait to be collected."""
        del self._warps

    def _watched(self, step: Step) -> Step:
        operation = step.operation
        if operation is None:
            return step
        members, copies = step.members, _COPIES.match(step.text)

        def run(warps: WarpState, mask: Mask) -> None:
            self._step = step
            if self._queue is not None:
                self._queue.acting = warps.indices[warps.all_of(mask).any(axis=0)]
            if members is None:
                operation(warps, mask)
                if copies:
                    self._end_copies(copies, mask)
                if self._mbarriers is not None and step.text.startswith("wgmma.wait_group"):
                    whole = warps.indices[warps.all_of(mask).all(axis=0)]
                    self._mbarriers.finish(whole[whole % warps.per_block % _GROUP == 0])
                return
            _check_members(warps, members(warps), mask)
            operation(warps, mask)
            if step.text.startswith("bar.warp.sync"):
                # It counts where all of the warp are there.
                nobody = warps.places >= warps.threads
                those = (warps.all_of(mask) | nobody).all(axis=0)
                self._turns[warps.indices[those]] += 1
                if self._mbarriers is not None:
                    for warp in warps.indices[those].tolist():
                        self._mbarriers.meet(PLACES * warp + np.arange(LANES))

        return replace(step, operation=run)

    def synchronised(self, mask: Mask, *, waited: bool) -> None:
        """Take note that threads, and warps as a whole, were at a barrier, and if they waited."""
        there, indices = self._warps.all_of(mask), self._warps.indices
        arrived = self._arrived.reshape(-1, PLACES)[indices].T
        arrived[:LANES] += there
        arrived[LANES] = arrived[:LANES].max(axis=0)
        self._arrived.reshape(-1, PLACES)[indices] = arrived.T
        if waited:
            last = self._waited.reshape(-1, PLACES)[indices].T
            last[:LANES] = np.where(there, arrived[:LANES], last[:LANES])
            last[LANES] = last[:LANES].min(axis=0)
            self._waited.reshape(-1, PLACES)[indices] = last.T
            if self._mbarriers is not None:
                for block in np.unique(self._warps.blocks[there.any(axis=0)]):
                    those = there & (self._warps.blocks == block)
                    self._mbarriers.meet(self._threads()[those])
            if self._queue is not None:
                self._queue.barrier(self._threads()[there])

    def brought(self, segment: Segment, start: int, size: int) -> None:
        """Take note that somebody has waited for bytes that are copied in bulk."""
        first, stop = start // self._granule, -(-(start + size) // self._granule)
        self._shadows[id(segment)].copying[first:stop] = 0

    def check_left(self) -> None:
        """Refuse the end of a launch before what is copied in bulk has come."""
        found = [] if self._mbarriers is None else [*self._mbarriers.found.values()]
        if left := [one.by // PLACES for one in found if one.coming or one.there]:
            said = "the kernel ends, and nobody waited for a copy in bulk"
            refuse(TrapKind.RACE, self._step.line, said, tuple(left))

    def end_group(self, thread: int) -> int:
        """End a group of copies of a thread; return the number of the next one."""
        self._groups[thread] += 1
        return int(self._groups[thread])

    def acquired(self, threads: Ints, copied: Mapping[int, int]) -> None:
        """Take note that somebody waits at an mbarrier for threads, and for copies of threads."""
        if self._queue is not None:
            self._queue.barrier(threads)
        there = np.full(self._groups.size, -1)
        for thread, number in copied.items():
            there[thread] = number
        self._finish_copies(there)

    def _end_copies(self, found: re.Match[str], mask: Mask) -> None:
        """Take note that threads end a group of asynchronous copies, or that copies are there."""
        those = self._threads()[self._warps.all_of(mask)]
        if found["ends"]:
            self._groups[those] += 1
            return
        there = np.full(self._groups.size, -1)
        left = found["left"]
        there[those] = _NOBODY if left is None else self._groups[those] - int(left)
        self._finish_copies(there)

    def _finish_copies(self, there: Ints) -> None:
        """Take note that copies are there: by threads, of all groups below a number."""
        for segment, shadow in self._shadows.items():
            (where,) = np.nonzero(shadow.copying)
            done = shadow.copying[where] < there[shadow.written.low[where]]
            shadow.copying[where[done]] = 0
            if self._queue is not None:
                self._queue.copied(segment, where[done])

    def places(self, space: Space, address: Any, width: int, *more: Any) -> Any:
        """Find the bytes that addresses stand for; traps at a race."""
        found = super().places(space, address, width, *more)
        for place in found[0]:
            self._saw(place, width, writes=more[-1])
        self.written = None
        return found

    def _saw(self, place: MemoryPlace, span: int, writes: bool) -> None:
        """Take note of accesses of `span` bytes, or refuse them."""
        segment, text = place.segment, self._step.text
        if segment.read_only or (segment.owner is Owner.THREAD and not self._stores):
            return
        access = self._access(place, span, writes)
        where, size = access.where, -(-segment.data.size // self._granule)
        if self._stores:
            # What depends on approximate instructions, and who reads that.
            marks = self._marks.setdefault(id(segment), np.zeros(size, np.bool_))
            if marks[where].any() and (not writes or text.startswith(("atom", "red"))):
                self.inexact_loads.add(text)
            if writes:
                marks[where] = text in self._stores
        if segment.owner is Owner.THREAD:
            return
        if writes and segment.base in _VARIABLES:
            said = "a variable of the module: the next launch would find that there"
            self._refuse(access, np.ones(where.shape, np.bool_), said)
        if (shadow := self._shadows.get(id(segment))) is None:
            shadow = self._shadows[id(segment)] = _untouched(size)
        shadow.touched[where] = True
        is_kept = not writes and _READ_ONLY.match(text) is not None
        if writes or is_kept:
            said = "read as what nobody writes (ldu, ld.global.nc), and written by the kernel"
            self._refuse(access, (shadow.kept if writes else shadow.changed)[where], said)
        shadow.kept[where] |= is_kept
        shadow.changed[where] |= writes
        if self._queue is not None and segment.owner is Owner.BLOCK:
            if writes:
                bulk = text.startswith("cp.async.bulk")
                if bulk:
                    late = self._queue.read(id(segment), size, where, access.thread)
                    self._refuse(access, late, _UNPROXIED)
                said = "which a multiplication in flight reads"
                bad = self._queue.stored(id(segment), size, where, access.thread, proxied=bulk)
                self._refuse(access, bad, said)
            elif text.startswith("wgmma.mma_async"):
                warps = access.thread // PLACES
                late = self._queue.read(id(segment), size, where, warps)
                self._refuse(access, late, _UNPROXIED)
        said = "an asynchronous copy that nobody waited for may still write"
        self._refuse(access, shadow.copying[where] > 0, said)
        if writes:
            self._write(shadow, access)
            if self._step.waits is Waits.WARP and span >= self._granule:
                self._refuse(access, np.bincount(where)[where] > 1, "which it writes twice")
            if text.startswith("cp.async"):
                bulk = text.startswith("cp.async.bulk")
                shadow.copying[where] = _NOBODY if bulk else self._groups[access.thread]
            return
        if segment.owner is Owner.BLOCK:
            empty = shadow.written.low[where] == _NOBODY
            self._refuse(access, empty, "nobody wrote", TrapKind.UNINITIALISED)
        self._check(shadow.written, access, "written")
        _forget(shadow.read, where[_before(shadow.read, access, self._per_block)])
        _add(shadow.read, access, self._step.line)

    def touched(self, segment: Segment) -> int:
        """Return the bytes of a segment up to the last that was read or written."""
        shadow = self._shadows.get(id(segment))
        seen = np.flatnonzero([] if shadow is None else shadow.touched)
        return int(seen[-1] + 1) * self._granule if seen.size else 0

    def approximate_bytes(self, segment: Segment) -> Flags:
        """Return (size,) the bytes that hold what depends on approximate instructions."""
        marks = self._marks.get(id(segment))
        if marks is None or self._everywhere:
            return np.full(segment.size, self._everywhere)
        return np.repeat(marks, self._granule)[: segment.size]

    def _write(self, shadow: _Shadow, access: _TracedAccess) -> None:
        where, written, text = access.where, shadow.written, self._step.text
        self._check(shadow.read, access, "read")
        number = 0 if access.values is not None else _UNTOLD
        beside = np.zeros(where.shape, np.bool_)
        if text in self._unasked:
            sort = text.split()[0].partition(".")[2]
            number = self._sums.setdefault(sort, len(self._sums) + 1)
            beside = shadow.sums[where] == number
        elif access.values is not None:
            beside = (shadow.values[where] == access.values) & (shadow.sums[where] == 0)
        beside &= _racing(written, access, self._per_block)
        self._check(written, access, "written", but=beside)
        _forget(written, where[~beside])
        _forget(shadow.read, where)
        _add(written, access, self._step.line)
        shadow.sums[where] = number
        alike = np.full(where.shape, number > 0)
        if access.values is not None and number == 0:
            shadow.values[where] = access.values
            alike = shadow.values[where] == access.values
        self._check(written, access, "written", but=alike | beside, present=True)

    def _threads(self) -> Ints:
        """Return (32, warps) numbers of threads."""
        return threads_of(self._warps)

    def _access(self, place: MemoryPlace, span: int, writes: bool) -> _TracedAccess:
        threads, offsets = self._threads(), place.offsets
        if self._step.waits is Waits.WARP:
            threads = np.broadcast_to(threads[:1] + LANES, (offsets.shape[0], threads.shape[1]))
        count = -(-span // self._granule)
        shape = threads.shape
        chosen = np.broadcast_to(np.True_ if place.chosen is None else place.chosen, shape)
        first = np.broadcast_to(offsets // self._granule, shape)[chosen]
        thread = np.repeat(threads[chosen], count)
        # What is written, as far as a store says it.
        values, written = None, self.written
        if writes and written is not None and count * self._granule == span:
            whole = np.broadcast_to(written, (shape[0], written.shape[1], shape[1]))
            parts = np.ascontiguousarray(whole.swapaxes(1, 2)).view(f"u{self._granule}")
            values = parts.reshape(*shape, count)[chosen].reshape(-1).astype(np.uint64)
        order = self._mbarriers
        arrived = self._arrived[thread] if order is None else np.full(thread.shape, order.now)
        return _TracedAccess(
            segment=place.segment, where=(first[:, None] + np.arange(count)).reshape(-1),
            thread=thread, block=thread // self._per_block, epoch=self._waited[thread],
            arrived=arrived, turn=self._turns[thread // PLACES], order=order,
            values=values, writes=writes,
        )  # fmt: skip

    def _check(
        self, group: _Group, access: _TracedAccess, done: str, *, but: Flags | None = None,
        present: bool = False,
    ) -> None:  # fmt: skip
        """Refuse an access that has no order beside those of a group."""
        bad = _racing(group, access, self._per_block, present=present)
        if but is not None:
            bad &= ~but
        if not bad.any():
            return
        at = int(np.argmax(bad))
        granule, thread = access.where[at], int(access.thread[at])
        other = int(group.low[granule])
        if other == thread:
            other = int(group.high[granule])
        by = f"{done} in line {group.line[granule]} by {self._name(other)}"
        self._refuse(access, bad, f"{by}, with no common barrier in between")

    def _refuse(
        self, access: _TracedAccess, bad: Flags, said: str, kind: TrapKind = TrapKind.RACE
    ) -> None:
        """Refuse what an access does where it is bad, if that is anywhere."""
        if not bad.any():
            return
        at, segment = int(np.argmax(bad)), access.segment
        byte, thread = int(access.where[at]) * self._granule, int(access.thread[at])
        where = f"byte {byte} of a buffer of {segment.size} bytes"
        if segment.owner is Owner.BLOCK:
            where = f"byte {segment.base + byte % segment.pitch:#x} of shared memory"
        said = f"{self._name(thread)} {'writes' if access.writes else 'reads'} {where}, {said}"
        refuse(kind, self._step.line, said, (thread // PLACES,))

    def _name(self, thread: int) -> str:
        warp, lane = divmod(thread, PLACES)
        block, place = divmod(warp, self._warps.per_block)
        said = f"thread {LANES * place + lane % LANES} of block {block}"
        return f"the warp of {said} as a whole" if lane == LANES else said


def _unasked(texts: Sequence[str]) -> Iterator[str]:
    """Give the atomic operations of a kernel of whose order nobody asks.

    Of `atom`, the register that gets what was there before is read nowhere in the text.
    """
    sums = {text: found for text in texts if (found := _SUM.match(text))}
    rest = (text[sums[text].end() :] if text in sums else text for text in texts)
    read = {name for text in rest for name in _NAME.findall(text)}
    for text, found in sums.items():
        if text.startswith("red") or found["held"] not in read:
            yield text


def _check_members(warps: WarpState, members: Values, mask: Mask) -> None:
    """Refuse an instruction of some lanes unless they are those that each of them names.

    Source: PTX ISA 9.7.9.6 (shfl.sync): all lanes of the mask execute it with the same mask, or
    exited.
    """
    active, exited = warps.all_of(mask), warps.exited()
    alive = ~warps.all_of(np.zeros((1, 1), np.bool_) if exited is None else exited)
    named = np.broadcast_to(members, active.shape).astype(np.int64)
    # (lanes that execute, lanes that they name, warps)
    names = (named[:, None] >> np.arange(LANES)[None, :, None]) & 1 == 1
    fine = (active[None] & (named[:, None] == named[None])) | ~alive[None]
    lanes = np.arange(LANES)
    bad = active & (~names[lanes, lanes] | (names & ~fine).any(axis=1))
    if bad.any():
        said = "the lanes that execute this are not those that their mask names"
        refuse(TrapKind.DIVERGENT, 0, said, warps.names(bad))
