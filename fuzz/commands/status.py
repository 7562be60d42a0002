"""`warpfuzz status`: shows campaigns that run elsewhere, or have ended, from their files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from fuzz.campaign.status import (
    Figures,
    Life,
    event_line,
    fleet_row,
    fleet_words,
    read_figures,
)
from fuzz.console.metrics import device_text
from fuzz.console.report import apart, outcome_words, state_words
from fuzz.options.declared import DEFAULT_CORPUS
from fuzz.options.operating import Status
from fuzz.output import console, counted, duration, emit, is_watched, plain

_WATCH_SECONDS = 2.0
"""Between two looks; campaigns write figures every 10 s."""
_MOST_EVENTS = 12
"""Latest nodes and actors of a fleet that went or came and are shown: half a terminal's lines."""
_STYLES = {Life.RUNNING: "legal", Life.ENDED: "", Life.SILENT: "worst"}


def show_status(options: Status) -> None:
    """Show campaigns; with `watch` again and again until none of them runs any more."""
    out, corpora = console(), options.corpora or (DEFAULT_CORPUS,)
    live = options.watch and not options.json and is_watched(out)
    said: list[int] = []
    with Live(console=out, auto_refresh=False, transient=True) if live else nullcontext() as view:
        while True:
            found = [read_figures(corpus) for corpus in corpora]
            goes_on = options.watch and any(one.life is Life.RUNNING for one in found)
            # What nobody has written anew is not told again.
            stamps = [round(time.time() - one.silence) for one in found]
            if view is not None and goes_on:
                view.update(status_view(found), refresh=True)
            elif options.json and (stamps != said or not goes_on):
                for one in found:
                    row = {"corpus": str(one.corpus), "campaign": one.life.value}
                    silent = {"silent_seconds": round(one.silence, 1)}
                    emit({"status": {**row, **silent, **one.rows}})
            elif not options.json and (stamps != said or not goes_on):
                out.print(status_view(found))
            if not goes_on:
                return
            said = stamps
            time.sleep(_WATCH_SECONDS)


def status_view(found: Sequence[Figures]) -> RenderableType:
    """Return a block of lines for each campaign, and what all of them come to."""
    lines = [line for one in found for line in _lines(one)]
    if len(found) > 1:
        lives = _counted(Counter(one.life.value for one in found))
        cases, seconds = (sum(getattr(o.status, of) for o in found) for of in ("cases", "seconds"))
        rate = sum(one.status.recent_rate for one in found if one.life is Life.RUNNING)
        rows = (row for one in found for row in one.status.of_causes(known=False))
        groups = {row.family or row.title for row in rows}
        families = counted(len(groups), "different family", "different families")
        together = f"all of them: {lives}; {cases:,} cases in {duration(seconds)} together, "
        together += f"{rate:,.0f} a second now; {families} of findings"
        lines.append(Text(together, style="bold"))
    return Group(*lines)


def _lines(one: Figures) -> Iterator[Text]:
    status, runs = one.status, one.life is Life.RUNNING
    head = plain(f"{one.corpus}: ", style="bold").append(one.life.value, style=_STYLES[one.life])
    if one.life is Life.SILENT:
        head.append(f" for {duration(one.silence)}: it was killed, or its host is gone")
    told = (f"seed {status.seed}", status.words.where, status.words.subject)
    yield head.append_text(plain(f", {', '.join(filter(None, told))}"))
    lines = [plain("; ".join(state_words(status))), Text(outcome_words(status)), *apart(status)]
    if verdicts := Counter(row.verdict for row in status.of_causes(known=False)):
        lines.append(plain(f"new: {_counted(verdicts)}", "odd"))
    if runs:
        lines.append(Text(counted(status.carrying_out, "worker")))
    if status.untested and not runs:
        lines.append(plain(status.untested, style="bad"))
    row = fleet_row(status.hosts)
    if row and runs:
        lines.append(Text(f"{counted(row['nodes'], 'node')} of the fleet"))
    if lost := fleet_words(row):
        lines.append(plain(f"so far {lost}", style="odd"))
        lines += [plain(f"  {event_line(event)}") for event in status.events[-_MOST_EVENTS:]]
    yield from (
        Text("  ").append_text(line) for line in (*lines, *map(device_text, status.devices))
    )


def _counted(words: Counter[str]) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in words.most_common())
