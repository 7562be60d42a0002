"""Which rows in shared memory a GPU loads: by type, layout, stride operand and optimisation level.

The page asks for rows that are multiples of the fragment's size (PTX ISA 9.7.14.4.2). This
prints, for every variant of wmma.mma with fragments below 16 bytes, whether a program whose rows
in shared memory are aligned so and no better runs, gives the oracle's image, or traps.

    python benchmarks/shared_alignment.py [--levels 0 1 2 3]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from oracle.isa.targets import Module

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "runners" / "conformance"))

from single_multiplies import VARIANTS, Access, contents, program

from oracle.execution.execution import execute
from runners.cuda.compilation import DriverCompiler
from runners.cuda.runner import CudaRunner
from runners.emission import emit
from runners.protocol import Compiled, Failure


def outcome(runner: CudaRunner, number: int, access: Access) -> str:
    """Return what became of one variant."""
    form = VARIANTS[number]
    made = program(form, access)
    compiled = runner.compile(emit(made, module=Module.named("sm_80", "7.8"), entry="aligned"))
    if not isinstance(compiled, Compiled):
        return f"not compiled: {compiled}"
    _, images = contents(form, access, 4, seed=1)
    ran = runner.run(compiled, images, entry="aligned")
    if isinstance(ran, Failure):
        return ran.detail.rpartition(": ")[2]
    expected = execute(made, images, target=compiled.architecture).images
    return "equal" if np.array_equal(ran.images, expected) else "DIFFERENT"


def main() -> None:
    """Print one JSON object for each level, space and stride operand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--levels", type=int, nargs="+", default=[0, 1, 2, 3])
    for level in parser.parse_args().levels:
        with CudaRunner(compiler=DriverCompiler(level=level)) as runner:
            for space in ("shared", "generic shared"):
                for stride in ("immediate", "register"):
                    access = Access(
                        space=space, stride=stride, padding=1, offset=1, page_alignment=True
                    )
                    counts: Counter[str] = Counter()
                    forms: dict[str, list[str]] = {}
                    for number, form in enumerate(VARIANTS):
                        if min(form.matrix(name).fragment_bytes for name in "ab") >= 16:
                            continue
                        if form.satfinite or form.rounding:
                            continue
                        result = outcome(runner, number, access)
                        counts[result] += 1
                        forms.setdefault(result, []).append(form.opcode)
                    row = {"level": level, "space": space, "stride": stride, "counts": counts}
                    print(json.dumps({**row, "forms": forms}), flush=True)


if __name__ == "__main__":
    main()
