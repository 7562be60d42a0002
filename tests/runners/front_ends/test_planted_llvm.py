"""Front ends with a fault, scripts around llvmlite, are found."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from planted_llvm import FAULTS

from oracle.execution.execution import execute
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from runners.compilers import find_front_end as find
from runners.emission import emit_all
from runners.front_ends.protocol import is_named
from runners.protocol import Failure, Trouble
from runners.simulated_runner import SimulatedRunner
from strategies.draws import draw
from strategies.features import Focus
from strategies.programs import programs

pytest.importorskip("llvmlite", reason="llvmlite is not here: no LLVM to compile with")

MODULE = Module.named("sm_80", "7.1")
_SCRIPT = Path(__file__).with_name("planted_llvm.py")


def _command(fault: str) -> str:
    words = (sys.executable, str(_SCRIPT), fault)
    return f"llvm:{shlex.join(words)} {{level}} {{target}} {{ptx}}"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_front_end_is_seen_among_a_few_programs(fault: str) -> None:
    forms = tuple(form for form in FORMS if form.mnemonic == "wmma.mma")
    found = draw(programs(Focus(), module=MODULE, forms=forms), 20, 7)[1:]
    drawn = [program for program in found if is_named(program)][:8]
    named = {f"kernel_{index}": program for index, program in enumerate(drawn)}
    with find(_command(fault)).opened(0) as front_end, SimulatedRunner("sm_80") as device:
        translated = front_end(emit_all(named, module=MODULE))
        assert not isinstance(translated, Failure), translated
        compiled = device.compile(translated)
        assert not isinstance(compiled, Failure), compiled
        generator, seen = np.random.default_rng(1), set[str]()
        for entry, program in named.items():
            images = generator.integers(0, 256, (3, program.image_bytes), dtype=np.uint8)
            ran = device.run(compiled, images, entry=entry)
            if isinstance(ran, Failure):
                assert ran.trouble is Trouble.DIVERGENCE, ran
                seen.add("divergence")
            else:
                expected = execute(program, images, target="sm_80").images
                seen |= {"wrong"} if not np.array_equal(ran.images, expected) else set()
    assert seen == {"divergence" if "condition" in fault else "wrong"}
