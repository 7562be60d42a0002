"""The record that ships: findings of many campaigns, and what each version of ptxas said of them.

`corpus/record` is a corpus like any other. `answers.json` in it holds, for every finding of an
assembler, the answer of each version that was asked, at -O3 and as `ask` of
`fuzz.findings.probes` puts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from oracle.errors import InfrastructureError

ANSWERS = "answers.json"
FOLDER = Path(__file__).with_name("record")
"""The record's folder, a corpus."""


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    asked: tuple[str, ...]
    answers: dict[str, tuple[str | None, ...]]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What versions of ptxas said of the findings of a record."""

    asked: tuple[str, ...]
    """Full versions, such as "13.5.37", oldest first."""
    answers: Mapping[str, tuple[str | None, ...]]
    """By a finding's id, one for each version: "accepted", "crash"; None if it was not asked."""

    def of(self, identity: str) -> tuple[str | None, ...]:
        """Return the answers about a finding; none where no assembler was asked."""
        return self.answers.get(identity, ())

    def spans(self, identity: str) -> str:
        """Return the answers with the releases that gave them: "crash 12.3; rejected 12.4–13.5"."""
        told: list[tuple[str, list[str]]] = []
        for version, answer in zip(self.asked, self.of(identity), strict=False):
            if answer is None:
                continue
            release = version.rpartition(".")[0]
            if not told or told[-1][0] != answer:
                told.append((answer, []))
            told[-1][1].append(release)
        return "; ".join(
            f"{answer} {'–'.join(dict.fromkeys((releases[0], releases[-1])))}"
            for answer, releases in told
        )

    def latest(self, identity: str) -> tuple[str, str] | None:
        """Return the newest version that was asked about a finding, and its answer."""
        told = [pair for pair in zip(self.asked, self.of(identity), strict=False) if pair[1]]
        return (told[-1][0], told[-1][1] or "") if told else None


def read_answers(folder: Path = FOLDER) -> Answers:
    """Return the answers of a record.

    Raises
    ------
    InfrastructureError
        If they cannot be read.
    """
    path = folder / ANSWERS
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except (OSError, msgspec.DecodeError) as error:
        raise InfrastructureError(
            f"{path} cannot be read ({error}); install warpfuzz anew"
        ) from error
    return Answers(asked=document.asked, answers=document.answers)


def write_answers(answers: Answers, folder: Path) -> None:
    """Write the answers of a record, a line for each finding.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    encode = msgspec.json.encode
    rows = ",\n".join(
        f"{encode(identity).decode()}: {encode(told).decode()}"
        for identity, told in sorted(answers.answers.items())
    )
    asked = encode(answers.asked).decode()
    text = f'{{\n"asked": {asked},\n"answers": {{\n{rows}\n}}\n}}\n'
    (folder / ANSWERS).write_text(text)
