"""Changing PTX between emission and execution: a program of the user's, or a planted fault."""

from __future__ import annotations

import errno
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oracle.errors import UsageError
from runners.folders import disk_full, is_full
from runners.kernels import KernelModule
from runners.processes import quoted, run_tool, words_of
from runners.protocol import Compiled, Failure, ForwardingRunner, Runner, Trouble
from runners.screening import References, Screener, Screening

Rewriter = Callable[[str], str | Failure]
"""PTX in, PTX out, or why there is none."""


_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.""", re.DOTALL)
_EXPANDED = re.compile(r"\$[\w{(@*#?$!-]|`")
_OF_ALL = re.compile(r"\s*\w+=|.*(?:^|\s)~", re.DOTALL)
"""An assignment before the program, or a word that begins with somebody's home."""
_OPERATOR = re.compile(r"(?:^|\s)(?:\d*[<>]|[|&;(])|[|&;](?:\s|$)|\n")
"""Operator of a shell, as a word or at the end of one; inside a word it belongs to the word:
`sed s/ret;//`."""


def is_for_a_shell(command: str) -> bool:
    """Whether a command has more than words: pipes, redirections, several commands, variables."""
    plain = _QUOTED.sub("q", command)
    expanded = [plain, *(one for one in _QUOTED.findall(command) if one.startswith('"'))]
    return (
        any(map(_EXPANDED.search, expanded))
        or _OPERATOR.search(plain) is not None
        or _OF_ALL.match(plain) is not None
    )


class PtxPass:
    """A command that reads PTX from standard input and writes PTX to standard output.

    `command`: as for `sh -c`, which runs it where `is_for_a_shell`; else it is split into words.
    `deadline`: seconds that one module may take. Raises UsageError if the command is empty or its
    quotes do not match.
    """

    def __init__(self, command: str, *, deadline: float = 60.0) -> None:
        self._words = words_of(command)
        if not self._words:
            raise UsageError("the command of a PTX pass is empty; name a program and its options")
        if is_for_a_shell(command):
            self._words = ["sh", "-c", command]
        self._command, self._deadline = command, deadline

    @property
    def missing(self) -> str | None:
        """The program that the command names, if there is none that can be executed."""
        return None if shutil.which(self._words[0]) else self._words[0]

    def __call__(self, ptx: str) -> str | Failure:
        """Return what the command makes of PTX; a module like any other, or a failure.

        A full disk is a failure of this machine, whatever the command made of it.
        """
        try:
            finished = run_tool(self._words, deadline=self._deadline, given=ptx.encode())
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return _no_space()
            return self._failure(f"cannot be run ({error}); check its path", "")
        if finished.failed:
            if is_full(Path(tempfile.gettempdir())):
                return _no_space()
            return self._failure(finished.ending, finished.errors)
        try:
            return finished.output.decode()
        except UnicodeDecodeError as error:
            what = f"wrote something that is no text: byte {error.start + 1} is not UTF-8"
            return self._failure(what, finished.errors)

    def _failure(self, what: str, detail: str) -> Failure:
        return Failure(
            trouble=Trouble.COMPILE_FAILURE,
            message=f"the PTX pass {quoted(self._command)} {what}",
            detail=detail,
        )


def _no_space() -> Failure:
    return Failure(trouble=Trouble.UNAVAILABLE, message=str(disk_full(Path(tempfile.gettempdir()))))


def rewritten(module: KernelModule, rewriters: Sequence[Rewriter]) -> KernelModule | Failure:
    """Return a module with other PTX, or why there is none; rewriters follow each other."""
    ptx = module.ptx
    for rewriter in rewriters:
        changed = rewriter(ptx)
        if isinstance(changed, Failure):
            return changed
        ptx = changed
    return replace(module, ptx=ptx)


class RewritingRunner(ForwardingRunner):
    """A runner that gets other PTX than was emitted; the rest of it is the runner's own.

    `runner`: where the rewritten modules run; closed together with this one. `rewriters`: what
    happens to the text of every module, in order.
    """

    def __init__(self, runner: Runner, rewriters: Sequence[Rewriter]) -> None:
        super().__init__(runner)
        self._rewriters = tuple(rewriters)

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Rewrite a module and compile it; the compiled module holds the rewritten text."""
        made = rewritten(module, self._rewriters)
        return made if isinstance(made, Failure) else self._runner.compile(made)

    def prepare(self, module: KernelModule) -> Compiled | Failure:
        """Rewrite a module and translate it, as a runner does that can screen; else UsageError."""
        made = rewritten(module, self._rewriters)
        return made if isinstance(made, Failure) else self._screener.prepare(made)

    @property
    def _screener(self) -> Screener:
        if not isinstance(self._runner, Screener):
            raise UsageError(f"{type(self._runner).__name__} cannot screen; use `cuda` or `sim`")
        return self._runner

    def screen(self, compiled: Compiled, references: References, **options: Any) -> Screening:
        """Start a screening launch, as the runner does; UsageError if the runner cannot screen."""
        return self._screener.screen(compiled, references, **options)
