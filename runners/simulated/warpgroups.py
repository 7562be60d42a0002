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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.access import Form, corrupted
from runners.simulated.operands import OperandReader, Source
from runners.simulated.products import ProductTypes, multiply_on
from runners.simulated.silicon import (
    BITS,
    BitOperation,
    BitUnit,
    FloatUnit,
    IntegerUnit,
    MultiplyUnit,
)
from runners.simulated.syntax import ImmediateText, TrapKind, VectorText, refuse
from runners.simulated.warps import (
    DTYPES,
    GARBAGE,
    LANES,
    Key,
    Mask,
    Operation,
    RegisterFile,
    Space,
    Values,
    WarpState,
    poison,
    read_runs,
    spread,
)

_WARPS, _ROWS = 4, 16
"""Warps of a warpgroup, and rows of D and A that each has (9.7.15.5.1.1)."""
_LEAST_N = 8
Numbers = NDArray[np.int64]
"""(warps of the launch,), or the numbers of some of them."""


class _Held:
    """A register that multiplications use: when, by the fences of each warp; -1 is never."""

    def __init__(self, warps: int) -> None:
        self.touched, self.as_d, self.as_a, self.shared = np.full((4, warps), -1)
        """When others accessed it, when it was in D or in A, and in which D: `shared`."""
        self.flying_d, self.flying_a = np.zeros((2, warps), np.int64)  # multiplications in flight
        self.saved = np.zeros((LANES, warps), np.uint32)  # what it holds for these


@dataclass(eq=False)
class _Begun:
    """A multiplication in flight, for warps of the launch."""

    product: "_Product"
    group: Numbers  # of each warp: -1 in none yet, -2 not here or done
    starts: dict[str, NDArray[np.uint64]]  # descriptors of A and B, (warps,)
    adds: NDArray[np.bool_]  # whether D is added, (warps,)
    line: int
    places: list[tuple[int, Numbers, Numbers]] = field(default_factory=list)
    """Granules of segments that are read, and the warps that read them."""


