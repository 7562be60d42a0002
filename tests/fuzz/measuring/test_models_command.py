"""`warpfuzz models`: what is listed, shown and exported."""

from pathlib import Path

import pytest
from command_line import warpfuzz

from oracle.models import figures_in, model_for
from oracle.models.files import read_model


def test_every_target_is_listed_with_what_is_known_of_it(tmp_path: Path) -> None:
    rows = {row["target"]: row for row in warpfuzz(tmp_path, "models", "list", "--json").rows}
    assert rows["sm_87"]["figures_of"] == "sm_86"
    sure = {"measured", "published", "inferred"}
    assert set(rows["sm_87"]) == {"target", "figures_of", "model"} | sure
    assert {one for one in sure if rows["sm_87"][one]} == {"inferred"}
    figures = sum(len(figures_in(unit)) for unit in model_for("sm_90").units)
    assert rows["sm_90"]["measured"] == figures
    assert "sm_121" in warpfuzz(tmp_path, "models", "list").out


def test_every_figure_is_shown_with_its_source(tmp_path: Path) -> None:
    rows = warpfuzz(tmp_path, "models", "show", "sm_70", "--json").rows
    units = list(model_for("sm_70").units)
    assert [row["figures"].keys() for row in rows] == [figures_in(unit).keys() for unit in units]
    assert all(one["source"] for row in rows for one in row["figures"].values())
    shown = " ".join(warpfuzz(tmp_path, "models", "show", "sm_70").out.split())
    assert "f32.f16.f16.f32" in shown
    assert "published: MMA-Sim" in shown


@pytest.mark.parametrize("form", ["toml", "json"])
def test_what_is_exported_is_the_built_in_model(tmp_path: Path, form: str) -> None:
    words = ("models", "export", "sm_90", "--format", form)
    assert warpfuzz(tmp_path, *words, "--output", "mine").code == 0
    assert (tmp_path / "mine").read_text() == warpfuzz(tmp_path, *words).out
    again = warpfuzz(tmp_path, "models", "export", "mine", "--format", form, "--json")
    assert again.rows[0]["text"] == (tmp_path / "mine").read_text()
    assert read_model(tmp_path / "mine").digest == model_for("sm_90").digest
