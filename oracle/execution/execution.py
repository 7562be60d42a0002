"""Programs on batches of images, by a target's model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle import layouts
from oracle.arithmetic.conversions import in_order, own_scratch
from oracle.descriptors import read_matrix
from oracle.execution.chosen import chosen_by
from oracle.execution.products import multiply, multiply_lanes
from oracle.execution.warpgroups import multiply_warpgroup
from oracle.isa.forms import LANES
from oracle.isa.targets import DEFAULT_TARGET
from oracle.layouts import Tile
from oracle.models import NO_FIGURES, Confidence, Model, model_for, model_of, weakest
from oracle.program.definedness import check_defined
from oracle.program.lane_code import LaneCode
from oracle.program.lane_runs import lane_results
from oracle.program.operands import Fragment, Place, Register, Use, Word
from oracle.program.operations import Elementwise, Scalar, apply
from oracle.program.program import Program, check_images, position, requirements
from oracle.program.steps import (
    AnyOp,
    Barrier,
    Branch,
    Copy,
    Loop,
    MatrixAccess,
    OneWarp,
    PlainAccess,
    Product,
    RowAccess,
    Step,
    Straight,
    row_offsets,
)
from oracle.program.warpgroup import AsyncProduct, WarpgroupSync
from oracle.scalar import SCALARS

Planes = dict[str, NDArray[Any]]
"""Arrays of one shape (or memories of one size), by the name of the plane."""


def packed(step: Scalar, registers: NDArray[np.uint32]) -> NDArray[Any]:
    """Return pairs of f32 registers (..., 2 n) as one each; the first goes to the low half."""
    return SCALARS[step.opcode].evaluate(registers[..., 1::2], registers[..., 0::2])[0]


@dataclass(kw_only=True, eq=False, slots=True)
class Value:
    """What a step wrote into registers: a fragment, or registers known lane by lane."""

    planes: Planes
    """Fragments (count, rows, columns), registers (count, 32, words)."""
    registers: int
    """Registers in each lane."""
    constant: int | None = None
    """What each of them holds in every lane, if a step set them to one number."""


class Cell(NamedTuple):
    """What one register holds."""

    value: Value
    part: int
    """Which of the value's registers."""

    @property
    def own(self) -> Value:
        """What this one register holds, of registers known lane by lane."""
        planes, at = self.value.planes, self.part
        words = next(iter(planes.values())).shape[-1] // self.value.registers
        own = {name: one[..., words * at : words * (at + 1)] for name, one in planes.items()}
        return replace(self.value, planes=own, registers=1)


