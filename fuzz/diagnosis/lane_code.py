"""Finds the wrong scalar instructions by experiment: each alone, or the code without it.

Code of lanes that comes out wrong is taken apart. Each instruction is tried alone, given what it
met; then each with its predicate, and each loop and branch with nothing but a count inside. What is
wrong so gives the name, whatever else the code has.

Where all of them are right alone, only some together are wrong. Of code that was made smaller, each
instruction is tried away then: in its place stands what it gave, loaded from memory. Where that
makes the code right, it belongs to what is wrong. So do predicates, branches and loops, if code
that takes everything in a row is right.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import Culprit, ExperimentDevice, Witness
from fuzz.diagnosis.lane_trials import (
    AT_ONCE,
    GIVES,
    LANE_NUMBERS,
    LETTERS,
    ODD,
    Trial,
    assign,
    brought_out,
    drawn_alone,
    drawn_numbers,
    each_wrong,
    first_wrong,
    instruction_alone,
    predicate_like,
    words_of,
    wrong_images,
)
from fuzz.diagnosis.single_step import CODE
from oracle.errors import UsageError
from oracle.lane_code import (
    LANE,
    ZERO,
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Statement,
    Taken,
    class_of,
    every,
    inside,
    read_by,
    taken,
    with_another,
    written_by,
)
from oracle.matrices import LANES
from oracle.ops import accesses_rows
from oracle.program import Program, walk
from oracle.registers import MOST_LISTED
from oracle.scalar import SCALARS, ScalarInstruction
from oracle.steps import is_lane_code
from oracle.tracing import Trace
from strategies.programs.scalar_rows import settled
from strategies.simplification.examples import Example
from strategies.simplification.lane_code import Path, alone, changed, places, smaller_code

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
_PREDICATE, _LOOP, _BRANCH = "a predicate", "a loop of lanes", "a branch of lanes"
_ALL_LANES = "an instruction of all lanes"
_SET_ANEW = "a branch of lanes on a predicate that a loop in it sets anew"
_COPY = "a copy of a predicate that is set anew"
_TOLD = "halves of a constant that a branch tells"
_REPEATED = "setp.*.ftz.f32 and a comparison of what it does not flush"
_TWICE, _THRICE = "{} of one register twice", "lop3 of one constant thrice"
_LEFT, _ENTERED = " that lanes leave", " entered within its body"
ENTERED = f"{_LOOP}{_ENTERED}"
"""What a loop is called that some lanes enter behind its first statements."""
_COUNTED = f"{ENTERED} that counts to a constant"
APART = f"a loop of all lanes and {ENTERED}"
"""Lanes that such a loop leaves apart count the turns of a loop around it together."""
_ORDER = re.compile(r"^(setp?)\.[a-z]+(\.(and|or|xor))?(?=\.)")
"""A comparison's order, and how a predicate is combined with it."""
_DIFFERS = "setp.ne.s32", "setp.ne.u32", "setp.ne.b32"
"""Comparisons whose registers equal a constant where a branch says that they are false."""
_FLUSHING = re.compile(r"setp\.[a-z]+(\.(and|or|xor))?\.ftz\.f32")
"""A comparison that takes subnormals for 0."""
_COMPUTING = {"add", "sub", "mul", "fma", "min", "max", "abs", "neg", "copysign"}
"""Instructions whose results are numbers of the format of their sources."""
_QUALIFIERS = "sat", "relu", "ftz"
"""What changes results, those first that change more of them."""
_HELPERS = "cvt.u16.u32", "cvt.u32.u16", "mov.b64.pack", "mov.b64.unpack"
"""What brings registers that have not 32 bits in and out of a trial."""
_KEPT = 500
"""Number of the first register that holds what an instruction gave: code has fewer."""


def wrong_code(device: ExperimentDevice, traced: Trace) -> Culprit | None:
    """Find out which instructions of code of lanes are wrong together.

    None where no code is wrong by itself.
    """
    for event in traced.events:
        if is_lane_code(event.step):
            inputs = event.inputs.get("source", np.zeros((LANES, 0), np.uint32))
            found = _wrong_alone(device, alone(event.step, inputs))
            if found is not None:
                return found
    return None


def wrong_addresses(device: ExperimentDevice, program: Program) -> Culprit | None:
    """Find out what is wrong of the code that computes addresses of rows; None if none is alone."""
    for step in walk(program.steps):
        if accesses_rows(step) and step.memory.computed:
            nothing = np.zeros((LANES, 0), np.uint32)
            found = _wrong_alone(device, alone(step.memory.code, nothing))
            if found is not None:
                return found
    return None


