"""The options of every command, each declared once, and which of them contradict each other.

A command is a class: its words and the function that carries it out, its help, and a field for
each argument and option in the order of `--help`. An instance is what a person asked for. Options
that several commands have stand in `OPTIONS`; a command changes what is other for it. Nothing heavy
is imported here: `--help` reads all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Self, dataclass_transform

import click

from oracle.errors import UsageError
from oracle.targets import DEFAULT_TARGET, DEFAULT_VERSION
from runners.variants import SETTINGS

DEFAULT_CORPUS = Path("warpfuzz-corpus")


class _Range(click.FloatRange):
    """Numbers of a range; "nan" and "inf" are none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
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


class _Text(click.types.StringParamType):
    """Texts; an empty one is what is left of a variable that is not set."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; give a value, or leave it out.", param, ctx)
        if isinstance(value, str) and not value.isprintable() and not _is_text(value):
            self.fail("it has bytes that are no text in UTF-8; leave them out.", param, ctx)
        return super().convert(value, param, ctx)


def _is_text(value: str) -> bool:
    return value.encode(errors="ignore").decode() == value


_COUNT = click.IntRange(min=1)
_SEED = click.IntRange(min=0, max=2**64 - 1)
_LEVEL = click.IntRange(0, 3)
_DEVICE = click.IntRange(min=0)
_MOST_IMAGES = 65_536
"""Most images of a form of `conform`, which are in memory at once: 8 KiB each come to half a
GiB."""
_PROCESSES = click.IntRange(1, 1024)
"""More than a machine has cores; a slip beyond it would fill the memory with processes first."""
_FOLDER = PathName(path_type=Path)
_HARDWARE = click.Choice(["sim", "cuda"])


def _any_runner(*built_in: str) -> dict[str, Any]:
    """Return how an option takes these runners, and those of somebody else's that are there."""

    def convert(value: str) -> str:
        if (value := _Text().convert(value, None, None)) not in built_in:
            from runners.foreign import check_named

            check_named(value, built_in)
        return value

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
            shown["type"] = _FOLDER if "Path" in annotation else _Text()
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
    "runner": option("Where programs run.  [default: where the finding was made]", type=_HARDWARE),
    "any_runner": option(
        "Where programs run: also a runner of your own, by its name or as a command.  [default: "
        "where the finding was made]",
        "--runner",
        **_any_runner("sim", "cuda"),
    ),
    "time": option(""),
    "seed": option("Seed of all random choices.", type=_SEED, default=0),
    "workers": option("", type=_PROCESSES),
    "devices": option(
        "Number of a GPU; repeat for several.  [default: all]",
        "--device",
        type=_DEVICE,
    ),
    "device": option("Number of the GPU.", type=_DEVICE, default=0),
    "fleet": option(
        "Use all GPUs of a Ray cluster: `auto`, `ray://HOST:PORT`, or `local` for this "
        "machine alone.",
        metavar="ADDRESS",
    ),
    "gpus": option(
        "Use at most this many GPUs of the --fleet; of one without GPUs, this many Ray actors.",
        type=_COUNT,
    ),
    "faults": option(
        "Plant this fault, to see whether it is found; `warpfuzz faults` lists them. Repeat for "
        "several.",
        "--fault",
    ),
    "ptx_pass": option(
        "Shell command that rewrites every PTX module: it reads PTX from standard input and writes "
        "PTX to standard output."
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
    "level": option(
        "ptxas -O level, 0 to 3, of the code that runs on the GPU.", "--opt", type=_LEVEL
    ),
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
        type=_COUNT,
    ),
    "known": option("TOML file of known findings, added to those that ship with warpfuzz."),
    "no_known": option("Count every finding as new, whatever is known."),
    "times": option("Run each case this many times.", type=_COUNT),
    "images": option("", type=_COUNT),
    "output": option(""),
    "launch": option(
        "TOML file: entry, grid, block, arguments, buffers.  [default: guessed from the text]"
    ),
    "junit": option("Also write JUnit XML: one test for each finding."),
    "report": option("Also write the final report, as .svg or .html."),
    "metrics": option(
        "Serve counts and rates at this address, for Prometheus.", metavar="[HOST:]PORT"
    ),
}
"""Options that several commands have."""
PROGRAMS = {
    *("runner", "ptx_pass", "front_end", "front_ends"),
    *("assembler", "assemblers", "compilers", "old", "new"),
}
"""Options and arguments that may name a program: who types one gives his word for it."""
COMMANDS: list[type[Options]] = []
"""In the order in which they are declared."""


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
        COMMANDS.append(cls)

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


DEVICE_REFERENCE = True
"""Whether campaigns on a GPU compare with the reference there unless they are told: on an H200, 55
programs a second ran with it from the 10th second on (2026-11-24), 36 without (2026-11-23)."""


