"""`warpfuzz bench`: after how many images planted faults are found, and coverage of programs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from itertools import groupby
from typing import Any

from corpus.known import load_known
from fuzz.bench import Report as Advance
from fuzz.bench import run_all
from fuzz.bench.campaigns import (
    Campaign,
    LinesTask,
    Reach,
    campaigns_of,
    lines_of,
    measure_reach,
    undrawn_forms,
)
from fuzz.bench.search import Column, Contents, Measurement, Plan, Row, chosen, measure
from fuzz.options import Bench, Faults, check_conflicts
from fuzz.output import bars, counted
from fuzz.output.report import Report, ReportColumn, ReportRow, Section, rows_of
from fuzz.runner import RunnerChoice, cores, version_for
from oracle.errors import UsageError
from oracle.forms import Form
from runners.faults import CATALOGUE
from strategies.draws import Selection
from strategies.rounds import selected_forms

_MISSING_SHOWN = 4
"""Names of what is missing of one kind that are printed."""
_FORMS_SHOWN = 4
"""Forms of an instruction, those that were reached least, that stand in the table."""


_REACHED = (
    ReportColumn("reached", "name", whole=True),
    ReportColumn("programs", number=True),
)


def _reach_report(
    reached: Sequence[Reach], undrawn: Sequence[Form], options: Bench, seconds: float
) -> Report:
    gaps = [one for one in reached if not one.count]
    sentence = (
        f"{counted(options.programs, 'program')}, seed {options.seed}, in {seconds:,.0f} s: "
        f"{len(reached) - len(gaps):,} of {len(reached):,} features reached"
    )
    if gaps:
        sentence += f"; {len(gaps):,} missing (exit code 1). More programs reach more (--programs)"
    sections, missing = [], []
    for dimension, group in groupby(reached, key=lambda one: one.dimension):
        rows = list(group)
        names = [row.name for row in rows if not row.count]
        heading = f"{dimension}: {len(rows) - len(names)} of {len(rows)}"
        sections.append(
            Section(heading=heading, columns=_REACHED, rows=[_reached(row) for row in _shown(rows)])
        )
        if names:
            more = f" and {len(names) - _MISSING_SHOWN:,} more" * (len(names) > _MISSING_SHOWN)
            missing.append(f"missing: {dimension}: {', '.join(names[:_MISSING_SHOWN])}{more}")
    left = (
        f"{counted(len(undrawn), 'form')} of the target left out, because nobody has measured what "
        "they compute (--json lists them)"
    )
    return Report(
        rows=[_reached(one) for one in reached],
        before=sections,
        sentences=[*missing, *([left] if undrawn else []), sentence],
        summary={
            "cases": options.programs,
            "seconds": round(seconds, 3),
            "seed": options.seed,
            "faults": [],
            "programs": options.programs,
            "missing": [{"dimension": one.dimension, "name": one.name} for one in gaps],
            "not_drawn": [form.opcode for form in undrawn],
        },
    )


def _reached(one: Reach) -> ReportRow:
    data = {"dimension": one.dimension, "name": one.name, "programs": one.count}
    return ReportRow(data=data, style="" if one.count else "bad")


def _shown(rows: Sequence[Reach]) -> Sequence[Reach]:
    """Leave out most of what is too long to list: forms that are reached."""
    if not rows[0].dimension.startswith("form"):
        return rows
    return sorted(rows, key=lambda row: row.count)[:_FORMS_SHOWN]


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


def _measurement_report(measured: Measurement, plan: Plan, options: Bench) -> Report:
    main, *baselines = plan.columns
    rows = [_row(row, plan) for row in measured.rows]
    columns = (
        ReportColumn("fault", "name", whole=True),
        ReportColumn("what happens", "meaning"),
        ReportColumn("images", lambda row: _cases(row, plan.limit_of(main)), number=True),
        ReportColumn("found", lambda row: f"{row['found_in']}/{row['seeds']}", number=True),
        ReportColumn(
            "seconds",
            lambda row: "-" if row["seconds"] is None else f"{row['seconds']:.2f}",
            number=True,
        ),
        *(_baseline(one, plan.limit_of(one)) for one in baselines),
    )
    shown = [
        Section(
            heading=heading,
            columns=columns,
            rows=[
                ReportRow(data=data, style="" if data["found"] else "bad")
                for row, data in zip(measured.rows, rows, strict=True)
                if row.subject.is_measured_row is measures and not row.subject.unobservable
            ],
        )
        for heading, measures in (("Planted faults", False), ("Rows of what was measured", True))
    ]
    hidden = [f"Not observable: {row['name']}: {row['reason']}" for row in rows if row["reason"]]
    missed = measured.missed(main)
    return Report(
        rows=rows_of(rows),
        before=shown,
        sentences=[
            *hidden,
            *(_found_within(measured, one, plan.limit_of(one)) for one in plan.columns),
            *([f"Not found: {', '.join(missed)}"] if missed else []),
            f"{counted(options.seeds, 'seed')} from {options.seed}, {plan.target}, PTX ISA "
            f"{plan.version}; {counted(measured.cases, 'image')} in {measured.seconds:,.0f} s",
        ],
        summary={
            "cases": measured.cases,
            "seconds": round(measured.seconds, 3),
            "seed": options.seed,
            "seeds": options.seeds,
            "limit": plan.limit,
            "baseline_limit": plan.baseline_limit,
            "target": plan.target,
            "ptx_version": plan.version,
            "contents": main.value,
            "median": measured.median(main),
            "baseline_medians": {one.value: measured.median(one) for one in baselines},
            "missed": missed,
            "faults": [
                {name: row[name] for name in ("name", "found", "cases", "seconds")} for row in rows
            ],
        },
    )


def _baseline(contents: Contents, limit: int) -> ReportColumn:
    name = contents.value
    return ReportColumn(name, lambda row: _cases(row["baselines"][name], limit), number=True)


def _found_within(measured: Measurement, contents: Contents, limit: int) -> str:
    median, missed = measured.median(contents), len(measured.missed(contents))
    if median is None:
        return f"contents {contents.value}: {missed} not found within {limit:,} images"
    return (
        f"contents {contents.value}: half of the faults are found within "
        f"{counted(median, 'image')} (median of the seeds); {missed} not within {limit:,}"
    )


def _cases(figures: Mapping[str, Any], limit: int) -> str:
    return f">{limit:,}" if figures["cases"] is None else f"{figures['cases']:,}"


TARGET = "sm_100a"
"""Target of the bench where none is given: it has every form that is multiplied or read by
ldmatrix (9.7.14.5.15, Target ISA Notes)."""
_LINES_TARGETS = ("sm_90", TARGET)
"""Targets of campaigns where none is given: the first has figures for all of mma.sync, and what it
lacks the second has. Each fault is planted in the first that can show it."""


def bench(options: Bench) -> bool:
    """Measure and print; tell whether an observable fault was not found, or nothing reached."""
    if options.names:
        return list_faults(options)
    check_conflicts(options, "bench")
    search = _search_lines if options.lines else _coverage if options.coverage else _search
    return search(options)


def list_faults(options: Bench | Faults) -> bool:
    """Print the catalogue of planted faults; nothing is found by that."""
    found = [one for one in CATALOGUE if fnmatchcase(one.name, options.only)]
    if not found:
        raise UsageError(f"no planted fault matches {options.only!r}; `warpfuzz faults` lists all")
    columns = (
        ReportColumn("fault", "name", whole=True),
        ReportColumn("where", "place", whole=True),
        ReportColumn("what happens", "meaning"),
    )
    rows = [{"name": one.name, "meaning": one.meaning, "place": one.place.value} for one in found]
    Report(columns=columns, rows=rows_of(rows)).write(json=options.json)
    return False


def _search(options: Bench) -> bool:
    target, version = _module(options)
    plan = Plan(
        forms=selected_forms(Selection(), target=target, version=version),
        target=target,
        version=version,
        subjects=chosen(options.only, target=target, version=version),
        columns=tuple(one for one in Contents if one in options.contents) or tuple(Contents),
        limit=options.limit,
        baseline_limit=min(options.limit, options.baseline_limit),
    )
    seeds = [(options.seed + index) % 2**64 for index in range(options.seeds)]
    searches = sum(1 for one in plan.subjects if not one.unobservable) * len(plan.columns)
    with _watched("searches", searches * len(seeds), json=options.json) as report:
        measured = measure(plan, seeds, jobs=options.jobs or cores(), report=report)
    _measurement_report(measured, plan, options).write(json=options.json)
    return bool(measured.missed(plan.columns[0]))


def _search_lines(options: Bench) -> bool:
    """Run a campaign with each fault; tell whether one is many lines, or names the wrong step."""
    begun = time.perf_counter()
    known = load_known()
    tasks: dict[str, LinesTask] = {}
    for target in [options.target] if options.target else _LINES_TARGETS:
        version = version_for(options.ptx_version, options.target or TARGET)
        for one in chosen(options.only, target=target, version=version):
            if not one.unobservable and not one.is_measured_row:
                task = LinesTask(
                    name=one.name, guilty=one.fault.guilty, seed=options.seed,
                    choice=RunnerChoice(
                        name="sim", target=target, ptx_version=version, faults=(one.name,)
                    ),
                    images=options.images, known=known,
                )  # fmt: skip
                tasks.setdefault(one.name, task)
    with _watched("images", options.images * len(tasks), json=options.json) as report:
        found = run_all(lines_of, list(tasks.values()), jobs=options.jobs or cores(), report=report)
    seen = [one for one in found if one.titles]
    seconds = [taken for one in seen for taken in one.seconds]
    summary = {
        "cases": sum(one.images for one in found),
        "seconds": round(time.perf_counter() - begun, 3),
        "seed": options.seed,
        "found": len(seen),
        "one_line": sum(len(one.titles) == 1 for one in seen),
        "named": sum(one.named == len(one.titles) for one in seen),
        "known": sum(one.known for one in seen),
        "flaky": sum(one.flaky for one in seen),
        "most_lines": max((len(one.titles) for one in seen), default=0),
        "median_seconds": round(statistics.median(seconds or [0.0]), 3),
    }
    rows = [
        {
            "name": one.name, "found": bool(one.titles), "cases": one.images,
            "lines": len(one.titles), "titles": one.titles, "known": one.known,
            "flaky": one.flaky, "named": one.named == len(one.titles) > 0,
            "seconds": [round(taken, 3) for taken in one.seconds],
        }
        for one in found
    ]  # fmt: skip
    Report(
        columns=_LINES,
        rows=[
            ReportRow(data=row, style="" if row["lines"] == 1 and row["named"] else "bad")
            for row in rows
        ],
        sentences=[
            f"Of {counted(len(found), 'fault')}, {summary['found']} found in campaigns of "
            f"{counted(options.images, 'image')}: {summary['one_line']} in one line, "
            f"{summary['named']} with the culprit named, {summary['known']} lines taken for known, "
            f"{summary['flaky']} flaky; seed {options.seed}, {summary['seconds']:,.0f} s",
            f"To confirm, shrink and attribute one finding took {summary['median_seconds']} s of "
            "processor time in the median",
        ],
        summary={**summary, "faults": rows},
    ).write(json=options.json)
    return summary["one_line"] < len(seen) or summary["named"] < len(seen)


_LINES = (
    ReportColumn("fault", "name", whole=True),
    ReportColumn("lines", number=True),
    ReportColumn(
        "culprit",
        lambda row: "not found" if not row["lines"] else "named" if row["named"] else "another",
        whole=True,
    ),
    ReportColumn("what a person reads", lambda row: "\n".join(row["titles"])),
)


def _coverage(options: Bench) -> bool:
    begun = time.perf_counter()
    target, version = _module(options)
    whole = Campaign(
        forms=selected_forms(Selection(), target=target, version=version),
        target=target,
        version=version,
        seed=options.seed,
        programs=options.programs,
    )
    campaigns = campaigns_of(whole)
    with _watched("programs", options.programs, json=options.json) as report:
        reached = measure_reach(campaigns, jobs=options.jobs or cores(), report=report)
    seconds = time.perf_counter() - begun
    undrawn = undrawn_forms(target, version)
    _reach_report(reached, undrawn, options, seconds).write(json=options.json)
    return not all(one.count for one in reached)


def _module(options: Bench) -> tuple[str, str]:
    target = options.target or TARGET
    return target, version_for(options.ptx_version, target)


@contextmanager
def _watched(what: str, total: int, *, json: bool) -> Iterator[Advance]:
    """Show a bar, where a person watches."""
    with bars(json=json) as progress:
        progress.start()
        yield partial(progress.advance, progress.add_task(what, total=total))
