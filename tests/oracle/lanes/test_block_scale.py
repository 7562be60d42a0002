"""mma and mma.sp with `.kind`: scales as the page has them, what is permitted, what is refused.

What they multiply to is compared with the simulated device in `runners/conformance`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracle import UsageError, mma_block_scale, mma_sp, mma_sync, permitted
from oracle.bounds.enclosure import enclosure
from oracle.execution.chosen import scale_places
from oracle.isa.forms import LANES, Form
from oracle.isa.lookup import (
    NARROW_FORMS,
    byte_ids,
    chunks_of,
    ptx_operands,
    scale_ids,
    selectors_of,
)
from oracle.layouts import index_bits, pack
from oracle.models import Confidence, model_for

DENSE = [form for form in NARROW_FORMS if not form.has_metadata]
SPARSE = [form for form in NARROW_FORMS if form.has_metadata]
TILES = 3
WIDTHS = {"e4m3": 8, "e5m2": 8, "e3m2": 6, "e2m3": 6, "e2m1": 4}
RANGES = [(0, 256), (110, 140), (0, 24), (230, 255)]
"""Scales of any size, around one, and so small or large that sums leave the range."""


def operands(form: Form, seed: int) -> dict[str, Any]:
    """Return logical matrices, mostly finite, and scales of a form."""
    rng = np.random.default_rng(seed)
    m, n, depth = form.shape.m, form.shape.n, form.matrix("a").columns
    given: dict[str, Any] = {}
    for name, size in (("a", (m, depth)), ("b", (form.shape.k, n))):
        type_ = form.texts[f"{name}type"]
        bits = rng.integers(0, 256, (TILES, *size), np.uint8) & (1 << WIDTHS[type_]) - 1
        if type_ in ("e4m3", "e5m2"):
            bits[1:] &= 0xBF  # no special value, but in the first tile
        bits[2] *= rng.random(size) < 0.1
        given[name] = bits
    width = form.d_type.bits
    given["c"] = rng.integers(0, 1 << width, (TILES, m, n), np.uint64).astype(form.d_type.raw)
    given["c"][1, ::2] = 0
    if form.is_scaled:
        ends = RANGES[seed % len(RANGES)]
        given["scale_a"] = rng.integers(*ends, (TILES, m, form.scales), np.uint8)
        given["scale_b"] = rng.integers(*ends, (TILES, form.scales, n), np.uint8)
    if form.has_metadata:
        pairs = rng.choice(chunks_of(form), (TILES, LANES, 8)).astype(np.uint32)
        given["metadata"] = (pairs << 4 * np.arange(8, dtype=np.uint32)).sum(2, dtype=np.uint32)
    return given


def contained(form: Form, given: dict[str, Any]) -> dict[str, Any]:
    """Return A and B as they stand in registers: e2m1 in the middle of eight bits, but packed."""
    up = {name: 2 * (form.type(name).name == "e2m1") for name in "ab"}
    return {name: given[name] << np.uint8(up[name]) for name in "ab"}


@pytest.mark.parametrize("form", NARROW_FORMS[::11], ids=lambda form: form.opcode)
def test_one_tile_is_multiplied_like_many_and_stays_as_it_is(form: Form) -> None:
    given = operands(form, 7)
    one = {name: array[1].copy() for name, array in given.items()}
    for _ in range(2):
        assert np.array_equal(
            mma_block_scale(form.opcode, **one), mma_block_scale(form.opcode, **given)[1]
        )
        assert all(np.array_equal(array, given[name][1]) for name, array in one.items())


SCALED = [form for form in SPARSE if form.is_scaled]


@pytest.mark.parametrize("form", [*DENSE[::3], *SCALED[::9]], ids=lambda form: form.opcode)
def test_what_the_model_says_is_permitted(form: Form) -> None:
    for seed in range(len(RANGES)):
        given = operands(form, seed)
        d = mma_block_scale(form.opcode, **given)
        if form.is_scaled:
            low, high, nan_ok = permitted(form.opcode, **given)
        else:
            raw = contained(form, given)
            low, high, nan_ok = enclosure(form, raw["a"], raw["b"], given["c"])
        values = d.view(f"f{d.dtype.itemsize}").astype(float)
        inside = (low <= values) & (values <= high) | np.isnan(values) & nan_ok
        assert inside.all()


@pytest.mark.parametrize("form", [*DENSE[:50:7], *SPARSE[:50:7]], ids=lambda form: form.opcode)
def test_registers_and_logical_matrices_are_multiplied_alike(form: Form) -> None:
    given = operands(form, 5)
    matrices = {**contained(form, given), "c": given["c"]}
    words = {name: np.zeros((TILES, LANES, form.words(name)), np.uint32) for name in "abc"}
    for name, into in words.items():
        pack(form, matrices[name], into, name)
    if form.has_metadata:
        d = mma_sp(form.opcode, *words.values(), given["metadata"], 0, target="sm_120a")
    else:
        d = mma_sync(form.opcode, *words.values(), target="sm_120a")
    wanted = np.zeros_like(d)
    pack(form, mma_block_scale(form.opcode, **given), wanted)
    assert (d == wanted).all()


def test_rows_without_a_meaning_may_be_anything_and_scales_choose_no_metadata() -> None:
    given = operands(SCALED[-1], 2)
    given["metadata"][0, 4:8] = 0  # of rows 1 and 9: not in order
    low, high, nan_ok = permitted(SCALED[-1].opcode, **given)
    free = np.isneginf(low) & np.isposinf(high) & nan_ok
    assert free[0, [1, 9]].all()
    assert not free[0, 0].all()
    for form in SCALED[::20]:
        assert all(0 <= bit < 32 * LANES for bit in index_bits(form, 0).ravel())
        chosen = {index_bits(form, selector).tobytes() for selector in selectors_of(form)[::9]}
        assert len(chosen) == 1
    with pytest.raises(UsageError, match="lacks its scale_b; give it"):
        permitted(DENSE[-1].opcode, *(given[name] for name in "abc"), scale_a=given["scale_a"])
    with pytest.raises(UsageError, match="has no scales; leave scale_a and scale_b out"):
        permitted(DENSE[0].opcode, *(given[name] for name in "abc"), scale_a=given["scale_a"])


def test_padding_does_not_count() -> None:
    form = next(form for form in DENSE if form.types == "f32.e2m1.e3m2.f32")
    given = operands(form, 1)
    other = {**given, "a": given["a"] | 0xF0, "b": given["b"] | 0xC0}
    d = mma_block_scale(form.opcode, **given)
    assert (mma_block_scale(form.opcode, **other) == d).all()


@pytest.mark.parametrize("stype", ["ue8m0", "ue4m3"])
def test_the_nan_of_a_scale_is_that_of_its_row_or_column_and_zero_makes_c(stype: str) -> None:
    form = next(one for one in DENSE if one.texts["stype"] == stype)
    given = operands(form, 1)
    one, nan = {"ue8m0": (127, 0xFF), "ue4m3": (0x38, 0x7F)}[stype]
    given |= {"c": np.full_like(given["c"], 0x4040_0000), "a": given["a"] & 0x07}
    given["scale_a"][...], given["scale_b"][...] = one, one
    given["b"] &= 0x07
    plain = mma_block_scale(form.opcode, **given)
    given["scale_a"][0, 3], given["scale_b"][1, -1, 5] = nan, nan
    d = mma_block_scale(form.opcode, **given)
    where = np.zeros(d.shape, bool)
    where[0, 3], where[1, :, 5] = True, True
    assert (d[where] == 0x7FFF_FFFF).all()
    assert (d[~where] == plain[~where]).all()
    if stype == "ue4m3":
        given["scale_a"][...], given["scale_b"][...] = 0, one
        assert (mma_block_scale(form.opcode, **given) == given["c"]).all()


def test_scales_stand_in_the_lanes_and_bytes_of_the_page() -> None:
    """PTX ISA 9.7.14.3, table 37."""
    counts = {1: (range(4), 128), 2: (range(0, 4, 2), 32), 4: (range(1), 8)}
    alike = {(form.scales, form.has_metadata): form for form in NARROW_FORMS}
    for form in alike.values():
        if not form.is_scaled:
            assert list(selectors_of(form)) == ([0] if form.has_metadata else [])
            continue
        known, count = counts[form.scales]
        assert list(byte_ids(form)) == list(known)
        assert len(selectors_of(form)) == count
        told = set()
        for selector in selectors_of(form):
            ids = scale_ids(form, selector)
            told.add(ids)
            for lane, row in zip(scale_places(form, "a", selector)[0], range(16), strict=True):
                assert divmod(int(lane), 4) == (row % 8, 2 * ids.thread_a + row // 8)
            lanes, first = scale_places(form, "b", selector)
            assert lanes.tolist() == [4 * n + ids.thread_b for n in range(8)]
            assert first == ids.byte_b
        assert len(told) == count
        texts = ptx_operands(form, [*form.vectors], selectors_of(form)[-1])
        assert texts[-4:] == ["sa", f"{{{ids.byte_a}, 1}}", "sb", f"{{{ids.byte_b}, 3}}"]


def test_figures_are_labelled() -> None:
    model = model_for("sm_120a")
    for form in NARROW_FORMS:
        wanted = Confidence.INFERRED if form.has_metadata else Confidence.PUBLISHED
        if form.is_scaled:
            assert model.confidence_for(form) is wanted
        assert model_for("sm_121a").confidence_for(form) is Confidence.INFERRED


def test_what_does_not_fit_is_told() -> None:
    form = next(form for form in DENSE if form.is_scaled)
    given = operands(form, 0)
    plain = next(form for form in DENSE if not form.is_scaled)
    with pytest.raises(UsageError, match="lacks its scale_a"):
        mma_block_scale(form.opcode, given["a"], given["b"], given["c"])
    with pytest.raises(UsageError, match="has no scale_a"):
        mma_block_scale(plain.opcode, **{**operands(plain, 0), "scale_a": given["scale_a"]})
    with pytest.raises(UsageError, match=r"scale_b has shape"):
        mma_block_scale(form.opcode, **{**given, "scale_b": given["scale_a"]})
    with pytest.raises(UsageError, match="does not have"):
        mma_block_scale(form.opcode, **given, target="sm_90")
    opcode = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
    with pytest.raises(UsageError, match=r"with \.kind is needed"):
        mma_block_scale(opcode, given["a"], given["b"], given["c"])
    words = [np.zeros((1, LANES, form.words(name)), np.uint32) for name in "abc"]
    with pytest.raises(UsageError, match="mma_block_scale"):
        mma_sync(form.opcode, *words, target="sm_120a")
