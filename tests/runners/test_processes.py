"""Tools, helpers and supervised children: bounded, and gone with whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runners import folders, foreign, processes
from runners.assemblers.assembler import ToolAnswers
from runners.folders import temporary_folder
from runners.foreign import PtxPass
from runners.processes import (
    OUTPUT_LIMIT,
    NoAnswerError,
    SupervisedChild,
    helper,
    helper_environment,
    run_tool,
)
from runners.protocol import Failure, Trouble

_ENDLESS = "import os\nwhile True: os.write(1, bytes(1 << 20))"


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z"


def waited_for(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_a_tool_that_prints_for_ever_is_stopped_before_the_disk_is_full() -> None:
    started = time.monotonic()
    ended = run_tool([sys.executable, "-c", _ENDLESS], deadline=600)
    assert len(ended.output) == OUTPUT_LIMIT
    assert time.monotonic() - started < 60


def test_a_process_that_becomes_another_program_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a session of its own one outlived its tool: while it executes, it has no variables."""
    variables, looks = processes._variables, []

    def none_yet(pid: int) -> bytes:
        looks.append(pid)
        return b"" if looks.count(pid) < 3 else variables(pid)

    monkeypatch.setattr(processes, "_variables", none_yet)
    told = tmp_path / "pid"
    run_tool(["sh", "-c", f"setsid sh -c 'echo $$ > {told}; exec sleep 600' &"], deadline=60)
    # It may be killed with the tool's own processes, before it has a session and says which it is.
    if told.exists() and (said := told.read_text()):
        assert waited_for(lambda: gone(int(said)), 5.0)
        assert looks.count(int(said)) >= 3


_FORKING = """
import os, sys, time
if os.fork():
    time.sleep({pause})
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
number = 0
while True:
    with open(sys.argv[1] + "/" + str(number % {files}), "ab", buffering=0) as file:
        number += 1
        try:
            file.write(bytes(1 << 20))
        except OSError:
            pass
"""
"""Writes from a grandchild in a session of its own that was there before anybody could look."""


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.mark.parametrize("pause", [0, 0.2])
def test_a_tool_that_forks_at_once_is_bounded_all_the_same(
    tmp_path: Path, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "OUTPUT_LIMIT", 4 << 20)
    told = tmp_path / "files"
    told.mkdir()
    code = _FORKING.format(pause=pause, files=2)
    ended = run_tool([sys.executable, "-c", code, str(told)], deadline=60)
    assert ended.status == 0
    assert size_of(told) <= 2 * (4 << 20)
    # Nobody writes any more.
    for path in told.iterdir():
        path.unlink()
    time.sleep(0.1)
    assert not list(told.iterdir())


def test_a_tool_that_writes_many_files_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "WRITTEN_LIMIT", 8 << 20)
    code = _FORKING.format(pause=60, files=1_000_000)
    ended = run_tool([sys.executable, "-c", code, str(tmp_path)], deadline=60)
    assert ended.overflowed
    assert ended.ending == "wrote 64 MiB and more, or 8 in all"
    time.sleep(0.5)  # those that were killed end the system calls that they are in
    there = size_of(tmp_path)
    time.sleep(0.1)
    assert size_of(tmp_path) == there


def test_what_cannot_be_executed_is_an_error_of_the_system(tmp_path: Path) -> None:
    text, script, plain = tmp_path / "text", tmp_path / "script", tmp_path / "plain"
    for path, data in ((text, "exit 0"), (script, "#!/no/such/thing"), (plain, "#!/bin/sh")):
        path.write_text(data)
        path.chmod(0o755 if path != plain else 0o644)
    with pytest.raises(OSError, match="Exec format error"):
        run_tool([str(text)], deadline=60)
    for missing in (str(script), str(tmp_path / "none"), "no-such-program"):
        with pytest.raises(FileNotFoundError):
            run_tool([missing], deadline=60)
    for refused in (str(plain), str(tmp_path)):
        with pytest.raises(OSError, match=r"Permission denied|Is a directory"):
            run_tool([refused], deadline=60)


def test_a_tool_gets_its_words_as_they_are() -> None:
    words = ["", "$HOME", "a b", "'", "*", "-c"]
    code = "import sys; print(sys.argv[1:])"
    ended = run_tool([sys.executable, "-c", code, *words], deadline=60)
    assert ended.output.decode().strip() == str(words)


def test_a_pass_that_prints_for_ever_is_said() -> None:
    said = PtxPass(f"{sys.executable} -c '{_ENDLESS}'")("")
    assert isinstance(said, Failure)
    assert "wrote 64 MiB and more" in said.message


def test_a_full_disk_under_a_pass_is_no_failure_of_the_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreign, "is_full", lambda folder: True)
    said = PtxPass("false")("")
    assert isinstance(said, Failure)
    assert said.trouble is Trouble.UNAVAILABLE
    assert "no space is left" in said.message

    def full() -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(processes.tempfile, "TemporaryFile", full)
    said = PtxPass("cat")("")
    assert isinstance(said, Failure)
    assert said.trouble is Trouble.UNAVAILABLE


_STARTS_A_TOOL = """
import sys
from runners.processes import run_tool
run_tool(["sh", "-c", "echo $$ >" + sys.argv[1] + "; sleep 100 & echo $! >>" + sys.argv[1]
    + "; sleep 100"], deadline=100)
"""


