"""`warpfuzz corpus`, `repro`, `status`: findings and campaigns that are kept in folders."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from corpus import Problem, create_corpus, durable, exchange, open_corpus
from corpus.known import known_with, load_known, mark_known, named_corpus, named_entry
from fuzz.campaign.status import (
    Figures,
    Life,
    event_line,
    fleet_row,
    fleet_words,
    read_figures,
    rows_of_causes,
)
from fuzz.console.metrics import device_text
from fuzz.console.report import outcome_words, reference_lines, state_words
from fuzz.findings.families import accused, in_words, who_has
from fuzz.kinds import sentence
from fuzz.options import operating as given
from fuzz.options.declared import DEFAULT_CORPUS
from fuzz.options.testing import Repro
from fuzz.output import (
    Report,
    ReportColumn,
    check_output,
    console,
    counted,
    duration,
    emit,
    generator,
    is_watched,
    plain,
    report_expired,
    report_problems,
    rows_of,
    say,
    tracked,
    typed,
)
from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.disassembly import find_disassembler


def list_findings(options: given.CorpusList) -> None:
    """Print a line for each cause, worst first."""
    problems: list[Problem] = []
    listed = known_with(options.known, nothing=options.no_known)
    entries = list(named_corpus(options.path).entries(problems.append))
    findings = [entry for entry in entries if not entry.finding.suspected]
    rows = []
    for group in exchange.grouped(findings, lambda finding: listed.match(finding) is not None):
        smallest = group.smallest.finding
        first, *others = accused(smallest).strip().split("\n")
        rows.append({
            "kind": group.kind.value,
            "family": group.identity.text,
            "title": sentence(smallest, who=_who(group)),
            "members": len(group.members),
            "kinds": Counter(member.finding.kind for member in group.members),
            "compilers": _who(group) or None,
            "ids": [member.id for member in group.members],
            "id": group.smallest.id,
            "text": smallest.text,
            "path": str(group.smallest.path),
            "known": listed.match(smallest) is not None,
            "case": f"{first}{f' (and {len(others)} more lines)' * bool(others)}",
        })  # fmt: skip
    unknown = sum(not row["known"] for row in rows)
    sentences = [
        f"{counted(len(findings), 'finding')} of {counted(len(rows), 'family', 'families')} in "
        f"{options.path}, a line for each cause: {unknown} new, {len(rows) - unknown} known."
    ]
    if suspects := len(entries) - len(findings):
        resume = typed(("warpfuzz", "run", "--resume", "--corpus", options.path))
        sentences += [f"{counted(suspects, 'suspect')}, not replayed, so no findings: {resume}"]
    columns = (
        ReportColumn("id", whole=True),
        ReportColumn("findings", "members", number=True),
        ReportColumn("known"),
        ReportColumn("family", lambda row: f"{row['title']}{in_words(row['kinds'])}"),
        ReportColumn("smallest case", lambda row: plain(row["case"], "quiet")),
    )
    Report(columns=columns, rows=rows_of(rows), sentences=sentences).write(json=options.json)
    report_expired(listed)
    report_problems(problems)


def _who(group: exchange.CauseGroup) -> str:
    """Say which compilers have the cause of a group; "" where it is not theirs."""
    return who_has(member.finding for member in group.members)


def show_finding(options: given.CorpusShow) -> None:
    """Print the page of a finding, or its description as JSON."""
    entry = named_entry(options.finding, options.corpus)
    if options.json:
        emit(entry.finding)
        return
    from fuzz.explain.document import rendered
    from fuzz.explain.page import page_of

    out = console()
    out.print(rendered(page_of(entry), out.width), crop=False)


def mark_finding(options: given.CorpusMarkKnown) -> None:
    """Add an entry for the family of a finding to a file of known discrepancies."""
    entry, known = named_entry(options.finding, options.corpus), options.known
    until = None if options.until is None else options.until.date()
    if until is not None and until < datetime.now(UTC).date():
        raise UsageError(f"--until {until} has passed; give a day to come, or leave it out")
    there = load_known(known).match(entry.finding) if known.exists() else None
    if there is not None:
        raise UsageError(f"{known} knows {entry.id} already, as {there.id}; change it there")
    reason, evidence = options.reason, options.evidence or ""
    marked = mark_known(known, entry.finding, cause=reason, evidence=evidence, until=until)
    end = "for good" if marked.expires is None else f"until {marked.expires}"
    said = f"{sentence(entry.finding)} is known as {marked.id} {end}, by {known}: give it with "
    said += typed(("--known", known))
    _tell(options.json, said, id=marked.id, path=str(known), expires=marked.expires)


def merge_corpora(options: given.CorpusMerge) -> None:
    """Add the findings of folders or exported .zip files to a corpus."""
    _merge(options.destination, options.sources, json=options.json)


def _merge(destination: Path, sources: Sequence[Path], *, json: bool) -> None:
    with ExitStack() as stack:
        opened = [
            stack.enter_context(exchange.opened_archive(path))
            if exchange.is_archive(path)
            else named_corpus(path)
            for path in sources
        ]
        made = create_corpus(destination, generator=generator())
        # One source after the other comes to the same as all of them at once.
        parts = [
            exchange.merge(made, (source,)) for source in tracked(opened, "merging", json=json)
        ]
    # What another is shown in place of is no finding of its own.
    shown = {entry.id for entry in made.entries()}
    every = [identity for ids, _ in parts for identity in ids]
    added = [identity for identity in every if identity in shown]
    raw = [identity for identity in every if identity not in shown]
    said = f"{counted(len(added), 'finding')} added; cases that they were shrunk from: {len(raw):,}"
    _tell(json, said, added=added, raw=raw)
    report_problems(problem for _, problems in parts for problem in problems)


def _tell(json: bool, sentence: str, **row: object) -> None:
    if json:
        emit(row)
    else:
        say(sentence)


def prune_corpus(options: given.CorpusPrune) -> None:
    """Remove all but the smallest finding of each family, and print how many went."""
    dry_run = options.dry_run
    pruned = exchange.prune(open_corpus(options.path), dry_run=dry_run)
    raw = [entry.id for entry in pruned.removed if entry.id in pruned.raw]
    removed = [entry.id for entry in pruned.removed if entry.id not in pruned.raw]
    kept = [entry.id for entry in pruned.kept]
    said = f"{counted(len(kept) + len(removed), 'finding')}: {len(kept)} kept, {len(removed)} "
    said += f"{'would be ' * dry_run}removed; cases that they were shrunk from: {len(raw):,}"
    _tell(options.json, said, kept=kept, removed=removed, raw=raw, dry_run=dry_run)
    report_problems(pruned.problems)


def compare_corpora(options: given.CorpusDiff) -> bool:
    """Print what one corpus has and the other has not; tell whether there is any such thing."""
    left, right = options.left, options.right
    difference = exchange.compare(named_corpus(left), named_corpus(right))
    sides = (
        ("-", "left", left, difference.only_left), ("+", "right", right, difference.only_right)
    )  # fmt: skip
    row: dict[str, object] = {"common": difference.common}
    lines = []
    for mark, side, _, groups in sides:
        row[f"only_{side}"] = [member.id for group in groups for member in group.members]
        row[f"families_only_{side}"] = [group.identity.text for group in groups]
        for group in groups:
            title = sentence(group.smallest.finding, who=_who(group))
            lines.append(f"{mark} {group.smallest.id}  {title}")
    only = (f"{counted(len(groups), 'cause')} only in {path}" for _, _, path, groups in sides)
    if options.json:
        emit(row)
    else:
        say("\n".join((*lines, ", ".join(only))))
    differ = any(groups for *_, groups in sides)
    report_problems(difference.problems, fail=not differ)
    return differ


def check_corpus(options: given.CorpusCheck) -> None:
    """Print everything that is wrong with a corpus; nothing is changed."""
    corpus = named_corpus(options.path)
    problems = list(exchange.verify(corpus))
    sound = sum(1 for _ in corpus.entries(checksums=False))
    if options.json:
        for one in problems:
            emit({"path": str(one.path), "cause": one.cause.value, "sentence": one.sentence})
    else:
        report_problems(problems, fail=False)
        say(f"{counted(sound, 'finding')} of {options.path} can be read")
    if problems:
        said = f"{counted(len(problems), 'problem')}; each was named with what to do"
        raise InfrastructureError(f"{options.path} has {said}")


def export_corpus(options: given.CorpusExport) -> None:
    """Write a corpus into a .zip (a corpus again when unpacked) or .jsonl (descriptions only)."""
    corpus, file = named_corpus(options.path), options.file
    if file.suffix not in (".zip", ".jsonl"):
        raise UsageError(f"{file} ends in neither .zip nor .jsonl; choose one of the two")
    check_output("FILE", file)
    problems: list[Problem] = []
    entries = list(tracked(corpus.entries(problems.append), "reading", json=options.json))
    if file.suffix == ".zip":
        exchange.export_zip(corpus, entries, file)
    else:
        durable.write_output(
            file, "".join(line + "\n" for line in exchange.json_lines(entries)).encode()
        )
    said = f"{counted(len(entries), 'finding')} written to {file}"
    _tell(options.json, said, path=str(file), findings=[entry.id for entry in entries])
    report_problems(problems)


def import_by_hand(options: given.CorpusImport) -> None:
    """Add a case that a person wrote, or what a .zip holds that `corpus export` wrote."""
    if exchange.is_archive(options.folder):
        _merge(options.corpus, (options.folder,), json=options.json)
        return
    # Read first: what is refused leaves no corpus behind.
    case, files = exchange.read_case(options.folder)
    saved = create_corpus(options.corpus, generator=generator()).add(case, files)
    said = f"{saved.id} {'added' if saved.new else 'was there already'}: {saved.path}"
    _tell(options.json, said, id=saved.id, path=str(saved.path), new=saved.new)


def reproduce(options: Repro) -> None:
    """Write the folder of a finding."""
    from fuzz.explain.folder import write_reproduction

    entry = named_entry(options.case, options.corpus)
    path = options.output or Path(f"repro-{entry.id}")
    disassembler = find_disassembler(options.disassembler)
    files = write_reproduction(entry, path, disassembler=disassembler, bisected=options.bisected)
    said = f"{path}: {', '.join(files)}\n{path / 'README.md'} says what it is about"
    _tell(options.json, said, id=entry.id, path=str(path), files=list(files))


# Campaigns

_WATCH_SECONDS = 2.0
"""Between two looks; campaigns write figures every 10 s."""
_MOST_EVENTS = 12
"""Latest nodes and actors of a fleet that went or came and are shown: half a terminal's lines."""
_STYLES = {Life.RUNNING: "legal", Life.ENDED: "", Life.SILENT: "worst"}


