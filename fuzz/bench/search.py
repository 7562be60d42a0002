"""How soon planted faults are found: the search of one seed, and the medians of many seeds.

A search runs a campaign's rounds on a device with each fault.
"""

from __future__ import annotations

import difflib
import re
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from math import inf
from typing import NamedTuple

from fuzz.bench import Report, run_all
from oracle.errors import InfrastructureError, UsageError
from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS, is_available
from oracle.isa.targets import Module, parse_target, parse_version
from oracle.program.program import different
from runners.emission import emit
from runners.faults import CATALOGUE, Fault, FaultPlace, by_name
from runners.faults.statements import statements
from runners.kernels import LANES, KernelModule
from runners.protocol import Images
from runners.simulated import LoadedModule, SimulatedDevice, SimulatedTrap, TrapKind
from strategies.contents import Recipe, ValueClass, expand
from strategies.coverage import Batch
from strategies.programs import is_valued
from strategies.rounds import Speed, campaign_rounds


class Contents(StrEnum):
    """Where the values come from; the programs are the same."""

    WARPFUZZ = "warpfuzz"  # the recipes of a campaign
    UNIFORM = "uniform"
    """Uniform random bits; of floating-point numbers only finite ones, as in section 5 of the
    measured facts: with others, NaN would hide most results of f16."""
    NORMAL = "normal"
    """Normally distributed numbers of variance 1; of integers, small ones."""


_CLASSES = {Contents.UNIFORM: ValueClass.BITS, Contents.NORMAL: ValueClass.NORMAL}


def filled(contents: Contents, batch: Batch, count: int) -> Images:
    """Return the first images of a batch, uint8 (count, image_bytes)."""
    if contents is Contents.WARPFUZZ:
        return batch.images(count)
    recipe: Recipe = replace(batch.recipe, classes=(_CLASSES[contents],))
    return expand(recipe, batch.program, count)


_NARROWED = {
    "f32": r"^wmma\.mma.*\d\.f32\.f32$",
    "f16": r"^wmma\.mma.*\d\.f16\.f16$",
    "bf16": r"^wmma\.mma.*\.bf16\.f32$",
}


def _narrowed(name: str, suffix: str, meaning: str) -> Fault:
    """Return a fault of the simulated device that touches only some of its instructions."""
    fault, opcodes = by_name(name), re.compile(_NARROWED[suffix])
    assert fault.damage is not None
    damage = replace(fault.damage, opcodes=opcodes)
    name = f"{name}/{suffix}"
    return replace(fault, name=name, meaning=meaning, opcodes=opcodes, damage=damage)


# The table of section 5 of the project's measured facts: 20,000 dot products each, f16 inputs and
# f32 results, and below it what it says of f16 results and of bf16.
_MEASURED = (
    ("alignment-one-bit-more", "f32", "F + 1, f16 inputs, f32 result"),
    ("block-halved", "f32", "L / 2, f16 inputs, f32 result"),
    ("product-normalised-first", "f32", "product normalised first, f16 inputs, f32 result"),
    ("subnormals-flushed-in-a", "f32", "subnormal inputs flushed, f16 inputs, f32 result"),
    ("sum-rounded-to-nearest", "f32", "nearest-even at the end, f16 inputs, f32 result"),
    ("alignment-one-bit-more", "f16", "F + 1, f16 result"),
    ("block-halved", "f16", "L / 2, f16 result"),
    ("zero-exponent-higher", "f16", "e_zero + 1, f16 result"),
    ("zero-exponent-higher", "bf16", "e_zero + 1, bf16 inputs"),
)
MEASURED_ROWS: tuple[Fault, ...] = tuple(_narrowed(*row) for row in _MEASURED)
_BY_NAME = {fault.name: fault for fault in (*CATALOGUE, *MEASURED_ROWS)}


@dataclass(frozen=True)
class PlantedSubject:
    """A fault that a campaign should find. It goes to other processes by its name."""

    name: str
    unobservable: str = ""  # why no program can show it; empty where one can

    @property
    def fault(self) -> Fault:
        """The fault itself."""
        return _BY_NAME[self.name]

    @property
    def is_measured_row(self) -> bool:
        """Whether it is a single row of what was measured, and not in the catalogue itself."""
        return self.fault not in CATALOGUE


