"""The kinds of findings, one row each, and how findings are named for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from corpus import Case, Kind
from corpus.finding import WRONG_STEP
from runners.assemblers.judgements import Response
from runners.protocol import Trouble
from runners.variants import Variant, split_variant


@dataclass(frozen=True, kw_only=True)
class KindRow:
    """One kind of finding."""

    style: str = "odd"  # in the console, by the harm to who relies on the compiler or GPU
    short: str = ""  # what fits a column, where the kind's name does not
    shown: str = ""  # what titles begin with, where the kind's name says too little
    of_programs: str = ""  # what it means of a program that runs; "" for what says it itself
    of_modules: str = ""  # what it means of a module that is assembled
    shrinks: bool = False  # a finding of a program is made smaller
    has_culprit: bool = False
    """Whether experiments can tell which step is wrong, without bringing the runner down."""
    outcome: Response | None = None  # of an assembler, wrong whatever it was given
    troubles: tuple[Trouble, ...] = ()
    """Troubles of a runner that are called so; the first one stands for all if the runner's words
    are lost. Each run of one brings the runner down: it may cost seconds and a new process."""


KINDS = {
    Kind.NOTE: KindRow(),
    Kind.ACCEPTED: KindRow(
        short="accepted",
        of_modules="the assembler accepts it, and the PTX ISA has no such instruction.",
    ),
    Kind.DIFFER: KindRow(of_modules="two assemblers do not agree about it."),
    Kind.DEVIATION: KindRow(
        of_programs="the PTX ISA permits what came out, but it is not what this target is known "
        "to return.", shrinks=True, has_culprit=True,
    ),
    Kind.REJECTED: KindRow(
        style="bad", short="rejected", of_modules="the assembler rejects it; the PTX ISA has it."
    ),
    Kind.INTERNAL: KindRow(
        style="bad", shown="rejected with an internal error of ptxas", short="internal error",
        of_modules="the assembler fails with a message from its own inside.",
        outcome=Response.INTERNAL,
    ),
    Kind.UNREADABLE: KindRow(
        style="bad", of_programs="what came back could not be read.",
        of_modules="the assembler says something that cannot be read.",
        outcome=Response.UNREADABLE, troubles=(Trouble.CORRUPTED_REPLY,),
    ),
    Kind.HANG: KindRow(
        style="worst", of_programs="the program did not come to an end in time.",
        of_modules="the assembler does not end.",
        outcome=Response.HUNG, troubles=(Trouble.HANG,),
    ),
    Kind.CRASH: KindRow(
        style="worst", of_programs="the runner's process died.",
        of_modules="the assembler crashes.",
        outcome=Response.CRASHED, troubles=(Trouble.CRASH,),
    ),
    Kind.COMPILE_FAILURE: KindRow(
        style="bad", of_programs="a legal program was not compiled.",
        troubles=(Trouble.COMPILE_FAILURE,),
    ),
    Kind.LAUNCH_FAILURE: KindRow(
        style="bad", of_programs="the device did not run the program to its end.",
        shrinks=True, has_culprit=True, troubles=(Trouble.LAUNCH_FAILURE, Trouble.STICKY_ERROR),
    ),
    Kind.DIVERGENCE: KindRow(
        style="bad", of_programs="a warp-level instruction came under a condition that differs "
        "between lanes: the program has no undefined behaviour, and its PTX has.",
        shrinks=True, has_culprit=True, troubles=(Trouble.DIVERGENCE,),
    ),
    Kind.FLAKY: KindRow(
        style="bad", of_programs="the same program on the same image does not come out the same "
        "every time.", has_culprit=True,
    ),
    Kind.VIOLATION: KindRow(
        style="worst", of_programs="no target may return what came out.",
        shrinks=True, has_culprit=True,
    ),
    Kind.DEVICE_LOST: KindRow(
        style="worst", of_programs="the device did not answer any more.",
        troubles=(Trouble.DEVICE_LOST,),
    ),
}  # fmt: skip
KILLS = (Kind.HANG, Kind.CRASH)
"""Of which an assembler dies: which of the wrong types it is makes no difference."""
BY_TROUBLE = {trouble: kind for kind, row in KINDS.items() for trouble in row.troubles}
BY_OUTCOME = {row.outcome: kind for kind, row in KINDS.items() if row.outcome is not None}
PROVISIONAL = "which instruction is wrong is not known"
_PREPOSITIONS = ("in ", "beside ", "behind ", "under ", "with ", "of ")
"""What a condition begins with that is read on from the instructions."""


def is_provisional(case: Case) -> bool:
    """Whether no experiment told what is wrong (of a divergence the runner itself does)."""
    told = case.kind is Kind.DIVERGENCE or WRONG_STEP in case.details
    return KINDS[case.kind].has_culprit and not told


def sentence(case: Case, *, who: str = "", gives: str = "") -> str:
    """Return the line that a person reads of a finding: its kind, then `what_is_wrong`.

    With the values (`gives`: " gives 2.0 where 1.0 is right") the compilers stand first, those of
    `who` or the one that the finding names.
    """
    kind = KINDS[case.kind].shown or str(case.kind)
    if not gives:
        return f"{kind}: {what_is_wrong(case, who=who)}"
    builds = compiler_words(who.removeprefix("only ")) or str(case.details.get("compiler", kind))
    return f"{builds}: {what_is_wrong(case)}{gives}"


def what_is_wrong(case: Case, *, who: str = "") -> str:
    """Say what is wrong, and who has it: the instructions, the condition, the message."""
    identity = case.identity
    what = listed(identity.instructions)
    if is_provisional(case):
        what = f"a program with {what} ({PROVISIONAL})" if what else PROVISIONAL
    elif identity.condition:
        joined = " " if identity.condition.startswith(_PREPOSITIONS) else ": "
        what = f"{what}{joined}{identity.condition}"
    parts = (what, identity.message, compiler_words(who))
    return ": ".join(filter(None, parts)) or str(case.kind)


def compiler_words(who: str) -> str:
    """Say which compilers and levels `Family.blame` names: "only ptxas 11.8.89 at -O1 and -O3"."""
    named = re.sub(r"\bV(?=\d)", "ptxas ", who).replace(" to ptxas ", " to ")
    return re.sub(r"(?: -O\d)+", lambda found: f" {level_words(found[0].split())}", named)


def level_words(levels: Sequence[str]) -> str:
    """Say levels, lowest first: "at -O0 and -O2", "at -O1 to -O3"."""
    if len(levels) > 2 and int(levels[-1][2]) - int(levels[0][2]) == len(levels) - 1:
        return f"at {levels[0]} to {levels[-1]}"
    return f"at {listed(levels)}"


def listed(words: Sequence[str]) -> str:
    """Return words as a sentence has them: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


class Named(Protocol):
    """A compiler at a level: "V13.5.37", 0 to 3."""

    @property
    def version(self) -> str:
        """With options behind it."""

    @property
    def level(self) -> int:
        """As in -O."""


def described(members: Sequence[Named], among: Sequence[Named], *, levels: bool = True) -> str:
    """Name members, those of neighbouring versions `among` all, oldest first, together.

    Without `levels`, all levels of a version are one.
    """
    own: dict[str, tuple[int, ...]] = {}
    for member in members:
        own[member.version] = (*own.get(member.version, ()), member.level) if levels else (0,)

    def alike(version: str) -> tuple[tuple[int, ...], Variant]:
        return own.get(version, ()), split_variant(version)[1]

    words = []
    for ptxas in (True, False):  # what is no ptxas is nobody's neighbour
        every = (member.version for member in among)
        versions = dict.fromkeys(name for name in every if name.startswith("V") is ptxas)
        for (found, _), group in groupby(versions, alike):
            first, *others = group
            span = [f"{first} to {others[-1]}" if others else first]
            span += [f"-O{level}" for level in sorted(found) if levels]
            words += [" ".join(span)] if found else []
    return ", ".join(words)
