"""Execution of programs on batches of images, by a target's model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.definedness import check_defined
from oracle.image import check_images
from oracle.models import NO_FIGURES, Confidence, Model, model_for, model_of, weakest
from oracle.places import Word
from oracle.program import Program, requirements
from oracle.steps import Branch, Loop, Step
from oracle.targets import DEFAULT_TARGET
from oracle.warps import Warps

CHUNK_IMAGES = 512
"""Images that go through a program together: as many as `oracle.multiply` computes at once."""

CHUNK_BYTES = 1 << 24
"""Most bytes of images that go through a program together: bounds copies of branches, fragments."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Expectation:
    """What the images of a batch hold after a program, by a target's model."""

    program: Program
    model: Model
    images: NDArray[np.uint8]
    """uint8 (count, image_bytes): every byte, those that no step writes included."""

    @cached_property
    def confidence(self) -> Confidence:
        """Least sure of the figures of the model that the program's results depend on."""
        forms = [form for form in requirements(self.program) if form.is_product]
        return weakest((Confidence.MEASURED, *(self.model.confidence_for(form) for form in forms)))


def execute(
    program: Program, images: NDArray[Any], *, target: str = DEFAULT_TARGET,
    model: Model | str | Path | None = None,
) -> Expectation:  # fmt: skip
    """Execute a program on images, uint8 (count, image_bytes), which are left as they are.

    `target`: Whose model computes the products: "sm_90", ...
    `model`: A model in place of the target's, or its file, TOML or JSON (`oracle.models.files`).
    Raises UsageError if the target is unknown or lacks a form, or the images have a wrong dtype or
    shape; UndefinedProgramError if the ISA leaves the program undefined.
    """
    check_defined(program, target=target)
    check_images(program, images)
    judge = model_of(target, model)
    result = np.array(images, order="C")
    for part in chunks(program, len(result)):
        run(program.steps, Warps(program, result[part], judge))
    return Expectation(program=program, model=judge, images=result)


def expansions(program: Program, *, target: str = DEFAULT_TARGET) -> tuple[str, ...]:
    """Say by which figures each multiplication of a program is expected, in their order.

    Those of one compiler ("12.4 to 12.6"), of all ("all"), or NO_FIGURES: then its results can be
    anything that the ISA permits. For targets that say the same, `execute` gives the same.
    """
    model = model_for(target)
    forms = [form for form in requirements(program) if form.is_product]
    return tuple(model.expansion_of(form) for form in forms)


def has_figures(program: Program, *, target: str = DEFAULT_TARGET) -> bool:
    """Whether there are figures of all multiplications in code of the compiler that is meant."""
    return NO_FIGURES not in expansions(program, target=target)


def chunks(program: Program, count: int) -> Iterator[slice]:
    """Cut a batch into slices that are worked on one after the other."""
    size = max(1, min(CHUNK_IMAGES, CHUNK_BYTES // (program.image_bytes + program.shared_bytes)))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def run(steps: tuple[Step, ...], warps: Warps) -> None:
    """Take a batch of warps through steps."""
    for step in steps:
        match step:
            case Branch() | Loop():
                value = step.uniform
                numbers = (
                    warps.word(value)
                    if isinstance(value, Word)
                    else np.full(warps.count, value, dtype=np.uint32)
                )
                if isinstance(step, Branch):
                    _where(numbers != 0, warps, step.then, step.otherwise)
                    continue
                for iteration in range(int(numbers.max(initial=0))):
                    _where(numbers > iteration, warps, step.body, ())
            case step:
                warps.take(step)


def _where(
    mask: NDArray[np.bool_], warps: Warps, then: tuple[Step, ...], otherwise: tuple[Step, ...]
) -> None:
    if mask.all():
        run(then, warps)
    elif not mask.any():
        run(otherwise, warps)
    else:
        yes, no = warps.part(mask), warps.part(~mask)
        run(then, yes)
        run(otherwise, no)
        warps.join(mask, yes, no)
