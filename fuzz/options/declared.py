"""How commands and their options are declared, and the options that several commands have.

A command is a class: its words and the function that carries it out, its help, and a field for
each argument and option in the order of `--help`. An instance is what a person asked for. Options
that several commands have stand in `OPTIONS`; a command changes what is other for it. Nothing heavy
is imported here: `--help` reads all of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, dataclass_transform

import click

DEFAULT_CORPUS = Path("warpfuzz-corpus")


class Range(click.FloatRange):
    """Numbers of a range; "nan" and "inf" are none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number that a text means."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a number; give one such as 1.5.", param, ctx)
        return number


class PathName(click.Path):
    """Names of files and folders; an empty one is none, and not the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path that a text means."""
        if value == "":
            self.fail("it is empty; give the name of a file or folder, or '.'.", param, ctx)
        return super().convert(value, param, ctx)


def text(value: object) -> str:
    """Return a text; an empty one is what is left of a variable that is not set."""
    said = str(value)
    if not said:
        raise click.BadParameter("it is empty; give a value, or leave it out.")
    if said.encode(errors="ignore").decode() != said:
        raise click.BadParameter("it has bytes that are no text in UTF-8; leave them out.")
    return said


COUNT = click.IntRange(min=1)
SEED = click.IntRange(min=0, max=2**64 - 1)
_DEVICE = click.IntRange(min=0)
_PROCESSES = click.IntRange(1, 1024)
"""More than a machine has cores; a slip beyond it would fill the memory with processes first."""
_FOLDER = PathName(path_type=Path)


def any_runner(*built_in: str) -> dict[str, Any]:
    """Return how an option takes these runners, and those of somebody else's that are there."""

    def convert(value: object) -> str:
        name = text(value)
        if name not in built_in:
            from runners.foreign import check_named

            check_named(name, built_in)
        return name

    return {
        "type": convert,
        "metavar": f"[{'|'.join(built_in)}|NAME|COMMAND]",
        "shell_complete": lambda _context, _one, begin: [
            name for name in built_in if name.startswith(begin)
        ],
    }


class Declared:
    """An option or an argument of a command; the type of its field says the rest of it.

    Parameters
    ----------
    names
        As a person types it; by itself as the field is called.
    shown
        What `click.Option` or `click.Argument` takes of it.
    """

    def __init__(self, kind: type[click.Parameter], *names: str, **shown: Any) -> None:
        self.kind, self.names, self.shown = kind, names, shown
        self.is_option = kind is click.Option

    def parameter(self, name: str, annotation: str) -> click.Parameter:
        """Return the option or argument of a field of this name and type."""
        shown, is_option = dict(self.shown), self.is_option
        names = [*(self.names or (self.spelled(name),) if is_option else ()), name]
        if "type" not in shown and ("Path" in annotation or "str" in annotation):
            shown["type"] = _FOLDER if "Path" in annotation else text
        if annotation.startswith("tuple["):
            shown |= {"multiple": True} if is_option else {"nargs": -1}
        if annotation == "bool" and "default" not in shown:
            shown["is_flag"] = True
        default = shown.get("default")
        if is_option and default is not True and default not in (None, "*"):
            shown["show_default"] = True
        return self.kind(names, **shown)

    def default(self, annotation: str) -> Any:
        """Return the value of a field of this type where nobody gives one."""
        nothing = () if annotation.startswith("tuple[") else False if annotation == "bool" else None
        return self.shown.get("default", nothing)

    def spelled(self, name: str) -> str:
        """Return the option as a person types it."""
        # Of "--screen/--no-screen" the one that says yes.
        return self.names[0].partition("/")[0] if self.names else f"--{name.replace('_', '-')}"


def option(says: str, *names: str, **shown: Any) -> Any:
    """Declare an option of one command, with its help."""
    return Declared(click.Option, *names, help=says, **shown)


def argument(**shown: Any) -> Any:
    """Declare an argument."""
    return Declared(click.Argument, **shown)


def shared(name: str, says: str = "", *, names: tuple[str, ...] = (), **others: Any) -> Any:
    """Return an option of `OPTIONS`, with other names, help or default where some are given."""
    row = OPTIONS[name]
    others = {"help": says, **others} if says else others
    return Declared(click.Option, *(names or row.names), **{**row.shown, **others})


