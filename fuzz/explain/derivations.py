"""The part of a finding's page about one step: the words of the ISA, and the computation.

Each step's way to one element is told in words that can be checked by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import trunc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.explain.notation import (
    Number,
    decimal,
    exact,
    hexadecimal,
    number,
    pattern,
    signed,
    table,
)
from oracle.arithmetic.dots import dot_product, unpacked
from oracle.arithmetic.double_chain import chain as fma_chain
from oracle.elementwise import CANONICAL_NAN
from oracle.formats import FORMATS, Format
from oracle.forms import Form
from oracle.instructions import INSTRUCTIONS
from oracle.instructions.wmma import STORAGE
from oracle.lane_fragments import places, unpack
from oracle.metadata import holders, met, rows_met
from oracle.models import DoubleChain, Model, NanRule, TruncatedDot, Unit
from oracle.operations import Operation
from oracle.ops import loads_rows, multiplies, multiplies_fragments
from oracle.scratch import own_scratch
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

    Row and column are of the matrix, or lane and register.
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
        if form.has_metadata:
            placed = _placed(event, form, row, matrices)
        event = replace(event, inputs=matrices)
    element = _element(event, form, row, column)
    if form.a_type.is_float:
        found = derive(form, element, model)
    else:
        found = _counted(form, element) if form.op else _summed(form, element)
    return replace(found, lines=[*placed, *found.lines])


def _placed(event: Event, form: Form, row: int, matrices: dict[str, NDArray[Any]]) -> Sequence[str]:
    """Put what a row of A meets in the place of B; return what the metadata say."""
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
        f"Of A, {form.matrix('a').columns} elements of each row are stored. The metadata of row "
        f"{row}, with selector {selector}, are {words}. Of the stored elements, by the row of B: "
        f"{pairs}. Below, k counts the stored elements, and B is what they meet.",
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


_TENSOR_CORE = {"f32": "rz, infinite beyond", "f16": "rn"}
"""How a block's sum is rounded to the accumulator's format (measured on H200, 2026-11)."""
_IN_WORDS = {
    "rn": "to nearest even",
    "rz": "toward zero",
    "rm": "toward negative infinity",
    "rp": "toward positive infinity",
    "rz, infinite beyond": "toward zero",
}


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """How a value comes about."""

    lines: Sequence[str]
    """Markdown."""
    bits: int
    """Where it ends."""


@dataclass(frozen=True, kw_only=True)
class Element:
    """The operands of one element of D: a row of A, a column of B, an element of C, as raw bits."""

    row: int
    column: int
    a: Sequence[int]
    b: Sequence[int]
    c: int


def derive(form: Form, element: Element, model: Model) -> Derivation:
    """Derive one element of D of a multiplication of floats, as a target's model has it."""
    if form.a_type.name == "f64":
        chain = model.double_chain
        values = set(chain.values.values()) - {chain.nan.value}
        if values != {"rising", "fused", "kept"} or not chain.nan.value.order:
            return _computed_double(form, element, chain)
        return _double_chain(form, element, chain.nan.value)
    rule = model.dot_for(form)
    return _truncated(form, element, rule) if _is_written(rule) else _computed(element, rule)


def _is_written(rule: TruncatedDot) -> bool:
    """Whether the steps below are those of a unit: of all GPUs that were measured so far."""
    ordinary = {
        "addition": "rn", "low_bits": "cut", "narrowing": "rn", "subnormal_exponent": None,
        "sum_bits": None,
        "nan": CANONICAL_NAN[rule.d_type],
        **{f"{matrix}_subnormals": "kept" for matrix in "abcd"},
    }  # fmt: skip
    values = rule.values
    return rule.is_usual and all(values.get(name, one) == one for name, one in ordinary.items())


def _computed(element: Element, rule: TruncatedDot) -> Derivation:
    """Name the figures of a unit whose steps are not written down here, and its result."""
    operands = (
        np.array(element.a, FORMATS[rule.multiplicand].raw)[None, None, :],
        np.array(element.b, FORMATS[rule.multiplicand].raw)[None, :, None],
        np.array(element.c, FORMATS[rule.c_type].raw)[None, None, None],
    )
    bits = int(dot_product(*operands, rule=rule, scratch=own_scratch())[0, 0, 0])
    return _named(bits, FORMATS[rule.d_type], rule)


