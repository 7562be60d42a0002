"""`warpfuzz replay` of instructions: one assembler against another, on any target."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign_fakes import fake_ptxas
from command_line import warpfuzz

from corpus import Case, Identity, Kind, RunnerVerdict, create_corpus

ILLEGAL = "wmma.load.a.sync.aligned.row.m16n16k16.global.f64 {%d0, %d1}, [%addr];"
MODULE = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{{
.reg .f64 %d<2>;
.reg .b64 %addr;
{ILLEGAL}
ret;
}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder with assemblers that accept the instruction and that do not."""
    fake_ptxas(tmp_path / "new", fault="accept", word="f64", release="13.0")
    fake_ptxas(tmp_path / "old")
    corpus = create_corpus(tmp_path / "findings", generator="test")
    for version in ("8.0", "8.4"):
        case = Case(
            kind=Kind.ACCEPTED, identity=Identity(failure="x k"), instructions=(ILLEGAL,),
            target="sm_90", ptx_version=version,
            runners=(RunnerVerdict(runner="ptxas", version="V13.0.1", outcome="accepted"),),
        )  # fmt: skip
        corpus.add(case, {"module.ptx": MODULE.replace("8.0", version).encode()})
    return tmp_path


def test_what_only_the_new_assembler_accepts_counts(home: Path) -> None:
    ran = warpfuzz(
        home, "replay", "findings", "--compiler", "new/ptxas", "--baseline", "old/ptxas", "--json"
    )
    assert ran.code == 1
    rows = ran.rows[:-1]
    assert [row["verdict"] for row in rows] == ["reproduced", "reproduced"]
    assert [row["baseline_verdict"] for row in rows] == ["gone", "gone"]
    # Both take 8.0 at most: a refused .version would differ for no reason.
    assert {row["ptx_version"] for row in rows} == {"8.0"}


@pytest.mark.parametrize("name", ["old", "new"])
def test_an_assembler_differs_in_nothing_from_itself(home: Path, name: str) -> None:
    same = f"{name}/ptxas"
    ran = warpfuzz(home, "replay", "findings", "--compiler", same, "--baseline", same, "--quiet")
    assert (ran.code, ran.out) == (0, "")


def test_the_module_is_assembled_for_another_target(home: Path) -> None:
    ran = warpfuzz(
        home, "replay", "findings", "--compiler", "new/ptxas", "--target", "sm_80", "--json"
    )
    assert ran.code == 1
    assert {row["verdict"] for row in ran.rows[:-1]} >= {"reproduced"}
    unknown = warpfuzz(
        home, "replay", "findings", "--compiler", "new/ptxas", "--baseline", "old/ptxas",
        "--target", "sm_70", "--json",
    )  # fmt: skip
    assert unknown.code == 3
    assert "takes no module with .version 8.0 and .target sm_70" in unknown.err
