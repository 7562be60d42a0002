"""Programs through nvcc: its PTX, on the simulated device, gives the images of the oracle."""

from __future__ import annotations

import random
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.isa.lookup import FORMS, is_available
from oracle.isa.targets import Module
from oracle.program.operands import WITH_CONSTANT, operations
from oracle.program.operations import Elementwise
from oracle.program.program import Program
from runners.compilers import fetched_compiler
from runners.compilers import find_front_end as find
from runners.emission import emit, emit_all
from runners.front_ends import cuda_cpp as api
from runners.front_ends.languages import Nvcc, Nvrtc
from runners.front_ends.protocol import FrontEnd, FrontEndToolchain, is_named
from runners.protocol import Failure, Ran, Trouble
from runners.simulated_runner import SimulatedRunner
from strategies.draws import draw
from strategies.features import Focus
from strategies.programs import programs

MODULE = Module.named("sm_90", "8.0")
_PLANTED = {
    "two elements exchanged": r"re.sub(r'(wmma.store.*?\{)(%\w+), (%\w+)', r'\1\3, \2', ptx)",
    "a stride dropped": r"re.sub(r'(wmma.load.*?\]), %r\d+;', r'\1;', ptx)",
}


def _drawn(mnemonic: str, count: int, *, line_bytes: int) -> dict[str, Program]:
    some = tuple(form for form in FORMS if form.is_main and form.mnemonic.startswith(mnemonic))
    strategy = programs(Focus(line_bytes=line_bytes), module=MODULE, forms=some)
    drawn = [one for one in draw(strategy, 4 * count + 8, 7)[1:] if is_named(one)][:count]
    return {f"kernel_{index}": program for index, program in enumerate(drawn)}


@pytest.fixture(scope="module")
def found() -> Nvcc:
    if sys.platform != "linux" or not Nvcc.discover():
        pytest.skip("no nvcc with its headers is here: nothing to compile with")
    one = find("nvcc")
    assert isinstance(one, Nvcc)
    return one


def _wrong(front_end: FrontEnd, named: dict[str, Program], *, module: Module = MODULE) -> list[str]:
    """Return the entries whose images are not the oracle's."""
    translated = front_end(emit_all(named, module=module))
    assert not isinstance(translated, Failure), translated
    generator = np.random.default_rng(1)
    wrong = []
    with SimulatedRunner(module.target.name) as device:
        compiled = device.compile(translated)
        assert not isinstance(compiled, Failure), compiled
        for entry, program in named.items():
            images = generator.integers(0, 256, (3, program.image_bytes), dtype=np.uint8)
            ran = device.run(compiled, images, entry=entry)
            expected = execute(program, images, target=module.target.name).images
            if not isinstance(ran, Ran) or not np.array_equal(ran.images, expected):
                wrong.append(entry)
    return wrong


@pytest.mark.parametrize("level", [0, 3])
def test_drawn_programs_give_the_oracles_images_through_nvcc(found: Nvcc, level: int) -> None:
    named = _drawn("", 5, line_bytes=1) if level else _drawn("wmma.mma", 2, line_bytes=32)
    with found.opened(level) as front_end:
        assert _wrong(front_end, named) == []


@pytest.mark.parametrize("kind", [Nvcc, Nvrtc])
def test_narrow_floats_and_scaled_blocks_are_inline_ptx_of_both(kind: type[FrontEndToolchain]):
    module = Module.named("sm_120a", "8.8")
    one = next((one for one in kind.discover() if one.knows("sm_120a", "8.8", "sm_120a")), None)
    if one is None:
        pytest.skip(f"no {kind.kind} that knows sm_120a is here")
    forms = [form for form in FORMS if ".kind::" in form.opcode and is_available(form, module)]
    some = [form for form in forms if "mxf4" in form.opcode][::5]
    some += random.Random(0).sample(forms, 3)
    named = dict[str, Program]()
    for form in some:
        focus = Focus(form=form, line_bytes=1)
        drawn = draw(programs(focus, module=module, forms=(form,)), 4, 7)[1:]
        program = next(filter(is_named, drawn), None)
        named |= {} if program is None else {f"kernel_{len(named)}": program}
    assert len(named) >= 3
    with one.opened(3) as front_end:
        assert _wrong(front_end, named, module=module) == []


