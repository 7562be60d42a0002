"""A campaign names the fault of each fake assembler, and nothing else."""

import re
from collections import Counter
from types import SimpleNamespace

import pytest
from campaign_fakes import fake_ptxas
from command_line import draw_little, leave_as_found, warpfuzz

from corpus import Kind, open_corpus
from fuzz.checks import instructions
from oracle.isa.legality import Verdict, verdict_of
from oracle.isa.targets import parse_target, parse_version
from runners.assemblers.assembler import identify
from runners.assemblers.judgements import Response
from runners.assemblers.judging import judge_module

OUTCOMES = {
    Kind.CRASH: Response.CRASHED,
    Kind.HANG: Response.HUNG,
    Kind.INTERNAL: Response.INTERNAL,
    Kind.UNREADABLE: Response.UNREADABLE,
    Kind.ACCEPTED: Response.ACCEPTED,
    Kind.REJECTED: Response.REJECTED,
}


def campaign(home, program, *arguments, corpus="corpus", seed=1, prepare=draw_little, **more):
    return warpfuzz(
        home, "run", "--assembler", program, "--seed", seed, "--corpus", corpus, "--json",
        *arguments, prepare=prepare, **more,
    )  # fmt: skip


def stored(home, name="corpus"):
    problems = []
    entries = list(open_corpus(home / name).entries(problems.append))
    assert problems == []
    return entries


def test_every_second_block_of_rounds_has_the_main_pair_and_the_others_have_any() -> None:
    anything = SimpleNamespace(accepts=lambda version, target: True)
    pairs = [(parse_target(name), parse_version("8.0")) for name in ("sm_90", "sm_80", "sm_75")]
    size = instructions._ROUNDS_OF_A_PAIR
    blocks = [
        {
            instructions.pair_of_round(anything, pairs, seed=3, number=number)
            for number in range(block * size, (block + 1) * size)
        }
        for block in range(40)
    ]
    assert all(block == {pairs[0]} for block in blocks[::2])
    assert all(len(block) == 1 for block in blocks)
    assert set.union(*blocks[1::2]) == set(pairs)


def test_a_sound_assembler_has_no_finding(tmp_path):
    told = campaign(tmp_path, fake_ptxas(tmp_path / "sound"), "--cases", 300)
    assert (told.code, told.findings, told.err) == (0, [], "")
    assert told.summary["cases"] == 300
    assert told.summary["seed"] == 1
    assert 0 < told.summary["seconds"] < 120
    assert told.summary["unconfirmed"] == 0
    assert told.summary["oracle"]["legal"] > 8
    assert told.summary["oracle"]["illegal"] > 150
    assert told.summary["compared"] + told.summary["accepted_or_rejected"] == 300
    assert stored(tmp_path) == []


# Fault, word that every finding has, what it is called, and forms to draw, so that there are few
# families: each takes twenty processes.
FAULTS = [
    ("crash", "tf32", Kind.CRASH, "wmma.load.a*tf32", 40),
    ("inside", "b1", Kind.INTERNAL, "wmma.mma*b1*", 500),
    ("mumble", ".f64", Kind.UNREADABLE, "wmma.load.a*f64", 30),
    ("reject", "ldmatrix", Kind.REJECTED, "ldmatrix", 600),
    ("accept", "wmma.load.a", Kind.ACCEPTED, "wmma.load.a*f64", 20),
]


