"""`warpfuzz distill`: a screening set, made by the oracle."""

from __future__ import annotations

import time
from pathlib import Path

from rich.progress import Progress

from fuzz.options import Distill
from fuzz.output import check_output, console, emit, say
from fuzz.runner import judge_by
from fuzz.screening.distilling import distill
from fuzz.screening.sets import write_set
from oracle.targets import Module
from strategies.draws import Selection
from strategies.program_draws import selected_forms


def make_set(options: Distill) -> None:
    """Make a set and write it."""
    output, target, json = options.output, options.target, options.json
    check_output("--output", output)
    module = Module.named(target, options.ptx_version)
    if options.model is not None:
        judge_by(Path(options.model), own=target, device="the set's target")
    forms = selected_forms(
        Selection(pattern=options.only), target=module.target.name, version=str(module.version)
    )
    begun = time.monotonic()
    out = console(stderr=True)
    with Progress(console=out, transient=True, disable=json or not out.is_terminal) as bars:
        task = bars.add_task("", total=1)

        def watch(what: str, done: int, total: int) -> None:
            bars.update(task, description=what, completed=done, total=total)

        made = distill(forms, module, seed=options.seed, images=options.images, watcher=watch)
    write_set(output, made)
    seconds = time.monotonic() - begun
    if json:
        description = made.description
        emit(
            {
                "summary": {
                    "images": made.images,
                    "programs": len(made.programs),
                    "target": description.target,
                    "ptx_version": description.ptx_version,
                    "seed": description.seed,
                    "generator": description.generator,
                    "model": description.model,
                    "covers": description.covers,
                    "path": str(output),
                    "seconds": round(seconds, 3),
                }
            }
        )
        return
    say(
        f"{made.images:,} images of {len(made.programs)} programs for {target}, seed "
        f"{options.seed}, judged by the model {made.description.model}, in "
        f"{seconds:.0f} s: {output}"
    )
    for name, covered in made.description.covers.items():
        missing = f"; not {', '.join(covered.missing[:4])}" if covered.missing else ""
        say(f"  {name}: {covered.reached:,} of {covered.total:,}{missing}")
