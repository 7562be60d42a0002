"""How commands and their options are declared, which several commands have, which contradict.

A command is a class: its words and the function that carries it out, its help, and a field for
each argument and option in the order of `--help`. An instance is what a person asked for. Options
that several commands have stand in `OPTIONS`; a command changes what is other for it. Nothing heavy
is imported here: `--help` reads all of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, dataclass_transform

import click

from oracle.errors import UsageError
from oracle.isa.targets import DEFAULT_TARGET

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


_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MOST_SECONDS = 1e12  # above a million weeks; longer times overflow what the system waits for


def parse_duration(text: str) -> float:
    """Return the seconds that a text such as "90", "10m", "1.5h" or "2w" means.

    Raises UsageError if it means no duration above zero.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip())
    if match is None or float(match[1]) == 0:
        said = 'write seconds, or a number with s, m, h, d or w, such as "60", "10m" or "2w"'
        raise UsageError(f"{text!r} is not a duration; {said}")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > _MOST_SECONDS:
        raise UsageError(f"{text!r} is longer than can be waited for; ask for 1000000w at most")
    return seconds


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


def any_runner(*built_in: str) -> dict[str, Any]:
    """Return how an option takes these runners, and those of somebody else's that are there."""

    def convert(value: object) -> str:
        name = text(value)
        if name not in built_in:
            from runners.foreign import check_named

            check_named(name, built_in)
        return name

    return {"type": convert, "metavar": f"[{'|'.join(built_in)}|NAME|COMMAND]"}


COUNT = click.IntRange(min=1)
SEED = click.IntRange(min=0, max=2**64 - 1)
_DEVICE = click.IntRange(min=0)
_PROCESSES = click.IntRange(1, 1024)
"""More than a machine has cores; a slip beyond it would fill the memory with processes first."""
_FOLDER = PathName(path_type=Path)


