"""The probes of a unit of f16, bf16 or tf32: families of dot products that isolate one property.

The ideas are FPRev's (a large number and its opposite at every pair of places, small ones
everywhere else: what is left over says what was added with what) and those of other generators of
revealing inputs; each family says what it shows. All probes are fixed: they do not depend on the
device, so that one launch takes them all.
"""

from __future__ import annotations

import numpy as np

from oracle.isa.forms import FORMATS, Format
from oracle.measuring.dots import Array, Dots, Floats, Sheet, encode, pairs

_SEED = 0x6D65_6173
"""Seed of the random parts of probes."""


def float_probes(types: str, depth: int) -> Dots:
    """Return the probes of a unit "f32.f16.f16.f32" of a form with K of `depth`."""
    d_type, a_type, b_type, c_type = types.split(".")
    sheet = Sheet(FORMATS[a_type], FORMATS[b_type], FORMATS[c_type], depth)
    rng = np.random.default_rng(_SEED)
    narrow = "f16" in (d_type, c_type)
    _order(sheet, narrow)
    _alignment(sheet, narrow)
    _normalisation(sheet, narrow)
    _subnormals(sheet, FORMATS[d_type])
    _subnormal_exponents(sheet)
    _rounding(sheet, FORMATS[d_type], rng)
    _zeros(sheet, FORMATS[d_type], rng)
    _special(sheet, FORMATS[d_type])
    _zero_signs(sheet)
    if sheet.multiplicand.ignored_bits:
        _low_bits(sheet, rng)
    _random(sheet, rng)
    return sheet.dots()


def _is_wide(fmt: Format) -> bool:
    """Return whether products of a format reach down to the least numbers of f32: bf16, tf32."""
    return fmt.exponent_bits == FORMATS["f32"].exponent_bits


def _scales(sheet: Sheet, narrow: bool) -> list[tuple[int, int, bool]]:
    """Return exponents of a large and a small term, and whether C can hold the large one.

    More than 2^30 apart, so that the small one is lost beside the large one whatever number of
    bits is kept; and as large as possible, so that a zero's exponent does not matter.
    """
    if _is_wide(sheet.multiplicand):
        return [(100, 60, True)]
    if not narrow:
        return [(30, -2, True)] if sheet.multiplicand.bits == 16 else [(16, -18, True)]
    wide = sheet.addend.name == "f32"
    if sheet.multiplicand.bits == 8:
        return [(15, -16, True), (15, -14, True)]
    return [(30, -2, wide), (15, -16, True), (15, -14, True)]


def _order(sheet: Sheet, narrow: bool) -> None:
    """Add large - large at every pair of places, small elsewhere: blocks, their order, and C."""
    k = sheet.depth
    for large, small, c_too in _scales(sheet, narrow):
        rows = []
        for i, j in pairs(k + 1 if c_too else k):
            row = np.full(k + 1, 2.0**small)
            row[i], row[j] = 2.0**large, -(2.0**large)
            rows.append(row)
            if j == k:
                rows.append(np.where(np.abs(row) > 2.0**small, -row, row))
        terms = np.array(rows)
        sheet.products("order", terms[:, :k], terms[:, k])


