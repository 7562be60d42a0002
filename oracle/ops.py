"""Matrix instructions as steps: one class for all, told apart by the forms of the instructions.

An operand is known by what it holds: a fragment of wmma, whose layout is opaque, or registers whose
layout is known lane by lane; what lies in memory, by where: lines of a matrix, or rows at addresses
of the lanes. An instruction multiplies, or it moves data as `oracle.matrix_moves.moves` has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any, Generic, Self, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.forms import (
    Form,
    LdmatrixForm,
    LoadForm,
    MainForm,
    MmaForm,
    MmaSyncForm,
    ProductForm,
    StmatrixForm,
    StoreForm,
)
from oracle.held import Fragment, Held, Registers, StepBase, Use
from oracle.matrices import LANES, Matrix, Vector
from oracle.places import Place, Span, check, check_range
from oracle.registers import check_vector
from oracle.storage import Tile

COUNTS = (1, 2, 4, 8)
"""Registers that an operand of ldmatrix, stmatrix or mma.sync has."""


def check_address(address: int | None, registers: int) -> None:
    """Raise UsageError unless the address of a load can stand in a register of its destination.

    Parameters
    ----------
    address
        Which register; None for none.
    registers
        How many there are.
    """
    if address is not None:
        check_range(address, 0, registers - 1, "register of the destination with the address")


def address_text(address: int | None) -> str:
    """Return what to add to a load in words where a register that it writes has its address."""
    return "" if address is None else f", address in register {address} of them"


def _check_immediate(immediate: int) -> None:
    check_range(immediate, -(1 << 31), (1 << 31) - 1, "immediate part of an address, in bytes,")


MatrixForm = LoadForm | StoreForm
RowForm = LdmatrixForm | StmatrixForm


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The lines of a matrix, equally far apart, as wmma.load and wmma.store take them."""

    place: Place
    stride: int | None = None
    """Elements from one row (or column) to the next; None: the operand is left out."""
    stride_in_register: bool = False
    """Whether the stride operand is a register; otherwise an immediate."""
    immediate: int = 0
    """Bytes of the address that stand in the instruction, as in `[p+immediate]`; the register
    holds the rest."""

    def check(self, form: Form) -> None:
        """Raise UsageError unless a form can take them."""
        if self.stride is None:
            check(
                not self.stride_in_register,
                "a default stride stands in no register; give a stride",
            )
        else:
            # "stride is an optional 32-bit integer operand" (9.7.14.4.3)
            check_range(self.stride, 0, (1 << 32) - 1, "stride, in elements,")
        _check_immediate(self.immediate)

    def spans(self, form: MatrixForm) -> tuple[Span, ...]:
        """Return the bytes of the matrix: its rows, or its columns where they are contiguous."""
        matrix, layout = form.matrix, form.layout
        length = matrix.default_stride(layout)
        return (
            Span(
                buffer=self.place.buffer,
                start=self.place.offset,
                run=length * matrix.type.bits // 8,
                pitch=(length if self.stride is None else self.stride) * matrix.type.bits // 8,
                runs=matrix.leading_instances(layout),
            ),
        )

    def words(self, form: MatrixForm) -> str:
        """Return what a step's line says of them."""
        matrix = form.matrix
        return (
            f"{matrix.operand.upper()} {matrix.rows}x{matrix.columns} {matrix.type.name} "
            f"{form.layout}-major at {self.place}, "
            f"stride {'default' if self.stride is None else self.stride}"
        )


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of 16 bytes at addresses that the lanes give, as ldmatrix and stmatrix take them."""

    buffer: str
    addresses: tuple[int, ...]
    """For each of the 32 lanes, bytes from the start of the buffer. Those of the lanes that
    `form.addresses` leaves out are not used, except by ldmatrix on sm_75, where they must be valid.
    Rows that are written must lie apart."""
    immediate: int = 0
    """Bytes of every address that stand in the instruction; the lanes' registers hold the rest."""

    def check(self, form: Form) -> None:
        """Raise UsageError unless a form can take them."""
        check(
            len(self.addresses) == LANES,
            f"{len(self.addresses)} addresses given; {form.mnemonic} takes one for each of "
            f"{LANES} lanes",
        )
        for address in (min(self.addresses), max(self.addresses)):
            check_range(address, -(1 << 31), (1 << 31) - 1, "address of a row, in bytes,")
        _check_immediate(self.immediate)

    def offsets(self, form: RowForm) -> NDArray[np.int64]:
        """Return every byte of the rows that a form uses, counted from the start of the buffer.

        Returns
        -------
        int64 (form.addresses, 16)
        """
        starts = np.array(self.addresses[: form.addresses], np.int64)
        return starts[:, None] + np.arange(form.ROW_BYTES)

    def spans(self, form: RowForm) -> tuple[Span, ...]:
        """Return the rows that a form uses, in the order of the lanes."""
        return tuple(
            Span.block(self.buffer, address, form.ROW_BYTES)
            for address in self.addresses[: form.addresses]
        )

    def words(self, form: RowForm) -> str:
        """Return what a step's line says of them."""
        return self.buffer


