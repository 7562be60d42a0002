"""Comparisons and selections (PTX ISA 9.7.6 and 9.7.7)."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from runners.simulated.binary import NAMED
from runners.simulated.floating import flushed, is_nan, order
from runners.simulated.integers import of_type, store, written
from runners.simulated.operands import SINK, Operands
from runners.simulated.syntax import TYPE_BITS
from runners.simulated.warps import Mask, Operation, Values, Warps

_COMPARE: dict[str, Callable[[Values, Values], Values]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
# Aliases of the unsigned comparisons (PTX ISA 9.3.1.1).
_ALIASES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMBINE: dict[str, Callable[[Values, Values], Values]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}

Compare = Callable[[Values, Values], Values]


def _float_comparison(name: str, kind: str, flush: bool) -> Compare:
    """Return a comparison; with `u` behind its name it holds for NaN, too (PTX ISA 9.3.1.2)."""

    def compare(a: Values, b: Values) -> Any:
        if flush:
            a, b = flushed(a, kind), flushed(b, kind)
        nan = is_nan(a, kind) | is_nan(b, kind)
        if name in ("num", "nan"):
            return nan if name == "nan" else ~nan
        # Zeros are equal whatever their sign: the order has -0 one below 0.
        x, y = (np.where(each == -1, 0, each) for each in (order(a, kind), order(b, kind)))
        found = _COMPARE[name.removesuffix("u")](x, y)
        return found | nan if name.endswith("u") else found & ~nan

    return compare


def _comparison(operands: Operands, match: re.Match[str]) -> Compare:
    """Return what compares two operands' raw bits."""
    name, kind = match["name"], match["type"].removesuffix("x2")
    if kind in NAMED:
        # Without `u`, ne and the others are false for NaN; neu is the one that C has.
        if name in _ALIASES:
            operands.unsupported("this comparison is for unsigned integers")
        return _float_comparison(name, kind, match["ftz"] is not None)
    base = _ALIASES.get(name, name)
    if base not in _COMPARE or match["ftz"] or (kind[0] == "b" and base not in ("eq", "ne")):
        operands.unsupported("this comparison does not exist")
    if name in _ALIASES and kind[0] == "s":
        operands.unsupported("this comparison is for unsigned integers")
    plain = _COMPARE[base]
    return of_type(plain, kind)


def _set_predicate(operands: Operands, match: re.Match[str]) -> Operation:
    """Compare, combine with a predicate, and write one predicate or two."""
    kind = match["type"]
    compare = _comparison(operands, match)
    given = operands.expect(4 if match["combine"] else 3)
    first, second = operands.pair(given[0])
    if kind.endswith("x2") and second is None:
        operands.unsupported("two results of two halves are p|q")
    bits = TYPE_BITS[kind]
    left, right = (operands.source(each, bits) for each in given[1:3])
    combine = _COMBINE[match["combine"]] if match["combine"] else None
    other = operands.source(given[3], 1) if combine else None
    key = operands.destination(first, 1)
    also = SINK if second is None else operands.destination(second, 1)

    if combine is None and second is None:
        return written(key, 1, compare, (left, right))

    def combined(found: Values, warps: Warps) -> Values:
        return found if combine is None or other is None else combine(found, other(warps))

    def run(warps: Warps, mask: Mask) -> None:
        a, b = left(warps), right(warps)
        if kind.endswith("x2"):
            low = compare(a.astype(np.uint16), b.astype(np.uint16))
            shift = np.uint32(16)
            high = compare((a >> shift).astype(np.uint16), (b >> shift).astype(np.uint16))
        else:
            low = compare(a, b)
            high = ~low
        warps.write(key, combined(low, warps), mask)
        if also != SINK:
            warps.write(also, combined(high, warps), mask)

    return run


def _set_word(operands: Operands, match: re.Match[str]) -> Operation:
    """Compare, and write all ones or 1.0 where it holds."""
    kind, result = match["type"], match["result"]
    compare = _comparison(operands, match)
    given = operands.expect(4 if match["combine"] else 3)
    bits = TYPE_BITS[kind]
    sources = [operands.source(each, bits) for each in given[1:3]]
    if match["combine"]:
        sources.append(operands.source(given[3], 1))
    true = 0x3F80_0000 if result == "f32" else 0xFFFF_FFFF

    def compute(a: Values, b: Values, *other: Values) -> Values:
        found = compare(a, b)
        if other:
            found = _COMBINE[match["combine"]](found, other[0])
        return np.where(found, np.uint32(true), np.uint32(0))

    return store(operands, 32, compute, *sources)


def _select(operands: Operands, match: re.Match[str]) -> Operation:
    bits = TYPE_BITS[match["type"]]
    _, one, other, choice = operands.expect(4)
    sources = [operands.source(each, bits, copied=True) for each in (one, other)]
    predicate = operands.source(choice, 1)
    return store(operands, bits, np.where, predicate, *sources)


def _select_by_sign(operands: Operands, match: re.Match[str]) -> Operation:
    """Select by whether a third operand is below zero (slct)."""
    bits = TYPE_BITS[match["type"]]
    _, one, other, choice = operands.expect(4)
    sources = [operands.source(each, bits) for each in (one, other)]

    def compute(c: Values, a: Values, b: Values) -> Values:
        if match["by"] == "s32":
            return np.where(c.view(np.int32) >= 0, a, b)
        seen = flushed(c, "f32") if match["ftz"] else c
        at_least = (order(seen, "f32") >= -1) & ~is_nan(seen, "f32")
        return np.where(at_least, a, b)

    return store(operands, bits, compute, operands.source(choice, 32), *sources)


_NAMES = "|".join([f"{name}u?" for name in _COMPARE] + [*_ALIASES, "num", "nan"])
_TYPES = r"(?P<type>[bus](?:16|32|64)|f16x2|bf16x2|f16|bf16|f32|f64)"
_SELECTED = r"(?P<type>[bus](?:16|32|64)|f32|f64)"
_COMBINED = r"(?:\.(?P<combine>and|or|xor))?"
_FTZ = r"(?P<ftz>\.ftz)?"

FORMS: tuple[tuple[re.Pattern[str], Callable[[Operands, re.Match[str]], Operation]], ...] = tuple(
    (re.compile(pattern), decoder)
    for pattern, decoder in (
        (rf"setp\.(?P<name>{_NAMES}){_COMBINED}{_FTZ}\.{_TYPES}", _set_predicate),
        (
            rf"set\.(?P<name>{_NAMES}){_COMBINED}{_FTZ}\.(?P<result>u32|s32|b32|f32)\.{_TYPES}",
            _set_word,
        ),
        (rf"selp\.{_SELECTED}", _select),
        (rf"slct(?P<ftz>\.ftz)?\.{_SELECTED}\.(?P<by>s32|f32)", _select_by_sign),
    )
)
"""Every form that is known, as the pattern of its opcode and what decodes it."""