class Run(Options, words="run", runs="run:run_campaign"):
    """Run a campaign: draw programs, run them, compare every byte, shrink and store findings."""

    headings: ClassVar[Mapping[str, str]] = {
        "What is tested": "runner target ptx_version only include_undefined assemblers compilers "
        "variants levels front_ends ptx_pass faults model",
        "Which cases, and how long": "time cases findings quiet_time seed shard resume "
        "new trust at_least",
        "On which machine": "devices workers fleet gpus repeat screen device_reference",
        "What comes out": "corpus known no_known report metrics disassembler json",
    }
    runner: str | None = option(
        "What is tested. `ptxas`: which instructions it accepts; nothing runs. `sim`: programs on "
        "the simulated device. `cuda`: programs on GPUs. NAME or COMMAND: programs on a runner of "
        "your own.  [default: cuda if there is a GPU, else ptxas, else sim; with --fleet cuda]",
        **_any_runner("ptxas", "sim", "cuda"),
    )
    time: str | None = shared(
        "time",
        "Stop after this time: 90 (seconds), 10m, 2h, 1w. Rounds that run come to an end, and "
        "findings are made smaller for 20 s more.  [default: 60 if no --cases]",
    )
    cases: int | None = option(
        "Stop after this many cases: memory images, each through one program (with --runner ptxas: "
        "instructions).",
        type=_COUNT,
    )
    findings: int | None = option(
        "Stop after this many new defects (families of findings that are not known).", type=_COUNT
    )
    quiet_time: str | None = option("Stop when nothing new was found or covered for this time.")
    seed: int | None = shared(
        "seed",
        "Seed of all random choices: the same seed gives the same cases.  [default: a random "
        "one, which is shown]",
        default=None,
    )
    shard: str | None = option(
        "Run part I of the N parts of the campaign that --seed determines: one part for each job "
        "of a job array.",
        metavar="I/N",
    )
    corpus: Path = shared("corpus")
    resume: bool = option(
        "Continue the campaign of the corpus with its options. Limits such as --time stay what "
        "they were unless they are given again, and count from the campaign's beginning."
    )
    new: bool = option("Start a new campaign in the corpus of an old one; its findings stay.")
    trust: bool = shared(
        "trust", "With --resume: allow running the commands that the stored campaign names."
    )
    workers: int | None = shared(
        "workers",
        "Number of worker processes (with --fleet: for each GPU).  [default: one for each core; on "
        "a GPU with 2 GiB for each of them, three for two cores]",
    )
    devices: tuple[int, ...] = shared("devices")
    fleet: str | None = shared("fleet")
    gpus: int | None = shared("gpus")
    repeat: float = option(
        "Percent of the rounds of a --fleet that a second GPU of the same kind repeats.",
        type=_Range(0, 100),
        default=1.0,
    )
    target: str | None = shared(
        "target",
        "Only this .target, such as sm_90.  [default: the device's; with --runner ptxas every "
        "target]",
    )
    ptx_version: str | None = shared(
        "ptx_version",
        "Only this PTX .version, such as 8.0.  [default: every one that the compiler reads]",
    )
    only: str = shared("only")
    screen: bool = option(
        "While a GPU is idle, run verified programs again on every multiprocessor (see `warpfuzz "
        "screen --help`); counted apart from the cases.  [default: --screen]",
        "--screen/--no-screen",
        default=True,
    )
    device_reference: bool = option(
        "Run verified programs on millions of further images, which the device itself makes and "
        "compares with a second reference that runs there. What differs is judged by the oracle. "
        "Counted apart from the cases.  [default: with --runner cuda, one compiler and no "
        "--front-end]",
        "--device-reference/--no-device-reference",
        default=DEVICE_REFERENCE,
    )
    include_undefined: bool = option(
        "Also run some programs that the ISA leaves undefined, in a separate process; their "
        "outcomes are counted, not judged."
    )
    assemblers: tuple[str, ...] = shared(
        "assemblers",
        "ptxas to use, by path or version. With --runner ptxas: the one to test; repeat the "
        "option to compare others with the first. With --runner cuda: the one that compiles the "
        "programs.  [default with cuda: the driver's compiler]",
    )
    faults: tuple[str, ...] = shared("faults")
    ptx_pass: str | None = shared("ptx_pass")
    front_ends: tuple[str, ...] = option(
        "Test a compiler that writes PTX: `llvm` is given LLVM IR, `nvcc` and `nvrtc` CUDA C++. "
        "The name alone means the newest installed version; `llvm:15` and `nvrtc:12.4` name a "
        "version; `llvm:FOLDER` has opt and llc, `nvcc:FOLDER` and `nvrtc:FOLDER` a toolkit; "
        "`llvm:COMMAND` and `nvcc:COMMAND` run a command that reads source from standard input "
        "and writes PTX to standard output, with {level}, {target} and {ptx} filled in. Several "
        "of them, separated by commas (`all`: all installed), or several --opt are compared with "
        "each other.  [default: warpfuzz writes the PTX]",
        "--front-end",
    )
    model: str | None = shared("model")
    levels: str | None = shared(
        "levels", "-O level, 0 to 3; with --compilers or --front-end also several, such as 0,1,2,3."
    )
    compilers: str | None = shared(
        "compilers",
        "Build every program with each of these ptxas and compare all results. Give versions, "
        "paths or folders, separated by commas; `driver` is the driver's compiler, `installed` "
        "every one that is here, and `all` fetches every version.",
    )
    variants: tuple[str, ...] = shared(
        "variants",
        "Also build every program with these options, by each ptxas of --compilers; repeat for "
        f"several. Names: {', '.join(SETTINGS)}. To give an option to one compiler alone, append "
        "it to the compiler's name, as in 13.5+maxrregcount=32.",
    )
    disassembler: Path | None = shared("disassembler")
    at_least: int | None = shared("at_least")
    known: Path | None = shared("known")
    no_known: bool = shared("no_known")
    report: Path | None = shared("report")
    metrics: str | None = shared("metrics")
    # What the command finds out of them.
    level: int | None = None
    matrix: bool = False
    """Whether compilers are compared with each other."""
    chosen: bool = False
    """Whether somebody chose the runner."""


