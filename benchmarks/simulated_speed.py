"""Cases a second on the simulated device, images in and images out, on one core.

One program of load a, b, c, multiply, store d for each combination of types; a case is one image.
The module is loaded once, as in a campaign, and its load is not counted; drawing contents and the
oracle are not counted. Prints one JSON object per program: cases a second in batches of each
size, and the ratio to the first program's (f16, C and D f32) in this run.

Then drawn programs over all forms, as a campaign runs them: rounds of eight programs of which each
is loaded once, with its time counted, and launched once. Images a second of processor time, behind
20 rounds of other programs, of which four are launched. One row for a sound device, one for a
device with a fault that nearly every program shows and that rewrites the text before it is read;
with one image of each program, too. Usage:

    python benchmarks/simulated_speed.py [--seconds S] [--target TARGET]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time

import numpy as np
from numpy.typing import NDArray

from oracle.isa.lookup import mma_form
from oracle.isa.targets import Module
from oracle.program.steps import product_of
from runners.allocation import keep_memory
from runners.emission import emit, emit_all
from runners.faults import by_name
from runners.kernels import LANES, KernelModule
from runners.simulated import LoadedModule, SimulatedDevice, SimulatedTrap
from runners.simulated.parser import operands_of, parse, statement_of
from strategies.contents import expand
from strategies.draws import Selection
from strategies.matrices import single_program
from strategies.rounds import Batch, round_batches, round_key, selected_forms

OPCODES = (
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32",
    "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64",
    "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32",
    "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32",
    "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
)
BATCHES = (1, 100, 1_000)


def rate(module: LoadedModule, images: NDArray[np.uint8], seconds: float) -> float:
    """Return cases a second over at least so many seconds."""
    module.launch("kernel", images)
    done = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        module.launch("kernel", images)
        done += len(images)
    return done / elapsed


DRAWN_IMAGES = (1, 8, 64)
"""Images of each drawn program."""
FREQUENT_FAULT = "store-one-row-off"
"""Changes every program that stores a fragment."""
_ROUNDS = 4
_BEFORE = 20
"""Rounds that a campaign has had before those that are measured."""
_VERSION = "8.0"


Rounds = list[tuple[KernelModule, list[Batch]]]
"""Modules with what fills the images of their programs."""


def drawn(target: str, first: int, count: int) -> Rounds:
    """Return so many rounds of drawn programs over all forms, from a number on."""
    forms = selected_forms(Selection(pattern="*"), target=target, version=_VERSION)
    rounds = []
    for number in range(first, first + count):
        key = round_key(1, number)
        batches = list(round_batches(forms, target=target, version=_VERSION, key=key, count=64))
        programs = {batch.entry: batch.program for batch in batches}
        rounds.append((emit_all(programs, module=Module.named(target, _VERSION)), batches))
    return rounds


def drawn_rate(rounds: Rounds, device: SimulatedDevice, count: int) -> float:
    """Return images a second of processor time of loading and launching every program once."""
    contents = [
        [expand(batch.recipe, batch.program, min(count, batch.count)) for batch in each]
        for _, each in rounds
    ]
    parse.cache_clear()
    start = time.process_time()
    done = 0
    for (module, batches), filled in zip(rounds, contents, strict=True):
        loaded = device.load(module.ptx)
        for batch, images in zip(batches, filled, strict=True):
            kernel = module.kernel(batch.entry)
            # A fault may make a program leave its buffers.
            with contextlib.suppress(SimulatedTrap):
                loaded.launch(batch.entry, images, threads=LANES * kernel.warps_per_block)
            done += len(images)
    return done / (time.process_time() - start)


def main() -> None:
    """Measure all programs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each figure")
    parser.add_argument("--target", default="sm_90", help="the simulated device")
    given = parser.parse_args()
    keep_memory()  # as a campaign's workers do
    device = SimulatedDevice(given.target)
    rng = np.random.default_rng(0)
    first: dict[int, float] = {}
    for opcode in OPCODES:
        program = single_program(product_of(mma_form(opcode)))
        module_text = emit(program, module=Module.named(given.target))
        module = device.load(module_text.ptx)
        # Uniform bits: special values are among them, so that no figure leaves them out.
        size = module_text.kernel().image_bytes
        rates = {
            batch: rate(module, rng.integers(0, 256, (batch, size), dtype=np.uint8), given.seconds)
            for batch in BATCHES
        }
        first = first or rates
        print(
            json.dumps(
                {
                    "opcode": opcode,
                    "cases_per_second": {str(batch): round(r) for batch, r in rates.items()},
                    "ratio_to_first": {
                        str(batch): round(r / first[batch], 2) for batch, r in rates.items()
                    },
                }
            ),
            flush=True,
        )
    before = drawn(given.target, 2 * _ROUNDS, _BEFORE)
    rounds = drawn(given.target, _ROUNDS, _ROUNDS)
    for fault in (None, FREQUENT_FAULT):
        faults = () if fault is None else (by_name(fault),)
        figures = {}
        for count in DRAWN_IMAGES:
            # What a campaign has done before: other programs, and none of these.
            statement_of.cache_clear()
            operands_of.cache_clear()
            faulty = SimulatedDevice(given.target, faults=faults)
            for module, _ in before:
                faulty.load(module.ptx)
            drawn_rate(before[:_ROUNDS], faulty, count)
            figures[str(count)] = round(drawn_rate(rounds, faulty, count))
        row = {"drawn": "all forms", "fault": fault, "images_per_second_by_images": figures}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
