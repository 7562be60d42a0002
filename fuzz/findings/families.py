"""Which findings of a value campaign a person reads as one line.

A family is what explains the images, if one of `difference_causes` does; otherwise the unit that
computes (the type of the multiplicands, or ldmatrix), and whether bytes outside of the results
differ, or all differences are of a sort that does not depend on the contents. How values are
related otherwise does depend on them, and one fault must not be many lines: that stands in the
title, and not in the key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from corpus import Family, Kind
from fuzz.findings.causes import CausesOfRound
from fuzz.findings.kinds import TELLING, kind_of_difference
from fuzz.findings.tracing import trace
from fuzz.findings.verdicts import Difference, differences
from oracle.execution import execute
from oracle.forms import LdmatrixForm, MmaForm
from oracle.isa import FORMS
from oracle.legality import Explanation
from oracle.program import Program, walk
from oracle.reasons import Rule
from oracle.steps import LoadRows, Multiply, Step
from runners.protocol import Failure
from strategies.drafts import Draft, canonical, fits_declarations
from strategies.features import main_form
from strategies.vocabulary import documented

# Rules about spelling and operands: a breach has nothing to do with shape and type.
_SPELLING = frozenset(
    {
        Rule.SYNTAX, Rule.REPEATED_QUALIFIER, Rule.ORDER, Rule.OPERANDS, Rule.VECTOR,
        Rule.REGISTER, Rule.ADDRESS, Rule.STRIDE,
    }
)  # fmt: skip
_MODIFIERS = ("op", "popc", "rnd", "satfinite", "trans", "num")
"""Qualifiers that are named where they are written: a plainer instruction would lack them."""


def core_of(kind: Kind, draft: Draft, explanation: Explanation) -> str:
    """Return what shrinking must keep: the family but for qualifiers that may prove needless."""
    return " | ".join(_about(kind, draft, explanation, modifiers=False))


def family_of(kind: Kind, draft: Draft, explanation: Explanation, summary: str) -> Family:
    """Return the family of a finding.

    Parameters
    ----------
    summary
        What the assembler said, numbers and names abstracted; shown where it says more than the
        kind does.
    """
    about = _about(kind, draft, explanation, modifiers=True)
    said = f": {summary}" if kind in _TELLING and summary else ""
    title = f"{kind}: {', '.join(about[1:])}{said}"
    return Family(key=" | ".join(about), title=title[:_TITLE_LENGTH])


_TELLING = (Kind.INTERNAL, Kind.UNREADABLE, Kind.REJECTED)
"""Kinds of which the assembler's own words say something."""
_DEADLY = (Kind.CRASH, Kind.HANG)
_TITLE_LENGTH = 240


def _about(kind: Kind, draft: Draft, explanation: Explanation, *, modifiers: bool) -> list[str]:
    """Return what the instructions of a family share, the kind first."""
    rules = rules_of(explanation)
    spelling = [rule for rule in sorted(rules) if rule in _SPELLING]
    if spelling and kind is not Kind.REJECTED:
        return [kind, draft.mnemonic, *spelling]
    if explanation.form is not None and not fits_declarations(draft, explanation.form):
        return [kind, draft.mnemonic, "register of another type"]
    if kind is Kind.ACCEPTED and rules == {Rule.AVAILABILITY}:
        return [kind, draft.mnemonic, *_notes(explanation)]
    about = [kind, _subject(draft, kind)]
    if kind in _DEADLY and draft.mnemonic == "wmma.mma":
        return about
    # Where shape and type are documented together, something else sets the instruction off.
    if modifiers and _subject(draft, kind) in _documented_subjects(kind):
        texts = [draft.qualifier(slot) for slot in ("dtype", "ctype", *_MODIFIERS)]
        about += [f".{text}" for text in dict.fromkeys(texts) if text]
    others = rules - {Rule.COMBINATION, Rule.REGISTERS, Rule.UNKNOWN_QUALIFIER}
    return about + sorted(others)


