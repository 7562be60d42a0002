"""Scalar instructions that the oracle lacks against a description in Python's own numbers."""

import random

import numpy as np
import pytest
from scalar_descriptions import float_cases, video_cases
from simulated_kernels import kernel

from runners.simulated import SimulatedDevice

DEVICE = SimulatedDevice("sm_100")
CASES = float_cases() | video_cases()
COUNT = 40
"""Operands that each instruction is tried with."""


def operand(draw: random.Random, bits: int) -> int:
    """Return any bits, a small number, an edge, or a float of a common exponent."""
    way = draw.randrange(5)
    if way == 0:
        return draw.getrandbits(bits)
    if way == 1:
        return draw.randrange(70)
    if way == 2:
        return draw.choice(
            [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, 65536]
        ) % (1 << bits)
    exponent_bits = {16: 5, 32: 8, 64: 11}[bits]
    fraction_bits = bits - 1 - exponent_bits
    bias = (1 << (exponent_bits - 1)) - 1
    field = bias + draw.randrange(-6, 7) if way == 3 else draw.randrange(3)
    tail = draw.getrandbits(fraction_bits) if draw.random() < 0.7 else 0
    return draw.getrandbits(1) << (bits - 1) | field << fraction_bits | tail


GROUPS = sorted({line.split(".")[0] for line in CASES})


@pytest.mark.parametrize("group", GROUPS)
def test_instructions_return_what_their_descriptions_say(group: str) -> None:
    for line in CASES:
        if line.split(".")[0] == group:
            check_line(line)


def test_a_nan_keeps_its_sign_and_payload_on_its_way_to_f64() -> None:
    words = [0x7FC00000, 0xFFC00001, 0x7F800001, 0x7FFFFFFF, 0xFFAAAAAA]
    body = "ld.global.b32 %a, [%rd2];\ncvt.f64.f32 %o, %a;\nst.global.b64 [%rd2+56], %o;"
    ptx = kernel(body, image_bytes=64, registers="    .reg .f32 %a;\n    .reg .f64 %o;")
    images = np.zeros((len(words), 64), np.uint8)
    images.view(np.uint32)[:, 0] = words
    after, _ = SimulatedDevice("sm_90").load(ptx).launch("kernel", images)
    wanted = [word >> 31 << 63 | 0x7FF8 << 48 | (word & 0x7FFFFF) << 29 for word in words]
    assert after.view(np.uint64)[:, 7].tolist() == wanted


def check_line(line: str) -> None:
    widths, result, describe = CASES[line]
    draw = random.Random(line)
    rows = [[operand(draw, bits) for bits in widths] for _ in range(COUNT)]
    names = "abcd"[: len(widths)]
    registers = [f"    .reg .b{bits} %{name};" for name, bits in zip(names, widths, strict=True)]
    loads = [
        f"    ld.global.b{bits} %{name}, [%rd2+{8 * i}];"
        for i, (name, bits) in enumerate(zip(names, widths, strict=True))
    ]
    body = "\n".join([*loads, f"    {line}", f"    st.global.b{result} [%rd2+56], %o;"])
    registers.append(f"    .reg .b{result} %o;")
    ptx = kernel(body, image_bytes=64, registers="\n".join(registers), target="sm_100")
    images = np.zeros((len(rows), 64), np.uint8)
    images.view(np.uint64)[:, : len(widths)] = np.array(rows, np.uint64)
    after, _ = DEVICE.load(ptx).launch("kernel", images)
    found = after[:, 56 : 56 + result // 8]
    wrong = []
    for row, image in zip(rows, found, strict=True):
        expected = describe(*row)
        actual = int.from_bytes(image.tobytes(), "little")
        if expected is not None and expected % (1 << result) != actual:
            wrong.append(([hex(each) for each in row], hex(expected % (1 << result)), hex(actual)))
    assert not wrong, (line, wrong[:3])
