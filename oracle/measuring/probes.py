"""The probes of a unit of floats: families of dot products, each of which isolates one property.

The ideas are FPRev's (a large number and its opposite at every pair of places, small ones
everywhere else: what is left over says what was added with what) and those of other generators of
revealing inputs; each family says what it shows. All probes are fixed: they do not depend on the
device, so that one launch takes them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import FLOATS
from oracle.arithmetic.doubles import QUIET
from oracle.isa.forms import FORMATS, SCALES_OF_ONE, Format

Array = NDArray[Any]
Floats = NDArray[np.float64]

_SEED, _SEED_OF_DOUBLES = 0x6D65_6173, 0x6636_3434  # Seeds of the random parts of probes
SIGNS = (1.0, -1.0)
FAR = range(45)  # Binades between C and a product


def encode(values: Floats, fmt: Format) -> Array:
    """Return the patterns of values that a format holds exactly (or rounds somehow)."""
    if fmt.bits <= 8:
        most = fmt.largest
        values = np.where(np.isfinite(values), np.clip(values, -most, most), values)
        return np.asarray(values.astype(FLOATS[fmt.name]).view(np.uint8)) << fmt.ignored_bits
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if fmt.name in ("f64", "f16"):
            return np.asarray(values).astype(f"f{fmt.bits // 8}").view(fmt.raw)
        words = np.asarray(values).astype(np.float32).view(np.uint32)
    if fmt.name == "bf16":
        return (words >> 16).astype(np.uint16)
    return words & np.uint32(2**32 - (1 << fmt.ignored_bits))


@dataclass(frozen=True, kw_only=True, eq=False)
class Dots:
    """Some dot products a . b + c, one in each row."""

    family: tuple[str, ...]  # Which family of probes each belongs to
    a: Array  # Patterns, (count, k)
    b: Array
    c: Array
    scales: tuple[Array, Array] | None = None  # Of a and b, (count, scales) each
    scale_type: str = ""  # Their format

    def __len__(self) -> int:
        return len(self.c)

    def where(self, chosen: NDArray[np.bool_]) -> Dots:
        """Return some rows."""
        family = tuple(self.family[i] for i in np.flatnonzero(chosen))
        rows = replace(self, family=family, a=self.a[chosen], b=self.b[chosen], c=self.c[chosen])
        if self.scales is not None:
            rows = replace(rows, scales=(self.scales[0][chosen], self.scales[1][chosen]))
        return rows

    def of(self, *families: str) -> NDArray[np.bool_]:
        """Return which rows belong to one of these families."""
        return np.isin(np.array(self.family), families)

    def plus(self, *others: Dots) -> Dots:
        """Return these rows and others behind them."""
        every = (self, *others)
        a, b, c = (np.concatenate([getattr(one, name) for one in every]) for name in "abc")
        family, scales = tuple(chain(*(one.family for one in every))), None
        if self.scales is not None:
            of_a, of_b = zip(*(one.scales or () for one in every), strict=True)
            scales = np.concatenate(of_a), np.concatenate(of_b)
        return replace(self, family=family, a=a, b=b, c=c, scales=scales)


class Sheet:
    """Rows in the making, for one unit's formats and depth.

    `multiplicand` is the format of A, and, where B has another, the narrower range of both.
    """

    def __init__(self, types: str, depth: int, scale_type: str = "", scales: int = 0) -> None:
        self.d, self.a, self.b, self.addend = (FORMATS[name] for name in types.split("."))
        self.depth, self.scale_type, self.scales = depth, scale_type, scales
        self.multiplicand = min(self.a, self.b, key=lambda fmt: fmt.exponent_bits)
        self.is_wide = self.multiplicand.exponent_bits == FORMATS["f32"].exponent_bits
        """Whether products reach down to the least numbers of f32: bf16, tf32."""
        self.is_narrow = "f16" in (self.d.name, self.addend.name)
        self.parts: list[Dots] = []

    def patterns(
        self, family: str, a: Array, b: Array, c: Array, scales: tuple[Array, Array] | None = None
    ) -> None:
        """Add rows that are patterns already, as they are now; they are broadcast together.

        `scales`: Those of A and B, (count, scales); None: all are 1, if there are any.
        """
        a, b, c = np.atleast_2d(a), np.atleast_2d(b), np.atleast_1d(c)
        count = max(len(a), len(b), len(c))
        a, b = (np.array(np.broadcast_to(one, (count, self.depth)), order="C") for one in (a, b))
        c = np.array(np.broadcast_to(c, (count,)))
        dots = Dots(family=(family,) * count, a=a, b=b, c=c)
        if self.scales:
            ones = np.full((1, self.scales), SCALES_OF_ONE[self.scale_type], np.uint8)
            of_a, of_b = (
                np.array(np.broadcast_to(one, (count, self.scales)), order="C")
                for one in scales or (ones, ones)
            )
            dots = replace(dots, scales=(of_a, of_b), scale_type=self.scale_type)
        self.parts.append(dots)

    def values(
        self, family: str, a: Floats, b: Floats, c: Floats | float,
        scales: tuple[Array, Array] | None = None,
    ) -> None:  # fmt: skip
        """Add rows of numbers, (count, k), (count, k) and (count,), or one row and a number."""
        right = encode(np.atleast_2d(b), self.b)
        self.patterns(family, encode(np.atleast_2d(a), self.a), right, self.addends(c), scales)

    def addends(self, c: Floats | float) -> Array:
        """Return patterns of C."""
        return encode(np.atleast_1d(c), self.addend)

    def products(self, family: str, products: Floats, c: Floats | float) -> None:
        """Add rows by their products, (count, k) or (k,): each a power of two, or zero."""
        products = np.atleast_2d(np.asarray(products, np.float64))
        sign = np.where(np.signbit(products), -1.0, 1.0)
        exponent = np.frexp(products)[1] - 1
        half = exponent // 2
        left = np.where(products == 0.0, 0.0, sign * np.ldexp(1.0, half))
        right = np.where(products == 0.0, 1.0, np.ldexp(1.0, exponent - half))
        self.values(family, left, right, c)

    def row(self, at: dict[int, float], fill: float = 0.0) -> Floats:
        """Return one row of numbers: some at their places, and else all the same."""
        made = np.full(self.depth, fill)
        made[list(at)] = list(at.values())
        return made

    def dots(self) -> Dots:
        """Return all rows."""
        return self.parts[0].plus(*self.parts[1:])


def float_probes(types: str, depth: int) -> Dots:
    """Return the probes of a unit "f32.f16.f16.f32" of a form with K of `depth`."""
    sheet, rng = Sheet(types, depth), np.random.default_rng(_SEED)
    if sheet.multiplicand.bits == 8:
        far_addends(sheet)
        _order_of_small(sheet, rng)
    _order(sheet)
    _alignment(sheet)
    _normalisation(sheet)
    _subnormals(sheet)
    _subnormal_exponents(sheet)
    _rounding(sheet, rng)
    _zeros(sheet, rng)
    _zeros_at_the_least(sheet, rng)
    _special(sheet)
    _overflows(sheet)
    _zero_signs(sheet)
    _low_bits(sheet, rng)
    return sheet.dots()


def _scales(sheet: Sheet) -> list[tuple[int, int, bool]]:
    """Return exponents of a large and a small term, and whether C can hold the large one."""
    # More than 2^30 apart, so that the small one is lost beside the large one whatever number of
    # bits is kept; and as large as possible, so that a zero's exponent does not matter.
    if sheet.is_wide:
        return [(100, 60, True)]
    if not sheet.is_narrow:
        return [(30, -2, True)] if sheet.multiplicand.bits == 16 else [(16, -18, True)]
    both = [(15, -16, True), (15, -14, True)]
    return both if sheet.multiplicand.bits == 8 else [(30, -2, sheet.addend.name == "f32"), *both]


def far_addends(sheet: Sheet) -> None:
    """Add C and one product, each far below the other: bits kept, and what exponents count.

    Small elements lie within so few binades that C is what is far away: a sum is cut where it
    differs from the next number, which a term of the other sign shows, however small it is.
    """
    long = 1.0 + 2.0**-sheet.a.fraction_bits, 1.0 + 2.0**-sheet.b.fraction_bits
    nearly = 2.0 - 2.0**-sheet.addend.fraction_bits
    for one, other in dict.fromkeys(((1.0, 1.0), (1.5, 1.5), (4.0, 2.0), (4.0, 4.0), long)):
        # Where a product, or a sum, is 2 or more times its exponent's power of two, another
        # exponent may count, and does in the next block.
        is_high = np.frexp(one)[0] * np.frexp(other)[0] >= 0.5
        for place, sign, distance in product((0, sheet.depth - 1), SIGNS, FAR):
            a, b = sheet.row({place: one}), sheet.row({place: other})
            for c in (-(2.0**distance), -(2.0**-distance), nearly * 2.0**distance):
                family = f"C beside a {'high ' if is_high or c > 0 else ''}product"
                if abs(c) < 2.0 ** (sheet.addend.bias + 1):
                    sheet.values(family, sign * a, b, sign * c)
    # A tie of C and 16, and less and less beside it.
    least, lowest = (1 - fmt.bias - fmt.fraction_bits for fmt in (sheet.a, sheet.b))
    c = 2.0 ** (5 + sheet.addend.fraction_bits)
    for exponent, i, sign in product(range(least + lowest, 4), (0, sheet.depth - 2), SIGNS):
        down = max(least, min(exponent, 1))
        a = sheet.row({i: 4.0, i + 1: sign * 2.0**down})
        b = sheet.row({i: 4.0, i + 1: 2.0 ** (exponent - down)})
        for turned in SIGNS:
            sheet.values("C beside a product", turned * a, b, turned * c)


def _order(sheet: Sheet) -> None:
    """Add large - large at every pair of places, small elsewhere: blocks, their order, and C."""
    k = sheet.depth
    for large, small, c_too in _scales(sheet):
        rows = []
        for i, j in combinations(range(k + c_too), 2):
            row = np.full(k + 1, 2.0**small)
            row[i], row[j] = 2.0**large, -(2.0**large)
            rows.append(row)
            if j == k:
                rows.append(np.where(np.abs(row) > 2.0**small, -row, row))
        terms = np.array(rows)
        sheet.products("order", terms[:, :k], terms[:, k])


def _order_of_small(sheet: Sheet, rng: np.random.Generator) -> None:
    """Add to a C that is far away, or that some products cancel, products that differ little."""
    k, count = sheet.depth, 200
    a, b = (rng.choice([-4.0, -1.5, 0.5, 1.0, 1.5, 3.0], (2 * count, k)) for _ in "ab")
    far = rng.choice([-1.5, -1.0, 1.0, 1.25], count)
    far *= 2.0 ** rng.integers(0, min(32, sheet.addend.bias), count)
    # The first products, or the last, take C away.
    some = (np.arange(k) < rng.integers(1, k + 1, (count, 1))) ^ (rng.random((count, 1)) < 0.5)
    cancelled = -np.sum(np.abs(a[count:] * b[count:]) * some, axis=1)
    a[count:], b[count:] = np.abs(a[count:]), np.abs(b[count:])
    sheet.values("order", a, b, np.concatenate([far, cancelled]))


def _ladder(sheet: Sheet, *, with_c: bool = False) -> Iterator[tuple[int, int]]:
    """Yield pairs of places of which one lies in one block, whatever the blocks are; K is C."""
    k = sheet.depth
    yield from ((0, n) for n in range(1, k // 2 + 1))
    yield k - 2, k - 1
    if with_c:
        yield from ((0, k), (k - 1, k))


def _alignment(sheet: Sheet) -> None:
    """Add large - large and a small term at every distance: how many bits are kept."""
    k = sheet.depth
    for large, _, c_too in _scales(sheet)[:2]:
        rows = []
        for (i, j), distance, sign in product(_ladder(sheet, with_c=c_too), range(6, 33), SIGNS):
            row = np.full(k + 1, sign * 2.0 ** (large - distance))
            row[i], row[j] = 2.0**large, -(2.0**large)
            rows.append(row)
        terms = np.array(rows)
        sheet.products("alignment", terms[:, :k], terms[:, k])


def _normalisation(sheet: Sheet) -> None:
    """Add 2.25 - 2.25, made of 1.5 x 1.5, and a small term at every distance."""
    for large, _, _ in _scales(sheet)[:2]:
        half = min(large, 2 * (large // 2) - 2) // 2
        pair = 1.5 * 2.0**half
        for (i, j), distance in product(_ladder(sheet), range(6, 33)):
            a = sheet.row({i: pair, j: -pair}, 2.0 ** (half - distance // 2))
            b = sheet.row({i: pair, j: pair}, 2.0 ** (half - distance + distance // 2))
            sheet.values("normalisation", a, b, 2.0 ** (2 * half - distance))


def _subnormals(sheet: Sheet) -> None:
    k, d, addend = sheet.depth, sheet.d, sheet.addend
    for below, sign in product((1, 2, 5), SIGNS):
        for name, fmt, other in (("A", sheet.a, sheet.b), ("B", sheet.b, sheet.a)):
            tiny, huge = sheet.row({}, sign * 2.0 ** (1 - fmt.bias - below)), 2.0**other.bias
            a, b = (tiny, sheet.row({}, huge)) if name == "A" else (sheet.row({}, huge), tiny)
            sheet.values(f"subnormals in {name}", a, b, 1.0)
    # Results: the least normal number less a little.
    least = 1 - d.bias
    if addend.bias <= d.bias or d.name == "f16":
        for below, sign in product(range(1, 6), SIGNS):
            terms = sheet.row({}, -sign * 2.0 ** (least - below - 4))
            sheet.products("subnormals in D", terms, sign * 2.0**least)
    # C alone, so that nothing hides it; and with a sum that is no subnormal.
    least = 1 - addend.bias
    if sheet.is_wide or addend.name == "f16":
        for below, sign in product((1, 2, 3), SIGNS):
            terms = sheet.row({}, sign * 2.0 ** (least + 1 - np.log2(k)))
            sheet.products("subnormals in C", terms, sign * 2.0 ** (least - below))
    for below, sign in product(range(1, addend.fraction_bits + 1, 3), SIGNS):
        sheet.products("subnormals in C", np.zeros(k), sign * 2.0 ** (least - below))


def _subnormal_exponents(sheet: Sheet) -> None:
    """Add two e4m3 subnormals that cancel, and small terms: the exponent with which they count."""
    for is_b, fmt in enumerate((sheet.a, sheet.b)):
        if fmt.has_infinity:
            continue
        tiny = 2.0 ** (1 - fmt.bias - fmt.fraction_bits)
        for (i, j), distance in product(_ladder(sheet), range(3, 34)):
            x = sheet.row({i: tiny, j: -tiny}, 2.0**-6)
            y = sheet.row({i: 2.0**8, j: 2.0**8}, 2.0 ** max(-9, 6 - distance))
            c = tiny * 2.0 ** (8 - distance)
            sheet.values("exponents of subnormals", *((y, x) if is_b else (x, y)), c)


def _coarse(rng: np.random.Generator, count: int, k: int) -> Floats:
    """Return integers from 1 to 7 with signs."""
    values: Floats = rng.integers(1, 8, (count, k)) * rng.choice([-1.0, 1.0], (count, k))
    return values


def _rounding(sheet: Sheet, rng: np.random.Generator) -> None:
    """Add sums that do not fit, ties among them: in the accumulator's format, and in D's."""
    k, count = sheet.depth, 120
    for fraction in (10, 23) if sheet.is_narrow else (23,):
        ulp = 2.0**-fraction
        # A little beside C, in eighths of its last place.
        c = rng.choice([-1.0, 1.0], count) * (1.0 + ulp * rng.integers(0, 512, count))
        eighths = _coarse(rng, count, k) * ulp / 8
        sheet.values("rounding", eighths / 2.0**-9, np.full((count, k), 2.0**-9), c)
        # Sums whose leading bit lies far above the products', all of one sign.
        sign = rng.choice([-1.0, 1.0], (count, 1))
        heavy = sign * (1.5 + rng.integers(0, 64, (count, k)) / 128)
        sheet.values("rounding", heavy, 1.5 + rng.integers(0, 64, (count, k)) / 128, c)
        light = rng.integers(0, 128, (count, k)) / 128 + 1.0
        sheet.values("rounding", light * rng.choice([-1.0, 1.0], (count, k)), light[::-1], c)
    if sheet.multiplicand.bits == 8:
        # C is too far from what so few bits hold: sums of products of all sizes, and C in between.
        exponents = rng.integers(-6, 8, (2, 4 * count, k))
        significands = [-1.75, -1.0, 1.0, 1.25, 1.5]
        a, b = (2.0**one * rng.choice(significands, one.shape) for one in exponents)
        sheet.values("rounding", a, b, np.zeros(4 * count))
        c = rng.standard_normal(4 * count) * 2.0 ** rng.integers(-20, 10, 4 * count)
        sheet.values("rounding", a, b, c)
    if sheet.is_wide:
        # Results below the least normal number of f32, in quarters of the least of all.
        quarters = _coarse(rng, count, k) * 2.0**-76
        c = rng.integers(-64, 65, count).astype(np.float64) * 2.0**-149
        sheet.values("rounding of subnormals", quarters, np.full((count, k), 2.0**-75), c)


def _zeros(sheet: Sheet, rng: np.random.Generator) -> None:
    """Add terms of every size beside terms that are zero: the exponent with which a zero counts."""
    k, addend, fmt = sheet.depth, sheet.addend, sheet.multiplicand
    # C beside products that are all zero.
    exponents = np.arange(1 - addend.bias, min(addend.bias, 40))
    for significand in (2.0 - 2.0**-addend.fraction_bits, 1.0 + 2.0**-addend.fraction_bits):
        c = np.ldexp(significand, exponents)
        sheet.products("zeros beside C", np.zeros((len(c), k)), c)
        sheet.products("zeros beside C", np.zeros((len(c), k)), -c)
    # One product, or two, beside zeros.
    exponents = np.arange(max(2 * (1 - fmt.bias), -175), min(2 * fmt.bias, 40))
    half, none = exponents // 2, np.zeros(len(exponents))
    one = 1.0 + 2.0**-fmt.fraction_bits
    for place, other in ((0, k - 1), (k - 1, 0)):
        a, b = (np.zeros((len(exponents), k)) for _ in "ab")
        a[:, place], b[:, place] = one * np.ldexp(1.0, half), one * np.ldexp(1.0, exponents - half)
        sheet.values("zeros beside products", a, b, none)
        a[:, other], b[:, other] = -a[:, place] / one, b[:, place] / one
        sheet.values("zeros beside products", a, b, none)


def _zeros_at_the_least(sheet: Sheet, rng: np.random.Generator) -> None:
    k, family = sheet.depth, "zeros among tiny products"
    if sheet.is_wide:
        # Powers of two that add up to the least number, or to half of it; and tiny numbers.
        for total, length in product((-149, -150, -148), range(2, k + 1)):
            steps = np.minimum(np.arange(1, length + 1), length - 1)
            row = np.zeros(k)
            row[:length] = 2.0 ** (total - steps.astype(np.float64))
            row = rng.permutation(row)
            for sign in SIGNS:
                sheet.products(family, sign * row, 0.0)
    elif sheet.d.name == "f16":
        # An odd or even multiple of half of D's least number, and a little more or less.
        for multiple, below, sign in product((1, 2, 3, 4, 5), range(26, 49), SIGNS):
            a = sheet.row({0: multiple * 2.0**-13, k - 1: sign * 2.0 ** -(below // 2)})
            b = sheet.row({0: 2.0**-12, k - 1: 2.0 ** -(below - below // 2)})
            sheet.values(family, a, b, 0.0)
            sheet.values(family, -a, b, 0.0)
    low, high, count = (-78, -70, 600) if sheet.is_wide else (-14, -8, 300)
    sigma = 2.0 ** rng.uniform(low, high, (count, 1))
    a, b = (rng.standard_normal((count, k)) * sigma for _ in "ab")
    sheet.values(family, a, b, np.zeros(count))


def _special(sheet: Sheet) -> None:
    k, infinity = sheet.depth, np.inf
    ones = np.ones(k)
    row_a, row_b = encode(ones, sheet.a), encode(ones, sheet.b)
    for place in (0, k - 1):
        for number, fmt in enumerate((sheet.a, sheet.b)):
            for nan in _nans(fmt):
                a, b = row_a.copy(), row_b.copy()
                (b if number else a)[place] = nan
                sheet.patterns("NaN", a, b, sheet.addends(1.0))
        for x, y, c in (
            (infinity, 1.0, 1.0), (-infinity, 1.0, 1.0), (1.0, infinity, 0.0),
            (infinity, 0.0, 1.0), (0.0, -infinity, 0.0), (infinity, infinity, -1.0),
            (infinity, 1.0, infinity), (infinity, 1.0, -infinity), (-infinity, 1.0, infinity),
            (1.0, 1.0, infinity), (1.0, 1.0, -infinity), (0.0, 0.0, infinity),
        ):  # fmt: skip
            sheet.values("infinities", sheet.row({place: x}, 1.0), sheet.row({place: y}, 1.0), c)
        sheet.values("infinities", sheet.row({0: infinity, k - 1: -infinity}, 1.0), ones, 1.0)
    for nan in _nans(sheet.addend):
        sheet.patterns("NaN", row_a, row_b, nan)


def _overflows(sheet: Sheet) -> None:
    k, d, fmt, addend = sheet.depth, sheet.d, sheet.multiplicand, sheet.addend
    largest = (2.0 - 2.0**-fmt.fraction_bits) * 2.0**fmt.bias
    largest_c = (2.0 - 2.0**-addend.fraction_bits) * 2.0**addend.bias
    reach = 2.0 ** (d.bias // 2)
    for c, sign, count in product((0.0, 1.0, largest_c), SIGNS, (1, 2, k)):
        for family, x, y, plus in (
            ("overflow of products", largest, largest, c),
            ("overflow of sums", reach, 2.0 ** (d.bias - d.bias // 2), c * sign),
            ("overflow of sums", largest, 1.0, c * sign),
        ):
            places = range(count)
            a, b = (sheet.row(dict.fromkeys(places, one)) for one in (sign * x, y))
            sheet.values(family, a, b, plus)
    # Just below and above where the largest number of D ends.
    top, ulp = 2.0**d.bias, 2.0 ** (d.bias - d.fraction_bits)
    for quarters, sign in product(range(-4, 9), SIGNS):
        little = sign * quarters * ulp / 4 / reach
        a = sheet.row({0: sign * top / reach, 1: sign * (top - ulp) / reach, 2: little})
        sheet.values("overflow of sums", a, sheet.row(dict.fromkeys(range(3), reach)), 0.0)
        a, b = sheet.row({2: little}), sheet.row({2: reach})
        sheet.values("overflow of sums", a, b, sign * min(2 * top - ulp, largest_c))
    if sheet.is_wide:
        # Finite only where the range of products is wider than that of f32.
        for place in range(1, k - 1):
            a = sheet.row({0: 2.0**127, place: -(2.0**127), k - 1: 2.0**126})
            sheet.values("overflow of products", a, np.full(k, 2.0), 0.0)


def _nans(fmt: Format) -> Array:
    if not fmt.has_infinity:
        return np.array([0x7F, 0xFF], fmt.raw)  # S.1111.111: all that e4m3 has
    shift = fmt.ignored_bits
    field = ((1 << fmt.exponent_bits) - 1) << (fmt.fraction_bits + shift)
    quiet, sign = 1 << (fmt.fraction_bits + shift - 1), 1 << (fmt.bits - 1)
    payload = 3 << shift
    found = (quiet, quiet | payload | sign, payload, payload | sign)
    return np.array([field | one for one in found], fmt.raw)


def _zero_signs(sheet: Sheet) -> None:
    k, ones = sheet.depth, np.ones(sheet.depth)
    for c, sign in product((0.0, -0.0), SIGNS):
        sheet.values("sign of zero", np.full(k, sign * 0.0), ones, c)
        sheet.values("sign of zero", sheet.row({0: sign, 1: -sign}), ones, c)
    for sign in SIGNS:
        sheet.values("sign of zero", sheet.row({k - 1: sign}), ones, -sign)


def _low_bits(sheet: Sheet, rng: np.random.Generator) -> None:
    count, ignored = 120, sheet.multiplicand.ignored_bits if sheet.multiplicand.bits > 8 else 0
    if not ignored:
        return
    shape = count, sheet.depth
    a, b = (
        (rng.uniform(1, 2, shape) * rng.choice([-1.0, 1.0], shape)).astype("f4").view(np.uint32)
        for _ in "ab"
    )
    kept = np.uint32(2**32 - (1 << ignored))
    a[:40] = (a[:40] & kept) | np.uint32(1 << (ignored - 1))
    b[20:60] &= kept
    sheet.patterns("low bits", a, b, np.zeros(count, np.uint32))


def double_probes(depth: int) -> Dots:
    """Return the probes of the f64 unit; `depth` is K of the form."""
    sheet, rng, count = (
        Sheet("f64.f64.f64.f64", depth),
        np.random.default_rng(_SEED_OF_DOUBLES),
        200,
    )
    shape, ones = (count, depth), np.ones(depth)
    for spread in (2, 30):
        scale = 2.0 ** rng.integers(-spread, spread, shape)
        a, b = (rng.standard_normal(shape) * scale for _ in "ab")
        sheet.values("order and fusion", a, b, rng.standard_normal(count))
        a[:, 1], b[:, 1] = -a[:, 0], b[:, 0]
        sheet.values("order and fusion", a, b, rng.standard_normal(count) * 2.0**-40)
    # Ties: integers that are odd multiples of half a last place beside 2^53.
    a = _coarse(rng, count, depth)
    c = rng.choice([-1.0, 1.0], count) * (2.0**53 + 2.0 * rng.integers(0, 64, count))
    sheet.values("ties", a, np.ones(shape), c)
    for sign in SIGNS:
        for name, a1, b1, c1 in (
            ("A", sign * 2.0**-1030, 2.0**1010, 2.0**-22),
            ("B", 2.0**1010, sign * 2.0**-1030, 2.0**-22),
            ("C", 0.0, 0.0, sign * 2.0**-1030),
            ("C", sign * 2.0**-512, 2.0**-510, sign * 2.0**-1030),
            ("D", -sign * 2.0**-515, 2.0**-510, sign * 2.0**-1022),
        ):
            sheet.values(f"subnormals in {name}", sheet.row({}, a1), sheet.row({}, b1), c1)
    # NaNs with payloads of their own in every choice of A, B and C, quiet and signalling.
    nan, one = 0x7FF0_0000_0000_0001, np.float64(1.0).view(np.uint64)
    for places in product((False, True), repeat=3):
        for quiet, bit in product((0, QUIET), (0, 1 << 63)):
            nans = [nan + 16 * number | quiet | bit for number in range(3)]
            first = np.where(places, np.array(nans, np.uint64), one)
            a, b = (np.append(each, np.full(depth - 1, one)) for each in first[:2])
            sheet.patterns("NaN", a, b, first[2])
    for place in range(depth):
        for x, y, c1 in (
            (np.inf, 0.0, 1.0), (0.0, np.inf, 1.0), (np.inf, 1.0, -np.inf), (-np.inf, 1.0, 1.0),
            (1.0, np.inf, np.inf), (1.0, 1.0, -np.inf), (2.0**600, 2.0**600, 1.0),
            (-(2.0**600), 2.0**600, 1.0),
        ):  # fmt: skip
            a, b = sheet.row({place: x}, 1.0), sheet.row({place: y}, 1.0)
            sheet.values("infinities and overflow", a, b, c1)
    for x, c1 in product((0.0, -0.0), repeat=2):
        sheet.values("sign of zero", np.full(depth, x), ones, c1)
    sheet.values("sign of zero", np.resize([1.0, -1.0], depth), ones, 0.0)
    return sheet.dots()
