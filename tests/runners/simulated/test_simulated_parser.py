"""What the simulated device reads, and how it refuses the rest: by line."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_kernels import VARIANTS, kernel, multiplication

from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.parser import parse
from runners.simulated.syntax import Address, ImmediateText, Name, VectorText

DEVICE = SimulatedDevice("sm_90")


def refused(ptx: str) -> SimulatedTrap:
    with pytest.raises(SimulatedTrap) as caught:
        DEVICE.load(ptx)
    assert caught.value.trap.kind.at_load
    return caught.value


def with_line(line: str, registers: str = "") -> tuple[str, int]:
    """Return a kernel with this line, and the line's number."""
    ptx = kernel(line, image_bytes=64, registers=registers)
    return ptx, ptx.splitlines().index(line) + 1


def test_operands_are_read_as_registers_constants_vectors_and_addresses() -> None:
    ptx, number = with_line("    st.shared.v2.b32 [%rd1+-16], {%r1, 0x10U};")
    (found,) = [each for each in parse(ptx).entries["kernel"].body if each.line == number]
    assert found.operands == (
        Address(base="%rd1", offset=-16),
        VectorText(parts=(Name(text="%r1"), ImmediateText(value=16))),
    )


def test_floating_point_constants_carry_their_bits() -> None:
    ptx, number = with_line("    mov.f32 %x, 0f3F800000;", "    .reg .f32 %x;")
    (found,) = [each for each in parse(ptx).entries["kernel"].body if each.line == number]
    assert found.operands[1] == ImmediateText(value=0x3F800000, float_bits=32)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("17 % 5", 2), ("1 + 2 * 3 << 1 | 1", 15), ("1 > 2 ? 3 : 4", 4),
        # A quotient has a sign, and a remainder has none: what ptxas 13.5 stores, 2026-11-23.
        ("(-7) / 2", -3), ("7 / (-2)", -3), ("(-7) / (-2)", 3), ("0 / (-5)", 0),
        ("(-7) % 2", 1), ("7 % (-2)", 7), ("(-7) % (-2)", -7), ("(-9) % 5", 2),
    ],
)  # fmt: skip
def test_constant_expressions_have_the_operators_of_c(expression: str, value: int) -> None:
    ptx, number = with_line(f"    mov.u32 %r1, {expression};")
    (found,) = [each for each in parse(ptx).entries["kernel"].body if each.line == number]
    assert found.operands[1] == ImmediateText(value=value)


def test_addresses_have_64_bits_where_nothing_is_said() -> None:
    body = """
    .pragma "nounroll";
    createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd9, 0.5;
    ld.global.L2::cache_hint.u32 %r9, [%rd2], %rd9;
    vsub4.u32.u32.u32 %r9, %r9, %r7, %r9;
    st.global.u32 [%rd2], %r9;
    """
    whole = kernel(body, image_bytes=4).replace("\n)\n{", "\n)\n.maxnreg 32\n{")
    images = np.arange(8, dtype=np.uint8).reshape(2, 4)
    results = [
        DEVICE.load(ptx).launch("kernel", images)[0]
        for ptx in (whole, whole.replace(".address_size 64\n", ""))
    ]
    assert ".maxnreg" in whole
    np.testing.assert_array_equal(*results)
    # The last lane's store remains: each byte minus that of 31.
    np.testing.assert_array_equal(results[0][:, 0], images[:, 0] - np.uint8(31))


def test_a_module_may_hold_many_entries() -> None:
    one = multiplication(VARIANTS[0]).ptx
    body = one[one.index(".visible") :]
    two = one + body.replace("kernel(", "other(")
    assert set(DEVICE.load(two).kernels) == {"kernel", "other"}


