"""One instruction between plain loads and stores, on contents of one's choosing.

What differs between two images of it is the contents alone: an operand that is the same in every
element looks right however it was loaded, and a sum of small integers is exact in any arithmetic.
This tells which of the steps is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.isa.formats import Format, FormatKind
from oracle.isa.forms import ROW_BYTES, Form
from oracle.isa.lookup import FORMS, is_available, selectors_of
from oracle.isa.matrices import LANES, Matrix
from oracle.isa.targets import Module
from oracle.layouts.storage import Tile, read, write
from oracle.program.image import position
from oracle.program.operands import Registers, Use
from oracle.program.operations import Operation
from oracle.program.ops import (
    MatrixAccess,
    Op,
    Product,
    Rows,
    loads_fragment,
    memory_of,
    operands_of,
    product_of,
)
from oracle.program.places import Buffer, Place, Span
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, Elementwise, PlainAccess, Step
from strategies.contents import Recipe, ValueClass, expand
from strategies.features import stride_unit, unit_bytes
from strategies.matrices import Image, inputs
from strategies.programs.builder import ACCESS_FORMS, GUARD_BYTES, VALUED_FORMS, is_valued

Values = NDArray[Any]
"""Raw elements of a matrix, (rows, columns)."""

_ALIGNMENT = 256
"""Addresses are moved by multiples of this many bytes only, so that their alignment stays."""
_EXTENTS, _MARGIN = 5, 512
"""Bytes of a buffer: as many times the extent of its matrix, and these. What a wrong stride, layout
or offset reaches of it is still in it: 32 lines for 8, as far apart, are 4.5 times as long."""
_SMALL = 8
"""Largest number in an operand that is to be multiplied exactly: 16 products of them and an addend
stay below 2^11, up to which f16 has every integer."""
_SMALL_DOUBLE = 1 << 22
"""The same of f64, whose sums stay below 2^53: both words of one hold something, and none is zero,
whose sign depends on the rounding mode (IEEE 754-2019, 6.3)."""
_ADDEND = 1000
"""Largest addend of a sum of integers; either sign, so that carries run through the whole word."""


Access = MatrixAccess | PlainAccess
"""A plain load or store of the registers of an operand."""


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
    """Return plain loads of what a step reads, the step, and a plain store of what it writes.

    Every operand has a buffer of its own, called after it.
    """
    loads = [plain_access(use, Place(buffer=use.field)) for use in step.reads]
    made = step.writes
    stores = [] if made is None else [plain_access(made, Place(buffer=made.field), store=True)]
    return (*loads, step, *stores)


def buffers_of(
    steps: Iterable[Step], size: Callable[[Any], int] = lambda step: span_of(step).end
) -> tuple[Buffer, ...]:
    """Return a global buffer for each load and store among steps, of the size that is given.

    It is that up to the last byte that is accessed by default.
    """
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

    def reload(self, type_: Format, *, beside: str = "") -> Program:
        """Return a program that loads an accumulator and stores it as D is: nothing is multiplied.

        Its type is that of C, or of D. `beside` is another operand that is loaded to no purpose.
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
        others = (self.loads[beside],) if beside else ()
        return _program((*others, load, store.changed(fragment="c")))

    def making(self, operand: str, raw: int) -> Program | None:
        """Return a program that makes one operand in registers: these bits in every element.

        The operand is loaded all the same; what it was is lost, unless it was NaN or infinite.
        None where no element-wise operations of its type do that.
        """
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

    def with_form(self, form: Form, operand: str) -> SingleProduct:
        """Return another multiplication that takes the same A or B; the rest plainly."""
        return single_product(form).loading({operand: self.loads[operand]})

    def spread(self, form: Form, operand: str) -> SingleProduct:
        """Return a multiplication that loads its A or B as this one, of lines that lie apart."""
        plain = single_product(form)
        load = plain.loads[operand]
        # Twice the usual stride: lines stay aligned.
        stride = 2 * load.form.matrix().default_stride(load.form.layout)
        return plain.loading({operand: _like(load, self.loads[operand]).changed(stride=stride)})

    def alike(self, operand: str, form: Form) -> SingleProduct:
        """Return a multiplication with every load as unusual as that of one operand here.

        That is its state space, a stride, and what stands in registers and in the instruction.
        """
        model, plain = self.loads[operand], single_product(form)
        return plain.loading({name: _like(load, model) for name, load in plain.loads.items()})


def _like(load: MatrixAccess, model: MatrixAccess) -> MatrixAccess:
    usual = load.form.matrix().default_stride(load.form.layout)
    memory = model.memory
    return load.changed(
        form=ACCESS_FORMS[load.form.matrix(), load.form.layout, model.form.space],
        # Twice the usual one: lines stay aligned.
        stride=None if memory.stride is None else 2 * usual,
        stride_in_register=memory.stride_in_register,
        immediate=memory.immediate,
    )


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


