"""One dot product at a time, in fractions: the truncated chain, the fma chain, integers."""

from dataclasses import dataclass

from reference.any_dots import CANONICAL, LAYOUTS, any_dot
from reference.numbers import F16, F32, F64, decode, encode

NAMES = {layout: name for name, layout in LAYOUTS.items()}


@dataclass(frozen=True)
class Rule:
    """Figures of a truncated chain, and ways to be wrong that tests ask for by name."""

    block: int
    fraction_bits: int
    zero_exponent: int
    accumulator: object = F32
    normalise_products: bool = False
    flush_subnormals: bool = False
    nearest: bool | None = None  # None: as the accumulator's format has it


H100_F32 = Rule(block=16, fraction_bits=25, zero_exponent=-133)
H100_F16 = Rule(block=16, fraction_bits=25, zero_exponent=-21, accumulator=F16)


def truncated_dot(a, b, c, layout, rule):
    """Pattern of a . b + c; a and b are sequences of patterns of `layout`."""
    accumulator, multiplicand = NAMES[rule.accumulator], NAMES[layout]
    nearest = rule.accumulator is F16 if rule.nearest is None else rule.nearest
    subnormals = "flushed" if rule.flush_subnormals else "kept"
    figures = {
        "accumulator": accumulator, "block": rule.block, "interleaved": 0, "order": "rising",
        "addend": "first", "fraction_bits": rule.fraction_bits,
        "zero_exponent": rule.zero_exponent, "product_range": "unlimited",
        "product_exponent": "normalised" if rule.normalise_products else "sum",
        "rounding": "rn" if nearest else "rz", "overflow": "infinity", "zero": "+",
        "nan": CANONICAL[rule.accumulator], "a_subnormals": subnormals,
        "b_subnormals": subnormals, "c_subnormals": "kept", "d_subnormals": "kept",
    }  # fmt: skip
    types = f"{accumulator}.{multiplicand}.{multiplicand}.{accumulator}"
    return any_dot(types, figures, a, b, int(c))


def fma(a, b, c, mode):
    """Pattern of a * b + c in f64, or None where the result is a NaN."""
    x, y, z = (decode(bits, F64) for bits in (a, b, c))
    if "nan" in {x.kind, y.kind, z.kind}:
        return None
    negative = x.negative != y.negative
    if "inf" in {x.kind, y.kind}:
        if any(n.kind == "finite" and n.value == 0 for n in (x, y)):
            return None
        if z.kind == "inf" and z.negative != negative:
            return None
        return 0x7FF << 52 | negative << 63
    if z.kind == "inf":
        return int(c)
    total = x.value * y.value + z.value
    both = z.negative if negative == z.negative else mode == "rm"
    return encode(total, F64, mode, negative_zero=both)


def integer_dot(a, b, c, *, saturate):
    total = int(c) + sum(int(x) * int(y) for x, y in zip(a, b, strict=True))
    if saturate:
        return max(-(2**31), min(2**31 - 1, total))
    return (total + 2**31) % 2**32 - 2**31


def bit_dot(a, b, c, op):
    count = sum(
        int(x) ^ int(y) if op == "xor" else int(x) & int(y) for x, y in zip(a, b, strict=True)
    )
    return (int(c) + count + 2**31) % 2**32 - 2**31
