"""Floating-point numbers of single threads: rows of `scalar`.

Source: PTX ISA 9.7.3 (f32, f64), 9.7.4 and 9.7.5 (half precision, with bf16), 9.7.6 and 9.7.7
(comparisons), 9.7.9.23 (cvt). A NaN result is canonical but for f64, which passes payloads on.
Where the ISA bounds the error of a result alone (`.approx`, `.full`), `_approximate` stands in.
"""

import math
from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from runners.simulated.fused import (
    NAMED,
    SIGNIFICAND,
    BinaryNumber,
    FusedNan,
    Rounding,
    as_f16,
    flushed,
    is_infinite,
    is_nan,
    is_negative,
    is_no_number,
    leading,
    multiply_add,
    round_words,
    rounded,
    unpack,
    widened,
)
from runners.simulated.integers import ANY, COMPARE, RAW, WORDS, magnitude
from runners.simulated.scalar import Compute, Qualifiers, op, ops, parts
from runners.simulated.silicon import F64_NAN
from runners.simulated.syntax import TYPE_BITS
from runners.simulated.warps import DTYPES, Values

NAN = {
    "f64": F64_NAN,
    "f32": FusedNan(0x7FFF_FFFF, 0x7FFF_FFFF),
    "f16": FusedNan(0x7FFF, 0x7FFF),
    "bf16": FusedNan(0x7FFF, 0x7FFF),
}
"""Canonical NaN: PTX ISA 9.7.3 gives 0x7fffffff for f32 and 9.7.4 gives 0x7fff for the halves; f64
as measured for wmma.mma on an H200."""
_HALF, _BHALF = "f16 f16x2", "bf16 bf16x2"
_SM_75, _SM_80 = {"f32": 75, "f16": 75, "bf16": 90}, {"f16": 80, "bf16": 80}


def adjusted(compute: Compute) -> Compute:
    """Return a computation with what .ftz, .sat and .relu say of its operands and its result.

    A NaN that .sat clamps to 0 … 1 is zero (PTX ISA 9.7.3); beside numbers that .relu makes zero
    if they are negative, it is canonical (9.7.4).
    """

    def adjusting(q: Qualifiers, *words: Values) -> Any:
        origin, to = q["origin"] or q["element"], q["to"] or q["element"]
        # Of conversions, .ftz is for f32 alone.
        flushes = q["ftz"] and ("f32" if q["to"] else origin)
        if origin == flushes:
            words = tuple(flushed(word, NAMED[origin]) for word in words)
        result = compute(q, *words)
        if to not in NAN:
            return result
        binary, dtype = NAMED[to], DTYPES[TYPE_BITS[to]]
        result = result.astype(dtype)
        if to == flushes:
            result = flushed(result, binary)
        if q["sat"] or q["relu"]:
            nan, zero = is_nan(result, binary), dtype.type(0)
            result = np.where(result >= dtype.type(binary.sign), zero, result)
            if q["sat"]:
                result = np.minimum(result, dtype.type(binary.one))
            result = np.where(nan, zero if q["sat"] else dtype.type(NAN[to].invalid), result)
        return result

    return adjusting


def _rounding(q: Qualifiers) -> Rounding:
    return Rounding.NEAREST_AWAY if q["rnd"] == "rna" else Rounding(q["rnd"] or "rn")


def _sign(q: Qualifiers, a: Values) -> Any:
    return a.dtype.type(NAMED[q["element"]].sign)


@op("slct", ".type.by d, a, b, c:by", type=ANY, by="s32")
@op("slct", "{.ftz}.type.by d, a, b, c:by", type=ANY, by="f32")
def _select_by_sign(q: Qualifiers, a: Values, b: Values, c: Values) -> Any:
    if q["by"] == "f32":
        c = _values(flushed(c, NAMED["f32"]) if q["ftz"] else c, "f32")
    return np.where(c >= 0, a, b)


