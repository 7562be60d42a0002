"""Element-wise operations on fragments."""

from __future__ import annotations

from oracle.formats import Format
from oracle.matrices import Matrix
from oracle.operations import Operation, operations
from oracle.steps import Elementwise
from strategies.features import OF_OPERATION, Feature
from strategies.programs.builder import Builder, Dice
from strategies.programs.live_values import LiveValue

_FLOATS = {
    "f16": (0x3C00, 0x4000, 0xBC00, 0x3800),
    "f32": (0x3F80_0000, 0x4000_0000, 0xBF80_0000, 0x3F00_0000),
    "f64": (0x3FF0 << 48, 0x4000 << 48, 0xBFF0 << 48, 0x3FE0 << 48),
}
"""1, 2, -1 and 1/2: constants that keep what they are applied to visible."""


def asked_operations(builder: Builder) -> list[Operation]:
    """Return the operations that are still asked for."""
    return [operation for operation, it in OF_OPERATION.items() if it in builder.wanted]


def wants_change(builder: Builder, matrix: Matrix) -> bool:
    """Tell whether a change of such a fragment would give something that is asked for."""
    asked = asked_operations(builder)
    return _of_operand(matrix) in builder.wanted or any(one.accepts(matrix.type) for one in asked)


def change(builder: Builder, value: LiveValue, dice: Dice) -> LiveValue:
    """Append an element-wise operation on a fragment; return what the result stands in."""
    type_ = value.matrix.type
    allowed = operations(type_)
    drawn = dice.one_of(allowed)
    operation = next((one for one in asked_operations(builder) if one in allowed), drawn)
    builder.take(OF_OPERATION[operation], _of_operand(value.matrix))
    pending = value.matrix.operand == "c"
    elsewhere = dice.once_in(4)
    destination = builder.name(value.name.rstrip("0123456789")) if elsewhere else value.name
    constant = _constant(operation, type_, dice)
    builder.add(
        Elementwise(
            operation=operation, matrix=value.matrix, source=value.name, destination=destination,
            constant=constant,
        )
    )  # fmt: skip
    if not elsewhere:
        value.pending = pending
        return value
    return builder.define(destination, value.holds, pending=pending, region=value.region)


def _of_operand(matrix: Matrix) -> Feature:
    multiplicand = matrix.operand in "ab"
    return Feature.CHANGED_MULTIPLICAND if multiplicand else Feature.CHANGED_ACCUMULATOR


def _constant(operation: Operation, type_: Format, dice: Dice) -> int:
    """Return a constant that seldom makes all elements the same."""
    if not operation.takes_constant:
        return 0
    ones = (1 << type_.bits) - 1
    drawn = dice.below(1 << min(type_.bits, 32)) * ((1 << type_.bits) // (1 << min(type_.bits, 32)))
    if operation in (Operation.MULTIPLY, Operation.ADD):
        plain = _FLOATS.get(type_.name, (1, 3, ones, 2))
        return dice.one_of((*plain, drawn))
    return dice.one_of((ones if operation is Operation.AND else 1, drawn & ones))
