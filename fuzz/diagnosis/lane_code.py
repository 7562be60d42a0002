"""Finds the wrong scalar instructions by experiment: each alone, or the code without it.

Code of lanes that comes out wrong is taken apart. Each instruction is tried alone, given what it
met; then each with its predicate, and each loop and branch with nothing but a count inside. What is
wrong so gives the name, whatever else the code has.

Where all of them are right alone, only some together are wrong. Of code that was made smaller, each
instruction is tried away then: in its place stands what it gave, loaded from memory. Where code is
as wrong with that, the instruction has no part in it. What code needs beside instructions is the
condition: a predicate, branch or loop if code that takes everything in a row is right, constants if
it is right where a compiler does not know them, and registers that are written again if it is right
where they have other names then.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import numpy as np

from fuzz.diagnosis.experiments import CODE, Culprit, ExperimentDevice, Witness
from fuzz.diagnosis.lane_rewrites import (
    BRANCH,
    ENTERED,
    LEFT,
    LOOP,
    PREDICATE,
    Code,
    controls,
    given_instead,
    hidden,
    inputs,
    rewritten,
)
from fuzz.diagnosis.lane_trials import (
    LANE_NUMBERS,
    ODD,
    Trial,
    assign,
    drawn_alone,
    each_wrong,
    first_wrong,
    instruction_alone,
    may_be_registers,
    predicate_like,
    wrong_images,
)
from oracle.errors import UsageError
from oracle.execution.tracing import Trace
from oracle.isa.forms import LANES
from oracle.program.lane_code import (
    LANE,
    ZERO,
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Taken,
    every,
    taken,
)
from oracle.program.program import Program, walk
from oracle.program.steps import accesses_rows, is_lane_code
from oracle.scalar import SCALARS, ScalarInstruction
from strategies.simplification.examples import Example
from strategies.simplification.lane_code import alone, smaller_code

_Key = TypeVar("_Key", bound=Hashable)
_MOST_NAMED = 4
"""Instructions that a name lists."""
_SMALL = 24
"""Statements of code that was made smaller, at most."""
_MOST_TRIED = 64
"""Instructions that are tried: code that was made smaller has a few."""
_MOST_TIMES = 16
"""Contents of one instruction that are tried: what it met first."""
_MOST_ALIKE = 24
"""Instructions of one first word that are tried: setp and cvt have hundreds."""
_CONSTANTS = "with constants"
_AGAIN = "with a register that is written again"
_ALL_LANES = "an instruction of all lanes"
_ORDER = re.compile(r"^(setp?)\.[a-z]+(\.(and|or|xor))?(?=\.)")
"""A comparison's order, and how a predicate is combined with it: neither is part of a name."""
_PLAIN = re.compile(r"(mov|add|sub|and|or|xor)\.[bsu]\d+")
"""What most code has: what else there is tells more."""
_HELPERS = "cvt.u16.u32", "cvt.u32.u16", "mov.b64.pack", "mov.b64.unpack"
"""What brings registers that have not 32 bits in and out of a trial."""
_NOTHING = np.zeros((LANES, 0), np.uint32)


def wrong_code(device: ExperimentDevice, traced: Trace) -> Culprit | None:
    """Find out which instructions of code of lanes are wrong together.

    None where no code is wrong by itself.
    """
    examples = (
        alone(event.step, event.inputs.get("source", _NOTHING))
        for event in traced.events
        if is_lane_code(event.step)
    )
    return next(filter(None, (_wrong_alone(device, one) for one in examples)), None)


def wrong_addresses(device: ExperimentDevice, program: Program) -> Culprit | None:
    """Find out what is wrong of the code that computes addresses of rows; None if none is alone."""
    examples = (
        alone(step.memory.code, _NOTHING)
        for step in walk(program.steps)
        if accesses_rows(step) and step.memory.computed
    )
    return next(filter(None, (_wrong_alone(device, one) for one in examples)), None)


