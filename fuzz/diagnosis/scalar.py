"""Finds the wrong scalar instructions by experiment: each alone, or the code without it.

Where all are right alone, what each gave is loaded in its place. What code needs beside them (a
predicate, branch, loop, constants) is the condition, or the name where it needs none of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count, islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import CODE, Culprit, ExperimentDevice, Witness
from fuzz.diagnosis.parts import (
    GIVES,
    KEPT,
    LOOP,
    NOTHING,
    PREDICATE,
    Code,
    assign,
    brought_out,
    controls,
    inputs_of,
    is_brought,
    least_part,
    read_as,
    size_in_words,
    wrong_of,
)
from oracle.errors import UsageError
from oracle.execution.tracing import Trace
from oracle.isa.forms import LANES
from oracle.program.lane_code import (
    ZERO,
    Assign,
    If,
    LaneCode,
    Repeat,
    Statement,
    address_code,
    class_of,
    every,
    most_of,
    read_by,
    row_of,
    written_by,
)
from oracle.program.lane_runs import Taken, taken
from oracle.program.program import Program, walk
from oracle.program.steps import Step, accesses_rows, is_lane_code
from oracle.scalar import CLASSES, SCALARS, ScalarInstruction
from strategies.programs.lane_code import settled
from strategies.simplification.examples import (
    Example,
    alone,
    changed,
    edited,
    smaller_code,
    visit,
)

_What = TypeVar("_What")
_CONSTANTS = "with constants"
_MOST_NAMED = 4  # instructions that a name lists
_SMALL, _MOST_TRIED, _MOST_TIMES = 24, 64, 16
"""Statements of small code, instructions that are tried, and contents of each, at most."""
_MOST_ALIKE, _AT_ONCE = 24, 16
"""Instructions of one first word that are tried, and trials that are compiled together."""
_ORDER = re.compile(r"^(setp?)\.[a-z]+(\.(and|or|xor))?(?=\.)")
"""A comparison's order, and how a predicate is combined with it: neither is part of a name."""
_LETTERS = {"b16": "h", "b32": "r", "b64": "d", "pred": "p"}
"""First letter of a register of each class."""
_HELPERS = "cvt.u16.u32", "cvt.u32.u16", "mov.b64.pack", "mov.b64.unpack"
"""What brings registers that have not 32 bits in and out of a trial."""
BELIEVED = "a branch of lanes on a predicate that a loop in it sets anew"
"""What is named where code is right if such a branch asks a copy of its predicate."""
_MIXED = 0x5A5A_5A5A_5A5A_5A5A  # bits of which no half is the sign of another one
_ODD = np.arange(LANES) % 2 == 1  # lanes that have a predicate, where every second one has
_LANE_NUMBERS = np.arange(LANES, dtype=np.uint32)


def wrong_code(device: ExperimentDevice, traced: Trace) -> Culprit | None:
    """Find out which instructions of code, or of addresses of rows, are wrong; None: none alone."""
    right = dict[LaneCode, Example]()
    for event in traced.events:
        code = _code_of(event.step)
        if code is not None:
            example = alone(code, event.inputs.get("source", NOTHING))
            if (found := _wrong_alone(device, example)) is not None:
                return found
            right.setdefault(code, example)
    # Other stores may hide it: what they take may be moved to them as 16 bits.
    return _wrong_part(device, [one for each in right.values() for one in _taken_in(each)[1]])


def _code_of(step: Step) -> LaneCode | None:
    if is_lane_code(step):
        return step
    return (
        address_code(step.memory.computed) if accesses_rows(step) and step.memory.computed else None
    )


