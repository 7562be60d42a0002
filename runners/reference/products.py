"""Products as words for the interpreter of the reference: of a warp, and of a warpgroup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.execution.chosen import scale_places
from oracle.isa.forms import Form, FormatKind, Shape, format_named
from oracle.isa.lookup import unit_bits
from oracle.layouts import index_bits, places
from oracle.models import DoubleChain, ExactSum, ScalarDot, ScaledDot, TruncatedDot
from oracle.models.figures import ROUNDINGS
from oracle.program.operands import Fragment, Operation, Place, Uniform, Use, Word
from oracle.program.program import position
from oracle.program.steps import Op
from oracle.program.warpgroup import AsyncProduct
from runners.reference.memory import (
    MASK,
    Addresses,
    Code,
    MemoryWriter,
    canonical,
    format_word,
    not_done,
)

OPERATIONS = {
    Operation.AND: 0, Operation.ABSOLUTE: 0, Operation.OR: 1, Operation.XOR: 2,
    Operation.NEGATE: 2, Operation.NOT: 2, Operation.MULTIPLY: 3, Operation.ADD: 4,
}  # fmt: skip
"""Numbers of the interpreter's element-wise operations; signs and complements are masks."""
_COLUMNS = 32, 16, 8
"""Of a warpgroup's D that are computed together: as many as the interpreter takes."""
_DOT_WORDS = 40  # words of a dot product, which the interpreter keeps where it decodes
_QUICK_BITS = 31  # a block's terms, summed, have to fit into 32 bits with their sign
_TERM_BITS, _SUM_BITS = 16, 62
"""Of a product of two elements of 8 bits and two scales, and most of what has 64 with its sign."""


