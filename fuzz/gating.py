"""What came of a gate: its items, its verdict and its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from markupsafe import escape

from corpus.finding import MODULE
from corpus.store import Entry
from fuzz.campaign.status import TOLD_APART, CampaignStatus, figures
from fuzz.checks.protocol import BY_MEMBER
from fuzz.compilers.members import NOWHERE
from fuzz.findings.case import commands_of, is_runnable
from fuzz.options.testing import Gate
from fuzz.output import (
    Report,
    ReportColumn,
    ReportRow,
    Section,
    Test,
    counted,
    duration,
    harmless,
    rows_of,
)
from runners.toolchains import Toolchain
from runners.variants import Variant


class Standing(StrEnum):
    """What has become of something with the new compiler, as the table has it."""

    FIXED = "fixed"
    NEW = "new"
    BITS = "changed bits"
    SLOWER = "slower to compile"
    CRASH = "crashes"
    MORE = "accepts more"
    SAME = "unchanged"
    SKIPPED = "skipped"

    @property
    def speaks_against(self) -> bool:
        """Whether the new compiler is not to be taken because of it."""
        return self.is_news and self is not Standing.MORE

    @property
    def is_news(self) -> bool:
        """Whether the new one alone does something that is wrong."""
        return self not in (Standing.FIXED, Standing.SAME, Standing.SKIPPED)


SOURCES = ("shipped findings", "new programs", "compile time")


@dataclass(frozen=True, kw_only=True)
class GateItem:
    """One thing about which both compilers were asked."""

    standing: Standing
    what: str
    source: str
    """One of `SOURCES`."""
    entry: Entry | None = None
    """The finding, where it is one that is stored."""
    known: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is a regression that nobody has explained."""
        return self.standing.speaks_against and not self.known

    def row(self) -> ReportRow:
        """Return it as a report has it."""
        standing, skipped = self.standing, self.known or self.standing is Standing.SKIPPED
        # The id of a finding that ships with warpfuzz, or the folder of a new one.
        path, ships = "", self.source == SOURCES[0]
        if self.entry is not None:
            path = self.entry.id if ships else str(self.entry.path)
        outcome = "skipped" if skipped else "failure" if self.counts else "passed"
        group, name = f"warpfuzz.gate.{self.source}", f"{path} {self.what}".strip()
        return ReportRow(
            data={
                "standing": standing, "what": self.what, "source": self.source, "path": path,
                "known": self.known,
            },
            style="bad" if self.counts else "quiet",
            # What is as it was, of more than a hundred, decides nothing.
            listed=standing.is_news or not (skipped or ships),
            test=Test(group, name, 0.0, outcome, standing, self.what),
        )  # fmt: skip


@dataclass(kw_only=True)
class GateResult:
    """All that both compilers were asked, and what came of it."""

    old: Toolchain
    new: Toolchain
    runner: str
    options: Gate
    variants: tuple[Variant, ...] = ()
    """Options with which both compiled new programs at one level."""
    compared: list[GateItem] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    status: CampaignStatus | None = None
    stopped: bool = False
    """Whether a signal ended it before its time."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each part took."""

    def programs(self, what: str) -> int:
        """Return of how many new programs both have something: "compiled", or "compared"."""
        counts = {} if self.status is None else self.status.counts
        return min(
            max((count for (kind, *names), count in counts.items()
                 if kind == BY_MEMBER and names[0].startswith(f"{one.label} -")
                 and names[1] == what), default=0)
            for one in (self.old, self.new)
        )  # fmt: skip

    @property
    def regressions(self) -> list[GateItem]:
        """What speaks against the new compiler."""
        return [item for item in self.compared if item.counts]

    @property
    def verdict(self) -> tuple[str, str]:
        """Return the verdict, and what it rests on."""
        new, stopped = self.new.named.replace(" V", " "), "stopped before the end; " * self.stopped
        if found := self.regressions:
            return "REJECT", f"{stopped}{counted(len(found), 'regression')} in {new}"
        programs, least = self.programs("compared"), self.options.at_least
        said = f"{stopped}no regression found in {new}"
        ran = f"both compilers executed {counted(programs, 'new program')}"
        if not self.programs("compiled"):
            how = "" if self.stopped else "; give it longer (--time)"
            return "UNKNOWN", f"{said}, but no new program was compiled by both{how}"
        if programs >= least and not self.stopped:
            ran = ran if programs else self.nothing_ran
            return "ACCEPT", f"{said}; {ran[0].lower()}{ran[1:]}"
        # The simulated device runs no machine code.
        elsewhere = self.runner == NOWHERE or (self.runner == "sim" and not programs)
        what = "Run it where there is a GPU" if elsewhere else "Give it longer (--time)"
        how = f". {what}, or set the limit with --at-least" * (not self.stopped)
        return "UNKNOWN", f"{said}, but {ran} of at least {least:,} (--at-least){how}"

    @property
    def nothing_ran(self) -> str:
        """Say why no program was executed, and what was done instead."""
        why = "no GPU" if self.options.runner is None else f"--runner {self.options.runner}"
        return (
            f"Nothing was executed ({why}). Both compilers compiled "
            f"{counted(self.programs('compiled'), 'new program')}"
        )


