"""What metadata choose: which stored elements of A meet which rows of B.

A stored row of A is cut into units, each with an index of 2 bits. Unit u comes from unit
4 (u div 2) + index of the whole row. Where the index is, what it may be and how large a unit is,
says the row of the instruction (`oracle.instructions.row.Metadata`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.forms import Form
from oracle.isa import metadata_of


@cache
def index_bits(form: Form, selector: int) -> NDArray[np.int64]:
    """Return 32 times the lane of each index, and its lowest bit in the lane, (m, units)."""
    row = metadata_of(form)
    units = form.matrix("a").columns * form.a_type.bits // row.unit_bits(form)
    return np.array(
        [
            [row.index_bit(form, selector, line, unit) for unit in range(units)]
            for line in range(form.shape.m)
        ]
    )


def holders(form: Form, selector: int) -> NDArray[np.intp]:
    """Return the lanes whose metadata count, in order."""
    return np.unique(index_bits(form, selector) // 32)


def indices(form: Form, metadata: NDArray[np.uint32], selector: int) -> NDArray[np.uint8]:
    """Return the index of each unit of A, uint8 (units, m, tiles), of metadata (tiles, 32)."""
    lane, bit = np.divmod(index_bits(form, selector).T, 32)
    words = metadata.T[lane] >> bit[:, :, None].astype(np.uint32)
    return (words & np.uint32(3)).astype(np.uint8)


def defined_rows(form: Form, metadata: NDArray[np.uint32], selector: int) -> NDArray[np.bool_]:
    """Return whether the ISA gives all metadata of a row of A a meaning, bool (tiles, m)."""
    found = indices(form, metadata, selector)
    pairs = found[0::2] | found[1::2] << np.uint8(2)
    defined = np.isin(pairs, metadata_of(form).pairs(form))
    return np.asarray(defined.all(axis=0)).T


def rows_met(form: Form, metadata: NDArray[np.uint32], selector: int) -> NDArray[np.intp]:
    """Return the row of B that each stored element meets, (tiles, m, K / 2).

    Of tf32 it is the one whose word gives the upper half.
    """
    found = indices(form, metadata, selector)
    unit = found.T + 4 * (np.arange(len(found)) // 2)
    if form.a_type.bits == 4:
        return np.stack([2 * unit, 2 * unit + 1], axis=-1).reshape(*unit.shape[:2], -1)
    return unit[..., 1::2] // 2 if form.a_type.bits == 32 else unit


def expanded(
    form: Form, a: NDArray[Any], metadata: NDArray[np.uint32], selector: int
) -> NDArray[Any]:
    """Return the A of integers, (tiles, m, K), whose places hold the sum of what is stored there.

    int16 of elements of 8 bits, int8 of those of 4 bits; `a` is (tiles, m, K / 2).
    """
    # The places of four units are the digits of a word, 16 bits each, to which each unit is added
    # where its index says. A digit of 4-bit elements is two of 8 bits.
    lane, bit = np.divmod(index_bits(form, selector), 32)
    shift = metadata.take(lane, axis=1)
    shift >>= bit.astype(np.uint32)
    shift &= 3
    shift <<= 4
    digit: np.dtype[Any] = np.dtype("<i2")
    units = a.astype(np.int64)
    if form.a_type.bits == 4:
        digit = np.dtype("<i1")
        units = units[..., 0::2] + (units[..., 1::2] << 8)
    units <<= shift
    words = units[..., 0::2] + units[..., 1::2]
    # Negative digits borrow from those above, which a half of their range added to each prevents.
    half = np.full(8 // digit.itemsize, np.iinfo(digit).min, digit).view("<i8")
    words += half
    words ^= half
    return words.astype("<i8", copy=False).view(digit)


def met(form: Form, b: NDArray[Any], metadata: NDArray[np.uint32], selector: int) -> NDArray[Any]:
    """Return the elements of a B of floats, (tiles, K, n), that each row of A meets.

    Fastest with tiles last in memory. Returns (m * tiles, K / 2, n), all tiles of the first row of
    A first; in memory as (K / 2, n, m, tiles).
    """
    tiles, depth, n = b.shape
    lines = np.ascontiguousarray(b.transpose(1, 2, 0))
    words = form.a_type.bits == 32
    if words:  # rows of halves, the lower one first
        halves = lines.astype("<u4", copy=False).view("<u2").reshape(depth, n, tiles, 2)
        lines = np.ascontiguousarray(halves.transpose(0, 3, 1, 2)).reshape(2 * depth, n, tiles)
    found = indices(form, metadata, selector)
    result = np.empty((len(found), n, *found.shape[1:]), lines.dtype)
    column = np.arange(n)[:, None, None] * tiles + np.arange(tiles)
    for unit, (index, target) in enumerate(zip(found, result, strict=True)):
        place = (index + np.intp(unit // 2 * 4)) * (n * tiles) + column
        lines.take(place, out=target, mode="clip")
    if words:
        result = result[0::2] | result[1::2].astype(np.uint32) << np.uint32(16)
    return result.reshape(*result.shape[:2], -1).transpose(2, 0, 1)


@cache
def row_form(form: Form) -> Form:
    """Return the form of a product of one row of A, as `by_row` and `met` give it."""
    return form.stored.varied(shape=f"m1n{form.shape.n}k{form.stored.shape.k}")


def by_row(matrices: NDArray[Any]) -> NDArray[Any]:
    """Return the rows of matrices (tiles, m, columns) as matrices of one row, ordered as by `met`.

    (m * tiles, 1, columns), in memory as (columns, m, tiles).
    """
    turned = np.ascontiguousarray(matrices.transpose(2, 1, 0))
    return turned.reshape(1, len(turned), -1).transpose(2, 0, 1)


def of_rows(rows: NDArray[Any], m: int) -> NDArray[Any]:
    """Return (tiles, m, columns) of what `by_row` made of it."""
    turned = rows.transpose(2, 1, 0)
    return turned.reshape(turned.shape[0], m, -1).transpose(2, 1, 0)
