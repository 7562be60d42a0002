"""Operands in registers of their own: one way of sharing less, and nothing else changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from oracle.program import Program, walk
from oracle.steps import Step, copied
from strategies.simplification.examples import Site, edited, visit


def with_operand_apart(program: Program, site: Site, field: str) -> Program:
    """Return the same program with one operand of a step in registers of its own.

    What is read is copied there before the step, and what is written copied from there behind it:
    the values stay what they were.

    Parameters
    ----------
    site
        Where the step stands.
    field
        Its operand: "d", "a", "registers", ...
    """
    step = next(one for where, one in visit(program.steps) if where == site)
    use = next(one for one in step.uses if one.field == field)
    own = next(fresh_names(program, field))
    there = copied(use, own, use.name) if use.written else copied(use, use.name, own)
    change: dict[str, Any] = {field: own}
    changed: Step = replace(step, **change)
    steps = (changed, there) if use.written else (there, changed)
    return replace(program, steps=edited(program.steps, {site: steps}))


def fresh_names(program: Program, like: str) -> Iterator[str]:
    """Iterate over names of banks that no step of a program uses."""
    used = {
        register.bank
        for step in walk(program.steps)
        for use in step.uses
        for register in use.registers
    }
    return (name for number in count() if (name := f"{like}{number}") not in used)
