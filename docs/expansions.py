"""Asks every compiler which machine instructions it makes of every documented form.

Usage:

    python docs/expansions.py --compilers FOLDER [--disassembler PATH]... [--corpus CORPUS]
        TARGET... > docs/expansions.md

The programs are those of `warpfuzz run --compilers`: for every multiplication of a target the
simplest one in global memory, and the simplest one with A and D in shared memory; for every
ldmatrix the simplest one. They are compiled at -O0 to -O3 with the lowest PTX ISA version that
every compiler takes and that knows the target. Changes are stored as notes in CORPUS, and
`warpfuzz bisect CORPUS/findings/ID` asks the compilers again. Where one nvdisasm does not take the
code of a target, the next one is asked.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpus import Corpus, create_corpus
from fuzz.checks.compiler_suspects import note_case
from fuzz.compilers.matrix import (
    Matrix,
    Note,
    in_shared_memory,
    listings,
    notes_of,
    survey_programs,
    words,
)
from fuzz.compilers.members import Member, NoDevice, members_of
from fuzz.output import generator
from oracle.errors import InfrastructureError
from oracle.forms import Form
from oracle.program import Program
from oracle.targets import Module, parse_target, parse_version
from runners.assemblers.disassembly import Disassembler, find_disassembler
from runners.compilers import LEVELS, select
from runners.emission import emit_all
from strategies.draws import Selection
from strategies.program_draws import selected_forms

OLDEST = "7.7"
"""The highest PTX ISA version of ptxas 11.7, the oldest one."""
LEVEL = 3
"""Whose expansions are listed: what ptxas does if nobody asks for a level."""
Key = tuple[Form, Program]


@dataclass(frozen=True, kw_only=True)
class Surveyed:
    """One target."""

    target: str
    version: str
    members: Sequence[Member]
    listings: int
    """Kernels that were disassembled, or are equal to one that was."""
    programs: Sequence[Key]
    newest: Sequence[Counter[str]]
    """Matrix instructions of each program as the newest compiler has them at `LEVEL`."""
    notes: Sequence[Note]


def survey(
    target: str, members: Sequence[Member], tools: Sequence[Disassembler]
) -> Surveyed | None:
    """Compile all programs of a target with all members; None if none of them knows it."""
    version = str(max(parse_version(OLDEST), parse_target(target).since))
    fit = [one for one in members if one.toolchain.knows(target, version, target)]
    if not fit:
        return None

    def disassemble(code: bytes) -> dict[str, Counter[str]]:
        for tool in tools[:-1]:
            try:
                return tool.expansions(code)
            except InfrastructureError:
                continue
        return tools[-1].expansions(code)

    forms = selected_forms(Selection(), target=target, version=version)
    programs = list(survey_programs(forms, target=target, version=version, seed=0))
    entries = {f"form_{number}": program for number, (_, program) in enumerate(programs)}
    module = emit_all(entries, module=Module.named(target, version))
    with Matrix(NoDevice(), fit, jobs=os.cpu_count() or 1) as matrix:
        built = matrix.start(module).wait()
        for member, failure in built.failed.items():
            raise SystemExit(f"{member.name} does not compile {target}: {failure}")
        seen = listings(matrix, built, disassemble)
    notes, newest = [], []
    last = max((one for one in fit if one.level == LEVEL), key=fit.index)
    for entry, (form, program) in zip(entries, programs, strict=True):
        own = {member: seen[member].get(entry, Counter()) for member in fit}
        notes += notes_of(form, program, own)
        newest.append(own[last])
    return Surveyed(
        target=target, version=version, members=fit, listings=len(fit) * len(programs),
        programs=programs, newest=newest, notes=notes,
    )  # fmt: skip


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compilers", default="installed")
    parser.add_argument("--disassembler", type=Path, action="append")
    parser.add_argument("--corpus", type=Path, help="where changes are kept")
    parser.add_argument("targets", nargs="+")
    options = parser.parse_args()
    tools = [find_disassembler(path) for path in options.disassembler or [None]]
    found = [tool for tool in tools if tool is not None]
    if not found:
        raise SystemExit("no nvdisasm is here; name one with --disassembler")
    members = members_of(select(options.compilers), LEVELS)
    corpus = create_corpus(options.corpus, generator=generator()) if options.corpus else None
    surveys = [one for name in options.targets if (one := survey(name, members, found))]
    releases = [one.version.removeprefix("V") for one in members if one.level == LEVEL]
    print("# Machine instructions of every form\n")
    half = len(releases) // 2
    print(f"Asked were ptxas {', '.join(releases[:half])},")
    print(f"{', '.join(releases[half:])}")
    print("at -O0 to -O3, as far as each knows the target; the code was read with nvdisasm")
    print(f"{' and '.join(tool.version.removeprefix('V') for tool in found)}. Written by")
    print("`python docs/expansions.py --compilers FOLDER --disassembler PATH TARGET...`.\n")
    _print_changes(surveys, corpus)
    _print_expansions(surveys)


def _print_changes(surveys: Sequence[Surveyed], corpus: Corpus | None) -> None:
    print("## Changes from version to version\n")
    print("| target | PTX ISA | ptxas | programs | listings | changed |")
    print("|---|---|---|---|---|---|")
    for one in surveys:
        first, last = one.members[0].version, one.members[-1].version
        count = len({member.version for member in one.members})
        print(
            f"| {one.target} | {one.version} | {count}: {first} to {last} | {len(one.programs)} | "
            f"{one.listings:,} | {len({note.program for note in one.notes})} |"
        )
    rows: dict[tuple[str, ...], list[tuple[Note, str]]] = defaultdict(list)
    for one in surveys:
        for note in one.notes:
            where = "shared" if note.shared else "global"
            levels = " ".join(f"-O{level}" for level in note.levels)
            change = (one.target, note.before_version, note.after_version, where, levels)
            rows[*change, note.before, note.after].append((note, one.version))
    if not rows:
        print("\nNo expansion changed.")
        return
    print("\n| target | from | to | memory | levels | before | after | forms | first form, case |")
    print(f"|{'---|' * 9}")
    for key, some in rows.items():
        note, version = some[0]
        case = ""
        if corpus is not None:
            case = f" {corpus.add(*note_case(note, target=key[0], version=version)).id}"
        print(f"| {' | '.join(key)} | {len(some)} | `{note.form}`{case} |")


def _print_expansions(surveys: Sequence[Surveyed]) -> None:
    print("\n## What the newest ptxas makes of a multiplication (-O3, matrices in global memory)\n")
    print("Both layouts row-major and column-major where the form has the choice. Loads and")
    print("transpositions of fragments (LDSM, MOVM) are left out here.\n")
    names = [one.target for one in surveys]
    table: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for one in surveys:
        for (form, program), found in zip(one.programs, one.newest, strict=True):
            if form.mnemonic == "wmma.mma" and not in_shared_memory(program):
                cell = table[_without_layouts(form)].setdefault(one.target, set())
                cell.add(words(_multiplications(found)))
    said = {
        text: [" or ".join(sorted(by_target.get(name, {"–"}))) for name in names]
        for text, by_target in table.items()
    }
    print("\n".join(table_lines(names, said)))


def table_lines(targets: Sequence[str], said: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a table of what each target does with each form; what is equal stands together."""
    columns: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for target, column in zip(targets, zip(*said.values(), strict=True), strict=True):
        columns[column].append(target)
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for text, cells in zip(said, zip(*columns, strict=True), strict=True):
        rows[cells].append(text)
    yield f"| form | {' | '.join(', '.join(some) for some in columns.values())} |"
    yield f"|{'---|' * (len(columns) + 1)}"
    for cells, texts in rows.items():
        yield f"| {', '.join(f'`{text}`' for text in texts)} | {' | '.join(cells)} |"


def _without_layouts(form: Form) -> str:
    parts = form.opcode.removeprefix("wmma.mma.").removeprefix("sync.aligned.").split(".")
    return ".".join(part for part in parts if part not in ("row", "col", "sync", "aligned"))


def _multiplications(found: Mapping[str, int]) -> Counter[str]:
    return Counter(
        {name: count for name, count in found.items() if not name.startswith(("LDSM", "MOVM"))}
    )


if __name__ == "__main__":
    main()
