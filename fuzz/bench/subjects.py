"""What is to be found: the catalogue of planted faults, and single rows of what was measured."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from fuzz.checks.program_coverage import Batch
from oracle.availability import is_available
from oracle.errors import UsageError
from oracle.forms import Form
from oracle.isa import FORMS
from oracle.targets import Module, parse_target, parse_version
from runners.faults import CATALOGUE, Fault, by_name
from runners.protocol import Images
from strategies.contents import Recipe, ValueClass, expand


class Contents(StrEnum):
    """Where the values come from; the programs are the same."""

    WARPFUZZ = "warpfuzz"
    """The recipes of a campaign."""
    UNIFORM = "uniform"
    """Uniform random bits; of floating-point numbers only finite ones, as in section 5 of the
    measured facts: with others, NaN would hide most results of f16."""
    NORMAL = "normal"
    """Normally distributed numbers of variance 1; of integers, small ones."""


_CLASSES = {Contents.UNIFORM: ValueClass.BITS, Contents.NORMAL: ValueClass.NORMAL}


def filled(contents: Contents, batch: Batch, count: int) -> Images:
    """Return the first images of a batch, uint8 (count, image_bytes)."""
    if contents is Contents.WARPFUZZ:
        return batch.images(count)
    recipe: Recipe = replace(batch.recipe, classes=(_CLASSES[contents],))
    return expand(recipe, batch.program, count)


def _narrowed(name: str, suffix: str, pattern: str, meaning: str) -> Fault:
    """Return a fault of the catalogue that touches only some of its instructions."""
    fault = by_name(name)
    if fault.damage is None:
        raise UsageError(f"fault {name} sits in the text; only those of the device can be narrowed")
    opcodes = re.compile(pattern)
    return replace(
        fault,
        name=f"{name}/{suffix}",
        meaning=meaning,
        opcodes=opcodes,
        damage=replace(fault.damage, opcodes=opcodes),
    )


_F16_TO_F32 = r"^wmma\.mma.*\d\.f32\.f32$"
_F16_TO_F16 = r"^wmma\.mma.*\d\.f16\.f16$"
_BF16 = r"^wmma\.mma.*\.bf16\.f32$"

# The table of section 5 of the project's measured facts: 20,000 dot products each, f16 inputs and
# f32 results, and below it what it says of f16 results and of bf16.
MEASURED_ROWS: tuple[Fault, ...] = (
    _narrowed("alignment-one-bit-more", "f32", _F16_TO_F32, "F + 1, f16 inputs, f32 result"),
    _narrowed("block-halved", "f32", _F16_TO_F32, "L / 2, f16 inputs, f32 result"),
    _narrowed(
        "product-normalised-first", "f32", _F16_TO_F32,
        "product normalised first, f16 inputs, f32 result",
    ),
    _narrowed(
        "subnormals-flushed-in-a", "f32", _F16_TO_F32,
        "subnormal inputs flushed, f16 inputs, f32 result",
    ),
    _narrowed(
        "sum-rounded-to-nearest", "f32", _F16_TO_F32,
        "nearest-even at the end, f16 inputs, f32 result",
    ),
    _narrowed("alignment-one-bit-more", "f16", _F16_TO_F16, "F + 1, f16 result"),
    _narrowed("block-halved", "f16", _F16_TO_F16, "L / 2, f16 result"),
    _narrowed("zero-exponent-higher", "f16", _F16_TO_F16, "e_zero + 1, f16 result"),
    _narrowed("zero-exponent-higher", "bf16", _BF16, "e_zero + 1, bf16 inputs"),
)  # fmt: skip


_BY_NAME = {fault.name: fault for fault in (*CATALOGUE, *MEASURED_ROWS)}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A fault that a campaign should find. It goes to other processes by its name."""

    name: str
    unobservable: str = ""
    """Why no program can show it; empty where one can."""

    @property
    def fault(self) -> Fault:
        """The fault itself."""
        return _BY_NAME[self.name]

    @property
    def is_measured_row(self) -> bool:
        """Whether it is a single row of what was measured, and not in the catalogue itself."""
        return self.fault not in CATALOGUE


def chosen(pattern: str, *, target: str, version: str) -> tuple[Subject, ...]:
    """Return what a pattern selects, in the order of the catalogue.

    Parameters
    ----------
    pattern
        Shell pattern over names of faults; a bare word may stand anywhere.
    target, version
        Of the modules in which the faults are to be found.

    Raises
    ------
    UsageError
        If nothing is selected.
    """
    wanted = pattern if any(c in pattern for c in "*?[") else f"*{pattern}*"
    faults = [fault for name, fault in _BY_NAME.items() if fnmatchcase(name, wanted)]
    if not faults:
        close = difflib.get_close_matches(pattern, _BY_NAME, n=5, cutoff=0.4)
        hint = f"did you mean {', '.join(close)}?" if close else "docs/bench.md lists all names"
        raise UsageError(f"no planted fault has a name like {pattern!r}; {hint}")
    number, row = parse_version(version), parse_target(target)
    available = [form for form in FORMS if is_available(form, Module(row, number))]
    return tuple(
        Subject(name=fault.name, unobservable=_unobservable(fault, available, target, version))
        for fault in faults
    )


def _unobservable(fault: Fault, available: list[Form], target: str, version: str) -> str:
    if fault.rare:
        return "so rare that `warpfuzz screen` has to look for it"
    if any(fault.opcodes.search(form.opcode) for form in available):
        return ""
    if any(fault.opcodes.search(form.opcode) for form in FORMS):
        return f"no instruction that it touches exists on {target} in PTX ISA {version}"
    # It touches what surrounds the forms: copies, branches, element-wise operations.
    return ""
