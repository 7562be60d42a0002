"""Names of the intrinsics by which LLVM knows matrix instructions (LLVM, IntrinsicsNVVM.td)."""

from __future__ import annotations

from oracle.isa.forms import Form

LATE_SINCE = 22
"""Stores of rows, loads of rows of elements of 8 bits and less, mma of fp8 and of the larger
shapes of f64, and multiplications with metadata or `.kind`: not in 20."""


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
    if form.rounding or ((form.kind or late) and llvm < LATE_SINCE):
        return None
    if form.kind:
        kind, stype = form.kind.replace("::", "."), form.texts["stype"]
        vector = form.texts["scale_vec"].lower().removeprefix("scale_vec::")
        if (vector, stype) == ("4x", "ue8m0"):
            return None  # not in 22
        parts = [kind.removeprefix("kind.") if form.is_scaled else kind]
        parts += [f"scale.{vector}"] if vector else []
        signature = [*parts, d, form.texts["atype"], form.texts["btype"], c]
        signature += [stype] if stype else []
    elif a in ("e4m3", "e5m2"):
        signature = [d, a, b, c]
    elif a == "f16":
        signature = [d, c]
    else:
        signature = [a] if a == b else [a, b]
    mnemonic = form.mnemonic.replace("::", ".").replace("_", ".")
    mnemonic += ".block.scale" if form.is_scaled else ""
    return ".".join(("llvm.nvvm", mnemonic, *op, shape, *layouts, *saturated, *signature))


def rows_name(form: Form, *, llvm: int) -> str | None:
    """Return the name of a load or store of rows without its pointer's suffix; None: none here."""
    if llvm < LATE_SINCE and (form.is_store or form.element_bits != 16):
        return None
    # The opcode, but for the state space, which the pointer says.
    words = [slot.text for slot in form.slots if slot.text and slot.name != "space"]
    return ".".join(("llvm.nvvm", form.mnemonic, *words))
