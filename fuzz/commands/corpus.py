"""`warpfuzz corpus`: what is stored; `warpfuzz repro`: a folder that needs no warpfuzz."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from corpus import Problem, create_corpus, durable, open_corpus
from corpus.exchange import (
    CauseGroup,
    compare,
    export_zip,
    grouped,
    is_archive,
    json_lines,
    merge,
    opened_archive,
    prune,
    read_case,
    verify,
)
from corpus.known import known_with, load_known, mark_known, named_corpus, named_entry
from fuzz.findings.families import accused, in_words, who_has
from fuzz.kinds import sentence
from fuzz.options.operating import (
    CorpusCheck,
    CorpusDiff,
    CorpusExport,
    CorpusImport,
    CorpusList,
    CorpusMarkKnown,
    CorpusMerge,
    CorpusPrune,
    CorpusShow,
)
from fuzz.options.testing import Repro
from fuzz.output import (
    check_output,
    console,
    counted,
    emit,
    generator,
    plain,
    report_expired,
    report_problems,
    say,
    tracked,
    typed,
)
from fuzz.output.report import Report, ReportColumn, rows_of
from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.disassembly import find_disassembler


def list_findings(options: CorpusList) -> None:
    """Print a line for each cause, worst first."""
    problems: list[Problem] = []
    listed = known_with(options.known, nothing=options.no_known)
    entries = list(named_corpus(options.path).entries(problems.append))
    groups = grouped(
        (entry for entry in entries if not entry.finding.suspected),
        lambda finding: listed.match(finding) is not None,
    )
    rows = [
        {
            "kind": group.kind.value,
            "family": group.identity.text,
            "title": _line(group),
            "members": len(group.members),
            "kinds": Counter(one.finding.kind for one in group.members),
            "compilers": _who(group) or None,
            "ids": [one.id for one in group.members],
            "id": group.smallest.id,
            "text": group.smallest.finding.text,
            "path": str(group.smallest.path),
            "known": listed.match(group.smallest.finding) is not None,
        }
        for group in groups
    ]
    findings = sum(len(group.members) for group in groups)
    unknown = sum(not row["known"] for row in rows)
    sentences = [
        f"{counted(findings, 'finding')} of {counted(len(groups), 'family', 'families')} in "
        f"{options.path}, a line for each cause: {unknown} new, {len(groups) - unknown} known."
    ]
    if suspects := sum(entry.finding.suspected for entry in entries):
        resume = typed(("warpfuzz", "run", "--resume", "--corpus", options.path))
        sentences.append(
            f"{counted(suspects, 'suspect')}, not replayed yet, so no findings: {resume}"
        )
    smallest = {group.smallest.id: accused(group.smallest.finding) for group in groups}
    columns = (
        ReportColumn("id", whole=True),
        ReportColumn("findings", "members", number=True),
        ReportColumn("known"),
        ReportColumn("family", lambda row: f"{row['title']}{in_words(row['kinds'])}"),
        ReportColumn("smallest case", lambda row: _in_a_line(smallest[row["id"]])),
    )
    Report(columns=columns, rows=rows_of(rows), sentences=sentences).write(json=options.json)
    report_expired(listed)
    report_problems(problems)


def _in_a_line(text: str) -> Text:
    """Return a text for a cell: of a kernel the first line, and how many there are."""
    first, *others = text.strip().split("\n")
    return plain(f"{first} (and {counted(len(others), 'more line')})" if others else first, "quiet")


def _who(group: CauseGroup) -> str:
    """Say which compilers have the cause of a group; "" where it is not theirs."""
    return who_has(one.finding for one in group.members)


def _line(group: CauseGroup) -> str:
    return sentence(group.smallest.finding, who=_who(group))


def show_finding(options: CorpusShow) -> None:
    """Print the page of a finding, or its description as JSON."""
    entry = named_entry(options.finding, options.corpus)
    if options.json:
        emit(entry.finding)
        return
    from fuzz.explain.page import page_of

    page_of(entry).show(console())


def mark_finding(options: CorpusMarkKnown) -> None:
    """Add an entry for the family of a finding to a file of known discrepancies."""
    entry, known = named_entry(options.finding, options.corpus), options.known
    until = None if options.until is None else options.until.date()
    if until is not None and until < datetime.now(UTC).date():
        raise UsageError(f"--until {until} has passed; give a day to come, or leave it out")
    there = load_known(known).match(entry.finding) if known.exists() else None
    if there is not None:
        raise UsageError(f"{known} knows {entry.id} already, as {there.id}; change it there")
    marked = mark_known(
        known,
        entry.finding,
        cause=options.reason,
        evidence=options.evidence or "",
        until=until,
    )
    end = "for good" if marked.expires is None else f"until {marked.expires}"
    said = f"{sentence(entry.finding)} is known as {marked.id} {end}, by {known}: give it with "
    said += typed(("--known", known))
    _tell(options.json, said, id=marked.id, path=str(known), expires=marked.expires)


def merge_corpora(options: CorpusMerge) -> None:
    """Add the findings of folders or exported .zip files to a corpus."""
    _merge(options.destination, options.sources, json=options.json)


def _merge(destination: Path, sources: Sequence[Path], *, json: bool) -> None:
    with ExitStack() as stack:
        enter = stack.enter_context
        opened = [
            enter(opened_archive(one)) if is_archive(one) else named_corpus(one) for one in sources
        ]
        made = create_corpus(destination, generator=generator())
        # One source after the other comes to the same as all of them at once.
        parts = [merge(made, (source,)) for source in tracked(opened, "merging", json=json)]
    added = [one for ids, _ in parts for one in ids]
    # What another is shown in place of is no finding of its own.
    shown = {entry.id for entry in made.entries()}
    raw = [one for one in added if one not in shown]
    said = f"{counted(len(added) - len(raw), 'finding')} added{_with_raw(len(raw))}"
    _tell(json, said, added=[one for one in added if one in shown], raw=raw)
    report_problems(one for _, problems in parts for one in problems)


def _with_raw(count: int) -> str:
    return f", with {counted(count, 'case')} from which findings were shrunk" if count else ""


def _tell(json: bool, sentence: str, **row: object) -> None:
    if json:
        emit(row)
    else:
        say(sentence)


def prune_corpus(options: CorpusPrune) -> None:
    """Remove all but the smallest finding of each family, and print how many went."""
    dry_run = options.dry_run
    pruned = prune(open_corpus(options.path), dry_run=dry_run)
    raw = [entry.id for entry in pruned.removed if entry.id in pruned.raw]
    removed = [entry.id for entry in pruned.removed if entry.id not in pruned.raw]
    kept, would = [entry.id for entry in pruned.kept], "would be " if dry_run else ""
    said = f"{counted(len(kept) + len(removed), 'finding')}: {len(kept)} kept, {len(removed)} "
    said += f"{would}removed{_with_raw(len(raw))}"
    _tell(options.json, said, kept=kept, removed=removed, raw=raw, dry_run=dry_run)
    report_problems(pruned.problems)


def compare_corpora(options: CorpusDiff) -> bool:
    """Print what one corpus has and the other has not; tell whether there is any such thing."""
    left, right = options.left, options.right
    difference = compare(named_corpus(left), named_corpus(right))
    sides = (("-", difference.only_left), ("+", difference.only_right))
    if options.json:
        emit(
            only_left=[one.id for group in difference.only_left for one in group.members],
            only_right=[one.id for group in difference.only_right for one in group.members],
            common=difference.common,
            families_only_left=[group.identity.text for group in difference.only_left],
            families_only_right=[group.identity.text for group in difference.only_right],
        )
    else:
        for mark, groups in sides:
            for group in groups:
                say(f"{mark} {group.smallest.id}  {_line(group)}")
        only = [counted(len(groups), "cause") for _, groups in sides]
        say(f"{only[0]} only in {left}, {only[1]} only in {right}")
    differ = bool(difference.only_left or difference.only_right)
    report_problems(difference.problems, fail=not differ)
    return differ


def check_corpus(options: CorpusCheck) -> None:
    """Print everything that is wrong with a corpus; nothing is changed."""
    corpus = named_corpus(options.path)
    problems = list(verify(corpus))
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


def export_corpus(options: CorpusExport) -> None:
    """Write a corpus into a .zip (a corpus again when unpacked) or .jsonl (descriptions only)."""
    corpus, file = named_corpus(options.path), options.file
    if file.suffix not in (".zip", ".jsonl"):
        raise UsageError(f"{file} ends in neither .zip nor .jsonl; choose one of the two")
    check_output("FILE", file)
    problems: list[Problem] = []
    entries = list(tracked(corpus.entries(problems.append), "reading", json=options.json))
    if file.suffix == ".zip":
        export_zip(corpus, entries, file)
    else:
        durable.write_output(file, "".join(line + "\n" for line in json_lines(entries)).encode())
    said = f"{counted(len(entries), 'finding')} written to {file}"
    _tell(options.json, said, path=str(file), findings=[entry.id for entry in entries])
    report_problems(problems)


def import_by_hand(options: CorpusImport) -> None:
    """Add a case that a person wrote, or what a .zip holds that `corpus export` wrote."""
    if is_archive(options.folder):
        _merge(options.corpus, (options.folder,), json=options.json)
        return
    # Read first: what is refused leaves no corpus behind.
    case, files = read_case(options.folder)
    saved = create_corpus(options.corpus, generator=generator()).add(case, files)
    was = "added" if saved.new else "was there already"
    said = f"{saved.id} {was}: {saved.path}"
    _tell(options.json, said, id=saved.id, path=str(saved.path), new=saved.new)


def reproduce(options: Repro) -> None:
    """Write the folder of a finding."""
    from fuzz.explain.folder import write_reproduction

    entry = named_entry(options.case, options.corpus)
    path, disassembler = options.output or Path(f"repro-{entry.id}"), options.disassembler
    files = write_reproduction(
        entry, path, disassembler=find_disassembler(disassembler), bisected=options.bisected
    )
    said = f"{path}: {', '.join(files)}\n{path / 'README.md'} says what it is about"
    _tell(options.json, said, id=entry.id, path=str(path), files=list(files))
