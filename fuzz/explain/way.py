"""A finding read from its files, and how its wrong value came about, by instructions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus import Entry, Finding
from corpus.finding import EXPECTED
from fuzz.explain.document import (
    CodeLine,
    CodeListing,
    by_lanes,
    is_plain,
    notation,
    packed_type,
    register_of,
    shown,
    width_of,
)
from fuzz.findings.case import ACTUAL, JUDGED, REWRITTEN, image_of, subject_of
from fuzz.findings.verdicts import Difference, Subject, differences
from fuzz.kinds import is_provisional
from oracle.bounds.permission import Bound, allowed_bytes, bounds_of, permitted
from oracle.errors import InfrastructureError, UsageError
from oracle.execution.tracing import (
    Event,
    Link,
    Trace,
    Written,
    around,
    in_its_warp,
    slice_of,
    trace,
    writer_of,
)
from oracle.isa.forms import FORMATS, LANES, Format
from oracle.isa.lookup import ptx_operands
from oracle.isa.targets import parse_target, split_compiler
from oracle.program.lane_code import (
    LANE,
    ZERO,
    Assign,
    If,
    Leave,
    Repeat,
    Statement,
    class_of,
    every,
    read_by,
    row_of,
    written_by,
)
from oracle.program.operands import Register, Use
from oracle.program.operations import Scalar
from oracle.program.overlaps import overlaps
from oracle.program.program import Program
from oracle.program.steps import (
    PlainAccess,
    accesses_registers,
    accesses_rows,
    is_instruction,
    is_lane_code,
    multiplies,
)
from runners.emission.body import operand_registers
from runners.front_ends.languages import Source, source_of
from strategies.matrices import Result, elements_of, results

_TOP = 11  # lines of the first listing: with those around them, a page's first 15 hold it
_LONG = 60  # characters of an instruction from which on its values stand below it
_MOST = 60  # lines of a whole listing; a loop of 15 turns in one of 15 has more
_NOT_COME = "–"


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueFacts:
    """A finding of a program on an image."""

    entry: Entry
    finding: Finding
    subject: Subject
    program: Program
    rewritten: str | None  # what was run, if a pass or a planted fault changed it
    expected: NDArray[np.uint8]  # (image_bytes,)
    actual: NDArray[np.uint8] | None  # (image_bytes,); None if nothing came out
    architecture: str  # whose model expects this: "sm_90", or "sm_90@12.4" for code of CUDA 12.4

    @classmethod
    def of(cls, entry: Entry) -> ValueFacts:
        """Read a stored finding."""
        subject, finding = subject_of(entry), entry.finding
        files, size = finding.files, subject.program.image_bytes
        architecture = finding.details.get("architecture", finding.target)
        architecture = str(finding.details.get(JUDGED, architecture))
        try:
            parse_target(split_compiler(architecture)[0])
        except UsageError as error:
            raise InfrastructureError(f"{entry.path}: {error}") from None
        if EXPECTED in files:
            expected = image_of(entry, EXPECTED, size)
        else:
            expected = trace(subject.program, subject.image, target=architecture).image
        ran = entry.read(REWRITTEN).decode(errors="replace") if REWRITTEN in files else None
        return cls(
            entry=entry, finding=finding, subject=subject, program=subject.program, rewritten=ran,
            expected=expected,
            actual=image_of(entry, ACTUAL, size) if ACTUAL in files else None,
            architecture=architecture,
        )  # fmt: skip

    @property
    def kernel(self) -> str:
        """The PTX that was run."""
        return self.rewritten if self.rewritten is not None else self.subject.module.ptx

    @cached_property
    def source(self) -> Source | None:
        """What the front end was given; None where warpfuzz wrote the PTX."""
        made = self.finding.made
        if not made.front_end:
            return None
        return source_of(made.front_end, self.subject.module, level=made.level)

    @cached_property
    def trace(self) -> Trace:
        """The program's way over the image, by the model."""
        return trace(self.program, self.subject.image, target=self.architecture)

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """Where the results lie."""
        return results(self.program)

    @cached_property
    def differences(self) -> Sequence[Difference]:
        """What differs."""
        actual = self.actual
        return () if actual is None else differences(self.program, self.expected, actual)

    @cached_property
    def shown(self) -> Difference | None:
        """The difference that the page is about: one that the ISA forbids, if there is any."""
        forbidden = [one for one in self.differences if not self.is_permitted(one)]
        return next(iter(forbidden or self.differences), None)

    @cached_property
    def written(self) -> Written | None:
        """The step that wrote the byte that is shown; None if none is."""
        return None if self.shown is None else writer_of(self.trace, self.shown.byte)

    @cached_property
    def _permission(self) -> Any:
        return permitted(self.program, self.subject.image[None], target=self.architecture)

    @cached_property
    def _allowed(self) -> Any:
        assert self.actual is not None
        return allowed_bytes(self._permission, self.actual[None])[0]

    def is_permitted(self, difference: Difference) -> bool:
        """Whether the ISA permits what is there."""
        size = difference.bits // 8
        return bool(self._allowed[difference.byte : difference.byte + size].all())

    def bound(self, difference: Difference) -> Bound | None:
        """Return what the ISA permits there, None if it is one value or anything."""
        # Of a register with two elements, that of the first byte that differs.
        changed = difference.expected ^ difference.actual
        end = difference.byte + ((changed & -changed).bit_length() - 1) // 8
        found = [one for one in bounds_of(self._permission) if difference.byte <= one.byte <= end]
        return max(found, key=lambda bound: bound.byte, default=None)

    def type_of(self, difference: Difference) -> Format | None:
        """Return the format of what differs; None for registers and bytes."""
        for result in self.results:
            if not result.is_registers and difference.byte in result.offsets:
                return FORMATS.get(result.type)  # rows of moved matrices have none
        return None