@pytest.mark.parametrize(
    ("fault", "word", "kind", "only", "cases"), FAULTS, ids=[row[0] for row in FAULTS]
)
def test_a_fault_is_found_isolated_shrunk_and_stored(tmp_path, fault, word, kind, only, cases):
    program = fake_ptxas(tmp_path / "broken", fault, word)
    told = campaign(tmp_path, program, "--cases", cases, "--only", only)
    assert told.code == 1
    assert told.findings
    # The campaign went on behind what killed the assembler.
    assert told.summary["cases"] == cases
    assert told.summary["stopped"] == "budget spent"
    for finding in told.findings:
        assert (finding["kind"], finding["known"]) == (kind, False)
        assert word in finding["text"]
        assert finding["shrink"] == "complete"
    assert {finding["id"] for finding in told.findings} == {entry.id for entry in stored(tmp_path)}
    assembler = identify(program)
    for entry in stored(tmp_path):
        finding = entry.finding
        verdict = judge_module(assembler, entry.read("module.ptx").decode())
        assert verdict.outcome is OUTCOMES[kind]
        (text,) = finding.instructions
        assert text in entry.read("module.ptx").decode().splitlines()
        judged = verdict_of(text, target=finding.target, ptx_version=finding.ptx_version)
        assert finding.oracle.verdict == judged
        if kind in (Kind.ACCEPTED, Kind.REJECTED):
            assert judged is (Verdict.ILLEGAL if kind is Kind.ACCEPTED else Verdict.LEGAL)


def test_an_assembler_that_rejects_everything_is_one_finding_for_each_shape_and_type(tmp_path):
    program = fake_ptxas(tmp_path / "broken", "reject")
    told = campaign(tmp_path, program, "--cases", 240, "--only", "wmma.store*s32")
    assert {finding["kind"] for finding in told.findings} == {Kind.REJECTED}
    # The layout, the state space and the stride do not matter.
    names = [finding["text"].partition(" ")[0] for finding in told.findings]
    about = Counter(tuple(re.findall(r"\.(m\d\w+|[sfu]\d+)", name)) for name in names)
    assert set(about.values()) == {1}, names
    assert sum(finding["cases"] for finding in told.findings) > len(told.findings)


def test_an_assembler_that_hangs_on_everything_ends_in_time_and_is_not_called_clean(tmp_path):
    program = fake_ptxas(tmp_path / "broken", "hang")
    told = campaign(tmp_path, program, "--time", 1, "--only", "wmma.store", prepare=leave_as_found)
    assert told.code in (1, 3)
    assert told.code == 1 or "nothing was compared" in told.err


def test_what_does_not_happen_again_is_no_finding(tmp_path):
    program = fake_ptxas(tmp_path / "broken", "passing", "ldmatrix")
    told = campaign(tmp_path, program, "--cases", 30, "--only", "ldmatrix")
    assert told.summary["unconfirmed"] > 2
    assert not told.findings


def test_two_assemblers_that_differ_are_told_apart(tmp_path):
    sound = fake_ptxas(tmp_path / "sound")
    other = fake_ptxas(tmp_path / "other", "reject", "bf16", release="12.1")
    told = campaign(
        tmp_path, sound, "--assembler", other, "--cases", 150, "--only", "wmma.load.a*bf16",
        prepare=leave_as_found,
    )  # fmt: skip
    assert told.code == 1
    assert {finding["kind"] for finding in told.findings} == {Kind.DIFFER}
    for entry in stored(tmp_path):
        assert [verdict.outcome for verdict in entry.finding.runners] == ["accepted", "rejected"]
        assert [verdict.version for verdict in entry.finding.runners] == ["V12.0.1", "V12.1.1"]


KNOWN = """
schema = 2

[[known]]
id = "stores-of-everything"
failure = "accepted although undocumented"
instructions = ["*"]
condition = "*"
compilers = [{ name = "ptxas" }]
cause = "this fake takes any store"
evidence = "tests"
"""


def test_known_discrepancies_are_shown_and_do_not_fail(tmp_path):
    program = fake_ptxas(tmp_path / "broken", "accept", "wmma.store")
    (tmp_path / "known.toml").write_text(KNOWN)
    arguments = ("--cases", 6, "--only", "wmma.store*f64", "--known", "known.toml")
    told = campaign(tmp_path, program, *arguments, prepare=leave_as_found)
    assert told.findings
    assert all(one["known"] for one in told.findings)
    # Some spellings are known without the file.
    assert "stores-of-everything" in {one["known_as"] for one in told.findings}
    assert told.code == 0
    assert len(stored(tmp_path)) == len(told.findings)
