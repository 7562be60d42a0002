"""Code of lanes: scalar instructions, branches and loops that each lane takes by itself.

It begins and ends with all lanes together, on registers of its own: `h0` has 16 bits, `r0` 32, `d0`
64, `p0` is a predicate; inputs are `r0`, `r1`, ... (`d0`, ... of 64 bits). Nothing is read that
some path has not written, and loops end, so that all code is defined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, lru_cache
from typing import Any, TypeAlias, assert_never

from oracle.program import operands
from oracle.program.operands import Registers, check
from oracle.scalar import SCALARS, ScalarInstruction

LANE, ZERO = _GIVEN = ("lane", "zero")
"""The number of the lane (%laneid), and 0 as a compiler cannot know it: 32 bits each."""
MAX_TURNS = 15
MAX_DEPTH = 6
"""Most branches and loops around a statement: drawn ones have 4 (2026-11)."""
MAX_STATEMENTS = 2048
"""Most statements that one lane may take: drawn ones take 400 at most (2026-11)."""
_AS_ONE_STEP = 16
"""Statements that take as long as one matrix instruction, about."""
_REGISTER = re.compile(r"([hrdp])(0|[1-9][0-9]{0,2})")
CARRY, _BORROW = "carry", "borrow"
"""The flag of add.cc, addc and their like, and of sub.cc and subc. In PTX ISA 9.7.2 they are one
flag, and a borrow is 1; in the machine code of ptxas 11.8, 12.4, 12.8 and 13.4 an addition reads
the opposite of a borrow, and so does an H200 (2026-11-28). A program in which one reads the
other's is undefined."""


@cache
def class_of(register: str) -> str:
    """Return the class of a register by name, "b16", "b32", "b64" or "pred"; else UsageError."""
    if register in _GIVEN:
        return "b32"
    text = f"{register!r:.80} is no register of lanes; one is h, r, d or p and a number, or lane"
    check(_REGISTER.fullmatch(register) is not None, text)
    return {"h": "b16", "r": "b32", "d": "b64", "p": "pred"}[register[0]]


def most_of(kind: str) -> int:
    """Return the largest number that a register of a class holds."""
    return (1 << int(kind[1:])) - 1


@dataclass(frozen=True, kw_only=True)
class Assign:
    """A scalar instruction, by all lanes that come to it or by those with a predicate."""

    opcode: str
    """A key of `oracle.scalar.SCALARS`."""
    destinations: tuple[str, ...]
    sources: tuple[str | int, ...]
    """Registers, and constants as unsigned numbers."""
    guard: str = ""
    """A predicate, such as "p0" or "!p0"; "": none."""


def row_of(assign: Assign) -> ScalarInstruction:
    """Return what there is to know of an instruction."""
    return SCALARS[assign.opcode]


@dataclass(frozen=True, kw_only=True)
class If:
    """Lanes with a predicate take some statements, the others others."""

    predicate: str
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """A loop; each lane takes as many turns as its own count says, or leaves it earlier."""

    count: str | int
    """A register of 32 bits, of which `mask` is what counts, or a constant."""
    mask: int = MAX_TURNS
    counter: str
    """Register with the turn: 0, 1, ..., or with `down` what is left: count, count - 1, ..."""
    down: bool = False
    late: bool = False
    """Whether the end of a turn asks for another, so that the first is always taken."""
    entry: str = ""
    """With this predicate lanes begin within the body, whatever the count; "": none."""
    skipped: int = 0
    """Statements of the body that those lanes leave out in that turn."""
    body: tuple[Statement, ...]


@dataclass(frozen=True, kw_only=True)
class Leave:
    """Lanes with a predicate leave the loop around, or go on to its next turn."""

    predicate: str
    turn: bool = False
    """Whether they leave the turn only, and go on with the next."""


Statement: TypeAlias = Assign | If | Repeat | Leave


def inside(statement: Statement) -> Mapping[str, tuple[Statement, ...]]:
    """Return the statements inside one, by the field that has them."""
    if isinstance(statement, If):
        return {"then": statement.then, "otherwise": statement.otherwise}
    return {"body": statement.body} if isinstance(statement, Repeat) else {}


