"""A campaign for people: the live view, a line now and then, the closing report, and its page."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.text import Text

from corpus import durable, open_corpus
from fuzz import warpfuzz_version
from fuzz.campaign.status import (
    CampaignStatus,
    event_words,
    fleet_row,
    fleet_words,
    held_words,
    missing_words,
    read_statistics,
    stage_shares,
)
from fuzz.campaign.store import Budget
from fuzz.checks.protocol import BY_MEMBER, REFERENCE, CheckWords, Counts, DeviceStatus, Stage
from fuzz.findings.families import FamilyState, accused, finding_groups, group_counts
from fuzz.kinds import KINDS
from fuzz.output import counted, duration, harmless, plain, typed
from fuzz.output.report import (
    Report,
    ReportColumn,
    ReportRow,
    Section,
    page,
    plot,
    printed,
    recording_console,
    rows_of,
    save,
)
from fuzz.reducer import opcodes_of
from oracle.errors import WarpfuzzError
from runners.ledger import Rate

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
# NVML's clocksEventReasons (nvml.h), but the ones that are no reason to worry: idle (1), clocks
# that somebody has set (2), sync boost (0x10), display (0x100).
THROTTLING = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}


def throttling(reasons: int | None) -> str:
    """Say why the clocks are lower than they could be; empty if nothing says so."""
    return ", ".join(name for bit, name in THROTTLING.items() if (reasons or 0) & bit)


# A campaign in sentences


def state_words(status: CampaignStatus, budget: Budget | None = None) -> Iterator[str]:
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
    if status.hosts and not any(one.nodes for one in status.hosts):
        yield "no node is left, and the campaign waits for one"
    elif status.workers:
        yield limiting_words(stage_shares(status.workers), status.words)
    unknown, known = group_counts((*status.families, *status.shrinking))
    known += len(status.of_causes(known=True))
    if found := unknown + known + len(status.of_causes(known=False)):
        of_them = f", {known:,} of them known" * bool(known)
        yield f"{counted(found, 'family', 'families')} found{of_them}"
    else:
        yield "nothing found yet" if status.waiting else "nothing found"
    quiet = f" (ends at {duration(budget.quiet)})" if budget is not None and budget.quiet else ""
    yield f"nothing new for {duration(status.seconds_since_new)}{quiet}"
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
    stage = max(shares, key=lambda one: shares[one])
    if not shares[stage] > 0:
        return "no worker has done anything yet"
    what = words.runner if stage is Stage.RUN else STAGES[stage]
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
        counted(count, one.one, one.many)
        for one in words.counters
        if (count := status.counts[one.words]) or not one.odd
    ]
    return f"{', '.join(said)} ({', '.join(shown)})" if shown else ", ".join(said)


def apart(status: CampaignStatus) -> Iterator[Text]:
    """Yield what was compared beside the cases: in idle time, and with the device's reference."""
    if (screening := status.screening) is not None:
        rate = Rate(cases=screening.comparisons, wrong=screening.wrong)
        text = f"screening in idle time: {counted(rate.cases, 'comparison')}, "
        text += f"0 errors ({rate.below})" if rate.bound else f"{rate.wrong:,} wrong"
        text += f"; ended: {screening.trouble}" * bool(screening.trouble)
        yield plain(text, "worst" if screening.wrong else "odd" if screening.trouble else "")
    yield from reference_lines(status.counts)


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
    for (first, *rest), count in some.items():
        images = counted(count, "image")
        if first == "reference wrong" and rest:
            yield plain(
                f"the reference is wrong about {images} of {rest[0]}, now left out", "worst"
            )
        elif first == "once":
            yield plain(f"about {images} the reference was wrong once, and not again", "worst")
        elif first == "failed":
            yield plain(f"comparisons of {images} did not come to an end", "worst")
    units = [": multiprocessor ".join(rest) for first, *rest in some if first == "wrong on"]
    if len(units) == 1:
        said = "every image that the oracle calls wrong ran on one multiprocessor"
        yield plain(f"{said}: {units[0]}", "worst")


def device_text(device: DeviceStatus) -> Text:
    """Return a device in one line: host, name, UUID, and what its management library tells."""
    line = plain(f"{device.host} {device.name}" if device.host else device.name)
    return line.append_text(plain(f" {device.uuid[:12]}", "quiet")).append_text(readings(device))


def readings(device: DeviceStatus) -> Text:
    """Return what the management library tells of a device, each reading behind two blanks."""
    limit = f" of {device.power_limit}" if device.power_limit is not None else ""
    held = throttling(device.throttle_reasons)
    errors = ", ".join(f"{count:,} {name}" for name, count in device.errors.items() if count)
    line = Text()
    for said, text, style in (
        (device.note, device.note, "quiet"),
        (device.temperature is not None, f"{device.temperature} °C", ""),
        (device.sm_clock is not None, f"{device.sm_clock or 0:,} MHz", ""),
        (device.busy is not None, f"{device.busy} % busy", ""),
        (device.power is not None, f"{device.power}{limit} W", ""),
        (held, f"held back by {held}", "bad"),
        (errors, errors, "worst"),
        (device.errors and not errors, "no errors", "quiet"),
    ):
        if said:
            line.append_text(plain(f"  {text}", style))
    return line


