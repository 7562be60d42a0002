#!/usr/bin/env python3
"""Run kernel.ptx on input.bin, and compare every byte with expected.bin.

Needs PyCUDA, NumPy and the files beside it; nothing of warpfuzz.

Exit codes: 0 every byte is as the PTX ISA says; 1 some are not, or the kernel was not compiled or
did not end; 2 wrong options; 3 something is missing here: PyCUDA, a GPU, a file.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

FOLDER = Path(__file__).resolve().parent


def missing(what: object) -> NoReturn:
    """Say what is missing, and end."""
    print(f"repro.py: {what}", file=sys.stderr)
    sys.exit(3)


def main() -> int:
    """Run as the options say, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ptx", type=Path, help="run this PTX instead of kernel.ptx")
    parser.add_argument("--cubin", type=Path, help="load this machine code instead")
    parser.add_argument("--ptxas", help="compile with this ptxas instead of the driver")
    parser.add_argument("--opt", type=int, choices=range(4), help="-O level")
    parser.add_argument("--times", type=int, default=1, help="launches")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU")
    options = parser.parse_args()
    os.environ.setdefault("CUDA_CACHE_DISABLE", "1")  # it may hold code of another compiler
    try:
        import numpy as np
        import pycuda.driver as cuda

        case = json.loads((FOLDER / "repro.json").read_bytes())
        image = np.frombuffer((FOLDER / "input.bin").read_bytes(), np.uint8)
        expected = np.frombuffer((FOLDER / "expected.bin").read_bytes(), np.uint8)
        source = options.cubin or options.ptx or FOLDER / "kernel.ptx"
        code, level = source.read_bytes(), case["level"] if options.opt is None else options.opt
        cuda.init()
        context = cuda.Device(options.device).make_context()
    except ImportError as error:
        missing(f"{error.name} is not installed")
    except OSError as error:
        missing(f"{error.filename} cannot be read: {error.strerror}")
    except cuda.Error as error:
        missing(f"GPU {options.device} cannot be used: {error}")
    try:
        if options.ptxas and not options.cubin:
            with tempfile.TemporaryDirectory() as folder:
                cubin = Path(folder, "kernel.cubin")
                flags = [f"-arch={case['architecture']}", f"-O{level}", *case["flags"]]
                command = [options.ptxas, *flags, str(source), "-o", str(cubin)]
                print(" ".join(command))
                if subprocess.run(command, check=False).returncode:
                    return 1
                code = cubin.read_bytes()
        jit = [] if code.startswith(b"\x7fELF") else [(cuda.jit_option.OPTIMIZATION_LEVEL, level)]
        module = cuda.module_from_buffer(code, jit)
        kernel = module.get_function(case["entry"])
        parameters = bytearray.fromhex(case["parameters"])
        kernel.prepare(f"{len(parameters)}s")
        images = np.tile(image, (case["copies"], 1))
        memory, left, wrong = cuda.mem_alloc(images.nbytes), np.empty_like(images), 0
        for place, offset in case["pointers"]:
            parameters[place : place + 8] = (int(memory) + offset).to_bytes(8, "little")
        for _ in range(options.times):
            cuda.memcpy_htod(memory, images)
            kernel.prepared_call(
                tuple(case["grid"]), tuple(case["block"]), bytes(parameters),
                shared_size=case["shared_bytes"],
            )  # fmt: skip
            cuda.Context.synchronize()
            cuda.memcpy_dtoh(left, memory)
            places = np.argwhere(left != expected)
            for copy, byte in places[:16]:
                want, got = expected[byte], left[copy, byte]
                print(f"byte {byte} of image {copy}: expected {want:#04x}, actual {got:#04x}")
            print(f"{len(places)} of {left.size} bytes are not as the PTX ISA says")
            wrong += len(places)
        return 1 if wrong else 0
    except OSError as error:
        missing(f"{error.filename} cannot be run: {error.strerror}")
    except cuda.Error as error:
        print(f"FAILED: {error}")
        return 1
    finally:
        context.pop()


if __name__ == "__main__":
    sys.exit(main())
