"""The live view of a campaign: progress, where the time goes, coverage, findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from fuzz.campaign.status import (
    CampaignStatus,
    WorkerStatus,
    held_words,
    missing_words,
    stage_shares,
)
from fuzz.campaign.store import Budget
from fuzz.checks.protocol import REFERENCE, Counts, DeviceStatus, ScreeningReport, Stage, Words
from fuzz.findings.families import FindingGroup, accused, finding_groups, group_name
from fuzz.output import bar, counted, duration, harmless, in_ascii, kind_name, kind_style, plain
from runners.ledger import Rate
from strategies.coverage import CoverageLine


def fitted(line: Text, width: int, *, padded: bool = False) -> Text:
    """Return a line that takes at most `width` columns, or exactly as many."""
    line = line.copy()
    line.no_wrap = True
    line.truncate(max(width, 0), overflow="ellipsis", pad=padded)
    return line


def heading(title: str, width: int, note: Text | None = None) -> Text:
    """Return a rule with a title on its left and a note on its right."""
    line = Text().append("── ", style="quiet").append(title, style="bold").append(" ")
    right = Text() if note is None else Text(" ").append_text(note)
    dashes = width - line.cell_len - right.cell_len
    line.append("─" * max(dashes, 0), style="quiet")
    return fitted(line.append_text(right), width)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a view that can do with fewer rows than it would like."""

    title: str
    wanted: int
    """Rows that show everything, without the heading."""
    body: Callable[[int, int], Sequence[Text]]
    """From columns and rows to at most so many lines."""
    note: Text | None = None

    def lines(self, width: int, rows: int) -> list[Text]:
        """Return a heading and at most `rows` - 1 lines below it."""
        if rows <= 0:
            return []
        body = self.body(width, rows - 1) if rows > 1 else ()
        return [heading(self.title, width, self.note), *(fitted(line, width) for line in body)]


def shared_rows(blocks: Sequence[Block], rows: int) -> list[int]:
    """Return how many rows each block gets: the first ones some, then all of them one by one."""
    given = [0] * len(blocks)
    for index, block in enumerate(blocks):
        least = 1 + min(1, block.wanted)
        if least <= rows:
            given[index] = least
            rows -= least
    while rows > 0:
        hungry = [
            index for index, block in enumerate(blocks) if 0 < given[index] < 1 + block.wanted
        ]
        if not hungry:
            break
        for index in hungry[:rows]:
            given[index] += 1
        rows -= len(hungry[:rows])
    return given


def stacked(blocks: Sequence[Block], width: int, rows: int) -> list[Text]:
    """Return blocks below each other."""
    return [
        line
        for block, given in zip(blocks, shared_rows(blocks, rows), strict=True)
        for line in block.lines(width, given)
    ]


_GAP = 2
"""Columns between two columns of blocks."""


def beside(left: Sequence[Block], right: Sequence[Block], width: int, rows: int) -> list[Text]:
    """Return two columns of blocks."""
    first = (width - _GAP) // 2
    lefts, rights = stacked(left, first, rows), stacked(right, width - _GAP - first, rows)
    lines = []
    for index in range(max(len(lefts), len(rights))):
        line = fitted(lefts[index] if index < len(lefts) else Text(), first, padded=True)
        line.append(" " * _GAP)
        if index < len(rights):
            line.append_text(rights[index])
        lines.append(line)
    return lines


def listed(lines: Sequence[Text], rows: int, more: str) -> list[Text]:
    """Return as many lines as there is room for; the last one says how many are left out."""
    if len(lines) <= rows:
        return list(lines)
    if rows <= 0:
        return []
    left = len(lines) - (rows - 1)
    return [*lines[: rows - 1], Text(f"… and {left:,} {more}", style="quiet")]


_TWO_COLUMNS = 110
"""Columns from which blocks stand side by side."""
_BAR = 20
"""Columns of a bar."""
STAGES = {
    Stage.DRAW: "drawing",
    Stage.COMPILE: "compiling",
    Stage.EXPAND: "filling images",
    Stage.ORACLE: "the oracle",
    Stage.RUN: "the runner",
    Stage.COMPARE: "comparing",
    Stage.WAIT: "handing out work",
}
"""What workers do, in words."""