def rules_of(explanation: Explanation) -> frozenset[Rule]:
    """Return the rules that an instruction breaks."""
    return frozenset(reason.rule for reason in explanation.reasons)


@cache
def _documented_subjects(kind: Kind) -> frozenset[str]:
    return frozenset(_subject(canonical(form), kind) for form in FORMS)


def _notes(explanation: Explanation) -> list[str]:
    """Return the words of the notes that are not satisfied, without version and target."""
    return [
        reason.text.partition(" The PTX ISA version here")[0].partition(" The target here")[0]
        for reason in explanation.reasons
        if reason.rule is Rule.AVAILABILITY
    ]


def _subject(draft: Draft, kind: Kind) -> str:
    """Name what a person would call the instruction: "wmma.load.c .f32 m8n8k128"."""
    if any(not slot for slot, _ in draft.qualifiers):
        return f"{draft.mnemonic} with words in no order"
    parts = [draft.mnemonic]
    if draft.mnemonic == "wmma.mma" and kind in _DEADLY:
        # Which of the wrong types it is makes no difference to an assembler that dies.
        parts.append("with types of another shape")
    elif draft.mnemonic == "wmma.mma":
        types = [draft.qualifier("atype"), draft.qualifier("btype")]
        names = [_type(name) if name else "implicit .f16" for name in types]
        parts.append(" x ".join(dict.fromkeys(names)))
    else:
        matrix = draft.qualifier("matrix")
        if matrix:
            parts[0] += f".{matrix}"
        parts += [
            _type(draft.qualifier(slot))
            for slot in ("type", "dst_fmt", "src_fmt")
            if draft.qualifier(slot)
        ]
    shape = draft.qualifier("shape")
    known = shape in documented("shape")
    parts.append(shape if known else "another shape" if shape else "no shape")
    return " ".join(parts)


def _type(name: str) -> str:
    return f".{name}" if name in documented("type") else "another type"


_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
MOST_SEEN = 8
"""Images of one program that are worth looking at for one family."""
_UNITS = {
    "s8": "8-bit integers",
    "u8": "8-bit integers",
    "s4": "4-bit integers",
    "u4": "4-bit integers",
    "b1": "single bits",
}
"""Types that one unit multiplies."""
_IN_PLACE = "d in the registers of a multiplicand"


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """Images of one program that came out wrong, and what it takes to look for a cause.

    One is enough. Some more, up to `MOST_SEEN` and whatever their verdicts, make sure that no cause
    explains them by accident, and that deviations and violations of one fault get one name.
    """

    program: Program
    images: NDArray[np.uint8]
    """uint8 (count, image_bytes), before."""
    actual: NDArray[np.uint8]
    """uint8 (count, image_bytes), after."""
    target: str
    """Whose model expects something else."""
    causes: CausesOfRound = field(default_factory=CausesOfRound)
    """What explained images of the same round."""

    @cached_property
    def _expected(self) -> NDArray[np.uint8]:
        return execute(self.program, self.images, target=self.target).images

    @cached_property
    def first(self) -> Sequence[Difference]:
        """What differs in the first image."""
        return differences(self.program, self._expected[0], self.actual[0])

    @cached_property
    def every(self) -> Sequence[Difference]:
        """What differs in all images."""
        others = zip(self._expected[1:], self.actual[1:], strict=True)
        parts = [differences(self.program, want, got) for want, got in others]
        return [one for part in (self.first, *parts) for one in part]

    @cached_property
    def cause(self) -> str | None:
        """What explains all of the images; looked for once, which takes a tenth of a second."""
        return self.causes.cause_of(self.program, self.images, self.actual, target=self.target)

    @cached_property
    def producer(self) -> Multiply | LoadRows | None:
        """The last multiplication or ldmatrix behind what differs first.

        None if nothing of the kind is behind it: it was only loaded and stored, or never written.
        """
        traced = trace(self.program, self.images[0], target=self.target)
        for one in self.first:
            written = traced.writer(one.byte)
            event = None if written is None else traced.producer(written)
            if event is not None and isinstance(event.step, Multiply | LoadRows):
                return event.step
        return None