class Replay(Options, words="replay", runs="replay:replay_path"):
    """Run saved cases again: PATH is a corpus, the folder of a finding, a .ptx file, or `record`.

    Options that are not given are those with which each case was found. `record` names the
    findings that ship with warpfuzz, unless there is a folder of that name.
    """

    path: Path = argument()
    times: int = shared("times", default=1)
    assembler: str | None = option(
        "Path or version of a ptxas.  [default: the one with which the finding was made]",
        "--assembler",
        "--compiler",
    )
    baseline: str | None = option(
        "Reference ptxas, by path or version: report only results that differ from its. 'none': "
        "the same ptxas without --fault and --ptx-pass."
    )
    variant: str | None = shared("variant")
    target: str | None = shared("target", "Another .target.  [default: that of the finding]")
    level: int | None = shared("level")
    runner: str | None = shared("any_runner")
    junit: Path | None = shared("junit")
    known: Path | None = shared("known")
    no_known: bool = shared("no_known")
    at_least: int | None = shared("at_least")
    quiet: bool = option("Print only new findings.")
    kernels: bool = option(
        "Also run each program as the smallest kernel, one warp on one image, and keep that in the "
        "finding's folder (kernel.ptx) where it shows the same."
    )
    trust: bool = shared("trust")
    faults: tuple[str, ...] = shared("again_faults")
    ptx_pass: str | None = shared("again_ptx_pass")
    front_end: str | None = shared("again_front_end")
    model: str | None = shared("model")


class Faults(Options, words="faults", runs="bench:list_faults"):
    """List the faults that can be planted, each with what it does."""

    only: str = shared("only", "Faults whose name matches: 'f64-*', 'subnormals'.")


class Repro(Options, words="repro", runs="corpus:reproduce"):
    """Write a folder that reproduces a finding without warpfuzz: CASE is its folder or its id."""

    case: str = argument()
    corpus: Path = shared("corpus")
    output: Path | None = shared("output", "The folder.  [default: repro-ID]")
    disassembler: Path | None = shared(
        "disassembler", "Path of an nvdisasm.  [default: the one installed]"
    )
    bisected: Path | None = option(
        "Output of `bisect --json`: adds the table of compilers and both builds' machine code."
    )


class Bisect(Options, words="bisect", runs="bisect:bisect_case"):
    """Find the first compiler version and -O level that changes a finding's result.

    CASE is its folder or its id.
    """

    case: str = argument()
    corpus: Path = shared("corpus")
    compilers: str | None = shared(
        "compilers",
        "Compilers to try: versions, paths or folders of ptxas, separated by commas; `installed`; "
        "`all` fetches every version.  [default: installed]",
    )
    variant: str | None = shared("variant")
    levels: str | None = shared("levels", "-O levels: 0,1,2,3.  [default: all]")
    target: str | None = shared("target", "Another .target.  [default: that of the finding]")
    ptx_version: str | None = shared(
        "ptx_version",
        "PTX ISA version.  [default: that of the finding, or if that is too new for a compiler, "
        "the highest that it reads]",
    )
    runner: str | None = shared("runner")
    times: int | None = shared(
        "times",
        "Run each build this many times.  [default: often enough for a failure as rare as the "
        "finding's to show]",
    )
    disassembler: Path | None = shared(
        "disassembler",
        "Path of an nvdisasm, to say where machine code changes.  [default: the one installed]",
    )
    at_least: int | None = shared("at_least")
    trust: bool = shared("trust")
    faults: tuple[str, ...] = shared("again_faults")
    ptx_pass: str | None = shared("again_ptx_pass")
    front_end: str | None = shared(
        "again_front_end",
        "Compilers that write PTX, separated by commas, to try instead of ptxas; 'none' tries "
        "ptxas.  [default: the installed versions of the one that the finding is about, if it is "
        "about one]",
    )
    model: str | None = shared("model")


