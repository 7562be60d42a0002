"""Instructions for matrices: what they have in common, wmma (PTX ISA 9.7.14.4) and mma.sync (.5).

All lanes of a warp are there when one executes. Each file of such instructions has `FORMS`, the
pattern of each opcode with what decodes it; `runners.simulated.decoder` lists the files. A pattern
has the qualifiers in one order; kernels have them in others, too, which ptxas takes.

What the units of sm_90 do for mma.sync was measured on an H200 (November 2026): f16, bf16 and tf32
are blocks of as many products as one instruction has, tf32 too; e4m3 and e5m2 are unpacked to f16,
added up in two blocks, from zero, and meet C behind that (sm_89 and sm_120 have a unit for them);
m8n8k4 of f16 is scalar arithmetic in f32, but on sm_70 and sm_75, which have a unit for it. Other
architectures are given the same with their own blocks.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from runners.simulated.access import space_named
from runners.simulated.fused import NAMED, Rounding, is_nan
from runners.simulated.integers import Qualifiers
from runners.simulated.layouts import (
    BITS,
    QUADS,
    Elements,
    Layout,
    dimensions,
    documented_layout,
    gather,
    opaque_layout,
    scatter,
)
from runners.simulated.memory import Addresses
from runners.simulated.operands import FromRegister, OperandReader, Source
from runners.simulated.products import ProductTypes, multiply_on
from runners.simulated.silicon import (
    BitOperation,
    BitUnit,
    Chip,
    FragmentUnit,
    IntegerUnit,
    MultiplyUnit,
    QuadUnit,
    TransferUnit,
)
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.warps import (
    DTYPES,
    Mask,
    Operation,
    Values,
    WarpState,
    constant,
    read_runs,
    write_runs,
)

Fetch = Callable[[WarpState], Elements]
"""What fetches a matrix from registers, as (rows, columns, warps)."""
Form = tuple[re.Pattern[str], Callable[[OperandReader, re.Match[str]], Operation]]

_NAME = re.compile(
    r"(wmma\.(?:load\.[abc]|store\.d|mma)|mma(?:\.sp(?:::ordered_metadata)?)?|[a-z]+)\.(.+)"
)
_RANKS = [
    re.compile(text)
    for text in (
        *("sync", "aligned", r"m\d+n\d+(k\d+)?", r"x\d", "trans", "row|col"),
        *("global|shared(::cta)?", "r[nzmp]", "satfinite", r"(?!xor|and|popc)\w+", ".*"),
    )
]


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
    """Types of A and B that go together, and what an instruction can do with them.

    Types, and types of D and C as `f32.f16`, with blanks between; the architecture that each shape
    needs. In `any_order`, A and B may be stored either way; else A is row-major, B column-major.
    """

    types: str
    shapes: Mapping[str, int]
    results: str
    any_order: bool = False


def check_product(
    operands: OperandReader, rows: Sequence[Multiplicands], types: ProductTypes,
    orders: tuple[str, str],
    q: Qualifiers,
) -> None:  # fmt: skip
    """Refuse qualifiers that do not go together, and those that the target has not.

    `rows` say what there is; of `q` count `shape`, `op` (of single bits), `rounding` and
    `satfinite`.
    """
    for row in rows:
        if {types.a, types.b} <= set(row.types.split()) and q["shape"] in row.shapes:
            break
    else:
        operands.unsupported("no such shape and types are known")
    if (
        f"{types.d}.{types.c}" not in row.results.split()
        or not (row.any_order or orders == ("row", "col"))
        or (q["rounding"] and types.a != "f64")
        or (q["satfinite"] and (types.c != "s32" or types.a == "b1"))
        or bool(q["op"]) != (types.a == "b1")
    ):
        operands.unsupported("this combination of qualifiers is not known")
    operands.need(max(row.shapes[q["shape"]], 80 if q["op"] == "and" else 0))


def writing(
    operands: OperandReader,
    names: Sequence[str],
    compute: Callable[[WarpState, Mask], list[Values]],
) -> Operation:
    """Return the operation that writes what is computed for whole warps to registers."""
    corrupt = operands.silicon.corruption(operands.instruction.opcode)

    def execute(warps: WarpState, mask: Mask) -> None:
        mask = warps.whole(mask)
        words = compute(warps, mask)
        if corrupt is not None:
            words = corrupt(words, warps.site())
        for name, word in zip(names, words, strict=True):
            warps.write(name, word, mask)

    return execute


def factors(
    operands: OperandReader, shape: str, layouts: Mapping[str, Layout], quads: int = 1
) -> Iterator[Fetch]:
    """Yield what fetches A, B and C from the registers behind those of D.

    The multiplications that a warp does lie beside each other, as more warps would.
    """
    for role, operand in zip("abc", operands.instruction.operands[1:], strict=False):
        layout = layouts[role]
        sources = operands.sources(operand, layout.count, layout.width)
        yield partial(_fetched, sources, layout, dimensions(role, shape), quads)


def _fetched(
    sources: Sequence[Source], layout: Layout, size: tuple[int, int], quads: int, warps: WarpState
) -> Elements:
    elements = gather([source(warps) for source in sources], layout, warps.indices.size)
    if quads > 1:
        elements = elements.reshape(quads, *size, -1).transpose(1, 2, 0, 3)
    return elements.reshape(*size, -1)


def multiplication(
    operands: OperandReader, types: ProductTypes, target: Layout, fetches: Sequence[Fetch],
    multiply: Callable[..., Elements], quads: int = 1,
) -> Operation:  # fmt: skip
    """Return the operation that writes D, (rows, columns, warps), as `multiply` has it.

    That is given what is fetched: A, B and C as (rows, columns, warps), and what else there is.
    """
    names = operands.registers(operands.instruction.operands[0], target.count, target.width)
    dtype = DTYPES[max(8, BITS[types.d])]

    def compute(warps: WarpState, _: Mask) -> list[Values]:
        d = multiply(*[fetch(warps) for fetch in fetches])
        if quads > 1:
            d = d.reshape(*d.shape[:2], quads, -1).transpose(2, 0, 1, 3)
        elements = d.reshape(-1, warps.indices.size).astype(dtype, copy=False)
        return scatter(elements, target)

    return writing(operands, names, compute)


def product_unit(
    chip: Chip, types: ProductTypes, q: Qualifiers, k: int | None = None
) -> MultiplyUnit:
    """Return the unit for these types, with what the qualifiers of an opcode say.

    Of mma.sync, `k` says how many products are in each sum.
    """
    if types.a == "b1":
        return BitUnit(operation=BitOperation(q["op"]))
    if types.a == "f64":
        return replace(chip.doubles, rounding=Rounding(q["rounding"] or "rn"))
    if types.c == "s32":
        signed_a, signed_b = types.a[0] == "s", types.b[0] == "s"
        return IntegerUnit(
            signed_a=signed_a, signed_b=signed_b, saturating=bool(q["satfinite"])
        )  # fmt: skip
    name = ".".join(types)
    if k is not None and types.a in ("e4m3", "e5m2") and name not in chip.floats:
        unit, late = chip.floats[f"{types.d}.f16.f16.{types.c}"], Rounding.NEAREST_EVEN
        return replace(unit, block=k // 2, run=2, accumulator_last=True, addition=late)
    unit = chip.floats[name]
    if k is not None and types.a == "tf32":
        # wmma's is cut in two by the HMMA.1684 that it is made of; this one is not.
        return replace(unit, block=max(unit.block, chip.floats["f32.f16.f16.f32"].block // 2))
    return unit


def _dense(
    operands: OperandReader, shape: str, types: ProductTypes, layouts: Mapping[str, Layout],
    sound: MultiplyUnit, quads: int = 1,
) -> Operation:  # fmt: skip
    """Return the operation that multiplies A and B, and adds C, on the device's unit."""
    multiply = partial(multiply_on, operands.unit(sound), types=types)
    fetches = tuple(factors(operands, shape, layouts, quads))
    return multiplication(operands, types, layouts["d"], fetches, multiply, quads)


