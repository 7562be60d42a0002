"""Main loops of wgmma as CUTLASS and FlashAttention write them, from nvcc, judged as any kernel."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from fuzz.findings.launches import BufferRow, LaunchRows, Setup, setup_of
from fuzz.judging.reference import Left, Reference, guess, rounded
from runners.simulated import TrapKind

PTX, _ = rounded((Path(__file__).parent / "data" / "warpgroup_kernels.ptx").read_text())
REFERENCE = Reference(target="sm_90a")
BF16 = ml_dtypes.bfloat16
KERNELS = {
    "gemm": (128, [("f16", (64, 320)), ("f16", (16, 320)), ("f32", (64, 16))]),
    "attention": (
        256, [("bf16", (128, 64)), ("bf16", (96, 64)), ("bf16", (96, 64)), ("f32", (128, 16))]
    ),
    "pipelined": (256, [("f16", (5, 64, 64)), ("f16", (5, 16, 64)), ("f32", (64, 16))]),
}  # fmt: skip
"""Threads, and the types and shapes of what they read and, the last, write."""
DTYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(BF16), "f32": np.dtype(np.float32)}


def setup(name: str) -> Setup:
    block, matrices = KERNELS[name]
    arguments: dict[str, int | float | BufferRow] = {
        f"{name}_param_{at}": BufferRow(
            bytes=DTYPES[kind].itemsize * int(np.prod(shape)), type=kind
        )
        for at, (kind, shape) in enumerate(matrices)
    }
    if name == "pipelined":
        arguments["pipelined_param_3"] = 5
    return setup_of(
        PTX, LaunchRows(entry=name, grid=1, block=block, shared=64 << 10, arguments=arguments)
    )


def after(ptx: str, name: str) -> tuple[list[NDArray[np.float32]], NDArray[np.float32] | Left]:
    """Return small integers in the inputs, and what the kernel makes of them."""
    how, random = setup(name), np.random.default_rng(5)
    image, given = np.zeros(how.image_bytes, np.uint8), []
    places = [(how.offsets[name], row.bytes) for name, row in how.buffers.items()]
    for (at, size), (kind, shape) in zip(places, KERNELS[name][1], strict=True):
        given.append(random.integers(-3, 4, shape).astype(np.float32))
        image[at : at + size] = given[-1].astype(DTYPES[kind]).reshape(-1).view(np.uint8)
    came = REFERENCE.after(ptx, how, image)
    if isinstance(came, Left):
        return given, came
    start, size = places[-1]
    return given, came.image[start : start + size].view(np.float32).reshape(given[-1].shape)


INITIALISED = "fence.mbarrier_init.release.cluster;"


def test_either_fence_shows_the_async_proxy_what_is_initialised() -> None:
    """PTX ISA 9.7.9.25.2: what is accessed through two proxies needs a fence of these."""
    other = PTX.replace(INITIALISED, "fence.proxy.async.shared::cta;")
    assert np.array_equal(after(other, "pipelined")[1], after(PTX, "pipelined")[1])


def test_a_matrix_product_in_stages_is_that_of_numpy() -> None:
    (a, b, _), found = after(PTX, "gemm")
    assert not isinstance(found, Left), found.why
    assert np.array_equal(found, a @ b.T)


def test_two_products_with_one_in_registers_are_those_of_numpy() -> None:
    (q, k, v, _), found = after(PTX, "attention")
    assert not isinstance(found, Left), found.why
    weights = np.maximum(q @ k.T, 0).astype(BF16).astype(np.float32)
    assert np.array_equal(found, weights @ v[:, :16])


def test_a_warpgroup_multiplies_what_another_copies_in_bulk() -> None:
    """Tiles are copied as they lie: atoms of 8 rows of 8 elements, by rows of atoms."""
    (*given, _), found = after(PTX, "pipelined")
    assert not isinstance(found, Left), found.why
    a, b = (
        one.reshape(5, -1, 8, 8, 8).transpose(0, 1, 3, 2, 4).reshape(one.shape) for one in given
    )
    assert np.array_equal(found, np.einsum("tik,tjk->ij", a, b))


@pytest.mark.parametrize(
    ("name", "left_out", "said"),
    [
        ("gemm", "fence.proxy.async.shared::cta;", "written with no fence.proxy.async and barrier"),
        ("gemm", "bar.sync 	0;", "asynchronous copy|no common barrier|no fence.proxy.async"),
        ("attention", "wgmma.fence.sync.aligned;", "no wgmma.fence stands before"),
        ("attention", "wgmma.wait_group.sync.aligned 0;", "which nobody waited for"),
        ("pipelined", "bar.sync 	0;", "initialised by another thread"),
        ("pipelined", INITIALISED, "initialised with no fence.mbarrier_init or fence.proxy.async"),
        ("pipelined", "wgmma.wait_group.sync.aligned 0;", "a multiplication in flight reads"),
    ],
)
def test_a_kernel_without_what_orders_it_is_refused_with_the_line(
    name: str, left_out: str, said: str
) -> None:
    assert left_out in PTX
    _, found = after(PTX.replace(left_out, ""), name)
    assert isinstance(found, Left)
    assert found.kind is TrapKind.RACE
    assert re.search(rf"line \d+: race: .*(?:{said})", found.why)


def test_a_launch_is_guessed_with_all_that_a_block_may_have_of_shared_memory() -> None:
    how, said = guess(PTX, LaunchRows(entry="gemm"), REFERENCE.device)
    assert how.block == (128, 1, 1)
    assert how.shared == 227 << 10
    assert [row.type for row in how.buffers.values()] == ["f16", "f16", "f32"]
    assert any("of f16" in one for one in said)