class Judge(Options, words="judge", runs="judge:judge_kernel"):
    """Compare what compilers make of a kernel of your own, bit for bit.

    KERNEL is a .ptx file. --launch says how it is launched; what is not said there is guessed from
    the text and printed. The simulated device computes the expected result, if it knows all the
    instructions.
    """

    kernel: Path = argument()
    launch: Path | None = shared("launch")
    runner: str | None = shared(
        "any_runner",
        "Where the kernel runs: on a GPU, on the simulated device (with --fault or --ptx-pass), or "
        "on a runner of your own that takes launches.  [default: cuda]",
    )
    compilers: str | None = shared(
        "compilers",
        "Compilers to compare: versions, paths or folders of ptxas, separated by commas; "
        "`installed`, `all`, `driver`.  [default: installed,driver]",
    )
    levels: str | None = shared("levels", "-O levels: 0,1,2,3.  [default: all]")
    target: str | None = shared("target", "Another .target.  [default: the module's]")
    images: int = shared("images", "How many different buffer contents to try.", default=64)
    seed: int = shared("seed", "Seed of the buffer contents.")
    device: int = shared("device")
    corpus: Path = shared("corpus")
    faults: tuple[str, ...] = shared("faults")
    ptx_pass: str | None = shared("ptx_pass")
    known: Path | None = shared("known")
    no_known: bool = shared("no_known")
    junit: Path | None = shared("junit")


class Reduce(Options, words="reduce", runs="reduce:reduce"):
    """Make a PTX module as small as it gets while it still shows what is wrong with a compiler.

    Say with --message, --crash, --differs or --command what it shows. Lines go first, then operands
    and constants. The exit code is 0 where the smaller module is written, and 3 where MODULE does
    not show it. Ctrl-C writes the smallest so far.
    """

    headings: ClassVar[Mapping[str, str]] = {
        "What it shows": "message crash differs command",
        "With what": "compiler level launch runner ptx_pass faults device",
        "How long, and what comes out": "time memory output json",
    }
    module: Path = argument()
    message: str | None = option(
        "ptxas prints a message with this text, such as C7907. Kept is the message, whatever "
        "numbers and names are in it, and how the compiler ends."
    )
    crash: bool = option("ptxas is killed by a signal, or does not end.")
    differs: bool = option(
        "A build leaves another result than the simulated device and another build. Nothing may "
        "race or be undefined in what is left. Needs a GPU, or --runner sim with --ptx-pass or "
        "--fault."
    )
    command: str | None = option(
        "This shell command ends with 0. {} in it is the module; without it, the module is its "
        "last word.",
        metavar="CMD",
    )
    compiler: str | None = option("Version or path of the ptxas.  [default: the newest here]")
    level: int | None = shared(
        "level", "-O level.  [default: 3; with --differs any]", names=("--opt", "--level", "-O")
    )
    launch: Path | None = shared("launch", "With --differs: how it is launched, as for `judge`.")
    runner: str | None = shared("any_runner", "With --differs: where it runs.  [default: cuda]")
    ptx_pass: str | None = shared("ptx_pass")
    faults: tuple[str, ...] = shared("faults")
    device: int = shared("device")
    time: str = shared("time", "How long it may take: 90 (seconds), 10m, 2h.", default="120")
    memory: int = option(
        "MiB of address space for each run of ptxas or the command.",
        type=click.IntRange(min=64),
        default=4096,
    )
    output: Path | None = shared("output", "File of the result.  [default: MODULE.small.ptx]")


class Conform(Options, words="conform", runs="conform:conform"):
    """Test an emulator, a translator or another device: every instruction form, one verdict each.

    RUNNER is `sim`, `cuda`, or a runner of your own: its name or its command. Every instruction
    form is run with every layout, state space and stride, and gets a verdict: the same bits as the
    model of the target, other bits that the ISA permits, wrong, or not implemented. Standard output
    is TAP, a line for each form.
    """

    runner: str = argument(**{**_any_runner("sim", "cuda"), "metavar": "RUNNER"})
    only: str = shared("only")
    images: int = shared(
        "images", "Images for each form.", type=click.IntRange(1, _MOST_IMAGES), default=38
    )
    target: str | None = shared(
        "target", f"GPU architecture (.target).  [default: the device's; else {DEFAULT_TARGET}]"
    )
    ptx_version: str | None = shared("ptx_version")
    workers: int = shared(
        "workers", "Number of forms that are run at the same time, in as many processes.", default=1
    )
    deadline: float | None = option(
        "Seconds that all images of one form may take; `sim` has no limit.  [default: 60]",
        type=_Range(min=0, min_open=True),
    )
    expectations: Path | None = option(
        "TOML file of forms that are expected to fail or to be missing. Any other outcome is a "
        "failure, an unexpected pass as well."
    )
    update_expectations: bool = option("Write the outcomes into the file of --expectations.")
    save_failing: Path | None = option(
        "Folder for what fails: of each form its module, an image, and the same as it must be and "
        "as it is after the module (module.ptx, input.npy, expected.npy, actual.npy)."
    )
    tap: Path | None = option("Also write TAP into this file.")
    junit: Path | None = shared("junit", "Also write JUnit XML: one test for each form.")
    model: str | None = shared("model")
    faults: tuple[str, ...] = shared("faults")
    ptx_pass: str | None = shared("ptx_pass")
    device: int = shared("device")


_GATE_PROGRAMS = 100
"""None wrong in 100: with 95 % confidence fewer than 3 in 100 programs are (rule of three, see
`runners.ledger`); an H200 executes as many in a minute (156 and 217, 2026-11-24)."""


