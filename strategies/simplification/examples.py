"""A program with the one image that it works on, how the two change, and smaller code of lanes.

Matrices move in the image with the program: the values stay, the bytes are written where the new
tile has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.execution.tracing import Trace, trace
from oracle.isa.forms import LANES
from oracle.layouts import Tile, read, write
from oracle.program.lane_code import (
    ZERO,
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Statement,
    class_of,
    every,
    inside,
    may_be_open,
    most_of,
    most_turns,
    read_by,
    row_of,
    with_another,
    written_by,
)
from oracle.program.operands import COUNTS, Buffer, Place
from oracle.program.program import Program, position, walk
from oracle.program.steps import (
    Barrier,
    Loop,
    OneWarp,
    Step,
    accesses_registers,
    accesses_rows,
    copies_bytes,
    is_lane_code,
    is_main,
    plain_load,
    plain_store,
)
from oracle.program.warpgroup import AsyncProduct, WarpgroupSync
from strategies.matrices import Image, plain_access
from strategies.programs.builder import GUARD_BYTES

T = TypeVar("T")
Site = tuple[int | str, ...]
"""Where a step or a statement stands: (3,), or (3, "then", 0) for the first of a branch's arm."""
Steps = tuple[Step, ...]
Edits = Mapping[Site, Steps]
"""What stands in the place of some steps; () drops one."""
_BARRIER = Barrier()


def _blocks_of(one: Any) -> Mapping[str, tuple[Any, ...]]:
    return inside(one) if isinstance(one, Statement) else one.blocks


def visit(steps: Sequence[T], prefix: Site = ()) -> Iterator[tuple[Site, T]]:
    """Iterate over steps, or statements, and those inside of others, in the order of the text."""
    for index, step in enumerate(steps):
        site = (*prefix, index)
        yield site, step
        for field, block in _blocks_of(step).items():
            yield from visit(block, (*site, field))


def edited(
    steps: Sequence[T], edits: Mapping[Site, tuple[T, ...]], prefix: Site = ()
) -> tuple[T, ...]:
    """Return steps or statements, some of them changed; inside of those nothing else is."""
    result: list[Any] = []
    for index, step in enumerate(steps):
        site = (*prefix, index)
        if site in edits:
            result += edits[site]
            continue
        changes: dict[str, Any] = {
            field: edited(block, edits, (*site, field)) for field, block in _blocks_of(step).items()
        }
        if isinstance(step, Repeat) and step.entry:
            kept = ((*site, "body", at) not in edits for at in range(step.skipped))
            changes["skipped"] = sum(kept)
        result.append(replace(step, **changes) if changes else step)  # type: ignore[type-var]
    return tuple(result)


class Move(NamedTuple):
    """What lies in one image, and where another is to have it: tiles of any layouts, or bytes."""

    source: Place
    was: Tile | int
    destination: Place
    now: Tile | int


@dataclass(frozen=True, kw_only=True, eq=False)
class Example:
    """A program and an image of it."""

    program: Program
    image: Image

    @property
    def key(self) -> tuple[Program, bytes]:
        """What tells this example from every other."""
        return self.program, blake2b(self.image.tobytes()).digest()

    def with_image(self, image: Image) -> Example:
        """Return the same program on another image."""
        return Example(program=self.program, image=image)

    def with_program(self, buffers: Iterable[Buffer], steps: Iterable[Step]) -> Example:
        """Return another program, on the bytes that this image has in the buffers of both.

        Raises UsageError if there is no such program.
        """
        program = replace(self.program, buffers=tuple(buffers), steps=tuple(steps))
        if program.buffers == self.program.buffers:
            return Example(program=program, image=self.image)
        image = np.zeros(program.image_bytes, np.uint8)
        sizes = {b.name: b.size for b in self.program.buffers if b.space == "global"}
        for buffer in program.buffers:
            if buffer.space == "global" and buffer.name in sizes:
                size = min(buffer.size, sizes[buffer.name])
                old, new = self.program.offset(buffer.name), program.offset(buffer.name)
                image[new : new + size] = self.image[old : old + size]
        return Example(program=program, image=image)

    def edited(self, edits: Edits, *more: Buffer) -> Example:
        """Return the example with other steps, and more buffers; raises as `with_program`."""
        steps = edited(self.program.steps, edits)
        return self.with_program((*self.program.buffers, *more), steps)

    def tidied(self) -> Example:
        """Return the example without steps that have no use, and without buffers that none names.

        These are steps whose result nothing reads, but never the last matrix instruction; copies
        into shared memory that nothing reads, or out of what nothing writes; empty branches and
        loops; barriers at the ends, or two in a row.
        """
        steps, buffers = self.program.steps, self.program.buffers
        while useless := _useless(steps, buffers):
            steps = edited(steps, dict.fromkeys(useless, ()))
        kept: list[Step] = []
        for step in steps:
            if step != _BARRIER or (kept and kept[-1] != _BARRIER):
                kept.append(step)
        if kept and kept[-1] == _BARRIER:
            kept.pop()
        return self.with_program(used_buffers(buffers, tuple(kept)), kept)

    def moved(self, moves: Iterable[Move], target: Example) -> Example:
        """Return a target whose image has, at the destinations, the values that this one had.

        A move that does not fit into it is left out.
        """
        image: Image = target.image.copy()
        for source, was, destination, now in moves:
            old, new = position(self.program, source), position(target.program, destination)
            sizes = [size if isinstance(size, int) else size.extent for size in (was, now)]
            if not (0 <= old <= len(self.image) - sizes[0] and 0 <= new <= len(image) - sizes[1]):
                continue
            if isinstance(was, Tile) and isinstance(now, Tile):
                write(image[None], new, now, np.array(read(self.image[None], old, was)))
            elif isinstance(was, int) and isinstance(now, int):
                image[new : new + was] = self.image[old : old + was]
        return target.with_image(image)


