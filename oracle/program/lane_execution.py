"""Code of lanes, executed: what each lane comes to, and which bits PTX leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from oracle.isa.matrices import LANES
from oracle.program.lane_code import (
    CARRY,
    LANE,
    ZERO,
    Assign,
    If,
    LaneCode,
    Lanes,
    Leave,
    Repeat,
    Statement,
    every,
    inside,
)
from oracle.scalar import CLASSES


class Taken(NamedTuple):
    """A statement as lanes came to it once."""

    statement: Statement
    sources: Sequence[Lanes]
    """What an instruction was given; the predicate of a branch or of a way out of a loop, with its
    sign; the count of a loop as lanes come to it, nothing behind each turn."""
    results: Sequence[Lanes]
    """What an instruction gave, carry last; a counter before the first turn, and behind each."""
    came: NDArray[np.bool_]
    lanes: NDArray[np.bool_]
    """Those of them that executed it: without those whose predicate guards an instruction."""


def run_lanes(step: LaneCode, inputs: NDArray[Any]) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Execute code in every lane; inputs and results are uint32 (count, 32, words), low first.

    Returns also which lanes' results PTX leaves open, bool (count, 32): they took open bits of a
    NaN for something other than a number, or gave an instruction a source that it does not take.
    """
    state = _executed(step, inputs)
    for name in step.results:
        state.read(name, "", np.ones(state.shape, np.bool_))
    results = np.stack([state.registers[name] for name in step.results], axis=-1)
    return results.view(np.uint32), state.open


def may_be_open(step: LaneCode) -> bool:
    """Whether lanes may take bits of a NaN that PTX leaves open, as far as the text tells."""
    nans: _Nans = {}
    return _takes_open_bits(step.code, nans) or not nans.keys().isdisjoint(step.results)


_Nans = dict[str, frozenset[str]]
"""Formats of the NaNs of open bits that registers may hold."""


def _takes_open_bits(code: Sequence[Statement], nans: _Nans) -> bool:
    """Whether statements may; what registers hold behind them is put into `nans`."""
    for one in code:
        match one:
            case Assign():
                read = frozenset[str]().union(*(nans.get(str(name), ()) for name in one.sources))
                if read - {one.row.numbers}:
                    return True
                made = frozenset({"f32" if one.row.nan == "tf32" else one.row.nan} - {""})
                for name in one.destinations:
                    held = made | (nans.get(name, frozenset()) if one.guard else frozenset())
                    nans |= {name: held} if held else {}
                    if not held:
                        nans.pop(name, None)
            case Repeat() if one.count in nans:
                return True
            case _:
                # A body goes on with what it has left.
                for block in (*inside(one).values(), *inside(one).values()):
                    after = nans.copy()
                    if _takes_open_bits(block, after):
                        return True
                    for name, held in after.items():
                        nans[name] = held | nans.get(name, frozenset())
    return False


def trail(step: LaneCode, inputs: NDArray[Any]) -> list[Taken]:
    """Return what lanes come to, in the order of execution; `inputs` as of `run_lanes`."""
    found: list[Taken] = []
    _executed(step, inputs, found)
    return found


def taken(step: LaneCode, inputs: NDArray[Any]) -> Iterator[tuple[Assign, list[Taken]]]:
    """Iterate over the instructions that lanes take, in the order of the text; as `trail`."""
    found = trail(step, inputs)
    for one in every(step.code):
        times = [passed for passed in found if passed.statement is one]
        if isinstance(one, Assign) and times:
            yield one, times


def _executed(step: LaneCode, inputs: NDArray[Any], trail: list[Taken] | None = None) -> _Execution:
    words = np.ascontiguousarray(inputs, np.uint32)
    held = words if step.bits == 32 else words.view(np.uint64)
    state = _Execution(held.shape[:-1], trail)
    for index, name in enumerate(step.inputs):
        state.registers[name] = np.ascontiguousarray(held[..., index])
    with np.errstate(all="ignore"):
        state.block(step.code, np.ones(state.shape, np.bool_))
    return state


_INFINITIES = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F80_0000, "f64": 0x7FF0 << 48}
"""Above these patterns, signs apart, numbers are NaN (IEEE 754-2019, 3.4; bf16 is half of f32)."""


def _is_nan(patterns: Lanes, kind: str) -> NDArray[np.bool_]:
    """Return where a register holds a NaN, in one element at least."""
    kind = kind.removesuffix("x2")
    infinity = _INFINITIES[kind]
    dtype = np.dtype(f"u{(infinity.bit_length() + 1) // 8}")  # with the sign
    elements = np.ascontiguousarray(patterns).view(dtype)
    magnitudes = elements & dtype.type(np.iinfo(dtype).max >> 1)
    found = magnitudes > dtype.type(infinity)
    return np.asarray(found.reshape(*patterns.shape, -1).any(axis=-1))


