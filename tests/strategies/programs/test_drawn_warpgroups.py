"""Drawn programs of a warpgroup: defined, and run as the oracle says; with less order refused."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from corpus.programs import decode_program, encode_program
from oracle.arithmetic.conversions import unpacked
from oracle.bounds.permission import allowed_bytes, permitted
from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.execution.tracing import trace
from oracle.isa.forms import Form
from oracle.isa.lookup import warpgroup_forms
from oracle.isa.targets import Module
from oracle.program.breaches import Breach
from oracle.program.definedness import undefined
from oracle.program.operands import Place, Turn, Word
from oracle.program.program import FEWEST, Program, requirements, walk
from oracle.program.steps import Barrier, Loop, PlainAccess, plain_store
from oracle.program.warpgroup import THREADS, AsyncProduct, WarpgroupSync
from runners.compilers import find_assembler
from runners.cuda.compilation import PtxasCompiler
from runners.emission import emit, emit_single
from runners.protocol import Failure, Ran, Trouble
from runners.simulated_runner import SimulatedRunner
from strategies.contents import Recipe, ValueClass, recipes
from strategies.contents.expansion import expand
from strategies.contents.expressions import fields_of
from strategies.draws import Drawn, draw_one
from strategies.features import Focus, Has, features_of
from strategies.programs import programs, undefined_programs
from strategies.programs.builder import Builder, Dice, everything
from strategies.programs.drawing import _program
from strategies.programs.repairs import BlockDraft, begins, branch, repaired
from strategies.programs.undefined import GROUP_DAMAGES, damaged
from strategies.programs.warpgroups import plain_multiplication
from strategies.rounds import round_batches
from strategies.simplification.examples import Example
from strategies.simplification.multiplications import (
    fitted,
    narrower,
    plain_copies,
    plainer_products,
)
from strategies.simplification.steps import unbound, unnamed

MODULE = Module.named("sm_90a", "8.4")
FORMS = tuple(form for form in warpgroup_forms() if form.is_product and form.shape.n <= 40)
KINDS = {
    (form.has_metadata, form.a_type.name[0], form.a_type.bits, form.d_type.bits): form
    for form in FORMS
}


def drawn(form: Form, key: int) -> Program:
    return draw_one(programs(Focus(form=form), module=MODULE, forms=FORMS), key)


@pytest.mark.parametrize("form", [*KINDS.values()][::2], ids=lambda form: form.opcode)
def test_a_drawn_program_gives_the_oracles_images(form: Form) -> None:
    strategy = st.tuples(programs(Focus(form=form), module=MODULE, forms=FORMS), recipes())
    program, recipe = draw_one(strategy, 7)
    assert undefined(program, target="sm_90a") == ()
    images = expand(recipe, program, 2)
    expected = execute(program, images, target="sm_90a").images
    one = permitted(program, images[:1], target="sm_90a")
    assert allowed_bytes(one, expected[:1]).all()
    with SimulatedRunner("sm_90a") as runner:
        compiled = runner.compile(emit(program, module=MODULE))
        ran = runner.run(compiled, images)  # type: ignore[arg-type]
    assert isinstance(ran, Ran), f"{ran} {ran.detail}"
    assert np.array_equal(ran.images, expected)


@pytest.mark.parametrize("key", range(156, 164))
def test_both_kernels_of_a_rounds_programs_give_the_oracles_images(key: int) -> None:
    """Rows that four warps load, each by its lanes, are in some of these."""
    forms = [form for form in warpgroup_forms() if form.is_product]
    batches = list(round_batches(forms, target="sm_90a", version="8.4", key=key, count=8))
    with SimulatedRunner("sm_90a") as runner:
        for program, recipe in ((one.program, one.recipe) for one in batches):
            images = expand(recipe, program, 1)
            expected = execute(program, images, target="sm_90a").images
            for made in (emit(program, module=MODULE), emit_single(program, module=MODULE)):
                ran = runner.run(runner.compile(made), images)  # type: ignore[arg-type]
                assert isinstance(ran, Ran), f"{ran} {ran.detail}"
                assert np.array_equal(ran.images, expected)


def test_drawn_programs_are_defined_and_stored_as_they_are() -> None:
    kinds, deepest = set(), 0
    for key in range(60):
        program = drawn(FORMS[key * 7919 % len(FORMS)], key)
        assert undefined(program, target="sm_90a") == (), key
        assert decode_program(encode_program(program), "a program") == program
        for step in walk(program.steps):
            if isinstance(step, AsyncProduct):
                kinds |= {("a", step.a_tile is None), ("e", bool(step.e))}
                kinds |= {(tile.swizzle, tile.transposed) for tile in step.tiles.values()}
            elif isinstance(step, WarpgroupSync) and step.kind == "wait_group":
                deepest = max(deepest, step.pending)
    assert len(kinds) == 4 + 8
    assert deepest >= 3


@pytest.mark.parametrize(("asks", "number"), [("ne", 0), ("lt", 1), ("and", 1)])
def test_a_d_begins_where_no_turn_of_a_loop_reads_it_before(asks: str, number: int) -> None:
    """One in 12,000 programs read in the second turn what only a step behind the loop wrote."""
    steps = plain_multiplication(FORMS[0]).steps
    store = steps[-1]
    (product,) = (replace(one, scale_d=0) for one in steps if isinstance(one, AsyncProduct))
    for first, said in ((store, False), (product, True)):
        some = branch(Turn(asks=asks, number=number), [first], [])
        loop = BlockDraft(Loop(count=2, body=()), {"body": [some]})
        assert begins("c", [loop, product, store]) is said
        assert begins("c", [loop]) is said


def test_a_barrier_stands_between_the_wait_for_a_d_and_its_store_over_a_matrix() -> None:
    """The store is in a branch of the second turn, the multiplication of that matrix in another."""
    steps = plain_multiplication(FORMS[0]).steps
    (product,) = (one for one in steps if isinstance(one, AsyncProduct))
    other = replace(product, d="d", b_tile=replace(product.b_tile, place=Place(buffer="other")))
    over = plain_store(registers="d", count=4, place=product.b_tile.place, lanes=THREADS)
    some = branch(Turn(asks="more", number=1), [product], [over])
    loop = BlockDraft(Loop(count=2, body=()), {"body": [other, some]})
    (made,) = repaired([loop])
    (branched,) = (one for one in made.blocks["body"] if "otherwise" in one.blocks)
    before = branched.blocks["otherwise"][: branched.blocks["otherwise"].index(over)]
    assert isinstance(before[-1], Barrier)


def test_an_accumulator_goes_at_once_with_all_steps_that_touch_it() -> None:
    def accumulators(program: Program) -> set[str]:
        return {one.d for one in walk(program.steps) if isinstance(one, AsyncProduct)}

    several = (one for key in range(20) if len(accumulators(one := drawn(FORMS[0], key))) > 1)
    program = next(several)
    example = Example(program=program, image=np.zeros(program.image_bytes, np.uint8))
    left = [one.program for one in unnamed(example)]
    defined = [one for one in left if not undefined(one, target="sm_90a")]
    assert any(0 < len(accumulators(one)) < len(accumulators(program)) for one in defined)


@pytest.mark.parametrize("form", [*KINDS.values()][::9])
def test_simpler_products_give_the_oracles_images(form: Form) -> None:
    strategy = st.tuples(programs(Focus(form=form), module=MODULE, forms=FORMS), recipes())
    program, recipe = draw_one(strategy, 13)
    (image,) = expand(recipe, program, 1)
    best, defined = Example(program=program, image=image), list[Example]()
    for reduction in (narrower, plainer_products, fitted):
        smaller = [one for one in reduction(best) if not undefined(one.program, target="sm_90a")]
        assert any(one.program != best.program for one in smaller), reduction
        defined += smaller[::3]
        best = smaller[0]
    for one in (*defined, best):
        images = one.image[None]
        expected = execute(one.program, images, target="sm_90a").images
        with SimulatedRunner("sm_90a") as runner:
            ran = runner.run(runner.compile(emit(one.program, module=MODULE)), images)
        assert np.array_equal(ran.images, expected)
    steps = [one for one in walk(best.program.steps) if isinstance(one, AsyncProduct)]
    assert any(one.form.shape.n == 8 for one in steps)
    assert len({tile.place for one in steps for tile in one.tiles.values()}) == 1
    assert best.program.image_bytes < program.image_bytes


def test_copies_in_bulk_become_plain_or_go_with_their_waits() -> None:
    focus = Focus(form=FORMS[0], features=frozenset({Has.BULK}))
    program = draw_one(programs(focus, module=MODULE, forms=FORMS), 3)
    assert program.mbarriers
    image = np.random.default_rng(1).integers(0, 256, program.image_bytes, np.uint8)
    plain, *_ = plain_copies(Example(program=program, image=image))
    assert not plain.program.mbarriers
    assert undefined(plain.program, target="sm_90a") == ()
    assert requirements(plain.program) == requirements(program)
    expected = execute(program, image[None], target="sm_90a").images
    assert np.array_equal(execute(plain.program, image[None], target="sm_90a").images, expected)
    assert not [*plain_copies(plain)]


def with_words_of_loops(program: Program) -> NDArray[np.uint8]:
    """Return images whose loops run 3 times and never, in each combination."""
    words = [step.uniform for step in walk(program.steps) if isinstance(step.uniform, Word)]
    places = sorted({program.offset(word.place.buffer) + word.place.offset for word in words})
    images = np.full((1 << min(2, len(places)), program.image_bytes), 0xFF, np.uint8)
    for index, place in enumerate(places):
        images[np.arange(len(images)) >> index % 2 & 1 == 1, place : place + 4] = 0
    return images


def test_no_part_for_all_four_warps_loads_fragments_of_wmma(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even where more registers are to be live than there are, one time in 128."""
    monkeypatch.setattr(Dice, "once_in", lambda dice, number: True)
    known = replace(everything(MODULE), fragment_products=(), row_stores=())
    part = Drawn(
        lambda data: _program(Builder(data, known, known, Focus(), MODULE, threads=THREADS))
    )
    found = [draw_one(part, key) for key in range(100)]
    rows = [one for one in found if any(form.is_load for form in requirements(one))]
    assert len(rows) >= 5  # of the others none has more