Content = Values | int
"""The elements of a matrix; or one raw element that stands everywhere in its buffer."""


def image_of(program: Program, contents: Mapping[str, Content], *, noise: int = 0) -> Image:
    """Return an image of a program of one multiplication, whose contents are given by operand.

    Where single elements are given, every other byte of the buffer is noise, of this seed.
    """
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
        return _encoded(type_, random.integers(-most, most, shape, endpoint=True))
    if added:
        return random.integers(-_ADDEND, _ADDEND, shape, endpoint=True).astype(type_.raw)
    low = -(1 << type_.bits - 1) if type_.kind is FormatKind.SIGNED else 0
    return random.integers(low, low + (1 << type_.bits), shape).astype(type_.raw)


def _encoded(type_: Format, numbers: NDArray[np.int64]) -> Values:
    magnitude = np.abs(numbers)
    exponent = np.maximum(np.frexp(magnitude)[1].astype(np.int64) - 1, 0)
    up = type_.fraction_bits - exponent
    significand = (magnitude << np.maximum(up, 0)) >> np.maximum(-up, 0)
    # The leading bit of the significand counts as one in the field of the exponent.
    raw = ((exponent + type_.bias - 1) << type_.fraction_bits) + significand
    sign = (numbers < 0).astype(np.int64) << (type_.bits - 1 - type_.ignored_bits)
    bits = np.where(magnitude == 0, 0, raw | sign) << type_.ignored_bits
    return bits.astype(type_.raw)


class _Way(NamedTuple):
    """How a matrix is reached."""

    words: str
    stride: str = ""
    """"" is left out, "immediate" or "register"."""
    padding: int = 0
    """Units (`stride_unit`) that the stride is longer than the least."""
    offset: int = 0
    """Units that the matrix lies behind the start of its buffer."""
    in_instruction: bool = False
    """Whether that offset stands in the instruction."""


_STRIDES = (
    _Way("stride left out"),
    _Way("stride written", "immediate"),
    _Way("stride in a register", "register"),
    _Way("stride padded, address offset", "immediate", 1, 1),
    _Way("stride in a register, padded, offset in the instruction", "register", 3, 2, True),
)
_PLAIN = ("global", _STRIDES[0])
_MEMORIES = {"global": ("global",), "": ("global", "shared")}
"""By the state space of a form; the others are in shared memory."""
_ROWS = {
    "rows side by side": [ROW_BYTES * lane for lane in range(LANES)],
    "rows apart": [ROW_BYTES + 3 * ROW_BYTES * lane for lane in range(LANES)],
    "rows backwards": [ROW_BYTES * (LANES - 1 - lane) for lane in range(LANES)],
}


@dataclass(frozen=True, kw_only=True)
class Item:
    """What is asked about a form."""

    form: Form
    program: Program
    ways: tuple[str, ...]
    """In words, in the order of the program's results; empty of what has one."""

    def images(self, count: int) -> NDArray[np.uint8]:
        """Return images to run, uint8 (count, image_bytes): the same ones every time.

        Products get every class of values, and moves any bits. What a load of A or B is multiplied
        with are small integers, exact in any arithmetic: it is not the product that is asked about.
        """
        every = tuple(ValueClass) if self.form.is_product else (ValueClass.ANY,)
        found = expand(Recipe(classes=every, seed=0), self.program, count)
        if not self.form.is_access or self.form.matrix().operand not in "ab":
            return found
        random = np.random.default_rng(0)
        for one in inputs(self.program):
            matrix = one.tile.matrix
            shape = count * matrix.rows, matrix.columns
            values = exact_elements(matrix.type, shape, random, added=matrix.operand == "c")
            at = position(self.program, one.place)
            write(found, at, one.tile, values.reshape(count, matrix.rows, matrix.columns))
        return found


