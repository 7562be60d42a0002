"""Images times multiprocessors a second of a screening kernel: the smallest program of f16.

Load a, b, c, multiply, store d (m16n16k16, C and D f32), whole images of 3,072 bytes compared on
the device, with one launch always waiting behind another. Prints one JSON object: the date, the
device and its software, and for several numbers of images and lengths of launches the rate, the
part of the time in which a launch ran, the bytes that were moved to the multiprocessors, and what
NVML said meanwhile. Usage:

    python benchmarks/screening_speed.py [--seconds S] [--device N]
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time

import msgspec
from cuda_speed import contents, program

from oracle.execution.execution import execute
from runners.cuda.runner import CudaRunner
from runners.emission import emit_screening
from runners.protocol import Compiled, Failure
from runners.screening import References, Screened

IMAGES = (1_024, 16_384, 131_072)
LAUNCH_SECONDS = (0.02, 0.25)


def screened(outcome: Screened | Failure) -> Screened:
    """Return what came back, or end."""
    if isinstance(outcome, Failure):
        sys.exit(f"{outcome} {outcome.detail}")
    return outcome


def measured(
    runner: CudaRunner, compiled: Compiled, images: References, launch: float, seconds: float
) -> dict[str, object]:
    """Return the figures of one number of images and length of a launch."""
    count = len(images.images)
    first = screened(runner.screen(compiled, images, limit=4 * count).collect())
    limit = max(1, int(4 * count / first.seconds * launch))
    begun = time.perf_counter()
    waiting = [runner.screen(compiled, images, limit=limit)]
    cases = wrong = 0
    busy, readings = 0.0, []
    while waiting:
        if time.perf_counter() - begun < seconds:
            waiting.append(runner.screen(compiled, images, limit=limit, examine=True))
        one = screened(waiting.pop(0).collect())
        cases += int(one.ledger.finished.sum())
        wrong += int(one.ledger.wrong.sum())
        busy += one.seconds
        readings.append(one.health)
    took = time.perf_counter() - begun
    kernel = compiled.module.kernel()
    return {
        "images": count,
        "launch seconds": launch,
        "million a second": round(cases / took / 1e6, 1),
        "differing": wrong,
        "busy": round(busy / took, 4),
        "terabytes a second": round(2 * kernel.image_bytes * cases / took / 1e12, 2),
        "health": readings[-1],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--device", type=int, default=0)
    given = parser.parse_args()
    made = program()
    with CudaRunner(device=given.device) as runner:
        compiled = runner.compile(emit_screening({"smallest": made}))
        if isinstance(compiled, Failure):
            sys.exit(f"{compiled} {compiled.detail}")
        rows = []
        for count in IMAGES:
            before = contents(made, count)
            images = References(images=before, expected=execute(made, before).images)
            rows += [
                measured(runner, compiled, images, launch, given.seconds)
                for launch in LAUNCH_SECONDS
            ]
        print(
            json.dumps(
                msgspec.to_builtins(
                    {
                        "date": datetime.date.today().isoformat(),
                        "device": runner.facts(),
                        "rows": rows,
                    }
                ),
                indent=1,
            )
        )


if __name__ == "__main__":
    main()
