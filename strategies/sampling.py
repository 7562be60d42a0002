"""Programs with their contents, for tests of your own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracle.program import Program
from oracle.targets import DEFAULT_TARGET, Module
from strategies.contents import Recipe, expand, recipes
from strategies.draws import Selection
from strategies.features import Focus
from strategies.program_draws import selected_forms
from strategies.programs import programs


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A program, and what fills its images."""

    program: Program
    recipe: Recipe
    module: Module
    """The target and the PTX ISA version that the program is for."""

    def images(self, count: int = 8) -> NDArray[np.uint8]:
        """Return what memory holds before the program: uint8 (count, program.image_bytes)."""
        return expand(self.recipe, self.program, count)


def samples(
    only: str = "*", *, target: str = DEFAULT_TARGET, ptx_version: str | None = None
) -> st.SearchStrategy[Sample]:
    """Draw programs that the ISA defines, each with what fills its images.

    They shrink towards one instruction on matrices at the start of their buffers.

    Parameters
    ----------
    only
        Shell pattern of the opcodes that programs are about, such as "wmma.mma*f64".
    target
        Value of `.target`.
    ptx_version
        Value of `.version`, such as "8.4"; None: 8.0, or the first that knows the target.

    Raises
    ------
    UsageError
        If the target or the version is unknown, or the pattern selects nothing there.
    """
    module = Module.named(target, ptx_version)
    forms = selected_forms(Selection(pattern=only), target=target, version=str(module.version))

    @st.composite
    def drawn(draw: st.DrawFn) -> Sample:
        focus = Focus(form=draw(st.sampled_from(forms)))
        program = draw(programs(focus, module=module, forms=forms))
        return Sample(program=program, recipe=draw(recipes()), module=module)

    return drawn()
