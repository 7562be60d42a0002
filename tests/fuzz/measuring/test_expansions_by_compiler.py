"""Figures that hold for the code of some compilers: measured, joined, and judged by."""

from dataclasses import replace

import numpy as np
import pytest

import oracle
from fuzz.measuring import joined_model
from oracle.isa.lookup import MMA_SYNC_FORMS
from oracle.isa.targets import Release
from oracle.models import NO_FIGURES, CompilerRange, forget_models, model_for, use_model
from oracle.models.figures import DotUnit, is_among, releases_text
from oracle.models.files import model_text, parse_model

OPCODE = "mma.sync.aligned.m16n8k32.row.col.f32.{}.{}.f32"
LONG = next(form for form in MMA_SYNC_FORMS if form.opcode == OPCODE.format("e4m3", "e4m3"))


@pytest.fixture(autouse=True)
def built_in():
    """No model of one test is in use in another."""
    yield
    forget_models()


def operands(seed: int):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 2**32, (8, 32, words), np.uint32) for words in (4, 2))
    c = rng.standard_normal((8, 32, 4)).astype(np.float32).view(np.uint32)
    return a & 0xBFBFBFBF, b & 0xBFBFBFBF, c  # no NaN


def test_code_of_12_4_sums_the_blocks_of_fp8_apart() -> None:
    a, b, c = operands(1)
    opcode = OPCODE.format("e4m3", "e5m2")
    results = {
        target: oracle.mma_sync(opcode, a << 1, b << 1, c, target=target)
        for target in ("sm_90", "sm_90@12.4", "sm_90@12.6", "sm_90@12.8", "sm_90@13.5")
    }
    assert (results["sm_90@12.4"] != results["sm_90"]).any()
    assert (results["sm_90@12.4"] == results["sm_90@12.6"]).all()
    assert (results["sm_90@12.8"] == results["sm_90"]).all()
    assert (results["sm_90@13.5"] == results["sm_90"]).all()


def test_compilers_that_nobody_measured_have_no_figures() -> None:
    whose = {
        release: model_for(f"sm_90@{release}").expansion_of(LONG)
        for release in ("12.3", "12.4", "12.7", "12.8", "14.0", "unknown")
    }
    assert whose == {
        "12.3": NO_FIGURES, "12.4": "12.4 to 12.6", "12.7": NO_FIGURES,
        "12.8": "12.8 and later", "14.0": "12.8 and later", "unknown": NO_FIGURES,
    }  # fmt: skip
    assert model_for("sm_90@12.3").expansion_of(MMA_SYNC_FORMS[0]) == "all"


def measured_with(release: str):
    """What `measure` finds with one compiler: the rows that it has, of all without a range."""
    model = model_for(f"sm_90@{release}")
    compiler = model.compiler or Release(0, 0)
    holds = [unit for unit in model.units if is_among(compiler, unit.compilers)]
    return replace(model, units=tuple(replace(unit, compilers=None) for unit in holds))


def test_measurements_with_several_compilers_are_joined_into_ranges() -> None:
    releases = ("12.4", "12.6", "12.8", "13.5")
    joined = joined_model([(release, measured_with(release)) for release in releases])
    of_fp8 = {
        releases_text(row.compilers)
        for row in joined.only(DotUnit)
        if row.types == "f32.e4m3.e4m3.f32" and row.shapes == ("m16n8k32",)
    }
    assert of_fp8 == {"12.4 to 12.6", "12.8 to 13.5"}
    plain = [row for row in joined.only(DotUnit) if row.types == "f32.bf16.bf16.f32"]
    assert plain
    assert all(row.compilers is None for row in plain)
    assert parse_model(model_text(joined), "x").digest == joined.digest


def test_a_model_of_one_compiler_has_figures_of_its_expansions_for_it_alone() -> None:
    model = joined_model([("12.4", measured_with("12.4"))])
    ranges = {
        row.compilers
        for row in model.only(DotUnit)
        if row.types.startswith("f32.e4m3") and not row.instruction.startswith("wgmma")
    }
    assert ranges == {CompilerRange(first=Release(12, 4), last=Release(12, 4))}
    use_model(model)
    assert model_for("sm_90@12.4").expansion_of(LONG) == "12.4"
    assert model_for("sm_90@12.8").expansion_of(LONG) == NO_FIGURES
    assert joined_model([("", measured_with("12.4"))]) == measured_with("12.4")
