"""Asking one compiler after the other about a stored finding, on one open device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from corpus import Entry
from fuzz.compilers.matrix import ExpansionProbe
from fuzz.compilers.members import Device, Member, MemberRunner, device_of
from fuzz.findings.case import is_runnable
from fuzz.findings.making import ReplayOptions
from fuzz.findings.questions import HandQuestion, ModuleQuestion, ProgramQuestion, is_by_hand
from fuzz.findings.replay import CannotBeAskedError, Sample
from fuzz.findings.stored import is_expansion
from fuzz.runner import opened
from oracle.availability import is_available
from oracle.errors import InfrastructureError
from oracle.program import requirements
from oracle.targets import Module, parse_target, parse_version
from runners.assemblers.disassembly import find_disassembler
from runners.faults import Place, by_name
from runners.protocol import Failure, Runner
from runners.ptx_pass import PtxPass, Rewriter, RewritingRunner


class Probe(Protocol):
    """What asks a compiler at a level about one finding."""

    def ask(self, member: Member) -> Sample:
        """Ask once; `CannotBeAskedError` if nothing can be learnt from this compiler."""
        ...

    def module_for(self, member: Member) -> tuple[str, str]:
        """Return the .target and .version in which it is asked; raises as `ask`."""
        ...


@contextmanager
def probing(entry: Entry, options: ReplayOptions, disassembler: Path | None) -> Iterator[Probe]:
    """Give what asks compilers about a finding; its device is open meanwhile.

    Raises
    ------
    WarpfuzzError
        If something is missing, or the finding cannot be asked about at all.
    """
    if is_expansion(entry):
        yield _Expansions(entry, options, disassembler)
    elif not is_runnable(entry):
        yield _Modules(entry, options)
    else:
        choice = options.choice(entry, compiled=False)
        # What changes the PTX stands before each compiler; what is wrong with the device, in it.
        in_device = [name for name in choice.faults if by_name(name).place is Place.DEVICE]
        with opened(replace(choice, faults=tuple(in_device), ptx_pass=None)) as ready:
            yield _Programs(
                entry,
                device_of(ready),
                options,
                target=ready.target,
                version=ready.ptx_version,
                rewriters=_rewriters(choice.faults, choice.ptx_pass),
            )


def _rewriters(faults: tuple[str, ...], ptx_pass: str | None) -> list[Rewriter]:
    rows = [by_name(name) for name in faults]
    passes = [] if ptx_pass is None else [PtxPass(ptx_pass)]
    return [*(row.rewrite for row in rows if row.place is Place.PTX), *passes]


class _Modules:
    """Asks whether an assembler accepts a finding's module."""

    def __init__(self, entry: Entry, options: ReplayOptions) -> None:
        self._question = ModuleQuestion(
            entry,
            target=options.target,
            version=options.ptx_version,
            rewriters=_rewriters(options.planted(entry), options.passed(entry)),
        )

    def ask(self, member: Member) -> Sample:
        """Assemble the module once."""
        if member.assembler is None:
            raise CannotBeAskedError("the driver's compiler says nothing of a module by itself")
        return self._question.ask([(member.assembler, member.level)])

    def module_for(self, member: Member) -> tuple[str, str]:
        """Return the .target and .version in which it is asked."""
        if member.assembler is None:
            raise CannotBeAskedError("the driver's compiler says nothing of a module by itself")
        target, version = self._question.module_for([member.assembler])
        return target, str(version)


class _Expansions:
    """Asks which machine instructions a compiler makes of a note's module."""

    def __init__(self, entry: Entry, options: ReplayOptions, disassembler: Path | None) -> None:
        self._probe = ExpansionProbe(
            entry, find_disassembler(disassembler), ptx_version=options.ptx_version
        )
        self._module = (entry.finding.target, options.ptx_version or entry.finding.ptx_version)

    def ask(self, member: Member) -> Sample:
        """Compile and disassemble the module once."""
        return self._probe.ask(member)

    def module_for(self, member: Member) -> tuple[str, str]:
        """Return the .target and .version of the note."""
        return self._module


class _Programs:
    """Runs a finding's program, or a person's module, as each compiler translates it."""

    def __init__(
        self,
        entry: Entry,
        device: Device,
        options: ReplayOptions,
        *,
        target: str,
        version: str,
        rewriters: list[Rewriter],
    ) -> None:
        architecture = device.architecture(target)
        if isinstance(architecture, Failure):
            raise InfrastructureError(f"{architecture}")
        self._entry, self._device, self._architecture = entry, device, architecture
        self._target, self._version = target, version
        self._fixed = options.ptx_version is not None or is_by_hand(entry)
        self._rewriters = rewriters
        self._asked: dict[str, HandQuestion | ProgramQuestion] = {}

    def ask(self, member: Member) -> Sample:
        """Compile and run it once."""
        question = self._question(self.module_for(member)[1])
        runner: Runner = MemberRunner(self._device, member)
        if self._rewriters:
            runner = RewritingRunner(runner, self._rewriters)
        return question.ask(runner)

    def module_for(self, member: Member) -> tuple[str, str]:
        """Return the .target and .version in which it is asked: the highest that is known."""
        version = parse_version(self._version)
        if member.assembler is not None and not self._fixed:
            version = min(version, member.assembler.highest_version)
        if not member.knows(self._target, str(version), self._architecture):
            raise CannotBeAskedError(
                f"ptxas {member.version} compiles no module with .version {version} and .target "
                f"{self._target} for {self._architecture}; choose another --target"
            )
        question = self._question(self._version)
        if isinstance(question, ProgramQuestion):
            module = Module(parse_target(self._target), version)
            for form in requirements(question.subject.program):
                if not is_available(form, module):
                    raise CannotBeAskedError(
                        f"ptxas {member.version} knows PTX ISA {version} at most, which has no "
                        f"{form.opcode} for {self._target}"
                    )
        return self._target, str(version)

    def _question(self, version: str) -> HandQuestion | ProgramQuestion:
        if version not in self._asked:
            self._asked[version] = (
                HandQuestion(self._entry)
                if is_by_hand(self._entry)
                else ProgramQuestion(self._entry, target=self._target, version=version)
            )
        return self._asked[version]