def _fuse(q: Qualifiers, a: Values, b: Values, c: Values) -> Values:
    kind, ftz = q["element"], bool(q["ftz"])
    return multiply_add(a, b, c, NAMED[kind], _rounding(q), NAN[kind], ftz)


def add(q: Qualifiers, a: Values, b: Values) -> Values:
    """Add a times one, which is exact; raw words of the format `element`."""
    return _fuse(q, a, np.full((1, 1), NAMED[q["element"]].one, a.dtype), b)


def _nan_kept(words: Values, changed: Values, kind: str) -> Any:
    """Return the changed words, but of NaN canonical ones, in f64 quiet ones of the same sign.

    Measured on an H200 (November 2026) for neg and abs.
    """
    rule, dtype = NAN[kind], words.dtype.type
    quiet = words | dtype(1 << (NAMED[kind].fraction - 1))
    canonical = quiet if rule.canonical is None else dtype(rule.canonical)
    return np.where(is_nan(words, NAMED[kind]), canonical, changed)


def _negate(q: Qualifiers, a: Values) -> Any:
    return _nan_kept(a, a ^ _sign(q, a), q["element"])


def _absolute(q: Qualifiers, a: Values) -> Any:
    return _nan_kept(a, a & ~_sign(q, a), q["element"])


def _widening(compute: Compute) -> Compute:
    """Return a computation in f32 that takes f16 and bf16, too (PTX ISA 9.0, 9.7.5)."""
    return lambda q, *words: compute(q, *(
        widened(word, q["origin"]) if word.dtype == np.uint16 else word for word in words
    ))  # fmt: skip


_SUMS = {
    "add": adjusted(add),
    "sub": adjusted(lambda q, a, b: add(q, a, _negate(q, b))),
    # A zero of the product's own sign leaves every product as it is, zeros too.
    "mul": adjusted(lambda q, a, b: _fuse(q, a, b, (a ^ b) & _sign(q, a))),
}
_FMA = adjusted(_fuse)
_MIXED: dict[str, Any] = {"type": "f32", "origin": "f16 bf16", "needs": {"f32": 100}}
ops("{.rnd}{.ftz}{.sat}.f32 d, a, b", _SUMS)
ops("{.rnd}.f64 d, a, b", _SUMS)
ops("{.rnd}{.ftz}.type d, a, b", _SUMS, type="f32x2", needs={"f32": 100})
ops("{.rnd}{.ftz}{.sat}.type d, a, b", _SUMS, rnd="rn", type=_HALF)
ops("{.rnd}.type d, a, b", _SUMS, rnd="rn", type=_BHALF, needs={"bf16": 90})
ops("{.rnd}{.sat}.type.origin d, a:origin, b",
    {name: _widening(_SUMS[name]) for name in ("add", "sub")}, **_MIXED)  # fmt: skip
op("fma mad", ".rnd{.ftz}{.sat}.f32 d, a, b, c", ".rnd.f64 d, a, b, c")(_FMA)
op("fma", ".rnd{.ftz}.type d, a, b, c", type="f32x2", needs={"f32": 100})(_FMA)
op("fma", ".rnd{.sat}.type.origin d, a:origin, b:origin, c", **_MIXED)(_widening(_FMA))
op("fma", ".rnd{.ftz}{.sat}{.relu}.type d, a, b, c", rnd="rn", type=_HALF)(_FMA)
op("fma", ".rnd{.relu}.type d, a, b, c", rnd="rn", type=_BHALF, needs=_SM_80)(_FMA)
for _name, _compute in (("neg", adjusted(_negate)), ("abs", adjusted(_absolute))):
    op(_name, "{.ftz}.type d, a", type=f"f32 {_HALF}")(_compute)
    op(_name, ".type d, a", type=f"f64 {_BHALF}", needs=_SM_80)(_compute)
