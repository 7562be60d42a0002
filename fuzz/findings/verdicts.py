"""Runs one image, and says how it differs from the expected one, and what that is called.

A `Subject` is what is run, an `Attempt` one run, and an `Answer` what several runs showed.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus import Kind
from corpus.finding import WRONG_RESULT
from fuzz.kinds import BY_OUTCOME
from fuzz.reducer import Reducer, indented, reads_unwritten
from fuzz.runner import UnsupportedError, kind_of_failure
from oracle.bounds.permission import contradicting, judged
from oracle.errors import DeviceLostError, InfrastructureError
from oracle.execution.execution import execute
from oracle.isa.legality import Explanation
from oracle.isa.legality import Verdict as Legality
from oracle.program.operands import Buffer
from oracle.program.program import Program, locate, walk
from runners.assemblers.judgements import Response
from runners.emission import emit_single
from runners.kernels import KernelModule, launches_of
from runners.protocol import Compiled, Failure, Images, Runner
from runners.ptx_text import kernel_texts
from runners.simulated import SimulatedDevice, SimulatedTrap
from strategies.instructions import Draft, fits_declarations
from strategies.matrices import bytes_of, elements_of, results

_MOST_BYTES = 4096  # bytes outside of every result that are listed one by one
_JUDGED_COPIES = 16
"""Different results of one launch whose verdicts are asked for; bounds cost more than the model."""
_COPIED_BYTES = 1 << 28
"""Most bytes of all copies of an image that are run at once; images have 1 MiB at most."""
REPLAYS = 3  # times that something is run again before it is called a finding
COPIES = 256  # warps of what does not fail alone: more than multiprocessors (132 on an H200)
_HANG_REPLAYS = 1
"""How often a case that hangs is run again: each costs the whole deadline and a new process."""
_LAUNCHES = 10
"""Launches over which runs are spread, at least: a compiler that is asked anew may err, too."""
_AT_ONCE = 4096  # most runs of one launch, in which each has a warp or a grid of its own
KERNEL_SECONDS = 15.0
"""Time for the text of one kernel: 20 lines take 100 tries of 20 ms to 50 ms (2026-11-28), 140 of a
warpgroup become 60 in 350 tries and 6 s (2026-11-29)."""
NO_PROGRAM = Program(buffers=(Buffer(name="image", space="global", size=16),), steps=())
"""Stands for the program of a kernel that a person wrote."""


def expectation_of(draft: Draft, explanation: Explanation) -> bool | None:
    """Return whether an assembler has to accept a draft; None: either will do."""
    if explanation.verdict is Legality.ILLEGAL:
        return False
    if explanation.verdict is Legality.UNDEFINED or explanation.form is None:
        return None
    return fits_declarations(draft, explanation.form) or None


def kind_of(expected: bool | None, outcome: Response) -> Kind | None:
    """Return the kind of disagreement, None where assembler and ISA agree."""
    if outcome is Response.ACCEPTED and expected is False:
        return Kind.ACCEPTED
    if outcome is Response.REJECTED and expected is True:
        return Kind.REJECTED
    return BY_OUTCOME.get(outcome)


def worst_of(kinds: Iterable[Kind | None]) -> Kind | None:
    """Return the worst of some verdicts; None if all match."""
    return max(filter(None, kinds), key=lambda kind: kind.severity, default=None)


def judge(
    program: Program,
    images: Images,
    actual: NDArray[Any],
    *,
    target: str,
    expected: Images | None = None,
) -> tuple[Kind | None, ...]:
    """Return what is wrong with each image, a violation or a deviation; None where it matches.

    `oracle.bounds.permission.judged` decides. Images are uint8 (count, image_bytes), `target` is
    "sm_90@12.4" say, `expected` is what the model computes, from a caller who has asked it already.
    """
    if expected is None:
        expected = execute(program, images, target=target).images
    kinds: list[Kind | None] = [None] * len(images)
    wrong, forbidden = judged(program, images, actual, target=target, expected=expected)
    for number, outside in zip(wrong.tolist(), forbidden.tolist(), strict=True):
        kinds[number] = Kind.VIOLATION if outside else Kind.DEVIATION
    return tuple(kinds)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One element, or one byte outside of every result, that is not what was expected."""

    where: str  # "d[3, 4]" (row, column), "r[lane 5, 1]", or "byte 7 of gd"
    byte: int = -1  # the first byte of it in the image
    row: int  # or lane; -1 for a byte
    column: int  # or register; -1 for a byte
    expected: int  # raw bits, as the next
    actual: int
    bits: int  # size of the element


