"""What a row about a scalar instruction has: its operands, what it computes, where it exists."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.isa.tables import sentences
from oracle.isa.targets import VERSIONS, Module, PtxVersion

Bits = NDArray[Any]
"""Raw patterns of one register of every lane: uint16, uint32, uint64, or bool of predicates."""
Function = Callable[..., Bits]
NAN_FORMATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")
"""Formats of registers that hold floating-point numbers; of tf32, f32."""
_TYPE = re.compile(r"(?:[usfb](?:4|8|16|32|64)|bf16|tf32|e\dm\d)(?:x[24])?|pred")
_ARITHMETIC = frozenset({"add", "sub", "mul", "fma", "min", "max", "cvt", "set", "setp", "testp"})
"""First words of what is told to compute with numbers: NaN is NaN there (9.7.3, 9.7.4)."""

CLASSES: Mapping[str, type[np.generic]] = {
    "b16": np.uint16, "b32": np.uint32, "b64": np.uint64, "pred": np.bool_,
}  # fmt: skip
"""Classes of registers, with the dtype of their patterns."""


class Immediate(NamedTuple):
    """What a source may be instead of a register: a constant of a range."""

    low: int
    high: int
    """Both ends included, as unsigned patterns of the source's register."""
    required: bool = False
    """Whether the source has to be such a constant; else it may be a register, of any content."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScalarInstruction:
    """An instruction that every lane executes on registers of its own."""

    opcode: str
    """Text without operands, "shf.l.wrap.b32"; of moves a last word tells: "mov.b32.pack"."""
    destinations: tuple[str, ...]
    sources: tuple[str, ...]
    """Classes, in order, as of the destinations."""
    evaluate: Callable[..., tuple[Bits, ...]]
    """Arrays (..., 32), the lanes of warps last, one a source: to one a destination. Where PTX
    leaves the result open (`defined`, `nan`), it is something, and no device need agree."""
    immediates: Mapping[int, Immediate] = field(default_factory=dict)
    """Sources that may be, or have to be, constants, by their position."""
    carry_in: bool = False
    """Whether it reads the carry flag CC.CF: `evaluate` takes it as one more bool array, last."""
    carry_out: bool = False
    """Whether it writes the carry flag: `evaluate` returns it as one more bool array, last."""
    warp: bool = False
    """Whether lanes read each other's sources: all execute it, and the membermask is 0xffffffff."""
    defined: Callable[..., NDArray[np.bool_]] | None = None
    """Takes what `evaluate` takes; where PTX says what comes out. None: everywhere."""
    nan: str = ""
    """Format ("f32", "f16x2") in which NaN with open bits may come out of the first destination."""
    section: str
    version: PtxVersion = VERSIONS[0]
    """First version of the PTX ISA that has it."""
    target: int = 0
    """Least number of a target that has it: 90 for sm_90."""

    @property
    def family(self) -> str:
        """First word of the opcode: "shf"."""
        return self.opcode.partition(".")[0]

    def exists(self, module: Module) -> bool:
        """Whether a module of this version and target may have it."""
        return self.version <= module.version and self.target <= module.target.number

    @property
    def settled_by(self) -> str:
        """Opcode that makes NaNs of open bits canonical, given a result twice; "" for none."""
        fmt = {"tf32": "f32"}.get(self.nan, self.nan)
        return f"max.NaN.{fmt}" if fmt not in ("", "f64") else ""

    @property
    def numbers(self) -> str:
        """Format of the elements of its sources, where no bits of one that is NaN matter.

        "" of moves, selections, bits, and of `.xorsign.abs`, which takes a NaN's sign (9.7.3.12).
        """
        fmt = self.opcode.rpartition(".")[2]
        signs = ".xorsign." in self.opcode and ".NaN." not in self.opcode
        computes = self.family in _ARITHMETIC and not signs
        return fmt if computes and fmt in NAN_FORMATS else ""

    @property
    def says(self) -> str:
        """What the section of the ISA says that it does."""
        words, part = self.opcode.split("."), ""
        if words[0][0] == "v" and words[0][-1] in "24":
            part = {"2": "half", "4": "byte"}[words[0][-1]]
            words[0] = words[0][:-1]
        known, modifiers = sentences()["scalar"], sentences()["modifiers"]
        starts = (".".join(words[:end]) for end in range(len(words), 0, -1))
        said = [next(known[start] for start in starts if start in known).format(part=part)]
        said += [modifiers[word] for word in words if word in modifiers]
        if "sat" in words[1:] and "pack" not in words:
            clamps = self.result_type.startswith(("f", "bf"))
            said.append(modifiers["clamped" if clamps else "limited"])
        return " ".join(said)

    @property
    def result_type(self) -> str:
        """Type of its first destination, as PTX names it: "f32", "s64", "b32", "pred"."""
        kind, types = self.destinations[0], self._types
        packed = ".pack" in self.opcode or self.family[0] == "v"
        if kind == "pred" or packed:
            return kind
        if self.family in ("popc", "clz", "bfind"):
            return "u32"
        if self.family in ("dp4a", "dp2a"):
            return "s32" if any(one[0] == "s" for one in types) else "u32"
        return _of_register(types[0], kind) if types else kind

    @property
    def source_type(self) -> str:
        """Type of its sources, as PTX names it; of moves and selections that of the result."""
        return self._types[-1] if self._types else self.destinations[0]

    @property
    def _types(self) -> list[str]:
        return [word for word in self.opcode.split(".") if _TYPE.fullmatch(word)]

    def text(self, destinations: Sequence[str], sources: Sequence[str]) -> str:
        """Return the statement with its operands, as they are written in PTX."""
        opcode, written, read = self.opcode, "|".join(destinations), ", ".join(sources)
        match opcode.rpartition("."):
            case opcode, _, "pack" | "pack4":
                read = f"{{{read}}}"
            case opcode, _, "unpack" | "unpack4":
                written = f"{{{', '.join(destinations)}}}"
            case _:
                opcode = self.opcode
        return f"{opcode} {written}, {read};"


