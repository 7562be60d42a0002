"""A slice has all that a stored value depends on, and of each instruction what it gave."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.execution.execution import execute
from oracle.execution.tracing import Link, slice_of, trace, writer_of
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.program.lane_code import LANE, ZERO, Assign, If, LaneCode, Leave, Repeat
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program, position
from oracle.program.steps import accesses_registers, is_lane_code, plain_load, plain_store
from strategies.draws import draw_one
from strategies.features import Focus, Has
from strategies.matrices import results
from strategies.programs import programs

ALONE = programs(
    Focus(features=frozenset({Has.LANES_ALONE})), module=Module.named("sm_90", "8.7"), forms=FORMS
)


def sliced(program: Program, image: np.ndarray, lane: int, column: int) -> tuple[Link, ...]:
    """Return the slice of a register that a lane stores."""
    traced = trace(program, image, target="sm_90")
    for result in results(program):
        rows, columns = result.offsets.shape
        place = int(result.offsets[lane % rows, column % columns])
        written = writer_of(traced, place)
        if written is not None and result.is_registers:
            return slice_of(traced, written)
    pytest.skip("it stores rows of matrices alone")


def loaded(program: Program, links: tuple[Link, ...]) -> np.ndarray:
    """Return which bytes of an image the loads of a slice read."""
    found = np.zeros(program.image_bytes, bool)
    for link in links:
        step = link.event.step
        if accesses_registers(step) and step.loads:
            size = step.size // step.lanes
            start = position(program, step.place)
            for lane in np.flatnonzero(link.lanes):
                found[start + size * lane : start + size * (lane + 1)] = True
    return found


@pytest.mark.parametrize("key", range(16))
def test_what_is_not_in_a_slice_can_be_changed(key: int) -> None:
    program = draw_one(ALONE, key)
    rng = np.random.default_rng(key)
    image = rng.integers(0, 3, program.image_bytes, np.uint8) * rng.integers(0, 2, 1, np.uint8)[0]
    links = sliced(program, image, key, key)
    other = np.where(loaded(program, links), image, rng.integers(0, 256, len(image), np.uint8))
    before, after = execute(program, np.stack([image, other]), target="sm_90").images
    step, at = links[-1].event.step, links[-1].at
    assert at is not None
    assert accesses_registers(step)
    size = step.size // step.lanes
    start = position(program, step.place) + size * at[0] + step.bits // 8 * at[1]
    assert bytes(before[start : start + 4]) == bytes(after[start : start + 4])


@pytest.mark.parametrize("key", range(16))
def test_each_register_that_a_slice_reads_is_what_it_wrote_last(key: int) -> None:
    program = draw_one(ALONE, key)
    image = np.random.default_rng(key).integers(0, 256, program.image_bytes, np.uint8)
    links = sliced(program, image, key % 32, 0)
    held: dict[tuple[int, str], int] = {}
    met = 0
    for link in links:
        taken, step = link.taken, link.event.step
        if taken is None or not is_lane_code(step):
            continue
        one = taken.statement
        lanes = np.flatnonzero(link.lanes & taken.lanes[0])
        given = one.sources if isinstance(one, Assign) else ()
        for lane in lanes.tolist():
            for name, value in zip(given, taken.sources, strict=False):
                own = isinstance(name, int) or name in (LANE, ZERO, *step.inputs)
                if not own or (lane, name) in held:
                    assert held[lane, str(name)] == int(value[0][lane]), (name, lane, one)
                    met += 1
        for lane in lanes.tolist():
            names = one.destinations if isinstance(one, Assign) else ()
            names = (one.counter,) if isinstance(one, Repeat) else names
            for name, value in zip(names, taken.results, strict=False):
                held[lane, name] = int(value[0][lane])
    assert met or len(links) < 6


def half_taken() -> Program:
    """Lanes from 16 on write r9 in a loop that they leave after two turns; all have read r1."""
    code = (
        Assign(opcode="setp.ge.u32", destinations=("p0",), sources=(LANE, 16)),
        Assign(opcode="add.u32", destinations=("r9",), sources=("r1", 1)),
        Assign(opcode="add.u32", destinations=("r7",), sources=("r0", 1)),
        If(
            predicate="p0",
            then=(
                Repeat(
                    count=3,
                    counter="r8",
                    body=(
                        Assign(opcode="setp.eq.u32", destinations=("p1",), sources=("r8", 1)),
                        Assign(opcode="add.u32", destinations=("r9",), sources=("r9", "r1")),
                        Leave(predicate="p1"),
                    ),
                ),
            ),
        ),
    )
    steps = (
        plain_load(registers="x", count=2, place=Place(buffer="x")),
        LaneCode(source="x", count=2, destination="y", results=("r9",), code=code),
        plain_store(registers="y", count=1, place=Place(buffer="y")),
    )
    buffers = [Buffer(name=name, space="global", size=256) for name in "xy"]
    return Program(buffers=tuple(buffers), steps=steps)


@pytest.mark.parametrize(("lane", "added", "turns"), [(3, 1, 0), (20, 3, 2)])
def test_a_slice_has_the_way_that_a_lane_went(lane: int, added: int, turns: int) -> None:
    program = half_taken()
    image = np.zeros(program.image_bytes, np.uint8)
    statements = [link.taken.statement for link in sliced(program, image, lane, 0) if link.taken]
    opcodes = [one.opcode for one in statements if isinstance(one, Assign)]
    assert opcodes.count("add.u32") == added, "r7 matters to nobody"
    assert opcodes.count("setp.ge.u32") == 1
    assert sum(isinstance(one, If) for one in statements) == 1
    assert sum(isinstance(one, Leave) for one in statements) == turns
