"""The builds that a finding shows to be wrong: compiler, version and level."""

from __future__ import annotations

import re
from typing import NamedTuple

from corpus.finding import RIGHT, Case, Kind, RunnerVerdict

COMPILERS = ("ptxas", "driver")
"""Names of compilers: NVIDIA's assembler, and what the driver has of it."""
DEFAULT_LEVEL = 3
"""Of ptxas (`ptxas --help`), which what the driver has of it is taken for, too."""


class Build(NamedTuple):
    """What something was compiled and run with."""

    compiler: str
    """One of `COMPILERS`, or another one by its name. With planted faults, a pass, a front end or
    a runner of somebody else's these are part of the name: it is no compiler of NVIDIA's alone."""
    version: str
    """Such as "13.5.37", with options behind it; of the driver's compiler that of CUDA."""
    level: int


def wrong_builds(case: Case) -> frozenset[Build]:
    """Return the builds that a case shows to be wrong: of those compared, and its own."""
    planted, found = _planted(case), set()
    # Of what should have been rejected, and of what two assemblers do not agree about.
    right = {Kind.ACCEPTED: ("rejected",), Kind.DIFFER: ()}.get(case.kind, RIGHT)
    for one in case.asked:
        level = _LEVEL.fullmatch(one.options)
        if one.outcome not in right and (level or one.runner == "ptxas"):
            version = _release(one) if one.runner == "driver" else one.version
            found.add(_build(f"{one.runner}{planted}", version, one.options))
    own = case.runners[-1] if case.runners else None
    said = str(case.details.get("compiler", ""))
    if own is not None and case.made.runner not in ("", "cuda", "ptxas"):
        found.add(_build(f"{own.runner}{planted}", own.version, own.options))
    elif said.startswith("ptxas "):
        found.add(_build(f"ptxas{planted}", said.split()[1], said))
    elif said.startswith("the driver") and own is not None:
        found.add(_build(f"driver{planted}", _release(own), said))
    elif not said and not found and own is not None and case.made.runner == "cuda":
        # It came to nothing that was compiled.
        name, version = ("ptxas", case.made.assembler) if case.made.assembler else (
            "driver", _release(own)
        )  # fmt: skip
        level = DEFAULT_LEVEL if case.made.level is None else case.made.level
        found.add(_build(f"{name}{planted}", version, f"-O{level}"))
    elif said and not found:
        found.add(_build(f"{said}{planted}", "", said))
    return frozenset(found)


def _planted(case: Case) -> str:
    made = case.made
    words = [f" --fault {name}" for name in made.faults]
    words += [f" --ptx-pass {made.ptx_pass}"] if made.ptx_pass else []
    words += [f" --front-end {made.front_end}"] if made.front_end else []
    return "".join(words)


def _release(verdict: RunnerVerdict) -> str:
    found = _CUDA.search(verdict.device)
    return found[1] if found else ""


def _build(compiler: str, version: str, options: str) -> Build:
    level = _LEVEL.search(options)
    return Build(compiler, version.removeprefix("V"), int(level[1]) if level else DEFAULT_LEVEL)


_LEVEL = re.compile(r"-O([0-3])")
_CUDA = re.compile(r"\bCUDA (\d+\.\d+)")
"""How a runner's device names the release of the driver."""
