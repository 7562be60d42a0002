"""Steps to instructions, each under a comment that says what it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, assert_never

from oracle.isa.forms import LANES, Format, replicated
from oracle.program.lane_code import (
    LANE,
    ZERO,
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Statement,
    class_of,
)
from oracle.program.operands import Operation, Place, Uniform, Use, Word
from oracle.program.operations import Elementwise, Scalar
from oracle.program.program import Program
from oracle.program.steps import (
    AnyOp,
    Barrier,
    Branch,
    Copy,
    Loop,
    Op,
    PlainAccess,
    RowAccess,
    Step,
    accesses_matrix,
    accesses_rows,
    multiplies,
)
from runners.emission.body import Body, braced, displaced, operand_registers

_WIDEST = 16
"""Bytes that one lane can load or store at a time: `.v4.b32` or `.v2.b64`."""
_UNROLLED = 8
"""Most rounds of one copy that are written out; more become a loop."""
_VECTORS = {16: "v4.b32", 8: "v2.b32", 4: "b32", 2: "b16", 1: "b8"}
"""Types of what one lane can move at a time, by their bytes."""
_ARITHMETIC = {
    # `.rn` is written out: without it a compiler may contract mul and add into fma
    # (PTX ISA, Floating Point Instructions: add, mul).
    **{
        (name, operation): f"{word}.rn.{type_}"
        for name, type_ in (("f16", "f16x2"), ("f32", "f32"), ("f64", "f64"))
        for operation, word in ((Operation.MULTIPLY, "mul"), (Operation.ADD, "add"))
    },
    ("s32", Operation.MULTIPLY): "mul.lo.s32",
    ("s32", Operation.ADD): "add.s32",
    ("s32", Operation.NEGATE): "neg.s32",
}


class StepWriter:
    """Writes the steps of one program into one body; wmma is spelled with `.aligned`, or not."""

    def __init__(self, program: Program, body: Body, aligned: bool) -> None:
        self.program, self.body, self.aligned = program, body, aligned
        self._registers = operand_registers(program)

    def write(self, steps: tuple[Step, ...], number: str = "") -> None:
        """Append the instructions of steps; `number` is that of the step that holds them."""
        for index, step in enumerate(steps):
            self._write(step, f"{number}{index}")

    def _write(self, step: Step, number: str) -> None:
        body = self.body
        body.comment(f"{number}: {step}")
        match step:
            case Op():
                self._op(step)
            case Elementwise():
                self._each(step, step.matrix.register_bits, self._elementwise(step))
            case PlainAccess():
                self._registers_and_memory(step)
            case Scalar():
                # Of two sources that go into one register, the first operand is the upper half.
                places = [f"{{{place}}}" for place in (0, *range(step.row.sources, 0, -1))]
                constant = [] if step.sets is None else [f"{step.sets:#x}"]
                self._each(step, step.bits, f"{step.opcode} {', '.join(places + constant)}")
            case LaneCode():
                *source, destination = map(self._registers.of, step.uses)
                _LaneWriter(body).write(step, source[0] if source else (), destination)
            case Copy():
                for piece in pieces(self.program, step):
                    self._copy(piece)
            case Barrier():
                body.add("bar.warp.sync 0xffffffff")
            case Branch():
                otherwise, end = body.labels("ELSE", "DONE")
                predicate, condition = body.scratch("pred"), self._uniform(step.condition)
                body.add(f"setp.eq.u32 {predicate}, {condition}, 0")
                body.add(f"bra {otherwise if step.otherwise else end}", guard=f"@{predicate}")
                self.write(step.then, f"{number}.then.")
                if step.otherwise:
                    body.add(f"bra {end}")
                    body.label(otherwise)
                    self.write(step.otherwise, f"{number}.else.")
                body.label(end)
            case Loop():
                again, end = body.labels("LOOP", "DONE")
                predicate, count = body.scratch("pred"), self._uniform(step.count)
                body.label(again)
                body.add(f"setp.eq.u32 {predicate}, {count}, 0")
                body.add(f"bra {end}", guard=f"@{predicate}")
                body.add(f"sub.u32 {count}, {count}, 1")
                self.write(step.body, f"{number}.body.")
                body.add(f"bra {again}")
                body.label(end)
            case _:
                assert_never(step)

    def _vector(self, use: Use) -> str:
        return braced(self._registers.of(use))

    def _op(self, step: AnyOp) -> None:
        """Append a matrix instruction: its vectors, and its address before or behind them."""
        body, opcode, stride = self.body, step.form.opcode, ""
        if not self.aligned and opcode.startswith("wmma"):
            opcode = opcode.replace(".aligned", "")
        opcode = body.spelled(opcode)
        if accesses_matrix(step):
            memory = step.memory
            where = body.address(
                self.program, memory.place, step.form.space, immediate=memory.immediate
            )
            if memory.stride is not None:
                stride = f", {memory.stride}"
                if memory.stride_in_register:
                    # A register that holds a constant would be folded into an immediate.
                    register = body.scratch("b32")
                    body.add(f"add.u32 {register}, {body.use('%zero')}{stride}")
                    stride = f", {register}"
        elif accesses_rows(step):
            where = self._row_address(step)
        elif multiplies(step):
            operands = [*map(self._vector, step.uses)]
            if step.selector is not None:
                operands[-1:] = [operands[-1].strip("{}"), f"{step.selector}"]
            body.add(f"{opcode} {', '.join(operands)}")
            return
        else:
            self._each(step, 32, f"{opcode} {{}}, {{}}")
            return
        where = self._own_address(step, where)
        (vector,) = map(self._vector, step.uses)
        first, second = (where, vector) if step.stores else (vector, where)
        body.add(f"{opcode} {first}, {second}{stride}")

    def _row_address(self, step: RowAccess) -> str:
        body, memory = self.body, step.memory
        offset = self.program.offset(memory.buffer) - memory.immediate
        register = body.base(self.program, memory.buffer, step.form.space)
        if memory.computed:
            made, distance = body.scratch("b32"), body.scratch("b64")
            _LaneWriter(body).write(memory.code, (), (made,))
            body.add(f"cvt.u64.u32 {distance}, {made}", f"add.s64 {distance}, {distance}, {offset}")
        else:
            distance = _lane_offsets(body, [address + offset for address in memory.addresses])
        total = body.scratch("b64")
        body.add(f"add.s64 {total}, {register}, {distance}")
        return displaced(total, memory.immediate)

    def _registers_and_memory(self, step: PlainAccess) -> None:
        """Append accesses that are as wide as the alignment allows."""
        body, width = self.body, step.bits // 8
        lane = body.scratch("b64")
        body.add(f"mul.wide.u32 {lane}, {body.use('%lane')}, {width * step.count}")
        (registers,) = map(self._registers.of, step.uses)
        lies_in = self.program.buffer(step.place.buffer).space
        operand = body.address(self.program, step.place, lies_in, lane=lane)
        space = body.spelled(lies_in)
        offset = self.program.offset(step.place.buffer) + step.place.offset
        guard = "" if step.lanes == LANES else self._first_lanes(step.lanes)
        together = min(step.count, _WIDEST // width)
        if offset % (width * together):
            together = 1
        indices = [*range(0, step.count, together)]
        if step.address is not None:
            operand = self._own_address(step, operand)
            # The load that overwrites the address comes last.
            last = step.address - step.address % together
            indices = [*(index for index in indices if index != last), last]
        for index in indices:
            part = registers[index : index + together]
            value = braced(part) if together > 1 else part[0]
            kind = f"v{together}.b{step.bits}" if together > 1 else f"b{step.bits}"
            where = displaced(operand[1:-1], width * index)
            if step.stores:
                body.add(f"st.{space}.{kind} {where}, {value}", guard=guard)
            else:
                body.add(f"ld.{space}.{kind} {value}, {where}")

    def _first_lanes(self, count: int) -> str:
        predicate = self.body.scratch("pred")
        self.body.add(f"setp.lt.u32 {predicate}, {self.body.use('%lane')}, {count}")
        return f"@{predicate}"

    def _own_address(self, step: Step, operand: str) -> str:
        """Return an address as the register of the destination holds it that is to have it."""
        if step.address is None:
            return operand
        (use,) = step.uses
        register = self._registers.of(use)[step.address]
        base, plus, rest = operand[1:-1].partition("+")
        convert = "cvt.u32.u64" if use.holds.bits == 32 else "mov.b64"
        self.body.add(f"{convert} {register}, {base}")
        return f"[{register}{plus}{rest}]"

    def _each(self, step: Step, bits: int, template: str) -> None:
        """Append an instruction for each register of the destination.

        The template has places for the destination and its sources: as many registers for each as
        the source has for one of the destination.
        """
        *read, destination = map(self._registers.of, step.uses)
        source = read[0] if read else ()
        each = len(source) // len(destination)
        late: list[tuple[str, str]] = []
        for index, register in enumerate(destination):
            result = register
            if register in source[each * (index + 1) :]:  # which a later instruction reads
                result = self.body.scratch(f"b{bits}")
                late.append((register, result))
            sources = source[each * index : each * (index + 1)]
            self.body.add(template.format(result, *sources))
        for register, result in late:
            self.body.add(f"mov.b{bits} {register}, {result}")

    def _elementwise(self, step: Elementwise) -> str:
        """Return the instruction of an element-wise operation, for one register (9.7.14.4.1)."""
        type_, operation, bits = step.matrix.type, step.operation, step.matrix.register_bits
        opcode, constant = f"{operation}.b{bits}", None
        if operation.takes_constant:
            constant = replicated(step.constant, type_.bits, bits)
        if (type_.name, operation) in _ARITHMETIC:
            opcode = _ARITHMETIC[type_.name, operation]
        elif operation is Operation.COPY:
            opcode, constant = f"mov.b{bits}", None
        elif operation is Operation.NEGATE:
            opcode, constant = f"xor.b{bits}", signs(type_, bits)
        elif operation is Operation.ABSOLUTE:
            opcode, constant = f"and.b{bits}", signs(type_, bits) ^ ((1 << bits) - 1)
        if constant is None:
            return f"{opcode} {{}}, {{}}"
        # A register takes any bit pattern, NaN with its payload too.
        register = self.body.scratch(f"b{bits}")
        self.body.add(f"mov.b{bits} {register}, {constant:#x}")
        return f"{opcode} {{}}, {{}}, {register}"

    def _uniform(self, value: Uniform) -> str:
        register = self.body.scratch("b32")
        if isinstance(value, Word):
            operand = self.body.address(self.program, value.place, "global")
            self.body.add(
                f"ld.{self.body.image_space}.b32 {register}, {operand}",
                f"and.b32 {register}, {register}, {value.mask:#x}",
            )
        else:
            self.body.add(f"mov.b32 {register}, {value}")
        return register

    def _copy(self, piece: Piece) -> None:
        """Copy the units of a piece; lane l takes every 32nd from the l-th on."""
        body, width = self.body, piece.width
        lane = body.scratch("b64")
        body.add(f"mul.wide.u32 {lane}, {body.use('%lane')}, {width}")
        ends = (piece.source, piece.destination)
        spaces = [self.program.buffer(place.buffer).space for place in ends]
        # The operands come as "[register]": rounds are told apart by the immediate.
        pointers = [
            body.address(self.program, place, space, lane=lane)[1:-1]
            for place, space in zip(ends, spaces, strict=True)
        ]
        reading, writing = map(body.spelled, spaces)
        # A byte travels in a 16-bit register, as in what nvcc emits.
        size = "b32" if width >= 4 else "b16"
        registers = tuple(body.scratch(size) for _ in range(max(1, width // 4)))
        vector = braced(registers) if len(registers) > 1 else registers[0]

        def move(distance: int, guard: str = "") -> None:
            load, store = (displaced(pointer, distance) for pointer in pointers)
            body.add(f"ld.{reading}.{_VECTORS[width]} {vector}, {load}", guard=guard)
            body.add(f"st.{writing}.{_VECTORS[width]} {store}, {vector}", guard=guard)

        rounds, rest = divmod(piece.units, LANES)
        if rounds > _UNROLLED:
            with body.repeated("COPY", rounds):
                move(0)
                body.add(*(f"add.s64 {one}, {one}, {LANES * width}" for one in pointers))
            rounds = 0
        for index in range(rounds):
            move(index * LANES * width)
        if rest:
            guard = self._first_lanes(rest)
            move(rounds * LANES * width, guard)


class Piece(NamedTuple):
    """A part of a copy, in units of so many bytes (16, 8, 4, 2 or 1), to which both ends align."""

    source: Place
    destination: Place
    width: int
    units: int


def pieces(program: Program, step: Copy) -> Iterator[Piece]:
    """Iterate over the parts of a copy: each as wide as its ends allow, then what is left."""
    done = 0
    while (left := step.size - done) > 0:
        source, destination = (
            Place(buffer=place.buffer, offset=place.offset + done)
            for place in (step.source, step.destination)
        )
        offsets = [program.offset(one.buffer) + one.offset for one in (source, destination)]
        width = next(
            width for width in _VECTORS if width <= left and not any(at % width for at in offsets)
        )
        yield Piece(source, destination, width, left // width)
        done += left // width * width


def signs(type_: Format, bits: int) -> int:
    """Return the sign bits of a float's elements in a register."""
    return replicated(1 << (type_.bits - 1), type_.bits, bits)


