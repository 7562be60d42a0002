"""The notes of the pages, as they are printed there, and what each asks of which opcodes.

Opcodes are picked by regular expressions over their text, so that nothing is shared with the rows
of `oracle.isa.lookup`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

Version = tuple[int, int]

_HALF = r"m(?:16n16|8n32|32n8)k16"
INTEGER = rf"^wmma.*\.{_HALF}\b.*\.(?:s8|u8|s32)\b"
BITS = r"\.m8n8k(?:32|128)\b"
FLOAT = r"^wmma.*\.(?:f16|f32|bf16|tf32|f64)\b"
DOUBLE = r"\.f64\b"
ALTERNATE = r"\.bf16\b|\.tf32\b|\.m16n16k8\b"


@dataclass(frozen=True)
class PageNote:
    """One line of a page's notes."""

    text: str
    applies: str
    """Regular expression that finds something in the opcodes it is about."""
    since: Version | None = None
    until: Version | None = None
    target: int | None = None

    def concerns(self, opcode: str) -> bool:
        return re.search(self.applies, opcode) is not None


def _note(text: str, applies: str = "", **asks: Any) -> PageNote:
    return PageNote(" ".join(text.split()), applies, **asks)


# The lines that the notes of wmma.load, wmma.store and wmma.mma share.
_COMMON = (
    _note("Introduced in PTX ISA version 6.0.", since=(6, 0)),
    _note("`.m8n32k16` and `.m32n8k16` introduced in PTX ISA version 6.1.", r"m8n32k16|m32n8k16",
          since=(6, 1)),
    _note("Integer, sub-byte integer and single-bit `wmma` introduced in PTX ISA version 6.3.",
          f"{INTEGER}|{BITS}", since=(6, 3)),
    _note("Floating point `wmma` requires `sm_70` or higher.", FLOAT, target=70),
    _note("Integer `wmma` requires `sm_72` or higher.", INTEGER, target=72),
    _note("Sub-byte and single-bit `wmma` requires `sm_75` or higher.", BITS, target=75),
)  # fmt: skip
_CTA = _note(
    "Support for `::cta` sub-qualifier introduced in PTX ISA version 7.8.", "::cta", since=(7, 8)
)
_WIDE = _note(
    """Double precision and alternate floating point precision `wmma` introduced in PTX
    ISA version 7.0.""", f"{DOUBLE}|{ALTERNATE}", since=(7, 0),
)  # fmt: skip

NOTES: dict[str, tuple[str, tuple[PageNote, ...]]] = {
    "wmma.load": ("9.7.14.4.3", (
        *_COMMON,
        _note("`.m8n8k4` and `.m16n16k8` on `wmma` introduced in PTX ISA version 7.0.",
              r"\.m8n8k4\b|\.m16n16k8\b", since=(7, 0)),
        _WIDE,
        _CTA,
        _note("""Double precision and alternate floating point precision `wmma` requires `sm_80`
              or higher.""", f"{DOUBLE}|{ALTERNATE}", target=80),
    )),
    "wmma.store": ("9.7.14.4.4", (
        *_COMMON,
        _note("`.m16n16k8` introduced in PTX ISA version 7.0.", r"\.m16n16k8\b", since=(7, 0)),
        _note("Double precision `wmma` introduced in PTX ISA version 7.0.", DOUBLE, since=(7, 0)),
        _CTA,
        _note("Double precision `wmma` and shape `.m16n16k8` requires `sm_80` or higher.",
              rf"{DOUBLE}|\.m16n16k8\b", target=80),
    )),
    "wmma.mma": ("9.7.14.4.5", (
        *_COMMON,
        _WIDE,
        _note("""Support for `.and` operation in single-bit `wmma` introduced in PTX ISA version
              7.1.""", r"\.and\b", since=(7, 1)),
        _note("""Support for `.satfinite` on floating point `wmma.mma` is deprecated in PTX ISA
              version 6.4 and is removed from PTX ISA version 6.5.""",
              r"\.f(?:16|32)\.satfinite\b", until=(6, 5)),
        _note("""Double precision, alternate floating point precision `wmma` require `sm_80` or
              higher.""", f"{DOUBLE}|{ALTERNATE}", target=80),
        _note("`.and` operation in single-bit `wmma` requires `sm_80` or higher.", r"\.and\b",
              target=80),
    )),
    "ldmatrix": ("9.7.14.5.15", (
        _note("Introduced in PTX ISA version 6.5.", since=(6, 5)),
        _CTA,
        _note("Support for `.m16n16`, `.m8n16` shapes introduced in PTX ISA version 8.6.",
              r"\.m16n16\b|\.m8n16\b", since=(8, 6)),
        _note("Support for `.b8` type with `ldmatrix` is introduced in PTX ISA version 8.6.",
              r"\.b8$", since=(8, 6)),
        _note("Support for `.src_fmt`, `.dst_fmt` qualifiers introduced in PTX ISA version 8.6.",
              r"_p\d\d$", since=(8, 6)),
        # Of PTX ISA 9.4, in words of our own; ptxas 13.3 to 13.5 say the same.
        _note("Support for .s8 with .s4 introduced in PTX ISA version 9.4.", r"\.s8\.s4$",
              since=(9, 4)),
        _note("Requires `sm_75` or higher.", target=75),
    )),
}  # fmt: skip

