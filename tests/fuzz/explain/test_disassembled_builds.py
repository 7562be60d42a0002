"""What a folder says of compilers: who is wrong, and where the code of two parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from repro_cases import half, multiplication, stored

from corpus import Entry, RunnerVerdict
from fuzz.explain import folder as module
from fuzz.explain.document import Document, markdown_of
from fuzz.explain.folder import asked_by_bisection, machine_code, pair_of, reproduction
from fuzz.explain.way import ValueFacts
from fuzz.findings.families import Asked, asked_of
from oracle.errors import UsageError
from runners.assemblers.disassembly import Disassembler, all_instructions

TOOL = Disassembler(path=Path("nvdisasm"), version="V13.5.37")
WRONG = ("LDC R1 ;", "HMMA.16816.F32 R8, R4, R22, R8 ;", "EXIT ;")
RIGHT = ("LDC R3 ;", "HMMA.16816.F32 R9, -R5, R23.reuse, R9 ;", "EXIT ;")


def asked(outcomes: dict[str, str]) -> tuple[Asked, ...]:
    """By "12.4 -O3"."""
    return tuple(
        Asked(version=f"V{name.split()[0]}", level=int(name[-1]), outcome=outcome)
        for name, outcome in outcomes.items()
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    folder = tmp_path_factory.mktemp("corpus")
    return stored(folder / "corpus", multiplication(half()), faults=("accumulator-ignored",))


def with_outcomes(entry: Entry, told: tuple[Asked, ...]) -> Entry:
    runners = tuple(
        RunnerVerdict(
            runner="ptxas", version=one.version, options=f"-O{one.level}", outcome=one.outcome
        )
        for one in told
    )
    finding = msgspec.structs.replace(entry.finding, runners=(*runners, *entry.finding.runners))
    return replace(entry, finding=finding)


def test_neighbouring_versions_at_one_level_are_compared() -> None:
    told = asked(
        {
            "12.4.1 -O0": "match", "12.4.1 -O3": "violation", "12.5.1 -O0": "match",
            "12.5.1 -O3": "match", "13.0.1 -O3": "match",
        }
    )  # fmt: skip
    bad, good = pair_of(told)
    assert (bad.name, good.name) == ("ptxas V12.4.1 -O3", "ptxas V12.5.1 -O3")
    assert pair_of(asked({"12.4.1 -O3": "match"})) is None
    assert pair_of(asked({"12.4.1 -O3": "violation", "13.0.1 -O0": "violation"})) is None


def test_the_page_has_the_first_instruction_that_differs(
    plain: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(_facts, one, _tool):
        return WRONG if one.wrong else RIGHT

    monkeypatch.setattr(module, "_instructions", built)
    entry = with_outcomes(plain, asked({"12.4.1 -O3": "violation", "12.5.1 -O3": "match"}))
    blocks = machine_code(ValueFacts.of(entry), TOOL, asked_of(entry.finding, "ptxas"))
    page = markdown_of(Document("", blocks))
    assert "Instruction 1 is the first that differs, by nvdisasm V13.5.37." in page
    assert "| wrong, ptxas V12.4.1 -O3 | LDC R1 ; |" in page
    assert "| right, ptxas V12.5.1 -O3 | LDC R3 ; |" in page


def test_without_a_disassembler_the_folder_says_so_and_has_the_rest(plain: Entry) -> None:
    entry = with_outcomes(plain, asked({"12.4.1 -O3": "violation", "12.5.1 -O3": "match"}))
    files = reproduction(entry)
    page = files["README.md"].decode()
    assert "No nvdisasm is here" in page
    assert "| right | V12.5.1 -O3 |" in page
    assert {"repro.cu", "repro.py", "kernel.ptx"} <= files.keys()
    versions = asked({"1.2.3 -O3": "violation", "1.2.4 -O3": "match"})
    missing = machine_code(ValueFacts.of(entry), TOOL, versions)
    told = markdown_of(Document("", missing))
    assert "ptxas V1.2.3 is not here; fetch it with" in told
    of_a_device = reproduction(plain)["README.md"].decode()
    assert "Where the machine code parts" not in of_a_device


def test_answers_of_a_bisection_take_the_place_of_what_was_recorded(
    plain: Entry, tmp_path: Path
) -> None:
    def row(identity: str) -> bytes:
        cells = {
            "V12.4.1": {"outcome": "violation", "bad": True, "runs": 1},
            "V12.5.1": {"outcome": "right", "bad": False, "runs": 1},
            "V12.6.1": {"outcome": "", "bad": False, "runs": 0, "reason": "not here"},
        }
        levels = [{"level": 3, "versions": cells}]
        return msgspec.json.encode({"bisect": {"id": identity, "levels": levels}}) + b"\n"

    path = tmp_path / "answers.json"
    path.write_bytes(row(plain.id))
    assert asked_by_bisection(path, plain.finding) == asked(
        {"12.4.1 -O3": "violation", "12.5.1 -O3": "match"}
    )
    page = reproduction(plain, bisected=path)["README.md"].decode()
    assert "| wrong | V12.4.1 -O3 |" in page
    assert "| right | V12.5.1 -O3 |" in page
    path.write_bytes(row("0" * 16))
    with pytest.raises(UsageError, match="holds answers about 0000"):
        asked_by_bisection(path, plain.finding)
    wrong = {
        "{": "cannot be read as what `warpfuzz bisect",
        '{"x":1}': "has no line that begins with",
        '{"bisect":{"x":1}}': "cannot be read as what `warpfuzz bisect",
        "[1]": "cannot be read as what `warpfuzz bisect",
    }
    for text, words in wrong.items():
        path.write_text(text)
        with pytest.raises(UsageError, match=words):
            asked_by_bisection(path, plain.finding)


def test_instructions_are_read_with_their_labels_and_without_padding() -> None:
    listing = """.text.kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/              @!P0 BRA `(.L_x_1) ;
        /*0020*/                   EXIT;
.L_x_2:
        /*0030*/                   NOP ;
"""
    assert all_instructions(listing) == {
        "kernel": ["LDC R1, c[0x0][0x28]", ".L_x_1:", "@!P0 BRA `(.L_x_1)", "EXIT"]
    }
