"""ldmatrix, stmatrix and movmatrix: rows of 8 x 8 matrices (PTX ISA 9.7.14.5.15 to .17).

Layouts, with lane t (the page's text and figures 104 to 106; CUTLASS's traits agree), of which only
the first was measured (H200):

- `.m8n8.b16`: register i holds row t / 4 of matrix i, elements 2 (t mod 4) and the next, the first
  in the low half. With `.trans`, element (r, c) is found at row c of memory.
- `.m8n16` with a source format: register i holds row t / 4 of matrix i, bytes 4 (t mod 4) to
  4 (t mod 4) + 3, the first lowest.
- `.m16n16.trans`: matrix i has 16 row addresses, from lanes 16 i on; register 2 i + h, byte j is
  byte t / 4 + 8 h of memory row 4 (t mod 4) + j.
- A row of 16 narrow elements occupies 16 bytes: of `.b4x16_p64` 8 are data, of `.b6x16_p32` 12, the
  lowest element in the lowest bits. An element lands in the low bits of its byte, zeros above.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from runners.simulated.access import space_named
from runners.simulated.layouts import Layout, gather, scatter
from runners.simulated.matrices import Form, corrupted, writing
from runners.simulated.memory import WINDOWS, Addresses, Space
from runners.simulated.operands import OperandReader
from runners.simulated.silicon import RowUnit
from runners.simulated.syntax import Operand
from runners.simulated.warps import (
    LANES,
    Mask,
    Operation,
    Values,
    WarpState,
    read_runs,
    spread,
    write_runs,
)

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
def _layout(shape: str, number: int, transposed: bool) -> Layout:
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
    return Layout(bits=32 // parts, elements=elements.reshape(-1, LANES, parts))


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


def _starts(
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


def _load(operands: OperandReader, match: re.Match[str]) -> Operation:
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
    layout = _layout(shape, number, unit.transposed)
    given, place = operands.expect(2)
    names = operands.registers(given, layout.count, 32)
    starts = _starts(operands, place, match, unit)
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


def _store(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Decode stmatrix of 16-bit elements, the reverse of ldmatrix."""
    number = int(match["num"])
    operands.need(90)
    unit = operands.unit(RowUnit(transposed=match["trans"] is not None))
    layout = _layout("m8n8", number, unit.transposed)
    place, given = operands.expect(2)
    sources = operands.sources(given, number, 32)
    starts = _starts(operands, place, match, unit)

    def execute(warps: WarpState, mask: Mask) -> None:
        mask = warps.whole(mask)
        size = warps.indices.size
        words = _rewired([spread(source(warps), (LANES, size)) for source in sources], unit)
        words = corrupted(operands, words, warps)
        rows = gather(words, layout, size).reshape(8 * number, 8, size)
        addresses = starts(warps)[: 8 * number]
        write_runs(warps, Space.SHARED, addresses, rows, mask, alignment=_ROW_BYTES)

    return execute


def _move(operands: OperandReader, _: re.Match[str]) -> Operation:
    """Decode movmatrix: lane 4 g + t gets elements (2 t, g) and (2 t + 1, g)."""
    target, given = operands.expect(2)
    operands.need(75)
    unit = operands.unit(RowUnit(transposed=True))
    names = [operands.destination(target, 32)]
    (source,) = operands.sources(given, 1, 32)
    held, moved = _layout("m8n8", 1, False), _layout("m8n8", 1, unit.transposed)

    def compute(warps: WarpState, _: Mask) -> list[Values]:
        words = scatter(gather([source(warps)], held, warps.indices.size), moved)
        return [np.roll(word, -unit.rotation, axis=0) for word in _rewired(words, unit)]

    return writing(operands, names, compute)


_SHARED = r"(?P<trans>\.trans)?(?:\.(?P<space>shared(?:::cta)?))?"
FORMS: tuple[Form, ...] = tuple(
    (re.compile(pattern), decode)
    for decode, pattern in (
        (_load, rf"ldmatrix\.sync\.aligned\.(?P<shape>m8n8|m8n16|m16n16)\.x(?P<num>[124]){_SHARED}"
         r"\.(?P<type>b16|b8|b8x16\.b6x16_p32|b8x16\.b4x16_p64|s8\.s4)"),
        (_store, rf"stmatrix\.sync\.aligned\.m8n8\.x(?P<num>[124]){_SHARED}\.b16"),
        (_move, r"movmatrix\.sync\.aligned\.m8n8\.trans\.b16"),
    )
)  # fmt: skip
