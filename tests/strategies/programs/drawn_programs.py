"""Programs as a campaign draws them: uniformly, and the same every time."""

from __future__ import annotations

from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.program.program import Program
from strategies.draws import draw, draw_one
from strategies.features import Focus
from strategies.programs import programs

PLACES = (
    ("sm_70", "6.1"),
    ("sm_75", "6.5"),
    ("sm_80", "7.0"),
    ("sm_90", "8.0"),
    ("sm_100a", "8.8"),
)
"""Targets and versions that differ in forms and in spellings of state spaces."""


ANYTHING = Focus()


def drawn(
    focus: Focus = ANYTHING,
    *,
    count: int = 1,
    key: int = 0,
    target: str = "sm_90",
    version: str = "8.0",
    forms: tuple[Form, ...] = FORMS,
) -> list[Program]:
    """Draw programs; the first that Hypothesis makes is the plainest, and left out."""
    strategy = programs(focus, module=Module.named(target, version), forms=forms)
    return [draw_one(strategy, key)] if count == 1 else draw(strategy, count + 1, key)[1:]
