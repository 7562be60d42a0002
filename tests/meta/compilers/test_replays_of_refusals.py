"""What compilers refuse at some level is replayed at that level, behind a pass if there is one."""

import json
import re

import pytest
from command_line import warpfuzz
from planted_ptxas import planted_ptxas

from oracle.legality import explain

LEVEL = 2


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a home with two versions, the second one crashing at one level, and what it shows."""
    home = tmp_path_factory.mktemp("home")
    for number, crashes in enumerate(("", "satfinite"), start=1):
        planted_ptxas(
            home / "c" / str(number), f"{number}.0", levels=(LEVEL,), crashes=crashes, text=False
        )
    ended = warpfuzz(
        home, "run", "--runner", "ptxas", "--compilers", "c", "--opt", "0,1,2,3", "--cases", 2,
        "--seed", 1, "--only", "wmma.mma*s32*satfinite", "--corpus", "found", "--json",
    )  # fmt: skip
    assert {one["kind"] for one in ended.findings} == {"crash"}
    return home


def test_a_crash_is_shown_by_the_instruction_that_a_compiler_dies_of(home):
    """And the module stays one that the others accept and the ISA has."""
    found = [json.loads(path.read_text()) for path in home.glob("found/findings/*/finding.json")]
    assert found
    for one, module in zip(found, home.glob("found/findings/*/module.ptx"), strict=True):
        assert one["shrink"] == "complete"
        assert one["details"]["refused by"] == f"V2.0.0 -O{LEVEL}"
        (name,) = one["identity"]["instructions"]
        assert re.fullmatch(r"wmma\.mma m\d+n\d+k\d+ .* satfinite", name)
        assert one["identity"]["message"] == "killed by SIGSEGV"
        (instruction,) = one["instructions"]
        assert explain(instruction, target="sm_90", ptx_version=one["ptx_version"]).legal
        assert len(module.read_text().splitlines()) <= 20


def replayed(home, *options):
    ended = warpfuzz(home, "replay", "found", *options, "--json")
    return ended.code, {row["verdict"] for row in ended.rows[:-1]}


def test_a_crash_of_one_level_is_reproduced_where_it_was(home):
    assert replayed(home, "--compiler", "c/2/ptxas") == (1, {"reproduced"})
    assert replayed(home, "--compiler", "c/2/ptxas", "--opt", LEVEL) == (1, {"reproduced"})


def test_another_level_or_another_version_does_not_have_it(home):
    assert replayed(home, "--compiler", "c/2/ptxas", "--opt", LEVEL + 1) == (0, {"gone"})
    assert replayed(home, "--compiler", "c/1/ptxas") == (0, {"gone"})


def test_against_a_baseline_only_a_new_crash_counts(home):
    one, two = "c/1/ptxas", "c/2/ptxas"
    assert replayed(home, "--compiler", two, "--baseline", one) == (1, {"reproduced"})
    assert replayed(home, "--compiler", two, "--baseline", two) == (0, {"reproduced"})


def test_a_pass_changes_what_is_assembled_and_the_baseline_without_it_does_not(home):
    dropping = ("--ptx-pass", "sed s/[.]satfinite//", "--compiler", "c/2/ptxas")
    assert replayed(home, *dropping) == (0, {"gone"})
    assert replayed(home, *dropping, "--baseline", "none") == (1, {"gone"})
    keeping = ("--ptx-pass", "cat", "--compiler", "c/2/ptxas")
    assert replayed(home, *keeping, "--baseline", "none") == (0, {"reproduced"})


def test_a_planted_fault_changes_what_is_assembled(home):
    fault = ("--fault", "satfinite-dropped", "--compiler", "c/2/ptxas")
    assert replayed(home, *fault) == (0, {"gone"})


def test_a_pass_that_fails_leaves_findings_out_and_says_why(home):
    ended = warpfuzz(home, "replay", "found", "--compiler", "c/2/ptxas", "--ptx-pass", "false")
    assert ended.code == 3
    assert "the PTX pass 'false'" in ended.err


def test_a_runner_is_refused_where_nothing_runs(home):
    ended = warpfuzz(home, "replay", "found", "--compiler", "c/2/ptxas", "--runner", "sim")
    assert ended.code == 2
    assert "--runner sim says where programs run, and nothing here has one" in ended.err
