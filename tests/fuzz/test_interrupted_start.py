"""An interrupt at any moment of the start ends the command without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import environment

_READY = "from fuzz.__main__ import main; print(flush=True); main()"


@pytest.mark.parametrize("milliseconds", [0, 50, 200])
def test_an_interrupt_while_it_starts_is_quiet(tmp_path: Path, milliseconds: int) -> None:
    with subprocess.Popen(
        # What comes before the line is Python's own start, and a module of 20 lines.
        [sys.executable, "-c", _READY, "corpus", "list", "missing"], cwd=tmp_path,
        env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert "Traceback" not in said
    assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT, 2)
