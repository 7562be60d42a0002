"""ldmatrix and stmatrix (PTX ISA 9.7.14.5.15).

Layouts, with lane t, and how sure they are:

- `.m8n8.b16`: register i holds row t / 4 of matrix i, elements 2 (t mod 4) and the next, the first
  in the low half. With `.trans`, element (r, c) is found at row c of memory. The page's figure 104
  and text; measured on an H200.
- `.m8n16` with a source format: register i holds row t / 4 of matrix i, bytes 4 (t mod 4) to
  4 (t mod 4) + 3, the first lowest. The page's text and figure 106; CUTLASS's traits of the same
  instruction agree. Not measured.
- `.m16n16.trans`: matrix i has 16 row addresses, from lanes 16 i on; registers 2 i and 2 i + 1
  hold rows t / 4 and t / 4 + 8 of the transposed matrix ("4 consecutive columns across 2 rows"):
  register 2 i + h, byte j is byte t / 4 + 8 h of memory row 4 (t mod 4) + j. The page's text and
  figure 105; CUTLASS's traits agree. Not measured.
- A row of 16 narrow elements occupies 16 bytes: for `.b4x16_p64` 8 bytes of data, for
  `.b6x16_p32` 12, lowest element in the lowest bits, and padding behind. An element lands in the
  low bits of its byte, with zeros above (CUTLASS shifts 4-bit values up by two afterwards, which
  says where they were). Not measured.
"""

import re

import numpy as np
from numpy.typing import NDArray

from runners.simulated.access import space_named
from runners.simulated.memory import WINDOWS, Space
from runners.simulated.operands import Operands
from runners.simulated.silicon import Silicon
from runners.simulated.traffic import read_runs, write_runs
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.units import RowUnit
from runners.simulated.warps import LANES, Mask, Operation, Values, Warps, spread

LDMATRIX = re.compile(
    r"ldmatrix\.sync\.aligned\.(?P<shape>m8n8|m8n16|m16n16)\.x(?P<num>[124])(?P<trans>\.trans)?"
    r"(?:\.(?P<space>shared(?:::cta)?))?"
    r"\.(?P<type>b16|b8|b8x16\.b6x16_p32|b8x16\.b4x16_p64)"
)

STMATRIX = re.compile(
    r"stmatrix\.sync\.aligned\.m8n8\.x(?P<num>[124])(?P<trans>\.trans)?"
    r"(?:\.(?P<space>shared(?:::cta)?))?\.b16"
)

_ROW_BYTES = 16
"""What one address stands for, padding included; also its alignment."""

# What may be combined: shape, type, whether `.trans` stands there (None is either), largest .num.
_FORMS: dict[tuple[str, str], tuple[bool | None, int]] = {
    ("m8n8", "b16"): (None, 4),
    ("m8n16", "b8x16.b6x16_p32"): (False, 4),
    ("m8n16", "b8x16.b4x16_p64"): (False, 4),
    ("m16n16", "b8"): (True, 2),
    ("m16n16", "b8x16.b6x16_p32"): (True, 2),
    ("m16n16", "b8x16.b4x16_p64"): (True, 2),
}

# ldmatrix itself (Target ISA Notes).
_ARCHITECTURE = 75
# stmatrix (its Target ISA Notes).
_STORING_ARCHITECTURE = 90
# Up to this architecture every lane's address has to be valid, used or not (the page's note).
_ALL_LANES_UP_TO = 75


def _expanded(rows: Values, bits: int, unit: RowUnit) -> Values:
    """Take 16 elements of 4, 6 or 8 bits out of each row's 16 bytes, a byte for each."""
    if bits == 8:
        return rows
    width = 2 * bits
    data = rows[:, :width]
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