# The live view

_FOUND = (
    ReportColumn("kind", whole=True),
    ReportColumn("cases", number=True),
    ReportColumn("what"),
    ReportColumn("instruction"),
    ReportColumn("smallest case", link="id"),
)  # fmt: skip
_NOTHING = "nothing is compared yet"
_REACHED = (
    ReportColumn("reached", "name", whole=True),
    ReportColumn("", "reached", number=True),
    ReportColumn("of", lambda line: "" if line["total"] is None else line["total"], number=True),
    ReportColumn("not yet", lambda line: ", ".join(line["missing"][:1])),
)


def dashboard(status: CampaignStatus, budget: Budget | None = None) -> RenderableType:
    """Return the live view of a campaign: a terminal cuts off what stands last."""
    lines = [plain(f"{_title(status)} ({status.words.where})", "bold")]
    lines += [Text("; ".join(state_words(status, budget))), plain(outcome_words(status))]
    lines += [*apart(status), *_workers(status)]
    # What has nothing more to say of itself than its name was named in the title.
    devices = [one for one in status.devices if one != DeviceStatus(name=status.words.subject)]
    # What has errors has to be seen, however many there are.
    lines += map(device_text, sorted(devices, key=lambda one: not any(one.errors.values())))
    unknown, known = group_counts(status.families)
    words = f"findings: {counted(unknown, 'family', 'families')}"
    # What was replayed of causes that have no line yet is shown where nothing else is.
    shown = status.families or status.shrinking
    heading = f"{words}, {known:,} known" if known else words
    heading += ", replayed and being made smaller" * (not status.families and bool(shown))
    if not shown:
        nothing = _examined(status) if status.waiting else "" if status.compared else _NOTHING
        if not nothing and status.gone:
            nothing = f"{counted(status.gone, 'case')} differed once, but not when replayed"
        agree = "; ".join(filter(None, (status.untested, status.words.agreement)))
        lines.append(plain(nothing or agree, style="quiet"))
    every = max((one.total or 0 for one in status.coverage if one.name == "forms"), default=0)
    # The lines are of all that there is; a campaign may be about a part of it.
    part = f"selected forms: {status.forms_reached:,} of {status.forms:,}"
    sections = (
        Section(heading=heading, columns=_FOUND[:3], rows=_found_rows(shown)),
        Section(
            heading=part if status.forms < every else "",
            columns=_REACHED,
            rows=rows_of(map(vars, status.coverage)),
        ),
    )
    end = [] if status.stopped else [Text("Ctrl-C ends it", style="quiet")]
    return Group(*lines, *end, *(one.table() for one in sections if one.rows))


def _workers(status: CampaignStatus) -> Iterator[Text]:
    workers = status.workers
    if not workers:
        if not status.stopped:
            yield Text("no worker has done anything yet")
        return
    shares = stage_shares(workers)
    yield Text(
        ", ".join(f"{stage.value} {100 * one:.0f} %" for stage, one in shares.items() if one)
    )
    stalled = [one for one in workers if one.stalled]
    doing = Counter("triage" if one.examiner else one.stage.value
                    for one in workers if not one.stalled)  # fmt: skip
    hosts = {one.host for one in workers if one.host}
    what = counted(len(workers), "actor" if hosts else "process", "" if hosts else "processes")
    where = f" on {counted(len(hosts), 'host')}" * bool(hosts)
    parts = [f"{count:,} {stage}" for stage, count in doing.most_common()]
    parts += [f"{len(stalled)} stalled"] * bool(stalled)
    yield Text(f"{what}{where}: {', '.join(parts)}")
    for one in stalled:
        text = f"{one.number} ({one.stage.value}) silent for {duration(one.seconds)}"
        yield plain(f"{text}  {one.host} {one.device}", "worst")


def _found_rows(families: Iterable[FamilyState]) -> list[ReportRow]:
    rows = []
    for group in finding_groups(families):
        known, kind = group.known is not None, KINDS[group.kind]
        text = accused(group.shown.case)
        opcode = next(iter(opcodes_of([text])), text.partition(" ")[0])
        name = kind.short or kind.shown or group.kind.value
        rows.append(ReportRow(
            data={
                "kind": Text(name, "known" if known else kind.style),
                "cases": group.cases,
                "what": plain(group.what).append_text(
                    plain(f"{group.each_kind}{group.remark}", "quiet")
                ),
                "instruction": plain(opcode, "quiet"),
                "smallest case": group.shown.id or "not stored",
                "id": group.shown.id or "",
            },
            style="known" if known else "",
        ))  # fmt: skip
    return rows


