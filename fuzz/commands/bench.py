"""`warpfuzz bench`: how soon planted faults are found, and what drawn programs reach."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fuzz.bench import Contents, Plan, campaigns_of, chosen, measure, measure_reach
from fuzz.bench.pooling import Watcher
from fuzz.commands.bench_reach import emit_reach, missing, print_reach
from fuzz.commands.bench_tables import emit_measurement, print_measurement
from fuzz.instruction_rounds import Selection
from fuzz.output import console
from fuzz.runner_choice import version_for
from fuzz.value_rounds import selected_forms
from oracle.errors import UsageError

TARGET = "sm_100a"
"""Target of the bench where none is given: it has every form that is multiplied or read by
ldmatrix (9.7.14.5.15, Target ISA Notes), so that every fault can show."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Options of `warpfuzz bench`."""

    only: str
    seed: int
    """The first; those after it are the other seeds."""
    seeds: int
    limit: int
    """Most images that a seed draws."""
    baseline_limit: int
    """The same for baselines."""
    coverage: bool
    """Whether programs are only drawn."""
    programs: int
    """How many then."""
    jobs: int | None
    """Processes; None: as many as there are cores."""
    contents: tuple[str, ...]
    """Columns; empty: all."""
    target: str | None
    """None: TARGET."""
    ptx_version: str | None
    """None: the first that knows the target, or DEFAULT_VERSION if that is later."""
    json: bool

    @property
    def module(self) -> tuple[str, str]:
        """Target and PTX ISA version of the modules."""
        target = self.target or TARGET
        return target, version_for(self.ptx_version, target)


_OF_FAULTS = ("only", "seeds", "limit", "baseline_limit", "contents")
"""What only the search for planted faults goes by."""


def check_options(given: Collection[str]) -> None:
    """Raise UsageError if options were given of which one would do nothing beside another."""
    if "coverage" not in given:
        if "programs" in given:
            raise UsageError("--programs is how many --coverage draws; add --coverage, or leave it")
        return
    idle = [name for name in _OF_FAULTS if name in given]
    if idle:
        raise UsageError(
            f"--{idle[0].replace('_', '-')} is about planted faults, and --coverage plants none; "
            "leave one of the two out"
        )


def run_bench(request: Request) -> bool:
    """Measure and print; tell whether an observable fault was not found, or nothing reached.

    Raises
    ------
    UsageError
        If no fault is selected, or the target cannot be simulated.
    InfrastructureError
        If the sound device disagrees with the oracle.
    """
    return _coverage(request) if request.coverage else _faults(request)


def _faults(request: Request) -> bool:
    target, version = request.module
    plan = Plan(
        forms=selected_forms(Selection(), target=target, version=version),
        target=target,
        version=version,
        subjects=chosen(request.only, target=target, version=version),
        columns=tuple(one for one in Contents if one in request.contents) or tuple(Contents),
        limit=request.limit,
        baseline_limit=min(request.limit, request.baseline_limit),
    )
    seeds = [(request.seed + index) % 2**64 for index in range(request.seeds)]
    searches = sum(1 for one in plan.subjects if not one.unobservable) * len(plan.columns)
    with _watched("searches", [searches] * len(seeds), json=request.json) as watcher:
        measured = measure(plan, seeds, jobs=request.jobs or _cores(), watcher=watcher)
    show = emit_measurement if request.json else print_measurement
    show(measured, plan, seed=request.seed, seeds=request.seeds)
    return bool(measured.missed(plan.columns[0]))


def _coverage(request: Request) -> bool:
    begun = time.perf_counter()
    target, version = request.module
    campaigns = campaigns_of(
        selected_forms(Selection(), target=target, version=version),
        target=target,
        version=version,
        seed=request.seed,
        programs=request.programs,
    )
    sizes = [campaign.programs for campaign in campaigns]
    with _watched("programs", sizes, json=request.json) as watcher:
        reached = measure_reach(campaigns, jobs=request.jobs or _cores(), watcher=watcher)
    show = emit_reach if request.json else print_reach
    seconds = time.perf_counter() - begun
    show(reached, seed=request.seed, programs=request.programs, seconds=seconds)
    return bool(missing(reached))


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@contextmanager
def _watched(what: str, sizes: Sequence[int], *, json: bool) -> Iterator[Watcher]:
    """Show a bar, where a person watches.

    Parameters
    ----------
    what
        Is counted.
    sizes
        How much of it each task has.
    """
    out = console(stderr=True)
    if json or not out.is_terminal:
        yield lambda number, done, left: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    remaining = list(sizes)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        shown = progress.add_task(what, total=sum(sizes))

        def watch(number: int, done: int, left: int) -> None:
            remaining[number] = left
            progress.update(shown, completed=sum(sizes) - sum(remaining))

        yield watch
