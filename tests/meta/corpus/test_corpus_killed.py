"""A campaign that is killed at any moment, and resumed, loses nothing and finds nothing twice."""

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from corpus_faults import FILES, case, shown

from corpus import create_corpus, open_corpus

CAMPAIGN = Path(__file__).with_name("endless_campaign.py")


def killed_campaign(folder: Path, first: int, wait: float) -> list[tuple[int, str]]:
    """Run a campaign, kill it `wait` seconds after it saved something; return what it saved."""
    with subprocess.Popen(
        [sys.executable, str(CAMPAIGN), str(folder), str(first)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        time.sleep(wait)
        process.kill()
        lines += process.stdout.readlines()
    # Killed while it printed, the last line may be cut off.
    rows = [line.split() for line in lines if line.endswith("\n")]
    return [(int(number), identity) for number, identity in rows]


@pytest.mark.parametrize(
    "kills", [4, pytest.param(200, marks=pytest.mark.slow)], ids=lambda kills: f"{kills} kills"
)
def test_after_every_kill_nothing_is_lost_and_nothing_is_there_twice(
    kills: int, tmp_path: Path
) -> None:
    chance = random.Random(2026)
    saved: list[tuple[int, str]] = []
    first = 0
    for _ in range(kills):
        saved += killed_campaign(tmp_path, first, chance.uniform(0, 0.03))
        corpus = open_corpus(tmp_path)
        stored = corpus.sound_entries()
        assert {identity for _, identity in saved} <= {entry.id for entry in stored}
        assert all(entry.finding.files.keys() == FILES.keys() for entry in stored)
        visible = shown(corpus)
        texts = Counter(entry.finding.text for entry in corpus.entries())
        last = max(number for number, _ in saved)
        for number in range(last + 1):
            assert texts[case(number).text] + texts[case(number, small=True).text] == 1
        # The one that was being saved may be there without having been reported.
        assert last + 1 <= len(visible) <= last + 2
        # Resumed, a campaign finds the last ones again.
        first = max(0, last - 2)
    corpus = create_corpus(tmp_path, generator="test")
    with corpus.exclusively():
        corpus.settle()
    assert not any(path.name.startswith(".") for path in (tmp_path / "findings").iterdir())
    assert list(open_corpus(tmp_path).scan()) == list(open_corpus(tmp_path).entries())
