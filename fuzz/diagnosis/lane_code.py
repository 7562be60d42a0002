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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import Culprit, ExperimentDevice, Witness
from fuzz.diagnosis.lane_trials import (
    GIVES,
    LANE_NUMBERS,
    LETTERS,
    ODD,
    Trial,
    assign,
    brought_out,
    drawn_alone,
    each_wrong,
    first_wrong,
    instruction_alone,
    may_be_registers,
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
from strategies.simplification.examples import Example, Site, edited, visit
from strategies.simplification.lane_code import alone, smaller_code

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
_PREDICATE, _BRANCH, _LOOP = "a predicate", "a branch of lanes", "a loop of lanes"
_LEFT, _ENTERED = " that lanes leave", " entered within its body"
_CONSTANTS = "with constants"
_AGAIN = "with a register that is written again"
_ALL_LANES = "an instruction of all lanes"
_ORDER = re.compile(r"^(setp?)\.[a-z]+(\.(and|or|xor))?(?=\.)")
"""A comparison's order, and how a predicate is combined with it."""
_PLAIN = re.compile(r"(mov|add|sub|and|or|xor)\.[bsu]\d+")
"""What most code has: what else there is tells more."""
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
) -> Culprit | None:
    """Find scalar code of a program that a compiler does not survive by itself.

    None where no code is enough. It is an instruction, with others of its first word of which that
    is true as well; or all that is left of the code where nothing can be left out. `refuses` tells
    of a program what the compiler does; after so many seconds what was reached is returned.
    """
    end = time.monotonic() + seconds
    nothing = np.zeros((LANES, 0), np.uint32)
    for step in walk(program.steps):
        code = step if is_lane_code(step) else None
        if accesses_rows(step) and step.memory.computed:
            code = step.memory.code
        if code is None or not refuses((example := alone(code, nothing)).program):
            continue

        def refused(rows: Sequence[ScalarInstruction]) -> list[ScalarInstruction]:
            bare = [(row, _bare(row)) for row in rows]
            return [
                row for row, trial in bare if trial and time.monotonic() < end and refuses(trial)
            ]

        rows = dict.fromkeys(one.row for one in every(code.code) if isinstance(one, Assign))
        # What brings registers in and out of a trial may be what is refused.
        for row in sorted(rows, key=lambda one: one.opcode not in _HELPERS):
            if refused([row]) and (trial := _bare(row)) is not None:
                others = [one for one in SCALARS.values() if one.family == row.family]
                names = _names_of(row, others, refused)
                return Culprit(instructions=names, witness=_shown(trial))
        while time.monotonic() < end:
            smaller = (one for one in smaller_code(example) if time.monotonic() < end)
            found = next((one for one in smaller if refuses(one.program)), None)
            if found is None:
                break
            example = found
        (left,) = (one for one in example.program.steps if is_lane_code(one))
        computing = [one for one in every(left.code) if isinstance(one, Assign)]
        named = _named(computing, [*_controls(left.code)])
        return replace(named, witness=_shown(example.program))
    return None


def _shown(program: Program) -> Witness:
    return Witness(program=program, images=np.zeros((1, program.image_bytes), np.uint8))


def _bare(row: ScalarInstruction) -> Program | None:
    """Return a program of nothing but an instruction; None if there is none."""
    example = drawn_alone(row)[0].example()
    return None if example is None else example.program


def _wrong_alone(device: ExperimentDevice, example: Example) -> Culprit | None:
    if device.right(example.program, example.image):
        return None
    (step,) = (one for one in example.program.steps if is_lane_code(one))
    there = list(islice(taken(step, _inputs(example)[None]), _MOST_TRIED))
    found = _wrong_part(device, step, there)
    if found is not None:
        return found
    shown = Witness(program=example.program, images=example.image[None])
    if sum(1 for _ in every(step.code)) > _SMALL:
        return Culprit(instructions=(CODE,), witness=shown, together=True)
    controls = _needed_controls(device, example, step)
    needed = _needed(device, example, step, there, looped=any(_LOOP in one for one in controls))
    # What is executed although its predicate says no may be anything.
    needed = [one for one in needed if not one.guard or _PREDICATE not in controls]
    same = {_CONSTANTS: [_hidden(step.code)], _AGAIN: islice(_rewritten(step), _MOST_TIMES)}
    more = [text for text, others in same.items() if _any_right(device, example, step, others)]
    return replace(_named(needed, controls, *more), witness=shown)


