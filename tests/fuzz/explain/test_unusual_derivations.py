"""Derivations by models that no GPU has: what is not written down step by step is not claimed."""

from dataclasses import replace

import numpy as np
import pytest
from fuzz.explain.derivations import Element, derive

from oracle import mma
from oracle.arithmetic.dots import dot_product
from oracle.isa import mma_form, mma_sync_form
from oracle.models import Figure, model_for
from oracle.scratch import own_scratch

PREFIX = "wmma.mma.sync.aligned.row.col."


def refigured(unit, **values):
    return replace(
        unit, **{name: replace(getattr(unit, name), value=value) for name, value in values.items()}
    )


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ({"block": 4}, "Block 4 of 4"),
        ({"block": 4, "interleaved": 2}, "k = 0, 1, 8, 9"),
        ({"block": 4, "order": "falling"}, "Block 1 of 4: k = 12 to 15"),
        ({"rounding": "rn"}, "rounding rn"),
        ({"nan": 0x7FC0_0000}, "not written down here"),
        ({"a_subnormals": "flushed"}, "a subnormals flushed"),
    ],
)
def test_a_derivation_ends_in_what_the_model_computes(values, steps) -> None:
    form = mma_form(PREFIX + "m16n16k16.f32.f32")
    model = model_for("sm_90")
    model = replace(
        model,
        dots=tuple(
            refigured(dot, **values) if dot.types == "f32.f16.f16.f32" else dot
            for dot in model.dots
        ),
    )
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((1, 16, 16)).astype(np.float16).view(np.uint16) for _ in "ab")
    c = rng.standard_normal((1, 16, 16)).astype(np.float32).view(np.uint32)
    element = Element(row=2, column=5, a=a[0, 2].tolist(), b=b[0, :, 5].tolist(), c=int(c[0, 2, 5]))
    derived = derive(form, element, model)
    assert derived.bits == int(mma(form.opcode, a, b, c, model=model)[0, 2, 5])
    assert steps in "\n".join(derived.lines)


@pytest.mark.parametrize(("release", "additions"), [("12.4", 2), ("12.8", 1)])
@pytest.mark.parametrize("types", ["e4m3.e5m2", "e5m2.e4m3"])
def test_fp8_is_derived_as_its_compiler_expands_it(release, additions, types) -> None:
    form = mma_sync_form(f"mma.sync.aligned.m16n8k32.row.col.f32.{types}.f32")
    model = model_for(f"sm_90@{release}")
    rng = np.random.default_rng(5)
    for _ in range(20):
        a, b = (rng.integers(0, 256, 32).astype(np.uint8) for _ in "ab")
        c = rng.standard_normal(1).astype(np.float32).view(np.uint32)
        element = Element(row=1, column=2, a=a.tolist(), b=b.tolist(), c=int(c[0]))
        derived = derive(form, element, model)
        operands = a[None, None], b[None, :, None], c[None, None]
        expected = dot_product(*operands, rule=model.dot_for(form), scratch=own_scratch())
        assert derived.bits == int(expected[0, 0, 0])
        assert "\n".join(derived.lines).count("added by an instruction of its own") == additions


def test_doubles_that_are_not_fused_are_computed_and_named() -> None:
    form = mma_form(PREFIX + "m8n8k4.f64.f64.f64.f64")
    model = model_for("sm_90")
    changed = replace(model, doubles=refigured(model.double_chain, multiply_add="separate"))
    third = 0x3FD5_5555_5555_5555
    element = Element(row=0, column=0, a=[third] * 4, b=[third] * 4, c=third)
    plain, separate = (derive(form, element, one) for one in (model, changed))
    assert "multiply add separate" in "\n".join(separate.lines)
    assert separate.bits != plain.bits
    assert isinstance(changed.double_chain.multiply_add, Figure)
