"""The instructions that led to a wrong value, with what each gives, as lines of a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

import numpy as np

from fuzz.explain.document import Line, Listing
from fuzz.explain.facts import ValueFacts
from fuzz.explain.values import (
    by_lanes,
    contents_of,
    hexadecimal,
    notation,
    packed_type,
    register_of,
    shown,
    spans,
    words_of_registers,
)
from fuzz.kinds import is_provisional
from oracle.lane_code import (
    LANE,
    ZERO,
    Assign,
    If,
    Leave,
    Repeat,
    Statement,
    class_of,
    read_by,
)
from oracle.matrices import LANES
from oracle.matrix_moves import moves
from oracle.operands import Use
from oracle.ops import accesses_rows, is_instruction, loads_rows, multiplies
from oracle.program import walk
from oracle.registers import Register
from oracle.sharing import overlaps
from oracle.slicing import Link, around, slice_of
from oracle.steps import Scalar, accesses_registers, is_lane_code
from oracle.tracing import Event
from runners.emission.registers import operand_registers

_TOP = 11
"""Lines of a listing that is shown before everything else: with those around them, the first 15
lines of a page hold it."""
_LONG = 60
"""Characters of an instruction from which on its values stand below it."""
_MOST = 60
"""Lines of a whole listing; a loop of 15 turns in one of 15 has more."""
_NOT_COME = "–"


@dataclass(frozen=True, kw_only=True, eq=False)
class Way:
    """How a wrong value came about: the instructions that led to it, for the lane that has it."""

    facts: ValueFacts
    links: Sequence[Link]
    lanes: tuple[int, ...]
    """The lane that is told; perhaps another, which is right and goes another way."""

    @classmethod
    def of(cls, facts: ValueFacts) -> Way | None:
        """Return the way to the value that a page is about; None if nothing wrote it."""
        written = facts.written
        if written is None:
            return None
        links = slice_of(facts.trace, written)
        lane = written.row if len(links) > 1 and not _stored(links[-1]).is_fragment else 0
        other = None if lane != written.row else _other_lane(facts, links, lane)
        if other is None:
            return cls(facts=facts, links=links, lanes=(lane,))
        lanes = (lane, other)
        return cls(facts=facts, links=slice_of(facts.trace, written, other), lanes=lanes)

    @cached_property
    def guilty(self) -> frozenset[int]:
        """Places of the links that the finding's identity names."""
        if is_provisional(self.facts.finding):
            return frozenset()
        return frozenset(
            at
            for at, link in enumerate(self.links)
            if any(_named(word, link) for word in self.words)
        )

    @property
    def words(self) -> Sequence[str]:
        """What the finding's identity names."""
        identity = self.facts.finding.identity
        if is_provisional(self.facts.finding):
            return ()
        named = [word for words in identity.instructions for word in words.split(" or ")]
        return [*named, identity.condition]  # which may be a branch or a loop

    @property
    def unread(self) -> Sequence[str]:
        """Opcodes of scalar code that the identity names, and the value does not depend on."""
        found = dict.fromkeys(
            opcode
            for word in self.words
            if not any(_named(word, link) for link in self.links)
            for step in walk(self.facts.program.steps)
            if is_lane_code(step)
            for opcode in step.opcodes
            if _names(word, opcode)
        )
        return [*found]

    @property
    def is_exact(self) -> bool:
        """Whether nothing that the value depends on leaves it open: no sum, no bits of a NaN."""
        return not any(
            multiplies(link.event.step)
            or (
                link.taken is not None
                and isinstance(link.taken.statement, Assign)
                and (link.taken.statement.row.nan or link.taken.statement.row.defined is not None)
            )
            for link in self.links
        )

    @property
    def products(self) -> Sequence[Link]:
        """The multiplications among what is named; where nothing is, the last on the way."""
        among = [self.links[at] for at in sorted(self.guilty)] or self.links
        found = [link for link in among if multiplies(link.event.step)]
        return found if self.guilty else found[-1:]

    @property
    def gives(self) -> str:
        """Say which value is stored in place of which, of an instruction that gave it if one did.

        "" where what is wrong is not known.
        """
        shown_ = self.facts.shown
        if shown_ is None or is_provisional(self.facts.finding):
            return ""
        type_ = self.writer.stored_type
        (actual, right) = (
            notation(bits, type_) or hexadecimal(bits, shown_.bits)
            for bits in (shown_.actual, shown_.expected)
        )
        if actual == right:
            actual, right = (
                hexadecimal(bits, shown_.bits) for bits in (shown_.actual, shown_.expected)
            )
        made = self.lines[-2] if len(self.lines) > 1 else None
        own = made is not None and made.line.marked and {*self.lines[-1].reads} <= {*made.writes}
        verb = " gives {} where {} is right" if own else ": {} is stored where {} is right"
        return verb.format(actual, right)

    @cached_property
    def lines(self) -> Sequence[Told]:
        """Every instruction."""
        return list(self.writer.lines())

    @cached_property
    def writer(self) -> _Writer:
        """What writes its lines, and how what is stored is written."""
        return _Writer(self)

    @property
    def head(self) -> Sequence[str]:
        """Heads of the columns, where there are two."""
        return [f"lane {lane}" for lane in self.lanes] if len(self.lanes) > 1 else ()

    def top(self) -> Listing:
        """Return what matters most: what is named, what it reads, and what is stored."""
        places = range(len(self.lines))
        if self._room(places) <= _TOP:
            return self._listing(places)
        marked = [at for at in places if self.lines[at].line.marked]
        kept = {*marked[:3], *marked[-1:], *places[-2 if marked else 3 - _TOP :]}
        for at in sorted(kept, reverse=True):
            for before in self._read_by(at):
                if self._room({*kept, before}) < _TOP:
                    kept.add(before)
        return self._listing(sorted(kept))

    def _room(self, places: Iterable[int]) -> int:
        """Return how many lines of a page some lines take, about."""
        lines = (self.lines[at].line for at in places)
        return sum(1 + bool(line.note) + (len(line.text) > _LONG) for line in lines)

    def whole(self) -> Listing | None:
        """Return every instruction, of very many the first and the last; None if `top` has all."""
        count = len(self.lines)
        places = range(count)
        if self._room(places) <= _TOP:
            return None
        half = _MOST // 2
        return self._listing(places if count <= _MOST else [*places[:half], *places[-half:]])

    def _listing(self, places: Sequence[int]) -> Listing:
        lines, before = [], -1
        for at in places:
            if at == before + 2:
                lines.append(self.lines[at - 1].line)
            elif at > before + 1:
                lines.append(Line(text=f"… {at - before - 1} more"))
            lines.append(self.lines[at].line)
            before = at
        return Listing(lines, self.head)

    def _read_by(self, at: int) -> Iterator[int]:
        """Yield the places of the lines just before one that made what it reads."""
        names = {*self.lines[at].reads}
        for before in range(at - 1, -1, -1):
            made = names.intersection(self.lines[before].writes)
            if made:
                names -= made
                yield before


