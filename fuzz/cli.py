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
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import Any, TextIO, TypeVar

import click
from click.core import ParameterSource

from oracle.errors import DeviceLostError, UsageError, WarpfuzzError
from oracle.targets import DEFAULT_TARGET, DEFAULT_VERSION


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
DEFAULT_CORPUS = Path("warpfuzz-corpus")
_MOST_PROCESSES = 1024
"""More than a machine has cores; a slip beyond it would fill the memory with processes first."""
_FOLDER = click.Path(path_type=Path)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _json(command: _Command) -> _Command:
    option = click.option("--json", is_flag=True, help="One JSON object per line, nothing else.")
    return option(command)


def _fleet(command: _Command) -> _Command:
    option = click.option(
        "--fleet",
        metavar="ADDRESS",
        help="Use all GPUs of a Ray cluster: `auto`, `ray://HOST:PORT`, or `local` for this "
        "machine alone.",
    )
    most = click.option(
        "--gpus",
        type=click.IntRange(min=1),
        help="Take so many GPUs of the --fleet at most; without GPUs, so many actors.",
    )
    return option(most(command))


def _metrics(command: _Command) -> _Command:
    option = click.option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Serve figures there in Prometheus' format.",
    )
    return option(command)


def _module(command: _Command) -> _Command:
    """Add the options that say what module an instruction would stand in."""
    target = click.option(
        "--target", default=DEFAULT_TARGET, show_default=True, help="Value of .target."
    )
    version = click.option(
        "--ptx-version", default=DEFAULT_VERSION, show_default=True, help="Value of .version."
    )
    return target(version(command))


def _only_module(command: _Command) -> _Command:
    """Add the options that narrow a campaign or a list to some modules and forms."""
    target = click.option("--target", help="Only this .target; otherwise all there are.")
    version = click.option(
        "--ptx-version", help="Only this .version; otherwise all that can be read."
    )
    only = click.option(
        "--only", default="*", help="Forms whose opcode fits: 'wmma.load.*f64', 'ldmatrix'."
    )
    return target(version(only(command)))


def _corpus(command: _Command) -> _Command:
    option = click.option(
        "--corpus",
        type=_FOLDER,
        default=DEFAULT_CORPUS,
        show_default=True,
        help="Folder where findings are kept.",
    )
    return option(command)


def _planted(command: _Command) -> _Command:
    """Add the options that change what reaches a runner."""
    faults = click.option(
        "--fault", "faults", multiple=True, help="Plant a fault; again for others."
    )
    ptx_pass = click.option(
        "--ptx-pass", help="Command that every module's PTX goes through, from input to output."
    )
    return faults(ptx_pass(command))


def _front_end(command: _Command) -> _Command:
    option = click.option(
        "--front-end",
        "front_ends",
        multiple=True,
        help="Compiler that writes the PTX, at the level of --opt: `llvm` (LLVM IR), `nvcc` or "
        "`nvrtc` (CUDA C++), the one that is here; `llvm:15`, `nvrtc:12.4` (a version); "
        "`llvm:FOLDER` (its opt and llc; of the others a toolkit); `llvm:COMMAND`, `nvcc:COMMAND` "
        "(source from input, PTX to output; {level}, {target} and {ptx} are filled in). Several "
        "(llvm:14,llvm:22, or again; `all`: those that are here), or several levels, are "
        "compared.  [default: warpfuzz writes it]",
    )
    return option(command)


def _again(command: _Command) -> _Command:
    """Add the options that change what a finding is made again with."""
    trust = click.option(
        "--trust", is_flag=True, help="Run the commands and programs that findings name."
    )
    faults = click.option(
        "--fault",
        "faults",
        multiple=True,
        help="Plant a fault; again for others; 'none'.  [default: those of the finding]",
    )
    ptx_pass = click.option(
        "--ptx-pass",
        help="Command that every module's PTX goes through; 'none'.  [default: the finding's, "
        "with --trust]",
    )
    front_end = click.option(
        "--front-end",
        help="Compiler that writes the PTX; 'none'; of `bisect` several, with commas between "
        "them.  [default: the finding's, with --trust where it names a program; of `bisect` the "
        "versions that are here]",
    )
    return trust(faults(ptx_pass(front_end(command))))


def _at_least(command: _Command) -> _Command:
    option = click.option(
        "--at-least",
        type=click.IntRange(min=1),
        help="Fewer that were compared (of assemblers: judged) end with 3.  [default: 1]",
    )
    return option(command)


