"""What one compiler makes of a stored finding, once."""

from __future__ import annotations

import re

from msgspec.structs import replace

from corpus import Entry
from fuzz.compiler_matrix.bisection import Sample
from fuzz.disagreements import kind_of
from fuzz.replaying import MODULE, expectation_of_finding
from oracle.errors import UsageError
from oracle.targets import parse_version
from runners.assemblers.assembler import Assembler
from runners.assemblers.judging import judge_module

_VERSION = re.compile(r"^(\s*\.version\s+)\d+\.\d+", re.MULTILINE)


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
            parse_version(ptx_version)
            self._finding = replace(entry.finding, ptx_version=ptx_version)
            self._module = _VERSION.sub(rf"\g<1>{ptx_version}", self._module, count=1)
        self._expectation = expectation_of_finding(self._finding)

    def sample(self, assembler: Assembler, level: int) -> Sample | None:
        """Assemble the module once; None if the assembler does not know its target or version."""
        finding = self._finding
        if not assembler.accepts(finding.ptx_version, finding.target):
            return None
        outcome = judge_module(assembler, self._module, target=finding.target, level=level).outcome
        return Sample(
            label=outcome.name.lower(), bad=kind_of(self._expectation, outcome) is not None
        )
