"""`warpfuzz compilers` and `warpfuzz doctor`: what is here, and fetching compilers."""

from __future__ import annotations

import ctypes.util
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from subprocess import TimeoutExpired, run
from typing import TypedDict

from rich.text import Text

from fuzz import warpfuzz_version
from fuzz.options.operating import CompilersFetch, CompilersList, Doctor
from fuzz.output import console, emit, fetcher, say
from fuzz.output.report import Report, ReportColumn, rows_of
from oracle.errors import InfrastructureError, UsageError
from oracle.models import Confidence, model_for
from runners.assemblers.assembler import Assembler
from runners.assemblers.disassembly import WHEEL, find_disassembler
from runners.compilers import discover_assemblers, discover_front_ends, fetched_compiler
from runners.front_ends.protocol import FrontEndToolchain


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
    front_ends = discover_front_ends()
    Report(
        columns=_PTXAS,
        rows=rows_of(rows),
        sentences=()
        if rows
        else ["No ptxas is here; fetch one with `warpfuzz compilers fetch 13.5`."],
    ).write(json=options.json)
    Report(
        columns=(ReportColumn("front end", "front_end"), ReportColumn("path")),
        rows=rows_of(map(_front_end_row, front_ends)),
        sentences=()
        if front_ends
        else ["No front end is here; fetch one with `warpfuzz compilers fetch llvm:22`."],
    ).write(json=options.json)
    for problem in problems:
        say(f"warpfuzz: {problem}", stderr=True)


_PTXAS = (
    ReportColumn("ptxas", "version"),
    ReportColumn("PTX ISA up to", "highest_ptx_version"),
    ReportColumn(
        "targets", lambda row: " ".join(name.removeprefix("sm_") for name in row["targets"])
    ),
    ReportColumn("from", "origin"),
    ReportColumn("path"),
)


def _front_end_row(one: FrontEndToolchain) -> dict[str, str]:
    return {"front_end": one.spelled, "version": one.version, "path": one.path}


def fetch_compilers(options: CompilersFetch) -> None:
    """Fetch assemblers and front ends one after the other, with a progress bar."""
    with fetcher(fetched_compiler, json=options.json) as fetch_one:
        for name in options.versions:
            found = fetch_one(name)
            if options.json:
                emit(_front_end_row(found) if isinstance(found, FrontEndToolchain) else _row(found))
            else:
                console().print(f"{found.named} is at {found.path}")


class _PartRow(TypedDict):
    version: str
    release: str
    highest_ptx_version: str
    targets: list[str]
    origin: str
    path: str


def _row(assembler: Assembler) -> _PartRow:
    return {
        "version": assembler.version,
        "release": assembler.release,
        "highest_ptx_version": str(assembler.highest_version),
        "targets": list(assembler.targets),
        "origin": assembler.origin.value,
        "path": str(assembler.path),
    }


_SECONDS = 20
"""Time for nvidia-smi, which waits for the driver to load on a machine that was idle."""


@dataclass(frozen=True)
class InstalledPart:
    """One thing that warpfuzz can use."""

    name: str
    here: bool
    found: str
    """What was found, or that nothing was."""
    gives: str
    install: str = ""
    """How to get it, where it is missing."""


def examine(options: Doctor) -> None:
    """Print every part, those that are missing with the command that installs them."""
    Report(columns=_PARTS, rows=rows_of(map(asdict, _parts()))).write(json=options.json)


_PARTS = (
    ReportColumn("", lambda row: Text("yes", "legal") if row["here"] else Text("no", "undefined")),
    ReportColumn("part", "name"),
    ReportColumn("found"),
    ReportColumn("what it gives", "gives"),
    ReportColumn("to install", lambda row: "" if row["here"] else row["install"]),
)


