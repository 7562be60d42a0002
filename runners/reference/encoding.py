"""Programs as words of 32 bits for the interpreter of the reference (`interpreter.cu`).

A warp's image, shared memory, registers and working memory lie in one memory. A register has its
lanes' words in order; a wmma fragment lies as its matrix, dealt out over its registers: a
multiplicand with k last, an accumulator by rows. So loads and moves are tables of addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.execution.chosen import scale_places
from oracle.isa.forms import LANES, ROW_BYTES, Form, FormatKind, Shape, format_named
from oracle.isa.lookup import unit_bits
from oracle.layouts import index_bits, is_packed, moves, places
from oracle.models import Model, TruncatedDot
from oracle.models.figures import ROUNDINGS
from oracle.program import lane_code
from oracle.program.lane_code import LANE, ZERO, Assign, If, LaneCode, Leave, Repeat, Statement
from oracle.program.operands import Fragment, Operation, Place, Register, Uniform, Use, Word
from oracle.program.operations import Elementwise, Scalar
from oracle.program.program import Program, position
from oracle.program.steps import (
    Barrier,
    Branch,
    Copy,
    Loop,
    Op,
    PlainAccess,
    Step,
    accesses_matrix,
    accesses_rows,
)
from runners.reference.memory import (
    BITS,
    RELATIONS,
    Addresses,
    Code,
    Do,
    MemoryWriter,
    NotEncodedError,
    Part,
    Value,
    canonical,
    format_word,
    matrix_bytes,
    tile_bytes,
)
from runners.reference.scalar import ScalarWriter

_OPERATIONS = {
    Operation.AND: 0, Operation.ABSOLUTE: 0, Operation.OR: 1, Operation.XOR: 2,
    Operation.NEGATE: 2, Operation.NOT: 2, Operation.MULTIPLY: 3, Operation.ADD: 4,
}  # fmt: skip
"""Numbers of the interpreter's element-wise operations; signs and complements are masks."""
_DOT_WORDS = 39  # words of a dot product, which the interpreter keeps where it decodes
_QUICK_BITS = 31  # a block's terms, summed, have to fit into 32 bits with their sign
_TERM_BITS, _SUM_BITS = 16, 62
"""Of a product of two elements of 8 bits and two scales, and most of what has 64 with its sign."""
_MASK = (1 << 32) - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoded:
    """A program as the interpreter takes it."""

    words: NDArray[np.uint32]
    image_bytes: int
    work_bytes: int  # memory of one warp, the image included


def encode(program: Program, model: Model) -> Encoded:
    """Write a defined program down; NotEncodedError if it cannot be; UsageError: no figures."""
    if program.warps > 1:
        raise _unknown("what a warpgroup does")
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
            raise _unknown(one.opcode)
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


