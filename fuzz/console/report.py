"""The final report of a campaign, in the terminal and as a page."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup
from rich.console import Console, RenderableType
from rich.text import Text

from corpus import durable, open_corpus
from fuzz import warpfuzz_version
from fuzz.campaign.status import (
    CampaignStatus,
    event_words,
    fleet_row,
    fleet_words,
    missing_words,
    read_statistics,
)
from fuzz.campaign.store import Budget
from fuzz.checks.protocol import BY_MEMBER, Counts
from fuzz.console.dashboard import apart, dashboard, outcome_words
from fuzz.findings.families import (
    FamilyState,
    FindingGroup,
    accused,
    finding_groups,
    group_counts,
)
from fuzz.output import (
    counted,
    duration,
    harmless,
    kind_name,
    kind_style,
    plain,
    typed,
)
from fuzz.output.report import (
    Plot,
    Report,
    ReportColumn,
    ReportRow,
    Section,
    page,
    printed,
    recording_console,
    rows_of,
    save,
)
from fuzz.reducer import opcodes_of
from oracle.errors import WarpfuzzError


def campaign_report(status: CampaignStatus, corpus: Path) -> Report:
    """Return what was compared, what was found, and the command that replays it."""
    members = member_counts(status.counts)
    sections = [
        Section(columns=_FOUND, rows=_found_rows(status.families)),
        Section(columns=_UNDEFINED, rows=_undefined(status.counts)),
        Section(columns=_MEMBERS, rows=_member_rows(members)),
    ]
    return Report(title=_title(status), before=sections, sentences=[*_sentences(status, corpus)])


def _sentences(status: CampaignStatus, corpus: Path) -> Iterator[str | Text]:
    for sentence in (*(f"left out: {one}" for one in status.left_out), *status.remarks):
        yield plain(_sentence(sentence), style="odd")
    if lost := fleet_words(fleet_row(status.hosts)):
        missing = missing_words(status.hosts) or "none is missing now"
        yield plain(f"Of the fleet: {lost}; {missing}.", style="odd")
    yield _summed_up(status)
    yield _concluded(status)
    yield from (Text(_sentence(said.plain), style=said.style) for said in apart(status))
    for note in status.notes:
        yield Text(f"note: {note['note']}", style="odd")
    if status.families:
        command = typed(("warpfuzz", "replay", corpus, *status.words.replay))
        yield f"Stored in {corpus}. Replay: {command}"
    for suspect in status.suspected:
        ids = " and ".join(suspect.ids) or "not stored"
        looks = f"looks like {suspect.title}{suspect.each_kind}"
        yield Text(f"Suspect, not replayed yet: {ids}, {looks}", style="odd")
    if status.suspects:
        resume = typed(("warpfuzz", "run", "--resume", "--corpus", corpus))
        yield f"Suspects are no findings. This replays them, and goes on: {resume}"
    for family in (*status.families, *status.suspects):
        if family.saved is None:
            text = f"Not stored ({status.words.where}), keep it: {accused(family.case)}"
            yield Text(text, style="worst")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _summed_up(status: CampaignStatus) -> str:
    words = told_apart_words(status)
    return f"{words} in {duration(status.seconds)}, seed {status.seed}: {_found(status)}."


def _found(status: CampaignStatus) -> str:
    unknown, known = group_counts(status.families)
    words = counted(unknown, "finding") if unknown else "no findings"
    if known:
        words = f"{unknown:,} new, {known:,} known"
    if status.suspects:
        words += f", and {counted(len(status.suspected), 'suspect')} not replayed yet"
    if status.unstored:
        words += f"; {counted(status.unstored, 'suspect')} not stored, like others that waited"
    if status.gone:
        words += f"; {counted(status.gone, 'case')} differed once, but not when replayed"
    return words


def _concluded(status: CampaignStatus) -> str:
    if status.nothing_compared:
        sentence = status.nothing_compared
    else:
        agrees = status.compared or status.answered
        found = status.families or status.suspects or status.gone or not agrees
        sentence = "the campaign ran against" if found else f"{status.words.agreement}:"
        if status.untested:
            sentence = f"{status.untested}; {sentence}"
        sentence += f" {status.words.subject} ({status.words.where})"
        silent = [name for name, one in member_counts(status.counts).items() if not one["images"]]
        if silent and status.compared:
            sentence += f"; nothing was compared of {', '.join(silent)}"
    return _sentence(sentence)


def write_report(
    status: CampaignStatus, corpus: Path, path: Path, *, budget: Budget | None = None
) -> None:
    """Write the final report as an HTML page, or as an SVG picture of the terminal.

    The page has a table of the findings, worst first, with links to what is known of each, plots of
    the campaign over time, the machine, and the report. A picture, which cannot be searched, has
    the report and the first of the findings.
    """
    recorder = recording_console()
    if path.suffix == ".html":
        durable.write_output(path, _page(status, corpus, recorder, budget))
        return
    recorder.print(dashboard(status, budget))
    recorder.print()
    campaign_report(status, corpus).show(recorder)
    for _, shown in _findings(status.families, corpus, most=1):
        recorder.print()
        recorder.rule(style="quiet")
        recorder.print(shown)
    save(recorder, path, title=_title(status))


def _title(status: CampaignStatus) -> str:
    return harmless(f"warpfuzz against {status.words.subject}, seed {status.seed}", one_line=True)


def _fleet(status: CampaignStatus) -> Section:
    rows = [ReportRow(data=dict(zip(("utc", "what"), event_words(event), strict=True)))
            for event in status.events]  # fmt: skip
    columns = (ReportColumn("UTC", "utc", whole=True), ReportColumn("what"))
    return Section(heading="Nodes and actors that went and came", columns=columns, rows=rows)


_FOUND = (
    ReportColumn("kind", whole=True),
    ReportColumn("cases", number=True),
    ReportColumn("what"),
    ReportColumn("instruction"),
    ReportColumn("smallest case", link="id"),
)  # fmt: skip
_UNDEFINED = (
    ReportColumn("undefined, not judged", "why"),
    ReportColumn("outcome"),
    ReportColumn("programs", number=True),
)
_MEMBERS = (
    ReportColumn("compiler", whole=True),
    ReportColumn("programs compared", "compared", number=True),
    *(ReportColumn(name, number=True) for name in ("images", "compiled", "not compiled")),
    ReportColumn("PTX too new for it", "not readable", number=True),
)


def _found_rows(families: Iterable[FamilyState]) -> list[ReportRow]:
    """Return a row for each cause, worst first."""
    return [
        ReportRow(
            data={
                "kind": Text(
                    kind_name(one.kind), kind_style(one.kind, known=one.known is not None)
                ),
                "cases": one.cases,
                "what": plain(one.what).append_text(
                    plain(f"{one.each_kind}{one.remark}", style="quiet")
                ),
                "instruction": plain(_example(one), style="quiet"),
                "smallest case": one.shown.id or "not stored",
                "id": one.shown.id or "",
            },
            style="known" if one.known is not None else "",
        )
        for one in finding_groups(families)
    ]


def _page(status: CampaignStatus, corpus: Path, recorder: Console, budget: Budget | None) -> bytes:
    def shown(one: RenderableType) -> Markup:
        recorder.print(one)
        return printed(recorder)

    report = campaign_report(status, corpus)
    found, *others = report.before
    sections = [
        *([replace(found, heading="Findings")] if found.rows else []),
        Section(heading="Over time", plots=_plots(corpus)),
        *([_fleet(status)] if status.events else []),
        Section(heading="Campaign", printed=shown(dashboard(status, budget))),
        *(one for one in others if one.rows),
    ]
    for identity, finding in _findings(status.families, corpus):
        one = Section(heading=f"Finding {identity}", anchor=identity, printed=shown(finding))
        sections.append(one)
    machine = (
        f"On {platform.platform()}, with Python {platform.python_version()} and warpfuzz "
        f"{warpfuzz_version()}."
    )
    return page(_title(status), [*map(str, report.sentences), machine], sections)


def _plots(corpus: Path) -> list[Plot]:
    """Return how the campaign went, from the lines of statistics that it left."""
    lines = read_statistics(corpus)
    seconds = [line.seconds for line in lines]
    drawn: Mapping[str, Sequence[float]] = {
        "cases a second": [line.rate for line in lines],
        "cases": [line.cases for line in lines],
        "families of findings": [line.families for line in lines],
    }
    return [Plot(name, seconds, values) for name, values in drawn.items() if len(lines) > 1]


def _findings(
    families: Iterable[FamilyState], corpus: Path, most: int | None = None
) -> Iterator[tuple[str, RenderableType]]:
    """Iterate over the stored findings of families, worst first: id, and what is known of it."""
    shown = [one for group in finding_groups(families) for one in group.members]
    stored = [family.saved.id for family in shown if family.saved is not None]
    if not stored:
        return
    from fuzz.explain.page import page_of

    opened = open_corpus(corpus)
    for identity in stored[:most]:
        try:
            yield identity, page_of(opened.get(identity))
        except WarpfuzzError as error:
            # One that cannot be shown must not cost the report of the others.
            yield identity, plain(f"{identity} cannot be shown: {error}", style="bad")


def _undefined(counts: Counts) -> list[ReportRow]:
    """Return rows: why programs are undefined, what they did, and how many."""
    return rows_of(
        {"why": words[1], "outcome": words[2], "programs": count}
        for words, count in sorted(counts.items())
        if words[0] == "undefined"
    )


_MEMBER_COLUMNS = ("compared", "images", "compiled", "not compiled", "not readable")


def member_counts(counts: Counts) -> Mapping[str, Mapping[str, int]]:
    """Return the counters of each of those who are compared with each other, by their names."""
    found: dict[str, dict[str, int]] = {}
    for words, count in counts.items():
        if words[0] == BY_MEMBER:
            found.setdefault(words[1], dict.fromkeys(_MEMBER_COLUMNS, 0))[words[2]] = count
    return found


def _member_rows(members: Mapping[str, Mapping[str, int]]) -> list[ReportRow]:
    """Return rows: how much each compiler had compared, only compiled, and could not read."""
    # Levels of one version mostly have the same figures.
    levels: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for name, one in members.items():
        version, _, level = name.rpartition(" ")
        levels.setdefault((version, tuple(one[key] for key in _MEMBER_COLUMNS)), []).append(level)
    return [
        ReportRow(
            data={"compiler": " ".join((version, *own))}
            | dict(zip(_MEMBER_COLUMNS, figures, strict=True)),
            style="" if figures[0] else "odd",
        )
        for (version, figures), own in levels.items()
    ]


def told_apart_words(status: CampaignStatus) -> str:
    """Say how many cases were compared, only accepted or rejected, failed, and not asked."""
    words = ", ".join(outcome_words(status))
    shown = [
        counted(count, one.one, one.many)
        for one in status.words.counters
        if (count := status.counts[one.words]) or not one.odd
    ]
    return f"{words} ({', '.join(shown)})" if shown else words


def _example(group: FindingGroup) -> str:
    text = accused(group.shown.case)
    return next(iter(opcodes_of([text])), text.partition(" ")[0])
