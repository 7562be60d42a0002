"""Writes docs/targets.md from the tables of targets and PTX ISA versions.

Usage:

    python docs/targets.py
"""

from __future__ import annotations

from pathlib import Path

from oracle.isa import FORMS, is_available, notes_of
from oracle.models.targets import BASES
from oracle.targets import TARGETS, VERSIONS, Module, Target
from runners.simulated.silicon import ARCHITECTURES

PAGE = Path(__file__).with_name("targets.md")


TEXT = """\
# PTX ISA versions and targets

`--ptx-version` takes every PTX ISA version from {oldest} to {newest}. The matrix instructions
begin with {first}, and programs are drawn from there on. A compiler or a driver reads the
versions up to its own, and may have dropped an old target.

`--target` takes the names below. *Since* and *until* are the first and the last of those versions
that know the name; *forms* are the documented forms of matrix instructions that it has in the
last one (`warpfuzz isa --target sm_90 --ptx-version {newest}` lists them); *figures of* is the
GPU by whose arithmetic it is judged ([measuring](measuring.md)); *simulated* is what `--runner
sim` runs. This page is written by [targets.py](targets.py).

| target | since | until | forms | figures of | simulated |
|---|---|---|---|---|---|
{rows}

Known by their names, and without matrix instructions: {others}.
"""


def page() -> str:
    """Return the page."""
    first = min(note.since for form in FORMS for note in notes_of(form) if note.since is not None)
    return TEXT.format(
        oldest=VERSIONS[0], newest=VERSIONS[-1], first=first,
        rows="\n".join(_row(one) for one in TARGETS.values() if one.number in BASES),
        others=", ".join(name for name, one in TARGETS.items() if one.number not in BASES),
    )  # fmt: skip


def _row(target: Target) -> str:
    last = [version for version in VERSIONS if target.known_to(version)][-1]
    module = Module.named(target.name, str(last))
    forms = sum(is_available(form, module) for form in FORMS)
    simulated = "yes" if target.number in ARCHITECTURES else "no"
    cells = (target.name, target.since, last, forms, BASES[target.number], simulated)
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    PAGE.write_text(page())
