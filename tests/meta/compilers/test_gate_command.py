"""`warpfuzz gate` on planted compilers: each line of the table, and the jobs of its page."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from answering import address
from command_line import ROOT, Ended, warpfuzz
from planted_ptxas import planted_ptxas

from corpus import Kind
from corpus.finding import RunnerVerdict
from corpus.known import FOLDER as RECORD
from fuzz.campaign.store import Budget
from fuzz.cli import app
from fuzz.commands import gate
from fuzz.compilers.members import survey_programs
from oracle.isa.forms import Form
from oracle.program.program import Program
from runners.variants import parse_variant

FAULT = "store-layout-flipped"
FEW_CASES = 32
"""In place of a time, in which a busy machine may come to nothing."""
ENOUGH = (
    "--time", 1, "--opt", 2, "--only", "wmma.mma*row.col.m16n16k16.f32.f32", "--seed", 5,
    "--workers", 1, "--slower", 9, "--at-least", 1,
)  # fmt: skip
"""A planted compiler executes three programs; the last `--at-least` of a command line counts."""


def few_programs(forms: Sequence[Form], **asked: Any) -> Iterator[tuple[Form, Program]]:
    """Draw about as many programs as are timed, in place of one of each form."""
    return survey_programs(forms[:: len(forms) // gate._PROGRAMS_OF_A_MODULE], **asked)


def shorten(record: str = "little") -> None:
    """Ask about few findings, and compile few modules: each starts a process (`prepare`)."""
    gate.RECORD, gate._MODULES, gate._TURNS, gate._MOST_TURNS = record, 1, 1, 1
    gate.survey_programs = few_programs
    gate.Budget = lambda seconds: Budget(cases=FEW_CASES)


def compile_few() -> None:
    """Draw few programs where none is executed, and each counts (`prepare`)."""
    shorten()
    gate.Budget = lambda seconds: Budget(cases=8)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a record of two findings of assemblers."""
    small = tmp_path / "little"
    (small / "findings").mkdir(parents=True)
    shutil.copy(RECORD / "corpus.json", small)
    kept = [one for one in sorted((RECORD / "findings").iterdir())
            if "crash" in (one / "finding.json").read_text()
            and "wmma.mma" in (one / "module.ptx").read_text()]  # fmt: skip
    for one in kept[:2]:
        shutil.copytree(one, small / "findings" / one.name)
    return tmp_path


def plant(home: Path, version: str, *faults: str, **others: str) -> str:
    answering = "" if others else address()
    made = planted_ptxas(home / version, version, faults, (2,), answering=answering, **others)
    return str(made)


def gated(
    home: Path, old: str, new: str, *options: object, runner: str = "sim", json: bool = True,
    variants: tuple[str, ...] = ("--variant", "none"),
) -> Ended:  # fmt: skip
    options = (*variants, *options, "--json") if json else (*variants, *options)
    words = ("gate", old, new, "--runner", runner, *ENOUGH, *options)
    return warpfuzz(home, *words, prepare=shorten if runner == "sim" else compile_few)


def test_a_bug_of_the_new_one_is_new_and_of_the_old_one_fixed(home: Path) -> None:
    right, wrong = plant(home, "1.0"), plant(home, "2.0", FAULT)
    files = ("--junit", "gate.xml", "--report", "gate.html", "--corpus", "found")
    ended = gated(home, right, wrong, *files)
    assert ended.code == 1, ended.err
    standings = ended.summary["standings"]
    assert standings["new"] + standings["changed bits"] >= 1
    assert standings["fixed"] == standings["crashes"] == 0
    (first, *_) = found = ended.findings
    assert (home / first["path"]).is_dir()
    assert first["source"] == "new programs"
    # One shape of object, and the summary.
    assert {frozenset(row) for row in ended.rows[:-1]} == {frozenset(first)}
    suite = ElementTree.parse(home / "gate.xml").getroot()
    assert int(suite.get("failures") or 0) == len(found)
    page = (home / "gate.html").read_text()
    assert f"<p>REJECT: {len(found)} regression" in page
    assert f"warpfuzz bisect {first['path']}" in page
    assert ".visible .entry" in page
    back = gated(home, wrong, right, "--at-least", 2)
    assert back.code == 0, back.err + back.out
    summary = back.summary
    assert (summary["old"], summary["new"]) == ("V2.0.0", "V1.0.0")
    assert summary["compared"] > 0
    assert summary["evidence"][0] == {
        "what": "shipped findings", "executed": 0, "compiled only": 2, "not tried": 0,
    }  # fmt: skip
    assert summary["evidence"][1]["executed"] == 3
    assert back.findings == []
    assert summary["standings"]["fixed"] >= 1
    assert sum(row["source"] == "compile time" for row in back.rows[:-1]) == 1
    assert summary["verdict"] == "ACCEPT"
    assert "executed 3 new programs" in summary["reason"]


