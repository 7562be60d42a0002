"""Special registers (PTX ISA 10)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from runners.simulated.warps import DTYPES, LANES, Values, Warps

MULTIPROCESSORS = 132
"""SMs of a simulated device: those of an H200."""

SLOTS = 64
"""Warps that are resident on a multiprocessor (CUDA C++ Programming Guide, Technical
Specifications, 9.0)."""


@dataclass(frozen=True, slots=True)
class Special:
    """A register that the device writes."""

    bits: int
    fetch: Callable[[Warps], Values]


def _special(bits: int, number: Callable[[Warps], Any]) -> Special:
    """Return the register that holds a number, one for each warp, or one for each lane."""
    dtype = DTYPES[bits]
    return Special(bits, lambda warps: np.atleast_2d(number(warps)).astype(dtype))


_LANE = np.arange(LANES)[:, None]
_BIT = 1 << _LANE

_WORDS: dict[str, Callable[[Warps], Any]] = {
    "tid.x": lambda w: _LANE + w.indices % (w.threads // LANES) * LANES,
    "ctaid.x": lambda w: w.blocks,
    "ntid.x": lambda w: w.threads,
    "nctaid.x": lambda w: w.grid,
    **dict.fromkeys(("tid.y", "tid.z", "ctaid.y", "ctaid.z"), lambda _: 0),
    **dict.fromkeys(("ntid.y", "ntid.z", "nctaid.y", "nctaid.z"), lambda _: 1),
    "laneid": lambda _: _LANE,
    "warpid": lambda w: w.slots,
    "nwarpid": lambda _: SLOTS,
    "smid": lambda w: w.sms,
    "nsmid": lambda _: MULTIPROCESSORS,
    "lanemask_eq": lambda _: _BIT,
    "lanemask_le": lambda _: 2 * _BIT - 1,
    "lanemask_lt": lambda _: _BIT - 1,
    "lanemask_ge": lambda _: -_BIT,
    "lanemask_gt": lambda _: -2 * _BIT,
    # Warps are issued one after the other.
    "clock": lambda w: w.time + w.indices,
    "clock_hi": lambda w: w.time >> 32,
    "globaltimer_lo": lambda w: w.time,
    "globaltimer_hi": lambda w: w.time >> 32,
    "dynamic_smem_size": lambda _: 0,
    # A launch without clusters is one of clusters of one block.
    **dict.fromkeys([f"cluster_ctaid.{axis}" for axis in "xyz"], lambda _: 0),
    **dict.fromkeys([f"cluster_nctaid.{axis}" for axis in "xyz"], lambda _: 1),
    "cluster_ctarank": lambda _: 0,
    "cluster_nctarank": lambda _: 1,
    "clusterid.x": lambda w: w.blocks,
    "nclusterid.x": lambda w: w.grid,
    **dict.fromkeys(("clusterid.y", "clusterid.z"), lambda _: 0),
    **dict.fromkeys(("nclusterid.y", "nclusterid.z"), lambda _: 1),
}
_LONG: dict[str, Callable[[Warps], Any]] = {
    "gridid": lambda w: w.launch,
    "clock64": lambda w: w.time,
    "globaltimer": lambda w: w.time,
}
SPECIAL = {
    f"%{name}": _special(bits, number)
    for bits, numbers in ((32, _WORDS), (64, _LONG))
    for name, number in numbers.items()
}
"""By their names."""

UNKNOWN = re.compile(
    r"%(?:pm[0-7](?:_64)?|envreg\d+|(?:total|aggr)_smem_size|is_explicit_cluster"
    r"|reserved_smem_offset_\w+|current_graph_exec|n?(?:tid|ctaid)|n?cluster_?\w+)(?:\.[xyzw])?"
)
"""Names of special registers that exist and are not simulated (PTX ISA 10)."""
