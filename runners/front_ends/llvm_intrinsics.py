"""The nvvm intrinsics of the matrix instructions: names, register types, and since which LLVM.

Names and types are those of LLVM's `IntrinsicsNVVM.td`; which version has which was asked of LLVM
14, 15, 20 and 22 (2026-11). Where a version has none, None is returned, and the instruction is
written as inline assembly.
"""

from __future__ import annotations

from oracle.isa.forms import Form

OPAQUE_SINCE = 16
"""First LLVM that has no typed pointers by default wherever it is embedded: LLVM 15 still reads
them, and llvmlite 0.44, which carries it, reads no others (seen 2026-11-22)."""
LATE_SINCE = 22
"""Stores of rows, loads of rows of elements of 8 bits and less, mma of fp8 and of the larger
shapes of f64, and multiplications with metadata: not in 20."""
SPACES = {"": 0, "global": 1, "shared": 3, "shared::cta": 3}
"""Address spaces of NVPTX by the spelling of a state space (LLVM, User Guide for NVPTX)."""
FRAGMENT_TYPES = {"f16": "<2 x half>", "f32": "float", "f64": "double"}
"""LLVM types of the registers of a fragment, and of an operand of mma.sync; of all other formats
`i32`."""


def register_type(format_name: str) -> str:
    """Return the LLVM type of a register that holds elements of a format."""
    return FRAGMENT_TYPES.get(format_name, "i32")


def access_name(form: Form, *, stride: bool) -> str:
    """Return the name of a wmma.load or wmma.store, without the suffix of its pointer."""
    matrix = form.matrix()
    what = "load" if form.mnemonic == "wmma.load" else "store"
    strided = ".stride" if stride else ""
    return (
        f"llvm.nvvm.wmma.{matrix.shape.name}.{what}.{matrix.operand}.{form.layout}{strided}"
        f".{matrix.type.name}"
    )


def multiply_name(form: Form, *, llvm: int) -> str | None:
    """Return the name of the intrinsic of a multiplication; None where this LLVM has none."""
    d, a, b, c = (form.matrix(operand).type.name for operand in "dabc")
    shape = form.shape.name
    op = [f"{form.op}.popc"] if form.op else []
    layouts = [form.a_layout, form.b_layout]
    saturated = ["satfinite"] if form.satfinite else []
    if form.opaque:
        rounding = [form.rounding] if form.rounding else []
        signature = [d, c] if a == "f16" else [a]
        parts = ["wmma", shape, "mma", *op, *layouts, *rounding, *signature, *saturated]
        return ".".join(("llvm.nvvm", *parts))
    late = a in ("e4m3", "e5m2") or (a == "f64" and shape != "m8n8k4") or "e" in form.operands
    if form.rounding or (late and llvm < LATE_SINCE):
        return None
    if a in ("e4m3", "e5m2"):
        signature = [d, a, b, c]
    elif a == "f16":
        signature = [d, c]
    else:
        signature = [a] if a == b else [a, b]
    mnemonic = form.mnemonic.replace("::", ".").replace("_", ".")
    return ".".join(("llvm.nvvm", mnemonic, *op, shape, *layouts, *saturated, *signature))


def rows_name(form: Form, *, llvm: int) -> str | None:
    """Return the name of a load or store of rows without its pointer's suffix; None: none here."""
    if llvm < LATE_SINCE and (form.is_store or form.element_bits != 16):
        return None
    # The opcode, but for the state space, which the pointer says.
    words = [slot.text for slot in form.slots if slot.text and slot.name != "space"]
    return ".".join(("llvm.nvvm", form.mnemonic, *words))
