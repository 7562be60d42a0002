"""Judges a kernel: compares its builds, and makes each disagreement small and stores it.

What is stored is replayed like a case written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from corpus import (
    Case,
    Corpus,
    Identity,
    Kind,
    OracleVerdict,
    RunnerVerdict,
    Saved,
    ShrinkStatus,
    Versions,
)
from corpus.entry import EXPECTED, INPUT, MODULE
from corpus.known import Known, Row
from corpus.programs import pack
from fuzz import warpfuzz_version
from fuzz.compilers.matrix import Matrix
from fuzz.compilers.members import Member, MemberRunner, fitting, placed, with_outcomes
from fuzz.findings.case import ACTUAL, LAUNCH, ORIGINAL, REWRITTEN, TEXT_CHARACTERS
from fuzz.findings.launches import Setup
from fuzz.findings.making import making_of
from fuzz.judging.comparing import Answerer, Compared, Verdict, compared, expectations
from fuzz.judging.reducing import KernelReducer, Reduced
from fuzz.judging.reference import (
    Expected,
    Image,
    Left,
    Reference,
    approximations,
    edges_of,
    image_of,
)
from fuzz.kinds import described
from fuzz.reducer import MOST_NAMED, instructions_in, opcodes_of, telling
from fuzz.runner import OpenRunner, RunnerChoice, cores, opened
from oracle.errors import UsageError
from runners.assemblers.assembler import Assembler
from runners.assemblers.judgements import Outcome
from runners.assemblers.judging import judge_module
from runners.compilers import discover_assemblers
from runners.protocol import Compiled, Failure, Images
from runners.ptx_text import header
from runners.simulated import TrapKind

_MOST_FINDINGS = 4
"""Most findings of one kernel: there are rarely more groups of compilers that agree with each
other."""
_SLACK = 4
"""Times the steps of the kernel that a smaller one may take: what takes longer runs for ever."""
SIMULATED = "the simulated device"


@dataclass(frozen=True, kw_only=True, eq=False)
class Court:
    """The compilers and devices that run a kernel."""

    ready: OpenRunner
    architecture: str
    """Which device the simulated one has to be like."""
    answerers: Callable[[str, Setup], Sequence[Answerer]]
    """Builds and devices that run a module; builds with the same machine code are one."""
    members: Sequence[Member] = ()
    """All compilers, oldest first; none where a pass is judged."""
    skipped: Sequence[str] = ()
    """Sentences about compilers that are left out."""


@contextmanager
def court(choice: RunnerChoice, members: Sequence[Member]) -> Iterator[Court]:
    """Open who is asked.

    Parameters
    ----------
    choice
        With the target and the version of the kernel's module.
    members
        Compilers; none: what the choice has of faults and passes.

    Raises
    ------
    WarpfuzzError
        As `fuzz.runner.opened` and `fuzz.compilers.members.fitting`.
    """
    if not members:
        with opened(choice) as ready:
            one = Answerer(title=choice.options or choice.label, runner=ready.runner, choice=choice)
            yield Court(
                ready=ready, architecture=ready.target, answerers=lambda _ptx, _setup: (one,)
            )
        return
    with placed(choice) as place:
        fit = fitting(members, place)
        assert place.opened is not None
        with Matrix(place.device, fit.members, jobs=cores()) as matrix:
            yield Court(
                ready=place.opened,
                architecture=place.architecture,
                answerers=lambda ptx, setup: _variants(matrix, choice, ptx, setup),
                members=fit.members,
                skipped=fit.skipped,
            )


def _variants(matrix: Matrix, choice: RunnerChoice, ptx: str, setup: Setup) -> Sequence[Answerer]:
    built = matrix.start(setup.module(ptx), matrix.members).wait()
    groups = [one.members for one in matrix.variants(built, setup.entry)]
    failed: dict[str, list[Member]] = {}
    for member, failure in built.failed.items():
        failed.setdefault(f"{failure.trouble} {failure.detail}", []).append(member)
    return [
        Answerer(
            title="",
            members=tuple(some),
            runner=MemberRunner(matrix.device, some[0]),
            choice=some[0].choice(choice),
        )
        for some in (*groups, *failed.values())
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """A disagreement."""

    case: Case
    verdict: Verdict
    reduced: Reduced
    blame: str
    """Names of those that alone get the smaller kernel wrong; "" if all do."""
    saved: Saved
    known: Row | None
    unassembled: bool
    """Whether it was made smaller and there was no ptxas to ask about the smaller forms."""


@dataclass(kw_only=True)
class Judged:
    """What came of a kernel."""

    setup: Setup
    referee: str
    """What says what must come out."""
    images: int
    """That were compared."""
    left: Mapping[int, Left]
    """Images that were not, by their numbers."""
    untried: int
    """Images for which the simulated device had no time."""
    came: Compared
    approximations: Sequence[str] = ()
    """Opcodes of which the ISA bounds the error alone, as far as a result depends on them."""
    approximate_bytes: int = 0
    """Bytes of an image that depend on them on any image, where that is known."""
    found: list[Found] = field(default_factory=list)

    @property
    def worst_first(self) -> list[Verdict]:
        """What is wrong, the worst first, and of what is as bad what most have."""
        return sorted(self.came.verdicts, key=lambda one: (-one.kind.severity, -len(one.names)))


def judged(
    who: Court,
    ptx: str,
    setup: Setup,
    reference: Reference | None,
    *,
    count: int,
    seed: int,
    corpus: Callable[[], Corpus],
    known: Known,
    tell: Callable[[str], None],
) -> Judged:
    """Judge a kernel, and make what is found smaller.

    Parameters are those of `compare`, and
    corpus
        Where findings go; it is made when there is one.

    Raises `compare`'s errors.
    """
    told = compare(who, ptx, setup, reference, count=count, seed=seed, tell=tell)
    explained: set[str] = set()
    for verdict in told.worst_first[:_MOST_FINDINGS]:
        if explained >= set(verdict.names):
            continue
        tell(f"making smaller what {verdict.names[0]} gets wrong")
        found, names = _found(who, ptx, setup, reference, verdict, corpus, known)
        explained |= names
        told.found.append(found)
    return told


def compare(
    who: Court,
    ptx: str,
    setup: Setup,
    reference: Reference | None,
    *,
    count: int,
    seed: int,
    tell: Callable[[str], None],
) -> Judged:
    """Run a kernel everywhere and compare what comes out.

    Parameters
    ----------
    reference
        None: the simulated device does not know the kernel's instructions.
    count
        Images that are drawn.
    tell
        Is told what is being done.

    Raises
    ------
    UsageError
        If the kernel races or has no buffer, or no image can be judged.
    """
    if not setup.buffers:
        raise UsageError(
            f"the kernel has no result that could be judged: {setup.entry} is given no buffer that "
            'it could write into; name one (--launch FILE, out = { bytes = 256, type = "u32" })'
        )
    edges = edges_of(ptx, setup.entry)
    images = np.array(
        [image_of(setup, seed=seed, number=number, edges=edges) for number in range(count)]
    )
    expected: Expected | None = None
    referee = "the others"
    left: Mapping[int, Left] = {}
    if reference is not None:
        tell("running the kernel on the simulated device")
        referee = SIMULATED
        numbers, expected, left = expectations(reference, ptx, setup, images)
        for one in left.values():
            if one.kind is TrapKind.RACE:
                raise UsageError(f"the kernel has no result that could be judged: {one.why}")
        if not numbers.size:
            raise UsageError(
                f"on none of {len(left)} images has the kernel a result that could be judged: "
                f"{left[0].why}; mend the kernel, or its launch (--launch FILE)"
            )
        images = images[numbers]
    tell("compiling and comparing")
    answerers = who.answerers(ptx, setup)
    open_ = approximations(ptx, setup.entry)
    came = compared(answerers, ptx, setup, images, expected, permitted=bool(open_))
    if reference is None and not came.codes and came.verdicts:
        raise UsageError(
            f"no build runs to its end ({came.verdicts[0].difference}), and the simulated "
            "device does not know the kernel: look at how it is launched (--launch FILE)"
        )
    return Judged(
        setup=setup, referee=referee, images=len(images), left=left, came=came,
        untried=count - len(images) - len(left),
        approximations=open_ if expected is None or expected.approximate.any() else (),
        approximate_bytes=0 if expected is None else int(expected.approximate.any(axis=0).sum()),
    )  # fmt: skip


def _found(
    who: Court,
    ptx: str,
    setup: Setup,
    reference: Reference | None,
    verdict: Verdict,
    corpus: Callable[[], Corpus],
    known: Known,
) -> tuple[Found, set[str]]:
    """Make a disagreement smaller and store it; return it, and the names of who has it."""
    reduced = Reduced(ptx=ptx, setup=setup, image=verdict.image, status=ShrinkStatus.RAW, tries=0)
    names = set(verdict.names)
    wrong, unassembled = list(verdict.answerers), False
    among = list(who.members)
    # What hangs costs the runner's whole deadline each time.
    if reference is not None and verdict.kind not in (Kind.FLAKY, Kind.HANG, Kind.NOTE):
        smaller = reducer_of(who, ptx, reference, verdict).reduced()
        alike = _again(who, reference.at_most(_SLACK), smaller, verdict)
        if alike:
            wrong = [each for one in alike for each in one.answerers]
            verdict = replace(alike[0], answerers=tuple(wrong))
            names |= set(verdict.names)
            reduced = smaller
            unassembled = not who.members and _assembler(ptx) is None
    members = [member for one in wrong for member in one.members]
    blame = ""
    if members and len(members) < len(among):
        blame = f"only {described([one for one in among if one in members], among)}"
    case = case_of(
        verdict, reduced, who.ready,
        referee=SIMULATED if reference is not None else "the others",
    )  # fmt: skip
    if among:
        outcomes = {one: verdict.kind.value if one in members else "match" for one in among}
        case = with_outcomes(case, outcomes)
    saved = corpus().add(case, files_of(verdict, reduced, ptx))
    found = Found(
        case=case, verdict=verdict, reduced=reduced, blame=blame, saved=saved,
        known=known.match(case), unassembled=unassembled,
    )  # fmt: skip
    return found, names


def reducer_of(
    who: Court, ptx: str, reference: Reference, verdict: Verdict, *, end: float | None = None
) -> KernelReducer:
    """Return what makes a kernel smaller that a build gets wrong.

    Parameters
    ----------
    end
        Value of `time.monotonic()` at which it ends; None: `REDUCE_SECONDS` from now.
    """
    assembler = _assembler(ptx) if not who.members else None
    holds = shows(verdict, reference.at_most(_SLACK), assembler)
    return KernelReducer(holds, ptx, verdict.setup, verdict.image, end=end)


def _assembler(ptx: str) -> Assembler | None:
    """Return the newest ptxas here that takes a kernel; None if there is none."""
    found = discover_assemblers().assemblers
    return next((one for one in found if _assembles(one, ptx)), None)


def _assembles(assembler: Assembler, ptx: str) -> bool:
    return judge_module(assembler, ptx).outcome is Outcome.ACCEPTED


def _again(who: Court, reference: Reference, case: Reduced, before: Verdict) -> list[Verdict]:
    """Ask everybody about the smaller case; return who has it wrong in the same way."""
    expected = reference.after(case.ptx, case.setup, case.image)
    if isinstance(expected, Left):
        return []
    everybody = who.answerers(case.ptx, case.setup)
    many = Expected(expected.image[None], expected.approximate[None])
    came = compared(everybody, case.ptx, case.setup, case.image[None], many)
    found = [one for one in came.verdicts if (one.failure is None) is (before.failure is None)]
    return [one for one in found if one.failure is None or one.kind is before.kind]


def shows(
    verdict: Verdict, reference: Reference, assembler: Assembler | None
) -> Callable[[str, Setup, Image], bool]:
    """Return what asks whether a smaller case still shows it, and an assembler takes it."""
    bad, good = verdict.answerers[0], verdict.good
    assembled: dict[str, bool] = {}

    def right(answer: Images, expected: Expected) -> bool:
        return np.array_equal(answer[0], expected.beside(answer[0]))

    def holds(ptx: str, setup: Setup, image: Image) -> bool:
        expected = reference.after(ptx, setup, image, sure=False)
        if isinstance(expected, Left):
            return False
        answer = bad.answer(ptx, setup, image[None])
        if isinstance(answer, Failure):
            if verdict.failure is None or answer.trouble is not verdict.failure.trouble:
                return False
        elif verdict.failure is not None or right(answer, expected):
            return False
        if good is not None:
            other = good.answer(ptx, setup, image[None])
            if isinstance(other, Failure) or not right(other, expected):
                return False
        # The second run costs as much as the first, and rarely says no.
        if isinstance(reference.after(ptx, setup, image), Left):
            return False
        if assembler is not None and ptx not in assembled:
            assembled[ptx] = _assembles(assembler, ptx)
        return assembler is None or assembled[ptx]

    return holds


def case_of(verdict: Verdict, reduced: Reduced, ready: OpenRunner, *, referee: str) -> Case:
    """Describe a finding for the corpus.

    Parameters
    ----------
    referee
        What says what must come out.
    """
    instructions = instructions_in(reduced.ptx)
    ran = rewritten(verdict, reduced)
    kept = set(instructions_in(ran or reduced.ptx))
    changed = opcodes_of(one for one in instructions if one not in kept)
    about = changed if 0 < len(changed) <= MOST_NAMED else telling(instructions)
    first = verdict.answerers[0]
    target, version = header(reduced.ptx)
    details: dict[str, str | int | float | bool] = {
        "compilers": ", ".join(verdict.names)[:TEXT_CHARACTERS],
        "referee": referee,
        "tries": reduced.tries,
    }
    return Case(
        kind=verdict.kind,
        identity=Identity.of(verdict.kind, *about),
        instructions=tuple(instructions) or (MODULE,),
        target=target,
        ptx_version=version,
        oracle=OracleVerdict(verdict="not asked"),
        runners=(
            RunnerVerdict(
                runner=first.choice.label,
                version=ready.version,
                options=first.choice.options,
                outcome=verdict.kind.value,
                message=verdict.difference[:TEXT_CHARACTERS],
                device=ready.device,
            ),
        ),
        versions=Versions(warpfuzz=warpfuzz_version()),
        made=making_of(first.choice),
        shrink=reduced.status,
        complexity=int(np.count_nonzero(reduced.image)),
        details=details,
    )


def rewritten(verdict: Verdict, reduced: Reduced) -> str | None:
    """Return what a pass or a planted fault makes of a kernel; None where the text stays so."""
    ran = verdict.answerers[0].runner.compile(reduced.setup.module(reduced.ptx))
    if isinstance(ran, Compiled) and ran.module.ptx != reduced.ptx:
        return ran.module.ptx
    return None


def files_of(verdict: Verdict, reduced: Reduced, original: str) -> Mapping[str, bytes]:
    """Return the files of a finding by name."""
    files = {
        MODULE: reduced.ptx.encode(),
        ORIGINAL: original.encode(),
        LAUNCH: reduced.setup.toml.encode(),
        INPUT: pack(reduced.image[None]),
    }
    if (ran := rewritten(verdict, reduced)) is not None:
        files[REWRITTEN] = ran.encode()
    if verdict.expected is not None:
        files[EXPECTED] = pack(verdict.expected[None])
    if verdict.actual is not None:
        files[ACTUAL] = pack(verdict.actual[None])
    return files
