"""What becomes of the processes of a bench that is told to end, or killed."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import COMMAND, environment
from running_campaigns import SOON, descendants, nothing_left


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM, signal.SIGKILL],
)
def test_nothing_goes_on_behind_a_bench_that_ended(tmp_path: Path, number: int) -> None:
    with subprocess.Popen(
        [*COMMAND, "bench", "--contents", "warpfuzz", "--jobs", "2", "--limit", str(10**6)],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background lets them ignore SIGINT, and their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        end = time.monotonic() + SOON
        # Two that work, and one that multiprocessing has for itself.
        while len(descendants(tmp_path)) < 4 and time.monotonic() < end:
            time.sleep(0.1)
        # They have to be past their start to be of the kind that waits for ever.
        time.sleep(0.3)
        process.send_signal(number)
        try:
            process.wait(timeout=SOON)
            assert nothing_left(tmp_path)
        finally:
            process.kill()
            for left in descendants(tmp_path):
                left.kill()
        _, err = process.communicate()
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert "warpfuzz: stopped" in err
