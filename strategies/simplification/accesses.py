"""Plainer loads and stores of matrices: strides, offsets, layouts, state spaces, buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from oracle.forms import ROW_BYTES, Form
from oracle.isa import FORMS, MMA_FORMS
from oracle.matrices import LANES
from oracle.operands import first_registers
from oracle.ops import (
    MatrixAccess,
    RowAccess,
    Rows,
    accesses_matrix,
    accesses_rows,
    loads_fragment,
    memory_of,
    multiplies_fragments,
)
from oracle.places import WORD_BYTES, Buffer, Place, Word
from oracle.program import Program
from oracle.steps import Copy, PlainAccess, Step, accesses_registers, copies_bytes
from strategies.matrices import places_of
from strategies.simplification.examples import (
    Example,
    Move,
    Site,
    Steps,
    bytes_moved,
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


def plainer_transfers(example: Example) -> Iterator[Example]:
    """Iterate over examples in which one thing about one such step is as it is by default."""
    for site, step in visit(example.program.steps):
        if accesses_rows(step):
            yield from _plainer_rows(example, site, step)
        elif accesses_registers(step):
            yield from _plainer_registers(example, site, step)
        elif copies_bytes(step):
            yield from _plainer_copies(example, site, step)
        elif isinstance(step.uniform, Word):
            yield from _first_word(example, site, step, step.uniform)


def _changed(example: Example, edits: dict[Site, Steps]) -> Example:
    return example.with_program(example.program.buffers, edited(example.program.steps, edits))


def _plainer_rows(example: Example, site: Site, step: RowAccess) -> Iterator[Example]:
    form, (use,) = step.form, step.uses
    addresses = step.memory.addresses
    plain = tuple(range(0, LANES * ROW_BYTES, ROW_BYTES))
    if step.memory.immediate:
        yield _changed(example, {site: (step.changed(immediate=0),)})
    if step.memory.computed:
        yield _changed(example, {site: (step.changed(computed=()),)})
    for changes in ({"num": "x1", "trans": "", "space": "shared"}, {"num": "x1"}, {"trans": ""},
                    {"space": "shared"}):  # fmt: skip
        simpler = _ROW_FORMS.get(form.varied(**changes).opcode)
        if simpler is not None and simpler != form:
            fewer = first_registers(use, simpler.registers)
            edits: dict[Site, Steps] = {site: (step.changed(form=simpler, registers=fewer),)}
            for other_site, other in visit(example.program.steps):
                if accesses_registers(other) and other.registers == use.name:
                    fewer = first_registers(other.uses[0], simpler.registers)
                    edits[other_site] = (replace(other, count=simpler.registers, registers=fewer),)
            yield _changed(example, edits)
    if addresses != plain:
        yield from _readdressed(example, site, step, plain)
        for lane, address in enumerate(addresses):
            if address != plain[lane]:
                one = (*addresses[:lane], plain[lane], *addresses[lane + 1 :])
                yield from _readdressed(example, site, step, one)


def _readdressed(
    example: Example, site: Site, step: RowAccess, addresses: tuple[int, ...]
) -> Iterator[Example]:
    """Iterate over examples with other addresses: with the rows behind them moved, and without."""
    other = step.changed(addresses=addresses)
    target = _changed(example, {site: (other,)})
    buffer, size = step.memory.buffer, ROW_BYTES
    runs = [
        (source, destination, size)
        for old, new in zip(step.memory.addresses, addresses, strict=True)
        for source, destination in zip(
            places_of(example.program, Place(buffer=buffer, offset=old), stored=step.stores),
            places_of(target.program, Place(buffer=buffer, offset=new), stored=step.stores),
            strict=False,
        )
    ]
    yield bytes_moved(example, runs[: step.form.addresses], target)
    yield target


def _plainer_registers(example: Example, site: Site, step: PlainAccess) -> Iterator[Example]:
    if step.lanes != LANES:
        yield _changed(example, {site: (replace(step, lanes=LANES),)})
    if step.place.offset:
        other = replace(step, place=replace(step.place, offset=0))
        target = _changed(example, {site: (other,)})
        yield bytes_moved(example, [(step.place, other.place, step.size)], target)
        yield target
    if example.program.buffer(step.place.buffer).space == "shared":
        for place in places_of(example.program, step.place, stored=step.stores):
            yield tidied(_changed(example, {site: (replace(step, place=place),)}))


def _plainer_copies(example: Example, site: Site, step: Copy) -> Iterator[Example]:
    for other in (
        replace(step, source=replace(step.source, offset=0)),
        replace(step, destination=replace(step.destination, offset=0)),
    ):
        if other != step:
            target = _changed(example, {site: (other,)})
            yield bytes_moved(
                example,
                [
                    (step.source, other.source, step.size),
                    (step.destination, other.destination, step.size),
                ],
                target,
            )
            yield target


def _first_word(example: Example, site: Site, step: Step, word: Word) -> Iterator[Example]:
    """Iterate over examples that read a word at the start of its buffer."""
    if not word.place.offset:
        return
    first = replace(word, place=replace(word.place, offset=0))
    changes = {name: first for name, value in step.fields.items() if value == word}
    target = _changed(example, {site: (step.changed(**changes),)})
    yield bytes_moved(example, [(word.place, first.place, WORD_BYTES)], target)
    yield target


_Sites = Sequence[tuple[Site, MatrixAccess]]


def plain_all(example: Example) -> Iterator[Example]:
    """Iterate over examples in which every matrix lies plainly in a buffer of its own.

    First with layouts of A and B turned to row-major as well, then with those as they are.
    """
    turned = _row_major(example, "ab", None)
    for start in [turned, example] if turned is not None else [example]:
        sites = list(_accesses(start.program))
        if turned is start or any(not _is_plain(start.program, step) for _, step in sites):
            yield _plain(start, sites)


def plain_one(example: Example) -> Iterator[Example]:
    """Iterate over examples in which one matrix lies plainly in a buffer of its own."""
    for site, step in _accesses(example.program):
        if not _is_plain(example.program, step):
            yield _plain(example, [(site, step)])


def plainer_accesses(example: Example) -> Iterator[Example]:
    """Iterate over examples in which one thing about one load or store is as it is by default."""
    for site, step in _accesses(example.program):
        for other in _plainer(example.program, step):
            steps = edited(example.program.steps, {site: (other,)})
            target = example.with_program(example.program.buffers, steps)
            yield _following(example, step, other, target)
            yield tidied(target)


def row_major(example: Example) -> Iterator[Example]:
    """Iterate over examples in which A or B is row-major: all of them, or one fragment."""
    products = [step for _, step in visit(example.program.steps) if multiplies_fragments(step)]
    names = dict.fromkeys(step.names[operand] for operand in "ab" for step in products)
    for name in (None, *names):
        for operands in ("ab", "a", "b"):
            turned = _row_major(example, operands, name)
            if turned is not None:
                yield turned


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
                    source_tile=tile,
                    destination=homes[key],
                    destination_tile=other.tile,
                )
                for place in image_places(example.program, step)
            ]
        edits[site] = (other.changed(place=homes[key]),)
    steps = edited(example.program.steps, edits)
    target = tidied(example.with_program(buffers, steps))
    kept = {buffer.name for buffer in target.program.buffers}
    return moved(example, [move for move in moves if move.destination.buffer in kept], target)


def _plainer(program: Program, step: MatrixAccess) -> Iterator[MatrixAccess]:
    """Iterate over accesses of which one thing is the default."""
    form, memory = step.form, step.memory
    space = program.buffer(memory.place.buffer).space
    if memory.stride is not None:
        yield step.changed(stride=None, stride_in_register=False)
    if memory.stride_in_register:
        yield step.changed(stride_in_register=False)
    if memory.immediate:
        yield step.changed(immediate=0)
    if memory.place.offset:
        yield step.changed(place=replace(memory.place, offset=0))
    if form.space != space:
        yield with_form(step, layout=form.layout, space=space)
    if space == "shared":
        for place in image_places(program, step):
            yield with_form(step, layout=form.layout, space="global").changed(place=place)
    if form.layout != "row" and form.matrix().operand not in "ab":
        yield with_form(step, layout="row", space=form.space)


def _following(
    example: Example, step: MatrixAccess, other: MatrixAccess, target: Example
) -> Example:
    """Return a target whose image has the values of a step's matrix where the other has it."""
    moves = [
        Move(source=old, source_tile=step.tile, destination=new, destination_tile=other.tile)
        for old, new in zip(
            image_places(example.program, step), image_places(target.program, other), strict=False
        )
    ]
    return tidied(moved(example, moves, target))