def progression(offsets: Sequence[int]) -> tuple[int, int] | None:
    """Return the first of the lanes' offsets and their pitch; None where there is no one pitch."""
    first, pitch = offsets[0], offsets[1] - offsets[0]
    regular = [first + lane * pitch for lane in range(len(offsets))] == [*offsets]
    return (first, pitch) if regular else None


def _lane_offsets(body: Body, offsets: list[int]) -> str:
    """Return a 64-bit register that holds, in each lane, its own offset of the 32."""
    lane = body.use("%lane")
    distance = body.scratch("b64")
    if (regular := progression(offsets)) is not None:
        first, pitch = regular
        body.add(f"mul.wide.s32 {distance}, {lane}, {pitch}")
        if first:
            body.add(f"add.s64 {distance}, {distance}, {first}")
        return distance
    body.add(f"mov.b64 {distance}, {offsets[0]}")
    predicate = body.scratch("pred")
    for index, offset in enumerate(offsets):
        if offset != offsets[0]:
            body.add(
                f"setp.eq.u32 {predicate}, {lane}, {index}",
                f"selp.b64 {distance}, {offset}, {distance}, {predicate}",
            )
    return distance


class _LaneWriter:
    def __init__(self, body: Body) -> None:
        self.body = body
        self._registers = {LANE: body.use("%lane")}

    def write(self, step: LaneCode, source: Sequence[str], destination: Sequence[str]) -> None:
        """Append the code of a step whose operands have these registers."""
        add, register = self.body.add, self.register
        for name, given in zip(step.inputs, source, strict=True):
            add(f"mov.{class_of(name)} {register(name)}, {given}")
        self.block(step.code, ())
        for name, wanted in zip(step.results, destination, strict=True):
            add(f"mov.{class_of(name)} {wanted}, {register(name)}")

    def register(self, name: str) -> str:
        if name == ZERO:
            return self.body.use("%zero")
        if name not in self._registers:
            self._registers[name] = self.body.scratch(class_of(name))
        return self._registers[name]

    def guard(self, predicate: str, *, negated: bool = False) -> str:
        """Return what stands before an instruction that a predicate guards; "" for none."""
        if not predicate:
            return ""
        name = predicate.removeprefix("!")
        sign = "!" if negated != predicate.startswith("!") else ""
        return f"@{sign}{self.register(name)}"

    def block(self, statements: Sequence[Statement], loop: tuple[str, ...]) -> None:
        """Append statements; `loop` has the labels behind the loop around and of its next turn."""
        for statement in statements:
            match statement:
                case Assign():
                    self.assign(statement)
                case If():
                    self.branch(statement, loop)
                case Repeat():
                    self.repeat(statement)
                case Leave():
                    guard = self.guard(statement.predicate)
                    self.body.add(f"bra {loop[statement.turn]}", guard=guard)

    def assign(self, one: Assign) -> None:
        row, sources = one.row, []
        for index, source in enumerate(one.sources):
            if isinstance(source, str):
                sources.append(self.register(source))
            elif index in row.immediates:
                sources.append(f"{source:#x}")
            else:  # a constant stands in a register
                sources.append(self.body.scratch(row.sources[index]))
                self.body.add(f"mov.{row.sources[index]} {sources[-1]}, {source:#x}")
        written = [self.register(name) for name in one.destinations]
        self.body.add(row.text(written, sources).removesuffix(";"), guard=self.guard(one.guard))

    def branch(self, one: If, loop: tuple[str, ...]) -> None:
        body = self.body
        otherwise, end = body.labels("NO", "JOIN")
        target = otherwise if one.otherwise else end
        body.add(f"bra {target}", guard=self.guard(one.predicate, negated=True))
        self.block(one.then, loop)
        if one.otherwise:
            body.add(f"bra {end}")
            body.label(otherwise)
            self.block(one.otherwise, loop)
        body.label(end)

    def repeat(self, one: Repeat) -> None:
        body, count = self.body, f"{one.count:#x}" if isinstance(one.count, int) else ""
        again, middle, following, end = body.labels("TURN", "ENTRY", "NEXT", "LEFT")
        counter, done = self.register(one.counter), body.scratch("pred")
        if not isinstance(one.count, int):
            count = body.scratch("b32")
            body.add(f"and.b32 {count}, {self.register(one.count)}, {one.mask:#x}")
        body.add(f"mov.b32 {counter}, {count if one.down else 0}")
        asks = f"setp.ge.u32 {done}, {counter}, {count}"
        if one.down:
            asks = f"setp.le.s32 {done}, {counter}, 0"
        if one.entry:
            body.add(f"bra {middle}", guard=self.guard(one.entry))
        body.label(again)
        if not one.late:
            body.add(asks)
            body.add(f"bra {end}", guard=f"@{done}")
        self.block(one.body[: one.skipped], (end, following))
        if one.entry:
            body.label(middle)
        self.block(one.body[one.skipped :], (end, following))
        body.label(following)
        body.add(f"add.s32 {counter}, {counter}, {-1 if one.down else 1}")
        if one.late:
            body.add(asks)
        body.add(f"bra {again}", guard=f"@!{done}" if one.late else "")
        body.label(end)
