"""Drawn programs through every version and level of a front end, on the simulated device.

    python benchmarks/front_end_programs.py llvm:14,llvm:15,llvm:20,llvm:22 --programs 1000

A row for each front end and level: programs, those of them whose PTX no member before had, those
that come out otherwise than the oracle says, by kind, what is unsupported, and seconds of the
front end's process. 8 images of each program. A rate is of the programs of all members together, by
the time of this process and its children; it holds for one core that nothing else uses.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np
import psutil

from fuzz.compilers.members import BuildMatrix, Member, failed_in, fitting, members_of, placed
from fuzz.findings.families import under_a_condition
from fuzz.runner import RunnerChoice, kind_of_failure
from oracle.execution.execution import execute
from oracle.isa.targets import Module
from runners.compilers import find_front_ends, front_ends_selected, parse_levels
from runners.emission import emit, emit_all
from runners.protocol import Failure, Trouble
from strategies.contents import expand
from strategies.draws import Selection
from strategies.rounds import round_batches, round_key, selected_forms

IMAGES = 8


def outcome(result: object, expected: np.ndarray) -> str:
    """Return what became of a program, in a word or two: "" where it is right."""
    if isinstance(result, Failure):
        if result.trouble is Trouble.UNSUPPORTED:
            return "unsupported"
        if result.trouble is Trouble.DIVERGENCE:
            return f"divergence ({under_a_condition(result).split()[0]})"
        return str(kind_of_failure(result))
    return "" if np.array_equal(result.images, expected) else "wrong"


def main() -> None:
    """Print the table, and what is not right with the round and place of each program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("front_ends", nargs="+")
    parser.add_argument("--levels", default="0,1,2,3")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--ptx-version", default="7.1")
    parser.add_argument("--only", default="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    module = Module.named(given.target, given.ptx_version)
    forms = selected_forms(
        Selection(pattern=given.only), target=given.target, version=given.ptx_version
    )
    selected = front_ends_selected(find_front_ends(given.front_ends))
    members = members_of(selected, parse_levels(given.levels))
    choice = RunnerChoice(name="sim", target=given.target, ptx_version=given.ptx_version)
    said: dict[Member, Counter[str]] = {}
    different: Counter[Member] = Counter()
    compiling: Counter[Member] = Counter()
    done = number = 0
    with placed(choice) as place:
        fit = fitting(members, place).members
        said = {member: Counter() for member in fit}
        with BuildMatrix(place.device, fit, jobs=1) as matrix:
            for member in fit:
                matrix.build(_first(given, forms, module), members=[member])
            started, before = time.monotonic(), _processor()
            while done < given.programs and time.monotonic() - started < given.seconds:
                batches = list(round_batches(
                    forms, target=given.target, version=given.ptx_version,
                    key=round_key(given.seed, number), count=IMAGES,
                ))  # fmt: skip
                programs = {batch.entry: batch.program for batch in batches}
                whole, built = emit_all(programs, module=module), {}
                for member in fit:
                    begin = time.monotonic()
                    (built[member],) = matrix.build(whole, members=[member])
                    compiling[member] += time.monotonic() - begin
                for batch in batches:
                    made = {}
                    for member in fit:
                        one = built[member]
                        if failed_in(one):
                            alone = emit(batch.program, module=module, entry=batch.entry)
                            (one,) = matrix.build(alone, members=[member])
                        made |= one.made
                    images = expand(batch.recipe, batch.program, IMAGES)
                    expected = execute(batch.program, images, target=given.target).images
                    for member, failure in made.items():
                        if isinstance(failure, Failure):
                            what = outcome(failure, expected)
                            said[member][what] += 1
                            print(f"round {number}, {batch.entry}: {what}: {member.name}")
                    whose = type(one)(module=whole, made=made)
                    for variant in matrix.variants(whose, batch.entry):
                        result = place.device.run(variant.compiled, images, entry=batch.entry)
                        what = outcome(result, expected)
                        different[variant.members[0]] += 1
                        for member in variant.members:
                            said[member][what] += 1
                        if what:
                            names = " ".join(one.name for one in variant.members)
                            print(f"round {number}, {batch.entry}: {what}: {names}", flush=True)
                    done += 1
                matrix.forget()
                number += 1
            seconds, used = time.monotonic() - started, _processor() - before
    print("\n| front end | programs | PTX that is new | findings | unsupported | compiling, s |")
    print("|---|---|---|---|---|---|")
    for member, counts in said.items():
        unsupported = counts.pop("unsupported", 0)
        found = ", ".join(f"{count} {what}" for what, count in counts.most_common() if what)
        print(
            f"| {member.name} | {done:,} | {different[member]:,} | {found or 'none'} | "
            f"{unsupported} | {compiling[member]:.0f} |"
        )
    print(
        f"\n{done:,} programs by {len(said)} members, {IMAGES} images each, in {seconds:.0f} s "
        f"({used:.0f} s of processor): {done * len(said) / max(used, 1e-9):.1f} a second and core"
    )


def _processor() -> float:
    """Return the seconds of processor time of this process and of the front ends that it runs."""
    own = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (own, *own.children(recursive=True)))


def _first(given: argparse.Namespace, forms: object, module: Module) -> object:
    """Return a module that is compiled before the clock starts: LLVM takes a while to load."""
    (batch, *_) = round_batches(
        forms, target=given.target, version=given.ptx_version, key=0, count=1
    )
    return emit(batch.program, module=module)


if __name__ == "__main__":
    main()
