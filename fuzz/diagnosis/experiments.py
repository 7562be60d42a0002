"""Experiments on a device: programs that are run there, and what they show to be wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from corpus import Kind
from fuzz.runner import kind_of_failure
from oracle.bounds.permission import contradicting
from oracle.errors import UndefinedProgramError, UsageError
from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.lookup import INSTRUCTIONS
from oracle.isa.targets import Module
from oracle.program.program import Program
from runners.emission import emit, emit_all
from runners.isolation import Isolation, isolate
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Runner, Trouble

_FAILED_RUNS = 24
"""Failed runs of one batch of at most some 20 images, before the rest counts as wrong."""
IN_PLACE = "d in the registers of a multiplicand"
"""What is said where D shares registers with A or B, which ptxas gets wrong (docs/findings.md)."""
CODE = "scalar code"
"""What a step is called that is code of lanes; `fuzz.diagnosis.scalar` tells more."""
_UNITS = {"f64": "f64", "b1": "single bits"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Witness:
    """A program that comes out wrong, and the images that do."""

    program: Program
    images: Images


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """What experiments show to be wrong, and a program that shows it."""

    instructions: tuple[str, ...]
    """As PTX spells them, or other steps in words, those that tell most first; with what they are
    restricted to, such as "mma.sync of 8-bit floats". Several where only all together are wrong, or
    nothing that a program sees tells them apart."""
    condition: str = ""
    """Without which it is right."""
    form: Form | None = None
    """The instruction in which operands share registers."""
    together: bool = False
    """Whether each step was right by itself: of a smaller program less may be named."""
    witness: Witness | None = field(default=None, compare=False)
    """A program of nothing but what it takes to see it."""

    @property
    def name(self) -> str:
        """The instructions in a line."""
        return " and ".join(self.instructions)

    @property
    def key(self) -> str:
        """What findings of one cause have in common."""
        return f"{self.name}/{self.condition}" if self.condition else self.name


@dataclass(kw_only=True)
class Remembered:
    """What experiments on a runner have shown, so that each program need not show it again."""

    right_alone: dict[str, bool] = field(default_factory=dict)
    """By opcode: whether a multiplication is right by itself."""
    believed: set[str] = field(default_factory=set)
    """Keys of culprits that every experiment has shown of some program."""
    alike: dict[tuple[str, str, Module], tuple[str, ...]] = field(default_factory=dict)
    """By scalar instruction, what stands for its predicate, and module: what is wrong like it."""


class ExperimentDevice:
    """A device on which programs are tried.

    Parameters
    ----------
    copies
        Warps of a launch that work on each image; it is right if all of them are.
    remembered
        What was found out before on this runner. It is added to.
    """

    def __init__(
        self,
        runner: Runner,
        module: KernelModule,
        *,
        copies: int = 1,
        remembered: Remembered | None = None,
    ) -> None:
        self._runner, self._copies = runner, copies
        self.remembered = Remembered() if remembered is None else remembered
        self.module = Module.named(module.target, module.version)
        self.target = module.target
        """Whose model computes: that of the device, once something ran there."""

    def results(self, program: Program, images: Images) -> Results | None:
        """Run a program; None if it cannot be asked: it is undefined, or not for this runner.

        Raises DeviceLostError if the device is gone, and InfrastructureError if something is
        missing that the runner needs.
        """
        (found,) = self.results_of([(program, images)])
        return found

    def results_of(
        self, tried: Sequence[tuple[Program, Images]], modules: Sequence[KernelModule] = ()
    ) -> list[Results | None]:
        """Run programs, each on images of its own; as `results` does.

        They are kernels of one module, which is compiled in a sixth of the time of 16 modules
        (ptxas 13.0.88 and 13.5.37, 2026-11); each is a module where that one cannot be compiled,
        and where one of `modules`, those in which they stand, is not what it is emitted as.
        """
        found: list[Results | None] = []
        with suppress(UsageError, UndefinedProgramError):
            named = {f"kernel_{index}": program for index, (program, _) in enumerate(tried)}
            if len(tried) > 1 and all(
                emit(program, module=self.module, entry=module.kernels[0].entry) == module
                for (program, _), module in zip(tried, modules, strict=False)
            ):
                together = self._runner.compile(emit_all(named, module=self.module))
                if isinstance(together, Compiled):
                    for entry, (program, images) in zip(named, tried, strict=True):
                        found.append(None)
                        with suppress(UsageError, UndefinedProgramError):
                            found[-1] = self._results(program, images, together, entry)
                    return found
        for index, (program, images) in enumerate(tried):
            found.append(None)
            with suppress(UsageError, UndefinedProgramError):
                made = modules[index] if modules else emit(program, module=self.module)
                found[-1] = self._results(program, images, self._runner.compile(made))
        return found

    def _results(
        self,
        program: Program,
        images: Images,
        compiled: Compiled | Failure,
        entry: str | None = None,
    ) -> Results | None:
        target = self.target if isinstance(compiled, Failure) else compiled.oracle_target
        expected = execute(program, images, target=target).images
        self.target, count = target, len(images)
        many, many_expected = (np.repeat(one, self._copies, axis=0) for one in (images, expected))
        if isinstance(compiled, Failure):
            came = Isolation.of_nothing(many, compiled)
        else:
            came = isolate(self._runner, compiled, many, entry=entry, limit=_FAILED_RUNS)
        failed: dict[int, Kind] = {}
        if came.last is not None:
            if came.last.trouble is Trouble.UNSUPPORTED:
                return None
            kind = kind_of_failure(came.last)
            failed = {} if came.ran.any() or came.culprits else dict.fromkeys(range(count), kind)
        for one in came.culprits:
            failed[one.index // self._copies] = kind_of_failure(one.failure)
        wrong = ~came.ran
        wrong[contradicting(program, many, came.images, target=target, expected=many_expected)] = (
            True
        )
        differs = wrong.reshape(count, self._copies)
        shown = np.arange(count) * self._copies + differs.argmax(axis=1)
        return Results(
            wrong=np.asarray(differs.any(axis=1)), ran=came.ran[shown], actual=came.images[shown],
            expected=expected, failed=failed, target=target,
        )  # fmt: skip

    def witnesses(self, tried: Sequence[tuple[Program, Images]]) -> list[Witness | None]:
        """Run programs; return each with the images that are wrong, None where none is known."""
        return [
            None
            if found is None or not found.wrong.any()
            else Witness(program=program, images=images[found.wrong])
            for (program, images), found in zip(tried, self.results_of(tried), strict=True)
        ]

    def witness(self, program: Program, images: Images) -> Witness | None:
        """Run a program; return it with the images that are wrong, None where none is known."""
        return self.witnesses([(program, images)])[0]

    def right(self, program: Program, image: NDArray[np.uint8]) -> bool:
        """Whether a program comes out right on an image; False if it cannot be asked."""
        return self.all_right(program, image[None])

    def all_right(self, program: Program, images: Images) -> bool:
        """Whether a program comes out right on all images; False if it cannot be asked."""
        results = self.results(program, images)
        return results is not None and not results.wrong.any()


@dataclass(frozen=True, kw_only=True, eq=False)
class Results:
    """What came of some images."""

    wrong: NDArray[np.bool_]
    """(count,): which are not what the model says, or have no result."""
    ran: NDArray[np.bool_]
    """(count,): which have one."""
    actual: Images
    expected: Images
    failed: Mapping[int, Kind]
    """What a failure is called, by the image; none of those that were not found out."""
    target: str
    """Whose model this is judged by."""


def name_of_form(form: Form) -> str:
    """Name an instruction; of the sparse ones plain and ordered metadata are no difference.

    ptxas makes the same code of both (2026-11-23).
    """
    return INSTRUCTIONS[form.mnemonic].name.partition("::")[0]


def unit_of(form: Form) -> str:
    """Name what multiplies: types that one unit takes."""
    name = form.a_type.name
    return _UNITS.get(name, name if form.a_type.is_float else f"{form.a_type.bits}-bit integers")


def arithmetic_of(form: Form) -> str:
    """Name the arithmetic of a multiplication: types that are computed with in one way."""
    if form.a_type.name in _UNITS:
        return _UNITS[form.a_type.name]
    return "floats" if form.a_type.is_float else "integers"
