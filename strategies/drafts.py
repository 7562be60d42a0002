"""Instructions as text in the making: qualifiers in slots, operands beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from oracle.formats import FORMATS, Format
from oracle.forms import Form
from oracle.instructions import INSTRUCTIONS
from oracle.matrices import LANES, SHAPES, Matrix, Shape, Vector


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One instruction, legal or not.

    Register names tell their declared type: `%r0` is .b32, `%f0` .f32, `%d0` .f64, `%h0` .b16,
    `%p0` .pred, `%addr` a 64-bit address, `%stride` .b32; `tile` is a variable in shared memory.
    """

    mnemonic: str
    qualifiers: tuple[tuple[str, str], ...]
    """(name of the slot, text) in the order of writing; an empty text is left out."""
    operands: tuple[str, ...]
    predicate: str = ""

    @cached_property
    def opcode(self) -> str:
        """Mnemonic and qualifiers."""
        return ".".join((self.mnemonic, *(text for _, text in self.qualifiers if text)))

    @cached_property
    def text(self) -> str:
        """The whole instruction, with its semicolon."""
        guard = f"@{self.predicate} " if self.predicate else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)};"

    def qualifier(self, slot: str) -> str:
        """Return what stands in a slot, "" if nothing."""
        for name, text in self.qualifiers:
            if name == slot:
                return text
        return ""

    def with_qualifiers(self, texts: Mapping[str, str]) -> Draft:
        """Return the draft with other texts in every slot that is named."""
        changed = tuple((name, texts.get(name, old)) for name, old in self.qualifiers)
        return replace(self, qualifiers=changed)


REGISTER_PREFIX = {"b32": "r", "s32": "r", "f32": "f", "f64": "d"}
"""First letter of a register's name, by the type in which it is declared."""


@lru_cache(maxsize=1024)
def vector(registers: int, register_type: str, first: int = 0) -> str:
    """Return a brace-enclosed vector of consecutive registers."""
    prefix = REGISTER_PREFIX[register_type]
    return "{" + ", ".join(f"%{prefix}{first + i}" for i in range(registers)) + "}"


def canonical(form: Form, *, address: str = "[%addr]", stride: str = "") -> Draft:
    """Return the plainest instruction of a form: lowest registers, default stride."""
    return Draft(
        mnemonic=form.mnemonic,
        qualifiers=form.slots,
        operands=_operands(form, address, stride),
    )


_FIRST_REGISTERS = {"d": 0, "c": 0, "a": 16, "b": 32}
"""Number of the first register of an operand; D has the registers of C, so that few names serve
every shape."""


def _operands(form: Form, address: str, stride: str) -> tuple[str, ...]:
    texts = {"p": address, "stride": stride, "to": "%r0", "from": "%r1"}
    for kind, rows in form.vectors.items():
        texts[kind] = vector(rows.registers, rows.register_type, _FIRST_REGISTERS.get(kind, 0))
    kinds = INSTRUCTIONS[form.mnemonic].operands
    return tuple(texts[kind] for kind in kinds if texts[kind])


def matrices_as_operands(
    matrices: dict[str, Matrix], counts: dict[str, int] | None = None
) -> tuple[str, ...]:
    """Return the vectors d, a, b, c of a wmma.mma, each with registers of its own where it can.

    `counts` overrides the number of registers of an operand.
    """
    operands = []
    for name in "dabc":
        matrix = matrices[name]
        registers = (counts or {}).get(name, max(1, matrix.registers))
        operands.append(vector(registers, matrix.register_type, _FIRST_REGISTERS[name]))
    return tuple(operands)


def draft_matrices(draft: Draft) -> dict[str, Matrix]:
    """Return the matrices that a draft's qualifiers describe, documented together or not.

    Operands whose shape or type is not one of the wmma page are left out.
    """
    shape = SHAPES.get(draft.qualifier("shape"))
    if shape is None:
        return {}
    if draft.mnemonic != "wmma.mma":
        return _matrix(draft.qualifier("matrix"), shape, draft.qualifier("type"))
    multiplicand = draft.qualifier("atype") or "f16"  # implicit (9.7.14.4.5)
    types = {
        "d": draft.qualifier("dtype"),
        "a": multiplicand,
        "b": draft.qualifier("btype") or multiplicand,
        "c": draft.qualifier("ctype"),
    }
    return {name: matrix for o, t in types.items() for name, matrix in _matrix(o, shape, t).items()}


def draft_lane_vectors(draft: Draft) -> dict[str, Vector]:
    """Return the registers of the fragments that a draft of mma describes, documented or not.

    {} if its shape is none or a type is no element format.
    """
    row = INSTRUCTIONS.get(draft.mnemonic)
    if row is None or row.opaque or not _SHAPE.fullmatch(draft.qualifier("shape")):
        return {}
    texts = {slot: draft.qualifier(slot) for slot in row.slots}
    if any(texts.get(f"{operand}type") not in FORMATS for operand in "dabc"):
        return {}
    form = row.form(texts)
    return {operand: form.vector(operand) for operand in "dabc"}


def vectors_as_operands(vectors: dict[str, Vector]) -> tuple[str, ...]:
    """Return the vectors d, a, b, c of a mma, as `matrices_as_operands` does."""
    return tuple(
        vector(max(1, row.registers), row.register_type, _FIRST_REGISTERS[name])
        for name, row in vectors.items()
    )


_SHAPE = re.compile(r"m(\d{1,3})n(\d{1,3})k(\d{1,3})")


def _matrix(operand: str, shape: Shape, type_name: str) -> dict[str, Matrix]:
    type_: Format | None = FORMATS.get(type_name)
    if type_ is None or operand not in ("a", "b", "c", "d"):
        return {}
    return {operand: Matrix(operand=operand, shape=shape, type=type_)}


def dealt_once(matrix: Matrix) -> int:
    """Return the registers of a fragment that holds each element exactly once (at least one)."""
    bits = matrix.rows * matrix.columns * matrix.type.bits
    return max(1, bits // (LANES * matrix.register_bits))


_ALLOWED = {"b32": "r", "s32": "r", "f32": "rf", "f64": "d"}
"""Prefixes of registers that fit a fragment: a .b32 register holds any 32-bit type."""


def fits_declarations(draft: Draft, form: Form) -> bool:
    """Tell whether the operands of a legal instruction are declared as the instruction needs.

    The oracle judges text without declarations. An assembler sees them, and may well refuse
    `%h0` (.b16) where 32 bits are loaded; that is no disagreement.
    """
    vectors = {kind: _ALLOWED[rows.register_type] for kind, rows in form.vectors.items()}
    kinds = INSTRUCTIONS[form.mnemonic].operands
    shared = form.space.startswith("shared")
    for kind, operand in zip(kinds, draft.operands, strict=False):
        if kind == "p":
            pointer = operand.strip("[] ").split("+")[0].strip()
            fits = pointer == "%addr" or (pointer == "tile" and shared)
        elif kind in ("to", "from"):
            fits = operand.startswith("%r")
        elif kind == "stride":
            fits = operand == "%stride" or (not operand[0].isalpha() and operand[0] not in "%_$")
        else:
            items = [item.strip() for item in operand.strip("{}").split(",")]
            fits = all(item[:1] == "%" and item[1:2] in vectors[kind] for item in items)
        if not fits:
            return False
    return draft.predicate in ("", "%p0", "!%p0")
