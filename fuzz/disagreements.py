"""What an assembler owes an instruction, and what it is called when it does otherwise."""

from __future__ import annotations

from enum import StrEnum

from corpus import Kind
from oracle.legality import Explanation, Verdict
from runners.assemblers.judgements import Outcome
from strategies.drafts import Draft, fits_declarations


class Expectation(StrEnum):
    """What the ISA lets one expect of an assembler."""

    ACCEPT = "accept"
    REJECT = "reject"
    OPEN = "open"
    """Either: undefined behaviour, or registers whose declared types the oracle cannot judge."""


def expectation_of(draft: Draft, explanation: Explanation) -> Expectation:
    """Return what an assembler has to do with a draft that the oracle explains so."""
    if explanation.verdict is Verdict.ILLEGAL:
        return Expectation.REJECT
    if explanation.verdict is Verdict.UNDEFINED or explanation.form is None:
        return Expectation.OPEN
    if fits_declarations(draft, explanation.form):
        return Expectation.ACCEPT
    return Expectation.OPEN


# An assembler that dies or speaks of its own inside is wrong whatever it was given.
_ALWAYS = {
    Outcome.INTERNAL: Kind.INTERNAL,
    Outcome.CRASHED: Kind.CRASH,
    Outcome.HUNG: Kind.HANG,
    Outcome.UNREADABLE: Kind.UNREADABLE,
}


def kind_of(expectation: Expectation, outcome: Outcome) -> Kind | None:
    """Return the kind of disagreement, None where assembler and ISA agree."""
    if outcome in _ALWAYS:
        return _ALWAYS[outcome]
    if outcome is Outcome.ACCEPTED and expectation is Expectation.REJECT:
        return Kind.ACCEPTED
    if outcome is Outcome.REJECTED and expectation is Expectation.ACCEPT:
        return Kind.REJECTED
    return None
