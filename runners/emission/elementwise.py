"""Uniform operations on fragments: one instruction per register (9.7.14.4.1)."""

from __future__ import annotations

from oracle.formats import Format
from oracle.matrices import replicated
from oracle.operations import Operation
from oracle.steps import Elementwise
from runners.emission.body import Body

_ARITHMETIC = {
    # `.rn` is written out: without it a compiler may contract mul and add into fma
    # (PTX ISA, Floating Point Instructions: add, mul).
    ("f16", Operation.MULTIPLY): "mul.rn.f16x2",
    ("f16", Operation.ADD): "add.rn.f16x2",
    ("f32", Operation.MULTIPLY): "mul.rn.f32",
    ("f32", Operation.ADD): "add.rn.f32",
    ("f64", Operation.MULTIPLY): "mul.rn.f64",
    ("f64", Operation.ADD): "add.rn.f64",
    ("s32", Operation.MULTIPLY): "mul.lo.s32",
    ("s32", Operation.ADD): "add.s32",
    ("s32", Operation.NEGATE): "neg.s32",
}


def elementwise(body: Body, step: Elementwise) -> str:
    """Return the instruction of an element-wise operation, with places for its two registers.

    A constant is put into a register before it.
    """
    bits = step.matrix.register_bits
    opcode, constant = _instruction(step, bits)
    operand = ""
    if constant is not None:
        # A register takes any bit pattern, NaN with its payload too.
        register = body.scratch(f"b{bits}")
        body.add(f"mov.b{bits} {register}, {constant:#x}")
        operand = f", {register}"
    return f"{opcode} {{}}, {{}}{operand}"


def _instruction(step: Elementwise, bits: int) -> tuple[str, int | None]:
    """Return the opcode and the constant as a register of `bits` bits holds it."""
    type_, operation = step.matrix.type, step.operation
    constant = replicated(step.constant, type_.bits, bits) if operation.takes_constant else None
    if (type_.name, operation) in _ARITHMETIC:
        return _ARITHMETIC[type_.name, operation], constant
    match operation:
        case Operation.COPY:
            return f"mov.b{bits}", None
        case Operation.NEGATE:
            return f"xor.b{bits}", signs(type_, bits)
        case Operation.ABSOLUTE:
            return f"and.b{bits}", signs(type_, bits) ^ ((1 << bits) - 1)
        case _:
            return f"{operation}.b{bits}", constant


def signs(type_: Format, bits: int) -> int:
    """Return the sign bits of a float's elements in a register."""
    return replicated(1 << (type_.bits - 1), type_.bits, bits)
