"""Writes docs/record.md, and the tables of docs/findings.md, from the record and what is known.

Usage:

    python docs/record.py [VERSION-OR-PATH...]

Assemblers that are named are asked first, and their answers are kept in corpus/record.
"""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from corpus import Entry, Kind
from corpus.finding import WRONG_RESULT
from corpus.known import (
    ANSWERS,
    FOLDER,
    RECORD,
    Answers,
    KnownRow,
    VersionSpan,
    answer_spans,
    answers_about,
    load_known,
    named_corpus,
    read_answers,
)
from fuzz.findings.families import accused
from fuzz.findings.replay import ask, words_of
from fuzz.kinds import KINDS, compiler_words, level_words
from oracle.isa.lookup import SHAPES
from runners.assemblers.assembler import Assembler
from runners.compilers import find_assembler

RECORD_PAGE, TROPHIES = (Path(__file__).with_name(name) for name in ("record.md", "findings.md"))
_TITLES = {
    Kind.CRASH: "Crashes",
    Kind.HANG: "Hangs",
    Kind.INTERNAL: "Internal errors",
    Kind.ACCEPTED: "Accepted, down to a cubin, although undocumented",
    Kind.REJECTED: "Rejected, although documented",
}
_OLDEST = ("11.7", "11.8")
"""Versions before which none was tried, for sm_80 and for sm_90."""
_TABLE = ("| what is wrong | compilers | since | see it |", "|---|---|---|---|")
_SEE = (
    "`warpfuzz run --runner sim --front-end llvm:{} --target sm_80 --ptx-version 7.1 --seed 3 {}`"
)
_LLVM = (
    (
        "mma.sync, mma.sp: moved between two stores of some lanes, so that those lanes alone reach "
        "it. `llvm.nvvm.mma.*` is not `convergent` in 22.1.0, and passes may do this to it.",
        "LLVM 14.0.6, 15.0.7 and 22.1.0 at -O1 to -O3, not 20.1.8; mma.sp 22.1.0, the first that "
        "has it", "14.0.6 or earlier", ("22", "--opt 2"),
    ),
    (
        "ldmatrix: copied into both sides of a condition on the lane (SimplifyCFG), so that each "
        "copy is reached by half of the lanes. `convergent` since llvm-project #174669.",
        "LLVM 20.1.8 at -O1 to -O3, not 14.0.6, 15.0.7 and 22.1.0; with a store of the result "
        "behind it 14.0.6 and 15.0.7, too", "20.1.8", ("20", "--opt 2"),
    ),
    (
        "wmma.load, wmma.store, wmma.mma: copied into both sides of a condition on the lane, in "
        "the same way. None of `llvm.nvvm.wmma.*` is `convergent` up to 22.1.0.",
        "LLVM 14.0.6, 15.0.7, 20.1.8 and 22.1.0 at -O1 to -O3", "14.0.6 or earlier",
        ("22", "--opt 2"),
    ),
    (
        "mma.sync, ldmatrix: moved to where some lanes store the result (MachineSink), so that "
        "those lanes alone reach it; of mma mended by llvm-project #96521.",
        "LLVM 14.0.6 and 15.0.7 at -O1 to -O3, right from 20.1.8", "14.0.6 or earlier",
        ("14", "--opt 0,1,2,3 --only 'mma.sync*'"),
    ),
    (
        'mma.sync of f16: the compiler aborts, "Cannot select: v2f16 = bitcast", where a float is '
        "reinterpreted as `<2 x half>` in registers.",
        "LLVM 14.0.6 at -O1 to -O3, right from 15.0.7", "14.0.6 or earlier",
        ("14", "--opt 0,1,2,3 --only 'mma.sync*'"),
    ),
)  # fmt: skip
"""What is wrong, with whom, since when, and what shows it, on the simulated device: bisected on
2026-11-22; each command ended with 1 on two cores, 2026-11-23."""
MARKS = ("<!-- written by docs/record.py -->\n", "<!-- end -->\n")
"""What stands around the tables on the page of trophies."""


