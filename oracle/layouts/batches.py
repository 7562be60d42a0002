"""Batches of operands: what is checked before arithmetic, and how a batch is cut into chunks."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.isa.formats import Format, FormatKind
from oracle.isa.forms import Form


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
