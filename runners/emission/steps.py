"""Steps to instructions, each under a comment that says what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from oracle.lane_code import LaneCode
from oracle.matrices import LANES
from oracle.operands import Use
from oracle.ops import AnyOp, Op, RowAccess, accesses_matrix, accesses_rows, multiplies
from oracle.places import Uniform, Word
from oracle.program import Program
from oracle.steps import Barrier, Branch, Copy, Elementwise, Loop, PlainAccess, Scalar, Step
from runners.emission.addresses import (
    address,
    base_register,
    displaced,
    progression,
    stride_operand,
)
from runners.emission.body import Body, braced
from runners.emission.copies import write_copy
from runners.emission.elementwise import elementwise
from runners.emission.lane_code import write_lane_code
from runners.emission.registers import operand_registers

_WIDEST = 16
"""Bytes that one lane can load or store at a time: `.v4.b32` or `.v2.b64`."""


@dataclass(kw_only=True)
class StepWriter:
    """Writes the steps of one program into one body."""

    program: Program
    body: Body
    aligned: bool
    """Whether wmma instructions are spelled with `.aligned`."""

    def __post_init__(self) -> None:
        self._registers = operand_registers(self.program)

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
                template = elementwise(body, step)
                self._each(step, step.matrix.register_bits, template)
            case PlainAccess():
                self._registers_and_memory(step)
            case Scalar():
                # Of two sources that go into one register, the first operand is the upper half.
                places = [f"{{{place}}}" for place in (0, *range(step.row.sources, 0, -1))]
                constant = [] if step.sets is None else [f"{step.sets:#x}"]
                self._each(step, step.bits, f"{step.opcode} {', '.join(places + constant)}")
            case LaneCode():
                *source, destination = map(self._registers.of, step.uses)
                write_lane_code(body, step, source[0] if source else (), destination)
            case Copy():
                write_copy(body, self.program, step)
            case Barrier():
                body.add("bar.warp.sync 0xffffffff")
            case Branch():
                self._branch(step, number)
            case Loop():
                self._loop(step, number)
            case _:
                assert_never(step)

    def _vector(self, use: Use) -> str:
        return braced(self._registers.of(use))

    def _op(self, step: AnyOp) -> None:
        """Append a matrix instruction: its vectors, and its address before or behind them."""
        opcode = step.form.opcode
        if not self.aligned and opcode.startswith("wmma"):
            opcode = opcode.replace(".aligned", "")
        opcode = self.body.spelled(opcode)
        stride = ""
        if accesses_matrix(step):
            memory = step.memory
            where = address(
                self.body, self.program, memory.place, step.form.space, immediate=memory.immediate
            )
            stride = stride_operand(self.body, memory.stride, in_register=memory.stride_in_register)
        elif accesses_rows(step):
            where = self._row_address(step)
        elif multiplies(step):
            operands = [*map(self._vector, step.uses)]
            if step.selector is not None:
                operands[-1:] = [operands[-1].strip("{}"), f"{step.selector}"]
            self.body.add(f"{opcode} {', '.join(operands)}")
            return
        else:
            self._each(step, 32, f"{opcode} {{}}, {{}}")
            return
        where = self._own_address(step, where)
        (vector,) = map(self._vector, step.uses)
        first, second = (where, vector) if step.stores else (vector, where)
        self.body.add(f"{opcode} {first}, {second}{stride}")

    def _row_address(self, step: RowAccess) -> str:
        """Return an operand with each lane's own of the 32 addresses."""
        body, memory = self.body, step.memory
        offset = self.program.offset(memory.buffer) - memory.immediate
        offsets = [address + offset for address in memory.addresses]
        register = base_register(body, self.program, memory.buffer, step.form.space)
        if memory.computed:
            made, distance = body.scratch("b32"), body.scratch("b64")
            write_lane_code(body, memory.code, (), (made,))
            body.add(f"cvt.u64.u32 {distance}, {made}")
            body.add(f"add.s64 {distance}, {distance}, {offset}")
        else:
            distance = _lane_offsets(body, offsets)
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
        operand = address(body, self.program, step.place, lies_in, lane=lane)
        space = body.spelled(lies_in)
        offset = self.program.offset(step.place.buffer) + step.place.offset
        guard = ""
        if step.lanes != LANES:
            predicate = body.scratch("pred")
            body.add(f"setp.lt.u32 {predicate}, {body.use('%lane')}, {step.lanes}")
            guard = f"@{predicate}"
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

        Parameters
        ----------
        template
            The instruction, with places for the destination and its sources: as many registers for
            each as the source has for one of the destination.
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

    def _uniform(self, value: Uniform) -> str:
        """Return a new register that holds a number that is the same in every lane."""
        register = self.body.scratch("b32")
        if isinstance(value, Word):
            operand = address(self.body, self.program, value.place, "global")
            self.body.add(f"ld.{self.body.image_space}.b32 {register}, {operand}")
            self.body.add(f"and.b32 {register}, {register}, {value.mask:#x}")
        else:
            self.body.add(f"mov.b32 {register}, {value}")
        return register

    def _branch(self, step: Branch, number: str) -> None:
        body = self.body
        otherwise, end = body.labels("ELSE", "DONE")
        predicate = body.scratch("pred")
        condition = self._uniform(step.condition)
        body.add(f"setp.eq.u32 {predicate}, {condition}, 0")
        body.add(f"bra {otherwise if step.otherwise else end}", guard=f"@{predicate}")
        self.write(step.then, f"{number}.then.")
        if step.otherwise:
            body.add(f"bra {end}")
            body.label(otherwise)
            self.write(step.otherwise, f"{number}.else.")
        body.label(end)

    def _loop(self, step: Loop, number: str) -> None:
        body = self.body
        again, end = body.labels("LOOP", "DONE")
        predicate = body.scratch("pred")
        count = self._uniform(step.count)
        body.label(again)
        body.add(f"setp.eq.u32 {predicate}, {count}, 0")
        body.add(f"bra {end}", guard=f"@{predicate}")
        body.add(f"sub.u32 {count}, {count}, 1")
        self.write(step.body, f"{number}.body.")
        body.add(f"bra {again}")
        body.label(end)


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
            body.add(f"setp.eq.u32 {predicate}, {lane}, {index}")
            body.add(f"selp.b64 {distance}, {offset}, {distance}, {predicate}")
    return distance
