"""Each family of probes holds what it says: else a figure rests on fewer probes than it seems."""

from __future__ import annotations

import numpy as np

from oracle.isa.targets import Module
from oracle.measuring.inference import ProbeEvidence, fit
from oracle.measuring.probes import Dots, float_probes
from oracle.measuring.units import units_of

DEPTH = 8


def values(bits: np.ndarray, name: str) -> np.ndarray:
    """Return what patterns stand for, as f64; of tf32 with the bits that it ignores."""
    if name == "bf16":
        bits = bits.astype(np.uint32) << np.uint32(16)
    floats = {"f16": np.float16, "f64": np.float64}.get(name, np.float32)
    with np.errstate(invalid="ignore"):
        return np.ascontiguousarray(bits).view(floats).astype(np.float64)


def family(types: str, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A, B and C of the probes of a family."""
    _, a, b, c = types.split(".")
    dots = float_probes(types, DEPTH)
    part = dots.of(name)
    return values(dots.a[part], a), values(dots.b[part], b), values(dots.c[part], c)


def test_a_figure_that_no_probe_refutes_is_refuted_by_none() -> None:
    """One sum of ones beside a zero says nothing but what exponent that zero has."""
    one = np.ones((1, 4))
    bits, double = one.astype(np.float16).view(np.uint16), one.view(np.uint64)
    dots = Dots(family=("order",), a=bits, b=bits, c=np.zeros(1, np.uint32))
    four = np.array([4.0], np.float32).view(np.uint32)
    found = fit(ProbeEvidence("f32.f16.f16.f32", dots, four))
    stages = ("order and fusion", *(f"subnormals in {name}" for name in "ABCD"), "NaN",
              "infinities and overflow")  # fmt: skip
    times = len(stages)
    doubles = Dots(
        family=stages, a=double.repeat(times, 0), b=double.repeat(times, 0),
        c=np.zeros(times, np.uint64),
    )  # fmt: skip
    fours = np.full(times, 4.0).view(np.uint64)
    also = fit(ProbeEvidence("f64.f64.f64.f64", doubles, fours))
    refuted = {name for name, finding in found.figures.items() if finding.refuting}
    assert refuted == {"zero_exponent"}
    assert {finding.refuting for finding in also.figures.values()} == {0}
    assert also.figures["order"].others == ("falling",)


def test_units_have_the_forms_that_are_asked_for_and_there() -> None:
    module = Module.named("sm_75", "9.0")
    every = {form.opcode for unit in units_of(module) for form in unit.forms}
    asked = {form.opcode for unit in units_of(module, "*m16n16k16*") for form in unit.forms}
    assert asked == {opcode for opcode in every if "m16n16k16" in opcode}
    assert not any("bf16" in opcode or "f64" in opcode for opcode in every)
