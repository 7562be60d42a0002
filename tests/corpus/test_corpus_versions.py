"""Ranges of versions are compared as numbers, release by release."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus.known import within

numbers = st.lists(st.integers(0, 30), min_size=1, max_size=3)


def dotted(version: list[int]) -> str:
    return ".".join(map(str, version))


@given(version=numbers, bound=numbers)
def test_every_bound_is_the_comparison_of_numbers_padded_and_cut(
    version: list[int], bound: list[int]
) -> None:
    ours = [*version, 0, 0, 0][: len(bound)]
    expected = {
        ">=": ours >= bound, "<=": ours <= bound, ">": ours > bound,
        "<": ours < bound, "==": ours == bound, "!=": ours != bound,
    }  # fmt: skip
    for sign, holds in expected.items():
        assert within(dotted(version), f"{sign}{dotted(bound)}") is holds


@pytest.mark.parametrize(
    ("version", "text", "holds"),
    [
        ("V13.5.37", ">=12.0,<13.2", False),
        ("V13.1.115", ">=12.0,<13.2", True),
        ("12.8.93", "==12.8", True),
        ("12.8.93", "<=12.8", True),
        ("12.8.93", ">12.8", False),
        ("9.2", "<12", True),
        ("release 12.10, V12.10.1", ">12.9", True),
        ("unknown", ">=0", False),
        ("", "!=12", False),
    ],
)
def test_versions_are_read_as_assemblers_write_them(version: str, text: str, holds: bool) -> None:
    assert within(version, text) is holds
