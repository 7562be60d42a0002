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


@pytest.mark.parametrize("milliseconds", [0, 50, 200])
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


@pytest.mark.parametrize("module", ["pathlib", "fuzz.cli", "click"])
@pytest.mark.parametrize("how", [["-m", "fuzz"], [str(ROOT / "fuzz" / "_warpfuzz")]], ids=str)
def test_an_interrupt_while_it_imports_is_quiet(
    tmp_path: Path, module: str, how: list[str]
) -> None:
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
    ended = subprocess.run(
        [sys.executable, *how, "--version"], cwd=tmp_path, check=False, capture_output=True,
        env=environment(tmp_path, PYTHONPATH=f"{ROOT}:{tmp_path}"), text=True,
        preexec_fn=_LISTENING,
    )  # fmt: skip
    assert "Traceback" not in ended.stderr
    assert ended.returncode in _QUIET


def test_an_interrupt_between_import_and_call_is_quiet(tmp_path: Path) -> None:
    code = f"from fuzz.__main__ import main; {_AT_ONCE}; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(tmp_path), check=False,
        capture_output=True, text=True, preexec_fn=_LISTENING,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


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
    ended = subprocess.run(
        [tmp_path / "link", "--version"], cwd=tmp_path, check=False, capture_output=True, text=True,
        env=environment(tmp_path, PYTHONPATH=f"{ROOT}:{tmp_path}"),
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN) if ignored else _LISTENING,
    )  # fmt: skip
    assert ended.stderr == ""
    assert ended.returncode == (0 if ignored else -signal.SIGINT)
