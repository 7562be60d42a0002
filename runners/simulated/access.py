"""Moves, loads and stores, of threads and of rows of matrices; copies, barriers, and what stops.

Source: PTX ISA 9.7.9.1 (mov), 9.7.9.8 to .11 (ld, ldu, st), 9.7.9.13 to .17 (prefetch, discard),
9.7.9.20 to .22 (isspacep, cvta), 9.7.9.25 (cp.async), 9.7.13 (parallel synchronisation), 9.7.14.5
(ldmatrix and others), 9.7.19 (miscellaneous).
Each warp keeps to its own image, and all of a launch's accesses happen in one order that everybody
sees: how caches are used, fences and hints change nothing.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from runners.simulated import floating
from runners.simulated.integers import LOGIC, ORDERED
from runners.simulated.operands import SINK, OperandReader
from runners.simulated.scalar import Qualifiers, written
from runners.simulated.silicon import Layout, RowUnit, gather, layout_of, scatter
from runners.simulated.syntax import (
    TYPE_BITS,
    ImmediateText,
    Name,
    Operand,
    TrapKind,
    VectorText,
    refuse,
)
from runners.simulated.warps import (
    DTYPES,
    ELEMENTS,
    LANES,
    WINDOWS,
    Addresses,
    Mask,
    Operation,
    Owner,
    Site,
    Space,
    Values,
    WarpState,
    constant,
    constant_of,
    places,
    read_runs,
    spread,
    write_runs,
)

Form = tuple[Callable[[OperandReader, re.Match[str]], Operation], str]
"""What decodes an opcode, and its pattern."""
_SPACE = r"global|shared(?:::(?:cta|cluster))?|local|const|param(?:::(?:entry|func))?"
_HOW = (
    r"\.(?:weak|volatile|relaxed|acquire|release|acq_rel|mmio|cta|cluster|gpu|sys|unified"
    r"|nc|ca|cg|cs|lu|cv|wb|wt|level::\w+|L1::\w+|L2::\w+)"
)
_ORDER = rf"(?:{_HOW})*"
_TYPE = r"\.(?P<type>[bus](?:8|16|32|64)|b128|f16|bf16|f32|f64)"
_ACCESS = rf"{_ORDER}(?:\.(?P<space>{_SPACE}))?{_ORDER}(?:\.v(?P<count>[248]))?{_TYPE}"


def space_named(name: str | None) -> Space:
    """Return the state space of a qualifier, generic where there is none."""
    return Space.GENERIC if not name else Space(name.partition("::")[0])


def _elements(match: re.Match[str]) -> tuple[str, int]:
    """Return type and number of what a thread moves; 128 bits are two elements (5.2.1)."""
    kind, count = match["type"], int(match["count"] or 1)
    return ("b64", 2 * count) if kind == "b128" else (kind, count)


def _load(operands: OperandReader, match: re.Match[str]) -> Operation:
    kind, count = _elements(match)
    bits = TYPE_BITS[kind]
    width = bits // 8
    target, place = operands.expect(2, 3)[:2]
    targets = []
    for part in operands.parts(target, count):
        name = operands.destination(part, bits, wider=True)
        targets.append((name, DTYPES[bits if name == SINK else operands.width(part.text)]))
    space = operands.space(place, space_named(match["space"]))
    address = operands.address(place, space)

    def run(warps: WarpState, mask: Mask) -> None:
        starts = address(warps)
        if mask is not None and mask.shape[0] > starts.shape[0]:
            starts = spread(starts, (LANES, starts.shape[1]))
        read = read_runs(warps, space, starts, count, width, mask, alignment=width * count)
        for i, (name, dtype) in enumerate(targets):
            value = read[:, i]
            if value.dtype != dtype:
                # A narrow value is extended by its type's sign (PTX ISA 9.4.1).
                value = (value.view(f"i{width}") if kind[0] == "s" else value).astype(dtype)
            warps.write(name, value, mask)

    return run


def _store(operands: OperandReader, match: re.Match[str]) -> Operation:
    kind, count = _elements(match)
    bits = TYPE_BITS[kind]
    place, origin = operands.expect(2, 3)[:2]
    space = operands.space(place, space_named(match["space"]))
    # What lies in a thread's own memory may be a copy of what was never written.
    copied = space in (Space.LOCAL, Space.GENERIC)
    sources = [
        operands.source(part, bits, wider=True, copied=copied)
        for part in operands.parts(origin, count)
    ]
    address = operands.address(place, space)
    width, dtype = bits // 8, DTYPES[bits]

    def run(warps: WarpState, mask: Mask) -> None:
        starts, size = address(warps), warps.indices.size
        held = [source(warps) for source in sources]
        if count == 1 and held[0].dtype is dtype:
            values = held[0][:, None]
        else:
            values = np.empty((LANES, count, size), dtype)
            for i, value in enumerate(held):
                values[:, i] = value
        write_runs(warps, space, spread(starts, (LANES, size)), values, mask,
                   alignment=width * count)  # fmt: skip

    return run


def _move(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Decode mov: of a register, of a vector of them, or between a word and its parts."""
    bits = TYPE_BITS[match["type"]]
    given, origin = operands.expect(2)
    if match["count"] or bits == 128:
        count, bits = int(match["count"] or 2), min(bits, 64)
        keys = operands.registers(given, count, bits)
        sources = [operands.source(e, bits, copied=True) for e in operands.parts(origin, count)]
        return written([(key, DTYPES[bits]) for key in keys], lambda *parts: parts, sources)
    vector = given if isinstance(given, VectorText) else origin
    if not isinstance(vector, VectorText):
        name, only = operands.destination(given, bits), operands.source(origin, bits, copied=True)
        return lambda warps, mask: warps.write(name, only(warps), mask)
    count = len(vector.parts)
    if bits % (8 * count):
        operands.unsupported(f"{count} parts in {bits} bits")
    part, dtype = bits // count, DTYPES[bits]
    places = [dtype.type(place) for place in range(0, bits, part)]
    if isinstance(given, VectorText):
        return written(
            [(operands.destination(each, part), DTYPES[part]) for each in given.parts],
            lambda whole: tuple((whole >> place).astype(DTYPES[part]) for place in places),
            [operands.source(origin, bits, copied=True)],
        )
    return written(
        [(operands.destination(given, bits), dtype)],
        lambda *each: sum(
            (part.astype(dtype) << place for part, place in zip(each, places, strict=True)),
            np.zeros((1, 1), dtype),
        ),
        [operands.source(each, part, copied=True) for each in vector.parts],
    )


