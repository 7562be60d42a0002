"""Writes docs/targets.md from the tables of targets and PTX ISA versions.

Usage:

    python docs/targets.py
"""

from __future__ import annotations

from pathlib import Path

from oracle.isa.lookup import FORMS, is_available, notes_of, warpgroup_forms
from oracle.isa.targets import TARGETS, VERSIONS, Module, Target, versions_of
from oracle.models import Confidence, figures_in, model_for
from oracle.models.files import BASES
from runners.simulated.silicon import ARCHITECTURES

PAGE = Path(__file__).with_name("targets.md")


GPUS = {
    70: "V100", 72: "Jetson Xavier", 75: "T4, GeForce RTX 20", 80: "A100, A30",
    86: "A10, A40, GeForce RTX 30", 87: "Jetson Orin", 89: "L4, L40S, GeForce RTX 40",
    90: "H100, H200, GH200", 100: "B200, GB200", 103: "B300, GB300", 110: "Jetson Thor",
    120: "GeForce RTX 50, RTX PRO Blackwell", 121: "GB10 (DGX Spark)",
}  # fmt: skip
"""Some GPUs of each number (NVIDIA, CUDA GPU Compute Capability, 2026-11)."""
TEXT = """\
# PTX ISA versions and targets

Is your GPU covered? `nvidia-smi --query-gpu=name,compute_cap --format=csv` prints its compute
capability: 8.9 is sm_89 below. warpfuzz has been run on H200s (sm_90) alone so far; the same code
is for every GPU of the table. What differs is how much is known of its floating-point arithmetic,
the column *figures*:

- *measured*: this project measured it on that architecture. Results are compared bit for bit.
- *published*, *inferred*: taken from others' measurements, or from a related GPU. Results are
  compared bit for bit, too; where a figure is wrong, sound results are reported as deviations.
- Where there is no figure (fp8 outside of sm_89, sm_90 and sm_120, sparse floats outside of
  sm_90 but those with `.kind`), results have to lie within what the ISA permits.

`warpfuzz measure` finds the figures of your GPU ([measuring](measuring.md)).

Integers, single bits, loads, stores and moves need no figures.

`--ptx-version` takes every PTX ISA version from {oldest} to {newest}. The matrix instructions
begin with {first}, and programs are drawn from there on. A compiler or a driver reads the
versions up to its own, and may have dropped an old target.

`--target` takes the names below. *Since* and *until* are the first and the last PTX ISA version
that knows the name; *forms* counts the documented forms of matrix instructions in the last one
(`warpfuzz isa --target sm_90 --ptx-version {newest}` lists them); *simulated* says whether
`--runner sim` can stand for it. This page is written by [targets.py](targets.py).

| target | GPUs, for example | since | until | forms | figures | simulated |
|---|---|---|---|---|---|---|
{rows}

Known by name, but without matrix instructions: {others}.
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
    last = versions_of(target)[-1]
    module = Module(target, last)
    forms = sum(is_available(form, module) for form in (*FORMS, *warpgroup_forms()))
    gpus = "" if target.suffix else GPUS.get(target.number, "")
    simulated = "yes" if target.number in ARCHITECTURES else "no"
    cells = (target.name, gpus, target.since, last, forms, _figures(target), simulated)
    return f"| {' | '.join(map(str, cells))} |"


def _figures(target: Target) -> str:
    """Say whose figures a target has, and where they come from."""
    model = model_for(target.name)
    found = {figure.confidence for unit in model.units for figure in figures_in(unit).values()}
    kinds = ", ".join(one.value for one in Confidence if one in found)
    return kinds if model.base == f"sm_{target.number}" else f"{kinds} from {model.base}"


if __name__ == "__main__":
    PAGE.write_text(page())
