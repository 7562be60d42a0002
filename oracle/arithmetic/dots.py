"""Dot products as the units of a model compute them: `docs/oracle.md`, "Truncated sums"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic import conversions
from oracle.arithmetic.conversions import CANONICAL_NAN, Scratch, flushed, narrow, own_scratch
from oracle.arithmetic.untruncated import untruncated_sums
from oracle.isa.forms import FORMATS, Format, format_named
from oracle.models import ScalarDot, TruncatedDot

Array = NDArray[Any]
"""An array whose dtype depends on the format: float32 or float64, int8 or int16, ..."""
Index = NDArray[np.intp]

_INFINITE = 2.0**128
"""Where products of limited range end: beyond the largest f32."""
_CHUNK_ELEMENTS = 1 << 16
"""Outputs worked on together; 2^15 and 2^17 took a tenth longer (L2 of 2 MiB, 2026-11-29)."""
_LONG = 256
"""Tiles from which on NumPy's small buffer is quicker (of 128 to 512, 2026-11-27)."""


class _Working(NamedTuple):
    """Types in which the products of one multiplicand format are exact, and powers of two."""

    values: type[np.floating[Any]]
    integers: type[np.signedinteger[Any]]
    """Integers of the same size."""
    bias: int
    fraction_bits: int
    exponents: type[np.signedinteger[Any]]
    absent: int
    """Exponent of zero: with it no product is a block's largest, and twice it fits `exponents`."""
    smallest: int
    """Smallest exponent of a product without a zero."""


# f16: 22-bit products from 2^-48 to 2^32 fit float32; exponents of products are -28 to 30 (32 for
# infinities), so that -64 + 16 < -28, and -128 fits int8.
# bf16 and tf32: products from 2^-272 to 2^256 need float64; exponents -252 to 256 need int16.
_HALF = _Working(np.float32, np.int32, 127, 23, np.int8, -64, -28)
_WIDE = _Working(np.float64, np.int64, 1023, 52, np.int16, -1024, -252)
_WORKING = {"f16": _HALF, "bf16": _WIDE, "tf32": _WIDE}


_FEW = 8
"""With more than one in so many that a table has to give, it is as fast for all (2026-11-29)."""


class _Operand(NamedTuple):
    """A or B, decoded: k first, tiles last."""

    values: Array
    """(k, lines, tiles); infinities and NaNs are themselves."""
    exponents: Array
    """(k, lines, tiles)."""
    working: _Working
    special: NDArray[np.bool_]
    """(tiles,): whether any element is infinite or NaN."""


def _part(operand: _Operand, index: Any) -> _Operand:
    """Return the elements at an index of (k, lines, tiles)."""
    return operand._replace(values=operand.values[index], exponents=operand.exponents[index])


def _decoded(
    name: str, tiles: Array, axes: tuple[int, int, int], rule: TruncatedDot, scratch: Scratch
) -> _Operand:
    """Decode patterns (tiles, rows, columns) of "a" or "b", prepared, elements of 8 bits packed."""
    number, fmt = "ab".index(name), format_named(rule.multiplicand)
    working, least = _WORKING[fmt.name], rule.least_exponents[number]
    bits = tiles.transpose(axes)
    if not bits.flags.c_contiguous:
        bits = scratch.tiles_last(name, tiles, axes)
    values = scratch.array(f"{name} values", bits.shape, working.values)
    exponents = scratch.array(f"{name} exponents", bits.shape, working.exponents)
    if fmt.name == "f16":
        packed = rule.types.split(".")[1 + number] if bits.itemsize == 1 else "f16"
        _write_halves(bits, packed, values, exponents)
    else:
        np.copyto(values, element_values(bits, fmt))
        _write_exponents(bits, fmt, exponents)
    if least is not None:
        np.maximum(exponents, least, out=exponents, where=exponents != working.absent)
    special = np.zeros(bits.shape[2], np.bool_)
    if exponents.max(initial=0) > fmt.bias:
        np.greater(exponents.max(axis=(0, 1)), fmt.bias, out=special)
    return _Operand(values, exponents, working, special)


