"""`warpfuzz bench`: how soon planted faults are found, and what drawn programs reach."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fuzz.bench import Advance, Column, Contents, Measurement, Plan, Row, chosen, measure
from fuzz.bench.pooling import Watcher
from fuzz.instruction_rounds import Selection
from fuzz.output import console, emit
from fuzz.value_rounds import selected_forms
from oracle.targets import DEFAULT_VERSION, parse_target, parse_version

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
        if self.ptx_version is not None:
            return target, str(parse_version(self.ptx_version))
        return target, str(max(parse_version(DEFAULT_VERSION), parse_target(target).since))


def run_bench(request: Request) -> bool:
    """Measure and print; tell whether an observable fault was not found.

    Raises
    ------
    UsageError
        If no fault is selected, or the target cannot be simulated.
    InfrastructureError
        If the sound device disagrees with the oracle.
    """
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
    with _watched(plan, seeds, json=request.json) as watcher:
        measured = measure(plan, seeds, jobs=request.jobs or _cores(), watcher=watcher)
    if request.json:
        _emit(measured, plan, request)
    else:
        _print(measured, plan, request)
    return bool(measured.missed(plan.columns[0]))


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@contextmanager
def _watched(plan: Plan, seeds: list[int], *, json: bool) -> Iterator[Watcher]:
    """Show a bar while seeds search, where a person watches."""
    out = console(stderr=True)
    if json or not out.is_terminal:
        yield lambda advance: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    searches = sum(1 for subject in plan.subjects if not subject.unobservable) * len(plan.columns)
    left = dict.fromkeys(seeds, searches)
    cases = dict.fromkeys(seeds, 0)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=out,
        transient=True,
    ) as progress:
        task = progress.add_task("searching", total=searches * len(seeds))

        def watch(advance: Advance) -> None:
            left[advance.seed], cases[advance.seed] = advance.left, advance.cases
            progress.update(
                task,
                completed=searches * len(seeds) - sum(left.values()),
                description=f"searching, {sum(cases.values()):,} images",
            )

        yield watch


def _emit(measured: Measurement, plan: Plan, request: Request) -> None:
    rows = [_row(row, plan) for row in measured.rows]
    for row in rows:
        emit(row)
    main, *baselines = plan.columns
    emit(
        {
            "summary": {
                "cases": measured.cases,
                "seconds": round(measured.seconds, 3),
                "seed": request.seed,
                "seeds": request.seeds,
                "limit": request.limit,
                "baseline_limit": plan.baseline_limit,
                "target": plan.target,
                "ptx_version": plan.version,
                "contents": main.value,
                "median": measured.median(main),
                "baseline_medians": {one.value: measured.median(one) for one in baselines},
                "missed": measured.missed(main),
                "faults": [
                    {name: row[name] for name in ("name", "found", "cases", "seconds")}
                    for row in rows
                ],
            }
        }
    )


def _row(row: Row, plan: Plan) -> dict[str, object]:
    main, *baselines = plan.columns
    subject = row.subject
    return {
        "name": subject.name,
        "meaning": subject.fault.meaning,
        "stands_for": subject.fault.stands_for,
        "place": subject.fault.place.value,
        "observable": not subject.unobservable,
        "reason": subject.unobservable,
        **_figures(row.columns[main]),
        "baselines": {one.value: _figures(row.columns[one]) for one in baselines},
    }


def _figures(column: Column) -> dict[str, object]:
    seconds = column.seconds
    return {
        "found": column.found,
        "found_in": len(column.sightings),
        "seeds": column.seeds,
        "cases": column.cases,
        "seconds": None if seconds is None else round(seconds, 3),
    }


def _print(measured: Measurement, plan: Plan, request: Request) -> None:
    out = console()
    main = plan.columns[0]
    parts = (
        ("Planted faults", [row for row in measured.rows if not row.subject.is_measured_row]),
        ("Rows of what was measured", [r for r in measured.rows if r.subject.is_measured_row]),
    )
    for title, rows in parts:
        shown = [row for row in rows if not row.subject.unobservable]
        if shown:
            out.print(_table(title, shown, plan), soft_wrap=False)
    hidden = [row.subject for row in measured.rows if row.subject.unobservable]
    if hidden:
        out.print("Not observable:")
        for subject in hidden:
            out.print(f"  {subject.name}: {subject.unobservable}")
    for contents in plan.columns:
        median, missed = measured.median(contents), measured.missed(contents)
        limit = plan.limit_of(contents)
        if median is not None:
            out.print(
                f"{contents.value}: the median fault takes {median:,} images; not found within "
                f"{limit:,}: {len(missed)}"
            )
        else:
            out.print(f"{contents.value}: not found within {limit:,} images: {len(missed)}")
    missed = measured.missed(main)
    if missed:
        out.print(f"[bad]Not found:[/] {', '.join(missed)}")
    out.print(
        f"{request.seeds} seeds from {request.seed}, {plan.target}, PTX ISA {plan.version}; "
        f"{measured.cases:,} images in {measured.seconds:,.0f} s"
    )


def _table(title: str, rows: list[Row], plan: Plan) -> object:
    from rich.table import Table

    main, *baselines = plan.columns
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column("fault", no_wrap=True)
    table.add_column("what happens")
    for heading in ("images", "found", "seconds", *baselines):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        column = row.columns[main]
        seconds = column.seconds
        cells = [
            row.subject.name,
            row.subject.fault.meaning,
            _cases(column, plan.limit_of(main)),
            f"{len(column.sightings)}/{column.seeds}",
            "-" if seconds is None else f"{seconds:.2f}",
            *(_cases(row.columns[one], plan.limit_of(one)) for one in baselines),
        ]
        table.add_row(*cells, style="" if column.found else "bad")
    return table


def _cases(column: Column, limit: int) -> str:
    return f">{limit:,}" if column.cases is None else f"{column.cases:,}"
