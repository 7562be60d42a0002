"""Scalar code as the interpreter's few operations, on parts of sources as numbers of 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from oracle.isa.forms import LANES, Format, format_named
from oracle.models.figures import ROUNDINGS
from oracle.program.lane_code import class_of
from runners.reference.memory import BITS, RELATIONS, Do, Made, Part, Value, format_word

_CLASSES = {"pred": 0, "b16": 1, "b32": 2, "b64": 3}
_CONSTANT = 8
_TOGETHER = {"up": 0, "down": 1, "bfly": 2, "idx": 3}
"""Modes of shfl, and what else lanes do together, as in the interpreter."""
_IN_RANGE, _BALLOT, _MATCH = 4, 8, 9
_REDUCED = {"add": 10, "min": 11, "max": 12, "and": 13, "or": 14, "xor": 15}
_ALL = (1 << 64) - 1
_EVERY_LANE = 0xFFFF_FFFF
_UNORDERED = 8
_SIGNED_32 = 32 | 1 << 8
_MODES = {
    "f4e": 0x6543_5432_4321_3210, "b4e": 0x0123_7012_6701_5670, "rc8": 0x3333_2222_1111_0000,
    "ecl": 0x3333_3222_3211_3210, "ecr": 0x3210_2210_1110_0000, "rc16": 0x3232_1010_3232_1010,
}  # fmt: skip
"""Selectors that the modes of prmt stand for, 16 bits for each value of c (9.7.9.7)."""
_LOGIC = {"and": Do.BOTH, "or": Do.EITHER, "xor": Do.ONE_OF}


Words: TypeAlias = Sequence[str]


def _integer(name: str) -> tuple[int, bool]:
    """Return bits and sign of a type such as "s32" or "b16"."""
    return int(name[1:]), name[0] == "s"


def _is_float(name: str) -> bool:
    return name[0] == "f" or name.startswith(("bf", "e4m3", "e5m2", "tf"))


def _compared(name: str, x: Value, y: Value, *, unsigned: bool = False) -> Made:
    return Do.COMPARED, RELATIONS[name] | unsigned << 8, x, y


def _elements(name: str) -> tuple[str, int]:
    return (name[:-2], 2) if name.endswith("x2") else (name, 1)


class ScalarWriter:
    """Writes operations behind a program's words, for each lane `alone` and all `together`."""

    def __init__(
        self, words: list[int], take: Callable[[int], int], alone: int, together: int
    ) -> None:
        self._words, self._take = words, take
        self._alone, self._together = alone, together
        self._registers: dict[str, Part] = {}
        self._spare: list[Part] = []
        self._spared = self._start = 0

    def register(self, name: str) -> Part:
        """Return a register of the code."""
        if name not in self._registers:
            self._registers[name] = self._new("pred" if name == "carry" else class_of(name))
        return self._registers[name]

    def _new(self, kind: str) -> Part:
        size = 8 if kind == "b64" else 4
        return Part(self._take(LANES * size) | _CLASSES[kind], BITS[kind])

    def _open(self) -> None:
        self._start = len(self._words)
        self._words += [self._alone, 0]

    def _close(self) -> None:
        self._words += [Do.STOP | 3 << 16, 0, 0]
        self._words[self._start + 1] = len(self._words) - self._start

    def _do(self, to: Part | None, what: int, p: int = 0, *sources: Value) -> int:
        """Write an operation; return the place of its parameter."""
        start, constants = len(self._words), list[int]()
        count = 3 + 2 * len(sources)
        self._words += [0, p, 0 if to is None else to.at]
        for source in sources:
            part = Part(source, 64, constant=True) if isinstance(source, int) else source
            at = part.at
            if part.constant:
                at = start + count + len(constants) << 4 | _CONSTANT
                constants += [part.at & 0xFFFF_FFFF, part.at >> 32 & 0xFFFF_FFFF]
            self._words += [at, part.shift | part.bits << 8 | part.signed << 16]
        self._words += constants
        self._words[start] = what | len(sources) << 8 | len(self._words) - start << 16
        return start + 1

    def made(self, *made: Any, kind: str = "b64") -> Part:
        """Compute something; it stays until the statement ends, and has as many bits as a class."""
        if self._spared == len(self._spare):
            self._spare.append(self._new("b64"))
        part = replace(self._spare[self._spared], bits=BITS[kind])
        self._spared += 1
        self._do(part, *made)
        return part

    def _of_all(self, what: int, *sources: Value) -> Part:
        """Compute something that lanes do together, of registers and a number."""
        parts = [
            (self.made(Do.COPY, 0, one) if one.constant else one).at
            if isinstance(one, Part)
            else one
            for one in sources
        ]
        to = self.made(Do.COPY, 0, 0)
        self._close()
        self._words += [self._together, 7, what, to.at, *parts, *[0] * (3 - len(parts))]
        self._open()
        return to

    def _flushed(self, fmt: Format, ftz: bool, *values: Part) -> list[Part]:
        """Return numbers, subnormals as zeros where that is asked for."""
        if not ftz:
            return list(values)
        return [self.made(Do.FLUSHED, format_word(fmt), one) for one in values]

    def _finished(self, fmt: Format, words: Words, made: Made) -> Made:
        for word, what in (("ftz", Do.FLUSHED), ("sat", Do.SATURATED), ("relu", Do.RECTIFIED)):
            if word in words:
                made = what, format_word(fmt), self.made(*made)
        return made

    def _joined(self, size: int, made: Sequence[Made]) -> Made:
        parts = [self.made(*one).of(size) for one in made]
        result: Value = parts[0]
        for index, part in enumerate(parts[1:-1], 1):
            result = self.made(Do.JOINED, size * index, result, part)
        return Do.JOINED, size * (len(parts) - 1), result, parts[-1]

    def _each(
        self, count: int, size: int, sources: Sequence[Part], function: Callable[..., Made]
    ) -> Made:
        if count == 1:
            return function(*sources)
        return self._joined(size, [
            function(*(one.of(size, shift=size * index) for one in sources))
            for index in range(count)
        ])  # fmt: skip

    # Instructions, by their first words: what each destination gets, or the only one.

    def _arithmetic(self, words: Words, *sources: Part) -> Made | list[Made]:
        """Make add, sub, mul, mad, fma, min, max and those with a carry."""
        name, (element, count) = words[0], _elements(words[-1])
        extreme = name in ("min", "max")
        if _is_float(element):
            fmt = format_named(element)
            function = self._float_extreme if extreme else self._float_arithmetic
            return self._each(count, fmt.bits, sources, lambda *some: function(words, fmt, *some))
        bits, signed = _integer(element)
        if count > 1 or extreme:
            return self._each(
                count, bits, sources, lambda a, b: self._small(words, bits, signed, a, b)
            )
        (x, y), less = sources[:2], name.startswith("sub")
        saturated = "sat" in words
        if name.startswith(("mul", "mad")):
            product = self._product(words, bits, signed, x, y)
            if name == "mul":
                return product
            x = self.made(*product, kind=f"b{2 * bits if 'wide' in words else bits}")
            y, saturated = sources[2], saturated and "hi" in words
        if saturated:
            x, y = x.as_(32, True), y.as_(32, True)
        made: Made = (Do.DIFFERENCE if less else Do.SUM, 0, x, y)
        if "sat" in words:
            return Do.CLAMPED, _SIGNED_32, self.made(*made)
        carries, reads = "cc" in words, name.endswith("c")
        if not (reads or carries):
            return made
        carry: Value = self.register("carry") if reads else 0
        results: list[Made] = [(made[0], 0, self.made(*made), carry)]
        if carries:
            results.append((Do.BORROWED if less else Do.CARRIED, bits, x, y, carry))
        return results

    def _small(self, words: Words, bits: int, signed: bool, a: Part, b: Part) -> Made:
        a, b = a.as_(bits, signed), b.as_(bits, signed)
        if words[0] == "add":
            return Do.SUM, 0, a, b
        what = Do.LEAST if words[0] == "min" else Do.GREATEST
        made: Made = (what, int(bits == 64 and not signed), a, b)
        return (Do.GREATEST, 0, self.made(*made), 0) if "relu" in words else made

    def _product(self, words: Words, bits: int, signed: bool, a: Part, b: Part) -> Made:
        a, b = a.as_(bits, signed), b.as_(bits, signed)
        if "hi" not in words:
            return Do.PRODUCT, 0, a, b
        if bits == 64:
            return Do.UPPER_PRODUCT, int(signed), a, b
        return Do.COPY, 0, self.made(Do.PRODUCT, 0, a, b).of(bits, shift=bits)

    def _product24(self, words: Words, *sources: Part) -> Made:
        a, b = (one.of(24, words[-1] == "s32") for one in sources[:2])
        product = self.made(Do.PRODUCT, 0, a, b).of(32, True, 16 if words[1] == "hi" else 0)
        if words[0] == "mul24":
            return Do.COPY, 0, product
        made = Do.SUM, 0, product, sources[2].of(32, True)
        return (Do.CLAMPED, _SIGNED_32, self.made(*made)) if "sat" in words else made

    def _float_arithmetic(self, words: Words, fmt: Format, *sources: Part) -> Made:
        a, b, *rest = self._flushed(fmt, "ftz" in words, *sources)
        rounding = next(word for word in words if word in ROUNDINGS)
        sign = 1 << (fmt.bits - 1)
        operands: tuple[Value, ...]
        match words[0]:
            case "add" | "sub":
                if words[0] == "sub":
                    b = self.made(Do.ONE_OF, 0, b, sign)
                operands = a, fmt.bias << fmt.fraction_bits, b
            case "mul":
                signs = self.made(Do.ONE_OF, 0, a, b)
                operands = a, b, self.made(Do.BOTH, 0, signs, sign)
            case _:
                operands = a, b, rest[0]
        how = format_word(fmt) | ROUNDINGS.index(rounding) << 24 | ("ftz" in words) << 27
        return self._finished(fmt, words, (Do.FUSED, how, *operands))

    def _float_extreme(self, words: Words, fmt: Format, *sources: Part) -> Made:
        a, b = self._flushed(fmt, "ftz" in words, *sources)
        what = format_word(fmt) | (words[0] == "max") << 24 | ("NaN" in words) << 25
        sign = 1 << (fmt.bits - 1)
        if "xorsign" not in words:
            return Do.EXTREME, what, a, b
        signs = self.made(Do.BOTH, 0, self.made(Do.ONE_OF, 0, a, b), sign)
        a, b = (self.made(Do.BOTH, 0, one, sign - 1) for one in (a, b))
        found = self.made(Do.EXTREME, what, a, b)
        nan = self._is_nan(fmt, found)
        return Do.CHOSEN, 0, sign - 1, self.made(Do.EITHER, 0, found, signs), nan

    def _is_nan(self, fmt: Format, value: Part) -> Part:
        return self.made(Do.COMPARED_FLOATS, format_word(fmt) | _UNORDERED << 24, value, value)

    def _distance(self, words: Words, a: Part, b: Part, c: Part) -> Made:
        bits, signed = _integer(words[-1])
        a, b = a.as_(bits, signed), b.as_(bits, signed)
        unsigned = int(bits == 64 and not signed)
        ends = [self.made(what, unsigned, a, b) for what in (Do.GREATEST, Do.LEAST)]
        return Do.SUM, 0, self.made(Do.DIFFERENCE, 0, *ends), c

    def _signed(self, words: Words, a: Part) -> Made:
        """Make neg and abs."""
        (element, count), negates = _elements(words[-1]), words[0] == "neg"
        if not _is_float(element):
            whole = a.of(a.bits, True)
            negated: Made = (Do.DIFFERENCE, 0, 0, whole)
            return negated if negates else (Do.GREATEST, 0, whole, self.made(*negated))
        fmt = format_named(element)
        sign = 1 << (fmt.bits - 1)
        what = (Do.ONE_OF, 0, sign) if negates else (Do.BOTH, 0, sign - 1)
        return self._each(
            count, fmt.bits, (a,), lambda a: (*what, *self._flushed(fmt, "ftz" in words, a))
        )

    def _divided(self, words: Words, a: Part, b: Part) -> Made:
        bits, signed = _integer(words[-1])
        what = Do.QUOTIENT if words[0] == "div" else Do.REMAINDER
        return what, int(signed), a.of(bits, signed), b.of(bits, signed)

    def _dots(self, words: Words, a: Part, b: Part, c: Part) -> Made:
        (_, a_signed), (_, b_signed) = map(_integer, words[-2:])
        count, size = (4, 8) if words[0] == "dp4a" else (2, 16)
        first = 2 if words[1] == "hi" else 0
        for index in range(count):
            x, y = a.of(size, a_signed, size * index), b.of(8, b_signed, 8 * (first + index))
            c = self.made(Do.SUM, 0, self.made(Do.PRODUCT, 0, x, y), c)
        return Do.COPY, 0, c

    def _video(self, words: Words, a: Part, b: Part, c: Part) -> Made:
        name, count = words[0][1:-1], int(words[0][-1])
        size = 32 // count
        types = [_integer(word)[1] for word in words[1:] if word in ("u32", "s32")]
        elements = []
        for index in range(count):
            x, y = (
                one.of(size, signed, size * index)
                for one, signed in zip((a, b), types[-2:], strict=True)
            )
            made = self._video_element(name, words, x, y)
            if "sat" in words:
                made = Do.CLAMPED, size | types[0] << 8, self.made(*made)
            elements.append(made)
        if "add" not in words[1:]:
            return self._joined(size, elements)
        for made in elements:
            c = self.made(Do.SUM, 0, c, self.made(*made))
        return Do.COPY, 0, c

    def _video_element(self, name: str, words: Words, x: Part, y: Part) -> Made:
        match name:
            case "set":
                return _compared(words[3], x, y)
            case "avrg":
                total = self.made(Do.SUM, 0, x, y)
                up = self.made(*_compared("ge", total, 0))
                return Do.RIGHT, 1, self.made(Do.SUM, 0, total, up), 1
            case "absdiff":
                apart = [self.made(Do.DIFFERENCE, 0, *pair) for pair in ((x, y), (y, x))]
                return Do.GREATEST, 0, *apart
        what = {"add": Do.SUM, "sub": Do.DIFFERENCE, "min": Do.LEAST, "max": Do.GREATEST}[name]
        return what, 0, x, y

    def _looked_up(
        self, words: Words, a: Part, b: Part, c: Part, table: Part, *rest: Part
    ) -> Made | list[Made]:
        made = Do.TABLE, table.at, a, b, c
        if not rest:
            return made
        found = self.made(*made, kind="b32")
        some = self.made(*_compared("ne", found, 0))
        return [(Do.COPY, 0, found), (_LOGIC[words[1]], 0, some, *rest)]

    def _bitwise(self, words: Words, *sources: Part) -> Made:
        """Make what is done to bits, but for lop3, bfi, bfind and clz."""
        a, *rest = sources
        match words[0]:
            case "and" | "or" | "xor":
                return _LOGIC[words[0]], 0, *sources
            case "not":
                return Do.ONE_OF, 0, a, _ALL
            case "cnot":
                return _compared("eq", a, 0)
            case "copysign":
                below, b = a.bits - 1, rest[0]
                return Do.JOINED, below, b.of(below), a.of(1, shift=below)
            case "popc" | "brev" | "fns":
                what = {"popc": Do.POPULATION, "brev": Do.REVERSED, "fns": Do.NTH_BIT}[words[0]]
                return what, _integer(words[1])[0], *sources
            case "shl" | "shr":
                bits, signed = _integer(words[1])
                what = Do.LEFT if words[0] == "shl" else Do.RIGHT
                return what, int(signed), a.of(bits, signed), *rest
            case "shf":
                both, c = self.made(Do.JOINED, 32, a, rest[0]), rest[1]
                wraps = words[2] == "wrap"
                by = self.made(Do.BOTH, 0, c, 31) if wraps else self.made(Do.LEAST, 0, c, 32)
                if words[1] == "r":
                    return Do.RIGHT, 0, both, by
                return Do.COPY, 0, self.made(Do.LEFT, 0, both, by).of(32, shift=32)
            case "bfe":
                bits, signed = _integer(words[1])
                return Do.FIELD, bits | signed << 8, a, *(source.of(8) for source in rest)
            case "szext":
                bits, signed = _integer(words[2])
                clamps, b = words[1] == "clamp", rest[0]
                length = self.made(Do.LEAST, 0, b, 32) if clamps else b.of(5)
                return Do.FIELD, bits | signed << 8, a, 0, length
            case "bmsk":
                b = rest[0]
                if words[1] == "clamp":
                    a, b = (self.made(Do.LEAST, 0, source, 32) for source in (a, b))
                else:
                    a, b = a.of(5), b.of(5)
                every = self.made(Do.DIFFERENCE, 0, self.made(Do.LEFT, 0, 1, b), 1)
                return Do.LEFT, 0, every, a
        b, c = rest  # of prmt
        if len(words) > 2:
            by = self.made(Do.LEFT, 0, c.of(2), 4)
            c = self.made(Do.RIGHT, 0, _MODES[words[2]], by)
        return Do.PERMUTED, 0, a, b, c.of(16)

    def _inserted(self, words: Words, a: Part, b: Part, position: Part, length: Part) -> Made:
        above = self.made(Do.LEFT, 0, _ALL, length.of(8))
        mask = self.made(Do.LEFT, 0, self.made(Do.ONE_OF, 0, above, _ALL), position.of(8))
        moved = self.made(Do.BOTH, 0, self.made(Do.LEFT, 0, a, position.of(8)), mask)
        rest = self.made(Do.BOTH, 0, b, self.made(Do.ONE_OF, 0, mask, _ALL))
        return Do.EITHER, 0, moved, rest

    def _found(self, words: Words, a: Part) -> Made:
        """Make bfind and clz."""
        bits, signed = _integer(words[-1])
        if signed:
            a = a.of(bits, True)
            a = self.made(Do.ONE_OF, 0, a, self.made(Do.RIGHT, 1, a, 63))
        highest = self.made(Do.HIGHEST_BIT, 0, a)
        above = Do.DIFFERENCE, 0, bits - 1, highest
        if words[0] == "clz":
            return above
        if "shiftamt" not in words:
            return Do.COPY, 0, highest
        return Do.CHOSEN, 0, self.made(*above), _ALL, self.made(*_compared("ne", a, 0))

    def _moved(self, words: Words, *sources: Part) -> Made | list[Made]:
        a = sources[0]
        if len(sources) > 1:
            return self._joined(a.bits, [(Do.COPY, 0, one) for one in sources])
        if "unpack" not in words[-1]:
            return Do.COPY, 0, a
        count = 4 if words[-1] == "unpack4" else 2
        size = a.bits // count
        return [(Do.COPY, 0, a.of(size, shift=size * index)) for index in range(count)]

    def _truths(self, name: str, ftz: bool, type_: str, a: Part, b: Part) -> list[Part]:
        """Return what a comparison says, of each element."""
        element, count = _elements(type_)
        if not _is_float(element):
            bits, signed = _integer(element)
            a, b = a.of(bits, signed), b.of(bits, signed)
            return [self.made(*_compared(name, a, b, unsigned=bits == 64 and not signed))]
        fmt = format_named(element)
        outcomes = {"num": 7, "nan": _UNORDERED}.get(name) or RELATIONS[name[:2]]
        if name not in ("num", "nan") and name.endswith("u"):
            outcomes |= _UNORDERED
        found = []
        for index in range(count):
            pair = [one.of(fmt.bits, shift=fmt.bits * index) for one in (a, b)]
            pair = self._flushed(fmt, ftz, *pair)
            found.append(self.made(Do.COMPARED_FLOATS, format_word(fmt) | outcomes << 24, *pair))
        return found

    def _with_predicate(
        self, words: Words, truths: list[Part], rest: tuple[Part, ...]
    ) -> list[Part]:
        return [self.made(_LOGIC[words[2]], 0, one, *rest) for one in truths] if rest else truths

    def _tested(self, words: Words, a: Part, b: Part, *rest: Part) -> list[Made]:
        """Make setp."""
        truths = self._truths(words[1], "ftz" in words, words[-1], a, b)
        if rest and len(truths) < 2 and words[-1] not in ("f16", "bf16"):
            truths.append(self.made(Do.ONE_OF, 0, truths[0], 1))
        return [(Do.COPY, 0, one) for one in self._with_predicate(words, truths, rest)]

    def _set(self, words: Words, a: Part, b: Part, *rest: Part) -> Made:
        truths = self._truths(words[1], "ftz" in words, words[-1], a, b)
        truths = self._with_predicate(words, truths, rest)
        element, _ = _elements(words[-2])
        if _is_float(element):
            fmt = format_named(element)
            true = fmt.bias << fmt.fraction_bits
        else:
            true = (1 << _integer(element)[0] // len(truths)) - 1
        made: list[Made] = [(Do.CHOSEN, 0, true, 0, one) for one in truths]
        return made[0] if len(made) == 1 else self._joined(16, made)

    def _selected(self, words: Words, a: Part, b: Part, c: Part) -> Made:
        """Make selp and slct."""
        if words[0] == "slct":
            zero = Part(0, 32, constant=True)
            (c,) = self._truths("ge", "ftz" in words, words[-1], c, zero)
        return Do.CHOSEN, 0, a, b, c

    def _kind(self, words: Words, a: Part) -> Made:
        """Make testp."""
        fmt = format_named(words[-1])
        magnitude, name = a.of(fmt.bits - 1), words[1]
        if name in ("normal", "subnormal"):
            below = self.made(*_compared("lt", magnitude, 1 << fmt.fraction_bits))
            some = self.made(*_compared("ne", magnitude, 0))
            subnormal = self.made(Do.BOTH, 0, below, some)
            if name == "subnormal":
                return Do.COPY, 0, subnormal
            finite = self.made(*_compared("lt", magnitude, fmt.infinity))
            return Do.BOTH, 0, finite, self.made(Do.ONE_OF, 0, subnormal, 1)
        relation = {"finite": "lt", "infinite": "eq", "number": "le", "notanumber": "gt"}[name]
        return _compared(relation, magnitude, fmt.infinity)

    def _converted(self, words: Words, *sources: Part) -> Made:
        """Make cvt."""
        if words[1] == "pack":
            return self._packed(words, *sources)
        target, source = words[-2:]
        (to, count), (of, parts) = _elements(target), _elements(source)
        elements = sources[::-1]  # of two the first one is the upper
        if len(sources) == 1 and parts == 2:
            size = {8: 8, 16: 16}.get(format_named(of).bits, 32) if _is_float(of) else 0
            elements = tuple(sources[0].of(size, shift=size * index) for index in range(2))
        made = [self._conversion(words, to, of, one) for one in elements]
        return made[0] if count == 1 else self._joined(format_named(to).bits, made)

    def _packed(self, words: Words, a: Part, b: Part, *rest: Part) -> Made:
        bits, signed = _integer(words[3])
        upper, lower = (
            self.made(Do.CLAMPED, bits | signed << 8, one.of(32, True)).of(bits) for one in (a, b)
        )
        both = Do.JOINED, bits, lower, upper
        return (Do.JOINED, 2 * bits, self.made(*both), *rest) if rest else both

    def _conversion(self, words: Words, to: str, of: str, a: Part) -> Made:
        rounding = next((word for word in words if word.removesuffix("i") in ROUNDINGS), "rn")
        number = ROUNDINGS.index(rounding.removesuffix("i")) << 24
        ftz = "ftz" in words
        if not _is_float(of):
            bits, signed = _integer(of)
            a = a.of(bits, signed)
            unsigned = bits == 64 and not signed
            if _is_float(to):
                return Do.FROM_INTEGER, format_word(format_named(to)) | number | unsigned << 28, a
            size, is_signed = _integer(to)
            if "sat" in words:
                a = self.made(Do.CLAMPED, size | is_signed << 8 | unsigned << 9, a)
            return Do.COPY, 0, a.of(size, is_signed) if size <= a.bits else a
        source = format_named(of)
        (a,) = self._flushed(source, ftz and of == "f32", a)
        if not _is_float(to):
            size, is_signed = _integer(to)
            what = format_word(source) | number
            whole = self.made(Do.TO_INTEGER, what, a, size | is_signed << 8)
            return Do.COPY, 0, whole.of(size, is_signed)
        fmt = format_named(to)
        if of == "e4m3":
            return self._finished(fmt, words, (Do.FROM_E4M3, 0, a))
        if of == "e5m2":  # the upper half of an f16
            a, source = self.made(Do.LEFT, 0, a, 8), format_named("f16")
        if rounding.endswith("i"):
            made: Made = (Do.INTEGRAL, format_word(fmt) | number, a)
        elif to == of:
            made = Do.COPY, 0, a
        else:
            if "relu" in words:
                a = self.made(Do.RECTIFIED, format_word(source), a)
            what = format_word(source) | number | ("satfinite" in words) << 28
            what |= (ftz and to == "f32") << 27
            made = Do.CONVERTED, what, a, format_word(fmt) - (fmt.ignored_bits << 16)
            if fmt.ignored_bits:
                placed = self.made(Do.LEFT, 0, self.made(*made), fmt.ignored_bits)
                canonical = (1 << fmt.bits - 1) - (1 << fmt.ignored_bits)
                return Do.CHOSEN, 0, canonical, placed, self._is_nan(source, a)
        known = {"sat"} | ({"ftz"} if to == "f32" else set())
        return self._finished(fmt, [word for word in words if word in known], made)

    def _of_warp(self, words: Words, a: Part, *rest: Part) -> Made | list[Made]:
        """Make shfl, redux, match and vote, of all lanes."""
        match words[0]:
            case "shfl":
                kind = _TOGETHER[words[2]]
                b, c = rest[:2]
                return [(Do.COPY, 0, self._of_all(kind + part, a, b, c)) for part in (0, _IN_RANGE)]
            case "redux":
                how = 32 << 8 | (words[3] == "s32") << 16
                return Do.COPY, 0, self._of_all(_REDUCED[words[2]], a, how)
            case "match":
                same = self._of_all(_MATCH, a)
                if words[1] == "any":
                    return Do.COPY, 0, same
                every = self.made(*_compared("eq", same, _EVERY_LANE))
                return [(Do.CHOSEN, 0, _EVERY_LANE, 0, every), (Do.COPY, 0, every)]
        votes = self._of_all(_BALLOT, a)
        match words[2]:
            case "all":
                return _compared("eq", votes, _EVERY_LANE)
            case "any":
                return _compared("ne", votes, 0)
            case "uni":
                ends = (self.made(*_compared("eq", votes, end)) for end in (0, _EVERY_LANE))
                return Do.EITHER, 0, *ends
        return Do.COPY, 0, votes

    FAMILIES: Mapping[str, Callable[..., Made | list[Made]]] = {
        name: function
        for function, names in (
            (_arithmetic, "add sub mul mad fma min max addc subc madc"),
            (_video, "vadd2 vsub2 vmin2 vmax2 vavrg2 vabsdiff2 vset2"),
            (_video, "vadd4 vsub4 vmin4 vmax4 vavrg4 vabsdiff4 vset4"),
            (_product24, "mul24 mad24"), (_divided, "div rem"), (_dots, "dp4a dp2a"),
            (_bitwise, "and or xor not cnot copysign popc brev fns"),
            (_bitwise, "shl shr shf bfe szext bmsk prmt"),
            (_looked_up, "lop3"), (_inserted, "bfi"), (_found, "bfind clz"), (_distance, "sad"),
            (_signed, "neg abs"), (_moved, "mov"), (_selected, "selp slct"), (_tested, "setp"),
            (_set, "set"), (_kind, "testp"), (_converted, "cvt"),
            (_of_warp, "shfl redux match vote"),
        )
        for name in names.split()
    }  # fmt: skip
    """What makes the instructions of a family, given the words of the opcode and its sources."""
