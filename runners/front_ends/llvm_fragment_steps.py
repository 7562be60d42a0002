"""The steps on fragments of wmma as LLVM IR: loads, stores, multiplications, element by element."""

from __future__ import annotations

from oracle.formats import Format
from oracle.operations import Operation
from oracle.steps import Elementwise, Load, Multiply, Store
from runners.emission.elementwise import replicated
from runners.front_ends.llvm_intrinsics import SPACES, access_name, multiply_name
from runners.front_ends.llvm_text import LlvmText, held_type, signed


def write_load(out: LlvmText, step: Load) -> None:
    """Append a wmma.load."""
    (use,) = step.uses
    space = SPACES[step.form.space]
    arguments = [out.address(step.place, space=space), *_stride(out, step)]
    name = access_name(step.form, stride=step.stride is not None) + out.overload(space)
    out.keep(use, out.call(out.result(use), name, *arguments))


def write_store(out: LlvmText, step: Store) -> None:
    """Append a wmma.store."""
    (use,) = step.uses
    space = SPACES[step.form.space]
    pointer = out.address(step.place, space=space)
    name = access_name(step.form, stride=step.stride is not None) + out.overload(space)
    out.call("void", name, pointer, *out.values(use), *_stride(out, step))


def _stride(out: LlvmText, step: Load | Store) -> list[tuple[str, str]]:
    if step.stride is None:
        return []
    if not step.stride_in_register:
        return [("i32", str(signed(step.stride, 32)))]
    return [("i32", out.assembly("i32", "mov", str(step.stride)))]


def write_multiply(out: LlvmText, step: Multiply) -> None:
    """Append a wmma.mma."""
    d, *rest = step.uses
    arguments = [value for use in rest for value in out.values(use)]
    out.keep(d, out.call(out.result(d), multiply_name(step.form), *arguments))


def write_elementwise(out: LlvmText, step: Elementwise) -> None:
    """Append an operation on each register of a fragment."""
    source, destination = step.uses
    type_ = held_type(destination)
    values = [_element(out, step, type_, value) for _, value in out.values(source)]
    out.fill(destination, values)


def _element(out: LlvmText, step: Elementwise, type_: str, value: str) -> str:
    format_, operation = step.matrix.type, step.operation
    bits = 64 if type_ == "double" else 32
    integer = f"i{bits}"
    mask = (1 << bits) - 1
    constant = replicated(step.constant, format_.bits, bits)
    if operation is Operation.COPY:
        return value
    if operation in (Operation.MULTIPLY, Operation.ADD):
        word = "mul" if operation is Operation.MULTIPLY else "add"
        if type_ == "i32":
            return out.value(f"{word} i32 {value}, {signed(constant, 32)}")
        # Hidden from LLVM: it takes x * 1 for x, and `mul` and `add` return another NaN than x.
        hidden = out.assembly(integer, "mov", hex(constant))
        number = out.cast(integer, hidden, type_)
        return out.value(f"f{word} {type_} {value}, {number}")
    if operation is Operation.NEGATE and type_ == "i32" and not format_.is_float:
        return out.value(f"sub i32 0, {value}")
    word, operand = {
        Operation.NEGATE: ("xor", _signs(format_, bits)),
        Operation.ABSOLUTE: ("and", mask ^ _signs(format_, bits)),
        Operation.NOT: ("xor", mask),
    }.get(operation, (str(operation), constant))
    raw = out.cast(type_, value, integer)
    if format_.is_float and operation in (Operation.NEGATE, Operation.ABSOLUTE):
        # LLVM takes masks of the sign for `neg` and `abs`, whose NaN PTX leaves open.
        changed = out.assembly(integer, word, hex(operand), raw)
    else:
        changed = out.value(f"{word} {integer} {raw}, {signed(operand, bits)}")
    return out.cast(integer, changed, type_)


def _signs(format_: Format, bits: int) -> int:
    """Return the sign bits of a float's elements in a register."""
    return replicated(1 << (format_.bits - 1), format_.bits, bits)
