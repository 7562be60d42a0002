"""The interpreter as the package has it, what it costs, and images that it makes and compares."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from test_reference_agrees import CLASSES, product_program

from oracle.errors import InfrastructureError
from oracle.execution.execution import execute
from oracle.isa.lookup import form_of
from oracle.isa.targets import Module
from oracle.models import model_for
from oracle.program.program import different
from runners.processes import run_tool
from runners.reference.encoding import encode
from runners.reference.self_check import LISTED, Compared, check
from runners.reference.shipped import generated, shipped, source_digest
from strategies.contents import Recipe, expand
from strategies.contents.device import device_contents

OPCODE = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"
COUNT = 1000


def test_the_shipped_ptx_is_of_this_text():
    # python -m runners.reference.shipped NVCC writes it anew
    assert shipped().splitlines()[0].split()[-1] == source_digest()


@pytest.mark.slow
def test_the_shipped_ptx_is_what_nvcc_makes_of_the_text():
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc")
    said = run_tool([nvcc, "--version"], deadline=20).output.decode()
    (version,) = (line.split()[-1] for line in shipped().splitlines()[:8] if " release " in line)
    if version not in said:
        pytest.skip(f"the nvcc that is here is not {version}")
    assert generated(Path(nvcc)) == shipped()


@pytest.mark.parametrize("numbers", [(), tuple(range(64))])
def test_an_interpreter_that_finds_no_changed_bit_is_refused(reference, numbers):
    check(reference.compare)
    always = Compared(images=64, differing=len(numbers), numbers=numbers)
    with pytest.raises(InfrastructureError, match="compares wrongly what is known"):
        check(lambda *_: always)


@pytest.mark.gpu
@pytest.mark.parametrize("wrong", [(), (7,), tuple(range(3, 900, 9))])
def test_the_device_names_the_images_that_differ(session, wrong):
    from runners.cuda.fresh import DeviceReference

    program, model = product_program(form_of(OPCODE)), model_for("sm_90")
    images = expand(Recipe(classes=CLASSES, seed=1), program, COUNT)
    results = execute(program, images, model=model).images
    results[list(wrong), -1] ^= 1
    reference = DeviceReference(session._driver, session.modules)
    found = reference.compare(encode(program, model), images, results)
    assert (found.images, found.differing) == (COUNT, len(wrong))
    assert len(found.numbers) == min(len(wrong), LISTED)
    assert set(found.numbers) <= set(wrong)


MODULE = Module.named("sm_90", "8.7")
MODEL = model_for("sm_90")

OPCODES = (
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
    "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32",
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
)
NUMBERS = (0, (1 << 32) - 100, 1 << 53, (1 << 64) - 200)


def planted(results, dice, share):
    """Change one bit in a share of the images."""
    wrong = np.flatnonzero(dice.random(len(results)) < share)
    bits = dice.integers(0, 8 * results.shape[1], len(wrong))
    results[wrong, bits // 8] ^= (1 << bits % 8).astype(np.uint8)


@pytest.mark.parametrize("opcode", OPCODES)
@pytest.mark.parametrize("first", NUMBERS)
@pytest.mark.parametrize("share", [0, 0.1, 0.9])
def test_the_numbers_of_images_that_differ(reference, opcode, first, share):
    program, recipe = product_program(form_of(opcode)), Recipe(classes=CLASSES, seed=28)
    images = expand(recipe, program, 200, first=first)
    made = reference.fill(device_contents(recipe, program), program.image_bytes, first, 200)
    assert np.array_equal(made, images)
    expected = execute(program, images, model=MODEL).images
    results = expected.copy()
    planted(results, np.random.default_rng(first % 97), share)
    wrong = [first + int(one) for one in different(results, expected)]
    assert bool(wrong) == bool(share)
    found = reference.compare(encode(program, MODEL), made, results, first)
    assert (found.images, found.differing) == (200, len(wrong))
    assert list(found.numbers) == wrong[:LISTED]


@pytest.mark.gpu
@pytest.mark.parametrize("opcode", OPCODES)
@pytest.mark.parametrize("first", NUMBERS)
def test_a_device_makes_the_images_and_names_those_that_differ(session, opcode, first):
    from runners.cuda.fresh import DeviceReference

    driver, program = session._driver, product_program(form_of(opcode))
    recipe, model = Recipe(classes=CLASSES, seed=28), MODEL
    images = expand(recipe, program, 200, first=first)
    device = DeviceReference(driver, session.modules)
    contents = device.contents(device_contents(recipe, program))
    made, copies = (driver.mem_alloc(images.nbytes) for _ in range(2))
    device.fill(contents, first, 200, int(made), int(copies))
    for memory in (made, copies):
        found = np.empty_like(images)
        driver.memcpy_dtoh(found, memory)
        assert np.array_equal(found, images)
    results = execute(program, images, model=model).images
    results[[3, 150], -1] ^= 1
    driver.memcpy_htod(copies, results)
    encoded = encode(program, model)
    device.start(device.program(encoded), int(made), int(copies), 200, first=first)
    assert device.end(200).numbers == (first + 3, first + 150)
