"""Grouping assembler findings by what their instructions share, so that a person reads few lines.

A family is one kind of disagreement, one instruction, and what sets it off: the shape and element
type where these are the matter, or else the rule of the ISA that the assembler does not enforce.
"""

from __future__ import annotations

from functools import cache

from corpus import Family, Kind
from oracle.isa import FORMS
from oracle.legality import Explanation
from oracle.reasons import Rule
from strategies.drafts import Draft, canonical, fits_declarations
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
