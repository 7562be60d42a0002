"""The command `warpfuzz`: its commands and exit codes.

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
from typing import Any, TextIO, get_type_hints

import click
from click.core import ParameterSource

from fuzz.options.declared import PROGRAMS, Options, PathName
from fuzz.options.operating import COMMANDS
from oracle.errors import DeviceLostError, UsageError, WarpfuzzError


class Exit(IntEnum):
    """Exit codes of every command."""

    CLEAN = 0
    FINDINGS = 1
    USAGE = 2
    INFRASTRUCTURE = 3
    DEVICE_LOST = 4


_COMPLETION = "_WARPFUZZ_COMPLETE"
"""Set by shells that complete a line (click, "Shell Completion"): `bash_source`, ..."""
_INTERRUPTED = 128 + signal.SIGINT
"""Exit code of a command that SIGINT ends, as shells tell it."""
_OUTPUTS = {"junit", "report", "tap"}
"""Options that name a file which is written at the end: what cannot be one is said before."""
_PIPE_CLOSED = 128 + signal.SIGPIPE
"""Exit code where nobody reads the output any more: what a shell shows of other programs."""


def _version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    """Print the version; not by click, which fails where the package has no metadata."""
    if asked:
        from fuzz import warpfuzz_version

        click.echo(f"warpfuzz, version {warpfuzz_version()}")
        context.exit()


class _ClickGroup(click.Group):
    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them in the order of `HEADINGS`, those of a group in one list."""
        headings = HEADINGS if self is app else {"Commands": " ".join(sorted(self.commands))}
        for heading, names in headings.items():
            texts = ((name, self.commands[name].help or "") for name in names.split())
            rows = [(name, text.partition("\n\n")[0].replace("\n", " ")) for name, text in texts]
            with formatter.section(heading):
                formatter.write_dl(rows)


class _ClickCommand(click.Command):
    def __init__(self, kind: type[Options], **others: Any) -> None:
        self.kind = kind
        super().__init__(kind.words.split()[-1], **others)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings of the command; the others at the end."""
        left = {
            one.name: record
            for one in self.get_params(context)
            if isinstance(one, click.Option) and (record := one.get_help_record(context))
        }
        for heading, names in self.kind.headings.items():
            with formatter.section(heading):
                formatter.write_dl([left.pop(name) for name in names.split()])
        with formatter.section("More" if self.kind.headings else "Options"):
            formatter.write_dl(list(left.values()))


def _configure(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """Take the options that are not typed from the command's table of a TOML file."""
    if path is None or not isinstance(context.command, _ClickCommand):
        return
    import msgspec

    from oracle.given_files import parse_toml, read_named

    table = parse_toml(read_named(path, "configuration"), str(path))
    kind = context.command.kind
    where = "tool.warpfuzz." if path.name == "pyproject.toml" else ""
    head = f"{where}{kind.words}".replace(" ", ".")
    for word in head.split("."):
        table = table.get(word, {})
        if not isinstance(table, dict):
            raise UsageError(f"{word} of {path} is a value; write a table of options, [{head}]")
    known = {one.spelled[2:]: one.name for one in kind.declared() if one.is_option}
    # As TOML writes them; click makes of a text what an option takes.
    types = get_type_hints(kind, localns={"Path": str, "datetime": str, "str": str | float})
    for name, value in table.items():
        if name not in known:
            raise UsageError(
                f"{name!r} of {path} is no option of {kind.words}; there are {', '.join(known)}"
            )
        try:
            msgspec.convert(value, types[known[name]])
        except msgspec.ValidationError as error:
            raise UsageError(f"{name} of {path} is {value!r:.80}: {error}") from None
    context.default_map = {known[name]: value for name, value in table.items()}


app = _ClickGroup(
    "warpfuzz",
    help="Differential fuzzer for the warp-level matrix instructions of PTX.",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 clean, 1 findings, 2 usage, 3 the infrastructure failed and nothing "
    "can be said, 4 device lost, 130 interrupted.",
    params=[
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version,
            help="Show the version and exit.",
        )
    ],
)  # fmt: skip
HEADINGS = {
    "Test": "run judge conform gate bench",
    "Findings": "replay bisect reduce repro corpus status",
    "GPUs": "measure screen distill",
    "Reference": "explain legal isa models faults compilers doctor",
}
"""Commands of `warpfuzz --help`, by what they are for."""
_GROUPS = {
    "compilers": "List and fetch the assemblers and front ends that warpfuzz can use.",
    "corpus": "List, show, merge, prune, compare, export and import findings.",
    "models": "List, show and export how each GPU architecture computes.",
}


