"""Broken compilers that the repository has no planted fault for: PTX in, other PTX out.

They are written as somebody would who knows the text only, and share nothing with
`runners.faults`. Usage, as a pass of a campaign:

    warpfuzz run --runner sim --ptx-pass 'python tests/meta/passes/foreign_passes.py NAME'
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable


def each(pattern: str, change: Callable[[re.Match[str]], str]) -> Callable[[str], str]:
    """Return a pass that changes whatever a pattern finds in a line."""
    return lambda text: re.sub(pattern, change, text, flags=re.MULTILINE)


def swapped(match: re.Match[str]) -> str:
    """Exchange the last two registers of the vector that the pattern calls "vector"."""
    registers = match["vector"].split(", ")
    if len(registers) < 2:
        return match[0]
    *first, one, other = registers
    return match[0].replace(match["vector"], ", ".join([*first, other, one]))


def said(old: str, new: str) -> Callable[[re.Match[str]], str]:
    """Say something else in one place of what is found."""
    return lambda match: match[0].replace(old, new, 1)


def followed(line: str) -> Callable[[re.Match[str]], str]:
    """Append a line, with the groups of the match put in."""
    return lambda match: f"{match[0]}\n    {match.expand(line)}"


def displaced(bytes_: int) -> Callable[[re.Match[str]], str]:
    """Add bytes to the address in brackets that the pattern calls "address"."""

    def change(match: re.Match[str]) -> str:
        base, _, offset = match["address"].partition("+")
        moved = f"{base}+{int(offset or 0) + bytes_}"
        return match[0].replace(f"[{match['address']}]", f"[{moved}]")

    return change


def of_one_size(one: str, other: str) -> bool:
    """Whether two vectors have as many registers."""
    return one.count(",") == other.count(",")


def third_multiplication_broken(text: str) -> str:
    """Exchange the last two results of the third multiplication of a kernel, and of later ones."""
    kernels = []
    for kernel in re.split(r"(?=\.visible \.entry)", text):
        pieces = re.split(r"^(?= *(?:wmma\.mma|mma\.sync))", kernel, flags=re.MULTILINE)
        broken = [re.sub(rf"(?<=\S ){VECTOR}", swapped, piece, count=1) for piece in pieces[3:]]
        kernels.append("".join([*pieces[:3], *broken]))
    return "".join(kernels)


VECTOR = r"\{(?P<vector>[^{}]*)\}"
PASSES: dict[str, tuple[Callable[[str], str], tuple[str, ...]]] = {
    "store-d-last-registers-exchanged": (
        each(rf"^ *wmma\.store\S+ \[[^]]*\], {VECTOR}", swapped), ("wmma.store",)),
    "load-c-last-registers-exchanged": (
        each(rf"^ *wmma\.load\.c\S+ {VECTOR}", swapped), ("wmma.load.c",)),
    "load-c-immediate-stride-longer": (
        each(r"^( *wmma\.load\.c\S+(?:f32|s32) \{[^}]*\}, \[[^]]*\], )(\d+);",
             lambda m: f"{m[1]}{int(m[2]) + 1};"), ("wmma.load.c",)),
    "load-a-half-row-as-col": (
        each(r"^ *wmma\.load\.a\S*\.row\.m16n16k16\S*\.f16 ", said(".row.", ".col.")),
        ("wmma.load.a",)),
    "load-a-first-register-lost": (
        each(r"^ *wmma\.load\.a\S*(?<!f64) \{?(%\w+)[^;]*;", followed(r"mov.b32 \1, 0;")),
        ("wmma.load.a",)),
    "load-b-byte-sign-lost": (
        each(r"^ *wmma\.load\.b\S*\.s8 \{(%\w+)[^;]*;", followed(r"and.b32 \1, \1, 0x7f7f7f7f;")),
        ("wmma.load.b",)),
    "store-square-column-as-row": (
        each(r"^ *wmma\.store\S*\.col\.m16n16k16\S* ", said(".col.", ".row.")), ("wmma.store",)),
    "mma-double-rounds-up": (
        each(r"^ *wmma\.mma\S*\.(?:rn|rz)\.f64", lambda m: m[0][:-6] + "rp.f64"), ("wmma.mma",)),
    "mma-last-result-lost": (
        each(r"^ *wmma\.mma\S*(?<!f64) \{[^}]*?(%\w+)\}[^;]*;", followed(r"mov.b32 \1, 0;")),
        ("wmma.mma",)),
    "mma-eight-bit-saturates": (
        each(r"^ *wmma\.mma\S*\.s32\.[su]8\.[su]8\.s32 ",
             lambda m: m[0].rstrip() + ".satfinite "), ("wmma.mma",)),
    "mma-sync-b-registers-exchanged": (
        each(rf"^ *mma\.sync\S+ \{{[^}}]*\}}, \{{[^}}]*\}}, {VECTOR}", swapped), ("mma.sync",)),
    "mma-sync-satfinite-lost": (
        each(r"^ *mma\.sync\S*\.satfinite", said(".satfinite", "")), ("mma.sync",)),
    "ldmatrix-four-one-row-on": (
        each(r"^ *ldmatrix\S*\.x4\S* \{[^}]*\}, \[(?P<address>[^]]*)\]", displaced(16)),
        ("ldmatrix",)),
    "stmatrix-pairs-exchanged": (
        each(rf"^ *stmatrix\S*\.x[24]\S* \[[^]]*\], {VECTOR}", swapped), ("stmatrix",)),
    "movmatrix-negates": (
        each(r"^ *movmatrix\S* (%\w+), [^;]*;", followed(r"not.b32 \1, \1;")), ("movmatrix",)),
    "load-vector-ends-exchanged": (
        each(rf"^ *(?:@%p\d+ )?ld\.\S*v4\S* {VECTOR}", swapped), ("loading registers",)),
    "pack-truncates": (each(r"^ *cvt\.rn\.\w+x2\.f32", said(".rn.", ".rz.")), ("packing",)),
    "negation-dropped": (
        each(r"^( *)xor\.b(\d+) (%\w+), (%\w+), %\w+;",
             lambda m: f"{m[1]}mov.b{m[2]} {m[3]}, {m[4]};"), ("element-wise operation",)),
    "elementwise-step-taken-twice": (
        each(r"^ *(?:add|mul)\.(?:rn\.f\w+|s32|lo\.s32) (%\w+_\d+), [^,]*, ([^;]*);",
             lambda m: m[0] + "\n    " + re.sub(r", %\w+,", f", {m[1]},", m[0].strip(), count=1)),
        ("element-wise operation",)),
    "constant-loop-one-turn-less": (
        each(r"mov\.b32 (%r\d+), ([1-9]\d*);(?=\nLOOP)",
             lambda m: f"mov.b32 {m[1]}, {max(1, int(m[2]) - 1)};"), ("branch or loop",)),
    "rest-of-copy-one-short": (
        each(r"setp\.lt\.u32 (%p\d+), %lane, (\d+);",
             lambda m: f"setp.lt.u32 {m[1]}, %lane, {int(m[2]) - 1};"), ("copy",)),
    "displacement-lost": (
        each(r"^ *(?:@%p\d+ )?ld\.[^;]*\+512\]", said("+512]", "]")), ("copy",)),
    "mma-adds-to-what-was-there": (
        each(r"^( *wmma\.mma\S* )(\{[^}]*\})(, \{[^}]*\}, \{[^}]*\}, )(\{[^}]*\})",
             lambda m: f"{m[1]}{m[2]}{m[3]}{m[2]}" if of_one_size(m[2], m[4]) else m[0]),
        ("wmma.mma",)),
    "ldmatrix-pair-not-transposed": (
        each(r"^ *ldmatrix\S*m8n8\.x2\.trans", said(".trans", "")), ("ldmatrix",)),
    "third-multiplication-broken": (third_multiplication_broken, ("wmma.mma", "mma.sync")),
    "else-taken-as-well": (
        each(r"^ *bra DONE\w*;\n(?=ELSE)", lambda m: ""), ("branch or loop",)),
}  # fmt: skip
"""What each breaks, and what a line has to name: one of these."""


def main() -> None:
    """Rewrite standard input as the pass of a name does."""
    sys.stdout.write(PASSES[sys.argv[1]][0](sys.stdin.read()))


if __name__ == "__main__":
    main()
