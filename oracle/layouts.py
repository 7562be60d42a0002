"""Which lane holds which element, and matrices in memory, tiles (9.7.14.4.2) and moved rows.

`docs/oracle.md`, "Fragments" and "Moved matrices".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from oracle.arithmetic.conversions import Scratch
from oracle.errors import UndefinedProgramError, UsageError
from oracle.isa.forms import LANES, LAYOUTS, ROW_BYTES, Form, Format, FormatKind, Matrix
from oracle.isa.lookup import chunks_of, form_of, index_bit, ldmatrix_form, unit_bits


@cache
def index_bits(form: Form, selector: int) -> NDArray[np.int64]:
    """Return 32 times the lane of each index, and its lowest bit in the lane, (m, units)."""
    units = form.matrix("a").columns * form.a_type.bits // unit_bits(form)
    bits: NDArray[np.int64] = index_bit(
        form, selector, np.arange(form.shape.m)[:, None], np.arange(units)
    )
    return bits


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
    half = np.full(8 // digit.itemsize, -1 << 8 * digit.itemsize - 1, digit).view("<i8")
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
    unit = found + 4 * (np.arange(len(found)) // 2)[:, None, None]
    each = 2 if form.a_type.bits == 4 else 1  # rows that an index chooses together
    rows = unit[:, None] * each + np.arange(each)[:, None, None]
    places = (rows * tiles + np.arange(tiles)).reshape(len(found) * each, -1)
    flat = lines.transpose(1, 0, 2).reshape(n, -1)
    result: NDArray[Any] = flat.take(places, axis=1, mode="clip")
    if words:
        result = result[:, 0::2] | result[:, 1::2].astype(np.uint32) << np.uint32(16)
    return result.transpose(2, 1, 0)


@cache
def row_form(form: Form) -> Form:
    """Return the form of a product of one row of A, as `by_row` and `met` give it."""
    return form.stored.varied(shape=f"m1n{form.shape.n}k{form.stored.shape.k}")


def by_row(matrices: NDArray[Any]) -> NDArray[Any]:
    """Return the rows of (tiles, m, columns) as matrices of one row, in the order of `met`."""
    turned = np.ascontiguousarray(matrices.transpose(2, 1, 0))
    return turned.reshape(1, len(turned), -1).transpose(2, 0, 1)


def scales_by_row(of_a: NDArray[Any], of_b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return scales of the products of one row each, in the order of `by_row`."""
    return by_row(of_a), np.tile(of_b, (of_a.shape[1], 1, 1))


def of_rows(rows: NDArray[Any], m: int) -> NDArray[Any]:
    """Return (tiles, m, columns) of what `by_row` made of it."""
    turned = rows.transpose(2, 1, 0)
    return turned.reshape(turned.shape[0], m, -1).transpose(2, 1, 0)


