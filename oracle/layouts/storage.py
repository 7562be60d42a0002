"""Matrices in memory: tiles with strides, and rows that ldmatrix and its like move.

*Lines* are the rows of a row-major matrix, the columns of a column-major one (PTX ISA 9.7.14.4.2).
The layouts of ldmatrix, stmatrix and movmatrix are in `docs/oracle.md`, "Moved matrices".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.scratch import transpose
from oracle.errors import UndefinedProgramError, UsageError
from oracle.isa.forms import LANES, LAYOUTS, ROW_BYTES, Form, Format, FormatKind, Matrix
from oracle.isa.lookup import form_of, ldmatrix_form


def check_operands(form: Form, *operands: NDArray[Any]) -> tuple[int, ...]:
    """Check A, B and C against a form; return the leading dimensions, which are the same.

    Raises UsageError if type, dtype or shape of one is wrong, or the form has no known arithmetic.
    """
    if form.satfinite and form.a_type.is_float:
        # "deprecated in PTX ISA version 6.4 and is removed from PTX ISA version 6.5" (9.7.14.4.5,
        # notes); what it did to floats the page no longer says, nor was it measured.
        raise UsageError(
            f"{form.opcode}: what .satfinite does to floating point is not known; "
            "leave it out, or give integer multiplicands"
        )
    for name, array in zip("abc", operands, strict=True):
        rows, columns = form.shape.matrix(name)
        raw = form.type(name).raw
        if not isinstance(array, np.ndarray) or array.dtype != np.dtype(raw):
            given = getattr(array, "dtype", type(array).__name__)
            raise UsageError(
                f"{name} is an array of {given}; {form.opcode} takes raw bit patterns of "
                f".{form.type(name).name} as {raw}: give a NumPy array, view it or convert it"
            )
        if array.shape[-2:] != (rows, columns):
            text = f"{name} has shape {array.shape}; {form.opcode} takes (..., {rows}, {columns})"
            raise UsageError(text)
    found = [array.shape[:-2] for array in operands]
    if len({*found}) > 1:
        listed = " and ".join(map(str, found))
        raise UsageError(f"the leading dimensions differ: {listed}; give all three the same")
    return found[0]


def check_array(name: str, array: NDArray[Any], dtype: type, *tail: int | None) -> None:
    """Raise UsageError unless an array has a dtype and ends in these dimensions (None: any)."""
    if not isinstance(array, np.ndarray) or array.dtype != np.dtype(dtype):
        given = getattr(array, "dtype", type(array).__name__)
        wanted = f"an array of {np.dtype(dtype)}"
        raise UsageError(f"{name} is {given}; it must be {wanted}, so convert it")
    last = array.shape[-len(tail) :]
    pairs = zip(tail, last, strict=False)
    if len(last) < len(tail) or any(wanted not in (None, size) for wanted, size in pairs):
        listed = ", ".join("bytes" if one is None else str(one) for one in tail)
        raise UsageError(f"{name} has shape {array.shape}; it must be (..., {listed})")


def chunks(
    form: Form, tiles: int, *operands: NDArray[Any]
) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield slices of the flattened batch with A, B and C of each, (tiles, rows, columns).

    Only a chunk is ever copied. UsageError if an element is outside of a 4-bit or 1-bit format.
    """
    total = prod(operands[0].shape[:-2])
    for start in range(0, total, tiles):
        part = slice(start, min(start + tiles, total))
        a, b, c = (_flat_part(array, part) for array in operands)
        for name, array in zip("abc", (a, b, c), strict=True):
            _check_range(name, array, form.type(name))
        yield part, a, b, c


def _flat_part(array: NDArray[Any], part: slice) -> NDArray[Any]:
    leading = array.shape[:-2]
    if len(leading) == 1:
        return array[part]
    if array.flags.c_contiguous:
        return array.reshape((-1, *array.shape[-2:]))[part]
    if not leading:
        return array[None]
    index = np.unravel_index(np.arange(part.start, part.stop), leading)
    return np.asarray(array[index])


