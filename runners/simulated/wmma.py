"""wmma.load, wmma.mma and wmma.store (PTX ISA 9.7.14.4)."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runners.simulated.access import space_named
from runners.simulated.binary import NAMED, is_nan
from runners.simulated.integers import Qualifiers
from runners.simulated.layouts import (
    BITS,
    Elements,
    Layout,
    dimensions,
    gather,
    opaque_layout,
    scatter,
)
from runners.simulated.matrices import Form, Multiplicands, check_product, dense, writing
from runners.simulated.memory import Space, check_alignment
from runners.simulated.operands import FromRegister, Operands, Source
from runners.simulated.products import Types, sound_unit
from runners.simulated.syntax import Operand
from runners.simulated.traffic import read_runs, write_runs
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.units import TransferUnit
from runners.simulated.warps import Mask, Operation, Values, Warps, constant

_SHAPE = r"m\d+n\d+k\d+"
_WHERE = (
    rf"\.sync(?P<aligned>\.aligned)?\.(?P<shape>{_SHAPE})\.(?P<order>row|col)"
    r"(?:\.(?P<space>global|shared(?:::cta)?))?\.(?P<type>\w+)"
)
_LOAD = re.compile(rf"wmma\.load\.(?P<role>[abc]){_WHERE}")
_STORE = re.compile(rf"wmma\.store\.(?P<role>d){_WHERE}")
_MMA = re.compile(
    rf"wmma\.mma\.sync(?P<aligned>\.aligned)?\.(?P<shape>{_SHAPE})\.(?P<a>row|col)\.(?P<b>row|col)"
    r"(?:\.(?P<rounding>rn|rz|rm|rp))?(?P<satfinite>\.satfinite)?"
    r"(?P<types>(?:\.(?:f16|bf16|tf32|f32|f64|[us][48]|b1|s32))+)(?:\.(?P<op>xor|and)\.popc)?"
)

_WIDE = ("m16n16k16", "m8n32k16", "m32n8k16")
# The tables of 9.7.14.4.1 and .5, and Target ISA Notes of .3 to .5.
_ROWS = (
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

# `.aligned` is required from this version (9.7.14.4.3, PTX ISA Notes).
_ALIGNED_SINCE = (6, 3)


def _check_aligned(operands: Operands, q: Qualifiers) -> None:
    if not q["aligned"] and operands.surroundings.version >= _ALIGNED_SINCE:
        refuse(TrapKind.ILLEGAL, operands.line, ".aligned is required from PTX ISA 6.3")


def fragment_architecture(role: str, shape: str, kind: str) -> int | None:
    """Return the lowest architecture that has a fragment; None if the ISA knows no such fragment.

    Of `c` and `d` the results say which there are, and the multiplicands in which shapes.
    """
    return min(
        (
            row.shapes[shape]
            for row in _ROWS
            if shape in row.shapes
            and kind in (row.types if role in "ab" else row.results.replace(".", " ")).split()
        ),
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class _Transfer:
    kind: str
    by_rows: bool
    count: int
    """Instances of the leading dimension: rows or columns."""
    run: int
    """Elements of each."""
    space: Space
    layout: Layout
    unit: TransferUnit

    def runs_of(self, elements: Elements) -> Elements:
        """Return elements, row by row, as (instances, run, warps)."""
        if self.by_rows:
            return elements.reshape(self.count, self.run, -1)
        return elements.reshape(self.run, self.count, -1).swapaxes(0, 1)

    def elements_of(self, runs: Elements) -> Elements:
        ordered = runs if self.by_rows else runs.swapaxes(0, 1)
        return ordered.reshape(-1, runs.shape[-1])

    def quieted(self, elements: Elements) -> Elements:
        """Return elements with floating-point NaN made quiet, where the unit does so."""
        binary = NAMED.get(self.kind)
        if not self.unit.quieting or binary is None:
            return elements
        quiet = elements.dtype.type(1 << (binary.fraction + binary.unused - 1))
        return np.where(is_nan(elements, binary), elements | quiet, elements)


def _transfer(operands: Operands, match: re.Match[str]) -> _Transfer:
    q = Qualifiers(match.groupdict(""))
    role, shape, kind, order = q["role"], q["shape"], q["type"], q["order"]
    needed = fragment_architecture(role, shape, kind)
    if needed is None:
        operands.unsupported(f"no fragment of {role} exists for {shape} and {kind}")
    if role in "ab" and BITS[kind] < 8 and order != {"a": "row", "b": "col"}[role]:
        operands.unsupported("4-bit and single-bit A is row-major and B column-major")
    operands.need(needed)
    _check_aligned(operands, q)
    rows, columns = dimensions(role, shape)
    by_rows = order == "row"
    return _Transfer(
        kind=kind,
        by_rows=by_rows,
        count=rows if by_rows else columns,
        run=columns if by_rows else rows,
        space=space_named(q["space"]),
        layout=opaque_layout(role, shape, kind, order, operands.silicon.layout_seed),
        unit=operands.unit(TransferUnit()),
    )


def _starts(
    operands: Operands, place: Operand, stride: tuple[Operand, ...], transfer: _Transfer
) -> Callable[[Warps, Mask], NDArray[np.uint64]]:
    """Return what computes where the instances of the leading dimension start.

    It gives (instances, warps or 1) addresses, and traps on what the hardware does not load or
    store. A stride counts elements, by default those of an instance (9.7.14.4.2); of 4 and 1 bit, 2
    and 8 lie in a byte.
    """
    source: Source = operands.source(stride[0], 32) if stride else FromRegister((transfer.run, 32))
    address = operands.address(place, transfer.space)
    order = np.arange(transfer.count, dtype=np.uint64)[:, None]
    if transfer.unit.swapped_pair:
        order[[0, 1]] = order[[1, 0]]
    bits = np.uint64(transfer.layout.bits)
    whole, row = _ALIGNMENT[transfer.layout.bits]

    def offsets(step: Values) -> NDArray[np.uint64]:
        found: NDArray[np.uint64] = order * (step.astype(np.uint64) * bits) >> np.uint64(3)
        return found

    key = source.key if isinstance(source, FromRegister) else ""
    fixed = offsets(constant(*key)) if isinstance(key, tuple) else None

    def compute(warps: Warps, mask: Mask) -> NDArray[np.uint64]:
        base = warps.uniform(address(warps), "the address", mask)
        step = fixed
        if step is None:
            step = offsets(warps.uniform(source(warps), "the stride", mask))
        starts: NDArray[np.uint64] = base + step
        if int(np.bitwise_or.reduce(starts, axis=None)) & (max(whole, row) - 1):
            for addresses, alignment in ((base, whole), (starts, row)):
                check_alignment(addresses, alignment, warps.indices, mask)
        return starts

    return compute


def _unpacked(runs: Values, bits: int) -> Elements:
    """Take the elements of less than a byte out of (instances, bytes, warps) bytes."""
    if bits >= 8:
        return runs
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (runs[:, :, None, :] >> shifts[None, None, :, None]) & np.uint8((1 << bits) - 1)
    return parts.reshape(runs.shape[0], runs.shape[1] * len(shifts), -1)


def _load(operands: Operands, match: re.Match[str]) -> Operation:
    target, place, *stride = operands.expect(2, 3)
    transfer = _transfer(operands, match)
    layout, unit = transfer.layout, transfer.unit
    names = operands.registers(target, layout.count, layout.width)
    starts = _starts(operands, place, (*stride,), transfer)
    width = max(8, layout.bits) // 8
    count = transfer.run * layout.bits // (8 * width)

    def compute(warps: Warps, mask: Mask) -> list[Values]:
        runs = read_runs(warps, transfer.space, starts(warps, mask), count, width, mask)
        if unit.missing:
            runs[-unit.missing :] = 0
        elements = transfer.elements_of(_unpacked(runs, layout.bits))
        return scatter(transfer.quieted(elements), layout)

    return writing(operands, names, compute)


def _store(operands: Operands, match: re.Match[str]) -> Operation:
    place, given, *stride = operands.expect(2, 3)
    transfer = _transfer(operands, match)
    layout = transfer.layout
    sources = operands.sources(given, layout.count, layout.width)
    starts = _starts(operands, place, (*stride,), transfer)
    kept = transfer.count - transfer.unit.missing

    def execute(warps: Warps, mask: Mask) -> None:
        mask = warps.whole(mask)
        begins = starts(warps, mask)
        elements = gather([source(warps) for source in sources], layout, warps.indices.size)
        runs = transfer.runs_of(transfer.quieted(elements))
        write_runs(warps, transfer.space, begins[:kept], runs[:kept], mask)

    return execute


def _mma(operands: Operands, match: re.Match[str]) -> Operation:
    operands.expect(4)
    q = Qualifiers(match.groupdict(""))
    given = q["types"][1:].split(".")
    if len(given) == 2:
        given[1:1] = ["f16", "f16"]
    elif len(given) != 4 or given[1] == "f16":
        operands.unsupported(f"types {q['types']} are not known")
    types = Types(*given)
    orders = q["a"], q["b"]
    check_product(operands, _ROWS, q["shape"], types, orders, q)
    _check_aligned(operands, q)
    seed = operands.silicon.layout_seed
    layouts = {
        role: opaque_layout(role, q["shape"], getattr(types, role), order, seed)
        for role, order in zip("abcd", (*orders, "row", "row"), strict=True)
    }
    sound = sound_unit(operands.silicon.chip, types, q["op"], q["rounding"], bool(q["satfinite"]))
    return dense(operands, q["shape"], types, layouts, sound)


FORMS: tuple[Form, ...] = ((_LOAD, _load), (_STORE, _store), (_MMA, _mma))
