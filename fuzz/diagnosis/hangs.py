"""Experiments on programs that do not end: without what one ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import Culprit, ExperimentDevice
from fuzz.diagnosis.multiplications import hanging_multiplication, widened
from fuzz.diagnosis.parts import BRANCH, ENTERED, LOOP, Code
from oracle.errors import UsageError
from oracle.program.lane_code import If, Repeat, Statement
from oracle.program.program import Program
from oracle.program.steps import is_lane_code
from strategies.simplification.examples import changed, edited, visit, without


def what_hangs(
    device: ExperimentDevice, program: Program, image: NDArray[np.uint8]
) -> Culprit | None:
    """Find out without what a program ends that does not; None where no experiment tells.

    One is tried after the other, as each that does not end takes a deadline.
    """
    code = {site: step for site, step in visit(program.steps) if is_lane_code(step)}

    def rewritten(change: Callable[[Code], Code]) -> Program:
        edits = {site: (replace(step, code=change(step.code)),) for site, step in code.items()}
        return replace(program, steps=edited(program.steps, edits))

    def ends(tried: Callable[[], Program]) -> bool:
        with suppress(UsageError):  # it cannot be written down
            other = tried()
            results = None if other == program else device.results(other, widened(image, other))
            return results is not None and bool(results.ran.all())
        return False

    if (found := hanging_multiplication(ends, device, program, image)) is not None:
        return found
    ways: Mapping[str, Callable[[], Program]] = {
        f"{LOOP}{ENTERED}": lambda: rewritten(_begun_at_their_start),
        LOOP: lambda: rewritten(lambda one: without(one, Repeat)),
        BRANCH: lambda: rewritten(lambda one: without(one, If)),
    }
    return next((Culprit(instructions=(name,)) for name, way in ways.items() if ends(way)), None)


def _begun_at_their_start(code: Code) -> Code:
    """Return code whose loops all lanes enter at their start."""

    def change(one: Statement) -> list[Statement]:
        return [replace(one, entry="", skipped=0) if isinstance(one, Repeat) else one]

    return changed(code, change)
