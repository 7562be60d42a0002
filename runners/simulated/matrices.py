"""Instructions for matrices: wmma (PTX ISA 9.7.14.4), mma.sync (.5) and mma.sp (.6).

All lanes of a warp are there when one executes. Each file of such instructions has `FORMS`, what
decodes each opcode with its pattern; `runners.simulated.decoder` lists the files. A pattern has the
qualifiers in one order; kernels have them in others, too, which ptxas takes.

What the units of sm_90 do for mma.sync was measured on an H200 (November 2026): f16, bf16 and tf32
are blocks of as many products as one instruction has, tf32 too; e4m3 and e5m2 are unpacked to f16,
added up in two blocks, from zero, and meet C behind that (sm_89 and sm_120 have a unit for them);
m8n8k4 of f16 is scalar arithmetic in f32, but on sm_70 and sm_75, which have a unit for it. For
mma.sp the products of chosen elements are added as those of mma.sync, and every index of metadata
that the ISA leaves undefined chooses for itself. Other architectures are given the same with their
own blocks.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runners.simulated.access import Form, space_named, stopping, writing
from runners.simulated.fused import NAMED, Rounding, is_nan
from runners.simulated.operands import FromRegister, OperandReader, Source
from runners.simulated.products import ProductTypes, multiply_on
from runners.simulated.scalar import Qualifiers
from runners.simulated.scaled import multiply_scaled, scale_sources
from runners.simulated.silicon import (
    BITS,
    QUADS,
    SCALED,
    BitOperation,
    BitUnit,
    Chip,
    Elements,
    FloatUnit,
    FragmentUnit,
    IntegerUnit,
    Layout,
    MultiplyUnit,
    QuadUnit,
    SparseUnit,
    TransferUnit,
    dimensions,
    documented_layout,
    gather,
    opaque_layout,
    scatter,
)
from runners.simulated.syntax import ImmediateText, TrapKind, refuse
from runners.simulated.warps import (
    DTYPES,
    LANES,
    Addresses,
    Mask,
    Operation,
    Values,
    WarpState,
    constant,
    read_runs,
    spread,
    write_runs,
)

Indices = tuple[NDArray[np.int64], NDArray[np.uint32]]
"""Where the indices of metadata stand, (16 rows, indices of a row): lanes, and bits below."""

_NAME = re.compile(
    r"(wmma\.(?:load\.[abc]|store\.d|mma)|mma(?:\.sp(?:::ordered_metadata)?)?|[a-z]+)\.(.+)"
)
_RANKS = [
    re.compile(text)
    for text in (
        *("sync", "aligned", r"m\d+n\d+(k\d+)?", r"x\d", "trans", "row|col"),
        *("global|shared(::cta)?", "r[nzmp]", "satfinite", r"kind::\w+", "block_scale"),
        *(r"scale_vec::\w+", r"(?!xor|and|popc)\w+", ".*"),
    )
]


def in_order(opcode: str) -> str:
    """Return an opcode with its qualifiers in the order of the patterns, those of a kind in theirs.

    So ptxas reads them, in any order.
    """
    match = _NAME.fullmatch(opcode)
    if match is None:
        return opcode
    qualifiers = match[2].split(".")
    qualifiers.sort(key=lambda q: next(i for i, rank in enumerate(_RANKS) if rank.fullmatch(q)))
    return ".".join((match[1], *qualifiers))


class Multiplicands(NamedTuple):
    """Types of A and B that go together, and what an instruction can do with them."""

    types: str  # with blanks between
    shapes: Mapping[str, int]  # and the architecture that each needs
    results: str  # types of D and C as `f32.f16`, with blanks between
    any_order: bool = False  # A and B may be stored either way; else A by rows, B by columns


_WIDE = ("m16n16k16", "m8n32k16", "m32n8k16")
_PRODUCTS = {
    # The tables of 9.7.14.4.1 and .5, and Target ISA Notes of .3 to .5.
    "wmma": (
        Multiplicands("f16", dict.fromkeys(_WIDE, 70), "f16.f16 f16.f32 f32.f16 f32.f32", True),
        Multiplicands("bf16", dict.fromkeys(_WIDE, 80), "f32.f32", True),
        Multiplicands("tf32", {"m16n16k8": 80}, "f32.f32", True),
        Multiplicands("f64", {"m8n8k4": 80}, "f64.f64", True),
        *(Multiplicands(kind, dict.fromkeys(_WIDE, 72), "s32.s32", True) for kind in ("s8", "u8")),
        *(Multiplicands(kind, {"m8n8k32": 75}, "s32.s32") for kind in ("s4", "u4")),
        Multiplicands("b1", {"m8n8k128": 75}, "s32.s32"),
    ),
    # The tables of 9.7.14.5, and Target ISA Notes of .14.
    "mma": (
        Multiplicands("f16", {"m8n8k4": 70}, "f16.f16 f32.f32 f32.f16", True),
        Multiplicands("f16", {"m16n8k8": 75, "m16n8k16": 80}, "f16.f16 f32.f32"),
        Multiplicands("bf16", {"m16n8k8": 80, "m16n8k16": 80}, "f32.f32"),
        Multiplicands("tf32", {"m16n8k4": 80, "m16n8k8": 80}, "f32.f32"),
        Multiplicands("e4m3 e5m2", {"m16n8k16": 89, "m16n8k32": 89}, "f16.f16 f32.f32"),
        Multiplicands("f64", {"m8n8k4": 80, **dict.fromkeys(
            ("m16n8k4", "m16n8k8", "m16n8k16"), 90)}, "f64.f64"),
        Multiplicands("s8 u8", {"m8n8k16": 75, "m16n8k16": 80, "m16n8k32": 80}, "s32.s32"),
        Multiplicands("s4 u4", {"m8n8k32": 75, "m16n8k32": 80, "m16n8k64": 80}, "s32.s32"),
        Multiplicands("b1", {"m8n8k128": 75, "m16n8k128": 80, "m16n8k256": 80}, "s32.s32"),
    ),
    # The tables of 9.7.14.6, and Target ISA Notes of mma.sp; an f16 result of 8-bit floats is
    # refused for sm_90 by ptxas 13.0.
    "mma.sp": (
        Multiplicands("f16", {"m16n8k16": 80, "m16n8k32": 80}, "f16.f16 f32.f32"),
        Multiplicands("bf16", {"m16n8k16": 80, "m16n8k32": 80}, "f32.f32"),
        Multiplicands("tf32", {"m16n8k8": 80, "m16n8k16": 80}, "f32.f32"),
        Multiplicands("e4m3 e5m2", {"m16n8k64": 89}, "f32.f32"),
        Multiplicands("s8 u8", {"m16n8k32": 80, "m16n8k64": 80}, "s32.s32"),
        Multiplicands("s4 u4", {"m16n8k64": 80, "m16n8k128": 80}, "s32.s32"),
    ),
}  # fmt: skip
_NARROW = "e4m3 e5m2 e3m2 e2m3 e2m1"
# Syntax and Target ISA Notes of 9.7.14.5.14 and .6.3; of mma.sp, K is twice as large.
_CLASSES = {
    "kind::f8f6f4": Multiplicands(_NARROW, {"m16n8k32": 120}, "f16.f16 f32.f32"),
    "kind::mxf8f6f4": Multiplicands(_NARROW, {"m16n8k32": 120}, "f32.f32"),
    "kind::mxf4": Multiplicands("packed e2m1", {"m16n8k64": 120}, "f32.f32"),
    "kind::mxf4nvf4": Multiplicands("packed e2m1", {"m16n8k64": 120}, "f32.f32"),
}
# Table 36 of 9.7.14.3: scales of a row or column, and their format.
_SCALINGS = {
    "kind::mxf8f6f4": {("1", "ue8m0"), ("", "ue8m0")},
    "kind::mxf4": {("2", "ue8m0"), ("", "ue8m0")},
    "kind::mxf4nvf4": {("2", "ue8m0"), ("4", "ue8m0"), ("4", "ue4m3")},
}


def _unit_of(chip: Chip, types: ProductTypes, q: Qualifiers, k: int | None) -> MultiplyUnit:
    """Return the unit for these types and qualifiers; of mma.sync, for sums of `k` products."""
    if q["scaled"]:
        return chip.floats["f32.f16.f16.f32"]  # whose sums are rounded alike
    if types.a == "b1":
        return BitUnit(operation=BitOperation(q["op"]))
    if types.a == "f64":
        return replace(chip.doubles, rounding=Rounding(q["rounding"] or "rn"))
    if types.c == "s32":
        a, b = (kind[0] == "s" for kind in (types.a, types.b))
        return IntegerUnit(signed_a=a, signed_b=b, saturating=bool(q["satfinite"]))
    name = ".".join(types)
    if k is not None and types.a in ("e4m3", "e5m2") and name not in chip.floats:
        unit, late = chip.floats[f"{types.d}.f16.f16.{types.c}"], Rounding.NEAREST_EVEN
        return replace(unit, block=k // 2, run=2, accumulator_last=True, addition=late)
    unit = chip.floats[name]
    if k is not None and types.a == "tf32":
        # wmma's is cut in two by the HMMA.1684 that it is made of; this one is not.
        return replace(unit, block=max(unit.block, chip.floats["f32.f16.f16.f32"].block // 2))
    return unit


def _narrow(
    operands: OperandReader, q: Qualifiers, types: ProductTypes
) -> tuple[ProductTypes, Multiplicands]:
    """Return types and row of a multiplication with a `.kind`; of some, e2m1 lie packed."""
    name, sparse, target = q["class"], q["kind"] == "mma.sp", operands.silicon.target
    row, scalings = _CLASSES[name], _SCALINGS.get(name, {("", "")})
    if "packed e2m1" in row.types:
        types = types._replace(**{of: f"packed {getattr(types, of)}" for of in ("a", "b")})
    known = {*row.types.split(" ")} | {row.types}
    shape = f"m16n8k{int(q['shape'].rpartition('k')[2]) // (2 if sparse else 1)}"
    if not ({types.a, types.b} <= known and shape in row.shapes and q["op"] == q["rounding"] == ""):
        operands.unsupported("no such shape and types are known")
    if (q["vec"], q["stype"]) not in scalings or bool(q["scaled"]) != (name in _SCALINGS):
        operands.unsupported("no such scales are known")
    if sparse and "ordered" not in operands.instruction.opcode:
        operands.unsupported("its metadata are ordered (mma.sp::ordered_metadata)")
    # Of mma.sp the packed ones are left out of sm_120f (9.7.14.6.3, Target ISA Notes).
    suffixes = "a" if sparse and "packed e2m1" in row.types else "af"
    if target.architecture not in (120, 121) or target.suffix not in [*suffixes]:
        operands.lacks(" or ".join(f"sm_120{suffix}" for suffix in suffixes))
    return types, row


def _product(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Decode a multiplication: A, B and C from their registers, and D to its own."""
    q = Qualifiers(str, match.groupdict(""))
    kind, shape, orders = q["kind"], q["shape"], (q["a_order"] or "row", q["b_order"] or "col")
    given = operands.expect((6 if kind == "mma.sp" else 4) + 4 * bool(q["scaled"]))
    listed = q["types"][1:].split(".")
    if kind == "wmma" and len(listed) == 2:
        listed[1:1] = ["f16", "f16"]
    elif len(listed) != 4 or (kind == "wmma" and listed[1] == "f16"):
        operands.unsupported(f"types {q['types']} are not known")
    types = ProductTypes(*listed)
    if q["class"]:
        types, row = _narrow(operands, q, types)
    else:
        for row in _PRODUCTS[kind]:
            if {types.a, types.b} <= set(row.types.split()) and shape in row.shapes:
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
    operands.need(max(row.shapes.get(shape, 0), 80 if q["op"] == "and" else 0))
    chip, k, quads = operands.silicon.chip, int(shape.rpartition("k")[2]), 1
    shapes = dict.fromkeys("abcd", shape)
    wires = FragmentUnit()
    if kind == "wmma":
        _check_aligned(operands, q)
        layout_of = partial(opaque_layout, seed=operands.silicon.layout_seed)
        sound = _unit_of(chip, types, q, None)
    elif kind == "mma" and row.any_order:
        quads = QUADS
        layout_of = partial(documented_layout, unit=operands.unit(FragmentUnit()), quads=quads)
        sound = chip.quads.get(".".join(types)) or QuadUnit(pairs=types.c == types.d == "f16")
    else:
        if kind == "mma.sp":
            k //= 2
            shapes["a"] = f"m16n8k{k}"
        wires = operands.unit(SparseUnit() if kind == "mma.sp" else FragmentUnit())
        layout_of = partial(documented_layout, unit=wires)
        sound = _unit_of(chip, types, q, k)
    layouts = {
        role: layout_of(role, shapes[role], getattr(types, role), order)
        for role, order in zip("abcd", (*orders, "row", "row"), strict=True)
    }
    fetches: list[Callable[[WarpState, Mask], Elements]] = [
        partial(
            _fetched, operands.sources(operand, layouts[role].count, layouts[role].width),
            layouts[role], dimensions(role, shapes[role]), quads,
        )
        for role, operand in zip("abc", given[1:4], strict=True)
    ]  # fmt: skip
    if wires.low_in_container:
        low = {of: "packed e2m1" for of in ("a", "b") if getattr(types, of) == "e2m1"}
        types = types._replace(**low)
    unit = operands.unit(sound)
    multiply: Callable[..., Elements] = partial(multiply_on, unit, types=types)
    scaled: Callable[..., Values] | None = None
    if q["scaled"]:
        scaling = operands.unit(SCALED[q["class"]])
        blocks = int(q["vec"] or (2 if q["class"] == "kind::mxf4" else 1))
        assert isinstance(unit, FloatUnit)
        multiply = scaled = partial(multiply_scaled, scaling, unit, types, q["stype"])
        fetches += scale_sources(operands, given[-4:], blocks, scaling)
    if kind == "mma.sp":
        metadata, traps, indices = _metadata(operands, match[0], types, k)
        if traps:
            return stopping("mma.sp of f16 with selector 2 or 3 is illegal there")
        fetches.append(lambda warps, _: spread(metadata(warps), (LANES, warps.indices.size)))
        multiply = partial(
            multiply_sparse, types, indices, operands.unit(SparseUnit()), unit, scaled
        )
    target, dtype = layouts["d"], DTYPES[max(8, BITS[types.d])]

    def compute(warps: WarpState, mask: Mask) -> list[Values]:
        d = multiply(*[fetch(warps, mask) for fetch in fetches])
        if quads > 1:
            d = d.reshape(*d.shape[:2], quads, -1).transpose(2, 0, 1, 3)
        elements = d.reshape(-1, warps.indices.size).astype(dtype, copy=False)
        return scatter(elements, target)

    return writing(operands, operands.registers(given[0], target.count, target.width), compute)


