"""The strategy for programs that the ISA leaves undefined: one access of a defined one is damaged.

What they touch lies inside of the image and of the warp's shared memory, so that nothing but their
own bytes can be harmed. They are run apart, recorded, and not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import strategies as st

from oracle.forms import ROW_BYTES, Form
from oracle.lane_steps import LoadRegisters, LoadRows, StoreRegisters, StoreRows
from oracle.places import Place
from oracle.program import Program
from oracle.steps import Barrier, Branch, Copy, Load, Loop, Step, Store
from oracle.storage import Tile
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
    missing, or, where there is nothing else to damage, a copy onto itself. They shrink as
    `programs` do, towards the first of these that is possible.

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
    dice = drawn_dice(draw)
    # Loops and branches that are never taken would hide what stands in them.
    places = [
        index
        for index, step in enumerate(program.steps)
        if isinstance(step, Load | Store | LoadRows | StoreRows | LoadRegisters | StoreRegisters)
    ]
    options: list[tuple[int, Step | None]] = [
        (index, damaged)
        for index in places
        for damaged in _damages(program, program.steps[index], dice.below(8))
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
    match step:
        case Load() | Store():
            yield from _wrong_strides(step, more)
            yield from _wrong_places(program, step, more)
        case LoadRows() | StoreRows():
            size, (first, *others) = ROW_BYTES, step.addresses
            yield replace(step, addresses=(first + 1 + more, *others))
            for outside in _outside(program, step.buffer, size, size):
                yield replace(step, addresses=(outside, *others))
        case LoadRegisters() | StoreRegisters():
            for offset in _outside(program, step.place.buffer, step.size, step.bits // 8):
                yield replace(step, place=replace(step.place, offset=offset))


def _wrong_strides(step: Load | Store, more: int) -> Iterator[Load | Store]:
    matrix = step.form.matrix()
    default = matrix.default_stride(step.form.layout)
    # Lines start at whole bytes, which a stride of elements of 4 bits or one need not give.
    whole = max(1, 8 // matrix.type.bits)
    below = default * more // 8 // whole * whole
    yield replace(step, stride=below)
    unit = unit_bytes(matrix, shared=False) * 8 // matrix.type.bits
    if unit > whole and step.stride is not None and step.stride > default:
        yield replace(step, stride=step.stride - whole)


def _wrong_places(program: Program, step: Load | Store, more: int) -> Iterator[Load | Store]:
    matrix = step.form.matrix()
    tile = Tile(matrix=matrix, layout=step.form.layout, stride=step.stride)
    unit = unit_bytes(matrix, shared=False)
    buffer, offset = step.place.buffer, step.place.offset
    distance = 1 + more % (unit - 1)
    shifted = offset + distance
    if shifted + tile.extent > program.buffer(buffer).size:
        shifted = offset - distance
    if shifted >= 0:
        yield replace(step, place=Place(buffer=buffer, offset=shifted))
    for outside in _outside(program, buffer, tile.extent, unit):
        yield replace(step, place=Place(buffer=buffer, offset=outside))


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
        match step:
            case Barrier() if barrier is None and program.shared_bytes:
                barrier = index
            case Load() | Store() if _is_shared(program, step.place.buffer):
                break
            case LoadRows() | StoreRows():
                break
            case LoadRegisters() | StoreRegisters() if _is_shared(program, step.place.buffer):
                break
            case Barrier() | Branch() | Loop():
                return
    if barrier is not None:
        yield barrier


def _is_shared(program: Program, buffer: str) -> bool:
    return program.buffer(buffer).space == "shared"


def _overlapping_copy(program: Program) -> Copy:
    """Return a copy onto itself, one byte further on: any program can have it."""
    buffer = next(buffer for buffer in program.buffers if buffer.space == "global")
    return Copy(
        source=Place(buffer=buffer.name), destination=Place(buffer=buffer.name, offset=1), size=2
    )
