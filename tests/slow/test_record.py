"""docs/record.md says of every assembler that is here what the assembler says itself."""

import importlib.util
import re
from pathlib import Path

import pytest

from corpus import open_corpus
from runners.assemblers.discovery import discover

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("record", ROOT / "docs" / "record.py")
record = importlib.util.module_from_spec(spec)
spec.loader.exec_module(record)

PAGE = (ROOT / "docs" / "record.md").read_text()
ASKED = re.findall(r"\d+\.\d+\.\d+", PAGE.split("## ")[0])
RELEASES = [version.rpartition(".")[0] for version in ASKED]
HERE = [one for one in discover().assemblers if one.version.removeprefix("V") in ASKED]


def told(answers, release):
    """Return what the page says of a release; None if it could not be asked."""
    for part in answers.split("; "):
        words, _, span = part.rpartition(" ")
        first, _, last = span.partition("–")
        among = RELEASES[RELEASES.index(first) : RELEASES.index(last or first) + 1]
        if release in among:
            return words
    return None


ROWS = {
    row.split(" | ")[-1].rstrip(" |"): row.split(" | ")[-2]
    for row in PAGE.splitlines()
    if row.startswith("| `")
}


def test_every_case_has_its_row():
    ids = {entry.id for entry in open_corpus(ROOT / "docs" / "cases").entries(pytest.fail)}
    assert ids == ROWS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("assembler", HERE, ids=lambda one: one.version)
def test_the_page_says_what_the_assembler_says(assembler):
    for entry in open_corpus(ROOT / "docs" / "cases").entries(pytest.fail):
        says = record.answer(assembler, entry)
        if says is not None:
            assert told(ROWS[entry.id], assembler.release) == says, entry.id
