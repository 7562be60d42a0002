"""Shards divide the rounds of a seed, and what campaigns wrote tells how they are."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from command_line import warpfuzz

from corpus import create_corpus
from fuzz.campaign.campaign import campaign_options
from fuzz.campaign.pool import WorkerHeartbeat, shared_heartbeats
from fuzz.campaign.status import Life, read_figures, rows_of_causes
from fuzz.campaign.store import CampaignStore
from fuzz.checks.programs import ProgramCoverage, Programs
from fuzz.checks.protocol import RoundJob, Shard
from fuzz.runner import RunnerChoice
from oracle.errors import InfrastructureError, UsageError
from strategies.draws import Selection


@pytest.mark.parametrize("count", [1, 2, 7, 50])
def test_every_round_is_one_of_exactly_one_shard(count: int) -> None:
    shards = [Shard(index=index, count=count) for index in range(1, count + 1)]
    owned = sorted(shard.number(place) for shard in shards for place in range(20))
    assert owned == list(range(20 * count))


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "a/b", "1/4/2", "１/２"])
def test_what_is_no_shard_gets_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="--shard"):
        Shard.parse(text)
    assert str(Shard.parse("3/8")) == "3/8"


def test_a_shard_carries_out_the_rounds_of_the_whole_campaign() -> None:
    whole = Programs(
        choice=RunnerChoice(name="sim"), seed=5, selection=Selection(pattern="*m8n8k4*"), images=2
    )
    part, reports = Shard(index=2, count=3), []
    for shard, number in ((Shard(), 1), (part, 0)):
        with whole.opened(WorkerHeartbeat(shared_heartbeats(1), 0)) as opened_check:
            plan = whole.plan(opened_check.facts)
            drawn = plan.round(shard.number(number), ProgramCoverage())
            report = opened_check.round(RoundJob(number=number, plan=drawn))
            assert report.number == number
            reached = report.coverage.state()
            reports.append({**vars(report), "number": None, "coverage": reached})
    assert reports[0] == reports[1]
    assert reached["programs"]
    assert campaign_options(whole, opened_check.facts, part)["--shard"] == "2/3"


def written(folder: Path, *, stopped: str, lines: int = 2) -> Path:
    """A corpus in which a campaign has written figures."""
    create_corpus(folder, generator="a test")
    finding = {"verdict": "violation", "title": "a title", "family": "one", "cases": 3}
    with CampaignStore(folder) as store:
        store.summarise({"summary": {
            "cases": 1000, "compared": 990, "failed": 2, "not_asked": 8,
            "seconds": 20.0, "rounds": 7, "seed": 3,
            "skipped_rounds": {3: "it died"}, "stopped": stopped,
            "findings": [finding, {**finding, "known": True}],
        }})  # fmt: skip
        for number in range(lines):
            device = {"name": "NVIDIA H200", "uuid": "GPU-1", "temperature": 61, "errors": {}}
            store.record({"rate": 50.0 + number, "workers": 4, "devices": [device]})
    return folder


def test_the_status_of_campaigns_is_told_from_their_files(tmp_path: Path) -> None:
    running = written(tmp_path / "running", stopped="")
    written(tmp_path / "ended", stopped="budget spent")
    silent = written(tmp_path / "silent", stopped="")
    long_ago = time.time() - 3600
    os.utime(silent / "campaign" / "summary.json", (long_ago, long_ago))
    lives = {name: read_figures(tmp_path / name).life for name in ("running", "ended", "silent")}
    assert lives == {"running": Life.RUNNING, "ended": Life.ENDED, "silent": Life.SILENT}
    figures = read_figures(running)
    assert figures.status.recent_rate == 51.0
    assert len(rows_of_causes(figures.status, known=False)) == 1
    assert figures.status.skipped == {3: "it died"}
    shown = warpfuzz(tmp_path, "status", "running", "ended", "silent")
    assert shown.code == 0
    # The cases of a line come to all of them.
    told = "990 cases compared, 2 not compiled or not run to the end, 8 could not be asked\n"
    assert shown.out.count(told) == 3, shown.out
    for words in ("budget spent", "it was killed", "3,000 cases", "61 °C", "1 violation"):
        assert words in shown.out.replace("\xa0", " "), words
    rows = warpfuzz(tmp_path, "status", "--json", "--watch", "ended").rows
    assert [row["status"]["campaign"] for row in rows] == ["ended"]
    assert rows[0]["status"]["statistics"]["rate"] == 51.0


@pytest.mark.parametrize("content", [b"", b'{"summary": {"cases": -1}}', b"\xff"])
def test_a_summary_of_something_else_gets_a_sentence(tmp_path: Path, content: bytes) -> None:
    corpus = written(tmp_path / "c", stopped="")
    (corpus / "campaign" / "summary.json").write_bytes(content)
    with pytest.raises(InfrastructureError, match=r"summary\.json cannot be used"):
        read_figures(corpus)
