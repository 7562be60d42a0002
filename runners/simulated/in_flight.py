"""What warpgroups have in flight: multiplications, their registers, and the memory that they read.

What the ISA leaves undefined is refused, with the line (PTX ISA 9.7.15.4, 9.7.15.7).
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from runners.simulated.syntax import TrapKind, refuse
from runners.simulated.warps import (
    DTYPES,
    GARBAGE,
    LANE_NUMBERS,
    LANES,
    Key,
    Mask,
    RegisterFile,
    Values,
    WarpState,
    poison,
    spread,
)

Numbers = NDArray[np.int64]
"""(warps of the launch,), or the numbers of some of them."""


PLACES = LANES + 1
"""Numbers of a warp: one a thread, and one for what a warp does as a whole, of which nobody says
which thread reads or writes what (PTX ISA 9.7.14.4, 9.7.14.5: loads and stores of matrices)."""


def threads_of(warps: WarpState) -> Numbers:
    """Return (32, warps) numbers of threads."""
    found: Numbers = LANE_NUMBERS + PLACES * warps.indices
    return found


_NOBODY = -1


def _with_wholes(threads: Numbers) -> Numbers:
    """Return numbers of threads, and those of warps of which all lanes are among them."""
    warps, counts = np.unique(threads // PLACES, return_counts=True)
    return np.concatenate([threads, PLACES * warps[counts >= LANES] + LANES])


class Multiplication(Protocol):
    """What a warpgroup computes at a wait."""

    @property
    def shape(self) -> str:
        """Its shape, with the type of D."""

    @property
    def d(self) -> tuple[str, ...]:
        """Registers of D."""

    @property
    def a(self) -> tuple[str, ...]:
        """Registers of A, if it has them, and of metadata."""

    def compute(
        self, warps: WarpState, begun: "InQueue", here: NDArray[np.bool_],
        saved: Callable[[str], Values],
    ) -> list[Values]:  # fmt: skip
        """Return the registers of D behind it; `saved` returns what a register holds."""


class _Held:
    """A register that multiplications use: when, by the fences of each warp; -1 is never."""

    def __init__(self, warps: int) -> None:
        self.touched, self.as_d, self.as_a, self.shared = np.full((4, warps), -1)
        """When others accessed it, when it was in D or in A, and in which D: `shared`."""
        self.flying_d, self.flying_a = np.zeros((2, warps), np.int64)  # multiplications in flight
        self.saved = np.zeros((LANES, warps), np.uint32)  # what it holds for these


@dataclass(eq=False)
class InQueue:
    """A multiplication in flight, for warps of the launch."""

    product: Multiplication
    group: Numbers  # of each warp: -1 in none yet, -2 not here or done
    starts: dict[str, NDArray[np.uint64]]  # descriptors of A and B, (warps,)
    adds: NDArray[np.bool_]  # whether D is added, (warps,)
    line: int
    places: list[tuple[int, Numbers, Numbers]] = field(default_factory=list)
    """Granules of segments that are read, and the warps that read them."""


class Queue:
    """What the warps of a launch have in flight."""

    def __init__(self, warps: WarpState) -> None:
        self.size = int(warps.indices.max(initial=0)) + 1
        self.fences, self.groups = np.zeros((2, self.size), np.int64)
        self.acting: Numbers | None = None  # warps that execute; None: all
        self.begun: list[InQueue] = []
        self.now: InQueue | None = None  # what begins
        self.held: dict[str, _Held] = {}
        self._shapes: dict[Any, int] = {}
        self._marks: dict[int, tuple[NDArray[np.int8], Numbers, NDArray[np.int16]]] = {}
        """Of segments by granule: 2 written, 1 with a proxy fence since; by whom; readers."""
        # The warps hold it: else all memory of a launch waits to be collected.
        old, self._warps = warps.registers, weakref.proxy(warps)
        warps.registers = _Registers(old)
        warps.registers.__dict__ |= {**vars(old), "queue": self}

    def refuse(self, said: str, those: Numbers) -> None:
        """Refuse what has no order."""
        refuse(TrapKind.RACE, self._warps.line, said, tuple(those.tolist()))

    def touch(self, key: str) -> None:
        """Take note that the warps that execute access a register."""
        those = self._warps.indices if self.acting is None else self.acting
        held = self.held.get(key)
        if held is None:
            held = self.held[key] = _Held(self.size)
        flying = those[(held.flying_d[those] > 0) | (held.flying_a[those] > 0)]
        if flying.size:
            which = "D" if held.flying_d[flying[0]] else "an input"
            said = f"register {key} is accessed while it is {which} of the multiplication in line "
            self.refuse(
                f"{said}{self._line_of(key, int(flying[0]))}, which nobody waited for", flying
            )
        held.touched[those] = self.fences[those]

    def _line_of(self, key: str, warp: int) -> int:
        lines = (
            one.line for one in self.begun
            if one.group[warp] > -2 and key in (*one.product.d, *one.product.a)
        )  # fmt: skip
        return next(lines, 0)

    def begin(self, begun: InQueue, those: Numbers) -> None:
        """Put a multiplication into the queue."""
        product, fences = begun.product, self.fences[those]
        shape = self._shapes.setdefault((product.shape, product.d), len(self._shapes))
        if not fences.all():
            self.refuse("no wgmma.fence stands before the first multiplication", those[fences == 0])
        if len({*product.d, *product.a}) < len(product.d) + len({*product.a}):
            self.refuse("a register is given twice in D, or in D and A", those)
        for key in (*product.d, *product.a):
            held = self.held.setdefault(key, _Held(self.size))
            d, own = key in product.d, held.shared[those] == shape
            flying = held.flying_d[those] > 0
            bad = flying & ~own | (held.flying_a[those] > 0) if d else flying
            if bad.any():
                said = f"register {key} is in use by the multiplication in line "
                self.refuse(f"{said}{self._line_of(key, int(those[bad][0]))}", those[bad])
            late = (held.touched[those] == fences) | (held.as_d[those] == fences) & ~(own & d)
            late |= d & (held.as_a[those] == fences)
            if late.any():
                said = f"register {key} was accessed, and no wgmma.fence stands between that and "
                self.refuse(f"{said}the multiplication", those[late])
        raw = self._warps.registers
        for key in dict.fromkeys((*product.d, *product.a)):
            held = self.held[key]
            value = dict.get(raw, key)
            if value is None and key not in product.a and not begun.adds[those].any():
                value = poison(DTYPES[32], GARBAGE, key)
            elif value is None:
                value = raw.__missing__(key)
            whole, alive = spread(value, (LANES, self._warps.indices.size)), self._warps.indices
            fresh = np.isin(alive, those) & ((held.flying_d + held.flying_a)[alive] == 0)
            held.saved[:, alive[fresh]] = whole[:, fresh]
            garbage = np.where(fresh, poison(DTYPES[32], GARBAGE, key), whole)
            dict.__setitem__(raw, key, garbage)
        for key in product.d:
            held = self.held[key]
            held.flying_d[those] += 1
            held.as_d[those], held.shared[those] = fences, shape
        for key in {*product.a}:
            self.held[key].flying_a[those] += 1
            self.held[key].as_a[those] = fences
        self.begun.append(begun)

    def fence(self, those: Numbers) -> None:
        """Order registers before with those behind."""
        self.fences[those] += 1

    def commit(self, those: Numbers) -> None:
        """End a group."""
        for one in self.begun:
            one.group[those] = np.where(
                one.group[those] == -1, self.groups[those], one.group[those]
            )
        self.groups[those] += 1

    def wait(self, those: Numbers, pending: int) -> None:
        """Compute what is to be there: all but the newest groups."""
        for one in self.begun:
            group = one.group[those]
            ready = those[(group >= 0) & (self.groups[those] - group > pending)]
            if ready.size:
                self._finish(one, ready)
        self.begun = [one for one in self.begun if (one.group > -2).any()]

    def _finish(self, one: InQueue, ready: Numbers) -> None:
        warps, alive = self._warps, self._warps.indices
        here = np.isin(alive, ready)
        words = one.product.compute(warps, one, here, lambda key: self.held[key].saved[:, alive])
        for key, word in zip(one.product.d, words, strict=True):
            self.held[key].saved[:, alive[here]] = spread(word, (LANES, alive.size))[:, here]
        for key in one.product.d:
            self.held[key].flying_d[ready] -= 1
        for key in {*one.product.a}:
            self.held[key].flying_a[ready] -= 1
        raw = warps.registers
        for key in dict.fromkeys((*one.product.d, *one.product.a)):
            held = self.held[key]
            back = here & ((held.flying_d + held.flying_a)[alive] == 0)
            value = spread(dict.__getitem__(raw, key), (LANES, alive.size))
            dict.__setitem__(raw, key, np.where(back, held.saved[:, alive], value))
        one.group[ready] = -2
        for segment, where, readers in one.places:
            np.subtract.at(self._marks[segment][2], where[np.isin(readers, ready)], 1)
        one.places = [
            (segment, where[~np.isin(readers, ready)], readers[~np.isin(readers, ready)])
            for segment, where, readers in one.places
        ]

    # Shared memory, as `runners.simulated.races` tells it, in granules

    def _of(self, segment: int, size: int) -> tuple[NDArray[np.int8], Numbers, NDArray[np.int16]]:
        if segment not in self._marks:
            marks = np.zeros(size, np.int8), np.full(size, _NOBODY), np.zeros(size, np.int16)
            self._marks[segment] = marks
        return self._marks[segment]

    def stored(
        self, segment: int, size: int, where: Numbers, threads: Numbers, *, proxied: bool
    ) -> NDArray[np.bool_]:
        """Take note of what threads write; return where a multiplication in flight reads.

        What is written through the async proxy, it sees.
        """
        written, by, readers = self._of(segment, size)
        written[where], by[where] = 0 if proxied else 2, _NOBODY if proxied else threads
        found: NDArray[np.bool_] = readers[where] > 0
        return found

    def copied(self, segment: int, where: Numbers) -> None:
        """Take note that what threads copy is there: a proxy fence before that ordered none."""
        if segment in self._marks:
            written, by, _ = self._marks[segment]
            written[where[by[where] != _NOBODY]] = 2

    def read(self, segment: int, size: int, where: Numbers, warps: Numbers) -> NDArray[np.bool_]:
        """Take note of what begins to be read; return where the async proxy may not see it yet."""
        written, _, readers = self._of(segment, size)
        if self.now is not None:
            self.now.places.append((segment, where, warps))
            np.add.at(readers, where, 1)
        found: NDArray[np.bool_] = written[where] > 0
        return found

    def proxy_fence(self, warps: WarpState, mask: Mask) -> None:
        """Take note that threads order what they wrote before what the async proxy does."""
        threads = _with_wholes(threads_of(warps)[warps.all_of(mask)])
        for written, by, _ in self._marks.values():
            written[(written == 2) & np.isin(by, threads)] = 1

    def barrier(self, threads: Numbers) -> None:
        """Take note that threads waited for each other."""
        threads = _with_wholes(threads)
        for written, by, _ in self._marks.values():
            written[(written == 1) & np.isin(by, threads)] = 0


class _Registers(RegisterFile):
    """Registers that tell a queue who accesses them."""

    queue: Queue

    def __getitem__(self, key: Key) -> Values:
        if isinstance(key, str):
            self.queue.touch(key)
        found: Values = dict.__getitem__(self, key)
        return found

    def get(self, key: Key, default: Any = None) -> Any:
        if isinstance(key, str):
            self.queue.touch(key)
        return dict.get(self, key, default)

    def __setitem__(self, key: Key, value: Values) -> None:
        if isinstance(key, str):
            self.queue.touch(key)
        dict.__setitem__(self, key, value)


def queue_of(warps: WarpState) -> Queue:
    """Return what the warps of a launch have in flight."""
    if warps.queue is None:
        warps.queue = Queue(warps)
    found: Queue = warps.queue
    return found
