"""The instructions that led to a wrong value, with what each gives, as lines of a page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fuzz.explain.document import Line
from fuzz.explain.facts import ValueFacts
from fuzz.explain.values import (
    by_lanes,
    contents_of,
    notation,
    packed_type,
    register_of,
    shown,
    spans,
    words_of_registers,
)
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
from oracle.registers import Register
from oracle.sharing import overlaps
from oracle.slicing import Link, around
from oracle.steps import Scalar, accesses_registers, is_lane_code
from oracle.tracing import Event
from runners.emission.registers import operand_registers

_NOT_COME = "–"


@dataclass(frozen=True)
class Told:
    """A line, with the registers that its instruction reads and writes, as they are named."""

    line: Line
    reads: Sequence[str] = ()
    writes: Sequence[str] = ()


def stored_by(link: Link) -> Use:
    """Return what the store at the end of a way reads."""
    (use,) = link.event.step.reads
    return use


def _reads(one: Statement) -> list[str]:
    return sorted(read_by(one))


def _writes(one: Statement) -> Sequence[str]:
    return one.destinations if isinstance(one, Assign) else ()


class Writer:
    """Writes the lines of a way."""

    def __init__(
        self,
        facts: ValueFacts,
        links: Sequence[Link],
        lanes: Sequence[int],
        guilty: Collection[int],
    ) -> None:
        self.facts, self.links, self.lanes, self.guilty = facts, links, lanes, guilty
        self.program = facts.program
        self.registers = operand_registers(self.program)
        codes = dict.fromkeys(link.event.number for link in links if link.taken is not None)
        self.suffix = {number: f"_{at}" if at > 1 else "" for at, number in enumerate(codes, 1)}
        self.types: dict[tuple[int, str], str] = {}
        """Notation of a register of scalar code, by event and name."""
        self.held: dict[Register, str] = {}
        """Notation of a register that a multiplication has written."""
        self.depths: dict[int, int] = {}
        for number in codes:
            step = facts.trace.events[number].step
            if is_lane_code(step):
                self.depths |= {one: len(outer) for one, outer in around(step.code).items()}

    def lines(self) -> Iterator[Told]:
        """Yield a line for each instruction."""
        for at, link in enumerate(self.links):
            marked = at in self.guilty
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
        """Return a source of scalar code as it is written: a register or a constant."""
        if isinstance(name, int):
            return str(name) if name < 10 else f"{name:#x}"
        if name in (LANE, ZERO):
            return {LANE: "%laneid", ZERO: "%zero"}[name]
        return f"%{name}{self.suffix.get(event.number, '')}"

    def predicate(self, event: Event, text: str) -> str:
        """Return a predicate as it is written, "!" before it."""
        negated = "!" if text.startswith("!") else ""
        return f"{negated}{self.name(event, text.removeprefix('!'))}"

    def statement(self, at: int, link: Link, *, marked: bool) -> tuple[str, Sequence[str], str]:
        """Return the text of a statement of scalar code, what it gives, and a note."""
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
        """Return the text of an instruction, what it gives, and a note."""
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
        for link in self.links[at + 1 :]:
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
        lane = self.lanes[0]
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
        for lane in self.lanes:
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
        maker = None if number is None else self.facts.trace.events[number]
        if maker is None or not is_lane_code(maker.step) or maker.step.writes is None:
            return names
        made = maker.step.writes.registers
        return [
            self.name(maker, maker.step.results[made.index(register)]) if register in made else name
            for register, name in zip(use.registers, names, strict=True)
        ]

    def operand(self, use: Use, event: Event) -> str:
        """Return an operand as it is written: one register, or a vector."""
        names = [*self.names(use, event)]
        if len(names) > 2:
            stem = names[0].rstrip("0123456789")
            if names == [f"{stem}{at}" for at in range(len(names))]:
                return f"{{{names[0]}, …, {names[-1]}}}"
        return f"{{{', '.join(names)}}}" if len(names) > 1 else names[0]

    def step(self, at: int, link: Link, *, marked: bool) -> Iterator[Told]:
        """Yield the lines of a step that is no scalar code."""
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
        if at == len(self.links) - 1:
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
        if step.loads and link.at is None and int(link.lanes.sum()) > len(self.lanes):
            where = f"[{_at(step.place.buffer, step.place.offset)}{by_lane}]"
            note = "" if event.result is None else words_of_registers(event.result)
            yield Line(text=f"{opcode} {self.operand(use, event)}, {where}", note=note), None
            return
        lane = self.lanes[0]
        for index in link.registers if step.loads or link.at is None else [link.at[1]]:
            offset, alone = step.place.offset + size * index, len(self.lanes) == 1
            place = _at(step.place.buffer, offset + alone * size * step.count * lane)
            where = f"[{place}]" if alone else f"[{place}{by_lane}]"
            name, type_ = self.named(at, use.registers[index], use, index)
            if step.loads:
                assert event.result is not None
                words = [register_of(event.result, one, index, step.bits) for one in self.lanes]
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
            for later in self.links[at + 1 :]:
                for read in later.event.step.reads:
                    if register in read.registers and is_lane_code(later.event.step):
                        name = later.event.step.inputs[read.registers.index(register)]
                        type_ = self.consumer_type(at, later.event, name)
                        self.types[later.event.number, name] = type_ or plain_type
                        return self.name(later.event, name), type_ or plain_type
                    if register in read.registers and multiplies(later.event.step):
                        return plain, packed_type(later.event.step.form.type(read.field))
            return plain, plain_type
        for earlier in reversed(self.links[:at]):
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
        difference = self.facts.shown
        assert difference is not None
        fmt = self.facts.type_of(difference)
        if fmt is not None:
            return fmt.name
        link = self.links[-1]
        use = stored_by(link)
        index = self.facts.written.column if self.facts.written else 0
        if use.is_fragment or index >= len(use.registers):
            return ""
        type_ = self.named(len(self.links) - 1, use.registers[index], use, index)[1]
        return type_ if difference.bits == use.holds.bits else ""

    def stored(self) -> str:
        """Return what is to be stored."""
        difference = self.facts.shown
        assert difference is not None
        return shown(difference.expected, difference.bits, self.stored_type)

    def left(self) -> str:
        """Say what the build left in place of it."""
        difference = self.facts.shown
        assert difference is not None
        return f"the build leaves {shown(difference.actual, difference.bits, self.stored_type)}"

    def others(self) -> list[str]:
        """Return what the other lanes that are told store."""
        facts = self.facts
        return [
            shown(int(result.read(facts.expected)[lane, facts.written.column]), result.bits,
                  self.stored_type)
            for lane in self.lanes[1:]
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