@dataclass(frozen=True)
class Told:
    """A line, with the registers that its instruction reads and writes, as they are named."""

    line: Line
    reads: Sequence[str] = ()
    writes: Sequence[str] = ()


def _stored(link: Link) -> Use:
    (use,) = link.event.step.reads
    return use


def _decisions(links: Sequence[Link], lane: int) -> tuple[object, ...]:
    """Return where a lane went: what it met at each branch, loop and predicate of a slice."""
    found: list[object] = []
    for link in links:
        taken = link.taken
        if taken is None:
            continue
        one = taken.statement
        if not isinstance(one, Assign):
            met = [source[0][lane].item() for source in taken.sources]
            found.append(met if taken.came[0][lane] else None)
        elif one.guard:
            found.append((bool(taken.came[0][lane]), bool(taken.lanes[0][lane])))
    return tuple(map(str, found))


def _other_lane(facts: ValueFacts, links: Sequence[Link], lane: int) -> int | None:
    """Return a lane that is right and goes another way, of those that most go; None if none is."""
    written = facts.written
    assert written is not None
    own = _decisions(links, lane)
    wrong = {one.row for one in facts.differences if one.column == written.column}
    if not accesses_registers(written.event.step) or not own:
        return None
    right = [one for one in range(written.event.step.lanes) if one not in wrong]
    ways = {one: _decisions(links, one) for one in right}
    others = [one for one in right if ways[one] != own]
    counts = [*ways.values()]
    return max(others, key=lambda one: (counts.count(ways[one]), -one), default=None)


