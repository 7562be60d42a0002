"""Running one image of one program again, and saying what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpus import Kind
from fuzz.findings.verdicts import judge, kind_of_failure
from oracle.execution import execute
from oracle.program import Program
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Runner

_JUDGED_COPIES = 16
"""Different results of one launch whose verdicts are asked for; bounds cost more than the model."""
REPLAYS = 3
"""Times that something is run again before it is called a finding."""
_HANG_REPLAYS = 1
"""The same for what hangs: each costs the runner's whole deadline and a new process."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """What is run: a program in a module of its own, and an image."""

    module: KernelModule
    program: Program
    image: NDArray[np.uint8]
    """uint8 (image_bytes,)."""
    copies: int = 1
    """Warps that work on copies of the image in one launch; what fails only in some places of a
    device needs more than one."""

    @property
    def images(self) -> Images:
        """The image as often as it is run at once."""
        return np.repeat(self.image[None], self.copies, axis=0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Attempt:
    """One run of a subject."""

    kind: Kind | None
    """None if every copy is what the model says."""
    actual: Images | None = None
    """uint8 (copies, image_bytes); None if the runner failed."""
    expected: NDArray[np.uint8] | None = None
    """uint8 (image_bytes,), what the model says of every copy; None if the runner failed."""
    sms: tuple[int, ...] = ()
    """Multiprocessors on which copies differed."""
    failed: int = 0
    """Copies that differed; all of them if the runner failed."""
    failure: Failure | None = None
    compiled: Compiled | None = None

    def like(self, other: Attempt) -> bool:
        """Whether another run gave the same, bit for bit where there are bits."""
        if self.actual is None or other.actual is None:
            return self.kind is other.kind and self.actual is other.actual
        return self.kind is other.kind and np.array_equal(self.actual, other.actual)


def attempt(runner: Runner, subject: Subject) -> Attempt:
    """Run a subject once.

    Raises
    ------
    DeviceLostError, InfrastructureError
        If the device is gone, or the runner cannot run it at all.
    """
    compiled = runner.compile(subject.module)
    if isinstance(compiled, Failure):
        return _failed(compiled, subject, None)
    images = subject.images
    ran = runner.run(compiled, images)
    if isinstance(ran, Failure):
        return _failed(ran, subject, compiled)
    expected = execute(subject.program, subject.image[None], target=compiled.architecture).images
    wrong = (ran.images != expected).any(axis=1)
    different = np.unique(ran.images[wrong], axis=0)[:_JUDGED_COPIES]
    inputs = np.repeat(subject.image[None], len(different), axis=0)
    verdicts = judge(
        subject.program,
        inputs,
        different,
        target=compiled.architecture,
        expected=np.broadcast_to(expected, different.shape),
    )
    return Attempt(
        kind=max(verdicts).kind if verdicts else None,
        actual=ran.images,
        expected=expected[0],
        sms=tuple(np.unique(ran.sms[wrong]).tolist()),
        failed=int(wrong.sum()),
        compiled=compiled,
    )


def _failed(failure: Failure, subject: Subject, compiled: Compiled | None) -> Attempt:
    return Attempt(
        kind=kind_of_failure(failure), failure=failure, failed=subject.copies, compiled=compiled
    )


def replays_of(kind: Kind) -> int:
    """Return how often something of this kind is run again."""
    return _HANG_REPLAYS if kind is Kind.HANG else REPLAYS


def conclusion(attempts: Sequence[Attempt]) -> Kind | None:
    """Return what several runs of one subject say together; FLAKY if they are not alike."""
    first = attempts[0]
    return first.kind if all(first.like(other) for other in attempts[1:]) else Kind.FLAKY


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What several runs of one stored case gave."""

    kind: Kind | None
    """None if everything is as expected every time; FLAKY if the runs are not alike."""
    counts: Mapping[str, int]
    """How often it was "match", "violation", and so on."""
    results: frozenset[bytes]
    """The different images that came out; two compilers agree if these do."""
    message: str = ""
    """What the runner said when it failed."""


def outcome_of(attempts: Sequence[Attempt]) -> Outcome:
    """Return what several runs of one subject say together."""
    failure = next((one.failure for one in attempts if one.failure is not None), None)
    return Outcome(
        kind=conclusion(attempts),
        counts=Counter("match" if one.kind is None else one.kind.value for one in attempts),
        results=frozenset(
            copy.tobytes()
            for one in attempts
            if one.actual is not None
            for copy in np.unique(one.actual, axis=0)
        ),
        message="" if failure is None else str(failure),
    )
