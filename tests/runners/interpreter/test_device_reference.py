"""The interpreter as the package has it: its PTX, and what it says of images on a device."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from test_reference_agrees import CLASSES, product_program

from oracle.execution import execute
from oracle.isa import form_of
from oracle.models import model_for
from runners.processes import run_tool
from runners.reference.encoding import encode
from runners.reference.shipped import generated, shipped, source_digest
from strategies.contents import Recipe, expand

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


@pytest.mark.gpu
@pytest.mark.parametrize("wrong", [(), (7,), tuple(range(3, 900, 9))])
def test_the_device_names_the_images_that_differ(wrong):
    from runners.cuda.reference import LISTED, DeviceReference
    from runners.cuda.session import Session

    session = Session(0)
    driver, program, model = session._driver, product_program(form_of(OPCODE)), model_for("sm_90")
    images = expand(Recipe(classes=CLASSES, seed=1), program, COUNT)
    results = execute(program, images, model=model).images
    results[list(wrong), -1] ^= 1
    before, after = driver.to_device(images), driver.to_device(np.ascontiguousarray(results))
    reference = DeviceReference(driver, session.modules)
    ready = reference.program(encode(program, model))
    reference.start(ready, int(before), int(after), COUNT)
    found = reference.end(COUNT)
    assert (found.images, found.differing) == (COUNT, len(wrong))
    assert len(found.numbers) == min(len(wrong), LISTED)
    assert set(found.numbers) <= set(wrong)
