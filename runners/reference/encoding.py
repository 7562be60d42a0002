"""Programs as words of 32 bits for the interpreter of the reference (`interpreter.cu`).

A warp's image, shared memory, registers and working memory lie in one memory. A register has its
lanes' words in order; a wmma fragment lies as its matrix, dealt out over its registers: a
multiplicand with k last, an accumulator by rows. So loads and moves are tables of addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import LANES, ROW_BYTES, format_named
from oracle.layouts import is_packed, moves
from oracle.models import Model
from oracle.program import lane_code
from oracle.program.lane_code import LANE, ZERO, Assign, If, LaneCode, Leave, Repeat, Statement
from oracle.program.operands import Operation, Place, Register
from oracle.program.operations import Elementwise, Scalar
from oracle.program.program import Program
from oracle.program.steps import (
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
)
from oracle.program.warpgroup import AsyncProduct, WarpgroupSync
from runners.reference.memory import (
    BITS,
    MASK,
    RELATIONS,
    Code,
    Do,
    Part,
    Value,
    format_word,
    matrix_bytes,
    not_done,
    tile_bytes,
)
from runners.reference.products import OPERATIONS, ProductWriter
from runners.reference.scalar import ScalarWriter

_READING_WHERE_LOADED = Op, PlainAccess, AsyncProduct
"""Steps that read what is loaded where it was loaded from."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoded:
    """A program as the interpreter takes it."""

    words: NDArray[np.uint32]
    image_bytes: int
    work_bytes: int  # memory of one warp, the image included


def encode(program: Program, model: Model) -> Encoded:
    """Write a defined program down; NotEncodedError if it cannot be; UsageError: no figures."""
    writer = _written(program, model, frozenset())
    # The less memory a warp has, the more warps run at once.
    return _written(program, model, unread).encoded if (unread := writer.unread) else writer.encoded


def _written(program: Program, model: Model, unread: frozenset[Register]) -> _Writer:
    """Write a program down whose registers lie in memory but for some that nothing reads there."""
    writer = _Writer(program, model, unread)
    writer.block(program.steps)
    writer.add(Code.END)
    return writer


class LaneWriter(ScalarWriter):
    """Writes code of lanes."""

    def write(self, step: LaneCode) -> None:
        """Write a step; `places` says where its registers are."""
        self._ends: list[tuple[list[int], list[int]]] = []
        """Of the loops around: where jumps to the end of the turn, and of the loop, stand."""
        self._open()
        self._do(self.register(LANE), Do.LANE_NUMBER)
        self._do(self.register(ZERO), Do.COPY, 0, 0)
        self._block(step.code)
        self._close()

    def places(self, names: Sequence[str]) -> list[int]:
        """Return where registers of the code begin."""
        return [self.register(name).at & ~15 for name in names]

    def _here(self, *places: int) -> None:
        for place in places:
            self._words[place] = len(self._words)

    def _jump(self, predicate: str, *, when: bool) -> int:
        """Write a jump of lanes with a predicate, or without it; return where it goes."""
        holds = when != predicate.startswith("!")
        source = self.register(predicate.removeprefix("!"))
        return self._do(None, Do.WHEN if holds else Do.UNLESS, 0, source)

    def _block(self, statements: Sequence[Statement]) -> None:
        for one in statements:
            self._statement(one)

    def _statement(self, one: Statement) -> None:
        self._spared = 0
        match one:
            case Assign():
                self._assign(one)
            case If():
                other = self._jump(one.predicate, when=False)
                self._block(one.then)
                if one.otherwise:
                    end = self._do(None, Do.GO)
                    self._here(other)
                    self._block(one.otherwise)
                    other = end
                self._here(other)
            case Repeat():
                self._repeat(one)
            case Leave():
                self._ends[-1][0 if one.turn else 1].append(self._jump(one.predicate, when=True))

    def _repeat(self, one: Repeat) -> None:
        counter = self.register(one.counter)
        count: Value = one.count if isinstance(one.count, int) else self.register(one.count)
        if not isinstance(count, int):
            # Kept apart: the body may write the register.
            kept = self._new("b32")
            self._do(kept, Do.BOTH, 0, count, one.mask)
            count = kept
        self._do(counter, Do.COPY, 0, count if one.down else 0)
        entry = [self._jump(one.entry, when=True)] if one.entry else []
        first = [self._do(None, Do.GO)] if one.late else []
        again = len(self._words)
        relation = RELATIONS["gt" if one.down else "lt"]
        sources = (counter.of(32, True), 0) if one.down else (counter, count)
        going = self.made(Do.COMPARED, relation, *sources)
        out = self._do(None, Do.UNLESS, 0, going)
        self._here(*first)
        self._ends.append(([], []))
        self._block(one.body[: one.skipped])
        self._here(*entry)
        self._block(one.body[one.skipped :])
        turns, loops = self._ends.pop()
        self._here(*turns)
        self._do(counter, Do.DIFFERENCE if one.down else Do.SUM, 0, counter, 1)
        self._do(None, Do.GO, again)
        self._here(out, *loops)

    def _assign(self, one: Assign) -> None:
        row = lane_code.row_of(one)
        sources = [
            Part(source, BITS[kind], constant=True) if isinstance(source, int)
            else self.register(source)
            for source, kind in zip(one.sources, row.sources, strict=True)
        ]  # fmt: skip
        if row.family not in self.FAMILIES:
            raise not_done(one.opcode)
        # What lanes do together they all do.
        past = [self._jump(one.guard, when=False)] if one.guard and not row.warp else []
        made = self.FAMILIES[row.family](self, one.opcode.split("."), *sources)
        if not isinstance(made, list):
            made = [made]
        names = (*one.destinations, *(["carry"] if row.carry_out else []))
        if len(names) > 1:
            # All sources are read before anything is written.
            made = [(Do.COPY, 0, self.made(*some)) for some in made]
        for name, some in zip(names, made, strict=True):
            self._do(self.register(name), *some)
        self._here(*past)


