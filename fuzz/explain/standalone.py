#!/usr/bin/env python3
"""Run one kernel on one memory image, and compare every byte with what is expected.

Needs PyCUDA, NumPy and the files beside it (repro.json says what they hold); nothing of warpfuzz.

Exit codes: 0 every byte is as expected; 1 some are not, or the kernel could not be compiled or
run; 2 wrong options; 3 something is missing here: PyCUDA, a device, a file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

MATCH, MISMATCH, MISSING = 0, 1, 3
FOLDER = Path(__file__).resolve().parent
LANES = 32
SHOWN = 64
"""Differing elements that are listed without --all."""
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


class CannotRunError(Exception):
    """Something is missing."""


class KernelFailedError(Exception):
    """The kernel was not compiled, loaded or run to its end."""


def main() -> int:
    """Run as the options say and return the exit code."""
    options = parsed()
    try:
        case = json.loads(read(FOLDER / "repro.json"))
        return reproduce(case, options)
    except CannotRunError as error:
        print(f"repro.py: {error}", file=sys.stderr)
        return MISSING
    except KernelFailedError as error:
        print(f"FAILED: {error}")
        return MISMATCH


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ptx", type=Path, help="run this PTX instead of kernel.ptx")
    parser.add_argument("--cubin", type=Path, help="load this machine code instead")
    parser.add_argument("--ptxas", type=Path, help="compile with this ptxas instead of the driver")
    parser.add_argument("--arch", help="for --ptxas; otherwise that of the device")
    parser.add_argument("--opt", type=int, choices=range(4), help="-O level")
    parser.add_argument("--times", type=int, default=1, help="launches")
    parser.add_argument("--copies", type=int, help="warps that work on copies of the image")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU")
    parser.add_argument("--all", action="store_true", help="list every differing element")
    return parser.parse_args()


def read(path: Path) -> bytes:
    """Return the contents of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotRunError(f"{path} cannot be read: {error.strerror}") from None


def reproduce(case: dict[str, Any], options: argparse.Namespace) -> int:
    """Run the case and compare."""
    image = np.frombuffer(read(FOLDER / "input.bin"), np.uint8)
    expected = np.frombuffer(read(FOLDER / "expected.bin"), np.uint8)
    recorded = FOLDER / "actual.bin"
    actual = np.frombuffer(read(recorded), np.uint8) if recorded.exists() else None
    copies = options.copies or case["copies"]
    level = case["opt"] if options.opt is None else options.opt
    gpu = Gpu(options.device)
    try:
        code, how = compiled(gpu, options, level, case)
        print(f"{gpu.name}, {how}")
        launch = case.get("launch")
        size = len(launch["parameters"]) // 2 if launch else 0
        kernel = gpu.load(code, case["entry"], level, f"{size}s" if launch else "PPI")
        code_of_end = MATCH
        for time in range(options.times):
            images, sms = gpu.run(kernel, np.tile(image, (copies, 1)), case)
            code_of_end |= report(case, options, images, sms, expected, actual, time)
        return code_of_end
    finally:
        gpu.close()


def compiled(
    gpu: Gpu, options: argparse.Namespace, level: int, case: dict[str, Any]
) -> tuple[bytes, str]:
    """Return what is loaded, and how it was made."""
    if options.cubin:
        return read(options.cubin), f"machine code of {options.cubin}"
    source = options.ptx or FOLDER / "kernel.ptx"
    ptx = read(source)
    if not options.ptxas:
        return ptx, f"{source.name} compiled by the driver, -O{level}"
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "kernel.cubin")
        arch = options.arch or case.get("arch") or architecture(ptx, gpu.architecture)
        flags = [f"-O{level}", f"-arch={arch}", *case.get("options", [])]
        command = [options.ptxas, *flags, source, "-o", cubin]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise CannotRunError(f"{options.ptxas} cannot be run: {error.strerror}") from None
        if ended.returncode:
            said = (ended.stdout + ended.stderr).strip()
            raise KernelFailedError(f"{options.ptxas} ended with {ended.returncode}: {said}")
        return read(cubin), f"{source.name} compiled by {options.ptxas} {' '.join(flags)}"


def architecture(ptx: bytes, device: str) -> str:
    """Return what to compile for: a target with a suffix runs on its own device only."""
    for line in ptx.decode(errors="replace").splitlines():
        words = line.split("//")[0].replace(",", " ").split()
        if words[:1] == [".target"] and len(words) > 1:
            return words[1] if words[1][-1] in "af" else device
    return device


def report(
    case: dict[str, Any],
    options: argparse.Namespace,
    images: np.ndarray[Any, Any],
    sms: np.ndarray[Any, Any],
    expected: np.ndarray[Any, Any],
    actual: np.ndarray[Any, Any] | None,
    time: int,
) -> int:
    """Print what differs in one launch."""
    wrong = np.flatnonzero((images != expected).any(axis=1))
    if not len(wrong):
        print(f"launch {time + 1}: every byte of {len(images)} image(s) is as expected")
        return MATCH
    # An entry with parameters of its own reports no SM.
    where = "" if "launch" in case else f", on SM {sorted(set(sms[wrong].tolist()))}"
    print(f"launch {time + 1}: {len(wrong)} of {len(images)} image(s) differ{where}")
    shown = images[wrong[0]]
    if actual is not None:
        same = "as recorded" if np.array_equal(shown, actual) else "NOT as recorded"
        print(f"image {wrong[0]} came out {same}:")
    lines = list(differences(case, expected, shown))
    for line in lines if options.all else lines[:SHOWN]:
        print(f"  {line}")
    if len(lines) > SHOWN and not options.all:
        print(f"  … and {len(lines) - SHOWN} more (--all)")
    return MISMATCH


