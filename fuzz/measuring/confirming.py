"""Confirmation of what was found, on random images: in this process, or in many with a GPU.

The images hold many kinds of numbers, and are cheap to make.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.util import Finalize
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.measuring.units import NUMBERS, Device, exact_tiles, multiplied
from fuzz.runner import RunnerChoice, open_runner
from oracle.formats import Format
from oracle.forms import ProductForm
from oracle.models import Model
from oracle.targets import Module

Array = NDArray[Any]

CHUNK = 4096
"""Images that are made, run and compared together."""
_SHOWN = 32
"""Differing dot products of a chunk that are kept, to be explained."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Random images of one form."""

    form: ProductForm
    model: Model
    count: int
    seed: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What became of them."""

    images: int
    differing: int
    """Images in which the device returned something else than the model."""
    a: Array
    """Rows of some dot products that differ, (count, k); likewise the columns, and C and D."""
    b: Array
    c: Array
    d: Array


def confirm(task: Task, device: Device) -> Outcome:
    """Compare the device with the model on random images."""
    form = task.form
    a, b, c = random_tiles(form, task.count, task.seed)
    found = device.multiply(form, a, b, c)
    different = multiplied(form, a, b, c, task.model) != found
    tile, row, column = (index[:_SHOWN] for index in np.nonzero(different))
    return Outcome(
        images=len(c),
        differing=int(np.count_nonzero(different.any(axis=(1, 2)))),
        a=a[tile, row], b=b[tile, :, column], c=c[tile, row, column], d=found[tile, row, column],
    )  # fmt: skip


class Here:
    """Confirms in this process."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Return the outcome of each task, in their order."""
        return (confirm(task, self.device) for task in tasks)


class Crew:
    """Confirms in processes, each with a runner of its own."""

    def __init__(self, pool: Executor) -> None:
        self.pool = pool

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Return the outcome of each task, in their order."""
        return iter(self.pool.map(_confirmed, tasks))


_DEVICE: list[Device] = []
"""That of a process of a crew; one."""


def _open(choice: RunnerChoice, module: Module, forms: tuple[ProductForm, ...]) -> None:
    opened = open_runner(choice)
    # A process of a pool ends without `atexit`; this is what it does run.
    Finalize(None, opened.runner.close, exitpriority=10)
    _DEVICE[:] = [Device(opened.runner, module, forms)]


def _confirmed(task: Task) -> Outcome:
    return confirm(task, _DEVICE[0])


@contextmanager
def crew_of(
    choice: RunnerChoice, module: Module, forms: tuple[ProductForm, ...], workers: int
) -> Iterator[Crew]:
    """Start processes that can multiply forms; they end with the block."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_open, initargs=(choice, module, forms)
    ) as pool:
        yield Crew(pool)


_KINDS = 6


def random_tiles(form: ProductForm, count: int, seed: int) -> tuple[Array, Array, Array]:
    """Return A, B and C of `count` images, (count, rows, columns), as bit patterns.

    In turn: any bits; exponents in a window somewhere; exponents near one; products in pairs of
    both signs; C near minus the sum; small and zero elements.
    """
    if not form.a_type.is_float:
        return exact_tiles(form, count, seed)
    rng = np.random.default_rng(seed)
    shape = form.shape
    a = _bits(rng, form.a_type, (count, shape.m, shape.k))
    b = _bits(rng, form.b_type, (count, shape.k, shape.n))
    c = _bits(rng, form.c_type, (count, shape.m, shape.n))
    part = -(-count // _KINDS)
    windows = (None, 12, 3, 2, 3, 4)
    for kind, window in enumerate(windows):
        at = slice(kind * part, (kind + 1) * part)
        if window is None or not len(c[at]):
            continue
        low = kind == 5
        left, right = (
            _center(rng, fmt, len(c[at]), low=low, anywhere=kind == 1)
            for fmt in (form.a_type, form.b_type)
        )
        _window(rng, a[at], form.a_type, left, window)
        _window(rng, b[at], form.b_type, right, window)
        # C where the products are: the sum of their exponents.
        middle = np.clip(
            left - form.a_type.bias + right - form.b_type.bias + form.c_type.bias,
            1, 2 * form.c_type.bias - window,
        )  # fmt: skip
        _window(rng, c[at], form.c_type, middle, window + 2)
        if kind == 3:
            half = shape.k // 2
            sign = a.dtype.type(1 << (form.a_type.bits - 1))
            a[at, :, half : 2 * half] = a[at, :, :half] ^ sign
            b[at, half : 2 * half] = b[at, :half]
            b[at, 0] ^= b.dtype.type(1)
        if kind == 4:
            c[at] = _cancelling(form, a[at], b[at])
        if kind == 5:
            a[at][rng.random(a[at].shape) < 0.3] = 0
            c[at][rng.random(c[at].shape) < 0.5] = 0
    return a, b, c


def _bits(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> Array:
    dtype = np.dtype(fmt.raw)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def _center(
    rng: np.random.Generator, fmt: Format, count: int, *, low: bool, anywhere: bool
) -> NDArray[np.int64]:
    """Return an exponent field for each image."""
    if anywhere:
        return rng.integers(0, 2 * fmt.bias - 12, count)
    if low:
        # Products near the least numbers of the accumulator; of f16 the least there are.
        most = fmt.bias // 2 + 2 if fmt.exponent_bits > 5 else 5
        return rng.integers(max(0, most - 12), most, count)
    return rng.integers(fmt.bias - 2, fmt.bias + 2, count)


def _window(
    rng: np.random.Generator, bits: Array, fmt: Format, start: NDArray[np.int64], width: int
) -> None:
    """Put exponent fields into start .. start + width - 1, image by image."""
    shift = fmt.bits - 1 - fmt.exponent_bits
    kind = bits.dtype.type
    field = rng.integers(0, width, bits.shape, np.uint8).astype(bits.dtype)
    field += np.maximum(start, 0).astype(bits.dtype)[:, None, None]
    bits &= kind(~(((1 << fmt.exponent_bits) - 1) << shift) & (2**fmt.bits - 1))
    bits |= field << kind(shift)


def _cancelling(form: ProductForm, a: Array, b: Array) -> Array:
    """Return minus the product, rounded."""
    left, right = (_values(x, fmt) for x, fmt in ((a, form.a_type), (b, form.b_type)))
    with np.errstate(all="ignore"):
        product = -np.matmul(left, right)
        floats = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[form.c_type.name]
        patterns: Array = product.astype(floats).view(form.c_type.raw)
    return patterns


def _values(bits: Array, fmt: Format) -> Array:
    if fmt.name == "f64":
        return bits.view(np.float64)
    if fmt.bits <= 16 and fmt.name != "bf16":
        return np.asarray(bits.view(NUMBERS[fmt.name]).astype(np.float32))
    words = bits.astype(np.uint32)
    return (words << 16 if fmt.name == "bf16" else words).view(np.float32)
