"""Code of lanes: the oracle and the simulated device, written apart, give the same bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle.execution import execute
from oracle.program import Program
from runners.emission import emit
from runners.protocol import Compiled, Ran
from runners.simulated_runner import SimulatedRunner
from strategies.programs.lane_code import lane_programs


@settings(
    max_examples=60, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(program=lane_programs(), seed=st.integers(0, 2**32 - 1))
def test_code_of_lanes_comes_out_alike(program: Program, seed: int) -> None:
    runner = SimulatedRunner()
    images = np.random.default_rng(seed).integers(0, 256, (4, program.image_bytes), np.uint8)
    # Small numbers decide counts and shifts, the others everything else.
    images.view("<u4")[:, ::3] %= 40
    code = runner.compile(emit(program))
    assert isinstance(code, Compiled), code
    ran = runner.run(code, images)
    assert isinstance(ran, Ran), ran
    assert np.array_equal(ran.images, execute(program, images).images)
