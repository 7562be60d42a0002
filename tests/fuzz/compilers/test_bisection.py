"""Bisection, whatever the versions do."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from corpus import Finding, Identity, Kind
from fuzz.commands.bisect import Conclusion, Progression, bisect, distinct
from fuzz.findings.replay import MISSED, missed, rate_of, repeats_for
from fuzz.findings.verdicts import Rerun

GOOD, BAD, WORSE = (
    Rerun(label="match", kind=None),
    Rerun(label="violation 1", kind=Kind.VIOLATION),
    Rerun(label="violation 2", kind=Kind.VIOLATION),
)


class Versions:
    """Versions that do what a list says, and count how often each is asked."""

    def __init__(self, samples):
        self.samples = samples
        self.asked = [0] * len(samples)

    def __call__(self, index, level, most):
        runs = 1 + most // 2  # not all at once
        self.asked[index] += runs
        return self.samples[index] and Counter({self.samples[index]: runs})

    def column(self, at_hand=(), times=1):
        return bisect(self, versions=len(self.samples), level=2, at_hand=at_hand, times=times)


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_one_change_is_found_whatever_is_at_hand(before, after, data):
    versions = Versions([GOOD] * before + [BAD] * after)
    at_hand = data.draw(st.sets(st.integers(0, before + after - 1)))
    column = versions.column(at_hand)
    assert column.progression is Progression.CHANGED
    assert column.changes == [(before - 1, before)]


@given(st.integers(1, 500), st.integers(1, 500))
def test_one_change_among_many_versions_takes_few_of_them(before, after):
    versions = Versions([GOOD] * before + [BAD] * after)
    versions.column()
    assert sum(count > 0 for count in versions.asked) <= 2 + (before + after).bit_length()


@given(st.lists(st.sampled_from([GOOD, BAD, WORSE, None]), min_size=1, max_size=30))
def test_with_all_at_hand_every_change_is_listed(samples):
    column = Versions(samples).column(range(len(samples)))
    known = [(index, one) for index, one in enumerate(samples) if one is not None]
    expected = [
        (known[at][0], known[at + 1][0])
        for at in range(len(known) - 1)
        if known[at][1] != known[at + 1][1]
    ]
    assert column.changes == expected
    if not known:
        assert column.progression is Progression.UNKNOWN
    elif len(expected) > 1:
        assert column.progression is Progression.NOT_MONOTONIC


@given(
    st.lists(st.sampled_from([GOOD, BAD, WORSE, None]), min_size=1, max_size=30),
    st.data(),
)
def test_no_version_between_the_sides_of_a_change_is_left_out(samples, data):
    at_hand = data.draw(st.sets(st.integers(0, len(samples) - 1)))
    for before, after in Versions(samples).column(at_hand).changes:
        assert all(one is None for one in samples[before + 1 : after])
        assert samples[before] != samples[after]


def test_both_sides_of_a_change_are_asked_as_often_again():
    versions = Versions([GOOD] * 4 + [BAD] * 4)
    versions.column(times=3)
    assert versions.asked[3] == versions.asked[4] == 6


def test_what_fails_now_and_then_is_flaky_and_still_has_a_first_version():
    runs = {"count": 0}

    def probe(index, level, most):
        runs["count"] += 1
        return Counter([BAD if index >= 5 and runs["count"] % 3 == 0 else GOOD])

    column = bisect(probe, versions=9, level=3, at_hand=(), times=repeats_for(1 / 3))
    assert any(cell.flaky for cell in column.cells.values())
    assert column.changes == [(4, 5)]
    sentence = Conclusion(names=[f"V{number}" for number in range(9)], columns=[column]).sentence
    assert "flaky" in sentence
    assert sentence.partition(";")[0].endswith("from 5")


def test_the_first_is_the_lowest_level_of_the_oldest_version():
    columns = [
        bisect(
            lambda index, level, _: Counter([BAD if level >= 2 and index >= 3 else GOOD]),
            versions=6,
            level=level,
            at_hand=range(6),
            times=1,
        )
        for level in (0, 1, 2, 3)
    ]
    conclusion = Conclusion(names=[f"V{number}" for number in range(6)], columns=columns)
    assert conclusion.first == {"version": "V3", "level": 2, "before": "V2"}
    assert conclusion.sentence == (
        "at -O0 and -O1: right from 0; at -O2 and -O3: right from 0, wrong (violation 1) from 3"
    )


@given(st.floats(1e-2, 0.999))
def test_repeats_miss_a_failure_of_the_rate_with_less_than_the_promised_probability(rate):
    times = repeats_for(rate)
    assert missed(rate, times) < MISSED
    assert times == 2 or missed(rate, times - 1) >= MISSED * 0.999


def test_the_rate_is_that_of_the_runs_that_confirmed_the_finding():
    def finding(**details):
        return Finding(
            id="0" * 16,
            files={},
            kind=Kind.FLAKY,
            identity=Identity(failure="wrong result", instructions=("k",)),
            instructions=("x",),
            target="sm_90",
            ptx_version="8.0",
            details=details,
        )

    assert rate_of(finding(**{"runs": 8, "failed runs": 2, "rate": 0.001})) == 0.25
    assert rate_of(finding(rate=0.5)) == 0.5
    assert rate_of(finding()) == 1.0


def test_reasons_that_differ_in_the_compiler_alone_are_told_once():
    """Seventeen assemblers at four levels gave a wall of the same words (2026-11-23)."""
    assert distinct(
        [
            "ptxas V11.8.89 -O0 writes machine code",
            "",
            "ptxas V11.8.89 -O0 writes machine code",
            "ptxas V12.0.140 -O3 writes machine code",
            "ptxas V13.5.37 -O3 writes machine code",
            "no PTX",
        ]
    ) == ["ptxas V11.8.89 -O0 writes machine code", "no PTX"]
