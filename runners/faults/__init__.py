"""Planted faults: known bugs that a campaign has to find.

A fault sits in the PTX text, where it works on every runner, or inside the simulated device. None
sits in the oracle.
"""

import difflib

from oracle.errors import UsageError
from runners.faults.compiler import COMPILER_FAULTS
from runners.faults.device import DEVICE_FAULTS
from runners.faults.fault import Fault, FaultPlace
from runners.faults.sparse import SPARSE_FAULTS

CATALOGUE: tuple[Fault, ...] = (*COMPILER_FAULTS, *DEVICE_FAULTS, *SPARSE_FAULTS)
"""Every fault."""

_BY_NAME = {fault.name: fault for fault in CATALOGUE}


_MOST_NAMED = 5
"""Names of like faults that a message has."""


def by_name(name: str) -> Fault:
    """Return the fault of this name.

    Raises
    ------
    UsageError
        If there is none; the message lists close matches.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        close = [known for known in _BY_NAME if name and name in known]
        close += difflib.get_close_matches(name, _BY_NAME, n=_MOST_NAMED, cutoff=0.4)
        said = ", ".join(list(dict.fromkeys(close))[:_MOST_NAMED])
        hint = f"did you mean {said}? `warpfuzz faults` lists all {len(_BY_NAME)}"
        hint = hint if said else f"`warpfuzz faults` lists all {len(_BY_NAME)}"
        raise UsageError(f"no planted fault is called {name!r}; {hint}") from None


__all__ = ["CATALOGUE", "Fault", "FaultPlace", "by_name"]
