"""What is drawn without Hypothesis's engine is what its engine draws."""

import pytest
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from oracle.isa.targets import Module
from strategies.draws import Selection, draw, draw_one
from strategies.programs import programs
from strategies.rounds import ProgramCoverage, selected_forms

MODULE = Module.named("sm_90", "8.0")
FORMS = selected_forms(Selection(), target="sm_90", version="8.0")


@pytest.mark.parametrize("key", range(4))
def test_a_program_is_the_second_that_hypothesis_draws(key: int) -> None:
    (focus,) = ProgramCoverage().focuses(key, 1, FORMS)
    drawn = programs(focus, module=MODULE, forms=FORMS)
    assert draw_one(drawn, key) == draw(drawn, 2, key)[-1]


def test_what_a_strategy_rejects_is_drawn_again() -> None:
    even = st.integers(0, 1 << 20).filter(lambda number: number % 2 == 0)
    assert all(draw_one(even, key) % 2 == 0 for key in range(20))


def test_a_strategy_that_rejects_everything_is_a_sentence() -> None:
    with pytest.raises(Unsatisfiable, match="rejected 1000 examples"):
        draw_one(st.integers().filter(lambda _: False), 1)
