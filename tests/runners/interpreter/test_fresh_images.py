"""Images that the reference makes itself, of their numbers, and which of them it says differ."""

import numpy as np
import pytest
from test_reference_agrees import CLASSES, product_program

from oracle.execution.execution import execute
from oracle.isa.lookup import form_of
from oracle.models import model_for
from oracle.program.program import different
from runners.reference.encoding import encode
from runners.reference.self_check import LISTED
from strategies.contents import Recipe, expand
from strategies.contents.device import device_contents

OPCODES = (
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
    "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32",
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
)
NUMBERS = (0, (1 << 32) - 100, 1 << 53, (1 << 64) - 200)
MODEL = model_for("sm_90")


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
