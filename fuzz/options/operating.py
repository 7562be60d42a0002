"""The options of the commands for machines and what is kept: screening, status, models, corpora."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

import fuzz.options.testing  # noqa: F401 - its commands come first
from fuzz.options.declared import DEFAULT_CORPUS, Options, argument, option, shared
from oracle.isa.targets import DEFAULT_TARGET


class Distill(Options, words="distill", runs="screen:make_set"):
    """Make a screening set: programs, and what their images are filled with, in one file."""

    images: int = shared(
        "images", "About how many images the set holds.", type=click.IntRange(min=4), default=8192
    )
    output: Path = shared("output", "The file.", required=True)
    seed: int = shared("seed")
    target: str = shared("target", "Architecture of the GPUs to screen.", default=DEFAULT_TARGET)
    ptx_version: str | None = shared("chosen_version")
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
        "power supply.", type=click.Choice(["steady", "bursts"]), default="steady",
    )  # fmt: skip
    fresh: bool = option(
        "Once a program is verified on every multiprocessor, go on with images that the device "
        "makes and compares with a second reference that runs there."
    )
    preflight: bool = option(
        "Check GPUs before a job starts: screen every kind of instruction whose arithmetic is "
        "known, and print one JSON line for each GPU; the exit code is 0 only if all are sound."
    )
    runner: str | None = shared("runner", "What is screened.  [default: cuda]")
    seed: int = shared("seed", "Seed of the set that is made without SET, and of --pattern bursts.")
    target: str | None = shared("chosen_target")
    only: str = shared("only")
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


class Status(Options, words="status", runs="corpus:show_status"):
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


class ModelsList(Options, words="models list", runs="reference:list_models"):
    """List the GPU architectures whose arithmetic is built in."""


class ModelsShow(Options, words="models show", runs="reference:show_model"):
    """Show how a GPU architecture computes, as far as it is known, with the source of each figure.

    NAME is a target, such as sm_90, or a file that `warpfuzz measure` wrote.
    """

    name: str = argument()


class ModelsExport(Options, words="models export", runs="reference:export_model"):
    """Write how a GPU architecture computes as TOML or JSON, which --model takes, or as a C header.

    NAME is a target, such as sm_90, or a file that `warpfuzz measure` wrote.
    """

    name: str = argument()
    format: str = option("The format.", type=click.Choice(["toml", "json", "c"]), default="toml")
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


COMMANDS = Options.__subclasses__()
"""Every command, in the order of `--help`."""
