"""How soon planted faults are found: the search of one seed, and the medians of many seeds.

A search runs a campaign's rounds on a device with each fault.
"""

from __future__ import annotations

import difflib
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache

from fuzz.bench import Report, Stopping, run_all
from oracle.errors import InfrastructureError, UsageError
from oracle.execution import execute
from oracle.forms import Form
from oracle.image import different
from oracle.isa import FORMS, is_available
from oracle.targets import Module, parse_target, parse_version
from runners.emission import emit
from runners.faults import CATALOGUE, Fault, Place, by_name
from runners.faults.statements import statements
from runners.kernels import LANES, KernelModule
from runners.protocol import Images
from runners.simulated import Module as LoadedModule
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from strategies.contents import Recipe, ValueClass, expand
from strategies.coverage import Batch
from strategies.programs import is_valued
from strategies.rounds import Speed, campaign_rounds


class Contents(StrEnum):
    """Where the values come from; the programs are the same."""

    WARPFUZZ = "warpfuzz"
    """The recipes of a campaign."""
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


def _narrowed(name: str, suffix: str, pattern: str, meaning: str) -> Fault:
    """Return a fault of the catalogue that touches only some of its instructions."""
    fault = by_name(name)
    if fault.damage is None:
        raise UsageError(
            f"fault {name} rewrites PTX text; only faults of the simulated device can be narrowed"
        )
    opcodes = re.compile(pattern)
    return replace(
        fault,
        name=f"{name}/{suffix}",
        meaning=meaning,
        opcodes=opcodes,
        damage=replace(fault.damage, opcodes=opcodes),
    )


_F16_TO_F32 = r"^wmma\.mma.*\d\.f32\.f32$"
_F16_TO_F16 = r"^wmma\.mma.*\d\.f16\.f16$"
_BF16 = r"^wmma\.mma.*\.bf16\.f32$"

# The table of section 5 of the project's measured facts: 20,000 dot products each, f16 inputs and
# f32 results, and below it what it says of f16 results and of bf16.
MEASURED_ROWS: tuple[Fault, ...] = (
    _narrowed("alignment-one-bit-more", "f32", _F16_TO_F32, "F + 1, f16 inputs, f32 result"),
    _narrowed("block-halved", "f32", _F16_TO_F32, "L / 2, f16 inputs, f32 result"),
    _narrowed(
        "product-normalised-first", "f32", _F16_TO_F32,
        "product normalised first, f16 inputs, f32 result",
    ),
    _narrowed(
        "subnormals-flushed-in-a", "f32", _F16_TO_F32,
        "subnormal inputs flushed, f16 inputs, f32 result",
    ),
    _narrowed(
        "sum-rounded-to-nearest", "f32", _F16_TO_F32,
        "nearest-even at the end, f16 inputs, f32 result",
    ),
    _narrowed("alignment-one-bit-more", "f16", _F16_TO_F16, "F + 1, f16 result"),
    _narrowed("block-halved", "f16", _F16_TO_F16, "L / 2, f16 result"),
    _narrowed("zero-exponent-higher", "f16", _F16_TO_F16, "e_zero + 1, f16 result"),
    _narrowed("zero-exponent-higher", "bf16", _BF16, "e_zero + 1, bf16 inputs"),
)  # fmt: skip


