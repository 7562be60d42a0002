"""Integers, bits and video: rows of `scalar`.

Source: PTX ISA 9.7.1 (integer arithmetic), 9.7.2 (extended precision), 9.7.7 and 9.7.8 (selection,
logic and shift), 9.7.9 (prmt, cvt.pack), 9.7.18 (video, whose
numbers have up to 34 bits; here they have 64).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from runners.simulated.fused import leading
from runners.simulated.scalar import Compute, Qualifiers, op, ops, parts
from runners.simulated.warps import Values

WORDS = "u16 u32 u64 s16 s32 s64"
_LONG = "u32 u64 s32 s64"
RAW = "b16 b32 b64"
_LONG_RAW = "b32 b64"
_WORD = "u32 s32"
ANY = f"{RAW} {WORDS} f32 f64"
LINEAR: dict[str, np.ufunc] = {"add": np.add, "sub": np.subtract}
ORDERED: dict[str, np.ufunc] = {"min": np.minimum, "max": np.maximum}
LOGIC: dict[str, np.ufunc] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
COMPARE: dict[str, np.ufunc] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


op("selp", ".type d, a?, b?, c:pred", type=ANY)(lambda _, a, b, c: np.where(c, a, b))
# Arithmetic (9.7.1, 9.7.2).
ops(".type d, a, b", LINEAR | ORDERED, type=WORDS)
op("mul.lo", ".type d, a, b", type=WORDS)(np.multiply)
op("add", ".type d, a, b", type="u16x2 s16x2")(np.add)
ops(".type d, a, b", ORDERED, type="u16x2 s16x2")
ops(".type d, a", {"neg": np.negative, "abs": np.abs}, type="s16 s32 s64")
op("mad.lo", ".type d, a, b, c", type=WORDS)(lambda _, a, b, c: a * b + c)
op("sad", ".type d, a, b, c", type=WORDS)(lambda _, a, b, c: np.where(a > b, a - b, b - a) + c)
for _sign in "us":
    for _bits in (16, 32):
        for _name, _more in (("mul", ""), ("mad", f", c:{_sign}{2 * _bits}")):
            op(_name, f".wide.{_sign}{_bits} d:{_sign}{2 * _bits}, a, b{_more}")(
                lambda _, a, b, *c: sum(c, a.astype(f"{a.dtype.kind}{2 * a.itemsize}") * b)
            )


def _clamped(wide: Values) -> Any:
    """Clamp numbers of 64 bits to 32 (.sat)."""
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def _saturating(compute: np.ufunc) -> Compute:
    return lambda _, a, b: _clamped(compute(a.astype(np.int64), b))


def _without_negatives(compute: np.ufunc) -> Compute:
    return lambda _, a, b: np.maximum(compute(a, b), a.dtype.type(0))


ops(".sat.s32 d, a, b", {name: _saturating(f) for name, f in LINEAR.items()})
ops(
    ".relu.type d, a, b",
    {name: _without_negatives(f) for name, f in ORDERED.items()},
    type="s32 s16x2",
)


def magnitude(values: Values) -> Any:
    """Return absolute values, unsigned, so that the lowest number has one, too."""
    return np.abs(values).view(f"u{values.itemsize}")


# By zero: all ones, as the device's own code gives, or three, as good as any (9.7.1.9).
@op("div", ".type d, a, b", type=WORDS, otherwise=lambda q, a, b: (
    np.where(b == 0, a.dtype.type(3), _divide(q, a, b).astype(a.dtype))))  # fmt: skip
def _divide(_: Qualifiers, a: Values, b: Values) -> Any:
    left, right = magnitude(a), magnitude(b)
    one = left.dtype.type(1)
    quotient = left // np.maximum(right, one)
    quotient = np.where((a < 0) != (b < 0), ~quotient + one, quotient)
    return np.where(right == 0, ~left.dtype.type(0), quotient)


@op("rem", ".type d, a, b", type=WORDS, otherwise=lambda q, a, b: (
    np.where(b == 0, ~a, _remainder(q, a, b).astype(a.dtype))))  # fmt: skip
def _remainder(_: Qualifiers, a: Values, b: Values) -> Any:
    """Return what division toward zero leaves, with the dividend's sign; of zero: the dividend."""
    left, right = magnitude(a), magnitude(b)
    one = left.dtype.type(1)
    rest = np.where(right == 0, left, left % np.maximum(right, one))
    return np.where(a < 0, ~rest + one, rest)


