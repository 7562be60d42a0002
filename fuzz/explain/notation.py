"""How a page writes numbers, from bit patterns to exact fractions, and tables.

Code of its own: what a page says is not what the oracle's arithmetic says of itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fuzz.output import harmless
from oracle.formats import Format

_MOST_DIGITS = {"f16": 5, "bf16": 4, "tf32": 5, "f32": 9, "f64": 17}
"""Decimal digits that tell any two values of a format apart (IEEE 754-2019, 5.12.2)."""


@dataclass(frozen=True, kw_only=True)
class Number:
    """The value of a floating-point pattern."""

    kind: str
    """"finite", "infinity" or "NaN"."""
    negative: bool
    value: Fraction = Fraction(0)
    """0 unless finite."""
    exponent: int = 0
    """Exponent of a finite number that is not zero; a subnormal has the least exponent of its
    format."""

    @property
    def is_zero(self) -> bool:
        """Whether it is +0 or -0."""
        return self.kind == "finite" and self.value == 0


def number(bits: int, format_: Format) -> Number:
    """Return the value of a raw pattern; bits that a format ignores are dropped."""
    bits >>= format_.ignored_bits
    fraction_bits, exponent_bits = format_.fraction_bits, format_.exponent_bits
    fraction = bits & ((1 << fraction_bits) - 1)
    field = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    negative = bool(bits >> (fraction_bits + exponent_bits) & 1)
    if field == (1 << exponent_bits) - 1:
        return Number(kind="NaN" if fraction else "infinity", negative=negative)
    exponent = max(field, 1) - format_.bias
    significand = fraction + ((1 << fraction_bits) if field else 0)
    value = significand * Fraction(2) ** (exponent - fraction_bits)
    return Number(
        kind="finite", negative=negative, value=-value if negative else value, exponent=exponent
    )


def pattern(value: Fraction, format_: Format, mode: str, *, negative_zero: bool = False) -> int:
    """Round an exact value to a format and return its bits.

    Parameters
    ----------
    mode
        "rn" to nearest even, "rz" toward zero, "rm" down, "rp" up. "rz, infinite beyond" is toward
        zero but that what is too large becomes infinite, as tensor cores have it.
    negative_zero
        The sign of a zero.
    """
    width = format_.exponent_bits + format_.fraction_bits
    sign = int(value < 0 or (value == 0 and negative_zero)) << width
    least = 1 - format_.bias
    magnitude = abs(value)
    exponent = max(exponent_of(magnitude), least) if value else least
    unit = Fraction(2) ** (exponent - format_.fraction_bits)
    steps, rest = divmod(magnitude, unit)
    steps += _goes_up(mode, negative=value < 0, odd=bool(steps % 2), rest=rest, unit=unit)
    # The pattern of a magnitude counts the units below it, from one exponent to the next.
    bits = int(steps) + (exponent - least << format_.fraction_bits)
    infinity = ((1 << format_.exponent_bits) - 1) << format_.fraction_bits
    if bits >= infinity:
        stays = mode == "rz" or mode == ("rp" if value < 0 else "rm")
        bits = infinity - 1 if stays else infinity
    return sign | bits


def _goes_up(mode: str, *, negative: bool, odd: bool, rest: Fraction, unit: Fraction) -> bool:
    if mode == "rn":
        return 2 * rest > unit or (2 * rest == unit and odd)
    return rest > 0 and mode == ("rm" if negative else "rp")


def exponent_of(magnitude: Fraction) -> int:
    """Return the largest e with 2^e <= magnitude, which is positive."""
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if Fraction(2) ** guess <= magnitude else guess - 1


def ordinal(bits: int, format_: Format) -> int:
    """Return the place of a number that is not NaN among all of its format; +0 and -0 are 0."""
    half = 1 << (format_.bits - 1)
    return -(bits - half) if bits & half else bits


def hexadecimal(bits: int, size: int) -> str:
    """Return raw bits with all of their digits."""
    return f"0x{bits:0{-(-size // 4)}x}"


def exact(value: Fraction) -> str:
    """Return a value that is a whole number of some power of two, as C99 writes it: 0x1.8p-3."""
    if value == 0:
        return "0"
    exponent = exponent_of(abs(value))
    rest = abs(value) / Fraction(2) ** exponent - 1
    digits = ""
    while rest:
        digit, rest = divmod(rest * 16, 1)
        digits += f"{int(digit):x}"
    return f"{'-' if value < 0 else ''}0x1{'.' if digits else ''}{digits}p{exponent:+d}"


def decimal(bits: int, format_: Format) -> str:
    """Return a pattern as a person reads it: enough digits to tell it from its neighbours."""
    if not format_.is_float:
        return str(signed(bits, format_))
    one = number(bits, format_)
    if one.kind != "finite":
        return f"{'-' if one.negative else ''}{one.kind}"
    if one.is_zero:
        return "-0" if one.negative else "0"
    return f"{float(one.value):.{_MOST_DIGITS[format_.name]}g}"


def signed(bits: int, format_: Format) -> int:
    """Return the integer that raw bits stand for."""
    bits &= (1 << format_.bits) - 1
    half = 1 << (format_.bits - 1)
    return bits - 2 * half if format_.kind.value == "signed" and bits & half else bits


_MEANT = str.maketrans({sign: f"\\{sign}" for sign in "\\`*[]<>|&"})
"""Signs that make code, emphasis, links, pictures, HTML and cells of a table (CommonMark 0.31)."""


def escaped(text: str) -> str:
    """Return a text of somebody else's so that a page shows it as it is, on one line."""
    return harmless(" ".join(text.split()), one_line=True).translate(_MEANT)


def code(text: str) -> str:
    """Return a text of somebody else's as code within a line."""
    line = harmless(" ".join(text.split()), one_line=True)
    ticks = "`"
    while ticks in line:
        ticks += "`"
    space = " " if "`" in line else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, most: int = 0) -> list[str]:
    """Return the lines of a table, an empty one around it.

    Of more than `most` rows (0: all are shown) a last line says how many are not shown.
    """
    shown = rows[:most] if most else rows
    lines = ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in shown]
    if len(shown) < len(rows):
        lines += ["", f"… and {len(rows) - len(shown)} more."]
    return [*lines, ""]


def _cell(text: str) -> str:
    return text.replace("\\|", "|").replace("|", "/")


def fenced(text: str, language: str = "") -> list[str]:
    """Return a block of text that is shown as it is."""
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return [f"{ticks}{language}", *text.rstrip("\n").split("\n"), ticks, ""]