OPTIONS: Mapping[str, Declared] = {
    "corpus": option("Folder where findings are kept.", default=DEFAULT_CORPUS),
    "target": option("GPU architecture of the modules (.target), such as sm_90."),
    "ptx_version": option("PTX ISA version of the modules (.version), such as 8.0."),
    "drawn_version": option(
        "PTX ISA version (.version).  [default: one that knows the target]", "--ptx-version"
    ),
    "only": option(
        "Test only instruction forms whose opcode contains this text, such as 'ldmatrix'. With a "
        "*, ? or [ it is a pattern for the whole opcode: 'wmma.load.*f64', '*.b1.*'.",
        default="*",
    ),
    "runner": option(
        "Where programs run.  [default: where the finding was made]",
        type=click.Choice(["sim", "cuda"]),
    ),
    "any_runner": option(
        "Where programs run: also a runner of your own, by its name or as a command.  [default: "
        "where the finding was made]",
        "--runner",
        **any_runner("sim", "cuda"),
    ),
    "time": option(""),
    "seed": option("Seed of all random choices.", type=SEED, default=0),
    "workers": option("", type=_PROCESSES),
    "devices": option("Number of a GPU; repeat for several.  [default: all]", "--device",
                      type=_DEVICE),
    "device": option("Number of the GPU.", type=_DEVICE, default=0),
    "fleet": option(
        "Use all GPUs of a Ray cluster: `auto`, `ray://HOST:PORT`, or `local` for this machine.",
        metavar="ADDRESS",
    ),
    "gpus": option("Use at most this many GPUs of the --fleet; without GPUs, this many Ray actors.",
                   type=COUNT),
    "faults": option(
        "Plant this fault (`warpfuzz faults` lists them), to see whether it is found; repeat for "
        "several.",
        "--fault",
    ),
    "ptx_pass": option(
        "Shell command that rewrites every PTX module, from standard input to standard output."
    ),
    "again_faults": option(
        "Plant this fault, or with 'none' no fault; repeat for several.  [default: those with "
        "which the finding was made]",
        "--fault",
    ),
    "again_ptx_pass": option(
        "Shell command that rewrites every PTX module, or 'none'.  [default: the one with which "
        "the finding was made, if --trust is given]",
        "--ptx-pass",
    ),
    "again_front_end": option(
        "Compiler that writes the PTX; with 'none' warpfuzz writes it.  [default: the one with "
        "which the finding was made; a command or a path only if --trust is given]",
        "--front-end",
    ),
    "trust": option("Allow running the commands and programs that findings name."),
    "assembler": option("Path or version of a ptxas.  [default: the driver's compiler]"),
    "assemblers": option("", "--assembler"),
    "level": option("ptxas -O level, 0 to 3, of the code that runs on the GPU.", "--opt",
                    type=click.IntRange(0, 3)),
    "levels": option("", "--opt"),
    "compilers": option(""),
    "variants": option("", "--variant", metavar="NAME=VALUE,..."),
    "variant": option(
        "Options of ptxas, written as for `run --variant`, or 'none'.  [default: those with which "
        "the finding was made]"
    ),
    "model": option(
        "File with the arithmetic of the GPU, written by `warpfuzz measure` or `models export` "
        "(TOML or JSON).  [default: the built-in figures of the target]"
    ),
    "disassembler": option(
        "Path of an nvdisasm, to show changed machine code.  [default: the one installed]"
    ),
    "at_least": option(
        "Exit with 3 if fewer than N results were compared, or of assemblers judged.  [default: 1]",
        type=COUNT,
    ),
    "known": option("TOML file of known findings, added to those that ship with warpfuzz."),
    "no_known": option("Count every finding as new, whatever is known."),
    "times": option("Run each case this many times.", type=COUNT),
    "images": option("", type=COUNT),
    "output": option(""),
    "launch": option(
        "TOML file: entry, grid, block, arguments, buffers.  [default: guessed from the text]"
    ),
    "junit": option("Also write JUnit XML: one test for each finding."),
    "report": option("Also write the final report, as .svg or .html."),
    "metrics": option("Serve counts and rates at this address, for Prometheus.",
                      metavar="[HOST:]PORT"),
}  # fmt: skip
"""Options that several commands have."""
PROGRAMS = {
    *("runner", "ptx_pass", "front_end", "front_ends"),
    *("assembler", "assemblers", "compilers", "old", "new"),
}
"""Options and arguments that may name a program: who types one gives his word for it."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Options:
    """What a person asked of a command: a value for each of its options, which stays as it is.

    `given` are names of those that were typed; others have their defaults.
    """

    words: ClassVar[str]
    """The command, without `warpfuzz`."""
    headings: ClassVar[Mapping[str, str]] = {}
    """What stands above which options in `--help`."""
    runs: ClassVar[str]
    """Module of `fuzz.commands` and function; the function tells whether it found something."""
    given: frozenset[str] = frozenset()
    json: bool = option("Print JSON objects, one per line, and nothing else.")

    def __init_subclass__(cls, *, words: str, runs: str) -> None:
        cls.words, cls.runs = words, runs

    def __init__(self, **values: Any) -> None:
        vars(self).update(
            {name: one.default(its_type) for name, one, its_type in self.declared()} | values
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of {self.words} cannot change")

    @classmethod
    def declared(cls) -> list[tuple[str, Declared, str]]:
        """Return the name, the declaration and the type of each argument and option, in order."""
        types = {**vars(cls).get("__annotations__", {}), "json": "bool"}
        found = ((name, getattr(cls, name, None)) for name in types)
        return [(name, one, types[name]) for name, one in found if isinstance(one, Declared)]

    def but(self, **changes: Any) -> Self:
        """Return the same with other values."""
        return type(self)(**{**vars(self), **changes})

    def picked(self, *names: str) -> dict[str, Any]:
        """Return the values of these options."""
        return {name: getattr(self, name) for name in names}

    def named_programs(self) -> list[str]:
        """Return the values that were typed of options that may name a program."""
        found: list[object] = []
        for name in PROGRAMS & self.given:
            value = getattr(self, name)
            several = str(value).split(",") if name == "compilers" else value
            found += several if isinstance(several, list | tuple) else (several,)
        # `--new` of `run` is another thing than NEW of `gate`.
        return [one for one in found if isinstance(one, str)]

    @classmethod
    def spelled(cls, name: str) -> str:
        """Return an option as a person types it."""
        return next(one.spelled(own) for own, one, _ in cls.declared() if own == name)

    def is_set(self, name: str) -> bool:
        """Whether an option was typed, or has another value than by itself."""
        default = next(one.default(type_) for own, one, type_ in self.declared() if own == name)
        return name in self.given or getattr(self, name) != default
