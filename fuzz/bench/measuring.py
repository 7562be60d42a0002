"""The bench as a whole: seeds side by side, and the medians of what they saw."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fuzz.bench.pooling import Watcher, run_all
from fuzz.bench.searching import Plan, SearchResult, Sighting, search
from fuzz.bench.subjects import Contents, Subject


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one sort of contents did on one fault."""

    contents: Contents
    sightings: tuple[Sighting, ...]
    """One for each seed that saw the fault."""
    seeds: int
    """How many seeds looked for it."""

    def _median(self, values: Sequence[float]) -> float | None:
        unseen = [float("inf")] * (self.seeds - len(values))
        median = statistics.median([*values, *unseen])
        return None if median == float("inf") else median

    @property
    def cases(self) -> int | None:
        """Median of the images drawn until the fault was seen.

        None if half of the seeds or more did not see it.
        """
        median = self._median([float(one.cases) for one in self.sightings])
        return None if median is None else round(median)

    @property
    def seconds(self) -> float | None:
        """Median of the seconds until then, on one core; None as for `cases`."""
        return self._median([one.seconds for one in self.sightings])

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
        cases = [
            float("inf") if cases is None else cases
            for row in self.rows
            if not row.subject.unobservable and not row.subject.is_measured_row
            for cases in (row.columns[contents].cases,)
        ]
        median = statistics.median(cases) if cases else float("inf")
        return None if median == float("inf") else round(median)

    def missed(self, contents: Contents) -> list[str]:
        """Return the names of the observable faults that were not found."""
        return [
            row.subject.name
            for row in self.rows
            if not row.subject.unobservable and not row.columns[contents].found
        ]


def measure(plan: Plan, seeds: Sequence[int], *, jobs: int, watcher: Watcher) -> Measurement:
    """Search with every seed, some of them at the same time.

    Parameters
    ----------
    plan
        What is searched.
    seeds
        One campaign each.
    jobs
        Processes; 1 runs in this one.
    watcher
        Is told now and then the number of a seed, the images that it drew and the faults that it
        still looks for, over all columns.

    Raises
    ------
    InfrastructureError
        If sound device and oracle disagree, or a process dies.
    """
    begun = time.perf_counter()
    results = run_all(search, [(plan, seed) for seed in seeds], jobs=jobs, watcher=watcher)
    rows = tuple(_row(plan, subject, results) for subject in plan.subjects)
    return Measurement(
        rows=rows,
        cases=sum(result.cases for result in results),
        seconds=time.perf_counter() - begun,
    )


def _row(plan: Plan, subject: Subject, results: Sequence[SearchResult]) -> Row:
    columns = {}
    for contents in plan.columns:
        seen = [result.seen.get((contents, subject.name)) for result in results]
        columns[contents] = Column(
            contents=contents,
            sightings=tuple(sighting for sighting in seen if sighting is not None),
            seeds=len(results),
        )
    return Row(subject=subject, columns=columns)
