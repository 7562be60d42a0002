"""Operands that share registers, in PTX written by hand: sources are read before results are.

The values are those of the oracle's functions, which know nothing of registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray
from simulated_kernels import kernel

import oracle
from oracle.isa import FORMS
from runners.simulated import SimulatedDevice

DEVICE = SimulatedDevice("sm_90")

WMMA = (  # opcode, registers of D, A, B and C; 64 bits each for f64
    ("wmma.mma.sync.aligned.row.row.m16n16k16.f16.f16", 4, 8, 8, 4),
    ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", 8, 8, 8, 8),
    ("wmma.mma.sync.aligned.row.col.m8n32k16.f32.f16", 8, 8, 8, 4),
    ("wmma.mma.sync.aligned.col.row.m16n16k16.f32.bf16.bf16.f32", 8, 4, 4, 8),
    ("wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32", 8, 4, 4, 8),
    ("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32", 8, 2, 2, 8),
    ("wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32", 2, 1, 1, 2),
    ("wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32", 2, 1, 1, 2),
    ("wmma.mma.sync.aligned.row.col.m8n8k4.rn.f64.f64.f64.f64", 2, 1, 1, 2),
)
LANES = (
    ("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", 2, 2, 1, 2),
    ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 2, 4, 2, 2),
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 4, 2, 4),
    ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", 8, 2, 2, 8),
    ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 4, 2, 4),
    ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, 4, 2, 4),
    ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 4, 2, 4),
    ("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32", 4, 4, 2, 4),
    ("mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32", 4, 2, 1, 4),
    ("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 4, 2, 1, 4),
    ("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32.satfinite".replace(
        ".s32.u8.u8.s32.satfinite", ".satfinite.s32.u8.u8.s32"), 4, 4, 2, 4),
    ("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32", 2, 1, 1, 2),
    ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", 4, 4, 2, 4),
    ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", 4, 4, 2, 4),
    ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 2, 1, 1, 2),
    ("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64", 4, 4, 2, 4),
)  # fmt: skip

Vectors = dict[str, list[int]]
Way = Callable[[Vectors], Mapping[str, list[int]]]


def _over(*wanted: int, own: list[int]) -> list[int]:
    """Return a vector that begins with some registers and goes on with its own."""
    found = list(dict.fromkeys(wanted))[: len(own)]
    return found + own[: len(own) - len(found)]


def _swapped(vector: list[int]) -> list[int]:
    return [
        vector[index ^ 1] if index ^ 1 < len(vector) else one for index, one in enumerate(vector)
    ]


def _d(vector: Callable[[Vectors], list[int]]) -> Way:
    return lambda at: {"d": _over(*vector(at), own=at["d"])}


WAYS: Mapping[str, Way] = {
    "apart": lambda at: {},
    "d = c": _d(lambda at: at["c"]),
    "c reversed": _d(lambda at: at["c"][::-1]),
    "c in swapped pairs": _d(lambda at: _swapped(at["c"])),
    "c rotated": _d(lambda at: at["c"][1:] + at["c"][:1]),
    "one register of c": lambda at: {"c": at["c"][:1] * len(at["c"])},
    "one register of c, and of d": lambda at: {
        "c": at["c"][:1] * len(at["c"]), "d": _over(at["c"][0], own=at["d"]),
    },
    "c repeats pairs": lambda at: {"c": [at["c"][index & ~1] for index in range(len(at["c"]))]},
    "c = d's second half": _d(lambda at: at["c"][len(at["c"]) // 2 :]),
    "c's first half in place": _d(lambda at: at["c"][: len(at["c"]) // 2]),
    "c's first half behind": lambda at: {
        "d": (at["d"] + at["c"][: len(at["c"]) // 2])[-len(at["d"]) :],
    },
    "d over a": _d(lambda at: at["a"]),
    "d over a reversed": _d(lambda at: at["a"][::-1]),
    "d over half of a": _d(lambda at: at["a"][len(at["a"]) // 2 :]),
    "d over b": _d(lambda at: at["b"]),
    "d over a and b": _d(
        lambda at: [one for pair in zip(at["a"], at["b"], strict=False) for one in pair]
    ),
    "d over all": _d(lambda at: [at["c"][-1], at["a"][0], at["b"][-1], at["c"][0]]),
    "a = b": lambda at: {"b": at["a"][: len(at["b"])]},
    "a and b interleaved": lambda at: {
        "a": sorted(at["a"] + at["b"])[::2][: len(at["a"])] + at["a"][
            len(sorted(at["a"] + at["b"])[::2]) :
        ],
    } if len(at["a"]) == len(at["b"]) else {"a": at["a"][::-1]},
}  # fmt: skip


def _module(opcode: str, at: Vectors, *, bits: int, count: int) -> str:
    """Return a module that loads every register, takes the instruction, and stores them all."""
    size = bits // 8
    declared = f".reg .b{bits} %x<{count}>;"
    lines = [f"mul.wide.u32 %rd6, %r7, {size};", "add.s64 %rd6, %rd6, %rd2;"]
    lines += [f"ld.global.b{bits} %x{one}, [%rd6+{32 * size * one}];" for one in range(count)]
    vectors = ("{" + ", ".join(f"%x{one}" for one in at[name]) + "}" for name in "dabc")
    lines += [f"{opcode} {', '.join(vectors)};"]
    lines += [f"st.global.b{bits} [%rd6+{32 * size * one}], %x{one};" for one in range(count)]
    return kernel(
        "\n".join(lines), registers=declared, image_bytes=32 * size * count, version="8.7"
    )


def _at(way: Way, d: int, a: int, b: int, c: int) -> tuple[Vectors, int]:
    ends = np.cumsum([0, d, a, b, c]).tolist()
    at = {name: [*range(*ends[index : index + 2])] for index, name in enumerate("dabc")}
    return {**at, **way(at)}, ends[-1]


def _left(
    before: NDArray[np.uint32], at: Vectors, results: list[NDArray[np.uint32]]
) -> NDArray[np.uint32]:
    """Return all registers (registers, 32, words) behind the instruction."""
    after = before.copy()
    for number, result in zip(at["d"], results, strict=True):
        after[number] = result
    return after


def _ran(opcode: str, at: Vectors, before: NDArray[np.uint32]) -> NDArray[np.uint32]:
    count, _, words = before.shape
    ptx = _module(opcode, at, bits=32 * words, count=count)
    image = before.view(np.uint8).reshape(1, -1)
    after, _ = DEVICE.load(ptx).launch("kernel", image)
    return after.reshape(-1).view(np.uint32).reshape(before.shape)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("row", LANES, ids=lambda row: row[0][17:])
def test_mma_sync_reads_its_sources_first(row: tuple[str, int, int, int, int], way: str) -> None:
    opcode, *sizes = row
    at, count = _at(WAYS[way], *sizes)
    words = 2 if ".f64" in opcode else 1
    random = np.random.default_rng([*map(ord, opcode), len(way)])
    before = random.integers(0, 1 << 32, (count, 32, words), np.uint64).astype(np.uint32)
    if words == 2:  # numbers of which sums are exact
        before = random.integers(-9, 9, (count, 32)).astype(np.float64).view(np.uint32)
        before = before.reshape(count, 32, 2)
    operands = (before[at[name]].transpose(1, 0, 2).reshape(32, -1) for name in "abc")
    d = oracle.mma_sync(opcode, *(operand[None] for operand in operands))[0]
    results = [*d.reshape(32, sizes[0], words).transpose(1, 0, 2)]
    np.testing.assert_array_equal(_ran(opcode, at, before), _left(before, at, results))


ONE = {"f16": 0x3C00, "bf16": 0x3F80, "tf32": 0x3F800000, "f32": 0x3F800000, "f64": 0x3FF0 << 48}
BITS = {"f16": 16, "bf16": 16, "s8": 8, "s4": 4, "b1": 1, "f64": 64}
DTYPES = {
    "f16": np.uint16, "bf16": np.uint16, "tf32": np.uint32, "f32": np.uint32, "f64": np.uint64,
    "s8": np.int8, "s4": np.int8, "b1": np.uint8, "s32": np.int32,
}  # fmt: skip


def _types(opcode: str) -> tuple[str, str, str]:
    """Return the types of the multiplicands, of C and of D."""
    named = re.findall(r"\.(f16|bf16|tf32|f32|f64|s8|s4|b1|s32)(?=\.|$)", opcode)
    return ("f16", named[1], named[0]) if len(named) == 2 else (named[1], named[3], named[0])


def _element(type_: str, number: int) -> int:
    if type_ in ONE:
        return ONE[type_] + (number << {"f16": 7, "bf16": 4, "f64": 49}.get(type_, 20))
    return 1 if type_ == "b1" else number


def _register(type_: str, element: int) -> int:
    bits = BITS.get(type_, 32)
    return sum(element << shift for shift in range(0, 64 if type_ == "f64" else 32, bits))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("row", WMMA, ids=lambda row: row[0][9:])
def test_wmma_reads_its_sources_first(row: tuple[str, int, int, int, int], way: str) -> None:
    """Every lane has the same registers, and these equal elements: no layout matters."""
    opcode, *sizes = row
    at, count = _at(WAYS[way], *sizes)
    multiplicand, c_type, d_type = _types(opcode)
    words = 2 if multiplicand == "f64" else 1
    m, n, k = map(int, re.findall(r"m(\d+)n(\d+)k(\d+)", opcode)[0])
    factor = _element(multiplicand, 1)
    addends = {number: _element(c_type, index) for index, number in enumerate(at["c"])}
    held = np.zeros(count, np.uint64)
    held[at["a"] + at["b"]] = _register(multiplicand, factor)
    for number, element in addends.items():
        held[number] = _register(c_type, element)
    before = np.repeat(held.view(np.uint32).reshape(count, 1, 2)[..., :words], 32, axis=1)
    results = []
    for number in [*at["c"], *at["c"]][: sizes[0]]:
        a, b, c = (
            np.full(shape, element, DTYPES[type_])
            for shape, element, type_ in (
                ((m, k), factor, multiplicand), ((k, n), factor, multiplicand),
                ((m, n), addends[number], c_type),
            )
        )  # fmt: skip
        element = int(oracle.mma(opcode, a, b, c).reshape(-1)[0])
        bits = np.array([_register(d_type, element)], np.uint64).view(np.uint32)[:words]
        results.append(np.tile(bits, (32, 1)))
    if sizes[0] != sizes[3]:  # which elements of C a register of D has is open
        addend = next(iter(addends.values()))
        before[at["c"]] = np.array(_register(c_type, addend), np.uint32)
        results = results[:1] * sizes[0]
    np.testing.assert_array_equal(_ran(opcode, at, before), _left(before, at, results))


ROWS = 512
"""Bytes of shared memory that the moves below read and write."""


def _moved(body: str, image: NDArray[np.uint8], *, bits: int = 32) -> NDArray[np.uint8]:
    """Return an image after a body that has it in shared memory, in words, and back."""
    before = [
        f".reg .b{bits} %x<8>; .reg .b32 %near, %word; .reg .b64 %own;",
        f".shared .align 16 .b8 room[{len(image)}];",
        "mov.u64 %rd7, room; cvt.u32.u64 %near, %rd7;",
        "mul.wide.u32 %own, %r7, 4; add.s64 %rd6, %rd2, %own; add.s64 %rd8, %rd7, %own;",
    ]
    after = ["bar.warp.sync 0xffffffff;"]
    for start in range(0, len(image), 128):
        before.append(f"ld.global.b32 %word, [%rd6+{start}]; st.shared.b32 [%rd8+{start}], %word;")
        after.append(f"ld.shared.b32 %word, [%rd8+{start}]; st.global.b32 [%rd6+{start}], %word;")
    lines = [*before, "bar.warp.sync 0xffffffff;", body, *after]
    ptx = kernel("\n".join(lines), image_bytes=len(image), version="8.7")
    found, _ = DEVICE.load(ptx).launch("kernel", image[None])
    return found[0]


def _noise(size: int) -> NDArray[np.uint8]:
    return np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)


def _stored(count: int, *, bits: int = 32) -> str:
    """Return text that stores a lane's registers behind the rows."""
    size = bits // 8
    lines = [f"mul.wide.u32 %rd9, %r7, {size * count}; add.s64 %rd9, %rd9, %rd7;"]
    lines += [f"st.shared.b{bits} [%rd9+{ROWS + size * one}], %x{one};" for one in range(count)]
    return "\n".join(lines)