def chosen(pattern: str, *, target: str, version: str) -> tuple[PlantedSubject, ...]:
    """Return what a pattern selects, in the order of the catalogue.

    It is a shell pattern over names of faults; a bare word may stand anywhere.
    """
    wanted = pattern if any(c in pattern for c in "*?[") else f"*{pattern}*"
    names = [name for name in _BY_NAME if fnmatchcase(name, wanted)]
    if not names:
        close = difflib.get_close_matches(pattern, _BY_NAME, n=5, cutoff=0.4)
        hint = f"did you mean {', '.join(close)}?" if close else "docs/bench.md lists all names"
        raise UsageError(f"no planted fault has a name like {pattern!r}; {hint}")
    return tuple(
        PlantedSubject(name, unobservable(_BY_NAME[name], target=target, version=version))
        for name in names
    )


@cache
def _drawn(target: str, version: str) -> tuple[Form, ...]:
    module = Module(parse_target(target), parse_version(version))
    return tuple(
        form
        for form in FORMS
        if is_available(form, module) and (not form.is_main or is_valued(form, module))
    )


def unobservable(fault: Fault, *, target: str, version: str) -> str:
    """Return why no program for a target can show a fault; "" where one can."""
    if fault.rare:
        return "too rare for a campaign; screening (`warpfuzz screen SET`) looks for it"
    if any(fault.opcodes.search(form.opcode) for form in _drawn(target, version)):
        return ""
    if any(fault.opcodes.search(form.opcode) for form in FORMS):
        return (
            f"{target} with PTX ISA {version} has none of the instructions that it changes, or how "
            "they compute there is not known"
        )
    # It touches what surrounds the forms: copies, branches, element-wise operations.
    return ""


class Emitted:
    """A module of one kernel, with the opcodes that every mutant asks for, read once."""

    def __init__(self, module: KernelModule) -> None:
        self.module = module
        self.opcodes = frozenset(one.opcode for one in statements(module.ptx))

    def has(self, pattern: re.Pattern[str]) -> bool:
        """Whether the pattern finds something in an opcode."""
        return any(pattern.search(opcode) for opcode in self.opcodes)


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
        if fault is not None and not emitted.has(fault.opcodes):
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
            results, _ = module.launch(kernel.entry, images, threads=LANES * kernel.warps_per_block)
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
    subjects: tuple[PlantedSubject, ...]
    columns: tuple[Contents, ...]
    limit: int  # most images that a seed draws
    baseline_limit: int  # most that are also filled with baseline contents, which find little

    def limit_of(self, contents: Contents) -> int:
        """Return the most images of one column; only the first is not a baseline."""
        return self.limit if contents is self.columns[0] else self.baseline_limit


class FaultSeen(NamedTuple):
    """How soon a fault was seen."""

    cases: int
    """Images drawn until then, those of programs that the fault does not touch included."""
    seconds: float
    """Time of one core until then: drawing programs, and of those that the fault touches images,
    oracle and this device."""


Seen = dict[tuple[Contents, str], FaultSeen]
"""By contents and name of the fault; what is not here was not seen within the limit."""


def search(task: tuple[BenchPlan, int]) -> tuple[int, Seen]:
    """Run the rounds of a campaign of a seed until every fault is seen or the limit is reached.

    Programs, images and what the oracle makes of them are the same for all faults, and are made
    once; a fault that is seen is not run again. Returns the images drawn, over all columns, too.
    """
    searching, (plan, seed) = _SeedSearch(*task), task
    rounds = campaign_rounds(
        plan.forms, target=plan.target, version=plan.version, seed=seed, speed=Speed.INTERPRETED
    )
    while True:
        begun = time.perf_counter()
        batches = next(rounds)
        searching.shared += time.perf_counter() - begun
        for batch in batches:
            searching.batch(batch)
            if not any(map(searching.goes_on, plan.columns)):
                return searching.cases, searching.seen