class Queue:
    """What the warps of a launch have in flight."""

    def __init__(self, warps: WarpState) -> None:
        self.size = int(warps.indices.max(initial=0)) + 1
        self.fences, self.groups = np.zeros((2, self.size), np.int64)
        self.acting: Numbers | None = None  # warps that execute; None: all
        self.lenient = False
        self.begun: list[_Begun] = []
        self.now: _Begun | None = None  # what begins
        self.held: dict[str, _Held] = {}
        self._shapes: dict[Any, int] = {}
        self._marks: dict[int, tuple[NDArray[np.int8], Numbers, NDArray[np.int16]]] = {}
        """Of segments by granule: 2 written, 1 with a proxy fence since; by whom; readers."""
        old, self._warps = warps.registers, warps
        warps.registers = _Registers(old)
        warps.registers.__dict__ |= {**vars(old), "queue": self}

    def refuse(self, said: str, those: Numbers) -> None:
        """Refuse what has no order, unless that is passed over."""
        if not self.lenient:
            refuse(TrapKind.RACE, self._warps.line, said, tuple(those.tolist()))

    def touch(self, key: str) -> None:
        """Take note that the warps that execute access a register."""
        those = self._warps.indices if self.acting is None else self.acting
        held = self.held.get(key)
        if held is None:
            held = self.held[key] = _Held(self.size)
        flying = those[(held.flying_d[those] > 0) | (held.flying_a[those] > 0)]
        if flying.size:
            which = "D" if held.flying_d[flying[0]] else "A"
            said = f"register {key} is accessed while it is {which} of the multiplication in line "
            self.refuse(
                f"{said}{self._line_of(key, int(flying[0]))}, which nobody waited for", flying
            )
        held.touched[those] = self.fences[those]

    def _line_of(self, key: str, warp: int) -> int:
        lines = (
            one.line for one in self.begun
            if one.group[warp] > -2 and key in (*one.product.d, *one.product.a)
        )  # fmt: skip
        return next(lines, 0)

    def begin(self, begun: _Begun, those: Numbers) -> None:
        """Put a multiplication into the queue."""
        product, fences = begun.product, self.fences[those]
        shape = self._shapes.setdefault((product.shape, product.d), len(self._shapes))
        if not fences.all():
            self.refuse("no wgmma.fence stands before the first multiplication", those[fences == 0])
        if len({*product.d, *product.a}) < len(product.d) + len({*product.a}):
            self.refuse("a register is given twice in D, or in D and A", those)
        for key in (*product.d, *product.a):
            held = self.held.setdefault(key, _Held(self.size))
            d, own = key in product.d, held.shared[those] == shape
            flying = held.flying_d[those] > 0
            bad = flying & ~own | (held.flying_a[those] > 0) if d else flying
            if bad.any():
                said = f"register {key} is in use by the multiplication in line "
                self.refuse(f"{said}{self._line_of(key, int(those[bad][0]))}", those[bad])
            late = (held.touched[those] == fences) | (held.as_d[those] == fences) & ~(own & d)
            late |= d & (held.as_a[those] == fences)
            if late.any():
                said = f"register {key} was accessed, and no wgmma.fence stands between that and "
                self.refuse(f"{said}the multiplication", those[late])
        raw = self._warps.registers
        for key in dict.fromkeys((*product.d, *product.a)):
            held = self.held[key]
            value = dict.get(raw, key)
            if value is None:
                value = poison(DTYPES[32], GARBAGE, key)
            whole, alive = spread(value, (LANES, self._warps.indices.size)), self._warps.indices
            fresh = np.isin(alive, those) & ((held.flying_d + held.flying_a)[alive] == 0)
            held.saved[:, alive[fresh]] = whole[:, fresh]
            garbage = np.where(fresh, poison(DTYPES[32], GARBAGE, key), whole)
            dict.__setitem__(raw, key, garbage)
        for key in product.d:
            held = self.held[key]
            held.flying_d[those] += 1
            held.as_d[those], held.shared[those] = fences, shape
        for key in {*product.a}:
            self.held[key].flying_a[those] += 1
            self.held[key].as_a[those] = fences
        self.begun.append(begun)

    def fence(self, those: Numbers) -> None:
        """Order registers before with those behind."""
        self.fences[those] += 1

    def commit(self, those: Numbers) -> None:
        """End a group."""
        for one in self.begun:
            one.group[those] = np.where(
                one.group[those] == -1, self.groups[those], one.group[those]
            )
        self.groups[those] += 1

    def wait(self, those: Numbers, pending: int) -> None:
        """Compute what is to be there: all but the newest groups."""
        for one in self.begun:
            group = one.group[those]
            ready = those[(group >= 0) & (self.groups[those] - group > pending)]
            if ready.size:
                self._finish(one, ready)
        self.begun = [one for one in self.begun if (one.group > -2).any()]

    def _finish(self, one: _Begun, ready: Numbers) -> None:
        warps, alive = self._warps, self._warps.indices
        here = np.isin(alive, ready)
        words = one.product.compute(warps, one, here, lambda key: self.held[key].saved[:, alive])
        for key, word in zip(one.product.d, words, strict=True):
            self.held[key].saved[:, alive[here]] = spread(word, (LANES, alive.size))[:, here]
        for key in one.product.d:
            self.held[key].flying_d[ready] -= 1
        for key in {*one.product.a}:
            self.held[key].flying_a[ready] -= 1
        raw = warps.registers
        for key in dict.fromkeys((*one.product.d, *one.product.a)):
            held = self.held[key]
            back = here & ((held.flying_d + held.flying_a)[alive] == 0)
            value = spread(dict.__getitem__(raw, key), (LANES, alive.size))
            dict.__setitem__(raw, key, np.where(back, held.saved[:, alive], value))
        one.group[ready] = -2
        for segment, where, readers in one.places:
            np.subtract.at(self._marks[segment][2], where[np.isin(readers, ready)], 1)
        one.places = [
            (segment, where[~np.isin(readers, ready)], readers[~np.isin(readers, ready)])
            for segment, where, readers in one.places
        ]

    # Shared memory, as `runners.simulated.races` tells it, in granules

    def _of(self, segment: int, size: int) -> tuple[NDArray[np.int8], Numbers, NDArray[np.int16]]:
        if segment not in self._marks:
            marks = np.zeros(size, np.int8), np.full(size, -1), np.zeros(size, np.int16)
            self._marks[segment] = marks
        return self._marks[segment]

    def stored(
        self, segment: int, size: int, where: Numbers, threads: Numbers
    ) -> NDArray[np.bool_]:
        """Take note of what threads write; return where a multiplication in flight reads."""
        written, by, readers = self._of(segment, size)
        written[where], by[where] = 2, threads
        found: NDArray[np.bool_] = readers[where] > 0
        return found

    def read(self, segment: int, size: int, where: Numbers, warps: Numbers) -> NDArray[np.bool_]:
        """Take note of what begins to be read; return where the async proxy may not see it yet."""
        written, _, readers = self._of(segment, size)
        if self.now is not None:
            self.now.places.append((segment, where, warps))
            np.add.at(readers, where, 1)
        found: NDArray[np.bool_] = written[where] > 0
        return found

    def proxy_fence(self, threads: Numbers) -> None:
        """Take note that threads order what they wrote before what the async proxy does."""
        for written, by, _ in self._marks.values():
            written[(written == 2) & np.isin(by, threads)] = 1

    def barrier(self, threads: Numbers) -> None:
        """Take note that threads waited for each other."""
        for written, by, _ in self._marks.values():
            written[(written == 1) & np.isin(by, threads)] = 0


