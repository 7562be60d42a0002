"""Special registers (PTX ISA 10)."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from runners.simulated.warps import LANES, Values, Warps

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


def _lane() -> Values:
    return np.arange(LANES, dtype=np.uint32)[:, None]


_LANE = _lane()
_BITS = np.uint32(1) << _LANE


def _thread(warps: Warps) -> Values:
    return _LANE + (warps.indices % (warps.threads // LANES) * LANES).astype(np.uint32)


def _row(number: Callable[[Warps], int]) -> Special:
    return Special(32, lambda warps: np.full((1, 1), number(warps), np.uint32))


def _same(value: Values) -> Special:
    return Special(32, lambda _: value)


def _clock(bits: int, shift: int = 0) -> Special:
    """Return part of the device's clock."""
    dtype = f"u{bits // 8}"
    return Special(bits, lambda w: np.full((1, 1), (w.time >> shift) & ((1 << bits) - 1), dtype))


SPECIAL: dict[str, Special] = {
    "%tid.x": Special(32, _thread),
    "%ctaid.x": Special(32, lambda w: w.blocks.astype(np.uint32)[None, :]),
    "%ntid.x": _row(lambda w: w.threads),
    "%nctaid.x": _row(lambda w: w.grid),
    **{f"%{name}.{axis}": _row(lambda _: 0) for name in ("tid", "ctaid") for axis in "yz"},
    **{f"%{name}.{axis}": _row(lambda _: 1) for name in ("ntid", "nctaid") for axis in "yz"},
    "%laneid": _same(_LANE),
    "%warpid": Special(32, lambda w: w.slots[None, :]),
    "%nwarpid": _row(lambda _: SLOTS),
    "%smid": Special(32, lambda w: w.sms[None, :]),
    "%nsmid": _row(lambda _: MULTIPROCESSORS),
    "%gridid": Special(64, lambda w: np.full((1, 1), w.launch, np.uint64)),
    "%lanemask_eq": _same(_BITS),
    "%lanemask_le": _same(_BITS | (_BITS - np.uint32(1))),
    "%lanemask_lt": _same(_BITS - np.uint32(1)),
    "%lanemask_ge": _same(~(_BITS - np.uint32(1))),
    "%lanemask_gt": _same(~(_BITS | (_BITS - np.uint32(1)))),
    # Warps are issued one after the other.
    "%clock": Special(32, lambda w: (w.time + w.indices).astype(np.uint32)[None, :]),
    "%clock_hi": _clock(32, 32),
    "%clock64": _clock(64),
    "%globaltimer": _clock(64),
    "%globaltimer_lo": _clock(32),
    "%globaltimer_hi": _clock(32, 32),
    "%dynamic_smem_size": _row(lambda _: 0),
    # A launch without clusters is one of clusters of one block.
    **{f"%cluster_ctaid.{axis}": _row(lambda _: 0) for axis in "xyz"},
    **{f"%cluster_nctaid.{axis}": _row(lambda _: 1) for axis in "xyz"},
    "%cluster_ctarank": _row(lambda _: 0),
    "%cluster_nctarank": _row(lambda _: 1),
    "%clusterid.x": Special(32, lambda w: w.blocks.astype(np.uint32)[None, :]),
    "%nclusterid.x": _row(lambda w: w.grid),
    **{f"%clusterid.{axis}": _row(lambda _: 0) for axis in "yz"},
    **{f"%nclusterid.{axis}": _row(lambda _: 1) for axis in "yz"},
}

UNKNOWN = re.compile(
    r"%(?:pm[0-7](?:_64)?|envreg\d+|(?:total|aggr)_smem_size|is_explicit_cluster"
    r"|reserved_smem_offset_\w+|current_graph_exec|n?(?:tid|ctaid)|n?cluster_?\w+)(?:\.[xyzw])?"
)
"""Names of special registers that exist and are not simulated (PTX ISA 10)."""
