"""`warpfuzz run`: which campaign it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fuzz.campaign.store import FOLDER, CampaignStore
from fuzz.output import console
from fuzz.runner import RunnerChoice, best_runner, has_device_fault
from oracle.errors import UsageError
from runners.assemblers.discovery import discover

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


_SHARED = ("time", "cases", "seed", "corpus", "only", "known", "report", "json")
_OF_VALUES = {
    "findings": "--findings",
    "quiet_time": "--quiet-time",
    "resume": "--resume",
    "workers": "--workers",
    "devices": "--device",
    "include_undefined": "--include-undefined",
}
"""What only campaigns on values know, and how a person types it."""


def run_on(options: Mapping[str, Any]) -> bool:
    """Run the campaign that the options of `warpfuzz run` ask for; tell whether it found something.

    Raises
    ------
    UsageError
        If the options do not go together.
    """
    if options["resume"]:
        options = resumed(options)
    planting = {name: options[name] for name in ("faults", "ptx_pass", "level")}
    planted = any(value not in (None, ()) for value in planting.values())
    name = options["runner"] or best_runner(
        planted=planted,
        device_faults=has_device_fault(options["faults"]),
        has_assembler=lambda: bool(discover().assemblers),
    )
    if name == "ptxas":
        return _against_an_assembler(options, planted=planted)
    from fuzz.commands.run_programs import ValueRequest, run_values

    assemblers = options["assemblers"]
    if len(assemblers) > 1:
        raise UsageError(
            f"{len(assemblers)} assemblers are given, and --runner {name} compiles with one; "
            "run a campaign for each"
        )
    choice = RunnerChoice(
        name=name,
        target=options["target"],
        ptx_version=options["ptx_version"],
        assembler=assemblers[0] if assemblers else None,
        **planting,
    )
    return run_values(
        ValueRequest(choice=choice, **{name: options[name] for name in (*_SHARED, *_OF_VALUES)})
    )


def _against_an_assembler(options: Mapping[str, Any], *, planted: bool) -> bool:
    from fuzz.commands.run_instructions import Request, run_campaign

    if planted:
        raise UsageError(
            "--fault, --ptx-pass and --opt change programs that run, and --runner ptxas only asks "
            "whether instructions are accepted; choose --runner sim or cuda"
        )
    given = [name for name in _OF_VALUES if options[name] not in (None, False, ())]
    if given:
        raise UsageError(
            f"{_OF_VALUES[given[0]]} is for campaigns on values, and --runner ptxas only "
            "asks whether instructions are accepted; leave it out, or choose --runner sim or cuda"
        )
    rest = {name: options[name] for name in ("target", "ptx_version", "assemblers", *_SHARED)}
    return run_campaign(Request(runner="ptxas", **rest))