_BY_NAME = {fault.name: fault for fault in (*CATALOGUE, *MEASURED_ROWS)}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A fault that a campaign should find. It goes to other processes by its name."""

    name: str
    unobservable: str = ""
    """Why no program can show it; empty where one can."""

    @property
    def fault(self) -> Fault:
        """The fault itself."""
        return _BY_NAME[self.name]

    @property
    def is_measured_row(self) -> bool:
        """Whether it is a single row of what was measured, and not in the catalogue itself."""
        return self.fault not in CATALOGUE


def chosen(pattern: str, *, target: str, version: str) -> tuple[Subject, ...]:
    """Return what a pattern selects, in the order of the catalogue.

    It is a shell pattern over names of faults; a bare word may stand anywhere.
    """
    wanted = pattern if any(c in pattern for c in "*?[") else f"*{pattern}*"
    faults = [fault for name, fault in _BY_NAME.items() if fnmatchcase(name, wanted)]
    if not faults:
        close = difflib.get_close_matches(pattern, _BY_NAME, n=5, cutoff=0.4)
        hint = f"did you mean {', '.join(close)}?" if close else "docs/bench.md lists all names"
        raise UsageError(f"no planted fault has a name like {pattern!r}; {hint}")
    return tuple(
        Subject(name=fault.name, unobservable=unobservable(fault, target=target, version=version))
        for fault in faults
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


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """A module of one kernel, with what every mutant asks of its text."""

    module: KernelModule
    opcodes: frozenset[str]
    """Opcodes of the module's instructions."""

    @classmethod
    def of(cls, module: KernelModule) -> Emitted:
        """Read the opcodes once for all mutants."""
        return cls(module=module, opcodes=frozenset(s.opcode for s in statements(module.ptx)))

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
        faults = [fault] if fault is not None and fault.place is Place.DEVICE else []
        self._device = SimulatedDevice(target, layout_seed=layout, faults=faults)

    def load(self, emitted: Emitted) -> LoadedModule | SimulatedTrap | None:
        """Load a module as the fault leaves it; None if the fault touches nothing in it."""
        fault, ptx = self._fault, emitted.module.ptx
        if fault is not None and not emitted.has(fault.opcodes):
            return None
        if fault is not None and fault.place is Place.PTX:
            ptx = fault.rewrite(ptx)
            if ptx == emitted.module.ptx:
                return None
        try:
            return self._device.load(ptx)
        except SimulatedTrap as trap:
            return _checked(trap)

    def first_wrong(
        self,
        module: LoadedModule | SimulatedTrap,
        emitted: Emitted,
        images: Images,
        expected: Images,
    ) -> int | None:
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
class Plan:
    """What every seed searches for, and how long."""

    forms: tuple[Form, ...]
    target: str
    version: str
    subjects: tuple[Subject, ...]
    columns: tuple[Contents, ...]
    limit: int
    """Most images that a seed draws."""
    baseline_limit: int
    """Most images that are also filled with the baseline contents, which find little."""

    def limit_of(self, contents: Contents) -> int:
        """Return the most images of one column; only the first is not a baseline."""
        return self.limit if contents is self.columns[0] else self.baseline_limit


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """How soon a fault was seen."""

    cases: int
    """Images drawn until then, those of programs that the fault does not touch included."""
    seconds: float
    """Time of one core until then: drawing programs, and of those that the fault touches images,
    oracle and this device."""


@dataclass(kw_only=True)
class SearchResult:
    """What one seed saw."""

    cases: int = 0
    """Images drawn, over all columns."""
    seen: dict[tuple[Contents, str], Sighting] = field(default_factory=dict)
    """By contents and name of the fault; what is not here was not seen within the limit."""


def search(task: tuple[Plan, int], report: Report, stopping: Stopping) -> SearchResult:
    """Run a campaign's rounds until every fault is seen or the limit is reached.

    Programs, images and what the oracle makes of them are the same for all faults, and are made
    once; a fault that is seen is not run again.
    """
    return _Search(*task, report).run(stopping)


