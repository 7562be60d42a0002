"""What becomes of the processes of a bench that is told to end, or killed."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from command_line import started
from running_campaigns import SOON, descendants, nothing_left


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        signal.SIGKILL,
    ],
)
def test_nothing_goes_on_behind_a_bench_that_ended(tmp_path: Path, number: int) -> None:
    options = ("--contents", "warpfuzz", "--jobs", 2, "--limit", 10**6)
    with started(tmp_path, "bench", *options) as command:
        end = time.monotonic() + SOON
        # It, and two that work.
        while len(descendants(tmp_path)) < 3 and time.monotonic() < end:
            time.sleep(0.05)
        # They have to be past their start to be of the kind that waits for ever.
        time.sleep(0.3)
        command.send_signal(number)
        try:
            ended = command.ended(SOON)
            assert nothing_left(tmp_path)
        finally:
            for left in descendants(tmp_path):
                left.kill()
    if number != signal.SIGKILL:
        assert ended.code == 128 + number
        assert "warpfuzz: stopped" in ended.err
