"""Writes docs/record.md from the record that ships.

Usage:

    python docs/record.py [VERSION-OR-PATH...] > docs/record.md

Assemblers that are named are asked first, and their answers are kept in corpus/record.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from corpus.naming import RECORD, named_corpus
from corpus.recorded import FOLDER, read_answers, write_answers
from fuzz.explain.record_page import record_page
from fuzz.findings.record import with_answers_of
from runners.assemblers.discovery import find


def main() -> None:
    """Print the page."""
    entries = list(named_corpus(Path(RECORD)).entries(lambda problem: sys.exit(problem.sentence)))
    answers = read_answers()
    for name in sys.argv[1:]:
        answers = with_answers_of(find(name), answers, entries, jobs=os.cpu_count() or 1)
        write_answers(answers, FOLDER)
    print("\n".join(record_page(entries, answers)))


if __name__ == "__main__":
    main()
