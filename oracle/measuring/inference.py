"""Infers figures from what a device returned: by elimination, one property after the other.

A hypothesis is a value for every figure. It starts with values that every measured GPU has; each
stage varies one figure (or a few that show together) over all values that a model can have, and
keeps the hypotheses with which the oracle computes exactly what the device returned for a family
of probes that depends on nothing that is still open. Several may stay: then later families, and
at last all probes together, decide between them, or nothing does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import CANONICAL_NAN, is_nan, own_scratch
from oracle.arithmetic.dots import dot_product
from oracle.arithmetic.doubles import chain
from oracle.arithmetic.scaled import scaled_product
from oracle.execution.chosen import Scales
from oracle.execution.products import multiply, parts
from oracle.execution.products import product as product_of
from oracle.isa.forms import FORMATS, Form
from oracle.measuring.probes import Dots
from oracle.models import DoubleChain, Model, NanRule, ScaledDot, TruncatedDot, Unit
from oracle.models.figures import ROUNDINGS, DotUnit, allowed_of, measured, values_allowed

Array = NDArray[Any]


def multiplied(
    form: Form, a: Array, b: Array, c: Array, model: Model, scales: Scales | None = None
) -> Array:
    """Return what a model says of some matrices, (count, m, n)."""
    if form.opaque:
        return multiply(form, a, b, c, model=model)
    d = np.empty((len(c), form.shape.m, form.shape.n), form.d_type.raw)
    # Of an A that metadata place, what is stored is multiplied, of B what it meets.
    for part in parts(form, len(c)):
        own = None if scales is None else (scales[0][part], scales[1][part])
        d[part] = product_of(form, a[part], b[part], c[part], model, own_scratch(), scales=own)
    return d


Values = Mapping[str, Any]
Change = Callable[[Values], Iterable[Values]]  # What a hypothesis may change to explain a family

_ZERO_EXPONENTS = range(-165, 46)
"""Exponents of a zero that are tried: from where no result shows it (2^-149 less 16 and 8 bits)."""
_MOST = 64  # Hypotheses that are kept from stage to stage
_ZEROS = ("zeros beside C", "zeros beside products", "zeros among tiny products")
_FAR, _HIGH = ("C beside a product",), "C beside a high product"
_SIGNED = {"sign of zero", "NaN", "infinities and overflow"}
"""Families in which one zero or NaN is not as good as another."""
_MOST_MOVES = 12  # Figures changed one after the other where not everything is explained yet
_INVALID = 0xFFF8 << 48
_FIRST = 512  # Probes that a hypothesis meets first; twice as many take half as long again
_OF_DOUBLES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("order and fusion",), ("order", "multiply_add")),
    (("subnormals in A",), ("a_subnormals",)),
    (("subnormals in B",), ("b_subnormals",)),
    # A subnormal C is a subnormal D where nothing is added to it.
    (("subnormals in C", "subnormals in D"), ("c_subnormals", "d_subnormals")),
    (("NaN", "infinities and overflow"), ("nan",)),
)
"""Stages of the f64 unit: families, and the figures that vary. Those of others are in `_Floats`."""


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """A dot product that no figures explain."""

    family: str
    a: tuple[int, ...]
    b: tuple[int, ...]
    c: int
    returned: int
    nearest: int | None  # By the hypothesis that explains most; None where there is only one
    differing: int  # Probes that this hypothesis does not explain, `among` all
    among: int
    scales: tuple[tuple[int, ...], ...] = ()  # Of A and B, where they have any


@dataclass(frozen=True, kw_only=True)
class MeasuredFigure:
    """What was found out of one figure."""

    value: Any
    others: tuple[Any, ...] = ()  # Values that no probe tells from it
    refuting: int = 0  # Least number of probes that refute one of the remaining values
    known: Any = None  # Value of the model that warpfuzz has; None where it has no such figure

    @property
    def is_known(self) -> bool:
        """Whether the model's value explains everything that was seen."""
        return self.known in (self.value, *self.others)

    @property
    def is_told(self) -> bool:
        """Whether the probes tell its value from all others."""
        return all(other == self.value for other in self.others)

    @property
    def chosen(self) -> Any:
        """The model's value where nothing tells it from what was found, else what was found."""
        return self.known if self.is_known else self.value

    @property
    def rivals(self) -> list[Any]:
        """Values that no probe tells from the chosen one."""
        return [one for one in (self.value, *self.others) if one != self.chosen]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What was found out of one unit."""

    figures: Mapping[str, MeasuredFigure]  # By name; empty if nothing fits
    contradiction: Contradiction | None = None

    @property
    def values(self) -> Values:
        """The values that were found."""
        return {name: figure.value for name, figure in self.figures.items()}


def _roundings(usual: str) -> Sequence[str]:
    # Of sums that keep fewer bits than the result has, hardly a probe tells: the usual comes first.
    return sorted(ROUNDINGS, key=lambda one: one != usual)


def rule_of(kind: type[Unit], types: str, values: Values) -> Any:
    """Return a unit of a kind with these values; it has no figure whose value is None."""
    given: Any = {name: measured(value) for name, value in values.items() if value is not None}
    given |= {"instruction": "", "types": types} if issubclass(kind, DotUnit) else {}
    return kind(**given)


def kind_of(types: str, dots: Dots) -> type[Unit]:
    """Return what a model has of a unit that takes dot products."""
    if dots.scales is not None:
        return ScaledDot
    return DoubleChain if types.startswith("f64") else TruncatedDot


def computed(types: str, values: Values, dots: Dots, rounding: str = "rn") -> Array:
    """Return what the oracle computes for dot products, patterns (count,); `rounding` is of f64."""
    result = np.empty(len(dots), FORMATS[types.split(".")[0]].raw)
    rule = rule_of(kind_of(types, dots), types, values)
    for start in range(0, len(dots), 4096):
        part = slice(start, start + 4096)
        operands = dots.a[part, None, :], dots.b[part, :, None], dots.c[part, None, None]
        if dots.scales is not None:
            scales = dots.scales[0][part, None, :], dots.scales[1][part, :, None]
            made = scaled_product(*operands, scales, dots.scale_type, rule)
            d: Array = made.transpose(1, 2, 0)
        elif isinstance(rule, DoubleChain):
            d = chain(*operands, rounding=rounding, rule=rule, scratch=own_scratch())
        else:
            d = dot_product(*operands, rule=rule, scratch=own_scratch())
        result[part] = d[0, 0]
    return result


@dataclass(frozen=True, eq=False)
class ProbeEvidence:
    """Probes of one unit with what the device returned."""

    types: str
    dots: Dots
    returned: Array  # (count,), of f64 those of every rounding one behind the other
    roundings: tuple[str, ...] = ("rn",)

    def made(self, values: Values) -> Array:
        """Return what a hypothesis says is returned."""
        found = [computed(self.types, values, self.dots, one) for one in self.roundings]
        return np.concatenate(found)

    def part(self, families: Sequence[str]) -> ProbeEvidence:
        """Return the evidence of some families."""
        return self._rows(self.dots.of(*families))

    def _rows(self, chosen: NDArray[np.bool_]) -> ProbeEvidence:
        returned = self.returned[np.tile(chosen, len(self.roundings))]
        return ProbeEvidence(self.types, self.dots.where(chosen), returned, self.roundings)

    def differing(self, values: Values, *, loose: bool = False, most: int | None = None) -> int:
        """Return for how many probes a hypothesis is wrong; `loose` takes NaNs, zeros as one.

        Where it is wrong for more than `most`, some of them are enough: counting ends.
        """
        fmt, count = FORMATS[self.types.split(".")[0]], 0
        for part in self._parts:
            made, returned = part.made(values), part.returned
            different = made != returned
            if loose:
                different &= ~(is_nan(made, fmt) & is_nan(returned, fmt))
                different &= (made | returned) & made.dtype.type(fmt.magnitude) != 0
            count += int(np.count_nonzero(different))
            if most is not None and count > most:
                break
        return count

    @cached_property
    def _parts(self) -> tuple[ProbeEvidence, ...]:
        # Some of every family first: most hypotheses are wrong for one of few probes.
        place = np.arange(len(self.dots)) % max(1, len(self.dots) // _FIRST)
        return tuple(self._rows(place == 0 if first else place != 0) for first in (True, False))

    def nans(self) -> list[int]:
        """Return the NaNs that the device returned, the most frequent first."""
        is_one = is_nan(self.returned, FORMATS[self.types.split(".")[0]])
        found, counts = np.unique(self.returned[is_one], return_counts=True)
        return [int(found[i]) for i in np.argsort(-counts)]

    def contradiction(self, values: Values) -> Contradiction:
        """Return the first probe that a hypothesis does not explain."""
        made = self.made(values)
        (wrong,) = np.nonzero(made != self.returned)
        turn, row = divmod(int(wrong[0]), len(self.dots))
        note = f" (.{self.roundings[turn]})" if len(self.roundings) > 1 else ""
        return Contradiction(
            family=f"{self.dots.family[row]}{note}", a=tuple(self.dots.a[row].tolist()),
            b=tuple(self.dots.b[row].tolist()), c=int(self.dots.c[row]),
            returned=int(self.returned[wrong[0]]), nearest=int(made[wrong[0]]),
            differing=len(wrong), among=len(made),
            scales=tuple(tuple(one[row].tolist()) for one in self.dots.scales or ()),
        )  # fmt: skip


def fit(evidence: ProbeEvidence) -> Fit:
    """Find the figures of a unit."""
    searches = {DoubleChain: _Search, TruncatedDot: _Floats, ScaledDot: _Scaled}
    kind = kind_of(evidence.types, evidence.dots)
    return searches[kind](evidence, kind).fit()


class _Search:
    """The search for the figures of a unit; this one is that of f64."""

    def __init__(self, evidence: ProbeEvidence, kind: type[Unit]) -> None:
        self.evidence, self.kind = evidence, kind
        self.unexplained = 0  # Probes of the families of the last stage
        allowed = allowed_of(kind).items()
        self.every = {name: values_allowed(one) for name, one in allowed if name != "nan"}
        """Every value that each figure can have."""
        self.every |= self.values()

    def values(self) -> dict[str, Sequence[Any]]:
        """Return values that are tried of some figures in place of all that are allowed."""
        # Words of NaNs are read off.
        evidence = self.evidence
        invalids = evidence.part(("infinities and overflow",)).nans()[:4] or [_INVALID]
        orders = [*permutations("bca")]
        nans = [NanRule(order=order, invalid=one) for one in invalids for order in orders]
        for canonical in evidence.part(("NaN",)).nans()[:4]:
            nans += [NanRule(order=(), invalid=one, canonical=canonical) for one in invalids]
        return {"nan": tuple(nans)}

    def start(self) -> dict[str, Any]:
        """Return a hypothesis to begin with; a stage varies each of its values."""
        return {name: values[0] for name, values in self.every.items()}

    def stages(self) -> Iterator[tuple[tuple[str, ...], Change]]:
        return ((families, self.free(*names)) for families, names in _OF_DOUBLES)

    def free(self, *names: str) -> Change:
        def changes(values: Values) -> Iterator[Values]:
            present = [name for name in names if name in values]
            for chosen in product(*(self.every[name] for name in present)):
                yield dict(zip(present, chosen, strict=True))

        return changes

    def consistent(self, values: Values) -> dict[str, Any]:
        return dict(values)

    def moved(self, best: Values) -> Iterator[Values]:
        return ({**best, name: one} for name, all_ in self.every.items() for one in all_)

    def fit(self) -> Fit:
        beam = [self.consistent(self.start())]
        for families, change in self.stages():
            beam = self.narrowed(beam, families, change)
        best, count = self.best(beam)
        for _ in range(_MOST_MOVES):
            if not count:
                break
            # A family depended on a figure that was found later: one at a time, on everything.
            again, fewer = self.best([self.consistent(values) for values in self.moved(best)])
            if fewer >= count:
                break
            best, count = again, fewer
        if count:
            return Fit(figures={}, contradiction=self.evidence.contradiction(best))
        # With the sum in another format everything may be explained, too: no other figure's change
        # leads there. The hypothesis with fewer figures is what is told.
        best, *rivals = sorted([best, *islice(self.rivals(best), 1)], key=len)
        found = self.findings(best)
        for rival in map(self.findings, rivals):
            for name in found.keys() & rival.keys():
                one, other = found[name], rival[name]
                values = dict.fromkeys((*one.others, other.value, *other.others))
                others = tuple(value for value in values if value != one.value)
                refuting = min(one.refuting, other.refuting)
                found[name] = MeasuredFigure(value=one.value, others=others, refuting=refuting)
        return Fit(figures=found)

    def rivals(self, best: Values) -> Iterator[dict[str, Any]]:
        roundings = self.evidence.part(("rounding",))
        for accumulator in self.every.get("accumulator", ()):
            if accumulator != best["accumulator"]:
                changed = self.consistent({**best, "accumulator": accumulator})
                for some in self.free("rounding", "addition", "narrowing")(changed):
                    rival = {**changed, **some}
                    if not roundings.differing(rival) and not self.best([rival])[1]:
                        yield rival

    def narrowed(
        self, beam: list[dict[str, Any]], families: Sequence[str], change: Change
    ) -> list[dict[str, Any]]:
        """Return the hypotheses that explain most of some families: all of them, as a rule."""
        part = self.evidence.part(families)
        if not len(part.dots):
            return beam
        loose = _SIGNED.isdisjoint(families)
        counts: dict[tuple[Any, ...], int] = {}
        least = len(part.returned)
        for before in beam:
            for changed in change(before):
                values = self.consistent({**before, **changed})
                key = tuple(values.items())
                if key not in counts:
                    counts[key] = part.differing(values, loose=loose, most=least)
                    least = min(least, counts[key])
        kept = [dict(key) for key, count in counts.items() if count == least]
        if len(kept) > 1:  # one of those that no probe of any family tells apart
            kept = [*{self.evidence.made(one).tobytes(): one for one in kept[::-1]}.values()][::-1]
        return kept[:_MOST]

    def best(self, beam: Sequence[Values]) -> tuple[dict[str, Any], int]:
        best, least = beam[0], len(self.evidence.returned) + 1
        for values in beam:
            if (count := self.evidence.differing(values, most=least - 1)) < least:
                best, least = values, count
        return dict(best), least

    def findings(self, best: dict[str, Any]) -> dict[str, MeasuredFigure]:
        found = {}
        for name, value in best.items():
            own = self.evidence.part(_ZEROS) if name == "zero_exponent" else self.evidence
            others, least = [], 0
            for other in self.every.get(name, ()):
                made = self.consistent({**best, name: other})
                is_same = made == best or made.get("interleaved", 0) >= made.get("block", 1)
                if other == value or is_same:
                    continue
                # Of zeros, their own probes count where any refutes.
                count = own.differing(made, most=least or None)
                if not count and own is not self.evidence:
                    count = self.evidence.differing(made, most=least or None)
                if count:
                    least = min(count, least or count)
                else:
                    others.append(other)
            found[name] = MeasuredFigure(value=value, others=tuple(others), refuting=least)
        return found


class _Floats(_Search):
    """The search for the figures of a truncated dot product."""

    def __init__(self, evidence: ProbeEvidence, kind: type[Unit]) -> None:
        self.depth = evidence.dots.a.shape[1]
        self.d_type, multiplicand, _, c_type = evidence.types.split(".")
        multiplied = FORMATS[multiplicand]
        self.is_small = multiplied.bits == 8
        self.has_low_bits = multiplied.ignored_bits and not self.is_small
        self.halves = self.d_type == c_type == "f16"
        super().__init__(evidence, kind)
        absent = [] if self.has_low_bits else ["low_bits"]
        for name in (*absent, *([] if self.is_small else ["subnormal_exponent", "sum_bits"])):
            del self.every[name]

    def values(self) -> dict[str, Sequence[Any]]:
        optional = ("sums", "subnormal_exponent", "sum_bits")
        return {
            "block": (*range(self.depth, 0, -1), *range(self.depth + 1, 33)),
            "interleaved": tuple(range(self.depth // 2 + 1)),
            "zero_exponent": tuple(_ZERO_EXPONENTS),
            "rounding": _roundings("rn" if self.halves else "rz"),
            "accumulator": self.every["accumulator"] if self.halves else ("f32",),
            **{name: (None, *self.every[name]) for name in optional},
        }

    def start(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "accumulator": "f16" if self.halves else "f32", "block": self.depth, "interleaved": 0,
            "order": "rising", "addend": "first", "fraction_bits": 24, "zero_exponent": -170,
            "product_exponent": "sum", "product_range": "unlimited", "rounding": "rz",
            "overflow": "infinity", "zero": "+",
            "nan": (*self.evidence.nans(), CANONICAL_NAN[self.d_type])[0],
            **{f"{matrix}_subnormals": "kept" for matrix in "abcd"},
        }  # fmt: skip
        if self.has_low_bits:
            values["low_bits"] = "cut"
        if self.is_small:
            values |= {"subnormal_exponent": None, "sum_bits": None}
        return values

    def consistent(self, values: Values) -> dict[str, Any]:
        made = dict(values)
        if made.get("sums") is None or made["block"] >= self.depth:
            made.pop("sums", None)
        if made["addend"] == "last" or "sums" in made:
            made.setdefault("addition", made["rounding"])
        else:
            made.pop("addition", None)
        if made["accumulator"] != self.d_type:
            made.setdefault("narrowing", "rn")
        else:
            made.pop("narrowing", None)
        if made["interleaved"] and made["block"] % made["interleaved"]:
            made["interleaved"] = 0
        if made["accumulator"] != "f32":
            made.pop("sum_bits", None)
        return made

    def stages(self) -> Iterator[tuple[tuple[str, ...], Change]]:
        free = self.free
        if self.is_small:  # The order of blocks shows only beside these.
            yield _FAR, free("accumulator", "addend", "fraction_bits", "rounding", "sum_bits")
            yield ("order",), self.structures(is_whole=False)
        if self.unexplained or not self.is_small:
            yield ("order",), self.structures()
        if self.is_small:
            yield ("alignment",), free()
        if self.unexplained or not self.is_small:
            yield ("alignment",), free("fraction_bits", "rounding")
        yield ("subnormals in A",), free("a_subnormals", "subnormal_exponent")
        yield ("subnormals in B",), free("b_subnormals", "subnormal_exponent")
        yield ("exponents of subnormals",), free("subnormal_exponent")
        yield ("subnormals in D",), free("d_subnormals")
        yield ("normalisation", _HIGH), free("product_exponent")
        if "low_bits" in self.every:
            yield ("low bits", "rounding"), free("low_bits", "rounding", "addition", "narrowing")
        else:
            yield ("rounding", _HIGH), free("rounding", "addition", "narrowing", "sum_bits")
        yield _ZEROS, free("zero_exponent")
        yield ("subnormals in C",), free("c_subnormals")
        yield ("rounding of subnormals",), free("rounding", "addition")
        yield ("overflow of sums", "overflow of products"), free("overflow", "product_range")
        yield ("sign of zero",), free("zero")

    def structures(self, *, is_whole: bool = True) -> Change:
        """Return every way to put products into blocks, and C; no two that are the same.

        Those that are not whole have blocks of neighbours, and C as it is.
        """
        names = ("sums", "order", *(("accumulator", "addend") if is_whole else ()))

        def changes(values: Values) -> Iterator[Values]:
            seen = set()
            for block in self.every["block"]:
                runs = (run for run in range(1, block) if block % run == 0)
                for run in (0, *(runs if is_whole else ())):
                    for chosen in product(*(self.every[name] for name in names)):
                        change = dict(zip(names, chosen, strict=True))
                        change |= {"block": block, "interleaved": run}
                        tried = self.consistent({**values, **change})
                        rule = rule_of(self.kind, self.evidence.types, tried)
                        key = (rule.blocks(self.depth), rule.sums is None, *chosen[2:])
                        if key not in seen:
                            seen.add(key)
                            yield change

        return changes

    def moved(self, best: Values) -> Iterator[Values]:
        yield from super().moved(best)
        # What is counted from the exponent of a product moves with what that is.
        counted = ("fraction_bits", "zero_exponent")
        for one, by in product(self.every["product_exponent"], (-1, 1)):
            changed = {name: best[name] + by for name in counted}
            if all(changed[name] in self.every[name] for name in counted):
                yield {**best, "product_exponent": one, **changed}


class _Scaled(_Search):
    """The search for the figures of scaled blocks."""

    def values(self) -> dict[str, Sequence[Any]]:
        scales = self.evidence.dots.scales
        assert scales is not None
        # What has a scale in common can be a term.
        most = self.evidence.dots.a.shape[1] // scales[0].shape[1]
        return {
            "group": [1 << bit for bit in range(most.bit_length())],
            "rounding": _roundings("rz"),
            "zero_exponent": tuple(_ZERO_EXPONENTS),
        }

    def start(self) -> dict[str, Any]:
        return {
            "group": 1, "aligned": "products", "fraction_bits": 24, "zero_exponent": -165,
            "rounding": "rz", "nan": (*self.evidence.nans(), CANONICAL_NAN["f32"])[0],
        }  # fmt: skip

    def stages(self) -> Iterator[tuple[tuple[str, ...], Change]]:
        yield (*_FAR, _HIGH), self.free("aligned", "fraction_bits", "rounding")
        yield ("groups",), self.free("group", "fraction_bits")
        yield ("rounding",), self.free("rounding")
        yield _ZEROS, self.free("zero_exponent")
