"""Makes the fake assemblers, each broken in a way that is its name."""

import sys
from pathlib import Path

from runners.assemblers.assembler import Assembler
from runners.assemblers.judgements import Response
from runners.toolchains import ToolOrigin

FAKE = Path(__file__).with_name("fake_ptxas.py")

# First word of an instruction, and what must be said of it.
OUTCOMES = {
    "good": Response.ACCEPTED,
    "bad": Response.REJECTED,
    "unknown": Response.REJECTED,
    "syntax": Response.REJECTED,
    "late_bad": Response.REJECTED,
    "late_inside": Response.INTERNAL,
    "macro": Response.INTERNAL,
    "taint": Response.INTERNAL,
    "crash": Response.CRASHED,
    "late_crash": Response.CRASHED,
    "late_quit": Response.UNREADABLE,
}


def fake(folder: Path, mode: str = "sound") -> Assembler:
    """Write a fake assembler; `mode` says how it is broken."""
    program = folder / "ptxas"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {FAKE} "{mode}" "$@"\n')
    program.chmod(0o755)
    return Assembler(path=program, version="V99.1.7", origin=ToolOrigin.GIVEN)
