"""Steps to instructions, each under a comment that says what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from oracle.isa import LdmatrixForm, LoadForm, Matrix, MmaForm, StoreForm
from oracle.program import (
    Barrier,
    Branch,
    Copy,
    Elementwise,
    Load,
    LoadRows,
    Loop,
    Multiply,
    Place,
    Program,
    Step,
    Store,
    StoreRegisters,
    Uniform,
    Word,
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
        match step:
            case Load():
                body.comment(f"{number}: load {step.fragment} = {_access(step)}")
                self._access(step)
            case Store():
                body.comment(f"{number}: store {step.fragment} to {_access(step)}")
                self._access(step)
            case Multiply():
                body.comment(f"{number}: {step.d} = {step.a} x {step.b} + {step.c}")
                vectors = ", ".join(
                    _vector(self._registers.of_matrix(name, step.form.matrix(operand)))
                    for operand, name in zip("dabc", (step.d, step.a, step.b, step.c), strict=True)
                )
                body.add(f"{self._opcode(step.form)} {vectors}")
            case Elementwise():
                constant = f" {step.constant:#x}" if step.operation.takes_constant else ""
                body.comment(
                    f"{number}: {step.destination} = {step.operation}{constant} of "
                    f"{step.source}, every element"
                )
                write_elementwise(
                    body,
                    step,
                    self._registers.of_matrix(step.source, step.matrix),
                    self._registers.of_matrix(step.destination, step.matrix),
                )
            case LoadRows():
                body.comment(f"{number}: load rows {step.registers} from {step.buffer}")
                self._load_rows(step)
            case StoreRegisters():
                body.comment(f"{number}: store registers {step.registers} to {_at(step.place)}")
                self._store_registers(step)
            case Copy():
                body.comment(
                    f"{number}: copy {step.size} bytes from {_at(step.source)} to "
                    f"{_at(step.destination)}"
                )
                write_copy(body, self.program, step)
            case Barrier():
                body.comment(f"{number}: barrier")
                body.add("bar.warp.sync 0xffffffff")
            case Branch():
                self._branch(step, number)
            case Loop():
                self._loop(step, number)
            case _:
                assert_never(step)

    def _opcode(self, form: LoadForm | StoreForm | MmaForm | LdmatrixForm) -> str:
        return form.opcode if self.aligned else form.opcode.replace(".aligned", "")

    def _access(self, step: Load | Store) -> None:
        form = step.form
        operand = address(self.body, self.program, step.place, form.space, immediate=step.immediate)
        stride = stride_operand(self.body, step.stride, in_register=step.stride_in_register)
        vector = _vector(self._registers.of_matrix(step.fragment, form.matrix))
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
        vector = _vector(self._registers.of(step.registers, "b32", step.form.registers))
        body.add(f"{self._opcode(step.form)} {vector}, {displaced(total, step.immediate)}")

    def _store_registers(self, step: StoreRegisters) -> None:
        body = self.body
        lane = body.scratch("b64")
        body.add(f"mul.wide.u32 {lane}, {body.use('%lane')}, {4 * step.count}")
        registers = self._registers.of(step.registers, "b32", step.count)
        space = self.program.buffer(step.place.buffer).space
        operand = address(body, self.program, step.place, space, lane=lane)
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
            self.body.add(f"ld.global.b32 {register}, {operand}")
            self.body.add(f"and.b32 {register}, {register}, {value.mask:#x}")
        else:
            self.body.add(f"mov.b32 {register}, {value}")
        return register

    def _branch(self, step: Branch, number: str) -> None:
        body = self.body
        otherwise, end = body.labels("ELSE", "DONE")
        predicate = body.scratch("pred")
        body.comment(f"{number}: if {_uniform(step.condition)}")
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
        body.comment(f"{number}: repeat {_uniform(step.count)} times")
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


def _at(place: Place) -> str:
    return f"{place.buffer}+{place.offset}" if place.offset else place.buffer


def _access(step: Load | Store) -> str:
    """Describe the matrix of a load or store, for a comment."""
    matrix: Matrix = step.form.matrix
    stride = "default" if step.stride is None else step.stride
    return (
        f"{matrix.operand.upper()} {matrix.rows}x{matrix.columns} {matrix.type.name} "
        f"{step.form.layout}-major at {_at(step.place)}, stride {stride}"
    )


def _uniform(value: Uniform) -> str:
    """Describe a uniform number, for a comment."""
    if isinstance(value, Word):
        return f"(word at {_at(value.place)} & {value.mask:#x})"
    return str(value)


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
