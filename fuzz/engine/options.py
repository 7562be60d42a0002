"""What decides which cases a campaign has: it may not change from one resumption to the next."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.engine.plan import Facts, Plan
from fuzz.value_rounds import GENERATOR_VERSION
from oracle.errors import UsageError

Options = Mapping[str, str | int | None]


def options_of(plan: Plan, facts: Facts) -> dict[str, str | int | None]:
    """Return the options of a campaign, by the name that a person knows them by."""
    choice = plan.choice
    return {
        "--runner": choice.name,
        "--seed": plan.seed,
        "--only": plan.pattern,
        "--target": facts.target,
        "--ptx-version": facts.ptx_version,
        "--fault": " ".join(choice.faults),
        "--ptx-pass": choice.ptx_pass,
        "--opt": choice.level,
        "--assembler": choice.assembler,
        "--include-undefined": plan.undefined or None,
        "images of a program": plan.images,
        "smallest programs": plan.smallest,
        "layout of the simulated device": choice.layout,
        "version of the generator": GENERATOR_VERSION,
    }


def check_options(before: Options, now: Options) -> None:
    """Raise UsageError if a campaign is to be resumed with other options."""
    names = [
        name for name in (*before, *(set(now) - set(before))) if before.get(name) != now.get(name)
    ]
    if names:
        listed = ", ".join(f"{name} {before.get(name)!r} (now {now.get(name)!r})" for name in names)
        raise UsageError(
            f"the campaign was begun with {listed}; resume it with the same options, or leave "
            "--resume out to start a new one"
        )
