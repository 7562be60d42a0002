"""Probes of a stored finding: assemblers are given its module, runners its images.

Each probe gives a `Sample` a time; replaying, bisecting and the record that ships ask nothing
else. The record is asked always in the same way, so that its answers can be compared (`ask`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpus import Entry, Finding, Kind
from corpus.entry import EXPECTED, INPUT, MODULE, PROGRAM
from corpus.programs import unpack
from fuzz.findings.case import LAUNCH, lacks_images, most_copies, subject_of
from fuzz.findings.launches import Setup, parse_launch, setup_of
from fuzz.findings.replay import (
    Answer,
    CannotBeAskedError,
    Sample,
    Subject,
    Way,
    asked,
    attempt,
    distinct,
)
from fuzz.findings.verdicts import Expectation, kind_of
from fuzz.runner import kind_of_failure
from oracle.errors import DeviceLostError, InfrastructureError, UsageError
from oracle.isa import is_available
from oracle.legality import Verdict, explain
from oracle.program import requirements
from oracle.targets import Module, PtxVersion, parse_target, parse_version
from runners.assemblers.assembler import Assembler
from runners.assemblers.judging import judge_module
from runners.emission import emit
from runners.kernels import Kernel, KernelModule
from runners.protocol import Failure, Ran, Runner
from runners.ptx_pass import Rewriter
from runners.ptx_text import kernel_name, with_header

_DIGITS = 8
"""Hexadecimal digits of a hash that tell results apart in a table."""
_AT_ONCE = 4096
"""Most runs of one launch, in which each has a warp or a grid of its own."""


def is_by_hand(entry: Entry) -> bool:
    """Whether a finding has images and no program: its expected image is what a person says."""
    files = entry.finding.files
    return {MODULE, INPUT, EXPECTED} <= files.keys() and PROGRAM not in files


class ModuleProbe:
    """Whether assemblers accept a finding's module.

    An assembler that does not know the module's `.version` is asked in the highest one that it
    knows, where the ISA says the same of the instructions there; a refused `.version` would say
    nothing of them. Raises UsageError if the finding has no module, or there is no such target or
    version, and CannotBeAskedError if it is of what ran.

    Parameters
    ----------
    target, version
        Values of .target and .version in place of the finding's; a version that is given is asked
        for as it is.
    stand_in
        A target that is asked for where an assembler does not know the finding's.
    """

    def __init__(
        self,
        entry: Entry,
        *,
        target: str | None = None,
        version: str | None = None,
        rewriters: Sequence[Rewriter] = (),
        stand_in: str | None = None,
    ) -> None:
        if MODULE not in entry.finding.files:
            raise UsageError(
                f"finding {entry.id} has no {MODULE} that a compiler could be given; import it "
                "with one"
            )
        if lacks_images(entry):
            raise CannotBeAskedError(
                f"finding {entry.id} is a {entry.finding.kind}, which shows where its module runs, "
                f"and there is nothing that it could run on; import it with {INPUT} and {EXPECTED}"
            )
        if target is not None:
            parse_target(target)
        self._finding = msgspec.structs.replace(
            entry.finding,
            target=target or entry.finding.target,
            ptx_version=version or entry.finding.ptx_version,
        )
        self._own = parse_version(self._finding.ptx_version)
        self._fixed = version is not None
        self._ptx = entry.read(MODULE).decode(errors="replace")
        self._rewriters = tuple(rewriters)
        self._stand_in = stand_in

    def module_for(self, assemblers: Sequence[Assembler]) -> tuple[str, PtxVersion]:
        """Return the .target and .version in which all of some assemblers are asked.

        Raises CannotBeAskedError if there are none.
        """
        version = self._own
        if not self._fixed:
            version = min([version, *(assembler.highest_version for assembler in assemblers)])
        targets = [self._finding.target, *filter(None, [self._stand_in])]
        for target in targets:
            refusing = [one for one in assemblers if not one.accepts(version, target)]
            for one in () if refusing else assemblers:
                if said := one.refusal(target, target):
                    raise CannotBeAskedError(f"{one} does not take its options: {said}")
            if not refusing:
                self._check_same(version, target)
                return target, version
        raise CannotBeAskedError(
            f"{refusing[0]} takes no module with .version {version} and .target "
            f"{self._finding.target}, so that it cannot be asked about finding "
            f"{self._finding.id}; choose another --target"
        )

    def _check_same(self, version: PtxVersion, target: str) -> None:
        if version == self._own or target == self._stand_in:
            return
        there = expectation_of(self._finding, target=target, version=version)
        here = expectation_of(self._finding, target=target, version=self._own)
        if there is not here:
            raise CannotBeAskedError(
                f"with .version {version}, the highest that is known, the ISA says something else "
                f"of finding {self._finding.id} than with {self._own}, so that nothing is learnt"
            )

    def ask(
        self,
        askers: Sequence[tuple[Assembler, int | None]],
        *,
        among: Sequence[Assembler] = (),
    ) -> Sample:
        """Assemble once with each assembler at a level (None: its default).

        Raises CannotBeAskedError if an assembler cannot be asked, and InfrastructureError if a
        rewriter fails, or an assembler cannot be started.

        Parameters
        ----------
        among
            More assemblers that have to know the module's `.version`: those that this is compared
            with.
        """
        assemblers = list(dict.fromkeys([*(one for one, _ in askers), *among]))
        target, version = self.module_for(assemblers)
        text = with_header(self._ptx, target=target, version=version)
        for rewriter in self._rewriters:
            rewritten = rewriter(text)
            if isinstance(rewritten, Failure):
                raise InfrastructureError(f"finding {self._finding.id}: {rewritten.message}")
            text = rewritten
        verdicts = [
            judge_module(assembler, text, target=target, level=level) for assembler, level in askers
        ]
        for (assembler, _), verdict in zip(askers, verdicts, strict=True):
            if assembler.variant.asks_too_much("\n".join(verdict.messages)):
                raise CannotBeAskedError(f"{assembler.named}: {verdict.messages[0]}")
        seen = [verdict.outcome for verdict in verdicts]
        expected = expectation_of(self._finding, target=target, version=version)
        kinds = [kind for kind in (kind_of(expected, one) for one in seen) if kind is not None]
        was = self._finding.kind
        kind: Kind | None
        if was in kinds or (was is Kind.DIFFER and len(set(seen)) > 1):
            kind = was
        else:
            kind = max(kinds, key=lambda one: one.severity, default=None)
        return Sample(
            label=", ".join(outcome.name.lower() for outcome in seen),
            kind=kind,
            way=Way.JUDGED,
            message="\n".join(verdicts[0].messages) or verdicts[0].ending,
        )


def expectation_of(finding: Finding, *, target: str, version: PtxVersion) -> Expectation:
    """Return what the ISA, as the oracle knows it now, lets one expect of the instructions."""
    verdicts = [
        explain(text, target=target, ptx_version=str(version)).verdict
        for text in finding.instructions
    ]
    if Verdict.ILLEGAL in verdicts:
        return Expectation.REJECT
    open_ones = {Verdict.UNDEFINED, Verdict.NOT_JUDGED}
    return Expectation.ACCEPT if open_ones.isdisjoint(verdicts) else Expectation.OPEN


class ProgramProbe:
    """What a runner makes of a finding's program on its image.

    `target` and `version` are values of .target and .version; another target than the finding's has
    the program written anew. Raises UsageError if the target lacks an instruction of the program,
    and InfrastructureError if a file of the finding is broken.
    """

    def __init__(self, entry: Entry, *, target: str, version: str) -> None:
        subject, finding = subject_of(entry), entry.finding
        module = Module.named(target, version)
        for form in requirements(subject.program):
            if not is_available(form, module):
                raise UsageError(
                    f"finding {entry.id} has {form.opcode}, which {target} lacks with PTX ISA "
                    f"{version}; choose another --target or --ptx-version"
                )
        if target != finding.target:
            subject = replace(subject, module=emit(subject.program, module=module))
        elif version != finding.ptx_version:
            text = with_header(subject.module.ptx, target=target, version=version)
            subject = replace(subject, module=replace(subject.module, ptx=text, version=version))
        self.subject: Subject = subject

    def ask(self, runner: Runner, most: int = 1) -> Counter[Sample]:
        """Run the program up to so many times at once.

        Each copy of the image is a run, but where the finding needs copies in company: then all of
        a launch are one. Raises CannotBeAskedError if the runner cannot run it by design, and
        DeviceLostError if there is no device any more.
        """
        subject = self.subject
        alone = subject.copies == 1
        if alone:
            most = min(most, _AT_ONCE, most_copies(subject.program))
            subject = replace(subject, copies=most)
        with _asking():
            seen = attempt(runner, subject)
        copies = 1 if alone else subject.copies
        right = Sample(label="match", kind=None, copies=copies)
        if seen.kind is None:
            return Counter({right: subject.copies // copies})
        if seen.actual is None or seen.expected is None:
            kind, said = seen.kind, str(seen.failure)
            one = Sample(label=kind.value, kind=kind, way=Way.FAILED, message=said, copies=copies)
            return Counter({one: 1})
        wrong = seen.actual[(seen.actual != seen.expected).any(axis=1)]
        if not alone:
            label = f"{seen.kind.value} {_digest(distinct(wrong))}"
            return Counter({Sample(label=label, kind=seen.kind, copies=copies): 1})
        found = Counter({right: subject.copies - len(wrong)})
        for image in wrong:
            own = seen.kinds.get(image.tobytes(), seen.kind)
            told = _digest(image) if image.tobytes() in seen.kinds else "and others"
            found[right if own is None else Sample(label=f"{own.value} {told}", kind=own)] += 1
        return +found


class HandProbe:
    """What a runner makes of a case that a person wrote: a module, and the memory before and after.

    A folder for `warpfuzz corpus import` with `case.json`, `module.ptx`, `input.npy` and
    `expected.npy`, both uint8 of shape (1, bytes). The module's first entry keeps the convention
    of `runners.kernels`, and one warp runs; or there is a `launch.toml`. A difference is of the
    case's own kind: what the ISA says of it, the person knows.

    Raises UsageError if the module has no entry, and InfrastructureError if the images are none.
    """

    def __init__(self, entry: Entry) -> None:
        finding = entry.finding
        ptx = entry.read(MODULE).decode(errors="replace")
        name = kernel_name(ptx)
        if name is None:
            raise UsageError(
                f"{entry.path / MODULE} has no .entry; write the kernel that is to run"
            )
        self._kind = finding.kind
        self.setup: Setup | None = None
        self.image, self.expected = (unpack(entry, file) for file in (INPUT, EXPECTED))
        for file, array in ((INPUT, self.image), (EXPECTED, self.expected)):
            shape = (1, self.image.shape[-1] if self.image.ndim else 0)
            if array.dtype != np.uint8 or array.shape != shape:
                raise InfrastructureError(
                    f"{entry.path / file} holds {array.dtype} of shape {array.shape}; both images "
                    "are uint8 of shape (1, bytes)"
                )
        kernel = Kernel(entry=name, image_bytes=self.image.shape[1], warps_per_block=1)
        if LAUNCH in finding.files:
            rows = parse_launch(entry.read(LAUNCH), str(entry.path / LAUNCH))
            self.setup = setup_of(ptx, rows)
            (kernel,) = self.setup.module(ptx).kernels
        if kernel.image_bytes != self.image.shape[1]:
            raise InfrastructureError(
                f"{entry.path / LAUNCH} asks for images of {kernel.image_bytes} bytes, and "
                f"{INPUT} has {self.image.shape[1]}; restore the folder from a backup"
            )
        self.module = KernelModule(
            ptx=ptx, target=finding.target, version=finding.ptx_version, kernels=(kernel,)
        )

    def ask(self, runner: Runner, most: int = 1) -> Counter[Sample]:
        """Run the module up to so many times at once; raises as `ProgramProbe.ask`."""
        compiled = runner.compile(self.module)
        images = np.repeat(self.image, min(most, _AT_ONCE), axis=0)
        ran = compiled if isinstance(compiled, Failure) else runner.run(compiled, images)
        if not isinstance(ran, Ran):
            with _asking():
                kind = kind_of_failure(ran)
            failed = Sample(label=kind.value, kind=kind, way=Way.FAILED, message=str(ran))
            return Counter({failed: 1})
        return Counter(map(self._sample, ran.images))

    def _sample(self, actual: NDArray[np.uint8]) -> Sample:
        different = np.flatnonzero(actual != self.expected[0])
        if not len(different):
            return Sample(label="match", kind=None)
        return Sample(
            label=f"{self._kind.value} {_digest(actual)}",
            kind=self._kind,
            message=_described(different, self.expected[0], actual),
        )


@contextmanager
def _asking() -> Iterator[None]:
    """Turn what a runner cannot do by design into CannotBeAskedError."""
    try:
        yield
    except DeviceLostError:
        raise
    except InfrastructureError as error:
        raise CannotBeAskedError(str(error)) from error


def _described(
    different: NDArray[np.intp], expected: NDArray[np.uint8], actual: NDArray[np.uint8]
) -> str:
    first, count = int(different[0]), len(different)
    return (
        f"{count} byte{'s' if count > 1 else ''} differ{'' if count > 1 else 's'}; byte {first}: "
        f"expected 0x{expected[first]:02x}, actual 0x{actual[first]:02x}"
    )


def _digest(images: NDArray[np.uint8]) -> str:
    return hashlib.sha256(images.tobytes()).hexdigest()[:_DIGITS]


STAND_IN = "sm_80"
"""Known to every ptxas from 11.0 to 13.5, with every form that is not newer than its PTX ISA."""
_WORDS = {
    "accepted": "accepted",
    "rejected": "rejected",
    "internal": "internal error",
    "crashed": "crash",
    "hung": "hang",
    "unreadable": "unreadable",
}
"""What the record calls an outcome, by the label of a sample."""


class ReplayStatus(StrEnum):
    """What a new assembler does about a finding, beside the newest that was asked before."""

    MENDED = "mended"
    """Its result is right, and was wrong with the compiler before."""
    KEPT = "kept"
    """Its result is the same as with the compiler before."""
    CHANGED = "changed"
    """Its result is wrong, and another one than with the compiler before."""


def replay_status(before: str, now: str, kind: Kind | None) -> ReplayStatus:
    """Say what has become of an answer.

    `kind` is what a finding of the new answer is called; None where it is as the ISA says.
    """
    if before == now:
        return ReplayStatus.KEPT
    return ReplayStatus.MENDED if kind is None else ReplayStatus.CHANGED


def words_of(answer: Answer) -> str | None:
    """Return an answer as the record has it: "crash"; None if there is none, or several."""
    return _WORDS.get(answer.label)


def ask(assembler: Assembler, entry: Entry) -> Answer:
    """Assemble a finding's module at -O3, as all versions of the record were asked."""
    probe = ModuleProbe(entry, stand_in=STAND_IN)
    return asked(lambda _: Counter([probe.ask([(assembler, None)])]), times=1)
