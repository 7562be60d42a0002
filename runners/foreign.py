"""What users bring: runners of their own, and commands that rewrite PTX before it runs.

A runner is a function by its entry point (`python -m runners.foreign DESCRIPTOR NAME`) or a
command. It gets a module, an entry and images, in a process of its own, and gives the images back.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import signature
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from oracle.errors import UsageError
from oracle.isa.targets import DEFAULT_TARGET
from runners.folders import disk_full, is_full, temporary_folder
from runners.kernels import Kernel, KernelModule
from runners.processes import (
    OUTPUT_LIMIT,
    NoAnswerError,
    SupervisedChild,
    check_program,
    describe_status,
    helper,
    helper_environment,
    quoted,
    run_tool,
    words_of,
)
from runners.protocol import (
    NO_SM,
    Capabilities,
    ClosedAtTheEnd,
    Collected,
    Compiled,
    Failure,
    ForwardingRunner,
    Images,
    Pending,
    Ran,
    Runner,
    Trouble,
    check_images,
    check_open,
)
from runners.screening import References, Screener, Screening

GROUP = "warpfuzz.runners"  # group of the entry points
NOT_IMPLEMENTED = 77
"""Exit status of a command that does not implement what it is given: that of a test that is skipped
(GNU Automake manual, "Scripts-based Testsuites")."""
DEADLINE = 60.0  # seconds that a batch may take: as long as a PTX pass may take for a module
_LAUNCH = "{launch}"  # stands in a command for the file of a launch
_SAID_CHARACTERS = 300
"""Characters that are kept of an exception's message; the log has all of them."""
_LOADING_SECONDS = 60.0
"""Seconds that a Python function's module may take to be imported; large frameworks take ten."""
Rewriter = Callable[[str], str | Failure]  # PTX in, PTX out, or why there is none
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\$`]|\\.)*"|\\.""", re.DOTALL)
_FOR_A_SHELL = re.compile(r"[|&;<>()$`\n]|^\s*\w+=|(?:^|\s)~")
"""Outside of quotes: operators and variables, an assignment before the program, somebody's home."""


