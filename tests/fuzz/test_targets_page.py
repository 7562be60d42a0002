"""The page of targets and versions says what the tables say, and what is done."""

import runpy
from pathlib import Path

import pytest
from command_line import ROOT, warpfuzz

from fuzz.runner import RunnerChoice, opened
from oracle.errors import UsageError
from oracle.isa.targets import TARGETS, Module, parse_version
from oracle.models import Confidence, model_for

SCRIPT = ROOT / "docs" / "targets.py"
PAGE = SCRIPT.with_suffix(".md").read_text()
ROWS = {
    name.strip(): [cell.strip() for cell in cells]
    for _, name, *cells, _ in (line.split("|") for line in PAGE.splitlines() if "| sm_" in line)
}


def test_the_page_is_what_its_script_writes() -> None:
    assert runpy.run_path(str(SCRIPT))["page"]() == PAGE, f"run python {SCRIPT.name}"


@pytest.mark.parametrize("name", TARGETS)
def test_what_it_says_of_a_target_is_what_happens(name: str) -> None:
    if name not in ROWS:
        assert f"{name}," in PAGE or f"{name}." in PAGE
        with pytest.raises(UsageError):
            model_for(name)
        return
    _, since, until, _, figures, simulated = ROWS[name]
    assert all(Module(TARGETS[name], parse_version(one)).exists for one in (since, until))
    *related, base = figures.rpartition(" from ")
    model = model_for(name)
    assert model.base == (base if any(related) else f"sm_{TARGETS[name].number}")
    assert (figures == "measured") == (model.confidence is Confidence.MEASURED)
    choice = RunnerChoice(name="sim", target=name)
    if simulated == "yes":
        with opened(choice) as ready:
            assert ready.target == name
    else:
        with pytest.raises(UsageError), opened(choice):
            pass


@pytest.mark.parametrize("name", ["sm_90", "sm_101f"])
def test_its_forms_are_those_that_are_listed(name: str, tmp_path: Path) -> None:
    _, _, until, forms, *_ = ROWS[name]
    listed = warpfuzz(tmp_path, "isa", "--target", name, "--ptx-version", until, "--json")
    assert len(listed.rows) == int(forms)
