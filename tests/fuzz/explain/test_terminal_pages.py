"""The page of a finding: the map marks what differs, distances are right, nothing leaks."""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.explain.terminal import EQUAL, heat_map, page_of
from hypothesis import assume, given
from hypothesis import strategies as st
from repro_cases import row_load
from repro_cases import stored as of_a_fault
from rich.cells import cell_len
from rich.console import Console

from corpus import Case, Family, Kind, OracleVerdict, RunnerVerdict, Versions, create_corpus
from corpus.entry import Entry
from corpus.opening import named_entry
from corpus.programs import decode_program, encode_program, pack, unpack
from fuzz.explain.facts import LEVELS, apart, level, outcomes_of, units
from fuzz.findings.case import (
    ACTUAL,
    EXPECTED,
    INPUT,
    MODULE,
    PROGRAM,
    instructions_of,
)
from fuzz.findings.verdicts import Difference, differences
from fuzz.output import THEME
from oracle.execution import execute
from oracle.formats import FORMATS, format_named
from oracle.isa import LOAD_FORMS, STORE_FORMS, ldmatrix_form, mma_form
from oracle.ops import Op
from oracle.places import Buffer, Place
from oracle.program import Program
from oracle.targets import Module
from runners.emission import emit
from strategies.matrices import Result, results

FLOATS: dict[str, Any] = {
    "f16": (np.float16, "e"),
    "f32": (np.float32, "f"),
    "f64": (np.float64, "d"),
}
OPCODES = (
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16",
    "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64",
    "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32",
    "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
    "wmma.mma.sync.aligned.row.col.m8n32k16.s32.u8.u8.s32",
)


def difference(expected: int, actual: int, bits: int) -> Difference:
    return Difference(
        where="d[0, 0]", byte=0, row=0, column=0, expected=expected, actual=actual, bits=bits
    )


def _steps_between(first: float, second: float, dtype: Any) -> int:
    """Count neighbours by stepping, which knows nothing of bit patterns."""
    low, high = sorted((dtype(first), dtype(second)))
    count = 0
    while low < high:
        low = np.nextafter(low, dtype(np.inf))
        count += 1
    return count


@pytest.mark.filterwarnings("ignore:overflow encountered in nextafter")  # up to infinity
@given(st.sampled_from(sorted(FLOATS)), st.data())
def test_distances_of_floats_are_steps_from_neighbour_to_neighbour(
    name: str, data: st.DataObject
) -> None:
    dtype, code = {"f16": (np.float16, "e"), "f32": (np.float32, "f"), "f64": (np.float64, "d")}[
        name
    ]
    format_ = format_named(name)
    value = dtype(data.draw(st.floats(width=format_.bits, allow_nan=False)))
    other = value
    for _ in range(data.draw(st.integers(0, 40))):
        other = np.nextafter(other, dtype(np.inf))
    bits = [int.from_bytes(struct.pack(f"<{code}", one), "little") for one in (value, other)]
    found = units(difference(*bits, format_.bits), format_)
    assert found == _steps_between(value, other, dtype)
    assert units(difference(*reversed(bits), format_.bits), format_) == -found


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_distances_of_integers_are_differences(expected: int, actual: int) -> None:
    one = difference(expected & 0xFFFFFFFF, actual & 0xFFFFFFFF, 32)
    assert units(one, FORMATS["s32"]) == actual - expected


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_distances_of_registers_count_bits(expected: int, actual: int) -> None:
    assert units(difference(expected, actual, 32), None) == bin(expected ^ actual).count("1")


def test_units_in_the_last_place_are_said_of_numbers_of_one_size_alone() -> None:
    f32 = FORMATS["f32"]
    assert apart(difference(0x3F800000, 0x3F800003, 32), f32) == "+3 ulp"
    assert apart(difference(0x3F800000, 0, 32), f32) == "off by -1"
    assert apart(difference(0x3F800000, 0x7F800000, 32), f32) == "infinitely far"
    assert apart(difference(0, 0x80000000, 32), f32) == "the other zero"


def test_a_finding_of_many_compilers_is_a_table_of_versions_and_levels() -> None:
    entry = named_entry("4a55e2d0", Path("record"))
    told = outcomes_of(entry.finding)
    assert told.levels == ("-O0", "-O1", "-O2", "-O3")
    assert len(told.rows) == 17
    assert len(told.others) == 1
    text = page(entry)
    assert text.count("NVIDIA H200") == 1
    assert len(text.splitlines()) < 90


