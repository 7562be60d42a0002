"""Operands that share registers: what holds what afterwards, and what the ISA leaves open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from oracle.bounds.permission import permitted
from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.isa.lookup import ldmatrix_form, mma_form, mma_sync_form
from oracle.program.breaches import Breach
from oracle.program.definedness import undefined
from oracle.program.operands import Buffer, Place, Word
from oracle.program.operations import move_registers, set_registers
from oracle.program.overlaps import overlaps
from oracle.program.program import Program
from oracle.program.steps import Barrier, Branch, Op, Step, plain_load, plain_store
from runners.emission.body import operand_registers
from strategies.matrices import single_product

WMMA = mma_form("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32")
LANES = mma_sync_form("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
PLAIN = single_product(WMMA)
BACKWARDS = "c.7 c.6 c.5 c.4 c.3 c.2 c.1 c.0"
ONE = " ".join(["z.0"] * 8)
ALL = " ".join(f"x.{number}" for number in range(8))


def wmma(*before: Step, d: str = "d", a: str = "a", c: str = "c", read: str = "") -> Program:
    multiply = PLAIN.multiply.changed(d=d, a=a, c=c)
    store = PLAIN.store.changed(fragment=read or d)
    steps = (*PLAIN.loads.values(), *before, multiply, store)
    return replace(PLAIN.program, steps=steps)


def lanes(*between: Step, read: str = "x", **names: str) -> Program:
    """Return a program that loads 8, 4, 2 and 4 registers, and stores the first at the end."""
    sizes = {"x": 8, "a": 4, "b": 2, "c": 4}
    buffers = tuple(Buffer(name=name, space="global", size=128 * n) for name, n in sizes.items())
    loads = (
        plain_load(registers=name, count=n, place=Place(buffer=name)) for name, n in sizes.items()
    )
    multiply = Op.of(form=LANES, **({"d": "d", "a": "a", "b": "b", "c": "c"} | names))
    store = plain_store(registers=read, count=8, place=Place(buffer="left"))
    outs = (
        Buffer(name="out", space="global", size=512),
        Buffer(name="left", space="global", size=1024),
    )
    result = plain_store(registers=multiply.names["d"], count=4, place=Place(buffer="out"))
    steps = (*loads, *between, multiply, result, store)
    return Program(buffers=(*buffers, *outs), steps=steps)


def images(program: Program, *, count: int = 3) -> NDArray[np.uint8]:
    words = np.random.default_rng(7).integers(0, 15, (count, program.image_bytes // 2))
    halves: NDArray[np.uint16] = (0x3C00 + (words << 6)).astype(np.uint16)
    return halves.view(np.uint8)


def causes(program: Program) -> set[Breach]:
    return {reason.cause for reason in undefined(program)}


def registers(
    images_: NDArray[np.uint8], program: Program, name: str, n: int
) -> NDArray[np.uint32]:
    start = program.offset(name)
    found = np.ascontiguousarray(images_[:, start : start + 128 * n])
    return found.view(np.uint32).reshape(len(images_), 32, n)


@pytest.mark.parametrize("order", [BACKWARDS, "c.1 c.0 c.3 c.2 c.5 c.4 c.7 c.6"])
def test_d_in_cs_registers_in_another_order_is_the_same_fragment(order: str) -> None:
    there, apart = wmma(d=order), wmma()
    assert not undefined(there)
    start = images(apart)
    np.testing.assert_array_equal(execute(there, start).images, execute(apart, start).images)


@pytest.mark.parametrize(
    "program",
    [
        wmma(d="c", read=BACKWARDS),  # the whole fragment, in another order
        wmma(c=BACKWARDS),
        wmma(d="c.0 c.1 c.2 c.3 d.0 d.1 d.2 d.3", read="c"),  # of two fragments
        wmma(c=" ".join(["c.0"] * 8)),  # not one number
        wmma(set_registers(destination="c.3", count=1)),  # a part that is one
        wmma(set_registers(destination="z", count=1), c="z.0 " + BACKWARDS[4:]),
        wmma(read="a"),
        lanes(c="a.0 a.1 b.0 y.1"),  # never written
    ],
)
def test_what_is_no_whole_fragment_in_its_order_is_undefined(program: Program) -> None:
    assert causes(program) == {Breach.CONTENT}


def test_a_register_twice_in_a_destination_is_undefined() -> None:
    assert causes(lanes(d="d.0 d.1 d.0 d.2")) == {Breach.TWICE}
    assert causes(wmma(d="d.0 d.1 d.2 d.3 d.4 d.5 d.6 d.0")) == {Breach.TWICE, Breach.CONTENT}
    (reason,) = undefined(lanes(d="d.0 d.1 d.0 d.2"))
    assert "register d.0 stands more than once" in reason.text


@pytest.mark.parametrize("constant", [0, 0x3F800000])
def test_one_register_is_all_of_c_if_it_is_one_number(constant: int) -> None:
    program = wmma(set_registers(destination="z", count=1, constant=constant), c=ONE)
    start = images(program)
    c = program.offset("c")
    size = 16 * 16 * 4
    start[:, c : c + size] = np.frombuffer(constant.to_bytes(4, "little") * (size // 4), np.uint8)
    np.testing.assert_array_equal(execute(program, start).images, execute(wmma(), start).images)
    one, other = (permitted(each, start) for each in (program, wmma()))
    for plane in ("low", "high", "tags"):
        np.testing.assert_array_equal(getattr(one, plane), getattr(other, plane))


def test_halves_of_a_register_that_differ_are_no_fragment() -> None:
    form = mma_form("wmma.mma.sync.aligned.row.row.m16n16k16.f16.f16")
    bare = single_product(form)
    multiply = bare.multiply.changed(c=" ".join(["z.0"] * 4))
    for constant, wanted in ((0x3C003C00, set()), (0x3C000000, {Breach.CONTENT})):
        set_ = set_registers(destination="z", count=1, constant=constant)
        program = replace(bare.program, steps=(bare.a, bare.b, set_, multiply, bare.store))
        assert causes(program) == wanted


@pytest.mark.parametrize(
    ("vector", "places"),
    [("x.7 x.6 x.5 x.4", [7, 6, 5, 4]), ("x.1 x.1 x.1 x.1", [1] * 4), ("x.0 c.1 a.2 b.1", None)],
)
def test_registers_known_by_lane_are_taken_in_any_order(
    vector: str, places: list[int] | None
) -> None:
    program = lanes(c=vector)
    assert not undefined(program)
    start = images(program)
    held = {name: registers(start, program, name, n) for name, n in (("x", 8), ("a", 4), ("b", 2))}
    held["c"] = registers(start, program, "c", 4)
    pairs = [one.split(".") for one in vector.split(" ")]
    c = np.stack([held[name][..., int(number)] for name, number in pairs], axis=-1)
    if places is not None:
        np.testing.assert_array_equal(c, held["x"][..., places])
    other = lanes()
    changed = start.copy()
    at = other.offset("c")
    changed[:, at : at + 512] = np.ascontiguousarray(c).view(np.uint8).reshape(len(c), -1)
    out = program.offset("out")
    np.testing.assert_array_equal(
        execute(program, start).images[:, out : out + 512],
        execute(other, changed).images[:, out : out + 512],
    )


def test_a_result_over_parts_of_others_leaves_the_rest() -> None:
    program = lanes(d="x.2 a.0 x.7 d.0")
    start = images(program)
    d = registers(execute(lanes(), start).images, program, "out", 4)
    expected = registers(start, program, "x", 8).copy()
    expected[..., [2, 7]] = d[..., [0, 2]]
    # x is no longer what one step wrote: as a name it stands for nothing.
    assert causes(program) == {Breach.CONTENT}
    program = lanes(d="x.2 a.0 x.7 d.0", read=ALL)
    after = execute(program, start).images
    np.testing.assert_array_equal(registers(after, program, "left", 8), expected)
    np.testing.assert_array_equal(registers(after, program, "out", 4), d)


def test_moves_read_all_before_they_write() -> None:
    turned = move_registers(source="x", destination="x.1 x.2 x.3 x.4 x.5 x.6 x.7 x.0", count=8)
    program = lanes(turned, read=ALL)
    start = images(program)
    after = registers(execute(program, start).images, program, "left", 8)
    np.testing.assert_array_equal(after, np.roll(registers(start, program, "x", 8), 1, axis=-1))


def test_branches_that_write_alike_leave_registers_that_can_be_used() -> None:
    def arm(*vectors: str) -> tuple[Step, ...]:
        return tuple(
            set_registers(destination=one, count=4, constant=n) for n, one in enumerate(vectors)
        )

    word = Word(place=Place(buffer="a"), mask=1)
    alike = Branch(condition=word, then=arm("y", "y"), otherwise=arm("y"))
    assert not undefined(lanes(alike, c="y"))
    other = Branch(condition=word, then=arm("y.1 y.0 y.2 y.3"), otherwise=arm("y"))
    assert causes(lanes(other, c="y.2 y.3 y.2 y.3")) == set()
    assert causes(lanes(other, c="y.0 y.3 y.2 y.3")) == {Breach.CONTENT}
    start = images(lanes(other))
    for program in (lanes(alike, c="y"), lanes(other, c="y.2 y.3 y.2 y.3")):
        assert execute(program, start).images.shape == start.shape


@pytest.mark.parametrize(("space", "cause"), [("shared", set()), ("", {Breach.SHORT_ADDRESS})])
def test_an_address_of_32_bits_is_one_of_shared_memory(space: str, cause: set[Breach]) -> None:
    form = ldmatrix_form(f"ldmatrix.sync.aligned.m8n8.x1{'.' + space if space else ''}.b16")
    fill = set_registers(destination="f", count=4)
    program = Program(
        buffers=(
            Buffer(name="near", space="shared", size=512),
            Buffer(name="out", space="global", size=128),
        ),
        steps=(
            fill,
            plain_store(registers="f", count=4, place=Place(buffer="near")),
            Barrier(),
            Op.of(
                form=form, registers="r", buffer="near", addresses=tuple(range(0, 512, 16)),
                address=0,
            ),
            plain_store(registers="r", count=1, place=Place(buffer="out")),
        ),
    )  # fmt: skip
    assert causes(program) == cause


@pytest.mark.parametrize(
    "text",
    [
        "d.0 d.1",
        "d.0,d.1",
        "d.255 d.0 d.1 d.2",
        "D.0 d.1 d.2 d.3",
        "d. d.1 d.2 d.3",
        "d.00",
        "d.1 " * 9 + "d.1",
    ],
)
def test_a_vector_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="register"):
        lanes(c=text)


def test_names_of_two_types_share_registers_where_another_step_lists_some() -> None:
    """As on an H200: D, f32, lay over B, f16, since a load behind it listed registers of both."""
    program = wmma(d="b")
    multiply = program.steps[3]
    assert overlaps(multiply, program.shared_banks) == ()
    behind = program.steps[2].changed(fragment="b.0 b.1 b.2 b.3 x.0 x.1 x.2 x.3")
    program = replace(program, steps=(*program.steps, behind))
    said = [str(one) for one in overlaps(multiply, program.shared_banks)]
    assert said == ["D and B in the same registers"]
    registers, _ = operand_registers(program)
    assert {*registers(multiply.uses[0])} & {*registers(multiply.uses[2])}
