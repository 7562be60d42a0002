"""Instructions as text in the making: qualifiers in slots, operands beside them.

And the qualifiers that may stand in a slot: those of the pages, and those of other instructions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

from oracle.isa.forms import FORMATS, LANES, Form, Matrix, Vector, kind_of
from oracle.isa.lookup import FORMS, SHAPES
from oracle.isa.tables import INSTRUCTIONS


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One instruction, legal or not: qualifiers in slots, operands beside them.

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
        return next((text for name, text in self.qualifiers if name == slot), "")

    def with_qualifiers(self, texts: Mapping[str, str]) -> Draft:
        """Return the draft with other texts in every slot that is named."""
        changed = tuple((name, texts.get(name, old)) for name, old in self.qualifiers)
        return replace(self, qualifiers=changed)


REGISTER_PREFIX = {"b32": "r", "s32": "r", "f32": "f", "f64": "d"}
"""First letter of a register's name, by the type in which it is declared."""
_FIRST_REGISTERS = {"d": 0, "c": 0, "a": 16, "b": 32}
"""Number of the first register of an operand; D has the registers of C, so that few names serve
every shape."""


@lru_cache(maxsize=1024)
def vector(registers: int, register_type: str, first: int = 0) -> str:
    """Return a brace-enclosed vector of consecutive registers."""
    prefix = REGISTER_PREFIX[register_type]
    return "{" + ", ".join(f"%{prefix}{first + i}" for i in range(registers)) + "}"


def canonical(
    form: Form, *, address: str = "[%addr]", stride: str = "", selector: int = 0
) -> Draft:
    """Return the plainest instruction of a form: lowest registers, default stride."""
    texts = {"p": address, "stride": stride, "selector": f"{selector}"}
    texts |= {"to": "%r0", "from": "%r1", "e": "%r48"}
    for kind, rows in form.vectors.items():
        if kind not in texts:
            texts[kind] = vector(rows.registers, rows.register_type, _FIRST_REGISTERS.get(kind, 0))
    operands = tuple(texts[kind] for kind in form.operands if texts[kind])
    return Draft(mnemonic=form.mnemonic, qualifiers=form.slots, operands=operands)


def as_operands(
    vectors: Mapping[str, Matrix | Vector], counts: Mapping[str, int] | None = None
) -> tuple[str, ...]:
    """Return the vectors d, a, b, c of a product, each with registers of its own where it can.

    `counts` overrides the number of registers of an operand.
    """
    operands = []
    for name in "dabc":
        registers = (counts or {}).get(name, max(1, vectors[name].registers))
        operands.append(vector(registers, vectors[name].register_type, _FIRST_REGISTERS[name]))
    return tuple(operands)


_SHAPE = re.compile(r"m\d{1,3}n\d{1,3}k\d{1,3}")


def described(draft: Draft) -> dict[str, Matrix | Vector]:
    """Return the vectors that a draft's qualifiers describe, documented together or not, by matrix.

    Fragments of wmma are left out whose shape or type is not one of its page.
    """
    row = INSTRUCTIONS.get(draft.mnemonic)
    if row is None:
        return {}
    texts = {slot: draft.qualifier(slot) for slot in row.slots}
    if row.implicit_types:
        texts["atype"] = texts["atype"] or "f16"  # implicit (9.7.14.4.5)
        texts["btype"] = texts["btype"] or texts["atype"]
    types = {operand: texts.get(f"{operand}type", "") for operand in "dabc"}
    if not row.opaque:
        known = _SHAPE.fullmatch(texts["shape"]) and FORMATS.keys() >= set(types.values())
        return row.form(texts).vectors if known else {}
    shape = SHAPES.get(texts["shape"])
    if "matrix" in texts:
        types = {texts["matrix"]: texts["type"]}
    return {
        operand: Matrix(operand=operand, shape=shape, type=FORMATS[type_])
        for operand, type_ in types.items()
        if shape is not None and type_ in FORMATS and operand in ("a", "b", "c", "d")
    }


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
    for kind, operand in zip(form.operands, draft.operands, strict=False):
        match kind:
            case "p":
                pointer = operand.strip("[] ").split("+")[0].strip()
                fits = pointer == "%addr" or (pointer == "tile" and form.space.startswith("shared"))
            case "to" | "from":
                fits = operand.startswith("%r")
            case "e":
                fits = operand[:2] in ("%r", "%f")
            case "selector":
                fits = True
            case "stride":
                number = not operand[0].isalpha() and operand[0] not in "%_$"
                fits = operand == "%stride" or number
            case _:
                allowed = _ALLOWED[form.vectors[kind].register_type]
                items = [item.strip() for item in operand.strip("{}").split(",")]
                fits = all(item[:1] == "%" and item[1:2] in allowed for item in items)
        if not fits:
            return False
    return draft.predicate in ("", "%p0", "!%p0")


# What other instructions of the PTX ISA have in such a place (mma 9.7.14.5, ld 9.7.9.8,
# cvt 9.7.9.21, atom 9.7.13): the qualifiers that a compiler's tables may let through by mistake.
_FOREIGN: dict[str, tuple[str, ...]] = {
    "matrix": ("d",),
    "layout": ("trans",),
    "shape": (
        "m8n8k16", "m8n8k64", "m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m16n8k64",
        "m16n8k128", "m16n8k256", "m64n8k16", "m8n8", "m16n16", "m8n16", "m16n8",
    ),
    "space": ("local", "const", "param", "shared::cluster", "generic"),
    "type": (
        "b8", "b16", "b32", "b64", "s16", "u16", "u32", "s64", "u64", "f16x2", "bf16x2", "e4m3",
        "e5m2", "b4", "b8x16", "b6x16_p32", "b4x16_p64", "pred",
    ),
    "rnd": ("rna", "rs", "rni", "ftz"),
    "satfinite": ("sat", "relu", "satfinite.relu"),
    "op": ("or", "add", "mul", "min", "cas"),
    "popc": ("popcll", "clz"),
    "dst_fmt": ("b6x16_p32", "b16x16", "b8"),
    "src_fmt": ("b8x16", "b4x16", "b6x16", "b6p2x16", "s8"),
    "num": ("x3", "x8", "x16"),
    "sync": ("async", "cta", "nosync"),
    "aligned": ("unaligned", "weak"),
    "trans": ("notrans",),
}  # fmt: skip


@cache
def documented(kind: str) -> tuple[str, ...]:
    """Return every qualifier of a kind that stands in some documented form, in page order."""
    slots = (slot for form in FORMS for slot in form.slots if slot.text)
    return tuple(dict.fromkeys(slot.text for slot in slots if kind_of(slot.name) == kind))


@cache
def foreign(kind: str) -> tuple[str, ...]:
    """Return qualifiers of a kind that only other instructions have."""
    return tuple(text for text in _FOREIGN.get(kind, ()) if text not in documented(kind))


@cache
def tokens() -> tuple[str, ...]:
    """Return every word that token soup is made of."""
    kinds = dict.fromkeys(kind for row in INSTRUCTIONS.values() for kind in row.most)
    words = [word for kind in kinds for word in (*documented(kind), *foreign(kind))]
    heads = [part for mnemonic in INSTRUCTIONS for part in mnemonic.split(".")]
    return tuple(dict.fromkeys((*heads, *words, "", "::", "v4", "x", "0")))
