"""Campaigns and findings from anybody: no command of theirs is run, nothing outside is written."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from corpus import Case, Corpus, Entry, Identity, Kind, Making, create_corpus
from fuzz.campaign.store import SCHEMA, CampaignStore, State, decode
from fuzz.commands.replay import replay_path
from fuzz.commands.run import _seed, resumed
from fuzz.findings.case import ReplayOptions, check_trusted, remember
from fuzz.findings.replay import Replayed, Replays
from fuzz.options.testing import Replay, Run
from oracle.errors import InfrastructureError, UsageError
from strategies.rounds import ProgramCoverage, Reached


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def case(number: int, **made: str) -> Case:
    return Case(
        kind=Kind.CRASH,
        identity=Identity(failure="wrong result", instructions=(f"k{number}",)),
        instructions=(f"wmma.{number};",),
        target="sm_90",
        ptx_version="8.0",
        made=Making(**made),
    )


def test_a_command_is_trusted_where_it_was_given_and_nowhere_else(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(command: str, *, trust: bool = False) -> None:
        check_trusted(command, option="--ptx-pass", named_by="the state", trust=trust)

    with pytest.raises(UsageError, match=r"the state names the command '\./pass'.*--trust"):
        check("./pass")
    typed = """sed 's/\\.trans//' "a b\""""
    with pytest.raises(UsageError) as refused:
        check(typed)
    shown = str(refused.value).partition("the command ")[2].partition(", which you have not")[0]
    assert shlex.split(shown) == [typed]
    check("./pass", trust=True)
    check("13.5")
    remember("./pass", None)
    check("./pass")
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    with pytest.raises(UsageError):
        check("./pass")


def test_an_assembler_that_a_finding_names_is_not_run(home: Path) -> None:
    corpus = create_corpus(home / "c", generator="test")
    evil, mine = (str(home / name) for name in ("evil", "mine"))
    for name in (evil, mine):
        Path(name).write_text(f"#!/bin/sh\ntouch {name}.was-run\n")
        Path(name).chmod(0o755)
    saved = corpus.add(case(1, runner="sim", assembler=evil), {})
    entry = corpus.get(saved.id)
    with pytest.raises(UsageError, match=r"/evil.*--trust if you know it, or --assembler"):
        ReplayOptions().choice(entry)
    taken = ReplayOptions(assembler=mine).choice(entry).assembler
    assert taken is not None
    assert taken.spelled == mine
    assert not Path(f"{evil}.was-run").exists()
    taken = ReplayOptions(trust=True).choice(entry).assembler
    assert taken is not None
    assert taken.spelled == evil


@pytest.mark.parametrize(
    ("name", "value", "given"),
    [
        ("ptx_pass", "touch owned", {"ptx_pass": "cat"}),
        ("assemblers", ["touch owned"], {"assemblers": ("13.5",)}),
        ("front_ends", ["llvm:touch owned"], {"front_ends": ("llvm",)}),
    ],
)
def test_a_command_that_a_state_names_is_not_run(
    name: str, value: object, given: dict[str, Any]
) -> None:
    state = State(options={}, asked={"runner": "sim", name: value}, started="")
    with pytest.raises(UsageError, match=r"the campaign's state names the command '.*touch owned'"):
        resumed(Run(), state)
    assert resumed(Run(trust=True), state).runner == "sim"
    assert resumed(Run(**given), state).picked(*given) == given


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"faults": 1.5}, "has 1.5 for --fault"),
        ({"levels": 1.5}, "has 1.5 for --opt"),
        ({"runner": 1.5}, "has 1.5 for --runner"),
        ({"runner": "zzz"}, "no runner 'zzz'; there are ptxas"),
    ],
)
def test_an_option_of_another_type_in_a_state_is_said(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InfrastructureError, match=said):
        resumed(Run(), State(options={}, asked=asked, started=""))


@pytest.mark.parametrize(
    "fields",
    [
        {"rounds": 10**30}, {"cases": -1}, {"seconds": 1e300}, {"options": {"--seed": {}}},
        {"parts": {"0": 10**30}}, {"whole": ["x"]}, {"families": [7]}, {"options": 7},
        {"tries": {"k": "x"}}, {"schema": 10**30}, {"schema": "x" * 10_000},
        {"whole": [1] * 40_000},
    ],
)  # fmt: skip
def test_a_state_with_other_values_is_a_short_sentence(fields: dict[str, Any]) -> None:
    document = {"schema": SCHEMA, "options": {}, "started": "", **fields}
    with pytest.raises(ValueError, match=r".") as raised:
        decode(json.dumps(document).encode())
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize("seed", [-1, 2**64, True, "7"])
def test_a_seed_that_is_none_is_said(seed: Any) -> None:
    state = State(options={"--seed": seed}, started="")
    with pytest.raises(InfrastructureError, match=r"--seed|the seed"):
        _seed(Run(), state)
    assert _seed(Run(seed=3), state) == 3


def test_rounds_far_away_take_no_time() -> None:
    state = State(options={}, started="", rounds=2**62)
    reached = Reached(ProgramCoverage)
    empty = ProgramCoverage().state()
    reached.restore({"base": empty, "first": -(10**18), "epochs": {"0": empty, "64": empty}})
    started = time.thread_time()
    reached.known_to(state.rounds)
    reached.settle(state.rounds)
    assert time.thread_time() - started < 1


def written_and_read(corpus: Corpus) -> None:
    with CampaignStore(corpus.path) as store:
        store.record({"a": 1})
        store.load()


@pytest.mark.parametrize("name", ["", "lock", "statistics.jsonl", "state.json"])
def test_a_campaign_follows_no_link(name: str, home: Path) -> None:
    corpus = create_corpus(home / "c", generator="test")
    precious = home / "precious"
    precious.mkdir()
    (precious / "thesis").write_text("years of work")
    if name:
        (corpus.path / "campaign").mkdir()
        (corpus.path / "campaign" / name).symlink_to(precious / "thesis")
    else:
        (corpus.path / "campaign").symlink_to(precious)
    with pytest.raises(InfrastructureError, match="a link is there"):
        written_and_read(corpus)
    assert {one.name for one in precious.iterdir()} == {"thesis"}
    assert (precious / "thesis").read_text() == "years of work"


def test_one_bad_finding_ends_no_other_replay(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus: Corpus = create_corpus(home / "c", generator="test")
    saved = [corpus.add(case(number), {}) for number in range(3)]
    bad, broken = saved[0].id, saved[1]
    (broken.path / "finding.json").write_text("[")

    module = Replays._module

    def replayed(self: Replays, entry: Entry, times: int) -> Replayed:
        if entry.id == bad:
            raise RecursionError("deep")
        return module(self, entry, times)

    monkeypatch.setattr(Replays, "_module", replayed)
    with pytest.raises(InfrastructureError):
        replay_path(Replay(path=home / "c", junit=home / "out.xml"))
    told = capsys.readouterr()
    assert "RecursionError: deep" in told.err
    suite = ElementTree.parse(home / "out.xml").getroot()
    assert (suite.get("tests"), suite.get("errors")) == ("3", "3")
