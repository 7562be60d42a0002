"""Integers, bits, video, and what lanes of a warp say to each other: functions of rows of `scalar`.

Each takes the qualifiers of the opcode and its operands, signed where their type is; what it
returns is written raw. Source: PTX ISA 9.7.1 (integer arithmetic), 9.7.2 (extended precision),
9.7.8 (logic and shift), 9.7.9.6 (shfl), 9.7.9.7 (prmt), 9.7.13.9 to .12 and .15 (vote, match,
activemask, redux, elect), 9.7.18 (video, whose pseudocode has numbers of 33 and 34 bits; here they
have 64).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.fused import leading
from runners.simulated.warps import LANES, Values


class Qualifiers(dict[str, Any]):
    """Qualifiers of an opcode: the word for each name in the pattern of its row."""

    def __missing__(self, _: str) -> str:
        return ""


def magnitude(values: Values) -> Any:
    """Return absolute values, unsigned, so that the lowest number has one, too."""
    return np.abs(values).view(f"u{values.itemsize}")


def divide(_: Qualifiers, a: Values, b: Values) -> Any:
    """Divide toward zero. By zero: all ones, as the device's own code for it gives."""
    left, right = magnitude(a), magnitude(b)
    one = left.dtype.type(1)
    quotient = left // np.maximum(right, one)
    quotient = np.where((a < 0) != (b < 0), ~quotient + one, quotient)
    return np.where(right == 0, ~left.dtype.type(0), quotient)


def remainder(_: Qualifiers, a: Values, b: Values) -> Any:
    """Return what division toward zero leaves, with the dividend's sign; of zero: the dividend."""
    left, right = magnitude(a), magnitude(b)
    one = left.dtype.type(1)
    rest = np.where(right == 0, left, left % np.maximum(right, one))
    return np.where(a < 0, ~rest + one, rest)


def high_product(_: Qualifiers, a: Values, b: Values) -> Any:
    """Return the upper half of a product of twice the width."""
    bits = 8 * a.itemsize
    wide: Any = object if bits == 64 else f"{a.dtype.kind}{2 * a.itemsize}"
    return (a.astype(wide) * b.astype(wide) >> bits).astype(a.dtype)


def clamped(wide: Values) -> Any:
    """Clamp numbers of 64 bits to 32 (.sat)."""
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def amount(a: Values, b: Values) -> Any:
    """Return what to shift by (shl, shr): NumPy leaves nothing, or the sign, from the width on."""
    most = b if a.itemsize > 2 else np.minimum(b, np.uint32(8 * a.itemsize))
    return most.astype(a.dtype, copy=False)


def by_24_bits(q: Qualifiers, a: Values, b: Values, *c: Values) -> Any:
    """Multiply the low 24 bits of each, extended; take the low or high 32 of the product's 48."""
    eight = a.dtype.type(8)
    x, y = ((each << eight >> eight).astype(f"{a.dtype.kind}8") for each in (a, b))
    product = (x * y >> (16 if q["part"] == "hi" else 0)).astype(a.dtype)
    return clamped(product.astype(np.int64) + c[0]) if q["sat"] else sum(c, product)


def with_carry(q: Qualifiers, a: Values, b: Values, *rest: Values) -> tuple[Any, Any, Any]:
    """Add, subtract, or multiply and add; the carry that comes in is last.

    Return the sum, and the flag as additions and as subtractions read it: by the words of the ISA
    the same (9.7.2, a borrow is 1).
    """
    unsigned = f"u{a.itemsize}"
    if q["op"].startswith("mad"):
        product = a * b if q["part"] == "lo" else high_product(q, a, b)
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


def with_carry_otherwise(q: Qualifiers, *values: Values) -> tuple[Any, Any, Any]:
    """Do the same, but let additions read the opposite of a borrow, and subtractions of a carry.

    So does the machine code of ptxas 11.8, 12.4, 12.8 and 13.4 at -O0 and -O3 for sm_80
    (disassembled, 2026-11-28), which subtracts by adding the complement.
    """
    total, flag, _ = with_carry(q, *values)
    subtracts = q["op"].startswith("sub")
    return total, flag ^ subtracts, flag ^ (not subtracts)


def parts(words: Values, dtype: str) -> Any:
    """Return the parts of words, the low ones first, along an axis of their own."""
    return np.ascontiguousarray(words)[..., None].view(dtype)


def dot(q: Qualifiers, a: Values, b: Values, c: Values) -> Any:
    """Add a dot product of four bytes with four (dp4a), or of two halves with two (dp2a)."""
    count = int(q["op"][2])
    signs = {"u32": "u", "s32": "i"}
    x = parts(a, f"{signs[q['atype']]}{4 // count}").astype(np.int64)
    y = parts(b, f"{signs[q['btype']]}1")
    chosen = y[..., 2:] if q["part"] == "hi" else y[..., :count]
    return ((x * chosen).sum(axis=-1) + c).astype(np.uint32)


