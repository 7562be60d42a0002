"""Broken compilers that the repository has no planted fault for: PTX in, other PTX out.

They are written as somebody would who knows the text only, and share nothing with
`runners.faults`. Usage, as a pass of a campaign:

    warpfuzz run --runner sim --ptx-pass 'python tests/meta/passes/foreign_passes.py NAME'
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Pass:
    """A pass, and what it breaks."""

    rewrite: Callable[[str], str]
    guilty: tuple[str, ...]
    """What a line has to name: one of these."""


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


def constant_loops_shortened(text: str) -> str:
    """Take one turn from every loop with a constant count of two or more."""
    return re.sub(
        r"mov\.b32 (%r\d+), (\d+);(?=\nLOOP)",
        lambda match: (
            f"mov.b32 {match[1]}, {max(1, int(match[2]) - 1)};" if match[2] != "0" else match[0]
        ),
        text,
    )


def stride_one_more(match: re.Match[str]) -> str:
    """Make an immediate stride one element longer."""
    return f"{match[1]}{int(match[2]) + 1};"


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
PASSES = {
    "store-d-last-registers-exchanged": Pass(
        rewrite=each(rf"^ *wmma\.store\S+ \[[^]]*\], {VECTOR}", swapped), guilty=("wmma.store",)
    ),
    "load-c-last-registers-exchanged": Pass(
        rewrite=each(rf"^ *wmma\.load\.c\S+ {VECTOR}", swapped), guilty=("wmma.load.c",)
    ),
    "load-c-immediate-stride-longer": Pass(
        rewrite=each(
            r"^( *wmma\.load\.c\S+(?:f32|s32) \{[^}]*\}, \[[^]]*\], )(\d+);", stride_one_more
        ),
        guilty=("wmma.load.c",),
    ),
    "load-a-half-row-as-col": Pass(
        rewrite=each(r"^ *wmma\.load\.a\S*\.row\.m16n16k16\S*\.f16 ", said(".row.", ".col.")),
        guilty=("wmma.load.a",),
    ),
    "load-a-first-register-lost": Pass(
        rewrite=each(r"^ *wmma\.load\.a\S*(?<!f64) \{?(%\w+)[^;]*;", followed(r"mov.b32 \1, 0;")),
        guilty=("wmma.load.a",),
    ),
    "load-b-byte-sign-lost": Pass(
        rewrite=each(
            r"^ *wmma\.load\.b\S*\.s8 \{(%\w+)[^;]*;", followed(r"and.b32 \1, \1, 0x7f7f7f7f;")
        ),
        guilty=("wmma.load.b",),
    ),
    "store-square-column-as-row": Pass(
        rewrite=each(r"^ *wmma\.store\S*\.col\.m16n16k16\S* ", said(".col.", ".row.")),
        guilty=("wmma.store",),
    ),
    "mma-double-rounds-up": Pass(
        rewrite=each(r"^ *wmma\.mma\S*\.(?:rn|rz)\.f64", lambda m: m[0][:-6] + "rp.f64"),
        guilty=("wmma.mma",),
    ),
    "mma-last-result-lost": Pass(
        rewrite=each(
            r"^ *wmma\.mma\S*(?<!f64) \{[^}]*?(%\w+)\}[^;]*;", followed(r"mov.b32 \1, 0;")
        ),
        guilty=("wmma.mma",),
    ),
    "mma-eight-bit-saturates": Pass(
        rewrite=each(
            r"^ *wmma\.mma\S*\.s32\.[su]8\.[su]8\.s32 ", lambda m: m[0].rstrip() + ".satfinite "
        ),
        guilty=("wmma.mma",),
    ),
    "mma-sync-b-registers-exchanged": Pass(
        rewrite=each(rf"^ *mma\.sync\S+ \{{[^}}]*\}}, \{{[^}}]*\}}, {VECTOR}", swapped),
        guilty=("mma.sync",),
    ),
    "mma-sync-satfinite-lost": Pass(
        rewrite=each(r"^ *mma\.sync\S*\.satfinite", said(".satfinite", "")), guilty=("mma.sync",)
    ),
    "ldmatrix-four-one-row-on": Pass(
        rewrite=each(r"^ *ldmatrix\S*\.x4\S* \{[^}]*\}, \[(?P<address>[^]]*)\]", displaced(16)),
        guilty=("ldmatrix",),
    ),
    "stmatrix-pairs-exchanged": Pass(
        rewrite=each(rf"^ *stmatrix\S*\.x[24]\S* \[[^]]*\], {VECTOR}", swapped),
        guilty=("stmatrix",),
    ),
    "movmatrix-negates": Pass(
        rewrite=each(r"^ *movmatrix\S* (%\w+), [^;]*;", followed(r"not.b32 \1, \1;")),
        guilty=("movmatrix",),
    ),
    "load-vector-ends-exchanged": Pass(
        rewrite=each(rf"^ *(?:@%p\d+ )?ld\.\S*v4\S* {VECTOR}", swapped),
        guilty=("loading registers",),
    ),
    "pack-truncates": Pass(
        rewrite=each(r"^ *cvt\.rn\.\w+x2\.f32", said(".rn.", ".rz.")), guilty=("packing",)
    ),
    "negation-dropped": Pass(
        rewrite=each(
            r"^( *)xor\.b(\d+) (%\w+), (%\w+), %\w+;",
            lambda m: f"{m[1]}mov.b{m[2]} {m[3]}, {m[4]};",
        ),
        guilty=("element-wise operation",),
    ),
    "elementwise-step-taken-twice": Pass(
        rewrite=each(
            r"^ *(?:add|mul)\.(?:rn\.f\w+|s32|lo\.s32) (%\w+_\d+), [^,]*, ([^;]*);",
            lambda m: m[0] + "\n    " + re.sub(r", %\w+,", f", {m[1]},", m[0].strip(), count=1),
        ),
        guilty=("element-wise operation",),
    ),
    "constant-loop-one-turn-less": Pass(
        rewrite=constant_loops_shortened, guilty=("branch or loop",)
    ),
    "rest-of-copy-one-short": Pass(
        rewrite=each(
            r"setp\.lt\.u32 (%p\d+), %lane, (\d+);",
            lambda m: f"setp.lt.u32 {m[1]}, %lane, {int(m[2]) - 1};",
        ),
        guilty=("copy",),
    ),
    "displacement-lost": Pass(
        rewrite=each(r"^ *(?:@%p\d+ )?ld\.[^;]*\+512\]", said("+512]", "]")), guilty=("copy",)
    ),
    "mma-adds-to-what-was-there": Pass(
        rewrite=each(
            r"^( *wmma\.mma\S* )(\{[^}]*\})(, \{[^}]*\}, \{[^}]*\}, )(\{[^}]*\})",
            lambda m: f"{m[1]}{m[2]}{m[3]}{m[2]}" if of_one_size(m[2], m[4]) else m[0],
        ),
        guilty=("wmma.mma",),
    ),
    "ldmatrix-pair-not-transposed": Pass(
        rewrite=each(r"^ *ldmatrix\S*m8n8\.x2\.trans", said(".trans", "")), guilty=("ldmatrix",)
    ),
    "third-multiplication-broken": Pass(
        rewrite=third_multiplication_broken, guilty=("wmma.mma", "mma.sync")
    ),
    "else-taken-as-well": Pass(
        rewrite=each(r"^ *bra DONE\w*;\n(?=ELSE)", lambda m: ""), guilty=("branch or loop",)
    ),
}
"""By name."""


def main() -> None:
    """Rewrite standard input as the pass of a name does."""
    sys.stdout.write(PASSES[sys.argv[1]].rewrite(sys.stdin.read()))


if __name__ == "__main__":
    main()