def _named(word: str, link: Link) -> bool:
    """Whether a word of an identity names an instruction: an opcode, a family, a unit, a loop."""
    one = link.taken.statement if link.taken else None
    if isinstance(one, Assign):
        return _names(word, one.opcode)
    if link.taken is not None:
        kind = "loop of lanes" if isinstance(one, Repeat) else "branch of lanes"
        return kind in word and not isinstance(one, Leave) and bool(link.taken.sources)
    form = link.event.step.instruction
    if form is None:
        return False
    opcode, *rest = word.split(" ")
    shape = next((part for part in rest if part.startswith("m") and part[1:2].isdigit()), "")
    # Of plain and of ordered metadata an identity has one name.
    own = form.opcode.replace("::", ".")
    return f"{own}.".startswith(f"{opcode.replace('::', '.')}.") and f".{shape}" in own


def _names(word: str, opcode: str) -> bool:
    return fnmatchcase(opcode, word) or opcode.startswith(f"{word}.")


def _reads(one: Statement) -> list[str]:
    return sorted(read_by(one))


def _writes(one: Statement) -> Sequence[str]:
    return one.destinations if isinstance(one, Assign) else ()


class _Writer:
    """Writes the lines of a way."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.program = way.facts.program
        self.registers = operand_registers(self.program)
        codes = dict.fromkeys(link.event.number for link in way.links if link.taken is not None)
        self.suffix = {number: f"_{at}" if at > 1 else "" for at, number in enumerate(codes, 1)}
        self.types: dict[tuple[int, str], str] = {}
        """Notation of a register of scalar code, by event and name."""
        self.held: dict[Register, str] = {}
        """Notation of a register that a multiplication has written."""
        self.depths: dict[int, int] = {}
        for number in codes:
            step = way.facts.trace.events[number].step
            if is_lane_code(step):
                self.depths |= {one: len(outer) for one, outer in around(step.code).items()}

    def lines(self) -> Iterator[Told]:
        for at, link in enumerate(self.way.links):
            marked = at in self.way.guilty
            if link.taken is None:
                yield from self.step(at, link, marked=marked)
                continue
            text, values, note = self.statement(at, link, marked=marked)
            one = link.taken.statement
            depth = self.depths.get(id(one), 0)
            turn = isinstance(one, Repeat) and not link.taken.sources
            line = Line(text=text, values=values, note=note, marked=marked, indent=depth + turn)
            yield Told(
                line,
                [self.name(link.event, name) for name in _reads(one)],
                [self.name(link.event, name) for name in _writes(one)],
            )

    # Scalar code

    def name(self, event: Event, name: str | int) -> str:
        if isinstance(name, int):
            return str(name) if name < 10 else f"{name:#x}"
        if name in (LANE, ZERO):
            return {LANE: "%laneid", ZERO: "%zero"}[name]
        return f"%{name}{self.suffix.get(event.number, '')}"

    def predicate(self, event: Event, text: str) -> str:
        negated = "!" if text.startswith("!") else ""
        return f"{negated}{self.name(event, text.removeprefix('!'))}"

    def statement(self, at: int, link: Link, *, marked: bool) -> tuple[str, Sequence[str], str]:
        taken, event = link.taken, link.event
        assert taken is not None
        one = taken.statement
        match one:
            case Assign():
                return self.assign(at, link, one, marked=marked)
            case If():
                text = f"if {self.predicate(event, one.predicate)}"
                cells = self.cells(link, lambda lane: notation(taken.sources[0][0][lane], "pred"))
            case Leave():
                where = "go on to the next turn" if one.turn else "leave the loop"
                text = f"if {self.predicate(event, one.predicate)} {where}"
                cells = self.cells(link, lambda lane: notation(taken.sources[0][0][lane], "pred"))
            case Repeat() if not taken.sources:
                name = self.name(event, one.counter)
                text = f"add.s32 {name}, {name}, {-1 if one.down else 1}"
                cells = self.cells(link, lambda lane: str(int(taken.results[0][0][lane])))
            case Repeat():
                count = self.name(event, one.count)
                masked = f"{count} & {one.mask:#x}" if isinstance(one.count, str) else count
                name = self.name(event, one.counter)
                text = f"loop of {masked} turn{'' if masked == '1' else 's'}, {name} from "
                text += "that on down" if one.down else "0 on"
                text += ", at least one" if one.late else ""
                if one.entry:
                    text += f", entered within its body if {self.predicate(event, one.entry)}"
                cells = self.cells(link, lambda lane: str(int(taken.sources[0][0][lane])))
        return text, cells, ""

    def assign(
        self, at: int, link: Link, one: Assign, *, marked: bool
    ) -> tuple[str, Sequence[str], str]:
        taken, event, row = link.taken, link.event, one.row
        assert taken is not None
        guard = f"@{self.predicate(event, one.guard)} " if one.guard else ""
        text = guard + row.text(
            [self.name(event, name) for name in one.destinations],
            [self.name(event, source) for source in one.sources],
        ).removesuffix(";")
        for name in one.destinations:
            self.types[event.number, name] = self.result_type(at, link, one, name)

        def given(lane: int) -> str:
            if not taken.lanes[0][lane]:
                return "not executed"
            parts = [
                shown(int(made[0][lane]), _bits(class_of(name)), self.types[event.number, name])
                for name, made in zip(one.destinations, taken.results, strict=False)
            ]
            carry = [notation(taken.results[-1][0][lane], "pred")] if row.carry_out else []
            return ", ".join([*parts, *(f"CC.CF {one}" for one in carry)])

        return text, self.cells(link, given), self.read_as(link, one) if marked else ""

    def result_type(self, at: int, link: Link, one: Assign, name: str) -> str:
        """Return the notation of a destination: its own type, or that of what reads it."""
        if class_of(name) == "pred":
            return "pred"
        own = one.row.result_type if name == one.destinations[0] else class_of(name)
        if own[0] != "b" or own.startswith("bf"):
            return own
        if one.row.family == "mov":
            (source, *_) = map(str, one.sources)
            known = self.types.get((link.event.number, source))
            if known and class_of(source) == class_of(name):
                return known
        return self.consumer_type(at, link.event, name) or own

    def consumer_type(self, at: int, event: Event, name: str) -> str:
        """Return as what the next instruction that computes with a register reads it."""
        for link in self.way.links[at + 1 :]:
            if link.taken is None or link.event is not event:
                continue
            one = link.taken.statement
            if not isinstance(one, Assign):
                continue
            if name in one.sources and one.row.family not in ("selp", "slct", "mov"):
                type_ = one.row.source_type
                return "" if type_[0] == "b" and not type_.startswith("bf") else type_
            if name in one.destinations and not one.guard:
                return ""
        return ""

    def read_as(self, link: Link, one: Assign) -> str:
        """Say what an instruction reads, where its type has another notation, or lanes are many."""
        taken, type_, notes = link.taken, one.row.source_type, []
        assert taken is not None
        lane = self.way.lanes[0]
        for name, source in zip(one.sources, taken.sources, strict=False):
            kind = "b32" if isinstance(name, int) else class_of(name)
            if kind == "pred":
                continue
            if one.row.warp and isinstance(name, str):
                notes.append(f"{self.name(link.event, name)} is {by_lanes(source[0], _bits(kind))}")
                continue
            value = int(source[0][lane])
            if isinstance(name, int) and not value:
                continue
            known = self.types.get((link.event.number, str(name)), "")
            said = notation(value, type_) if type_[0] in "fb" or known else ""
            floats = type_[0] == "f" or type_.startswith("bf")
            if not taken.lanes[0][lane] or said in ("", notation(value, known)):
                continue
            if floats or not isinstance(name, int):
                notes.append(f"{self.name(link.event, name)} is {said} as {type_}")
        return "; ".join(dict.fromkeys(notes))

    def cells(self, link: Link, given: Callable[[int], str]) -> list[str]:
        """Return what a statement gives in each lane that is told."""
        taken = link.taken
        assert taken is not None
        made = []
        for lane in self.way.lanes:
            came = bool(taken.came[0][lane])
            made.append(given(lane) if came and link.lanes[lane] else _NOT_COME)
        if set(made) == {_NOT_COME}:
            lane = int(np.argmax(link.lanes))
            made[0] = f"{given(lane)} (lane {lane})"
        return made

    # Steps

    def names(self, use: Use, event: Event) -> Sequence[str]:
        """Return the registers of an operand; what scalar code made is called as there."""
        names = self.registers.of(use)
        number = None if use.written else event.makers.get(use.name)
        maker = None if number is None else self.way.facts.trace.events[number]
        if maker is None or not is_lane_code(maker.step) or maker.step.writes is None:
            return names
        made = maker.step.writes.registers
        return [
            self.name(maker, maker.step.results[made.index(register)]) if register in made else name
            for register, name in zip(use.registers, names, strict=True)
        ]

    def operand(self, use: Use, event: Event) -> str:
        names = [*self.names(use, event)]
        if len(names) > 2:
            stem = names[0].rstrip("0123456789")
            if names == [f"{stem}{at}" for at in range(len(names))]:
                return f"{{{names[0]}, …, {names[-1]}}}"
        return f"{{{', '.join(names)}}}" if len(names) > 1 else names[0]

    def step(self, at: int, link: Link, *, marked: bool) -> Iterator[Told]:
        event, step = link.event, link.event.step
        reads = [name for use in step.reads for name in self.names(use, event)]
        writes = [] if step.writes is None else self.names(step.writes, event)
        if accesses_registers(step):
            for line, register in self.access(at, link):
                if step.loads:
                    yield Told(line, writes=writes if register is None else [register])
                else:
                    yield Told(line, reads=reads if register is None else [register])
            return
        value = [] if link.at is None else [self.element(link)]
        if not is_instruction(step):
            text = str(step)
            if isinstance(step, Scalar):
                given = self.operand(step.reads[0], event) if step.reads else f"{step.constant:#x}"
                text = f"{step.opcode} {self.operand(step.uses[-1], event)}, {given}"
            yield Told(Line(text=text, values=value, marked=marked), reads, writes)
            return
        uses = {use.field: use for use in step.uses}
        order = [uses[name] for name in ("d", "a", "b", "c", "e") if name in uses] or step.uses
        texts = [self.operand(use, event) for use in sorted(order, key=lambda use: not use.written)]
        if step.form.is_load or step.form.is_store:
            (place, *_) = step.bytes_read or step.bytes_written
            where = place.buffer if accesses_rows(step) else _at(place.buffer, place.start)
            texts.insert(1 if step.form.is_load else 0, f"[{where}]")
        if step.selector is not None:
            texts.append(str(step.selector))
        notes = [str(one) for one in overlaps(step, self.program.shared_banks)]
        if loads_rows(step) and link.at is not None:
            notes.append(_gathered(event, link.at))
        elif step.form.matrices and step.form.is_load and not value and event.result is not None:
            notes.append(contents_of(event.result, step.form.type(), step.form.matrix().operand))
        if at == len(self.way.links) - 1:
            value = [self.stored()]
            notes.append(self.left())
        line = Line(
            text=f"{step.form.opcode} {', '.join(texts)}", values=value,
            note="; ".join(filter(None, notes)), marked=marked,
        )  # fmt: skip
        yield Told(line, reads, writes)

    def element(self, link: Link) -> str:
        """Return the element of a fragment, or the register of a lane, that matters."""
        event, result = link.event, link.event.result
        assert link.at is not None
        made = event.step.writes
        if result is None or made is None:
            return ""
        row, column = link.at
        step = event.step
        if made.is_fragment:
            fmt = made.holds.matrix.type  # type: ignore[union-attr]
            bits = int(result[row, column]) & ((1 << fmt.bits) - 1)
            name = "D" if multiplies(step) else made.holds.matrix.operand.upper()  # type: ignore[union-attr]
            return f"{name}[{row}, {column}] = {shown(bits, fmt.bits, fmt.name)}"
        bits = register_of(result, row, column, made.holds.bits)
        type_ = packed_type(step.form.d_type) if multiplies(step) else f"b{made.holds.bits}"
        if type_ != f"b{made.holds.bits}":
            self.held[made.registers[column]] = type_
        return shown(bits, made.holds.bits, type_)

    def access(self, at: int, link: Link) -> Iterator[tuple[Line, str | None]]:
        """Yield a line for each register of a load or store that matters, and its name.

        Of a load that matters in many lanes there is one line.
        """
        event, step = link.event, link.event.step
        assert accesses_registers(step)
        (use,) = step.uses
        space, size = self.program.buffer(step.place.buffer).space, step.bits // 8
        opcode = f"{'ld' if step.loads else 'st'}.{space}.b{step.bits}"
        by_lane = f" + {size * step.count}*lane"
        if step.loads and link.at is None and int(link.lanes.sum()) > len(self.way.lanes):
            where = f"[{_at(step.place.buffer, step.place.offset)}{by_lane}]"
            note = "" if event.result is None else words_of_registers(event.result)
            yield Line(text=f"{opcode} {self.operand(use, event)}, {where}", note=note), None
            return
        lane = self.way.lanes[0]
        for index in link.registers if step.loads or link.at is None else [link.at[1]]:
            offset, alone = step.place.offset + size * index, len(self.way.lanes) == 1
            place = _at(step.place.buffer, offset + alone * size * step.count * lane)
            where = f"[{place}]" if alone else f"[{place}{by_lane}]"
            name, type_ = self.named(at, use.registers[index], use, index)
            if step.loads:
                assert event.result is not None
                words = [register_of(event.result, one, index, step.bits) for one in self.way.lanes]
                values = [shown(one, step.bits, type_) for one in words]
                yield Line(text=f"{opcode} {name}, {where}", values=values), name
            else:
                values = [self.stored(), *self.others()]
                text = f"{opcode} {where}, {name}"
                yield Line(text=text, values=values, note=self.left()), name

    def named(self, at: int, register: Register, use: Use, index: int) -> tuple[str, str]:
        """Return the name of a register of an operand, and its notation.

        Scalar code calls it as it calls its input or its result.
        """
        plain, plain_type = self.registers.of(use)[index], f"b{use.holds.bits}"
        if use.written:
            for later in self.way.links[at + 1 :]:
                for read in later.event.step.reads:
                    if register in read.registers and is_lane_code(later.event.step):
                        name = later.event.step.inputs[read.registers.index(register)]
                        type_ = self.consumer_type(at, later.event, name)
                        self.types[later.event.number, name] = type_ or plain_type
                        return self.name(later.event, name), type_ or plain_type
                    if register in read.registers and multiplies(later.event.step):
                        return plain, packed_type(later.event.step.form.type(read.field))
            return plain, plain_type
        for earlier in reversed(self.way.links[:at]):
            made = earlier.event.step.writes
            if made is not None and register in made.registers:
                step = earlier.event.step
                if is_lane_code(step):
                    name = step.results[made.registers.index(register)]
                    type_ = self.types.get((earlier.event.number, name), plain_type)
                    return self.name(earlier.event, name), type_
                return plain, self.held.get(register, plain_type)
        return plain, plain_type

    # What is stored

    @cached_property
    def stored_type(self) -> str:
        """Notation of what is stored."""
        difference = self.way.facts.shown
        assert difference is not None
        fmt = self.way.facts.type_of(difference)
        if fmt is not None:
            return fmt.name
        link = self.way.links[-1]
        use = _stored(link)
        index = self.way.facts.written.column if self.way.facts.written else 0
        if use.is_fragment or index >= len(use.registers):
            return ""
        type_ = self.named(len(self.way.links) - 1, use.registers[index], use, index)[1]
        return type_ if difference.bits == use.holds.bits else ""

    def stored(self) -> str:
        difference = self.way.facts.shown
        assert difference is not None
        return shown(difference.expected, difference.bits, self.stored_type)

    def left(self) -> str:
        """Say what the build left in place of it."""
        difference = self.way.facts.shown
        assert difference is not None
        return f"the build leaves {shown(difference.actual, difference.bits, self.stored_type)}"

    def others(self) -> list[str]:
        """Return what the other lanes that are told store."""
        facts = self.way.facts
        return [
            shown(int(result.read(facts.expected)[lane, facts.written.column]), result.bits,
                  self.stored_type)
            for lane in self.way.lanes[1:]
            for result in facts.results
            if facts.shown is not None and facts.written is not None
            and result.is_registers and facts.shown.byte in result.offsets
        ]  # fmt: skip


def _bits(kind: str) -> int:
    return 1 if kind == "pred" else int(kind[1:])


def _at(buffer: str, offset: int) -> str:
    return f"{buffer}+{offset}" if offset else buffer


def _gathered(event: Event, at: tuple[int, int]) -> str:
    """Say from which rows a register of a lane comes after a load of rows."""
    step = event.step
    assert loads_rows(step)
    index = moves(step.form).ravel()
    lane, register = at
    first = 4 * (lane * (index.size // 4 // LANES) + register)
    givers = sorted({int(one) // 16 for one in index[first : first + 4]})
    places = [int(one) % 16 for one in index[first : first + 4]]
    return (
        f"register {register} of lane {lane}: bytes {spans(sorted(set(places)))} of the row"
        f"{'s' if len(givers) > 1 else ''} at the address of lane {spans(givers)}"
    )