op("copysign", ".type d, a, b", type="f32 f64")(
    lambda q, a, b: (b & ~_sign(q, a)) | (a & _sign(q, a))
)


def _specials(
    result: Values, cases: tuple[tuple[Any, Any], ...], words: tuple[Values, ...], kind: str
) -> Any:
    """Put special results over a result that was computed as if all were finite."""
    for condition, value in cases:
        result = np.where(condition, np.uint64(value), result)
    for word in reversed(words):
        result = np.where(is_nan(word, NAMED[kind]), _nan_kept(word, word, kind), result)
    return result


def _rounded(
    q: Qualifiers, digits: Values, rest: Values, exponent: Values, point: int, negative: Values
) -> Values:
    """Round digits times 2^(exponent - point), with something behind them where `rest` is."""
    digits = digits.astype(np.uint64)
    lead = leading(digits)
    whole: Any = _lead_first(digits, lead) | rest.astype(np.bool_)
    return rounded(negative, whole, exponent - point + lead, NAMED[q["element"]], _rounding(q))


def _lead_first(digits: Values, lead: Values) -> Any:
    """Return digits with the leading one in bit 61, and the last set if a one is behind it."""
    left = digits << np.maximum(61 - lead, 0).astype(np.uint64)
    right = np.maximum(lead - 61, 0).astype(np.uint64)
    return left >> right | (left >> right << right != left)


@op("div", ".rnd{.ftz}.f32 d, a, b", ".rnd.f64 d, a, b")
@adjusted
def _divide(q: Qualifiers, a: Values, b: Values) -> Any:
    """Divide in Python's integers, and round once."""
    kind = q["element"]
    binary = NAMED[kind]
    x, y = (unpack(word.astype(np.uint64), binary) for word in (a, b))
    # The quotient of two significands lies in (1/2, 2): one digit before the point, and as many
    # behind it as round either format with two to spare.
    more = SIGNIFICAND + 3
    dividend = x.significand.astype(object) << more
    divisor = np.where(y.significand == 0, 1 << SIGNIFICAND, y.significand).astype(object)
    sign = is_negative(x) ^ is_negative(y)
    quotient, rest = dividend // divisor, dividend % divisor
    result = _rounded(q, quotient, rest, x.exponent - y.exponent, more, sign)
    no_x, no_y = x.significand == 0, y.significand == 0
    result = np.where(no_x | is_infinite(y), np.uint64(0), result)
    result = np.where(is_infinite(x) | no_y, np.uint64(binary.infinity), result)
    result |= sign.astype(np.uint64) << np.uint64(binary.word - 1)
    invalid = (no_x & no_y) | (is_infinite(x) & is_infinite(y))
    return _specials(result, ((invalid, NAN[kind].invalid),), (a, b), kind)


op("rcp", ".rnd{.ftz}.f32 d, a", ".rnd.f64 d, a")(
    lambda q, a: _divide(q, np.full((1, 1), NAMED[q["element"]].one, a.dtype), a)
)
_ROOT = np.frompyfunc(math.isqrt, 1, 1)


@op("sqrt", ".rnd{.ftz}.f32 d, a", ".rnd.f64 d, a")
@adjusted
def _square_root(q: Qualifiers, a: Values) -> Any:
    """Take the square root in Python's integers, and round once."""
    kind = q["element"]
    x = unpack(a.astype(np.uint64), NAMED[kind])
    # An even exponent; the root of a significand of 52 places has 26, and 30 more digits.
    odd = (x.exponent & 1) != 0
    radicand = np.where(odd, x.significand << np.uint64(1), x.significand).astype(object) << 60
    root = _ROOT(radicand)
    exponent, point = (x.exponent - odd) >> 1, 30 + SIGNIFICAND // 2
    result = _rounded(q, root, root * root != radicand, exponent, point, is_negative(x) & False)
    none = x.significand == 0
    cases = (
        (is_infinite(x), NAMED[kind].infinity),
        (none & is_negative(x), NAMED[kind].sign),
        (none & ~is_negative(x), 0),
        (is_negative(x) & ~none, NAN[kind].invalid),
    )
    return _specials(result, cases, (a,), kind)