Memory = Lines | Rows
"""What an instruction reads or writes in memory."""


@dataclass(frozen=True, kw_only=True)
class OpRow:
    """What holds of an instruction, whatever its qualifiers are."""

    operands: tuple[str, ...]
    """What its vectors of registers are called, in the order of a step."""
    written: str = ""
    """Which of them it writes; "" for a store."""
    memory: type[Memory] | None = None
    """What it reads or writes in memory."""
    each: bool = False
    """Whether it takes single registers, and is done for each of an operand."""
    words: str
    """The step in a line, with places for its operands and its memory."""
    stored_as: str
    """What the step is called in stored programs (`corpus.programs`)."""


_PRODUCT = "{d} = {a} x {b} + {c}"
OP_ROWS: Mapping[str, OpRow] = {
    "wmma.load": OpRow(
        operands=("fragment",), written="fragment", memory=Lines,
        words="load {fragment} = {memory}", stored_as="Load",
    ),
    "wmma.store": OpRow(
        operands=("fragment",), memory=Lines,
        words="store {fragment} to {memory}", stored_as="Store",
    ),
    "wmma.mma": OpRow(
        operands=("d", "a", "b", "c"), written="d", words=_PRODUCT, stored_as="Multiply",
    ),
    "mma": OpRow(
        operands=("d", "a", "b", "c"), written="d", words=f"{_PRODUCT}, lane by lane",
        stored_as="MultiplyLanes",
    ),
    "ldmatrix": OpRow(
        operands=("registers",), written="registers", memory=Rows,
        words="load rows {registers} from {memory}", stored_as="LoadRows",
    ),
    "stmatrix": OpRow(
        operands=("registers",), memory=Rows,
        words="store rows {registers} to {memory}", stored_as="StoreRows",
    ),
    "movmatrix": OpRow(
        operands=("source", "destination"), written="destination", each=True,
        words="{destination} = {source}, every register transposed",
        stored_as="TransposeRegisters",
    ),
}  # fmt: skip
"""By mnemonics."""

AnyForm = TypeVar("AnyForm", bound=Form)
F = TypeVar("F", bound=Form, covariant=True)
M = TypeVar("M", bound=Memory | None, covariant=True)


@dataclass(frozen=True, kw_only=True)
class Op(StepBase, Generic[F, M]):
    """One matrix instruction. Its result may have registers of any of its sources."""

    form: F
    operands: tuple[str, ...]
    """Its vectors of registers (`oracle.registers`), in the order of `OpRow.operands`."""
    memory: M
    """What it reads or writes there; None of one that only works on registers."""
    address: int | None = None
    """Which register of the destination of a load holds the address before it, counted from 0;
    None: one that is no part of it."""
    count: int = 1
    """Registers of each operand, where the instruction is done for one after the other."""

    @staticmethod
    def of(form: AnyForm, **given: Any) -> Op[AnyForm, Any]:
        """Return a step from its operands and the fields of its memory, by their names.

        Raises
        ------
        UsageError
            If one is missing, or the instruction has no such.
        """
        row = OP_ROWS[form.mnemonic]
        missing = [name for name in row.operands if name not in given]
        check(not missing, f"{form.mnemonic} lacks its operand {', '.join(missing)}")
        operands = tuple(given.pop(name) for name in row.operands)
        memory = None
        if row.memory is not None:
            own = {one.name: given.pop(one.name) for one in fields(row.memory) if one.name in given}
            memory = row.memory(**own)
        return Op(form=form, operands=operands, memory=memory, **given)

    def __post_init__(self) -> None:
        allowed = COUNTS if self.row.each else (1,)
        check(
            self.count in allowed,
            f"{self.count} registers given; there are {', '.join(map(str, allowed))}",
        )
        for use in self.uses:
            check_vector(use.name, "fragment" if use.is_fragment else "vector of registers")
        if self.memory is not None:
            self.memory.check(self.form)
        if self.address is not None:
            check(
                self.memory is not None and self.writes is not None,
                f"{self.form.mnemonic} loads nothing, so that no destination holds its address",
            )
            check_address(self.address, self.uses[0].holds.registers)

    @property
    def row(self) -> OpRow:
        """What holds of the instruction, whatever its qualifiers are."""
        return OP_ROWS[self.form.mnemonic]

    @property
    def instruction(self) -> Form:
        return self.form

    @property
    def stored_as(self) -> str:
        return self.row.stored_as

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        row, holds = self.row, _holds(self.form, self.count)
        return tuple(
            Use(field=field, name=name, holds=held, written=field == row.written)
            for field, name, held in zip(row.operands, self.operands, holds, strict=True)
        )

    @property
    def fields(self) -> dict[str, Any]:
        """What `of` takes: operands, and the fields of its memory, by their names."""
        found: dict[str, Any] = {"form": self.form, **self.names}
        if self.memory is not None:
            found |= {one.name: getattr(self.memory, one.name) for one in fields(self.memory)}
        found["address"] = self.address
        return found | {"count": self.count} if self.row.each else found

    @cached_property
    def tile(self) -> Tile:
        """The matrix of a wmma.load or wmma.store as it lies in memory, from its place on."""
        form: Any = self.form
        assert isinstance(self.memory, Lines)
        return Tile(matrix=form.matrix, layout=form.layout, stride=self.memory.stride)

    @property
    def carried(self) -> str | None:
        return self.names.get("c", self.names.get("source"))

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        return self._spans if self.row.written else ()

    @cached_property
    def bytes_written(self) -> tuple[Span, ...]:
        return () if self.row.written else self._spans

    @property
    def _spans(self) -> tuple[Span, ...]:
        form: Any = self.form
        return () if self.memory is None else self.memory.spans(form)

    def changed(self, **changes: Any) -> Self:
        """Return the step with other fields, operands or fields of its memory, by their names."""
        own = {name: changes.pop(name) for name in self.row.operands if name in changes}
        if own:
            changes["operands"] = tuple((self.names | own).values())
        if self.row.memory is not None:
            names = [one.name for one in fields(self.row.memory) if one.name in changes]
            if names:
                memory: Any = self.memory
                changes["memory"] = replace(memory, **{name: changes.pop(name) for name in names})
        return super().changed(**changes)

    def __str__(self) -> str:
        form: Any = self.form
        memory = "" if self.memory is None else self.memory.words(form)
        return self.row.words.format(**self.names, memory=memory) + address_text(self.address)