@cache
def places(form: Form, operand: str) -> NDArray[np.int64]:
    """Return multiplication, row and column of each element of the lanes, (32, elements, 3).

    Of a warpgroup of its threads, (128, elements, 3).
    """
    lane = np.arange(form.threads)[:, None]
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
    # Each warp of a warpgroup has 16 rows, and n / 8 times the fragment of m16n8 (9.7.15.5.1.1).
    g, t = lane // LANES * 16 + lane % LANES // 4, lane % 4
    halves = 1 if form.shape.m == 8 else 2
    if operand in "cd":
        return g + 8 * (i // 2 % halves), 8 * (i // 2 // halves) + 2 * t + i % 2
    p = max(1, 32 // form.type(operand).bits)
    r, j = i // p, i % p
    if operand == "b":
        return 4 * p * r + p * t + j, g + 0 * i
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
    form: Form, operand: str, words: NDArray[np.uint32], scratch: Scratch | None = None
) -> NDArray[Any]:
    """Gather matrices, (form.groups * tiles, rows, columns), from registers (tiles, 32, words).

    `scratch`: Working memory for floats, which are then good until the next call for the operand.
    In memory floats have tiles last and k first, integers tiles first and k last.
    """
    type_ = form.type(operand)
    rows, columns = form.matrix(operand).rows, form.matrix(operand).columns
    tiles = len(words)
    if not type_.is_float:
        per = 32 // type_.bits
        registers = words.reshape(tiles, -1).take(_order(form, operand)[::per] // per, axis=1)
        elements = _elements(registers, type_)
        if operand == "b":
            return elements.reshape(tiles, columns, rows).swapaxes(1, 2)
        return elements.reshape(tiles, rows, columns)
    scratch = scratch or Scratch()
    lanes = _lanes(words, type_, scratch)
    matrices = scratch.array(f"elements {operand}", lanes.shape, type_.raw)
    lanes.take(_order(form, operand), axis=0, out=matrices, mode="clip")
    if operand == "a":
        return matrices.reshape(columns, rows, form.groups * tiles).transpose(2, 1, 0)
    return matrices.reshape(rows, columns, form.groups * tiles).transpose(2, 0, 1)


def _lanes(words: NDArray[np.uint32], type_: Format, scratch: Scratch) -> NDArray[Any]:
    """Return floats in the order of the lanes, (elements, tiles)."""
    registers = _elements(words, type_) if type_.bits >= 32 else words.reshape(len(words), -1)
    lanes = scratch.array("lanes", registers.shape[::-1], registers.dtype)
    scratch.turn(lanes.T, registers)
    if type_.bits >= 32:
        return lanes
    # Registers are turned as a whole: half the time of turning elements of 16 bits (2026-11-22).
    elements = scratch.array("parts", (len(lanes), 32 // type_.bits, len(words)), type_.raw)
    for part in range(32 // type_.bits):
        shift = np.uint32(part * type_.bits)
        np.right_shift(lanes, shift, out=elements[:, part], casting="unsafe")
    if type_.bits < 8:
        elements &= elements.dtype.type((1 << type_.bits) - 1)
    return elements.reshape(-1, len(words))


def pack(
    form: Form, matrices: NDArray[Any], target: NDArray[np.uint32], operand: str = "d",
    scratch: Scratch | None = None,
) -> None:  # fmt: skip
    """Deal matrices out to registers, `target` (tiles, 32, words): the reverse of `unpack`."""
    tiles, type_ = len(target), form.type(operand)
    if type_.is_float:
        turned = matrices.T if operand == "a" else matrices.transpose(1, 2, 0)
        scratch = scratch or Scratch()
        lanes = scratch.array("packed", (turned.size // tiles, tiles), turned.dtype)
        places = _place(form, operand, operand == "a")
        turned.reshape(-1, tiles).take(places, axis=0, out=lanes, mode="clip")
        lanes = lanes if type_.bits >= 32 else _joined(lanes, type_.bits)
        scratch.turn(target.reshape(tiles, -1).view(lanes.dtype), lanes.T)
        return
    lanes = matrices.reshape(tiles, -1).take(_place(form, operand, False), axis=1)
    if type_.bits < 32:
        lanes = _joined(lanes.T, type_.bits).T
    target.view(lanes.dtype)[...] = lanes.reshape(target.shape)


def _joined(elements: NDArray[Any], bits: int) -> NDArray[np.uint32]:
    """Put neighbours into words of 32 bits, the first in the lowest ones."""
    parts = 32 // bits
    words = np.zeros((len(elements) // parts, *elements.shape[1:]), np.uint32)
    for part in range(parts):
        words |= (elements[part::parts].astype(np.uint32) & (2**bits - 1)) << np.uint32(bits * part)
    return words


@cache
def _place(form: Form, operand: str, across: bool) -> NDArray[np.int64]:
    """Return, for each element of the lanes, its place in matrices, by columns or by rows."""
    rows, columns = form.matrix(operand).rows, form.matrix(operand).columns
    group, row, column = places(form, operand).reshape(-1, 3).T
    return (column * rows + row if across else row * columns + column) * form.groups + group


@cache
def _order(form: Form, operand: str) -> NDArray[np.int64]:
    """Return, for each element of the matrices in the order of `unpack`, its place in the lanes."""
    across = operand == ("a" if form.type(operand).is_float else "b")
    return np.argsort(_place(form, operand, across))


def _elements(words: NDArray[np.uint32], type_: Format) -> NDArray[Any]:
    """Return the elements of each tile, (tiles, elements), in the order of the lanes."""
    flat = np.ascontiguousarray(words).reshape(len(words), -1)
    if type_.bits >= 8:
        return flat.view(np.dtype(type_.raw).newbyteorder("<"))
    return _opened(flat.view(np.uint8), type_)


def _opened(packed: NDArray[np.uint8], type_: Format) -> NDArray[Any]:
    """Return elements of 4 bits or 1 bit of bytes, along the last axis, one value each."""
    if type_.bits == 1:
        return np.unpackbits(packed, axis=-1, bitorder="little")
    elements = np.empty((*packed.shape[:-1], 2 * packed.shape[-1]), np.uint8)
    elements[..., 0::2], elements[..., 1::2] = packed & 0xF, packed >> 4
    # bit 3 of s4 is the sign
    return ((elements ^ 8) - 8).view(np.int8) if type_.kind is FormatKind.SIGNED else elements


Given = tuple[str, NDArray[Any], DTypeLike, tuple[int, ...]]
"""Name of an array, the array, its dtype, and the dimensions that it has to end in."""


def check_operands(form: Form, *operands: NDArray[Any]) -> tuple[int, ...]:
    """Check A, B and C against a form; return their leading dimensions; else UsageError."""
    # What .satfinite did to floats the page no longer says (9.7.14.4.5), nor was it measured.
    if form.satfinite and form.a_type.is_float:
        text = "what .satfinite does to floating point is not known; leave it out"
        raise UsageError(f"{form.opcode}: {text}, or give integer multiplicands")
    given = (
        (one.operand, array, one.type.raw, (one.rows, one.columns))
        for one, array in zip(map(form.matrix, "abc"), operands, strict=True)
    )
    return check_batch(*given)


def check_batch(*given: Given) -> tuple[int, ...]:
    """Check arrays; return their leading dimensions, which are the same, or raise UsageError."""
    for name, array, dtype, tail in given:
        check_array(name, array, dtype, *tail)
    found = {name: array.shape[: -len(tail)] for name, array, _, tail in given}
    if len({*found.values()}) > 1:
        listed = ", ".join(f"{shape} of {name}" for name, shape in found.items())
        raise UsageError(f"the leading dimensions differ: {listed}; give the same to all")
    return found[given[0][0]]


def check_array(name: str, array: NDArray[Any], dtype: DTypeLike, *tail: int | None) -> None:
    """Raise UsageError unless an array has a dtype and ends in these dimensions (None: any)."""
    if not isinstance(array, np.ndarray) or array.dtype != np.dtype(dtype):
        given = getattr(array, "dtype", type(array).__name__)
        text = f"{name} is an array of {given}; it must be one of {np.dtype(dtype)}, raw patterns"
        raise UsageError(f"{text}: view it or convert it")
    last = array.shape[-len(tail) :]
    pairs = zip(tail, last, strict=False)
    if len(last) < len(tail) or any(wanted not in (None, size) for wanted, size in pairs):
        listed = ", ".join("bytes" if size is None else str(size) for size in tail)
        raise UsageError(f"{name} has shape {array.shape}; it must be (..., {listed})")


def chunks(
    form: Form, tiles: int, *operands: NDArray[Any]
) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield slices of the flattened batch with A, B and C of each, their elements checked."""
    flat = [array.reshape(-1, *array.shape[-2:]) for array in operands]
    for start in range(0, len(flat[0]), tiles):
        part = slice(start, min(start + tiles, len(flat[0])))
        a, b, c = (array[part] for array in flat)
        for name, array in zip("abc", (a, b, c), strict=True):
            check_elements(name, array, form.type(name))
        yield part, a, b, c


def check_elements(name: str, array: NDArray[Any], fmt: Format) -> None:
    """Raise UsageError if a value of an array is no element of a format that is smaller."""
    if fmt.bits >= 8 * array.dtype.itemsize or not array.size:
        return
    signed = fmt.kind is FormatKind.SIGNED
    least, most = -(1 << (fmt.bits - 1)) if signed else 0, (1 << (fmt.bits - signed)) - 1
    for end in (int(array.min()), int(array.max())):
        if not least <= end <= most:
            text = f"{name} holds {end}; an element of .{fmt.name} is {least} to {most}"
            raise UsageError(f"{text}, one value for each {fmt.raw}")


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A matrix as it lies in memory, apart from where; UsageError if lines start inside a byte."""

    matrix: Matrix
    layout: str
    """"row" or "col"."""
    stride: int | None = None
    """Elements from one line to the next; None stands for the default of the page."""

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise UsageError(f"layout {self.layout!r} is none of {', '.join(LAYOUTS)}")
        bits = self.matrix.type.bits
        if self.elements * bits % 8:
            text = f"a stride of {self.elements} elements of {bits} bits is no whole number of"
            raise UsageError(f"{text} bytes; give a multiple of {8 // bits}")

    @cached_property
    def elements(self) -> int:
        """Elements from one line to the next."""
        return self.matrix.default_stride(self.layout) if self.stride is None else self.stride

    @cached_property
    def pitch(self) -> int:
        """Bytes from one line to the next."""
        return self.elements * self.matrix.type.bits // 8

    @cached_property
    def lines(self) -> int:
        """Number of lines: rows of a row-major matrix, columns of a column-major one."""
        return self.matrix.leading_instances(self.layout)

    @cached_property
    def line_bytes(self) -> int:
        """Bytes in a line. A whole number for every matrix of the pages."""
        return self.matrix.default_stride(self.layout) * self.matrix.type.bits // 8

    @cached_property
    def extent(self) -> int:
        """Bytes from the first of the tile to the last, both included."""
        return (self.lines - 1) * self.pitch + self.line_bytes

    @cached_property
    def byte_offsets(self) -> NDArray[np.int64]:
        """Offset of every byte of the tile from its first, int64 (lines, line_bytes)."""
        starts = np.arange(self.lines, dtype=np.int64) * self.pitch
        return starts[:, None] + np.arange(self.line_bytes, dtype=np.int64)


def read(memory: NDArray[np.uint8], offset: int, tile: Tile) -> NDArray[Any]:
    """Read a matrix at a byte of each memory: (count, rows, columns), raw patterns, one each."""
    view = _lines(memory, offset, tile)
    values = view if tile.matrix.type.bits >= 8 else _opened(view, tile.matrix.type)
    return values if tile.layout == "row" else values.swapaxes(-1, -2)


def write(memory: NDArray[np.uint8], offset: int, tile: Tile, values: NDArray[Any]) -> None:
    """Write matrices of raw patterns, (count, rows, columns), at a byte of each memory."""
    view = _lines(memory, offset, tile)
    lines = values if tile.layout == "row" else values.swapaxes(-1, -2)
    bits = tile.matrix.type.bits
    if bits >= 8:
        np.copyto(view, lines)
    elif bits == 1:
        view[...] = np.packbits(lines & 1, axis=-1, bitorder="little")
    else:
        nibbles = lines.view(np.uint8) & 0xF
        view[...] = nibbles[..., 0::2] | nibbles[..., 1::2] << 4


def _lines(memory: NDArray[np.uint8], offset: int, tile: Tile) -> NDArray[Any]:
    """View the lines of a tile, without copying: (count, lines, elements or packed bytes)."""
    count, size = memory.shape
    if offset < 0 or offset + tile.extent > size:
        raise UsageError(
            f"a tile of {tile.extent} bytes at byte {offset} does not lie inside a memory of "
            f"{size} bytes"
        )
    # Elements, or bytes where those are smaller.
    raw = tile.matrix.type.raw if tile.matrix.type.bits >= 8 else "uint8"
    unit_ = np.dtype(raw).newbyteorder("<")
    first = memory[:, offset : offset + tile.line_bytes].view(unit_)
    return np.lib.stride_tricks.as_strided(
        first,
        shape=(count, tile.lines, tile.line_bytes // unit_.itemsize),
        strides=(memory.strides[0], tile.pitch, unit_.itemsize),
    )


def ldmatrix(opcode: str, shared: NDArray[Any], addresses: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the registers that ldmatrix loads, uint32 (..., 32, registers).

    `shared`: uint8 (..., bytes). `addresses`: uint32 (..., 32), byte offsets, of which those that
    the form uses are looked at. Leading dimensions broadcast. Raises UsageError if the opcode, a
    dtype or shape is wrong; UndefinedProgramError if a row is not aligned or not inside.
    """
    form = ldmatrix_form(opcode)
    leading, index = _rows(form, shared, addresses)
    memory = np.broadcast_to(shared, (*leading, shared.shape[-1]))
    rows = np.take_along_axis(memory, index, axis=-1)
    return distribute(form, rows.reshape(*leading, form.addresses, form.row_bytes))


def stmatrix(
    opcode: str, shared: NDArray[Any], addresses: NDArray[Any], registers: NDArray[Any]
) -> NDArray[np.uint8]:
    """Return shared memory after stmatrix, uint8 (..., bytes); of one address the last row stays.

    `registers`: uint32 (..., 32, registers); else as `ldmatrix`. UsageError also of .m16n8, whose
    layout is not known here.
    """
    form = form_of(opcode, "stmatrix")
    check_array("registers", registers, np.uint32, LANES, form.registers)
    leading, index = _rows(form, shared, addresses, registers.shape[:-2])
    result = np.array(np.broadcast_to(shared, (*leading, shared.shape[-1])))
    # As they lie in memory: of rows at one address, the last is what stays.
    order = np.argsort(moves(form), axis=None)
    held = bytes_of(np.broadcast_to(registers, (*leading, *registers.shape[-2:])))
    rows = _flat(held)[..., order]
    np.put_along_axis(result, index, rows, axis=-1)
    return result


def movmatrix(opcode: str, registers: NDArray[Any]) -> NDArray[np.uint32]:
    """Return what movmatrix makes of registers, uint32 (..., 32, 1): 8 x 8 b16 transposed."""
    form = form_of(opcode, "movmatrix")
    check_array("registers", registers, np.uint32, LANES, 1)
    return moved(form, registers)


def _rows(
    form: Form, shared: NDArray[Any], addresses: NDArray[Any], *leading: tuple[int, ...]
) -> tuple[tuple[int, ...], NDArray[np.int64]]:
    """Return the leading dimensions, and every byte of the rows that a form uses, (..., bytes)."""
    check_array("shared", shared, np.uint8, None)
    check_array("addresses", addresses, np.uint32, LANES)
    used = addresses[..., : form.addresses].astype(np.int64)
    size, row = shared.shape[-1], form.row_bytes
    if np.any(used % row):
        text = f"row address {int(used[used % row != 0].flat[0])} is not a multiple of {row}"
        raise UndefinedProgramError(f"{text} ({form.section}); align it")
    if np.any(used + row > size):
        text = f"a row of {row} bytes at address {int(used.max())} is not inside the {size} bytes"
        raise UndefinedProgramError(f"{text} of shared memory; lower the address")
    try:
        shape = np.broadcast_shapes(shared.shape[:-1], addresses.shape[:-1], *leading)
    except ValueError as error:
        raise UsageError(f"leading dimensions do not broadcast: {error}; make them equal") from None
    index = used[..., None] + np.arange(row)
    index = index.reshape(*used.shape[:-1], form.addresses * row)
    return shape, np.broadcast_to(index, (*shape, index.shape[-1]))


@cache
def moves(form: Form, count: int = 1) -> NDArray[np.int64]:
    """Return which byte each byte of the lanes' registers is, int64 (32, bytes).

    A byte of the rows, packed elements widened; of movmatrix one of `count` source registers.
    """
    if not form.vectors:
        lane, byte = np.divmod(np.arange(4 * LANES).reshape(8, 8, 2).swapaxes(0, 1), 4)
        lane, byte = lane.reshape(LANES, 1, 4), byte.reshape(LANES, 1, 4)
        register = np.arange(count)[:, None]
        return ((lane * count + register) * 4 + byte).reshape(LANES, -1)
    if form.is_store and form.element_bits != 16:
        raise UsageError(
            f"which element of {form.opcode} goes where is not known here; take a form of m8n8"
        )
    rows = np.arange(form.addresses * ROW_BYTES)
    elements = rows.reshape(form.number, form.shape.m, form.shape.n, -1)
    if form.transposed:
        elements = elements.swapaxes(1, 2)
    return elements.reshape(form.registers, LANES, 4).swapaxes(0, 1).reshape(LANES, -1)


@cache
def unit(form: Form) -> int:
    """Return of how many bytes that lie together in registers all do in memory, too: 1, 2 or 4."""
    found = moves(form).reshape(-1, 4)
    together = found[:, 1:] == found[:, :1] + np.arange(1, 4)
    return 4 if together.all() else 2 if together[:, 0].all() else 1


def is_packed(form: Form) -> bool:
    """Whether elements are narrower than a byte in memory, and widened to one in registers."""
    return "p" in form.operands and form.element_bits < 8


def distribute(form: Form, rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Deal rows, uint8 (..., form.addresses, form.row_bytes), out to (..., 32, form.registers)."""
    if is_packed(form):
        rows = _widened(form, rows)
    return words_of(_flat(rows)[..., moves(form)])


def load_rows(form: Form, memory: NDArray[np.uint8], rows: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Load rows (form.addresses, form.row_bytes) of memory (count, bytes) into registers."""
    if is_packed(form):
        return distribute(form, np.take(memory, rows, axis=1))
    return words_of(np.take(memory, rows.ravel()[moves(form)], axis=1))


def store_rows(
    form: Form, memory: NDArray[np.uint8], rows: NDArray[np.int64], registers: NDArray[np.uint32]
) -> None:
    """Write rows of memory from registers, in place; parameters as of `load_rows`."""
    memory[:, rows.ravel()[moves(form)]] = bytes_of(registers)


def moved(form: Form, registers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return registers as movmatrix gives each of them, uint32 (..., 32, registers)."""
    index = moves(form, registers.shape[-1])
    return words_of(_flat(bytes_of(registers))[..., index])


def _flat(bytes_: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return bytes_.reshape(*bytes_.shape[:-2], -1)


def words_of(bytes_: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the registers that hold bytes, uint32 (..., 32, words); the first is the lowest."""
    return np.ascontiguousarray(bytes_).view("<u4").astype(np.uint32, copy=False)


def bytes_of(registers: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return the bytes of registers, uint8 (..., 32, bytes), the lowest first."""
    return np.ascontiguousarray(registers).astype("<u4", copy=False).view(np.uint8)


def _widened(form: Form, rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return rows of elements narrower than a byte with a byte for each."""
    bits = np.unpackbits(rows, axis=-1, bitorder="little")[..., : form.shape.n * form.element_bits]
    elements = bits.reshape(*bits.shape[:-1], form.shape.n, form.element_bits)
    # packbits fills up with zeros at the high end
    values = np.packbits(elements, axis=-1, bitorder="little")[..., 0]
    if form.texts["dst_fmt"] == "s8":
        values = (values ^ np.uint8(8)) - np.uint8(8)
    return values