_APPROXIMATIONS: dict[str, Callable[..., Any]] = {
    "div": np.divide,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


@op("div", ".how{.ftz}.f32 d, a, b", how="approx full")
@op("rcp sqrt rsqrt sin cos lg2 ex2", ".approx{.ftz}.f32 d, a")
@op("rcp", ".approx.ftz.f64 d, a", ftz="ftz")
@op("rsqrt", ".approx{.ftz}.f64 d, a")
@op("tanh", ".approx.type d, a", type=f"f32 {_HALF} {_BHALF}", needs=_SM_75)
@op("ex2", ".approx.type d, a", type=_HALF, needs=_SM_75)
@op("ex2", ".approx.ftz.type d, a", type=_BHALF, needs=_SM_75)
@adjusted
def _approximate(q: Qualifiers, *words: Values) -> Any:
    """Compute in f64 and round to nearest: one of the results that the ISA's bounds permit.

    Source: 9.7.3.8, .13 to .22, 9.7.4.9, .10. Of .ftz, f64 results end with their upper word.
    """
    kind = q["element"]
    values = [_values(word, kind) for word in words]
    with np.errstate(all="ignore"):
        found = _APPROXIMATIONS[q["op"]](*values)
        if q["how"] == "approx":
            # Above 2^126 div gives zero, or NaN of an infinity (9.7.3.8).
            far = (np.abs(values[1]) > 2.0**126) & np.isfinite(values[1])
            gone = np.where(np.isinf(values[0]), np.nan, np.copysign(0.0, found))
            found = np.where(far, gone, found)
        narrow = found.astype("f8" if kind == "f64" else "f2" if kind == "f16" else "f4")
    result = narrow.view(f"u{narrow.itemsize}")
    if kind == "bf16":
        result = _narrowed(q | {"origin": "f32", "to": "bf16", "rnd": "rn"}, result)
    if kind == "f64" and q["ftz"]:
        result &= np.uint64(0xFFFF_FFFF_0000_0000)
    return np.where(np.isnan(found), result.dtype.type(NAN[kind].invalid), result)


def _order(words: Values, kind: str) -> Any:
    """Return numbers that are ordered as the values that are no NaN; -0 is below 0."""
    sign = NAMED[kind].sign
    size = (words & words.dtype.type(sign - 1)).astype(np.int64)
    return np.where(words >= words.dtype.type(sign), -1 - size, size)


@op("min max", "{.ftz}{.NaN}{.xorsign.abs}.f32 d, a, b{, c}", ".f64 d, a, b")
@op("min max", "{.ftz}{.NaN}{.xorsign.abs}.type d, a, b", type=_HALF, needs=_SM_80)
@op("min max", "{.NaN}{.xorsign.abs}.type d, a, b", type=_BHALF, needs=_SM_80)
@adjusted
def _least_or_most(q: Qualifiers, *words: Values) -> Any:
    """Return the smaller or larger; NaN gives way to a number, or wins over it (.NaN)."""
    kind, binary = q["element"], NAMED[q["element"]]
    sign = words[0].dtype.type(binary.sign)
    signs = reduce(np.bitwise_xor, words) & sign
    if q["xorsign"]:
        words = tuple(word & ~sign for word in words)
    result = words[0]
    for word in words[1:]:
        first, second = _order(result, kind), _order(word, kind)
        take = second < first if q["op"] == "min" else second > first
        result = np.where((take | is_nan(result, binary)) & ~is_nan(word, binary), word, result)
    nan = is_nan(result, binary)
    if q["NaN"]:
        nan = reduce(np.logical_or, (is_nan(word, binary) for word in words))
    if q["xorsign"]:
        result = result | signs
    return np.where(nan, sign.dtype.type(NAN[kind].canonical or 0x7FFF_FFFF_FFFF_FFFF), result)


@op("redux.sync", ".name{.abs}{.NaN}.type d, a, m", lanes=True, name="min max", type="f32",
    needs={"f32": 100})  # fmt: skip
def _among_lanes(q: Qualifiers, part: Values, held: Values) -> Any:
    """Without .NaN those that are NaN have no say, unless all are (9.7.13.12)."""
    words = _absolute(q, held) if q["abs"] else held
    # Who has no say holds what the first lane of those that have one holds.
    first = np.take_along_axis(words, part.argmax(axis=0, keepdims=True), axis=0)
    words = np.where(part, words, first)
    return _least_or_most(q | {"op": q["name"]}, *np.split(words, len(words)))


_KINDS: dict[str, Callable[[Values, Any, Any], Values]] = {
    "finite": lambda size, least, infinity: size < infinity,
    "infinite": lambda size, least, infinity: size == infinity,
    "number": lambda size, least, infinity: size <= infinity,
    "notanumber": lambda size, least, infinity: size > infinity,
    # Zeros are taken for normal numbers (9.7.3.1).
    "normal": lambda size, least, infinity: (size >= least) & (size < infinity) | (size == 0),
    "subnormal": lambda size, least, infinity: (size < least) & (size != 0),
}
"""What testp asks, of words without their signs, by the least normal one and infinity."""


@op("testp", ".kind.type p:pred, a", type="f32 f64", kind=" ".join(_KINDS))
def _is_of_kind(q: Qualifiers, a: Values) -> Any:
    binary, dtype = NAMED[q["type"]], a.dtype.type
    least, infinity = dtype(1 << binary.fraction), dtype(binary.infinity)
    return _KINDS[q["kind"]](a & dtype(binary.sign - 1), least, infinity)


def _values(words: Values, kind: str) -> Any:
    """Return numbers as float64, which holds all of these formats exactly."""
    seen = widened(words, kind) if kind == "bf16" else words
    with np.errstate(all="ignore"):
        return seen.view(f"f{seen.itemsize}").astype(np.float64)


_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}  # PTX ISA 9.3.1.1
_COMBINE = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _compare(q: Qualifiers, a: Values, b: Values) -> Any:
    """Compare two numbers; with `u` behind its name it holds for NaN, too (PTX ISA 9.3.1.2)."""
    name, kind = str(q["cmp"]), q["element"]
    if kind not in NAMED:
        return COMPARE[_UNSIGNED.get(name, name)](a, b)
    if q["ftz"]:
        a, b = flushed(a, NAMED[kind]), flushed(b, NAMED[kind])
    x, y = _values(a, kind), _values(b, kind)
    nan = np.isnan(x) | np.isnan(y)
    if name in ("num", "nan"):
        return nan if name == "nan" else ~nan
    # Without `u`, ne and the others are false for NaN; neu is the one that C has.
    found = COMPARE[name.removesuffix("u")](x, y)
    return found | nan if name.endswith("u") else found & ~nan