def _named(needed: Sequence[Assign], controls: Sequence[str], *more: str) -> Culprit:
    """Return what is wrong together: instructions under a condition, or branches and loops."""
    names = tuple(sorted(dict.fromkeys(_in_one_order(needed)), key=_is_plain))[:_MOST_NAMED]
    under = [f"{'under' if one == _PREDICATE else 'in'} {one}" for one in controls]
    condition = ", ".join([*(under if names else ()), *more])
    return Culprit(
        instructions=names or (*controls,) or (CODE,), condition=condition, together=True
    )


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
    for guarded in (False, True):
        tried = [(one, times) for one, times in met.values() if one.guard or not guarded]
        found = first_wrong(
            device,
            (
                ((one, times), [instruction_alone(one, time, guarded=guarded) for time in times])
                for one, times in tried
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
            return Culprit(instructions=(_PREDICATE,))
    loaded = [instruction_alone(one, time, guarded=guarded, loaded=True) for time in times]
    constant = (
        any(
            isinstance(each, int) and may
            for each, may in zip(one.sources, may_be_registers(one), strict=True)
        )
        and wrong_images(device, loaded) is None
    )
    conditions = [f"under {_PREDICATE}"] * guarded + [_CONSTANTS] * constant
    names = _all_alike(device, one.row, one.guard if guarded else "")
    return Culprit(instructions=names, condition=", ".join(conditions))


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
                known[key] = (opcode,)
                return known[key]
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
        return (_any_order(row.opcode),)
    if len(wrong) <= _MOST_NAMED and len(others) <= _MOST_ALIKE:
        return tuple(one.opcode for one in wrong)
    common = set.intersection(*map(_words, wrong))
    right = [_words(one) for one in tried if one not in wrong]
    told = dict(word for word in common if any(word not in one for one in right))
    if not told or any(told.items() <= one for one in right):
        return (row.family,)
    named = [told.get(place, "*") for place in range(max(told), -1, -1)]
    return (".".join([row.family, "*", *named]),)


def _words(row: ScalarInstruction) -> set[tuple[int, str]]:
    """Return the words of an opcode behind the first, each with its place from the end."""
    return set(enumerate(reversed(row.opcode.split(".")[1:])))


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
    *,
    looped: bool,
) -> list[Assign]:
    """Return the instructions without which code is right: what they gave is loaded instead.

    Of those that are executed again and again nothing tells that; if code is right without its
    loops, these are returned, too, but for what most code has.
    """
    tried = {
        index: other
        for index, (one, times) in enumerate(there)
        if len(times) == 1 and (other := _given_instead(example, step, one, times[0])) is not None
    }
    found = device.results_of([(other.program, other.image[None]) for other in tried.values()])
    right = {
        index: results is not None and not results.wrong[0]
        for index, results in zip(tried, found, strict=True)
    }
    return [
        one
        for index, (one, times) in enumerate(there)
        if right.get(index, looped and len(times) > 1 and not _is_plain(one.opcode))
    ]


def _with_code(example: Example, step: LaneCode, code: tuple[Statement, ...]) -> Example:
    steps = [replace(one, code=code) if one is step else one for one in example.program.steps]
    return example.with_program(example.program.buffers, steps)


def _any_right(
    device: ExperimentDevice,
    example: Example,
    step: LaneCode,
    codes: Iterable[tuple[Statement, ...]],
) -> bool:
    """Whether any other code, of the same meaning, comes out right."""
    for code in codes:
        try:
            other = _with_code(example, step, code) if code != step.code else None
        except UsageError:
            continue
        if other is not None and device.right(other.program, other.image):
            return True
    return False


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
    path = next(path for path, other in visit(step.code) if other is one)
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
            code=(*first, *reversed(moved), *edited(step.code, {path: tuple(here)}), *last),
        )  # fmt: skip
    except UsageError:
        return None
    return alone(other, np.stack(columns, axis=-1))


def _in_one_order(statements: Sequence[Assign]) -> list[str]:
    """Return names of statements, each behind those whose results it reads, else by their names.

    A compiler joins what depends on nothing in any order: the names of one cause must not differ.
    """
    read = {source for one in statements for source in one.sources}
    left, made = [(one, _name_of(one, read)) for one in statements], list[str]()
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