def population(words: Values) -> Any:
    """Return the number of set bits of each unsigned word, by pairs, fours and bytes."""
    words = words.astype(np.uint64, copy=False)
    pairs = words - ((words >> np.uint64(1)) & np.uint64(0x5555_5555_5555_5555))
    low = np.uint64(0x3333_3333_3333_3333)
    quads = (pairs & low) + ((pairs >> np.uint64(2)) & low)
    octets = (quads + (quads >> np.uint64(4))) & np.uint64(0x0F0F_0F0F_0F0F_0F0F)
    return ((octets * np.uint64(0x0101_0101_0101_0101)) >> np.uint64(56)).astype(np.int64)


def highest(values: Values) -> Any:
    """Return the index of the highest set bit, -1 where there is none."""
    return np.where(values == 0, -1, leading(values.astype(np.uint64)))


def find_highest(q: Qualifiers, a: Values) -> Any:
    """Return the place of the highest bit that is no sign bit, or how far it is from the top."""
    found = highest(np.where(a < 0, ~a, a).view(f"u{a.itemsize}"))
    if q["shiftamt"]:
        found = np.where(found < 0, found, 8 * a.itemsize - 1 - found)
    return found.astype(np.int32)


def reverse(_: Qualifiers, a: Values) -> Any:
    """Return the bits in the opposite order (brev)."""
    bits = np.unpackbits(parts(a, "u1"), axis=-1, bitorder="little")
    return np.packbits(bits[..., ::-1], axis=-1, bitorder="little").view(a.dtype)[..., 0]


def ones(number: Values, bits: int) -> Any:
    """Return numbers of so many low ones; all of them from the width on."""
    dtype = np.dtype(f"u{bits // 8}")
    return ~dtype.type(0) >> (bits - np.minimum(number, bits)).astype(dtype)


def length(q: Qualifiers, number: Values) -> Any:
    """Return a number of bits, of which a word has 32."""
    return number & np.uint32(31) if q["mode"] == "wrap" else np.minimum(number, np.uint32(32))


def extract(_: Qualifiers, a: Values, b: Values, c: Values) -> Any:
    """Take a field of c bits from bit b on, extended by its sign where the type is signed (bfe)."""
    start, count = (each & np.uint32(0xFF) for each in (b, c))
    up = (8 * a.itemsize - np.minimum(count, 8 * a.itemsize)).astype(a.dtype)
    return a >> start.astype(a.dtype) << up >> up


def insert(_: Qualifiers, a: Values, b: Values, c: Values, d: Values) -> Any:
    """Put the low d bits of a in place of those of b from bit c on (bfi)."""
    place = (c & np.uint32(0xFF)).astype(a.dtype)
    mask = ones(d & np.uint32(0xFF), 8 * a.itemsize) << place
    return (b & ~mask) | (a << place & mask)


def look_up(q: Qualifiers, a: Values, b: Values, c: Values, *held: Values) -> Any:
    """Look up every bit of three words in a table of eight (lop3).

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


def find_nth(_: Qualifiers, mask: Values, base: Values, offset: Values) -> Any:
    """Return the place of a set bit that is so many from a place on, upwards or down (fns)."""
    bits = (mask[..., None] >> _PLACES.astype(np.uint32) & np.uint32(1)) != 0
    start, count = base.astype(np.int64)[..., None], offset.astype(np.int64)[..., None]
    ahead = np.sign(count) * (_PLACES - start)
    bits = bits & (start < 32) & np.where(count == 0, start == _PLACES, ahead >= 0)
    upward, downward = bits.cumsum(axis=-1), bits[..., ::-1].cumsum(axis=-1)[..., ::-1]
    rank = np.where(count < 0, downward, upward)
    wanted = bits & (rank == np.maximum(np.abs(count), 1))
    found = np.where(wanted.any(axis=-1), wanted.argmax(axis=-1), 0xFFFF_FFFF)
    return found.astype(np.uint32)


def pack(q: Qualifiers, a: Values, b: Values, *c: Values) -> Any:
    """Clamp two numbers to few bits; put b, a and then c from the lowest bit on (cvt.pack)."""
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


def funnel(q: Qualifiers, a: Values, b: Values, c: Values) -> Any:
    """Shift two words as one of 64 bits, and take one of its halves (shf)."""
    whole, by = _pair(a, b), length(q, c).astype(np.uint64)
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
PERMUTATIONS = " ".join(_PERMUTED)


def permute(q: Qualifiers, a: Values, b: Values, c: Values) -> Any:
    """Choose four of the eight bytes of b:a, or their signs (prmt)."""
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


# Instructions by which the lanes of a warp know of each other. They are given, too, (32, warps)
# flags of the lanes that take part: those that are active, and named by the mask of members.

Flags = NDArray[np.bool_]
_LANE = np.arange(LANES)[:, None]
LANE_BITS = np.uint64(1) << _LANE.astype(np.uint64)


def flags(words: Values) -> Any:
    """Return (32, warps) whether each lane's bit is set."""
    return (words.astype(np.uint64) & LANE_BITS) != 0


