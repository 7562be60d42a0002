"""The culprit is the step that is wrong by itself, given right inputs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import eq

import numpy as np
import pytest
from hypothesis import strategies as st

from corpus import Kind, ShrinkStatus
from fuzz.diagnosis.culprit import (
    C_ELSEWHERE,
    C_IN_PLACE,
    culprit_of,
    shared_register_culprits,
)
from fuzz.diagnosis.experiments import IN_PLACE, Culprit, ExperimentDevice, Remembered, key_of
from fuzz.findings.verdicts import Subject
from fuzz.runner import RunnerChoice, opened
from fuzz.shrinking import shrink, verdicts_by
from oracle.isa.forms import Form
from oracle.isa.lookup import ACCESS_FORMS, mma_form, mma_sync_form
from oracle.isa.lookup import FORMS as ISA
from oracle.isa.targets import Module
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program
from oracle.program.steps import (
    Op,
    multiplies_fragments,
    plain_load,
    plain_store,
    stores_fragment,
    stores_rows,
)
from runners.emission import emit
from runners.faults import CATALOGUE, by_name
from runners.foreign import RewritingRunner
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, ForwardingRunner, Runner
from runners.simulated_runner import SimulatedRunner
from strategies.contents import expand, recipes
from strategies.draws import derived_seed, draw
from strategies.features import Focus
from strategies.matrices import exact, image_of, single_product
from strategies.programs import is_valued, programs

HALF = mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16")
MODULE = Module.named("sm_90", "8.0")
FORMS = tuple(form for form in ISA if is_valued(form, MODULE))
WMMA = tuple(form for form in FORMS if form.mnemonic in ("wmma.mma", "ldmatrix"))
(ROTATED,) = (one.name for one in CATALOGUE if re.search("^st.*-rotated-rows$", one.name))
"""Takes the addresses of rows that are stored from other lanes."""
ROUNDS = 12
"""Rounds of eight programs among which a fault has to show."""


def failing(runner, name: str, count: int, seed: int = 7) -> Iterator[tuple[Program, np.ndarray]]:
    """Draw programs with an image that comes out wrong on a runner."""
    forms = tuple(one for one in FORMS if by_name(name).opcodes.search(one.opcode)) or WMMA
    one_program = programs(Focus(), module=MODULE, forms=forms)
    drawn = st.lists(st.tuples(one_program, recipes()), min_size=8, max_size=8)
    found = 0
    for index in range(ROUNDS):
        for program, recipe in draw(drawn, 2, derived_seed(seed, name, index))[-1]:
            images = expand(recipe, program, 16)
            device = ExperimentDevice(runner, emit(program, module=MODULE))
            results = device.results(program, images)
            if results is not None and results.wrong.any():
                yield program, images[int(np.argmax(results.wrong))]
                found += 1
                if found == count:
                    return
    pytest.fail(f"{name} showed in {found} programs only")


def culprits(runner, name: str, count: int, seed: int = 7) -> set[str]:
    found = set()
    for program, image in failing(runner, name, count, seed):
        device = ExperimentDevice(runner, emit(program, module=MODULE))
        culprit = culprit_of(device, program, image)
        assert culprit is not None
        found.add(key_of(culprit))
    return found


@pytest.mark.parametrize(
    ("fault", "key"),
    [
        ("load-a-layout-flipped", "wmma.load.a and wmma.mma"),
        ("load-stride-ignored", "wmma.load"),
        ("load-c-stride-longer", "wmma.load.c"),
        ("mma-b-register-slip", "wmma.load.b and wmma.mma"),  # nobody else reads such a fragment
        ("multiplicands-exchanged", "wmma.mma"),
        ("sum-rounded-up", "wmma.mma of floats"),
        ("store-layout-flipped", "wmma.store"),
        ("trans-lost", "ldmatrix"),
        ("elementwise-subtracts", "element-wise operation"),
        ("branch-inverted", "branch or loop"),
        # A copy is named after what it is made of, if that is wrong.
        ("copy-vector-end", "storing registers"),
        # Where registers can make what is loaded, the load can be told from the multiplication.
        ("stuck-load-bit", "wmma.load.a"),
        ("lanes-b-crossed", "mma.sync"),
        (ROTATED, by_name(ROTATED).guilty[0]),
        ("movmatrix-lost", "movmatrix"),
    ],
)
def test_one_fault_has_one_culprit_whatever_types_and_shapes_it_shows_in(
    fault: str, key: str
) -> None:
    runner = SimulatedRunner("sm_90", faults=[by_name(fault)])
    assert culprits(runner, fault, 2) == {key}


THIRTY = (
    "load-a-layout-flipped", "load-c-layout-flipped", "store-layout-flipped",
    "mma-b-layout-flipped", "load-a-stride-longer", "load-stride-ignored", "store-offset",
    "store-missing", "mma-a-register-slip", "mma-d-registers-rotated",
    "multiplicands-exchanged", "accumulator-ignored", "satfinite-dropped",
    "rounding-turned-round", "xor-as-and", "trans-lost",
    "ldmatrix-registers-rotated", "elementwise-subtracts", "branch-inverted", "loop-one-short",
    "block-halved", "sum-rounded-up", "subnormals-flushed-in-b", "f64-not-fused",
    "saturation-each-step", "popcount-short", "lanes-crossed", "lanes-stuck-bit",
    "stmatrix-wrong-transpose", "sparse-pairs-swapped",
)  # fmt: skip


@pytest.mark.slow
def test_thirty_causes_have_one_name_each_over_five_seeds() -> None:
    same = 0
    for name in THIRTY:
        runner = SimulatedRunner("sm_90", faults=[by_name(name)])
        keys = Counter(key for seed in range(5) for key in culprits(runner, name, 1, seed))
        same += keys.most_common(1)[0][1]
    assert same >= 0.95 * 5 * len(THIRTY)


def in_place(form: Form = HALF) -> Program:
    """A multiplication whose D goes to registers of A."""
    base = single_product(form)
    program = base.program
    steps = tuple(
        step.changed(d="a") if multiplies_fragments(step)
        else step.changed(fragment="a") if stores_fragment(step)
        else step
        for step in program.steps
    )  # fmt: skip
    return replace(program, steps=steps)


def drawn_image(program: Program, form: Form = HALF) -> np.ndarray:
    return image_of(program, {name: exact(form.matrix(name), 3) for name in "abc"})


def overwriting(ptx: str) -> str:
    """A compiler that overwrites A with D before it has read all of A: where both share names."""
    lines = []
    for line in ptx.splitlines():
        operands = [part.split("}")[0].split(", ") for part in line.split("{")[1:]]
        if "wmma.mma" in line and operands[0][0] in operands[1]:
            line = line.replace(operands[1][-1], operands[1][0])
        lines.append(line)
    return "\n".join(lines)


def two_in_place() -> Program:
    """Image 16 of round 58 of seed 8 on an H200 (2026-11-22) was a new finding."""
    first, second = in_place(), in_place(mma_form(str(HALF.opcode).replace("row.col", "row.row")))
    again = tuple(
        step.changed(place=Place(buffer="again")) if stores_fragment(step) else step
        for step in second.steps
    )
    size = first.buffer("d").size
    return Program(
        buffers=(*first.buffers, Buffer(name="again", space="global", size=size)),
        steps=(*first.steps, *again),
    )


def named(program: Program, *passes: Callable[[str], str], module: Module = MODULE) -> Culprit:
    """Return the culprit of a program that comes out wrong behind some passes."""
    runner = RewritingRunner(SimulatedRunner("sm_90"), [*passes])
    device = ExperimentDevice(runner, emit(program, module=module))
    image = drawn_image(program)
    assert not device.all_right(program, image[None])
    culprit = culprit_of(device, program, image)
    assert culprit is not None
    return culprit


@pytest.mark.parametrize("program", [in_place, two_in_place])
def test_d_in_the_registers_of_a_multiplicand_is_believed_if_d_elsewhere_is_right(
    program: Callable[[], Program],
) -> None:
    assert key_of(named(program(), overwriting)) == f"wmma.mma of f16/{IN_PLACE}"


def sharing(form: Form, d: str) -> Program:
    """A multiplication whose D has registers that others have, too."""
    if form.mnemonic == "wmma.mma":
        program = single_product(form).program
    else:
        names = {name: form.vectors[name].registers for name in "abcd"}
        program = Program(
            buffers=tuple(Buffer(name=one, space="global", size=1024) for one in names),
            steps=(
                *(
                    plain_load(registers=one, count=names[one], place=Place(buffer=one))
                    for one in "abc"
                ),
                Op.of(form=form, d="d", a="a", b="b", c="c"),
                plain_store(registers="d", count=names["d"], place=Place(buffer="d")),
            ),
        )
    *loads, multiply, store = program.steps
    field = "fragment" if stores_fragment(store) else "registers"
    return replace(program, steps=(*loads, multiply.changed(d=d), store.changed(**{field: d})))


def expanding(disturbs: Callable[..., bool]) -> Callable[[str], str]:
    """Return a compiler that loses C where its registers are D's in some way."""

    def rewrite(ptx: str) -> str:
        lines = []
        for line in ptx.splitlines():
            vectors = [part.split("}")[0] for part in line.split("{")[1:]]
            operands = [vector.split(", ") for vector in vectors]
            if "mma.sync." in line and len(operands) == 4 and disturbs(*operands):
                # As if some of D had been written before the rest of C was read.
                start, _, end = line.rpartition(vectors[3])
                line = start + ", ".join([*operands[3][-1:], *operands[3][1:]]) + end
            lines.append(line)
        return "\n".join(lines)

    return rewrite


