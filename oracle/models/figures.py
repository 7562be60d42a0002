"""Figures of a target's matrix units: what can differ from GPU to GPU, each as one named value.

The page leaves accumulation order, rounding and subnormal inputs open (PTX ISA 9.7.14.4.5). Every
unit that was measured so far is one of three kinds: a chain of truncated fused dot products
(f16, bf16, tf32), a chain of multiply-adds (f64), an exact sum (integers and single bits).
A `Model` has the figures of all units of one target.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
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
class Unit:
    """Figures of what computes some products."""

    compilers: CompilerRange | None = None
    """In whose code the unit computes so, if others write other instructions; None: all."""

    def serves(self, form: Form) -> bool:
        """Whether it computes the products of a form."""
        raise NotImplementedError

    def figures_for(self, form: Form) -> dict[str, Figure[Any]]:
        """Return the figures that decide the results of a form that it serves, by name."""
        return figures_in(self)


@dataclass(frozen=True, kw_only=True)
class DotUnit(Unit):
    """Figures of what computes a dot product of floats other than f64."""

    instruction: str
    types: str  # Formats of D, A, B and C, as the opcode has them: "f32.bf16.bf16.f32"
    shapes: tuple[str, ...] = ()  # Names of the shapes for which the unit is; none means all shapes

    def serves(self, form: Form) -> bool:
        return (
            (self.instruction, self.types) == (figures_of(form), form.types)
            and (not self.shapes or form.shape.name in self.shapes)
            and isinstance(self, ScaledDot) is form.is_scaled
        )


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
class DoubleChain(Unit):
    """A chain of multiply-adds in f64: see `oracle.arithmetic.doubles`."""

    order: Direction
    multiply_add: Annotated[Figure[str], _words("fused", "separate")]
    """"fused": rounded once; "separate": the product is rounded first."""
    a_subnormals: Subnormals
    b_subnormals: Subnormals
    c_subnormals: Subnormals
    d_subnormals: Subnormals
    nan: Figure[NanRule]

    def serves(self, form: Form) -> bool:
        return form.a_type.name == "f64"


@dataclass(frozen=True, kw_only=True)
class ExactSum(Unit):
    """Exact sums of integers and counts of bits, in 32 bits."""

    plain: Overflow | None = None
    """An integer sum beyond 32 bits without .satfinite; None: nobody has measured it."""
    satfinite: Overflow | None = None
    bits: Overflow | None = None  # A count of single bits

    def serves(self, form: Form) -> bool:
        return not form.a_type.is_float and exact_name(form) in figures_in(self)

    def figures_for(self, form: Form) -> dict[str, Figure[Any]]:
        return {exact_name(form): figures_in(self)[exact_name(form)]}


KINDS: Mapping[str, type[Unit]] = {
    "dot": TruncatedDot, "scalar": ScalarDot, "scaled": ScaledDot, "double": DoubleChain,
    "exact": ExactSum,
}  # fmt: skip
"""Every kind of unit, by its table in a model's file, in the order in which they stand there."""
_ALLOWED = {
    kind: {
        field.name: extra
        for field in fields(kind)
        for part in (hints[field.name], *get_args(hints[field.name]))
        for extra in getattr(part, "__metadata__", ())
    }
    for kind in KINDS.values()
    for hints in (get_type_hints(kind, include_extras=True),)
}


def allowed_of(kind: type[Unit]) -> Mapping[str, Allowed]:
    """Return what each figure of a unit can be, by its name; the NaNs of f64 are left out."""
    return _ALLOWED[kind]


AnyUnit = TypeVar("AnyUnit", bound=Unit)


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
    units: tuple[Unit, ...]

    def only(self, kind: type[AnyUnit]) -> tuple[AnyUnit, ...]:
        """Return the units of a kind."""
        return tuple(unit for unit in self.units if isinstance(unit, kind))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the values of all figures, in hexadecimal; sources and names are left out."""
        rows = []
        for row in self.only(DotUnit):
            compilers, values = releases_text(row.compilers), values_in(row)
            rows.append((row.instruction, row.types, row.shapes, compilers, *values.items()))
        doubles, exact = (
            next((tuple(values_in(unit).items()) for unit in self.only(kind)), None)
            for kind in (DoubleChain, ExactSum)
        )
        return hashlib.sha256(repr((sorted(rows), doubles, exact)).encode()).hexdigest()

    @property
    def name(self) -> str:
        """What it is called where a result is shown: its origin, and the digest's beginning."""
        return f"{Path(self.file).name or self.base} {self.digest[:12]}"

    @property
    def confidence(self) -> Confidence:
        """Least sure of the figures that decide results; the choice among f64 NaNs has its own."""
        ranges = (unit.compilers for unit in self.units)
        newest = self.compiler or max((one.first for one in ranges if one), default=None)
        return weakest(
            figure.confidence
            for unit in self.units
            if newest is None or is_among(newest, unit.compilers)
            for figure in figures_in(unit).values()
            if not isinstance(figure.value, NanRule)
        )

    def figures_for(self, form: Form) -> dict[str, Figure[Any]]:
        """Return the figures of one form, by name; UsageError if the target does not have it."""
        number = parse_target(self.target).number
        for note in notes_of(form):
            if note.target is not None and number < note.target:
                text = f"{self.target} does not have {form.opcode}. {note.text} Choose sm_"
                raise UsageError(f"{text}{note.target} or higher")
        return self.unit_for(form).figures_for(form)

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

    def unit_for(self, form: Form) -> Unit:
        """Return what computes the products of a form, or raise UsageError.

        Where there are no figures for `compiler`, those of the newest: what this one does lies
        within the bounds of the ISA, and no more is known.
        """
        if (unit := self.find(form)) is None:
            raise UsageError(
                f"the model {self.name} has no figures for {form.opcode}; measure them with "
                "`warpfuzz measure`, or choose another form or model"
            )
        return unit

    def expansion_of(self, form: Form) -> str:
        """Say whose figures a form has: "12.4 to 12.6", "all" for all compilers, or NO_FIGURES."""
        unit = self.find(form)
        if unit is None or unit.compilers is None:
            return "all"
        is_known = self.compiler is None or is_among(self.compiler, unit.compilers)
        return releases_text(unit.compilers) if is_known else NO_FIGURES

    def find(self, form: Form) -> Unit | None:
        """Return what `unit_for` does, or None where the model has nothing."""
        if form not in self._served:
            found = [unit for unit in self.units if unit.serves(form)]
            found.sort(key=lambda unit: () if unit.compilers is None else unit.compilers.first)
            if self.compiler is not None:
                found = [one for one in found if is_among(self.compiler, one.compilers)] or found
            self._served[form] = found[-1] if found else None
        return self._served[form]

    @cached_property
    def _served(self) -> dict[Form, Unit | None]:
        """What was asked for."""
        return {}


def exact_name(form: Form) -> str:
    """Return which figure of `ExactSum` decides a form of integers or single bits."""
    if form.op is not None:
        return "bits"
    return "satfinite" if form.satfinite else "plain"