class Gate(Options, words="gate", runs="gate:gate"):
    """Say whether the compiler NEW may be taken in place of OLD.

    Both are tried on every finding that ships with warpfuzz, compile new programs at all levels and
    with some options, and are timed. REJECT (exit code 1): NEW has a new finding, other bits or a
    crash, or is slower. UNKNOWN (3): fewer new programs than --at-least were executed. Else ACCEPT
    (0).
    """

    old: str = argument()
    new: str = argument()
    time: str = shared(
        "time", "How long the gate takes in all: 90 (seconds), 10m, 2h.", default="10m"
    )
    runner: str | None = option(
        "Where programs run; `ptxas` only compiles them.  [default: cuda if there is a GPU, else "
        "ptxas; sim for front ends]",
        type=click.Choice(["ptxas", "sim", "cuda"]),
    )
    device: int = shared("device")
    levels: str | None = shared("levels", "-O levels: 0,1,2,3.  [default: all]")
    variants: tuple[str, ...] = shared(
        "variants",
        "Also compile with these options of ptxas, at the highest level; repeat for several, or "
        "'none'.  [default: maxrregcount=32, regAllocOptLevel=2, process=last, and each target "
        "that runs the same code]",
    )
    slower: float = option(
        "Call NEW slower if it takes more than this many times as long to compile.",
        type=_Range(min=1),
        default=1.5,
    )
    target: str | None = shared("target", "Only this .target.  [default: the device's]")
    only: str = shared("only")
    at_least: int = shared(
        "at_least",
        "Say UNKNOWN (exit code 3) if both compilers executed fewer than N new programs on a "
        "device; with 0, compiling them is enough.",
        type=click.IntRange(min=0),
        default=_GATE_PROGRAMS,
    )
    seed: int | None = shared("seed", "Seed of the programs.  [default: random]", default=None)
    workers: int | None = shared(
        "workers", "Number of worker processes.  [default: one for each core]"
    )
    corpus: Path | None = shared(
        "corpus", "Folder where findings are kept.  [default: gate-OLD-NEW]", default=None
    )
    known: Path | None = shared("known")
    no_known: bool = shared("no_known")
    junit: Path | None = shared("junit", "Also write JUnit XML, one test for each line.")
    report: Path | None = shared("report", "Also write the result as a page, .html.")


class Explain(Options, words="explain", runs="legality:explain_one"):
    """Say whether an instruction is legal, and why not.

    Instructions that are no matrix instructions, such as `add`, are not judged. The exit code is 0
    whatever the verdict is; programs read it with --json.
    """

    instruction: str = argument(type=str)
    target: str = shared("target", default=DEFAULT_TARGET)
    ptx_version: str = shared("ptx_version", default=DEFAULT_VERSION)


class Legal(Options, words="legal", runs="legality:judge_file"):
    """Judge a file of instructions: one verdict for each line, in order (- is standard input).

    Verdicts are legal, illegal, undefined, and not judged (for other instructions of PTX). Of a
    PTX module, the matrix instructions are judged. The exit code is 0 whatever the verdicts are;
    programs read them with --json.
    """

    file: Path = argument(type=PathName(path_type=Path, allow_dash=True))
    target: str | None = shared(
        "target", f"GPU architecture (.target).  [default: the module's, else {DEFAULT_TARGET}]"
    )
    ptx_version: str | None = shared(
        "ptx_version",
        f"PTX ISA version (.version).  [default: the module's, else {DEFAULT_VERSION}]",
    )


class Isa(Options, words="isa", runs="isa:list_forms"):
    """List every documented form of the matrix instructions."""

    target: str | None = shared(
        "target", "Only forms of this .target, such as sm_90.  [default: all]"
    )
    ptx_version: str | None = shared(
        "ptx_version", "Only forms of this PTX .version, such as 8.0.  [default: all]"
    )
    only: str = shared("only", "Only forms whose opcode matches: 'wmma.load.*f64', 'ldmatrix'.")


class Bench(Options, words="bench", runs="bench:bench"):
    """Plant faults, and measure how many images warpfuzz takes to find each."""

    only: str = shared("only", "Faults whose name matches: 'f64-*', 'subnormals'.")
    seeds: int = option("How many campaigns run for each fault.", type=_COUNT, default=20)
    seed: int = shared("seed", "Seed of the first campaign; the others follow it.")
    limit: int = option("Give up after this many images.", type=_COUNT, default=100_000)
    baseline_limit: int = option(
        "Give up after this many images of --contents uniform or normal.",
        type=_COUNT,
        default=1_000,
    )
    contents: tuple[str, ...] = option(
        "What the images contain: the value classes of warpfuzz, or uniform or normal random "
        "numbers; repeat for several.  [default: all]",
        type=click.Choice(["warpfuzz", "uniform", "normal"]),
    )
    jobs: int | None = shared("workers", "Number of processes.  [default: one for each core]")
    names: bool = option("Only list the faults, as `warpfuzz faults` does.", "--list")
    lines: bool = option(
        "Run one campaign with each fault, and count the findings in its report: it should have "
        "one."
    )
    images: int = shared("images", "How many images each campaign of --lines runs.", default=4_000)
    coverage: bool = option(
        "Only draw programs, and count which features of programs they cover; the exit code is 1 "
        "if any is missing, however few are drawn."
    )
    programs: int = option("How many programs --coverage draws.", type=_COUNT, default=15_000)
    target: str | None = shared(
        "target", "GPU architecture (.target).  [default: sm_100a, which has every form]"
    )
    ptx_version: str | None = shared("drawn_version")


