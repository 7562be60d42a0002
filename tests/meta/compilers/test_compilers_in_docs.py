"""Scripts of docs on stand-ins for compilers: one of them breaks what it is given."""

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answering import address
from planted_ptxas import planted_ptxas

from oracle.execution import execute
from oracle.lane_code import Assign, If, LaneCode, Leave, Repeat, Statement
from oracle.places import Buffer, Place
from oracle.program import Program
from oracle.steps import plain_load, plain_store

ROOT = Path(__file__).parents[3]
SAME = "same_ptx.py"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with two compilers; the newer one has a bug."""
    for version, faults in (("12.4", []), ("12.5", ["store-layout-flipped"])):
        folder = tmp_path / "c" / version
        planted_ptxas(folder, version, faults, levels=(0, 3), answering=address())
    return tmp_path


def script(name: str, home: Path, *words: object) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / name, *map(str, words)],
        cwd=home, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(home)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_what_is_built_without_a_gpu_runs_elsewhere_and_shows_who_differs(home: Path) -> None:
    script(
        SAME, home, "build", "--compilers", "c", "--opt", "0,3", "--programs", 3, "--only",
        "wmma.mma*row.col.m16n16k16.f32.f32", "--output", "x.tar.xz",
    )  # fmt: skip
    script(SAME, home, "run", "x.tar.xz", "--runner", "sim", "--images", 4, "--output", "x.json")
    told = json.loads((home / "x.json").read_text())["programs"]
    assert len(told) == 3
    for row in told:
        right, wrong = row["outputs"]
        assert right["members"] == ["V12.4.0 -O0", "V12.4.0 -O3"]
        assert (right["wrong"], right["other"]) == (0, 4)
        assert wrong["members"] == ["V12.5.0 -O0", "V12.5.0 -O3"]
        assert (wrong["wrong"], wrong["other"]) == (4, 0)
    page = script(SAME, home, "page", "x.tar.xz", "x.json")
    assert "3 of 3 programs give other bits with some compilers" in page
    assert "| 12.5.0 -O0 -O3 | 0 of 12 | 12 |" in page


@pytest.mark.slow
def test_what_is_wrong_about_scalar_code_names_what_its_programs_have_in_common(
    home: Path,
) -> None:
    planted_ptxas(
        home / "c" / "12.5", "12.5", ["selp-operands-exchanged"], levels=(0, 3), answering=address()
    )
    script(
        SAME, home, "build", "--compilers", "c", "--opt", "0,3", "--programs", 6, "--scalar-code",
        "--output", "x.tar.xz",
    )  # fmt: skip
    script(SAME, home, "run", "x.tar.xz", "--runner", "sim", "--images", 4, "--output", "x.json")
    told = json.loads((home / "x.json").read_text())["programs"]
    script(
        SAME, home, "run", "x.tar.xz", "--runner", "sim", "--images", 4, "--again", "x.json",
        "--output", "y.json",
    )  # fmt: skip
    assert json.loads((home / "y.json").read_text())["programs"] == told
    page = script(SAME, home, "page", "x.tar.xz", "x.json")
    assert "On the simulated device, 6 of 6 programs come out as the oracle says." in page
    rows = [
        line.strip("| ").split(" | ")
        for line in page.splitlines()
        if line.startswith("| ") and "-O" in line
    ]
    assert rows
    for number, wrong_with, right_with, why in rows:
        assert (wrong_with, right_with) == ("12.5.0 -O0 -O3", "12.4.0 -O0 -O3")
        places, _, opcodes = why.partition(": ")
        assert opcodes.startswith("`selp.")
        assert len(places.split(", ")) == int(number)


def one(text: str, guard: str = "") -> Assign:
    """Read "add.s32 r3 r0 7"; several destinations are "p0|p1"."""
    opcode, written, *sources = text.split()
    return Assign(
        opcode=opcode, destinations=tuple(written.split("|")), guard=guard,
        sources=tuple(int(word, 0) if word[0].isdigit() else word for word in sources),
    )  # fmt: skip


def program_of(code: Sequence[Statement]) -> Program:
    """Every lane reads r0, r1 and r2, and stores r3."""
    lanes = LaneCode(
        source="x", count=4, destination="y", results=("r3",), code=tuple(code)
    )  # fmt: skip
    buffers = (
        Buffer(name="in", space="global", size=512),
        Buffer(name="out", space="global", size=128),
    )
    load = plain_load(registers="x", count=4, place=Place(buffer="in"))
    store = plain_store(registers="y", count=1, place=Place(buffer="out"))
    return Program(buffers=buffers, steps=(load, lanes, store))


def stored(program: Program, *given: int) -> set[int]:
    """Return what lanes store that are all given the same."""
    images = np.zeros((1, program.image_bytes), np.uint8)
    words = np.tile(np.array([*given, 0], np.uint32), 32).view(np.uint8)
    images[:, program.offset("in") :][:, : len(words)] = words
    out = execute(program, images, target="sm_90").images[:, program.offset("out") :]
    return {int(word) for word in out[0, :128].copy().view(np.uint32)}


@pytest.fixture
def docs(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The modules of the script and of the defects that it knows."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    return import_module("same_ptx"), import_module("scalar_causes")


ON = one("setp.ne.u32 p1 r2 0")
ELSEWHERE = If(predicate="p0", then=())
"""What comes behind it stands behind a branch."""
DEFECTS = {
    "testp": (
        [ON, one("or.pred p0 p1 p1"), one("testp.normal.f32 p0 r1", "!p1"),
         one("selp.b32 r3 1 0 p0")],
        (0, 1, 1), 1, 0,
    ),
    "set under": (
        [ON, one("mov.b32 r3 r0"), one("set.gt.f32.f32 r3 r1 r1", "p1")], (5, 0, 0), 5, 0x40A0_0000,
    ),
    "set under ": (
        [ON, one("cvt.u16.u32 h0 r1"), one("mov.b32 r3 r0"), one("set.gt.u32.u16 r3 h0 h0", "p1")],
        (0x5A5A_8001, 0, 0), 0x5A5A_8001, 0xFFFF_8001,
    ),
    "set under a": (
        [ON, one("cvt.u16.u32 h0 r1"), one("mov.b32 r3 r0"), one("set.gt.f32.u16 r3 h0 h0", "p1")],
        (0x5A5A_FFFB, 0, 0), 0x5A5A_FFFB, 0x40A0_0000,
    ),
    "set under a ": (
        [ON, one("mov.b32.unpack h0|h1 r0"), one("set.gt.f16.f16 h0 h1 h1", "p1"),
         one("mov.b32.pack r3 h0 h1")],
        (0xFFFB, 0, 0), 0xFFFB, 0x4500,
    ),
    "64-bit": (
        [one("cvt.u64.u32 d0 r0"), one("bfe.u64 d1 d0 r1 r2"), one("cvt.u32.u64 r3 d1")],
        (0xFF, 256, 8), 0xFF, 0,
    ),
    "amount": (
        [one("cvt.u64.u32 d0 r0"), one("add.rn.f32 r4 r1 r2"), one("max.NaN.f32 r4 r4 r4"),
         one("shl.b64 d1 d0 r4"), one("cvt.u32.u64 r3 d1")],
        (7, 0x3F80_0000, 0), 0, 14,
    ),
    "flush": (
        [one("cvt.rp.ftz.f16.f32 h0 r0"), one("cvt.u32.u16 r3 h0")], (10, 0, 0), 0, 1,
    ),
    "tf32": (
        [one("cvt.rna.tf32.f32 r3 r0"), one("max.NaN.f32 r3 r3 r3")],
        (0xFF80_1080, 0, 0), 0x7FFF_FFFF, 0xFF80_0000,
    ),
    "bfe.s32": ([one("bfe.s32 r3 r0 0x56 9")], (5, 0, 0), 0, 0xFFFF_FFFF),
    "bfe.s32 ": (
        [one("mov.b32 r4 0x56"), one("bfe.s32 r3 r0 r4 9")], (5, 0, 0), 0, 0xFFFF_FFFF,
    ),
    "bfe.s32  ": (
        [one("min.s32 r4 1 0xbc51a759"), one("add.u32 r5 4 5"), one("bfe.s32 r3 r0 r4 r5")],
        (5, 0, 0), 0, 0xFFFF_FFFF,
    ),
    "bfe.s32   ": (  # whatever else is read
        [one("and.b32 r4 r1 0"), one("add.u32 r4 r4 9"), one("bfe.s32 r3 r0 0x56 r4")],
        (5, 3, 0), 0, 0xFFFF_FFFF,
    ),
    "bfe.s32    ": (  # -1 is the next position
        [one("bfe.s32 r4 r0 0x56 9"), one("bfe.s32 r3 r1 r4 9")],
        (0xFFFF_FFFF, 5, 0), 0, 0xFFFF_FFFF,
    ),
    "bfe.s32     ": (  # one arm is not taken, and both arms of the other branch agree
        [one("mov.b32 r4 r1"), one("setp.lt.u32 p0 3 2"), one("setp.lt.u32 p2 r1 2"),
         If(predicate="p0", otherwise=(one("mov.b32 r4 0x56"),), then=(one("mov.b32 r4 r1"),)),
         If(predicate="p2", then=(one("mov.b32 r4 0x56"),)),
         one("mov.b32 r4 r2", "p0"), one("mov.b32 r4 0x56", "p2"), one("bfe.s32 r3 r0 r4 9")],
        (5, 1, 0), 0, 0xFFFF_FFFF,
    ),
    "bfe.s32      ": (  # it stays so in a loop
        [one("mov.b32 r4 0x56"), one("mov.b32 r6 9"), one("mov.b32 r3 0"),
         Repeat(count="r2", counter="r5", body=(
             one("bfe.s32 r3 r0 r4 r6"), one("and.b32 r4 r4 0xff"), one("add.u32 r7 r5 4"),
         ))],
        (5, 0, 1), 0, 0xFFFF_FFFF,
    ),
    "bfe.s32       ": (  # the number of the turn
        [one("mov.b32 r3 0"),
         Repeat(count=2, counter="r5", down=True, body=(
             one("bfe.s32 r4 r0 0x56 r5"), one("shl.b32 r4 r4 r5"), one("add.u32 r3 r3 r4"),
         ))],
        (5, 0, 0), 0, 0xFFFF_FFFA,
    ),
    "bfi.b32": (
        [one("bfi.b32 r3 r0 r1 6 145")], (0xFFFF_FFFF, 0, 0), 0xFFFF_FFC0, 0x007F_FFC0,
    ),
    "bfi.b32 ": (
        [one("bfi.b32 r3 r0 r1 r2 145")], (0xFFFF_FFFF, 0, 6), 0xFFFF_FFC0, 0x007F_FFC0,
    ),
    "equal sources": (
        [one("lop3.b32 r4 r0 r0 r1 8"), one("xor.b32 r3 r4 r1")], (3, 6, 0), 6, 4,
    ),
    "equal sources ": (
        [one("lop3.b32 r4 r0 r0 r1 0xc0"), one("and.b32 r3 r0 r4")], (3, 6, 0), 3, 0,
    ),
    "equal sources  ": (
        [one("lop3.b32 r4 1 1 1 0x79"), one("xor.b32 r3 r4 1")],
        (0, 0, 0), 0xFFFF_FFFF, 0xFFFF_FFFE,
    ),
    "equal sources   ": (
        [one("lop3.b32 r4 r0 r0 r0 0x16"), one("xor.b32 r3 r4 r0")], (5, 0, 0), 5, 0,
    ),
    "equal sources    ": (  # it writes what it reads
        [one("lop3.b32 r1 r0 r1 r1 8"), one("xor.b32 r3 r0 r1")], (3, 6, 0), 7, 3,
    ),
    "equal sources     ": (  # what it reads is written before it is read
        [one("lop3.b32 r4 r0 r0 r1 8"), one("mov.b32 r0 r2"), one("xor.b32 r3 r4 r1")],
        (3, 6, 0), 6, 4,
    ),
    "rotation": (
        [one("shl.b32 r4 r0 8"), one("shr.u32 r5 r0 24"), one("sub.s32 r3 r4 r5")],
        (0x0100_0001, 0, 0), 0xFF, 0x101,
    ),
    "sub.sat": (
        [one("sub.sat.s32 r3 r0 0x80000000")], (0xF0, 0, 0), 0x7FFF_FFFF, 0x8000_00F0,
    ),
    "abs of": (
        [one("add.rn.sat.f32 r4 r0 r1"), one("abs.bf16x2 r3 r4")],
        (0x3E80_8000, 0, 0), 0x3E80_0000, 0x3E80_8000,
    ),
    "abs of ": (
        [one("add.rn.sat.f32 r4 r0 r1"), one("abs.ftz.f16x2 r3 r4")],
        (0x3E80_8400, 0, 0), 0x3E80_0400, 0x3E80_8400,
    ),
    "abs of  ": (
        [one("add.rn.sat.f32 r4 r0 r1"), one("abs.ftz.f16x2 r3 r4")],
        (0x3E80_8001, 0, 0), 0x3E80_0000, 0x3E80_8000,
    ),
    "saturated s16": (
        [one("cvt.sat.s16.s32 h0 r0"), one("cvt.u32.u16 r3 h0")],
        (0xFFFF_0000, 0, 0), 0x8000, 0xFFFF_8000,
    ),
    "saturated s16 ": (
        [one("cvt.s64.s32 d0 r0"), one("cvt.sat.s16.s64 h0 d0"), one("cvt.u32.u16 r3 h0")],
        (0xFFFF_0000, 0, 0), 0x8000, 0xFFFF_8000,
    ),
    "saturates under a": (
        [ON, one("mov.b32.unpack h0|h2 r0"), one("min.bf16 h1 h0 h0"),
         one("cvt.sat.s8.u16 h1 h1", "p1"), one("cvt.u32.u16 r3 h1")],
        (0x3F80, 0, 0), 0x3F80, 0x3F80_3F80,
    ),
    "neg.ftz.f32": (
        [ON, If(predicate="!p1", then=(one("neg.f32 r4 r0"),)), one("neg.ftz.f32 r3 r0")],
        (1, 0, 0), 0x8000_0000, 0x8000_0001,
    ),
    "taken for the neg.ftz.f32": (
        [ON, one("abs.ftz.f32 r4 r0"), one("mov.b32 r3 r1"),
         If(predicate="!p1", then=(one("abs.f32 r3 r0"),))],
        (0x8000_0001, 0, 0), 1, 0,
    ),
    "neg.ftz.f32 ": (  # the number of the turn is the constant of the other arm
        [ON, one("mov.b32 r3 r0"), Repeat(count=2, counter="r5", body=(
            If(predicate="p1", then=(one("neg.f32 r4 1"),), otherwise=(
                one("neg.ftz.f32 r3 r5"),
            )),
        ))],
        (0, 0, 0), 0x8000_0000, 0x8000_0001,
    ),
    "taken for the neg.ftz.f32 ": (
        [ON, one("mov.b32 r3 r0"), Repeat(count=1, counter="r5", down=True, body=(
            If(predicate="p1", then=(one("abs.ftz.f32 r4 r5"),), otherwise=(
                one("abs.f32 r3 1"),
            )),
        ))],
        (0, 0, 0), 1, 0,
    ),
    "a product with a constant": (
        [one("cvt.u64.u32 d0 r0"), one("mad.lo.s64 d1 1 d0 1"), one("shl.b64 d2 d1 66"),
         one("cvt.u32.u64 r3 d2")],
        (6, 0, 0), 0, 7,
    ),
    "modulo 32": (
        [one("sub.cc.u32 r4 0 2"), one("bfi.b32 r3 0 r0 1 r4")],
        (0xFFFF_FFFF, 0, 0), 1, 0x8000_0001,
    ),
    "constants of a sum": (
        [one("mad24.hi.u32 r4 0xd6a81c9b 0xd6a81c9b r0"), one("add.sat.s32 r3 1 r4")],
        (0x1400_0000, 0, 0), 0x8265_8EA3, 0x7FFF_FFFF,
    ),
    "constants of a sum ": (
        [one("sub.s32 r4 7 r0"), one("sub.sat.s32 r3 r4 1")],
        (0x8000_0001, 0, 0), 0x8000_0005, 0x7FFF_FFFF,
    ),
    "odd numbers": (
        [one("or.b32 r4 r0 1"), one("or.b32 r5 3 r1"), one("mul.lo.s32 r6 r4 r5"),
         one("and.b32 r3 r6 1")],
        (4, 8, 0), 1, 0,
    ),
    "odd numbers ": (
        [one("or.b32 r4 r0 1"), one("mul.lo.u32 r5 r4 r4"), one("or.b32 r3 r5 1")],
        (4, 0, 0), 25, 26,
    ),
    "odd numbers  ": (
        [one("or.b32 r4 r0 1"), one("mul.lo.u32 r5 r4 r4"), one("cvt.u64.u32 d0 r1"),
         one("mad.wide.s32 d1 r5 0x80000000 d0"), one("cvt.u32.u64 r3 d1")],
        (4, 7, 0), 0x8000_0007, 7,
    ),
    "-0 in half": (
        [one("mov.b32 r4 0x3c008000"), one("add.rn.f16x2 r3 r4 r4")],
        (0, 0, 0), 0x4000_8000, 0x4000_0000,
    ),
    "-0 in half ": (
        [one("mov.b32 r4 0x80001fff"), one("max.NaN.bf16x2 r3 r4 r4")],
        (0, 0, 0), 0x8000_1FFF, 0x1FFF,
    ),
    "-0 in half  ": (  # of a loop that takes no turns the register stays
        [one("mov.b32 r4 0x80001fff"), one("and.b32 r6 r1 0"),
         Repeat(count="r6", counter="r5", body=(one("mov.b32 r4 r1"),)),
         one("add.u32 r4 r4 r5"), one("max.NaN.bf16x2 r3 r4 r4")],
        (0, 7, 0), 0x8000_1FFF, 0x1FFF,
    ),
    "selp.f32 by": (
        [one("setp.ne.u32 p0 r0 0"), one("mov.b32 r3 5"),
         If(predicate="p0", then=(
             Repeat(count="r2", counter="r5", body=(one("selp.f32 r3 r0 r1 p0"),)),
         ))],
        (3, 7, 1), 3, 7,
    ),
    "or.pred": (
        [ON, one("setp.ne.u32 p2 r0 0"), one("or.pred p3 p1 p2"), one("and.pred p4 p2 p1"),
         one("and.pred p5 p1 p4"), one("selp.b32 r3 1 0 p3")],
        (1, 0, 0), 1, 0,
    ),
    "or.pred ": (
        [ON, one("setp.ne.u32 p2 r0 0"), one("and.pred p3 p1 p2"), one("or.pred p4 p1 p2"),
         one("or.pred p5 p1 p4"), one("selp.b32 r3 1 0 p5")],
        (1, 0, 0), 1, 0,
    ),
    "set to f16": (
        [one("mov.b32.unpack h0|h1 r0"), one("mov.b32.unpack h2|h3 r1"),
         one("set.neu.f16.f16 h4 h0 h2"), one("cvt.u32.u16 r3 h4")],
        (1, 2, 0), 0x3C00, 0x3C00_3C00,
    ),
    "believed": (
        [one("setp.eq.u32 p0 r0 0"), one("div.s32 r4 r0 3"),
         If(predicate="p0", then=(
             Repeat(count=2, counter="r5", body=(one("setp.ge.xor.u32 p0|p2 r1 r2 p0"),)),
         )),
         one("selp.b32 r3 1 0 p0")],
        (0, 1, 0), 1, 0,
    ),
    "believed ": (
        [one("setp.eq.u32 p0 r0 0"), one("mov.b32 r3 5"), ELSEWHERE,
         If(predicate="p0", then=(
             Repeat(count=2, counter="r5", body=(
                 Leave(predicate="!p0", turn=True), one("setp.ge.xor.u32 p0|p2 r1 r2 p0"),
                 one("add.u32 r3 r3 1"),
             )),
         ))],
        (0, 1, 0), 6, 7,
    ),
    "believed  ": (
        [one("setp.eq.u32 p0 r0 0"), one("mov.b32 r3 5"), ELSEWHERE,
         If(predicate="p0", then=(
             Repeat(count=2, counter="r5", entry="p0", skipped=1, body=(
                 Leave(predicate="p0"), one("setp.ge.xor.u32 p0|p2 r1 r2 p0"),
                 one("add.u32 r3 r3 1"),
             )),
         ))],
        (0, 1, 0), 7, 6,
    ),
    "believed   ": (  # lanes leave the loop around with it
        [one("setp.ne.u32 p0 r0 0"), one("mov.b32 r3 5"),
         Repeat(count=1, counter="r5", body=(
             Leave(predicate="p0"),
             Repeat(count=2, counter="r6", body=(
                 one("add.u32 r3 r3 1", "!p0"), one("setp.lt.u32 p0 r1 7"),
             )),
         ))],
        (0, 1, 0), 6, 7,
    ),
    "believed    ": (  # what is written under a predicate may stay
        [one("setp.eq.u32 p0 r0 0"), one("setp.eq.u32 p1 r2 7"), one("mov.b32 r3 5"), ELSEWHERE,
         If(predicate="p0", then=(
             Repeat(count=2, counter="r5", body=(
                 one("setp.ne.u32 p0 r1 1", "p1"), one("selp.b32 r3 1 0 p0"),
                 one("setp.ne.u32 p0 r1 r1"),
             )),
         ))],
        (0, 1, 0), 0, 1,
    ),
    "believed     ": (  # it is written with what is there
        [one("setp.eq.u32 p0 r0 0"), one("mov.b32 r3 5"), ELSEWHERE,
         If(predicate="p0", then=(
             one("mov.pred p0 p0"),
             Repeat(count=2, counter="r5", body=(
                 one("and.pred p0 p0 p0"), one("add.u32 r3 r3 1", "p0"),
                 one("setp.ne.u32 p0 r1 r1"),
             )),
         ))],
        (0, 1, 0), 6, 7,
    ),
    "believed      ": (  # lanes enter a loop in the loop with it
        [one("setp.ne.u32 p0 r0 0"), one("mov.b32 r3 5"), ELSEWHERE,
         If(predicate="!p0", then=(
             Repeat(count=2, counter="r5", body=(
                 Repeat(count=1, counter="r6", late=True, entry="p0", skipped=1, body=(
                     one("add.u32 r3 r3 1"), one("setp.eq.u32 p0 r1 r1"),
                 )),
             )),
         ))],
        (0, 1, 0), 6, 7,
    ),
    "copy of a predicate": (
        [one("setp.eq.u32 p0 r0 0"), one("or.pred p1 p0 p0"), one("setp.gt.u32 p0 r1 7"),
         one("selp.b32 r3 1 0 p1")],
        (0, 1, 0), 1, 0,
    ),
    "copy of a predicate ": (
        [one("setp.eq.u32 p0 r0 0"), one("or.pred p1 p0 p0"), one("setp.gt.u32 p0 r1 7"),
         one("mov.b32 r3 5"),
         Repeat(count=1, counter="r5", body=(Leave(predicate="p1"), one("mov.b32 r3 7")))],
        (0, 1, 0), 5, 7,
    ),
    "copy of a predicate  ": (
        [one("setp.eq.u32 p0 r0 0"), one("setp.ge.xor.s32 p1|p0 0xbf800000 0 p0"),
         one("mov.b32 r3 5"), If(predicate="p1", then=(one("mov.b32 r3 7"),))],
        (0, 1, 0), 7, 5,
    ),
    "copy of a predicate   ": (
        [one("setp.eq.u32 p0 r0 0"), one("or.pred p1 p0 p0"), one("and.pred p1 p1 p1"),
         one("setp.gt.u32 p0 r1 7"), one("selp.b32 r3 1 0 p1")],
        (0, 1, 0), 1, 0,
    ),
    "copy of a predicate    ": (  # a comparison of constants makes it, and sets its source anew
        [one("setp.eq.u32 p0 r0 0"), one("mov.b32 r4 0"),
         one("setp.ge.and.u32 p1|p0 0 r4 p0"), one("mov.b32 r3 5"),
         If(predicate="p1", then=(one("mov.b32 r3 7"),))],
        (0, 1, 0), 7, 5,
    ),
    "copy of a predicate     ": (  # the negated one is it
        [one("setp.eq.u32 p0 r0 0"), one("setp.lo.and.u32 p2|p1 0 0 p0"),
         one("setp.gt.u32 p0 r1 7"), one("selp.b32 r3 1 0 p1")],
        (0, 1, 0), 1, 0,
    ),
    "extended with its sign in front": (
        [one("cvt.s64.u32 d0 r0"), one("shl.b64 d1 d0 4"), one("shr.u64 d2 d1 32"),
         one("cvt.u32.u64 r3 d2")],
        (0x8000_0000, 0, 0), 8, 0xFFFF_FFF8,
    ),
    "mad.hi": (
        [ON, one("mov.b32 r3 r0"), one("mad.hi.u32 r3 r1 r1 r3", "p1"),
         one("mad.hi.u32 r3 r1 r1 r3", "p1")],
        (5, 0x8000_0000, 1), 0x8000_0005, 0x4000_0005,
    ),
    "mad.hi ": (
        [ON, one("mov.b32 r3 r0"),
         Repeat(count=2, counter="r5", body=(one("mad.hi.u32 r3 r1 r1 r3", "p1"),))],
        (5, 0x8000_0000, 1), 0x8000_0005, 0x4000_0005,
    ),
    "slct of a": (
        [one("neg.s32 r4 r0"), one("slct.s32.s32 r3 r1 r2 r4")], (0x8000_0000, 5, 6), 6, 5,
    ),
    "slct of a ": (
        [one("setp.geu.f32 p0 r1 r1"), one("selp.b32 r4 0xffffffff 0 p0"),
         one("mul.lo.s32 r5 r4 r0"), one("slct.s32.s32 r3 7 r5 r5")],
        (0x8000_0000, 0x7FC0_0000, 0), 0x8000_0000, 7,
    ),
    "slct of a  ": (
        [one("sub.s32 r4 0 r0"), one("slct.s32.s32 r3 r1 r2 r4")], (0x8000_0000, 5, 6), 6, 5,
    ),
    "behind a branch": (
        [ON, one("mov.b32 r4 r0"), If(predicate="!p1", then=(one("neg.s32 r4 r1"),)),
         one("setp.ge.f32 p0 r4 0"), one("selp.b32 r3 1 0 p0")],
        (5, 0xFFFF_FFFF, 0), 1, 0,
    ),
    "behind a branch ": (  # the way without it
        [ON, If(predicate="!p1", then=(one("neg.s32 r0 r1"),)),
         one("slct.s32.f32 r3 7 r2 r0")],
        (0xFFFF_FFFF, 5, 1), 1, 1,
    ),
    "behind a branch  ": (
        [ON, If(predicate="!p1", then=(one("abs.s32 r0 r1"),)),
         one("setp.lt.f32 p0 0x80000000 r0"), one("selp.b32 r3 1 0 p0")],
        (5, 0xFFFF_FFFF, 0), 1, 0,
    ),
    "behind a branch   ": (
        [one("mov.b32 r3 r0"), Repeat(count=1, counter="r5", body=(one("cnot.b32 r3 r5"),)),
         one("slct.s32.f32 r3 14 r1 r3")],
        (5, 9, 0), 14, 9,
    ),
    "1 or 0": (
        [one("cvt.u16.u32 h0 r0"), one("cnot.b16 h1 h0"), one("cnot.b16 h1 h1"),
         one("cvt.rmi.bf16.bf16 h2 h1"), one("cvt.u32.u16 r3 h2")],
        (5, 0, 0), 0, 0x3F80,
    ),
    "1 or 0 ": (
        [one("cvt.u16.u32 h0 r0"), one("cnot.b16 h1 h0"), one("cvt.f32.f16 r3 h1")],
        (0, 0, 0), 0x3380_0000, 0x3F80_0000,
    ),
    "1 or 0  ": (
        [one("cvt.u16.u32 h0 r0"), one("cnot.b16 h1 h0"), one("cvt.rmi.u64.f16 d1 h1"),
         one("cvt.u32.u64 r3 d1")],
        (0, 0, 0), 0, 1,
    ),
    "1 or 0   ": (
        [one("cnot.b32 r4 r0"), one("cvt.rmi.s16.f32 h0 r4"), one("cvt.s32.u16 r3 h0")],
        (0, 0, 0), 0, 1,
    ),
    "1 or 0    ": (
        [one("cnot.b32 r4 r0"), one("cvt.rn.ftz.f16.f32 h0 r4"), one("cvt.u32.u16 r3 h0")],
        (0, 0, 0), 0, 0x3C00,
    ),
    "NaN that becomes 64 bits": (
        [one("cvt.rni.s64.f32 d0 r0"), one("cvt.sat.s32.s64 r3 d0")],
        (0x7FC0_0000, 0, 0), 0x8000_0000, 0,
    ),
    "NaN that becomes 64 bits ": (  # what is converted is written before that is read
        [ON, one("mov.b32.unpack h0|h1 r0"), one("cvt.rmi.u64.f16 d0 h0"),
         one("mov.b32 r3 r1"), one("mov.b32.unpack h0|h1 r1"),
         one("cvt.sat.u32.u64 r3 d0", "p1")],
        (0x7E00, 5, 1), 0xFFFF_FFFF, 0,
    ),
    "second factor": (
        [one("cvt.u64.u32 d0 r0"), one("cvt.u64.u32 d1 r1"), one("add.cc.u32 r4 1 2"),
         one("madc.hi.u64 d2 d0 d1 9"), one("cvt.u32.u64 r3 d2")],
        (5, 7, 0), 9, 7,
    ),
    "second factor ": (  # a carry is found out of a carry, and what madc.hi carries is right
        [one("cvt.u64.u32 d1 r1"), one("mov.b32 r4 0xffffffff"), one("add.cc.u32 r4 r4 r4"),
         one("addc.cc.s32 r5 2 0x80000000"),
         one("madc.hi.cc.s64 d2 d1 d1 0xffffffffffffffff"), one("addc.u32 r6 0 r0"),
         one("cvt.u32.u64 r7 d2"), one("add.u32 r3 r6 r7")],
        (5, 7, 0), 4, 12,
    ),
    "cancels": (
        [one("sub.u32 r4 r0 r1"), one("sub.sat.s32 r3 r4 r0")],
        (0x8000_0000, 1, 0), 0x7FFF_FFFF, 0xFFFF_FFFF,
    ),
    "a cnot": (
        [ON, one("cnot.b32 r4 r0"), one("selp.b32 r5 0xffffffff 0 p1"), one("xor.b32 r3 r5 r4")],
        (0, 0, 1), 0xFFFF_FFFE, 0,
    ),
    "a cnot ": (
        [one("cnot.b32 r4 r0"), one("set.gt.u32.s32 r5 r1 r2"), one("not.b32 r5 r5"),
         one("xor.b32 r3 r4 r5")],
        (5, 0, 0), 0xFFFF_FFFF, 1,
    ),
    "a cnot  ": (
        [one("cnot.b32 r4 r0"), one("cnot.b32 r5 r1"), one("neg.s32 r5 r5"),
         one("xor.b32 r3 r4 r5")],
        (0, 0, 0), 0xFFFF_FFFE, 0,
    ),
    "both halves": (
        [one("setp.ne.s32 p0 0x30008 r0"), one("mov.b32 r3 r2"),
         If(predicate="!p0", then=(one("add.rn.f16x2 r3 r0 r1"),))],
        (0x3_0008, 0, 0), 0x3_0008, 0x8_0008,
    ),
    "both halves ": (
        [one("setp.ne.u32 p0 r0 0x30008"),
         If(predicate="p0", then=(one("mov.b32 r3 r2"),), otherwise=(
             If(predicate="p0", then=(), otherwise=(one("max.bf16x2 r3 r1 r0"),)),
         ))],
        (0x3_0008, 0, 0), 0x3_0008, 0x8_0008,
    ),
    "repeated ": (
        [one("setp.ge.ftz.f32 p0 r0 r1"), one("not.pred p1 p0"), one("mov.b32 r3 r2"),
         If(predicate="!p1", then=(one("mov.b32 r3 7", "p1"),))],
        (1, 2, 3), 3, 7,
    ),
    "repeated  ": (
        [one("setp.ge.ftz.f32 p0 r0 r1"), one("or.pred p0 p0 p0", "!p0"), one("mov.b32 r3 r2"),
         If(predicate="p0", then=(one("mov.b32 r3 7", "!p0"),))],
        (1, 2, 3), 3, 7,
    ),
    "repeated": (
        [one("setp.ge.ftz.f32 p0 r0 r1"), one("mov.b32 r3 r2"),
         If(predicate="p0", then=(one("mov.b32 r3 7", "!p0"),))],
        (1, 2, 3), 3, 7,
    ),
    "too far": (
        [one("cnot.b32 r4 r1"), one("mov.b32.unpack h0|h1 r0"), one("shr.s16 h2 h0 r4"),
         one("cvt.u32.u16 r3 h2")],
        (5, 0, 0), 2, 0,
    ),
    "xorsign": (
        [one("neg.f16x2 r0 r0"), one("max.xorsign.abs.f16x2 r3 r0 r0")],
        (0x3C00_BC00, 0, 0), 0x3C00_3C00, 0xBC00_BC00,
    ),
    "xorsign ": (
        [one("abs.f16x2 r4 r0"), one("neg.f16x2 r5 r1"), one("min.xorsign.abs.f16x2 r3 r4 r5")],
        (0xBC00_3C00, 0x4000_4000, 0), 0xBC00_BC00, 0x3C00_BC00,
    ),
    "mask that is compared with 0 loses": (
        [one("set.le.ftz.u32.f32 r0 r0 0"), one("cnot.b32 r3 r0")], (1, 0, 0), 0, 1,
    ),
    "mask that is compared with 0 loses ": (
        [one("set.gt.ftz.u32.f32 r4 r0 r1"), one("setp.ne.s32 p0 0 r4"),
         one("selp.b32 r3 7 8 p0")],
        (1, 0, 0), 8, 7,
    ),
    "negated behind the predicate": (
        [one("setp.ne.u32 p0 0 1"), one("set.le.u32.f32 r4 0 r0"),
         one("set.eq.or.u32.u32 r3 r4 0 p0")],
        (0, 0, 0), 0xFFFF_FFFF, 0,
    ),
    "modulo 2^32": (
        [one("cvt.u64.u32 d0 r0"), one("mul.lo.u64 d1 d0 0x10000"),
         one("mad.lo.u64 d2 d1 0x10000 d0"), one("shr.u64 d3 d2 32"), one("cvt.u32.u64 r3 d3")],
        (5, 0, 0), 5, 0,
    ),
    "modulo 2^32 ": (
        [one("cvt.u64.u32 d0 r0"), one("mad.lo.s64 d1 d0 0x10000 d0"),
         one("mad.lo.s64 d1 0x10000 d1 d0"), one("shr.u64 d3 d1 32"), one("cvt.u32.u64 r3 d3")],
        (5, 0, 0), 5, 0,
    ),
}  # fmt: skip
"""Code with one known defect by a word of its name, what lanes are given, what they have to store,
and what they store with the defect: of the ISA, and of docs/findings.md."""


@pytest.mark.parametrize("word", DEFECTS)
def test_a_known_defect_that_is_written_out_names_what_a_compiler_made_wrong(
    docs: tuple[Any, Any], word: str
) -> None:
    script, causes = docs
    code, given, right, wrong = DEFECTS[word]
    program = program_of(code)
    assert stored(program, *given) == {right}
    (names, defective), *_ = causes.with_defects(program)
    assert stored(defective, *given) == {wrong}
    assert word.strip() in names[0]
    # A matrix tells it by the bytes that came out.
    images = np.random.default_rng(1).integers(0, 256, (4, program.image_bytes), np.uint8)
    drawn = script.Drawn(form=None, version="7.8", program=program)
    explained = script._Explained(drawn, images)
    made = execute(defective, images, target="sm_90").images
    assert explained.causes(made, "sm_90") == names
    assert not explained.causes(images + np.uint8(1), "sm_90")


def by_lane(program: Program) -> list[int]:
    """Return what each lane stores, given zeros."""
    images = np.zeros((1, program.image_bytes), np.uint8)
    out = execute(program, images, target="sm_90").images[:, program.offset("out") :]
    return [int(word) for word in out[0, :128].copy().view(np.uint32)]


def test_lane_0_that_is_not_joined_reduces_what_it_has_by_itself(docs: tuple[Any, Any]) -> None:
    program = program_of([
        one("add.u32 r4 lane 5"), one("redux.sync.add.s32 r3 r4 0xffffffff"),
    ])  # fmt: skip
    whole = sum(lane + 5 for lane in range(32))
    assert by_lane(program) == [whole] * 32
    ((names, defective),) = docs[1].with_defects(program)
    assert names == ["lane 0 is not joined before redux"]
    assert by_lane(defective) == [5] + [whole - 5] * 31


@pytest.mark.parametrize(
    ("entry", "entering", "inside", "outside"),
    [
        ("p0", 4, 0xFFFF_0302, 0xFFFF_0101),
        ("p0", 16, 0xFFFF_0100, 0xFFFF_0303),
        ("!p0", 28, 0xFFFF_0100, 0xFFFF_0303),
        ("!p0", 15, 0xFFFF_0302, 0xFFFF_0101),
        ("p0", 0, 0x302, 0x303),
        ("p0", 32, 0x302, 0x303),
    ],
)
def test_of_lanes_that_enter_a_loop_at_two_places_the_smaller_group_takes_all_its_turns(
    docs: tuple[Any, Any], entry: str, entering: int, inside: int, outside: int
) -> None:
    bound = entering if entry == "p0" else 32 - entering
    loop = Repeat(
        count=3, counter="r5", down=True, late=True, entry=entry, skipped=1,
        body=(one("add.u32 r4 r4 1"), one("add.u32 r4 r4 0x100")),
    )  # fmt: skip
    program = program_of([
        one(f"setp.lt.u32 p0 lane {bound}"), one("mov.b32 r4 0"), loop,
        one("shl.b32 r6 r5 16"), one("add.u32 r3 r4 r6"),
    ])  # fmt: skip
    enters = [(lane < bound) == (entry == "p0") for lane in range(32)]
    assert by_lane(program) == [0x302 if each else 0x303 for each in enters]
    (names, defective), *_ = docs[1].with_defects(program)
    assert names == [COUNTS]
    assert by_lane(defective) == [inside if each else outside for each in enters]
    (names, defective), *_ = docs[1].with_defects(program)
    assert names == [COUNTS]
    assert by_lane(defective) == [inside if each else outside for each in enters]


COUNTS = "lanes that enter a loop within its body count with the others"
BODY = (one("add.u32 r4 r4 1"), one("add.u32 r4 r4 0x100"))


def made_by_lane(docs: tuple[Any, Any], code: Sequence[Statement], *names: str) -> list[list[int]]:
    """Return what lanes store with these defects, in each way of writing them."""
    return [
        by_lane(program)
        for found, program in docs[1].with_defects(program_of(code))
        if found == [*names]
    ]


def entering(bound: int, *code: Statement) -> list[Statement]:
    """Let lanes below one enter a loop; they store what it made and its counter."""
    return [
        one(f"setp.lt.u32 p0 lane {bound}"), one("mov.b32 r4 0"), one("selp.b32 r6 1 3 p0"), *code,
        one("shl.b32 r6 r5 16"), one("add.u32 r3 r4 r6"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bound", "inside", "outside"),
    [(4, 0x3_0201, 0x3_0101), (16, 0x3_0100, 0x3_0202), (0, 0, 0x2_0202), (32, 0x2_0201, 0)],
)
def test_lanes_that_come_later_to_a_loop_that_counts_up_go_on_from_the_count_of_the_others(
    docs: tuple[Any, Any], bound: int, inside: int, outside: int
) -> None:
    loop = Repeat(count=2, counter="r5", late=True, entry="p0", skipped=1, body=BODY)
    code = entering(bound, loop)
    assert by_lane(program_of(code)) == [0x2_0201] * bound + [0x2_0202] * (32 - bound)
    assert made_by_lane(docs, code, COUNTS) == [[inside] * bound + [outside] * (32 - bound)]


@pytest.mark.parametrize(("bound", "last"), [(4, 3), (16, 3), (17, 1), (32, 1), (0, 3)])
def test_lanes_that_a_branch_has_left_apart_find_what_the_last_of_them_have_counted(
    docs: tuple[Any, Any], bound: int, last: int
) -> None:
    loop = Repeat(count="r6", counter="r5", late=True, entry="p0", skipped=1, body=BODY)
    code = entering(bound, If(predicate="p0", then=(one("mov.b32 r7 1"),)), loop)
    right = [0x1_0100] * bound + [0x3_0303] * (32 - bound)
    assert by_lane(program_of(code)) == right
    wrong = [each & 0xFFFF | last << 16 for each in right]
    assert wrong in made_by_lane(docs, code, COUNTS)


def test_a_loop_of_all_lanes_around_such_a_loop_lets_them_part_in_its_first_turn_alone(
    docs: tuple[Any, Any],
) -> None:
    loop = Repeat(count=3, counter="r5", down=True, entry="p0", skipped=1, body=BODY)
    code = entering(4, one("mov.b32 r5 0"), Repeat(count=2, counter="r8", body=(loop,)))
    assert by_lane(program_of(code)) == [0x604] * 4 + [0x606] * 28
    assert made_by_lane(docs, code, COUNTS) == [[0x604] * 4 + [0x404] * 28]


def test_lanes_that_do_not_enter_such_a_loop_may_leave_each_turn_of_it(
    docs: tuple[Any, Any],
) -> None:
    body = (Leave(predicate="!p0", turn=True), one("add.u32 r4 r4 0x100"))
    loop = Repeat(
        count=3, counter="r5", down=True, late=True, entry="p0", skipped=1, body=body
    )  # fmt: skip
    code = entering(4, loop)
    assert by_lane(program_of(code)) == [0x300] * 4 + [0] * 28
    assert made_by_lane(docs, code, COUNTS) == [[0xFFFF_0300] * 4 + [0xFFFF_0000] * 28]


def test_lane_0_that_is_not_joined_before_such_a_loop_counts_by_itself(
    docs: tuple[Any, Any],
) -> None:
    loop = Repeat(
        count=3, counter="r5", down=True, late=True, entry="p0", skipped=1, body=BODY
    )  # fmt: skip
    code = entering(4, loop)
    made = made_by_lane(docs, code, COUNTS, "lane 0 is not joined before a loop")
    assert made == [[0x302] + [0xFFFF_0302] * 3 + [0xFFFF_0101] * 28]


def test_abs_is_left_out_where_a_compiler_knows_that_all_ways_to_it_are_not_negative(
    docs: tuple[Any, Any],
) -> None:
    code: list[Statement] = [
        one("mov.b32 r4 r0"), one("mov.b32 r5 0"),
        Repeat(count="r2", mask=1, counter="r7", body=(
            one("add.rn.sat.f32 r4 r0 r1"), one("abs.bf16x2 r5 r4"),
        )),
        one("abs.bf16x2 r6 r4"), one("xor.b32 r3 r5 r6"),
    ]  # fmt: skip
    given = 0x3E80_8000, 0, 1
    made = [stored(program, *given) for _, program in docs[1].with_defects(program_of(code))]
    assert stored(program_of(code), *given) == {0}
    assert {0x8000} in made


def test_a_branch_alone_may_take_a_copy_of_a_predicate_for_what_that_is_set_to_later(
    docs: tuple[Any, Any],
) -> None:
    code = [
        one("setp.eq.u32 p0 r0 0"), one("or.pred p1 p0 p0"), one("setp.gt.u32 p0 r1 7"),
        one("mov.b32 r3 4"), If(predicate="p1", then=(one("add.s32 r3 r3 2"),)),
        one("add.s32 r3 r3 1", "p1"),
    ]  # fmt: skip
    made = {
        number
        for names, program in docs[1].with_defects(program_of(code))
        for number in stored(program, 0, 1, 0)
        if "copy of a predicate" in names[0]
    }
    assert stored(program_of(code), 0, 1, 0) == {7}
    assert made == {4, 5}


def test_code_that_every_compiler_makes_right_shows_no_known_defect(docs: tuple[Any, Any]) -> None:
    code = [
        ON, one("bfe.s32 r4 r0 31 9"), one("bfi.b32 r4 r0 r1 6 31"), one("sub.sat.s32 r4 r0 r1"),
        one("testp.normal.f32 p0 r1"), one("set.gt.f32.f32 r3 r1 r1"), one("abs.bf16x2 r4 r0"),
        one("set.gt.u32.f32 r3 r1 r1", "p1"),
        If(predicate="p1", then=(
            Repeat(count=2, counter="r5", body=(one("mov.b32 r3 7", "!p1"),)),
        )),
        one("setp.ne.u32 p4 r0 9"),
        If(predicate="!p4", then=(
            one("sub.rn.f16x2 r4 r1 r0"), one("abs.f16x2 r4 r0"), one("add.s32 r4 r0 r1"),
        ), otherwise=(one("add.rn.f16x2 r4 r0 r1"),)),
        one("setp.eq.u32 p4 r0 9"), If(predicate="p4", then=(one("add.rn.f16x2 r4 r0 r1"),)),
        # What is compared is written before the branch, and after it.
        one("setp.ne.u32 p4 r2 9"), one("mov.b32 r2 r1"),
        If(predicate="!p4", then=(one("add.rn.f16x2 r4 r2 r1"),)),
        one("setp.ne.u32 p4 r2 9"),
        If(predicate="!p4", then=(one("mov.b32 r2 r1"), one("add.rn.f16x2 r4 r2 r1"))),
        one("bfe.s32 r4 r0 0x56 r1"), one("bfe.s32 r4 r0 0x56 0"),
        # In other turns it is something else, and not all is found out.
        one("lop3.b32 r6 1 1 1 0"), one("bfe.s32 r4 r0 0x56 r6"),
        one("min.u32 r6 r1 0"), one("bfe.s32 r4 r0 0x56 r6"),
        one("dp4a.u32.u32 r6 1 2 3"), one("bfe.s32 r4 r0 0x56 r6"),
        one("mov.b32 r6 0x56"),
        Repeat(count=2, counter="r5", body=(
            one("bfe.s32 r4 r0 r6 9"), one("mov.b32 r6 9"), Leave(predicate="p1"),
        )),
        one("add.rn.f16x2 r6 0x3c00 0x3c00"), one("bfe.s32 r4 r0 0x56 r6"),
        one("setp.ne.u32 p0 r0 r0", "p1"), one("mov.b32 r6 9", "p0"),
        one("bfe.s32 r4 r0 0x56 r6"), one("neg.ftz.f32 r4 r0"), one("neg.f32 r4 r1"),
        # The first branch behind what writes its predicate.
        one("setp.eq.u32 p4 r0 9"),
        If(predicate="p4", then=(
            Repeat(count=2, counter="r5", body=(one("setp.ge.xor.u32 p4|p5 r1 r2 p4"),)),
        )),
        # Nothing is under a predicate.
        one("mov.b32.unpack h1|h2 r0"), one("min.bf16 h1 h1 h2"), one("cvt.sat.s8.u16 h1 h1"),
        one("cvt.u32.u16 r4 h1"),
        # No branch says it, or the loop changes it.
        one("setp.ne.u32 p4 r0 9"), one("selp.f32 r4 r0 r1 p4"),
        If(predicate="p4", then=(
            Repeat(count=2, counter="r5", body=(
                one("selp.f32 r4 r0 r1 p4"), one("setp.ne.u32 p4 r0 8"),
            )),
            one("selp.f32 r4 r0 r1 p4"),
        )),
        one("setp.ne.u32 p4 r0 9"), If(predicate="p4", then=(one("selp.b32 r4 r0 r1 p4"),)),
        # Of a sum with a predicate, and of others than a constant and a register.
        one("add.s32 r4 r0 7"), one("add.sat.s32 r4 r4 1", "p1"), one("add.sat.s32 r4 r4 1"),
        one("add.s32 r4 r0 r1"), one("add.sat.s32 r4 r4 1"), one("add.s32 r4 r0 7"),
        one("sub.sat.s32 r4 1 r4"), one("mad.lo.u32 r4 3 r0 7"), one("add.sat.s32 r4 r4 1"),
        one("add.s32 r4 r0 7"), one("add.sat.s32 r4 r4 r1"),
        one("add.s32 r4 r0 7", "p1"), one("add.sat.s32 r4 r4 1"),
        one("cvt.s64.u32 d0 r0"), one("shl.b64 d1 d0 32"), one("shl.b64 d1 d0 r1"),
        one("cvt.u64.u32 d0 r0"), one("shl.b64 d1 d0 4"),
        one("mad.lo.s64 d1 3 d0 d1"), one("shl.b64 d1 d1 66"),
        one("mad.lo.s64 d1 3 5 d0"), one("shl.b64 d1 d1 66"),
        one("mad.lo.s64 d1 3 d0 5"), one("shl.b64 d1 d1 63"),
        one("mad.hi.u32 r4 r0 r1 r4"), one("mad.hi.u32 r4 r0 r1 r4"),
        one("mad.hi.u32 r4 r0 r1 r2", "p1"), one("mad.hi.u32 r4 r0 r1 r2", "p1"),
        # A lop3 that is read without its sources, of a constant twice, and of three registers.
        one("lop3.b32 r4 r0 r0 r1 8"), one("xor.b32 r5 r4 r2"),
        one("lop3.b32 r6 7 7 r1 8"), one("xor.b32 r5 r6 r1"),
        one("lop3.b32 r7 r0 r1 r2 8"), one("xor.b32 r5 r7 r1"),
        one("mov.b32 r8 r1"), one("lop3.b32 r8 r0 r0 r1 8", "p1"), one("xor.b32 r5 r8 r1"),
        # No mask, or one with a predicate in front; what flushes is right.
        one("cnot.b32 r9 r0"), one("xor.b32 r4 r9 r1"), one("mov.b32 r4 r0"),
        one("set.gt.u32.s32 r4 r1 r2", "p1"), one("xor.b32 r4 r9 r4"),
        one("set.gt.ftz.u32.f32 r4 r1 r2"), one("xor.b32 r4 r9 r4"),
        one("selp.b32 r4 0xffffffff 1 p1"), one("xor.b32 r4 r9 r4"),
        # A comparison of constants that says what the predicate does not, and of others.
        one("setp.lo.and.u32 p6|p7 0 0 p1"), one("selp.b32 r4 1 0 p6"),
        one("setp.ge.and.u32 p6|p7 r0 0 p1"), one("selp.b32 r4 1 0 p6"),
        # Something else reads what the second one makes.
        one("setp.ne.u32 p2 r0 0"), one("or.pred p3 p1 p2"), one("and.pred p4 p1 p2"),
        one("and.pred p5 p1 p4"), one("selp.b32 r4 1 0 p4"),
        # An amount that is something else, one sign alone, a mask that is compared with more.
        one("cnot.b32 r4 r1"), one("add.u32 r4 r4 1"), one("cvt.u16.u32 h0 r0"),
        one("shr.s16 h2 h0 r4"),
        one("neg.f16x2 r4 r1"), one("max.xorsign.abs.f16x2 r5 r4 r0"),
        one("max.xorsign.abs.f16x2 r5 r0 r4"),
        one("set.le.ftz.u32.f32 r4 r0 r1"), one("setp.eq.u32 p2 r4 0xffffffff"),
        one("setp.ne.u32 p2 0 1"), one("set.ne.or.u32.u32 r5 r4 0 p2"),
        # What flushes or saturates is converted; a turn's number of which there is one sign.
        one("cnot.b32 r4 r1"), one("cvt.rni.ftz.s32.f32 r5 r4"), one("cvt.sat.f32.f32 r5 r4"),
        Repeat(count=2, counter="r5", body=(
            one("neg.ftz.f32 r4 r5"), one("neg.f32 r4 7"), one("neg.f32 r4 r7"),
        )),
        one("mul.lo.u64 d1 d0 0x10000"), one("mad.lo.u64 d2 d1 0x8000 d0"),
        one("cvt.u64.u32 d3 r1"), one("mad.lo.u64 d2 d1 0x10000 d3"),
        If(predicate="p1", then=(one("mov.b64 d1 d3"),)), one("mad.lo.u64 d2 d1 0x10000 d0"),
        # Of another type, of two ways, or a carry that is 1, is not known or of 32 bits.
        one("cvt.rni.s64.f32 d1 r0"), one("cvt.sat.u32.s64 r4 d1"), one("cvt.u32.u64 r4 d1"),
        one("cvt.f64.f32 d3 r0"), one("cvt.rni.s64.f64 d1 d3"), one("cvt.sat.s32.s64 r4 d1"),
        If(predicate="p1", then=(one("cvt.rni.s64.f32 d1 r0"),)), one("cvt.sat.s32.s64 r4 d1"),
        one("add.cc.u32 r4 1 0xffffffff"), one("madc.hi.u64 d1 d0 d3 9"),
        one("add.cc.u32 r4 r0 0"), one("madc.hi.u64 d1 d0 d3 9"),
        one("add.cc.u64 d1 1 2"), one("madc.hi.u64 d1 d0 d3 9"),
        one("add.cc.u32 r4 1 2"), one("madc.lo.u64 d1 d0 d3 9"),
        one("add.cc.u32 r4 1 2"), one("madc.hi.u32 r4 r0 r1 9"),
    ]  # fmt: skip
    assert docs[1].possible(program_of(code)) == []


def test_a_comparison_that_is_repeated_reads_the_predicate_that_it_was_made_with(
    docs: tuple[Any, Any],
) -> None:
    code: list[Statement] = [
        one("setp.eq.u32 p0 r0 0"), one("setp.neu.and.ftz.f32 p1|p0 r1 r2 p0"),
        one("mov.b32 r3 4"), If(predicate="p1", then=(one("mov.b32 r3 7", "p1"),)),
    ]  # fmt: skip
    made = [
        stored(program, 0, 0x3F80_0000, 0)
        for names, program in docs[1].with_defects(program_of(code))
        if "loses .ftz" in names[0]
    ]
    assert stored(program_of(code), 0, 0x3F80_0000, 0) == {7}
    assert made
    assert all(each == {7} for each in made)


def test_what_one_defect_makes_of_constants_is_a_constant_of_another(
    docs: tuple[Any, Any],
) -> None:
    code = [
        one("bfe.s32 r4 r0 0x56 9"), one("and.b32 r4 r4 0x80003c00"), one("add.rn.f16x2 r3 r4 r4")
    ]  # fmt: skip
    program = program_of(code)
    made = [(names, stored(it, 5, 0, 0)) for names, it in docs[1].with_defects(program)]
    assert stored(program, 5, 0, 0) == {0}
    assert (["bfe.s32 with a constant position above 31 is -1"], {0x8000_4000}) in made
    assert {frozenset(each) for names, each in made if len(names) > 1} == {frozenset({0x4000})}


@pytest.mark.parametrize("changes", [False, True])
def test_a_branch_on_a_copy_says_what_a_selp_reads_until_that_is_written(
    docs: tuple[Any, Any], changes: bool
) -> None:
    selp = one("selp.f32 r3 r0 r1 p0")
    code: list[Statement] = [
        one("setp.ne.u32 p0 r0 0"), one("and.pred p2 p0 p0"), one("mov.b32 r3 5"),
        *([one("setp.ne.u32 p0 r0 1")] if changes else []), If(predicate="p2", then=(selp,)),
    ]  # fmt: skip
    made = [
        stored(it, 3, 7, 0)
        for names, it in docs[1].with_defects(program_of(code))
        if names[0].startswith("selp.f32 by")
    ]
    assert made[:1] == ([] if changes else [{7}])


LOP3 = "one of two equal sources of a lop3"


@pytest.mark.parametrize(
    ("code", "right", "wrong"),
    [
        # What is read behind the reader stands for one of the two.
        (
            [one("lop3.b32 r4 r0 r0 r1 5"), one("or.b32 r5 r1 r4"), one("xor.b32 r3 r5 r2")],
            0xFFFF_FFF7, 0xFFFF_FFFF,
        ),
        # The source that both read is written in an arm that no lane takes.
        (
            [one("lop3.b32 r4 r0 r0 r1 8"), one("setp.ne.u32 p0 r1 r1"),
             If(predicate="p0", then=(one("mov.b32 r1 r2"),)), one("xor.b32 r3 r4 r1")],
            6, 4,
        ),
    ],
)  # fmt: skip
def test_a_lop3_is_merged_with_what_reads_it_twice_and_across_arms(
    docs: tuple[Any, Any], code: Sequence[Statement], right: int, wrong: int
) -> None:
    program = program_of(code)
    made = [
        stored(defective, 3, 6, 9)
        for names, defective in docs[1].with_defects(program)
        if names[0].startswith(LOP3)
    ]
    assert stored(program, 3, 6, 9) == {right}
    assert {wrong} in made


@pytest.mark.slow
def test_programs_that_share_registers_are_findings_where_a_compiler_is_wrong(home: Path) -> None:
    said = script(
        "shared_registers.py", home, "--compilers", "c", "--opt", "3", "--runner", "sim",
        "--corpus", "four",
    ).splitlines()  # fmt: skip
    assert len(said) == 4
    assert all("V12.5.0 -O3 wrong" in line for line in said[:2])
    assert all("right with all" in line for line in said[2:])  # they store by plain stores
    found = [json.loads(path.read_text()) for path in (home / "four").rglob("finding.json")]
    assert len(found) == 2
    for one in found:
        assert one["details"]["agree with the oracle"] == "V12.4.0 -O3"
        assert one["family"]["key"].endswith("only V12.5.0 -O3")
