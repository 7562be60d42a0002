"""What scalar instructions return, in Python's integers and fractions, one number at a time.

Written from PTX ISA 9.7, apart from the simulated device: no NumPy, no bit tricks that it has.
"""

import math
from collections.abc import Callable
from fractions import Fraction

FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
NANS = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def read(kind: str, value: int) -> int:
    bits = int(kind[1:])
    return signed(value, bits) if kind[0] == "s" else value


def decode(kind: str, word: int) -> Fraction | str:
    """Return the value of a word, or "nan", "+inf", "-inf"."""
    exponent_bits, fraction_bits = FORMATS[kind]
    fraction = word & ((1 << fraction_bits) - 1)
    field = word >> fraction_bits & ((1 << exponent_bits) - 1)
    negative = word >> (exponent_bits + fraction_bits)
    if field == (1 << exponent_bits) - 1:
        return "nan" if fraction else "-inf" if negative else "+inf"
    bias = (1 << (exponent_bits - 1)) - 1
    significand = fraction + ((1 << fraction_bits) if field else 0)
    value = Fraction(significand) * Fraction(2) ** (max(field, 1) - bias - fraction_bits)
    return -value if negative else value


def to_integer(value: Fraction, rounding: str) -> int:
    return {"n": round, "z": math.trunc, "m": math.floor, "p": math.ceil}[rounding[1]](value)


def encode(kind: str, value: Fraction, rounding: str, *, zero_sign: int = 0) -> int:
    """Return the word of a value, rounded once."""
    exponent_bits, fraction_bits = FORMATS[kind]
    sign = 1 << (exponent_bits + fraction_bits)
    if value == 0:
        return sign if zero_sign else 0
    bias = (1 << (exponent_bits - 1)) - 1
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    exponent = max(exponent, 1 - bias)
    unit = Fraction(2) ** (exponent - fraction_bits)
    steps = abs(to_integer(value / unit, rounding))
    if steps >> (fraction_bits + 1):
        steps, exponent = steps >> 1, exponent + 1
    field = exponent + bias if steps >> fraction_bits else 0
    word = (field << fraction_bits) + (steps & ((1 << fraction_bits) - 1))
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    if word >= infinity:
        away = rounding[1] == "n" or rounding[1] == ("m" if value < 0 else "p")
        word = infinity if away else infinity - 1
    return word | (sign if value < 0 else 0)


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def bfe(kind: str, a: int, b: int, c: int) -> int:
    """The pseudocode of 9.7.1.19, bit by bit."""
    msb = int(kind[1:]) - 1
    position, length = b & 0xFF, c & 0xFF
    bit = a >> min(position + length - 1, msb) & 1 if kind[0] == "s" and length else 0
    result = 0
    for i in range(msb + 1):
        taken = a >> (position + i) & 1 if i < length and position + i <= msb else bit
        result |= taken << i
    return result


def bfi(bits: int, a: int, b: int, c: int, d: int) -> int:
    result, position, length = b, c & 0xFF, d & 0xFF
    for i in range(length):
        if position + i < bits:
            place = 1 << (position + i)
            result = (result & ~place) | (place if a >> i & 1 else 0)
    return result


PERMUTATIONS = {
    "f4e": lambda n, i: n + i, "b4e": lambda n, i: (n - i) % 8, "rc8": lambda n, i: n,
    "ecl": max, "ecr": min, "rc16": lambda n, i: n % 2 * 2 + i % 2,
}  # fmt: skip
"""Which byte each mode of prmt takes for byte i, by the selector's low bits (PTX ISA 9.7.9.7)."""


def prmt(a: int, b: int, selector: int) -> int:
    data = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    result = []
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = data[nibble & 7]
        result.append((0xFF if byte >> 7 else 0) if nibble & 8 else byte)
    return int.from_bytes(bytes(result), "little")


def lop3(a: int, b: int, c: int, table: int) -> int:
    bits = ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1) for i in range(32))
    return sum((table >> row & 1) << i for i, row in enumerate(bits))


def bfind(kind: str, a: int) -> int:
    bits = int(kind[1:])
    if kind[0] == "s" and a >> (bits - 1):
        a = ~a & ((1 << bits) - 1)
    return a.bit_length() - 1


