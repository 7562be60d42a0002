"""Products, from opcode or form to D, and programs on batches of images, by a target's model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle import layouts
from oracle.arithmetic.conversions import Scratch, in_order, own_scratch
from oracle.arithmetic.dots import dot_product, scalar_dot
from oracle.arithmetic.doubles import chain
from oracle.arithmetic.integers import S32_GREATEST, S32_LEAST, integer_products
from oracle.arithmetic.scaled import scaled_product
from oracle.errors import UsageError
from oracle.execution.chosen import (
    Metadata,
    Scales,
    Scaling,
    checked_selector,
    chosen_by,
    scales_of,
)
from oracle.isa import lookup
from oracle.isa.forms import LANES, Form
from oracle.isa.targets import DEFAULT_TARGET
from oracle.layouts import Tile
from oracle.models import NO_FIGURES, Confidence, Model, model_for, model_of, weakest
from oracle.program.lane_code import LaneCode, run_lanes
from oracle.program.operands import Fragment, Place, Register, Use, Word
from oracle.program.operations import Elementwise, Scalar, apply
from oracle.program.program import Program, check_defined, check_images, position, requirements
from oracle.program.steps import (
    AnyOp,
    Barrier,
    Branch,
    Copy,
    Loop,
    MatrixAccess,
    PlainAccess,
    Product,
    RowAccess,
    Step,
    Straight,
    row_offsets,
)
from oracle.scalar import SCALARS

_CHUNK_PRODUCTS = 512 * 16 * 16 * 16
"""Products computed together, below 16 MiB; of mma.sync twice as many (2026-11-22)."""
_CHUNK_STEP = 64
"""Tiles of a chunk are a multiple of this, so that every row of elements starts at a cache line."""
_CHUNK_BYTES = 4 << 20
"""Elements of all operands that are taken together."""
_CHUNK_DOUBLES_BYTES = 8 << 20
"""The same of f64, at most: a power of two of tiles, else 1.2 times as long (2026-11-22)."""


def mma(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, target: str = "sm_90",
    model: Model | str | Path | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Return the matrices D, (..., m, n), of one wmma.mma (9.7.14.4.5), by the model of a target.

    `a`, `b`, `c`: Raw patterns of logical matrices (..., m, k), (..., k, n), (..., m, n), of dtypes
    `oracle.isa.forms.Format.raw`. `model`: In place of the target's, or its file, TOML or JSON.
    Raises UsageError if the opcode, the target, a shape, a dtype or an element is not allowed.
    """
    d = multiply(lookup.mma_form(opcode), a, b, c, model=model_of(target, model))
    return d if d.ndim != 3 or d.flags.c_contiguous else in_order(d, (0, 1, 2))


def multiply(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, model: Model
) -> NDArray[Any]:
    """Do what `mma` does, for a form and a model; with one leading dimension tiles lie last."""
    leading = layouts.check_operands(form, a, b, c)
    size = (prod(leading), form.shape.m, form.shape.n)
    if form.a_type.is_float:
        result = np.empty((*size[1:], size[0]), form.d_type.raw).transpose(2, 0, 1)
    else:
        result = np.empty(size, form.d_type.raw)
    model.figures_for(form)  # refuses a form that the target lacks, even with an empty batch
    scratch = own_scratch()
    for part, left, right, start in layouts.chunks(form, chunk_tiles(form), a, b, c):
        result[part] = product(form, left, right, start, model, scratch)
    if len(leading) == 1:
        return result
    return in_order(result, (0, 1, 2)).reshape((*leading, *size[1:]))


