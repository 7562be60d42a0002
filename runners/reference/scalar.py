"""Instructions of scalar code as operations of the interpreter, by the words of their opcodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oracle.isa.forms import Format, format_named
from oracle.models.figures import ROUNDINGS
from runners.reference.parts import (
    RELATIONS,
    Do,
    Made,
    Part,
    PartWriter,
    Value,
    format_word,
)

_TOGETHER = {"up": 0, "down": 1, "bfly": 2, "idx": 3}
"""Modes of shfl, and what else lanes do together, as in the interpreter."""
_IN_RANGE, _BALLOT, _MATCH = 4, 8, 9
_REDUCED = {"add": 10, "min": 11, "max": 12, "and": 13, "or": 14, "xor": 15}
_ALL = (1 << 64) - 1
_UNORDERED = 8
_MODES = {
    "f4e": 0x6543_5432_4321_3210, "b4e": 0x0123_7012_6701_5670, "rc8": 0x3333_2222_1111_0000,
    "ecl": 0x3333_3222_3211_3210, "ecr": 0x3210_2210_1110_0000, "rc16": 0x3232_1010_3232_1010,
}  # fmt: skip
"""Selectors that the modes of prmt stand for, 16 bits for each value of c (9.7.9.7)."""
_LOGIC = {"and": Do.BOTH, "or": Do.EITHER, "xor": Do.ONE_OF}


def _integer(name: str) -> tuple[int, bool]:
    """Return bits and sign of a type such as "s32" or "b16"."""
    return int(name[1:]), name[0] == "s"


def _is_float(name: str) -> bool:
    return name[0] == "f" or name.startswith(("bf", "e4m3", "e5m2", "tf"))


def _compared(name: str, x: Value, y: Value, *, unsigned: bool = False) -> Made:
    return Do.COMPARED, RELATIONS[name] | unsigned << 8, x, y


def _elements(name: str) -> tuple[str, int]:
    """Return the type of an element, and how many a register holds."""
    return (name[:-2], 2) if name.endswith("x2") else (name, 1)


def _each(
    lanes: PartWriter, count: int, size: int, sources: Sequence[Part],
    function: Callable[..., Made],
) -> list[Made]:  # fmt: skip
    """Do something with each element of registers."""
    if count == 1:
        return [function(*sources)]
    made = [
        function(*(one.of(size, shift=size * index) for one in sources)) for index in range(count)
    ]
    return [lanes.joined(size, made)]


def _taken(one: Part, bits: int, signed: bool) -> Part:
    """Return an element as a number of a type."""
    return one.of(bits, signed, one.shift)


# Instructions, by their first words: what each destination gets.


def _arithmetic(lanes: PartWriter, words: list[str], *sources: Part) -> list[Made]:
    """Make add, sub, mul, mad, fma, min, max and those with a carry."""
    name, fmt_name = words[0], words[-1]
    element, count = _elements(fmt_name)
    if _is_float(element):
        fmt = format_named(element)
        function = _float_extreme if name in ("min", "max") else _float_arithmetic
        return _each(
            lanes, count, fmt.bits, sources, lambda *some: function(lanes, words, fmt, *some)
        )
    bits, signed = _integer(element)
    if count > 1 or name in ("min", "max"):
        return _each(
            lanes, count, bits, sources,
            lambda a, b: _small(lanes, words, bits, signed, a, b),
        )  # fmt: skip
    x, y = sources[:2]
    less = name.startswith("sub")
    if name.startswith(("mul", "mad")):
        product = _product(lanes, words, bits, signed, x, y)
        if name == "mul":
            return [product]
        high = "hi" in words and "sat" in words
        x = lanes.made(*product, kind=f"b{2 * bits if 'wide' in words else bits}")
        y = sources[2]
        if high:
            x, y = _taken(x, 32, True), _taken(y, 32, True)
    elif "sat" in words:
        x, y = _taken(x, 32, True), _taken(y, 32, True)
    made: Made = (Do.DIFFERENCE if less else Do.SUM, 0, x, y)
    if "sat" in words:
        return [(Do.CLAMPED, 32 | 1 << 8, lanes.made(*made))]
    carries, borrowed = "cc" in words, Do.BORROWED if less else Do.CARRIED
    reads = name.endswith("c")
    if not (reads or carries):
        return [made]
    carry: Value = lanes.register("carry") if reads else 0
    results: list[Made] = [(made[0], 0, lanes.made(*made), carry)]
    if carries:
        results.append((borrowed, bits, x, y, carry))
    return results


def _small(lanes: PartWriter, words: list[str], bits: int, signed: bool, a: Part, b: Part) -> Made:
    a, b = _taken(a, bits, signed), _taken(b, bits, signed)
    if words[0] == "add":
        return Do.SUM, 0, a, b
    unsigned = bits == 64 and not signed
    made: Made = (Do.LEAST if words[0] == "min" else Do.GREATEST, int(unsigned), a, b)
    return (Do.GREATEST, 0, lanes.made(*made), 0) if "relu" in words else made


def _product(
    lanes: PartWriter, words: list[str], bits: int, signed: bool, a: Part, b: Part
) -> Made:
    a, b = _taken(a, bits, signed), _taken(b, bits, signed)
    if "hi" not in words:
        return Do.PRODUCT, 0, a, b
    if bits == 64:
        return Do.UPPER_PRODUCT, int(signed), a, b
    return Do.COPY, 0, lanes.made(Do.PRODUCT, 0, a, b).of(bits, shift=bits)


def _product24(lanes: PartWriter, words: list[str], *sources: Part) -> list[Made]:
    signed = words[-1] == "s32"
    a, b = (one.of(24, signed) for one in sources[:2])
    product = lanes.made(Do.PRODUCT, 0, a, b).of(32, True, 16 if words[1] == "hi" else 0)
    if words[0] == "mul24":
        return [(Do.COPY, 0, product)]
    sum_ = Do.SUM, 0, product, sources[2].of(32, True)
    return [(Do.CLAMPED, 32 | 1 << 8, lanes.made(*sum_)) if "sat" in words else sum_]


def _float_arithmetic(lanes: PartWriter, words: list[str], fmt: Format, *sources: Part) -> Made:
    a, b, *rest = lanes.flushed(fmt, "ftz" in words, *sources)
    rounding = next(word for word in words if word in ROUNDINGS)
    sign = 1 << (fmt.bits - 1)
    if words[0] in ("add", "sub"):
        if words[0] == "sub":
            b = lanes.made(Do.ONE_OF, 0, b, sign)
        operands: tuple[Value, ...] = (a, fmt.bias << fmt.fraction_bits, b)
    elif words[0] == "mul":
        signs = lanes.made(Do.ONE_OF, 0, a, b)
        operands = a, b, lanes.made(Do.BOTH, 0, signs, sign)
    else:
        operands = a, b, rest[0]
    how = format_word(fmt) | ROUNDINGS.index(rounding) << 24 | ("ftz" in words) << 27
    made = Do.FUSED, how, *operands
    return lanes.finished(fmt, words, made)


def _float_extreme(lanes: PartWriter, words: list[str], fmt: Format, *sources: Part) -> Made:
    a, b = lanes.flushed(fmt, "ftz" in words, *sources)
    what = format_word(fmt) | (words[0] == "max") << 24 | ("NaN" in words) << 25
    sign = 1 << (fmt.bits - 1)
    if "xorsign" not in words:
        return Do.EXTREME, what, a, b
    signs = lanes.made(Do.BOTH, 0, lanes.made(Do.ONE_OF, 0, a, b), sign)
    a, b = (lanes.made(Do.BOTH, 0, one, sign - 1) for one in (a, b))
    found = lanes.made(Do.EXTREME, what, a, b)
    nan = lanes.made(Do.COMPARED_FLOATS, format_word(fmt) | _UNORDERED << 24, found, found)
    return Do.CHOSEN, 0, sign - 1, lanes.made(Do.EITHER, 0, found, signs), nan


def _distance(lanes: PartWriter, words: list[str], a: Part, b: Part, c: Part) -> list[Made]:
    bits, signed = _integer(words[-1])
    a, b = _taken(a, bits, signed), _taken(b, bits, signed)
    unsigned = int(bits == 64 and not signed)
    ends = [lanes.made(what, unsigned, a, b) for what in (Do.GREATEST, Do.LEAST)]
    return [(Do.SUM, 0, lanes.made(Do.DIFFERENCE, 0, *ends), c)]


def _signed(lanes: PartWriter, words: list[str], a: Part) -> list[Made]:
    """Make neg and abs."""
    element, count = _elements(words[-1])
    if not _is_float(element):
        whole = a.of(a.bits, True)
        negated: Made = (Do.DIFFERENCE, 0, 0, whole)
        return [negated if words[0] == "neg" else (Do.GREATEST, 0, whole, lanes.made(*negated))]
    fmt = format_named(element)
    sign = 1 << (fmt.bits - 1)
    what = (Do.ONE_OF, 0, sign) if words[0] == "neg" else (Do.BOTH, 0, sign - 1)

    def make(a: Part) -> Made:
        return *what, *lanes.flushed(fmt, "ftz" in words, a)

    return _each(lanes, count, fmt.bits, (a,), make)


def _divided(lanes: PartWriter, words: list[str], a: Part, b: Part) -> list[Made]:
    bits, signed = _integer(words[-1])
    what = Do.QUOTIENT if words[0] == "div" else Do.REMAINDER
    return [(what, int(signed), a.of(bits, signed), b.of(bits, signed))]


def _dots(lanes: PartWriter, words: list[str], a: Part, b: Part, c: Part) -> list[Made]:
    (_, a_signed), (_, b_signed) = map(_integer, words[-2:])
    count, size = (4, 8) if words[0] == "dp4a" else (2, 16)
    first = 2 if words[1] == "hi" else 0
    for index in range(count):
        x, y = a.of(size, a_signed, size * index), b.of(8, b_signed, 8 * (first + index))
        c = lanes.made(Do.SUM, 0, lanes.made(Do.PRODUCT, 0, x, y), c)
    return [(Do.COPY, 0, c)]


def _video(lanes: PartWriter, words: list[str], a: Part, b: Part, c: Part) -> list[Made]:
    name, count = words[0][1:-1], int(words[0][-1])
    size, types = 32 // count, [_integer(one)[1] for one in words[1:] if one in ("u32", "s32")]
    made = []
    for index in range(count):
        x, y = (
            one.of(size, signed, size * index)
            for one, signed in zip((a, b), types[-2:], strict=True)
        )
        one = _video_element(lanes, name, words, x, y)
        if "sat" in words:
            one = Do.CLAMPED, size | types[0] << 8, lanes.made(*one)
        made.append(one)
    if "add" not in words[1:]:
        return [lanes.joined(size, made)]
    for one in made:
        c = lanes.made(Do.SUM, 0, c, lanes.made(*one))
    return [(Do.COPY, 0, c)]


def _video_element(lanes: PartWriter, name: str, words: list[str], x: Part, y: Part) -> Made:
    if name == "set":
        return _compared(words[3], x, y)
    if name == "avrg":
        total = lanes.made(Do.SUM, 0, x, y)
        up = lanes.made(*_compared("ge", total, 0))
        return Do.RIGHT, 1, lanes.made(Do.SUM, 0, total, up), 1
    if name == "absdiff":
        apart = [lanes.made(Do.DIFFERENCE, 0, *pair) for pair in ((x, y), (y, x))]
        return Do.GREATEST, 0, *apart
    what = {"add": Do.SUM, "sub": Do.DIFFERENCE, "min": Do.LEAST, "max": Do.GREATEST}[name]
    return what, 0, x, y


def _logic(lanes: PartWriter, words: list[str], *sources: Part) -> list[Made]:
    if words[0] == "not":
        return [(Do.ONE_OF, 0, sources[0], _ALL)]
    if words[0] == "cnot":
        return [_compared("eq", sources[0], 0)]
    return [(_LOGIC[words[0]], 0, *sources)]


def _looked_up(
    lanes: PartWriter, words: list[str], a: Part, b: Part, c: Part, table: Part, *rest: Part
) -> list[Made]:
    made = Do.TABLE, table.at, a, b, c
    if not rest:
        return [made]
    found = lanes.made(*made, kind="b32")
    some = lanes.made(*_compared("ne", found, 0))
    return [(Do.COPY, 0, found), (_LOGIC[words[1]], 0, some, *rest)]


def _funnel(lanes: PartWriter, words: list[str], a: Part, b: Part, c: Part) -> list[Made]:
    both = lanes.made(Do.JOINED, 32, a, b)
    by = lanes.made(Do.BOTH, 0, c, 31) if words[2] == "wrap" else lanes.made(Do.LEAST, 0, c, 32)
    if words[1] == "r":
        return [(Do.RIGHT, 0, both, by)]
    return [(Do.COPY, 0, lanes.made(Do.LEFT, 0, both, by).of(32, shift=32))]


def _shifted(lanes: PartWriter, words: list[str], a: Part, b: Part) -> list[Made]:
    bits, signed = _integer(words[1])
    what = Do.LEFT if words[0] == "shl" else Do.RIGHT
    return [(what, int(signed), a.of(bits, signed), b)]


def _field(lanes: PartWriter, words: list[str], a: Part, b: Part, c: Part) -> list[Made]:
    bits, signed = _integer(words[1])
    return [(Do.FIELD, bits | signed << 8, a, b.of(8), c.of(8))]


def _inserted(
    lanes: PartWriter, words: list[str], a: Part, b: Part, position: Part, length: Part
) -> list[Made]:
    above = lanes.made(Do.LEFT, 0, _ALL, length.of(8))
    mask = lanes.made(Do.LEFT, 0, lanes.made(Do.ONE_OF, 0, above, _ALL), position.of(8))
    moved = lanes.made(Do.BOTH, 0, lanes.made(Do.LEFT, 0, a, position.of(8)), mask)
    rest = lanes.made(Do.BOTH, 0, b, lanes.made(Do.ONE_OF, 0, mask, _ALL))
    return [(Do.EITHER, 0, moved, rest)]


def _extended(lanes: PartWriter, words: list[str], a: Part, b: Part) -> list[Made]:
    bits, signed = _integer(words[2])
    length = lanes.made(Do.LEAST, 0, b, 32) if words[1] == "clamp" else b.of(5)
    return [(Do.FIELD, bits | signed << 8, a, 0, length)]


def _mask(lanes: PartWriter, words: list[str], a: Part, b: Part) -> list[Made]:
    if words[1] == "clamp":
        a, b = (lanes.made(Do.LEAST, 0, one, 32) for one in (a, b))
    else:
        a, b = a.of(5), b.of(5)
    every = lanes.made(Do.DIFFERENCE, 0, lanes.made(Do.LEFT, 0, 1, b), 1)
    return [(Do.LEFT, 0, every, a)]


def _found(lanes: PartWriter, words: list[str], a: Part) -> list[Made]:
    """Make bfind and clz."""
    bits, signed = _integer(words[-1])
    if signed:
        a = a.of(bits, True)
        a = lanes.made(Do.ONE_OF, 0, a, lanes.made(Do.RIGHT, 1, a, 63))
    highest = lanes.made(Do.HIGHEST_BIT, 0, a)
    above = Do.DIFFERENCE, 0, bits - 1, highest
    if words[0] == "clz":
        return [above]
    if "shiftamt" not in words:
        return [(Do.COPY, 0, highest)]
    return [(Do.CHOSEN, 0, lanes.made(*above), _ALL, lanes.made(*_compared("ne", a, 0)))]


def _counted(lanes: PartWriter, words: list[str], *sources: Part) -> list[Made]:
    what = {"popc": Do.POPULATION, "brev": Do.REVERSED, "fns": Do.NTH_BIT}[words[0]]
    return [(what, _integer(words[1])[0], *sources)]


def _permuted(lanes: PartWriter, words: list[str], a: Part, b: Part, c: Part) -> list[Made]:
    if len(words) > 2:
        by = lanes.made(Do.LEFT, 0, c.of(2), 4)
        c = lanes.made(Do.RIGHT, 0, _MODES[words[2]], by)
    return [(Do.PERMUTED, 0, a, b, c.of(16))]


def _moved(lanes: PartWriter, words: list[str], *sources: Part) -> list[Made]:
    a = sources[0]
    if len(sources) > 1:
        return [lanes.joined(a.bits, [(Do.COPY, 0, one) for one in sources])]
    if "unpack" not in words[-1]:
        return [(Do.COPY, 0, a)]
    count = 4 if words[-1] == "unpack4" else 2
    size = a.bits // count
    return [(Do.COPY, 0, a.of(size, shift=size * index)) for index in range(count)]


def _truths(lanes: PartWriter, name: str, ftz: bool, type_: str, a: Part, b: Part) -> list[Part]:
    """Return what a comparison says, of each element."""
    element, count = _elements(type_)
    if not _is_float(element):
        bits, signed = _integer(element)
        unsigned = bits == 64 and not signed
        a, b = a.of(bits, signed), b.of(bits, signed)
        return [lanes.made(*_compared(name, a, b, unsigned=unsigned))]
    fmt = format_named(element)
    outcomes = {"num": 7, "nan": _UNORDERED}.get(name) or RELATIONS[name[:2]]
    if name not in ("num", "nan") and name.endswith("u"):
        outcomes |= _UNORDERED
    found = []
    for index in range(count):
        pair = [one.of(fmt.bits, shift=fmt.bits * index) for one in (a, b)]
        pair = lanes.flushed(fmt, ftz, *pair)
        found.append(lanes.made(Do.COMPARED_FLOATS, format_word(fmt) | outcomes << 24, *pair))
    return found


def _with_predicate(
    lanes: PartWriter, words: list[str], truths: list[Part], rest: tuple[Part, ...]
) -> list[Part]:
    if not rest:
        return truths
    what = _LOGIC[words[2]]
    return [lanes.made(what, 0, truth, *rest) for truth in truths]


def _tested(lanes: PartWriter, words: list[str], a: Part, b: Part, *rest: Part) -> list[Made]:
    """Make setp."""
    truths = _truths(lanes, words[1], "ftz" in words, words[-1], a, b)
    if rest and len(truths) < 2 and words[-1] not in ("f16", "bf16"):
        truths.append(lanes.made(Do.ONE_OF, 0, truths[0], 1))
    return [(Do.COPY, 0, one) for one in _with_predicate(lanes, words, truths, rest)]


def _set(lanes: PartWriter, words: list[str], a: Part, b: Part, *rest: Part) -> list[Made]:
    truths = _truths(lanes, words[1], "ftz" in words, words[-1], a, b)
    truths = _with_predicate(lanes, words, truths, rest)
    element, _ = _elements(words[-2])
    if _is_float(element):
        fmt = format_named(element)
        true = fmt.bias << fmt.fraction_bits
    else:
        true = (1 << _integer(element)[0] // len(truths)) - 1
    made: list[Made] = [(Do.CHOSEN, 0, true, 0, one) for one in truths]
    return made if len(made) == 1 else [lanes.joined(16, made)]


def _selected(lanes: PartWriter, words: list[str], a: Part, b: Part, c: Part) -> list[Made]:
    """Make selp and slct."""
    if words[0] == "slct":
        (truth,) = _truths(lanes, "ge", "ftz" in words, words[-1], c, Part(0, 32, constant=True))
        c = truth
    return [(Do.CHOSEN, 0, a, b, c)]


def _kind(lanes: PartWriter, words: list[str], a: Part) -> list[Made]:
    """Make testp."""
    fmt = format_named(words[-1])
    magnitude = a.of(fmt.bits - 1)
    name, infinity = words[1], fmt.infinity
    if name in ("normal", "subnormal"):
        least = 1 << fmt.fraction_bits
        below = lanes.made(*_compared("lt", magnitude, least))
        some = lanes.made(*_compared("ne", magnitude, 0))
        subnormal = lanes.made(Do.BOTH, 0, below, some)
        if name == "subnormal":
            return [(Do.COPY, 0, subnormal)]
        finite = lanes.made(*_compared("lt", magnitude, infinity))
        return [(Do.BOTH, 0, finite, lanes.made(Do.ONE_OF, 0, subnormal, 1))]
    relation = {"finite": "lt", "infinite": "eq", "number": "le", "notanumber": "gt"}[name]
    return [_compared(relation, magnitude, infinity)]


def _with_sign(lanes: PartWriter, words: list[str], a: Part, b: Part) -> list[Made]:
    below = a.bits - 1
    return [(Do.JOINED, below, b.of(below), a.of(1, shift=below))]


def _converted(lanes: PartWriter, words: list[str], *sources: Part) -> list[Made]:
    """Make cvt."""
    if words[1] == "pack":
        return [_packed(lanes, words, *sources)]
    target, source = words[-2:]
    (to, count), (of, parts) = _elements(target), _elements(source)
    size = {8: 8, 16: 16}.get(format_named(of).bits, 32) if _is_float(of) else 0
    if len(sources) == 2:  # the first one is the upper
        elements = [sources[1], sources[0]]
    elif parts == 2:
        elements = [sources[0].of(size, shift=size * index) for index in range(2)]
    else:
        elements = [*sources]
    made = [_conversion(lanes, words, to, of, one) for one in elements]
    return made if count == 1 else [lanes.joined(format_named(to).bits, made)]


def _packed(lanes: PartWriter, words: list[str], a: Part, b: Part, *rest: Part) -> Made:
    bits, signed = _integer(words[3])
    upper, lower = (
        lanes.made(Do.CLAMPED, bits | signed << 8, one.of(32, True)).of(bits) for one in (a, b)
    )
    both = Do.JOINED, bits, lower, upper
    return (Do.JOINED, 2 * bits, lanes.made(*both), *rest) if rest else both


def _conversion(lanes: PartWriter, words: list[str], to: str, of: str, a: Part) -> Made:
    rounding = next((word for word in words if word.removesuffix("i") in ROUNDINGS), "rn")
    is_whole, rounding = rounding.endswith("i"), rounding.removesuffix("i")
    ftz, number = "ftz" in words, ROUNDINGS.index(rounding) << 24
    if not _is_float(of):
        bits, signed = _integer(of)
        a = a.of(bits, signed)
        unsigned = bits == 64 and not signed
        if _is_float(to):
            fmt = format_named(to)
            return Do.FROM_INTEGER, format_word(fmt) | number | unsigned << 28, a
        size, is_signed = _integer(to)
        if "sat" in words:
            limits = size | is_signed << 8 | unsigned << 9
            a = lanes.made(Do.CLAMPED, limits, a)
        return Do.COPY, 0, a.of(size, is_signed) if size <= a.bits else a
    source = format_named(of)
    (a,) = lanes.flushed(source, ftz and of == "f32", a)
    if not _is_float(to):
        size, is_signed = _integer(to)
        whole = lanes.made(Do.TO_INTEGER, format_word(source) | number, a, size | is_signed << 8)
        return Do.COPY, 0, whole.of(size, is_signed)
    fmt = format_named(to)
    if of == "e4m3":
        return lanes.finished(fmt, words, (Do.FROM_E4M3, 0, a))
    if of == "e5m2":  # the upper half of an f16
        a, source = lanes.made(Do.LEFT, 0, a, 8), format_named("f16")
    if is_whole:
        made: Made = (Do.INTEGRAL, format_word(fmt) | number, a)
    elif to == of:
        made = Do.COPY, 0, a
    else:
        if "relu" in words:
            a = lanes.made(Do.RECTIFIED, format_word(source), a)
        what = format_word(source) | number | ("satfinite" in words) << 28
        what |= (ftz and to == "f32") << 27
        made = Do.CONVERTED, what, a, format_word(fmt) - (fmt.ignored_bits << 16)
        if fmt.ignored_bits:
            placed = lanes.made(Do.LEFT, 0, lanes.made(*made), fmt.ignored_bits)
            nan = lanes.made(Do.COMPARED_FLOATS, format_word(source) | _UNORDERED << 24, a, a)
            canonical = (1 << fmt.bits - 1) - (1 << fmt.ignored_bits)
            return Do.CHOSEN, 0, canonical, placed, nan
    known = {"sat"} | ({"ftz"} if to == "f32" else set())
    return lanes.finished(fmt, [word for word in words if word in known], made)


# What lanes do together


def _shuffled(
    lanes: PartWriter, words: list[str], a: Part, b: Part, c: Part, _: Part
) -> list[Made]:
    kind = _TOGETHER[words[2]]
    return [(Do.COPY, 0, lanes.of_all(kind + part, a, b, c)) for part in (0, _IN_RANGE)]


def _reduced(lanes: PartWriter, words: list[str], a: Part, _: Part) -> list[Made]:
    how = 32 << 8 | (words[3] == "s32") << 16
    return [(Do.COPY, 0, lanes.of_all(_REDUCED[words[2]], a, how))]


def _matched(lanes: PartWriter, words: list[str], a: Part, _: Part) -> list[Made]:
    same = lanes.of_all(_MATCH, a)
    if words[1] == "any":
        return [(Do.COPY, 0, same)]
    every = lanes.made(*_compared("eq", same, 0xFFFF_FFFF))
    return [(Do.CHOSEN, 0, 0xFFFF_FFFF, 0, every), (Do.COPY, 0, every)]


def _voted(lanes: PartWriter, words: list[str], a: Part, _: Part) -> list[Made]:
    votes = lanes.of_all(_BALLOT, a)
    match words[2]:
        case "all":
            return [_compared("eq", votes, 0xFFFF_FFFF)]
        case "any":
            return [_compared("ne", votes, 0)]
        case "uni":
            ends = (lanes.made(*_compared("eq", votes, one)) for one in (0, 0xFFFF_FFFF))
            return [(Do.EITHER, 0, *ends)]
    return [(Do.COPY, 0, votes)]


FAMILIES: Mapping[str, Callable[..., list[Made]]] = {
    **dict.fromkeys(
        ("add", "sub", "mul", "mad", "fma", "min", "max", "addc", "subc", "madc"), _arithmetic
    ),
    **dict.fromkeys(
        (
            f"v{name}{count}"
            for name in ("add", "sub", "min", "max", "avrg", "absdiff", "set")
            for count in (2, 4)
        ),
        _video,
    ),
    **dict.fromkeys(("mul24", "mad24"), _product24),
    **dict.fromkeys(("div", "rem"), _divided),
    **dict.fromkeys(("dp4a", "dp2a"), _dots),
    **dict.fromkeys(("and", "or", "xor", "not", "cnot"), _logic),
    **dict.fromkeys(("shl", "shr"), _shifted),
    **dict.fromkeys(("bfind", "clz"), _found),
    **dict.fromkeys(("popc", "brev", "fns"), _counted),
    **dict.fromkeys(("selp", "slct"), _selected),
    "sad": _distance, "neg": _signed, "abs": _signed, "lop3": _looked_up, "shf": _funnel,
    "bfe": _field, "bfi": _inserted, "szext": _extended, "bmsk": _mask, "prmt": _permuted,
    "mov": _moved, "setp": _tested, "set": _set, "testp": _kind, "copysign": _with_sign,
    "cvt": _converted, "shfl": _shuffled, "redux": _reduced, "match": _matched, "vote": _voted,
}  # fmt: skip
"""Each is given what writes, the words of the opcode, and its sources."""
