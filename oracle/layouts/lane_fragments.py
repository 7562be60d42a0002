"""Which lane holds which element of a product: `docs/oracle.md`, "Fragments"."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.scratch import Scratch
from oracle.isa.forms import LANES, Form, Format, FormatKind
from oracle.isa.lookup import chunks_of, index_bit, unit_bits


@cache
def index_bits(form: Form, selector: int) -> NDArray[np.int64]:
    """Return 32 times the lane of each index, and its lowest bit in the lane, (m, units)."""
    units = form.matrix("a").columns * form.a_type.bits // unit_bits(form)
    return np.array(
        [
            [index_bit(form, selector, line, unit) for unit in range(units)]
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
    defined = np.isin(pairs, chunks_of(form))
    return np.asarray(defined.all(axis=0)).T


def rows_met(form: Form, metadata: NDArray[np.uint32], selector: int) -> NDArray[np.intp]:
    """Return the row of B that each stored element meets, (tiles, m, K / 2)."""
    found = indices(form, metadata, selector)
    unit = found.T + 4 * (np.arange(len(found)) // 2)
    if form.a_type.bits == 4:
        return np.stack([2 * unit, 2 * unit + 1], axis=-1).reshape(*unit.shape[:2], -1)
    return unit[..., 1::2] // 2 if form.a_type.bits == 32 else unit


def expanded(
    form: Form, a: NDArray[Any], metadata: NDArray[np.uint32], selector: int
) -> NDArray[Any]:
    """Return the A of integers, (tiles, m, K), of what is stored, (tiles, m, K / 2)."""
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
    """Return the elements of B, (tiles, K, n), that each row of A meets, (m * tiles, K / 2, n)."""
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
    """Return the rows of (tiles, m, columns) as matrices of one row, in the order of `met`."""
    turned = np.ascontiguousarray(matrices.transpose(2, 1, 0))
    return turned.reshape(1, len(turned), -1).transpose(2, 0, 1)


def of_rows(rows: NDArray[Any], m: int) -> NDArray[Any]:
    """Return (tiles, m, columns) of what `by_row` made of it."""
    turned = rows.transpose(2, 1, 0)
    return turned.reshape(turned.shape[0], m, -1).transpose(2, 1, 0)


@cache
def places(form: Form, operand: str) -> NDArray[np.int64]:
    """Return multiplication, row and column of each element of the lanes, (32, elements, 3)."""
    lane = np.arange(LANES)[:, None]
    count = form.words(operand) * 32 // form.type(operand).bits
    i = np.arange(count)[None]
    if form.groups > 1:
        row, column = _quad_pair_places(form, operand, lane, i)
        group = lane % 16 // 4 + 0 * i
    else:
        row, column = _places(form, operand, lane, i)
        group = np.zeros_like(row)
    return np.stack(np.broadcast_arrays(group, row, column), axis=-1)


def _places(
    form: Form, operand: str, lane: NDArray[Any], i: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    g, t = lane // 4, lane % 4
    if operand in "cd":
        return g + 8 * (i // 2), 2 * t + i % 2
    p = max(1, 32 // form.type(operand).bits)
    r, j = i // p, i % p
    if operand == "b":
        return 4 * p * r + p * t + j, g + 0 * i
    halves = form.shape.m // 8
    return g + 8 * (r % halves), 4 * p * (r // halves) + p * t + j


def _quad_pair_places(
    form: Form, operand: str, lane: NDArray[Any], i: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return row and column for m8n8k4 of f16 (9.7.14.5.1)."""
    upper, t = lane // 16 * 4, lane % 4
    if operand in "cd":
        if form.type(operand).name == "f16":
            return t + upper + 0 * i, i + 0 * t
        return (lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1)
    along = (i + 0 * t, t + upper + 0 * i)
    if operand == "a":
        k, m = along
        return (m, k) if form.a_layout == "row" else (i + upper, t + 0 * i)
    return (t + 0 * i, i + upper) if form.b_layout == "row" else (i + 0 * t, t + upper + 0 * i)


def unpack(
    form: Form, operand: str, words: NDArray[np.uint32], scratch: Scratch | None = None, *,
    upper: bool = False,
) -> NDArray[Any]:  # fmt: skip
    """Gather matrices, (form.groups * tiles, rows, columns), from registers (tiles, 32, words).

    `scratch`: Working memory for floats, which are then good until the next call for the operand.
    `upper`: Whether floats of 16 bits are wanted in the upper halves of uint32.
    In memory floats have tiles last and k first, integers tiles first and k last.
    """
    type_ = form.type(operand)
    rows, columns = form.matrix(operand).rows, form.matrix(operand).columns
    tiles = len(words)
    if not type_.is_float:
        registers = words.reshape(tiles, -1).take(_register_order(form, operand), axis=1)
        elements = _elements(registers, type_)
        if operand == "b":
            return elements.reshape(tiles, columns, rows).swapaxes(1, 2)
        return elements.reshape(tiles, rows, columns)
    scratch = scratch or Scratch()
    size = form.groups * rows * columns
    dtype = np.uint32 if upper else type_.raw
    matrices = scratch.array(f"elements {operand}", (size, tiles), dtype)
    _gather(_by_lane(form, operand, matrices), words, type_, scratch)
    if operand == "a":
        return matrices.reshape(columns, rows, form.groups * tiles).transpose(2, 1, 0)
    return matrices.reshape(rows, columns, form.groups * tiles).transpose(2, 0, 1)


