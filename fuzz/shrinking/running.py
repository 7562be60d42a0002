"""What a runner makes of many subjects at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corpus import Kind
from fuzz.runner_choice import OpenRunner
from fuzz.shrinking.trials import Verdicts
from fuzz.value_replaying import Subject
from fuzz.verdicts import Verdict, judge, kind_of_failure
from oracle.program import Program
from runners.emission import emit, emit_all
from runners.isolation import isolate
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Ran, Runner, Trouble

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
    """Verdicts of one runner."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def __call__(self, candidates: Sequence[Subject]) -> Sequence[Kind | None]:
        """Return what becomes of each candidate.

        Raises
        ------
        DeviceLostError
            If the device is gone.
        InfrastructureError
            If something is missing that the runner needs.
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
        """Compile the modules of subjects; return each with the entry to run."""
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
            if emit(subject.program, target=target, version=version, entry=entry) != module:
                return None
        programs = {f"kernel_{index}": one.program for index, one in enumerate(subjects)}
        compiled = self._runner.compile(emit_all(programs, target=target, version=version))
        return None if isinstance(compiled, Failure) else compiled

    def _run(
        self, subjects: Sequence[Subject], code: Compiled | Failure, entry: str
    ) -> list[Kind | None]:
        """Run subjects of one program."""
        if isinstance(code, Failure):
            return [_kind(code)] * len(subjects)
        program = subjects[0].program
        if any(subject.copies > 1 for subject in subjects):
            # What fails in some places only needs the launch in which it was seen.
            found = []
            for subject in subjects:
                ran = self._runner.run(code, subject.images, entry=entry)
                found.append(
                    _worst(program, subject.images, ran.images, code.architecture)
                    if isinstance(ran, Ran)
                    else _kind(ran)
                )
            return found
        images = np.stack([subject.image for subject in subjects])
        ran = self._runner.run(code, images, entry=entry)
        if isinstance(ran, Ran):
            verdicts = judge(program, images, ran.images, target=code.architecture)
            return [_named(verdict) for verdict in verdicts]
        if len(images) == 1:
            return [_kind(ran)]
        isolation = isolate(self._runner, code, images, entry=entry, limit=_FAILED_RUNS)
        kinds: list[Kind | None] = [None] * len(subjects)
        sound = np.flatnonzero(isolation.ran)
        verdicts = judge(program, images[sound], isolation.images[sound], target=code.architecture)
        for index, verdict in zip(sound.tolist(), verdicts, strict=True):
            kinds[index] = _named(verdict)
        for culprit in isolation.culprits:
            kinds[culprit.index] = _kind(culprit.failure)
        return kinds


def _worst(program: Program, images: Images, actual: Images, target: str) -> Kind | None:
    """Return what the copies of one image say together."""
    different = np.unique(actual, axis=0)
    return _named(max(judge(program, images[: len(different)], different, target=target)))


def _named(verdict: Verdict) -> Kind | None:
    return None if verdict is Verdict.MATCH else verdict.kind


def _kind(failure: Failure) -> Kind | None:
    """Return what a failure is called; None where the runner cannot do it by design."""
    return None if failure.trouble is Trouble.UNSUPPORTED else kind_of_failure(failure)
