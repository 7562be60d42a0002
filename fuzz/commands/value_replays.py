"""`warpfuzz replay` of findings that have images: on the runner that found them, or another."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace

from corpus import Entry, Kind
from fuzz.images_by_hand import is_by_hand, replay_by_hand
from fuzz.runner_choice import OpenRunner, RunnerChoice, opened
from fuzz.value_findings import choice_of, subject_of
from fuzz.value_replaying import Outcome, Subject, attempt, outcome_of
from oracle.errors import UsageError, WarpfuzzError
from oracle.notes import is_available
from oracle.program import requirements
from oracle.targets import parse_target, parse_version
from runners.emission import emit

NOTHING = "none"
"""The baseline in which nothing is planted: for devices that take no assembler."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What `warpfuzz replay` is to run findings with; nothing is planted unless it is named."""

    runner: str | None = None
    """"sim" or "cuda"; None: the one that found it."""
    target: str | None = None
    """Value of .target; None: that of the finding."""
    faults: tuple[str, ...] = ()
    ptx_pass: str | None = None
    assembler: str | None = None
    """None: what the finding was made with."""
    level: int | None = None
    """-O level; None: that of the finding."""

    def choice(self, entry: Entry) -> RunnerChoice:
        """Return the runner for a finding."""
        found_by = choice_of(entry, self.runner)
        target = self.target or found_by.target
        return replace(
            found_by,
            target=target,
            ptx_version=_version(entry.finding.ptx_version, target),
            faults=self.faults,
            ptx_pass=self.ptx_pass,
            assembler=self.assembler or found_by.assembler,
            level=found_by.level if self.level is None else self.level,
        )

    def baseline(self, compiler: str) -> ReplayOptions:
        """Return the same with another compiler, or with `NOTHING` planted."""
        if compiler == NOTHING:
            return replace(self, faults=(), ptx_pass=None)
        return replace(self, assembler=compiler)


def _version(version: str, target: str | None) -> str:
    """Return the PTX version of a finding, or the first that knows the target."""
    if target is None:
        return version
    return str(max(parse_version(version), parse_target(target).since))


class ValueReplays:
    """Replays findings; a runner that several of them need is opened once."""

    def __init__(self, options: ReplayOptions) -> None:
        self._options = options
        self._stack = ExitStack()
        self._opened: dict[RunnerChoice, OpenRunner] = {}
        self._refused: dict[RunnerChoice, WarpfuzzError] = {}

    def __enter__(self) -> ValueReplays:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def replay(self, entry: Entry, *, times: int) -> dict[str, object]:
        """Run a finding again and return the row that is printed, but for what is known.

        Raises
        ------
        WarpfuzzError
            If it cannot be run.
        """
        ready, outcome = self.outcome(entry, times=times)
        return {
            "id": entry.id,
            "family": entry.finding.family.key,
            "kind": entry.finding.kind.value,
            "verdict": verdict_of(entry.finding.kind, outcome.kind),
            "path": str(entry.path),
            "outcomes": dict(outcome.counts),
            "runner": ready.choice.name,
            "device": ready.device,
            "options": ready.choice.options,
            "message": outcome.message,
        }

    def outcome(self, entry: Entry, *, times: int) -> tuple[OpenRunner, Outcome]:
        """Run a finding again and return where, and what came of it.

        Raises
        ------
        WarpfuzzError
            If it cannot be run.
        """
        ready = self._runner(self._options.choice(entry))
        if is_by_hand(entry):
            return ready, replay_by_hand(entry, ready.runner, times=times)
        subject = _for_target(subject_of(entry), entry, ready)
        return ready, outcome_of([attempt(ready.runner, subject) for _ in range(times)])

    def _runner(self, choice: RunnerChoice) -> OpenRunner:
        # What is missing is missing for every finding, and a GPU takes its time to say so.
        if choice in self._refused:
            raise self._refused[choice]
        if choice not in self._opened:
            try:
                self._opened[choice] = self._stack.enter_context(opened(choice))
            except WarpfuzzError as error:
                self._refused[choice] = error
                raise
        return self._opened[choice]


def _for_target(subject: Subject, entry: Entry, ready: OpenRunner) -> Subject:
    """Return a subject with the module that was stored, or one for another target.

    Raises
    ------
    UsageError
        If the target lacks an instruction of the program.
    """
    if ready.target == entry.finding.target:
        return subject
    target, version = parse_target(ready.target), parse_version(ready.ptx_version)
    for form in requirements(subject.program):
        if not is_available(form, version, target):
            raise UsageError(
                f"finding {entry.id} has {form.opcode}, which {target.name} lacks with PTX ISA "
                f"{version}; choose another --target"
            )
    module = emit(subject.program, target=ready.target, version=ready.ptx_version)
    return replace(subject, module=module)


def verdict_of(was: Kind, now: Kind | None) -> str:
    """Say "reproduced", "changed" (into another kind), "flaky" or "gone"."""
    if now is None:
        return "gone"
    # What was not the same every time need not be so in a few runs.
    if now is was or was is Kind.FLAKY:
        return "reproduced"
    return "flaky" if now is Kind.FLAKY else "changed"


def same(one: Outcome, other: Outcome) -> bool:
    """Whether two compilers gave the same, bit for bit where there are bits."""
    return one.results == other.results and Counter(one.counts) == Counter(other.counts)
