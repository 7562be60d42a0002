"""Infers figures from what a device returned: by elimination, one property after the other.

A hypothesis is a value for every figure. It starts with values that every measured GPU has; each
stage varies one figure (or a few that show together) over all values that a model can have, and
keeps the hypotheses with which the oracle computes exactly what the device returned for a family
of probes that depends on nothing that is still open. Several may stay: then later families, and
at last all probes together, decide between them, or nothing does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import CANONICAL_NAN, is_nan
from oracle.arithmetic.dots import dot_product
from oracle.arithmetic.scratch import own_scratch
from oracle.isa.formats import FORMATS, Format
from oracle.measuring.dots import Dots
from oracle.models import TruncatedDot
from oracle.models.figures import allowed_of, measured

Array = NDArray[Any]
Values = Mapping[str, Any]

ZERO_EXPONENTS = range(-165, 46)
"""Exponents of a zero that are tried: from where no result shows it (2^-149 less 16 and 8 bits)."""
_MOST = 64
"""Hypotheses that are kept from stage to stage."""
_ZEROS = ("zeros beside C", "zeros beside products", "zeros among tiny products")
_MOST_MOVES = 12
"""Figures changed one after the other where a hypothesis does not explain everything yet."""


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """A dot product that no figures explain."""

    family: str
    a: tuple[int, ...]
    b: tuple[int, ...]
    c: int
    returned: int
    nearest: int | None
    """By the hypothesis that explains the most probes; None where there is only one."""
    differing: int
    """Probes that this hypothesis does not explain, `among` all."""
    among: int


@dataclass(frozen=True, kw_only=True)
class MeasuredFigure:
    """What was found out of one figure."""

    value: Any
    others: tuple[Any, ...]
    """Values that no probe tells from it."""
    refuting: int
    """Least number of probes that refute one of the remaining values."""
    known: Any = None
    """Value of the model that warpfuzz has; None where it has no such figure."""

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

    figures: Mapping[str, MeasuredFigure]
    """By name; empty if nothing fits."""
    contradiction: Contradiction | None

    @property
    def values(self) -> Values:
        """The values that were found."""
        return {name: figure.value for name, figure in self.figures.items()}


def rule_of(types: str, values: Values, *, instruction: str = "wmma.mma") -> TruncatedDot:
    """Return a unit with these values; it has no figure whose value is None."""
    figures: dict[str, Any] = {
        name: measured(value) for name, value in values.items() if value is not None
    }
    return TruncatedDot(instruction=instruction, types=types, **figures)


def computed(types: str, values: Values, dots: Dots) -> Array:
    """Return what the oracle computes for dot products, patterns (count,)."""
    result = np.empty(len(dots), FORMATS[types.split(".")[0]].raw)
    rule = rule_of(types, values)
    for start in range(0, len(dots), 4096):
        part = slice(start, start + 4096)
        d = dot_product(
            dots.a[part, None, :], dots.b[part, :, None], dots.c[part, None, None],
            rule=rule, scratch=own_scratch(),
        )  # fmt: skip
        result[part] = d[0, 0]
    return result


class ProbeEvidence:
    """Probes of one unit with what the device returned."""

    def __init__(self, types: str, dots: Dots, returned: Array) -> None:
        self.types, self.dots, self.returned = types, dots, returned
        self.d_type: Format = FORMATS[types.split(".")[0]]

    def part(self, families: Sequence[str]) -> ProbeEvidence:
        """Return the evidence of some families."""
        chosen = self.dots.of(*families)
        return ProbeEvidence(self.types, self.dots.where(chosen), self.returned[chosen])

    def differing(self, values: Values, *, loose: bool = False) -> NDArray[np.bool_]:
        """Return for which probes a hypothesis is wrong; `loose` takes NaNs, and zeros, as one."""
        made, fmt = computed(self.types, values, self.dots), self.d_type
        different: NDArray[np.bool_] = made != self.returned
        if loose:
            different &= ~(is_nan(made, fmt) & is_nan(self.returned, fmt))
            different &= (made | self.returned) & made.dtype.type(fmt.magnitude) != 0
        return different


def nans_of(bits: Array, fmt: Format) -> list[int]:
    """Return the NaNs among some patterns, the most frequent first."""
    found, counts = np.unique(bits[is_nan(bits, fmt)], return_counts=True)
    return [int(found[i]) for i in np.argsort(-counts)]


def contradiction_of(
    dots: Dots, returned: Array, made: Array, *, differing: int, among: int, note: str = ""
) -> Contradiction:
    """Return the first probe that a hypothesis does not explain; `note` adds to its family."""
    first = int(np.flatnonzero(made != returned)[0])
    return Contradiction(
        family=f"{dots.family[first]}{note}",
        a=tuple(dots.a[first].tolist()),
        b=tuple(dots.b[first].tolist()),
        c=int(dots.c[first]),
        returned=int(returned[first]),
        nearest=int(made[first]),
        differing=differing,
        among=among,
    )


def fit(evidence: ProbeEvidence, depth: int) -> Fit:
    """Find the figures of a unit of `depth` products in a dot product."""
    return _Search(evidence, depth).fit()


def _joined(one: MeasuredFigure, other: MeasuredFigure | None) -> MeasuredFigure:
    """Return what two hypotheses that explain everything leave open of a figure."""
    if other is None:
        return one
    values = (*one.others, other.value, *other.others)
    return MeasuredFigure(
        value=one.value,
        others=tuple(dict.fromkeys(each for each in values if each != one.value)),
        refuting=min(one.refuting, other.refuting),
    )


class _Search:
    def __init__(self, evidence: ProbeEvidence, depth: int) -> None:
        self.evidence, self.depth = evidence, depth
        self.d_type, self.multiplicand, _, self.c_type = evidence.types.split(".")
        self.halves = self.d_type == self.c_type == "f16"

    def fit(self) -> Fit:
        beam = [self.consistent(self.start())]
        for families, variations in self.stages():
            beam = self.narrowed(beam, families, variations)
        best, count = self.best(beam)
        for _ in range(_MOST_MOVES):
            if not count:
                break
            # A family depended on a figure that was found later: one at a time, on everything.
            every = self.all()
            moved = [{**best, name: one} for name, all_ in every.items() for one in all_]
            # What is counted from the exponent of a product moves with what that is.
            counted = ("fraction_bits", "zero_exponent")
            moved += [
                {**best, "product_exponent": one, **{name: best[name] + by for name in counted}}
                for one, by in product(every["product_exponent"], (-1, 1))
                if all(best[name] + by in every[name] for name in counted)
            ]
            again, fewer = self.best([self.consistent(values) for values in moved])
            if fewer >= count:
                break
            best, count = again, fewer
        if count:
            return Fit(figures={}, contradiction=self.contradiction(best))
        best, *rivals = sorted([best, *islice(self.rivals(best), 1)], key=len)
        found = self.findings(best)
        for rival in map(self.findings, rivals):
            found = {name: _joined(one, rival.get(name)) for name, one in found.items()}
        return Fit(figures=found, contradiction=None)

    def rivals(self, best: Values) -> Iterator[dict[str, Any]]:
        """Iterate over hypotheses with the sum in another format that explain everything, too.

        Its rounding goes with its format: no change of one figure leads from the one to the other.
        """
        every = self.all()
        roundings = self.evidence.part(("rounding",))
        for accumulator in every["accumulator"]:
            if accumulator == best["accumulator"]:
                continue
            changed = self.consistent({**best, "accumulator": accumulator})
            names = [name for name in ("rounding", "addition", "narrowing") if name in changed]
            for values in product(*(every[name] for name in names)):
                rival = {**changed, **dict(zip(names, values, strict=True))}
                if not roundings.differing(rival).any() and not self.best([rival])[1]:
                    yield rival

    def start(self) -> dict[str, Any]:
        """Return a hypothesis to begin with; a stage varies each of its values."""
        values: dict[str, Any] = {
            "accumulator": "f16" if self.halves else "f32", "block": self.depth, "interleaved": 0,
            "order": "rising", "addend": "first", "fraction_bits": 24, "zero_exponent": -170,
            "product_exponent": "sum", "product_range": "unlimited", "rounding": "rz",
            "overflow": "infinity", "zero": "+", "nan": CANONICAL_NAN[self.d_type],
            **{f"{matrix}_subnormals": "kept" for matrix in "abcd"},
        }  # fmt: skip
        if FORMATS[self.multiplicand].ignored_bits:
            values["low_bits"] = "cut"
        if FORMATS[self.multiplicand].bits == 8:
            values |= {"subnormal_exponent": None, "sum_bits": None}
        nans = nans_of(self.evidence.returned, self.evidence.d_type)
        return values | ({"nan": nans[0]} if nans else {})

    def consistent(self, values: Values) -> dict[str, Any]:
        """Return a hypothesis with the figures that its others ask for, and no more."""
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

    def all(self) -> dict[str, tuple[Any, ...]]:
        """Return every value that each figure can have, but NaN's, which is read off."""
        made: dict[str, tuple[Any, ...]] = {
            name: one.values for name, one in allowed_of(TruncatedDot).items() if name != "nan"
        }
        made["block"] = (*range(self.depth, 0, -1), *range(self.depth + 1, 33))
        made["interleaved"] = tuple(range(self.depth // 2 + 1))
        made["zero_exponent"] = tuple(ZERO_EXPONENTS)
        for name in ("sums", "subnormal_exponent", "sum_bits"):
            made[name] = (None, *made[name])
        if FORMATS[self.multiplicand].bits > 8:
            del made["subnormal_exponent"], made["sum_bits"]
        if not self.halves:
            made["accumulator"] = ("f32",)
        if not FORMATS[self.multiplicand].ignored_bits:
            del made["low_bits"]
        return made

    def stages(self) -> Iterator[tuple[tuple[str, ...], Callable[[Values], Iterator[Values]]]]:
        """Return families, and what a hypothesis may change to explain them, stage by stage."""
        every = self.all()

        def free(*names: str) -> Callable[[Values], Iterator[Values]]:
            def variations(values: Values) -> Iterator[Values]:
                present = [name for name in names if name in values]
                for chosen in product(*(every[name] for name in present)):
                    yield dict(zip(present, chosen, strict=True))

            return variations

        yield ("order",), self.structures
        yield ("alignment",), free("fraction_bits", "rounding")
        yield ("subnormals in A",), free("a_subnormals", "subnormal_exponent")
        yield ("subnormals in B",), free("b_subnormals", "subnormal_exponent")
        yield ("exponents of subnormals",), free("subnormal_exponent")
        yield ("subnormals in D",), free("d_subnormals")
        yield ("normalisation",), free("product_exponent")
        if "low_bits" in every:
            yield ("low bits", "rounding"), free("low_bits", "rounding", "addition", "narrowing")
        else:
            yield ("rounding",), free("rounding", "addition", "narrowing", "sum_bits")
        yield _ZEROS, free("zero_exponent")
        yield ("subnormals in C",), free("c_subnormals")
        yield ("rounding of subnormals",), free("rounding", "addition")
        yield ("overflow of sums", "overflow of products"), free("overflow", "product_range")
        yield ("sign of zero",), free("zero")

    def structures(self, values: Values) -> Iterator[Values]:
        """Return every way to put products into blocks, and C; no two that are the same."""
        seen = set()
        every = self.all()
        for block in every["block"]:
            for run in (0, *(run for run in range(1, block) if block % run == 0)):
                for sums, order, accumulator, addend in product(
                    every["sums"], every["order"], every["accumulator"], every["addend"]
                ):
                    change = {
                        "block": block, "interleaved": run, "order": order, "sums": sums,
                        "accumulator": accumulator, "addend": addend,
                    }  # fmt: skip
                    rule = rule_of(self.evidence.types, self.consistent({**values, **change}))
                    key = (rule.blocks(self.depth), rule.sums is None, accumulator, addend)
                    if key not in seen:
                        seen.add(key)
                        yield change

    def narrowed(
        self, beam: list[dict[str, Any]], families: tuple[str, ...],
        variations: Callable[[Values], Iterator[Values]],
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Return the hypotheses that explain most of some families: all of them, as a rule."""
        part = self.evidence.part(families)
        if not len(part.dots):
            return beam
        tried, counts, seen = [], [], set()
        loose = "sign of zero" not in families
        for before in beam:
            for change in variations(before):
                values = self.consistent({**before, **change})
                key = tuple(values.items())
                if key not in seen:
                    seen.add(key)
                    tried.append(values)
                    counts.append(int(np.count_nonzero(part.differing(values, loose=loose))))
        least = min(counts)
        kept = [values for values, count in zip(tried, counts, strict=True) if count == least]
        return self.unlike(kept)[:_MOST]

    def unlike(self, beam: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return one of those hypotheses that no probe of any family tells apart."""
        if len(beam) == 1:
            return beam
        evidence = self.evidence
        made = {computed(evidence.types, one, evidence.dots).tobytes(): one for one in beam[::-1]}
        return list(made.values())[::-1]

    def best(self, beam: Sequence[Values]) -> tuple[dict[str, Any], int]:
        counts = [int(np.count_nonzero(self.evidence.differing(values))) for values in beam]
        index = int(np.argmin(counts))
        return dict(beam[index]), counts[index]

    def findings(self, best: dict[str, Any]) -> dict[str, MeasuredFigure]:
        """Return each figure with the values that no probe tells from it."""
        found = {}
        every = self.all() | {"nan": (best["nan"],)}
        for name, value in best.items():
            own = self.evidence.part(_ZEROS) if name == "zero_exponent" else self.evidence
            others, refuting = [], []
            for other in every[name]:
                if other == value:
                    continue
                made = self.consistent({**best, name: other})
                if made == best or made["interleaved"] >= made["block"]:
                    continue
                count = int(np.count_nonzero(own.differing(made)))
                if not count and own is not self.evidence:
                    count = int(np.count_nonzero(self.evidence.differing(made)))
                if count:
                    refuting.append(count)
                else:
                    others.append(other)
            found[name] = MeasuredFigure(
                value=value, others=tuple(others), refuting=min(refuting, default=0)
            )
        return found

    def contradiction(self, best: dict[str, Any]) -> Contradiction:
        evidence = self.evidence
        made = computed(evidence.types, best, evidence.dots)
        differing = int(np.count_nonzero(made != evidence.returned))
        return contradiction_of(
            evidence.dots, evidence.returned, made, differing=differing, among=len(evidence.dots)
        )