def show_status(options: given.Status) -> None:
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
            elif (stamps != said or not goes_on) and not options.json:
                out.print(status_view(found))
            for one in found if options.json and (stamps != said or not goes_on) else ():
                row = {"corpus": str(one.corpus), "campaign": one.life.value}
                emit(status=row | {"silent_seconds": round(one.silence, 1), **one.rows})
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
        rows = (row for one in found for row in rows_of_causes(one.status, known=False))
        groups = {row.family or row.title for row in rows}
        families = counted(len(groups), "different family", "different families")
        text = f"all of them: {lives}; {cases:,} cases in {duration(seconds)} together, "
        lines.append(Text(f"{text}{rate:,.0f} a second now; {families} of findings", "bold"))
    return Group(*lines)


def _lines(one: Figures) -> Iterator[Text]:
    status, runs = one.status, one.life is Life.RUNNING
    head = plain(f"{one.corpus}: ", style="bold").append(one.life.value, style=_STYLES[one.life])
    if one.life is Life.SILENT:
        head.append(f" for {duration(one.silence)}: it was killed, or its host is gone")
    told = (f"seed {status.seed}", status.words.where, status.words.subject)
    yield head.append_text(plain(f", {', '.join(filter(None, told))}"))
    lines = [
        plain("; ".join(state_words(status))),
        Text(outcome_words(status)),
        *reference_lines(status.counts),
    ]
    if verdicts := Counter(row.verdict for row in rows_of_causes(status, known=False)):
        lines.append(plain(f"new: {_counted(verdicts)}", "odd"))
    if runs:
        lines.append(Text(counted(status.carrying_out, "worker")))
    if status.untested and not runs:
        lines.append(plain(status.untested, style="bad"))
    row = fleet_row(status.hosts)
    if row and runs:
        lines.append(Text(f"{counted(row['nodes'], 'node')} of the fleet"))
    if lost := fleet_words(row):
        lines.append(plain(f"so far {lost}", "odd"))
        lines += [plain(f"  {event_line(event)}") for event in status.events[-_MOST_EVENTS:]]
    yield from (
        Text("  ").append_text(line) for line in (*lines, *map(device_text, status.devices))
    )


def _counted(words: Counter[str]) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in words.most_common())
