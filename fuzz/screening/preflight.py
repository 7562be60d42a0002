"""Before a job starts: every kind of instruction on every GPU, and a line about each GPU."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fuzz.screening.distilling import about
from fuzz.screening.screen import Tally
from oracle.forms import Form
from oracle.isa import FORMS, is_available
from oracle.models import NO_FIGURES, model_for
from oracle.program import Program, requirements
from oracle.targets import Module
from strategies.draws import derived_seed
from strategies.program_coverage import Batch
from strategies.programs import is_valued

_TRIES = 8
"""Programs that are drawn about a form until one can be screened; 4 of 10 cannot (2026-11-23)."""
_LISTING_SECONDS = 20
"""Time for nvidia-smi, which waits for the driver to load on a machine that was idle."""
_DEVICE = re.compile(
    r"^(?:GPU (?P<gpu>\d+): .*|\s+(?P<slice>MIG \S+)\s+Device\s+(?P<place>\d+): )"
    r"\(UUID: (?P<uuid>[\w-]+)\)$",
    re.MULTILINE,
)
"""A line of `nvidia-smi -L` (MIG User Guide, Device Enumeration)."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A GPU, or a slice of one, that the driver's own tool lists."""

    name: str
    """Such as "GPU 0", or "GPU 0 MIG 1g.18gb device 2"."""
    uuid: str
    """As CUDA_VISIBLE_DEVICES takes it: "GPU-…" or "MIG-…"."""


def listed_devices() -> list[Listed]:
    """Return all GPUs of this machine; the slices in place of one that has any.

    Empty where there is no nvidia-smi, or it does not answer.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        told = subprocess.run(
            [tool, "-L"], capture_output=True, text=True, timeout=_LISTING_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return devices_in(told.stdout)


def devices_in(listing: str) -> list[Listed]:
    """Return what `nvidia-smi -L` lists."""
    found: list[Listed] = []
    gpu = ""
    for line in _DEVICE.finditer(listing):
        if line["gpu"]:
            gpu = f"GPU {line['gpu']}"
            found.append(Listed(name=gpu, uuid=line["uuid"]))
            continue
        if found and found[-1].name == gpu:
            found.pop()
        name = f"{gpu} {line['slice']} device {line['place']}"
        found.append(Listed(name=name, uuid=line["uuid"]))
    return found


def group_of(form: Form) -> str:
    """Return what kind of instruction a form is: "fp8", "integers", "sparse", "ldmatrix"."""
    if not form.is_product:
        return form.mnemonic
    if form.is_sparse:
        return "sparse"
    if form.a_type.is_float:
        return "fp8" if form.a_type.bits == 8 else form.a_type.name
    return "bits" if form.a_type.bits == 1 else "integers"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a module can have, and of what it is known what must come out."""

    there: Mapping[str, Sequence[Form]]
    """By group."""
    known: Sequence[Form]

    @property
    def known_groups(self) -> dict[str, list[Form]]:
        """The known forms by group."""
        found: dict[str, list[Form]] = {}
        for form in self.known:
            found.setdefault(group_of(form), []).append(form)
        return found


def scope_of(module: Module, oracle_target: str) -> Scope:
    """Return what a module can have.

    Parameters
    ----------
    module
        The target and the PTX ISA version.
    oracle_target
        The oracle's, with the compiler whose code runs: its figures may not be known.
    """
    model = model_for(oracle_target)
    there: dict[str, list[Form]] = {}
    known = []
    for form in FORMS:
        if form.is_main and is_available(form, module):
            there.setdefault(group_of(form), []).append(form)
            if is_valued(form, module) and (
                not form.is_product or model.expansion_of(form) != NO_FIGURES
            ):
                known.append(form)
    return Scope(there=there, known=known)


def batches(scope: Scope, module: Module, seed: int) -> Iterator[list[Batch]]:
    """Iterate over programs about each known form, without end; those of all groups in turn."""
    in_turn = itertools.zip_longest(*scope.known_groups.values())
    forms = [form for forms in in_turn for form in forms if form is not None]
    for turn in itertools.count():
        for number, form in enumerate(forms):
            keys = (derived_seed(seed, "preflight", turn, number, one) for one in range(_TRIES))
            drawn = (about([form], scope.known, module, key) for key in keys)
            yield next(filter(None, drawn), [])


def coverage(
    scope: Scope, programs: Mapping[str, Program], tally: Tally
) -> dict[str, dict[str, int]]:
    """Return by group how many forms there are, are known, and ran, and what came of the images.

    An image counts in each group of which its program has an instruction.
    """
    known = scope.known_groups
    rows = {
        group: {"forms": len(forms), "known": len(known.get(group, ())), "ran": 0,
                "images": 0, "wrong": 0}
        for group, forms in scope.there.items()
    }  # fmt: skip
    ran: dict[str, set[Form]] = {}
    for entry, images in tally.images.items():
        forms = [form for form in requirements(programs[entry]) if form.is_main]
        for group in {group_of(form) for form in forms}:
            rows[group]["images"] += images
            rows[group]["wrong"] += tally.programs[entry]
        for form in forms:
            ran.setdefault(group_of(form), set()).add(form)
    for group, forms_there in ran.items():
        rows[group]["ran"] = len(forms_there)
    return rows
