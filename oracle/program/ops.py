"""Matrix instructions as steps: one class for all, told apart by the forms of the instructions.

An operand is a fragment of wmma, whose layout is opaque, or registers whose layout is known lane
by lane; what lies in memory, lines of a matrix, or rows at addresses of the lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any, Generic, Self, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import Form
from oracle.isa.matrices import LANES, Matrix
from oracle.layouts.storage import Tile
from oracle.program.lane_code import LaneCode, Statement
from oracle.program.lane_execution import run_lanes
from oracle.program.operands import Fragment, Held, Registers, StepBase, Use
from oracle.program.places import Place, Span, check, check_range
from oracle.program.registers import check_vector

COUNTS = (1, 2, 4, 8)
"""Registers that an operand has whose layout is known."""


def check_address(address: int | None, registers: int) -> None:
    """Raise UsageError unless a load's address can stand in one of its registers (None: none)."""
    if address is not None:
        check_range(address, 0, registers - 1, "register of the destination with the address")


def _check_bytes(value: int, what: str) -> None:
    check_range(value, -(1 << 31), (1 << 31) - 1, f"{what}, in bytes,")


def address_text(address: int | None) -> str:
    """Return what to add to a load in words where a register that it writes has its address."""
    return "" if address is None else f", address in register {address} of them"


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The lines of a matrix, equally far apart, as wmma.load and wmma.store take them."""

    place: Place
    stride: int | None = None
    """Elements from one row (or column) to the next; None: the operand is left out."""
    stride_in_register: bool = False
    immediate: int = 0
    """Bytes of the address in the instruction, as in `[p+immediate]`; a register has the rest."""

    def check(self, form: Form) -> None:
        """Raise UsageError unless a form can take them."""
        if self.stride is not None:
            # "stride is an optional 32-bit integer operand" (9.7.14.4.3)
            check_range(self.stride, 0, (1 << 32) - 1, "stride, in elements,")
        absent = self.stride is None and self.stride_in_register
        check(not absent, "a default stride stands in no register; give a stride")
        _check_bytes(self.immediate, "immediate part of an address")

    def spans(self, form: Form) -> tuple[Span, ...]:
        """Return the bytes of the matrix: its rows, or its columns where they are contiguous."""
        matrix, layout = form.matrix(), form.layout
        length, bits = matrix.default_stride(layout), matrix.type.bits
        pitch = (length if self.stride is None else self.stride) * bits // 8
        place, runs = self.place, matrix.leading_instances(layout)
        return (Span(place.buffer, place.offset, length * bits // 8, pitch, runs),)

    def words(self, form: Form, fragment: str) -> str:
        """Return the line of a load or store of a fragment."""
        matrix, stride = form.matrix(), "default" if self.stride is None else self.stride
        return (
            f"{f'load {fragment} =' if form.is_load else f'store {fragment} to'} "
            f"{matrix.operand.upper()} {matrix.rows}x{matrix.columns} {matrix.type.name} "
            f"{form.layout}-major at {self.place}, stride {stride}"
        )


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows at addresses that the lanes give, as ldmatrix and its reverse take them."""

    buffer: str
    addresses: tuple[int, ...]
    """Of each lane, bytes from the start of the buffer. Lanes beyond `form.addresses` do not count,
    except of ldmatrix on sm_75. Rows that are written must lie apart."""
    immediate: int = 0
    computed: tuple[Statement, ...] = ()
    """Code that leaves each lane's address in r0, where PTX is to compute them; (): as emitted."""

    @property
    def code(self) -> LaneCode:
        """What computes the addresses."""
        return LaneCode(destination="addresses", results=("r0",), code=self.computed)

    def check(self, form: Form) -> None:
        """Raise UsageError unless a form can take them."""
        given = len(self.addresses)
        text = f"{given} addresses given; {form.mnemonic} takes one for each of {LANES} lanes"
        check(given == LANES, text)
        for address in (min(self.addresses), max(self.addresses)):
            _check_bytes(address, "address of a row")
        _check_bytes(self.immediate, "immediate part of an address")
        if self.computed:
            made, unknown = run_lanes(self.code, np.zeros((1, LANES, 0), np.uint32))
            same = not unknown.any() and tuple(made[0, :, 0].tolist()) == self.addresses
            check(same, "code of lanes computes other addresses of rows than those that are given")

    def offsets(self, form: Form) -> NDArray[np.int64]:
        """Return every byte of the rows that a form uses, (form.addresses, form.row_bytes)."""
        starts = np.array(self.addresses[: form.addresses], np.int64)
        return starts[:, None] + np.arange(form.row_bytes)

    def spans(self, form: Form) -> tuple[Span, ...]:
        """Return the rows that a form uses, in the order of the lanes."""
        return tuple(
            Span.block(self.buffer, address, form.row_bytes)
            for address in self.addresses[: form.addresses]
        )

    def words(self, form: Form, registers: str) -> str:
        """Return the line of a load or store of registers."""
        verb, where = ("load", "from") if form.is_load else ("store", "to")
        return f"{verb} rows {registers} {where} {self.buffer}"