def _generic_address(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Convert between a window and generic addressing; global addresses are generic as they are."""
    target, given = operands.expect(2)
    window = WINDOWS[operands.space(given, space_named(match["space"]))]
    name, source = operands.destination(target, 64), operands.source(given, 64)
    shift = constant_of(-window if match["to"] else window)
    return lambda warps, mask: warps.write(name, source(warps) + shift, mask)


def _is_in_space(operands: OperandReader, match: re.Match[str]) -> Operation:
    target, given = operands.expect(2)
    name, source = operands.destination(target, 1), operands.source(given, 64)
    # Windows are 2^40 bytes apart, and global memory is above all of them.
    window = WINDOWS[space_named(match["space"])]
    lowest = np.uint64(window or max(WINDOWS.values()) + (1 << 40))
    beyond = np.uint64(1 << 40 if window else (1 << 64) - int(lowest))
    return lambda warps, mask: warps.write(name, source(warps) - lowest < beyond, mask)


_SUM = floating.adjusted(floating.add)
_SUMS_SINCE = {"bf16": 90, "bf16x2": 90}
"""Target that has the sum of a type (9.7.13.5, Target ISA Notes), where that is above sm_70."""
_ATOMIC: dict[str, Callable[..., Any]] = {
    "add": np.add,
    **ORDERED,
    **LOGIC,
    "exch": lambda _, new: new,
    "cas": lambda old, wanted, new: np.where(old == wanted, new, old),
    "inc": lambda old, top: np.where(old >= top, 0, old + old.dtype.type(1)),
    "dec": lambda old, top: np.where((old == 0) | (old > top), top, old - old.dtype.type(1)),
}


def _atomic(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Read, change and write, one thread after the other in the order of warps and lanes.

    Source: PTX ISA 9.7.13.5 (atom), 9.7.13.7 (red).
    """
    name, kind, returns = match["name"], match["type"], match["stem"] == "atom"
    bits, element = TYPE_BITS[kind], kind.removesuffix("x2")
    of_floats = element in floating.NAN
    if name is None or name not in (["add"] if of_floats else ["cas"] if bits == 16 else _ATOMIC):
        operands.unsupported("there is no such operation of this type")
    operands.need(_SUMS_SINCE.get(kind, 0))
    given = operands.expect(*((3, 4) if returns else (2, 3)))
    target, place, *values = given if returns else (Name(SINK), *given)
    if len(values) != (2 if name == "cas" else 1):
        operands.unsupported(f"has {len(given)} operands")
    key = operands.destination(target, bits)
    space = operands.space(place, space_named(match["space"]))
    address = operands.address(place, space)
    sources = [operands.source(each, bits) for each in values]
    width = bits // 8
    seen = np.dtype(f"{'i' if kind.startswith('s') else 'u'}{width}")
    half = np.dtype(f"u{TYPE_BITS[element] // 8}")

    def added(q: Qualifiers, *words: Values) -> Any:
        """Add numbers, of halves each for itself."""
        return _SUM(q, *[word.view(half) for word in words]).astype(half).reshape(-1).view(seen)

    def run(warps: WarpState, mask: Mask) -> None:
        whole = (LANES, warps.indices.size)
        starts = np.broadcast_to(address(warps), whole)
        held = np.zeros(whole, seen)
        # Transposed: by warps first.
        operand = [np.broadcast_to(source(warps), whole).T.view(seen) for source in sources]
        who = None if mask is None else warps.all_of(mask)
        for found in places(warps, space, starts, width, who, True, width):
            chosen = warps.all_of(found.chosen).T
            words = found.segment.data.view(ELEMENTS[width]).view(seen)
            change = _ATOMIC[name]
            if of_floats:
                # In global memory subnormals of f32 are zeros, on what there is (9.7.13.5).
                flushes = kind == "f32" and found.segment.owner is Owner.LAUNCH
                q = Qualifiers(str, element=element, ftz="ftz" * (flushes and not warps.otherwise))
                change = partial(added, q)
            given = [each[chosen] for each in operand]
            before = np.empty(int(chosen.sum()), seen)
            for turn, at in enumerate(np.broadcast_to(found.offsets, whole).T[chosen] // width):
                before[turn] = words[at]
                now = [each[turn : turn + 1] for each in given]
                words[at] = change(words[at : at + 1], *now)[0]
            held.T[chosen] = before
        warps.write(key, held.view(DTYPES[bits]), mask)

    return run


_SIZES = {"ca": (4, 8, 16), "cg": (16,)}
"""Bytes of one copy (9.7.9.25.3.1)."""


def _copy(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Copy up to 16 bytes for each thread, and fill up with zeros what it does not read (cp.async).

    A copy is made when it is asked for: of the moments between that and the wait for it, which the
    ISA leaves open, the first. Waiting has nothing left to do.
    """
    hints = 1 if match["hint"] else 0
    target, origin, given, *rest = operands.expect(3 + hints, 4 + hints)
    if not isinstance(given, ImmediateText) or given.value not in _SIZES[match["cache"]]:
        operands.unsupported(f"copies {' or '.join(map(str, _SIZES[match['cache']]))} bytes")
    size = given.value
    to = operands.address(target, Space.SHARED)
    source = operands.address(origin, Space.GLOBAL)
    read = operands.source(rest[0], 32) if len(rest) > hints else None

    def run(warps: WarpState, mask: Mask) -> None:
        whole = (LANES, warps.indices.size)
        starts, stops = (np.broadcast_to(each(warps), whole) for each in (source, to))
        for address in (starts, stops):
            warps.check_alignment(address, size, mask)
        if read is None:
            values = read_runs(warps, Space.GLOBAL, starts, size, 1, mask)
        else:
            wanted = np.broadcast_to(read(warps), whole)
            values = np.zeros((LANES, size, warps.indices.size), np.uint8)
            for byte in range(size):
                chosen = (wanted > byte) & warps.all_of(mask)
                if chosen.any():
                    part = read_runs(warps, Space.GLOBAL, starts + np.uint64(byte), 1, 1, chosen)
                    values[:, byte] = np.where(chosen, part[:, 0], np.uint8(0))
        write_runs(warps, Space.SHARED, stops, values, mask)

    return run


def _nothing(operands: OperandReader, match: re.Match[str]) -> Operation:
    if match[0].startswith("cp.async"):
        operands.expect(int(match[0].endswith("wait_group")))
    return lambda _warps, _mask: None


def _policy(operands: OperandReader, _match: re.Match[str]) -> Operation:
    """Make a cache policy: opaque bits (9.7.9.18), that nothing but hints takes."""
    name = operands.destination(operands.expect(1, 2, 4)[0], 64)
    return lambda warps, mask: warps.write(name, constant(warps.otherwise, 64), mask)


def _stop(operands: OperandReader, match: re.Match[str]) -> Operation:
    operands.expect(0)
    return stopping(f"the program executes {match[0]}")


def stopping(why: str) -> Operation:
    """Return what ends a launch with an error."""

    def run(warps: WarpState, mask: Mask) -> None:
        if mask is None or mask.any():
            refuse(TrapKind.STOPPED, 0, why, warps.names(mask))

    return run


def leaving_open(offsets: Sequence[int]) -> Operation:
    """Return what puts words into local memory that nobody can tell."""

    def run(warps: WarpState, mask: Mask) -> None:
        whole = (LANES, warps.indices.size)
        values = np.full((LANES, 1, whole[1]), warps.otherwise, np.uint32)
        for offset in offsets:
            write_runs(warps, Space.LOCAL, np.full(whole, offset, np.uint64), values, mask)

    return run


def writing(
    operands: OperandReader,
    names: Sequence[str],
    compute: Callable[[WarpState, Mask], list[Values]],
) -> Operation:
    """Return the operation that writes what is computed for whole warps to registers."""

    def execute(warps: WarpState, mask: Mask) -> None:
        mask = warps.whole(mask)
        words = corrupted(operands, compute(warps, mask), warps)
        for name, word in zip(names, words, strict=True):
            warps.write(name, word, mask)

    return execute


def corrupted(operands: OperandReader, words: list[Values], warps: WarpState) -> list[Values]:
    """Return registers that an instruction is about to write, as a broken device has them."""
    if not operands.silicon.damages:
        return words
    site = Site(warps.indices, warps.sms, warps.launch, warps.line)
    for damage in operands.silicon.damages:
        if damage.corrupt and damage.opcodes.search(operands.instruction.opcode):
            words = damage.corrupt(words, site)
    return words


# ldmatrix, stmatrix and movmatrix: rows of 8 x 8 matrices (PTX ISA 9.7.14.5.15 to .17).
#
# Layouts, with lane t (the page's text and figures 104 to 106; CUTLASS's traits agree), of which
# only the first was measured (H200). `.m8n8.b16`: register i holds row t / 4 of matrix i, elements
# 2 (t mod 4) and the next, the first in the low half; with `.trans`, element (r, c) is found at row
# c of memory. `.m8n16` with a source format: register i holds row t / 4 of matrix i, bytes
# 4 (t mod 4) to 4 (t mod 4) + 3, the first lowest. `.m16n16.trans`: matrix i has 16 row addresses,
# from lanes 16 i on; register 2 i + h, byte j is byte t / 4 + 8 h of memory row 4 (t mod 4) + j. A
# row of 16 narrow elements occupies 16 bytes: of `.b4x16_p64` 8 are data, of `.b6x16_p32` 12, the
# lowest element in the lowest bits. An element lands in the low bits of its byte, zeros above.

_ROW_BYTES = 16
"""What one address stands for, padding included; also its alignment."""
# What may be combined: shape, type, whether `.trans` stands there (None is either), largest .num.
_LOADED: dict[tuple[str, str], tuple[bool | None, int]] = {
    ("m8n8", "b16"): (None, 4),
    ("m8n16", "b8x16.b6x16_p32"): (False, 4),
    ("m8n16", "b8x16.b4x16_p64"): (False, 4),
    ("m8n16", "s8.s4"): (False, 4),
    ("m16n16", "b8"): (True, 2),
    ("m16n16", "b8x16.b6x16_p32"): (True, 2),
    ("m16n16", "b8x16.b4x16_p64"): (True, 2),
}
_PACKED_BITS = {"b8x16.b6x16_p32": 6, "b8x16.b4x16_p64": 4, "s8.s4": 4}
"""Bits in memory of elements that are bytes in registers."""


@lru_cache(maxsize=64)
def _rows_layout(shape: str, number: int, transposed: bool) -> Layout:
    """Return where so many matrices, of 16-bit or 8-bit elements, are in registers."""
    rows, columns = map(int, shape[1:].split("n"))
    parts = 2 if columns == 8 else 4
    matrix, half, lane, part = np.meshgrid(
        np.arange(number), np.arange(rows // 8), np.arange(LANES), np.arange(parts), indexing="ij"
    )
    row, column = lane // 4 + 8 * half, parts * (lane % 4) + part
    if transposed:
        row, column = column, row
    elements = (matrix * rows + row) * columns + column
    return layout_of(32 // parts, elements.reshape(-1, LANES, parts))


def _expanded(rows: Values, bits: int, unit: RowUnit) -> Values:
    """Take 16 elements of 4 or 6 bits out of each row's 16 bytes, a byte for each."""
    data = rows[:, : 2 * bits]
    if unit.swapped_nibbles:
        data = data[:, ::-1]
    every_bit = np.unpackbits(data, axis=1, bitorder="little").reshape(len(rows), 16, bits, -1)
    values = np.zeros((len(rows), 16, rows.shape[-1]), np.uint8)
    for position in range(bits):
        values |= every_bit[:, :, position] << np.uint8(position)
    if unit.signed:
        sign = np.uint8(1 << (bits - 1))
        values = (values ^ sign) - sign
    return values


def _rewired(words: list[Values], unit: RowUnit) -> list[Values]:
    """Return registers as a unit takes or gives them; a sound one leaves them as they are."""
    if unit.exchanged_registers and len(words) > 1:
        words = [words[1], words[0], *words[2:]]
    if unit.swapped_halves:
        words = [(word >> np.uint32(16)) | (word << np.uint32(16)) for word in words]
    return words


def _row_starts(
    operands: OperandReader, place: Operand, match: re.Match[str], unit: RowUnit
) -> Callable[[WarpState], Addresses]:
    """Return what computes (32, warps or 1) addresses of rows in shared memory."""
    space = space_named(match["space"])
    address = operands.address(place, space)

    def compute(warps: WarpState) -> Addresses:
        every = address(warps)
        every = spread(every, (LANES, every.shape[1]))
        if space is Space.GENERIC:
            # Outside the shared window this wraps to an address that no block has.
            every = every - np.uint64(WINDOWS[Space.SHARED])
        return np.roll(every, -unit.rotation, axis=0) if unit.rotation else every

    return compute


def _load_rows(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Decode ldmatrix."""
    shape, kind, number = match["shape"], match["type"], int(match["num"])
    transposed, target = match["trans"] is not None, operands.silicon.target
    trans, largest = _LOADED.get((shape, kind), (None, 0))
    if number > largest or trans not in (None, transposed):
        operands.unsupported("this combination of qualifiers is not known")
    # Who knows 8-, 6- and 4-bit elements: 9.7.14.5.15, Target ISA Notes.
    narrow = target.suffix and target.architecture >= 100
    if shape == "m8n8":
        operands.need(75)
    elif not narrow and not (kind == "s8.s4" and target.name == "sm_90a"):
        operands.lacks("sm_100a, sm_110a, sm_120a or one of their families")
    unit = operands.unit(RowUnit(transposed=transposed, signed=kind == "s8.s4"))
    layout = _rows_layout(shape, number, unit.transposed)
    given, place = operands.expect(2)
    names = operands.registers(given, layout.count, 32)
    starts = _row_starts(operands, place, match, unit)
    used = number * (16 if shape == "m16n16" else 8)
    # Up to sm_75 every lane's address has to be valid, used or not (the page's note).
    checked = LANES if operands.silicon.architecture <= 75 else used
    width = layout.bits // 8
    # Of s8.s4 nothing is padding.
    row_bytes = _ROW_BYTES // 2 if kind == "s8.s4" else _ROW_BYTES

    def compute(warps: WarpState, mask: Mask) -> list[Values]:
        rows = read_runs(
            warps, Space.SHARED, starts(warps)[:checked], row_bytes // width, width, mask,
            alignment=row_bytes,
        )[:used]  # fmt: skip
        if kind in _PACKED_BITS:
            rows = _expanded(rows, _PACKED_BITS[kind], unit)
        return _rewired(scatter(rows.reshape(-1, rows.shape[2]), layout), unit)

    return writing(operands, names, compute)


def _store_rows(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Decode stmatrix of 16-bit elements, the reverse of ldmatrix."""
    number = int(match["num"])
    operands.need(90)
    unit = operands.unit(RowUnit(transposed=match["trans"] is not None))
    layout = _rows_layout("m8n8", number, unit.transposed)
    place, given = operands.expect(2)
    sources = operands.sources(given, number, 32)
    starts = _row_starts(operands, place, match, unit)

    def execute(warps: WarpState, mask: Mask) -> None:
        mask = warps.whole(mask)
        size = warps.indices.size
        words = _rewired([spread(source(warps), (LANES, size)) for source in sources], unit)
        words = corrupted(operands, words, warps)
        rows = gather(words, layout, size).reshape(8 * number, 8, size)
        addresses = starts(warps)[: 8 * number]
        write_runs(warps, Space.SHARED, addresses, rows, mask, alignment=_ROW_BYTES)

    return execute


def _transpose(operands: OperandReader, _: re.Match[str]) -> Operation:
    """Decode movmatrix: lane 4 g + t gets elements (2 t, g) and (2 t + 1, g)."""
    target, given = operands.expect(2)
    operands.need(75)
    unit = operands.unit(RowUnit(transposed=True))
    names = [operands.destination(target, 32)]
    (source,) = operands.sources(given, 1, 32)
    held, moved = _rows_layout("m8n8", 1, False), _rows_layout("m8n8", 1, unit.transposed)

    def compute(warps: WarpState, _: Mask) -> list[Values]:
        words = scatter(gather([source(warps)], held, warps.indices.size), moved)
        return [np.roll(word, -unit.rotation, axis=0) for word in _rewired(words, unit)]

    return writing(operands, names, compute)


_SHARED = r"(?P<trans>\.trans)?(?:\.(?P<space>shared(?:::cta)?))?"
FORMS: tuple[Form, ...] = (
    (_load, rf"ldu?{_ACCESS}"),
    (_store, rf"st{_ACCESS}"),
    (_move, r"mov(?:\.v(?P<count>[24]))?\.(?P<type>pred|[bus](?:8|16|32|64)|f32|f64|b128)"),
    (_generic_address, rf"cvta(?P<to>\.to)?\.(?P<space>{_SPACE})\.u64"),
    (_is_in_space, rf"isspacep\.(?P<space>{_SPACE})"),
    (_atomic, rf"(?P<stem>atom|red)(?:{_HOW}|\.(?P<space>global|shared(?:::(?:cta|cluster))?)"
     r"|\.noftz|\.(?P<name>add|min|max|and|or|xor|exch|cas|inc|dec))*"
     r"\.(?P<type>[bus](?:16|32|64)|b?f16(?:x2)?|f32|f64)"),
    (_copy, r"cp\.async\.(?P<cache>ca|cg)\.shared(?:::cta)?\.global"
     r"(?P<hint>\.L2::cache_hint)?(?:\.L2::(?:64|128|256)B)?"),
    (_nothing, r"cp\.async\.(?:commit_group|wait_all|wait_group)"
     r"|(?:membar|fence)(?:(?:\.|::)\w+)*|(?:prefetchu?|discard|applypriority)(?:(?:\.|::)\w+)+"
     r"|nanosleep\.u32|pmevent(?:\.mask)?|griddepcontrol\.\w+"
     r"|setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32"),
    (_policy, r"createpolicy\.(?:range|fractional|cvt)(?:(?:\.|::)\w+)*\.b64"),
    (_stop, r"trap|brkpt"),
)  # fmt: skip
"""Every form of one thread that is known."""
ROW_FORMS: tuple[Form, ...] = (
    (_load_rows, rf"ldmatrix\.sync\.aligned\.(?P<shape>m8n8|m8n16|m16n16)\.x(?P<num>[124])"
     rf"{_SHARED}\.(?P<type>b16|b8|b8x16\.b6x16_p32|b8x16\.b4x16_p64|s8\.s4)"),
    (_store_rows, rf"stmatrix\.sync\.aligned\.m8n8\.x(?P<num>[124]){_SHARED}\.b16"),
    (_transpose, r"movmatrix\.sync\.aligned\.m8n8\.trans\.b16"),
)  # fmt: skip
"""Those of matrices, by rows: of a warp."""
