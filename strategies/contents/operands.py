"""What is filled: an operand of a multiplication, and numbers that its images have in common."""

from __future__ import annotations

from dataclasses import dataclass

from oracle.isa.forms import Format
from strategies.contents.expressions import Node, below
from strategies.contents.floats import FloatFields, Sum, fields_of

# Numbers of draws; those from EACH_K on are one for each k.
PLACE, PARTNER, VARIANT, EXPONENT, DEPTH, OFFSET, SPOTS, EACH_K = 0, 1, 2, 3, 4, 5, 6, 32


@dataclass(frozen=True, kw_only=True)
class FillTypes:
    """The formats of a multiplication, and how many products it sums."""

    a: Format
    b: Format
    c: Format
    d: Format
    depth: int
    """K: products of each sum; a power of two."""
    operation: str | None = None
    """`.op` of single bits."""

    def fields(self, operand: str) -> FloatFields:
        """Return the fields of "a", "b", "c" or "d"."""
        return fields_of(getattr(self, operand).name)


@dataclass(frozen=True, kw_only=True)
class FillOperand:
    """A, B or C of a multiplication.

    Lines are the rows of A and C and the columns of B; positions are k of A and B, columns of C.
    Single bits are eight to a position.
    """

    name: str
    """"a", "b" or "c"."""
    types: FillTypes
    lines: int
    positions: int
    is_of_sum: bool
    """Whether it is a C that belongs to just one product of an A and a B that are known."""
    run: int = 0
    """How many elements of B metadata choose together; 0 without metadata. B is filled as one of K
    positions, and each run of them twice, one behind the other."""

    @property
    def type(self) -> Format:
        """Format of an element."""
        type_: Format = getattr(self.types, self.name)
        return type_

    @property
    def fields(self) -> FloatFields:
        """Fields of the operand's floating-point format."""
        return fields_of(self.type.name)

    @property
    def depth(self) -> int:
        """K."""
        return self.types.depth

    @property
    def count(self) -> int:
        """How many elements there are, or bytes of single bits; a power of two."""
        return self.lines * self.positions

    @property
    def sum(self) -> Sum:
        """What C's products are summed to."""
        types = self.types
        rounded = types.c if types.a.is_float else None
        return Sum(types.a, types.b, types.operation, rounded, types.depth, self.run)

    def pair(self) -> tuple[Node, Node]:
        """Return two different places k of each image, one as likely as the other."""
        first = below(PLACE, self.depth)
        return first, first ^ (below(PARTNER, self.depth - 1) + 1)

    def place(self, number: Node) -> tuple[Node, Node]:
        """Return line and position of an element by its number."""
        return number >> (self.positions.bit_length() - 1), number & (self.positions - 1)
