"""A campaign that is killed at any moment goes on where it was: nothing lost, nothing twice."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from command_line import leave_as_found, warpfuzz
from running_campaigns import CORPUS, started, state, wait_for_cases

from corpus import open_corpus
from fuzz.campaign.store import FamilyRecord
from fuzz.findings.families import Bucket

FAULT = ("--seed", 5, "--fault", "store-one-row-off", "--only", "wmma*m8n8k32*")
IDLE = ("--device-reference",) if shutil.which("g++") else ()
ENDLESS = ("--cases", 10**9, "--workers", 2, "--resume")


def stored_families(folder: Path) -> Counter[str]:
    """Return how many findings each family of a sound corpus has."""
    problems: list[object] = []
    corpus = open_corpus(folder)
    found = Counter(entry.finding.identity.text for entry in corpus.entries(problems.append))
    assert not problems
    return found


def key_of(record: FamilyRecord) -> str:
    """Return the name under which a campaign keeps a family, as in `turned`."""
    return Bucket(kind=record.kind, identity=record.identity, builds=record.builds).key


@pytest.mark.parametrize(
    "kills", [2, pytest.param(200, marks=pytest.mark.slow)], ids=lambda kills: f"{kills} kills"
)
def test_after_every_kill_nothing_is_lost_and_nothing_twice_and_counters_go_on(
    kills: int, tmp_path: Path
) -> None:
    chance = random.Random(2026)
    home = tmp_path / "killed"
    home.mkdir()
    before: dict[str, int] = {}
    cases = 0
    for _ in range(kills):
        with started(home, *ENDLESS, *FAULT, *IDLE) as process:
            wait_for_cases(home, process, cases + 1)
            # While a round goes on, or a finding is replayed, shrunk or stored.
            time.sleep(chance.uniform(0.0, 0.5))
            assert process.poll() is None, process.err
            process.kill()
        now = state(home)
        assert now["cases"] >= cases
        cases = now["cases"]
        families = msgspec.convert(now["families"], list[FamilyRecord])
        found = {key_of(one): one.cases for one in families}
        assert len(found) == len(families)
        # A family goes only where its finding turned out to belong to another one.
        assert set(before) - set(found) <= set(now["turned"])
        # One of that name may have come since: there may be another cause behind the same looks.
        kept = before.keys() & found.keys() - set(now["turned"])
        assert all(found[key] >= before[key] for key in kept)
        assert sum(found.values()) + now["gone"] >= sum(before.values())
        before = found
        stored = stored_families(home / CORPUS)
        assert set(stored.values()) <= {1}
        # Others may have got their name, or gone, since the state was saved.
        assert {one.identity.text for one in families if one.finished} <= set(stored)
    # Brought to an end, it has found what a campaign has found that nobody disturbed.
    total = cases + 16
    options = ("run", "--runner", "sim", "--json", "--cases", total, *FAULT, *IDLE)
    ended = warpfuzz(home, *options, "--resume", "--workers", 2, prepare=leave_as_found)
    whole = warpfuzz(tmp_path, *options, "--workers", 1, timeout=600, prepare=leave_as_found)
    assert ended.code == whole.code == 1
    assert ended.summary["cases"] == whole.summary["cases"] == total
    counts = [{one["family"]: one["cases"] for one in run.findings} for run in (ended, whole)]
    assert counts[0] == counts[1] != {}
    for what in ("verdicts", "device_reference"):
        assert ended.summary.get(what) == whole.summary.get(what)
    assert stored_families(home / CORPUS) == dict.fromkeys(counts[0], 1)
