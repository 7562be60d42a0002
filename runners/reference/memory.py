"""A warp's memory as a program is written: its registers, loads that may fall away, and moves.

A load is written only where something reads its registers: a product that reads all of it reads
where it would be loaded from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.isa.forms import LANES, Format, Matrix
from oracle.models import Model
from oracle.program.operands import Fragment, Register, Use
from oracle.program.program import Program, walk
from oracle.program.steps import OneWarp, Step

Addresses = NDArray[np.int64]  # where bytes lie in the warp's memory

_NOWHERE = 1 << 40  # addresses from here on are of registers that have no memory


Code = IntEnum(
    "Code",
    [
        "END", "MOVE", "COPY", "WIDEN", "FILL", "DOT", "SCALAR_DOT", "DOUBLES", "INTEGERS",
        "ELEMENTWISE", "PACK", "BRANCH", "JUMP", "LOOP", "NEXT", "CHOOSE", "LANES_ALONE",
        "LANES_TOGETHER", "SCALED_DOT",
    ],
    start=0,
)  # fmt: skip
"""Instructions, numbered as in the interpreter."""
Do = IntEnum(
    "Do",
    [
        "STOP", "GO", "UNLESS", "WHEN", "COPY", "LANE_NUMBER", "SUM", "DIFFERENCE", "PRODUCT",
        "UPPER_PRODUCT", "QUOTIENT", "REMAINDER", "LEAST", "GREATEST", "CLAMPED", "BOTH",
        "EITHER", "ONE_OF", "LEFT", "RIGHT", "JOINED", "COMPARED", "CHOSEN", "CARRIED",
        "BORROWED", "POPULATION", "HIGHEST_BIT", "REVERSED", "NTH_BIT", "TABLE", "PERMUTED",
        "FIELD", "FUSED", "FLUSHED", "CONVERTED", "SATURATED", "RECTIFIED", "EXTREME",
        "COMPARED_FLOATS", "TO_INTEGER", "FROM_INTEGER", "FROM_E4M3", "INTEGRAL",
    ],
    start=0,
)  # fmt: skip
"""Operations, numbered as in the interpreter."""
RELATIONS = {
    "eq": 2, "ne": 5, "lt": 1, "le": 3, "gt": 4, "ge": 6, "lo": 1, "ls": 3, "hi": 4, "hs": 6,
}  # fmt: skip
"""Outcomes of a comparison that make it true: 1 less, 2 equal, 4 greater."""

MASK = (1 << 32) - 1
BITS = {"pred": 1, "b16": 16, "b32": 32, "b64": 64}


class NotEncodedError(UsageError):
    """The interpreter cannot do what a program does; the message says what that is."""


def not_done(what: str) -> NotEncodedError:
    """Return the error for what the interpreter does not do."""
    return NotEncodedError(f"the reference on the device does not do {what}")


def format_word(fmt: Format) -> int:
    """Return a float format as the interpreter has it."""
    return fmt.bits << 16 | fmt.exponent_bits << 8 | fmt.fraction_bits


@dataclass(frozen=True)
class Part:
    """Some bits of a register or of a constant, as a number of 64 bits."""

    at: int  # address and class of a register; a constant itself
    bits: int
    signed: bool = False
    shift: int = 0
    constant: bool = False

    def of(self, bits: int, signed: bool = False, shift: int = 0) -> Part:
        """Return other bits of the same."""
        return replace(self, bits=bits, signed=signed, shift=shift)

    def as_(self, bits: int, signed: bool) -> Part:
        """Return an element as a number of a type."""
        return self.of(bits, signed, self.shift)


Value: TypeAlias = Part | int
Made: TypeAlias = tuple[Any, ...]  # an operation, its parameter, and its sources


@dataclass(frozen=True, eq=False)
class _Move:
    """Bytes that are moved: the move that was written last, or a load that is not written yet."""

    source: Addresses
    destination: Addresses
    unit: int = 1
    start: int = 0  # place of its first word
    end: int = 0  # place behind its last word


class MemoryWriter:
    """Writes moves of bytes in a warp's memory; `unread` registers need none."""

    def __init__(self, program: Program, model: Model, unread: frozenset[Register]) -> None:
        self.program, self.model = program, model
        self._words: list[int] = []
        self._tables: list[tuple[int, NDArray[np.int64]]] = []
        self._last_move: _Move | None = None
        self._loads: list[_Move] = []
        """Loads into registers that are not written yet: what reads them may read their source."""
        self._loops = 0
        self._turns = 0, 0
        """Words with the turn of the loop around, and with that less how many there are."""
        self._end = program.image_bytes + program.shared_bytes
        self._registers: dict[Register, int] = {}
        self._threads = self._of_program = program.threads
        """Threads that take the present step, and those that take most of them."""
        self._first = 0  # the first of them, of those that are written now
        used, alone = _registers_of(program.steps), set[Register]()
        for step in walk(program.steps):
            alone |= _registers_of(step.body) if isinstance(step, OneWarp) else set()
        self._sizes = {
            one: (LANES if one in alone else program.threads) * one.bits // 8 for one in used
        }
        for register in sorted(used - unread):
            self._registers[register] = self._end
            self._end += self._sizes[register]
        self._scratch = self._end
        for number, register in enumerate(sorted(unread)):
            self._registers[register] = _NOWHERE + number * 8 * program.threads
        self._is_touched = np.zeros(self._end, bool)

    @property
    def unread(self) -> frozenset[Register]:
        """Registers that nothing is written to: all that is loaded there is read where it was."""
        return frozenset(
            register
            for register, start in self._registers.items()
            if not self._is_touched[start : start + self._sizes[register]].any()
        )

    def add(self, code: Code, *words: int) -> int:
        """Write an instruction; return the place of its first word."""
        self._words += [code, len(words) + 2, *words]
        return len(self._words) - len(words)

    def _add_table(self, word: int, table: NDArray[Any]) -> None:
        self._tables.append((word, table.astype(np.int64).ravel()))

    def _take(self, size: int) -> int:
        start = self._scratch
        self._scratch += -(-size // 16) * 16
        self._end = max(self._end, self._scratch)
        return start

    def _bases(self, use: Use) -> list[int]:
        if use.written and len(set(use.registers)) < len(use.registers):
            raise NotEncodedError(f"{use.name} is written and lists a register twice")
        return [self._registers[one] + self._first * one.bits // 8 for one in use.registers]

    def _touch_all(self, uses: Iterable[Use]) -> None:
        for use in uses:
            for register in use.registers:
                self._touch(np.array([self._registers[register]]))

    def _touch(self, addresses: Addresses) -> None:
        """Remember that something is written there, or read: that memory is needed."""
        assert addresses.max() < _NOWHERE
        self._is_touched[addresses[addresses < len(self._is_touched)]] = True

    def _lanes(self, use: Use) -> Addresses:
        """Return where the bytes of registers of 32 bits lie, lane by lane."""
        bases = np.array(self._bases(use))[:, None]
        return (bases + 4 * np.arange(LANES)[:, None, None] + np.arange(4)).ravel()

    def _fragment(self, use: Use) -> Addresses:
        assert isinstance(use.holds, Fragment)
        area = LANES * use.holds.bits // 8
        byte = np.arange(matrix_bytes(use.holds.matrix))
        return np.array(self._bases(use))[byte // area] + byte % area

    def _whole(self, addresses: Addresses) -> int:
        """Return where bytes follow each other, after they were gathered if they do not."""
        addresses = self._origin(addresses)
        if _follow(addresses):
            self._touch(addresses)
            return int(addresses[0])
        start = self._take(len(addresses))
        self._transfer(addresses, start + np.arange(len(addresses)))
        return start

    def _room(
        self, addresses: Addresses, others: Sequence[Addresses]
    ) -> tuple[int, Addresses | None]:
        """Return where a result can go whose bytes belong to addresses, and where it goes then."""
        if _follow(addresses) and not any(_meet(addresses, other) for other in others):
            self._settle(addresses)
            self._touch(addresses)
            return int(addresses[0]), None
        return self._take(len(addresses)), addresses

    def _deliver(self, place: int, addresses: Addresses | None) -> None:
        if addresses is not None:
            self._transfer(place + np.arange(len(addresses)), addresses)

    def _load(self, source: Addresses, destination: Addresses) -> None:
        """Move bytes into registers, later: perhaps nothing reads them there."""
        source, destination = (one.ravel() for one in np.broadcast_arrays(source, destination))
        _check_once(destination)
        self._settle(destination)
        self._loads.append(_Move(source, destination))

    def _origin(self, addresses: Addresses) -> Addresses:
        """Return where bytes can be read."""
        met = [load for load in self._loads if _meet(addresses, load.destination)]
        for load in met:
            order = np.argsort(load.destination)
            place = np.searchsorted(load.destination, addresses, sorter=order)
            found = order[np.minimum(place, len(order) - 1)]
            if np.array_equal(load.destination[found], addresses):
                return load.source[found]
        self._write_loads(met)
        return addresses

    def _settle(self, written: Addresses) -> None:
        """Write the loads that come before something is written, but for what is lost by it."""
        touched = [
            one
            for one in self._loads
            if _meet(written, one.destination) or _meet(written, one.source)
        ]
        lost = [one for one in touched if np.isin(one.destination, written).all()]
        self._loads = [one for one in self._loads if one not in lost]
        self._write_loads([one for one in touched if one not in lost])

    def _load_all(self) -> None:
        """Write all loads: what follows reads registers, or is executed without them, too."""
        self._write_loads(self._loads)

    def _write_loads(self, loads: list[_Move]) -> None:
        self._loads = [one for one in self._loads if one not in loads]
        for load in loads:
            self._transfer(load.source, load.destination)

    def _transfer(self, source: Addresses, destination: Addresses) -> None:
        """Write a move of bytes, all read before one is written."""
        source, destination = (one.ravel() for one in np.broadcast_arrays(source, destination))
        source = self._origin(source)
        self._settle(destination)
        if _meet(destination, source):
            between = self._take(len(source)) + np.arange(len(source))
            self._transfer(source, between)
            source = between
        order = np.argsort(destination)
        source, destination = source[order], destination[order]
        _check_once(destination)
        self._touch(source)
        self._touch(destination)
        unit, start, last = _unit(source, destination), len(self._words), self._last_move
        # Moves that follow each other are one where their order makes no difference.
        if last and (last.end, last.unit) == (start, unit) and not (
            _meet(destination, last.source)
            or _meet(destination, last.destination)
            or _meet(source, last.destination)
        ):  # fmt: skip
            start = last.start
            del self._words[start:]
            self._tables = [one for one in self._tables if one[0] < start]
            source = np.concatenate([last.source, source])
            destination = np.concatenate([last.destination, destination])
        if _follow(source) and _follow(destination):
            self.add(Code.COPY, int(source[0]), int(destination[0]), len(source))
        else:
            pairs = np.stack([source[::unit], destination[::unit]], axis=1)
            # Counted from the first bytes: many moves have one table.
            firsts = pairs.min(axis=0)
            words = self.add(Code.MOVE, unit, len(pairs), *firsts.tolist(), 0)
            self._add_table(words + 4, pairs - firsts)
        self._last_move = _Move(source, destination, unit, start, len(self._words))


def _registers_of(steps: tuple[Step, ...]) -> set[Register]:
    return {one for step in walk(steps) for use in step.uses for one in use.registers}


def _check_once(destination: Addresses) -> None:
    if (np.diff(np.sort(destination)) == 0).any():
        raise NotEncodedError("a byte is written twice by one step")


def _meet(one: Addresses, other: Addresses) -> bool:
    if one.max() < other.min() or other.max() < one.min():
        return False
    return bool(np.isin(one, other).any())


def _unit(source: Addresses, destination: Addresses) -> int:
    def fits(unit: int) -> bool:
        parts = np.stack([source, destination]).reshape(-1, unit)
        return not (parts[:, 0] % unit).any() and bool((np.diff(parts, axis=1) == 1).all())

    return next(unit for unit in (16, 8, 4, 2, 1) if len(source) % unit == 0 and fits(unit))


def _follow(addresses: Addresses) -> bool:
    """Whether bytes follow each other from a place on that anything can be loaded from."""
    return addresses[0] % 16 == 0 and bool((np.diff(addresses) == 1).all())


def matrix_bytes(matrix: Matrix) -> int:
    """Return the bytes of a matrix without gaps."""
    return matrix.rows * matrix.columns * matrix.type.bits // 8


def canonical(
    matrix: Matrix, row: NDArray[np.int64], column: NDArray[np.int64]
) -> tuple[int, int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return lines, elements of each, and line and place of elements, as products want them."""
    if matrix.operand == "b":
        return matrix.columns, matrix.rows, (column, row)
    return matrix.rows, matrix.columns, (row, column)


def tile_bytes(matrix: Matrix, layout: str, stride: int | None) -> Addresses:
    """Return where a matrix lies from its first byte in memory, in the order of products."""
    bits = matrix.type.bits
    row, column = np.indices((matrix.rows, matrix.columns))
    lines, length, (line, at) = canonical(matrix, row, column)
    pitch = matrix.default_stride(layout) if stride is None else stride
    first = (row * pitch + column if layout == "row" else column * pitch + row) * bits
    inner = np.empty((lines, length), np.int64)
    inner[line, at] = first
    if bits < 8:
        if not (np.diff(inner, axis=1) == bits).all():
            raise NotEncodedError(f"{matrix.type.name} lies in memory across its lines")
        inner = inner[:, :: 8 // bits]
    found: Addresses = inner.reshape(-1, 1) // 8 + np.arange(max(1, bits // 8))
    return found.ravel()
