"""Which PTX registers hold the fragments of a program."""

from __future__ import annotations

from dataclasses import dataclass

from oracle.held import Use
from oracle.program import Program, walk


@dataclass(frozen=True, kw_only=True)
class FragmentRegisters:
    """The registers of every name of a program.

    A name that only ever holds registers of one type is `%name_0`, `%name_1`, …; one that holds
    several gets a bank per type, told apart by capital letters, which no name has.
    """

    counts: dict[tuple[str, str], int]
    """Most registers that a name has in a type."""

    def of(self, use: Use) -> tuple[str, ...]:
        """Return the registers that hold what a name holds where a step uses it."""
        bank = self._bank(use.name, use.holds.register_type)
        return tuple(f"{bank}{index}" for index in range(use.holds.registers))

    def declarations(self) -> list[str]:
        """Return the declarations, in the order in which the program first names them."""
        return [
            f"    .reg .{type_} {self._bank(name, type_)}<{count}>;"
            for (name, type_), count in self.counts.items()
        ]

    def _bank(self, name: str, type_: str) -> str:
        types = sum(1 for other, _ in self.counts if other == name)
        return f"%{name}_" if types == 1 else f"%{name}_{type_.upper()}_"


def fragment_registers(program: Program) -> FragmentRegisters:
    """Allot registers to the fragments and the ldmatrix results of a program."""
    counts: dict[tuple[str, str], int] = {}
    for step in walk(program.steps):
        for use in step.uses:
            key = (use.name, use.holds.register_type)
            counts[key] = max(use.holds.registers, counts.get(key, 0))
    return FragmentRegisters(counts=counts)
