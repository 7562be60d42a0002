"""Where the binaries of a matrix run, and the members that can compile for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from fuzz.compilers.members import Device, Member, NoDevice, device_of
from fuzz.runner import OpenRunner, RunnerChoice, opened, version_for
from oracle.errors import InfrastructureError, UsageError
from oracle.targets import DEFAULT_TARGET
from runners.cuda.compilation import is_ptx
from runners.protocol import Compiled, Failure

NOWHERE = "ptxas"
"""Name of the runner that runs nothing: compilers alone."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where binaries run, and what is compiled for it."""

    device: Device
    opened: OpenRunner | None
    """None where nothing runs."""
    target: str
    ptx_version: str
    architecture: str
    """Whose machine code is made."""

    def check_runs(self, compiled: Compiled) -> None:
        """Raise UsageError if the device cannot show what a compiler made of a module."""
        simulated = self.opened is not None and self.opened.choice.name == "sim"
        if simulated and not is_ptx(compiled.code):
            raise UsageError(
                f"{compiled.compiler} writes machine code, and the simulated device reads PTX "
                "text: no binary can be run on it. Choose --runner cuda on a machine with a GPU, "
                f"or --runner {NOWHERE} to compare only what each compiler accepts"
            )


@contextmanager
def placed(choice: RunnerChoice) -> Iterator[Place]:
    """Open the device of a matrix.

    Parameters
    ----------
    choice
        The runner by its name, NOWHERE for compilers alone, with target and PTX ISA version.

    Raises
    ------
    UsageError, DeviceLostError, InfrastructureError
        As `fuzz.runner.opened` does.
    """
    with ExitStack() as stack:
        device: Device
        if choice.name == NOWHERE:
            device, found = NoDevice(), None
            target = choice.target or DEFAULT_TARGET
            ptx_version = version_for(choice.ptx_version, target)
        else:
            found = stack.enter_context(opened(choice))
            device, target, ptx_version = device_of(found), found.target, found.ptx_version
        architecture = device.architecture(target)
        if isinstance(architecture, Failure):
            raise InfrastructureError(f"{architecture}")
        yield Place(
            device=device,
            opened=found,
            target=target,
            ptx_version=ptx_version,
            architecture=architecture,
        )


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """The members that can compile for a place."""

    members: tuple[Member, ...]
    skipped: tuple[str, ...]
    """Sentences about the others."""


def fitting(members: Sequence[Member], place: Place) -> Fitting:
    """Leave out compilers that do not know the target or the PTX ISA version.

    Raises
    ------
    UsageError
        If none is left.
    """
    fit, skipped = [], []
    advice = "choose --runner cuda, or name others with --compilers"
    on_gpu = place.opened is not None and place.opened.choice.name == "cuda"
    for member in members:
        if member.assembler is None and not on_gpu:
            skipped.append("the driver's compiler is left out: it needs --runner cuda")
        elif member.knows(place.target, place.ptx_version, place.architecture):
            fit.append(member)
        else:
            advice = "choose another --target or --ptx-version, or name others with --compilers"
            skipped.append(
                f"ptxas {member.version} is left out: it does not know {place.target} with PTX "
                f"ISA {place.ptx_version} on {place.architecture}"
            )
    sentences = tuple(dict.fromkeys(skipped))
    if not fit:
        raise UsageError(f"no compiler is left: {'; '.join(sentences)}; {advice}")
    return Fitting(members=tuple(fit), skipped=sentences)
