"""Drawing of code of lanes, from the scalar instructions that a module has.

A statement is drawn from one integer. Registers that are live where a branch or a loop begins are
what its statements like to write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from oracle.isa.targets import Module
from oracle.program.lane_code import (
    LANE,
    MAX_STATEMENTS,
    Assign,
    If,
    Leave,
    Repeat,
    Statement,
    class_of,
    every,
    read_by,
    row_of,
    statements_taken,
    written_by,
)
from oracle.scalar import SCALARS, ScalarInstruction
from strategies.features import OF_SCALAR, Feature
from strategies.programs.builder import Builder, Dice

_EVERYDAY = (
    "add", "sub", "mul", "mad", "min", "max", "neg", "and", "or", "xor", "shl", "shr", "shf",
    "lop3", "prmt", "bfe", "bfi", "selp", "set", "setp", "cvt",
)  # fmt: skip
_OFTEN = 3  # Times that everyday instructions are drawn as often as others
_TELLING, _TELLING_OFTEN = ("setp", "set", "cvt"), 12
"""Instructions whose results differ most between types: half of what uses a result."""
_TYPE = re.compile(r"(?:[usbf]|bf|tf)\d+(?:x\d)?|pred|e\dm\dx2")  # A type in an opcode
NTH_BIT = OF_SCALAR["fns"]
OF_SCALARS = frozenset(OF_SCALAR.values())


def always_wrong(row: ScalarInstruction, guard: str = "") -> bool:
    """Whether ptxas 11.7 to 13.5 make an instruction wrong at every level (docs/findings.md)."""
    words = row.opcode.split(".")
    match words:
        case ["bfe" | "bfi", _]:
            return words[1].endswith("64")
        case ["cvt", "rna", *_, "tf32", "f32"] | ["cvt", "rm" | "rp", "ftz", *_, "f16", "f32"]:
            return True
        case ["testp", *_] | ["set", *_, "f32", _] | ["set", *_, "f16", "f16"]:
            return bool(guard)
        case ["set", *_, "u32", "b16" | "u16" | "s16" | "f16" | "bf16"]:
            return bool(guard)
    return False


_Rows = tuple[ScalarInstruction, ...]


@dataclass(frozen=True)
class DrawnRows:
    """The scalar instructions that a module can have, and whose results PTX says to the bit."""

    plain: Mapping[str, tuple[_Rows, ...]]
    """Those that may stand anywhere, by their first word, in groups of the same types: rounding and
    the like make many of some types and few of others."""
    families: tuple[str, ...]  # Their first words, those of everyday code several times
    alike: Mapping[tuple[tuple[str, ...], tuple[str, ...]], Mapping[str, _Rows]]
    """The same by the classes of registers that they write and read, and by their first word."""
    reading: Mapping[str, tuple[tuple[_Rows, ...], ...]]
    """The same by the type that they read first, and by its class: groups of each first word, which
    is there the more often the more the type matters."""
    every: Mapping[Feature, _Rows]  # The same by their features
    together: frozenset[Feature]  # Of those that need others before, or read other lanes
    first: _Rows  # Instructions that compute a predicate from registers of 32 bits
    warp: _Rows  # Instructions that all lanes execute together
    carries: tuple[tuple[ScalarInstruction, ScalarInstruction], ...]
    """Instructions that write the carry, each with one that may read it: sums with sums."""


def settled(one: Assign) -> list[Statement]:
    """Return an instruction, and behind it what makes its NaNs canonical where they are open."""
    if not row_of(one).nan:
        return [one]
    return [one, replace(one, opcode=row_of(one).settled_by, sources=one.destinations * 2)]


@cache
def drawn_rows(module: Module) -> DrawnRows:
    """Return what a module can have."""

    def is_settled(row: ScalarInstruction) -> bool:
        by = SCALARS.get(row.settled_by)
        return not row.nan or (by is not None and by.exists(module))

    known = (row for row in SCALARS.values() if row.exists(module) and row.defined is None)
    return _arranged(tuple(filter(is_settled, known)))


@cache
def _arranged(rows: _Rows) -> DrawnRows:
    # Versions of the PTX ISA differ in few of them.
    plain: dict[str, list[ScalarInstruction]] = {}
    for row in rows:
        if not (row.warp or row.carry_in or row.carry_out):
            plain.setdefault(_family_of(row), []).append(row)
    every: dict[Feature, list[ScalarInstruction]] = {one: [] for one in OF_SCALAR.values()}
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[str, _Rows]] = {}
    reading: dict[str, list[tuple[_Rows, ...]]] = {}
    for family, some in plain.items():
        for row in some:
            every[OF_SCALAR[row.family]].append(row)
            same = alike.setdefault((row.destinations, row.sources), {})
            same[family] = (*same.get(family, ()), row)
        of_names: dict[str, list[ScalarInstruction]] = {}
        for row in some:
            for name in dict.fromkeys((_read_as(row), *row.sources[:1])):
                of_names.setdefault(name, []).append(row)
        times = _TELLING_OFTEN if family in _TELLING else _often(family)
        for name, of_name in of_names.items():
            reading.setdefault(name, []).extend([_by_types(of_name)] * times)
    apart = {NTH_BIT, *(OF_SCALAR[row.family] for row in rows if row.carry_in or row.warp)}
    return DrawnRows(
        alike=alike,
        reading={name: tuple(groups) for name, groups in reading.items()},
        plain={family: _by_types(some) for family, some in plain.items()},
        families=tuple(name for name in plain for _ in range(_often(name))),
        every={feature: tuple(some) for feature, some in every.items()},
        together=frozenset(feature for feature in apart if not every[feature]),
        first=tuple(r for r in rows if r.destinations == ("pred",) and {*r.sources} == {"b32"}),
        warp=tuple(row for row in rows if row.warp),
        carries=tuple(
            (first, second)
            for first in rows
            if first.carry_out and not first.carry_in
            for second in rows
            if second.carry_in and first.family.startswith("sub") == second.family.startswith("sub")
        ),
    )


def _family_of(row: ScalarInstruction) -> str:
    """Return its first word; "v" for the many that work on bytes and halves of registers."""
    halves = row.family.endswith(("2", "4")) and row.family[0] == "v"
    return "v" if halves else row.family


def _often(family: str) -> int:
    return _OFTEN if family in _EVERYDAY else 1


@cache
def _types(row: ScalarInstruction) -> tuple[str, ...]:
    return tuple(word for word in row.opcode.split(".") if _TYPE.fullmatch(word))


def _fitting(name: str, kind: str) -> str:
    number, _, count = name.lstrip("subft").partition("x")
    bits = number.isdecimal() and int(number) * int(count or 1)
    return name if bits and f"b{bits}" == kind else kind


@cache
def _read_as(row: ScalarInstruction) -> str:
    """Return the type of what an instruction reads first: "s16", "f16x2", or just "b32"."""
    pairs = row.family[0] == "v" and row.family.endswith("2")
    return "u16x2" if pairs else _fitting(["", *_types(row)][-1], ["", *row.sources][1])


@cache
def _written_as(row: ScalarInstruction) -> str:
    """Return the type of what an instruction writes first."""
    types = ["", *_types(row)]
    return _fitting(types[1 if row.family in ("cvt", "set") else -1], row.destinations[0])


def _by_types(rows: Sequence[ScalarInstruction]) -> tuple[_Rows, ...]:
    found: dict[tuple[str, ...], list[ScalarInstruction]] = {}
    for row in rows:
        found.setdefault(_types(row), []).append(row)
    return tuple(map(tuple, found.values()))


_FLOATS = {
    16: (0x3C00, 0xBC00, 0x3800, 0x3F80, 0xBF80, 0x8000),
    32: (0x3F80_0000, 0xBF80_0000, 0x3F00_0000, 0x3C00_3C00, 0x3F80_3F80, 0x8000_0000),
    64: (0x3FF0 << 48, 0xBFF0 << 48, 0x3FE0 << 48, 0x3C00_3C00_3C00_3C00, 0x3F80_0000, 1 << 63),
}
"""1, -1, 1/2 and -0 of f16, bf16, f32 and f64 (IEEE 754-2019, 3.4), also in pairs, by bits."""


def constant(dice: Dice, bits: int) -> int:
    """Choose a small number of so many bits, an end, a power of two, bytes, a float, or any."""
    most, high = (1 << bits) - 1, 1 << (bits - 1)
    match dice.below(7):
        case 0:
            return dice.below(bits + 2)
        case 1:
            return dice.one_of((0, 1, most, high, high - 1, bits, bits - 1, 2))
        case 2:
            return 1 << dice.below(bits)
        case 3:
            return ((1 << 1 + dice.below(bits)) - 1) & most
        case 4:
            return dice.one_of((0xFF, 0x80, 0x7F, 0x0F, 0xF0)) << 8 * dice.below(bits // 8)
        case 5:
            dice.below(5)
            return dice.below(1 << bits)
    return dice.one_of(_FLOATS[bits])


_MOST_DEPTH = 4  # Branches and loops around a statement
_BEHIND = 256  # Most statements behind those that are drawn: a few for each register
_FEWEST_FAMILIES, _MOST_FAMILIES = 2, 9
"""First words of instructions of half of the codes: fewer features find more than all (A. Groce and
others, Swarm Testing, ISSTA 2012)."""
_RELATED = 5
"""One statement in so many is like an earlier one, for which compilers take it: 14 of 3,000
programs have a neg.ftz.f32 that ptxas takes for a neg.f32; it was 3 (2026-11-28)."""
_LETTERS = {"b16": "h", "b32": "r", "b64": "d", "pred": "p"}
_OF_MASKS = ("min.s32", "max.s32", "neg.s32", "min.u32", "max.u32", "and.b32", "mul.lo.s32")
_CONSTANT = 4  # One in so many instructions that take no constant has one in a register
_USED = 4
"""One result in so many is used right behind as what it is; of 16 bits, and pairs of these, which
compilers keep in wider registers, all but one. Of 2,500 programs 31 compare what neg.s16 made as
s16; before, none did, and two defects of ptxas were never met (2026-11-28)."""
_SELDOM = 8  # One in so many pieces of code has what every compiler makes wrong, and hides others
_AS_OFTEN = "f16", "u32"  # Results of `set` that are drawn like others all the same


class Lanes:
    """Code in the making, of registers that hold something from the start (`inputs`)."""

    def __init__(self, builder: Builder, inputs: Sequence[str]) -> None:
        self._builder = builder
        self._dice, self._rows = builder.wide_dice, drawn_rows(builder.module)
        self._all = False  # Whether instructions may be drawn that every compiler makes wrong
        self._inputs = frozenset(inputs)
        self._numbers = dict.fromkeys(_LETTERS.values(), 0)
        for name in inputs:
            self._numbers[name[0]] = max(self._numbers[name[0]], int(name[1:]) + 1)
        self._left = 0  # Statements that are still to be drawn
        self._fixed: list[str] = []  # Counters of the loops around
        self._families = self._rows.families
        """First words of the instructions that are drawn, those of everyday code several times."""
        self._before: list[Assign] = []  # Instructions so far, the latest last
        self._open: dict[str, str] = {}  # Registers with open NaNs, and what settles them

    def new(self, kind: str) -> str:
        """Return a register that nothing has used."""
        letter = _LETTERS[kind]
        self._numbers[letter] += 1
        return f"{letter}{self._numbers[letter] - 1}"

    def make(self, code: list[Assign], opcode: str, *sources: str | int) -> str:
        """Append an instruction that writes registers of its own; return the first of them."""
        made = tuple(map(self.new, SCALARS[opcode].destinations))
        code.append(Assign(opcode=opcode, destinations=made, sources=sources))
        return made[0]

    def code(self, known: list[str], size: int) -> list[Statement]:
        """Return about so many statements; what they write on every path is added to `known`."""
        self._left = size
        dice = self._dice()
        self._all = dice.once_in(_SELDOM)
        if dice.below(2):
            count = _FEWEST_FAMILIES + dice.below(_MOST_FAMILIES - _FEWEST_FAMILIES + 1)
            self._families = tuple(dice.one_of(self._rows.families) for _ in range(count))
        # Without a predicate nothing branches.
        made: list[Statement] = []
        if self._rows.first:
            dice = self._dice()
            made += self._made(dice.one_of(self._rows.first), known, dice)
        # Half of the codes have registers of classes that nothing has.
        dice, held = self._dice(), set(map(class_of, known))
        for opcode in ("mov.b32.unpack", "mov.b64.pack"):
            row = SCALARS[opcode]
            if row.destinations[0] not in held and dice.below(2):
                made += self._made(row, known, dice)
        taken = statements_taken(made)
        while self._left > 0:
            before, open_ = list(known), dict(self._open)
            some = self._statement(known, depth=0, turns=1, loop=False)
            taken += statements_taken(some)
            if taken > MAX_STATEMENTS - _BEHIND:
                known[:], self._open = before, open_
                break
            made += some
        return made + self._canonical()

    def _block(self, known: list[str], **around: Any) -> tuple[Statement, ...]:
        size = 1 + self._dice().below(6)
        inside, made = list(known), list[Statement]()
        while len(made) < size and (self._left > 0 or not made):
            made += self._statement(inside, **around)
        made += self._canonical()
        # What was written here is the latest from now on.
        places = {name: place for place, name in enumerate(inside)}
        known.sort(key=lambda name: places.get(name, -1))
        return tuple(made)

    def _statement(
        self, known: list[str], *, depth: int, turns: int, loop: bool
    ) -> list[Statement]:
        dice = self._dice()
        self._left -= 1
        kind = dice.below(16)
        predicate = self._predicate(known, dice)
        if depth < _MOST_DEPTH and self._left > 1 and kind in (12, 13) and predicate:
            around = {"depth": depth + 1, "turns": turns, "loop": loop}
            before, then = self._canonical(), self._block(known, **around)
            otherwise = self._block(known, **around) if dice.below(2) else ()
            return [*before, If(predicate=predicate, then=then, otherwise=otherwise)]
        if depth < _MOST_DEPTH and self._left > 1 and kind == 14 and turns < 12:
            return [*self._canonical(), self._loop(known, predicate, depth, turns, dice)]
        if loop and kind == 15 and predicate:
            leaving = Leave(predicate=predicate, turn=bool(dice.below(2)))
            return [*self._canonical(), leaving]
        if kind == 11 or self._builder.wants(self._rows.together):
            drawn = self._several(known, dice, depth)
        else:
            drawn = self._assign(known, dice, predicate, depth)
        self._left -= len(drawn) - 1
        self._before += drawn
        return [one for each in drawn for one in self._with_canonical(each)]

    def _with_canonical(self, one: Assign) -> list[Statement]:
        """Return an instruction, and before it what makes NaNs canonical whose bits it takes."""
        # Nothing but arithmetic on numbers of the same format may take them as they are.
        taken = [
            name for name in one.sources
            if str(name) in self._open
            and self._open[str(name)].rpartition(".")[2] != row_of(one).numbers
        ]  # fmt: skip
        kept = [name for name in one.destinations if name in self._open and one.guard]
        before = [self._made_canonical(str(name)) for name in dict.fromkeys([*taken, *kept])]
        for name in one.destinations:
            self._open.pop(name, None)
        if row_of(one).nan:
            self._open[one.destinations[0]] = row_of(one).settled_by
        return [*before, one]

    def _made_canonical(self, name: str) -> Assign:
        return Assign(opcode=self._open.pop(name), destinations=(name,), sources=(name, name))

    def _canonical(self) -> list[Statement]:
        return [self._made_canonical(name) for name in list(self._open)]

    def _loop(self, known: list[str], predicate: str, depth: int, turns: int, dice: Dice) -> Repeat:
        mask = dice.one_of((3, 7, 1, 15 if turns == 1 else 3))
        count = 1 + dice.below(4) if dice.once_in(3) else self._register(known, "b32", dice)
        counter = self.new("b32")
        known.append(counter)
        self._fixed.append(counter)
        most = count if isinstance(count, int) else mask
        down, late = bool(dice.below(2)), bool(dice.below(2))
        enters = bool(predicate) and dice.once_in(6)
        body = self._block(known, depth=depth + 1, turns=turns * most, loop=True)
        self._fixed.pop()
        skipped = dice.below(len(body)) if enters else 0
        # Who enters late has not written what is written for the first time before.
        if _needs(body[:skipped], known, body[skipped:]):
            enters = False
        return Repeat(
            count=count, mask=mask, counter=counter, down=down, late=late, body=body,
            entry=predicate if enters else "", skipped=skipped if enters else 0,
        )  # fmt: skip

    def _assign(self, known: list[str], dice: Dice, predicate: str, depth: int) -> list[Assign]:
        wanted, every = self._builder.wanted & OF_SCALARS, self._rows.every.items()
        asked = [row for of, rows in every if of in wanted for row in rows] if wanted else []
        like = dice.one_of(self._before) if self._before and dice.once_in(_RELATED) else None
        for _ in range(8):
            row = dice.one_of(asked or self._any(like, dice))
            if _can_read(row, known) and (self._all or not always_wrong(row)):
                self._builder.take(OF_SCALAR[row.family])
                break
        else:
            return []
        guard = predicate if predicate and dice.once_in(6) else ""
        often = row.family == "set" and row.opcode.split(".")[-2] in _AS_OFTEN
        if not self._all and not often and always_wrong(row, guard):
            guard = ""
        made = self._made(row, known, dice, guard, depth, like)
        return made + self._uses(made[-1], known, dice, depth)

    def _uses(self, one: Assign, known: list[str], dice: Dice, depth: int) -> list[Assign]:
        """Return what uses a result as what it is, and the result of that, as long as chance says.

        Pairs are used half by half, some halves in pairs; often nothing else reads them.
        """
        name, type_ = one.destinations[0], _written_as(row_of(one))
        halves = class_of(name) == "b16" or type_.endswith("16x2")
        if dice.once_in(_USED) == halves:
            return []
        dice, alone = self._dice(), dice.below(2)
        made, read, groups = list[Assign](), [name], self._rows.reading
        if type_.endswith("16x2"):
            self.make(made, "mov.b32.unpack", name)
            both = made[-1].destinations
            read.append(dice.one_of(both))
            known += read[1:] if alone else both
            type_ = type_.removesuffix("x2")
        elif f"{type_}x2" in groups and dice.once_in(4):
            read.append(self.make(made, "mov.b32.pack", name, self._register(known, "b16", dice)))
            known.append(read[1])
            type_ += "x2"
        row = dice.one_of(dice.one_of(dice.one_of(groups.get(type_) or groups[class_of(name)])))
        if not _can_read(row, known) or (always_wrong(row) and not self._all):
            return made
        made += self._made(row, known, dice, depth=depth, reads=read[-1])
        kept = {*self._inputs, *made[-1].destinations}
        if alone:
            known[:] = [name for name in known if name not in read or name in kept]
        return made + self._uses(made[-1], known, dice, depth)

    def _any(self, like: Assign | None, dice: Dice) -> Sequence[ScalarInstruction]:
        """Choose a group of instructions of which one is drawn, perhaps like an earlier one."""
        if like is not None:
            row, is_other = row_of(like), dice.once_in(4)
            found = self._rows.alike.get((row.destinations, row.sources), {})
            if is_other and found:
                return dice.one_of(tuple(found.values()))
            if _family_of(row) in found:
                return found[_family_of(row)]
        return dice.one_of(self._rows.plain[dice.one_of(self._families)])

    def _made(
        self,
        row: ScalarInstruction,
        known: list[str],
        dice: Dice,
        guard: str = "",
        depth: int = 0,
        like: Assign | None = None,
        reads: str = "",
    ) -> list[Assign]:
        """Return an instruction on some of the registers that hold something.

        It has most operands of the one that it is like, as far as they are of the same classes, and
        a register that it has to read. What brings a constant into a register stands before it.
        """
        # What is used meets others rather than itself.
        others = [name for name in known if name != reads] if reads else known
        some = others if _can_read(row, others) else known
        read = [self._source(row, index, some, dice) for index in range(len(row.sources))]
        # One in eight reads a register twice.
        if len(read) > 1 and dice.once_in(8) and _can_be(row, 1, read[0], some):
            read[1] = read[0]
        for index, source in enumerate(like.sources[: len(read)] if like else ()):
            if dice.below(4) and _can_be(row, index, source, known):
                read[index] = source
        if reads:
            fitting = [index for index in range(len(read)) if _can_be(row, index, reads, known)]
            read[dice.one_of(fitting)] = reads
        constants = self._constants(row, read, reads, known, dice)
        sources = tuple(read)
        # In an arm or a body, what is live across it is written rather than something new.
        fewer, written = 3 if depth else 2, list[str]()
        for kind in row.destinations:
            fixed = (LANE, *self._fixed, *written)
            old = [name for name in known if class_of(name) == kind and name not in fixed]
            fresh = not old or (not guard and dice.below(4) >= fewer)
            written.append(self.new(kind) if fresh else dice.one_of(old))
        if not {*written} <= {*known}:
            guard = ""
        known[:] = [*(name for name in known if name not in written), *written]
        made = Assign(opcode=row.opcode, destinations=tuple(written), sources=sources, guard=guard)
        return [*constants, made]

    def _constants(
        self,
        row: ScalarInstruction,
        read: list[str | int],
        reads: str,
        known: list[str],
        dice: Dice,
    ) -> list[Assign]:
        free = [
            index for index, kind in enumerate(row.sources)
            if index not in row.immediates and kind != "pred" and read[index] != reads
        ]  # fmt: skip
        if row.warp or row.family == "mov" or not free or not dice.once_in(_CONSTANT):
            return []
        index = dice.one_of(free)
        kind = row.sources[index]
        bits, name = int(kind[1:]), self.new(kind)
        value = constant(dice, bits)
        if _read_as(row).endswith("16x2") and dice.below(2):
            value = constant(dice, 16) << 16 | constant(dice, 16)
        known.append(name)
        read[index] = name
        return [Assign(opcode=f"mov.{kind}", destinations=(name,), sources=(value,))]

    def _source(
        self, row: ScalarInstruction, index: int, known: list[str], dice: Dice
    ) -> str | int:
        kind, allowed = row.sources[index], row.immediates.get(index)
        if allowed is not None and (allowed.required or dice.once_in(3)):
            low, high = allowed.low, allowed.high
            if high - low < 256:
                return low + dice.below(high - low + 1)
            return min(max(constant(dice, int(kind[1:])), low), high)
        return self._register(known, kind, dice)

    def _register(self, known: Sequence[str], kind: str, dice: Dice) -> str:
        some = [name for name in known if class_of(name) == kind]
        # The latest more often than the others.
        latest = dice.once_in(3)
        return some[-1 if latest else -1 - min(dice.below(len(some)), dice.below(len(some)))]

    def _predicate(self, known: Sequence[str], dice: Dice) -> str:
        some = [name for name in known if class_of(name) == "pred"]
        return dice.one_of(("", "!")) + some[-1 - dice.below(len(some))] if some else ""

    def _several(self, known: list[str], dice: Dice, depth: int) -> list[Assign]:
        """Return statements that belong together: a rotation, a carry, what lanes do together."""
        kind = dice.below(6)
        builder, warp, carries = self._builder, self._rows.warp, self._rows.carries
        wanted = builder.wanted & OF_SCALARS
        asked = [row for row in warp if OF_SCALAR[row.family] in wanted] if wanted else []
        pairs = [pair for pair in carries if OF_SCALAR[pair[1].family] in wanted] if wanted else []
        if (kind == 0 or pairs) and carries:
            rows = dice.one_of(pairs or carries)
            if all(_can_read(row, known) for row in rows):
                builder.take(OF_SCALAR[rows[1].family])
                made = (self._made(row, known, self._dice(), depth=depth) for row in rows)
                return [statement for some in made for statement in some]
        if (kind == 1 or asked) and warp and depth == 0:
            row = dice.one_of(asked or warp)
            if _can_read(row, known):
                builder.take(OF_SCALAR[row.family])
                return self._made(row, known, dice)
        code: list[Assign] = []
        if kind == 3 or builder.wants([NTH_BIT]):
            # A bit on either side of a place, by a count that is small.
            builder.take(NTH_BIT)
            source, mask = (self._register(known, "b32", dice) for _ in range(2))
            place = dice.below(32)
            count = self.make(code, "shr.s32", source, 26 + dice.below(4))
            self.make(code, "fns.b32", mask, place, count)
        elif kind == 2:
            # An absolute value of what is not the least number, of which there is none.
            some = self.make(code, "max.s32", self._register(known, "b32", dice), 0x8000_0001)
            self.make(code, "abs.s32", some)
        else:
            predicate = self._predicate(known, dice).removeprefix("!")
            if kind == 4 and predicate:
                # A mask of all bits or none, and an instruction that compilers know it in.
                other, opcode = self._register(known, "b32", dice), dice.one_of(_OF_MASKS)
                ends = dice.one_of(((0xFFFF_FFFF, 0), (1, 0), (0, 0xFFFF_FFFF)))
                mask = self.make(code, "selp.b32", *ends, predicate)
                self.make(code, opcode, *((mask,) if opcode == "neg.s32" else (mask, other)))
            else:
                self._rotation(code, known, dice)
        known += [name for one in code for name in one.destinations]
        return code

    def _rotation(self, code: list[Assign], known: Sequence[str], dice: Dice) -> None:
        """Append two shifts and what joins them: some are rotations, and some only look so."""
        wide = any(class_of(name) == "b64" for name in known) and dice.below(2)
        bits = 64 if wide else 32
        joined = dice.one_of(("or.b", "add.s", "xor.b", "sub.s"))
        source, by = self._register(known, f"b{bits}", dice), 1 + dice.below(bits - 1)
        other = bits - by if dice.below(4) else by
        high = self.make(code, f"shl.b{bits}", source, by)
        low = self.make(code, f"shr.u{bits}", source, other)
        self.make(code, f"{joined}{bits}", *((high, low) if dice.below(2) else (low, high)))


def _can_be(row: ScalarInstruction, index: int, source: str | int, known: Sequence[str]) -> bool:
    allowed = row.immediates.get(index)
    if isinstance(source, int):
        return allowed is not None and allowed.low <= source <= allowed.high
    required = allowed is not None and allowed.required
    return not required and source in known and class_of(source) == row.sources[index]


def _can_read(row: ScalarInstruction, known: Sequence[str]) -> bool:
    return _needed_classes(row).issubset(map(class_of, known))


@cache
def _needed_classes(row: ScalarInstruction) -> frozenset[str]:
    constants = {index for index, one in row.immediates.items() if one.required}
    return frozenset(kind for at, kind in enumerate(row.sources) if at not in constants)


def _needs(first: Sequence[Statement], known: Sequence[str], rest: Sequence[Statement]) -> bool:
    rows = (row_of(one) for one in rest if isinstance(one, Assign))
    carried = next((row.carry_in for row in rows if row.carry_in or row.carry_out), False)
    written = set[str]().union(*map(written_by, every(first))).difference(known)
    return carried or any(not written.isdisjoint(read_by(one)) for one in every(rest))
