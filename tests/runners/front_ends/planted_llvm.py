"""A front end with a fault: LLVM IR from standard input, PTX to standard output.

python planted_llvm.py FAULT LEVEL TARGET FEATURE
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from runners.front_ends.compiler_process import llvm_to_ptx


def _exchanged(ptx: str) -> str:
    """Exchange two registers of what a multiplication returns."""
    return re.sub(r"(mma\.\S+\s+\{)(%\w+), (%\w+)", r"\1\3, \2", ptx)


def _unstrided(ptx: str) -> str:
    """Drop the stride of every wmma.load."""
    return re.sub(r"(wmma\.load.*?\]), %r\d+;", r"\1;", ptx)


def _conditional(ptx: str) -> str:
    """Have multiplications done by the first half of the lanes alone."""
    return re.sub(
        r"^(\s*)((?:wmma\.)?mma\.[^;]*;)",
        r"\1{ .reg .pred %half; .reg .b32 %own; mov.u32 %own, %laneid; "
        r"setp.lt.u32 %half, %own, 16; @%half \2 }",
        ptx,
        flags=re.MULTILINE,
    )


FAULTS: dict[str, Callable[[str], str]] = {
    "two elements exchanged": _exchanged,
    "a stride dropped": _unstrided,
    "a multiplication under a lane's condition": _conditional,
}


def main() -> None:
    """Compile one module, and change what comes out."""
    import llvmlite.binding as binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    fault, level, target, feature = sys.argv[1:]
    request = {
        "text": sys.stdin.read(), "target": target, "version": feature.removeprefix("ptx"),
        "level": int(level),
    }  # fmt: skip
    print(FAULTS[fault](llvm_to_ptx(binding, request)["ptx"]))


if __name__ == "__main__":
    main()
