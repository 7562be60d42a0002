"""Runs stored findings again, with one compiler, or with one against another.

One row for every finding, whatever it is of: a module that assemblers judge, a program on an
image, or a case that a person wrote.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from corpus import Entry, Finding
from corpus.entry import MODULE, PROGRAM
from corpus.opening import Answers
from fuzz.findings.case import is_runnable, subject_of
from fuzz.findings.making import ReplayOptions
from fuzz.findings.probes import (
    STAND_IN,
    HandProbe,
    ModuleProbe,
    ProgramProbe,
    ReplayStatus,
    is_by_hand,
    replay_status,
    words_of,
)
from fuzz.findings.replay import Answer, CannotBeAskedError, Way, asked, smallest_kernel
from fuzz.runner import OpenRunner, RunnerChoice, opened, rewriters
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError
from runners.assemblers.assembler import Assembler
from runners.compilers import discover_assemblers, find_assembler
from runners.protocol import ClosedAtTheEnd
from runners.variants import PLAIN, split_variant

_Made = TypeVar("_Made")
_LEVEL = re.compile(r"-O(\d)")
EXPANSION = "expansion"
"""The failure of a note about machine instructions: they are others than before."""


def is_expansion(entry: Entry) -> bool:
    """Whether a stored case is a note of a changed expansion."""
    finding = entry.finding
    return finding.identity.failure == EXPANSION and {MODULE, PROGRAM} <= finding.files.keys()


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What became of one finding."""

    entry: Entry
    now: Answer
    before: Answer | None = None
    """With the baseline, if there is one."""
    baseline: str | None = None
    where: dict[str, object]
    """What it ran with, for the JSON row: runner, device and options, or assemblers and levels."""
    recorded: str = ""
    """What the versions of the record said of it; empty where they were not asked."""
    standing: ReplayStatus | None = None
    """What has become of the newest of these answers; None without one."""
    error: WarpfuzzError | None = None
    """Why it could not be run."""
    kernel: str | None = None
    """The smallest kernel that shows it; None where none does, or none was asked for."""

    @property
    def finding(self) -> Finding:
        """The description."""
        return self.entry.finding

    @property
    def verdict(self) -> str:
        """What became of it, as `Answer.verdict` says, or "note"."""
        if is_expansion(self.entry):
            return "note"
        return self.now.verdict(self.finding.kind)

    @property
    def message(self) -> str:
        """What the tool said, or what differs, or why it could not be asked."""
        return self.now.message

    @property
    def way(self) -> Way:
        """How it was judged: compared, or less; with a baseline, the weaker of the two."""
        ways = [one.way for one in (self.now, self.before) if one is not None]
        return max(ways, key=list(Way).index)

    @property
    def answered(self) -> bool:
        """Whether what was asked for is known: a module judged, or images compared."""
        if is_expansion(self.entry):
            return False
        asked_for = Way.COMPARED if is_runnable(self.entry) else Way.JUDGED
        # A program that still fails before anything can be compared is an answer, too.
        return self.way is asked_for or (self.way in (Way.JUDGED, Way.FAILED) and self.now.bad)

    @property
    def counts(self) -> bool:
        """Whether it is something to report: it disagrees, or comes out otherwise than before."""
        if not self.now.known or is_expansion(self.entry):
            return False
        if self.before is None:
            return self.verdict != "gone"
        return self.before.known and not self.now.same(self.before)

    def row(self) -> dict[str, object]:
        """Return the row as a JSON object says it, but for what is known."""
        finding = self.finding
        row: dict[str, object] = {
            "id": finding.id,
            "family": finding.identity.text,
            "kind": finding.kind.value,
            "verdict": self.verdict,
            "path": str(self.entry.path),
            "way": self.way.value,
            "outcomes": self.now.counts,
            "runs": self.now.runs,
            "failed": self.now.failed,
            "executions": self.now.executions,
            **self.where,
            "message": self.message,
            "counts": self.counts,
        }
        if self.before is not None:
            row |= {
                "baseline": self.baseline,
                "baseline_verdict": self.before.verdict(finding.kind),
                "regressed": self.counts,
            }
        if self.standing is not None:
            row |= {"recorded": self.recorded, "standing": self.standing.value}
        return row


