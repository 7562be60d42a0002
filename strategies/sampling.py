"""Programs with their contents, drawn by Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from oracle.program import Program
from oracle.targets import Module
from strategies.contents import Recipe, recipes
from strategies.draws import Selection
from strategies.features import Focus
from strategies.program_draws import selected_forms
from strategies.programs import programs

Strategy = st.SearchStrategy


def filled_programs(only: str, module: Module) -> Strategy[tuple[Program, Recipe]]:
    """Draw programs about the opcodes of a shell pattern, and what fills their images."""
    target, version = module.target.name, str(module.version)
    forms = selected_forms(Selection(pattern=only), target=target, version=version)

    @st.composite
    def drawn(draw: st.DrawFn) -> tuple[Program, Recipe]:
        focus = Focus(form=draw(st.sampled_from(forms)))
        return draw(programs(focus, module=module, forms=forms)), draw(recipes())

    return drawn()
