"""`warpfuzz replay` of findings that have images: on the runner that found them, or another."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace

from corpus import Entry, Kind
from fuzz.runner_choice import OpenRunner, RunnerChoice, opened
from fuzz.value_findings import choice_of, subject_of
from fuzz.value_replaying import attempt, conclusion


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What `warpfuzz replay` is to run findings with; nothing is planted unless it is named."""

    runner: str | None = None
    """"sim" or "cuda"; None: the one that found it."""
    faults: tuple[str, ...] = ()
    ptx_pass: str | None = None
    assembler: str | None = None
    """For a GPU; None: what the finding was made with."""

    def choice(self, entry: Entry) -> RunnerChoice:
        """Return the runner for a finding."""
        found_by = choice_of(entry, self.runner)
        return replace(
            found_by,
            faults=self.faults,
            ptx_pass=self.ptx_pass,
            assembler=self.assembler or found_by.assembler,
        )


class ValueReplays:
    """Replays findings; a runner that several of them need is opened once."""

    def __init__(self, options: ReplayOptions) -> None:
        self._options = options
        self._stack = ExitStack()
        self._opened: dict[RunnerChoice, OpenRunner] = {}

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
        subject = subject_of(entry)
        ready = self._runner(self._options.choice(entry))
        attempts = [attempt(ready.runner, subject) for _ in range(times)]
        outcomes = Counter("match" if one.kind is None else one.kind.value for one in attempts)
        failure = next((one.failure for one in attempts if one.failure is not None), None)
        return {
            "id": entry.id,
            "family": entry.finding.family.key,
            "kind": entry.finding.kind.value,
            "verdict": _verdict(entry.finding.kind, conclusion(attempts)),
            "path": str(entry.path),
            "outcomes": dict(outcomes),
            "runner": ready.choice.name,
            "device": ready.device,
            "options": ready.choice.options,
            "message": "" if failure is None else str(failure),
        }

    def _runner(self, choice: RunnerChoice) -> OpenRunner:
        if choice not in self._opened:
            self._opened[choice] = self._stack.enter_context(opened(choice))
        return self._opened[choice]


def _verdict(was: Kind, now: Kind | None) -> str:
    """Say "reproduced", "changed" (into another kind), "flaky" or "gone"."""
    if now is None:
        return "gone"
    # What was not the same every time need not be so in a few runs.
    if now is was or was is Kind.FLAKY:
        return "reproduced"
    return "flaky" if now is Kind.FLAKY else "changed"
