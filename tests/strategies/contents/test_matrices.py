"""Matrices are found in the image wherever copies take them whole."""

from __future__ import annotations

import pytest
from content_programs import BF16, F16_F32, S4, long, plain

from oracle.program.operands import Buffer, Place
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, accesses_matrix, loads_fragment
from strategies.matrices import inputs, outputs


def moved(opcode: str, size: int) -> Program:
    """The plain program by way of two shared buffers, of which copies take some bytes."""
    program = plain(opcode)
    first, second = "abc", "d"
    there = [
        Copy(source=Place(buffer=f"g{x}", offset=16), destination=Place(buffer=f"s{x}"), size=size)
        for x in first
    ]
    again = [
        Copy(source=Place(buffer=f"s{x}"), destination=Place(buffer=f"t{x}", offset=32), size=size)
        for x in first
    ]
    back = [
        Copy(source=Place(buffer="td"), destination=Place(buffer="sd"), size=2048),
        Copy(source=Place(buffer="sd"), destination=Place(buffer="gd", offset=8), size=2048),
    ]
    steps = tuple(
        step.changed(
            place=Place(buffer=step.memory.place.buffer.replace("g", "t"), offset=32)
            if loads_fragment(step)
            else Place(buffer="td", offset=64)
        )
        if accesses_matrix(step)
        else step
        for step in program.steps
    )
    buffers = [
        Buffer(name=f"{space[1]}{x}", space=space[0], size=4096)
        for x in first + second
        for space in (("global", "g"), ("shared", "s"), ("shared", "t"))
    ]
    return Program(
        buffers=tuple(buffers), steps=(*there, Barrier(), *again, Barrier(), *steps, *back)
    )


@pytest.mark.parametrize("opcode", [F16_F32, BF16, S4])
def test_a_chain_of_copies_is_followed_both_ways(opcode: str) -> None:
    program = moved(opcode, 2048)
    assert [(p.operand, p.place.buffer, p.place.offset) for p in inputs(program)] == [
        ("a", "ga", 16), ("b", "gb", 16), ("c", "gc", 16),
    ]  # fmt: skip
    assert [(p.place.buffer, p.place.offset) for p in outputs(program)] == [("gd", 72)]


def test_a_matrix_that_no_copy_takes_whole_is_not_in_the_image() -> None:
    assert [p.operand for p in inputs(moved(F16_F32, 512))] == ["a", "b"]
    assert [p.operand for p in inputs(moved(F16_F32, 511))] == []
    # Row by row: there are bytes of it in the image, but they are no tile of the same stride.
    assert [p.operand for p in inputs(long().program)] == ["b", "c", "b", "c"]
