"""Spans meet where their bytes do; features follow from the program alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oracle.program.operands import Span


@st.composite
def spans(draw: st.DrawFn, *, pitch: int | None = None) -> Span:
    run = draw(st.integers(1, 6 if pitch is None else pitch))
    apart = draw(st.integers(run, 12)) if pitch is None else pitch
    return Span(
        buffer="g", start=draw(st.integers(0, 40)), run=run, pitch=apart,
        runs=draw(st.integers(1, 5)),
    )  # fmt: skip


def touched(span: Span) -> set[int]:
    return {
        span.start + index * span.pitch + byte
        for index in range(span.runs)
        for byte in range(span.run)
    }


@given(spans(), spans())
def test_spans_that_share_a_byte_meet(one: Span, other: Span) -> None:
    if touched(one) & touched(other):
        assert one.meets(other)
        assert other.meets(one)


@given(spans(), st.integers(0, 60), st.integers(1, 9))
def test_a_block_meets_a_span_exactly_if_they_share_a_byte(
    span: Span, start: int, size: int
) -> None:
    block = Span.block("g", start, size)
    assert block.meets(span) == span.meets(block) == bool(touched(block) & touched(span))
