"""Dot products recorded on eight GPUs, taken as evidence: what they decide is in the models.

tests/data/README.md says by whom they were recorded and under what licence. K is one block.
"""

from pathlib import Path

import numpy as np
import pytest

from oracle.measuring.inference import ProbeEvidence, fit
from oracle.measuring.probes import Dots
from oracle.models import TruncatedDot, model_for, values_in

RECORDED = Path(__file__).parents[2] / "data" / "gpu_dot_products.npz"
TARGETS = {
    "V100": "sm_70", "A100": "sm_80", "A2": "sm_86", "Ada": "sm_89", "L40S": "sm_89",
    "H100": "sm_90", "H200": "sm_90", "B200": "sm_100",
}  # fmt: skip
NAMES = {"fp16": "f16", "fp32": "f32", "bf16": "bf16", "tf32": "tf32"}


def names():
    with np.load(RECORDED) as arrays:
        return sorted({key.rsplit("|", 1)[0] for key in arrays.files})


def patterns(bits, name):
    if name == "f16":
        return bits.view(np.float32).astype(np.float16).view(np.uint16)
    return (bits >> 16).astype(np.uint16) if name == "bf16" else bits


SLOW = [name for name in names() if name not in ("V100|fp16|fp32", "A2|bf16|fp32")]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in names()]
)
def test_what_recorded_dot_products_decide_is_what_the_model_has(name: str) -> None:
    gpu, multiplicand, result = name.split("|")
    multiplicand, result = NAMES[multiplicand], NAMES[result]
    with np.load(RECORDED) as arrays:
        a, b, c, d = (arrays[f"{name}|{part}"] for part in "abcd")
    dots = Dots(
        family=("recorded",) * len(c),
        a=patterns(a, multiplicand), b=patterns(b, multiplicand), c=patterns(c, result),
    )  # fmt: skip
    types = f"{result}.{multiplicand}.{multiplicand}.{result}"
    depth = a.shape[1]
    found = fit(ProbeEvidence(types, dots, patterns(d, result)))
    assert found.contradiction is None
    units = model_for(TARGETS[gpu]).only(TruncatedDot)
    named = ((unit.instruction, unit.types) for unit in units)
    rule = dict(zip(named, units, strict=True))["wmma.mma", types]
    for figure, finding in found.figures.items():
        assert values_in(rule)[figure] in (finding.value, *finding.others), figure
    decided = {name for name, finding in found.figures.items() if not finding.others}
    if result == "f32":
        # With f16 results such numbers tell neither of the bits kept, nor when C is added, nor in
        # which format the sum is rounded first.
        assert {"fraction_bits", "rounding", "addend"} <= decided
        assert found.figures["fraction_bits"].value == rule.fraction_bits.value
        assert found.figures["block"].value == depth
