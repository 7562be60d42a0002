"""The state of a batch of warps, and what each step does to it.

One array operation acts on all warps. Bytes and elements live in *planes*: arrays of equal shape
that every load, store and copy moves alike. Here there is one, the bits; `oracle.bounds` adds
more.
"""

from __future__ import annotations

from typing import Any, ClassVar, assert_never

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import packed
from oracle.elementwise import apply
from oracle.forms import LoadForm
from oracle.image import position
from oracle.lane_products import multiply_lanes
from oracle.lane_steps import (
    LoadRegisters,
    LoadRows,
    MultiplyLanes,
    PackRegisters,
    StoreRegisters,
    StoreRows,
    TransposeRegisters,
)
from oracle.matrices import LANES
from oracle.matrix_moves import collect, distribute, transposed
from oracle.models import Model
from oracle.multiply import multiply
from oracle.places import Place, Word
from oracle.program import Program
from oracle.steps import Barrier, Copy, Elementwise, Load, Multiply, Store, Straight
from oracle.storage import read, write
from oracle.transposition import in_order

Planes = dict[str, NDArray[Any]]
"""Arrays of one shape (or memories of one size), by the name of the plane."""


class Warps:
    """A batch of warps with their memories, fragments and registers.

    Parameters
    ----------
    program : Program
        Defined (see `oracle.definedness`).
    images : uint8 (count, image_bytes)
        Changed in place by the steps.
    model : Model
        What computes the products.
    """

    PLANES: ClassVar[tuple[str, ...]] = ("bits",)

    def __init__(self, program: Program, images: NDArray[np.uint8], model: Model) -> None:
        self.program = program
        self.model = model
        self.memory: dict[str, Planes] = {
            "global": {"bits": images},
            "shared": {"bits": np.zeros((len(images), program.shared_bytes), dtype=np.uint8)},
        }
        self.names: dict[str, Planes] = {}
        """Fragments, (count, rows, columns), and registers, (count, 32, registers)."""

    @property
    def count(self) -> int:
        """Number of warps."""
        return len(self.memory["global"]["bits"])

    def take(self, step: Straight) -> None:
        """Take one step."""
        match step:
            case Load():
                self.names[step.fragment] = self.load(step)
            case Multiply():
                self.names[step.d] = self.multiply(step)
            case Store():
                self.store(step, self.names[step.fragment])
            case Elementwise():
                self.names[step.destination] = self.elementwise(step)
            case LoadRows():
                self.names[step.registers] = self.load_rows(step)
            case StoreRows():
                self.store_rows(step)
            case LoadRegisters():
                self.names[step.registers] = self.load_registers(step)
            case StoreRegisters():
                self.store_registers(step)
            case MultiplyLanes():
                self.names[step.d] = self.multiply_lanes(step)
            case TransposeRegisters():
                self.names[step.destination] = self.transpose_registers(step)
            case PackRegisters():
                self.names[step.destination] = self.pack_registers(step)
            case Copy():
                self.copy(step)
            case Barrier():  # steps follow each other here, so that there is nothing to order
                pass
            case _:
                assert_never(step)

    def load(self, step: Load) -> Planes:
        """Return the matrix at a place."""
        memory, offset = self.at(step.place)
        tile, order = step.tile, _arithmetic_order(step.form)
        return {plane: in_order(read(memory[plane], offset, tile), order) for plane in self.PLANES}

    def store(self, step: Store, matrix: Planes) -> None:
        """Write a matrix to a place."""
        memory, offset = self.at(step.place)
        for plane in self.PLANES:
            write(memory[plane], offset, step.tile, matrix[plane])

    def multiply(self, step: Multiply) -> Planes:
        """Return A x B + C."""
        a, b, c = (self.names[name]["bits"] for name in (step.a, step.b, step.c))
        return {"bits": multiply(step.form, a, b, c, model=self.model)}

    def elementwise(self, step: Elementwise) -> Planes:
        """Return a fragment after an element-wise operation."""
        source = self.names[step.source]["bits"]
        return {"bits": apply(step.operation, step.matrix.type, source, step.constant)}

    def load_rows(self, step: LoadRows) -> Planes:
        """Return what ldmatrix loads."""
        memory, start = self.at(Place(buffer=step.buffer))
        rows = np.array(step.addresses[: step.form.addresses], dtype=np.int64) + start
        index = rows[:, None] + np.arange(step.form.ROW_BYTES)
        return {
            plane: distribute(step.form, np.take(memory[plane], index, axis=1))
            for plane in self.PLANES
        }

    def store_rows(self, step: StoreRows) -> None:
        """Write rows as stmatrix does."""
        memory, start = self.at(Place(buffer=step.buffer))
        rows = np.array(step.addresses[: step.form.addresses], dtype=np.int64) + start
        index = rows[:, None] + np.arange(step.form.ROW_BYTES)
        for plane in self.PLANES:
            memory[plane][:, index] = collect(step.form, self.names[step.registers][plane])

    def load_registers(self, step: LoadRegisters) -> Planes:
        """Return a copy of words of memory, lane after lane, uint32 (count, 32, words)."""
        memory, offset = self.at(step.place)
        (use,) = step.uses
        return {
            plane: np.array(memory[plane][:, offset : offset + step.size], order="C")
            .view("<u4")
            .astype(np.uint32, copy=False)
            .reshape(self.count, LANES, use.holds.words)
            for plane in self.PLANES
        }

    def store_registers(self, step: StoreRegisters) -> None:
        """Write what `names` holds as registers, lane after lane."""
        memory, offset = self.at(step.place)
        for plane in self.PLANES:
            words = np.ascontiguousarray(self.names[step.registers][plane][:, : step.lanes])
            lanes = words.astype("<u4", copy=False).view(np.uint8)
            memory[plane][:, offset : offset + step.size] = lanes.reshape(self.count, step.size)

    def multiply_lanes(self, step: MultiplyLanes) -> Planes:
        """Return the registers of A x B + C."""
        a, b, c = (self.names[name]["bits"] for name in (step.a, step.b, step.c))
        return {"bits": multiply_lanes(step.form, a, b, c, model=self.model)}

    def transpose_registers(self, step: TransposeRegisters) -> Planes:
        """Return every register as movmatrix gives it."""
        source = self.names[step.source]
        return {plane: transposed_registers(source[plane]) for plane in self.PLANES}

    def pack_registers(self, step: PackRegisters) -> Planes:
        """Return pairs of f32 registers, rounded to a narrower format."""
        return {"bits": packed(self.names[step.source]["bits"], step.type)}

    def copy(self, step: Copy) -> None:
        """Copy bytes from place to place."""
        source, start = self.at(step.source)
        destination, offset = self.at(step.destination)
        for plane in self.PLANES:
            destination[plane][:, offset : offset + step.size] = source[plane][
                :, start : start + step.size
            ]

    def word(self, word: Word) -> NDArray[np.uint32]:
        """Return a masked word of each image, uint32 (count,)."""
        memory, offset = self.at(word.place)
        words = np.ascontiguousarray(memory["bits"][:, offset : offset + 4]).view("<u4")[:, 0]
        return words & np.uint32(word.mask)

    def at(self, place: Place) -> tuple[Planes, int]:
        """Return the memory of a place and the byte in it."""
        space = self.program.buffer(place.buffer).space
        return self.memory[space], position(self.program, place)

    def part(self, mask: NDArray[np.bool_]) -> Warps:
        """Return copies of some of the warps, in their order."""
        warps = object.__new__(type(self))
        warps.program, warps.model = self.program, self.model
        warps.memory = {space: _part(planes, mask) for space, planes in self.memory.items()}
        warps.names = {name: _part(planes, mask) for name, planes in self.names.items()}
        return warps

    def join(self, mask: NDArray[np.bool_], yes: Warps, no: Warps) -> None:
        """Become the warps of `yes` where the mask is set, and those of `no` elsewhere, in place.

        A name that one of the two lacks, or that they hold with different shapes, is dropped:
        nothing can use it before writing it again.
        """
        for space, planes in self.memory.items():
            for plane, array in planes.items():
                array[mask] = yes.memory[space][plane]
                array[~mask] = no.memory[space][plane]
        self.names = {}
        for name in yes.names.keys() & no.names.keys():
            pairs = [(yes.names[name][plane], no.names[name][plane]) for plane in self.PLANES]
            if all(y.shape[1:] == n.shape[1:] and y.dtype == n.dtype for y, n in pairs):
                self.names[name] = {
                    plane: _joined(mask, *pair)
                    for plane, pair in zip(self.PLANES, pairs, strict=True)
                }


def _part(planes: Planes, mask: NDArray[np.bool_]) -> Planes:
    return {plane: array[mask] for plane, array in planes.items()}


def transposed_registers(registers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return every register as movmatrix gives it, uint32 (count, 32, registers)."""
    apart = registers.transpose(0, 2, 1)[..., None]  # (count, registers, 32, 1)
    return transposed(apart)[..., 0].transpose(0, 2, 1)


def _joined(mask: NDArray[np.bool_], yes: NDArray[Any], no: NDArray[Any]) -> NDArray[Any]:
    array = np.empty((len(mask), *yes.shape[1:]), dtype=yes.dtype)
    array[mask] = yes
    array[~mask] = no
    return array


def _arithmetic_order(form: LoadForm) -> tuple[int, int, int]:
    """Order of the axes (warp, row, column) in memory that the arithmetic wants.

    In floating point it works on arrays with the warp last and, of multiplicands, k first; in
    this order it need not copy. Integers go through matrix products, warp by warp.
    """
    if not form.type.is_float:
        return (0, 1, 2)
    return (2, 1, 0) if form.operand == "a" else (1, 2, 0)
