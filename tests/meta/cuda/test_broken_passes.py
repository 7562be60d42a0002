"""A PTX pass of the user's changes what runs; one that breaks is a failure value."""

from __future__ import annotations

import shlex
import sys
import time

import numpy as np
import pytest
from cuda_fakes import compiled, fake_runner, images, module

from oracle.errors import UsageError
from runners.foreign import PtxPass, RewritingRunner
from runners.protocol import Failure, Ran, Trouble


def _python(script: str) -> str:
    return shlex.join([sys.executable, "-c", script])


def test_what_runs_is_what_the_passes_wrote_in_their_order() -> None:
    first = PtxPass(_python("import sys; sys.stdout.write(sys.stdin.read().upper())"))
    second = PtxPass("sed s/INCREMENT/increment/")
    outcome = first("// x\n.entry increment")
    assert outcome == "// X\n.ENTRY INCREMENT"
    with RewritingRunner(fake_runner(), [first, lambda text: text.lower(), second]) as runner:
        made = compiled(runner)  # type: ignore[arg-type]
        assert made.module.ptx == "// \n.entry increment"
        ran = runner.run(made, images(3))
        assert isinstance(ran, Ran)
        assert np.array_equal(ran.images, images(3) + 1)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/nowhere/at-all", "cannot be run"),
        ("false", "ended with status 1"),
        ("sh -c 'kill -SEGV $$'", "was killed by SIGSEGV"),
        ("sleep 1000", "did not end by its deadline"),
        ("printf 'ab\\377\\376'", "is no text: byte 3 is not UTF-8"),
    ],
)
def test_a_pass_that_breaks_is_a_compile_failure(command: str, words: str) -> None:
    start = time.monotonic()
    deadline = 0.5 if command.startswith("sleep") else 60.0
    with RewritingRunner(fake_runner(), [PtxPass(command, deadline=deadline)]) as runner:
        outcome = runner.compile(module())
    assert isinstance(outcome, Failure)
    assert outcome.trouble is Trouble.COMPILE_FAILURE
    assert words in outcome.message
    assert time.monotonic() - start < 60


def test_a_pass_that_writes_nonsense_is_refused_by_the_compiler() -> None:
    with RewritingRunner(fake_runner(), [PtxPass("echo .entry nonsense")]) as runner:
        outcome = runner.compile(module())
    assert isinstance(outcome, Failure)
    assert outcome.trouble is Trouble.COMPILE_FAILURE


@pytest.mark.parametrize(
    ("command", "makes"),
    [
        ("tr a b | tr b c", "c"),
        ('X=$(cat); echo "$X$X"', "aa\n"),
        # Signs in quotes are words, and no shell sees them.
        ("sed 's/a/|;$/'", "|;$"),
        ("sed s/a/[*]?/", "[*]?"),
        (r"sed s/a/\\\&/", "&"),
        # Ends of lines and homes; the words of a shell's own were given to programs (2026-11-24).
        ("set c; echo $1$#", "c1\n"),
        ("HOME=/b; echo ~ ~/c", "/b /b/c\n"),
    ],
)
def test_a_pass_is_a_command_of_a_shell(command: str, makes: str) -> None:
    assert PtxPass(command)("a") == makes


@pytest.mark.parametrize("command", ["", "  ", "sed 's/a/b"])
def test_a_command_that_is_none_is_refused(command: str) -> None:
    with pytest.raises(UsageError, match="command"):
        PtxPass(command)
