from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_interpreter import element

from oracle.isa.forms import FORMATS, Format
from oracle.program.operands import Operation, operations
from oracle.program.operations import apply

PAIRS = [(o, type_) for type_ in FORMATS.values() for o in operations(type_)]


def patterns(type_: Format) -> st.SearchStrategy[int]:
    """Bit patterns; of floats, also those at the edges: zeros, subnormals, infinities, NaNs."""
    everything = st.integers(0, (1 << type_.bits) - 1)
    if not type_.is_float:
        return everything
    exponent = st.sampled_from([0, 1, 2, -3, -2, -1]) | st.integers(0, 2**11)
    fraction = st.sampled_from([0, 1, 2, -1, -2]) | st.integers(0, 2**52)
    top, p = 1 << type_.exponent_bits, type_.fraction_bits

    def build(sign: bool, e: int, f: int) -> int:
        magnitude = (e % top) << p | f % (1 << p)
        return (int(sign) << (type_.bits - 1)) | magnitude << type_.ignored_bits

    return everything | st.builds(build, st.booleans(), exponent, fraction)


@pytest.mark.parametrize(("operation", "type_"), PAIRS, ids=lambda x: str(getattr(x, "name", x)))
@settings(max_examples=8)  # of up to 12 elements
@given(data=st.data())
def test_every_element_becomes_what_exact_arithmetic_rounds_to(
    operation: Operation, type_: Format, data: st.DataObject
) -> None:
    xs = data.draw(st.lists(patterns(type_), min_size=1, max_size=12))
    constant = data.draw(patterns(type_)) if operation.takes_constant else 0
    unsigned = np.array(xs, dtype=f"u{np.dtype(type_.raw).itemsize}")
    values = unsigned.view(type_.raw)
    if type_.name == "s4":
        values = (values << 4) >> 4
    result = apply(operation, type_, values, constant)
    assert result.dtype == type_.raw
    if type_.name == "s4":
        assert ((result >= -8) & (result <= 7)).all()
    got = [int(x) % (1 << type_.bits) for x in result]
    assert got == [element(operation, type_, x, constant) for x in xs]


def edges(type_: Format) -> list[int]:
    """Zeros, ones, subnormals, the largest numbers, infinities and NaNs, of both signs."""
    p, top = type_.fraction_bits, (1 << type_.exponent_bits) - 1
    fields = [(0, 0), (0, 1), (0, -1), (1, 0), (type_.bias, 0), (type_.bias, 1), (top - 1, -1)]
    fields += [(top, 0), (top, 1), (top, 3 << (p - 2))]
    magnitudes = [(e << p | f % (1 << p)) << type_.ignored_bits for e, f in fields]
    return [bits | sign << (type_.bits - 1) for sign in (0, 1) for bits in magnitudes]


@pytest.mark.parametrize(
    ("operation", "type_"),
    [(operation, type_) for operation, type_ in PAIRS if type_.is_float],
    ids=lambda x: str(getattr(x, "name", x)),
)
def test_edges_of_floats_meet_every_edge(operation: Operation, type_: Format) -> None:
    values = edges(type_)
    for constant in values if operation.takes_constant else [0]:
        result = apply(operation, type_, np.array(values, type_.raw), constant)
        expected = [element(operation, type_, x, constant) for x in values]
        assert result.tolist() == expected, hex(constant)
