"""Asynchronous copies from global to shared memory (PTX ISA 9.7.9.25, cp.async).

A copy is made when it is asked for: of the moments between that and the wait for it, which the ISA
leaves open, the first. Waiting has nothing left to do.
"""

import re
from collections.abc import Callable

import numpy as np

from runners.simulated.memory import Space, check_alignment
from runners.simulated.operands import Operands
from runners.simulated.syntax import Immediate
from runners.simulated.traffic import read_runs, write_runs
from runners.simulated.warps import LANES, Mask, Operation, Warps

_SIZES = {"ca": (4, 8, 16), "cg": (16,)}
"""Bytes of one copy (9.7.9.25.3.1)."""


def _copy(operands: Operands, match: re.Match[str]) -> Operation:
    """Copy up to 16 bytes for each thread, and fill up with zeros what it does not read."""
    hints = 1 if match["hint"] else 0
    target, origin, given, *rest = operands.expect(3 + hints, 4 + hints)
    if not isinstance(given, Immediate) or given.value not in _SIZES[match["cache"]]:
        operands.unsupported(f"copies {' or '.join(map(str, _SIZES[match['cache']]))} bytes")
    size = given.value
    to = operands.address(target, Space.SHARED)
    source = operands.address(origin, Space.GLOBAL)
    read = operands.source(rest[0], 32) if len(rest) > hints else None

    def run(warps: Warps, mask: Mask) -> None:
        whole = (LANES, warps.indices.size)
        starts = np.broadcast_to(source(warps), whole)
        stops = np.broadcast_to(to(warps), whole)
        for address in (starts, stops):
            check_alignment(address, size, warps.indices, mask)
        if read is None:
            values = read_runs(warps, Space.GLOBAL, starts, size, 1, mask)
        else:
            wanted = np.broadcast_to(read(warps), whole)
            values = np.zeros((LANES, size, warps.indices.size), np.uint8)
            for byte in range(size):
                chosen = wanted > byte
                chosen = chosen if mask is None else chosen & mask
                if chosen.any():
                    part = read_runs(warps, Space.GLOBAL, starts + np.uint64(byte), 1, 1, chosen)
                    values[:, byte] = np.where(chosen, part[:, 0], np.uint8(0))
        write_runs(warps, Space.SHARED, stops, values, mask)

    return run


def _nothing(operands: Operands, match: re.Match[str]) -> Operation:
    operands.expect(1 if match["counted"] else 0)
    return lambda _warps, _mask: None


FORMS: tuple[tuple[re.Pattern[str], Callable[[Operands, re.Match[str]], Operation]], ...] = (
    (
        re.compile(
            r"cp\.async\.(?P<cache>ca|cg)\.shared(?:::cta)?\.global"
            r"(?P<hint>\.L2::cache_hint)?(?:\.L2::(?:64|128|256)B)?"
        ),
        _copy,
    ),
    (re.compile(r"cp\.async\.(?:commit_group|wait_all|(?P<counted>wait_group))"), _nothing),
)
"""Every form that is known, as the pattern of its opcode and what decodes it."""
