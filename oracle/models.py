"""What each target is known to compute, as data: every figure with its source and its confidence.

The page leaves accumulation order, rounding and subnormal inputs open (PTX ISA 9.7.14.4.5); what
hardware does is a chain of truncated fused dot products (oracle.arithmetic.truncated), and a
target is a handful of figures. Their sources, by short name:

H200
    Measured on one NVIDIA H200 (compute capability 9.0, driver 580.159.04, CUDA 13.0), 2026-11:
    all 138 documented variants on random bits, normal, wide-exponent and near-cancelling inputs,
    0 differing outputs of several million.
MMA-Sim
    `mmasim` 2.1.1 (Microsoft), nv_ptx/sim.py: its figures for `mma`, not `wmma`.
MATLAB-tensor-core
    Dot products recorded by Khattak and Mikaitis on V100, A100, A2, Ada, L40S, H100, H200 and
    B200 (commit b12b5a7, 2026-08): tests/data/gpu_dot_products.npz. They check the kept bits and
    the block length of one block, not the zero exponent nor the order of blocks.
SASS
    What ptxas 13.0 emits for the target, disassembled, 2026-11.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

from oracle.errors import UsageError
from oracle.formats import Format, format_named
from oracle.notes import notes_of
from oracle.targets import parse_target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oracle.isa import MmaForm

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
    return max(labels, key=_ORDER.index)


@dataclass(frozen=True, kw_only=True)
class Figure(Generic[T]):
    """One property of a target, with where it comes from."""

    value: T
    confidence: Confidence
    source: str


@dataclass(frozen=True, kw_only=True)
class TruncatedDot:
    """Figures of one truncated fused dot product: see oracle.arithmetic.truncated."""

    multiplicand: str
    """Name of the format of the elements of A and B."""
    accumulator: str
    """Name of the format in which the running sum is kept between blocks: f32 or f16."""
    block: Figure[int]
    """Products that are added to the accumulator in one go."""
    fraction_bits: Figure[int]
    """Bits kept below the binary point at the block's largest exponent."""
    zero_exponent: Figure[int]
    """Exponent with which a term that is zero takes part in the search for the largest."""

    @property
    def figures(self) -> tuple[Figure[int], ...]:
        """All figures of the row."""
        return (self.block, self.fraction_bits, self.zero_exponent)

    @property
    def accumulator_format(self) -> Format:
        """Format of the running sum."""
        return format_named(self.accumulator)