def _gather(
    places: NDArray[Any], words: NDArray[np.uint32], type_: Format, scratch: Scratch
) -> None:
    """Copy floats from the registers of the lanes to their places, as `_by_lane` gives them."""
    if type_.bits >= 32:
        scratch.turn(places, _elements(words, type_))
        return
    # Registers are turned as a whole: half the time of turning elements of 16 bits (2026-11-22).
    registers = words.reshape(len(words), -1)
    lanes = scratch.array("lanes", registers.shape[::-1], np.uint32)
    scratch.turn(lanes.T, registers)
    if places.dtype == np.uint32:
        low, high = places[..., 0], places[..., 1]
        halves = lanes.T.reshape(low.shape)
        np.left_shift(halves, 16, out=low)
        np.bitwise_and(halves, 0xFFFF_0000, out=high)
        return
    for part in np.ndindex((2,) * (16 // type_.bits)):  # of 16 bits 2, of 8 bits 2 times 2
        if any(part):
            lanes >>= np.uint32(type_.bits)
        target = places[(..., *part)]
        np.copyto(target, lanes.T.reshape(target.shape), casting="unsafe")


def pack(
    form: Form, matrices: NDArray[Any], target: NDArray[np.uint32], operand: str = "d",
    scratch: Scratch | None = None,
) -> None:  # fmt: skip
    """Deal matrices out to registers, `target` (tiles, 32, words): the reverse of `unpack`."""
    tiles, type_ = len(target), form.type(operand)
    if type_.is_float:
        turned = matrices.T if operand == "a" else matrices.transpose(1, 2, 0)
        source = _by_lane(form, operand, turned.reshape(-1, tiles))
        (scratch or Scratch()).turn(_elements(target, type_), source)
        return
    lanes = matrices.reshape(tiles, -1).take(_inverse(form, operand), axis=1)
    if type_.bits < 32:
        lanes = _joined(lanes.T, type_.bits).T
    target.view(lanes.dtype)[...] = lanes.reshape(target.shape)


def _by_lane(form: Form, operand: str, elements: NDArray[Any]) -> NDArray[Any]:
    """View floats (elements, tiles) in the order of the lanes: (tiles, 2, ..., 2), of bits."""
    axes = _place_bits(form, operand)
    bits = len(axes)
    return elements.reshape((2,) * bits + elements.shape[1:]).transpose(bits, *axes)


def _joined(elements: NDArray[Any], bits: int) -> NDArray[np.uint32]:
    """Put neighbours into words of 32 bits, the first in the lowest ones."""
    parts = 32 // bits
    words = np.zeros((len(elements) // parts, *elements.shape[1:]), np.uint32)
    for part in range(parts):
        words |= (elements[part::parts].astype(np.uint32) & (2**bits - 1)) << np.uint32(bits * part)
    return words


@cache
def _place_bits(form: Form, operand: str) -> tuple[int, ...]:
    """Return which bit of the place each bit of a number in the lanes is, highest first."""
    place = np.argsort(_order(form, operand))
    bits = len(place).bit_length() - 1
    return tuple(bits - int(place[1 << bit]).bit_length() for bit in reversed(range(bits)))


@cache
def _inverse(form: Form, operand: str) -> NDArray[np.int64]:
    """Return, for each element of the lanes, its place in (rows, columns, multiplications)."""
    columns = form.matrix(operand).columns
    group, row, column = places(form, operand).reshape(-1, 3).T
    return (row * columns + column) * form.groups + group


@cache
def _order(form: Form, operand: str) -> NDArray[np.int64]:
    """Return, for each element of the matrices in the order of `unpack`, its place in the lanes."""
    rows, columns = form.matrix(operand).rows, form.matrix(operand).columns
    group, row, column = places(form, operand).reshape(-1, 3).T
    across = operand == ("a" if form.type(operand).is_float else "b")
    place = column * rows + row if across else row * columns + column
    return np.argsort(place * form.groups + group)


@cache
def _register_order(form: Form, operand: str) -> NDArray[np.int64]:
    """Return the place in the lanes of each register of integers in the order of `unpack`."""
    elements = 32 // form.type(operand).bits
    return _order(form, operand)[::elements] // elements


def _elements(words: NDArray[np.uint32], type_: Format) -> NDArray[Any]:
    """Return the elements of each tile, (tiles, elements), in the order of the lanes."""
    flat = np.ascontiguousarray(words).reshape(len(words), -1)
    if type_.bits >= 8:
        return flat.view(np.dtype(type_.raw).newbyteorder("<"))
    packed = flat.view(np.uint8)
    if type_.bits == 1:
        return np.unpackbits(packed, axis=1, bitorder="little")
    elements = np.empty((len(flat), 2 * packed.shape[1]), np.uint8)
    elements[:, 0::2], elements[:, 1::2] = packed & 0xF, packed >> 4
    # bit 3 of s4 is the sign
    return ((elements ^ 8) - 8).view(np.int8) if type_.kind is FormatKind.SIGNED else elements
