"""From the text of an opcode to the form that it spells, or to what is wrong with it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from oracle.forms import Form
from oracle.isa import FORMS, forms_by_opcode, spellings
from oracle.mnemonics import MNEMONICS
from oracle.reasons import Reason, Rule

_INSTRUCTIONS = "9.7.14"
"""Section of the PTX ISA on the warp-level matrix instructions."""

Key = tuple[str, ...]
"""Texts of all slots of a form in the order of the page's syntax, "" where one is left out."""


@dataclass(frozen=True)
class Resolution:
    """What an opcode spells."""

    mnemonic: str | None
    """None if the opcode is of another instruction."""
    form: Form | None
    """The documented form, if the opcode spells one exactly."""
    candidates: tuple[Form, ...]
    """The form, or the documented forms that are nearest."""
    aligned: bool
    """Whether `.aligned` is written."""
    faults: tuple[Reason, ...]
    """What is wrong with the opcode itself."""

    @property
    def fragments(self) -> str:
        """Section that says how many registers the vectors have."""
        return MNEMONICS[self.mnemonic].fragments if self.mnemonic else _INSTRUCTIONS

    @property
    def section(self) -> str:
        """Section of the page of the instruction."""
        return MNEMONICS[self.mnemonic].section if self.mnemonic else _INSTRUCTIONS


def resolve(opcode: str) -> Resolution:
    """Resolve an opcode, such as "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"."""
    form = forms_by_opcode().get(opcode)
    if form is not None:
        return Resolution(form.mnemonic, form, (form,), ".aligned" in opcode, ())
    mnemonic = next((m for m in MNEMONICS if opcode == m or opcode.startswith(m + ".")), None)
    if mnemonic is None:
        fault = Reason(
            f"{opcode[:80]!r} is none of {', '.join(MNEMONICS)} with qualifiers",
            _INSTRUCTIONS,
            Rule.INSTRUCTION,
        )
        return Resolution(None, None, (), False, (fault,))
    return _diagnose(mnemonic, opcode[len(mnemonic) :].split(".")[1:])


def _diagnose(mnemonic: str, texts: list[str]) -> Resolution:
    row = MNEMONICS[mnemonic]
    vocabulary = _vocabulary(mnemonic)
    faults: list[tuple[str, Rule]] = []
    for text in dict.fromkeys(texts):
        if text not in vocabulary:
            shown = f".{text}" if text else "an empty qualifier"
            faults.append((f"{shown} is not a qualifier of {mnemonic}", Rule.UNKNOWN_QUALIFIER))
    slots: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        if text in vocabulary:
            slots[vocabulary[text]].append(text)
    aligned = "aligned" in slots
    for name, given in slots.items():
        most = row.most.get(name, 1)
        if len(given) > most:
            listed = " ".join(f".{text}" for text in given)
            faults.append(
                (
                    f"{listed}: {mnemonic} takes at most {most} of the kind .{name}",
                    Rule.REPEATED_QUALIFIER,
                )
            )
    faults += [
        (f"a .{name} qualifier is missing", Rule.MISSING_QUALIFIER)
        for name in row.required
        if len(slots[name]) < row.most.get(name, 1)
    ]
    if mnemonic == "wmma.mma" and len(slots["type"]) not in (2, 4):
        faults.append(
            (
                "wmma.mma takes two types (.dtype.ctype, of .f16 multiplicands) or four "
                f"(.dtype.atype.btype.ctype), not {len(slots['type'])}",
                Rule.COMBINATION,
            )
        )
    if faults:
        reasons = tuple(Reason(text, row.section, rule) for text, rule in faults)
        return Resolution(mnemonic, None, (), aligned, reasons)
    key = _key(mnemonic, slots)
    form = _forms(mnemonic).get(key)
    if form is not None:
        order = " or ".join(
            dict.fromkeys(
                ".".join(("", *(s.text for s in slots if s.text))) for slots in spellings(form)
            )
        )
        fault = f"the qualifiers stand in another order than the page has them: {order}"
        return Resolution(
            mnemonic, None, (form,), aligned, (Reason(fault, row.section, Rule.ORDER),)
        )
    nearest, fault = _nearest(mnemonic, key)
    reason = Reason(fault, row.section, Rule.COMBINATION)
    return Resolution(mnemonic, None, nearest, aligned, (reason,))


