"""How a wrong value came about: the instructions on the way to it, and those that are named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from fuzz.explain.document import Line, Listing
from fuzz.explain.facts import ValueFacts
from fuzz.explain.listing import Told, Writer, stored_by
from fuzz.explain.values import (
    hexadecimal,
    notation,
)
from fuzz.kinds import is_provisional
from oracle.lane_code import (
    Assign,
    Leave,
    Repeat,
)
from oracle.ops import multiplies
from oracle.program import walk
from oracle.slicing import Link, slice_of
from oracle.steps import accesses_registers, is_lane_code

_TOP = 11
"""Lines of a listing that is shown before everything else: with those around them, the first 15
lines of a page hold it."""
_LONG = 60
"""Characters of an instruction from which on its values stand below it."""
_MOST = 60
"""Lines of a whole listing; a loop of 15 turns in one of 15 has more."""


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
        lane = written.row if len(links) > 1 and not stored_by(links[-1]).is_fragment else 0
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
    def writer(self) -> Writer:
        """What writes its lines, and how what is stored is written."""
        return Writer(self.facts, self.links, self.lanes, self.guilty)

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
