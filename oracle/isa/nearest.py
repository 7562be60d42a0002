"""The documented forms that an opcode without a form is nearest to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache

from oracle.isa.forms import Form
from oracle.isa.lookup import INSTRUCTIONS

Key = tuple[str, ...]
"""Texts of all slots of a form but `.aligned`, in the page's order, "" where one is left out."""


@cache
def forms_by_key(mnemonic: str) -> dict[Key, Form]:
    """Return every documented form of an instruction, by the texts in its slots."""
    return {
        tuple(slot.text for slot in form.slots if slot.name != "aligned"): form
        for form in INSTRUCTIONS[mnemonic].forms
    }


@cache
def _having(mnemonic: str) -> tuple[Mapping[str, int], ...]:
    """Return which forms, as bits of a number, have each text in each slot."""
    found: tuple[dict[str, int], ...] = tuple({} for _ in next(iter(forms_by_key(mnemonic))))
    for number, key in enumerate(forms_by_key(mnemonic)):
        for having, text in zip(found, key, strict=True):
            having[text] = having.get(text, 0) | 1 << number
    return found


def nearest_forms(mnemonic: str, key: Key) -> tuple[tuple[Form, ...], str]:
    """Return the documented forms that differ in the fewest slots, and the difference in words."""
    names = [name for name in INSTRUCTIONS[mnemonic].slots if name != "aligned"]
    forms = tuple(forms_by_key(mnemonic))
    # How many slots of each form are alike, all forms at once: bits of a count, lowest first.
    counts: list[int] = []
    for having, text in zip(_having(mnemonic), key, strict=True):
        carry = having.get(text, 0)
        for place, bits in enumerate(counts):
            counts[place], carry = bits ^ carry, bits & carry
        counts += [carry] * bool(carry)
    if not counts:
        return (), "no documented form is like this"
    nearest = (1 << len(forms)) - 1
    for bits in reversed(counts):
        nearest = nearest & bits or nearest
    differing: dict[tuple[int, ...], list[Key]] = defaultdict(list)
    for number, other in enumerate(forms):
        if nearest >> number & 1:
            differing[tuple(i for i, one in enumerate(other) if one != key[i])].append(other)
    found = {slots: differing[slots] for slots in sorted(differing)}
    words = []
    for slots, members in found.items():
        given = " ".join(f".{names[i]} {dotted([key[i]])}" for i in slots)
        allowed = [*Counter(" ".join(dotted([one[i]]) for i in slots) for one in members)]
        words.append(f"{given}, which may be {_some(allowed)} beside the others")
    text = "no documented form has these qualifiers together: " + "; or ".join(words)
    return tuple(forms_by_key(mnemonic)[k] for members in found.values() for k in members), text


def shapes_beside(mnemonic: str, key: Key) -> str:
    """Return the shapes that there are beside the other qualifiers of a key, which has none."""
    forms, _ = nearest_forms(mnemonic, key)
    return _some([*dict.fromkeys(f".{form.shape.name}" for form in forms)])


def _some(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - 6} more" if len(texts) > 6 else ""
    return f"{', '.join(texts[:6])}{more}"


def dotted(texts: Sequence[str]) -> str:
    """Return qualifiers with their dots, "(none)" for one that is left out."""
    return " ".join(f".{text}" if text else "(none)" for text in texts)
