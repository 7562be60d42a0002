"""Where a buffer lies changes nothing but where its bytes are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import program_draws
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.bounds.permission import permitted
from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.execution.tracing import trace
from oracle.isa import lookup as isa
from oracle.program.operands import Buffer, Place, Word
from oracle.program.operations import pack_registers
from oracle.program.program import Breach, Program, locate, position, undefined, writable
from oracle.program.steps import (
    Barrier,
    Branch,
    Copy,
    Op,
    Rows,
    Step,
    accesses_matrix,
    accesses_rows,
    memory_of,
    plain_load,
    plain_store,
)

ALIGNMENT = 32
BUFFERS = (
    Buffer(name="data", space="global", size=4096, alignment=ALIGNMENT),
    Buffer(name="out", space="global", size=8192, alignment=ALIGNMENT),
    Buffer(name="tile", space="shared", size=4096, alignment=ALIGNMENT),
)
FORM = isa.mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32")
LANES = isa.form_of("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")


def data(offset: int) -> Place:
    return Place(buffer="data", offset=offset)


def out(offset: int) -> Place:
    return Place(buffer="out", offset=offset)


def tile(offset: int) -> Place:
    return Place(buffer="tile", offset=offset)


def load(text: str, name: str, place: Place) -> Op:
    return Op.of(form=isa.form_of(f"wmma.load.{text}"), fragment=name, place=place)


def store(text: str, name: str, place: Place) -> Op:
    return Op.of(form=isa.form_of(f"wmma.store.d.sync.aligned.row.{text}"), fragment=name,
                 place=place)  # fmt: skip


ROW_STORES = [form for form in isa.FORMS if memory_of(form) is Rows and form.is_store]
MOVE = next(form for form in isa.FORMS if memory_of(form) is None and not form.is_product)


@st.composite
def every_step(draw: st.DrawFn) -> Program:
    """Draw programs in which results that are only bounded go through every kind of step."""
    rows = draw(st.sampled_from(isa.LDMATRIX_FORMS))
    # Of .b8, which element goes where is not known.
    back = draw(st.sampled_from([form for form in ROW_STORES if form.texts["type"] == "b16"]))
    # Where they are stored is what ldmatrix loads, in another order.
    unit = draw(st.sampled_from((0, 256, 1024)))
    order = draw(st.permutations(range(32)))
    addresses = tuple(unit + 16 * row for row in order)
    there = tuple(2048 + 16 * row for row in order)
    word = Word(place=data(draw(st.sampled_from((2048, 2052)))), mask=1)
    steps: tuple[Step, ...] = (
        Copy(source=data(0), destination=tile(0), size=4096),
        Barrier(),
        load("a.sync.aligned.row.m16n16k16.global.f16", "a", data(0)),
        load("b.sync.aligned.col.m16n16k16.shared.f16", "b", tile(512)),
        load("c.sync.aligned.row.m16n16k16.f32", "c", data(1024)),
        Op.of(form=FORM, d="d", a="a", b="b", c="c"),
        Barrier(),
        store("m16n16k16.shared.f32", "d", tile(unit)),
        store("m16n16k16.f32", "d", out(0)),
        Barrier(),
        Op.of(form=rows, registers="r", buffer="tile", addresses=addresses),
        plain_store(registers="r", count=rows.registers, place=out(1024)),
        plain_load(registers="x", count=4, place=data(0)),
        plain_load(registers="y", count=2, place=data(512)),
        plain_load(registers="z", count=4, place=out(64)),
        Op.of(form=LANES, d="m", a="x", b="y", c="z"),
        plain_store(registers="m", count=4, place=out(1536)),
        pack_registers(type="f16", source="m", destination="p", count=4),
        Op.of(form=MOVE, source="p", destination="t", count=2),
        plain_store(registers="t", count=2, place=out(2048)),
        plain_load(registers="s", count=back.registers, place=out(32)),
        Op.of(form=back, registers="s", buffer="tile", addresses=there),
        Barrier(),
        Copy(source=tile(0), destination=out(4096), size=4096),
        Branch(condition=word, then=(Copy(source=out(0), destination=out(2560), size=512),)),
    )
    return Program(buffers=BUFFERS, steps=steps)


@st.composite
def moved(draw: st.DrawFn, program: Program) -> Program:
    """Put a spare buffer in front of those of each space."""
    spare = [
        Buffer(name=f"spare_{space}", space=space, alignment=1,
               size=draw(st.integers(1, 40)) * draw(st.sampled_from((1, ALIGNMENT))))
        for space in ("global", "shared")
    ]  # fmt: skip
    return replace(program, buffers=(*spare, *program.buffers))


def images_of(program: Program, seed: int) -> np.ndarray:
    """Images whose data are normally distributed as f16 and, from byte 1024 on, as f32."""
    rng = np.random.default_rng(seed)
    images = np.zeros((2, program.image_bytes), np.uint8)
    start = program.offset("data")
    halves, words = images[:, start : start + 1024], images[:, start + 1024 : start + 4096]
    halves[...] = rng.standard_normal((2, 512)).astype(np.float16).view(np.uint8)
    words[...] = rng.standard_normal((2, 768)).astype(np.float32).view(np.uint8)
    return images


def own(program: Program, plane: np.ndarray) -> np.ndarray:
    """Return the bytes of the buffers that both programs have, in their order."""
    parts = [
        plane[..., program.offset(buffer.name) : program.offset(buffer.name) + buffer.size]
        for buffer in program.buffers
        if buffer.space == "global" and not buffer.name.startswith("spare")
    ]
    return np.concatenate(parts, axis=-1)


def carried(program: Program, other: Program, images: np.ndarray) -> np.ndarray:
    """Return the images of a program as those of another with the same buffers."""
    moved_ = np.zeros((len(images), other.image_bytes), np.uint8)
    for buffer in program.buffers:
        if buffer.space == "global":
            here, there = program.offset(buffer.name), other.offset(buffer.name)
            moved_[:, there : there + buffer.size] = images[:, here : here + buffer.size]
    return moved_


def check_alike(first: Program, second: Program, images: np.ndarray) -> None:
    """Check that a program and the same with spare buffers do the same to what they share."""
    assert undefined(first) == undefined(second) == ()
    there = carried(first, second, images)
    results = [execute(one, given) for one, given in ((first, images), (second, there))]
    assert np.array_equal(own(first, results[0].images), own(second, results[1].images))
    assert np.array_equal(own(first, writable(first)), own(second, writable(second)))
    one, other = permitted(first, images), permitted(second, there)
    for plane in ("bits", "low", "high", "tags"):
        assert np.array_equal(own(first, getattr(one, plane)), own(second, getattr(other, plane)))
    assert [replace(bound, byte=0) for bound in one.bounds()] == [
        replace(bound, byte=0) for bound in other.bounds()
    ]


@given(
    program_draws.programs().flatmap(lambda p: st.tuples(st.just(p), moved(p))),
    st.integers(0, 2**32 - 1),
)
def test_spare_buffers_in_front_change_nothing_of_any_program(
    programs: tuple[Program, Program], seed: int
) -> None:
    first, second = programs
    check_alike(first, second, program_draws.images(first, seed, 2))


@given(every_step().flatmap(lambda p: st.tuples(st.just(p), moved(p))), st.integers(0, 2**32 - 1))
def test_spare_buffers_in_front_change_nothing_of_who_wrote_a_byte(
    programs: tuple[Program, Program], seed: int
) -> None:
    first, second = programs
    images = images_of(first, seed)[:1]
    here = trace(first, images[0], target="sm_90")
    there = trace(second, carried(first, second, images)[0], target="sm_90")
    for one, other in zip(here.events, there.events, strict=True):
        assert one.step == other.step
        assert one.makers == other.makers
        assert one.inputs.keys() == other.inputs.keys()
        assert all(np.array_equal(one.inputs[name], other.inputs[name]) for name in one.inputs)
    for byte in range(0, 8192, 2):
        place = out(byte)
        one, other = here.writer(position(first, place)), there.writer(position(second, place))
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            found = [(w.event.number, w.row, w.column) for w in (one, other)]
            assert found[0] == found[1]
        assert locate(second, position(second, place)) == place


def test_every_byte_of_an_image_has_a_place_and_none_beyond_it() -> None:
    buffers = (
        Buffer(name="one", space="global", size=16),
        Buffer(name="two", size=16, space="global"),
    )
    program = Program(buffers=buffers, steps=())
    places = {locate(program, byte) for byte in range(program.image_bytes)} - {None}
    assert places == {Place(buffer=name, offset=at) for name in ("one", "two") for at in range(16)}
    for byte in (-1, program.image_bytes):
        with pytest.raises(UsageError, match="it must lie in 0 to 511"):
            locate(program, byte)


@st.composite
def broken(draw: st.DrawFn) -> Program:
    """Draw programs that may be undefined: steps missing, twice or elsewhere, by chance."""
    program = draw(every_step())
    steps = list(program.steps)
    for index in sorted(draw(st.sets(st.integers(0, len(steps) - 1), max_size=3)), reverse=True):
        step = steps[index]
        kind = draw(st.sampled_from(("missing", "twice", "elsewhere")))
        by = draw(st.sampled_from((-4096, -256, -64, -8, 1, 8, 16, 32, 64, 512, 3000, 4096)))
        if kind == "missing":
            del steps[index]
        elif kind == "twice":
            steps.insert(index, step)
        elif accesses_rows(step):
            first = draw(st.integers(0, 31))
            moved_ = tuple(a + by * (lane >= first) for lane, a in enumerate(step.memory.addresses))
            steps[index] = step.changed(addresses=moved_)
        elif isinstance(step, Copy):
            place = replace(step.source, offset=step.source.offset + by)
            steps[index] = replace(step, source=place)
        elif accesses_matrix(step) or hasattr(step, "place"):
            there = step.memory.place if accesses_matrix(step) else step.place
            place = replace(there, offset=there.offset + by)
            steps[index] = step.changed(place=place)
    return replace(program, steps=tuple(steps))


@settings(max_examples=100)
@given(broken().flatmap(lambda p: st.tuples(st.just(p), moved(p))))
def test_spare_buffers_in_front_change_nothing_of_what_is_undefined(
    programs: tuple[Program, Program],
) -> None:
    first, second = (
        # An address that is not aligned is given as it is in its space.
        [(r.cause, r.step, "" if r.cause is Breach.ADDRESS else r.text) for r in undefined(one)]
        for one in programs
    )
    assert first == second


UNITS = st.tuples(st.integers(0, 255), st.integers(1, 256))
"""Bytes of a tile, in units of 8: the first, and how many."""
