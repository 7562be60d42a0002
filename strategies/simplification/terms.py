"""Small new dot products in place of one whose terms cannot be removed one by one.

Some failures need a sum of a certain form, such as a tie and a minute part. Out of sixteen random
terms that meet it by chance, none can be left out, and yet two made for it do. So a fixed number
of sums of one product and C, then of two products, are drawn from values that make rounding
difficult. Integers have one difficult place,
the ends of the accumulator's range: there, one product and C are enough. A `Dot` is a dot product
of the program as cells of its image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations, product
from random import Random

import numpy as np

from oracle.formats import Format
from oracle.forms import Form
from oracle.ops import loads_fragment, multiplies_fragments
from oracle.registers import Register
from strategies.matrices import Cells, Ids, Image, Placed
from strategies.simplification.examples import image_places, visit
from strategies.simplification.values import exponent, nearest, number

ENOUGH = 3
"""Elements of one dot product that need not become fewer: a product and C."""
_OUTPUTS = 8
"""Most dot products of one multiplication that are looked at."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Dot:
    """One dot product: the cells of a row of A, of a column of B and of an element of C."""

    form: Form
    a: Sequence[int]
    b: Sequence[int]
    c: int

    @property
    def cells(self) -> Ids:
        """All of them, each once."""
        return np.unique([*self.a, *self.b, self.c])

    def with_factors(self, cells: Cells, image: Image, k: int, a: int, b: int) -> Image:
        """Return an image with the raw bits of both factors of a term."""
        return cells.with_value(cells.with_value(image, self.a[k], a), self.b[k], b)

    def held(self, left: set[int]) -> list[int]:
        """Return the k of the terms with a factor that is not zero: in the cells of `left`."""
        return [k for k in range(len(self.a)) if self.a[k] in left or self.b[k] in left]

    def size(self, left: set[int]) -> int:
        """Return how many of its elements are not zero: in the cells of `left`."""
        return len(left.intersection(self.cells.tolist()))


def dots(cells: Cells, image: Image) -> Iterator[Dot]:
    """Iterate over dot products with more than ENOUGH elements that are not zero, a few at most.

    They are of the multiplications whose A, B and C were loaded and not changed since.
    """
    held: dict[tuple[Register, ...], Ids] = {}
    for _, step in visit(cells.program.steps):
        if multiplies_fragments(step):
            a, b, c = (held.get(use.registers) for use in step.reads)
            if a is not None and b is not None and c is not None:
                yield from _dots(step.form, (a, b, c), cells, image)
        elif not loads_fragment(step):
            continue
        written = set(step.writes.registers) if step.writes is not None else set()
        held = {vector: ids for vector, ids in held.items() if written.isdisjoint(vector)}
        if loads_fragment(step):
            for place in image_places(cells.program, step):
                placed = Placed(operand=step.form.matrix().operand, place=place, tile=step.tile)
                held[step.uses[0].registers] = cells.of_matrix(placed)


def _dots(form: Form, ids: tuple[Ids, Ids, Ids], cells: Cells, image: Image) -> Iterator[Dot]:
    """Iterate over the largest of A (m, k), B (k, n) and C (m, n): there most of the terms meet."""
    left = cells.nonzero(image)
    (a_ids, b_ids, c_ids), (a, b, c) = ids, (np.isin(some, left) for some in ids)
    # Single bits make terms that are not zero without any in B.
    sizes = a.sum(axis=1)[:, None] + b.sum(axis=0) + c
    for at in np.argsort(-sizes, axis=None, kind="stable")[:_OUTPUTS].tolist():
        row, column = divmod(at, sizes.shape[1])
        if sizes[row, column] > ENOUGH:
            yield Dot(
                form=form, a=a_ids[row].tolist(), b=b_ids[:, column].tolist(),
                c=int(c_ids[row, column]),
            )  # fmt: skip


def term(dot: Dot, cells: Cells, image: Image, k: int) -> Fraction | None:
    """Return what a term adds to the sum; None if that is no finite number."""
    raw = [cells.value(image, side[k]) for side in (dot.a, dot.b)]
    if dot.form.op is not None:
        return Fraction(raw[0] ^ raw[1] if dot.form.op == "xor" else raw[0] & raw[1])
    a, b = number(dot.form.a_type, raw[0]), number(dot.form.b_type, raw[1])
    return None if a is None or b is None else a * b


Choice = Callable[[int], Iterable[set[int]]]
"""For a number of terms, which of them may go together."""
_SLACK = (0, 1, -1)
"""Units in the last place by which C is tried next to the nearest."""


