"""The live view of a campaign: progress, where the time goes, coverage, findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

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
from fuzz.checks.protocol import REFERENCE, CheckWords, Counts, DeviceStatus, ScreeningReport, Stage
from fuzz.findings.families import FindingGroup, finding_groups
from fuzz.output import counted, duration, harmless, in_ascii, kind_name, kind_style, plain
from runners.ledger import Rate
from strategies.coverage import CoverageLine

_BAR = 20
"""Columns of a bar."""
_WORKERS = 8
"""Workers that have a line each; of more, those that are stalled."""
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


def fitted(line: Text, width: int) -> Text:
    """Return a line that takes at most `width` columns."""
    line = line.copy()
    line.no_wrap = True
    line.truncate(max(width, 0), overflow="ellipsis")
    return line


def listed(lines: Sequence[Text], rows: int, more: str) -> list[Text]:
    """Return as many lines as there is room for; the last one says how many are left out."""
    if len(lines) <= rows:
        return list(lines)
    left = len(lines) - (rows - 1)
    return [*lines[: rows - 1], Text(f"… and {left:,} {more}", style="quiet")]


Block = tuple[Text, Text | None, Sequence[Text], str]
"""A part of the view: title, note, lines, and the noun of those that are left out."""


def _shown(block: Block, width: int, rows: int) -> Iterator[Text]:
    """Yield a rule with title and note, and at most `rows` - 1 lines."""
    title, note, lines, more = block
    right = Text() if note is None else Text(" ").append_text(note)
    if rows > 0:
        line = Text().append("── ", style="quiet").append_text(title).append(" ")
        dashes = width - line.cell_len - right.cell_len
        yield line.append("─" * max(dashes, 0), style="quiet").append_text(right)
    if rows > 1:
        yield from listed(lines, rows - 1, more)


def dashboard(status: CampaignStatus, budget: Budget | None = None) -> RenderableType:
    """Return the view of a campaign; it takes at most the rows and columns that there are."""
    return _Dashboard(status, budget or Budget())


class _Dashboard:
    def __init__(self, status: CampaignStatus, budget: Budget) -> None:
        self._status, self._budget = status, budget

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, rows = options.max_width, options.max_height
        head, foot = _head(self._status, width), _foot(self._status, self._budget)
        blocks = _blocks(self._status)
        given, left = [0] * len(blocks), max(0, rows - len(head) - 1)
        # Who needs least is served first, and the others share what is left.
        order = sorted(range(len(blocks)), key=lambda index: len(blocks[index][2]))
        for served, index in enumerate(order):
            given[index] = min(1 + len(blocks[index][2]), left // (len(blocks) - served))
            left -= given[index]
        body = [
            line for one, own in zip(blocks, given, strict=True) for line in _shown(one, width, own)
        ]
        for line in [*head[: rows - 1], *body, foot][:rows]:
            line = fitted(line, width)
            yield in_ascii(line) if options.ascii_only else line


def _blocks(status: CampaignStatus) -> list[Block]:
    blocks = []
    # After the end nobody works any more, and nothing could be said of it.
    if status.workers or not status.stopped:
        blocks += [_stages(status), _workers(status)]
    blocks.append(_coverage(status))
    # What has nothing more to say of itself than its name was named in the head.
    devices = [one for one in status.devices if one != DeviceStatus(name=status.words.subject)]
    if devices:
        # What has errors has to be seen, however many there are.
        devices.sort(key=lambda one: not any(one.errors.values()))
        lines = [device_text(device) for device in devices]
        blocks.append((_title("devices"), None, lines, "other devices"))
    return [*blocks, _findings(status)]


def _title(text: str) -> Text:
    return Text(text, style="bold")


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
    counts = _counts(status)
    return [*first, _time(status, width), rates(status), counts, *apart(status)]


def apart(status: CampaignStatus) -> list[Text]:
    """Return what was compared beside the cases: in idle time, and with the reference."""
    screened = []
    if (screening := status.screening) is not None:
        odd = "worst" if screening.wrong else "odd" if screening.trouble else ""
        screened = [plain(screened_words(screening), style=odd)]
    return screened + reference_lines(status.counts)


def _time(status: CampaignStatus, width: int) -> Text:
    share, words = _spent(status)
    if status.stopped:
        words = f"{words} · ended: {harmless(status.stopped, one_line=True)}"
    elif status.finishing:
        words = f"{words} · finishing"
    columns = width - len(words) - 2
    if share is None or columns < _BAR:
        return Text(words)
    filled = round(min(1.0, share) * columns)
    line = Text("█" * filled, style="count").append("·" * (columns - filled), style="quiet")
    return Text().append_text(line).append(f"  {words}")


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


def rates(status: CampaignStatus, *, now: bool = True) -> Text:
    """Return how many cases there are and how fast they come, without `now` on average alone."""
    average = status.cases / status.seconds if status.seconds > 0 else 0.0
    number, noun = counted(status.cases, status.words.case).split(" ", 1)
    line = Text().append(number, style="count").append(f" {noun} · ")
    if now and not status.stopped:
        line.append(f"{status.recent_rate:,.0f}", style="count").append(" a second now, ")
    return line.append(f"{average:,.0f} a second on average · {counted(status.rounds, 'round')}")


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
    return line


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
    suspects = len(status.suspects)
    replayed = status.waiting - suspects
    parts = [f"{counted(suspects, 'suspect')} to be replayed"] if suspects else []
    parts += [f"{counted(replayed, 'finding')} to be made smaller"] if replayed > 0 else []
    return ", ".join(parts)


def foot_words(status: CampaignStatus, budget: Budget) -> list[str]:
    """Say since when nothing is new, and what is left to be done."""
    quiet = "" if budget.quiet is None else f" (ends at {duration(budget.quiet)})"
    new = f"nothing new for {duration(status.seconds_since_new)}{quiet}"
    return [new, *filter(None, (examined_words(status), held_words(status)))]


def _foot(status: CampaignStatus, budget: Budget) -> Text:
    ends = [] if status.stopped else ["Ctrl-C ends it"]
    return Text(" · ".join([*foot_words(status, budget), *ends]))


# Stages


def _stages(status: CampaignStatus) -> Block:
    shares = stage_shares(status.workers)
    # A check may have no images, or nothing to be compiled.
    present = {stage: share for stage, share in shares.items() if share > 0} or shares
    most, line = max(present.values()), Text()
    for stage, share in present.items():
        style = "count" if share == most > 0 else ""
        line.append("  " if line else "").append(f"{stage.value} {_percent(share)}", style=style)
    lines = [Text(pace_words(status)), line][: 1 + bool(status.workers)]
    return _title("what takes the time"), None, lines, "more"


def pace_words(status: CampaignStatus) -> str:
    """Say in words what limits the campaign."""
    if status.hosts and not any(one.nodes for one in status.hosts):
        return "no node is left, and the campaign waits for one"
    return limiting_words(stage_shares(status.workers), status.words)


def limiting_words(shares: dict[Stage, float], words: CheckWords) -> str:
    """Say in words which stage limits the campaign."""
    stage = max(shares, key=lambda one: shares[one])
    share = shares[stage]
    if not share > 0:
        return "no worker has done anything yet"
    percent = _percent(share)
    what = words.runner if stage is Stage.RUN else STAGES[stage]
    return f"slowest part: {what} ({percent} of the workers' time)"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


# Workers and devices


def _workers(status: CampaignStatus) -> Block:
    workers = status.workers
    stalled = [worker for worker in workers if worker.stalled]
    notes = [f"{len(stalled)} stalled"] if stalled else []
    missing = missing_words(status.hosts, named=False)
    notes += [harmless(missing, one_line=True)] if missing else []
    lines = [_worker(one, status.words) for one in workers]
    if len(workers) > _WORKERS:
        doing = Counter(
            "triage" if worker.examiner else worker.stage.value
            for worker in workers
            if not worker.stalled
        )
        lines = [Text(", ".join(f"{count} {stage}" for stage, count in doing.most_common()))]
        lines += [_worker(one, status.words) for one in stalled]
    examiners = sum(worker.examiner for worker in workers)
    title = counted(len(workers) - examiners, "worker")
    title += f", {counted(examiners, 'triage process', 'triage processes')}" * bool(examiners)
    if hosts := {worker.host for worker in workers if worker.host}:
        title = f"{counted(len(workers), 'actor')} on {counted(len(hosts), 'host')}"
    note = Text("; ".join(notes), style="worst") if notes else None
    return _title(title), note, lines, "more"


def _worker(worker: WorkerStatus, words: CheckWords) -> Text:
    style = "worst" if worker.stalled else ""
    line = Text().append(f"{worker.number:>3}  {worker.stage.value:<8}", style=style)
    if worker.stalled:
        line.append(f" silent for {duration(worker.seconds)},", style=style)
    line.append(f" {_task(worker, words)}", style=style)
    if worker.device != words.subject:
        line.append_text(plain(f"  {worker.device}", style="quiet"))
    return line


def _task(worker: WorkerStatus, words: CheckWords) -> str:
    if worker.examiner:
        idle = worker.stage is Stage.WAIT
        return "waiting for a finding" if idle else "replaying and shrinking findings"
    number = "starting" if worker.round < 0 else f"round {worker.round:,}"
    return f"{number}, {counted(worker.cases, words.case)}"


# Coverage and findings


def _coverage(status: CampaignStatus) -> Block:
    coverage = status.coverage
    every = max((line.total or 0 for line in coverage if line.name == "forms"), default=0)
    # The lines are of all that there is; a campaign may be about a part of it.
    part = f"selected forms: {status.forms_reached:,} of {status.forms:,}"
    note = Text(part, style="quiet") if status.forms < every else None
    names = max((len(harmless(line.name)) for line in coverage), default=0)
    lines = [_covered(line, min(names, 2 * _BAR)) for line in coverage]
    return _title("reached"), note, lines, "other dimensions"


def _covered(line: CoverageLine, names: int) -> Text:
    text = plain(line.name)
    text.truncate(names, overflow="ellipsis", pad=True)
    text.append(f" {line.reached:>5,}" + ("" if line.total is None else f" of {line.total:,}"))
    if line.missing:
        text.append_text(plain(f"  not yet: {', '.join(line.missing)}", style="quiet"))
    return text


def _findings(status: CampaignStatus) -> Block:
    groups = finding_groups(status.families)
    known = sum(group.known is not None for group in groups)
    words = counted(len(groups) - known, "family", "families")
    note = Text(f"{words}, {known:,} known" if known else words, style="quiet")
    # What was replayed of causes that have no line yet is shown where nothing else is.
    shown, stage = groups or finding_groups(status.shrinking), "" if groups else _STAGE
    kinds = max((len(kind_name(group.kind)) for group in shown), default=0)
    lines = [_group(group, kinds, stage=stage) for group in shown]
    nothing = Text(_nothing_found(status), style="quiet")
    return _title("findings"), note, lines or [nothing], "more"


_STAGE = " (replayed, being made smaller)"


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
