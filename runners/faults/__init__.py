"""Planted faults: known bugs that a campaign has to find.

A fault sits in the PTX text, where it works on every runner, or inside the simulated device. None
sits in the oracle.
"""

import difflib
from collections.abc import Iterable

from oracle.errors import UsageError
from runners.faults.compiler import COMPILER_FAULTS
from runners.faults.device import DEVICE_FAULTS
from runners.faults.fault import Fault, Place
from runners.faults.sparse import SPARSE_FAULTS

CATALOGUE: tuple[Fault, ...] = (*COMPILER_FAULTS, *DEVICE_FAULTS, *SPARSE_FAULTS)
"""Every fault."""

_BY_NAME = {fault.name: fault for fault in CATALOGUE}


_MOST_NAMED = 8
"""Names of like faults that a message has."""
_WIDTH = 80
"""Columns of a terminal that names stand in where none is alike."""


def _columns(names: Iterable[str]) -> str:
    """Return names below each other, several in a line where they fit."""
    listed = sorted(names)
    wide = max(map(len, listed)) + 2
    count = max(1, _WIDTH // wide)
    rows = -(-len(listed) // count)
    lines = ("".join(f"{name:<{wide}}" for name in listed[row::rows]) for row in range(rows))
    return "\n".join(line.rstrip() for line in lines)


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
        close = difflib.get_close_matches(name, _BY_NAME, n=5, cutoff=0.5)
        close += [known for known in _BY_NAME if name and name in known and known not in close]
        close = close[:_MOST_NAMED]
        hint = (
            f"did you mean {', '.join(close)}?"
            if close
            else "`warpfuzz faults` says what each of these does:\n" + _columns(_BY_NAME)
        )
        raise UsageError(f"no planted fault is called {name!r}; {hint}") from None


__all__ = ["CATALOGUE", "Fault", "Place", "by_name"]
