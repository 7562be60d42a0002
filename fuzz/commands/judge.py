"""`warpfuzz judge`: compares what several compilers make of one kernel of the user's."""

from __future__ import annotations

import re
import time
from collections import Counter
from functools import cache

from corpus import Corpus, Kind, create_corpus
from corpus.known import known_with
from fuzz.judging.bringing import Brought, brought
from fuzz.judging.comparing import REFERENCE_SECONDS
from fuzz.judging.judging import Found, Judged, judged
from fuzz.options import Judge
from fuzz.output import (
    counted,
    emit,
    emit_summary,
    generator,
    report_expired,
    say,
    starting,
)
from fuzz.output.report import Test, write_junit
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
    if options.junit is not None:
        _write_junit(options, told, seconds)
    if not told.came.results and not told.found:
        raise InfrastructureError(
            f"nothing was compared: {'; '.join((*told.came.unasked, *case.skipped))}"
        )
    return any(one.known is None and one.verdict.kind is not Kind.NOTE for one in told.found)


def _report(options: Judge, told: Judged, case: Brought, seconds: float) -> None:
    found, refusal, launch = case.launch, case.refusal, case.launch.setup.toml
    # Each has an address of its own.
    left = Counter(re.sub(r"0x[\da-f]+", "…", one.why) for one in told.left.values())
    rows = [_row(one) for one in told.found]
    if options.json:
        for row in rows:
            emit(row)
        emit_summary(
            cases=told.came.results,
            seconds=round(seconds, 3),
            seed=options.seed,
            findings=rows,
            kernel=str(options.kernel),
            device=case.ready.device,
            launch=launch,
            guessed=list(found.guessed),
            reference=None if refusal else told.referee,
            refused=refusal or None,
            changed=list(case.notes),
            images=told.images,
            left_out=dict(left),
            not_tried=told.untried,
            approximate=list(told.approximations),
            approximate_bytes=told.approximate_bytes,
            agreeing=list(told.came.agreeing),
            not_asked=[*told.came.unasked, *case.skipped],
        )
        return
    for sentence in found.guessed:
        say(f"guessed: {sentence}", style="quiet")
    if found.guessed:
        how = "Override with --launch FILE; as it was launched:"
        if options.launch is not None:
            how = f"The rest is from {options.launch}; as it was launched:"
        say(how, style="quiet")
        say(launch.strip(), style="quiet")
    for note in case.notes:
        say(note)
    if refusal:
        say(f"The simulated device does not know the kernel ({refusal}): compilers are compared "
            "with each other alone, and races are not looked for.")  # fmt: skip
    for why, count in left.items():
        say(f"{counted(count, 'image')} left out: {why}")
    if told.untried:
        say(f"{counted(told.untried, 'image')} not tried: the simulated device took "
            f"{REFERENCE_SECONDS:g} s for the others.")  # fmt: skip
    for sentence in (*case.skipped, *told.came.unasked):
        say(sentence, style="quiet")
    if told.approximations:
        amount = "Results may depend"
        if told.approximate_bytes:
            amount = f"{counted(told.approximate_bytes, 'byte')} of each image may depend"
        how = "among builds alone"
        if case.ready.choice.name == "sim":
            how = "with what the simulated device has there"
        say(f"{amount} on {', '.join(told.approximations)}, of which the ISA bounds the error and "
            f"not the bits: they are compared {how}, and a difference is a note.")  # fmt: skip
    for one in told.found:
        _print(one)
    if not told.came.codes:
        say(f"No build ran to its end, so that no image was compared, in {seconds:.1f} s.")
        return
    agreeing = ", ".join(told.came.agreeing) or "none"
    referee = "with each other" if refusal else f"with {told.referee}"
    whole = "bit for bit, but for these bytes," if told.approximate_bytes else "bit for bit,"
    say(
        f"{counted(told.images, 'image')} compared, whole and {whole} {referee}, in "
        f"{seconds:.1f} s; different builds that ran: {told.came.codes}; agreeing: {agreeing}."
    )


def _row(one: Found) -> dict[str, object]:
    verdict = one.verdict
    return {
        "id": one.saved.id,
        "family": one.case.identity.text,
        "kind": verdict.kind.value,
        "verdict": verdict.kind.value,
        "known": one.known is not None,
        "path": str(one.saved.path),
        "compilers": list(verdict.names),
        "blame": one.blame,
        "difference": verdict.difference,
        "lines": len(one.reduced.text.splitlines()),
        "shrink": one.reduced.status.value,
        "tries": one.reduced.tries,
        "unassembled": one.unassembled,
    }


def _print(one: Found) -> None:
    verdict = one.verdict
    who = one.blame or ("every compiler" if verdict.answerers[0].members else verdict.names[0])
    say(f"{verdict.kind}: {who}", style="known" if one.known else "bad")
    if verdict.kind is Kind.DEVIATION:
        say("All of them agree with each other: the simulated device may be wrong.")
    if verdict.kind is Kind.NOTE and not verdict.steady:
        say(
            "It does not come out the same each time: the kernel may race, which nobody looked for."
        )
    elif verdict.kind is Kind.NOTE:
        say("It has approximate instructions, of whose results the ISA bounds the error alone.")
    say(f"  {verdict.difference}")
    small = one.reduced
    lines = counted(len(small.text.splitlines()), "line")
    say(f"  {lines} after {counted(small.tries, 'try', 'tries')} ({small.status.value}), stored as "
        f"{one.saved.path}")  # fmt: skip
    if one.unassembled:
        say("  no ptxas here takes the kernel, so that none was asked whether it takes the smaller "
            "one")  # fmt: skip


def _write_junit(options: Judge, told: Judged, seconds: float) -> None:
    tests = [
        Test(
            "warpfuzz.judge", f"{one.saved.id} {one.blame}", seconds,
            "skipped" if one.known else "failure", one.verdict.kind.value, one.verdict.difference,
        )
        for one in told.found
    ]  # fmt: skip
    named = options.kernel.name
    tests += [Test("warpfuzz.judge", f"{named} {one}", 0.0) for one in told.came.agreeing]
    assert options.junit is not None
    write_junit(options.junit, tests, suite="warpfuzz judge")
