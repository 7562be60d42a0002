"""Makes a ptxas with a bug of a certain version: what it does stands in `stand_in_ptxas`."""

import sys
from pathlib import Path

STAND_IN = Path(__file__).with_name("stand_in_ptxas.py")
TESTS = Path(__file__).parents[2]


def planted_ptxas(folder, version, faults=(), levels=(0, 1, 2, 3), **others):
    """Write a compiler into a folder, which is made; return its path.

    What it does is a row as `stand_in_ptxas` has it; `others` are names and values of that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    configuration = folder / "planted.row"
    row = {"version": version, "faults": tuple(faults), "levels": tuple(levels), **others}
    configuration.write_text(repr(row))
    program = folder / "ptxas"
    paths = f"{TESTS.parent}:{TESTS / 'fuzz'}"
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH='{paths}'${{PYTHONPATH:+:$PYTHONPATH}} "
        f"exec '{sys.executable}' -S '{STAND_IN}' '{configuration.absolute()}' \"$@\"\n"
    )
    program.chmod(0o755)
    return program
