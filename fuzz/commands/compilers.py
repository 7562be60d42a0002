"""`warpfuzz compilers`: the assemblers and front ends that are here, and fetching others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from rich.table import Table

from fuzz.output import console, emit, fetcher
from oracle.errors import InfrastructureError
from runners.assemblers.assembler import Assembler
from runners.compilers import discover_assemblers, discover_front_ends, fetched_compiler
from runners.front_ends.protocol import FrontEndToolchain


def list_compilers(*, json: bool) -> None:
    """Print every assembler with its version, highest `.version` and targets; every front end."""
    found = discover_assemblers()
    rows, problems = [], list(found.problems)
    for assembler in found.assemblers:
        try:
            rows.append(_row(assembler))
        except InfrastructureError as error:
            # It tells its version, but does not work; others may.
            problems.append(str(error))
    front_ends = discover_front_ends()
    if json:
        for row in rows:
            emit(row)
        for one in front_ends:
            emit(_front_end_row(one))
        for problem in problems:
            console(stderr=True).print(f"warpfuzz: {problem}", markup=False, soft_wrap=True)
        return
    out = console()
    if rows:
        out.print(_assemblers(rows))
    else:
        out.print("No ptxas is here; fetch one with `warpfuzz compilers fetch 13.5`.")
    if front_ends:
        out.print(_front_ends(front_ends))
    else:
        out.print("No front end is here; fetch one with `warpfuzz compilers fetch llvm:22`.")
    for problem in problems:
        out.print(problem, style="odd", markup=False)


def _assemblers(rows: Sequence[_Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("ptxas", "PTX ISA up to", "targets", "from", "path"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(
            row["version"],
            row["highest_ptx_version"],
            " ".join(name.removeprefix("sm_") for name in row["targets"]),
            row["origin"],
            row["path"],
        )
    return table


def _front_ends(found: Sequence[FrontEndToolchain]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("front end", "path"):
        table.add_column(heading, overflow="fold")
    for one in found:
        table.add_row(one.spelled, one.path)
    return table


def _front_end_row(one: FrontEndToolchain) -> dict[str, str]:
    return {"front_end": one.spelled, "version": one.version, "path": one.path}


def fetch_compilers(names: Sequence[str], *, json: bool) -> None:
    """Fetch assemblers and front ends one after the other, with a progress bar."""
    out = console(stderr=json)
    with fetcher(fetched_compiler, json=json) as fetch_one:
        for name in names:
            found = fetch_one(name)
            if json:
                emit(_front_end_row(found) if isinstance(found, FrontEndToolchain) else _row(found))
            else:
                out.print(f"{found.named} is at {found.path}", markup=False)


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
