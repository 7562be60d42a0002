"""Programs of one multiplication or ldmatrix, and findings of planted faults on them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus import Entry, Origin, ShrinkStatus, create_corpus
from fuzz.findings.case import Evidence, case_of, files_of
from fuzz.findings.families import Bucket
from fuzz.findings.verdicts import Subject, attempt
from fuzz.runner import RunnerChoice, opened
from oracle.isa.forms import Form
from oracle.isa.lookup import ACCESS_FORMS, MMA_FORMS, mma_form
from oracle.isa.targets import Module, parse_target
from oracle.program.operands import Buffer, Operation, Place
from oracle.program.operations import Elementwise
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, Op, Step, plain_store
from runners.emission import emit
from strategies.contents import Recipe, ValueClass, expand

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
VALUED = tuple(form for form in MMA_FORMS if not (form.satfinite and form.d_type.is_float))
"""The forms whose results are documented (9.7.14.4.5)."""
HALF = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"


def multiplication(
    form: Form, *, d_layout: str = "row", changes: tuple[Operation, ...] = (), times: int = 1
) -> Program:
    """Load a, b and c, multiply (again and again, on the same accumulator), store d."""
    layouts = {"a": form.a_layout, "b": form.b_layout, "c": "row", "d": d_layout}
    buffers = []
    steps: list[Step] = []
    for operand, layout in layouts.items():
        matrix = form.matrix(operand)
        size = matrix.rows * matrix.columns * matrix.type.bits // 8
        buffers.append(Buffer(name=f"g{operand}", space="global", size=size + 32))
        if operand != "d":
            load = ACCESS_FORMS[matrix, layout, "global"]
            steps.append(Op.of(form=load, fragment=operand, place=Place(buffer=f"g{operand}")))
    c = "c"
    for _ in range(times):
        steps.append(Op.of(form=form, d="d", a="a", b="b", c=c))
        c = "d"
    steps += [
        Elementwise(operation=operation, matrix=form.matrix("d"), source="d", destination="d")
        for operation in changes
    ]
    store = ACCESS_FORMS[form.matrix("d"), d_layout, "global"]
    steps.append(Op.of(form=store, fragment="d", place=Place(buffer="gd")))
    return Program(buffers=tuple(buffers), steps=tuple(steps))


def row_load(form: Form) -> Program:
    """Copy rows to shared memory, ldmatrix, store the registers."""
    addresses = tuple(16 * (5 * lane % 32) for lane in range(32))
    return Program(
        buffers=(
            Buffer(name="rows", space="global", size=512),
            Buffer(name="tile", space="shared", size=512),
            Buffer(name="out", space="global", size=128 * form.registers),
        ),
        steps=(
            Copy(source=Place(buffer="rows"), destination=Place(buffer="tile"), size=512),
            Barrier(),
            Op.of(form=form, registers="r", buffer="tile", addresses=addresses),
            plain_store(registers="r", count=form.registers, place=Place(buffer="out")),
        ),
    )


def contents(program: Program, count: int, *, seed: int = 1) -> np.ndarray[Any, Any]:
    """Return images with random bits in their matrices."""
    images = expand(Recipe(classes=(ValueClass.NORMAL, ValueClass.BITS), seed=seed), program, count)
    for buffer in program.buffers:
        if buffer.name == "rows":
            some = np.random.default_rng(seed).integers(0, 256, (count, buffer.size), np.uint8)
            start = program.offset(buffer.name)
            images[:, start : start + buffer.size] = some
    return images


def stored(
    folder: Path,
    program: Program,
    *,
    target: str = "sm_90",
    seed: int = 1,
    image: np.ndarray[Any, Any] | None = None,
    **planted: Any,
) -> Entry:
    """Run images with something planted, and store the first that comes out wrong."""
    corpus = create_corpus(folder, generator="test")
    version = max("8.0", str(parse_target(target).since), key=lambda text: float(text))
    module = emit(program, module=Module.named(target, version))
    images = contents(program, 64, seed=seed) if image is None else image[None]
    choice = RunnerChoice(name="sim", target=target, ptx_version=version, **planted)
    with opened(choice) as ready:
        for number, one in enumerate(images):
            subject = Subject(module=module, program=program, image=one)
            first = attempt(ready.runner, subject)
            if first.kind is None:
                continue
            evidence = Evidence(
                kind=first.kind,
                bucket=Bucket.of(first.kind, "a test's finding"),
                subject=subject,
                attempts=[first],
            )
            origin = Origin(seed=seed, round=0, image=number)
            case = case_of(evidence, ready, origin=origin, status=ShrinkStatus.RAW)
            return corpus.get(corpus.add(case, files_of(evidence)).id)
    raise AssertionError(f"no image of {len(images)} comes out wrong with {planted}")


def half() -> Form:
    """Return the form that most is known of."""
    return mma_form(HALF)


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int
    out: str


def ended(command: list[object], cwd: Path | None = None, **environment: str) -> Ended:
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **environment},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ended(done.returncode, done.stdout + done.stderr)


def by_python(folder: Path, *options: object, **environment: str) -> Ended:
    """Run repro.py where PyCUDA is a stand-in on the simulated device."""
    path = os.pathsep.join((str(HERE / "fakes"), str(ROOT)))
    return ended([sys.executable, folder / "repro.py", *options], PYTHONPATH=path, **environment)


def c_program(folder: Path, into: Path) -> Path:
    """Compile repro.cu against a stand-in for the CUDA driver."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed, so that repro.cu cannot be compiled")
    flags = ["-std=c++14", "-Wall", "-Wextra", "-Werror", "-I", HERE / "cuda_stub", "-x", "c++"]
    made = ended([compiler, *flags, folder / "repro.cu", "-o", into / "program"])
    assert made.code == 0, made.out
    return into / "program"


def in_c(program: Path, folder: Path, result: Path, *options: object, **more: str) -> Ended:
    return ended([program, *options], cwd=folder, FAKE_RESULT=str(result), **more)