class Warps:
    """Warps of a defined program; their images, uint8 (count, image_bytes), change in place."""

    PLANES: ClassVar[tuple[str, ...]] = ("bits",)

    def __init__(self, program: Program, images: NDArray[np.uint8], model: Model) -> None:
        self.program = program
        self.model = model
        self.threads = program.threads  # that take a step on one image
        self.memory: dict[str, Planes] = {
            "global": {"bits": images},
            "shared": {"bits": np.zeros((len(images), program.shared_bytes), dtype=np.uint8)},
        }
        self.cells: dict[Register, Cell] = {}

    @property
    def count(self) -> int:
        return len(self.memory["global"]["bits"])

    def take(self, step: Straight) -> None:
        """Take one step: what its action makes of what it reads is what it writes."""
        made: Planes | None = getattr(self, step.action)(step, *map(self.held, step.reads))
        if made is not None:
            self.write(step, made)

    def write(self, step: Straight, planes: Planes) -> None:
        assert step.writes is not None
        registers = step.writes.registers
        constant = self.constant(step)
        value = Value(planes=planes, registers=len(registers), constant=constant)
        cells = map(Cell, repeat(value), range(len(registers)))
        self.cells.update(zip(registers, cells, strict=True))

    def held(self, use: Use) -> Planes:
        """Return what the registers of an operand hold, gathered from several values."""
        cells = [self.cells[register] for register in use.registers]
        value = cells[0].value
        if use.is_fragment and value.constant is not None:
            return self.uniform(use, value.constant)
        if value.registers == len(cells):
            for index, cell in enumerate(cells):
                if cell.value is not value or cell.part != index:
                    break
            else:
                return value.planes
        words = use.holds.bits // 32
        parts = [
            (cell.value.planes, slice(words * cell.part, words * (cell.part + 1))) for cell in cells
        ]
        return {
            plane: np.concatenate([planes[plane][..., part] for planes, part in parts], axis=-1)
            for plane in self.PLANES
        }

    def constant(self, step: Straight) -> int | None:
        """Return the number that all registers hold in every lane that a step sets or copies."""
        if not step.copies:
            return step.sets
        (use,) = step.reads
        first, *rest = (self.cells[register].value.constant for register in use.registers)
        return first if all(one == first for one in rest) else None

    def uniform(self, use: Use, constant: int) -> Planes:
        holds = use.holds
        assert isinstance(holds, Fragment)
        tile = Tile(matrix=holds.matrix, layout="row")
        number = constant.to_bytes(holds.bits // 8, "little")
        line = np.frombuffer(number * (tile.extent // len(number)), np.uint8)
        matrix = np.ascontiguousarray(layouts.read(line[None], 0, tile))
        return {"bits": np.repeat(matrix, self.count, axis=0)}

    def set_registers(self, step: Scalar) -> Planes:
        low, high = step.constant & 0xFFFFFFFF, step.constant >> 32
        number = [low] if step.bits == 32 else [low, high]
        shape = self.count, self.threads, 1
        return {"bits": np.tile(np.array(number * step.count, np.uint32), shape)}

    def load(self, step: MatrixAccess) -> Planes:
        memory, offset = self.at(step.memory.place)
        tile, matrix = step.tile, step.form.matrix()
        # As the arithmetic wants them: floats with the warp last and, of multiplicands, k first.
        order = (2, 1, 0) if matrix.operand == "a" else (1, 2, 0)
        order = order if matrix.type.is_float else (0, 1, 2)
        return {
            plane: in_order(layouts.read(memory[plane], offset, tile), order)
            for plane in self.PLANES
        }

    def store(self, step: MatrixAccess, matrix: Planes) -> None:
        memory, offset = self.at(step.memory.place)
        for plane in self.PLANES:
            layouts.write(memory[plane], offset, step.tile, matrix[plane])

    def multiply(self, step: Product, a: Planes, b: Planes, c: Planes) -> Planes:
        return {"bits": multiply(step.form, a["bits"], b["bits"], c["bits"], model=self.model)}

    def multiply_registers(
        self, step: Product, a: Planes, b: Planes, c: Planes, *others: Planes
    ) -> Planes:
        """Return the registers of A x B + C; `others` hold metadata, scales of A, scales of B."""
        given = [self.by_warp(one)["bits"] for one in (a, b, c, *others)]
        metadata, scaling = chosen_by(step, given[3:])
        left, right, addend = given[:3]
        d = multiply_lanes(
            step.form, left, right, addend, model=self.model, metadata=metadata, scaling=scaling
        )
        return {"bits": d.reshape(self.count, self.threads, -1)}

    def by_warp(self, planes: Planes) -> Planes:
        """Return registers of threads, (count, threads, words), as those of single warps."""
        if self.threads == LANES:
            return planes
        warps = self.count * self.threads // LANES
        return {name: one.reshape(warps, LANES, one.shape[-1]) for name, one in planes.items()}

    def multiply_async(self, step: AsyncProduct, *given: Planes) -> Planes:
        """Return the registers of D of a warpgroup's multiplication, as behind the wait for it."""
        return {"bits": self.warpgroup_product(step, [planes["bits"] for planes in given])}

    def warpgroup_product(
        self, step: AsyncProduct, given: Sequence[NDArray[Any]], plane: str = "bits"
    ) -> NDArray[np.uint32]:
        """Return registers of D, (count, 128, words), of those that are read, in their order."""
        of = {use.field: words for use, words in zip(step.reads, given, strict=True)}
        form, shape = step.form, (self.count, self.threads, step.form.words("d"))
        d, scale = of.get("d"), int(step.scale_d == 1)
        d = np.zeros(shape, np.uint32) if d is None else d
        matrices = {name: self.tile(step, name, plane) for name in step.tiles}
        if step.a:
            matrices["a"] = layouts.unpack(form, "a", of["a"], own_scratch())
        metadata = None if step.selector is None else (of["e"][..., 0], step.selector)
        return multiply_warpgroup(
            form, matrices["a"], matrices["b"], d, scales=(scale, step.scale_a, step.scale_b),
            metadata=metadata, model=self.model,
        )  # fmt: skip

    def tile(self, step: AsyncProduct, operand: str, plane: str = "bits") -> NDArray[Any]:
        """Return A or B as it lies in shared memory, raw patterns (count, rows, columns)."""
        tile, matrix = step.tiles[operand], step.form.matrix(operand)
        memory, start = self.at(Place(buffer=tile.place.buffer))
        addresses = step.addresses(operand) + start
        return read_matrix(memory[plane], matrix, addresses, whole_units=not tile.transposed)

    def warpgroup_sync(self, step: WarpgroupSync) -> None:
        pass  # multiplications are done at once here

    def elementwise(self, step: Elementwise, source: Planes) -> Planes:
        return {"bits": apply(step.operation, step.matrix.type, source["bits"], step.constant)}

    def rows(self, step: RowAccess) -> tuple[Planes, NDArray[np.int64]]:
        memory, start = self.at(Place(buffer=step.memory.buffer))
        return memory, row_offsets(step) + start

    def load_rows(self, step: RowAccess) -> Planes:
        memory, rows = self.rows(step)
        found = {plane: layouts.load_rows(step.form, memory[plane], rows) for plane in self.PLANES}
        warps = self.threads // LANES
        return {plane: np.tile(words, (1, warps, 1)) for plane, words in found.items()}

    def store_rows(self, step: RowAccess, registers: Planes) -> None:
        memory, rows = self.rows(step)
        for plane in self.PLANES:
            layouts.store_rows(step.form, memory[plane], rows, registers[plane])

    def move(self, step: AnyOp, registers: Planes) -> Planes:
        given = self.by_warp(registers)
        found = {plane: layouts.moved(step.form, given[plane]) for plane in self.PLANES}
        return {plane: words.reshape(registers[plane].shape) for plane, words in found.items()}

    def load_registers(self, step: PlainAccess) -> Planes:
        memory, offset = self.at(step.place)
        (use,) = step.uses
        return {
            plane: np.array(memory[plane][:, offset : offset + step.size], order="C")
            .view("<u4")
            .astype(np.uint32, copy=False)
            .reshape(self.count, self.threads, use.holds.words)
            for plane in self.PLANES
        }

    def store_registers(self, step: PlainAccess, registers: Planes) -> None:
        memory, offset = self.at(step.place)
        for plane in self.PLANES:
            words = np.ascontiguousarray(registers[plane][:, : step.lanes])
            lanes = words.astype("<u4", copy=False).view(np.uint8)
            memory[plane][:, offset : offset + step.size] = lanes.reshape(self.count, step.size)

    def move_registers(self, step: Scalar, source: Planes) -> Planes:
        return source

    def pack_registers(self, step: Scalar, source: Planes) -> Planes:
        return {"bits": packed(step, source["bits"])}

    def lane_code(self, step: LaneCode, source: Planes | None = None) -> Planes:
        """Return what threads compute, (count, threads, words)."""
        count, threads = self.count, self.threads
        words = np.zeros((count, threads, 0), np.uint32) if source is None else source["bits"]
        bits = lane_results(step, self.by_warp({"bits": words})["bits"])
        return {"bits": bits.reshape(count, threads, -1)}

    def copy(self, step: Copy) -> None:
        (source, start), (target, offset) = self.at(step.source), self.at(step.destination)
        for plane in self.PLANES:
            bytes_ = source[plane][:, start : start + step.size]
            target[plane][:, offset : offset + step.size] = bytes_

    def barrier(self, step: Barrier) -> None:
        pass  # steps follow each other here

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
        warps = object.__new__(type(self))
        warps.program, warps.model, warps.threads = self.program, self.model, self.threads
        warps.memory = {space: _part(planes, mask) for space, planes in self.memory.items()}
        values = {id(value): value for value, _ in self.cells.values()}
        parts = {key: replace(v, planes=_part(v.planes, mask)) for key, v in values.items()}
        warps.cells = {reg: Cell(parts[id(v)], part) for reg, (v, part) in self.cells.items()}
        return warps

    def join(self, mask: NDArray[np.bool_], yes: Warps, no: Warps) -> None:
        """Become the warps of `yes` where the mask is set, else of `no`; drop what differs."""
        for space, planes in self.memory.items():
            for plane, array in planes.items():
                array[mask], array[~mask] = yes.memory[space][plane], no.memory[space][plane]
        self.cells = {}
        joined: dict[tuple[int, int], Value | None] = {}
        for register, one in yes.cells.items():
            other = no.cells.get(register)
            if other is None:
                continue
            if (one.part, one.value.registers) != (other.part, other.value.registers):
                if self.threads > LANES and (value := self._joined(mask, one.own, other.own)):
                    self.cells[register] = Cell(value, 0)
                continue
            key = id(one.value), id(other.value)
            if key not in joined:
                joined[key] = self._joined(mask, one.value, other.value)
            if (value := joined[key]) is not None:
                self.cells[register] = Cell(value, one.part)

    def _joined(self, mask: NDArray[np.bool_], yes: Value, no: Value) -> Value | None:
        """Return the value that is `yes` where the mask is set; None if there is none."""
        planes: Planes = {}
        for plane in self.PLANES:
            one, other = yes.planes[plane], no.planes[plane]
            kinds = [(array.shape[1:], array.dtype) for array in (one, other)]
            if yes.registers != no.registers or kinds[0] != kinds[1]:
                return None
            planes[plane] = np.empty((len(mask), *one.shape[1:]), dtype=one.dtype)
            planes[plane][mask], planes[plane][~mask] = one, other
        constant = yes.constant if yes.constant == no.constant else None
        return Value(planes=planes, registers=yes.registers, constant=constant)


def _part(planes: Planes, mask: NDArray[np.bool_]) -> Planes:
    return {plane: array[mask] for plane, array in planes.items()}


CHUNK_IMAGES = 512
"""Images that go through a program together: as many as `multiply` computes at once."""

CHUNK_BYTES = 1 << 24
"""Most bytes of images that go through a program together: bounds copies of branches, fragments."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Expectation:
    """What the images of a batch hold after a program, by a target's model."""

    program: Program
    model: Model
    images: NDArray[np.uint8]
    """uint8 (count, image_bytes): every byte, those that no step writes included."""

    @cached_property
    def confidence(self) -> Confidence:
        """Least sure of the figures of the model that the program's results depend on."""
        forms = [form for form in requirements(self.program) if form.is_product]
        return weakest((Confidence.MEASURED, *(self.model.confidence_for(form) for form in forms)))


def execute(
    program: Program, images: NDArray[Any], *, target: str = DEFAULT_TARGET,
    model: Model | str | Path | None = None,
) -> Expectation:  # fmt: skip
    """Execute a program on images, uint8 (count, image_bytes), which are left as they are.

    `model`: A model in place of the target's, or its file, TOML or JSON (`oracle.models.files`).
    Raises UsageError if the target lacks a form, or the images have a wrong dtype or shape;
    UndefinedProgramError if the ISA leaves the program undefined.
    """
    check_defined(program, target=target)
    check_images(program, images)
    judge = model_of(target, model)
    result = np.array(images, order="C")
    for part in slices_of(program, len(result)):
        run(program.steps, Warps(program, result[part], judge))
    return Expectation(program=program, model=judge, images=result)


def expansions(program: Program, *, target: str = DEFAULT_TARGET) -> tuple[str, ...]:
    """Say by whose figures each product is expected: "12.4 to 12.6", "all", or NO_FIGURES."""
    model = model_for(target)
    forms = [form for form in requirements(program) if form.is_product]
    return tuple(model.expansion_of(form) for form in forms)


def has_figures(program: Program, *, target: str = DEFAULT_TARGET) -> bool:
    """Whether there are figures of all multiplications in code of the compiler that is meant."""
    return NO_FIGURES not in expansions(program, target=target)


def slices_of(program: Program, count: int) -> Iterator[slice]:
    """Cut a batch into slices that are worked on one after the other."""
    size = max(1, min(CHUNK_IMAGES, CHUNK_BYTES // (program.image_bytes + program.shared_bytes)))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


Taking = Callable[[Warps, Straight], None]


def run(steps: tuple[Step, ...], warps: Warps, take: Taking = Warps.take) -> None:
    """Take a batch of warps through steps, one by one with `take`."""
    for step in steps:
        match step:
            case AsyncProduct() if isinstance(step.scale_d, Word):
                _where(warps.word(step.scale_d) != 0, warps, *step.arms, take)
            case Loop() if step.counts:
                run(step.unrolled, warps, take)
            case Branch() | Loop():
                value = step.uniform
                numbers = (
                    warps.word(value)
                    if isinstance(value, Word)
                    else np.full(warps.count, value, dtype=np.uint32)
                )
                if isinstance(step, Branch):
                    _where(numbers != 0, warps, step.then, step.otherwise, take)
                    continue
                turns = int(numbers.max(initial=0))
                # Whoever takes steps in a way of his own sees each turn.
                once = step.repeats and take is Warps.take
                for iteration in range(min(turns, 1) if once else turns):
                    _where(numbers > iteration, warps, step.body, (), take)
            case OneWarp():
                warps.threads = LANES
                run(step.body, warps, take)
                warps.threads = warps.program.threads
            case step:
                take(warps, step)


def _where(
    mask: NDArray[np.bool_], warps: Warps, then: tuple[Step, ...], otherwise: tuple[Step, ...],
    take: Taking,
) -> None:  # fmt: skip
    if mask.all():
        run(then, warps, take)
    elif not mask.any():
        run(otherwise, warps, take)
    else:
        yes, no = warps.part(mask), warps.part(~mask)
        run(then, yes, take)
        run(otherwise, no, take)
        warps.join(mask, yes, no)
