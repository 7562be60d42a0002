"""Which matrix instructions one compiler makes of the program of a stored note."""

from __future__ import annotations

from dataclasses import replace

from corpus import Entry, Kind
from fuzz.compiler_matrix.bisection import Sample
from fuzz.compiler_matrix.expansions import EXPANSION, words
from fuzz.compiler_matrix.members import Member
from fuzz.compiler_matrix.probes import with_version
from fuzz.program_files import decode_program
from fuzz.value_findings import MODULE, PROGRAM
from oracle.errors import UsageError
from runners.assemblers.disassembly import WHEEL, Disassembler
from runners.emission import emit
from runners.protocol import Failure


def is_expansion(entry: Entry) -> bool:
    """Whether a stored case is a note of a changed expansion."""
    finding = entry.finding
    return (
        finding.kind is Kind.NOTE
        and finding.family.key.startswith(f"{EXPANSION}/")
        and {MODULE, PROGRAM} <= finding.files.keys()
    )


class ExpansionProbe:
    """Asks which matrix instructions a compiler makes of a note's module.

    Parameters
    ----------
    entry
        The note.
    disassembler
        What reads machine code; None if none is here.
    ptx_version
        Value of .version in place of the note's, so that older compilers can be asked.

    Raises
    ------
    UsageError
        If there is no disassembler.
    InfrastructureError
        If a file of the note is broken.
    """

    def __init__(
        self, entry: Entry, disassembler: Disassembler | None, *, ptx_version: str | None = None
    ) -> None:
        if disassembler is None:
            raise UsageError(
                f"{entry.id} is a note of which machine instructions compilers choose, and no "
                f"nvdisasm is here to show them; install one with `pip install {WHEEL}`, or name "
                "one with --disassembler"
            )
        finding = entry.finding
        program = decode_program(entry.read(PROGRAM), str(entry.path / PROGRAM))
        module = emit(program, target=finding.target, version=finding.ptx_version)
        text = entry.read(MODULE).decode(errors="replace")
        if ptx_version is not None:
            module = replace(module, version=ptx_version)
            text = with_version(text, ptx_version)
        self._module = replace(module, ptx=text)
        self._disassembler = disassembler

    def sample(self, member: Member) -> Sample | None:
        """Compile and disassemble the module once; no expansion is against the ISA."""
        module = self._module
        if member.assembler is None or not member.knows(
            module.target, module.version, module.target
        ):
            return None
        made = member.compiler.compile(module, module.target)
        if isinstance(made, Failure):
            return Sample(label="not compiled", bad=False)
        (kernel,) = module.kernels
        found = self._disassembler.expansions(made.code).get(kernel.entry)
        return Sample(label="none" if found is None else words(found), bad=False)
