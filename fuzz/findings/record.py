"""Asking a ptxas about the findings of the record, always in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum

from corpus import Entry, Kind
from corpus.recorded import Answers
from fuzz.findings.answers import Answer, asked
from fuzz.findings.questions import ModuleQuestion
from runners.assemblers.assembler import Assembler
from runners.assemblers.judgements import Outcome

STAND_IN = "sm_80"
"""Known to every ptxas from 11.0 to 13.5, with every form that is not newer than its PTX ISA."""
_WORDS = {
    Outcome.ACCEPTED: "accepted",
    Outcome.REJECTED: "rejected",
    Outcome.INTERNAL: "internal error",
    Outcome.CRASHED: "crash",
    Outcome.HUNG: "hang",
    Outcome.UNREADABLE: "unreadable",
}
_BY_LABEL = {outcome.name.lower(): words for outcome, words in _WORDS.items()}


class Standing(StrEnum):
    """What a new assembler does about a finding, beside the newest that was asked before."""

    MENDED = "mended"
    """It does as the ISA says, and the one before did not."""
    KEPT = "kept"
    """It does the same."""
    CHANGED = "changed"
    """It does something else, and not as the ISA says."""


def standing(before: str, now: str, kind: Kind | None) -> Standing:
    """Say what has become of an answer.

    Parameters
    ----------
    before, now
        As the record has them.
    kind
        What a finding of the new answer is called; None where it is as the ISA says.
    """
    if before == now:
        return Standing.KEPT
    return Standing.MENDED if kind is None else Standing.CHANGED


def words_of(answer: Answer) -> str | None:
    """Return an answer as the record has it: "crash"; None if there is none, or several."""
    return _BY_LABEL.get(answer.label)


def ask(assembler: Assembler, entry: Entry) -> Answer:
    """Assemble a finding's module at -O3, as all versions of the record were asked."""
    question = ModuleQuestion(entry, stand_in=STAND_IN)
    return asked(lambda: question.ask([(assembler, None)]), times=1)


def with_answers_of(
    assembler: Assembler, answers: Answers, entries: Sequence[Entry], *, jobs: int
) -> Answers:
    """Return the answers of a record with those of one more assembler.

    Parameters
    ----------
    jobs
        Processes that run at the same time.
    """
    name = assembler.version.removeprefix("V")
    entries = [entry for entry in entries if answers.of(entry.id)]
    with ThreadPoolExecutor(jobs) as pool:
        said = list(pool.map(lambda entry: words_of(ask(assembler, entry)), entries))
    told = {
        entry.id: dict(zip(answers.asked, answers.of(entry.id), strict=True)) | {name: one}
        for entry, one in zip(entries, said, strict=True)
    }
    order = sorted({*answers.asked, name}, key=lambda one: [int(part) for part in one.split(".")])
    return Answers(
        asked=tuple(order),
        answers={id_: tuple(row[one] for one in order) for id_, row in told.items()},
    )
