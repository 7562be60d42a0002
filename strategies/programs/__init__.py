"""Strategies for programs: legal and defined ones, and, apart from them, undefined ones."""

from strategies.programs.drawing import programs
from strategies.programs.forms import VALUED_FORMS
from strategies.programs.undefined import undefined_programs

__all__ = ["VALUED_FORMS", "programs", "undefined_programs"]
