"""Moves, and the table of all instructions that each thread executes for itself.

Source: PTX ISA 9.7.9 (data movement).
"""

import re
from collections.abc import Callable

from runners.simulated import bits as bit_instructions
from runners.simulated import comparison, conversion, floating, integers
from runners.simulated.operands import Operands
from runners.simulated.syntax import TYPE_BITS, Vector
from runners.simulated.warps import DTYPES, Mask, Operation, Warps


def _move(operands: Operands, match: re.Match[str]) -> Operation:
    bits = TYPE_BITS[match["type"]]
    target, origin = operands.expect(2)
    if match["vector"]:
        return _move_vector(operands, int(match["vector"]), bits)
    if isinstance(target, Vector):
        return _unpack(operands, target, bits)
    if isinstance(origin, Vector):
        return _pack(operands, origin, bits)
    name = operands.destination(target, bits)
    source = operands.source(origin, bits, copied=True)
    return lambda warps, mask: warps.write(name, source(warps), mask)


def _move_vector(operands: Operands, count: int, bits: int) -> Operation:
    target, origin = operands.expect(2)
    names = operands.registers(target, count, bits)
    sources = [operands.source(part, bits, copied=True) for part in operands.parts(origin, count)]

    def run(warps: Warps, mask: Mask) -> None:
        for name, value in [(n, s(warps)) for n, s in zip(names, sources, strict=True)]:
            warps.write(name, value, mask)

    return run


def _part_bits(operands: Operands, vector: Vector, bits: int) -> int:
    if bits % (8 * len(vector.parts)):
        operands.unsupported(f"{len(vector.parts)} parts in {bits} bits")
    return bits // len(vector.parts)


def _unpack(operands: Operands, target: Vector, bits: int) -> Operation:
    part = _part_bits(operands, target, bits)
    names = [operands.destination(each, part) for each in target.parts]
    source = operands.source(operands.instruction.operands[1], bits, copied=True)

    def run(warps: Warps, mask: Mask) -> None:
        whole = source(warps)
        for i, name in enumerate(names):
            shifted = whole >> whole.dtype.type(i * part)
            warps.write(name, shifted.astype(DTYPES[part]), mask)

    return run


def _pack(operands: Operands, origin: Vector, bits: int) -> Operation:
    part = _part_bits(operands, origin, bits)
    name = operands.destination(operands.instruction.operands[0], bits)
    sources = [operands.source(each, part, copied=True) for each in origin.parts]
    dtype = DTYPES[bits]

    def run(warps: Warps, mask: Mask) -> None:
        whole = sources[0](warps).astype(dtype)
        for i, source in enumerate(sources[1:], 1):
            whole = whole | (source(warps).astype(dtype) << dtype.type(i * part))
        warps.write(name, whole, mask)

    return run


FORMS: tuple[tuple[re.Pattern[str], Callable[[Operands, re.Match[str]], Operation]], ...] = (
    (
        re.compile(
            r"mov(?:\.v(?P<vector>[24]))?\.(?P<type>pred|[bus](?:8|16|32|64)|f16x2|bf16x2|f16|bf16|f32|f64)"
        ),
        _move,
    ),
    *integers.FORMS,
    *bit_instructions.FORMS,
    *comparison.FORMS,
    *floating.FORMS,
    *conversion.FORMS,
)
"""Every form that is known, as the pattern of its opcode and what decodes it."""
