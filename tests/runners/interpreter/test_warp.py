"""The reference with 32 lanes, as a device executes it, against the oracle."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_reference_agrees import CLASSES, GROUPS, product_program, products

from oracle.execution.execution import execute
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.models import model_for
from runners.reference.encoding import encode
from runners.reference.shipped import SOURCE
from strategies.contents import Recipe, expand
from strategies.contents.device import device_contents
from strategies.draws import draw
from strategies.features import Focus, Has
from strategies.programs import programs

MODEL = model_for("sm_90")


def at(array):
    return ctypes.c_void_p(array.ctypes.data)


@pytest.fixture(scope="module")
def warp(tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++")
    library = tmp_path_factory.mktemp("warp") / "warp.so"
    text = Path(__file__).with_name("warp.cc")
    options = ["-O1", "-fno-strict-aliasing", "-shared", "-fPIC", f"-I{SOURCE.parent}"]
    subprocess.run([compiler, *options, "-o", library, text], check=True)
    return ctypes.CDLL(str(library))


def assert_same(warp, program, classes=CLASSES):
    count = len(classes)
    recipe = Recipe(classes=classes, seed=3)
    images = expand(recipe, program, count, first=1 << 40)
    made, copies = (np.zeros_like(images) for _ in range(2))
    words = device_contents(recipe, program)
    numbers = map(ctypes.c_uint64, (1 << 40, count))
    assert warp.fill_warp(at(words), *numbers, at(made), at(copies))
    assert np.array_equal(made, images)
    assert np.array_equal(copies, images)
    encoded = encode(program, MODEL)
    memory = np.zeros(encoded.work_bytes + 64, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :]
    sizes = map(ctypes.c_uint64, (program.image_bytes, count))
    assert warp.run_warp(at(encoded.words), at(made), *sizes, at(memory))
    expected = execute(program, images, model=MODEL).images
    assert np.array_equal(made, expected), str(program)


def test_products_by_a_warp(warp):
    kinds = {(form.mnemonic, form.types, form.shape): form for form in products("sm_90")}
    for form in [*kinds.values()][::9]:
        assert_same(warp, product_program(form))


@pytest.mark.parametrize("features", [(), (Has.LANES_ALONE,)])
@pytest.mark.parametrize("count", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_drawn_programs_by_a_warp(warp, count, features):
    focus = Focus(features=frozenset(features))
    strategy = programs(focus, module=Module.named("sm_90", "8.7"), forms=FORMS)
    for program in draw(strategy, count, 5):
        assert_same(warp, program)


def test_a_warpgroup_by_a_warp(warp):
    form = GROUPS[-1]
    strategy = programs(Focus(form=form), module=Module.named("sm_90a", "8.7"), forms=GROUPS)
    for program in draw(strategy, 2, 5):
        assert_same(warp, program, CLASSES[:3])
