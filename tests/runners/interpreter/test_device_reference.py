"""The interpreter as the package has it: its PTX, and what it says of images on a device."""

import shutil
from pathlib import Path

import pytest
from test_reference_agrees import CLASSES, product_program

from oracle.errors import InfrastructureError
from oracle.execution.execution import execute
from oracle.isa.lookup import form_of
from oracle.models import model_for
from runners.processes import run_tool
from runners.reference.encoding import encode
from runners.reference.self_check import IMAGES, LISTED, check
from runners.reference.shipped import (
    SOURCE,
    HostReference,
    generated,
    shipped,
    source_digest,
)
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


def test_a_right_interpreter_passes_its_check(reference):
    assert check(reference.compare) >= 40 * 2 * IMAGES


WRONG = (
    ("(largest - e[k])) - minus[k];", "(largest - e[k]));"),
    ("rest > half || (rest == half && (kept & 1))", "rest >= half"),
    ("return n < 32 ? x >> n : 0;", "return x >> (n & 31);"),
    ("(a.zero & b.infinite)", "0"),
    ("return one | quiet;", "return one;"),
    ("if (r.z) sum", "if (0) sum"),
    ("r.y ? a ^ b", "0 ? a ^ b"),
    ("rest && x.negative == (rounding == RM)", "rest"),
    ("i & 1 ? v[2] : ~v[2]", "i & 1 ? ~v[2] : v[2]"),
    ("if (v[0]) at = p;", ""),
    ("inside ? (u32)from : lane", "(u32)from & 31"),
    ("unit / 2 * 4 + index", "unit * 2 + index"),
    ("line = apart ? output : column", "line = column"),
)
"""What a compiler could have made of the text: a part of it, and another in its place."""


def test_each_part_is_in_the_text_once():
    assert [part for part, _ in WRONG if SOURCE.read_text().count(part) != 1] == []


@pytest.mark.slow
@pytest.mark.parametrize(("part", "instead"), WRONG)
def test_a_wrong_interpreter_fails_its_check(tmp_path, monkeypatch, part, instead):
    text = SOURCE.read_text()
    (tmp_path / "interpreter.cu").write_text(text.replace(part, instead))
    monkeypatch.setattr("runners.reference.shipped.SOURCE", tmp_path / "interpreter.cu")
    with pytest.raises(InfrastructureError, match="wrong on images whose results"):
        check(HostReference().compare)


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
