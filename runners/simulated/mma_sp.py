"""mma.sp: A holds, of each few neighbours along K, only those that its metadata name.

Layouts and metadata are those of PTX ISA 9.7.14.6 (Matrix multiply-accumulate operation using
mma.sp instruction with sparse matrix A); what the units compute, and what they do with metadata
that the ISA leaves undefined, was measured on an H200 (November 2026): the products of chosen
elements are added as those of mma.sync, and every index chooses for itself. Other architectures are
given the same with their own blocks.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from runners.simulated.access import stopping
from runners.simulated.integers import Qualifiers
from runners.simulated.layouts import BITS, documented_layout
from runners.simulated.matrices import (
    Form,
    Multiplicands,
    check_product,
    factors,
    multiplication,
    product_unit,
)
from runners.simulated.operands import OperandReader
from runners.simulated.products import ProductTypes, multiply_on
from runners.simulated.silicon import FloatUnit, FragmentUnit, MultiplyUnit
from runners.simulated.syntax import ImmediateText
from runners.simulated.warps import LANES, Operation, Values, spread

_OPCODE = re.compile(
    r"mma\.sp(?P<ordered>::ordered_metadata)?\.sync\.aligned\.(?P<shape>m16n8k\d+)\.row\.col"
    r"(?P<satfinite>\.satfinite)?\.(?P<d>\w+)\.(?P<a>\w+)\.(?P<b>\w+)\.(?P<c>\w+)"
)

# The tables of 9.7.14.6, and Target ISA Notes of mma.sp; an f16 result of 8-bit floats is refused
# for sm_90 by ptxas 13.0.
_ROWS = (
    Multiplicands("f16", {"m16n8k16": 80, "m16n8k32": 80}, "f16.f16 f32.f32"),
    Multiplicands("bf16", {"m16n8k16": 80, "m16n8k32": 80}, "f32.f32"),
    Multiplicands("tf32", {"m16n8k8": 80, "m16n8k16": 80}, "f32.f32"),
    Multiplicands("e4m3 e5m2", {"m16n8k64": 89}, "f32.f32"),
    Multiplicands("s8 u8", {"m16n8k32": 80, "m16n8k64": 80}, "s32.s32"),
    Multiplicands("s4 u4", {"m16n8k64": 80, "m16n8k128": 80}, "s32.s32"),
)
_INDICES_A_LANE = 16
"""Of 2 bits each in the 32 of a lane's metadata; two of them choose among four places. Four lanes
hold the same rows of A."""
_AT_ONCE = 64
"""Warps of which the chosen elements of B are there together, up to 16 KiB each."""
_TRAPPING = re.compile(r"m16n8k32\.row\.col\.f32\.f16")
"""Forms whose selectors 2 and 3 ptxas takes, and an H200 ends with CUDA_ERROR_ILLEGAL_INSTRUCTION
(November 2026)."""


@dataclass(frozen=True, kw_only=True)
class SparseUnit(FragmentUnit):
    """How mma.sp finds the elements of its matrices, and what its metadata choose."""

    ignores_selector: bool = False  # the selector counts as 0
    lane_offset: int = 0  # exclusive-ored to the number of the lane whose metadata count
    lower_rows_only: bool = False  # rows 8 to 15 of A take the metadata of rows 0 to 7
    swapped_pairs: bool = False  # each index of a pair chooses for the other
    sorted_pairs: bool = False  # the lower index of a pair chooses for its first element
    counted_place: bool = False
    """The first element of a row adds the exponent of a product with a place that it does not
    choose."""


Indices = tuple[NDArray[np.int64], NDArray[np.uint32]]
"""Where the indices of a form stand, (16 rows, indices of a row): lanes, and bits below."""


def _indices_of_a_row(kind: str, depth: int) -> int:
    """Return how many indices choose for so many stored elements of a row.

    Elements of 32 bits are chosen by their halves, those of 4 bits in pairs.
    """
    return depth * BITS[kind] // (16 if BITS[kind] >= 16 else 8)


@lru_cache(maxsize=256)
def _indices(kind: str, depth: int, selector: int, unit: SparseUnit) -> Indices:
    """Return where the metadata of so many stored elements in a row lie."""
    count = _indices_of_a_row(kind, depth)
    row, index = np.meshgrid(np.arange(16), np.arange(count), indexing="ij")
    upper = np.zeros_like(row) if unit.lower_rows_only else row // 8
    if BITS[kind] >= 16:
        # A lane has both rows of its group, each in one half of its word.
        half = _INDICES_A_LANE // 2
        lane, place = index // half, half * upper + index % half
    else:
        # A lane has one of the two.
        lane, place = upper + 2 * (index // _INDICES_A_LANE), index % _INDICES_A_LANE
    if not unit.ignores_selector:
        lane = lane + selector * (2 * count // _INDICES_A_LANE)
    return (4 * (row % 8) + lane) ^ unit.lane_offset, (2 * place).astype(np.uint32)


def _chosen(b: Values, index: Values, kind: str) -> Values:
    """Return what meets each stored element of A: (elements of a row, columns, rows, warps).

    B is (K, columns, warps), the indices (indices of a row, rows, warps).
    """
    four = 4 * (np.arange(len(index)) // 2)
    places = four[:, None, None] + index.astype(np.int64)
    if kind == "tf32":
        halves = np.stack([b & np.uint32(0xFFFF), b >> np.uint32(16)], axis=1)
        each = _taken(halves.reshape(-1, *b.shape[1:]), places)
        words: Values = each[::2] | each[1::2] << np.uint32(16)
        return words
    if BITS[kind] == 4:
        both = 2 * places[:, None] + np.arange(2)[:, None, None]
        places = both.reshape(-1, *places.shape[1:])
    return _taken(b, places)


def _taken(b: Values, places: NDArray[np.int64]) -> Values:
    """Return rows of (rows, columns, warps) by the places of each row of A and warp."""
    _, columns, warps = b.shape
    at = places[:, None] * columns + np.arange(columns)[:, None, None]
    taken: Values = b.reshape(-1).take(at * warps + np.arange(warps))
    return taken


def _multiply(
    types: ProductTypes,
    indices: Indices,
    unit: SparseUnit,
    arithmetic: MultiplyUnit,
    *given: Values,
) -> Values:
    """Return D of A, B, C and the metadata; all have the warps as their last axis."""
    parts = []
    for start in range(0, given[0].shape[-1], _AT_ONCE):
        a, b, c, metadata = (each[..., start : start + _AT_ONCE] for each in given)
        rows, columns, warps = c.shape
        index = metadata.take(indices[0], axis=0) >> indices[1][..., None] & 3
        index = index.transpose(1, 0, 2)
        if unit.sorted_pairs:
            index = np.sort(index.reshape(-1, 2, *index.shape[1:]), axis=1).reshape(index.shape)
        if unit.swapped_pairs:
            index = index.reshape(-1, 2, *index.shape[1:])[:, ::-1].reshape(index.shape)
        chosen, used = _chosen(b, index, types.a), arithmetic
        if unit.counted_place and isinstance(used, FloatUnit):
            # Two products that cancel add nothing else.
            other = _chosen(b, index ^ 2, types.a)[:1]
            minus = a[:, :1] ^ a.dtype.type(1 << BITS[types.a] - 1)
            a = np.concatenate([a, a[:, :1], minus], axis=1)
            chosen = np.concatenate([chosen, other, other])
            used = replace(used, block=used.block + 2)
        # Each row of A meets a B of its own, as those of other warps do.
        depth = len(chosen)
        d = multiply_on(
            used,
            a.transpose(1, 0, 2).reshape(1, depth, -1),
            chosen.reshape(depth, columns, -1),
            c.transpose(1, 0, 2).reshape(1, columns, -1),
            types,
        )
        parts.append(d.reshape(columns, rows, warps).transpose(1, 0, 2))
    return np.concatenate(parts, axis=-1)


_trap = stopping("mma.sp of f16 with selector 2 or 3 is illegal there")


def _decode(operands: OperandReader, match: re.Match[str]) -> Operation:
    *_, metadata, given = operands.expect(6)
    shape, types = match["shape"], ProductTypes(*match.group("d", "a", "b", "c"))
    q = Qualifiers(match.groupdict(""))
    check_product(operands, _ROWS, types, ("row", "col"), q)
    depth = int(shape.removeprefix("m16n8k")) // 2
    count = 2 * _INDICES_A_LANE // _indices_of_a_row(types.a, depth)
    selector = given.value if isinstance(given, ImmediateText) and not given.float_bits else -1
    traps = _TRAPPING.search(match[0]) and selector in (2, 3)
    if not (0 <= selector < count or traps):
        known = ", ".join(map(str, range(count)))
        operands.unsupported(f"the sparsity selector has to be one of the constants {known}")
    if isinstance(metadata, ImmediateText):
        operands.unsupported("the metadata stand in a register")
    (held,) = operands.sources(metadata, 1, 32)
    unit = operands.unit(SparseUnit())
    stored = f"m16n8k{depth}"
    layouts = {
        role: documented_layout(role, stored if role == "a" else shape, kind, "row", unit)
        for role, kind in types._asdict().items()
    }
    (a, *_), (_, b, c) = (tuple(factors(operands, each, layouts)) for each in (stored, shape))
    indices = _indices(types.a, depth, 0 if traps else selector, unit)
    arithmetic = operands.unit(product_unit(operands.silicon.chip, types, q, depth))
    multiply = partial(_multiply, types, indices, unit, arithmetic)
    fetches = (a, b, c, lambda warps: spread(held(warps), (LANES, warps.indices.size)))
    product = multiplication(operands, types, layouts["d"], fetches, multiply)
    return _trap if traps else product


FORMS: tuple[Form, ...] = ((_OPCODE, _decode),)
