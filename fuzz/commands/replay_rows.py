"""Replaying findings of either sort, with one compiler, or with one against another."""

from __future__ import annotations

from contextlib import ExitStack

from corpus import Entry
from fuzz.commands.value_replays import ReplayOptions, ValueReplays, same, verdict_of
from fuzz.compiler_matrix.expansion_probe import is_expansion
from fuzz.replaying import Replayed, replay, shared_version
from fuzz.value_findings import is_runnable
from runners.faults import Place, by_name
from runners.ptx_pass import PtxPass

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
