"""Which element of a matrix each place in the registers of a warp holds.

A layout is data: by register, lane and position in the register, the index of the element. For wmma
the ISA leaves it open (9.7.14.4.1), and so these layouts are nobody else's; for mma.sync it is
documented (9.7.14.5.1 to .13, compared with an H200, November 2026).
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from runners.simulated.silicon import FragmentUnit
from runners.simulated.warps import DTYPES, LANES, Values, spread

BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8,
    "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32,
}  # fmt: skip
"""Bits that an element of a matrix occupies in memory and in a register."""
QUADS = 4
"""Multiplications of mma.sync.m8n8k4 of f16, one for each group of eight lanes (9.7.14.5.1)."""
Elements = NDArray[Any]
"""(elements, warps): raw elements, the matrix row by row, each in an unsigned word of its own."""
Indices = NDArray[np.int64]


@lru_cache(maxsize=256)
def dimensions(role: str, shape: str) -> tuple[int, int]:
    """Return (rows, columns) of matrix `a`, `b`, `c` or `d` of a shape, such as `m16n8k16`."""
    m, n, k = map(int, re.findall(r"\d+", shape))
    return {"a": (m, k), "b": (k, n)}.get(role, (m, n))


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One fragment's layout, of elements of so many bits, in `count` registers of `width` bits.

    Each of the (registers, lanes, positions) holds an element, whose index counts the matrix row by
    row, or matrix after matrix; the last or first copy of one that is repeated is used.
    """

    bits: int
    elements: Indices
    last_copy: bool = False

    @cached_property
    def count(self) -> int:
        """Registers."""
        return len(self.elements)

    @cached_property
    def width(self) -> int:
        """Bits of a register."""
        return max(32, self.bits)

    @cached_property
    def slots(self) -> Indices:
        """(positions, registers, lanes) the elements again, one position of all words together."""
        return np.ascontiguousarray(self.elements.transpose(2, 0, 1))

    @cached_property
    def homes(self) -> tuple[Indices, NDArray[np.uint32]]:
        """(elements,) register-and-lane, and (elements, 1) bits below, of the copy that is used."""
        flat = self.elements.reshape(-1)
        slots = np.arange(flat.size)
        if not self.last_copy:
            flat, slots = flat[::-1], slots[::-1]
        home = np.empty(flat.max() + 1, np.int64)
        home[flat] = slots
        positions = self.elements.shape[2]
        return home // positions, (home % positions * self.bits).astype(np.uint32)[:, None]


def scatter(elements: Elements, layout: Layout) -> list[Values]:
    """Return the registers, (lanes, warps) each, that hold a matrix's elements."""
    dtype = DTYPES[layout.width]
    whole = elements.astype(dtype, copy=False)
    # `take` of whole rows is several times faster than an index, where there are few warps.
    words = whole.take(layout.slots[0], axis=0)
    for position, slots in enumerate(layout.slots[1:], 1):
        words |= whole.take(slots, axis=0) << dtype.type(position * layout.bits)
    return list(words)


def gather(words: list[Values], layout: Layout, warps: int) -> Elements:
    """Return a matrix's elements from the registers of its fragment."""
    stacked = np.concatenate([spread(word, (LANES, warps)) for word in words])
    home, shifts = layout.homes
    held: Elements = stacked.take(home, axis=0)
    if layout.bits == layout.width:
        return held
    held >>= shifts
    held &= held.dtype.type((1 << layout.bits) - 1)
    elements: Elements = held.astype(DTYPES[max(8, layout.bits)])
    return elements


