"""`warpfuzz doctor`: what is here, and what each missing part would give."""

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

from rich.text import Text

from fuzz import warpfuzz_version
from fuzz.options import Doctor
from fuzz.output import console, emit, table
from oracle.errors import UsageError
from oracle.models import Confidence, model_for
from runners.assemblers.disassembly import WHEEL, find_disassembler
from runners.assemblers.discovery import discover
from runners.front_ends.discovery import discover as discover_front_ends

_SECONDS = 20
"""Time for nvidia-smi, which waits for the driver to load on a machine that was idle."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One thing that warpfuzz can use."""

    name: str
    here: bool
    found: str
    """What was found, or that nothing was."""
    gives: str
    """What it is for."""
    install: str = ""
    """How to get it, where it is missing."""


def examine(options: Doctor) -> None:
    """Print every part, those that are missing with the command that installs them."""
    parts = list(_parts())
    if options.json:
        for part in parts:
            emit(asdict(part))
        return
    shown = table("", "part", "found", "what it gives", "to install")
    for part in parts:
        mark = Text("yes", "legal") if part.here else Text("no", "undefined")
        words = (part.name, part.found, part.gives, "" if part.here else part.install)
        shown.add_row(mark, *words)
    console().print(shown)


def _parts() -> Iterator[Part]:
    yield Part(
        name="warpfuzz",
        here=True,
        found=f"{warpfuzz_version()} on Python {platform.python_version()} ({sys.platform})",
        gives="the oracle, legality, and campaigns",
    )
    for name, gives in _PACKAGES:
        yield _package(name, gives)
    assemblers = discover()
    yield Part(
        name="ptxas",
        here=bool(assemblers.assemblers),
        found=", ".join(one.version for one in assemblers.assemblers) or "none",
        gives="campaigns that compare the ISA with NVIDIA's assembler; compiling for a GPU",
        install="`warpfuzz compilers fetch 13.5`, or `pip install nvidia-cuda-nvcc`",
    )
    for problem in assemblers.problems:
        yield Part(name="ptxas", here=False, found=problem, gives="nothing until it is mended")
    disassembler = find_disassembler()
    yield Part(
        name="nvdisasm",
        here=disassembler is not None,
        found="none" if disassembler is None else disassembler.version,
        gives="notes of changed expansions in campaigns over several compilers",
        install=f"pip install {WHEEL}",
    )
    yield from _front_ends()
    yield _driver()
    yield from _devices()
    yield _package("pycuda", "running programs on a CUDA GPU", "pip install pycuda (needs nvcc)")
    yield _package(
        "nvidia-ml-py", "clocks, temperature and ECC errors of the GPU beside each finding",
        module="pynvml",
    )  # fmt: skip
    yield _package(
        "ray", "campaigns and screening on the GPUs of many hosts (--fleet)"
    )  # fmt: skip
    yield _package(
        "prometheus-client", "figures of a campaign for Prometheus (--metrics)",
        module="prometheus_client",
    )  # fmt: skip


_FRONT_ENDS = {
    "llvm": (
        "LLVM's NVPTX back end",
        "`warpfuzz compilers fetch llvm:20`, or pip install llvmlite",
    ),
    "nvcc": ("CUDA C++ through nvcc", "`warpfuzz compilers fetch nvcc:13.0`, or the CUDA toolkit"),
    "nvrtc": ("CUDA C++ through NVRTC", "`warpfuzz compilers fetch nvrtc:13.0`"),
}
"""By the name of a front end: what it is, and how to get it."""


def _front_ends() -> Iterator[Part]:
    here = discover_front_ends()
    for name, (words, install) in _FRONT_ENDS.items():
        versions = [one.version for one in here if one.language == name]
        yield Part(
            name=name,
            here=bool(versions),
            found=", ".join(versions) or "none",
            gives=f"campaigns on {words} (--front-end {name})",
            install=install,
        )


_PACKAGES = (
    ("hypothesis", "drawing and shrinking cases"),
    ("numpy", "the value oracle and the simulated device"),
    ("ml_dtypes", "bf16 and other formats that NumPy lacks"),
    ("rich", "the console"),
)


def _package(name: str, gives: str, install: str = "", module: str = "") -> Part:
    # Looked for, not imported: PyCUDA is imported nowhere but in the runner's child.
    try:
        found = version(name)
        here = find_spec(module or name) is not None
    except PackageNotFoundError:
        found, here = "not installed", False
    return Part(
        name=name, here=here, found=found, gives=gives, install=install or f"pip install {name}"
    )


def _devices() -> Iterator[Part]:
    """Find the GPUs that the driver's own tool lists; without it there is nothing to say."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return
    try:
        listed = run(
            [tool, "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, TimeoutExpired) as error:
        yield _no_device(str(error))
        return
    if listed.returncode != 0:
        yield _no_device((listed.stdout + listed.stderr).strip())
        return
    for line in listed.stdout.splitlines():
        name, driver, capability = (*(part.strip() for part in line.split(",")), "", "")[:3]
        found = f"{name}, driver {driver}, compute capability {capability}"
        yield Part(name="GPU", here=True, found=found, gives="a device to test")
        yield _model(f"sm_{capability.replace('.', '')}", name)


def _model(target: str, device: str) -> Part:
    try:
        model = model_for(target)
    except UsageError as error:
        return Part(name="model", here=False, found=str(error), gives="expected bits")
    return Part(
        name="model",
        here=model.confidence is Confidence.MEASURED,
        found=f"{model.name}: {model.confidence}",
        gives=f"the bits that {device} is expected to return",
        install="`warpfuzz measure --output FILE`, then --model FILE",
    )


def _no_device(said: str) -> Part:
    return Part(
        name="GPU",
        here=False,
        found=f"nvidia-smi: {said}",
        gives="a device to test",
        install="what nvidia-smi asks for; often the driver has to be loaded again",
    )


def _driver() -> Part:
    library = ctypes.util.find_library("cuda")
    device = Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None
    return Part(
        name="NVIDIA driver",
        here=library is not None and device,
        found=library or "no libcuda",
        gives="a GPU to run on",
        install="the driver of your system's packages; warpfuzz runs without a GPU, too",
    )
