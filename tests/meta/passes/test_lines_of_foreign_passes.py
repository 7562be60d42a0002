"""A fault that nobody planted here, made as a PTX pass, is one line that names what is wrong.

All of them take minutes: `pytest -m slow tests/meta/passes`.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from foreign_passes import PASSES

from corpus.known import load_known
from fuzz.bench import LinesTask, Row, lines_of
from fuzz.runner import RunnerChoice

SCRIPT = Path(__file__).with_name("foreign_passes.py")
INSTRUCTIONS = {"third-multiplication-broken": 2}
"""Lines of passes that break several instructions: one for each of those."""


def lines(ptx_pass: str, guilty: tuple[str, ...], *, name: str, images: int, seed: int = 0) -> Row:
    """Return what a campaign with a pass ends with."""
    choice = RunnerChoice(name="sim", target="sm_90", ptx_version="8.6", ptx_pass=ptx_pass)
    task = LinesTask(
        name=name, guilty=guilty, choice=choice, seed=seed, images=images, known=load_known()
    )
    return lines_of(task)


def check(found: Row) -> None:
    assert 1 <= found["lines"] <= INSTRUCTIONS.get(found["name"], 1), found["titles"]
    assert (found["named"], found["known"], found["flaky"]) == (True, 0, 0), found["titles"]


def test_a_strangers_fault_is_one_line() -> None:
    exchanged = r"s/(wmma\.store[^{]*\{)(%[a-z0-9_]+), (%[a-z0-9_]+)/\1\3, \2/"
    command = shlex.join(["sed", "-E", exchanged])
    check(lines(command, ("wmma.store",), name="sed", images=128))


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSES)
def test_every_strangers_fault_is_one_line(name: str) -> None:
    command = shlex.join([sys.executable, str(SCRIPT), name])
    check(lines(command, PASSES[name][1], name=name, images=500))