def refused_code(
    program: Program, refuses: Callable[[Program], bool], seconds: float
) -> Culprit | None:
    """Find scalar code of a program that a compiler does not survive by itself; None: none.

    It is named by an instruction that `refuses` alone, or by what is left; so many `seconds`.
    """
    end = time.monotonic() + seconds
    for code in filter(None, map(_code_of, walk(program.steps))):
        smaller: Example | None = (whole := alone(code, NOTHING))
        if not refuses(whole.program):
            continue
        rows = dict.fromkeys(row_of(one) for one in every(code.code) if isinstance(one, Assign))
        # What brings registers in and out of a trial may be what is refused.
        for row in sorted(rows, key=lambda row: row.opcode not in _HELPERS):
            bare = _drawn(row)[0].example()
            if bare is not None and time.monotonic() < end and refuses(bare.program):
                witness = Witness(program=bare.program, images=np.zeros_like(bare.image)[None])
                return Culprit(instructions=(_ORDER.sub(r"\1.*", row.opcode),), witness=witness)
        while smaller is not None:
            example = smaller
            offers = (one for one in smaller_code(example) if time.monotonic() < end)
            smaller = next((one for one in offers if refuses(one.program)), None)
        (left,) = filter(is_lane_code, example.program.steps)
        computing = [one for one in every(left.code) if isinstance(one, Assign)]
        shown = Witness(program=example.program, images=np.zeros_like(example.image)[None])
        return replace(_named(computing, [*controls(left.code)]), witness=shown)
    return None


def _wrong_alone(device: ExperimentDevice, example: Example) -> Culprit | None:
    if device.all_right(example.program, example.image[None]):
        return None
    step, there = _taken_in(example)
    if (found := _wrong_part(device, there)) is not None:
        return found
    shown = Witness(program=example.program, images=example.image[None])
    part = least_part(device, example, step)
    other = device.witness(part.program, part.image[None]) if part is not example else None
    if other is not None:
        example, shown = part, other
        step, there = _taken_in(example)
    if sum(not is_brought(one) for one in every(step.code)) > _SMALL:
        return Culprit(instructions=(CODE,), witness=shown, together=True)
    codes = {**controls(step.code), _CONSTANTS: _hidden(step.code)}
    tried = {**codes, BELIEVED: _asking_copies(step.code)}
    wrong = wrong_of(
        device, {name: _with_code(example, step, code) for name, code in tried.items()}
    )
    if not wrong.get(BELIEVED, True):
        return Culprit(instructions=(BELIEVED,), witness=shown)
    once = {index: one for index, (one, times) in enumerate(there) if len(times) == 1}
    given = {n: _given_instead(example, step, one, there[n][1][0]) for n, one in once.items()}
    as_wrong = wrong_of(device, given)
    under = [name for name in codes if name != _CONSTANTS and not wrong.get(name)]
    # Of what is executed again and again no experiment tells whether it is needed. If code is right
    # without its loops, it is, but for what most code has.
    looped = any(LOOP in one for one in under)
    wanted = [
        one
        for index, (one, _) in enumerate(there)
        if not is_brought(one)
        and not as_wrong.get(index, index in once or not looped or _is_plain(one.opcode))
        # What is executed although its predicate says no may be anything.
        and not (one.guard and PREDICATE in under)
    ]
    more = [] if wrong.get(_CONSTANTS, True) else [_CONSTANTS]
    # What moves a constant is told by that condition.
    computing = [one for one in wanted if not (more and _is_constant(one))]
    return replace(_named(computing or wanted, under, *more), witness=shown)


def _taken_in(example: Example) -> tuple[LaneCode, list[tuple[Assign, list[Taken]]]]:
    (step,) = filter(is_lane_code, example.program.steps)
    return step, list(islice(taken(step, inputs_of(example)[None]), _MOST_TRIED))


def _is_constant(one: Assign) -> bool:
    return one.opcode.startswith("mov.") and all(isinstance(each, int) for each in one.sources)


def _is_plain(opcode: str) -> bool:
    return re.fullmatch(r"(mov|add|sub|and|or|xor)\.[bsu]\d+", opcode) is not None


