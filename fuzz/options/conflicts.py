"""Which options contradict each other, and what is said then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fuzz.options.declared import Options
from oracle.errors import UsageError

_OF_SEARCHES = "seeds limit baseline_limit contents"
"""Options of `bench` that only the search for planted faults uses."""
_RUNS_NONE = "is about programs that run, and --runner ptxas runs none; choose --runner sim or cuda"
_NO_GPU = "{value} names a GPU, and the runner is {o.runner}; leave it out, or choose --runner cuda"
_NO_FLEET = "{value} is of a --fleet, and there is none; leave it out, or name one"
_OF_MATRIX = "and --compilers compares compilers on the same program; leave one of the two out"
CONFLICTS: Mapping[str, tuple[tuple[str, Callable[[Any], object], str], ...]] = {
    "run": (
        ("new", lambda o: o.resume,
         "begins a campaign, and --resume goes on with one; leave one of the two out"),
        ("variants", lambda o: o.compilers is None,
         "{value} is of compilers that are compared; say with --compilers which, or name one with "
         "its options: --assembler 13.5+maxrregcount=32"),
        ("gpus repeat", lambda o: o.fleet is None, _NO_FLEET),
    ),
    # When the runner is known, and what a resumed campaign was begun with.
    "campaign": (
        ("assemblers", lambda o: o.matrix, f"names a compiler, {_OF_MATRIX}"),
        ("faults ptx_pass", lambda o: o.matrix,
         f"changes what every compiler gets or writes, {_OF_MATRIX}"),
        ("front_ends", lambda o: o.compilers is not None, f"names what writes PTX, {_OF_MATRIX}"),
        ("include_undefined", lambda o: o.matrix,
         f"runs programs whose results nobody promises, {_OF_MATRIX}"),
        ("front_ends", lambda o: o.matrix and o.runner == "ptxas", _RUNS_NONE),
        ("faults ptx_pass front_ends levels", lambda o: not o.matrix and o.runner == "ptxas",
         _RUNS_NONE),
        ("device_reference", lambda o: o.device_reference and (o.matrix or o.runner == "ptxas"),
         "is of one compiler's programs that run; leave it out, or choose --runner cuda or sim, "
         "without --compilers"),
        ("model include_undefined", lambda o: o.runner == "ptxas", _RUNS_NONE),
        ("assemblers", lambda o: o.runner != "ptxas" and len(o.assemblers) > 1,
         "is given {count} times, and --runner {o.runner} compiles with one; run a campaign for "
         "each"),
        ("devices", lambda o: o.fleet is not None,
         "{value} names a GPU of this machine, and --fleet takes all that the cluster has; leave "
         "one of the two out"),
        ("devices", lambda o: o.runner != "cuda", _NO_GPU),
        ("devices", lambda o: o.matrix and len(o.devices) > 1,
         "names {count} GPUs, and compilers are compared on one and the same; name one"),
    ),
    "module of replay": (
        ("baseline junit known at_least runner target level faults ptx_pass variant",
         lambda o: True,
         "is for findings, and {o.path} is a module by itself, which is only given to ptxas; leave "
         "it out, or make a case of it (`warpfuzz corpus import FOLDER`)"),
    ),
    "bench": (
        ("images", lambda o: not o.lines,
         "is how many a campaign of --lines has; add --lines, or leave it"),
        (f"{_OF_SEARCHES} coverage programs", lambda o: o.lines,
         "means nothing for --lines, which runs one campaign for each fault; leave one of the two "
         "out"),
        ("programs", lambda o: not o.coverage,
         "is how many --coverage draws; add --coverage, or leave it"),
        (f"only {_OF_SEARCHES}", lambda o: o.coverage,
         "is about planted faults, and --coverage plants none; leave one of the two out"),
    ),
    "measure": (
        ("assembler", lambda o: o.compilers is not None,
         "{value} names one compiler and --compilers {o.compilers} several; leave one of the two "
         "out"),
    ),
    "screen": (
        ("gpus", lambda o: True, _NO_FLEET),
        ("devices", lambda o: o.runner != "cuda", _NO_GPU),
        ("fresh", lambda o: o.path is not None or o.preflight or o.pattern != "steady",
         "makes images on the device, as many as it can; leave it out, or leave out SET, "
         "--preflight and --pattern"),
    ),
    "screen --fleet": (
        ("devices preflight fresh report metrics", lambda o: True,
         "is for the GPUs of one machine, and --fleet takes all of a cluster; leave one of the two "
         "out"),
    ),
}  # fmt: skip
"""By command: options, where they contradict others, and what is said then of the first of them
that was given: {value} is its value (the first of several, of which there are {count}), and {o} are
all options."""


def check_conflicts(options: Options, command: str) -> None:
    """Raise UsageError for the first row of `CONFLICTS` whose options were given where it holds."""
    for names, holds, sentence in CONFLICTS[command]:
        for name in names.split():
            if options.is_set(name) and holds(options):
                value = getattr(options, name)
                several = value if isinstance(value, tuple) else (value,)
                said = sentence.format(value=several[0], count=len(several), o=options)
                raise UsageError(f"{options.spelled(name)} {said}")