class _SeedSearch:
    def __init__(self, plan: BenchPlan, seed: int) -> None:
        self._plan, self._seed = plan, seed
        layout = seed % LAYOUTS
        self._sound = Mutant(None, target=plan.target, layout=layout)
        self._mutants = {
            subject.name: Mutant(subject.fault, target=plan.target, layout=layout)
            for subject in plan.subjects
            if not subject.unobservable
        }
        self._left = {column: set(self._mutants) for column in plan.columns}
        self._drawn = 0
        """Images of each column so far."""
        self.shared = 0.0
        """Seconds that went into programs."""
        self._own = {(column, name): 0.0 for column in plan.columns for name in self._mutants}
        """Seconds that went into one device, and into images and oracle while it was looked at."""
        self.cases, self.seen = 0, Seen()

    def goes_on(self, column: Contents) -> bool:
        return bool(self._left[column]) and self._drawn < self._plan.limit_of(column)

    def batch(self, batch: Batch) -> None:
        """Run the images of one program on the devices whose fault was not seen yet."""
        begun = time.perf_counter()
        plan = self._plan
        named = Module.named(plan.target, plan.version)
        emitted = Emitted(emit(batch.program, module=named, entry=batch.entry))
        self.shared += time.perf_counter() - begun
        loaded: dict[str, LoadedModule | SimulatedTrap] = {}
        for column in filter(self.goes_on, plan.columns):
            count = min(batch.count, plan.limit_of(column) - self._drawn)
            self.cases += count
            touched = self._touched(column, emitted, loaded)
            if not touched:
                # Nothing can show, so that nobody has to know what the images hold.
                continue
            begun = time.perf_counter()
            images = filled(column, batch, count)
            expected = execute(batch.program, images, target=plan.target).images
            self._check(batch, emitted, images, expected)
            filling = time.perf_counter() - begun
            for name in touched:
                begun = time.perf_counter()
                first = self._mutants[name].first_wrong(loaded[name], emitted, images, expected)
                self._own[column, name] += filling + time.perf_counter() - begun
                if first is not None:
                    self._left[column].remove(name)
                    seconds = self.shared + self._own[column, name]
                    self.seen[column, name] = FaultSeen(self._drawn + first + 1, seconds)
        self._drawn += batch.count

    def _touched(
        self, column: Contents, emitted: Emitted, loaded: dict[str, LoadedModule | SimulatedTrap]
    ) -> list[str]:
        """Return the faults to be seen that touch a module, and load it for them."""
        touched = []
        for name in sorted(self._left[column]):
            begun = time.perf_counter()
            if name not in loaded:
                module = self._mutants[name].load(emitted)
                if module is None:
                    continue
                loaded[name] = module
            touched.append(name)
            self._own[column, name] += time.perf_counter() - begun
        return touched

    def _check(self, batch: Batch, emitted: Emitted, images: Images, expected: Images) -> None:
        """Make sure that the sound device does what the oracle says."""
        sound = self._sound.load(emitted)
        assert sound is not None  # that is for what a fault does not touch
        if self._sound.first_wrong(sound, emitted, images, expected) is not None:
            raise InfrastructureError(
                "the simulated device without a fault and the oracle disagree on a program of "
                f"{batch.about} (seed {self._seed}); run a campaign with this seed to see "
                f"where, and mend that first"
            )


class SeedFigures(NamedTuple):
    """How one sort of contents did on one fault."""

    found_in: int  # seeds that saw the fault
    seeds: int  # seeds that looked for it
    cases: int | None
    """Median of the images drawn until the fault was seen; None if half of the seeds or more did
    not see it."""
    seconds: float | None
    """Median of the seconds until then, on one core; None as for `cases`."""


@dataclass(frozen=True)
class Measurement:
    """What a bench measured."""

    rows: Sequence[tuple[PlantedSubject, Mapping[Contents, SeedFigures]]]
    """Each fault, and how each sort of contents did."""
    cases: int  # images drawn by all seeds, over all columns
    seconds: float  # wall time

    def median(self, contents: Contents) -> int | None:
        """Return the median, over the observable faults of the catalogue, of their cases.

        None if half of them or more were not found.
        """
        median = _median(
            columns[contents].cases
            for subject, columns in self.rows
            if not subject.unobservable and not subject.is_measured_row
        )
        return None if median is None else round(median)

    def missed(self, contents: Contents) -> list[str]:
        """Return the names of the observable faults that most seeds did not see."""
        observable = [row for row in self.rows if not row[0].unobservable]
        return [subject.name for subject, row in observable if row[contents].cases is None]


def _median(values: Iterable[float | None]) -> float | None:
    """Return the median, where values that are not there are infinite."""
    told = [inf if value is None else value for value in values] or [inf]
    median = statistics.median(told)
    return None if median == inf else median


def measure(plan: BenchPlan, seeds: Sequence[int], *, jobs: int, report: Report) -> Measurement:
    """Search with every seed, some of them at the same time."""
    begun = time.perf_counter()
    results = run_all(search, [(plan, seed) for seed in seeds], jobs=jobs, report=report)

    def column(contents: Contents, name: str) -> SeedFigures:
        found = [seen.get((contents, name)) for _, seen in results]
        cases = _median(one and one.cases for one in found)
        seconds = _median(one and one.seconds for one in found)
        count = sum(one is not None for one in found)
        return SeedFigures(
            count, len(found), cases if cases is None else round(cases),
            seconds if seconds is None else round(seconds, 3),
        )  # fmt: skip

    rows = [(one, {of: column(of, one.name) for of in plan.columns}) for one in plan.subjects]
    return Measurement(rows, sum(cases for cases, _ in results), time.perf_counter() - begun)
