"""Bits (9.7.1, 9.7.8), moves (9.7.9), comparisons (9.7.6, .7), lanes that read others (9.7.13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import flushed, where
from oracle.isa.forms import FORMATS, Format
from oracle.scalar.floats import values
from oracle.scalar.integers import (
    CLASSES,
    COMPARED,
    FIRST,
    INTEGERS,
    S32,
    U32,
    WORDS,
    Bits,
    Bools,
    Function,
    Immediate,
    Integer,
    ScalarInstruction,
    Since,
    anything,
    lean,
    patterns,
    row,
)

_BYTE = Immediate(0, 255)
"""Positions and lengths of bit fields: "restricted to the 8-bit value range 0..255"."""
_SIZES = (16, 32, 64)
_NONE = 0xFFFF_FFFF
"""What bfind and fns return where they find nothing."""


def _ones(a: Bits) -> Bits:
    """Return how many bits are set, with the type of the patterns."""
    kind, bits = a.dtype.type, a.dtype.itemsize * 8
    every = (1 << bits) - 1
    pairs = a - ((a >> kind(1)) & kind(every // 3))
    fours = (pairs & kind(every // 5)) + ((pairs >> kind(2)) & kind(every // 5))
    eights = (fours + (fours >> kind(4))) & kind(every // 17)
    ones: Bits = eights * kind(every // 255) >> kind(bits - 8)
    return ones


def _leading_zeros(a: Bits) -> Bits:
    """Return how many bits above the first that is set are not, with the type of the patterns."""
    kind, bits = a.dtype.type, a.dtype.itemsize * 8
    below = a
    for step in (1, 2, 4, 8, 16, 32)[: 5 if bits == 32 else 6]:
        below = below | below >> kind(step)
    zeros: Bits = kind(bits) - _ones(below)
    return zeros


def _first(t: Integer, amount: bool, a: Bits) -> Bits:
    a = where(t.of(a) < 0, ~a, a)
    zeros = patterns(_leading_zeros(a), 32)
    found = zeros if amount else np.uint32(t.bits - 1) - zeros
    return where(a == 0, np.uint32(_NONE), found)


def _reversed(a: Bits) -> Bits:
    kind, bits = a.dtype.type, a.dtype.itemsize * 8
    every = (1 << bits) - 1
    for step in (1, 2, 4):
        low = kind(every // ((1 << step) + 1))
        a = (a & low) << kind(step) | (a >> kind(step)) & low
    return a.byteswap()


def _nth(mask: Bits, base: Bits, offset: Bits) -> Bits:
    # Down from the base is up in reverse; with 0, the bit at the base alone is looked at.
    down = offset.view(np.int32) < 0
    bits, start = where(down, _reversed(mask), mask), where(down, 31 - base, base)
    there = shifted_left(np.ones_like(bits), start)
    bits &= where(offset == 0, there, np.uint32(0) - there)
    left = np.maximum(where(down, np.uint32(0) - offset, offset), 1)
    found = np.zeros_like(bits)
    none = left > _ones(bits)
    for half in (16, 8, 4, 2, 1):
        # Behind those of the lower half of what is left?
        lower = _ones(bits >> found & np.uint32((1 << half) - 1))
        behind = left > lower
        found += behind * np.uint32(half)
        left -= behind * lower
    return where(none, np.uint32(_NONE), where(down, 31 - found, found))


def shifted_left(a: Bits, amount: Bits) -> Bits:
    """Shift left; from the width of the register on, nothing is left (9.7.8.8)."""
    bits = a.dtype.itemsize * 8
    return where(amount < bits, a << np.minimum(amount, bits - 1).astype(a.dtype), 0)


def shifted_right(t: Integer, a: Bits, amount: Bits) -> Bits:
    """Shift right; from the width of the register on, signs or zeros are left (9.7.8.9)."""
    clamped = np.minimum(amount, t.bits - 1).astype(a.dtype)
    numbers = t.of(a) >> t.of(clamped)
    if not t.signed:
        numbers = where(amount < t.bits, numbers, 0)
    return patterns(numbers, t.bits)


def _funnel(left: bool, clamp: bool, a: Bits, b: Bits, c: Bits) -> Bits:
    amount = (np.minimum(c, 32) if clamp else c & np.uint32(31)).astype(np.uint64)
    both = b.astype(np.uint64) << np.uint64(32) | a
    if left:
        return patterns(both << amount >> np.uint64(32), 32)
    return patterns(both >> amount, 32)


def _field(t: Integer, a: Bits, position: Bits, length: Bits) -> Bits:
    position, length = position & np.uint32(255), length & np.uint32(255)
    whole = Integer(t.bits, False)
    down = shifted_right(t, a, position)
    # A field that ends above the register is what the shift left, signs included.
    cut = (length < t.bits) & (position < t.bits) & (position + length < t.bits)
    away = where(cut, np.uint32(t.bits) - length, np.uint32(0))
    field = shifted_right(t, shifted_left(down, away), away)
    kept = where(cut, field, down)
    if not t.signed:
        kept = where(position < t.bits, kept, 0)
    return patterns(where(length == 0, 0, whole.of(kept)), t.bits)


def _inserted(a: Bits, b: Bits, position: Bits, length: Bits) -> Bits:
    position, length = position & np.uint32(255), length & np.uint32(255)
    every = ~a.dtype.type(0)
    mask = shifted_left(~shifted_left(every, length), position)
    return (b & ~mask) | (shifted_left(a, position) & mask)


def _extended(t: Integer, clamp: bool, a: Bits, b: Bits) -> Bits:
    bits = b & np.uint32(31)
    away = where(bits == 0, np.uint32(32), np.uint32(32) - bits)
    extended = shifted_right(t, shifted_left(a, away), away)
    result = where(bits == 0, np.uint32(0), extended)
    return where(b >= 32, a, result) if clamp else result


def _mask(clamp: bool, a: Bits, b: Bits) -> Bits:
    every: Any = np.uint32(_NONE)
    if not clamp:
        a, b = a & np.uint32(31), b & np.uint32(31)
    # Positions and widths are at most 32 from here on, and bits above the register are lost.
    return shifted_left(~shifted_left(every, b), a)


def _looked_up(a: Bits, b: Bits, c: Bits, table: Bits) -> Bits:
    found = [np.uint32(0) - (table >> np.uint32(entry) & np.uint32(1)) for entry in range(8)]
    for source in (c, b, a):
        # One of each two, as a bit of the source says: the entries that are left.
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [off ^ (source & (off ^ on)) for off, on in pairs]
    return found[0]


def _permuted(a: Bits, b: Bits, selector: Bits) -> Bits:
    result: Bits = np.zeros(1, np.uint32)
    for at in range(4):
        chosen = selector >> np.uint32(4 * at)
        word = where(chosen & 4 != 0, b, a)
        if (by_sign := chosen & 8 != 0).any():
            signs = (word >> np.uint32(7) & np.uint32(0x0101_0101)) * np.uint32(0xFF)
            word = where(by_sign, signs, word)
        byte = word >> (chosen & 3) * np.uint32(8) & np.uint32(0xFF)
        result = result | byte << np.uint32(8 * at)
    return result


PERMUTATIONS = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""Modes of prmt: which bytes the two lowest bits of the selector choose (9.7.9.7, table)."""