def installed() -> dict[str, EntryPoint]:
    """Return the entry points of the group by their names; UsageError if two of one name differ."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise UsageError(
                f"two installed packages have a runner {point.name!r}, {other.value} and "
                f"{point.value}; remove one of them"
            )
    return found


def is_command(name: str) -> bool:
    """Whether a runner is named by a command: it has a path, or arguments."""
    return "/" in name or len(name.split()) > 1


def check_named(name: str, built_in: Sequence[str]) -> None:
    """Raise UsageError unless there is a runner of this name, or a program of this command."""
    if name in built_in:
        return
    if is_command(name):
        check_program(words_of(name)[0], f"--runner {quoted(name)}")
    elif name not in (own := installed()):
        there = ", ".join([*built_in, *own])
        raise UsageError(
            f"there is no runner {name!r:.80}; there are {there}, and commands, which are given "
            f"with their path or arguments: './{name:.80}'"
        )


def identity_of(name: str) -> str:
    """Return a digest of a runner's files, which tells those of one name apart; UsageError if none.

    Those are the file of a function's module, or the files, else the program, that a command names.
    """
    check_named(name, ())
    if is_command(name):
        program, *words = words_of(name)
        files = [word for word in words if Path(word).is_file()]
        files = files or [shutil.which(program) or program]
    else:
        spec = find_spec(installed()[name].module)
        files = [spec.origin] if spec is not None and spec.origin else []
    found = hashlib.sha256()
    for file in files:
        # What has no file, or one that nobody may read, is known by its name alone.
        with suppress(OSError):
            found.update(Path(file).read_bytes())
    return found.hexdigest()[:12]


class ForeignRunner(ClosedAtTheEnd):
    """A runner by its name, of an entry point or a command; batches run when they are submitted.

    `target` is what its modules are for; whether it implements that is for it to say. `deadline`
    are seconds that a batch may take. Raises UsageError if there is none of this name.
    """

    def __init__(
        self, name: str, target: str = DEFAULT_TARGET, *, deadline: float = DEADLINE
    ) -> None:
        check_named(name, ())
        self._name, self._target, self._closed = name, target, False
        self._way = _Command(name, deadline) if is_command(name) else _Function(name, deadline)

    def capabilities(self) -> Capabilities | Failure:
        """Say what it is; a Python function is loaded."""
        return self._way.started() or Capabilities(
            name=self._name,
            targets=frozenset({self._target}),
            description=f"{self._way.who} for {self._target}",
        )

    def compile(self, module: KernelModule) -> Compiled:
        """Take a module as it is: the text goes to the runner with each batch."""
        check_open(self._closed)
        return Compiled(
            module=module,
            architecture=self._target,
            compiler=self._way.who,
            key=hashlib.sha256(f"{self._name} {module.digest}".encode()).hexdigest(),
        )

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        """Run a batch; raises UsageError as the protocol says."""
        return Collected(outcome=self.run(compiled, images, entry=entry))

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        """Run a batch, in parts if it is large; raises UsageError as the protocol says."""
        check_open(self._closed)
        kernel = compiled.module.kernel(entry)
        check_images(kernel, images)
        if failure := self._way.started():
            return failure
        start = time.perf_counter()
        results = np.empty(images.shape, np.uint8)
        most = max(1, OUTPUT_LIMIT // kernel.image_bytes)
        for first in range(0, len(images), most):
            part = slice(first, first + most)
            with temporary_folder() as folder:
                found = self._part(folder, compiled.module.ptx, kernel, images[part])
            if isinstance(found, Failure):
                return found
            results[part] = found
        sms = np.full(len(images), NO_SM, np.uint32)
        results.flags.writeable = sms.flags.writeable = False
        return Ran(images=results, sms=sms, seconds=time.perf_counter() - start)

    def _part(self, folder: Path, ptx: str, kernel: Kernel, images: Images) -> Images | Failure:
        names = ("module.ptx", "images", "results", "launch.json")
        module, given, made, launch = (folder / name for name in names)
        try:
            module.write_text(ptx, encoding="utf-8")
            images.tofile(given)
            if kernel.launch is not None:
                launch.write_text(json.dumps(asdict(kernel.launch), default=bytes.hex))
        except OSError:
            return _no_space(folder)
        arguments = str(module), kernel.entry, len(images), str(given), str(made)
        failure = self._way.run(arguments, str(launch) if kernel.launch else None)
        if failure is not None:
            hidden = failure.trouble is not Trouble.UNSUPPORTED and is_full(folder)
            return _no_space(folder) if hidden else failure
        size = made.stat().st_size if made.is_file() else 0
        if size == images.size:
            return np.fromfile(made, np.uint8).reshape(images.shape)
        many = f"{len(images)} image{'s' * (len(images) != 1)} of {kernel.image_bytes}"
        what = f"gave back {size} bytes, and {images.size} are due: {many}"
        return self._way.failed(Trouble.CORRUPTED_REPLY, what)

    def close(self) -> None:
        """End the process."""
        self._closed = True
        self._way.close()


class _Command:
    """A program that is started for each batch."""

    def __init__(self, command: str, deadline: float) -> None:
        self._words, self._deadline = words_of(command), deadline
        self.who, self._errors = f"the command {quoted(command)}", ""

    def started(self) -> Failure | None:
        """Start what stays between batches, if that is not done: of a command nothing."""
        return None

    def run(self, arguments: tuple[Any, ...], launch: str | None) -> Failure | None:
        """Run a batch; None if results may be there."""
        words = [word.replace(_LAUNCH, launch or "") for word in self._words]
        if launch is not None and words == self._words:
            return self.failed(Trouble.UNSUPPORTED, f"takes no launch: it has no {_LAUNCH}")
        try:
            finished = run_tool([*words, *map(str, arguments)], deadline=self._deadline)
        except OSError as error:
            return self.failed(Trouble.UNAVAILABLE, f"cannot be run ({error}); check its path")
        self._errors = finished.errors
        if finished.overflowed:
            return self.failed(Trouble.CORRUPTED_REPLY, finished.ending)
        return self.ended(finished.status, self._deadline)

    def ended(self, status: int | None, seconds: float = 0.0) -> Failure | None:
        """Return what a status says that a process has ended with; None of success."""
        if status is None:
            return self.failed(Trouble.HANG, f"did not end within {seconds:g} s")
        if status == NOT_IMPLEMENTED:
            return self.failed(Trouble.UNSUPPORTED, "does not implement it")
        trouble = Trouble.CRASH if status < 0 else Trouble.LAUNCH_FAILURE
        return self.failed(trouble, describe_status(status)) if status else None

    def failed(self, trouble: Trouble, what: str) -> Failure:
        """Return a failure that quotes what was said on standard error."""
        return Failure(trouble=trouble, message=f"{self.who} {what}", detail=self._errors)

    def close(self) -> None:
        """End what stays between batches."""


class _Function(_Command):
    def __init__(self, name: str, deadline: float) -> None:
        self._name, self._deadline = name, deadline
        self.who, self._errors = f"the runner {name}", ""
        self._child: SupervisedChild | None = None

    def started(self) -> Failure | None:
        if self._child is not None:
            return None
        self._errors = ""
        try:
            self._child = SupervisedChild(
                helper("runners.foreign"), self._name,
                environment=helper_environment(), file_bytes=OUTPUT_LIMIT,
            )  # fmt: skip
        except OSError as error:
            return self.failed(Trouble.UNAVAILABLE, f"cannot be started ({error})")
        if self._answer(self._child, _LOADING_SECONDS) is None:
            return None
        last = (self._errors.strip().splitlines() or ["it says nothing"])[-1]
        return self.failed(Trouble.UNAVAILABLE, f"cannot be loaded: {last:.300}")

    def run(self, arguments: tuple[Any, ...], launch: str | None) -> Failure | None:
        assert self._child is not None
        # Of a failure only its own words are told.
        self._child.forget_log()
        self._child.send((*arguments, launch))
        return self._answer(self._child, self._deadline)

    def _answer(self, child: SupervisedChild, seconds: float) -> Failure | None:
        try:
            trouble, what = child.receive(deadline=time.monotonic() + seconds)
            self._errors = child.log()
            return None if trouble is None else self.failed(Trouble(trouble), what)
        except NoAnswerError as error:
            self._child, self._errors = None, error.log
            if error.trouble is Trouble.CRASH:
                # A function that ends the process with success has given nothing back.
                middle = self.failed(Trouble.CRASH, "ended its process in the middle")
                return self.ended(child.process.returncode) or middle
            late = error.trouble is Trouble.HANG
            return self.ended(None, seconds) if late else self.failed(error.trouble, error.how)
        except (ValueError, TypeError):
            # It found the way out and wrote there itself.
            self.close()
            return self.failed(Trouble.CORRUPTED_REPLY, "answered garbage")

    def close(self) -> None:
        if self._child is not None:
            self._errors = self._child.log()
            self._child.end()
            self._child = None


# Passes over PTX


def is_for_a_shell(command: str) -> bool:
    """Whether a command has more than words: pipes, redirections, several commands, variables."""
    return _FOR_A_SHELL.search(_QUOTED.sub("q", command)) is not None


class PtxPass:
    """A command that reads PTX from standard input and writes PTX to standard output.

    It is run by `sh -c` where `is_for_a_shell`, and may take `deadline` seconds. UsageError if
    it is empty or its quotes do not match.
    """

    def __init__(self, command: str, *, deadline: float = DEADLINE) -> None:
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
        """Return what the command makes of PTX, or a failure; a full disk is none of its own."""
        folder = Path(tempfile.gettempdir())
        try:
            finished = run_tool(self._words, deadline=self._deadline, given=ptx.encode())
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return _no_space(folder)
            return self._failure(f"cannot be run ({error}); check its path")
        if finished.failed:
            if is_full(folder):
                return _no_space(folder)
            return self._failure(finished.ending, finished.errors)
        try:
            return finished.output.decode()
        except UnicodeDecodeError as error:
            what = f"wrote something that is no text: byte {error.start + 1} is not UTF-8"
            return self._failure(what, finished.errors)

    def _failure(self, what: str, detail: str = "") -> Failure:
        message = f"the PTX pass {quoted(self._command)} {what}"
        return Failure(trouble=Trouble.COMPILE_FAILURE, message=message, detail=detail)


def _no_space(folder: Path) -> Failure:
    return Failure(trouble=Trouble.UNAVAILABLE, message=str(disk_full(folder)))


def passed_on(ptx: str, rewriters: Sequence[Rewriter]) -> str | Failure:
    """Return what rewriters, one after the other, make of PTX, or why there is none."""
    for rewriter in rewriters:
        changed = rewriter(ptx)
        if isinstance(changed, Failure):
            return changed
        ptx = changed
    return ptx


def rewritten(module: KernelModule, rewriters: Sequence[Rewriter]) -> KernelModule | Failure:
    """Return a module with other PTX, as `passed_on` does."""
    ptx = passed_on(module.ptx, rewriters)
    return ptx if isinstance(ptx, Failure) else replace(module, ptx=ptx)


class RewritingRunner(ForwardingRunner):
    """A runner, closed with this one, for which rewriters change the text of modules, in order."""

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


# The process of a Python function


def main() -> None:
    """Load the function that is named, and answer until there are no more requests.

    A request has a module's file, an entry, how many images there are, their file, that of the
    results, and that of a launch or None; an answer a trouble and half a sentence, or None.
    """
    line: Connection[Any, Any] = Connection(int(sys.argv[1]))
    function = installed()[sys.argv[2]].load()
    line.send((None, ""))
    with suppress(EOFError):
        while True:
            line.send(_answer(function, *line.recv()))


def _answer(
    function: Callable[..., Any], module: str, entry: str, count: int, images: str, results: str,
    launch: str | None,
) -> tuple[Trouble | None, str]:  # fmt: skip
    given = np.fromfile(images, np.uint8).reshape(count, -1)
    shape, more = given.shape, {}
    if launch is not None:
        if "launch" not in signature(function).parameters:
            return Trouble.UNSUPPORTED, "takes no launch: it has no parameter of that name"
        more["launch"] = json.loads(Path(launch).read_text(encoding="utf-8"))
    try:
        found = function(Path(module).read_text(encoding="utf-8"), entry, given, **more)
    except NotImplementedError as error:
        return Trouble.UNSUPPORTED, f"does not implement it: {error}".removesuffix(": ")
    except Exception as error:
        traceback.print_exc()
        words = f"{type(error).__name__}: {error}"
        return Trouble.LAUNCH_FAILURE, f"raised {words[:_SAID_CHARACTERS]}"
    finally:
        sys.stdout.flush()
    if found is NotImplemented:
        return Trouble.UNSUPPORTED, "does not implement it"
    is_array = isinstance(found, np.ndarray)
    if not is_array or found.dtype != np.uint8 or found.shape != shape:
        what = f"{found.dtype} of shape {found.shape}" if is_array else type(found).__name__
        return Trouble.CORRUPTED_REPLY, f"gave back {what}, and uint8 of shape {shape} is due"
    found.tofile(results)
    return None, ""


if __name__ == "__main__":
    main()
