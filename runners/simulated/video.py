"""Video instructions: integers of selected bytes or halves of 32-bit words.

Source: PTX ISA 9.7.18, whose pseudocode has numbers of 33 and 34 bits; here they have 64.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from runners.simulated.floating import COMPARE
from runners.simulated.integers import Qualifiers
from runners.simulated.warps import Values

_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    # Halves are rounded up, of sums below zero down.
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vshl": lambda a, b: a << b,
    "vshr": lambda a, b: a >> b,
}
_SECOND = {"add": np.add, "min": np.minimum, "max": np.maximum}
SCALAR = ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
PACKED = tuple(
    f"{name}{count}" for name in _COMPUTE if not name.startswith("vsh") for count in (2, 4)
)
COMPARISONS = " ".join(COMPARE)

_PARTS = {
    1: (r"b[0-3]|h[01]|", r"b[0-3]|h[01]|"),
    2: (r"h10?|h0|", r"h[0-3]{2}|"),
    4: (r"b(?=.)3?2?1?0?|", r"b[0-7]{4}|"),
}
"""Patterns of what may be selected of d, and of a and b, by how many numbers a word is."""
_USUAL = {2: ("10", "10", "32"), 4: ("3210", "3210", "7654")}
"""What is selected of d, a and b where nothing is said, the highest first."""
SELECTED = re.compile(r"(.+)\.([bh][0-7]+)")
"""A register, and what is selected of it."""


def _count(q: Qualifiers) -> int:
    return int(q["op"][-1]) if q["op"][-1].isdigit() else 1


def selects(q: Qualifiers, chosen: Sequence[str]) -> bool:
    """Return whether these may be selected of d, a, b and c, and whether c is there if needed."""
    target, source = _PARTS[_count(q)]
    d, a, b, *c = chosen
    if not re.fullmatch(target, d) or any(not re.fullmatch(source, each) for each in (a, b)):
        return False
    if q["op"] == "vmad" or _count(q) > 1:
        return len(c) == 1 and not (d and q["op"] == "vmad")
    return len(c) == bool(d or q["second"]) and not (d and q["second"])


def _numbers(words: Values, kind: str, bits: int, place: int) -> Any:
    """Return the numbers of a type that lie at a place of words, in units of their width."""
    narrow = (words >> words.dtype.type(bits * place)).astype(f"u{bits // 8}")
    return (narrow.view(f"i{bits // 8}") if kind[0] == "s" else narrow).astype(np.int64)


def _computed(q: Qualifiers, a: Any, b: Any, bits: int) -> Any:
    """Compute one number, and clamp it to a width."""
    if q["cmp"]:
        return COMPARE[q["cmp"]](a, b).astype(np.int64)
    found = _COMPUTE[q["op"].rstrip("24")](a, b)
    if not q["sat"]:
        return found
    lowest = -(1 << (bits - 1)) if q["dtype"] == "s32" else 0
    return np.clip(found, lowest, lowest + (1 << bits) - 1)


def _width(part: str) -> int:
    return {"b": 8, "h": 16, "": 32}[part[:1]]


def _selected(q: Qualifiers, chosen: Sequence[str], *words: Values) -> Any:
    """Return the numbers that are selected of a and b."""
    return (
        _numbers(each, q[kind] or "u32", _width(part), int(part[1:] or 0))
        for each, kind, part in zip(words, ("atype", "btype"), chosen[1:], strict=False)
    )


def scalar(q: Qualifiers, chosen: Sequence[str], a: Values, b: Values, *c: Values) -> Any:
    """Compute a number; combine it with c, or put it in place of a part of c."""
    x, y = _selected(q, chosen, a, b)
    bits = _width(chosen[0])
    if q["mode"]:
        y = np.minimum(y, 32) if q["mode"] == "clamp" else y & 31
    found = _computed(q, x, y, bits)
    if q["second"]:
        # What was not clamped is a number of 33 bits with a sign.
        found = found << 31 >> 31
        found = _SECOND[q["second"]](found, _numbers(c[0], q["dtype"] or "u32", 32, 0))
    if not chosen[0]:
        return found.astype(np.uint32)
    place = np.uint32(bits * int(chosen[0][1:]))
    mask = np.uint32((1 << bits) - 1) << place
    return (found.astype(np.uint32) << place & mask) | (c[0] & ~mask)


def multiplied(q: Qualifiers, chosen: Sequence[str], a: Values, b: Values, c: Values) -> Any:
    """Multiply two numbers, add c, and 1 if that is asked for; take the sum's upper bits."""
    signed = "s32" in (q["atype"], q["btype"])
    x, y = _selected(q, chosen, a, b)
    z = _numbers(c, "s32" if signed else "u32", 32, 0)
    # 64 bits hold every sum, with a sign or without one.
    found: Any = x * y + z + (1 if q["po"] else 0)
    found = found if signed else found.view(np.uint64)
    found = found >> found.dtype.type(int(q["scale"].removeprefix("shr") or 0))
    if q["sat"]:
        limits = np.iinfo(np.int32 if signed else np.uint32)
        found = np.clip(found, limits.min, limits.max)
    return found.astype(np.uint32)


def packed(q: Qualifiers, chosen: Sequence[str], a: Values, b: Values, c: Values) -> Any:
    """Compute two or four numbers; add them to c, or put them in place of parts of c."""
    count = _count(q)
    bits = 32 // count
    given = (b.astype(np.uint64) << np.uint64(32)) | a
    parts = [part[1:] or usual for part, usual in zip(chosen, _USUAL[count], strict=False)]
    total: Any = c.astype(np.int64) if q["add"] else c
    for place in map(int, parts[0]):
        x, y = (
            _numbers(given, q[kind], bits, int(digits[count - 1 - place]))
            for digits, kind in ((parts[1], "atype"), (parts[2], "btype"))
        )
        found = _computed(q, x, y, bits)
        if q["add"]:
            total = total + found
            continue
        mask = np.uint32(((1 << bits) - 1) << bits * place)
        total = (found.astype(np.uint32) << np.uint32(bits * place) & mask) | (total & ~mask)
    return np.asarray(total).astype(np.uint32)
