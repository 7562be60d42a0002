"""What instructions of several small numbers in a word return, in Python's integers and fractions.

Written from PTX ISA 9.7.1.24 (fns), 9.7.7.1 (set), 9.7.8.6 (lop3), 9.7.9.23 and .24 (cvt, cvt.pack)
and 9.7.18 (video), apart from the simulated device.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import product

from scalar_descriptions import encode, lop3
from selecting_descriptions import COMBINED, NANS, ORDERED, Cases, flushed, halves, number

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


def nth(mask: int, base: int, offset: int) -> int | None:
    if base > 31:
        return None
    offset -= offset >> 31 << 32
    step = -1 if offset < 0 else 1
    places = [base] if offset == 0 else range(base, 32 if step > 0 else -1, step)
    found = [place for place in places if mask >> place & 1]
    rank = max(abs(offset), 1) - 1
    return found[rank] if rank < len(found) else 0xFFFFFFFF


def byte_values(kind: str) -> list[Fraction]:
    """Return the finite numbers of e4m3 or e5m2 that are not negative, by their words."""
    fraction, bias, count = (3, 7, 0x7F) if kind == "e4m3" else (2, 15, 0x7C)
    return [
        Fraction((word & ((1 << fraction) - 1)) + (bool(word >> fraction) << fraction))
        * Fraction(2) ** (max(word >> fraction, 1) - bias - fraction)
        for word in range(count)
    ]


def to_byte(kind: str, origin: str, relu: bool, word: int) -> int:
    value = number(origin, word)
    if value == "nan":
        return 0x7F
    values = byte_values(kind)
    if abs(value) > values[-1]:
        size = len(values) - 1
    else:
        size = min(range(len(values)), key=lambda i: (abs(values[i] - abs(value)), i & 1))
    negative = word >> (31 if origin == "f32" else 15)
    return 0 if relu and negative else size | negative << 7


def from_byte(kind: str, relu: bool, byte: int) -> int:
    values = byte_values(kind)
    size, negative = byte & 0x7F, byte >> 7
    if size >= len(values):
        infinite = kind == "e5m2" and size == 0x7C
        return (0 if relu and negative else 0x7C00 | negative << 15) if infinite else NANS["f16"]
    if relu and negative:
        return 0
    return encode("f16", values[size], "rn") | negative << 15


def conversion_cases() -> Cases:
    cases: Cases = {}
    for kind, relu in product(("e4m3", "e5m2"), (False, True)):
        more = ".relu" * relu
        cases[f"cvt.rn.satfinite{more}.{kind}x2.f32 %o, %a, %b;"] = (
            (32, 32), 16,
            lambda a, b, k=kind, r=relu: to_byte(k, "f32", r, a) << 8 | to_byte(k, "f32", r, b),
        )  # fmt: skip
        cases[f"cvt.rn.satfinite{more}.{kind}x2.f16x2 %o, %a;"] = (
            (32,), 16,
            lambda a, k=kind, r=relu: to_byte(k, "f16", r, a >> 16) << 8
            | to_byte(k, "f16", r, a & 0xFFFF),
        )  # fmt: skip
        cases[f"cvt.rn{more}.f16x2.{kind}x2 %o, %a;"] = (
            (16,), 32,
            lambda a, k=kind, r=relu: from_byte(k, r, a >> 8) << 16 | from_byte(k, r, a & 0xFF),
        )  # fmt: skip
    for kind in ("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"):
        bits = int(kind[1:])
        rest = bits < 16
        cases[f"cvt.pack.sat.{kind}.s32{'.b32' * rest} %o, %a, %b{', %c' * rest};"] = (
            (32,) * (2 + rest), 32,
            lambda a, b, c=0, k=kind, n=bits: c << 2 * n
            | (clamped(part(a, "s", 32, 0), k, n) % (1 << n)) << n
            | clamped(part(b, "s", 32, 0), k, n) % (1 << n),
        )  # fmt: skip
    return cases


def set_cases() -> Cases:
    """What set writes of halves, and of others as halves."""
    cases: Cases = {}
    for kind, ftz, (name, f) in product(("f16", "bf16"), ("", ".ftz"), ORDERED.items()):
        if kind == "bf16" and ftz:
            continue

        def holds(a: int, b: int, k: str = kind, z: str = ftz, f=f) -> bool:
            given = [flushed(k, word) if z else word for word in (a, b)]
            numbers = [number(k, word) for word in given]
            return "nan" not in numbers and f(*numbers)

        one = {"f16": 0x3C00, "bf16": 0x3F80}[kind]
        for to, true in (("u16", 0xFFFF), ("s32", 0xFFFFFFFF), (kind, one)):
            cases[f"set.{name}{ftz}.{to}.{kind} %o, %a, %b;"] = (
                (16, 16), 32 if to == "s32" else 16, lambda a, b, t=true, h=holds: t * h(a, b),
            )  # fmt: skip
        for to, true in (("u32", 0xFFFF), (f"{kind}x2", one)):
            cases[f"set.{name}{ftz}.{to}.{kind}x2 %o, %a, %b;"] = (
                (32, 32), 32, halves(lambda a, b, t=true, h=holds: t * h(a, b)),
            )  # fmt: skip
        for how, combine in COMBINED.items():
            setup = "{.reg .pred %q; setp.lt.s32 %q, %c, 0; "
            cases[f"{setup}set.{name}.{how}{ftz}.{kind}x2.{kind}x2 %o, %a, %b, %q;}}"] = (
                (32, 32, 32), 32,
                lambda a, b, c, t=one, h=holds, g=combine: sum(
                    t * g(h(a >> s & 0xFFFF, b >> s & 0xFFFF), c >> 31 == 1) << s for s in (0, 16)
                ),
            )  # fmt: skip
    cases["set.lt.f16.s64 %o, %a, %b;"] = (
        (64, 64), 16, lambda a, b: 0x3C00 * (part(a, "s", 64, 0) < part(b, "s", 64, 0)),
    )  # fmt: skip
    return cases


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


def packing_cases() -> Cases:
    """All of them."""
    cases: Cases = {"fns.b32 %o, %a, %b, %c;": ((32,) * 3, 32, nth)}
    for how, table in product(("and", "or"), (0x96, 0x40, 0xFE, 0)):
        combine = COMBINED[how]
        line = (
            f"{{.reg .pred %q; setp.lt.s32 %q, %d, 0; lop3.{how}.b32 %o|%q, %a, %b, %c, {table}, "
            "!%q; @%q not.b32 %o, %o;}"
        )

        def asked(a: int, b: int, c: int, d: int, t: int = table, g=combine) -> int:
            found = lop3(a, b, c, t)
            return ~found if g(found != 0, not d >> 31) else found

        cases[line] = ((32,) * 4, 32, asked)
    cases["mad24.hi.sat.s32 %o, %a, %b, %c;"] = (
        (32,) * 3, 32,
        lambda a, b, c: clamped(
            (part(a, "s", 24, 0) * part(b, "s", 24, 0) >> 16) + part(c, "s", 32, 0), "s32", 32
        ),
    )  # fmt: skip
    return cases | video_cases() | shifting_cases() | conversion_cases() | set_cases()
