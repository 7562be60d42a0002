"""What the ISA permits the images of a batch to hold after a program, on any target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.bounds.bounded import (
    EXACT,
    UNKNOWN,
    BoundedWarps,
    byte_tags,
    element_size,
    starts,
    without_torn,
)
from oracle.errors import UsageError
from oracle.execution.execution import chunks, has_figures, run
from oracle.isa.targets import DEFAULT_TARGET
from oracle.models import model_for
from oracle.program.definedness import check_defined
from oracle.program.image import check_images, different, locate, writable
from oracle.program.lane_execution import may_be_open
from oracle.program.operations import FLOATS
from oracle.program.places import Place
from oracle.program.program import Program, walk
from oracle.program.steps import is_lane_code


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What one floating-point element of an image may be."""

    image: int
    byte: int
    """Of its first byte."""
    place: Place | None
    type: str
    low: float
    """Greater than `high` if only NaN is permitted."""
    high: float
    nan_ok: bool
    """Of any payload."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Permission:
    """What the images of a batch may hold after a program; arrays uint8 (count, image_bytes)."""

    program: Program
    bits: NDArray[np.uint8]
    """The bytes that must be there where `exact` says so."""
    low: NDArray[np.uint8]
    """Bytes of the low bound of each bounded element, in its format."""
    high: NDArray[np.uint8]
    tags: NDArray[np.uint8]
    """What is known of each byte: see `oracle.bounds.bounded`."""
    undefined: NDArray[np.bool_]
    """Images of which metadata have no meaning, or lanes take bits of NaNs that PTX leaves open."""

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Which bytes have one permitted value, bool (count, image_bytes)."""
        return np.equal(self.tags, EXACT)

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Which bytes may be anything, as far as is known here, bool (count, image_bytes)."""
        return np.equal(self.tags, UNKNOWN)

    def allows(self, actual: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which bytes of images found afterwards are permitted, bool (count, image_bytes).

        All bytes of a bounded element alike. UsageError if the images have another dtype or shape.
        """
        check_images(self.program, actual)
        if len(actual) != len(self.bits):
            raise UsageError(f"{len(actual)} images given; there are {len(self.bits)}")
        allowed: NDArray[np.bool_] = (self.tags != EXACT) | (actual == self.bits)
        for name, floats in FLOATS.items():
            image, byte = np.nonzero(starts(self.tags, name))
            index = (image[:, None], byte[:, None] + np.arange(element_size(name)))
            value, low, high = (
                np.ascontiguousarray(plane[index]).view(floats)[:, 0]
                for plane in (actual, self.low, self.high)
            )
            nan_ok = self.tags[image, byte] == byte_tags(name, nan=True)[0]
            good = np.where(np.isnan(value), nan_ok, (low <= value) & (value <= high))
            allowed[index] = good[:, None]
        return allowed

    def bounds(self) -> Iterator[Bound]:
        """Iterate over the bounded elements of all images."""
        for name, floats in FLOATS.items():
            nan_tag = byte_tags(name, nan=True)[0]
            for image, byte in np.argwhere(starts(self.tags, name)).tolist():
                part = slice(byte, byte + element_size(name))
                low, high = (
                    float(plane[image, part].view(floats)[0]) for plane in (self.low, self.high)
                )
                yield Bound(
                    image=image, byte=byte, place=locate(self.program, byte), type=name, low=low,
                    high=high, nan_ok=bool(self.tags[image, byte] == nan_tag),
                )  # fmt: skip


def permitted(
    program: Program, images: NDArray[Any], *, target: str = DEFAULT_TARGET
) -> Permission:
    """Return what the ISA permits images, uint8 (count, image_bytes), to hold after a program.

    That does not depend on the target; whether the program is defined does, for ldmatrix. It takes
    4 bytes for each byte of the images, and several times that on the way. Raises as `execute`.
    """
    check_defined(program, target=target)
    check_images(program, images)
    model = model_for(target)
    bits = np.array(images, order="C")
    low, high, tags = (np.zeros_like(bits) for _ in range(3))
    undefined = np.zeros(len(bits), np.bool_)
    mask = writable(program)
    for part in chunks(program, len(bits)):
        warps = BoundedWarps(program, bits[part], model)
        run(program.steps, warps)
        memory = warps.memory["global"]
        low[part], high[part] = memory["low"], memory["high"]
        tags[part] = without_torn(memory["tag"])
        tags[part] = np.where(warps.lost[:, None] & mask, np.uint8(UNKNOWN), tags[part])
        undefined[part] = warps.undefined
    return Permission(
        program=program, bits=bits, low=low, high=high, tags=tags, undefined=undefined
    )


def contradicting(
    program: Program, images: NDArray[Any], actual: NDArray[Any], *, target: str,
    expected: NDArray[Any],
) -> NDArray[np.intp]:  # fmt: skip
    """Return the numbers of the images that are not what is expected of a program.

    Where there are figures of all that it multiplies, that is every byte as expected; else what the
    ISA permits. Of a few images, those in which lanes take open bits of a NaN are none of them.
    """
    differ = different(expected, actual)
    known = has_figures(program, target=target)
    if not len(differ):
        return differ
    if known:
        codes = (step for step in walk(program.steps) if is_lane_code(step))
        if len(differ) > _LOOKED_AT or not any(map(may_be_open, codes)):
            return differ
    permission = permitted(program, images[differ], target=target)
    wrong = ~permission.undefined
    if not known:
        wrong &= ~permission.allows(actual[differ]).all(axis=1)
    return differ[wrong]


_LOOKED_AT = 64
"""Images asked for open bits: drawn programs have none, what is made smaller a few."""
