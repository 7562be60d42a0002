"""`warpfuzz repro`: a folder that reproduces a finding without warpfuzz."""

from __future__ import annotations

from pathlib import Path

from corpus.naming import named_entry
from fuzz.explain.folder import write_reproduction
from fuzz.options import Repro
from fuzz.output import emit, say
from runners.assemblers.disassembly import find_disassembler


def reproduce(options: Repro) -> None:
    """Write the folder of a finding."""
    entry = named_entry(options.case, options.corpus)
    made = write_reproduction(
        entry,
        options.output or Path(f"repro-{entry.id}"),
        disassembler=find_disassembler(options.disassembler),
        bisected=options.bisected,
    )
    if options.json:
        emit({"id": entry.id, "path": str(made.path), "files": list(made.files)})
        return
    say(f"{made.path}: {', '.join(made.files)}")
    say(f"{made.path / 'README.md'} says what it is about")