def _check_range(name: str, array: NDArray[Any], fmt: Format) -> None:
    if fmt.bits >= 8 * array.dtype.itemsize or not array.size:
        return
    signed = fmt.kind is FormatKind.SIGNED
    least, greatest = -(1 << (fmt.bits - 1)) if signed else 0, (1 << (fmt.bits - signed)) - 1
    for end in (int(array.min()), int(array.max())):
        if not least <= end <= greatest:
            raise UsageError(
                f"{name} holds {end}; an element of .{fmt.name} is {least} to {greatest}, one "
                f"value for each {fmt.raw}"
            )


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
        if self.elements * self.matrix.type.bits % 8:
            raise UsageError(
                f"a stride of {self.elements} elements of {self.matrix.type.bits} bits is no whole "
                f"number of bytes; give a multiple of {8 // self.matrix.type.bits}"
            )

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
    def length(self) -> int:
        """Elements in a line."""
        return self.matrix.default_stride(self.layout)

    @cached_property
    def line_bytes(self) -> int:
        """Bytes in a line. A whole number for every matrix of the pages."""
        return self.length * self.matrix.type.bits // 8

    @cached_property
    def extent(self) -> int:
        """Bytes from the first of the tile to the last, both included."""
        return (self.lines - 1) * self.pitch + self.line_bytes

    @cached_property
    def unit(self) -> np.dtype[Any]:
        """What a line is cut into: its elements, or bytes where those are smaller."""
        type_ = self.matrix.type
        return np.dtype(type_.raw if type_.bits >= 8 else "uint8").newbyteorder("<")

    @cached_property
    def byte_offsets(self) -> NDArray[np.int64]:
        """Offset of every byte of the tile from its first, int64 (lines, line_bytes)."""
        starts = np.arange(self.lines, dtype=np.int64) * self.pitch
        return starts[:, None] + np.arange(self.line_bytes, dtype=np.int64)


def read(memory: NDArray[np.uint8], offset: int, tile: Tile) -> NDArray[Any]:
    """Read a matrix at a byte of each memory (count, bytes): (count, rows, columns), raw patterns.

    Narrow elements one each (s4 sign-extended). It may share memory. UsageError if outside.
    """
    view = _lines(memory, offset, tile)
    bits = tile.matrix.type.bits
    if bits >= 8:
        values = view
    elif bits == 1:
        values = np.unpackbits(view, axis=-1, bitorder="little")
    else:
        values = np.empty((*view.shape[:-1], tile.length), dtype=np.uint8)
        values[..., 0::2] = view & 0xF
        values[..., 1::2] = view >> 4
        if tile.matrix.type.kind is FormatKind.SIGNED:
            values = ((values ^ 8) - 8).view(np.int8)  # bit 3 is the sign
    return values if tile.layout == "row" else values.swapaxes(-1, -2)


