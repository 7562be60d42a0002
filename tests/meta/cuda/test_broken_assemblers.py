"""A ptxas that breaks is a failure value; what it made is never believed unseen."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cuda_fakes import module

from oracle.errors import UsageError
from runners.cuda.compilation import DriverCompiler, PtxasCompiler
from runners.protocol import Compiled, Failure, Trouble
from runners.ptx_text import is_cubin

_CUBIN = b"\\177ELF" + b"\\0" * 14 + b"\\276\\0" + b"\\0" * 44
# In a shell script's printf: a file that starts as a cubin does (e_machine 190).


def _assembler(place: Path, script: str, **options: object) -> PtxasCompiler:
    path = place / "ptxas"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return PtxasCompiler(path, **options)  # type: ignore[arg-type]


def _writes(counter: Path) -> str:
    return (
        '[ "$1" = --version ] && exit 0\n'
        f'echo run >> {counter}\nwhile [ "$1" != -o ]; do shift; done\n'
        f"printf '{_CUBIN.decode()}' > \"$2\""
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo garbage; exit 0", "wrote no machine code"),
        ('while [ "$1" != -o ]; do shift; done; echo junk > "$2"', "wrote no machine code"),
        ("printf '\\377\\376\\200'; exit 3", "ended with status 3"),
        ("kill -SEGV $$", "was killed by SIGSEGV"),
        ("sleep 1000", "did not end by its deadline"),
        ("head -c 3000000 /dev/urandom; exit 1", "ended with status 1"),
    ],
)
def test_an_assembler_that_breaks_is_a_compile_failure(
    tmp_path: Path, script: str, words: str
) -> None:
    start = time.monotonic()
    deadline = 0.5 if script.startswith("sleep") else 60.0
    outcome = _assembler(tmp_path, script, deadline=deadline).compile(module(), "sm_90")
    assert isinstance(outcome, Failure)
    assert outcome.trouble is Trouble.COMPILE_FAILURE
    assert words in outcome.message
    assert len(outcome.detail) < 1 << 20
    assert time.monotonic() - start < 60


def test_a_file_that_cannot_be_run_is_a_compile_failure(tmp_path: Path) -> None:
    path = tmp_path / "ptxas"
    path.write_bytes(b"\0\1\2")
    outcome = PtxasCompiler(path).compile(module(), "sm_90")
    assert isinstance(outcome, Failure)
    assert "cannot be run" in outcome.message


def test_a_missing_assembler_and_an_unknown_level_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no assembler"):
        PtxasCompiler(tmp_path / "ptxas")
    with pytest.raises(UsageError, match="optimisation level 4"):
        DriverCompiler(level=4)


def test_a_module_is_compiled_once_and_anew_for_another_recipe(tmp_path: Path) -> None:
    counter = tmp_path / "runs"

    def runs() -> int:
        return len(counter.read_text().splitlines())

    first = _assembler(tmp_path, _writes(counter))
    one, again = (first.compile(module(), "sm_90") for _ in range(2))
    assert isinstance(one, Compiled)
    assert isinstance(again, Compiled)
    assert one == again
    assert is_cubin(one.code)
    assert runs() == 1
    assert isinstance(first.compile(module("other"), "sm_90"), Compiled)
    assert isinstance(first.compile(module(), "sm_80"), Compiled)
    assert runs() == 3
    # Another level is another recipe.
    other = _assembler(tmp_path, _writes(counter), level=0).compile(module(), "sm_90")
    assert isinstance(other, Compiled)
    assert other.key != one.key
    assert runs() == 4