@dataclass(frozen=True, kw_only=True)
class NanRule:
    """Which NaN an f64 fused multiply-add a * b + c returns."""

    order: tuple[str, ...]
    """Operands in the order in which a NaN among them is looked for; the first one found is
    returned with the quiet bit set, sign and payload kept."""
    invalid: int
    """Bit pattern for 0 * inf and inf - inf without a NaN operand."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """What one target returns, bit for bit, as far as it is known."""

    target: str
    """The target asked for, such as "sm_90a"."""
    base: str
    """The target whose figures these are, such as "sm_90"."""
    dots: tuple[TruncatedDot, ...]
    mixed_types: Figure[str]
    """How f16 multiplicands with different types of C and D are computed."""
    integers: Figure[str]
    double_chain: Figure[str]
    double_nan: Figure[NanRule]

    @property
    def confidence(self) -> Confidence:
        """Least sure of the figures that decide results other than f64 NaNs.

        The choice among several f64 NaNs has its own label, `double_nan.confidence`.
        """
        return weakest(
            [figure.confidence for dot in self.dots for figure in dot.figures]
            + [self.mixed_types.confidence, self.integers.confidence, self.double_chain.confidence]
        )

    def figures_for(self, form: MmaForm) -> tuple[Figure[int] | Figure[str] | Figure[NanRule], ...]:
        """Return the figures that decide the results of one form.

        Raises
        ------
        UsageError
            If the target does not have the form.
        """
        self._require(form)
        if not form.a_type.is_float:
            return (self.integers,)
        if form.a_type.name == "f64":
            return (self.double_chain, self.double_nan)
        mixed = () if form.c_type == form.d_type else (self.mixed_types,)
        return (*self.dot_for(form).figures, *mixed)

    def _require(self, form: MmaForm) -> None:
        number = parse_target(self.target).number
        for note in notes_of(form):
            if note.target is not None and number < note.target:
                raise UsageError(
                    f"{self.target} does not have {form.opcode}. {note.text} Choose sm_"
                    f"{note.target} or higher"
                )

    def confidence_for(self, form: MmaForm) -> Confidence:
        """Least sure of the figures that decide the results of one form."""
        return weakest(figure.confidence for figure in self.figures_for(form))

    def dot_for(self, form: MmaForm) -> TruncatedDot:
        """Return the row for the dot products of a floating-point form other than f64.

        Raises
        ------
        UsageError
            If the target has no such multiplicands.
        """
        accumulator = "f16" if form.c_type.name == form.d_type.name == "f16" else "f32"
        return self.dot(form.a_type.name, accumulator)

    def dot(self, multiplicand: str, accumulator: str) -> TruncatedDot:
        """Return the row for one multiplicand and accumulator format.

        Raises
        ------
        UsageError
            If the target has none.
        """
        for row in self.dots:
            if (row.multiplicand, row.accumulator) == (multiplicand, accumulator):
                return row
        known = ", ".join(f"{row.multiplicand} with {row.accumulator}" for row in self.dots)
        raise UsageError(
            f"{self.target} has no floating-point matrix multiply of {multiplicand} with "
            f"accumulators of {accumulator}; it has {known}: choose another form or target"
        )


_H200 = "H200, 2026-11"


@dataclass(frozen=True, kw_only=True)
class _Row:
    """Figures of one base target, before they are spread over its formats."""

    block: int
    """Products of 16-bit elements in a block."""
    fraction_bits: int
    zero_exponent_f32: int
    zero_exponent_f16: int
    confidence: Confidence
    block_source: str
    fraction_source: str
    zero_confidence: Confidence
    zero_source: str
    alternate: bool = True
    """Whether the target has bf16, tf32 and f64 (9.7.14.4.5, Target ISA Notes: sm_80)."""


_SIM = 'MMA-Sim, architecture "{}"'
_REC = "; confirmed by MATLAB-tensor-core, {}"
_BLOCKS = "; that blocks follow each other with rising k is not measured"

_ROWS: dict[str, _Row] = {
    "sm_70": _Row(
        block=4,
        fraction_bits=23,
        zero_exponent_f32=-131,
        zero_exponent_f16=-19,
        confidence=Confidence.PUBLISHED,
        block_source=_SIM.format("Volta") + _REC.format("V100") + _BLOCKS,
        fraction_source=_SIM.format("Volta") + _REC.format("V100"),
        zero_confidence=Confidence.PUBLISHED,
        zero_source=_SIM.format("Volta"),
        alternate=False,
    ),
    "sm_75": _Row(
        block=8,
        fraction_bits=24,
        zero_exponent_f32=-132,
        zero_exponent_f16=-20,
        confidence=Confidence.PUBLISHED,
        block_source=_SIM.format("Turing") + "; SASS: HMMA.1688 twice" + _BLOCKS,
        fraction_source=_SIM.format("Turing"),
        zero_confidence=Confidence.PUBLISHED,
        zero_source=_SIM.format("Turing"),
        alternate=False,
    ),
    "sm_80": _Row(
        block=8,
        fraction_bits=24,
        zero_exponent_f32=-132,
        zero_exponent_f16=-20,
        confidence=Confidence.PUBLISHED,
        block_source=_SIM.format("Ampere") + _REC.format("A100"),
        fraction_source=_SIM.format("Ampere") + _REC.format("A100"),
        zero_confidence=Confidence.PUBLISHED,
        zero_source=_SIM.format("Ampere"),
    ),
    "sm_86": _Row(
        block=8,
        fraction_bits=24,
        zero_exponent_f32=-132,
        zero_exponent_f16=-20,
        confidence=Confidence.PUBLISHED,
        block_source="MATLAB-tensor-core, A2" + _BLOCKS,
        fraction_source="MATLAB-tensor-core, A2",
        zero_confidence=Confidence.INFERRED,
        zero_source="taken from sm_80: " + _SIM.format("Ampere"),
    ),
    "sm_89": _Row(
        block=8,
        fraction_bits=24,
        zero_exponent_f32=-132,
        zero_exponent_f16=-20,
        confidence=Confidence.PUBLISHED,
        block_source=_SIM.format("Ada Lovelace") + _REC.format("Ada and L40S"),
        fraction_source=_SIM.format("Ada Lovelace") + _REC.format("Ada and L40S"),
        zero_confidence=Confidence.PUBLISHED,
        zero_source=_SIM.format("Ada Lovelace"),
    ),
    "sm_90": _Row(
        block=16,
        fraction_bits=25,
        zero_exponent_f32=-133,
        zero_exponent_f16=-21,
        confidence=Confidence.MEASURED,
        block_source=_H200,
        fraction_source=_H200,
        zero_confidence=Confidence.MEASURED,
        zero_source=_H200,
    ),
    "sm_100": _Row(
        block=16,
        fraction_bits=25,
        zero_exponent_f32=-133,
        zero_exponent_f16=-21,
        confidence=Confidence.PUBLISHED,
        block_source=_SIM.format("Blackwell") + _REC.format("B200"),
        fraction_source=_SIM.format("Blackwell") + _REC.format("B200"),
        zero_confidence=Confidence.PUBLISHED,
        zero_source=_SIM.format("Blackwell"),
    ),
    "sm_120": _Row(
        block=16,
        fraction_bits=25,
        zero_exponent_f32=-133,
        zero_exponent_f16=-21,
        confidence=Confidence.PUBLISHED,
        block_source=_SIM.format("RTX Blackwell"),
        fraction_source=_SIM.format("RTX Blackwell"),
        zero_confidence=Confidence.PUBLISHED,
        zero_source=_SIM.format("RTX Blackwell"),
    ),
}

# SASS: HMMA.1684.F32.TF32 on every target that has tf32, so K = 8 is two blocks of 4, although
# the hardware's block would hold 8 tf32 elements from sm_90 on (MMA-Sim, m16n8k8).
_TF32_BLOCK = 4

_BASES = {
    70: "sm_70", 72: "sm_70", 75: "sm_75", 80: "sm_80", 86: "sm_86", 87: "sm_86", 88: "sm_86",
    89: "sm_89", 90: "sm_90", 100: "sm_100", 101: "sm_100", 103: "sm_100", 107: "sm_100",
    110: "sm_100", 120: "sm_120", 121: "sm_120",
}  # fmt: skip
"""Base target by number. A number that is not its base's own is a close relative on which nothing
was measured: all its figures are labelled inferred."""

# Measured on an H200 (driver 580.159.04), 2026-11-21: of several NaN the one of b is kept, then
# that of c, then that of a, in all four roundings; every invalid operation gives one pattern.
_DOUBLE_NAN = NanRule(order=("b", "c", "a"), invalid=0xFFF8_0000_0000_0000)
_DOUBLE_NAN_SOURCE = "quieting, payload, order among several NaNs, 0 * inf: H200, 2026-11-21"


def _dots(base: str, *, own: bool) -> tuple[TruncatedDot, ...]:
    row = _ROWS[base]

    def figure(value: int, confidence: Confidence, source: str) -> Figure[int]:
        if own:
            return Figure(value=value, confidence=confidence, source=source)
        return Figure(
            value=value, confidence=Confidence.INFERRED, source=f"taken from {base}: {source}"
        )

    def dot(multiplicand: str, accumulator: str) -> TruncatedDot:
        block = figure(row.block, row.confidence, row.block_source)
        if multiplicand == "tf32":
            measured = row.confidence is Confidence.MEASURED
            block = figure(
                _TF32_BLOCK,
                row.confidence if measured else Confidence.INFERRED,
                "SASS: HMMA.1684.F32.TF32" + (f"; {_H200}" if measured else ""),
            )
        narrow = accumulator == "f16"
        return TruncatedDot(
            multiplicand=multiplicand,
            accumulator=accumulator,
            block=block,
            fraction_bits=figure(row.fraction_bits, row.confidence, row.fraction_source),
            zero_exponent=figure(
                row.zero_exponent_f16 if narrow else row.zero_exponent_f32,
                row.zero_confidence,
                row.zero_source,
            ),
        )

    pairs = [("f16", "f32"), ("f16", "f16")]
    if row.alternate:
        pairs += [("bf16", "f32"), ("tf32", "f32")]
    return tuple(dot(*pair) for pair in pairs)


@cache
def model_for(target: str) -> Model:
    """Return the model of a target.

    Parameters
    ----------
    target
        Such as "sm_90", "sm_90a" or "sm_121f". Suffixes change nothing here: they add
        instructions, not arithmetic of those that are there.

    Raises
    ------
    UsageError
        If the target is unknown, or has no warp-level matrix instructions.
    """
    row = parse_target(target)
    base = _BASES.get(row.number)
    if base is None:
        raise UsageError(
            f"{target} has no wmma instructions; a model exists for "
            f"{', '.join(f'sm_{number}' for number in _BASES)} (and their suffixes)"
        )
    own = base == f"sm_{row.number}"
    measured = own and base == "sm_90"
    observed = Confidence.MEASURED if measured else Confidence.INFERRED
    return Model(
        target=target,
        base=base,
        dots=_dots(base, own=own),
        mixed_types=Figure(
            value="C f16, D f32: C widened first. C f32, D f16: the f32 result rounded to nearest "
            "even f16, sign of zero kept.",
            confidence=observed,
            source=_H200 if measured else "SASS: conversions around HMMA.F32, as on sm_90",
        ),
        integers=Figure(
            value="exact sum, wrapped to 32 bits, or clamped once with .satfinite",
            confidence=Confidence.MEASURED if measured else Confidence.PUBLISHED,
            source=_H200 if measured else "PTX ISA 9.7.14.4.5",
        ),
        double_chain=Figure(
            value="fused multiply-adds with rising k, each rounded in the mode of .rnd",
            confidence=observed,
            source=_H200
            if measured
            else "as on sm_90; MMA-Sim has the same chain for .rn on Ampere and later",
        ),
        double_nan=Figure(
            value=_DOUBLE_NAN, confidence=Confidence.INFERRED, source=_DOUBLE_NAN_SOURCE
        ),
    )
