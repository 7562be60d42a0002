"""The sparse A of mma.sp: which of its stored elements meets which row of B (9.7.14.6.1 and .2).

A stored row has K / 2 elements, and an index of 2 bits for each *unit* of it: an element of 16 or 8
bits, a pair of 4-bit elements, a half of a tf32 word. Two units come from each chunk of four, and
an index says which. With lane = 4 g + t, row i = g + 8 h and w = `metadata_lanes`, unit u of a row
has its index in

======================  =====================================  ======================
A of                    lane                                   bits
======================  =====================================  ======================
16 bits and more        4 g + w * selector + u div 8           16 h + 2 (u mod 8)
8 and 4 bits            4 g + w * selector + h + 2 (u div 16)  2 (u mod 16)
======================  =====================================  ======================

and comes from unit 4 (u div 2) + index of the K. An H200 does so with indices of any kind, equal
and descending ones too, which the ISA leaves undefined (measured 2026-11-23).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.forms import Form
from oracle.instructions.mma_sp import legal_pairs, metadata_lanes, units


@cache
def _places(form: Form, selector: int) -> tuple[NDArray[np.intp], NDArray[np.uint32]]:
    """Return lane and lowest bit of each index, (units, m)."""
    row, unit = np.arange(form.shape.m), np.arange(units(form))[:, None]
    half, lane = row // 8, row % 8 * 4 + metadata_lanes(form) * selector
    if form.a_type.bits >= 16:
        lane, bit = lane + unit // 8, 16 * half + 2 * (unit % 8)
    else:
        lane, bit = lane + half + 2 * (unit // 16), 0 * half + 2 * (unit % 16)
    return lane.astype(np.intp), bit.astype(np.uint32)


def holders(form: Form, selector: int) -> NDArray[np.intp]:
    """Return the lanes whose metadata count, in order."""
    return np.unique(_places(form, selector)[0])


def indices(form: Form, metadata: NDArray[np.uint32], selector: int) -> NDArray[np.uint8]:
    """Return the index of each unit of A.

    Parameters
    ----------
    metadata : uint32 (tiles, 32)
        Of each lane.

    Returns
    -------
    uint8 (units, m, tiles): 0 to 3
    """
    lane, bit = _places(form, selector)
    return (metadata.T[lane] >> bit[:, :, None] & np.uint32(3)).astype(np.uint8)


def defined_rows(form: Form, metadata: NDArray[np.uint32], selector: int) -> NDArray[np.bool_]:
    """Return whether the ISA gives all metadata of a row of A a meaning, bool (tiles, m)."""
    found = indices(form, metadata, selector)
    pairs = found[0::2] | found[1::2] << np.uint8(2)
    defined = np.isin(pairs, legal_pairs(form))
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
) -> NDArray[np.int16]:
    """Return the A of integers that stored elements stand for: the sum of those at each place.

    Parameters
    ----------
    a : (tiles, m, K / 2)

    Returns
    -------
    int16 (tiles, m, K)
    """
    found = indices(form, metadata, selector).T
    chosen = found.reshape(*found.shape[:2], -1, 2, 1, 1) == np.arange(4)[:, None]
    stored = a.astype(np.int16).reshape(*found.shape[:2], found.shape[2] // 2, 2, 1, -1)
    sums: NDArray[np.int16] = (stored * chosen).sum(axis=3, dtype=np.int16)
    return sums.reshape(*a.shape[:2], form.shape.k)


def met(form: Form, b: NDArray[Any], metadata: NDArray[np.uint32], selector: int) -> NDArray[Any]:
    """Return the elements of a B of floats that each row of A meets.

    Parameters
    ----------
    b : (tiles, K, n)
        Fastest with tiles last in memory.

    Returns
    -------
    (m * tiles, K / 2, n), all tiles of the first row of A first; in memory as (K / 2, n, m, tiles).
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
    """Return the rows of matrices as matrices of one row, in the order of `met`.

    Parameters
    ----------
    matrices : (tiles, m, columns)

    Returns
    -------
    (m * tiles, 1, columns), in memory as (columns, m, tiles)
    """
    turned = np.ascontiguousarray(matrices.transpose(2, 1, 0))
    return turned.reshape(1, len(turned), -1).transpose(2, 0, 1)


def of_rows(rows: NDArray[Any], m: int) -> NDArray[Any]:
    """Return (tiles, m, columns) of what `by_row` made of it."""
    turned = rows.transpose(2, 1, 0)
    return turned.reshape(turned.shape[0], m, -1).transpose(2, 1, 0)