def dashboard(status: CampaignStatus, budget: Budget | None = None) -> RenderableType:
    """Return the view of a campaign; it takes at most the rows and columns that there are."""
    return _Dashboard(status, budget or Budget())


class _Dashboard:
    def __init__(self, status: CampaignStatus, budget: Budget) -> None:
        self._status, self._budget = status, budget

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = dashboard_lines(
            self._status, self._budget, width=options.max_width, rows=options.max_height
        )
        for line in lines:
            yield in_ascii(line) if options.ascii_only else line


def dashboard_lines(status: CampaignStatus, budget: Budget, *, width: int, rows: int) -> list[Text]:
    """Return at most `rows` lines of at most `width` columns."""
    head, foot = _head(status, width), _foot(status, budget)
    left = rows - len(head) - 1
    if left <= 0:
        return [fitted(line, width) for line in [*head, foot][:rows]]
    findings = _findings(finding_groups(status.families), status)
    wanted = 1 + findings.wanted
    # Findings come first to whom watches; a third of the room is theirs, if they need it.
    least = min(wanted, max(2, left // 3), left)
    # After the end nobody works any more, and nothing could be said of it.
    working = [_stages(status), _workers(status)] if status.workers or not status.stopped else []
    reached = [_coverage(status)]
    # What has nothing more to say of itself than its name was named in the head.
    devices = [one for one in status.devices if one != DeviceStatus(name=status.words.subject)]
    hardware = [_devices(devices)] if devices else []
    extra = _extra(status)
    if width >= _TWO_COLUMNS:
        lefts, rights = (working, [*reached, *hardware]) if working else (reached, hardware)
        while extra and _height([*rights, extra[0]]) <= _height(lefts):
            rights.append(extra.pop(0))
        middle = beside(lefts, rights, width, left - least)
    else:
        blocks = [*working[:1], *reached, *working[1:], *hardware]
        middle = stacked([one for one in blocks if one.wanted], width, left - least)
    found = findings.lines(width, min(wanted, left - len(middle)))
    free = left - len(middle) - len(found)
    lines = [*head, *middle, *stacked(extra, width, free), *found, foot]
    return [fitted(line, width) for line in lines]


def _height(blocks: Sequence[Block]) -> int:
    return sum(1 + block.wanted for block in blocks)


# What free rows are used for


def _newest(status: CampaignStatus) -> Text:
    newest = status.families[-1]
    style = kind_style(newest.kind, known=newest.known is not None)
    return Text(f"{kind_name(newest.kind)} ", style=style).append_text(plain(accused(newest.case)))


def _extra(status: CampaignStatus) -> list[Block]:
    """Return what is shown where rows are left: the newest finding, and the rate over time."""
    blocks = []
    if status.families:
        blocks.append(Block(title="newest finding", wanted=1, body=lambda *_: [_newest(status)]))
    if len(status.rates) > 1:
        most = max(status.rates)
        note = Text(f"at most {most:,.0f} {status.words.case}s a second", style="quiet")
        blocks.append(
            Block(
                title="rate over time",
                wanted=1,
                body=lambda columns, _: [_curve(status.rates, columns)],
                note=note,
            )
        )
    return blocks


_STEPS = " ▁▂▃▄▅▆▇█"
"""Block Elements of Unicode: eighths of a row."""


def _curve(rates: Sequence[float], width: int) -> Text:
    """Return rates as one row of columns, the newest on the right."""
    shown = list(rates)[-max(width, 0) :]
    most = max(shown, default=0.0) or 1.0
    return Text("".join(_STEPS[round(rate / most * 8)] for rate in shown), style="cyan")


# Head and foot


def _head(status: CampaignStatus, width: int) -> list[Text]:
    title = Text().append("warpfuzz", style="bold").append(" against ", style="quiet")
    title.append_text(plain(status.words.subject))
    where = Text("", style="quiet")
    where.append_text(plain(f"{status.words.where} · seed {status.seed}"))
    if title.cell_len + 2 + where.cell_len <= width:
        title.append(" " * (width - title.cell_len - where.cell_len)).append_text(where)
        first = [title]
    else:
        first = [title, where]
    screened = []
    if (screening := status.screening) is not None:
        odd = "worst" if screening.wrong else "odd" if screening.trouble else ""
        screened = [plain(screened_words(screening), style=odd)]
    screened += reference_lines(status.counts)
    return [*first, _time(status, width), _rates(status), _counts(status), *screened]


def _time(status: CampaignStatus, width: int) -> Text:
    share, words = _spent(status)
    if status.stopped:
        words = f"{words} · ended: {harmless(status.stopped, one_line=True)}"
    elif status.finishing:
        words = f"{words} · finishing"
    if share is None:
        return Text(words)
    columns = max(_BAR, width - len(words) - 2) if len(words) + _BAR < width else 0
    return bar(share, columns, "count").append(f"  {words}") if columns else Text(words)


def _spent(status: CampaignStatus) -> tuple[float | None, str]:
    choices = []
    if status.seconds_limit:
        words = f"{duration(status.seconds)} of {duration(status.seconds_limit)}"
        choices.append((status.seconds / status.seconds_limit, words))
    if status.cases_limit:
        limit = counted(status.cases_limit, "case")
        words = f"{duration(status.seconds)}, {status.cases:,} of {limit}"
        choices.append((status.cases / status.cases_limit, words))
    if not choices:
        return None, f"{duration(status.seconds)} so far, no limit"
    return max(choices)


def _rates(status: CampaignStatus) -> Text:
    average = status.cases / status.seconds if status.seconds > 0 else 0.0
    line = Text().append(f"{status.cases:,}", style="count")
    noun = status.words.case
    line.append(f" {noun if status.cases == 1 else noun + 's'} · ")
    if not status.stopped:
        line.append(f"{status.recent_rate:,.0f}", style="count").append(" a second now, ")
    return line.append(f"{average:,.0f} a second on average")


def outcome_words(status: CampaignStatus) -> list[str]:
    """Say how many cases were compared, only accepted or rejected, failed, and not tried."""
    words = status.words
    counts = {
        "compared": status.compared,
        words.answered: status.answered,
        "not compiled or not run to the end": status.failed,
        words.unasked: status.unasked,
    }
    said = [(name, count) for name, count in counts.items() if count] or [("compared", 0)]
    (first, count), *rest = said
    return [f"{counted(count, words.case)} {first}", *(f"{count:,} {name}" for name, count in rest)]


def _counts(status: CampaignStatus) -> Text:
    first, *others = outcome_words(status)
    line = Text(first)
    for words in others:
        line.append(f" · {words}", style="odd")
    # What a narrow terminal cuts off is what is as it should be.
    for shown in sorted(status.words.counters, key=lambda one: not one.odd):
        count = status.counts[shown.words]
        if count or not shown.odd:
            words = counted(count, shown.one, shown.many)
            line.append(f" · {words}", style="odd" if shown.odd else "")
    return line.append(f" · {counted(status.rounds, 'round')}")


def screened_words(screening: ScreeningReport) -> str:
    """Say what was compared in idle time, apart from all cases."""
    rate = Rate(cases=screening.comparisons, wrong=screening.wrong)
    words = f"screening in idle time: {counted(screening.comparisons, 'comparison')}, "
    words += f"0 errors ({rate.below})" if rate.bound else f"{rate.wrong:,} wrong"
    return f"{words}; ended: {screening.trouble}" if screening.trouble else words


def reference_lines(counts: Counts) -> list[Text]:
    """Say what was compared with the device's reference, beside the cases, and what is wrong."""
    some = Counts({words[1:]: count for words, count in counts.items() if words[0] == REFERENCE})
    if not some:
        return []
    words = (
        f"compared with the device's reference: {some['images',]:,} images of "
        f"{counted(some['programs',], 'program')} ({some['programs left out',]:,} left out), "
        f"{some['differing',]:,} differed; the oracle judged {some['judged',]:,} of them"
    )
    odd = [
        f"the reference is wrong about {counted(count, 'image')} of {rest[0]}, now left out"
        for (first, *rest), count in some.items()
        if first == "reference wrong" and rest
    ]
    units = [": multiprocessor ".join(rest) for first, *rest in some if first == "wrong on"]
    if len(units) == 1:
        odd.append(f"every image that the oracle calls wrong ran on one multiprocessor: {units[0]}")
    if some["once",]:
        odd.append(
            f"about {counted(some['once',], 'image')} the reference was wrong once, and not again"
        )
    if some["failed",]:
        odd.append(f"comparisons of {counted(some['failed',], 'image')} did not come to an end")
    return [Text(words), *(plain(one, style="worst") for one in odd)]


def examined_words(status: CampaignStatus) -> str:
    """Say at which stage findings are: to be replayed, or to be made smaller; "" if at none."""
    replayed = status.waiting - status.unreplayed
    parts = [f"{counted(status.unreplayed, 'suspect')} to be replayed"] if status.unreplayed else []
    parts += [f"{counted(replayed, 'finding')} to be made smaller"] if replayed > 0 else []
    return ", ".join(parts)


def _foot(status: CampaignStatus, budget: Budget) -> Text:
    line = Text(f"nothing new for {duration(status.seconds_since_new)}")
    if budget.quiet is not None:
        line.append(f" (ends at {duration(budget.quiet)})")
    if examined := examined_words(status):
        line.append(f" · {examined}", style="odd")
    if held := held_words(status):
        line.append(f" · {held}")
    if not status.stopped:
        line.append(" · Ctrl-C ends it")
    return line


# Stages


def _stages(status: CampaignStatus) -> Block:
    shares = stage_shares(status.workers)
    # A check may have no images, or nothing to be compiled.
    present = {stage: share for stage, share in shares.items() if share > 0} or shares
    lines = 1 + -(-len(present) // 2) if status.workers else 1

    def body(width: int, rows: int) -> Sequence[Text]:
        words = Text(pace_words(status))
        bars = _bars(present, width)
        # Half of the bars would be misread; figures need one line.
        return [words, *(bars if len(bars) < rows else [_figures(present)])][:rows]

    return Block(title="what takes the time", wanted=lines, body=body)


def pace_words(status: CampaignStatus) -> str:
    """Say in words what limits the campaign."""
    if status.hosts and not any(one.nodes for one in status.hosts):
        return "no node is left, and the campaign waits for one"
    return limiting_words(stage_shares(status.workers), status.words)


def limiting_words(shares: dict[Stage, float], words: Words) -> str:
    """Say in words which stage limits the campaign."""
    stage = max(shares, key=lambda one: shares[one])
    share = shares[stage]
    if not share > 0:
        return "no worker has done anything yet"
    percent = _percent(share)
    what = words.runner if stage is Stage.RUN else STAGES[stage]
    return f"slowest part: {what} ({percent} of the workers' time)"


def _figures(shares: dict[Stage, float]) -> Text:
    most = max(shares.values())
    line = Text()
    for stage, share in shares.items():
        style = "count" if share == most > 0 else ""
        line.append("  " if line else "").append(f"{stage.value} {share:.0%}", style=style)
    return line


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _bars(shares: dict[Stage, float], width: int) -> list[Text]:
    """Return bars in two columns, in the order of the stages, down and then right."""
    half = -(-len(shares) // 2)
    column = (width - 2) // 2
    most = max(shares.values())
    texts = []
    for stage, share in shares.items():
        style = "count" if share == most > 0 else "cyan"
        filled = bar(share, min(_BAR, max(0, column - 16)), style)
        name = Text(f"{stage.value:<8} ")
        texts.append(name.append_text(filled).append(f" {_percent(share):>5}"))
    lines = []
    for index in range(half):
        line = fitted(texts[index], column, padded=True).append("  ")
        if index + half < len(texts):
            line.append_text(texts[index + half])
        lines.append(line)
    return lines


# Workers and devices


def _workers(status: CampaignStatus) -> Block:
    workers = status.workers
    stalled = sum(worker.stalled for worker in workers)
    notes = [f"{stalled} stalled"] if stalled else []
    missing = missing_words(status.hosts, named=False)
    notes += [harmless(missing, one_line=True)] if missing else []
    note = Text("; ".join(notes), style="worst") if notes else None

    def body(width: int, rows: int) -> Sequence[Text]:
        if len(workers) <= rows:
            return [_worker(worker, status.words) for worker in workers]
        silent = [worker for worker in workers if worker.stalled]
        doing = Counter(
            "triage" if worker.examiner else worker.stage.value
            for worker in workers
            if not worker.stalled
        )
        summary = Text(", ".join(f"{count} {stage}" for stage, count in doing.most_common()))
        lines = [_worker(worker, status.words) for worker in silent]
        return [summary, *listed(lines, rows - 1, "stalled")][:rows]

    examiners = sum(worker.examiner for worker in workers)
    title = counted(len(workers) - examiners, "worker")
    title += f", {counted(examiners, 'triage process', 'triage processes')}" * bool(examiners)
    hosts = {worker.host for worker in workers if worker.host}
    if hosts:
        title = f"{counted(len(workers), 'actor')} on {counted(len(hosts), 'host')}"
    return Block(title=title, wanted=len(workers), body=body, note=note)


def _worker(worker: WorkerStatus, words: Words) -> Text:
    style = "worst" if worker.stalled else ""
    line = Text().append(f"{worker.number:>3}  {worker.stage.value:<8}", style=style)
    if worker.stalled:
        line.append(f" silent for {duration(worker.seconds)},", style=style)
    line.append(f" {_task(worker, words)}", style=style)
    if worker.device != words.subject:
        line.append_text(plain(f"  {worker.device}", style="quiet"))
    return line


def _task(worker: WorkerStatus, words: Words) -> str:
    if worker.examiner:
        idle = worker.stage is Stage.WAIT
        return "waiting for a finding" if idle else "replaying and shrinking findings"
    number = "starting" if worker.round < 0 else f"round {worker.round:,}"
    return f"{number}, {counted(worker.cases, words.case)}"


def _devices(devices: Sequence[DeviceStatus]) -> Block:
    def body(width: int, rows: int) -> Sequence[Text]:
        # What has errors has to be seen, however many there are.
        order = sorted(devices, key=lambda one: not any(one.errors.values()))
        lines = [device_text(device) for device in (order if len(order) > rows else devices)]
        return listed(lines, rows, "other devices")

    return Block(title="devices", wanted=len(devices), body=body)


# Coverage and findings


def _coverage(status: CampaignStatus) -> Block:
    coverage = status.coverage
    every = max((line.total or 0 for line in coverage if line.name == "forms"), default=0)
    # The lines are of all that there is; a campaign may be about a part of it.
    part = f"selected forms: {status.forms_reached:,} of {status.forms:,}"
    note = Text(part, style="quiet") if status.forms < every else None
    longest = max((len(harmless(line.name)) for line in coverage), default=0)

    def body(width: int, rows: int) -> Sequence[Text]:
        lines = [_covered(line, width, min(longest, width // 3)) for line in coverage]
        return listed(lines, rows, "other dimensions")

    return Block(title="reached", wanted=len(coverage), body=body, note=note)


def _covered(line: CoverageLine, width: int, names: int) -> Text:
    share = line.reached / line.total if line.total else 0.0
    text = fitted(plain(line.name), names, padded=True).append(" ")
    columns = min(_BAR // 2, max(0, width - names - 14))
    of = "" if line.total is None else f" of {line.total:,}"
    text.append_text(bar(share, columns, "legal") if of else Text(" " * columns))
    text.append(f" {line.reached:>5,}{of}")
    if line.missing:
        text.append_text(plain(f"  not yet: {', '.join(line.missing)}", style="quiet"))
    return text


def _findings(groups: Sequence[FindingGroup], status: CampaignStatus) -> Block:
    known = sum(group.known is not None for group in groups)
    words = counted(len(groups) - known, "family", "families")
    note = Text(f"{words}, {known:,} known" if known else words, style="quiet")
    shown = groups or _being_made_smaller(groups, status)
    kinds = max((len(kind_name(group.kind)) for group in shown), default=0)

    def body(width: int, rows: int) -> Sequence[Text]:
        if not groups:
            some = [_group(group, kinds, stage=_STAGE) for group in shown]
            return (
                listed(some, rows, "more") or [Text(_nothing_found(status), style="quiet")][:rows]
            )
        lines = listed([_group(group, kinds) for group in groups], rows, "more")
        if 0 < len(lines) < len(groups):
            # The newest may be one of those that are left out.
            lines[-1] = lines[-1].append(" · newest: ").append_text(_newest(status))
        return lines

    return Block(title="findings", wanted=max(1, len(shown)), body=body, note=note)


_STAGE = " (replayed, being made smaller)"


def _being_made_smaller(
    groups: Sequence[FindingGroup], status: CampaignStatus
) -> Sequence[FindingGroup]:
    """Return what was replayed of causes that have no line yet."""
    there = {group_name(one) for group in groups for one in group.members}
    return finding_groups(one for one in status.shrinking if group_name(one) not in there)


def _nothing_found(status: CampaignStatus) -> str:
    if status.waiting:
        return examined_words(status)
    if not status.compared:
        return "nothing is compared yet"
    if status.gone:
        return f"{counted(status.gone, 'case')} differed once, but not when replayed"
    return harmless("; ".join(filter(None, (status.untested, status.words.agreement))))


def _group(group: FindingGroup, kinds: int, *, stage: str = "") -> Text:
    known = group.known is not None
    line = Text().append(
        f"{kind_name(group.kind):<{kinds}}", style=kind_style(group.kind, known=known)
    )
    line.append(f" {group.cases:>9,}  ", style="known" if known else "")
    line.append_text(plain(group.what, style="known" if known else ""))
    line.append_text(
        plain(f"{group.each_kind}{group.remark}{stage}", style="known" if known else "quiet")
    )
    return line


# NVML's clocksEventReasons (nvml.h), but the ones that are no reason to worry: idle (1), clocks
# that somebody has set (2), sync boost (0x10), display (0x100).
THROTTLING = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}


def device_text(device: DeviceStatus) -> Text:
    """Return a device in one line: host, name, UUID, and what its management library tells."""
    line = plain(f"{device.host} {device.name}" if device.host else device.name)
    if device.uuid:
        line.append_text(plain(f" {device.uuid[:12]}", style="quiet"))
    return line.append_text(readings(device))


def readings(device: DeviceStatus) -> Text:
    """Return what the management library tells of a device, each reading behind two blanks."""
    line = Text()
    if device.note:
        line.append_text(plain(f"  {device.note}", style="quiet"))
    if device.temperature is not None:
        line.append(f"  {device.temperature} °C")
    if device.sm_clock is not None:
        line.append(f"  {device.sm_clock:,} MHz")
    if device.busy is not None:
        line.append(f"  {device.busy} % busy")
    if device.power is not None:
        limit = f" of {device.power_limit}" if device.power_limit is not None else ""
        line.append(f"  {device.power}{limit} W")
    if held := throttling(device.throttle_reasons):
        line.append(f"  held back by {held}", style="bad")
    errors = {name: count for name, count in device.errors.items() if count}
    if errors:
        text = ", ".join(f"{count:,} {name}" for name, count in errors.items())
        line.append("  ").append_text(plain(text, style="worst"))
    elif device.errors:
        line.append("  no errors", style="quiet")
    return line


def throttling(reasons: int | None) -> str:
    """Say why the clocks are lower than they could be; empty if nothing says so."""
    return ", ".join(name for bit, name in THROTTLING.items() if (reasons or 0) & bit)
