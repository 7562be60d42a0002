"""The interpreter on the processor: built from the text that the device has, by a C++ compiler."""

from __future__ import annotations

import ctypes
import shutil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InfrastructureError
from runners.folders import temporary_folder
from runners.processes import run_tool
from runners.reference.encoding import Encoded
from runners.reference.self_check import LISTED, Compared, Images
from runners.reference.shipped import INCLUDED, SOURCE

_COMPILERS = ("g++", "c++", "clang++")
_DEADLINE = 120.0
"""Seconds that it may take to build; g++ 12 takes 2 (2026-11)."""
_ALIGNMENT = 64
"""Bytes; more than the interpreter loads at once."""


class HostReference:
    """The interpreter in this process, one image after the other.

    Raises
    ------
    InfrastructureError
        If there is no C++ compiler, or it refuses the text.
    """

    def __init__(self) -> None:
        compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
        if compiler is None:
            raise InfrastructureError(
                f"there is no C++ compiler ({', '.join(_COMPILERS)}); install one to execute the "
                "reference on the processor"
            )
        with temporary_folder() as folder:
            library = folder / "interpreter.so"
            options = ["-O2", "-fno-strict-aliasing", "-shared", "-fPIC", "-x", "c++"]
            options += [f"-I{INCLUDED.parent}"]
            built = run_tool(
                [compiler, *options, str(SOURCE), "-o", str(library)], deadline=_DEADLINE
            )
            if built.status != 0:
                raise InfrastructureError(
                    f"{compiler} {built.ending} on the reference; install another compiler, or "
                    f"leave the reference out\n{built.errors}"
                )
            self._library = ctypes.CDLL(str(library))

    def fill(
        self, contents: NDArray[np.uint64], image_bytes: int, first: int, count: int
    ) -> Images:
        """Return images as their contents have them, by their numbers.

        Parameters
        ----------
        contents
            `strategies.contents.device.DeviceContents.words`.
        first
            Number of the first image, below 2^64.

        Returns
        -------
        uint8 (count, image_bytes)
        """
        images, copies = (_aligned(count * image_bytes) for _ in range(2))
        numbers = map(ctypes.c_uint64, (first, count))
        self._library.fill_images(_at(contents), *numbers, _at(images), _at(copies))
        return images[: count * image_bytes].reshape(count, image_bytes)

    def execute(self, encoded: Encoded, images: Images) -> Images:
        """Return images after a program; those that are given stay as they are.

        Parameters
        ----------
        images : uint8 (count, image_bytes)

        Returns
        -------
        uint8 (count, image_bytes)
        """
        result = np.array(images, order="C")
        sizes = map(ctypes.c_uint64, (encoded.image_bytes, len(result)))
        memory = _memory(encoded)
        self._library.run_images(_at(encoded.words), _at(result), *sizes, _at(memory))
        return result

    def compare(self, encoded: Encoded, before: Images, after: Images, first: int = 0) -> Compared:
        """Execute a program on images, and compare with what else was made of them.

        Parameters
        ----------
        before, after : uint8 (count, image_bytes)
        first
            Number of the first image; the others follow it.
        """
        # Copies, which lie where anything can be loaded from.
        images, results = (np.array(one, order="C") for one in (before, after))
        found, memory = np.zeros(2 + LISTED, np.uint64), _memory(encoded)
        found[1] = LISTED
        sizes = map(ctypes.c_uint64, (encoded.image_bytes, first, len(images)))
        self._library.compare_images(
            _at(encoded.words), _at(images), _at(results), *sizes, _at(memory), _at(found)
        )
        return Compared.of(len(images), found)


def _memory(encoded: Encoded) -> Images:
    """Return memory of a warp, at an address that is a multiple of `_ALIGNMENT`."""
    return _aligned(encoded.work_bytes)


def _aligned(size: int) -> Images:
    memory = np.zeros(size + _ALIGNMENT, np.uint8)
    return memory[-memory.ctypes.data % _ALIGNMENT :]


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
