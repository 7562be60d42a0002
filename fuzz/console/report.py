"""A campaign for people: live, as lines or as JSON, its closing report, its page, and its end."""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from corpus import open_corpus
from fuzz.campaign.status import (
    CampaignStatus,
    Event,
    Observer,
    event_line,
    event_words,
    fleet_row,
    fleet_words,
    held_words,
    missing_words,
    read_statistics,
    rows_of_causes,
    stage_shares,
    statistics,
    summary,
    uncompared_words,
)
from fuzz.checks.protocol import BY_MEMBER, REFERENCE, CheckWords, Counts, DeviceStatus, Stage
from fuzz.console.metrics import device_text
from fuzz.findings.families import (
    FamilyState,
    accused,
    finding_groups,
    finding_row,
    group_counts,
    group_name,
    in_words,
    stored_id,
)
from fuzz.kinds import KINDS
from fuzz.output import (
    REPORT_WIDTH,
    Report,
    ReportColumn,
    ReportRow,
    Section,
    console,
    counted,
    duration,
    emit,
    generator,
    harmless,
    is_watched,
    plain,
    plot,
    rows_of,
    shown_table,
    typed,
)
from fuzz.reducer import opcodes_of
from oracle.errors import WarpfuzzError

HEARTBEAT_SECONDS = 30.0
"""Between two lines that say how far a campaign is, in a pipe: 20,000 lines a week."""
STATE_SECONDS = 10.0
"""Between two lines of state with --json: as often as a campaign writes its statistics."""
_ECHO_SECONDS = 0.5
"""In which a signal that comes again is the same one: timeout(1) of GNU coreutils sends it to the
process and, at once, to the group to which that belongs."""
_FOUND = (
    ReportColumn("kind", whole=True),
    ReportColumn("cases", number=True),
    ReportColumn("what"),
    ReportColumn("instruction"),
    ReportColumn("smallest case", link="id"),
)  # fmt: skip
_REACHED = (
    ReportColumn("reached", "name", whole=True),
    ReportColumn("", "reached", number=True),
    ReportColumn("of", lambda line: "" if line["total"] is None else line["total"], number=True),
    ReportColumn("not yet", lambda line: ", ".join(line["missing"][:1])),
)
_UNDEFINED = (
    ReportColumn("undefined, not judged", "why"),
    ReportColumn("outcome"),
    ReportColumn("programs", number=True),
)
_MEMBER_COLUMNS = ("compared", "images", "compiled", "not compiled", "not readable")
_MEMBERS = (
    ReportColumn("compiler", whole=True),
    ReportColumn("programs compared", "compared", number=True),
    *(ReportColumn(name, number=True) for name in _MEMBER_COLUMNS[1:4]),
    ReportColumn("PTX too new for it", "not readable", number=True),
)


# A campaign in sentences


def state_words(status: CampaignStatus) -> Iterator[str]:
    """Yield what a campaign is doing: how far it is, what limits it, what it found."""
    cases = counted(status.cases, status.words.case)
    spent = duration(status.seconds)
    if status.seconds_limit:
        spent += f" of {duration(status.seconds_limit)}"
    if status.cases_limit:
        cases = f"{status.cases:,} of {counted(status.cases_limit, status.words.case)}"
    now = "" if status.stopped else f", {status.recent_rate:,.0f} a second now"
    average = status.cases / status.seconds if status.seconds > 0 else 0.0
    yield f"{spent}: {cases} in {counted(status.rounds, 'round')}{now}, {average:,.0f} on average"
    if status.hosts and not any(host.nodes for host in status.hosts):
        yield "no node is left, and the campaign waits for one"
    elif status.workers:
        yield limiting_words(stage_shares(status.workers), status.words)
    unknown, known = group_counts((*status.families, *status.shrinking))
    known += len(rows_of_causes(status, known=True))
    if found := unknown + known + len(rows_of_causes(status, known=False)):
        of_them = f", {known:,} of them known" * bool(known)
        yield f"{counted(found, 'family', 'families')} found{of_them}"
    else:
        yield "nothing found yet" if status.waiting else "nothing found"
    yield f"nothing new for {duration(status.seconds_since_new)}"
    yield from filter(None, (_examined(status), held_words(status)))
    if status.stopped:
        yield f"ended: {harmless(status.stopped, one_line=True)}"
    elif status.finishing:
        yield "finishing"
    if status.stalled:
        yield f"{status.stalled} of {counted(len(status.workers), 'process', 'processes')} stalled"
    if missing := missing_words(status.hosts):
        yield harmless(missing, one_line=True)


