"""`warpfuzz status`: shows campaigns that run elsewhere, or have ended, from their files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from fuzz.campaign.status import (
    Figures,
    Fleet,
    Life,
    Summary,
    event_line,
    fleet_row,
    fleet_words,
    missing_words,
    read_figures,
)
from fuzz.checks.protocol import REFERENCE, flattened
from fuzz.console.dashboard import device_text, reference_lines
from fuzz.findings.replay import Way
from fuzz.options import DEFAULT_CORPUS, Status
from fuzz.output import console, counted, duration, emit, is_watched, plain

_WATCH_SECONDS = 2.0
"""Between two looks; campaigns write figures every 10 s."""
_MOST_EVENTS = 12
"""Latest nodes and actors of a fleet that went or came and are shown: half a terminal's lines."""
_STYLES = {Life.RUNNING: "legal", Life.ENDED: "", Life.SILENT: "worst"}


def show_status(options: Status) -> None:
    """Show campaigns; with `watch` again and again until none of them runs any more."""
    out, corpora = console(), options.corpora or (DEFAULT_CORPUS,)
    if options.watch and not options.json and is_watched(out):
        with Live(console=out, auto_refresh=False, transient=True) as live:
            while True:
                found = [read_figures(corpus) for corpus in corpora]
                if not _any_runs(found):
                    break
                live.update(status_view(found), refresh=True)
                time.sleep(_WATCH_SECONDS)
        out.print(status_view(found))
        return
    said: list[float] = []
    while True:
        found = [read_figures(corpus) for corpus in corpora]
        # What nobody has written anew is not told again.
        stamps = [round(time.time() - one.silence) for one in found]
        if stamps != said or not _any_runs(found):
            said = list(stamps)
            if options.json:
                for one in found:
                    emit({"status": _row(one)})
            else:
                out.print(status_view(found))
        if not (options.watch and _any_runs(found)):
            return
        time.sleep(_WATCH_SECONDS)


def _any_runs(found: Sequence[Figures]) -> bool:
    return any(one.life is Life.RUNNING for one in found)


def _row(one: Figures) -> dict[str, object]:
    return {
        "corpus": str(one.corpus),
        "campaign": one.life.value,
        "silent_seconds": round(one.silence, 1),
        **one.rows,
    }


def status_view(found: Sequence[Figures]) -> RenderableType:
    """Return a block of lines for each campaign, and what all of them come to."""
    lines = [line for one in found for line in _lines(one)]
    if len(found) > 1:
        lines.append(_total(found))
    return Group(*lines)


def _total(found: Sequence[Figures]) -> Text:
    lives = Counter(one.life.value for one in found)
    seconds = sum(one.summary.seconds for one in found)
    groups = {row.family or row.title for one in found for row in one.summary.unknown}
    line = Text().append("all of them", style="bold").append(f": {_counted(lives)} · ")
    line.append(f"{sum(one.summary.cases for one in found):,}", style="count")
    rate = sum(one.newest.rate for one in found if one.life is Life.RUNNING)
    line.append(f" cases in {duration(seconds)} together, {rate:,.0f} a second now · ")
    return line.append(
        f"{counted(len(groups), 'different family', 'different families')} of findings"
    )


def _lines(one: Figures) -> list[Text]:
    summary, newest = one.summary, one.newest
    runs = one.life is Life.RUNNING
    head = plain(str(one.corpus), style="bold").append(": ")
    head.append(one.life.value, style=_STYLES[one.life])
    if summary.stopped:
        head.append_text(plain(f" ({summary.stopped})"))
    elif one.life is Life.SILENT:
        head.append(f" for {duration(one.silence)}: it was killed, or its host is gone")
    elif newest.finishing:
        head.append(" (finishing)")
    shard = f", shard {summary.shard}" if summary.shard else ""
    head.append_text(plain(f" · {duration(summary.seconds)}, seed {summary.seed}{shard}"))
    if summary.device:
        head.append_text(plain(f" · {summary.device}", style="quiet"))
    average = summary.cases / summary.seconds if summary.seconds else 0.0
    figures = Text("  ").append(f"{summary.cases:,}", style="count").append(" cases")
    figures.append(f", {', '.join(_told_apart(summary))} · ")
    figures.append(f"{newest.rate:,.0f} a second now, " if runs else "")
    figures.append(f"{average:,.0f} a second on average · {counted(summary.rounds, 'round')}")
    lines = [head, figures, _findings(one)]
    if summary.screening is not None:
        screened, wrong = summary.screening.comparisons, summary.screening.wrong
        style = "worst" if wrong else ""
        text = f"  screening in idle time: {counted(screened, 'comparison')}, {wrong:,} wrong"
        lines.append(Text(text, style=style))
    compared = reference_lines(flattened({REFERENCE: summary.device_reference or {}}))
    lines += [Text("  ").append_text(said) for said in compared]
    if runs:
        hosts = summary.fleet.hosts if summary.fleet is not None else []
        left = not hosts or any(host.nodes for host in hosts)
        workers = Text(f"  {counted(newest.workers if left else 0, 'worker')}")
        if newest.stalled:
            workers.append(f", {newest.stalled:,} stalled", style="worst")
        if newest.examining:
            workers.append(f" · {counted(newest.examining, 'finding')} being examined")
        lines.append(workers)
    if summary.fleet is not None:
        lines += _fleet(summary.fleet, runs=runs)
    return [*lines, *(plain("  ").append_text(device_text(device)) for device in newest.devices)]


def _told_apart(summary: Summary) -> list[str]:
    """Say what became of the cases, which come to all of them."""
    ways = {
        Way.JUDGED.value: summary.accepted_or_rejected,
        Way.FAILED.value: summary.failed,
        Way.NOT_ASKED.value: summary.not_asked,
    }
    others = [f"{count:,} {words}" for words, count in ways.items() if count]
    return [f"{summary.compared:,} compared", *others]


def _fleet(fleet: Fleet, *, runs: bool) -> list[Text]:
    hosts = fleet.hosts
    row, lines = fleet_row(hosts), []
    count = row.get("nodes", 0)
    nodes = f"  {counted(count, 'node')} of the fleet"
    missing = missing_words(hosts)
    if runs:
        nodes += "" if count else ": the campaign waits for one"
        lines.append(
            plain(nodes).append_text(plain(f", {missing}" if missing else "", style="worst"))
        )
    if lost := fleet_words(row):
        lines.append(plain(f"  so far {lost}", style="odd"))
        lines += [plain(f"    {event_line(event)}") for event in fleet.events[-_MOST_EVENTS:]]
    return lines


def _findings(one: Figures) -> Text:
    summary, newest = one.summary, one.newest
    unknown = summary.unknown
    line = Text("  ").append(
        f"{counted(len(unknown), 'family', 'families')} of findings",
        style="odd" if unknown else "",
    )
    verdicts = Counter(row.verdict for row in unknown)
    if verdicts:
        line.append_text(plain(f" ({_counted(verdicts)})"))
    if summary.known:
        line.append(f", and {len(summary.known):,} known")
    if summary.unreplayed:
        line.append(f", {counted(summary.unreplayed, 'suspect')} not replayed yet")
    if summary.untested and one.life is not Life.RUNNING:
        line.append_text(plain(f"; {summary.untested}", style="bad"))
    if one.life is Life.RUNNING:
        line.append(f" · nothing new for {duration(newest.seconds_since_new)}")
    return line


def _counted(words: Counter[str]) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in words.most_common())
