"""What video instructions return (PTX ISA 9.7.18), in Python's integers.

The oracle has few of them.
"""

import operator
from collections.abc import Callable
from itertools import product

Cases = dict[str, tuple[tuple[int, ...], int, Callable[..., int | None]]]

ORDERED = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
TYPES = ("u32", "s32")
VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
    "vavrg": lambda a, b: (a + b + 1) // 2 if a + b >= 0 else (a + b) // 2,
}


def part(word: int, kind: str, bits: int, place: int) -> int:
    value = word >> bits * place & ((1 << bits) - 1)
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def selected(word: int, kind: str, selector: str) -> int:
    return part(word, kind, {"b": 8, "h": 16, "": 32}[selector[:1]], int(selector[1:] or 0))


def clamped(value: int, kind: str, bits: int) -> int:
    low = -(1 << (bits - 1)) if kind[0] == "s" else 0
    return max(low, min(value, low + (1 << bits) - 1))


def replaced(word: int, bits: int, place: int, value: int) -> int:
    mask = ((1 << bits) - 1) << bits * place
    return word & ~mask | value << bits * place & mask


def scalar_video(f: Callable[[int, int], int], kinds: tuple[str, str, str], a: str, b: str):
    """Return what takes three words, the second operation, .sat, and what is selected of d."""

    def describe(x: int, y: int, z: int, second: str = "", sat: bool = False, d: str = ""):
        found = f(selected(x, kinds[1], a), selected(y, kinds[2], b))
        bits = {"b": 8, "h": 16, "": 32}[d[:1]]
        if sat:
            found = clamped(found, kinds[0], bits)
        elif second in ("min", "max") and not -(1 << 32) <= found < 1 << 32:
            return None  # No number of 33 bits holds it.
        addend = part(z, kinds[0], 32, 0)
        if second:
            found = {"add": found + addend, "min": min(found, addend), "max": max(found, addend)}[
                second
            ]
        return replaced(z, bits, int(d[1:]), found) if d else found

    return describe


def video_cases() -> Cases:
    cases: Cases = {}
    words = (32,) * 3
    selectors = [("", ""), (".b3", ".h1"), (".h0", "")]
    compared = {
        f"vset.{name}": (lambda holds: lambda a, b: int(holds(a, b)))(f)
        for name, f in ORDERED.items()
    }
    for turn, (name, f) in enumerate((VIDEO | compared).items()):
        if name == "vavrg":
            continue
        for kinds in product(TYPES, repeat=3):
            opcode = ".".join((name, *kinds))
            a, b = selectors[turn % 3]
            sats = (False, True)
            if "vset" in name:
                opcode = ".".join(("vset", *kinds[1:], name.partition(".")[2]))
                kinds, sats = ("u32", *kinds[1:]), (False,)
            g = scalar_video(f, kinds, a[1:], b[1:])
            for sat in sats:
                head = opcode + ".sat" * sat
                cases[f"{head} %o, %a{a}, %b{b};"] = (
                    words[:2], 32, lambda x, y, g=g, s=sat: g(x, y, 0, sat=s),
                )  # fmt: skip
                for second in ("add", "min", "max"):
                    cases[f"{head}.{second} %o, %a{a}, %b{b}, %c;"] = (
                        words, 32, lambda *w, g=g, s=sat, o=second: g(*w, second=o, sat=s),
                    )  # fmt: skip
                d = ("b0", "b2", "h1")[turn % 3]
                cases[f"{head} %o.{d}, %a{a}, %b{b}, %c;"] = (
                    words, 32, lambda *w, g=g, s=sat, d=d: g(*w, sat=s, d=d),
                )  # fmt: skip
    for count, shapes in (
        (2, [("10", "10", "32"), ("0", "31", "02")]),
        (4, [("3210", "3210", "7654"), ("320", "7016", "5540")]),
    ):
        for name, f in (VIDEO | compared).items():
            for kinds in product(TYPES, repeat=3):
                opcode = f"{name}{count}.{'.'.join(kinds)}"
                if "vset" in name:
                    opcode = f"vset{count}.{'.'.join(kinds[1:])}.{name.partition('.')[2]}"
                for (d, a, b), end in product(shapes, ("", ".sat", ".add")):
                    if end == ".sat" and "vset" in name:
                        continue
                    letter = "h" if count == 2 else "b"
                    usual = len(d) == count
                    text = [r if usual else f"{r}.{letter}{s}" for r, s in
                            (("%o", d), ("%a", a), ("%b", b))]  # fmt: skip
                    cases[f"{opcode}{end} {', '.join(text)}, %c;"] = (
                        words, 32, packed_video(f, kinds, (d, a, b), count, end),
                    )  # fmt: skip
    return cases