_FRONT_ENDS = {
    "llvm": (
        "LLVM's NVPTX back end",
        "`warpfuzz compilers fetch llvm:20`, or pip install llvmlite",
    ),
    "nvcc": ("CUDA C++ through nvcc", "`warpfuzz compilers fetch nvcc:13.0`, or the CUDA toolkit"),
    "nvrtc": ("CUDA C++ through NVRTC", "`warpfuzz compilers fetch nvrtc:13.0`"),
}
"""By the name of a front end: what it is, and how to get it."""
_NEEDED = {
    "hypothesis": "drawing and shrinking cases",
    "numpy": "the value oracle and the simulated device",
    "ml_dtypes": "bf16 and other formats that NumPy lacks",
    "rich": "the console",
}
_OPTIONAL = {
    "pycuda": "running programs on a CUDA GPU",
    "nvidia-ml-py": "clocks, temperature and ECC errors of the GPU beside each finding",
    "ray": "campaigns and screening on the GPUs of many hosts (--fleet)",
    "prometheus-client": "figures of a campaign for Prometheus (--metrics)",
}
"""What packages give."""
_MODULES = {"nvidia-ml-py": "pynvml", "prometheus-client": "prometheus_client"}
"""Import names of packages that are imported by another name than their own."""


def _parts() -> Iterator[InstalledPart]:
    here = f"{warpfuzz_version()} on Python {platform.python_version()} ({sys.platform})"
    yield InstalledPart("warpfuzz", True, here, "the oracle, legality, and campaigns")
    yield from map(_package, _NEEDED.items())
    assemblers = discover_assemblers()
    yield InstalledPart(
        "ptxas",
        bool(assemblers.assemblers),
        ", ".join(one.version for one in assemblers.assemblers) or "none",
        "campaigns that compare the ISA with NVIDIA's assembler; compiling for a GPU",
        "`warpfuzz compilers fetch 13.5`, or `pip install nvidia-cuda-nvcc`",
    )
    for problem in assemblers.problems:
        yield InstalledPart("ptxas", False, problem, "nothing until that is fixed")
    disassembler = find_disassembler()
    yield InstalledPart(
        "nvdisasm",
        disassembler is not None,
        "none" if disassembler is None else disassembler.version,
        "comparing the machine code of several compilers in campaigns",
        f"pip install {WHEEL}",
    )
    front_ends = discover_front_ends()
    for name, (words, install) in _FRONT_ENDS.items():
        versions = [one.version for one in front_ends if one.kind == name]
        gives = f"campaigns on {words} (--front-end {name})"
        yield InstalledPart(name, bool(versions), ", ".join(versions) or "none", gives, install)
    library = ctypes.util.find_library("cuda")
    device = Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None
    yield InstalledPart(
        "NVIDIA driver",
        library is not None and device,
        library or "no libcuda",
        "a GPU to run on",
        "the driver of your system's packages; warpfuzz runs without a GPU, too",
    )
    yield from _devices()
    yield from map(_package, _OPTIONAL.items())


def _package(row: tuple[str, str]) -> InstalledPart:
    # Looked for, not imported: PyCUDA is imported nowhere but in the runner's child.
    name, gives = row
    try:
        found = version(name)
        here = find_spec(_MODULES.get(name, name)) is not None
    except PackageNotFoundError:
        found, here = "not installed", False
    needs = " (needs nvcc)" if name == "pycuda" else ""
    return InstalledPart(name, here, found, gives, f"pip install {name}{needs}")


def _devices() -> Iterator[InstalledPart]:
    """Find the GPUs that the driver's own tool lists; without it there is nothing to say."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return
    try:
        listed = run(
            [tool, "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
        said = (listed.stdout + listed.stderr).strip() if listed.returncode else None
    except (OSError, TimeoutExpired) as error:
        said = str(error)
    if said is not None:
        mend = "what nvidia-smi asks for; often the driver has to be loaded again"
        yield InstalledPart("GPU", False, f"nvidia-smi: {said}", "a device to test", mend)
        return
    for line in listed.stdout.splitlines():
        name, driver, capability = (*(part.strip() for part in line.split(",")), "", "")[:3]
        found = f"{name}, driver {driver}, compute capability {capability}"
        yield InstalledPart("GPU", True, found, "a device to test")
        yield _model(f"sm_{capability.replace('.', '')}", name)


def _model(target: str, device: str) -> InstalledPart:
    try:
        model = model_for(target)
    except UsageError as error:
        return InstalledPart("model", False, str(error), "expected bits")
    return InstalledPart(
        "model",
        model.confidence is Confidence.MEASURED,
        f"{model.name}: {model.confidence}",
        f"the bits that {device} is expected to return",
        "`warpfuzz measure --output FILE`, then --model FILE",
    )
