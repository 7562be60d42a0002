"""Which PTX registers hold the fragments of a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oracle.isa import Matrix
from oracle.program import (
    Elementwise,
    Load,
    LoadRows,
    Multiply,
    Program,
    Step,
    Store,
    StoreRegisters,
    walk,
)


@dataclass(frozen=True, kw_only=True)
class FragmentRegisters:
    """The registers of every name of a program.

    A name that only ever holds registers of one type is `%name_0`, `%name_1`, …; one that holds
    several gets a bank per type, told apart by capital letters, which no name has.
    """

    counts: dict[tuple[str, str], int]
    """Most registers that a name has in a type."""

    def of(self, name: str, type_: str, count: int) -> tuple[str, ...]:
        """Return the first `count` registers of a name in a register type."""
        return tuple(f"{self._bank(name, type_)}{index}" for index in range(count))

    def of_matrix(self, name: str, matrix: Matrix) -> tuple[str, ...]:
        """Return the registers that hold a fragment of a matrix."""
        return self.of(name, matrix.register_type, matrix.registers)

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
        for name, type_, count in _uses(step):
            counts[name, type_] = max(count, counts.get((name, type_), 0))
    return FragmentRegisters(counts=counts)


def _uses(step: Step) -> Iterator[tuple[str, str, int]]:
    """Iterate over (name, register type, registers) of a step."""
    match step:
        case Load() | Store():
            yield _matrix(step.fragment, step.form.matrix)
        case Multiply():
            for operand in "dabc":
                yield _matrix(getattr(step, operand), step.form.matrix(operand))
        case Elementwise():
            yield _matrix(step.source, step.matrix)
            yield _matrix(step.destination, step.matrix)
        case LoadRows():
            yield step.registers, "b32", step.form.registers
        case StoreRegisters():
            yield step.registers, "b32", step.count
        case _:
            pass


def _matrix(name: str, matrix: Matrix) -> tuple[str, str, int]:
    return name, matrix.register_type, matrix.registers
