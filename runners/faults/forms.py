"""What the rewriters have to know about wmma's forms: sizes of matrices, default strides, words.

Source: PTX ISA 9.7.14.4.2 (Matrix Storage for WMMA).
"""

import re
from dataclasses import dataclass

_BITS = {"f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16}
_BITS |= {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


@dataclass(frozen=True, kw_only=True)
class Access:
    """The matrix that a wmma.load or wmma.store moves."""

    bits: int
    """Of one element."""
    default_stride: int
    """Elements."""

    @property
    def nudge(self) -> int:
        """Smallest number of elements, at least 1, that fills whole 32-bit words or one element.

        For 16-bit elements it is 1: the hardware measured runs odd strides of them.
        """
        return 1 if self.bits >= 16 else 32 // self.bits

    @property
    def step(self) -> int:
        """Bytes of the smallest move of an address that the hardware does not trap on."""
        return max(4, self.bits // 8)


def access_of(opcode: str) -> Access:
    """Return what an opcode of wmma.load or wmma.store moves."""
    words = opcode.split(".")
    shape = _SHAPE.search(opcode)
    if shape is None:
        raise ValueError(f"{opcode} has no shape")
    m, n, k = (int(number) for number in shape.groups())
    rows, columns = {"a": (m, k), "b": (k, n)}.get(words[2], (m, n))
    return Access(
        bits=_BITS[words[-1]],
        default_stride=columns if "row" in words else rows,
    )


def flipped(opcode: str, index: int = 0) -> str:
    """Return an opcode with its layout of this index turned round, counting from the left."""
    words = opcode.split(".")
    places = [i for i, word in enumerate(words) if word in ("row", "col")]
    words[places[index]] = "col" if words[places[index]] == "row" else "row"
    return ".".join(words)
