"""Which operands of a step share registers, and how."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from oracle.program.operands import Use
from oracle.program.registers import Register
from oracle.program.steps import Step


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


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """One way in which the operands of a step share registers."""

    operand: str
    """Field of the step: "d", "registers", ..."""
    other: str
    """The other operand; "" where one shares with itself."""
    way: Way

    def __str__(self) -> str:
        if not self.other:
            return f"{self.operand.upper()} {self.way}"
        return f"{self.operand.upper()} and {self.other.upper()} {self.way}"


def overlaps(step: Step, shared: Collection[tuple[str, int]]) -> tuple[Overlap, ...]:
    """Return how the operands of a step share registers; none if each has its own.

    `shared`: The program's `shared_banks`: elsewhere two operands of one name share their registers
    only if these are declared with one type (`runners.emission`).
    """
    return tuple(_overlaps(step, shared))


def _overlaps(step: Step, shared: Collection[tuple[str, int]]) -> Iterator[Overlap]:
    for use in step.uses:
        registers = use.registers
        if len(set(registers)) < len(registers):
            way = Way.ONE if len(set(registers)) == 1 else Way.REPEATED
            yield Overlap(operand=use.field, other="", way=way)
        if use.written and step.address is not None:
            yield Overlap(operand=use.field, other="", way=Way.ADDRESS)
    # D is the operand that is compared; so a step's result comes first in each pair.
    for one, other in combinations(sorted(step.uses, key=lambda use: not use.written), 2):
        found = way_of(one, other, shared)
        if found is not None:
            yield Overlap(operand=one.field, other=other.field, way=found)


def way_of(one: Use, other: Use, shared: Collection[tuple[str, int]]) -> Way | None:
    """Return how two operands share registers, as in `overlaps`; None if they do not."""
    registers, others = one.registers, other.registers
    common = set(registers).intersection(others)
    if one.holds.register_type != other.holds.register_type:
        common = {register for register in common if (register.bank, register.bits) in shared}
    if not common:
        return None
    return _way(registers, others)


def _way(registers: Sequence[Register], others: Sequence[Register]) -> Way:
    if registers == others:
        return Way.SAME
    shared = set(registers) & set(others)
    if len(shared) < min(len(set(registers)), len(set(others))):
        return Way.PART
    # All of the shorter one is in the longer one.
    registers = tuple(one for one in registers if one in shared)
    others = tuple(one for one in others if one in shared)
    if registers == others or sorted(registers) != sorted(others):
        return Way.PART
    if registers == others[::-1]:
        return Way.REVERSED
    if all(registers[index] == others[index ^ 1] for index in range(len(others) & ~1)):
        return Way.SWAPPED
    for turn in range(1, len(others)):
        if registers == (*others[turn:], *others[:turn]):
            return Way.ROTATED
    return Way.SHUFFLED
