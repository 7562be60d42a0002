"""Programs of a finding as JSON, and its arrays as `.npy` files: the same bytes for the same."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, get_type_hints

import msgspec
from numpy.typing import NDArray

from corpus.entry import Entry
from oracle.errors import InfrastructureError, UsageError
from oracle.formats import format_named
from oracle.forms import Form
from oracle.instructions import INSTRUCTIONS
from oracle.instructions.row import Instruction
from oracle.isa import SHAPES, form_of
from oracle.lane_code import MAX_DEPTH, Assign, If, LaneCode, Leave, Repeat, Statement
from oracle.matrices import Matrix
from oracle.operands import StepBase
from oracle.operations import Operation
from oracle.ops import Op, is_repeated, memory_of, operands_of
from oracle.places import Buffer, Place, Uniform, Word
from oracle.program import Program
from oracle.steps import (
    MAX_NESTING,
    SCALARS,
    Barrier,
    Branch,
    Copy,
    Elementwise,
    Loop,
    PlainAccess,
    Scalar,
    Step,
    plain_load,
    plain_store,
)

_INSTRUCTIONS = {
    "wmma.load": "Load", "wmma.mma": "Multiply", "wmma.store": "Store", "ldmatrix": "LoadRows",
    "stmatrix": "StoreRows", "mma": "MultiplyLanes", "movmatrix": "TransposeRegisters",
}  # fmt: skip
"""Names in files of steps with these mnemonics; others have their mnemonic."""
_STORED = {"set_registers": {"destination": "registers"}}
"""What fields of a step are called in a file where it is not as in the step, by its action."""
_FORMAT = 1
"""Version of what is written here."""
_LEFT_OUT = ("address", "computed")
"""Fields that are left out where they are None or empty: programs without them keep their bytes,
by which findings are named."""
_BYTES = 1 << 20
"""Most bytes of a program's file: a step takes about 400, and a program has at most
`oracle.program.MAX_WORK`."""


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

    Every field is checked for its type before anything is made of it; what it may hold, and how
    large a program may be, the rows of `oracle` say. Raises InfrastructureError if it is none. A
    message names the file `source`.
    """
    try:
        if len(data) > _BYTES:
            raise UsageError(f"it has {len(data)} bytes; at most {_BYTES} are read")
        document = _object(msgspec.json.decode(data))
        if document.get("format") != _FORMAT:
            raise UsageError(
                f"its format is {document.get('format')!r:.80}, and {_FORMAT} is known here"
            )
        return Program(
            buffers=tuple(_made(_BUFFER, row) for row in _listed(document.get("buffers"))),
            steps=_steps(document.get("steps"), 0),
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError) as error:
        raise InfrastructureError(
            f"{source} describes no program ({error!s:.300}); restore it from a backup, or read it "
            "with the version of warpfuzz that wrote it"
        ) from error


def _row(value: Any) -> dict[str, object]:
    if isinstance(value, StepBase):
        stored = _STORED.get(value.action, {})
        fields = {stored.get(name, name): one for name, one in value.fields.items()}
    else:
        fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return {
        name: _value(one)
        for name, one in fields.items()
        if one not in (None, ()) or name not in _LEFT_OUT
    }


def _step(step: StepBase) -> dict[str, object]:
    form = step.instruction
    return {"step": _named(step.action) if form is None else _name(form), **_row(step)}


def _name(form: Form) -> str:
    return _INSTRUCTIONS.get(form.mnemonic, form.mnemonic)


def _named(action: str) -> str:
    """Return what a step that is no instruction is called: "LoadRegisters" of load_registers."""
    return action.title().replace("_", "")


def _value(value: Any) -> object:
    if isinstance(value, Form):
        return value.opcode
    if isinstance(value, Matrix):
        return {"operand": value.operand, "shape": value.shape.name, "type": value.type.name}
    if isinstance(value, Place | Word):
        return _row(value)
    if isinstance(value, Statement):
        return {"statement": type(value).__name__, **_row(value)}
    if isinstance(value, tuple) and any(isinstance(one, Statement) for one in value):
        return [_value(one) for one in value]
    if isinstance(value, tuple):
        return [_step(one) if isinstance(one, StepBase) else one for one in value]
    return value


def _steps(value: object, depth: int) -> tuple[Step, ...]:
    if depth > MAX_NESTING:
        raise UsageError(f"its steps are nested more than {MAX_NESTING} deep")
    return tuple(_made_step(_object(row), depth) for row in _listed(value))


