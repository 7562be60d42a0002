"""Code of lanes: labels, branches and predicated instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from oracle.lane_code import LANE, ZERO, Assign, If, LaneCode, Leave, Repeat, Statement, class_of
from oracle.scalar import ScalarInstruction
from runners.emission.body import Body


def write_lane_code(
    body: Body, step: LaneCode, source: Sequence[str], destination: Sequence[str]
) -> None:
    """Append the code of a step.

    Parameters
    ----------
    source, destination
        PTX registers of the step's operands.
    """
    writer = _Writer(body)
    for name, register in zip(step.inputs, source, strict=True):
        body.add(f"mov.{class_of(name)} {writer.register(name)}, {register}")
    writer.block(step.code, ())
    for name, register in zip(step.results, destination, strict=True):
        body.add(f"mov.{class_of(name)} {register}, {writer.register(name)}")


class _Writer:
    def __init__(self, body: Body) -> None:
        self.body = body
        self._registers = {LANE: body.use("%lane")}

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
                    end, following = loop
                    target = following if statement.turn else end
                    self.body.add(f"bra {target}", guard=self.guard(statement.predicate))
                case _:
                    assert_never(statement)

    def assign(self, one: Assign) -> None:
        row = one.row
        sources = [self.operand(row, index, source) for index, source in enumerate(one.sources)]
        written = [self.register(name) for name in one.destinations]
        self.body.add(row.text(written, sources).removesuffix(";"), guard=self.guard(one.guard))

    def operand(self, row: ScalarInstruction, index: int, source: str | int) -> str:
        """Return the text of a source; a constant stands in a register where none may be."""
        if isinstance(source, str):
            return self.register(source)
        if index in row.immediates:
            return f"{source:#x}"
        register = self.body.scratch(row.sources[index])
        self.body.add(f"mov.{row.sources[index]} {register}, {source:#x}")
        return register

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
        body = self.body
        again, middle, following, end = body.labels("TURN", "ENTRY", "NEXT", "LEFT")
        counter, done = self.register(one.counter), body.scratch("pred")
        if isinstance(one.count, int):
            count = f"{one.count:#x}"
        else:
            count = body.scratch("b32")
            body.add(f"and.b32 {count}, {self.register(one.count)}, {one.mask:#x}")
        body.add(f"mov.b32 {counter}, {count if one.down else 0}")
        asks = (
            f"setp.le.s32 {done}, {counter}, 0"
            if one.down
            else (f"setp.ge.u32 {done}, {counter}, {count}")
        )
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
            body.add(f"bra {again}", guard=f"@!{done}")
        else:
            body.add(f"bra {again}")
        body.label(end)
