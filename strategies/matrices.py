"""Matrices and registers that a program reads and leaves, and programs of one instruction.

The latter stands between plain loads and stores, on contents of one's choosing: what differs
between two images is the contents alone, which tells which of the steps of a program is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import FLOATS
from oracle.isa.forms import ROW_BYTES, Form, Format, FormatKind, Matrix
from oracle.isa.lookup import ACCESS_FORMS
from oracle.layouts import Tile, read, write
from oracle.program.operands import Buffer, Operation, Place, Registers, Span, Use, operations
from oracle.program.operations import Elementwise
from oracle.program.program import Program, position, walk
from oracle.program.steps import (
    MatrixAccess,
    Op,
    PlainAccess,
    Product,
    RowAccess,
    Step,
    accesses_registers,
    copies_bytes,
    loads_fragment,
    product_of,
    stores_fragment,
    stores_rows,
)

Image = NDArray[np.uint8]  # uint8 (image_bytes,)


class Placed(NamedTuple):
    """A matrix that a program loads or stores, in the image."""

    operand: str  # "a", "b", "c" or "d"
    place: Place  # Place of its first byte, in a global buffer
    tile: Tile


def firsts(program: Program, placed: Placed) -> NDArray[np.int64]:
    """Return the first bit of each element of a matrix, (rows, columns)."""
    tile = placed.tile
    lines = 8 * (position(program, placed.place) + tile.pitch * np.arange(tile.lines))
    along = tile.matrix.type.bits * np.arange(tile.matrix.default_stride(tile.layout))
    found: NDArray[np.int64] = lines[:, None] + along
    return found if tile.layout == "row" else found.T


def inputs(program: Program) -> tuple[Placed, ...]:
    """Return the matrices that wmma.load reads, those in shared memory where they came from."""
    return tuple(
        Placed(step.form.matrix().operand, place, step.tile)
        for step in walk(program.steps)
        if loads_fragment(step)
        for place in _ends(program, step.memory.place, step.tile.extent, stored=False)
    )


def outputs(program: Program) -> tuple[Placed, ...]:
    """Return the matrices that wmma.store writes, those in shared memory where they go to."""
    return tuple(
        Placed("d", place, step.tile)
        for step in walk(program.steps)
        if stores_fragment(step)
        for place in _ends(program, step.memory.place, step.tile.extent, stored=True)
    )


def _ends(program: Program, place: Place, size: int, *, stored: bool) -> Iterator[Place]:
    """Find the places of the image from or to which copies take some bytes; where they are, too."""
    seen = [place]
    for here in seen:
        if program.buffer(here.buffer).space == "global":
            yield here
        seen += [one for one in _copied(program, here, size, stored=stored) if one not in seen]


def _copied(program: Program, place: Place, size: int, *, stored: bool) -> Iterator[Place]:
    """Find where copies take bytes at a place from, or (`stored`) to, all of them together."""
    for copy in walk(program.steps):
        if copies_bytes(copy):
            ends = copy.destination, copy.source
            here, there = ends[::-1] if stored else ends
            moved = place.offset - here.offset
            if here.buffer == place.buffer and 0 <= moved <= copy.size - size:
                yield replace(there, offset=there.offset + moved)


def places_of(
    program: Program, place: Place, *, size: int = 1, stored: bool = False
) -> list[Place]:
    """Find the places of the image from which bytes at a place come, or (`stored`) go to.

    A place in global memory is its own; one in shared memory has those that copies give it which
    take all `size` bytes together.
    """
    if program.buffer(place.buffer).space == "global":
        return [place]
    copied = _copied(program, place, size, stored=stored)
    return [there for there in copied if program.buffer(there.buffer).space == "global"]


class Result(NamedTuple):
    """A matrix, or registers of all lanes, that a program leaves in its image."""

    name: str  # "d", or "d1", "d2", … if there are several; "r" of registers, "s" of moved rows
    type: str  # Name of the format of an element; "b32" or "b64" for registers, "b16" for rows
    bits: int  # Size of an element: 16, 32 or 64
    offsets: NDArray[np.int64]  # First byte of each element in the image, (rows or lanes, columns)
    is_registers: bool = False  # Whether the lanes stored registers: rows are lanes


def bytes_of(result: Result) -> NDArray[np.int64]:
    """Return every byte of every element, int64 (rows, columns, bytes of an element)."""
    return result.offsets[:, :, None] + np.arange(result.bits // 8)


def elements_of(result: Result, image: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the raw bits of the elements in an image, uint64 (rows, columns)."""
    words = np.take(image, bytes_of(result)).view(f"<u{result.bits // 8}")[:, :, 0]
    return words.astype(np.uint64)


