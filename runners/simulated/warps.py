"""Memory, warps and registers of a launch, special registers, and what goes between all of them.

Arrays have two axes, (lanes, warps), lanes first so that the warp index runs fastest. An axis of
length 1 stands for a value that is the same along it. Source: PTX ISA 5.1 (State Spaces), 6.4.1
(Generic Addressing), 10 (Special Registers). The windows are far apart, so that an address of one
space taken for one of another is out of bounds.
"""

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runners.simulated.syntax import WARP_SIZE, TrapKind, refuse

BASES = (0x7F10_0000_0000, 0x7F90_0000_0000, 0x7FA0_0000_0000, 0x7FB0_0000_0000)
"""Global addresses of the arrays that a launch is given, aligned as cudaMalloc does, and more."""
VARIABLES_BASE = 0x7FC0_0000_0000  # global address of the module's own variables
LARGEST_SHARED = 0xC000
"""Static shared memory of a block: ptxas refuses more (13.5). Dynamic one lies behind."""
MEMORY_GARBAGE = 0xA5
"""What shared and local memory holds, which hardware never clears."""
ELEMENTS = {width: np.dtype(f"u{width}") for width in (1, 2, 4, 8)} | {16: np.dtype(np.complex128)}
"""Storage of an element by its bytes; what has 16 is only moved."""
_PADDING = 16  # bytes of the largest element as which a buffer can be seen
_LAST = (1 << 64) - 1

Addresses = NDArray[np.uint64]
"""(rows, warps or 1) byte addresses."""
Flags = NDArray[np.bool_]


class Space(StrEnum):
    """A state space that an address is in."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    CONST = "const"
    PARAM = "param"  # parameters of a kernel; those of functions lie in local memory


WINDOWS = {
    Space.GLOBAL: 0,
    Space.SHARED: 0x7E00_0000_0000,
    Space.LOCAL: 0x7D00_0000_0000,
    Space.CONST: 0x7C00_0000_0000,
    Space.PARAM: 0x7B00_0000_0000,
}
"""Generic address of byte 0 of each space."""


class Owner(StrEnum):
    """Which threads share one copy of a segment."""

    LAUNCH = "launch"
    BLOCK = "block"
    THREAD = "thread"


Owners = Mapping[Owner, NDArray[np.int64]]
"""Numbers of the threads that access, as owners: int64 that can be broadcast to (lanes, warps)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Segment:
    """A stretch of one state space that exists.

    `data` are flat bytes, padded beyond `size`, all owners' one after the other, `pitch` apart.
    """

    base: int  # address in its space
    size: int  # bytes that may be touched
    data: NDArray[np.uint8]
    owner: Owner = Owner.LAUNCH
    pitch: int = 0
    read_only: bool = False


def holding(base: int, content: bytes | NDArray[np.uint8], *, read_only: bool = False) -> Segment:
    """Return a segment that the launch has once, with what it holds."""
    if not len(content):
        return _empty(base)
    data = np.zeros(_padded(len(content)), np.uint8)
    data[: len(content)] = np.frombuffer(content, np.uint8)
    return Segment(base=base, size=len(content), data=data, read_only=read_only)


@cache
def _empty(base: int) -> Segment:
    return Segment(base=base, size=0, data=np.zeros(0, np.uint8))


def _shared_out(base: int, size: int, owner: Owner, owners: int, garbage: int) -> Segment:
    """Return a segment of which so many have a share each, with garbage in it."""
    if not size:
        return _empty(base)
    pitch = _padded(size)
    data = np.full(pitch * owners, garbage, np.uint8)
    if garbage != MEMORY_GARBAGE:
        # No two places hold the same by rule, so that none cancels another.
        data += np.resize(_uneven(MEMORY_GARBAGE - garbage), data.size)
    return Segment(base=base, size=size, data=data, owner=owner, pitch=pitch)


