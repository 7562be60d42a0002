"""Drawing of code of lanes: what compilers meet around matrix instructions.

A statement is drawn from one integer. Registers that are live where a branch or a loop begins are
what its statements like to write, so that values are live across it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oracle.isa.forms import LANES, ROW_BYTES
from oracle.program.lane_code import (
    LANE,
    MAX_STATEMENTS,
    ZERO,
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Statement,
    class_of,
    every,
    read_by,
    run_lanes,
    statements_taken,
    written_by,
)
from oracle.program.operands import MOST_LISTED, Registers
from oracle.scalar import SCALARS, ScalarInstruction
from strategies.features import OF_SCALAR
from strategies.programs.builder import Builder, Dice, LiveValue
from strategies.programs.scalar_rows import (
    NTH_BIT,
    OF_SCALARS,
    always_wrong,
    constant,
    drawn_rows,
    family_of,
    read_as,
    written_as,
)

_MOST_DEPTH = 4  # Branches and loops around a statement
_SIZES = (6, 10, 16, 24, 36)  # Statements around a multiplication, about; equally likely
_BEHIND = 256  # Most statements behind these: a few for each register
_SIZES_ALONE = (10, 16, 24, 36, 54)  # The same of a program that is nothing else
_FEWEST_FAMILIES, _MOST_FAMILIES = 2, 9
"""First words of instructions of half of the codes: the fewer they are, the more often two of them
meet, as few features a program find more than all (A. Groce and others, Swarm Testing, ISSTA
2012)."""
_RELATED = 5
"""One statement in so many is like an earlier one: compilers take one for the other. With that and
what else generator 14 has, 14 of 3,000 programs have a neg.ftz.f32 that ptxas takes for a neg.f32
and 14 an abs that it leaves out; with generator 13 it was 3 and 3 (both defects written
out, 64 images each, 2026-11-28)."""
_LETTERS = {"b16": "h", "b32": "r", "b64": "d", "pred": "p"}
_OF_MASKS = ("min.s32", "max.s32", "neg.s32", "min.u32", "max.u32", "and.b32", "mul.lo.s32")
_CONSTANT = 4  # One in so many instructions that take no constant has one in a register
_USED = 4
"""One result in so many is used right behind as what it is. Of 16 bits, and of pairs of these,
which compilers keep in wider registers, all are but one in so many. Of 2,500 programs (seed
424242, 2026-11-28) 31 compare what neg.s16 made as s16, and 36 read one half of a sum of halves and
a constant; with generator 15 none did, and two defects of ptxas were never met."""
_ROTATIONS = {
    "b32": ("shl.b32", "shr.u32", ("or.b32", "add.s32", "xor.b32", "sub.s32")),
    "b64": ("shl.b64", "shr.u64", ("or.b64", "add.s64", "xor.b64", "sub.s64")),
}
"""Two shifts, and what joins their results: of these, some are rotations and some only look so."""
_SELDOM = 8
"""One in so many pieces of code has what every compiler makes wrong: its line would come first in
every campaign, and hide what one compiler does."""
_AS_OFTEN = "f16", "u32"  # Results of `set` that are drawn like others all the same


class Lanes:
    """Code in the making, of registers that hold something from the start (`inputs`).

    The builder draws the digits of each statement, and knows what is asked for.
    """

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
            and self._open[str(name)].rpartition(".")[2] != one.row.numbers
        ]  # fmt: skip
        kept = [name for name in one.destinations if name in self._open and one.guard]
        before = [self._made_canonical(str(name)) for name in dict.fromkeys([*taken, *kept])]
        for name in one.destinations:
            self._open.pop(name, None)
        if one.row.nan:
            self._open[one.destinations[0]] = one.row.settled_by
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
        first = body[skipped]
        # Who enters late has not written what is written for the first time before.
        if _needs(body[:skipped], known, body[skipped:]) or (
            isinstance(first, Assign) and first.row.carry_in
        ):
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
            row = dice.one_of(asked or (self._alike(like, dice) if like else self._any(dice)))
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

        Pairs are used half by half, and some halves in pairs. Nothing else reads half of such
        results: what is not read of one, compilers leave out.
        """
        name, type_ = one.destinations[0], written_as(one.row)
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

    def _any(self, dice: Dice) -> Sequence[ScalarInstruction]:
        return dice.one_of(self._rows.plain[dice.one_of(self._families)])

    def _alike(self, like: Assign, dice: Dice) -> Sequence[ScalarInstruction]:
        row, is_other = like.row, dice.once_in(4)
        found = self._rows.alike.get((row.destinations, row.sources), {})
        if is_other and found:
            return dice.one_of(tuple(found.values()))
        return found.get(family_of(row)) or self._any(dice)

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
        fewer = 3 if depth else 2
        written: list[str] = []
        for kind in row.destinations:
            old = [
                name for name in known
                if class_of(name) == kind and name not in (LANE, *self._fixed, *written)
            ]  # fmt: skip
            fresh = not old or (not guard and dice.below(4) >= fewer)
            written.append(self.new(kind) if fresh else dice.one_of(old))
        if guard and any(name not in known for name in written):
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
        if read_as(row).endswith("16x2") and dice.below(2):
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
        if dice.once_in(3):
            return some[-1]
        return some[-1 - min(dice.below(len(some)), dice.below(len(some)))]

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
                return [
                    one for row in rows for one in self._made(row, known, self._dice(), depth=depth)
                ]
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
        wide = any(class_of(name) == "b64" for name in known) and dice.below(2)
        kind = "b64" if wide else "b32"
        bits = int(kind[1:])
        left, right, joins = _ROTATIONS[kind]
        joined = dice.one_of(joins)
        source, by = self._register(known, kind, dice), 1 + dice.below(bits - 1)
        other = bits - by if dice.below(4) else by
        high = self.make(code, left, source, by)
        low = self.make(code, right, source, other)
        self.make(code, joined, *((high, low) if dice.below(2) else (low, high)))


