"""`warpfuzz bench`: after how many images planted faults are found."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from corpus.known import load_known
from fuzz.bench import (
    BenchPlan,
    Contents,
    LinesTask,
    Row,
    check_observable,
    chosen,
    faults_named,
    lines_of,
    measure,
    median,
    run_all,
)
from fuzz.options.declared import check_conflicts
from fuzz.options.testing import Bench, Faults
from fuzz.output import Data, Report, ReportColumn, ReportRow, Section, counted, rows_of
from fuzz.runner import RunnerChoice, cores, version_for
from runners.faults import Fault
from strategies.draws import Selection
from strategies.rounds import selected_forms

TARGET, VERSION = "sm_120a", "9.1"
"""Target and PTX ISA version of the bench where no target is given: they have every form that one
warp multiplies or reads by ldmatrix (9.7.14.5.14, .15 and .6.3, Target ISA Notes)."""
_LINES_TARGETS = ("sm_90", TARGET)
"""Targets of campaigns where none is given: the first has figures for all of mma.sync, and what it
lacks the second has. Each fault is planted in the first that can show it."""
_UNSEEN: Row = {"found": False, "found_in": 0, "seeds": 0, "cases": None, "seconds": None}
"""Of a fault that no program can show, for which nobody looks."""


def bench(options: Bench) -> bool:
    """Measure and print; tell whether an observable fault was not found."""
    if options.names:
        return list_faults(options)
    check_conflicts(options, "bench")
    return (_search_lines if options.lines else _search)(options)


def list_faults(options: Bench | Faults) -> bool:
    """Print the catalogue of planted faults; nothing is found by that."""
    found = faults_named(options.only)
    columns = (
        ReportColumn("fault", "name", whole=True),
        ReportColumn("where", "place", whole=True),
        ReportColumn("what happens", "meaning"),
    )
    rows = [{"name": one.name, "meaning": one.meaning, "place": one.place.value} for one in found]
    Report(columns=columns, rows=rows_of(rows)).write(json=options.json)
    return False


def _module(options: Bench) -> tuple[str, str]:
    own = None if options.target else VERSION
    target = options.target or TARGET
    return target, version_for(options.ptx_version or own, target)


# After how many images


def _search(options: Bench) -> bool:
    begun = time.perf_counter()
    target, version = _module(options)
    subjects = chosen(options.only, target=target, version=version)
    check_observable(subjects, options.only, target=target, version=version)
    plan = BenchPlan(
        forms=selected_forms(Selection(), target=target, version=version),
        target=target,
        version=version,
        names=tuple(fault.name for fault, reason in subjects if not reason),
        columns=tuple(one for one in Contents if one in options.contents) or tuple(Contents),
        limit=options.limit,
        baseline_limit=min(options.limit, options.baseline_limit),
    )
    seeds = [(options.seed + index) % 2**64 for index in range(options.seeds)]
    cases, told = measure(plan, seeds, jobs=options.jobs or cores(), json=options.json)
    seconds = round(time.perf_counter() - begun, 3)
    summary = {"cases": cases, "seconds": seconds, **options.picked("seed", "seeds")}
    found = _measurement_report(plan, subjects, told, summary)
    found.write(json=options.json)
    return bool(found.summary and found.summary["missed"])


def _measurement_report(
    plan: BenchPlan,
    subjects: Sequence[tuple[Fault, str]],
    told: Mapping[tuple[Contents, str], Row],
    summary: Row,
) -> Report:
    main, *baselines = plan.columns
    rows: list[Row] = [
        {
            "name": fault.name,
            "meaning": fault.meaning,
            "place": fault.place.value,
            "observable": not reason,
            "reason": reason,
            **told.get((main, fault.name), _UNSEEN),
            "baselines": {of.value: told.get((of, fault.name), _UNSEEN) for of in baselines},
        }
        for fault, reason in subjects
    ]

    def cases(of: Contents) -> Callable[[Data], str]:
        def shown(row: Data) -> str:
            count = (row if of is main else row["baselines"][of.value])["cases"]
            return f">{plan.limit_of(of):,}" if count is None else f"{count:,}"

        return shown

    columns = (
        ReportColumn("fault", "name", whole=True),
        ReportColumn("what happens", "meaning"),
        ReportColumn("images", cases(main), number=True),
        ReportColumn("found", lambda row: f"{row['found_in']}/{row['seeds']}", number=True),
        ReportColumn("seconds", lambda row: row["seconds"] or "-", number=True),
        *(ReportColumn(of.value, cases(of), number=True) for of in baselines),
    )
    sentences = [f"Not observable: {row['name']}: {row['reason']}" for row in rows if row["reason"]]
    medians, missed = {}, {}
    for of in plan.columns:
        counts = {name: told[of, name]["cases"] for name in plan.names}
        missed[of] = [name for name, count in counts.items() if count is None]
        found = median(counts.values())
        medians[of] = None if found is None else round(found)
        within = f"{len(missed[of])} not found within {plan.limit_of(of):,} images"
        half = f"; half of the faults within {medians[of]} (median of the seeds)" * bool(found)
        sentences.append(f"contents {of.value}: {within}{half}")
    sentences += [f"Not found: {', '.join(missed[main])}"] if missed[main] else []
    sentences.append(
        f"{counted(summary['seeds'], 'seed')} from {summary['seed']}, {plan.target}, PTX ISA "
        f"{plan.version}; {counted(summary['cases'], 'image')} in {summary['seconds']:,.0f} s"
    )
    shown = [ReportRow(data=row, style="" if row["found"] else "bad")
             for row in rows if row["observable"]]  # fmt: skip
    names = ("name", "found", "cases", "seconds")
    more: Row = {
        "limit": plan.limit,
        "baseline_limit": plan.baseline_limit,
        "target": plan.target,
        "ptx_version": plan.version,
        "contents": main.value,
        "median": medians.pop(main),
        "baseline_medians": {of.value: found for of, found in medians.items()},
        "missed": missed[main],
        "faults": [{name: row[name] for name in names} for row in rows],
    }
    table = Section(heading="Planted faults", columns=columns, rows=shown)
    return Report(rows=rows_of(rows), before=[table], sentences=sentences, summary=summary | more)


# Lines of a campaign's report


def _search_lines(options: Bench) -> bool:
    """Run a campaign with each fault; tell whether one is many lines, or names the wrong step."""
    begun = time.perf_counter()
    known = load_known()
    tasks: dict[str, LinesTask] = {}
    _, version = _module(options)
    for target in [options.target] if options.target else _LINES_TARGETS:
        for fault, reason in chosen(options.only, target=target, version=version):
            choice = RunnerChoice(
                name="sim", target=target, ptx_version=version, faults=(fault.name,)
            )
            task = LinesTask(
                name=fault.name, guilty=fault.guilty, choice=choice, known=known,
                **options.picked("seed", "images"),
            )  # fmt: skip
            tasks |= {} if reason or fault.name in tasks else {fault.name: task}
    every, jobs = list(tasks.values()), options.jobs or cores()
    rows = run_all(lines_of, every, "campaigns", jobs=jobs, json=options.json)
    seen = [row for row in rows if row["found"]]
    seconds = [taken for row in seen for taken in row["seconds"]]
    good = [row["lines"] == 1 and row["named"] for row in rows]
    summary: Row = {
        "cases": sum(row["cases"] for row in rows),
        "seconds": round(time.perf_counter() - begun, 3),
        "seed": options.seed,
        "found": len(seen),
        "one_line": sum(row["lines"] == 1 for row in seen),
        **{name: sum(row[name] for row in seen) for name in ("named", "known", "flaky")},
        "most_lines": max((row["lines"] for row in seen), default=0),
        "median_seconds": round(statistics.median(seconds or [0.0]), 3),
    }
    Report(
        columns=(
            ReportColumn("fault", "name", whole=True),
            ReportColumn("lines", number=True),
            ReportColumn("culprit named", "named"),
            ReportColumn("what a person reads", lambda row: "; ".join(row["titles"])),
        ),
        rows=[ReportRow(data=row, style="" if is_good else "bad")
              for row, is_good in zip(rows, good, strict=True)],
        sentences=[
            f"Of {counted(len(rows), 'fault')}, {summary['found']} found in campaigns of "
            f"{counted(options.images, 'image')}: {summary['one_line']} in one line, "
            f"{summary['named']} with the culprit named, {summary['known']} lines taken for known, "
            f"{summary['flaky']} flaky; seed {options.seed}, {summary['seconds']:,.0f} s",
            f"To confirm, shrink and attribute one finding took {summary['median_seconds']} s of "
            "processor time in the median",
        ],
        summary={**summary, "faults": rows},
    ).write(json=options.json)  # fmt: skip
    return not all(is_good or not row["found"] for row, is_good in zip(rows, good, strict=True))
