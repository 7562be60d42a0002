"""`warpfuzz distill`: a screening set, made by the oracle."""

from __future__ import annotations

import time
from pathlib import Path

from rich.progress import Progress

from fuzz.output import console, emit
from fuzz.runner import judge_by
from fuzz.screening.distilling import distill
from fuzz.screening.sets import ScreeningSet, write_set
from oracle.errors import UsageError
from oracle.targets import Module
from strategies.draws import Selection
from strategies.program_draws import selected_forms


def make_set(
    *,
    images: int,
    output: Path,
    seed: int,
    target: str,
    ptx_version: str | None,
    only: str,
    model: str | None,
    json: bool,
) -> None:
    """Make a set and write it.

    Raises
    ------
    UsageError
        If the options do not go together.
    InfrastructureError
        If the file cannot be written.
    """
    if not output.parent.is_dir() or output.is_dir():
        raise UsageError(
            f"--output {output} cannot be written: give a file in a folder that is there"
        )
    module = Module.named(target, ptx_version)
    if model is not None:
        judge_by(Path(model), own=target, device="the set's target")
    forms = selected_forms(
        Selection(pattern=only), target=module.target.name, version=str(module.version)
    )
    begun = time.monotonic()
    out = console(stderr=True)
    with Progress(console=out, transient=True, disable=json or not out.is_terminal) as bars:
        task = bars.add_task("", total=1)

        def watch(what: str, done: int, total: int) -> None:
            bars.update(task, description=what, completed=done, total=total)

        made = distill(forms, module, seed=seed, images=images, watcher=watch)
    write_set(output, made)
    seconds = time.monotonic() - begun
    if json:
        emit({"summary": {**described(made), "path": str(output), "seconds": round(seconds, 3)}})
        return
    console().print(
        f"{made.images:,} images of {len(made.programs)} programs for {target}, seed {seed}, "
        f"judged by the model {made.description.model}, in {seconds:.0f} s: {output}",
        markup=False,
        soft_wrap=True,
    )
    for name, covered in made.description.covers.items():
        missing = f"; not {', '.join(covered.missing[:4])}" if covered.missing else ""
        console().print(
            f"  {name}: {covered.reached:,} of {covered.total:,}{missing}",
            markup=False,
            soft_wrap=True,
        )


def described(made: ScreeningSet) -> dict[str, object]:
    """Return what a set says of itself, as JSON has it."""
    return {
        "images": made.images,
        "programs": len(made.programs),
        "target": made.description.target,
        "ptx_version": made.description.ptx_version,
        "seed": made.description.seed,
        "generator": made.description.generator,
        "model": made.description.model,
        "covers": made.description.covers,
    }