def ballot(_: Qualifiers, part: Flags, *held: Values) -> Any:
    """Return (1, warps) words with a bit for each lane that takes part and holds true."""
    true = part & held[0] if held else part
    return np.where(true, LANE_BITS, np.uint64(0)).sum(axis=0, keepdims=True).astype(np.uint32)


def vote(q: Qualifiers, part: Flags, held: Values) -> Any:
    """Return whether any, or all, hold true, or all hold the same."""
    yes = (held & part).any(axis=0, keepdims=True)
    no = (~held & part).any(axis=0, keepdims=True)
    return {"any": yes, "all": ~no, "uni": ~(yes & no)}[q["mode"]]


def elect(_: Qualifiers, part: Flags, *, highest: bool = False) -> tuple[Any, Any]:
    """Choose the lowest or highest of the lanes that take part: which one is open (9.7.13.17)."""
    leader = (LANES - 1 - part[::-1].argmax(axis=0) if highest else part.argmax(axis=0))[None]
    return leader.astype(np.uint32), leader == _LANE


_REDUCE = {
    "add": (np.add, ""), "min": (np.minimum, "max"), "max": (np.maximum, "min"),
    "and": (np.bitwise_and, "max"), "or": (np.bitwise_or, ""), "xor": (np.bitwise_xor, ""),
}  # fmt: skip
"""Each with what changes nothing: a limit of the type, or zero."""


def reduce(q: Qualifiers, part: Flags, held: Values) -> Any:
    """Combine what the lanes hold (redux)."""
    compute, limit = _REDUCE[q["name"]]
    neutral = getattr(np.iinfo(held.dtype), limit) if limit else 0
    held = np.where(part, held, held.dtype.type(neutral))
    return compute.reduce(held, axis=0, keepdims=True, dtype=held.dtype)


def match(q: Qualifiers, part: Flags, held: Values) -> tuple[Any, Any]:
    """Find the lanes that hold the same value, and whether all do."""
    same = np.concatenate([ballot(q, part, held == held[lane]) for lane in range(LANES)])
    everybody = ballot(q, part)
    agree = np.where(part, same == everybody, True).all(axis=0, keepdims=True)
    return same if q["mode"] == "any" else np.where(agree, everybody, np.uint32(0)), agree


def shuffle(q: Qualifiers, _: Flags, held: Values, by: Values, bound: Values) -> tuple[Any, Any]:
    """Give each lane the register of another; say whether there is such a lane in its segment."""
    by, bound = by.astype(np.int64) & 0x1F, bound.astype(np.int64)
    segment = (bound >> 8) & 0x1F
    highest = (_LANE & segment) | (bound & 0x1F & ~segment)
    partner = {
        "up": _LANE - by,
        "down": _LANE + by,
        "bfly": _LANE ^ by,
        "idx": (_LANE & segment) | (by & ~segment),
    }[q["mode"]]
    valid = partner >= highest if q["mode"] == "up" else partner <= highest
    return np.take_along_axis(held, np.where(valid, partner, _LANE), axis=0), valid


# Video: integers of selected bytes or halves of 32-bit words.

COMPARE: dict[str, np.ufunc] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    # Halves are rounded up, of sums below zero down.
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vshl": lambda a, b: a << b,
    "vshr": lambda a, b: a >> b,
}
_SECOND = {"add": np.add, "min": np.minimum, "max": np.maximum}
VIDEO = ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
PACKED_VIDEO = tuple(f"{name}{count}" for name in (*VIDEO, "vavrg") for count in (2, 4))
_PARTS = {
    1: (r"b[0-3]|h[01]|", r"b[0-3]|h[01]|"),
    2: (r"h10?|h0|", r"h[0-3]{2}|"),
    4: (r"b(?=.)3?2?1?0?|", r"b[0-7]{4}|"),
}
"""Patterns of what may be selected of d, and of a and b, by how many numbers a word is."""
_USUAL = {2: ("10", "10", "32"), 4: ("3210", "3210", "7654")}
"""What is selected of d, a and b where nothing is said, the highest first."""
SELECTED = re.compile(r"(.+)\.([bh][0-7]+)")
"""A register, and what is selected of it."""


def _count(q: Qualifiers) -> int:
    return int(q["op"][-1]) if q["op"][-1].isdigit() else 1