def _model(command: _Command) -> _Command:
    """Add the option that says by which model results are judged."""
    option = click.option(
        "--model",
        help="TOML file of the model that judges results, as `warpfuzz measure` writes it.  "
        "[default: the built-in one of the target]",
    )
    return option(command)


def _version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    """Print the version; not by click, which fails where the package has no metadata."""
    if asked:
        from fuzz import warpfuzz_version

        click.echo(f"warpfuzz, version {warpfuzz_version()}")
        context.exit()


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 clean, 1 findings, 2 usage, 3 the infrastructure failed, 4 device lost.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
    help="Show the version and exit.",
)  # fmt: skip
def app() -> None:
    """Differential fuzzer for the warp-level matrix instructions of PTX."""


@app.command()
@click.option(
    "--runner",
    type=click.Choice(["ptxas", "sim", "cuda"]),
    help="What is judged: an assembler, the simulated device, or a GPU.  [default: the best there "
    "is: cuda, else ptxas, else sim; with --fleet cuda]",
)
@click.option("--time", help="How long: 90, 10m, 2h, 1w.  [default: 60 if no --cases]")
@click.option("--cases", type=click.IntRange(min=1), help="How many cases.")
@click.option(
    "--findings", type=click.IntRange(min=1), help="End after so many families that are not known."
)
@click.option("--quiet-time", help="End when nothing new was found or reached for so long.")
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**64 - 1),
    help="Same seed, same cases.  [default: a random one, which is shown]",
)
@click.option(
    "--shard",
    metavar="I/N",
    help="Only the I-th of N parts of the rounds of --seed: one for each job of an array.",
)
@_corpus
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with the campaign of the corpus, with its options, and its limits if none are "
    "given; they count all of it.",
)
@click.option(
    "--new",
    is_flag=True,
    help="Begin a campaign where another one was: its state is put aside, its findings stay.",
)
@click.option(
    "--trust", is_flag=True, help="With --resume: run the commands that the campaign's state names."
)
@click.option(
    "--workers",
    type=click.IntRange(1, _MOST_PROCESSES),
    help="Processes that share the work, with --fleet of each GPU.  [default: cores]",
)
@click.option(
    "--device",
    "devices",
    type=click.IntRange(min=0),
    multiple=True,
    help="Number of a GPU; again for others.  [default: all]",
)
@_fleet
@click.option(
    "--repeat",
    type=click.FloatRange(0, 100),
    default=1.0,
    show_default=True,
    help="Percent of the rounds of a fleet that a second GPU of the same kind carries out, too.",
)
@_only_module
@click.option(
    "--screen/--no-screen",
    default=True,
    help="Screen in the idle time of a GPU with what is verified already (`warpfuzz screen --help` "
    "says how); the simulated device has none.  [default: --screen]",
)
@click.option(
    "--include-undefined",
    is_flag=True,
    help="Now and then run programs that the ISA leaves undefined, apart; they are counted, not "
    "judged.",
)
@click.option(
    "--assembler",
    "assemblers",
    multiple=True,
    help="Path or version of a ptxas; again for others, which are compared with the first. "
    "With --runner cuda: the one that compiles for it.  [default there: the driver's]",
)
@_planted
@_front_end
@_model
@click.option(
    "--opt",
    "levels",
    help="-O level of code for a GPU; with --compilers or --front-end several: 0,1,2,3.",
)
@click.option(
    "--compilers",
    help="Compare compilers with each other and the oracle: versions, paths or folders of ptxas "
    "with commas between them; `installed`, `all`, `driver`.",
)
@click.option(
    "--disassembler",
    type=_FOLDER,
    help="An nvdisasm, for changed expansions.  [default: the one that is here]",
)
@_at_least
@click.option("--known", type=_FOLDER, help="More known discrepancies, a TOML file.")
@click.option("--report", type=_FOLDER, help="Write the final report as .svg or .html, too.")
@_metrics
@_json
def run(levels: str | None, **options: Any) -> int:
    """Run a campaign: draw cases, compare, shrink and keep what disagrees."""
    from fuzz.commands.run import run_on

    if options["new"] and options["resume"]:
        raise UsageError("--resume goes on with a campaign, and --new begins one; leave one out")
    if options["compilers"] is None and options["disassembler"] is not None:
        raise UsageError(
            f"--disassembler {options['disassembler']} shows which machine instructions "
            "compilers choose; say with --compilers which, or leave it out"
        )
    return Exit.FINDINGS if run_on({**options, "levels": levels}) else Exit.CLEAN