class Replays(ClosedAtTheEnd):
    """Replays findings with options, and against a baseline if there is one.

    A runner that several findings need is opened once; what is missing for one of them is missing
    for all, and is asked for once. `baseline` is another compiler: path or version of an assembler;
    "none" stands for what is left without faults and passes. `kernels` asks for the smallest kernel
    of each finding, too.
    """

    def __init__(
        self,
        options: ReplayOptions,
        *,
        baseline: str | None = None,
        answers: Answers | None = None,
        kernels: bool = False,
    ) -> None:
        self._options, self._kernels = options, kernels
        self._baseline = baseline
        self._answers = answers
        self._stack = ExitStack()
        self._made: dict[object, object] = {}
        """Runners by their choice, and assemblers by their name; or why there is none."""

    def close(self) -> None:
        """Close the runners."""
        self._stack.close()

    def replay(self, entry: Entry, *, times: int) -> Replayed:
        """Replay a finding.

        What keeps it from being run is told in the row, so that the others are replayed. Raises
        DeviceLostError if there is no device any more.
        """
        try:
            if is_expansion(entry):
                # It is no disagreement: nothing can be gone or still be.
                said = f"`warpfuzz bisect {entry.id}` asks compilers for the expansion again"
                return Replayed(entry=entry, now=Answer(reason=said), where={})
            return self._program(entry, times) if is_runnable(entry) else self._module(entry, times)
        except DeviceLostError:
            raise
        except (WarpfuzzError, OSError) as error:
            reason = error if isinstance(error, WarpfuzzError) else UsageError(str(error))
            return Replayed(entry=entry, now=Answer(reason=str(reason)), where={}, error=reason)
        except Exception as error:  # one finding of a stranger's ends no other's replay
            broken = InfrastructureError(
                f"{entry.path} cannot be replayed ({type(error).__name__}: {error!s:.300}); mend "
                "or remove it, or report this"
            )
            return Replayed(entry=entry, now=Answer(reason=str(broken)), where={}, error=broken)

    def _program(self, entry: Entry, times: int) -> Replayed:
        ready = self._runner(self._options.choice(entry))
        now, before = _asked(entry, ready, times=times), None
        if self._baseline is not None:
            options = self._options.baseline(self._baseline)
            before = _asked(entry, self._runner(options.choice(entry)), times=times)
        kernel = None
        if self._kernels and now.kind is not None and not is_by_hand(entry):
            kernel = smallest_kernel(ready.runner, subject_of(entry), now.kind)
        choice = ready.choice
        where: dict[str, object] = {
            "runner": choice.name,
            "device": ready.device,
            "options": choice.options,
        }
        return self._row(entry, now, before, where, kernel=kernel)

    def _row(
        self,
        entry: Entry,
        now: Answer,
        before: Answer | None,
        where: dict[str, object],
        **more: Any,
    ) -> Replayed:
        unknown = [one for one in (now, before) if one is not None and not one.known]
        error = CannotBeAskedError(unknown[0].reason) if unknown else None
        return Replayed(
            entry=entry, now=now, before=before, where=where, error=error,
            baseline=self._baseline, **more,
        )  # fmt: skip

    def _runner(self, choice: RunnerChoice) -> OpenRunner:
        # A GPU takes its time to say that it is not there.
        return self._once(choice, lambda: self._stack.enter_context(opened(choice)))

    def _once(self, key: object, make: Callable[[], _Made]) -> _Made:
        """Return what was made before: what is missing is missing for every finding."""
        if key not in self._made:
            try:
                self._made[key] = make()
            except WarpfuzzError as error:
                self._made[key] = error
        if isinstance(found := self._made[key], WarpfuzzError):
            raise found
        return cast(_Made, found)

    def _module(self, entry: Entry, times: int) -> Replayed:
        options = self._options
        probe = self._probe(entry, options)
        askers = self._askers(entry.finding, options)
        among: list[Assembler] = []
        before = None
        if self._baseline is not None:
            other = options.baseline(self._baseline)
            others = self._askers(entry.finding, other)
            among = [assembler for assembler, _ in (*askers, *others)]
            changed = self._probe(entry, other)
            before = asked(lambda _: Counter([changed.ask(others, among=among)]), times=times)
        now = asked(lambda _: Counter([probe.ask(askers, among=among)]), times=times)
        where: dict[str, object] = {
            "assemblers": list(dict.fromkeys(assembler.label for assembler, _ in askers)),
            "levels": list(dict.fromkeys(level for _, level in askers)),
        }
        if now.known:
            target, version = probe.module_for([*(one for one, _ in askers), *among])
            where |= {"target": target, "ptx_version": str(version)}
        more: dict[str, object] = {}
        if self._answers is not None:
            told, words = self._answers.of(entry.id), words_of(now)
            more["recorded"] = self._answers.spans(entry.id)
            if told and words is not None:
                more["standing"] = replay_status(told[-1][1], words, now.kind)
        return self._row(entry, now, before, where, **more)

    def _probe(self, entry: Entry, options: ReplayOptions) -> ModuleProbe:
        return ModuleProbe(
            entry,
            target=options.target,
            version=options.ptx_version,
            rewriters=rewriters(options.planted(entry), options.passed(entry)),
            stand_in=STAND_IN if self._answers and self._answers.of(entry.id) else None,
        )

    def _askers(
        self, finding: Finding, options: ReplayOptions
    ) -> Sequence[tuple[Assembler, int | None]]:
        """Return who is asked: an assembler that was named, or those that the finding names."""
        told = [verdict for verdict in finding.runners if verdict.runner == "ptxas"]
        if (name := options.assembler) is not None or not told:
            # A case that a person wrote need not say which: then the newest, as for a module.
            assembler = self._once(name, partial(find_assembler, name))
            pairs = [
                (options.having(assembler, split_variant(one.version)[1]), _level(one.options))
                for one in told
            ] or [(options.having(assembler, PLAIN), None)]
        else:
            here = self._once(
                "here", lambda: {one.version: one for one in discover_assemblers().assemblers}
            )
            names = [split_variant(one.version)[0] for one in told]
            missing = list(dict.fromkeys(one for one in names if one not in here))
            if missing:
                releases = " ".join(".".join(one.lstrip("V").split(".")[:2]) for one in missing)
                # Without the finding's id: a corpus is told once of every version.
                raise UsageError(
                    f"made with ptxas {', '.join(missing)}, which is not here (found: "
                    f"{', '.join(here) or 'none'}); fetch it (`warpfuzz compilers fetch "
                    f"{releases}`), or choose another with --assembler"
                )
            pairs = [
                (options.having(here[name], split_variant(one.version)[1]), _level(one.options))
                for name, one in zip(names, told, strict=True)
            ]
        level = options.level
        return list(
            dict.fromkeys((assembler, own if level is None else level) for assembler, own in pairs)
        )


def _asked(entry: Entry, ready: OpenRunner, *, times: int) -> Answer:
    probe: HandProbe | ProgramProbe
    if is_by_hand(entry):
        probe = HandProbe(entry)
    else:
        probe = ProgramProbe(entry, target=ready.target, version=ready.ptx_version)
    return asked(partial(probe.ask, ready.runner), times=times)


def _level(options: str) -> int | None:
    found = _LEVEL.search(options)
    return None if found is None else int(found[1])