def _set_predicates(q: Qualifiers, a: Values, b: Values, *c: Values) -> tuple[Any, Any]:
    """Compare; return what holds and what does not, or what holds of each half (setp)."""
    if q["type"] != q["element"]:
        found = _compare(q, parts(a, "u2"), parts(b, "u2"))
        results = found[..., 0], found[..., 1]
    else:
        found = _compare(q, a, b)
        results = found, ~found
    if c:
        results = tuple(_COMBINE[q["bool"]](each, c[0]) for each in results)
    return results


def _set_word(q: Qualifiers, a: Values, b: Values, *c: Values) -> Any:
    """Compare, and return all ones or 1.0 where it holds, in both halves for packed ones (set)."""
    found, second = _set_predicates(q, a, b, *c)
    bits, packed = TYPE_BITS[q["dtype"]], q["type"] != q["element"]
    given = NAMED.get(q["dtype"].removesuffix("x2"))
    true = given.one if given else (1 << (16 if packed else bits)) - 1
    result = np.where(found, DTYPES[bits].type(true), DTYPES[bits].type(0))
    return np.where(second, result | np.uint32(true << 16), result) if packed else result


_ORDER = " ".join(COMPARE)
_FLOAT_ORDER = " ".join([*(f"{name} {name}u" for name in COMPARE), "num nan"])
_RESULTS, _HALF_RESULTS = "u32 s32 f32 f16 bf16", "u16 s16 u32 s32 f16 bf16"
# Of integers, most comparisons are for one predicate and combined with nothing: those go first.
for _names, _types in (("eq ne", RAW), (_ORDER, WORDS)):
    _compares = {f"setp.{name}": COMPARE[name] for name in _names.split()}
    ops(".type p:pred, a, b", _compares, type=_types)
