"""The simulated device and the oracle, written apart, multiply a sparse A to the same bits."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sparse_products import FRACTIONS, PAIRS, Sparse, Words, finite, random_words

import oracle
from runners.simulated import SimulatedDevice

DEVICE = SimulatedDevice("sm_90")
IDS = [f"{form.opcode} {selector}" for form, selector in PAIRS]
CONTENTS = ("bits", "wide", "cancelling", "special")
AT_ONCE = 2000
"""Images of a launch: bounded memory."""


def special(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Words:
    """Return zeros, subnormals, the largest numbers, infinities and NaN of both signs, and ones."""
    exponent_bits, fraction, unused = FRACTIONS[kind]
    low, top = (1 << fraction) - 1, ((1 << exponent_bits) - 1) << fraction
    one = ((1 << exponent_bits - 1) - 1) << fraction
    values = [0, 0, 1, low, low + 1, one, one, one + 1, top - 1, top, top | low]
    signs = rng.integers(0, 2, shape) << exponent_bits + fraction
    # Few are infinite or NaN: one makes a whole sum so.
    chances = np.array([3, 3, 3, 3, 3, 8, 8, 8, 1, 0.15, 0.1])
    found = rng.choice(np.array(values), shape, p=chances / chances.sum()) | signs
    return (found << unused).astype(np.uint32)


def operands(
    form: Sparse, content: str, rng: np.random.Generator, count: int
) -> list[NDArray[np.uint32]]:
    """Return registers of A, B and C."""
    kinds = {"a": form.a, "b": form.b, "c": form.d}
    if content == "bits" or form.d == "s32":
        return [random_words(rng, count, 32, form.registers(role)) for role in kinds]
    found = {}
    for role, kind in kinds.items():
        shape = count, *form.size(role)
        if content == "special":
            found[role] = special(rng, kind, shape)
        else:
            found[role] = finite(rng, kind, shape, 100 if content == "wide" else 3)
    if content == "cancelling":
        # Rows of B that are alike, and an A whose second half is the first one's opposite.
        found["b"][:, 1::2] = found["b"][:, ::2]
        half = form.depth // 2
        found["a"][..., half:] = found["a"][..., :half] ^ np.uint32(1 << form.bits("a") - 1)
        found["b"][:, form.k // 2 :] = found["b"][:, : form.k // 2]
        found["c"][:, ::2] = 0
    return [form.packed(role, words) for role, words in found.items()]


def check(form: Sparse, selector: int, content: str, count: int, seed: int) -> None:
    rng = np.random.default_rng([seed, selector, CONTENTS.index(content)])
    for start in range(0, count, AT_ONCE):
        some = min(AT_ONCE, count - start)
        a, b, c = operands(form, content, rng, some)
        metadata = random_words(rng, some, 32)
        expected = oracle.mma_sp(form.opcode, a, b, c, metadata, selector)
        found = form.run(DEVICE, selector, a, b, c, metadata)
        np.testing.assert_array_equal(found, expected, f"{form.opcode} {selector} {content}")


@pytest.mark.parametrize(("form", "selector"), PAIRS, ids=IDS)
def test_any_metadata_choose_the_same_and_sums_have_the_same_bits(
    form: Sparse, selector: int
) -> None:
    for content in CONTENTS if form.d != "s32" else ("bits",):
        check(form, selector, content, count=4, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "selector"), PAIRS, ids=IDS)
def test_the_same_of_100_000_images_of_each_form(form: Sparse, selector: int) -> None:
    contents = CONTENTS if form.d != "s32" else ("bits",)
    for content in contents:
        check(form, selector, content, count=100_000 // form.selectors // len(contents), seed=2)
