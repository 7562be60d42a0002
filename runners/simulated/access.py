"""Per-thread loads and stores, and the barriers between them.

Source: PTX ISA 9.7.9.8 (ld), 9.7.9.11 (st), 9.7.13 (barriers, atom).
"""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

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


def _add_atomically(operands: Operands, _: re.Match[str]) -> Operation:
    """Add to a word of memory and return what it held, one thread after the other.

    Source: PTX ISA 9.7.13.5 (atom). Threads come in the order of their warps and lanes.
    """
    target, given, addend = operands.expect(3)
    name = operands.destination(target, 32)
    address = operands.address(given, Space.GLOBAL)
    value = operands.source(addend, 32)
    line = operands.line

    def run(warps: Warps, mask: Mask) -> None:
        whole = (LANES, warps.indices.size)
        starts = np.broadcast_to(address(warps), whole)
        check_alignment(starts, 4, warps.indices, line, mask)
        who = None if mask is None else np.broadcast_to(mask, whole)
        added = np.broadcast_to(value(warps), whole)
        held = np.zeros(whole, np.uint32)
        memory, blocks, indices = warps.memory, warps.blocks, warps.indices
        for place in memory.places(Space.GLOBAL, starts, 4, blocks, indices, line, who):
            chosen = np.ones(whole, np.bool_) if place.chosen is None else place.chosen
            # Transposed: by warps first.
            held.T[chosen.T] = _turns(
                place.segment.view(4), place.index.T[chosen.T] // 4, added.T[chosen.T]
            )
        warps.write(name, held, mask)

    return run


def _turns(
    words: NDArray[np.uint32], places: NDArray[np.int64], added: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Add to words in turn; return what each word held when it was a place's turn.

    Parameters
    ----------
    words
        Memory, which is changed.
    places, added
        (n,) which word, and what is added to it.
    """
    order = np.argsort(places, kind="stable")
    sorted_places = places[order]
    totals = np.cumsum(added[order], dtype=np.uint32)
    before = totals - added[order]
    firsts = np.flatnonzero(np.diff(sorted_places, prepend=-1))
    group = np.searchsorted(firsts, np.arange(places.size), side="right") - 1
    held = np.empty(places.size, np.uint32)
    held[order] = words[sorted_places] + before - before[firsts][group]
    np.add.at(words, places, added)
    return held


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
    (re.compile(r"atom\.global\.add\.u32"), _add_atomically),
    (re.compile(r"(?:bar\.sync|barrier\.sync(?:\.aligned)?|bar\.warp\.sync)"), _barrier),
)
"""Every form that is known, as the pattern of its opcode and what decodes it."""