def _of_register(name: str, kind: str) -> str:
    """Return a type as a register of a class holds it: an integer extended, others as they are."""
    bits = int(kind[1:])
    if name[0] in "us" and "x" not in name:
        return f"{name[0]}{bits}"
    found = re.fullmatch(r"[a-z]+([0-9]+)(?:x([0-9]))?", name)
    size = 0 if found is None else int(found[1]) * int(found[2] or 1)
    return name if size == bits or name == "tf32" else kind


Since = tuple[tuple[int, int], int]
"""First version of the PTX ISA, and least number of a target."""
FIRST: Since = ((1, 0), 0)


def row(
    opcode: str, section: str, destinations: str, sources: str, function: Callable[..., Any],
    since: Since = FIRST, **more: Any,
) -> ScalarInstruction:  # fmt: skip
    """Return an instruction; `function` returns an array of one result, or a tuple of several."""
    version, target = since
    written = tuple(destinations.split())
    many = len(written) > 1 or more.get("carry_out")
    return ScalarInstruction(
        opcode=opcode, section=section, destinations=written, sources=tuple(sources.split()),
        evaluate=function if many else lambda *given: (function(*given),),
        version=PtxVersion(*version), target=target, **more,
    )  # fmt: skip


_PIECE = 1 << 12
"""Elements computed together: a dozen working arrays of 32 KiB stay in the cache."""


def in_pieces(function: Function) -> Function:
    """Return a function of elements that computes a few at a time: thrice as fast on many."""

    def compute(*sources: Bits) -> Bits:
        size = sources[0].size
        if size <= _PIECE:
            return function(*sources)
        flat = [one.reshape(-1) for one in sources]
        parts = [
            function(*(one[start : start + _PIECE] for one in flat))
            for start in range(0, size, _PIECE)
        ]
        return np.concatenate(parts).reshape(sources[0].shape)

    return compute


def pieces(function: Function, bits: int, *bound: Any) -> Function:
    """Return a function of the pieces of registers, the lowest first, as one of registers."""

    def compute(*sources: Bits) -> Bits:
        taken = [np.ascontiguousarray(source).view(f"u{bits // 8}") for source in sources]
        return function(*bound, *taken).view(np.uint32)

    return compute
