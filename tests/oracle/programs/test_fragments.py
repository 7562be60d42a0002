from __future__ import annotations

import numpy as np
import pytest
from program_interpreter import element

from oracle.isa.forms import FORMATS, Format
from oracle.program.operands import WITH_CONSTANT, Operation, operations
from oracle.program.operations import apply

KNOWN = [one for one in FORMATS.values() if one.has_nan or not one.is_float]  # of fragments
PAIRS = [(o, type_) for type_ in KNOWN for o in operations(type_)]


def edges(type_: Format) -> list[int]:
    """Zeros, ones, subnormals, the largest numbers, infinities and NaNs, of both signs."""
    if not type_.is_float:
        half = 1 << (type_.bits - 1)
        return sorted(
            {number % (2 * half) for end in (0, half) for number in range(end - 3, end + 4)}
        )
    p, top = type_.fraction_bits, (1 << type_.exponent_bits) - 1
    fields = [(0, 0), (0, 1), (0, -1), (1, 0), (type_.bias, 0), (type_.bias, 1), (top - 1, -1)]
    fields += [(top, 0), (top, 1), (top, 3 << (p - 2))]
    magnitudes = [(e << p | f % (1 << p)) << type_.ignored_bits for e, f in fields]
    return [bits | sign << (type_.bits - 1) for sign in (0, 1) for bits in magnitudes]


@pytest.mark.parametrize(("operation", "type_"), PAIRS, ids=lambda x: str(getattr(x, "name", x)))
def test_every_edge_meets_every_edge_as_exact_arithmetic_rounds(
    operation: Operation, type_: Format
) -> None:
    values = edges(type_)
    given = np.array(values, f"u{np.dtype(type_.raw).itemsize}").view(type_.raw)
    given = (given << 4) >> 4 if type_.name == "s4" else given
    for constant in values if operation in WITH_CONSTANT else [0]:
        result = apply(operation, type_, given, constant)
        assert result.dtype == type_.raw
        expected = [element(operation, type_, x, constant) for x in values]
        assert [int(x) % (1 << type_.bits) for x in result] == expected, hex(constant)