class _Registers(RegisterFile):
    """Registers that tell a queue who accesses them."""

    queue: Queue

    def __getitem__(self, key: Key) -> Values:
        if isinstance(key, str):
            self.queue.touch(key)
        found: Values = dict.__getitem__(self, key)
        return found

    def get(self, key: Key, default: Any = None) -> Any:
        if isinstance(key, str):
            self.queue.touch(key)
        return dict.get(self, key, default)

    def __setitem__(self, key: Key, value: Values) -> None:
        if isinstance(key, str):
            self.queue.touch(key)
        dict.__setitem__(self, key, value)


def queue_of(warps: WarpState) -> Queue:
    """Return what the warps of a launch have in flight."""
    if warps.queue is None:
        warps.queue = Queue(warps)
    found: Queue = warps.queue
    return found


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
    descriptor: NDArray[np.uint64], lines: Numbers, byte: Numbers, transposed: bool
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
    turned = ((x >> 7) - base) % (width // 16) << 4
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
            where = _addresses(bits, line.reshape(-1, 1), byte.reshape(-1, 1) + 2 * first, True)
        else:
            line, byte = np.meshgrid(np.arange(self.lines), np.arange(0, row, 16), indexing="ij")
            where = _addresses(bits, line.reshape(-1, 1) + first, byte.reshape(-1, 1), False)
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


# Fragments of a warp (9.7.15.5.1.1): 16 rows


def _lanes_of(rows: Numbers, part: Numbers) -> Numbers:
    return 4 * (rows % 8) + part


def _gathered_a(words: Sequence[Values], bits: int, depth: int) -> Values:
    """Return (16, depth, warps) elements of A from its four registers."""
    row, k = np.meshgrid(np.arange(_ROWS), np.arange(depth), indexing="ij")
    each = 32 // bits
    register, lane = row // 8 + 2 * (k // (4 * each)), _lanes_of(row, k % (4 * each) // each)
    found = np.stack(words)[register, lane]
    shift = (k % each * bits).astype(np.uint32)[..., None]
    elements: Values = (found >> shift & np.uint32((1 << bits) - 1)).astype(DTYPES[max(8, bits)])
    return elements


def _places_of_d(columns: int) -> tuple[Numbers, Numbers]:
    """Return number and lane of each of (16, columns) elements."""
    row, column = np.meshgrid(np.arange(_ROWS), np.arange(columns), indexing="ij")
    number = 4 * (column // 8) + 2 * (row // 8) + column % 2
    return number, _lanes_of(row, column % 8 // 2)


@dataclass(frozen=True, eq=False)
class _Product:
    """A decoded multiplication."""

    operands: OperandReader
    shape: str  # with the type of D
    d: tuple[str, ...]
    a: tuple[str, ...]  # registers of A; none of one in shared memory
    tiles: dict[str, _Tile]
    signs: tuple[int, int]  # bits of elements of A and B that are inverted
    adds: Source
    types: ProductTypes
    columns: int
    depth: int
    unit: MultiplyUnit

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
        begun = _Begun(self, group, starts, adds, warps.line)
        queue.begin(begun, those)
        # Bytes that are nowhere, or that nobody wrote, are refused where they are named.
        queue.now = begun
        try:
            self._tiles(warps, begun, np.isin(alive, those))
        finally:
            queue.now = None

    def _tiles(self, warps: WarpState, begun: _Begun, here: NDArray[np.bool_]) -> dict[str, Values]:
        alive = warps.indices
        rank = alive % warps.per_block % _WARPS
        mask = None if here.all() else here[None]
        return {
            name: tile.read(
                warps, begun.starts[name][alive], mask, _ROWS * rank if name == "a" else 0 * rank
            )
            for name, tile in self.tiles.items()
        }  # fmt: skip

    def compute(
        self, warps: WarpState, begun: _Begun, here: NDArray[np.bool_],
        saved: Callable[[str], Values],
    ) -> list[Values]:  # fmt: skip
        """Return the registers of D behind it."""
        tiles = self._tiles(warps, begun, here)
        bits = BITS[self.types.a]
        a = tiles["a"] if "a" in tiles else _gathered_a([*map(saved, self.a)], bits, self.depth)
        b = tiles["b"].swapaxes(0, 1)
        a, b = a ^ a.dtype.type(self.signs[0]), b ^ b.dtype.type(self.signs[1])
        number, lane = _places_of_d(self.columns)
        words = np.stack([saved(key) for key in self.d])
        halves = BITS[self.types.d] == 16
        if halves:
            c = words[number // 2, lane] >> (number % 2 * 16).astype(np.uint32)[..., None]
            c = (c & np.uint32(0xFFFF)).astype(np.uint16)
        else:
            c = words[number, lane]
        c = np.where(begun.adds[warps.indices], c, c.dtype.type(0))
        d = multiply_on(self.unit, a, b, c, self.types).astype(np.uint32)
        made = np.zeros((len(self.d), LANES, warps.indices.size), np.uint32)
        if halves:
            np.bitwise_or.at(
                made, (number // 2, lane), d << (number % 2 * 16).astype(np.uint32)[..., None]
            )
        else:
            made[number, lane] = d
        return corrupted(self.operands, [*made], warps)


def _multiplication(operands: OperandReader, match: re.Match[str]) -> Operation:
    _check_target(operands)
    types, columns, depth = match["types"][1:].split("."), int(match["n"]), int(match["k"])
    if len(types) != 3:
        operands.unsupported("three types are known")
    d, a, b = types
    floats, integers = a in ("f16", "bf16", "tf32", "e4m3", "e5m2"), a in ("s8", "u8")
    eight = {"e4m3", "e5m2"} if floats else {"s8", "u8"}
    wide = {"f16": 16, "bf16": 16, "tf32": 8, "b1": 256}.get(a, 32)
    results = {"f16": ("f16", "f32"), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32")}.get(
        a, ("f32",) if floats else ("s32",)
    )
    steps = columns % 8 == 0 if floats else columns in (8, 24) or columns % 16 == 0
    if (
        not (_LEAST_N <= columns <= 256 and steps) or depth != wide or d not in results
        or not (a == b or {a, b} <= eight) or bool(match["op"]) != (a == "b1")
        or (bool(match["satfinite"] or match["late"]) and not integers)
        or (a not in BITS)
    ):  # fmt: skip
        operands.unsupported("no such shape and types are known")
    given = list(operands.instruction.operands)
    in_registers = len(given) > 1 and isinstance(given[1], VectorText)
    immediates = 0
    if floats:
        immediates = 2 + ((1 if in_registers else 2) if BITS[a] == 16 else 0)
    operands.expect(4 + immediates)
    numbers = [
        one.value if isinstance(one, ImmediateText) and not one.float_bits else None
        for one in given[4:]
    ]
    if any(one not in (1, -1, (1 << 64) - 1) for one in numbers[:2]) or any(
        one not in (0, 1) for one in numbers[2:]
    ):
        operands.unsupported("imm-scale is 1 or -1, imm-trans 0 or 1, as constants")
    negates = [one != 1 for one in numbers[:2]] or [False, False]
    transposed = [bool(one) for one in numbers[2:]]
    tiles: dict[str, _Tile] = {}
    if not in_registers:
        over = bool(transposed) and transposed[0]
        tiles["a"] = _Tile(operands.source(given[1], 64), a, _ROWS, depth, over)
    over = bool(transposed) and transposed[-1]
    tiles["b"] = _Tile(operands.source(given[2], 64), b, columns, depth, over)
    made = ProductTypes(d, a, b, d)
    count = columns // (4 if BITS[d] == 16 else 2)
    product = _Product(
        operands=operands, shape=f"m64n{columns}k{depth}.{d}", tiles=tiles, types=made,
        d=operands.registers(given[0], count, 32),
        a=operands.registers(given[1], 4, 32) if in_registers else (),
        signs=(negates[0] << BITS[a] - 1, negates[1] << BITS[b] - 1),
        adds=operands.source(given[3], 1), columns=columns, depth=depth,
        unit=operands.unit(_unit(operands, made, depth, bool(match["satfinite"] or match["late"]))),
    )  # fmt: skip
    return product.begin


_BOTTOMS = {"e4m3": -6, "e5m2": -14}
"""Least exponents (OCP OFP8 1.0, table 1)."""
_BYTE_FRACTION = 13
"""Bits of 8-bit elements kept below the largest term, and in an f32 result."""


def _unit(operands: OperandReader, types: ProductTypes, depth: int, clamps: bool) -> MultiplyUnit:
    """Return the unit of an instruction: all of K at once."""
    if types.a == "b1":
        return BitUnit(operation=BitOperation.AND)
    if types.d == "s32":
        return IntegerUnit(signed_a=types.a == "s8", signed_b=types.b == "s8", saturating=clamps)
    floats = operands.silicon.chip.floats
    if types.a not in _BOTTOMS:
        return replace(floats[".".join(types)], block=depth)
    of_f16: FloatUnit = floats[f"{types.d}.f16.f16.{types.d}"]
    kept = _BYTE_FRACTION if types.d == "f32" else None
    return replace(
        of_f16, block=depth, fraction=_BYTE_FRACTION, kept=kept,
        bottoms=(_BOTTOMS[types.a], _BOTTOMS[types.b]),
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
        warps.memory.proxy_fence(mask)

    return run


FORMS: tuple[Form, ...] = tuple(
    (re.compile(pattern), decode)
    for decode, pattern in (
        (_fence, r"wgmma\.(?P<what>fence|commit_group)\.sync\.aligned"),
        (_wait, r"wgmma\.wait_group\.sync\.aligned"),
        (_multiplication, r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k(?P<k>\d+)"
         r"(?P<satfinite>\.satfinite)?(?P<types>(?:\.(?:f16|bf16|tf32|f32|e4m3|e5m2|[su]8|b1|s32))+)"
         r"(?P<late>\.satfinite)?(?P<op>\.and\.popc)?"),
    )
)  # fmt: skip
THREAD_FORMS: tuple[Form, ...] = (
    (re.compile(r"fence\.proxy\.async(?:\.shared::(?:cta|cluster))?"), _proxy_fence),
)
"""What each thread does by itself."""