def _computed_double(form: Form, element: Element, rule: DoubleChain) -> Derivation:
    """Name the figures of an f64 unit whose steps are not written down here, and its result."""
    a, b, c = (np.array(x, np.uint64) for x in (element.a, element.b, element.c))
    operands = (a[None, None, :], b[None, :, None], c[None, None, None])
    rounding, scratch = form.rounding or "rn", own_scratch()
    bits = int(fma_chain(*operands, rounding=rounding, rule=rule, scratch=scratch)[0, 0, 0])
    return _named(bits, FORMATS["f64"], rule)


def _named(bits: int, fmt: Format, unit: Unit) -> Derivation:
    named = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in unit.values.items())
    page = _Page()
    page.say(
        f"The oracle computes {_shown(bits, fmt)} with the figures of the model: {named}. Their "
        "steps are not written down here.",
        "",
    )
    return Derivation(lines=page.lines, bits=bits)


@dataclass(kw_only=True)
class _Page:
    lines: list[str] = field(default_factory=list)

    def say(self, *lines: str) -> None:
        self.lines.extend(lines)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.say(*table(head, rows))


def _shown(bits: int, format_: Format) -> str:
    return f"`{hexadecimal(bits, format_.bits)}` = {decimal(bits, format_)}"


def _truncated(form: Form, element: Element, rule: TruncatedDot) -> Derivation:
    page, accumulator = _Page(), rule.accumulator_format
    element = _unpacked(page, form, element, rule)
    multiplicand = FORMATS[rule.multiplicand]
    total = element.c
    if form.c_type.name != accumulator.name:
        total = _converted(element.c, form.c_type, accumulator)
        page.say(
            f"C is .{form.c_type.name} and the sum is kept in .{accumulator.name}: "
            f"{_shown(element.c, form.c_type)} is widened to {_shown(total, accumulator)}."
        )
    addend, last, so_far = total, rule.addend.value == "last", None
    total = 0 if last else total
    blocks = rule.blocks(len(element.a))
    for place, ks in enumerate(blocks, 1):
        if rule.sums is not None and place > 1:
            so_far, total = total, 0
        whole = ks == tuple(range(ks[0], ks[-1] + 1))
        page.say(
            f"Block {place} of {len(blocks)}: k = "
            f"{f'{ks[0]} to {ks[-1]}' if whole else ', '.join(map(str, ks))}, and the "
            f"sum so far, {_shown(total, accumulator)}."
        )
        total = _block(page, list(_terms(multiplicand, element, ks)), total, rule)
        if so_far is not None:
            total = _added(page, "The sums of the blocks so far", so_far, total, accumulator)
    if last:
        total = _added(page, "The sum and C", total, addend, accumulator)
    if form.d_type.name != accumulator.name:
        made = _converted(total, accumulator, form.d_type)
        page.say(
            f"D is .{form.d_type.name}: the sum {_shown(total, accumulator)} is rounded to nearest "
            f"even, {_shown(made, form.d_type)}."
        )
        total = made
    return Derivation(lines=page.lines, bits=total)


def _unpacked(page: _Page, form: Form, element: Element, rule: TruncatedDot) -> Element:
    """Return an element whose operands are of the format in which they are multiplied."""
    types = form.a_type.name, form.b_type.name
    if form.a_type.bits > 8:
        return element
    page.say(
        f"Elements of .{types[0]} and .{types[1]} are unpacked to .{rule.multiplicand}, exact."
    )
    a, b = (
        unpacked(np.array(bits, np.uint8), name).tolist()
        for bits, name in zip((element.a, element.b), types, strict=True)
    )
    return replace(element, a=a, b=b)


