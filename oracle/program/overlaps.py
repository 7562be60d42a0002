"""How operands of a step share registers."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from itertools import combinations

from oracle.program.operands import StepBase, Use


class Way(StrEnum):
    """How the registers of one operand lie in those of another."""

    SAME = "in the same registers"
    REVERSED = "in the same registers reversed"
    SWAPPED = "in the same registers with pairs swapped"
    ROTATED = "in the same registers rotated"
    SHUFFLED = "in the same registers in another order"
    ONE = "in one register, given for all of it"
    REPEATED = "with a register given more than once"
    PART = "partly in the same registers"
    ADDRESS = "with the address of the load among its registers"


def overlaps(step: StepBase, shared: Collection[tuple[str, int]]) -> tuple[str, ...]:
    """Say how operands of a step share registers; `shared`: `Program.shared_banks`."""
    found: list[str] = []
    for use in step.uses:
        different = len(set(use.registers))
        if different < len(use.registers):
            found.append(f"{use.field.upper()} {Way.ONE if different == 1 else Way.REPEATED}")
        if use.written and step.address is not None:
            found.append(f"{use.field.upper()} {Way.ADDRESS}")
    # D is the operand that is compared; so a step's result comes first in each pair.
    for one, other in combinations(sorted(step.uses, key=lambda use: not use.written), 2):
        if (way := way_of(one, other, shared)) is not None:
            found.append(f"{one.field.upper()} and {other.field.upper()} {way}")
    return tuple(found)


def way_of(one: Use, other: Use, shared: Collection[tuple[str, int]]) -> Way | None:
    """Return how two operands share registers, as in `overlaps`; None if they do not."""
    first, second = one.registers, other.registers
    common = set(first) & set(second)
    typed = one.holds.register_type == other.holds.register_type
    if not any(typed or (register.bank, register.bits) in shared for register in common):
        return None
    if first == second:
        return Way.SAME
    if len(common) < min(len(set(first)), len(set(second))):
        return Way.PART
    # All of the shorter one is in the longer one.
    first = tuple(register for register in first if register in common)
    second = tuple(register for register in second if register in common)
    if first == second or sorted(first) != sorted(second):
        return Way.PART
    if first == second[::-1]:
        return Way.REVERSED
    if all(first[index] == second[index ^ 1] for index in range(len(second) & ~1)):
        return Way.SWAPPED
    turns = ((*second[turn:], *second[:turn]) for turn in range(1, len(second)))
    return Way.ROTATED if first in turns else Way.SHUFFLED
