"""Images of a launch: what its buffers hold before the kernel runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fuzz.findings.launches import TYPES, BufferRow, Setup
from strategies.contents.buffers import below, filled


def image_of(setup: Setup, *, seed: int, number: int) -> NDArray[np.uint8]:
    """Return an image, uint8 (image_bytes,); what is nobody's is random, too."""
    whole = filled("b", 64, setup.image_bytes, seed=seed, image=1 + 4 * number, buffer=0)
    image = np.frombuffer(whole, np.uint8).copy()
    for index, (name, row) in enumerate(setup.buffers.items(), start=1):
        start = setup.offsets[name]
        data = _contents(row, seed=seed, image=number, buffer=index)
        image[start : start + row.bytes] = np.frombuffer(data, np.uint8)
    return image


def _contents(row: BufferRow, *, seed: int, image: int, buffer: int) -> bytes:
    bits = TYPES[row.type]
    if row.fill == "zeros":
        return bytes(row.bytes)
    if row.fill == "count":
        count = -(-row.bytes * 8 // bits)
        return np.arange(count).astype(f"<u{bits // 8}").tobytes()[: row.bytes]
    if row.below is not None:
        return below(row.below, bits, row.bytes, seed=seed, image=image, buffer=buffer)
    kind = row.type.rstrip("0123456789")
    return filled(kind, bits, row.bytes, seed=seed, image=image, buffer=buffer)