_SM_20 = ((2, 0), 20)


def _logic() -> Iterator[ScalarInstruction]:
    binary = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    for at, (name, function) in enumerate(binary.items(), 1):
        for register in ("pred", "b16", "b32", "b64"):
            constants = {} if register == "pred" else anything(2, register)
            yield row(
                f"{name}.{register}", f"9.7.8.{at}", register, f"{register} {register}",
                function, immediates=constants,
            )  # fmt: skip
    for register in ("pred", "b16", "b32", "b64"):
        yield row(f"not.{register}", "9.7.8.4", register, register, partial(np.invert))
        if register != "pred":
            yield row(
                f"cnot.{register}", "9.7.8.5", register, register,
                lambda a: (a == 0).astype(a.dtype),
            )  # fmt: skip
    table = {3: Immediate(0, 255, True)}
    yield row(
        "lop3.b32", "9.7.8.6", "b32", "b32 b32 b32 b32", lean(_looked_up), ((4, 3), 50),
        immediates=anything(3) | table,
    )  # fmt: skip
    for name, combine in (("or", np.logical_or), ("and", np.logical_and)):
        yield row(
            f"lop3.{name}.b32", "9.7.8.6", "b32 pred", "b32 b32 b32 b32 pred",
            lambda a, b, c, table, q, combine=combine: (
                result := lean(_looked_up)(a, b, c, table), combine(result != 0, q),
            ),
            ((8, 2), 70), immediates=table,
        )  # fmt: skip


