"""A supervised child: what it answers, how long it may take, and how its end is told."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runners import children
from runners.children import NoAnswerError, SupervisedChild
from runners.protocol import Trouble

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
    monkeypatch.setattr(children, "_REST_SECONDS", 1)
    monkeypatch.setattr(children, "_DYING_SECONDS", 5.0)
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
            assert answer(made) == (request, b'"""A supe')