def _grid(start: int, rows: int, pitch: int, columns: int, size: int) -> NDArray[np.int64]:
    """Return where elements of a size start, int64 (rows, columns); rows lie a pitch apart."""
    first = start + np.arange(rows, dtype=np.int64)[:, None] * pitch
    return first + np.arange(columns, dtype=np.int64) * size


@lru_cache(maxsize=4)
def results(program: Program) -> tuple[Result, ...]:
    """Return the results in a program's image: matrices first, then registers, then rows."""
    # Those in shared memory are found where they are copied to.
    matrices = [_matrix(program, placed) for placed in outputs(program)]
    registers = [
        Result(
            "r", f"b{step.bits}", step.bits,
            _grid(
                position(program, place), step.lanes, step.size // step.lanes,
                step.count, step.bits // 8,
            ),
            is_registers=True,
        )
        for step in walk(program.steps)
        if accesses_registers(step) and step.stores
        for place in places_of(program, step.place, size=step.size, stored=True)
    ]  # fmt: skip
    stores = filter(stores_rows, walk(program.steps))
    rows = [result for step in stores for result in _rows(program, step)]
    return tuple(
        result._replace(name=f"{result.name}{number}") if len(found) > 1 else result
        for found in (matrices, registers, rows)
        for number, result in enumerate(found, start=1)
    )