def packed_video(f, kinds, chosen, count: int, end: str):
    bits = 32 // count

    def describe(x: int, y: int, z: int) -> int:
        pair, result = y << 32 | x, z
        for place in map(int, chosen[0]):
            left, right = (
                part(pair, kind, bits, int(digits[::-1][place]))
                for kind, digits in zip(kinds[1:], chosen[1:], strict=True)
            )
            found = f(left, right)
            if end == ".sat":
                found = clamped(found, kinds[0], bits)
            result = result + found if end == ".add" else replaced(result, bits, place, found)
        return result

    return describe


def shifting_cases() -> Cases:
    """vshl, vshr and vmad (9.7.18)."""
    cases: Cases = {}
    for turn, (kind, source, mode) in enumerate(product(TYPES, TYPES, ("clamp", "wrap"))):
        a, b = [("", ""), (".b3", ".h1"), (".h0", ".b1")][turn % 3]
        shifts: dict[str, Callable[[int, int], int]] = {
            "vshl": lambda x, y, m=mode: x * 2 ** (min(y, 32) if m == "clamp" else y % 32),
            "vshr": lambda x, y, m=mode: x // 2 ** (min(y, 32) if m == "clamp" else y % 32),
        }
        for name, f in shifts.items():
            g = scalar_video(f, (kind, source, "u32"), a[1:], b[1:])
            head, read = f"{name}.{kind}.{source}.u32", f"%a{a}, %b{b}"
            cases[f"{head}.{mode} %o, {read};"] = ((32, 32), 32, lambda x, y, g=g: g(x, y, 0))
            cases[f"{head}.{mode}.add %o, {read}, %c;"] = (
                (32,) * 3, 32, lambda *w, g=g: g(*w, second="add"),
            )  # fmt: skip
            cases[f"{head}.{mode} %o.h1, {read}, %c;"] = (
                (32,) * 3, 32, lambda *w, g=g: g(*w, d="h1"),
            )  # fmt: skip
        cases[f"{head}.sat.{mode} %o, {read};"] = (
            (32, 32), 32, lambda x, y, g=g: g(x, y, 0, sat=True),
        )  # fmt: skip
        cases[f"{head}.{mode}.min %o, {read}, %c;"] = (
            (32,) * 3, 32, lambda *w, g=g: g(*w, second="min"),
        )  # fmt: skip
    ends = product(("", ".po"), ("", ".sat"), ("", ".shr7", ".shr15"))
    for turn, ((po, sat, scale), *kinds) in enumerate(product(ends, TYPES, TYPES)):
        a, b = [("", ""), (".b3", ".h1"), (".h0", ".b1")][turn % 3]

        def sums(x: int, y: int, z: int, kinds=kinds, how=(po, sat, scale), a=a, b=b) -> int:
            signed = "s32" if "s32" in kinds else "u32"
            product_ = selected(x, kinds[0], a[1:]) * selected(y, kinds[1], b[1:])
            found = product_ + part(z, signed, 32, 0) + bool(how[0])
            found //= 2 ** int(how[2][4:] or 0)
            return clamped(found, signed, 32) if how[1] else found

        opcode = f"vmad.{TYPES[turn % 2]}.{'.'.join(kinds)}{po}{sat}{scale}"
        cases[f"{opcode} %o, %a{a}, %b{b}, %c;"] = ((32,) * 3, 32, sums)
    return cases
