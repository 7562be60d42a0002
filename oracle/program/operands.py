"""Operands of steps (fragments and registers), and the interface of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any, Self

from oracle.isa.forms import Form
from oracle.isa.matrices import Matrix, Vector
from oracle.program.operations import Operation
from oracle.program.places import Span, Uniform
from oracle.program.registers import Register, listed, text_of, vector


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """A fragment of wmma: which lane holds which element is left open (9.7.14.4.1)."""

    matrix: Matrix
    """Accumulators are operand "c", whether a load or a multiplication wrote them."""
    layout: str | None
    """"row" or "col" of a multiplicand, None where any will do; accumulators have none."""

    @staticmethod
    @cache
    def of(matrix: Matrix, layout: str | None) -> Fragment:
        """Return the fragment of a matrix; that of a D is one of C."""
        if matrix.operand in "cd":
            return Fragment(matrix=replace(matrix, operand="c"), layout=None)
        return Fragment(matrix=matrix, layout=layout)

    @property
    def any_layout(self) -> bool:
        """Whether it is a multiplicand whose layout is left open."""
        return self.layout is None and self.matrix.operand in "ab"

    @property
    def register_type(self) -> str:
        """PTX type in which the registers are declared, without the dot."""
        return self.matrix.register_type

    @property
    def registers(self) -> int:
        """Registers in each lane."""
        return self.matrix.registers

    @property
    def bits(self) -> int:
        """Size of one register."""
        return self.matrix.register_bits

    @property
    def words(self) -> int:
        """Registers of 32 bits that it takes in each lane."""
        return self.matrix.registers * self.matrix.register_bits // 32

    def __str__(self) -> str:
        m = self.matrix
        role = "accumulator" if m.operand == "c" else f"multiplicand {m.operand.upper()}"
        layout = f" .{self.layout}" if self.layout else ""
        return f"{role} .{m.shape.name} .{m.type.name}{layout}"


@dataclass(frozen=True, kw_only=True)
class Registers:
    """Registers in each lane, whose contents are known lane by lane."""

    registers: int
    bits: int = 32
    """Size of one register: 32, or 64 for f64."""

    @staticmethod
    @cache
    def of(vector: Vector) -> Registers:
        """Return the registers of an operand whose layout is known."""
        return Registers(
            registers=vector.registers, bits=64 if vector.register_type == "f64" else 32
        )

    @property
    def register_type(self) -> str:
        """PTX type of the registers, untyped, so that a D can be an A ("untyped bits", 5.2.1)."""
        return f"b{self.bits}"

    @property
    def words(self) -> int:
        """Registers of 32 bits that it takes in each lane."""
        return self.registers * self.bits // 32

    def __str__(self) -> str:
        return f"{self.registers} registers of {self.bits} bits"


Held = Fragment | Registers


@dataclass(frozen=True, kw_only=True)
class Use:
    """One operand of a step: registers that it reads or writes."""

    field: str
    """Field of the step: "a", "fragment", ..."""
    name: str
    """Name of a bank, or the registers themselves (`oracle.program.registers`)."""
    holds: Held
    """Before a read, or after a write."""
    written: bool = False

    @cached_property
    def registers(self) -> tuple[Register, ...]:
        """The registers, in the order of the operand; UsageError if they are more or fewer."""
        return vector(self.name, self.holds.registers, self.holds.bits)

    @property
    def bank(self) -> str:
        """Name of the bank of the first register."""
        return self.registers[0].bank

    @cached_property
    def is_fragment(self) -> bool:
        """Whether it is a fragment of wmma."""
        return isinstance(self.holds, Fragment)


def first_registers(use: Use, count: int) -> str:
    """Return an operand of the first registers of another, as it is named or listed."""
    return text_of(use.registers[:count]) if listed(use.name) else use.name


class StepBase:
    """Interface of a step; properties that a step does not have are empty.

    A step does not change: what it has to put together it keeps.
    """

    @property
    def action(self) -> str:
        """Name of what it does: the method of `oracle.execution.execution.Warps` that takes it."""
        raise NotImplementedError

    @property
    def instruction(self) -> Form | None:
        """Form of the matrix instruction that it is."""
        return None

    @property
    def fields(self) -> dict[str, Any]:
        """What it is stored with, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]

    @property
    def address(self) -> int | None:
        """Which register of the destination has the address before a load, counted from 0."""
        return None

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """Names in the order of the fields."""
        return ()

    @cached_property
    def reads(self) -> tuple[Use, ...]:
        """Names that are read."""
        return tuple(use for use in self.uses if not use.written)

    @cached_property
    def writes(self) -> Use | None:
        """The name that is written."""
        return next((use for use in self.uses if use.written), None)

    @property
    def sets(self) -> int | None:
        """Number that every register of its destination gets in every lane; None of others."""
        return None

    @property
    def changes(self) -> Operation | None:
        """What it does with every element of a fragment."""
        return None

    @property
    def copies(self) -> bool:
        """Whether it copies registers to others as they are."""
        return False

    @cached_property
    def names(self) -> dict[str, str]:
        """Names, or lists of registers, by the fields that say them."""
        return {use.field: use.name for use in self.uses}

    @cached_property
    def stores(self) -> bool:
        """Whether it writes to memory what a name holds."""
        return bool(self.bytes_written and self.reads)

    @property
    def carried(self) -> str | None:
        """Name of the value that the result continues: the accumulator, or the source."""
        return None

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        """Bytes of buffers that are read."""
        return ()

    @cached_property
    def bytes_written(self) -> tuple[Span, ...]:
        """Bytes of buffers that are written."""
        return ()

    @property
    def uniform(self) -> Uniform | None:
        """What a branch or a loop depends on."""
        return None

    @property
    def cost(self) -> int:
        """Work units of one execution, nested steps excluded."""
        return 1

    @property
    def turns(self) -> int:
        """How often the steps inside are taken at most; at least 1."""
        return 1

    @property
    def blocks(self) -> Mapping[str, tuple[Any, ...]]:
        """Steps inside, by the field that holds them."""
        return {}

    def changed(self, **changes: Any) -> Self:
        """Return the step with other fields."""
        return replace(self, **changes) if changes else self  # type: ignore[type-var]

    def reading(self, old: str, new: str) -> Self:
        """Return the step with one name read where it reads another."""
        return self.changed(**{use.field: new for use in self.reads if use.name == old})
