"""Strategies for programs: legal and defined ones, and, apart from them, undefined ones."""

from strategies.programs.builder import VALUED_FORMS, is_valued
from strategies.programs.drawing import programs
from strategies.programs.undefined import undefined_programs

GENERATOR_VERSION = 19  # Goes up when a seed would give other programs or contents: CHANGELOG.md

__all__ = ["GENERATOR_VERSION", "VALUED_FORMS", "is_valued", "programs", "undefined_programs"]
