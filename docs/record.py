"""Asks every assembler about every case of a corpus, and writes the answers as a page.

Usage:

    python docs/record.py CORPUS VERSION-OR-PATH... > docs/record.md

Each case is assembled at -O3 as its module.ptx has it, but for two lines: `.version` is lowered to
the highest that the assembler takes, and where the assembler does not know `.target`, sm_80 stands
in for it, so that old and new assemblers are asked the same.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

from corpus import Entry, Kind, open_corpus
from oracle.targets import parse_version
from runners.assemblers.assembler import Assembler
from runners.assemblers.discovery import find
from runners.assemblers.judgements import Outcome
from runners.assemblers.judging import judge_module

STAND_IN = "sm_80"
"""Known to every assembler from 11.0 to 13.5, with every form that is not newer than its PTX."""
WORDS = {
    Outcome.ACCEPTED: "accepted",
    Outcome.REJECTED: "rejected",
    Outcome.INTERNAL: "internal error",
    Outcome.CRASHED: "crash",
    Outcome.HUNG: "hang",
    Outcome.UNREADABLE: "unreadable",
}
TITLES = {
    Kind.CRASH: "Crashes",
    Kind.HANG: "Hangs",
    Kind.INTERNAL: "Messages from inside",
    Kind.ACCEPTED: "Accepted, down to a cubin, although undocumented",
    Kind.REJECTED: "Rejected, although documented",
}


def answer(assembler: Assembler, entry: Entry) -> str | None:
    """Return what an assembler makes of a case; None if it knows neither target."""
    finding = entry.finding
    version = min(parse_version(finding.ptx_version), assembler.highest_version)
    for target in (finding.target, STAND_IN):
        if assembler.accepts(version, target):
            text = entry.read("module.ptx").decode()
            text = re.sub(r"(?m)^\.version .*$", f".version {version}", text, count=1)
            text = re.sub(r"(?m)^\.target .*$", f".target {target}", text, count=1)
            return WORDS[judge_module(assembler, text, target=target).outcome]
    return None


def ranges(assemblers: list[Assembler], answers: list[str | None]) -> str:
    """Return the answers with the releases that gave them, neighbours together."""
    known = [(one.release, told) for one, told in zip(assemblers, answers, strict=True) if told]
    parts = []
    for told, group in groupby(known, key=lambda pair: pair[1]):
        releases = [release for release, _ in group]
        span = releases[0] if len(releases) == 1 else f"{releases[0]}–{releases[-1]}"
        parts.append(f"{told} {span}")
    return "; ".join(parts)


def main() -> None:
    """Print the page."""
    folder = Path(sys.argv[1])
    assemblers = sorted((find(name) for name in sys.argv[2:]), key=lambda one: one.order)
    entries = list(open_corpus(folder).entries(lambda problem: sys.exit(str(problem))))
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda entry: [answer(one, entry) for one in assemblers], entries))
    by_kind: dict[Kind, list[tuple[Entry, str]]] = defaultdict(list)
    for entry, told in zip(entries, rows, strict=True):
        by_kind[entry.finding.kind].append((entry, ranges(assemblers, told)))
    print("# Record of what campaigns found in ptxas\n")
    print(f"{len(entries)} cases, one for each family, in [{folder.name}](cases). Asked were ptxas")
    print(", ".join(one.version.removeprefix("V") for one in assemblers) + ".")
    print("Written by `python docs/record.py docs/cases VERSION...`; replay a case with")
    print("`warpfuzz replay docs/cases/findings/ID --assembler VERSION`, by hand with")
    print("`ptxas -arch=TARGET module.ptx`. Where an assembler does not know the `.version` of a")
    print(f"case, its highest was asked for, and {STAND_IN} in place of an unknown `.target`.")
    for kind, title in TITLES.items():
        if by_kind[kind]:
            print(f"\n## {title}\n\n| instruction | target | answers | case |\n|---|---|---|---|")
        for entry, told in sorted(by_kind[kind], key=lambda pair: pair[0].finding.family.key):
            text = entry.finding.instructions[0].replace("|", "\\|")
            print(f"| `{text}` | {entry.finding.target} | {told} | {entry.id} |")


if __name__ == "__main__":
    main()