def write(memory: NDArray[np.uint8], offset: int, tile: Tile, values: NDArray[Any]) -> None:
    """Write matrices of raw patterns, (count, rows, columns), at a byte of each memory."""
    view = _lines(memory, offset, tile)
    lines = values if tile.layout == "row" else values.swapaxes(-1, -2)
    bits = tile.matrix.type.bits
    if bits >= 8:
        transpose(view, lines)
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
    first = memory[:, offset : offset + tile.line_bytes].view(tile.unit)
    return np.lib.stride_tricks.as_strided(
        first,
        shape=(count, tile.lines, tile.line_bytes // tile.unit.itemsize),
        strides=(memory.strides[0], tile.pitch, tile.unit.itemsize),
    )


def ldmatrix(opcode: str, shared: NDArray[Any], addresses: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the registers that ldmatrix loads, uint32 (..., 32, registers).

    `opcode`: Such as "ldmatrix.sync.aligned.m8n8.x4.shared.b16".
    `shared`: uint8 (..., bytes).
    `addresses`: uint32 (..., 32). Byte offset that each lane gives. Only those that the form uses
    are looked at (as on sm_80 and later). Leading dimensions broadcast.
    Raises UsageError if the opcode is no form of ldmatrix, or a dtype or shape is wrong;
    UndefinedProgramError if a row is not aligned to its size, or not inside the memory.
    """
    form = ldmatrix_form(opcode)
    used = _used_addresses(form, shared, addresses)
    leading = _leading(shared=shared.shape[:-1], addresses=addresses.shape[:-1])
    index = _row_bytes(form, used, leading)
    memory = np.broadcast_to(shared, (*leading, shared.shape[-1]))
    rows = np.take_along_axis(memory, index, axis=-1)
    return distribute(form, rows.reshape(*leading, form.addresses, form.row_bytes))


def stmatrix(
    opcode: str, shared: NDArray[Any], addresses: NDArray[Any], registers: NDArray[Any]
) -> NDArray[np.uint8]:
    """Return shared memory after stmatrix, uint8 (..., bytes).

    `opcode`, `shared`, `addresses`: As of `ldmatrix`; of lanes with one address the last is
    written, which the page leaves open.
    `registers`: uint32 (..., 32, registers). Leading dimensions of all three broadcast.
    Raises as `ldmatrix`, and UsageError of .m16n8, whose layout is not known here.
    """
    form = form_of(opcode, "stmatrix")
    used = _used_addresses(form, shared, addresses)
    check_array("registers", registers, np.uint32, LANES, form.registers)
    leading = _leading(
        shared=shared.shape[:-1], addresses=addresses.shape[:-1], registers=registers.shape[:-2]
    )
    result = np.array(np.broadcast_to(shared, (*leading, shared.shape[-1])))
    # As they lie in memory: of rows at one address, the last is what stays.
    order = np.argsort(moves(form), axis=None)
    held = bytes_of(np.broadcast_to(registers, (*leading, *registers.shape[-2:])))
    rows = _joined(held)[..., order]
    np.put_along_axis(result, _row_bytes(form, used, leading), rows, axis=-1)
    return result


def movmatrix(opcode: str, registers: NDArray[Any]) -> NDArray[np.uint32]:
    """Return what movmatrix makes of registers, uint32 (..., 32, 1): 8 x 8 b16 transposed.

    Lane t holds the elements of row t / 4 in columns 2 (t mod 4) and the next.
    Raises UsageError if the opcode is no form of movmatrix, or the dtype or shape is wrong.
    """
    form = form_of(opcode, "movmatrix")
    check_array("registers", registers, np.uint32, LANES, 1)
    return moved(form, registers)


def _used_addresses(form: Form, shared: NDArray[Any], addresses: NDArray[Any]) -> NDArray[np.int64]:
    """Return the addresses that a form uses, int64 (..., form.addresses), checked."""
    check_array("shared", shared, np.uint8, None)
    check_array("addresses", addresses, np.uint32, LANES)
    used = addresses[..., : form.addresses].astype(np.int64)
    size = shared.shape[-1]
    row = form.row_bytes
    if np.any(used % row):
        wrong = int(used[used % row != 0].flat[0])
        raise UndefinedProgramError(
            f"row address {wrong} is not a multiple of {row} ({form.section}); align it"
        )
    if np.any(used + row > size):
        raise UndefinedProgramError(
            f"a row of {row} bytes at address {int(used.max())} is not inside the "
            f"{size} bytes of shared memory; lower the address"
        )
    return used


def _leading(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = " and ".join(f"{shape} of {name}" for name, shape in shapes.items())
        text = f"leading dimensions {listed} do not broadcast; make them equal, or leave out some"
        raise UsageError(text) from None


def _row_bytes(form: Form, used: NDArray[np.int64], leading: tuple[int, ...]) -> NDArray[np.int64]:
    """Return every byte of the rows at some addresses, int64 (..., addresses * row_bytes)."""
    index = used[..., None] + np.arange(form.row_bytes)
    size = used.shape[-1] * form.row_bytes
    return np.broadcast_to(index.reshape(*used.shape[:-1], size), (*leading, size))


@cache
def moves(form: Form, count: int = 1) -> NDArray[np.int64]:
    """Return which byte each byte of the lanes' registers is, int64 (32, bytes).

    Of ldmatrix and stmatrix, a byte of the rows in the order of the lanes that give their
    addresses, packed elements widened to bytes; of movmatrix, of which `count` registers are moved,
    a byte of the source's registers, lane by lane. UsageError if the form's layout is not known.
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
    return words_of(_joined(rows)[..., moves(form)])


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
    return words_of(_joined(bytes_of(registers))[..., index])


def _joined(bytes_: NDArray[np.uint8]) -> NDArray[np.uint8]:
    *leading, rows, size = bytes_.shape
    return bytes_.reshape(*leading, rows * size)


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
