"""Where things lie in a memory image; a batch is uint8 (count, image_bytes), one warp a row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.program.places import Place
from oracle.program.program import Program, walk


def position(program: Program, place: Place) -> int:
    """Return the byte of the image, or of the warp's shared memory, at a place."""
    return program.offset(place.buffer) + place.offset


def locate(program: Program, byte: int) -> Place | None:
    """Return the place of a byte of the image, None for padding; UsageError beyond its end."""
    if not 0 <= byte < program.image_bytes:
        raise UsageError(
            f"byte {byte} is not in the image; its bytes are 0 to {program.image_bytes - 1}"
        )
    for buffer in program.buffers:
        offset = byte - program.offset(buffer.name)
        if buffer.space == "global" and 0 <= offset < buffer.size:
            return Place(buffer=buffer.name, offset=offset)
    return None


def writable(program: Program) -> NDArray[np.bool_]:
    """Return which bytes of the image steps of a defined program write, bool (image_bytes,)."""
    mask = np.zeros(program.image_bytes, dtype=bool)
    for step in walk(program.steps):
        for span in step.bytes_written:
            if program.buffer(span.buffer).space == "global":
                mask[program.offset(span.buffer) + span.offsets] = True
    return mask


def check_images(program: Program, images: NDArray[Any]) -> None:
    """Raise UsageError unless an array is a batch of images of a program."""
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        given = images.dtype if isinstance(images, np.ndarray) else type(images).__name__
        raise UsageError(f"images are {given}; they must be an array of uint8, so convert them")
    if images.ndim != 2 or images.shape[1] != program.image_bytes:
        raise UsageError(
            f"images have shape {images.shape}; it must be (count, {program.image_bytes}), one "
            "row for each image of this program"
        )


def different(expected: NDArray[np.uint8], actual: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return the numbers of the images that differ, of two batches uint8 (count, image_bytes).

    Whole batches are compared in words first, at the speed of memory: nearly all of them agree.
    """
    flat, also = (np.ascontiguousarray(images).reshape(-1) for images in (expected, actual))
    whole = len(flat) // 8 * 8
    one, other = (images[:whole].view(np.uint64) for images in (flat, also))
    if np.array_equal(one, other) and np.array_equal(flat[whole:], also[whole:]):
        return np.zeros(0, np.intp)
    return np.flatnonzero((expected != actual).any(axis=1))
