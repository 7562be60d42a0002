"""Registers with which mma.sync was recorded: made from a seed, so that only results are stored.

NumPy alone: the script that records runs where nothing else is installed.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

CLASSES = ("bits", "near one", "wide", "cancelling", "special")
"""Kinds of contents; integers and single bits have uniform bits and extremes in turn."""
CASES = 26
"""Cases of each class that are recorded of every form."""

# name: bits of an element, bits of the exponent, of the fraction (0: no float)
FORMATS = {
    "f16": (16, 5, 10), "bf16": (16, 8, 7), "tf32": (32, 8, 23), "f32": (32, 8, 23),
    "f64": (64, 11, 52), "e4m3": (8, 4, 3), "e5m2": (8, 5, 2), "s8": (8, 0, 0), "u8": (8, 0, 0),
    "s4": (4, 0, 0), "u4": (4, 0, 0), "b1": (1, 0, 0), "s32": (32, 0, 0),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Form:
    """One form of mma.sync, and the registers of its operands."""

    shape: tuple[int, int, int]
    types: tuple[str, str, str, str]
    """Of D, A, B and C."""
    layouts: tuple[str, str] = ("row", "col")
    rounding: str = ""
    satfinite: bool = False
    operation: str = ""

    @property
    def opcode(self) -> str:
        """Text without operands."""
        parts = [
            "mma.sync.aligned", "m{}n{}k{}".format(*self.shape), *self.layouts, self.rounding,
            "satfinite" if self.satfinite else "", *self.types, self.operation,
        ]  # fmt: skip
        return ".".join(part for part in parts if part)

    def words(self, operand: str) -> int:
        """Return the registers of 32 bits of "d", "a", "b" or "c" in each lane."""
        m, n, k = self.shape
        size = {"a": m * k, "b": k * n}.get(operand, m * n)
        groups = 4 if self.shape == (8, 8, 4) and self.types[1] == "f16" else 1
        return groups * size * FORMATS[self.type(operand)][0] // 1024

    def type(self, operand: str) -> str:
        """Return the name of an operand's element type."""
        return self.types["dabc".index(operand)]


def forms() -> list[Form]:
    """Return the 110 forms that ptxas 13.5 takes for sm_90."""
    found = []
    for k, c in product((8, 16), ("f16", "f32")):
        found.append(Form(shape=(16, 8, k), types=(c, "f16", "f16", c)))
    for a, b, (d, c) in product(
        ("row", "col"), ("row", "col"), (("f16", "f16"), ("f32", "f16"), ("f32", "f32"))
    ):
        found.append(Form(shape=(8, 8, 4), types=(d, "f16", "f16", c), layouts=(a, b)))
    found += [Form(shape=(16, 8, k), types=("f32", "bf16", "bf16", "f32")) for k in (8, 16)]
    found += [Form(shape=(16, 8, k), types=("f32", "tf32", "tf32", "f32")) for k in (4, 8)]
    eights = ("e4m3", "e5m2")
    for k, c, a, b in product((16, 32), ("f16", "f32"), eights, eights):
        found.append(Form(shape=(16, 8, k), types=(c, a, b, c)))
    doubles = ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16))
    for shape, rounding in product(doubles, ("", "rn", "rz", "rm", "rp")):
        found.append(Form(shape=shape, types=("f64",) * 4, rounding=rounding))
    for names, shapes in (
        (("s8", "u8"), ((8, 8, 16), (16, 8, 16), (16, 8, 32))),
        (("s4", "u4"), ((8, 8, 32), (16, 8, 32), (16, 8, 64))),
    ):
        for shape, a, b, clamped in product(shapes, names, names, (False, True)):
            found.append(Form(shape=shape, types=("s32", a, b, "s32"), satfinite=clamped))
    bits = ((8, 8, 128), (16, 8, 128), (16, 8, 256))
    for shape, operation in product(bits, ("xor.popc", "and.popc")):
        found.append(Form(shape=shape, types=("s32", "b1", "b1", "s32"), operation=operation))
    return found


def registers(form: Form, content: str, cases: int) -> dict[str, NDArray[np.uint32]]:
    """Return the registers of "a", "b" and "c", each uint32 (cases, 32, words)."""
    made = {}
    for operand in "abc":
        seed = [zlib.crc32(form.opcode.encode()), CLASSES.index(content), ord(operand)]
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
        bits = FORMATS[form.type(operand)][0]
        count = cases * 32 * form.words(operand) * 32 // bits
        elements = _elements(rng, form.type(operand), content, operand, count)
        made[operand] = _packed(elements, bits).reshape(cases, 32, form.words(operand))
    return made


def _packed(elements: NDArray[np.uint64], bits: int) -> NDArray[np.uint32]:
    if bits == 64:
        return elements.view(np.uint32)
    parts = elements.reshape(-1, 32 // bits).astype(np.uint32)
    words = np.zeros(len(parts), np.uint32)
    for index in range(32 // bits):
        words |= parts[:, index] << np.uint32(bits * index)
    return words


def _below(rng: np.random.Generator, high: int, count: int) -> NDArray[np.uint64]:
    return rng.integers(0, high, count, np.uint64, endpoint=True)


def _elements(
    rng: np.random.Generator, name: str, content: str, operand: str, count: int
) -> NDArray[np.uint64]:
    bits, exponent_bits, fraction_bits = FORMATS[name]
    uniform = _below(rng, (1 << bits) - 1, count)
    if not exponent_bits or content == "bits":
        if content in ("bits", "near one"):
            return uniform
        top = 1 << (bits - 1)
        extremes = np.array([0, top, top - 1, 2 * top - 1], np.uint64)
        return np.where(_below(rng, 3, count) > 0, extremes[_below(rng, 3, count)], uniform)
    bias, most = (1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1
    fraction = _below(rng, (1 << fraction_bits) - 1, count)
    sign = _below(rng, 1, count) << np.uint64(bits - 1)

    def number(exponent: NDArray[np.uint64], fraction: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return sign | exponent << np.uint64(fraction_bits) | fraction

    near = number(np.uint64(bias - 2) + _below(rng, 3, count), fraction)
    if content == "near one":
        return near
    if content == "wide":
        return number(_below(rng, most - 1, count), fraction)
    choice = _below(rng, 31, count)
    if content == "cancelling":
        few = np.array([0, 1, (1 << fraction_bits) - 1], np.uint64)[_below(rng, 2, count)]
        exponent = np.uint64(bias) + _below(rng, 1, count)
        if operand == "c":
            exponent = np.uint64(max(0, bias - fraction_bits - 2)) + _below(
                rng, fraction_bits + 3, count
            )
        found = number(exponent, few)
        found = np.where(choice < 3, number(np.zeros_like(exponent), fraction), found)
        return np.where(choice == 3, sign, found)
    patterns = np.array(
        [
            0, 1, (1 << fraction_bits) - 1, 1 << fraction_bits, (most << fraction_bits) - 1,
            most << fraction_bits, (most << fraction_bits) | 1,
            (most << fraction_bits) | (1 << (fraction_bits - 1)), (1 << (bits - 1)) - 1,
        ],
        np.uint64,
    )  # fmt: skip
    return np.where(choice < 2, sign | patterns[_below(rng, len(patterns) - 1, count)], near)
