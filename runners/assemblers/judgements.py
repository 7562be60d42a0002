"""What an assembler does with an instruction, from accepting it to hanging on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path

from runners.assemblers.machine_code import HEADER_BYTES, is_cubin
from runners.assemblers.messages import Output, comes_from_inside, normalised, parse
from runners.assemblers.processes import ToolEnd
from runners.instruction_modules import ABOVE_THE_INSTRUCTION, is_contained, minimal_module

# A shell reports that a signal ended a program as 128 + its number (POSIX.1-2017, 2.8.2); ptxas
# itself exits with 255 (11.7 to 13.5, 2026-11).
_SIGNAL_CODES = range(129, 192)


class Response(IntEnum):
    """What the assembler did, ordered from accepted to worst."""

    ACCEPTED = 0
    """Assembled down to a cubin."""
    REJECTED = 1
    """Rejected with a message about the instruction."""
    INTERNAL = 2
    """Rejected with a message from the assembler's own inside."""
    CRASHED = 3
    """Killed by a signal."""
    HUNG = 4
    """Did not end in time."""
    UNREADABLE = 5
    """Ended in no known way: no message, no cubin, or output without end."""


@dataclass(frozen=True, kw_only=True)
class ToolVerdict:
    """What one assembler did with one module."""

    outcome: Response
    messages: tuple[str, ...] = ()
    """Errors, in order, without the place; warnings where it was accepted."""
    ending: str = "exit code 0"
    """How the process ended, in words."""

    @cached_property
    def normalised(self) -> str:
        """The messages with names and numbers abstracted, or the ending where there are none."""
        return normalised(self.messages) if self.messages else self.ending


@dataclass(frozen=True, kw_only=True)
class Judgement(ToolVerdict):
    """What one assembler does with one instruction, for one target and PTX ISA version."""

    instruction: str
    target: str
    version: str
    results_stored: bool = False
    """Whether it takes the module that stores the results to see the outcome."""

    @property
    def module(self) -> str:
        """A minimal module that shows the outcome: `ptxas -arch=TARGET FILE`."""
        return minimal_module(
            self.instruction,
            target=self.target,
            version=self.version,
            results_stored=self.results_stored,
        )


def instruction_line(module: str) -> int | None:
    """Return the line of the instruction of a minimal module, from 1; None of any other module."""
    lines = module.splitlines()
    if ABOVE_THE_INSTRUCTION not in lines[:-1]:
        return None
    return lines.index(ABOVE_THE_INSTRUCTION) + 2


def verdict_of(finished: ToolEnd, cubin: Path, module: str) -> ToolVerdict:
    """Return the verdict of a process that assembled one module.

    Parameters
    ----------
    finished : Finished
        The process.
    cubin : Path
        Where it should have written.
    module : str
        What it read.
    """
    output = parse(finished.output)
    outcome = _outcome(finished, output, cubin, module)
    messages = output.messages if outcome is Response.ACCEPTED else output.errors
    texts = tuple(map(str, messages))
    if outcome in (Response.CRASHED, Response.UNREADABLE):
        texts += output.strange[:_STRANGE_LINES]
    return ToolVerdict(outcome=outcome, messages=texts, ending=finished.ending)


def _outcome(finished: ToolEnd, output: Output, cubin: Path, module: str) -> Response:
    if finished.hung:
        return Response.HUNG
    if finished.overflowed:
        return Response.UNREADABLE
    if finished.signal is not None or finished.exit_code in _SIGNAL_CODES:
        return Response.CRASHED
    if finished.exit_code == 0:
        good = is_cubin(_start_of(cubin)) and not output.errors
        return Response.ACCEPTED if good else Response.UNREADABLE
    if output.tells_of_a_crash:
        return Response.CRASHED
    if not output.errors:
        return Response.UNREADABLE
    return Response.INTERNAL if _any_from_inside(output, module) else Response.REJECTED


def _start_of(cubin: Path) -> bytes:
    try:
        with cubin.open("rb") as file:
            return file.read(HEADER_BYTES)
    except OSError:
        return b""


# Lines of no known kind that a verdict keeps.
_STRANGE_LINES = 20


def _any_from_inside(output: Output, module: str) -> bool:
    lines = module.splitlines()
    at = instruction_line(module)
    # Without a known line, anything in the module counts as the input.
    text = lines[at - 1] if at is not None else module
    contained = at is not None and is_contained(text)
    return any(
        comes_from_inside(error, instruction=text, contained=contained, at=at, lines=len(lines))
        for error in output.errors
    )