def arithmetic(operation: Operation, type_: Format, bits: int, constant: int) -> tuple[int, str]:
    """Return a product or a sum of IEEE 754, rounded to nearest even, and what to say of it."""
    x, y = number(bits, type_), number(constant, type_)
    product = operation is Operation.MULTIPLY
    nan = CANONICAL_NAN[type_.name]
    quiet = 1 << (type_.fraction_bits - 1)
    if "NaN" in (x.kind, y.kind):
        if type_.name == "f64":
            return (bits if x.kind == "NaN" else constant) | quiet, ", a NaN made quiet"
        return nan, ", NaN"
    negative = x.negative != y.negative
    if "infinity" in (x.kind, y.kind):
        invalid = (x.is_zero or y.is_zero) if product else x.kind == y.kind and negative
        if invalid:
            return nan, ", NaN"
        if not product:
            negative = x.negative if x.kind == "infinity" else y.negative
        infinity = ((1 << type_.exponent_bits) - 1) << type_.fraction_bits
        return infinity | negative << (type_.bits - 1), ""
    value = x.value * y.value if product else x.value + y.value
    zero = negative if product else x.negative and y.negative
    made = pattern(value, type_, "rn", negative_zero=zero)
    return made, f" is {exact(value)} exactly, rounded to nearest even"


def _added(page: _Page, what: str, x: int, y: int, fmt: Format) -> int:
    """Write down an addition of IEEE 754, rounded to nearest even, and return its bits."""
    bits, _ = arithmetic(Operation.ADD, fmt, x, y)
    page.say(
        f"{what} are added by an instruction of its own, rounded to nearest even: "
        f"{_shown(x, fmt)} + {_shown(y, fmt)} = **{_shown(bits, fmt)}**.",
        "",
    )
    return bits


def _converted(bits: int, given: Format, wanted: Format) -> int:
    one = number(bits, given)
    if one.kind == "NaN":
        return CANONICAL_NAN[wanted.name]
    if one.kind == "infinity":
        return _infinity(wanted, negative=one.negative)
    return pattern(one.value, wanted, "rn", negative_zero=one.negative)


@dataclass(frozen=True, kw_only=True)
class _Term:
    name: str
    operands: tuple[Number, ...]
    text: str

    @property
    def is_nan(self) -> bool:
        kinds = [one.kind for one in self.operands]
        zero = any(one.is_zero for one in self.operands)
        return "NaN" in kinds or ("infinity" in kinds and zero)

    @property
    def is_infinite(self) -> bool:
        return not self.is_nan and any(one.kind == "infinity" for one in self.operands)

    @property
    def negative(self) -> bool:
        return sum(one.negative for one in self.operands) % 2 == 1

    @property
    def value(self) -> Fraction:
        product = Fraction(1)
        for one in self.operands:
            product *= one.value
        return product

    @property
    def exponent(self) -> int:
        return sum(one.exponent for one in self.operands)


def _terms(format_: Format, element: Element, ks: Sequence[int]) -> Iterator[_Term]:
    for k in ks:
        x, y = element.a[k], element.b[k]
        yield _Term(
            name=f"A[{element.row}, {k}] x B[{k}, {element.column}]",
            operands=(number(x, format_), number(y, format_)),
            text=f"{_shown(x, format_)} x {_shown(y, format_)}",
        )


def _block(page: _Page, products: list[_Term], c: int, rule: TruncatedDot) -> int:
    """Write down one truncated fused dot product, and return the sum's bits."""
    accumulator = rule.accumulator_format
    addend = _Term(
        name="sum so far", operands=(number(c, accumulator),), text=_shown(c, accumulator)
    )
    terms = [*products, addend]
    special = _special(page, terms, accumulator)
    if special is not None:
        return special
    present = [term for term in terms if term.value]
    absent = len(terms) - len(present)
    zero, kept = rule.zero_exponent.value, rule.fraction_bits.value
    if not present:
        page.say(f"All {len(terms)} terms are zero. A zero sum is +0.", "")
        return 0
    largest = max([term.exponent for term in present] + ([zero] if absent else []))
    unit = Fraction(2) ** (largest - kept)
    units = [trunc(term.value / unit) for term in present]
    rows = [
        (
            term.name, term.text, exact(term.value), str(term.exponent), str(count),
            exact(term.value - count * unit),
        )
        for term, count in zip(present, units, strict=True)
    ]  # fmt: skip
    page.table(("term", "operands", "exact value", "exponent", "in units", "cut off"), rows)
    if absent:
        page.say(f"{absent} terms are zero, and count with exponent {zero}.")
    exact_sum = sum(units) * unit
    mode = _TENSOR_CORE[accumulator.name]
    bits = pattern(exact_sum, accumulator, mode)
    if number(bits, accumulator).is_zero:
        bits = 0  # "A zero result is +0" (measured on H200, 2026-11)
    page.say(
        f"The largest exponent is {largest}. {kept} bits are kept below it, so that the unit is "
        f"2^({largest} - {kept}) = {exact(unit)}; what is below is cut off, toward zero.",
        "",
        f"The sum is {' '.join(f'{count:+d}' for count in units)} = {sum(units)} units = "
        f"{exact(exact_sum)}.",
        f"Rounded {_IN_WORDS[mode]} to .{accumulator.name}: **{_shown(bits, accumulator)}**.",
        "",
    )
    return bits


