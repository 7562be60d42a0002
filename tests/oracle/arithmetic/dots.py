"""Single dot products through the oracle's kernels."""

from oracle.arithmetic.conversions import Scratch
from oracle.arithmetic.dots import dot_product
from oracle.models import TruncatedDot, model_for


def fast(rule, a, b, c):
    """Patterns of a . b + c for arrays (count, k), (count, k), (count,)."""
    d = dot_product(a[:, None, :], b[:, :, None], c[:, None, None], rule=rule, scratch=Scratch())
    return d[0, 0].copy()


def rule_of(target, multiplicand, accumulator):
    """The unit of wmma.mma for formats of A and B, and of C and D."""
    types = f"{accumulator}.{multiplicand}.{multiplicand}.{accumulator}"
    units = model_for(target).only(TruncatedDot)
    return next(one for one in units if (one.instruction, one.types) == ("wmma.mma", types))
