"""Makes the fake assemblers, each broken in a way that is its name."""

import sys
from pathlib import Path

from runners.assemblers.assembler import Assembler
from runners.assemblers.judgements import Outcome
from runners.toolchains import Origin

FAKE = Path(__file__).with_name("fake_ptxas.py")

# First word of an instruction, and what must be said of it.
OUTCOMES = {
    "good": Outcome.ACCEPTED,
    "bad": Outcome.REJECTED,
    "unknown": Outcome.REJECTED,
    "syntax": Outcome.REJECTED,
    "late_bad": Outcome.REJECTED,
    "late_inside": Outcome.INTERNAL,
    "macro": Outcome.INTERNAL,
    "taint": Outcome.INTERNAL,
    "crash": Outcome.CRASHED,
    "late_crash": Outcome.CRASHED,
    "late_quit": Outcome.UNREADABLE,
}
HANGS = ("hang", "late_hang")


def fake(folder: Path, mode: str = "sound") -> Assembler:
    """Write a fake assembler; `mode` says how it is broken."""
    program = folder / "ptxas"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {FAKE} "{mode}" "$@"\n')
    program.chmod(0o755)
    return Assembler(path=program, version="V99.1.7", origin=Origin.GIVEN)
