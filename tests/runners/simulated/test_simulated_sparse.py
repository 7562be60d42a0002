"""mma.sp: the oracle, written apart, multiplies to the same bits; and what is refused."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sparse_products import FORMS, FRACTIONS, PAIRS, PLAIN, Sparse, Words, finite, random_words

import oracle
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind

DEVICE = SimulatedDevice("sm_90")


def test_there_are_44_forms_and_76_with_a_selector_of_each_kind_of_metadata() -> None:
    assert (len({form.opcode for form in FORMS}), len(PAIRS)) == (88, 152)


def refused(ptx: str, message: str) -> None:
    with pytest.raises(SimulatedTrap, match=message) as caught:
        DEVICE.load(ptx)
    assert caught.value.trap.kind.at_load


def test_a_selector_that_a_form_has_not_is_refused_or_traps_as_on_an_h200() -> None:
    """f16 m16n8k32 with f32: ptxas takes 2 and 3, and an H200 gives error 715 for both."""
    for form in FORMS:
        for selector in range(form.selectors, 5):
            ptx = form.ptx(selector)
            if (form.k, form.a, form.d) != (32, "f16", "f32") or selector == 4:
                refused(ptx, "the sparsity selector has to be one of the constants 0")
                continue
            shape = 2, 32, sum(form.registers(role) for role in "abcd") + 1
            images = np.zeros(shape, np.uint32).reshape(2, -1).view(np.uint8)
            with pytest.raises(SimulatedTrap, match="illegal") as caught:
                DEVICE.load(ptx).launch("kernel", images)
            assert (caught.value.trap.kind, caught.value.trap.warps) == (TrapKind.STOPPED, (0, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%e, 1;", "5, 1;", "the metadata stand in a register"),
        ("%e, 1;", "%e, %e;", "has to be one of the constants 0, 1, 2, 3"),
        ("%e, 1;", "%e;", "has 5 operands where 6 are known"),
        ("%e, 1;", "%rd5, 1;", "32 bits are needed"),
        (".f32.f16.f16.f32", ".f32.f16.f16.f16", "qualifiers is not known"),
        ("m16n8k16", "m16n8k8", "no such shape and types are known"),
        (".row.col", ".col.col", "is not known to the simulated device"),
        (".row.col", ".row.col.satfinite", "qualifiers is not known"),
        ("sm_90", "sm_75", "needs sm_80"),
    ],
)
def test_what_an_assembler_refuses_is_refused(old: str, new: str, message: str) -> None:
    form = next(one for one in PLAIN if (one.k, one.a, one.d) == (16, "f16", "f32"))
    ptx = form.ptx(1)
    assert old in ptx
    refused(ptx.replace(old, new), message)


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


@pytest.mark.parametrize(("form", "selector"), PAIRS[::3], ids=IDS[::3])
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
