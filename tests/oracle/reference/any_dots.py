"""One dot product by any figures that a model can have, in fractions."""

import math
from fractions import Fraction

from reference.numbers import BF16, F16, F32, TF32, Number, decode, encode

CANONICAL = {F16: 0x7FFF, F32: 0x7FFFFFFF}
LAYOUTS = {"f16": F16, "bf16": BF16, "tf32": TF32, "f32": F32}
OVERFLOWS = {"infinity": "inf", "largest": "largest"}


def width(layout):
    return layout.exponent_bits + layout.fraction_bits


def infinity(layout, negative):
    return (2**layout.exponent_bits - 1) << layout.fraction_bits | negative << width(layout)


def any_dot(types, figures, a, b, c):
    """Pattern of D; `types` as "f32.f16.f16.f32", figures by name."""
    d_layout, multiplicand, _, c_layout = (LAYOUTS[name] for name in types.split("."))
    accumulator = LAYOUTS[figures["accumulator"]]
    a, b = (
        [kept(operand(x, multiplicand, figures), multiplicand, figures[f"{name}_subnormals"])
         for x in row]
        for name, row in (("a", a), ("b", b))
    )  # fmt: skip
    addend = kept(decode(c, c_layout), c_layout, figures["c_subnormals"])
    start = repattern(addend, accumulator)
    last = figures["addend"] == "last"
    total = 0 if last else start
    for index, ks in enumerate(blocks(len(a), figures)):
        apart = index and figures.get("sums") == "separate"
        begin = decode(0 if apart else total, accumulator)
        made = block([(a[k], b[k]) for k in ks], begin, accumulator, figures)
        total = (
            plain_sum(
                decode(total, accumulator), decode(made, accumulator), accumulator,
                figures["addition"],
            )
            if apart else made
        )  # fmt: skip
    if last:
        total = plain_sum(
            decode(total, accumulator), decode(start, accumulator), accumulator, figures["addition"]
        )
    end = decode(total, accumulator)
    if end.kind == "nan":
        return figures["nan"]
    if accumulator is not d_layout:
        total = repattern(end, d_layout, figures["narrowing"], OVERFLOWS[figures["overflow"]])
    if figures["d_subnormals"] == "flushed" and not total >> d_layout.fraction_bits & (
        2**d_layout.exponent_bits - 1
    ):
        total &= 1 << width(d_layout)
    return total


def operand(bits, layout, figures):
    if figures.get("low_bits") == "rounded":
        field = (2**layout.exponent_bits - 1) << (layout.fraction_bits + layout.ignored)
        if bits & field != field:
            bits += 1 << (layout.ignored - 1)
    return decode(bits, layout)


def kept(number, layout, rule):
    tiny = number.kind == "finite" and abs(number.value) < Fraction(2) ** layout.least_exponent
    return Number("finite", number.negative) if tiny and rule == "flushed" else number


def repattern(number, layout, mode="rn", overflow=None):
    if number.kind == "nan":
        return CANONICAL[layout]
    if number.kind == "inf":
        return infinity(layout, number.negative)
    magnitude = encode(number.value, layout, mode, overflow=overflow)
    return magnitude | number.negative << width(layout)


def blocks(depth, figures):
    length = figures["block"]
    count = math.ceil(depth / length)
    run = figures["interleaved"] or length
    made = [[k for k in range(depth) if k // run % count == index] for index in range(count)]
    return made if figures["order"] == "rising" else made[::-1]


def block(pairs, addend, accumulator, figures):
    infinities, terms = [], []
    zero = figures["zero_exponent"]
    for x, y in pairs:
        negative = x.negative != y.negative
        if "nan" in (x.kind, y.kind):
            return CANONICAL[accumulator]
        if "inf" in (x.kind, y.kind):
            if any(one.kind == "finite" and not one.value for one in (x, y)):
                return CANONICAL[accumulator]
            infinities.append(negative)
            continue
        product, exponent = x.value * y.value, x.exponent + y.exponent
        if figures["product_range"] == "f32" and abs(product) >= Fraction(2) ** 128:
            infinities.append(negative)
        if figures["product_exponent"] == "normalised":
            exponent += abs(product) >= Fraction(2) ** (exponent + 1)
        terms.append((product, exponent if product else zero))
    if addend.kind == "nan":
        return CANONICAL[accumulator]
    if addend.kind == "inf":
        infinities.append(addend.negative)
    else:
        terms.append((addend.value, addend.exponent if addend.value else zero))
    if infinities:
        mixed = len(set(infinities)) == 2
        return CANONICAL[accumulator] if mixed else infinity(accumulator, infinities[0])
    quantum = Fraction(2) ** (max(e for _, e in terms) - figures["fraction_bits"])
    total = sum(math.trunc(value / quantum) for value, _ in terms) * quantum
    overflow = OVERFLOWS[figures["overflow"]]
    pattern = encode(total, accumulator, figures["rounding"], overflow=overflow)
    sign = 1 << width(accumulator)
    if pattern & (sign - 1):
        return pattern
    return sign if figures["zero"] == "-" else 0


def plain_sum(x, y, layout, mode):
    if "nan" in (x.kind, y.kind) or (x.kind == y.kind == "inf" and x.negative != y.negative):
        return CANONICAL[layout]
    for one in (x, y):
        if one.kind == "inf":
            return infinity(layout, one.negative)
    zero = x.negative if x.negative == y.negative else mode == "rm"
    overflow = "inf" if mode == "rna" else None
    return encode(x.value + y.value, layout, mode, negative_zero=zero, overflow=overflow)