def disordered(d: list[str], a: list[str], b: list[str], c: list[str]) -> bool:
    return any(one == other for i, one in enumerate(d) for j, other in enumerate(c) if i != j)


def in_order(d: list[str], a: list[str], b: list[str], c: list[str]) -> bool:
    return not disordered(d, a, b, c) and any(map(eq, d, c))


def over_a(d: list[str], a: list[str], b: list[str], c: list[str]) -> bool:
    return d[0] in a


FP8 = mma_sync_form("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32")
BYTES = mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32")
REVERSED = "c.3 c.2 c.1 c.0"


@pytest.mark.parametrize(
    ("form", "d", "disturbs", "key"),
    [
        # What is read too late of C does not depend on types: one cause, one key.
        (HALF, REVERSED, disordered, f"wmma.mma/{C_ELSEWHERE}"),
        (HALF, "c.2 c.3 d.0 d.1", disordered, f"wmma.mma/{C_ELSEWHERE}"),
        (
            BYTES, "c.7 c.6 c.5 c.4 c.3 c.2 c.1 c.0", disordered, f"wmma.mma/{C_ELSEWHERE}",
        ),
        (FP8, REVERSED, disordered, f"mma.sync of 8-bit floats/{C_ELSEWHERE}"),
        (FP8, "c", in_order, f"mma.sync of 8-bit floats/{C_IN_PLACE}"),
        # Where D shares with A and with C, that is named which is right apart.
        (HALF, "a.0 a.1 c.1 c.0", over_a, f"wmma.mma of f16/{IN_PLACE}"),
        (HALF, "a.0 a.1 c.1 c.0", disordered, f"wmma.mma/{C_ELSEWHERE}"),
    ],
)  # fmt: skip
def test_the_operand_is_named_that_is_right_in_registers_of_its_own(
    form: Form, d: str, disturbs: Callable[..., bool], key: str
) -> None:
    program, module = sharing(form, d), Module.named("sm_90", "8.7")
    broken = RewritingRunner(SimulatedRunner("sm_90"), [expanding(disturbs)])
    device = ExperimentDevice(broken, emit(program, module=module))
    image = small_numbers(program, form)
    assert not device.all_right(program, image[None])
    culprit = culprit_of(device, program, image)
    assert culprit is not None
    assert key_of(culprit) == key
    # Not by how the program looks.
    sound = ExperimentDevice(SimulatedRunner("sm_90"), emit(program, module=module))
    assert culprit_of(sound, program, image) is None


