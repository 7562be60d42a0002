"""The simulated device runs what an assembler says it assembled, and nothing it refuses."""

import numpy as np
from hypothesis import strategies as st
from planted_ptxas import planted_ptxas

from oracle.execution.execution import execute
from oracle.isa.lookup import forms_by_opcode
from oracle.isa.targets import Module
from runners.cuda.compilation import PtxasCompiler
from runners.emission import emit
from runners.protocol import Compiled, Failure, Ran, Trouble
from runners.simulated_runner import SimulatedRunner
from strategies.draws import draw
from strategies.features import Focus
from strategies.programs import programs

FORM = forms_by_opcode()["wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"]


def program():
    focus = Focus(form=FORM, features=frozenset())
    one = st.tuples(programs(focus, module=Module.named("sm_90", "8.0"), forms=(FORM,)))
    return draw(one, 1, 1)[0][0]


def results(path, level=3):
    """Return images of zeros and ones before and after, as an assembler's text has them run."""
    drawn = program()
    images = np.random.default_rng(1).integers(0, 60, (4, drawn.image_bytes), np.uint8)
    with SimulatedRunner(compiler=PtxasCompiler(path, level=level, text_taken=True)) as runner:
        compiled = runner.compile(emit(drawn, module=Module.named("sm_90", "8.0")))
        if isinstance(compiled, Failure):
            return compiled
        assert isinstance(compiled, Compiled)
        ran = runner.run(compiled, images)
    assert isinstance(ran, Ran)
    expected = execute(drawn, images, target="sm_90").images
    return (ran.images == expected).all()


def test_text_that_was_rewritten_is_what_runs(tmp_path):
    path = planted_ptxas(tmp_path, "1.0", ["store-layout-flipped"], levels=(3,))
    assert not results(path)
    assert results(path, level=2)


def test_with_machine_code_the_modules_own_text_runs(tmp_path):
    assert results(planted_ptxas(tmp_path, "1.0", ["store-layout-flipped"], text=False))


def test_what_the_assembler_refuses_does_not_run(tmp_path):
    refused = results(planted_ptxas(tmp_path, "1.0", rejects="wmma.mma"))
    assert isinstance(refused, Failure)
    assert refused.trouble is Trouble.COMPILE_FAILURE
    killed = results(planted_ptxas(tmp_path, "1.0", crashes="wmma.mma"))
    assert isinstance(killed, Failure)
    assert "SIGSEGV" in killed.message


def test_a_gpu_is_never_given_text(tmp_path):
    path = planted_ptxas(tmp_path, "1.0")
    module = emit(program(), module=Module.named("sm_90", "8.0"))
    refused = PtxasCompiler(path).compile(module, "sm_90")
    assert isinstance(refused, Failure)
    assert "wrote no machine code" in refused.message