def test_the_same_text_is_parsed_once() -> None:
    ptx = multiplication(VARIANTS[0]).ptx
    assert parse(ptx) is parse(str(ptx))


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("    mov.u32 %r1 %r2;", TrapKind.PARSE),
        ("T: .branchtargets; brx.idx %r1, T;", TrapKind.PARSE),
        ("    mov.u32 %r1, ^;", TrapKind.PARSE),
        ("    mov.u32 %nobody, 1;", TrapKind.PARSE),
        ("    bra NOWHERE;", TrapKind.PARSE),
        ("    @%r1 bra GO;", TrapKind.PARSE),
        ("    .reg .b32 %r1;", TrapKind.PARSE),
        ("    frobnicate.u32 %r1, %r2;", TrapKind.UNSUPPORTED),
        ("    mov.u32 %rd1, 1;", TrapKind.UNSUPPORTED),
        ("    add.u32 %r1, %r2;", TrapKind.UNSUPPORTED),
        ("    mov.u32 1, %r1;", TrapKind.UNSUPPORTED),
        ("    tex.1d.v2.f32.s32 {%r1, %r2}, [%rd2, {%r1}];", TrapKind.UNSUPPORTED),
        ("    ld.global.b32 %r1, [%r2];", TrapKind.UNSUPPORTED),
        ("    fma.f32 %r1, %r1, %r1, %r1;", TrapKind.UNSUPPORTED),
        ("    mul.rz.f16x2 %r1, %r1, %r1;", TrapKind.UNSUPPORTED),
        ("    ld.param.u64 %rd1, [elsewhere];", TrapKind.PARSE),
        ("    wmma.load.a.sync.row.m16n16k16.f64 {%r1}, [%rd2];", TrapKind.UNSUPPORTED),
        ("    wmma.load.a.sync.row.m8n8k32.s4 {%r1}, [%rd2];", TrapKind.ILLEGAL),
        ("    wmma.load.a.sync.aligned.col.m8n8k32.s4 {%r1}, [%rd2];", TrapKind.UNSUPPORTED),
        ("    wmma.load.a.sync.aligned.row.m8n8k32.s4 {%r1, %r2}, [%rd2];", TrapKind.UNSUPPORTED),
        ("    ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r1}, [%rd2];", TrapKind.UNSUPPORTED),
        ("    ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r1}, [%rd2];", TrapKind.UNSUPPORTED),
        ("    ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%rd2];",
         TrapKind.ILLEGAL),
    ],
)  # fmt: skip
def test_a_bad_line_is_refused_by_its_number(line: str, kind: TrapKind) -> None:
    ptx, number = with_line(line)
    trap = refused(ptx).trap
    assert (trap.kind, trap.line) == (kind, number)


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", ".version 8.0\n.address_size 64\n", ".version 8.0\n.target sm_90\n.entry k"],
)
def test_text_that_is_no_module_is_a_parse_error(text: str) -> None:
    assert refused(text).trap.kind is TrapKind.PARSE


def test_a_line_that_stands_twice_as_label_or_entry_is_refused() -> None:
    ptx = kernel("GO:", image_bytes=64)
    assert "GO" in str(refused(ptx))
    assert "twice" in str(refused(ptx.replace("GO:", "", 1) + ptx[ptx.index(".visible") :]))


def test_thirty_two_bit_modules_are_refused() -> None:
    ptx = multiplication(VARIANTS[0]).ptx.replace(".address_size 64", ".address_size 32")
    assert refused(ptx).trap.kind is TrapKind.UNSUPPORTED


