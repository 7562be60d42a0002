"""Programs of one multiplication: load a, b, c, multiply, store d, in every form of access."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import Form, Format, Matrix
from oracle.isa.lookup import ACCESS_FORMS, MMA_FORMS
from oracle.layouts import Tile
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, Op, Step
from runners.protocol import Images

SPACES = ("global", "", "shared", "shared::cta", "generic shared")
"""Where the matrices lie and how they are addressed: "" is global memory through generic
addresses, "generic shared" shared memory through them."""
STRIDES = ("default", "immediate", "register")

# The 138 documented variants of the page; `.satfinite` on floats was removed in PTX ISA 6.5.
VARIANTS = tuple(form for form in MMA_FORMS if not (form.satfinite and form.d_type.is_float))


@dataclass(frozen=True, kw_only=True)
class Access:
    """How the matrices of a program are reached."""

    c_layout: str = "row"
    d_layout: str = "row"
    space: str = "global"
    stride: str = "default"
    padding: int = 0
    """How many alignment units longer than the default a stride is."""
    offset: int = 0
    """How many alignment units of bytes a matrix lies behind the start of its buffer."""
    in_instruction: bool = False
    """Whether that offset stands in the instruction."""
    page_alignment: bool = False
    """Whether shared memory is aligned no better than the page asks for."""


def _placed(matrix: Matrix, layout: str, access: Access) -> tuple[int, Tile]:
    """Return where one matrix lies in its buffer, and how.

    Each line starts at a multiple of the fragment's size, as 9.7.14.4.2 wants it, and in shared
    memory of at least 16 bytes: there sm_90 loads 8- and 4-byte fragments with LDSM, which raises
    "misaligned address" for rows that the page allows (H200, 2026-11-21; `test_whole_images.py`,
    docs/findings.md).
    """
    least = 16 if "shared" in access.space and not access.page_alignment else 1
    unit = max(least, matrix.fragment_bytes)
    stride = None if access.stride == "default" else matrix.default_stride(layout)
    if access.padding:
        elements = unit * 8 // matrix.type.bits
        lines = -(-matrix.default_stride(layout) // elements)
        stride = (lines + access.padding - 1) * elements
    return access.offset * unit, Tile(matrix=matrix, layout=layout, stride=stride)


def program(form: Form, access: Access) -> Program:
    """Return a program of one multiplication."""
    shared = "shared" in access.space
    space = "" if access.space == "generic shared" else access.space
    layouts = {"a": form.a_layout, "b": form.b_layout, "c": access.c_layout, "d": access.d_layout}
    placed = {name: _placed(form.matrix(name), layout, access) for name, layout in layouts.items()}
    # With a guard behind each matrix.
    sizes = {name: offset + tile.extent + 32 for name, (offset, tile) in placed.items()}
    buffers = [Buffer(name=f"g{name}", space="global", size=size) for name, size in sizes.items()]
    steps: list[Step] = []
    prefix = "g"
    if shared:
        prefix = "s"
        buffers += [
            Buffer(name=f"s{name}", space="shared", size=size) for name, size in sizes.items()
        ]
        steps += [_copy(f"g{name}", f"s{name}", size) for name, size in sizes.items()]
        steps.append(Barrier())
    for name, (offset, tile) in placed.items():
        if name == "d":
            steps.append(Op.of(form=form, d="d", a="a", b="b", c="c"))
        reached = Op.of(
            form=ACCESS_FORMS[tile.matrix, tile.layout, space],
            fragment=name,
            place=Place(buffer=prefix + name, offset=offset),
            stride=tile.stride,
            stride_in_register=access.stride == "register",
            immediate=offset if access.in_instruction else 0,
        )
        steps.append(reached)
    if shared:
        steps += [Barrier(), _copy("sd", "gd", sizes["d"])]
    return Program(buffers=tuple(buffers), steps=tuple(steps))


def _copy(source: str, destination: str, size: int) -> Copy:
    return Copy(source=Place(buffer=source), destination=Place(buffer=destination), size=size)


def accesses() -> Iterator[Access]:
    """Every way of reaching the matrices that the conformance suite tries."""
    for c_layout in ("row", "col"):
        for d_layout in ("row", "col"):
            for space in SPACES:
                for stride in STRIDES:
                    for padding, offset in ((0, 0), (1, 1), (3, 2)):
                        if stride == "default" and padding:
                            continue
                        yield Access(
                            c_layout=c_layout,
                            d_layout=d_layout,
                            space=space,
                            stride=stride,
                            padding=padding,
                            offset=offset,
                            in_instruction=offset == 2,
                        )


def contents(form: Form, access: Access, count: int, seed: int) -> tuple[Program, Images]:
    """Return the program and images: half random bits, half numbers of everyday size."""
    made = program(form, access)
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, made.image_bytes), np.uint8)
    for operand in "abcd":
        buffer = made.buffer(f"g{operand}")
        start = made.offset(buffer.name)
        everyday = _everyday(form.matrix(operand).type, (count // 2, buffer.size), rng)
        if everyday is not None:
            images[count // 2 :][: count // 2, start : start + buffer.size] = everyday
    return made, images


def _everyday(
    type_: Format, shape: tuple[int, int], rng: np.random.Generator
) -> NDArray[np.uint8] | None:
    """Return bytes that hold normally distributed numbers; None where bits are numbers."""
    if not type_.is_float:
        return None
    numbers = rng.standard_normal((shape[0], -(-shape[1] * 8 // type_.bits)))
    dtypes = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}
    raw = numbers.astype(dtypes.get(type_.name, np.float32))
    return np.ascontiguousarray(raw).view(np.uint8)[:, : shape[1]]
