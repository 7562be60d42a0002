"""One instruction between plain loads and stores, on contents of one's choosing.

What differs between two images of it is the contents alone: an operand that is the same in every
element looks right however it was loaded, and a sum of small integers is exact in any arithmetic.
This tells which of the steps is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import FLOATS
from oracle.isa.forms import Form, Format, FormatKind, Matrix
from oracle.layouts import read, write
from oracle.program.operands import Buffer, Operation, Place, Registers, Span, Use
from oracle.program.operations import Elementwise
from oracle.program.program import Program, position
from oracle.program.steps import (
    MatrixAccess,
    Op,
    PlainAccess,
    Product,
    Step,
    loads_fragment,
    product_of,
)
from strategies.matrices import Image
from strategies.programs.builder import ACCESS_FORMS

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


def plain_access(use: Use, place: Place, *, store: bool = False) -> MatrixAccess | PlainAccess:
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
    """Return plain loads of what a step reads, the step, and a plain store of what it writes."""
    # Every operand has a buffer of its own, called after it.
    loads = [plain_access(use, Place(buffer=use.field)) for use in step.reads]
    made = step.writes
    stores = [] if made is None else [plain_access(made, Place(buffer=made.field), store=True)]
    return (*loads, step, *stores)


def buffers_of(
    steps: Iterable[Step], size: Callable[[Any], int] = lambda step: span_of(step).end
) -> tuple[Buffer, ...]:
    """Return a global buffer for each load and store among steps, of the size that is given."""
    # It is that up to the last byte that is accessed by default.
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
        return _program((self.a, self.b, self.c, self.multiply, self.store))

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
        """Return a program that makes one operand in registers: these bits in every element."""
        # The operand is loaded all the same; what it was is lost, unless it was NaN or infinite.
        # None where no element-wise operations of its type do that.
        matrix = self.loads[operand].form.matrix()
        by = (Operation.AND, Operation.OR)
        if matrix.type.is_float:
            by = (Operation.MULTIPLY, Operation.ADD)
        if not all(operation.accepts(matrix.type) for operation in by):
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
    """Return an image of a program of one multiplication, whose contents are given by operand."""
    # Where single elements are given, every other byte of the buffer is noise, of this seed.
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


def one(type_: Format) -> int:
    """Return the raw bits of 1."""
    return type_.bias << (type_.fraction_bits + type_.ignored_bits) if type_.is_float else 1


def exact(matrix: Matrix, seed: int) -> Values:
    """Return drawn elements that any arithmetic multiplies and adds exactly: small integers."""
    random = np.random.default_rng([seed, ord(matrix.operand)])
    added = matrix.operand in "cd"
    return exact_elements(matrix.type, (matrix.rows, matrix.columns), random, added=added)


def exact_elements(
    type_: Format, shape: tuple[int, int], random: np.random.Generator, *, added: bool
) -> Values:
    """Return the same in any shape; `added` of an addend, else of a factor."""
    if type_.is_float:
        most = _SMALL_DOUBLE if type_.name == "f64" else _SMALL
        numbers = random.integers(-most, most, shape, endpoint=True)
        return numbers.astype(FLOATS[type_.name]).view(type_.raw)
    if added:
        return random.integers(-_ADDEND, _ADDEND, shape, endpoint=True).astype(type_.raw)
    low = -(1 << type_.bits - 1) if type_.kind is FormatKind.SIGNED else 0
    return random.integers(low, low + (1 << type_.bits), shape).astype(type_.raw)
