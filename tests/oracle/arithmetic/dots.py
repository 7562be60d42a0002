"""Single dot products through the oracle's kernels, and the reference's rule for its figures."""

from reference import dot_products
from reference.numbers import BF16, F16, F32, TF32

from oracle.arithmetic.conversions import Scratch
from oracle.arithmetic.dots import dot_product
from oracle.models import model_for

LAYOUTS = {"f16": F16, "bf16": BF16, "tf32": TF32, "f32": F32}


def fast(multiplicand, rule, a, b, c):
    """Patterns of a . b + c for arrays (count, k), (count, k), (count,)."""
    d = dot_product(a[:, None, :], b[:, :, None], c[:, None, None], rule=rule, scratch=Scratch())
    return d[0, 0].copy()


def rule_of(target, multiplicand, accumulator):
    return model_for(target).dot(multiplicand, accumulator)


def reference_rule(rule, **wrong):
    return dot_products.Rule(
        block=rule.block.value,
        fraction_bits=rule.fraction_bits.value,
        zero_exponent=rule.zero_exponent.value,
        accumulator=LAYOUTS[rule.accumulator.value],
        **wrong,
    )


def exact(multiplicand, rule, a, b, c):
    """The same as `fast`, by the reference; `rule` is one of the reference's."""
    layout = LAYOUTS[multiplicand]
    return [
        dot_products.truncated_dot(x, y, z, layout, rule)
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
