"""Spans meet where their bytes do; features follow from the program alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oracle.places import Span


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


@given(st.integers(2, 9), st.data())
def test_tiles_of_one_pitch_that_start_in_one_line_meet_exactly_if_they_share_a_byte(
    pitch: int, data: st.DataObject
) -> None:
    one = data.draw(spans(pitch=pitch))
    other = data.draw(spans(pitch=pitch))
    if one.runs == other.runs and abs(one.start - other.start) + max(one.run, other.run) <= pitch:
        assert one.meets(other) == bool(touched(one) & touched(other))


@given(spans(), spans())
def test_spans_of_two_buffers_do_not_meet(one: Span, other: Span) -> None:
    elsewhere = Span(
        buffer="s", start=other.start, run=other.run, pitch=other.pitch, runs=other.runs
    )
    assert not one.meets(elsewhere)


@given(spans())
def test_a_span_ends_behind_its_last_byte(span: Span) -> None:
    assert span.end == max(touched(span)) + 1