# Comparisons, whether subnormals may count as zero, of which types (9.3.1), whether there may be a
# second predicate, and which types of results set has (9.7.6, 9.7.7).
for _names, _ftz, _types, _second, _results in (
    ("eq ne", "", RAW, "{|q:pred}", _RESULTS),
    (_ORDER, "", WORDS, "{|q:pred}", _RESULTS),
    (" ".join(_UNSIGNED), "", "u16 u32 u64", "{|q:pred}", _RESULTS),
    (_FLOAT_ORDER, "", "f64", "{|q:pred}", _RESULTS),
    (_FLOAT_ORDER, "{.ftz}", "f32", "{|q:pred}", _RESULTS),
    (_FLOAT_ORDER, "{.ftz}", "f16", "", _HALF_RESULTS),
    (_FLOAT_ORDER, "", "bf16", "", "u16 s16 u32 s32 bf16"),
    (_FLOAT_ORDER, "{.ftz}", "f16x2", "{|q:pred}", "u32 s32 f16x2"),
    (_FLOAT_ORDER, "", "bf16x2", "{|q:pred}", "u32 s32 bf16x2"),
):
    for _bool, _more in (("", ""), (".bool", ", c:pred")):
        _kinds: dict[str, Any] = {"cmp": _names, "type": _types, "dtype": _results}
        _pair = f".cmp{_bool}{_ftz}.type p:pred{_second}, a, b{_more}"
        op("setp", _pair, **_kinds)(_set_predicates)
        op("set", f".cmp{_bool}{_ftz}.dtype.type d:dtype, a, b{_more}", **_kinds)(_set_word)

# Conversions (9.7.9.23).
_INTEGERS = f"u8 s8 {WORDS}"
_FLOATS = ("f16", "bf16", "f32", "f64")
_NARROWER = tuple(
    pair.split()
    for pair in ("f16 f32", "bf16 f32", "f16 f64", "bf16 f64", "f32 f64", "f16 bf16", "bf16 f16")
)
"""Formats, and others of which not all numbers are in them."""
_INTEGRAL: dict[str, np.ufunc] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _integral(q: Qualifiers, a: Values) -> Any:
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        return _INTEGRAL[q["irnd"]](_values(a, q["origin"]))


