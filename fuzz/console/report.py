"""The final report of a campaign, in the terminal and as a page."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from markupsafe import Markup
from rich.console import Console, RenderableType
from rich.text import Text

from corpus import Kind, durable, open_corpus
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
from fuzz.console.dashboard import dashboard, outcome_words, reference_lines, screened_words
from fuzz.findings.families import (
    FamilyState,
    FindingGroup,
    accused,
    finding_groups,
    group_counts,
)
from fuzz.kinds import KINDS
from fuzz.output import (
    counted,
    duration,
    harmless,
    kind_name,
    kind_style,
    plain,
    table,
    typed,
)
from fuzz.output.report import (
    Plot,
    ReportColumn,
    ReportRow,
    Section,
    page,
    printed,
    recording_console,
    save,
)
from fuzz.reducer import opcodes_of
from oracle.errors import WarpfuzzError
from oracle.isa import SHAPES


def print_report(status: CampaignStatus, corpus: Path, out: Console) -> None:
    """Print what was compared, what was found, and the command that replays it."""
    line = partial(out.print, markup=False, soft_wrap=True)
    for sentence in status.left_out:
        line(f"Left out: {sentence}.", style="odd")
    for remark in status.remarks:
        line(plain(f"{remark[0].upper()}{remark[1:]}.", style="odd"))
    if lost := fleet_words(fleet_row(status.hosts)):
        missing = missing_words(status.hosts) or "none is missing now"
        line(plain(f"Of the fleet: {lost}; {missing}.", style="odd"))
    if status.families:
        out.print(families_table(status.families))
        lines = [ids for _, _, _, ids in _lines(status.families)]
        if any(len(ids) > 1 for ids in lines):
            found = counted(sum(group_counts(status.families)), "finding")
            line(f"{counted(len(lines), 'line')}, {found}: +N stands for N more, of other shapes.")
    words = told_apart_words(status)
    line(f"{words} in {duration(status.seconds)}, seed {status.seed}: {_found(status)}.")
    line(_concluded(status))
    if status.screening is not None:
        words = screened_words(status.screening)
        line(f"{words[0].upper()}{words[1:]}.")
    for said in reference_lines(status.counts):
        line(Text(f"{said.plain[0].upper()}{said.plain[1:]}.", style=said.style))
    if any(words[0] == "undefined" for words in status.counts):
        out.print(undefined_table(status.counts))
    members = member_counts(status.counts)
    if members:
        out.print(members_table(members))
    for note in status.notes:
        line(f"note: {note['note']}", style="odd")
    if status.families:
        command = typed(("warpfuzz", "replay", corpus, *status.words.replay))
        line(f"Stored in {corpus}. Replay: {command}")
    for suspect in status.suspected:
        ids = " and ".join(suspect.ids) or "not stored"
        line(
            f"Suspect, not replayed yet: {ids}, looks like {suspect.title}{suspect.each_kind}",
            style="odd",
        )
    if status.suspects:
        resume = typed(("warpfuzz", "run", "--resume", "--corpus", corpus))
        line(f"Suspects are no findings. This replays them, and goes on: {resume}")
    for family in (*status.families, *status.suspects):
        if family.saved is None:
            line(
                f"Not stored ({status.words.where}), keep it: {accused(family.case)}", style="worst"
            )


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
    return f"{sentence[0].upper()}{sentence[1:]}."


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
    print_report(status, corpus, recorder)
    for _, shown in _findings(status.families, corpus, most=1):
        recorder.print()
        recorder.rule(style="quiet")
        recorder.print(shown)
    save(recorder, path, title=_title(status))


def _title(status: CampaignStatus) -> str:
    return harmless(f"warpfuzz against {status.words.subject}, seed {status.seed}", one_line=True)


def _fleet(status: CampaignStatus) -> Section:
    rows = [ReportRow(data=dict(zip(("utc", "what"), event_words(event), strict=True)))
            for event in status.fleet_history]  # fmt: skip
    columns = (ReportColumn("UTC", "utc", whole=True), ReportColumn("what"))
    return Section(heading="Nodes and actors that went and came", columns=columns, rows=rows)


_FOUND = (
    ReportColumn("kind"),
    ReportColumn("cases", number=True),
    *(ReportColumn(one) for one in ("what", "instruction", "of which")),
    ReportColumn("smallest case", lambda data: data["id"] or "not stored", link="id"),
)  # fmt: skip


def _page(status: CampaignStatus, corpus: Path, recorder: Console, budget: Budget | None) -> bytes:
    def shown(one: RenderableType) -> Markup:
        recorder.print(one)
        return printed(recorder)

    lines = [
        ReportRow(
            data={
                "kind": kind_name(line.kind),
                "cases": line.cases,
                "what": " ".join((what, *shapes)),
                "instruction": _example(line),
                "of which": f"{line.each_kind}{line.remark}",
                "id": ids[0] if ids else "",
            }
        )
        for line, what, shapes, ids in _lines(status.families)
    ]
    # The plots are more of the rates than the line that stands for them in a terminal.
    campaign = dashboard(replace(status, rates=()), budget)
    sections = [
        *([Section(heading="Findings", columns=_FOUND, rows=lines)] if lines else []),
        Section(heading="Over time", plots=_plots(corpus)),
        *([_fleet(status)] if status.fleet_history else []),
        Section(heading="Campaign", printed=shown(campaign)),
    ]
    print_report(status, corpus, recorder)
    sections.append(Section(heading="Report", printed=printed(recorder)))
    for identity, finding in _findings(status.families, corpus):
        one = Section(heading=f"Finding {identity}", anchor=identity, printed=shown(finding))
        sections.append(one)
    sentences = [
        f"{told_apart_words(status)} in {duration(status.seconds)}, seed {status.seed}: "
        f"{_found(status)}.",
        _concluded(status),
        f"On {platform.platform()}, with Python {platform.python_version()} and warpfuzz "
        f"{warpfuzz_version()}.",
    ]
    return page(_title(status), sentences, sections)


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


def undefined_table(counts: Counts) -> RenderableType:
    """Return the table: why programs are undefined, what they did, and how many."""
    shown = table("undefined, not judged", "outcome", "programs")
    shown.columns[2].justify = "right"
    for words, count in sorted(counts.items()):
        if words[0] == "undefined":
            shown.add_row(*words[1:], f"{count:,}")
    return shown


_MEMBER_COLUMNS = ("compared", "images", "compiled", "not compiled", "not readable")


def member_counts(counts: Counts) -> Mapping[str, Mapping[str, int]]:
    """Return the counters of each of those who are compared with each other, by their names."""
    found: dict[str, dict[str, int]] = {}
    for words, count in counts.items():
        if words[0] == BY_MEMBER:
            found.setdefault(words[1], dict.fromkeys(_MEMBER_COLUMNS, 0))[words[2]] = count
    return found


def members_table(members: Mapping[str, Mapping[str, int]]) -> RenderableType:
    """Return the table: how much each compiler had compared, only compiled, and could not read."""
    headings = ("programs compared", "images", "compiled", "not compiled", "PTX too new for it")
    shown = table("compiler", *headings, justify="right")
    shown.columns[0].no_wrap, shown.columns[0].justify = True, "left"
    # Levels of one version mostly have the same figures.
    rows: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for name, one in members.items():
        version, _, level = name.rpartition(" ")
        figures = tuple(one[column] for column in _MEMBER_COLUMNS)
        rows.setdefault((version, figures), []).append(level)
    for (version, figures), levels in rows.items():
        style = "" if figures[0] else "odd"
        cells = [f"{count:,}" for count in figures]
        shown.add_row(plain(" ".join((version, *levels))), *cells, style=style)
    return shown


def told_apart_words(status: CampaignStatus) -> str:
    """Say how many cases were compared, only accepted or rejected, failed, and not asked."""
    words = ", ".join(outcome_words(status))
    shown = [
        counted(count, one.one, one.many)
        for one in status.words.counters
        if (count := status.counts[one.words]) or not one.odd
    ]
    return f"{words} ({', '.join(shown)})" if shown else words


def _lines(
    families: Iterable[FamilyState],
) -> Iterator[tuple[FindingGroup, str, tuple[str, ...], tuple[str, ...]]]:
    """Join groups that a person reads as one: they differ in the shape alone.

    Yields
    ------
    tuple
        What was joined, what it is without a shape, the shapes, and the ids of the findings that
        stand for the groups, as far as they are stored.
    """
    lines: dict[tuple[Kind, str, str, str], list[tuple[str, FindingGroup]]] = {}
    for group in finding_groups(families):
        what, shape = group.what, ""
        head, _, said = what.partition(": ")
        if KINDS[group.kind].quotes:
            what, said = head, ""
        if not said:
            # What is said of values stands for all shapes already: that of the title is an example.
            shape = next((word for word in what.split(" ") if word.rstrip(",") in SHAPES), "")
            what = what.replace(shape, "").replace("  ", " ").strip() if shape else what
        message = "" if group.kind is not Kind.REJECTED else group.shown.case.runners[-1].message
        lines.setdefault((group.kind, group.remark, what, message), []).append((shape, group))
    for (_, _, what, _), joined in lines.items():
        shapes = tuple(shape.rstrip(",") for shape, _ in joined if shape)
        ids = tuple(one.shown.saved.id for _, one in joined if one.shown.saved is not None)
        members = tuple(member for _, group in joined for member in group.members)
        yield FindingGroup(members=members), what, shapes, ids


def _example(group: FindingGroup) -> str:
    text = accused(group.shown.case)
    return next(iter(opcodes_of([text])), text.partition(" ")[0])


def families_table(families: Iterable[FamilyState]) -> RenderableType:
    """Return a table of the families, worst first; a line holds all that differ in shape alone."""
    made = table("kind", "cases", "what", "instruction", "smallest case")
    made.columns[0].no_wrap, made.columns[1].justify = True, "right"
    for line, what, shapes, ids in _lines(families):
        known = line.known is not None
        text = plain(" ".join((what, *shapes)))
        remark = harmless(f"{line.each_kind}{line.remark}", one_line=True)
        made.add_row(
            Text(kind_name(line.kind), style=kind_style(line.kind, known=known)),
            f"{line.cases:,}",
            text.append(remark, style="known" if known else "quiet"),
            plain(_example(line), style="quiet"),
            f"{ids[0]} +{len(ids) - 1}" if len(ids) > 1 else "".join(ids),
        )
    return made
