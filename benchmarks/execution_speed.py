"""How much slower executing a program is than the bare products in it.

Runs both on the same matrices in the same process and prints one JSON object per program:
images a second, and the time of the execution over that of the products. Usage:

    python benchmarks/execution_speed.py [--images N] [--repeats N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.execution.execution import execute
from oracle.execution.products import multiply
from oracle.isa.forms import Form, Matrix
from oracle.isa.lookup import ACCESS_FORMS, mma_form
from oracle.layouts import Tile, read
from oracle.models import model_for
from oracle.program.operands import Buffer, Place, Word
from oracle.program.program import Program
from oracle.program.steps import Branch, Op, Step

OPCODES = (
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16",
    "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32",
    "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64",
    "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32",
    "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
)
CHAIN = 4
"""Products of the longer programs, each adding to the last."""


def program(form: Form, products: int, *, branch: bool = False) -> Program:
    """Return a program that loads A, B and C, multiplies, and stores D."""
    layouts = {"a": form.a_layout, "b": form.b_layout, "c": "row"}
    buffers = [Buffer(name="control", space="global", size=4)]
    steps: list[Step] = []
    for operand, layout in layouts.items():
        matrix = form.matrix(operand)
        buffers.append(Buffer(name=operand, space="global", size=_bytes(matrix)))
        load = ACCESS_FORMS[matrix, layout, ""]
        steps.append(Op.of(form=load, fragment=operand, place=Place(buffer=operand)))
    first = Op.of(form=form, d="d", a="a", b="b", c="c")
    more = Op.of(form=form, d="d", a="a", b="b", c="d")
    steps.append(first)
    later: tuple[Step, ...] = (more,) * (products - 1)
    word = Word(place=Place(buffer="control"), mask=1)
    steps += [Branch(condition=word, then=later, otherwise=later)] if branch else later
    store = ACCESS_FORMS[form.matrix("d"), "row", ""]
    buffers.append(Buffer(name="d", space="global", size=_bytes(form.matrix("d"))))
    steps.append(Op.of(form=store, fragment="d", place=Place(buffer="d")))
    return Program(buffers=tuple(buffers), steps=tuple(steps))


def _bytes(matrix: Matrix) -> int:
    return matrix.rows * matrix.columns * matrix.type.bits // 8


def images(subject: Program, count: int) -> NDArray[np.uint8]:
    """Return images of random halfwords of moderate size as f16, and half of the control words."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((count, subject.image_bytes // 2), dtype=np.float32)
    return values.astype(np.float16).view(np.uint8)


def seconds(task: Callable[[], object], repeats: int) -> float:
    """Return the median time of a task."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def compare(form: Form, products: int, branch: bool, count: int, repeats: int) -> dict[str, Any]:
    """Time a program and its bare products."""
    subject = program(form, products, branch=branch)
    batch = images(subject, count)
    layouts = {"a": form.a_layout, "b": form.b_layout, "c": "row"}
    matrices = [
        np.ascontiguousarray(
            read(batch, subject.offset(o), Tile(matrix=form.matrix(o), layout=layout))
        )
        for o, layout in layouts.items()
    ]
    model = model_for("sm_90")

    def bare() -> None:
        a, b, c = matrices
        for _ in range(products):
            c = multiply(form, a, b, c, model=model)

    bare_time = seconds(bare, repeats)
    full_time = seconds(lambda: execute(subject, batch), repeats)
    return {
        "opcode": form.opcode,
        "products": products,
        "branch": branch,
        "images": count,
        "image_bytes": subject.image_bytes,
        "images_per_second": round(count / full_time),
        "execution_over_products": round(full_time / bare_time, 2),
    }


def main() -> None:
    """Run the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    forms = [mma_form(opcode) for opcode in OPCODES]
    for form in forms:
        print(json.dumps(compare(form, 1, False, options.images, options.repeats)))
    for branch in (False, True):
        print(json.dumps(compare(forms[0], CHAIN, branch, options.images, options.repeats)))


if __name__ == "__main__":
    main()
