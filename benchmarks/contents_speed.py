"""Speed of expanding recipes to images, beside plain ways to make as many random numbers.

For the plain program of m16n16k16 (f16 x f16 + f32 -> f32): images per second of each class of
values, of the whole mix, and of the mix in batches as small as campaigns have them. As baselines
uniform random bytes of the images' size, and `standard_normal`, one matrix after the other.
All in one run, on one core: `python benchmarks/contents_speed.py`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from oracle.isa import lookup as isa
from oracle.program.program import Program
from oracle.program.steps import product_of
from strategies.contents import Recipe, ValueClass, expand
from strategies.matrices import single_program

OTHERS = ("bf16", "tf32", "f64", "s8", "u4", "b1")


def per_second(work: Callable[[], object], count: int, seconds: float) -> float:
    """Return how many of `count` items the best of several runs makes in a second."""
    work()
    best, end = float("inf"), time.process_time() + seconds
    while time.process_time() < end:
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return count / best


def _normals(program: Program, count: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(count):
        for dtype in (np.float16, np.float16, np.float32):
            rng.standard_normal((16, 16)).astype(dtype)


def _bytes(program: Program, count: int) -> None:
    np.random.default_rng(1).bytes(count * program.image_bytes)


def main() -> None:
    """Print images per second and what they are of the two baselines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=8192, help="images of a run")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each line")
    options = parser.parse_args()
    count, seconds = options.count, options.seconds

    def rate(recipe: Recipe, program: Program, number: int = count) -> float:
        return per_second(lambda: expand(recipe, program, number), number, seconds)

    form = next(f for f in isa.MMA_FORMS if f.opcode.endswith("row.col.m16n16k16.f32.f32"))
    program = single_program(product_of(form))
    print(f"{form.opcode}, images of {program.image_bytes} bytes, {count} at once")
    bytes_ = per_second(lambda: _bytes(program, count), count, seconds)
    normals = per_second(lambda: _normals(program, count), count, seconds)
    print(f"{'':30} {'images/s':>10} {'of bytes':>9} {'of normals':>10}")

    def line(name: str, speed: float) -> None:
        print(f"{name:30} {speed:10,.0f} {speed / bytes_:9.2f} {speed / normals:10.2f}")

    line("uniform bytes", bytes_)
    line("standard_normal", normals)
    mix = Recipe(classes=tuple(ValueClass), seed=1)
    line("all classes", rate(mix, program))
    for number in (64, 256, 1024):
        line(f"all classes, {number} at once", rate(mix, program, number))
    for class_ in ValueClass:
        line(class_, rate(Recipe(classes=(class_,), seed=1), program))
    for name in OTHERS:
        other = next(f for f in isa.MMA_FORMS if f.a_type.name == name)
        made = single_program(product_of(other))
        line(f"all classes, {name} {other.shape.name}", rate(mix, made))


if __name__ == "__main__":
    main()