def _with_code(example: Example, step: LaneCode, code: Code) -> Example | None:
    with suppress(UsageError):
        made = replace(step, code=code)
        steps = [made if one is step else one for one in example.program.steps]
        if made != step:
            return example.with_program(example.program.buffers, steps)
    return None


def _named(needed: Sequence[Assign], under: Sequence[str], *more: str) -> Culprit:
    """Return what is wrong together: instructions under a condition, or branches and loops."""
    left, names = [(one, _ORDER.sub(r"\1.*", one.opcode)) for one in needed], list[str]()
    while left:
        free = [
            (one, name)
            for index, (one, name) in enumerate(left)
            if all({*one.sources}.isdisjoint(other.destinations) for other, _ in left[:index])
        ]
        first = min(free, key=lambda each: each[1])
        left.remove(first)
        names.append(first[1])
    told = sorted(dict.fromkeys(names), key=_is_plain)
    around = [f"{'under' if one == PREDICATE else 'in'} {one}" for one in under]
    return Culprit(
        instructions=tuple(told[:_MOST_NAMED]) or (*under,) or (CODE,),
        condition=", ".join([*(around if told else ()), *more]),
        together=True,
    )


# Code written otherwise


def _hidden(code: Code) -> Code:
    """Return code whose constants a compiler does not know: they are added to a 0 from memory."""
    names: dict[tuple[int, str], str] = {}
    first: list[Statement] = []
    numbers = count(KEPT)

    def register(value: int, kind: str) -> str:
        if (value, kind) not in names:
            halves = [f"r{next(numbers)}" for _ in range(2 if kind == "b64" else 1)]
            for part, half in enumerate(halves):
                first.append(assign("add.s32", half, ZERO, value >> 32 * part & 0xFFFF_FFFF))
            name = halves[0] if kind == "b32" else f"{_LETTERS[kind]}{next(numbers)}"
            if kind != "b32":
                first.append(assign(GIVES[name[0]], name, *halves))
            names[value, kind] = name
        return names[value, kind]

    def change(one: Statement) -> Iterable[Statement]:
        if isinstance(one, Assign):
            read = zip(one.sources, row_of(one).sources, _may_be_registers(one), strict=True)
            sources = (
                register(source, kind) if isinstance(source, int) and may else source
                for source, kind, may in read
            )
            one = replace(one, sources=tuple(sources))
        elif isinstance(one, Repeat) and isinstance(one.count, int):
            mask = (1 << max(1, one.count.bit_length())) - 1
            one = replace(one, count=register(one.count, "b32"), mask=mask)
        return [one]

    made = changed(code, change)
    return (*first, *made)


def _asking_copies(code: Code) -> Code:
    """Return code whose branches ask copies of predicates that loops in them set anew."""
    numbers = count(KEPT)

    def change(one: Statement) -> Iterable[Statement]:
        asked = one.predicate.removeprefix("!") if isinstance(one, If) else ""
        loops = (each.body for each in every((one,)) if isinstance(each, Repeat))
        written = (written_by(each) for body in loops for each in every(body))
        if not isinstance(one, If) or asked not in set[str]().union(*written):
            return [one]
        word, copy = (f"{letter}{next(numbers)}" for letter in "rp")
        made = (*brought_out(asked, (word,)), assign(GIVES["p"], copy, word, 0))
        return [*made, replace(one, predicate=one.predicate.replace(asked, copy))]

    return changed(code, change)


