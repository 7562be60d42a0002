"""A ptxas with a bug of a certain version, for machines with a ptxas and for those without.

`python planted_ptxas.py CONFIGURATION ARGUMENTS...` does what `ptxas ARGUMENTS...` would, but
rewrites the PTX with planted faults before. CONFIGURATION is a JSON file:

version  what --version tells, such as "3.0"
faults   names of planted faults (`runners.faults`)
levels   -O levels at which they are there
rejects  text of an instruction that it rejects at these levels; "" for none
crashes  text of an instruction that kills it at these levels; "" for none
real     path of a real ptxas that assembles what was rewritten; null: everything is accepted
text     whether to write the PTX that was assembled in place of machine code, for the simulated
         device; false: machine code, for a GPU

`planted_ptxas` writes such a compiler as one executable file. Without arguments of Python,
`python planted_ptxas.py --make FOLDER --real PTXAS --fault NAME --from 3 --count 5 --levels 2,3`
makes a folder of versions of which those from the third on have the bug.
"""

# What a process does not need is imported late: hundreds of them are started.

import json
import os
import re
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TARGETS = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90")
DEFAULT_LEVEL = 3  # of ptxas (ptxas --help, 13.0)
CUBIN = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xbe\x00" + bytes(60)


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
    """
    folder.mkdir(parents=True, exist_ok=True)
    configuration = folder / "planted.json"
    row = {
        "version": version, "faults": list(faults), "levels": list(levels),
        "rejects": rejects, "crashes": crashes,
        "real": None if real is None else str(Path(real).absolute()), "text": text,
    }  # fmt: skip
    configuration.write_text(json.dumps(row))
    program = folder / "ptxas"
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH='{ROOT}'${{PYTHONPATH:+:$PYTHONPATH}} "
        f"exec '{sys.executable}' -S '{Path(__file__).absolute()}' "
        f"'{configuration.absolute()}' \"$@\"\n"
    )
    program.chmod(0o755)
    return program


def level_of(arguments):
    given = [match[1] for one in arguments if (match := re.fullmatch(r"-O(\d)", one))]
    return int(given[-1]) if given else DEFAULT_LEVEL


def rewritten(ptx, names, kept):
    """Return PTX with faults; what was rewritten once is kept in a folder."""
    if not names:
        return ptx
    import hashlib

    there = kept / hashlib.sha256("\0".join([*names, ptx]).encode()).hexdigest()
    if there.exists():
        return there.read_text()
    import site

    site.main()  # left out by -S
    from runners.faults import by_name

    for name in names:
        ptx = by_name(name).rewrite(ptx)
    kept.mkdir(exist_ok=True)
    whole = there.with_suffix(f".{os.getpid()}")
    whole.write_text(ptx)
    whole.rename(there)
    return ptx


def assemble(row, arguments, kept):
    source = next(one for one in arguments if one.endswith(".ptx"))
    output = Path(arguments[arguments.index("-o") + 1] if "-o" in arguments else "elf.o")
    ptx = Path(source).read_text()
    if level_of(arguments) in row["levels"]:
        if row["crashes"] and row["crashes"] in ptx:
            os.kill(os.getpid(), signal.SIGSEGV)
        if row["rejects"] and row["rejects"] in ptx:
            line = 1 + next(n for n, one in enumerate(ptx.split("\n")) if row["rejects"] in one)
            print(f"ptxas {source}, line {line}; error   : Not supported", file=sys.stderr)
            return 255
        ptx = rewritten(ptx, row["faults"], kept)
    if row["real"] is not None:
        import subprocess
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            changed = Path(folder, Path(source).name)
            changed.write_text(ptx)
            words = [str(changed) if one == source else one for one in arguments]
            status = subprocess.run([row["real"], *words], check=False).returncode
        if status != 0:
            return status
    if row["text"]:
        output.write_text(ptx)
    elif row["real"] is None:
        output.write_bytes(CUBIN.ljust(100, b"\0") + row.get("mark", "").encode())
    return 0


def main(configuration, arguments):
    row = json.loads(Path(configuration).read_text())
    if "--version" in arguments:
        print(f"Cuda compilation tools, release {row['version']}, V{row['version']}.0")
        return 0
    if "--help" in arguments:
        if row["real"] is not None:
            import subprocess

            return subprocess.run([row["real"], "--help"], check=False).returncode
        print(" ".join(f"'{target}'" for target in TARGETS))
        return 0
    return assemble(row, arguments, Path(configuration).parents[1] / ".rewritten")


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
    if sys.argv[1:2] == ["--make"]:
        sys.exit(make(sys.argv[1:]))
    sys.exit(main(sys.argv[1], sys.argv[2:]))
