"""What an image of a campaign's programs takes on a device, and weights that foretell it.

Makes, runs and compares 16,384 images of programs that a campaign draws, each launch after the one
before has ended, and fits the weights of `runners.reference.fresh` to the sums of the three, so
that ratios are right. Prints one JSON object: programs, the weights, what is foretold in units of
what was measured at some percentiles, and images a second if each program had as much time, or as
many images. Needs a GPU of sm_90. Usage:

    python benchmarks/program_costs.py [--time SECONDS] [--seed N]
"""

from __future__ import annotations

import argparse
import atexit
import json
import time
from typing import Any

import numpy as np
from fresh_speed import Measured
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.isa.targets import Module
from oracle.models import model_for
from runners.cuda.session import Session
from runners.reference.encoding import encode
from runners.reference.fresh import NANOSECONDS, counted
from strategies.draws import Selection
from strategies.rounds import Batch, campaign_rounds, selected_forms

TARGET, VERSION = "sm_90", "8.7"
MODULE = Module.named(TARGET, VERSION)
IMAGES, MEMORY = 1 << 14, 1 << 28
LEAST = 0.01
"""Seconds of each measurement."""
SOME = 4
"""One program of so many of a round."""
PERCENTILES = (1, 5, 25, 50, 75, 95, 99)
TURNS, STEP, MOST_ERROR = 4000, 0.02, 1.5
"""Of Adam (Kingma and Ba, 2015), on logarithms of weights; errors beyond the last count as such."""


def nanoseconds(session: Session, batch: Batch, both: tuple[int, int]) -> float:
    """Return what an image of a program takes; `both` are places of images, and of copies."""
    count = min(IMAGES, MEMORY // batch.program.image_bytes)
    one = Measured(session, batch.program, count, both, target=MODULE)
    one.contents = one.contents_of(batch.recipe)
    steps = one.fill, one.run, one.compare
    return sum(one.nanoseconds(LEAST, step, launches=1) for step in steps)


def fitted(counts: NDArray[Any], measured: NDArray[Any]) -> NDArray[Any]:
    """Return positive weights of counts (programs, units): logarithms of sums differ least."""
    seen, scale = counts.any(axis=0), counts.mean(axis=0) + 1e-9
    logs = np.log(np.median(measured) / counts.shape[1] / scale)
    logs = np.where(seen, logs, np.log(list(NANOSECONDS.values())))
    first, second = np.zeros_like(logs), np.zeros_like(logs)
    for turn in range(1, TURNS + 1):
        weights = np.exp(logs)
        sums = counts @ weights
        error = np.clip(np.log(sums / measured), -MOST_ERROR, MOST_ERROR)
        slope = (2 * error / sums) @ counts * weights / len(measured) * seen
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope * slope
        logs -= STEP * (first / (1 - 0.9**turn)) / (np.sqrt(second / (1 - 0.999**turn)) + 1e-9)
    return np.exp(logs)


def main() -> None:
    """Measure, fit and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", type=float, default=36.0)
    parser.add_argument("--seed", type=int, default=77)
    given = parser.parse_args()
    session, measured, counts = Session(0), [], []
    # PyCUDA aborts where a context is left at the end.
    atexit.register(session._context.pop)
    memories = [session._driver.mem_alloc(MEMORY) for _ in range(2)]
    before, after = map(int, memories)
    forms = selected_forms(Selection(), target=TARGET, version=VERSION)
    rounds = campaign_rounds(forms, target=TARGET, version=VERSION, seed=given.seed)
    end = time.monotonic() + given.time
    for batch in (batch for batches in rounds for batch in batches[::SOME]):
        if time.monotonic() > end:
            break
        try:
            of_program = counted(encode(batch.program, model_for(TARGET)))
        except UsageError:
            continue
        measured.append(nanoseconds(session, batch, (before, after)))
        counts.append([of_program.get(name, 0.0) for name in NANOSECONDS])
    times = np.array(measured)
    weights = fitted(np.array(counts), times)
    ratios = np.percentile(np.array(counts) @ weights / times, PERCENTILES)
    found = {
        "programs": len(times),
        "nanoseconds": {
            name: float(f"{weight:.2g}") for name, weight in zip(NANOSECONDS, weights, strict=True)
        },
        "foretold": dict(zip(PERCENTILES, ratios.round(2).tolist(), strict=True)),
        "million images a second at equal time": round(float((1e3 / times).mean()), 1),
        "at equal counts": round(float(1e3 / times.mean()), 1),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
