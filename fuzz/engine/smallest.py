"""The smallest program of a form, for measuring speed: one multiplication, or one ldmatrix."""

from __future__ import annotations

from functools import lru_cache

from fuzz.instruction_rounds import draw
from oracle.isa import LdmatrixForm, MmaForm
from oracle.program import Program
from strategies.features import Focus
from strategies.programs import programs


@lru_cache(maxsize=256)
def smallest_program(form: MmaForm | LdmatrixForm, *, target: str, version: str) -> Program:
    """Return the program towards which those of a form shrink."""
    strategy = programs(Focus(form=form), target=target, version=version, forms=(form,))
    # The first example that Hypothesis makes is the simplest one there is.
    return draw(strategy, 1, 0)[0]
