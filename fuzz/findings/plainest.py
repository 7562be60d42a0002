"""The plainest module that shows a finding: the target most assemblers know, the oldest version."""

from __future__ import annotations

from collections.abc import Callable, Collection

from oracle.targets import TARGETS, VERSIONS, Module, Target

_FIRST = 70
"""Compute capability, times ten, of the first target with matrix instructions (9.7.14.4.1)."""


def plainest(
    shows: Callable[[Module], bool], module: Module, *, targets: Collection[str] = tuple(TARGETS)
) -> Module:
    """Return the module with the plainest target, and for it the lowest version, that shows it.

    A finding in `.version 9.5` for `sm_121f` can be asked of one assembler; most are not about
    that. Targets without a suffix are plainer than those with one, and older ones than newer ones.

    Parameters
    ----------
    shows
        Whether the finding is there in a module: the assembler does the same, and the ISA says the
        same of it. Asked some 40 times at most.
    module
        One in which it is there.
    targets
        Those that the assembler knows.
    """
    rows = sorted((TARGETS[name] for name in targets if name in TARGETS), key=_plainness)
    for target in rows:
        if target.number < _FIRST or _plainness(target) >= _plainness(module.target):
            continue
        version = max(module.version, target.since)
        found = Module(target, version)
        if target.known_to(version) and shows(found):
            module = found
            break
    target = module.target
    for version in VERSIONS:
        if target.known_to(version) and version < module.version:
            older = Module(target, version)
            if shows(older):
                return older
    return module


def _plainness(target: Target) -> tuple[bool, int, str]:
    return target.is_specific, target.number, target.suffix