def heartbeat(status: CampaignStatus) -> str:
    """Return a campaign as one line."""
    errors = (
        harmless(f"{device.name}: {count:,} {name}", one_line=True)
        for device in status.devices
        for name, count in device.errors.items()
        if count
    )
    return "; ".join([*state_words(status), *errors])


def _examined(status: CampaignStatus) -> str:
    suspects = len(status.suspects) or status.unreplayed
    replayed = status.waiting - suspects
    parts = [f"{counted(suspects, 'suspect')} to be replayed"] if suspects else []
    parts += [f"{counted(replayed, 'finding')} to be made smaller"] if replayed > 0 else []
    return ", ".join(parts)


def limiting_words(shares: Mapping[Stage, float], words: CheckWords) -> str:
    """Say in words which stage limits the campaign."""
    stage = max(shares, key=lambda of: shares[of])
    if not shares[stage] > 0:
        return "no worker has done anything yet"
    what = words.runner if stage is Stage.RUN else stage.value
    return f"slowest part: {what} ({100 * shares[stage]:.0f} % of the workers' time)"


def outcome_words(status: CampaignStatus) -> str:
    """Say how many cases were compared, only accepted or rejected, failed, and not tried."""
    words = status.words
    counts = {
        "compared": status.compared,
        words.answered: status.answered,
        "not compiled or not run to the end": status.failed,
        words.unasked: status.unasked,
    }
    (first, count), *rest = [row for row in counts.items() if row[1]] or [("compared", 0)]
    said = [f"{counted(count, words.case)} {first}", *(f"{count:,} {name}" for name, count in rest)]
    shown = [
        counted(count, counter.one, counter.many)
        for counter in words.counters
        if (count := status.counts[counter.words]) or not counter.odd
    ]
    return f"{', '.join(said)} ({', '.join(shown)})" if shown else ", ".join(said)


def reference_lines(counts: Counts) -> Iterator[Text]:
    """Yield what was compared with the device's reference, beside the cases, and what is wrong."""
    some = Counts({words[1:]: count for words, count in counts.items() if words[0] == REFERENCE})
    if not some:
        return
    yield Text(
        f"compared with the device's reference: {some['images',]:,} images of "
        f"{counted(some['programs',], 'program')} ({some['programs left out',]:,} left out), "
        f"{some['differing',]:,} differed; the oracle judged {some['judged',]:,} of them"
    )
    said = {
        "reference wrong": "the reference is wrong, so that the program is left out, about {}: {}",
        "once": "the reference was wrong once, and not again, about {}",
        "failed": "comparisons did not come to an end of {}",
    }
    for (first, *rest), count in some.items():
        if first in said and (rest or first != "reference wrong"):
            yield plain(said[first].format(counted(count, "image"), *rest), "worst")
    units = [rest for first, *rest in some if first == "wrong on"]
    if len(units) == 1 and all(units[0]):
        text = "every image that the oracle calls wrong ran on one multiprocessor"
        yield plain(f"{text}: {': multiprocessor '.join(units[0])}", "worst")


# While it runs


@contextmanager
def watching(*, json: bool, out: Console | None = None) -> Iterator[Observer]:
    """Yield who shows a campaign as fits where the output goes: by itself to standard output."""
    out = out or console()
    watcher = _objects() if json else _live(out) if is_watched(out) else _lines(out)
    with closing(watcher):
        next(watcher)
        # Cheap enough to be called at any rate.
        yield watcher.send


def _live(out: Console) -> Generator[None, CampaignStatus]:
    """Show the newest status on a terminal, in a view that redraws itself."""
    status: CampaignStatus | None = None

    def view() -> RenderableType:
        return Text("starting …", style="quiet") if status is None else dashboard(status)

    with Live(
        console=out,
        get_renderable=view,
        refresh_per_second=4,
        transient=True,
        vertical_overflow="crop",
    ):
        while True:
            status = yield


