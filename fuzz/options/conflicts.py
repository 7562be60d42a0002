"""Which options contradict each other, and what is said then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fuzz.options.declared import Options
from oracle.errors import UsageError

_NO_GPU = (
    "--device {value} names a GPU, and the runner is {o.runner}; leave it out, or choose --runner "
    "cuda"
)
_OF_SEARCHES = "seeds limit baseline_limit contents"
"""Options of `bench` that only the search for planted faults uses."""
_NO_FLEET = "{option} {value} is of a --fleet, and there is none; leave it out, or name one"
CONFLICTS: Mapping[str, tuple[tuple[str, Callable[[Any], object], str], ...]] = {
    "run": (
        (
            "new", lambda o: o.resume,
            "--resume goes on with a campaign, and --new begins one; leave one out",
        ),
        (
            "disassembler", lambda o: o.compilers is None,
            "--disassembler {value} shows which machine instructions compilers choose; say with "
            "--compilers which, or leave it out",
        ),
        (
            "variants", lambda o: o.compilers is None,
            "--variant {value} is of compilers that are compared; say with --compilers which, or "
            "name one with its options: --assembler 13.5+maxrregcount=32",
        ),
        ("gpus repeat", lambda o: o.fleet is None, _NO_FLEET),
    ),
    # When the runner is known, and what a resumed campaign was begun with.
    "campaign": (
        (
            "assemblers", lambda o: o.matrix,
            "--compilers, or several of --front-end, name all the compilers there are; leave "
            "--assembler out",
        ),
        (
            "faults ptx_pass", lambda o: o.matrix,
            "planted faults and PTX passes change what every compiler gets or writes, and they are "
            "compared on the same program; leave --fault and --ptx-pass out",
        ),
        (
            "front_ends", lambda o: o.compilers is not None,
            "--compilers names assemblers, which are compared on the same PTX, and --front-end "
            "what writes PTX; leave one of the two out",
        ),
        (
            "include_undefined", lambda o: o.matrix,
            "--include-undefined runs programs whose results nobody promises, and --compilers "
            "reports every result that differs; leave one of the two out",
        ),
        (
            "front_ends", lambda o: o.matrix and o.runner == "ptxas",
            "--front-end writes programs that run, and --runner ptxas runs none; choose --runner "
            "sim or cuda",
        ),
        (
            "faults ptx_pass front_ends levels", lambda o: not o.matrix and o.runner == "ptxas",
            "--fault, --ptx-pass, --front-end and --opt change programs that run, and --runner "
            "ptxas only asks whether instructions are accepted; choose --runner sim or cuda",
        ),
        (
            "device_reference",
            lambda o: o.device_reference and (o.matrix or o.runner == "ptxas"),
            "{option} compares one compiler's programs with a reference where they run; leave it "
            "out, or choose --runner cuda or sim, without --compilers",
        ),
        (
            "model", lambda o: o.runner == "ptxas",
            "--model judges what programs compute, and --runner ptxas runs none; leave it out, or "
            "choose --runner sim or cuda",
        ),
        (
            "include_undefined", lambda o: o.runner == "ptxas",
            "--include-undefined is for campaigns that run programs, and --runner ptxas only asks "
            "whether instructions are accepted; leave it out, or choose --runner sim or cuda",
        ),
        (
            "assemblers", lambda o: o.runner != "ptxas" and len(o.assemblers) > 1,
            "{count} assemblers are given, and --runner {o.runner} compiles with one; run a "
            "campaign for each",
        ),
        (
            "devices", lambda o: o.fleet is not None,
            "--device {value} names a GPU of this machine, and --fleet takes all that the cluster "
            "has; leave one of the two out",
        ),
        ("devices", lambda o: o.runner != "cuda", _NO_GPU),
        (
            "devices", lambda o: o.matrix and len(o.devices) > 1,
            "--device names {count} GPUs, and compilers are compared on one and the same; name "
            "one",
        ),
    ),
    "module of replay": (
        (
            "baseline junit known at_least runner target level faults ptx_pass variant",
            lambda o: True,
            "{option} is for findings, and {o.path} is a module by itself, which is only given to "
            "ptxas; leave it out, or make a case of it (`warpfuzz corpus import FOLDER`)",
        ),
    ),
    "bench": (
        (
            "images", lambda o: not o.lines,
            "--images is how many a campaign of --lines has; add --lines, or leave it",
        ),
        (
            f"{_OF_SEARCHES} coverage programs", lambda o: o.lines,
            "{option} means nothing for --lines, which runs one campaign for each fault; leave one "
            "of the two out",
        ),
        (
            "programs", lambda o: not o.coverage,
            "--programs is how many --coverage draws; add --coverage, or leave it",
        ),
        (
            f"only {_OF_SEARCHES}", lambda o: o.coverage,
            "{option} is about planted faults, and --coverage plants none; leave one of the two "
            "out",
        ),
    ),
    "measure": (
        (
            "assembler", lambda o: o.compilers is not None,
            "--assembler {value} names one compiler and --compilers {o.compilers} several; leave "
            "one of the two out",
        ),
    ),
    "screen": (
        ("gpus", lambda o: True, _NO_FLEET),
        ("devices", lambda o: o.runner != "cuda", _NO_GPU),
        (
            "fresh", lambda o: o.path is not None or o.preflight or o.pattern != "steady",
            "--fresh makes images on the device, as many as it can; leave it out, or leave out "
            "SET, --preflight and --pattern",
        ),
    ),
    "screen --fleet": (
        (
            "devices preflight fresh report metrics", lambda o: True,
            "{option} is for the GPUs of one machine, and --fleet takes all of a cluster; leave "
            "one of the two out",
        ),
    ),
}  # fmt: skip
"""By command: options, where they contradict others, and what is said then.

In a sentence, {option} is the first of these options that was given, {value} its value (the first
of several, of which there are {count}), and {o} all options.
"""


def check_conflicts(options: Options, command: str) -> None:
    """Raise UsageError for the first row of `CONFLICTS` whose options were given where it holds."""
    for names, holds, sentence in CONFLICTS[command]:
        given = [name for name in names.split() if options.is_set(name)]
        if given and holds(options):
            name, value = options.spelled(given[0]), getattr(options, given[0])
            several = value if isinstance(value, tuple) else (value,)
            raise UsageError(
                sentence.format(
                    option=name,
                    value=several[0],
                    count=len(several),
                    o=options,
                )
            )
