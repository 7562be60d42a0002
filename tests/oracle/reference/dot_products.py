"""One multiply-add at a time, in exact numbers."""

from reference.numbers import F64, decode, encode


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