def used_buffers(buffers: Sequence[Buffer], steps: Steps) -> tuple[Buffer, ...]:
    """Return the buffers that steps name; the first global one if there is no other."""
    named = {
        span.buffer for step in walk(steps) for span in (*step.bytes_read, *step.bytes_written)
    }
    used = tuple(buffer for buffer in buffers if buffer.name in named)
    if any(buffer.space == "global" for buffer in used):
        return used
    return (next(buffer for buffer in buffers if buffer.space == "global"), *used)


def _useless(steps: Steps, buffers: Sequence[Buffer]) -> list[Site]:
    """Return the steps that have no use; of matrix instructions one alone, and never the last."""
    every = [*walk(steps)]
    read = {one for step in every for use in step.reads for one in use.registers}
    shared = {buffer.name for buffer in buffers if buffer.space == "shared"}
    unread = shared - {span.buffer for step in every for span in step.bytes_read}
    unwritten = shared - {span.buffer for step in every for span in step.bytes_written}
    found: list[Site] = []
    main: list[Site] = []
    for site, step in visit(steps):
        if step.writes is not None:
            if read.isdisjoint(step.writes.registers):
                (main if is_main(step) else found).append(site)
        elif copies_bytes(step):
            if step.destination.buffer in unread or step.source.buffer in unwritten:
                found.append(site)
        elif step.blocks and not any(step.blocks.values()):
            found.append(site)
    return found or (main[-1:] if sum(map(is_main, every)) > 1 else [])


def shows_something(program: Program, like: Program, *, any_warp_level: bool = False) -> bool:
    """Whether a program still has what another is about, a matrix instruction or code, and a store.

    With `any_warp_level` wmma.load or wmma.store will do where the other multiplies: what is wrong
    is where they are executed, and no values.
    """

    def computes(step: Step) -> bool:
        return is_main(step) or is_lane_code(step)

    def needed(step: Step) -> bool:
        if not main:
            accesses = step.bytes_read or step.bytes_written
            return bool(step.uses and accesses) and not accesses_rows(step)
        # All lanes of a warp have to execute an instruction together.
        return step.instruction is not None if any_warp_level else computes(step)

    main = any(map(computes, walk(like.steps)))
    steps = list(walk(program.steps))
    return any(map(needed, steps)) and any(step.stores for step in steps)


def room_for(tile: Tile) -> int:
    """Return the bytes of a buffer that holds a tile at its start, with a guard behind it."""
    return tile.extent + tile.pitch + GUARD_BYTES


def new_buffer(buffers: Iterable[Buffer], name: str, size: int) -> Buffer:
    """Return a global buffer of so many bytes, under a name like `name` that no other has."""
    names = {buffer.name for buffer in buffers}
    number = next(n for n in range(len(names) + 1) if f"{name}{n or ''}" not in names)
    return Buffer(name=f"{name}{number or ''}", space="global", size=size)


_LEAST_STEPS = 3  # Of a program of nothing but code: a load, the code, a store
_MOST_EVENTS = 256  # Steps of a program, as they are taken, that are looked at
Code = tuple[Statement, ...]


