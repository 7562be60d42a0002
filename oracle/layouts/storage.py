"""Matrices in memory: tiles (9.7.14.4.2), and rows (`docs/oracle.md`, "Moved matrices")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from oracle.arithmetic.scratch import transpose
from oracle.errors import UndefinedProgramError, UsageError
from oracle.isa.forms import LANES, LAYOUTS, ROW_BYTES, Form, FormatKind, Matrix
from oracle.isa.lookup import form_of, ldmatrix_form

Given = tuple[str, NDArray[Any], DTypeLike, tuple[int, ...]]
"""Name of an array, the array, its dtype, and the dimensions that it has to end in."""


def check_operands(form: Form, *operands: NDArray[Any]) -> tuple[int, ...]:
    """Check A, B and C against a form; return their leading dimensions; else UsageError."""
    # What .satfinite did to floats the page no longer says (9.7.14.4.5), nor was it measured.
    if form.satfinite and form.a_type.is_float:
        text = "what .satfinite does to floating point is not known; leave it out"
        raise UsageError(f"{form.opcode}: {text}, or give integer multiplicands")
    return check_batch(
        *(
            (name, array, form.type(name).raw, form.shape.matrix(name))
            for name, array in zip("abc", operands, strict=True)
        )
    )


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
            fmt = form.type(name)
            if fmt.bits >= 8 * array.dtype.itemsize or not array.size:
                continue
            signed = fmt.kind is FormatKind.SIGNED
            least, most = -(1 << (fmt.bits - 1)) if signed else 0, (1 << (fmt.bits - signed)) - 1
            for end in (int(array.min()), int(array.max())):
                if not least <= end <= most:
                    text = f"{name} holds {end}; an element of .{fmt.name} is {least} to {most}"
                    raise UsageError(f"{text}, one value for each {fmt.raw}")
        yield part, a, b, c


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
            text = (
                f"a stride of {self.elements} elements of {bits} bits is no whole number of bytes"
            )
            raise UsageError(f"{text}; give a multiple of {8 // bits}")

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
    bits = tile.matrix.type.bits
    if bits >= 8:
        values = view
    elif bits == 1:
        values = np.unpackbits(view, axis=-1, bitorder="little")
    else:
        values = np.empty((*view.shape[:-1], 2 * view.shape[-1]), dtype=np.uint8)
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
    rows = _joined(held)[..., order]
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
    used, size, row = (
        addresses[..., : form.addresses].astype(np.int64),
        shared.shape[-1],
        form.row_bytes,
    )
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
