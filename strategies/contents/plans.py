"""Plans: where a program reads bytes of its image, and what these are filled with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import FORMATS, Form
from oracle.isa.lookup import chunks_of
from oracle.layouts import Tile, is_packed, moves
from oracle.layouts import places as fragment_places
from oracle.program.lane_code import LaneCode
from oracle.program.operands import Register, Use, Word
from oracle.program.operations import Elementwise, Scalar
from oracle.program.program import Program, position, walk
from oracle.program.steps import (
    AnyOp,
    Barrier,
    Branch,
    Copy,
    Loop,
    OneWarp,
    Op,
    PlainAccess,
    Step,
    accesses_matrix,
    accesses_rows,
    multiplies,
    row_offsets,
)
from oracle.program.warpgroup import AsyncProduct, WarpgroupSync
from strategies.contents.expressions import NOISE, Fill, Raw, pattern, wide
from strategies.contents.fills import (
    OF_ROWS,
    ValueClass,
    fills_of,
    of_classes,
    of_registers,
    of_scales,
    of_word,
)
from strategies.contents.float_fills import FillOperand

Provenance = NDArray[np.int64]  # The byte of the image from which each comes; -1: computed
BLOCK = 16  # Bytes of an image that one value of a counter fills
_PLANS = 64  # Plans that are kept; one has a number for every byte that is loaded


ValueSource = tuple[Tile, Provenance]
"""A matrix that is loaded, and its bytes in the image, (lines, line_bytes); none is -1."""
_Product = tuple[Form, tuple[ValueSource | None, ValueSource | None, ValueSource | None]]
"""A multiplication, and where A, B and C come from; None where a step computed them."""


class Readings(NamedTuple):
    """What a program reads from its image."""

    loads: list[ValueSource]
    products: list[_Product]
    words: list[tuple[int, int]]  # First byte and mask of each control word
    rows: list[Provenance]  # Bytes that ldmatrix, and loads of registers, read
    registers: list[tuple[int, Provenance]]  # Bits, and bytes, that scalar code reads
    metadata: list[tuple[tuple[int, ...], Provenance]]
    """What 4 bits of metadata may be, and their bytes."""
    scales: list[tuple[str, Provenance]]  # Formats of scales, and their bytes
    tiles: list[Provenance]  # Bytes that a warpgroup reads by descriptors


def readings_of(program: Program) -> Readings:
    """Follow what a program reads through copies, loop bodies once, both arms."""
    found = Readings([], [], [], [], [], [], [], [])
    lanes: dict[Register, Provenance] = {}
    """Where the bytes of each register that is known by lane come from, (32, bytes)."""
    fragments: dict[tuple[Register, ...], ValueSource] = {}
    """Fragments that come from the image, by their registers in order."""
    # Before the first byte and behind the last stand two for all that do not exist.
    image = np.arange(-1, program.image_bytes + 1, dtype=np.int64)
    image[-1] = -1
    spaces = {"global": image, "shared": np.full(program.shared_bytes + 2, -1, np.int64)}

    def located(buffer: str, offsets: NDArray[np.int64]) -> tuple[Provenance, Provenance]:
        return spaces[program.buffer(buffer).space], offsets + (program.offset(buffer) + 1)

    def read(buffer: str, offsets: NDArray[np.int64]) -> Provenance:
        memory, places = located(buffer, offsets)
        return memory.take(places, mode="clip")

    def write(buffer: str, offsets: NDArray[np.int64], bytes_: Provenance | int) -> None:
        memory, places = located(buffer, offsets)
        memory.put(places, bytes_, mode="clip")
        memory[0] = memory[-1] = -1

    def forget(step: Step) -> tuple[Register, ...]:
        """Forget what the destination of a step held; return its registers."""
        registers = () if step.writes is None else step.writes.registers
        for register in registers:
            lanes.pop(register, None)
        for vector in [*fragments]:
            if not set(registers).isdisjoint(vector):
                del fragments[vector]
        return registers

    def keep(step: Step, provenance: Provenance | None) -> None:
        """Keep where the bytes of the registers that a step writes come from, (32, bytes)."""
        registers = forget(step)
        if provenance is not None:
            size = provenance.shape[1] // len(registers)
            for index, register in enumerate(registers):
                lanes[register] = provenance[:, index * size : (index + 1) * size]

    def held(use: Use) -> Provenance | None:
        """Return where the bytes of registers come from, (32, bytes); None if that is unknown."""
        known = [lanes[one] for one in use.registers if one in lanes]
        return np.concatenate(known, axis=1) if len(known) == len(use.registers) else None

    alone = {id(step) for one in walk(program.steps) if isinstance(one, OneWarp)
             for step in walk(one.body)}  # fmt: skip

    def warps(step: Step) -> int:
        """Return how many warps take a step."""
        return 1 if id(step) in alone else program.warps

    def matrices(
        form: Form, use: Use, operand: str = "", *, warps: int = 1
    ) -> list[ValueSource | None]:
        provenance, operand = held(use), operand or use.field
        if provenance is None or (provenance < 0).any():
            return [None] * (form.groups * warps)
        parts = provenance.reshape(warps, -1)[:, _gathered(form, operand)]
        return [(_tile(form, operand), own) for lines in parts for own in lines]

    def multiply(step: AnyOp) -> None:
        form = step.form
        if form.opaque:
            operands = {use.field: [fragments.get(use.registers)] for use in step.reads}
        else:
            operands = {use.field: matrices(form, use, warps=warps(step)) for use in step.reads[:3]}
        for use in step.reads[3:]:
            words = held(use)
            if words is not None and use.field == "e":
                found.metadata.append((chunks_of(form), words[words >= 0]))
            elif words is not None:
                found.scales.append((form.texts["stype"], words[words >= 0]))
        for sources in zip(*(operands[operand] for operand in "abc"), strict=True):
            found.products.append((form, sources))
        forget(step)

    def multiply_async(step: AsyncProduct) -> None:
        form, of = step.form, {use.field: use for use in step.reads}
        sources: dict[str, ValueSource | None] = dict.fromkeys("abc")
        for operand, tile in step.tiles.items():
            bytes_ = read(tile.place.buffer, step.addresses(operand))
            if (bytes_ >= 0).all():
                sources[operand] = _tile(form, operand), bytes_
                found.tiles.append(bytes_)
        for operand, field in (("a", "a"), ("c", "d")):
            if field in of:
                (sources[operand],) = matrices(form, of[field], operand)
        if "e" in of and (metadata := held(of["e"])) is not None:
            found.metadata.append((chunks_of(form), metadata[metadata >= 0]))
        # Fills are made for as many lines and positions as a power of two.
        start, element = 0, form.c_type.bits // 8
        for size in (1 << bit for bit in range(8, -1, -1) if form.shape.n >> bit & 1):
            some, columns = (
                slice(start, start + size),
                slice(element * start, element * (start + size)),
            )
            b, c = (one and (one[0], one[1][part]) for one, part in (
                (sources["b"], some), (sources["c"], (slice(None), columns))
            ))  # fmt: skip
            found.products.append((form, (sources["a"], b, c)))
            start += size
        forget(step)

    def instruction(step: AnyOp) -> None:
        if accesses_matrix(step):
            (span,) = step.bytes_read
            provenance = read(span.buffer, span.offsets)
            registers = forget(step)
            if (provenance >= 0).all():
                source = fragments[registers] = step.tile, provenance
                found.loads.append(source)
        elif accesses_rows(step):
            rows = read(step.memory.buffer, row_offsets(step))
            found.rows.append(rows[rows >= 0])
            # What is widened is no byte of the rows.
            if is_packed(step.form):
                keep(step, None)
            else:
                keep(step, np.tile(rows.ravel()[moves(step.form)], (warps(step), 1)))
        elif multiplies(step):
            multiply(step)
        else:
            before = held(step.reads[0])
            if before is not None:
                before = before.reshape(warps(step), -1)[:, moves(step.form, step.count)]
                before = before.reshape(-1, before.shape[-1])
            keep(step, before)

    for step in walk(program.steps):
        if isinstance(step.uniform, Word):
            start = position(program, step.uniform.place)
            if 0 <= start <= program.image_bytes - 4:
                found.words.append((start, step.uniform.mask))
        match step:
            case Op() | PlainAccess() if step.stores:
                for span in step.bytes_written:
                    write(span.buffer, span.offsets, -1)
            case Op():
                instruction(step)
            case Elementwise():
                moved = fragments.get(step.reads[0].registers)
                registers = forget(step)
                if moved is not None:
                    fragments[registers] = moved
            case Copy():
                (before,), (after,) = step.bytes_read, step.bytes_written
                write(after.buffer, after.offsets, read(before.buffer, before.offsets))
            case PlainAccess():
                (span,) = step.bytes_read
                provenance = read(span.buffer, span.offsets.ravel())
                found.rows.append(provenance[provenance >= 0])
                keep(step, provenance.reshape(step.lanes, -1))
            case LaneCode():
                bytes_ = held(step.reads[0]) if step.count else None
                if bytes_ is not None:
                    found.registers.append((step.bits, bytes_))
                # Most of what a warpgroup multiplies is loaded, and some of its bits are flipped.
                alike = program.warps > 1 and step.uses[0].holds == step.uses[-1].holds
                keep(step, bytes_ if alike else None)
            case Scalar():
                keep(step, held(step.reads[0]) if step.copies else None)
            case AsyncProduct():
                multiply_async(step)
            case Branch() | Loop() | Barrier() | WarpgroupSync() | OneWarp():
                pass
            case _:
                assert_never(step)
    return found


@cache
def _tile(form: Form, operand: str) -> Tile:
    # Neighbours in a byte are neighbours along k, so that lines run along k.
    return Tile(matrix=form.matrix(operand), layout="col" if operand == "b" else "row")


@cache
def _gathered(form: Form, operand: str) -> NDArray[np.int64]:
    """Return which bytes of all lanes' registers are an operand: (groups, lines, line_bytes)."""
    tile = _tile(form, operand)
    bits = tile.matrix.type.bits
    where = fragment_places(form, operand)  # (32, elements, 3): multiplication, row, column
    group, row, column = where.reshape(-1, 3).T
    line, along = (column, row) if tile.layout == "col" else (row, column)
    numbers = np.arange(form.threads * 4 * form.words(operand)).reshape(form.threads, -1)
    held = np.arange(where.shape[1]) * bits // 8  # first byte of each element in its lane
    found = np.full((form.groups, tile.lines, tile.line_bytes), -1, np.int64)
    for byte in range(max(1, bits // 8)):
        found[group, line, along * bits // 8 + byte] = numbers[:, held + byte].ravel()
    return found


@dataclass(frozen=True, eq=False)
class Window:
    """Lines of elements in each row: opened as an array of patterns, closed when they are filled.

    Patterns of 4 bits are one to a byte; single bits stay packed.
    """

    bits: int  # Bits of an element
    places: Provenance  # Bytes in each row of the batch, line by line
    is_turned: bool = False  # Whether the lines of elements lie across those of `places`

    @property
    def unit_bytes(self) -> int:
        """Bytes of an element in memory, at least one."""
        return max(8, self.bits) // 8

    @property
    def shape(self) -> tuple[int, int]:
        """Lines and positions; of single bits eight to a position."""
        lines, positions = self.places.shape[0], self.places.shape[1] // self.unit_bytes
        positions *= 2 if self.bits == 4 else 1
        return (positions, lines) if self.is_turned else (lines, positions)

    @cached_property
    def pitch(self) -> int | None:
        """Bytes between lines, if lines are whole, apart and at one distance, else None."""
        places, width = self.places, self.places.shape[1]
        steps = places[1:, 0] - places[:-1, 0]
        pitch = int(steps[0]) if steps.size else width
        if pitch < width or (steps != pitch).any() or (places[:, 1:] - places[:, :-1] != 1).any():
            return None
        return pitch

    @property
    def is_view(self) -> bool:
        """Whether what `open` returns shares the memory of the rows."""
        return self.pitch is not None and self.bits != 4

    @cached_property
    def last(self) -> NDArray[np.bool_]:
        """Which bytes are in no line a second time further on: what is written there stays."""
        places, numbers = self.places.ravel(), np.arange(self.places.size)
        last = np.zeros(places.max(initial=0) + 1, np.intp)
        last[places] = numbers
        found: NDArray[np.bool_] = (last[places] == numbers).reshape(self.places.shape)
        return found

    @cached_property
    def grains(self) -> tuple[str, NDArray[np.int64]]:
        """Places as those of the largest aligned words that lie together: their dtype, numbers."""
        # Gathered byte by byte, they took ten times as long (2026-11).
        for size in (8, 4, 2):
            if self.places.shape[1] % size == 0:
                words = self.places.reshape(-1, size)
                first = words[:, :1]
                if not (first % size).any() and (words - first == np.arange(size)).all():
                    return f"<u{size}", self.places[:, ::size] // size
        return "<u1", self.places

    def open(self, rows: NDArray[np.uint8]) -> Raw:
        """Return unsigned patterns (images, lines, positions), the memory of the rows or not.

        Of the rows, uint8 (images, bytes), the last axis is contiguous, and of whole blocks.
        """
        places, dtype = self.places, np.dtype(f"<u{self.unit_bytes}")
        if self.pitch is None:
            kind, words = self.grains
            lines = rows.view(kind).take(words, axis=1, mode="clip").view(dtype)
        else:
            start, (count, width) = int(places[0, 0]), places.shape
            lines = np.lib.stride_tricks.as_strided(
                rows[:, start : start + width].view(dtype),
                shape=(len(rows), count, width // dtype.itemsize),
                strides=(rows.strides[0], self.pitch, dtype.itemsize),
            )
        if self.bits == 4:
            lines = np.stack([lines & np.uint8(0xF), lines >> np.uint8(4)], axis=3)
            lines = lines.reshape(*lines.shape[:2], -1)
        return lines.swapaxes(1, 2) if self.is_turned else lines

    def close(self, rows: NDArray[np.uint8], patterns: Raw) -> None:
        """Write patterns back that `open` returned, where they do not share memory."""
        if self.is_view:
            return
        lines = patterns.swapaxes(1, 2) if self.is_turned else patterns
        if self.bits == 4:
            lines = lines[:, :, 0::2] & np.uint8(0xF) | lines[:, :, 1::2] << np.uint8(4)
        lines = np.ascontiguousarray(lines)
        kind, words = self.grains
        if np.bincount(words.ravel()).max(initial=0) < 2:  # nothing is there a second time
            rows.view(kind)[:, words] = lines.view(kind)
        else:
            rows[:, self.places[self.last]] = lines.view(np.uint8)[:, self.last]


@dataclass(eq=False)
class Filling:
    """What to fill: a matrix, a control word, or the bytes that ldmatrix reads."""

    window: Window
    fills: Mapping[ValueClass, Sequence[Fill]]  # For each class those that take turns
    multiplicands: tuple[Window, ...] = ()  # A and B of the product that a C belongs to
    is_c: bool = False
    meets: bool = False  # Whether it has bytes of another one, or one twice


@dataclass(frozen=True, eq=False)
class FillPlan:
    """Everything that a program reads from its image.

    Places of bytes are those in a row of the blocks of an image that anything reads.
    """

    fillings: tuple[Filling, ...]
    """In the order in which they are filled: all C after all A and B, which they are made for.
    Each is made of the random bits of its bytes; where several meet, the last one stays."""
    blocks: NDArray[np.uint64]  # Of blocks of an image that anything reads; the others are gaps
    read: tuple[slice, ...]  # Runs of bytes of these blocks
    gaps: tuple[slice, ...]  # Runs of the other bytes


@lru_cache(maxsize=_PLANS)
def plan_of(program: Program) -> FillPlan:
    """Find what to fill in the images of a program."""
    found = readings_of(program)
    uses = np.zeros(program.image_bytes, np.bool_)
    for provenance in found.rows:
        uses[provenance] = True
    registers = _registers(found, program.image_bytes)
    alone = uses.copy()
    for _, bytes_ in registers:
        alone[bytes_], uses[bytes_] = False, True
    rows = np.flatnonzero(alone)
    for provenance in (*(bytes_ for _, bytes_ in found.loads), *found.tiles):
        uses[provenance] = True
    for start, _ in found.words:
        uses[start : start + 4] = True
    halves = uses.view(np.uint64)  # of blocks; reduced along short rows they take 20 times as long
    is_read = (halves[0::2] | halves[1::2]) != 0
    places = np.cumsum(np.repeat(is_read, BLOCK)) - 1
    fillings = list[Filling]()

    def fill(bits: int, bytes_: Any, fills: Mapping[ValueClass, tuple[Fill]]) -> None:
        fillings.append(Filling(Window(bits, places[bytes_].reshape(1, -1)), fills))

    if rows.size:
        fill(8, rows, OF_ROWS)
    for bits, bytes_ in registers:
        fill(bits, bytes_, of_registers(bits))
    for number, (start, mask) in enumerate(dict.fromkeys(found.words)):
        fill(32, slice(start, start + 4), of_word(number % 16, mask))
    fillings += _matrices(found, places)
    for name, bytes_ in found.scales:
        if bytes_.size:
            fill(8, bytes_, of_scales(name))
    # Metadata that several products read are such as that allows which allows fewest.
    for pairs, bytes_ in sorted(found.metadata, key=lambda one: -len(one[0])):
        if bytes_.size:
            fill(8, bytes_, _of_metadata(pairs))
    kept, factors = list[tuple[Filling, NDArray[np.int64]]](), set[Window]()
    hidden = np.zeros(int(places[-1]) + 1, np.bool_)
    for filling in reversed(fillings):
        own = filling.window.places.ravel()
        if own.size and hidden[own[0]] and filling.window not in factors and hidden[own].all():
            continue  # whatever fills them, nobody sees it
        kept.append((filling, own))
        hidden[own] = True
        if filling.multiplicands:  # of which it sees what is there by then
            factors.update(filling.multiplicands)
            hidden[...] = False
    covered = np.bincount(np.concatenate([np.zeros(0, np.int64), *(own for _, own in kept)]))
    for filling, own in kept:
        filling.meets = bool((covered[own] > 1).any())
    # Runs of blocks that are read, and of others, by turns.
    ends = np.flatnonzero(is_read[1:] != is_read[:-1]) + 1
    runs = tuple(slice(*each) for each in pairwise((0, *(BLOCK * ends).tolist(), uses.size)))
    first = int(is_read[0])
    return FillPlan(
        fillings=tuple(filling for filling, _ in reversed(kept)),
        blocks=np.flatnonzero(is_read).astype(np.uint64),
        read=runs[1 - first :: 2],
        gaps=runs[first::2],
    )


def _registers(found: Readings, image_bytes: int) -> list[tuple[int, NDArray[np.intp]]]:
    """Return the bytes that scalar code reads, as whole words of 64 and of 32 bits."""
    made, free = [], np.ones(image_bytes, np.bool_)
    for bits in (64, 32):
        bytes_, starts = np.arange(bits // 8), np.zeros(image_bytes, np.bool_)
        for units in (read.reshape(-1, bits // 8) for of, read in found.registers if of == bits):
            first = units[:, 0]
            whole = (units == first[:, None] + bytes_).all(axis=1)
            starts[first[whole & (first >= 0) & (first % (bits // 8) == 0)]] = True
        some = (np.flatnonzero(starts & free)[:, None] + bytes_).ravel()
        free[some] = False
        if some.size:
            made.append((bits, some))
    return made


@cache
def _of_metadata(chunks: tuple[int, ...]) -> Mapping[ValueClass, tuple[Fill]]:
    return of_classes(Fill(pattern(metadata_bytes(chunks).tolist(), wide(NOISE))))


@cache
def metadata_bytes(chunks: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return a byte of metadata of such chunks of 4 bits for each byte, uint8 (256,)."""
    half = np.resize(np.array(chunks, np.uint8), 16)
    return (half[:, None] << np.uint8(4) | half).ravel()


def _matrices(found: Readings, places: NDArray[np.int64]) -> list[Filling]:
    windows: dict[tuple[object, ...], Window] = {}
    filled: dict[tuple[object, ...], Filling] = {}
    keys: dict[int, tuple[object, ...]] = {}

    def key(source: ValueSource) -> tuple[object, ...]:
        """Return what is equal for sources that are one matrix in the image."""
        tile, provenance = source
        if id(source) not in keys:
            of = tile.matrix.type.name, tile.layout, provenance.shape
            keys[id(source)] = *of, provenance.tobytes()
        return keys[id(source)]

    def window(source: ValueSource) -> Window:
        tile, provenance = source
        if (own := key(source)) not in windows:
            turned = (tile.layout == "col") != (tile.matrix.operand == "b")
            windows[own] = Window(tile.matrix.type.bits, places[provenance], turned)
        return windows[own]

    def apart(one: Window, other: Window) -> bool:
        """Whether no byte belongs to both."""
        a, b = one.places, other.places
        return a.max() < b.min() or b.max() < a.min() or not np.isin(a, b).any()

    def fits(source: ValueSource, form: Form, operand: str) -> bool:
        # It is another where a name is loaded anew on a path that is not taken before the product.
        return source[0].matrix == form.matrix(operand)

    def fill(
        source: ValueSource, operand: str, types: Mapping[str, Any], product: _Product | None = None
    ) -> None:
        if key(source) in filled:
            return
        here, both, run = window(source), tuple[Window, ...](), 0
        if product is not None:
            form, (of_a, of_b, _) = product
            if "e" in form.operands:
                # How many elements of B metadata choose together.
                run = 2 if form.b_type.bits == 4 else 1
            if operand == "c" and of_a and of_b:
                a, b = window(of_a), window(of_b)
                fit = fits(of_a, form, "a") and fits(of_b, form, "b")
                if fit and apart(here, a) and apart(here, b):
                    both = a, b
        lines, positions = here.shape
        x = FillOperand(
            name=operand, **types, lines=lines,
            positions=types["depth"] if run and operand == "b" else positions,
            is_of_sum=both != (), run=run, of_group=product is not None and product[0].warps > 1,
        )  # fmt: skip
        filled[key(source)] = Filling(here, fills_of(x), both, operand == "c")

    for operands in ("ab", "c"):
        for form, sources in found.products:
            types: dict[str, Any] = {
                "a": form.a_type, "b": form.b_type, "c": form.c_type, "d": form.d_type,
                "depth": form.matrix("a").columns, "operation": form.op,
            }  # fmt: skip
            for operand, own in zip("abc", sources, strict=True):
                if operand in operands and own is not None and fits(own, form, operand):
                    fill(own, operand, types, (form, sources))
    for source in found.loads:
        # A matrix that is loaded and not multiplied: types of some form (9.7.14.4.5).
        matrix = source[0].matrix
        factor = term = matrix.type
        if matrix.operand == "c":
            factor = FORMATS[{"f32": "f16", "s32": "s8"}.get(term.name, term.name)]
        elif factor.name != "f64":
            term = FORMATS["f32" if factor.is_float else "s32"]
        types = {"a": factor, "b": factor, "c": term, "d": term, "depth": matrix.shape.k}
        fill(source, matrix.operand, types)
    return sorted(filled.values(), key=lambda filling: filling.is_c)