Memory: TypeAlias = Lines | Rows
M = TypeVar("M", bound=Memory | None, covariant=True)


@dataclass(frozen=True, kw_only=True)
class Op(StepBase, Generic[M]):
    """One matrix instruction. Its result may have registers of any of its sources."""

    form: Form
    operands: tuple[str, ...]
    """Its vectors of registers (`oracle.program.registers`), in the order of its `uses`."""
    memory: M
    """What it reads or writes there; None of one that only works on registers."""
    address: int | None = None
    """Which register of a load's destination holds the address before; None: none of them."""
    count: int = 1
    """Registers of each operand, where the instruction is done for one after the other."""
    selector: int | None = None
    """Which lanes' metadata count, 0 to 3; None of a form without this operand."""

    @staticmethod
    def of(form: Form, **given: Any) -> Op[Any]:
        """Return a step from its operands and the fields of its memory, by their names.

        "d", "a", "b", "c" and, for metadata, "e" of a product; "fragment" or "registers" of what is
        loaded or stored; "source" and "destination" of what is moved between registers.
        """
        names = [field for field, *_ in operands_of(form)]
        missing = [name for name in names if name not in given]
        check(not missing, f"{form.mnemonic} lacks its operand {', '.join(missing)}")
        operands = tuple(given.pop(name) for name in names)
        kind = memory_of(form)
        own = [one.name for one in fields(kind) if one.name in given] if kind else []
        memory = kind(**{name: given.pop(name) for name in own}) if kind else None
        return Op(form=form, operands=operands, memory=memory, **given)

    def __post_init__(self) -> None:
        allowed = COUNTS if is_repeated(self.form) else (1,)
        known = ", ".join(map(str, allowed))
        check(self.count in allowed, f"{self.count} registers given; there are {known}")
        for use in self.uses:
            check_vector(use.name, "fragment" if use.is_fragment else "vector of registers")
        if self.memory is not None:
            self.memory.check(self.form)
        mnemonic, has_selector = self.form.mnemonic, "selector" in self.form.operands
        text = f"{mnemonic} {'lacks its sparsity' if has_selector else 'has no'} selector"
        check(has_selector == (self.selector is not None), text)
        if self.selector is not None:
            # "a 32-bit integer constant with values in the range 0..3" (9.7.14.6.3)
            check_range(self.selector, 0, 3, "sparsity selector")
        if self.address is not None:
            text = f"{mnemonic} loads nothing, so that no destination holds its address"
            check(self.form.is_load, text)
            check_address(self.address, self.uses[0].holds.registers)

    @cached_property
    def action(self) -> str:
        if self.form.is_product:
            return "multiply" if self.form.opaque else "multiply_registers"
        if self.memory is None:
            return "move"
        verb = "load" if self.form.is_load else "store"
        return verb if self.form.opaque else f"{verb}_rows"

    @property
    def instruction(self) -> Form:
        return self.form

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        return tuple(
            Use(field=field, name=name, holds=holds, written=written)
            for (field, holds, written), name in zip(
                operands_of(self.form, self.count), self.operands, strict=True
            )
        )

    @property
    def fields(self) -> dict[str, Any]:
        """What `of` takes: operands, and the fields of its memory, by their names."""
        found: dict[str, Any] = {"form": self.form, **self.names}
        if self.memory is not None:
            found |= {one.name: getattr(self.memory, one.name) for one in fields(self.memory)}
        found["address"] = self.address
        if self.selector is not None:
            found["selector"] = self.selector
        return found | {"count": self.count} if is_repeated(self.form) else found

    @cached_property
    def tile(self) -> Tile:
        """The matrix of a wmma.load or wmma.store as it lies in memory, from its place on."""
        assert isinstance(self.memory, Lines)
        stride = self.memory.stride
        return Tile(matrix=self.form.matrix(), layout=self.form.layout, stride=stride)

    @property
    def carried(self) -> str | None:
        return self.names.get("c", self.names.get("source"))

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        return self._spans if self.form.is_load else ()

    @cached_property
    def bytes_written(self) -> tuple[Span, ...]:
        return self._spans if self.form.is_store else ()

    @property
    def _spans(self) -> tuple[Span, ...]:
        return () if self.memory is None else self.memory.spans(self.form)

    def changed(self, **changes: Any) -> Self:
        """Return the step with other fields, operands or fields of its memory, by their names."""
        own = {name: changes.pop(name) for name in self.names if name in changes}
        if own:
            changes["operands"] = tuple((self.names | own).values())
        if "addresses" in changes:
            changes.setdefault("computed", ())
        if self.memory is not None:
            names = [one.name for one in fields(self.memory) if one.name in changes]
            if names:
                memory: Any = self.memory
                changes["memory"] = replace(memory, **{name: changes.pop(name) for name in names})
        return super().changed(**changes)

    def __str__(self) -> str:
        if self.form.is_product:
            text = "{d} = {a} x {b} + {c}".format(**self.names)
            if self.selector is not None:
                text += f", a placed by {self.names['e']}, selector {self.selector}"
        elif self.memory is None:
            text = "{destination} = {source}, every register transposed".format(**self.names)
        else:
            text = self.memory.words(self.form, *self.operands)
        return text + address_text(self.address)


