"""Copies in bulk as text: an mbarrier for each number, at which one thread begins them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oracle.program.steps import Copy
from oracle.program.warpgroup import SYNCS
from runners.emission.descriptors import Text

PHASE, ELECTED = "%phase", "%elected"
"""Names of registers with the parity of the next wait, by numbers, and of the predicate of the
thread that begins copies."""


def initialised(places: Iterable[str]) -> Iterator[str]:
    """Iterate over lines of a prologue that initialise mbarriers, which all threads see then."""
    yield f"    setp.eq.u32 {ELECTED}, %thread, 0;"
    for number, place in enumerate(places):
        yield f"    @{ELECTED} mbarrier.init.shared::cta.b64 {place}, 1;"
        yield f"    mov.b32 {PHASE}{number}, 0;"
    # Bytes are counted through the async proxy (9.7.9.25.4.1).
    yield "    fence.proxy.async.shared::cta;"
    yield "    bar.sync 0;"


def begun(text: Text, step: Copy, source: str, destination: str, mbarrier: str) -> None:
    """Append the beginning of a copy, given its places and that of its mbarrier."""
    text.add(
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, {mbarrier}, {step.size}",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"{destination}, {source}, {step.size}, {mbarrier}",
        guard=f"@{ELECTED}",
    )


def waited(text: Text, number: int, mbarrier: str) -> None:
    """Append a wait of all threads for a phase; `number` is that of its register."""
    (again,), done = text.labels("WAIT"), text.scratch("pred")
    text.label(again)
    text.add(f"{SYNCS['bulk_wait']} {done}, {mbarrier}, {PHASE}{number}")
    text.add(f"bra {again}", guard=f"@!{done}")
    text.add(f"sub.u32 {PHASE}{number}, 1, {PHASE}{number}")