def _write_halves(bits: Array, packed: str, values: Array, exponents: Array) -> None:
    """Write f16 as float32: normal ones by their fields, thrice as fast as a table (2026-11-29)."""
    tables, others = _decoded_halves(packed), None
    if packed == "f16":
        np.right_shift(bits, 10, out=exponents, casting="unsafe")
        exponents &= 31
        exponents -= 1
        others = np.flatnonzero(exponents.view(np.uint8) >= 30)  # zero, subnormal, special
    if others is None or _FEW * len(others) > bits.size:
        for table, out in zip(tables, (values, exponents), strict=True):
            table.take(bits, out=out, mode="clip")
        return
    words = values.view(np.int32)
    np.copyto(words, bits.view(np.int16))
    words <<= 13  # f16 has 10 bits of a fraction, f32 23
    words &= -(1 << 31) | (1 << 28) - 1  # the sign came along three times too often
    words.put(others, 0)
    values *= np.float32(2.0 ** (127 - 15))  # the difference of the biases
    exponents -= 14
    for table, out in zip(tables, (values, exponents), strict=True):
        out.put(others, table.take(bits.take(others)))


@cache
def _decoded_halves(packed: str) -> tuple[Array, Array]:
    """Return number and exponent of every f16, or of the f16 of every element of 8 bits.

    NumPy's own conversion is slow beside normal numbers.
    """
    fmt, given = FORMATS["f16"], FORMATS[packed]
    bits = conversions.unpacked(np.arange(1 << given.bits, dtype=given.raw), packed)
    exponents = np.empty(bits.shape, np.int8)
    _write_exponents(bits, fmt, exponents)
    return element_values(bits, fmt), exponents


def _write_exponents(bits: Array, fmt: Format, out: Array) -> None:
    """Write exponents, subnormals' as the least normal number's, and `absent` for zeros."""
    np.right_shift(bits, fmt.fraction_bits + fmt.ignored_bits, out=out, casting="unsafe")
    out &= (1 << fmt.exponent_bits) - 1
    np.maximum(out, 1, out=out)
    out -= fmt.bias
    magnitude = bits & bits.dtype.type(fmt.magnitude - (1 << fmt.ignored_bits) + 1)
    np.copyto(out, _WORKING[fmt.name].absent, where=magnitude == 0)


def element_values(bits: Array, fmt: Format) -> Array:
    """Return elements as float32, which holds every format here; bits of f32 as a view."""
    if fmt.name == "f16":
        return bits.view(np.float16).astype(np.float32)
    words: Array = bits.astype(np.uint32, copy=False)
    if bits.itemsize == 2:  # bf16
        words = words << 16
    elif fmt.ignored_bits:
        words = words & np.uint32(2**32 - (1 << fmt.ignored_bits))
    return words.view(np.float32)


def _met(b: _Operand, rows: Index, scratch: Scratch) -> _Operand:
    """Return the elements of B that each row of A meets, (K / 2, n, m * tiles)."""
    depth, m, tiles = rows.shape
    places, made = (rows * tiles + np.arange(tiles)).reshape(depth, -1), []
    for one in b[:2]:
        lines = one.transpose(1, 0, 2).reshape(one.shape[1], -1)
        out = scratch.array(f"met {one.dtype}", (len(lines), *places.shape), one.dtype)
        lines.take(places, axis=1, out=out, mode="clip")
        made.append(out.transpose(1, 0, 2))
    return b._replace(values=made[0], exponents=made[1], special=np.tile(b.special, m))


def _met_by(b: _Operand, rows: Index, scratch: Scratch) -> _Operand:
    """Return the elements of B, (K, 1, n), that some rows of A meet, (K / 2, rows, n)."""
    made = []
    for one in b[:2]:
        out = scratch.array(f"met {one.dtype}", (*rows.shape, one.shape[2]), one.dtype)
        made.append(one[:, 0].take(rows, axis=0, out=out, mode="clip"))
    return b._replace(values=made[0], exponents=made[1])


