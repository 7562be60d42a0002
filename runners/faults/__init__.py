"""Planted faults: known bugs that a campaign has to find.

A fault sits in the PTX text, where it works on every runner, or inside the simulated device. None
sits in the oracle.
"""

import difflib
from collections.abc import Iterable, Sequence

from oracle.errors import UsageError
from runners.faults.compiler import COMPILER_FAULTS
from runners.faults.device import DEVICE_FAULTS
from runners.faults.rewriters import Fault, FaultPlace

CATALOGUE: tuple[Fault, ...] = (*COMPILER_FAULTS, *DEVICE_FAULTS)
"""Every fault."""

_BY_NAME = {fault.name: fault for fault in CATALOGUE}


def by_name(name: str) -> Fault:
    """Return the fault of this name.

    Raises UsageError if there is none; the message lists close matches.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    close = [known for known in _BY_NAME if name and name in known]
    close = (close + difflib.get_close_matches(name, _BY_NAME, n=5, cutoff=0.4))[:5]
    hint = f"did you mean {', '.join(dict.fromkeys(close))}? " if close else ""
    raise UsageError(
        f"no planted fault is called {name!r}; {hint}`warpfuzz faults` lists all {len(_BY_NAME)}"
    )


def idle_faults(names: Iterable[str], texts: Sequence[str]) -> list[str]:
    """Return the names of the faults that apply to none of the modules."""
    return [name for name in names if not any(map(by_name(name).applies, texts))]


__all__ = ["CATALOGUE", "Fault", "FaultPlace", "by_name", "idle_faults"]