class Measure(Options, words="measure", runs="measure:measure_device"):
    """Measure by probes how a GPU's tensor cores compute, and write the figures to a file."""

    runner: str | None = shared(
        "any_runner",
        "What is measured: a GPU, the simulated device, or a runner of your own.  [default: cuda]",
    )
    device: int = shared("device")
    target: str | None = shared("target", "Architecture of the simulated device.  [default: sm_90]")
    ptx_version: str | None = shared(
        "ptx_version", "PTX ISA version.  [default: the first that has all forms of the target]"
    )
    output: Path | None = shared("output", "Write the figures to this TOML file, for --model.")
    only: str = shared("only", "Measure only forms whose opcode matches: 'wmma.mma.*bf16*'.")
    images: int | None = shared(
        "images",
        "Check the figures of each form with this many random images.  [default: 1,048,576 on a "
        "GPU, else 1,024]",
    )
    seed: int = shared("seed", "Seed of the random images.", type=click.IntRange(0, 2**31 - 1))
    workers: int | None = shared(
        "workers", "Number of worker processes.  [default: cores less one]"
    )
    faults: tuple[str, ...] = shared("faults")
    assembler: str | None = shared(
        "assembler", "ptxas that compiles the probes, by path or version.  [default: the driver's]"
    )
    compilers: str | None = shared(
        "compilers",
        "Measure the code of each of these compilers (versions and paths, separated by commas; "
        "`all`; `driver`); the file says which figures hold for which compiler.",
    )


class Distill(Options, words="distill", runs="screen:make_set"):
    """Make a screening set: programs, images and the right results, in one file."""

    images: int = shared(
        "images", "About how many images the set holds.", type=click.IntRange(min=4), default=8192
    )
    output: Path = shared("output", "The file.", required=True)
    seed: int = shared("seed")
    target: str = shared("target", "Architecture of the GPUs to screen.", default=DEFAULT_TARGET)
    ptx_version: str | None = shared("drawn_version")
    only: str = shared("only", "Only forms whose opcode matches: 'wmma.mma*f64', 'ldmatrix'.")
    model: str | None = shared("model")


class Screen(Options, words="screen", runs="screen:screen"):
    """Run every image of a set on every multiprocessor, again and again.

    The GPU itself compares the results. Without SET, a set is made, and the GPU starts on each part
    of it as soon as it is ready.
    """

    path: Path | None = argument(metavar="[SET]", required=False)
    time: str = shared("time", "How long: 90, 10m, 2h, 1w.", default="60")
    devices: tuple[int, ...] = shared("devices")
    pattern: str = option(
        "Load of the GPU: steady, or alternately idle and full for 1 ms to 1 s, which stresses the "
        "power supply.",
        type=click.Choice(["steady", "bursts"]),
        default="steady",
    )
    fresh: bool = option(
        "Once a program is verified on every multiprocessor, go on with images that the device "
        "makes and compares with a second reference that runs there."
    )
    preflight: bool = option(
        "Check GPUs before a job starts: screen every kind of instruction whose arithmetic is "
        "known, and print one JSON line for each GPU; the exit code is 0 only if all are sound."
    )
    fleet: str | None = shared("fleet")
    gpus: int | None = shared("gpus")
    runner: str | None = shared(
        "runner", "What is screened: GPUs, or the simulated device.  [default: cuda]"
    )
    seed: int = shared("seed", "Seed of the set that is made without SET, and of --pattern bursts.")
    target: str | None = shared(
        "target", "GPU architecture (.target), if no set is given.  [default: the device's]"
    )
    corpus: Path = shared("corpus")
    assembler: str | None = shared("assembler")
    level: int | None = shared("level")
    faults: tuple[str, ...] = shared("faults")
    ptx_pass: str | None = shared("ptx_pass")
    model: str | None = shared("model")
    known: Path | None = shared("known")
    no_known: bool = shared("no_known")
    junit: Path | None = shared("junit", "Also write JUnit XML: one test for each multiprocessor.")
    report: Path | None = shared("report")
    metrics: str | None = shared("metrics")


class Status(Options, words="status", runs="status:show_status"):
    """Show campaigns that run elsewhere, or have ended, from the files in their corpora.

    Several campaigns, such as the shards of an array, are added up.
    """

    corpora: tuple[Path, ...] = argument(metavar="[CORPUS]...")
    watch: bool = option("Refresh until no campaign runs any more.")


class Doctor(Options, words="doctor", runs="installed:examine"):
    """Say what is installed, what is missing, and what each missing part would give."""


