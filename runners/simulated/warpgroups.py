"""Multiplications of warpgroups: wgmma, and what orders it (PTX ISA 9.7.15).

A multiplication is put into a queue, and computed when a wait says that its group is there: only
then memory and the registers of A are read. Meanwhile its registers are kept here, and what stands
in their places is garbage. What the ISA leaves undefined is refused, with the line: a register that
is accessed in flight, or was since the last `wgmma.fence`; bytes that were written through the
generic proxy without `fence.proxy.async` and a barrier since, or are overwritten in flight.

The units of sm_90 add all products of an instruction and D at once; those of 8-bit elements are
others than those of mma.sync (measured on an H200, 2026-11-28).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.access import Form, corrupted
from runners.simulated.in_flight import InQueue, Numbers, Queue, queue_of
from runners.simulated.matrices import indices_of, multiply_sparse
from runners.simulated.operands import OperandReader, Source
from runners.simulated.products import ProductTypes, multiply_on
from runners.simulated.silicon import (
    BITS,
    BOTTOMS,
    BitOperation,
    BitUnit,
    FloatUnit,
    FragmentUnit,
    GroupUnit,
    IntegerUnit,
    MultiplyUnit,
    SparseUnit,
    documented_layout,
    gather,
    scatter,
)
from runners.simulated.syntax import ImmediateText, TrapKind, VectorText, refuse
from runners.simulated.warps import (
    Mask,
    Operation,
    Space,
    Values,
    WarpState,
    read_runs,
    spread,
)

_WARPS, _ROWS = 4, 16
"""Warps of a warpgroup, and rows of D and A that each has (9.7.15.5.1.1)."""


def _whole_groups(warps: WarpState, mask: Mask) -> Numbers:
    """Return the warps that execute; refuse a part of a warpgroup (`.aligned`)."""
    mask = warps.whole(mask)
    those = (
        warps.indices
        if mask is None
        else warps.indices[np.broadcast_to(mask[0], warps.indices.shape)]
    )
    place = those % warps.per_block
    groups, counts = np.unique(those - place % _WARPS, return_counts=True)
    if (counts != _WARPS).any():
        said = "an instruction of a warpgroup is executed by a part of its warps"
        refuse(TrapKind.DIVERGENT, 0, said, tuple(groups[counts != _WARPS].tolist()))
    return those


# Descriptors: where A and B lie in shared memory (9.7.15.5.1.2)

_WIDTHS = (16, 128, 64, 32)
"""Bytes of a row of the pattern, by the mode in bits 63 and 62."""


def _addresses(
    descriptor: NDArray[np.uint64], lines: Numbers, byte: Numbers, transposed: bool, phase: int
) -> NDArray[np.uint64]:
    """Return where chunks of 16 bytes lie, (chunks, warps).

    Of K-major matrices `lines` are rows of A or columns of B, and `byte` counts along K; of
    `transposed` ones, of 16 bits, `byte` counts along M or N, and `lines` are those along K.
    """
    bits = descriptor.astype(np.int64)
    start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    base, width = bits >> 49 & 7, np.array(_WIDTHS)[descriptor >> np.uint64(62)]
    plain = width == 16
    if not transposed:
        far, near = stride, leading
        inside = lines % 8 * width + byte % width
        x = start + inside + lines // 8 * far + byte // width * near
    else:
        # Atoms are 8 along K, and as wide along M or N as the pattern; without one, 8 elements.
        along_mn, along_k = np.where(plain, stride, leading), np.where(plain, leading, stride)
        x = (
            start
            + byte % width
            + lines % 8 * width
            + byte // width * along_mn
            + lines // 8 * along_k
        )
    turned = ((x >> 7) - base + phase) % (width // 16) << 4
    found: NDArray[np.uint64] = (x ^ turned).astype(np.uint64)
    return found


@dataclass(frozen=True, eq=False)
class _Tile:
    """A or B in shared memory."""

    descriptor: Source
    kind: str
    lines: int  # rows of A of one warp, or columns of B
    depth: int  # elements along K
    transposed: bool
    phase: int  # of a broken swizzle

    def read(
        self, warps: WarpState, bits: NDArray[np.uint64], mask: Mask, first: Numbers
    ) -> Values:
        """Return (lines, depth, warps) elements; `first` is each warp's first row of A."""
        size = max(8, BITS[self.kind])
        row = self.depth * BITS[self.kind] // 8
        if self.transposed:
            line, byte = np.meshgrid(
                np.arange(self.depth), np.arange(0, 2 * self.lines, 16), indexing="ij"
            )
            line, byte = line.reshape(-1, 1), byte.reshape(-1, 1) + 2 * first
        else:
            line, byte = np.meshgrid(np.arange(self.lines), np.arange(0, row, 16), indexing="ij")
            line, byte = line.reshape(-1, 1) + first, byte.reshape(-1, 1)
        where = _addresses(bits, line, byte, self.transposed, self.phase)
        if mask is not None:
            mask = np.broadcast_to(mask, where.shape)
        found = read_runs(warps, Space.SHARED, where, 128 // size, size // 8, mask)
        found = spread(found, (*found.shape[:2], warps.indices.size))
        if self.transposed:
            return found.reshape(self.depth, self.lines, -1).swapaxes(0, 1)
        found = found.reshape(self.lines, -1, found.shape[-1])
        if self.kind == "b1":
            found = np.unpackbits(found, axis=1, bitorder="little")
        return found


@dataclass(frozen=True, eq=False)
class _Product:
    """A decoded multiplication."""

    operands: OperandReader
    shape: str  # with the type of D
    d: tuple[str, ...]
    a: tuple[str, ...]  # registers of A, if it has them, and of metadata
    tiles: dict[str, _Tile]
    signs: tuple[int, int]  # bits of elements of A and B that are inverted
    adds: Source
    types: ProductTypes
    columns: int
    depth: int  # of what is stored of A
    unit: MultiplyUnit
    finding: GroupUnit
    selector: int | None  # of a sparse A

    def begin(self, warps: WarpState, mask: Mask) -> None:
        """Put it into the queue, for all warps of a mask."""
        those, queue = _whole_groups(warps, mask), queue_of(warps)
        alive = warps.indices
        starts: dict[str, NDArray[np.uint64]] = {}
        for name, tile in self.tiles.items():
            value = warps.uniform(tile.descriptor(warps), "a matrix descriptor", mask)
            starts[name] = np.zeros(queue.size, np.uint64)
            starts[name][alive] = value[0]
        adds = np.zeros(queue.size, np.bool_)
        adds[alive] = warps.uniform(self.adds(warps), "scale-d", mask)[0]
        for each in (*starts.values(), adds):
            if (each[those].reshape(-1, _WARPS) != each[those].reshape(-1, _WARPS)[:, :1]).any():
                said = "a descriptor or scale-d differs between the warps of a warpgroup"
                refuse(TrapKind.DIVERGENT, 0, said, tuple(those.tolist()))
        group = np.full(queue.size, -2)
        group[those] = -1
        begun = InQueue(self, group, starts, adds, warps.line)
        queue.begin(begun, those)
        # Bytes that are nowhere, or that nobody wrote, are refused where they are named.
        queue.now = begun
        try:
            self._tiles(warps, begun, np.isin(alive, those))
        finally:
            queue.now = None

    def _tiles(
        self, warps: WarpState, begun: InQueue, here: NDArray[np.bool_]
    ) -> dict[str, Values]:
        alive = warps.indices
        rank = (alive % warps.per_block + self.finding.next_warp) % _WARPS
        mask = None if here.all() else here[None]
        return {
            name: tile.read(
                warps, begun.starts[name][alive], mask, _ROWS * rank if name == "a" else 0 * rank
            )
            for name, tile in self.tiles.items()
        }  # fmt: skip

    def compute(
        self, warps: WarpState, begun: InQueue, here: NDArray[np.bool_],
        saved: Callable[[str], Values],
    ) -> list[Values]:  # fmt: skip
        """Return the registers of D behind it."""
        tiles, count = self._tiles(warps, begun, here), warps.indices.size
        held = [*map(saved, self.a)]
        if self.finding.late_a:
            held = [dict.__getitem__(warps.registers, key) for key in self.a]
        # Fragments of a warp are those of mma.sync, with more columns (9.7.15.5.1.1).
        shape = f"m{_ROWS}n{self.columns}k{self.depth}"
        of_a, of_d = (
            documented_layout(role, shape, kind, "row", FragmentUnit())
            for role, kind in (("a", self.types.a), ("d", self.types.d))
        )
        a = tiles.get("a")
        if a is None:
            a = gather(held[:4], of_a, count).reshape(_ROWS, self.depth, -1)
        b = tiles["b"].swapaxes(0, 1)
        a, b = a ^ a.dtype.type(self.signs[0]), b ^ b.dtype.type(self.signs[1])
        c = gather([*map(saved, self.d)], of_d, count).reshape(_ROWS, self.columns, -1)
        c = np.where(begun.adds[warps.indices], c, c.dtype.type(0))
        if self.selector is None:
            d = multiply_on(self.unit, a, b, c, self.types)
        else:
            unit, bits = self.operands.unit(SparseUnit()), BITS[self.types.a]
            chosen = self.depth * bits // (16 if bits >= 16 else 8)
            places = indices_of(bits, chosen, self.selector, unit)
            d = multiply_sparse(self.types, places, unit, self.unit, None, a, b, c, held[-1])
        words = scatter(d.reshape(-1, count).astype(c.dtype, copy=False), of_d)
        return corrupted(self.operands, words, warps)


def _multiplication(operands: OperandReader, match: re.Match[str]) -> Operation:
    _check_target(operands)
    types, columns, depth = match["types"][1:].split("."), int(match["n"]), int(match["k"])
    if len(types) != 3:
        operands.unsupported("three types are known")
    d, a, b = types
    floats, integers = a in ("f16", "bf16", "tf32", "e4m3", "e5m2"), a in ("s8", "u8")
    eight = {"e4m3", "e5m2"} if floats else {"s8", "u8"}
    wide = {"f16": 16, "bf16": 16, "tf32": 8, "b1": 256}.get(a, 32) * (1 + bool(match["sparse"]))
    results = {"f16": ("f16", "f32"), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32")}.get(
        a, ("f32",) if floats else ("s32",)
    )
    steps = columns % 8 == 0 if floats else columns in (8, 24) or columns % 16 == 0
    if (
        not (8 <= columns <= 256 and steps) or depth != wide or d not in results
        or not (a == b or {a, b} <= eight) or bool(match["op"]) != (a == "b1")
        or (bool(match["satfinite"] or match["late"]) and not integers)
        or (match["sparse"] and a == "b1")
    ):  # fmt: skip
        operands.unsupported("no such shape and types are known")
    given = list(operands.instruction.operands)
    in_registers = len(given) > 1 and isinstance(given[1], VectorText)
    metadata, selector = None, 0
    if match["sparse"]:
        metadata, selector = _metadata(operands, given, a)
        del given[3:5]
    immediates = (2 + (BITS[a] == 16) * (2 - in_registers)) if floats else 0
    operands.expect(4 + immediates + 2 * bool(match["sparse"]))
    numbers = [
        one.value if isinstance(one, ImmediateText) and not one.float_bits else None
        for one in given[4:]
    ]
    if not ({*numbers[:2]} <= {1, -1, (1 << 64) - 1} and {*numbers[2:]} <= {0, 1}):
        operands.unsupported("imm-scale is 1 or -1, imm-trans 0 or 1, as constants")
    signs = [one != 1 for one in numbers[:2]] or [False, False]
    transposed = [bool(one) for one in numbers[2:]] or [False]
    tiles: dict[str, _Tile] = {}
    finding = operands.unit(GroupUnit())
    phase = finding.phase
    stored = depth // 2 if match["sparse"] else depth
    if not in_registers:
        tiles["a"] = _Tile(operands.source(given[1], 64), a, _ROWS, stored, transposed[0], phase)
    tiles["b"] = _Tile(operands.source(given[2], 64), b, columns, depth, transposed[-1], phase)
    made = ProductTypes(d, a, b, d)
    count, clamps = columns // (4 if BITS[d] == 16 else 2), match["satfinite"] or match["late"]
    multiplicand = operands.registers(given[1], 4, 32) if in_registers else ()
    product = _Product(
        operands=operands, shape=f"m64n{columns}k{depth}.{d}", tiles=tiles, types=made,
        d=operands.registers(given[0], count, 32),
        a=multiplicand if metadata is None else (*multiplicand, metadata),
        signs=(signs[0] << BITS[a] - 1, signs[1] << BITS[b] - 1),
        adds=operands.source(given[3], 1), columns=columns, depth=stored,
        unit=operands.unit(_unit(operands, made, stored, bool(clamps))), finding=finding,
        selector=None if metadata is None else selector,
    )  # fmt: skip
    return product.begin


def _metadata(operands: OperandReader, given: Sequence[Any], kind: str) -> tuple[str, int]:
    """Return the register of the metadata, and the selector (9.7.15.6.1)."""
    operands.expect(*range(5, 11))
    known = (0, 1) if BITS[kind] >= 16 else (0,)
    selector = given[4].value if isinstance(given[4], ImmediateText) else -1
    if selector not in known:
        operands.unsupported(f"the sparsity selector is a constant, one of {known}")
    return operands.destination(given[3], 32), selector


_BYTE_FRACTION = 13
"""Bits of 8-bit elements kept below the largest term, and in an f32 result."""


def _unit(operands: OperandReader, types: ProductTypes, depth: int, clamps: bool) -> MultiplyUnit:
    """Return the unit of an instruction: all of K at once."""
    if types.a == "b1":
        return BitUnit(operation=BitOperation.AND)
    if types.d == "s32":
        return IntegerUnit(signed_a=types.a == "s8", signed_b=types.b == "s8", saturating=clamps)
    floats = operands.silicon.chip.floats
    if types.a not in BOTTOMS:
        return replace(floats[".".join(types)], block=depth)
    of_f16: FloatUnit = floats[f"{types.d}.f16.f16.{types.d}"]
    kept = _BYTE_FRACTION if types.d == "f32" else None
    return replace(
        of_f16, block=depth, fraction=_BYTE_FRACTION, kept=kept,
        bottoms=(BOTTOMS[types.a], BOTTOMS[types.b]),
    )  # fmt: skip


def _check_target(operands: OperandReader) -> None:
    if operands.silicon.target.name != "sm_90a":
        operands.lacks("sm_90a")


def _fence(operands: OperandReader, match: re.Match[str]) -> Operation:
    _check_target(operands)
    operands.expect(0)
    method = Queue.fence if match["what"] == "fence" else Queue.commit

    def run(warps: WarpState, mask: Mask) -> None:
        method(queue_of(warps), _whole_groups(warps, mask))

    return run


def _wait(operands: OperandReader, match: re.Match[str]) -> Operation:
    _check_target(operands)
    (given,) = operands.expect(1)
    if not isinstance(given, ImmediateText) or given.float_bits or not 0 <= given.value < 256:
        operands.unsupported("the number of groups is a constant below 256")
    pending = given.value

    def run(warps: WarpState, mask: Mask) -> None:
        queue_of(warps).wait(_whole_groups(warps, mask), pending)

    return run


def _proxy_fence(operands: OperandReader, match: re.Match[str]) -> Operation:
    def run(warps: WarpState, mask: Mask) -> None:
        if warps.queue is not None:
            warps.queue.proxy_fence(warps, mask)
        if warps.mbarriers is not None:
            warps.mbarriers.fence(warps, mask)

    return run


FORMS: tuple[Form, ...] = (
    (_fence, r"wgmma\.(?P<what>fence|commit_group)\.sync\.aligned"),
    (_wait, r"wgmma\.wait_group\.sync\.aligned"),
    (_multiplication, r"wgmma\.mma_async(?P<sparse>\.sp)?\.sync\.aligned"
     r"\.m64n(?P<n>\d+)k(?P<k>\d+)"
     r"(?P<satfinite>\.satfinite)?(?P<types>(?:\.(?:f16|bf16|tf32|f32|e4m3|e5m2|[su]8|b1|s32))+)"
     r"(?P<late>\.satfinite)?(?P<op>\.and\.popc)?"),
)  # fmt: skip
THREAD_FORMS: tuple[Form, ...] = (
    (_proxy_fence, r"fence\.proxy\.async(?:\.shared::(?:cta|cluster))?"),
)
"""What each thread does by itself."""
