"""`warpfuzz repro`: a folder that reproduces a finding without warpfuzz."""

from __future__ import annotations

from pathlib import Path

from corpus.opening import named_entry
from fuzz.explain.folder import write_reproduction
from fuzz.options import Repro
from fuzz.output import emit, say
from runners.assemblers.disassembly import find_disassembler


def reproduce(options: Repro) -> None:
    """Write the folder of a finding."""
    entry = named_entry(options.case, options.corpus)
    path, disassembler = options.output or Path(f"repro-{entry.id}"), options.disassembler
    files = write_reproduction(
        entry, path, disassembler=find_disassembler(disassembler), bisected=options.bisected
    )
    if options.json:
        emit({"id": entry.id, "path": str(path), "files": list(files)})
        return
    say(f"{path}: {', '.join(files)}")
    say(f"{path / 'README.md'} says what it is about")
