"""`warpfuzz judge` compares what compilers make of a kernel; `reduce` makes one smaller."""

from __future__ import annotations

import re
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.text import Text

from corpus import Corpus, Kind, ShrinkStatus, create_corpus, durable
from corpus.known import known_with
from fuzz.compilers.failures import Ask, CompilerFailure
from fuzz.compilers.members import COMPILE_SECONDS
from fuzz.judging.bringing import Brought, brought
from fuzz.judging.judging import (
    REFERENCE_SECONDS,
    SIMULATED,
    KernelCompared,
    KernelDisagreement,
    KernelReducer,
    compare,
    made_smaller,
    reducer_of,
)
from fuzz.kinds import BY_OUTCOME
from fuzz.options.declared import check_conflicts, parse_duration
from fuzz.options.testing import Judge, Reduce
from fuzz.output import (
    Report,
    ReportColumn,
    ReportRow,
    Test,
    check_output,
    counted,
    emit,
    generator,
    plain,
    report_expired,
    say,
    starting,
    typed,
)
from fuzz.reducer import Reducer
from oracle.errors import InfrastructureError, UsageError
from oracle.given_files import read_text
from runners.assemblers.assembler import Assembler
from runners.assemblers.judgements import Response
from runners.assemblers.judging import judge_module
from runners.compilers import discover_assemblers, find_assembler
from runners.cuda.compilation import DEFAULT_LEVEL, LEVELS
from runners.processes import quoted, run_tool
from runners.ptx_text import header

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
        yield (
            f"{counted(came.approximate_bytes, 'byte')} of each image may depend on "
            f"{', '.join(came.approximations)}, of which the ISA bounds the error and not the "
            "bits: a difference of them is a note."
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


# Making it smaller

_IMAGES = 64  # contents of buffers of which one has to show a difference: as many as `judge` tries
_DEAD = (Response.CRASHED, Response.HUNG, Response.UNREADABLE)
_ENDS = {
    ShrinkStatus.COMPLETE: "nothing more can be left out",
    ShrinkStatus.CAPPED: "the time was over; --time gives it longer",
    ShrinkStatus.RAW: "nothing can be left out: written with one statement in a line and without "
    "comments it does not show it",
}


class _ReducedText(NamedTuple):
    """What a module shows, and what makes it smaller."""

    what: str  # what is kept, as a sentence without its full stop
    reducer: Reducer
    see: Callable[[Path], str]  # the command by which a module shows it
    row: Mapping[str, object]


def reduce(options: Reduce) -> bool:
    """Make a module smaller; nothing that it returns is a finding."""
    started = time.monotonic()
    end = started + parse_duration(options.time)
    ways = [name for name in _WAYS if getattr(options, name)]
    if len(ways) != 1:
        raise UsageError(
            "say what the smaller module has to show, with one of --message TEXT, --crash, "
            f"--differs and --command CMD; {len(ways) or 'none'} of them given"
        )
    check_conflicts(options, "reduce")
    text = read_text(options.module, "module")
    output = options.output or Path(f"{options.module.stem}.small.ptx")
    check_output("--output", output)
    with starting(lines=False) as tell, ExitStack() as stack:
        tell("looking whether the module shows it")
        shown = stack.enter_context(_WAYS[ways[0]](options, text, end))
        if not options.json:
            say(f"Kept while the module gets smaller: {shown.what}.")
        reducer, status = shown.reducer, None
        reducer.told = lambda lines, tries: tell(f"{lines} lines left after {tries} runs")
        try:
            status = reducer.reduce()
        finally:
            # What was reached is there whatever ended it.
            durable.write_output(output, reducer.text.encode())
            if isinstance(reducer, KernelReducer):
                durable.write_output(output.with_suffix(".toml"), reducer.setup.toml.encode())
            before, after = (len(ptx.splitlines()) for ptx in (text, reducer.text))
            seconds, see = time.monotonic() - started, shown.see(output)
            if options.json:
                emit(summary=dict(
                    module=str(options.module), output=str(output), lines_before=before,
                    lines=after, cases=reducer.tries, seconds=round(seconds, 3),
                    shrink="stopped" if status is None else status.value, see=see, **shown.row,
                ))  # fmt: skip
            else:
                ended = "it was stopped" if status is None else _ENDS[status]
                runs = f"{counted(reducer.tries, 'run')}, {seconds:.1f} s ({ended})"
                say(f"{counted(before, 'line')} became {after} in {runs}: {output}")
                say(f"It is seen with: {see}")
    return False


@contextmanager
def _failing(options: Reduce, text: str, end: float) -> Iterator[_ReducedText]:
    """Keep what an assembler says or dies of."""
    assembler = find_assembler(options.compiler)
    level = DEFAULT_LEVEL if options.level is None else options.level
    if not header(text)[0]:
        raise UsageError(f"{options.module} has no .target, so it is no PTX module")

    def ask(assembler: Assembler, level: int) -> Ask:
        return lambda ptx, seconds: judge_module(
            assembler, ptx, level=level, deadline=seconds, memory_bytes=options.memory << 20
        )

    guilty, begun = ask(assembler, level), time.monotonic()
    verdict = guilty(text, min(COMPILE_SECONDS, end - begun))
    took = time.monotonic() - begun
    failure = CompilerFailure(verdict=verdict, said=options.message or "")
    named = f"{assembler.named} -O{level}"
    if verdict.outcome not in _DEAD if options.crash else not failure.is_shown_by(verdict):
        wanted = f"a message with {quoted(options.message or '')}"
        said = f"says: {'; '.join(verdict.messages) or verdict.ending:.300}"
        said = "accepts it" if verdict.outcome is Response.ACCEPTED else said
        raise InfrastructureError(
            f"{options.module} does not show {wanted if options.message else 'a crash or a hang'} "
            f"with {named}, which {said}"
        )
    others = [(assembler, other) for other in LEVELS if other != level]
    others += [(one, level) for one in discover_assemblers().assemblers if one != assembler]
    innocent, keeps = None, ""
    for one, other in others:
        if ask(one, other)(text, COMPILE_SECONDS).outcome is Response.ACCEPTED:
            innocent, keeps = ask(one, other), f"; {one.named} -O{other} accepts it"
            break
    kind = BY_OUTCOME.get(verdict.outcome, verdict.outcome.name.lower())
    command = assembler.variant.command(header(text)[0])
    yield _ReducedText(
        what=f"{named}, {kind}: {quoted(failure.message)}{keeps}",
        reducer=failure.reducer(text, guilty, innocent, took=took, end=end),
        see=lambda path: typed(
            [assembler.path, f"-O{level}", *command, path, "-o", Path("/dev/null")]
        ),
        row={"compiler": assembler.label, "level": level, "kind": kind, "message": failure.message},
    )


@contextmanager
def _commanded(options: Reduce, text: str, end: float) -> Iterator[_ReducedText]:
    """Keep that a command of the user's ends with 0."""
    given = options.command or ""
    line = given.replace("{}", '"$1"') if "{}" in given else f'{given} "$1"'
    with tempfile.TemporaryDirectory(prefix="warpfuzz-") as folder:
        path = Path(folder) / options.module.name

        def holds(ptx: str) -> bool:
            path.write_text(ptx, encoding="utf-8")
            ran = run_tool(
                ["sh", "-c", line, "sh", str(path)],
                deadline=min(COMPILE_SECONDS, max(0.1, end - time.monotonic())),
                memory_bytes=options.memory << 20,
            )
            return ran.status == 0

        if not holds(text):
            raise InfrastructureError(
                f"{quoted(given)} does not end with 0 for {options.module}, so that it shows "
                "nothing that could be kept"
            )
        yield _ReducedText(
            what=f"{quoted(given)} ends with 0",
            reducer=Reducer(holds, text, end=end),
            see=lambda path: line.replace('"$1"', shlex.quote(str(path))),
            row={"command": given},
        )


@contextmanager
def _differing(options: Reduce, text: str, end: float) -> Iterator[_ReducedText]:
    """Keep that a build is wrong, another one right, and the kernel's result decided."""
    given = options.picked("launch", "runner", "ptx_pass", "faults", "device", "json")
    if options.compiler is not None:
        given["compilers"] = f"{options.compiler},installed,driver"
    judge = Judge(kernel=options.module, **given)
    wanted = None if options.compiler is None else find_assembler(options.compiler).label
    with brought(judge) as case:
        if case.reference is None:
            raise InfrastructureError(
                f"the simulated device does not know the kernel ({case.refusal}), so that nothing "
                "says which build is right; --command says it otherwise"
            )
        told = compare(case, count=_IMAGES, seed=judge.seed, tell=lambda _: None)
        found = [
            said for said in told.verdicts
            if (wanted is None and options.level is None) or any(
                wanted in (None, member.version) and options.level in (None, member.level)
                for each in said.answerers
                for member in each.members
            )
        ]  # fmt: skip
        if not found or (case.members and found[0].good is None):
            raise InfrastructureError(
                f"{options.module} shows no build that is wrong beside one that is right, on "
                f"{counted(told.images, 'image')}: {', '.join(told.agreeing) or 'none'} leave what "
                "the simulated device does; `judge` shows what each leaves"
            )
        verdict = found[0]
        reducer = reducer_of(case, case.reference, verdict, end=end)
        right = "" if verdict.good is None else f"; {verdict.good.names[0]} is right"
        yield _ReducedText(
            what=f"{', '.join(verdict.names)} leaves another result than the simulated device"
            f"{right}",
            reducer=reducer,
            see=partial(_judged_again, judge),
            row={"compilers": list(verdict.names), "difference": verdict.difference},
        )


def _judged_again(judge: Judge, path: Path) -> str:
    words: list[str | Path] = ["warpfuzz", "judge", path, "--launch", path.with_suffix(".toml")]
    for name in ("runner", "compilers", "ptx_pass"):
        if value := getattr(judge, name):
            words += [judge.spelled(name), value]
    words += [word for one in judge.faults for word in ("--fault", one)]
    return typed(words)


_WAYS: Mapping[str, Callable[[Reduce, str, float], AbstractContextManager[_ReducedText]]] = {
    "message": _failing, "crash": _failing, "differs": _differing, "command": _commanded,
}  # fmt: skip
