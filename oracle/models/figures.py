"""Figures of a target's matrix units: what can differ from GPU to GPU, each as one named value.

The page leaves accumulation order, rounding and subnormal inputs open (PTX ISA 9.7.14.4.5). Every
unit that was measured so far is one of three kinds: a chain of truncated fused dot products
(f16, bf16, tf32), a chain of multiply-adds (f64), an exact sum (integers and single bits).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import Annotated, Any, Generic, TypeVar, get_args, get_type_hints

from oracle.isa.forms import Format, format_named
from oracle.isa.targets import Release

T = TypeVar("T")


class Confidence(StrEnum):
    """How sure a figure is, from surest to least sure."""

    MEASURED = "measured"
    """Measured by this project on a GPU of that target."""
    PUBLISHED = "published"
    """Published by others who measured it on that target, or fixed by the page."""
    INFERRED = "inferred"
    """Concluded from a disassembly, from a related target, or from a like instruction."""
    SIMULATED = "simulated"
    """Found by probes of what need not be a GPU: the simulated device, a runner of somebody's."""


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


def measured(value: T) -> Figure[T]:
    """Return a figure of which only the value counts."""
    return Figure(value=value, confidence=Confidence.MEASURED, source="")


class Words:
    """A figure that is one of some words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    @property
    def allowed(self) -> str:
        """What may be given, as a sentence names it."""
        return "one of " + ", ".join(f'"{word}"' for word in self.words)

    def accepts(self, value: object) -> bool:
        """Whether a value may be given."""
        return isinstance(value, str) and value in self.words


@dataclass(frozen=True)
class Whole:
    """A figure that is an integer in a range."""

    least: int
    most: int
    hexadecimal: bool = False

    @property
    def allowed(self) -> str:
        """What may be given, as a sentence names it."""
        least, most = (f"{one:#x}" if self.hexadecimal else one for one in (self.least, self.most))
        return f"an integer from {least} to {most}"

    def accepts(self, value: object) -> bool:
        """Whether a value may be given."""
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return self.least <= value <= self.most


@cache
def allowed_of(unit: Any) -> Mapping[str, Words | Whole]:
    """Return what each figure of a unit can be, by its name; the NaNs of f64 are left out."""
    hints = get_type_hints(unit, include_extras=True)
    return {
        field.name: extra
        for field in fields(unit)
        for part in (hints[field.name], *get_args(hints[field.name]))
        for extra in getattr(part, "__metadata__", ())
    }


ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")
"""To nearest even, toward zero, down, up (9.7.14.4.5), and to nearest with ties away from zero."""
Subnormals = Annotated[Figure[str], Words("kept", "flushed")]
Direction = Annotated[Figure[str], Words("rising", "falling")]
Rounding = Annotated[Figure[str], Words(*ROUNDINGS)]
Overflow = Annotated[Figure[str], Words("wrap", "clamp")]


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
class CompilerRange:
    """Releases of compilers, one after the other."""

    first: Release
    last: Release | None
    """Last release; None: every later release, too."""

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
    types: str
    """Formats of D, A, B and C, as the opcode has them: "f32.bf16.bf16.f32"."""
    shapes: tuple[str, ...] = ()
    """Names of the shapes for which the unit is; none means all shapes."""
    compilers: CompilerRange | None = None
    """In whose code the unit computes so, if others write other instructions; None: all."""

    @property
    def d_type(self) -> str:
        """Name of the format of D."""
        return self.types.split(".")[0]

    @property
    def c_type(self) -> str:
        """Name of the format of C."""
        return self.types.split(".")[3]


@dataclass(frozen=True, kw_only=True)
class TruncatedDot(DotUnit):
    """A chain of truncated fused dot products: see `oracle.arithmetic.truncated`."""

    accumulator: Annotated[Figure[str], Words("f16", "f32")]
    """Format of the running sum between blocks. C is widened to it and D narrowed from it."""
    block: Annotated[Figure[int], Whole(1, 32)]
    """Products that are added in one go (most K: m16n8k32 of e4m3, PTX ISA 8.7)."""
    interleaved: Annotated[Figure[int], Whole(0, 16)]
    """0: a block's products follow each other. n: runs of n are dealt out to the blocks in turn."""
    order: Direction
    """"rising": the block with the lowest k comes first; "falling": that with the highest."""
    sums: Annotated[Figure[str], Words("separate")] | None = None
    """"separate": each block but the first starts at zero, and the sums of the blocks are added in
    their order, as IEEE 754 adds. None: each block adds to the sum of those before it."""
    addend: Annotated[Figure[str], Words("first", "last")]
    """"first": C is in the first block. "last": C is added to the chain's end, as IEEE 754 adds."""
    addition: Rounding | None = None
    """Rounding of those additions of C and of the sums of blocks; None where there are none."""
    fraction_bits: Annotated[Figure[int], Whole(8, 30)]
    """Bits kept below the binary point at the block's largest exponent."""
    zero_exponent: Annotated[Figure[int], Whole(-300, 300)]
    """Exponent with which a zero counts; the least is below that of all finite products, 2^-266."""
    product_exponent: Annotated[Figure[str], Words("sum", "normalised")]
    """"sum": of its factors' exponents. "normalised": one more where it is 2 or more times that."""
    subnormal_exponent: Annotated[Figure[str], Words("own")] | None = None
    """"own": a subnormal element of 8 bits counts with the least exponent of its own format, that
    of e4m3 with -6. None: elements of 8 bits count as the f16 to which they are unpacked, where
    all of e4m3 are normal."""
    product_range: Annotated[Figure[str], Words("unlimited", "f32")]
    """"unlimited", or "f32": a product of 2^128 or more is infinite."""
    rounding: Rounding
    sum_bits: Annotated[Figure[int], Whole(8, 22)] | None = None
    """Of f32's 23 bits below the point, those of each sum of 8-bit units; None: all."""
    narrowing: Rounding | None = None
    overflow: Annotated[Figure[str], Words("infinity", "largest")]
    """"infinity" or "largest": what a sum, or a result, becomes that is too large."""
    zero: Annotated[Figure[str], Words("+", "-")]
    """Sign of a block's sum that is zero: "+" or "-"."""
    low_bits: Annotated[Figure[str], Words("cut", "rounded")] | None = None
    """How bits go for which a multiplicand's format has no room (rounded: ties away)."""
    a_subnormals: Subnormals
    """"kept", or "flushed" to zero with the element's sign; likewise for B, C and D."""
    b_subnormals: Subnormals
    c_subnormals: Subnormals
    d_subnormals: Subnormals
    nan: Annotated[Figure[int], Whole(0, 0xFFFF_FFFF, hexadecimal=True)]

    @property
    def multiplicand(self) -> str:
        """Format in which A and B are multiplied; those of 8 bits are unpacked to f16."""
        name = self.types.split(".")[1]
        return "f16" if format_named(name).bits == 8 else name

    @cached_property
    def accumulator_format(self) -> Format:
        """Format of the running sum."""
        return format_named(self.accumulator.value)

    @cached_property
    def sum_format(self) -> Format:
        """Format to which sums are rounded: the accumulator's with, maybe, a shorter fraction."""
        whole = self.accumulator_format
        return whole if self.sum_bits is None else replace(whole, fraction_bits=self.sum_bits.value)

    @property
    def least_exponents(self) -> tuple[int | None, int | None]:
        """Exponent with which elements of A, and of B, count at least; None: as f16 has it."""
        if self.subnormal_exponent is None:
            return None, None
        a, b = (1 - format_named(name).bias for name in self.types.split(".")[1:3])
        return a, b

    @cached_property
    def is_usual(self) -> bool:
        """Whether the blocks are those of the GPUs measured so far: they have a faster way."""
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
    """Four products of f16 in scalar f32 arithmetic: see `oracle.arithmetic.dots`."""

    order: Annotated[Figure[str], Words("serial", "pairs")]
    """"serial": products with rising k, then C. "pairs": C, the first pair's sum, the last's."""


