"""What a scalar instruction does: each sentence says what the PTX ISA 9.0 says in its section.

A row has the section (`ScalarInstruction.section`).
"""

from __future__ import annotations

from collections.abc import Mapping

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
