"""Strategies for programs: legal and defined ones, and, apart from them, undefined ones."""

from strategies.programs.drawing import programs
from strategies.programs.forms import VALUED_FORMS, is_valued
from strategies.programs.undefined import undefined_programs

GENERATOR_VERSION = 12
"""Goes up when the same seed would give other programs or contents. 6: mma.sync, stores of rows
and moves of registers are among the forms that are dealt out; 10: some programs have a warp-level
step between two stores of the same lanes; 11: operands of some steps share registers;
12: mma.sp is among the forms that are dealt out."""

__all__ = ["GENERATOR_VERSION", "VALUED_FORMS", "is_valued", "programs", "undefined_programs"]