def refused_code(
    program: Program, refuses: Callable[[Program], bool], seconds: float
) -> tuple[str, Program] | None:
    """Find scalar code of a program that a compiler does not survive by itself.

    Returns its name and a program of it; None where no code is enough. The name is an instruction,
    with others of its first word of which that is true as well; or all that is left of the code
    where nothing can be left out. `refuses` tells of a program what the compiler does; after so
    many seconds what was reached is returned.
    """
    end = time.monotonic() + seconds
    nothing = np.zeros((LANES, 0), np.uint32)
    for step in walk(program.steps):
        code = step if is_lane_code(step) else None
        if accesses_rows(step) and step.memory.computed:
            code = step.memory.code
        if code is None or not refuses((example := alone(code, nothing)).program):
            continue
        rows = dict.fromkeys(one.row for one in every(code.code) if isinstance(one, Assign))
        # What brings registers in and out of a trial may be what is refused.
        for row in sorted(rows, key=lambda one: one.opcode not in _HELPERS):
            if time.monotonic() < end and (trial := _bare(row)) is not None and refuses(trial):
                return _refused_alike(row, refuses, end), trial
        while time.monotonic() < end:
            smaller = (one for one in smaller_code(example) if time.monotonic() < end)
            found = next((one for one in smaller if refuses(one.program)), None)
            if found is None:
                break
            example = found
        (left,) = (one for one in example.program.steps if is_lane_code(one))
        return _everything_of(left.code), example.program
    return None


def _bare(row: ScalarInstruction) -> Program | None:
    """Return a program of nothing but an instruction; None if there is none."""
    example = drawn_alone(row)[0].example()
    return None if example is None else example.program


def _refused_alike(row: ScalarInstruction, refuses: Callable[[Program], bool], end: float) -> str:
    """Name an instruction and others of its first word that are refused, too."""
    others = [one for one in SCALARS.values() if one.family == row.family and one is not row]
    if len(others) >= _MOST_ALIKE:
        return _any_order(row.opcode)
    found = [row]
    for one in others:
        trial = _bare(one) if time.monotonic() < end else None
        found += [one] * (trial is not None and refuses(trial))
    if len(found) > _MOST_NAMED:
        return row.family
    return " or ".join(one.opcode for one in SCALARS.values() if one in found)


def _everything_of(code: tuple[Statement, ...]) -> str:
    """Name code by all that it has."""
    there = [*every(code)]
    computing = [one for one in there if isinstance(one, Assign)]
    controls = [_PREDICATE] * any(one.guard for one in computing)
    controls += [_BRANCH] * any(isinstance(one, If) for one in there)
    controls += [_called(*there)] * any(isinstance(one, Repeat) for one in there)
    names = [*dict.fromkeys(_in_one_order(computing)), *controls]
    return " and ".join(names if len(names) <= _MOST_NAMED else controls or [CODE])


def _wrong_alone(device: ExperimentDevice, example: Example) -> Culprit | None:
    if device.right(example.program, example.image):
        return None
    (step,) = (one for one in example.program.steps if is_lane_code(one))
    there = list(islice(taken(step, _inputs(example)[None]), _MOST_TRIED))
    found = _wrong_part(device, step, there)
    if found is not None:
        return found
    names = [CODE]
    if sum(1 for _ in every(step.code)) <= _SMALL:
        needed = _needed(device, example, step, there)
        controls = _needed_controls(device, example, step)
        if not controls and (pair := _pair(device, example, step, needed)) is not None:
            return pair
        if (
            controls
            and controls[-1].startswith(_LOOP)
            and ((_BRANCH in controls and _sets_anew(step.code)) or _sets_anew_what_left(step.code))
        ):
            return Culprit(steps=(_SET_ANEW,), witness=_shown(example), together=True)
        if _right_if_renamed(device, example, step):
            return Culprit(steps=(_COPY,), witness=_shown(example), together=True)
        if _right_if_told(device, example, step):
            return Culprit(steps=(_TOLD,), witness=_shown(example), together=True)
        if _right_unless_flushed(device, example, step):
            return Culprit(steps=(_REPEATED,), witness=_shown(example), together=True)
        if _right_if_counts_are_loaded(device, example, step):
            return Culprit(steps=(_COUNTED,), witness=_shown(example), together=True)
        if _right_if_counts_are_loaded(device, example, step, around=True):
            return Culprit(steps=(APART,), witness=_shown(example), together=True)
        # What is executed although its predicate says no may be anything.
        named = [one for one in needed if not one.guard or _PREDICATE not in controls]
        orders = dict.fromkeys(_in_one_order(named))
        some = [*orders, *controls] or [*step.opcodes]
        names = some if len(some) <= _MOST_NAMED else controls or names
    return Culprit(steps=(" and ".join(names),), witness=_shown(example), together=True)


