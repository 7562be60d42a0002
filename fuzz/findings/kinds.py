"""What a wrong image looks like: where it differs, and how the values are related."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fuzz.findings.verdicts import Difference
from oracle.formats import FORMATS, Format
from oracle.forms import LdmatrixForm, MmaForm

_FEW = 16
"""Units in the last place that are few."""
_ENOUGH = 8
"""Elements with the same bits flipped that are no accident: each has a chance of one half where
the last bit is rounded the other way."""
TELLING = frozenset(
    {
        "another NaN", "NaN against a number", "infinity against a number", "the sign of zero",
        "the sign",
    }
)  # fmt: skip
"""Kinds that a fault has in every image or in none, whatever the images hold."""


def kind_of_difference(found: Sequence[Difference], form: MmaForm | LdmatrixForm | None) -> str:
    """Say in a few words what the differing elements of an image have in common.

    Parameters
    ----------
    form
        What made them; it tells the type of the elements.
    """
    if not found:
        return "not recorded"
    inside = [one for one in found if one.row >= 0]
    if len(inside) < len(found):
        return "bytes outside of the result"
    displaced = _displaced(inside)
    if displaced:
        return displaced
    masks = {one.expected ^ one.actual for one in inside}
    values = Counter(_related(one, _type(form, one)) for one in inside)
    if len(values) == 1 and next(iter(values)) in TELLING:
        return next(iter(values))
    if len(masks) == 1 and len(inside) >= _ENOUGH:
        return "always the same bits flipped"
    if len(values) == 1:
        return next(iter(values))
    if set(values) <= {"last bit toward zero", "last bit away from zero", "a few last bits"}:
        return "a few last bits"
    return "other values"


def _type(form: MmaForm | LdmatrixForm | None, one: Difference) -> Format | None:
    if isinstance(form, MmaForm) and form.d_type.bits == one.bits:
        return form.d_type
    return None


def _displaced(found: Sequence[Difference]) -> str:
    """Say how values that are all there stand elsewhere; "" if they are not."""
    if len(found) < 2:
        return ""
    expected, actual = (
        Counter(getattr(one, name) for one in found) for name in ("expected", "actual")
    )
    if expected != actual or len(expected) < 2:
        return ""
    at = {(one.row, one.column): one.expected for one in found}
    moves = {"rows": 0, "columns": 0, "transposed": 0}
    for one in found:
        moves["transposed"] += at.get((one.column, one.row)) == one.actual
        for (row, column), value in at.items():
            moves["rows"] += column == one.column and row != one.row and value == one.actual
            moves["columns"] += row == one.row and column != one.column and value == one.actual
    best = max(moves, key=lambda name: moves[name])
    if moves[best] < len(found):
        return "elements in each other's places"
    return "transposed" if best == "transposed" else f"{best} in each other's places"


def _related(one: Difference, type_: Format | None) -> str:
    """Say how the two values of one element are related."""
    if type_ is None or not type_.is_float:
        return _integers(one) if type_ == FORMATS["s32"] else "other bits"
    sign = 1 << (type_.bits - 1)
    infinity = ((1 << type_.exponent_bits) - 1) << type_.fraction_bits
    want, got = one.expected & ~sign, one.actual & ~sign
    if want > infinity or got > infinity:
        return "another NaN" if min(want, got) > infinity else "NaN against a number"
    if want == got:
        return "the sign of zero" if not want else "the sign"
    if infinity in (want, got):
        return "infinity against a number"
    if got == 0:
        return "zero against a number"
    if (one.expected ^ one.actual) & sign:
        return "other values"
    if abs(want - got) == 1:
        return f"last bit {'toward' if got < want else 'away from'} zero"
    return "a few last bits" if abs(want - got) <= _FEW else "other values"


def _integers(one: Difference) -> str:
    if one.actual in (0x7FFF_FFFF, 0x8000_0000) or one.expected in (0x7FFF_FFFF, 0x8000_0000):
        return "a clamped sum against another"
    return "off by one" if abs(one.actual - one.expected) == 1 else "other values"