@pytest.mark.parametrize("key", [0, 10, 30, 49])
def test_with_less_order_a_program_is_as_it_was_or_refused_twice_at_the_same_step(key: int) -> None:
    """Two definitions of what is undefined, written apart: they differ nowhere."""
    program, refused = drawn(FORMS[key * 7919 % len(FORMS)], key), set()
    assert {Has.UNSET, Has.BY_TURN, Has.BULK} & features_of(program)
    images = with_words_of_loops(program)
    with SimulatedRunner("sm_90a") as runner:
        for name, damage in GROUP_DAMAGES.items():
            if not (found := [*damaged(program.steps, damage)]):
                continue
            other = replace(program, steps=found[key % len(found)])
            module = emit(other, module=MODULE)
            ran = runner.run(runner.compile(module), images)  # type: ignore[arg-type]
            wrong = undefined(other, target="sm_90a")
            if not wrong:
                expected = execute(other, images, target="sm_90a").images
                assert isinstance(ran, Ran), f"{name}: {ran.detail}"
                assert np.array_equal(ran.images, expected), name
                continue
            assert not isinstance(ran, Ran), f"{name}: {[*map(str, wrong)]}"
            found = re.match(r"line (\d+): (race|uninitialised register)", ran.detail)
            line = int(found[1])  # type: ignore[index]
            before = "\n".join(module.ptx.splitlines()[:line])
            assert re.findall(r"// ([\w.]+): ", before)[-1] in {one.step for one in wrong}
            refused.add(name)
    assert len(refused) >= len(GROUP_DAMAGES) - 3


