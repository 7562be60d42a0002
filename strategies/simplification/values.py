"""Simpler values of an image: of one element, and small new dot products in place of one.

Some failures need a sum of a certain form, such as a tie and a minute part. Out of sixteen random
terms that meet it by chance, none can be left out, and yet two made for it do. So a fixed number
of sums of one product and C, then of two products, are drawn from values that make rounding
difficult. Integers have one difficult place,
the ends of the accumulator's range: there, one product and C are enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from random import Random

import numpy as np

from oracle.isa.forms import Form, Format, FormatKind
from oracle.program.operands import Register
from oracle.program.steps import loads_fragment, multiplies_fragments
from strategies.matrices import Cells, Ids, Image, Placed, places_of
from strategies.programs.single_instruction import one
from strategies.simplification.examples import visit

_Cost = tuple[int, ...]


def number(type_: Format, raw: int) -> Fraction | None:
    """Return what the raw bits of an element stand for; None for infinities and NaN."""
    if type_.kind is not FormatKind.FLOAT:
        negative = type_.kind is FormatKind.SIGNED and raw >> (type_.bits - 1)
        return Fraction(raw - (1 << type_.bits) if negative else raw)
    raw >>= type_.ignored_bits
    fraction = raw & ((1 << type_.fraction_bits) - 1)
    field = raw >> type_.fraction_bits & ((1 << type_.exponent_bits) - 1)
    if field == (1 << type_.exponent_bits) - 1:
        return None
    significand = fraction + (1 << type_.fraction_bits if field else 0)
    scale = max(field, 1) - type_.bias - type_.fraction_bits
    sign = -1 if raw >> (type_.fraction_bits + type_.exponent_bits) else 1
    return sign * significand * Fraction(2) ** scale


def nearest(type_: Format, value: Fraction) -> int:
    """Return the raw bits of the finite element that is nearest to a number; ties to even."""
    if type_.kind is not FormatKind.FLOAT:
        signed = type_.kind is FormatKind.SIGNED
        low = -(1 << (type_.bits - 1)) if signed else 0
        high = (1 << (type_.bits - signed)) - 1
        return min(max(round(value), low), high) & ((1 << type_.bits) - 1)
    sign = 1 << (type_.bits - 1 - type_.ignored_bits) if value < 0 else 0
    magnitude = abs(value)
    least = 1 - type_.bias
    scale = max(least, exponent(magnitude)) if magnitude else least
    units = round(magnitude / Fraction(2) ** (scale - type_.fraction_bits))
    # A sum of the exponent field less one and the significand with its leading bit; where
    # rounding carries, the field goes up by itself.
    raw = (scale + type_.bias - 1 << type_.fraction_bits) + units
    largest = ((1 << type_.exponent_bits) - 1 << type_.fraction_bits) - 1
    return (sign | min(raw, largest)) << type_.ignored_bits


def exponent(magnitude: Fraction) -> int:
    """Return the exponent of the power of two that is nearest from below."""
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if Fraction(2) ** guess <= magnitude else guess - 1


def simpler_values(type_: Format, value: int) -> list[int]:
    """Return raw bits that are simpler than some, the simplest first; never zero.

    One is the simplest; then powers of two, the nearer to one the simpler; then values with few
    bits of the significand; positive before negative.
    """
    cost = _cost(type_, value)
    offers = {other for other in _offers(type_, value) if other and _cost(type_, other) < cost}
    return sorted(offers, key=lambda other: (_cost(type_, other), other))


def _offers(type_: Format, value: int) -> Iterator[int]:
    yield one(type_)
    sign = 1 << (type_.bits - 1)
    if type_.kind is FormatKind.FLOAT:
        unit = 1 << (type_.bits - 1 - type_.exponent_bits)
        fraction, exponent = value & (unit - 1), value & (sign - 1) & ~(unit - 1)
        yield value & ~sign
        yield value & ~(unit - 1)
        yield exponent
        middle = (exponent // unit + type_.bias) // 2
        nearer = exponent // unit + (1 if exponent // unit < type_.bias else -1)
        for other in (type_.bias, middle, nearer):
            yield other * unit
            yield value & sign | other * unit | fraction
        for bit in range(unit.bit_length() - 1):
            yield value & ~(1 << bit)
        return
    yield value & ~sign
    magnitude = (1 << type_.bits) - value if _negative(type_, value) else value
    yield magnitude & (sign | sign - 1)
    yield 1 << (magnitude.bit_length() - 1)
    yield -(1 << (magnitude.bit_length() - 1)) & ((1 << type_.bits) - 1)
    yield magnitude >> 1
    for bit in range(type_.bits):
        yield value & ~(1 << bit)


def _negative(type_: Format, value: int) -> bool:
    return type_.kind is not FormatKind.UNSIGNED and bool(value >> (type_.bits - 1))


def _cost(type_: Format, value: int) -> _Cost:
    if value == one(type_):
        return (0,)
    negative = _negative(type_, value)
    if type_.kind is FormatKind.FLOAT:
        unit = 1 << (type_.bits - 1 - type_.exponent_bits)
        exponent = (value >> (unit.bit_length() - 1)) & ((1 << type_.exponent_bits) - 1)
        distance = abs(exponent - type_.bias)
        return (1, (value & (unit - 1)).bit_count(), negative, distance, value)
    magnitude = (1 << type_.bits) - value if negative else value
    return (1, negative, magnitude.bit_count(), magnitude.bit_length(), magnitude)


ENOUGH = 3
"""Elements of one dot product that need not become fewer: a product and C."""
_OUTPUTS = 8
"""Most dot products of one multiplication that are looked at."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Dot:
    """One dot product of an image: the cells of a row of A, of a column of B and of C's element."""

    cells: Cells
    image: Image
    form: Form
    a: Sequence[int]
    b: Sequence[int]
    c: int

    @cached_property
    def _left(self) -> frozenset[int]:
        return frozenset(self.cells.nonzero(self.image).tolist())

    @cached_property
    def terms(self) -> list[int]:
        """The k of the terms with a factor that is not zero."""
        return [k for k in range(len(self.a)) if not self._left.isdisjoint((self.a[k], self.b[k]))]

    @property
    def size(self) -> int:
        """How many of its elements are not zero."""
        return len(self._left.intersection((*self.a, *self.b, self.c)))

    def raw(self, k: int) -> tuple[int, int]:
        """Return the bits of both factors of a term."""
        return self.cells.value(self.image, self.a[k]), self.cells.value(self.image, self.b[k])

    @cached_property
    def _cleared(self) -> Image:
        return self.cells.without(self.image, np.unique([*self.a, *self.b, self.c]))

    def of(self, factors: Mapping[int, tuple[int, int]], c: int = 0) -> Image:
        """Return the image with these terms alone, by their k, and C."""
        image = self._cleared
        for k, (a, b) in factors.items():
            image = self.cells.with_value(image, self.a[k], a)
            image = self.cells.with_value(image, self.b[k], b)
        return self.cells.with_value(image, self.c, c) if c else image