def _statements(value: object, depth: int) -> tuple[Statement, ...]:
    # The statements of a step are one deeper than the step.
    if depth > MAX_NESTING + 1 + MAX_DEPTH:
        raise UsageError(f"its statements are nested more than {MAX_DEPTH} deep")
    return tuple(_statement(_object(row), depth) for row in _listed(value))


def _statement(row: dict[str, object], depth: int) -> Statement:
    kind = _STATEMENTS.get(str(row.get("statement")))
    if kind is None:
        raise UsageError(f"there is no statement {row.get('statement')!r:.80}")
    made: Statement = _made(kind, {k: v for k, v in row.items() if k != "statement"}, depth)
    return made


def _operand(value: object) -> str | int:
    return value if isinstance(value, str) else int(_whole(value))


def _made_step(row: dict[str, object], depth: int) -> Step:
    kind = _STEPS.get(str(row.get("step")))
    if kind is None:
        raise UsageError(f"there is no step {row.get('step')!r:.80}")
    made: Step = _made(kind, {k: v for k, v in row.items() if k != "step"}, depth)
    return made


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """How a row of `oracle` is made from its fields."""

    name: str
    make: Callable[..., Any]
    fields: Mapping[str, Any]
    """Their types; of a form, its mnemonic."""
    optional: Collection[str]


def _made(kind: _Kind, value: object, depth: int = 0) -> Any:
    row = _object(value)
    for name in row:
        if name not in kind.fields:
            raise UsageError(f"{kind.name} has no field {name!r:.80}")
    try:
        made = {name: _field(kind.fields[name], one, depth) for name, one in row.items()}
    except UsageError as error:
        raise UsageError(f"{kind.name}: {error}") from None
    missing = [name for name in kind.fields if name not in made and name not in kind.optional]
    if missing:
        raise UsageError(f"{kind.name} lacks its field {missing[0]}")
    return kind.make(**made)


def _field(hint: Any, value: object, depth: int) -> object:
    if hint == tuple[Step, ...]:
        return _steps(value, depth + 1)
    if hint == tuple[Statement, ...]:
        return _statements(value, depth + 1)
    if hint == Uniform:
        return _made(_WORD, value) if isinstance(value, dict) else _whole(value)
    return form_of(_text(value), hint) if isinstance(hint, str) else _FIELDS[hint](value)


def _kind(row: type[Any]) -> _Kind:
    fields = get_type_hints(row)
    fields = {name: fields[name] for name in row.__dataclass_fields__}
    optional = [name for name in fields if hasattr(row, name)]
    return _Kind(name=row.__name__, make=row, fields=fields, optional=optional)


def _op_kind(row: Instruction) -> _Kind:
    """Return how the step of an instruction is made, its memory's fields among its own."""
    form = row.forms[0]
    access = memory_of(form)
    memory = _kind(access) if access else None
    fields: dict[str, Any] = {"form": row.mnemonic}
    fields |= {name: str for name, *_ in operands_of(form)}
    fields |= memory.fields if memory else {}
    fields |= {"address": int | None} if form.is_load else {}
    fields |= {"count": int} if is_repeated(form) else {}
    fields |= {"selector": int} if "selector" in form.operands else {}
    optional = {"address", *(memory.optional if memory else ())}
    return _Kind(name=_name(form), make=Op.of, fields=fields, optional=optional)


def _plain_kind(make: partial[PlainAccess]) -> _Kind:
    own, loads = _kind(PlainAccess), make.keywords["loads"]
    left_out = {"loads", "lanes" if loads else "address"}
    fields = {name: hint for name, hint in own.fields.items() if name not in left_out}
    name = _named("load_registers" if loads else "store_registers")
    return _Kind(name=name, make=make, fields=fields, optional=own.optional)


def _scalar_kind(action: str) -> _Kind:
    own, stored = _kind(Scalar), _STORED.get(action, {})
    names = {stored.get(name, name): name for name in SCALARS[action].fields}

    def made(**given: Any) -> Scalar:
        return Scalar(operation=action, **{names[name]: one for name, one in given.items()})

    fields = {name: own.fields[field] for name, field in names.items()}
    return _Kind(name=_named(action), make=made, fields=fields, optional=("constant", "bits"))


def _exactly(kind: type, name: str) -> Callable[[object], Any]:
    def checked(value: object) -> Any:
        if type(value) is not kind:
            raise UsageError(f"{value!r:.80} is no {name}")
        return value

    return checked


_whole = _exactly(int, "whole number")
_text = _exactly(str, "text")
_object: Callable[[object], dict[str, Any]] = _exactly(dict, "object")
_listed: Callable[[object], list[Any]] = _exactly(list, "list")


