"""Special registers (PTX ISA 10)."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from runners.simulated.warps import DTYPES, LANES, Values, WarpState

MULTIPROCESSORS = 132
"""SMs of a simulated device: those of an H200."""
SLOTS = 64
"""Warps that are resident on a multiprocessor (CUDA C++ Programming Guide, Technical
Specifications, 9.0)."""
_LANE = np.arange(LANES)[:, None]
_BIT = 1 << _LANE
_RESERVED = 1 << 30
"""Above all shared memory that a block may have."""

_WORDS: dict[str, Callable[[WarpState], Any]] = {
    "tid.x": lambda w: w.places % w.block[0],
    "tid.y": lambda w: w.places // w.block[0] % w.block[1],
    "tid.z": lambda w: w.places // (w.block[0] * w.block[1]),
    "ctaid.x": lambda w: w.blocks % w.grid[0],
    "ctaid.y": lambda w: w.blocks // w.grid[0] % w.grid[1],
    "ctaid.z": lambda w: w.blocks // (w.grid[0] * w.grid[1]),
    "ntid.x": lambda w: w.block[0],
    "ntid.y": lambda w: w.block[1],
    "ntid.z": lambda w: w.block[2],
    "nctaid.x": lambda w: w.grid[0],
    "nctaid.y": lambda w: w.grid[1],
    "nctaid.z": lambda w: w.grid[2],
    "laneid": lambda _: _LANE,
    "warpid": lambda w: w.slots + w.otherwise,
    "nwarpid": lambda w: SLOTS + w.otherwise,
    "smid": lambda w: w.sms + w.otherwise,
    "nsmid": lambda w: MULTIPROCESSORS + w.otherwise,
    "lanemask_eq": lambda _: _BIT,
    "lanemask_le": lambda _: 2 * _BIT - 1,
    "lanemask_lt": lambda _: _BIT - 1,
    "lanemask_ge": lambda _: -_BIT,
    "lanemask_gt": lambda _: -2 * _BIT,
    # Warps are issued one after the other.
    "clock": lambda w: w.time + w.indices,
    "clock_hi": lambda w: (w.time >> 32) + w.otherwise,
    "globaltimer_lo": lambda w: w.time,
    "globaltimer_hi": lambda w: (w.time >> 32) + w.otherwise,
    "dynamic_smem_size": lambda w: w.dynamic_bytes,
    # A launch without clusters is one of clusters of one block; the fourth elements of vectors are
    # 0 (10, %tid).
    **dict.fromkeys([f"cluster_ctaid.{axis}" for axis in "xyz"], lambda _: 0),
    **dict.fromkeys([f"cluster_nctaid.{axis}" for axis in "xyz"], lambda _: 1),
    **dict.fromkeys(("cluster_ctarank", "tid.w", "ntid.w", "ctaid.w", "nctaid.w"), lambda _: 0),
    "cluster_nctarank": lambda _: 1,
    # What a driver puts there (10, %envreg).
    **dict.fromkeys([f"envreg{number}" for number in range(32)], lambda w: 0 - w.otherwise),
    # Shared memory of the system (10, %reserved_smem_offset), which no block has for its own.
    **dict.fromkeys(
        [f"reserved_smem_offset_{which}" for which in ("begin", "end", "cap", "0", "1")],
        lambda w: _RESERVED + w.otherwise,
    ),
}
_WORDS |= {f"{n}clusterid.{axis}": _WORDS[f"{n}ctaid.{axis}"] for n in ("", "n") for axis in "xyz"}
_LONG: dict[str, Callable[[WarpState], Any]] = {
    "gridid": lambda w: w.launch + w.otherwise,
    "clock64": lambda w: w.time,
    "globaltimer": lambda w: w.time,
}
_FLAGS: dict[str, Callable[[WarpState], Any]] = {"is_explicit_cluster": lambda _: False}


def _fetched(bits: int, number: Callable[[WarpState], Any], warps: WarpState) -> Values:
    return np.atleast_2d(number(warps)).astype(DTYPES[bits])


SPECIAL: dict[str, tuple[int, Callable[[WarpState], Values]]] = {
    f"%{name}": (bits, partial(_fetched, bits, number))
    for bits, numbers in ((32, _WORDS), (64, _LONG), (1, _FLAGS))
    for name, number in numbers.items()
}
"""Bits of each, and what fetches it: a number for each warp, or one for each lane."""
UNKNOWN = re.compile(
    r"%(?:pm[0-7](?:_64)?|(?:total|aggr)_smem_size"
    r"|current_graph_exec|n?(?:tid|ctaid)|n?cluster_?\w+)(?:\.[xyzw])?"
)
"""Names of special registers that exist and are not simulated (PTX ISA 10)."""
