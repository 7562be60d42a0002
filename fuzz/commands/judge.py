"""`warpfuzz judge`: compares what several compilers make of one kernel of the user's."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

from rich.text import Text

from corpus import Corpus, Kind, create_corpus
from corpus.known import known_with
from fuzz.judging.bringing import Brought, brought
from fuzz.judging.comparing import REFERENCE_SECONDS
from fuzz.judging.judging import Found, Judged, judged
from fuzz.options import Judge
from fuzz.output import counted, generator, plain, report_expired, starting
from fuzz.output.report import Report, ReportColumn, ReportRow, Test
from oracle.errors import InfrastructureError

_BROUGHT = "kernel launch runner compilers levels target device faults ptx_pass json"
"""Options that say what is judged, and by whom."""


def judge_kernel(options: Judge) -> bool:
    """Judge a kernel; tell whether compilers disagree about it."""
    started = time.monotonic()
    known = known_with(options.known, nothing=options.no_known)

    @cache
    def corpus() -> Corpus:
        return create_corpus(options.corpus, generator=generator())

    with (
        starting(lines=False) as tell,
        brought(**options.picked(*_BROUGHT.split())) as case,
    ):
        told = judged(
            case, count=options.images, seed=options.seed, corpus=corpus, known=known, tell=tell
        )
    seconds = time.monotonic() - started
    _report(options, told, case, seconds)
    report_expired(known)
    if not told.came.results and not told.found:
        raise InfrastructureError(
            f"nothing was compared: {'; '.join((*told.came.unasked, *case.skipped))}"
        )
    return any(one.known is None and one.verdict.kind is not Kind.NOTE for one in told.found)


def _report(options: Judge, told: Judged, case: Brought, seconds: float) -> None:
    refusal = case.refusal
    # Each has an address of its own.
    left = Counter(re.sub(r"0x[\da-f]+", "…", one.why) for one in told.left.values())
    rows = [_row(one, seconds) for one in told.found]
    agreeing = (f"{options.kernel.name} {one}" for one in told.came.agreeing)
    Report(
        title="warpfuzz judge",
        columns=_COLUMNS,
        rows=rows,
        sentences=[*_sentences(options, told, case, left, seconds)],
        summary={
            "cases": told.came.results,
            "seconds": round(seconds, 3),
            "seed": options.seed,
            "findings": [one.data for one in rows],
            "kernel": str(options.kernel),
            "device": case.ready.device,
            "launch": case.launch.setup.toml,
            "guessed": list(case.launch.guessed),
            "reference": None if refusal else told.referee,
            "refused": refusal or None,
            "changed": list(case.notes),
            "images": told.images,
            "left_out": dict(left),
            "not_tried": told.untried,
            "approximate": list(told.approximations),
            "approximate_bytes": told.approximate_bytes,
            "agreeing": list(told.came.agreeing),
            "not_asked": [*told.came.unasked, *case.skipped],
        },
        tests=[Test("warpfuzz.judge", one, 0.0) for one in agreeing],
    ).write(json=options.json, junit=options.junit)


_COLUMNS = (
    ReportColumn("kind"),
    ReportColumn("of", lambda row: row["blame"] or row["compilers"][0]),
    ReportColumn("difference"),
    ReportColumn("lines", number=True),
    ReportColumn("tries", number=True),
    ReportColumn("smaller", "shrink"),
    ReportColumn("stored as", "path"),
)


def _row(one: Found, seconds: float) -> ReportRow:
    verdict, known = one.verdict, one.known is not None
    return ReportRow(
        data={
            "id": one.saved.id,
            "family": one.case.identity.text,
            "kind": verdict.kind.value,
            "verdict": verdict.kind.value,
            "known": known,
            "path": str(one.saved.path),
            "compilers": list(verdict.names),
            "blame": one.blame,
            "difference": verdict.difference,
            "lines": len(one.reduced.text.splitlines()),
            "shrink": one.reduced.status.value,
            "tries": one.reduced.tries,
            "unassembled": one.unassembled,
        },
        style="known" if known else "bad",
        test=Test(
            "warpfuzz.judge", f"{one.saved.id} {one.blame}", seconds,
            "skipped" if known else "failure", verdict.kind.value, verdict.difference,
        ),
    )  # fmt: skip


def _sentences(
    options: Judge, told: Judged, case: Brought, left: Mapping[str, int], seconds: float
) -> Iterator[str | Text]:
    for kind, steady in dict.fromkeys((one.verdict.kind, one.verdict.steady) for one in told.found):
        if kind is Kind.DEVIATION:
            yield "Deviation: all of them agree with each other: the simulated device may be wrong."
        elif kind is Kind.NOTE and not steady:
            yield (
                "Note: it does not come out the same each time: the kernel may race, which nobody "
                "looked for."
            )
        elif kind is Kind.NOTE:
            yield (
                "Note: it has approximate instructions, of whose results the ISA bounds the error "
                "alone."
            )
    if any(one.unassembled for one in told.found):
        yield (
            "no ptxas here takes the kernel, so that none was asked whether it takes the smaller "
            "one"
        )
    quiet = [f"guessed: {sentence}" for sentence in case.launch.guessed]
    if quiet:
        how = "Override with --launch FILE; as it was launched:"
        if options.launch is not None:
            how = f"The rest is from {options.launch}; as it was launched:"
        quiet += [how, *case.launch.setup.toml.strip().splitlines()]
    yield from (plain(line, style="quiet") for line in quiet)
    yield from case.notes
    if case.refusal:
        yield (
            f"The simulated device does not know the kernel ({case.refusal}): compilers are "
            "compared with each other alone, and races are not looked for."
        )
    for why, count in left.items():
        yield f"{counted(count, 'image')} left out: {why}"
    if told.untried:
        yield (
            f"{counted(told.untried, 'image')} not tried: the simulated device took "
            f"{REFERENCE_SECONDS:g} s for the others."
        )
    for sentence in (*case.skipped, *told.came.unasked):
        yield plain(sentence, style="quiet")
    if told.approximations:
        amount = "Results may depend"
        if told.approximate_bytes:
            amount = f"{counted(told.approximate_bytes, 'byte')} of each image may depend"
        simulated = case.ready.choice.name == "sim"
        how = "with what the simulated device has there" if simulated else "among builds alone"
        yield (
            f"{amount} on {', '.join(told.approximations)}, of which the ISA bounds the error and "
            f"not the bits: they are compared {how}, and a difference is a note."
        )
    if not told.came.codes:
        yield f"No build ran to its end, so that no image was compared, in {seconds:.1f} s."
        return
    agreeing = ", ".join(told.came.agreeing) or "none"
    referee = "with each other" if case.refusal else f"with {told.referee}"
    whole = "bit for bit, but for these bytes," if told.approximate_bytes else "bit for bit,"
    yield (
        f"{counted(told.images, 'image')} compared, whole and {whole} {referee}, in "
        f"{seconds:.1f} s; different builds that ran: {told.came.codes}; agreeing: {agreeing}."
    )