def _matrix(value: object) -> Matrix:
    row = _object(value)
    operand, shape, type_ = (_text(row.get(name)) for name in ("operand", "shape", "type"))
    if shape not in SHAPES or operand not in ("a", "b", "c", "d"):
        raise UsageError(f"there is no matrix {operand!r:.40} of shape {shape!r:.40}")
    return Matrix(operand=operand, shape=SHAPES[shape], type=format_named(type_))


def _operation(value: object) -> Operation:
    try:
        return Operation(_text(value))
    except ValueError:
        raise UsageError(f"there is no operation {value!r:.80}") from None


_FIELDS: dict[Any, Callable[[Any], object]] = {
    int: _whole,
    int | None: lambda value: None if value is None else _whole(value),
    str: _text,
    bool: _exactly(bool, "truth value"),
    tuple[int, ...]: lambda value: tuple(map(_whole, _listed(value))),
    tuple[str, ...]: lambda value: tuple(map(_text, _listed(value))),
    str | int: _operand,
    tuple[str | int, ...]: lambda value: tuple(map(_operand, _listed(value))),
    Place: lambda value: _made(_PLACE, value),
    Matrix: _matrix,
    Operation: _operation,
}
"""How a value is made, by the type that a field of a row declares."""
_BUFFER = _kind(Buffer)
_PLACE: _Kind = _kind(Place)
_WORD = _kind(Word)
_KINDS = [
    *map(_op_kind, INSTRUCTIONS.values()),
    *map(_plain_kind, (plain_load, plain_store)),
    *map(_scalar_kind, SCALARS),
    *map(
        _kind,
        (
            Elementwise, LaneCode, Copy, Barrier, Branch, Loop,
        ),
    ),
]  # fmt: skip
_STATEMENTS = {kind.name: kind for kind in map(_kind, (Assign, If, Repeat, Leave))}
"""How statements of code of lanes are made."""
_STEPS = {kind.name: kind for kind in _KINDS}
"""How steps are made, by what they are called in a file."""


# The `.npy` format, version 1.0 (NumPy reference, numpy.lib.format): magic, version, the length
# of the header in two bytes, and a Python literal padded by spaces to a multiple of 64 bytes.
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([|<][a-z][0-9]{1,2})', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,9}(?:, [0-9]{1,9}){1,7}|[0-9]{1,9},)?)\), \} *\n"
)
_DTYPES = frozenset(
    {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}
)
"""The numbers that memory and matrices are made of."""


def pack(array: NDArray[Any]) -> bytes:
    """Return an array as the contents of a `.npy` file.

    A `.npy` file holds shape, dtype and the bare bytes in row-major order, and no time and no
    compressor's choices as a `.npz` file does. Raises UsageError if its elements are no integers,
    floats or truth values. Memory images are uint8 (images, bytes).
    """
    dtype = array.dtype.newbyteorder("<")
    if dtype.str not in _DTYPES:
        raise UsageError(
            f"an array of dtype {array.dtype} cannot be stored; allowed are numbers, such as uint8"
        )
    header = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {array.shape}, }}"
    ending = -(len(_MAGIC) + 2 + len(header) + 1) % 64 * " " + "\n"
    text = (header + ending).encode()
    return _MAGIC + struct.pack("<H", len(text)) + text + array.astype(dtype).tobytes()


def unpack(entry: Entry, name: str) -> NDArray[Any]:
    """Return the array in one of a finding's `.npy` files, as `pack` writes them and not others.

    Raises UsageError if the finding has no file of this name, and InfrastructureError if it is
    missing, was changed, or holds no array.
    """
    try:
        return array_of(entry.read(name))
    except ValueError as error:
        raise InfrastructureError(
            f"{entry.path / name} holds no array ({error}); read it as bytes, or store arrays with "
            "corpus.programs.pack"
        ) from None


def array_of(data: bytes) -> NDArray[Any]:
    """Return the array that `pack` wrote; raises ValueError, with the reason, for other bytes."""
    import numpy as np

    length = int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 2], "little")
    start = len(_MAGIC) + 2 + length
    header = _HEADER.fullmatch(data[len(_MAGIC) + 2 : start])
    if not data.startswith(_MAGIC) or header is None or header[1].decode() not in _DTYPES:
        raise ValueError("its header is not that of a plain array of numbers")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(side) for side in header[2].split(b",") if side)
    addressable = math.prod(max(1, side) for side in shape) < 1 << 48
    if not addressable or math.prod(shape) * dtype.itemsize != len(data) - start:
        raise ValueError(f"{len(data) - start} bytes are no {shape} of {dtype}")
    return np.frombuffer(data, dtype, offset=start).reshape(shape).copy()