# The tables of 9.7.14.5, and Target ISA Notes of .14.
_QUADS = Multiplicands("f16", {"m8n8k4": 70}, "f16.f16 f32.f32 f32.f16", any_order=True)
_MMA_ROWS = (
    _QUADS,
    Multiplicands("f16", {"m16n8k8": 75, "m16n8k16": 80}, "f16.f16 f32.f32"),
    Multiplicands("bf16", {"m16n8k8": 80, "m16n8k16": 80}, "f32.f32"),
    Multiplicands("tf32", {"m16n8k4": 80, "m16n8k8": 80}, "f32.f32"),
    Multiplicands("e4m3 e5m2", {"m16n8k16": 89, "m16n8k32": 89}, "f16.f16 f32.f32"),
    Multiplicands("f64", {"m8n8k4": 80, "m16n8k4": 90, "m16n8k8": 90, "m16n8k16": 90}, "f64.f64"),
    Multiplicands("s8 u8", {"m8n8k16": 75, "m16n8k16": 80, "m16n8k32": 80}, "s32.s32"),
    Multiplicands("s4 u4", {"m8n8k32": 75, "m16n8k32": 80, "m16n8k64": 80}, "s32.s32"),
    Multiplicands("b1", {"m8n8k128": 75, "m16n8k128": 80, "m16n8k256": 80}, "s32.s32"),
)


