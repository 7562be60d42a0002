"""Programs, images and artificial failures for the tests of shrinking."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from corpus import Kind
from fuzz.findings.verdicts import Subject
from oracle.isa.lookup import LDMATRIX_FORMS, MMA_FORMS, MMA_SYNC_FORMS
from oracle.isa.targets import Module
from oracle.layouts import read
from oracle.program.program import Program, position
from runners.emission import emit
from strategies.contents import expand, recipes
from strategies.features import Focus
from strategies.matrices import Placed, inputs
from strategies.programs import programs

TARGET, VERSION = "sm_90", "8.0"
WANTED = Kind.VIOLATION

PRODUCTS = programs(Focus(), module=Module.named(TARGET, VERSION), forms=MMA_FORMS)
PROGRAMS = programs(
    Focus(), module=Module.named(TARGET, VERSION), forms=(*MMA_FORMS, *LDMATRIX_FORMS)
)
LANE_PROGRAMS = programs(
    Focus(), module=Module.named(TARGET, VERSION), forms=(*MMA_SYNC_FORMS, *LDMATRIX_FORMS)
)


@st.composite
def subjects(draw: st.DrawFn, drawn: st.SearchStrategy[Program] | None = None) -> Subject:
    # Hypothesis names a strategy by the text of its defaults, and that of PRODUCTS is long.
    program = draw(PRODUCTS if drawn is None else drawn)
    return subject_of(program, expand(draw(recipes()), program, 1)[0])


def subject_of(program: Program, image: NDArray[np.uint8]) -> Subject:
    module = emit(program, module=Module.named(TARGET, VERSION))
    return Subject(module=module, program=program, image=image)


def verdicts_of(
    fails: Callable[[Subject], bool],
) -> Callable[[Sequence[Subject]], list[Kind | None]]:
    return lambda candidates: [WANTED if fails(one) else None for one in candidates]


def loaded(program: Program, operand: str) -> list[Placed]:
    return [placed for placed in inputs(program) if placed.operand == operand]


def values(subject: Subject, placed: Placed) -> NDArray[np.generic]:
    """The matrix as the image has it, (rows, columns)."""
    start = position(subject.program, placed.place)
    result: NDArray[np.generic] = read(subject.image[None], start, placed.tile)[0]
    return result
