"""`warpfuzz bisect` of what assemblers accept, as a person types it."""

import pytest
from campaign_fakes import fake_ptxas
from command_line import warpfuzz

from corpus import Case, Identity, Kind, RunnerVerdict, create_corpus
from runners.assemblers.assembler import identify
from runners.assemblers.judgements import Response
from runners.assemblers.judging import judge_module

ILLEGAL = "wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%d0, %d1}, [%addr];"
RELEASES = ("11.8", "12.0", "12.1", "12.2", "12.3")


@pytest.fixture(scope="module")
def compilers(tmp_path_factory):
    """Return a folder of assemblers of which those from 12.1 on crash on m8n8k4."""
    folder = tmp_path_factory.mktemp("compilers")
    for release in RELEASES:
        fault = "crash" if release >= "12.1" else "none"
        fake_ptxas(folder / release, fault, "m8n8k4", release)
    return folder


@pytest.fixture(scope="module")
def finding(compilers, tmp_path_factory):
    """Return a home with a corpus, and the id of the crash in it."""
    home = tmp_path_factory.mktemp("home")
    corpus = create_corpus(home / "warpfuzz-corpus", generator="test")
    assembler = identify(compilers / "12.3" / "ptxas")
    text = f".version 8.0\n.target sm_80\n.visible .entry k()\n{{\n{ILLEGAL}\nret;\n}}\n"
    assert judge_module(assembler, text).outcome is Response.CRASHED
    crash = Case(
        kind=Kind.CRASH, identity=Identity(failure="x k"), instructions=(ILLEGAL,),
        target="sm_80", ptx_version="8.0",
        runners=(RunnerVerdict(runner="ptxas", version=assembler.version, outcome="crashed"),),
    )  # fmt: skip
    return home, corpus.add(crash, {"module.ptx": text.encode()}).id


def test_the_first_version_that_crashes_is_named(finding, compilers):
    home, crash = finding
    ended = warpfuzz(home, "bisect", crash, "--compilers", compilers, "--opt", "0,3", "--json")
    row = ended.rows[0]["bisect"]
    assert ended.code == 1
    assert row["course"] == "changed"
    assert row["first"] == {"version": "V12.1.1", "level": 0, "before": "V12.0.1"}
    assert [level["level"] for level in row["levels"]] == [0, 3]
    assert row["levels"][0]["versions"]["V12.0.1"]["outcome"] == "rejected"


def test_versions_that_cannot_be_asked_are_no_change(finding, compilers):
    home, crash = finding
    ended = warpfuzz(
        home, "bisect", crash, "--compilers", compilers, "--opt", "3", "--ptx-version", "8.8",
        "--json",
    )  # fmt: skip
    assert ended.rows[0]["bisect"]["course"] == "no version can be asked"
    # Nothing could be compared: the infrastructure's fault, and no clean bill.
    assert ended.code == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("0000",), "with an id that starts with"),
        (("{crash}", "--opt", "4"), "names no -O levels"),
        (("{crash}", "--compilers", "nothing"), "names no compiler"),
        (("{crash}", "--compilers", "."), "no ptxas is in"),
        (("{crash}", "--compilers", "driver"), "name a ptxas with --compilers"),
        (("{crash}", "--compilers", "{folder}", "--runner", "sim"), "leave it out"),
        (("warpfuzz-corpus",), "name one in warpfuzz-corpus/findings"),
        (("{folder}",), "has no finding.json, so is no finding"),
        (("{crash}", "--corpus", "nowhere"), "and no corpus nowhere (--corpus) to look in"),
    ],
)
def test_what_cannot_be_done_is_said(finding, compilers, arguments, said):
    home, crash = finding
    words = [word.format(crash=crash, folder=compilers) for word in arguments]
    ended = warpfuzz(home, "bisect", *words)
    assert ended.code == 2
    assert said in ended.err
