"""The interpreter on the processor: built from the text that the device has, by a C++ compiler."""

from __future__ import annotations

import ctypes
import shutil

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InfrastructureError
from runners.folders import temporary_folder
from runners.processes import run_tool
from runners.reference.encoding import Encoded
from runners.reference.shipped import SOURCE

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
            options = ["-O2", "-shared", "-fPIC", "-x", "c++"]
            built = run_tool(
                [compiler, *options, str(SOURCE), "-o", str(library)], deadline=_DEADLINE
            )
            if built.status != 0:
                raise InfrastructureError(
                    f"{compiler} {built.ending} on the reference; install another compiler, or "
                    f"leave the reference out\n{built.errors}"
                )
            self._run = ctypes.CDLL(str(library)).run_images

    def execute(self, encoded: Encoded, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return images after a program; those that are given stay as they are.

        Parameters
        ----------
        images : uint8 (count, image_bytes)

        Returns
        -------
        uint8 (count, image_bytes)
        """
        result = np.array(images, order="C")
        memory = np.zeros(encoded.work_bytes + _ALIGNMENT, np.uint8)
        start = memory.ctypes.data + -memory.ctypes.data % _ALIGNMENT
        self._run(
            ctypes.c_void_p(encoded.words.ctypes.data),
            ctypes.c_void_p(result.ctypes.data),
            ctypes.c_uint64(encoded.image_bytes),
            ctypes.c_uint64(len(result)),
            ctypes.c_void_p(start),
        )
        return result
