"""What a step does wrong is told by doing it wrong in the same way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fuzz.diagnosis.explanations import cause_of
from oracle import isa
from oracle.execution import execute
from oracle.ops import Op
from oracle.places import Buffer, Place, Word
from oracle.program import Program
from oracle.steps import Barrier, Branch, Copy, Step, plain_store

BUFFERS = (
    Buffer(name="data", space="global", size=1024), Buffer(name="out", space="global", size=1024),
    Buffer(name="tile", space="shared", size=1024),
)  # fmt: skip
ADDRESSES = tuple(16 * (5 * lane % 32) for lane in range(32))


def rows(form: str, addresses: tuple[int, ...] = ADDRESSES) -> Program:
    load = isa.ldmatrix_form(f"ldmatrix.sync.aligned.m8n8.{form}.shared.b16")
    return program(
        Copy(source=Place(buffer="data"), destination=Place(buffer="tile"), size=1024),
        Barrier(),
        Op.of(form=load, registers="r", buffer="tile", addresses=addresses),
        plain_store(registers="r", count=load.registers, place=Place(buffer="out")),
    )


def branch(then: int, otherwise: int) -> Program:
    arms = [
        Copy(source=Place(buffer="data", offset=at), destination=Place(buffer="out"), size=64)
        for at in (then, otherwise)
    ]
    word = Word(place=Place(buffer="data"), mask=1)
    return program(Branch(condition=word, then=(arms[0],), otherwise=(arms[1],)))


def program(*steps: Step) -> Program:
    return Program(buffers=BUFFERS, steps=steps)


@pytest.mark.parametrize(
    ("meant", "done", "said"),
    [
        (rows("x1"), rows("x1.trans"), "rows transposed, or not"),
        (rows("x4.trans"), rows("x4"), "rows transposed, or not"),
        (rows("x2"), rows("x2", tuple(a + 16 for a in ADDRESSES)), "rows from 16 bytes behind"),
        (
            rows("x4"), rows("x4", tuple(ADDRESSES[lane ^ 1] for lane in range(32))),
            "the row addresses of neighbouring lanes exchanged",
        ),
        (branch(64, 256), branch(256, 64), "a branch the other way"),
        (rows("x1"), rows("x1", tuple(reversed(ADDRESSES))), None),
    ],
)  # fmt: skip
def test_a_step_done_wrong_in_a_known_way_is_told(
    meant: Program, done: Program, said: str | None
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (4, meant.image_bytes)).astype(np.uint8)
    actual = execute(done, images, target="sm_90").images
    assert cause_of(meant, images, actual, target="sm_90") == said
    only = replace(meant, buffers=meant.buffers)
    assert cause_of(only, images, actual, target="sm_90", among=()) is None
