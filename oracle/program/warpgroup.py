"""What the four warps of a warpgroup do together (PTX ISA 9.7.15), and what of it is in flight.

A multiplication of a warpgroup reads A from registers or shared memory and B from shared memory,
and runs on while the program goes on: until a `wgmma.wait_group` that covers its group, nobody may
touch its registers or overwrite what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.descriptors import MatrixDescriptor, byte_addresses, bytes_taken
from oracle.isa.forms import LANES, WARPGROUP, Form
from oracle.program.breaches import Breach
from oracle.program.operands import (
    Place,
    Register,
    Registers,
    Span,
    StepBase,
    Uniform,
    Use,
    check,
    check_range,
    check_vector,
    fields_alone,
)

THREADS = WARPGROUP * LANES
MAX_PENDING = 7
"""Most groups that a wait leaves pending: machine code has 3 bits, and ptxas makes a greater number
7 (13.5, 2026-11-28)."""
ALIGNMENT = 1024
"""Of a warpgroup's shared memory, in bytes: the longest pattern of a swizzle (9.7.15.5.1.2)."""
ORDERING, DESCRIPTORS, ACCUMULATORS = "9.7.15.7", "9.7.15.5.1.2.2", "9.7.15.5.2"
COPIES, BULK, MBARRIERS = "9.7.9.25.3", "9.7.9.25.4.1", "9.7.13.15"
BULK_BYTES = 16
"""Of what the addresses and the size of a copy in bulk are multiples (9.7.9.25.4.1)."""
MBARRIER_BYTES, MAX_MBARRIERS = 8, 64
"""Of an mbarrier, and its alignment (9.7.13.15.1); 480 drawn programs had up to 13 (2026-11-30)."""


@dataclass(frozen=True, kw_only=True)
class SharedTile:
    """A or B in shared memory, as its descriptor says; offsets in bytes."""

    place: Place
    leading: int = 0
    stride: int = 0
    swizzle: int = 16
    base_offset: int = 0
    transposed: bool = False
    """Whether elements along M or N are adjacent, not those along K: imm-trans."""
    built: str = "add"
    """How code makes the descriptor, one of WAYS."""

    @property
    def descriptor(self) -> MatrixDescriptor:
        """The descriptor, with a start counted from the buffer, which is a multiple of 1024."""
        return MatrixDescriptor(
            start=self.place.offset, leading=self.leading, stride=self.stride,
            base_offset=self.base_offset, swizzle=self.swizzle,
        )  # fmt: skip


WAYS = ("add", "or", "mad", "shuffled", "selected", "halves", "loaded")
"""Ways to build a descriptor."""