def alone(step: LaneCode, inputs: NDArray[Any]) -> Example:
    """Return code with nothing but a load of what it reads and a store of what it makes.

    `inputs`, uint32 (32, words), is what the registers of each lane hold before it.
    """
    count = next(count for count in (0, *COUNTS) if count >= step.count)
    made = next(count for count in COUNTS if count >= len(step.results))
    results = (*step.results, *step.results[-1:] * (made - len(step.results)))
    code = replace(step, source="x" if count else "", count=count, destination="y", results=results)
    wide = code.uses[-1].holds.bits
    buffers = [Buffer(name="y", space="global", size=LANES * made * wide // 8 + GUARD_BYTES)]
    store = plain_store(registers="y", count=made, bits=wide, place=Place(buffer="y"))
    steps: list[Step] = [code, store]
    words = np.zeros((LANES, count * step.bits // 32), "<u4")
    if count:
        load = plain_load(registers="x", count=count, bits=step.bits, place=Place(buffer="x"))
        buffers.insert(0, Buffer(name="x", space="global", size=load.size + GUARD_BYTES))
        steps.insert(0, load)
        words[:, : inputs.shape[1]] = inputs
    program = Program(buffers=tuple(buffers), steps=tuple(steps))
    image = np.zeros(program.image_bytes, np.uint8)
    image[: words.nbytes] = words.view(np.uint8).ravel()
    return Example(program=program, image=image)


def code_alone(example: Example, *, target: str) -> Iterator[Example]:
    """Iterate over examples of nothing but one piece of code, as the program comes to it."""
    steps = [*walk(example.program.steps)]
    lanes = any(map(is_lane_code, steps)) and example.program.warps == 1
    if not lanes or len(steps) <= _LEAST_STEPS:
        return
    for event in trace(example.program, example.image, target=target).events[:_MOST_EVENTS]:
        if is_lane_code(event.step):
            inputs = event.inputs.get("source", np.zeros((LANES, 0), np.uint32))
            yield alone(event.step, inputs)


def of_one_warp(example: Example, *, target: str, traced: Trace | None = None) -> Iterator[Example]:
    """Iterate over examples of what one warp of a warpgroup does, those first that do more alone.

    The results of what all four do together are loaded, as they are at first; `traced`: the trace
    of the example where there is one.
    """
    program = example.program
    if program.warps == 1:
        return
    traced = traced or trace(program, example.image, target=target)
    made: dict[int, NDArray[Any]] = {}
    for event in traced.events:
        if isinstance(event.step, AsyncProduct) and event.result is not None:
            made.setdefault(id(event.step), event.result)
    own: dict[int, Buffer] = {}

    def taken(steps: Steps, warp: int) -> Iterator[Step]:
        for step in steps:
            if isinstance(step, OneWarp):
                yield from step.body if step.warp == warp else ()
            elif isinstance(step, Loop) and any(
                one.by_turn for one in step.body if not isinstance(one, AsyncProduct)
            ):
                yield from taken(step.unrolled, warp)  # one warp asks of no turn
            elif id(step) in made:
                if id(step) not in own:
                    size = made[id(step)].nbytes // program.warps
                    own[id(step)] = new_buffer((*program.buffers, *own.values()), "gd", size)
                (result,) = (use for use in step.uses if use.written)
                yield plain_access(result, Place(buffer=own[id(step)].name))
            elif accesses_registers(step) and step.lanes > LANES:
                place, ahead = step.place, warp * step.size // program.warps
                place = replace(place, offset=place.offset + ahead)
                yield step.changed(lanes=LANES, place=place)
            elif not isinstance(step, AsyncProduct | WarpgroupSync):
                blocks = {name: (*taken(block, warp),) for name, block in step.blocks.items()}
                yield (
                    replace(step, is_async=False, mbarrier=None)
                    if copies_bytes(step)
                    else step.changed(**blocks)
                )

    alone = [step.warp for step in walk(program.steps) if isinstance(step, OneWarp)]
    for warp in dict.fromkeys((*alone, *range(program.warps))):
        steps, buffers = (*taken(program.steps, warp),), (*program.buffers, *own.values())
        with suppress(UsageError):
            one = Program(buffers=buffers, steps=steps)
            image = np.zeros(one.image_bytes, np.uint8)
            image[: len(example.image)] = example.image
            for key, buffer in own.items():
                start, values = one.offset(buffer.name), made[key][LANES * warp :][:LANES]
                image[start : start + values.nbytes] = values.view(np.uint8).ravel()
            yield Example(program=one, image=image).tidied()


def smaller_code(example: Example, *, plainer: bool = True) -> Iterator[Example]:
    """Iterate over examples of which one piece of code of lanes is smaller, the smallest first.

    It is shorter, or, if `plainer`, has one guard, constant or name less as well.
    """
    for site, step in visit(example.program.steps):
        if not is_lane_code(step):
            continue
        # What one result needs is little of the whole.
        for edits in _narrower(example, site, step):
            with suppress(UsageError):  # not every path writes what is left
                yield example.edited({at: (other,) for at, other in edits.items()})
        for code in chain(
            [step.needed], _shorter(step, plainer), _renamed(step) if plainer else ()
        ):
            with suppress(UsageError):
                other = replace(step, code=code)
                # Bits of NaN that PTX leaves open would be another difference than what is sought.
                if other != step and (not may_be_open(other) or may_be_open(step)):
                    yield example.edited({site: (other,)})


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
            taken = [each for block in inside(one).values() for each in block]
            if isinstance(one, Repeat):
                zero = Assign(opcode="add.s32", destinations=(one.counter,), sources=(ZERO, 0))
                return [zero, *taken]
            return taken
        return [] if kind is Repeat and isinstance(one, Leave) else [one]

    return changed(code, change)


def _shorter(step: LaneCode, plainer: bool) -> Iterator[Code]:
    """Yield shorter code, then code with a branch or loop less, or one statement plainer."""
    sites = [path for path, _ in visit(step.code)]
    size = len(sites)
    while size:
        for start in range(0, len(sites), size):
            yield edited(step.code, dict.fromkeys(sites[start : start + size], ()))
        size //= 2
    for path, statement in visit(step.code):
        for code in _plainer(statement) if plainer or not isinstance(statement, Assign) else ():
            yield edited(step.code, {path: code})


def _plainer(one: Statement) -> Iterator[Code]:
    match one:
        case If(predicate=predicate, then=then, otherwise=otherwise):
            yield from (then, otherwise, (*then, *otherwise))
            if then and otherwise:
                yield from ((replace(one, otherwise=()),), (replace(one, then=()),))
            elif otherwise:
                turned = predicate[1:] if predicate.startswith("!") else f"!{predicate}"
                yield (replace(one, predicate=turned, then=otherwise, otherwise=()),)
            elif len(then) == 1 and isinstance(then[0], Assign):
                yield (replace(then[0], guard=predicate),)
        case Repeat():
            plain = replace(one, entry="", skipped=0)
            yield from (one.body, (replace(plain, count=1),), (plain,))
            yield from ((replace(one, late=False),), (replace(one, down=False),))
            yield from ((replace(one, count=count),) for count in (1, 2) if count < most_turns(one))
            if isinstance(one.count, str):
                yield from ((replace(one, mask=mask),) for mask in (1, 3) if mask < one.mask)
        case Leave(turn=True):
            yield (replace(one, turn=False),)
        case Assign():
            if one.guard:
                yield (replace(one, guard=""),)
            kinds = row_of(one).sources
            for index, (source, kind) in enumerate(zip(one.sources, kinds, strict=True)):
                offers = [] if kind == "pred" else [0, 1, most_of(kind)]
                if isinstance(source, int):
                    offers = [number for number in (*offers, 2, 8, 16) if number < source]
                for offer in offers:
                    sources = (*one.sources[:index], offer, *one.sources[index + 1 :])
                    yield (replace(one, sources=sources),)


def _renamed(step: LaneCode) -> Iterator[Code]:
    for one in dict.fromkeys(one for one in every(step.code) if isinstance(one, Assign)):
        for name in one.destinations:
            offers: list[str | int] = [*dict.fromkeys(one.sources)]
            if class_of(name) != "pred":
                offers += [0, 1]
            for offer in offers:
                fits = isinstance(offer, int) or class_of(offer) == class_of(name)
                if fits and offer != name:
                    yield with_another(step.code, name, offer)


def _narrower(example: Example, site: Site, step: LaneCode) -> Iterator[Mapping[Site, Step]]:
    """Yield edits that leave fewer registers before or behind the code."""
    steps, results = [*visit(example.program.steps)], step.results
    for name in (*_made_before(step), *dict.fromkeys(results)):
        if set(results) != {name}:
            try:
                one = replace(step, results=(name,) * len(results))
            except UsageError:  # not every path writes it
                continue
            if (code := one.needed) != one.code:
                yield {site: replace(one, code=code)}
            if name in results:
                yield {site: one}
    if len(results) > 1 and len(set(results)) == 1:
        stores: dict[Site, Step] = {
            other: replace(use, count=1)
            for other, use in steps
            if accesses_registers(use) and use.stores and use.registers == step.destination
        }
        yield {site: replace(step, results=results[:1]), **stores}
    used = set(results).union(*map(read_by, every(step.code)))
    last = max((int(name[1:]) + 1 for name in step.inputs if name in used), default=0)
    count = next((count for count in COUNTS if count >= last), 0)
    if last and count < step.count:
        loads: dict[Site, Step] = {
            other: replace(use, count=count, address=None)
            for other, use in steps
            if accesses_registers(use) and use.loads and use.registers == step.source
        }
        yield {site: replace(step, count=count), **loads}
    if not last and step.count:
        yield {site: replace(step, source="", count=0)}


def _made_before(step: LaneCode) -> Iterator[str]:
    """Yield registers of the class of the results that are written before any of these."""
    kind, seen = class_of(step.results[0]), set[str]()
    for one in every(step.code):
        names = {name for name in written_by(one) if class_of(name) == kind}
        if not names.isdisjoint(step.results):
            return
        yield from sorted(names - seen)
        seen |= names