def _can_be(row: ScalarInstruction, index: int, source: str | int, known: Sequence[str]) -> bool:
    allowed = row.immediates.get(index)
    if isinstance(source, int):
        return allowed is not None and allowed.low <= source <= allowed.high
    required = allowed is not None and allowed.required
    return not required and source in known and class_of(source) == row.sources[index]


def _can_read(row: ScalarInstruction, known: Sequence[str]) -> bool:
    kinds = {class_of(name) for name in known}
    return all(
        kind in kinds or (index in row.immediates and row.immediates[index].required)
        for index, kind in enumerate(row.sources)
    )


def _needs(first: Sequence[Statement], known: Sequence[str], rest: Sequence[Statement]) -> bool:
    written = set[str]().union(*map(written_by, every(first))).difference(known)
    return any(not written.isdisjoint(read_by(one)) for one in every(rest))


def computed(
    builder: Builder, value: LiveValue, made: Registers, *, alone: bool = False
) -> LiveValue:
    """Append code that makes registers of those of a value."""
    # `alone` says that it is all that the program does: then it is longer, and what it makes beyond
    # those registers is part of what they hold.
    name, dice, holds = builder.name("y"), builder.dice(), value.holds
    letter = "r" if holds.bits == 32 else "d"
    inputs = [f"{letter}{index}" for index in range(holds.registers)]
    lanes = Lanes(builder, inputs)
    known = [LANE, *inputs]
    code = lanes.code(known, dice.one_of(_SIZES_ALONE if alone else _SIZES))
    kind = f"b{made.bits}"
    seen = [one for one in reversed(known) if class_of(one) == kind and one != LANE]
    if kind == "b32":
        code += _brought_out(lanes, known, seen)
        if alone:
            # What is left beyond the first registers is joined to these, so that nothing is lost.
            written, joins = set[str]().union(*map(written_by, every(code))), list[Assign]()
            lost = [one for one in seen[made.registers :] if one in written]
            for number, one in enumerate(lost):
                place = number % made.registers
                seen[place] = lanes.make(joins, "xor.b32", seen[place], one)
            code += joins
    results = (seen * made.registers)[: made.registers]
    builder.add(
        LaneCode(
            source=value.name, count=holds.registers, bits=holds.bits, destination=name,
            results=tuple(results), code=tuple(code),
        )
    )  # fmt: skip
    value.pending = False
    return builder.define(name, made, pending=True)


def _brought_out(lanes: Lanes, known: Sequence[str], seen: list[str]) -> list[Assign]:
    made: list[Assign] = []
    for name in reversed(known):
        kind = class_of(name)
        if kind == "b32" or len(made) >= MOST_LISTED // 2:
            continue
        out: list[tuple[str, tuple[str | int, ...]]] = [("selp.b32", (1, 0, name))]
        if kind == "b64":
            high = lanes.make(made, "shr.u64", name, 32)
            out = [("cvt.u32.u64", (name,)), ("cvt.u32.u64", (high,))]
        elif kind == "b16":
            out = [("cvt.u32.u16", (name,))]
        for opcode, sources in out:
            seen.insert(0, lanes.make(made, opcode, *sources))
    return made


def computed_rows(
    dice: Dice, start: int, pitch: int, rows: int, *, apart: bool = False
) -> tuple[tuple[int, ...], tuple[Statement, ...]]:
    """Draw addresses of rows and code of lanes that computes them, as swizzles and clamps do."""
    # `apart` says that all rows have to be different; there are as many as lanes.
    code: list[Statement] = []
    row: str | int = LANE

    def make(opcode: str, *sources: str | int) -> str:
        made = f"r{len(code) + 1}"
        code.append(Assign(opcode=opcode, destinations=(made,), sources=sources))
        return made

    most = min(1 << rows.bit_length() - 1, LANES) - 1
    if dice.below(2):
        # A compiler does not know that it is the lane's number.
        row = make("add.s32", LANE, ZERO)
    for _ in range(1 + dice.below(3)):
        number = dice.below(LANES)
        match dice.below(5 if apart else 8):
            case 0:
                bits = make("and.b32", make("shr.u32", row, 1 + number % 4), 7)
                row = make("xor.b32", row, bits)
            case 1:
                row = make("xor.b32", row, number)
            case 2:
                row = make("abs.s32", make("sub.s32", row, LANES - 1))
            case 3:
                row = make("min.u32", row, LANES - 1) if number % 2 else make("max.s32", row, 0)
            case 4:
                row = make("shr.u32", make("brev.b32", row), 27)
            case 5:
                row = make("abs.s32", make("sub.s32", row, number))
            case 6:
                row = make("min.s32" if number % 2 else "max.u32", row, number)
            case _:
                row = make("prmt.b32", row, number, (0x4440, 0x4104, 0x0321)[number % 3])
    if most < LANES - 1 or not apart:
        row = make("and.b32", row, most)
    if pitch == ROW_BYTES and dice.below(2):
        offset = make("shl.b32", row, 4)
        code.append(Assign(opcode="add.s32", destinations=("r0",), sources=(offset, start)))
    else:
        code.append(Assign(opcode="mad.lo.s32", destinations=("r0",), sources=(row, pitch, start)))
    step = LaneCode(destination="p", results=("r0",), code=tuple(code))
    made, _ = run_lanes(step, np.zeros((1, LANES, 0), np.uint32))
    return tuple(made[0, :, 0].tolist()), tuple(code)