def _mma_sync(operands: OperandReader, match: re.Match[str]) -> Operation:
    operands.expect(4)
    q = Qualifiers(match.groupdict(""))
    shape, orders, quads = q["shape"], (q["a_order"], q["b_order"]), 1
    types = ProductTypes(*match.group("d", "a", "b", "c"))
    check_product(operands, _MMA_ROWS, types, orders, q)
    chip, k = operands.silicon.chip, int(shape.rpartition("k")[2])
    if types.a == _QUADS.types and shape in _QUADS.shapes:
        native, quads = chip.quads.get(".".join(types)), QUADS
        sound: MultiplyUnit = native or QuadUnit(pairs=types.c == types.d == "f16")
    else:
        sound = product_unit(chip, types, q, k)
    wires = operands.unit(FragmentUnit())
    layouts = {
        role: documented_layout(role, shape, getattr(types, role), order, wires, quads)
        for role, order in zip("abcd", (*orders, "row", "row"), strict=True)
    }
    return _dense(operands, shape, types, layouts, sound, quads)


_WIDE = ("m16n16k16", "m8n32k16", "m32n8k16")
# The tables of 9.7.14.4.1 and .5, and Target ISA Notes of .3 to .5.
_WMMA_ROWS = (
    Multiplicands("f16", dict.fromkeys(_WIDE, 70), "f16.f16 f16.f32 f32.f16 f32.f32", True),
    Multiplicands("bf16", dict.fromkeys(_WIDE, 80), "f32.f32", True),
    Multiplicands("tf32", {"m16n16k8": 80}, "f32.f32", True),
    Multiplicands("f64", {"m8n8k4": 80}, "f64.f64", True),
    *(Multiplicands(kind, dict.fromkeys(_WIDE, 72), "s32.s32", True) for kind in ("s8", "u8")),
    *(Multiplicands(kind, {"m8n8k32": 75}, "s32.s32") for kind in ("s4", "u4")),
    Multiplicands("b1", {"m8n8k128": 75}, "s32.s32"),
)
# Bytes that a base address and the start of each row must be multiples of, by the bits of an
# element. Measured on an H200: for .f16 a base that is a multiple of 4 works and one of 2 traps,
# odd strides run; for .s8 rows that are multiples of 2 trap. The rest is inferred: 32- and 64-bit
# elements as any load of theirs, narrower ones as .s8. (The ISA asks for the whole fragment's
# size, which its own default strides break.)
_ALIGNMENT = {1: (4, 4), 4: (4, 4), 8: (4, 4), 16: (4, 2), 32: (4, 4), 64: (8, 8)}


def _check_aligned(operands: OperandReader, q: Qualifiers) -> None:
    if not q["aligned"] and operands.frame.version >= (6, 3):  # 9.7.14.4.3, PTX ISA Notes
        refuse(TrapKind.ILLEGAL, operands.line, ".aligned is required from PTX ISA 6.3")


def fragment_architecture(role: str, shape: str, kind: str) -> int | None:
    """Return the lowest architecture that has a fragment; None if the ISA knows no such fragment.

    Of `c` and `d` the results say which there are, and the multiplicands in which shapes.
    """
    return min(
        (
            row.shapes[shape]
            for row in _WMMA_ROWS
            if shape in row.shapes
            and kind in (row.types if role in "ab" else row.results.replace(".", " ")).split()
        ),
        default=None,
    )