SPECIFIC = r"^ldmatrix.*\.(?:m16n16|m8n16)\b"
"""What is "supported on following architectures" (9.7.14.5.15, Target ISA Notes): the shapes, and
.b8, .dst_fmt and .src_fmt, which only they have."""
SPECIFIC_TARGETS: dict[str, tuple[Version, Version | None]] = {
    # "sm_100a; sm_101a (Renamed to sm_110a from PTX ISA version 9.0); sm_120a"
    "sm_100a": ((8, 6), None),
    "sm_101a": ((8, 6), (9, 0)),
    "sm_110a": ((9, 0), None),
    "sm_120a": ((8, 7), None),  # no .version below 8.7 knows the target (ptxas 12.8, 2026-11)
    # "from PTX ISA version 8.8: sm_100f or higher in the same family"
    "sm_100f": ((8, 8), None),
    "sm_103f": ((8, 8), None),
    "sm_103a": ((8, 8), None),
    "sm_107f": ((9, 4), None),  # known from 9.4 on (ptxas 13.4, 2026-11)
    "sm_107a": ((9, 4), None),
    # "sm_101f or higher in the same family (Renamed to sm_110f from PTX ISA version 9.0)"
    "sm_101f": ((8, 8), (9, 0)),
    "sm_110f": ((9, 0), None),
    # "sm_120f or higher in the same family"
    "sm_120f": ((8, 8), None),
    "sm_121f": ((8, 8), None),
    "sm_121a": ((8, 8), None),
}
"""First PTX ISA version in which each target has them, and the first in which it has no more."""


@cache
def _concerning(opcode: str) -> tuple[tuple[PageNote, ...], bool]:
    mnemonic = next(name for name in NOTES if opcode.startswith(name))
    notes = tuple(note for note in NOTES[mnemonic][1] if note.concerns(opcode))
    return notes, re.search(SPECIFIC, opcode) is not None


def available(opcode: str, version: Version, target: str) -> bool:
    """Say by the notes alone whether an opcode exists in a version on a target."""
    number = int(target.removeprefix("sm_").rstrip("af"))
    notes, specific = _concerning(opcode)
    for note in notes:
        if (
            (note.since is not None and version < note.since)
            or (note.until is not None and version >= note.until)
            or (note.target is not None and number < note.target)
        ):
            return False
    if specific and not (target == "sm_90a" and opcode.endswith(".s8.s4")):
        since, until = SPECIFIC_TARGETS.get(target, ((99, 0), None))
        return version >= since and (until is None or version < until)
    return True
