"""How long a campaign may go on, and what a person may write for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.campaign.rounds import Budget, parse_duration
from oracle.errors import UsageError

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@given(st.integers(1, 10**6), st.sampled_from(sorted(SECONDS)), st.sampled_from(["", " "]))
def test_a_number_and_a_unit_mean_their_product(number, unit, space):
    assert parse_duration(f"{number}{space}{unit}") == number * SECONDS[unit]
    assert parse_duration(f"{number}.5{unit}") == (number + 0.5) * SECONDS[unit]


@pytest.mark.parametrize(
    "text", ["", " ", "0", "0.0", "0s", "-1", "1y", "m", "1m30", "1e3", "nan", "inf", "1,5", "ten"]
)
def test_what_is_no_duration_is_said_to_be_none(text):
    with pytest.raises(UsageError, match=r"is not a duration; write seconds, or a number with s"):
        parse_duration(text)


amounts = st.none() | st.integers(0, 100)


@given(amounts, amounts, st.integers(0, 100), st.integers(0, 100))
def test_a_budget_is_spent_when_one_of_its_limits_is_reached(most, cases, seconds, done):
    spent = Budget(seconds=most, cases=cases).spent(seconds, done)
    reached = [
        limit
        for limit, now in ((most, seconds), (cases, done))
        if limit is not None and now >= limit
    ]
    assert spent == bool(reached)