@op("mul.hi", ".type d, a, b", type=WORDS)
def _high_product(_: Qualifiers, a: Values, b: Values) -> Any:
    bits = 8 * a.itemsize
    wide: Any = object if bits == 64 else f"{a.dtype.kind}{2 * a.itemsize}"
    return (a.astype(wide) * b.astype(wide) >> bits).astype(a.dtype)


@op("mad.hi", ".type d, a, b, c", type=WORDS)
@op("mad.hi", "{.sat}.s32 d, a, b, c")
def _high_sum(q: Qualifiers, a: Values, b: Values, c: Values) -> Any:
    high = _high_product(q, a, b)
    return _clamped(high.astype(np.int64) + c) if q["sat"] else high + c


@op("mul24", ".part.type d, a, b", type=_WORD)
@op("mad24", ".part.type d, a, b, c", type=_WORD)
@op("mad24", ".part{.sat}.s32 d, a, b, c", part="hi")
def _by_24_bits(q: Qualifiers, a: Values, b: Values, *c: Values) -> Any:
    """Multiply the low 24 bits of each, extended; take the low or high 32 of the product's 48."""
    eight = a.dtype.type(8)
    x, y = ((each << eight >> eight).astype(f"{a.dtype.kind}8") for each in (a, b))
    product = (x * y >> (16 if q["part"] == "hi" else 0)).astype(a.dtype)
    return _clamped(product.astype(np.int64) + c[0]) if q["sat"] else sum(c, product)


def _with_carry_otherwise(q: Qualifiers, *values: Values) -> tuple[Any, Any, Any]:
    """Do the same, but let additions read the opposite of a borrow, and subtractions of a carry.

    So does the machine code of ptxas 11.8, 12.4, 12.8 and 13.4 at -O0 and -O3 for sm_80
    (disassembled, 2026-11-28), which subtracts by adding the complement.
    """
    total, flag, _ = _with_carry(q, *values)
    subtracts = q["op"].startswith("sub")
    return total, flag ^ subtracts, flag ^ (not subtracts)


@op("add sub", ".cc.type d|CC, a, b", type=_LONG, otherwise=_with_carry_otherwise)
@op("addc subc", ".type d, a, b, CC", ".cc.type d|CC, a, b, CC", type=_LONG,
    otherwise=_with_carry_otherwise)  # fmt: skip
@op("mad", ".part.cc.type d|CC, a, b, c", type=_LONG, otherwise=_with_carry_otherwise)
@op("madc", ".part.type d, a, b, c, CC", ".part.cc.type d|CC, a, b, c, CC", type=_LONG,
    otherwise=_with_carry_otherwise)  # fmt: skip
def _with_carry(q: Qualifiers, a: Values, b: Values, *rest: Values) -> tuple[Any, Any, Any]:
    """Add, subtract, or multiply and add; the carry that comes in is last.

    Return the sum, and the flag as additions and as subtractions read it: by the words of the ISA
    the same (9.7.2, a borrow is 1).
    """
    unsigned = f"u{a.itemsize}"
    if q["op"].startswith("mad"):
        product = a * b if q["part"] == "lo" else _high_product(q, a, b)
        a, b, *rest = product, *rest  # type: ignore[assignment]
    left, right = a.view(unsigned), b.view(unsigned)
    carry = rest[0].astype(unsigned) if rest else left.dtype.type(0)
    if q["op"].startswith("sub"):
        part = left - right
        borrow = (left < right) | (part < carry)
        return part - carry, borrow, borrow
    part = left + right
    total = part + carry
    carry_out = (part < left) | (total < part)
    return total, carry_out, carry_out


@op("dp4a", ".atype.btype d:b32, a:b32, b:b32, c:b32")
@op("dp2a", ".part.atype.btype d:b32, a:b32, b:b32, c:b32")
def _dot(q: Qualifiers, a: Values, b: Values, c: Values) -> Any:
    """Add a dot product of four bytes with four (dp4a), or of two halves with two (dp2a)."""
    count = int(q["op"][2])
    signs = {"u32": "u", "s32": "i"}
    x = parts(a, f"{signs[q['atype']]}{4 // count}").astype(np.int64)
    y = parts(b, f"{signs[q['btype']]}1")
    chosen = y[..., 2:] if q["part"] == "hi" else y[..., :count]
    return ((x * chosen).sum(axis=-1) + c).astype(np.uint32)


