"""The targets and PTX ISA versions of the modules that instructions are tried in."""

from __future__ import annotations

from oracle.errors import UsageError
from oracle.targets import TARGETS, VERSIONS, PtxVersion, Target, parse_target, parse_version
from runners.assemblers.assembler import Assembler

_MAIN_TARGET = "sm_90"
"""Target of every second block of rounds where none is asked for: what most is known of."""
_FIRST = 70
"""First target with matrix instructions: "Floating point wmma requires sm_70" (9.7.14.4)."""


def pairs_of(
    assembler: Assembler, target: str | None, version: str | None
) -> tuple[tuple[Target, PtxVersion], ...]:
    """Return the pairs of target and version that rounds are about, the main one first.

    Raises
    ------
    UsageError
        If the assembler does not have what is asked for.
    """
    wanted = (
        [parse_target(target)]
        if target
        else [TARGETS[name] for name in assembler.targets if name in TARGETS]
    )
    highest = assembler.highest_version
    versions = [parse_version(version)] if version else [v for v in VERSIONS if v <= highest]
    pairs = [(t, v) for t in wanted for v in versions if t.known_to(v) and t.number >= _FIRST]
    if not pairs:
        raise UsageError(
            f"no PTX ISA version up to {highest} knows {target or 'a target of ' + str(assembler)}"
            f"{' in version ' + version if version else ''}; `warpfuzz compilers list` shows what "
            "each assembler has"
        )
    newest = max(v for _, v in pairs)
    main = next(
        (pair for pair in pairs if pair[0].name == _MAIN_TARGET and pair[1] == newest), pairs[-1]
    )
    if (target or version) and not any(assembler.accepts(v, t.name) for t, v in pairs):
        raise UsageError(
            f"{assembler} takes no module with .target {target or main[0].name} and .version "
            f"{version or main[1]}; `warpfuzz compilers list` shows what each assembler has"
        )
    return (main, *(pair for pair in pairs if pair != main))
