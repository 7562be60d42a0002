"""The strategy for programs that the ISA leaves undefined: one access of a defined one is damaged.

What they touch lies inside of the image and of the warp's shared memory, so that nothing but their
own bytes can be harmed. They are run apart, recorded, and not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.control import current_build_context

from oracle.forms import ROW_BYTES, Form
from oracle.ops import MatrixAccess, accesses_matrix, accesses_rows
from oracle.places import Place
from oracle.program import Program, walk
from oracle.steps import Copy, Step, accesses_registers
from oracle.targets import Module
from strategies.features import Focus, unit_bytes
from strategies.programs.builder import drawn_dice
from strategies.programs.drawing import programs


def undefined_programs(
    focus: Focus, *, module: Module, forms: tuple[Form, ...]
) -> st.SearchStrategy[Program]:
    """Draw programs that a target has and the ISA leaves undefined.

    `oracle.definedness.undefined` gives the reason of each: a stride below the default, a base or
    a stride that is not aligned, a matrix or row that leaves its buffer, a barrier that is
    missing, metadata without a meaning, or, where there is nothing else to damage, a copy onto
    itself. They shrink as `programs` do, towards the first of these that is possible.

    Parameters
    ----------
    focus, module, forms
        As for `programs`.

    Raises
    ------
    UsageError
        As for `programs`.
    """
    return _damaged(programs(focus, module=module, forms=forms))


@st.composite
def _damaged(draw: st.DrawFn, defined: st.SearchStrategy[Program]) -> Program:
    program = draw(defined)
    dice = drawn_dice(current_build_context().data)
    # Loops and branches that are never taken would hide what stands in them.
    options: list[tuple[int, Step | None]] = [
        (index, damaged)
        for index, step in enumerate(program.steps)
        if _accesses(step) or step.sets is not None
        for damaged in _damages(program, step, dice.below(8))
    ]
    options += [(index, None) for index in _needed_barriers(program)]
    if not options:
        options.append((len(program.steps), _overlapping_copy(program)))
    index, step = dice.one_of(options)
    middle = () if step is None else (step,)
    steps = (*program.steps[:index], *middle, *program.steps[index + 1 :])
    return replace(program, steps=steps)


def _damages(program: Program, step: Step, more: int) -> Iterator[Step]:
    """Yield a step with one thing wrong, for each thing that can be."""
    if accesses_matrix(step):
        yield from _wrong_strides(step, more)
        yield from _wrong_places(program, step, more)
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


def _wrong_strides(step: MatrixAccess, more: int) -> Iterator[MatrixAccess]:
    matrix = step.form.matrix()
    default = matrix.default_stride(step.form.layout)
    # Lines start at whole bytes, which a stride of elements of 4 bits or one need not give.
    whole = max(1, 8 // matrix.type.bits)
    below = default * more // 8 // whole * whole
    yield step.changed(stride=below)
    unit = unit_bytes(matrix, shared=False) * 8 // matrix.type.bits
    stride = step.memory.stride
    if unit > whole and stride is not None and stride > default:
        yield step.changed(stride=stride - whole)


def _wrong_places(program: Program, step: MatrixAccess, more: int) -> Iterator[MatrixAccess]:
    tile, unit = step.tile, unit_bytes(step.form.matrix(), shared=False)
    buffer, offset = step.memory.place.buffer, step.memory.place.offset
    distance = 1 + more % (unit - 1)
    shifted = offset + distance
    if shifted + tile.extent > program.buffer(buffer).size:
        shifted = offset - distance
    if shifted >= 0:
        yield step.changed(place=Place(buffer=buffer, offset=shifted))
    for outside in _outside(program, buffer, tile.extent, unit):
        yield step.changed(place=Place(buffer=buffer, offset=outside))


def _outside(program: Program, buffer: str, size: int, unit: int) -> Iterator[int]:
    """Yield offsets from which bytes leave a buffer, but not the image or the shared memory."""
    row, start = program.buffer(buffer), program.offset(buffer)
    end = program.shared_bytes if row.space == "shared" else program.image_bytes
    if start >= unit:
        yield -unit
    behind = (row.size - size) // unit * unit + unit
    if start + behind + size <= end:
        yield behind


def _needed_barriers(program: Program) -> Iterator[int]:
    """Yield where the barrier stands behind the copies that fill shared memory, if it is needed.

    It is if shared memory is accessed before the next barrier; steps inside of branches and loops
    may have one of their own.
    """
    barrier = None
    for index, step in enumerate(program.steps):
        if step.action == "barrier" and barrier is None and program.shared_bytes:
            barrier = index
        elif step.action == "barrier" or step.blocks:
            return
        elif _accesses(step) and any(
            program.buffer(span.buffer).space == "shared"
            for span in (*step.bytes_read, *step.bytes_written)
        ):
            break
    if barrier is not None:
        yield barrier


def _accesses(step: Step) -> bool:
    """Whether a step loads or stores registers."""
    return bool(step.uses and (step.bytes_read or step.bytes_written))


def _overlapping_copy(program: Program) -> Copy:
    """Return a copy onto itself, one byte further on: any program can have it."""
    buffer = next(buffer for buffer in program.buffers if buffer.space == "global")
    return Copy(
        source=Place(buffer=buffer.name), destination=Place(buffer=buffer.name, offset=1), size=2
    )
