"""What one warp of a warpgroup does alone: whom its barriers order, and what it may not take."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.program.breaches import Breach
from oracle.program.definedness import undefined
from oracle.program.lane_code import LaneCode
from oracle.program.operands import Buffer, Place
from oracle.program.operations import set_registers
from oracle.program.program import Program
from oracle.program.steps import Barrier, Branch, Loop, OneWarp, Step, plain_load, plain_store
from oracle.program.warpgroup import THREADS, WarpgroupSync

BARRIER = Barrier()


def stored(warp: int) -> Step:
    registers = f"w{warp}"
    return plain_store(registers=registers, count=1, place=Place(buffer="s"))


def loaded(warp: int) -> Step:
    return plain_load(registers=f"w{warp}", count=1, place=Place(buffer="s"))


def alone(warp: int, *steps: Step) -> OneWarp:
    return OneWarp(warp=warp, body=steps)


def program(*steps: Step) -> Program:
    buffers = Buffer(name="g", space="global", size=512), Buffer(name="s", space="shared", size=512)
    set_ = [alone(one, set_registers(destination=f"w{one}", count=1, constant=0)) for one in (0, 2)]
    return Program(buffers=buffers, steps=(*set_, *steps), warps=4)


WRITTEN = alone(2, stored(2))
GROUPS = plain_load(registers="x", count=1, place=Place(buffer="s"), lanes=THREADS)


@pytest.mark.parametrize(
    ("steps", "wrong"),
    [
        ((WRITTEN, BARRIER, alone(0, loaded(0))), ()),
        ((WRITTEN, alone(0, loaded(0))), (Breach.RACE,)),
        # Its own barrier orders what a warp does, and nothing for others.
        ((alone(2, stored(2), BARRIER, loaded(2)),), ()),
        ((WRITTEN, alone(2, BARRIER, loaded(2))), ()),
        ((WRITTEN, alone(2, loaded(2))), (Breach.RACE,)),
        ((alone(2, stored(2), BARRIER), alone(0, BARRIER, loaded(0))), (Breach.RACE,)),
        ((alone(2, stored(2), BARRIER), alone(0, stored(0))), (Breach.RACE,)),
        ((WRITTEN, BARRIER, alone(0, loaded(0)), alone(2, BARRIER, stored(2))), (Breach.RACE,)),
        ((WRITTEN, BARRIER, alone(0, loaded(0)), BARRIER, WRITTEN), ()),
        # All four warps, before and behind.
        ((alone(2, stored(2), BARRIER), GROUPS), (Breach.RACE, Breach.UNWRITTEN)),
        # Paths: the next turn, and an arm.
        ((Loop(count=2, body=(WRITTEN,)),), (Breach.RACE,)),
        ((Loop(count=2, body=(alone(2, BARRIER, stored(2)),)),), ()),
        ((Branch(condition=1, then=(WRITTEN,)), alone(0, stored(0))), (Breach.RACE,)),
    ],
)  # fmt: skip
def test_barriers_of_one_warp_order_it_alone(
    steps: tuple[Step, ...], wrong: tuple[Breach, ...]
) -> None:
    reasons = undefined(program(*steps), target="sm_90a")
    assert {one.cause for one in reasons} == set(wrong)


def test_what_one_of_four_warps_cannot_take_is_refused() -> None:
    with pytest.raises(UsageError, match="are those of one warp alone and of others"):
        program(set_registers(destination="w2", count=1, constant=0))
    with pytest.raises(UsageError, match="one warp cannot take fence"):
        program(alone(0, WarpgroupSync(kind="fence")))
    with pytest.raises(UsageError, match="one warp cannot take warp 1 alone"):
        program(alone(0, alone(1)))
    with pytest.raises(UsageError, match="128 lanes of 32 threads"):
        program(alone(0, GROUPS))
    with pytest.raises(UsageError, match="0 to 3"):
        alone(4)


def test_code_that_reads_no_registers_is_taken_by_four_warps() -> None:
    code = LaneCode(destination="n", results=("lane",), code=())
    own = program(code, plain_store(registers="n", count=1, place=Place(buffer="g"), lanes=THREADS))
    (image,) = execute(own, np.full((1, own.image_bytes), 0xFF, np.uint8), target="sm_90a").images
    assert image.view("<u4")[:THREADS].tolist() == [*range(32)] * 4