def _transfer(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Decode wmma.load and wmma.store: `count` instances of the leading dimension, of a `run`."""
    first, second, *stride = operands.expect(2, 3)
    q = Qualifiers(match.groupdict(""))
    role, shape, kind, order = q["role"], q["shape"], q["type"], q["order"]
    needed = fragment_architecture(role, shape, kind)
    if needed is None:
        operands.unsupported(f"no fragment of {role} exists for {shape} and {kind}")
    if role in "ab" and BITS[kind] < 8 and order != {"a": "row", "b": "col"}[role]:
        operands.unsupported("4-bit and single-bit A is row-major and B column-major")
    operands.need(needed)
    _check_aligned(operands, q)
    by_rows, (rows, columns) = order == "row", dimensions(role, shape)
    count, run = (rows, columns) if by_rows else (columns, rows)
    space = space_named(q["space"])
    layout = opaque_layout(role, shape, kind, order, operands.silicon.layout_seed)
    bits, unit = layout.bits, operands.unit(TransferUnit())
    place, given = (first, second) if role == "d" else (second, first)
    names: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    if role == "d":
        sources = operands.sources(given, layout.count, layout.width)
    else:
        names = operands.registers(given, layout.count, layout.width)
    # A stride counts elements, by default those of an instance (9.7.14.4.2).
    step = operands.source(stride[0], 32) if stride else FromRegister((run, 32))
    address = operands.address(place, space)
    numbers = np.arange(count, dtype=np.uint64)[:, None]
    if unit.swapped_pair:
        numbers[[0, 1]] = numbers[[1, 0]]
    whole, row = _ALIGNMENT[bits]
    key = step.key if isinstance(step, FromRegister) else ""

    def offsets(step: Values) -> Addresses:  # of 4 and 1 bit, 2 and 8 lie in a byte
        found: Addresses = numbers * (step.astype(np.uint64) * np.uint64(bits)) >> np.uint64(3)
        return found

    fixed = offsets(constant(*key)) if isinstance(key, tuple) else None

    def starts(warps: WarpState, mask: Mask) -> Addresses:
        """Return (instances, warps or 1) addresses; trap on what the hardware does not move."""
        base = warps.uniform(address(warps), "the address", mask)
        moved = fixed
        if moved is None:
            moved = offsets(warps.uniform(step(warps), "the stride", mask))
        found: Addresses = base + moved
        if int(np.bitwise_or.reduce(found, axis=None)) & (max(whole, row) - 1):
            warps.check_alignment(base, whole, mask)
            warps.check_alignment(found, row, mask)
        return found

    def quieted(elements: Elements) -> Elements:
        binary = NAMED.get(kind)
        if not unit.quieting or binary is None:
            return elements
        quiet = elements.dtype.type(1 << (binary.fraction + binary.unused - 1))
        return np.where(is_nan(elements, binary), elements | quiet, elements)

    def load(warps: WarpState, mask: Mask) -> list[Values]:
        width = max(8, bits) // 8
        runs = read_runs(warps, space, starts(warps, mask), run * bits // (8 * width), width, mask)
        if unit.missing:
            runs[-unit.missing :] = 0
        if bits < 8:
            shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
            runs = (runs[:, :, None] >> shifts & np.uint8((1 << bits) - 1)).reshape(count, run, -1)
        ordered = runs if by_rows else runs.swapaxes(0, 1)
        return scatter(quieted(ordered.reshape(-1, runs.shape[-1])), layout)

    def store(warps: WarpState, mask: Mask) -> None:
        mask = warps.whole(mask)
        begins = starts(warps, mask)
        elements = gather([source(warps) for source in sources], layout, warps.indices.size)
        runs = quieted(elements).reshape(rows, columns, -1)
        kept = count - unit.missing
        runs = runs if by_rows else runs.swapaxes(0, 1)
        write_runs(warps, space, begins[:kept], runs[:kept], mask)

    return store if role == "d" else writing(operands, names, load)


def _wmma(operands: OperandReader, match: re.Match[str]) -> Operation:
    operands.expect(4)
    q = Qualifiers(match.groupdict(""))
    given = q["types"][1:].split(".")
    if len(given) == 2:
        given[1:1] = ["f16", "f16"]
    elif len(given) != 4 or given[1] == "f16":
        operands.unsupported(f"types {q['types']} are not known")
    types, orders, seed = ProductTypes(*given), (q["a"], q["b"]), operands.silicon.layout_seed
    check_product(operands, _WMMA_ROWS, types, orders, q)
    _check_aligned(operands, q)
    layouts = {
        role: opaque_layout(role, q["shape"], getattr(types, role), order, seed)
        for role, order in zip("abcd", (*orders, "row", "row"), strict=True)
    }
    sound = product_unit(operands.silicon.chip, types, q)
    return _dense(operands, q["shape"], types, layouts, sound)


_SHAPE = r"\.sync(?P<aligned>\.aligned)?\.(?P<shape>m\d+n\d+k\d+)"
_WHERE = r"\.(?P<order>row|col)(?:\.(?P<space>global|shared(?:::cta)?))?\.(?P<type>\w+)"
_ROUNDING = r"(?:\.(?P<rounding>rn|rz|rm|rp))?(?P<satfinite>\.satfinite)?"
FORMS: tuple[Form, ...] = tuple(
    (re.compile(pattern), decode)
    for pattern, decode in (
        (rf"wmma\.(?:load\.(?P<role>[abc])){_SHAPE}{_WHERE}", _transfer),
        (rf"wmma\.store\.(?P<role>d){_SHAPE}{_WHERE}", _transfer),
        (
            rf"wmma\.mma{_SHAPE}\.(?P<a>row|col)\.(?P<b>row|col){_ROUNDING}(?P<types>(?:\.(?:f16"
            r"|bf16|tf32|f32|f64|[us][48]|b1|s32))+)(?:\.(?P<op>xor|and)\.popc)?",
            _wmma,
        ),
        (
            r"mma\.sync\.aligned\.(?P<shape>m\d+n\d+k\d+)\.(?P<a_order>row|col)\."
            rf"(?P<b_order>row|col){_ROUNDING}\.(?P<d>\w+)\.(?P<a>\w+)\.(?P<b>\w+)\.(?P<c>\w+)"
            r"(?:\.(?P<op>xor|and)\.popc)?",
            _mma_sync,
        ),
    )
)
