"""Why an instruction or a program is not simply legal: words, a rule, and the section behind it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """Which kind of rule is broken; what findings are grouped by."""

    SYNTAX = "syntax"
    """Not one instruction with operands."""
    INSTRUCTION = "instruction"
    """Another instruction, or none."""
    UNKNOWN_QUALIFIER = "unknown qualifier"
    REPEATED_QUALIFIER = "repeated qualifier"
    MISSING_QUALIFIER = "missing qualifier"
    ORDER = "order of qualifiers"
    COMBINATION = "combination of qualifiers"
    AVAILABILITY = "version or target"
    OPERANDS = "number of operands"
    VECTOR = "vector"
    REGISTER = "register name"
    REGISTERS = "number of registers"
    ADDRESS = "address"
    STRIDE = "stride"
    STRIDE_BELOW_DEFAULT = "stride below default"
    ALIGNMENT = "alignment"
    SELECTOR = "sparsity selector"
    DEPRECATED = "deprecated"
    PRECISION = "precision"
    """Hardware computes with less than the page promises."""


SECTIONS = "9.0"
"""Version of the PTX ISA whose sections are named; in 9.4 matrices are in 9.7.16, not 9.7.14."""


def cited(section: str) -> str:
    """Return a section as a sentence names it."""
    return f"PTX ISA {SECTIONS}, {section}"


@dataclass(frozen=True)
class Reason:
    """One reason, with the section of the PTX ISA that it comes from."""

    text: str
    section: str
    """Section of the PTX ISA, such as "9.7.14.4.3"."""
    rule: Rule

    def __str__(self) -> str:
        return f"{self.text} [{cited(self.section)}]"