class CompilersList(Options, words="compilers list", runs="installed:list_compilers"):
    """List the assemblers and front ends that are here."""


class CompilersFetch(Options, words="compilers fetch", runs="installed:fetch_compilers"):
    """Fetch assemblers (13.5 11.8) and front ends (llvm:15) through pip, into the cache."""

    versions: tuple[str, ...] = argument(required=True)


class ModelsList(Options, words="models list", runs="models:list_models"):
    """List the GPU architectures whose arithmetic is built in."""


class ModelsShow(Options, words="models show", runs="models:show_model"):
    """Show how a GPU architecture computes, as far as it is known, with the source of each figure.

    NAME is a target, such as sm_90, or a file that `warpfuzz measure` wrote.
    """

    name: str = argument()


class ModelsExport(Options, words="models export", runs="models:export_model"):
    """Write how a GPU architecture computes as TOML or JSON, which --model takes, or as a C header.

    NAME is a target, such as sm_90, or a file that `warpfuzz measure` wrote.
    """

    name: str = argument()
    format: str = option(
        "What is written.", type=click.Choice(["toml", "json", "c"]), default="toml"
    )
    output: Path | None = shared("output", "The file.  [default: standard output]")


class CorpusList(Options, words="corpus list", runs="corpus:list_findings"):
    """List the findings, worst first: one line for each family (findings of one cause).

    `record` names the findings that ship with warpfuzz, unless there is a folder of that name.
    """

    path: Path = argument(default=DEFAULT_CORPUS)
    known: Path | None = shared("known")
    no_known: bool = shared("no_known")


class CorpusShow(Options, words="corpus show", runs="corpus:show_finding"):
    """Show a finding with everything that is known of it: FINDING is its folder or its id."""

    finding: str = argument()
    corpus: Path = shared("corpus")


class CorpusMerge(Options, words="corpus merge", runs="corpus:merge_corpora"):
    """Add the findings of other corpora, folders or exported .zip files, to the first.

    The first is created if it is not there; what it has already stays.
    """

    destination: Path = argument()
    sources: tuple[Path, ...] = argument(required=True)


class CorpusPrune(Options, words="corpus prune", runs="corpus:prune_corpus"):
    """Keep the smallest finding of each family."""

    path: Path = argument(default=DEFAULT_CORPUS)
    dry_run: bool = option("Only say what would be removed.")


class CorpusDiff(Options, words="corpus diff", runs="corpus:compare_corpora"):
    """Compare two corpora; exit code 1 if they differ."""

    left: Path = argument()
    right: Path = argument()


class CorpusCheck(Options, words="corpus check", runs="corpus:check_corpus"):
    """Read everything in a corpus, and say what is wrong with it; exit code 3 if anything is."""

    path: Path = argument(default=DEFAULT_CORPUS)


class CorpusMarkKnown(Options, words="corpus mark-known", runs="corpus:mark_finding"):
    """Mark the family of a finding as known: FINDING is its folder or its id.

    Commands that are given the file with --known still count and show such findings, but do not
    end with exit code 1 because of them.
    """

    finding: str = argument()
    corpus: Path = shared("corpus")
    reason: str = option("Why it need not be reported.", required=True)
    evidence: str | None = option("A text or a page that shows it.  [default: the finding]")
    until: datetime | None = option(
        "Last day on which it counts as known: 2027-01-31.  [default: for ever]",
        type=click.DateTime(formats=["%Y-%m-%d"]),
    )
    known: Path = option("TOML file that it is added to.", default=Path("known.toml"))


class CorpusExport(Options, words="corpus export", runs="corpus:export_corpus"):
    """Write a corpus into one file, .zip or .jsonl."""

    path: Path = argument()
    file: Path = argument()


class CorpusImport(Options, words="corpus import", runs="corpus:import_by_hand"):
    """Add a case written by hand (a folder with a module and a description) or an exported .zip."""

    folder: Path = argument()
    corpus: Path = shared("corpus")


