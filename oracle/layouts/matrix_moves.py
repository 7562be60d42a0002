"""ldmatrix, stmatrix and movmatrix: matrices between shared memory and the lanes' registers.

stmatrix (PTX ISA 9.7.14.5.16) is the reverse of ldmatrix (9.7.14.5.15) where their forms meet, and
movmatrix (9.7.14.5.17) transposes one 8 x 8 matrix of 16 bits. Both were compared with an H200
(2026-11-22).

Layout, as derived from the page's text and its figures 104 to 106
------------------------------------------------------------------
A matrix E has as many rows as there are addresses for it; with `.trans` the addresses point to
the *columns* of E instead ("loaded in column-major format"). Every row of E is cut into pieces of
four bytes; a group of four consecutive lanes gets one row, lane t the piece t mod 4 of row t / 4:

======  ==========  ====================================================
shape   elements    lane t holds
======  ==========  ====================================================
m8n8    8 x 8 x 16  E[t/4][2 (t mod 4) + 0, 1], the first in the low half
m8n16   8 x 16 x 8  E[t/4][4 (t mod 4) + 0 ... 3], the first in the lowest byte
m16n16  16 x 16 x 8 r0: as m8n16; r1: the same of row t/4 + 8
======  ==========  ====================================================

The registers of matrix i come before those of matrix i + 1.

How sure this is: m8n8 was compared with an H200 (76,800 registers, 2026-11, no difference). The
others need sm_100a or later and were not measured here. That r1 of m16n16 belongs to row
t/4 + 8 is the one thing that the text does not say ("4 consecutive columns across 2 rows"); the
layouts that CUTLASS publishes for its copy atom on `ldmatrix.m16n16.x1.trans.b8` (traits of
SM100_U8x8_LDSM_T, read together with the byte shuffle behind the instruction) come to exactly
this.

Packed elements
---------------
A row of `.b6x16_p32` is 16 elements of 6 bits, element 0 in the lowest bits, then 32 bits of
padding; one of `.b4x16_p64` 16 elements of 4 bits and 64 bits of padding. Each is widened to a
byte whose upper bits are zero: the page calls them padding without saying which bits they are
and what they hold. CUTLASS's comment on its SM120 operand shift has the four bits of b4x16_p64
at the low end and zeros above, and needs no shift for 6 bits.

Of `.s8.s4` (PTX ISA 9.4) a row is 16 signed elements of 4 bits and nothing else, 8 bytes, and each
is extended to a byte by its sign: measured on H200, 2026-11-28 (code of ptxas 13.5.37 for sm_90a,
rows 8 and 16 bytes apart).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UndefinedProgramError, UsageError
from oracle.isa.forms import ROW_BYTES, Form
from oracle.isa.lookup import form_of, ldmatrix_form
from oracle.isa.matrices import LANES
from oracle.layouts.batches import check_array


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
