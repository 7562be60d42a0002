"""Making failing cases small enough to read.

`shrink` takes steps out of the program and values out of its image while the case fails in the
same way, and says how far it came. `strategies.simplification` proposes what may be simpler.

Hypothesis' shrinker makes drawn choices smaller, with a cap of its own. Here the program itself is
made smaller, so that one from a corpus or written by hand shrinks as well, many candidates go to
the device in one batch, and "nothing can be taken away" is a statement about the case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice

import numpy as np

from corpus import Kind, ShrinkStatus
from fuzz.findings.verdicts import Subject, judge, replays_of, worst_of
from fuzz.kinds import KINDS
from fuzz.reducer import OutOfTimeError
from fuzz.runner import OpenRunner, kind_of_failure
from oracle.errors import UsageError
from oracle.isa.targets import Module
from oracle.program.definedness import undefined
from oracle.program.program import Program
from runners.emission import emit, emit_all
from runners.isolation import isolate
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Runner, Trouble
from runners.ptx_text import with_kernel_of
from strategies.matrices import Cells, Ids, Image, cells_of
from strategies.simplification.examples import Example, shows_something, visit
from strategies.simplification.isolation import isolated, loaded, stored
from strategies.simplification.lane_code import code_alone, smaller_code
from strategies.simplification.steps import (
    drops,
    is_costly,
    less_shared,
    metadata_words,
    plain_all,
    plain_one,
    plainer_accesses,
    plainer_metadata,
    trims,
    unwraps,
    with_plain_metadata,
)
from strategies.simplification.values import CHOICES, dots, gathered, replaced, simpler_values

SECONDS = 20.0
"""Time for one case where none is given; on the simulated device the median case takes 2 s."""


def shrink(
    subject: Subject, verdicts: Verdicts, *, wanted: Kind, seconds: float = SECONDS
) -> Trials:
    """Make a failing case as small as it gets while it fails in the same way.

    Its program must be defined. Returns the smallest case that fails in the wanted way, the one
    that was given if it is flaky; after so many seconds what was reached, once the batch that is
    under way and the last look at the result are over. Raises what `verdicts` does.
    """
    trials = Trials(subject, verdicts, wanted=wanted, end=time.monotonic() + seconds)

    def always() -> bool:
        """Whether the smallest example fails in every replay, by itself."""
        again = [verdicts([trials.subject])[0] for _ in range(replays_of(wanted))]
        trials.tried += len(again)
        return all(kind is wanted for kind in again)

    if always():
        with suppress(StoppedFailingError):
            try:
                _to_the_end(trials)
                status = ShrinkStatus.COMPLETE
            except OutOfTimeError:
                status = ShrinkStatus.CAPPED
            if always():
                trials.status = status
    if trials.status is ShrinkStatus.FLAKY:
        trials.best = trials.first
    return trials


def _to_the_end(trials: Trials) -> None:
    """Shrink program and contents in turn until neither gets smaller, each change by itself."""
    while True:
        at = trials.best
        shrink_program(trials)
        shrink_contents(trials)
        if trials.best is at:
            if trials.apart:
                return
            # What was asked in company may have been answered so because of it.
            trials.go_apart()
            _zero_cells(trials, cells_of(at.program))
            if trials.best is at and not shrink_program(trials):
                return


# The program

Reduction = Callable[[Example], Iterator[Example]]
"""Smaller examples in place of one, the most promising first."""

_SINGLE: tuple[Reduction, ...] = (
    plain_all,
    partial(drops, size=1),
    unwraps,
    smaller_code,
    less_shared,
    plainer_metadata,
    plain_one,
    plainer_accesses,
    stored,
    trims,
)
_COMPILED = 16
"""Most programs of one module; what follows a success is compiled in vain."""


def shrink_program(trials: Trials) -> bool:
    """Make the program of the smallest example smaller until no single change does.

    In the end no step can go, and no stride, offset, layout or state space can become the default.
    Every change takes away a step, something that is not the default, or bytes. Returns whether
    anything was changed; OutOfTimeError may end it.
    """
    before = trials.best
    alone: Reduction = partial(isolated, target=trials.target)
    given: Reduction = partial(loaded, target=trials.target)
    code: Reduction = partial(code_alone, target=trials.target)
    for reduction in (code, alone, given, plain_all):
        _reduce(trials, reduction)
    size = sum(1 for _ in visit(trials.best.program.steps)) // 2
    while size > 1:
        _reduce(trials, partial(drops, size=size))
        size //= 2
    while True:
        at, apart = trials.best, trials.apart
        for reduction in (alone, given, *_SINGLE):
            _reduce(trials, reduction)
        if trials.best is at and trials.apart is apart:
            return trials.best is not before


def _reduce(trials: Trials, reduction: Reduction) -> None:
    """Take what a reduction offers until nothing of it fails."""
    begin: int | None = 0
    while begin is not None:
        # What stands before the last success did not do then; it comes last.
        offers = _offered(trials.best, reduction, begin)
        # Most are never asked for: they are made and looked at as late as possible.
        allowed = (each for each in offers if trials.allows(each[1].program))
        begin, size = None, 1
        while begin is None and (part := [*islice(allowed, size)]):
            fails = trials.fail([example for _, example in part])
            begin = next(
                (
                    at
                    for (at, one), bad in zip(part, fails, strict=True)
                    if bad and trials.take(one)
                ),
                None,
            )
            size = min(2 * size, _COMPILED)


def _offered(best: Example, reduction: Reduction, begin: int) -> Iterator[tuple[int, Example]]:
    """Iterate over what a reduction offers, each once and numbered, from a number on."""
    found = set[object]()
    before: list[tuple[int, Example]] = []
    for index, example in enumerate(reduction(best)):
        if example.program == best.program or example.key in found:
            continue
        found.add(example.key)
        if index < begin:
            before.append((index, example))
        else:
            yield index, example
    yield from before


# The contents

_SIMPLIFIED = 32
"""Most cells whose values are simplified; more than a person reads anyway."""
_DOTS = 2
"""Most dot products for which sums are drawn; of a fault in one there is rarely a second."""


def shrink_contents(trials: Trials) -> bool:
    """Make the image of the smallest example smaller until no change of one cell does.

    In the end no cell alone can become zero. Returns whether anything was changed; OutOfTimeError
    may end it.
    """
    cells, before = cells_of(trials.best.program), trials.best
    # What is large goes first.
    for parts in cells.groups():
        _zero(trials, cells, parts)
    while True:
        at, apart = trials.best, trials.apart
        _plain_metadata(trials)
        _zero_cells(trials, cells)
        # Terms go while the failure stays; every step leaves fewer elements that are not zero.
        for dot in dots(cells, trials.best.image):
            for choose in CHOICES:
                while _first_of(trials, gathered(replace(dot, image=trials.best.image), choose)):
                    pass
        _simplify_values(trials, cells)
        if trials.best is at:
            for dot in islice(dots(cells, at.image), _DOTS):
                ways = replaced(replace(dot, image=trials.best.image))
                any(_first_of(trials, images) for images in ways)
        if trials.best is at and trials.apart is apart:
            return trials.best is not before


def _zero_cells(trials: Trials, cells: Cells) -> None:
    """Zero halves, quarters, … and in the end single cells, until no single one can go."""
    left = cells.nonzero(trials.best.image)
    size = max(1, len(left) // 2)
    while len(left):
        parts = [left[start : start + size] for start in range(0, len(left), size)]
        taken = _zero(trials, cells, parts)
        if size == 1 and not taken:
            break
        size = max(1, size // 2)
        left = cells.nonzero(trials.best.image)
    for width in (4, 2):
        _zero(trials, cells, cells.runs(width))


def _zero(trials: Trials, cells: Cells, groups: Sequence[Ids]) -> bool:
    left = np.zeros(len(cells.starts), np.bool_)
    left[cells.nonzero(trials.best.image)] = True
    return _change(trials, cells.without, [group for group in groups if left[group].any()])


def _plain_metadata(trials: Trials) -> None:
    """Let metadata that the image holds be plain: all words, halves, and in the end single ones."""
    words = metadata_words(trials.best.program)
    size = len(words)
    while size:
        left = words[is_costly(trials.best.image)[words].any(axis=1)]
        parts = [left[start : start + size].ravel() for start in range(0, len(left), size)]
        _change(trials, with_plain_metadata, parts)
        size //= 2


def _simplify_values(trials: Trials, cells: Cells) -> None:
    """Replace values of the smallest example by the simplest that do, as many as go together."""
    simpler = True
    while simpler:
        image = trials.best.image
        left = cells.nonzero(image).tolist()
        simpler = len(left) <= _SIMPLIFIED and _together(
            trials,
            [
                (cell, partial(cells.with_value, cell=cell, value=value))
                for cell in left
                for value in simpler_values(cells.types[cell], cells.value(image, cell))
            ],
        )


def _change(trials: Trials, change: Callable[[Image, Ids], Image], groups: Sequence[Ids]) -> bool:
    """Change groups of cells or bytes, as many of them as go together; return whether any did."""

    def changed(group: Ids) -> Callable[[Image], Image]:
        return lambda image: change(image, group)

    return _together(trials, [*enumerate(map(changed, groups))])


def _together(trials: Trials, changes: Sequence[tuple[int, Callable[[Image], Image]]]) -> bool:
    """Change the image of the smallest example in as many ways as go; return whether any did.

    Of ways with one number the first that goes is taken.
    """
    image = trials.best.image
    good: dict[int, Callable[[Image], Image]] = {}
    alone = trials.images_fail([change(image) for _, change in changes])
    for (number, change), fails in zip(changes, alone, strict=True):
        if fails:
            good.setdefault(number, change)
    if not good:
        return False
    # What can go alone need not be able to go together: the longest run that can, does.
    runs = [*accumulate(good.values(), lambda made, change: change(made), initial=image)][1:]
    # The first run is the first change alone.
    together = [True, *trials.images_fail(runs[1:])]
    longest = max(index for index, fails in enumerate(together) if fails)
    return trials.take(trials.best.with_image(runs[longest]))


def _first_of(trials: Trials, images: Iterable[Image]) -> bool:
    """Take the first of some images that fails, if there is one."""
    offers = iter(images)
    while part := [*islice(offers, trials.at_once)]:
        for smaller, fails in zip(part, trials.images_fail(part), strict=True):
            if fails and trials.take(trials.best.with_image(smaller)):
                return True
    return False


# What fails

_FAILED_RUNS = 12
"""Failed runs of one batch after which what is undecided counts as a match: one image among 64
that brings the runner down takes 7."""


class RunnerVerdicts:
    """Tells the verdicts of subjects by running them, for `shrink`.

    Subjects with the same module and one copy each go to the runner as one batch of images.
    Different programs are compiled as kernels of one module; where that fails, and where a
    module is not what the program is emitted as, each by itself.
    """

    def __init__(self, opened: OpenRunner | Runner) -> None:
        self._runner = opened.runner if isinstance(opened, OpenRunner) else opened

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
        together = self._together(firsts) if len(firsts) > 1 else None
        for number, members in enumerate(groups.values()):
            module = firsts[number].module
            code, entry = together or self._runner.compile(module), module.kernels[0].entry
            entry = entry if together is None else f"kernel_{number}"
            found = self._run([candidates[index] for index in members], code, entry)
            for index, kind in zip(members, found, strict=True):
                kinds[index] = kind
        return kinds

    def _together(self, subjects: Sequence[Subject]) -> Compiled | None:
        """Compile programs as kernels of one module; None if that is not to be had."""
        into = Module.named(subjects[0].module.target, subjects[0].module.version)
        for one in subjects:
            if emit(one.program, module=into, entry=one.module.kernels[0].entry) != one.module:
                return None
        programs = {f"kernel_{index}": one.program for index, one in enumerate(subjects)}
        compiled = self._runner.compile(emit_all(programs, module=into))
        return None if isinstance(compiled, Failure) else compiled

    def _run(
        self, subjects: Sequence[Subject], code: Compiled | Failure, entry: str
    ) -> Sequence[Kind | None]:
        if isinstance(code, Failure):
            return [_kind(code)] * len(subjects)
        if any(subject.copies > 1 for subject in subjects):
            # What fails in some places only needs the launch in which it was seen.
            return [self._copies(subject, code, entry) for subject in subjects]
        program, target = subjects[0].program, code.oracle_target
        images = np.stack([subject.image for subject in subjects])
        ran = self._runner.run(code, images, entry=entry)
        if not isinstance(ran, Failure):
            return judge(program, images, ran.images, target=target)
        if len(images) == 1:
            return [_kind(ran)]
        isolation = isolate(self._runner, code, images, entry=entry, limit=_FAILED_RUNS)
        found: list[Kind | None] = [None] * len(subjects)
        sound = np.flatnonzero(isolation.ran)
        verdicts = judge(program, images[sound], isolation.images[sound], target=target)
        for index, verdict in zip(sound.tolist(), verdicts, strict=True):
            found[index] = verdict
        for culprit in isolation.culprits:
            found[culprit.index] = _kind(culprit.failure)
        return found

    def _copies(self, subject: Subject, code: Compiled, entry: str) -> Kind | None:
        ran = self._runner.run(code, subject.images, entry=entry)
        if isinstance(ran, Failure):
            return _kind(ran)
        different = np.unique(ran.images, axis=0)
        images = subject.images[: len(different)]
        return worst_of(judge(subject.program, images, different, target=code.oracle_target))


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


class StoppedFailingError(Exception):
    """The smallest example does not fail any more. Never leaves `shrink`."""


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
        self._alone: dict[tuple[Program, bytes], bool] = {}
        """Whether examples failed by themselves."""
        self._rejected: set[tuple[Program, bytes]] = set()
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
        divergence = self._wanted is Kind.DIVERGENCE
        return (
            shows_something(program, self._subject.program, any_warp_level=divergence)
            and not undefined(program, target=self.target)
            and self._module(program) is not None
        )

    def go_apart(self) -> None:
        """Ask for examples one by one from now on; forget what was answered in company."""
        self.apart = True
        self._rejected = {key for key, failed in self._alone.items() if not failed}

    def take(self, example: Example) -> bool:
        """Make an example that failed the smallest one, if it fails by itself as well.

        A wrong access can reach a neighbour's image, and a pass over the whole text another kernel.
        Where that makes a difference, examples are asked for one by one from then on. Raises
        OutOfTimeError if the time is over before that is known, and StoppedFailingError if the
        smallest example so far does not fail any more either.
        """
        if not self._alone.get(example.key) and not self._ask([example])[0]:
            if not self._ask([self.best])[0]:
                raise StoppedFailingError
            self.go_apart()
            return False
        if example.key != self.best.key:
            self.best = example
        return True

    def images_fail(self, images: Sequence[Image]) -> list[bool]:
        """Return which images fail with the program of the smallest example. Raises as `fail`."""
        return self.fail([self.best.with_image(image) for image in images])

    def fail(self, examples: Sequence[Example]) -> list[bool]:
        """Return which examples fail as the first one did.

        Raises OutOfTimeError if the time is over before all are known.
        """
        fails = [False] * len(examples)
        asked = [i for i, example in enumerate(examples) if example.key not in self._rejected]
        largest = max((len(one.image) for one in examples), default=1) * self._subject.copies
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
        told = {example.key: failed for example, failed in zip(examples, fails, strict=True)}
        self._rejected |= {key for key, failed in told.items() if not failed}
        if len(examples) == 1:
            self._alone |= told
        return fails

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
            given, module = self._subject.module, None
            with suppress(UsageError):
                entry = given.kernels[0].entry
                into = Module.named(given.target, given.version)
                made = emit(program, module=into, entry=entry)
                if self._subject.others:
                    made = replace(made, ptx=with_kernel_of(given.ptx, made.ptx, entry))
                module = made
            if len(self._modules) >= _MODULES:
                self._modules = {self._subject.program: given}
            self._modules[program] = module
        return self._modules[program]