def _name_of(one: Assign, read: Collection[str | int]) -> str:
    """Return the name of an instruction among those that are wrong together, which read these."""
    if one.row.warp and {*read}.isdisjoint(one.destinations):
        # What nobody reads does no more than stand between the others.
        return _ALL_LANES
    return _any_order(one.opcode)


def _is_plain(opcode: str) -> bool:
    return _PLAIN.fullmatch(opcode) is not None


def _any_order(opcode: str) -> str:
    """Return the name of a comparison, whatever its order is and it is combined with."""
    return _ORDER.sub(r"\1.*", opcode)


def _hidden(code: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return code whose constants a compiler does not know: they are added to a 0 from memory."""
    names: dict[tuple[int, str], str] = {}
    first: list[Statement] = []
    numbers = iter(range(_KEPT, 1000))

    def register(value: int, kind: str) -> str:
        if (value, kind) not in names:
            halves = [f"r{next(numbers)}" for _ in range(2 if kind == "b64" else 1)]
            for part, half in enumerate(halves):
                first.append(assign("add.s32", half, ZERO, value >> 32 * part & 0xFFFF_FFFF))
            name = halves[0] if kind == "b32" else f"{LETTERS[kind]}{next(numbers)}"
            if kind != "b32":
                first.append(assign(GIVES[name[0]], name, *halves))
            names[value, kind] = name
        return names[value, kind]

    def hidden(block: Sequence[Statement]) -> tuple[Statement, ...]:
        made: list[Statement] = []
        for one in block:
            blocks = {field: hidden(each) for field, each in inside(one).items()}
            if isinstance(one, Assign):
                sources = (
                    register(source, kind) if isinstance(source, int) and may else source
                    for source, kind, may in zip(
                        one.sources, one.row.sources, may_be_registers(one), strict=True
                    )
                )
                made.append(replace(one, sources=tuple(sources)))
                continue
            if isinstance(one, Repeat) and isinstance(one.count, int):
                mask = (1 << max(1, one.count.bit_length())) - 1
                one = replace(one, count=register(one.count, "b32"), mask=mask)
            made.append(replace(one, **blocks) if blocks else one)  # type: ignore[arg-type]
        return tuple(made)

    made = hidden(code)
    return (*first, *made)


def _rewritten(step: LaneCode) -> Iterator[tuple[Statement, ...]]:
    """Iterate over code in which a register that is written again has another name then."""
    written = {*step.inputs}
    for path, one in visit(step.code):
        for name in sorted(written_by(one) - {*step.results}):
            if name in written and isinstance(one, Assign) and not one.guard:
                code = _renamed(step.code, path, name)
                if code is not None:
                    yield code
            written.add(name)


def _renamed(code: Sequence[Statement], path: Site, name: str) -> tuple[Statement, ...] | None:
    """Return code in which what a statement writes, and all behind it in its block, has a new name.

    None where something else may read what is written there: that would be other code.
    """
    index, *deeper = path
    assert isinstance(index, int)
    one, after = code[index], code[index + 1 :]
    if not deeper:
        assert isinstance(one, Assign)
        new = f"{name[0]}{_KEPT}"
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


def _controls(code: tuple[Statement, ...]) -> dict[str, tuple[Statement, ...]]:
    """Return by its name each control that code has, and the code without it."""
    loops = [one for one in every(code) if isinstance(one, Repeat)]
    left = any(isinstance(one, Leave) for one in every(code))
    loop = f"{_LOOP}{_LEFT * left}{_ENTERED * any(one.entry for one in loops)}"
    kinds = {_PREDICATE: Assign, _BRANCH: If, loop: Repeat}
    without = {name: _without(code, kind) for name, kind in kinds.items()}
    return {name: other for name, other in without.items() if other != code}


def _needed_controls(device: ExperimentDevice, example: Example, step: LaneCode) -> list[str]:
    """Name the predicates, branches and loops that are left, unless code is wrong without them."""
    tried: dict[str, Example] = {}
    controls = _controls(step.code)
    for name, code in controls.items():
        try:
            tried[name] = _with_code(example, step, code)
        except UsageError:
            continue
    found = device.results_of([(one.program, one.image[None]) for one in tried.values()])
    wrong = {
        name
        for name, results in zip(tried, found, strict=True)
        if results is not None and results.wrong[0]
    }
    return [name for name in controls if name not in wrong]


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


def without_loops(code: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return code that takes the bodies of its loops once."""
    return _without(code, Repeat)
