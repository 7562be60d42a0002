"""What the instructions for matrices have in common: their rows, checks and operations.

All lanes of a warp are there when one executes. Each file of such instructions has `FORMS`, the
pattern of each opcode with what decodes it; `runners.simulated.decoder` lists the files. A pattern
has the qualifiers in one order; kernels have them in others, too, which ptxas takes.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from runners.simulated.integers import Qualifiers
from runners.simulated.layouts import BITS, Elements, Layout, dimensions, gather, scatter
from runners.simulated.operands import Operands, Source
from runners.simulated.products import MultiplyUnit, Types, multiply_on
from runners.simulated.warps import DTYPES, Mask, Operation, Values, Warps

Fetch = Callable[[Warps], Elements]
"""What fetches a matrix from registers, as (rows, columns, warps)."""
Form = tuple[re.Pattern[str], Callable[[Operands, re.Match[str]], Operation]]


_NAME = re.compile(
    r"(wmma\.(?:load\.[abc]|store\.d|mma)|mma(?:\.sp(?:::ordered_metadata)?)?|[a-z]+)\.(.+)"
)
_RANKS = tuple(
    map(
        re.compile,
        (
            "sync", "aligned", r"m\d+n\d+(k\d+)?", r"x\d", "trans", "row|col",
            "global|shared(::cta)?", "r[nzmp]", "satfinite", r"(?!xor|and|popc)\w+", ".*",
        ),
    )
)  # fmt: skip


def in_order(opcode: str) -> str:
    """Return an opcode with its qualifiers in the order of the patterns.

    Those of one kind keep their order: layouts, types, and what is done with single bits.
    """
    match = _NAME.fullmatch(opcode)
    if match is None:
        return opcode
    qualifiers = match[2].split(".")
    qualifiers.sort(key=lambda one: next(i for i, rank in enumerate(_RANKS) if rank.fullmatch(one)))
    return ".".join((match[1], *qualifiers))


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

    `rows` say what there is, `missing` what is said where none has these types in this shape; of
    `q` count `op` (of single bits), `rounding` and `satfinite`.
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


def factors(
    operands: Operands, shape: str, layouts: Mapping[str, Layout], quads: int = 1
) -> Iterator[Fetch]:
    """Yield what fetches A, B and C from the registers behind those of D.

    The multiplications that a warp does lie beside each other, as more warps would.
    """
    for role, operand in zip("abc", operands.instruction.operands[1:], strict=False):
        layout = layouts[role]
        sources = operands.sources(operand, layout.count, layout.width)
        yield partial(_fetched, sources, layout, dimensions(role, shape), quads)


def _fetched(
    sources: Sequence[Source], layout: Layout, size: tuple[int, int], quads: int, warps: Warps
) -> Elements:
    elements = gather([source(warps) for source in sources], layout, warps.indices.size)
    if quads > 1:
        elements = elements.reshape(quads, *size, -1).transpose(1, 2, 0, 3)
    return elements.reshape(*size, -1)


def multiplication(
    operands: Operands,
    types: Types,
    target: Layout,
    fetches: Sequence[Fetch],
    multiply: Callable[..., Elements],
    quads: int = 1,
) -> Operation:
    """Return the operation that writes D, (rows, columns, warps), as `multiply` has it.

    That is given what is fetched: A, B and C as (rows, columns, warps), and what else there is.
    """
    names = operands.registers(operands.instruction.operands[0], target.count, target.width)
    dtype = DTYPES[max(8, BITS[types.d])]

    def compute(warps: Warps, _: Mask) -> list[Values]:
        d = multiply(*[fetch(warps) for fetch in fetches])
        if quads > 1:
            d = d.reshape(*d.shape[:2], quads, -1).transpose(2, 0, 1, 3)
        elements = d.reshape(-1, warps.indices.size).astype(dtype, copy=False)
        return scatter(elements, target)

    return writing(operands, names, compute)


def dense(
    operands: Operands,
    shape: str,
    types: Types,
    layouts: Mapping[str, Layout],
    sound: MultiplyUnit,
    quads: int = 1,
) -> Operation:
    """Return the operation that multiplies A and B, and adds C, on the device's unit."""
    multiply = partial(multiply_on, operands.unit(sound), types=types)
    fetches = tuple(factors(operands, shape, layouts, quads))
    return multiplication(operands, types, layouts["d"], fetches, multiply, quads)