@app.command()
@click.argument("path", type=_FOLDER)
@click.option(
    "--times", type=click.IntRange(min=1), default=1, show_default=True, help="How often each."
)
@click.option(
    "--assembler",
    "--compiler",
    "assembler",
    help="Path or version of a ptxas.  [default: the one of the finding]",
)
@click.option(
    "--baseline",
    help="Path or version of another: only what comes out otherwise with it counts. 'none': "
    "without --fault and --ptx-pass.",
)
@click.option("--target", help="Another .target.  [default: the one of the finding]")
@click.option("--opt", "level", type=click.IntRange(0, 3), help="-O level of code for a GPU.")
@click.option(
    "--runner",
    type=click.Choice(["sim", "cuda"]),
    help="Where programs run.  [default: what found them]",
)
@click.option("--junit", type=_FOLDER, help="Write JUnit XML, too: a test for each finding.")
@click.option("--known", type=_FOLDER, help="More known discrepancies, a TOML file.")
@_at_least
@click.option("--quiet", is_flag=True, help="Print only what counts and is not known.")
@_again
@_model
@_json
def replay(path: Path, **options: Any) -> int:
    """Run saved cases again: a corpus, the folder of a finding, a .ptx file, or `record`.

    What is left out is as each finding was made. `record`, where no folder here has that name, is
    what ships with warpfuzz.
    """
    from fuzz.commands.replay import Report, replay_path
    from fuzz.findings.making import ReplayOptions

    names = ("times", "baseline", "junit", "known", "at_least", "quiet", "json")
    report = Report(**{name: options.pop(name) for name in names})
    options["faults"] = options["faults"] or None
    found = replay_path(path, options=ReplayOptions(**options), report=report)
    return Exit.FINDINGS if found else Exit.CLEAN


@app.command()
@click.argument("case")
@_corpus
@click.option("--output", type=_FOLDER, help="The folder.  [default: repro-ID]")
@click.option("--disassembler", type=_FOLDER, help="Path of an nvdisasm.  [default: the one here]")
@click.option(
    "--bisected",
    type=_FOLDER,
    help="File with what `bisect --json` printed: which compilers are wrong.  [default: as found]",
)
@_json
def repro(
    case: str,
    corpus: Path,
    output: Path | None,
    disassembler: Path | None,
    bisected: Path | None,
    json: bool,
) -> int:
    """Write a folder that reproduces a finding without warpfuzz: CASE is its folder or its id."""
    from fuzz.commands.repro import reproduce

    reproduce(
        case, corpus=corpus, output=output, disassembler=disassembler, bisected=bisected, json=json
    )
    return Exit.CLEAN


@app.command()
@click.argument("case")
@_corpus
@click.option(
    "--compilers",
    help="Versions, paths or folders of ptxas with commas between them; `installed`, or `all` to "
    "fetch what is missing.  [default: installed]",
)
@click.option("--opt", "levels", help="-O levels: 0,1,2,3.  [default: all]")
@click.option("--target", help="Another .target.  [default: that of the finding]")
@click.option(
    "--ptx-version",
    help="Value of .version.  [default: that of the finding, or the highest that a compiler knows]",
)
@click.option(
    "--runner",
    type=click.Choice(["sim", "cuda"]),
    help="Where programs run.  [default: what found them]",
)
@click.option(
    "--times",
    type=click.IntRange(min=1),
    help="Runs of each compiler.  [default: as many as the failure's rate asks for]",
)
@click.option(
    "--disassembler",
    type=_FOLDER,
    help="An nvdisasm, for notes of changed expansions.  [default: the one that is here]",
)
@_at_least
@_again
@_model
@_json
def bisect(case: str, **options: Any) -> int:
    """Find the first compiler version and -O level that changes a finding's result."""
    from fuzz.commands.bisect import bisect_case
    from fuzz.findings.making import ReplayOptions

    names = ("runner", "target", "ptx_version", "faults", "ptx_pass", "front_end", "trust", "model")
    made = {name: options.pop(name) for name in names}
    made["faults"] = made["faults"] or None
    found = bisect_case(case, options=ReplayOptions(**made), **options)
    return Exit.FINDINGS if found else Exit.CLEAN


@app.command()
@click.argument("instruction")
@_module
@_json
def explain(instruction: str, target: str, ptx_version: str, json: bool) -> int:
    """Say whether an instruction is legal, and why not; `add` and the like are not judged."""
    from fuzz.commands.legality import explain_one

    explain_one(instruction, target=target, ptx_version=ptx_version, json=json)
    return Exit.CLEAN


