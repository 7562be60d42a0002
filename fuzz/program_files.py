"""Programs as JSON: what a stored finding keeps so that its program can be made again."""

from __future__ import annotations

from typing import Any

import msgspec

from oracle.errors import InfrastructureError, UsageError
from oracle.formats import format_named
from oracle.isa import SHAPES, Form, Matrix, form_of
from oracle.program import (
    Barrier,
    Branch,
    Buffer,
    Copy,
    Elementwise,
    Load,
    LoadRows,
    Loop,
    Multiply,
    Operation,
    Place,
    Program,
    Step,
    Store,
    StoreRegisters,
    Word,
)

_STEPS: dict[str, type[Any]] = {
    step.__name__: step
    for step in (
        Load, Multiply, Store, Elementwise, LoadRows, StoreRegisters, Copy, Barrier, Branch, Loop,
    )
}  # fmt: skip
_FORMAT = 1
"""Version of what is written here."""


def encode_program(program: Program) -> bytes:
    """Return a program as indented JSON: forms as opcodes, matrices by shape and type."""
    document = {
        "format": _FORMAT,
        "buffers": [_row(buffer) for buffer in program.buffers],
        "steps": [_step(step) for step in program.steps],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def decode_program(data: bytes, source: str) -> Program:
    """Return the program that `encode_program` wrote.

    Parameters
    ----------
    source
        Name of the file, for the message.

    Raises
    ------
    InfrastructureError
        If it is none.
    """
    try:
        document = msgspec.json.decode(data)
        if document["format"] != _FORMAT:
            raise UsageError(f"its format is {document['format']}, and {_FORMAT} is known here")
        return Program(
            buffers=tuple(Buffer(**row) for row in document["buffers"]),
            steps=_made_steps(document["steps"]),
        )
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, UsageError) as error:
        raise InfrastructureError(
            f"{source} describes no program ({type(error).__name__}: {error}); restore it from a "
            "backup, or read it with the version of warpfuzz that wrote it"
        ) from error


def _row(value: Any) -> dict[str, object]:
    return {name: _value(getattr(value, name)) for name in value.__dataclass_fields__}


def _step(step: Step) -> dict[str, object]:
    return {"step": type(step).__name__, **_row(step)}


def _value(value: Any) -> object:
    if isinstance(value, Form):
        return value.opcode
    if isinstance(value, Matrix):
        return {"operand": value.operand, "shape": value.shape.name, "type": value.type.name}
    if isinstance(value, Place | Word):
        return _row(value)
    if isinstance(value, tuple):
        return [_step(one) if type(one).__name__ in _STEPS else one for one in value]
    return value


def _made_steps(rows: list[dict[str, Any]]) -> tuple[Step, ...]:
    return tuple(_made_step(row) for row in rows)


def _made_step(row: dict[str, Any]) -> Step:
    fields = {name: _made(name, value) for name, value in row.items() if name != "step"}
    step: Step = _STEPS[row["step"]](**fields)
    return step


def _made(name: str, value: Any) -> object:
    match name:
        case "form":
            return form_of(value)
        case "matrix":
            return Matrix(
                operand=value["operand"],
                shape=SHAPES[value["shape"]],
                type=format_named(value["type"]),
            )
        case "operation":
            return Operation(value)
        case "place" | "source" | "destination" if isinstance(value, dict):
            return Place(**value)
        case "condition" | "count" if isinstance(value, dict):
            return Word(place=Place(**value["place"]), mask=value["mask"])
        case "then" | "otherwise" | "body":
            return _made_steps(value)
        case "addresses":
            return tuple(value)
    return value
