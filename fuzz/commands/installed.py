"""`warpfuzz compilers` and `warpfuzz doctor`: what is here, and fetching compilers."""

from __future__ import annotations

import ctypes.util
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.text import Text

from fuzz import warpfuzz_version
from fuzz.options.operating import CompilersFetch, CompilersList, Doctor
from fuzz.output import Report, ReportColumn, console, emit, fetcher, rows_of, say
from oracle.errors import InfrastructureError, UsageError
from oracle.models import Confidence, model_for
from runners.assemblers.assembler import Assembler
from runners.assemblers.disassembly import WHEEL, find_disassembler
from runners.compilers import discover_assemblers, discover_front_ends, fetched_compiler
from runners.front_ends.protocol import FrontEndToolchain
from runners.processes import run_tool


def list_compilers(options: CompilersList) -> None:
    """Print every assembler with its version, highest `.version` and targets; every front end."""
    found = discover_assemblers()
    rows, problems = [], list(found.problems)
    for assembler in found.assemblers:
        try:
            rows.append(_row(assembler))
        except InfrastructureError as error:
            # It tells its version, but does not work; others may.
            problems.append(str(error))
    ptxas = (
        ReportColumn("ptxas", "version"),
        ReportColumn("PTX ISA up to", "highest_ptx_version"),
        ReportColumn("targets", lambda row: " ".join(name[3:] for name in row["targets"])),
        ReportColumn("from", "origin"),
        ReportColumn("path"),
    )
    front_ends = (ReportColumn("front end", "front_end"), ReportColumn("path"))
    for columns, some, what, name in (
        (ptxas, rows, "ptxas", "13.5"),
        (front_ends, [*map(_row, discover_front_ends())], "front end", "llvm:22"),
    ):
        nothing = f"No {what} is here; fetch one with `warpfuzz compilers fetch {name}`."
        sentences = () if some else (nothing,)
        Report(columns=columns, rows=rows_of(some), sentences=sentences).write(json=options.json)
    for problem in problems:
        say(f"warpfuzz: {problem}", stderr=True)


def fetch_compilers(options: CompilersFetch) -> None:
    """Fetch assemblers and front ends one after the other, with a progress bar."""
    with fetcher(fetched_compiler, json=options.json) as fetch_one:
        for name in options.versions:
            found = fetch_one(name)
            if options.json:
                emit(_row(found))
            else:
                console().print(f"{found.named} is at {found.path}")


def _row(found: Assembler | FrontEndToolchain) -> dict[str, object]:
    if not isinstance(found, Assembler):
        return {"front_end": found.spelled, "version": found.version, "path": found.path}
    return {
        "version": found.version,
        "release": found.release,
        "highest_ptx_version": str(found.highest_version),
        "targets": list(found.targets),
        "origin": found.origin.value,
        "path": str(found.path),
    }


_SECONDS = 20  # time for nvidia-smi, which waits for the driver to load on a machine that was idle
_FRONT_ENDS = {
    "llvm": ("LLVM's NVPTX back end", "llvm:20`, or pip install llvmlite"),
    "nvcc": ("CUDA C++ through nvcc", "nvcc:13.0`, or the CUDA toolkit"),
    "nvrtc": ("CUDA C++ through NVRTC", "nvrtc:13.0`"),
}
"""By the name of a front end: what it is, and what `compilers fetch` is given for it."""
_PACKAGES = {
    "hypothesis": "drawing and shrinking cases",
    "numpy": "the value oracle and the simulated device",
    "ml_dtypes": "bf16 and other formats that NumPy lacks",
    "rich": "the console",
    "pycuda": "running programs on a CUDA GPU (needs nvcc)",
    "nvidia-ml-py": "clocks, temperature and ECC errors of the GPU beside each finding",
    "ray": "campaigns and screening on the GPUs of many hosts (--fleet)",
    "prometheus-client": "figures of a campaign for Prometheus (--metrics)",
}
"""What packages give."""
Part = tuple[str, bool, str, str, str]
"""Name, whether it is here, what was found, what it gives, and how to get it."""