def _shown(example: Example) -> Witness:
    return Witness(program=example.program, images=example.image[None])


def _inputs(example: Example) -> NDArray[np.uint32]:
    """Return what code alone reads, uint32 (32, words)."""
    load = next((one for one in example.program.steps if one.bytes_read), None)
    size = sum(span.run for span in load.bytes_read) if load is not None else 0
    return example.image[:size].view("<u4").reshape(LANES, -1)


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
    found = first_wrong(
        device,
        (
            (one.row, [instruction_alone(one, time) for time in times])
            for one, times in met.values()
        ),
    )
    if found is not None:
        row, witness = found
        return Culprit(steps=_all_alike(device, row), witness=witness)
    guarded = first_wrong(
        device,
        (
            (one, [instruction_alone(one, time, one.guard) for time in times])
            for one, times in met.values()
            if one.guard
        ),
    )
    if guarded is not None:
        one, witness = guarded
        plain = assign("and.b32", "r0", "r0", "r0", guard=one.guard)
        same = Taken([LANE_NUMBERS[None]] * 2, (LANE_NUMBERS[None],), ODD[None])
        if wrong_images(device, [instruction_alone(plain, same, one.guard)]) is not None:
            return Culprit(steps=(_PREDICATE,), witness=witness)
        names = " or ".join(_all_alike(device, one.row, one.guard))
        return Culprit(steps=(f"{names} and {_PREDICATE}",), witness=witness)
    part = first_wrong(device, ((name, [trial]) for name, trial in _skeletons(step.code)))
    return None if part is None else Culprit(steps=(part[0],), witness=part[1])


def _all_alike(
    device: ExperimentDevice, row: ScalarInstruction, guard: str = ""
) -> tuple[str, ...]:
    """Return what `_found_alike` does, found out once."""
    known, key = device.remembered.alike, (row.opcode, guard[:1], device.module)
    if key not in known:
        known[key] = _found_alike(device, row, guard)
    return known[key]