def _shifts() -> Iterator[ScalarInstruction]:
    for (direction, left), (mode, clamp) in product(
        (("l", True), ("r", False)), (("clamp", True), ("wrap", False))
    ):
        yield row(
            f"shf.{direction}.{mode}.b32", "9.7.8.7", "b32", "b32 b32 b32",
            lean(partial(_funnel, left, clamp)), ((3, 1), 32),
            immediates=anything(2) | {2: Immediate(0, 40)},
        )  # fmt: skip
    for bits in _SIZES:
        r, by = f"b{bits}", {1: Immediate(0, bits + 8)}
        yield row(f"shl.{r}", "9.7.8.8", r, f"{r} b32", lean(shifted_left), immediates=by)
        for letter in "bus":
            evaluate = lean(partial(shifted_right, Integer(bits, letter == "s")))
            yield row(f"shr.{letter}{bits}", "9.7.8.9", r, f"{r} b32", evaluate, immediates=by)


def _fields() -> Iterator[ScalarInstruction]:
    for t in INTEGERS:
        if t.bits == 16:
            continue
        r = t.register
        yield row(
            f"bfe.{t.name}", "9.7.1.19", r, f"{r} b32 b32", lean(partial(_field, t)), _SM_20,
            immediates={1: _BYTE, 2: _BYTE},
        )  # fmt: skip
        for amount, name in enumerate(("bfind", "bfind.shiftamt")):
            evaluate = partial(_first, t, bool(amount))
            yield row(f"{name}.{t.name}", "9.7.1.16", "b32", r, evaluate, _SM_20)
    for r in ("b32", "b64"):
        for name, part, function in (("popc", 14, _ones), ("clz", 15, _leading_zeros)):
            yield row(
                f"{name}.{r}", f"9.7.1.{part}", "b32", r,
                lambda a, function=function: patterns(function(a), 32), _SM_20,
            )  # fmt: skip
        yield row(f"brev.{r}", "9.7.1.18", r, r, _reversed, _SM_20)
        yield row(
            f"bfi.{r}", "9.7.1.20", r, f"{r} {r} b32 b32", lean(_inserted), _SM_20,
            immediates={2: _BYTE, 3: _BYTE},
        )  # fmt: skip
    newer, length = ((7, 6), 70), Immediate(0, 40)
    for mode, clamp in (("clamp", True), ("wrap", False)):
        for t in WORDS:
            yield row(
                f"szext.{mode}.{t.name}", "9.7.1.21", "b32", "b32 b32",
                lean(partial(_extended, t, clamp)), newer, immediates={1: length},
            )  # fmt: skip
        yield row(
            f"bmsk.{mode}.b32", "9.7.1.22", "b32", "b32 b32", lean(partial(_mask, clamp)), newer,
            immediates={0: length, 1: length},
        )  # fmt: skip
    # A base above 31 is undefined. The offset is .s32, and its magnitude is counted down; what that
    # of the least number is, the page leaves open, as that of abs (9.7.1.10) does.
    yield row(
        "fns.b32", "9.7.1.17", "b32", "b32 b32 b32", _nth, ((6, 0), 30),
        immediates={1: Immediate(0, 31, True)},
        defined=lambda mask, base, offset: offset != 0x8000_0000,
    )  # fmt: skip


