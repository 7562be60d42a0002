"""What one compiler makes of a stored finding, once."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Protocol

import numpy as np
from msgspec import structs

from corpus import Entry
from fuzz.compilers.bisection import Sample
from fuzz.compilers.members import Device, Member, MemberRunner
from fuzz.findings.case import subject_of
from fuzz.findings.handwritten import replay_by_hand
from fuzz.findings.replay import attempt
from fuzz.findings.replay_instructions import MODULE, expectation_of_finding
from fuzz.findings.verdicts import kind_of
from oracle.errors import InfrastructureError, UsageError
from oracle.targets import parse_version
from runners.assemblers.judging import judge_module
from runners.protocol import Failure

_VERSION = re.compile(r"^(\s*\.version\s+)\d+\.\d+", re.MULTILINE)


_DIGITS = 8
"""Hexadecimal digits of a hash that tell results apart in a table."""


class FindingProbe(Protocol):
    """What asks one member about a finding."""

    def sample(self, member: Member) -> Sample | None:
        """Ask once; None if the member does not know the module's target or version."""
        ...


class InstructionProbe:
    """Asks whether an assembler accepts a finding's module.

    Parameters
    ----------
    entry
        The finding.
    ptx_version
        Value of .version in place of the finding's, so that older assemblers can be asked.

    Raises
    ------
    UsageError
        If the finding has no module.
    """

    def __init__(self, entry: Entry, *, ptx_version: str | None = None) -> None:
        if MODULE not in entry.finding.files:
            raise UsageError(
                f"finding {entry.id} has no {MODULE} that a compiler could be given; import it "
                "with one"
            )
        self._finding = entry.finding
        self._module = entry.read(MODULE).decode(errors="replace")
        if ptx_version is not None:
            self._finding = structs.replace(entry.finding, ptx_version=ptx_version)
            self._module = with_version(self._module, ptx_version)
        self._expectation = expectation_of_finding(self._finding)

    def sample(self, member: Member) -> Sample | None:
        """Assemble the module once; None if the assembler does not know its target or version."""
        finding, assembler = self._finding, member.assembler
        if assembler is None or not assembler.accepts(finding.ptx_version, finding.target):
            return None
        outcome = judge_module(
            assembler, self._module, target=finding.target, level=member.level
        ).outcome
        return Sample(
            label=outcome.name.lower(), bad=kind_of(self._expectation, outcome) is not None
        )


class ValueProbe:
    """Runs a finding's program on its image as each member compiles it.

    Parameters
    ----------
    entry
        The finding.
    device
        Where binaries run.
    ptx_version
        Value of .version in place of the finding's, so that older compilers can be asked.

    Raises
    ------
    UsageError, InfrastructureError
        If the finding cannot be run on the device.
    """

    def __init__(self, entry: Entry, device: Device, *, ptx_version: str | None = None) -> None:
        subject = subject_of(entry)
        if ptx_version is not None:
            text = with_version(subject.module.ptx, ptx_version)
            module = replace(subject.module, ptx=text, version=ptx_version)
            subject = replace(subject, module=module)
        architecture = device.architecture(subject.module.target)
        if isinstance(architecture, Failure):
            raise InfrastructureError(f"{architecture}")
        self._subject, self._device, self._architecture = subject, device, architecture

    def sample(self, member: Member) -> Sample | None:
        """Compile and run the program once."""
        module = self._subject.module
        if not member.knows(module.target, module.version, self._architecture):
            return None
        seen = attempt(MemberRunner(self._device, member), self._subject)
        if seen.kind is None:
            return Sample(label="match", bad=False)
        if seen.actual is None or seen.expected is None:
            return Sample(label=seen.kind.value, bad=True)
        wrong = seen.actual[(seen.actual != seen.expected).any(axis=1)]
        digest = hashlib.sha256(np.unique(wrong, axis=0).tobytes()).hexdigest()[:_DIGITS]
        return Sample(label=f"{seen.kind.value} {digest}", bad=True)


class HandProbe:
    """Runs a case that a person wrote on its image as each member compiles it.

    Parameters
    ----------
    entry
        The case.
    device
        Where binaries run.

    Raises
    ------
    InfrastructureError
        If nothing of the case's target can be run on the device.
    """

    def __init__(self, entry: Entry, device: Device) -> None:
        architecture = device.architecture(entry.finding.target)
        if isinstance(architecture, Failure):
            raise InfrastructureError(f"{architecture}")
        self._entry, self._device, self._architecture = entry, device, architecture

    def sample(self, member: Member) -> Sample | None:
        """Compile and run the module once."""
        finding = self._entry.finding
        if not member.knows(finding.target, finding.ptx_version, self._architecture):
            return None
        seen = replay_by_hand(self._entry, MemberRunner(self._device, member), times=1)
        if seen.kind is None:
            return Sample(label="match", bad=False)
        digest = hashlib.sha256(b"".join(seen.results)).hexdigest()[:_DIGITS]
        label = f"{seen.kind.value} {digest}" if seen.results else seen.kind.value
        return Sample(label=label, bad=True)


def with_version(ptx: str, version: str) -> str:
    """Return a module with another value of .version; UsageError if there is no such version."""
    parse_version(version)
    return _VERSION.sub(rf"\g<1>{version}", ptx, count=1)