def _given_instead(example: Example, step: LaneCode, one: Assign, time: Taken) -> Example | None:
    """Return code with what an instruction gives in its place, loaded from memory."""
    read = set[str]().union(*map(read_by, every(step.code)), step.results)
    used = [name for name in step.inputs if name in read]
    words, parts = inputs_of(example).T, step.bits // 32
    columns = [words[parts * int(name[1:]) + part] for name in used for part in range(parts)]
    # What is loaded in its place needs room: of the inputs none stays that nothing reads.
    moved = [
        assign(GIVES[name[0]], name, *(f"r{parts * index + part}" for part in range(parts)))
        for index, name in enumerate(used)
    ]
    first, here, last = list[Assign](), list[Assign](), list[Statement]()
    seen, numbers, wide = list[str](), count(KEPT), class_of(step.results[0]) == "b64"
    for source in dict.fromkeys(each for each in one.sources if isinstance(each, str)):
        out = tuple(f"r{next(numbers)}" for _ in range(size_in_words(source)))
        first += [assign("add.s32", each, ZERO, 0) for each in out]
        settling = f"max.NaN.{row_of(one).numbers}"
        number = source[0] == "r" and settling in SCALARS
        here += [assign(settling, *out, source, source)] if number else brought_out(source, out)
        if wide:
            seen.append(f"d{next(numbers)}")
            last.append(assign(GIVES["d"], seen[-1], out[0], out[-1]))
        else:
            seen += out
    for name, held in zip(one.destinations, time.results, strict=False):
        pattern = held[0].astype(np.uint64)
        kept = [f"r{next(numbers)}" for _ in range(size_in_words(name))]
        for part, register in enumerate(kept):
            first.append(assign("mov.b32", register, f"r{len(columns)}"))
            columns.append((pattern >> np.uint64(32 * part)).astype("<u4"))
        given = [*kept, 0] if name[0] == "p" else kept
        here.append(assign(GIVES[name[0]], name, *given, guard=one.guard))
    path = next(path for path, other in visit(step.code) if other is one)
    with suppress(UsageError):
        way, begin = read_as(len(columns))
        code = (*begin, *first, *reversed(moved), *edited(step.code, {path: tuple(here)}), *last)
        results = (*dict.fromkeys(step.results), *seen)
        other = replace(step, results=results, code=code, **way)
        return alone(other, np.stack(columns, axis=-1))
    return None


# An instruction alone, and with a predicate


class Trial:
    """Statements on what each lane is given, between a load and a store."""

    def __init__(self) -> None:
        self.code: list[Statement] = []
        self._columns: list[NDArray[np.uint32]] = []
        self._results: list[str] = []

    def given(self, values: NDArray[Any], kind: str) -> str:
        """Return a register of a class that holds (32,) patterns at first."""
        number, wide = len(self._columns), values.astype(np.uint64)
        first, name = f"r{number}", f"{_LETTERS[kind]}{number}"
        self._columns += [
            (wide >> np.uint64(32 * part)).astype("<u4") for part in range(size_in_words(name))
        ]
        if kind != "b32":
            other = {"pred": (0,), "b64": (f"r{number + 1}",)}.get(kind, ())
            self.code.append(assign(GIVES[name[0]], name, first, *other))
        return name

    def seen(self, name: str) -> None:
        """Store what a register holds in the end."""
        out = tuple(f"r{60 + len(self._results) + part}" for part in range(size_in_words(name)))
        self.code += brought_out(name, out)
        self._results += out

    def example(self) -> Example | None:
        """Return the program and the image; None if there can be no such code."""
        columns = self._columns
        with suppress(UsageError):
            step = LaneCode(
                source="x" if columns else "", count=len(columns), destination="y",
                results=tuple(self._results), code=tuple(self.code),
            )  # fmt: skip
            return alone(step, np.stack(columns, axis=-1) if columns else NOTHING)
        return None


def _wrong_part(
    device: ExperimentDevice, there: Sequence[tuple[Assign, list[Taken]]]
) -> Culprit | None:
    met: dict[tuple[object, ...], tuple[Assign, list[Taken]]] = {}
    for one, times in there:
        if not row_of(one).carry_in:
            constants = tuple(each for each in one.sources if isinstance(each, int))
            key = one.opcode, one.guard[:1], constants
            met.setdefault(key, (one, []))[1].extend(times[:_MOST_TIMES])
    for guarded in (False, True):
        offers = (
            ((one, times), [_instruction(one, time, guarded=guarded) for time in times])
            for one, times in met.values()
            if one.guard or not guarded
        )
        if (found := _first_wrong(device, offers)) is not None:
            (one, times), witness = found
            return replace(_wrong_instruction(device, one, times, guarded), witness=witness)
    return None


