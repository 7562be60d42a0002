"""Steps to instructions, each under a comment that says what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from oracle.forms import LdmatrixForm, LoadForm, MmaForm, StoreForm
from oracle.places import Uniform, Word
from oracle.program import Program
from oracle.steps import (
    Barrier,
    Branch,
    Copy,
    Elementwise,
    Load,
    LoadRows,
    Loop,
    Multiply,
    Step,
    Store,
    StoreRegisters,
    Use,
)
from runners.emission.addresses import address, base_register, displaced, stride_operand
from runners.emission.body import Body
from runners.emission.copies import write_copy
from runners.emission.elementwise import write_elementwise
from runners.emission.registers import fragment_registers


@dataclass(kw_only=True)
class StepWriter:
    """Writes the steps of one program into one body."""

    program: Program
    body: Body
    aligned: bool
    """Whether wmma instructions are spelled with `.aligned`."""

    def __post_init__(self) -> None:
        self._registers = fragment_registers(self.program)

    def write(self, steps: tuple[Step, ...], number: str = "") -> None:
        """Append the instructions of steps; `number` is that of the step that holds them."""
        for index, step in enumerate(steps):
            self._write(step, f"{number}{index}")

    def _write(self, step: Step, number: str) -> None:
        body = self.body
        body.comment(f"{number}: {step}")
        match step:
            case Load() | Store():
                self._access(step)
            case Multiply():
                body.add(f"{self._opcode(step.form)} {', '.join(map(self._vector, step.uses))}")
            case Elementwise():
                write_elementwise(body, step, *map(self._registers.of, step.uses))
            case LoadRows():
                self._load_rows(step)
            case StoreRegisters():
                self._store_registers(step)
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
        return _vector(self._registers.of(use))

    def _opcode(self, form: LoadForm | StoreForm | MmaForm | LdmatrixForm) -> str:
        opcode = form.opcode if self.aligned else form.opcode.replace(".aligned", "")
        return self.body.spelled(opcode)

    def _access(self, step: Load | Store) -> None:
        form = step.form
        operand = address(self.body, self.program, step.place, form.space, immediate=step.immediate)
        stride = stride_operand(self.body, step.stride, in_register=step.stride_in_register)
        (vector,) = map(self._vector, step.uses)
        first, second = (vector, operand) if isinstance(step, Load) else (operand, vector)
        self.body.add(f"{self._opcode(form)} {first}, {second}{stride}")

    def _load_rows(self, step: LoadRows) -> None:
        body = self.body
        offset = self.program.offset(step.buffer) - step.immediate
        offsets = [address + offset for address in step.addresses]
        register = base_register(body, self.program, step.buffer, step.form.space)
        distance = _lane_offsets(body, offsets)
        total = body.scratch("b64")
        body.add(f"add.s64 {total}, {register}, {distance}")
        (vector,) = map(self._vector, step.uses)
        body.add(f"{self._opcode(step.form)} {vector}, {displaced(total, step.immediate)}")

    def _store_registers(self, step: StoreRegisters) -> None:
        body = self.body
        lane = body.scratch("b64")
        body.add(f"mul.wide.u32 {lane}, {body.use('%lane')}, {4 * step.count}")
        (registers,) = map(self._registers.of, step.uses)
        lies_in = self.program.buffer(step.place.buffer).space
        operand = address(body, self.program, step.place, lies_in, lane=lane)
        space = body.spelled(lies_in)
        offset = self.program.offset(step.place.buffer) + step.place.offset
        if step.count == 1:
            body.add(f"st.{space}.b32 {operand}, {registers[0]}")
        elif offset % (4 * step.count) == 0:
            body.add(f"st.{space}.v{step.count}.b32 {operand}, {_vector(registers)}")
        else:
            for index, register in enumerate(registers):
                body.add(f"st.{space}.b32 {displaced(operand[1:-1], 4 * index)}, {register}")

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


def _vector(registers: tuple[str, ...]) -> str:
    return "{" + ", ".join(registers) + "}"


def _lane_offsets(body: Body, offsets: list[int]) -> str:
    """Return a 64-bit register that holds, in each lane, its own offset of the 32."""
    lane = body.use("%lane")
    distance = body.scratch("b64")
    step = offsets[1] - offsets[0]
    if all(offset == offsets[0] + index * step for index, offset in enumerate(offsets)):
        body.add(f"mul.wide.s32 {distance}, {lane}, {step}")
        if offsets[0]:
            body.add(f"add.s64 {distance}, {distance}, {offsets[0]}")
        return distance
    body.add(f"mov.b64 {distance}, {offsets[0]}")
    predicate = body.scratch("pred")
    for index, offset in enumerate(offsets):
        if offset != offsets[0]:
            body.add(f"setp.eq.u32 {predicate}, {lane}, {index}")
            body.add(f"selp.b64 {distance}, {offset}, {distance}, {predicate}")
    return distance