@dataclass(kw_only=True)
class _Maker:
    module: Module
    buffers: list[Buffer] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def plain(self, step: Step) -> None:
        span = span_of(step)
        self.buffers.append(Buffer(name=span.buffer, space="global", size=span.end + GUARD_BYTES))
        self.steps.append(step)

    def reaching(self, name: str, memory: str, size: int, step: Step, *, stores: bool) -> None:
        self.buffers.append(Buffer(name=f"g{name}", space="global", size=size))
        if memory == "global":
            self.steps.append(step)
            return
        self.buffers.append(Buffer(name=f"s{name}", space="shared", size=size))
        ends = Place(buffer=f"g{name}"), Place(buffer=f"s{name}")
        self.steps += [Copy(source=ends[0], destination=ends[1], size=size), Barrier(), step]
        if stores:
            self.steps += [Barrier(), Copy(source=ends[1], destination=ends[0], size=size)]

    def lines(self, form: Form, number: int, fragment: str, reached: tuple[str, _Way]) -> None:
        memory, way = reached
        matrix, shared = form.matrix(), memory == "shared"
        unit, stride = stride_unit(matrix, shared=shared), None
        if way.stride:
            stride = matrix.default_stride(form.layout)
            if way.padding:
                stride = (-(-stride // unit) + way.padding) * unit
        offset = way.offset * unit_bytes(matrix, shared=shared)
        tile = Tile(matrix=matrix, layout=form.layout, stride=stride)
        name = f"{matrix.operand}{number}"
        step = Op.of(
            form,
            fragment=fragment,
            place=Place(buffer=f"{memory[0]}{name}", offset=offset),
            stride=stride,
            stride_in_register=way.stride == "register",
            immediate=offset if way.in_instruction else 0,
        )
        size = offset + tile.extent + tile.pitch + GUARD_BYTES
        self.reaching(name, memory, size, step, stores=form.is_store)

    def access(self, form: Form, number: int, reached: tuple[str, _Way]) -> None:
        matrix, consumer = form.matrix(), None
        matrices = {operand: replace(matrix, operand=operand) for operand in "cd"}
        layouts = dict.fromkeys("abcd", "row")
        if matrix.operand in "ab":
            consumer = _consumer(form, self.module)
            matrices = {operand: consumer.matrix(operand) for operand in "abcd"}
            layouts |= {"a": consumer.a_layout, "b": consumer.b_layout}
        for operand, its in matrices.items():
            # Where nothing multiplies, what is stored is what was loaded.
            fragment = f"{operand if consumer else 'c'}{number}"
            if consumer and operand == "d":
                names = {one: f"{one}{number}" for one in "abcd"}
                self.steps.append(Op.of(consumer, **names))
            if operand == matrix.operand:
                self.lines(form, number, fragment, reached)
            else:
                plain = ACCESS_FORMS[its, layouts[operand], "global"]
                self.lines(plain, number, fragment, _PLAIN)

    def main(self, form: Form, number: int, **more: Any) -> None:
        step = Op.of(form, **{name: f"{name}{number}" for name, *_ in operands_of(form)}, **more)
        for use in step.reads:
            self.plain(plain_access(use, Place(buffer=use.name)))
        if memory_of(form) is None:
            self.steps.append(step)
        else:
            size = max(step.memory.addresses) + 2 * ROW_BYTES
            self.reaching(f"{number}", "shared", size, step, stores=form.is_store)
        if step.writes is not None:
            self.plain(plain_access(step.writes, Place(buffer=step.writes.name), store=True))


def _consumer(form: Form, module: Module) -> Form:
    matrix = form.matrix()
    return next(
        one
        for one in VALUED_FORMS
        if is_available(one, module)
        and one.matrix(matrix.operand) == matrix
        and {"a": one.a_layout, "b": one.b_layout}[matrix.operand] == form.layout
    )


def item(form: Form, module: Module) -> Item:
    """Return what is asked about a form in modules of a target and version."""
    maker = _Maker(module=module)
    ways: list[str] = []
    if form.is_access:
        memories = _MEMORIES.get(form.space, ("shared",))
        for number, reached in enumerate(product(memories, _STRIDES)):
            maker.access(form, number, reached)
            ways.append(f"{reached[0]} memory, {reached[1].words}")
    elif memory_of(form) is Rows:
        for number, (words, addresses) in enumerate(_ROWS.items()):
            maker.main(form, number, buffer=f"s{number}", addresses=tuple(addresses))
            ways.append(words)
    elif known := selectors_of(form):
        for selector in known:
            maker.main(form, selector, selector=selector)
            ways.append(f"selector {selector}")
    else:
        maker.main(form, 0)
    return Item(
        form=form,
        program=Program(buffers=tuple(maker.buffers), steps=tuple(maker.steps)),
        ways=tuple(ways),
    )


def forms_of(module: Module) -> Iterator[Form]:
    """Iterate over the forms of a target and version that can be judged."""
    for form in FORMS:
        if is_available(form, module) and (form.is_access or is_valued(form, module)):
            yield form


def unjudged(module: Module) -> list[Form]:
    """Return the forms that cannot: no figures of their arithmetic, or no layout, is known."""
    asked = {*forms_of(module)}
    return [form for form in FORMS if is_available(form, module) and form not in asked]
