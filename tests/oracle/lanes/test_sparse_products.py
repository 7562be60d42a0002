"""mma.sp as the page has it: metadata, selectors, what is permitted, and what is refused.

What it multiplies to is compared with the simulated device in `runners/conformance`. What an H200
does beyond the page is from its recordings of 2026-11-23: what is not chosen is no term.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracle import UsageError, mma_sp, permitted
from oracle.isa.forms import Form
from oracle.isa.lookup import INSTRUCTIONS, chunks_of, metadata_lanes, selectors_of
from oracle.layouts import defined_rows

PLAIN = INSTRUCTIONS["mma.sp"].forms
ORDERED = INSTRUCTIONS["mma.sp::ordered_metadata"].forms
FORMS = [*PLAIN, *(form for form in ORDERED if not form.texts["kind"])]
F16_K32 = "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
FP8 = "mma.sp.sync.aligned.m16n8k64.row.col.f32.{}.{}.f32"
# Types and K of the shapes: lanes of each group of four that hold metadata (9.7.14.6.1).
CONTRIBUTORS = {
    (16, 16): 1, (16, 32): 2, (32, 8): 1, (32, 16): 2,
    (8, 32): 2, (8, 64): 4, (4, 64): 2, (4, 128): 4,
}  # fmt: skip
TOP = {"f16": 5, "bf16": 8, "tf32": 8, "f32": 8, "e4m3": 4, "e5m2": 5}


def near_one(rng: Any, words: Any, type_: Any, width: int) -> Any:
    """Return registers of floats with exponents in a window about one."""
    bits, exponent = type_.bits, TOP[type_.name]
    shift, bias = bits - 1 - exponent, 2 ** (exponent - 1) - 1
    found = words.copy()
    for part in range(0, 32, bits):
        field = rng.integers(bias - width, bias + width + 1, words.shape).astype(np.uint32)
        mask = np.uint32(((1 << exponent) - 1) << shift + part & 0xFFFF_FFFF)
        found = found & ~mask | field << np.uint32(shift + part) & mask
    return found


def registers(form: Form, seed: int, kind: str) -> dict[str, Any]:
    """Return random registers of one case: any bits, near one, wide, or cancelling ones."""
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> Any:
        return rng.integers(0, 2**32, shape, dtype=np.uint32)

    given = {name: drawn(32, form.words(name)) for name in "abc"}
    given["metadata"] = drawn(32)
    if form.a_type.is_float and kind != "bits":
        width = 1 if kind in ("near one", "cancelling") else 2 ** (TOP[form.a_type.name] - 1) - 1
        for name in "abc":
            wide = width if name != "c" or width == 1 else 2 ** (TOP[form.c_type.name] - 1) - 1
            given[name] = near_one(rng, given[name], form.type(name), wide)
    if form.a_type.is_float and kind == "cancelling":
        # Neighbouring elements of opposite sign that may meet the same element of B.
        bits = form.a_type.bits
        if bits < 32:
            low = given["a"] & np.uint32((1 << bits) - 1)
            mirrored = low ^ np.uint32(1 << bits - 1)
            given["a"] = sum(
                (low if part % 2 else mirrored) << np.uint32(bits * part)
                for part in range(32 // bits)
            )
        given["c"] &= np.uint32(0x8000_8000)
    return given


@pytest.mark.parametrize("form", FORMS[::5], ids=lambda form: form.opcode)
def test_the_model_is_permitted_and_rows_whose_metadata_mean_nothing_may_be_anything(
    form: Form,
) -> None:
    type_ = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[form.d_type.name]
    places = [(lane // 4 + 8 * (item // 2)) for lane in range(32) for item in range(4)]
    outside = 0
    for kind in ("bits", "near one", "wide", "cancelling"):
        given = registers(form, 7, kind)
        for selector in selectors_of(form):
            for metadata in (given["metadata"], np.full(32, 0x1111_1111 * chunks_of(form)[0])):
                own = {**given, "metadata": metadata.astype(np.uint32)}
                d = mma_sp(form.opcode, **own, selector=selector)
                low, high, nan_ok = permitted(form.opcode, **own, selector=selector)
                known = defined_rows(form, own["metadata"][None], selector)[0][places]
                known = known.reshape(32, 4)
                for words, right in ((d, True), (np.roll(d, 1, axis=0), False)):
                    values = np.ascontiguousarray(words).view(type_)
                    assert values.shape == low.shape == known.shape
                    inside = (low <= values) & (values <= high) | np.isnan(values) & nan_ok
                    assert inside.all() if right else inside[~known].all()
                    outside += int((~inside).sum())
    assert outside > 32


def test_the_forms_and_their_selectors_are_those_of_the_page() -> None:
    assert len(PLAIN) == 44
    assert len(FORMS) == 88
    assert sum(len(selectors_of(form)) for form in FORMS) == 152
    for form in FORMS:
        assert metadata_lanes(form) == CONTRIBUTORS[form.a_type.bits, form.shape.k]
        assert list(selectors_of(form)) == list(range(4 // metadata_lanes(form)))


def test_meaningful_metadata_are_those_of_the_page() -> None:
    ordered = (4, 8, 9, 12, 13, 14)
    for form in FORMS:
        if form.a_type.name == "tf32":
            wanted: tuple[int, ...] = (4, 14)
        elif form in PLAIN and form.a_type.name not in ("e4m3", "e5m2"):
            wanted = tuple(one for one in range(16) if one not in (0, 5, 10, 15))
        else:
            wanted = ordered
        assert chunks_of(form) == wanted
        metadata = np.full((1, 32), 0x1111_1111 * wanted[0], np.uint32)
        assert defined_rows(form, metadata, 0).all()
        # One wrong pair in one lane leaves two rows undefined, or one.
        metadata[0, 4 * 3 + 0] ^= np.uint32(wanted[0])
        broken = ~defined_rows(form, metadata, 0)[0]
        assert broken.any()
        assert set(np.flatnonzero(broken)) <= {3, 11}


def word(*halves: int) -> int:
    return sum(half << 16 * place for place, half in enumerate(halves))


def test_what_is_not_chosen_adds_nothing_not_even_an_exponent() -> None:
    """Rows of B that no index names hold infinities, NaN and large numbers; C is tiny."""
    a, metadata = np.zeros((32, 4), np.uint32), np.full(32, 0x4444_4444, np.uint32)
    a[:, :] = word(0x0001, 0x8001)  # 2^-24 and -2^-24: they cancel
    b = np.full((32, 4), word(0x7C00, 0x7E00), np.uint32)
    b[0::2] = word(0x3C00, 0x3C00)  # t even: rows 4 n and 4 n + 1
    c = np.full((32, 4), 1, np.uint32)  # the least f32
    for selector in (0, 1):
        d = mma_sp(F16_K32, a, b, c, metadata, selector)
        assert (d == 0).all()  # cut at 2^-24 (2^-25)
        metadata_of_others = np.full(32, 0xEEEE_EEEE, np.uint32)
        assert (mma_sp(F16_K32, a, b, c, metadata_of_others, selector) == 0x7FFF_FFFF).all()
    zeros = np.zeros_like(a)
    assert (mma_sp(F16_K32, zeros, b, c, metadata, 0) == c).all()


def test_a_negative_sum_that_is_rounded_to_zero_is_positive_zero() -> None:
    opcode = "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
    a = np.full((32, 2), word(0x8001, 0), np.uint32)
    b = np.full((32, 2), word(0x0001, 0x0001), np.uint32)
    d = mma_sp(opcode, a, b, np.zeros((32, 2), np.uint32), np.full(32, 0x4444_4444, np.uint32), 0)
    assert (d == 0).all()
    big = 0x7F00_7F00  # bf16 2^127: products of 2^254, which cancel
    bf16 = "mma.sp.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
    a, b = (np.full((32, 2), text, np.uint32) for text in (big ^ 0x8000_0000, big))
    c = np.zeros((32, 4), np.uint32)
    assert (mma_sp(bf16, a, b, c, np.full(32, 0x4444_4444, np.uint32), 0) == 0).all()


def arrays(**changes: Any) -> dict[str, Any]:
    given = {name: np.zeros((5, 32, 4), np.uint32) for name in "abc"}
    return {
        "opcode": F16_K32, **given, "metadata": np.zeros((5, 32), np.uint32), "selector": 0,
        **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"selector": 2}, "it is 0 or 1, and any other is undefined"),
        ({"selector": -1}, "it is 0 or 1"),
        ({"selector": True}, "it is 0 or 1"),
        ({"selector": np.array([0, 1])}, "it is 0 or 1"),
        ({"metadata": np.zeros((5, 32, 1), np.uint32)}, r"must be \(\.\.\., 32\)"),
        ({"metadata": np.zeros((5, 32), np.int64)}, "uint32"),
        ({"metadata": np.zeros((4, 32), np.uint32)}, "leading dimensions differ"),
        ({"metadata": None}, "uint32"),
        ({"a": np.zeros((5, 32, 2), np.uint32)}, r"\(\.\.\., 32, 4\)"),
        ({"opcode": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"}, "a form of mma.sp"),
        ({"opcode": FP8.format("e4m3", "f16")}, "not a documented form"),
        ({"target": "sm_75"}, "sm_75 does not have"),
        ({"target": "sm_80"}, "has no figures"),
    ],
)
def test_a_wrong_request_is_said_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mma_sp(**arrays(**changes))
