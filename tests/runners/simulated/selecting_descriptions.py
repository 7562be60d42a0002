"""What comparisons, choices and modifiers return, in Python's integers and fractions.

Written from PTX ISA 9.3.1, 9.7.3 to 9.7.7 and 9.7.9.23, apart from the simulated device.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from scalar_descriptions import FORMATS, NANS, compare, decode, encode, read

Describe = Callable[..., int | None]
Cases = dict[str, tuple[tuple[int, ...], int, Describe]]

WIDTH = {kind: 1 + sum(fields) for kind, fields in FORMATS.items()}
ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
COMBINED: dict[str, Callable[[bool, bool], bool]] = {
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "xor": lambda a, b: a != b,
}  # fmt: skip


def sign(kind: str, word: int) -> int:
    return word >> (WIDTH[kind] - 1)


def is_subnormal(kind: str, word: int) -> bool:
    value = decode(kind, word)
    exponent_bits, fraction_bits = FORMATS[kind]
    field = word >> fraction_bits & ((1 << exponent_bits) - 1)
    return not isinstance(value, str) and value != 0 and field == 0


def flushed(kind: str, word: int) -> int:
    return sign(kind, word) << (WIDTH[kind] - 1) if is_subnormal(kind, word) else word


def number(kind: str, word: int) -> Any:
    """Return a value that compares, with infinities."""
    value = decode(kind, word)
    return {"+inf": math.inf, "-inf": -math.inf}.get(value, value)  # type: ignore[arg-type]


def rounded(
    kind: str, f: Callable[..., Fraction], *, ftz: bool = False, sat: bool = False,
    relu: bool = False,
) -> Describe:  # fmt: skip
    """Describe arithmetic of finite numbers; None where a zero's or a NaN's rules decide."""

    def describe(*words: int) -> int | None:
        given = [flushed(kind, word) if ftz else word for word in words]
        values = [decode(kind, word) for word in given]
        if any(isinstance(value, str) for value in values):
            return None
        exact = f(*values)
        if sat:
            exact = max(Fraction(0), min(exact, Fraction(1)))
        if relu:
            exact = max(Fraction(0), exact)
        if exact == 0:
            return 0 if sat or relu else None
        word = encode(kind, exact, "rn")
        exponent_bits, fraction_bits = FORMATS[kind]
        least = Fraction(2) ** (2 - (1 << (exponent_bits - 1)))
        if ftz and abs(exact) < least:
            # Whether it is below before or after it is rounded is left open.
            return (
                None
                if word & ((1 << (WIDTH[kind] - 1)) - 1) >> fraction_bits
                else (flushed(kind, word))
            )
        return word

    return describe


def extreme(kind: str, most: bool, propagates: bool) -> Describe:
    """Describe min and max: a NaN loses, or wins with .NaN; -0 is below +0."""

    def describe(a: int, b: int) -> int | None:
        nans = [decode(kind, word) == "nan" for word in (a, b)]
        if all(nans) or (propagates and any(nans)):
            return None if kind == "f64" else NANS[kind]
        if any(nans):
            return b if nans[0] else a
        keys = [(number(kind, word), -sign(kind, word)) for word in (a, b)]
        first = keys[0] >= keys[1] if most else keys[0] <= keys[1]
        return a if first else b

    return describe


def halves(describe: Describe) -> Describe:
    """Describe a computation on each half of a word; a half left open leaves the word open."""

    def both(*words: int) -> int | None:
        low = describe(*(word & 0xFFFF for word in words))
        high = describe(*(word >> 16 for word in words))
        return None if low is None or high is None else (low & 0xFFFF) | (high & 0xFFFF) << 16

    return both


def arithmetic_cases() -> Cases:
    """Sums and products with .ftz, .sat and .relu, in halves and pairs of halves."""
    cases: Cases = {}
    functions: dict[str, Callable[..., Fraction]] = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
        "fma": lambda a, b, c: a * b + c,
    }  # fmt: skip
    for name, f in functions.items():
        count = 3 if name == "fma" else 2
        operands = ", ".join(f"%{letter}" for letter in "abc"[:count])
        rows = [("f32", "ftz"), ("f32", "sat"), ("f32", "ftz.sat"), ("f16", ""), ("f16", "ftz")]
        rows += [("f16", "sat"), ("f16", "ftz.sat"), ("bf16", "")]
        rows += [("f16", "relu"), ("bf16", "relu")] if name == "fma" else []
        for kind, suffix in rows:
            described = rounded(
                kind, f, ftz="ftz" in suffix, sat="sat" in suffix, relu="relu" in suffix
            )
            dotted = f".{suffix}" if suffix else ""
            bits = WIDTH[kind]
            line = f"{name}.rn{dotted}.{kind} %o, {operands};"
            cases[line] = ((bits,) * count, bits, described)
            if bits == 16:
                line = f"{name}.rn{dotted}.{kind}x2 %o, {operands};"
                cases[line] = ((32,) * count, 32, halves(described))
    for name in ("min", "max"):
        for kind, bits in WIDTH.items():
            for nan in ("",) if kind == "f64" else ("", ".NaN"):
                described = extreme(kind, name == "max", bool(nan))
                cases[f"{name}{nan}.{kind} %o, %a, %b;"] = ((bits, bits), bits, described)
                if bits == 16:
                    line = f"{name}{nan}.{kind}x2 %o, %a, %b;"
                    cases[line] = ((32, 32), 32, halves(described))
        for letter in "us":
            described = (lambda f, k: lambda a, b: f(read(k, a), read(k, b)))(
                max if name == "max" else min, f"{letter}16"
            )
            cases[f"{name}.{letter}16x2 %o, %a, %b;"] = ((32, 32), 32, halves(described))
        cases[f"{name}.relu.s32 %o, %a, %b;"] = (
            (32, 32), 32,
            (lambda f: lambda a, b: max(0, f(read("s32", a), read("s32", b))))(
                max if name == "max" else min
            ),
        )  # fmt: skip
    return cases


def comparison_cases() -> Cases:
    """All comparisons as predicates, alone and combined, and what chooses by them."""
    cases: Cases = {}

    def add(name: str, kind: str, holds: Callable[[int, int], bool], ftz: str = "") -> None:
        bits = 16 if kind in ("f16", "bf16") else int(kind[1:])
        chosen = "selp.u32 %o, 7, 9, %q;"
        line = f"{{.reg .pred %q; setp.{name}{ftz}.{kind} %q, %a, %b; {chosen}}}"
        cases[line] = ((bits, bits), 32, lambda a, b: 7 if holds(a, b) else 9)
        # A second predicate has the comparison turned round, and is combined in the same way.
        for how, combine in COMBINED.items() if kind in ("s32", "f32") else ():
            line = (
                f"{{.reg .pred %q, %s, %t; setp.lt.s32 %t, %c, 0; "
                f"setp.{name}.{how}{ftz}.{kind} %q|%s, %a, %b, %t; "
                f"selp.u32 %o, 7, 9, %q; @%s add.u32 %o, %o, 100;}}"
            )
            cases[line] = (
                (bits, bits, 32), 32,
                lambda a, b, c, f=combine: (7 if f(holds(a, b), c >> 31 == 1) else 9)
                + (100 if f(not holds(a, b), c >> 31 == 1) else 0),
            )  # fmt: skip

    for kind in ("u16", "s16", "u32", "s32", "u64", "s64", "b32"):
        names = dict(ORDERED) if kind[0] != "b" else {name: ORDERED[name] for name in ("eq", "ne")}
        if kind[0] == "u":
            names |= {alias: ORDERED[name] for alias, name in UNSIGNED_NAMES.items()}
        for name, f in names.items():
            seen = kind.replace("b", "u")
            add(name, kind, lambda a, b, f=f, k=seen: f(read(k, a), read(k, b)))
    for kind in WIDTH:
        for name, f in ORDERED.items():
            for unordered in ("", "u"):
                add(
                    name + unordered, kind,
                    lambda a, b, k=kind, f=f, u=unordered: compare(k, f, bool(u), a, b) == -1,
                )  # fmt: skip
        add("nan", kind, lambda a, b, k=kind: "nan" in (decode(k, a), decode(k, b)))
        add("num", kind, lambda a, b, k=kind: "nan" not in (decode(k, a), decode(k, b)))
    add(
        "lt", "f32",
        lambda a, b: compare("f32", ORDERED["lt"], False, flushed("f32", a), flushed("f32", b))
        == -1,
        ftz=".ftz",
    )  # fmt: skip
    cases["slct.u64.s32 %o, %a, %b, %c;"] = (
        (64, 64, 32), 64, lambda a, b, c: b if c >> 31 else a,
    )  # fmt: skip
    for ftz in ("", ".ftz"):
        cases[f"slct{ftz}.b32.f32 %o, %a, %b, %c;"] = (
            (32, 32, 32), 32,
            lambda a, b, c, z=ftz: (
                a
                if decode("f32", c) != "nan" and number("f32", flushed("f32", c) if z else c) >= 0
                else b
            ),
        )  # fmt: skip
    return cases


def sign_cases() -> Cases:
    """What changes or asks for a sign or a class."""
    cases: Cases = {}
    for kind, bits in WIDTH.items():
        top = 1 << (bits - 1)
        for name, change in {"neg": lambda a, t: a ^ t, "abs": lambda a, t: a & (t - 1)}.items():
            cases[f"{name}.{kind} %o, %a;"] = (
                (bits,), bits,
                lambda a, k=kind, f=change, t=top: None if decode(k, a) == "nan" else f(a, t),
            )  # fmt: skip
    classes: dict[str, Callable[[str, int], bool]] = {
        "finite": lambda k, a: not isinstance(decode(k, a), str),
        "infinite": lambda k, a: decode(k, a) in ("+inf", "-inf"),
        "number": lambda k, a: decode(k, a) != "nan",
        "notanumber": lambda k, a: decode(k, a) == "nan",
        "normal": lambda k, a: not isinstance(decode(k, a), str) and not is_subnormal(k, a),
        "subnormal": is_subnormal,
    }
    for kind in ("f32", "f64"):
        bits = WIDTH[kind]
        cases[f"copysign.{kind} %o, %a, %b;"] = (
            (bits, bits), bits,
            lambda a, b, n=bits: (b & ((1 << (n - 1)) - 1)) | (a >> (n - 1) << (n - 1)),
        )  # fmt: skip
        for name, holds in classes.items():
            line = f"{{.reg .pred %q; testp.{name}.{kind} %q, %a; selp.u32 %o, 1, 0, %q;}}"
            cases[line] = ((bits,), 32, lambda a, k=kind, f=holds: int(f(k, a)))
    return cases


def selecting_cases() -> Cases:
    """All of them."""
    return arithmetic_cases() | comparison_cases() | sign_cases()