@app.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--target", help=f"Value of .target.  [default: the module's, else {DEFAULT_TARGET}]")
@click.option(
    "--ptx-version", help=f"Value of .version.  [default: the module's, else {DEFAULT_VERSION}]"
)
@_json
def legal(file: Path, target: str | None, ptx_version: str | None, json: bool) -> int:
    """Judge a file: one verdict for each line, in order (- is standard input).

    Verdicts are legal, illegal, undefined, and not judged, for other instructions of PTX. Of a
    .ptx file that is a module, the matrix instructions are judged.
    """
    from fuzz.commands.legality import judge_file

    judge_file(file, target=target, ptx_version=ptx_version, json=json)
    return Exit.CLEAN


@app.command()
@_only_module
@_json
def isa(target: str | None, ptx_version: str | None, only: str, json: bool) -> int:
    """List the documented forms."""
    from fuzz.commands.isa import list_forms

    list_forms(target=target, ptx_version=ptx_version, only=only, json=json)
    return Exit.CLEAN


@app.command()
@click.option("--only", default="*", help="Faults whose name fits: 'f64-*', 'subnormals'.")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=20, show_default=True, help="How many campaigns."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**64 - 1),
    default=0,
    show_default=True,
    help="The first; the others come after it.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="Images after which a campaign gives up.",
)
@click.option(
    "--baseline-limit",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    help="The same where contents are uniform or normal.",
)
@click.option(
    "--contents",
    type=click.Choice(["warpfuzz", "uniform", "normal"]),
    multiple=True,
    help="What fills the images; again for others.  [default: all]",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, _MOST_PROCESSES),
    help="Processes.  [default: one for each core]",
)
@click.option("--list", "names", is_flag=True, help="List the faults, and plant none.")
@click.option("--lines", is_flag=True, help="Count the lines that campaigns end with.")
@click.option(
    "--images",
    type=click.IntRange(min=1),
    default=4_000,
    show_default=True,
    help="Images of each campaign of --lines.",
)
@click.option("--coverage", is_flag=True, help="Draw programs only, and count what they reach.")
@click.option(
    "--programs",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="How many for --coverage.",
)
@click.option("--target", help="Value of .target.  [default: sm_100a, which has every form]")
@click.option("--ptx-version", help="Value of .version.  [default: one that knows the target]")
@_json
@click.pass_context
def bench(context: click.Context, /, **options: Any) -> int:
    """Plant faults, and measure after how many images each is found."""
    from fuzz.commands.bench import Request, check_options, list_faults, run_bench

    if options.pop("names"):
        list_faults(options["only"], json=options["json"])
        return Exit.CLEAN
    check_options(
        {name for name in options if context.get_parameter_source(name) != ParameterSource.DEFAULT}
    )
    return Exit.FINDINGS if run_bench(Request(**options)) else Exit.CLEAN


@app.command()
@click.option(
    "--runner",
    type=click.Choice(["sim", "cuda"]),
    help="What is measured: a GPU, or the simulated device.  [default: cuda]",
)
@click.option(
    "--device", type=click.IntRange(min=0), default=0, show_default=True, help="Number of the GPU."
)
@click.option("--target", help="Architecture of the simulated device.  [default: sm_90]")
@click.option(
    "--ptx-version",
    help="Value of .version.  [default: the first that has all forms of the target]",
)
@click.option("--output", type=_FOLDER, help="Write the model to this TOML file.")
@click.option(
    "--only", default="*", help="Units of forms whose opcode fits: 'wmma.mma.*bf16*'; a part."
)
@click.option(
    "--images",
    type=click.IntRange(min=1),
    help="Random images that confirm each unit.  [default: 1,048,576 on a GPU, else 1,024]",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**31 - 1),
    default=0,
    show_default=True,
    help="Of the random images.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, _MOST_PROCESSES),
    help="Processes that confirm on a GPU.  [default: cores less one]",
)
@click.option("--fault", "faults", multiple=True, help="Plant a fault; again for others.")
@click.option(
    "--assembler",
    help="A ptxas whose code is measured, by path or version.  [default: the driver's]",
)
@click.option(
    "--compilers",
    help="Several, with commas: versions, paths, all, driver. The model says which computes how.",
)
@_json
def measure(**options: Any) -> int:
    """Find out by probes how a device computes, and write it down as a model."""
    from fuzz.commands.measure import MeasureRequest, measure_device

    return Exit.FINDINGS if measure_device(MeasureRequest(**options)) else Exit.CLEAN


