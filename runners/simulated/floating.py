"""The element-wise floating-point instructions that a fragment's registers may go through.

Source: PTX ISA 9.7.3 (f32, f64), 9.7.4 (half precision, with bf16). Without `.ftz` and `.sat`:
subnormals count. A NaN result is canonical but for f64, which passes payloads on.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.binary import NAMED, Rounding
from runners.simulated.fused import NanRule, multiply_add
from runners.simulated.operands import Operands
from runners.simulated.silicon import Silicon
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.warps import Mask, Operation, Values, Warps

_TYPE = r"(?P<type>f64|f32|f16x2|bf16x2)"
ARITHMETIC = re.compile(rf"(?P<name>add|sub|mul|fma)(?:\.(?P<rounding>rn|rz|rm|rp))?\.{_TYPE}")
SIGN = re.compile(rf"(?P<name>neg|abs)\.{_TYPE}")

_ONE = {"f64": 0x3FF0_0000_0000_0000, "f32": 0x3F80_0000, "f16": 0x3C00, "bf16": 0x3F80}

# Canonical NaN: PTX ISA 9.7.3 gives 0x7fffffff for f32 and 9.7.4 gives 0x7fff for the halves; f64
# as measured for wmma.mma on an H200.
_NAN = {
    "f64": NanRule(canonical=None, invalid=0xFFF8_0000_0000_0000),
    "f32": NanRule(canonical=0x7FFF_FFFF, invalid=0x7FFF_FFFF),
    "f16": NanRule(canonical=0x7FFF, invalid=0x7FFF),
    "bf16": NanRule(canonical=0x7FFF, invalid=0x7FFF),
}

# Target ISA Notes of each instruction in 9.7.4.
_ARCHITECTURE = {("fma", "bf16x2"): 80, ("neg", "bf16x2"): 80, ("abs", "bf16x2"): 80}
_ARCHITECTURE |= {(name, "bf16x2"): 90 for name in ("add", "sub", "mul")}


def _nan_kept(words: NDArray[Any], changed: NDArray[Any], element: str) -> NDArray[Any]:
    """Return the changed words, but for NaN the NaN that the format gives."""
    binary, rule = NAMED[element], _NAN[element]
    dtype = words.dtype.type
    quiet = words | dtype(1 << (binary.fraction - 1))
    nan = (words & dtype(binary.sign - 1)) > dtype(binary.infinity)
    return np.where(nan, quiet if rule.canonical is None else dtype(rule.canonical), changed)


def _negated(words: NDArray[Any], element: str) -> NDArray[Any]:
    return _nan_kept(words, words ^ words.dtype.type(NAMED[element].sign), element)


def _without_sign(words: NDArray[Any], element: str) -> NDArray[Any]:
    return _nan_kept(words, words & words.dtype.type(NAMED[element].sign - 1), element)


def _compute(name: str, element: str, rounding: Rounding, words: list[Values]) -> NDArray[Any]:
    binary = NAMED[element]
    dtype = words[0].dtype.type
    if name == "fma":
        a, b, c = words
    elif name == "mul":
        a, b = words
        # A zero of the product's own sign leaves every product as it is, zeros too.
        c = (a ^ b) & dtype(binary.sign)
    else:
        a, c = words
        b = np.full((1, 1), _ONE[element], words[0].dtype)
        if name == "sub":
            c = _negated(c, element)
    return multiply_add(a, b, c, binary, rounding, _NAN[element]).astype(words[0].dtype)


def _by_halves(
    words: list[Values], compute: Callable[[list[Values]], NDArray[Any]]
) -> NDArray[Any]:
    """Apply a computation to the low and the high 16 bits of 32-bit words."""
    low = compute([word.astype(np.uint16) for word in words])
    high = compute([(word >> np.uint32(16)).astype(np.uint16) for word in words])
    return low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))


def _check_target(operands: Operands, silicon: Silicon, name: str, kind: str) -> None:
    needed = _ARCHITECTURE.get((name, kind), 0)
    if silicon.target.architecture < needed:
        refuse(
            TrapKind.ILLEGAL,
            operands.line,
            f"{operands.instruction.opcode} needs sm_{needed}; the module is for "
            f"{silicon.target.name}",
        )


def arithmetic(operands: Operands, silicon: Silicon, match: re.Match[str]) -> Operation:
    """Decode add, sub, mul and fma."""
    name, kind = match["name"], match["type"]
    element = kind.removesuffix("x2")
    packed = kind.endswith("x2")
    rounding = Rounding(match["rounding"] or "rn")
    if (packed and rounding is not Rounding.NEAREST_EVEN) or (
        name == "fma" and match["rounding"] is None
    ):
        operands.unsupported("this rounding does not exist")
    _check_target(operands, silicon, name, kind)
    bits = 32 if packed else NAMED[element].word
    target, *given = operands.expect(4 if name == "fma" else 3)
    register = operands.destination(target, bits)
    sources = [operands.source(each, bits) for each in given]

    def compute(words: list[Values]) -> NDArray[Any]:
        return _compute(name, element, rounding, words)

    def run(warps: Warps, mask: Mask) -> None:
        words = [source(warps) for source in sources]
        warps.write(register, _by_halves(words, compute) if packed else compute(words), mask)

    return run


def sign(operands: Operands, silicon: Silicon, match: re.Match[str]) -> Operation:
    """Decode neg and abs.

    Measured on an H200 (November 2026): a NaN becomes canonical, but in f64, where it becomes
    quiet and keeps its sign.
    """
    name, kind = match["name"], match["type"]
    _check_target(operands, silicon, name, kind)
    bits = 64 if kind == "f64" else 32
    target, given = operands.expect(2)
    register = operands.destination(target, bits)
    source = operands.source(given, bits)
    element = kind.removesuffix("x2")

    def compute(words: list[Values]) -> NDArray[Any]:
        (word,) = words
        return _without_sign(word, element) if name == "abs" else _negated(word, element)

    def run(warps: Warps, mask: Mask) -> None:
        words = [source(warps)]
        whole = _by_halves(words, compute) if kind != element else compute(words)
        warps.write(register, whole, mask)

    return run