class ValueWay:
    """How a wrong value came about: the instructions that led to it, for the lane that has it."""

    def __init__(
        self, facts: ValueFacts, difference: Difference, links: Sequence[Link], lanes: Sequence[int]
    ) -> None:
        self.facts, self.shown, self.links = facts, difference, links
        # The lane that is told; perhaps another, which is right and goes another way.
        self.lanes = lanes
        identity, self.words = facts.finding.identity, list[str]()
        if not is_provisional(facts.finding):
            named = [word for words in identity.instructions for word in words.split(" or ")]
            self.words = [*named, identity.condition]  # which may be a branch or a loop
        self.guilty = frozenset(
            at for at, link in enumerate(links) if any(_named(word, link) for word in self.words)
        )  # places of the links that the finding's identity names
        self._registers, _ = operand_registers(facts.program)
        # As lines come to them: the notation of a register of scalar code, by event and name, and
        # what a register of the program is called then, with its notation.
        self._types: dict[tuple[int, str], str] = {}
        self._held: dict[Register, tuple[str, str]] = {}
        self._inputs: dict[int, dict[str, str]] = {}  # names that inputs of scalar code keep
        codes = {link.event.number: link.event for link in links if link.taken is not None}
        self._suffixes = {one: f"_{at}" if at > 1 else "" for at, one in enumerate(codes, 1)}
        self._depths = {
            one: len(outer)
            for event in codes.values()
            if is_lane_code(event.step)
            for one, outer in around(event.step.code).items()
        }
        self.stored_type = ""  # notation of what is stored
        self.lines = [
            line
            for at, link in enumerate(links)
            for line in (self._step(at, link) if link.taken is None else self._statement(at, link))
        ]

    @classmethod
    def of(cls, facts: ValueFacts) -> ValueWay | None:
        """Return the way to the value that a page is about; None if nothing wrote it."""
        written, shown_ = facts.written, facts.shown
        if written is None or shown_ is None:
            return None
        traced, warp = facts.trace, 0
        if facts.program.warps > 1:
            traced, written, warp = in_its_warp(traced, written)
        links = slice_of(traced, written)
        (use,) = links[-1].event.step.reads
        lanes: tuple[int, ...] = (written.row if len(links) > 1 and not use.is_fragment else 0,)
        other = None if lanes[0] != written.row else _other_lane(facts, links, written, warp)
        if other is not None:
            lanes, links = (*lanes, other), slice_of(traced, written, other)
        return cls(facts, shown_, links, lanes)

    # What is shown of the lines

    def top(self) -> CodeListing:
        """Return what matters most: what is named, what it reads, and what is stored."""
        places = range(len(self.lines))
        if self._room(places) <= _TOP:
            return self._listing(places)
        marked = [at for at in places if self.lines[at].marked]
        kept = {*marked[:1], *marked[-1:], *places[-2 if marked else 3 - _TOP :]}
        for at in marked[1:3]:
            kept |= {at} if self._room({*kept, at}) < _TOP else set()
        for at in sorted(kept, reverse=True):
            # The lines just before one that made what it reads.
            names = {*self.lines[at].reads}
            for before in range(at - 1, -1, -1):
                if made := names.intersection(self.lines[before].writes):
                    names -= made
                    if self._room({*kept, before}) < _TOP:
                        kept.add(before)
        return self._listing(sorted(kept))

    def whole(self) -> CodeListing | None:
        """Return every instruction, of very many the first and the last; None if `top` has all."""
        places, half = range(len(self.lines)), _MOST // 2
        if self._room(places) <= _TOP:
            return None
        return self._listing(places if len(places) <= _MOST else [*places[:half], *places[-half:]])

    def _room(self, places: Collection[int]) -> int:
        lines = (self.lines[at] for at in places)
        gaps = sum(at - 1 not in places for at in places if at)
        return gaps + sum(1 + bool(line.note) + (len(line.text) > _LONG) for line in lines)

    def _listing(self, places: Sequence[int]) -> CodeListing:
        lines, before = list[CodeLine](), -1
        for at in places:
            if at > before + 1:
                left_out = CodeLine(text=f"… {at - before - 1} more")
                lines.append(self.lines[at - 1] if at == before + 2 else left_out)
            lines.append(self.lines[at])
            before = at
        return CodeListing(lines, [f"lane {x}" for x in self.lanes] if len(self.lanes) > 1 else ())

    # The lines: scalar code

    def _name(self, event: Event, name: str | int) -> str:
        """Return a source of scalar code as it is written: a register or a constant."""
        if isinstance(name, int):
            return str(name) if name < 10 else f"{name:#x}"
        if name.startswith("!"):
            return f"!{self._name(event, name[1:])}"
        named = {LANE: "%laneid", ZERO: "%zero", **self._inputs.get(event.number, {})}
        return named.get(name) or f"%{name}{self._suffixes.get(event.number, '')}"

    def _statement(self, at: int, link: Link) -> Iterator[CodeLine]:
        taken, event, marked = link.taken, link.event, at in self.guilty
        assert taken is not None
        if is_lane_code(event.step) and event.number not in self._inputs:
            written = {name for inner in every(event.step.code) for name in written_by(inner)}
            read = zip(event.step.inputs, self._names(event.step.uses[0]), strict=False)
            self._inputs[event.number] = {name: one for name, one in read if name not in written}
        one, indent = taken.statement, self._depths.get(id(taken.statement), 0)
        if isinstance(one, Assign):
            for name in one.destinations:
                self._types[event.number, name] = self._result_type(at, event, one, name)
        made = [
            self._given(link, lane) if taken.came[0][lane] and link.lanes[lane] else _NOT_COME
            for lane in self.lanes
        ]
        if set(made) == {_NOT_COME}:
            lane = int(np.argmax(link.lanes))
            made[0] = f"{self._given(link, lane)} (lane {lane})"
        turn = isinstance(one, Repeat) and not taken.sources
        writes = one.destinations if isinstance(one, Assign) else ()
        yield CodeLine(
            text=self._text(event, one, turn=turn), values=made, marked=marked,
            note=self._read_as(link, one) if isinstance(one, Assign) and marked else "",
            indent=indent + turn, reads=[self._name(event, name) for name in sorted(read_by(one))],
            writes=[self._name(event, name) for name in writes],
        )  # fmt: skip
        if is_lane_code(event.step) and event.step.writes is not None:
            for register, name in zip(event.step.writes.registers, event.step.results, strict=True):
                type_ = self._types.get((event.number, name), class_of(name))
                self._held[register] = self._name(event, name), type_

    def _text(self, event: Event, one: Statement, *, turn: bool) -> str:
        match one:
            case Assign():
                guard = f"@{self._name(event, one.guard)} " if one.guard else ""
                words = row_of(one).text(
                    [self._name(event, name) for name in one.destinations],
                    [self._name(event, source) for source in one.sources],
                )
                return f"{guard}{words.removesuffix(';')}"
            case If():
                return f"if {self._name(event, one.predicate)}"
            case Leave():
                where = "go on to the next turn" if one.turn else "leave the loop"
                return f"if {self._name(event, one.predicate)} {where}"
        count, counter = self._name(event, one.count), self._name(event, one.counter)
        if turn:
            return f"add.s32 {counter}, {counter}, {-1 if one.down else 1}"
        masked = f"{count} & {one.mask:#x}" if isinstance(one.count, str) else count
        parts = [
            f"loop of {masked} turn{'' if masked == '1' else 's'}",
            f"{counter} counts {'down' if one.down else 'up'}",
            *(["at least one"] if one.late else []),
            *([f"entered within its body if {self._name(event, one.entry)}"] if one.entry else []),
        ]
        return ", ".join(parts)

    def _given(self, link: Link, lane: int) -> str:
        taken, number = link.taken, link.event.number
        assert taken is not None
        one = taken.statement
        if isinstance(one, Assign):
            if not taken.lanes[0][lane]:
                return "not executed"
            parts = [
                shown(int(made[0][lane]), width_of(class_of(name)), self._types[number, name])
                for name, made in zip(one.destinations, taken.results, strict=False)
            ]
            if row_of(one).carry_out:
                parts.append(f"CC.CF {notation(taken.results[-1][0][lane], 'pred')}")
            return ", ".join(parts)
        if isinstance(one, Repeat):
            return str(int((taken.sources or taken.results)[0][0][lane]))
        return notation(taken.sources[0][0][lane], "pred")

    def _result_type(self, at: int, event: Event, one: Assign, name: str) -> str:
        """Return the notation of a destination: its own type, or that of what reads it."""
        if class_of(name) == "pred":
            return "pred"
        row, first = row_of(one), str(one.sources[0]) if one.sources else ""
        own = row.result_type if name == one.destinations[0] else class_of(name)
        if not is_plain(own):
            return own
        known = self._types.get((event.number, first))
        if known and row.family == "mov" and class_of(first) == class_of(name):
            return known
        return self._consumer_type(at, event, name) or own

    def _consumer_type(self, at: int, event: Event, name: str) -> str:
        """Return as what the next instruction that computes with a register reads it."""
        for link in self.links[at + 1 :]:
            one = link.taken.statement if link.taken is not None else None
            if link.event is not event or not isinstance(one, Assign):
                continue
            if name in one.sources and row_of(one).family not in ("selp", "slct", "mov"):
                return "" if is_plain(row_of(one).source_type) else row_of(one).source_type
            if name in one.destinations and not one.guard:
                return ""
        return ""

    def _read_as(self, link: Link, one: Assign) -> str:
        taken, type_, notes = link.taken, row_of(one).source_type, list[str]()
        assert taken is not None
        lane = self.lanes[0]
        for name, source in zip(one.sources, taken.sources, strict=False):
            kind = "b32" if isinstance(name, int) else class_of(name)
            if row_of(one).warp and isinstance(name, str) and kind != "pred":
                values = by_lanes(source[0], width_of(kind))
                notes.append(f"{self._name(link.event, name)} is {values}")
                continue
            value = int(source[0][lane])
            if kind == "pred" or not taken.lanes[0][lane] or (isinstance(name, int) and not value):
                continue
            known = self._types.get((link.event.number, str(name)), "")
            said, floats = notation(value, type_), type_[0] == "f" or type_.startswith("bf")
            if said and said != notation(value, known) and (floats or known):
                notes.append(f"{self._name(link.event, name)} is {said} as {type_}")
        return "; ".join(dict.fromkeys(notes))

    # The lines: steps

    def _names(self, use: Use) -> Sequence[str]:
        """Return the registers of an operand; what was named before keeps its name."""
        names = self._registers(use)
        if use.written:
            return names
        return [
            self._held.get(register, (name, ""))[0]
            for register, name in zip(use.registers, names, strict=False)
        ] or names

    def _operand(self, use: Use) -> str:
        names = [*self._names(use)]
        stem = names[0].rstrip("0123456789")
        if len(names) > 2 and names == [f"{stem}{at}" for at in range(len(names))]:
            return f"{{{names[0]}, …, {names[-1]}}}"
        return f"{{{', '.join(names)}}}" if len(names) > 1 else names[0]

    def _step(self, at: int, link: Link) -> Iterator[CodeLine]:
        step, marked = link.event.step, at in self.guilty
        if accesses_registers(step):
            yield from self._access(at, link, step)
            return
        reads = [name for use in step.reads for name in self._names(use)]
        writes = [] if step.writes is None else self._names(step.writes)
        texts = [self._operand(use) for use in sorted(step.uses, key=lambda use: not use.written)]
        notes, values = list[str](), [] if link.at is None else [self._element(link, link.at)]
        if not is_instruction(step):
            text = str(step)
            if isinstance(step, Scalar):
                source = texts[1] if step.reads else f"{step.constant:#x}"
                text = f"{step.opcode} {texts[0]}, {source}"
        else:
            form, uses = step.form, {use.field: use for use in step.uses}
            if multiplies(step):
                texts = [self._operand(uses[name]) for name in form.vectors]
                texts = ptx_operands(form, texts, step.selector)
            if form.is_load or form.is_store:
                (place, *_) = step.bytes_read or step.bytes_written
                where = place.buffer if accesses_rows(step) else _at(place.buffer, place.start)
                texts.insert(1 if form.is_load else 0, f"[{where}]")
            text = f"{form.opcode} {', '.join(texts)}"
            notes = [str(one) for one in overlaps(step, self.facts.program.shared_banks)]
            notes += ["byte-ids and thread-ids stand in registers"] * step.ids_in_registers
            if at == len(self.links) - 1:
                values = self._stored(step.reads[0])
                notes.append(self._left)
        for register in () if step.writes is None else step.writes.registers:
            self._held.pop(register, None)
        if multiplies(step) and not step.form.opaque and step.writes is not None:
            named = zip(step.writes.registers, writes, strict=True)
            type_ = packed_type(step.form.d_type)
            self._held |= {register: (name, type_) for register, name in named}
        yield CodeLine(
            text=text, values=values, note="; ".join(notes), marked=marked, reads=reads,
            writes=writes,
        )  # fmt: skip

    def _element(self, link: Link, at: tuple[int, int]) -> str:
        step, result, made = link.event.step, link.event.result, link.event.step.writes
        if result is None or made is None:
            return ""
        row, column = at
        if made.is_fragment:
            matrix = made.holds.matrix  # type: ignore[union-attr]
            bits = int(result[row, column]) & ((1 << matrix.type.bits) - 1)
            name = "D" if multiplies(step) else matrix.operand.upper()
            return f"{name}[{row}, {column}] = {shown(bits, matrix.type.bits, matrix.type.name)}"
        size = made.holds.bits
        type_ = packed_type(step.form.d_type) if multiplies(step) else ""
        return shown(register_of(result, row, column, size), size, type_)

    def _access(self, at: int, link: Link, step: PlainAccess) -> Iterator[CodeLine]:
        """Yield a line for each register of a load or store that matters."""
        (use,), size, result = step.uses, step.bits // 8, link.event.result
        space = self.facts.program.buffer(step.place.buffer).space
        opcode = f"{'ld' if step.loads else 'st'}.{space}.b{step.bits}"
        by_lane = f" + {size * step.count}*lane"
        for register in use.registers if step.loads else ():
            self._held.pop(register, None)
        if step.loads and link.at is None and int(link.lanes.sum()) > len(self.lanes):
            where = f"[{_at(step.place.buffer, step.place.offset)}{by_lane}]"
            yield CodeLine(text=f"{opcode} {self._operand(use)}, {where}", writes=self._names(use))
            return
        for index in link.registers if step.loads or link.at is None else [link.at[1]]:
            offset, alone = step.place.offset + size * index, len(self.lanes) == 1
            place = _at(step.place.buffer, offset + alone * size * step.count * self.lanes[0])
            where, register = f"[{place}]" if alone else f"[{place}{by_lane}]", use.registers[index]
            plain = self._registers(use)[index]
            if step.loads:
                assert result is not None
                name, type_ = self._held[register] = self._loaded_as(at, register, plain)
                words = [register_of(result, one, index, step.bits) for one in self.lanes]
                values = [shown(one, step.bits, type_) for one in words]
                yield CodeLine(text=f"{opcode} {name}, {where}", values=values, writes=[name])
            else:
                name, _ = self._held.get(register, (plain, ""))
                yield CodeLine(
                    text=f"{opcode} {where}, {name}", values=self._stored(use), note=self._left,
                    reads=[name],
                )  # fmt: skip

    def _loaded_as(self, at: int, register: Register, plain: str) -> tuple[str, str]:
        """Return what the step that reads a register calls it, and its notation there."""
        for later in self.links[at + 1 :]:
            step = later.event.step
            for use in step.reads:
                if register in use.registers and is_lane_code(step):
                    name = step.inputs[use.registers.index(register)]
                    type_ = self._consumer_type(at, later.event, name)
                    self._types[later.event.number, name] = type_ or class_of(name)
                    return self._name(later.event, name), type_
                if register in use.registers and multiplies(step):
                    return plain, packed_type(step.form.type(use.field))
        return plain, ""

    # What is stored

    def _stored(self, use: Use) -> list[str]:
        facts, bits = self.facts, self.shown.bits
        fmt, column = facts.type_of(self.shown), facts.written.column if facts.written else 0
        if fmt is not None:
            self.stored_type = fmt.name
        elif not use.is_fragment and column < len(use.registers) and bits == use.holds.bits:
            self.stored_type = self._held.get(use.registers[column], ("", ""))[1]
        others = [
            shown(int(elements_of(one, facts.expected)[lane, column]), one.bits, self.stored_type)
            for lane in self.lanes[1:]
            for one in facts.results
            if one.is_registers and self.shown.byte in one.offsets
        ]
        return [shown(self.shown.expected, bits, self.stored_type), *others]

    @property
    def _left(self) -> str:
        return f"the build leaves {shown(self.shown.actual, self.shown.bits, self.stored_type)}"


