"""`warpfuzz status`: shows campaigns that run elsewhere, or have ended, from their files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from fuzz.campaign.status import (
    CampaignStatus,
    Figures,
    Life,
    event_line,
    fleet_row,
    fleet_words,
    missing_words,
    read_figures,
)
from fuzz.console.dashboard import apart, device_text, outcome_words, rates
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
                    row: dict[str, object] = {"corpus": str(one.corpus), "campaign": one.life.value}
                    row["silent_seconds"] = round(one.silence, 1)
                    emit({"status": {**row, **one.rows}})
            elif stamps != said and goes_on:
                out.print(status_view(found))
            if not goes_on:
                break
            said = stamps
            time.sleep(_WATCH_SECONDS)
    if not options.json:
        out.print(status_view(found))


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
        together = f"all of them: {lives} · {cases:,} cases in {duration(seconds)} together, "
        together += f"{rate:,.0f} a second now · {families} of findings"
        lines.append(Text(together, style="bold"))
    return Group(*lines)


def _lines(one: Figures) -> list[Text]:
    status, runs = one.status, one.life is Life.RUNNING
    head = plain(f"{one.corpus}: ", style="bold").append(one.life.value, style=_STYLES[one.life])
    silent = f" for {duration(one.silence)}: it was killed, or its host is gone"
    why = f" ({status.stopped})" if status.stopped else silent if not runs else ""
    why = why or " (finishing)" * status.finishing
    told = (duration(status.seconds), f"seed {status.seed}", status.words.where)
    head.append_text(plain(f"{why} · {', '.join(filter(None, told))}"))
    head.append_text(plain(f" · {status.words.subject}" * bool(status.words.subject), "quiet"))
    outcomes = ", ".join(outcome_words(status))
    lines = [head, rates(status, now=runs), Text(outcomes), _findings(one), *apart(status)]
    if runs:
        gone = status.hosts and not any(host.nodes for host in status.hosts)
        workers = Text(counted(0 if gone else status.carrying_out, "worker"))
        workers.append(f", {status.stalled:,} stalled" * bool(status.stalled), style="worst")
        examined = f" · {counted(status.waiting, 'finding')} being examined"
        lines.append(workers.append(examined * bool(status.waiting)))
    lines += [*_fleet(status, runs=runs), *map(device_text, status.devices)]
    return [head, *(Text("  ").append_text(line) for line in lines[1:])]


def _fleet(status: CampaignStatus, *, runs: bool) -> list[Text]:
    row, lines = fleet_row(status.hosts), []
    if row and runs:
        nodes = f"{counted(row['nodes'], 'node')} of the fleet"
        missing = "".join(f", {words}" for words in [missing_words(status.hosts)] if words)
        waits = "" if row["nodes"] else ": the campaign waits for one"
        lines.append(plain(f"{nodes}{waits}").append_text(plain(missing, style="worst")))
    if lost := fleet_words(row):
        lines.append(plain(f"so far {lost}", style="odd"))
        lines += [plain(f"  {event_line(event)}") for event in status.events[-_MOST_EVENTS:]]
    return lines


def _findings(one: Figures) -> Text:
    status, unknown = one.status, one.status.of_causes(known=False)
    families = counted(len(unknown), "family", "families")
    line = Text(f"{families} of findings", style="odd" if unknown else "")
    if verdicts := Counter(row.verdict for row in unknown):
        line.append_text(plain(f" ({_counted(verdicts)})"))
    if known := status.of_causes(known=True):
        line.append(f", and {len(known):,} known")
    if status.unreplayed:
        line.append(f", {counted(status.unreplayed, 'suspect')} not replayed yet")
    if one.life is Life.RUNNING:
        return line.append(f" · nothing new for {duration(status.seconds_since_new)}")
    return line.append_text(plain(f"; {status.untested}" if status.untested else "", style="bad"))


def _counted(words: Counter[str]) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in words.most_common())
