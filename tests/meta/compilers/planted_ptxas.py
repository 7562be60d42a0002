"""Makes a ptxas with a bug of a certain version, for machines with a ptxas and for those without.

`planted_ptxas` writes such a compiler as one executable file (what it does stands in
`stand_in_ptxas`). `python planted_ptxas.py --real PTXAS --make FOLDER --fault NAME --from 3
--count 5 --levels 2,3` makes a folder of versions of which those from the third on have the bug.
"""

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
    real=None,
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
    real
        A ptxas; None: everything is accepted.
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
        "real": None if real is None else str(Path(real).absolute()), "answering": answering,
        "newest": newest, "only_with": only_with, "unknown": unknown, "kernels": kernels,
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


def make(arguments):
    """Make a folder of versions, some with a bug."""
    import argparse

    parser = argparse.ArgumentParser(description=make.__doc__)
    parser.add_argument("--make", type=Path, required=True, help="folder")
    parser.add_argument("--real", type=Path, help="a ptxas")
    parser.add_argument("--fault", action="append", required=True)
    parser.add_argument("--from", type=int, default=3, dest="first", help="first bad version")
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--levels", default="2,3")
    parser.add_argument("--text", action="store_true", help="for the simulated device")
    given = parser.parse_args(arguments)
    levels = [int(level) for level in given.levels.split(",")]
    for number in range(1, given.count + 1):
        faults = given.fault if number >= given.first else []
        folder = given.make / str(number)
        print(
            planted_ptxas(folder, f"{number}.0", faults, levels, real=given.real, text=given.text)
        )
    return 0


if __name__ == "__main__":
    sys.exit(make(sys.argv[1:]))
