"""What of a kernel's results depends on instructions whose error alone the ISA bounds.

Registers are followed by their names through the whole text, whatever the order: what may depend
on such an instruction counts as if it did. In memory the bytes are marked while a kernel runs
(`runners.simulated.races`).
"""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from runners.simulated.decoder import Step
from runners.simulated.scalar import APPROXIMATE

_REGISTER = re.compile(r"(?<![\w$%.])[%$A-Za-z_][\w$%]*")
_OPERAND = re.compile(r"(?:\[[^\]]*\]|\{[^}]*\}|\([^)]*\)|[^,;\[{(])+")
_ATOMIC = re.compile(r"(?:atom|red)\b")
_NOWHERE = re.compile(r"(?:bra|brx|call|bar|barrier)\b(?!\.\S*red)")
"""Instructions whose first operand is no register that they write."""


class Dependence(NamedTuple):
    """What depends on them."""

    stores: frozenset[str]
    """Texts of instructions that write such values to memory."""
    everywhere: bool
    """Whether they decide where something is written, or what is executed."""


class _Read(NamedTuple):
    """What a step says of registers, by their names."""

    text: str
    written: frozenset[str]
    read: frozenset[str]
    deciding: frozenset[str]
    """What it reads that decides where it writes, or who goes where."""
    is_store: bool


def _names(text: str) -> frozenset[str]:
    return frozenset(_REGISTER.findall(text))


def _read(step: Step) -> _Read:
    opcode, _, rest = step.text.rstrip(";").partition(" ")
    operands = [found.strip() for found in _OPERAND.findall(rest)]
    guard = frozenset([step.guard.rpartition(":")[2].partition("#")[0]] if step.guard else ())
    at_first = bool(operands) and operands[0].startswith("[")
    is_store = at_first or _ATOMIC.match(opcode) is not None
    writes = operands and not at_first and not _NOWHERE.match(opcode)
    deciding = frozenset[str]()
    if step.goals or step.index or not (step.operation or step.barrier):
        deciding = _names(" ".join(operands)) | guard
    elif is_store:
        deciding = _names(next((one for one in operands if one.startswith("[")), "")) | guard
    return _Read(
        text=step.text,
        written=_names(operands[0]) if writes else frozenset(),
        read=_names(" ".join(operands[1:] if writes else operands)) | guard,
        deciding=deciding,
        is_store=is_store,
    )


def dependence(steps: Sequence[Step], loads: Collection[str]) -> Dependence:
    """Return what depends on approximate instructions among steps.

    `loads` are the texts of instructions that were seen to read from memory what does.
    """
    sources = {step.text for step in steps if APPROXIMATE.match(step.text)}
    if not sources:
        return Dependence(frozenset(), False)
    rows = [_read(step) for step in steps]
    names, found, before = set[str](), sources | set(loads), -1
    while before < len(names) + len(found):
        before = len(names) + len(found)
        for row in rows:
            if row.text in found or row.read & names:
                found.add(row.text)
                names |= row.written - {"_"}
    return Dependence(
        frozenset(row.text for row in rows if row.is_store and row.text in found),
        any(row.deciding & names for row in rows),
    )