def _found_alike(device: ExperimentDevice, row: ScalarInstruction, guard: str) -> tuple[str, ...]:
    """Return what is wrong beside an instruction: others of its first word, or that, if many are.

    Where all that are wrong give one type, and others another one, that is "set.*.f32.*". If what
    the trial needs beside the instruction is wrong, that. `guard` is a predicate like that with
    which it is wrong.
    """
    helpers = _HELPERS if {*row.destinations, *row.sources} - {"b32"} else ()
    for opcode in (*helpers, *filter(None, [row.settled_by])):
        if opcode != row.opcode and wrong_images(device, drawn_alone(SCALARS[opcode])):
            return (opcode,)
    others = [
        one for one in SCALARS.values()
        if one.family == row.family and one.exists(device.module)
        and not (one.carry_in or one.defined) and (one.settled_by or not one.nan)
    ]  # fmt: skip
    if len(others) > _MOST_ALIKE and not guard:
        return (_any_order(row.opcode),)
    # Always the same ones, whichever was met: one cause is one name.
    some = others[:: -(-len(others) // _MOST_ALIKE) or 1]
    tried = [*dict.fromkeys((*some, row))]
    there = each_wrong(device, [drawn_alone(one, guard) for one in tried])
    wrong = [one for one, found in zip(tried, there, strict=True) if found is not None]
    if row not in wrong or wrong == [row]:
        return (row.opcode,)
    if len(others) > _MOST_ALIKE:
        (type_, *more) = {one.opcode.split(".")[-2] for one in wrong}
        every_type = more or all(one.opcode.split(".")[-2] == type_ for one in tried)
        return (row.family if every_type else f"{row.family}.*.{type_}.*",)
    if len(wrong) > _MOST_NAMED:
        return (row.family,)
    return tuple(one.opcode for one in wrong)


def _skeletons(code: tuple[Statement, ...]) -> Iterator[tuple[str, Trial]]:
    """Iterate over the loops and branches of code, each with nothing but a count inside."""
    start, turn, more = (
        assign("add.s32", "r50", ZERO, 0), assign("add.s32", "r50", "r50", 1),
        assign("add.s32", "r50", "r50", 16),
    )  # fmt: skip
    for one in dict.fromkeys(every(code)):
        if isinstance(one, If):
            trial = Trial()
            odd = predicate_like(one.predicate, trial.given(ODD, "pred"))
            branch = replace(one, predicate=odd, then=(turn,), otherwise=(more,))
            trial.code += [start, branch]
            trial.seen("r50")
            yield _BRANCH, trial
        elif isinstance(one, Repeat):
            leaves = [each for each in one.body if isinstance(each, Leave)]
            kinds: list[Leave | str] = ["", *leaves[:1]]
            for kind in [*kinds, one.entry] if one.entry else kinds:
                trial, name = Trial(), _LOOP
                numbered = isinstance(one.count, str) and one.count != LANE
                count = trial.given(LANE_NUMBERS, "b32") if numbered else one.count
                loop = replace(one, count=count, counter="r51", entry="", skipped=0, body=(turn,))
                if isinstance(kind, Leave):
                    name += _LEFT
                    asked = assign(
                        "setp.eq.u32", "p50", "r51", trial.given(LANE_NUMBERS % 5, "b32")
                    )
                    leave = replace(kind, predicate="p50")
                    loop = replace(loop, body=(turn, asked, leave, more))
                elif kind:
                    name += _ENTERED
                    entry = predicate_like(kind, trial.given(ODD, "pred"))
                    loop = replace(loop, entry=entry, skipped=1, body=(turn, more))
                trial.code += [start, loop]
                trial.seen("r50")
                yield name, trial


def _needed(
    device: ExperimentDevice,
    example: Example,
    step: LaneCode,
    there: Sequence[tuple[Assign, list[Taken]]],
) -> list[Assign]:
    """Return the instructions without which code is right: what they gave is loaded instead."""
    tried = [
        (one, other)
        for one, times in there
        if len(times) == 1 and (other := _given_instead(example, step, one, times[0])) is not None
    ]
    found = device.results_of([(other.program, other.image[None]) for _, other in tried])
    return [
        one
        for (one, _), results in zip(tried, found, strict=True)
        if results is not None and not results.wrong[0]
    ]


def _pair(
    device: ExperimentDevice, example: Example, step: LaneCode, needed: Sequence[Assign]
) -> Culprit | None:
    """Name what is wrong of two instructions, of which one reads what the other computes.

    If most others of the first one's format are as wrong in its place, or most with its qualifiers,
    it is named after that: "shl.b64 of a result of f32". Others that read as much are tried in the
    place of the second.
    """
    if len(needed) != 2 or not {*needed[0].destinations} & {*needed[1].sources}:
        return None
    first, second = needed
    again = partial(_still_wrong, device, example, step)
    drawn = partial(_wrong_on_drawn, device, first, second)
    own = sorted(_qualifiers(first.row), key=_QUALIFIERS.index)
    for qualifiers in ({*()}, *({one} for one in own)):
        makers = [
            one for one in SCALARS.values()
            if (one.numbers, one.sources, one.destinations)
            == (first.row.numbers, first.row.sources, first.row.destinations)
            and first.row.numbers and one.family in _COMPUTING and one.exists(device.module)
            and (qualifiers <= _qualifiers(one) if qualifiers else not _qualifiers(one))
        ]  # fmt: skip
        some = makers[:: -(-len(makers) // AT_ONCE) or 1]
        # Few may be wrong on the one image that shows these two.
        if not any(some and 2 * len(wrong(first, some)) >= len(some) for wrong in (again, drawn)):
            continue
        readers = [
            one for one in SCALARS.values()
            if (one.sources, one.destinations) == (second.row.sources, second.row.destinations)
            and not one.warp and one.exists(device.module)
        ]  # fmt: skip
        if len(readers) > _MOST_ALIKE:
            readers = [one for one in readers if one.family == second.row.family]
        some = readers[:: -(-len(readers) // _MOST_ALIKE) or 1]
        some = [*dict.fromkeys((*some, second.row))]
        read = {one.opcode for wrong in (again, drawn) for one in wrong(second, some)}
        names = [one.opcode for one in some if one.opcode in read]
        if len(names) > _MOST_NAMED:
            names = [second.row.family]
        within = f"a result of {''.join(f'{one}.' for one in qualifiers)}{first.row.numbers}"
        return Culprit(steps=tuple(names), within=within, witness=_shown(example), together=True)
    return None


def _qualifiers(row: ScalarInstruction) -> set[str]:
    """Return what changes results of an instruction: {"ftz", "sat"}."""
    return {*row.opcode.split(".")} & {*_QUALIFIERS}


def _still_wrong(
    device: ExperimentDevice,
    example: Example,
    step: LaneCode,
    one: Assign,
    rows: Sequence[ScalarInstruction],
) -> list[ScalarInstruction]:
    """Return which instructions are wrong in the place of one."""
    (path,) = (path for path, other in places(step.code) if other is one)
    tried: list[tuple[ScalarInstruction, Example]] = []
    for row in rows:
        with suppress(UsageError):
            code = changed(step.code, {path: (replace(one, opcode=row.opcode),)})
            tried.append((row, _with_code(example, step, code)))
    found = device.results_of([(other.program, other.image[None]) for _, other in tried])
    return [
        row
        for (row, _), results in zip(tried, found, strict=True)
        if results is not None and results.ran[0] and results.wrong[0]
    ]


def _wrong_on_drawn(
    device: ExperimentDevice,
    first: Assign,
    second: Assign,
    one: Assign,
    rows: Sequence[ScalarInstruction],
) -> list[ScalarInstruction]:
    """Return which instructions are wrong in the place of one of two, on drawn numbers."""
    tried = []
    for row in rows:
        maker, reader = (row, second.row) if one is first else (first.row, row)
        tried.append((row, [_drawn_pair(maker, reader, first, second)]))
    there = each_wrong(device, [trials for _, trials in tried])
    return [row for (row, _), witness in zip(tried, there, strict=True) if witness is not None]


def _drawn_pair(
    maker: ScalarInstruction, reader: ScalarInstruction, first: Assign, second: Assign
) -> Trial:
    """Return a trial of an instruction on drawn numbers, and one that reads what that made."""
    trial, random = Trial(), np.random.default_rng(0)
    made = f"{LETTERS[maker.destinations[0]]}50"
    sources = [
        trial.given(drawn_numbers(random, maker.numbers, kind), kind) for kind in maker.sources
    ]
    trial.code.append(Assign(opcode=maker.opcode, destinations=(made,), sources=tuple(sources)))
    others: list[str | int] = []
    for index, (kind, source) in enumerate(zip(reader.sources, second.sources, strict=True)):
        at = reader.immediates.get(index)
        if source in first.destinations:
            others.append(made)
        elif at is not None and at.required:
            others.append(source if isinstance(source, int) else at.low)
        else:
            others.append(trial.given(drawn_numbers(random, "", kind), kind))
    names = tuple(f"{LETTERS[kind]}{51 + index}" for index, kind in enumerate(reader.destinations))
    one = Assign(opcode=reader.opcode, destinations=names, sources=tuple(others))
    trial.code += settled(one)
    for name in names:
        trial.seen(name)
    return trial


def _with_code(example: Example, step: LaneCode, code: tuple[Statement, ...]) -> Example:
    steps = [replace(one, code=code) if one is step else one for one in example.program.steps]
    return example.with_program(example.program.buffers, steps)


def _given_instead(example: Example, step: LaneCode, one: Assign, time: Taken) -> Example | None:
    """Return code with what an instruction gives in its place, loaded from memory."""
    read = set[str]().union(*map(read_by, every(step.code)), step.results)
    used = [name for name in step.inputs if name in read]
    words, parts = _inputs(example).T, step.bits // 32
    columns = [words[parts * int(name[1:]) + part] for name in used for part in range(parts)]
    # What is loaded in its place needs room: of the inputs none stays that nothing reads.
    moved = [
        assign(GIVES[name[0]], name, *(f"r{parts * index + part}" for part in range(parts)))
        for index, name in enumerate(used)
    ]
    first: list[Assign] = []
    here: list[Assign] = []
    seen: list[str] = []
    last: list[Statement] = []
    numbers = iter(range(_KEPT, 1000))
    wide = class_of(step.results[0]) == "b64"
    for source in dict.fromkeys(each for each in one.sources if isinstance(each, str)):
        out = tuple(f"r{next(numbers)}" for _ in range(words_of(source)))
        first += [assign("add.s32", each, ZERO, 0) for each in out]
        settling = f"max.NaN.{one.row.numbers}"
        number = source[0] == "r" and settling in SCALARS
        here += [assign(settling, *out, source, source)] if number else brought_out(source, out)
        if wide:
            seen.append(f"d{next(numbers)}")
            last.append(assign(GIVES["d"], seen[-1], out[0], out[-1]))
        else:
            seen += out
    for name, held in zip(one.destinations, time.results, strict=False):
        pattern = held[0].astype(np.uint64)
        kept = [f"r{next(numbers)}" for _ in range(words_of(name))]
        for part, register in enumerate(kept):
            first.append(assign("mov.b32", register, f"r{len(columns)}"))
            columns.append((pattern >> np.uint64(32 * part)).astype("<u4"))
        given = [*kept, 0] if name[0] == "p" else kept
        here.append(assign(GIVES[name[0]], name, *given, guard=one.guard))
    path = next(path for path, other in places(step.code) if other is one)
    results = [*dict.fromkeys(step.results)]
    if len(results) + len(seen) > MOST_LISTED:
        # There are no more results: it has to be enough that one depends on what is seen.
        *results, into = results
        results.append(f"{into[0]}{next(numbers)}")
        add = "add.s64" if wide else "add.s32"
        for each in seen:
            last.append(assign(add, results[-1], into, each))
            into = results[-1]
        seen = []
    try:
        other = replace(
            step, source="x", count=len(columns), bits=32, results=(*results, *seen),
            code=(*first, *reversed(moved), *changed(step.code, {path: tuple(here)}), *last),
        )  # fmt: skip
    except UsageError:
        return None
    return alone(other, np.stack(columns, axis=-1))


def _in_one_order(statements: Sequence[Assign]) -> list[str]:
    """Return names of statements, each behind those whose results it reads, else by their names.

    A compiler joins what depends on nothing in any order: the names of one cause must not differ.
    """
    read = {source for one in statements for source in one.sources}
    left, made = [(one, _named(one, read)) for one in statements], list[str]()
    while left:
        free = [
            (one, name)
            for index, (one, name) in enumerate(left)
            if all({*one.sources}.isdisjoint(other.destinations) for other, _ in left[:index])
        ]
        first = min(free, key=lambda each: each[1])
        left.remove(first)
        made.append(first[1])
    return made


def _named(one: Assign, read: Collection[str | int]) -> str:
    """Return the name of an instruction among those that are wrong together, which read these."""
    if one.row.warp and {*read}.isdisjoint(one.destinations):
        # What nobody reads does no more than stand between the others.
        return _ALL_LANES
    if one.row.family in ("lop3", "copysign"):  # ptxas makes a LOP3 of both
        sources = one.sources[:3]
        registers = [source for source in sources if isinstance(source, str)]
        if len({*registers}) < len(registers):
            return _TWICE.format(one.row.family)
        if len(sources) == 3 and len({*sources}) == 1:
            return _THRICE
    return _any_order(one.opcode)


def _right_if_counts_are_loaded(
    device: ExperimentDevice, example: Example, step: LaneCode, *, around: bool = False
) -> bool:
    """Whether code is right once loops that lanes enter within their bodies load what they count.

    The count is the same number then, and one that a compiler does not know. `around`: loops around
    such loops load theirs as well.
    """
    read = set[str]().union(*map(read_by, every(step.code)), step.results)
    used = [name for name in step.inputs if name in read]
    loops = [
        (path, one.count)
        for path, one in places(step.code)
        if isinstance(one, Repeat) and isinstance(one.count, int)
        and (one.entry or (around and _entered(every(one.body))))
    ]  # fmt: skip
    if not loops or step.bits != 32:
        return False
    columns = [_inputs(example).T[int(name[1:])] for name in used]
    moved = [assign("mov.b32", name, f"r{index}") for index, name in enumerate(used)]
    code, first = step.code, list[Statement]()
    for number, (path, count) in enumerate(loops, _KEPT):
        first.append(assign("mov.b32", f"r{number}", f"r{len(columns)}"))
        columns.append(np.full(LANES, count, np.uint32))
        loop, mask = dict(places(code))[path], (1 << max(1, count.bit_length())) - 1
        assert isinstance(loop, Repeat)
        code = changed(code, {path: (replace(loop, count=f"r{number}", mask=mask),)})
    try:
        other = replace(
            step, source="x", count=len(columns), code=(*first, *reversed(moved), *code)
        )
    except UsageError:
        return False
    loaded = alone(other, np.stack(columns, axis=-1))
    return device.right(loaded.program, loaded.image)


def _right_if_renamed(device: ExperimentDevice, example: Example, step: LaneCode) -> bool:
    """Whether code is right once a copied predicate that is set anew gets another name then."""
    constants = _constants(step.code)
    copied = set[str]()
    for path, one in places(step.code):
        if not isinstance(one, Assign) or one.guard:
            continue
        copied |= _copied(one, constants)
        for name in copied & {*one.destinations}:
            code = _renamed(step.code, path, name)
            if code is None:
                continue
            with suppress(UsageError):
                other = _with_code(example, step, code)
                if device.right(other.program, other.image):
                    return True
    return False


def _renamed(code: Sequence[Statement], path: Path, name: str) -> tuple[Statement, ...] | None:
    """Return code in which what a statement writes, and all behind it in its block, has a new name.

    None where something else may read what is written there: that would be other code.
    """
    index, *deeper = path
    assert isinstance(index, int)
    one, after = code[index], code[index + 1 :]
    if not deeper:
        assert isinstance(one, Assign)
        new = f"p{_KEPT}"
        written = tuple(new if each == name else each for each in one.destinations)
        return (
            *code[:index],
            replace(one, destinations=written),
            *with_another(after, name, new, written=True),
        )
    field, *inner = deeper
    assert isinstance(field, str)
    block = inside(one)[field]
    if _reads_first(name, after) or (isinstance(one, Repeat) and _reads_first(name, block)):
        return None
    made = _renamed(block, tuple(inner), name)
    if made is None:
        return None
    return (*code[:index], replace(one, **{field: made}), *after)  # type: ignore[arg-type]


def _reads_first(name: str, code: Sequence[Statement]) -> bool:
    """Whether code may read a register before it writes it in all lanes."""
    for one in code:
        if any(name in read_by(each) for each in every((one,))):
            return True
        if isinstance(one, Assign) and name in one.destinations and not one.guard:
            return False
    return False


def _constants(code: Sequence[Statement]) -> set[str]:
    """Return the registers that nothing but a mov of a constant writes."""
    made, others = set[str](), set[str]()
    for one in every(code):
        moves = isinstance(one, Assign) and one.opcode == "mov.b32" and not read_by(one)
        (made if moves else others).update(written_by(one))
    return made - others


def _copied(one: Assign, constants: Collection[str]) -> set[str]:
    """Return the predicate of which an instruction may write a copy."""
    others = [source for source in one.sources if isinstance(source, str)]
    others = [source for source in others if source not in constants]
    compares = one.row.family in ("set", "setp") and len(one.sources) > len(others)
    same = one.opcode in ("and.pred", "or.pred")
    return {*others} if len({*others}) == 1 and (compares or same) else set()


def _right_if_told(device: ExperimentDevice, example: Example, step: LaneCode) -> bool:
    """Whether code is right once constants that branches tell stand in instructions of two halves.

    That is no other code: a register is that number where a comparison says that it is no other.
    """
    code = _told(step.code)
    if code == step.code:
        return False
    try:
        other = _with_code(example, step, code)
    except UsageError:
        return False
    return device.right(other.program, other.image)


def _told(code: Sequence[Statement]) -> tuple[Statement, ...]:
    """Return code with constants in place of registers of which branches tell what they are."""
    differs: dict[str, tuple[str, int]] = {}
    made: list[Statement] = []
    for one in code:
        match one:
            case If():
                pair, no = differs.get(one.predicate.removeprefix("!")), one.predicate[:1] == "!"
                then = _put(one.then, *pair) if pair and no else one.then
                otherwise = one.otherwise if no or not pair else _put(one.otherwise, *pair)
                made.append(replace(one, then=_told(then), otherwise=_told(otherwise)))
            case Repeat():
                made.append(replace(one, body=_told(one.body)))
            case _:
                made.append(one)
        written = {name for inner in every((one,)) for name in written_by(inner)}
        differs = {
            name: pair for name, pair in differs.items() if {name, pair[0]}.isdisjoint(written)
        }
        if isinstance(one, Assign) and one.opcode in _DIFFERS and not one.guard:
            registers = [each for each in one.sources if isinstance(each, str)]
            constants = [each for each in one.sources if isinstance(each, int)]
            if len(registers) == len(constants) == 1:
                differs[one.destinations[0]] = registers[0], constants[0]
    return tuple(made)


def _put(code: tuple[Statement, ...], register: str, constant: int) -> tuple[Statement, ...]:
    """Return code with a constant in place of a register in what computes two halves."""
    made: list[Statement] = []
    for index, one in enumerate(code):
        match one:
            case Assign() if one.opcode.endswith("16x2"):
                sources = (constant if each == register else each for each in one.sources)
                made.append(replace(one, sources=tuple(sources)))
            case If():
                arms = one.then, one.otherwise
                then, otherwise = (_put(arm, register, constant) for arm in arms)
                made.append(replace(one, then=then, otherwise=otherwise))
            case _:
                made.append(one)
        if any(register in written_by(inner) for inner in every((one,))):
            return (*made, *code[index + 1 :])
    return tuple(made)


def _right_unless_flushed(device: ExperimentDevice, example: Example, step: LaneCode) -> bool:
    """Whether code is right once its comparisons with .ftz do not flush.

    That is asked twice: without .ftz, and given nothing to flush. They are right by themselves:
    another comparison is made of the same numbers.
    """
    numbers = iter(range(_KEPT, 1000))
    plain: dict[Path, tuple[Statement, ...]] = {}
    flushed: dict[Path, tuple[Statement, ...]] = {}
    for path, one in places(step.code):
        if not (isinstance(one, Assign) and _FLUSHING.fullmatch(one.opcode)):
            continue
        plain[path] = (replace(one, opcode=one.opcode.replace(".ftz", "")),)
        names: dict[str | int, str | int] = {}
        before: list[Statement] = []
        for source in dict.fromkeys(one.sources[:2]):
            number = next(numbers)
            name, least = f"r{number}", f"p{number}"
            if isinstance(source, int):
                names[source] = source if source & 0x7F80_0000 else source & 0x8000_0000
                continue
            names[source] = name
            before += [
                assign("and.b32", name, source, 0x7F80_0000),
                assign("setp.eq.u32", least, name, 0),
                assign("and.b32", name, source, 0x8000_0000),
                assign("selp.b32", name, name, source, least),
            ]
        sources = tuple(names.get(source, source) for source in one.sources)
        flushed[path] = (*before, replace(one, sources=sources))
    for edits in (plain, flushed):
        try:
            other = _with_code(example, step, changed(step.code, edits))
        except UsageError:
            return False
        if not edits or not device.right(other.program, other.image):
            return False
    return True


def _any_order(opcode: str) -> str:
    """Return the name of a comparison, whatever its order is and it is combined with."""
    return _ORDER.sub(r"\1.*", opcode)


def _needed_controls(device: ExperimentDevice, example: Example, step: LaneCode) -> list[str]:
    """Name the predicates, branches and loops that are left, unless code is wrong without them."""
    names: dict[str, Example | None] = {}
    for name, kind in ((_PREDICATE, Assign), (_BRANCH, If), (_LOOP, Repeat)):
        code = _without(step.code, kind)
        if code == step.code:
            continue
        if kind is Repeat:
            name = _called(*every(step.code))
        try:
            names[name] = _with_code(example, step, code)
        except UsageError:
            names[name] = None
    tried = {name: one for name, one in names.items() if one is not None}
    found = device.results_of([(one.program, one.image[None]) for one in tried.values()])
    for name, results in zip(tried, found, strict=True):
        if results is not None and results.wrong[0]:
            del names[name]
    return [*names]


def _without(code: tuple[Statement, ...], kind: type[Statement]) -> tuple[Statement, ...]:
    """Return code that takes what is under predicates, in branches or in loops once, in a row."""
    made: list[Statement] = []
    for one in code:
        blocks = {field: _without(block, kind) for field, block in inside(one).items()}
        if isinstance(one, Assign):
            made.append(replace(one, guard="") if kind is Assign else one)
        elif isinstance(one, kind):
            if isinstance(one, Repeat):
                made.append(assign("add.s32", one.counter, ZERO, 0))
            made += [each for block in blocks.values() for each in block]
        elif not (kind is Repeat and isinstance(one, Leave)):
            made.append(replace(one, **blocks))  # type: ignore[arg-type]
    return tuple(made)


def _sets_anew(code: tuple[Statement, ...]) -> bool:
    """Whether a loop under a branch sets the predicate that the branch asks about."""
    return any(
        one.predicate.removeprefix("!") in written_by(other)
        for one in every(code)
        if isinstance(one, If)
        for loop in every((*one.then, *one.otherwise))
        if isinstance(loop, Repeat)
        for other in every(loop.body)
    )


def _sets_anew_what_left(code: tuple[Statement, ...]) -> bool:
    """Whether a loop sets the predicate with which lanes have left a loop around it before."""
    return any(
        one.predicate.removeprefix("!") in written_by(other)
        for around in every(code)
        if isinstance(around, Repeat)
        for index, one in enumerate(around.body)
        if isinstance(one, Leave)
        for loop in every(around.body[index + 1 :])
        if isinstance(loop, Repeat)
        for other in every(loop.body)
    )


def entered_at_the_start(code: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return code whose loops no lane enters within their bodies."""
    made: list[Statement] = []
    for one in code:
        blocks = {field: entered_at_the_start(block) for field, block in inside(one).items()}
        other = replace(one, **blocks) if blocks else one  # type: ignore[arg-type]
        made.append(replace(other, entry="", skipped=0) if isinstance(other, Repeat) else other)
    return tuple(made)


def _called(*statements: Statement) -> str:
    """Name a loop by what else than turns it has."""
    left = any(isinstance(one, Leave) for one in statements)
    return f"{_LOOP}{_LEFT * left}{_ENTERED * _entered(statements)}"


def _entered(statements: Iterable[Statement]) -> bool:
    """Whether lanes enter any loop of these within its body."""
    return any(isinstance(one, Repeat) and bool(one.entry) for one in statements)
