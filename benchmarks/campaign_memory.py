"""Resident memory of a campaign's processes over time, on the simulated device with faults.

Runs `warpfuzz run --runner sim` with several planted faults, looks at the resident set of the
coordinator and of every process that it started, and compares the last quarter of the time with
the second: the first is for caches that fill up. Workers that are replaced count as new processes.
Prints one JSON object for each look, and at the end one with the growth of each process, as a
ratio and in MiB an hour. Usage:

    python benchmarks/campaign_memory.py [--seconds S] [--workers N] [--only PATTERN]
        [--fault NAME ...]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

import psutil

FAULTS = ("accumulator-ignored", "trans-added", "store-one-row-off", "nan-negative")
_LOOK_SECONDS = 5.0
_MIB = 1 << 20


def main() -> None:
    """Run the campaign, look at it, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="*")
    parser.add_argument("--fault", nargs="*", default=list(FAULTS))
    given = parser.parse_args()
    looks: dict[str, list[tuple[float, int]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        words = [
            sys.executable, "-c", "from fuzz.cli import main; main()", "run", "--runner", "sim",
            "--json", "--time", f"{given.seconds:g}", "--workers", str(given.workers),
            "--only", given.only, "--seed", "1", "--corpus", f"{folder}/corpus",
        ]  # fmt: skip
        for fault in given.fault:
            words += ["--fault", fault]
        began = time.monotonic()
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as campaign:
            while campaign.poll() is None and time.monotonic() - began < given.seconds:
                time.sleep(_LOOK_SECONDS)
                now = time.monotonic() - began
                sizes = _sizes(campaign.pid)
                for name, size in sizes.items():
                    looks[name].append((now, size))
                mib = {name: round(size / _MIB, 1) for name, size in sizes.items()}
                print(json.dumps({"seconds": round(now, 1), "mib": mib}), flush=True)
            out, _ = campaign.communicate()
    summary = json.loads(out.splitlines()[-1])["summary"]
    growth = {name: _growth(one, given.seconds) for name, one in looks.items()}
    print(
        json.dumps(
            {
                "cases": summary["cases"],
                "programs": summary["programs"]["compiled"],
                "findings": len(summary["findings"]),
                "growth": {name: one for name, one in growth.items() if one is not None},
            }
        )
    )


def _sizes(pid: int) -> dict[str, int]:
    """Return the resident set of the coordinator and of its children, in bytes, by name."""
    found = {}
    try:
        coordinator = psutil.Process(pid)
        found["coordinator"] = coordinator.memory_info().rss
        for child in coordinator.children(recursive=True):
            found[f"process {child.pid}"] = child.memory_info().rss
    except psutil.NoSuchProcess:
        pass  # it has just ended
    return found


def _growth(looks: list[tuple[float, int]], seconds: float) -> dict[str, float] | None:
    """Return how much larger a process is in the last quarter of the time than in the second."""
    quarters: list[list[int]] = [[], [], [], []]
    for moment, size in looks:
        quarters[min(3, int(4 * moment / seconds))].append(size)
    if not quarters[1] or not quarters[3]:
        return None
    early, late = statistics.median(quarters[1]), statistics.median(quarters[3])
    hours = seconds / 2 / 3600
    return {"ratio": round(late / early, 4), "mib_an_hour": round((late - early) / _MIB / hours, 1)}


if __name__ == "__main__":
    main()