def test_a_distance_to_nan_is_none_and_of_zeros_is_zero() -> None:
    assert units(difference(0x7FC00000, 0, 32), FORMATS["f32"]) is None
    assert units(difference(0x80000000, 0, 32), FORMATS["f32"]) == 0


@given(st.integers(0, 2**64), st.integers(0, 2**64))
def test_levels_grow_with_the_distance_and_ignore_its_sign(first: int, second: int) -> None:
    low, high = sorted((first, second))
    assert int(level(low)) <= int(level(high))
    assert level(-low) == level(low)
    assert {level(least) for least in LEVELS} == set("123456789")
    assert level(0) == "0"
    assert level(None) == "N"


@given(
    st.booleans(),
    st.sampled_from([(8, 8), (8, 32), (32, 8), (16, 16), (32, 1), (32, 2), (32, 4)]),
    st.integers(24, 130),
    st.data(),
)
def test_the_map_marks_the_differing_elements_and_no_others(
    registers: bool, shape: tuple[int, int], width: int, data: st.DataObject
) -> None:
    assume(registers == (shape[1] < 8))
    rows, columns = shape
    places = data.draw(
        st.sets(st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1)), min_size=1)
    )
    result = Result(
        name="d", type="b32" if registers else "f32", bits=32, start=0, rows=rows,
        columns=columns, row_bytes=4 * columns, column_bytes=4,
    )  # fmt: skip
    found = {
        (row, column): Difference(where="", row=row, column=column, expected=0, actual=1, bits=32)
        for row, column in places
    }
    lines = heat_map(result, found, None if registers else FORMATS["f32"], width=width)
    assert all(line.cell_len <= width for line in lines)
    down = columns if registers else rows
    cells: list[list[str]] = [[] for _ in range(down)]
    parts = "\n".join(line.plain for line in lines).split("\n\n")
    for part in parts:
        *heads, _ = body = part.split("\n")
        heads, body = heads[: len(body) - down], body[-down:]
        # Each is numbered, tens above ones where there is no room: 32 lanes had 16 numbers.
        assert len(heads) in (1, 2)
        *_, ones = (re.sub(r"^(column|lane)", "", head).split() for head in heads)
        assert len(ones) == len(body[0].removeprefix("register").removeprefix("row").split()) - 1
        for index, line in enumerate(body):
            _, *signs = re.sub(r"^(row|register)", "", line).split()
            cells[index] += signs
    marked = {
        (other, index) if registers else (index, other)
        for index, row in enumerate(cells)
        for other, sign in enumerate(row)
        if sign != EQUAL
    }
    assert marked == places
    assert sum(map(len, cells)) == rows * columns


def _program(opcode: str) -> Program:
    form = mma_form(opcode)
    layouts = {"a": form.a_layout, "b": form.b_layout, "c": "row", "d": "row"}
    buffers, steps = [], []
    for operand, layout in layouts.items():
        matrix = form.matrix(operand)
        size = matrix.rows * matrix.columns * matrix.type.bits // 8
        buffers.append(Buffer(name=f"g{operand}", space="global", size=size))
        forms: Any = (
            [one for one in LOAD_FORMS if one.matrix().operand == operand]
            if operand != "d"
            else STORE_FORMS
        )
        access = next(
            one for one in forms
            if one.layout == layout and one.space == "global"
            and one.shape == form.shape and one.type() == matrix.type
        )  # fmt: skip
        place = Place(buffer=f"g{operand}")
        steps.append(Op.of(form=access, fragment=operand, place=place))
    steps.insert(3, Op.of(form=form, d="d", a="a", b="b", c="c"))
    return Program(buffers=tuple(buffers), steps=tuple(steps))


