"""`warpfuzz repro`: a folder that reproduces a finding without warpfuzz."""

from __future__ import annotations

from pathlib import Path

from corpus.naming import named_entry
from fuzz.explain.folder import write_reproduction
from fuzz.output import console, emit
from runners.assemblers.disassembly import find_disassembler


def reproduce(
    case: str,
    *,
    corpus: Path,
    output: Path | None,
    disassembler: Path | None,
    bisected: Path | None,
    json: bool,
) -> None:
    """Write the folder of a finding.

    Parameters
    ----------
    case
        The folder of a finding, or how its id starts.
    corpus
        Where it is looked for by its id.
    output
        The folder; None: one named after the finding, here.
    disassembler
        An nvdisasm; None: the one that is here.
    bisected
        A file with what `warpfuzz bisect --json` printed of the finding.
    """
    entry = named_entry(case, corpus)
    made = write_reproduction(
        entry,
        output or Path(f"repro-{entry.id}"),
        disassembler=find_disassembler(disassembler),
        bisected=bisected,
    )
    if json:
        emit({"id": entry.id, "path": str(made.path), "files": list(made.files)})
        return
    out = console()
    out.print(f"{made.path}: {', '.join(made.files)}", markup=False, soft_wrap=True)
    out.print(f"{made.path / 'README.md'} says what it is about", markup=False, soft_wrap=True)