def test_what_one_of_both_was_not_asked_about_is_not_new() -> None:
    old, new = (type("Compiler", (), {"label": one})() for one in ("V1.0.0", "V2.0.0"))
    result: Any = SimpleNamespace(old=old, new=new, variants=(parse_variant("process=last"),))

    def standing(*versions: str) -> gate.Standing:
        asked = [
            RunnerVerdict(
                runner="ptxas", version=one, options="-O2",
                outcome="violation" if one[:2] == "V2" else "match",
            )
            for one in versions
        ]  # fmt: skip
        family: Any = SimpleNamespace(case=SimpleNamespace(asked=asked, kind=Kind.VIOLATION))
        return gate._standing_of_family(family, result)

    assert standing("V2.0.0", "V2.0.0+process=last") is gate.Standing.SKIPPED
    assert standing("V1.0.0", "V2.0.0") is gate.Standing.NEW


def test_slower_is_only_what_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other work on a machine makes single measurements long."""
    facts = SimpleNamespace(target="sm_80", versions=SimpleNamespace(main="8.0"))
    old, new = (SimpleNamespace(says=lambda _: True, levels=(3,)) for _ in range(2))
    monkeypatch.setattr(gate, "survey_programs", few_programs)
    for seconds, slower in (([1.0, 9.0] * 3 + [1.0, 1.1], False), ([1.0, 2.0] * 9, True)):
        left = iter(seconds)
        monkeypatch.setattr(gate, "_seconds", lambda *_, left=left: next(left))
        (row,) = gate._timed(SimpleNamespace(old=old, new=new), facts, [3], 1.5)
        assert (row.standing is gate.Standing.SLOWER) is slower


def test_a_crash_is_one_and_without_a_gpu_no_result_is_claimed(home: Path) -> None:
    old, new = plant(home, "1.0"), plant(home, "2.0", crashes="wmma.mma")
    ended = gated(home, old, new, runner="ptxas", json=False)
    assert ended.code == 1, ended.err
    assert re.search(r"^crashes +[1-9]", ended.out, re.MULTILINE)


@pytest.mark.slow
def test_a_bug_with_an_option_is_new_and_options_are_asked_of_both(home: Path) -> None:
    right = plant(home, "1.0")
    wrong = str(planted_ptxas(home / "2", "2.0", [FAULT], only_with="sm_90a", answering=address()))
    ended = gated(home, right, wrong, variants=())
    asked = ["+maxrregcount=32", "+regAllocOptLevel=2", "+process=last", "+target=sm_90a"]
    assert ended.summary["variants"] == asked
    assert ended.code == 1, ended.err
    assert all("+target=sm_90a" in row["what"] for row in ended.findings)
    refused = gated(home, right, wrong, variants=("--variant", "target=sm_80"))
    assert refused.code == 2
    assert "sm_80 is no sibling of sm_90" in refused.err


def without_rounds() -> None:
    shorten()
    gate.Budget = lambda seconds: Budget(cases=0)


def test_without_fresh_programs_nothing_passes(home: Path) -> None:
    """What the record alone says is no answer, and all that is counted is in one column."""

    old, new = plant(home, "1.0"), plant(home, "2.0")
    words = ("gate", old, new, "--runner", "ptxas", *ENOUGH, "--variant", "none")
    ended = warpfuzz(home, *words, "--junit", "gate.xml", prepare=without_rounds)
    assert ended.code == 3
    said = "UNKNOWN: no regression found in ptxas 2.0.0, but both compilers compiled 0"
    assert ended.out.startswith(said)
    assert ElementTree.parse(home / "gate.xml").getroot().get("errors") == "1"
    rows = re.findall(r"^(\w[\w ]*?) +(\d+) +(\d+) +(\d+) +(\d+) *$", ended.out, re.MULTILINE)
    assert len(rows) == len(gate.Standing)
    for _, count, *parts in rows:
        assert int(count) == sum(map(int, parts))
    assert sum(int(count) for _, count, *_ in rows) > 2


def interrupted() -> None:
    shorten()
    asked: list[object] = []
    replay = gate.Replays.replay

    def once(self: object, entry: object, **others: int) -> object:
        if asked:
            raise KeyboardInterrupt
        asked.append(entry)
        return replay(self, entry, **others)

    gate.Replays.replay, gate.cores = once, lambda: 1


def test_an_interrupted_gate_says_what_it_has(home: Path) -> None:

    old, new = plant(home, "1.0"), plant(home, "2.0")
    words = ("gate", old, new, "--runner", "ptxas", *ENOUGH, "--variant", "none")
    ended = warpfuzz(home, *words, "--junit", "gate.xml", prepare=interrupted)
    assert ended.code == 130
    assert re.search(r"^shipped findings +0 +1 +1$", ended.out, re.MULTILINE)
    assert ended.out.startswith("UNKNOWN: stopped before the end; no regression found")
    # What is known and unchanged is skipped as well.
    told = [one.get("message") for one in ElementTree.parse(home / "gate.xml").iter("skipped")]
    assert sorted(told, key=str) == ["skipped", "unchanged"]


def test_what_the_new_one_accepts_beyond_the_pages_is_told_and_does_not_decide() -> None:
    wrong, right, as_wrong = (
        SimpleNamespace(known=True, bad=bad, kind=Kind.ACCEPTED if bad else None)
        for bad in (True, False, True)
    )
    row = SimpleNamespace(now=wrong, before=right, finding=SimpleNamespace(kind=Kind.ACCEPTED))
    standing = gate._standing_of(row)
    assert standing is gate.Standing.MORE
    assert standing.is_news
    assert not gate.GateItem(standing=standing, what="", source="shipped findings").counts
    row.before = as_wrong
    assert gate._standing_of(row) is gate.Standing.SAME


@pytest.mark.parametrize(
    ("name", "said"),
    [("1.0", "the same compiler"), ("nowhere", "names no compiler"), ("llvm:/nowhere", "")],
)
def test_what_cannot_be_compared_is_a_sentence(home: Path, name: str, said: str) -> None:
    plant(home, "1.0")
    here = str(home / "1.0" / "ptxas")
    ended = gated(home, here, here if name == "1.0" else name)
    assert ended.code in (2, 3)
    assert said in ended.err


# The jobs of the page


def scripts(mark: str) -> list[str]:
    """Return the lines that a job of the page has a shell run."""
    page = (ROOT / "docs" / "gate.md").read_text()
    job = page.split(f"<!-- {mark} -->\n```yaml\n", 1)[1].split("```", 1)[0]
    if mark == "github":
        return re.findall(r"^ *- run: (.*)$", job, re.MULTILINE)
    block = re.search(r"^  script:\n((?:    - .*\n)+)", job, re.MULTILINE)
    assert block is not None
    return [line.strip().removeprefix("- ") for line in block[1].splitlines()]


@pytest.mark.parametrize("mark", ["github", "gitlab"])
def test_a_job_of_the_page_has_options_that_there_are(mark: str) -> None:
    """Without the servers: what their shell runs of warpfuzz is parsed."""
    commands = [line for line in scripts(mark) if line.startswith("warpfuzz gate")]
    assert commands
    for command in commands:
        words = shlex.split(command)[1:]
        context = app.make_context("warpfuzz", words)
        left = [*context._protected_args, *context.args]
        name, found, rest = app.resolve_command(context, left)
        assert found is not None
        made = found.make_context(name, rest, parent=context)
        assert made.params["junit"].suffix == ".xml"
