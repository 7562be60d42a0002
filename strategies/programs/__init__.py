"""Strategies for programs: legal and defined ones, and, apart from them, undefined ones."""

from strategies.programs.drawing import programs
from strategies.programs.forms import VALUED_FORMS
from strategies.programs.undefined import undefined_programs

GENERATOR_VERSION = 5
"""Goes up when the same seed would give other programs or contents."""

__all__ = ["GENERATOR_VERSION", "VALUED_FORMS", "programs", "undefined_programs"]