def refused_code(
    program: Program, refuses: Callable[[Program], bool], seconds: float
) -> Culprit | None:
    """Find scalar code of a program that a compiler does not survive by itself.

    None where no code is enough. It is an instruction, with others of its first word of which that
    is true as well; or all that is left of the code where nothing can be left out. `refuses` tells
    of a program what the compiler does; after so many seconds what was reached is returned.
    """
    end = time.monotonic() + seconds

    def refused(rows: Sequence[ScalarInstruction]) -> list[ScalarInstruction]:
        """Return which instructions are refused with nothing around them."""
        bare = [(row, drawn_alone(row)[0].example()) for row in rows]
        return [
            row for row, one in bare
            if one is not None and time.monotonic() < end and refuses(one.program)
        ]  # fmt: skip

    def shown(example: Example) -> Witness:
        return Witness(program=example.program, images=np.zeros_like(example.image)[None])

    for step in walk(program.steps):
        code = step if is_lane_code(step) else None
        if accesses_rows(step) and step.memory.computed:
            code = step.memory.code
        if code is None or not refuses((example := alone(code, _NOTHING)).program):
            continue
        rows = dict.fromkeys(one.row for one in every(code.code) if isinstance(one, Assign))
        # What brings registers in and out of a trial may be what is refused.
        for row in sorted(rows, key=lambda one: one.opcode not in _HELPERS):
            if refused([row]) and (bare := drawn_alone(row)[0].example()) is not None:
                others = [one for one in SCALARS.values() if one.family == row.family]
                return Culprit(instructions=_names_of(row, others, refused), witness=shown(bare))
        while time.monotonic() < end:
            smaller = (one for one in smaller_code(example) if time.monotonic() < end)
            found = next((one for one in smaller if refuses(one.program)), None)
            if found is None:
                break
            example = found
        (left,) = filter(is_lane_code, example.program.steps)
        computing = [one for one in every(left.code) if isinstance(one, Assign)]
        return replace(_named(computing, [*controls(left.code)]), witness=shown(example))
    return None


def _wrong_alone(device: ExperimentDevice, example: Example) -> Culprit | None:
    if device.right(example.program, example.image):
        return None
    (step,) = filter(is_lane_code, example.program.steps)
    there = list(islice(taken(step, inputs(example)[None]), _MOST_TRIED))
    found = _wrong_part(device, step, there)
    if found is not None:
        return found
    shown = Witness(program=example.program, images=example.image[None])
    if sum(1 for _ in every(step.code)) > _SMALL:
        return Culprit(instructions=(CODE,), witness=shown, together=True)
    without = controls(step.code)
    tried = {(name, 0): code for name, code in without.items()}
    tried |= {(_CONSTANTS, 0): hidden(step.code)}
    tried |= {(_AGAIN, n): code for n, code in enumerate(islice(rewritten(step), _MOST_TIMES))}
    wrong = _wrong_of(device, _written(example, step, tried))
    under = [name for name in without if not wrong.get((name, 0))]
    more = {name for (name, _), one in wrong.items() if not one and name not in without}
    given = {
        index: other
        for index, (one, times) in enumerate(there)
        if len(times) == 1 and (other := given_instead(example, step, one, times[0])) is not None
    }
    as_wrong = _wrong_of(device, given)
    # Of what is executed again and again no experiment tells whether it is needed. If code is right
    # without its loops, it is, but for what most code has.
    looped = any(LOOP in one for one in under)
    needed = [
        one
        for index, (one, times) in enumerate(there)
        if not as_wrong.get(
            index, len(times) == 1 or not looped or _PLAIN.fullmatch(one.opcode) is not None
        )
        # What is executed although its predicate says no may be anything.
        and not (one.guard and PREDICATE in under)
    ]
    conditions = [name for name in (_CONSTANTS, _AGAIN) if name in more]
    return replace(_named(needed, under, *conditions), witness=shown)


def _written(
    example: Example, step: LaneCode, codes: Mapping[_Key, Code]
) -> Iterator[tuple[_Key, Example]]:
    """Iterate over examples with other code, as far as there can be such code."""
    for key, code in codes.items():
        try:
            made = replace(step, code=code)
            steps = [made if one is step else one for one in example.program.steps]
            other = example.with_program(example.program.buffers, steps)
        except UsageError:
            continue
        if code != step.code:
            yield key, other


