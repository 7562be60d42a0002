"""Images a second that the reference on the device compares: the smallest program of f16.

Load a, b, c, multiply, store d (m16n16k16, C and D f32). Images are expanded on the processor, all
classes of contents, and stay on the device; each turn copies them, runs the program on the copies,
and compares these with what the reference makes of the images. Prints one JSON object: the device,
images a second of all three together and of the comparison alone, images that differed, and the
power that NVML reads. Usage:

    python benchmarks/fresh_speed.py [--seconds S] [--images N] [--device N]
"""

from __future__ import annotations

import argparse
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
from strategies.contents import Recipe, ValueClass, expand


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--images", type=int, default=1 << 16)
    parser.add_argument("--device", type=int, default=0)
    given = parser.parse_args()
    made, session = program(), Session(given.device)
    driver, facts = session._driver, session.facts()
    module = emit(made)
    session.modules.load("test", module.ptx.encode(), None)
    kernel = session.modules.function("test", module.kernels[0].entry, "PPI")
    target = f"sm_{facts.compute_capability[0]}{facts.compute_capability[1]}"
    recipe = Recipe(classes=tuple(ValueClass), seed=1)
    images = expand(recipe, made, given.images)
    before, after = driver.to_device(images), driver.mem_alloc(images.nbytes)
    reference = DeviceReference(driver, session.modules)
    ready = reference.program(encode(made, model_for(target)))
    warps = module.kernels[0].warps_per_block

    def run() -> None:
        driver.memcpy_dtod_async(after, before, images.nbytes, None)
        kernel.prepared_async_call(
            (-(-given.images // warps), 1), (32 * warps, 1, 1), None, int(after), 0, given.images
        )

    rates: dict[str, float] = {}
    for name in ("all", "comparison"):
        run()
        reference.start(ready, int(before), int(after), given.images)
        first = reference.end(given.images)
        begun, count = time.perf_counter(), 0
        while time.perf_counter() - begun < given.seconds:
            for _ in range(32):
                if name == "all":
                    run()
                reference.add(ready, int(before), int(after), 0, given.images)
            driver.Context.synchronize()
            count += 32 * given.images
        rates[name] = round(count / (time.perf_counter() - begun) / 1e6, 1)
        last = reference.end(count)
        differing = first.differing + last.differing
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
