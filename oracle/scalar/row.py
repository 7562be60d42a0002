"""What a row about a scalar instruction has: its operands, what it computes, where it exists."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.isa.targets import VERSIONS, Module, PtxVersion

_COMPARED = (
    "Compares two values with a relational operator, and optionally combines the result with a "
    "predicate by a Boolean operator"
)
_SIMD = (
    "of each {part} of the two operands; what the mask leaves out comes from c, and with .add the "
    "results are summed into c"
)

SAYS: Mapping[str, str] = {
    "add": "d = a + b.",
    "sub": "d = a - b.",
    "mul": "d = a * b.",
    "mul.lo": "d is the low half of the product of a and b.",
    "mul.hi": "d is the high half of the product of a and b.",
    "mul.wide": "d is the product of a and b, twice as wide as they are.",
    "mad.lo": "Adds c to the low half of the product of a and b.",
    "mad.hi": "Adds c to the high half of the product of a and b.",
    "mad.wide": "Adds c to the product of a and b, both twice as wide as a and b are.",
    "mul24.lo": "d is the low 32 bits of the 48-bit product of two 24-bit integers.",
    "mul24.hi": "d is the high 32 bits of the 48-bit product of two 24-bit integers.",
    "mad24.lo": "Adds c to the low 32 bits of the 48-bit product of two 24-bit integers.",
    "mad24.hi": "Adds c to the high 32 bits of the 48-bit product of two 24-bit integers.",
    "sad": "Adds the absolute value of a - b to c.",
    "div": "d = a / b.",
    "rem": "d is the remainder of a divided by b.",
    "abs": "d is the absolute value of a.",
    "neg": "d = -a.",
    "min": "d is the minimum of a and b.",
    "max": "d is the maximum of a and b.",
    "popc": "d is the number of one bits in a.",
    "clz": "d is the number of leading zeros in a, from the most significant bit on.",
    "bfind": "d is the position of the most significant bit of a that is no sign bit, and "
    "0xffffffff if there is none.",
    "bfind.shiftamt": "d is the left shift that takes the most significant bit of a that is no "
    "sign bit to the most significant position, and 0xffffffff if there is none.",
    "fns": "d is the position of the n-th set bit of a mask, counted from a base, and 0xffffffff "
    "if there is none.",
    "brev": "d is a with its bits reversed.",
    "bfe": "Extracts a bit field from a, and zero- or sign-extends it; b gives its first bit, c "
    "its length, both in 0 to 255.",
    "bfi": "Inserts a bit field from a into b; c gives the first bit, d the length, both in 0 to "
    "255. If the length is zero, or the first bit lies beyond the register, the result is b.",
    "szext": "Sign- or zero-extends the N-bit value in a; N is b, and of N = 0 the result is 0.",
    "bmsk": "d is a mask of b bits that starts at bit a.",
    "dp4a": "Adds the four products of the bytes of a and b to c.",
    "dp2a": "Adds the products of the two halves of a and two bytes of b to c.",
    "add.cc": "d = a + b; the carry is written to CC.CF.",
    "addc": "d = a + b + CC.CF.",
    "sub.cc": "d = a - b; the borrow is written to CC.CF.",
    "subc": "d = a - (b + CC.CF).",
    "madc.lo": "Adds c and CC.CF to the low half of the product of a and b.",
    "madc.hi": "Adds c and CC.CF to the high half of the product of a and b.",
    "testp": "p says whether a is a number of the named class; zeros count as normal numbers.",
    "copysign": "d is b with the sign of a.",
    "fma": "d = a * b + c, with no loss of precision in the product and the sum.",
    "set": f"{_COMPARED}; d is 1.0 (of a floating-point type) or all ones (of an integer type) if "
    "it is true, and 0 otherwise.",
    "setp": f"{_COMPARED}, and writes it to p; a second destination gets the combination with the "
    "complement of the comparison.",
    "selp": "If the predicate c is true, d = a; otherwise d = b.",
    "slct": "If c >= 0, d = a; otherwise d = b.",
    "and": "d = a & b, bit by bit.",
    "or": "d = a | b, bit by bit.",
    "xor": "d = a ^ b, bit by bit.",
    "not": "d = ~a.",
    "cnot": "d = (a == 0) ? 1 : 0.",
    "lop3": "Each bit of d is looked up in the table immLut by the bits of a, b and c.",
    "lop3.and": "Each bit of d is looked up in the table immLut by the bits of a, b and c; "
    "p = (d != 0) and q.",
    "lop3.or": "Each bit of d is looked up in the table immLut by the bits of a, b and c; "
    "p = (d != 0) or q.",
    "shf.l": "Shifts the 64 bits of b and a left by c, clamped to 32 or wrapped at 32, and keeps "
    "the high 32 bits.",
    "shf.r": "Shifts the 64 bits of b and a right by c, clamped to 32 or wrapped at 32, and keeps "
    "the low 32 bits.",
    "shl": "Shifts a left by b; amounts greater than the register width N are clamped to N.",
    "shr": "Shifts a right by b; amounts greater than the register width N are clamped to N. "
    "Signed shifts fill with the sign bit, others with 0.",
    "mov": "d = a.",
    "prmt": "d is four bytes picked from the eight of a and b by c; without a mode the high bit of "
    "a selection replicates the sign of its byte.",
    "cvt": "Converts a value from one type to another.",
    "cvt.pack": "Converts two integers to a narrower type, with saturation, and packs them.",
    "shfl": "d is a register of another lane of the warp.",
    "vote.sync.all": "True if the predicate is true in all lanes of membermask.",
    "vote.sync.any": "True if the predicate is true in any lane of membermask.",
    "vote.sync.uni": "True if the predicate is the same in all lanes of membermask.",
    "vote.sync.ballot": "Bit i of d is the predicate of lane i.",
    "match.any": "d is a mask of the lanes that have the same value of a.",
    "match.all": "d is membermask if all lanes have the same value of a, and 0 otherwise.",
    "redux": "d is the reduction of a over all lanes of membermask.",
    "vadd": f"Addition {_SIMD}.",
    "vsub": f"Subtraction {_SIMD}.",
    "vavrg": f"Average, rounded away from zero, {_SIMD}.",
    "vabsdiff": f"Absolute value of the difference {_SIMD}.",
    "vmin": f"Minimum {_SIMD}.",
    "vmax": f"Maximum {_SIMD}.",
    "vset": f"Comparison, 1 or 0, {_SIMD}.",
}
"""By the first words of an opcode, of which the longest counts; {part} is a half or a byte."""

_CLAMPED = (
    ".sat clamps the result to [0.0, 1.0]; NaN becomes +0.0."  # 9.7.3.3, and 9.7.9.21 of .sat
)
_LIMITED = ".sat limits the result to the least and greatest number of its type."
MODIFIERS: Mapping[str, str] = {
    "ftz": ".ftz flushes subnormal inputs and results to zero, whose sign is kept.",
    "NaN": ".NaN: if an input is NaN, the result is the canonical NaN.",
    "xorsign": ".xorsign.abs takes the larger or smaller of the absolute values; its sign is the "
    "XOR of those of both inputs.",
    "relu": ".relu clamps negative results to 0.",
    "satfinite": ".satfinite clamps what is too large to the greatest finite number; NaN stays "
    "NaN.",
    "rna": ".rna rounds to nearest, of two away from zero.",
    "rz": ".rz rounds toward zero.",
    "rm": ".rm rounds toward negative infinity.",
    "rp": ".rp rounds toward positive infinity.",
    "rni": ".rni rounds to the nearest integer, to the even one of two.",
    "rzi": ".rzi rounds to an integer toward zero.",
    "rmi": ".rmi rounds to an integer toward negative infinity.",
    "rpi": ".rpi rounds to an integer toward positive infinity.",
}
"""What further words of an opcode add."""


def sentence_of(opcode: str, *, clamped: bool) -> str:
    """Return what the ISA says; `clamped`: .sat clamps a float, else it limits an integer."""
    words = opcode.split(".")
    family, part = words[0], ""
    if family[0] == "v" and family[-1] in "24":
        part = {"2": "half", "4": "byte"}[family[-1]]
        words[0] = family[:-1]
    ends = range(len(words), 0, -1)
    said = next(SAYS[key] for key in (".".join(words[:end]) for end in ends) if key in SAYS)
    more = [MODIFIERS[word] for word in words if word in MODIFIERS]
    if "sat" in words[1:] and "pack" not in words:
        more.append(_CLAMPED if clamped else _LIMITED)
    return " ".join((said.format(part=part), *more))


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

        "" of moves, selections, what takes bits, and of `.xorsign.abs`, which gives the other
        source the sign of one that is NaN (9.7.3.12).
        """
        fmt = self.opcode.rpartition(".")[2]
        signs = ".xorsign." in self.opcode and ".NaN." not in self.opcode
        computes = self.family in _ARITHMETIC and not signs
        return fmt if computes and fmt in NAN_FORMATS else ""

    @property
    def says(self) -> str:
        """What the section of the ISA says that it does."""
        return sentence_of(self.opcode, clamped=self.result_type.startswith(("f", "bf")))

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
    opcode: str, section: str, destinations: str, sources: str,
    evaluate: Callable[..., tuple[Bits, ...]], since: Since = FIRST, **more: Any,
) -> ScalarInstruction:  # fmt: skip
    """Return an instruction, its classes of registers in a text "b32 b32 pred"; `more` by name."""
    version, target = since
    return ScalarInstruction(
        opcode=opcode, section=section, destinations=tuple(destinations.split()),
        sources=tuple(sources.split()), evaluate=evaluate, version=PtxVersion(*version),
        target=target, **more,
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


def single(function: Function, *bound: Any) -> Callable[..., tuple[Bits, ...]]:
    """Return what evaluates a function of one result, given its first arguments."""
    return lambda *sources: (function(*bound, *sources),)


def pieces(function: Function, bits: int, *bound: Any) -> Callable[..., tuple[Bits, ...]]:
    """Return what evaluates a function on the 8- or 16-bit pieces of 32-bit registers.

    The function gets arrays of uint8 or uint16 (..., 32 * pieces), the lowest piece of each
    register first, and returns one such array.
    """

    def evaluate(*sources: Bits) -> tuple[Bits, ...]:
        taken = [np.ascontiguousarray(source).view(f"u{bits // 8}") for source in sources]
        return (function(*bound, *taken).view(np.uint32),)

    return evaluate
