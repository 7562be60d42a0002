"""Code with defects written out: its branches, its loops, and what ptxas believes there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from oracle.lane_code import (
    LANE,
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Statement,
    class_of,
    every,
    read_by,
    written_by,
)
from oracle.matrices import LANES
from oracle.scalar.row import CLASSES
from scalar_causes.cause import (
    ANY,
    CHOSEN,
    JOINED,
    LEAST,
    MOST,
    PRODUCTS,
    Cause,
    Last,
    assign,
    constant_of,
    negative,
    written_since,
)
from scalar_causes.constants import Folding

_CONSTANT = {True: "p998", False: "p997"}
"""Predicates that hold, and do not: no drawn program has them."""
_USES = 8
"""Most uses of predicates of which each is tried as the one that is asked for again."""
_TWO = {"add": 2, "sub": 1, "mul": 2, "fma": 3, "min": 2, "max": 2, "set": 2}
"""Sources of instructions of two halves that a told constant is put into: the first ones."""
_STEPS = frozenset({"div.s32", "div.u16", "div.s16", "rem.u16"})
"""Divisions that a compiler makes with branches at first: behind them as behind a branch."""
_HALF = LANES // 2
_LATER, _MIXED, _ENTERING = "p996", "p995", "r996"
"""Lanes that come to a loop after others, whether there are any, and how many enter its body."""
_BEFORE, _LEFT, _TURN = "r995", "r994", "r993"
"""What they find in the counter, how many turns they take, and the number of such a turn."""
_SIGNS = 600
"""Number of the register that keeps %r0 as a comparison with 0 takes it."""
_SHADOWS = 500
"""Number of the predicate that a comparison without flushing writes for %p0."""


def _asked_sign(one: Assign) -> str:
    """Return the register that an instruction compares with 0 as an f32; "" for none."""
    words, sources = one.opcode.split("."), one.sources
    if words[0] == "slct" and words[-1] == "f32" and "ftz" not in words:
        return str(sources[2])
    if words[0] != "setp" or words[2:] != ["f32"] or len(sources) != 2:
        return ""
    names = [each for each in sources if isinstance(each, str)]
    zeros = [each for each in sources if each in (0, LEAST)]
    return names[0] if len(names) == len(zeros) == 1 else ""


def _as_float(one: Assign, last: Last, result: str) -> list[Statement]:
    """Return what writes the negative or the magnitude of an integer as if it were an f32."""
    source = one.sources[0] if one.opcode in ("abs.s32", "cnot.b32") else negative(one, last)
    if not isinstance(source, str):
        return []
    if one.opcode == "abs.s32":
        return [assign("and.b32", result, source, MOST, guard=one.guard)]
    if one.opcode == "cnot.b32":  # the negative of a mask
        mask = assign("setp.eq.u32", CHOSEN, source, 0)
        return [mask, assign("selp.b32", result, MOST, LEAST, CHOSEN, guard=one.guard)]
    return [assign("xor.b32", result, source, LEAST, guard=one.guard)]


class Written:
    """A piece of code with defects written out.

    Parameters
    ----------
    causes
        The defects.
    """

    def __init__(self, causes: Sequence[Cause]) -> None:
        self._causes = causes
        self._last: dict[str, list[Assign]] = {ANY: [], JOINED: []}
        self._merged: list[Assign] = []
        """Each `or.pred` that is made as `and.pred`."""
        self._flushing: set[str] = set()
        """Predicates that come of comparisons which flush, or are a copy or the negation of one."""
        self._uses = 0
        """Uses so far of predicates that come of comparisons which flush."""
        self._loops: list[Repeat] = []
        """Those around."""
        self._before: list[Statement] = []
        """What has to stand before the loop around."""
        self._arms = 0
        """Arms of branches around."""
        self._signs: set[str] = set()
        """Registers that are compared with 0 as f32."""
        self._split: dict[str, str] = {}
        """With which predicates lanes jump at branches before, outside of others and of loops."""
        self._known: dict[str, tuple[bool, bool]] = {}
        """Predicates that the branches around say, or those with which lanes leave a turn before,
        and whether that one is the first behind what writes the predicate: of it a compiler finds
        out that a loop writes it, too."""
        self._arms_say: set[str] = set()
        """Those of them that branches around say."""
        self._here: set[str] = set()
        """Predicates that are written since the last branch."""
        self._same: dict[str, str] = {}
        """Predicates that are copies of what others were."""
        self._believed: set[str] = set()
        """Those of them that are still believed in a loop which changes them."""
        self._compared: dict[str, tuple[str, int]] = {}
        """Predicates that say that a register differs from a constant."""
        self._multiples: dict[str, tuple[int, int]] = {}
        """Registers of 64 bits that are multiples of something: its number, and the factor."""
        self._somethings = 0
        """How many there are."""
        self._told: dict[str, int] = {}
        """Registers that equal a constant where the branches around say so."""
        self.seen = False
        """Whether any of the defects was found."""
        self.folded: set[str] = set()
        """Names of those that showed where sources are constants."""

    def whole(self, step: LaneCode) -> tuple[Statement, ...]:
        """Return the statements of a step with the defects."""
        code = step.code
        given = (
            Assign(opcode=f"setp.{order}.u32", destinations=(name,), sources=("lane", "lane"))
            for name, order in ((_CONSTANT[True], "eq"), (_CONSTANT[False], "ne"))
        )
        if any(cause.folds for cause in self._causes):
            folding = Folding([cause for cause in self._causes if cause.folds])
            code = folding.block(code)
            self.folded |= folding.seen
            self.seen |= bool(folding.seen)
        if any(cause.merges for cause in self._causes):
            self._merged = _merged(code)
        if any(cause.signs for cause in self._causes):
            asked = (_asked_sign(one) for one in every(code) if isinstance(one, Assign))
            self._signs = {name for name in asked if name}
        signs = [name for name in step.inputs if name in self._signs]
        kept = (assign("mov.b32", _sign(name), name) for name in signs)
        made = (*kept, *self._block(code))
        return (*given, *made) if any(cause.believes for cause in self._causes) else made

    def _block(self, code: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(made for one in code for made in self._statement(one))

    def _turn(self, code: Sequence[Statement]) -> tuple[Statement, ...]:
        """Return a part of a turn, behind which nothing is said by what lanes leave it with."""
        before = dict(self._known)
        self._here.clear()
        made = self._block(code)
        self._here.clear()
        self._known = {name: said for name, said in before.items() if name in self._known}
        return made

    def _arm(
        self, code: Sequence[Statement], predicate: str, *, taken: bool, here: bool
    ) -> Sequence[Statement]:
        before, compared, told = dict(self._known), self._compared, dict(self._told)
        name = predicate.removeprefix("!")
        said = taken != predicate.startswith("!")
        self._known[name] = said, here
        outer, self._arms_say = self._arms_say, self._arms_say | {name}
        if not said and name in compared:
            register, constant = compared[name]
            self._told[register] = constant
        self._compared = dict(compared)
        self._arms += 1
        self._here.clear()
        made = self._block(code)
        self._arms -= 1
        self._join(code)
        self._arms_say = outer
        self._known = {name: said for name, said in before.items() if name in self._known}
        self._compared = {
            name: pair for name, pair in compared.items() if self._compared.get(name) == pair
        }
        self._told = {name: value for name, value in told.items() if name in self._told}
        return made

    def _statement(self, one: Statement) -> Sequence[Statement]:
        match one:
            case Assign():
                return self._assign(one)
            case If():
                return self._branch(one)
            case Repeat():
                written = {name for inner in every(one.body) for name in written_by(inner)}
                self._forget(written)
                for name in written:
                    self._join(self._last.get(name, ()))
                if one.entry and (said := self._said(one.entry)) is not None:
                    one = replace(one, entry=_CONSTANT[True] if said else "")
                changed = {name for inner in every(one.body) for name in _changed(inner)}
                changed &= set(self._known)
                far = {name for name in changed if not self._known[name][1]}
                believed = far if self._has("believes", far) else set()
                self._believed |= believed
                for name in changed - believed:
                    del self._known[name]
                self._loops.append(one)
                first = self._turn(one.body[: one.skipped])
                rest = self._turn(one.body[one.skipped :])
                self._loops.pop()
                self._join(one.body)
                for name in believed:
                    self._known.pop(name, None)
                self._believed -= believed
                before, self._before = self._before, []
                one = replace(one, body=(*first, *rest), skipped=len(first))
                return [*before, *self._in_one_register(one)]
            case Leave():
                said = self._said(one.predicate)
                if said is not None:
                    return [replace(one, predicate=_CONSTANT[True])] if said else []
                name = one.predicate.removeprefix("!")
                self._known[name] = name != one.predicate, name in self._here
                self._here.clear()
                return [replace(one, predicate=self._read(one.predicate, branch=True))]
            case _:
                return [one]

    def _in_one_register(self, one: Repeat) -> Sequence[Statement]:
        """Return a loop, or how lanes take it that count in one register."""
        name = one.entry.removeprefix("!")
        constant = one.down and isinstance(one.count, int) and one.count
        leaves = any(
            isinstance(each, Leave) and not (each.turn and name in read_by(each))
            for each in one.body
        )
        counted = name and (constant or (one.late and not one.down)) and not leaves
        around = self._loops[0] if self._loops else None
        if (
            self._arms
            or not counted
            or (around and not (one.down and self._is_plain(around, name)))
        ):
            return [one]
        jumps = one.entry
        if any(cause.split for cause in self._causes):
            jumps = "" if one.down else self._split.get(name, "")
        if not self._has("counts", jumps):
            self._has("apart")
            return [one]
        parted = self._parted(jumps)
        if not around:
            return [*parted, *self._counted(one)]
        # The first turn of a loop around leaves them apart, and each begins the others anew.
        self._before += parted
        return [
            assign("setp.eq.u32", CHOSEN, around.counter, around.count if around.down else 0),
            assign("and.pred", _LATER, _LATER, CHOSEN),
            assign("and.pred", _MIXED, _MIXED, CHOSEN),
            *self._counted(one),
        ]

    def _parted(self, jumps: str) -> Sequence[Statement]:
        """Return what finds out which lanes come later, of those that jump and the others."""
        name, negated = jumps.removeprefix("!"), jumps.startswith("!")
        apart = self._has("apart")
        lanes = LANES - apart
        return [
            assign("vote.sync.ballot.b32", _ENTERING, name, 0xFFFF_FFFF),
            *([assign("and.b32", _ENTERING, _ENTERING, 0xFFFF_FFFE)] if apart else []),
            assign("popc.b32", _ENTERING, _ENTERING),
            *([assign("sub.u32", _ENTERING, lanes, _ENTERING)] if negated else []),
            *([assign("setp.eq.u32", CHOSEN, LANE, 0)] if apart else []),
            *([assign("mov.b32", _ENTERING, 0, guard=CHOSEN)] if apart else []),
            assign("setp.ge.u32", _LATER, _ENTERING, _HALF),
            assign("xor.pred", _LATER, _LATER, name),
            *([] if negated else [assign("not.pred", _LATER, _LATER)]),
            assign("sub.u32", _ENTERING, _ENTERING, 1),
            assign("setp.lt.u32", _MIXED, _ENTERING, lanes - 1),
            assign("and.pred", _LATER, _LATER, _MIXED),
        ]

    def _is_plain(self, around: Repeat, name: str) -> bool:
        """Whether all lanes take all turns of a loop, which leaves a predicate as it is."""
        leaves = any(isinstance(each, Leave) for each in around.body)
        written = {made for each in every(around.body) for made in written_by(each)}
        constant = isinstance(around.count, int) and not around.entry
        return constant and not leaves and name not in written and len(self._loops) == 1

    def _counted(self, one: Repeat) -> Sequence[Statement]:
        if one.down:
            # Of lanes that come later each takes one turn.
            return [
                If(predicate=_LATER, then=(replace(one, count=0, late=True),), otherwise=(one,)),
                assign("mov.b32", one.counter, 0xFFFF_FFFF, guard=_MIXED),
            ]
        last = assign("redux.sync.max.u32", one.counter, one.counter, 0xFFFF_FFFF)
        if any(cause.split for cause in self._causes):
            # They begin anew, and what they count is left.
            return [
                one,
                assign("not.pred", _LATER, _LATER),
                assign("and.pred", _LATER, _LATER, _MIXED),
                assign("mov.b32", one.counter, 0, guard=_LATER),
                last,
            ]
        # They begin with what the others have counted.
        number = assign("add.u32", one.counter, _TURN, _BEFORE)
        later = replace(
            one, count=_LEFT, counter=_TURN, skipped=one.skipped + 1, body=(number, *one.body)
        )
        return [
            assign("mov.b32", one.counter, 0),
            If(predicate=_LATER, then=(), otherwise=(one,)),
            assign("redux.sync.max.u32", _BEFORE, one.counter, 0xFFFF_FFFF),
            assign("and.b32", _LEFT, one.count, one.mask),
            assign("sub.s32", _LEFT, _LEFT, _BEFORE),
            assign("max.s32", _LEFT, _LEFT, 1),
            assign("mov.b32", _TURN, 0),
            If(predicate=_LATER, then=(number, later, number)),
            last,
        ]

    def _join(self, code: Sequence[Statement]) -> None:
        self._last[JOINED] += [each for each in every(code) if isinstance(each, Assign)]

    def _forget(self, written: Collection[str]) -> None:
        """Forget what is said of registers and predicates that are written."""
        self._compared = {
            name: pair
            for name, pair in self._compared.items()
            if {name, pair[0]}.isdisjoint(written)
        }
        self._told = {name: value for name, value in self._told.items() if name not in written}
        self._multiples = {
            name: multiple for name, multiple in self._multiples.items() if name not in written
        }

    def _has(self, what: str, found: object = True) -> bool:
        """Whether one of the defects is of a kind, and there is something to show it."""
        has = bool(found) and any(getattr(cause, what) for cause in self._causes)
        self.seen |= has
        return has

    def _said(self, predicate: str) -> bool | None:
        """Return what is believed of a predicate; None: nothing."""
        name = predicate.removeprefix("!")
        return self._known[name][0] != (name != predicate) if name in self._believed else None

    def _is_said(self, name: str) -> bool:
        """Whether the branches around say a predicate, or a copy of it."""
        changed = {
            each for loop in self._loops for one in every(loop.body) for each in _changed(one)
        }
        if name in self._known or name in changed:
            return name in self._known
        copies = [self._last[each][0] for each in self._known if each in self._last]
        return any(
            _copied(one) == name and name not in written_since(one, self._last) for one in copies
        )

    def _asked(self, predicate: str, *, branch: bool = False) -> str:
        """Return the predicate that is asked for in place of one."""
        name = predicate.removeprefix("!")
        if name not in self._flushing:
            return predicate
        self._uses += 1
        arm = name in self._known and name in self._arms_say
        if any(
            cause.nth == self._uses if cause.nth else arm and (cause.branches or not branch)
            for cause in self._causes
            if cause.repeats
        ):
            self.seen = True
            return predicate.replace(name, _shadow(name))
        return predicate

    def _read(self, predicate: str, *, branch: bool = False) -> str:
        """Return the predicate that is read in place of one, which may be its copy."""
        name = predicate.removeprefix("!")
        copied = name in self._same and any(
            cause.copies and (branch or not cause.at_branches) for cause in self._causes
        )
        self.seen |= copied
        return predicate.replace(name, self._same[name]) if copied else predicate

    def _branch(self, one: If) -> Sequence[Statement]:
        said = self._said(one.predicate)
        if said is not None:
            return self._block(one.then if said else one.otherwise)
        one = replace(one, predicate=self._read(one.predicate, branch=True))
        asked = self._asked(one.predicate, branch=True)
        if not self._loops and not self._arms:
            name, negated = one.predicate.removeprefix("!"), one.predicate.startswith("!")
            self._split[name] = name if negated else f"!{name}"
        here = one.predicate.removeprefix("!") in self._here
        multiples = dict(self._multiples)
        then = tuple(self._arm(one.then, one.predicate, taken=True, here=here))
        self._multiples = dict(multiples)
        otherwise = tuple(self._arm(one.otherwise, one.predicate, taken=False, here=here))
        self._here.clear()
        written = {name for each in every((one,)) for name in written_by(each)}
        self._multiples = {name: each for name, each in multiples.items() if name not in written}
        return [replace(one, predicate=asked, then=then, otherwise=otherwise)]

    def _assign(self, one: Assign) -> Sequence[Statement]:
        # With a predicate it may leave alone what it writes, which is still believed.
        kept = [
            assign("or.pred", name, *[_CONSTANT[said]] * 2)
            for name in one.destinations
            if one.guard and (said := self._said(name)) is not None
        ]
        made = [*kept, *self._keeping(one, self._defective(one))]
        multiple = self._multiple(one)
        source = _copied(one)
        same = _same(one, self._last)
        self._last[ANY].insert(0, one)
        flushes = ".ftz." in one.opcode or source in self._flushing
        for name in one.destinations:
            (self._flushing.add if flushes else self._flushing.discard)(name)
            self._last[name] = [one, *self._last.get(name, ())]
        if one.opcode in _STEPS and not one.guard:
            self._here.clear()
        for name in _changed(one):
            self._known.pop(name, None)
            self._believed.discard(name)
            self._split.pop(name, None)
            self._here.add(name)
            if same.get(name) != name:
                self._same.pop(name, None)
        self._same |= {name: source for name, source in same.items() if name != source}
        self._forget(one.destinations)
        if multiple is not None:
            self._multiples[one.destinations[0]] = multiple
        if one.opcode in ("setp.ne.s32", "setp.ne.u32", "setp.ne.b32") and not one.guard:
            registers = [each for each in one.sources if isinstance(each, str)]
            constants = [each for each in one.sources if isinstance(each, int)]
            if len(registers) == len(constants) == len(one.destinations) == 1:
                self._compared[one.destinations[0]] = registers[0], constants[0]
        predicates = [name for name in one.destinations if class_of(name) == "pred"]
        if predicates and any(cause.repeats for cause in self._causes):
            shadows = self._shadows(one, predicates)
            # A comparison may write a predicate that it reads.
            compares = one.row.family == "setp" and not one.guard
            made = [*shadows, *made] if compares and ".ftz." in one.opcode else [*made, *shadows]
        return made

    def _keeping(self, one: Assign, made: Sequence[Statement]) -> Sequence[Statement]:
        """Return an instruction with what keeps the sign that a comparison asks for later."""
        names = [name for name in one.destinations if name in self._signs]
        if not names:
            return made
        if kept := _as_float(one, self._last, _sign(names[0])):
            return [*kept, *made]
        return [*made, *(assign("mov.b32", _sign(each), each, guard=one.guard) for each in names)]

    def _shadows(self, one: Assign, predicates: Sequence[str]) -> Sequence[Statement]:
        if one.row.family == "setp" and ".ftz." in one.opcode and not one.guard:
            names = tuple(_shadow(name) for name in one.destinations)
            return [replace(one, opcode=one.opcode.replace(".ftz", ""), destinations=names)]
        if (source := _copied(one)) and source in self._flushing:
            shadows = tuple(_shadow(source) for _ in one.sources)
            return [replace(one, destinations=(_shadow(one.destinations[0]),), sources=shadows)]
        return [
            replace(one, opcode="or.pred", destinations=(_shadow(name),), sources=(name, name))
            for name in predicates
        ]

    def _defective(self, one: Assign) -> Sequence[Statement]:
        if any(one is other for other in self._merged):
            self.seen = True
            return [replace(one, opcode="and.pred")]
        for cause in self._causes:
            made = None if cause.folds else cause.rewrite(one, self._last)
            if made is not None:
                self.seen |= made[-1] is not one  # else it only keeps what it reads
                return made
        if (halves := self._halves(one)) is not None:
            self.seen = True
            return halves
        if (name := _asked_sign(one)) in self._signs and name in self._last:
            by = self._last[name][0]
            if any(by is other for other in self._last[JOINED]):
                self.seen |= bool(_as_float(by, self._last, name))
                at = one.sources.index(name, 2 if one.row.family == "slct" else 0)
                sources = (*one.sources[:at], _sign(name), *one.sources[at + 1 :])
                return [replace(one, sources=sources)]
        if (once := self._once(one)) is not None:
            self.seen = True
            return once
        if one.opcode == "selp.f32" and self._has("chooses", self._is_said(str(one.sources[2]))):
            first, second, predicate = one.sources
            return [replace(one, sources=(second, first, predicate))]
        if (same := self._same_modulo(one)) is not None:
            self.seen = True
            return same
        one = replace(
            one,
            guard=one.guard and self._read(one.guard),
            sources=tuple(
                self._read(name) if isinstance(name, str) else name for name in one.sources
            ),
        )
        if one.guard and (said := self._said(one.guard)) is not None:
            if not said:
                return []
            one = replace(one, guard="")
        elif one.guard:
            one = replace(one, guard=self._asked(one.guard))
        sources = tuple(
            _CONSTANT[said] if isinstance(name, str) and (said := self._said(name)) is not None
            else name
            for name in one.sources
        )  # fmt: skip
        return [replace(one, sources=sources)]

    def _halves(self, one: Assign) -> Sequence[Statement] | None:
        """Return an instruction of two halves of a constant that a branch tells; None: of none."""
        two = _TWO.get(one.row.family, 0) if one.opcode.endswith("16x2") else 0
        if not any(cause.tells for cause in self._causes):
            return None
        sources = tuple(
            (self._told[source] & 0xFFFF) * 0x1_0001
            if isinstance(source, str) and source in self._told and index < two
            else source
            for index, source in enumerate(one.sources)
        )
        return [replace(one, sources=sources)] if sources != one.sources else None

    def _multiple_of(self, name: str) -> tuple[int, int]:
        """Return what a register is a multiple of: itself, if nothing else is known."""
        if name not in self._multiples:
            self._somethings += 1
            self._multiples[name] = self._somethings, 1
        return self._multiples[name]

    def _multiple(self, one: Assign) -> tuple[int, int] | None:
        """Return what an instruction makes a multiple of; None: nothing that a compiler finds."""
        shifts = one.opcode == "shl.b64"
        if one.guard or not (shifts or one.opcode in PRODUCTS[2:]):
            return None
        registers = [name for name in one.sources[:2] if isinstance(name, str)]
        constants = [number for number in one.sources[:2] if isinstance(number, int)]
        if len(registers) != 1 or (
            shifts and (constants[0] > 31 or one.sources[1] != constants[0])
        ):
            return None
        of, factor = self._multiple_of(registers[0])
        factor *= 1 << constants[0] if shifts else constants[0]
        for addend in one.sources[2:]:
            if not isinstance(addend, str) or self._multiple_of(addend)[0] != of:
                return None
            factor += self._multiple_of(addend)[1]
        return of, factor % (1 << 64)

    def _same_modulo(self, one: Assign) -> Sequence[Statement] | None:
        """Return a copy of what a mad.lo is taken for; None: of nothing."""
        if one.row.family != "mad" or not any(cause.modulo for cause in self._causes):
            return None
        made = self._multiple(replace(one, guard=""))
        for name, (of, factor) in self._multiples.items():
            if made and of == made[0] and factor != made[1] and not (factor - made[1]) % (1 << 32):
                return [assign("mov.b64", one.destinations[0], name, guard=one.guard)]
        return None

    def _once(self, one: Assign) -> Sequence[Statement] | None:
        """Return what is left of a `mad.hi` that adds to its own result; None: all of it."""
        if one.opcode not in ("mad.hi.s32", "mad.hi.u32") or not one.guard:
            return None
        if not any(cause.once for cause in self._causes):
            return None
        (result,) = one.destinations
        if one.sources[2] != result or result in one.sources[:2]:
            return None
        if result in self._last and self._last[result][0] == one:
            return []
        if not self._loops or not isinstance(self._loops[-1].count, int):
            return None
        read = {*one.sources, one.guard.removeprefix("!")}
        others = [each for each in every(self._loops[-1].body) if each != one]
        if any(read & written_by(each) for each in others):
            return None
        first = assign("setp.eq.u32", CHOSEN, self._loops[-1].counter, 0)
        return [first, If(predicate=CHOSEN, then=(one,))]


def _copied(one: Assign) -> str:
    """Return the predicate of which an instruction writes a copy or the negation; "" for none."""
    if one.opcode not in ("or.pred", "and.pred", "not.pred"):
        return ""
    first, *others = map(str, one.sources)
    if one.guard and (one.opcode == "not.pred" or {first} != {*one.destinations}):
        return ""
    return first if all(other == first for other in others) else ""


def _same(one: Assign, last: Last) -> dict[str, str]:
    """Return the predicates of which an instruction writes copies, by the copy.

    A comparison of constants with which a predicate is combined may do so.
    """
    if one.guard:
        return {}
    source = str(one.sources[-1])
    if one.opcode in ("or.pred", "and.pred"):
        return dict.fromkeys(one.destinations, source) if len({*one.sources}) == 1 else {}
    if one.row.family != "setp" or len(one.sources) < 3:
        return {}
    values = [constant_of(each, last) for each in one.sources[:2]]
    constants = [
        np.full(2, value, CLASSES[kind])
        for value, kind in zip(values, one.row.sources, strict=False)
        if value is not None
    ]
    if len(constants) < len(values):
        return {}
    held = np.array([False, True])
    made = one.row.evaluate(*constants, held)
    pairs = zip(one.destinations, made, strict=True)
    return {name: source for name, each in pairs if (each == held).all()}


def _changed(one: Statement) -> set[str]:
    """Return what a statement writes itself, other than with what is there."""
    if isinstance(one, Assign) and one.opcode in ("mov.pred", "or.pred", "and.pred"):
        return {*one.destinations} - ({*one.sources} if len({*one.sources}) == 1 else set())
    return written_by(one)


def _merged(code: Sequence[Statement]) -> list[Assign]:
    """Return each `or.pred` beside an `and.pred` of the same predicates.

    The later of the two has one reader, which reads one of the predicates again.
    """
    text = list(every(code))
    made: list[Assign] = []
    for at, first in enumerate(text):
        if not isinstance(first, Assign) or first.opcode not in ("or.pred", "and.pred"):
            continue
        pair = {str(name) for name in first.sources}
        if first.guard or len(pair) < 2 or pair & {*first.destinations}:
            continue
        later: Assign | None = None
        for one in text[at + 1 :]:
            if isinstance(one, Assign) and later is None:
                if (
                    {first.opcode, one.opcode} == {"or.pred", "and.pred"}
                    and not one.guard
                    and pair == {*one.sources}
                    and not pair & {*one.destinations}
                ):
                    later = one
            elif isinstance(one, Assign) and later is not None:
                (result,) = later.destinations
                readers = sum(result in read_by(other) for other in text)
                if one.row.family in ("or", "and", "xor") and {result} < {*one.sources} <= {
                    result,
                    *pair,
                }:
                    if readers == 1:
                        made.append(first if first.opcode == "or.pred" else later)
                    break
            if pair & written_by(one):
                break
    return made


def _sign(register: str) -> str:
    return f"r{_SIGNS + int(register[1:])}"


def _shadow(predicate: str) -> str:
    return f"p{_SHADOWS + int(predicate[1:])}"


CAUSES = (
    Cause(
        name="what a branch says of a predicate is believed in every turn of a loop",
        ptx="@!%p0 bra END; TURN: setp.ge.xor.u32 %p0, %r0, %r1, %p0; ... @%p1 bra TURN;",
        section="What a branch says of a predicate",
        believes=True,
    ),
    Cause(
        name="a copy of a predicate is what that is set to later",
        ptx="or.pred %p1, %p0, %p0; setp.gt.u32 %p0, %r2, 7; @%p1 bra JOIN;",
        section="A copy of a predicate",
        copies=True,
    ),
    Cause(
        name="a copy of a predicate is what that is set to later",
        ptx="or.pred %p1, %p0, %p0; setp.gt.u32 %p0, %r2, 7; @%p1 bra J; selp.b32 %r1, 1, 0, %p1;",
        section="A copy of a predicate",
        copies=True,
        at_branches=True,
    ),
    Cause(
        name="a mad.hi is left out behind one of the same registers",
        ptx="@%p0 mad.hi.s32 %r1, %r2, %r3, %r1; @%p0 mad.hi.s32 %r1, %r2, %r3, %r1;",
        section="A mad.hi with another addend",
        once=True,
    ),
    Cause(
        name="lanes that enter a loop within its body count with the others",
        ptx="mov.b32 %r3, 2; @%p0 bra ENTRY; TURN: ... ENTRY: ... @%p1 bra TURN;",
        section="A loop that lanes enter at two places",
        counts=True,
    ),
    Cause(
        name="lanes that enter a loop within its body count with the others",
        ptx="@%p0 bra NO; ... NO: mov.b32 %r3, 0; @%p0 bra ENTRY; ... @%p1 bra TURN;",
        section="A loop that lanes enter at two places",
        counts=True,
        split=True,
    ),
    Cause(
        name="lane 0 is not joined before a loop",
        ptx="@%p1 st.shared.b32 [%rd7], %r4; mov.b32 %r3, 2; @%p0 bra ENTRY; TURN: ... ENTRY: ...",
        section="Lanes are not joined before match.all",
        apart=True,
    ),
    Cause(
        name="or.pred is made as and.pred of the same predicates",
        ptx="or.pred %p3, %p1, %p2; and.pred %p4, %p1, %p2; and.pred %p5, %p1, %p4;",
        section="and.pred and or.pred of the same predicates",
        merges=True,
    ),
    Cause(
        name="selp.f32 by a predicate that a branch says reads another one",
        ptx="@!%p0 bra JOIN; TURN: selp.f32 %r1, %r2, %r3, %p0; ... @%p1 bra TURN;",
        section="selp.f32 by a predicate that a branch says",
        chooses=True,
    ),
    Cause(
        name="the negative of an integer is that of an f32 for a comparison behind a branch",
        ptx="@%p1 bra JOIN; neg.s32 %r2, %r1; JOIN: setp.ge.f32 %p0, %r2, 0f00000000;",
        section="A negative integer of a branch",
        signs=True,
    ),
    Cause(
        name="both halves of a constant that a branch tells are its lower half",
        ptx="setp.ne.s32 %p0, %r1, 8; @%p0 bra JOIN; add.rn.f16x2 %r3, %r1, %r2;",
        section="Halves of a constant that a branch tells",
        tells=True,
    ),
    Cause(
        name="factors of 64 bits are compared modulo 2^32",
        ptx="mul.lo.u64 %d1, %d0, 0x10000; mad.lo.u64 %d2, %d1, 0x10000, %d0;",
        section="Factors of 64 bits are compared",
        modulo=True,
    ),
    Cause(
        name="a comparison that is repeated loses .ftz",
        ptx="setp.ge.ftz.f32 %p1, %r7, %r5; @!%p1 bra NO; @!%p1 mov.b32 %r0, %r1;",
        section="A comparison that is repeated",
        repeats=True,
    ),
    Cause(
        name="a comparison that is repeated loses .ftz",
        ptx="setp.ge.ftz.f32 %p1, %r7, %r5; @!%p1 bra NO; @!%p1 bra JOIN;",
        section="A comparison that is repeated",
        repeats=True,
        branches=True,
    ),
    *(
        Cause(
            name="a comparison that is repeated loses .ftz",
            ptx="setp.ge.ftz.f32 %p1, %r7, %r5; ... @!%p1 mov.b32 %r0, %r1;",
            section="A comparison that is repeated",
            repeats=True,
            nth=nth,
        )
        for nth in range(1, _USES + 1)
    ),
)
"""Defects that show at branches and loops, or in pieces of code."""
