"""A program as a short list of steps."""

from __future__ import annotations

from collections.abc import Iterator

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


def step_lines(program: Program) -> list[tuple[str, str]]:
    """Return what each step does, and its opcode where it is a matrix instruction."""
    return [line for step in program.steps for line in _lines(step, "")]


def _lines(step: Step, indent: str) -> Iterator[tuple[str, str]]:
    match step:
        case Load():
            yield f"{indent}{step.fragment} = {_access(step)}", step.form.opcode
        case Multiply():
            yield f"{indent}{step.d} = {step.a} × {step.b} + {step.c}", step.form.opcode
        case Store():
            yield f"{indent}{_access(step)} = {step.fragment}", step.form.opcode
        case LoadRows():
            yield f"{indent}{step.registers} = rows of [{step.buffer}]", step.form.opcode
        case StoreRegisters():
            yield f"{indent}{_place(step.place)} = {step.registers}", ""
        case Elementwise():
            constant = f" 0x{step.constant:x}" if step.operation.takes_constant else ""
            yield f"{indent}{step.destination} = {step.operation}{constant} {step.source}", ""
        case Copy():
            to = f"{_place(step.destination)} = {_place(step.source)}"
            yield f"{indent}{to}, {step.size} bytes", ""
        case Barrier():
            yield f"{indent}barrier", ""
        case Branch():
            yield f"{indent}if {_uniform(step.condition)}:", ""
            for inner in step.then:
                yield from _lines(inner, f"{indent}  ")
            if step.otherwise:
                yield f"{indent}else:", ""
                for inner in step.otherwise:
                    yield from _lines(inner, f"{indent}  ")
        case Loop():
            yield f"{indent}{_uniform(step.count)} times:", ""
            for inner in step.body:
                yield from _lines(inner, f"{indent}  ")


def _access(step: Load | Store) -> str:
    stride = "" if step.stride is None else f", stride {step.stride}"
    return f"{_place(step.place)}{stride}"


def _place(place: Place) -> str:
    offset = f"{place.offset:+d}" if place.offset else ""
    return f"[{place.buffer}{offset}]"


def _uniform(value: Uniform) -> str:
    if isinstance(value, Word):
        return f"(word {_place(value.place)} & 0x{value.mask:x})"
    return str(value)