def every(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Iterate over statements and those inside them, in the order of the text."""
    for statement in statements:
        yield statement
        for block in inside(statement).values():
            yield from every(block)


def read_by(statement: Statement) -> set[str]:
    """Return the registers that a statement reads itself, those inside it apart."""
    match statement:
        case Assign():
            read = {one for one in statement.sources if isinstance(one, str)}
            return {*read, statement.guard.removeprefix("!")} if statement.guard else read
        case Repeat():
            named = {statement.count, statement.entry}
        case If() | Leave():
            named = {statement.predicate}
        case _:
            assert_never(statement)
    return {one.removeprefix("!") for one in named if isinstance(one, str)} - {""}


def written_by(statement: Statement) -> set[str]:
    """Return the registers that a statement writes itself, those inside it apart."""
    if isinstance(statement, Repeat):
        return {statement.counter}
    return {*statement.destinations} if isinstance(statement, Assign) else set()


def with_another(
    statements: Sequence[Statement], name: str, other: str | int
) -> tuple[Statement, ...]:
    """Return code that reads another register, or a constant, and never writes the one."""

    def renamed(old: Any, new: str | int) -> Any:
        match old:
            case str() if old.removeprefix("!") == name:
                return new if old == name else f"!{new}"
            case (Assign() | If() | Repeat() | Leave(), *_):
                return with_another(old, name, other)
            case tuple():
                return tuple(renamed(one, new) for one in old)
        return old

    made: list[Statement] = []
    for one in statements:
        if isinstance(one, Assign) and name in one.destinations:
            continue
        changes = {
            field.name: renamed(
                getattr(one, field.name),
                other if field.name in ("sources", "count") else str(other),
            )
            for field in fields(one)
        }
        if isinstance(one, Repeat) and one.entry:
            # Those that lanes skip at their entry may be among what is left out.
            changes["skipped"] = 0
        made.append(replace(one, **changes))
    return tuple(made)


def most_turns(statement: Statement) -> int:
    """Return how often a lane takes what is inside a statement at most; at least 1."""
    if not isinstance(statement, Repeat):
        return 1
    return max(1, statement.count if isinstance(statement.count, int) else statement.mask)


def statements_taken(statements: Sequence[Statement]) -> int:
    """Return the most statements that a lane takes."""
    return len(statements) + sum(
        most_turns(one) * sum(map(statements_taken, inside(one).values()))
        for one in statements
        if not isinstance(one, Assign)
    )


@dataclass(frozen=True, kw_only=True)
class LaneCode(operands.StepBase):
    """Each lane computes registers from registers, on a way of its own."""

    source: str = ""
    """Registers that are read; "" of code that reads none."""
    count: int = 0
    bits: int = 32
    destination: str
    results: tuple[str, ...]
    """Registers of the code that the destination gets, all of 32 or all of 64 bits."""
    code: tuple[Statement, ...]

    def __post_init__(self) -> None:
        if self.count or self.source:
            operands.check_vector(self.source, "vector of registers")
            operands.check_range(
                self.count, 1, operands.MOST_LISTED, "number of registers that code reads"
            )
        check(self.bits in (32, 64), f"registers of {self.bits} bits given; they have 32 or 64")
        operands.check_vector(self.destination, "vector of registers")
        operands.check_range(
            len(self.results), 1, operands.MOST_LISTED, "number of results of code"
        )
        sizes = {class_of(name) for name in self.results}
        check(sizes in ({"b32"}, {"b64"}), "results of code are registers of 32 bits, or all of 64")
        operands.check_range(
            statements_taken(self.code), 0, MAX_STATEMENTS, "most statements of a lane"
        )
        known = _check_block(self.code, {*_GIVEN, *self.inputs}, depth=0, loop=None)
        for name in self.results:
            check(name in known, f"the result {name} is not written on every path")

    @property
    def action(self) -> str:
        return "lane_code"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The registers of the code that hold at first what it reads."""
        return tuple(f"{'r' if self.bits == 32 else 'd'}{index}" for index in range(self.count))

    @cached_property
    def uses(self) -> tuple[operands.Use, ...]:
        wide = class_of(self.results[0]) == "b64"
        made = Registers(registers=len(self.results), bits=64 if wide else 32)
        written = operands.Use(field="destination", name=self.destination, holds=made, written=True)
        if not self.count:
            return (written,)
        holds = Registers(registers=self.count, bits=self.bits)
        return operands.Use(field="source", name=self.source, holds=holds), written

    @property
    def cost(self) -> int:
        return 1 + statements_taken(self.code) // _AS_ONE_STEP

    @property
    def carried(self) -> str | None:
        return self.source or None

    @cached_property
    def crosses_lanes(self) -> bool:
        """Whether lanes read what other lanes hold."""
        return any(SCALARS[opcode].warp for opcode in self.opcodes)

    @cached_property
    def opcodes(self) -> tuple[str, ...]:
        """Its instructions in the order of the text, each once."""
        assigned = (one.opcode for one in every(self.code) if isinstance(one, Assign))
        return tuple(dict.fromkeys(assigned))

    @cached_property
    def needed(self) -> tuple[Statement, ...]:
        """The code without what no result depends on."""
        return _needed(self.code, {*self.results}, set(), set())[0]

    def __str__(self) -> str:
        number = sum(1 for _ in every(self.code))
        of = f" of {self.source}" if self.source else ""
        return f"{self.destination} = scalar code of {number} statements{of}, in every lane"


def _needed(
    code: Sequence[Statement], live: set[str], left: set[str], turned: set[str]
) -> tuple[tuple[Statement, ...], set[str]]:
    """Leave out what writes nothing that is read behind it; return also what is read before it.

    `live`: Registers that are read behind the code; `left`, `turned`: where lanes have left the
    loop around it, or ended its turn.
    """
    kept: list[Statement] = []
    for one in reversed(code):
        match one:
            case Assign():
                if live.isdisjoint(one.destinations) and not row_of(one).carry_out:
                    continue
                live = live if one.guard else live.difference(one.destinations)
            case If():
                blocks = one.then, one.otherwise
                (then, yes), (otherwise, no) = (_needed(b, live, left, turned) for b in blocks)
                if not (then or otherwise):
                    continue
                one, live = replace(one, then=then, otherwise=otherwise), yes | no
            case Leave():
                live = live | (turned if one.turn else left)
            case Repeat():
                parts = [*every([one])]
                carries = any(isinstance(each, Assign) and row_of(each).carry_out for each in parts)
                if not carries and live.isdisjoint(set[str]().union(*map(written_by, parts))):
                    continue
                behind, first, again = live, one.body[: one.skipped], live
                while True:
                    behind = behind | again  # a turn; another one may follow
                    rest, middle = _needed(one.body[one.skipped :], behind, live, behind)
                    start, again = _needed(first, middle, live, behind)
                    if again <= behind:
                        break
                one = replace(one, body=start + rest, skipped=len(start))
                live = (behind | middle) - {one.counter}  # lanes may enter in the middle
        kept.append(one)
        live = live | read_by(one)
    return tuple(reversed(kept)), live


@lru_cache(maxsize=256)
def address_code(computed: tuple[Statement, ...]) -> LaneCode:
    """Return code that leaves addresses of rows in r0 as a step."""
    return LaneCode(destination="addresses", results=("r0",), code=computed)


_Known = set[str]
"""Registers that every path has written."""


def _check_block(
    statements: Sequence[Statement], known: _Known, *, depth: int, loop: Repeat | None
) -> _Known:
    """Check statements behind which `known` can be read; return what can be behind them."""
    operands.check_range(depth, 0, MAX_DEPTH, "branches and loops around a statement")
    known = {*known}
    for one in statements:
        if isinstance(one, Assign):
            _check_assign(one, known, alone=bool(depth or one.guard), loop=loop)
            continue
        known -= {CARRY, _BORROW}
        match one:
            case If():
                _check_read(one.predicate.removeprefix("!"), "pred", known)
                then, otherwise = (
                    _check_block(block, known, depth=depth + 1, loop=loop)
                    for block in (one.then, one.otherwise)
                )
                known = then & otherwise
            case Repeat():
                _check_count(one, known)
                known |= {one.counter}
                # What the first part of the body writes, lanes that enter behind it have not.
                behind = one.skipped if one.entry else 0
                for part in (one.body[:behind], one.body[behind:]):
                    _check_block(part, known, depth=depth + 1, loop=one)
            case Leave():
                check(loop is not None, "lanes leave a loop outside of every loop")
                _check_read(one.predicate.removeprefix("!"), "pred", known)
    return known - {CARRY, _BORROW}


def _check_read(name: str, kind: str, known: _Known) -> None:
    check(class_of(name) == kind, "{} is read as {}, and is none", name, kind)
    check(name in known, "{} is read, and not every path has written it", name)


def _check_assign(one: Assign, known: _Known, *, alone: bool, loop: Repeat | None) -> None:
    """Check an instruction, and add what it writes to what is known."""
    check(one.opcode in SCALARS, "there is no scalar instruction {!r:.80}", one.opcode)
    row, opcode, written = row_of(one), one.opcode, one.destinations
    wanted, given = " ".join(row.destinations), tuple(map(class_of, written))
    check(given == row.destinations, "{} writes {}, not {}", opcode, wanted, " ".join(written))
    sources, most = len(row.sources), len(one.sources)
    check(sources == most, "{} has {} sources; {} given", opcode, sources, most)
    for index, (source, kind) in enumerate(zip(one.sources, row.sources, strict=True)):
        constant = row.immediates.get(index)
        if isinstance(source, int):
            check(kind != "pred", "{} has a predicate as source {}, no constant", opcode, index)
            low, high = (constant.low, constant.high) if constant else (0, most_of(kind))
            operands.check_range(source, low, high, f"constant of {opcode}")
            continue
        required = constant is not None and constant.required
        check(not required, "source {} of {} is a constant, not {}", index, opcode, source)
        _check_read(source, kind, known)
    for name in written:
        check(name not in _GIVEN, "{} is not to be written", name)
        counts = loop is not None and loop.counter == name
        check(not counts, "the counter of a loop is written in its body by {}", opcode)
    check(len(set(written)) == len(written), "a destination repeats")
    check(not (row.warp and alone), "{} needs all lanes; it stands under a condition", opcode)
    check(not (row.carry_out and one.guard), "{} writes the carry under a condition", opcode)
    flag = _BORROW if opcode.startswith("sub") else CARRY
    if row.carry_in:
        check(flag in known, "{} reads a {} that nothing just before has written", opcode, flag)
    if one.guard:
        _check_read(one.guard.removeprefix("!"), "pred", known)
        return
    if row.carry_out:
        known -= {CARRY, _BORROW}
        known.add(flag)
    known.update(written)


def _check_count(one: Repeat, known: _Known) -> None:
    if isinstance(one.count, int):
        operands.check_range(one.count, 0, MAX_TURNS, "count of a loop of lanes")
    else:
        _check_read(one.count, "b32", known)
    operands.check_range(one.mask, 0, MAX_TURNS, "mask of a loop of lanes")
    check(class_of(one.counter) == "b32", f"the counter {one.counter} is no register of 32 bits")
    counters = [other.counter for other in every(one.body) if isinstance(other, Repeat)]
    check(one.counter not in counters, f"two loops, one in the other, count in {one.counter}")
    check(one.counter not in _GIVEN, "a loop counts in a register of its own")
    operands.check_range(one.skipped, 0, len(one.body), "statements that an entry leaves out")
    if one.entry:
        _check_read(one.entry.removeprefix("!"), "pred", known)


def may_be_open(step: LaneCode) -> bool:
    """Whether lanes may take bits of a NaN that PTX leaves open, as far as the text tells."""
    nans: dict[str, frozenset[str]] = {}
    return _takes_open_bits(step.code, nans) or not nans.keys().isdisjoint(step.results)


def _takes_open_bits(code: Sequence[Statement], nans: dict[str, frozenset[str]]) -> bool:
    """Whether statements may; `nans` becomes the formats of open NaNs in registers behind them."""
    for one in code:
        match one:
            case Assign():
                row = row_of(one)
                read = frozenset[str]().union(*(nans.get(str(name), ()) for name in one.sources))
                if read - {row.numbers}:
                    return True
                made = frozenset({"f32" if row.nan == "tf32" else row.nan} - {""})
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
