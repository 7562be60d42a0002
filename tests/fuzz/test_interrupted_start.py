"""An interrupt at any moment of the start ends the command without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from command_line import ROOT, environment

_READY = "from fuzz.__main__ import main; print(flush=True); main()"
_AT_ONCE = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
_LISTENING = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
"""Before the child starts: a shell has what it runs in the background ignore interrupts."""
_QUIET = (-signal.SIGINT, 128 + signal.SIGINT, 2)


def ended(tmp_path: Path, *command: object, path: str = str(ROOT), begin=_LISTENING):
    return subprocess.run(
        [str(word) for word in command], cwd=tmp_path, env=environment(tmp_path, PYTHONPATH=path),
        check=False, capture_output=True, text=True, preexec_fn=begin,
    )  # fmt: skip


@pytest.mark.parametrize("milliseconds", [0, 100])
def test_an_interrupt_while_it_starts_is_quiet(tmp_path: Path, milliseconds: int) -> None:
    with subprocess.Popen(
        # What comes before the line is Python's own start, and a module of 20 lines.
        [sys.executable, "-c", _READY, "corpus", "list", "missing"], cwd=tmp_path,
        env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=_LISTENING,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert "Traceback" not in said
    assert process.returncode in _QUIET


@pytest.mark.parametrize("module", ["pathlib", "click"])
def test_an_interrupt_while_it_imports_is_quiet(tmp_path: Path, module: str) -> None:
    # It comes while the module is looked for, in whatever imports it.
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r} and 'signal' in sys.modules:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        f"for name in [name for name in sys.modules if name.startswith({module!r})]:\n"
        "    del sys.modules[name]\n"
    )
    command = (sys.executable, ROOT / "fuzz" / "_warpfuzz", "--version")
    done = ended(tmp_path, *command, path=f"{ROOT}:{tmp_path}")
    assert "Traceback" not in done.stderr
    assert done.returncode in _QUIET


@pytest.mark.parametrize("ignored", [False, True])
def test_an_interrupt_while_python_starts_is_quiet(tmp_path: Path, ignored: bool) -> None:
    """Python imports `sitecustomize` before anything of the command."""
    (tmp_path / "sitecustomize.py").write_text(_AT_ONCE)
    installed = tmp_path / "bin"
    installed.mkdir()
    for name in ("warpfuzz", "_warpfuzz"):
        _, *lines = (ROOT / "fuzz" / name).read_text().splitlines()
        first = f"#!{sys.executable}" if name.startswith("_") else "#!/bin/sh"
        (installed / name).write_text("\n".join([first, *lines]))
        (installed / name).chmod(0o755)
    # As pipx does.
    (tmp_path / "link").symlink_to(installed / "warpfuzz")
    begin = partial(signal.signal, signal.SIGINT, signal.SIG_IGN) if ignored else _LISTENING
    done = ended(tmp_path, tmp_path / "link", "--version", path=f"{ROOT}:{tmp_path}", begin=begin)
    assert (done.stderr, done.returncode) == ("", 0 if ignored else -signal.SIGINT)