@dataclass(frozen=True)
class NanRule:
    """Which NaN an f64 multiply-add a * b + c returns."""

    order: tuple[str, ...]
    """Where a NaN is looked for first; it is returned quieted. Empty: every NaN is `canonical`."""
    invalid: int
    """Bit pattern for 0 * inf and inf - inf without a NaN operand."""
    canonical: int = 0x7FF8_0000_0000_0000
    """Bit pattern where no payload is kept."""


@dataclass(frozen=True, kw_only=True)
class DoubleChain(Unit):
    """A chain of multiply-adds in f64: see `oracle.arithmetic.doubles`."""

    order: Direction
    multiply_add: Annotated[Figure[str], Words("fused", "separate")]
    """"fused": rounded once; "separate": the product is rounded first."""
    a_subnormals: Subnormals
    b_subnormals: Subnormals
    c_subnormals: Subnormals
    d_subnormals: Subnormals
    nan: Figure[NanRule]


@dataclass(frozen=True, kw_only=True)
class ExactSum(Unit):
    """Exact sums of integers and counts of bits, in 32 bits."""

    plain: Overflow | None = None
    """An integer sum beyond 32 bits without .satfinite; None: nobody has measured it."""
    satfinite: Overflow | None = None
    bits: Overflow | None = None
    """A count of single bits."""