def gathered(cells: Cells, image: Image, dot: Dot, choose: Choice) -> list[Image]:
    """Return images with some terms taken out of one dot product, and C in their place.

    Each has fewer elements that are not zero; none is left where there are ENOUGH or less.
    """
    left = set(cells.nonzero(image).tolist())
    terms = dot.held(left)
    if dot.size(left) <= ENOUGH:
        return []
    values = [term(dot, cells, image, k) for k in terms]
    before = number(dot.form.c_type, cells.value(image, dot.c))
    images = []
    for gone in choose(len(terms)):
        factors = [cell for i in gone for cell in (dot.a[terms[i]], dot.b[terms[i]])]
        cleared = cells.without(image, np.unique(factors).astype(np.intp))
        rest = [before, *(values[i] for i in gone)]
        for raw in _accumulators(dot, cells.value(image, dot.c), rest):
            smaller = cells.with_value(cleared, dot.c, raw)
            if len(cells.nonzero(smaller)) < len(left):
                images.append(smaller)
    return images


def _some(number: int) -> Choice:
    return lambda count: map(set, combinations(range(count), number))


def _all_but(*numbers: int) -> Choice:
    return lambda count: (
        set(range(count)).difference(kept)
        for number in numbers
        for kept in combinations(range(count), number)
    )


CHOICES: tuple[Choice, ...] = (_all_but(0, 1), _some(1), _some(2), _all_but(2))
"""Which of the terms go, the promising choices first."""


def _accumulators(dot: Dot, raw: int, rest: Sequence[Fraction | None]) -> list[int]:
    """Return raw bits for C, given what it and the terms that go stood for."""
    numbers = [value for value in rest if value is not None]
    if len(numbers) < len(rest):
        return [raw]
    type_ = dot.form.c_type
    total = nearest(type_, sum(numbers, Fraction(0)))
    top = (1 << type_.bits) - 1
    return list(dict.fromkeys([raw, *(total + slack & top for slack in _SLACK)]))


_SEED = 20261121
"""Fixed, so that shrinking a case twice gives the same."""
SIZES = ((1, True, 3), (2, False, 4), (2, True, 5))
"""Products, whether C is anything but zero, elements."""
_FEW_BITS = 5
"""Bits behind the leading one of a short significand: products of two are ties in f16."""
_AWAY = 8
"""Most powers of two by which a factor is away from one that was there."""
_ABOVE_ONE = 4
"""Most powers of two by which the others are above one."""
_BELOW = tuple(range(33))
"""Powers of two by which a second product is below the first."""
_SMALL_ONES = 6
"""How many of these are tried."""
_ADDED = (1, 11, *range(22, 28))
"""Powers of two by which C is below a product: mostly by about the 23 to 25 bits that adders keep
(MMA-Sim's figures for sm_70 to sm_120)."""
_BELOW_THE_SUM = tuple(range(13))
"""Powers of two by which the smaller of two products that complete each other is below one that
was there."""
_OFF = (0, 1, -1)
"""Units in the last place by which C is off the negative of a product."""


def proposed(
    cells: Cells, image: Image, dot: Dot, products: int, *, with_c: bool
) -> Iterator[Image]:
    """Iterate without end over images with another dot product in the place of one of floats.

    Parameters
    ----------
    products
        How many it has.
    with_c
        Whether C is anything but zero.
    """
    drawn = _drawn(Random(_SEED), cells, dot, image, products, with_c=with_c)
    if products == 2 and not with_c:
        return chain(_completed(cells, dot, image), drawn)
    return drawn


def at_the_ends(cells: Cells, dot: Dot, image: Image) -> Iterator[Image]:
    """Iterate over images with one product and C, that reach the ends of C's range, or pass them.

    So does, first of all, the sum that was there.
    """
    form = dot.form
    places = dot.held(set(cells.nonzero(image).tolist()))
    before = number(form.c_type, cells.value(image, dot.c)) or Fraction(0)
    total = before + sum(
        (_product(form, *(cells.value(image, side[k]) for side in (dot.a, dot.b))) for k in places),
        Fraction(0),
    )
    cleared = cells.without(image, dot.cells)
    for a, b in product(_extremes(form.a_type), _extremes(form.b_type)):
        smaller = dot.with_factors(cells, cleared, places[0], a, b)
        rest = [end - _product(form, a, b) for end in (total, *_ends(form.c_type))]
        addends = [nearest(form.c_type, value + off) for value in rest for off in _OFF]
        for c in dict.fromkeys(addends):
            yield cells.with_value(smaller, dot.c, c)


