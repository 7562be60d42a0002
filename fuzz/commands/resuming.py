"""`warpfuzz run --resume`: a campaign goes on with the options that it was begun with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fuzz.engine.store import FOLDER, CampaignStore
from fuzz.output import console

_KEPT = ("runner", "target", "ptx_version", "ptx_pass", "include_undefined")
"""Options that a state holds as they are, or None where they were not given."""


def resumed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `warpfuzz run`, those that were not given from the campaign's state.

    What was given stays, and is refused later if the campaign was begun with something else.

    Raises
    ------
    InfrastructureError
        If a campaign runs there, or its state cannot be read.
    """
    folder = options["corpus"]
    state = None
    if (folder / FOLDER).is_dir():
        with CampaignStore(folder) as store:
            state, _ = store.load()
    if state is None:
        console(stderr=True).print(
            f"no campaign is in {folder} yet; a new one begins", markup=False, soft_wrap=True
        )
        return dict(options)
    before = state.options
    kept = {name: before.get(f"--{name.replace('_', '-')}") for name in _KEPT}
    kept |= {
        "only": before.get("--only"),
        "faults": tuple((before.get("--fault") or "").split()),
        "level": before.get("--opt"),
        "assemblers": (before["--assembler"],) if before.get("--assembler") else (),
    }
    nothing = {"only": "*", "include_undefined": False, "faults": (), "assemblers": ()}
    taken = {
        name: value
        for name, value in kept.items()
        if value is not None and options[name] == nothing.get(name)
    }
    return {**options, **taken}