def _limits(kind: str) -> tuple[np.dtype[Any], int, int]:
    """Return the dtype of an integer type, its lowest and its highest number."""
    dtype = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{TYPE_BITS[kind] // 8}")
    return dtype, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _integer_to_integer(q: Qualifiers, a: Values) -> Any:
    """Keep the low bits, or clamp."""
    dtype, lowest, highest = _limits(q["to"])
    if q["sat"]:
        # NumPy compares with bounds of the values' own type only.
        _, least, most = _limits(q["origin"])
        a = np.clip(a, a.dtype.type(max(lowest, least)), a.dtype.type(min(highest, most)))
    return a.astype(dtype)


op("cvt", ".to.origin d:to+, a:origin+", to=_INTEGERS, origin=_INTEGERS)(_integer_to_integer)
for _to in _INTEGERS.split():
    _, _least, _most = _limits(_to)
    _wider = [
        kind for kind in _INTEGERS.split() if _limits(kind)[1] < _least or _limits(kind)[2] > _most
    ]
    op("cvt", "{.sat}.to.origin d:to+, a:origin+", to=_to, origin=" ".join(_wider))(
        _integer_to_integer
    )


@adjusted
def _integer_to_float(q: Qualifiers, a: Values) -> Any:
    size = magnitude(a).astype(np.uint64)
    lead, binary = leading(size), NAMED[q["to"]]
    words = rounded(a < 0, _lead_first(size, lead), lead, binary, _rounding(q))
    words = np.where(size == 0, np.uint64(0), words)
    return words | ((a < 0).astype(np.uint64) << np.uint64(binary.word - 1))


@adjusted
def _float_to_integer(q: Qualifiers, a: Values) -> Any:
    """Round to an integer; what is too large is clamped."""
    values, to = _integral(q, a), q["to"]
    dtype, lowest, highest = _limits(to)
    above, below = values >= highest + 1.0, values < lowest
    result = np.where(above | below | np.isnan(values), 0.0, values).astype(dtype)
    result = np.where(above, dtype.type(highest), np.where(below, dtype.type(lowest), result))
    # NaN gives 0, or the sign bit where either type has 64 bits (9.7.9.23).
    wide = q["origin"] == "f64" or dtype.itemsize == 8
    nan = DTYPES[TYPE_BITS[to]].type(1 << (TYPE_BITS[to] - 1) if wide else 0)
    return np.where(np.isnan(values), nan, result.view(nan.dtype))


@adjusted
def _float_to_float(q: Qualifiers, a: Values) -> Any:
    """Round to another format, to the same one, or to an integer in it."""
    origin, to, result = q["origin"], q["to"], a
    if not q["irnd"] and origin != to:
        return _narrowed(q, a)
    if q["irnd"]:
        with np.errstate(all="ignore"):
            values, bits = _integral(q, a), 32 if to == "bf16" else NAMED[to].word
            result = values.astype(f"f{bits // 8}").view(DTYPES[bits])
        result = result >> np.uint32(16) if to == "bf16" else result
    return np.where(is_nan(a, NAMED[origin]), _converted_nan(a, origin, to), result)


def _converted_nan(words: Values, origin: str, to: str) -> Any:
    """Return the words of NaN results: canonical, but for f64, which keeps sign and payload.

    Those of tf32 have zeros where it has no bits (an H200, 2026-11-23).
    """
    if to != "f64":
        unused = NAMED[to].unused
        return np.uint64(NAN[to if to in NAN else "f32"].invalid >> unused << unused)
    given, whole = NAMED[origin], words.astype(np.uint64)
    sign = whole >> np.uint64(given.word - 1) << np.uint64(63)
    payload = whole & np.uint64((1 << given.fraction) - 1)
    return np.uint64(0x7FF8 << 48) | sign | payload << np.uint64(52 - given.fraction)


for _convert, _more, _pairs in (
    (_integer_to_float, ".rnd", product(_FLOATS, (_INTEGERS,))),
    (_float_to_integer, ".irnd", product((_INTEGERS,), _FLOATS)),
    (_float_to_float, ".rnd", (*_NARROWER, ("f32", "bf16"), ("f64", "bf16"))),
    (_float_to_float, "", (each[::-1] for each in _NARROWER[:-2])),
    (_float_to_float, "{.irnd}", zip(_FLOATS, _FLOATS, strict=True)),
):
    for _to, _origin in _pairs:
        # Single precision alone is flushed; bf16 has no .sat.
        _more_of_it = _more + ("{.ftz}" if "f32" in (_to, _origin) else "")
        _more_of_it += "{.sat}" if "bf16" not in (_to, _origin) else ""
        op(f"cvt{_more_of_it}", ".to.origin d:to+, a:origin+", to=_to, origin=_origin)(_convert)

# Of the formats of 8 bits (OCP OFP8 1.0): one with the exponent's field of e5m2, what exponents are
# lowered by for it, and the word of the largest finite number. NaN is 0x7f in both.
_BYTES = {
    "e5m2": (BinaryNumber(8, 5, 2), 0, 0x7B),
    # With one bit more in its exponent, e4m3 has numbers where others have infinity and NaN.
    "e4m3": (BinaryNumber(9, 5, 3), 8, 0x7E),
}
_TO = ".rnd{.relu}{.satfinite}.to.origin d:to, a:origin"
_TO_BYTES: dict[str, Any] = {
    "to": "e4m3x2 e5m2x2", "rnd": "rn",
    "needs": dict.fromkeys(("e4m3", "e5m2", "f32", "f16"), 89),
}  # fmt: skip


@op("cvt", _TO, to="f16 bf16", origin="f32", rnd="rn rz")
@op("cvt", _TO, to="tf32", origin="f32", rnd="rna rn rz")
def _narrowed(q: Qualifiers, a: Values) -> Any:
    """Round to a format; with .satfinite to a finite value, with .relu to none below zero."""
    origin, to = q["origin"].removesuffix("x2"), q["to"].removesuffix("x2")
    x = unpack(a.astype(np.uint64), NAMED[origin])
    if to in _BYTES:
        binary, lower, largest = _BYTES[to]
        nan = np.uint64(0x7F)
    else:
        binary, lower = NAMED[to], 0
        largest, nan = binary.infinity - (1 << binary.unused), _converted_nan(a, origin, to)
    size = round_words(x, binary, _rounding(q), bool(q["ftz"]) and to == "f32", lower=lower)
    if q["satfinite"] or to in _BYTES:
        size = np.minimum(size, np.uint64(largest))
    bits = 8 if to in _BYTES else binary.word
    result = size | (is_negative(x).astype(np.uint64) << np.uint64(bits - 1))
    if q["relu"]:
        result = np.where(is_negative(x), np.uint64(0), result)
    result = np.where(is_no_number(x), nan, result)
    return result.astype(DTYPES[bits])


@op("cvt", f"{_TO}, b:origin", to="f16x2 bf16x2", origin="f32", rnd="rn rz")
@op("cvt.rnd.satfinite", "{.relu}.to.origin d:to, a:origin, b:origin", **_TO_BYTES, origin="f32")
def _narrowed_pair(q: Qualifiers, a: Values, b: Values) -> Any:
    """Round two numbers to a pair, of which the first is the upper half."""
    high, low = _narrowed(q, a), _narrowed(q, b)
    bits, pair = 8 * low.itemsize, DTYPES[16 * low.itemsize]
    return low.astype(pair) | high.astype(pair) << pair.type(bits)


op("cvt.rnd.satfinite", "{.relu}.to.origin d:to, a:origin", **_TO_BYTES, origin="f16x2")(
    lambda q, a: _narrowed_pair(q, *np.moveaxis(parts(a, "u2"), -1, 0)[::-1])
)


@op("cvt.rnd", "{.relu}.to.origin d:to, a:origin", **_TO_BYTES | {"to": "f16x2"},
    origin="e4m3x2 e5m2x2")  # fmt: skip
def _widened_bytes(q: Qualifiers, a: Values) -> Any:
    words = as_f16(parts(a, "u1"), q["origin"].removesuffix("x2"))
    nan = is_nan(words, NAMED["f16"])
    if q["relu"]:
        words = np.where(words >> np.uint16(15), np.uint16(0), words)
    result = np.where(nan, np.uint16(NAN["f16"].invalid), words)
    return np.ascontiguousarray(result).view(np.uint32)[..., 0]