def unit_name(form: MmaForm | LdmatrixForm) -> str:
    """Name what computes a form: "wmma.mma of f16"."""
    if isinstance(form, LdmatrixForm):
        return form.mnemonic
    return f"{form.mnemonic} of {_UNITS.get(form.a_type.name, form.a_type.name)}"


def form_name(form: MmaForm | LdmatrixForm) -> str:
    """Name a form by what it computes: without layouts, state space and what is always there."""
    left_out = ("sync", "aligned", "alayout", "blayout", "space")
    texts = [slot.text for slot in form.slots if slot.name not in left_out and slot.text]
    return " ".join((form.mnemonic, *texts))


def family_of_difference(
    kind: Kind,
    form: MmaForm | LdmatrixForm,
    found: Sequence[Difference],
    seen: Seen | None = None,
) -> Family:
    """Return the family of images that came out wrong.

    Parameters
    ----------
    form
        What the program is about; with `seen`, what made the first element that differs is found
        out, whatever else the program has.
    found
        What differs.
    seen
        The images; without them nothing is looked for that would explain them.
    """
    cause = producer = None
    if seen is not None:
        cause, producer = seen.cause, seen.producer
        form = producer.form if producer is not None else form
    if cause is not None:
        # One thing that is wrong in this way may show in every unit.
        what = f"as with {cause}"
        return Family(
            key=f"{kind}/{form.mnemonic}/{what}", title=f"{kind}: {form.mnemonic}: {what}"
        )
    every = found if seen is None else seen.every
    shape = kind_of_difference(every, form)
    if any(one.row < 0 for one in every):
        what = shown = "writes outside of its result"
    elif _in_place(producer):
        what = shown = _IN_PLACE
    else:
        what = shape if shape in TELLING else "other result"
        shown = f"{what}, {shape}" if found and what != shape else what
    return Family(
        key=f"{kind}/{unit_name(form)}/{what}", title=f"{kind}: {form_name(form)}: {shown}"
    )


def family_when_shrunk(
    kind: Kind, family: Family, program: Program, found: Sequence[Difference]
) -> Family:
    """Return the family of a finding whose program has no step that it does not need.

    What explained several images stands. Otherwise the program may tell now what it did not before:
    that D goes to registers of a multiplicand; or that it does not have to.

    Parameters
    ----------
    found
        What differs now.
    """
    if "/as with " in family.key:
        return family
    in_place = next(filter(_in_place, walk(program.steps)), None)
    if isinstance(in_place, Multiply):
        return _family(kind, in_place.form, _IN_PLACE)
    if family.key.endswith(f"/{_IN_PLACE}"):
        return family_of_difference(kind, main_form(program), found)
    return family


def _in_place(step: Step | None) -> bool:
    """Whether D goes to registers of A or B: ptxas gets that wrong (docs/findings.md)."""
    return isinstance(step, Multiply) and step.d in (step.a, step.b)


def family_of_failure(kind: Kind, form: MmaForm | LdmatrixForm | None, failure: Failure) -> Family:
    """Return the family of runs that failed: what was said, less its numbers."""
    lines = [line for line in failure.detail.splitlines() if line.strip()]
    words = f"{failure.message} {lines[0].strip()}" if lines else failure.message
    return _family(kind, form, _NUMBERS.sub("#", words)[:200])


def family_of_flaky(form: MmaForm | LdmatrixForm | None) -> Family:
    """Return the family of what did not come out the same every time."""
    return _family(Kind.FLAKY, form, "not the same every time")


def _family(kind: Kind, form: MmaForm | LdmatrixForm | None, what: str) -> Family:
    unit = "a program" if form is None else unit_name(form)
    name = "a program" if form is None else form_name(form)
    return Family(key=f"{kind}/{unit}/{what}", title=f"{kind}: {name}: {what}")