def chunk_tiles(form: Form) -> int:
    """Return how many tiles of a form are computed together."""
    m, n, k = form.shape.m, form.shape.n, form.shape.k
    bits = m * k * form.a_type.bits + k * n * form.b_type.bits
    bits += m * n * (form.c_type.bits + form.d_type.bits)
    if form.a_type.name == "f64":
        return 1 << (_CHUNK_DOUBLES_BYTES * 8 // bits).bit_length() - 1
    products, groups = _CHUNK_PRODUCTS, 1
    if not form.opaque:
        products, groups = 2 * products, form.groups
    tiles = min(products // (m * n * k), _CHUNK_BYTES * 8 // bits) // groups
    return tiles - tiles % _CHUNK_STEP if tiles > _CHUNK_STEP else tiles


def product(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], model: Model, scratch: Scratch,
    *, keeps_c: bool = True, scales: Scales | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Return A x B + C of a few tiles, (tiles, m, n), unchecked; parameters as of `dot_product`."""
    if scales is not None:
        return scaled_product(a, b, c, scales, form.texts["stype"], model.scaled_for(form))
    if not form.a_type.is_float:
        if form.op == "xor":
            # With 1 and -1 in place of 0 and 1, each of the k bits that differ takes 1 from a sum.
            signs = integer_products(1 - 2 * a.view(np.int8), 1 - 2 * b.view(np.int8))
            sums = (a.shape[2] - signs) >> 1
        else:
            sums = integer_products(a, b)
        if model.exact_for(form).value == "clamp":
            exact = sums.astype(np.int64) + c
            return np.asarray(exact.clip(S32_LEAST, S32_GREATEST).astype(np.int32))
        return np.asarray(sums + c)  # NumPy's int32 wraps, as the page asks
    if form.a_type.name == "f64":
        rounding = form.rounding or "rn"  # "default is .rn" (9.7.14.4.5)
        rule = model.double_chain
        d = chain(a, b, c, rounding=rounding, rule=rule, scratch=scratch, keeps_c=keeps_c)
        return d.transpose(2, 0, 1)
    scalar = model.scalar_for(form)
    if scalar is not None:
        return scalar_dot(a, b, c, rule=scalar).transpose(2, 0, 1)
    dot = model.dot_for(form)
    d = dot_product(a, b, c, rule=dot, scratch=scratch, keeps_c=keeps_c)
    return d.transpose(2, 0, 1)


_CHUNKS_OF_ROWS = 4
"""So many times fewer tiles have B put together by rows: 0.5 to 0.7 of the time (2026-11-23)."""
Triple = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]
"""Registers of A, B and C, (tiles, 32, words)."""


def mma_sync(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, target: str = "sm_90",
    model: Model | str | Path | None = None,
) -> NDArray[np.uint32]:  # fmt: skip
    """Return the registers of D, uint32 (..., 32, words), by the model of a target.

    `a`, `b`, `c`: uint32 (..., 32, words). Lanes in order, registers in the order of the operand;
    one of f64 is two words, the low one first. Leading dimensions are equal.
    Raises UsageError if the opcode, target, a shape or dtype is not allowed.
    """
    form = lookup.mma_sync_form(opcode)
    leading, operands, _ = flat_operands(form, a, b, c)
    d = multiply_lanes(form, *operands, model=model_of(target, model))
    return d.reshape(*leading, LANES, form.words("d"))


def mma_sp(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], metadata: NDArray[Any],
    selector: int, *, target: str = "sm_90", model: Model | str | Path | None = None,
) -> NDArray[np.uint32]:  # fmt: skip
    """Return the registers of D of one mma.sp (9.7.14.6.3), as `mma_sync`; A is what is stored.

    `metadata`: uint32 (..., 32). An index chooses also where the ISA leaves it undefined.
    `selector`: The sparsity selector, one that the ISA defines for the form.
    """
    form = lookup.form_of(opcode)
    if not form.has_metadata:
        raise lookup.another_needed(form, "mma.sp")
    leading, operands, chosen = flat_operands(form, a, b, c, metadata, selector)
    d = multiply_lanes(form, *operands, model=model_of(target, model), metadata=chosen)
    return d.reshape(*leading, LANES, form.words("d"))


def multiply_lanes(
    form: Form, a: NDArray[np.uint32], b: NDArray[np.uint32], c: NDArray[np.uint32], *,
    model: Model, metadata: Metadata | None = None, scaling: Scaling | None = None,
) -> NDArray[np.uint32]:  # fmt: skip
    """Do what `mma_sync` and `mma_sp` do, of known form and model, on (tiles, 32, words)."""
    model.figures_for(form)  # refuses a form that the target lacks, even with an empty batch
    result = np.empty((len(a), LANES, form.words("d")), np.uint32)
    scratch = own_scratch()
    for part in parts(form, len(a)):
        left, right, addend = (
            layouts.unpack(form, name, words[part], scratch)
            for name, words in (("a", a), ("b", b), ("c", c))
        )
        chosen = None if metadata is None else (metadata[0][part], metadata[1])
        scales = None if scaling is None else scales_of(form, scaling, part)
        multiply_into(result[part], form, left, right, addend, model, scratch, chosen, scales)
    return result


def parts(form: Form, count: int) -> Iterator[slice]:
    """Cut multiplications of registers into those that are computed together."""
    size = chunk_tiles(form)
    if form.has_metadata and form.a_type.is_float:
        size = max(1, size // _CHUNKS_OF_ROWS)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def multiply_into(
    d: NDArray[np.uint32], form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any],
    model: Model, scratch: Scratch, metadata: Metadata | None, scales: Scales | None = None,
) -> None:  # fmt: skip
    """Write the registers of A x B + C, (tiles, threads, words); C may be overwritten."""
    made = placed_product(form, a, b, c, model, scratch, metadata, scales)
    layouts.pack(form, made, d, scratch=scratch)


def placed_product(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], model: Model, scratch: Scratch,
    metadata: Metadata | None = None, scales: Scales | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Return what `product` does, of an A that metadata place, if any; C may become the result."""
    if metadata is not None and not form.a_type.is_float:
        a = layouts.expanded(form, a, *metadata)
    elif metadata is not None:
        # Each row of A meets rows of B of its own. A place that is not chosen is no term of
        # the sum: it has no exponent (measured on H200, 2026-11-23).
        b = layouts.met(form, b, *metadata)
        a, c = layouts.by_row(a), layouts.by_row(c)
        scales = None if scales is None else layouts.scales_by_row(*scales)
        d = product(form, a, b, c, model, scratch, keeps_c=False, scales=scales)
        return layouts.of_rows(d, form.shape.m)
    return product(form, a, b, c, model, scratch, keeps_c=False, scales=scales)


def flat_operands(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any],
    metadata: NDArray[Any] | None = None, selector: int | None = None,
) -> tuple[tuple[int, ...], Triple, Metadata | None]:  # fmt: skip
    """Check registers; return leading dimensions, and operands and metadata with one of them."""
    if form.is_scaled:
        text = "has scales, which stand in no registers here; `oracle.mma_block_scale` takes it"
        raise UsageError(f"{form.opcode} {text}")
    given = {"a": a, "b": b, "c": c}
    sizes = {name: (LANES, form.words(name)) for name in given}
    registers: list[layouts.Given] = [(name, given[name], np.uint32, sizes[name]) for name in given]
    if form.has_metadata:
        registers.append(("metadata", metadata, np.uint32, (LANES,)))  # type: ignore[arg-type]
    leading = layouts.check_batch(*registers)
    left, right, addend = (words.reshape(-1, LANES, words.shape[-1]) for words in given.values())
    chosen = None
    if metadata is not None:
        chosen = metadata.reshape(-1, LANES), checked_selector(form, selector)
    return leading, (left, right, addend), chosen


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


class Warps:
    """Warps of a defined program; their images, uint8 (count, image_bytes), change in place."""

    PLANES: ClassVar[tuple[str, ...]] = ("bits",)

    def __init__(self, program: Program, images: NDArray[np.uint8], model: Model) -> None:
        self.program = program
        self.model = model
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
        for index, register in enumerate(registers):
            self.cells[register] = Cell(value, index)

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
        return {"bits": np.tile(np.array(number * step.count, np.uint32), (self.count, LANES, 1))}

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
        metadata, scaling = chosen_by(step, [one["bits"] for one in others])
        operands = a["bits"], b["bits"], c["bits"]
        return {
            "bits": multiply_lanes(
                step.form, *operands, model=self.model, metadata=metadata, scaling=scaling
            )
        }

    def elementwise(self, step: Elementwise, source: Planes) -> Planes:
        return {"bits": apply(step.operation, step.matrix.type, source["bits"], step.constant)}

    def rows(self, step: RowAccess) -> tuple[Planes, NDArray[np.int64]]:
        memory, start = self.at(Place(buffer=step.memory.buffer))
        return memory, row_offsets(step) + start

    def load_rows(self, step: RowAccess) -> Planes:
        memory, rows = self.rows(step)
        return {plane: layouts.load_rows(step.form, memory[plane], rows) for plane in self.PLANES}

    def store_rows(self, step: RowAccess, registers: Planes) -> None:
        memory, rows = self.rows(step)
        for plane in self.PLANES:
            layouts.store_rows(step.form, memory[plane], rows, registers[plane])

    def move(self, step: AnyOp, registers: Planes) -> Planes:
        return {plane: layouts.moved(step.form, registers[plane]) for plane in self.PLANES}

    def load_registers(self, step: PlainAccess) -> Planes:
        memory, offset = self.at(step.place)
        (use,) = step.uses
        return {
            plane: np.array(memory[plane][:, offset : offset + step.size], order="C")
            .view("<u4")
            .astype(np.uint32, copy=False)
            .reshape(self.count, LANES, use.holds.words)
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
        empty = np.zeros((self.count, LANES, 0), np.uint32)
        return {"bits": run_lanes(step, empty if source is None else source["bits"])[0]}

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
        warps.program, warps.model = self.program, self.model
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
            if other is None or one.part != other.part:
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
                for iteration in range(int(numbers.max(initial=0))):
                    _where(numbers > iteration, warps, step.body, (), take)
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
