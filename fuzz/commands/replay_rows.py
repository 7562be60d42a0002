"""Replaying findings of either sort, with one compiler, or with one against another."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace

from corpus import Entry, Kind
from fuzz.compilers.expansions import is_expansion
from fuzz.findings.case import choice_of, is_runnable, subject_of
from fuzz.findings.handwritten import is_by_hand, replay_by_hand
from fuzz.findings.replay import Outcome, Subject, attempt, outcome_of
from fuzz.findings.replay_instructions import Replayed, replay, shared_version
from fuzz.runner import OpenRunner, RunnerChoice, opened
from oracle.availability import is_available
from oracle.errors import UsageError, WarpfuzzError
from oracle.program import requirements
from oracle.targets import Module, parse_target, parse_version
from runners.emission import emit
from runners.faults import Place, by_name
from runners.ptx_pass import PtxPass

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
        if not is_available(form, Module(target, version)):
            raise UsageError(
                f"finding {entry.id} has {form.opcode}, which {target.name} lacks with PTX ISA "
                f"{version}; choose another --target"
            )
    module = emit(subject.program, module=Module.named(ready.target, ready.ptx_version))
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


Row = dict[str, object]
"""What is printed of one replayed finding."""


class Replays:
    """Replays findings with options, and against a baseline if there is one.

    Parameters
    ----------
    baseline
        Another compiler: path or version of an assembler; "none" stands for what is left without
        faults and passes.
    """

    def __init__(self, options: ReplayOptions, *, baseline: str | None = None) -> None:
        self._options = options
        self._baseline = baseline
        self._values = ValueReplays(options)
        self._before = ValueReplays(options.baseline(baseline)) if baseline else None
        self._stack = ExitStack()

    def __enter__(self) -> Replays:
        self._stack.enter_context(self._values)
        if self._before is not None:
            self._stack.enter_context(self._before)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def replay(self, entry: Entry, *, times: int) -> Row:
        """Replay a finding.

        The row's `counts` says whether it is something to report: that it disagrees, or with a
        baseline, that it comes out otherwise than there.

        Raises
        ------
        WarpfuzzError
            If it cannot be replayed.
        """
        return self._of_values(entry, times) if is_runnable(entry) else self._module(entry, times)

    def _of_values(self, entry: Entry, times: int) -> Row:
        if self._before is None:
            row = self._values.replay(entry, times=times)
            return {**row, "counts": row["verdict"] != "gone"}
        ready, now = self._values.outcome(entry, times=times)
        _, before = self._before.outcome(entry, times=times)
        kind = entry.finding.kind
        regressed = not same(now, before)
        return {
            "id": entry.id,
            "family": entry.finding.family.key,
            "kind": kind.value,
            "verdict": verdict_of(kind, now.kind),
            "path": str(entry.path),
            "outcomes": dict(now.counts),
            "runner": ready.choice.name,
            "device": ready.device,
            "options": ready.choice.options,
            "message": now.message,
            "baseline": self._baseline,
            "baseline_verdict": verdict_of(kind, before.kind),
            "regressed": regressed,
            "counts": regressed,
        }

    def _module(self, entry: Entry, times: int) -> Row:
        if is_expansion(entry):
            return _note(entry)
        options, version = self._options, None
        before = None if self._baseline is None else options.baseline(self._baseline)
        if before is not None and before.assembler != options.assembler:
            both = (options.assembler, before.assembler)
            version = shared_version(entry, both, target=options.target)
        now = _replay(entry, options, times=times, version=version)
        row = _row(now)
        if before is None:
            return {**row, "counts": now.verdict != "gone"}
        earlier = _replay(entry, before, times=times, version=version)
        regressed = set(now.outcomes) != set(earlier.outcomes)
        return {
            **row,
            "ptx_version": version or entry.finding.ptx_version,
            "baseline": self._baseline,
            "baseline_verdict": earlier.verdict,
            "regressed": regressed,
            "counts": regressed,
        }


def _replay(entry: Entry, options: ReplayOptions, *, times: int, version: str | None) -> Replayed:
    faults = [by_name(name) for name in options.faults]
    passes = [] if options.ptx_pass is None else [PtxPass(options.ptx_pass)]
    return replay(
        entry,
        times=times,
        wanted=options.assembler,
        target=options.target,
        version=version,
        level=options.level,
        rewriters=[*(fault.rewrite for fault in faults if fault.place is Place.PTX), *passes],
    )


def _note(entry: Entry) -> Row:
    """Return the row of a case that is no disagreement, so that nothing can be gone or still be."""
    return {
        "id": entry.id,
        "family": entry.finding.family.key,
        "kind": entry.finding.kind.value,
        "verdict": "note",
        "path": str(entry.path),
        "outcomes": {},
        "message": f"`warpfuzz bisect {entry.id}` asks compilers for the expansion again",
        "counts": False,
    }


def _row(replayed: Replayed) -> Row:
    finding = replayed.entry.finding
    return {
        "id": finding.id,
        "family": finding.family.key,
        "kind": finding.kind.value,
        "verdict": replayed.verdict,
        "path": str(replayed.entry.path),
        "outcomes": {
            ", ".join(outcome.name.lower() for outcome in seen): count
            for seen, count in replayed.outcomes.items()
        },
        "assemblers": [assembler.version for assembler in replayed.assemblers],
        "levels": list(dict.fromkeys(one.level for one in replayed.asked)),
        "message": replayed.message,
    }
