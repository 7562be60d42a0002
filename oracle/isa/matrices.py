"""Matrices of the warp-level instructions: their shapes, and their fragments in registers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property

from oracle.isa.formats import Format

LANES = 32
"""Threads of a warp (PTX ISA 2.2.1)."""
LAYOUTS = ("row", "col")
_SIZES = re.compile(r"([mnk])(\d+)")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Dimensions: A is m x k, B k x n, C and D m x n; of matrices that are only moved m x n."""

    m: int
    n: int
    k: int = 0

    @staticmethod
    @cache
    def named(text: str) -> Shape:
        """Return the shape that a qualifier spells: "m16n8k16", or "m8n8"."""
        return Shape(**{name: int(size) for name, size in _SIZES.findall(text)})

    @cached_property
    def name(self) -> str:
        """Spelling of the shape qualifier, without the dot."""
        return f"m{self.m}n{self.n}" + (f"k{self.k}" if self.k else "")

    def matrix(self, operand: str) -> tuple[int, int]:
        """Rows and columns of matrix "a", "b", "c" or "d"."""
        return {"a": (self.m, self.k), "b": (self.k, self.n)}.get(operand, (self.m, self.n))


@dataclass(frozen=True, kw_only=True)
class Vector:
    """Registers of an operand that is no fragment of wmma."""

    registers: int
    """In each lane."""
    register_type: str = "b32"


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """One matrix of a wmma form: how it lies in memory and in registers."""

    operand: str
    """"a", "b", "c" or "d"."""
    shape: Shape
    type: Format

    @cached_property
    def rows(self) -> int:
        """Number of rows."""
        return self.shape.matrix(self.operand)[0]

    @cached_property
    def columns(self) -> int:
        """Number of columns."""
        return self.shape.matrix(self.operand)[1]

    @cached_property
    def registers(self) -> int:
        """Registers of the fragment in each lane (tables of 9.7.14.4.1).

        f16 multiplicands have eight in every shape: the fragment of an m16n16k16 matrix holds each
        element twice. The f64 accumulator has two, as the page's examples have it (its table says
        one; ptxas wants two).
        """
        if self.type.name == "f16" and self.operand in "ab":
            return 8
        return self.rows * self.columns * self.type.bits // (LANES * self.register_bits)

    @property
    def register_bits(self) -> int:
        """Size of one register of the fragment, in bits."""
        return 64 if self.type.name == "f64" else 32

    @property
    def register_type(self) -> str:
        """PTX type of the registers; `.b32` where the table names a packed or an untyped one."""
        return self.type.name if self.type.name in ("f32", "f64", "s32") else "b32"

    @property
    def fragment_bytes(self) -> int:
        """Size of the fragment in one lane, in bytes: the alignment of 9.7.14.4.2."""
        return self.registers * self.register_bits // 8

    def default_stride(self, layout: str) -> int:
        """Elements from one row (or column) to the next when no stride is given (9.7.14.4.2)."""
        return self.columns if layout == "row" else self.rows

    def has_aligned_lines(self, layout: str, stride: int) -> bool:
        """Whether a stride puts lines a multiple of the fragment's size apart, or is the default.

        The page lists default strides that break its own rule (f16 A of m8n32k16 column-major, B of
        m32n8k16 row-major), and the hardware runs them (measured on H200, 2026-11).
        """
        aligned = stride * self.type.bits % (8 * self.fragment_bytes) == 0
        return aligned or stride == self.default_stride(layout)

    def leading_instances(self, layout: str) -> int:
        """Return how many rows (row-major) or columns (column-major) the stride steps over."""
        return self.rows if layout == "row" else self.columns


def replicated(element: int, element_bits: int, register_bits: int) -> int:
    """Return a register in which every element has this bit pattern."""
    return sum(element << shift for shift in range(0, register_bits, element_bits))