def _fetched(
    sources: Sequence[Source], layout: Layout, size: tuple[int, int], quads: int, warps: WarpState,
    _: Mask,
) -> Elements:  # fmt: skip
    """Fetch a matrix as (rows, columns, warps); of several in a warp, as of more warps."""
    elements = gather([source(warps) for source in sources], layout, warps.indices.size)
    if quads > 1:
        elements = elements.reshape(quads, *size, -1).transpose(1, 2, 0, 3)
    return elements.reshape(*size, -1)


# mma.sp: A holds, of each few neighbours along K, only those that its metadata name (9.7.14.6).

_INDICES_A_LANE = 16
"""Of 2 bits each in the 32 of a lane's metadata; two of them choose among four places. Four lanes
hold the same rows of A."""
_TRAPPING = re.compile(r"m16n8k32\.row\.col\.f32\.f16")
"""Forms whose selectors 2 and 3 ptxas takes, and an H200 ends with CUDA_ERROR_ILLEGAL_INSTRUCTION
(November 2026)."""


def _metadata(
    operands: OperandReader, opcode: str, types: ProductTypes, depth: int
) -> tuple[Source, bool, Indices]:
    """Return the metadata of so many stored elements in a row, whether they trap, and the places.

    Elements of 32 bits are chosen by their halves, those of 4 bits in pairs.
    """
    metadata, given = operands.instruction.operands[4:6]
    bits = BITS[types.a]
    of_a_row = depth * bits // (16 if bits >= 16 else 8)
    count = 2 * _INDICES_A_LANE // of_a_row
    selector = given.value if isinstance(given, ImmediateText) and not given.float_bits else -1
    traps = _TRAPPING.search(opcode) is not None and selector in (2, 3)
    if not (0 <= selector < count or traps):
        known = ", ".join(map(str, range(count)))
        operands.unsupported(f"the sparsity selector has to be one of the constants {known}")
    if isinstance(metadata, ImmediateText):
        operands.unsupported("the metadata stand in a register")
    (held,) = operands.sources(metadata, 1, 32)
    return held, traps, indices_of(bits, of_a_row, selector, operands.unit(SparseUnit()))


