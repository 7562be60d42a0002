"""Code of lanes written otherwise: what an experiment tells is whether it comes out right then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.lane_trials import (
    GIVES,
    LETTERS,
    assign,
    brought_out,
    may_be_registers,
    words_of,
)
from oracle.errors import UsageError
from oracle.isa.forms import LANES
from oracle.program.lane_code import (
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
    with_another,
    written_by,
)
from oracle.program.operands import MOST_LISTED
from oracle.scalar import SCALARS
from strategies.simplification.examples import Example, Site, edited, visit
from strategies.simplification.lane_code import alone

PREDICATE, BRANCH, LOOP = "a predicate", "a branch of lanes", "a loop of lanes"
LEFT, ENTERED = " that lanes leave", " entered within its body"
_KEPT = 500
"""Number of the first register that holds what an instruction gave: code has fewer."""
Code = tuple[Statement, ...]


def changed(code: Code, change: Callable[[Statement], Iterable[Statement]]) -> Code:
    """Return code with what stands for each statement, those inside of it changed before."""
    made: list[Statement] = []
    for one in code:
        blocks = {field: changed(block, change) for field, block in inside(one).items()}
        made += change(replace(one, **blocks) if blocks else one)  # type: ignore[arg-type]
    return tuple(made)


def without(code: Code, kind: type[Statement]) -> Code:
    """Return code that takes what is under predicates, in branches or in loops once, in a row."""

    def change(one: Statement) -> Iterable[Statement]:
        if isinstance(one, Assign) and kind is Assign:
            return [replace(one, guard="")]
        if isinstance(one, kind) and not isinstance(one, Assign):
            first = [assign("add.s32", one.counter, ZERO, 0)] if isinstance(one, Repeat) else []
            return [*first, *(each for block in inside(one).values() for each in block)]
        return [] if kind is Repeat and isinstance(one, Leave) else [one]

    return changed(code, change)


def controls(code: Code) -> dict[str, Code]:
    """Return by its name each control that code has, and the code without it."""
    left = any(isinstance(one, Leave) for one in every(code))
    entered = any(isinstance(one, Repeat) and one.entry for one in every(code))
    kinds = {PREDICATE: Assign, BRANCH: If, f"{LOOP}{LEFT * left}{ENTERED * entered}": Repeat}
    found = {name: without(code, kind) for name, kind in kinds.items()}
    return {name: other for name, other in found.items() if other != code}


def hidden(code: Code) -> Code:
    """Return code whose constants a compiler does not know: they are added to a 0 from memory."""
    names: dict[tuple[int, str], str] = {}
    first: list[Statement] = []
    numbers = count(_KEPT)

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

    def change(one: Statement) -> Iterable[Statement]:
        if isinstance(one, Assign):
            read = zip(one.sources, one.row.sources, may_be_registers(one), strict=True)
            one = replace(
                one,
                sources=tuple(
                    register(source, kind) if isinstance(source, int) and may else source
                    for source, kind, may in read
                ),
            )
        elif isinstance(one, Repeat) and isinstance(one.count, int):
            mask = (1 << max(1, one.count.bit_length())) - 1
            one = replace(one, count=register(one.count, "b32"), mask=mask)
        return [one]

    made = changed(code, change)
    return (*first, *made)


def rewritten(step: LaneCode) -> Iterator[Code]:
    """Iterate over code in which a register that is written again has another name then."""
    written = {*step.inputs}
    for path, one in visit(step.code):
        for name in sorted(written_by(one) - {*step.results}):
            if name in written and isinstance(one, Assign) and not one.guard:
                code = _renamed(step.code, path, name)
                if code is not None:
                    yield code
            written.add(name)


def _renamed(code: Code, path: Site, name: str) -> Code | None:
    """Return code in which what a statement writes, and all behind it in its block, has a new name.

    None where something else may read what is written there: that would be other code.
    """
    index, *deeper = path
    assert isinstance(index, int)
    one, after = code[index], code[index + 1 :]
    if not deeper:
        assert isinstance(one, Assign)
        new = f"{name[0]}{_KEPT}"
        names = tuple(new if each == name else each for each in one.destinations)
        behind = with_another(after, name, new, written=True)
        return (*code[:index], replace(one, destinations=names), *behind)
    field, *inner = deeper
    block = inside(one)[str(field)]
    if _reads_first(name, after) or (isinstance(one, Repeat) and _reads_first(name, block)):
        return None
    made = _renamed(block, tuple(inner), name)
    if made is None:
        return None
    return (*code[:index], replace(one, **{str(field): made}), *after)  # type: ignore[arg-type]


def _reads_first(name: str, code: Sequence[Statement]) -> bool:
    """Whether code may read a register before it writes it in all lanes."""
    for one in code:
        if any(name in read_by(each) for each in every((one,))):
            return True
        if isinstance(one, Assign) and name in one.destinations and not one.guard:
            return False
    return False


def inputs(example: Example) -> NDArray[np.uint32]:
    """Return what code alone reads, uint32 (32, words)."""
    load = next((one for one in example.program.steps if one.bytes_read), None)
    size = sum(span.run for span in load.bytes_read) if load is not None else 0
    return example.image[:size].view("<u4").reshape(LANES, -1)


def given_instead(example: Example, step: LaneCode, one: Assign, time: Taken) -> Example | None:
    """Return code with what an instruction gives in its place, loaded from memory."""
    read = set[str]().union(*map(read_by, every(step.code)), step.results)
    used = [name for name in step.inputs if name in read]
    words, parts = inputs(example).T, step.bits // 32
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
    numbers, wide = count(_KEPT), class_of(step.results[0]) == "b64"
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
        for each in seen:
            last.append(assign("add.s64" if wide else "add.s32", results[-1], into, each))
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
