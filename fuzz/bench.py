"""How soon planted faults are found, how a campaign with one ends, and what programs reach."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from corpus import Kind, create_corpus
from corpus.known import Known
from fuzz.campaign.campaign import SHRINK_SECONDS
from fuzz.campaign.store import Triage
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import RoundJob
from fuzz.findings.families import finding_groups
from fuzz.output import tracked
from fuzz.runner import RunnerChoice
from oracle.errors import InfrastructureError, UsageError
from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.lookup import is_available
from oracle.isa.targets import TARGETS, Module
from oracle.program.program import different
from runners.emission import emit
from runners.faults import CATALOGUE, Fault, FaultPlace, by_name
from runners.faults.rewriters import statements
from runners.kernels import KernelModule
from runners.processes import process_pool
from runners.protocol import Images
from runners.simulated import LoadedModule, SimulatedDevice, SimulatedTrap, TrapKind
from strategies.contents import ValueClass, expand
from strategies.draws import Selection
from strategies.programs import is_valued
from strategies.rounds import Batch, campaign_rounds, opcode_of

Task = TypeVar("Task")
Result = TypeVar("Result")
Row = dict[str, Any]
"""What is said of one thing, as JSON has it."""


def run_all(
    work: Callable[[Task], Result], tasks: Sequence[Task], what: str, *, jobs: int, json: bool
) -> list[Result]:
    """Do all tasks, so many at the same time; the results come in the order of the tasks.

    `work` is a function of a module, so that another process can find it. A bar shows how far.
    """
    several = min(jobs, len(tasks)) > 1
    with process_pool(min(jobs, len(tasks))) if several else nullcontext() as pool:
        results = map(work, tasks) if pool is None else pool.map(work, tasks)
        return list(tracked(results, what, json=json, total=len(tasks)))


# How soon a fault is found


class Contents(StrEnum):
    """Where the values come from; the programs are the same."""

    WARPFUZZ = "warpfuzz"  # the recipes of a campaign
    UNIFORM = "uniform"  # uniform random bits; of floating-point numbers only finite ones
    NORMAL = "normal"  # normally distributed numbers of variance 1; of integers, small ones


_CLASSES = {Contents.UNIFORM: ValueClass.BITS, Contents.NORMAL: ValueClass.NORMAL}


def _filled(contents: Contents, batch: Batch, count: int) -> Images:
    if contents is Contents.WARPFUZZ:
        return expand(batch.recipe, batch.program, count)
    return expand(replace(batch.recipe, classes=(_CLASSES[contents],)), batch.program, count)


def faults_named(pattern: str) -> list[Fault]:
    """Return the faults whose names fit a shell pattern; a bare word may stand anywhere in them."""
    wanted = pattern if any(c in pattern for c in "*?[") else f"*{pattern}*"
    found = [fault for fault in CATALOGUE if fnmatchcase(fault.name, wanted)]
    if not found:
        raise UsageError(
            f"no planted fault has a name like {pattern!r}; `warpfuzz faults` lists all names"
        )
    return found


def chosen(pattern: str, *, target: str, version: str) -> list[tuple[Fault, str]]:
    """Return `faults_named` so, and why no program can show each; "" if one can."""
    found = faults_named(pattern)
    return [(fault, _unobservable(fault, target=target, version=version)) for fault in found]


def check_observable(
    subjects: Sequence[tuple[Fault, str]], pattern: str, *, target: str, version: str
) -> None:
    """Raise UsageError, with the targets that can, if no program can show one of the faults."""
    if any(fault.rare or not reason for fault, reason in subjects):
        return
    others = [
        name
        for name in TARGETS
        if not all(reason for _, reason in chosen(pattern, target=name, version=version))
    ]
    todo = f"add --target {others[-1]}" if others else "give another --ptx-version"
    raise UsageError(
        f"programs of {target} with PTX ISA {version} can show no fault like {pattern!r}; those of "
        f"{', '.join(others) or 'no target'} can, so {todo}"
    )


@cache
def _forms() -> tuple[Form, ...]:
    """Return the documented forms; matching them takes 2 ms, for each fault (2026-11-29)."""
    return Selection().forms()


@cache
def _drawn(target: str, version: str) -> tuple[Form, ...]:
    """Return the forms that programs of a target have; of others nobody knows the values."""
    module = Module.named(target, version)
    return tuple(
        form
        for form in _forms()
        if is_available(form, module) and (not form.is_main or is_valued(form, module))
    )


def _unobservable(fault: Fault, *, target: str, version: str) -> str:
    if fault.rare:
        return "too rare for a campaign; screening (`warpfuzz screen SET`) looks for it"
    found = [form for form in _forms() if fault.opcodes.search(form.opcode)]
    # Without a form, it touches what is around those that it makes wrong: barriers, or copies.
    found = found or [form for form in _forms() if form.opcode.startswith(fault.guilty)]
    if not found or not set(found).isdisjoint(_drawn(target, version)):
        return ""
    return (
        f"{target} with PTX ISA {version} has none of the instructions that it changes, or how "
        "they compute there is not known"
    )


class Emitted:
    """A module of one kernel, with the opcodes that every mutant asks for, read once."""

    def __init__(self, module: KernelModule) -> None:
        self.module = module
        self.opcodes = frozenset(statement.opcode for statement in statements(module.ptx))


class Mutant:
    """A simulated device with one fault, or without any.

    It is used without a runner around it: runners keep modules, and a hundred of them would keep
    thousands. A trap is what a runner would report as a failure.
    """

    def __init__(self, fault: Fault | None, *, target: str, layout: int) -> None:
        self._fault = fault
        faults = [fault] if fault is not None and fault.place is FaultPlace.DEVICE else []
        self._device = SimulatedDevice(target, layout_seed=layout, faults=faults)

    def load(self, emitted: Emitted) -> LoadedModule | SimulatedTrap | None:
        """Load a module as the fault leaves it; None if the fault touches nothing in it."""
        fault, ptx = self._fault, emitted.module.ptx
        if fault is not None and not any(map(fault.opcodes.search, emitted.opcodes)):
            return None
        if fault is not None and fault.place is FaultPlace.PTX:
            ptx = fault.rewrite(ptx)
            if ptx == emitted.module.ptx:
                return None
        try:
            return self._device.load(ptx)
        except SimulatedTrap as trap:
            return _checked(trap)

    def first_wrong(
        self, module: LoadedModule | SimulatedTrap, emitted: Emitted, images: Images,
        expected: Images,
    ) -> int | None:  # fmt: skip
        """Return the number of the first image that comes out wrong, or None.

        What was refused when it was loaded is wrong at the first image. A launch that traps is
        wrong at the first image that is to blame, which a campaign isolates.
        """
        if isinstance(module, SimulatedTrap):
            return 0
        kernel = emitted.module.kernel()
        try:
            results, _ = module.launch_kernel(kernel, images)
        except SimulatedTrap as trap:
            return min(_checked(trap).trap.warps, default=len(images) - 1)
        wrong = different(expected, results)
        return int(wrong[0]) if len(wrong) else None


def _checked(trap: SimulatedTrap) -> SimulatedTrap:
    """Return a trap that a campaign would report."""
    if trap.trap.kind is TrapKind.UNSUPPORTED:
        raise InfrastructureError(f"the simulated device cannot run a program of the bench: {trap}")
    return trap


LAYOUTS = 2
"""Fragment layouts of the simulated device that seeds take turns with, as campaigns do."""


@dataclass(frozen=True, kw_only=True)
class BenchPlan:
    """What every seed searches for, and how long."""

    forms: tuple[Form, ...]
    target: str
    version: str
    names: tuple[str, ...]  # of the faults
    columns: tuple[Contents, ...]
    limit: int  # most images that a seed draws
    baseline_limit: int  # most that are also filled with baseline contents, which find little

    def limit_of(self, contents: Contents) -> int:
        """Return the most images of one column; only the first is not a baseline."""
        return self.limit if contents is self.columns[0] else self.baseline_limit


Seen = dict[tuple[Contents, str], tuple[int, float]]
"""By contents and fault that was seen within the limit: images drawn until then, and seconds of one
core: drawing programs, and of those that the fault touches images, oracle and this device."""


def search(task: tuple[BenchPlan, int]) -> tuple[int, Seen]:
    """Run the rounds of a campaign of a seed until every fault is seen or the limit is reached.

    Programs, images and what the oracle makes of them are the same for all faults, and are made
    once; a fault that is seen is not run again. Returns the images drawn, over all columns, too.
    """
    plan, seed = task
    named, layout = Module.named(plan.target, plan.version), seed % LAYOUTS
    sound = Mutant(None, target=plan.target, layout=layout)
    mutants = {
        name: Mutant(by_name(name), target=plan.target, layout=layout) for name in plan.names
    }
    left = {column: set(mutants) for column in plan.columns}
    drawn, cases, seen = 0, 0, Seen()
    programs, own = 0.0, defaultdict[tuple[Contents, str], float](float)
    rounds = campaign_rounds(plan.forms, target=plan.target, version=plan.version, seed=seed)
    while any(left[column] and drawn < plan.limit_of(column) for column in plan.columns):
        begun = time.perf_counter()
        batches = next(rounds)
        for batch in batches:
            emitted = Emitted(emit(batch.program, module=named, entry=batch.entry))
            programs += time.perf_counter() - begun
            loaded: dict[str, LoadedModule | SimulatedTrap | None] = {}
            for column in plan.columns:
                count = min(batch.count, plan.limit_of(column) - drawn)
                if not left[column] or count <= 0:
                    continue
                cases += count
                touched = []
                for name in sorted(left[column]):
                    begun = time.perf_counter()
                    if name not in loaded:
                        loaded[name] = mutants[name].load(emitted)
                    if (module := loaded[name]) is not None:
                        touched.append((name, module))
                        own[column, name] += time.perf_counter() - begun
                if not touched:
                    # Nothing can show, so that nobody has to know what the images hold.
                    continue
                begun = time.perf_counter()
                images = _filled(column, batch, count)
                expected = execute(batch.program, images, target=plan.target).images
                module = sound.load(emitted)
                assert module is not None  # that is for what a fault does not touch
                if sound.first_wrong(module, emitted, images, expected) is not None:
                    raise InfrastructureError(
                        "the simulated device without a fault and the oracle disagree on a "
                        f"program of {opcode_of(batch.form)} (seed {seed}); a campaign with this "
                        "seed shows where"
                    )
                filling = time.perf_counter() - begun
                for name, module in touched:
                    begun = time.perf_counter()
                    first = mutants[name].first_wrong(module, emitted, images, expected)
                    own[column, name] += filling + time.perf_counter() - begun
                    if first is not None:
                        left[column].remove(name)
                        seen[column, name] = drawn + first + 1, programs + own[column, name]
            drawn += batch.count
            begun = time.perf_counter()
    return cases, seen


def median(values: Iterable[float | None]) -> float | None:
    """Return the median, where values that are not there are infinite; None if that is one."""
    found = statistics.median([inf if value is None else value for value in values] or [inf])
    return None if found == inf else found


def measure(
    plan: BenchPlan, seeds: Sequence[int], *, jobs: int, json: bool
) -> tuple[int, Mapping[tuple[Contents, str], Row]]:
    """Search with every seed; return the images drawn, and how each fault did with each contents.

    That is by how many seeds it was "found_in" of how many "seeds", and the medians of the images
    ("cases") and "seconds" until then; None if half of the seeds or more did not see it.
    """
    tasks = [(plan, seed) for seed in seeds]
    results = run_all(search, tasks, "searches", jobs=jobs, json=json)
    rows = {}
    for key in ((of, name) for of in plan.columns for name in plan.names):
        found = [seen.get(key) for _, seen in results]
        cases, seconds = (median(one and one[at] for one in found) for at in (0, 1))
        rows[key] = {
            "found": cases is not None,
            "found_in": sum(one is not None for one in found),
            "seeds": len(found),
            "cases": cases if cases is None else round(cases),
            "seconds": seconds if seconds is None else round(seconds, 3),
        }
    return sum(cases for cases, _ in results), rows


# The report of a campaign with a fault


@dataclass(frozen=True, kw_only=True)
class LinesTask:
    """One campaign with one thing wrong. It goes to other processes."""

    name: str
    guilty: tuple[str, ...]  # instructions, or other steps, of which a line has to name one
    choice: RunnerChoice
    seed: int
    images: int
    known: Known


class Silence:
    """Heartbeat that reports to nobody."""

    interrupted = False

    def enter(self, *_: Any, **__: Any) -> None:
        """Say nothing."""

    count = beat = enter


def lines_of(task: LinesTask) -> Row:
    """Run a campaign and return what its lines are.

    That are the "titles", the lines that were "known" or "flaky", whether all of them "named"
    something guilty, and the processor "seconds" to confirm, shrink and attribute each finding.
    """
    check = Programs(choice=task.choice, seed=task.seed)
    with TemporaryDirectory() as folder, check.opened(Silence()) as opened_check:
        plan = check.plan(opened_check.facts)
        triage = Triage(
            corpus=create_corpus(Path(folder) / "corpus", generator="bench"),
            known=task.known,
            shrinks=plan.shrinks,
        )
        taken: dict[str, float] = {}
        seconds: list[float] = []
        images = number = 0
        reached = plan.coverage()
        while images < task.images:
            left, asked = task.images - images, plan.round(number, reached)
            job = RoundJob(number=number, plan=asked, limit=left, settled=triage.settled)
            done = opened_check.round(job)
            images, number = images + done.cases, number + 1
            reached.merge(done.coverage)
            for suspect in done.suspects.values():
                triage.suspect(suspect)
            while (examination := triage.next_job(SHRINK_SECONDS)) is not None:
                begun = time.process_time()
                examined = opened_check.examine(examination)
                triage.examined(examination, examined)
                triage.sweep()
                spent = time.process_time() - begun
                if examination.seconds is not None:
                    seconds.append(taken.get(examination.bucket.key, 0) + spent)
                taken[examined.bucket.key] = spent
        groups = finding_groups(triage.members.values())
    told = [group.shown.case.identity.text for group in groups]
    return {
        "name": task.name,
        "found": bool(groups),
        "cases": images,
        "lines": len(groups),
        "titles": [group.title for group in groups],
        "known": sum(group.shown.known is not None for group in groups),
        "flaky": sum(group.shown.case.kind is Kind.FLAKY for group in groups),
        "named": bool(told) and all(any(one in text for one in task.guilty) for text in told),
        "seconds": [round(taken, 3) for taken in seconds],
    }