def selects(q: Qualifiers, chosen: Sequence[str]) -> bool:
    """Return whether these may be selected of d, a, b and c, and whether c is there if needed."""
    target, source = _PARTS[_count(q)]
    d, a, b, *c = chosen
    if not re.fullmatch(target, d) or any(not re.fullmatch(source, each) for each in (a, b)):
        return False
    if q["op"] == "vmad" or _count(q) > 1:
        return len(c) == 1 and not (d and q["op"] == "vmad")
    return len(c) == bool(d or q["second"]) and not (d and q["second"])


def _numbers(words: Values, kind: str, bits: int, place: int) -> Any:
    """Return the numbers of a type that lie at a place of words, in units of their width."""
    narrow = (words >> words.dtype.type(bits * place)).astype(f"u{bits // 8}")
    return (narrow.view(f"i{bits // 8}") if kind[0] == "s" else narrow).astype(np.int64)


def _computed(q: Qualifiers, a: Any, b: Any, bits: int) -> Any:
    """Compute one number, and clamp it to a width."""
    if q["cmp"]:
        return COMPARE[q["cmp"]](a, b).astype(np.int64)
    found = _COMPUTE[q["op"].rstrip("24")](a, b)
    if not q["sat"]:
        return found
    lowest = -(1 << (bits - 1)) if q["dtype"] == "s32" else 0
    return np.clip(found, lowest, lowest + (1 << bits) - 1)


def _put(words: Values, found: Any, bits: int, place: int) -> Any:
    """Put numbers in place of a part of words."""
    up, mask = np.uint32(bits * place), np.uint32(((1 << bits) - 1) << bits * place)
    return (found.astype(np.uint32) << up & mask) | (words & ~mask)


def _width(part: str) -> int:
    return {"b": 8, "h": 16, "": 32}[part[:1]]


def _selected(q: Qualifiers, chosen: Sequence[str], *words: Values) -> Iterator[Any]:
    """Give the numbers that are selected of a and b."""
    for each, kind, part in zip(words, ("atype", "btype"), chosen[1:], strict=False):
        yield _numbers(each, q[kind] or "u32", _width(part), int(part[1:] or 0))


def _single(q: Qualifiers, chosen: Sequence[str], a: Values, b: Values, *c: Values) -> Any:
    """Compute a number; combine it with c, or put it in place of a part of c."""
    x, y = _selected(q, chosen, a, b)
    bits = _width(chosen[0])
    if q["mode"]:
        y = np.minimum(y, 32) if q["mode"] == "clamp" else y & 31
    found = _computed(q, x, y, bits)
    if q["second"]:
        # What was not clamped is a number of 33 bits with a sign.
        found = found << 31 >> 31
        found = _SECOND[q["second"]](found, _numbers(c[0], q["dtype"] or "u32", 32, 0))
    place = chosen[0][1:]
    return _put(c[0], found, bits, int(place)) if place else found.astype(np.uint32)


def _multiplied(q: Qualifiers, chosen: Sequence[str], a: Values, b: Values, c: Values) -> Any:
    """Multiply two numbers, add c, and 1 if that is asked for; take the sum's upper bits."""
    signed = "s32" in (q["atype"], q["btype"])
    x, y = _selected(q, chosen, a, b)
    z = _numbers(c, "s32" if signed else "u32", 32, 0)
    # 64 bits hold every sum, with a sign or without one.
    found: Any = x * y + z + (1 if q["po"] else 0)
    found = found if signed else found.view(np.uint64)
    found = found >> found.dtype.type(int(q["scale"].removeprefix("shr") or 0))
    if q["sat"]:
        limits = np.iinfo(np.int32 if signed else np.uint32)
        found = np.clip(found, limits.min, limits.max)
    return found.astype(np.uint32)


def _packed(q: Qualifiers, chosen: Sequence[str], a: Values, b: Values, c: Values) -> Any:
    """Compute two or four numbers; add them to c, or put them in place of parts of c."""
    count = _count(q)
    bits, given = 32 // count, _pair(a, b)
    at = [part[1:] or usual for part, usual in zip(chosen, _USUAL[count], strict=False)]
    total: Any = c.astype(np.int64) if q["add"] else c
    for place in map(int, at[0]):
        x, y = (
            _numbers(given, q[kind], bits, int(digits[count - 1 - place]))
            for digits, kind in ((at[1], "atype"), (at[2], "btype"))
        )
        found = _computed(q, x, y, bits)
        total = total + found if q["add"] else _put(total, found, bits, place)
    return np.asarray(total).astype(np.uint32)


def video(q: Qualifiers, chosen: Sequence[str], *words: Values) -> Any:
    """Compute a video instruction, of what is chosen of d, a, b and c."""
    many = _packed if _count(q) > 1 else _single
    return (_multiplied if q["op"] == "vmad" else many)(q, chosen, *words)
