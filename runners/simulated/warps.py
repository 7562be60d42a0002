"""The state of the warps of one launch: registers, identities, and who is active.

Arrays have two axes, (lanes, warps), lanes first so that the warp index runs fastest. An axis of
length 1 stands for a value that is the same along it.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.memory import Memory, Owner, Owners
from runners.simulated.syntax import WARP_SIZE
from runners.simulated.traps import TrapKind, refuse

LANES = WARP_SIZE
"""Threads of a warp (PTX ISA 3.1)."""

Values = NDArray[Any]
"""Raw bits of one register: (1 or 32 lanes, 1 or all warps), unsigned of the register's width, or
bool for a predicate."""

Mask = NDArray[np.bool_] | None
"""Threads for which an instruction takes effect, shaped like `Values`; None is all of them."""

DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}
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


class Registers(dict[Key, Values]):
    """Values by their keys; a register that no thread has written traps."""

    def __missing__(self, key: Key) -> Values:
        if isinstance(key, str):
            refuse(TrapKind.UNINITIALISED, 0, f"register {key} is read before it is written")
        self[key] = found = constant(*key)
        return found

    def kept(self, kept: NDArray[np.bool_]) -> "Registers":
        """Return those of the warps, of shape (warps,), that are kept."""
        return Registers(
            (name, value if value.shape[1] == 1 else value[:, kept]) for name, value in self.items()
        )


@dataclass(kw_only=True)
class Warps:
    """The warps that are still alive."""

    indices: NDArray[np.int64]
    """(warps,) index of each warp in the launch."""
    block: tuple[int, int, int]
    """Threads of a block along x, y and z."""
    sms: NDArray[np.uint32]
    """(warps,) the multiprocessor that each warp runs on."""
    slots: NDArray[np.uint32]
    """(warps,) the place of each warp on its multiprocessor."""
    launch: int
    """How many launches the device made before this one."""
    memory: Memory
    grid: tuple[int, int, int]
    """Blocks of the launch along x, y and z."""
    dynamic_bytes: int = 0
    """Dynamic shared memory of a block."""
    passes: int = 1
    """Most images that a warp takes, one after another: how often it goes through the kernel."""
    most_steps: int | None = None
    """Steps after which the launch counts as hung; None: as many as any launch may take."""
    exited: Callable[[], Mask] = lambda: None
    """Returns the threads that have exited, or never were; None is nobody."""
    garbage: int = GARBAGE
    """What a register holds in the threads that never wrote it, repeated to its width."""
    steps: int = 0
    """Instructions that were executed in this launch so far."""
    line: int = 0
    """Line of the instruction that executes."""
    registers: Registers = field(default_factory=Registers)

    @property
    def otherwise(self) -> bool:
        """Whether all that the ISA leaves open is other than by itself."""
        return self.garbage != GARBAGE

    @property
    def threads(self) -> int:
        """Threads of a block."""
        x, y, z = self.block
        return x * y * z

    @property
    def per_block(self) -> int:
        """Warps of a block; the last may have fewer threads than lanes."""
        return -(-self.threads // LANES)

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
        self.sms = self.sms[kept]
        self.slots = self.slots[kept]
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

    def site(self) -> "Site":
        """Return where the instruction executes."""
        return Site(warps=self.indices, sms=self.sms, launch=self.launch, line=self.line)


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where and when an instruction executes, for faults that depend on it."""

    warps: NDArray[np.int64]
    """(warps,) index of each warp in the launch."""
    sms: NDArray[np.uint32]
    """(warps,) the multiprocessor of each warp."""
    launch: int
    """How many launches the device made before this one."""
    line: int


Operation = Callable[[Warps, Mask], None]
"""What a decoded instruction does to the warps."""
