"""Tags: which bytes and elements are exact, which lie within bounds, which are unknown.

Memory carries one tag a byte, fragments one an element. Bytes of a bounded element say which
format it has, which byte of it they are, and whether it may be a NaN, so that copies carry
elements along, and an element can be told that was torn apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.elementwise import FLOATS
from oracle.formats import Format

EXACT = 0
"""Tag of a byte or an element whose bits are known."""
UNKNOWN = 0xFF
"""Tag of a byte or an element that may be anything."""
BOUNDED = 1
"""Tag of an element that lies between its low and its high bound."""
BOUNDED_OR_NAN = 3
"""Tag of an element that lies between its bounds or is a NaN. Empty bounds leave only NaN."""

# A byte of a bounded element: bit 0 set, bits 1 to 3 which byte, bit 4 NaN, bits 5 and 6 format.
_CODES = {name: code for code, name in enumerate(FLOATS, start=1)}
_NAN = 1 << 4


def element_size(name: str) -> int:
    """Bytes of an element of f16, f32 or f64."""
    return np.dtype(FLOATS[name]).itemsize


def byte_tags(name: str, *, nan: bool) -> NDArray[np.uint8]:
    """Return the tags of the bytes of one bounded element of a format, uint8 (bytes,)."""
    first = 1 | (_NAN if nan else 0) | _CODES[name] << 5
    return (first + 2 * np.arange(element_size(name))).astype(np.uint8)


def spread(tags: NDArray[np.uint8], type_: Format) -> NDArray[Any]:
    """Turn tags of elements of at least 8 bits into words whose bytes are the tags of the bytes."""
    dtype = np.dtype(f"<u{type_.bits // 8}")
    # NumPy 2.5 takes a Python integer above 2^63 for a C long here.
    ones = np.full((), np.iinfo(dtype).max, dtype)
    words = np.where(tags == UNKNOWN, ones, np.zeros((), dtype))
    if type_.name in FLOATS:
        for tag, nan in ((BOUNDED, False), (BOUNDED_OR_NAN, True)):
            words[tags == tag] = byte_tags(type_.name, nan=nan).view(dtype)[0]
    return words


def gather(words: NDArray[Any], type_: Format) -> NDArray[np.uint8]:
    """Turn words of the tags of memory into tags of elements, uint8.

    What is neither exact nor a whole element of this format is unknown.
    """
    tags = np.where(words == 0, EXACT, UNKNOWN).astype(np.uint8)
    if type_.name in FLOATS:
        for tag, nan in ((BOUNDED, False), (BOUNDED_OR_NAN, True)):
            tags[words == byte_tags(type_.name, nan=nan).view(words.dtype)[0]] = tag
    return tags


def starts(tags: NDArray[np.uint8], name: str) -> NDArray[np.bool_]:
    """Return where whole bounded elements of "f16", "f32" or "f64" start, along the last axis."""
    size = element_size(name)
    found = np.zeros(tags.shape, dtype=bool)
    last = tags.shape[-1] - size + 1
    if last > 0:
        for nan in (False, True):
            wanted = byte_tags(name, nan=nan)
            match = [tags[..., i : i + last] == wanted[i] for i in range(size)]
            found[..., :last] |= np.logical_and.reduce(match)
    return found


def without_torn(tags: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return tags of what was moved together, elements that are not whole and in order unknown."""
    whole = tags == EXACT
    for name in FLOATS:
        first = starts(tags, name)
        for byte in range(min(element_size(name), tags.shape[-1])):
            whole[..., byte:] |= first[..., : tags.shape[-1] - byte]
    return np.where(whole, tags, np.uint8(UNKNOWN))