def _lines(out: Console) -> Generator[None, CampaignStatus]:
    """Print a line now and then, and one for each new family, for a pipe or a log."""

    def tell(line: str) -> None:
        out.print(harmless(line, one_line=True), soft_wrap=True)

    last, told, was_finishing = time.monotonic(), set[object](), False
    remarks, events, status = 0, 0, (yield)
    tell("Ctrl-C ends the campaign with its report, a second one at once")
    for left_out in status.left_out:
        tell(f"left out: {left_out}")
    while True:
        for line in (*status.remarks[remarks:], *map(event_line, _new_events(status, events))):
            tell(line)
        remarks, events = len(status.remarks), status.event_count
        for group in finding_groups(status.families):
            name, family = group_name(group.shown), group.shown
            if name not in told:
                told.add(name)
                stored = f" ({family.saved.id})" if family.saved is not None else ""
                shown = f"{accused(family.case)} (PTX ISA {family.case.ptx_version})"
                tell(f"{group.title}{group.remark}; smallest case{stored}: {shown}")
        finishing = status.finishing and bool(status.waiting)
        if time.monotonic() - last >= HEARTBEAT_SECONDS or (finishing and not was_finishing):
            last = time.monotonic()
            tell(heartbeat(status))
        was_finishing = finishing
        status = yield


def _new_events(status: CampaignStatus, count: int) -> Sequence[Event]:
    """Return the events that came after so many, as far as they are kept."""
    new = min(status.event_count - count, len(status.events))
    return status.events[len(status.events) - new :]


def _objects() -> Generator[None, CampaignStatus]:
    """Write a JSON object for each new family, each change of a fleet, and the state at times."""
    last, told, events, status = time.monotonic(), set[str](), 0, (yield)
    while True:
        for family in status.families:
            if family.bucket.key not in told:
                told.add(family.bucket.key)
                emit({"finding": finding_row(family)})
        for event in _new_events(status, events):
            emit({"event": event})
        events = status.event_count
        if time.monotonic() - last >= STATE_SECONDS:
            last = time.monotonic()
            emit({"state": statistics(status)})
        status = yield