def _wrong_of(
    device: ExperimentDevice, examples: Mapping[_Key, Example] | Iterator[tuple[_Key, Example]]
) -> dict[_Key, bool]:
    """Return which of some examples are wrong, as far as they can be asked."""
    tried = dict(examples)
    found = device.results_of([(one.program, one.image[None]) for one in tried.values()])
    return {
        key: bool(results.wrong[0])
        for key, results in zip(tried, found, strict=True)
        if results is not None
    }


def _wrong_part(
    device: ExperimentDevice, step: LaneCode, there: Sequence[tuple[Assign, list[Taken]]]
) -> Culprit | None:
    """Find an instruction, a predicate, a loop or a branch that is wrong by itself."""
    met: dict[tuple[object, ...], tuple[Assign, list[Taken]]] = {}
    for one, times in there:
        if not one.row.carry_in:
            constants = tuple(each for each in one.sources if isinstance(each, int))
            key = one.opcode, one.guard[:1], constants
            met.setdefault(key, (one, []))[1].extend(times[:_MOST_TIMES])
    for guarded in (False, True):
        found = first_wrong(
            device,
            (
                ((one, times), [instruction_alone(one, time, guarded=guarded) for time in times])
                for one, times in met.values()
                if one.guard or not guarded
            ),
        )
        if found is not None:
            (one, times), witness = found
            return replace(_wrong_instruction(device, one, times, guarded), witness=witness)
    part = first_wrong(device, ((name, [trial]) for name, trial in _skeletons(step.code)))
    return None if part is None else Culprit(instructions=(part[0],), witness=part[1])


def _wrong_instruction(
    device: ExperimentDevice, one: Assign, times: Sequence[Taken], guarded: bool
) -> Culprit:
    """Name an instruction that is wrong alone, and what it needs for that."""
    if guarded:
        plain = assign("and.b32", "r0", "r0", "r0", guard=one.guard)
        given, odd = LANE_NUMBERS[None], ODD[None]
        same = Taken(plain, [given] * 2, (given,), odd, odd)
        if wrong_images(device, [instruction_alone(plain, same, guarded=True)]) is not None:
            return Culprit(instructions=(PREDICATE,))
    known = zip(one.sources, may_be_registers(one), strict=True)
    loaded = [instruction_alone(one, time, guarded=guarded, loaded=True) for time in times]
    constant = (
        any(isinstance(each, int) and may for each, may in known)
        and wrong_images(device, loaded) is None
    )
    conditions = [f"under {PREDICATE}"] * guarded + [_CONSTANTS] * constant
    names = _all_alike(device, one.row, one.guard if guarded else "")
    return Culprit(instructions=names, condition=", ".join(conditions))


def _skeletons(code: Code) -> Iterator[tuple[str, Trial]]:
    """Iterate over the loops and branches of code, each with nothing but a count inside."""
    start, turn, more = (
        assign("add.s32", "r50", source, number)
        for source, number in ((ZERO, 0), ("r50", 1), ("r50", 16))
    )

    def around(trial: Trial, control: If | Repeat) -> Trial:
        trial.code += [start, control]
        trial.seen("r50")
        return trial

    for one in dict.fromkeys(every(code)):
        trial = Trial()
        if isinstance(one, If):
            odd = predicate_like(one.predicate, trial.given(ODD, "pred"))
            branch = replace(one, predicate=odd, then=(turn,), otherwise=(more,))
            yield BRANCH, around(trial, branch)
        elif isinstance(one, Repeat):
            leaves = [each for each in one.body if isinstance(each, Leave)]
            kinds: list[Leave | str] = ["", *leaves[:1], *filter(None, [one.entry])]
            for kind in kinds:
                trial, name = Trial(), LOOP
                numbered = isinstance(one.count, str) and one.count != LANE
                count = trial.given(LANE_NUMBERS, "b32") if numbered else one.count
                loop = replace(one, count=count, counter="r51", entry="", skipped=0, body=(turn,))
                if isinstance(kind, Leave):
                    name += LEFT
                    until = trial.given(LANE_NUMBERS % 5, "b32")
                    asked = assign("setp.eq.u32", "p50", "r51", until)
                    leave = replace(kind, predicate="p50")
                    loop = replace(loop, body=(turn, asked, leave, more))
                elif kind:
                    name += ENTERED
                    entry = predicate_like(kind, trial.given(ODD, "pred"))
                    loop = replace(loop, entry=entry, skipped=1, body=(turn, more))
                yield name, around(trial, loop)


