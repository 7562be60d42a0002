"""Strategies for programs that the ISA leaves undefined, apart from those for defined ones.

One access of a defined program is damaged, inside of the image and of the shared memory, or what
orders the multiplications of a warpgroup. They are run apart, recorded, and not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.strategies import SearchStrategy

from oracle.isa.forms import ROW_BYTES, Form
from oracle.isa.lookup import form_of
from oracle.isa.targets import Module
from oracle.program.definedness import undefined
from oracle.program.operands import Place, text_of
from oracle.program.operations import move_registers, set_registers
from oracle.program.program import Program, walk
from oracle.program.steps import (
    Barrier,
    Copy,
    MatrixAccess,
    Step,
    accesses_matrix,
    accesses_registers,
    accesses_rows,
)
from oracle.program.warpgroup import MAX_PENDING, SYNCS, AsyncProduct, WarpgroupSync
from strategies.draws import Drawn
from strategies.features import Focus, unit_bytes
from strategies.programs.builder import DIGITS, Dice
from strategies.programs.drawing import programs


def undefined_programs(
    focus: Focus, *, module: Module, forms: tuple[Form, ...]
) -> SearchStrategy[Program]:
    """Draw programs that a target has and the ISA leaves undefined.

    A stride is below the default, a base or a stride not aligned, a matrix or row leaves its
    buffer, a barrier is missing, metadata have no meaning, or a copy is onto itself; a program of a
    warpgroup has one of `GROUP_DAMAGES`. `undefined` says which. Parameters and errors as of
    `programs`.
    """
    defined = programs(focus, module=module, forms=forms)

    def drawn(data: ConjectureData) -> Program:
        program, dice = data.draw(defined), Dice(data.draw_integer(0, DIGITS))
        if program.warps > 1:
            return _unordered(program, dice, module.target.name)
        return _damaged(program, dice)

    return Drawn(drawn)


def _damaged(program: Program, dice: Dice) -> Program:
    # Loops and branches that are never taken would hide what stands in them.
    options: list[tuple[int, Step | None]] = [
        (index, damaged)
        for index, step in enumerate(program.steps)
        if _accesses(step) or step.sets is not None
        for damaged in _damages(program, step, dice.below(8))
    ]
    options += [(barrier, None) for barrier in _needed_barrier(program)]
    if not options:
        # A copy onto itself, one byte further on: any program can have it.
        name = next(buffer.name for buffer in program.buffers if buffer.space == "global")
        there = Place(buffer=name, offset=1)
        copy = Copy(source=Place(buffer=name), destination=there, size=2)
        options.append((len(program.steps), copy))
    index, step = dice.one_of(options)
    steps = [*program.steps]
    steps[index : index + 1] = [] if step is None else [step]
    return replace(program, steps=tuple(steps))


def _damages(program: Program, step: Step, more: int) -> Iterator[Step]:
    if accesses_matrix(step):
        yield from _of_matrix(program, step, more)
    elif accesses_rows(step):
        size, (first, *others) = ROW_BYTES, step.memory.addresses
        yield step.changed(addresses=(first + 1 + more, *others))
        for outside in _outside(program, step.memory.buffer, size, size):
            yield step.changed(addresses=(outside, *others))
    elif accesses_registers(step):
        for offset in _outside(program, step.place.buffer, step.size, step.bits // 8):
            yield step.changed(place=replace(step.place, offset=offset))
    elif step.writes is not None and any(
        use.field == "e" and use.name == step.writes.name
        for one in walk(program.steps)
        for use in one.uses
    ):
        # Metadata: the same element twice (9.7.14.6.1).
        yield step.changed(constant=(0x0000_0000, 0x5555_5555, 0xFFFF_FFFF)[more % 3])


def _of_matrix(program: Program, step: MatrixAccess, more: int) -> Iterator[MatrixAccess]:
    tile, matrix, stride = step.tile, step.form.matrix(), step.memory.stride
    default, unit = matrix.default_stride(step.form.layout), unit_bytes(matrix, shared=False)
    # Lines start at whole bytes, which a stride of elements of 4 bits or one need not give.
    whole = max(1, 8 // matrix.type.bits)
    yield step.changed(stride=default * more // 8 // whole * whole)
    if unit * 8 // matrix.type.bits > whole and stride is not None and stride > default:
        yield step.changed(stride=stride - whole)
    buffer, offset = step.memory.place.buffer, step.memory.place.offset
    distance = 1 + more % (unit - 1)
    fits = offset + distance + tile.extent <= program.buffer(buffer).size
    shifted = offset + distance if fits else offset - distance
    inside = [shifted] if shifted >= 0 else []
    for other in (*inside, *_outside(program, buffer, tile.extent, unit)):
        yield step.changed(place=Place(buffer=buffer, offset=other))


def _outside(program: Program, buffer: str, size: int, unit: int) -> Iterator[int]:
    row, start = program.buffer(buffer), program.offset(buffer)
    end = program.shared_bytes if row.space == "shared" else program.image_bytes
    if start >= unit:
        yield -unit
    behind = (row.size - size) // unit * unit + unit
    if start + behind + size <= end:
        yield behind


def _needed_barrier(program: Program) -> list[int]:
    """Return where the barrier stands behind the copies that fill shared memory, if it is needed.

    It is if shared memory is accessed before the next barrier, branch or loop.
    """
    barrier: list[int] = []
    for index, step in enumerate(program.steps):
        if step.action == "barrier" and not barrier and program.shared_bytes:
            barrier = [index]
        elif step.action == "barrier" or step.blocks:
            return []
        elif _accesses(step) and any(
            program.buffer(span.buffer).space == "shared"
            for span in (*step.bytes_read, *step.bytes_written)
        ):
            break
    return barrier


def _accesses(step: Step) -> bool:
    return bool(step.uses and (step.bytes_read or step.bytes_written))


# Programs of warpgroups

Damage = Callable[[Step], Iterable[tuple[Step, ...]]]
"""Returns what may stand in the place of a step."""


def _left_out(kind: str, step: Step) -> Iterator[tuple[Step, ...]]:
    if isinstance(step, WarpgroupSync) and step.kind == kind:
        yield ()


def _waited_less(step: Step) -> Iterator[tuple[Step, ...]]:
    if isinstance(step, WarpgroupSync) and step.kind == "wait_group" and step.pending < MAX_PENDING:
        yield (step.changed(pending=step.pending + 1),)


def _read_in_flight(step: Step) -> Iterator[tuple[Step, ...]]:
    if isinstance(step, AsyncProduct):
        (first, *_), _, _ = step.accumulator
        yield step, move_registers(source=text_of([first]), destination="seen", count=1)


def _written_in_flight(step: Step) -> Iterator[tuple[Step, ...]]:
    if isinstance(step, AsyncProduct) and step.a:
        (first, *_) = next(use.registers for use in step.uses if use.field == "a")
        yield step, set_registers(destination=text_of([first]), count=1, constant=0)


def _shared_otherwise(step: Step) -> Iterator[tuple[Step, ...]]:
    if isinstance(step, AsyncProduct):
        registers, shape, _ = step.accumulator
        if step.form.shape.n > 8:
            least = step.form.opcode.replace(shape, f"m64n8k{step.form.shape.k}")
            yield step, step.changed(form=form_of(least))
        else:
            yield step, step.changed(d=text_of(registers[::-1]))


def _added(step: Step) -> Iterator[tuple[Step, ...]]:
    if isinstance(step, AsyncProduct) and step.scale_d != 1:
        yield (step.changed(scale_d=1),)


GROUP_DAMAGES: Mapping[str, Damage] = {
    **{kind: partial(_left_out, kind) for kind in SYNCS},
    "barrier": lambda step: [()] if isinstance(step, Barrier) else [],
    "wait for a group less": _waited_less,
    "D added that nothing wrote": _added,
    "D read in flight": _read_in_flight,
    "A written in flight": _written_in_flight,
    "accumulator of another shape or order": _shared_otherwise,
}
"""What makes a program of a warpgroup undefined, at the most of its steps, by what is left out or
done (PTX ISA 9.7.15.4, 9.7.15.7)."""


def damaged(steps: tuple[Step, ...], damage: Damage) -> Iterator[tuple[Step, ...]]:
    """Iterate over steps with one of them damaged, also of those inside of loops and branches."""
    for index, step in enumerate(steps):
        before, behind = steps[:index], steps[index + 1 :]
        for instead in damage(step):
            yield (*before, *instead, *behind)
        for name, block in step.blocks.items():
            for inside in damaged(block, damage):
                if inside:
                    yield (*before, step.changed(**{name: inside}), *behind)


def _unordered(program: Program, dice: Dice, target: str) -> Program:
    """Return a program of a warpgroup with the damage that is drawn, or the next that damages."""
    names = [*GROUP_DAMAGES]
    first, place = dice.below(len(names)), dice.below(1 << 16)
    for name in (*names[first:], *names[:first]):
        found = [*damaged(program.steps, GROUP_DAMAGES[name])]
        start = place % max(1, len(found))
        for steps in (*found[start:], *found[:start]):
            other = replace(program, steps=steps)
            if undefined(other, target=target):
                return other
    return program  # there is none where it comes to no multiplication