def _row_major(example: Example, operands: str, name: str | None) -> Example | None:
    """Return an example in which multiplicands are row-major, all or those of one fragment.

    None if they are already, or some form does not exist so.
    """
    edits: dict[Site, Steps] = {}
    moves: list[Move] = []
    changed = False
    for site, step in visit(example.program.steps):
        if (
            loads_fragment(step)
            and step.form.matrix().operand in operands
            and name in (None, step.names["fragment"])
        ):
            other = with_form(step, layout="row", space=step.form.space)
            if step.memory.stride is not None:
                other = other.changed(stride=None, stride_in_register=False)
            edits[site] = (other,)
            changed = changed or other != step
            moves += [
                Move(
                    source=place, source_tile=step.tile,
                    destination=place, destination_tile=other.tile,
                )
                for place in image_places(example.program, step)
            ]  # fmt: skip
        elif multiplies_fragments(step):
            form = _with_rows(
                step.form,
                a="a" in operands and name in (None, step.names["a"]),
                b="b" in operands and name in (None, step.names["b"]),
            )
            if form is None:
                return None
            edits[site] = (replace(step, form=form),)
            changed = changed or form != step.form
    if not changed:
        return None
    target = example.with_program(example.program.buffers, edited(example.program.steps, edits))
    return moved(example, moves, target)


def _with_rows(form: Form, *, a: bool, b: bool) -> Form | None:
    """Return a multiplication of row-major A or B, or None if there is none."""
    wanted = form.varied(
        alayout="row" if a else form.a_layout, blayout="row" if b else form.b_layout
    )
    return next((other for other in MMA_FORMS if other == wanted), None)
