"""How fast the oracle multiplies matrices, against two other ways to the same bits.

Prints one JSON object per line. Rates are per CPU second, summed over threads, so that other work
on the machine disturbs little; every ratio is between runs of this one invocation on the same
inputs. First `m16n16k16` of f16 with C and D f32, on normal inputs and with special values among
them: the oracle, a plain vectorised float64 version (products as one (tiles, m, n, k) array) and,
where an interpreter that has them is given, MMA-Sim (`mmasim`, PyTorch) in batches; the bits of
all are compared. Then one form of each kind, on random bits, against the first, and forms of
`mma.sync`, registers in and registers out, by their products. Usage:

    python benchmarks/oracle_speed.py [--tiles N] [--repeats N] [--mmasim PYTHON]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.bounds.enclosure import permitted
from oracle.execution.products import mma, mma_sync
from oracle.isa.lookup import mma_form, mma_sync_form

PREFIX = "wmma.mma.sync.aligned.row.col."
FIRST = PREFIX + "m16n16k16.f32.f32"
KINDS = (
    FIRST,
    PREFIX + "m8n32k16.f32.f32",
    PREFIX + "m32n8k16.f32.f32",
    PREFIX + "m16n16k16.f16.f16",
    PREFIX + "m16n16k16.f32.f16",
    PREFIX + "m16n16k16.f16.f32",
    PREFIX + "m16n16k16.f32.bf16.bf16.f32",
    PREFIX + "m16n16k8.f32.tf32.tf32.f32",
    PREFIX + "m8n8k4.f64.f64.f64.f64",
    PREFIX + "m8n8k4.rz.f64.f64.f64.f64",
    PREFIX + "m8n8k4.rm.f64.f64.f64.f64",
    PREFIX + "m16n16k16.s32.s8.s8.s32",
    PREFIX + "m16n16k16.s32.u8.u8.s32.satfinite",
    PREFIX + "m8n8k32.s32.s4.s4.s32",
    "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
)
LANE_PREFIX = "mma.sync.aligned."
LANE_KINDS = tuple(
    LANE_PREFIX + rest
    for rest in (
        "m16n8k16.row.col.f32.f16.f16.f32",
        "m16n8k16.row.col.f16.f16.f16.f16",
        "m8n8k4.row.col.f32.f16.f16.f32",
        "m16n8k16.row.col.f32.bf16.bf16.f32",
        "m16n8k8.row.col.f32.tf32.tf32.f32",
        "m16n8k32.row.col.f32.e4m3.e4m3.f32",
        "m16n8k16.row.col.f64.f64.f64.f64",
        "m16n8k16.row.col.rm.f64.f64.f64.f64",
        "m8n8k4.row.col.f64.f64.f64.f64",
        "m8n8k4.row.col.rp.f64.f64.f64.f64",
        "m16n8k32.row.col.s32.s8.s8.s32",
        "m16n8k64.row.col.s32.s4.s4.s32",
        "m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
    )
)
SPECIAL = (0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0x0001, 0x83FF)
"""f16 patterns: zeros, infinities, NaN, subnormals."""
Operands = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def normal(tiles: int, special: float) -> Operands:
    """Return normal inputs of FIRST; a share of the elements of A and B is special."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, tiles, 16, 16)).astype(np.float16).view(np.uint16)
    for matrix in (a, b):
        chosen = rng.random(matrix.shape) < special
        matrix[chosen] = rng.choice(np.array(SPECIAL, np.uint16), int(chosen.sum()))
    return a, b, rng.standard_normal((tiles, 16, 16)).astype(np.float32).view(np.uint32)


def random_bits(opcode: str, tiles: int) -> Operands:
    """Return any bits that the formats of a form allow."""
    form = mma_form(opcode)
    rng = np.random.default_rng(0)
    operands = []
    for name in "abc":
        matrix = form.matrix(name)
        dtype = np.dtype(matrix.type.raw)
        bits = min(matrix.type.bits, 8 * dtype.itemsize)
        least = -(1 << (bits - 1)) if dtype.kind == "i" else 0
        size = (tiles, matrix.rows, matrix.columns)
        wide = np.int64 if dtype.kind == "i" else np.uint64
        operands.append(rng.integers(least, least + (1 << bits), size, wide).astype(dtype))
    return operands[0], operands[1], operands[2]