def _command(kind: type[Options]) -> click.Command:
    def run(**values: object) -> Exit:
        context = click.get_current_context()
        default = ParameterSource.DEFAULT
        given = {name for name in values if context.get_parameter_source(name) != default}
        for name in _OUTPUTS & given:
            from fuzz.output import check_output

            check_output(f"--{name}", Path(str(values[name])))
        options = kind(given=frozenset(given), **values)
        if given & PROGRAMS:
            from fuzz.findings.case import remember

            remember(*options.named_programs())
        module, _, function = kind.runs.partition(":")
        found = getattr(import_module(f"fuzz.commands.{module}"), function)(options)
        return Exit.FINDINGS if found else Exit.CLEAN

    config = click.Option(
        ["--config"], type=PathName(path_type=Path), is_eager=True, expose_value=False,
        callback=_configure,
        help="TOML file with options, in a table for each command ([run], time = '2h'; in a "
        "pyproject.toml [tool.warpfuzz.run]). Options on the command line take precedence.",
    )  # fmt: skip
    return _ClickCommand(
        kind,
        callback=run,
        params=[*(one.parameter for one in kind.declared()), config],
        help=cleandoc(kind.__doc__ or ""),
    )


for _name, _help in _GROUPS.items():
    app.add_command(_ClickGroup(_name, help=_help))
for _kind in COMMANDS:
    _group = app.commands.get(_kind.words.split()[0], app)
    (_group if isinstance(_group, click.Group) else app).add_command(_command(_kind))


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
    def terminate(number: int, frame: FrameType | None) -> None:
        # As on SIGINT: processes, GPUs and files that a command holds are let go.
        raise SystemExit(_failed("stopped", 128 + number))

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, terminate)
    # A stream that the caller closed takes what is written to it, as it does from `print`.
    sys.stdout, sys.stderr = (
        stream or os.fdopen(_nowhere(), "w") for stream in (sys.stdout, sys.stderr)
    )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What the terminal's encoding lacks is shown as an escape, and is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    code = _exit_code(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python would try once more in the end, and say so in words of its own.
        _close(sys.stdout)
        if isinstance(error, BrokenPipeError):
            return _PIPE_CLOSED
        if code in (Exit.CLEAN, Exit.FINDINGS):
            return _failed(_sentence(error))
    return code


def _exit_code(arguments: list[str] | None) -> int:
    try:
        if (asked := os.environ.get(_COMPLETION)) is not None:
            from click.shell_completion import shell_complete

            failed = shell_complete(app, {}, "warpfuzz", _COMPLETION, asked)
            return Exit.USAGE if failed else Exit.CLEAN
        words = list(sys.argv[1:] if arguments is None else arguments)
        # Not `app()`, which would end with 1, findings, where a pipe is closed.
        with app.make_context("warpfuzz", words) as context:
            return int(app.invoke(context) or Exit.CLEAN)
    except click.exceptions.Exit as ended:  # after --help and --version
        return ended.exit_code
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        _complain(said.getvalue().removesuffix("\n"))
        return Exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        return _failed("stopped", _INTERRUPTED)
    except WarpfuzzError as error:
        codes = {UsageError: Exit.USAGE, DeviceLostError: Exit.DEVICE_LOST}
        own = (code for kind, code in codes.items() if isinstance(error, kind))
        return _failed(error, next(own, Exit.INFRASTRUCTURE))
    except BrokenPipeError:
        # Who read the output has enough, as `head` does: no error, and nothing to be said.
        return _PIPE_CLOSED
    except OSError as error:
        return _failed(_sentence(error))
    except Exception as error:
        # Where memory ends, Python's import and the system's loader say so in words of their own.
        unmapped = isinstance(error, ImportError) and "failed to map" in str(error)
        if unmapped or isinstance(error, MemoryError | SystemError):
            return _failed("more memory is needed than there is; end other programs, or ask less")
        # Python would end with 1, which says that something was found.
        where = traceback.extract_tb(error.__traceback__)[-1]
        return _failed(
            f"internal error: {type(error).__name__}: {error!s:.300} ({Path(where.filename).name}, "
            f"line {where.lineno}); this is a fault of warpfuzz, so please report it with the "
            "command"
        )


def _sentence(error: OSError) -> str:
    what = f"{error.filename} cannot be used" if error.filename else "output cannot be written"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{what}: no space is left on the disk; free some, or choose another place"
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{what}: {reason}; mend that, and try again"


def _failed(said: object, code: int = Exit.INFRASTRUCTURE) -> int:
    """Say why a command came to nothing; return its exit code."""
    _complain(f"warpfuzz: {said}")
    return code


def _complain(text: str) -> None:
    """Write to standard error; where it takes nothing, the exit code alone tells what was."""
    try:
        # Imported late, because it takes Rich with it.
        from fuzz.output import harmless

        text = harmless(text)
    except Exception:
        # What is to be said may be that there is no memory for that.
        text = ascii(text)[1:-1]
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        # Python would try once more in the end, and end with a code of its own.
        _close(sys.stderr)


def _close(stream: TextIO) -> None:
    """Have what is left of a stream, and what is written to it from now on, go nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(_nowhere(), stream.fileno())


def _nowhere() -> int:
    return os.open(os.devnull, os.O_WRONLY)
