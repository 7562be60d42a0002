"""Ranges of versions are compared as numbers, release by release."""

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
