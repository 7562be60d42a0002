"""What one round of a value campaign runs: a pure function of seed, round and selection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fuzz.instruction_rounds import Selection, derived_seed, draw
from oracle.errors import UsageError
from oracle.isa import LdmatrixForm, MmaForm
from oracle.notes import is_available
from oracle.program import LoadRows, Multiply, Program, requirements, walk
from oracle.targets import parse_target, parse_version
from strategies.contents import Recipe, expand, recipes
from strategies.multiplications import VALUED_FORMS, multiplications, row_loads

GENERATOR_VERSION = 1
"""Goes up when the same seed would give other programs or contents."""

IMAGES = 256
"""Images of one program: what a campaign on the simulated device runs in a tenth of a second."""
PROGRAMS = 8
"""Programs of one round, in one module."""
_ROW_LOADS_IN = 8
"""Of so many programs, one is of ldmatrix on average where both sorts are selected."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One program of a round and what fills its images."""

    entry: str
    """Name of its kernel in the round's module."""
    program: Program
    recipe: Recipe

    @property
    def form(self) -> MmaForm | LdmatrixForm:
        """The form that the program is about."""
        return main_form(self.program)

    def images(self) -> NDArray[np.uint8]:
        """Return the images, uint8 (IMAGES, image_bytes)."""
        return expand(self.recipe, self.program, IMAGES)


def main_form(program: Program) -> MmaForm | LdmatrixForm:
    """Return the form of a program's first multiplication or ldmatrix.

    Raises
    ------
    UsageError
        If it has neither.
    """
    for step in walk(program.steps):
        if isinstance(step, Multiply | LoadRows):
            return step.form
    raise UsageError("the program has no multiplication and no ldmatrix; there is nothing to judge")


def selected_forms(
    selection: Selection, *, target: str, version: str
) -> tuple[MmaForm | LdmatrixForm, ...]:
    """Return the multiplications and forms of ldmatrix that a target has.

    Raises
    ------
    UsageError
        If there is none.
    """
    row, number = parse_target(target), parse_version(version)
    forms = tuple(
        form
        for form in selection.forms()
        if (form in VALUED_FORMS or isinstance(form, LdmatrixForm))
        and is_available(form, number, row)
        and isinstance(form, MmaForm | LdmatrixForm)
    )
    if not forms:
        raise UsageError(
            f"no wmma.mma or ldmatrix of {target} and PTX ISA {version} is like "
            f"{selection.pattern!r}; `warpfuzz isa --target {target} --ptx-version {version}` "
            "lists what there is"
        )
    return forms


def round_batches(
    forms: tuple[MmaForm | LdmatrixForm, ...], *, target: str, version: str, key: int
) -> list[Batch]:
    """Draw the programs of one round, and how their images are filled."""
    some = st.lists(st.tuples(_programs(forms), recipes()), min_size=PROGRAMS, max_size=PROGRAMS)
    # The first example that Hypothesis makes is the simplest one there is.
    drawn = draw(some, 2, derived_seed(key, "programs"))[-1]
    row, number = parse_target(target), parse_version(version)
    return [
        Batch(entry=f"kernel_{index}", program=program, recipe=recipe)
        for index, (program, recipe) in enumerate(drawn)
        # Some state spaces and types are newer than what is multiplied.
        if all(is_available(form, number, row) for form in requirements(program))
    ]


@st.composite
def _programs(draw: st.DrawFn, forms: tuple[MmaForm | LdmatrixForm, ...]) -> Program:
    products = tuple(form for form in forms if isinstance(form, MmaForm))
    rows = tuple(form for form in forms if isinstance(form, LdmatrixForm))
    if rows and (not products or draw(st.integers(0, _ROW_LOADS_IN - 1)) == _ROW_LOADS_IN - 1):
        return draw(row_loads(rows))
    return draw(multiplications(products))