def dots(cells: Cells, image: Image) -> Iterator[Dot]:
    """Iterate over dot products with more than ENOUGH elements that are not zero, a few at most.

    They are of the multiplications whose A, B and C were loaded and not changed since: of A (m, k),
    B (k, n) and C (m, n) the largest, where most of the terms meet.
    """
    held: dict[tuple[Register, ...], Ids] = {}
    nonzero = cells.nonzero(image)
    for _, step in visit(cells.program.steps):
        if multiplies_fragments(step):
            ids = [held[use.registers] for use in step.reads if use.registers in held]
            if len(ids) == 3:
                a, b, c = (np.isin(some, nonzero) for some in ids)
                # Single bits make terms that are not zero without any in B.
                sizes = a.sum(axis=1)[:, None] + b.sum(axis=0) + c
                for at in np.argsort(-sizes, axis=None, kind="stable")[:_OUTPUTS].tolist():
                    row, column = divmod(at, sizes.shape[1])
                    if sizes[row, column] > ENOUGH:
                        yield Dot(
                            cells=cells, image=image, form=step.form, a=ids[0][row].tolist(),
                            b=ids[1][:, column].tolist(), c=int(ids[2][row, column]),
                        )  # fmt: skip
        elif not loads_fragment(step):
            continue
        written = set(step.writes.registers) if step.writes is not None else set()
        held = {vector: ids for vector, ids in held.items() if written.isdisjoint(vector)}
        if loads_fragment(step):
            for place in places_of(cells.program, step.memory.place):
                placed = Placed(operand=step.form.matrix().operand, place=place, tile=step.tile)
                held[step.uses[0].registers] = cells.of_matrix(placed)


def _product(form: Form, raw: tuple[int, int]) -> Fraction:
    a, b = number(form.a_type, raw[0]), number(form.b_type, raw[1])
    return (a or Fraction(0)) * (b or Fraction(0))