# The result

_OFTEN = (
    ReportColumn("", "standing"),
    ReportColumn("count", lambda data: sum(data[source] for source in SOURCES), number=True),
    *(ReportColumn(source, number=True) for source in SOURCES),
)
_WAYS = ("what", "executed", "compiled only", "not tried")
_EVIDENCE = (ReportColumn("", "what"), *(ReportColumn(one, number=True) for one in _WAYS[1:]))
_COLUMNS = (
    ReportColumn("", lambda data: f"{data['standing']}{' (known)' if data['known'] else ''}"),
    ReportColumn("what"),
    ReportColumn("id or folder", "path"),
)


def write_report(result: GateResult, seed: int, seconds: float) -> None:
    """Write the report: to the terminal or as JSON, and into the files that are asked for."""
    options, status = result.options, result.status
    verdict, reason = result.verdict
    compared = sorted(
        result.compared, key=lambda one: (not one.counts, not one.standing.speaks_against)
    )
    counts = [
        {
            "standing": standing,
            **{name: sum(one.standing is standing and one.source == name for one in compared)
               for name in SOURCES},
        }
        for standing in Standing
    ]  # fmt: skip
    evidence = _evidence(result)
    unknown = [Test("warpfuzz.gate.new programs", "enough was executed", 0.0, "error", reason)]
    Report(
        title=f"warpfuzz gate {result.old.label} {result.new.label}",
        verdict=verdict,
        reason=reason,
        before=[
            Section(heading="Summary", columns=_OFTEN, rows=rows_of(counts)),
            Section(heading="Evidence", columns=_EVIDENCE, rows=rows_of(evidence)),
        ],
        heading="Regressions and news",
        columns=_COLUMNS,
        rows=[one.row() for one in compared],
        sentences=[*_sentences(result, seed, seconds)],
        details=[_detail(one) for one in result.regressions],
        summary={
            "old": result.old.label,
            "new": result.new.label,
            "runner": result.runner,
            "variants": [f"{one}" for one in result.variants],
            "cases": 0 if status is None else status.cases,
            **({} if status is None else figures(status, TOLD_APART)),
            "evidence": evidence,
            "at_least": options.at_least,
            "seconds": round(seconds, 3),
            "seed": seed,
            "standings": {one["standing"]: sum(map(one.get, SOURCES)) for one in counts},
            "findings": [one.row().data for one in result.regressions],
            "skipped": result.skipped,
        },
        tests=unknown if verdict == "UNKNOWN" else (),
    ).write(**options.picked("json", "junit", "report"))


def _evidence(result: GateResult) -> list[dict[str, Any]]:
    """Return how much was executed, only compiled, and not tried by both."""
    ways = Counter(
        2 if one.standing is Standing.SKIPPED else int(not is_runnable(one.entry))
        for one in result.compared
        if one.source == SOURCES[0] and one.entry is not None
    )
    executed, compiled = result.programs("compared"), result.programs("compiled")
    drawn = 0 if result.status is None else result.status.counts["programs",]
    new = (executed, compiled - executed, drawn - compiled)
    found = ((SOURCES[0], ways[0], ways[1], ways[2]), (SOURCES[1], *new))
    return [dict(zip(_WAYS, row, strict=True)) for row in found]


def _sentences(result: GateResult, seed: int, seconds: float) -> Iterator[str]:
    status = result.status
    if status is None:
        yield "No new program was drawn."
    elif not (programs := result.programs("compared")):
        yield f"{result.nothing_ran}."
    else:
        different = status.counts.get(("differences",), 0)
        yield (
            f"{counted(status.compared, 'image')} compared bit for bit with the oracle "
            f"({counted(programs, 'new program')} executed by both); "
            f"{counted(different, 'program')} with different results."
        )
    if result.variants:
        few = status.counts.get(("unsupported",), 0) if status is not None else 0
        but = f"; {counted(few, 'build')} left out: too few registers" * bool(few)
        named = ", ".join(map(str, result.variants))
        yield f"New programs were compiled at all levels, and at the highest with {named}{but}."
    if any(one.source == SOURCES[0] for one in result.compared):
        command = "`warpfuzz corpus show ID --corpus record`"
        yield f"IDs refer to findings shipped with warpfuzz: {command}."
    if result.skipped:
        yield f"Skipped: {'; '.join(result.skipped)}."
    took = ", ".join(f"{name} {duration(one)}" for name, one in result.seconds.items())
    yield f"Seed {seed}, {duration(seconds)} ({took})."


def _detail(item: GateItem) -> Section:
    text, entry = item.what, item.entry
    if entry is not None:
        commands = "\n".join(f"{words}: {command}" for words, command in commands_of(entry))
        text = f"{commands}\n\n{harmless(entry.read(MODULE).decode(errors='replace'))}"
    return Section(heading=f"{item.standing}: {item.what}", printed=escape(text))