def small_numbers(program: Program, form: Form) -> np.ndarray:
    if form.mnemonic == "wmma.mma":
        return drawn_image(program, form)
    image = np.random.default_rng(1).choice(
        np.array([0x38, 0x30, 0xB8], np.uint8), program.image_bytes
    )
    start = program.offset("c")
    image[start : start + 1024] = np.tile(np.float32([1.5, -3, 4, 8]).view(np.uint8), 64)
    return image


class Counting(ForwardingRunner):
    """A runner that counts what it compiles."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self.compiled = 0

    def compile(self, module: KernelModule) -> Compiled | Failure:
        self.compiled += 1
        return super().compile(module)


def test_what_is_believed_already_takes_one_compilation_more_for_each_program() -> None:
    program = sharing(HALF, REVERSED)
    runner = Counting(RewritingRunner(SimulatedRunner("sm_90"), [expanding(disordered)]))
    images, remembered = drawn_image(program)[None], Remembered()
    compiled = []
    for _ in range(3):
        device = ExperimentDevice(runner, emit(program, module=MODULE), remembered=remembered)
        before = runner.compiled
        (culprit,) = shared_register_culprits(
            device, program, images, lambda: np.ones(len(images), bool)
        )
        assert culprit is not None
        compiled.append(runner.compiled - before)
    assert compiled[0] > 2
    assert compiled[1:] == [1, 1]


def test_copies_of_images_come_out_as_the_images_do() -> None:
    program = sharing(HALF, REVERSED)
    images = np.stack([drawn_image(program)] * 3)
    images[1] = 0
    runner = SimulatedRunner("sm_90", faults=[by_name("accumulator-ignored")])
    emitted = emit(program, module=MODULE)
    found = [
        ExperimentDevice(runner, emitted, copies=copies).results(program, images)
        for copies in (1, 3)
    ]
    assert found[0].wrong.tolist() == found[1].wrong.tolist() == [True, False, True]
    assert (found[0].actual == found[1].actual).all()


def third_result_moved(ptx: str) -> str:
    """A compiler that exchanges two results of the third multiplication of a kernel."""
    first, *others = ptx.split("wmma.mma")
    if len(others) > 2:
        name, registers, rest = others[2].split("{", 2)[0], *others[2].split("}", 1)
        one, other, *more = registers.split("{")[1].split(", ")
        others[2] = f"{name}{{{', '.join([other, one, *more])}}}{rest}"
    return "wmma.mma".join([first, *others])


def test_a_step_that_is_wrong_only_beside_others_is_found_in_its_place() -> None:
    base = single_product(HALF)
    *loads, multiply, store = base.program.steps
    again = base.multiply.changed(c="d")
    program = replace(base.program, steps=(*loads, multiply, again, again, store))
    told = "wmma.mma and wmma.load/beside other steps only"
    assert key_of(named(program, third_result_moved)) == told


def rows_turned(ptx: str) -> str:
    """A pass that stores by columns what is to be stored by rows."""
    return re.sub(r"(wmma\.store\.d\.sync\.aligned)\.row", r"\1.col", ptx)


def test_every_store_of_a_result_is_tried() -> None:
    """Round 3 of seed 9 (2026-11-23) blamed wmma.load.c, seen through a store that is wrong."""
    base = single_product(HALF)
    *loads, multiply, store = base.program.steps
    assert stores_fragment(store)
    right = replace(store, form=ACCESS_FORMS[store.form.matrix(), "col", "global"])
    turned = store.changed(place=Place(buffer="turned"))
    program = replace(
        base.program,
        buffers=(*base.program.buffers, replace(base.program.buffer("d"), name="turned")),
        steps=(*loads, multiply, right, turned),
    )
    assert key_of(named(program, rows_turned)) == "wmma.store"


def test_nothing_is_looked_at_through_a_store_that_is_wrong() -> None:
    base = single_product(HALF)
    *loads, multiply, store = base.program.steps
    assert stores_fragment(store)
    right = replace(store, form=ACCESS_FORMS[store.form.matrix(), "col", "global"])
    again = base.multiply.changed(c="d")
    program = replace(base.program, steps=(*loads, multiply, again, again, right))
    both = RewritingRunner(SimulatedRunner("sm_90"), [third_result_moved, rows_turned])
    device = ExperimentDevice(both, emit(program, module=MODULE))
    image = drawn_image(program)
    assert not device.all_right(program, image[None])
    assert culprit_of(device, program, image) is None


def test_what_comes_out_right_has_no_culprit() -> None:
    program = single_product(HALF).program
    device = ExperimentDevice(SimulatedRunner("sm_90"), emit(program, module=MODULE))
    assert culprit_of(device, program, drawn_image(program)) is None


def test_the_witness_of_a_culprit_comes_out_wrong() -> None:
    runner = SimulatedRunner("sm_90", faults=[by_name("load-c-offset")])
    for program, image in failing(runner, "load-c-offset", 2):
        device = ExperimentDevice(runner, emit(program, module=MODULE))
        culprit = culprit_of(device, program, image)
        assert isinstance(culprit, Culprit)
        assert culprit.witness is not None
        results = device.results(culprit.witness.program, culprit.witness.images)
        assert results is not None
        assert results.wrong.all()


def test_a_step_on_registers_is_shrunk_to_itself_between_plain_accesses() -> None:
    with opened(RunnerChoice(name="sim", target="sm_90", faults=(ROTATED,))) as ready:
        ((program, image),) = failing(ready.runner, ROTATED, 1)
        culprit = culprit_of(
            ExperimentDevice(ready.runner, emit(program, module=MODULE)), program, image
        )
        assert culprit is not None
        assert culprit.witness is not None
        witness = culprit.witness.program
        subject = Subject(
            module=emit(witness, module=MODULE), program=witness, image=culprit.witness.images[0]
        )
        shrunk = shrink(subject, verdicts_by(ready.runner), wanted=Kind.VIOLATION)
    assert shrunk.status is ShrinkStatus.COMPLETE
    (stored,) = (step for step in shrunk.subject.program.steps if stores_rows(step))
    assert (stored.form.number, stored.form.transposed, stored.memory.immediate) == (1, False, 0)
    # Memory is filled, one register loaded and stored, memory copied back, in order.
    assert len(shrunk.subject.program.steps) == 6