# The closing report


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


def campaign_report(status: CampaignStatus, corpus: Path) -> Report:
    """Return what was compared, what was found, and the command that replays it."""
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
    return Report(title=_title(status), before=sections, sentences=[*_sentences(status, corpus)])


def _title(status: CampaignStatus) -> str:
    return harmless(f"warpfuzz against {status.words.subject}, seed {status.seed}", one_line=True)


def _sentences(status: CampaignStatus, corpus: Path) -> Iterator[str | Text]:
    for said in (*(f"left out: {one}" for one in status.left_out), *status.remarks):
        yield plain(_sentence(said), style="odd")
    if lost := fleet_words(fleet_row(status.hosts)):
        missing = missing_words(status.hosts) or "none is missing now"
        yield plain(f"Of the fleet: {lost}; {missing}.", style="odd")
    took = f"in {duration(status.seconds)}, seed {status.seed}"
    yield f"{outcome_words(status)} {took}: {_found(status)}."
    yield _sentence(status.nothing_compared or _conclusion(status))
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


def _conclusion(status: CampaignStatus) -> str:
    agrees = status.compared or status.answered
    found = status.families or status.suspects or status.gone or not agrees
    text = "the campaign ran against" if found else f"{status.words.agreement}:"
    if status.untested:
        text = f"{status.untested}; {text}"
    text += f" {status.words.subject} ({status.words.where})"
    silent = [name for name, one in _members(status.counts).items() if not one["images"]]
    return f"{text}; nothing was compared of {', '.join(silent)}" if silent and agrees else text


def _members(counts: Counts) -> dict[str, dict[str, int]]:
    """Return the counters of each of those who are compared with each other, by their names."""
    found: dict[str, dict[str, int]] = {}
    for words, count in counts.items():
        if words[0] == BY_MEMBER:
            found.setdefault(words[1], dict.fromkeys(_MEMBER_COLUMNS, 0))[words[2]] = count
    return found


# The page


def write_report(
    status: CampaignStatus, corpus: Path, path: Path, *, budget: Budget | None = None
) -> None:
    """Write the final report as an HTML page, or as an SVG picture of the terminal.

    The page has a table of the findings, worst first, with links to what is known of each, plots of
    the campaign over time, the machine, and the report. A picture, which cannot be searched, has
    the report and the first of the findings.
    """
    report = campaign_report(status, corpus)
    shown, findings = dashboard(status, budget), _findings(status.families, corpus)
    if path.suffix == ".svg":
        recorder = recording_console()
        recorder.print(shown, "")
        report.show(recorder)
        for _, finding in [*findings][:1]:
            recorder.print("", finding)
        save(recorder, path, title=report.title)
        return
    found, *others = report.before
    lines = read_statistics(corpus)
    figures = {"cases a second": "rate", "cases": "cases", "families of findings": "families"}
    plots = [
        plot(name, [line.seconds for line in lines], [getattr(line, of) for line in lines])
        for name, of in figures.items()
        if len(lines) > 1
    ]
    events = rows_of(
        dict(zip(("utc", "what"), event_words(event), strict=True)) for event in status.events
    )
    sections = [
        *([replace(found, heading="Findings")] if found.rows else []),
        Section(heading="Over time", plots=plots),
        *([Section(
            heading="Nodes and actors that went and came",
            columns=(ReportColumn("UTC", "utc", whole=True), ReportColumn("what")), rows=events,
        )] if events else []),
        Section(heading="Campaign", printed=_printed(shown)),
        *(one for one in others if one.rows),
        *(Section(heading=f"Finding {identity}", anchor=identity, printed=_printed(finding))
          for identity, finding in findings),
    ]  # fmt: skip
    machine = (
        f"On {platform.platform()}, with Python {platform.python_version()} and warpfuzz "
        f"{warpfuzz_version()}."
    )
    sentences = [*map(str, report.sentences), machine]
    durable.write_output(path, page(report.title, sentences, sections))


def _printed(shown: RenderableType) -> Markup:
    recorder = recording_console()
    recorder.print(shown)
    return printed(recorder)


def _findings(
    families: Iterable[FamilyState], corpus: Path
) -> Iterator[tuple[str, RenderableType]]:
    """Iterate over the stored findings of families, worst first: id, and what is known of it."""
    shown = [one for group in finding_groups(families) for one in group.members]
    stored = [family.saved.id for family in shown if family.saved is not None]
    if not stored:
        return
    from fuzz.explain.page import page_of

    opened = open_corpus(corpus)
    for identity in stored:
        try:
            yield identity, page_of(opened.get(identity))
        except WarpfuzzError as error:
            # One that cannot be shown must not cost the report of the others.
            yield identity, plain(f"{identity} cannot be shown: {error}", style="bad")
