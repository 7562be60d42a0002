"""Figures of a target's matrix units: what can differ from GPU to GPU, each as one named value.

The page leaves accumulation order, rounding and subnormal inputs open (PTX ISA 9.7.14.4.5). Every
unit that was measured so far is one of three kinds: a chain of truncated fused dot products
(f16, bf16, tf32), a chain of multiply-adds (f64), an exact sum (integers and single bits).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oracle.formats import Format, format_named
from oracle.targets import Release

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

T = TypeVar("T")


class Confidence(StrEnum):
    """How sure a figure is, from surest to least sure."""

    MEASURED = "measured"
    """Measured by this project on that target."""
    PUBLISHED = "published"
    """Published by others who measured it on that target, or fixed by the page."""
    INFERRED = "inferred"
    """Concluded from a disassembly, from a related target, or from a like instruction."""


_ORDER = tuple(Confidence)


def weakest(labels: Iterable[Confidence]) -> Confidence:
    """Return the least sure of some labels."""
    return max(labels, key=_ORDER.index, default=_ORDER[-1])


@dataclass(frozen=True, kw_only=True)
class Figure(Generic[T]):
    """One property of a target, with where it comes from."""

    value: T
    confidence: Confidence
    source: str


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Figures of one unit: every field that holds a Figure."""

    @property
    def named(self) -> Mapping[str, Figure[Any]]:
        """The figures by name; those that the unit does not have are left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Figure)}

    @property
    def figures(self) -> tuple[Figure[Any], ...]:
        """All figures."""
        return tuple(self.named.values())

    @property
    def values(self) -> Mapping[str, Any]:
        """The values of the figures by name."""
        return {name: figure.value for name, figure in self.named.items()}


@dataclass(frozen=True, kw_only=True)
class Compilers:
    """Releases of compilers, one after the other."""

    first: Release
    last: Release | None
    """None: all later ones, too."""

    def include(self, release: Release) -> bool:
        """Whether a release is one of them."""
        return self.first <= release and (self.last is None or release <= self.last)

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.first} and later"
        return f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"


@dataclass(frozen=True, kw_only=True)
class DotUnit(Unit):
    """Figures of what computes a dot product of floats other than f64."""

    instruction: str
    """"wmma.mma" or "mma"."""
    types: str
    """Formats of D, A, B and C, as the opcode has them: "f32.bf16.bf16.f32"."""
    shapes: tuple[str, ...] = ()
    """Names of the shapes that it is for; none stands for all."""
    compilers: Compilers | None = None
    """Those in whose code it computes so, where several instructions stand for the one; None:
    in that of all."""

    @property
    def d_type(self) -> str:
        """Name of the format of D."""
        return self.types.split(".")[0]

    @property
    def c_type(self) -> str:
        """Name of the format of C."""
        return self.types.split(".")[3]


ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")
"""To nearest even, toward zero, down, up (9.7.14.4.5), and to nearest with ties away from zero."""


@dataclass(frozen=True, kw_only=True)
class TruncatedDot(DotUnit):
    """A chain of truncated fused dot products: see `oracle.arithmetic.truncated`."""

    accumulator: Figure[str]
    """Name of the format in which the running sum is kept between blocks: f32 or f16. C is
    widened to it and D narrowed from it, where they are of another."""
    block: Figure[int]
    """Products that are added in one go."""
    interleaved: Figure[int]
    """0: the products of a block follow each other. n: runs of n neighbouring products are dealt
    out to the blocks in turn."""
    order: Figure[str]
    """"rising": the block with the lowest k comes first; "falling": that with the highest."""
    sums: Figure[str] | None = None
    """"separate": each block but the first starts at zero, and the sums of the blocks are added in
    their order, as IEEE 754 adds. None: each block adds to the sum of those before it."""
    addend: Figure[str]
    """"first": C takes part in the first block. "last": the chain starts at zero, and C is added
    to its end, as IEEE 754 adds."""
    addition: Figure[str] | None = None
    """Rounding of those additions of C and of the sums of blocks; None where there are none."""
    fraction_bits: Figure[int]
    """Bits kept below the binary point at the block's largest exponent."""
    zero_exponent: Figure[int]
    """Exponent with which a term that is zero takes part in the search for the largest."""
    product_exponent: Figure[str]
    """"sum": a product has the sum of its factors' exponents. "normalised": one more, where its
    magnitude is 2 or more times that power."""
    product_range: Figure[str]
    """"unlimited", or "f32": a product of 2^128 or more is infinite."""
    rounding: Figure[str]
    """Of each block's sum to the accumulator's format."""
    narrowing: Figure[str] | None = None
    """Rounding from the accumulator's format to D's; None where they are the same."""
    overflow: Figure[str]
    """"infinity" or "largest": what a sum, or a result, becomes that is too large."""
    zero: Figure[str]
    """Sign of a block's sum that is zero: "+" or "-"."""
    low_bits: Figure[str] | None = None
    """"cut" or "rounded" (to nearest, ties away from zero): how the low bits of a multiplicand's
    word that the format has no room for go; None where there are none."""
    a_subnormals: Figure[str]
    """"kept", or "flushed" to zero with the element's sign; likewise for B, C and D."""
    b_subnormals: Figure[str]
    c_subnormals: Figure[str]
    d_subnormals: Figure[str]
    nan: Figure[int]
    """Bit pattern of every NaN result."""

    @property
    def multiplicand(self) -> str:
        """Name of the format in which elements of A and B are multiplied.

        Those of 8 bits are unpacked to f16, which holds each of them.
        """
        name = self.types.split(".")[1]
        return "f16" if format_named(name).bits == 8 else name

    @cached_property
    def accumulator_format(self) -> Format:
        """Format of the running sum."""
        return format_named(self.accumulator.value)

    @cached_property
    def is_usual(self) -> bool:
        """Whether the blocks are those of the GPUs measured so far, whatever their length is.

        Their arithmetic has a faster way.
        """
        accumulator = self.accumulator_format
        zero = self.zero_exponent.value
        return (
            self.rounding.value == {"f32": "rz", "f16": "rn"}[accumulator.name]
            and self.product_exponent.value == "sum"
            and self.product_range.value == "unlimited"
            and self.overflow.value == "infinity"
            and self.zero.value == "+"
            # Below every exponent of the accumulator, and its grid a normal f32.
            and zero <= -accumulator.bias
            and (accumulator.name == "f32" or zero - self.fraction_bits.value >= -126)
        )

    def blocks(self, depth: int) -> tuple[tuple[int, ...], ...]:
        """Return the ks of each block of `depth` products, in the order in which they are added."""
        length = self.block.value
        count = -(-depth // length)
        run = self.interleaved.value or length
        members: list[list[int]] = [[] for _ in range(count)]
        for k in range(depth):
            members[k // run % count].append(k)
        if self.order.value == "falling":
            members.reverse()
        return tuple(tuple(ks) for ks in members if ks)


@dataclass(frozen=True, kw_only=True)
class ScalarDot(DotUnit):
    """Four products of f16 in scalar f32 arithmetic: see `oracle.arithmetic.scalar`."""

    order: Figure[str]
    """"serial": the products are summed with rising k, then C is added. "pairs": the sum of the
    first two is added to C, then that of the last two."""


@dataclass(frozen=True, kw_only=True)
class NanRule:
    """Which NaN an f64 multiply-add a * b + c returns."""

    order: tuple[str, ...]
    """Operands in the order in which a NaN among them is looked for; the first one found is
    returned with the quiet bit set, sign and payload kept. Empty: every NaN is `canonical`."""
    invalid: int
    """Bit pattern for 0 * inf and inf - inf without a NaN operand."""
    canonical: int = 0x7FF8_0000_0000_0000
    """Bit pattern where no payload is kept."""


@dataclass(frozen=True, kw_only=True)
class DoubleChain(Unit):
    """A chain of multiply-adds in f64: see `oracle.arithmetic.double_chain`."""

    order: Figure[str]
    """"rising" or "falling" k."""
    multiply_add: Figure[str]
    """"fused": rounded once; "separate": the product is rounded first."""
    a_subnormals: Figure[str]
    """"kept", or "flushed" to zero with the element's sign; likewise for B, C and D."""
    b_subnormals: Figure[str]
    c_subnormals: Figure[str]
    d_subnormals: Figure[str]
    nan: Figure[NanRule]


@dataclass(frozen=True, kw_only=True)
class ExactSum(Unit):
    """Exact sums of integers and counts of bits, in 32 bits."""

    plain: Figure[str] | None = None
    """"wrap" or "clamp": an integer sum beyond 32 bits without .satfinite. None, as of the others:
    nobody has measured it."""
    satfinite: Figure[str] | None = None
    """The same with .satfinite."""
    bits: Figure[str] | None = None
    """The same of a count of single bits."""