def in_a_line(one: Difference) -> str:
    """Say a difference in a line: "d[3, 4]: expected 0x3c00, actual 0x0000"."""
    digits = -(-one.bits // 4)
    expected, actual = (f"0x{bits:0{digits}x}" for bits in (one.expected, one.actual))
    return f"{one.where}: expected {expected}, actual {actual}"


def differ_outside(program: Program, expected: Images, actual: Images) -> bool:
    """Whether bytes outside of every result differ in some image, uint8 (count, image_bytes)."""
    left = expected != actual
    for result in results(program):
        left[:, bytes_of(result)] = False
    return bool(left.any())


def differences(
    program: Program, expected: NDArray[np.uint8], actual: NDArray[np.uint8]
) -> list[Difference]:
    """List the elements of results that differ, row by row, then the other bytes."""
    found, left = list[Difference](), expected != actual
    for result in reversed(results(program)):
        bytes_ = bytes_of(result)
        differing = left[bytes_].any(axis=2)
        left[bytes_] = False
        if differing.any():
            was, now = elements_of(result, expected), elements_of(result, actual)
            rows = f"{result.name}[{'lane ' if result.is_registers else ''}"
            found[:0] = [
                Difference(
                    where=f"{rows}{row}, {column}]", byte=int(result.offsets[row, column]),
                    row=row, column=column, expected=int(was[row, column]),
                    actual=int(now[row, column]), bits=result.bits,
                )
                for row, column in np.argwhere(differing).tolist()
            ]  # fmt: skip
    for number in np.flatnonzero(left)[:_MOST_BYTES].tolist():
        place = locate(program, number)
        where = f"byte {number}" if place is None else f"byte {place.offset} of {place.buffer}"
        found.append(
            Difference(
                where=where, byte=number, row=-1, column=-1, expected=int(expected[number]),
                actual=int(actual[number]), bits=8,
            )
        )  # fmt: skip
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """What is run: a program in a module of its own, or beside other kernels, and an image."""

    module: KernelModule
    program: Program
    image: NDArray[np.uint8]  # (image_bytes,)
    copies: int = 1  # warps that work on copies of the image in one launch
    told: tuple[NDArray[np.uint8], Kind] | None = None
    """What must come out of a kernel by hand, (image_bytes,), and what all else is called."""
    known: dict[str | tuple[str, bytes], Any] = field(default_factory=dict, init=False, repr=False)
    """What must come out, by target, and verdicts by target and result, as far as asked before."""

    def in_module(self, module: KernelModule) -> Subject:
        """Return the same program and image in another module, with what is known of them."""
        other = replace(self, module=module)
        other.known.update(self.known)
        return other


def other_kernels(subject: Subject) -> tuple[str, ...]:
    """Return names of the other kernels in a subject's module: of what is right without them."""
    _, texts = kernel_texts(subject.module.ptx)
    return tuple(name for name in texts if name != subject.module.kernels[0].entry)


@dataclass(frozen=True, kw_only=True, eq=False)
class Attempt:
    """One run of a subject."""

    kind: Kind | None  # None if every copy is what the model says
    actual: Images | None = None  # (copies, image_bytes); None if the runner failed
    expected: NDArray[np.uint8] | None = None
    """(image_bytes,), what the model says of every copy; None if the runner failed."""
    sms: tuple[int, ...] = ()  # multiprocessors on which copies differed
    failed: int  # copies that differed; all of them if the runner failed
    kinds: Mapping[bytes, Kind | None] = field(default_factory=dict)
    """Verdicts of different results, by their bytes, for as many as were judged."""
    failure: Failure | None = None
    compiled: Compiled | None = None


def attempt(runner: Runner, subject: Subject) -> Attempt:
    """Run a subject once; DeviceLostError or InfrastructureError if that is impossible."""
    compiled = runner.compile(subject.module)
    if isinstance(compiled, Failure):
        return Attempt(kind=kind_of_failure(compiled), failure=compiled, failed=subject.copies)
    images = np.repeat(subject.image[None], subject.copies, axis=0)
    ran = runner.run(compiled, images)
    if isinstance(ran, Failure):
        return Attempt(
            kind=kind_of_failure(ran), failure=ran, failed=subject.copies, compiled=compiled
        )
    program, target = subject.program, compiled.oracle_target
    expected = subject.known.get(target) if subject.told is None else subject.told[0][None]
    if expected is None:
        expected = subject.known[target] = execute(program, images[:1], target=target).images
    wrong = (ran.images != expected).any(axis=1)
    # In the order of their bytes; sorting by columns takes 0.1 s.
    judged = sorted({image.tobytes() for image in ran.images[wrong]})[:_JUDGED_COPIES]
    verdicts: Sequence[Kind | None]
    if subject.told is not None:
        verdicts = [subject.told[1]] * len(judged)
    else:
        if new := [one for one in judged if (target, one) not in subject.known]:
            inputs, should = (np.repeat(one, len(new), axis=0) for one in (images[:1], expected))
            actual = np.stack([np.frombuffer(image, np.uint8) for image in new])
            told = judge(program, inputs, actual, target=target, expected=should)
            subject.known.update(zip(((target, one) for one in new), told, strict=True))
        verdicts = [subject.known[target, one] for one in judged]
    if None in verdicts:  # by the bounds alone: the model has no figures of the compiler
        some = np.flatnonzero(wrong)
        should = np.repeat(expected, len(some), axis=0)
        bad = contradicting(program, images[some], ran.images[some], target=target, expected=should)
        wrong[np.delete(some, bad)] = False
    return Attempt(
        kind=worst_of(verdicts),
        actual=ran.images,
        expected=expected[0],
        sms=tuple(np.unique(ran.sms[wrong]).tolist()),
        failed=int(wrong.sum()),
        kinds=dict(zip(judged, verdicts, strict=True)),
        compiled=compiled,
    )


def most_copies(program: Program) -> int:
    """Return how many copies of an image of a program may be run at once."""
    return max(1, _COPIED_BYTES // (program.image_bytes + program.shared_bytes))


def smallest_kernel(
    runner: Runner, subject: Subject, kind: Kind, *, seconds: float = KERNEL_SECONDS
) -> str | None:
    """Return the PTX of a subject's smallest kernel if it shows the same kind, else None.

    It is `emit_single`'s, made smaller as long as the simulated device leaves with it what the
    oracle expects, whatever nobody wrote. None where other kernels, or other warps, are needed.
    """
    alone = subject.copies == 1 or subject.program.warps > 1
    if other_kernels(subject) or not alone or kind.failure != WRONG_RESULT:
        return None
    named = subject.module.header
    module = emit_single(subject.program, module=named)

    def tried(ptx: str) -> Attempt | None:
        try:
            return attempt(runner, subject.in_module(replace(module, ptx=ptx)))
        except UnsupportedError:
            return None

    seen = tried(module.ptx)
    if seen is None or seen.kind is not kind:
        return None
    if seen.compiled is None:
        return module.ptx
    kernel = module.kernels[0]
    assert kernel.launch is not None
    # Two blocks, where there are more; what they write is not there before.
    count, size = min(subject.copies, 2), kernel.image_bytes
    ((_, launch),) = launches_of(kernel.launch, count, size, count)
    images = np.repeat(subject.image[None], count, axis=0)
    images[:, _only_written(subject.program)] ^= 0xFF if count > 1 else 0
    after = execute(subject.program, images, target=seen.compiled.oracle_target).images
    # "sm_90" of "sm_90@13.0"
    target = seen.compiled.architecture
    devices = [SimulatedDevice(target, otherwise=other) for other in (False, True)]

    most: int | None = None

    def holds(ptx: str) -> bool:
        nonlocal most
        if reads_unwritten(ptx):
            return False
        try:
            for device in devices:
                loaded = device.load(ptx)
                one = loaded.launch_grid(kernel.entry, images.ravel(), launch, most_steps=most)
                if not np.array_equal(one.image, after.ravel()):
                    return False
        except SimulatedTrap:
            return False
        # The first is the whole kernel; a smaller one that takes longer runs for ever.
        most = most or 2 * one.steps
        again = tried(ptx)
        return again is not None and again.kind is kind

    reducer = Reducer(holds, module.ptx, end=time.monotonic() + seconds)
    reducer.reduce()
    return module.ptx if reducer.tries == 0 else indented(reducer.text)


def _only_written(program: Program) -> NDArray[np.bool_]:
    """Return which bytes of an image some step writes and none reads, (image_bytes,)."""
    only = np.zeros(program.image_bytes, np.bool_)
    steps = [*walk(program.steps)]
    for spans, is_written in (
        ([span for step in steps for span in step.bytes_written], True),
        ([span for step in steps for span in step.bytes_read], False),
    ):
        for span in spans:
            if program.buffer(span.buffer).space == "global":
                only[program.offset(span.buffer) + span.offsets] = is_written
    return only


def replays_of(kind: Kind) -> int:
    """Return how often something of this kind is run again."""
    return _HANG_REPLAYS if kind is Kind.HANG else REPLAYS


def conclusion(attempts: Sequence[Attempt]) -> Kind | None:
    """Return what several runs of one subject say together; FLAKY if they are not alike."""
    alike = {
        (seen.kind, None if seen.actual is None else seen.actual.tobytes()) for seen in attempts
    }
    return attempts[0].kind if len(alike) == 1 else Kind.FLAKY


class Basis(StrEnum):
    """How much an answer says."""

    COMPARED = "compared"
    """The code ran, and every byte of the image was compared with what is expected."""
    JUDGED = "accepted or rejected"
    """A compiler accepted or rejected it: there is nothing to compare that with."""
    FAILED = "not compiled or not run to the end"  # it should have been compared, and was not
    NOT_ASKED = "could not be asked"


def by_way(count: Callable[[Basis], int]) -> dict[Basis, int]:
    """Return how many answers there are of each way; what failed only where something did."""
    counts = {way: count(way) for way in Basis}
    return {way: some for way, some in counts.items() if some or way is not Basis.FAILED}


class CannotBeAskedError(InfrastructureError):
    """Nothing can be learnt of a finding in this way: the target is not known there, say."""


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """What one run showed."""

    label: str  # equal for results that are the same: "accepted", "match", "violation 3f2a91c0"
    kind: Kind | None  # what a finding of it is called; None where it is as the ISA says
    way: Basis = Basis.COMPARED
    message: str = field(default="", compare=False)  # what the tool said, or what differs
    copies: int = field(default=1, compare=False)
    """Executions of one run: warps that worked on copies of the image in company."""


@dataclass(kw_only=True)
class Answer:
    """What several runs of one finding showed, with one compiler on one device."""

    samples: Counter[Rerun] = field(default_factory=Counter)  # empty: nothing could be asked
    reason: str = ""  # why nothing could be asked

    @property
    def known(self) -> bool:
        """Whether it could be asked."""
        return bool(self.samples)

    @property
    def way(self) -> Basis:
        """How much the fullest of its runs says."""
        ways = {sample.way for sample in self.samples} or {Basis.NOT_ASKED}
        return next(way for way in Basis if way in ways)

    @property
    def flaky(self) -> bool:
        """Whether its runs were not alike."""
        return len(self.samples) > 1

    @property
    def bad(self) -> bool:
        """Whether any of its runs disagreed with the ISA."""
        return self.failed > 0

    @property
    def kind(self) -> Kind | None:
        """What a finding of it is called; None where it is as the ISA says every time."""
        return Kind.FLAKY if self.flaky else next((one.kind for one in self.samples), None)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.samples.total()

    @property
    def executions(self) -> int:
        """Executions in all runs."""
        return sum(sample.copies * count for sample, count in self.samples.items())

    @property
    def failed(self) -> int:
        """Number of runs that disagreed with the ISA."""
        return sum(count for sample, count in self.samples.items() if sample.kind is not None)

    @property
    def label(self) -> str:
        """What it did, in words."""
        if self.flaky:
            return f"flaky ({self.failed} of {self.runs} bad)"
        return next((sample.label for sample in self.samples), Basis.NOT_ASKED.value)

    @property
    def message(self) -> str:
        """What the tool said, or what differs; why nothing could be asked."""
        bad_first = sorted(self.samples, key=lambda sample: sample.kind is None)
        return next((sample.message for sample in bad_first if sample.message), self.reason)

    @property
    def counts(self) -> dict[str, int]:
        """How often each result came out, by its label."""
        counted = Counter[str]()
        for sample, count in self.samples.items():
            counted[sample.label] += count
        return dict(counted)

    def same(self, other: Answer) -> bool:
        """Whether two compilers do the same; of what is flaky, whether it is ever bad."""
        if self.known and other.known and (self.flaky or other.flaky):
            return self.bad == other.bad
        return self.label == other.label

    def verdict(self, was: Kind) -> str:
        """Say "reproduced", "changed" (its kind), "flaky", "gone" or "could not be asked"."""
        if not self.known:
            return Basis.NOT_ASKED.value
        if self.kind is None:
            return "gone"
        # What was not the same every time need not be so in a few runs.
        if self.kind is was or was is Kind.FLAKY:
            return "reproduced"
        return "flaky" if self.kind is Kind.FLAKY else "changed"


def asked(
    sample: Callable[[int], Counter[Rerun] | None], *, times: int, into: Answer | None = None
) -> Answer:
    """Ask some times: up to so many at once, and nothing more after None or CannotBeAskedError."""
    answer, left = into or Answer(), times
    while left > 0:
        try:
            some = sample(min(left, max(1, times // _LAUNCHES)))
        except CannotBeAskedError as error:
            answer.reason = str(error)
            break
        if some is None:
            break
        answer.samples.update(some)
        left -= some.total()
    return answer


def probe(runner: Runner, subject: Subject, most: int = 1) -> Counter[Rerun]:
    """Run a subject up to so many times at once; each copy is a run, but where they are needed.

    CannotBeAskedError: the runner cannot run it by design. DeviceLostError.
    """
    alone = subject.copies == 1
    if alone:
        most = min(most, _AT_ONCE, most_copies(subject.program))
        subject = replace(subject, copies=most)
    copies = 1 if alone else subject.copies
    try:
        seen = attempt(runner, subject)
    except DeviceLostError:
        raise
    except InfrastructureError as error:
        raise CannotBeAskedError(str(error)) from error
    right = Rerun(label="match", kind=None, copies=copies)
    if seen.kind is None:
        return Counter({right: subject.copies // copies})
    kind, expected = seen.kind, seen.expected
    if seen.actual is None or expected is None:
        failed = Rerun(
            label=kind, kind=kind, way=Basis.FAILED, message=f"{seen.failure}", copies=copies
        )
        return Counter([failed])
    wrong = seen.actual[(seen.actual != expected).any(axis=1)]
    if not alone:
        every = b"".join(sorted({image.tobytes() for image in wrong}))
        return Counter([Rerun(label=f"{kind} {_digest(every)}", kind=kind, copies=copies)])
    found = Counter({right: subject.copies - len(wrong)})
    for image in wrong:
        data, said = image.tobytes(), ""
        own = seen.kinds.get(data, kind)
        label = f"{own} {_digest(data) if data in seen.kinds else 'and others'}"
        if subject.told is not None:
            first, *others = np.flatnonzero(expected != image).tolist()
            said = f"{len(others) + 1} byte{'s differ' if others else ' differs'}; byte {first}: "
            said += f"expected 0x{expected[first]:02x}, actual 0x{image[first]:02x}"
        found[right if own is None else Rerun(label=label, kind=own, message=said)] += 1
    return +found


def _digest(data: bytes) -> str:
    """Return what tells results apart in a table."""
    return hashlib.sha256(data).hexdigest()[:8]