def _special(page: _Page, terms: list[_Term], accumulator: Format) -> int | None:
    """Write down a sum with NaN or infinity in it, and return its bits; None if there is none."""
    rows = [(term.name, term.text, _kind(term)) for term in terms if _kind(term)]
    if not rows:
        return None
    page.table(("term", "operands", "is"), rows)
    signs = {term.negative for term in terms if term.is_infinite}
    if any(term.is_nan for term in terms) or len(signs) > 1:
        bits = CANONICAL_NAN[accumulator.name]
        why = "one term is NaN" if any(term.is_nan for term in terms) else "infinity - infinity"
        page.say(f"The sum is NaN ({why}), always as **{_shown(bits, accumulator)}**.", "")
        return bits
    bits = _infinity(accumulator, negative=signs.pop())
    page.say(f"The sum is infinite: **{_shown(bits, accumulator)}**.", "")
    return bits


def _kind(term: _Term) -> str:
    if term.is_nan:
        return "NaN"
    return f"{'-' if term.negative else '+'}infinity" if term.is_infinite else ""


def _infinity(format_: Format, *, negative: bool) -> int:
    width = format_.exponent_bits + format_.fraction_bits
    return ((1 << format_.exponent_bits) - 1) << format_.fraction_bits | negative << width


def _double_chain(form: Form, element: Element, rule: NanRule) -> Derivation:
    double, mode = FORMATS["f64"], form.rounding or "rn"
    page, total = _Page(), element.c
    page.say(
        f"A chain of fused multiply-adds, each rounded {_IN_WORDS[mode]}, that starts with "
        f"C[{element.row}, {element.column}] = {_shown(total, double)}."
    )
    rows = []
    for k, (x, y) in enumerate(zip(element.a, element.b, strict=True)):
        made, how = _fused(x, y, total, mode, rule)
        rows.append((str(k), _shown(x, double), _shown(y, double), how, _shown(made, double)))
        total = made
    page.table(("k", "A", "B", "A x B + sum, exact", "rounded"), rows)
    return Derivation(lines=page.lines, bits=total)


def _fused(a: int, b: int, c: int, mode: str, rule: NanRule) -> tuple[int, str]:
    """Return the bits of a x b + c in f64, and the exact value in words."""
    double = FORMATS["f64"]
    bits = {"a": a, "b": b, "c": c}
    numbers = {name: number(one, double) for name, one in bits.items()}
    for name in rule.order:
        if numbers[name].kind == "NaN":
            return bits[name] | 1 << (double.fraction_bits - 1), f"NaN of {name}, made quiet"
    x, y, z = numbers["a"], numbers["b"], numbers["c"]
    negative = x.negative != y.negative
    if "infinity" in (x.kind, y.kind):
        if x.is_zero or y.is_zero:
            return rule.invalid, "0 x infinity"
        if z.kind == "infinity" and z.negative != negative:
            return rule.invalid, "infinity - infinity"
        return _infinity(double, negative=negative), "infinity"
    if z.kind == "infinity":
        return c, "infinity"
    value = x.value * y.value + z.value
    # IEEE 754-2019, 6.3: a zero sum of unlike signs is +0, or -0 if rounded down.
    zero = z.negative if z.negative == negative else mode == "rm"
    return pattern(value, double, mode, negative_zero=zero), exact(value)