def _chain(
    a: Array, b: Array, c: Array, rule: TruncatedDot, scratch: Scratch,
    members: tuple[tuple[int, ...], ...], *, keeps_c: bool, rows: Index | None = None,
) -> Array:  # fmt: skip
    """Return a @ b + c, the blocks with these ks one after the other, as `dot_product`."""
    ks = tuple(chain.from_iterable(members))
    if ks != tuple(range(a.shape[2])):
        a = a.T.take(ks, axis=0).T
        if rows is None:
            b = b.transpose(1, 2, 0).take(ks, axis=0).transpose(2, 0, 1)
        else:
            rows = rows.take(ks, axis=0)
    blocks = [slice(*ends) for ends in pairwise(accumulate(map(len, members), initial=0))]
    with np.errstate(all="ignore"):  # special values are garbage until the end of a block
        left = _decoded("a", a, (2, 1, 0), rule, scratch)
        right = _decoded("b", b, (1, 2, 0), rule, scratch)
        total = c.transpose(1, 2, 0)
        if keeps_c or not total.flags.c_contiguous:
            total = scratch.tiles_last("c", c, (1, 2, 0))
        m, n, tiles = total.shape
        is_one = len(a) == 1 and n == 1  # the tiles are the columns of B
        if is_one and len(blocks) == 1 and rule.is_usual:
            exact = _untruncated(left, right, total, rule, rows)
            if exact is not None:
                _round(exact, np.ones((), np.float32), total, rule)
                _cut(total, rule)
                return total
        size = max(1, min(m, _CHUNK_ELEMENTS // (n * tiles)))
        if rows is not None and not is_one:
            right = _met(right, rows, scratch)
        add = _add_block if rule.is_usual else _add_unusual_block
        for row in range(0, m, size):
            part = slice(row, row + size)
            for some in blocks:
                lines, columns, sums = _part(left, (some, part, None)), right, total[part]
                if rows is None or not is_one:
                    columns = _part(right, some)
                else:
                    # Each row has columns of B of its own: it stands where n does.
                    lines = _part(left, (some, None, part))
                    columns = _met_by(right, rows[some, part], scratch)
                    sums = sums.transpose(1, 0, 2)
                add(lines, columns, sums, rule, scratch)
    return total


def _add_block(a: _Operand, b: _Operand, c: Array, rule: TruncatedDot, scratch: Scratch) -> None:
    """Add a block, (block, rows, 1, tiles) x (block, n, tiles) to patterns `c` (rows, n, tiles)."""
    fmt, working = rule.accumulator_format, a.working
    largest = scratch.array("largest", c.shape, np.int16)
    np.right_shift(c, fmt.fraction_bits, out=largest, casting="unsafe")
    largest &= (1 << fmt.exponent_bits) - 1
    tiles = np.flatnonzero((largest.max(axis=(0, 1)) > 2 * fmt.bias) | a.special | b.special)
    # Gathering most of them costs more than taking all.
    special = slice(None) if 3 * len(tiles) > c.shape[-1] else tiles
    plain = None
    if len(tiles):
        plain = scratch.array("plain", c[..., special].shape, working.values)
        # As IEEE 754 adds.
        left = a.values if a.values.shape[-1] == 1 else a.values[..., special]
        np.einsum("krnt,knt->rnt", left, b.values[..., special], out=plain)
        plain += element_values(c[..., special], fmt)
    largest -= fmt.bias
    products = _largest_exponents(a.exponents, b.exponents, scratch)
    # Where every product has a zero, even the smallest normal accumulator is larger.
    if products.min(initial=working.smallest) < working.smallest:
        none = scratch.array("none", products.shape, np.bool_)
        np.less(products, working.smallest, out=none)
        np.copyto(products, np.iinfo(products.dtype).min, where=none)
    np.maximum(largest, products, out=largest)
    # An accumulator that is zero or subnormal has so far counted as 2^-bias, which only shows
    # where nothing larger is there; and only there can `zero_exponent` be the largest.
    least = int(largest.min())
    if least <= 1 - fmt.bias:
        _settle_small(largest, a, b, c, products, rule)
        least = int(largest.min())
    largest -= rule.fraction_bits.value
    least -= rule.fraction_bits.value
    normal = 1 - working.bias  # least exponent of a normal number
    low = None
    if least < normal:
        # No product but zeros, and an accumulator that is zero or that small; none of f16 is.
        low = np.flatnonzero((largest < normal) & (c << 1 != 0))
        # They are cut to multiples of powers that may be very small; zero is positive.
        power = np.ldexp(1.0, largest.take(low))
        alone = np.trunc(c.take(low).view(np.float32) / power) * power + 0.0
        alone = alone.astype(np.float32).view(np.uint32)
        np.maximum(largest, normal, out=largest)
        least = normal

    # Powers of two and their reciprocals, all of them normal.
    pattern = scratch.copy("power", largest, working.integers)
    pattern += working.bias
    pattern <<= working.fraction_bits
    grid = pattern.view(working.values)
    pattern = scratch.array("reciprocal", grid.shape, working.integers)
    np.subtract(2 * working.bias << working.fraction_bits, grid.view(working.integers), out=pattern)
    scale = pattern.view(working.values)
    total = _truncated_sum(a.values, b.values, scale, rule.fraction_bits.value, scratch)
    scale *= element_values(c, fmt)
    np.trunc(scale, out=scale)
    exact = scratch.copy("exact", total, np.float64)
    exact += scale

    _round(exact, grid, c, rule, subnormal=least < -126)
    if low is not None:
        c.put(low, alone)
    _cut(c, rule)
    if plain is not None:
        patterns = c[..., special]
        _overwrite_special(patterns, plain, fmt)
        c[..., special] = patterns


def _untruncated(
    a: _Operand, b: _Operand, c: Array, rule: TruncatedDot, rows: Index | None
) -> NDArray[np.float64] | None:
    """Return what `untruncated_sums` does, of one tile: `a` is (k, m, 1), `b` (k, 1, n)."""
    if a.special.any() or b.special.any():
        return None
    fmt, smallest = rule.accumulator_format, a.working.smallest // 2
    ends = tuple(max(int(one.exponents.max()), smallest) for one in (a, b))
    factors = a.values[:, :, 0], b.values[:, 0]
    exact = untruncated_sums(
        factors, ends, element_values(c, fmt)[:, 0], rows, bits=rule.fraction_bits.value,
        least=max(rule.zero_exponent.value, 1 - fmt.bias),
    )  # fmt: skip
    return None if exact is None else exact[:, None]


def _largest_exponents(a: Array, b: Array, scratch: Scratch) -> Array:
    shape = (a.shape[1], *b.shape[1:])
    largest = scratch.array("largest product", shape, a.dtype)
    term = scratch.array("exponent", shape, a.dtype)
    np.add(a[0], b[0], out=largest)
    for left, right in zip(a[1:], b[1:], strict=True):
        np.add(left, right, out=term)
        np.maximum(largest, term, out=largest)
    return largest


def _settle_small(
    largest: Array, a: _Operand, b: _Operand, c: Array, products: Array, rule: TruncatedDot
) -> None:
    fmt = rule.accumulator_format
    small = largest <= 1 - fmt.bias
    of_a, of_b = (np.any(x.exponents == x.working.absent, axis=0) for x in (a, b))
    zero = np.broadcast_to(of_a | of_b, small.shape)[small]
    magnitude = c[small] & ((1 << (fmt.bits - 1)) - 1)
    field = (magnitude >> fmt.fraction_bits).astype(np.int16)
    zero_exponent = np.int16(rule.zero_exponent.value)
    own = np.where(magnitude == 0, zero_exponent, np.maximum(field, 1) - np.int16(fmt.bias))
    settled = np.maximum(own, products[small])
    largest[small] = np.where(zero, np.maximum(settled, zero_exponent), settled)


def _truncated_sum(a: Array, b: Array, scale: Array, fraction_bits: int, scratch: Scratch) -> Array:
    """Return the sum of the block's products times `scale`, each truncated to an integer."""
    # A product is below 4 * 2^E, so `block` truncated ones sum to less than
    # block * 2^(F + 2) in magnitude: 16 * 2^27 = 2^31 on sm_90, which int32 just holds, because
    # the accumulator is added later, in float64 (where sums below 2^53 are exact).
    integers = np.int32 if len(a) << (fraction_bits + 2) <= 1 << 31 else np.int64
    total = scratch.array("total", scale.shape, integers)
    term = scratch.array("term", scale.shape, integers)
    product = scratch.array("product", scale.shape, scale.dtype)
    with conversions.small_buffer() if scale.shape[-1] >= _LONG else nullcontext():
        for k, (left, right) in enumerate(zip(a, b, strict=True)):
            np.multiply(left, right, out=product)
            product *= scale
            if k == 0:
                np.copyto(total, product, casting="unsafe")
            else:
                np.copyto(term, product, casting="unsafe")
                total += term
    return total


def _round(
    exact: NDArray[np.float64], grid: Array, out: Array, rule: TruncatedDot, *,
    subnormal: bool = False,
) -> None:  # fmt: skip
    """Round exact * grid to patterns of the accumulator; `subnormal`: below 2^-126 is possible."""
    if rule.accumulator_format.name == "f32":
        _round_toward_zero(exact, grid, out, subnormal=subnormal)
    else:
        _round_to_nearest_half(exact, grid, out)


def _cut(sums: Array, rule: TruncatedDot) -> None:
    """Clear the bits of sums that units of 8-bit elements do not have."""
    if rule.sum_bits is not None:
        left_out = rule.accumulator_format.fraction_bits - rule.sum_bits.value
        sums &= np.uint32(-1 << left_out & 0xFFFF_FFFF)
        np.copyto(sums, 0, where=sums == np.uint32(1 << 31))


def _round_toward_zero(
    exact: NDArray[np.float64], grid: Array, out: NDArray[np.uint32], *, subnormal: bool
) -> None:
    """Round exact * grid to f32 patterns toward zero; `subnormal`: below 2^-126 is possible."""
    # Clearing 29 of float64's 53 significant bits leaves f32's 24.
    pattern = exact.view(np.uint64)
    pattern &= np.uint64(2**64 - 2**29)
    values = out.view(np.float32)
    if not subnormal:
        # 24 bits times a power of two: exact, in float32 too, or too large.
        np.copyto(values, exact, casting="unsafe")
        np.multiply(values, grid, out=values, casting="unsafe")
        return
    exact *= grid
    fixed = np.trunc(exact * 2.0**149) * 2.0**-149
    values[...] = np.where(np.abs(exact) < 2.0**-126, fixed, exact) + 0.0


def _round_to_nearest_half(
    exact: NDArray[np.float64], grid: Array, out: NDArray[np.uint16]
) -> None:
    """Round exact * grid to f16 patterns, to nearest even; any zero is +0. `exact` is lost."""
    # Rounded to odd, f32 keeps what decides the rounding to f16's 11 bits: no double rounding.
    pattern = exact.view(np.uint64)
    low = np.uint64(2**29 - 1)
    pattern |= (pattern & low) + low
    pattern &= ~low
    single = np.multiply(exact, grid, dtype=np.float32, casting="unsafe")
    halves = narrow(single.view(np.uint32))
    np.multiply(halves, halves != 0x8000, out=out)


def _overwrite_special(result: Array, plain: Array, fmt: Format) -> None:
    """Put infinities and NaNs of the plain IEEE sum, special where a term is, into the result."""
    at = np.flatnonzero(~np.isfinite(plain))
    sums = plain.take(at)
    if fmt.name == "f32":
        patterns: Array = sums.astype(np.float32, copy=False).view(np.uint32)
    else:
        patterns = np.where(sums < 0.0, np.uint16(0xFC00), np.uint16(0x7C00))
    patterns[np.isnan(sums)] = CANONICAL_NAN[fmt.name]
    result.put(at, patterns)


def _unusual_exponents(
    a: _Operand, b: _Operand, c: Array, rule: TruncatedDot
) -> tuple[Array, list[Array]]:
    """Return the exponent that terms are aligned to, and the products and C, doubles."""
    fmt, zero = rule.accumulator_format, rule.zero_exponent.value
    field = (c & c.dtype.type(fmt.magnitude)) >> fmt.fraction_bits
    addend = element_values(c, fmt).astype(np.float64)
    largest = np.where(addend == 0.0, zero, np.maximum(field.astype(np.int32), 1) - fmt.bias)
    terms: list[Array] = []
    for x, y, e, f in zip(a.values, b.values, a.exponents, b.exponents, strict=True):
        product, exponents = (x * y).astype(np.float64), np.add(e, f, dtype=np.int32)
        if rule.product_exponent.value == "normalised":
            exponents += np.abs(product) >= np.ldexp(2.0, exponents)
        np.maximum(largest, np.where(product == 0.0, zero, exponents), out=largest)
        terms.append(product)
    return largest, [*terms, addend]


def _add_unusual_block(
    a: _Operand, b: _Operand, c: Array, rule: TruncatedDot, scratch: Scratch
) -> None:
    """Do what `_add_block` does, with figures that no GPU has had."""
    fmt = rule.accumulator_format
    largest, terms = _unusual_exponents(a, b, c, rule)
    scale = np.ldexp(1.0, rule.fraction_bits.value - largest)
    total = sum((np.trunc(term * scale) for term in terms), np.zeros_like(scale)) / scale
    finite = np.where(np.isfinite(total), total, 0.0)
    result = conversions.rounded(finite, rule.sum_format, rule.rounding.value, rule.overflow.value)
    result[result & result.dtype.type(fmt.magnitude) == 0] = (
        fmt.magnitude + 1 if rule.zero.value == "-" else 0
    )
    # The sum as IEEE 754 adds is special exactly where that of the block is.
    plain = terms[-1]
    for product in terms[:-1]:
        if rule.product_range.value == "f32":
            over = np.abs(product) >= _INFINITE
            product = np.where(over, np.copysign(np.inf, product), product)
        plain = plain + product
    result[plain == np.inf] = fmt.infinity
    result[plain == -np.inf] = fmt.infinity | (fmt.magnitude + 1)
    result[np.isnan(plain)] = CANONICAL_NAN[fmt.name]
    c[...] = result


def dot_product(
    a: Array, b: Array, c: Array, *, rule: TruncatedDot, scratch: Scratch, keeps_c: bool = True,
    rows: Index | None = None,
) -> Array:  # fmt: skip
    """Return a @ b + c, raw patterns (m, n, tiles): working memory, good until the next call.

    `a`, `b`, `c`: (tiles, m, k), (tiles, k, n), (tiles, m, n); A of one tile is that of all.
    `keeps_c`: Whether `c` is needed later; if not, it may become the result.
    `rows`: The rows of B that those of a sparse A meet, (k, m, tiles). Then `a` and `c` are
    (m * tiles, 1, k) and (m * tiles, 1, n). With an A of one tile, and columns of B as tiles,
    (k, m).
    """
    accumulator = rule.accumulator_format
    a, b, c = _operands(a, b, c, rule)
    last = rule.addend.value == "last"
    start = np.zeros_like(c) if last else c
    members = rule.blocks(a.shape[2])
    chains = [members] if rule.sums is None else [(block,) for block in members]
    d = _chain(a, b, start, rule, scratch, chains[0], keeps_c=keeps_c, rows=rows)
    for blocks in chains[1:]:
        so_far = d.copy()  # working memory that the next block takes
        d = _chain(a, b, np.zeros_like(c), rule, scratch, blocks, keeps_c=False, rows=rows)
        assert rule.addition is not None
        d = conversions.ieee_sum(so_far, d, accumulator, rule.addition.value)
    if rule.addition is not None and last:
        d = conversions.ieee_sum(d, c.transpose(1, 2, 0), accumulator, rule.addition.value)
    result = format_named(rule.d_type)
    if rule.narrowing is not None:
        d = conversions.narrowed(d, rule.narrowing.value, rule.overflow.value)
    if rule.d_subnormals.value == "flushed":
        d = flushed(d, result)
    if rule.nan.value != CANONICAL_NAN[result.name]:
        d = np.where(
            conversions.is_nan(d, result), conversions.result_type(result)(rule.nan.value), d
        )
    return d


def block_sums(
    a: Array, b: Array, c: Array, *, rule: TruncatedDot
) -> Iterator[tuple[tuple[int, ...], int, int, float, list[float]]]:
    """Yield what `dot_product` adds at once to an element of D.

    That is ks, patterns of the sum before and after, the unit that terms are truncated to, and the
    exact terms, C last. `a`, `b`, `c`: A row of A and a column of B, (k,), and the element of C.
    """
    a, b, c = _operands(a[None, None, :], b[None, :, None], c[None, None, None], rule)
    total = np.zeros_like(c) if rule.addend.value == "last" else c
    for block in rule.blocks(a.shape[2]):
        d = _chain(a, b, total, rule, own_scratch(), (block,), keeps_c=True)
        after = d.transpose(2, 0, 1).copy()
        with np.errstate(all="ignore"):
            left = _decoded("a", a[:, :, block], (2, 1, 0), rule, own_scratch())
            right = _decoded("b", b[:, block], (1, 2, 0), rule, own_scratch())
            start = total.transpose(1, 2, 0)
            largest, terms = _unusual_exponents(_part(left, np.s_[:, :, None]), right, start, rule)
            unit = float(np.ldexp(1.0, largest - rule.fraction_bits.value).item())
        yield block, int(total.item()), int(after.item()), unit, [term.item() for term in terms]
        total = np.zeros_like(c) if rule.sums is not None else after


def _operands(a: Array, b: Array, c: Array, rule: TruncatedDot) -> tuple[Array, Array, Array]:
    """Return operands as they reach the unit: A and B prepared, C of the accumulator's format."""
    _, a_type, b_type, _ = rule.types.split(".")
    a = _prepared(a, format_named(a_type), rule, rule.a_subnormals.value)
    b = _prepared(b, format_named(b_type), rule, rule.b_subnormals.value)
    if rule.c_subnormals.value == "flushed":
        c = flushed(c, format_named(rule.c_type))
    if rule.c_type != rule.accumulator_format.name:
        c = conversions.widen(c)
    return a, b, c


def _prepared(bits: Array, fmt: Format, rule: TruncatedDot, subnormals: str) -> Array:
    """Return multiplicands as they reach the multiplier: low bits not cut, 8 bits still packed."""
    if rule.subnormal_exponent is not None and subnormals == "flushed":
        bits = flushed(bits, fmt)
    if fmt.bits <= 8 and subnormals == "flushed":
        bits, fmt = conversions.unpacked(bits, fmt.name), format_named(rule.multiplicand)
    if rule.low_bits is not None and rule.low_bits.value == "rounded":
        field = bits.dtype.type(fmt.infinity)
        half = bits.dtype.type(1 << (fmt.ignored_bits - 1))
        bits = np.where(bits & field != field, bits + half, bits)
    return flushed(bits, fmt) if subnormals == "flushed" else bits


def scalar_dot(a: Array, b: Array, c: Array, *, rule: ScalarDot) -> Array:
    """Return a @ b + c, (m, n, tiles), each operation rounded to nearest even f32.

    A product of two f16 is exact in f32: a fused multiply-add returns no other number than these.
    """
    d_type, _, _, c_type = rule.types.split(".")
    left, right, addend = (
        np.ascontiguousarray(x) for x in (a.T, b.transpose(1, 2, 0), c.transpose(1, 2, 0))
    )
    left, right = (conversions.widen(x).view(np.float32) for x in (left, right))
    addend = (conversions.widen(addend) if c_type == "f16" else addend).view(np.float32)
    result = np.empty_like(addend)
    term, pair = np.empty((2, *addend.shape[1:]), np.float32)
    with np.errstate(all="ignore"):
        for row, total in enumerate(result):  # what one row needs lies in the cache
            factors = tuple(zip(left[:, row], right, strict=True))
            if rule.order.value == "serial":
                total[...] = 0.0
                for factor in factors:
                    total += np.multiply(*factor, out=term)
                total += addend[row]
            else:
                total[...] = addend[row]
                for k in (0, 2):
                    np.multiply(*factors[k], out=pair)
                    pair += np.multiply(*factors[k + 1], out=term)
                    total += pair
    bits = result.view(np.uint32)
    bits[np.isnan(result)] = CANONICAL_NAN["f32"]
    return narrow(bits) if d_type == "f16" else bits
