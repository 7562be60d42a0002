"""How long a campaign may go on, and what a person may write for it."""

import pytest
from command_line import warpfuzz
from hypothesis import given
from hypothesis import strategies as st

from fuzz.campaign.store import Budget, State
from fuzz.commands.run import budget_of
from fuzz.options.declared import parse_duration
from fuzz.options.testing import Run
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


def test_a_time_that_nobody_can_wait_for_is_refused():
    with pytest.raises(UsageError, match="longer than can be waited for"):
        parse_duration("99999999999999999999w")


amounts = st.none() | st.integers(0, 100)


limits = st.none() | st.integers(1, 10**12)


@given(limits, limits, limits, limits)
def test_a_resumption_without_limits_has_those_of_the_campaign(seconds, cases, findings, quiet):
    before = Budget(seconds=seconds, cases=cases, findings=findings, quiet=quiet)
    state = State(options={}, started="", limits=before)
    budget = budget_of(Run(), state)
    if before == Budget():
        assert budget == budget_of(Run()) == Budget(seconds=60)
    else:
        assert budget == Budget(seconds=seconds, cases=cases, findings=findings, quiet=quiet)
    assert budget_of(Run(cases=7), state) == Budget(cases=7)


def test_a_campaign_that_its_cases_ended_is_at_its_end_when_it_is_resumed(tmp_path):
    options = ("run", "--runner", "sim", "--only", "*m8n8k4*", "--corpus", "c")
    before = warpfuzz(tmp_path, *options, "--cases", 8, "--json").summary
    resumed = warpfuzz(tmp_path, "run", "--resume", "--corpus", "c", "--json")
    assert (resumed.code, resumed.summary["cases"]) == (0, before["cases"])
    assert "has reached its limit (--cases 8); a higher one continues it" in resumed.err
