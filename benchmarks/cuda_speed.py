"""Cases a second through the CUDA runner, images in and images out, against one case per launch.

The program is load a, b, c, multiply, store d: f16 m16n16k16, C and D f32. Every figure is taken
in one run on one machine. Prints one JSON object: the date, the device and its software, the
figures for several sizes of batch, and their ratio to the loop, which launches one warp per case
with `drv.InOut`. Generation and oracle are not counted; the first images are compared with the
oracle's. Usage:

    python benchmarks/cuda_speed.py [--seconds S] [--device N]
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from oracle.execution.execution import execute
from oracle.isa.lookup import mma_form
from oracle.isa.targets import Module
from oracle.program.program import Program
from oracle.program.steps import product_of
from runners.cuda.runner import CudaRunner
from runners.emission import emit
from runners.protocol import Compiled, Failure, Images, Pending
from strategies.matrices import single_program

OPCODE = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"
BATCHES = (1_000, 10_000, 100_000, 300_000)
CHUNK_BYTES = (2 << 20, 8 << 20, 32 << 20)
CHUNK_BATCH = 100_000
"""Size of the batch with which sizes of chunks are compared."""
CHECKED = 1024
"""Images that are compared with the oracle's."""


def program() -> Program:
    """Return the smallest program of the opcode, all matrices in global memory."""
    return single_program(product_of(mma_form(OPCODE)))


def contents(made: Program, count: int) -> Images:
    """Return images of normally distributed numbers."""
    rng = np.random.default_rng(0)
    images = np.zeros((count, made.image_bytes), np.uint8)
    for buffer in made.buffers:
        width, dtype = (2, np.float16) if buffer.name in "ab" else (4, np.float32)
        numbers = rng.standard_normal((min(count, 4096), buffer.size // width), np.float32)
        start = made.offset(buffer.name)
        raw = numbers.astype(dtype).view(np.uint8)
        images[:, start : start + buffer.size] = np.resize(raw, (count, buffer.size))
    return images


def rate(runner: CudaRunner, compiled: Compiled, inputs: list[Images], seconds: float) -> float:
    """Return cases a second with one batch always on its way while another is collected."""

    def batches(end: float) -> Iterator[None]:
        waiting: Pending | None = None
        number = 0
        while time.perf_counter() < end or number < 3:
            following = runner.submit(compiled, inputs[number % len(inputs)])
            number += 1
            if waiting is not None:
                _check(waiting.collect())
                yield
            waiting = following
        if waiting is not None:
            _check(waiting.collect())
            yield

    for _ in batches(0.0):  # memory is touched and registered, buffers are made
        pass
    start = time.perf_counter()
    done = sum(1 for _ in batches(start + seconds))
    return done * inputs[0].shape[0] / (time.perf_counter() - start)


def _check(outcome: object) -> None:
    if isinstance(outcome, Failure):
        sys.exit(f"{outcome} {outcome.detail}")


def one_per_launch(ptx: str, image_bytes: int, seconds: float, device: int) -> float:
    """Return cases a second when every case is a launch; in a process of its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        arguments = ["--loop", file.name, "--seconds", str(seconds), "--device", str(device)]
        answer = subprocess.run(
            [sys.executable, __file__, *arguments, "--image-bytes", str(image_bytes)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return float(answer.stdout)


def loop(ptx: str, image_bytes: int, seconds: float, device: int) -> float:
    """Launch one case after another with PyCUDA; called in the process of its own."""
    import pycuda.driver as drv

    drv.init()
    context = drv.Device(device).make_context()
    try:
        function = drv.module_from_buffer(ptx.encode()).get_function("kernel")
        images = np.random.default_rng(0).integers(0, 256, (256, image_bytes), np.uint8)
        nowhere, one = np.uint64(0), np.uint32(1)

        def launch(number: int) -> None:
            image = drv.InOut(images[number % 256])
            function(image, nowhere, one, grid=(1, 1), block=(32, 1, 1))

        for number in range(100):
            launch(number)
        done, start = 0, time.perf_counter()
        while time.perf_counter() < start + seconds:
            launch(done)
            done += 1
        return done / (time.perf_counter() - start)
    finally:
        context.pop()


def measure(seconds: float, device: int) -> dict[str, Any]:
    """Take all figures."""
    made = program()
    module = emit(made, module=Module.named("sm_75", "7.0"))
    slow = one_per_launch(module.ptx, made.image_bytes, 2 * seconds, device)
    images = contents(made, max(BATCHES))
    rows = []

    def run(count: int, chunk_bytes: int, leased: bool) -> None:
        with CudaRunner(device=device, chunk_bytes=chunk_bytes, deadline=60.0) as runner:
            compiled = runner.compile(module)
            _check(compiled)
            assert isinstance(compiled, Compiled)
            inputs = [images[:count]]
            if leased:
                inputs = [runner.lease(count, made.image_bytes) for _ in range(2)]
                for lease in inputs:
                    lease[:] = images[:count]
            fast = rate(runner, compiled, inputs, seconds)
            rows.append(
                {
                    "batch": count,
                    "chunk_mib": chunk_bytes >> 20,
                    "images": "leased" if leased else "copied by the runner",
                    "cases_per_second": round(fast),
                    "times_the_loop": round(fast / slow, 1),
                }
            )

    for count in BATCHES:
        for leased in (False, True):
            run(count, CHUNK_BYTES[1], leased)
    for chunk_bytes in CHUNK_BYTES:
        run(CHUNK_BATCH, chunk_bytes, True)
    with CudaRunner(device=device) as runner:
        compiled = runner.compile(module)
        _check(compiled)
        assert isinstance(compiled, Compiled)
        checked = images[:CHECKED]
        ran = runner.run(compiled, checked)
        _check(ran)
        assert not isinstance(ran, Failure)
        expected = execute(made, checked, target=compiled.architecture).images
        return {
            "date": datetime.date.today().isoformat(),
            "opcode": OPCODE,
            "image_bytes": made.image_bytes,
            "device": msgspec.to_builtins(runner.facts()),
            "health": msgspec.to_builtins(runner.health()),
            "compiler": compiled.compiler,
            "one_case_per_launch": round(slow),
            "runner": rows,
            "wrong_images": int((ran.images != expected).any(axis=1).sum()),
            "checked_images": CHECKED,
        }


def main() -> None:
    """Parse the command line and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=1.5, help="time of one figure")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--loop", help=argparse.SUPPRESS)
    parser.add_argument("--image-bytes", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loop:
        ptx = Path(options.loop).read_text()
        print(loop(ptx, options.image_bytes, options.seconds, options.device))
        return
    print(json.dumps(measure(options.seconds, options.device), indent=2))


if __name__ == "__main__":
    main()