def test_some_programs_are_bound_to_few_registers_and_run_as_they_do_with_all() -> None:
    drawn_ones = [drawn(FORMS[key * 7919 % len(FORMS)], key) for key in range(40)]
    bound = [program for program in drawn_ones if program.registers]
    assert 4 <= len(bound) <= 20
    program = bound[0]
    module = emit(program, module=MODULE)
    assert f")\n.maxnreg {program.registers}\n{{" in module.ptx
    (free,) = unbound(Example(program=program, image=np.zeros(program.image_bytes, np.uint8)))
    assert ".maxnreg" not in emit(free.program, module=MODULE).ptx
    assert not [*unbound(free)]
    with SimulatedRunner("sm_90a") as runner:
        ran = runner.run(runner.compile(module), free.image[None])  # type: ignore[arg-type]
    assert np.array_equal(
        ran.images, execute(free.program, free.image[None], target="sm_90a").images
    )


def test_hardly_a_program_is_bound_to_fewer_registers_than_a_compiler_needs() -> None:
    """Of D that are in flight together none can be spilled, at no level."""
    try:
        compiler = PtxasCompiler(find_assembler().path, level=0)
    except UsageError as error:
        pytest.skip(str(error))
    products = [form for form in warpgroup_forms() if form.is_product]
    made = [
        compiler.compile(emit(batch.program, module=batch.module), "sm_90a")
        for key in range(20, 40)
        for batch in round_batches(products, target="sm_90a", version="8.4", key=key, count=8)
        if batch.program.registers
    ]
    refused = [one for one in made if isinstance(one, Failure)]
    assert len(made) >= 20
    assert not refused, [one.line for one in refused]
    # A D of as many leaves none for anything else, and no compiler is to blame.
    form = next(form for form in products if form.words("d") == FEWEST)
    bound = replace(plain_multiplication(form), registers=FEWEST)
    few = compiler.compile(emit(bound, module=MODULE), "sm_90a")
    assert isinstance(few, Failure)
    assert few.trouble is Trouble.UNSUPPORTED, few.line


