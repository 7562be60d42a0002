"""The warp-level matrix instructions: the pattern of each opcode, and what decodes it.

This is the place where one is added. A decoder takes the operands, the device and the match of the
opcode, and returns the operation; all lanes of a warp are there when it executes.
"""

import re
from collections.abc import Callable

from runners.simulated import ldmatrix, mma_sync, wmma
from runners.simulated.operands import Operands
from runners.simulated.silicon import Silicon
from runners.simulated.warps import Operation

FORMS: tuple[
    tuple[re.Pattern[str], Callable[[Operands, Silicon, re.Match[str]], Operation]], ...
] = (
    (wmma.LOAD, wmma.load),
    (wmma.STORE, wmma.store),
    (wmma.MMA, wmma.mma),
    (ldmatrix.LDMATRIX, ldmatrix.decode),
    (ldmatrix.STMATRIX, ldmatrix.stmatrix),
    (mma_sync.MMA_SYNC, mma_sync.mma_sync),
    (mma_sync.MOVMATRIX, mma_sync.movmatrix),
)
"""Every form that is known."""
