"""A warp's memory as a program is written: its registers, loads that may fall away, and moves.

The registers lie behind the image and shared memory, and working memory of each step behind them.
A load into registers is written only where something reads them there: a product that reads all
of it reads where it would be loaded from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import LANES, Matrix
from oracle.models import Model
from oracle.program.operands import Fragment, Register, Use
from oracle.program.program import Program, walk
from runners.reference.parts import NotEncodedError

Addresses = NDArray[np.int64]
"""Where bytes lie in the warp's memory."""

_UNITS = (16, 8, 4, 2, 1)
"""Bytes that are moved at once."""
_NOWHERE = 1 << 40
"""Addresses from here on are of registers that have no memory."""


Code = IntEnum(
    "Code",
    [
        "END", "MOVE", "COPY", "WIDEN", "FILL", "DOT", "SCALAR_DOT", "DOUBLES", "INTEGERS",
        "ELEMENTWISE", "PACK", "BRANCH", "JUMP", "LOOP", "NEXT", "CHOOSE", "LANES_ALONE",
        "LANES_TOGETHER",
    ],
    start=0,
)  # fmt: skip
"""Instructions, numbered as in the interpreter."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Move:
    """The move that was written last: one that follows it may join it."""

    source: Addresses
    destination: Addresses
    unit: int
    start: int
    """Place of its first word."""
    end: int
    """Place behind its last word."""

    def is_joined_by(
        self, source: Addresses, destination: Addresses, unit: int, start: int
    ) -> bool:
        """Whether a move that starts at a place follows it, and their order makes no difference."""
        return (self.end, self.unit) == (start, unit) and not (
            _meet(destination, self.source)
            or _meet(destination, self.destination)
            or _meet(source, self.destination)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Load:
    """A load into registers that is not written yet: what reads them may read its source."""

    source: Addresses
    destination: Addresses

    def origin(self, addresses: Addresses) -> Addresses | None:
        """Return where bytes of the registers come from; None if not all of them are loaded."""
        if not _meet(addresses, self.destination):
            return None
        order = np.argsort(self.destination)
        place = np.searchsorted(self.destination, addresses, sorter=order)
        found = order[np.minimum(place, len(order) - 1)]
        same = np.array_equal(self.destination[found], addresses)
        return self.source[found] if same else None


class MemoryWriter:
    """Writes instructions that move bytes of a warp's memory, and knows what lies where."""

    def __init__(self, program: Program, model: Model, unread: frozenset[Register]) -> None:
        self.program, self.model = program, model
        self._words: list[int] = []
        self._tables: list[tuple[int, NDArray[np.int64]]] = []
        self._last_move: _Move | None = None
        self._loads: list[_Load] = []
        self._loops = 0
        self._end = program.image_bytes + program.shared_bytes
        self._registers: dict[Register, int] = {}
        used = {one for step in walk(program.steps) for use in step.uses for one in use.registers}
        for register in sorted(used - unread):
            self._registers[register] = self._end
            self._end += LANES * register.bits // 8
        self._scratch = self._end
        for number, register in enumerate(sorted(unread)):
            self._registers[register] = _NOWHERE + number * 8 * LANES
        self._is_touched = np.zeros(self._end, bool)

    @property
    def unread(self) -> frozenset[Register]:
        """Registers that nothing is written to: all that is loaded there is read where it was."""
        return frozenset(
            register
            for register, start in self._registers.items()
            if not self._is_touched[start : start + LANES * register.bits // 8].any()
        )

    def add(self, code: Code, *words: int) -> int:
        """Write an instruction; return the place of its first word."""
        self._words += [code, len(words) + 2, *words]
        return len(self._words) - len(words)

    def _add_table(self, word: int, table: NDArray[Any]) -> None:
        self._tables.append((word, table.astype(np.int64).ravel()))

    def _take(self, size: int) -> int:
        """Return working memory, free until the step ends."""
        start = self._scratch
        self._scratch += -(-size // 16) * 16
        self._end = max(self._end, self._scratch)
        return start

    def _bases(self, use: Use) -> list[int]:
        """Return where the registers of an operand begin."""
        if use.written and len(set(use.registers)) < len(use.registers):
            raise NotEncodedError(f"{use.name} is written and lists a register twice")
        return [self._registers[register] for register in use.registers]

    def _touch_all(self, uses: Iterable[Use]) -> None:
        for use in uses:
            for register in use.registers:
                start = self._registers[register]
                self._touch(np.array([start]))

    def _touch(self, addresses: Addresses) -> None:
        """Remember that something is written there, or read: that memory is needed."""
        assert addresses.max() < _NOWHERE
        self._is_touched[addresses[addresses < len(self._is_touched)]] = True

    def _lanes(self, use: Use) -> Addresses:
        """Return where the bytes of registers of 32 bits lie, lane by lane."""
        bases = np.array(self._bases(use))[:, None]
        return (bases + 4 * np.arange(LANES)[:, None, None] + np.arange(4)).ravel()

    def _fragment(self, use: Use) -> Addresses:
        """Return where the bytes of a fragment's matrix lie."""
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
        if len(np.unique(destination)) < len(destination):
            raise NotEncodedError("a byte is written twice by one step")
        self._settle(destination)
        self._loads.append(_Load(source=source, destination=destination))

    def _origin(self, addresses: Addresses) -> Addresses:
        """Return where bytes can be read."""
        for one in self._loads:
            found = one.origin(addresses)
            if found is not None:
                return found
        self._write_loads([one for one in self._loads if _meet(addresses, one.destination)])
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

    def _write_loads(self, loads: list[_Load]) -> None:
        self._loads = [one for one in self._loads if one not in loads]
        for one in loads:
            self._transfer(one.source, one.destination)

    def _transfer(self, source: Addresses, destination: Addresses) -> None:
        """Write a move of bytes, all read before one is written."""
        source, destination = (one.ravel() for one in np.broadcast_arrays(source, destination))
        source = self._origin(source)
        self._settle(destination)
        if _meet(destination, source):
            start = self._take(len(source))
            between = start + np.arange(len(source))
            self._transfer(source, between)
            source = between
        order = np.argsort(destination)
        source, destination = source[order], destination[order]
        if len(np.unique(destination)) < len(destination):
            raise NotEncodedError("a byte is written twice by one step")
        self._touch(source)
        self._touch(destination)
        unit, start, last = _unit(source, destination), len(self._words), self._last_move
        if last is not None and last.is_joined_by(source, destination, unit, start):
            start = last.start
            del self._words[start:]
            self._tables = [one for one in self._tables if one[0] < start]
            source = np.concatenate([last.source, source])
            destination = np.concatenate([last.destination, destination])
        if _follow(source) and _follow(destination):
            self.add(Code.COPY, int(source[0]), int(destination[0]), len(source))
        else:
            pairs = np.stack([source[::unit], destination[::unit]], axis=1)
            words = self.add(Code.MOVE, unit, len(pairs), 0)
            self._add_table(words + 2, pairs)
        self._last_move = _Move(
            source=source, destination=destination, unit=unit, start=start, end=len(self._words)
        )


def _meet(one: Addresses, other: Addresses) -> bool:
    """Whether both have an address in common."""
    if one.max() < other.min() or other.max() < one.min():
        return False
    return bool(np.isin(one, other).any())


def _unit(source: Addresses, destination: Addresses) -> int:
    """Return how many bytes can be moved at once."""
    for unit in _UNITS:
        if len(source) % unit == 0:
            starts = [one.reshape(-1, unit) for one in (source, destination)]
            if all(
                not (one[:, 0] % unit).any() and (np.diff(one, axis=1) == 1).all() for one in starts
            ):
                return unit
    return 1


def _follow(addresses: Addresses) -> bool:
    """Whether bytes follow each other from a place on that anything can be loaded from."""
    return addresses[0] % 16 == 0 and bool((np.diff(addresses) == 1).all())


def matrix_bytes(matrix: Matrix) -> int:
    """Return the bytes of a matrix without gaps."""
    return matrix.rows * matrix.columns * matrix.type.bits // 8
