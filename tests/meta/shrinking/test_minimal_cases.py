"""What is left of a planted fault's case: nothing can go, and little is there."""

from __future__ import annotations

import re

import pytest
from fault_cases import runner_and_case, with_zeros, without_steps

from corpus import ShrinkStatus
from fuzz.findings.verdicts import attempt
from fuzz.shrinking import shrink, verdicts_by
from oracle.program.program import walk
from oracle.program.steps import multiplies_fragments
from runners.faults import CATALOGUE, Fault, by_name
from strategies.simplification.values import complexity

(ROTATED,) = (one.name for one in CATALOGUE if re.search("^st.*-rotated-rows$", one.name))
SAMPLE = (
    "store-stride-ignored",  # addresses that have to stay
    "elementwise-subtracts",  # element-wise steps
    "zero-exponent-lower",  # a sum that takes two products
    "invalid-is-zero",  # special values
    "saturation-each-step",  # integers
    "loop-one-short",  # a loop that has to stay
    "branch-inverted",  # a branch that has to stay
    ROTATED,  # barriers that have to stay
    "movmatrix-lost",  # steps on registers
)

MORE_THAN_THREE = {
    # Two products in different blocks; with one product, both ways cut the same terms at once.
    "block-halved": 5,
    "block-doubled": 5,
    "block-order-reversed": 5,
    # With C its exponent is the largest, so it has to be zero. One product is never at once on a
    # tie of the result's grid and longer than the alignment, so there have to be two.
    "zero-exponent-higher": 4,
    "zero-exponent-lower": 4,
    # One product and C are added in one step, whatever the order of k.
    "f64-order-reversed": 5,
    # Clamped early and clamped once differ if a product comes back: two of opposite signs, and
    # C, without which no sum of a few products of eight bits comes near the bound.
    "saturation-each-step": 5,
    # An element of C that goes to another place makes two results wrong. Where the case is a
    # deviation, each stands beside a product that is so much larger that both are permitted.
    "load-c-layout-flipped": 5,
}
"""Most elements that are left of faults of one dot product of which no case has three."""


NEVER_FROM_ONE_IMAGE = {
    # What fails in one launch does not in the next, or only in another place.
    "transient-often",
    "transient-rare",
    "stuck-bit-on-one-sm",
}


def check(fault: Fault, seed: int) -> None:
    found = runner_and_case(fault, seed, rounds=12)
    if found is None:
        pytest.skip(f"no case of {fault.name} in a few rounds")
    runner, subject, kind = found
    result = shrink(subject, verdicts_by(runner), wanted=kind, seconds=120)
    assert result.status is ShrinkStatus.COMPLETE
    subject = result.subject
    assert attempt(runner, subject).kind is kind
    for smaller in (*with_zeros(subject), *without_steps(subject)):
        assert attempt(runner, smaller).kind is not kind
    if any(multiplies_fragments(step) for step in walk(subject.program.steps)):
        elements = complexity(subject.program, subject.image)
        assert elements <= MORE_THAN_THREE.get(fault.name, 3)


@pytest.mark.parametrize("name", SAMPLE)
def test_nothing_can_be_taken_from_a_shrunk_case(name: str) -> None:
    check(by_name(name), seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "fault",
    # An image of a warpgroup has too many bytes to try without each.
    [
        each
        for each in CATALOGUE
        if not (each.rare or each.name in NEVER_FROM_ONE_IMAGE or each.name.startswith("group-"))
    ],
    ids=lambda each: each.name,
)
def test_nothing_can_be_taken_from_any_shrunk_case(fault: Fault, seed: int) -> None:
    check(fault, seed)