_NO_GPU = (
    "--device {value} names a GPU, and the runner is {o.runner}; leave it out, or choose --runner "
    "cuda"
)
_OF_SEARCHES = "seeds limit baseline_limit contents"
"""Options of `bench` that only the search for planted faults uses."""
_NO_FLEET = "{option} {value} is of a --fleet, and there is none; leave it out, or name one"
CONFLICTS: Mapping[str, tuple[tuple[str, Callable[[Any], object], str], ...]] = {
    "run": (
        (
            "new", lambda o: o.resume,
            "--resume goes on with a campaign, and --new begins one; leave one out",
        ),
        (
            "disassembler", lambda o: o.compilers is None,
            "--disassembler {value} shows which machine instructions compilers choose; say with "
            "--compilers which, or leave it out",
        ),
        (
            "variants", lambda o: o.compilers is None,
            "--variant {value} is of compilers that are compared; say with --compilers which, or "
            "name one with its options: --assembler 13.5+maxrregcount=32",
        ),
        ("gpus repeat", lambda o: o.fleet is None, _NO_FLEET),
    ),
    # When the runner is known, and what a resumed campaign was begun with.
    "campaign": (
        (
            "assemblers", lambda o: o.matrix,
            "--compilers, or several of --front-end, name all the compilers there are; leave "
            "--assembler out",
        ),
        (
            "faults ptx_pass", lambda o: o.matrix,
            "planted faults and PTX passes change what every compiler gets or writes, and they are "
            "compared on the same program; leave --fault and --ptx-pass out",
        ),
        (
            "front_ends", lambda o: o.compilers is not None,
            "--compilers names assemblers, which are compared on the same PTX, and --front-end "
            "what writes PTX; leave one of the two out",
        ),
        (
            "include_undefined", lambda o: o.matrix,
            "--include-undefined runs programs whose results nobody promises, and --compilers "
            "reports every result that differs; leave one of the two out",
        ),
        (
            "front_ends", lambda o: o.matrix and o.runner == "ptxas",
            "--front-end writes programs that run, and --runner ptxas runs none; choose --runner "
            "sim or cuda",
        ),
        (
            "faults ptx_pass front_ends levels", lambda o: not o.matrix and o.runner == "ptxas",
            "--fault, --ptx-pass, --front-end and --opt change programs that run, and --runner "
            "ptxas only asks whether instructions are accepted; choose --runner sim or cuda",
        ),
        (
            "device_reference",
            lambda o: o.device_reference and (o.matrix or o.runner == "ptxas"),
            "{option} compares one compiler's programs with a reference where they run; leave it "
            "out, or choose --runner cuda or sim, without --compilers",
        ),
        (
            "model", lambda o: o.runner == "ptxas",
            "--model judges what programs compute, and --runner ptxas runs none; leave it out, or "
            "choose --runner sim or cuda",
        ),
        (
            "include_undefined", lambda o: o.runner == "ptxas",
            "--include-undefined is for campaigns that run programs, and --runner ptxas only asks "
            "whether instructions are accepted; leave it out, or choose --runner sim or cuda",
        ),
        (
            "assemblers", lambda o: o.runner != "ptxas" and len(o.assemblers) > 1,
            "{count} assemblers are given, and --runner {o.runner} compiles with one; run a "
            "campaign for each",
        ),
        (
            "devices", lambda o: o.fleet is not None,
            "--device {value} names a GPU of this machine, and --fleet takes all that the cluster "
            "has; leave one of the two out",
        ),
        ("devices", lambda o: o.runner != "cuda", _NO_GPU),
        (
            "devices", lambda o: o.matrix and len(o.devices) > 1,
            "--device names {count} GPUs, and compilers are compared on one and the same; name "
            "one",
        ),
    ),
    "module of replay": (
        (
            "baseline junit known at_least runner target level faults ptx_pass variant",
            lambda o: True,
            "{option} is for findings, and {o.path} is a module by itself, which is only given to "
            "ptxas; leave it out, or make a case of it (`warpfuzz corpus import FOLDER`)",
        ),
    ),
    "bench": (
        (
            "images", lambda o: not o.lines,
            "--images is how many a campaign of --lines has; add --lines, or leave it",
        ),
        (
            f"{_OF_SEARCHES} coverage programs", lambda o: o.lines,
            "{option} means nothing for --lines, which runs one campaign for each fault; leave one "
            "of the two out",
        ),
        (
            "programs", lambda o: not o.coverage,
            "--programs is how many --coverage draws; add --coverage, or leave it",
        ),
        (
            f"only {_OF_SEARCHES}", lambda o: o.coverage,
            "{option} is about planted faults, and --coverage plants none; leave one of the two "
            "out",
        ),
    ),
    "measure": (
        (
            "assembler", lambda o: o.compilers is not None,
            "--assembler {value} names one compiler and --compilers {o.compilers} several; leave "
            "one of the two out",
        ),
    ),
    "screen": (
        ("gpus", lambda o: True, _NO_FLEET),
        ("devices", lambda o: o.runner != "cuda", _NO_GPU),
        (
            "fresh", lambda o: o.path is not None or o.preflight or o.pattern != "steady",
            "--fresh makes images on the device, as many as it can; leave it out, or leave out "
            "SET, --preflight and --pattern",
        ),
    ),
    "screen --fleet": (
        (
            "devices preflight fresh report metrics", lambda o: True,
            "{option} is for the GPUs of one machine, and --fleet takes all of a cluster; leave "
            "one of the two out",
        ),
    ),
}  # fmt: skip
"""By command: options, where they contradict others, and what is said then.

In a sentence, {option} is the first of these options that was given, {value} its value (the first
of several, of which there are {count}), and {o} all options.
"""


def check_conflicts(options: Options, command: str) -> None:
    """Raise UsageError for the first row of `CONFLICTS` whose options were given where it holds."""
    for names, holds, sentence in CONFLICTS[command]:
        given = [name for name in names.split() if options.is_set(name)]
        if given and holds(options):
            name, value = options.spelled(given[0]), getattr(options, given[0])
            several = value if isinstance(value, tuple) else (value,)
            raise UsageError(
                sentence.format(
                    option=name,
                    value=several[0],
                    count=len(several),
                    o=options,
                )
            )
