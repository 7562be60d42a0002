"""Plainer loads and stores: strides, offsets, layouts, state spaces, addresses, buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from oracle.forms import ROW_BYTES
from oracle.isa import FORMS
from oracle.matrices import LANES
from oracle.operands import first_registers
from oracle.ops import (
    MatrixAccess,
    RowAccess,
    Rows,
    accesses_matrix,
    accesses_rows,
    memory_of,
)
from oracle.places import WORD_BYTES, Buffer, Place, Word
from oracle.program import Program
from oracle.steps import Step, accesses_registers, copies_bytes
from oracle.storage import Tile
from strategies.matrices import places_of
from strategies.simplification.examples import (
    Example,
    Move,
    Site,
    Steps,
    edited,
    image_places,
    moved,
    new_buffer,
    room_for,
    visit,
    with_form,
)
from strategies.simplification.structure import tidied

_ROW_FORMS = {form.opcode: form for form in FORMS if memory_of(form) is Rows}
_ROWS = tuple(range(0, LANES * ROW_BYTES, ROW_BYTES))
"""Addresses of rows that lie one behind the other."""
_DEFAULTS: Mapping[str, Any] = {
    "stride": None, "stride_in_register": False, "immediate": 0, "computed": (), "lanes": LANES,
}  # fmt: skip
"""Fields of steps that have a default."""


def plainer_accesses(example: Example) -> Iterator[Example]:
    """Iterate over examples in which one thing about one step is as it is by default.

    First with what it accesses moved along in the image, then with the image as it is.
    """
    for site, step in visit(example.program.steps):
        if accesses_rows(step):
            yield from _fewer_rows(example, site, step)
        for other in _plainer(example.program, step):
            steps = edited(example.program.steps, {site: (other,)})
            target = example.with_program(example.program.buffers, steps)
            moves = [
                Move(source=old, source_extent=was, destination=new, destination_extent=now)
                for (old, was), (new, now) in zip(
                    _accessed(example.program, step), _accessed(target.program, other), strict=False
                )
            ]
            yield tidied(moved(example, moves, target))
            yield tidied(target)


def _plainer(program: Program, step: Step) -> Iterator[Step]:
    """Iterate over steps of which one thing is the default."""
    for name, value in step.fields.items():
        if value != _DEFAULTS.get(name, value):
            also = {"stride_in_register": False} if name == "stride" else {}
            yield step.changed(**{name: _DEFAULTS[name]}, **also)
        elif isinstance(value, Place) and value.offset:
            yield step.changed(**{name: replace(value, offset=0)})
        elif isinstance(value, Word) and value.place.offset:
            first = replace(value, place=replace(value.place, offset=0))
            yield step.changed(**{own: first for own, one in step.fields.items() if one == value})
    if accesses_registers(step) and program.buffer(step.place.buffer).space == "shared":
        yield from (
            step.changed(place=place)
            for place in places_of(program, step.place, stored=step.stores)
        )
    if accesses_matrix(step):
        form, space = step.form, program.buffer(step.memory.place.buffer).space
        if form.space != space:
            yield with_form(step, layout=form.layout, space=space)
        if space == "shared":
            for place in image_places(program, step):
                yield with_form(step, layout=form.layout, space="global").changed(place=place)
        if form.layout != "row" and form.matrix().operand not in "ab":
            yield with_form(step, layout="row", space=form.space)
    if accesses_rows(step) and step.memory.addresses != _ROWS:
        yield step.changed(addresses=_ROWS)
        for lane, (address, plain) in enumerate(zip(step.memory.addresses, _ROWS, strict=True)):
            if address != plain:
                addresses = (*step.memory.addresses[:lane], plain)
                yield step.changed(addresses=addresses + step.memory.addresses[lane + 1 :])


def _accessed(program: Program, step: Step) -> Iterator[tuple[Place, Tile | int]]:
    """Iterate over where the image has what a step accesses, each with its tile or its bytes."""
    if accesses_matrix(step):
        yield from ((place, step.tile) for place in image_places(program, step))
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
    """Iterate over examples in which an instruction moves one matrix, as it is, in any space."""
    form, (use,) = step.form, step.uses
    for changes in ({"num": "x1", "trans": "", "space": "shared"}, {"num": "x1"}, {"trans": ""},
                    {"space": "shared"}):  # fmt: skip
        simpler = _ROW_FORMS.get(form.varied(**changes).opcode)
        if simpler is None or simpler == form:
            continue
        fewer = first_registers(use, simpler.registers)
        edits: dict[Site, Steps] = {site: (step.changed(form=simpler, registers=fewer),)}
        for other_site, other in visit(example.program.steps):
            if accesses_registers(other) and other.registers == use.name:
                own = first_registers(other.uses[0], simpler.registers)
                edits[other_site] = (replace(other, count=simpler.registers, registers=own),)
        yield example.with_program(example.program.buffers, edited(example.program.steps, edits))


_Sites = Sequence[tuple[Site, MatrixAccess]]


def plain_all(example: Example) -> Iterator[Example]:
    """Yield an example in which every matrix lies plainly in a buffer of its own."""
    sites = list(_accesses(example.program))
    if any(not _is_plain(example.program, step) for _, step in sites):
        yield _plain(example, sites)


def plain_one(example: Example) -> Iterator[Example]:
    """Iterate over examples in which one matrix lies plainly in a buffer of its own."""
    for site, step in _accesses(example.program):
        if not _is_plain(example.program, step):
            yield _plain(example, [(site, step)])


def _accesses(program: Program) -> Iterator[tuple[Site, MatrixAccess]]:
    for site, step in visit(program.steps):
        if accesses_matrix(step):
            yield site, step


def _is_plain(program: Program, step: MatrixAccess) -> bool:
    """Whether a matrix is reached as simply as can be; multiplicands may be column-major."""
    memory = step.memory
    return (
        memory.stride is None
        and memory.immediate == 0
        and memory.place.offset == 0
        and step.form.space == program.buffer(memory.place.buffer).space == "global"
        and (step.form.layout == "row" or step.form.matrix().operand in "ab")
    )


def _plain(example: Example, sites: _Sites) -> Example:
    """Return an example in which these matrices lie plainly in buffers of their own.

    Matrices that lie at one place in one way share one buffer.
    """
    buffers: list[Buffer] = list(example.program.buffers)
    edits: dict[Site, Steps] = {}
    moves: list[Move] = []
    homes: dict[tuple[object, ...], Place] = {}
    for site, step in sites:
        form, tile = step.form, step.tile
        layout = form.layout if form.matrix().operand in "ab" else "row"
        other = with_form(step, layout=layout, space="global").changed(
            stride=None, stride_in_register=False, immediate=0
        )
        key = (step.memory.place, tile, step.stores)
        if key not in homes:
            buffer = new_buffer(buffers, form.matrix().operand, room_for(other.tile))
            buffers.append(buffer)
            homes[key] = Place(buffer=buffer.name)
            moves += [
                Move(
                    source=place,
                    source_extent=tile,
                    destination=homes[key],
                    destination_extent=other.tile,
                )
                for place in image_places(example.program, step)
            ]
        edits[site] = (other.changed(place=homes[key]),)
    steps = edited(example.program.steps, edits)
    target = tidied(example.with_program(buffers, steps))
    kept = {buffer.name for buffer in target.program.buffers}
    return moved(example, [move for move in moves if move.destination.buffer in kept], target)