@contextmanager
def ended_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGINT, SIGTERM or SIGHUP; another one of them ends the program at once.

    A signal that is ignored, as SIGHUP under nohup, stays so. Works in the main thread alone.
    `stop` has what is in the `with` statement end soon. It is called between two steps of Python
    code of the main thread, whatever that does, so it may not wait for it.
    """
    first: list[float] = []

    def end(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not first:
            first.append(now)
            stop()
        elif now - first[0] > _ECHO_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]
    before = [(number, signal.signal(number, end)) for number in heard]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def dashboard(status: CampaignStatus) -> RenderableType:
    """Return the live view of a campaign: a terminal cuts off what stands last."""
    lines = [plain(f"{_title(status)} ({status.words.where})", "bold")]
    lines += [Text("; ".join(state_words(status))), plain(outcome_words(status))]
    lines += [*reference_lines(status.counts), *_workers(status)]
    # What has nothing more to say of itself than its name was named in the title.
    devices = [one for one in status.devices if one != DeviceStatus(name=status.words.subject)]
    # What has errors has to be seen, however many there are.
    lines += map(device_text, sorted(devices, key=lambda one: not any(one.errors.values())))
    unknown, known = group_counts(status.families)
    heading = f"findings: {counted(unknown, 'family', 'families')}"
    heading += f", {known:,} known" * bool(known)
    # What was replayed of causes that have no line yet is shown where nothing else is.
    shown = status.families or status.shrinking
    if not shown:
        nothing = _examined(status) if status.waiting else ""
        if not (nothing or status.compared):
            nothing = "nothing is compared yet"
        if not nothing and status.gone:
            nothing = f"{counted(status.gone, 'case')} differed once, but not when replayed"
        agree = "; ".join(filter(None, (status.untested, status.words.agreement)))
        lines.append(plain(nothing or agree, style="quiet"))
    every = max((one.total or 0 for one in status.coverage if one.name == "forms"), default=0)
    # The lines are of all that there is; a campaign may be about a part of it.
    part = f"selected forms: {status.forms_reached:,} of {status.forms:,}" * (status.forms < every)
    sections = (
        Section(heading=heading, columns=_FOUND[:3], rows=_found_rows(shown)),
        Section(heading=part, columns=_REACHED, rows=rows_of(map(vars, status.coverage))),
    )
    end = [] if status.stopped else [Text("Ctrl-C ends it", style="quiet")]
    return Group(*lines, *end, *(shown_table(section) for section in sections if section.rows))


def _workers(status: CampaignStatus) -> Iterator[Text]:
    workers = status.workers
    if not workers:
        if not status.stopped:
            yield Text("no worker has done anything yet")
        return
    shares = stage_shares(workers)
    took = (f"{stage.value} {100 * share:.0f} %" for stage, share in shares.items() if share)
    yield Text(", ".join(took))
    hosts = {one.host for one in workers if one.host}
    what = counted(len(workers), "actor" if hosts else "process", "" if hosts else "processes")
    stalled = [one for one in workers if one.stalled]
    what += f" on {counted(len(hosts), 'host')}" * bool(hosts)
    yield Text(what + f", {len(stalled)} stalled" * bool(stalled))
    for one in stalled:
        text = f"{one.number} ({one.stage.value}) silent for {duration(one.seconds)}"
        yield plain(f"{text}  {one.host} {one.device}", "worst")


def _found_rows(families: Iterable[FamilyState]) -> list[ReportRow]:
    rows = []
    for group in finding_groups(families):
        family, case = group.shown, group.shown.case
        known, kind = family.known is not None, KINDS[case.kind]
        text = accused(case)
        opcode = next(iter(opcodes_of([text])), text.partition(" ")[0])
        name = kind.short or kind.shown or case.kind.value
        rows.append(ReportRow(
            data={
                "kind": Text(name, "known" if known else kind.style),
                "cases": group.kinds.total(),
                "what": plain(group.what).append_text(
                    plain(f"{in_words(group.kinds)}{group.remark}", "quiet")
                ),
                "instruction": plain(opcode, "quiet"),
                "smallest case": stored_id(family) or "not stored",
                "id": stored_id(family) or "",
            },
            style="known" if known else "",
        ))  # fmt: skip
    return rows


# The closing report


def campaign_report(status: CampaignStatus, corpus: Path, *, details: bool = False) -> Report:
    """Return what was compared, what was found, and the command that replays it.

    With `details` its page also has plots of the campaign over time, the dashboard, a page of each
    finding, worst first, with links to it, and the machine.
    """
    undefined = rows_of(
        {"why": words[1], "outcome": words[2], "programs": count}
        for words, count in sorted(status.counts.items())
        if words[0] == "undefined"
    )
    members = [
        ReportRow(data={"compiler": name, **figures}, style="" if figures["compared"] else "odd")
        for name, figures in _members(status.counts).items()
    ]
    sections = [
        Section(columns=_FOUND, rows=_found_rows(status.families)),
        Section(columns=_UNDEFINED, rows=undefined),
        Section(columns=_MEMBERS, rows=members),
    ]
    return Report(
        title=_title(status),
        before=sections,
        sentences=[*_sentences(status, corpus)],
        summary=summary(status),
        details=[*_details(status, corpus)] if details else (),
    )


def _title(status: CampaignStatus) -> str:
    return harmless(f"warpfuzz against {status.words.subject}, seed {status.seed}", one_line=True)


def _sentences(status: CampaignStatus, corpus: Path) -> Iterator[str | Text]:
    def sentence(text: str) -> str:
        return f"{text[0].upper()}{text[1:]}."

    for said in (*(f"left out: {one}" for one in status.left_out), *status.remarks):
        yield plain(sentence(said), style="odd")
    if lost := fleet_words(fleet_row(status.hosts)):
        missing = missing_words(status.hosts) or "none is missing now"
        yield plain(f"Of the fleet: {lost}; {missing}.", style="odd")
    took = f"in {duration(status.seconds)}, seed {status.seed}"
    yield f"{outcome_words(status)} {took}: {_found(status)}."
    yield sentence(uncompared_words(status) or _conclusion(status))
    apart = reference_lines(status.counts)
    yield from (Text(sentence(said.plain), style=said.style) for said in apart)
    if status.families:
        command = typed(("warpfuzz", "replay", corpus, *status.words.replay))
        yield f"Stored in {corpus}. Replay: {command}"
    for suspect in finding_groups(status.suspects):
        ids = " and ".join(suspect.ids) or "not stored"
        looks = f"looks like {suspect.title}{in_words(suspect.kinds)}"
        yield Text(f"Suspect, not replayed yet: {ids}, {looks}", style="odd")
    if status.suspects:
        resume = typed(("warpfuzz", "run", "--resume", "--corpus", corpus))
        yield f"Suspects are no findings. This replays them, and goes on: {resume}"
    for family in (*status.families, *status.suspects):
        if family.saved is None:
            text = f"Not stored ({status.words.where}), keep it: {accused(family.case)}"
            yield Text(text, style="worst")


def _found(status: CampaignStatus) -> str:
    unknown, known = group_counts(status.families)
    words = counted(unknown, "finding") if unknown else "no findings"
    if known:
        words = f"{unknown:,} new, {known:,} known"
    if status.suspects:
        suspects = counted(len(finding_groups(status.suspects)), "suspect")
        words += f", and {suspects} not replayed yet"
    if status.unstored:
        words += f"; {counted(status.unstored, 'suspect')} not stored, like others that waited"
    if status.gone:
        words += f"; {counted(status.gone, 'case')} differed once, but not when replayed"
    return words


def _conclusion(status: CampaignStatus) -> str:
    agrees = status.compared or status.answered
    found = status.families or status.suspects or status.gone or not agrees
    text = "the campaign ran against" if found else f"{status.words.agreement}:"
    text = f"{'; '.join(filter(None, (status.untested, text)))} {status.words.subject}"
    return f"{text} ({status.words.where})"


def _members(counts: Counts) -> dict[str, dict[str, int]]:
    """Return the counters of each of those who are compared with each other, by their names."""
    found: dict[str, dict[str, int]] = {}
    for words, count in counts.items():
        if words[0] == BY_MEMBER:
            found.setdefault(words[1], dict.fromkeys(_MEMBER_COLUMNS, 0))[words[2]] = count
    return found


# The page


def _details(status: CampaignStatus, corpus: Path) -> Iterator[Section]:
    lines = read_statistics(corpus)
    seconds = [line.seconds for line in lines]
    figures = {"cases a second": "rate", "cases": "cases", "families of findings": "families"}
    plots = [plot(name, seconds, [getattr(line, of) for line in lines])
             for name, of in figures.items() if len(lines) > 1]  # fmt: skip
    yield Section(heading="Over time", plots=plots)
    events = rows_of(
        dict(zip(("UTC", "what"), event_words(event), strict=True)) for event in status.events
    )
    columns = (ReportColumn("UTC", whole=True), ReportColumn("what"))
    yield Section(heading="Nodes and actors that went and came", columns=columns, rows=events)
    yield Section(heading="Campaign", shown=dashboard(status))
    yield from _findings(status.families, corpus)
    machine = f"{platform.platform()}, Python {platform.python_version()}, {generator()}"
    yield Section(heading="Machine", shown=plain(machine))


def _findings(families: Iterable[FamilyState], corpus: Path) -> Iterator[Section]:
    """Iterate over the pages of stored findings of families, worst first."""
    members = [one for group in finding_groups(families) for one in group.members]
    stored = [family.saved.id for family in members if family.saved is not None]
    if not stored:
        return
    from fuzz.explain.document import rendered
    from fuzz.explain.page import page_of

    opened = open_corpus(corpus)
    for identity in stored:
        try:
            shown: RenderableType = rendered(page_of(opened.get(identity)), REPORT_WIDTH)
        except WarpfuzzError as error:
            # One that cannot be shown must not cost the report of the others.
            shown = plain(f"{identity} cannot be shown: {error}", style="bad")
        yield Section(heading=f"Finding {identity}", anchor=identity, shown=shown)