@dataclass(frozen=True, kw_only=True)
class AsyncProduct(StepBase):
    """A wgmma.mma_async, dense or sparse: D = A x B + D."""

    form: Form
    d: str
    a: str = ""
    """Registers of A; "" of an A in shared memory."""
    e: str = ""
    """The register with metadata of a sparse A."""
    a_tile: SharedTile | None = None
    b_tile: SharedTile
    scale_d: Uniform = 1
    """Whether D is added: 0, 1, or what a predicate is made of."""
    scale_a: int = 1
    scale_b: int = 1
    """1 or -1, by which each element counts."""
    selector: int | None = None

    action: ClassVar[str] = "multiply_async"
    steered: ClassVar[str] = "scale_d"

    def __post_init__(self) -> None:
        check((self.a == "") != (self.a_tile is None), "A lies in registers or in shared memory")
        for name in (self.d, self.a, self.e):
            if name:
                check_vector(name, "vector of registers")
        check(bool(self.e) == self.form.has_metadata, "a sparse A has metadata, a dense one none")
        if isinstance(self.scale_d, int):
            check(self.scale_d in (0, 1), f"scale-d is {self.scale_d}; it is 0, 1, or a predicate")
        scales = {1, -1} if "imm-scale-a" in self.form.operands else {1}
        check({self.scale_a, self.scale_b} <= scales, "a scale of A or B is 1 or -1; 1 of integers")
        has_selector = self.selector is not None
        check(has_selector == self.form.has_metadata, "a sparse A has a selector, a dense one none")
        check_range(self.selector or 0, 0, 3, "sparsity selector")
        for tile in self.tiles.values():
            text = f"{self.form.opcode} has no transposed matrices"
            check(not tile.transposed or "imm-trans-b" in self.form.operands, text)
            check(tile.built in WAYS, f"a descriptor is built by {', '.join(WAYS)}")
            _ = tile.descriptor  # checks its own fields

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.form, self.d, self.a, self.a_tile, self.b_tile, self.scale_d))

    __getstate__ = fields_alone

    @property
    def instruction(self) -> Form:
        return self.form

    @property
    def fields(self) -> dict[str, Any]:
        found = super().fields
        left = {"a": "", "e": "", "a_tile": None, "selector": None}
        return {name: one for name, one in found.items() if one != left.get(name, object())}

    @property
    def tiles(self) -> dict[str, SharedTile]:
        """The matrices in shared memory, by "a" and "b"."""
        found = {} if self.a_tile is None else {"a": self.a_tile}
        return found | {"b": self.b_tile}

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        d, a = (Registers.of(self.form.vectors[name]) for name in "da")
        found = [] if self.scale_d == 0 else [Use(field="d", name=self.d, holds=d)]
        found.append(Use(field="d", name=self.d, holds=d, written=True))
        if self.a:
            found.append(Use(field="a", name=self.a, holds=a))
        if self.e:
            found.append(Use(field="e", name=self.e, holds=Registers(registers=1)))
        return tuple(found)

    @property
    def carried(self) -> str | None:
        return None if self.scale_d == 0 else self.d

    @cached_property
    def arms(self) -> tuple[tuple[AsyncProduct], tuple[AsyncProduct]]:
        """What is done of it where scale-d holds, and where not."""
        return (self.changed(scale_d=1),), (self.changed(scale_d=0),)

    def addresses(self, operand: str) -> NDArray[np.int64]:
        """Return the byte of the buffer of each byte of A or B, (lines, bytes of a line)."""
        tile = self.tiles[operand]
        return byte_addresses(self.form.matrix(operand), tile.descriptor, tile.transposed)

    def bytes_of(self, operand: str) -> NDArray[np.int64]:
        """Return the bytes of the buffer that A or B takes, in order."""
        tile = self.tiles[operand]
        return bytes_taken(self.form.matrix(operand), tile.descriptor, tile.transposed)

    @cached_property
    def accumulator(self) -> tuple[tuple[Register, ...], str, str]:
        """Registers of D, shape and type: what two multiplications in a row may share."""
        assert self.writes is not None
        return self.writes.registers, self.form.shape.name, self.form.d_type.name

    @cached_property
    def of_d(self) -> frozenset[Register]:
        """The registers of D."""
        return frozenset(self.accumulator[0])

    @cached_property
    def of_a(self) -> frozenset[Register]:
        """The registers of A, and of its metadata."""
        read = (use for use in self.reads if use.field in "ae")
        return frozenset(register for use in read for register in use.registers)

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        found = list(super().bytes_read)
        for operand, tile in self.tiles.items():
            bytes_ = self.bytes_of(operand)
            ends = np.flatnonzero(np.diff(bytes_) != 1) + 1
            runs, name = np.split(bytes_, ends), tile.place.buffer
            found += [Span.block(name, int(run[0]), len(run)) for run in runs]
        return tuple(found)

    def __str__(self) -> str:
        a = self.a or _tile_text(self.b_tile if self.a_tile is None else self.a_tile)
        text = f"{self.form.opcode}: {self.d} = {a} x {_tile_text(self.b_tile)}"
        if not isinstance(self.scale_d, int):
            text += f" + {self.d} if {self.scale_d}"
        elif self.scale_d:
            text += f" + {self.d}"
        signs = [name for name in "ab" if getattr(self, f"scale_{name}") < 0]
        text += f", {' and '.join(signs)} negated" if signs else ""
        return text + (f", a placed by {self.e}, selector {self.selector}" if self.e else "")