def lanes(opcode: str, products: int) -> tuple[int, Operands]:
    """Return a number of tiles with about so many products, and near-normal registers of them."""
    form = mma_sync_form(opcode)
    size = form.groups * form.shape.m * form.shape.n * form.shape.k
    tiles, rng = max(1, products // size), np.random.default_rng(0)
    operands = []
    for name in "abc":
        floats = {"f16": np.float16, "f32": np.float32, "tf32": np.float32, "f64": np.float64}
        count = 32 * form.words(name) * 4
        kind = floats.get(form.type(name).name)
        if kind is None:
            words = rng.integers(0, 256, (tiles, count), np.uint8)
        else:
            words = rng.standard_normal((tiles, count // np.dtype(kind).itemsize)).astype(kind)
        operands.append(words.view(np.uint32).reshape(tiles, 32, form.words(name)))
    return tiles * size, (operands[0], operands[1], operands[2])


def plain_float64(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[np.uint32]:
    """Return FIRST on sm_90 in the direct way, 64 tiles at a time."""
    parts = [plain_chunk(a[i : i + 64], b[i : i + 64], c[i : i + 64]) for i in range(0, len(a), 64)]
    return np.concatenate(parts)


def plain_chunk(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[np.uint32]:
    """Return one chunk: align to the largest exponent, truncate, add, round toward zero."""
    left, right = (x.view(np.float16).astype(np.float64) for x in (a, b))
    start = c.view(np.float32).astype(np.float64)
    products = left[:, :, None, :] * right.transpose(0, 2, 1)[:, None, :, :]
    terms = np.concatenate([products, start[..., None]], axis=-1)
    powers = [np.maximum(np.frexp(x)[1] - 1, -14) for x in (left, right)]
    exponents = powers[0][:, :, None, :] + powers[1].transpose(0, 2, 1)[:, None, :, :]
    own = np.maximum(np.frexp(start)[1] - 1, -126)
    exponents = np.concatenate([exponents, own[..., None]], axis=-1)
    exponents = np.where(terms == 0.0, -133, exponents)
    grid = np.ldexp(1.0, exponents.max(axis=-1) - 25)
    total = np.trunc(terms / grid[..., None]).sum(axis=-1) * grid
    significand, exponent = np.frexp(total)
    kept = np.ldexp(np.trunc(significand * 2.0**24), np.maximum(exponent - 24, -149))
    ieee = terms.sum(axis=-1)
    result = np.where(np.isfinite(ieee), kept + 0.0, ieee).astype(np.float32)
    bits = result.view(np.uint32)
    return np.where(np.isnan(result), np.uint32(0x7FFF_FFFF), bits)


MMASIM = """
import json, sys, time
import numpy as np, torch
from mmasim.nv_ptx import MMA
torch.set_num_threads(1)
path, repeats = sys.argv[1], int(sys.argv[2])
with np.load(path) as data:
    a, b, c = (data[name] for name in "abc")
operation = MMA("Hopper", "m16n8k16.f32.f16.f16.f32")
a, b = (torch.from_numpy(x.view(np.int16)).view(torch.float16) for x in (a, b))
c = torch.from_numpy(c.view(np.float32))
def multiply(a, b, c):
    # what MMA-Sim's own call does for one tile, with a batch in front
    halves = []
    for n in (slice(0, 8), slice(8, 16)):
        rows = a[:, :, None, :].expand(-1, -1, 8, -1)
        columns = b[:, :, n].transpose(1, 2)[:, None].expand(-1, 16, -1, -1)
        halves.append(operation.dpa(rows, columns, c[:, :, n]))
    return torch.cat(halves, dim=2)
def run():
    size = 256
    return torch.cat([
        multiply(a[i : i + size], b[i : i + size], c[i : i + size])
        for i in range(0, len(a), size)
    ])
times = []
for _ in range(repeats):
    started = time.process_time()
    result = run()
    times.append(time.process_time() - started)
np.save(path + ".npy", result.numpy().view(np.uint32))
print(json.dumps(times))
"""


def timed(function: Callable[[], Any], repeats: int) -> float:
    """Return the median CPU seconds of a call, after one call that is not counted."""
    function()
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        seconds.append(time.process_time() - started)
    return statistics.median(seconds)


def mmasim_rate(python: str, operands: Operands, repeats: int) -> tuple[float, NDArray[Any]]:
    """Return MMA-Sim's tiles a second and its bits."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "operands.npz"
        np.savez(path, **dict(zip("abc", operands, strict=True)))
        done = subprocess.run(
            [python, "-c", MMASIM, str(path), str(repeats)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        seconds = statistics.median(json.loads(done.stdout.splitlines()[-1]))
        return len(operands[0]) / seconds, np.load(f"{path}.npy")


def compare(name: str, operands: Operands, repeats: int, python: str | None) -> float:
    """Print what the three ways make of FIRST; return the oracle's tiles a second."""
    tiles = len(operands[0])
    few = operands[0][:256], operands[1][:256], operands[2][:256]
    with np.errstate(all="ignore"):
        plain = len(few[0]) / timed(lambda: plain_float64(*few), repeats)
        plain_bits = plain_float64(*few)
    bits = mma(FIRST, *operands)
    rate = tiles / timed(lambda: mma(FIRST, *operands), repeats)
    row = {
        "inputs": name,
        "opcode": FIRST,
        "oracle_tiles_per_second": round(rate),
        "plain_float64_tiles_per_second": round(plain),
        "oracle_over_plain": round(rate / plain, 1),
        "same_bits_as_plain": bool(np.array_equal(plain_bits, bits[:256])),
    }
    if python is not None:
        part = operands[0][:2048], operands[1][:2048], operands[2][:2048]
        theirs, theirs_bits = mmasim_rate(python, part, repeats)
        again = tiles / timed(lambda: mma(FIRST, *operands), repeats)
        row |= {
            "mmasim_tiles_per_second": round(theirs),
            "oracle_over_mmasim": round(min(rate, again) / theirs, 1),
            "same_bits_as_mmasim": bool(np.array_equal(theirs_bits, bits[:2048])),
        }
    print(json.dumps(row), flush=True)
    return rate


def main() -> None:
    """Parse the command line and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiles", type=int, default=8192, help="tiles in a batch")
    parser.add_argument("--repeats", type=int, default=7, help="runs of which the median counts")
    parser.add_argument("--mmasim", metavar="PYTHON", help="an interpreter with mmasim and torch")
    arguments = parser.parse_args()
    tiles, repeats = arguments.tiles, arguments.repeats
    for name, special in (("normal", 0.0), ("1 in 200 special", 0.005)):
        compare(name, normal(tiles, special), repeats, arguments.mmasim)
    first = 0.0
    for opcode in KINDS:
        operands = random_bits(opcode, tiles)
        rate = tiles / timed(lambda op=opcode, x=operands: mma(op, *x), repeats)
        few = tuple(x[:512] for x in operands)
        bounds = 512 / timed(lambda op=opcode, x=few: permitted(op, *x), 3)
        first = first or rate
        row = {
            "inputs": "random bits",
            "opcode": opcode,
            "oracle_tiles_per_second": round(rate),
            "over_first": round(rate / first, 2),
            "permitted_tiles_per_second": round(bounds),
        }
        print(json.dumps(row), flush=True)
    usual = normal(tiles, 0.0)
    for opcode in LANE_KINDS:
        products, given = lanes(opcode, tiles * 16**3)
        rate = tiles * 16**3 / timed(lambda: mma(FIRST, *usual), repeats)
        lane_rate = products / timed(lambda op=opcode, x=given: mma_sync(op, *x), repeats)
        row = {
            "inputs": "normal",
            "opcode": opcode,
            "products_per_second": round(lane_rate),
            "over_first": round(lane_rate / rate, 2),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