def test_every_operation_on_elements_is_cuda_cpp(found: Nvcc) -> None:
    fragments = {
        api.fragment_type(form.matrix(operand), layout): form.matrix(operand)
        for form in FORMS
        if form.mnemonic == "wmma.mma"
        for operand, layout in (("a", form.a_layout), ("b", form.b_layout), ("c", None))
    }
    lines = [api.HEAD]
    for number, (type_, matrix) in enumerate(fragments.items()):
        register = api.REGISTERS[matrix.register_type]
        for operation in operations(matrix.type):
            step = Elementwise(
                operation=operation, matrix=matrix, source="s", destination="d",
                constant=1 if operation in WITH_CONSTANT else 0,
            )  # fmt: skip
            for cell, count, variable in (
                (api.stored_type(matrix.type.name), None, f"{type_}&"),
                (register, matrix.registers, f"{register} (&)[{matrix.registers}]"),
            ):
                parameters = ", ".join(
                    variable.replace("&", f"&{name}", 1) if count else f"{variable} {name}"
                    for name in "ds"
                )
                text = api.statement(step, cell, "s", "d", count=count, fused=False)
                name = f"f{number}_{operation}_{count}".replace("-", "_")
                lines.append(f"__device__ void {name}({parameters}) {{ {text} }}")
    with found.opened(0) as front_end:
        compiled = front_end.compiled("\n".join(lines), "sm_90", "8.0")
    assert isinstance(compiled, str), compiled.detail


@pytest.mark.parametrize("planted", _PLANTED)
def test_a_planted_front_end_is_found(found: Nvcc, planted: str, tmp_path: Path) -> None:
    script = tmp_path / "planted.py"
    script.write_text(f"import re, sys\nptx = sys.stdin.read()\nprint({_PLANTED[planted]})\n")
    command = f"{found.command} | {shlex.quote(sys.executable)} {shlex.quote(str(script))}"
    named = _drawn("wmma.mma", 2, line_bytes=32)
    assert any(map(api.is_said, named.values()))
    with find(f"nvcc:{command}").opened(3) as front_end:
        assert front_end.name == f"nvcc ({command}) at -O3"
        assert _wrong(front_end, named)


def test_what_nvcc_cannot_be_asked_is_unsupported(found: Nvcc) -> None:
    assert found.knows("sm_90", "8.0", "sm_90")
    (program,) = _drawn("wmma.mma", 1, line_bytes=1).values()
    with found.opened(3) as front_end:
        # nvcc 13 has no Volta; those before it know no later architectures.
        old = front_end(emit(program, module=Module.named("sm_70", "8.0")))
        assert isinstance(old, Failure) == (found.order >= (13,))
        if isinstance(old, Failure):
            assert old.trouble is Trouble.UNSUPPORTED


def test_a_program_that_is_no_working_nvcc_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "nvcc"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "release 99.0, V99.0.1" && exit 0\nexit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    assert all(one.version != "99.0.1" for one in Nvcc.discover())
    with pytest.raises(UsageError, match=r"fetch nvcc:99\.0"):
        find("nvcc:99.0")
    assert find(f"nvcc:{tmp_path}").version == "99.0.1"  # the user's word
    with pytest.raises(UsageError, match="no nvcc is in"):
        find(f"nvcc:{tmp_path / 'bin' / '..' / '..'}")
    with pytest.raises(UsageError, match="no program"):
        find("nvcc:no-such-compiler {level}")


def test_releases_without_wheels_and_levels_without_a_meaning_are_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no wheel of nvcc .12.4."):
        fetched_compiler("nvcc:12.4")
    with pytest.raises(UsageError, match=r"no wheel of nvrtc .10"):
        fetched_compiler("nvrtc:10.2")
    with pytest.raises(UsageError, match="no libnvrtc"):
        find(f"nvrtc:{tmp_path}")
    with pytest.raises(UsageError, match="--opt 0"):
        Nvrtc(version="12.4", path=str(tmp_path)).opened(2)
