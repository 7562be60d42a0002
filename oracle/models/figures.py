"""Figures of a target's matrix units: what can differ from GPU to GPU, each as one named value.

The page leaves accumulation order, rounding and subnormal inputs open (PTX ISA 9.7.14.4.5). Every
unit that was measured so far is one of three kinds: a chain of truncated fused dot products
(f16, bf16, tf32), a chain of multiply-adds (f64), an exact sum (integers and single bits).
A `Model` has the figures of all units of one target.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, get_args, get_type_hints

from oracle.errors import UsageError
from oracle.isa.forms import Form, Format, format_named
from oracle.isa.lookup import figures_of, notes_of
from oracle.isa.targets import Release, parse_target

T = TypeVar("T")


class Confidence(StrEnum):
    """How sure a figure is, from surest to least sure."""

    MEASURED = "measured"  # Measured by this project on a GPU of that target
    PUBLISHED = "published"  # Published by others who measured that target, or fixed by the page
    INFERRED = "inferred"  # Concluded from a disassembly, a related target or a like instruction
    SIMULATED = "simulated"
    """Found by probes of what need not be a GPU: the simulated device, a runner of somebody's."""


def weakest(labels: Iterable[Confidence]) -> Confidence:
    """Return the least sure of some labels; SIMULATED if there is none."""
    return max(labels, key=list(Confidence).index, default=Confidence.SIMULATED)


@dataclass(frozen=True)
class Figure(Generic[T]):
    """One property of a target, with where it comes from."""

    value: T
    confidence: Confidence
    source: str


def measured(value: T) -> Figure[T]:
    """Return a figure of which only the value counts."""
    return Figure(value=value, confidence=Confidence.MEASURED, source="")


@dataclass(frozen=True)
class Allowed:
    """What a figure may be: one of some words, or, without words, an integer in a range."""

    words: tuple[str, ...] = ()
    least: int = 0
    most: int = 0
    hexadecimal: bool = False


def values_allowed(allowed: Allowed) -> Sequence[Any]:
    """Return all that a figure may be."""
    return allowed.words or range(allowed.least, allowed.most + 1)


def _words(*words: str) -> Allowed:
    return Allowed(words)


@cache
def allowed_of(unit: Any) -> Mapping[str, Allowed]:
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
Subnormals = Annotated[Figure[str], _words("kept", "flushed")]
Direction = Annotated[Figure[str], _words("rising", "falling")]
Rounding = Annotated[Figure[str], _words(*ROUNDINGS)]
Overflow = Annotated[Figure[str], _words("wrap", "clamp")]


@dataclass(frozen=True, kw_only=True)
class CompilerRange:
    """Releases of compilers, one after the other."""

    first: Release
    last: Release | None  # Last release; None: every later release, too


def is_among(release: Release, compilers: CompilerRange | None) -> bool:
    """Tell whether a release is one of some, of which None is all."""
    if compilers is None:
        return True
    return compilers.first <= release and (compilers.last is None or release <= compilers.last)


def releases_text(compilers: CompilerRange | None) -> str:
    """Return releases as a model's file has them: "12.4", "12.4 to 12.6"; "" for all."""
    if compilers is None:
        return ""
    first, last = compilers.first, compilers.last
    if last is None:
        return f"{first} and later"
    return f"{first}" if first == last else f"{first} to {last}"


@dataclass(frozen=True, kw_only=True)
class DotUnit:
    """Figures of what computes a dot product of floats other than f64."""

    instruction: str
    types: str  # Formats of D, A, B and C, as the opcode has them: "f32.bf16.bf16.f32"
    shapes: tuple[str, ...] = ()  # Names of the shapes for which the unit is; none means all shapes
    compilers: CompilerRange | None = None
    """In whose code the unit computes so, if others write other instructions; None: all."""


