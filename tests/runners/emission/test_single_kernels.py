"""The smallest kernel of a program leaves what the program leaves."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus.finding import EXPECTED
from corpus.store import Entry, scan_folders
from fuzz.findings.case import image_of, subject_of
from fuzz.findings.making import is_value_finding
from oracle.execution.execution import execute
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from runners.emission import emit, emit_single
from runners.kernels import KernelModule
from runners.protocol import Compiled, Images, Ran
from runners.simulated_runner import SimulatedRunner
from strategies.draws import draw_one
from strategies.features import Focus, Has
from strategies.programs import programs

MODULE = Module.named("sm_90", "8.0")
RECORD = Path(__file__).parents[3] / "corpus" / "record" / "findings"


def _left(module: KernelModule, images: Images) -> Images:
    runner = SimulatedRunner()
    compiled = runner.compile(module)
    assert isinstance(compiled, Compiled), compiled
    ran = runner.run(compiled, images)
    assert isinstance(ran, Ran), ran
    return ran.images


@settings(deadline=None, max_examples=60)
@given(
    key=st.integers(0, 2**64 - 1), feature=st.sampled_from([Has.LANES_ALONE, Has.UNPACKED, None])
)
def test_a_single_kernel_leaves_what_the_oracle_says_and_is_shorter(
    key: int, feature: Has | None
) -> None:
    focus = Focus(features=frozenset(filter(None, [feature])))
    made = draw_one(programs(focus, module=MODULE, forms=FORMS), key)
    image = np.random.default_rng(key).integers(0, 256, (1, made.image_bytes), np.uint8)
    single = emit_single(made, module=MODULE)
    assert np.array_equal(_left(single, image), execute(made, image).images)
    assert single.ptx.count("\n") < emit(made, module=MODULE).ptx.count("\n")


def test_the_record_s_findings_have_single_kernels_of_25_lines_in_the_median() -> None:
    lines = []
    for entry in scan_folders(RECORD, checksums=False):
        if isinstance(entry, Entry) and is_value_finding(entry):
            subject, finding = subject_of(entry), entry.finding
            single = emit_single(
                subject.program, module=Module.named(finding.target, finding.ptx_version)
            )
            expected = image_of(entry, EXPECTED, subject.program.image_bytes)
            assert np.array_equal(_left(single, subject.image[None])[0], expected), entry.id
            lines.append(single.ptx.strip().count("\n") + 1)
    assert statistics.median(lines) <= 25
