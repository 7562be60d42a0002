"""Making failing cases small enough to read.

`shrink` takes steps out of the program and values out of its image while the case fails in the
same way, and says how far it came.

Hypothesis drew the program, and its shrinker could make the drawn choices smaller. It is not used
here: what is shrunk is the program itself, its steps, strides, offsets and bytes, so that a
program read from a corpus or written by hand shrinks as well, there is no cap on the number of
reductions or the time other than the caller's, many candidates go to the device in one batch, and
"nothing can be taken away" is a statement about the case that a person reads and not about the
choices behind it. What may be simpler is proposed by `strategies.simplification`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice

import numpy as np

from corpus import Kind, ShrinkStatus
from fuzz.findings.replay import Subject, replays_of
from fuzz.findings.verdicts import judge, worst_of
from fuzz.kinds import KINDS
from fuzz.reducer import OutOfTimeError
from fuzz.runner import OpenRunner, kind_of_failure
from oracle.definedness import undefined
from oracle.errors import UsageError
from oracle.program import Program
from oracle.targets import Module
from runners.emission import emit, emit_all
from runners.isolation import isolate
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Ran, Runner, Trouble
from runners.ptx_text import with_kernel_of
from strategies.matrices import Cells, Ids, Image, cells_of
from strategies.simplification.accesses import (
    plain_all,
    plain_one,
    plainer_accesses,
)
from strategies.simplification.examples import Example, shows_something, visit
from strategies.simplification.isolation import isolated, loaded, stored
from strategies.simplification.lane_code import code_alone, smaller_code
from strategies.simplification.registers import (
    is_costly,
    less_shared,
    metadata_words,
    plainer_metadata,
    with_plain_metadata,
)
from strategies.simplification.structure import drops, trims, unwraps
from strategies.simplification.terms import (
    CHOICES,
    SIZES,
    Dot,
    at_the_ends,
    dots,
    gathered,
    proposed,
)
from strategies.simplification.values import simpler_values

_SIMPLIFIED = 32
"""Most cells whose values are simplified; more than a person reads anyway."""


def simplify_values(trials: Trials, cells: Cells) -> None:
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


_DRAWN = 2048
"""Sums of each size that are drawn: about a second on the simulated device."""
_DOTS = 2
"""Most dot products for which sums are drawn; of a fault in one there is rarely a second."""


def shrink_contents(trials: Trials) -> bool:
    """Make the image of the smallest example smaller until no change of one cell does.

    In the end no cell alone can become zero. Raises OutOfTimeError if
    the time is over; the smallest example is what was reached. Returns whether anything was
    changed.
    """
    cells = cells_of(trials.best.program)
    before = trials.best
    # What is large goes first.
    for parts in cells.groups():
        _zero(trials, cells, parts)
    while True:
        at, apart = trials.best, trials.apart
        _plain_metadata(trials)
        zero_cells(trials)
        _gather_terms(trials, cells)
        simplify_values(trials, cells)
        if trials.best is at:
            _propose_terms(trials, cells)
        if trials.best is at and trials.apart is apart:
            return trials.best is not before


def zero_cells(trials: Trials) -> bool:
    """Zero halves, quarters, … and in the end single cells, until no single one can go.

    Returns whether any was.
    """
    cells, before = cells_of(trials.best.program), trials.best
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
    return trials.best is not before


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


def _change(trials: Trials, change: Callable[[Image, Ids], Image], groups: Sequence[Ids]) -> bool:
    """Change groups of cells or bytes, as many of them as go together; return whether any did."""
    return _together(trials, [*enumerate(partial(_with, change, group) for group in groups)])


def _with(change: Callable[[Image, Ids], Image], group: Ids, image: Image) -> Image:
    return change(image, group)


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


def _gather_terms(trials: Trials, cells: Cells) -> None:
    """Take terms out of the dot products of the smallest example while the failure stays.

    Every step leaves fewer elements that are not zero.
    """
    for dot in dots(cells, trials.best.image):
        for choose in CHOICES:
            while _take_first(trials, gathered(cells, trials.best.image, dot, choose)):
                pass


def _propose_terms(trials: Trials, cells: Cells) -> None:
    """Put a smaller dot product in the place of one, if some fails in the same way."""
    for dot in islice(dots(cells, trials.best.image), _DOTS):
        if not dot.form.a_type.is_float:
            if dot.form.op is None:
                _take_first(trials, list(at_the_ends(cells, dot, trials.best.image)))
        else:
            for products, with_c, size in SIZES:
                left = set(cells.nonzero(trials.best.image).tolist())
                if dot.size(left) <= size or len(dot.held(left)) < products:
                    break
                if _propose(trials, cells, dot, products, with_c=with_c):
                    break


def _propose(trials: Trials, cells: Cells, dot: Dot, products: int, *, with_c: bool) -> bool:
    drawn = proposed(cells, trials.best.image, dot, products, with_c=with_c)
    return any(
        _take_first(trials, list(islice(drawn, trials.at_once)))
        for _ in range(_DRAWN // trials.at_once)
    )


def _take_first(trials: Trials, images: Sequence[Image]) -> bool:
    for smaller, fails in zip(images, trials.images_fail(images), strict=True):
        if fails and trials.take(trials.best.with_image(smaller)):
            return True
    return False


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
    Every change takes away a step, something that is not the default, or bytes. Raises
    OutOfTimeError if the time is over; the smallest example is what was reached. Returns whether
    anything was changed.
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
    begin: int | None = 0
    while begin is not None:
        # What stands before the last success did not do then; it comes last.
        begin = _first(trials, _candidates(trials, reduction, begin))


def _candidates(trials: Trials, reduction: Reduction, begin: int) -> Iterator[tuple[int, Example]]:
    """Iterate over what a reduction offers, each once and numbered, from a number on."""
    best, found = trials.best, set[object]()
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


def _first(trials: Trials, examples: Iterator[tuple[int, Example]]) -> int | None:
    """Return the number of the first example that takes the smallest one's place."""
    # Most are never asked for: they are made and looked at as late as possible.
    allowed = (each for each in examples if trials.allows(each[1].program))
    size = 1
    while part := [*islice(allowed, size)]:
        for (index, example), fails in zip(
            part, trials.fail([example for _, example in part]), strict=False
        ):
            if fails and trials.take(example):
                return index
        size = min(2 * size, _COMPILED)
    return None


