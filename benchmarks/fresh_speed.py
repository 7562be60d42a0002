"""Fresh images a second on a device: the smallest program of f16.

Load a, b, c, multiply, store d (m16n16k16, C and D f32). Each turn makes new images of all classes
of contents there, twice, runs the program on the copies, and compares these with what the reference
makes of the images. Prints one JSON object: the device, images a second of all three together and
of each alone, images that differed, and the power that NVML reads. Usage:

    python benchmarks/fresh_speed.py [--seconds S] [--images N] [--device N]
"""

from __future__ import annotations

import argparse
import atexit
import datetime
import json
import time

import msgspec
from cuda_speed import program

from oracle.models import model_for
from runners.cuda.reference import DeviceReference
from runners.cuda.session import Session
from runners.emission import emit
from runners.reference.encoding import encode
from strategies.contents import Recipe, ValueClass
from strategies.contents.device import device_contents


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--images", type=int, default=1 << 16)
    parser.add_argument("--device", type=int, default=0)
    given = parser.parse_args()
    made, session = program(), Session(given.device)
    # PyCUDA aborts where a context is left at the end.
    atexit.register(session._context.pop)
    driver, facts = session._driver, session.facts()
    module = emit(made)
    session.modules.load("test", module.ptx.encode(), None)
    kernel = session.modules.function("test", module.kernels[0].entry, "PPI")
    target = f"sm_{facts.compute_capability[0]}{facts.compute_capability[1]}"
    recipe = Recipe(classes=tuple(ValueClass), seed=1)
    before, after = (driver.mem_alloc(given.images * made.image_bytes) for _ in range(2))
    reference = DeviceReference(driver, session.modules)
    ready = reference.program(encode(made, model_for(target)))
    contents = reference.contents(device_contents(recipe, made).words)
    warps = module.kernels[0].warps_per_block
    both = int(before), int(after)

    def fill(first: int) -> None:
        reference.fill(contents, first, given.images, *both)

    def run(first: int) -> None:
        kernel.prepared_async_call(
            (-(-given.images // warps), 1), (32 * warps, 1, 1), None, int(after), 0, given.images
        )

    def compare(first: int) -> None:
        reference.add(ready, *both, first, given.images)

    fill(0)
    run(0)
    reference.start(ready, *both, given.images)
    differing = reference.end(given.images).differing
    rates: dict[str, float] = {}
    parts = {"all": (fill, run, compare), "comparison": (compare,), "fill": (fill,), "run": (run,)}
    for name, functions in parts.items():
        begun, count = time.perf_counter(), 0
        while time.perf_counter() - begun < given.seconds:
            for _ in range(32):
                for function in functions:
                    function(count)
                count += given.images
            driver.Context.synchronize()
        rates[name] = round(count / (time.perf_counter() - begun) / 1e6, 1)
        if name == "comparison":
            differing = reference.end(count).differing
    print(
        json.dumps(
            msgspec.to_builtins(
                {
                    "date": datetime.date.today().isoformat(),
                    "device": facts,
                    "million images a second": rates,
                    "differing": differing,
                    "bytes of a warp": ready.encoded.work_bytes,
                    "health": session.health(),
                }
            ),
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
