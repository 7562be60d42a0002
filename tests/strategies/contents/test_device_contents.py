"""The device's contents, built by a C++ compiler here, are those of NumPy, bit for bit."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from content_programs import BITS, FLOATS, INTEGERS, long, plain, recipe, rows_program

from oracle.isa.forms import Form
from oracle.isa.lookup import NARROW_FORMS
from oracle.program.program import Program
from oracle.program.steps import product_of
from runners.reference.fresh import fill_bytes
from strategies.contents import Recipe, ValueClass, expand
from strategies.contents.device import device_contents
from strategies.contents.expansion import philox
from strategies.draws import Selection
from strategies.matrices import single_program
from strategies.rounds import round_batches, selected_forms

HEADER = Path(__file__).parents[3] / "runners" / "reference" / "contents.h"
DRIVER = r"""
#include "contents.h"
#include <string.h>
extern "C" void words(uint32_t *x, uint64_t key) { wf_philox(x, key); }
/* Lanes one after the other, the last one first, as no lane may depend on another one's. */
extern "C" void image(
    const uint64_t *words, uint64_t number, void *memory, uint8_t *image, uint8_t *copy) {
    const wf_contents c = wf_opened(words);
    wf_image lanes[32];
    for (int l = 0; l < 32; l++) lanes[l] = wf_begun(&c, memory, l, 32);
    for (int l = 31; l >= 0; l--) wf_batched(&lanes[l], number, 1);
    for (int l = 31; l >= 0; l--) wf_started(&lanes[l], 0);
    for (uint32_t f = 0; f < c.count; f++) {
        for (int l = 31; l >= 0; l--) if (wf_has_sums(&lanes[l], f)) wf_factors(&lanes[l], f);
        for (int l = 31; l >= 0; l--) wf_everywhere(&lanes[l], f);
        for (int l = 31; l >= 0; l--) if (wf_has_placed(&lanes[l], f)) wf_placed(&lanes[l], f);
    }
    for (int l = 31; l >= 0; l--) wf_copied(&lanes[l], 0, image, copy);
}
extern "C" uint64_t bytes(const uint64_t *words) {
    const wf_contents c = wf_opened(words);
    return wf_bytes(&c);
}
"""
FAR = (1 << 32) - 20, (1 << 64) - 40


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler to build the device's contents with")
    folder = tmp_path_factory.mktemp("contents")
    (folder / "driver.cc").write_text(DRIVER)
    built = folder / "contents.so"
    options = ["-O2", "-Wall", "-Werror", "-fno-strict-aliasing", "-shared", "-fPIC"]
    options += [f"-I{HEADER.parent}"]
    subprocess.run([compiler, *options, "-o", built, folder / "driver.cc"], check=True)
    return ctypes.CDLL(str(built))


Make = Callable[..., np.ndarray]


def aligned(size: int) -> np.ndarray:
    memory = np.full(size + 16, 0xA5, np.uint8)
    return memory[-memory.ctypes.data % 16 :][:size]


@lru_cache(maxsize=2)
def words_of(recipe: Recipe, program: Program) -> np.ndarray:
    return device_contents(recipe, program)


@pytest.fixture(scope="module")
def made(library: ctypes.CDLL) -> Make:
    def make(recipe: Recipe, program: Program, number: int) -> np.ndarray:
        words = words_of(recipe, program)
        library.bytes.restype = ctypes.c_uint64
        size = library.bytes(ctypes.c_void_p(words.ctypes.data))
        assert size == fill_bytes(words)
        memory, image, copy = (aligned(one) for one in (size, *[program.image_bytes] * 2))
        library.image(
            ctypes.c_void_p(words.ctypes.data), ctypes.c_uint64(number),
            *(ctypes.c_void_p(one.ctypes.data) for one in (memory, image, copy)),
        )  # fmt: skip
        assert np.array_equal(image, copy)
        return image

    return make


# Random123, tests/kat_vectors: philox4x32 10; counter, key, result.
KNOWN = [
    ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (1 << 64) - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        0x299F31D0_A4093822,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_philox_has_the_known_answers_of_random123_here_and_on_the_device(
    library: ctypes.CDLL, counter: tuple[int, ...], key: int, result: tuple[int, ...]
) -> None:
    words = (ctypes.c_uint32 * 4)(*counter)
    library.words(words, ctypes.c_uint64(key))
    assert tuple(words) == result
    assert philox(np.array(counter, np.uint64)[:, None], key).tolist() == [list(result)]


@pytest.mark.parametrize("opcode", [*FLOATS, *INTEGERS, *BITS])
@pytest.mark.parametrize("first", [0, *FAR])
def test_all_classes_are_the_same_on_the_device(made: Make, opcode: str, first: int) -> None:
    # Two turns at least of each class, and one before and behind 2^32.
    program, mix = plain(opcode), recipe(*ValueClass, seed=first + 5)
    images = expand(mix, program, 40, first=first)
    for number, image in enumerate(images):
        assert np.array_equal(image, made(mix, program, first + number)), number


@pytest.mark.parametrize("form", NARROW_FORMS[::40], ids=lambda form: form.types)
def test_narrow_floats_are_the_same_on_the_device(made: Make, form: Form) -> None:
    program, mix = single_program(product_of(form)), recipe(*ValueClass)
    for number, image in enumerate(expand(mix, program, 20)):
        assert np.array_equal(image, made(mix, program, number)), number


@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_contents_of_drawn_programs_are_the_same_on_the_device(made: Make, target: str) -> None:
    version = {"sm_75": "6.5", "sm_90": "8.7"}[target]
    forms = selected_forms(Selection(), target=target, version=version)
    for batch in round_batches(forms, target=target, version=version, key=77, count=30):
        recipe, program, first = batch.recipe, batch.program, 1 << 40
        for number, image in enumerate(expand(recipe, program, 20, first=first), first):
            assert np.array_equal(image, made(recipe, program, number)), program


def test_copies_matrices_and_rows_are_the_same_on_the_device(made: Make) -> None:
    for program in (long().program, rows_program()):
        for number, image in enumerate(expand(recipe(*ValueClass), program, 60)):
            assert np.array_equal(image, made(recipe(*ValueClass), program, number)), number
