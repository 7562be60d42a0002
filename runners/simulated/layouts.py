"""Where the simulated device keeps the elements of a fragment.

The ISA leaves it open (9.7.14.4.1), and so these layouts are nobody else's: a slot is a (lane,
register, position) of a fragment, and a layout says which element each slot holds. Fragments of
f16 multiplicands have more slots than their matrix has elements, and hold some several times, as
real devices do.

Seed 0 deals the elements out in the order in which they lie in memory, from the second on where
that is column by column: a fragment that is taken for one of the other layout is never right.
Every other seed scatters them by a permutation of its own. Fragments of A and B are laid out
differently for row- and column-major matrices, which the ISA allows; those of C and D are not,
because `wmma.mma` does not say how they are stored.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from runners.simulated.warps import LANES

SHAPES = {
    "m16n16k16": (16, 16, 16),
    "m8n32k16": (8, 32, 16),
    "m32n8k16": (32, 8, 16),
    "m16n16k8": (16, 16, 8),
    "m8n8k4": (8, 8, 4),
    "m8n8k32": (8, 8, 32),
    "m8n8k128": (8, 8, 128),
}
"""(M, N, K) of each shape qualifier."""

ELEMENT_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f32": 32,
    "f64": 64,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "s32": 32,
}
"""Bits that an element occupies in memory and in a fragment."""

_WIDE = ("m16n16k16", "m8n32k16", "m32n8k16")
# Registers of a fragment of A or B by type and shape, (A, B): the tables of 9.7.14.4.1.
_MULTIPLICANDS: dict[tuple[str, str], tuple[int, int]] = {
    **{("f16", shape): (8, 8) for shape in _WIDE},
    **{("bf16", shape): n for shape, n in zip(_WIDE, ((4, 4), (2, 8), (8, 2)), strict=True)},
    **{
        (kind, shape): n
        for kind in ("s8", "u8")
        for shape, n in zip(_WIDE, ((2, 2), (1, 4), (4, 1)), strict=True)
    },
    ("tf32", "m16n16k8"): (4, 4),
    ("f64", "m8n8k4"): (1, 1),
    ("s4", "m8n8k32"): (1, 1),
    ("u4", "m8n8k32"): (1, 1),
    ("b1", "m8n8k128"): (1, 1),
}
# Registers of a fragment of C or D by type and shape. For f64 the page's table says one; its
# examples use two, and so does the assembler (64 elements in 32 lanes need two).
_ACCUMULATORS: dict[tuple[str, str], int] = {
    **{("f16", shape): 4 for shape in _WIDE},
    **{(kind, shape): 8 for kind in ("f32", "s32") for shape in _WIDE},
    ("f32", "m16n16k8"): 8,
    ("f64", "m8n8k4"): 2,
    ("s32", "m8n8k32"): 2,
    ("s32", "m8n8k128"): 2,
}


def dimensions(role: str, shape: str) -> tuple[int, int]:
    """Return (rows, columns) of matrix `a`, `b`, `c` or `d` of a shape."""
    m, n, k = SHAPES[shape]
    return {"a": (m, k), "b": (k, n)}.get(role, (m, n))


def registers(role: str, shape: str, kind: str) -> int | None:
    """Return how many registers a fragment has; None if the ISA knows no such fragment."""
    if role in ("a", "b"):
        pair = _MULTIPLICANDS.get((kind, shape))
        return None if pair is None else pair["ab".index(role)]
    return _ACCUMULATORS.get((kind, shape))


def _scattered(count: int, key: int) -> NDArray[np.int64]:
    """Return a permutation of 0 … count - 1, a power of two, that depends on the key."""
    mask = count - 1
    half = max(1, (count.bit_length() - 1) // 2)
    order = np.arange(count, dtype=np.int64)
    for turn in range(3):
        # Each step is a bijection modulo a power of two: times an odd number plus a constant,
        # then a xor of the high half into the low.
        part = (key >> (8 * turn)) & 0xFF
        order = (order * (2 * part + 1) + 7 * part + turn) & mask
        order ^= order >> half
    return order


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One fragment's layout."""

    count: int
    """Registers."""
    bits: int
    """Bits of an element."""
    elements: NDArray[np.int64]
    """(registers, lanes, positions) index of the element that each slot holds, counting the
    matrix row by row."""
    last_copy: bool
    """Which copy of a repeated element is used in arithmetic."""

    @property
    def width(self) -> int:
        """Bits of a register."""
        return max(32, self.bits)

    @cached_property
    def slots(self) -> NDArray[np.int64]:
        """(positions, registers, lanes) the elements again, one position of all words together."""
        return np.ascontiguousarray(self.elements.transpose(2, 0, 1))

    @cached_property
    def homes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(elements,) register-and-lane and position of the copy of each that is used."""
        flat = self.elements.reshape(-1)
        slots = np.arange(flat.size)
        if not self.last_copy:
            flat, slots = flat[::-1], slots[::-1]
        home = np.empty(flat.max() + 1, np.int64)
        home[flat] = slots
        positions = self.elements.shape[2]
        return home // positions, home % positions

    @cached_property
    def shifts(self) -> NDArray[np.uint32]:
        """(elements, 1) bits below that copy in a register of 32 bits."""
        return (self.homes[1] * self.bits).astype(np.uint32)[:, None]


@lru_cache(maxsize=512)
def layout_of(role: str, shape: str, kind: str, order: str, seed: int) -> Layout:
    """Return the layout of a fragment.

    Parameters
    ----------
    role
        `a`, `b`, `c` or `d`; those of `c` and `d` are the same.
    shape, kind
        Qualifiers, such as `m16n16k16` and `f16`, of a fragment that exists.
    order
        `row` or `col`: how the matrix is stored. Does not matter for `c` and `d`.
    seed
        Which layout.
    """
    count = registers(role, shape, kind)
    if count is None:
        raise ValueError(f"no fragment of {role} exists for {shape} and {kind}")
    rows, columns = dimensions(role, shape)
    bits = ELEMENT_BITS[kind]
    positions = max(32, bits) // bits
    slots = count * LANES * positions
    if role in ("c", "d"):
        role, order = "accumulator", "row"
    if seed == 0:
        sequence = np.arange(slots) + (order == "col")
    else:
        key = crc32(f"{seed} {role} {shape} {kind} {order}".encode())
        sequence = _scattered(slots, key)
    in_memory = sequence % (rows * columns)
    elements = in_memory % rows * columns + in_memory // rows if order == "col" else in_memory
    # Lane by lane, so that neighbours in memory tend to share a lane in layout 0.
    by_lane = elements.reshape(LANES, count, positions)
    return Layout(
        count=count,
        bits=bits,
        elements=np.ascontiguousarray(by_lane.transpose(1, 0, 2)),
        last_copy=seed % 2 == 1,
    )
