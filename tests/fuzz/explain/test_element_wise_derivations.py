"""Element-wise operations, derived by hand and computed by the oracle, on every sort of value."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.explain.derivations import derivation, raw
from repro_cases import VALUED

from oracle.elementwise import apply
from oracle.formats import FORMATS
from oracle.matrices import Matrix
from oracle.models import model_for
from oracle.operations import Operation
from oracle.steps import Elementwise
from oracle.tracing import Event

TYPES = ("f16", "bf16", "tf32", "f32", "f64", "s32", "s8", "u8", "s4", "u4", "b1")
SHAPE = VALUED[0].shape


@pytest.mark.parametrize("operation", list(Operation))
@pytest.mark.parametrize("name", TYPES)
def test_what_is_derived_is_what_the_oracle_computes(operation: Operation, name: str) -> None:
    type_ = FORMATS[name]
    if not operation.accepts(type_):
        return
    top = ((1 << type_.exponent_bits) - 1) << type_.fraction_bits
    edges = [0, 1, top, top + 1, top - 1, 1 << (type_.bits - 1), (1 << type_.bits) - 1]
    some = np.random.default_rng(3).integers(0, 1 << min(type_.bits, 62), 40).tolist()
    patterns = sorted({bits % (1 << type_.bits) for bits in (*edges, *some)})
    values = np.array(patterns, np.uint64).astype(f"u{np.dtype(type_.raw).itemsize}")
    before = apply(Operation.COPY, type_, values.view(type_.raw))[None]
    constants = patterns if operation.takes_constant else [0]
    for constant in constants:
        step = Elementwise(
            operation=operation, matrix=Matrix(operand="c", shape=SHAPE, type=type_), source="s",
            destination="d", constant=constant,
        )  # fmt: skip
        result = apply(operation, type_, before, constant)
        event = Event(number=0, step=step, inputs={"source": before}, makers={}, result=result)
        for column in range(before.shape[1]):
            made = derivation(event, 0, column, model_for("sm_90"))
            assert made is not None
            assert made.bits == raw(result[0, column], type_), (constant, made.lines)