def _permutations() -> Iterator[ScalarInstruction]:
    yield _permutation("", _permuted, 0xFFFF)
    for mode, codes in PERMUTATIONS.items():
        table = np.array(codes, np.uint32)
        yield _permutation(
            f".{mode}", lambda a, b, c, table=table: _permuted(a, b, table[c & np.uint32(3)]), 3
        )


def _permutation(mode: str, function: Function, most: int) -> ScalarInstruction:
    constants = anything(2) | {2: Immediate(0, most)}
    name = f"prmt.b32{mode}"
    return row(name, "9.7.9.7", "b32", "b32 b32 b32", lean(function), _SM_20, immediates=constants)


def _packed(kind: type[np.generic], *parts: Bits) -> Bits:
    """Put registers into a wider one, the first lowest (9.7.9.4)."""
    packed: Bits = np.stack(parts, axis=-1).view(kind)[..., 0]
    return packed


def _unpacked(kind: type[np.generic], a: Bits) -> tuple[Bits, ...]:
    parts = np.ascontiguousarray(a).view(kind).reshape(*a.shape, -1)
    return tuple(parts[..., at] for at in range(parts.shape[-1]))


def _moves() -> Iterator[ScalarInstruction]:
    for r in CLASSES:
        constants = {} if r == "pred" else anything(1, r)
        yield row(f"mov.{r}", "9.7.9.3", r, r, lambda a: a, immediates=constants)
    for wide, narrow, count in (("b32", "b16", 2), ("b64", "b32", 2), ("b64", "b16", 4)):
        parts, more = " ".join([narrow] * count), count if count > 2 else ""
        packs, unpacks = partial(_packed, CLASSES[wide]), partial(_unpacked, CLASSES[narrow])
        yield row(f"mov.{wide}.pack{more}", "9.7.9.4", wide, parts, packs)
        yield row(f"mov.{wide}.unpack{more}", "9.7.9.4", parts, wide, unpacks)


_LANES = np.arange(32, dtype=np.uint32)
_ALL = 0xFFFF_FFFF
"""Membermask of a whole warp."""
_SM_30 = ((6, 0), 30)