def integer_cases() -> dict[str, tuple[tuple[int, ...], int, Callable[..., int | None]]]:
    """Instruction by text, with the bits of its operands, of its result, and what it returns.

    None where the ISA leaves it open.
    """
    cases: dict[str, tuple[tuple[int, ...], int, Callable[..., int | None]]] = {}

    def add(
        line: str, operands: tuple[int, ...], result: int, f: Callable[..., int | None]
    ) -> None:
        cases[line] = (operands, result, f)

    for kind in ("u16", "s16", "u32", "s32", "u64", "s64"):
        bits = int(kind[1:])
        two, three = (bits, bits), (bits, bits, bits)

        def seen(f: Callable[..., int | None], kind: str = kind) -> Callable[..., int | None]:
            return lambda *values: f(*(read(kind, value) for value in values))

        for name, f in {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul.lo": lambda a, b: a * b,
            "mul.hi": lambda a, b, bits=bits: a * b >> bits,
            "div": lambda a, b: quotient(a, b) if b else None,
            "rem": lambda a, b: a - b * quotient(a, b) if b else None,
            "min": min,
            "max": max,
        }.items():
            add(f"{name}.{kind} %o, %a, %b;", two, bits, seen(f))
        add(f"mad.lo.{kind} %o, %a, %b, %c;", three, bits, seen(lambda a, b, c: a * b + c))
        add(
            f"mad.hi.{kind} %o, %a, %b, %c;", three, bits,
            seen(lambda a, b, c, bits=bits: (a * b >> bits) + c),
        )  # fmt: skip
        add(f"sad.{kind} %o, %a, %b, %c;", three, bits, seen(lambda a, b, c: abs(a - b) + c))
        add(
            f"shr.{kind} %o, %a, %b;", (bits, 32), bits,
            lambda a, b, kind=kind: read(kind, a) >> min(b, 64),
        )  # fmt: skip
        if bits < 64:
            add(f"mul.wide.{kind} %o, %a, %b;", two, 2 * bits, seen(lambda a, b: a * b))
        if bits > 16:
            add(
                f"bfe.{kind} %o, %a, %b, %c;", (bits, 32, 32), bits,
                lambda a, b, c, kind=kind: bfe(kind, a, b, c),
            )  # fmt: skip
            add(f"bfind.{kind} %o, %a;", (bits,), 32, lambda a, kind=kind: bfind(kind, a))
            add(
                f"bfind.shiftamt.{kind} %o, %a;", (bits,), 32,
                lambda a, kind=kind, bits=bits: (
                    -1 if bfind(kind, a) < 0 else bits - 1 - bfind(kind, a)
                ),
            )  # fmt: skip
        if kind[0] == "s":
            add(f"neg.{kind} %o, %a;", (bits,), bits, seen(lambda a: -a))
            add(f"abs.{kind} %o, %a;", (bits,), bits, seen(abs))
        for name, holds in {
            "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
            "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
        }.items():  # fmt: skip
            add(
                f"set.{name}.u32.{kind} %o, %a, %b;", two, 32,
                seen(lambda a, b, holds=holds: -int(holds(a, b))),
            )  # fmt: skip
        for to in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
            wide = max(16, int(to[1:]))

            def clamped(a: int, to: str = to) -> int:
                n = int(to[1:])
                low = -(1 << (n - 1)) if to[0] == "s" else 0
                return max(low, min(a, low + (1 << n) - 1))

            # Where it can do nothing, .sat is illegal.
            ends = ((1 << bits - (kind[0] == "s")) - 1, -(1 << bits - 1) * (kind[0] == "s"))
            if any(clamped(end) != end for end in ends):
                add(
                    f"cvt.sat.{to}.{kind} %o, %a;", (bits,), wide,
                    lambda a, kind=kind, clamped=clamped: clamped(read(kind, a)),
                )  # fmt: skip
            add(
                f"cvt.{to}.{kind} %o, %a;", (bits,), wide,
                lambda a, kind=kind, to=to: read(to, read(kind, a) % (1 << int(to[1:]))),
            )  # fmt: skip
    for bits in (16, 32, 64):
        add(f"shl.b{bits} %o, %a, %b;", (bits, 32), bits, lambda a, b: a << min(b, 64))
        add(f"and.b{bits} %o, %a, %b;", (bits, bits), bits, lambda a, b: a & b)
        add(f"or.b{bits} %o, %a, %b;", (bits, bits), bits, lambda a, b: a | b)
        add(f"xor.b{bits} %o, %a, %b;", (bits, bits), bits, lambda a, b: a ^ b)
        add(f"not.b{bits} %o, %a;", (bits,), bits, lambda a: ~a)
        add(f"cnot.b{bits} %o, %a;", (bits,), bits, lambda a: int(a == 0))
    for bits in (32, 64):
        add(f"popc.b{bits} %o, %a;", (bits,), 32, int.bit_count)
        add(f"clz.b{bits} %o, %a;", (bits,), 32, lambda a, bits=bits: bits - a.bit_length())
        add(
            f"brev.b{bits} %o, %a;", (bits,), bits,
            lambda a, bits=bits: int(f"{a:0{bits}b}"[::-1], 2),
        )  # fmt: skip
        add(
            f"bfi.b{bits} %o, %a, %b, %c, %d;", (bits, bits, 32, 32), bits,
            lambda a, b, c, d, bits=bits: bfi(bits, a, b, c, d),
        )  # fmt: skip
    word, words = (32,) * 2, (32,) * 3
    add("prmt.b32 %o, %a, %b, %c;", words, 32, prmt)
    for mode, place in PERMUTATIONS.items():
        add(
            f"prmt.b32.{mode} %o, %a, %b, %c;", words, 32,
            lambda a, b, c, f=place: prmt(a, b, sum(f(c & 3, i) << 4 * i for i in range(4))),
        )  # fmt: skip
    for table in (0x96, 0xE8, 0x1D, 0, 255):
        add(
            f"lop3.b32 %o, %a, %b, %c, {table};",
            words,
            32,
            lambda a, b, c, t=table: lop3(a, b, c, t),
        )
    for mode, cut in {"wrap": lambda n: n & 31, "clamp": lambda n: min(n, 32)}.items():
        add(
            f"shf.l.{mode}.b32 %o, %a, %b, %c;", words, 32,
            lambda a, b, c, cut=cut: ((b << 32 | a) << cut(c)) >> 32,
        )  # fmt: skip
        add(
            f"shf.r.{mode}.b32 %o, %a, %b, %c;", words, 32,
            lambda a, b, c, cut=cut: (b << 32 | a) >> cut(c),
        )  # fmt: skip
    add(
        "add.sat.s32 %o, %a, %b;", word, 32,
        lambda a, b: max(-(1 << 31), min(signed(a, 32) + signed(b, 32), (1 << 31) - 1)),
    )  # fmt: skip
    add(
        "{.reg .b32 %t; add.cc.u32 %t, %a, %b; addc.u32 %o, %c, 0;}", words, 32,
        lambda a, b, c: c + (a + b >> 32),
    )  # fmt: skip
    add(
        "{.reg .b32 %t; sub.cc.u32 %t, %a, %b; subc.u32 %o, %c, 0;}", words, 32,
        lambda a, b, c: c - (a < b),
    )  # fmt: skip
    add(
        "dp4a.s32.u32 %o, %a, %b, %c;", words, 32,
        lambda a, b, c: c + sum(signed(a >> s & 255, 8) * (b >> s & 255) for s in (0, 8, 16, 24)),
    )  # fmt: skip
    return cases