def _places(shape: str, transposed: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (registers, lanes, elements) row and column in memory of one matrix's elements."""
    lane = np.arange(LANES)[None, :, None]
    parts = 2 if shape == "m8n8" else 4
    half = np.arange(2 if shape == "m16n16" else 1)[:, None, None]
    row = lane // 4 + 8 * half
    column = parts * (lane % 4) + np.arange(parts)[None, None, :]
    row, column = np.broadcast_arrays(row, column)
    return (column, row) if transposed else (row, column)


def decode(operands: Operands, silicon: Silicon, match: re.Match[str]) -> Operation:
    """Decode ldmatrix."""
    shape, kind, number = match["shape"], match["type"], int(match["num"])
    transposed = match["trans"] is not None
    trans, largest = _FORMS.get((shape, kind), (None, 0))
    if number > largest or trans not in (None, transposed):
        operands.unsupported("this combination of qualifiers is not known")
    opcode, line = operands.instruction.opcode, operands.line
    target = silicon.target
    if target.architecture < _ARCHITECTURE or (shape != "m8n8" and not target.has_narrow_rows):
        needed = (
            "sm_75" if shape == "m8n8" else "sm_100a, sm_110a, sm_120a or one of their families"
        )
        refuse(TrapKind.ILLEGAL, line, f"{opcode} needs {needed}; the module is for {target.name}")
    unit = silicon.unit(opcode, RowUnit(transposed=transposed))
    corrupt = silicon.corruption(opcode)
    per_matrix = 16 if shape == "m16n16" else 8
    bits = {"b16": 8, "b8": 8, "b8x16.b6x16_p32": 6, "b8x16.b4x16_p64": 4}[kind]
    rows_in_memory, columns = _places(shape, unit.transposed)
    element = 16 if shape == "m8n8" else 8
    target_operand, address_operand = operands.expect(2)
    names = operands.registers(target_operand, number * len(columns), 32)
    space = space_named(match["space"])
    address = operands.address(address_operand, space)
    used = number * per_matrix
    checked = LANES if silicon.architecture <= _ALL_LANES_UP_TO else used

    def assemble(rows: Values) -> list[Values]:
        seen = rows.astype(np.uint32)
        if element == 16:
            seen = seen[:, 0::2] | (seen[:, 1::2] << np.uint32(8))
        words: list[Values] = []
        for matrix in range(number):
            for where, column in zip(rows_in_memory, columns, strict=True):
                parts = seen[where + matrix * per_matrix, column]
                word = parts[:, 0]
                for position in range(1, parts.shape[1]):
                    word = word | (parts[:, position] << np.uint32(position * element))
                words.append(word)
        return words

    def execute(warps: Warps, mask: Mask) -> None:
        mask = warps.whole(mask)
        every = address(warps)
        every = spread(every, (LANES, every.shape[1]))
        if space is Space.GENERIC:
            # Outside the shared window this wraps to an address that no block has.
            every = every - np.uint64(WINDOWS[Space.SHARED])
        if unit.rotation:
            every = np.roll(every, -unit.rotation, axis=0)
        starts = every[:checked]
        rows = read_runs(warps, Space.SHARED, starts, _ROW_BYTES, 1, mask, alignment=_ROW_BYTES)[
            :used
        ]
        words = assemble(_expanded(rows, bits, unit))
        if unit.exchanged_registers and len(words) > 1:
            words[:2] = words[1::-1]
        if unit.swapped_halves:
            words = [(word >> np.uint32(16)) | (word << np.uint32(16)) for word in words]
        if corrupt is not None:
            words = corrupt(words, warps.site())
        for name, word in zip(names, words, strict=True):
            warps.write(name, word, mask)

    return execute


def stmatrix(operands: Operands, silicon: Silicon, match: re.Match[str]) -> Operation:
    """Decode stmatrix of 16-bit elements, the reverse of ldmatrix."""
    number = int(match["num"])
    opcode, line = operands.instruction.opcode, operands.line
    if silicon.target.architecture < _STORING_ARCHITECTURE:
        refuse(
            TrapKind.ILLEGAL,
            line,
            f"{opcode} needs sm_{_STORING_ARCHITECTURE}; the module is for {silicon.target.name}",
        )
    unit = silicon.unit(opcode, RowUnit(transposed=match["trans"] is not None))
    corrupt = silicon.corruption(opcode)
    address_operand, source_operand = operands.expect(2)
    sources = operands.sources(source_operand, number, 32)
    space = space_named(match["space"])
    address = operands.address(address_operand, space)
    row, column = (where[0] for where in _places("m8n8", unit.transposed))  # (lanes, elements)

    def dealt(words: list[Values]) -> Values:
        """Return the rows that registers hold, (8 * number, 8, warps) elements of 16 bits."""
        rows = np.zeros((8 * number, 8, words[0].shape[1]), np.uint16)
        for matrix, word in enumerate(words):
            for element, shift in enumerate((0, 16)):
                part = (word >> np.uint32(shift)).astype(np.uint16)
                rows[8 * matrix + row[:, element], column[:, element]] = part
        return rows

    def execute(warps: Warps, mask: Mask) -> None:
        mask = warps.whole(mask)
        every = spread(address(warps), (LANES, warps.indices.size))
        if space is Space.GENERIC:
            every = every - np.uint64(WINDOWS[Space.SHARED])
        if unit.rotation:
            every = np.roll(every, -unit.rotation, axis=0)
        starts = every[: 8 * number]
        words = [spread(source(warps), every.shape) for source in sources]
        if unit.exchanged_registers and number > 1:
            words[:2] = words[1::-1]
        if unit.swapped_halves:
            words = [(word >> np.uint32(16)) | (word << np.uint32(16)) for word in words]
        if corrupt is not None:
            words = corrupt(words, warps.site())
        write_runs(warps, Space.SHARED, starts, dealt(words), mask, alignment=_ROW_BYTES)

    return execute