@cache
def _holds(form: Any, count: int) -> tuple[Held, ...]:
    """Return what the operands of an instruction hold, in the order of `OpRow.operands`."""
    vectors: dict[str, Matrix | Vector] = form.vectors
    if not vectors:  # movmatrix, of single registers
        return (Registers(registers=count),) * 2
    layouts = {"r": "layout", "a": "a_layout", "b": "b_layout"}
    return tuple(
        Fragment.of(one, getattr(form, layouts.get(operand, ""), None))
        if isinstance(one, Matrix)
        else Registers.of(one)
        for operand, one in vectors.items()
    )


def called(form: Form) -> str:
    """Return an instruction as people call it: mma.sync, which is not wmma.mma."""
    return "mma.sync" if isinstance(form, MmaSyncForm) else form.mnemonic


AnyOp = Op[Form, Memory | None]
MatrixAccess = Op[MatrixForm, Lines]
"""A wmma.load or wmma.store."""
RowAccess = Op[RowForm, Rows]
"""An ldmatrix or stmatrix."""
Product = Op[ProductForm, None]
"""A wmma.mma or mma.sync."""
MainOp = Op[MainForm, Any]
FragmentProduct = Op[MmaForm, None]
RegisterProduct = Op[MmaSyncForm, None]


def accesses_matrix(step: object) -> TypeGuard[MatrixAccess]:
    """Whether a step loads or stores a fragment of wmma."""
    return isinstance(step, Op) and isinstance(step.memory, Lines)


def loads_fragment(step: object) -> TypeGuard[Op[LoadForm, Lines]]:
    """Whether a step is a wmma.load."""
    return accesses_matrix(step) and not step.stores


def stores_fragment(step: object) -> TypeGuard[Op[StoreForm, Lines]]:
    """Whether a step is a wmma.store."""
    return accesses_matrix(step) and step.stores


def accesses_rows(step: object) -> TypeGuard[RowAccess]:
    """Whether a step loads or stores rows at addresses of the lanes."""
    return isinstance(step, Op) and isinstance(step.memory, Rows)


def loads_rows(step: object) -> TypeGuard[Op[LdmatrixForm, Rows]]:
    """Whether a step loads rows."""
    return accesses_rows(step) and not step.stores


def stores_rows(step: object) -> TypeGuard[Op[StmatrixForm, Rows]]:
    """Whether a step stores rows."""
    return accesses_rows(step) and step.stores


def multiplies(step: object) -> TypeGuard[Product]:
    """Whether a step multiplies matrices."""
    return isinstance(step, Op) and step.row.written == "d"


def multiplies_fragments(step: object) -> TypeGuard[FragmentProduct]:
    """Whether a step multiplies fragments of wmma."""
    return multiplies(step) and isinstance(step.form, MmaForm)


def multiplies_registers(step: object) -> TypeGuard[RegisterProduct]:
    """Whether a step multiplies matrices whose layout in registers is known."""
    return multiplies(step) and isinstance(step.form, MmaSyncForm)


def is_producer(step: object) -> TypeGuard[MainOp]:
    """Whether a step makes values that others only move: it multiplies, or loads rows."""
    return multiplies(step) or loads_rows(step)


def is_main(step: object) -> TypeGuard[MainOp]:
    """Whether a program can be about a step: loads and stores of wmma only serve others."""
    return isinstance(step, Op) and not isinstance(step.memory, Lines)
