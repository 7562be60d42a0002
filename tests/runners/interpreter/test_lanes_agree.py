"""Code of lanes in the reference of the device, built for the processor, against the oracle."""

import random

import numpy as np
import pytest
from scalar_operands import operands
from test_reference_agrees import assert_agrees, assert_same

from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.models import model_for
from oracle.program.lane_code import Assign, LaneCode
from oracle.program.program import walk
from oracle.scalar import SCALARS
from strategies.draws import draw
from strategies.features import Focus, Has
from strategies.matrices import single_program
from strategies.programs import programs

ROWS = list(SCALARS.values())
EDGES = (
    *range(4), 8, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 127, 128, 255, 256, 0x7FFF, 0x8000,
    0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0001, 0xFFFF_FFFF, 0x5555_5555, 0x0102_8081,
    0x3F80_0000, 0xBF80_0000, 0x3F00_0000, 0x0000_0001, 0x007F_FFFF, 0x0080_0000, 0x7F7F_FFFF,
    0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x7F80_0001, 0x4B00_0000, 0x4F00_0000, 0x5F00_0000,
    0x3C00_BC00, 0x7C00_FC00, 0x7E00_0001, 0x03FF_0400, 0x7BFF_FBFF, 0x3800_B800,
    0x7F80_FF80, 0x7FC0_3F80, 0x3FF0_0000, 0x7FF0_0000, 0xFFF0_0000, 0x7FF8_0000, 0x43E0_0000,
    0xC3E0_0000, 0x3FE0_0000, 0x000F_FFFF, 0x41DF_FFFF, 0x7E7F_FE80, 0x437F_4380,
)  # fmt: skip
"""Words, and parts of them, at which something changes for some type."""
INPUTS = {
    "b16": ("cvt.u16.u32", lambda i: (f"h{i}",), lambda i: (f"r{i}",)),
    "b64": ("mov.b64.pack", lambda i: (f"d{i}",), lambda i: (f"r{i}", f"r{i + 4}")),
    "pred": ("setp.ge.s32", lambda i: (f"p{i}",), lambda i: (f"r{i + 4}", 0)),
}
"""What makes registers of a class of the words that are read."""
LETTERS = {"b16": "h", "b32": "r", "b64": "d", "pred": "p"}


def statements(row, dice):
    """An instruction on registers or constants, and what brings its results into words."""
    code, sources = [], []
    less = row.family.startswith("sub")  # A borrow is read by subtractions alone.
    for kind in {*row.sources} - {"b32"}:
        opcode, made, given = INPUTS[kind]
        code += (Assign(opcode=opcode, destinations=made(i), sources=given(i)) for i in range(4))
    for index, kind in enumerate(row.sources):
        allowed = row.immediates.get(index)
        if allowed and (allowed.required or dice.random() < 0.2):
            sources.append(dice.choice((allowed.low, allowed.high, dice.randint(*allowed[:2]))))
        else:
            sources.append(LETTERS[kind] + str(index % 4))
    if row.carry_in:
        flag = "sub.cc.u32" if less else "add.cc.u32"
        code.append(Assign(opcode=flag, destinations=("r20",), sources=("r6", "r7")))
    written = tuple(f"{LETTERS[kind]}{10 + i}" for i, kind in enumerate(row.destinations))
    code.append(Assign(opcode=row.opcode, destinations=written, sources=tuple(sources)))
    if row.settled_by:
        code.append(Assign(opcode=row.settled_by, destinations=written, sources=written * 2))
    elif row.nan:
        code.append(Assign(opcode="testp.number.f64", destinations=("p9",), sources=written))
        code.append(Assign(opcode="selp.b64", destinations=written, sources=(*written, 0, "p9")))
    results = []
    if row.carry_out:
        flag = "subc.u32" if less else "addc.u32"
        code.append(Assign(opcode=flag, destinations=("r19",), sources=(0, 0)))
        results.append("r19")
    for i, name in enumerate(written):
        words = (f"r{30 + 2 * i}", f"r{31 + 2 * i}")
        how = {
            "h": ("cvt.u32.u16", words[:1], (name,)),
            "p": ("selp.b32", words[:1], (1, 0, name)),
            "d": ("mov.b64.unpack", words, (name,)),
        }.get(name[0])
        if how is None:
            results.append(name)
        else:
            code.append(Assign(opcode=how[0], destinations=how[1], sources=how[2]))
            results += how[1]
    return code, results


def program_of(row, dice):
    code, results = statements(row, dice)
    step = LaneCode(
        source="x", count=8, destination="y", results=tuple((results * 8)[:8]), code=tuple(code)
    )
    return single_program(step)


def assert_row(reference, row, dice):
    program = program_of(row, dice)
    rng = np.random.default_rng(dice.getrandbits(32))
    images = rng.integers(0, 256, (8, program.image_bytes), np.uint8)
    images[:5].view("<u4")[:] = rng.choice(EDGES, (5, program.image_bytes // 4))
    # Of some, numbers lie near each other.
    images[4].view("<u4")[:] = images[4].view("<u4")[:1] + rng.integers(0, 3, images.shape[1] // 4)
    assert_same(reference, program, images)


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def test_every_instruction(reference, step):
    dice = random.Random(28)
    families = {row.family: row for row in ROWS}
    for row in {*families.values(), *ROWS[::step]}:
        assert_row(reference, row, dice)


@pytest.mark.parametrize(
    "opcode",
    ["mul.rn.ftz.f32", "mul.rn.ftz.f16x2", "fma.rm.ftz.f32", "fma.rn.ftz.relu.f16",
     "cvt.rn.ftz.f32.f64", "cvt.rm.ftz.f32.f64"],
)  # fmt: skip
def test_results_that_are_about_to_be_flushed(reference, opcode):
    """Tiny is what is tiny after it was rounded as if exponents had no end."""
    row = SCALARS[opcode]
    program = program_of(row, random.Random(0))
    images = np.zeros((8, program.image_bytes), np.uint8)
    words = images.view("<u4")[:, : 32 * 8].reshape(8, 32, 8)
    for index, given in enumerate(operands(row, 8)):
        words[..., index] = given.astype(np.uint32)
        words[..., index + 4] = given.astype(np.uint64) >> np.uint64(32)
    assert_same(reference, program, images)


@pytest.mark.parametrize("count", [10, pytest.param(400, marks=pytest.mark.slow)])
def test_drawn_code(reference, count):
    """Branches, loops and what lanes do together, in programs of their own."""
    focus = Focus(features=frozenset({Has.LANES_ALONE}))
    strategy, seen = programs(focus, module=Module.named("sm_90", "8.7"), forms=FORMS), 0
    for number, program in enumerate(draw(strategy, count, 28)):
        assert_agrees(reference, program, model_for("sm_90"), 19, number)
        seen += any(isinstance(step, LaneCode) for step in walk(program.steps))
    assert seen > count * 3 // 4
