"""One unit of the simulated silicon under the probes, without PTX around it."""

from __future__ import annotations

from typing import Any

from oracle.measuring.inference import Fit, ProbeEvidence, fit, rule_of
from oracle.measuring.probes import float_probes
from oracle.models import TruncatedDot, values_in
from runners.simulated.fused import NAMED
from runners.simulated.products import multiply
from runners.simulated.silicon import FloatUnit


def depth_of(types: str) -> int:
    return 8 if "tf32" in types else 16


def measured(types: str, unit: FloatUnit) -> Fit:
    """What the probes find out of a unit."""
    dots = float_probes(types, depth_of(types))
    result = NAMED[types.split(".")[0]]
    d = multiply(dots.a.T[None], dots.b.T[:, None], dots.c[None, None], unit, result)
    return fit(ProbeEvidence(types, dots, d[0, 0]))


def wrong_figures(found: Fit, rule: TruncatedDot) -> dict[str, Any]:
    """Figures whose value is neither what was found nor among what nothing tells from it."""
    assert found.contradiction is None, found.contradiction
    wrong = {
        name: (finding.value, values_in(rule).get(name))
        for name, finding in found.figures.items()
        if values_in(rule).get(name) not in (finding.value, *finding.others)
    }
    if {"block", "interleaved", "order"} & wrong.keys():
        # Several descriptions may be of the same blocks.
        depth = depth_of(rule.types)
        if rule_of(TruncatedDot, rule.types, found.values).blocks(depth) == rule.blocks(depth):
            for name in ("block", "interleaved", "order"):
                wrong.pop(name, None)
    return wrong
