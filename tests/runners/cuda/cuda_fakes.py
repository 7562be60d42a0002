"""Runners over stand-ins for PyCUDA, and what their one kernel does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from runners.cuda.runner import CudaRunner
from runners.kernels import Kernel, KernelModule
from runners.protocol import Compiled, Images

FAKES = Path(__file__).parent / "fakes"
IMAGE_BYTES = 64
# The first bytes of images at which the stand-in's kernel misbehaves (fakes/working).
MISALIGNED, HANGS, KILLS, REFUSES, GARBLES, ANSWERS_ANOTHER, EXITS = range(0xF1, 0xF8)


def fake_runner(fake: str = "working", mode: str = "", **options: Any) -> CudaRunner:
    """Return a runner whose child finds a stand-in for PyCUDA."""
    environment = {
        "PYTHONPATH": str(FAKES / fake),
        "FAKE_DEVICE": mode,
        **options.pop("environment", {}),
    }
    return CudaRunner(environment=environment, **options)


def module(text: str = "", entry: str = "increment") -> KernelModule:
    """Return a module that only the stand-in understands."""
    return KernelModule(
        ptx=f"// {text}\n.entry {entry}",
        target="sm_90",
        version="8.0",
        kernels=(Kernel(entry=entry, image_bytes=IMAGE_BYTES),),
    )


def compiled(runner: CudaRunner, text: str = "") -> Compiled:
    """Return the module, compiled."""
    result = runner.compile(module(text))
    assert isinstance(result, Compiled), result
    return result


def images(count: int, *, seed: int = 0) -> Images:
    """Return harmless images."""
    return np.random.default_rng(seed).integers(0, 0xF0, (count, IMAGE_BYTES), np.uint8)
