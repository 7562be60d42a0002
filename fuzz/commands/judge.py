"""`warpfuzz judge`: compares what several compilers make of one kernel of the user's."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from rich.text import Text

from corpus import Corpus, Kind, create_corpus
from corpus.known import known_with
from fuzz.judging.bringing import Brought, brought
from fuzz.judging.judging import (
    REFERENCE_SECONDS,
    SIMULATED,
    KernelCompared,
    KernelDisagreement,
    compare,
    made_smaller,
)
from fuzz.options.testing import Judge
from fuzz.output import (
    Report,
    ReportColumn,
    ReportRow,
    Test,
    counted,
    generator,
    plain,
    report_expired,
    starting,
)
from oracle.errors import InfrastructureError

_Found = Sequence[tuple[KernelDisagreement, Mapping[str, Any]]]


def judge_kernel(options: Judge) -> bool:
    """Judge a kernel; tell whether compilers disagree about it."""
    started = time.monotonic()
    known = known_with(options.known, nothing=options.no_known)

    @cache
    def corpus() -> Corpus:
        return create_corpus(options.corpus, generator=generator())

    with starting(lines=False) as tell, brought(options) as case:
        came = compare(case, count=options.images, seed=options.seed, tell=tell)
        found = made_smaller(case, came.verdicts, corpus, known, tell)
    seconds = time.monotonic() - started
    # Each has an address of its own.
    left = Counter(re.sub(r"0x[\da-f]+", "…", one.why) for one in came.left.values())
    rows = [
        ReportRow(
            data=row,
            style="known" if row["known"] else "bad",
            test=Test(
                "warpfuzz.judge", f"{row['id']} {row['blame']}", seconds,
                "skipped" if row["known"] else "failure", row["kind"], row["difference"],
            ),
        )
        for _, row in found
    ]  # fmt: skip
    Report(
        title="warpfuzz judge",
        columns=_COLUMNS,
        rows=rows,
        sentences=[*_sentences(options, came, found, case, left, seconds)],
        summary={
            "cases": came.codes * came.images,
            "seconds": round(seconds, 3),
            "seed": options.seed,
            "findings": [row for _, row in found],
            "kernel": str(options.kernel),
            "device": case.ready.device,
            "launch": case.setup.toml,
            "guessed": list(case.guessed),
            "reference": None if case.refusal else SIMULATED,
            "refused": case.refusal or None,
            "changed": list(case.notes),
            "images": came.images,
            "left_out": dict(left),
            "not_tried": came.untried,
            "approximate": list(came.approximations),
            "approximate_bytes": came.approximate_bytes,
            "agreeing": list(came.agreeing),
            "not_asked": [*came.unasked, *case.skipped],
        },
        tests=[
            Test("warpfuzz.judge", f"{options.kernel.name} {one}", 0.0) for one in came.agreeing
        ],
    ).write(json=options.json, junit=options.junit)
    report_expired(known)
    if not came.codes and not found:
        raise InfrastructureError(
            f"nothing was compared: {'; '.join((*came.unasked, *case.skipped))}"
        )
    return any(not row["known"] and one.kind is not Kind.NOTE for one, row in found)


_COLUMNS = (
    ReportColumn("kind"),
    ReportColumn("of", lambda row: row["blame"] or row["compilers"][0]),
    ReportColumn("difference"),
    ReportColumn("lines", number=True),
    ReportColumn("tries", number=True),
    ReportColumn("smaller", "shrink"),
    ReportColumn("stored as", "path"),
)


def _sentences(
    options: Judge,
    came: KernelCompared,
    found: _Found,
    case: Brought,
    left: Mapping[str, int],
    seconds: float,
) -> Iterator[str | Text]:
    kinds = {(said.kind, said.steady) for said, _ in found}
    if (Kind.DEVIATION, True) in kinds:
        yield "Deviation: all of them agree with each other: the simulated device may be wrong."
    if (Kind.NOTE, True) in kinds:
        yield "Note: of approximate instructions the ISA bounds the error of the result alone."
    if (Kind.NOTE, False) in kinds:
        yield "Note: it does not come out the same each time: the kernel may race."
    if case.guessed:
        how = "the rest is as the file says" if options.launch else "override with --launch FILE"
        lines = [f"guessed: {sentence}" for sentence in case.guessed]
        lines += [f"As it was launched ({how}):", *case.setup.toml.strip().splitlines()]
        yield from (plain(line, style="quiet") for line in lines)
    yield from case.notes
    if case.refusal:
        yield (
            f"The simulated device does not know the kernel ({case.refusal}): compilers are "
            "compared with each other alone, and races are not looked for."
        )
    for why, count in left.items():
        yield f"{counted(count, 'image')} left out: {why}"
    if came.untried:
        yield (
            f"{counted(came.untried, 'image')} not tried: the simulated device took "
            f"{REFERENCE_SECONDS:g} s for the others."
        )
    for sentence in (*case.skipped, *came.unasked):
        yield plain(sentence, style="quiet")
    if came.approximations:
        amount = f"{counted(came.approximate_bytes, 'byte')} of each image"
        simulated = case.ready.choice.name == "sim"
        yield (
            f"{amount if came.approximate_bytes else 'Results'} may depend on "
            f"{', '.join(came.approximations)}, of which the ISA bounds the error and not the "
            f"bits: they are compared {f'with {SIMULATED}' if simulated else 'among builds alone'}"
            ", and a difference is a note."
        )
    if not came.codes:
        yield f"No build ran to its end, so that no image was compared, in {seconds:.1f} s."
        return
    yield (
        f"{counted(came.images, 'image')} compared, whole and bit for bit"
        f"{' but for these bytes' * bool(came.approximate_bytes)}, with "
        f"{'each other' if case.refusal else SIMULATED}, in {seconds:.1f} s; different builds that "
        f"ran: {came.codes}; agreeing: {', '.join(came.agreeing) or 'none'}."
    )
