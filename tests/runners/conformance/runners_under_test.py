"""The runners that the conformance suite tries, by name."""

from __future__ import annotations

import pytest
from cuda_fakes import fake_runner

from runners.compilers import discover_assemblers
from runners.cuda.compilation import DEFAULT_LEVEL, DriverCompiler, PtxasCompiler
from runners.cuda.runner import CudaRunner
from runners.protocol import Runner
from runners.simulated_runner import SimulatedRunner

WITH_PTXAS = "cuda, compiled by ptxas"
SIMULATED = "simulated"
RUNNERS = (
    SIMULATED,
    pytest.param("cuda", marks=pytest.mark.gpu),
    pytest.param(WITH_PTXAS, marks=pytest.mark.gpu),
)
UNOPTIMIZED_RUNNERS = (SIMULATED, pytest.param(WITH_PTXAS, marks=pytest.mark.gpu))
"""Those that scalar instructions are tried on: what optimises may be wrong itself. In campaigns on
an H200, scalar code differed in 22 families with the driver's compiler of CUDA 13.0 at -O3, in 13
with ptxas 13.5 at -O0 (2026-11-23)."""
OVER_STAND_IN = "cuda over a stand-in driver"


def make_runner(name: str, level: int = DEFAULT_LEVEL) -> Runner:
    """Return a runner by its name; what compiles does so at an -O level."""
    if name == SIMULATED:
        # Its fragments are scattered; tests/runners/simulated tries other layouts.
        return SimulatedRunner("sm_90", layout_seed=1)
    if name == OVER_STAND_IN:
        return fake_runner(deadline=60.0)
    if name == WITH_PTXAS:
        assemblers = discover_assemblers().assemblers
        if not assemblers:
            pytest.skip("no ptxas is here; `pip install nvidia-cuda-nvcc` brings one")
        return CudaRunner(compiler=PtxasCompiler(assemblers[0].path, level=level))
    return CudaRunner(compiler=DriverCompiler(level=level))