def _rows(program: Program, step: RowAccess) -> Iterator[Result]:
    starts = sorted(
        position(program, place)
        for span in step.bytes_written
        for place in places_of(
            program, Place(buffer=span.buffer, offset=span.start), size=ROW_BYTES, stored=True
        )
    )
    runs: list[list[int]] = []
    for start in starts:
        last = runs[-1] if runs else []
        if last and (len(last) < 2 or start - last[-1] == last[1] - last[0]):
            last.append(start)
        else:
            runs.append([start])
    for run in runs:
        pitch = run[1] - run[0] if len(run) > 1 else ROW_BYTES
        yield Result("s", "b16", 16, _grid(run[0], len(run), pitch, ROW_BYTES // 2, 2))


def _matrix(program: Program, placed: Placed) -> Result:
    matrix = placed.tile.matrix
    return Result(placed.operand, matrix.type.name, matrix.type.bits, firsts(program, placed) // 8)


Values = NDArray[Any]  # Raw elements of a matrix, (rows, columns)

_ALIGNMENT = 256  # Bytes of whose multiples addresses are moved: their alignment stays
_EXTENTS, _MARGIN = 5, 512
"""Bytes of a buffer: as many times the extent of its matrix, and these. What a wrong stride, layout
or offset reaches of it is still in it: 32 lines for 8, as far apart, are 4.5 times as long."""
_SMALL = 8
"""Largest number in an operand that is to be multiplied exactly: 16 products of them and an addend
stay below 2^11, up to which f16 has every integer."""
_SMALL_DOUBLE = 1 << 22
"""The same of f64, whose sums stay below 2^53: both words of one hold something, and none is zero,
whose sign depends on the rounding mode (IEEE 754-2019, 6.3)."""
_ADDEND = 1000  # Largest addend of integers; either sign: carries run through the word
Access = MatrixAccess | PlainAccess  # A plain load or store of the registers of an operand


def plain_access(use: Use, place: Place, *, store: bool = False) -> Access:
    """Return a load, or a store, of the registers of an operand, in global memory, by rows."""
    holds = use.holds
    if isinstance(holds, Registers):
        return PlainAccess(
            loads=not store, registers=use.name, count=holds.registers, bits=holds.bits, place=place
        )
    matrix = replace(holds.matrix, operand="d") if store else holds.matrix
    form = ACCESS_FORMS[matrix, holds.layout or "row", "global"]
    return Op.of(form, fragment=use.name, place=place)


def single_instruction(step: Step) -> tuple[Any, ...]:
    """Return plain loads of what a step reads, the step, and a plain store; buffers are "a", …."""
    loads = [plain_access(use, Place(buffer=use.field)) for use in step.reads]
    made = step.writes
    stores = [] if made is None else [plain_access(made, Place(buffer=made.field), store=True)]
    return (*loads, step, *stores)


def single_program(step: Step) -> Program:
    """Return the program of these loads, a step and the store, on buffers of their extents."""
    steps = single_instruction(step)
    return Program(buffers=buffers_of(steps), steps=steps)


def buffers_of(
    steps: Iterable[Step], size: Callable[[Any], int] = lambda step: span_of(step).end
) -> tuple[Buffer, ...]:
    """Return a global buffer for each load and store among steps: to the last byte, or as given."""
    return tuple(
        Buffer(name=span_of(step).buffer, space="global", size=size(step))
        for step in steps
        if step.uses and (step.bytes_read or step.bytes_written)
    )


def span_of(step: Step) -> Span:
    """Return the bytes that a plain load or store accesses."""
    (span,) = (*step.bytes_read, *step.bytes_written)
    return span


@dataclass(frozen=True, kw_only=True)
class SingleProduct:
    """A program that only loads fragments, multiplies them once and stores D, each tile apart.

    Fragments are called "a", "b", "c" and "d", and so are the buffers.
    """

    multiply: Product
    a: MatrixAccess
    b: MatrixAccess
    c: MatrixAccess
    store: MatrixAccess

    @property
    def loads(self) -> Mapping[str, MatrixAccess]:
        """The loads by operand."""
        return {"a": self.a, "b": self.b, "c": self.c}

    @property
    def form(self) -> Form:
        """What is multiplied."""
        return self.multiply.form

    @property
    def program(self) -> Program:
        """The program."""
        return _program((*self.loads.values(), self.multiply, self.store))

    def loading(self, loads: Mapping[str, MatrixAccess]) -> SingleProduct:
        """Return the same with other loads of some operands."""
        changes: dict[str, Any] = {**loads}
        return replace(self, **changes)

    def results(self, images: NDArray[np.uint8]) -> Values:
        """Return D as it lies in images of the program, (count, rows, columns)."""
        return read(images, position(self.program, self.store.memory.place), self.store.tile)

    def reload(self, type_: Format) -> Program:
        """Return a program that loads an accumulator and stores it as D is: nothing is multiplied.

        Its type is that of C, or of D.
        """
        load, store = self.c, self.store
        matrix = replace(load.form.matrix(), type=type_)
        # A stride or an address that suits one type may not suit another.
        if type_ != load.form.type():
            form = ACCESS_FORMS[matrix, load.form.layout, load.form.space]
            load = Op.of(form=form, fragment="c", place=Place(buffer="c"))
        if type_ != store.form.type():
            matrix = replace(matrix, operand="d")
            kept = ACCESS_FORMS[matrix, store.form.layout, store.form.space]
            store = Op.of(form=kept, fragment="c", place=Place(buffer="d"))
        return _program((load, store.changed(fragment="c")))

    def making(self, operand: str, raw: int) -> Program | None:
        """Return a program that makes one operand in registers: these bits in every element.

        It is loaded all the same, and was not NaN or infinite. None: no operations do that.
        """
        matrix = self.loads[operand].form.matrix()
        by = (Operation.AND, Operation.OR)
        if matrix.type.is_float:
            by = (Operation.MULTIPLY, Operation.ADD)
        if not {*by} <= {*operations(matrix.type)}:
            return None
        made = [
            Elementwise(
                operation=operation, matrix=matrix, source=operand, destination=operand,
                constant=bits,
            )
            for operation, bits in zip(by, (0, raw), strict=True)
        ]  # fmt: skip
        return _program((*self.loads.values(), *made, self.multiply, self.store))


def single_product(form: Form) -> SingleProduct:
    """Return a multiplication whose operands are loaded, and whose result is stored, plainly."""
    a, b, c, multiply, store = single_instruction(product_of(form))
    return SingleProduct(multiply=multiply, a=a, b=b, c=c, store=store)


def apart(program: Program, step: MatrixAccess, name: str) -> MatrixAccess:
    """Return a load or store of a program, of a fragment and a global buffer of this name.

    What else there is to it stays: stride, layout, and how far its address is from an aligned one.
    """
    there = step.memory.place
    start = program.offset(there.buffer) + there.offset
    place = Place(buffer=name, offset=start % _ALIGNMENT)
    moved = step.changed(fragment=name, place=place)
    if program.buffer(there.buffer).space == "shared" and step.form.space:
        # What held an address of shared memory may be too short for one of global memory.
        form = ACCESS_FORMS[step.form.matrix(), step.form.layout, "global"]
        moved = moved.changed(form=form, address=None)
    return moved


def _program(steps: Sequence[Step]) -> Program:
    def size(step: MatrixAccess) -> int:
        return step.memory.place.offset + _EXTENTS * step.tile.extent + _MARGIN

    return Program(buffers=buffers_of(steps, size), steps=tuple(steps))


Content = Values | int  # Elements of a matrix, or one that stands everywhere


def image_of(program: Program, contents: Mapping[str, Content], *, noise: int = 0) -> Image:
    """Return an image of a program of one multiplication, of contents by operand amid `noise`."""
    random = np.random.default_rng(noise)
    image = random.integers(0, 256, program.image_bytes, dtype=np.uint8)
    for step in program.steps:
        if not loads_fragment(step):
            continue
        place = step.memory.place
        content = contents[step.names["fragment"]]
        if isinstance(content, int):
            start = program.offset(place.buffer)
            size = program.buffer(place.buffer).size
            image[start : start + size] = _uniform(step.form.type(), content, size)
        else:
            write(image[None], position(program, place), step.tile, content[None])
    return image


def _uniform(type_: Format, raw: int, size: int) -> Image:
    if type_.bits < 8:
        raw = sum(raw << shift for shift in range(0, 8, type_.bits))
    element = np.frombuffer(raw.to_bytes(max(1, type_.bits // 8), "little"), np.uint8)
    # np.resize makes a list of as many arrays.
    return np.tile(element, -(-size // element.size))[:size]


def exact(matrix: Matrix, seed: int) -> Values:
    """Return drawn elements that any arithmetic multiplies and adds exactly: small integers."""
    random, shape = (
        np.random.default_rng([seed, ord(matrix.operand)]),
        (matrix.rows, matrix.columns),
    )
    return exact_elements(matrix.type, shape, random, added=matrix.operand in "cd")


def exact_elements(
    type_: Format, shape: tuple[int, int], random: np.random.Generator, *, added: bool
) -> Values:
    """Return the same in any shape; `added` of an addend, else of a factor."""
    if type_.is_float:
        most = _SMALL_DOUBLE if type_.name == "f64" else _SMALL
        if not type_.has_nan:
            most = 4  # up to which e2m1 has every integer
        numbers = random.integers(-most, most, shape, endpoint=True)
        patterns = numbers.astype(FLOATS[type_.name]).view(type_.raw)
        return patterns << type_.ignored_bits if type_.padding else patterns
    if added:
        return random.integers(-_ADDEND, _ADDEND, shape, endpoint=True).astype(type_.raw)
    low = -(1 << type_.bits - 1) if type_.kind is FormatKind.SIGNED else 0
    return random.integers(low, low + (1 << type_.bits), shape).astype(type_.raw)
