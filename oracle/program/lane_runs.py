"""Code of lanes, executed on many images at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import is_nan, where
from oracle.isa.forms import FORMATS, LANES
from oracle.program.lane_code import (
    CARRY,
    LANE,
    ZERO,
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Statement,
    address_code,
    every,
    row_of,
)
from oracle.scalar import constant

Lanes = NDArray[Any]
"""What a register holds: (..., 32)."""
Mask = NDArray[np.bool_]
"""Lanes, bool (..., 32)."""


class Taken(NamedTuple):
    """A statement as lanes came to it once."""

    statement: Statement
    sources: Sequence[Lanes]
    """What an instruction was given; the predicate of a branch or of a way out of a loop, with its
    sign; the count of a loop as lanes come to it, nothing behind each turn."""
    results: Sequence[Lanes]
    """What an instruction gave, carry last; a counter before the first turn, and behind each."""
    came: Mask
    lanes: Mask
    """Those of them that executed it: without those whose predicate guards an instruction."""


class _LaneState(NamedTuple):
    shape: tuple[int, ...]
    registers: dict[str, Lanes]
    left: list[Mask]
    """Lanes that have left a loop, the innermost loop last."""
    unknown: Mask | None
    """Lanes that came to something of which PTX leaves bits open; None: nobody asks for them."""
    nans: dict[str, tuple[str, Mask]]
    """Registers with NaNs of open bits: their format, and the lanes."""
    passed: list[Taken] | None
    everybody: Mask


def run_lanes(
    step: LaneCode, inputs: NDArray[Any], passed: list[Taken] | None = None
) -> tuple[NDArray[np.uint32], Mask]:
    """Execute code on (count, 32, words); return also which lanes' results PTX leaves open.

    `passed`: A list that gets what lanes come to, in the order of execution.
    """
    unknown = np.zeros(inputs.shape[:-1], np.bool_)
    return _run(step, step.code, inputs, unknown, passed), unknown


def lane_results(step: LaneCode, inputs: NDArray[Any]) -> NDArray[np.uint32]:
    """Execute code on (count, 32, words), as far as its results depend on it."""
    return _run(step, step.needed, inputs)


_LANES = np.arange(LANES, dtype=np.uint32)


def _run(
    step: LaneCode, code: Sequence[Statement], inputs: NDArray[Any], unknown: Mask | None = None,
    passed: list[Taken] | None = None,
) -> NDArray[np.uint32]:  # fmt: skip
    words = np.ascontiguousarray(inputs, np.uint32)
    held = words if step.bits == 32 else words.view(np.uint64)
    shape = held.shape[:-1]
    registers: dict[str, Lanes] = {
        # Arithmetic on one line for all images takes six times as long.
        LANE: np.zeros(shape, np.uint32) + _LANES,
        ZERO: constant("b32", 0, shape),
    }
    for index, name in enumerate(step.inputs):
        registers[name] = np.ascontiguousarray(held[..., index])
    everybody = np.ones(shape, np.bool_)
    state = _LaneState(shape, registers, [], unknown, {}, passed, everybody)
    with np.errstate(all="ignore"):
        _take_block(state, code, everybody)
    for name in step.results:
        _note_read(state, name, "", everybody)
    return np.stack([registers[name] for name in step.results], axis=-1).view(np.uint32)


@lru_cache(maxsize=256)
def addresses_of(computed: tuple[Statement, ...]) -> tuple[int, ...]:
    """Return what code leaves in each lane's r0; () where PTX leaves it open."""
    made, unknown = run_lanes(address_code(computed), np.zeros((1, LANES, 0), np.uint32))
    return () if unknown.any() else tuple(made[0, :, 0].tolist())


def _take_block(state: _LaneState, statements: Sequence[Statement], active: Mask) -> Mask:
    """Take some lanes through statements; return which of them come to the end."""
    before: Statement | None = None
    for statement in statements:
        if not isinstance(before, Assign | Repeat) and not active.any():
            break  # what nobody comes to may read what nobody has written
        match statement:
            case Assign():
                _take_assign(state, statement, active)
            case If():
                taken = _holds(state, statement.predicate)
                _note(state, statement, [taken], (), active, active)
                yes = _take_block(state, statement.then, active & taken)
                active = yes | _take_block(state, statement.otherwise, active & ~taken)
            case Repeat():
                _take_repeat(state, statement, active)
            case Leave():
                asks = _holds(state, statement.predicate)
                _note(state, statement, [asks], (), active, active)
                leaving = active & asks
                if not statement.turn:
                    state.left[-1] |= leaving
                active = active & ~leaving
            case _:
                assert_never(statement)
        before = statement
    return active


