"""All compilers at all levels over many drawn programs: what differs, and how long it takes.

Runs `warpfuzz run --compilers` and prints its summary as a table in Markdown. Runs offline, with
whatever assemblers a folder holds (files `ptxas*`, or one in each folder in it).

    python benchmarks/compiler_matrix_speed.py --compilers FOLDER[,driver] [--runner cuda]
        [--programs 1000] [--opt 0,1,2,3] [--seconds 220] [--workers N] [--output table.md]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

IMAGES = {"cuda": 256, "sim": 32, "ptxas": 1}
"""Images of each program (fuzz/checks/compilers.py)."""
COUNTERS = ("programs", "binaries", "distinct", "compared", "differences", "wrong", "uncompiled")


def main() -> None:
    """Print the table, and write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compilers", default="installed")
    parser.add_argument("--opt", default="0,1,2,3", help="-O levels")
    parser.add_argument("--runner", choices=IMAGES, default="cuda")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=220.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--ptx-version", default="7.8")
    parser.add_argument("--only", default="*")
    parser.add_argument("--output", type=Path, help="file for the table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [
                sys.executable, "-c", "from fuzz.cli import main; main()", "run",
                "--runner", options.runner, "--compilers", options.compilers,
                "--opt", options.opt, "--seed", str(options.seed), "--only", options.only,
                "--cases", str(options.programs * IMAGES[options.runner]),
                "--time", f"{options.seconds:.0f}", "--workers", str(options.workers),
                "--target", options.target, "--ptx-version", options.ptx_version,
                "--corpus", folder, "--json",
            ],
            stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    last = json.loads(ended.stdout.splitlines()[-1])
    text = "\n".join(_table(last["summary"])) + "\n"
    print(text)
    if options.output is not None:
        options.output.write_text(text)


def _table(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the report."""
    yield (
        f"{summary['device'] or 'no device'}; {summary['target']}, PTX ISA "
        f"{summary['ptx_version']}; seed {summary['seed']}; {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; {len(summary['members'])} members"
    )
    yield ""
    yield f"| {' | '.join(COUNTERS)} | seconds |"
    yield f"|{'---|' * (len(COUNTERS) + 1)}"
    counts = " | ".join(f"{summary[name]:,}" for name in COUNTERS)
    yield f"| {counts} | {summary['seconds']:.0f} |"
    yield ""
    for sentence in summary["left_out"]:
        yield f"- {sentence}"
    for finding in summary["findings"]:
        yield f"- {finding['verdict']}: {finding['family']}"


if __name__ == "__main__":
    main()
