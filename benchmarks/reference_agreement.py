"""The reference on the device against the oracle: every form of a product, and drawn programs.

Each process expands images of all classes of contents, executes them in NumPy, and has the device
compare its own results with these. Prints a line for each form or program that differs, with the
numbers of the first images, and in the end one JSON object with the counts. Ends with 1 if an image
differs. Usage:

    python benchmarks/reference_agreement.py [--images N] [--programs N] [--processes N] [--time S]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from typing import Any

from oracle.execution import execute
from oracle.isa import FORMS
from oracle.models import model_for
from oracle.ops import product_of
from oracle.program import Program
from oracle.targets import Module
from runners.cuda.reference import DeviceReference
from runners.cuda.session import Session
from runners.reference.encoding import NotEncodedError, encode
from strategies.contents import Recipe, ValueClass, expand
from strategies.draws import draw
from strategies.features import Focus
from strategies.programs import programs
from strategies.programs.single_instruction import buffers_of, single_instruction

BATCH_BYTES = 16 << 20
"""Images that are expanded and executed together."""


def subjects(target: str, count: int) -> dict[str, Program]:
    """Return a program of each form of a product that the model has figures of, and drawn ones."""
    model, found = model_for(target), {}
    for form in FORMS:
        unknown = form.is_product and form.a_type.is_float and form.satfinite
        if form.is_product and not unknown and model.judges(form):
            steps = single_instruction(product_of(form))
            found[form.opcode] = Program(buffers=buffers_of(steps), steps=steps)
    strategy = programs(Focus(), module=Module.named(target, "8.7"), forms=FORMS)
    drawn = draw(strategy, count, 28)
    return found | {f"program {number}": one for number, one in enumerate(drawn)}


def compare(process: int, given: Any, results: Any) -> None:
    """Compare every so many of the subjects, and report the counts."""
    session = Session(given.device)
    driver, (major, minor) = session._driver, session.facts().compute_capability
    target = f"sm_{major}{minor}"
    reference, counts = DeviceReference(driver, session.modules), Counter[str]()
    end = time.monotonic() + given.time
    todo = list(subjects(target, given.programs).items())[process :: given.processes]
    first = 0
    while todo and time.monotonic() < end:  # a batch of each, then the next of each
        left = []
        for name, program in todo:
            if time.monotonic() > end:
                break
            size = max(1, min(given.images - first, BATCH_BYTES // program.image_bytes, 1 << 14))
            try:
                encoded = encode(program, model_for(target))
            except NotEncodedError as error:
                counts[f"refused: {error}"] += 1
                continue
            recipe = Recipe(classes=tuple(ValueClass), seed=28)
            images = expand(recipe, program, size, first=first)
            expected = execute(program, images, target=target).images
            before, after = driver.to_device(images), driver.to_device(expected)
            ready = reference.program(encoded)
            reference.start(ready, int(before), int(after), size)
            found = reference.end(size)
            counts["images"] += size
            counts["batches"] += 1
            if found.differing:
                counts["differing"] += found.differing
                print(name, first, found, flush=True)
            if first + size < given.images:
                left.append((name, program))
        todo, first = left, first + (1 << 14)
    results.put(counts)


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--programs", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--time", type=float, default=300.0)
    parser.add_argument("--device", type=int, default=0)
    given = parser.parse_args()
    spawned = multiprocessing.get_context("spawn")
    results = spawned.Queue()
    workers = [
        spawned.Process(target=compare, args=(number, given, results))
        for number in range(given.processes)
    ]
    for worker in workers:
        worker.start()
    total = Counter[str]()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            total["processes that failed"] += 1
        else:
            total += results.get()
    print(json.dumps(total, indent=1))
    sys.exit(1 if total["differing"] or total["processes that failed"] else 0)


if __name__ == "__main__":
    main()
