"""The state of the warps of one launch, and what goes between their registers and memory.

Arrays have two axes, (lanes, warps), lanes first so that the warp index runs fastest. An axis of
length 1 stands for a value that is the same along it.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runners.simulated.memory import ELEMENTS, Addresses, Memory, MemoryPlace, Owner, Owners, Space
from runners.simulated.syntax import WARP_SIZE
from runners.simulated.traps import TrapKind, refuse

LANES = WARP_SIZE
"""Threads of a warp (PTX ISA 3.1)."""
Values = NDArray[Any]
"""Raw bits of one register: (1 or 32 lanes, 1 or all warps), unsigned of the register's width, or
bool for a predicate."""
Mask = NDArray[np.bool_] | None
"""Threads for which an instruction takes effect, shaped like `Values`; None is all of them."""
DTYPES = {1: np.dtype(np.bool_)} | {bits: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}
"""Storage of a value by its width in bits."""
GARBAGE = 0xDEADBEEFDEADBEEF
"""What a register holds in the threads that never wrote it, repeated to the register's width: a
pattern that is neither zero nor a small number, so that its use shows."""


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
"""Where a value lies among the registers: a register's key, or a constant with its bits, which is
there without having been written."""


class RegisterFile(dict[Key, Values]):
    """Values by their keys; a register that no thread has written traps."""

    def __missing__(self, key: Key) -> Values:
        if isinstance(key, str):
            refuse(TrapKind.UNINITIALISED, 0, f"register {key} is read before it is written")
        self[key] = found = constant(*key)
        return found

    def kept(self, kept: NDArray[np.bool_]) -> "RegisterFile":
        """Return those of the warps, of shape (warps,), that are kept."""
        return RegisterFile(
            (name, value if value.shape[1] == 1 else value[:, kept]) for name, value in self.items()
        )


class Site(NamedTuple):
    """Where and when an instruction executes, for faults that depend on it.

    (warps,) index of each warp in the launch, and its multiprocessor; how many launches the device
    made before this one; the line.
    """

    warps: NDArray[np.int64]
    sms: NDArray[np.uint32]
    launch: int
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
    passes: int = 1
    """Most images that a warp takes, one after another: how often it goes through the kernel."""
    most_steps: int | None = None
    """Steps after which the launch counts as hung; None: as many as any launch may take."""
    exited: Callable[[], Mask] = lambda: None
    """Returns the threads that have exited, or never were; None is nobody."""
    garbage: int = GARBAGE
    """What a register holds in the threads that never wrote it; other than usual where all that
    the ISA leaves open is."""
    steps: int = 0  # instructions that were executed in this launch so far
    line: int = 0  # line of the instruction that executes
    registers: RegisterFile = field(default_factory=RegisterFile)

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
        return np.arange(LANES)[:, None] + self.indices % self.per_block * LANES

    @property
    def time(self) -> int:
        """The device's clock: 2^20 for each launch, and 1 for each instruction; or 3, later."""
        return (self.launch << 20) + self.steps * (3 if self.otherwise else 1)

    @cached_property
    def owners(self) -> Owners:
        """Blocks, (warps,), and threads, (32, warps), of the launch, which own memory."""
        threads = np.arange(LANES)[:, None] + LANES * self.indices
        return {Owner.BLOCK: self.blocks, Owner.THREAD: threads}

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
        self.registers = self.registers.kept(kept)

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

    def site(self) -> Site:
        """Return where the instruction executes."""
        return Site(self.indices, self.sms, self.launch, self.line)

    def check_alignment(self, address: Addresses, alignment: int, mask: Mask) -> None:
        """Trap unless every (rows, warps) address that the mask lets through is aligned.

        `alignment` is in bytes, a power of two.
        """
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

_WINDOW_BITS = 40
"""Of an address in a space other than global memory (`runners.simulated.memory.WINDOWS`)."""
_LARGEST_CHUNK = 16
"""Bytes: what the longest per-thread access moves, and a row of ldmatrix."""
_LONGEST_RUN = 256
"""Elements: more than any matrix has in a row."""
_SHIFTS = {1 << bits: np.array(bits, np.int64) for bits in range(5)}
"""By the bytes of a chunk."""
_NUMBERS = {number: np.arange(number)[None, :, None] for number in range(1, _LONGEST_RUN)}


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
        verb, where = "written" if writes else "read", "outside every buffer"
        if space not in (Space.GLOBAL, Space.GENERIC):
            where = f"outside what the kernel has of {space} memory"
            if first >> _WINDOW_BITS:
                where += ": a generic address of other memory may have become one of it (cvta.to)"
        said = f"{span} bytes at {space} address {first:#x} are {verb}, {where}"
        refuse(TrapKind.OUT_OF_BOUNDS, 0, said, warps.names(bad))
    return found


def read_runs(
    warps: WarpState, space: Space, starts: Addresses, count: int, width: int, mask: Mask, *,
    alignment: int = 1,
) -> Values:  # fmt: skip
    """Read runs of `count` consecutive elements of `width` bytes (1, 2, 4 or 8).

    `starts` has the (rows, warps or 1) address of each run's first element, a multiple of `width`
    and of `alignment` bytes; the mask has its shape. Return (rows, count, warps or 1), unsigned, 0
    where nobody reads.
    """
    values: Values | None = None
    for place in places(warps, space, starts, count * width, mask, False, alignment):
        chunk = _chunk(place, count, width)
        number = count * width // chunk
        read: Values = place.segment.view(chunk).take(_chunks(place, number, chunk))
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
    """Write runs of consecutive elements; where several writes meet, a later row or warp wins.

    The (rows, count, warps or 1) unsigned values have the width of an element; for the rest see
    `read_runs`.
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
        target = place.segment.view(chunk)
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
