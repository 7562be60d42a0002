"""Campaigns of the command line that go on while a test does something to them."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import command_line
import psutil
from command_line import Started, leave_as_found

from corpus import durable
from fuzz.campaign import campaign
from fuzz.campaign.store import Triage

CORPUS = "warpfuzz-corpus"
SOON = 180.0
"""Seconds for what takes a few on a machine that does nothing else."""


def descendants(home: Path) -> list[psutil.Process]:
    """Return every living process that works in a folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd() == str(home) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def nothing_left(home: Path) -> bool:
    """Wait until no process works in a folder any more; tell whether that happens."""
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        if not descendants(home):
            return True
        time.sleep(0.1)
    return False


def save_often() -> None:
    """Have a campaign save often: a test waits for what it has saved."""
    campaign._SAVE_SECONDS = 0.1


def replay_nothing() -> None:
    """Have a campaign that never comes to replaying what differed."""
    leave_as_found()
    Triage.next_job = lambda *_, **__: None  # type: ignore[assignment,method-assign]
    campaign._STOP_REPLAYS = 0.0


def fill_disk(room: int) -> None:
    """Have a disk with room for so many bytes of what a command itself writes to its corpus."""
    leave_as_found()
    write = os.write

    def writing(descriptor: int, data: bytes) -> int:
        nonlocal room
        room -= len(data)
        if room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    durable.os = type("os", (), {**vars(os), "write": staticmethod(writing)})  # type: ignore[attr-defined]


def without_capabilities() -> None:
    """Have root write where permissions say so, like everybody else (capset(2))."""
    leave_as_found()
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    none = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None).capset(header, none):
        raise OSError("capset failed")


@contextmanager
def started(
    home: Path, *options: object, prepare: Callable[[], None] = save_often
) -> Iterator[Started]:
    """Start `warpfuzz run --runner sim` in a folder; nothing of it is left in the end."""
    words = ("run", "--runner", "sim", "--json", *options)
    with command_line.started(home, *words, prepare=prepare) as command:
        yield command
    assert nothing_left(home)


def state(home: Path) -> dict[str, Any]:
    """Return the newest state that is whole, as a resumption finds it."""
    with suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads((home / CORPUS / "campaign" / "state.json").read_text())
        return found
    return {}


def wait_for_cases(home: Path, command: Started, cases: int) -> None:
    """Wait until a campaign has committed so many cases."""
    end = time.monotonic() + SOON
    while time.monotonic() < end and command.poll() is None:
        if state(home).get("cases", 0) >= cases:
            return
        time.sleep(0.05)
    raise AssertionError(f"{cases} cases were not reached: {command.poll()}, {state(home)}")
