"""Barriers in shared memory order what threads do, and nothing else does: mbarrier."""

from __future__ import annotations

import numpy as np
import pytest
from test_simulated_races import KEEP, NEIGHBOUR, WORDS, run

from runners.simulated import SimulatedTrap

FIRST = "setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [tile+2048], {count};"
INIT = f"{FIRST} bar.sync 0;".format(count=64)
WRITE = "st.shared.u32 [%r7], %r4;"
COPY = "cp.async.ca.shared.global [%r7], [%rd1], 4;"
ARRIVE = "mbarrier.arrive.shared.b64 _, [tile+2048];"
COPIED = "cp.async.mbarrier.arrive.noinc.shared.b64 [tile+2048];"
WAIT = "{name}: mbarrier.test_wait.parity.shared.b64 %p1, [tile+2048], {parity}; @!%p1 bra {name};"
ZERO, ONE = (WAIT.format(name=f"L{parity}", parity=parity) for parity in (0, 1))


@pytest.mark.parametrize(
    "lines",
    [
        (INIT, WRITE, ARRIVE, ZERO, NEIGHBOUR),
        (INIT, COPY, COPIED, ZERO, NEIGHBOUR),
        # Once more: the next phase orders the reads before the writes.
        (INIT, WRITE, ARRIVE, ZERO, NEIGHBOUR, ARRIVE, ONE, WRITE),
        # Nobody who only arrives is waited for at the wait of others.
        (INIT, WRITE, ARRIVE, "setp.lt.u32 %p2, %r0, 32; @%p2 bra N;", ZERO, "N: bar.sync 0;",
         NEIGHBOUR),
    ],
)  # fmt: skip
def test_what_is_before_an_arrival_is_before_what_is_behind_the_wait(
    lines: tuple[str, ...],
) -> None:
    after = run(*lines, KEEP)
    wanted = np.arange(WORDS)
    wanted[:128] = wanted[:128] ^ 1
    assert np.array_equal(after, wanted)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((INIT, WRITE, ARRIVE, NEIGHBOUR), "with no common barrier"),
        ((INIT, ARRIVE, WRITE, ZERO, NEIGHBOUR), "with no common barrier"),
        ((INIT, WRITE, ARRIVE, ZERO, NEIGHBOUR, WRITE), "with no common barrier"),
        ((INIT, COPY, ARRIVE, ZERO, NEIGHBOUR), "nobody waited for"),
        ((INIT, COPY, COPIED, "ld.shared.u32 %r9, [%r7];"), "nobody waited for"),
        ((FIRST.format(count=64), WRITE, ARRIVE, ZERO, NEIGHBOUR), "initialised by another thread"),
        ((FIRST.format(count=65), "bar.sync 0;", ARRIVE, ZERO), "that nobody completes"),
        ((INIT, ONE, ONE.replace("L1", "M"), ZERO), "that nobody completes"),
        ((FIRST.format(count=0), "bar.sync 0;"), "an mbarrier for 0 arrivals"),
        ((INIT, ARRIVE.replace("2048", "2056")), "there is no mbarrier at shared address"),
        ((INIT, ARRIVE.replace("_,", "%rd3,")), "the state that an arrival returns"),
    ],
)
def test_what_no_arrival_orders_is_refused(lines: tuple[str, ...], said: str) -> None:
    with pytest.raises(SimulatedTrap, match=said):
        run(*lines, KEEP)


TOLD = FIRST.format(count=1) + FIRST.format(count=1).replace("2048", "2056")
FENCED = f"{TOLD} fence.proxy.async; bar.sync 0;"
EXPECT = "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [tile+2048], 256;"
BULK = (
    "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd0], 256, "
    "[tile+2048];"
)
OTHER = (EXPECT + BULK).replace("[tile]", "[tile+256]").replace("2048", "2056")
LATER = KEEP.replace("%rd1", "%rd1+1024")


def of_one_block(*lines: str) -> np.ndarray:
    return run(*lines, grid=(1, 1, 1), target="sm_90")


def test_what_is_copied_in_bulk_is_there_behind_the_wait() -> None:
    after = of_one_block(FENCED, EXPECT, BULK, ZERO, NEIGHBOUR, LATER)
    assert np.array_equal(after[256:320], np.arange(64) ^ 1)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((FENCED, EXPECT, BULK, NEIGHBOUR, ZERO), "nobody waited for"),
        ((FENCED, EXPECT, BULK), "the kernel ends, and nobody waited for a copy in bulk"),
        # A wait at another mbarrier is none, whatever was begun first.
        ((FENCED, EXPECT, BULK, OTHER, ZERO.replace("2048", "2056"), NEIGHBOUR), "nobody waited"),
        ((FENCED, EXPECT.replace("256;", "240;"), BULK, ZERO), "that nobody completes"),
        ((FENCED, EXPECT, BULK.replace("256,", "240,"), ZERO), "that nobody completes"),
        ((FENCED.replace("fence.proxy.async;", ""), EXPECT, BULK, ZERO), "initialised with no"),
    ],
)
def test_copies_in_bulk_without_what_orders_them_are_refused(
    lines: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SimulatedTrap, match=said):
        of_one_block(*lines)
