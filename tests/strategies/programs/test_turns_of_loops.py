"""What scale-d and branches of a warpgroup ask of a loop's turn: run, stored, made simpler."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from corpus.programs import decode_program, encode_program
from oracle.bounds.permission import allowed_bytes, permitted
from oracle.errors import InfrastructureError
from oracle.execution.execution import execute
from oracle.isa.lookup import form_of, warpgroup_forms
from oracle.isa.targets import Module
from oracle.models import model_for
from oracle.program.breaches import Breach
from oracle.program.definedness import undefined
from oracle.program.operands import TURNS, Buffer, Place, Turn, Word
from oracle.program.operations import move_registers, set_registers
from oracle.program.program import Program, walk
from oracle.program.steps import Barrier, Branch, Copy, Loop, Step, plain_load, plain_store
from oracle.program.warpgroup import THREADS, AsyncProduct
from runners.emission import emit
from runners.faults import by_name
from runners.protocol import Failure, Ran
from runners.reference.encoding import encode
from runners.reference.shipped import HostReference
from runners.simulated_runner import SimulatedRunner
from strategies.contents.expansion import expand
from strategies.programs.repairs import sync
from strategies.programs.warpgroups import plain_multiplication
from strategies.rounds import round_batches
from strategies.simplification.examples import Example
from strategies.simplification.multiplications import plainer_products
from strategies.simplification.steps import plainer_accesses, unwraps

MODULE = Module.named("sm_90a", "8.4")
FORMS = tuple(form for form in warpgroup_forms() if form.is_product and form.shape.n <= 40)
COUNT = Word(place=Place(buffer="turns"), mask=3)


def looped(asked: Turn, count: int | Word = COUNT) -> Program:
    """Return a multiplication in a loop, scale-d of which asks for the turn; and so does a branch.

    The branch writes a number into a register of the image.
    """
    form = form_of("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16")
    plain = plain_multiplication(form)
    at = next(i for i, step in enumerate(plain.steps) if isinstance(step, AsyncProduct))
    multiplied = replace(plain.steps[at], scale_d=asked)
    seen = Branch(condition=asked, then=(set_registers(destination="x", count=1, constant=7),),
                  otherwise=(set_registers(destination="x", count=1, constant=9),))  # fmt: skip
    added: tuple[Step, ...] = (
        plain_load(registers="x", count=1, place=Place(buffer="x"), lanes=THREADS),
        plain_store(registers="x", count=1, place=Place(buffer="y"), lanes=THREADS),
    )
    loop = Loop(count=count, body=(sync("fence"), multiplied, seen, sync("commit_group"),
                                   sync("wait_group")))  # fmt: skip
    buffers = [Buffer(name=name, space="global", size=THREADS * 4) for name in ("x", "y")]
    buffers.append(Buffer(name="turns", space="global", size=4))
    steps = (added[0], *plain.steps[:at], loop, *plain.steps[at + 1 :], added[1])
    return Program(buffers=(*plain.buffers, *buffers), steps=steps, warps=4)


def images_of(program: Program) -> NDArray[np.uint8]:
    """Return images of small numbers that take 0 to 3 turns."""
    images = np.zeros((4, program.image_bytes), np.uint8)
    images[:, 1::2] = np.random.default_rng(5).choice([0x3C, 0x40, 0xBC], images[:, 1::2].shape)
    images[:, program.offset("turns")] = range(4)
    return images


def simulated(program: Program, images: NDArray[np.uint8], fault: str = "") -> NDArray[np.uint8]:
    module = emit(program, module=MODULE)
    if fault:
        rewrite = by_name(fault).rewriter
        assert rewrite is not None
        module = replace(module, ptx=rewrite(module.ptx))
    with SimulatedRunner("sm_90a") as runner:
        ran = runner.run(runner.compile(module), images)  # type: ignore[arg-type]
    assert isinstance(ran, Ran), ran.detail
    return ran.images


@pytest.fixture(scope="module")
def reference() -> HostReference:
    try:
        return HostReference()
    except InfrastructureError as error:
        pytest.skip(str(error))


def test_nothing_writes_a_d_that_the_first_turn_does_not_add() -> None:
    def without(asked: int | Turn, count: int | Word = 3) -> Program:
        program = looped(Turn(asks="ne", number=0), count)
        kept = [one for one in program.steps if one.names.get("registers") != "c" or one.stores]
        at = next(index for index, one in enumerate(kept) if isinstance(one, Loop))
        body = (replace(s, scale_d=asked) if isinstance(s, AsyncProduct) else s
                for s in kept[at].body)  # fmt: skip
        kept[at] = replace(kept[at], body=tuple(body))
        return replace(program, steps=tuple(kept))

    for first in (0, Turn(asks="ne", number=0), Turn(asks="and", number=1)):
        program = without(first)
        assert undefined(program, target="sm_90a") == ()
        images = images_of(program)
        expected = execute(program, images, target="sm_90a").images
        assert np.array_equal(simulated(program, images), expected)
        assert allowed_bytes(permitted(program, images, target="sm_90a"), expected).all()
    for first in (1, Turn(asks="lt", number=1), Turn(asks="ne", number=1)):
        (wrong,) = undefined(without(first), target="sm_90a")
        assert wrong.cause is Breach.CONTENT
        assert refused_at(without(first)) == ("uninitialised register", wrong.step)
    # Where there may be no turn at all, the last store has nothing to store.
    (wrong,) = undefined(without(Turn(asks="ne", number=0), COUNT), target="sm_90a")
    assert wrong.cause is Breach.CONTENT


def refused_at(program: Program) -> tuple[str, str]:
    """Return what the simulated device refuses, and at which step."""
    module = emit(program, module=MODULE)
    with SimulatedRunner("sm_90a") as runner:
        ran = runner.run(runner.compile(module), images_of(program)[2:])  # type: ignore[arg-type]
    assert isinstance(ran, Failure)
    found = re.match(r"line (\d+): (race|uninitialised register)", ran.detail)
    assert found is not None, ran.detail
    before = "\n".join(module.ptx.splitlines()[: int(found[1])])
    return found[2], re.findall(r"// ([\w.]+): ", before)[-1]


@pytest.mark.parametrize(("kind", "cause"), [
    ("fence", Breach.UNFENCED), ("proxy_fence", Breach.PROXY),
    ("commit_group", Breach.IN_FLIGHT), ("wait_group", Breach.IN_FLIGHT),
])  # fmt: skip
def test_what_orders_multiplications_in_every_turn_is_not_left_out_of_one(
    kind: str, cause: Breach
) -> None:
    def program(asked: Turn, *otherwise: Step) -> Program:
        made = looped(Turn(asks="ne", number=0), 3)
        at = next(index for index, one in enumerate(made.steps) if isinstance(one, Loop))
        (copy,) = (one for one in made.steps if isinstance(one, Copy))
        loop = made.steps[at]
        body = [Barrier(), copy, sync("proxy_fence"), Barrier(), *loop.body,
                move_registers(source="c", destination="seen", count=4)]  # fmt: skip
        index = body.index(sync(kind))
        body[index] = Branch(condition=asked, then=(body[index],), otherwise=otherwise)
        loop = replace(loop, body=tuple(body))
        return replace(made, steps=(*made.steps[:at], loop, *made.steps[at + 1 :]))

    first = Turn(asks="lt", number=1)
    for whole in (program(Turn(asks="lt", number=3)), program(first, sync(kind))):
        assert undefined(whole, target="sm_90a") == ()
        images = images_of(whole)
        expected = execute(whole, images, target="sm_90a").images
        assert np.array_equal(simulated(whole, images), expected)
    wrong = undefined(program(first), target="sm_90a")
    assert {one.cause for one in wrong} == {cause}
    what, step = refused_at(program(first))
    assert what == "race"
    assert step in {one.step for one in wrong}


@pytest.mark.parametrize("asks", TURNS)
def test_each_turn_is_what_the_oracle_both_devices_and_the_isa_make_of_it(
    reference: HostReference, asks: str
) -> None:
    different = set()
    for number, count in product(range(4), (COUNT, 3)):
        program = looped(Turn(asks=asks, number=number), count)
        assert undefined(program, target="sm_90a") == ()
        images = images_of(program)
        expected = execute(program, images, target="sm_90a").images
        encoded = encode(program, model_for("sm_90a"))
        assert np.array_equal(reference.execute(encoded, images), expected), (number, count)
        if count == COUNT:
            assert np.array_equal(simulated(program, images), expected), number
            assert allowed_bytes(permitted(program, images, target="sm_90a"), expected).all()
            different.add(expected.tobytes())
    assert len(different) >= 2


def test_each_loop_has_turns_of_its_own(reference: HostReference) -> None:
    """What stands in a loop asks for its turn, also behind another loop inside."""
    later, first = Turn(asks="ne", number=0), Turn(asks="lt", number=1)
    program = looped(later)
    at = next(i for i, step in enumerate(program.steps) if isinstance(step, Loop))
    inner = program.steps[at]
    apart = Branch(
        condition=first, then=(set_registers(destination="c", count=4, constant=0x4000_0000),)
    )
    outer = Loop(count=2, body=(Branch(condition=later, then=(inner,)), inner, apart))
    program = replace(program, steps=(*program.steps[:at], outer, *program.steps[at + 1 :]))
    assert undefined(program, target="sm_90a") == ()
    images = images_of(program)
    expected = execute(program, images, target="sm_90a").images
    assert np.array_equal(simulated(program, images), expected)
    encoded = encode(program, model_for("sm_90a"))
    assert np.array_equal(reference.execute(encoded, images), expected)


def test_the_first_of_three_turns_alone_leaves_out_d() -> None:
    """Said by hand: 9 in the first turn, else 7; and one product, as often as there are turns."""
    program = looped(Turn(asks="ne", number=0))
    images = images_of(program)
    images[...] = images[1]
    images[:, program.offset("turns")] = range(4)
    after = execute(program, images, target="sm_90a").images
    start = program.offset("y")
    assert after[:, start].tolist() == [images[0, program.offset("x")], 9, 7, 7]
    start, size = program.offset("d"), program.buffer("d").size
    found = np.ascontiguousarray(after[:, start : start + size]).view(np.float32)
    assert found[1].any()
    assert np.array_equal(found[2], 2 * found[1])
    assert np.array_equal(found[3], 3 * found[1])


def test_drawn_programs_with_it_give_the_oracles_images_and_are_stored() -> None:
    asked, number = set[str](), 0
    for key in range(40, 50):
        for batch in round_batches(FORMS, target="sm_90a", version="8.4", key=key, count=8):
            program = batch.program
            own = {one.uniform.asks for one in walk(program.steps) if isinstance(one.uniform, Turn)}
            if own <= asked:
                continue
            asked, number = asked | own, number + 1
            assert undefined(program, target="sm_90a") == ()
            assert decode_program(encode_program(program), "a program") == program
            images = expand(batch.recipe, program, 2)
            expected = execute(program, images, target="sm_90a").images
            assert np.array_equal(simulated(program, images), expected), key
    assert asked == {*TURNS}


def test_what_is_asked_of_a_turn_is_stored_and_nothing_else_is_read() -> None:
    program = looped(Turn(asks="more", number=2))
    data = encode_program(program)
    assert decode_program(data, "a program") == program
    for other in (b'"asks": "le"', b'"asks": 3'):
        with pytest.raises(InfrastructureError):
            decode_program(data.replace(b'"asks": "more"', other), "a program")


def test_a_predicate_of_the_turn_before_is_found() -> None:
    program = looped(Turn(asks="ne", number=0))
    images = images_of(program)
    expected = execute(program, images, target="sm_90a").images
    wrong = simulated(program, images, "group-scale-d-late")
    assert (wrong != expected).any(axis=1).tolist() == [False, False, True, True]


def test_it_becomes_a_constant_or_the_first_turn() -> None:
    program = looped(Turn(asks="and", number=1))
    example = Example(program=program, image=images_of(program)[3])

    def asked(found: Program) -> set[object]:
        return {one.uniform for one in walk(found.steps) if isinstance(one, AsyncProduct)}

    constants = [asked(one.program) for one in plainer_products(example)]
    assert {1} in constants
    assert {0} in constants
    later = [asked(one.program) for one in plainer_accesses(example)]
    assert {Turn(asks="ne", number=0)} in later
    # Without the loop, it is what it was in the first turn, or the second.
    apart = [one.program for one in unwraps(example)]
    left = [one for one in apart if not any(isinstance(step, Loop) for step in one.steps)]
    assert [asked(one) for one in left] == [{0}, {1}]
    for one in left:
        assert not any(step.by_turn for step in walk(one.steps))
    # And without the branch inside.
    assert any(not any(isinstance(s, Branch) for s in walk(one.steps)) for one in apart)
