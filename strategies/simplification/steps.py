"""Simpler steps: fewer, without branches and loops, with plainer accesses and own registers.

Each function iterates over simpler examples, the most promising first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.execution.tracing import trace
from oracle.isa.forms import LANES, ROW_BYTES
from oracle.isa.lookup import ACCESS_FORMS, FORMS
from oracle.layouts import Tile, write
from oracle.program.operands import (
    COUNTS,
    WORD_BYTES,
    Buffer,
    Place,
    Registers,
    Turn,
    Word,
    first_registers,
    listed,
)
from oracle.program.operations import set_registers
from oracle.program.program import Program, fresh_bank, position, walk
from oracle.program.steps import (
    Branch,
    Loop,
    MatrixAccess,
    OneWarp,
    RowAccess,
    Rows,
    Step,
    accesses_matrix,
    accesses_registers,
    accesses_rows,
    copies_bytes,
    is_plain_load,
    memory_of,
    multiplies,
    multiplies_fragments,
    product_of,
    stores_rows,
)
from strategies.matrices import buffers_of, places_of, plain_access, single_instruction
from strategies.programs.builder import GUARD_BYTES
from strategies.simplification.examples import (
    Edits,
    Example,
    Move,
    Site,
    Steps,
    edited,
    new_buffer,
    room_for,
    visit,
)


def _each(
    rewrite: Callable[[Example, Step], Iterator[Steps]], example: Example
) -> Iterator[Example]:
    """Iterate over examples with what may stand in the place of one step."""
    for site, step in visit(example.program.steps):
        for steps in rewrite(example, step):
            yield example.edited({site: steps}).tidied()


def drops(example: Example, size: int) -> Iterator[Example]:
    """Iterate over examples without one run of `size` steps each, and what only they needed.

    The steps inside a branch or a loop are counted one by one as well. Where one step that
    computes is dropped, what read its result reads instead what it read.
    """
    sites = list(visit(example.program.steps))
    for start in range(0, len(sites), size):
        yield from dropped(example, sites[start : start + size])


def dropped(example: Example, group: Sequence[tuple[Site, Step]]) -> Iterator[Example]:
    """Iterate over examples without these steps: results go, or are replaced by an operand."""
    ways: list[Edits] = [{site: () for site, _ in group}]
    if len(group) == 1:
        ways += _bypassing(example.program.steps, *group[0])
    for edits in ways:
        smaller = example.edited(edits)
        yield smaller.tidied()
        # A program of a warpgroup is costly to try, and what has no use in it is rarely needed.
        if len(group) == 1 or example.program.warps == 1:
            yield smaller


def unnamed(example: Example) -> Iterator[Example]:
    """Iterate over a warpgroup's examples without all steps of one bank of registers.

    An accumulator is loaded, multiplied into and stored in several places, of which none can go
    alone; those of the most steps come first.
    """
    touching: dict[str, dict[Site, Steps]] = {}
    for site, step in visit(example.program.steps) if example.program.warps > 1 else ():
        for bank in dict.fromkeys(use.bank for use in step.uses):
            touching.setdefault(bank, {})[site] = ()
    for edits in sorted(touching.values(), key=len, reverse=True):
        yield example.edited(edits).tidied()


def _bypassing(steps: Steps, gone: Site, step: Step) -> Iterator[Edits]:
    """Yield what lets all that reads the result of a step read what that read, without it."""
    made, operand = step.writes, step.carried
    if made is None or operand is None:
        return
    # A sparse multiplication of numbers by themselves reads one vector in several places.
    sizes = {use.holds.registers for use in step.reads if use.name == operand}
    redirected: dict[Site, Steps] = {gone: ()}
    written = set(made.registers)
    sites = list(visit(steps))
    for site, other in sites[sites.index((gone, step)) + 1 :]:
        reading = [use for use in other.reads if use.name == made.name]
        # A vector has a number of registers, and is another operand's only if that has as many.
        if reading and all(use.holds.registers in sizes or not listed(operand) for use in reading):
            redirected[site] = (other.reading(made.name, operand),)
        if other.writes is not None and not written.isdisjoint(other.writes.registers):
            break
    yield redirected


def _unwrapped(example: Example, step: Step) -> Iterator[Steps]:
    match step:
        case Branch(condition=condition, then=then, otherwise=otherwise):
            yield then or otherwise
            if then and otherwise:
                yield otherwise
                yield (replace(step, otherwise=()),)
                yield (replace(step, then=()),)
            if not isinstance(condition, int):
                yield from ((replace(step, condition=taken),) for taken in (1, 0))
            elif condition > 1:
                yield (replace(step, condition=1),)
        case Loop(count=count):
            yield step.turn(0, 1)
            if step.counts:
                yield step.turn(1, 2)
            if isinstance(count, Word):
                start = position(example.program, count.place)
                word = int.from_bytes(example.image[start : start + 4].tobytes(), "little")
                most = word & count.mask
                numbers = [*(least for least in (1, 2) if least < most), most]
            else:
                numbers = [least for least in (1, 2) if least < count]
            yield from ((replace(step, count=number),) for number in numbers)
        case OneWarp(warp=warp) if warp > 0:
            yield (replace(step, warp=0),)


unwraps = partial(_each, _unwrapped)
"""Examples in which one branch or loop is simpler, the simplest first."""

_ROW_FORMS = {form.opcode: form for form in FORMS if memory_of(form) is Rows}
_ROWS = tuple(range(0, LANES * ROW_BYTES, ROW_BYTES))
"""Addresses of rows that lie one behind the other."""
_FEWER: Sequence[Mapping[str, Any]] = (
    {"num": "x1", "trans": "", "space": "shared"},
    {"num": "x1"},
    {"trans": ""},
    {"space": "shared"},
)
"""What makes an instruction that moves rows plainer."""
_DEFAULTS: Mapping[str, Any] = {
    "stride": None, "stride_in_register": False, "immediate": 0, "computed": (), "lanes": LANES,
    "ids_in_registers": False, "is_async": False,
}  # fmt: skip
"""Fields of steps that have a default."""
_LATER = Turn(asks="ne", number=0)


def plainer_accesses(example: Example) -> Iterator[Example]:
    """Iterate over examples in which one thing about one step is as it is by default.

    First with what it accesses moved along in the image, then with the image as it is.
    """
    for site, step in visit(example.program.steps):
        if accesses_rows(step):
            yield from _fewer_rows(example, site, step)
        for other in _plainer(example.program, step):
            target = example.edited({site: (other,)})
            reached = zip(
                _accessed(example.program, step), _accessed(target.program, other), strict=False
            )
            moves = [Move(*source, *destination) for source, destination in reached]
            yield example.moved(moves, target).tidied()
            yield target.tidied()


def _plainer(program: Program, step: Step) -> Iterator[Step]:
    for name, value in step.fields.items():
        if name == "lanes" and program.warps > 1:
            continue  # a warp of four has 32, all have 128
        if value != _DEFAULTS.get(name, value):
            also = {"stride_in_register": False} if name == "stride" else {}
            yield step.changed(**{name: _DEFAULTS[name]}, **also)
        elif isinstance(value, Place) and value.offset:
            yield step.changed(**{name: replace(value, offset=0)})
        elif isinstance(value, Turn) and value != _LATER:
            yield step.changed(**{name: _LATER})
        elif isinstance(value, Word) and value.place.offset:
            yield step.changed(**{name: replace(value, place=replace(value.place, offset=0))})
    if accesses_registers(step) and program.buffer(step.place.buffer).space == "shared":
        for place in places_of(program, step.place, stored=step.stores):
            yield step.changed(place=place)
    if accesses_matrix(step):
        form, space = step.form, program.buffer(step.memory.place.buffer).space
        if form.space != space:
            yield _with_form(step, layout=form.layout, space=space)
        if space == "shared":
            for place, _ in _accessed(program, step):
                yield _with_form(step, layout=form.layout, space="global").changed(place=place)
        if form.layout != "row" and form.matrix().operand not in "ab":
            yield _with_form(step, layout="row", space=form.space)
    if accesses_rows(step) and step.memory.addresses != _ROWS:
        yield step.changed(addresses=_ROWS)
        for lane, (address, plain) in enumerate(zip(step.memory.addresses, _ROWS, strict=True)):
            if address != plain:
                addresses = (*step.memory.addresses[:lane], plain)
                yield step.changed(addresses=addresses + step.memory.addresses[lane + 1 :])


def _with_form(step: MatrixAccess, *, layout: str, space: str) -> MatrixAccess:
    form = ACCESS_FORMS.get((step.form.matrix(), layout, space))
    if form is None or (step.form.layout, step.form.space) == (layout, space):
        return step
    near = space.startswith("shared") or step.form.matrix().register_bits == 64
    # 32 bits address shared memory only.
    return step.changed(form=form, address=step.address if near else None)


def _accessed(program: Program, step: Step) -> Iterator[tuple[Place, Tile | int]]:
    """Iterate over where the image has what a step accesses, each with its tile or its bytes."""
    if accesses_matrix(step):
        places = places_of(program, step.memory.place, stored=step.stores)
        yield from ((place, step.tile) for place in places)
    elif accesses_rows(step):
        for address in step.memory.addresses[: step.form.addresses]:
            there = Place(buffer=step.memory.buffer, offset=address)
            for place in islice(places_of(program, there, stored=step.stores), 1):
                yield place, ROW_BYTES
    elif accesses_registers(step):
        yield step.place, step.size
    elif copies_bytes(step):
        yield from ((step.source, step.size), (step.destination, step.size))
    elif isinstance(step.uniform, Word):
        yield step.uniform.place, WORD_BYTES


def _fewer_rows(example: Example, site: Site, step: RowAccess) -> Iterator[Example]:
    (use,) = step.uses
    for changes in _FEWER:
        simpler = _ROW_FORMS.get(step.form.varied(**changes).opcode)
        if simpler is None or simpler == step.form:
            continue
        fewer = first_registers(use, simpler.registers)
        edits: dict[Site, Steps] = {site: (step.changed(form=simpler, registers=fewer),)}
        for other_site, other in visit(example.program.steps):
            if accesses_registers(other) and other.registers == use.name:
                own = first_registers(other.uses[0], simpler.registers)
                edits[other_site] = (replace(other, count=simpler.registers, registers=own),)
        yield example.edited(edits)


def plain_matrices(example: Example) -> Iterator[Example]:
    """Iterate over examples with matrices plainly in buffers of their own: all, then one by one."""
    sites = [(site, step) for site, step in visit(example.program.steps) if accesses_matrix(step)]
    odd = [pair for pair in sites if not _is_plain(example.program, pair[1])]
    if odd:
        yield _plain(example, sites)
        yield from (_plain(example, [pair]) for pair in odd)


def _is_plain(program: Program, step: MatrixAccess) -> bool:
    memory, form = step.memory, step.form
    return (
        (memory.stride, memory.immediate, memory.place.offset) == (None, 0, 0)
        and form.space == program.buffer(memory.place.buffer).space == "global"
        and (form.layout == "row" or form.matrix().operand in "ab")
    )


def _plain(example: Example, sites: Sequence[tuple[Site, MatrixAccess]]) -> Example:
    """Return an example in which these matrices lie plainly in buffers of their own.

    Matrices that lie at one place in one way share one buffer.
    """
    own, edits = list[Buffer](), dict[Site, Steps]()
    moves, homes = list[Move](), dict[tuple[object, ...], Place]()
    for site, step in sites:
        matrix, tile = step.form.matrix(), step.tile
        layout = step.form.layout if matrix.operand in "ab" else "row"
        plain: Mapping[str, Any] = {"stride": None, "stride_in_register": False, "immediate": 0}
        other = _with_form(step, layout=layout, space="global").changed(**plain)
        key = (step.memory.place, tile, step.stores)
        if key not in homes:
            every = (*example.program.buffers, *own)
            own.append(new_buffer(every, matrix.operand, room_for(other.tile)))
            homes[key] = Place(buffer=own[-1].name)
            moves += [
                Move(place, was, homes[key], other.tile)
                for place, was in _accessed(example.program, step)
            ]
        edits[site] = (other.changed(place=homes[key]),)
    target = example.edited(edits, *own).tidied()
    kept = {buffer.name for buffer in target.program.buffers}
    return example.moved([move for move in moves if move.destination.buffer in kept], target)


def less_shared(example: Example) -> Iterator[Example]:
    """Iterate over examples in which one operand less shares registers.

    What is listed gets a name of its own, wherever it stands or in one step alone; an address
    leaves the destination of its load, and what registers are set to becomes zero.
    """
    program = example.program
    uses = [use for step in walk(program.steps) for use in step.uses]
    for text in dict.fromkeys(use.name for use in uses if listed(use.name)):
        bank, size = text.partition(".")[0], text.count(" ") + 1
        own = fresh_bank(program, bank)
        # Registers that are set to one number are as many as are listed.
        apart: Edits = {
            site: (step.changed(destination=own, count=size),)
            for site, step in visit(program.steps)
            if step.sets is not None and step.names["destination"] == bank and size in COUNTS
        }
        for edits in ({}, apart) if apart else ({},):
            steps = _renamed(edited(program.steps, edits), text, own)
            yield example.with_program(program.buffers, steps).tidied()
    yield from _each(_alone, example)


def _alone(_: Example, step: Step) -> Iterator[Steps]:
    for use in step.uses:
        if listed(use.name):
            changes: dict[str, Any] = {use.field: use.bank}
            yield (step.changed(**changes),)
    if step.address is not None:
        yield (step.changed(address=None),)
    elif step.sets:
        yield (step.changed(constant=0),)


def _renamed(steps: Steps, old: str, new: str) -> Steps:
    def of(step: Step) -> Step:
        changes: dict[str, Any] = {use.field: new for use in step.uses if use.name == old}
        changes |= {field: _renamed(inside, old, new) for field, inside in step.blocks.items()}
        return step.changed(**changes)

    return tuple(map(of, steps))


_PLAIN = {"e": 0x4444_4444, "ue8m0": 0x7F7F_7F7F, "ue4m3": 0x3838_3838}
"""Metadata that choose the first two elements of each chunk, which every form with metadata
allows (9.7.14.6.1), and scales of 1."""


def metadata_names(program: Program) -> dict[str, int]:
    """Return what metadata and scales are called, with what is plain of each."""
    products = (step for step in walk(program.steps) if multiplies(step))
    return {
        use.name: _PLAIN[use.field if use.field == "e" else step.form.texts["stype"]]
        for step in products
        for use in step.reads[3:]
    }


def _with_metadata(example: Example, step: Step) -> Iterator[Steps]:
    made = step.writes
    if multiplies(step):
        if step.selector:
            yield (step.changed(selector=0),)
    elif made and (plain := metadata_names(example.program).get(made.name)) not in (
        None,
        step.sets,
    ):
        count = made.holds.registers
        yield (set_registers(destination=made.name, count=count, constant=plain),)


plainer_metadata = partial(_each, _with_metadata)
"""Examples with metadata or scales set to one word, or selector 0: what the image held can go."""


_STEPS = 5  # Three loads, the multiplication, a store: nothing is around it
_MULTIPLICATIONS = 32  # Most that are tried, of a program with loops


def isolated(example: Example, *, target: str) -> Iterator[Example]:
    """Iterate over examples with one multiplication by itself, of the operands that it has there.

    What came before it can go at once; and of a chain the link that fails is left.
    """
    if sum(1 for _ in visit(example.program.steps)) <= _STEPS:
        return
    events = trace(example.program, example.image, target=target).events
    there = ((e.step.form, e.inputs) for e in events if multiplies_fragments(e.step))
    for form, operands in islice(there, _MULTIPLICATIONS):
        product = product_of(form)
        steps = single_instruction(product)
        buffers = buffers_of(steps, lambda access: room_for(access.tile))
        program = Program(buffers=buffers, steps=steps)
        image = np.zeros(program.image_bytes, np.uint8)
        for use, load in zip(product.reads, steps, strict=False):
            write(image[None], program.offset(use.field), load.tile, operands[use.field][None])
        yield Example(program=program, image=image)


def loaded(example: Example, *, target: str) -> Iterator[Example]:
    """Iterate over examples in which what a step made is loaded from the image instead.

    It has the values that the model of the target gives it. First all that no multiplication made
    (ldmatrix comes with a copy and a barrier), then one by one.
    """
    if example.program.warps > 1:
        return
    metadata = metadata_names(example.program)
    # A and B of wmma depend on a layout that may be open. Metadata that are set are smaller than
    # those that an image holds.
    steps = {
        id(step): (site, step)
        for site, step in visit(example.program.steps)
        if (use := step.writes) is not None
        and (isinstance(use.holds, Registers) or use.holds.matrix.operand == "c")
        and not is_plain_load(step)
        and not (step.sets is not None and use.name in metadata)
    }
    events = trace(example.program, example.image, target=target).events if steps else ()
    made: dict[Site, NDArray[Any]] = {}
    for event in events:
        # Of a step that is taken several times, the first time.
        if event.result is not None and id(event.step) in steps:
            made.setdefault(steps[id(event.step)][0], event.result)
    moved = {site for site, step in steps.values() if site in made and not multiplies(step)}
    for sites in ([moved] if len(moved) > 1 else []) + [{site} for site in made]:
        yield _loading(example, {site: made[site] for site in sites})


def _loading(example: Example, made: Mapping[Site, NDArray[Any]]) -> Example:
    """Return an example that loads registers (32, count) and accumulators (rows, columns)."""
    own, edits = list[Buffer](), dict[Site, Steps]()
    homes: dict[str, tuple[Tile | None, NDArray[Any]]] = {}
    for site, step in visit(example.program.steps):
        if site not in made or step.writes is None:
            continue
        holds, values = step.writes.holds, made[site]
        tile = None if isinstance(holds, Registers) else Tile(matrix=holds.matrix, layout="row")
        size = values.nbytes + GUARD_BYTES if tile is None else room_for(tile)
        own.append(new_buffer((*example.program.buffers, *own), f"g{step.writes.bank}", size))
        edits[site] = (plain_access(step.writes, Place(buffer=own[-1].name)),)
        homes[own[-1].name] = tile, values
    target = example.edited(edits, *own).tidied()
    image = target.image.copy()
    for name in homes.keys() & {buffer.name for buffer in target.program.buffers}:
        start = position(target.program, Place(buffer=name))
        tile, values = homes[name]
        if tile is None:
            image[start : start + values.nbytes] = np.frombuffer(values.tobytes(), np.uint8)
        else:
            write(image[None], start, tile, values[None])
    return target.with_image(image)


def stored(example: Example) -> Iterator[Example]:
    """Iterate over examples in which registers go to a global buffer, lane by lane.

    Of rows and of shared memory: what nothing takes out of there, a compiler can drop.
    """
    program = example.program
    for site, step in visit(program.steps):
        if stores_rows(step):
            store: Any = plain_access(step.uses[0], Place(buffer=step.memory.buffer), store=True)
        elif (
            accesses_registers(step)
            and step.stores
            and program.buffer(step.place.buffer).space == "shared"
        ):
            store = step
        else:
            continue
        (use,) = step.uses
        buffer = new_buffer(program.buffers, f"g{use.bank}", store.size + GUARD_BYTES)
        there = replace(store, place=Place(buffer=buffer.name))
        yield example.edited({site: (there,)}, buffer).tidied()


def unbound(example: Example) -> Iterator[Example]:
    """Iterate over examples whose threads have as many registers as their compiler takes."""
    if example.program.registers:
        yield Example(program=replace(example.program, registers=0), image=example.image)
