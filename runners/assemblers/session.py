"""A stretch of work with one assembler, for one target and PTX ISA version, in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.assemblers.judgements import Judgement, Response, ToolVerdict, verdict_of
from runners.assemblers.processes import MAX_MEMORY_BYTES, ToolEnd, run
from runners.folders import check_space, writing
from runners.instruction_modules import minimal_module
from runners.variants import PLAIN, Variant


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """What became of one module."""

    verdict: ToolVerdict
    output: str
    """All that was printed."""


@dataclass(kw_only=True)
class ToolSession:
    """What the steps of judging share; used by one thread at a time."""

    path: Path
    """The assembler."""
    target: str
    version: str
    folder: Path
    """Private folder for modules, cubins and output."""
    deadline: float
    """Seconds that an instruction on its own may take."""
    files_at_once: int
    """Modules that one process is given to reject."""
    options: tuple[str, ...] = ()
    """Further options, such as "-O1"."""
    variant: Variant = PLAIN
    """Options of the assembler."""
    memory_bytes: int = MAX_MEMORY_BYTES
    """Most bytes of address space of a process."""
    per_file: int = 1
    """Instructions in each of those modules: adapted to how often one ends its module's parsing."""
    processes: int = 0
    """Processes run so far."""

    def run(
        self, arguments: Sequence[str], *, deadline: float, stall: float | None = None
    ) -> ToolEnd:
        """Run the assembler in the folder."""
        self.processes += 1
        options = *self.options, *self.variant.command(self.target)
        command = [str(self.path), *options, *arguments]
        return run(
            command,
            folder=self.folder,
            deadline=deadline,
            stall=stall,
            memory_bytes=self.memory_bytes,
        )

    def write(self, name: str, module: str) -> None:
        """Write a module; InfrastructureError where that fails."""
        with writing(self.folder):
            (self.folder / name).write_text(module, encoding="utf-8")

    def assemble(self, module: str, *, deadline: float) -> Assembled:
        """Assemble one module."""
        cubin = self.folder / "a.cubin"
        cubin.unlink(missing_ok=True)
        files = self.variant.files("a.ptx", module)
        for name, text in files.items():
            self.write(name, text)
        finished = self.run([*files, "-o", "a.cubin"], deadline=deadline)
        verdict = verdict_of(finished, cubin, module)
        if verdict.outcome not in (Response.ACCEPTED, Response.REJECTED):
            check_space(self.folder)
        return Assembled(verdict=verdict, output=finished.output)

    def judge_alone(self, instruction: str) -> Judgement:
        """Judge an instruction in a minimal module; where that is accepted, with results stored."""
        for results_stored in (False, True):
            module = minimal_module(
                instruction,
                target=self.target,
                version=self.version,
                results_stored=results_stored,
            )
            verdict = self.assemble(module, deadline=self.deadline).verdict
            if verdict.outcome is not Response.ACCEPTED:
                return self.judgement(instruction, verdict, results_stored=results_stored)
        return self.judgement(instruction, verdict)

    def judgement(
        self, instruction: str, verdict: ToolVerdict, *, results_stored: bool = False
    ) -> Judgement:
        """Return a judgement of this session's target and version."""
        return Judgement(
            instruction=instruction,
            target=self.target,
            version=self.version,
            outcome=verdict.outcome,
            messages=verdict.messages,
            ending=verdict.ending,
            results_stored=results_stored,
        )
