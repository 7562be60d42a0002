"""Texts of instructions to judge: legal ones, damaged ones, soup, and anything at all."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS
from strategies.instructions import legal_drafts

SECTION = re.compile(r"\d+(\.\d+)*")
FRAGMENTS = (
    "wmma", ".load", ".mma", ".store", "ldmatrix", ".a", ".d", ".sync", ".aligned", ".row", ".col",
    ".m16n16k16", ".m8n8", ".f16", ".f32", ".s8", ".x1", ".shared", "::cta", ".satfinite", ".",
    "..", " ", "\t", "{", "}", "[", "]", ",", ";", "%r0", "%r1, %r2", "%addr", "p", "_", "$", "@",
    "!", "+", "-", "0", "07", "09", "0x1f", "0b1", "16", "1.0", "U", "//", "/*", "*/", "\n", "é",
    "٣", "\u00a0", "\x00", "9" * 5000,
)  # fmt: skip


def forms() -> st.SearchStrategy[Form]:
    return st.sampled_from(FORMS)


def legal_texts() -> st.SearchStrategy[str]:
    return forms().flatmap(lambda form: st.sampled_from([d.text for d in legal_drafts(form)]))


@st.composite
def mutated_texts(draw: st.DrawFn) -> str:
    text = draw(legal_texts())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        until = draw(st.integers(at, min(len(text), at + 6)))
        text = text[:at] + draw(st.sampled_from(("", *FRAGMENTS))) + text[until:]
    return text


def any_texts() -> st.SearchStrategy[str]:
    """Texts from legal to absurd."""
    soup = st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join)
    return st.one_of(legal_texts(), mutated_texts(), soup, st.text(max_size=200))
