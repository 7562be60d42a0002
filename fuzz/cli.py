"""The command `warpfuzz`: what a person can type, and which exit code says what.

Nothing heavy is imported here; each command imports its part when it runs.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import traceback
from contextlib import suppress
from enum import IntEnum
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from types import FrameType
from typing import TextIO

import click
from click.core import ParameterSource

from fuzz.options import COMMANDS, Options
from oracle.errors import DeviceLostError, UsageError, WarpfuzzError


class Exit(IntEnum):
    """Exit codes of every command."""

    CLEAN = 0
    FINDINGS = 1
    USAGE = 2
    INFRASTRUCTURE = 3
    DEVICE_LOST = 4


_INTERRUPTED = 128 + signal.SIGINT
"""Exit code of a command that SIGINT ends, as shells tell it."""
_PIPE_CLOSED = 128 + signal.SIGPIPE
"""Exit code where nobody reads the output any more: what a shell shows of other programs."""


def _version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    """Print the version; not by click, which fails where the package has no metadata."""
    if asked:
        from fuzz import warpfuzz_version

        click.echo(f"warpfuzz, version {warpfuzz_version()}")
        context.exit()


app = click.Group(
    "warpfuzz",
    help="Differential fuzzer for the warp-level matrix instructions of PTX.",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 clean, 1 findings, 2 usage, 3 the infrastructure failed, 4 device lost.",
    params=[
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version,
            help="Show the version and exit.",
        )
    ],
)  # fmt: skip
_GROUPS = {
    "compilers": click.Group(
        "compilers", help="List and fetch the assemblers and front ends that warpfuzz can use."
    ),
    "corpus": click.Group(
        "corpus", help="List, show, merge, prune, compare, export and import findings."
    ),
}


def _command(kind: type[Options]) -> click.Command:
    def run(**values: object) -> Exit:
        context = click.get_current_context()
        default = ParameterSource.DEFAULT
        given = {name for name in values if context.get_parameter_source(name) != default}
        options = kind(given=frozenset(given), **values)
        module, _, function = options.carried_out_by().partition(":")
        found = getattr(import_module(module), function)(options)
        return Exit.FINDINGS if found else Exit.CLEAN

    return click.Command(
        kind.words.split()[-1],
        callback=run,
        params=[one.parameter(name, its_type) for name, one, its_type in kind.declared()],
        help=cleandoc(kind.__doc__ or ""),
    )


for _kind in COMMANDS:
    _GROUPS.get(_kind.words.split()[0], app).add_command(_command(_kind))
for _group in _GROUPS.values():
    app.add_command(_group)


def main(arguments: list[str] | None = None) -> None:
    """Run the command; the entry point of the console script."""
    try:
        code = _run(arguments)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # What is left is Python's own end, which shows a traceback of any exception.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    except KeyboardInterrupt:
        # While something was said: what is imported for that takes a tenth of a second.
        code = _INTERRUPTED
    sys.exit(code)


def _run(arguments: list[str] | None) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)
    # A stream that the caller closed takes what is written to it, as it does from `print`.
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What the terminal's encoding lacks is shown as an escape, and is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    return _flushed(_exit_code(arguments))


def _flushed(code: int) -> int:
    """Write what is left of the output; return the exit code, another one if that fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python would try once more in the end, and say so in words of its own.
        _close(sys.stdout)
        if isinstance(error, BrokenPipeError):
            return _PIPE_CLOSED
        if code in (Exit.CLEAN, Exit.FINDINGS):
            _say(_sentence(error))
            return Exit.INFRASTRUCTURE
    return code


def _say(text: str, name: str = "warpfuzz: ") -> None:
    # Imported late, because it takes Rich with it.
    from fuzz.output import harmless

    _complain(f"{name}{harmless(text)}")


def _complain(text: str) -> None:
    """Write to standard error; where it takes nothing, the exit code alone tells what was."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        # Python would try once more in the end, and end with a code of its own.
        _close(sys.stderr)


def _close(stream: TextIO) -> None:
    """Have what is left of a stream, and what is written to it from now on, go nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _terminate(number: int, frame: FrameType | None) -> None:
    """End as on SIGINT: processes, GPUs and files that a command holds are let go."""
    _complain("warpfuzz: stopped")
    raise SystemExit(128 + number)


def _exit_code(arguments: list[str] | None) -> int:
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        # Not `app()`, which would end with 1, findings, where a pipe is closed.
        with app.make_context("warpfuzz", words) as context:
            return int(app.invoke(context) or Exit.CLEAN)
    except click.exceptions.Exit as ended:  # after --help and --version
        return ended.exit_code
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        _say(said.getvalue().removesuffix("\n"), name="")
        return Exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        _complain("warpfuzz: stopped")
        return _INTERRUPTED
    except UsageError as error:
        _say(str(error))
        return Exit.USAGE
    except DeviceLostError as error:
        _say(str(error))
        return Exit.DEVICE_LOST
    except WarpfuzzError as error:
        _say(str(error))
        return Exit.INFRASTRUCTURE
    except BrokenPipeError:
        # Who read the output has enough, as `head` does: no error, and nothing to be said.
        return _PIPE_CLOSED
    except OSError as error:
        _say(_sentence(error))
        return Exit.INFRASTRUCTURE
    except MemoryError:
        _say("more memory is needed than there is; end other programs, or ask for less")
        return Exit.INFRASTRUCTURE
    except Exception as error:
        # Python would end with 1, which says that something was found.
        where = traceback.extract_tb(error.__traceback__)[-1]
        _say(
            f"internal error: {type(error).__name__}: {error!s:.300} ({Path(where.filename).name}, "
            f"line {where.lineno}); this is a fault of warpfuzz, so please report it with the "
            "command"
        )
        return Exit.INFRASTRUCTURE


def _sentence(error: OSError) -> str:
    """Say what failed and what to do, where nobody who knew more did."""
    what = f"{error.filename} cannot be used" if error.filename else "output cannot be written"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{what}: no space is left on the disk; free some, or choose another place"
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{what}: {reason}; mend that, and try again"
