"""The final report of a campaign, in the terminal and as a page."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from io import StringIO
from pathlib import Path

import jinja2
from markupsafe import Markup
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.terminal_theme import SVG_EXPORT_THEME
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
from fuzz.console.dashboard import dashboard, not_compared, reference_lines, screened_words
from fuzz.findings.families import (
    FamilyState,
    FindingGroup,
    accused,
    finding_groups,
    group_counts,
)
from fuzz.kinds import KINDS
from fuzz.output import (
    THEME,
    WIDE,
    counted,
    duration,
    harmless,
    kind_name,
    kind_style,
    plain,
    table,
    typed,
)
from oracle.errors import UsageError, WarpfuzzError
from oracle.isa import SHAPES


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    number: bool = False
    link: str = ""
    """Anchor of a section of the page that it leads to."""


@dataclass(frozen=True)
class Plot:
    """A line over time."""

    name: str
    seconds: Sequence[float]
    """Rising."""
    values: Sequence[float]
    """As many, none below 0."""

    @property
    def most(self) -> str:
        """The highest value, which is at the top."""
        return f"{max(self.values, default=0):,.0f}"

    @property
    def span(self) -> str:
        """The time from the left to the right."""
        return duration(max(self.seconds, default=0))

    @property
    def points(self) -> str:
        """The line in a square of 100, as SVG counts: from the top left."""
        right, top = max(self.seconds, default=0) or 1, max(self.values, default=0) or 1
        return " ".join(
            f"{100 * x / right:.2f},{100 - 96 * y / top:.2f}"
            for x, y in zip(self.seconds, self.values, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page: a table, plots, and what a terminal shows."""

    heading: str
    anchor: str = ""
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()
    plots: Sequence[Plot] = ()
    printed: Markup = Markup()  # noqa: RUF009 - it is a constant text
    """Of `printed`."""


def printed(recorder: Console) -> Markup:
    """Console output as HTML, as `printed` returns it."""
    return Markup(recorder.export_html(inline_styles=True, code_format="{code}").rstrip())


def page(title: str, sentences: Sequence[str], sections: Sequence[Section]) -> bytes:
    """Return a page; nothing in a text of it can be markup."""
    shown = [harmless(one) for one in sentences]
    text = _template().render(title=harmless(title), sentences=shown, sections=sections)
    return text.encode(errors="backslashreplace")


@cache
def _template() -> jinja2.Template:
    source = files("fuzz.console").joinpath("page.html").read_text(encoding="utf-8")
    return jinja2.Environment(autoescape=True, trim_blocks=True).from_string(source)


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
        out.print(families_table(status.families, columns=out.width))
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
        words += f", and {known:,} known"
    if status.suspects:
        words += f", and {counted(len(status.suspected), 'suspect')} not replayed yet"
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
    _check_kind(path)
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
    rows = [[Cell(words) for words in event_words(event)] for event in status.fleet_history]
    return Section(
        heading="Nodes and actors that went and came", headings=("UTC", "what"), rows=rows
    )


