"""Fetching compilers that a command turns out to need, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.progress import Progress

from fuzz.compilers.candidates import Selected, fetched
from fuzz.output import console
from runners.assemblers.assembler import Assembler
from runners.assemblers.fetching import fetch


@contextmanager
def fetcher(*, json: bool) -> Iterator[Callable[[str], Assembler]]:
    """Give a function that fetches a version and shows how far it is; it raises as `fetch` does."""
    out = console(stderr=json)
    # Where nobody watches, not even an empty line is left of the bar.
    with Progress(console=out, transient=True, disable=not out.is_terminal) as progress:

        def fetch_one(version: str) -> Assembler:
            task = progress.add_task(f"fetching ptxas {version}", total=None)
            try:
                return fetch(
                    version,
                    progress=lambda done, total: progress.update(task, completed=done, total=total),
                )
            finally:
                progress.remove_task(task)

        yield fetch_one


def with_fetched(selected: Selected, *, json: bool) -> Selected:
    """Return compilers that are all here, with a progress bar for those that were not.

    Raises
    ------
    UsageError, InfrastructureError
        As `fetch` does.
    """
    if all(one.assembler is not None for one in selected.candidates):
        return selected
    with fetcher(json=json) as fetch_one:
        candidates = tuple(fetched(one, fetch_one) for one in selected.candidates)
    return replace(selected, candidates=candidates)
