"""Programs through LLVM: its PTX, on the simulated device, gives the images of the oracle."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from oracle.errors import InfrastructureError, UsageError
from oracle.execution.execution import execute
from oracle.isa.forms import LANES, Form
from oracle.isa.lookup import NARROW_FORMS, selectors_of
from oracle.isa.targets import Module
from oracle.program.program import Program, walk
from oracle.program.steps import PlainAccess, product_of
from runners.compilers import find_front_end as find
from runners.emission import emit, emit_all
from runners.front_ends.languages import llvmlite_front_end
from runners.front_ends.llvm_ir import llvm_ir
from runners.front_ends.protocol import FrontEnd, is_named
from runners.kernels import KernelModule
from runners.protocol import Failure, Ran, Trouble
from runners.ptx_text import ptx_digests
from runners.simulated_runner import SimulatedRunner
from strategies.contents import Recipe, ValueClass, expand
from strategies.draws import Selection, draw
from strategies.features import Focus
from strategies.matrices import single_program
from strategies.programs import programs
from strategies.rounds import selected_forms

MODULE = Module.named("sm_80", "7.1")
"""The oldest module that has every wmma form that LLVM 14 knows."""
WRITTEN = selected_forms(Selection(), target="sm_80", version="7.1")

pytest.importorskip("llvmlite", reason="llvmlite is not here: no LLVM to compile with")


@pytest.fixture(scope="module", params=[0, 3])
def front_end(request: pytest.FixtureRequest) -> Iterator[FrontEnd]:
    with find("llvm").opened(request.param) as front_end:
        yield front_end


def test_drawn_programs_give_the_oracles_images_through_llvm(front_end: FrontEnd) -> None:
    found = draw(programs(Focus(), module=MODULE, forms=WRITTEN), 20, 7)[1:]
    drawn = [program for program in found if is_named(program)][:12]
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
            if isinstance(ran, Failure) and "-O3" in front_end.name and _stores_by_lane(program):
                # What LLVM 22 is known to move under a lane's condition (docs/findings.md).
                assert ran.trouble is Trouble.DIVERGENCE, ran
                continue
            assert isinstance(ran, Ran), ran
            expected = execute(program, images, target="sm_80")
            assert np.array_equal(ran.images, expected.images), entry


def test_narrow_products_give_the_oracles_images_through_llvm(front_end: FrontEnd) -> None:
    module, made = Module.named("sm_120a", "8.7"), dict[str, Program]()
    for form in NARROW_FORMS[::29]:
        known = selectors_of(form)
        step = product_of(form)
        program = single_program(step.changed(selector=known[-1]) if known else step)
        made[f"kernel_{len(made)}"] = program
    with SimulatedRunner("sm_120a") as device:
        compiled = device.compile(front_end(emit_all(made, module=module)))
        assert not isinstance(compiled, Failure), compiled
        for entry, program in made.items():
            images = expand(Recipe(classes=tuple(ValueClass), seed=2), program, 20)
            ran = device.run(compiled, images, entry=entry)
            assert isinstance(ran, Ran), ran
            due = execute(program, images, target="sm_120a")
            assert np.array_equal(ran.images, due.images), program


def _drawn(focus: Focus, module: Module, forms: tuple[Form, ...]) -> Program:
    """Return a program that can be said where values have names."""
    found = draw(programs(focus, module=module, forms=forms), 12, 3)[1:]
    return next(filter(is_named, found))


def _stores_by_lane(program: Program) -> bool:
    return any(isinstance(step, PlainAccess) and step.lanes < LANES for step in walk(program.steps))


@pytest.mark.parametrize("llvm", [14, 22])
def test_pointers_have_types_where_llvm_wants_them(llvm: int) -> None:
    module = emit(_drawn(Focus(), MODULE, WRITTEN), module=MODULE)
    text = llvm_ir(module, llvm=llvm)
    assert ("ptr addrspace(1) %images" in text) == (llvm == 22)
    assert ("i8 addrspace(1)* %images" in text) == (llvm == 14)


def test_a_module_by_hand_is_a_failure_that_says_so() -> None:
    with find("llvm").opened(0) as front_end:
        by_hand = front_end(KernelModule(ptx="", target="sm_80", version="7.1", kernels=()))
        assert isinstance(by_hand, Failure)
        assert "by hand" in by_hand.message


@pytest.mark.parametrize(
    ("target", "version", "every"),
    [
        ("sm_100a", "8.8", 17),
        pytest.param("sm_90", "7.8", 1, marks=pytest.mark.slow),
        pytest.param("sm_100a", "8.8", 1, marks=pytest.mark.slow),
    ],
)
def test_what_llvm_writes_for_a_form_is_the_form(target: str, version: str, every: int) -> None:
    # The names of intrinsics are ours, and what is behind them LLVM's.
    module = Module.named(target, version)
    forms = selected_forms(Selection(), target=target, version=version)[::every]
    drawn = {
        f"kernel_{index}": _drawn(Focus(form=form, shares_registers=False), module, (form,))
        for index, form in enumerate(forms)
    }
    with find("llvm").opened(0) as front_end:
        made = front_end(emit_all(drawn, module=module))
    assert isinstance(made, KernelModule), made
    for form, text in zip(forms, made.ptx.split(".entry")[1:], strict=True):
        assert form.opcode.replace("shared::cta", "shared") in text.replace("shared::cta", "shared")


def test_a_python_without_llvm_is_said(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho nothing here >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(InfrastructureError, match="ended with status 3"):
        llvmlite_front_end(tmp_path, 2, python=program)
    with pytest.raises(InfrastructureError, match="cannot be started"):
        llvmlite_front_end(tmp_path, 2, python=tmp_path / "missing")


def test_a_compiler_that_dies_costs_its_module_and_no_other(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, signal, sys\n"
        "from multiprocessing.connection import Connection\n"
        "from pathlib import Path\n"
        "line, died = Connection(int(sys.argv[4])), Path(sys.argv[5]) / 'died'\n"
        "line.send({'version': '15.0.7'})\n"
        "line.recv()\n"
        "if not died.exists():\n"
        "    died.touch()\n"
        "    os.kill(os.getpid(), signal.SIGSEGV)\n"
        "line.send({'ptx': 'fine'})\n"
    )
    program.chmod(0o755)
    module = emit(_drawn(Focus(), MODULE, WRITTEN), module=MODULE)
    with llvmlite_front_end(tmp_path, 2, python=program) as front_end:
        first = front_end(module)
        assert isinstance(first, Failure)
        assert first.trouble is Trouble.COMPILE_FAILURE
        assert "SIGSEGV" in first.message
        second = front_end(module)
        assert not isinstance(second, Failure)
        assert second.ptx == "fine"


def test_a_target_that_llvm_does_not_know_is_unsupported_and_no_fault_of_it() -> None:
    installed = find("llvm")
    assert installed.knows("sm_80", "7.1", "sm_80")
    assert not installed.knows("sm_80", "99.0", "sm_80")


def test_a_command_gets_the_ir_and_its_words_filled_in(tmp_path: Path) -> None:
    script = tmp_path / "compile"
    script.write_text('#!/bin/sh\ncat\necho "// $@"\n')
    script.chmod(0o755)
    drawn = _drawn(Focus(), MODULE, WRITTEN)
    with find(f"llvm:cat | {script} {{level}} {{target}} {{ptx}}").opened(3) as front_end:
        made = front_end(emit(drawn, module=MODULE))
    assert isinstance(made, Failure)
    assert "no empty kernel" in made.message


def test_a_program_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(UsageError, match="there is no program nowhere-to-be-found"):
        find("llvm:nowhere-to-be-found -x")
    with pytest.raises(UsageError, match="fetch llvm:3"):
        find("llvm:3.9")
    with pytest.raises(UsageError, match="names no front end"):
        find("fortran:77")


def test_kernels_that_differ_in_comments_and_labels_alone_are_one() -> None:
    text = (
        ".version 7.1\n.global .b8 table_0[2] = {1, 2};\n.global .b8 table_1[2] = {3, 4};\n"
        ".visible .entry one()\n{\nbra LBB0_1; // LBB0_1\nLBB0_1:\nmov.u64 %rd1, table_0;\n}\n"
        ".visible .entry two()\n{\nmov.u64 %rd1, table_1;\n}\n"
    )
    digests = ptx_digests(text)
    assert list(digests) == ["one", "two"]
    assert ptx_digests(text.replace("// LBB0_1", "").replace("LBB", "$L__BB")) == digests
    changed = ptx_digests(text.replace("{3, 4}", "{3, 5}"))
    assert changed["one"] == digests["one"]
    assert changed["two"] != digests["two"]