@pytest.mark.parametrize("number", range(4))
def test_ldmatrix_reads_all_addresses_before_it_writes_one(number: int) -> None:
    opcode = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
    image = _noise(2 * ROWS)
    addresses = (np.arange(32) * 80 % ROWS).astype(np.uint32)
    body = (
        f"mul.lo.u32 %x{number}, %r7, 80; and.b32 %x{number}, %x{number}, {ROWS - 1};\n"
        f"add.u32 %x{number}, %x{number}, %near;\n"
        f"{opcode} {{%x0, %x1, %x2, %x3}}, [%x{number}];\n{_stored(4)}"
    )
    registers = oracle.ldmatrix(opcode, image[None, :ROWS], addresses[None])[0]
    np.testing.assert_array_equal(_moved(body, image)[ROWS:], registers.view(np.uint8).reshape(-1))


def test_a_store_of_rows_takes_a_register_as_often_as_it_is_listed() -> None:
    shape = "sync.aligned.m8n8.x4.trans.shared.b16"
    (form,) = (one for one in FORMS if one.is_store and one.opcode.endswith(shape))
    opcode, stored = form.opcode, getattr(oracle, form.mnemonic)
    image = _noise(2 * ROWS)
    loads = "\n".join(f"ld.shared.b32 %x{one}, [%rd8+{ROWS + 128 * one}];" for one in range(2))
    body = (
        f"{loads}\nshl.b32 %x4, %r7, 4; add.u32 %x4, %x4, %near;\n"
        f"{opcode} [%x4], {{%x1, %x0, %x1, %x1}};"
    )
    words = image[ROWS:].view(np.uint32).reshape(4, 32)
    registers = np.ascontiguousarray(words[[1, 0, 1, 1]].T)
    addresses = np.arange(0, ROWS, 16, dtype=np.uint32)
    expected = stored(opcode, image[None, :ROWS], addresses[None], registers[None])
    np.testing.assert_array_equal(_moved(body, image)[:ROWS], expected[0])


