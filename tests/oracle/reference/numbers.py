"""Bit patterns as exact rational numbers, and back, for any IEEE 754-like format."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Layout:
    """Field widths of a float; `ignored` low bits of the word are no part of the value."""

    exponent_bits: int
    fraction_bits: int
    ignored: int = 0

    @property
    def bias(self):
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def least_exponent(self):
        return 1 - self.bias


F16 = Layout(5, 10)
BF16 = Layout(8, 7)
TF32 = Layout(8, 10, 13)
F32 = Layout(8, 23)
F64 = Layout(11, 52)


@dataclass(frozen=True)
class Number:
    """A decoded pattern: kind is "finite", "inf" or "nan"."""

    kind: str
    negative: bool
    value: Fraction = Fraction(0)
    exponent: int = 0  # of a finite number that is not zero; subnormals have the least one


def decode(bits, layout):
    bits = int(bits) >> layout.ignored
    fraction = bits % 2**layout.fraction_bits
    field = (bits >> layout.fraction_bits) % 2**layout.exponent_bits
    negative = bool(bits >> (layout.fraction_bits + layout.exponent_bits))
    if field == 2**layout.exponent_bits - 1:
        return Number("nan" if fraction else "inf", negative)
    exponent = max(field, 1) - layout.bias
    significand = Fraction(fraction, 2**layout.fraction_bits) + (1 if field else 0)
    value = significand * Fraction(2) ** exponent
    return Number("finite", negative, -value if negative else value, exponent)


def floor_log2(value):
    """Largest e with 2^e <= value, value > 0."""
    e = value.numerator.bit_length() - value.denominator.bit_length()
    return e if Fraction(2) ** e <= value else e - 1


def encode(value, layout, mode, *, negative_zero=False, overflow=None):
    """Round an exact value; mode: rn, rz, rm, rp.

    `overflow` "inf" makes any magnitude that no longer fits infinite, whatever the mode.
    """
    if value == 0:
        return (1 if negative_zero else 0) << (layout.exponent_bits + layout.fraction_bits)
    negative = value < 0
    magnitude = abs(value)
    exponent = max(floor_log2(magnitude), layout.least_exponent)
    quantum = Fraction(2) ** (exponent - layout.fraction_bits)
    steps, rest = divmod(magnitude, quantum)
    steps = int(steps)
    up = {
        "rn": rest * 2 > quantum or (rest * 2 == quantum and steps % 2),
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
    }[mode]
    steps += bool(up)
    # `steps` counts quanta; the pattern of a positive float is monotone in the value
    pattern = steps + ((exponent - layout.least_exponent) << layout.fraction_bits)
    infinity = (2**layout.exponent_bits - 1) << layout.fraction_bits
    if pattern >= infinity:
        saturates = mode in ("rz", "rp" if negative else "rm") and overflow != "inf"
        pattern = infinity - 1 if saturates else infinity
    return pattern | negative << (layout.exponent_bits + layout.fraction_bits)