def differences(
    case: dict[str, Any], expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any]
) -> Iterator[str]:
    """Describe each differing element of the results, then the other bytes that differ."""
    left = expected != actual
    for result in case["results"]:
        size = result["bits"] // 8
        for row in range(result["rows"]):
            for column in range(result["columns"]):
                start = (
                    result["start"] + row * result["row_bytes"] + column * result["column_bytes"]
                )
                if left[start : start + size].any():
                    left[start : start + size] = False
                    pair = (expected[start : start + size], actual[start : start + size])
                    want, got = (shown(part.tobytes(), result["type"]) for part in pair)
                    name = result["name"]
                    yield f"{name}[{row}, {column}]: expected {want}, actual {got}"
    for byte in np.flatnonzero(left).tolist():
        place = f"byte {byte} of the image"
        for buffer in case["buffers"]:
            if 0 <= byte - buffer["offset"] < buffer["size"]:
                place = f"byte {byte - buffer['offset']} of {buffer['name']}"
        yield f"{place}: expected 0x{expected[byte]:02x}, actual 0x{actual[byte]:02x}"


def shown(raw: bytes, type_: str) -> str:
    """Return an element in hexadecimal and, if it is a number, in decimal."""
    text = f"0x{raw[::-1].hex()}"
    if type_ in FLOATS:
        return f"{text} ({np.frombuffer(raw, FLOATS[type_])[0]!s})"
    return f"{text} ({int.from_bytes(raw, 'little', signed=True)})" if type_ == "s32" else text


class Gpu:
    """A context on one device."""

    def __init__(self, ordinal: int) -> None:
        # Else the driver may take machine code of its cache, made by another compiler.
        os.environ.setdefault("CUDA_CACHE_DISABLE", "1")
        try:
            import pycuda.driver as driver
        except ImportError as error:
            raise CannotRunError(f"PyCUDA cannot be imported ({error})") from None
        self.driver: Any = driver
        try:
            driver.init()
            self.device = driver.Device(ordinal)
            self.context = self.device.make_context()
        except driver.Error as error:
            raise CannotRunError(f"device {ordinal} cannot be used ({error})") from None
        major, minor = self.device.compute_capability()
        self.architecture = f"sm_{major}{minor}"
        cuda = driver.get_driver_version()
        self.name = (
            f"{self.device.name()} ({self.architecture}), CUDA {cuda // 1000}.{cuda % 1000 // 10}"
        )

    def load(self, code: bytes, entry: str, level: int, parameters: str) -> Any:
        """Load PTX or machine code and return its kernel."""
        # Machine code is an ELF file; a level means something for PTX alone.
        plain = not code.startswith(b"\x7fELF")
        options = [(self.driver.jit_option.OPTIMIZATION_LEVEL, level)] if plain else []
        try:
            # The module is kept: without it, its kernels are gone.
            self.module = self.driver.module_from_buffer(code, options)
            kernel = self.module.get_function(entry)
        except self.driver.Error as error:
            raise KernelFailedError(f"the driver refuses the module: {error}") from None
        kernel.prepare(parameters)
        return kernel

    def run(
        self, kernel: Any, images: np.ndarray[Any, Any], case: dict[str, Any]
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Run a warp on each image, or the case's own launch; return the images and their SMs."""
        driver, count, warps_per_block = self.driver, len(images), case["warps_per_block"]
        result, sms = np.empty_like(images), np.zeros(count, np.uint32)
        try:
            memory, numbers = driver.mem_alloc(images.nbytes), driver.mem_alloc(sms.nbytes)
            driver.memcpy_htod(memory, images)
            driver.memcpy_htod(numbers, sms)
            if launch := case.get("launch"):
                for index in range(count):
                    address = int(memory) + index * images.shape[1]
                    parameters = bytearray.fromhex(launch["parameters"])
                    for place, offset in launch["pointers"]:
                        parameters[place : place + 8] = (address + offset).to_bytes(8, "little")
                    kernel.prepared_call(
                        tuple(launch["grid"]),
                        tuple(launch["block"]),
                        bytes(parameters),
                        shared_size=launch["shared_bytes"],
                    )
            else:
                kernel.prepared_call(
                    (-(-count // warps_per_block), 1),
                    (LANES * warps_per_block, 1, 1),
                    int(memory),
                    int(numbers),
                    count,
                )
            driver.Context.synchronize()
            driver.memcpy_dtoh(result, memory)
            driver.memcpy_dtoh(sms, numbers)
            memory.free()
            numbers.free()
        except driver.Error as error:
            raise KernelFailedError(f"the launch failed: {error}") from None
        return result, sms

    def close(self) -> None:
        """Give the context back."""
        try:
            self.context.pop()
        except self.driver.Error as error:
            print(f"repro.py: the context is dead ({error})", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
