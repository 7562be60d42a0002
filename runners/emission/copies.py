"""Copies between buffers: the lanes take units of up to 16 bytes in turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oracle.places import Place
from oracle.program import Program
from oracle.steps import Copy
from runners.emission.addresses import address, displaced
from runners.emission.body import Body, braced
from runners.kernels import LANES

_WIDTHS = (16, 8, 4, 2, 1)
"""Bytes that one lane can move at a time."""
_UNROLLED = 8
"""Most rounds of one copy that are written out; more become a loop."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a copy, in units of one width."""

    source: Place
    destination: Place
    width: int
    """Bytes of a unit, to whose multiples both ends are aligned: 16, 8, 4, 2 or 1."""
    units: int


def pieces(program: Program, step: Copy) -> Iterator[Piece]:
    """Iterate over the parts of a copy: each as wide as its ends allow, then what is left."""
    done = 0
    while done < step.size:
        source = _shifted(step.source, done)
        destination = _shifted(step.destination, done)
        width = _width(program, source, destination, step.size - done)
        units = (step.size - done) // width
        yield Piece(source=source, destination=destination, width=width, units=units)
        done += units * width


def write_copy(body: Body, program: Program, step: Copy) -> None:
    """Append the instructions of a copy."""
    for piece in pieces(program, step):
        _write_units(body, program, piece)


def _shifted(place: Place, distance: int) -> Place:
    return Place(buffer=place.buffer, offset=place.offset + distance)


def _width(program: Program, source: Place, destination: Place, size: int) -> int:
    """Return the widest unit to whose multiple both ends are aligned, and of which one fits."""
    ends = [program.offset(place.buffer) + place.offset for place in (source, destination)]
    return next(
        width for width in _WIDTHS if width <= size and all(end % width == 0 for end in ends)
    )


def _write_units(body: Body, program: Program, piece: Piece) -> None:
    """Copy the units of a piece; lane l takes every 32nd from the l-th on."""
    source, destination, width = piece.source, piece.destination, piece.width
    lane = body.scratch("b64")
    body.add(f"mul.wide.u32 {lane}, {body.use('%lane')}, {width}")
    spaces = [program.buffer(place.buffer).space for place in (source, destination)]
    # The operands come as "[register]": rounds are told apart by the immediate.
    pointers = [
        address(body, program, place, space, lane=lane)[1:-1]
        for place, space in zip((source, destination), spaces, strict=True)
    ]
    reading, writing = (body.spelled(space) for space in spaces)
    # A byte travels in a 16-bit register, as in what nvcc emits.
    size = "b32" if width >= 4 else "b16"
    registers = tuple(body.scratch(size) for _ in range(max(1, width // 4)))
    vector = braced(registers) if len(registers) > 1 else registers[0]
    type_ = {16: "v4.b32", 8: "v2.b32", 4: "b32", 2: "b16", 1: "b8"}[width]

    def move(distance: int, guard: str = "") -> None:
        load, store = (displaced(pointer, distance) for pointer in pointers)
        body.add(f"ld.{reading}.{type_} {vector}, {load}", guard=guard)
        body.add(f"st.{writing}.{type_} {store}, {vector}", guard=guard)

    rounds, rest = divmod(piece.units, LANES)
    if rounds > _UNROLLED:
        with body.repeated("COPY", rounds):
            move(0)
            for pointer in pointers:
                body.add(f"add.s64 {pointer}, {pointer}, {LANES * width}")
        rounds = 0
    for index in range(rounds):
        move(index * LANES * width)
    if rest:
        predicate = body.scratch("pred")
        body.add(f"setp.lt.u32 {predicate}, {body.use('%lane')}, {rest}")
        move(rounds * LANES * width, guard=f"@{predicate}")