def _source_lane(mode: str, b: Bits, clamp: Bits) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return from which lane each lane reads, and whether that lane is in range."""
    offset, bound, segment = b & 31, clamp & 31, clamp >> 8 & 31
    lane = _LANES.astype(np.int64)
    least = lane & segment
    most = least | bound & ~segment
    offset = offset.astype(np.int64)
    at = {
        "up": lane - offset,
        "down": lane + offset,
        "bfly": lane ^ offset,
        "idx": least | offset & ~segment.astype(np.int64),
    }[mode]
    inside = at >= most if mode == "up" else at <= most
    return where(inside, at, lane), inside


def _shuffled(mode: str, a: Bits, b: Bits, clamp: Bits, _: Bits) -> tuple[Bits, ...]:
    at, inside = _source_lane(mode, b, clamp)
    return np.take_along_axis(a, at, axis=-1), inside


def _over_warp(function: np.ufunc, a: Bits) -> Bits:
    """Give every lane the reduction over its warp."""
    reduced = function.reduce(a, axis=-1, keepdims=True, dtype=a.dtype)
    return np.broadcast_to(reduced, a.shape).copy()


_VOTES: dict[str, Function] = {
    "all.pred": lambda a, _: _over_warp(np.logical_and, a),
    "any.pred": lambda a, _: _over_warp(np.logical_or, a),
    "uni.pred": lambda a, _: _over_warp(np.logical_and, a) | ~_over_warp(np.logical_or, a),
    "ballot.b32": lambda a, _: _over_warp(np.bitwise_or, a.astype(np.uint32) << _LANES),
}
_REDUCTIONS: dict[str, tuple[np.ufunc, Integer]] = {
    "add.u32": (np.add, U32), "add.s32": (np.add, S32), "min.u32": (np.minimum, U32),
    "min.s32": (np.minimum, S32), "max.u32": (np.maximum, U32), "max.s32": (np.maximum, S32),
    "and.b32": (np.bitwise_and, U32), "or.b32": (np.bitwise_or, U32),
    "xor.b32": (np.bitwise_xor, U32),
}  # fmt: skip


def _equal(a: Bits, _: Bits) -> Bits:
    same = (a[..., :, None] == a[..., None, :]).astype(np.uint32)
    return _over_warp(np.bitwise_or, same << _LANES)[..., 0]


def _all_equal(a: Bits, _: Bits) -> tuple[Bits, ...]:
    same = _over_warp(np.logical_and, a == a[..., :1])
    return where(same, np.uint32(_ALL), np.uint32(0)), same


def _of_warps() -> Iterator[ScalarInstruction]:
    """Rows in which lanes read each other: 9.7.9.6 and 9.7.13.9 to 9.7.13.12."""
    rows: list[tuple[str, str, str, str, Callable[..., Any], Since]] = [
        (f"shfl.sync.{mode}.b32", "9.7.9.6", "b32 pred", "b32 b32 b32", partial(_shuffled, mode),
         _SM_30)
        for mode in ("up", "down", "bfly", "idx")
    ]  # fmt: skip
    for mode, function in _VOTES.items():
        kind = mode.partition(".")[2]
        rows.append((f"vote.sync.{mode}", "9.7.13.9", kind, "pred", function, _SM_30))
    for kind in ("b32", "b64"):
        since = ((6, 0), 70)
        rows.append((f"match.any.sync.{kind}", "9.7.13.10", "b32", kind, _equal, since))
        rows.append((f"match.all.sync.{kind}", "9.7.13.10", "b32 pred", kind, _all_equal, since))
    for name, (reduce, t) in _REDUCTIONS.items():
        rows.append((
            f"redux.sync.{name}", "9.7.13.12", "b32", "b32",
            lambda a, _, reduce=reduce, t=t: patterns(_over_warp(reduce, t.of(a)), 32),
            ((7, 0), 80),
        ))  # fmt: skip
    for opcode, section, written, read, function, since in rows:
        # Five bits of each part of c count; the mask of segments stands in bits 8 to 12.
        shuffles = {1: Immediate(0, 31), 2: Immediate(0, 0x1F1F)} if read == "b32 b32 b32" else {}
        members = {len(read.split()): Immediate(_ALL, _ALL, True)}
        yield row(
            opcode, section, written, f"{read} b32", function, since,
            immediates=shuffles | members, warp=True,
        )  # fmt: skip


_UNSIGNED = {"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
_BOOLEANS: dict[str, Callable[..., Bools]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


_FLOAT_OPERATORS = (*COMPARED, *(f"{name}u" for name in COMPARED), "num", "nan")


class _Compared(NamedTuple):
    name: str
    register: str
    operators: tuple[str, ...]
    of: Callable[[str, bool, Bits, Bits], Bools]
    """Operator, whether subnormals count as zeros, and patterns: truths."""
    fmt: Format | None = None
    pair: bool = False
    since: Since = FIRST
    """Version and target of `setp`."""

    @property
    def half(self) -> bool:
        return self.fmt is not None and self.fmt.bits == 16


def _of_integers(t: Integer, name: str, _: bool, a: Bits, b: Bits) -> Bools:
    return (COMPARED | _UNSIGNED)[name](t.of(a), t.of(b))


def _of_floats(fmt: Format, name: str, ftz: bool, a: Bits, b: Bits) -> Bools:
    """Compare by one of the fourteen operators of floats (9.3.1.2)."""
    if ftz:
        a, b = flushed(a, fmt), flushed(b, fmt)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        x, y = values(a, fmt), values(b, fmt)
        nan = np.isnan(x) | np.isnan(y)
        if name in ("num", "nan"):
            return np.equal(nan, name == "nan")
        holds = COMPARED[name[:2]](x, y)
    return np.logical_or(holds, nan) if name.endswith("u") else np.logical_and(holds, ~nan)


def _types() -> Iterator[_Compared]:
    for letter, bits in product("bus", (16, 32, 64)):
        operators = tuple(COMPARED)[: 2 if letter == "b" else 6]
        if letter == "u":
            operators += tuple(_UNSIGNED)
        of = partial(_of_integers, Integer(bits, letter == "s"))
        yield _Compared(f"{letter}{bits}", f"b{bits}", operators, of)
    since = {"f16": ((4, 2), 53), "bf16": ((7, 8), 90)}
    for name in ("f16", "bf16", "f32", "f64"):
        fmt = FORMATS[name]
        of = partial(_of_floats, fmt)
        first = since.get(name, FIRST)
        yield _Compared(name, f"b{fmt.bits}", _FLOAT_OPERATORS, of, fmt, False, first)
        if fmt.bits == 16:
            yield _Compared(f"{name}x2", "b32", _FLOAT_OPERATORS, of, fmt, True, first)


def _combined(
    type_: _Compared, name: str, ftz: bool, boolean: str, a: Bits, b: Bits, *rest: Bools,
    complement: int = 0,
) -> list[Bools]:  # fmt: skip
    """Return what a comparison says, combined: one array, or two, halves or complements."""
    if type_.pair:
        both = type_.of(name, ftz, *(np.ascontiguousarray(one).view(np.uint16) for one in (a, b)))
        truths = [both[..., 0::2], both[..., 1::2]]
    else:
        truths = [type_.of(name, ftz, a, b)]
    if len(truths) < complement:
        truths.append(~truths[0])
    return [_BOOLEANS[boolean](truth, *rest) for truth in truths] if boolean else truths


def _predicates(outputs: int, *given: Any) -> Any:
    """Compute `setp`: of pairs a predicate for each half, else the second one of the complement."""
    truths = _combined(*given, complement=outputs)
    return truths[0] if outputs == 1 else tuple(truths)


def _word(true: int, register: str, *given: Any) -> Bits:
    """Compute `set`: the pattern `true` where the comparison holds, in each half of pairs."""
    kind = np.uint32 if register == "b32" else np.uint16
    truths = _combined(*given)
    result = np.zeros(truths[0].shape, kind)
    for at, truth in enumerate(truths):
        result |= where(truth, kind(true << 16 * at), kind(0))
    return result


_TRUE = {
    "u16": 0xFFFF, "u32": 0xFFFF_FFFF, "f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F80_0000,
}  # fmt: skip
"""What `set` writes for true: all ones, or 1.0; of s16 and s32 there are no rows."""


def _destinations(type_: _Compared) -> dict[str, int]:
    """Return what `set` may write for a type, with the pattern of true (of one half of pairs)."""
    if type_.pair:
        return {type_.name: _TRUE[type_.name.removesuffix("x2")], "u32": 0xFFFF}
    names = {"f16": ("u16", "u32", "f16"), "bf16": ("u16", "u32")}
    return {name: _TRUE[name] for name in names.get(type_.name, ("u32", "f32"))}


def _comparisons() -> Iterator[ScalarInstruction]:
    for type_ in _types():
        (version, target), part = type_.since, 7 if type_.half else 6
        newer = max(version, (6, 5)) if type_.half else version
        flushes = ("", "ftz") if type_.name in ("f16", "f16x2", "f32") else ("",)
        constants = {} if type_.fmt else anything(2, type_.register)
        for name, boolean, ftz in product(type_.operators, ("", *_BOOLEANS), flushes):
            words = ".".join(word for word in (name, boolean, ftz) if word)
            sources = f"{type_.register} {type_.register}{' pred' if boolean else ''}"
            given = type_, name, bool(ftz), boolean
            outputs = 2 if type_.pair or (boolean and not type_.half) else 1
            yield row(
                f"setp.{words}.{type_.name}", f"9.7.{part}.2", " ".join(["pred"] * outputs),
                sources, partial(_predicates, outputs, *given), type_.since, immediates=constants,
            )  # fmt: skip
            for destination, true in _destinations(type_).items():
                register = "b16" if destination.endswith("16") else "b32"
                yield row(
                    f"set.{words}.{destination}.{type_.name}", f"9.7.{part}.1", register, sources,
                    partial(_word, true, register, *given), (newer, target), immediates=constants,
                )  # fmt: skip


def _selected_by_sign(ftz: bool, a: Bits, b: Bits, c: Bits) -> Bits:
    fmt = FORMATS["f32"]
    return where(values(flushed(c, fmt) if ftz else c, fmt) >= 0.0, a, b)  # NaN selects b


_SELECTIONS: tuple[tuple[str, str, str, Callable[..., Any]], ...] = (
    ("selp.{}", "pred", "9.7.6.3", lambda a, b, c: where(c, a, b)),
    ("slct.{}.s32", "b32", "9.7.6.4", lambda a, b, c: where(c.view(np.int32) >= 0, a, b)),
    ("slct.{}.f32", "b32", "9.7.6.4", partial(_selected_by_sign, False)),
    ("slct.ftz.{}.f32", "b32", "9.7.6.4", partial(_selected_by_sign, True)),
)


def _with_sign_of(fmt: Format, a: Bits, b: Bits) -> Bits:
    kind = a.dtype.type
    result: Bits = a & kind(fmt.magnitude + 1) | b & kind(fmt.magnitude)
    return result


_TESTS: dict[str, Callable[[Bits, Format], Bools]] = {
    "finite": lambda size, fmt: size < fmt.infinity,
    "infinite": lambda size, fmt: size == fmt.infinity,
    "number": lambda size, fmt: size <= fmt.infinity,
    "notanumber": lambda size, fmt: size > fmt.infinity,
    "normal": lambda size, fmt: (size < fmt.infinity) & ~_TESTS["subnormal"](size, fmt),  # and 0
    "subnormal": lambda size, fmt: (size > 0) & (size < 1 << fmt.fraction_bits),
}
"""Of patterns without their signs."""


def _tested(name: str, fmt: Format, a: Bits) -> Bools:
    return _TESTS[name](a & a.dtype.type(fmt.magnitude), fmt)


def _selections() -> Iterator[ScalarInstruction]:
    types = [f"{letter}{bits}" for letter, bits in product("bus", (16, 32, 64))]
    for type_, (opcode, last, section, function) in product((*types, "f32", "f64"), _SELECTIONS):
        r = f"b{type_[1:]}"
        yield row(
            opcode.format(type_), section, r, f"{r} {r} {last}", function,
            immediates={} if "f" in type_ else anything(2, r),
        )  # fmt: skip


def _tests() -> Iterator[ScalarInstruction]:
    since = ((2, 0), 20)
    for fmt in (FORMATS["f32"], FORMATS["f64"]):
        r = f"b{fmt.bits}"
        for name in _TESTS:
            test = partial(_tested, name, fmt)
            yield row(f"testp.{name}.{fmt.name}", "9.7.3.1", "pred", r, test, since)
        sign = partial(_with_sign_of, fmt)
        yield row(f"copysign.{fmt.name}", "9.7.3.2", r, f"{r} {r}", sign, since)


ROWS = (*_moves(), *_logic(), *_shifts(), *_fields(), *_permutations())
OF_WARPS = tuple(_of_warps())
COMPARISONS = (*_comparisons(), *_selections(), *_tests())