def _take_assign(state: _LaneState, one: Assign, active: Mask) -> None:
    row = row_of(one)
    sources = [
        constant(kind, source, state.shape) if isinstance(source, int) else state.registers[source]
        for source, kind in zip(one.sources, row.sources, strict=True)
    ]
    if row.carry_in:
        sources.append(state.registers[CARRY])
    names = (*one.destinations, *([CARRY] if row.carry_out else []))
    mask = active & _holds(state, one.guard) if one.guard else active
    results = row.evaluate(*sources)
    if state.unknown is not None:
        if row.defined is not None:
            state.unknown[...] |= mask & ~row.defined(*sources)
        for source in one.sources:
            if source in state.nans:
                _note_read(state, source, row.numbers, mask)
        for name in one.destinations:
            if name in state.nans or row.nan:
                _write_nans(state, name, row.nan, results[0], mask)
    _note(state, one, sources, results, active, mask)
    for name, made in zip(names, results, strict=True):
        _write(state, name, made, mask)


def _take_repeat(state: _LaneState, one: Repeat, active: Mask) -> None:
    if isinstance(one.count, int):
        count = constant("b32", one.count, state.shape)
    else:
        _note_read(state, one.count, "", active)
        count = state.registers[one.count] & np.uint32(one.mask)
    first = count if one.down else np.zeros_like(count)
    _note(state, one, [count], [first], active, active)
    _write(state, one.counter, first, active)
    state.left.append(np.zeros(state.shape, np.bool_))
    running = active
    entering = active & _holds(state, one.entry) if one.entry else np.zeros_like(active)
    asked = not one.late
    while True:
        going = running & ~entering
        if asked:
            counter = state.registers[one.counter]
            # What entered with a count of 0 has fewer than none left.
            going &= counter.view(np.int32) > 0 if one.down else counter < count
        if not (going | entering).any():
            break
        middle = _take_block(state, one.body[: one.skipped], going) | entering
        running = (going | entering) & ~state.left[-1]
        _take_block(state, one.body[one.skipped :], middle)
        running &= ~state.left[-1]
        following = state.registers[one.counter] + np.uint32(0xFFFFFFFF if one.down else 1)
        _note(state, one, (), [following], running, running)
        _write(state, one.counter, following, running)
        entering = np.zeros_like(active)
        asked = True
    state.left.pop()


def _note(state: _LaneState, *taken: Any) -> None:
    if state.passed is not None:
        state.passed.append(Taken(*taken))


def _note_read(state: _LaneState, name: str | int, fmt: str, mask: Mask) -> None:
    """Note what lanes read as numbers of a format ("": as bits), if they are open NaNs."""
    held, lanes = state.nans.get(str(name), (fmt, mask))
    if held != fmt and state.unknown is not None:
        state.unknown[...] |= mask & lanes


def _write_nans(state: _LaneState, name: str, fmt: str, value: Lanes, mask: Mask) -> None:
    """Note where a register gets NaNs whose bits are open; `fmt` is "" where it gets none."""
    fmt, made = "f32" if fmt == "tf32" else fmt, np.zeros_like(mask)
    if fmt:
        kind = FORMATS[fmt.removesuffix("x2")]
        nan = is_nan(np.ascontiguousarray(value).view(kind.raw), kind)
        if nan.shape != mask.shape:
            nan = np.logical_or.reduce(nan.reshape(*mask.shape, -1), axis=-1)
        made = mask & nan
    held, lanes = state.nans.pop(name, (fmt, np.zeros_like(mask)))
    kept = lanes & ~mask
    if made.any() and held != fmt:
        assert state.unknown is not None
        state.unknown[...] |= kept
        state.nans[name] = fmt, made
    elif (made | kept).any():
        state.nans[name] = held, made | kept


def _write(state: _LaneState, name: str, value: Lanes, mask: Mask) -> None:
    # Lanes that have not written a register do not read it.
    whole = mask is state.everybody or name not in state.registers or mask.all()
    state.registers[name] = value if whole else where(mask, value, state.registers[name])


def _holds(state: _LaneState, predicate: str) -> Mask:
    found: Mask = state.registers[predicate.removeprefix("!")]
    return ~found if predicate.startswith("!") else found


def trail(step: LaneCode, inputs: NDArray[Any]) -> list[Taken]:
    """Return what lanes come to, in the order of execution; `inputs` as of `run_lanes`."""
    found: list[Taken] = []
    run_lanes(step, inputs, found)
    return found


def taken(step: LaneCode, inputs: NDArray[Any]) -> Iterator[tuple[Assign, list[Taken]]]:
    """Iterate over the instructions that lanes take, in the order of the text; as `trail`."""
    found = trail(step, inputs)
    for one in every(step.code):
        times = [passed for passed in found if passed.statement is one]
        if isinstance(one, Assign) and times:
            yield one, times