def float_cases() -> dict[str, tuple[tuple[int, ...], int, Callable[..., int | None]]]:
    """The same for numbers; None for results that are NaN or infinite by rules of their own."""
    cases: dict[str, tuple[tuple[int, ...], int, Callable[..., int | None]]] = {}
    width = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}

    def exact(
        kind: str, f: Callable[..., Fraction | None], rounding: str, to: str = ""
    ) -> Callable[..., int | None]:
        def compute(*words: int) -> int | None:
            values = [decode(kind, word) for word in words]
            if any(isinstance(value, str) for value in values):
                return None
            result = f(*values)
            # The sign of a zero has rules of its own, tested by example.
            return encode(to or kind, result, rounding) if result else None

        return compute

    for kind in ("f32", "f64"):
        bits = width[kind]
        for rounding in ("rn", "rz", "rm", "rp"):
            for name, f in {
                "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
                "div": lambda a, b: a / b if b else None,
            }.items():  # fmt: skip
                line = f"{name}.{rounding}.{kind} %o, %a, %b;"
                cases[line] = ((bits, bits), bits, exact(kind, f, rounding))
            cases[f"fma.{rounding}.{kind} %o, %a, %b, %c;"] = (
                (bits,) * 3, bits, exact(kind, lambda a, b, c: a * b + c, rounding),
            )  # fmt: skip
            cases[f"rcp.{rounding}.{kind} %o, %a;"] = (
                (bits,), bits, exact(kind, lambda a: 1 / a if a else None, rounding),
            )  # fmt: skip
            cases[f"sqrt.{rounding}.{kind} %o, %a;"] = (
                (bits,), bits, exact(kind, root, rounding),
            )  # fmt: skip
            for origin in ("s32", "u32", "s64", "u64"):
                cases[f"cvt.{rounding}.{kind}.{origin} %o, %a;"] = (
                    (int(origin[1:]),), bits,
                    lambda a, k=kind, o=origin, r=rounding: encode(k, Fraction(read(o, a)), r),
                )  # fmt: skip
    for kind in ("f16", "bf16"):
        for name, f in {"add": lambda a, b: a + b, "mul": lambda a, b: a * b}.items():
            cases[f"{name}.rn.{kind} %o, %a, %b;"] = ((16, 16), 16, exact(kind, f, "rn"))
    for kind, to in (("f64", "f32"), ("f32", "f16"), ("f32", "bf16"), ("f64", "f16")):
        for rounding in ("rn", "rz") if to == "bf16" else ("rn", "rz", "rm", "rp"):
            cases[f"cvt.{rounding}.{to}.{kind} %o, %a;"] = (
                (width[kind],), width[to], exact(kind, lambda a: a, rounding, to),
            )  # fmt: skip
    for kind, to in (("f16", "f32"), ("f32", "f64"), ("f16", "f64")):
        cases[f"cvt.{to}.{kind} %o, %a;"] = (
            (width[kind],), width[to], exact(kind, lambda a: a, "rn", to),
        )  # fmt: skip
    for kind in ("f16", "f32", "f64"):
        for to in ("s16", "u16", "s32", "u32", "s64", "u64"):
            for rounding in ("rni", "rzi", "rmi", "rpi"):
                cases[f"cvt.{rounding}.{to}.{kind} %o, %a;"] = (
                    (width[kind],), int(to[1:]),
                    lambda a, k=kind, t=to, r=rounding: clamp(k, t, r, a),
                )  # fmt: skip
        if kind != "f16":
            for name, holds in {
                "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
                "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
            }.items():  # fmt: skip
                for suffix in ("", "u"):
                    cases[f"set.{name}{suffix}.u32.{kind} %o, %a, %b;"] = (
                        (width[kind],) * 2, 32,
                        lambda a, b, k=kind, h=holds, s=suffix: compare(k, h, bool(s), a, b),
                    )  # fmt: skip
    return cases


def root(a: Fraction) -> Fraction | None:
    """Return a value between the same neighbours as the root, or the root itself."""
    if a < 0:
        return None
    shift = 600
    scaled = a * 4**shift
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    exact = Fraction(whole) ** 2 == scaled
    return Fraction(whole if exact else 2 * whole + 1, 1 if exact else 2) / 2**shift


def clamp(kind: str, to: str, rounding: str, word: int) -> int:
    bits = int(to[1:])
    low = -(1 << (bits - 1)) if to[0] == "s" else 0
    high = low + (1 << bits) - 1
    value = decode(kind, word)
    if value == "nan":
        return 1 << (bits - 1) if kind == "f64" or bits == 64 else 0
    if isinstance(value, str):
        return high if value == "+inf" else low
    return max(low, min(to_integer(value, rounding), high))


def compare(kind: str, holds: Callable[..., bool], unordered: bool, a: int, b: int) -> int:
    values = [decode(kind, word) for word in (a, b)]
    if "nan" in values:
        return -int(unordered)
    numbers = [
        {"+inf": math.inf, "-inf": -math.inf}[value] if isinstance(value, str) else value
        for value in values
    ]
    return -int(holds(*numbers))
