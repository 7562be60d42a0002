"""Barriers that are objects in shared memory: mbarrier, and copies in bulk that tell them.

Source: PTX ISA 9.7.13.15 (mbarrier), 9.7.9.25.4 (cp.async.bulk), 9.7.13.15.17
(cp.async.mbarrier.arrive). Who waits for a phase is held until it is complete: of the moments at
which `try_wait` and `test_wait` may answer, the last. A copy in bulk reads when it is asked for,
and what it writes is garbage until somebody has waited for its phase.

Where accesses are watched, each thread knows how far it has come behind every other: what an
arrival releases, a wait acquires. `runners.simulated.races` asks for that.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.access import Form
from runners.simulated.in_flight import PLACES, threads_of
from runners.simulated.operands import SINK, OperandReader, Source
from runners.simulated.syntax import TrapKind, refuse
from runners.simulated.warps import (
    LANES,
    Mask,
    Memory,
    Operation,
    Segment,
    Space,
    Values,
    WarpState,
    read_runs,
    write_runs,
)

Ints = NDArray[np.int64]
_MOST_COUNT, _MOST_BYTES = (1 << 20) - 1, (1 << 20) - 1
"""Arrivals and bytes that a phase can wait for (9.7.13.15.1)."""
_MOST_ORDERS = (64 * PLACES) ** 2
"""Most of what is followed, in 36 MB: places of a launch, each with those of its block."""
_ALIGNMENT, _COPIED, _PIECE = 8, 16, 1024
"""Of an mbarrier; of what a copy in bulk reads, writes and counts; of what is moved at once: bytes.
"""


@dataclass
class _Barrier:
    """One mbarrier object."""

    by: int  # who initialised it, and when
    since: int
    count: int
    pending: int = 0  # arrivals that the phase lacks
    bytes: int = 0  # that are expected, less those that were copied
    phase: int = 0
    released: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """By places: what those have released who have arrived in this phase."""
    complete: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """The same of the phase before, with which a wait for that ends."""
    copies: dict[int, int] = field(default_factory=dict)
    """Of threads: the number of the first group of copies that no phase has counted yet."""
    copied: dict[int, int] = field(default_factory=dict)  # the same of the phase before
    fenced: bool = False  # whether the async proxy may see that it was initialised
    coming: list[tuple[Segment, int, NDArray[np.uint8]]] = field(default_factory=list)
    """Where copies in bulk of this phase go, and what they bring."""
    there: list[tuple[Segment, int, NDArray[np.uint8]]] = field(default_factory=list)
    """The same of phases before, for which nobody has waited."""


class Mbarriers:
    """The mbarrier objects of a launch, and who knows what of whom."""

    def __init__(self, warps: WarpState) -> None:
        size = PLACES * (int(warps.indices.max(initial=0)) + 1)
        self.own = PLACES * warps.per_block  # places of a block
        if size * self.own > _MOST_ORDERS:
            most = _MOST_ORDERS // (PLACES * self.own)
            said = "with mbarrier, or barriers for some of a block, at most "
            said += f"{most} warps are simulated"
            refuse(TrapKind.UNSUPPORTED, 0, f"{said}; launch a smaller grid")
        self.found: dict[tuple[int, int], _Barrier] = {}
        self.now = 0  # how often anybody has released something
        self.known = np.zeros((size, self.own), np.int64)
        """By whoever knows it: up to when what each place of its block did is behind it."""
        self.watching: Any = None  # what follows copies, and what the async proxy may see

    def release(self, thread: int) -> Ints:
        """Let a thread release what it did, and its warp as a whole; return what it knows."""
        known: Ints = self.known[thread]
        whole = thread // PLACES * PLACES + LANES
        self.now += 1
        known[[thread % self.own, whole % self.own]] = self.now
        return known

    def meet(self, threads: Ints) -> None:
        """Let threads of a block that have all waited for each other know what each knew."""
        places = np.unique(np.concatenate((threads, threads // PLACES * PLACES + LANES)))
        self.now += 1
        merged = self.known[places].max(axis=0)
        merged[places % self.own] = self.now
        self.known[places] = merged

    def at(self, warps: WarpState, block: int, address: int, thread: int) -> _Barrier:
        """Return an object; refuse what is none, or is not yet for a thread."""
        found = self.found.get((block, address))
        if found is None:
            said = f"there is no mbarrier at shared address {address:#x}"
            refuse(TrapKind.UNINITIALISED, warps.line, said, (thread // PLACES,))
        known = found.by == thread or self.known[thread, found.by % self.own] > found.since
        if self.watching is not None and not known:
            said = f"the mbarrier at shared address {address:#x} was initialised by another thread"
            refuse(TrapKind.RACE, warps.line, f"{said}, with no barrier since", (thread // PLACES,))
        return found

    def arrive(self, barrier: _Barrier, thread: int, count: int, bytes_: int) -> None:
        """Count an arrival, and bytes that are to be copied or, less than 0, were."""
        known = self.release(thread)
        barrier.released = np.maximum(known, barrier.released) if barrier.released.size else +known
        barrier.pending, barrier.bytes = barrier.pending - count, barrier.bytes + bytes_
        if barrier.pending < 0 or abs(barrier.bytes) > _MOST_BYTES:
            said = "more arrive at an mbarrier than its count, or more bytes than it holds"
            refuse(TrapKind.RACE, 0, said, (thread // PLACES,))
        if barrier.pending == 0 and barrier.bytes == 0:
            barrier.phase, barrier.pending = barrier.phase ^ 1, barrier.count
            barrier.complete, barrier.released = barrier.released, barrier.released[:0]
            barrier.copied = {**barrier.copies}
            barrier.there, barrier.coming = barrier.there + barrier.coming, []

    def bring(
        self, barrier: _Barrier, thread: int, segment: Segment, start: int, size: int, garbage: int
    ) -> None:
        """Count bytes that a copy in bulk has written, which are garbage until the wait."""
        if not barrier.fenced:
            # Bytes are counted through the async proxy (9.7.9.25.4.1), and what is accessed
            # through two proxies needs a fence of these (9.7.9.25.2).
            said = "a copy in bulk counts at an mbarrier that was initialised with no "
            said += "fence.mbarrier_init or fence.proxy.async since"
            refuse(TrapKind.RACE, 0, said, (thread // PLACES,))
        written = segment.data[start : start + size]
        barrier.coming.append((segment, start, written.copy()))
        written[:] = garbage
        self.arrive(barrier, thread, 0, -size)

    def acquire(self, barrier: _Barrier, thread: int) -> None:
        """Let a thread know what the arrivals of the last phase have released, and see copies."""
        for segment, start, brought in barrier.there:
            segment.data[start : start + brought.size] = brought
            if self.watching is not None:
                self.watching.brought(segment, start, brought.size)
        barrier.there = []
        if self.watching is None:
            return
        if barrier.complete.size:
            self.known[thread] = np.maximum(self.known[thread], barrier.complete)
            first = thread // PLACES * PLACES
            self.known[first + LANES] = self.known[first : first + LANES].min(axis=0)
        first = thread // self.own * self.own
        self.watching.acquired(first + np.flatnonzero(barrier.complete), barrier.copied)

    def end_group(self, barrier: _Barrier, thread: int) -> None:
        """Count the copies of a thread so far to a phase."""
        if self.watching is not None:
            barrier.copies[thread] = self.watching.end_group(thread)

    def fence(self, warps: WarpState, mask: Mask) -> None:
        """Take note that threads order what they know to be initialised before the async proxy."""
        threads = threads_of(warps)[warps.all_of(mask)]
        for one in self.found.values():
            known = self.known[threads, one.by % self.own] > one.since
            known &= threads // self.own == one.by // self.own
            one.fenced |= bool((known | (threads == one.by)).any())

    def finish(self, first: Ints) -> None:
        """Let warpgroups know that all their warps have read what they multiplied.

        `first` are their first warps. A multiplication is of all four (9.7.15.1).
        """
        for warp in first.tolist():
            wholes = (PLACES * (warp + np.arange(4)) + LANES) % self.own
            self.now += 1
            self.known[PLACES * warp : PLACES * (warp + 4), wholes] = self.now

    def before(self, epoch: Ints, low: Ints, high: Ints, threads: Ints) -> NDArray[np.bool_]:
        """Return where what places from `low` to `high` did up to a time is behind a thread.

        All are of one block.

        If both are of warps as a whole, what single lanes did in between is not asked for.
        """
        size = len(self.known)
        keys, order = np.unique((threads * size + low) * size + high, return_inverse=True)
        least = []
        for key in keys.tolist():
            rest, last = divmod(key, size)
            thread, first = divmod(rest, size)
            step = PLACES if first % PLACES == last % PLACES == LANES else 1
            first, last = first % self.own, last % self.own
            least.append(self.known[thread, first : last + 1 : step].min())
        found: NDArray[np.bool_] = epoch < np.array(least, np.int64)[order]
        return found


def most_launches(steps: Iterable[Any], warps: int, blocks: int) -> int:
    """Return how many launches of so many warps and blocks fit into one, by the instructions."""
    orders = any("mbarrier" in one.text for one in steps) * PLACES**2 * warps * (warps // blocks)
    return _MOST_ORDERS // max(1, orders)


def mbarriers_of(warps: WarpState) -> Mbarriers:
    """Return the mbarrier objects of a launch."""
    if warps.mbarriers is None:
        warps.mbarriers = Mbarriers(warps)
    found: Mbarriers = warps.mbarriers
    return found


def _each(warps: WarpState, mask: Mask, *values: Any) -> Any:
    """Iterate over threads that execute: number, block, and values of each."""
    there, whole = warps.all_of(mask), (LANES, warps.indices.size)
    blocks = np.broadcast_to(warps.blocks, whole)[there]
    wide = (np.broadcast_to(value, whole)[there] for value in values)
    rows = (threads_of(warps)[there], blocks, *wide)
    return zip(*(row.tolist() for row in rows), strict=True)


def _objects(warps: WarpState, mask: Mask, *values: Any) -> Any:
    """Iterate over threads that execute: number, object at the first value, and other values."""
    these = mbarriers_of(warps)
    for thread, block, address, *more in _each(warps, mask, *values):
        yield thread, these.at(warps, block, address, thread), *more


def _address(operands: OperandReader, given: Any) -> Any:
    return operands.address(given, Space.SHARED)


def _init(operands: OperandReader, match: re.Match[str]) -> Operation:
    operands.need(80)
    place, given = operands.expect(2)
    where, count = _address(operands, place), operands.source(given, 32)

    def run(warps: WarpState, mask: Mask) -> None:
        warps.check_alignment(where(warps), _ALIGNMENT, mask)
        these = mbarriers_of(warps)
        for thread, block, address, number in _each(warps, mask, where(warps), count(warps)):
            if not 1 <= number <= _MOST_COUNT:
                said = f"an mbarrier for {number} arrivals; there are 1 to {_MOST_COUNT}"
                refuse(TrapKind.OUT_OF_BOUNDS, 0, said, (thread // PLACES,))
            these.found[block, address] = _Barrier(thread, these.now, number, pending=number)

    return run


def _invalidate(operands: OperandReader, match: re.Match[str]) -> Operation:
    (place,) = operands.expect(1)
    where = _address(operands, place)

    def run(warps: WarpState, mask: Mask) -> None:
        these = mbarriers_of(warps)
        for thread, block, address in _each(warps, mask, where(warps)):
            these.at(warps, block, address, thread)
            del these.found[block, address]

    return run


def _arrive(operands: OperandReader, match: re.Match[str]) -> Operation:
    arrives = match["arrives"] is not None
    operands.need(80 if arrives else 90)
    expects = (match["expects"] or match["only"]) is not None
    given = list(operands.expect(*((3,) if expects else (2, 3)) if arrives else (2,)))
    if arrives and getattr(given.pop(0), "text", "") != SINK:
        operands.unsupported("the state that an arrival returns is not simulated; give _")
    where = _address(operands, given[0])
    number = operands.source(given[1], 32) if len(given) > 1 else None

    def run(warps: WarpState, mask: Mask) -> None:
        these = mbarriers_of(warps)
        numbers = np.ones((1, 1), np.uint32) if number is None else number(warps)
        for thread, barrier, more in _objects(warps, mask, where(warps), numbers):
            these.arrive(barrier, thread, *((int(arrives), more) if expects else (more, 0)))

    return run


def _arrive_copied(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Arrive when the copies of a thread are there; without .noinc, an arrival more is counted."""
    operands.need(80)
    (place,) = operands.expect(1)
    where, counted = _address(operands, place), match["noinc"] is not None

    def run(warps: WarpState, mask: Mask) -> None:
        these = mbarriers_of(warps)
        for thread, barrier in _objects(warps, mask, where(warps)):
            these.end_group(barrier, thread)
            these.arrive(barrier, thread, int(counted), 0)

    return run