def examine(options: Doctor) -> None:
    """Print every part, those that are missing with the command that installs them."""
    names = ("name", "here", "found", "gives", "install")
    columns = (
        ReportColumn(
            "", lambda row: Text("yes", "legal") if row["here"] else Text("no", "undefined")
        ),
        ReportColumn("part", "name"),
        ReportColumn("found"),
        ReportColumn("what it gives", "gives"),
        ReportColumn("to install", lambda row: "" if row["here"] else row["install"]),
    )
    rows = rows_of(dict(zip(names, part, strict=True)) for part in _parts())
    Report(columns=columns, rows=rows).write(json=options.json)


def _parts() -> Iterator[Part]:
    here = f"{warpfuzz_version()} on Python {platform.python_version()} ({sys.platform})"
    yield "warpfuzz", True, here, "the oracle, legality, and campaigns", ""
    yield from map(_package, _PACKAGES)
    assemblers = discover_assemblers()
    found = ", ".join(one.version for one in assemblers.assemblers)
    gives = "campaigns that compare the ISA with NVIDIA's assembler; compiling for a GPU"
    install = "`warpfuzz compilers fetch 13.5`, or `pip install nvidia-cuda-nvcc`"
    yield "ptxas", bool(found), found or "none", gives, install
    for problem in assemblers.problems:
        yield "ptxas", False, problem, "nothing until that is fixed", ""
    disassembler = find_disassembler()
    found = "" if disassembler is None else disassembler.version
    gives = "the machine code of a right and a wrong build beside each other, in `repro`"
    yield "nvdisasm", bool(found), found or "none", gives, f"pip install {WHEEL}"
    front_ends = discover_front_ends()
    for name, (words, fetched) in _FRONT_ENDS.items():
        found = ", ".join(one.version for one in front_ends if one.kind == name)
        gives = f"campaigns on {words} (--front-end {name})"
        yield name, bool(found), found or "none", gives, f"`warpfuzz compilers fetch {fetched}"
    library = ctypes.util.find_library("cuda")
    device = Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None
    install = "the driver of your system's packages; warpfuzz runs without a GPU, too"
    there = library is not None and device
    yield "NVIDIA driver", there, library or "no libcuda", "a GPU to run on", install
    yield from _devices()


def _package(name: str) -> Part:
    # Looked for, not imported: PyCUDA is imported nowhere but in the runner's child.
    try:
        found = version(name)
    except PackageNotFoundError:
        found = ""
    return name, bool(found), found or "not installed", _PACKAGES[name], f"pip install {name}"


def _devices() -> Iterator[Part]:
    """Find the GPUs that the driver's own tool lists; without it there is nothing to say."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return
    try:
        query = "--query-gpu=name,driver_version,compute_cap"
        listed = run_tool([tool, query, "--format=csv,noheader"], deadline=_SECONDS)
        lines = listed.text.splitlines()
        said = None
        if listed.failed:
            said = "\n".join([*lines, listed.errors]).strip() or listed.ending
    except OSError as error:
        said = str(error)
    if said is not None:
        mend = "what nvidia-smi asks for; often the driver has to be loaded again"
        yield "GPU", False, f"nvidia-smi: {said}", "a device to test", mend
        return
    for line in lines:
        name, driver, capability = (*(part.strip() for part in line.split(",")), "", "")[:3]
        found = f"{name}, driver {driver}, compute capability {capability}"
        yield "GPU", True, found, "a device to test", ""
        gives = f"the bits that {name} is expected to return"
        install = "`warpfuzz measure --output FILE`, then --model FILE"
        try:
            model = model_for(f"sm_{capability.replace('.', '')}")
        except UsageError as error:
            yield "model", False, str(error), gives, ""
        else:
            measured = model.confidence is Confidence.MEASURED
            yield "model", measured, f"{model.name}: {model.confidence}", gives, install
