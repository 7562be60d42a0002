"""How a wrong value came about: the instructions on the way to it, with what each gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from operator import floordiv, mod
from typing import NamedTuple

import numpy as np

from fuzz.explain.document import CodeLine, CodeListing
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
from fuzz.findings.verdicts import Difference
from fuzz.kinds import is_provisional
from oracle.execution.tracing import Event, Link, around, slice_of
from oracle.isa.forms import LANES
from oracle.layouts.storage import moves
from oracle.program.lane_code import LANE, ZERO, Assign, If, Leave, Repeat, class_of, read_by
from oracle.program.operands import Register, Use
from oracle.program.operations import Scalar
from oracle.program.program import overlaps, walk
from oracle.program.steps import (
    accesses_registers,
    accesses_rows,
    is_instruction,
    is_lane_code,
    loads_rows,
    multiplies,
)
from runners.emission.body import OperandRegisters, operand_registers

_TOP = 11
"""Lines of a listing that is shown before everything else: with those around them, the first 15
lines of a page hold it."""
_LONG = 60
"""Characters of an instruction from which on its values stand below it."""
_MOST = 60
"""Lines of a whole listing; a loop of 15 turns in one of 15 has more."""
_NOT_COME = "–"


class Told(NamedTuple):
    """A line, with the registers that its instruction reads and writes, as they are named."""

    line: CodeLine
    reads: Sequence[str] = ()
    writes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueWay:
    """How a wrong value came about: the instructions that led to it, for the lane that has it."""

    facts: ValueFacts
    shown: Difference
    links: Sequence[Link]
    lanes: tuple[int, ...]
    """The lane that is told; perhaps another, which is right and goes another way."""
    types: dict[tuple[int, str], str] = field(default_factory=dict, init=False)
    """Notation of a register of scalar code, by event and name, as lines come to it."""
    held: dict[Register, str] = field(default_factory=dict, init=False)
    """Notation of a register that a multiplication has written."""
    registers: OperandRegisters

    @classmethod
    def of(cls, facts: ValueFacts) -> ValueWay | None:
        """Return the way to the value that a page is about; None if nothing wrote it."""
        written, shown_ = facts.written, facts.shown
        if written is None or shown_ is None:
            return None
        links = slice_of(facts.trace, written)
        (use,) = links[-1].event.step.reads
        lanes: tuple[int, ...] = (written.row if len(links) > 1 and not use.is_fragment else 0,)
        other = None if lanes[0] != written.row else _other_lane(facts, links, lanes[0])
        if other is not None:
            lanes, links = (*lanes, other), slice_of(facts.trace, written, other)
        registers = operand_registers(facts.program)
        return cls(facts=facts, shown=shown_, links=links, lanes=lanes, registers=registers)

    # What the finding names

    @cached_property
    def words(self) -> Sequence[str]:
        """What the finding's identity names."""
        identity = self.facts.finding.identity
        if is_provisional(self.facts.finding):
            return ()
        named = [word for words in identity.instructions for word in words.split(" or ")]
        return [*named, identity.condition]  # which may be a branch or a loop

    @cached_property
    def guilty(self) -> frozenset[int]:
        """Places of the links that the finding's identity names."""
        links = enumerate(self.links)
        return frozenset(at for at, link in links if any(_named(x, link) for x in self.words))

    @property
    def unread(self) -> Sequence[str]:
        """Opcodes of scalar code that the identity names, and the value does not depend on."""
        codes = [step for step in walk(self.facts.program.steps) if is_lane_code(step)]
        opcodes = dict.fromkeys(opcode for step in codes for opcode in step.opcodes)
        missing = [x for x in self.words if not any(_named(x, link) for link in self.links)]
        return [one for one in opcodes if any(_names(word, one) for word in missing)]

    @property
    def is_exact(self) -> bool:
        """Whether nothing that the value depends on leaves it open: no sum, no bits of a NaN."""
        taken = [link.taken.statement for link in self.links if link.taken is not None]
        rows = [one.row for one in taken if isinstance(one, Assign)]
        return not (
            any(multiplies(link.event.step) for link in self.links)
            or any(row.nan or row.defined is not None for row in rows)
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
        if is_provisional(self.facts.finding):
            return ""
        last, made = self.lines[-1], self.lines[-2] if len(self.lines) > 1 else None
        both, size = (self.shown.actual, self.shown.expected), self.shown.bits
        words = [notation(bits, self.stored_type) or hexadecimal(bits, size) for bits in both]
        if words[0] == words[1]:
            words = [hexadecimal(bits, size) for bits in both]
        own = made is not None and made.line.marked and {*last.reads} <= {*made.writes}
        gives = "give" if len(self.facts.finding.identity.instructions) > 1 else "gives"
        verb = f" {gives} {{}} where {{}} is right" if own else ": {} is stored where {} is right"
        return verb.format(*words)

    # What is shown of the lines

    def top(self) -> CodeListing:
        """Return what matters most: what is named, what it reads, and what is stored."""
        places = range(len(self.lines))
        if self._room(places) <= _TOP:
            return self._listing(places)
        marked = [at for at in places if self.lines[at].line.marked]
        kept = {*marked[:3], *marked[-1:], *places[-2 if marked else 3 - _TOP :]}
        for at in sorted(kept, reverse=True):
            # The lines just before one that made what it reads.
            names = {*self.lines[at].reads}
            for before in range(at - 1, -1, -1):
                if made := names.intersection(self.lines[before].writes):
                    names -= made
                    if self._room({*kept, before}) < _TOP:
                        kept.add(before)
        return self._listing(sorted(kept))

    def _room(self, places: Iterable[int]) -> int:
        """Return how many lines of a page some lines take, about."""
        lines = (self.lines[at].line for at in places)
        return sum(1 + bool(line.note) + (len(line.text) > _LONG) for line in lines)

    def whole(self) -> CodeListing | None:
        """Return every instruction, of very many the first and the last; None if `top` has all."""
        places, half = range(len(self.lines)), _MOST // 2
        if self._room(places) <= _TOP:
            return None
        return self._listing(places if len(places) <= _MOST else [*places[:half], *places[-half:]])

    def _listing(self, places: Sequence[int]) -> CodeListing:
        lines, before = [], -1
        for at in places:
            if at == before + 2:
                lines.append(self.lines[at - 1].line)
            elif at > before + 1:
                lines.append(CodeLine(text=f"… {at - before - 1} more"))
            lines.append(self.lines[at].line)
            before = at
        head = [f"lane {lane}" for lane in self.lanes] if len(self.lanes) > 1 else ()
        return CodeListing(lines, head)

    # The lines

    @cached_property
    def lines(self) -> Sequence[Told]:
        """Every instruction."""
        return [
            told
            for at, link in enumerate(self.links)
            for told in (self._step(at, link) if link.taken is None else self._statement(at, link))
        ]

    @cached_property
    def _codes(self) -> dict[int, str]:
        """What registers of scalar code are called behind their names, by event."""
        codes = dict.fromkeys(link.event.number for link in self.links if link.taken is not None)
        return {number: f"_{at}" if at > 1 else "" for at, number in enumerate(codes, 1)}

    @cached_property
    def _depths(self) -> dict[int, int]:
        """How deep a statement lies in branches and loops, by its id."""
        steps = (self.facts.trace.events[number].step for number in self._codes)
        codes = (around(step.code) for step in steps if is_lane_code(step))
        return {one: len(outer) for code in codes for one, outer in code.items()}

    def _name(self, event: Event, name: str | int) -> str:
        """Return a source of scalar code as it is written: a register or a constant."""
        if isinstance(name, int):
            return str(name) if name < 10 else f"{name:#x}"
        if name.startswith("!"):
            return f"!{self._name(event, name[1:])}"
        if name in (LANE, ZERO):
            return {LANE: "%laneid", ZERO: "%zero"}[name]
        return f"%{name}{self._codes.get(event.number, '')}"

    def _statement(self, at: int, link: Link) -> Iterator[Told]:
        """Yield the line of a statement of scalar code."""
        taken, event, marked = link.taken, link.event, at in self.guilty
        assert taken is not None
        one, note, turn = taken.statement, "", False

        def met(lane: int) -> str:
            found = taken.sources[0][0][lane]
            return str(int(found)) if isinstance(one, Repeat) else notation(found, "pred")

        given: Callable[[int], str] = met
        match one:
            case Assign():
                text, given = self._assigned(at, link, one)
                note = self._read_as(link, one) if marked else ""
            case If():
                text = f"if {self._name(event, one.predicate)}"
            case Leave():
                where = "go on to the next turn" if one.turn else "leave the loop"
                text = f"if {self._name(event, one.predicate)} {where}"
            case Repeat() if not taken.sources:
                name, turn = self._name(event, one.counter), True
                text = f"add.s32 {name}, {name}, {-1 if one.down else 1}"
                given = lambda lane: str(int(taken.results[0][0][lane]))  # noqa: E731
            case Repeat():
                count = self._name(event, one.count)
                masked = f"{count} & {one.mask:#x}" if isinstance(one.count, str) else count
                text = f"loop of {masked} turn{'' if masked == '1' else 's'}, "
                text += f"{self._name(event, one.counter)} from "
                text += "that on down" if one.down else "0 on"
                text += ", at least one" if one.late else ""
                if one.entry:
                    text += f", entered within its body if {self._name(event, one.entry)}"
        made = [
            given(lane) if taken.came[0][lane] and link.lanes[lane] else _NOT_COME
            for lane in self.lanes
        ]
        if set(made) == {_NOT_COME}:
            lane = int(np.argmax(link.lanes))
            made[0] = f"{given(lane)} (lane {lane})"
        indent = self._depths.get(id(one), 0) + turn
        writes = one.destinations if isinstance(one, Assign) else ()
        yield Told(
            CodeLine(text=text, values=made, note=note, marked=marked, indent=indent),
            [self._name(event, name) for name in sorted(read_by(one))],
            [self._name(event, name) for name in writes],
        )

    def _assigned(self, at: int, link: Link, one: Assign) -> tuple[str, Callable[[int], str]]:
        """Return the text of an instruction, and what tells what it gives in a lane."""
        taken, event, row = link.taken, link.event, one.row
        assert taken is not None
        guard = f"@{self._name(event, one.guard)} " if one.guard else ""
        text = guard + row.text(
            [self._name(event, name) for name in one.destinations],
            [self._name(event, source) for source in one.sources],
        ).removesuffix(";")
        for name in one.destinations:
            self.types[event.number, name] = self._result_type(at, link, one, name)

        def given(lane: int) -> str:
            if not taken.lanes[0][lane]:
                return "not executed"
            parts = [
                shown(int(made[0][lane]), _bits(class_of(name)), self.types[event.number, name])
                for name, made in zip(one.destinations, taken.results, strict=False)
            ]
            carry = [notation(taken.results[-1][0][lane], "pred")] if row.carry_out else []
            return ", ".join([*parts, *(f"CC.CF {one}" for one in carry)])

        return text, given

    def _result_type(self, at: int, link: Link, one: Assign, name: str) -> str:
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
        return self._consumer_type(at, link.event, name) or own

    def _consumer_type(self, at: int, event: Event, name: str) -> str:
        """Return as what the next instruction that computes with a register reads it."""
        for link in self.links[at + 1 :]:
            one = link.taken.statement if link.taken is not None else None
            if link.event is not event or not isinstance(one, Assign):
                continue
            if name in one.sources and one.row.family not in ("selp", "slct", "mov"):
                type_ = one.row.source_type
                return "" if type_[0] == "b" and not type_.startswith("bf") else type_
            if name in one.destinations and not one.guard:
                return ""
        return ""

    def _read_as(self, link: Link, one: Assign) -> str:
        """Say what an instruction reads, where its type has another notation, or lanes are many."""
        taken, type_, notes = link.taken, one.row.source_type, []
        assert taken is not None
        lane = self.lanes[0]
        for name, source in zip(one.sources, taken.sources, strict=False):
            kind = "b32" if isinstance(name, int) else class_of(name)
            if kind == "pred":
                continue
            if one.row.warp and isinstance(name, str):
                values = by_lanes(source[0], _bits(kind))
                notes.append(f"{self._name(link.event, name)} is {values}")
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
                notes.append(f"{self._name(link.event, name)} is {said} as {type_}")
        return "; ".join(dict.fromkeys(notes))

    # Steps

    def _names(self, use: Use, event: Event) -> Sequence[str]:
        """Return the registers of an operand; what scalar code made is called as there."""
        names = self.registers.of(use)
        number = None if use.written else event.makers.get(use.name)
        maker = None if number is None else self.facts.trace.events[number]
        if maker is None or not is_lane_code(maker.step) or maker.step.writes is None:
            return names
        made, results = maker.step.writes.registers, maker.step.results
        return [
            self._name(maker, results[made.index(register)]) if register in made else name
            for register, name in zip(use.registers, names, strict=True)
        ]

    def _operand(self, use: Use, event: Event) -> str:
        """Return an operand as it is written: one register, or a vector."""
        names = [*self._names(use, event)]
        if len(names) > 2:
            stem = names[0].rstrip("0123456789")
            if names == [f"{stem}{at}" for at in range(len(names))]:
                return f"{{{names[0]}, …, {names[-1]}}}"
        return f"{{{', '.join(names)}}}" if len(names) > 1 else names[0]

    def _step(self, at: int, link: Link) -> Iterator[Told]:
        """Yield the lines of a step that is no scalar code."""
        event, step, marked = link.event, link.event.step, at in self.guilty
        if accesses_registers(step):
            yield from self._access(at, link)
            return
        reads = [name for use in step.reads for name in self._names(use, event)]
        writes = [] if step.writes is None else self._names(step.writes, event)
        value = [] if link.at is None else [self._element(link, link.at)]
        if not is_instruction(step):
            text = str(step)
            if isinstance(step, Scalar):
                given = self._operand(step.reads[0], event) if step.reads else f"{step.constant:#x}"
                text = f"{step.opcode} {self._operand(step.uses[-1], event)}, {given}"
            yield Told(CodeLine(text=text, values=value, marked=marked), reads, writes)
            return
        form, uses = step.form, {use.field: use for use in step.uses}
        order = [uses[name] for name in ("d", "a", "b", "c", "e") if name in uses] or step.uses
        texts = [
            self._operand(use, event) for use in sorted(order, key=lambda use: not use.written)
        ]
        if form.is_load or form.is_store:
            (place, *_) = step.bytes_read or step.bytes_written
            where = place.buffer if accesses_rows(step) else _at(place.buffer, place.start)
            texts.insert(1 if form.is_load else 0, f"[{where}]")
        if step.selector is not None:
            texts.append(str(step.selector))
        notes = [str(one) for one in overlaps(step, self.facts.program.shared_banks)]
        if loads_rows(step) and link.at is not None:
            notes.append(_gathered(event, *link.at))
        elif form.matrices and form.is_load and not value and event.result is not None:
            notes.append(contents_of(event.result, form.type(), form.matrix().operand))
        if at == len(self.links) - 1:
            value = [self._stored]
            notes.append(self._left)
        text, note = f"{form.opcode} {', '.join(texts)}", "; ".join(filter(None, notes))
        yield Told(CodeLine(text=text, values=value, note=note, marked=marked), reads, writes)

    def _element(self, link: Link, at: tuple[int, int]) -> str:
        """Return the element of a fragment, or the register of a lane, that matters."""
        step, result = link.event.step, link.event.result
        made = step.writes
        if result is None or made is None:
            return ""
        row, column = at
        if made.is_fragment:
            matrix = made.holds.matrix  # type: ignore[union-attr]
            bits = int(result[row, column]) & ((1 << matrix.type.bits) - 1)
            name = "D" if multiplies(step) else matrix.operand.upper()
            return f"{name}[{row}, {column}] = {shown(bits, matrix.type.bits, matrix.type.name)}"
        size = made.holds.bits
        type_ = packed_type(step.form.d_type) if multiplies(step) else f"b{size}"
        if type_ != f"b{size}":
            self.held[made.registers[column]] = type_
        return shown(register_of(result, row, column, size), size, type_)

    def _access(self, at: int, link: Link) -> Iterator[Told]:
        """Yield a line for each register of a load or store that matters.

        Of a load that matters in many lanes there is one line.
        """
        event, step = link.event, link.event.step
        assert accesses_registers(step)
        (use,) = step.uses
        space, size = self.facts.program.buffer(step.place.buffer).space, step.bits // 8
        opcode = f"{'ld' if step.loads else 'st'}.{space}.b{step.bits}"
        by_lane = f" + {size * step.count}*lane"
        if step.loads and link.at is None and int(link.lanes.sum()) > len(self.lanes):
            where = f"[{_at(step.place.buffer, step.place.offset)}{by_lane}]"
            note = "" if event.result is None else words_of_registers(event.result)
            text = f"{opcode} {self._operand(use, event)}, {where}"
            yield Told(CodeLine(text=text, note=note), writes=self._names(use, event))
            return
        for index in link.registers if step.loads or link.at is None else [link.at[1]]:
            offset, alone = step.place.offset + size * index, len(self.lanes) == 1
            place = _at(step.place.buffer, offset + alone * size * step.count * self.lanes[0])
            where = f"[{place}]" if alone else f"[{place}{by_lane}]"
            name, type_ = self._named(at, use.registers[index], use, index)
            if step.loads:
                assert event.result is not None
                words = [register_of(event.result, one, index, step.bits) for one in self.lanes]
                values = [shown(one, step.bits, type_) for one in words]
                yield Told(CodeLine(text=f"{opcode} {name}, {where}", values=values), writes=[name])
            else:
                line = CodeLine(
                    text=f"{opcode} {where}, {name}", values=[self._stored, *self._others()],
                    note=self._left,
                )  # fmt: skip
                yield Told(line, reads=[name])

    def _named(self, at: int, register: Register, use: Use, index: int) -> tuple[str, str]:
        """Return the name of a register of an operand, and its notation.

        Scalar code calls it as it calls its input or its result.
        """
        plain, plain_type = self.registers.of(use)[index], f"b{use.holds.bits}"
        if use.written:
            for later in self.links[at + 1 :]:
                step = later.event.step
                for read in step.reads:
                    if register in read.registers and is_lane_code(step):
                        name = step.inputs[read.registers.index(register)]
                        type_ = self._consumer_type(at, later.event, name) or plain_type
                        self.types[later.event.number, name] = type_
                        return self._name(later.event, name), type_
                    if register in read.registers and multiplies(step):
                        return plain, packed_type(step.form.type(read.field))
            return plain, plain_type
        for earlier in reversed(self.links[:at]):
            step = earlier.event.step
            if step.writes is not None and register in step.writes.registers:
                if is_lane_code(step):
                    name = step.results[step.writes.registers.index(register)]
                    type_ = self.types.get((earlier.event.number, name), plain_type)
                    return self._name(earlier.event, name), type_
                return plain, self.held.get(register, plain_type)
        return plain, plain_type

    # What is stored

    @cached_property
    def stored_type(self) -> str:
        """Notation of what is stored."""
        fmt, written = self.facts.type_of(self.shown), self.facts.written
        if fmt is not None:
            return fmt.name
        (use,) = self.links[-1].event.step.reads
        index = written.column if written else 0
        if use.is_fragment or index >= len(use.registers):
            return ""
        type_ = self._named(len(self.links) - 1, use.registers[index], use, index)[1]
        return type_ if self.shown.bits == use.holds.bits else ""

    @property
    def _stored(self) -> str:
        return shown(self.shown.expected, self.shown.bits, self.stored_type)

    @property
    def _left(self) -> str:
        left = shown(self.shown.actual, self.shown.bits, self.stored_type)
        return f"the build leaves {left}"

    def _others(self) -> list[str]:
        """Return what the other lanes that are told store."""
        facts, column = self.facts, self.facts.written.column if self.facts.written else 0
        return [
            shown(int(result.read(facts.expected)[lane, column]), result.bits, self.stored_type)
            for lane in self.lanes[1:]
            for result in facts.results
            if result.is_registers and self.shown.byte in result.offsets
        ]


def _bits(kind: str) -> int:
    return 1 if kind == "pred" else int(kind[1:])


def _at(buffer: str, offset: int) -> str:
    return f"{buffer}+{offset}" if offset else buffer


def _gathered(event: Event, lane: int, register: int) -> str:
    """Say from which rows a register of a lane comes after a load of rows."""
    assert loads_rows(event.step)
    index = moves(event.step.form).ravel()
    first = 4 * (lane * (index.size // 4 // LANES) + register)
    places = [int(one) for one in index[first : first + 4]]
    bytes_, givers = (sorted({one(place, 16) for place in places}) for one in (mod, floordiv))
    return (
        f"register {register} of lane {lane}: bytes {spans(bytes_)} of the row"
        f"{'s' if len(givers) > 1 else ''} at the address of lane {spans(givers)}"
    )


def _other_lane(facts: ValueFacts, links: Sequence[Link], lane: int) -> int | None:
    """Return a lane that is right and goes another way, of those that most go; None if none is."""
    written = facts.written
    assert written is not None

    def decisions(lane: int) -> tuple[object, ...]:
        """Where a lane went: what it met at each branch, loop and predicate."""
        found: list[object] = []
        for taken in (link.taken for link in links if link.taken is not None):
            if not isinstance(taken.statement, Assign):
                met = [source[0][lane].item() for source in taken.sources]
                found.append(met if taken.came[0][lane] else None)
            elif taken.statement.guard:
                found.append((bool(taken.came[0][lane]), bool(taken.lanes[0][lane])))
        return tuple(map(str, found))

    own, step = decisions(lane), written.event.step
    if not accesses_registers(step) or not own:
        return None
    wrong = {one.row for one in facts.differences if one.column == written.column}
    ways = {one: decisions(one) for one in range(step.lanes) if one not in wrong}
    others = [one for one in ways if ways[one] != own]
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
