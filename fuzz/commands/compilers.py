"""`warpfuzz compilers`: the assemblers that are here, and fetching others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from rich.table import Table

from fuzz.compilers.candidates import fetcher
from fuzz.output import console, emit
from oracle.errors import InfrastructureError
from runners.assemblers.assembler import Assembler
from runners.assemblers.discovery import discover


def list_assemblers(*, json: bool) -> None:
    """Print every assembler with its version, highest `.version` and targets."""
    found = discover()
    rows, problems = [], list(found.problems)
    for assembler in found.assemblers:
        try:
            rows.append(_row(assembler))
        except InfrastructureError as error:
            # It tells its version, but does not work; others may.
            problems.append(str(error))
    if json:
        for row in rows:
            emit(row)
        for problem in problems:
            console(stderr=True).print(f"warpfuzz: {problem}", markup=False, soft_wrap=True)
        return
    out = console()
    table = Table(box=None, pad_edge=False)
    for heading in ("version", "PTX ISA up to", "targets", "from", "path"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(
            row["version"],
            row["highest_ptx_version"],
            " ".join(name.removeprefix("sm_") for name in row["targets"]),
            row["origin"],
            row["path"],
        )
    if rows:
        out.print(table)
    else:
        out.print("No ptxas is here; fetch one with `warpfuzz compilers fetch 13.5`.")
    for problem in problems:
        out.print(problem, style="odd", markup=False)


def fetch_assemblers(versions: Sequence[str], *, json: bool) -> None:
    """Fetch assemblers one after the other, with a progress bar."""
    out = console(stderr=json)
    with fetcher(json=json) as fetch_one:
        for version in versions:
            assembler = fetch_one(version)
            if json:
                emit(_row(assembler))
            else:
                out.print(f"ptxas {assembler.version} is at {assembler.path}", markup=False)


class _Row(TypedDict):
    version: str
    release: str
    highest_ptx_version: str
    targets: list[str]
    origin: str
    path: str


def _row(assembler: Assembler) -> _Row:
    return {
        "version": assembler.version,
        "release": assembler.release,
        "highest_ptx_version": str(assembler.highest_version),
        "targets": list(assembler.targets),
        "origin": assembler.origin.value,
        "path": str(assembler.path),
    }
