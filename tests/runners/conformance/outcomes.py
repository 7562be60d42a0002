"""What runners give, where nothing may go wrong on the way."""

from __future__ import annotations

from oracle.execution.execution import execute
from oracle.isa.targets import Module
from oracle.program.program import Program
from runners.emission import emit
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Ran, Runner


def compiled_of(runner: Runner, module: KernelModule) -> Compiled:
    compiled = runner.compile(module)
    assert isinstance(compiled, Compiled), f"{compiled} {compiled.detail}"
    return compiled


def ran_of(outcome: Ran | Failure) -> Ran:
    assert isinstance(outcome, Ran), f"{outcome} {outcome.detail}"
    return outcome


def left_by(runner: Runner, module: KernelModule, images: Images) -> Images:
    """Return what a kernel leaves of images."""
    return ran_of(runner.run(compiled_of(runner, module), images)).images


def left_and_expected(
    runner: Runner, program: Program, images: Images, target: str = "sm_90", version: str = "8.0"
) -> tuple[Images, Images]:
    """Return what a program leaves of images on a runner, and what the oracle says of them."""
    compiled = compiled_of(runner, emit(program, module=Module.named(target, version)))
    left = ran_of(runner.run(compiled, images)).images
    return left, execute(program, images, target=compiled.architecture).images