def _each_wrong(
    device: ExperimentDevice, groups: Sequence[Sequence[Trial]]
) -> list[Witness | None]:
    """Run groups of trials; return of each, of one code, the program and the images that are wrong.

    Groups that are compiled together may be wrong for that alone: what is said of one is believed
    where it is tried by itself.
    """
    made = [[one for one in map(Trial.example, trials) if one is not None] for trials in groups]
    some = [(one[0].program, np.stack([each.image for each in one])) for one in made if one]
    found = iter(device.witnesses(some))
    return [next(found) if one else None for one in made]


def _first_wrong(
    device: ExperimentDevice, offers: Iterable[tuple[_What, Sequence[Trial]]]
) -> tuple[_What, Witness] | None:
    rest = iter(offers)
    while some := [*islice(rest, _AT_ONCE)]:
        there = _each_wrong(device, [trials for _, trials in some])
        for (what, trials), witness in zip(some, there, strict=True):
            if witness is not None and (sure := _each_wrong(device, [trials])[0]) is not None:
                return what, sure
    return None


def _wrong_instruction(
    device: ExperimentDevice, one: Assign, times: Sequence[Taken], guarded: bool
) -> Culprit:
    if guarded:
        plain = assign("and.b32", "r0", "r0", "r0", guard=one.guard)
        given = _LANE_NUMBERS[None]
        same = Taken(plain, [given] * 2, (given,), _ODD, _ODD)
        if _each_wrong(device, [[_instruction(plain, same, guarded=True)]]) != [None]:
            return Culprit(instructions=(PREDICATE,))
    known = zip(one.sources, _may_be_registers(one), strict=True)
    loaded = [_instruction(one, time, guarded=guarded, loaded=True) for time in times]
    constant = any(isinstance(each, int) and may for each, may in known)
    constant = constant and _each_wrong(device, [loaded]) == [None]
    conditions = [f"under {PREDICATE}"] * guarded + [_CONSTANTS] * constant
    names = _all_alike(device, row_of(one), one.guard if guarded else "")
    return Culprit(instructions=names, condition=", ".join(conditions))


