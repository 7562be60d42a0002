"""Whether a device and the oracle agree on every scalar instruction, over random and edge operands.

One kernel a row (eight where it has constants): load operands, one instruction, store the results.
With --guarded the instruction has a predicate that half of the lanes have, and others keep the old;
with --numbers its operands of 32 and 64 bits come from an instruction of floats that keeps bits.
Prints a line for each row that differs, with the first operands for which it does, or cannot be
run, and one JSON object with counts: of rows, of lanes compared, of lanes that differ where PTX
defines the result, and of those where it leaves it open (bits of NaNs, `defined`). Ends with 1 if a
defined result differs. Usage:

    python benchmarks/scalar_agreement.py [--runner sim|cuda] [--count LANES] [--only PATTERN]
        [--guarded] [--numbers] [--assembler PTXAS] [--level 0|1|2|3] [--jobs N] [--seed N]
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import multiprocessing
import sys
import time
from collections import Counter
from pathlib import Path

_TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [
    str(Path(__file__).parents[1]),
    str(_TESTS / "oracle" / "scalar"),
    str(_TESTS / "runners" / "conformance"),
]

from scalar_kernels import Answer, answers, cases  # noqa: E402

from oracle.scalar import SCALARS  # noqa: E402
from runners.cuda.compilation import PtxasCompiler  # noqa: E402
from runners.cuda.runner import CudaRunner  # noqa: E402
from runners.protocol import Runner  # noqa: E402
from runners.simulated_runner import SimulatedRunner  # noqa: E402

_PER_MODULE = 48
"""Rows of one module: one start of ptxas serves them all."""


def runner_of(given: argparse.Namespace) -> Runner:
    """Return the device that was asked for."""
    if given.runner == "sim":
        return SimulatedRunner("sm_90")
    if given.assembler is None:
        return CudaRunner()
    return CudaRunner(compiler=PtxasCompiler(given.assembler, level=given.level), deadline=60.0)


def part(given: argparse.Namespace, which: int) -> tuple[Counter[str], list[str]]:
    """Compare every `jobs`-th row from number `which` on."""
    counts: Counter[str] = Counter()
    lines: list[str] = []
    rows = [row for row in SCALARS.values() if fnmatch.fnmatch(row.opcode, given.only)]
    rows = rows[which :: given.jobs]
    with runner_of(given) as runner:
        for first in range(0, len(rows), _PER_MODULE):
            some = cases(
                rows[first : first + _PER_MODULE], given.seed, guarded=given.guarded,
                numbers=given.numbers,
            )  # fmt: skip
            if not some:
                continue
            kernels = Counter(case.row.opcode for case in some)
            warps = max(1, given.count // 32 // max(kernels.values()))
            differing: set[str] = set()
            for single in (True, False):
                batch = [case for case in some if (kernels[case.row.opcode] == 1) == single]
                for case, answer in zip(
                    batch,
                    answers(runner, batch, given.count // 32 if single else warps, given.seed),
                    strict=True,
                ) if batch else ():  # fmt: skip
                    name = f"{case.row.opcode} {case.constants if not single else ''}"
                    counts["kernels"] += 1
                    if not isinstance(answer, Answer):
                        counts["not run"] += 1
                        lines.append(f"{name}: not run: {answer.line}")
                        continue
                    counts["lanes"] += answer.compared
                    counts["wrong"] += answer.wrong
                    counts["open"] += answer.elsewhere
                    if answer.wrong or answer.elsewhere:
                        differing.add(case.row.opcode)
                        lines.append(
                            f"{name}: {answer.wrong} wrong, {answer.elsewhere} open, of "
                            f"{answer.compared}; {answer.example}"
                        )
            counts["rows"] += len(rows[first : first + _PER_MODULE])
            counts["rows that differ"] += len(differing)
    return counts, lines


def main() -> int:
    """Compare all rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runner", choices=("sim", "cuda"), default="sim")
    parser.add_argument("--count", type=int, default=10_000, help="lanes of each row")
    parser.add_argument("--only", default="*", help="opcodes, such as 'cvt.*'")
    parser.add_argument("--guarded", action="store_true", help="under a predicate of each lane")
    parser.add_argument("--numbers", action="store_true", help="operands that were floats")
    parser.add_argument("--assembler", type=Path, help="a ptxas; without it the driver compiles")
    parser.add_argument("--level", type=int, default=0, help="its -O level")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with every N-th row")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start = time.perf_counter()
    total: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        work = [(given, which) for which in range(given.jobs)]
        for counts, lines in pool.starmap(part, work, chunksize=1):
            total += counts
            print("\n".join(lines), end="\n" if lines else "", flush=True)
    figures = {key: total[key] for key in ("rows", "kernels", "lanes", "wrong", "open", "not run")}
    figures["rows that differ"] = total["rows that differ"]
    print(json.dumps(figures | {"seconds": round(time.perf_counter() - start, 1)}))
    return 1 if total["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