_SERIAL = re.compile(r"\(C751[0-8]\)")
"""ptxas says that it waits for each multiplication before the next, and why: "are serialized"."""


def test_the_newest_compiler_leaves_most_programs_in_flight(tmp_path: Path) -> None:
    """With waits that a compiler adds, a program says little: of 96, 13.5.37 added some to 12."""
    try:
        newest, serial = find_assembler(), []
    except UsageError as error:
        pytest.skip(str(error))
    for number in range(4):
        for batch in round_batches(FORMS, target="sm_90a", version="8.4", key=number, count=8):
            source = tmp_path / f"{number}-{batch.entry}.ptx"
            source.write_text(emit(batch.program, module=batch.module).ptx, encoding="utf-8")
            command = [newest.path, "-arch=sm_90a", "-v", source, "-o", tmp_path / "cubin"]
            said = subprocess.run(command, capture_output=True, text=True, check=True)
            serial.append(bool(_SERIAL.search(said.stdout + said.stderr)))
    assert sum(serial) <= len(serial) / 4


FLOATS = [form for form in KINDS.values() if form.a_type.is_float]


@pytest.mark.parametrize("form", FLOATS[::2], ids=lambda form: form.opcode)
def test_matrices_of_a_warpgroup_are_filled_as_the_class_has_it(form: Form) -> None:
    """Those in shared memory were filled as what nothing reads."""
    program = plain_multiplication(form)
    images = expand(Recipe(classes=(ValueClass.NORMAL,), seed=5), program, 3)
    for name in "abc":
        fmt, start = form.type(name), program.offset(name)
        bytes_ = np.ascontiguousarray(images[:, start : start + program.buffer(name).size])
        patterns = unpacked(bytes_.view(fmt.raw), fmt.name)
        numbers = fields_of("f16" if fmt.bits == 8 else fmt.name).values(patterns)
        assert {*np.unique(numbers)} == {-4, -3, -2, -1, 1, 2, 3, 4}, name


def test_most_of_what_drawn_programs_multiply_is_finite_and_half_of_it_exact() -> None:
    """Three quarters were NaN or infinite, and so right whatever was multiplied."""
    forms = tuple(form for form in FORMS if form.d_type.name == "f32")
    special, exact, images = [], 0, 0
    for number in range(8):
        for batch in round_batches(forms, target="sm_90a", version="8.4", key=number, count=8):
            before = expand(batch.recipe, batch.program, batch.count)
            after = execute(batch.program, before, target="sm_90a").images
            for step in walk(batch.program.steps):
                if isinstance(step, PlainAccess) and step.stores and step.registers[:1] == "d":
                    start = batch.program.offset(step.place.buffer)
                    found = np.ascontiguousarray(after[:, start : start + step.size]).view("<u4")
                    special.append((found & 0x7F80_0000 == 0x7F80_0000).mean())
            classes = [
                batch.recipe.classes[i % len(batch.recipe.classes)] for i in range(len(before))
            ]
            exact += classes.count(ValueClass.NORMAL)
            images += len(classes)
    assert np.mean(special) < 0.25
    assert 0.4 < exact / images <= 0.6


@given(st.integers(0, 1 << 32))
@settings(max_examples=8, deadline=None)
def test_undefined_programs_are_undefined_in_what_orders_them(key: int) -> None:
    form = FORMS[key % len(FORMS)]
    strategy = undefined_programs(Focus(form=form), module=MODULE, forms=FORMS)
    program = draw_one(strategy, key)
    if not (found := undefined(program, target="sm_90a")):  # what is damaged, it never comes to
        image = np.zeros(program.image_bytes, np.uint8)
        taken = trace(program, image, target="sm_90a").events
        assert not any(isinstance(event.step, AsyncProduct) for event in taken)
        return
    ordered = {Breach.IN_FLIGHT, Breach.UNFENCED, Breach.PROXY, Breach.RACE, Breach.CONTENT}
    assert {one.cause for one in found} & ordered
