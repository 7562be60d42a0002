"""Each reason by a smallest program that has it, and one change that takes it away."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.errors import UsageError
from oracle.isa import lookup as isa
from oracle.program.breaches import Breach
from oracle.program.definedness import undefined
from oracle.program.operands import Buffer, Place, Word
from oracle.program.program import Program
from oracle.program.steps import Barrier, Branch, Copy, Loop, Op, Step, plain_store

BUFFERS = (
    Buffer(name="data", space="global", size=4096),
    Buffer(name="out", space="global", size=4096),
    Buffer(name="tile", space="shared", size=4096),
)
FILL = (Copy(source=Place(buffer="data"), destination=Place(buffer="tile"), size=4096), Barrier())


def reasons(*steps: Step, target: str = "sm_90") -> list[str]:
    program = Program(buffers=BUFFERS, steps=steps)
    return [str(reason) for reason in undefined(program, target=target)]


def at(offset: int = 0, buffer: str = "data") -> Place:
    return Place(buffer=buffer, offset=offset)


def load(opcode: str, name: str, place: Place, stride: int | None = None) -> Op:
    form = isa.form_of(f"wmma.load.{opcode}")
    assert form.is_load
    return Op.of(form=form, fragment=name, place=place, stride=stride)


def store(opcode: str, name: str, place: Place, stride: int | None = None) -> Op:
    form = isa.form_of(f"wmma.store.{opcode}")
    assert form.is_store
    return Op.of(form=form, fragment=name, place=place, stride=stride)


def multiply(opcode: str) -> Op:
    return Op.of(form=isa.mma_form(f"wmma.mma.{opcode}"), d="d", a="a", b="b", c="c")


def rows(addresses: tuple[int, ...], *, number: int = 1, buffer: str = "tile") -> Op:
    form = isa.ldmatrix_form(f"ldmatrix.sync.aligned.m8n8.x{number}.b16")
    return Op.of(form=form, registers="r", buffer=buffer, addresses=addresses)


A = "a.sync.aligned.row.m16n16k16.global.f16"
B = "b.sync.aligned.col.m16n16k16.global.f16"
C = "c.sync.aligned.row.m16n16k16.global.f32"
D = "d.sync.aligned.row.m16n16k16.global.f32"
LOADS = (load(A, "a", at()), load(B, "b", at(512)), load(C, "c", at(1024)))
MMA = multiply("sync.aligned.row.col.m16n16k16.f32.f32")
IN_ORDER = tuple(range(0, 512, 16))


@pytest.mark.parametrize(("stride", "defined"), [(15, False), (0, False), (16, True), (32, True)])
def test_strides_below_the_default_are_undefined(stride: int, defined: bool) -> None:
    found = reasons(load(A, "a", at(), stride))
    assert (found == []) is defined
    assert all("below the default 16" in text for text in found)


@pytest.mark.parametrize(("stride", "defined"), [(24, False), (17, False), (48, True)])
def test_lines_must_start_at_multiples_of_the_fragment_size(stride: int, defined: bool) -> None:
    found = reasons(load(A, "a", at(), stride))
    assert (found == []) is defined
    assert all("fragment's 32 bytes" in text for text in found)


def test_every_default_stride_is_defined_left_out_or_spelled_out() -> None:
    accumulators = {
        (form.shape, form.type()): Op.of(form=form, fragment="x", place=at())
        for form in isa.LOAD_FORMS
        if form.matrix().operand == "c" and form.space == ""
    }
    for form in isa.LOAD_FORMS + isa.STORE_FORMS:
        place = at(buffer="tile" if form.space.startswith("shared") else "out")
        for stride in (None, form.matrix().default_stride(form.layout)):
            if form.mnemonic == "wmma.load":
                steps: tuple[Step, ...] = (
                    Op.of(form=form, fragment="x", place=place, stride=stride),
                )
            else:
                first = accumulators[form.shape, form.type()]
                steps = (first, Op.of(form=form, fragment="x", place=place, stride=stride))
            assert reasons(*FILL, *steps) == [], form.opcode


@pytest.mark.parametrize(("offset", "defined"), [(16, False), (4, False), (32, True)])
def test_base_addresses_must_be_multiples_of_the_fragment_size(offset: int, defined: bool) -> None:
    found = reasons(load(A, "a", at(offset)))
    assert (found == []) is defined
    assert all("not a multiple of 32 bytes" in text for text in found)


@pytest.mark.parametrize(
    ("offset", "stride", "defined"),
    [(3584, None, True), (3616, None, False), (3104, 32, True), (3136, 32, False),
     (-32, None, False), (0, 128, True), (256, 128, False), (0, 2**32 - 16, False)],
)  # fmt: skip
def test_tiles_must_lie_inside_their_buffer(offset: int, stride: int | None, defined: bool) -> None:
    found = reasons(load(A, "a", at(offset), stride))
    assert (found == []) is defined
    assert all("leaves buffer data of 4096 bytes" in text for text in found)


def test_fragments_must_be_written_before_they_are_used() -> None:
    for missing in range(3):
        some = [step for index, step in enumerate(LOADS) if index != missing]
        (found,) = reasons(*some, MMA)
        assert f"{'abc'[missing]} is used before anything writes it" in found
    (found,) = reasons(store(D, "d", at()))
    assert "d is used before" in found


@pytest.mark.parametrize(
    ("index", "opcode", "what"),
    [
        (0, "a.sync.aligned.col.m16n16k16.global.f16", "multiplicand A .m16n16k16 .f16 .col"),
        (0, "a.sync.aligned.row.m16n16k16.global.bf16", "bf16"),
        (0, "a.sync.aligned.row.m32n8k16.global.f16", "m32n8k16"),
        (0, "b.sync.aligned.row.m16n16k16.global.f16", "multiplicand B"),
        (1, "b.sync.aligned.row.m16n16k16.global.f16", "multiplicand B .m16n16k16 .f16 .row"),
        (2, "c.sync.aligned.row.m16n16k16.global.s32", "accumulator .m16n16k16 .s32"),
        (2, "a.sync.aligned.row.m16n16k16.global.f16", "multiplicand A"),
    ],
)
def test_fragments_must_have_the_role_shape_type_and_layout_that_are_used(
    index: int, opcode: str, what: str
) -> None:
    loads = list(LOADS)
    loads[index] = load(opcode, "abc"[index], at())
    (found,) = reasons(*loads, MMA)
    assert what in found
    assert "must hold" in found


def test_f16_and_f32_accumulators_do_not_mix() -> None:
    half = load("c.sync.aligned.row.m16n16k16.global.f16", "c", at())
    (found,) = reasons(*LOADS[:2], half, MMA)
    assert "no conversion between .f16 and .f32" in found
    mixed = multiply("sync.aligned.row.col.m16n16k16.f32.f16")
    assert reasons(*LOADS[:2], half, mixed) == []
    (found,) = reasons(*LOADS, MMA, store(D.replace("f32", "f16"), "d", at(buffer="out")))
    assert "no conversion between .f16 and .f32" in found


def test_reading_what_was_written_needs_a_barrier() -> None:
    first = (*LOADS, MMA, store(D, "d", at(buffer="out")))
    again = load(C, "c", at(buffer="out"))
    (found,) = reasons(*first, again)
    assert "put a barrier between" in found
    assert reasons(*first, Barrier(), again) == []
    assert reasons(*first, load(C, "c", at(1024, "out"))) == [], "other bytes do not race"


def test_writing_what_was_read_or_written_needs_a_barrier() -> None:
    first = (*LOADS, MMA)
    write = store(D, "d", at(1024))
    assert len(reasons(*first, write)) == 1, "the load of c reads these bytes"
    assert reasons(*first, Barrier(), write) == []
    assert len(reasons(*first, Barrier(), write, write)) == 1
    assert reasons(*first, Barrier(), write, Barrier(), write) == []


def test_gaps_between_lines_do_not_race() -> None:
    first = (*LOADS, MMA, store(D, "d", at(buffer="out"), 32))
    assert reasons(*first, store(D, "d", at(64, "out"), 32)) == []
    assert len(reasons(*first, store(D, "d", at(32, "out"), 32))) == 1


def test_races_through_loops_are_found() -> None:
    body: tuple[Step, ...] = (load(C, "c", at(buffer="out")), store(D, "c", at(1024, "out")))
    assert reasons(Loop(count=1, body=body)) == []
    assert len(reasons(Loop(count=2, body=body))) == 1, "the second store meets the first"
    assert reasons(Loop(count=2, body=(*body, Barrier()))) == []
    word = Word(place=at(), mask=3)
    assert len(reasons(Loop(count=word, body=body))) == 1
    assert reasons(Loop(count=word, body=(*body, Barrier()))) == []


def test_a_barrier_in_one_arm_orders_nothing_after_the_branch() -> None:
    word = Word(place=at(), mask=1)
    write = (load(C, "c", at()), Barrier(), store(D, "c", at(buffer="out")))
    again = load(C, "c", at(buffer="out"))
    one = Branch(condition=word, then=(Barrier(),))
    both = Branch(condition=word, then=(Barrier(),), otherwise=(Barrier(),))
    assert len(reasons(*write, one, again)) == 1
    assert reasons(*write, both, again) == []
    always = Branch(condition=1, then=(Barrier(),))
    assert reasons(*write, always, again) == []


def test_what_one_arm_writes_is_unknown_after_the_branch() -> None:
    word = Word(place=at(4092), mask=1)
    one = Branch(condition=word, then=LOADS)
    both = Branch(condition=word, then=LOADS, otherwise=LOADS)
    assert len(reasons(one, MMA)) == 3
    assert reasons(both, MMA) == []
    assert reasons(Branch(condition=1, then=LOADS), MMA) == []
    assert len(reasons(Branch(condition=0, then=LOADS), MMA)) == 3
    other = (*LOADS[1:], load(A.replace("row", "col"), "a", at()))
    (found,) = reasons(Branch(condition=word, then=LOADS, otherwise=other), MMA)
    assert "not every path" in found


def test_what_a_loop_writes_is_unknown_unless_it_runs() -> None:
    assert reasons(Loop(count=1, body=LOADS), MMA) == []
    assert len(reasons(Loop(count=0, body=LOADS), MMA)) == 3
    assert len(reasons(Loop(count=Word(place=at(), mask=7), body=LOADS), MMA)) == 3


def test_a_fragment_changed_at_the_end_of_a_loop_is_met_at_its_start() -> None:
    body = (MMA, load(A.replace("row", "col"), "a", at()))
    assert reasons(*LOADS, Loop(count=1, body=body)) == []
    (found,) = reasons(*LOADS, Loop(count=2, body=body))
    assert "multiplicand A .m16n16k16 .f16 .col" in found


def test_words_must_be_aligned_inside_and_ordered() -> None:
    assert len(reasons(Branch(condition=Word(place=at(2), mask=1), then=()))) == 1
    assert len(reasons(Branch(condition=Word(place=at(4096), mask=1), then=()))) == 1
    write = (load(C, "c", at()), store(D, "c", at(buffer="out")))
    word = Branch(condition=Word(place=at(buffer="out"), mask=1), then=())
    assert len(reasons(*write, word)) == 1
    assert reasons(*write, Barrier(), word) == []


def test_shared_memory_must_be_written_before_it_is_read() -> None:
    shared = load(A.replace("global", "shared"), "a", at(buffer="tile"))
    (found,) = reasons(shared)
    assert "byte 0 of shared tile is read before anything writes it" in found
    assert reasons(*FILL, shared) == []
    short = replace(FILL[0], size=511)
    (found,) = reasons(short, Barrier(), shared)
    assert "byte 511" in found
    out = Copy(source=at(buffer="tile"), destination=at(buffer="out"), size=4)
    assert len(reasons(out)) == 1
    filled = Branch(condition=Word(place=at(), mask=1), then=FILL)
    assert len(reasons(filled, Barrier(), out)) == 1, "one path leaves it undefined"


def test_the_state_space_of_an_instruction_is_that_of_the_buffer() -> None:
    shared = A.replace("global", "shared")
    assert len(reasons(load(shared, "a", at()))) == 1
    assert reasons(load(A.replace(".global", ""), "a", at())) == [], "generic addressing"
    assert reasons(*FILL, load(shared, "a", at(buffer="tile"))) == []
    assert len(reasons(*FILL, load(A, "a", at(buffer="tile")))) == 1
    (found,) = reasons(rows(IN_ORDER, buffer="data"))
    assert ".shared" in found, "ldmatrix reads shared memory only, also without a state space"


def test_rows_of_ldmatrix_are_aligned_to_16_bytes_and_inside() -> None:
    assert reasons(*FILL, rows(IN_ORDER)) == []
    for address, text in ((8, "multiple of 16"), (4096, "leaves buffer"), (-16, "leaves buffer")):
        (found,) = reasons(*FILL, rows((address, *IN_ORDER[1:])))
        assert text in found


def test_addresses_of_unused_lanes_count_on_sm_75_only() -> None:
    loads = (*FILL, rows((*IN_ORDER[:31], 12345)))
    assert reasons(*loads) == []
    assert reasons(*loads, target="sm_80") == []
    (found,) = reasons(*loads, target="sm_75")
    assert "lane 31" in found
    assert len(reasons(*FILL, rows((*IN_ORDER[:31], 12345), number=4))) == 1


def test_copies_stay_inside_and_do_not_overlap_themselves() -> None:
    def copy(source: Place, destination: Place, size: int) -> list[str]:
        return reasons(Copy(source=source, destination=destination, size=size))

    assert copy(at(), at(8), 8) == []
    assert len(copy(at(), at(7), 8)) == 1
    assert copy(at(), at(buffer="tile"), 4096) == []
    assert len(copy(at(), at(buffer="out"), 4097)) == 2
    assert len(copy(at(1), at(buffer="out"), 4096)) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Loop(count=16, body=()),
        lambda: Loop(count=-1, body=()),
        lambda: Loop(count=Word(place=at(), mask=16), body=()),
        lambda: Branch(condition=-1, then=()),
        lambda: Branch(condition=Word(place=at(), mask=1 << 32), then=()),
        lambda: Program(buffers=(*BUFFERS[1:], replace(BUFFERS[0], name="A")), steps=()),
        lambda: Program(buffers=(*BUFFERS[1:], replace(BUFFERS[0], space="local")), steps=()),
        lambda: Program(buffers=(*BUFFERS[1:], replace(BUFFERS[0], size=0)), steps=()),
        lambda: Program(buffers=(*BUFFERS[1:], replace(BUFFERS[0], alignment=3)), steps=()),
        lambda: Program(buffers=(*BUFFERS[1:], replace(BUFFERS[0], alignment=512)), steps=()),
        lambda: Copy(source=at(), destination=at(8), size=0),
        lambda: plain_store(registers="r", count=3, place=at()),
        lambda: rows((0,) * 31),
        lambda: LOADS[0].changed(stride=-1),
        lambda: LOADS[0].changed(stride=1 << 32),
        lambda: LOADS[0].changed(stride_in_register=True),
        lambda: LOADS[0].changed(immediate=1 << 31),
        lambda: LOADS[0].changed(fragment=""),
        lambda: Program(buffers=(), steps=()),
        lambda: Program(buffers=BUFFERS[2:], steps=()),
        lambda: Program(buffers=(BUFFERS[0], BUFFERS[0]), steps=()),
        lambda: Program(buffers=BUFFERS[1:], steps=(LOADS[0],)),
        lambda: Program(
            buffers=BUFFERS, steps=(Loop(count=Word(place=at(buffer="tile"), mask=1), body=()),)
        ),
        lambda: Program(buffers=BUFFERS, steps=(replace(FILL[0], source=at(1 << 31)),)),
        lambda: Program(buffers=BUFFERS, steps=()).buffer("none"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_down_is_refused_when_it_is_made(make: object) -> None:
    assert callable(make)
    with pytest.raises(UsageError):
        make()


@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(1, 1000))
def test_a_copy_overlaps_itself_where_its_bytes_meet(first: int, second: int, size: int) -> None:
    meet = set(range(first, first + size)) & set(range(second, second + size))
    for source, overlaps in (("out", bool(meet)), ("data", False)):
        step = Copy(source=at(first, source), destination=at(second, "out"), size=size)
        found = undefined(Program(buffers=BUFFERS, steps=(step,)))
        assert (Breach.OVERLAP in {reason.cause for reason in found}) == overlaps