# Bits (9.7.1, 9.7.8, 9.7.9.7).
ops(".type d, a, b", LOGIC, type=f"pred {RAW}")
op("not", ".type d, a", type=f"pred {RAW}")(np.invert)
op("cnot", ".type d, a", type=RAW)(lambda _, a: (a == 0).astype(a.dtype))
op("shl", ".type d, a, b:u32", type=RAW)(lambda _, a, b: a << _amount(a, b))
op("shr", ".type d, a, b:u32", type=f"{RAW} {WORDS}")(lambda _, a, b: a >> _amount(a, b))
op("popc", ".type d:u32, a", type=_LONG_RAW)(lambda _, a: population(a).astype(np.uint32))
op("clz", ".type d:u32, a", type=_LONG_RAW)(
    lambda _, a: (8 * a.itemsize - 1 - _highest(a)).astype(np.uint32)
)
op("szext", ".mode.type d, a, b:u32", type=_WORD)(
    lambda q, a, b: a << (up := (np.uint32(32) - _length(q, b)).astype(a.dtype)) >> up
)
op("bmsk", ".mode.b32 d, a, b")(lambda q, a, b: _ones(_length(q, b), 32) << _length(q, a))


def _amount(a: Values, b: Values) -> Any:
    """Return what to shift by: NumPy leaves nothing, or the sign, from the width on."""
    most = b if a.itemsize > 2 else np.minimum(b, np.uint32(8 * a.itemsize))
    return most.astype(a.dtype, copy=False)


def population(words: Values) -> Any:
    """Return the number of set bits of each unsigned word, by pairs, fours and bytes."""
    words = words.astype(np.uint64, copy=False)
    pairs = words - ((words >> np.uint64(1)) & np.uint64(0x5555_5555_5555_5555))
    low = np.uint64(0x3333_3333_3333_3333)
    quads = (pairs & low) + ((pairs >> np.uint64(2)) & low)
    octets = (quads + (quads >> np.uint64(4))) & np.uint64(0x0F0F_0F0F_0F0F_0F0F)
    return ((octets * np.uint64(0x0101_0101_0101_0101)) >> np.uint64(56)).astype(np.int64)


def _highest(values: Values) -> Any:
    """Return the index of the highest set bit, -1 where there is none."""
    return np.where(values == 0, -1, leading(values.astype(np.uint64)))


@op("bfind", "{.shiftamt}.type d:u32, a", type=_LONG)
def _find_highest(q: Qualifiers, a: Values) -> Any:
    found = _highest(np.where(a < 0, ~a, a).view(f"u{a.itemsize}"))
    if q["shiftamt"]:
        found = np.where(found < 0, found, 8 * a.itemsize - 1 - found)
    return found.astype(np.int32)


@op("brev", ".type d, a", type=_LONG_RAW)
def _reverse(_: Qualifiers, a: Values) -> Any:
    bits = np.unpackbits(parts(a, "u1"), axis=-1, bitorder="little")
    return np.packbits(bits[..., ::-1], axis=-1, bitorder="little").view(a.dtype)[..., 0]


def _ones(number: Values, bits: int) -> Any:
    """Return numbers of so many low ones; all of them from the width on."""
    dtype = np.dtype(f"u{bits // 8}")
    return ~dtype.type(0) >> (bits - np.minimum(number, bits)).astype(dtype)


def _length(q: Qualifiers, number: Values) -> Any:
    """Return a number of bits, of which a word has 32."""
    return number & np.uint32(31) if q["mode"] == "wrap" else np.minimum(number, np.uint32(32))


@op("bfe", ".type d, a, b:u32, c:u32", type=_LONG)
def _extract(_: Qualifiers, a: Values, b: Values, c: Values) -> Any:
    start, count = (each & np.uint32(0xFF) for each in (b, c))
    up = (8 * a.itemsize - np.minimum(count, 8 * a.itemsize)).astype(a.dtype)
    return a >> start.astype(a.dtype) << up >> up


@op("bfi", ".type d, a, b, c:u32, e:u32", type=_LONG_RAW)
def _insert(_: Qualifiers, a: Values, b: Values, c: Values, d: Values) -> Any:
    place = (c & np.uint32(0xFF)).astype(a.dtype)
    mask = _ones(d & np.uint32(0xFF), 8 * a.itemsize) << place
    return (b & ~mask) | (a << place & mask)


@op("lop3", ".b32 d, a, b, c, table:imm8")
@op("lop3", ".bool.b32 d|p:pred, a, b, c, table:imm8, e:pred", bool="and or")
def _look_up(q: Qualifiers, a: Values, b: Values, c: Values, *held: Values) -> Any:
    """Look up every bit of three words in a table of eight.

    With a predicate that is held, return what it makes of whether a bit is set, too.
    """
    result = (a ^ a) & b & c
    for row in range(8):
        if q["table"] >> row & 1:
            x, y, z = (w if row & bit else ~w for w, bit in ((a, 4), (b, 2), (c, 1)))
            result = result | (x & y & z)
    if not held:
        return result
    some = result != 0
    return result, some | held[0] if q["bool"] == "or" else some & held[0]


