"""Fresh images of a drawn program of every form, compared where they run, as in idle time.

Each process draws programs, one about each form, has a device make images, run them and compare
them with its reference, and has the oracle judge what differs. Prints a line for each form that
differs: how many images, and how many of those that came back the program, or the reference, is
wrong about, by the oracle. In the end a JSON object: forms, images, images a second of one process
while it compares, and what was left out. Ends with 1 if the reference was wrong. Usage:

    python benchmarks/forms_compared.py [--only PATTERN] [--target TARGET] [--version VERSION]
        [--images N] [--every N] [--key N] [--processes N] [--time S] [--opt LEVEL]
        [--assembler PTXAS] [--runner cuda]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np

from fuzz.checks.fresh import made_again
from fuzz.runner import OpenRunner, RunnerChoice, opened
from oracle.isa.forms import Form
from oracle.isa.targets import Module
from oracle.models import model_for
from runners.compilers import named_assembler
from runners.emission import emit
from runners.protocol import Failure
from runners.reference.encoding import encode
from runners.reference.fresh import FreshWork, fresh_runner
from strategies.contents import Recipe, ValueClass, of_group
from strategies.contents.device import device_contents
from strategies.draws import Selection, draw_one
from strategies.features import Focus
from strategies.programs import programs
from strategies.rounds import selected_forms

PART = {"sim": 32, "cuda": 1 << 14}
"""Images of a comparison: those of a warpgroup are large, and a comparison has a deadline."""
_OPEN: list[tuple[OpenRunner, ExitStack]] = []
"""The runner of this process."""


def start(choice: RunnerChoice) -> None:
    """Open the runner of this process."""
    stack = ExitStack()
    _OPEN.append((stack.enter_context(opened(choice)), stack))


def compare(form: Form, forms: tuple[Form, ...], key: int, images: int, end: float) -> Counter[str]:
    """Compare images of a program about a form."""
    ((ready, _),) = _OPEN
    target, version = str(ready.choice.target), str(ready.choice.ptx_version)
    counts = Counter[str]()
    if time.time() > end:
        return Counter({"forms for which there was no time": 1})
    module = Module.named(target, version)
    program = draw_one(programs(Focus(form=form), module=module, forms=forms), key)
    recipe = Recipe(classes=tuple(ValueClass), seed=key)
    recipe = recipe if program.warps == 1 else of_group(recipe)
    compiled = ready.runner.compile(emit(program, module=module))
    if isinstance(compiled, Failure):
        print(form.opcode, compiled, flush=True)
        return Counter({"forms that were not compiled": 1})
    judge = compiled.oracle_target  # with the compiler, on which some figures depend
    work = FreshWork(
        encoded=encode(program, model_for(judge)), contents=device_contents(recipe, program),
        first=0, count=0,
    )  # fmt: skip
    while work.first + work.count < images and time.time() < end:
        first = work.first + work.count
        count = min(PART[ready.choice.name], images - first)
        work = replace(work, first=first, count=count, sampled=(first,))
        came = fresh_runner(ready.runner).fresh(compiled, work).collect()
        if isinstance(came, Failure):
            print(form.opcode, came, flush=True)
            counts["forms that did not run to the end"] += 1
            break
        again = made_again(recipe, program, came, target=judge)
        counts["images"] += came.images
        counts["microseconds"] += int(1e6 * came.seconds)
        counts["differing"] += came.differing
        counts["reference wrong"] += len(again.mistaken)
        if len(again.mistaken) or came.differing:
            some = came.numbers[np.union1d(again.wrong, again.mistaken)][:4].tolist()
            print(
                f"{form.opcode}: {came.differing} of {came.images} differ; of {len(again.images)} "
                f"the program is wrong about {len(again.wrong)}, the reference about "
                f"{len(again.mistaken)}: {some}",
                flush=True,
            )
            break
    counts["forms"] += 1
    counts["forms with all images"] += counts["images"] >= images
    return counts


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="wgmma*")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--version", default="8.7")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--key", type=int, default=28)
    parser.add_argument("--every", type=int, default=1, help="one form in so many")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--time", type=float, default=300.0)
    parser.add_argument("--opt", type=int)
    parser.add_argument("--assembler")
    parser.add_argument("--runner", default="cuda", choices=["cuda", "sim"])
    given = parser.parse_args()
    forms = selected_forms(
        Selection(pattern=given.only), target=given.target, version=given.version
    )
    products = [form for form in forms if form.is_main][:: given.every]
    choice = RunnerChoice(
        name=given.runner, target=given.target, ptx_version=given.version, level=given.opt,
        assembler=named_assembler(given.assembler) if given.assembler else None,
    )  # fmt: skip
    spawned, total = multiprocessing.get_context("spawn"), Counter[str]()
    work = partial(
        compare, forms=tuple(forms), key=given.key, images=given.images,
        end=time.time() + given.time,
    )  # fmt: skip
    with ProcessPoolExecutor(given.processes, spawned, start, (choice,)) as pool:
        for counts in pool.map(work, products):
            total.update(counts)
    seconds = total.pop("microseconds", 0) / 1e6
    found = {**total, "images a second": round(total["images"] / seconds) if seconds else 0}
    print(json.dumps(found, indent=1))
    sys.exit(1 if total["reference wrong"] else 0)


if __name__ == "__main__":
    main()