def stored(folder: Path, opcode: str, changed: dict[tuple[int, int], int]) -> Entry:
    """Store a finding whose result has other bits (exclusive or) at some places."""
    program = _program(opcode)
    image = np.random.default_rng(5).integers(0, 60, program.image_bytes, dtype=np.uint8)
    expected = execute(program, image[None], target="sm_90").images[0]
    actual = expected.copy()
    (result,) = results(program)
    for (row, column), bits in changed.items():
        for index, byte in enumerate(bits.to_bytes(result.bits // 8, "little")):
            actual[result.offsets[row, column] + index] ^= byte
    module = emit(program, module=Module.named("sm_90", "8.0"))
    case = Case(
        kind=Kind.VIOLATION,
        family=Family(key="violation/x", title="violation: \x1b[31mx\x1b[0m [bold]y[/]"),
        instructions=instructions_of(program),
        target="sm_90",
        ptx_version="8.0",
        oracle=OracleVerdict(verdict="legal"),
        runners=(RunnerVerdict(runner="sim", version="1", outcome="violation", device="a\nb"),),
        versions=Versions(warpfuzz="1", generator=1),
        details={"runs": 3, "failed runs": 2, "rate": 0.5, "sms": "4 7", "opt": 2},
    )
    files = {
        MODULE: module.ptx.encode(), PROGRAM: encode_program(program), INPUT: pack(image[None]),
        EXPECTED: pack(expected[None]), ACTUAL: pack(actual[None]),
    }  # fmt: skip
    corpus = create_corpus(folder, generator="test")
    return corpus.get(corpus.add(case, files).id)


def page(entry: Entry, width: int = 100, **options: Any) -> str:
    file = io.StringIO()
    Console(file=file, width=width, theme=THEME, highlight=False, **options).print(page_of(entry))
    return file.getvalue()


@pytest.mark.parametrize("opcode", OPCODES)
def test_a_page_tells_places_bits_and_distances(opcode: str, tmp_path: Path) -> None:
    entry = stored(tmp_path / "corpus", opcode, {(1, 2): 1, (7, 5): 4})
    text = page(entry)
    facts = page_facts(entry)
    assert len(facts) == 2
    for one in facts:
        assert one.where in text
        assert f"0x{one.expected:0{one.bits // 4}x}" in text
        assert f"0x{one.actual:0{one.bits // 4}x}" in text
    for words in ("multiprocessors", "4 7", "2 of 3 runs", "-O2", opcode, "2 elements differ",
                  "warpfuzz repro", "warpfuzz replay", "is made of"):  # fmt: skip
        assert words in text, words


def test_terms_that_are_zero_are_counted_and_not_listed(tmp_path: Path) -> None:
    opcode = "wmma.mma.sync.aligned.row.col.m16n16k16.s32.u8.u8.s32"
    text = page(stored(tmp_path / "corpus", opcode, {(1, 2): 1}))
    (shown,) = re.findall("([0-9]+) of 16 terms are zero", text)
    assert 0 < int(shown) < 16


def page_facts(entry: Entry) -> list[Difference]:
    program = decode_program(entry.read(PROGRAM), "")
    return list(differences(program, unpack(entry, EXPECTED)[0], unpack(entry, ACTUAL)[0]))


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_a_page_fits_and_names_do_not_leak(width: int, tmp_path: Path) -> None:
    entry = stored(tmp_path / "corpus", OPCODES[5], {(3, 31): 255})
    text = page(entry, width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert "\x1b" not in text
    assert "[bold]y[/]" in text
    assert "a\nb" not in text


@pytest.mark.parametrize("width", [80, 160])
def test_a_page_has_no_column_for_values_that_have_no_type(width: int, tmp_path: Path) -> None:
    """Two columns "expected" and "actual" were empty (2026-11-26)."""
    rows = row_load(ldmatrix_form("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16"))
    text = page(of_a_fault(tmp_path / "rows", rows, faults=("trans-lost",)), width)
    (heading,) = re.findall("(?m)^place .*", text)
    assert heading.split() == ["place", "expected", "actual", "difference"]
    text = page(stored(tmp_path / "values", OPCODES[0], {(0, 0): 1}), width)
    (heading,) = re.findall("(?m)^place .*", text)
    assert heading.split() == ["place", *("expected", "actual") * 2, "difference"]


def test_a_page_has_colours_only_where_they_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = stored(tmp_path / "corpus", OPCODES[0], {(0, 0): 1})
    coloured = page(entry, force_terminal=True, color_system="truecolor")
    assert "48;2" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    plain = page(entry, force_terminal=True, color_system="truecolor")
    assert "48;2" not in plain
    assert re.search(r"row +0\D+1  ·", re.sub(r"\x1b\[[0-9;]*m", "", plain))
