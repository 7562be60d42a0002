"""Programs a second and core through ptxas: many kernels in a process against one in each.

The programs are the simplest of every documented multiplication and ldmatrix of the target: load,
multiply, store. The rate is per second of processor time of the assemblers, the best of several
turns, because other work on the same core takes its share of caches and units; the ratio of the
last column is that of one process for each program.

    python benchmarks/compile_speed.py [--assembler PATH] [--levels 0,3] [--programs N] [--turns N]
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time
from collections.abc import Sequence

from fuzz.compilers.members import survey_programs
from oracle.isa.targets import DEFAULT_TARGET, DEFAULT_VERSION, Module
from oracle.program.program import Program
from runners.compilers import find_assembler, parse_levels
from runners.cuda.compilation import PtxasCompiler
from runners.emission import emit_all
from runners.protocol import Failure
from strategies.draws import Selection
from strategies.rounds import selected_forms

_PER_PROCESS = (1, 8, 32, 128, 256)
_ALONE = 32
"""Programs of the slow way: enough for a rate."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assembler", help="path or version")
    parser.add_argument("--levels", default="0,3")
    parser.add_argument("--programs", type=int, default=512)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    assembler = find_assembler(options.assembler)
    programs = _programs(options.programs)
    print(f"{assembler.version}, {DEFAULT_TARGET}, {len(programs)} programs of one instruction")
    print(
        f"{'level':>5} {'a process':>9} {'programs':>8} {'per core':>12} {'wall':>12} {'ratio':>7}"
    )
    for level in parse_levels(options.levels):
        alone = None
        for count in _PER_PROCESS:
            some = programs[:_ALONE] if count == 1 else programs
            turns = [
                _rate(PtxasCompiler(assembler.path, level=level), some, count)
                for _ in range(1 if count == 1 else options.turns)
            ]
            rate, wall = max(turns)
            alone = alone or rate
            print(
                f"{level:>5} {count:>9} {len(some):>8} {rate:>10,.0f}/s {wall:>10,.0f}/s "
                f"{rate / alone:>6.1f}x",
                flush=True,
            )


def _programs(count: int) -> Sequence[Program]:
    """Return the simplest programs of all forms, again from the first if more are wanted."""
    forms = selected_forms(Selection(), target=DEFAULT_TARGET, version=DEFAULT_VERSION)
    survey = survey_programs(forms, target=DEFAULT_TARGET, version=DEFAULT_VERSION, seed=0)
    simplest = [
        program
        for form, program in survey
        if form.mnemonic == "ldmatrix" or not any(one.space == "shared" for one in program.buffers)
    ]
    return list(itertools.islice(itertools.cycle(simplest), count))


def _rate(
    compiler: PtxasCompiler, programs: Sequence[Program], per_process: int
) -> tuple[float, float]:
    """Return programs per second of the assemblers' processor time, and of wall time."""
    modules = [
        emit_all(
            {f"k{index}": program for index, program in enumerate(some)},
            module=Module.named(DEFAULT_TARGET, DEFAULT_VERSION),
        )
        for first in range(0, len(programs), per_process)
        for some in (programs[first : first + per_process],)
    ]
    compiler.compile(modules[0], DEFAULT_TARGET)  # the binary is read into memory
    timed = PtxasCompiler(compiler.path, level=compiler.level)  # that one remembers its cubins
    begun, before = time.perf_counter(), _seconds()
    for module in modules:
        made = timed.compile(module, DEFAULT_TARGET)
        if isinstance(made, Failure):
            raise SystemExit(f"{made}\n{made.detail}")
    return len(programs) / (_seconds() - before), len(programs) / (time.perf_counter() - begun)


def _seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
