"""Element-wise operations on fragments."""

from __future__ import annotations

from oracle.formats import Format
from oracle.matrices import Matrix
from oracle.operations import Operation, operations
from oracle.steps import Elementwise
from strategies.features import OF_OPERATION, Feature
from strategies.programs.building import Builder
from strategies.programs.choices import Dice
from strategies.programs.scopes import Value

_FLOATS = {
    "f16": (0x3C00, 0x4000, 0xBC00, 0x3800),
    "f32": (0x3F80_0000, 0x4000_0000, 0xBF80_0000, 0x3F00_0000),
    "f64": (0x3FF0 << 48, 0x4000 << 48, 0xBFF0 << 48, 0x3FE0 << 48),
}
"""1, 2, -1 and 1/2: constants that keep what they are applied to visible."""


def asked(builder: Builder) -> list[Operation]:
    """Return the operations that are still asked for."""
    return [operation for operation, it in OF_OPERATION.items() if it in builder.wanted]


def wants_change(builder: Builder, matrix: Matrix) -> bool:
    """Tell whether a change of such a fragment would give something that is asked for."""
    operand = (
        Feature.CHANGED_MULTIPLICAND if matrix.operand in "ab" else Feature.CHANGED_ACCUMULATOR
    )
    return operand in builder.wanted or any(one.accepts(matrix.type) for one in asked(builder))


def change(builder: Builder, value: Value, dice: Dice) -> Value:
    """Append an element-wise operation on a fragment; return what the result stands in."""
    type_ = value.matrix.type
    allowed = operations(type_)
    operation = dice.one_of(allowed)
    for one in asked(builder):
        if one in allowed:
            operation = one
            break
    builder.take(OF_OPERATION[operation])
    multiplicand = value.matrix.operand in "ab"
    builder.take(_of_operand(value.matrix))
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
        value.pending = not multiplicand
        return value
    made = Value(
        name=destination, matrix=value.matrix, layout=value.layout, depth=builder.scope.depth,
        pending=not multiplicand, region=value.region,
    )  # fmt: skip
    builder.scope.define(made)
    return made


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