@given(st.integers(0, 40), st.sampled_from(["delete", "double", "truncate"]), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_damaged_text_is_refused_or_loaded_but_never_crashes(
    line: int, damage: str, column: int
) -> None:
    lines = multiplication(VARIANTS[5]).ptx.splitlines()
    text = lines[line % len(lines)]
    lines[line % len(lines)] = {"delete": "", "double": text + text, "truncate": text[:column]}[
        damage
    ]
    kinds: list[TrapKind] = []
    try:
        DEVICE.load("\n".join(lines))
    except SimulatedTrap as caught:
        kinds.append(caught.trap.kind)
    assert all(kind.at_load for kind in kinds)


@given(st.text(max_size=100))
@settings(max_examples=50, deadline=None)
def test_any_text_is_refused_by_a_trap(text: str) -> None:
    refused(text)


DOCUMENTED_TARGETS = [
    ("f16", "sm_70", None),
    ("s8", "sm_72", "sm_70"),
    ("u8", "sm_72", "sm_70"),
    ("s4", "sm_75", "sm_72"),
    ("u4", "sm_75", "sm_72"),
    ("b1", "sm_75", "sm_72"),
    ("bf16", "sm_80", "sm_75"),
    ("tf32", "sm_80", "sm_75"),
    ("f64", "sm_80", "sm_75"),
]


@pytest.mark.parametrize(("kind", "first", "before"), DOCUMENTED_TARGETS)
def test_types_need_the_targets_of_the_page(kind: str, first: str, before: str | None) -> None:
    form = next(each for each in VARIANTS if each.a_type.name == kind)
    assert SimulatedDevice(first).load(multiplication(form, target=first).ptx)
    if before is not None:
        trap = refused(multiplication(form, target=before).ptx).trap
        assert trap.kind is TrapKind.ILLEGAL
        assert first in trap.message


def test_single_bit_and_needs_sm_80() -> None:
    form = next(each for each in VARIANTS if each.op == "and")
    assert refused(multiplication(form, target="sm_75").ptx).trap.kind is TrapKind.ILLEGAL


@pytest.mark.parametrize(
    ("device", "module", "runs"),
    [
        ("sm_90", "sm_70", True),
        ("sm_75", "sm_80", False),
        ("sm_100", "sm_100a", True),
        ("sm_120", "sm_100a", False),
        ("sm_103", "sm_100f", True),
        ("sm_120", "sm_100f", False),
        ("sm_101", "sm_110a", True),
        ("sm_100", "sm_103f", False),
    ],
)
def test_a_device_runs_the_targets_that_the_isa_lets_it_run(
    device: str, module: str, runs: bool
) -> None:
    ptx = kernel("", image_bytes=64, target=module)
    if runs:
        SimulatedDevice(device).load(ptx)
    else:
        with pytest.raises(SimulatedTrap, match="does not run on"):
            SimulatedDevice(device).load(ptx)


@pytest.mark.parametrize("version", ["6.0", "6.2", "6.3"])
def test_aligned_may_be_left_out_before_version_6_3_only(version: str) -> None:
    text = multiplication(VARIANTS[0], target="sm_70").ptx
    ptx = text.replace(".aligned", "").replace("8.6", version)
    if version == "6.3":
        assert "6.3" in refused(ptx).trap.message
    else:
        assert DEVICE.load(ptx)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("    mov.u32 %r1, 0189;", "'0189' is no integer constant"),
        ("    mov.u32 %r1, 0b12;", "'0b12' is no integer constant"),
        ("    mov.u32 %r1, " + "9" * 5000 + ";", "is no integer constant"),
        ("    mov.u64 %rd1, 0x1ffffffffffffffff;", "up to 64 bits"),
        ("    mov.u32 %r1, 1/0;", "divides by zero"),
        ("TARGETS: .branchtargets 077A, GO;", "'077A' is no integer constant"),
        ("    mov.u32 %r1, " + "(" * 2000 + "1" + ")" * 2000 + ";", "too deep"),
        ("    " + "{" * 2000 + "}" * 2000, "braces are too deep"),
        ("    .reg .b32 %many<4000000000>;", "registers"),
        ("    .shared .b8 huge[10000000000];", ""),
        ("    .shared .b8 huge[10000000000]; mov.u32 %r1, huge;", "bytes of shared memory"),
        ("    .local .b8 huge[10000000000];", "local memory"),
        ("    frobnicate.u32 %r1, %r2;", "frobnicate.u32 is not known to the simulated device"),
        ("    call nobody;", "there is no function nobody"),
    ],
)  # fmt: skip
def test_what_is_too_much_ends_in_a_sentence(line: str, said: str) -> None:
    ptx, number = with_line(line)
    if not said:
        DEVICE.load(ptx)  # what nobody uses takes no place
        return
    trap = refused(ptx).trap
    assert trap.line == number
    assert said in trap.message
    assert len(str(trap)) < 300


def test_a_function_that_calls_itself_is_unsupported() -> None:
    ptx, number = with_line("    call again;")
    ptx = ptx.replace(".visible", ".func again() {\n call again;\n ret;\n}\n.visible", 1)
    trap = refused(ptx).trap
    assert trap.kind is TrapKind.UNSUPPORTED
    assert "calls itself" in trap.message
    assert trap.line < number


def test_one_unsupported_kernel_takes_none_of_the_others_with_it() -> None:
    ptx, _ = with_line("    tex.1d.v4.f32.s32 {%r1, %r1, %r1, %r1}, [%rd1, {%r1}];")
    assert "tex.1d.v4.f32.s32 is not known" in refused(ptx).trap.message
    right, _ = with_line("")
    both = ptx + right[right.index(".visible") :].replace("kernel(", "other(")
    module, images = DEVICE.load(both), np.zeros((1, 64), np.uint8)
    module.launch("other", images)
    with pytest.raises(SimulatedTrap) as caught:
        module.launch("kernel", images)
    assert caught.value.trap.kind is TrapKind.UNSUPPORTED