_PLACES = np.arange(32)


@op("fns", ".b32 d, a, b, c:s32")
def _find_nth(_: Qualifiers, mask: Values, base: Values, offset: Values) -> Any:
    """Return the place of a set bit that is so many from a place on, upwards or down."""
    bits = (mask[..., None] >> _PLACES.astype(np.uint32) & np.uint32(1)) != 0
    start, count = base.astype(np.int64)[..., None], offset.astype(np.int64)[..., None]
    ahead = np.sign(count) * (_PLACES - start)
    bits = bits & (start < 32) & np.where(count == 0, start == _PLACES, ahead >= 0)
    upward, downward = bits.cumsum(axis=-1), bits[..., ::-1].cumsum(axis=-1)[..., ::-1]
    rank = np.where(count < 0, downward, upward)
    wanted = bits & (rank == np.maximum(np.abs(count), 1))
    found = np.where(wanted.any(axis=-1), wanted.argmax(axis=-1), 0xFFFF_FFFF)
    return found.astype(np.uint32)


@op("cvt.pack.sat", ".to.origin d:b32, a:s32, b:s32", to="u16 s16", origin="s32")
@op("cvt.pack.sat", ".to.origin.b32 d:b32, a:s32, b:s32, c:b32", to="u2 s2 u4 s4 u8 s8",
    origin="s32")  # fmt: skip
def _pack(q: Qualifiers, a: Values, b: Values, *c: Values) -> Any:
    """Clamp two numbers to few bits; put b, a and then c from the lowest bit on."""
    size = int(q["to"][1:])
    lowest = -(1 << (size - 1)) if q["to"][0] == "s" else 0
    ones = (1 << size) - 1
    result = c[0] << np.uint32(2 * size) if c else np.uint32(0)
    for place, each in ((size, a), (0, b)):
        kept = np.clip(each, lowest, lowest + ones).astype(np.uint32) & np.uint32(ones)
        result = result | kept << np.uint32(place)
    return result


def _pair(a: Values, b: Values) -> Any:
    """Return b:a, words of 64 bits."""
    return (b.astype(np.uint64) << np.uint64(32)) | a


@op("shf", ".side.mode.b32 d, a, b, c", side="l r")
def _funnel(q: Qualifiers, a: Values, b: Values, c: Values) -> Any:
    whole, by = _pair(a, b), _length(q, c).astype(np.uint64)
    shifted = whole << by >> np.uint64(32) if q["side"] == "l" else whole >> by
    return shifted.astype(np.uint32)


# The four bytes that each mode selects from the eight of b:a, by the selector's low two bits.
_PERMUTED = {
    mode: [[*map(int, chosen)] for chosen in given.split()]
    for mode, given in {
        "f4e": "0123 1234 2345 3456",
        "b4e": "0765 1076 2107 3210",
        "rc8": "0000 1111 2222 3333",
        "ecl": "0123 1123 2223 3333",
        "ecr": "0000 0111 0122 0123",
        "rc16": "0101 2323 0101 2323",
    }.items()
}


@op("prmt", ".b32{.mode} d, a, b, c", mode=" ".join(_PERMUTED))
def _permute(q: Qualifiers, a: Values, b: Values, c: Values) -> Any:
    """Choose four of the eight bytes of b:a, or their signs."""
    if q["mode"]:
        chosen = np.array(_PERMUTED[q["mode"]])[c & np.uint32(3)]
    else:
        chosen = (c[..., None] >> np.arange(0, 16, 4, dtype=np.uint32)).astype(np.int64) & 15
    given = parts(_pair(a, b), "u1")
    shape = np.broadcast_shapes(given.shape[:-1], c.shape)
    given, chosen = np.broadcast_to(given, (*shape, 8)), np.broadcast_to(chosen, (*shape, 4))
    found = np.take_along_axis(given, chosen & 7, axis=-1)
    signs = np.where(found >> np.uint8(7), np.uint8(0xFF), np.uint8(0))
    return np.where(chosen & 8, signs, found).view(np.uint32)[..., 0]