class ProductWriter(MemoryWriter):
    """Writes products, behind moves that bring matrices into the order in which these take them."""

    def uniform(self, number: Uniform) -> tuple[int, int]:
        """Return the address and the mask of a word; of a constant itself and 0."""
        if isinstance(number, int):
            return number, 0
        if isinstance(number, Word):
            return (self.at(number.place), number.mask) if number.mask else (0, 0)
        turn, past = self._turns
        operation, source, constant, mask = {
            "ne": (Operation.XOR, turn, number.number, MASK),
            "lt": (Operation.ADD, turn, -number.number & MASK, 1 << 31),
            "and": (Operation.AND, turn, number.number, MASK),
            "more": (Operation.ADD, past, number.number, 1 << 31),
        }[number.asks]
        made = self._take(4)
        self.on_word(operation, source, made, constant)
        return made, mask

    def on_word(self, operation: Operation, source: int, to: int, constant: int) -> None:
        """Write an operation on a word, of 32 bits."""
        self.add(Code.ELEMENTWISE, OPERATIONS[operation], 32, 0, source, to, 1, constant, 0)

    def at(self, place: Place) -> int:
        """Return the address of a place."""
        shared = self.program.buffer(place.buffer).space == "shared"
        return position(self.program, place) + (self.program.image_bytes if shared else 0)

    def multiply(self, step: Op[Any]) -> None:
        """Write a product of one warp."""
        form = step.form
        if form.a_type.is_float and form.satfinite:
            raise not_done(form.opcode)
        uses = {use.field: use for use in step.uses}
        d, a, b, c = (self._matrix_of(form, uses[one]) for one in "dabc")
        places_, others = [self._whole(one) for one in (a, b, c)], [a, b, c]
        chosen = [uses[one] for one in ("e", "sa", "sb") if one in uses]
        if chosen:
            self._load_all()  # they are read between one part of D and the next
            self._touch_all(chosen)
            others += [self._lanes(use) for use in chosen]
        place, written = self._room(d, others)
        places_.append(place)
        if form.has_metadata:
            self._sparse(step, uses, form.shape.n, places_)
        elif form.is_scaled:
            self._scaled(step, uses, form.shape, places_, slice(None))
        else:
            sizes = [len(one) // form.groups for one in (a, b, c, d)]
            for group in range(form.groups):
                starts = [at + group * size for at, size in zip(places_, sizes, strict=True)]
                self._product(form, form.shape, starts)
        self._deliver(place, written)

    def _sparse(
        self, step: Op[Any] | AsyncProduct, uses: Mapping[str, Use], columns: int,
        places_: list[int],
    ) -> None:  # fmt: skip
        """Write the product of a sparse A and some columns of B, at A, B, C, D."""
        form, shape = step.form, step.form.stored.shape._replace(n=columns)
        assert step.selector is not None
        (words,) = self._bases(uses["e"])
        bits = 8 * words + index_bits(form, step.selector)
        if form.a_type.is_float and form.a_type.bits <= 16 and not form.is_scaled:
            self._dot(form, shape, places_, indices=bits)
            return
        # Some rows at a time: of these B has a line for each output.
        size, units = unit_bits(form) // 8, bits.shape[1]
        part = shape._replace(m=form.threads // columns)
        chosen = self._take(part.m * columns * units * size)
        bytes_ = (units * size, 0, *(columns * form.type(one).bits // 8 for one in "cd"))
        for row in range(0, shape.m, part.m):
            words = self.add(Code.CHOOSE, size, units, part.m, columns, places_[1], chosen, 0)
            self._add_table(words + 6, bits[row : row + part.m])
            starts = [start + row * one for start, one in zip(places_, bytes_, strict=True)]
            starts[1] = chosen
            if isinstance(step, Op) and form.is_scaled:
                self._scaled(step, uses, part, starts, slice(row, row + part.m))
            else:
                self._product(form, part, starts, apart=True)

    def multiply_async(self, step: AsyncProduct) -> None:
        """Write a product of a warpgroup, some columns at a time."""
        form, used = step.form, {use.field: use for use in step.uses}
        a = self._multiplicand(step, "a", self._matrix_of(form, used["a"]) if step.a else None)
        b = self._multiplicand(step, "b", None)
        if form.has_metadata:
            self._load_all()
            self._touch_all((used["e"],))
        d, n = self._matrix_of(form, used["d"]).reshape(form.shape.m, -1), form.shape.n
        element, line = form.d_type.bits // 8, form.shape.k * form.b_type.bits // 8
        size = form.shape.m * _COLUMNS[0] * element
        nothing = self._take(size) if step.scale_d == 0 else 0
        if nothing:
            self.add(Code.FILL, nothing, size // 4, 0, 0)
        scratch, first = self._scratch, 0
        while first < n:
            columns = next(one for one in _COLUMNS if first + one <= n)
            own = d[:, first * element : (first + columns) * element].ravel()
            place, written = self._take(len(own)), own
            starts = [a, b + first * line, nothing or self._whole(own), place]
            if step.selector is None:
                self._product(form, form.shape._replace(n=columns), starts)
            else:
                self._sparse(step, used, columns, starts)
            self._deliver(place, written)
            self._scratch = scratch
            first += columns

    def _multiplicand(self, step: AsyncProduct, operand: str, addresses: Addresses | None) -> int:
        """Return where a multiplicand lies as products want it; without addresses as its tile."""
        if addresses is None:
            start = self.at(Place(buffer=step.tiles[operand].place.buffer))
            addresses = (start + step.addresses(operand)).ravel()
        place = self._whole(addresses)
        if (step.scale_a if operand == "a" else step.scale_b) == 1:
            return place
        fmt, negated = step.form.type(operand), self._take(len(addresses))
        signs = sum(fmt.magnitude + 1 << shift for shift in range(0, 32, fmt.bits))
        words = place, negated, len(addresses) // 4, signs, 0
        self.add(Code.ELEMENTWISE, OPERATIONS[Operation.XOR], 32, 0, *words)
        return negated

    def _scaled(
        self, step: Op[Any], uses: Mapping[str, Use], shape: Shape, places_: list[int], rows: slice
    ) -> None:
        """Write the product of some rows of A, scaled, at A, B, C, D; B as in `_product`."""
        form, selector = step.form, step.selector
        assert selector is not None
        rule, types = self.model.unit_for(form), (form.a_type, form.b_type)
        assert isinstance(rule, ScaledDot)
        # An element is less than 2^(bias + 2), and an exponent at least 1 - bias.
        largest = sum(2 * one.bias + 1 for one in types)
        together = max(0, rule.group.value - 1).bit_length()
        above = 4 if rule.aligned.value == "products" else 2 + sum(one.bias + 2 for one in types)
        if max(
            _TERM_BITS + together + (largest if together else 0),
            rule.fraction_bits.value + above + shape.k.bit_length(),
        ) > _SUM_BITS:  # fmt: skip
            raise not_done(f"{form.opcode} with the figures of {self.model.name}")
        of_scales = []
        for operand, part in (("a", rows), ("b", slice(None))):
            lanes, byte = scale_places(form, operand, selector)
            (start,) = self._bases(uses[f"s{operand}"])
            of_scales.append(start + 4 * lanes[part] + byte)
        words = self.add(
            Code.SCALED_DOT, shape.m, shape.n, shape.k, *places_, *map(format_word, types),
            form.has_metadata, form.scales, form.texts["stype"] == "ue4m3", rule.group.value,
            rule.aligned.value == "scales", rule.fraction_bits.value, rule.zero_exponent.value,
            ROUNDINGS.index(rule.rounding.value), rule.nan.value, 0,
        )  # fmt: skip
        self._add_table(words + 18, np.concatenate(of_scales))

    def _product(
        self, form: Form, shape: Shape, places_: list[int], *, apart: bool = False
    ) -> None:
        """Write the product of matrices at A, B, C, D; `apart`: B has a line for each output."""
        sizes, rule = (shape.m, shape.n, shape.k), self.model.unit_for(form)
        if isinstance(rule, ExactSum):
            (overflow,) = rule.figures_for(form).values()
            clamped = overflow.value == "clamp"
            signs = sum(
                bit for bit, one in ((1, "a"), (2, "b")) if form.type(one).kind is FormatKind.SIGNED
            )
            kind = signs if form.op is None else int(form.op == "xor")
            self.add(Code.INTEGERS, *sizes, *places_, form.a_type.bits, kind, clamped, apart)
        elif isinstance(rule, DoubleChain):
            self.add(Code.DOUBLES, *sizes, *places_, *_double_figures(form, rule))
        elif isinstance(rule, ScalarDot):
            formats = (format_word(form.type(one)) for one in "cd")
            self.add(
                Code.SCALAR_DOT, *sizes, *places_, rule.order.value == "pairs", *formats, apart
            )
        else:
            self._dot(form, shape, places_, apart=apart)

    def _dot(
        self, form: Form, shape: Shape, places_: list[int], *, apart: bool = False,
        indices: NDArray[np.int64] | None = None,
    ) -> None:  # fmt: skip
        """Write a truncated sum; `indices`: the bits of those of a sparse A, (m, k)."""
        rule, before = self.model.unit_for(form), self._scratch
        assert isinstance(rule, TruncatedDot)
        lines = shape.m * shape.n if apart else shape.n
        blocks = rule.blocks(shape.k)
        size = _scratch_bytes(shape, lines, len(blocks), 1 if indices is None else 2)
        scratch = self._take(size)
        members = np.array([k for block in blocks for k in block])
        ends = np.cumsum([len(block) for block in blocks])
        accumulator, size = rule.accumulator_format, 4 * shape.m * shape.n
        # Sums that are D without more are made where it goes.
        is_d = (accumulator.bits, form.d_type) == (32, accumulator) and not (
            rule.sums or rule.addend.value == "last" or rule.d_subnormals.value == "flushed"
        )
        sums = places_[3] if is_d else self._take(size)
        parts = self._take(size) if rule.sums else 0
        narrowing = ROUNDINGS.index(rule.narrowing.value) if rule.narrowing else 0
        addition = ROUNDINGS.index(rule.addition.value) if rule.addition else 0
        words = self.add(
            Code.DOT,
            *(shape.m, shape.n, shape.k.bit_length() - 1, apart, *places_, scratch),
            *(format_word(form.type(one)) for one in "abc"),
            *(format_word(accumulator), format_word(form.d_type), 0, len(blocks)),
            *(rule.fraction_bits.value, rule.zero_exponent.value),
            rule.product_exponent.value == "normalised",
            rule.product_range.value == "f32",
            ROUNDINGS.index(rule.rounding.value),
            rule.overflow.value == "largest",
            rule.zero.value == "-",
            rule.low_bits is not None and rule.low_bits.value == "rounded",
            *(
                one.value == "flushed"
                for one in (
                    *(rule.a_subnormals, rule.b_subnormals),
                    *(rule.c_subnormals, rule.d_subnormals),
                )
            ),
            *(rule.sums is not None, rule.addend.value == "last", addition, narrowing),
            *(rule.nan.value, _is_quick(rule, blocks), bool((np.diff(members) == 1).all())),
            *(sums, parts),
            accumulator.fraction_bits - rule.sum_format.fraction_bits,
            *(rule.subnormal_exponent is not None, 0),
        )
        if indices is not None:
            self._add_table(words + _DOT_WORDS - 1, indices)
        self._add_table(words + 14, np.concatenate([members, ends]))
        self._scratch = before

    def _matrix_of(self, form: Form, use: Use) -> Addresses:
        """Return where the bytes of the matrices of an operand lie, in the order of products."""
        if isinstance(use.holds, Fragment):
            return self._fragment(use)
        operand = use.field
        bits = form.type(operand).bits
        group, row, column = np.moveaxis(places(form, operand), -1, 0)
        lines, length, (line, at) = canonical(form.matrix(operand), row, column)
        first = ((group * lines + line) * length + at) * bits
        place = np.argsort(first, axis=None)
        # Elements that share a byte follow each other both in a register and in the matrix.
        place = place[:: max(1, 8 // bits)]
        lane, element = np.divmod(place, first.shape[1])
        register, inside = np.divmod(element * bits, use.holds.bits)
        bases = np.array(self._bases(use))[register]
        starts = bases + lane * (use.holds.bits // 8) + inside // 8
        found: Addresses = starts[:, None] + np.arange(max(1, bits // 8))
        return found.ravel()


def _scratch_bytes(shape: Shape, lines: int, blocks: int, depth: int) -> int:
    """Return the memory of a dot product's words and what it decodes: `scratch_of` over there.

    B is `depth` times as deep as what is stored of A.
    """
    words = -(-(_DOT_WORDS + shape.k + blocks) // 4) * 4
    factors = shape.m * (shape.k + 2) + lines * (depth * shape.k + 2)
    return 4 * words + 8 * factors + 16 * (shape.m + lines) + shape.m * shape.k


def _double_figures(form: Form, rule: DoubleChain) -> tuple[int, ...]:
    figures = rule.order.value == "falling", rule.multiply_add.value == "separate"
    flushes = (
        one.value == "flushed"
        for one in (rule.a_subnormals, rule.b_subnormals, rule.c_subnormals, rule.d_subnormals)
    )
    flags = sum(set_ << bit for bit, set_ in enumerate((*figures, *flushes)))
    nan = rule.nan.value
    order = sum("abc".index(one) + 1 << 2 * at for at, one in enumerate(nan.order))
    halves = (one >> shift & MASK for one in (nan.invalid, nan.canonical) for shift in (0, 32))
    return ROUNDINGS.index(form.rounding or "rn"), flags, order, *halves


def _is_quick(rule: TruncatedDot, blocks: tuple[tuple[int, ...], ...]) -> bool:
    """Whether the interpreter's quick sums are right for a rule: see `quick_block` there."""
    multiplicand, accumulator = format_named(rule.multiplicand), rule.accumulator_format
    fraction = rule.fraction_bits.value
    lengths = {len(block) for block in blocks}
    return (
        lengths <= {4, 8, 16}
        and rule.rounding.value == ("rz" if accumulator.bits == 32 else "rn")
        and rule.product_exponent.value == "sum"
        and rule.product_range.value == "unlimited"
        and rule.zero_exponent.value < 1 - accumulator.bias
        and rule.sum_bits is None
        and fraction >= 2 * multiplicand.fraction_bits
        and max(lengths) << (fraction + 2) <= 1 << _QUICK_BITS
    )
