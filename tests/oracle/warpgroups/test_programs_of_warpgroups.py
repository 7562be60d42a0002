"""What of a program of a warpgroup the ISA leaves undefined (9.7.15.4, 9.7.15.7)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.isa.lookup import form_of
from oracle.program.breaches import Breach
from oracle.program.definedness import undefined
from oracle.program.operands import Buffer, Place, Turn, Word
from oracle.program.operations import move_registers, set_registers
from oracle.program.program import Program
from oracle.program.steps import Barrier, Branch, Copy, Loop, Step, plain_load, plain_store
from oracle.program.warpgroup import THREADS, AsyncProduct, SharedTile, WarpgroupSync

N8 = form_of("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16")
N16 = form_of("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16")
FENCE, COMMIT, PROXY = (
    WarpgroupSync(kind=kind) for kind in ("fence", "commit_group", "proxy_fence")
)
WAIT = WarpgroupSync(kind="wait_group")
IN_FLIGHT, UNFENCED = Breach.IN_FLIGHT, Breach.UNFENCED
TILE = SharedTile(place=Place(buffer="s"), leading=128, stride=256)
FILLED = (
    Copy(source=Place(buffer="g"), destination=Place(buffer="s"), size=2048),
    PROXY,
    Barrier(),
)
LOADED = tuple(
    plain_load(registers=name, count=4, place=Place(buffer="g"), lanes=THREADS)
    for name in ("d", "x", "a")
)
MORE = plain_load(registers="e", count=8, place=Place(buffer="g"), lanes=THREADS)
WRITTEN = move_registers(source="x", destination="a", count=4)
SEEN = move_registers(source="d", destination="x", count=4)
OVERWRITTEN = Copy(source=Place(buffer="g"), destination=Place(buffer="s"), size=16)
BEGUN = replace(OVERWRITTEN, is_async=True)
COPIED, ENDED, BARRIER = (
    WarpgroupSync(kind="copy_commit"), WarpgroupSync(kind="copy_wait"), Barrier()
)  # fmt: skip
IN_BULK = replace(OVERWRITTEN, mbarrier=3)
ARRIVED = WarpgroupSync(kind="bulk_wait", mbarrier=3)
FOUR = Copy(source=Place(buffer="g", offset=8), destination=Place(buffer="s"), size=8, mbarrier=3)
READ = plain_load(registers="a", count=4, place=Place(buffer="s"), lanes=THREADS)
OVER_SOURCE = plain_store(registers="x", count=4, place=Place(buffer="g"), lanes=THREADS)


def product(d: str = "d", a: str = "", **changes: object) -> AsyncProduct:
    given = {"form": N8, "b_tile": TILE, "a_tile": None if a else TILE, **changes}
    return AsyncProduct(d=d, a=a, **given)  # type: ignore[arg-type]


def program(*steps: Step, before: tuple[Step, ...] = FILLED) -> Program:
    buffers = (
        Buffer(name="g", space="global", size=8192), Buffer(name="o", space="global", size=8192),
        Buffer(name="s", space="shared", size=4096),
    )  # fmt: skip
    return Program(buffers=buffers, steps=(*LOADED, MORE, *before, *steps), warps=4)


def causes(found: Program) -> set[Breach]:
    return {reason.cause for reason in undefined(found, target="sm_90a")}


LATER, BUT_LAST = Turn(asks="ne", number=0), Turn(asks="more", number=1)
SOME = Word(place=Place(buffer="g"), mask=3)


def waiting(asks: str, number: int) -> Branch:
    """Return a wait in some turns of a loop."""
    return Branch(condition=Turn(asks=asks, number=number), then=(WAIT,))


def waited(condition: Turn) -> Branch:
    """Return a wait for a copy in bulk in some turns of a loop."""
    return Branch(condition=condition, then=(ARRIVED,))


PHASE, ONCE = Breach.PHASE, Word(place=Place(buffer="g"), mask=1)
ELSEWHERE = replace(IN_BULK, destination=Place(buffer="s", offset=2048))
STORED = plain_store(registers="d", count=4, place=Place(buffer="o"), lanes=THREADS)
WHOLE = (FENCE, product(), COMMIT, WAIT, STORED)


@pytest.mark.parametrize(
    ("steps", "wrong"),
    [
        (WHOLE, ()),
        ((product(), COMMIT, WAIT, STORED), (UNFENCED,)),
        ((FENCE, product(), WAIT, STORED), (IN_FLIGHT,)),
        ((FENCE, product(), COMMIT, STORED), (IN_FLIGHT,)),
        # One D, one shape: no fence, in one group or in several.
        ((FENCE, product(), product(), COMMIT, product(), COMMIT, WAIT, STORED), ()),
        # Newer groups may stay in flight, and empty ones count.
        ((FENCE, product(), COMMIT, COMMIT, replace(WAIT, pending=1), STORED), ()),
        ((FENCE, product(), COMMIT, replace(WAIT, pending=1), STORED), (IN_FLIGHT,)),
        # Registers of A: read by two, but neither written nor read in flight.
        ((FENCE, product(a="a"), product(a="a"), COMMIT, WAIT), ()),
        ((FENCE, product(a="a"), COMMIT, WRITTEN, WAIT), (IN_FLIGHT,)),
        ((FENCE, product(a="a"), COMMIT, replace(WRITTEN, source="a", destination="x"), WAIT),
         (IN_FLIGHT,)),
        ((FENCE, product(a="a"), COMMIT, WAIT, WRITTEN, product(a="a")), (UNFENCED,)),
        ((FENCE, product(a="a"), COMMIT, WAIT, WRITTEN, FENCE, product(a="a")), ()),
        # D: neither read, nor another multiplication's A, nor of two shapes.
        ((FENCE, product(), COMMIT, SEEN), (IN_FLIGHT,)),
        ((FENCE, product(), COMMIT, product("e", a="d", form=N16)), (IN_FLIGHT, UNFENCED)),
        ((FENCE, product(), COMMIT, WAIT, FENCE, product("e", a="d", form=N16)), ()),
        ((FENCE, product(), COMMIT,
          product("d.0 d.1 d.2 d.3 e.0 e.1 e.2 e.3", form=N16)), (IN_FLIGHT, UNFENCED)),
        ((FENCE, product("d", a="d")), (IN_FLIGHT,)),
        ((FENCE, product("d.0 d.0 d.1 d.2")), (Breach.TWICE,)),
        # Memory: written in flight, or behind the wait with no barrier, or not seen by the proxy.
        ((FENCE, product(), COMMIT, Barrier(), OVERWRITTEN), (IN_FLIGHT,)),
        ((*WHOLE, OVERWRITTEN), (Breach.RACE,)),
        ((*WHOLE, Barrier(), OVERWRITTEN), ()),
        ((*WHOLE, Barrier(), OVERWRITTEN, PROXY, *WHOLE[:4]), (Breach.PROXY, Breach.RACE)),
        ((*WHOLE, Barrier(), OVERWRITTEN, Barrier(), PROXY, FENCE, product()), (Breach.PROXY,)),
        ((*WHOLE, Barrier(), OVERWRITTEN, PROXY, Barrier(), FENCE, product()), ()),
        ((FENCE, product(b_tile=replace(TILE, place=Place(buffer="s", offset=4080)))),
         (Breach.OUTSIDE,)),
        ((FENCE, product(b_tile=replace(TILE, place=Place(buffer="s", offset=2048)))),
         (Breach.UNWRITTEN,)),
        # Asynchronous copies: nobody accesses what they write, or writes what they read.
        ((BEGUN, COPIED, ENDED, PROXY, BARRIER, *WHOLE), ()),
        ((BEGUN, COPIED, PROXY, BARRIER, *WHOLE), (IN_FLIGHT,)),
        ((BEGUN, ENDED, PROXY, BARRIER, *WHOLE), (IN_FLIGHT,)),
        ((BEGUN, COPIED, COPIED, replace(ENDED, pending=1), PROXY, BARRIER, *WHOLE), ()),
        ((BEGUN, COPIED, ENDED, BARRIER, *WHOLE), (Breach.PROXY,)),
        # A fence of proxies, or a barrier, before the wait orders nothing of it.
        ((BEGUN, COPIED, PROXY, ENDED, BARRIER, *WHOLE), (Breach.PROXY,)),
        ((BEGUN, COPIED, BARRIER, ENDED, PROXY, *WHOLE), (Breach.PROXY, Breach.RACE)),
        ((*WHOLE[:3], BARRIER, BEGUN, COPIED, ENDED), (IN_FLIGHT,)),
        ((BEGUN, COPIED, BARRIER, OVER_SOURCE, ENDED), (IN_FLIGHT,)),
        ((BEGUN, COPIED, ENDED, BARRIER, OVER_SOURCE), ()),
        ((Loop(count=2, body=(BARRIER, BEGUN, COPIED)), ENDED), (IN_FLIGHT,)),
        # In bulk: whatever was done with the bytes, a fence of proxies and a barrier come before.
        ((PROXY, BARRIER, IN_BULK, ARRIVED, *WHOLE), ()),
        ((IN_BULK, ARRIVED, *WHOLE), ()),
        ((*WHOLE, IN_BULK, ARRIVED), (Breach.RACE,)),
        ((*WHOLE, BARRIER, IN_BULK, ARRIVED), ()),
        ((READ, BARRIER, IN_BULK, ARRIVED), (Breach.PROXY,)),
        ((READ, PROXY, BARRIER, IN_BULK, ARRIVED, READ), ()),
        ((OVERWRITTEN, BARRIER, IN_BULK, ARRIVED), (Breach.PROXY,)),
        ((OVERWRITTEN, BARRIER, PROXY, IN_BULK, ARRIVED), (Breach.PROXY,)),
        ((OVERWRITTEN, PROXY, BARRIER, IN_BULK, ARRIVED, *WHOLE), ()),
        ((*WHOLE[:3], BARRIER, IN_BULK, WAIT, ARRIVED), (IN_FLIGHT,)),
        ((IN_BULK, *WHOLE, ARRIVED), (IN_FLIGHT, Breach.RACE)),
        ((IN_BULK, COPIED, ENDED, BARRIER, READ, ARRIVED), (IN_FLIGHT,)),
        ((IN_BULK, ARRIVED, READ, STORED), ()),
        ((FOUR, ARRIVED), (Breach.ADDRESS,)),
        ((IN_BULK, ARRIVED, BARRIER, OVER_SOURCE), (Breach.PROXY,)),
        # One copy at a time counts at an mbarrier, and a barrier parts its phases.
        ((IN_BULK,), (PHASE,)),
        ((ARRIVED,), (PHASE,)),
        ((IN_BULK, ARRIVED, ARRIVED), (PHASE,)),
        ((IN_BULK, ELSEWHERE, ARRIVED), (PHASE,)),
        ((IN_BULK, replace(ELSEWHERE, mbarrier=4), ARRIVED, replace(ARRIVED, mbarrier=4)), ()),
        ((IN_BULK, ARRIVED, ELSEWHERE, ARRIVED), (PHASE,)),
        ((IN_BULK, ARRIVED, BARRIER, ELSEWHERE, ARRIVED), ()),
        ((IN_BULK, Branch(condition=ONCE, then=(ARRIVED,))), (PHASE,)),
        ((Branch(condition=ONCE, then=(IN_BULK,)), ARRIVED), (PHASE,)),
        ((Branch(condition=ONCE, then=(IN_BULK, ARRIVED)), BARRIER, ELSEWHERE, ARRIVED), ()),
        ((Branch(condition=ONCE, then=(IN_BULK, ARRIVED)), ELSEWHERE, ARRIVED), (PHASE,)),
        ((IN_BULK, Loop(count=SOME, body=(ARRIVED, BARRIER, IN_BULK)), ARRIVED), ()),
        ((IN_BULK, Loop(count=3, body=(ARRIVED, BARRIER, IN_BULK))), (PHASE,)),
        ((Loop(count=3, body=(IN_BULK, ARRIVED)),), (PHASE,)),
        ((IN_BULK, Loop(count=3, body=(waited(LATER), BARRIER, IN_BULK)), ARRIVED),
         (PHASE, IN_FLIGHT)),
        # Loops: what the last turn left in flight is the next one's to wait for.
        ((Loop(count=2, body=(WRITTEN, FENCE, product(a="a"), COMMIT)),), (IN_FLIGHT,)),
        ((Loop(count=2, body=(WAIT, WRITTEN, FENCE, product(a="a"), COMMIT)),), ()),
        ((Loop(count=1, body=(WRITTEN, FENCE, product(a="a"), COMMIT)),), ()),
        # Of scale-d and branches that ask for the turn, every turn counts: D is read in some.
        ((FENCE, Loop(count=3, body=(product("new"),))), (Breach.CONTENT,)),
        ((FENCE, Loop(count=3, body=(product("new", scale_d=LATER),))), ()),
        ((FENCE, Loop(count=1, body=(product("new", scale_d=BUT_LAST),))), ()),
        ((FENCE, Loop(count=2, body=(product("new", scale_d=BUT_LAST),))), (Breach.CONTENT,)),
        ((FENCE, Loop(count=SOME, body=(product("new", scale_d=LATER),))), ()),
        ((FENCE, Loop(count=SOME, body=(product("new", scale_d=BUT_LAST),))), (Breach.CONTENT,)),
        ((FENCE, Loop(count=SOME, body=(product("new", scale_d=LATER),)), COMMIT, WAIT,
          replace(STORED, registers="new")), (Breach.CONTENT,)),
        ((Loop(count=3, body=(waiting("ne", 0), WRITTEN, FENCE, product(a="a"), COMMIT)),), ()),
        ((Loop(count=2, body=(waiting("lt", 2), WRITTEN, FENCE, product(a="a"), COMMIT)),), ()),
        ((Loop(count=3, body=(waiting("lt", 2), WRITTEN, FENCE, product(a="a"), COMMIT)),),
         (IN_FLIGHT,)),
        ((Loop(count=SOME, body=(waiting("lt", 2), WRITTEN, FENCE, product(a="a"), COMMIT)),),
         (IN_FLIGHT,)),
        ((Loop(count=3, body=(waiting("and", 1), WRITTEN, FENCE, product(a="a"), COMMIT)),),
         (IN_FLIGHT,)),
    ],
)  # fmt: skip
def test_what_is_in_flight_decides(steps: tuple[Step, ...], wrong: tuple[Breach, ...]) -> None:
    assert causes(program(*steps)) == set(wrong)


def test_a_part_of_d_may_be_written_on_one_way() -> None:
    word = Word(place=Place(buffer="g"), mask=1)
    part = set_registers(destination="d.1 d.2", count=2, constant=7)
    stored = plain_store(registers="d", count=4, place=Place(buffer="o"), lanes=THREADS)
    found = program(Branch(condition=word, then=(part,)), stored)
    assert undefined(found, target="sm_90a") == ()
    images = np.random.default_rng(1).integers(0, 256, (2, found.image_bytes), np.uint8)
    images[:, 0] = 0, 1
    expected = images[:, :2048].copy()
    expected.reshape(2, THREADS, 4, 4)[1, :, 1:3] = 7, 0, 0, 0
    came = execute(found, images, target="sm_90a").images
    assert np.array_equal(came[:, 8192 : 8192 + 2048], expected)


@pytest.mark.parametrize("left_out", [1, 2], ids=["proxy fence", "barrier"])
def test_what_threads_write_needs_a_proxy_fence_and_a_barrier(left_out: int) -> None:
    before = FILLED[:left_out] + FILLED[left_out + 1 :]
    assert Breach.PROXY in causes(program(*WHOLE, before=before))


def test_what_one_warp_cannot_take_is_refused() -> None:
    buffers = program(*WHOLE).buffers
    with pytest.raises(UsageError, match="one warp cannot take"):
        Program(buffers=buffers, steps=(FENCE,))
    with pytest.raises(UsageError, match="which is not shared"):
        program(product(b_tile=replace(TILE, place=Place(buffer="g"))))
    with pytest.raises(UsageError, match="128 threads load"):
        program(replace(LOADED[0], lanes=32))
    with pytest.raises(UsageError, match="from global to shared memory"):
        program(replace(BEGUN, destination=Place(buffer="o")))
    turning = product(scale_d=LATER)
    with pytest.raises(UsageError, match=r"no loop is around .* \+ d if turn != 0"):
        program(turning)
    alone = Branch(condition=LATER, then=(WRITTEN,))
    with pytest.raises(UsageError, match="one warp cannot take if turn != 0"):
        Program(buffers=buffers, steps=(Loop(count=2, body=(alone,)),))
    with pytest.raises(UsageError, match="0 to 15"):
        Turn(asks="lt", number=16)
    with pytest.raises(UsageError, match="no 'le'"):
        Turn(asks="le", number=1)
    with pytest.raises(UsageError, match="0 to 7"):
        WarpgroupSync(kind="wait_group", pending=8)
    assert causes(program(set_registers(destination="d", count=4, constant=0), *WHOLE)) == set()
