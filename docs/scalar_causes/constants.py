"""Code with defects that show where ptxas finds out what the sources are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from oracle.lane_code import (
    Assign,
    If,
    Leave,
    Repeat,
    Statement,
    every,
)
from oracle.matrices import LANES
from oracle.scalar.row import CLASSES, Bits
from scalar_causes.cause import ANY, Cause, assign

_NEVER = ("lop3", "prmt", "bmsk", "sad", "fma", "copysign")
"""Families of which a compiler finds no constant (13.1.115 at -O1, from constants in registers)."""
_WHOLE = ("min", "max", "sub", "bfe")
"""Families of which it finds one only where all sources are constants."""
_DOTS = ("dp4a", "dp2a")
"""Families of which it finds one only where a factor is 0."""


class Folding:
    """Code in which defects show where sources are constants, as a compiler finds them out.

    Parameters
    ----------
    causes
        The defects.
    """

    def __init__(self, causes: Sequence[Cause]) -> None:
        self._causes = causes
        self._values: dict[str, int] = {}
        """Registers and predicates that hold a constant."""
        self._left: list[list[dict[str, int]]] = []
        """What they hold where lanes leave a loop, for each of the loops around."""
        self._before: list[Assign] = []
        """What stands before, with the constants that its sources are, the latest first."""
        self.seen: set[str] = set()
        """Names of the defects that were found."""

    def block(self, code: Sequence[Statement]) -> tuple[Statement, ...]:
        """Return statements with the defects; what they write is known behind them."""
        return tuple(made for one in code for made in self._statement(one))

    def _statement(self, one: Statement) -> Sequence[Statement]:
        match one:
            case Assign():
                return self._assign(one)
            case If():
                return [self._branch(one)]
            case Repeat():
                return self._repeat(one)
            case Leave():
                self._left[-1].append(dict(self._values))
        return [one]

    def _holds(self, predicate: str) -> bool | None:
        """Return what a predicate is; None: it is not constant."""
        value = self._values.get(predicate.removeprefix("!"))
        return None if value is None else bool(value) != predicate.startswith("!")

    def _branch(self, one: If) -> If:
        holds, before = self._holds(one.predicate), dict(self._values)
        then = self.block(one.then)
        after, self._values = self._values, before
        otherwise = self.block(one.otherwise)
        if holds is not False:
            self._values = after if holds else _common(after, self._values)
        return replace(one, then=then, otherwise=otherwise)

    def _repeat(self, one: Repeat) -> Sequence[Statement]:
        unrolls = any(cause.unrolls for cause in self._causes)
        if isinstance(one.count, str) and one.count in self._values:
            one = replace(one, count=self._values[one.count] & one.mask)
        if one.count == 0 and not one.late and not one.entry:
            self._values[one.counter] = 0
            return [one]
        if unrolls and (turns := self._unrolled(one)) is not None:
            return turns
        seen, earlier = self.seen, self._before
        while True:  # until what is constant where the body begins is so where it ends
            self._values.pop(one.counter, None)
            before, self.seen, self._before = dict(self._values), set(seen), list(earlier)
            self._left.append([])
            first = self.block(one.body[: one.skipped])
            if one.entry:
                self._values = _common(self._values, before)
            rest = self.block(one.body[one.skipped :])
            after = _common(self._values, *self._left.pop())
            self._values = _common(before, after)
            if self._values == before:
                if one.late:
                    self._values = after
                self._values.pop(one.counter, None)
                return [replace(one, body=(*first, *rest))]

    def _unrolled(self, one: Repeat) -> Sequence[Statement] | None:
        """Return the turns of a loop one after the other; None where it has no such turns."""
        leaves = any(isinstance(each, Leave) for each in every(one.body))
        if not isinstance(one.count, int) or not one.count or one.entry or leaves:
            return None
        numbers = range(one.count, -1, -1) if one.down else range(one.count + 1)
        made: list[Statement] = []
        seen, self.seen = self.seen, set()
        for turn in numbers:
            made.append(assign("mov.b32", one.counter, turn))
            self._values[one.counter] = turn
            if turn != numbers[-1]:
                made += self.block(one.body)
        found, self.seen = self.seen, seen | self.seen
        return made if found else [one]

    def _assign(self, one: Assign) -> Sequence[Statement]:
        holds = self._holds(one.guard) if one.guard else True
        known = replace(one, sources=tuple(self._values.get(str(n), n) for n in one.sources))
        made = None
        for cause in self._causes if holds is not False else ():
            if (made := cause.rewrite(known, {ANY: self._before})) is not None:
                self.seen.add(cause.name)
                break
        self._before.insert(0, known)
        values = self._made(made[-1] if made and isinstance(made[-1], Assign) else known)
        for name, value in zip(one.destinations, values, strict=True):
            if holds is False or (not holds and value == self._values.get(name)):
                continue
            if holds and value is not None:
                self._values[name] = value
            else:
                self._values.pop(name, None)
        return [one] if made is None else made

    def _made(self, one: Assign) -> Sequence[int | None]:
        """Return what an instruction writes, where it is so whatever its other sources are."""
        row, read = one.row, list(zip(one.sources, one.row.sources, strict=True))
        # The field of a register may lie above it.
        needed = one.sources[1:] if row.family == "bfe" else one.sources
        whole = all(isinstance(name, int) for name in needed)
        if (
            row.warp
            or row.carry_in
            or row.family in _NEVER
            or (row.family in _DOTS and 0 not in one.sources[:2])
            or (one.opcode.endswith("16x2") and row.family not in ("abs", "neg"))
            or (not whole and (row.family in _WHOLE or row.family.startswith("v")))
        ):
            return [None] * len(one.destinations)
        given = {pair: _any_of(*pair, seed) for seed, pair in enumerate(dict.fromkeys(read))}
        with np.errstate(all="ignore"):
            results = row.evaluate(*(given[pair] for pair in read))
        return [
            int(each.flat[0]) if (each == each.flat[0]).all() else None
            for each in results[: len(one.destinations)]
        ]


def _any_of(source: str | int, kind: str, seed: int) -> Bits:
    """Return what a source may hold: of a register, many patterns."""
    if isinstance(source, int):
        return np.full((LANES, LANES), source, CLASSES[kind])
    patterns = np.random.default_rng(seed).integers(0, 1 << 64, (LANES, LANES), np.uint64)
    patterns[::2] = np.uint64(0) - (patterns[::2] % np.uint64(3)) + np.uint64(1)  # 1, 0, -1
    return (patterns % 2).astype(np.bool_) if kind == "pred" else patterns.astype(CLASSES[kind])


def _common(values: Mapping[str, int], *others: Mapping[str, int]) -> dict[str, int]:
    """Return what is the same in all of some."""
    return {
        name: value
        for name, value in values.items()
        if all(other.get(name) == value for other in others)
    }
