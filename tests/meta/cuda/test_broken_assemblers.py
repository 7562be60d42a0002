"""A ptxas that breaks is a failure value; what it made is never believed unseen."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cuda_fakes import module

from oracle.errors import UsageError
from runners.cuda.compilation import DriverCompiler, PtxasCompiler
from runners.cuda.cubins import CubinFolder, is_cubin
from runners.protocol import Compiled, Failure, Trouble

_CUBIN = b"\\177ELF" + b"\\0" * 14 + b"\\276\\0" + b"rest"
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
        ("sleep 100", "did not end by its deadline"),
        ("head -c 3000000 /dev/urandom; exit 1", "ended with status 1"),
    ],
)
def test_an_assembler_that_breaks_is_a_compile_failure(
    tmp_path: Path, script: str, words: str
) -> None:
    start = time.monotonic()
    outcome = _assembler(tmp_path, script, deadline=1.0).compile(module(), "sm_90")
    assert isinstance(outcome, Failure)
    assert outcome.trouble is Trouble.COMPILE_FAILURE
    assert words in outcome.message
    assert len(outcome.detail) < 1 << 20
    assert time.monotonic() - start < 15


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
    folder = CubinFolder(tmp_path / "cubins")

    def runs() -> int:
        return len(counter.read_text().splitlines())

    first = _assembler(tmp_path, _writes(counter), folder=folder)
    one, again = (first.compile(module(), "sm_90") for _ in range(2))
    assert isinstance(one, Compiled)
    assert isinstance(again, Compiled)
    assert one == again
    assert is_cubin(one.code)
    assert runs() == 1
    assert isinstance(first.compile(module("other"), "sm_90"), Compiled)
    assert isinstance(first.compile(module(), "sm_80"), Compiled)
    assert runs() == 3
    # Another process finds them on disk; another level is another recipe.
    assert _assembler(tmp_path, _writes(counter), folder=folder).compile(module(), "sm_90") == one
    assert runs() == 3
    other = _assembler(tmp_path, _writes(counter), folder=folder, level=0).compile(
        module(), "sm_90"
    )
    assert isinstance(other, Compiled)
    assert other.key != one.key
    assert runs() == 4


def test_a_damaged_file_of_the_cache_is_made_again(tmp_path: Path) -> None:
    folder = CubinFolder(tmp_path / "cubins")
    counter = tmp_path / "runs"
    made = _assembler(tmp_path, _writes(counter), folder=folder).compile(module(), "sm_90")
    assert isinstance(made, Compiled)
    (path,) = folder.folder.iterdir()
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[:-1] + b"X", whole[1:]):
        path.write_bytes(damaged)
        assert folder.get(made.key) is None
    path.write_bytes(whole)
    assert folder.get(made.key) == made.code


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    folder = CubinFolder(tmp_path / "file" / "cubins")
    made = _assembler(tmp_path, _writes(tmp_path / "runs"), folder=folder)
    assert isinstance(made.compile(module(), "sm_90"), Compiled)


def test_the_cache_stays_within_its_limit(tmp_path: Path) -> None:
    code = b"\x7fELF" + bytes(14) + b"\xbe\0" + bytes(1000)
    folder = CubinFolder(tmp_path, limit_bytes=5000)
    for number in range(20):
        folder.put(f"{number:064}", code)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 5000
    assert folder.get(f"{19:064}") == code
