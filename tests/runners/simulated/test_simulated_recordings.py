"""The simulated sm_90 and the oracle give the bits that an H200 gave.

`data/h200_digests.json` holds, for kernels and contents that this module makes again, the SHA-256
of what they were and of what one NVIDIA H200 (driver 580.159.04, the driver's compiler of CUDA
13.0) left in memory on 2026-11-21: for each of the 138 variants all flavours of contents in turn,
and element-wise operations and ldmatrix on random and special values. 15.8 million values, of
which the simulated device gives every one.
"""

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray
from simulated_contents import FORMATS, flavours, images_of
from simulated_kernels import RECORDED, VARIANTS, kernel, ldmatrix, multiplication
from test_simulated_variants import expected

from oracle.isa import forms
from runners.simulated import SimulatedDevice

DEVICE = SimulatedDevice("sm_90")
COUNT = 6
"""Images of each flavour."""

PACKED = {"f32": "f32", "f64": "f64", "f16x2": "f16", "bf16x2": "bf16"}
OPERATIONS = [
    *(f"{name}.rn.{kind}" for name in ("add", "sub", "mul", "fma") for kind in PACKED),
    *(
        f"{name}.{rounding}.{kind}"
        for name in ("add", "sub", "mul", "fma")
        for rounding in ("rz", "rm", "rp")
        for kind in ("f32", "f64")
    ),
    *(f"{name}.{kind}" for name in ("neg", "abs") for kind in PACKED),
]
ROWS = [("m8n8.x1@.b16", 1), ("m8n8.x2.trans@.b16", 2), ("m8n8.x4@.b16", 4)]
ROWS.append(("m8n8.x4.trans@.b16", 4))


def digest(arrays: list[NDArray[np.generic]]) -> str:
    whole = hashlib.sha256()
    for each in arrays:
        whole.update(np.ascontiguousarray(each).tobytes())
    return whole.hexdigest()[:24]


def check(name: str, contents: list[NDArray[np.uint8]], results: list[NDArray[np.generic]]) -> None:
    given, expected = RECORDED[name]
    assert digest(contents) == given, "the contents differ from the recorded ones: record again"
    assert digest(results) == expected


def check_variant(index: int) -> None:
    form = VARIANTS[index]
    case = multiplication(
        form,
        c_order=("row", "col")[index % 2],
        d_order=("row", "col")[index // 2 % 2],
        padding=index % 3,
        space=("global", "generic", "shared")[index % 3],
        stride_register=index % 5 < 2,
        target="sm_90",
    )
    module, names, d = DEVICE.load(case.ptx), flavours(form), case.matrices["d"]
    contents = [images_of(case, flavour, count=COUNT) for flavour in names]
    launched = [module.launch("kernel", images)[0] for images in contents]
    oracles = [expected(case, images, "sm_90") for images in contents]
    for after in (launched, oracles):
        check(form.opcode, contents, [d.get(images) for images in after])


GROUPS: dict[tuple[str | bool, ...], list[int]] = {}
"""Variants that differ in layouts alone, which change no sum."""
for _index, _each in enumerate(VARIANTS):
    _what = _each.shape.name, _each.types, _each.rounding, _each.op, _each.satfinite
    GROUPS.setdefault(_what, []).append(_index)
ONE_OF_EACH = [group[number % len(group)] for number, group in enumerate(GROUPS.values())]


@pytest.mark.parametrize("index", ONE_OF_EACH, ids=lambda i: VARIANTS[i].opcode[14:])
def test_device_and_oracle_give_what_the_h200_gave(index: int) -> None:
    check_variant(index)


@pytest.mark.slow
def test_every_variant_gives_what_the_h200_gave() -> None:
    for index in range(len(VARIANTS)):
        check_variant(index)


def operation_kernel(opcode: str) -> str:
    """Return a kernel that applies an operation to three rows of 32 words, and stores a fourth."""
    name, kind = opcode.split(".")[0], opcode.split(".")[-1]
    bits = 64 if kind == "f64" else 32
    count = {"fma": 3, "neg": 1, "abs": 1}.get(name, 2)
    lines = [f"    mul.wide.u32 %rd10, %r7, {bits // 8};", "    add.s64 %rd11, %rd2, %rd10;"]
    lines += [f"    ld.global.b{bits} %v{i}, [%rd11+{4 * bits * i}];" for i in range(3)]
    lines.append(f"    {opcode} %v3, " + ", ".join(f"%v{i}" for i in range(count)) + ";")
    lines.append(f"    st.global.b{bits} [%rd11+{12 * bits}], %v3;")
    registers = f"    .reg .b{bits} %v<4>;"
    return kernel("\n".join(lines), image_bytes=16 * bits, registers=registers)


def operation_images(opcode: str) -> NDArray[np.uint8]:
    """Return images of random words, a share of them NaN, infinite, subnormal, zero or near 1."""
    element = PACKED[opcode.split(".")[-1]]
    exponent, fraction, _ = FORMATS[element]
    rng = np.random.default_rng(len(opcode) * 7 + ord(opcode[0]))
    images = rng.integers(0, 256, (400, 1024 if element == "f64" else 512)).astype(np.uint8)
    words = images.view(forms.FORMATS[element].raw)
    dtype = words.dtype.type
    top = dtype(((1 << exponent) - 1) << fraction)
    one = dtype(((1 << (exponent - 1)) - 1) << fraction)
    sign = dtype(1 << (exponent + fraction))
    choice = rng.integers(0, 8, words.shape)
    kinds = [words | top, (words & ~top) | one, words & ~top, top | (words & sign), words & sign]
    words[...] = np.select([choice == i for i in range(5)], kinds, words)
    return images


@pytest.mark.parametrize("opcode", OPERATIONS)
def test_an_element_wise_operation_gives_what_the_h200_gave(opcode: str) -> None:
    images = operation_images(opcode)
    after, _ = DEVICE.load(operation_kernel(opcode)).launch("kernel", images)
    check(opcode, [images], [after])


@pytest.mark.parametrize(("qualifiers", "registers"), ROWS)
def test_ldmatrix_gives_what_the_h200_gave(qualifiers: str, registers: int) -> None:
    rng = np.random.default_rng(registers)
    images = rng.integers(0, 256, (50, 1024 + 128 * registers)).astype(np.uint8)
    after, _ = DEVICE.load(ldmatrix(qualifiers, registers)).launch("kernel", images)
    check(qualifiers, [images], [after])