_SEED = 20261121
"""Fixed, so that shrinking a case twice gives the same."""
_DRAWN = 2048
"""Sums of each size that are drawn: about a second on the simulated device."""
_SIZES = ((1, True, 3), (2, False, 4), (2, True, 5))
"""Products, whether C is anything but zero, elements."""
_FEW_BITS = 5
"""Bits behind the leading one of a short significand: products of two are ties in f16."""
_AWAY, _ABOVE_ONE = 8, 4
"""Most powers of two by which a factor is away from one that was there, and above one."""
_BELOW, _SMALL_ONES = range(33), 6
"""Powers of two by which a second product is below the first, and how many of these are tried."""
_ADDED = (1, 11, *range(22, 28))
"""Powers of two by which C is below a product: mostly by about the 23 to 25 bits that adders keep
(MMA-Sim's figures for sm_70 to sm_120)."""
_OFF = (0, 1, -1)
"""Units in the last place by which C is off the negative of a product."""


def replaced(dot: Dot) -> Iterator[Iterator[Image]]:
    """Iterate over ways to put a smaller dot product in the place of one, the smallest first.

    A way is images of which one may do.
    """
    for products, with_c, size in _SIZES if dot.form.op is None else ():
        if dot.size <= size or len(dot.terms) < products:
            return
        yield islice(_drawn(Random(_SEED), dot, products, with_c=with_c), _DRAWN)


def _drawn(random: Random, dot: Dot, products: int, *, with_c: bool) -> Iterator[Image]:
    form = dot.form
    known_a, known_b = zip(*map(dot.raw, dot.terms), strict=True)
    while True:
        near, ks = random.randrange(2) == 0, random.sample(dot.terms, products)
        factors = [
            (_factor(random, form.a_type, known_a, near=near),
             _factor(random, form.b_type, known_b, near=near))
            for _ in ks
        ]  # fmt: skip
        ways = [factors]
        if products > 1 and (divisor := number(form.a_type, factors[1][0])):
            # And with the second product far below the first.
            for below in random.sample(_BELOW, _SMALL_ONES):
                wanted = _product(form, factors[0]) / divisor * Fraction(2) ** -below
                small = nearest(form.b_type, random.choice((1, -1)) * wanted)
                ways.append([factors[0], (factors[1][0], small)])
        for pairs in ways:
            total = sum((_product(form, pair) for pair in pairs), Fraction(0))
            addends = _addends(form.c_type, total) if with_c else [0]
            for c in random.sample(addends, 2) if with_c and products > 1 else addends:
                yield dot.of(dict(zip(ks, pairs, strict=True)), c)


def _factor(random: Random, type_: Format, known: Sequence[int], *, near: bool) -> int:
    """Draw a factor: one that was there, a minute one, a power of two, or a short odd one.

    With `near`, the last two are about as large as one that was there; else about one. Of integers,
    one, or an end of the range.
    """
    raw = random.choice(known)
    if not type_.is_float:
        return random.choice((raw, 1, *_ends(type_)))
    match random.randrange(6):
        case 0:
            return raw
        case 1:
            return random.randint(1, 4) << type_.ignored_bits
    value = number(type_, raw)
    size = random.randint(0, _ABOVE_ONE)
    if near and value:
        size = value.numerator.bit_length() - value.denominator.bit_length()
        size += random.randint(-_AWAY, _AWAY)
    significand = 1 << _FEW_BITS
    if random.randrange(2):
        significand += 1 + 2 * random.randrange(1 << _FEW_BITS - 1)
    scale = Fraction(2) ** (size - _FEW_BITS)
    return nearest(type_, random.choice((1, -1)) * significand * scale)


def _ends(type_: Format) -> tuple[int, int]:
    beyond = Fraction(1 << type_.bits)
    return nearest(type_, -beyond), nearest(type_, beyond)


def _addends(type_: Format, total: Fraction) -> list[int]:
    """Return what is added to a product: far below it, or about what is left to zero, or an end."""
    mask, rest = (1 << type_.bits) - 1, [-total]
    small = [total * Fraction(sign, 1 << below) for below in _ADDED for sign in (1, -1)]
    if not type_.is_float:
        small = []
        rest += [(number(type_, end) or Fraction(0)) - total for end in _ends(type_)]
    about = [nearest(type_, value) + off & mask for value in rest for off in _OFF]
    return [*(nearest(type_, value) for value in small), *about]