def test_a_tool_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "pids"
    process = subprocess.Popen([sys.executable, "-c", _STARTS_A_TOOL, str(told)])
    assert waited_for(lambda: told.exists() and len(told.read_text().split()) == 2)
    pids = list(map(int, told.read_text().split()))
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert waited_for(lambda: all(map(gone, pids)))


@pytest.mark.parametrize("name", ["numpy.py", "msgspec.py", "json.py", "runners/__init__.py"])
def test_a_helper_imports_nothing_from_the_current_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("import os; os._exit(77)")
    ended = subprocess.run(
        helper("runners.protocol"), cwd=tmp_path, env=helper_environment(), check=False
    )
    assert ended.returncode == 0


def test_an_empty_entry_of_the_path_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f":{tmp_path}:")
    assert "" not in helper_environment()["PYTHONPATH"].split(os.pathsep)


def test_folders_of_killed_processes_are_removed_and_those_in_use_are_not(tmp_path: Path) -> None:
    left, foreign = tmp_path / f"{folders.PREFIX}left", tmp_path / "other"
    for folder in (left, foreign):
        folder.mkdir()
        (folder / "file").write_text("x")
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / f"{folders.PREFIX}link").symlink_to(target)
    with temporary_folder(tmp_path) as used:
        long_ago = time.time() - 3600
        for folder in (left, used, target):
            os.utime(folder, (long_ago, long_ago))
        folders._sweep_once.cache_clear()
        with temporary_folder(tmp_path):
            assert used.is_dir()
            assert not left.exists()
    assert foreign.is_dir()
    assert target.is_dir()
    assert not used.exists()


@pytest.mark.parametrize(
    "text",
    [
        "", "[" * 100_000, '{"schema": 1}', '{"schema": 1, "answers": {"q": [7]}}', "\xff",
    ],
)  # fmt: skip
def test_answers_that_were_tampered_with_were_never_given(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.assemblers.assembler.cache_folder", lambda: tmp_path)
    ToolAnswers("binary").put("q", True)
    assert ToolAnswers("binary").get("q") is True
    (tmp_path / "answers" / "binary.json").write_text(text, encoding="latin-1")
    assert ToolAnswers("binary").get("q") is None


_BEGIN = """
import os, signal, sys, time
from multiprocessing import reduction
from multiprocessing.connection import Connection
number = int(sys.argv[1])
line = Connection(number)
"""


@contextmanager
def child(code: str) -> Iterator[SupervisedChild]:
    made = SupervisedChild([sys.executable, "-c", _BEGIN + code])
    try:
        yield made
    finally:
        made.end()


def answer(made: SupervisedChild, seconds: float = 60.0) -> object:
    return made.receive(deadline=time.monotonic() + seconds)


@pytest.mark.parametrize(
    ("code", "trouble", "words"),
    [
        ("line.send_bytes(b'no pickle')", Trouble.CORRUPTED_REPLY, "UnpicklingError"),
        ("os.write(number, bytes(range(255, -1, -1)))", Trouble.CORRUPTED_REPLY, "EOFError"),
        ("os.write(number, (1 << 30).to_bytes(4, 'big'))", Trouble.CORRUPTED_REPLY, "length"),
        # The rest does not come.
        ("os.write(number, bytes([0, 0, 0, 9, 1]))", Trouble.CORRUPTED_REPLY, "unavailable"),
        ("time.sleep(0)", Trouble.HANG, "did not end by its deadline"),
        ("os.write(number, bytes([0, 0, 0, 9, 1])); os._exit(3)", Trouble.CRASH, "status 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", Trouble.CRASH, "was killed by SIGSEGV"),
    ],
)
def test_what_is_no_answer_is_called_by_its_name(
    code: str, trouble: Trouble, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_REST_SECONDS", 1)
    monkeypatch.setattr(processes, "_DYING_SECONDS", 5.0)
    with child(f"line.send('ready')\n{code}\ntime.sleep(1000)") as made:
        assert answer(made) == "ready"
        with pytest.raises(NoAnswerError, match=words) as told:
            answer(made, 1.0 if trouble is Trouble.HANG else 60.0)
        assert told.value.trouble is trouble
        assert made.process.returncode is not None


def test_requests_arrive_in_order_though_nobody_reads_them_for_long() -> None:
    numbers = range(40)
    # Of which several fill the line, small ones behind them.
    texts = [b"x" * (1 << 17 if number % 3 == 0 else 10) for number in numbers]
    code = "line.recv()\ntime.sleep(3)\nwhile True: line.send(line.recv())"
    with child(code) as made:
        begun = time.monotonic()
        made.send("begin")
        for text in texts:
            made.send(text)
        assert time.monotonic() - begun < 2
        assert [answer(made) for _ in numbers] == texts


def test_a_descriptor_goes_with_its_request() -> None:
    code = "while True: line.send((line.recv(), os.read(reduction.recv_handle(line), 9)))"
    with open(__file__, "rb") as file, child(code) as made:  # noqa: PTH123
        for request in ("short", "long" * (1 << 18)):
            file.seek(0)
            made.send(request, descriptor=file.fileno())
            assert answer(made) == (request, b'"""Tools,')
