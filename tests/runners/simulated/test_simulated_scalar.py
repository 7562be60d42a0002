"""The per-thread instructions against Python's integers and floats."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_kernels import kernel

from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.scalar import ROWS, ScalarOp, rows_of

DEVICE = SimulatedDevice("sm_100")


def evaluate(line: str, *values: tuple[int, int], result: int, setup: str = "") -> int:
    """Run `line` with %in0, %in1, … of (value, bits), and return %out, of `result` bits."""
    registers = [f"    .reg .b{bits} %in{i};" for i, (_, bits) in enumerate(values)]
    body = [f"    ld.global.b{bits} %in{i}, [%rd2+{8 * i}];" for i, (_, bits) in enumerate(values)]
    image = np.zeros((2, 64), np.uint8)
    for i, (value, bits) in enumerate(values):
        raw = np.frombuffer((value % (1 << bits)).to_bytes(8, "little"), np.uint8)
        image[:, 8 * i : 8 * i + 8] = raw
    body += [setup, f"    {line}", f"    st.global.b{result} [%rd2+56], %out;"]
    registers.append(f"    .reg .b{result} %out;")
    ptx = kernel("\n".join(body), image_bytes=64, registers="\n".join(registers), target="sm_100")
    after, _ = DEVICE.load(ptx).launch("kernel", image)
    found = {int.from_bytes(row[56 : 56 + result // 8].tobytes(), "little") for row in after}
    (value,) = found
    return value


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


WORDS = {bits: st.integers(0, (1 << bits) - 1) for bits in (16, 32, 64)}


@pytest.mark.parametrize("kind", ["u8", "s8", "u16", "s16"])
@given(WORDS[32])
@settings(max_examples=8, deadline=None)
def test_narrow_loads_extend_and_narrow_stores_keep_the_rest(kind: str, value: int) -> None:
    bits = int(kind[1:])
    low = value % (1 << bits)
    number = signed(low, bits) if kind[0] == "s" else low
    register = "%out" if bits == 8 else "%h"
    widen = f"cvt.{kind[0]}32.{kind} %out, %h;" if bits == 16 else ""
    line = f"ld.global.{kind} {register}, [%rd2];\n    {widen}"
    setup = "    .reg .b16 %h;"
    assert evaluate(line, (value, 32), result=32, setup=setup) == number % (1 << 32)
    line = f"st.global.{kind} [%rd2], {register};\n    ld.global.b32 %out, [%rd2];"
    setup += "\n    mov.b16 %h, 0;" if bits == 16 else "\n    mov.b32 %out, 0;"
    kept = value >> bits << bits
    assert evaluate(line, (value, 32), result=32, setup=setup) == kept


@given(st.lists(WORDS[32], min_size=4, max_size=4), st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_atomic_additions_of_many_threads_are_made_one_after_the_other(
    words: list[int], shift: int
) -> None:
    # Every lane adds its number plus one to word (lane >> shift) % 4, and stores what was there.
    ptx = kernel(
        f"""
    shr.u32 %r20, %r7, {shift};
    and.b32 %r20, %r20, 3;
    mul.wide.u32 %rd10, %r20, 4;
    add.s64 %rd10, %rd2, %rd10;
    add.u32 %r21, %r7, 1;
    setp.ne.u32 %p4, %r7, 9;
    mov.b32 %r22, 0;
    @%p4 atom.global.add.u32 %r22, [%rd10], %r21;
    mul.wide.u32 %rd10, %r7, 4;
    add.s64 %rd11, %rd2, %rd10;
    st.global.b32 [%rd11+64], %r22;
    """,
        image_bytes=192,
    )
    image = np.zeros((3, 192), np.uint8)
    image.view(np.uint32)[:, :4] = words
    after, _ = DEVICE_90.load(ptx).launch("kernel", image)
    expected, held = list(words), [0] * 32
    for lane in range(32):
        if lane != 9:
            place = (lane >> shift) % 4
            held[lane] = expected[place]
            expected[place] = (expected[place] + lane + 1) % (1 << 32)
    found = after.view(np.uint32)[2]
    assert found[:4].tolist() == expected
    assert found[16:48].tolist() == held


DEVICE_90 = SimulatedDevice("sm_90")


@pytest.mark.parametrize(
    ("line", "needed"),
    [("add.rn.bf16x2 %r20, %r7, %r7;", "sm_90"), ("fma.rn.bf16x2 %r20, %r7, %r7, %r7;", "sm_80")],
)
def test_bf16_arithmetic_needs_its_target(line: str, needed: str) -> None:
    DEVICE.load(kernel(f"    {line}", image_bytes=8, target=needed))
    with pytest.raises(SimulatedTrap, match=needed):
        DEVICE.load(kernel(f"    {line}", image_bytes=8, target="sm_75"))


@pytest.mark.parametrize(
    "line",
    [
        "add.sat.bf16x2 %r20, %r7, %r7;",
        "add.relu.f32 %r20, %r7, %r7;",
        "cvt.ftz.u32.u64 %r20, %rd1;",
        "min.ftz.f64 %rd10, %rd1, %rd1;",
        "match.any.sync.b32 %r20|%p4, %r7, -1;",
        "setp.lt.ftz.bf16x2 %p4|%p5, %r7, %r7;",
        # Whole words are no halves.
        "set.eq.f32.f16x2 %r20, %r7, %r7;",
        "vadd2.u32.u32.u32.sat.add %r20, %r7, %r7, %r7;",
        "cvt.ftz.f64.f16 %rd10, %h1;",
        "cvt.sat.u64.u32 %rd10, %r7;",
    ],
)
def test_what_no_row_has_is_refused(line: str) -> None:
    with pytest.raises(SimulatedTrap) as caught:
        DEVICE.load(kernel(f"    {line}", image_bytes=8, target="sm_100"))
    assert caught.value.trap.kind is TrapKind.UNSUPPORTED


REGISTERS = {1: "%p", 8: "%b", 16: "%h", 32: "%r", 64: "%rd", 128: "%q"}


def instruction(row: ScalarOp) -> str:
    """Return an instruction of a row: no qualifier that may be missing, of others the first."""
    opcode = re.sub(
        r"\(\?:\\\.\(\?P<\w+>[^)]*\)\)\?|\(\?P<\w+>\\\.[^)]*\)\?", "", row.pattern.pattern
    )
    opcode = re.sub(r"\(\?P<\w+>([^|)]*)[^)]*\)", r"\1", opcode).replace("\\", "")
    (slots,) = [slots for each, _, slots in rows_of(opcode) if each is row]
    named = [slot for slot in slots if slot.name != "CC" and not slot.optional]
    text = ""
    for number, slot in enumerate(named):
        joint = "" if not number else "|" if slot.is_target else ", "
        # Registers 10 and 11 are written, and 0 to 3 were.
        place = 10 + (number > 0) if slot.is_target else number % 4
        wanted = f"{REGISTERS[slot.bits]}{place}" if slot.bits else "0xe8"
        text += joint + ("-1" if slot.name == "m" else wanted)
    return f"{opcode} {text};"


def test_a_qualifier_may_stand_behind_the_type() -> None:
    case = "min.s16x2.relu %out, %in0, %in1;"
    assert evaluate(case, (0x8000_0005, 32), (0x0001_0007, 32), result=32) == 5


@pytest.mark.parametrize("target", ["sm_100", "sm_60"])
def test_every_row_runs(target: str) -> None:
    lines = [
        *(f"    setp.eq.u32 %p{i}, %r7, {i};" for i in range(4)),
        *(f"    mov.b16 %h{i}, {i};\n    cvt.u8.u16 %b{i}, %h{i};" for i in range(4)),
        *(f"    mov.b32 %r{i}, {i};\n    mov.b64 %rd{i}, {i};" for i in range(4)),
        *(f"    mov.b128 %q{i}, {{%rd{i}, %rd0}};" for i in range(4)),
        "    add.cc.u32 %r10, %r7, %r7;",
        *(f"    {instruction(row)}" for row in ROWS if bool(row.until) is (target == "sm_60")),
    ]
    registers = "    .reg .b16 %h<16>;\n    .reg .b8 %b<16>;\n    .reg .b128 %q<16>;"
    ptx = kernel("\n".join(lines), image_bytes=8, registers=registers, target=target)
    image = np.arange(16, dtype=np.uint8).reshape(2, 8)
    after, _ = DEVICE.load(ptx).launch("kernel", image)
    np.testing.assert_array_equal(after, image)
