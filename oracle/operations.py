"""Operations that treat every element of a fragment alike, and the types that have them."""

from __future__ import annotations

from enum import StrEnum

from oracle.formats import Format, Kind


class Operation(StrEnum):
    """Operations that treat every element of a fragment alike (9.7.14.4.1).

    Each is one instruction per register, its constant replicated. NEGATE and ABSOLUTE of floats
    flip and clear the sign bit (`xor`, `and`), as PTX leaves the NaN that `neg` and `abs` return
    open.
    """

    COPY = "copy"
    NEGATE = "negate"
    ABSOLUTE = "absolute"
    MULTIPLY = "multiply"
    """By the constant; `mul.rn` of f16x2, f32 and f64, `mul.lo.s32`."""
    ADD = "add"
    """The constant; `add.rn` of f16x2, f32 and f64, `add.s32`."""
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"

    @property
    def takes_constant(self) -> bool:
        """Whether the operation has a constant operand."""
        return self in _WITH_CONSTANT

    def accepts(self, type_: Format) -> bool:
        """Whether the operation is defined on fragments of this element type.

        Arithmetic on what registers compute in, bits where they are untyped or integers. ABSOLUTE
        of s32 is left out: PTX does not say what it makes of -2^31.
        """
        match self:
            case Operation.COPY:
                return True
            case Operation.NEGATE:
                return type_.is_float or type_.name == "s32"
            case Operation.ABSOLUTE:
                return type_.is_float
            case Operation.MULTIPLY | Operation.ADD:
                return type_.name in ("f16", "f32", "f64", "s32")
            case _:
                return type_.kind is not Kind.FLOAT


_WITH_CONSTANT = frozenset(
    {Operation.MULTIPLY, Operation.ADD, Operation.AND, Operation.OR, Operation.XOR}
)


def operations(type_: Format) -> tuple[Operation, ...]:
    """Return the element-wise operations on fragments of this element type."""
    return tuple(operation for operation in Operation if operation.accepts(type_))
