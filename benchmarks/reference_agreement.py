"""The reference on the device against the oracle: every form of a product, and drawn programs.

Each process has the device make images of all classes of contents, executes them in NumPy, and has
the device compare its own results with these; the first images of each form or program are made in
NumPy, too. Prints a line for each that differs, with the numbers of the first images, and in the
end one JSON object with the counts. Ends with 1 if an image differs. Usage:

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
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.execution import execute
from oracle.image import different
from oracle.isa import FORMS
from oracle.models import model_for
from oracle.ops import product_of
from oracle.program import Program
from oracle.targets import Module
from runners.cuda.reference import DeviceReference
from runners.cuda.session import Session
from runners.reference.encoding import Encoded, encode
from strategies.contents import Recipe, ValueClass, expand
from strategies.contents.device import device_contents
from strategies.draws import draw
from strategies.features import Focus
from strategies.programs import programs
from strategies.programs.single_instruction import buffers_of, single_instruction

BATCH_BYTES = 32 << 20
"""Images that are made and executed together."""
TURN = 1 << 14
"""Images of a form after which the next one comes."""
DRAWN = 64
"""So many times fewer are those of a drawn program, of which there are more."""
RECIPE = Recipe(classes=tuple(ValueClass), seed=28)


def forms(target: str) -> dict[str, Program]:
    """Return a program of each form of a product that the model has figures of."""
    model, found = model_for(target), {}
    for form in FORMS:
        unknown = form.is_product and form.a_type.is_float and form.satfinite
        if form.is_product and not unknown and model.judges(form):
            steps = single_instruction(product_of(form))
            found[form.opcode] = Program(buffers=buffers_of(steps), steps=steps)
    return found


def mixed(target: str, count: int, seed: int) -> dict[str, Program]:
    """Return programs as a campaign draws them."""
    strategy = programs(Focus(), module=Module.named(target, "8.7"), forms=FORMS)
    drawn = draw(strategy, count, seed)
    return {f"program {seed}.{number}": one for number, one in enumerate(drawn)}


class Agreement:
    """What one process compares."""

    def __init__(self, device: int) -> None:
        self._session = Session(device)
        self._driver = self._session._driver
        major, minor = self._session.facts().compute_capability
        self.target = f"sm_{major}{minor}"
        self._reference = DeviceReference(self._driver, self._session.modules)
        self._both = [self._driver.mem_alloc(BATCH_BYTES) for _ in range(2)]
        self._known: dict[str, tuple[Encoded, NDArray[np.uint64]]] = {}
        self.counts = Counter[str]()
        self.images = Counter[str]()
        """By form or program."""

    def knows(self, name: str, program: Program) -> bool:
        """Whether the reference can do a program, which is written down."""
        try:
            encoded = encode(program, model_for(self.target))
        except UsageError as error:
            self.counts[f"refused: {error}"] += 1
            return False
        self._known[name] = encoded, device_contents(RECIPE, program).words
        return True

    def compare(self, name: str, program: Program, count: int) -> None:
        """Compare the images of a program that come next."""
        reference, driver, first = self._reference, self._driver, self.images[name]
        before, after = map(int, self._both)
        encoded, words = self._known[name]
        images = np.empty(
            (min(count, BATCH_BYTES // program.image_bytes), program.image_bytes), "u1"
        )
        reference.fill(reference.contents(words), first, len(images), before, after)
        driver.memcpy_dtoh(images, before)
        if not first:
            some = images[: 8 * len(RECIPE.classes)]
            self.counts["images made in NumPy"] += len(some)
            made = expand(RECIPE, program, len(some))
            self.counts["made otherwise"] += len(different(made, some))
        # What the oracle works on together is of one class: special values slow down their company.
        by_class = np.argsort((first + np.arange(len(images))) % len(RECIPE.classes), kind="stable")
        images[by_class] = execute(program, images[by_class], target=self.target).images
        driver.memcpy_htod(after, images)
        reference.start(reference.program(encoded), before, after, len(images), first=first)
        found = reference.end(len(images))
        self.images[name] += len(images)
        self.counts["differing"] += found.differing
        if found.differing:
            print(name, found, flush=True)


def work(process: int, given: argparse.Namespace) -> tuple[Counter[str], Counter[str]]:
    """Compare every so many of the forms, and programs, and return the counts."""
    end = time.monotonic() + given.time
    one = Agreement(given.device)
    some = dict(list(forms(one.target).items())[process :: given.processes])
    drawn = len(range(process, given.programs, given.processes))
    some |= mixed(one.target, drawn, process) if drawn else {}
    todo = [subject for subject in some.items() if one.knows(*subject)]
    while todo and time.monotonic() < end:  # a turn of each, then the next of each
        for name, program in todo:
            if time.monotonic() < end:
                turn = TURN // DRAWN if name.startswith("program") else TURN
                one.compare(name, program, min(turn, given.images - one.images[name]))
        todo = [subject for subject in todo if one.images[subject[0]] < given.images]
    return one.counts, one.images


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--programs", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--time", type=float, default=300.0)
    parser.add_argument("--device", type=int, default=0)
    given = parser.parse_args()
    total, images = Counter[str](), Counter[str]()
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.processes, mp_context=spawned) as pool:
        for counts, own in pool.map(partial(work, given=given), range(given.processes)):
            total.update(counts)
            images.update(own)
    for what, is_drawn in ("forms", False), ("programs", True):
        each = [n for name, n in images.items() if name.startswith("program") == is_drawn]
        total[what] = len(each)
        total[f"images of {what}"] = sum(each)
        total[f"least of one of the {what}"] = min(each, default=0)
    print(json.dumps(total, indent=1))
    sys.exit(1 if total["differing"] or total["made otherwise"] else 0)


if __name__ == "__main__":
    main()
