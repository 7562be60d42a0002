"""The strategy for defined programs."""

from __future__ import annotations

from hypothesis import strategies as st

from oracle.isa import Form, LdmatrixForm, MmaForm
from oracle.program import Program
from strategies.features import Focus
from strategies.multiplications import multiplications, row_loads
from strategies.programs.forms import palette


def programs(
    focus: Focus, *, target: str, version: str, forms: tuple[Form, ...]
) -> st.SearchStrategy[Program]:
    """Draw defined programs of forms that a target and a PTX ISA version have."""
    known = palette(forms, target, version)
    if isinstance(focus.form, MmaForm):
        return multiplications((focus.form,))
    if isinstance(focus.form, LdmatrixForm):
        return row_loads((focus.form,))
    parts = [multiplications(known.multiplications)] if known.multiplications else []
    return st.one_of(*parts, *([row_loads(known.row_loads)] if known.row_loads else []))
