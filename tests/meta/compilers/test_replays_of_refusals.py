"""What compilers refuse at some level is replayed at that level, behind a pass if there is one."""

import json
import re

import pytest
from command_line import warpfuzz
from planted_ptxas import planted_ptxas

from oracle.isa.legality import explain

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
        home, "run", "--runner", "ptxas", "--compilers", "c", "--opt", "0,1,2,3", "--cases", 1,
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


SECOND = ("--compiler", "c/2/ptxas")
DROPPING = ("--ptx-pass", "sed s/[.]satfinite//", *SECOND)


@pytest.mark.parametrize(
    ("options", "code", "verdict"),
    [
        (SECOND, 1, "reproduced"),
        ((*SECOND, "--opt", LEVEL + 1), 0, "gone"),
        (("--compiler", "c/1/ptxas"), 0, "gone"),
        # Against a baseline only what is new counts.
        ((*SECOND, "--baseline", "c/1/ptxas"), 1, "reproduced"),
        ((*SECOND, "--baseline", "c/2/ptxas"), 0, "reproduced"),
        ((*DROPPING, "--baseline", "none"), 1, "gone"),
        (("--fault", "satfinite-dropped", *SECOND), 0, "gone"),
    ],
)
def test_a_crash_is_replayed_as_it_is_asked_for(home, options, code, verdict):
    ended = warpfuzz(home, "replay", "found", *options, "--json")
    assert (ended.code, {row["verdict"] for row in ended.rows[:-1]}) == (code, {verdict})


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--ptx-pass", "false"), 3, "the PTX pass 'false'"),
        (("--runner", "sim"), 2, "--runner sim says where programs run, and nothing here has one"),
    ],
)
def test_what_cannot_be_replayed_is_a_sentence(home, options, code, said):
    ended = warpfuzz(home, "replay", "found", *SECOND, *options)
    assert (ended.code, said in ended.err) == (code, True)
