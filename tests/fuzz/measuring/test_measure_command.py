"""`warpfuzz measure`, and what `--model` does with the file that it writes."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from command_line import Ended, warpfuzz

from fuzz.commands import measure
from fuzz.measuring import MeasuredResult
from fuzz.runner import RunnerChoice, opened
from oracle.errors import UsageError
from oracle.measuring.units import MeasuredUnit
from oracle.models import (
    ExactSum,
    ScalarDot,
    TruncatedDot,
    figures_in,
    forget_models,
    model_for,
    values_in,
)
from oracle.models.files import EXPORTS, model_text, read_model

ONLY = ("--only", "*s32.s?.s?.s32*", "--images", "64")


@pytest.fixture(autouse=True)
def built_in():
    """No model of one test is in use in another."""
    yield
    forget_models()


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = model_text(model_for("sm_90"))
    assert old in text
    path = tmp_path / "changed.toml"
    path.write_text(text.replace(old, new))
    return path


def measured(tmp_path: Path, *words: object) -> Ended:
    words = ("measure", "--runner", "sim", *words, "--output", "model.toml", "--json")
    return warpfuzz(tmp_path, *words)


def test_units_are_measured_and_written_down(tmp_path: Path) -> None:
    done = measured(tmp_path, *ONLY)
    assert done.code == 0, done.err
    *units, _ = done.rows
    names = {unit["unit"] for unit in units}
    assert {"wmma.mma s32.s8.s8.s32", "mma s32.s4.s4.s32.satfinite"} <= names
    assert all(unit["refused"] is None and unit["images"] == 64 for unit in units)
    assert done.summary["figures"] == done.summary["as_in_model"] == len(units)
    written = read_model(tmp_path / "model.toml")
    (exact,) = model_for("sm_90").only(ExactSum)
    known = values_in(exact)
    # Single bits were not asked for.
    assert values_in(*written.only(ExactSum)) == {
        name: known[name] for name in ("plain", "satfinite")
    }


def test_four_products_in_scalar_arithmetic_are_measured_in_their_order(tmp_path: Path) -> None:
    done = measured(tmp_path, "--only", "mma.*m8n8k4*f16.f16*", "--images", "64")
    assert done.code == 0, done.err
    known = {row.types: row.order.value for row in model_for("sm_90").only(ScalarDot)}
    written = read_model(tmp_path / "model.toml")
    assert {row.types: row.order.value for row in written.only(ScalarDot)} == known


@pytest.mark.parametrize(
    ("only", "figures"),
    [
        ("wgmma*b1*", 1),
        *(pytest.param(one, count, marks=pytest.mark.slow) for one, count in (
            ("wgmma*f16.f16", 22), ("wgmma*bf16*", 14), ("wgmma*tf32*", 14), ("wgmma*.e?m?", 100),
        )),
    ],
)  # fmt: skip
def test_the_units_of_a_warpgroup_are_measured(tmp_path: Path, only: str, figures: int) -> None:
    done = measured(tmp_path, "--target", "sm_90a", "--only", only, "--images", "64")
    assert done.code == 0, done.err
    assert done.summary["figures"] == done.summary["as_in_model"] >= figures


@pytest.mark.slow
def test_the_command_that_is_printed_runs_with_a_model_of_few_forms(tmp_path: Path) -> None:
    done = warpfuzz(
        tmp_path, "measure", "--runner", "sim", "--only", "wmma.mma*bf16*", "--images", "16",
        "--output", "mine.toml",
    )  # fmt: skip
    assert done.code == 0, done.err
    # As it is printed: without a GPU `run` asks ptxas by itself, which takes no model.
    (command,) = re.findall("`warpfuzz (run [^`]*)`", done.out)
    assert "--target sm_90" in command
    (left_out,) = re.findall("leaves out ([0-9]+) forms", done.out)
    assert re.search("[0-9]+ more not told apart from other values", done.out)
    written = read_model(tmp_path / "mine.toml")
    assert written.confidence == "simulated"
    assert "no GPU was measured" in done.out
    assert not figures_in(*written.only(ExactSum))
    judged = warpfuzz(tmp_path, *command.split(), "--cases", "40", "--json")
    assert judged.code == 0, judged.err
    assert "is simulated, not measured" in judged.err
    assert judged.summary["cases"] == 40
    (sentence,) = judged.summary["left_out"]
    assert 0 < int(sentence.split()[0]) <= int(left_out)
    assert "has no figures of them" in sentence
    refused = warpfuzz(tmp_path, *command.split(), "--only", "*f64*", "--new")
    assert refused.code == 2
    assert "has no figures of what '*f64*' selects" in refused.err


def test_what_the_simulated_device_returned_is_not_called_measured_in_any_format(
    tmp_path: Path,
) -> None:
    words = ("--target", "sm_100", *ONLY, "--output", "mine.toml")
    assert warpfuzz(tmp_path, "measure", "--runner", "sim", *words).code == 0
    for name in EXPORTS:
        text = warpfuzz(tmp_path, "models", "export", "mine.toml", "--format", name).out
        assert '"simulated"' in text
        assert "simulated sm_100" in text, "the source"
        assert '"measured"' not in text


def interrupted() -> None:
    whole = measure.Measurer.measure

    def first(self: object, units: Sequence[MeasuredUnit]) -> Iterator[MeasuredResult]:
        yield next(whole(self, units))
        raise KeyboardInterrupt

    measure.Measurer.measure = first


def test_an_interrupted_measurement_keeps_what_it_has(tmp_path: Path) -> None:

    words = ("measure", "--runner", "sim", *ONLY, "--output", "mine.toml")
    done = warpfuzz(tmp_path, *words, prepare=interrupted)
    assert done.code == 130
    assert "Stopped before the end, after 1 unit." in done.out
    assert len(figures_in(*read_model(tmp_path / "mine.toml").only(ExactSum))) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "only",
    [
        "mma.*bf16*", "mma.*tf32*", "mma.*f64*", "mma.*f16.f16.f16.f16", "mma.*f32.f16.f16.f32",
        *(f"mma.*.{a}.{b}.f??" for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    ],
)  # fmt: skip
def test_units_of_mma_sync_are_recovered_and_judge_campaigns(tmp_path: Path, only: str) -> None:
    done = measured(tmp_path, "--only", only, "--images", "256")
    assert done.code == 0, done.err
    *units, _ = done.rows
    assert not [unit["unit"] for unit in units if unit["refused"]]
    assert done.summary["figures"] == done.summary["as_in_model"]
    judged = warpfuzz(
        tmp_path, "run", "--runner", "sim", "--ptx-version", "8.7", "--only", only,
        "--cases", "100", "--seed", "1", "--model", "model.toml",
    )  # fmt: skip
    assert judged.code == 0, judged.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "only", "figure", "value"),
    [
        ("alignment-one-bit-less", "m16n8k16.row.col.f32.f16.f16.f32", "fraction_bits", 24),
        ("block-halved", "m16n8k16.row.col.f32.tf32.tf32.f32", "block", 4),
        ("block-halved", "m16n8k32.row.col.f16.f16.f16.f16", "block", 8),
        ("eight-bit-one-block", "m16n8k64.row.col.f32.e4m3.e4m3.f32", "block", 32),
        ("eight-bit-order-reversed", "m16n8k64.row.col.f32.e4m3.e5m2.f32", "order", "falling"),
        ("eight-bit-blocks-apart", "m16n8k64.row.col.f32.e5m2.e5m2.f32", "sums", "separate"),
    ],
)
def test_a_sparse_unit_with_another_figure_is_found_to_have_it_and_no_other(
    tmp_path: Path, fault: str, only: str, figure: str, value: object
) -> None:
    words = ("--fault", f"sparse-{fault}", "--only", f"mma.sp.*{only}", "--images", "64")
    done = measured(tmp_path, *words)
    assert done.code == 1, done.err
    (unit,) = done.rows[:-1]
    changed = {name: one for name, one in unit["figures"].items() if not one["same"]}
    assert {name: (one["value"], one["not_told_apart"]) for name, one in changed.items()} == {
        figure: (value, [])
    }


def test_a_unit_that_no_figure_describes_is_refused(tmp_path: Path) -> None:
    told = measured(tmp_path, *ONLY, "--fault", "integer-k-tail-dropped")
    assert (told.code, bool(told.summary["refused"])) == (1, True)


def test_a_model_of_another_target_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, "block = 16", "block = 8")
    choice = RunnerChoice(name="sim", target="sm_80", model=str(path))
    with pytest.raises(UsageError, match=r"is of sm_90, and .* computes as sm_80"), opened(choice):
        pass


def test_what_is_measured_on_a_relative_is_taken_there(tmp_path: Path) -> None:
    """The built-in figures of sm_87 are those of sm_86; what it measures is its own."""
    words = ("--target", "sm_87", "--only", "wmma.mma*s32.u4.u4.s32", "--images", 16)
    ended = measured(tmp_path, *words)
    assert ended.code == 0, ended.err
    choice = RunnerChoice(name="sim", target="sm_87", model=str(tmp_path / "model.toml"))
    with opened(choice):
        assert model_for("sm_87").base == "sm_87"


def test_a_runner_that_is_opened_with_a_model_is_judged_by_it(tmp_path: Path) -> None:
    built_in = model_for("sm_90")
    path = changed(tmp_path, "block = 16", "block = 8")
    with opened(RunnerChoice(name="sim", model=str(path))):
        model = model_for("sm_90a")
        assert {dot.block.value for dot in model.only(TruncatedDot)} == {4, 8, 32}
        assert model.digest != built_in.digest
        assert model.name.startswith("changed.toml ")
        assert model_for("sm_80").base == "sm_80"
    forget_models()
    assert model_for("sm_90") == built_in