def _all_alike(device: ExperimentDevice, row: ScalarInstruction, guard: str) -> tuple[str, ...]:
    """Name an instruction together with those of its first word that are as wrong, found out once.

    By the words that the wrong ones have in common and no right one has, in the same place from
    the end: "set.*.f32.*"; one by one if there are few and no words tell them. If what the trial
    needs beside the instruction is wrong, that is named. `guard` is a predicate like that with
    which it is wrong.
    """
    others = [
        one for one in SCALARS.values()
        if one.family == row.family and one.exists(device.module)
        and not (one.carry_in or one.defined) and (one.settled_by or not one.nan)
    ]  # fmt: skip
    # Always the same ones, whichever was met: one cause is one name.
    tried = [*dict.fromkeys((*others[:: -(-len(others) // _MOST_ALIKE) or 1], row))]
    known, key = device.remembered.alike, (guard[:1], row.opcode, *(one.opcode for one in tried))
    if key in known:
        return known[key]
    helpers = _HELPERS if {*row.destinations, *row.sources} - {"b32"} else ()
    needed = [one for one in (*helpers, row.settled_by) if one and one != row.opcode]
    there = _each_wrong(
        device, [*(_drawn(SCALARS[one]) for one in needed), *(_drawn(one, guard) for one in tried)]
    )
    for opcode, found in zip(needed, there, strict=False):
        if found is not None and _each_wrong(device, [_drawn(SCALARS[opcode])]) != [None]:
            return known.setdefault(key, (opcode,))
    there = there[len(needed) :]
    wrong = [one for one, found in zip(tried, there, strict=True) if found is not None]
    words = {one: set(enumerate(reversed(one.opcode.split(".")[1:]))) for one in tried}
    """Of each opcode the words behind the first, each with its place from the end."""
    right = [words[one] for one in tried if one not in wrong]
    common = set.intersection(*(words[one] for one in wrong or tried))
    told = dict(word for word in common if any(word not in one for one in right))
    names: tuple[str, ...] = (row.family,)
    if row not in wrong or len(wrong) == 1:
        names = (_ORDER.sub(r"\1.*", row.opcode),)
    elif len(wrong) <= _MOST_NAMED and len(others) <= _MOST_ALIKE:
        names = tuple(one.opcode for one in wrong)
    elif told and not any(told.items() <= one for one in right):
        named = [told.get(place, "*") for place in range(max(told), -1, -1)]
        names = (".".join([row.family, "*", *named]),)
    elif len(alike := {_ORDER.sub(r"\1.*", one.opcode) for one in wrong}) == 1:
        names = (*alike,)  # of some orders
    return known.setdefault(key, names)


def _instruction(one: Assign, time: Taken, *, guarded: bool = False, loaded: bool = False) -> Trial:
    """Return a trial of an instruction."""
    trial = Trial()
    may, kinds = _may_be_registers(one), row_of(one).sources
    sources = tuple(
        source
        if isinstance(source, int) and not (loaded and may[index])
        else trial.given(np.broadcast_to(time.sources[index], (1, LANES))[0], kinds[index])
        for index, source in enumerate(one.sources)
    )
    names = [f"{name[0]}{50 + index}" for index, name in enumerate(one.destinations)]
    guard = ""
    if guarded:
        # What it does not write must not look like what it writes, nor like what any conversion of
        # that leaves as it is.
        names = [
            trial.given(
                ~held[0] if kind == "pred" else held[0] ^ held.dtype.type(_MIXED & most_of(kind)),
                kind,
            )
            for held, kind in zip(time.results, row_of(one).destinations, strict=False)
        ]
        guard = "!" * one.guard.startswith("!") + trial.given(_ODD, "pred")
    # NaNs whose bits PTX leaves open are no fault.
    trial.code += settled(replace(one, destinations=tuple(names), sources=sources, guard=guard))
    for name in names:
        trial.seen(name)
    return trial


def _drawn(row: ScalarInstruction, guard: str = "") -> list[Trial]:
    random = np.random.default_rng(0)
    sources = tuple(
        at.low if (at := row.immediates.get(index)) and at.required else f"{_LETTERS[kind]}0"
        for index, kind in enumerate(row.sources)
    )
    names = tuple(f"{_LETTERS[kind]}0" for kind in row.destinations)
    one = Assign(opcode=row.opcode, destinations=names, sources=sources, guard=guard)
    trials = []
    for small in (False, True):
        kinds = (*row.sources, *(row.destinations if guard else ()))
        drawn = [random.integers(0, 64 if small else 1 << 62, (1, LANES)) for _ in kinds]
        held = [
            each % 2 == 1 if kind == "pred" else each.astype(CLASSES[kind])
            for each, kind in zip(drawn, kinds, strict=True)
        ]
        split = len(row.sources)
        time = Taken(one, held[:split], tuple(held[split:]), _ODD, _ODD)
        trials.append(_instruction(one, time, guarded=bool(guard)))
    return trials


def _may_be_registers(one: Assign) -> list[bool]:
    """Return of each source whether it may be a register: not a constant that is required."""
    at = row_of(one).immediates
    return [
        kind != "pred" and not (index in at and at[index].required)
        for index, kind in enumerate(row_of(one).sources)
    ]