class Declared:
    """An option or an argument of a command; the name and type of its field say the rest of it.

    Parameters
    ----------
    names
        As a person types it; by itself as the field is called.
    shown
        What `click.Option` or `click.Argument` takes of it.
    """

    name = annotation = ""

    def __init__(self, kind: type[click.Parameter], *names: str, **shown: Any) -> None:
        self.kind, self.names, self.shown = kind, names, shown
        self.is_option = kind is click.Option

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.annotation = name, owner.__annotations__[name]

    @property
    def parameter(self) -> click.Parameter:
        """The option or argument for click."""
        shown, is_option = dict(self.shown), self.is_option
        names = [*(self.names or (self.spelled,) if is_option else ()), self.name]
        if "type" not in shown and ("Path" in self.annotation or "str" in self.annotation):
            shown["type"] = _FOLDER if "Path" in self.annotation else text
        if self.annotation.startswith("tuple["):
            shown |= {"multiple": True} if is_option else {"nargs": -1}
        default = shown.get("default")
        if self.annotation == "bool" and "default" not in shown:
            shown["is_flag"] = True
        if is_option and default is not True and default not in (None, "*"):
            shown["show_default"] = True
        return self.kind(names, **shown)

    @property
    def default(self) -> Any:
        """The value where nobody gives one."""
        of_type = {"tuple": (), "bool": False}.get(self.annotation.partition("[")[0])
        return self.shown.get("default", of_type)

    @property
    def spelled(self) -> str:
        """The option as a person types it; of "--this/--no-this" the one that says yes."""
        return (self.names or (f"--{self.name.replace('_', '-')}",))[0].partition("/")[0]


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
    "chosen_version": option(
        "PTX ISA version (.version).  [default: what the target and the compiler have, or the "
        "module or the finding says]", "--ptx-version",
    ),
    "chosen_target": option(
        "GPU architecture (.target).  [default: what the device, the module or the finding has, "
        f"else {DEFAULT_TARGET}]", "--target",
    ),
    "only": option(
        "Test only instruction forms whose opcode contains this text, such as 'ldmatrix'. With a "
        "*, ? or [ it is a pattern for the whole opcode: 'wmma.load.*f64', '*.b1.*'.",
        default="*",
    ),
    "runner": option("Where programs run.  [default: where the finding was made]",
                     type=click.Choice(["sim", "cuda"])),
    "any_runner": option(
        "Where programs run: also a runner of your own, by its name or as a command.  [default: "
        "where the finding was made]",
        "--runner", **any_runner("sim", "cuda"),
    ),
    "time": option(""),
    "seed": option("Seed of all random choices.", type=SEED, default=0),
    "workers": option("", type=_PROCESSES),
    "devices": option("Number of a GPU; repeat for several.  [default: all]", "--device",
                      type=_DEVICE),
    "device": option("Number of the GPU.", type=_DEVICE, default=0),
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
    "levels": option("-O levels: 0,1,2,3.  [default: all]", "--opt"),
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
        vars(self).update({one.name: one.default for one in self.declared()} | values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of {self.words} cannot change")

    @classmethod
    def declared(cls) -> list[Declared]:
        """Return each argument and option, in order; `--json` is the last."""
        fields = (*vars(cls).values(), vars(Options)["json"])
        return [one for one in fields if isinstance(one, Declared)]

    @classmethod
    def named(cls, name: str) -> Declared:
        """Return the argument or option of a name."""
        return next(one for one in cls.declared() if one.name == name)

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
        return cls.named(name).spelled

    def is_set(self, name: str) -> bool:
        """Whether an option was typed, or has another value than by itself."""
        return name in self.given or getattr(self, name) != self.named(name).default


# What contradicts each other

_RUNS_NONE = "is about programs that run, and --runner ptxas runs none; choose --runner sim or cuda"
_NO_GPU = "{value} names a GPU, and the runner is {o.runner}; leave it out, or choose --runner cuda"
_NO_FLEET = "{value} is of a --fleet, and there is none; leave it out, or name one"
_OF_MATRIX = "and --compilers compares compilers on the same program; leave one of the two out"
_OF_ANOTHER = "is of another way to say what the smaller module shows; leave one of the two out"
CONFLICTS: Mapping[str, tuple[tuple[str, Callable[[Any], object], str], ...]] = {
    "run": (
        ("new", lambda o: o.resume,
         "begins a campaign, and --resume goes on with one; leave one of the two out"),
        ("variants", lambda o: o.compilers is None,
         "{value} is of compilers that are compared; say with --compilers which (of one compiler, "
         "--assembler 13.5+maxrregcount=32 names the options)"),
        ("gpus repeat", lambda o: o.fleet is None, _NO_FLEET),
    ),
    # When the runner is known, and what a resumed campaign was begun with.
    "campaign": (
        ("assemblers", lambda o: o.matrix, f"names a compiler, {_OF_MATRIX}"),
        ("faults ptx_pass", lambda o: o.matrix,
         f"changes what every compiler gets or writes, {_OF_MATRIX}"),
        ("front_ends", lambda o: o.compilers is not None, f"names what writes PTX, {_OF_MATRIX}"),
        ("include_undefined", lambda o: o.matrix,
         f"runs programs whose results nobody promises, {_OF_MATRIX}"),
        ("front_ends", lambda o: o.runner == "ptxas", _RUNS_NONE),
        ("faults ptx_pass levels", lambda o: not o.matrix and o.runner == "ptxas", _RUNS_NONE),
        ("device_reference", lambda o: o.device_reference and (o.matrix or o.runner == "ptxas"),
         "is of one compiler's programs that run; leave it out, or choose --runner cuda or sim, "
         "without --compilers"),
        ("model include_undefined", lambda o: o.runner == "ptxas", _RUNS_NONE),
        ("assemblers", lambda o: o.runner != "ptxas" and len(o.assemblers) > 1,
         "is given {count} times, and --runner {o.runner} compiles with one; run a campaign for "
         "each"),
        ("devices", lambda o: o.fleet is not None,
         "{value} names a GPU of this machine, and --fleet takes all that the cluster has; leave "
         "one of the two out"),
        ("devices", lambda o: o.runner != "cuda", _NO_GPU),
        ("devices", lambda o: o.matrix and len(o.devices) > 1,
         "names {count} GPUs, and compilers are compared on one and the same; name one"),
    ),
    "module of replay": (
        ("baseline junit known at_least runner target level faults ptx_pass variant",
         lambda o: True,
         "is for findings, and {o.path} is a module by itself, which is only given to ptxas; leave "
         "it out, or make a case of it (`warpfuzz corpus import FOLDER`)"),
    ),
    "bench": (
        ("images", lambda o: not o.lines,
         "is how many a campaign of --lines has; add --lines, or leave it"),
        ("seeds limit baseline_limit contents", lambda o: o.lines,
         "means nothing for --lines, which runs one campaign for each fault; leave one of the two "
         "out"),
    ),
    "conform": (
        ("update_expectations", lambda o: o.expectations is None,
         "changes the file of --expectations; name one"),
        ("assembler level", lambda o: o.runner != "cuda",
         "compiles what a GPU runs; leave it out, or give the runner `cuda`"),
    ),
    "measure": (
        ("assembler", lambda o: o.compilers is not None,
         "{value} names one compiler and --compilers {o.compilers} several; leave one of the two "
         "out"),
    ),
    "reduce": (
        ("compiler level", lambda o: o.command, _OF_ANOTHER),
        ("memory", lambda o: o.differs, _OF_ANOTHER),
        ("launch runner ptx_pass faults device", lambda o: not o.differs, _OF_ANOTHER),
    ),
    "screen": (
        ("devices", lambda o: o.runner != "cuda", _NO_GPU),
        ("only", lambda o: o.path is not None or o.preflight,
         "chooses of which forms a set is made; leave it out, or leave out SET and --preflight"),
        ("fresh", lambda o: o.preflight or o.pattern != "steady",
         "makes images on the device, as many as it can; leave it out, or leave out --preflight "
         "and --pattern"),
    ),
}  # fmt: skip
"""By command: options, where they contradict others, and what is said then of the first of them
that was given: {value} is its value (the first of several, of which there are {count}), and {o} are
all options."""


def check_conflicts(options: Options, command: str) -> None:
    """Raise UsageError for the first row of `CONFLICTS` whose options were given where it holds."""
    for names, holds, sentence in CONFLICTS[command]:
        for name in names.split():
            if options.is_set(name) and holds(options):
                value = getattr(options, name)
                several = value if isinstance(value, tuple) else (value,)
                said = sentence.format(value=several[0], count=len(several), o=options)
                raise UsageError(f"{options.spelled(name)} {said}")
