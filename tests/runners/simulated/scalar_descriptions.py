"""What divisions, roots (in fractions, PTX ISA 9.7.3) and video (in integers, 9.7.18) return."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

from reference.numbers import F32, F64, decode, encode

FORMATS = {"f32": F32, "f64": F64}


def exact(kind: str, f: Callable[..., Fraction | None], rounding: str) -> Callable[..., int | None]:
    """Describe arithmetic of finite numbers; None where a zero's or a NaN's rules decide."""

    def compute(*words: int) -> int | None:
        numbers = [decode(word, FORMATS[kind]) for word in words]
        if any(number.kind != "finite" for number in numbers):
            return None
        result = f(*(number.value for number in numbers))
        return encode(result, FORMATS[kind], rounding) if result else None

    return compute


def float_cases() -> dict[str, tuple[tuple[int, ...], int, Callable[..., int | None]]]:
    """Instruction by text, with the bits of its operands, of its result, and what it returns."""
    return {
        f"{name}.{rounding}.{kind} %o, {operands};": (
            (bits,) * operands.count("%"), bits, exact(kind, f, rounding),
        )
        for kind, bits in (("f32", 32), ("f64", 64))
        for rounding in ("rn", "rz", "rm", "rp")
        for name, operands, f in (
            ("div", "%a, %b", lambda a, b: a / b if b else None),
            ("rcp", "%a", lambda a: 1 / a if a else None),
            ("sqrt", "%a", root),
        )
    }  # fmt: skip


def root(a: Fraction) -> Fraction | None:
    """Return a value between the same neighbours as the root, or the root itself."""
    if a < 0:
        return None
    shift = 600
    scaled = a * 4**shift
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    exact = Fraction(whole) ** 2 == scaled
    return Fraction(whole if exact else 2 * whole + 1, 1 if exact else 2) / 2**shift


VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
    "vavrg": lambda a, b: (a + b + 1) // 2 if a + b >= 0 else (a + b) // 2,
}


def summed(f: Callable[[int, int], int], kinds: tuple[str, ...], bits: int):
    """Return what takes three words, of which the first two are numbers of so many bits."""

    def number(word: int, kind: str, place: int) -> int:
        value = word >> place & ((1 << bits) - 1)
        return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value

    return lambda x, y, z: (
        z
        + sum(
            f(number(x, kinds[0], place), number(y, kinds[1], place))
            for place in range(0, 32, bits)
        )
    )


def video_cases() -> dict[str, tuple[tuple[int, ...], int, Callable[..., int]]]:
    """Instructions of all halves or bytes of words that add up: the oracle has the others."""
    cases = {}
    for (name, f), *kinds, count in product(VIDEO.items(), *[("u32", "s32")] * 2, (2, 4)):
        for given in ("u32", "s32"):
            line = f"{name}{count}.{given}.{'.'.join(kinds)}.add %o, %a, %b, %c;"
            cases[line] = ((32,) * 3, 32, summed(f, tuple(kinds), 32 // count))
    return cases | SELECTED_CASES


def signed(word: int, bits: int = 32) -> int:
    return (word & (1 << bits) - 1) - (word >> bits - 1 & 1) * (1 << bits)


THREE = (32,) * 3
SELECTED_CASES: dict[str, tuple[tuple[int, ...], int, Callable[..., int]]] = {
    "vadd.s32.u32.s32.sat %o, %a.b3, %b;": (
        (32, 32), 32, lambda x, y: min((x >> 24) + signed(y), (1 << 31) - 1),
    ),
    "vsub.u32.s32.u32 %o.b2, %a.h1, %b.b0, %c;": (
        THREE, 32,
        lambda x, y, z: z & ~0xFF0000 | (signed(x >> 16, 16) - (y & 0xFF) & 0xFF) << 16,
    ),
    "vabsdiff.u32.u32.u32.max %o, %a, %b, %c;": (THREE, 32, lambda x, y, z: max(abs(x - y), z)),
    "vset.s32.u32.ge.add %o, %a, %b, %c;": (THREE, 32, lambda x, y, z: z + (signed(x) >= y)),
    "vshr.u32.s32.u32.wrap %o, %a, %b;": ((32, 32), 32, lambda x, y: signed(x) >> y % 32),
    "vshl.u32.u32.u32.clamp %o, %a, %b;": ((32, 32), 32, lambda x, y: x << min(y, 32)),
    "vmad.u32.u32.s32.po.shr7 %o, %a, %b.h0, %c;": (
        THREE, 32, lambda x, y, z: x * signed(y, 16) + signed(z) + 1 >> 7,
    ),
    "vadd4.u32.u32.u32 %o.b30, %a.b7016, %b.b5540, %c;": (
        THREE, 32,
        lambda x, y, z: z & 0xFFFF00 | ((y >> 24) + (y >> 8) & 0xFF) << 24
        | ((y >> 16) + x & 0xFF),
    ),
}  # fmt: skip
