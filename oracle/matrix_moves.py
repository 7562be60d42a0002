"""ldmatrix: rows of shared memory into registers (PTX ISA 9.7.14.5.15).

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
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UndefinedProgramError, UsageError
from oracle.forms import LDMATRIX, LdmatrixForm
from oracle.isa import ldmatrix_form
from oracle.matrices import LANES


def ldmatrix(opcode: str, shared: NDArray[Any], addresses: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the registers that ldmatrix loads.

    Parameters
    ----------
    opcode : str
        Such as `"ldmatrix.sync.aligned.m8n8.x4.shared.b16"`.
    shared : uint8 (..., bytes)
        Shared memory.
    addresses : uint32 (..., 32)
        Byte offset into `shared` that each lane gives. Only those that the form uses are looked
        at (as on sm_80 and later). Leading dimensions broadcast with those of `shared`.

    Returns
    -------
    uint32 (..., 32, registers)

    Raises
    ------
    UsageError
        If the opcode is no form of ldmatrix, or a dtype or shape is wrong.
    UndefinedProgramError
        If a row is not aligned to 16 bytes or not inside the memory.
    """
    form = ldmatrix_form(opcode)
    _check_array("shared", shared, np.uint8, None)
    _check_array("addresses", addresses, np.uint32, LANES)
    used = addresses[..., : form.addresses].astype(np.int64)
    size = shared.shape[-1]
    if np.any(used % form.ROW_BYTES):
        wrong = int(used[used % form.ROW_BYTES != 0].flat[0])
        raise UndefinedProgramError(
            f"row address {wrong} is not a multiple of {form.ROW_BYTES} ({LDMATRIX}); align it"
        )
    if np.any(used + form.ROW_BYTES > size):
        raise UndefinedProgramError(
            f"a row of {form.ROW_BYTES} bytes at address {int(used.max())} is not inside the "
            f"{size} bytes of shared memory; lower the address"
        )
    try:
        leading = np.broadcast_shapes(shared.shape[:-1], used.shape[:-1])
    except ValueError:
        raise UsageError(
            f"leading dimensions {shared.shape[:-1]} of shared and {addresses.shape[:-1]} of "
            "addresses do not broadcast; make them equal, or one of them empty"
        ) from None
    bytes_of_rows = form.addresses * form.ROW_BYTES
    index = (used[..., None] + np.arange(form.ROW_BYTES)).reshape(*used.shape[:-1], bytes_of_rows)
    index = np.broadcast_to(index, (*leading, bytes_of_rows))
    memory = np.broadcast_to(shared, (*leading, size))
    rows = np.take_along_axis(memory, index, axis=-1)
    return distribute(form, rows.reshape(*leading, form.addresses, form.ROW_BYTES))


def distribute(form: LdmatrixForm, rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Deal rows out to the lanes' registers.

    Parameters
    ----------
    form : LdmatrixForm
    rows : uint8 (..., form.addresses, 16)
        The bytes at the row addresses, in the order of the lanes that give them.

    Returns
    -------
    uint32 (..., 32, form.registers)
    """
    leading = rows.shape[:-2]
    elements = _elements(form, rows).reshape(*leading, form.number, form.rows, form.columns)
    if form.transposed:
        elements = elements.swapaxes(-1, -2)
    pieces = np.ascontiguousarray(elements).view("<u4")  # (..., number, rows, 4)
    registers = pieces.reshape(*leading, form.registers, LANES)
    return np.ascontiguousarray(registers.swapaxes(-1, -2)).astype(np.uint32, copy=False)


def _elements(form: LdmatrixForm, rows: NDArray[np.uint8]) -> NDArray[Any]:
    """Elements of each row: uint16 (..., 8) for b16, uint8 (..., 16) otherwise."""
    if form.element_bits == 16:
        return rows.view("<u2")
    if form.element_bits == 8:
        return rows
    bits = np.unpackbits(rows, axis=-1, bitorder="little")[..., : form.columns * form.element_bits]
    elements = bits.reshape(*bits.shape[:-1], form.columns, form.element_bits)
    # packbits fills up with zeros at the high end
    return np.packbits(elements, axis=-1, bitorder="little")[..., 0]


def _check_array(name: str, array: NDArray[Any], dtype: type, last: int | None) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        given = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise UsageError(
            f"{name} is {given}; it must be an array of {np.dtype(dtype)}, so convert it"
        )
    if array.ndim < 1 or (last is not None and array.shape[-1] != last):
        wanted = f"(..., {last})" if last is not None else "(..., bytes)"
        raise UsageError(f"{name} has shape {array.shape}; it must be {wanted}")
