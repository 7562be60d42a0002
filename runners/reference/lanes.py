"""Code of lanes as words for the interpreter: its statements, and the jumps between them."""

from __future__ import annotations

from collections.abc import Sequence

from oracle.program.lane_code import LANE, ZERO, Assign, If, LaneCode, Leave, Repeat, Statement
from runners.reference.parts import BITS, RELATIONS, Do, NotEncodedError, Part, PartWriter, Value
from runners.reference.scalar import FAMILIES


class LaneWriter(PartWriter):
    """Writes code of lanes."""

    def write(self, step: LaneCode) -> None:
        """Write a step; `place` says where its registers are."""
        self._ends: list[tuple[list[int], list[int]]] = []
        """Of the loops around: where jumps to the end of the turn, and of the loop, stand."""
        self._open()
        self._do(self.register(LANE), Do.LANE_NUMBER)
        self._do(self.register(ZERO), Do.COPY, 0, 0)
        for statement in step.code:
            self._statement(statement)
        self._close()

    def place(self, name: str) -> int:
        """Return where a register of the code begins."""
        return self.register(name).at & ~15

    def _source(self, one: str | int) -> Value:
        return one if isinstance(one, int) else self.register(one)

    def _here(self, place: int) -> None:
        """Let a jump go to what is written next."""
        self._words[place] = len(self._words)

    def _jump(self, predicate: str, *, when: bool) -> int:
        """Write a jump of lanes with a predicate, or without it; return where it goes."""
        holds = when != predicate.startswith("!")
        source = self.register(predicate.removeprefix("!"))
        return self._do(None, Do.WHEN if holds else Do.UNLESS, 0, source)

    def _block(self, statements: Sequence[Statement]) -> None:
        for one in statements:
            self._statement(one)

    def _statement(self, one: Statement) -> None:
        self._spared = 0
        match one:
            case Assign():
                self._assign(one)
            case If():
                other = self._jump(one.predicate, when=False)
                self._block(one.then)
                if one.otherwise:
                    end = self._do(None, Do.GO)
                    self._here(other)
                    self._block(one.otherwise)
                    other = end
                self._here(other)
            case Repeat():
                self._repeat(one)
            case Leave():
                self._ends[-1][0 if one.turn else 1].append(self._jump(one.predicate, when=True))

    def _repeat(self, one: Repeat) -> None:
        counter, count = self.register(one.counter), self._source(one.count)
        if not isinstance(count, int):
            # Kept apart: the body may write the register.
            kept = self._new("b32")
            self._do(kept, Do.BOTH, 0, count, one.mask)
            count = kept
        self._do(counter, Do.COPY, 0, count if one.down else 0)
        entry = self._jump(one.entry, when=True) if one.entry else None
        first = self._do(None, Do.GO) if one.late else None
        again = len(self._words)
        relation = RELATIONS["gt" if one.down else "lt"]
        sources = (counter.of(32, True), 0) if one.down else (counter, count)
        going = self.made(Do.COMPARED, relation, *sources)
        out = self._do(None, Do.UNLESS, 0, going)
        if first is not None:
            self._here(first)
        self._ends.append(([], []))
        for index, statement in enumerate(one.body):
            if entry is not None and index == one.skipped:
                self._here(entry)
                entry = None
            self._statement(statement)
        if entry is not None:
            self._here(entry)
        turns, loops = self._ends.pop()
        for place in turns:
            self._here(place)
        self._do(counter, Do.DIFFERENCE if one.down else Do.SUM, 0, counter, 1)
        self._do(None, Do.GO, again)
        for place in (out, *loops):
            self._here(place)

    def _assign(self, one: Assign) -> None:
        row, words = one.row, one.opcode.split(".")
        given = zip(map(self._source, one.sources), row.sources, strict=True)
        sources = [
            Part(some, BITS[kind], constant=True) if isinstance(some, int) else some
            for some, kind in given
        ]
        if row.family not in FAMILIES:
            raise NotEncodedError(f"the reference on the device does not do {one.opcode}")
        # What lanes do together they all do.
        guarded = one.guard and not row.warp
        past = self._jump(one.guard, when=False) if guarded else None
        made = FAMILIES[row.family](self, words, *sources)
        names = (*one.destinations, *(["carry"] if row.carry_out else []))
        if len(names) > 1:
            # All sources are read before anything is written.
            made = [(Do.COPY, 0, self.made(*some)) for some in made]
        for name, some in zip(names, made, strict=True):
            self._do(self.register(name), *some)
        if past is not None:
            self._here(past)
