"""Batches of operands: what is checked before arithmetic, and how a batch is cut into chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.formats import Format, Kind
from oracle.forms import Form


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Operands whose shapes and dtypes are right."""

    operands: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
    formats: tuple[Format, Format, Format]
    leading: tuple[int, ...]
    """Leading dimensions, common to all operands."""

    @property
    def tiles(self) -> int:
        """Number of matrix products in the batch."""
        return int(np.prod(self.leading, dtype=np.int64))


def matrices(form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> Batch:
    """Check operands against a form; UsageError says what type, dtype or shape is wrong."""
    if form.satfinite and form.a_type.is_float:
        # "deprecated in PTX ISA version 6.4 and is removed from PTX ISA version 6.5" (9.7.14.4.5,
        # notes); what it did to floats the page no longer says, nor was it measured.
        raise UsageError(
            f"{form.opcode}: what .satfinite does to floating point is not known; "
            "leave it out, or give integer multiplicands"
        )
    shape = form.shape
    wanted = {
        "a": (a, form.a_type, (shape.m, shape.k)),
        "b": (b, form.b_type, (shape.k, shape.n)),
        "c": (c, form.c_type, (shape.m, shape.n)),
    }
    for name, (array, fmt, size) in wanted.items():
        if not isinstance(array, np.ndarray):
            raise UsageError(
                f"{name} is a {type(array).__name__}; give a NumPy array of {fmt.raw} with shape "
                f"(..., {size[0]}, {size[1]})"
            )
        if array.dtype != np.dtype(fmt.raw):
            raise UsageError(
                f"{name} has dtype {array.dtype}; {form.opcode} takes the raw bit patterns of "
                f".{fmt.name} as {fmt.raw}: view or convert it"
            )
        if array.shape[-2:] != size:
            raise UsageError(
                f"{name} has shape {array.shape}; {form.opcode} takes (..., {size[0]}, {size[1]})"
            )
    leading = a.shape[:-2]
    if b.shape[:-2] != leading or c.shape[:-2] != leading:
        raise UsageError(
            f"the leading dimensions differ: a has {leading}, b {b.shape[:-2]}, "
            f"c {c.shape[:-2]}; give all three the same"
        )
    return Batch(
        operands=(a, b, c), formats=(form.a_type, form.b_type, form.c_type), leading=leading
    )


def check_array(name: str, array: NDArray[Any], dtype: type, *tail: int | None) -> None:
    """Raise UsageError unless an array has a dtype and ends in these dimensions (None: any)."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        given = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise UsageError(
            f"{name} is {given}; it must be an array of {np.dtype(dtype)}, so convert it"
        )
    last = array.shape[-len(tail) :]
    if len(last) < len(tail) or any(
        wanted not in (None, size) for wanted, size in zip(tail, last, strict=True)
    ):
        listed = ", ".join("bytes" if one is None else str(one) for one in tail)
        raise UsageError(f"{name} has shape {array.shape}; it must be (..., {listed})")


def chunks(
    batch: Batch, tiles: int
) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield slices of the flattened batch with their operands, (tiles, rows, columns) each.

    Only a chunk is ever copied. UsageError if an element is outside of a 4-bit or 1-bit format.
    """
    for start in range(0, batch.tiles, tiles):
        part = slice(start, min(start + tiles, batch.tiles))
        a, b, c = (_flat_part(array, part) for array in batch.operands)
        for name, array, fmt in zip("abc", (a, b, c), batch.formats, strict=True):
            _check_range(name, array, fmt)
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
    signed = fmt.kind is Kind.SIGNED
    least = -(1 << (fmt.bits - 1)) if signed else 0
    greatest = (1 << (fmt.bits - signed)) - 1
    low, high = int(array.min()), int(array.max())
    if low < least or high > greatest:
        raise UsageError(
            f"{name} holds {low if low < least else high}; an element of .{fmt.name} is "
            f"{least} to {greatest}, one value for each {fmt.raw}"
        )