@app.command()
@click.option(
    "--images", type=click.IntRange(min=4), default=8192, show_default=True, help="About how many."
)
@click.option("--output", type=_FOLDER, required=True, help="The file.")
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**64 - 1),
    default=0,
    show_default=True,
    help="Same seed, same set.",
)
@click.option(
    "--target", default=DEFAULT_TARGET, show_default=True, help="Value of .target: of the GPUs."
)
@click.option("--ptx-version", help="Value of .version.  [default: one that knows the target]")
@click.option("--only", default="*", help="Forms whose opcode fits: 'wmma.mma*f64', 'ldmatrix'.")
@_model
@_json
def distill(**options: Any) -> int:
    """Make a screening set: programs, images and what must come out, in one file."""
    from fuzz.commands.distill import make_set

    make_set(**options)
    return Exit.CLEAN


@app.command()
@click.argument("path", metavar="[SET]", type=_FOLDER, required=False)
@click.option("--time", default="60", show_default=True, help="How long: 90, 10m, 2h, 1w.")
@click.option(
    "--device",
    "devices",
    type=click.IntRange(min=0),
    multiple=True,
    help="Number of a GPU; again for others.  [default: all]",
)
@click.option(
    "--pattern",
    type=click.Choice(["steady", "bursts"]),
    default="steady",
    show_default=True,
    help="Load all the time, or in steps from idle to full of 1 ms to 1 s.",
)
@_fleet
@click.option(
    "--runner",
    type=click.Choice(["sim", "cuda"]),
    help="What is screened: GPUs, or the simulated device.  [default: cuda]",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**64 - 1),
    default=0,
    show_default=True,
    help="Of the set that is made where none is given, and of the steps of `bursts`.",
)
@click.option("--target", help="Value of .target where no set is given.  [default: the device's]")
@_corpus
@click.option("--assembler", help="Path or version of a ptxas.  [default: the driver's compiler]")
@click.option("--opt", "level", type=click.IntRange(0, 3), help="-O level of code for a GPU.")
@_planted
@_model
@click.option("--known", type=_FOLDER, help="More known discrepancies, a TOML file.")
@click.option("--junit", type=_FOLDER, help="Write JUnit XML, too: a test for a multiprocessor.")
@click.option("--report", type=_FOLDER, help="Write the final report as .svg or .html, too.")
@_metrics
@_json
def screen(**options: Any) -> int:
    """Run every image of a set on every multiprocessor, again and again, and compare there.

    Without a set, one is made while the GPU works on what is there already.
    """
    if options["fleet"] is not None:
        from fuzz.commands.screen_fleet import screen_fleet

        return Exit.FINDINGS if screen_fleet(options) else Exit.CLEAN
    del options["fleet"], options["gpus"]
    from fuzz.commands.screen import ScreenRequest, run_screening

    return Exit.FINDINGS if run_screening(ScreenRequest(**options)) else Exit.CLEAN


@app.command()
@click.argument("corpora", metavar="[CORPUS]...", type=_FOLDER, nargs=-1)
@click.option("--watch", is_flag=True, help="Again and again, until no campaign runs any more.")
@_json
def status(corpora: tuple[Path, ...], watch: bool, json: bool) -> int:
    """Show campaigns that run elsewhere, or have ended, from the files in their corpora.

    Several, such as the shards of an array, are summed up.
    """
    from fuzz.commands.status import show_status

    show_status(corpora or (DEFAULT_CORPUS,), watch=watch, json=json)
    return Exit.CLEAN


@app.command()
@_json
def doctor(json: bool) -> int:
    """Say what is here, what is missing, and what each missing part would give."""
    from fuzz.commands.doctor import examine

    examine(json=json)
    return Exit.CLEAN


@app.group()
def compilers() -> None:
    """List and fetch the assemblers and front ends that warpfuzz can use."""


@compilers.command("list")
@_json
def compilers_list(json: bool) -> int:
    """List the assemblers and front ends that are here."""
    from fuzz.commands.compilers import list_compilers

    list_compilers(json=json)
    return Exit.CLEAN


@compilers.command("fetch")
@click.argument("versions", nargs=-1, required=True)
@_json
def compilers_fetch(versions: tuple[str, ...], json: bool) -> int:
    """Fetch assemblers (13.5 11.8) and front ends (llvm:15) through pip, into the cache."""
    from fuzz.commands.compilers import fetch_compilers

    fetch_compilers(versions, json=json)
    return Exit.CLEAN