def _at(buffer: str, offset: int) -> str:
    return f"{buffer}+{offset}" if offset else buffer


def _other_lane(
    facts: ValueFacts, links: Sequence[Link], written: Written, warp: int
) -> int | None:
    """Return a lane of the warp that is right and went another way, if there is one."""

    def decisions(lane: int) -> tuple[Any, ...]:
        """Where a lane went: what it met at each branch, loop and predicate."""
        found: list[object] = []
        for taken in (link.taken for link in links if link.taken is not None):
            if not isinstance(taken.statement, Assign):
                met = [source[0][lane].item() for source in taken.sources]
                found.append(met if taken.came[0][lane] else None)
            elif taken.statement.guard:
                found.append((bool(taken.came[0][lane]), bool(taken.lanes[0][lane])))
        return tuple(map(str, found))

    own, step, first = decisions(written.row), written.event.step, LANES * warp
    if not accesses_registers(step) or not own:
        return None
    wrong = {one.row - first for one in facts.differences if one.column == written.column}
    lanes = range(min(step.lanes - first, LANES))
    ways = {one: decisions(one) for one in lanes if one not in wrong}
    others = [one for one in ways if ways[one] != own]
    counts = [*ways.values()]
    return max(others, key=lambda one: (counts.count(ways[one]), -one), default=None)


def _named(word: str, link: Link) -> bool:
    """Whether a word of an identity names an instruction: an opcode, a family, a unit, a loop."""
    one = link.taken.statement if link.taken else None
    if isinstance(one, Assign):
        return fnmatchcase(one.opcode, word) or one.opcode.startswith(f"{word}.")
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
