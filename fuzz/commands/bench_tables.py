"""Tables and JSON of `warpfuzz bench`."""

from __future__ import annotations

from rich.table import Table

from fuzz.bench import Column, Measurement, Plan, Row
from fuzz.output import console, emit
from fuzz.wording import counted


def emit_measurement(measured: Measurement, plan: Plan, *, seed: int, seeds: int) -> None:
    """Write a line for each fault, and the summary."""
    rows = [_row(row, plan) for row in measured.rows]
    for row in rows:
        emit(row)
    main, *baselines = plan.columns
    emit(
        {
            "summary": {
                "cases": measured.cases,
                "seconds": round(measured.seconds, 3),
                "seed": seed,
                "seeds": seeds,
                "limit": plan.limit,
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


def print_measurement(measured: Measurement, plan: Plan, *, seed: int, seeds: int) -> None:
    """Print a table of faults, and what they come to."""
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
                f"{contents.value}: the median fault takes {counted(median, 'image')}; not found "
                f"within {limit:,}: {len(missed)}"
            )
        else:
            out.print(f"{contents.value}: not found within {limit:,} images: {len(missed)}")
    missed = measured.missed(main)
    if missed:
        out.print(f"[bad]Not found:[/] {', '.join(missed)}")
    out.print(
        f"{counted(seeds, 'seed')} from {seed}, {plan.target}, PTX ISA {plan.version}; "
        f"{counted(measured.cases, 'image')} in {measured.seconds:,.0f} s"
    )


def _table(title: str, rows: list[Row], plan: Plan) -> Table:
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
