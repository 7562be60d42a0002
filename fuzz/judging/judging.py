"""Judges a kernel: compares its builds, and makes each disagreement small and stores it.

What is stored is replayed like a case written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    Versions,
)
from corpus.entry import EXPECTED, INPUT, MODULE
from corpus.finding import WRONG_STEP
from corpus.known import Known, Row
from corpus.programs import pack
from fuzz import warpfuzz_version
from fuzz.compilers.members import with_outcomes
from fuzz.findings.case import ACTUAL, LAUNCH, ORIGINAL, REWRITTEN, TEXT_CHARACTERS
from fuzz.findings.launches import Setup
from fuzz.findings.making import making_of
from fuzz.judging.bringing import Brought
from fuzz.judging.comparing import Compared, Verdict, compared, expectations
from fuzz.judging.reducing import KernelReducer
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
from fuzz.runner import OpenRunner
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
class Found:
    """A disagreement."""

    case: Case
    verdict: Verdict
    reduced: KernelReducer
    blame: str
    """Names of those that alone get the smaller kernel wrong; "" if all do."""
    saved: Saved
    known: Row | None
    unassembled: bool
    """Whether it was made smaller and there was no ptxas to ask about the smaller forms."""


@dataclass(kw_only=True)
class Judged:
    """What came of a kernel."""

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
    who: Brought,
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
    told = compare(who, count=count, seed=seed, tell=tell)
    explained: set[str] = set()
    for verdict in told.worst_first[:_MOST_FINDINGS]:
        if explained >= set(verdict.names):
            continue
        tell(f"making smaller what {verdict.names[0]} gets wrong")
        found = _found(who, verdict, corpus, known)
        explained.update(verdict.names, found.verdict.names)
        told.found.append(found)
    return told


def compare(who: Brought, *, count: int, seed: int, tell: Callable[[str], None]) -> Judged:
    """Run a kernel everywhere and compare what comes out.

    Parameters
    ----------
    count
        Images that are drawn.
    tell
        Is told what is being done.

    Raises
    ------
    UsageError
        If the kernel races or has no buffer, or no image can be judged.
    """
    ptx, setup, reference = who.ptx, who.launch.setup, who.reference
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
        referee=referee, images=len(images), left=left, came=came,
        untried=count - len(images) - len(left),
        approximations=open_ if expected is None or expected.approximate.any() else (),
        approximate_bytes=0 if expected is None else int(expected.approximate.any(axis=0).sum()),
    )  # fmt: skip


def _found(who: Brought, verdict: Verdict, corpus: Callable[[], Corpus], known: Known) -> Found:
    """Make a disagreement smaller and store it."""
    ptx, reference = who.ptx, who.reference
    reduced = KernelReducer(lambda *_: True, ptx, verdict.setup, verdict.image)
    unassembled, among = False, list(who.members)
    # What hangs costs the runner's whole deadline each time.
    if reference is not None and verdict.kind not in (Kind.FLAKY, Kind.HANG, Kind.NOTE):
        smaller = reducer_of(who, reference, verdict)
        smaller.reduce()
        if alike := _again(who, reference.at_most(_SLACK), smaller, verdict):
            wrong = tuple(each for one in alike for each in one.answerers)
            verdict, reduced = replace(alike[0], answerers=wrong), smaller
            unassembled = not who.members and _assembler(ptx) is None
    members = [member for one in verdict.answerers for member in one.members]
    blame = ""
    if members and len(members) < len(among):
        blame = f"only {described([one for one in among if one in members], among)}"
    referee = SIMULATED if reference is not None else "the others"
    case, files = _stored(verdict, reduced, who.ready, referee=referee, original=ptx)
    if among:
        outcomes = {one: verdict.kind.value if one in members else "match" for one in among}
        case = with_outcomes(case, outcomes)
    return Found(
        case=case, verdict=verdict, reduced=reduced, blame=blame, saved=corpus().add(case, files),
        known=known.match(case), unassembled=unassembled,
    )  # fmt: skip


def reducer_of(
    who: Brought, reference: Reference, verdict: Verdict, *, end: float | None = None
) -> KernelReducer:
    """Return what makes a kernel smaller that a build gets wrong.

    Parameters
    ----------
    end
        Value of `time.monotonic()` at which it ends; None: `REDUCE_SECONDS` from now.
    """
    assembler = _assembler(who.ptx) if not who.members else None
    holds = shows(verdict, reference.at_most(_SLACK), assembler)
    return KernelReducer(holds, who.ptx, verdict.setup, verdict.image, end=end)


def _assembler(ptx: str) -> Assembler | None:
    """Return the newest ptxas here that takes a kernel; None if there is none."""
    found = discover_assemblers().assemblers
    return next((one for one in found if _assembles(one, ptx)), None)


def _assembles(assembler: Assembler, ptx: str) -> bool:
    return judge_module(assembler, ptx).outcome is Outcome.ACCEPTED


def _again(
    who: Brought, reference: Reference, case: KernelReducer, before: Verdict
) -> list[Verdict]:
    """Ask everybody about the smaller case; return who has it wrong in the same way."""
    expected = reference.after(case.text, case.setup, case.image)
    if isinstance(expected, Left):
        return []
    everybody = who.answerers(case.text, case.setup)
    many = Expected(expected.image[None], expected.approximate[None])
    came = compared(everybody, case.text, case.setup, case.image[None], many)
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


def _stored(
    verdict: Verdict, reduced: KernelReducer, ready: OpenRunner, *, referee: str, original: str
) -> tuple[Case, Mapping[str, bytes]]:
    """Describe a finding for the corpus, with its files by name.

    Parameters
    ----------
    referee
        What says what must come out.
    original
        The kernel as it came.
    """
    first, ptx = verdict.answerers[0], reduced.text
    files = {
        MODULE: ptx.encode(),
        ORIGINAL: original.encode(),
        LAUNCH: reduced.setup.toml.encode(),
        INPUT: pack(reduced.image[None]),
    }
    instructions = instructions_in(ptx)
    about, told = telling(instructions), dict[str, str]()
    # A pass or a planted fault makes another text of it.
    ran = first.runner.compile(reduced.setup.module(ptx))
    if isinstance(ran, Compiled) and ran.module.ptx != ptx:
        files[REWRITTEN] = ran.module.ptx.encode()
        kept = set(instructions_in(ran.module.ptx))
        changed = opcodes_of(one for one in instructions if one not in kept)
        if 0 < len(changed) <= MOST_NAMED:
            about, told = changed, {WRONG_STEP: " and ".join(changed)}
    for name, image in ((EXPECTED, verdict.expected), (ACTUAL, verdict.actual)):
        if image is not None:
            files[name] = pack(image[None])
    target, version = header(ptx)
    case = Case(
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
        details={
            "compilers": ", ".join(verdict.names)[:TEXT_CHARACTERS],
            "referee": referee,
            "tries": reduced.tries,
            **told,
        },
    )
    return case, files
