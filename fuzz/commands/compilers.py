"""`warpfuzz compilers`: the assemblers and front ends that are here, and fetching others."""

from __future__ import annotations

from typing import TypedDict

from fuzz.options import CompilersFetch, CompilersList
from fuzz.output import console, emit, fetcher, say, table
from oracle.errors import InfrastructureError
from runners.assemblers.assembler import Assembler
from runners.compilers import discover_assemblers, discover_front_ends, fetched_compiler
from runners.front_ends.protocol import FrontEndToolchain


def list_compilers(options: CompilersList) -> None:
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
    if options.json:
        for row in rows:
            emit(row)
        for one in front_ends:
            emit(_front_end_row(one))
        for problem in problems:
            say(f"warpfuzz: {problem}", stderr=True)
        return
    out = console()
    if rows:
        shown = table("ptxas", "PTX ISA up to", "targets", "from", "path")
        for row in rows:
            targets = " ".join(name.removeprefix("sm_") for name in row["targets"])
            shown.add_row(
                row["version"], row["highest_ptx_version"], targets, row["origin"], row["path"]
            )
        out.print(shown)
    else:
        out.print("No ptxas is here; fetch one with `warpfuzz compilers fetch 13.5`.")
    if front_ends:
        shown = table("front end", "path")
        for one in front_ends:
            shown.add_row(one.spelled, one.path)
        out.print(shown)
    else:
        out.print("No front end is here; fetch one with `warpfuzz compilers fetch llvm:22`.")
    for problem in problems:
        out.print(problem, style="odd")


def _front_end_row(one: FrontEndToolchain) -> dict[str, str]:
    return {"front_end": one.spelled, "version": one.version, "path": one.path}


def fetch_compilers(options: CompilersFetch) -> None:
    """Fetch assemblers and front ends one after the other, with a progress bar."""
    with fetcher(fetched_compiler, json=options.json) as fetch_one:
        for name in options.versions:
            found = fetch_one(name)
            if options.json:
                emit(_front_end_row(found) if isinstance(found, FrontEndToolchain) else _row(found))
            else:
                console().print(f"{found.named} is at {found.path}")


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
