"""A compiler in a process of its own: what is told of one failure is its own words."""

import sys
from contextlib import closing
from pathlib import Path

import pytest

from runners.front_ends.protocol import Child
from runners.protocol import Failure

_ABORTS = """
import os, sys
from multiprocessing.connection import Connection
line = Connection(int(sys.argv[4]))
line.send({})
while True:
    request = line.recv()
    print(request["says"], file=sys.stderr, flush=True)
    if request["dies"]:
        os.abort()
    line.send({})
"""


@pytest.mark.parametrize("dies", [True, False])
def test_a_later_abort_is_told_in_its_own_words_not_in_those_of_an_earlier_one(
    dies: bool, tmp_path: Path
) -> None:
    program = tmp_path / "compiler.py"
    program.write_text(f"#!{sys.executable}\n{_ABORTS}")
    program.chmod(0o755)
    with closing(Child("llvm", who="LLVM", seconds=60, python=program)) as child:
        child.asked({"says": "LLVM ERROR: the first", "dies": dies})
        failure = child.asked({"says": "LLVM ERROR: the second", "dies": True})
    assert isinstance(failure, Failure)
    assert failure.detail.splitlines() == ["LLVM ERROR: the second"]
