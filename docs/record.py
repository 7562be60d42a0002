"""Writes docs/record.md from the record that ships.

Usage:

    python docs/record.py [VERSION-OR-PATH...] > docs/record.md

Assemblers that are named are asked first, and their answers are kept in corpus/record.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from corpus import Entry, Kind
from corpus.opening import FOLDER, RECORD, Answers, named_corpus, read_answers, write_answers
from fuzz.findings.probes import with_answers_of
from runners.compilers import find_assembler

_TITLES = {
    Kind.CRASH: "Crashes",
    Kind.HANG: "Hangs",
    Kind.INTERNAL: "Messages from inside",
    Kind.ACCEPTED: "Accepted, down to a cubin, although undocumented",
    Kind.REJECTED: "Rejected, although documented",
}


def record_page(entries: Iterable[Entry], answers: Answers) -> Iterator[str]:
    """Yield the lines of the page, in Markdown."""
    asked: dict[Kind, list[Entry]] = defaultdict(list)
    ran: list[Entry] = []
    for entry in entries:
        (asked[entry.finding.kind] if answers.of(entry.id) else ran).append(entry)
    modules = sum(map(len, asked.values()))
    yield from (
        "# Record of what campaigns found in ptxas",
        "",
        f"{modules} findings of assemblers and {len(ran)} of programs on a GPU, in "
        "[corpus/record](../corpus/record), installed with the package.",
        f"Asked were ptxas {', '.join(answers.asked)}.",
        "`warpfuzz replay record --compiler ./new/ptxas` says what a new one mends, keeps or",
        "changes; `warpfuzz corpus show ID --corpus record` shows one. This page is written by",
        "`python docs/record.py > docs/record.md`; named assemblers are asked first, and their",
        "answers recorded. Every module is assembled at -O3 as it is, but for two lines: where an",
        "assembler does not know `.version`, its highest stands there, and sm_80 in place of a",
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
        for entry in sorted(asked[kind], key=lambda one: one.finding.family.key):
            yield _row(entry, entry.finding.instructions[0], answers.spans(entry.id))
    if ran:
        yield from (
            "",
            "## Wrong results",
            "",
            "Programs on an H200, and the compilers and levels whose binaries give a wrong result.",
            "",
            "| multiplication | target | wrong with | finding |",
            "|---|---|---|---|",
        )
    for entry in sorted(ran, key=lambda one: one.finding.family.key):
        opcodes = [
            text for text in entry.finding.instructions if text.startswith(("wmma.mma", "mma."))
        ]
        told = entry.finding.details.get("disagree with the oracle", "the driver's compiler")
        yield _row(entry, opcodes[0], str(told))


def _row(entry: Entry, instruction: str, told: str) -> str:
    text = instruction.replace("|", "\\|")
    return f"| `{text}` | {entry.finding.target} | {told} | {entry.id} |"


def main() -> None:
    """Print the page."""
    entries = list(named_corpus(Path(RECORD)).entries(lambda problem: sys.exit(problem.sentence)))
    answers = read_answers()
    for name in sys.argv[1:]:
        answers = with_answers_of(find_assembler(name), answers, entries, jobs=os.cpu_count() or 1)
        write_answers(answers, FOLDER)
    print("\n".join(record_page(entries, answers)))


if __name__ == "__main__":
    main()
