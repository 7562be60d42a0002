"""Programs of a finding as JSON, and its arrays as `.npy` files: the same bytes for the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from functools import partial
from io import BytesIO
from typing import Any, Literal, get_type_hints

import msgspec
from msgspec import Struct
from numpy.typing import NDArray

from corpus.store import Entry
from oracle.errors import InfrastructureError, UsageError
from oracle.isa.forms import Form, Matrix, format_named
from oracle.isa.lookup import INSTRUCTIONS, SHAPES, form_of
from oracle.program.lane_code import MAX_DEPTH, Assign, If, LaneCode, Leave, Repeat, Statement
from oracle.program.operands import Buffer, Place, StepBase, Turn, Uniform, Word
from oracle.program.operations import SCALARS, Elementwise, Scalar
from oracle.program.program import Program
from oracle.program.steps import (
    MAX_NESTING,
    Barrier,
    Branch,
    Copy,
    Loop,
    OneWarp,
    Op,
    PlainAccess,
    Step,
    is_repeated,
    memory_of,
    operands_of,
    plain_load,
    plain_store,
)
from oracle.program.warpgroup import AsyncProduct, SharedTile, WarpgroupSync

_INSTRUCTIONS = {
    "wmma.load": "Load", "wmma.mma": "Multiply", "wmma.store": "Store", "ldmatrix": "LoadRows",
    "stmatrix": "StoreRows", "mma": "MultiplyLanes", "movmatrix": "TransposeRegisters",
}  # fmt: skip
"""Names in files of steps with these mnemonics; others have their mnemonic."""
_STORED = {"set_registers": {"destination": "registers"}}
"""What fields of a step are called in a file where it is not as in the step, by its action."""
_FORMAT = 1  # version of what is written here
_LEFT_OUT: Mapping[str, object] = {
    "address": None,
    "computed": (),
    "is_async": False,
    "mbarrier": None,
}
"""Left out where they hold this: programs without them keep their bytes and ids."""
_BYTES = 1 << 20  # most bytes of a program's file; a step takes about 400


def encode_program(program: Program) -> bytes:
    """Return a program as indented JSON: forms as opcodes, matrices by shape and type."""
    document = {
        "format": _FORMAT,
        **({} if program.warps == 1 else {"warps": program.warps}),
        **({"registers": program.registers} if program.registers else {}),
        "buffers": [_row(buffer) for buffer in program.buffers],
        "steps": _value(program.steps),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def decode_program(data: bytes, source: str) -> Program:
    """Return the program that `encode_program` wrote; InfrastructureError: `source` holds none.

    Every field is checked for its type; what it may hold, the rows of `oracle` say.
    """
    try:
        if len(data) > _BYTES:
            raise UsageError(f"it has {len(data)} bytes; at most {_BYTES} are read")
        document = msgspec.json.decode(data, type=_Document)
        if document.format != _FORMAT:
            raise UsageError(f"its format is {document.format!r:.80}, and {_FORMAT} is known here")
        steps = _rows(document.steps, "step")
        return Program(
            buffers=document.buffers, steps=steps, warps=document.warps,
            registers=document.registers,
        )  # fmt: skip
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError) as error:
        raise InfrastructureError(f"{source} describes no program ({error!s:.300})") from error


class _Document(Struct, frozen=True):
    format: int
    buffers: tuple[Buffer, ...]
    steps: list[Any]
    warps: int = 1
    registers: int = 0


def _row(value: Any) -> dict[str, object]:
    if isinstance(value, StepBase):
        stored = _STORED.get(value.action, {})
        fields = {stored.get(name, name): one for name, one in value.fields.items()}
    else:
        fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return {
        name: _value(one)
        for name, one in fields.items()
        if name not in _LEFT_OUT or one != _LEFT_OUT[name]
    }


def _value(value: Any) -> object:
    match value:
        case Form():
            return value.opcode
        case Matrix():
            return {"operand": value.operand, "shape": value.shape.name, "type": value.type.name}
        case Place() | Word() | Turn() | SharedTile():
            return _row(value)
        case Assign() | If() | Repeat() | Leave():
            return {"statement": type(value).__name__, **_row(value)}
        case StepBase():
            form = value.instruction
            name = _named(value.action) if form is None else _name(form)
            return {"step": name, **_row(value)}
        case tuple():
            return [_value(one) for one in value]
    return value


def _name(form: Form) -> str:
    return _INSTRUCTIONS.get(form.mnemonic, form.mnemonic)


def _named(action: str) -> str:
    """Return what a step that is no instruction is called: "LoadRegisters" of load_registers."""
    return action.title().replace("_", "")


_Kind = tuple[Callable[..., Any], Mapping[str, Any], Collection[str]]
_KINDS: dict[str, dict[str, _Kind]] = {"step": {}, "statement": {}}
"""By name: what makes a row, the types of its fields, and which of them may be left out."""


class _Matrix(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    operand: Literal["a", "b", "c", "d"]
    shape: str
    type: str


def _rows(value: object, word: str, depth: int = 0) -> tuple[Any, ...]:
    """Return the steps or the statements of a list."""
    if depth > MAX_NESTING + 1 + MAX_DEPTH:  # a program's own checks bound each of the two
        raise UsageError(f"its {word}s are nested more than {MAX_NESTING + 1 + MAX_DEPTH} deep")
    made = []
    for row in msgspec.convert(value, list[dict[str, Any]]):
        name = str(row.pop(word, None))
        make, told, optional = _KINDS[word].get(name, (None, {}, ()))
        if make is None or not told.keys() - {*optional} <= row.keys() <= told.keys():
            raise UsageError(f"no {word} {name!r:.40} has the fields {', '.join(row):.200}")
        made.append(make(**{key: _field(told[key], given, depth) for key, given in row.items()}))
    return tuple(made)


def _field(hint: Any, value: Any, depth: int) -> object:
    if hint == tuple[Step, ...]:
        return _rows(value, "step", depth + 1)
    if hint == tuple[Statement, ...]:
        return _rows(value, "statement", depth + 1)
    if isinstance(hint, str):
        return form_of(msgspec.convert(value, str), hint)
    if hint == Uniform:  # of several classes, msgspec takes none
        hint = Turn if isinstance(value, dict) and "asks" in value else int | Word
    if hint is Matrix:
        given = msgspec.convert(value, _Matrix)
        if given.shape not in SHAPES:
            raise UsageError(f"there is no matrix of shape {given.shape!r:.40}")
        type_ = format_named(given.type)
        return Matrix(operand=given.operand, shape=SHAPES[given.shape], type=type_)
    return msgspec.convert(value, hint)


def _fields_of(row: type[Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the types of a row's fields, and the names of those that may be left out."""
    hints = get_type_hints(row)
    found = {one.name: hints[one.name] for one in fields(row)}
    return found, [name for name in found if hasattr(row, name)]