def test_movmatrix_reads_all_lanes_before_it_writes_one() -> None:
    opcode = "movmatrix.sync.aligned.m8n8.trans.b16"
    image = _noise(2 * ROWS)
    body = f"ld.shared.b32 %x0, [%rd8];\n{opcode} %x0, %x0;\nst.shared.b32 [%rd8+{ROWS}], %x0;"
    registers = image[:128].view(np.uint32).reshape(1, 32, 1)
    expected = oracle.movmatrix(opcode, registers).view(np.uint8).reshape(-1)
    np.testing.assert_array_equal(_moved(body, image)[ROWS : ROWS + 128], expected)


@pytest.mark.parametrize(
    ("instruction", "bits", "address"),
    [
        ("ld.shared.v4.b32 {%x0, %x1, %x2, %x3}, [%x2];", 32, "add.u32 %x2, %near, 16;"),
        ("ld.shared.v2.b64 {%x0, %x1}, [%x0];", 64, "add.u64 %x0, %rd7, 16;"),
    ],
)
def test_a_load_may_overwrite_its_address(instruction: str, bits: int, address: str) -> None:
    image = _noise(2 * ROWS)
    count = 4 if bits == 32 else 2
    found = _moved(f"{address}\n{instruction}\n{_stored(count, bits=bits)}", image, bits=bits)
    np.testing.assert_array_equal(found[ROWS:].reshape(32, 16), np.tile(image[16:32], (32, 1)))


@pytest.mark.parametrize(
    ("opcode", "bits", "count"),
    [
        ("wmma.load.a.sync.aligned.row.m16n16k16.shared.s8", 32, 2),
        ("wmma.load.c.sync.aligned.row.m8n8k4.shared.f64", 64, 2),
    ],
)
def test_wmma_load_may_overwrite_its_address(opcode: str, bits: int, count: int) -> None:
    image = _noise(2 * ROWS)
    own = "mov.u32 %x1, %near;" if bits == 32 else "mov.u64 %x1, %rd7;"
    apart = "{%x0, %x1}, [%rd7];"
    expected = _moved(f"{opcode} {apart}\n{_stored(count, bits=bits)}", image, bits=bits)
    found = _moved(
        f"{own}\n{opcode} {{%x0, %x1}}, [%x1];\n{_stored(count, bits=bits)}", image, bits=bits
    )
    np.testing.assert_array_equal(found, expected)
