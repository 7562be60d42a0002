"""Frames arrive whole and unchanged, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.cuda.frames import CorruptFrameError, FrameReader, encode


@given(payloads=st.lists(st.binary(max_size=50)), cuts=st.lists(st.integers(1, 40), min_size=1))
def test_payloads_arrive_in_order_however_the_stream_is_cut(
    payloads: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(map(encode, payloads))
    reader, received, index = FrameReader(), [], 0
    while stream:
        cut = cuts[index % len(cuts)]
        index += 1
        reader.feed(stream[:cut])
        stream = stream[cut:]
        while (payload := reader.next()) is not None:
            received.append(payload)
    assert received == payloads


@given(payload=st.binary(max_size=100), data=st.data())
def test_a_flipped_bit_anywhere_is_noticed_at_once(payload: bytes, data: st.DataObject) -> None:
    frame = bytearray(encode(payload))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[bit // 8] ^= 1 << bit % 8
    reader = FrameReader()
    reader.feed(bytes(frame))
    with pytest.raises(CorruptFrameError):
        reader.next()


@given(payload=st.binary(max_size=100), garbage=st.binary(min_size=16, max_size=40))
def test_a_payload_before_garbage_still_arrives(payload: bytes, garbage: bytes) -> None:
    reader = FrameReader()
    reader.feed(encode(payload) + b"garbage!" + garbage)
    assert reader.next() == payload
    with pytest.raises(CorruptFrameError, match="a frame starts with"):
        reader.next()
