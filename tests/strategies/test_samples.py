"""A sample of the library: one line where it fails, its module, and what the ISA permits of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from runners import Failure, SimulatedRunner, emit
from runners.faults import by_name
from strategies import Sample, samples

FEW = settings(max_examples=2, deadline=None, database=None, phases=[Phase.generate])


def ran(sample: Sample, before: np.ndarray, *faults: str) -> np.ndarray:
    with SimulatedRunner("sm_90", faults=[by_name(one) for one in faults]) as runner:
        compiled = runner.compile(emit(sample.program, module=sample.module))
        assert not isinstance(compiled, Failure)
        after = runner.run(compiled, before)
        assert not isinstance(after, Failure)
        return after.images


@FEW
@given(samples("wmma.mma*m16n16k16.f32.f32", target="sm_90"))
def test_a_sample_has_its_module_and_checks_what_the_isa_permits(sample: Sample) -> None:
    before = sample.images(8)
    sample.check(before, ran(sample, before))
    # Another rounding than the model's is permitted; a matrix that was never stored is not.
    sample.check(before, ran(sample, before, "sum-rounded-to-nearest"))
    with pytest.raises(AssertionError, match=r"images are not what the PTX ISA permits: image"):
        sample.check(before, ran(sample, before, "store-missing"))
    assert sample.ptx.startswith(".version")
    assert len(repr(sample)) < 300
    assert "wmma." in repr(sample)


def test_a_failing_sample_is_printed_in_one_line() -> None:
    @FEW
    @given(samples("ldmatrix*", target="sm_90"))
    def fails(sample: Sample) -> None:
        raise AssertionError

    with pytest.raises(AssertionError) as caught:
        fails()
    # Where it runs elsewhere, Hypothesis also says how to play the example again.
    note = "\n".join(caught.value.__notes__)
    assert len([line for line in note.splitlines() if "<Sample: " in line]) == 1
    assert "Program(" not in note