def _tile_text(tile: SharedTile) -> str:
    text = f"{tile.place.buffer}+{tile.place.offset}" if tile.place.offset else tile.place.buffer
    return f"{text} (leading {tile.leading}, stride {tile.stride}, swizzle {tile.swizzle})"


SYNCS = {
    "fence": "wgmma.fence.sync.aligned",
    "commit_group": "wgmma.commit_group.sync.aligned",
    "wait_group": "wgmma.wait_group.sync.aligned {pending}",
    "proxy_fence": "fence.proxy.async.shared::cta",
    "copy_commit": "cp.async.commit_group",
    "copy_wait": "cp.async.wait_group {pending}",
    "bulk_wait": "mbarrier.try_wait.parity.shared::cta.b64",
}
"""Instructions that order what a warpgroup multiplies, without and with memory, and its copies."""


@dataclass(frozen=True, kw_only=True)
class WarpgroupSync(StepBase):
    """A fence of registers or of proxies, the end of a group, or a wait for groups."""

    action: ClassVar[str] = "warpgroup_sync"

    kind: str
    """A key of SYNCS."""
    pending: int = 0
    """Newest groups that a wait leaves pending."""
    mbarrier: int | None = None
    """Of a wait for a copy in bulk: where that is counted. The parity is that of waits so far."""

    def __post_init__(self) -> None:
        check(self.kind in SYNCS, f"there is no {self.kind!r}; there are {', '.join(SYNCS)}")
        most = MAX_PENDING if self.kind in ("wait_group", "copy_wait") else 0
        check_range(self.pending, 0, most, f"groups that a {self.kind} leaves pending")
        text = "a wait for a copy in bulk, and nothing else here, has an mbarrier"
        check((self.kind == "bulk_wait") == (self.mbarrier is not None), text)

    @property
    def text(self) -> str:
        """The instruction."""
        return SYNCS[self.kind].format(pending=self.pending)

    def __str__(self) -> str:
        text = self.kind.replace("_", " ") + (f" {self.pending}" if self.pending else "")
        return text if self.mbarrier is None else f"{text} at mbarrier {self.mbarrier}"


# What is in flight


class Wrong(NamedTuple):
    """What makes a step undefined."""

    cause: Breach
    text: str
    section: str


Bytes = slice | NDArray[np.int64]
"""Bytes of shared memory."""
_Accumulator = tuple[tuple[Register, ...], str, str]