def _extremes(type_: Format) -> list[int]:
    """Return one and the ends of the range of an integer, as raw bits."""
    return list(dict.fromkeys([1, *(nearest(type_, end) for end in _ends(type_)), 0]))


def _ends(type_: Format) -> tuple[Fraction, Fraction]:
    """Return the least and the greatest of an integer type."""
    beyond = Fraction(1 << type_.bits)
    low, high = nearest(type_, -beyond), nearest(type_, beyond)
    return number(type_, low) or Fraction(0), number(type_, high) or Fraction(0)


def _completed(cells: Cells, dot: Dot, image: Image) -> Iterator[Image]:
    """Iterate over images with two products that are a power of two only together.

    The second is one unit in the last place of the first, which is all ones: any truncation
    shows, however far below the result it happens.
    """
    form = dot.form
    first, second, *_ = dot.held(set(cells.nonzero(image).tolist()))
    raw = (cells.value(image, dot.a[first]), cells.value(image, dot.b[first]))
    whole, a = _product(form, *raw), number(form.a_type, raw[0])
    if not whole or not a:
        return
    cleared = cells.without(image, dot.cells)
    for bits, below in product(range(1, form.a_type.fraction_bits + 1), _BELOW_THE_SUM):
        unit = Fraction(2) ** (exponent(abs(a)) - bits)
        other = Fraction(2) ** (exponent(abs(whole)) - below) / unit
        smaller = cleared
        # (2^n - 1) * (2^n + 1) + 1 * 1 = 2^2n
        for k, factor, by in ((first, (1 << bits) - 1, (1 << bits) + 1), (second, 1, 1)):
            a_raw, b_raw = nearest(form.a_type, unit * factor), nearest(form.b_type, other * by)
            smaller = dot.with_factors(cells, smaller, k, a_raw, b_raw)
        yield smaller


def _drawn(
    random: Random, cells: Cells, dot: Dot, image: Image, products: int, *, with_c: bool
) -> Iterator[Image]:
    """Iterate without end over images with another dot product in the place of one."""
    form = dot.form
    places = dot.held(set(cells.nonzero(image).tolist()))
    known = [[cells.value(image, side[k]) for k in places] for side in (dot.a, dot.b)]
    cleared = cells.without(image, dot.cells)
    while True:
        near = random.randrange(2) == 0
        ks = random.sample(places, products)
        a_known, b_known = known
        factors = [
            (_factor(random, form.a_type, a_known, near=near),
             _factor(random, form.b_type, b_known, near=near))
            for _ in ks
        ]  # fmt: skip
        for pairs in _with_small_ones(random, form, factors):
            smaller, total = cleared, Fraction(0)
            for k, (a, b) in zip(ks, pairs, strict=True):
                smaller = dot.with_factors(cells, smaller, k, a, b)
                total += _product(form, a, b)
            if not with_c:
                yield smaller
                continue
            addends = _addends(form.c_type, total)
            for c in addends if products == 1 else random.sample(addends, 2):
                yield cells.with_value(smaller, dot.c, c)


def _with_small_ones(
    random: Random, form: Form, factors: Sequence[tuple[int, int]]
) -> Iterator[list[tuple[int, int]]]:
    """Iterate over the factors of products: as drawn, and with the second far below the first."""
    yield list(factors)
    if len(factors) == 1:
        return
    (first, (a, _)) = factors
    divisor = number(form.a_type, a)
    if divisor:
        for below in random.sample(_BELOW, _SMALL_ONES):
            wanted = _product(form, *first) / divisor * Fraction(2) ** -below
            yield [first, (a, nearest(form.b_type, random.choice((1, -1)) * wanted))]


def _product(form: Form, a: int, b: int) -> Fraction:
    """Return the product of two elements; zero where that is no finite number."""
    return (number(form.a_type, a) or Fraction(0)) * (number(form.b_type, b) or Fraction(0))


def _factor(random: Random, type_: Format, known: list[int], *, near: bool) -> int:
    """Draw a factor: one that was there, a minute one, a power of two, or a short odd one.

    Parameters
    ----------
    near
        Whether the last two are about as large as one that was there; else about one.
    """
    raw = random.choice(known)
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


def _addends(type_: Format, total: Fraction) -> list[int]:
    """Return what is added to a product: far below it, or about its negative."""
    small = [total * Fraction(sign, 1 << below) for below in _ADDED for sign in (1, -1)]
    opposite = nearest(type_, -total)
    mask = (1 << type_.bits) - 1
    return [*(nearest(type_, value) for value in small), *(opposite + off & mask for off in _OFF)]