SECONDS = 20.0
"""Time for one case where none is given; on the simulated device the median case takes 2 s."""


def shrink(
    subject: Subject, verdicts: Verdicts, *, wanted: Kind, seconds: float = SECONDS
) -> Trials:
    """Make a failing case as small as it gets while it fails in the same way.

    Returns the smallest case that fails in the wanted way; the one that was given if it is flaky.

    Parameters
    ----------
    subject
        The case. Its program must be defined.
    seconds
        Time after which what is reached is returned. One batch, and the last look at the result,
        may still be under way then.

    Raises
    ------
    DeviceLostError, InfrastructureError
        Only where `verdicts` does.
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
            if not (zero_cells(trials) or shrink_program(trials)):
                return


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
        for members, (code, entry) in zip(groups.values(), self._compiled(firsts), strict=True):
            subjects = [candidates[index] for index in members]
            for index, kind in zip(members, self._run(subjects, code, entry), strict=True):
                kinds[index] = kind
        return kinds

    def _compiled(self, subjects: Sequence[Subject]) -> list[tuple[Compiled | Failure, str]]:
        names = [subject.module.kernels[0].entry for subject in subjects]
        if len(subjects) > 1:
            together = self._together(subjects)
            if together is not None:
                return [(together, f"kernel_{index}") for index in range(len(subjects))]
        return [
            (self._runner.compile(subject.module), name)
            for subject, name in zip(subjects, names, strict=True)
        ]

    def _together(self, subjects: Sequence[Subject]) -> Compiled | None:
        """Compile programs as kernels of one module; None if that is not to be had."""
        first = subjects[0].module
        into = Module.named(first.target, first.version)
        for one in subjects:
            if emit(one.program, module=into, entry=one.module.kernels[0].entry) != one.module:
                return None
        programs = {f"kernel_{index}": one.program for index, one in enumerate(subjects)}
        compiled = self._runner.compile(emit_all(programs, module=into))
        return None if isinstance(compiled, Failure) else compiled

    def _run(
        self, subjects: Sequence[Subject], code: Compiled | Failure, entry: str
    ) -> list[Kind | None]:
        if isinstance(code, Failure):
            return [_kind(code)] * len(subjects)
        program = subjects[0].program
        if any(subject.copies > 1 for subject in subjects):
            # What fails in some places only needs the launch in which it was seen.
            found: list[Kind | None] = []
            for subject in subjects:
                ran = self._runner.run(code, subject.images, entry=entry)
                if isinstance(ran, Failure):
                    found.append(_kind(ran))
                    continue
                different = np.unique(ran.images, axis=0)
                images = subject.images[: len(different)]
                kinds = judge(program, images, different, target=code.oracle_target)
                found.append(worst_of(kinds))
            return found
        images = np.stack([subject.image for subject in subjects])
        ran = self._runner.run(code, images, entry=entry)
        if isinstance(ran, Ran):
            return list(judge(program, images, ran.images, target=code.oracle_target))
        if len(images) == 1:
            return [_kind(ran)]
        isolation = isolate(self._runner, code, images, entry=entry, limit=_FAILED_RUNS)
        found = [None] * len(subjects)
        sound = np.flatnonzero(isolation.ran)
        verdicts = judge(program, images[sound], isolation.images[sound], target=code.oracle_target)
        for index, verdict in zip(sound.tolist(), verdicts, strict=True):
            found[index] = verdict
        for culprit in isolation.culprits:
            found[culprit.index] = _kind(culprit.failure)
        return found


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
                entry = given.kernels[0].entry
                into = Module.named(given.target, given.version)
                module = emit(program, module=into, entry=entry)
                if self._subject.others:
                    module = replace(module, ptx=with_kernel_of(given.ptx, module.ptx, entry))
            except UsageError:
                module = None
            if len(self._modules) >= _MODULES:
                self._modules = {self._subject.program: given}
            self._modules[program] = module
        return self._modules[program]