class _Writer(MemoryWriter):
    @property
    def encoded(self) -> Encoded:
        """The program, once all of it is written, with its tables behind it."""
        words, end = self._words, len(self._words)
        parts = []
        for place, table in self._tables:
            words[place] = end
            parts.append(table)
            end += len(table)
        text = np.array(words, np.int64)
        return Encoded(
            words=(np.concatenate([text, *parts]) & _MASK).astype(np.uint32),
            image_bytes=self.program.image_bytes,
            work_bytes=self._end,
        )

    # Steps

    def block(self, steps: tuple[Step, ...]) -> None:
        """Write steps, one after the other."""
        for step in steps:
            scratch = self._scratch
            if not isinstance(step, Op | Elementwise | PlainAccess | Barrier):
                self._load_all()
            if not isinstance(step, Op | PlainAccess):
                self._touch_all(step.uses)
            writers: dict[type, Callable[[Any], None]] = {
                Branch: self._branch, Loop: self._loop, Barrier: lambda step: None,
                Copy: self._copy, PlainAccess: self._plain_access, Scalar: self._scalar,
                Elementwise: self._elementwise, LaneCode: self._lane_code, Op: self._op,
            }  # fmt: skip
            if type(step) not in writers:
                raise _unknown(step.action)
            writers[type(step)](step)
            self._scratch = scratch

    def _op(self, step: Op[Any]) -> None:
        (self._multiply if step.form.is_product else self._move)(step)

    def _copy(self, step: Copy) -> None:
        self.add(Code.COPY, self._at(step.source), self._at(step.destination), step.size)

    def _inner_block(self, steps: tuple[Step, ...]) -> None:
        self.block(steps)
        self._load_all()

    def _branch(self, step: Branch) -> None:
        place, mask = self._uniform(step.condition)
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

    def _loop(self, step: Loop) -> None:
        counter, (place, mask) = self._loops, self._uniform(step.count)
        start = self.add(Code.LOOP, counter, place, mask, 0)
        body = len(self._words)
        self._loops += 1
        self._inner_block(step.body)
        self._loops -= 1
        self.add(Code.NEXT, counter, body)
        self._words[start + 3] = len(self._words)

    def _uniform(self, number: Uniform) -> tuple[int, int]:
        """Return the address and the mask of a word; of a constant itself and 0."""
        if isinstance(number, int):
            return number, 0
        if not isinstance(number, Word):
            raise NotEncodedError(f"the reference on the device cannot read {number}")
        return (self._at(number.place), number.mask) if number.mask else (0, 0)

    def _at(self, place: Place) -> int:
        shared = self.program.buffer(place.buffer).space == "shared"
        return position(self.program, place) + (self.program.image_bytes if shared else 0)

    def _plain_access(self, step: PlainAccess) -> None:
        (use,) = step.uses
        size = step.bits // 8
        lane, register, byte = np.ogrid[: step.lanes, : step.count, :size]
        memory = self._at(step.place) + size * (step.count * lane + register) + byte
        bases = np.array(self._bases(use))[None, :, None]
        registers = bases + size * lane + byte + 0 * register
        if step.loads:
            self._load(memory, registers)
        else:
            self._transfer(registers, memory)

    def _scalar(self, step: Scalar) -> None:
        assert step.writes is not None
        to, size = self._bases(step.writes), LANES * step.bits // 8
        if step.operation == "set_registers":
            high = step.constant >> 32 if step.bits == 64 else step.constant
            for place in to:
                self.add(Code.FILL, place, size // 4, step.constant & _MASK, high)
            return
        if step.operation not in ("move_registers", "pack_registers"):
            raise _unknown(step.operation)
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
            self.add(Code.PACK, fields, pairs[2 * index], pairs[2 * index + 1], place, LANES)
        for index, place in enumerate(to):
            self.add(Code.COPY, made + index * size, place, size)

    def _lane_code(self, step: LaneCode) -> None:
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
        number, constant, sign = _OPERATIONS[operation], step.constant, 1 << (fmt.bits - 1)
        if operation is Operation.NOT:
            constant = 2 * sign - 1
        elif operation is Operation.ABSOLUTE:
            constant = sign - 1
        elif operation is Operation.NEGATE and fmt.is_float:
            constant = sign
        elif operation is Operation.NEGATE:  # of s32: multiplied by -1
            number, constant = _OPERATIONS[Operation.MULTIPLY], _MASK
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
            *(start, place, size * 8 // bits, constant & _MASK, constant >> 32),
        )
        self._deliver(place, written)

    def _move(self, step: Op[Any]) -> None:
        form = step.form
        if accesses_matrix(step):
            (use,), lines = step.uses, step.memory
            inside = self._at(lines.place) + tile_bytes(form.matrix(), form.layout, lines.stride)
            both = inside, self._fragment(use)
        elif accesses_rows(step):
            (use,), rows = step.uses, step.memory
            starts = np.array(rows.addresses[: form.addresses])
            starts += self._at(Place(buffer=rows.buffer))
            table, registers = moves(form).ravel(), self._lanes(use)
            if form.row_bytes < ROW_BYTES:
                raise _unknown(form.opcode)
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
            raise _unknown(form.opcode)
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

    # Products

    def _multiply(self, step: Op[Any]) -> None:
        form = step.form
        if form.a_type.is_float and form.satfinite:
            raise _unknown(form.opcode)
        uses = {use.field: use for use in step.uses}
        d, a, b, c = (self._matrix_of(form, uses[one]) for one in "dabc")
        places_, others = [self._whole(one) for one in (a, b, c)], [a, b, c]
        chosen = [uses[one] for one in ("e", "sa", "sb") if one in uses]
        if chosen:
            self._load_all()  # they are read between one part of D and the next
            self._touch_all(chosen)
            others += [self._lanes(use) for use in chosen]
        place, written = self._room(d, others)
        places_.append(place)
        if form.has_metadata:
            self._multiply_placed(step, uses, places_)
        elif form.is_scaled:
            self._scaled(step, uses, form.shape, places_, slice(None))
        else:
            sizes = [len(one) // form.groups for one in (a, b, c, d)]
            for group in range(form.groups):
                starts = [at + group * size for at, size in zip(places_, sizes, strict=True)]
                self._product(form, form.shape, starts)
        self._deliver(place, written)

    def _multiply_placed(self, step: Op[Any], uses: Mapping[str, Use], places_: list[int]) -> None:
        """Write a product of an A that metadata place, some rows at a time: each has its own B."""
        form, shape = step.form, step.form.stored.shape
        assert step.selector is not None
        (words,) = self._bases(uses["e"])
        bits = 8 * words + index_bits(form, step.selector)
        size, units = unit_bits(form) // 8, bits.shape[1]
        part = shape._replace(m=LANES // shape.n)
        chosen = self._take(LANES * units * size)
        bytes_ = (units * size, 0, *(shape.n * form.type(one).bits // 8 for one in "cd"))
        for row in range(0, shape.m, part.m):
            words = self.add(Code.CHOOSE, size, units, part.m, shape.n, places_[1], chosen, 0)
            self._add_table(words + 6, bits[row : row + part.m])
            starts = [start + row * one for start, one in zip(places_, bytes_, strict=True)]
            starts[1] = chosen
            if form.is_scaled:
                self._scaled(step, uses, part, starts, slice(row, row + part.m))
            else:
                self._product(form, part, starts, apart=True)

    def _scaled(
        self, step: Op[Any], uses: Mapping[str, Use], shape: Shape, places_: list[int], rows: slice
    ) -> None:
        """Write the product of some rows of A, scaled, at A, B, C, D; B as in `_product`."""
        form, selector = step.form, step.selector
        assert selector is not None
        rule, types = self.model.scaled_for(form), (form.a_type, form.b_type)
        # An element is less than 2^(bias + 2), and an exponent at least 1 - bias.
        largest = sum(2 * one.bias + 1 for one in types)
        together = max(0, rule.group.value - 1).bit_length()
        above = 4 if rule.aligned.value == "products" else 2 + sum(one.bias + 2 for one in types)
        if max(
            _TERM_BITS + together + (largest if together else 0),
            rule.fraction_bits.value + above + shape.k.bit_length(),
        ) > _SUM_BITS:  # fmt: skip
            raise _unknown(f"{form.opcode} with the figures of {self.model.name}")
        of_scales = []
        for operand, part in (("a", rows), ("b", slice(None))):
            lanes, byte = scale_places(form, operand, selector)
            (start,) = self._bases(uses[f"s{operand}"])
            of_scales.append(start + 4 * lanes[part] + byte)
        words = self.add(
            Code.SCALED_DOT, shape.m, shape.n, shape.k, *places_, *map(format_word, types),
            form.has_metadata, form.scales, form.texts["stype"] == "ue4m3", rule.group.value,
            rule.aligned.value == "scales", rule.fraction_bits.value, rule.zero_exponent.value,
            ROUNDINGS.index(rule.rounding.value), rule.nan.value, 0,
        )  # fmt: skip
        self._add_table(words + 18, np.concatenate(of_scales))

    def _product(
        self, form: Form, shape: Shape, places_: list[int], *, apart: bool = False
    ) -> None:
        """Write the product of matrices at A, B, C, D; `apart`: B has a line for each output."""
        sizes = shape.m, shape.n, shape.k
        if not form.a_type.is_float:
            clamped = self.model.exact_for(form).value == "clamp"
            signs = sum(
                bit for bit, one in ((1, "a"), (2, "b")) if form.type(one).kind is FormatKind.SIGNED
            )
            kind = signs if form.op is None else int(form.op == "xor")
            self.add(Code.INTEGERS, *sizes, *places_, form.a_type.bits, kind, clamped, apart)
        elif form.a_type.name == "f64":
            self.add(Code.DOUBLES, *sizes, *places_, *self._double_figures(form))
        elif (scalar := self.model.scalar_for(form)) is not None:
            formats = (format_word(form.type(one)) for one in "cd")
            self.add(
                Code.SCALAR_DOT, *sizes, *places_, scalar.order.value == "pairs", *formats, apart
            )
        else:
            self._dot(form, shape, places_, apart)

    def _double_figures(self, form: Form) -> tuple[int, ...]:
        rule = self.model.double_chain
        figures = rule.order.value == "falling", rule.multiply_add.value == "separate"
        flushes = (
            one.value == "flushed"
            for one in (rule.a_subnormals, rule.b_subnormals, rule.c_subnormals, rule.d_subnormals)
        )
        flags = sum(set_ << bit for bit, set_ in enumerate((*figures, *flushes)))
        nan = rule.nan.value
        order = sum("abc".index(one) + 1 << 2 * at for at, one in enumerate(nan.order))
        halves = (one >> shift & _MASK for one in (nan.invalid, nan.canonical) for shift in (0, 32))
        return ROUNDINGS.index(form.rounding or "rn"), flags, order, *halves

    def _dot(self, form: Form, shape: Shape, places_: list[int], apart: bool) -> None:
        rule, before = self.model.dot_for(form), self._scratch
        lines = shape.m * shape.n if apart else shape.n
        blocks = rule.blocks(shape.k)
        scratch = self._take(_scratch_bytes(shape, lines, len(blocks)))
        members = np.array([k for block in blocks for k in block])
        ends = np.cumsum([len(block) for block in blocks])
        accumulator, size = rule.accumulator_format, 4 * shape.m * shape.n
        # Sums that are D without more are made where it goes.
        is_d = (accumulator.bits, form.d_type) == (32, accumulator) and not (
            rule.sums or rule.addend.value == "last" or rule.d_subnormals.value == "flushed"
        )
        sums = places_[3] if is_d else self._take(size)
        parts = self._take(size) if rule.sums else 0
        narrowing = ROUNDINGS.index(rule.narrowing.value) if rule.narrowing else 0
        addition = ROUNDINGS.index(rule.addition.value) if rule.addition else 0
        words = self.add(
            Code.DOT,
            *(shape.m, shape.n, shape.k.bit_length() - 1, apart, *places_, scratch),
            *(format_word(form.type(one)) for one in "abc"),
            *(format_word(accumulator), format_word(form.d_type), 0, len(blocks)),
            *(rule.fraction_bits.value, rule.zero_exponent.value),
            rule.product_exponent.value == "normalised",
            rule.product_range.value == "f32",
            ROUNDINGS.index(rule.rounding.value),
            rule.overflow.value == "largest",
            rule.zero.value == "-",
            rule.low_bits is not None and rule.low_bits.value == "rounded",
            *(
                one.value == "flushed"
                for one in (
                    *(rule.a_subnormals, rule.b_subnormals),
                    *(rule.c_subnormals, rule.d_subnormals),
                )
            ),
            *(rule.sums is not None, rule.addend.value == "last", addition, narrowing),
            *(rule.nan.value, _is_quick(rule, blocks), bool((np.diff(members) == 1).all())),
            *(sums, parts),
            accumulator.fraction_bits - rule.sum_format.fraction_bits,
            rule.subnormal_exponent is not None,
        )
        self._add_table(words + 14, np.concatenate([members, ends]))
        self._scratch = before

    def _matrix_of(self, form: Form, use: Use) -> Addresses:
        """Return where the bytes of the matrices of an operand lie, in the order of products."""
        if isinstance(use.holds, Fragment):
            return self._fragment(use)
        operand = use.field
        bits = form.type(operand).bits
        group, row, column = np.moveaxis(places(form, operand), -1, 0)
        lines, length, (line, at) = canonical(form.matrix(operand), row, column)
        first = ((group * lines + line) * length + at) * bits
        place = np.argsort(first, axis=None)
        # Elements that share a byte follow each other both in a register and in the matrix.
        place = place[:: max(1, 8 // bits)]
        lane, element = np.divmod(place, first.shape[1])
        register, inside = np.divmod(element * bits, use.holds.bits)
        bases = np.array(self._bases(use))[register]
        starts = bases + lane * (use.holds.bits // 8) + inside // 8
        found: Addresses = starts[:, None] + np.arange(max(1, bits // 8))
        return found.ravel()


def _unknown(what: str) -> NotEncodedError:
    return NotEncodedError(f"the reference on the device does not do {what}")


def _scratch_bytes(shape: Shape, lines: int, blocks: int) -> int:
    """Return the memory of a dot product's words and what it decodes: `scratch_of` over there."""
    words = -(-(_DOT_WORDS + shape.k + blocks) // 4) * 4
    return 4 * words + (shape.m + lines) * (8 * (shape.k + 2) + 16)


def _is_quick(rule: TruncatedDot, blocks: tuple[tuple[int, ...], ...]) -> bool:
    """Whether the interpreter's quick sums are right for a rule: see `quick_block` there."""
    multiplicand, accumulator = format_named(rule.multiplicand), rule.accumulator_format
    fraction = rule.fraction_bits.value
    lengths = {len(block) for block in blocks}
    return (
        lengths <= {4, 8, 16}
        and rule.rounding.value == ("rz" if accumulator.bits == 32 else "rn")
        and rule.product_exponent.value == "sum"
        and rule.product_range.value == "unlimited"
        and rule.zero_exponent.value < 1 - accumulator.bias
        and rule.sum_bits is None
        and fraction >= 2 * multiplicand.fraction_bits
        and max(lengths) << (fraction + 2) <= 1 << _QUICK_BITS
    )
