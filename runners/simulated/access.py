"""Per-thread loads and stores, and the barriers between them.

Source: PTX ISA 9.7.9.8 (ld), 9.7.9.11 (st), 9.7.13 (barriers).
"""

import re
from collections.abc import Callable

import numpy as np

from runners.simulated.memory import Space, check_alignment
from runners.simulated.operands import Operands
from runners.simulated.syntax import TYPE_BITS, Operand, Vector
from runners.simulated.traffic import read_runs, write_runs
from runners.simulated.warps import DTYPES, LANES, Mask, Operation, Values, Warps

_SUFFIX = (
    r"(?:\.(?P<space>global|shared(?:::cta)?))?(?:\.v(?P<count>[24]))?"
    r"\.(?P<type>[bus](?:8|16|32|64)|f32|f64)"
)


def space_named(name: str | None) -> Space:
    """Return the state space of a qualifier, generic where there is none."""
    return Space.GENERIC if name is None else Space(name.removesuffix("::cta"))


def _names(operands: Operands, operand: Operand, count: int, bits: int) -> tuple[str, ...]:
    # A register may be wider than what is loaded or stored (PTX ISA 9.4.1); 8-bit types need it,
    # since no 8-bit register is used in this dialect.
    if bits == 8:
        parts = operand.parts if isinstance(operand, Vector) else (operand,)
        widths = {operands.width(getattr(part, "text", "")) for part in parts}
        if len(parts) != count or widths - {16, 32}:
            operands.unsupported("8-bit values travel in registers of 16 or 32 bits")
        return tuple(getattr(part, "text", "") for part in parts)
    return operands.registers(operand, count, bits)


def _load(operands: Operands, match: re.Match[str]) -> Operation:
    kind, count = match["type"], int(match["count"] or 1)
    bits = TYPE_BITS[kind]
    target, given = operands.expect(2)
    names = _names(operands, target, count, bits)
    dtypes = [DTYPES[operands.width(name)] for name in names]
    signed = kind.startswith("s")
    space = space_named(match["space"])
    address = operands.address(given, space)
    width, line = bits // 8, operands.line

    def run(warps: Warps, mask: Mask) -> None:
        starts = address(warps)
        check_alignment(starts, width * count, warps.indices, line, mask)
        read = read_runs(warps, space, starts, count, width, line, mask)
        for i, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
            value = read[:, i]
            if value.dtype != dtype:
                # A narrow value is extended by its type's sign (PTX ISA 9.4.1).
                value = (value.view(f"i{width}") if signed else value).astype(dtype)
            warps.write(name, value, mask)

    return run


def _store(operands: Operands, match: re.Match[str]) -> Operation:
    kind, count = match["type"], int(match["count"] or 1)
    bits = TYPE_BITS[kind]
    given, origin = operands.expect(2)
    parts = origin.parts if isinstance(origin, Vector) else (origin,)
    if len(parts) != count:
        operands.unsupported(f"{len(parts)} values where {count} are stored")
    if bits == 8:
        widths = [operands.width(name) for name in _names(operands, origin, count, bits)]
    else:
        widths = [bits] * count
    sources = [operands.source(part, wide) for part, wide in zip(parts, widths, strict=True)]
    space = space_named(match["space"])
    address = operands.address(given, space)
    width, line = bits // 8, operands.line

    def run(warps: Warps, mask: Mask) -> None:
        starts = address(warps)
        check_alignment(starts, width * count, warps.indices, line, mask)
        whole = (LANES, warps.indices.size)
        values: Values = np.stack(
            [np.broadcast_to(source(warps), whole).astype(DTYPES[bits]) for source in sources],
            axis=1,
        )
        write_runs(warps, space, np.broadcast_to(starts, whole), values, line, mask)

    return run


def _barrier(operands: Operands, _: re.Match[str]) -> Operation:
    """Do nothing: warps share no memory here but what no other warp writes.

    Each warp keeps to its own image and its own slice of shared memory, and all lanes of a warp
    run in step, so an access before a barrier is always visible after it.
    """
    operands.expect(1)
    return lambda _warps, _mask: None


FORMS: tuple[tuple[re.Pattern[str], Callable[[Operands, re.Match[str]], Operation]], ...] = (
    (re.compile(rf"ld{_SUFFIX}"), _load),
    (re.compile(rf"st{_SUFFIX}"), _store),
    (re.compile(r"(?:bar\.sync|barrier\.sync(?:\.aligned)?|bar\.warp\.sync)"), _barrier),
)
"""Every form that is known, as the pattern of its opcode and what decodes it."""