@cache
def _uneven(below: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(below, size=4099, dtype=np.uint8)


def _within(held: Segment, offset: Addresses, owners: Owners) -> NDArray[np.int64]:
    """Return the indices into a segment's data of byte offsets into each owner's share."""
    index = offset.view(np.int64)
    return index if held.owner is Owner.LAUNCH else index + owners[held.owner] * held.pitch


def _padded(size: int) -> int:
    return -(-size // _PADDING) * _PADDING


class MemoryPlace(NamedTuple):
    """Where part of the threads of an access go."""

    segment: Segment
    offsets: NDArray[np.int64]  # (rows, warps) into `segment.data`, of it where not chosen, too
    chosen: Flags | None  # (rows, warps or 1); None is all
    union: int  # low bits that any of the offsets, or of those into other segments, has


@dataclass(frozen=True, kw_only=True, eq=False)
class Static:
    """What a kernel needs beside the images, and what it holds before it runs."""

    shared_bytes: int  # static, of a block
    base: int  # of the first variable in each space; in global memory beyond `VARIABLES_BASE`
    local_bytes: int  # of a thread: its variables, and the parameters of the functions it calls
    variables: bytes  # of the module, in global memory
    constants: bytes


@cache
def constant_of(value: int) -> Addresses:
    """Return a number, modulo 2^64, as an array of no axes: NumPy is faster with those."""
    return np.array(value & _LAST, np.uint64)


class Memory:
    """What a launch can address; global memory has segments it is given, and the variables."""

    written: NDArray[Any] | None = None
    """(rows, elements, warps or 1): what the present access writes, where it is a plain store."""

    def __init__(
        self, segments: tuple[Segment, ...], *, static: Static, parameters: bytes, blocks: int,
        warps: int, dynamic_bytes: int = 0, garbage: int = MEMORY_GARBAGE,
    ) -> None:  # fmt: skip
        base, out = static.base, _shared_out
        shared = [out(base, static.shared_bytes, Owner.BLOCK, blocks, garbage)]
        if dynamic_bytes:
            shared.append(out(LARGEST_SHARED, dynamic_bytes, Owner.BLOCK, blocks, garbage))
        found = {
            Space.GLOBAL: [*segments, holding(VARIABLES_BASE + base, static.variables)],
            Space.SHARED: shared,
            Space.LOCAL: [out(base, static.local_bytes, Owner.THREAD, WARP_SIZE * warps, garbage)],
            Space.CONST: [holding(base, static.constants, read_only=True)],
            Space.PARAM: [holding(0, parameters, read_only=True)],
        }
        self._candidates = {
            space: [(segment, constant_of(segment.base)) for segment in segments]
            for space, segments in found.items()
        }
        self._candidates[Space.GENERIC] = [
            (segment, constant_of(segment.base + WINDOWS[space]))
            for space, segments in found.items()
            for segment in segments
            if segment.size
        ]

    def synchronised(self, mask: Flags | None, *, waited: bool) -> None:
        """Take note that threads were at a barrier of their block, and whether they waited."""

    def places(
        self, space: Space, address: Addresses, width: int, owners: Owners, mask: Flags | None,
        writes: bool,
    ) -> tuple[list[MemoryPlace], Flags | None, int]:  # fmt: skip
        """Find the `width` bytes that (rows, warps) addresses stand for, where the mask is set.

        Return where they are; those that are outside every segment, None if none is; the bits that
        say how the addresses are aligned.
        """
        found, missing, candidates = list[MemoryPlace](), mask, self._candidates[space]
        # Nearly always all addresses are in one segment: the one that was found last is the first.
        # An address below the base wraps to a huge offset, so one comparison bounds it on both
        # sides.
        segment, base = candidates[0]
        limit = segment.size - width
        offset = address - base
        # No offset is above the union of all. Segments start at multiples of 2^32.
        union = int(np.bitwise_or.reduce(offset, axis=None))
        inside_all = union <= limit or (
            int(np.maximum.reduce(offset, axis=None, initial=0)) <= limit
        )
        if inside_all and not (writes and segment.read_only):
            place = MemoryPlace(segment, _within(segment, offset, owners), mask, union)
            return [place], None, union
        lowest = int(np.minimum.reduce(address, axis=None, initial=_LAST))
        highest = int(np.maximum.reduce(address, axis=None, initial=0))
        for number, (segment, base) in enumerate(candidates):
            start, limit = int(base), segment.size - width
            if limit < 0 or (writes and segment.read_only):
                continue
            if start > highest or start + limit < lowest:
                continue
            offset = address - base
            if start <= lowest and highest <= start + limit:
                candidates.insert(0, candidates.pop(number))
                found.append(MemoryPlace(segment, _within(segment, offset, owners), missing, union))
                return found, None, union
            inside = offset <= np.uint64(limit)
            if missing is not None:
                inside = inside & missing
            if inside.any():
                index = np.where(inside, _within(segment, offset, owners), 0)
                found.append(MemoryPlace(segment, index, inside, union))
                missing = ~inside if missing is None else missing & ~inside
        missing = np.ones(address.shape, np.bool_) if missing is None else missing
        return found, missing if missing.any() else None, union


LANES = WARP_SIZE
"""Threads of a warp (PTX ISA 3.1)."""
Values = NDArray[Any]
"""Raw bits of one register: (1 or 32 lanes, 1 or all warps), unsigned of the register's width, or
bool for a predicate."""
Mask = NDArray[np.bool_] | None
"""Threads for which an instruction takes effect, shaped like `Values`; None is all of them."""
DTYPES = {1: np.dtype(np.bool_)} | {bits: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}
"""Storage of a value by its width in bits."""
LANE_NUMBERS = np.arange(LANES)[:, None]
GARBAGE = 0xDEADBEEFDEADBEEF
"""What a register holds in the threads that never wrote it: neither zero nor a small number."""
MULTIPROCESSORS = 132  # of a simulated device: those of an H200
SLOTS = 64
"""Warps of a multiprocessor (CUDA C++ Programming Guide, Technical Specifications, 9.0)."""


def spread(values: Values, shape: tuple[int, ...]) -> Values:
    """Return values in a shape that they are to be broadcast to, in full."""
    if values.shape == shape:
        return values
    # Faster than np.broadcast_to, and nearly all arrays are small.
    found: Values = np.empty(shape, values.dtype)
    found[...] = values
    return found


@lru_cache(maxsize=1 << 14)
def poison(dtype: np.dtype[Any], garbage: int, key: str) -> Values:
    """Return (1, 1) what a register of a type holds that nobody wrote.

    Where it is not `GARBAGE`, each register has another, so that none of two cancels the other.
    """
    # Of a predicate a bit in which the two garbages of a device differ.
    part = 4 if dtype == np.bool_ else (1 << 8 * dtype.itemsize) - 1
    if garbage != GARBAGE and dtype != np.bool_:
        garbage ^= zlib.crc32(key.encode()) * 0x1_0000_0001
    return np.full((1, 1), garbage & part, np.uint64).astype(dtype)


@lru_cache(maxsize=1 << 14)
def constant(value: int, bits: int) -> Values:
    """Return (1, 1) raw bits of an integer, wrapped to the width; not to be written to."""
    found: Values = np.empty((1, 1), DTYPES[bits])
    found[0, 0] = bool(value) if bits == 1 else value & ((1 << bits) - 1)
    found.flags.writeable = False
    return found


Key = str | tuple[int, int]
"""Where a value lies: a register's key, or a constant with its bits, which nobody writes."""


class RegisterFile(dict[Key, Values]):
    """Values by their keys; a register that no thread has written traps, or is as `shown`."""

    shown: Callable[[str], Values] | None = None

    def __missing__(self, key: Key) -> Values:
        if isinstance(key, tuple):
            found = constant(*key)
        elif self.shown is not None:
            found = self.shown(key)
        else:
            refuse(TrapKind.UNINITIALISED, 0, f"register {key} is read before it is written")
        self[key] = found
        return found


class Site(NamedTuple):
    """Where and when an instruction executes, for faults that depend on it."""

    warps: NDArray[np.int64]  # (warps,) index of each warp in the launch
    sms: NDArray[np.uint32]  # its multiprocessor
    launch: int  # how many launches the device made before this one
    line: int


@dataclass(kw_only=True)
class WarpState:
    """The warps that are still alive."""

    indices: NDArray[np.int64]  # (warps,) index of each warp in the launch
    block: tuple[int, int, int]  # threads of a block along x, y and z
    sms: NDArray[np.uint32]  # (warps,) the multiprocessor that each warp runs on
    slots: NDArray[np.uint32]  # (warps,) the place of each warp on its multiprocessor
    launch: int  # how many launches the device made before this one
    memory: Memory
    grid: tuple[int, int, int]  # blocks of the launch along x, y and z
    dynamic_bytes: int = 0  # dynamic shared memory of a block
    passes: int = 1  # most images that a warp takes, one after another
    most_steps: int | None = None  # after which the launch counts as hung; None: a bound for any
    exited: Callable[[], Mask] = lambda: None  # the threads that have, or never were; None: nobody
    garbage: int = GARBAGE  # other than usual where all that the ISA leaves open is
    watched: bool = False  # whether lanes see garbage of those that are not with them
    steps: int = 0  # instructions that were executed in this launch so far
    line: int = 0  # line of the instruction that executes
    registers: RegisterFile = field(default_factory=RegisterFile)
    queue: Any = None  # what warpgroups have in flight (`runners.simulated.in_flight.Queue`)
    mbarriers: Any = None  # `runners.simulated.mbarriers.Mbarriers`

    def __post_init__(self) -> None:
        x, y, z = self.block
        self.otherwise = self.garbage != GARBAGE
        self.threads = x * y * z  # of a block
        self.per_block = -(-self.threads // LANES)  # the last may have fewer threads than lanes

    @property
    def blocks(self) -> NDArray[np.int64]:
        """(warps,) index of each warp's block."""
        return self.indices // self.per_block

    @property
    def places(self) -> NDArray[np.int64]:
        """(32, warps) index of each thread in its block; `threads` and more where there is none."""
        return LANE_NUMBERS + self.indices % self.per_block * LANES

    @property
    def time(self) -> int:
        """The device's clock: 2^20 for each launch, and 1 for each instruction; or 3, later."""
        return (self.launch << 20) + self.steps * (3 if self.otherwise else 1)

    @cached_property
    def owners(self) -> Owners:
        """Blocks, (warps,), and threads, (32, warps), of the launch, which own memory."""
        return {Owner.BLOCK: self.blocks, Owner.THREAD: LANE_NUMBERS + LANES * self.indices}

    def read_copied(self, register: str, bits: int) -> Values:
        """Return a register's bits, also of one that no thread has written."""
        value = self.registers.get(register)
        return poison(DTYPES[bits], self.garbage, register) if value is None else value

    def write(self, register: str, value: Values, mask: Mask) -> None:
        """Give a register new bits in the threads of the mask; nothing to the sink, `_`."""
        if mask is not None:
            old = self.registers.get(register)
            if old is None:
                old = poison(value.dtype, self.garbage, register)
            value = np.where(mask, value, old)
        self.registers[register] = value

    def drop(self, kept: NDArray[np.bool_]) -> None:
        """Forget the warps, of shape (warps,), that are not kept: they have exited."""
        self.__dict__.pop("owners", None)
        self.indices = self.indices[kept]
        self.sms, self.slots = self.sms[kept], self.slots[kept]
        held, old = type(self.registers)(), self.registers.items()
        dict.update(held, {name: v if v.shape[1] == 1 else v[:, kept] for name, v in old})
        held.__dict__ |= vars(self.registers)
        self.registers = held

    def all_of(self, mask: Mask) -> NDArray[np.bool_]:
        """Return a mask as (32, warps)."""
        return np.broadcast_to(np.True_ if mask is None else mask, (LANES, self.indices.size))

    def names(self, bad: Mask = None) -> tuple[int, ...]:
        """Return the indices of the warps with a thread for which `bad`, (lanes, warps), holds."""
        some = True if bad is None else bad.any(axis=0)
        return tuple(self.indices[np.broadcast_to(some, self.indices.shape)].tolist())

    def uniform(self, value: Values, what: str, mask: Mask) -> Values:
        """Return a value as (1, warps or 1) if all active lanes of each warp agree, else trap."""
        if value.shape[0] == 1:
            return value
        differs = value != value[:1]
        if mask is not None:
            differs = differs & mask
        if differs.any():
            said = f"{what} differs between the lanes of a warp"
            refuse(TrapKind.DIVERGENT, 0, said, self.names(differs))
        return value[:1]

    def whole(self, mask: Mask) -> Mask:
        """Return a mask as (1, warps); a warp-level instruction for only some lanes traps."""
        if mask is None:
            return None
        return self.uniform(mask, "the guard of a warp-level instruction", None)

    def check_alignment(self, address: Addresses, alignment: int, mask: Mask) -> None:
        """Trap unless every (rows, warps) address of the mask is a multiple of a power of two."""
        if alignment == 1 or not int(np.bitwise_or.reduce(address, axis=None)) & (alignment - 1):
            return
        bad = (address & np.uint64(alignment - 1)) != 0
        if mask is not None:
            bad = bad & mask
        if bad.any():
            bad = np.broadcast_to(bad, (bad.shape[0], self.indices.size))
            first = int(np.broadcast_to(address, bad.shape)[bad][0])
            said = f"address {first:#x} is no multiple of {alignment}"
            refuse(TrapKind.MISALIGNED, 0, said, self.names(bad))


Operation = Callable[[WarpState, Mask], None]
"""What a decoded instruction does to the warps."""

_BIT = 1 << LANE_NUMBERS

_WORDS: dict[str, Callable[[WarpState], Any]] = {
    "tid.x": lambda w: w.places % w.block[0],
    "tid.y": lambda w: w.places // w.block[0] % w.block[1],
    "tid.z": lambda w: w.places // (w.block[0] * w.block[1]),
    "ctaid.x": lambda w: w.blocks % w.grid[0],
    "ctaid.y": lambda w: w.blocks // w.grid[0] % w.grid[1],
    "ctaid.z": lambda w: w.blocks // (w.grid[0] * w.grid[1]),
    "ntid.x": lambda w: w.block[0],
    "ntid.y": lambda w: w.block[1],
    "ntid.z": lambda w: w.block[2],
    "nctaid.x": lambda w: w.grid[0],
    "nctaid.y": lambda w: w.grid[1],
    "nctaid.z": lambda w: w.grid[2],
    "laneid": lambda _: LANE_NUMBERS,
    "warpid": lambda w: w.slots + w.otherwise,
    "nwarpid": lambda w: SLOTS + w.otherwise,
    "smid": lambda w: w.sms + w.otherwise,
    "nsmid": lambda w: MULTIPROCESSORS + w.otherwise,
    "lanemask_eq": lambda _: _BIT,
    "lanemask_le": lambda _: 2 * _BIT - 1,
    "lanemask_lt": lambda _: _BIT - 1,
    "lanemask_ge": lambda _: -_BIT,
    "lanemask_gt": lambda _: -2 * _BIT,
    # Warps are issued one after the other.
    "clock": lambda w: w.time + w.indices,
    "clock_hi": lambda w: (w.time >> 32) + w.otherwise,
    "globaltimer_lo": lambda w: w.time,
    "globaltimer_hi": lambda w: (w.time >> 32) + w.otherwise,
    "dynamic_smem_size": lambda w: w.dynamic_bytes,
    # A launch without clusters is one of clusters of one block; the fourth elements of vectors are
    # 0 (10, %tid).
    **dict.fromkeys([f"cluster_ctaid.{axis}" for axis in "xyz"], lambda _: 0),
    **dict.fromkeys([f"cluster_nctaid.{axis}" for axis in "xyz"], lambda _: 1),
    **dict.fromkeys(("cluster_ctarank", "tid.w", "ntid.w", "ctaid.w", "nctaid.w"), lambda _: 0),
    "cluster_nctarank": lambda _: 1,
    # What a driver puts there (10, %envreg).
    **dict.fromkeys([f"envreg{number}" for number in range(32)], lambda w: 0 - w.otherwise),
    # Shared memory of the system (10, %reserved_smem_offset): above all that a block may have.
    **dict.fromkeys(
        [f"reserved_smem_offset_{which}" for which in ("begin", "end", "cap", "0", "1")],
        lambda w: (1 << 30) + w.otherwise,
    ),
}
_WORDS |= {f"{n}clusterid.{axis}": _WORDS[f"{n}ctaid.{axis}"] for n in ("", "n") for axis in "xyz"}
_LONG: dict[str, Callable[[WarpState], Any]] = {
    "gridid": lambda w: w.launch + w.otherwise,
    "clock64": lambda w: w.time,
    "globaltimer": lambda w: w.time,
}


def _fetched(bits: int, number: Callable[[WarpState], Any], warps: WarpState) -> Values:
    return np.atleast_2d(number(warps)).astype(DTYPES[bits])


SPECIAL: dict[str, tuple[int, Callable[[WarpState], Values]]] = {
    f"%{name}": (bits, partial(_fetched, bits, number))
    for bits, numbers in (
        (32, _WORDS), (64, _LONG), (1, {"is_explicit_cluster": lambda _: False})
    )
    for name, number in numbers.items()
}  # fmt: skip
"""Bits of each, and what fetches it: a number for each warp, or one for each lane."""
UNKNOWN = re.compile(
    r"%(?:pm[0-7](?:_64)?|(?:total|aggr)_smem_size|current_graph_exec"
    r"|n?(?:tid|ctaid)|n?cluster_?\w+)(?:\.[xyzw])?"
)
"""Names of special registers that exist and are not simulated (PTX ISA 10)."""

_LARGEST_CHUNK = 16  # bytes: of the longest access of a thread, and of a row of ldmatrix
_SHIFTS = {1 << bits: np.array(bits, np.int64) for bits in range(5)}  # by the bytes of a chunk
_NUMBERS = {number: np.arange(number)[None, :, None] for number in range(1, 256)}  # by elements


def places(
    warps: WarpState, space: Space, starts: Addresses, span: int, mask: Mask, writes: bool,
    alignment: int = 1,
) -> list[MemoryPlace]:  # fmt: skip
    """Return where runs of `span` bytes lie.

    It traps where one that happens is nowhere, or no multiple of `alignment` bytes, a power of two.
    """
    found, missing, union = warps.memory.places(space, starts, span, warps.owners, mask, writes)
    if union & (alignment - 1):
        warps.check_alignment(starts, alignment, mask)
    if missing is not None:
        bad = np.broadcast_to(missing, (max(starts.shape[0], missing.shape[0]), warps.indices.size))
        first = int(np.broadcast_to(starts, bad.shape)[bad][0])
        where = f"what the kernel has of {space} memory"
        if space in (Space.GLOBAL, Space.GENERIC):
            where = "every buffer"
        done = "written" if writes else "read"
        said = f"{span} bytes at {space} address {first:#x} are {done}, outside {where}"
        refuse(TrapKind.OUT_OF_BOUNDS, 0, said, warps.names(bad))
    return found


def read_runs(
    warps: WarpState, space: Space, starts: Addresses, count: int, width: int, mask: Mask, *,
    alignment: int = 1,
) -> Values:  # fmt: skip
    """Read runs of `count` consecutive elements of `width` bytes (1, 2, 4 or 8).

    `starts` has the (rows, warps or 1) address of each run, a multiple of `width` and of
    `alignment` bytes; the mask has its shape. Return (rows, count, warps or 1), unsigned, 0 where
    nobody reads.
    """
    values: Values | None = None
    for place in places(warps, space, starts, count * width, mask, False, alignment):
        chunk = _chunk(place, count, width)
        number = count * width // chunk
        read: Values = place.segment.data.view(ELEMENTS[chunk]).take(_chunks(place, number, chunk))
        if chunk != width:
            # (rows, number, warps, elements of a chunk)
            parts = read[..., None].view(ELEMENTS[width]).swapaxes(2, 3)
            read = parts.reshape(parts.shape[0], count, parts.shape[3])
        if place.chosen is None:
            return read
        chosen = place.chosen[:, None, :]
        values = np.where(chosen, read, 0 if values is None else values).astype(read.dtype)
    if values is None:
        return np.zeros((starts.shape[0], count, starts.shape[1]), f"u{width}")
    return values


def write_runs(
    warps: WarpState, space: Space, starts: Addresses, values: Values, mask: Mask, *,
    alignment: int = 1,
) -> None:  # fmt: skip
    """Write runs of (rows, count, warps or 1) unsigned elements, as `read_runs` reads them.

    Where several writes meet, a later row or warp wins.
    """
    rows, count, _ = values.shape
    width = values.itemsize
    everyone = max(starts.shape[0], rows), count, warps.indices.size
    warps.memory.written = values
    for place in places(warps, space, starts, count * width, mask, True, alignment):
        chunk = _chunk(place, count, width)
        number, per_chunk = count * width // chunk, chunk // width
        moved, shape = values, (everyone[0], number, everyone[2])
        if per_chunk > 1:
            parts = spread(values, everyone).reshape(everyone[0], number, per_chunk, everyone[2])
            moved = np.ascontiguousarray(parts.swapaxes(2, 3)).view(ELEMENTS[chunk])[..., 0]
        target = place.segment.data.view(ELEMENTS[chunk])
        index = spread(_chunks(place, number, chunk), shape)
        if place.chosen is None:
            target[index] = moved
        else:
            chosen = spread(place.chosen[:, None, :], shape)
            target[index[chosen]] = spread(moved, shape)[chosen]


def _chunk(place: MemoryPlace, count: int, width: int) -> int:
    """Return the most bytes, up to 16, in which all runs of a place can be moved at once."""
    if count == 1:
        return width
    # The shares of owners are multiples of the largest chunk.
    low = place.union | count * width | _LARGEST_CHUNK
    # Who is not chosen may be between two elements.
    return max(width, low & -low)


def _chunks(place: MemoryPlace, number: int, chunk: int) -> NDArray[np.int64]:
    """Return the (rows, number, warps) indices of a place's chunks."""
    index = (place.offsets >> _SHIFTS[chunk])[:, None, :]
    return index if number == 1 else index + _NUMBERS[number]