class _Search:
    def __init__(self, plan: Plan, seed: int, report: Report) -> None:
        self._plan, self._seed, self._report = plan, seed, report
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
        self._shared = 0.0
        """Seconds that went into programs."""
        self._result = SearchResult()
        self._own = {(column, name): 0.0 for column in plan.columns for name in self._mutants}
        """Seconds that went into one device, and into images and oracle while it was looked at."""

    def run(self, stopping: Stopping) -> SearchResult:
        plan = self._plan
        rounds = campaign_rounds(
            plan.forms, target=plan.target, version=plan.version, seed=self._seed,
            speed=Speed.INTERPRETED,
        )  # fmt: skip
        while True:
            begun = time.perf_counter()
            batches = next(rounds)
            self._shared += time.perf_counter() - begun
            for batch in batches:
                self._batch(batch)
                if stopping() or not any(map(self._goes_on, plan.columns)):
                    return self._result

    def _goes_on(self, column: Contents) -> bool:
        return bool(self._left[column]) and self._drawn < self._plan.limit_of(column)

    def _batch(self, batch: Batch) -> None:
        """Run the images of one program on the devices whose fault was not seen yet."""
        begun = time.perf_counter()
        plan = self._plan
        module = emit(
            batch.program, module=Module.named(plan.target, plan.version), entry=batch.entry
        )
        emitted = Emitted.of(module)
        self._shared += time.perf_counter() - begun
        loaded: dict[str, LoadedModule | SimulatedTrap] = {}
        for column in filter(self._goes_on, plan.columns):
            count = min(batch.count, plan.limit_of(column) - self._drawn)
            self._result.cases += count
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
                    self._report(1)
                    self._result.seen[column, name] = Sighting(
                        cases=self._drawn + first + 1,
                        seconds=self._shared + self._own[column, name],
                    )
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
        if sound is None or isinstance(sound, SimulatedTrap):
            raise InfrastructureError(
                "the simulated device without a fault refuses a program of "
                f"{batch.about} ({sound}); nothing can be measured with it"
            )
        if self._sound.first_wrong(sound, emitted, images, expected) is not None:
            raise InfrastructureError(
                "the simulated device without a fault and the oracle disagree on a program of "
                f"{batch.about} (seed {self._seed}); run a campaign with this seed to see "
                f"where, and mend that first"
            )


def _median(values: Sequence[float], count: int) -> float | None:
    """Return the median of so many values, of which those that are not there are infinite."""
    unseen = [float("inf")] * (count - len(values))
    median = statistics.median([*values, *unseen]) if count else float("inf")
    return None if median == float("inf") else median


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one sort of contents did on one fault."""

    sightings: tuple[Sighting, ...]
    """One for each seed that saw the fault."""
    seeds: int
    """How many seeds looked for it."""

    @property
    def cases(self) -> int | None:
        """Median of the images drawn until the fault was seen.

        None if half of the seeds or more did not see it.
        """
        median = _median([one.cases for one in self.sightings], self.seeds)
        return None if median is None else round(median)

    @property
    def seconds(self) -> float | None:
        """Median of the seconds until then, on one core; None as for `cases`."""
        return _median([one.seconds for one in self.sightings], self.seeds)

    @property
    def found(self) -> bool:
        """Whether most seeds saw the fault within the limit."""
        return self.cases is not None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One fault, and how each sort of contents did."""

    subject: Subject
    columns: Mapping[Contents, Column]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a bench measured."""

    rows: tuple[Row, ...]
    cases: int
    """Images drawn by all seeds, over all columns."""
    seconds: float
    """Wall time."""

    def median(self, contents: Contents) -> int | None:
        """Return the median, over the observable faults of the catalogue, of their cases.

        None if half of them or more were not found.
        """
        rows = [one for one in self.rows if not one.subject.unobservable]
        cases = [one.columns[contents].cases for one in rows if not one.subject.is_measured_row]
        median = _median([one for one in cases if one is not None], len(cases))
        return None if median is None else round(median)

    def missed(self, contents: Contents) -> list[str]:
        """Return the names of the observable faults that were not found."""
        return [
            row.subject.name
            for row in self.rows
            if not row.subject.unobservable and not row.columns[contents].found
        ]


def measure(plan: Plan, seeds: Sequence[int], *, jobs: int, report: Report) -> Measurement:
    """Search with every seed, some of them at the same time."""
    begun = time.perf_counter()
    results = run_all(search, [(plan, seed) for seed in seeds], jobs=jobs, report=report)
    rows = []
    for subject in plan.subjects:
        seen = {
            contents: [result.seen.get((contents, subject.name)) for result in results]
            for contents in plan.columns
        }
        columns = {
            contents: Column(
                sightings=tuple(one for one in found if one is not None), seeds=len(results)
            )
            for contents, found in seen.items()
        }
        rows.append(Row(subject=subject, columns=columns))
    return Measurement(
        rows=tuple(rows),
        cases=sum(result.cases for result in results),
        seconds=time.perf_counter() - begun,
    )