def _all_alike(device: ExperimentDevice, row: ScalarInstruction, guard: str) -> tuple[str, ...]:
    """Return what is wrong beside an instruction: others of its first word, found out once.

    If what the trial needs beside the instruction is wrong, that. `guard` is a predicate like that
    with which it is wrong.
    """
    known, key = device.remembered.alike, (row.opcode, guard[:1], device.module)
    if key not in known:
        helpers = _HELPERS if {*row.destinations, *row.sources} - {"b32"} else ()
        for opcode in (*helpers, *filter(None, [row.settled_by])):
            if opcode != row.opcode and wrong_images(device, drawn_alone(SCALARS[opcode])):
                return known.setdefault(key, (opcode,))
        others = [
            one for one in SCALARS.values()
            if one.family == row.family and one.exists(device.module)
            and not (one.carry_in or one.defined) and (one.settled_by or not one.nan)
        ]  # fmt: skip

        def wrong(tried: Sequence[ScalarInstruction]) -> list[ScalarInstruction]:
            there = each_wrong(device, [drawn_alone(one, guard) for one in tried])
            return [one for one, found in zip(tried, there, strict=True) if found is not None]

        known[key] = _names_of(row, others, wrong)
    return known[key]


def _names_of(
    row: ScalarInstruction,
    others: Sequence[ScalarInstruction],
    wrong_of: Callable[[Sequence[ScalarInstruction]], Collection[ScalarInstruction]],
) -> tuple[str, ...]:
    """Name an instruction together with those of its first word that are as wrong.

    By the words that the wrong ones have in common and no right one has, in the same place from
    the end: "set.*.f32.*"; one by one if there are few and no words tell them.
    """
    # Always the same ones, whichever was met: one cause is one name.
    some = others[:: -(-len(others) // _MOST_ALIKE) or 1]
    tried = [*dict.fromkeys((*some, row))]
    wrong = wrong_of(tried)
    if row not in wrong or len(wrong) == 1:
        return (_ORDER.sub(r"\1.*", row.opcode),)
    if len(wrong) <= _MOST_NAMED and len(others) <= _MOST_ALIKE:
        return tuple(one.opcode for one in wrong)

    def words(one: ScalarInstruction) -> set[tuple[int, str]]:
        """Return the words of an opcode behind the first, each with its place from the end."""
        return set(enumerate(reversed(one.opcode.split(".")[1:])))

    common = set.intersection(*map(words, wrong))
    right = [words(one) for one in tried if one not in wrong]
    told = dict(word for word in common if any(word not in one for one in right))
    if not told or any(told.items() <= one for one in right):
        return (row.family,)
    named = [told.get(place, "*") for place in range(max(told), -1, -1)]
    return (".".join([row.family, "*", *named]),)


def _named(needed: Sequence[Assign], under: Sequence[str], *more: str) -> Culprit:
    """Return what is wrong together: instructions under a condition, or branches and loops.

    Each instruction stands behind those whose results it reads, else by their names: a compiler
    joins what depends on nothing in any order, and the names of one cause must not differ.
    """
    read = {source for one in needed for source in one.sources}
    left, names = list[tuple[Assign, str]](), list[str]()
    for one in needed:
        # What nobody reads does no more than stand between the others.
        unread = one.row.warp and read.isdisjoint(one.destinations)
        left.append((one, _ALL_LANES if unread else _ORDER.sub(r"\1.*", one.opcode)))
    while left:
        free = [
            (one, name)
            for index, (one, name) in enumerate(left)
            if all({*one.sources}.isdisjoint(other.destinations) for other, _ in left[:index])
        ]
        first = min(free, key=lambda each: each[1])
        left.remove(first)
        names.append(first[1])
    told = sorted(dict.fromkeys(names), key=lambda name: _PLAIN.fullmatch(name) is not None)
    around = [f"{'under' if one == PREDICATE else 'in'} {one}" for one in under]
    condition = ", ".join([*(around if told else ()), *more])
    return Culprit(
        instructions=tuple(told[:_MOST_NAMED]) or (*under,) or (CODE,),
        condition=condition,
        together=True,
    )
