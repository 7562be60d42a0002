"""What the instructions for matrices have in common: their rows, checks and operations.

All lanes of a warp are there when one executes. Each file of such instructions has `FORMS`, the
pattern of each opcode with what decodes it; `runners.simulated.decoder` lists the files.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from runners.simulated.integers import Qualifiers
from runners.simulated.layouts import BITS, Elements, Layout, dimensions, gather, scatter
from runners.simulated.operands import Operands
from runners.simulated.products import MultiplyUnit, Types, multiply_on
from runners.simulated.warps import DTYPES, Mask, Operation, Values, Warps

Form = tuple[re.Pattern[str], Callable[[Operands, re.Match[str]], Operation]]


class Multiplicands(NamedTuple):
    """Types of A and B that go together, and what an instruction can do with them."""

    types: str
    """With blanks between."""
    shapes: Mapping[str, int]
    """The architecture that each shape needs."""
    results: str
    """Types of D and C, as `f32.f16`, with blanks between."""
    any_order: bool = False
    """A and B may be stored either way; else A is row-major and B column-major."""


def check_product(
    operands: Operands,
    rows: Sequence[Multiplicands],
    shape: str,
    types: Types,
    orders: tuple[str, str],
    q: Qualifiers,
    missing: str = "this combination of qualifiers is not known",
) -> None:
    """Refuse qualifiers that do not go together, and those that the target has not.

    Parameters
    ----------
    operands
        The instruction's.
    rows
        What there is.
    shape, types, orders
        What the opcode says.
    q
        Its `op` (of single bits), `rounding` and `satfinite`, as far as they stand there.
    missing
        What is said where no row has these types of A and B in this shape.
    """
    for row in rows:
        if {types.a, types.b} <= set(row.types.split()) and shape in row.shapes:
            break
    else:
        operands.unsupported(missing)
    if (
        f"{types.d}.{types.c}" not in row.results.split()
        or not (row.any_order or orders == ("row", "col"))
        or (q["rounding"] and types.a != "f64")
        or (q["satfinite"] and (types.c != "s32" or types.a == "b1"))
        or bool(q["op"]) != (types.a == "b1")
    ):
        operands.unsupported("this combination of qualifiers is not known")
    operands.need(max(row.shapes[shape], 80 if q["op"] == "and" else 0))


def writing(
    operands: Operands,
    names: Sequence[str],
    compute: Callable[[Warps, Mask], list[Values]],
) -> Operation:
    """Return the operation that writes what is computed for whole warps to registers."""
    corrupt = operands.silicon.corruption(operands.instruction.opcode)

    def execute(warps: Warps, mask: Mask) -> None:
        mask = warps.whole(mask)
        words = compute(warps, mask)
        if corrupt is not None:
            words = corrupt(words, warps.site())
        for name, word in zip(names, words, strict=True):
            warps.write(name, word, mask)

    return execute


def multiplication(
    operands: Operands,
    shape: str,
    types: Types,
    layouts: Mapping[str, Layout],
    sound: MultiplyUnit,
    quads: int = 1,
) -> Operation:
    """Return the operation that multiplies what registers hold.

    Parameters
    ----------
    operands
        The instruction's: D, A, B and C.
    shape, types
        What the opcode says.
    layouts
        Of `a`, `b`, `c` and `d` in their registers.
    sound
        The unit that computes it.
    quads
        Multiplications that a warp does; they lie beside each other, as more warps would.
    """
    target, *given = operands.instruction.operands
    names = operands.registers(target, layouts["d"].count, layouts["d"].width)
    sources = {
        role: operands.sources(operand, layouts[role].count, layouts[role].width)
        for operand, role in zip(given, "abc", strict=True)
    }
    unit = operands.unit(sound)
    dtype = DTYPES[max(8, BITS[types.d])]

    def fetch(warps: Warps, role: str) -> Elements:
        words = [source(warps) for source in sources[role]]
        elements = gather(words, layouts[role], warps.indices.size)
        rows, columns = dimensions(role, shape)
        parts = elements.reshape(quads, rows, columns, -1).transpose(1, 2, 0, 3)
        return parts.reshape(rows, columns, -1)

    def compute(warps: Warps, _: Mask) -> list[Values]:
        a, b, c = (fetch(warps, role) for role in "abc")
        d = multiply_on(unit, a, b, c, types)
        parts = d.reshape(*d.shape[:2], quads, -1).transpose(2, 0, 1, 3)
        elements = parts.reshape(-1, warps.indices.size).astype(dtype, copy=False)
        return scatter(elements, layouts["d"])

    return writing(operands, names, compute)
