"""What is known of each kind of finding: one row each, which everything reads."""

from __future__ import annotations

from dataclasses import dataclass

from corpus import Kind
from runners.assemblers.judgements import Outcome
from runners.protocol import Trouble


@dataclass(frozen=True, kw_only=True)
class KindRow:
    """One kind of finding."""

    style: str = "odd"
    """Of the console, by what it does to somebody who relies on the thing."""
    short: str = ""
    """What fits a column, where the kind's name does not."""
    of_programs: str = ""
    """What it means of a program that runs, as half a sentence; "" for what says it itself."""
    of_modules: str = ""
    """What it means of a module that is assembled."""
    shrinks: bool = False
    """Whether a finding of a program is made smaller."""
    has_culprit: bool = False
    """Whether experiments can tell which step is wrong, without bringing the runner down."""
    costly: bool = False
    """Whether it brings a runner down: each run may cost seconds and a new process."""
    quotes: bool = False
    """Whether the title of its families ends with what an assembler said."""
    kills: bool = False
    """Whether an assembler dies of it: which of the wrong types it is makes no difference."""
    outcome: Outcome | None = None
    """What an assembler does that is wrong whatever it was given."""
    troubles: tuple[Trouble, ...] = ()
    """What a runner says of it; the first stands for the others where its words are lost."""


KINDS = {
    Kind.NOTE: KindRow(),
    Kind.ACCEPTED: KindRow(
        short="accepted",
        of_modules="the assembler accepts it, and the PTX ISA has no such instruction.",
    ),
    Kind.DIFFER: KindRow(of_modules="two assemblers do not agree about it."),
    Kind.DEVIATION: KindRow(
        of_programs="the PTX ISA permits what came out, but it is not what this target is known "
        "to return.",
        shrinks=True,
        has_culprit=True,
    ),
    Kind.REJECTED: KindRow(
        style="bad",
        short="rejected",
        of_modules="the assembler rejects it, and the PTX ISA has it.",
        quotes=True,
    ),
    Kind.INTERNAL: KindRow(
        style="bad",
        of_modules="the assembler fails with a message from its own inside.",
        quotes=True,
        outcome=Outcome.INTERNAL,
    ),
    Kind.UNREADABLE: KindRow(
        style="bad",
        of_programs="what came back could not be read.",
        of_modules="the assembler says something that cannot be read.",
        costly=True,
        quotes=True,
        outcome=Outcome.UNREADABLE,
        troubles=(Trouble.CORRUPTED_REPLY,),
    ),
    Kind.HANG: KindRow(
        style="worst",
        of_programs="the program did not come to an end in time.",
        of_modules="the assembler does not end.",
        costly=True,
        kills=True,
        outcome=Outcome.HUNG,
        troubles=(Trouble.HANG,),
    ),
    Kind.CRASH: KindRow(
        style="worst",
        of_programs="the runner's process died.",
        of_modules="the assembler crashes.",
        costly=True,
        kills=True,
        outcome=Outcome.CRASHED,
        troubles=(Trouble.CRASH,),
    ),
    Kind.COMPILE_FAILURE: KindRow(
        style="bad",
        of_programs="a legal program was not compiled.",
        costly=True,
        troubles=(Trouble.COMPILE_FAILURE,),
    ),
    Kind.LAUNCH_FAILURE: KindRow(
        style="bad",
        of_programs="the device did not run the program to its end.",
        has_culprit=True,
        costly=True,
        troubles=(Trouble.LAUNCH_FAILURE, Trouble.STICKY_ERROR),
    ),
    Kind.DIVERGENCE: KindRow(
        style="bad",
        of_programs="a warp-level instruction came under a condition that differs between lanes: "
        "the program has no undefined behaviour, and its PTX has.",
        shrinks=True,
        has_culprit=True,
        costly=True,
        troubles=(Trouble.DIVERGENCE,),
    ),
    Kind.FLAKY: KindRow(
        style="bad",
        of_programs="the same program on the same image does not come out the same every time.",
        has_culprit=True,
    ),
    Kind.VIOLATION: KindRow(
        style="worst",
        of_programs="the PTX ISA permits what came out on no target.",
        shrinks=True,
        has_culprit=True,
    ),
    Kind.DEVICE_LOST: KindRow(
        style="worst",
        of_programs="the device did not answer any more.",
        troubles=(Trouble.DEVICE_LOST,),
    ),
}
BY_TROUBLE = {trouble: kind for kind, row in KINDS.items() for trouble in row.troubles}
BY_OUTCOME = {row.outcome: kind for kind, row in KINDS.items() if row.outcome is not None}