def _scattered(count: int, key: int) -> Indices:
    """Return a permutation of 0 … count - 1, a power of two, that depends on the key.

    Each step is a bijection modulo a power of two: times an odd number plus a constant, then a xor
    of the high half into the low.
    """
    order = np.arange(count, dtype=np.int64)
    for turn, part in enumerate(key.to_bytes(4, "little")[:3]):
        order = (order * (2 * part + 1) + 7 * part + turn) & (count - 1)
        order ^= order >> max(1, (count.bit_length() - 1) // 2)
    return order


@lru_cache(maxsize=512)
def opaque_layout(role: str, shape: str, kind: str, order: str, seed: int) -> Layout:
    """Return the layout of a fragment of wmma: `role` a to d, `order` row or col in memory.

    A fragment of f16 multiplicands has eight registers whatever its matrix (9.7.14.4.1), and holds
    some elements several times, as real devices do. Fragments of A and B are laid out differently
    for row- and column-major matrices, which the ISA allows; those of C and D are not, because
    `wmma.mma` does not say how they are stored.

    Layout 0 deals the elements out in the order in which they lie in memory, from the second on
    where that is column by column: a fragment that is taken for one of the other layout is never
    right. Every other seed scatters them by a permutation of its own.
    """
    rows, columns = dimensions(role, shape)
    bits = BITS[kind]
    positions = max(32, bits) // bits
    count = 8 if role in "ab" and kind == "f16" else rows * columns // (LANES * positions)
    slots = count * LANES * positions
    if role in "cd":
        role, order = "accumulator", "row"
    sequence = np.arange(slots) + (order == "col")
    if seed:
        sequence = _scattered(slots, crc32(f"{seed} {role} {shape} {kind} {order}".encode()))
    in_memory = sequence % (rows * columns)
    elements = in_memory % rows * columns + in_memory // rows if order == "col" else in_memory
    # Lane by lane, so that neighbours in memory tend to share a lane in layout 0.
    by_lane = elements.reshape(LANES, count, positions)
    by_register = np.ascontiguousarray(by_lane.transpose(1, 0, 2))
    return Layout(bits=bits, elements=by_register, last_copy=seed % 2 == 1)


@lru_cache(maxsize=512)
def documented_layout(
    role: str, shape: str, kind: str, order: str, unit: FragmentUnit, quads: int = 1
) -> Layout:
    """Return the layout of an operand of mma.sync, of lanes that are wired as `unit` says.

    With lane = 4 g + t, a register holds p neighbours along K (A, B) or N (C, D), the first in the
    lowest bits. Eight rows of A make one register of every group of four lanes; further registers
    go down M first, and then along K. `order` matters for m8n8k4 of f16 alone, of which a warp does
    `QUADS` multiplications.
    """
    rows, columns = dimensions(role, shape)
    bits = BITS[kind]
    in_register = max(32, bits) // bits
    registers = quads * rows * columns // (LANES * in_register)
    register, lane, position = np.meshgrid(
        np.arange(registers), np.arange(LANES), np.arange(in_register), indexing="ij"
    )
    if role in unit.exchanged_registers and registers > 1:
        register = np.where(register < 2, 1 - register, register)
    if role in unit.crossed_lanes:
        lane = lane ^ 1
    if role in unit.reversed_parts:
        position = in_register - 1 - position
    group, thread = lane >> 2, lane & 3
    element = register * in_register + position
    which: Indices = np.zeros_like(lane)
    if quads > 1:
        # Lanes 4 q to 4 q + 3 and those 16 further on do multiplication q.
        which, half = group & 3, np.where(lane < 16, 0, 4)
        if role in "cd" and kind == "f32":
            row = (lane & 1) + (element & 2) + half
            column = (element & 4) + (lane & 2) + (element & 1)
        elif role in "cd" or (role, order) == ("a", "row"):
            row, column = thread + half, element
        elif (role, order) == ("b", "col"):
            row, column = element, thread + half
        elif role == "a":
            row, column = element + half, thread
        else:
            row, column = thread, element + half
    elif role == "a":
        row = group + 8 * (register % (rows // 8))
        column = in_register * (4 * (register // (rows // 8)) + thread) + position
    elif role == "b":
        row, column = in_register * (4 * register + thread) + position, group
    else:
        # Two neighbours along N to each row, whether they share a register or not.
        row, column = group + 8 * (element >> 1), 2 * thread + (element & 1)
    return Layout(bits=bits, elements=(which * rows + row) * columns + column)
