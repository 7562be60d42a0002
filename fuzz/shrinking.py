"""Takes steps out of a program and values out of its image while it fails in the same way."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice

import numpy as np

from corpus import Kind, ShrinkStatus
from fuzz.diagnosis.experiments import ExperimentDevice
from fuzz.findings.verdicts import Subject, judge, other_kernels, replays_of
from fuzz.kinds import KINDS
from fuzz.reducer import OutOfTimeError
from oracle.errors import UsageError
from oracle.isa.targets import Module
from oracle.program.definedness import undefined
from oracle.program.program import Program
from runners.emission import emit
from runners.kernels import KernelModule
from runners.protocol import Runner
from runners.ptx_text import with_kernel_of
from strategies.matrices import Image
from strategies.simplification.examples import (
    Example,
    code_alone,
    of_one_warp,
    shows_something,
    smaller_code,
    visit,
)
from strategies.simplification.multiplications import (
    fitted,
    narrower,
    plain_copies,
    plainer_products,
)
from strategies.simplification.steps import (
    drops,
    isolated,
    less_shared,
    loaded,
    plain_matrices,
    plainer_accesses,
    plainer_metadata,
    stored,
    unbound,
    unnamed,
    unwraps,
)
from strategies.simplification.values import Cells, Ids, cells_of, dots, replaced, simpler_values

SECONDS = 20.0
"""Time for one case where none is given; on the simulated device the median case takes 2 s."""


def shrink(
    subject: Subject, verdicts: Verdicts, *, wanted: Kind, seconds: float = SECONDS
) -> Trials:
    """Make a failing case, whose program is defined, as small as it gets while it fails alike.

    Returns the smallest, or the one that was given if it is flaky; after so many seconds what was
    reached. Raises what `verdicts` does.
    """
    trials = Trials(subject, verdicts, wanted=wanted, end=time.monotonic() + seconds)

    def always() -> bool:
        """Whether the smallest example fails in every replay, by itself."""
        again = [verdicts([trials.subject])[0] for _ in range(replays_of(wanted))]
        trials.tried += len(again)
        return all(kind is wanted for kind in again)

    # What failed in a module with others nearly always does by itself, and is not asked before.
    for trials.by_itself in (False, True) if always() else ():
        try:
            before = None
            while before is not (before := trials.best):
                shrink_program(trials)
                shrink_contents(trials)
            status = ShrinkStatus.COMPLETE
        except OutOfTimeError:
            status = ShrinkStatus.CAPPED
        if always():
            trials.status = status
            break
        trials.best = trials.first
    return trials


# The program

Reduction = Callable[[Example], Iterator[Example]]
"""Smaller examples in place of one, the most promising first."""

_SINGLE: tuple[Reduction, ...] = (
    partial(drops, size=1),
    unbound,
    plain_copies,
    narrower,
    fitted,
    unwraps,
    partial(smaller_code, plainer=False),
    less_shared,
    plainer_metadata,
    plainer_products,
    plain_matrices,
    plainer_accesses,
    stored,
)
_COMPILED = 2, 16
"""Programs of the first module, and of one at most: what follows a success is compiled in vain."""
_COMPILED_OF_WARPGROUPS = 1, 4
"""The same of warpgroups, which take ptxas 30 to 140 ms each (13.0.88, 2026-11-30)."""


def shrink_program(trials: Trials) -> None:
    """Make the program of the smallest example smaller until no single change does.

    Every change takes away a step, something that is not the default, or bytes. OutOfTimeError.
    """
    one_warp: Reduction = partial(of_one_warp, target=trials.target)
    alone: Reduction = partial(isolated, target=trials.target)
    given: Reduction = partial(loaded, target=trials.target)
    code: Reduction = partial(code_alone, target=trials.target)
    narrow: Reduction = partial(narrower, one_by_one=False)
    plain: Reduction = partial(plainer_products, one_by_one=False)
    begin = trials.best
    # What one warp does by itself is right in a smaller program if it was in the first.
    first = (one_warp,) if begin is trials.first else ()
    for reduction in (narrow, unnamed, *first, narrower, fitted, code, alone, given):
        _reduce(trials, reduction)
    _reduce(trials, plain_matrices)
    size = sum(1 for _ in visit(trials.best.program.steps)) // 2
    while size > 1:
        _reduce(trials, partial(drops, size=size))
        size //= 2
    # Of fewer multiplications each try costs less.
    for reduction in (plain, fitted):
        _reduce(trials, reduction)
    large = _LARGE if begin.program.warps > 1 else 0
    while True:
        at = trials.best
        for reduction in (alone, given, *_SINGLE):
            _reduce(trials, reduction)
            if large and reduction is _SINGLE[0]:
                # Of zeros a kernel needs fewer lines, and no compiler is asked about them.
                _zero_large(trials, most=large)
                large = 0
        if trials.best is at:
            break
    if at is begin:
        # Of no fewer lines: a piece of code has dozens of constants and names.
        _reduce(trials, smaller_code)


def _reduce(trials: Trials, reduction: Reduction) -> None:
    begin: int | None = 0
    while begin is not None:
        # What stands before the last success did not do then; it comes last.
        offers = _offered(trials.best, reduction, begin)
        # Most are never asked for: they are made and looked at as late as possible.
        allowed = (each for each in offers if trials.allows(each[1].program))
        begin, (size, most) = None, _COMPILED
        if trials.best.program.warps > 1:
            size, most = _COMPILED_OF_WARPGROUPS
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
            size = min(2 * size, most)


def _offered(best: Example, reduction: Reduction, begin: int) -> Iterator[tuple[int, Example]]:
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

_LARGE = 3  # ways to part an image: the whole, all but matrices, and by buffers
_SIMPLIFIED = 32  # most cells whose values are simplified; more than a person reads anyway
_DOTS = 2  # most dot products for which sums are drawn; of a fault in one there is rarely a second


def shrink_contents(trials: Trials) -> None:
    """Make the image of the smallest example smaller until no cell alone can become zero."""
    cells = _zero_large(trials)
    while True:
        at = trials.best
        _zero_cells(trials, cells)
        _simplify_values(trials, cells)
        if trials.best is at:
            for dot in islice(dots(cells, at.image), _DOTS):
                ways = replaced(replace(dot, image=trials.best.image))
                any(_first_of(trials, images) for images in ways)
        if trials.best is at:
            return


def _zero_large(trials: Trials, most: int | None = None) -> Cells:
    """Zero what is large, in all ways to part it or the first few; return the cells."""
    cells = cells_of(trials.best.program)
    for parts in islice(cells.groups(), most):
        _zero(trials, cells, parts)
    return cells


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
    some = [group for group in groups if left[group].any()]
    return _together(trials, [*enumerate(partial(cells.without, ids=group) for group in some)])


def _simplify_values(trials: Trials, cells: Cells) -> None:
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


def _together(trials: Trials, changes: Sequence[tuple[int, Callable[[Image], Image]]]) -> bool:
    """Change the image of the smallest example in as many ways as go; return whether any did."""
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


def verdicts_by(runner: Runner) -> Verdicts:
    """Return what judges subjects by running them; those of one module are one batch."""

    def verdicts(candidates: Sequence[Subject]) -> Sequence[Kind | None]:
        """Return what becomes of each candidate. DeviceLostError, InfrastructureError."""
        first = candidates[0]
        kinds: list[Kind | None] = [None] * len(candidates)
        groups: dict[object, list[int]] = {}
        for index, one in enumerate(candidates):
            # What fails in some places only needs the launch in which it was seen.
            own = index if one.copies > one.program.warps == 1 else 0
            groups.setdefault((one.program, one.module.ptx, own), []).append(index)
        device = ExperimentDevice(runner, first.module, copies=first.copies)
        firsts = [candidates[members[0]] for members in groups.values()]
        images = [np.stack([candidates[at].image for at in some]) for some in groups.values()]
        tried = [(one.program, some) for one, some in zip(firsts, images, strict=True)]
        there = device.results_of(tried, [one.module for one in firsts])
        for members, (program, before), results in zip(groups.values(), tried, there, strict=True):
            if results is not None:
                target, expected = results.target, results.expected
                verdicts = judge(program, before, results.actual, target=target, expected=expected)
                for at, (member, verdict) in enumerate(zip(members, verdicts, strict=True)):
                    kinds[member] = verdict if results.ran[at] else results.failed.get(at)
        return kinds

    return verdicts


Verdicts = Callable[[Sequence[Subject]], Sequence[Kind | None]]
"""What becomes of some subjects, one for one; None: a match."""

_AT_ONCE = 64
"""Candidates of one batch; 64 images cost as 10 launches of one on the simulated device."""
_FEW_AT_ONCE = 4  # candidates that are tried at once if a failing run is costly
_BYTES_AT_ONCE = 1 << 26  # most bytes of the images of one batch
_MODULES = 256  # modules that are kept


class Trials:
    """The smallest example so far, and what was asked, until `end` of `time.monotonic()`."""

    def __init__(self, subject: Subject, verdicts: Verdicts, *, wanted: Kind, end: float) -> None:
        self.best = self.first = Example(program=subject.program, image=subject.image)
        self.tried = 0  # subjects whose verdicts were asked for
        self.status = ShrinkStatus.FLAKY
        """CAPPED if the time was over, FLAKY until what is left has failed every time by itself."""
        self.by_itself = True
        """Whether each is tried in a module of its own before it is the smallest."""
        self._subject, self._verdicts, self._wanted, self._end = subject, verdicts, wanted, end
        self._modules: dict[Program, KernelModule | None] = {subject.program: subject.module}
        self._alone: set[tuple[Program, bytes]] = set()  # examples that failed by themselves
        self._rejected: set[tuple[Program, bytes]] = set()

    @property
    def at_once(self) -> int:
        """Candidates that are worth asking for together."""
        return _FEW_AT_ONCE if KINDS[self._wanted].troubles else _AT_ONCE

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

    def take(self, example: Example) -> bool:
        """Make an example that failed the smallest one, if it fails by itself as well.

        A wrong access can reach a neighbour's image. OutOfTimeError: the time is over before.
        """
        alone = example.key in self._alone or self._ask([example])[0]
        if alone and example.key != self.best.key:
            self.best = example
        return alone

    def images_fail(self, images: Sequence[Image]) -> list[bool]:
        """Return which images fail with the program of the smallest example. Raises as `fail`."""
        return self.fail([self.best.with_image(image) for image in images])

    def fail(self, examples: Sequence[Example]) -> list[bool]:
        """Return which examples fail as the first one did; OutOfTimeError before all are known."""
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
        # Those of one program are run together.
        programs = Counter(example.program for example in examples)
        if len(programs) == 1 or not self.by_itself:
            self._alone |= {key for key, failed in told.items() if failed and programs[key[0]] == 1}
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
                if other_kernels(self._subject):
                    made = replace(made, ptx=with_kernel_of(given.ptx, made.ptx, entry))
                module = made
            if len(self._modules) >= _MODULES:
                self._modules = {self._subject.program: given}
            self._modules[program] = module
        return self._modules[program]