@lru_cache(maxsize=256)
def indices_of(bits: int, count: int, selector: int, unit: SparseUnit) -> Indices:
    """Return where the metadata of a warp have so many indices of a row; `bits` of an element."""
    row, index = np.meshgrid(np.arange(16), np.arange(count), indexing="ij")
    upper = np.zeros_like(row) if unit.lower_rows_only else row // 8
    if bits >= 16:
        # A lane has both rows of its group, each in one half of its word.
        half = _INDICES_A_LANE // 2
        lane, place = index // half, half * upper + index % half
    else:
        # A lane has one of the two.
        lane, place = upper + 2 * (index // _INDICES_A_LANE), index % _INDICES_A_LANE
    if not unit.ignores_selector:
        lane = lane + selector * (2 * count // _INDICES_A_LANE)
    return (4 * (row % 8) + lane) ^ unit.lane_offset, (2 * place).astype(np.uint32)


def _chosen(b: Values, index: Values, kind: str) -> Values:
    """Return what meets each stored element of A: (elements of a row, columns, rows, warps).

    B is (K, columns, warps), the indices (indices of a row, rows, warps).
    """
    four = 4 * (np.arange(len(index)) // 2)
    places = four[:, None, None] + index.astype(np.int64)
    if kind == "tf32":
        halves = np.stack([b & np.uint32(0xFFFF), b >> np.uint32(16)], axis=1)
        each = _taken(halves.reshape(-1, *b.shape[1:]), places)
        words: Values = each[::2] | each[1::2] << np.uint32(16)
        return words
    if BITS[kind] == 4:
        both = 2 * places[:, None] + np.arange(2)[:, None, None]
        places = both.reshape(-1, *places.shape[1:])
    return _taken(b, places)


def _taken(b: Values, places: NDArray[np.int64]) -> Values:
    """Return rows of (rows, columns, warps) by the places of each row of A and warp."""
    _, columns, warps = b.shape
    at = places[:, None] * columns + np.arange(columns)[:, None, None]
    taken: Values = b.reshape(-1).take(at * warps + np.arange(warps))
    return taken


def multiply_sparse(
    types: ProductTypes, indices: Indices, unit: SparseUnit, arithmetic: MultiplyUnit,
    scaled: Callable[..., Values] | None, *given: Values,
) -> Values:  # fmt: skip
    """Return D of A, B, C, scales if any, and metadata; all have the warps as their last axis."""
    parts = []
    # The chosen elements of B take up to 16 KiB a warp.
    for start in range(0, given[0].shape[-1], 64):
        a, b, c, *scales, metadata = (each[..., start : start + 64] for each in given)
        rows, columns, warps = c.shape
        index = metadata.take(indices[0], axis=0) >> indices[1][..., None] & 3
        index = index.transpose(1, 0, 2)
        if unit.sorted_pairs:
            index = np.sort(index.reshape(-1, 2, *index.shape[1:]), axis=1).reshape(index.shape)
        if unit.swapped_pairs:
            index = index.reshape(-1, 2, *index.shape[1:])[:, ::-1].reshape(index.shape)
        chosen, used = _chosen(b, index, types.a), arithmetic
        if unit.counted_place and isinstance(used, FloatUnit):
            # Two products that cancel add nothing else.
            other = _chosen(b, index ^ 2, types.a)[:1]
            minus = a[:, :1] ^ a.dtype.type(1 << BITS[types.a] - 1)
            a = np.concatenate([a, a[:, :1], minus], axis=1)
            chosen = np.concatenate([chosen, other, other])
            used = replace(used, block=used.block + 2)
        # Each row of A meets a B of its own, as those of other warps do.
        a, c = (each.transpose(1, 0, 2).reshape(1, each.shape[1], -1) for each in (a, c))
        chosen = chosen.reshape(len(chosen), columns, -1)
        if scaled is None:
            d = multiply_on(used, a, chosen, c, types)
        else:
            of_a, of_b = scales
            of_rows = of_a.transpose(1, 0, 2).reshape(1, of_a.shape[1], -1)
            d = scaled(a, chosen, c, of_rows, np.tile(of_b, (1, 1, rows)))
        parts.append(d.reshape(columns, rows, warps).transpose(1, 0, 2))
    return np.concatenate(parts, axis=-1)


# Bytes that a base address and the start of each row must be multiples of, by the bits of an
# element. Measured on an H200: for .f16 a base that is a multiple of 4 works and one of 2 traps,
# odd strides run; for .s8 rows that are multiples of 2 trap. The rest is inferred.
_ALIGNMENT = {1: (4, 4), 4: (4, 4), 8: (4, 4), 16: (4, 2), 32: (4, 4), 64: (8, 8)}


def _check_aligned(operands: OperandReader, q: Qualifiers) -> None:
    if not q["aligned"] and operands.frame.version >= (6, 3):  # 9.7.14.4.3, PTX ISA Notes
        refuse(TrapKind.ILLEGAL, operands.line, ".aligned is required from PTX ISA 6.3")


def _transfer(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Decode wmma.load and wmma.store: `count` instances of the leading dimension, of a `run`."""
    first, second, *stride = operands.expect(2, 3)
    q = Qualifiers(str, match.groupdict(""))
    role, shape, kind, order = q["role"], q["shape"], q["type"], q["order"]
    # Of C and D the results say which there are, and the multiplicands in which shapes.
    needed = [
        row.shapes[shape] for row in _PRODUCTS["wmma"] if shape in row.shapes
        and kind in (row.types if role in "ab" else row.results.replace(".", " ")).split()
    ]  # fmt: skip
    if not needed:
        operands.unsupported(f"no fragment of {role} exists for {shape} and {kind}")
    if role in "ab" and BITS[kind] < 8 and order != {"a": "row", "b": "col"}[role]:
        operands.unsupported("4-bit and single-bit A is row-major and B column-major")
    operands.need(min(needed))
    _check_aligned(operands, q)
    by_rows, (rows, columns) = order == "row", dimensions(role, shape)
    count, run = (rows, columns) if by_rows else (columns, rows)
    space = space_named(q["space"])
    layout = opaque_layout(role, shape, kind, order, operands.silicon.layout_seed)
    bits, unit = layout.bits, operands.unit(TransferUnit())
    place, given = (first, second) if role == "d" else (second, first)
    is_store, held = role == "d", (given, layout.count, layout.width)
    sources = operands.sources(*held) if is_store else ()
    names = () if is_store else operands.registers(*held)
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

    return store if is_store else writing(operands, names, load)


_SHAPE = r"\.sync(?P<aligned>\.aligned)?\.(?P<shape>m\d+n\d+k\d+)"
_WHERE = r"\.(?P<order>row|col)(?:\.(?P<space>global|shared(?:::cta)?))?\.(?P<type>\w+)"
_ORDERS = r"\.(?P<a_order>row|col)\.(?P<b_order>row|col)"
_ROUNDING = r"(?:\.(?P<rounding>rn|rz|rm|rp))?(?P<satfinite>\.satfinite)?"
_CLASS = r"(?:\.(?P<class>kind::\w+))?(?P<scaled>\.block_scale)?(?:\.scale_vec::(?P<vec>[124])X)?"
_OF_SCALES = r"(?:\.(?P<stype>ue8m0|ue4m3))?"
_OF_BITS = r"(?:\.(?P<op>xor|and)\.popc)?"
FORMS: tuple[Form, ...] = (
    (_transfer, rf"wmma\.(?:load\.(?P<role>[abc])){_SHAPE}{_WHERE}"),
    (_transfer, rf"wmma\.store\.(?P<role>d){_SHAPE}{_WHERE}"),
    (_product, rf"(?P<kind>wmma)\.mma{_SHAPE}{_ORDERS}{_ROUNDING}(?P<types>(?:\.(?:f16|bf16"
     rf"|tf32|f32|f64|[us][48]|b1|s32))+){_OF_BITS}"),
    (_product, rf"(?P<kind>mma)\.sync\.aligned\.(?P<shape>m\d+n\d+k\d+){_ORDERS}{_ROUNDING}"
     rf"{_CLASS}(?P<types>\.\w+\.\w+\.\w+\.\w+){_OF_SCALES}{_OF_BITS}"),
    (_product, r"(?P<kind>mma\.sp)(?:::ordered_metadata)?\.sync\.aligned\.(?P<shape>m16n8k\d+)"
     rf"\.row\.col(?P<satfinite>\.satfinite)?{_CLASS}(?P<types>\.\w+\.\w+\.\w+\.\w+)"
     rf"{_OF_SCALES}"),
)  # fmt: skip
