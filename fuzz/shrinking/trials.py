"""Tests which smaller examples still fail: in batches, within a time, each only once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from corpus import Kind, ShrinkStatus
from fuzz.findings.replay import Subject
from fuzz.findings.verdicts import judge, worst_of
from fuzz.kinds import KINDS
from fuzz.runner import OpenRunner, kind_of_failure
from oracle.definedness import undefined
from oracle.errors import UsageError
from oracle.program import Program
from oracle.targets import Module
from runners.emission import emit, emit_all
from runners.isolation import isolate
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Ran, Runner, Trouble
from strategies.cells import Image
from strategies.simplification.examples import Example, shows_something

_FAILED_RUNS = 12
"""Failed runs of one batch after which what is undecided counts as a match: one image among 64
that brings the runner down takes 7."""


def runner_verdicts(opened: OpenRunner | Runner) -> Verdicts:
    """Return what tells the verdicts of subjects by running them, for `shrink`.

    Subjects with the same module and one copy each go to the runner as one batch of images.
    Different programs are compiled as kernels of one module; where that fails, and where a
    module is not what the program is emitted as, each by itself.
    """
    runner = opened.runner if isinstance(opened, OpenRunner) else opened
    return _Verdicts(runner)


class _Verdicts:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def __call__(self, candidates: Sequence[Subject]) -> Sequence[Kind | None]:
        """Return what becomes of each candidate.

        Raises DeviceLostError if the device is gone, and InfrastructureError if something is
        missing that the runner needs.
        """
        groups: dict[tuple[Program, str], list[int]] = {}
        for index, subject in enumerate(candidates):
            groups.setdefault((subject.program, subject.module.ptx), []).append(index)
        kinds: list[Kind | None] = [None] * len(candidates)
        firsts = [candidates[members[0]] for members in groups.values()]
        for members, (code, entry) in zip(groups.values(), self._compiled(firsts), strict=True):
            subjects = [candidates[index] for index in members]
            for index, kind in zip(members, self._run(subjects, code, entry), strict=True):
                kinds[index] = kind
        return kinds

    def _compiled(self, subjects: Sequence[Subject]) -> list[tuple[Compiled | Failure, str]]:
        names = [subject.module.kernels[0].entry for subject in subjects]
        if len(subjects) > 1:
            together = self._together([subject.module for subject in subjects], subjects)
            if together is not None:
                return [(together, f"kernel_{index}") for index in range(len(subjects))]
        return [
            (self._runner.compile(subject.module), name)
            for subject, name in zip(subjects, names, strict=True)
        ]

    def _together(
        self, modules: Sequence[KernelModule], subjects: Sequence[Subject]
    ) -> Compiled | None:
        """Compile programs as kernels of one module; None if that is not to be had."""
        target, version = modules[0].target, modules[0].version
        for module, subject in zip(modules, subjects, strict=True):
            entry = module.kernels[0].entry
            if emit(subject.program, module=Module.named(target, version), entry=entry) != module:
                return None
        programs = {f"kernel_{index}": one.program for index, one in enumerate(subjects)}
        compiled = self._runner.compile(emit_all(programs, module=Module.named(target, version)))
        return None if isinstance(compiled, Failure) else compiled

    def _run(
        self, subjects: Sequence[Subject], code: Compiled | Failure, entry: str
    ) -> list[Kind | None]:
        if isinstance(code, Failure):
            return [_kind(code)] * len(subjects)
        program = subjects[0].program
        if any(subject.copies > 1 for subject in subjects):
            # What fails in some places only needs the launch in which it was seen.
            found = []
            for subject in subjects:
                ran = self._runner.run(code, subject.images, entry=entry)
                found.append(
                    _worst(program, subject.images, ran.images, code.oracle_target)
                    if isinstance(ran, Ran)
                    else _kind(ran)
                )
            return found
        images = np.stack([subject.image for subject in subjects])
        ran = self._runner.run(code, images, entry=entry)
        if isinstance(ran, Ran):
            return list(judge(program, images, ran.images, target=code.oracle_target))
        if len(images) == 1:
            return [_kind(ran)]
        isolation = isolate(self._runner, code, images, entry=entry, limit=_FAILED_RUNS)
        kinds: list[Kind | None] = [None] * len(subjects)
        sound = np.flatnonzero(isolation.ran)
        verdicts = judge(program, images[sound], isolation.images[sound], target=code.oracle_target)
        for index, verdict in zip(sound.tolist(), verdicts, strict=True):
            kinds[index] = verdict
        for culprit in isolation.culprits:
            kinds[culprit.index] = _kind(culprit.failure)
        return kinds


def _worst(program: Program, images: Images, actual: Images, target: str) -> Kind | None:
    different = np.unique(actual, axis=0)
    return worst_of(judge(program, images[: len(different)], different, target=target))


def _kind(failure: Failure) -> Kind | None:
    """Return what a failure is called; None where the runner cannot do it by design."""
    return None if failure.trouble is Trouble.UNSUPPORTED else kind_of_failure(failure)


Verdicts = Callable[[Sequence[Subject]], Sequence[Kind | None]]
"""What becomes of some subjects, one for one; None: a match."""

_AT_ONCE = 64
"""Candidates of one batch; on the simulated device 64 images cost about as much as 10 launches of
one (measured, f16 m16n16k16, 2026-11)."""
_FEW_AT_ONCE = 4
"""Candidates that are tried at once if a failing run is costly."""
_BYTES_AT_ONCE = 1 << 26
"""Most bytes of the images of one batch."""
_MODULES = 256
"""Modules that are kept."""


class OutOfTimeError(Exception):
    """The time for shrinking is over. Never leaves `shrink`."""


class StoppedFailingError(Exception):
    """The smallest example failed before, and does not any more. Never leaves `shrink`."""


class Trials:
    """The smallest example so far, and what was asked on the way to it.

    From `end`, a value of `time.monotonic()`, on nothing more is asked.
    """

    def __init__(self, subject: Subject, verdicts: Verdicts, *, wanted: Kind, end: float) -> None:
        self.best = self.first = Example(program=subject.program, image=subject.image)
        self.tried = 0
        """Subjects whose verdicts were asked for."""
        self.status = ShrinkStatus.FLAKY
        """COMPLETE if nothing can be taken away any more, CAPPED if the time was over before that
        was known, FLAKY until what is left has failed every time by itself."""
        self._subject, self._verdicts, self._wanted, self._end = subject, verdicts, wanted, end
        self._modules: dict[Program, KernelModule | None] = {subject.program: subject.module}
        self._rejected: set[tuple[Program, bytes]] = set()
        self._rejected_alone: set[tuple[Program, bytes]] = set()
        self._sure: set[tuple[Program, bytes]] = set()
        """Examples that failed by themselves."""
        self.apart = False
        """Whether examples are asked for one by one: company changed what became of one."""

    @property
    def at_once(self) -> int:
        """Candidates that are worth asking for together."""
        if self.apart:
            return 1
        return _FEW_AT_ONCE if KINDS[self._wanted].costly else _AT_ONCE

    @property
    def target(self) -> str:
        """Value of .target of every module."""
        return self._subject.module.target

    @property
    def subject(self) -> Subject:
        """The smallest example as a subject."""
        return self._subject if self.best is self.first else self._made(self.best)

    def allows(self, program: Program) -> bool:
        """Whether a program may take the first one's place: it is defined, and shows something."""
        module, divergence = self._subject.module, self._wanted is Kind.DIVERGENCE
        return (
            shows_something(program, self._subject.program, any_warp_level=divergence)
            and not undefined(program, target=module.target)
            and self._module(program) is not None
        )

    def go_apart(self) -> None:
        """Ask for examples one by one from now on; forget what was answered in company."""
        self.apart = True
        self._rejected = self._rejected_alone.copy()

    def take(self, example: Example) -> bool:
        """Make an example that failed the smallest one, if it fails by itself as well.

        A wrong access can reach a neighbour's image, and a pass over the whole text another kernel.
        Where that makes a difference, examples are asked for one by one from then on. Raises
        OutOfTimeError if the time is over before that is known, and StoppedFailingError if the
        smallest example so far does not fail any more either.
        """
        if example.key not in self._sure and not self._ask([example])[0]:
            if not self._ask([self.best])[0]:
                raise StoppedFailingError
            self.go_apart()
            return False
        if example.key != self.best.key:
            self.best = example
        return True

    def fail(self, examples: Sequence[Example]) -> list[bool]:
        """Return which examples fail as the first one did.

        Raises OutOfTimeError if the time is over before all are known.
        """
        fails = [False] * len(examples)
        asked = [i for i, example in enumerate(examples) if example.key not in self._rejected]
        largest = (
            max((len(example.image) for example in examples), default=1) * self._subject.copies
        )
        size = max(1, min(self.at_once, _BYTES_AT_ONCE // largest))
        for start in range(0, len(asked), size):
            part = asked[start : start + size]
            for index, failed in zip(part, self._ask([examples[i] for i in part]), strict=True):
                fails[index] = failed
        return fails

    def _ask(self, examples: Sequence[Example]) -> list[bool]:
        if time.monotonic() >= self._end:
            raise OutOfTimeError
        found = self._verdicts([self._made(example) for example in examples])
        self.tried += len(examples)
        fails = [kind is self._wanted for kind in found]
        rejected = {
            example.key for example, failed in zip(examples, fails, strict=True) if not failed
        }
        self._rejected |= rejected
        if len(examples) == 1:
            self._rejected_alone |= rejected
            self._sure |= {example.key for example in examples} - rejected
        return fails

    def images_fail(self, images: Sequence[Image]) -> list[bool]:
        """Return which images fail with the program of the smallest example. Raises as `fail`."""
        return self.fail([self.best.with_image(image) for image in images])

    def _made(self, example: Example) -> Subject:
        module = self._module(example.program)
        if module is None:
            raise UsageError("this program cannot be emitted; leave it out")
        return Subject(
            module=module, program=example.program, image=example.image, copies=self._subject.copies
        )

    def _module(self, program: Program) -> KernelModule | None:
        """Return the module of a program, None if there is none; that of the first as it came."""
        if program not in self._modules:
            given = self._subject.module
            try:
                module = emit(
                    program, module=Module.named(given.target, given.version),
                    entry=given.kernels[0].entry,
                )  # fmt: skip
            except UsageError:
                module = None
            if len(self._modules) >= _MODULES:
                self._modules = {self._subject.program: given}
            self._modules[program] = module
        return self._modules[program]