def memory_of(form: Form) -> type[Memory] | None:
    """Return how an instruction accesses memory; None if it does not."""
    if "p" not in form.operands:
        return None
    return Lines if form.opaque else Rows


def is_repeated(form: Form) -> bool:
    """Whether a step does an instruction for each register of its operands."""
    return not form.vectors


@cache
def operands_of(form: Form, count: int = 1) -> tuple[tuple[str, Held, bool], ...]:
    """Return name, contents and whether it is written of each vector, in the order of a step."""
    held: Held = Registers(registers=count)
    if is_repeated(form):
        return ("source", held, False), ("destination", held, True)
    layouts = {"r": "layout", "a": "alayout", "b": "blayout"}
    found: list[tuple[str, Held, bool]] = []
    for operand, one in form.vectors.items():
        if isinstance(one, Matrix):
            layout = form.texts[layouts[operand]] if operand in layouts else None
            held, name = Fragment.of(one, None if form.is_store else layout), "fragment"
        else:
            held, name = Registers.of(one), "registers"
        if form.is_product:
            found.append((operand, held, operand == "d"))
        else:
            found.append((name, held, form.is_load))
    return tuple(found)


AnyOp = Op[Memory | None]
MatrixAccess = Op[Lines]
"""A wmma.load or wmma.store."""
RowAccess = Op[Rows]
"""An ldmatrix or its reverse."""
Product = Op[None]
"""A multiplication of matrices."""


def product_of(form: Form) -> Product:
    """Return a multiplication whose operands are called as on the page, with selector 0."""
    constants = {name: 0 for name in form.operands if name == "selector"}
    return Op.of(form, **{name: name for name in form.vectors}, **constants)


def _does(*actions: str) -> Any:
    return lambda step: isinstance(step, Op) and step.action in actions


_ROWS, _PRODUCTS = ("load_rows", "store_rows"), ("multiply", "multiply_registers")
_FRAGMENTS = ("load", "store")
is_instruction: Callable[[object], TypeGuard[AnyOp]] = _does(
    *_FRAGMENTS, *_ROWS, *_PRODUCTS, "move"
)
accesses_matrix: Callable[[object], TypeGuard[MatrixAccess]] = _does(*_FRAGMENTS)
loads_fragment: Callable[[object], TypeGuard[MatrixAccess]] = _does("load")
stores_fragment: Callable[[object], TypeGuard[MatrixAccess]] = _does("store")
accesses_rows: Callable[[object], TypeGuard[RowAccess]] = _does(*_ROWS)
loads_rows: Callable[[object], TypeGuard[RowAccess]] = _does("load_rows")
stores_rows: Callable[[object], TypeGuard[RowAccess]] = _does("store_rows")
multiplies: Callable[[object], TypeGuard[Product]] = _does(*_PRODUCTS)
multiplies_fragments: Callable[[object], TypeGuard[Product]] = _does("multiply")
multiplies_registers: Callable[[object], TypeGuard[Product]] = _does("multiply_registers")
is_producer: Callable[[object], TypeGuard[AnyOp]] = _does(*_PRODUCTS, "load_rows")
"""Whether a step makes values that others only move: it multiplies, or loads rows."""
is_main: Callable[[object], TypeGuard[AnyOp]] = _does(*_PRODUCTS, *_ROWS, "move")
"""Whether a program can be about a step: loads and stores of wmma only serve others."""