def _wait(operands: OperandReader, match: re.Match[str]) -> tuple[Operation, Source]:
    """Return what threads do whose phase is complete, and who these are."""
    operands.need(90 if match["tries"] else 80)
    target, place, given, *_ = operands.expect(3, 4)
    key, where = operands.destination(target, 1), _address(operands, place)
    if not match["parity"]:
        operands.unsupported("a wait for a state is not simulated, one for a parity is")
    parity = operands.source(given, 32)

    def run(warps: WarpState, mask: Mask) -> None:
        these = mbarriers_of(warps)
        for thread, barrier in _objects(warps, mask, where(warps)):
            these.acquire(barrier, thread)
        warps.write(key, np.ones((1, 1), np.bool_), mask)

    def ready(warps: WarpState) -> Values:
        these, found = mbarriers_of(warps), []
        for _, block, address, which in _each(warps, None, where(warps), parity(warps)):
            barrier = these.found.get((block, address))
            found.append(barrier is None or barrier.phase != which & 1)
        return np.array(found, np.bool_).reshape(LANES, -1)

    return run, ready


def _copy(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Copy bytes from global to shared memory, and count them at an mbarrier."""
    operands.need(90)
    hints = int(match["hint"] is not None)
    target, origin, given, place, *_ = operands.expect(4 + hints)
    to, source = operands.address(target, Space.SHARED), operands.address(origin, Space.GLOBAL)
    size, where = operands.source(given, 32), _address(operands, place)

    def run(warps: WarpState, mask: Mask) -> None:
        these, whole = mbarriers_of(warps), (LANES, warps.indices.size)
        starts, stops, sizes = (np.broadcast_to(each(warps), whole) for each in (source, to, size))
        for address in (starts, stops, sizes):
            warps.check_alignment(address.astype(np.uint64), _COPIED, mask)
        there = warps.all_of(mask) & (sizes > 0)
        for count in np.unique(sizes[there]).tolist():
            those = there & (sizes == count)
            for first in range(0, count, _PIECE):
                at, words = np.uint64(first), min(_PIECE, count - first) // 8
                values = read_runs(warps, Space.GLOBAL, starts + at, words, 8, those)
                write_runs(warps, Space.SHARED, stops + at, values, those)
            # Who watches has seen the bytes that are written.
            found, *_ = Memory.places(
                warps.memory, Space.SHARED, stops, count, warps.owners, those, True
            )
            for place in found:
                chosen = those if place.chosen is None else those & place.chosen
                offsets = np.broadcast_to(place.offsets, whole)
                for thread, barrier, start in _objects(warps, chosen, where(warps), offsets):
                    garbage = warps.garbage & 0xFF
                    these.bring(barrier, thread, place.segment, start, count, garbage)

    return run


def _fence(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Order initialisations before what others, and the async proxy, do (9.7.13.4)."""
    operands.need(90)
    operands.expect(0)
    return lambda warps, mask: mbarriers_of(warps).fence(warps, mask)


_SCOPES = r"(?:\.(?:release|relaxed|acquire|cta|cluster))*"
_PLACE = r"(?:\.shared(?:::cta)?)?"
FORMS: tuple[Form, ...] = (
    (_init, rf"mbarrier\.init{_PLACE}\.b64"),
    (_fence, r"fence\.mbarrier_init\.release\.cluster"),
    (_invalidate, rf"mbarrier\.inval{_PLACE}\.b64"),
    (_arrive, rf"mbarrier\.(?:(?P<arrives>arrive)(?P<expects>\.expect_tx)?|(?P<only>expect_tx))"
     rf"{_SCOPES}{_PLACE}\.b64"),
    (_arrive_copied, rf"cp\.async\.mbarrier\.arrive(?P<noinc>\.noinc)?{_PLACE}\.b64"),
    (_copy, r"cp\.async\.bulk\.shared::(?:cluster|cta)\.global"
     r"\.mbarrier::complete_tx::bytes(?P<hint>\.L2::cache_hint)?"),
)  # fmt: skip
"""What each thread does by itself."""
_WAITING = re.compile(
    rf"mbarrier\.(?:(?P<tries>try)|test)_wait(?P<parity>\.parity)?{_SCOPES}{_PLACE}\.b64"
)


def waiting(operands: OperandReader) -> tuple[Operation, Source] | None:
    """Return what an instruction does that waits for a phase, and for whom; None if it does not."""
    match = _WAITING.fullmatch(operands.instruction.opcode)
    return None if match is None else _wait(operands, match)
