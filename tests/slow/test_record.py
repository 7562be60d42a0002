"""The record says of every assembler that is here what the assembler says itself."""

import runpy
from pathlib import Path

import pytest

from corpus.known import KnownRow, answers_about, load_known, named_corpus, read_answers
from fuzz.findings.replay import ask, words_of
from runners.compilers import discover_assemblers

PAGE = Path(__file__).parents[2] / "docs" / "record.md"
ENTRIES = list(named_corpus(Path("record")).entries(pytest.fail))
ANSWERS = read_answers()
HERE = [
    one
    for one in discover_assemblers().assemblers
    if one.version.removeprefix("V") in ANSWERS.asked
]


def test_the_pages_are_what_the_record_says():
    made = runpy.run_path(str(PAGE.with_suffix(".py")))
    assert PAGE.read_text() == "\n".join(made["record_page"](ENTRIES, ANSWERS)) + "\n"
    begin, end = made["MARKS"]
    tables, _, _ = made["TROPHIES"].read_text().partition(begin)[2].partition(end)
    rows = [one for one in load_known().entries if isinstance(one, KnownRow)]
    assert tables.strip() == "\n".join(made["trophies"](rows, ENTRIES, ANSWERS))


@pytest.mark.slow
@pytest.mark.parametrize("assembler", HERE, ids=lambda one: one.version)
def test_the_record_says_what_the_assembler_says(assembler):
    version = assembler.version.removeprefix("V")
    for entry in ENTRIES:
        told = dict(answers_about(ANSWERS, entry.id))
        if told:
            assert told.get(version) == words_of(ask(assembler, entry)), entry.id
