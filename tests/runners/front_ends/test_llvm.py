"""Programs through LLVM: its PTX, on the simulated device, gives the images of the oracle."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fuzz.campaign.draws import draw
from oracle.errors import InfrastructureError
from oracle.execution import execute
from oracle.forms import LdmatrixForm, MmaForm
from oracle.isa import FORMS
from oracle.targets import Module
from runners.emission import emit, emit_all
from runners.front_ends import WRITTEN_AS_LLVM_IR
from runners.front_ends.llvm import LlvmFrontEnd
from runners.front_ends.llvm_ir import llvm_ir, multiply_name
from runners.kernels import KernelModule
from runners.protocol import Failure, Ran, Trouble
from runners.simulated_runner import SimulatedRunner
from strategies.features import Focus
from strategies.programs import programs

WRITTEN = tuple(form for form in FORMS if isinstance(form, WRITTEN_AS_LLVM_IR))
MODULE = Module.named("sm_80", "7.1")
"""The oldest module that has every wmma form that LLVM 14 knows."""

pytest.importorskip("llvmlite", reason="llvmlite is not here: no LLVM to compile with")


@pytest.fixture(scope="module", params=[0, 3])
def front_end(request: pytest.FixtureRequest) -> Iterator[LlvmFrontEnd]:
    with LlvmFrontEnd(Path(sys.executable), level=request.param) as front_end:
        yield front_end


def test_drawn_programs_give_the_oracles_images_through_llvm(front_end: LlvmFrontEnd) -> None:
    drawn = draw(programs(Focus(), module=MODULE, forms=WRITTEN), 25, 7)[1:]
    named = {f"kernel_{index}": program for index, program in enumerate(drawn)}
    translated = front_end(emit_all(named, module=MODULE))
    assert not isinstance(translated, Failure), translated
    generator = np.random.default_rng(1)
    with SimulatedRunner("sm_80") as device:
        compiled = device.compile(translated)
        assert not isinstance(compiled, Failure), compiled
        for entry, program in named.items():
            images = generator.integers(0, 256, (3, program.image_bytes), dtype=np.uint8)
            ran = device.run(compiled, images, entry=entry)
            assert isinstance(ran, Ran), ran
            expected = execute(program, images, target="sm_80")
            assert np.array_equal(ran.images, expected.images), entry


@pytest.mark.parametrize("llvm", [14, 22])
def test_pointers_have_types_where_llvm_wants_them(llvm: int) -> None:
    (program,) = draw(programs(Focus(), module=MODULE, forms=WRITTEN), 2, 3)[1:]
    module = emit(program, module=MODULE)
    text = llvm_ir(module.programs, module.kernels, module=MODULE, llvm=llvm)
    assert ("ptr addrspace(1) %images" in text) == (llvm == 22)
    assert ("i8 addrspace(1)* %images" in text) == (llvm == 14)


def test_every_multiplication_has_an_intrinsic_of_its_own() -> None:
    forms = [form for form in FORMS if isinstance(form, MmaForm)]
    names = {multiply_name(form) for form in forms}
    assert len(names) == len(forms)


def test_what_llvm_cannot_be_asked_is_a_failure_that_says_so() -> None:
    newest = Module.named("sm_100a", "8.8")
    packed = [form for form in FORMS if isinstance(form, LdmatrixForm) and form.type != "b16"]
    (program,) = draw(programs(Focus(form=packed[0]), module=newest, forms=tuple(packed)), 2, 3)[1:]
    with LlvmFrontEnd(Path(sys.executable), level=0) as front_end:
        by_hand = front_end(KernelModule(ptx="", target="sm_80", version="7.1", kernels=()))
        assert isinstance(by_hand, Failure)
        assert "by hand" in by_hand.message
        unknown = front_end(emit(program, module=newest))
        assert isinstance(unknown, Failure)
        assert unknown.trouble is Trouble.UNSUPPORTED


def test_a_python_without_llvm_is_said(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho nothing here >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(InfrastructureError, match="ended with status 3"):
        LlvmFrontEnd(program)
    with pytest.raises(InfrastructureError, match="cannot be started"):
        LlvmFrontEnd(tmp_path / "missing")


def test_a_compiler_that_dies_costs_its_module_and_no_other(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text(
        '#!/bin/sh\necho \'{"llvm": "15.0.7"}\'\nread line\n'
        f'[ -e {tmp_path}/died ] && echo \'{{"ptx": "fine"}}\' && exit 0\n'
        f"touch {tmp_path}/died\nkill -SEGV $$\n"
    )
    program.chmod(0o755)
    (drawn,) = draw(programs(Focus(), module=MODULE, forms=WRITTEN), 2, 3)[1:]
    module = emit(drawn, module=MODULE)
    with LlvmFrontEnd(program) as front_end:
        first = front_end(module)
        assert isinstance(first, Failure)
        assert first.trouble is Trouble.COMPILE_FAILURE
        assert "SIGSEGV" in first.message
        second = front_end(module)
        assert not isinstance(second, Failure)
        assert second.ptx == "fine"