@app.group()
def corpus() -> None:
    """List, show, merge, prune, compare, export and import findings."""


@corpus.command("list")
@click.argument("path", type=_FOLDER, default=DEFAULT_CORPUS)
@click.option("--known", type=_FOLDER, help="More known discrepancies, a TOML file.")
@_json
def corpus_list(path: Path, known: Path | None, json: bool) -> int:
    """List families, worst first, each with its smallest finding.

    `record`, where no folder here has that name, is what ships with warpfuzz.
    """
    from fuzz.commands.corpus import list_findings

    list_findings(path, known=known, json=json)
    return Exit.CLEAN


@corpus.command("show")
@click.argument("finding")
@_corpus
@_json
def corpus_show(finding: str, corpus: Path, json: bool) -> int:
    """Show a finding with everything that is known of it: FINDING is its folder or its id."""
    from fuzz.commands.corpus import show_finding

    show_finding(corpus, finding, json=json)
    return Exit.CLEAN


@corpus.command("merge")
@click.argument("destination", type=_FOLDER)
@click.argument("sources", type=_FOLDER, nargs=-1, required=True)
@_json
def corpus_merge(destination: Path, sources: tuple[Path, ...], json: bool) -> int:
    """Add the findings of other corpora, folders or exported .zip files, to the first.

    It is made if it is not there. What it has stays as it is.
    """
    from fuzz.commands.corpus import merge_corpora

    merge_corpora(destination, sources, json=json)
    return Exit.CLEAN


@corpus.command("prune")
@click.argument("path", type=_FOLDER, default=DEFAULT_CORPUS)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@_json
def corpus_prune(path: Path, dry_run: bool, json: bool) -> int:
    """Keep the smallest finding of each family."""
    from fuzz.commands.corpus import prune_corpus

    prune_corpus(path, dry_run=dry_run, json=json)
    return Exit.CLEAN


@corpus.command("diff")
@click.argument("left", type=_FOLDER)
@click.argument("right", type=_FOLDER)
@_json
def corpus_diff(left: Path, right: Path, json: bool) -> int:
    """Compare two corpora; exit code 1 if they differ."""
    from fuzz.commands.corpus import compare_corpora

    return Exit.FINDINGS if compare_corpora(left, right, json=json) else Exit.CLEAN


@corpus.command("check")
@click.argument("path", type=_FOLDER, default=DEFAULT_CORPUS)
@_json
def corpus_check(path: Path, json: bool) -> int:
    """Read everything in a corpus, and say what is wrong with it; exit code 3 if anything is."""
    from fuzz.commands.corpus import check_corpus

    check_corpus(path, json=json)
    return Exit.CLEAN


@corpus.command("mark-known")
@click.argument("finding")
@_corpus
@click.option("--reason", required=True, help="Why it needs not be reported.")
@click.option("--evidence", help="A text or a page that shows it.  [default: the finding]")
@click.option(
    "--until",
    type=click.DateTime(formats=["%Y-%m-%d"]),
    help="The last day on which it holds: 2027-01-31.  [default: for good]",
)
@click.option(
    "--known",
    type=_FOLDER,
    default=Path("known.toml"),
    show_default=True,
    help="The TOML file that it is added to.",
)
@_json
def corpus_mark_known(
    finding: str,
    corpus: Path,
    reason: str,
    evidence: str | None,
    until: datetime | None,
    known: Path,
    json: bool,
) -> int:
    """Mark the family of a finding as known: FINDING is its folder or its id.

    Commands that are given the file with --known count and show what is known, and do not end
    with 1 for it.
    """
    from fuzz.commands.corpus import mark_finding

    day = None if until is None else until.date()
    mark_finding(finding, corpus, reason, evidence=evidence, until=day, known=known, json=json)
    return Exit.CLEAN


@corpus.command("export")
@click.argument("path", type=_FOLDER)
@click.argument("file", type=_FOLDER)
@_json
def corpus_export(path: Path, file: Path, json: bool) -> int:
    """Write a corpus into one file, .zip or .jsonl."""
    from fuzz.commands.corpus import export_corpus

    export_corpus(path, file, json=json)
    return Exit.CLEAN


@corpus.command("import")
@click.argument("folder", type=_FOLDER)
@_corpus
@_json
def corpus_import(folder: Path, corpus: Path, json: bool) -> int:
    """Add a case written by hand, a folder with a module and a description; or an exported .zip."""
    from fuzz.commands.corpus import import_by_hand

    import_by_hand(corpus, folder, json=json)
    return Exit.CLEAN


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