def _ladder_places(k: int) -> list[tuple[int, int]]:
    """Return pairs of places of which one lies in one block, whatever the blocks are."""
    return [*((0, n) for n in range(1, k // 2 + 1)), (k - 2, k - 1), (0, k), (k - 1, k)]


def _alignment(sheet: Sheet, narrow: bool) -> None:
    """Add large - large and a small term at every distance: how many bits are kept."""
    k = sheet.depth
    for large, _, c_too in _scales(sheet, narrow)[:2]:
        rows = []
        for i, j in _ladder_places(k):
            if j == k and not c_too:
                continue
            for distance in range(6, 33):
                for sign in (1.0, -1.0):
                    row = np.full(k + 1, sign * 2.0 ** (large - distance))
                    row[i], row[j] = 2.0**large, -(2.0**large)
                    rows.append(row)
        terms = np.array(rows)
        sheet.products("alignment", terms[:, :k], terms[:, k])


def _normalisation(sheet: Sheet, narrow: bool) -> None:
    """Add 2.25 - 2.25, made of 1.5 x 1.5, and a small term at every distance."""
    k = sheet.depth
    for large, _, _ in _scales(sheet, narrow)[:2]:
        large = min(large, 2 * (large // 2) - 2)
        for i, j in _ladder_places(k):
            if j == k:
                continue
            for distance in range(6, 33):
                half = large // 2
                a = np.full(k, 2.0 ** (half - distance // 2))
                b = np.full(k, 2.0 ** (half - distance + distance // 2))
                a[[i, j]] = 1.5 * 2.0**half, -1.5 * 2.0**half
                b[[i, j]] = 1.5 * 2.0**half
                c = 2.0 ** (2 * half - distance)
                sheet.values("normalisation", a, b, c)


def _subnormals(sheet: Sheet, d: Format) -> None:
    """Add subnormals in one matrix, and nothing small elsewhere."""
    k = sheet.depth
    for below in (1, 2, 5):
        for sign in (1.0, -1.0):
            for name, fmt, other in (("A", sheet.a, sheet.b), ("B", sheet.b, sheet.a)):
                tiny = np.full(k, sign * 2.0 ** (1 - fmt.bias - below))
                huge = np.full(k, 2.0**other.bias)
                a, b = (tiny, huge) if name == "A" else (huge, tiny)
                sheet.values(f"subnormals in {name}", a, b, 1.0)
    # Results: the least normal number less a little.
    least = 1 - d.bias
    if sheet.addend.bias <= d.bias or d.name == "f16":
        for below in range(1, 6):
            for sign in (1.0, -1.0):
                product = np.full(k, -sign * 2.0 ** (least - below - 4))
                sheet.products("subnormals in D", product, sign * 2.0**least)
    # C alone, so that nothing hides it; and with a sum that is no subnormal.
    least = 1 - sheet.addend.bias
    if _is_wide(sheet.multiplicand) or sheet.addend.name == "f16":
        for below in (1, 2, 3):
            for sign in (1.0, -1.0):
                product = np.full(k, sign * 2.0 ** (least + 1 - np.log2(k)))
                value = sign * 2.0 ** (least - below)
                sheet.products("subnormals in C", product, value)
    fraction = sheet.addend.fraction_bits
    for below in range(1, fraction + 1, 3):
        for sign in (1.0, -1.0):
            value = sign * 2.0 ** (least - below)
            sheet.products("subnormals in C", np.zeros(k), value)


def _subnormal_exponents(sheet: Sheet) -> None:
    """Add two e4m3 subnormals that cancel, and small terms: the exponent with which they count."""
    k, formats = sheet.depth, {"a": sheet.a, "b": sheet.b}
    for name, fmt in formats.items():
        if fmt.has_infinity:
            continue
        tiny = 2.0 ** (1 - fmt.bias - fmt.fraction_bits)
        for i, j in _ladder_places(k):
            if j == k:
                continue
            for distance in range(3, 34):
                x, y = np.full(k, 2.0**-6), np.full(k, 2.0 ** max(-9, 6 - distance))
                x[[i, j]], y[[i, j]] = (tiny, -tiny), 2.0**8
                c = tiny * 2.0 ** (8 - distance)
                a, b = (x, y) if name == "a" else (y, x)
                sheet.values("exponents of subnormals", a, b, c)


def _coarse(rng: np.random.Generator, count: int, k: int, most: int) -> Floats:
    """Return integers from 1 to `most` with signs."""
    values: Floats = rng.integers(1, most + 1, (count, k)) * rng.choice([-1.0, 1.0], (count, k))
    return values


def _rounding(sheet: Sheet, d: Format, rng: np.random.Generator) -> None:
    """Add sums that do not fit, ties among them: in the accumulator's format, and in D's."""
    k, count = sheet.depth, 120
    for fraction in (10, 23) if "f16" in (d.name, sheet.addend.name) else (23,):
        ulp = 2.0**-fraction
        # A little beside C, in eighths of its last place.
        c = rng.choice([-1.0, 1.0], count) * (1.0 + ulp * rng.integers(0, 512, count))
        eighths = _coarse(rng, count, k, 7) * ulp / 8
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
        a, b = (2.0**one * rng.choice([-1.75, -1.0, 1.0, 1.25, 1.5], one.shape)
                for one in exponents)  # fmt: skip
        sheet.values("rounding", a, b, np.zeros(4 * count))
        c = rng.standard_normal(4 * count) * 2.0 ** rng.integers(-20, 10, 4 * count)
        sheet.values("rounding", a, b, c)
    if _is_wide(sheet.multiplicand):
        # Results below the least normal number of f32, in quarters of the least of all.
        quarters = _coarse(rng, count, k, 7)
        c = rng.integers(-64, 65, count).astype(np.float64) * 2.0**-149
        sheet.values(
            "rounding of subnormals", quarters * 2.0**-76, np.full((count, k), 2.0**-75), c
        )


def _zeros(sheet: Sheet, d: Format, rng: np.random.Generator) -> None:
    """Add terms of every size beside terms that are zero: the exponent with which a zero counts."""
    k, addend, fmt = sheet.depth, sheet.addend, sheet.multiplicand
    # C beside products that are all zero.
    exponents = np.arange(1 - addend.bias, min(addend.bias, 40))
    for significand in (2.0 - 2.0**-addend.fraction_bits, 1.0 + 2.0**-addend.fraction_bits):
        c = np.ldexp(significand, exponents)
        sheet.products("zeros beside C", np.zeros((len(c), k)), c)
        sheet.products("zeros beside C", np.zeros((len(c), k)), -c)
    # One product, or two, beside zeros.
    least, most = 2 * (1 - fmt.bias), min(2 * fmt.bias, 40)
    least = max(least, -175)
    exponents = np.arange(least, most)
    half = exponents // 2
    one = 1.0 + 2.0**-fmt.fraction_bits
    for place, other in ((0, k - 1), (k - 1, 0)):
        a, b = (np.zeros((len(exponents), k)) for _ in "ab")
        a[:, place], b[:, place] = one * np.ldexp(1.0, half), one * np.ldexp(1.0, exponents - half)
        sheet.values("zeros beside products", a, b, np.zeros(len(exponents)))
        a[:, other], b[:, other] = -a[:, place] / one, b[:, place] / one
        sheet.values("zeros beside products", a, b, np.zeros(len(exponents)))
    _zeros_at_the_least(sheet, d, rng)


def _zeros_at_the_least(sheet: Sheet, d: Format, rng: np.random.Generator) -> None:
    """Add sums near the least numbers of D, where what is cut far below decides a rounding."""
    k, fmt = sheet.depth, sheet.multiplicand
    if _is_wide(fmt):
        # Powers of two that add up to the least number, or to half of it; and tiny numbers.
        for total in (-149, -150, -148):
            for length in range(2, k + 1):
                steps = np.minimum(np.arange(1, length + 1), length - 1)
                row = np.zeros(k)
                row[:length] = 2.0 ** (total - steps.astype(np.float64))
                row = rng.permutation(row)
                for sign in (1.0, -1.0):
                    sheet.products("zeros among tiny products", sign * row, 0.0)
        sigma = 2.0 ** rng.uniform(-78, -70, (600, 1))
        a, b = (rng.standard_normal((600, k)) * sigma for _ in "ab")
        sheet.values("zeros among tiny products", a, b, np.zeros(600))
        return
    # An odd or even multiple of half of D's least number, and a little more or less.
    if d.name == "f16":
        for multiple in (1, 2, 3, 4, 5):
            for below in range(26, 49):
                for sign in (1.0, -1.0):
                    a, b = np.zeros((2, k))
                    a[0], b[0] = multiple * 2.0**-13, 2.0**-12
                    a[k - 1], b[k - 1] = (sign * 2.0 ** -(below // 2), 2.0 ** -(below - below // 2))
                    sheet.values("zeros among tiny products", a, b, 0.0)
                    sheet.values("zeros among tiny products", -a, b, 0.0)
    sigma = 2.0 ** rng.uniform(-14, -8, (300, 1))
    a, b = (rng.standard_normal((300, k)) * sigma for _ in "ab")
    sheet.values("zeros among tiny products", a, b, np.zeros(300))


def _special(sheet: Sheet, d: Format) -> None:
    """Add NaN, infinities, and what is too large."""
    k, fmt, addend = sheet.depth, sheet.multiplicand, sheet.addend
    infinity = np.inf
    fillers = np.full(k, 1.0)
    formats = {"a": sheet.a, "b": sheet.b}
    for place in (0, k - 1):
        for name in "ab":
            for pattern in _nans(formats[name]):
                rows = {one: encode_row(fillers, formats[one]) for one in "ab"}
                rows[name][0, place] = pattern
                sheet.patterns("NaN", rows["a"], rows["b"], encode_one(1.0, addend))
        for x, y, c in (
            (infinity, 1.0, 1.0), (-infinity, 1.0, 1.0), (1.0, infinity, 0.0),
            (infinity, 0.0, 1.0), (0.0, -infinity, 0.0), (infinity, infinity, -1.0),
            (infinity, 1.0, infinity), (infinity, 1.0, -infinity), (-infinity, 1.0, infinity),
            (1.0, 1.0, infinity), (1.0, 1.0, -infinity), (0.0, 0.0, infinity),
        ):  # fmt: skip
            a, b = fillers.copy(), fillers.copy()
            a[place], b[place] = x, y
            sheet.values("infinities", a, b, c)
        a, b = fillers.copy(), fillers.copy()
        a[0], a[k - 1] = infinity, -infinity
        sheet.values("infinities", a, b, 1.0)
    for pattern in _nans(addend):
        sheet.patterns(
            "NaN", encode_row(fillers, sheet.a), encode_row(fillers, sheet.b), pattern[None]
        )
    largest = (2.0 - 2.0**-fmt.fraction_bits) * 2.0**fmt.bias
    for c in (0.0, 1.0, (2.0 - 2.0**-addend.fraction_bits) * 2.0**addend.bias):
        for sign in (1.0, -1.0):
            for count in (1, 2, k):
                a, b = np.zeros(k), np.zeros(k)
                a[:count], b[:count] = sign * largest, largest
                sheet.values("overflow of products", a, b, c)
                half = 2.0 ** (d.bias - d.bias // 2)
                a[:count], b[:count] = sign * 2.0 ** (d.bias // 2), half
                sheet.values("overflow of sums", a, b, c * sign)
                a[:count], b[:count] = sign * largest, 1.0
                sheet.values("overflow of sums", a, b, c * sign)
    # Just below and above where the largest number of D ends.
    top = 2.0**d.bias
    ulp = 2.0 ** (d.bias - d.fraction_bits)
    reach = 2.0 ** (d.bias // 2)
    for quarters in range(-4, 9):
        for sign in (1.0, -1.0):
            a, b = np.zeros(k), np.zeros(k)
            a[:2], b[:2] = (sign * top / reach, sign * (top - ulp) / reach), reach
            a[2], b[2] = sign * quarters * ulp / 4 / reach, reach
            sheet.values("overflow of sums", a, b, 0.0)
            c = sign * min(2 * top - ulp, (2.0 - 2.0**-addend.fraction_bits) * 2.0**addend.bias)
            a[:2], b[:2] = 0.0, 0.0
            sheet.values("overflow of sums", a, b, c)
    if _is_wide(fmt):
        # Finite only where the range of products is wider than that of f32.
        for place in range(1, k - 1):
            a, b = np.zeros(k), np.full(k, 2.0)
            a[0], a[place], a[k - 1] = 2.0**127, -(2.0**127), 2.0**126
            sheet.values("overflow of products", a, b, 0.0)


def _nans(fmt: Format) -> Array:
    """Return signalling and quiet NaNs of both signs, with payloads."""
    if not fmt.has_infinity:
        return np.array([0x7F, 0xFF], fmt.raw)  # S.1111.111: all that e4m3 has
    shift = fmt.ignored_bits
    field = ((1 << fmt.exponent_bits) - 1) << (fmt.fraction_bits + shift)
    quiet = 1 << (fmt.fraction_bits + shift - 1)
    sign = 1 << (fmt.bits - 1)
    payload = 3 << shift
    return np.array(
        [field | quiet, field | quiet | payload | sign, field | payload, field | payload | sign],
        fmt.raw,
    )


def encode_row(values: Floats, fmt: Format) -> Array:
    """Return one row of patterns."""
    return np.array(encode(values[None], fmt))


def encode_one(value: float, fmt: Format) -> Array:
    """Return one pattern, as an array."""
    return encode(np.array([value]), fmt)


def _zero_signs(sheet: Sheet) -> None:
    """Add sums that are zero, from zeros of both signs and from what cancels."""
    k = sheet.depth
    for c in (0.0, -0.0):
        for sign in (1.0, -1.0):
            a, b = np.full(k, sign * 0.0), np.ones(k)
            sheet.values("sign of zero", a, b, c)
            a = np.zeros(k)
            a[0], a[1] = sign, -sign
            sheet.values("sign of zero", a, b, c)
    for sign in (1.0, -1.0):
        row = np.zeros(k)
        row[k - 1] = sign
        sheet.values("sign of zero", row, np.ones(k), -sign)


def _low_bits(sheet: Sheet, rng: np.random.Generator) -> None:
    """Add multiplicands with bits where the format has none."""
    count, k = 120, sheet.depth
    ignored = sheet.multiplicand.ignored_bits
    a, b = (
        (rng.uniform(1, 2, (count, k)) * rng.choice([-1.0, 1.0], (count, k)))
        .astype(np.float32)
        .view(np.uint32)
        for _ in "ab"
    )
    kept = np.uint32(2**32 - (1 << ignored))
    half = np.uint32(1 << (ignored - 1))
    a[:40] = (a[:40] & kept) | half
    b[20:60] &= kept
    zeros = np.zeros(count, np.uint32)
    sheet.patterns("low bits", a, b, zeros)


def _random(sheet: Sheet, rng: np.random.Generator) -> None:
    """Add numbers of all kinds: what no other family thought of."""
    count, k = 150, sheet.depth
    scale = 2.0 ** rng.integers(-6, 5, (count, k))
    a, b = (rng.standard_normal((count, k)) * scale for _ in "ab")
    sheet.values("random numbers", a, b, rng.standard_normal(count))
    fmt, addend = sheet.multiplicand, sheet.addend
    bits = [
        rng.integers(0, 1 << one.bits, shape, dtype=np.uint64).astype(one.raw)
        for one, shape in ((fmt, (count, k)), (fmt, (count, k)), (addend, (count,)))
    ]
    sheet.patterns("random bits", bits[0], bits[1], bits[2])
    a, b = (rng.standard_normal((count, k)) for _ in "ab")
    a[:, k // 2 :], b[:, k // 2 :] = -a[:, : k // 2], b[:, : k // 2]
    a[:, 0] *= 2.0**-9
    sheet.values("random numbers", a, b, rng.standard_normal(count) * 2.0**-12)
