"""Options of `warpfuzz run` that the chosen campaign has no use for are refused, not ignored."""

import pytest
from campaign_fakes import fake_ptxas
from command_line import warpfuzz

CASES = ("--cases", "4")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--include-undefined",), "--include-undefined is for campaigns that run programs"),
        (("--device", "0"), "--device 0 names a GPU"),
    ],
)
def test_what_needs_programs_that_run_is_refused_by_an_assembler(tmp_path, option, said):
    path = fake_ptxas(tmp_path / "13.0")
    ended = warpfuzz(tmp_path, "run", "--runner", "ptxas", "--assembler", path, *CASES, *option)
    assert ended.code == 2
    assert said in ended.err
    assert not (tmp_path / "warpfuzz-corpus").exists()


def test_an_assembler_has_the_limits_and_workers_of_every_campaign(tmp_path):
    path = fake_ptxas(tmp_path / "13.0")
    options = ("--workers", "2", "--findings", "1", "--quiet-time", "1m", "--resume")
    ended = warpfuzz(tmp_path, "run", "--runner", "ptxas", "--assembler", path, *CASES, *options)
    assert ended.code == 0, ended.err


@pytest.mark.parametrize("option", [("--opt", "3"), ("--fault", "store-d-layout-flipped")])
def test_what_changes_programs_that_run_is_refused_by_an_assembler(tmp_path, option):
    path = fake_ptxas(tmp_path / "13.0")
    ended = warpfuzz(tmp_path, "run", "--runner", "ptxas", "--assembler", path, *CASES, *option)
    assert ended.code == 2
    assert "choose --runner sim or cuda" in ended.err
