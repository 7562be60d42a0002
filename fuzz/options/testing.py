"""The options of the commands that test a compiler, a device or an instruction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import click

from fuzz.options.declared import (
    COUNT,
    Options,
    PathName,
    Range,
    any_runner,
    argument,
    option,
    shared,
)
from oracle.isa.targets import DEFAULT_TARGET
from runners.variants import SETTINGS

DEVICE_REFERENCE = True
"""Whether campaigns on a GPU compare with the reference there unless they are told: on an H200, 55
programs a second ran with it from the 10th second on (2026-11-24), 36 without (2026-11-23)."""
_GATE_PROGRAMS = 100
"""None wrong in 100: with 95 % confidence fewer than 3 in 100 programs are (rule of three, see
`runners.ledger`); an H200 executes as many in a minute (156 and 217, 2026-11-24)."""
_PTXAS = "versions, paths or folders of ptxas, separated by commas"


class Run(Options, words="run", runs="run:run_campaign"):
    """Run a campaign: draw programs, run them, compare every byte, shrink and store findings."""

    headings: ClassVar[Mapping[str, str]] = {
        "What is tested": "runner target ptx_version only include_undefined assemblers compilers "
        "variants levels front_ends ptx_pass faults model",
        "Which cases, and how long": "time cases findings quiet_time seed shard resume "
        "new trust at_least",
        "On which machine": "devices workers fleet gpus repeat device_reference",
        "What comes out": "corpus known no_known report metrics json",
    }
    runner: str | None = option(
        "`ptxas`: which instructions it accepts. `sim`: programs on the simulated device. `cuda`: "
        "on GPUs. NAME or COMMAND: on a runner of your own.  [default: cuda, ptxas or sim, the "
        "first that is here; with --fleet cuda]",
        **any_runner("ptxas", "sim", "cuda"),
    )
    time: str | None = shared(
        "time",
        "Stop after this time: 90 (seconds), 10m, 2h, 1w. Rounds that run come to an end, and "
        "findings are replayed and made smaller for up to 20 s more.  [default: 60 if no --cases]",
    )
    cases: int | None = option("Stop after this many cases (ptxas: instructions).", type=COUNT)
    findings: int | None = option("Stop after this many new defects (families).", type=COUNT)
    quiet_time: str | None = option("Stop when nothing new was found or covered for this time.")
    seed: int | None = shared("seed", "Seed of all cases.  [default: random]", default=None)
    shard: str | None = option(
        "Run part I of the N parts of the campaign that --seed determines.", metavar="I/N"
    )
    corpus: Path = shared("corpus")
    resume: bool = option(
        "Continue the campaign of the corpus with its options. Limits such as --time stay what "
        "they were unless they are given again, and count from the campaign's beginning."
    )
    new: bool = option("Start a new campaign in the corpus of an old one; its findings stay.")
    trust: bool = shared("trust", "With --resume: allow the commands that the campaign names.")
    workers: int | None = shared(
        "workers",
        "Number of worker processes (with --fleet: for each GPU).  [default: one for each core, "
        "and beside GPUs one more for every 8]",
    )
    devices: tuple[int, ...] = shared("devices")
    fleet: str | None = option(
        "Use all GPUs of a Ray cluster: `auto`, `ray://HOST:PORT`, or `local` for this machine.",
        metavar="ADDRESS",
    )
    gpus: int | None = option(
        "Use at most this many GPUs of the --fleet; without GPUs, this many Ray actors.", type=COUNT
    )
    repeat: float = option(
        "Percent of a --fleet's rounds that a second GPU repeats.", type=Range(0, 100), default=1.0
    )
    target: str | None = shared("target", "Only this .target.  [default: the device's, or all]")
    ptx_version: str | None = shared("ptx_version", "Only this .version.  [default: all]")
    only: str = shared("only")
    device_reference: bool = option(
        "Run verified programs on millions of images that the device makes and compares with a "
        "second reference; the oracle judges what differs. Counted apart from the cases.  "
        "[default: with --runner cuda, one compiler and no --front-end]",
        "--device-reference/--no-device-reference", default=DEVICE_REFERENCE,
    )  # fmt: skip
    include_undefined: bool = option(
        "Also run programs that the ISA leaves undefined; their outcomes are counted, not judged."
    )
    assemblers: tuple[str, ...] = shared(
        "assemblers",
        "ptxas by path or version: with --runner ptxas the one to test (others are compared with "
        "the first), else the one that compiles.  [default with cuda: the driver's compiler]",
    )
    faults: tuple[str, ...] = shared("faults")
    ptx_pass: str | None = shared("ptx_pass")
    front_ends: tuple[str, ...] = option(
        "Test a compiler that writes PTX: `llvm` is given LLVM IR, `nvcc` and `nvrtc` CUDA C++; "
        "the newest here, or `llvm:15`, `nvrtc:12.4`, `nvcc:FOLDER` of a toolkit; `llvm:COMMAND` "
        "reads source from standard input and writes PTX to standard output, with {level}, "
        "{target} and {ptx} filled in. Several, separated by commas, are compared.",
        "--front-end",
    )
    model: str | None = shared("model")
    levels: str | None = shared(
        "levels", "-O level, 0 to 3; with --compilers or --front-end also several, such as 0,1,2,3."
    )
    compilers: str | None = shared(
        "compilers",
        f"Build every program with each of these and compare all results: {_PTXAS}; `driver`, "
        "`installed`, or `all` (fetches every version).",
    )
    variants: tuple[str, ...] = shared(
        "variants",
        "Also build every program with these options, by each ptxas of --compilers; repeat for "
        f"several. Names: {', '.join(SETTINGS)}. For one compiler alone: 13.5+maxrregcount=32.",
    )
    at_least: int | None = shared("at_least")
    known: Path | None = shared("known")
    no_known: bool = shared("no_known")
    report: Path | None = shared("report")
    metrics: str | None = shared("metrics")
    # What the command finds out of them.
    level: int | None = None
    matrix: bool = False  # compilers are compared with each other
    chosen: bool = False  # somebody chose the runner


class Replay(Options, words="replay", runs="replay:replay_path"):
    """Run saved cases again: PATH is a corpus, the folder of a finding, a .ptx file, or `record`.

    Options that are not given are those with which each case was found. `record` names the
    findings that ship with warpfuzz, unless there is a folder of that name.
    """

    path: Path = argument()
    times: int = shared("times", default=1)
    assembler: str | None = option(
        "Path or version of a ptxas.  [default: the one with which the finding was made]",
        "--assembler", "--compiler",
    )  # fmt: skip
    baseline: str | None = option(
        "Reference ptxas, by path or version: report only results that differ from its. 'none': "
        "the same ptxas without --fault and --ptx-pass."
    )
    variant: str | None = shared("variant")
    target: str | None = shared("chosen_target")
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
    disassembler: Path | None = option("Path of an nvdisasm.  [default: the one installed]")
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
        f"Try {_PTXAS}; `installed`; `all` fetches all.  [default: installed]",
    )
    variant: str | None = shared("variant")
    levels: str | None = shared("levels")
    target: str | None = shared("chosen_target")
    ptx_version: str | None = shared("chosen_version")
    runner: str | None = shared("runner")
    times: int | None = shared(
        "times", "Run each build this many times.  [default: as the finding's rate requires]"
    )
    at_least: int | None = shared("at_least")
    trust: bool = shared("trust")
    faults: tuple[str, ...] = shared("again_faults")
    ptx_pass: str | None = shared("again_ptx_pass")
    front_end: str | None = shared(
        "again_front_end",
        "Try these compilers that write PTX, separated by commas; 'none' tries ptxas.  [default: "
        "the installed versions of the one that the finding is about]",
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
    runner: str | None = shared("any_runner", "Where the kernel runs.  [default: cuda]")
    compilers: str | None = shared(
        "compilers", f"Compare {_PTXAS}; `installed`, `all`, `driver`.  [default: installed,driver]"
    )
    levels: str | None = shared("levels")
    target: str | None = shared("chosen_target")
    images: int = shared("images", "How many different buffer contents to try.", default=64)
    seed: int = shared("seed", "Seed of the buffer contents.")
    device: int = shared("device")
    corpus: Path = shared("corpus")
    faults: tuple[str, ...] = shared("faults")
    ptx_pass: str | None = shared("ptx_pass")
    known: Path | None = shared("known")
    no_known: bool = shared("no_known")
    junit: Path | None = shared("junit")


class Reduce(Options, words="reduce", runs="judge:reduce"):
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
        "A build leaves another result than the simulated device and another build, and nothing "
        "races or is undefined. Needs a GPU, or --runner sim with --ptx-pass or --fault."
    )
    command: str | None = option(
        "This shell command ends with 0; {} in it, or its last word, is the module.", metavar="CMD"
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
    memory: int = option("MiB of memory for each run.", type=click.IntRange(64), default=4096)
    output: Path | None = shared("output", "File of the result.  [default: MODULE.small.ptx]")


class Conform(Options, words="conform", runs="conform:conform"):
    """Test an emulator, a translator or another device: every instruction form, one verdict each.

    RUNNER is `sim`, `cuda`, or a runner of your own: its name or its command. Every instruction
    form is run with every layout, state space and stride, and gets a verdict: the same bits as the
    model of the target, other bits that the ISA permits, wrong, or not implemented. Standard output
    is TAP, a line for each form.
    """

    runner: str = argument(**{**any_runner("sim", "cuda"), "metavar": "RUNNER"})
    only: str = shared("only")
    images: int = shared("images", "Images for a form.", type=click.IntRange(1, 65_536), default=38)
    target: str | None = shared("chosen_target")
    ptx_version: str | None = shared("chosen_version")
    workers: int = shared("workers", "Forms at the same time, each in a process.", default=1)
    assembler: str | None = shared("assembler")
    level: int | None = shared("level")
    deadline: float | None = option(
        "Seconds for all images of one form.  [default: 60]", type=Range(min=0, min_open=True)
    )
    expectations: Path | None = option(
        "TOML file of forms that are to fail or to be missing; any other outcome is a failure."
    )
    update_expectations: bool = option("Write the outcomes into the file of --expectations.")
    save_failing: Path | None = option(
        "Folder for what fails: of each form module.ptx, input.npy, expected.npy and actual.npy."
    )
    tap: Path | None = option("Also write TAP into this file.")
    junit: Path | None = shared("junit", "Also write JUnit XML: one test for each form.")
    model: str | None = shared("model")
    faults: tuple[str, ...] = shared("faults")
    ptx_pass: str | None = shared("ptx_pass")
    device: int = shared("device")


class Gate(Options, words="gate", runs="gate:gate"):
    """Say whether the compiler NEW may be taken in place of OLD.

    Both are tried on every finding that ships with warpfuzz, compile new programs at all levels and
    with some options, and are timed. REJECT (exit code 1): NEW has a new finding, other bits or a
    crash, or is slower. UNKNOWN (3): fewer new programs than --at-least were executed. Else ACCEPT
    (0).
    """

    old: str = argument()
    new: str = argument()
    time: str = shared("time", "How long it takes in all: 90 (seconds), 10m, 2h.", default="10m")
    runner: str | None = option(
        "Where programs run; `ptxas` only compiles them.  [default: cuda if there is a GPU, else "
        "ptxas; sim for front ends]",
        type=click.Choice(["ptxas", "sim", "cuda"]),
    )
    device: int = shared("device")
    levels: str | None = shared("levels")
    variants: tuple[str, ...] = shared(
        "variants",
        "Also compile with these options of ptxas, at the highest level; repeat for several, or "
        "'none'.  [default: maxrregcount=32, regAllocOptLevel=2, process=last, and each target "
        "that runs the same code]",
    )
    slower: float = option("How many times OLD's time NEW may take.", type=Range(1), default=1.5)
    target: str | None = shared("target", "Only this .target.  [default: the device's]")
    only: str = shared("only")
    at_least: int = shared(
        "at_least", "UNKNOWN if both executed fewer than N new programs; 0: compiling is enough.",
        type=click.IntRange(min=0), default=_GATE_PROGRAMS,
    )  # fmt: skip
    seed: int | None = shared("seed", "Seed of the programs.  [default: random]", default=None)
    workers: int | None = shared("workers", "Worker processes.  [default: one for each core]")
    corpus: Path | None = shared(
        "corpus", "Folder where findings are kept.  [default: gate-OLD-NEW]", default=None
    )
    known: Path | None = shared("known")
    no_known: bool = shared("no_known")
    junit: Path | None = shared("junit", "Also write JUnit XML, one test for each line.")
    report: Path | None = shared("report", "Also write the result as a page, .html.")


class Explain(Options, words="explain", runs="reference:explain_one"):
    """Say whether an instruction is legal, and why not.

    Instructions that are no matrix instructions, such as `add`, are not judged. The exit code is 0
    whatever the verdict is; programs read it with --json.
    """

    instruction: str = argument(type=str)
    target: str = shared("target", default=DEFAULT_TARGET)
    ptx_version: str | None = shared("chosen_version")


class Legal(Options, words="legal", runs="reference:judge_file"):
    """Judge a file of instructions: one verdict for each line, in order (- is standard input).

    Verdicts are legal, illegal, undefined, and not judged (for other instructions of PTX). Of a
    PTX module, the matrix instructions are judged. The exit code is 0 whatever the verdicts are;
    programs read them with --json.
    """

    file: Path = argument(type=PathName(path_type=Path, allow_dash=True))
    target: str | None = shared("chosen_target")
    ptx_version: str | None = shared("chosen_version")


class Isa(Options, words="isa", runs="reference:list_forms"):
    """List every documented form of the matrix instructions."""

    target: str | None = shared("target", "Only forms of this .target.  [default: all]")
    ptx_version: str | None = shared("ptx_version", "Only of this .version.  [default: all]")
    only: str = shared("only", "Only forms whose opcode matches: 'wmma.load.*f64', 'ldmatrix'.")


class Bench(Options, words="bench", runs="bench:bench"):
    """Plant faults, and measure how many images warpfuzz takes to find each."""

    only: str = shared("only", "Faults whose name matches: 'f64-*', 'subnormals'.")
    seeds: int = option("How many campaigns run for each fault.", type=COUNT, default=20)
    seed: int = shared("seed", "Seed of the first campaign; the others follow it.")
    limit: int = option("Give up after this many images.", type=COUNT, default=100_000)
    baseline_limit: int = option("The same of random numbers.", type=COUNT, default=1_000)
    contents: tuple[str, ...] = option(
        "What the images contain: the value classes of warpfuzz, or random numbers; repeat for "
        "several.  [default: all]",
        type=click.Choice(["warpfuzz", "uniform", "normal"]),
    )
    jobs: int | None = shared("workers", "Number of processes.  [default: one for each core]")
    names: bool = option("Only list the faults, as `warpfuzz faults` does.", "--list")
    lines: bool = option(
        "Run one campaign with each fault, and count the findings in its report: it should be one."
    )
    images: int = shared("images", "How many images each campaign of --lines runs.", default=4_000)
    target: str | None = shared("target", "GPU architecture.  [default: sm_120a]")
    ptx_version: str | None = shared("chosen_version")


class Measure(Options, words="measure", runs="measure:measure_device"):
    """Measure by probes how a GPU's tensor cores compute, and write the figures to a file."""

    runner: str | None = shared("any_runner", "What is measured.  [default: cuda]")
    device: int = shared("device")
    target: str | None = shared("chosen_target")
    ptx_version: str | None = shared("chosen_version")
    output: Path | None = shared("output", "Write the figures to this TOML file, for --model.")
    only: str = shared("only", "Measure only forms whose opcode matches: 'wmma.mma.*bf16*'.")
    images: int | None = shared(
        "images",
        "Random images that check a form, of wgmma as many elements as these have of 16 x 16.  "
        "[default: 1,048,576 on a GPU, else 1,024]",
    )
    seed: int = shared("seed", "Seed of the random images.", type=click.IntRange(0, 2**31 - 1))
    workers: int | None = shared("workers", "Worker processes.  [default: cores less one]")
    faults: tuple[str, ...] = shared("faults")
    assembler: str | None = shared("assembler")
    compilers: str | None = shared(
        "compilers",
        "Measure the code of each of these compilers (versions and paths, separated by commas; "
        "`all`; `driver`); the file says which figures hold for which compiler.",
    )
