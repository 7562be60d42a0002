"""The f64 unit: its probes, and its figures by elimination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.double_chain import chain
from oracle.arithmetic.fma import QUIET
from oracle.arithmetic.scratch import own_scratch
from oracle.isa.formats import FORMATS
from oracle.measuring.dots import Dots, Sheet
from oracle.measuring.inference import Contradiction, Fit, MeasuredFigure, contradiction_of, nans_of
from oracle.models import DoubleChain, NanRule
from oracle.models.figures import allowed_of, measured

Array = NDArray[Any]
_F64 = FORMATS["f64"]
_SEED = 0x6636_3434
_NAN = 0x7FF0_0000_0000_0001
_SUBNORMALS = tuple(f"{matrix}_subnormals" for matrix in "abcd")


def double_probes(depth: int) -> Dots:
    """Return the probes of the f64 unit; `depth` is K of the form."""
    sheet = Sheet(_F64, _F64, _F64, depth)
    rng = np.random.default_rng(_SEED)
    count = 200
    for spread in (2, 30):
        scale = 2.0 ** rng.integers(-spread, spread, (count, depth))
        a, b = (rng.standard_normal((count, depth)) * scale for _ in "ab")
        sheet.values("order and fusion", a, b, rng.standard_normal(count))
        a[:, 1], b[:, 1] = -a[:, 0], b[:, 0]
        sheet.values("order and fusion", a, b, rng.standard_normal(count) * 2.0**-40)
    # Ties: integers that are odd multiples of half a last place beside 2^53.
    a = rng.integers(1, 8, (count, depth)) * rng.choice([-1.0, 1.0], (count, depth))
    c = rng.choice([-1.0, 1.0], count) * (2.0**53 + 2.0 * rng.integers(0, 64, count))
    sheet.values("ties", a, np.ones((count, depth)), c)
    _subnormals(sheet)
    _nans(sheet)
    one = np.ones(depth)
    for place in range(depth):
        for x, y, c1 in (
            (np.inf, 0.0, 1.0), (0.0, np.inf, 1.0), (np.inf, 1.0, -np.inf), (-np.inf, 1.0, 1.0),
            (1.0, np.inf, np.inf), (1.0, 1.0, -np.inf), (2.0**600, 2.0**600, 1.0),
            (-(2.0**600), 2.0**600, 1.0),
        ):  # fmt: skip
            a, b = one.copy(), one.copy()
            a[place], b[place] = x, y
            sheet.values("infinities and overflow", a, b, c1)
    for x, c1 in product((0.0, -0.0), repeat=2):
        sheet.values("sign of zero", np.full(depth, x), one, c1)
    cancelling = one.copy()
    cancelling[1::2] = -1.0
    sheet.values("sign of zero", cancelling, one, 0.0)
    bits = [
        rng.integers(0, 1 << 64, shape, dtype=np.uint64)
        for shape in ((count, depth), (count, depth), (count,))
    ]
    sheet.patterns("random bits", bits[0], bits[1], bits[2])
    return sheet.dots()


def _subnormals(sheet: Sheet) -> None:
    k = sheet.depth
    tiny, huge = np.full(k, 2.0**-1030), np.full(k, 2.0**1010)
    for sign in (1.0, -1.0):
        c = 2.0**-22
        sheet.values("subnormals in A", sign * tiny, huge, c)
        sheet.values("subnormals in B", huge, sign * tiny, c)
        none = np.zeros(k)
        sheet.values("subnormals in C", none, none, sign * 2.0**-1030)
        sheet.values(
            "subnormals in C", np.full(k, sign * 2.0**-512), np.full(k, 2.0**-510),
            np.array([sign * 2.0**-1030]),
        )  # fmt: skip
        product_ = np.full(k, -sign * 2.0**-515)
        sheet.values("subnormals in D", product_, np.full(k, 2.0**-510), sign * 2.0**-1022)


def _nans(sheet: Sheet) -> None:
    """NaNs with payloads of their own in every choice of A, B and C, quiet and signalling."""
    k = sheet.depth
    one = np.float64(1.0).view(np.uint64)
    for places in product((False, True), repeat=3):
        for quiet, sign in product((0, QUIET), (0, 1 << 63)):
            rows = [np.full((1, k), one), np.full((1, k), one), np.full((1,), one)]
            for number, (row, there) in enumerate(zip(rows, places, strict=True)):
                if there:
                    row[..., 0] = np.uint64(_NAN + 16 * number | quiet | sign)
            sheet.patterns("NaN", rows[0], rows[1], rows[2])


def fit_doubles(dots: Dots, returned: Mapping[str, Array]) -> Fit:
    """Find the figures of the f64 unit from probes and what was returned, by rounding."""
    values: dict[str, Any] = {
        "order": "rising", "multiply_add": "fused", **dict.fromkeys(_SUBNORMALS, "kept"),
        "nan": NanRule(order=("b", "c", "a"), invalid=0xFFF8 << 48),
    }  # fmt: skip
    for stage, names in (
        (("order and fusion",), ("order", "multiply_add")),
        (("subnormals in A",), ("a_subnormals",)),
        (("subnormals in B",), ("b_subnormals",)),
        # A subnormal C is a subnormal D where nothing is added to it.
        (("subnormals in C", "subnormals in D"), ("c_subnormals", "d_subnormals")),
    ):
        part = dots.of(*stage)
        some = {rounding: d[part] for rounding, d in returned.items()}
        tried = [
            {**values, **dict(zip(names, chosen, strict=True))}
            for chosen in product(*(_ALL[name] for name in names))
        ]
        values = min(tried, key=lambda one: _wrong(one, dots.where(part), some))
    rules = _nan_rules(dots, returned)
    part = dots.of("NaN", "infinities and overflow")
    some = {rounding: d[part] for rounding, d in returned.items()}
    tried = [{**values, "nan": rule} for rule in rules]
    values = min(tried, key=lambda one: _wrong(one, dots.where(part), some))
    if _wrong(values, dots, returned):
        return Fit(figures={}, contradiction=_contradiction(values, dots, returned))
    return Fit(figures=_findings(values, rules, dots, returned), contradiction=None)


_ALL: Mapping[str, tuple[str, ...]] = {
    name: one.words for name, one in allowed_of(DoubleChain).items()
}


def _computed(values: Mapping[str, Any], dots: Dots, rounding: str) -> Array:
    rule = DoubleChain(**{name: measured(value) for name, value in values.items()})
    operands = (dots.a[:, None, :], dots.b[:, :, None], dots.c[:, None, None])
    d = chain(*operands, rounding=rounding, rule=rule, scratch=own_scratch())
    return np.array(d[0, 0])


def _wrong(values: Mapping[str, Any], dots: Dots, returned: Mapping[str, Array]) -> int:
    return sum(
        int(np.count_nonzero(_computed(values, dots, rounding) != d))
        for rounding, d in returned.items()
    )


def _nan_rules(dots: Dots, returned: Mapping[str, Array]) -> list[NanRule]:
    """Return the rules that the NaNs of the device leave: its words are read off."""
    d = next(iter(returned.values()))
    invalids = nans_of(d[dots.of("infinities and overflow")], _F64)[:4] or [0xFFF8 << 48]
    rules = [
        NanRule(order=order, invalid=invalid)
        for invalid in invalids
        for order in permutations("bca")
    ]
    for canonical in nans_of(d[dots.of("NaN")], _F64)[:4]:
        rules += [NanRule(order=(), invalid=one, canonical=canonical) for one in invalids]
    return rules


def _findings(
    values: dict[str, Any], rules: list[NanRule], dots: Dots, returned: Mapping[str, Array]
) -> dict[str, MeasuredFigure]:
    found = {}
    for name, value in values.items():
        every: tuple[Any, ...] = tuple(rules) if name == "nan" else _ALL[name]
        counts = {
            other: _wrong({**values, name: other}, dots, returned)
            for other in every
            if other != value
        }
        found[name] = MeasuredFigure(
            value=value,
            others=tuple(other for other, count in counts.items() if not count),
            refuting=min((count for count in counts.values() if count), default=0),
        )
    return found


def _contradiction(
    values: dict[str, Any], dots: Dots, returned: Mapping[str, Array]
) -> Contradiction:
    """Return the first probe that is not explained, in the first rounding that shows one."""
    for rounding, d in returned.items():
        made = _computed(values, dots, rounding)
        if (made != d).any():
            break
    return contradiction_of(
        dots, d, made, differing=_wrong(values, dots, returned), among=len(dots) * len(returned),
        note=f" (.{rounding})",
    )  # fmt: skip


def canonical_rule(rule: NanRule) -> NanRule:
    """Return a rule without what does not matter, so that rules can be compared."""
    return rule if not rule.order else replace(rule, canonical=NanRule.canonical)
