"""The interpreter as PTX, as the package has it, and on the processor, from the same text.

`python -m runners.reference.shipped /usr/local/cuda/bin/nvcc` writes the PTX anew, for the oldest
target of that nvcc; drivers read it as PTX of a version and target that all know (sm_70).
"""

from __future__ import annotations

import ctypes
import gzip
import hashlib
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InfrastructureError
from runners.folders import temporary_folder
from runners.processes import run_tool
from runners.protocol import Images
from runners.reference.encoding import Encoded
from runners.reference.self_check import Compared, nothing_found

SOURCE = Path(__file__).with_name("interpreter.cu")  # text of the interpreter, CUDA C++ and C++
INCLUDED = SOURCE.with_name("contents.h")  # text of the contents, which it includes
_SHIPPED = Path(__file__).with_name("interpreter.ptx.gz")
_HEADER = ".version 7.0\n.target sm_70\n"
"""Nothing in the text needs more: ptxas 11.7 assembles it so for sm_70 (2026-11-23)."""
_DEADLINE = 300.0  # seconds that a compiler may take: nvcc 13.0 takes 4, g++ 12 takes 2 (2026-11)
_COMPILERS = ("g++", "c++", "clang++")
_ALIGNMENT = 64  # bytes; more than the interpreter loads at once


def shipped() -> str:
    """Return the PTX of the interpreter; its entries are `fill` and `compare`."""
    return gzip.decompress(_SHIPPED.read_bytes()).decode()


def source_digest() -> str:
    """Return the SHA-256 of the interpreter's text, as the first line of its PTX has it."""
    texts = b"".join(path.read_bytes() for path in (SOURCE, INCLUDED))
    return hashlib.sha256(texts).hexdigest()


def generated(nvcc: Path) -> str:
    """Return what an nvcc makes of the interpreter; InfrastructureError if it refuses the text."""
    with temporary_folder() as folder:
        made = folder / "interpreter.ptx"
        options = ["-arch=compute_75", "-O3", "-ptx", str(SOURCE), "-o", str(made)]
        finished = run_tool([str(nvcc), *options], deadline=_DEADLINE)
        if finished.status != 0:
            raise InfrastructureError(f"{nvcc} {finished.ending}: {finished.errors}")
        text = made.read_text(encoding="utf-8")
    # Names of functions have a hash of the folder.
    text = re.sub(r"_INTERNAL_[0-9a-f]{8}_", "_INTERNAL_00000000_", text)
    text = re.sub(r"^\.version .*\n\.target .*\n", _HEADER, text, count=1, flags=re.MULTILINE)
    # A remark for ptxas since PTX 8.3, which changes no meaning.
    text = re.sub(r"^\s*\.pragma \"used_bytes_mask .*\n", "", text, flags=re.MULTILINE)
    return f"// of interpreter.cu {source_digest()}\n{text}"


class HostReference:
    """The interpreter in this process; InfrastructureError without a C++ compiler that takes it."""

    def __init__(self) -> None:
        compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
        if compiler is None:
            names = ", ".join(_COMPILERS)
            raise InfrastructureError(f"the reference needs a C++ compiler ({names}); install one")
        with temporary_folder() as folder:
            library = folder / "interpreter.so"
            options = ["-O2", "-fno-strict-aliasing", "-shared", "-fPIC", "-x", "c++"]
            command = [compiler, *options, f"-I{INCLUDED.parent}", str(SOURCE), "-o", str(library)]
            built = run_tool(command, deadline=_DEADLINE)
            if built.status != 0:
                raise InfrastructureError(
                    f"{compiler} {built.ending} on the reference; install another compiler, or "
                    f"leave the reference out\n{built.errors}"
                )
            self._library = ctypes.CDLL(str(library))

    def fill(
        self, contents: NDArray[np.uint64], image_bytes: int, first: int, count: int
    ) -> Images:
        """Return images, uint8 (count, image_bytes), from a number on, of `device_contents`."""
        images, copies = (_aligned(count * image_bytes) for _ in range(2))
        numbers = map(ctypes.c_uint64, (first, count))
        self._library.fill_images(_at(contents), *numbers, _at(images), _at(copies))
        return images[: count * image_bytes].reshape(count, image_bytes)

    def execute(self, encoded: Encoded, images: Images) -> Images:
        """Return images, uint8 (count, image_bytes), after a program; those given stay."""
        result = np.array(images, order="C")
        sizes = map(ctypes.c_uint64, (encoded.image_bytes, len(result)))
        memory = _aligned(encoded.work_bytes)
        self._library.run_images(_at(encoded.words), _at(result), *sizes, _at(memory))
        return result

    def compare(self, encoded: Encoded, before: Images, after: Images, first: int = 0) -> Compared:
        """Execute a program on images, numbered from `first` on, and compare with others."""
        # Copies, which lie where anything can be loaded from.
        images, results = (np.array(one, order="C") for one in (before, after))
        found, memory = nothing_found(), _aligned(encoded.work_bytes)
        sizes = map(ctypes.c_uint64, (encoded.image_bytes, first, len(images)))
        self._library.compare_images(
            _at(encoded.words), _at(images), _at(results), *sizes, _at(memory), _at(found)
        )
        return Compared.of(len(images), found)


def _aligned(size: int) -> Images:
    """Return memory at an address that is a multiple of `_ALIGNMENT`."""
    memory = np.zeros(size + _ALIGNMENT, np.uint8)
    return memory[-memory.ctypes.data % _ALIGNMENT :]


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


if __name__ == "__main__":
    text = generated(Path(sys.argv[1]))
    _SHIPPED.write_bytes(gzip.compress(text.encode(), mtime=0))
