"""The reference on the device against the oracle: every form of a product, and drawn programs.

Each process has a device make images of all classes of contents, executes them in NumPy, and has
the device compare its own results with these; the first images of each form or program are made in
NumPy, too. The processes share the GPUs, and take parts of a form or program in turn: the first of
each, then the second of each. Prints a line for each that differs, with the numbers of the first
images, and in the end one JSON object with the counts; --output writes how many images of each form
and program were compared as well. Ends with 1 if an image differs. Usage:

    python benchmarks/reference_agreement.py [--images N] [--first N] [--programs N]
        [--processes N] [--devices 0,1] [--time S] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.models import model_for
from oracle.program.program import Program, different
from oracle.program.steps import product_of
from runners.cuda.fresh import DeviceReference
from runners.cuda.session import Session
from runners.reference.encoding import Encoded, encode
from strategies.contents import Recipe, ValueClass, expand
from strategies.contents.device import device_contents
from strategies.draws import draw
from strategies.features import Focus
from strategies.matrices import single_program
from strategies.programs import programs

BATCH_BYTES = 32 << 20
"""Images that are made and executed together."""
TOGETHER = 1 << 14
"""Most of these: no form is quicker with more."""
PART = 1 << 18
"""Images of a form that a process takes in turn: a second or some."""
OF_A_SEED = 64
"""Programs that are drawn from one seed."""
DRAWN = 1 << 11
"""So many times fewer are those of a drawn program, of which there are more."""
RECIPE = Recipe(classes=tuple(ValueClass), seed=28)


def forms(target: str) -> dict[str, Program]:
    """Return a program of each form of a product that the model has figures of."""
    model, found = model_for(target), {}
    for form in FORMS:
        unknown = form.is_product and form.a_type.is_float and form.satfinite
        if form.is_product and not unknown and model.judges(form):
            found[form.opcode] = single_program(product_of(form))
    return found


def mixed(target: str, count: int, seed: int) -> dict[str, Program]:
    """Return programs as a campaign draws them."""
    strategy = programs(Focus(), module=Module.named(target, "8.7"), forms=FORMS)
    drawn = draw(strategy, count, seed)
    return {f"program {seed}.{number}": one for number, one in enumerate(drawn)}


@dataclass(frozen=True)
class Part:
    """Images of a form or program: a range of their numbers."""

    name: str
    first: int
    count: int


class Agreement:
    """What one process compares."""

    def __init__(self, device: int) -> None:
        self._session = Session(device)
        self._driver = self._session._driver
        major, minor = self._session.facts().compute_capability
        self.target = f"sm_{major}{minor}"
        self._reference = DeviceReference(self._driver, self._session.modules)
        self._both = [self._driver.mem_alloc(BATCH_BYTES) for _ in range(2)]
        self._forms = forms(self.target)
        self._mixed: dict[int, dict[str, Program]] = {}
        self._known: dict[str, tuple[Encoded, NDArray[np.uint64]] | None] = {}
        self.counts = Counter[str]()

    def program(self, name: str) -> Program:
        """Return a program by its name."""
        if name in self._forms:
            return self._forms[name]
        seed = int(name.removeprefix("program ").partition(".")[0])
        if seed not in self._mixed:
            self._mixed[seed] = mixed(self.target, OF_A_SEED, seed)
        return self._mixed[seed][name]

    def compare(self, part: Part) -> int:
        """Compare images of a program, and return how many; 0 if the reference cannot do it."""
        program = self.program(part.name)
        if part.name not in self._known:
            try:
                encoded = encode(program, model_for(self.target))
                self._known[part.name] = encoded, device_contents(RECIPE, program)
            except UsageError as error:
                self.counts[f"refused: {error}"] += 1
                self._known[part.name] = None
        known, end, first = self._known[part.name], part.first + part.count, part.first
        while known and first < end:
            first += self._batch(part.name, program, *known, first, end - first)
        return first - part.first

    def _batch(
        self, name: str, program: Program, encoded: Encoded, words: NDArray[np.uint64],
        first: int, most: int,
    ) -> int:  # fmt: skip
        reference, driver = self._reference, self._driver
        before, after = map(int, self._both)
        count = min(most, TOGETHER, BATCH_BYTES // program.image_bytes)
        images = np.empty((count, program.image_bytes), "u1")
        reference.fill(reference.contents(words), first, count, before, after)
        driver.memcpy_dtoh(images, before)
        if not first:
            some = images[: 8 * len(RECIPE.classes)]
            self.counts["images made in NumPy"] += len(some)
            made = expand(RECIPE, program, len(some))
            self.counts["made otherwise"] += len(different(made, some))
        # What the oracle works on together is of one class: special values slow down their company.
        by_class = np.argsort((first + np.arange(count)) % len(RECIPE.classes), kind="stable")
        images[by_class] = execute(program, images[by_class], target=self.target).images
        driver.memcpy_htod(after, images)
        reference.start(reference.program(encoded), before, after, count, first=first)
        found = reference.end(count)
        self.counts["differing"] += found.differing
        if found.differing:
            print(name, found, flush=True)
        return count


_OWN: list[Agreement] = []
"""What this process compares, once it has a device."""


def start(devices: SimpleQueue[int]) -> None:
    """Open the device of this process."""
    _OWN.append(Agreement(devices.get()))


def work(part: Part, end: float) -> tuple[Part, int, Counter[str]]:
    """Compare a part, if there is time, and return how many images and what else was counted."""
    (own,) = _OWN
    images = own.compare(part) if time.time() < end else 0
    counts, own.counts = own.counts, Counter[str]()
    return part, images, counts


def parts(names: Sequence[str], first: int, images: int) -> Iterator[Part]:
    """Iterate over parts of forms and programs: the first of each, then the second."""
    for begin in range(first, first + images, PART):
        for name in names:
            share = DRAWN if name.startswith("program") else 1
            yield Part(name, begin // share, min(PART, first + images - begin) // share)


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--programs", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--time", type=float, default=300.0)
    parser.add_argument("--devices", default="0")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    end = time.time() + given.time
    drawn = [f"program {n // OF_A_SEED}.{n % OF_A_SEED}" for n in range(given.programs)]
    names = [*forms(given.target), *drawn]
    images, total = dict.fromkeys(names, 0), Counter[str]()
    spawned = multiprocessing.get_context("spawn")
    devices = spawned.SimpleQueue()
    numbers = [int(each) for each in given.devices.split(",")]
    for process in range(given.processes):
        devices.put(numbers[process % len(numbers)])
    with ProcessPoolExecutor(given.processes, spawned, start, (devices,)) as pool:
        todo = parts(names, given.first, given.images)
        for part, count, counts in pool.map(partial(work, end=end), todo):
            images[part.name] += count
            total.update(counts)
    for what, is_drawn in ("forms", False), ("programs", True):
        each = [n for name, n in images.items() if name.startswith("program") == is_drawn]
        total[what] = len(each)
        total[f"images of {what}"] = sum(each)
        total[f"least of one of the {what}"] = min(each, default=0)
    print(json.dumps(total, indent=1))
    if given.output:
        given.output.write_text(json.dumps(images, indent=1))
    sys.exit(1 if total["differing"] or total["made otherwise"] else 0)


if __name__ == "__main__":
    main()
