"""Qualifiers that may stand in a slot: those of the pages, and those of other instructions."""

from __future__ import annotations

from functools import cache

from oracle.forms import kind_of
from oracle.instructions import INSTRUCTIONS
from oracle.isa import FORMS

# What other instructions of the PTX ISA have in such a place (mma 9.7.14.5, ld 9.7.9.8,
# cvt 9.7.9.21, atom 9.7.13): the qualifiers that a compiler's tables may let through by mistake.
_FOREIGN: dict[str, tuple[str, ...]] = {
    "matrix": ("d",),
    "layout": ("trans",),
    "shape": (
        "m8n8k16", "m8n8k64", "m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m16n8k64",
        "m16n8k128", "m16n8k256", "m64n8k16", "m8n8", "m16n16", "m8n16", "m16n8",
    ),
    "space": ("local", "const", "param", "shared::cluster", "generic"),
    "type": (
        "b8", "b16", "b32", "b64", "s16", "u16", "u32", "s64", "u64", "f16x2", "bf16x2", "e4m3",
        "e5m2", "b4", "b8x16", "b6x16_p32", "b4x16_p64", "pred",
    ),
    "rnd": ("rna", "rs", "rni", "ftz"),
    "satfinite": ("sat", "relu", "satfinite.relu"),
    "op": ("or", "add", "mul", "min", "cas"),
    "popc": ("popcll", "clz"),
    "dst_fmt": ("b6x16_p32", "b16x16", "b8"),
    "src_fmt": ("b8x16", "b4x16", "b6x16", "b6p2x16", "s8"),
    "num": ("x3", "x8", "x16"),
    "sync": ("async", "cta", "nosync"),
    "aligned": ("unaligned", "weak"),
    "trans": ("notrans",),
}  # fmt: skip


@cache
def documented(kind: str) -> tuple[str, ...]:
    """Return every qualifier of a kind that stands in some documented form, in page order."""
    found = {
        slot.text: None
        for form in FORMS
        for slot in form.slots
        if slot.text and kind_of(slot.name) == kind
    }
    return tuple(found)


@cache
def foreign(kind: str) -> tuple[str, ...]:
    """Return qualifiers of a kind that only other instructions have."""
    return tuple(text for text in _FOREIGN.get(kind, ()) if text not in documented(kind))


@cache
def tokens() -> tuple[str, ...]:
    """Return every word that token soup is made of."""
    kinds = dict.fromkeys(kind for row in INSTRUCTIONS.values() for kind in row.most)
    words = [word for kind in kinds for word in (*documented(kind), *foreign(kind))]
    heads = [part for mnemonic in INSTRUCTIONS for part in mnemonic.split(".")]
    return tuple(dict.fromkeys((*heads, *words, "", "::", "v4", "x", "0")))
