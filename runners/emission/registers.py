"""Which PTX registers hold the operands of a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oracle.program.operands import Use
from oracle.program.program import Program, walk


class OperandRegisters(NamedTuple):
    """The registers of every bank of a program.

    A name that only ever holds registers of one type is `%name_0`, `%name_1`, …; one that holds
    several gets a bank per type, told apart by capital letters, which no name has. If a step lists
    registers of a bank, all operands that name it share them: they are declared untyped then where
    they have several types ("untyped bits" go with any type of their size, PTX ISA 5.2.1).

    How many registers a name has in a type, and the type of the banks of which a step lists
    registers, by name and size of one, in bits.
    """

    counts: Mapping[tuple[str, str], int]
    shared: Mapping[tuple[str, int], str]

    def of(self, use: Use) -> tuple[str, ...]:
        """Return the registers of an operand."""
        return tuple(
            f"{self._prefix(bank, self.shared.get((bank, bits), use.holds.register_type))}{number}"
            for bank, bits, number in use.registers
        )

    def declarations(self) -> list[str]:
        """Return the declarations, in the order in which the program first names them."""
        return [
            f"    .reg .{type_} {self._prefix(name, type_)}<{count}>;"
            for (name, type_), count in self.counts.items()
        ]

    def _prefix(self, name: str, type_: str) -> str:
        types = sum(1 for other, _ in self.counts if other == name)
        return f"%{name}_" if types == 1 else f"%{name}_{type_.upper()}_"


def operand_registers(program: Program) -> OperandRegisters:
    """Allot registers to the operands of a program."""
    uses = [(step, use) for step in walk(program.steps) for use in step.uses]
    types: dict[tuple[str, int], set[str]] = {bank: set() for bank in program.shared_banks}
    for step, use in uses if types else ():
        # A float's register addresses nothing.
        addresses = use.written and step.address is not None
        type_ = f"b{use.holds.bits}" if addresses else use.holds.register_type
        for bank, bits, _ in use.registers:
            if (bank, bits) in types:
                types[bank, bits].add(type_)
    shared = {
        (name, bits): next(iter(found)) if len(found) == 1 else f"b{bits}"
        for (name, bits), found in types.items()
    }
    counts: dict[tuple[str, str], int] = {}
    for _, use in uses:
        for bank, bits, number in use.registers:
            key = bank, shared.get((bank, bits), use.holds.register_type)
            counts[key] = max(number + 1, counts.get(key, 0))
    return OperandRegisters(counts, shared)
