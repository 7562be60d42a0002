"""One dot product at a time, in fractions: the truncated chain, the fma chain, integers."""

import math
from dataclasses import dataclass
from fractions import Fraction

from reference.numbers import F16, F32, F64, Number, decode, encode

CANONICAL = {F16: 0x7FFF, F32: 0x7FFFFFFF}


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
    total = int(c)
    for start in range(0, len(a), rule.block):
        stop = start + rule.block
        total = _block(a[start:stop], b[start:stop], total, layout, rule)
    return total


def _flushed(number, layout, rule):
    subnormal = number.kind == "finite" and abs(number.value) < Fraction(2) ** layout.least_exponent
    if rule.flush_subnormals and subnormal:
        return Number("finite", number.negative)
    return number


def _block(a, b, c, layout, rule):
    accumulator = rule.accumulator
    pairs = [
        (_flushed(decode(x, layout), layout, rule), _flushed(decode(y, layout), layout, rule))
        for x, y in zip(a, b, strict=True)
    ]
    addend = decode(c, accumulator)
    infinities = set()
    for x, y in pairs:
        kinds = {x.kind, y.kind}
        if "nan" in kinds:
            return CANONICAL[accumulator]
        if "inf" in kinds:
            if any(n.kind == "finite" and n.value == 0 for n in (x, y)):
                return CANONICAL[accumulator]
            infinities.add(x.negative != y.negative)
    if addend.kind == "nan":
        return CANONICAL[accumulator]
    if addend.kind == "inf":
        infinities.add(addend.negative)
    if infinities:
        if len(infinities) == 2:
            return CANONICAL[accumulator]
        width = accumulator.exponent_bits + accumulator.fraction_bits
        infinity = (2**accumulator.exponent_bits - 1) << accumulator.fraction_bits
        return infinity | infinities.pop() << width

    terms = []
    for x, y in pairs:
        exponent = x.exponent + y.exponent
        product = x.value * y.value
        if rule.normalise_products and abs(product) >= Fraction(2) ** (exponent + 1):
            exponent += 1
        terms.append((product, exponent))
    terms.append((addend.value, addend.exponent))
    largest = max(e if value else rule.zero_exponent for value, e in terms)
    quantum = Fraction(2) ** (largest - rule.fraction_bits)
    total = sum(math.trunc(value / quantum) for value, _ in terms) * quantum
    nearest = accumulator is F16 if rule.nearest is None else rule.nearest
    pattern = encode(total, accumulator, "rn" if nearest else "rz", overflow="inf")
    sign = 1 << (accumulator.exponent_bits + accumulator.fraction_bits)
    return 0 if pattern == sign else pattern


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