@dataclass(slots=True)
class InFlight:
    """Multiplications in flight on some path to a step, and registers touched since the last fence.

    All threads take the same steps, so that one of these stands for the warpgroup.
    """

    unproxied: NDArray[np.bool_]
    """Bytes of shared memory written, and those accessed, on some path, with no fence of proxies
    since: (2, bytes)."""
    unseen: NDArray[np.bool_]
    """Those with such a fence, and no barrier behind it."""
    offset: Callable[[str], int]
    """Where a buffer begins."""
    ages: dict[AsyncProduct, int] = field(default_factory=dict)
    """Groups that were committed behind the one of each, at least; -1: it is in none yet."""
    fenced: bool = False
    touched: set[Register] = field(default_factory=set)
    accumulated: dict[Register, _Accumulator | None] = field(default_factory=dict)
    """D's since the last fence; None where paths have several."""
    multiplied: set[Register] = field(default_factory=set)
    """Registers of A's since the last fence."""
    copies: dict[Any, int] = field(default_factory=dict)
    """Asynchronous copies (`Copy`) in flight, with the groups behind that of each, as of `ages`."""
    phases: dict[int, bool | None] = field(default_factory=dict)
    """Of mbarriers: whether a copy is counted there, which nobody waited for, or none, with no
    barrier since the wait; None where paths differ. All others may be used."""

    @staticmethod
    def of(size: int, offset: Callable[[str], int]) -> InFlight:
        """Return what there is at the start of a program with so many bytes of shared memory."""
        return InFlight(np.zeros((2, size), np.bool_), np.zeros((2, size), np.bool_), offset)

    def copy(self) -> InFlight:
        """Return another that changes apart."""
        return InFlight(
            self.unproxied.copy(), self.unseen.copy(), self.offset, {**self.ages}, self.fenced,
            {*self.touched}, {**self.accumulated}, {*self.multiplied}, {**self.copies},
            {**self.phases},
        )  # fmt: skip

    def joined(self, other: InFlight) -> InFlight:
        """Return what is so on one of two paths."""
        accumulated = {
            register: one if one == other.accumulated.get(register, one) else None
            for register, one in (other.accumulated | self.accumulated).items()
        }
        phases = {
            one: begun if begun is other.phases.get(one, False) else None
            for one, begun in (dict.fromkeys(other.phases, False) | self.phases).items()
        }
        return InFlight(
            self.unproxied | other.unproxied, self.unseen | other.unseen, self.offset,
            _least(self.ages, other.ages), self.fenced and other.fenced,
            self.touched | other.touched, accumulated, self.multiplied | other.multiplied,
            _least(self.copies, other.copies), phases,
        )  # fmt: skip

    def touch(self, registers: Iterable[Register]) -> Iterator[Wrong]:
        """Take note that other instructions access registers, and say what is wrong with it."""
        mine = set(registers)
        self.touched |= mine
        for step in self.ages:
            for name, its in (("D", step.of_d), ("A", step.of_a)):
                if held := mine & its:
                    yield _held(held, name, step)

    def begin(self, step: AsyncProduct) -> Iterator[Wrong]:
        """Take note that a multiplication begins, and say what is wrong with it."""
        own, d, a = step.accumulator, step.of_d, step.of_a
        if both := d & a:
            text = f"{_name(both)} belongs to D and to A of one multiplication; part them"
            yield Wrong(Breach.IN_FLIGHT, text, ACCUMULATORS)
        for other in self.ages:
            if own != other.accumulator and (held := d & other.of_d):
                yield _held(held, "D of another shape, type or order", other)
            if held := d & other.of_a:
                yield _held(held, "A", other)
            if held := a & other.of_d:
                yield _held(held, "D", other)
        late = (d | a) & self.touched | d & self.multiplied
        late |= {one for one in d if self.accumulated.get(one, own) != own}
        late |= {one for one in a if one in self.accumulated}
        if late:
            text = f"{_name(late)} was accessed since the last wgmma.fence; put one between"
            yield Wrong(Breach.UNFENCED, text, ORDERING)
        if not self.fenced:
            yield Wrong(Breach.UNFENCED, "no wgmma.fence stands before it on every path", ORDERING)
        self.ages[step] = -1
        self.accumulated |= dict.fromkeys(d, own)
        self.multiplied |= a

    def synchronise(self, step: WarpgroupSync) -> NDArray[np.bool_]:
        """Take a fence, a commit or a wait; return the bytes whose reading has ended with it."""
        before = self._taken() if step.kind == "wait_group" and self.ages else None
        left, pending = self.copies, step.pending
        match step.kind:
            case "fence":
                self.fenced = True
                self.touched, self.accumulated, self.multiplied = set(), {}, set()
            case "commit_group":
                self.ages = {one: age + 1 for one, age in self.ages.items()}
            case "wait_group":
                self.ages = {one: age for one, age in self.ages.items() if age < step.pending}
            case "copy_commit":
                self.copies = {one: age + 1 for one, age in self.copies.items()}
            case "copy_wait":
                self.copies = {
                    one: n for one, n in left.items() if n < pending or one.mbarrier is not None
                }
            case "bulk_wait":
                self.copies = {one: n for one, n in left.items() if one.mbarrier != step.mbarrier}
            case "proxy_fence":
                self.unseen |= self.unproxied
                self.unproxied[...] = False
        return np.zeros_like(self.unseen[0]) if before is None else before & ~self._taken()

    def count(self, step: StepBase, number: int) -> Iterator[Wrong]:
        """Take note that a copy in bulk begins at an mbarrier, and say what is wrong with that."""
        if number in self.phases:
            text = f"mbarrier {number} counts another copy, or perhaps not all threads have waited "
            yield Wrong(Breach.PHASE, f"{text}for that; put wait and barrier between", MBARRIERS)
        self.copies[step], self.phases[number] = -1, True

    def end_phase(self, number: int) -> Iterator[Wrong]:
        """Take note of a wait at an mbarrier, and say what is wrong with it."""
        if self.phases.get(number) is not True:
            text = (
                f"not on every path a copy is counted at mbarrier {number}, so that the wait may "
            )
            yield Wrong(Breach.PHASE, f"{text}never end; begin one before", MBARRIERS)
        self.phases[number] = False

    def barrier(self) -> None:
        """Take note of a barrier of all threads."""
        self.unseen[...] = False
        self.phases = {one: begun for one, begun in self.phases.items() if begun is not False}

    def late(self, bytes_: Bytes, *, stores: bool) -> NDArray[np.bool_]:
        """Return which bytes the async proxy may not see yet, or may not write yet."""
        row = int(stores)
        found: NDArray[np.bool_] = self.unproxied[row, bytes_] | self.unseen[row, bytes_]
        return found

    def copied(self, space: str, bytes_: Bytes, *, stores: bool) -> NDArray[np.bool_]:
        """Return which bytes that are accessed copies in flight write, or read and are written."""
        if not self.copies:
            return np.zeros(0, np.bool_)
        numbers = np.arange(bytes_.start, bytes_.stop) if isinstance(bytes_, slice) else bytes_
        found = np.zeros(numbers.shape, np.bool_)
        for copy in self.copies:
            (span,) = copy.bytes_written if space == "shared" else copy.bytes_read
            start = self.offset(span.buffer) + span.start
            if space == "shared" or stores:
                found |= (numbers >= start) & (numbers < start + span.run)
        return found

    def access(self, bytes_: Bytes, *, stores: bool, proxied: bool) -> NDArray[np.bool_]:
        """Take note that bytes are accessed; return which are written that are read in flight."""
        if not proxied:
            self.unproxied[1 - stores :, bytes_] = True
        return self._taken()[bytes_] if self.ages and stores else np.zeros(0, np.bool_)

    def _taken(self) -> NDArray[np.bool_]:
        """Return the bytes that multiplications in flight read."""
        taken: NDArray[np.bool_] = np.zeros(self.unseen.shape[1], np.bool_)
        for step in self.ages if taken.size else ():
            for operand, tile in step.tiles.items():
                bytes_ = step.bytes_of(operand) + self.offset(tile.place.buffer)
                if bytes_[0] < 0 or bytes_[-1] >= taken.size:
                    bytes_ = bytes_[(bytes_ >= 0) & (bytes_ < taken.size)]
                taken[bytes_] = True
        return taken


_Begun = TypeVar("_Begun")


def _least(ages: dict[_Begun, int], others: dict[_Begun, int]) -> dict[_Begun, int]:
    return others | {one: min(age, others.get(one, age)) for one, age in ages.items()}


def _name(registers: Set[Register]) -> str:
    first = min(registers)
    return f"register {first.bank}.{first.number}"


def _held(registers: Set[Register], operand: str, step: AsyncProduct) -> Wrong:
    text = f"{_name(registers)} is {operand} of a multiplication in flight ({step}); wait for its "
    return Wrong(Breach.IN_FLIGHT, f"{text}group first", ORDERING)