_KINDS = {
    "alayout": "layout", "blayout": "layout", "dtype": "type", "atype": "type",
    "btype": "type", "ctype": "type",
}  # fmt: skip
"""Slots that share their vocabulary, by the kind of qualifier that stands in them."""


@cache
def _vocabulary(mnemonic: str) -> dict[str, str]:
    """Map every qualifier of an instruction to the kind of slot in which it stands."""
    return {
        slot.text: _KINDS.get(slot.name, slot.name)
        for form in FORMS
        if form.mnemonic == mnemonic
        for slot in form.slots
        if slot.text
    }


def _form_key(form: Form) -> Key:
    return tuple(slot.text for slot in form.slots if slot.name != "aligned")


@cache
def _forms(mnemonic: str) -> dict[Key, Form]:
    return {_form_key(form): form for form in FORMS if form.mnemonic == mnemonic}


@cache
def _slot_names(mnemonic: str) -> tuple[str, ...]:
    form = next(form for form in FORMS if form.mnemonic == mnemonic)
    return tuple(slot.name for slot in form.slots if slot.name != "aligned")


def _key(mnemonic: str, slots: dict[str, list[str]]) -> Key:
    """Place the qualifiers, in their order, into the slots of the page's syntax."""
    waiting = {kind: list(texts) for kind, texts in slots.items()}
    implicit = mnemonic == "wmma.mma" and len(slots["type"]) == 2
    key = []
    for name in _slot_names(mnemonic):
        texts = waiting.get(_KINDS.get(name, name), [])
        skipped = implicit and name in ("atype", "btype")
        key.append(texts.pop(0) if texts and not skipped else "")
    return tuple(key)


@cache
def _by_wildcard(mnemonic: str, slots: tuple[int, ...]) -> dict[Key, tuple[Key, ...]]:
    """Group the forms by what stands in all slots but the given ones."""
    groups: dict[Key, list[Key]] = defaultdict(list)
    for key in _forms(mnemonic):
        groups[_without(key, slots)].append(key)
    return {key: tuple(members) for key, members in groups.items()}


def _without(key: Key, slots: tuple[int, ...]) -> Key:
    return tuple(text for i, text in enumerate(key) if i not in slots)


def _nearest(mnemonic: str, key: Key) -> tuple[tuple[Form, ...], str]:
    """Return the documented forms that differ in the fewest slots, and the difference in words."""
    names = _slot_names(mnemonic)
    for count in range(1, len(names)):
        found: dict[tuple[int, ...], tuple[Key, ...]] = {}
        for slots in combinations(range(len(names)), count):
            members = _by_wildcard(mnemonic, slots).get(_without(key, slots))
            if members:
                found[slots] = members
        if found:
            return (
                tuple(_forms(mnemonic)[k] for members in found.values() for k in members),
                "no documented form has these qualifiers together: "
                + "; or ".join(
                    _difference(names, key, slots, members) for slots, members in found.items()
                ),
            )
    return (), "no documented form is like this"


def _difference(
    names: tuple[str, ...], key: Key, slots: tuple[int, ...], members: tuple[Key, ...]
) -> str:
    given = " ".join(f".{names[i]} {_shown(key[i])}" for i in slots)
    allowed = Counter(" ".join(_shown(member[i]) for i in slots) for member in members)
    listed = list(allowed)[:6]
    more = f" and {len(allowed) - len(listed)} more" if len(allowed) > len(listed) else ""
    return f"{given} with the rest may be {', '.join(listed)}{more}"


def _shown(text: str) -> str:
    return f".{text}" if text else "(none)"