def _add_all() -> None:
    for instruction in INSTRUCTIONS.values():
        if instruction.warps > 1:
            if instruction.forms[0].is_product:
                told, optional = _fields_of(AsyncProduct)
                told["form"] = instruction.mnemonic
                _KINDS["step"][instruction.mnemonic] = AsyncProduct, told, optional
            continue
        # The fields of its memory are among its own.
        form = instruction.forms[0]
        access = memory_of(form)
        memory, optional = _fields_of(access) if access else ({}, [])
        told = {"form": instruction.mnemonic}
        told |= {name: str for name, *_ in operands_of(form)} | memory
        told |= {"address": int | None} if form.is_load else {}
        told |= {"count": int} if is_repeated(form) else {}
        told |= {"selector": int} if "selector" in form.operands else {}
        if any(one.is_scaled for one in instruction.forms):
            told |= {"sa": str, "sb": str, "selector": int, "ids_in_registers": bool}
            optional = [*optional, "sa", "sb", "ids_in_registers"]
            optional += [] if form.has_metadata else ["selector"]
        _KINDS["step"][_name(form)] = Op.of, told, ("address", *optional)
    own, optional = _fields_of(PlainAccess)
    for name, make, other in (
        ("LoadRegisters", plain_load, ""), ("StoreRegisters", plain_store, "address"),
    ):  # fmt: skip
        left = {field: hint for field, hint in own.items() if field not in ("loads", other)}
        _KINDS["step"][name] = make, left, optional
    own, _ = _fields_of(Scalar)
    for action, row in SCALARS.items():
        names = {_STORED.get(action, {}).get(name, name): name for name in row.fields}
        told = {name: own[field] for name, field in names.items()}
        made = partial(_scalar, action, names)
        _KINDS["step"][_named(action)] = made, told, ("constant", "bits")
    steps: Sequence[type[Any]] = (
        Elementwise, LaneCode, Copy, Barrier, WarpgroupSync, Branch, Loop, OneWarp
    )  # fmt: skip
    statements: Sequence[type[Any]] = (Assign, If, Repeat, Leave)
    for word, kinds in (("step", steps), ("statement", statements)):
        for kind in kinds:
            _KINDS[word][kind.__name__] = kind, *_fields_of(kind)


def _scalar(action: str, names: Mapping[str, str], **given: Any) -> Scalar:
    return Scalar(operation=action, **{names[name]: one for name, one in given.items()})


_add_all()


_DTYPES = frozenset(
    {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}
)  # the numbers that memory and matrices are made of


def pack(array: NDArray[Any]) -> bytes:
    """Return an array of numbers as a `.npy` file, the same bytes for the same; else UsageError."""
    import numpy as np

    dtype = array.dtype.newbyteorder("<")
    if dtype.str not in _DTYPES:
        raise UsageError(
            f"an array of dtype {array.dtype} cannot be stored; allowed are numbers, such as uint8"
        )
    file = BytesIO()
    np.lib.format.write_array(file, array.astype(dtype, order="C"), version=(1, 0))
    return file.getvalue()


def unpack(entry: Entry, name: str) -> NDArray[Any]:
    """Return the array in a file of a finding; UsageError: none, InfrastructureError: broken."""
    try:
        return array_of(entry.read(name))
    except ValueError as error:
        raise InfrastructureError(f"{entry.path / name} holds no array ({error})") from None


def array_of(data: bytes) -> NDArray[Any]:
    """Return the array that `pack` wrote; raises ValueError, with the reason, for other bytes."""
    import numpy as np

    file = BytesIO(data)
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("it is no .npy file of version 1.0")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    except Exception as error:  # whatever a tokenizer says of a stranger's header
        raise ValueError(f"its header is none: {error!s:.200}") from None
    start = file.tell()
    if by_columns or dtype.str not in _DTYPES or min(shape, default=0) < 0:
        raise ValueError("its header is not that of a plain array of numbers")
    addressable = math.prod(max(1, side) for side in shape) < 1 << 48
    if not addressable or math.prod(shape) * dtype.itemsize != len(data) - start:
        raise ValueError(f"{len(data) - start} bytes are no {shape} of {dtype}")
    return np.frombuffer(data, dtype, offset=start).reshape(shape).copy()