def _page(status: CampaignStatus, corpus: Path, recorder: Console, budget: Budget | None) -> bytes:
    def shown(one: RenderableType) -> Markup:
        recorder.print(one)
        return printed(recorder)

    lines = [
        [
            Cell(kind_name(line.kind)),
            Cell(f"{line.cases:,}", number=True),
            Cell(harmless(" ".join((what, *shapes)), one_line=True)),
            Cell(harmless(_example(line), one_line=True)),
            Cell(harmless(f"{line.each_kind}{line.remark}", one_line=True)),
            Cell(ids[0] if ids else "not stored", link=ids[0] if ids else ""),
        ]
        for line, what, shapes, ids in _lines(status.families)
    ]
    headings = ("kind", "cases", "what", "instruction", "of which", "smallest case")
    found = Section(heading="Findings", headings=headings, rows=lines)
    # The plots are more of the rates than the line that stands for them in a terminal.
    campaign = dashboard(replace(status, rates=()), budget)
    sections = [
        *([found] if lines else []),
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


_REPORT_COLUMNS, _REPORT_ROWS = 120, 400
"""Columns of a report: what a page of a browser shows without scrolling; rows of a dashboard in
it: enough for every family that a person reads."""


def recording_console(columns: int = _REPORT_COLUMNS, rows: int = _REPORT_ROWS) -> Console:
    """Return a console that keeps what is printed, with its colours, whatever the terminal is."""
    return Console(
        record=True,
        width=columns,
        height=rows,
        file=StringIO(),
        theme=THEME,
        highlight=False,
        force_terminal=True,
        color_system="truecolor",
        no_color=False,
    )


def save(recorder: Console, path: Path, *, title: str) -> None:
    """Write what a console has kept as .svg, or else as .html."""
    if path.suffix == ".svg":
        page = recorder.export_svg(title=title)
    else:
        page = recorder.export_html(theme=SVG_EXPORT_THEME)
    durable.write_output(path, page.encode(errors="backslashreplace"))


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


def check_report(path: Path | None) -> None:
    """Raise UsageError now for what could not be written at the end of a long campaign."""
    if path is None:
        return
    _check_kind(path)
    if not path.parent.is_dir() or path.is_dir():
        raise UsageError(
            f"the report {path} cannot be written: give a file in a folder that is there"
        )


def _check_kind(path: Path) -> None:
    if path.suffix not in (".svg", ".html"):
        raise UsageError(f"{path} ends in neither .svg nor .html; choose one of the two")


def undefined_table(counts: Counts) -> RenderableType:
    """Return the table: why programs are undefined, what they did, and how many."""
    shown = table("undefined, not judged", "outcome", "programs", overflow="ellipsis")
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
    shown = table("compiler", *headings, overflow="ellipsis", justify="right")
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
    compared = f"{counted(status.compared, status.words.case)} compared"
    words = ", ".join((compared, *not_compared(status)))
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
    opcode = accused(group.shown.case).partition(" ")[0]
    return f"{opcode} (PTX ISA {group.shown.case.ptx_version})"


_NARROW = 60
"""Columns below which nothing of a finding has one: 11 of 40 would be left for what it is."""


def families_table(
    families: Iterable[FamilyState], rows: int | None = None, *, columns: int = _REPORT_COLUMNS
) -> RenderableType:
    """Return a table of the families, worst first; a line holds all that differ in shape alone."""
    lines = list(_lines(families))
    shown = lines if rows is None else lines[:rows]
    more = f"… and {counted(len(lines) - len(shown), 'line')} more"
    if columns < _NARROW:
        texts = []
        for line, what, _, ids in shown:
            head = ", ".join((kind_name(line.kind), counted(line.cases, "case"), *ids[:1]))
            texts += [plain(head), plain(what), plain(_example(line), style="quiet")]
        return Group(*texts, *([more] if len(shown) < len(lines) else []))
    made = Table(box=None, pad_edge=False, expand=True)
    made.add_column("kind", no_wrap=True)
    made.add_column("cases", justify="right", no_wrap=True)
    wide = columns >= WIDE
    heading = "what" if wide else "what, instruction below"
    made.add_column(heading, ratio=4, overflow="fold")
    if wide:
        made.add_column("instruction, without operands", ratio=3, overflow="fold")
    made.add_column("smallest case, + others" if wide else "smallest case", no_wrap=True)
    for line, what, shapes, ids in shown:
        known = line.known is not None
        text = plain(" ".join((what, *shapes)))
        remark = harmless(f"{line.each_kind}{line.remark}", one_line=True)
        text.append(remark, style="known" if known else "quiet")
        example = plain(_example(line), style="quiet")
        made.add_row(
            Text(kind_name(line.kind), style=kind_style(line.kind, known=known)),
            f"{line.cases:,}",
            *((text, example) if wide else (text.append("\n").append_text(example),)),
            f"{ids[0]} +{len(ids) - 1}" if len(ids) > 1 else "".join(ids),
        )
    if len(shown) < len(lines):
        made.add_row("", "", more, *([""] if wide else []), "")
    return made