class _Execution:
    def __init__(self, shape: tuple[int, ...], trail: list[Taken] | None = None) -> None:
        self.shape = shape
        self.trail = trail
        lanes = np.arange(LANES, dtype=np.uint32)
        self.registers: dict[str, Lanes] = {
            LANE: np.broadcast_to(lanes, shape),
            ZERO: np.zeros(shape, np.uint32),
        }
        self.left: list[NDArray[np.bool_]] = []
        """Lanes that have left a loop, the innermost loop last."""
        self.open = np.zeros(shape, np.bool_)
        """Lanes that came to something of which PTX leaves bits open."""
        self.nans: dict[str, tuple[str, NDArray[np.bool_]]] = {}
        """Registers with NaNs of open bits: their format, and the lanes."""

    def block(
        self, statements: Sequence[Statement], active: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Take some lanes through statements; return which of them come to the end."""
        for statement in statements:
            match statement:
                case Assign():
                    self.assign(statement, active)
                case If():
                    taken = self.holds(statement.predicate)
                    self.note(statement, [taken], (), active)
                    yes, no = active & taken, active & ~taken
                    if yes.any():
                        yes = self.block(statement.then, yes)
                    if no.any():
                        no = self.block(statement.otherwise, no)
                    active = yes | no
                case Repeat():
                    self.repeat(statement, active)
                case Leave():
                    holds = self.holds(statement.predicate)
                    self.note(statement, [holds], (), active)
                    leaving = active & holds
                    if not statement.turn:
                        self.left[-1] |= leaving
                    active = active & ~leaving
                case _:
                    assert_never(statement)
        return active

    def assign(self, one: Assign, active: NDArray[np.bool_]) -> None:
        row = one.row
        sources = [
            self.constant(source, kind) if isinstance(source, int) else self.registers[source]
            for source, kind in zip(one.sources, row.sources, strict=True)
        ]
        if row.carry_in:
            sources.append(self.registers[CARRY])
        names = (*one.destinations, *([CARRY] if row.carry_out else []))
        mask = active & self.holds(one.guard) if one.guard else active
        results = row.evaluate(*sources)
        if row.defined is not None:
            self.open |= mask & ~row.defined(*sources)
        for source in one.sources:
            if source in self.nans:
                self.read(source, row.numbers, mask)
        for name in one.destinations:
            if name in self.nans or row.nan:
                self.write_nans(name, row.nan, results[0], mask)
        self.note(one, sources, results, active, mask)
        for name, made in zip(names, results, strict=True):
            self.write(name, made, mask)

    def repeat(self, one: Repeat, active: NDArray[np.bool_]) -> None:
        count: Lanes
        if isinstance(one.count, int):
            count = self.constant(one.count, "b32")
        else:
            self.read(one.count, "", active)
            count = self.registers[one.count] & np.uint32(one.mask)
        first = count if one.down else np.zeros_like(count)
        self.note(one, [count], [first], active)
        self.write(one.counter, first, active)
        self.left.append(np.zeros(self.shape, np.bool_))
        running = active
        entering = active & self.holds(one.entry) if one.entry else np.zeros_like(active)
        asked = not one.late
        while True:
            going = running & ~entering
            if asked:
                counter = self.registers[one.counter]
                # What entered with a count of 0 has fewer than none left.
                going &= counter.view(np.int32) > 0 if one.down else counter < count
            if not (going | entering).any():
                break
            middle = self.block(one.body[: one.skipped], going) | entering
            running = (going | entering) & ~self.left[-1]
            self.block(one.body[one.skipped :], middle)
            running &= ~self.left[-1]
            step = np.uint32(-1 & 0xFFFFFFFF if one.down else 1)
            following = self.registers[one.counter] + step
            self.note(one, (), [following], running)
            self.write(one.counter, following, running)
            entering = np.zeros_like(active)
            asked = True
        self.left.pop()

    def note(
        self, one: Statement, sources: Sequence[Lanes], results: Sequence[Lanes],
        came: NDArray[np.bool_], lanes: NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        if self.trail is not None:
            self.trail.append(Taken(one, sources, results, came, came if lanes is None else lanes))

    def read(self, name: str | int, fmt: str, mask: NDArray[np.bool_]) -> None:
        """Note what lanes read as numbers of a format ("": as bits), if they are open NaNs."""
        if name in self.nans:
            held, lanes = self.nans[str(name)]
            if held != fmt:
                self.open |= mask & lanes

    def write_nans(self, name: str, fmt: str, value: Lanes, mask: NDArray[np.bool_]) -> None:
        """Note where a register gets NaNs whose bits are open; `fmt` is "" where it gets none."""
        fmt = "f32" if fmt == "tf32" else fmt
        made = mask & _is_nan(value, fmt) if fmt else np.zeros_like(mask)
        held, lanes = self.nans.pop(name, (fmt, np.zeros_like(mask)))
        kept = lanes & ~mask
        if made.any() and held != fmt:
            self.open |= kept
            self.nans[name] = fmt, made
        elif (made | kept).any():
            self.nans[name] = held, made | kept

    def write(self, name: str, value: Lanes, mask: NDArray[np.bool_]) -> None:
        before = self.registers.get(name)
        if before is None or mask.all():
            # Lanes that have not written a register do not read it.
            self.registers[name] = value
        else:
            self.registers[name] = np.where(mask, value, before)

    def holds(self, predicate: str) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.registers[predicate.removeprefix("!")]
        return ~found if predicate.startswith("!") else found

    def constant(self, number: int, kind: str) -> Lanes:
        return np.broadcast_to(CLASSES[kind](number), self.shape)
