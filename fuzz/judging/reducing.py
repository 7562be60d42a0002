"""Making a kernel smaller: its text, the launch, and the contents of an image.

Parts are taken away as long as what is left is still assembled, still decided by the ISA and still
wrong, where somebody has it right.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.findings.launches import Setup, parameters_of
from fuzz.judging.reference import Image
from fuzz.reducer import Reducer

Holds = Callable[[str, Setup, Image], bool]
"""Whether a text, launched so, on this image still shows what is wrong."""

REDUCE_SECONDS = 120.0
"""Time for one finding: kernels of 60 lines take 10 s to 40 s on one core (2026-11-23)."""

_SPECIAL = re.compile(r"%(tid|ctaid|laneid)(?:\.([xyz]))?")
_LANES_TRIED, _WORDS_TRIED = 64, 8
"""Threads, and words of an image, of which one is tried in place of all."""


class KernelReducer(Reducer):
    """Makes a kernel, its launch and an image smaller.

    It ends at a value of `time.monotonic()`; None: `REDUCE_SECONDS` from now.
    """

    def __init__(
        self, holds: Holds, ptx: str, setup: Setup, image: Image, *, end: float | None = None
    ) -> None:
        super().__init__(holds, ptx, end=time.monotonic() + REDUCE_SECONDS if end is None else end)
        self.setup, self.image = setup, image
        """The smallest launch and image so far, uint8 (bytes,)."""

    @property
    def _state(self) -> object:
        return self.text, self.setup, self.image.tobytes()

    def _pass(self) -> None:
        self._shrink_launch()
        super()._pass()
        self._shrink_image()

    def _takes(self, text: str) -> bool:
        try:
            return self._takes_all(text, *self._fitting(text))
        except KeyError:  # the entry is gone
            return False

    def _takes_all(self, text: str, setup: Setup, image: Image) -> bool:
        asked = text, setup.grid, setup.block, image.tobytes()
        if not self._ask(asked, lambda: self._holds(text, setup, image)):
            return False
        self.setup, self.image = setup, image
        return True

    def _fitting(self, text: str) -> tuple[Setup, Image]:
        """Return launch and image without the buffers of parameters that a text has not."""
        setup = self.setup
        parameters = parameters_of(text, setup.entry)
        names = {one.name for one in parameters}
        if len(names) == len(setup.parameters):
            return setup, self.image
        arguments = {
            name: value
            for name, value in setup.arguments.items()
            if name.partition("+")[0] in names
        }
        fewer = replace(setup, parameters=parameters, arguments=arguments)
        image = np.zeros(fewer.image_bytes, np.uint8)
        for name, row in fewer.buffers.items():
            to, at = fewer.offsets[name], setup.offsets[name]
            image[to : to + row.bytes] = self.image[at : at + row.bytes]
        return fewer, image

    def _values(self, stem: str, sources: str, bits: int) -> Iterator[str]:
        """Yield also one thread's number, and words of the image."""
        if stem == "mov" and (special := _SPECIAL.fullmatch(sources)):
            extents = self.setup.grid if special[1] == "ctaid" else self.setup.block
            most = 32 if special[1] == "laneid" else extents["xyz".index(special[2] or "x")]
            yield from map(str, range(min(most, _LANES_TRIED)))
        yield from super()._values(stem, sources, bits)
        if stem in ("ld", "ldu") and bits in (32, 64):
            words = np.unique(self.image.view(f"<u{bits // 8}"))
            yield from map(str, words[words > 1][:_WORDS_TRIED])

    def _shrink_launch(self) -> None:
        for name in ("grid", "block"):
            for axis in (2, 1, 0):
                while (extent := getattr(self.setup, name)[axis]) > 1:
                    for less in dict.fromkeys((1, extent // 2)):
                        shape = list(getattr(self.setup, name))
                        shape[axis] = less
                        changes: dict[str, Any] = {name: tuple(shape)}
                        if self._takes_all(self.text, replace(self.setup, **changes), self.image):
                            break
                    else:
                        break

    def _shrink_image(self) -> None:
        """Have words of the image zero, halves of them first, and then small."""
        size = max(1, self.image.view("<u4").size)
        while True:
            left = np.flatnonzero(self.image.view("<u4"))
            if not left.size:
                return
            size = min(size, left.size)
            for start in range(0, left.size, size):
                self._try_words(left[start : start + size], 0)
            if size == 1:
                break
            size = (size + 1) // 2
        for place in np.flatnonzero(self.image.view("<u4")):
            value = int(self.image.view("<u4")[place])
            for less in (1, value & 0xFF, value & 0xFFFF, 1 << value.bit_length() - 1):
                if less and less < value and self._try_words(np.array([place]), less):
                    break

    def _try_words(self, places: NDArray[np.intp], value: int) -> bool:
        image = self.image.copy()
        image.view("<u4")[places] = value
        return self._takes_all(self.text, self.setup, image)
