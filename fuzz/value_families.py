"""Which findings of a value campaign a person reads as one line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from corpus import Family, Kind
from fuzz.verdicts import Difference
from oracle.isa import LdmatrixForm, MmaForm
from runners.protocol import Failure

_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")


def form_name(form: MmaForm | LdmatrixForm) -> str:
    """Name a form by what it computes: without layouts, state space and what is always there."""
    left_out = ("sync", "aligned", "alayout", "blayout", "space")
    texts = [slot.text for slot in form.slots if slot.name not in left_out and slot.text]
    return " ".join((form.mnemonic, *texts))


def family_of_difference(
    kind: Kind, form: MmaForm | LdmatrixForm, found: Sequence[Difference]
) -> Family:
    """Return the family of images that came out wrong."""
    outside = isinstance(form, MmaForm) and any(one.row < 0 for one in found)
    return _family(kind, form, "writes outside of its matrix" if outside else "other result")


def family_of_failure(kind: Kind, form: MmaForm | LdmatrixForm, failure: Failure) -> Family:
    """Return the family of runs that failed: what was said, less its numbers."""
    lines = [line for line in failure.detail.splitlines() if line.strip()]
    words = f"{failure.message} {lines[0].strip()}" if lines else failure.message
    return _family(kind, form, _NUMBERS.sub("#", words)[:200])


def family_of_flaky(form: MmaForm | LdmatrixForm) -> Family:
    """Return the family of what did not come out the same every time."""
    return _family(Kind.FLAKY, form, "not the same every time")


def _family(kind: Kind, form: MmaForm | LdmatrixForm, what: str) -> Family:
    name = form_name(form)
    return Family(key=f"{kind}/{name}/{what}", title=f"{kind}: {name}: {what}")