_VIDEO: dict[str, Callable[[Any, Any], Any]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    # Halves are rounded up, of sums below zero down.
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vshl": np.left_shift,
    "vshr": np.right_shift,
}
_USUAL = {1: ("w0", "w0"), 2: ("h10", "h32"), 4: ("b3210", "b7654")}
"""What is selected of a and d, and of b, where nothing is said, by how many numbers a word is."""
_BYTES, _NO_WORD = {"b": 1, "h": 2, "w": 4}, np.zeros((1, 1), np.uint32)
_SELECTABLE = (r"b[0-3]|h[01]",) * 2, (r"h1?0?", r"h[0-3]{2}"), (r"b(?=.)3?2?1?0?", r"b[0-7]{4}")
_SINGLE, _PAIRS, _FOURS = (
    {"dtype": _WORD, "second": "add min max", "cmp": " ".join(COMPARE), "selects": selects}
    for selects in _SELECTABLE
)
_BY_TWO = "vadd2 vsub2 vabsdiff2 vmin2 vmax2 vavrg2"
_KINDS, _TWO, _THREE = ".dtype.atype.btype", " d:u32, a:u32, b:u32", " d:u32, a:u32, b:u32, c:u32"


@op("vadd vsub vabsdiff vmin vmax", f"{_KINDS}{{.sat}}{_TWO}",
    f"{_KINDS}{{.sat}}{{.second}}{_THREE}", **_SINGLE)  # fmt: skip
@op("vset", f".atype.btype.cmp{_TWO}", f".atype.btype.cmp{{.second}}{_THREE}", **_SINGLE)
@op("vmad", f"{_KINDS}{{.po}}{{.sat}}{{.scale}}{_THREE}", scale="shr7 shr15", **_SINGLE)
@op("vshr", f".dtype.atype.u32{{.sat}}.mode{_TWO}",
    f".dtype.atype.u32{{.sat}}.mode{{.second}}{_THREE}", **_SINGLE)  # fmt: skip
# The page does not say how many bits of a left shift are clamped or compared.
@op("vshl", f".dtype.atype.u32.mode{_TWO}", f".dtype.atype.u32.mode{{.add}}{_THREE}", **_SINGLE)
@op(_BY_TWO, f"{_KINDS}{{.sat}}{_THREE}", f"{_KINDS}{{.add}}{_THREE}", **_PAIRS)
@op(_BY_TWO.replace("2", "4"), f"{_KINDS}{{.sat}}{_THREE}", f"{_KINDS}{{.add}}{_THREE}", **_FOURS)
@op("vset2", f".atype.btype.cmp{{.add}}{_THREE}", **_PAIRS)
@op("vset4", f".atype.btype.cmp{{.add}}{_THREE}", **_FOURS)
def _video(q: Qualifiers, a: Values, b: Values, c: Values = _NO_WORD) -> Any:
    """Compute with numbers of words; sum them up onto c, or put them in place of parts of c."""
    name = q["op"].rstrip("24")
    count = int(q["op"][len(name) :] or 1)
    first, second = _USUAL[count]
    if count > 1:
        a = b = _pair(a, b)
    x, y = _numbers(a, q["atype"], q["a"] or first), _numbers(b, q["btype"], q["b"] or second)
    signed = q["dtype"] == "s32"
    if q["mode"]:
        y = np.minimum(y, 32) if q["mode"] == "clamp" else y & 31
    if name == "vmad":
        signed = "s32" in (q["atype"], q["btype"])
        found = x * y + _numbers(c, "s32" if signed else "u32", "w0") + (q["po"] != "")
        # 64 bits hold every sum, with a sign or without one.
        found = found if signed else found.view(np.uint64)
        found = found >> found.dtype.type(int(q["scale"][3:] or 0))
    else:
        found = COMPARE[q["cmp"]](x, y).astype(np.int64) if q["cmp"] else _VIDEO[name](x, y)
    target = q["d"] or first
    width, places = _BYTES[target[0]], [int(digit) for digit in target[1:]]
    if q["sat"]:
        limits = np.iinfo(f"{'i' if signed else 'u'}{width}")
        found = np.clip(found, limits.min, limits.max)
    if count > 1:
        found = found[..., places]
    if second := q["second"] or q["add"]:
        # What was not clamped is a number of 33 bits with a sign.
        total = found.sum(axis=-1, keepdims=True) << 31 >> 31
        result = (LINEAR | ORDERED)[second](total, _numbers(c, q["dtype"], "w0"))
        return result[..., 0].astype(np.uint32)
    shape = np.broadcast_shapes(found.shape[:-1], c.shape)
    result = parts(np.broadcast_to(c, shape), f"u{width}").copy()
    result[..., places] = found.astype(f"u{width}")
    return result.view(np.uint32)[..., 0]


def _numbers(words: Values, kind: str, selected: str) -> Any:
    """Return the numbers selected of words, the lowest first, along an axis of their own."""
    given = parts(words, f"{'i' if kind == 's32' else 'u'}{_BYTES[selected[0]]}")
    return given[..., [int(digit) for digit in selected[:0:-1]]].astype(np.int64)
