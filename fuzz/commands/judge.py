"""`warpfuzz judge`: compares what several compilers make of one kernel of the user's."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from corpus import Corpus, Kind, create_corpus
from corpus.known import known_with
from fuzz.compilers.members import Member, members_of
from fuzz.findings.launches import LaunchRows, entry_of, own_text, parse_launch
from fuzz.findings.making import remember
from fuzz.judging.comparing import REFERENCE_SECONDS
from fuzz.judging.guessing import Guess, guess
from fuzz.judging.judging import Court, Found, Judged, court, judged
from fuzz.judging.reference import Reference, forgetting, rounded, undecided, without_rounding
from fuzz.options import Judge
from fuzz.output import (
    counted,
    emit,
    emit_summary,
    fetcher,
    generator,
    report_expired,
    say,
    starting,
)
from fuzz.output.report import Test, write_junit
from fuzz.runner import BUILT_IN, RunnerChoice, TargetError, hardware_runner, rewriters
from oracle.errors import InfrastructureError, UsageError
from oracle.given_files import read_given, reason_of
from oracle.targets import parse_target, parse_version
from runners.compilers import all_fetched, fetched_compiler, parse_levels, select
from runners.faults import by_name
from runners.foreign import is_command
from runners.processes import quoted
from runners.protocol import Failure
from runners.ptx_pass import PtxPass
from runners.ptx_text import header, is_listing, module_in, with_header
from runners.simulated.silicon import OLDEST, is_older

_COMPILERS = "installed,driver"


def judge_kernel(options: Judge) -> bool:
    """Judge a kernel; tell whether compilers disagree about it."""
    started = time.monotonic()
    remember(options.ptx_pass, options.runner if is_command(options.runner or "") else None)
    written = _text(options.kernel, "kernel")
    rows = LaunchRows()
    if options.launch is not None:
        rows = parse_launch(_text(options.launch, "launch").encode(), str(options.launch))
    notes = []
    if is_listing(written):
        written = module_in(written, options.kernel.name)
        notes.append(f"The PTX module was taken out of {options.kernel}, a listing of cuobjdump.")
    ptx = rounded(written)
    target, version = header(ptx)
    if not target or not version:
        raise UsageError(f"{options.kernel} has no .target or no .version, so it is no PTX module")
    entry = entry_of(ptx, rows.entry)
    own = own_text(written, entry)
    for name in options.faults:
        if not by_name(name).applies(ptx):
            raise UsageError(
                f"the fault {name} changes nothing in {options.kernel}, which has none of the "
                "instructions that it breaks, so that nothing would be judged; leave it out"
            )
    known = known_with(options.known, nothing=options.no_known)
    if options.target is not None and options.target != target:
        row = parse_target(options.target)
        newer = max(parse_version(version), row.since)
        notes.append(f".target {target} became {row.name} (--target), with PTX ISA {newer}.")
        ptx = with_header(ptx, target=row.name, version=newer)
        target, version = header(ptx)
    name, device = hardware_runner(options.runner), target or None
    # Every device runs modules for targets that were before it; none is simulated as one of these.
    if is_older(target):
        device = OLDEST if name == "sim" else None
    choice = RunnerChoice(
        name=name,
        target=device,
        ptx_version=version if device == target else None,
        **options.picked("device", "faults", "ptx_pass"),
    )

    @cache
    def corpus() -> Corpus:
        return create_corpus(options.corpus, generator=generator())

    _check_pass(choice, ptx)
    with starting(lines=False) as tell, ExitStack() as stack:
        try:
            who = stack.enter_context(_court(options, choice))
        except TargetError as error:
            if parse_target(target).is_specific:
                raise
            notes.append(f".target {target} became {error.own}, which is what the GPU runs.")
            ptx = with_header(ptx, target=error.own, version=version)
            who = stack.enter_context(_court(options, replace(choice, target=error.own)))
        reference = Reference(target=who.architecture)
        refusal = reference.refusal(ptx, entry)
        if refusal and choice.name != "cuda":
            raise InfrastructureError(
                f"the simulated device does not know the kernel ({refusal}), and there is nothing "
                "else to compare with"
            )
        open_ = undecided(own)
        if refusal and (said := open_ or forgetting(own)):
            raise UsageError(
                f"the simulated device does not know the kernel ({refusal}), and {said}"
            )
        try:
            found = guess(ptx, rows, reference.device)
            told = judged(
                who, ptx, found.setup, None if refusal else reference,
                count=options.images, seed=options.seed, corpus=corpus, known=known, tell=tell,
            )  # fmt: skip
        except UsageError as error:
            if open_:
                raise UsageError(f"{error}; {open_}") from None
            raise
    seconds = time.monotonic() - started
    if without := without_rounding(own):
        added = counted(without, "sum or product", "sums and products")
        notes.append(f"{added} without a rounding got .rn: a compiler may fuse them otherwise.")
    _report(options, told, who, found, refusal, notes, seconds)
    report_expired(known)
    if options.junit is not None:
        _write_junit(options, told, seconds)
    if not told.came.results and not told.found:
        raise InfrastructureError(
            f"nothing was compared: {'; '.join((*told.came.unasked, *who.skipped))}"
        )
    return any(one.known is None and one.verdict.kind is not Kind.NOTE for one in told.found)


def _text(path: Path, what: str) -> str:
    try:
        return read_given(path).decode()
    except OSError as error:
        raise UsageError(f"the {what} {path} cannot be read: {reason_of(error)}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the {what} {path} is no text in UTF-8") from None


@contextmanager
def _court(options: Judge, choice: RunnerChoice) -> Iterator[Court]:
    with ExitStack() as stack:
        members = _members(options, choice)
        try:
            who = stack.enter_context(court(choice, members))
        except InfrastructureError as error:
            if options.runner is not None:
                raise
            raise type(error)(
                f"{error}; without a GPU, a pass or compilers that write PTX are judged on the "
                "simulated device: --runner sim with --ptx-pass or --compilers"
            ) from error
        yield who


def _check_pass(choice: RunnerChoice, ptx: str) -> None:
    """Raise InfrastructureError where a pass fails, or makes no PTX of the kernel."""
    if choice.ptx_pass is None or PtxPass(choice.ptx_pass).missing is not None:
        return
    for rewriter in rewriters(choice.faults, choice.ptx_pass):
        rewritten = rewriter(ptx)
        if isinstance(rewritten, Failure):
            raise InfrastructureError(str(rewritten))
        ptx = rewritten
    if not all(header(ptx)):
        first = next(iter(ptx.splitlines()), "")
        raise InfrastructureError(
            f"the PTX pass {quoted(choice.ptx_pass)} makes no PTX of the kernel, with .version and "
            f".target: what it writes begins with {first[:60]!r}"
        )


def _members(options: Judge, choice: RunnerChoice) -> tuple[Member, ...]:
    """Return the compilers that are asked; none where a fault or a pass is."""
    changed = options.faults or options.ptx_pass
    if choice.name not in BUILT_IN:
        if options.compilers is not None:
            raise UsageError(
                f"--compilers makes code for a GPU, and the runner {choice.name} reads the PTX "
                "itself; leave one of the two out"
            )
        return ()
    if changed and options.compilers is not None:
        raise UsageError(
            "--fault and --ptx-pass change what every compiler gets, and compilers are compared on "
            "the same text; leave one of the two out"
        )
    if changed and choice.name == "sim":
        return ()
    if choice.name == "sim" and options.compilers is None:
        raise UsageError(
            "the simulated device has nothing to compare the kernel with; give a --ptx-pass or a "
            "--fault that changes it, or choose --runner cuda"
        )
    if changed:
        raise UsageError(
            "--fault and --ptx-pass are compared on the simulated device: --runner sim"
        )
    with fetcher(fetched_compiler, json=options.json) as fetch_one:
        selected = all_fetched(select(options.compilers or _COMPILERS), fetch_one)
    return members_of(selected, parse_levels(options.levels))


def _report(
    options: Judge,
    told: Judged,
    who: Court,
    found: Guess,
    refusal: str,
    notes: Sequence[str],
    seconds: float,
) -> None:
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
            device=who.ready.device,
            launch=told.setup.toml,
            guessed=list(found.guessed),
            reference=None if refusal else told.referee,
            refused=refusal or None,
            changed=list(notes),
            images=told.images,
            left_out=dict(left),
            not_tried=told.untried,
            approximate=list(told.approximations),
            approximate_bytes=told.approximate_bytes,
            agreeing=list(told.came.agreeing),
            not_asked=[*told.came.unasked, *who.skipped],
        )
        return
    for sentence in found.guessed:
        say(f"guessed: {sentence}", style="quiet")
    if found.guessed:
        how = "Override with --launch FILE; as it was launched:"
        if options.launch is not None:
            how = f"The rest is from {options.launch}; as it was launched:"
        say(how, style="quiet")
        say(told.setup.toml.strip(), style="quiet")
    for note in notes:
        say(note)
    if refusal:
        say(f"The simulated device does not know the kernel ({refusal}): compilers are compared "
            "with each other alone, and races are not looked for.")  # fmt: skip
    for why, count in left.items():
        say(f"{counted(count, 'image')} left out: {why}")
    if told.untried:
        say(f"{counted(told.untried, 'image')} not tried: the simulated device took "
            f"{REFERENCE_SECONDS:g} s for the others.")  # fmt: skip
    for sentence in (*who.skipped, *told.came.unasked):
        say(sentence, style="quiet")
    if told.approximations:
        amount = "Results may depend"
        if told.approximate_bytes:
            amount = f"{counted(told.approximate_bytes, 'byte')} of each image may depend"
        say(f"{amount} on {', '.join(told.approximations)}, of which the ISA bounds the error and "
            "not the bits: a difference there is a note, and never a finding.")  # fmt: skip
    for one in told.found:
        _print(one)
    if not told.came.codes:
        say(f"No build ran to its end, so that no image was compared, in {seconds:.1f} s.")
        return
    agreeing = ", ".join(told.came.agreeing) or "none"
    referee = "with each other" if refusal else f"with {told.referee}"
    say(
        f"{counted(told.images, 'image')} compared, whole and bit for bit, {referee}, in "
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
        "lines": len(one.reduced.ptx.splitlines()),
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
    lines = counted(len(small.ptx.splitlines()), "line")
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