@dataclass(frozen=True, kw_only=True)
class TruncatedDot(DotUnit):
    """A chain of truncated fused dot products: see `oracle.arithmetic.dots`."""

    accumulator: Annotated[Figure[str], _words("f16", "f32")]
    """Format of the running sum between blocks. C is widened to it and D narrowed from it."""
    block: Annotated[Figure[int], Allowed(least=1, most=32)]
    """Products that are added in one go (most K: m16n8k32 of e4m3, PTX ISA 8.7)."""
    interleaved: Annotated[Figure[int], Allowed(most=16)]
    """0: a block's products follow each other. n: runs of n are dealt out to the blocks in turn."""
    order: Direction
    """"rising": the block with the lowest k comes first; "falling": that with the highest."""
    sums: Annotated[Figure[str], _words("separate")] | None = None
    """"separate": each block but the first starts at zero, and the sums of the blocks are added in
    their order, as IEEE 754 adds. None: each block adds to the sum of those before it."""
    addend: Annotated[Figure[str], _words("first", "last")]
    """"first": C is in the first block. "last": C is added to the chain's end, as IEEE 754 adds."""
    addition: Rounding | None = None
    """Rounding of those additions of C and of the sums of blocks; None where there are none."""
    fraction_bits: Annotated[Figure[int], Allowed(least=8, most=30)]
    """Bits kept below the binary point at the block's largest exponent."""
    zero_exponent: Annotated[Figure[int], Allowed(least=-300, most=300)]
    """Exponent with which a zero counts; the least is below that of all finite products, 2^-266."""
    product_exponent: Annotated[Figure[str], _words("sum", "normalised")]
    """"sum": of its factors' exponents. "normalised": one more where it is 2 or more times that."""
    subnormal_exponent: Annotated[Figure[str], _words("own")] | None = None
    """"own": a subnormal element of 8 bits counts with the least exponent of its own format, that
    of e4m3 with -6. None: elements of 8 bits count as the f16 to which they are unpacked, where
    all of e4m3 are normal."""
    product_range: Annotated[Figure[str], _words("unlimited", "f32")]
    """"unlimited", or "f32": a product of 2^128 or more is infinite."""
    rounding: Rounding
    sum_bits: Annotated[Figure[int], Allowed(least=8, most=22)] | None = None
    """Of f32's 23 bits below the point, those of each sum of 8-bit units; None: all."""
    narrowing: Rounding | None = None
    overflow: Annotated[Figure[str], _words("infinity", "largest")]
    """"infinity" or "largest": what a sum, or a result, becomes that is too large."""
    zero: Annotated[Figure[str], _words("+", "-")]  # Sign of a block's sum that is zero: "+" or "-"
    low_bits: Annotated[Figure[str], _words("cut", "rounded")] | None = None
    """How bits go for which a multiplicand's format has no room (rounded: ties away)."""
    a_subnormals: Subnormals
    """"kept", or "flushed" to zero with the element's sign; likewise for B, C and D."""
    b_subnormals: Subnormals
    c_subnormals: Subnormals
    d_subnormals: Subnormals
    nan: Annotated[Figure[int], Allowed(most=0xFFFF_FFFF, hexadecimal=True)]

    @property
    def d_type(self) -> str:
        """Name of the format of D."""
        return self.types.split(".")[0]

    @property
    def c_type(self) -> str:
        """Name of the format of C."""
        return self.types.split(".")[3]

    @property
    def multiplicand(self) -> str:
        """Format in which A and B are multiplied; those of 8 bits are unpacked to f16."""
        name = self.types.split(".")[1]
        return "f16" if format_named(name).bits <= 8 else name

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
        accumulator, zero = self.accumulator_format, self.zero_exponent.value
        named = (self.product_exponent, self.product_range, self.overflow, self.zero)
        return (
            self.rounding.value == {"f32": "rz", "f16": "rn"}[accumulator.name]
            and [one.value for one in named] == ["sum", "unlimited", "infinity", "+"]
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

    order: Annotated[Figure[str], _words("serial", "pairs")]
    """"serial": products with rising k, then C. "pairs": C, the first pair's sum, the last's."""


@dataclass(frozen=True, kw_only=True)
class ScaledDot(DotUnit):
    """A truncated fused dot product of scaled blocks, into f32: see `oracle.arithmetic.scaled`."""

    group: Annotated[Figure[int], Allowed(least=1, most=64)]
    """Neighbouring products whose exact sum, times its scales, is one term."""
    aligned: Annotated[Figure[str], _words("products", "scales")]
    """Exponent of a term: that of its scales, "products": and of its largest product."""
    fraction_bits: Annotated[Figure[int], Allowed(least=8, most=40)]
    """Bits kept below the binary point at the largest exponent among all terms and C."""
    zero_exponent: Annotated[Figure[int], Allowed(least=-300, most=300)]
    """Exponent of a C of zero, and of a term all of whose products, or one of whose scales, are."""
    rounding: Rounding
    nan: Annotated[Figure[int], Allowed(most=0xFFFF_FFFF, hexadecimal=True)]


@dataclass(frozen=True)
class NanRule:
    """Which NaN an f64 multiply-add a * b + c returns."""

    order: tuple[str, ...]
    """Where a NaN is looked for first; it is returned quieted. Empty: every NaN is `canonical`."""
    invalid: int  # Bit pattern for 0 * inf and inf - inf without a NaN operand
    canonical: int = 0x7FF8_0000_0000_0000  # Bit pattern where no payload is kept


@dataclass(frozen=True, kw_only=True)
class DoubleChain:
    """A chain of multiply-adds in f64: see `oracle.arithmetic.doubles`."""

    order: Direction
    multiply_add: Annotated[Figure[str], _words("fused", "separate")]
    """"fused": rounded once; "separate": the product is rounded first."""
    a_subnormals: Subnormals
    b_subnormals: Subnormals
    c_subnormals: Subnormals
    d_subnormals: Subnormals
    nan: Figure[NanRule]


@dataclass(frozen=True, kw_only=True)
class ExactSum:
    """Exact sums of integers and counts of bits, in 32 bits."""

    plain: Overflow | None = None
    """An integer sum beyond 32 bits without .satfinite; None: nobody has measured it."""
    satfinite: Overflow | None = None
    bits: Overflow | None = None  # A count of single bits


AnyDot = TypeVar("AnyDot", bound=DotUnit)
Unit = DotUnit | DoubleChain | ExactSum


def figures_in(unit: Unit) -> dict[str, Figure[Any]]:
    """Return the figures of a unit by name; those that it does not have are left out."""
    return {name: value for name, value in vars(unit).items() if isinstance(value, Figure)}


def values_in(unit: Unit) -> dict[str, Any]:
    """Return the values of the figures of a unit by name."""
    return {name: figure.value for name, figure in figures_in(unit).items()}


NO_FIGURES = "none"
"""What a form's figures are called in code of a compiler that has none (`Model.expansion_of`)."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """What one target returns, bit for bit, as far as it is known."""

    target: str  # The target asked for, such as "sm_90a"
    base: str  # The target whose figures these are, such as "sm_90"
    file: str = ""  # The file of a model that is not built in, as it was named
    compiler: Release | None = None
    """The release of the compiler whose code is meant; None: the newest that figures are of."""
    dots: tuple[TruncatedDot, ...]
    scalars: tuple[ScalarDot, ...] = ()
    scaled: tuple[ScaledDot, ...] = ()
    doubles: DoubleChain | None
    exact: ExactSum

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the values of all figures, in hexadecimal; sources and names are left out."""
        rows = []
        for row in (*self.dots, *self.scalars, *self.scaled):
            compilers, values = releases_text(row.compilers), values_in(row)
            rows.append((row.instruction, row.types, row.shapes, compilers, *values.items()))
        doubles = None if self.doubles is None else tuple(values_in(self.doubles).items())
        text = repr((sorted(rows), doubles, tuple(values_in(self.exact).items())))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def name(self) -> str:
        """What it is called where a result is shown: its origin, and the digest's beginning."""
        return f"{Path(self.file).name or self.base} {self.digest[:12]}"

    @property
    def units(self) -> Iterator[Unit]:
        """All units."""
        doubles = () if self.doubles is None else (self.doubles,)
        yield from (*self.dots, *self.scalars, *self.scaled, *doubles, self.exact)

    @property
    def confidence(self) -> Confidence:
        """Least sure of the figures that decide results; the choice among f64 NaNs has its own."""
        dots: tuple[DotUnit, ...] = (*self.dots, *self.scalars, *self.scaled)
        newest = self.compiler or max(
            (row.compilers.first for row in dots if row.compilers), default=None
        )
        return weakest(
            figure.confidence
            for unit in self.units
            if newest is None or not isinstance(unit, DotUnit) or is_among(newest, unit.compilers)
            for figure in figures_in(unit).values()
            if self.doubles is None or figure is not self.doubles.nan
        )

    def figures_for(self, form: Form) -> dict[str, Figure[Any]]:
        """Return the figures of one form, by name; UsageError if the target does not have it."""
        number = parse_target(self.target).number
        for note in notes_of(form):
            if note.target is not None and number < note.target:
                text = f"{self.target} does not have {form.opcode}. {note.text} Choose sm_"
                raise UsageError(f"{text}{note.target} or higher")
        if not form.a_type.is_float:
            return {exact_name(form): self.exact_for(form)}
        if form.a_type.name == "f64":
            return figures_in(self.double_chain)
        if form.is_scaled:
            return figures_in(self.scaled_for(form))
        return figures_in(self.scalar_for(form) or self.dot_for(form))

    def confidence_for(self, form: Form) -> Confidence:
        """Least sure of the figures that decide the results of one form."""
        return weakest(figure.confidence for figure in self.figures_for(form).values())

    def judges(self, form: Form) -> bool:
        """Whether it has figures of a form."""
        try:
            self.figures_for(form)
        except UsageError:
            return False
        return True

    def exact_for(self, form: Form) -> Figure[str]:
        """Return how a form of integers or single bits overflows, or raise UsageError."""
        return self._known(figures_in(self.exact).get(exact_name(form)), form.opcode)

    @property
    def double_chain(self) -> DoubleChain:
        """Figures of f64, or UsageError."""
        return self._known(self.doubles, "f64")

    def dot_for(self, form: Form) -> TruncatedDot:
        """Return the figures of a floating-point form other than f64, or raise UsageError."""
        return self._known(self.find_dot(form), form.opcode)

    def _known(self, figures: T | None, what: str) -> T:
        if figures is None:
            raise UsageError(
                f"the model {self.name} has no figures for {what}; measure them with `warpfuzz "
                "measure`, or choose another form or model"
            )
        return figures

    def find_dot(self, form: Form) -> TruncatedDot | None:
        """Return what `dot_for` does, or None where the model has nothing."""
        return None if form.is_scaled else self._serving(self.dots, form)

    def scaled_for(self, form: Form) -> ScaledDot:
        """Return the figures of a form with scaled blocks, or raise UsageError."""
        return self._known(self._serving(self.scaled, form), form.opcode)

    def expansion_of(self, form: Form) -> str:
        """Say whose figures a form has: "12.4 to 12.6", "all" for all compilers, or NO_FIGURES.

        Where there are none for `compiler`, `dot_for` and `scalar_for` return those of the newest:
        what this one does lies within the bounds of the ISA, and no more is known.
        """
        row: DotUnit | None = self.find_dot(form) or self.scalar_for(form)
        if form.is_scaled:
            row = self._serving(self.scaled, form)
        if row is None or row.compilers is None:
            return "all"
        is_known = self.compiler is None or is_among(self.compiler, row.compilers)
        return releases_text(row.compilers) if is_known else NO_FIGURES

    def scalar_for(self, form: Form) -> ScalarDot | None:
        """Return the figures of a form that is computed in scalar arithmetic; of others None."""
        return self._serving(self.scalars, form)

    @cached_property
    def _served(self) -> dict[tuple[type, Form], Any]:
        """The rows that were asked for, by their own type and the form."""
        return {}

    def _serving(self, rows: tuple[AnyDot, ...], form: Form) -> AnyDot | None:
        """Return the row that is for a form; of several the newest compiler's, if none fits."""
        if not rows:
            return None
        key = type(rows[0]), form
        if key not in self._served:
            self._served[key] = self._found(rows, form)
        served: AnyDot | None = self._served[key]
        return served

    def _found(self, rows: tuple[AnyDot, ...], form: Form) -> AnyDot | None:
        wanted, shape = (figures_of(form), form.types), form.shape.name
        found = [
            row
            for row in rows
            if (row.instruction, row.types) == wanted and (not row.shapes or shape in row.shapes)
        ]
        found.sort(key=lambda row: () if row.compilers is None else row.compilers.first)
        if self.compiler is not None:
            found = [row for row in found if is_among(self.compiler, row.compilers)] or found
        return found[-1] if found else None

    def dot(self, multiplicand: str, accumulator: str) -> TruncatedDot:
        """Return the figures of wmma.mma for formats of A and B, and of C and D, or UsageError."""
        types = f"{accumulator}.{multiplicand}.{multiplicand}.{accumulator}"
        rows = (row for row in self.dots if (row.instruction, row.types) == ("wmma.mma", types))
        return self._known(next(rows, None), f"wmma.mma of {types}")


def exact_name(form: Form) -> str:
    """Return which figure of `ExactSum` decides a form of integers or single bits."""
    if form.op is not None:
        return "bits"
    return "satfinite" if form.satfinite else "plain"
