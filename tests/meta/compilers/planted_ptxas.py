"""Makes a ptxas with a bug of a certain version: what it does stands in `stand_in_ptxas`."""

import sys
from pathlib import Path

STAND_IN = Path(__file__).with_name("stand_in_ptxas.py")
TESTS = Path(__file__).parents[2]


def planted_ptxas(
    folder,
    version,
    faults=(),
    levels=(0, 1, 2, 3),
    *,
    rejects="",
    crashes="",
    text=True,
    mark="",
    answering="",
    newest="",
    only_with="",
    unknown="",
    kernels=1,
):
    """Write a compiler with planted bugs and return its path.

    Parameters
    ----------
    folder
        Where; it is made.
    version
        What it says it is, such as "3.0".
    faults
        Names of planted faults of the PTX.
    levels
        -O levels at which it has them.
    rejects, crashes
        Text of instructions that it does not survive.
    text
        Whether it writes PTX in place of machine code.
    mark
        What its machine code ends with.
    answering
        Who rewrites for it (`answering.address`); "": it does so itself, which takes longer.
    newest
        The newest PTX ISA version that it reads; "": any.
    only_with
        An option without which it has no bugs.
    unknown
        An option that it does not know.
    kernels
        Least number of kernels in a module of which it has the bugs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    configuration = folder / "planted.row"
    row = {
        "version": version, "faults": tuple(faults), "levels": tuple(levels),
        "rejects": rejects, "crashes": crashes, "text": text, "mark": mark,
        "answering": answering, "newest": newest, "only_with": only_with,
        "unknown": unknown, "kernels": kernels,
    }  # fmt: skip
    configuration.write_text(repr(row))
    program = folder / "ptxas"
    paths = f"{TESTS.parent}:{TESTS / 'fuzz'}"
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH='{paths}'${{PYTHONPATH:+:$PYTHONPATH}} "
        f"exec '{sys.executable}' -S '{STAND_IN}' '{configuration.absolute()}' \"$@\"\n"
    )
    program.chmod(0o755)
    return program
