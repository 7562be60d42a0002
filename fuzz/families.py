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
from strategies.drafts import Draft, canonical

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
_TITLE_LENGTH = 240


def _about(kind: Kind, draft: Draft, explanation: Explanation, *, modifiers: bool) -> list[str]:
    """Return what the instructions of a family share, the kind first."""
    rules = sorted({reason.rule for reason in explanation.reasons})
    spelling = [rule for rule in rules if rule in _SPELLING]
    if kind is Kind.ACCEPTED and spelling:
        return [kind, draft.mnemonic, *spelling]
    if kind is Kind.ACCEPTED and rules == [Rule.AVAILABILITY]:
        return [kind, draft.mnemonic, *_notes(explanation)]
    about = [kind, _subject(draft)]
    # Where shape and type are documented together, something else sets the instruction off.
    if modifiers and _subject(draft) in _documented_subjects():
        about += [f".{text}" for slot in _MODIFIERS if (text := draft.qualifier(slot))]
    return about + [rule for rule in rules if rule not in (Rule.COMBINATION, Rule.REGISTERS)]


@cache
def _documented_subjects() -> frozenset[str]:
    return frozenset(_subject(canonical(form)) for form in FORMS)


def _notes(explanation: Explanation) -> list[str]:
    """Return the words of the notes that are not satisfied, without version and target."""
    return [
        reason.text.partition(" The PTX ISA version here")[0].partition(" The target here")[0]
        for reason in explanation.reasons
        if reason.rule is Rule.AVAILABILITY
    ]


def _subject(draft: Draft) -> str:
    """Name what a person would call the instruction: "wmma.load.c .f32 m8n8k128"."""
    if any(not slot for slot, _ in draft.qualifiers):
        return f"{draft.mnemonic} with words in no order"
    parts = [draft.mnemonic]
    if draft.mnemonic == "wmma.mma":
        multiplicands = [draft.qualifier("atype"), draft.qualifier("btype")]
        named = [f".{name}" for name in dict.fromkeys(multiplicands) if name]
        parts.append(" x ".join(named) or "implicit .f16")
        accumulators = (draft.qualifier("dtype"), draft.qualifier("ctype"))
        parts.append("to " + " + ".join(f".{name}" for name in dict.fromkeys(accumulators) if name))
    else:
        matrix = draft.qualifier("matrix")
        if matrix:
            parts[0] += f".{matrix}"
        parts += [
            f".{draft.qualifier(slot)}"
            for slot in ("type", "dst_fmt", "src_fmt")
            if draft.qualifier(slot)
        ]
    parts.append(draft.qualifier("shape") or "without shape")
    return " ".join(parts)
