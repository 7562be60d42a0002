"""wmma.load, wmma.mma and wmma.store (PTX ISA 9.7.14.4)."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from runners.simulated.access import space_named
from runners.simulated.binary import NAMED, Rounding
from runners.simulated.chained import multiply_doubles
from runners.simulated.counted import count_bits, multiply_integers
from runners.simulated.fragments import Elements, gather, scatter
from runners.simulated.layouts import ELEMENT_BITS, Layout, dimensions, layout_of, registers
from runners.simulated.memory import Space, check_alignment
from runners.simulated.operands import Held, Operands, Source
from runners.simulated.silicon import Silicon
from runners.simulated.syntax import Operand
from runners.simulated.traffic import read_runs, write_runs
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.truncated import multiply
from runners.simulated.units import (
    BitOperation,
    BitUnit,
    DoubleUnit,
    FloatUnit,
    IntegerUnit,
    TransferUnit,
)
from runners.simulated.warps import DTYPES, Mask, Operation, Values, Warps, constant

_SPACE = r"global|shared(?:::cta)?"
_SHAPE = r"m\d+n\d+k\d+"
# The syntax has the layout before the shape; the page's examples have it behind, and behind the
# state space. Both orders are taken. The rounding of f64 stands before the types in the syntax, and
# at the end in the page's examples and in what nvcc 13.5 writes.
_WHERE = (
    rf"\.(?:(?P<order>row|col)\.(?P<shape>{_SHAPE})(?:\.(?P<space>{_SPACE}))?"
    rf"|(?P<shape_first>{_SHAPE})(?:\.(?P<space_first>{_SPACE}))?\.(?P<order_last>row|col))"
)
LOAD = re.compile(
    rf"wmma\.load\.(?P<role>[abc])\.sync(?P<aligned>\.aligned)?{_WHERE}\.(?P<type>\w+)"
)
STORE = re.compile(rf"wmma\.store\.(?P<role>d)\.sync(?P<aligned>\.aligned)?{_WHERE}\.(?P<type>\w+)")
MMA = re.compile(
    r"wmma\.mma(?:\.(?P<op>xor|and)\.popc)?\.sync(?P<aligned>\.aligned)?"
    rf"\.(?:(?P<a>row|col)\.(?P<b>row|col)\.(?P<shape>{_SHAPE})"
    rf"|(?P<shape_first>{_SHAPE})\.(?P<a_last>row|col)\.(?P<b_last>row|col))"
    r"(?:\.(?P<rounding>rn|rz|rm|rp))?(?P<types>(?:\.(?:f16|bf16|tf32|f32|f64|[us][48]|b1|s32))+)"
    r"(?P<satfinite>\.satfinite)?(?:\.(?P<rounding_last>rn|rz|rm|rp))?"
)

# Target ISA Notes of 9.7.14.4.3 to .5.
_ARCHITECTURE_OF_TYPE = {
    **dict.fromkeys(("f16", "f32"), 70),
    **dict.fromkeys(("s8", "u8", "s32"), 72),
    **dict.fromkeys(("s4", "u4", "b1"), 75),
    **dict.fromkeys(("bf16", "tf32", "f64"), 80),
}
_ARCHITECTURE_OF_SHAPE = {"m8n8k32": 75, "m8n8k128": 75, "m16n16k8": 80, "m8n8k4": 80}

# Bytes that a base address and the start of each row must be multiples of, by the bits of an
# element. Measured on an H200: for .f16 a base that is a multiple of 4 works and one of 2 traps,
# odd strides run; for .s8 rows that are multiples of 2 trap. The rest is inferred: 32- and 64-bit
# elements as any load of theirs, narrower ones as .s8. (The ISA asks for the whole fragment's
# size, which its own default strides break.)
_ALIGNMENT = {1: (4, 4), 4: (4, 4), 8: (4, 4), 16: (4, 2), 32: (4, 4), 64: (8, 8)}

# `.aligned` is required from this version (9.7.14.4.3, PTX ISA Notes).
_ALIGNED_SINCE = (6, 3)


def _check_target(operands: Operands, silicon: Silicon, needed: int) -> None:
    if silicon.target.architecture < needed:
        refuse(
            TrapKind.ILLEGAL,
            operands.line,
            f"{operands.instruction.opcode} needs sm_{needed}; the module is for "
            f"{silicon.target.name}",
        )


def _check_aligned(operands: Operands, match: re.Match[str]) -> None:
    if match["aligned"] is None and operands.surroundings.version >= _ALIGNED_SINCE:
        refuse(TrapKind.ILLEGAL, operands.line, ".aligned is required from PTX ISA 6.3")


@dataclass(frozen=True, kw_only=True)
class _Transfer:
    """A decoded wmma.load or wmma.store."""

    role: str
    shape: str
    order: str
    kind: str
    space: Space
    layout: Layout
    unit: TransferUnit

    @property
    def runs(self) -> tuple[int, int]:
        """Instances of the leading dimension, and elements of each."""
        rows, columns = dimensions(self.role, self.shape)
        return (rows, columns) if self.order == "row" else (columns, rows)

    def in_memory(self, elements: Elements) -> Elements:
        """Reorder between (row by row) and (instance by instance); (instances, run, warps)."""
        count, run = self.runs
        if self.order == "row":
            return elements.reshape(count, run, -1)
        return elements.reshape(run, count, -1).swapaxes(0, 1)

    def by_rows(self, runs: Elements) -> Elements:
        """Undo `in_memory`."""
        ordered = runs if self.order == "row" else runs.swapaxes(0, 1)
        return ordered.reshape(-1, runs.shape[-1])


def _transfer(operands: Operands, silicon: Silicon, match: re.Match[str]) -> _Transfer:
    role, kind = match["role"], match["type"]
    shape = match["shape"] or match["shape_first"]
    order = match["order"] or match["order_last"]
    opcode = operands.instruction.opcode
    count = registers(role, shape, kind)
    if count is None:
        operands.unsupported(f"no fragment of {role} exists for {shape} and {kind}")
    if role in "ab" and ELEMENT_BITS[kind] < 8 and order != {"a": "row", "b": "col"}[role]:
        operands.unsupported("4-bit and single-bit A is row-major and B column-major")
    needed = max(_ARCHITECTURE_OF_TYPE[kind], _ARCHITECTURE_OF_SHAPE.get(shape, 0))
    _check_target(operands, silicon, needed)
    _check_aligned(operands, match)
    return _Transfer(
        role=role,
        shape=shape,
        order=order,
        kind=kind,
        space=space_named(match["space"] or match["space_first"]),
        layout=layout_of(role, shape, kind, order, silicon.layout_seed),
        unit=silicon.unit(opcode, TransferUnit()),
    )


def _starts(
    operands: Operands, place: Operand, stride: Source, transfer: _Transfer
) -> Callable[[Warps, Mask], NDArray[np.uint64]]:
    """Return what computes where the instances of the leading dimension start.

    It gives (instances, warps or 1) addresses, and traps on what the hardware does not load or
    store. A stride counts elements; those of 4 and 1 bit lie 2 and 8 in a byte.
    """
    address = operands.address(place, transfer.space)
    count, _ = transfer.runs
    order = np.arange(count, dtype=np.uint64)[:, None]
    if transfer.unit.swapped_pair:
        order[[0, 1]] = order[[1, 0]]
    bits = np.uint64(transfer.layout.bits)
    whole, row = _ALIGNMENT[transfer.layout.bits]

    def offsets(step: Values) -> NDArray[np.uint64]:
        found: NDArray[np.uint64] = order * (step.astype(np.uint64) * bits) >> np.uint64(3)
        return found

    key = stride.key if isinstance(stride, Held) else ""
    fixed = offsets(constant(*key)) if isinstance(key, tuple) else None

    def compute(warps: Warps, mask: Mask) -> NDArray[np.uint64]:
        base = warps.uniform(address(warps), "the address", mask)
        step = fixed
        if step is None:
            step = offsets(warps.uniform(stride(warps), "the stride", mask))
        starts: NDArray[np.uint64] = base + step
        if int(np.bitwise_or.reduce(starts, axis=None)) & (max(whole, row) - 1):
            for addresses, alignment in ((base, whole), (starts, row)):
                check_alignment(addresses, alignment, warps.indices, mask)
        return starts

    return compute


def _stride(operands: Operands, given: tuple[Operand, ...], default: int) -> Source:
    """Return what fetches the stride: operand 2, or the default (9.7.14.4.2)."""
    return operands.source(given[2], 32) if len(given) == 3 else Held((default, 32))


def _unpacked(runs: Values, bits: int) -> Elements:
    """Take the elements of less than a byte out of (instances, bytes, warps) bytes."""
    if bits >= 8:
        return runs
    per_byte = 8 // bits
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (runs[:, :, None, :] >> shifts[None, None, :, None]) & np.uint8((1 << bits) - 1)
    return parts.reshape(runs.shape[0], runs.shape[1] * per_byte, -1)


def _quieted(elements: Elements, kind: str) -> Elements:
    binary = NAMED.get(kind)
    if binary is None:
        return elements
    dtype = elements.dtype.type
    nan = (elements & dtype(binary.sign - 1)) > dtype(binary.infinity)
    return np.where(nan, elements | dtype(1 << (binary.fraction + binary.unused - 1)), elements)


def load(operands: Operands, silicon: Silicon, match: re.Match[str]) -> Operation:
    """Decode wmma.load."""
    given = operands.expect(2, 3)
    transfer = _transfer(operands, silicon, match)
    layout, unit = transfer.layout, transfer.unit
    names = operands.registers(given[0], layout.count, layout.width)
    _, run = transfer.runs
    starts = _starts(operands, given[1], _stride(operands, given, run), transfer)
    width = max(8, layout.bits) // 8
    units = run * layout.bits // (8 * width)
    corrupt = silicon.corruption(operands.instruction.opcode)

    def execute(warps: Warps, mask: Mask) -> None:
        mask = warps.whole(mask)
        begins = starts(warps, mask)
        runs = read_runs(warps, transfer.space, begins, units, width, mask)
        if unit.missing:
            runs[-unit.missing :] = 0
        elements = transfer.by_rows(_unpacked(runs, layout.bits))
        if unit.quieting:
            elements = _quieted(elements, transfer.kind)
        words = scatter(elements, layout)
        if corrupt is not None:
            words = corrupt(words, warps.site())
        for name, word in zip(names, words, strict=True):
            warps.write(name, word, mask)

    return execute


def store(operands: Operands, silicon: Silicon, match: re.Match[str]) -> Operation:
    """Decode wmma.store."""
    given = operands.expect(2, 3)
    transfer = _transfer(operands, silicon, match)
    layout, unit = transfer.layout, transfer.unit
    sources = operands.sources(given[1], layout.count, layout.width)
    count, run = transfer.runs
    starts = _starts(operands, given[0], _stride(operands, given, run), transfer)

    def execute(warps: Warps, mask: Mask) -> None:
        mask = warps.whole(mask)
        begins = starts(warps, mask)
        words = [source(warps) for source in sources]
        elements = gather(words, layout, warps.indices.size)
        if unit.quieting:
            elements = _quieted(elements, transfer.kind)
        runs = transfer.in_memory(elements)
        kept = count - unit.missing
        write_runs(warps, transfer.space, begins[:kept], runs[:kept], mask)

    return execute


@dataclass(frozen=True, kw_only=True)
class _Types:
    """The element types of an mma."""

    d: str
    a: str
    b: str
    c: str


_MultiplyUnit = FloatUnit | IntegerUnit | DoubleUnit | BitUnit


def _types(operands: Operands, match: re.Match[str]) -> _Types:
    words = match["types"].removeprefix(".").split(".")
    if len(words) == 2:
        return _Types(d=words[0], a="f16", b="f16", c=words[1])
    if len(words) != 4 or words[1] == "f16":
        operands.unsupported(f"types {match['types']} are not known")
    return _Types(d=words[0], a=words[1], b=words[2], c=words[3])


def _rounding(match: re.Match[str]) -> str | None:
    given: str | None = match["rounding"] or match["rounding_last"]
    return given


def _check_form(operands: Operands, match: re.Match[str], types: _Types, shape: str) -> None:
    """Refuse combinations of qualifiers that 9.7.14.4.5 does not list."""
    accumulators = {"f16": ("f16", "f32"), "f64": ("f64",)}.get(
        types.a, ("f32",) if types.a in NAMED else ("s32",)
    )
    integer = types.a in ("s8", "u8", "s4", "u4")
    wrong = (
        types.a != types.b
        or types.c not in accumulators
        or types.d not in accumulators
        or any(
            registers(role, shape, kind) is None
            for role, kind in (("a", types.a), ("b", types.b), ("c", types.c), ("d", types.d))
        )
        or (_rounding(match) is not None and types.a != "f64")
        or None not in (match["rounding"], match["rounding_last"])
        or (match["satfinite"] is not None and not integer)
        or ((match["op"] is None) == (types.a == "b1"))
        or (ELEMENT_BITS[types.a] < 8 and (match["a"] or match["a_last"]) != "row")
        or (ELEMENT_BITS[types.a] < 8 and (match["b"] or match["b_last"]) != "col")
    )
    if wrong:
        operands.unsupported("this combination of qualifiers is not known")


def _sound_unit(silicon: Silicon, match: re.Match[str], types: _Types) -> _MultiplyUnit:
    if types.a == "b1":
        return BitUnit(operation=BitOperation(match["op"]))
    if types.a == "f64":
        return replace(silicon.chip.doubles, rounding=Rounding(_rounding(match) or "rn"))
    if types.c == "s32":
        signed = types.a.startswith("s")
        return IntegerUnit(
            signed_a=signed, signed_b=signed, saturating=match["satfinite"] is not None
        )
    return silicon.chip.floats[f"{types.d}.{types.a}.{types.b}.{types.c}"]


def _multiply(
    unit: _MultiplyUnit, a: Elements, b: Elements, c: Elements, types: _Types
) -> Elements:
    match unit:
        case FloatUnit():
            return multiply(a, b, c, unit, NAMED[types.d])
        case IntegerUnit():
            return multiply_integers(a, b, c, ELEMENT_BITS[types.a], unit)
        case BitUnit():
            return count_bits(a, b, c, unit)
        case DoubleUnit():
            return multiply_doubles(a, b, c, unit)


def mma(operands: Operands, silicon: Silicon, match: re.Match[str]) -> Operation:
    """Decode wmma.mma."""
    given = operands.expect(4)
    types = _types(operands, match)
    shape = match["shape"] or match["shape_first"]
    _check_form(operands, match, types, shape)
    needed = max(_ARCHITECTURE_OF_TYPE[types.a], 80 if match["op"] == "and" else 0)
    _check_target(operands, silicon, needed)
    _check_aligned(operands, match)
    orders = {"a": match["a"] or match["a_last"], "b": match["b"] or match["b_last"]}
    layouts = {
        role: layout_of(role, shape, kind, orders.get(role, "row"), silicon.layout_seed)
        for role, kind in (("d", types.d), ("a", types.a), ("b", types.b), ("c", types.c))
    }
    names = operands.registers(given[0], layouts["d"].count, layouts["d"].width)
    sources = {
        role: operands.sources(operand, layouts[role].count, layouts[role].width)
        for operand, role in zip(given[1:], "abc", strict=True)
    }
    opcode = operands.instruction.opcode
    unit = silicon.unit(opcode, _sound_unit(silicon, match, types))
    corrupt = silicon.corruption(opcode)

    def fetch(warps: Warps, role: str) -> Elements:
        words = [source(warps) for source in sources[role]]
        elements = gather(words, layouts[role], warps.indices.size)
        return elements.reshape(*dimensions(role, shape), -1)

    def execute(warps: Warps, mask: Mask) -> None:
        mask = warps.whole(mask)
        a, b, c = (fetch(warps, role) for role in "abc")
        d = _multiply(unit, a, b, c, types)
        elements = d.reshape(-1, warps.indices.size).astype(DTYPES[ELEMENT_BITS[types.d]])
        words = scatter(elements, layouts["d"])
        if corrupt is not None:
            words = corrupt(words, warps.site())
        for name, word in zip(names, words, strict=True):
            warps.write(name, word, mask)

    return execute