class _Writer(ProductWriter):
    @property
    def encoded(self) -> Encoded:
        """The program, once all of it is written, with its tables behind it."""
        words, end = self._words, len(self._words)
        parts, places_ = [], dict[bytes, int]()
        for place, table in self._tables:
            words[place] = places_.setdefault(table.tobytes(), end)
            if words[place] == end:
                parts.append(table)
                end += len(table)
        text = np.array(words, np.int64)
        return Encoded(
            words=(np.concatenate([text, *parts]) & MASK).astype(np.uint32),
            image_bytes=self.program.image_bytes,
            work_bytes=self._end,
        )

    # Steps

    def block(self, steps: tuple[Step, ...]) -> None:
        """Write steps, one after the other."""
        for step in steps:
            scratch = self._scratch
            if not isinstance(step, (*_READING_WHERE_LOADED, Elementwise, Barrier)):
                self._load_all()
            if not isinstance(step, _READING_WHERE_LOADED):
                self._touch_all(step.uses)
            writers: dict[type, Callable[[Any], None]] = {
                Branch: self._branch, Loop: self._loop, Barrier: lambda step: None,
                Copy: self._copy, PlainAccess: self._plain_access, Scalar: self._scalar,
                Elementwise: self._elementwise, LaneCode: self._lane_code, Op: self._op,
                AsyncProduct: self._async, WarpgroupSync: lambda step: None,
                OneWarp: self._one_warp,
            }  # fmt: skip
            if type(step) not in writers:
                raise not_done(step.action)
            writers[type(step)](step)
            self._scratch = scratch

    def _one_warp(self, step: OneWarp) -> None:
        self._threads = LANES
        self._inner_block(step.body)
        self._threads = self._of_program

    def _of_each_warp(self, write: Callable[[Any], None], step: Any) -> None:
        """Write for one warp after the other what all that take a step do apart."""
        scratch = self._scratch
        for first in range(0, self._threads, LANES):
            self._first = first
            write(step)
            self._scratch = scratch
        self._first = 0

    def _op(self, step: Op[Any]) -> None:
        self._of_each_warp(self.multiply if step.form.is_product else self._move, step)

    def _copy(self, step: Copy) -> None:
        self.add(Code.COPY, self.at(step.source), self.at(step.destination), step.size)

    def _inner_block(self, steps: tuple[Step, ...]) -> None:
        self.block(steps)
        self._load_all()

    def _branch(self, step: Branch) -> None:
        place, mask = self.uniform(step.condition)
        if not mask:
            self.block(step.then if place else step.otherwise)
            return
        end = self.add(Code.BRANCH, place, mask, 0) + 2
        self._inner_block(step.then)
        if step.otherwise:
            jump = self.add(Code.JUMP, 0)
            self._words[end] = len(self._words)
            self._inner_block(step.otherwise)
            end = jump
        self._words[end] = len(self._words)
        self._last_move = None  # what follows is executed without it, too

    def _async(self, step: AsyncProduct) -> None:
        if isinstance(step.scale_d, int):
            self.multiply_async(step)
            return
        self._load_all()
        then, otherwise = step.arms
        self._branch(Branch(condition=step.scale_d, then=then, otherwise=otherwise))

    def _loop(self, step: Loop) -> None:
        counter, (place, mask) = self._loops, self.uniform(step.count)
        around = self._turns
        if step.counts:
            self._turns = turn, past = self._take(4), self._take(4)
            for one, number in ((turn, 0), (past, place)):
                self.add(Code.FILL, one, 1, number, 0)
            if mask:
                self.on_word(Operation.AND, place, past, mask)
            self.on_word(Operation.MULTIPLY, past, past, MASK)
        start = self.add(Code.LOOP, counter, place, mask, 0)
        body = len(self._words)
        self._loops += 1
        self._inner_block(step.body)
        self._loops -= 1
        for one in self._turns if step.counts else ():
            self.on_word(Operation.ADD, one, one, 1)
        self.add(Code.NEXT, counter, body)
        self._words[start + 3] = len(self._words)
        self._turns = around

    def _plain_access(self, step: PlainAccess) -> None:
        (use,) = step.uses
        size = step.bits // 8
        lane, register, byte = np.ogrid[: step.lanes, : step.count, :size]
        memory = self.at(step.place) + size * (step.count * lane + register) + byte
        bases = np.array(self._bases(use))[None, :, None]
        registers = bases + size * lane + byte + 0 * register
        if step.loads:
            self._load(memory, registers)
        else:
            self._transfer(registers, memory)

    def _scalar(self, step: Scalar) -> None:
        assert step.writes is not None
        to, size = self._bases(step.writes), self._threads * step.bits // 8
        if step.operation == "set_registers":
            high = step.constant >> 32 if step.bits == 64 else step.constant
            for place in to:
                self.add(Code.FILL, place, size // 4, step.constant & MASK, high)
            return
        if step.operation not in ("move_registers", "pack_registers"):
            raise not_done(step.operation)
        (source,) = step.reads
        if step.operation == "move_registers":
            starts = (np.array(self._bases(source)), np.array(to))
            self._transfer(*(one[:, None] + np.arange(size) for one in starts))
            return
        # All registers are read before one is written.
        made = self._take(len(to) * size)
        fields = format_word(format_named(step.type))
        pairs = self._bases(source)
        for index, place in enumerate(range(made, made + len(to) * size, size)):
            self.add(Code.PACK, fields, pairs[2 * index], pairs[2 * index + 1], place, size // 4)
        for index, place in enumerate(to):
            self.add(Code.COPY, made + index * size, place, size)

    def _lane_code(self, step: LaneCode) -> None:
        self._of_each_warp(self._code_of_warp, step)

    def _code_of_warp(self, step: LaneCode) -> None:
        lanes = LaneWriter(self._words, self._take, Code.LANES_ALONE, Code.LANES_TOGETHER)
        *reads, written = step.uses
        for use in reads:
            self._copy_registers(self._bases(use), lanes.places(step.inputs), step.bits)
        lanes.write(step)
        results = lanes.places(step.results)
        self._copy_registers(results, self._bases(written), written.holds.bits)

    def _copy_registers(self, source: list[int], destination: list[int], bits: int) -> None:
        if not source:
            return
        byte = np.arange(LANES * bits // 8)
        self._transfer(*(np.array(one)[:, None] + byte for one in (source, destination)))

    def _elementwise(self, step: Elementwise) -> None:
        source, destination = step.uses
        operation, fmt = step.operation, step.matrix.type
        if operation is Operation.COPY:
            self._transfer(self._fragment(source), self._fragment(destination))
            return
        number, constant, sign = OPERATIONS[operation], step.constant, 1 << (fmt.bits - 1)
        if operation is Operation.NOT:
            constant = 2 * sign - 1
        elif operation is Operation.ABSOLUTE:
            constant = sign - 1
        elif operation is Operation.NEGATE and fmt.is_float:
            constant = sign
        elif operation is Operation.NEGATE:  # of s32: multiplied by -1
            number, constant = OPERATIONS[Operation.MULTIPLY], MASK
        arithmetic = fmt.is_float and operation in (Operation.MULTIPLY, Operation.ADD)
        bits = fmt.bits if arithmetic else max(32, fmt.bits)
        if not arithmetic:
            constant = sum(constant << shift for shift in range(0, bits, fmt.bits))
        size = matrix_bytes(step.matrix)
        start = self._whole(self._fragment(source))
        place, written = self._room(self._fragment(destination), ())
        self.add(
            Code.ELEMENTWISE,
            *(number, bits, format_word(fmt) if arithmetic else 0),
            *(start, place, size * 8 // bits, constant & MASK, constant >> 32),
        )
        self._deliver(place, written)

    def _move(self, step: Op[Any]) -> None:
        form = step.form
        if accesses_matrix(step):
            (use,), lines = step.uses, step.memory
            inside = self.at(lines.place) + tile_bytes(form.matrix(), form.layout, lines.stride)
            both = inside, self._fragment(use)
        elif accesses_rows(step):
            (use,), rows = step.uses, step.memory
            starts = np.array(rows.addresses[: form.addresses])
            starts += self.at(Place(buffer=rows.buffer))
            table, registers = moves(form).ravel(), self._lanes(use)
            if form.row_bytes < ROW_BYTES:
                raise not_done(form.opcode)
            if is_packed(form):
                self._load_all()
                self._touch_all(step.uses)
                row, element = np.divmod(table, ROW_BYTES)
                firsts = 8 * starts[row] + form.element_bits * element
                words = self.add(Code.WIDEN, form.element_bits, len(table), 0)
                self._add_table(words + 2, np.stack([firsts, registers], axis=1))
                return
            both = (starts[:, None] + np.arange(ROW_BYTES)).ravel()[table], registers
        elif "to" not in form.operands:
            raise not_done(form.opcode)
        else:
            source, destination = step.uses
            table = moves(form, step.count).ravel()
            both = self._lanes(source)[table], self._lanes(destination)
        if form.is_store:
            self._transfer(*both[::-1])
        elif "to" in form.operands:
            self._transfer(*both)
        else:
            self._load(*both)
