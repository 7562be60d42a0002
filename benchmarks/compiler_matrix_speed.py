"""All compilers at all levels over many drawn programs: what differs, and how long it takes.

Prints a table in Markdown: programs, binaries, differences, time. Runs offline, with whatever
assemblers a folder holds (files `ptxas*`, or one in each folder in it).

    python benchmarks/compiler_matrix_speed.py --compilers FOLDER[,driver] [--runner cuda]
        [--programs 1000] [--images 256] [--opt 0,1,2,3] [--seconds 220] [--output table.md]
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path

from corpus import create_corpus
from corpus.known import load_known
from fuzz.campaign.draws import Selection
from fuzz.campaign.limits import Budget
from fuzz.campaign.progress import FamilyState, Progress
from fuzz.checks.compiler_progress import MatrixProgress
from fuzz.checks.compilers import MatrixCampaign, Plan
from fuzz.commands.run_compilers import Where, fitting, ready
from fuzz.compilers.candidates import parse_levels, select
from fuzz.compilers.matrix import Matrix
from fuzz.compilers.members import members_of
from runners.assemblers.disassembly import find_disassembler


class _Silent:
    """Prints families as they are found."""

    def progressed(self, progress: Progress) -> None:
        """Say nothing: the table says it."""

    def found(self, progress: Progress, family: FamilyState) -> None:
        """Print the family."""
        print(f"{family.title}: {family.text}", flush=True)


def main() -> None:
    """Print the table, and write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compilers", default="installed")
    parser.add_argument("--opt", help="-O levels")
    parser.add_argument("--runner", choices=["cuda", "sim", "ptxas"], default="cuda")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=220.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target")
    parser.add_argument("--ptx-version")
    parser.add_argument("--only", default="*")
    parser.add_argument("--corpus", type=Path, help="where findings are kept")
    parser.add_argument("--expansions", action="store_true", help="also disassemble, where it can")
    parser.add_argument("--output", type=Path, help="file for the table")
    options = parser.parse_args()
    members = members_of(select(options.compilers), parse_levels(options.opt))
    with (
        tempfile.TemporaryDirectory() as folder,
        ready(options.runner, options.target, options.ptx_version, options.seed) as place,
    ):
        fit = fitting(members, place)
        with Matrix(place.device, fit.members, jobs=os.cpu_count() or 1) as matrix:
            campaign = MatrixCampaign(
                matrix,
                Plan(
                    target=place.target,
                    ptx_version=place.ptx_version,
                    architecture=place.architecture,
                    selection=Selection(pattern=options.only),
                    budget=Budget(seconds=options.seconds, cases=None),
                    seed=options.seed,
                    images=options.images,
                    programs=options.programs,
                ),
                opened=place.opened,
                corpus=create_corpus(options.corpus or folder, generator="benchmark"),
                known=load_known(),
                observer=_Silent(),
                disassembler=find_disassembler() if options.expansions else None,
            )
            campaign.progress.skipped_members = fit.skipped
            campaign.run()
    text = "\n".join(_table(campaign.progress, place, options.seed)) + "\n"
    print(text)
    if options.output is not None:
        options.output.write_text(text)


def _table(progress: MatrixProgress, place: Where, seed: int) -> Iterator[str]:
    """Yield the lines of the report."""
    versions = list(dict.fromkeys(member.version for member in progress.members))
    levels = sorted({member.level for member in progress.members})
    device = place.opened.device if place.opened is not None else "no device"
    yield (
        f"{device}; {place.target}, PTX ISA {place.ptx_version}; seed {seed}; {os.cpu_count()} "
        f"cores, Python {platform.python_version()}"
    )
    yield ""
    yield (
        "| compilers | -O levels | programs | binaries | different machine codes | images compared "
        "| programs with differences | wrong | not compiled by all | waiting for compilers | "
        "device and oracle | time |"
    )
    yield f"|{'---|' * 12}"
    yield (
        f"| {len(versions)} | {' '.join(map(str, levels))} | {progress.programs:,} | "
        f"{progress.binaries:,} | {progress.distinct:,} | {progress.judged:,} | "
        f"{progress.differences:,} | {progress.wrong:,} | {progress.uncompiled:,} | "
        f"{progress.compile_seconds:.0f} s | {progress.run_seconds:.0f} s | "
        f"{progress.seconds:.0f} s |"
    )
    yield ""
    yield f"Compilers: {', '.join(versions)}."
    for sentence in progress.skipped_members:
        yield f"- {sentence}"
    yield f"{len(progress.families)} families, {progress.unconfirmed} not confirmed."
    for family in progress.families.values():
        yield f"- {family.title} ({family.cases}): `{family.text}`"
    for note in progress.notes:
        yield (
            f"- expansion of `{note.form}`: {note.before} up to {note.before_version}, "
            f"{note.after} from {note.after_version} on (-O{', -O'.join(map(str, note.levels))})"
        )


if __name__ == "__main__":
    main()
