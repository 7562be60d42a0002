"""Barriers of a block, fences, hints, and what stops a program.

Source: PTX ISA 9.7.13 (parallel synchronisation), 9.7.9.13 to .17 (prefetch, discard), 9.7.19
(miscellaneous). Each warp keeps to its own image, and all of a launch's accesses happen in one
order that everybody sees: fences and hints have nothing to do.
"""

import re
from collections.abc import Callable

from runners.simulated.operands import Operands
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.warps import Mask, Operation, Warps

_BARRIER = re.compile(r"(?:bar(?:\.cta)?\.sync|barrier(?:\.cta)?\.sync(?:\.aligned)?)")


def is_barrier(operands: Operands) -> bool:
    """Return whether an instruction waits for all threads of the block."""
    if not _BARRIER.fullmatch(operands.instruction.opcode):
        return False
    operands.expect(1, 2)
    if len(operands.instruction.operands) == 2:
        operands.unsupported("a barrier for some threads of the block")
    return True


def _nothing(_operands: Operands, _match: re.Match[str]) -> Operation:
    return lambda _warps, _mask: None


def _stop(operands: Operands, match: re.Match[str]) -> Operation:
    operands.expect(0)
    what = match[0]

    def run(warps: Warps, mask: Mask) -> None:
        if mask is None or mask.any():
            names = tuple(int(i) for i in warps.indices) if mask is None else warps.names(mask)
            refuse(TrapKind.STOPPED, 0, f"the program executes {what}", names)

    return run


FORMS: tuple[tuple[re.Pattern[str], Callable[[Operands, re.Match[str]], Operation]], ...] = (
    (re.compile(r"(?:membar|fence)(?:(?:\.|::)\w+)*"), _nothing),
    (re.compile(r"(?:prefetchu?|discard|applypriority)(?:(?:\.|::)\w+)+"), _nothing),
    (re.compile(r"(?:nanosleep\.u32|pmevent(?:\.mask)?|griddepcontrol\.\w+)"), _nothing),
    (re.compile(r"setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32"), _nothing),
    (re.compile(r"trap|brkpt"), _stop),
)
"""Every form that is known, as the pattern of its opcode and what decodes it."""
