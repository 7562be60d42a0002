"""Drafts of every sort that a campaign draws, from one strategy."""

from __future__ import annotations

from itertools import islice

from hypothesis import strategies as st

from oracle.isa.lookup import FORMS
from strategies.instructions import Draft, damaged_drafts, legal_drafts, neighbourhoods, token_soup


def legal() -> st.SearchStrategy[Draft]:
    # By an index: `sampled_from` would hash every form.
    forms = st.integers(0, len(FORMS) - 1).map(FORMS.__getitem__)
    return forms.flatmap(lambda form: st.sampled_from(legal_drafts(form)))


@st.composite
def near(draw: st.DrawFn) -> Draft:
    # One of the first of a neighbourhood: to list all of it takes 20 ms.
    nearest = islice(draw(neighbourhoods(FORMS)).drafts(), draw(st.integers(1, 60)))
    return list(nearest)[-1]


def any_drafts() -> st.SearchStrategy[Draft]:
    return st.one_of(legal(), near(), damaged_drafts(FORMS), token_soup())