def trophies(rows: Iterable[KnownRow], entries: Sequence[Entry], answers: Answers) -> Iterator[str]:
    """Yield the tables of the page of trophies, in Markdown."""
    yield from ("## Wrong results", "", *_TABLE)
    causes: dict[str, list[KnownRow]] = defaultdict(list)
    for row in rows:
        if WRONG_RESULT in row.failure:
            causes[row.cause].append(row)
    yield from map(_trophy, causes.values())
    yield from ("", "## Code that some lanes alone reach, and crashes: LLVM", "", *_TABLE)
    yield from (
        f"| {what} | {who} | {since} | {_SEE.format(*see)} |" for what, who, since, see in _LLVM
    )
    yield from ("", "## Assemblers: crashes, internal errors, wrong verdicts", "", *_TABLE)
    lines: dict[tuple[Kind, str, str], list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda one: one.finding.identity.text):
        if spans := answer_spans(answers, entry.id):
            mnemonic = re.match(r"wmma\.\w+|\w+", _instruction(entry))
            lines[entry.finding.kind, mnemonic[0] if mnemonic else "", spans].append(entry)
    for (kind, _, spans), found in sorted(
        lines.items(), key=lambda line: (-line[0][0].severity, *line[0][1:])
    ):
        first = next(one for one in spans.split("; ") if not one.startswith("rejected"))
        since = first.rpartition(" ")[2].partition("–")[0]
        oldest = "" if spans.startswith("rejected") else " or earlier"
        units, see = _shapes_together(map(_instruction, found)), found[0].id[:8]
        yield (
            f"| {KINDS[kind].shown or kind}: {units} | {spans} | {since}{oldest} | "
            f"`warpfuzz bisect {see} --corpus record` |"
        )


def _trophy(rows: Sequence[KnownRow]) -> str:
    """Return the line of a bug that gives wrong results, of rows that have one cause."""
    row, finding = rows[0], next((one.finding for one in rows if one.finding), "")
    versions = sorted((one.first for one in row.compilers if one.name == "ptxas"), key=_numbers)
    first = versions[0] if versions else "not known"  # of what was found with the driver alone
    since = f"{first} or earlier" if first in _OLDEST else first
    see = f"`warpfuzz bisect {finding[:8]} --corpus record`, on a GPU" if finding else row.evidence
    cells = row.cause, "; ".join(map(_span, row.compilers)), since, see
    return "| " + " | ".join(one.replace("|", "\\|") for one in cells) + " |"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _span(span: VersionSpan) -> str:
    name = "the driver's compiler of CUDA" if span.name == "driver" else span.name
    versions = span.first if span.first == span.last else f"{span.first} to {span.last}"
    return f"{name} {versions} {level_words([f'-O{one}' for one in span.levels])}"


def _instruction(entry: Entry) -> str:
    """Return what an assembler was given, as the family says it: "wmma.load.a .f64 m16n16k8"."""
    return ", ".join(entry.finding.identity.instructions)


def _shapes_together(names: Iterable[str]) -> str:
    """Name instructions, those that differ in the shape alone together."""
    shapes: dict[str, list[str]] = defaultdict(list)
    for name in names:
        words = name.replace(",", " ,").split()
        shape = [word for word in words if word in SHAPES]
        rest = " ".join(word for word in words if word not in SHAPES).replace(" ,", ",")
        shapes[rest.replace(",,", ",")] += shape
    return "; ".join(" ".join((rest, *of)) for rest, of in shapes.items())


