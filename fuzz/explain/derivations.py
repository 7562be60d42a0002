"""What a page says of a step: the words of the PTX ISA, and how it came to its result.

Each step's way to one element is told in words that can be checked by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.explain.dot_products import Derivation, Element, arithmetic, derive
from fuzz.explain.notation import decimal, hexadecimal, signed
from oracle.formats import Format
from oracle.forms import Form
from oracle.instructions import INSTRUCTIONS
from oracle.instructions.wmma import STORAGE
from oracle.lane_fragments import places, unpack
from oracle.models import Model
from oracle.operations import Operation
from oracle.ops import loads_rows, multiplies, multiplies_fragments
from oracle.sparse import holders, met, rows_met
from oracle.steps import Elementwise, changes_elements
from oracle.tracing import Event

_IN_MEMORY = (
    STORAGE,
    "Each matrix can be stored in memory with a row-major or column-major layout.",
)


def sentences_about(form: Form | None) -> tuple[tuple[str, str], ...]:
    """Return pairs of a section of the PTX ISA and what it says of an instruction."""
    return (_IN_MEMORY,) if form is None else INSTRUCTIONS[form.mnemonic].quotes_of(form)


_LEAST, _GREATEST = -(2**31), 2**31 - 1
"""Of a 32-bit signed integer."""


def derivation(event: Event, row: int, column: int, model: Model) -> Derivation | None:
    """Derive one element of what a step made; None for a step that only moves data.

    Parameters
    ----------
    row, column
        Of the matrix, or lane and register.
    """
    step = event.step
    if multiplies(step):
        return _product(event, step.form, row, column, model)
    if changes_elements(step):
        return _changed(step, raw(event.inputs["source"][row, column], step.matrix.type))
    if loads_rows(step):
        return _loaded(step.form, event.inputs["rows"], row, column)
    return None


def _product(event: Event, form: Form, row: int, column: int, model: Model) -> Derivation | None:
    """Derive an element of D; None of a register that holds two, or where no steps are known."""
    placed: Sequence[str] = []
    if not form.opaque:
        if form.groups > 1 or form.d_type.bits != 32:
            return None
        matrices = {name: unpack(form, name, event.inputs[name][None])[0] for name in "abc"}
        _, row, column = places(form, "d")[row, column].tolist()
        if form.is_sparse:
            placed = _placed(event, form, row, matrices)
        event = replace(event, inputs=matrices)
    element = _element(event, form, row, column)
    if form.a_type.is_float:
        found = derive(form, element, model)
    else:
        found = _counted(form, element) if form.op else _summed(form, element)
    return replace(found, lines=[*placed, *found.lines])


def _placed(event: Event, form: Form, row: int, matrices: dict[str, NDArray[Any]]) -> Sequence[str]:
    """Put what a row of a sparse A meets in the place of B; return what the metadata say."""
    selector = getattr(event.step, "selector", 0)
    metadata = event.inputs["e"][None, :, 0]
    rows = rows_met(form, metadata, selector)[0, row]
    b = matrices["b"]
    matrices["b"] = met(form, b[None], metadata, selector)[row] if form.b_type.is_float else b[rows]
    lanes = [lane for lane in holders(form, selector).tolist() if lane // 4 == row % 8]
    words = ", ".join(
        f"`{hexadecimal(int(metadata[0, lane]), 32)}` of lane {lane}" for lane in lanes
    )
    pairs = ", ".join(f"{k} meets {one}" for k, one in enumerate(rows.tolist()))
    return [
        "",
        f"A is sparse: {form.matrix('a').columns} elements of each row are stored. The metadata of "
        f"row {row}, with selector {selector}, are {words}. Of the stored elements, by the row of "
        f"B: {pairs}. Below, k counts the stored elements, and B is what they meet.",
        "",
    ]


def raw(value: Any, format_: Format) -> int:
    """Return an element of an array as unsigned bits."""
    return int(value) & ((1 << format_.bits) - 1)


def _element(event: Event, form: Form, row: int, column: int) -> Element:
    a, b, c = (event.inputs[name] for name in "abc")
    return Element(
        row=row,
        column=column,
        a=[raw(value, form.a_type) for value in a[row]],
        b=[raw(value, form.b_type) for value in b[:, column]],
        c=raw(c[row, column], form.c_type),
    )


def _summed(form: Form, element: Element) -> Derivation:
    lines = ["", "| k | A | B | product |", "|---|---|---|---|"]
    products = []
    for k, (x, y) in enumerate(zip(element.a, element.b, strict=True)):
        left, right = signed(x, form.a_type), signed(y, form.b_type)
        products.append(left * right)
        if left * right:
            lines.append(f"| {k} | {left} | {right} | {left * right} |")
    zeros = products.count(0)
    c = signed(element.c, form.c_type)
    total = sum(products) + c
    lines += [
        "",
        f"{zeros} products are zero. C[{element.row}, {element.column}] = {c}.",
        f"The sum is {sum(products)} + {c} = {total}.",
    ]
    if form.satfinite:
        value = max(_LEAST, min(_GREATEST, total))
        lines.append(f"Clamped to {_LEAST} … {_GREATEST} (.satfinite): **{value}**.")
    else:
        value = (total - _LEAST) % 2**32 + _LEAST
        lines.append(f"Wrapped to 32 bits: **{value}**.")
    lines.append("")
    return Derivation(lines=lines, bits=value & 0xFFFF_FFFF)


def _counted(form: Form, element: Element) -> Derivation:
    row, column = (sum(bit << k for k, bit in enumerate(bits)) for bits in (element.a, element.b))
    both = row ^ column if form.op == "xor" else row & column
    size = len(element.a)
    c = signed(element.c, form.c_type)
    total = both.bit_count() + c
    value = (total - _LEAST) % 2**32 + _LEAST
    lines = [
        "",
        f"- row {element.row} of A (bit k is element k): `{hexadecimal(row, size)}`",
        f"- column {element.column} of B: `{hexadecimal(column, size)}`",
        f"- their {str(form.op).upper()}: `{hexadecimal(both, size)}`, {both.bit_count()} bits set",
        f"- plus C[{element.row}, {element.column}] = {c}: {total}, wrapped to 32 bits **{value}**",
        "",
    ]
    return Derivation(lines=lines, bits=value & 0xFFFF_FFFF)


def _changed(step: Elementwise, before: int) -> Derivation:
    type_ = step.matrix.type
    bits, how = _operated(step.operation, type_, before, step.constant)
    shown = f"`{hexadecimal(before, type_.bits)}` = {decimal(before, type_)}"
    constant = (
        f" with `{hexadecimal(step.constant, type_.bits)}` = {decimal(step.constant, type_)}"
        if step.operation.takes_constant
        else ""
    )
    made = f"**`{hexadecimal(bits, type_.bits)}` = {decimal(bits, type_)}**"
    return Derivation(lines=[f"{step.operation} of {shown}{constant}{how}: {made}.", ""], bits=bits)


def _operated(operation: Operation, type_: Format, bits: int, constant: int) -> tuple[int, str]:
    mask, sign = (1 << type_.bits) - 1, 1 << (type_.bits - 1)
    wraps = operation in (Operation.MULTIPLY, Operation.ADD)
    if wraps and type_.is_float:
        return arithmetic(operation, type_, bits, constant)
    made = {
        Operation.NEGATE: bits ^ sign if type_.is_float else -bits,
        Operation.ABSOLUTE: bits & ~sign,
        Operation.MULTIPLY: bits * constant,
        Operation.ADD: bits + constant,
        Operation.AND: bits & constant,
        Operation.OR: bits | constant,
        Operation.XOR: bits ^ constant,
        Operation.NOT: ~bits,
    }.get(operation, bits)
    return made & mask, ", wrapped" if wraps else ""


def _loaded(form: Form, rows: NDArray[np.uint8], lane: int, register: int) -> Derivation:
    """Derive one register of one lane after ldmatrix (9.7.14.5.15)."""
    # Four lanes hold a row of E, 32 bits each; m16n16 has rows 8 to 15 in a second register.
    matrix, half = divmod(register, 2 if form.rows == 16 else 1)
    e_row = lane // 4 + 8 * half
    held = form.columns // 4
    size = 32 // held
    lines = [
        "",
        f"Register {register} of lane {lane} holds row {e_row} of matrix {matrix}, columns "
        f"{lane % 4 * held} to {lane % 4 * held + held - 1}"
        + (" (transposed: an address points to a column)." if form.transposed else "."),
        "",
        "| element | address from lane | the row's 16 bytes | place in it | value |",
        "|---|---|---|---|---|",
    ]
    bits = 0
    for index in range(held):
        e_column = lane % 4 * held + index
        line, place = (e_column, e_row) if form.transposed else (e_row, e_column)
        giver = matrix * form.rows + line
        row = int.from_bytes(rows[giver].tobytes(), "little")
        value = row >> (place * form.element_bits) & ((1 << form.element_bits) - 1)
        bits |= value << (index * size)
        lines.append(
            f"| [{e_row}, {e_column}] | {giver} | `{rows[giver].tobytes().hex(' ')}` | element "
            f"{place} | `{hexadecimal(value, form.element_bits)}` |"
        )
    lines += ["", f"Together, the first lowest: **`{hexadecimal(bits, 32)}`**.", ""]
    return Derivation(lines=lines, bits=bits)


def type_of(event: Event) -> Format | None:
    """Return the format of the elements that a step made; None for registers."""
    step = event.step
    if changes_elements(step):
        return step.matrix.type
    return step.form.d_type if multiplies_fragments(step) else None