def record_page(entries: Iterable[Entry], answers: Answers) -> Iterator[str]:
    """Yield the lines of the page, in Markdown."""
    asked: dict[Kind, list[Entry]] = defaultdict(list)
    ran: list[Entry] = []
    for entry in entries:
        (asked[entry.finding.kind] if answers_about(answers, entry.id) else ran).append(entry)
    modules = sum(map(len, asked.values()))
    yield from (
        "# Record of what campaigns found in ptxas",
        "",
        f"{modules} findings of assemblers and {len(ran)} of programs on a GPU, in "
        "[corpus/record](../corpus/record), installed with the package.",
        f"Tried were ptxas {', '.join(answers.asked)}.",
        "`warpfuzz replay record --compiler ./new/ptxas` says which of them a new ptxas mends,",
        "keeps or changes; `warpfuzz corpus show ID --corpus record` shows one finding.",
        "`python docs/record.py` writes this page; it first tries the assemblers that are named,",
        "and records their answers. Every module is assembled at -O3 as it is, but for two lines:",
        "if an assembler does not know `.version`, its highest stands there; sm_80 stands for a",
        "`.target` that it does not know.",
    )
    for kind, title in _TITLES.items():
        if asked[kind]:
            yield from (
                "",
                f"## {title}",
                "",
                "| instruction | target | answers | finding |",
                "|---|---|---|---|",
            )
        for entry in sorted(asked[kind], key=lambda one: one.finding.identity.text):
            yield _row(entry, entry.finding.instructions[0], answer_spans(answers, entry.id))
    if ran:
        yield from (
            "",
            "## Wrong results",
            "",
            "Programs on an H200 or an H100, and the compilers and levels whose binaries give a "
            "wrong result.",
            "",
            "| instruction | target | wrong with | finding |",
            "|---|---|---|---|",
        )
    for entry in sorted(ran, key=lambda one: one.finding.identity.text):
        opcodes = [
            text for text in entry.finding.instructions if text.startswith(("wmma.mma", "mma."))
        ]
        details = entry.finding.details
        asked = compiler_words(str(details["compiler"]).removeprefix("ptxas "))
        told = details.get("disagree with the oracle", asked)
        yield _row(entry, (*opcodes, accused(entry.finding))[0], str(told))


def _row(entry: Entry, instruction: str, told: str) -> str:
    text = instruction.replace("|", "\\|")
    return f"| `{text}` | {entry.finding.target} | {told} | {entry.id} |"


def with_answers_of(
    assembler: Assembler, answers: Answers, entries: Sequence[Entry], *, jobs: int
) -> Answers:
    """Return the answers of a record with those of one more assembler, `jobs` asked at a time."""
    name = assembler.version.removeprefix("V")
    entries = [entry for entry in entries if answers_about(answers, entry.id)]
    with ThreadPoolExecutor(jobs) as pool:
        said = list(pool.map(lambda entry: words_of(ask(assembler, entry)), entries))
    told = {
        entry.id: dict(answers_about(answers, entry.id)) | {name: one}
        for entry, one in zip(entries, said, strict=True)
    }
    order = sorted({*answers.asked, name}, key=lambda one: [int(part) for part in one.split(".")])
    return Answers(
        asked=tuple(order),
        answers={id_: tuple(row.get(one) for one in order) for id_, row in told.items()},
    )


def text_of(answers: Answers) -> str:
    """Return the answers as the record has them, a line for each finding."""
    rows = ",\n".join(
        f"{_json(key)}: {_json(told)}" for key, told in sorted(answers.answers.items())
    )
    return f'{{\n"asked": {_json(answers.asked)},\n"answers": {{\n{rows}\n}}\n}}\n'


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def main() -> None:
    """Write both pages."""
    entries = list(named_corpus(Path(RECORD)).entries(lambda problem: sys.exit(problem.sentence)))
    answers = read_answers()
    for name in sys.argv[1:]:
        answers = with_answers_of(find_assembler(name), answers, entries, jobs=os.cpu_count() or 1)
        (FOLDER / ANSWERS).write_text(text_of(answers))
    RECORD_PAGE.write_text("\n".join(record_page(entries, answers)) + "\n")
    head, _, rest = TROPHIES.read_text().partition(MARKS[0])
    tail = rest.partition(MARKS[1])[2]
    known = [row for row in load_known().entries if isinstance(row, KnownRow)]
    tables = "\n".join(trophies(known, entries, answers))
    TROPHIES.write_text(f"{head}{MARKS[0]}\n{tables}\n\n{MARKS[1]}{tail}")


if __name__ == "__main__":
    main()
