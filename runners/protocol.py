"""What runners promise: whole images after a program, or a `Failure`; UsageError if misused."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from runners.kernels import Kernel, KernelModule, ScreeningKernel
from runners.variants import PLAIN, Variant

T_co = TypeVar("T_co", covariant=True)

Images = NDArray[np.uint8]  # memory images, uint8 of shape (count, image_bytes)


NO_SM = 0xFFFFFFFF  # in place of a multiprocessor's number where nobody knows it


class Trouble(IntEnum):
    """Why a runner has no images to show, from the mildest to the worst."""

    UNSUPPORTED = 1
    """The runner cannot do this by design: another target, a form that it does not know."""
    UNAVAILABLE = 2
    """Something that the runner needs is not installed."""
    COMPILE_FAILURE = 3
    """The assembler or the driver's compiler refused the module, or broke on it."""
    LAUNCH_FAILURE = 4
    """The launch was refused or failed, and the device works on."""
    DIVERGENCE = 5
    """A warp-level instruction met lanes of its warp apart, or operands on which they disagree:
    undefined behaviour, which no emitted program has, and which hardware need not show."""
    STICKY_ERROR = 6
    """The program raised an error that poisons the context: a misaligned or illegal address."""
    HANG = 7
    """The launch did not end by its deadline and was killed."""
    CRASH = 8
    """The process that drives the device died."""
    CORRUPTED_REPLY = 9
    """The process that drives the device answered something that cannot be trusted."""
    DEVICE_LOST = 10
    """There is no device, or none that passes its self-check."""


_NEWER = re.compile(r"Unsupported \.version ([\d.]+); current version is '([\d.]+)'")
"""What ptxas 11.8 to 13.3 and the driver 580.159.04 say of PTX newer than theirs."""
_SAID_CHARACTERS = 400
"""Characters that are kept of a tool's output, in one line; the rest rarely helps."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run or a compilation that gave nothing to compare."""

    trouble: Trouble
    message: str  # one sentence: what happened, and what to do where something can be done
    detail: str = ""  # what the tool or the device said, verbatim and bounded

    def __str__(self) -> str:
        return f"{self.trouble.name.lower().replace('_', ' ')}: {self.message}"

    @property
    def line(self) -> str:
        """The failure in one line, with the beginning of what the tool or the device said."""
        lines = (" ".join(line.split()).rstrip(";") for line in self.detail.splitlines())
        said = "; ".join(filter(None, lines))[:_SAID_CHARACTERS]
        return f"{self}: {said}" if said else f"{self}"


def refused(message: str, said: str, ptx: str = "", variant: Variant = PLAIN) -> Failure:
    """Return that a compiler refuses a module, and what it said.

    It is unsupported where the PTX is newer than it reads, or needs more registers than there are.
    """
    newer, trouble = _NEWER.search(said), Trouble.COMPILE_FAILURE
    if newer is not None:
        trouble = Trouble.UNSUPPORTED
        message += (
            f": it reads PTX ISA up to {newer[2]}, and what was written is {newer[1]}; "
            "have a newer ptxas assemble it (--assembler), or an older compiler write it"
        )
    elif variant.asks_too_much(said, ptx):
        trouble = Trouble.UNSUPPORTED
        message += ", which needs more registers than a thread may have"
    return Failure(trouble=trouble, message=message, detail=said)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ran:
    """Images after the program, one for one and in order."""

    images: Images  # read-only
    sms: NDArray[np.uint32]  # (count,): number of the multiprocessor that ran each, or NO_SM
    seconds: float  # wall time of copies and kernels


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A module in the form in which one runner executes it."""

    module: KernelModule
    architecture: str  # whose machine code (or model) runs: "sm_90"
    compiler: str  # what translated the PTX, with version and optimisation level
    key: str  # hash of everything that decides the machine code
    code: bytes = b""  # what is loaded onto the device; empty where the runner reads the PTX itself
    optimization: int | None = None
    """-O level for the driver's compiler; None where the code is machine code already."""
    release: str = ""
    """Release of CUDA whose compiler makes the machine code: "12.4", or "unknown"; empty where the
    PTX is run as it is."""

    @property
    def oracle_target(self) -> str:
        """The oracle's target: "sm_90", or "sm_90@12.4" (`oracle.isa.targets.split_compiler`)."""
        return f"{self.architecture}@{self.release}" if self.release else self.architecture


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a runner can run."""

    name: str  # of the runner: "cuda" or "sim"
    targets: frozenset[str]  # values of `.target` that it takes
    description: str  # one line for a person: the device, the driver, the seed of a simulation


class Later(Protocol[T_co]):
    """A result on its way."""

    def collect(self) -> T_co:
        """Wait for it; a second call returns the same value."""


Pending: TypeAlias = Later[Ran | Failure]  # a batch on its way


@dataclass(frozen=True, kw_only=True)
class Collected(Generic[T_co]):
    """A result that is there already."""

    outcome: T_co

    def collect(self) -> T_co:
        """Return it."""
        return self.outcome


@runtime_checkable
class Runner(Protocol):
    """Somewhere to run programs. A context manager that leaves no process behind."""

    def capabilities(self) -> Capabilities | Failure:
        """Say what can run here, or why nothing can."""

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Translate a module; kernels of one module share the work."""

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        """Start a batch; `images` must stay as they are until it is collected.

        Several batches may be on their way; they run in the order of submission.

        Raises UsageError if the images do not fit the kernel, or the module has no such entry.
        """

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        """Run a batch and wait for it."""

    def close(self) -> None:
        """Give everything back; further requests raise UsageError."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class ClosedAtTheEnd(ABC):
    """A runner, or what holds some, as a context: all is released where the context ends."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_open(closed: bool) -> None:
    """Raise UsageError if a runner is closed."""
    if closed:
        raise UsageError("the runner is closed; make a new one")


class ForwardingRunner(ClosedAtTheEnd):
    """A runner that has another one, closed with it, do everything; who derives changes a part."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def inner(self) -> Runner:
        """The runner that this one forwards to."""
        return self._runner

    def capabilities(self) -> Capabilities | Failure:
        """Say what the runner can run."""
        return self._runner.capabilities()

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Translate a module, as the runner does."""
        return self._runner.compile(module)

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        """Start a batch, as the runner does."""
        return self._runner.submit(compiled, images, entry=entry)

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        """Run a batch and wait for it, as the runner does."""
        return self._runner.run(compiled, images, entry=entry)

    def close(self) -> None:
        """Close the runner."""
        self._runner.close()


@runtime_checkable
class Lender(Protocol):
    """A runner with memory of its own, from which it takes a batch without copying it."""

    def lease(self, count: int, image_bytes: int) -> Images:
        """Return an array, uint8 (count, image_bytes), to fill; InfrastructureError: no memory."""


def check_images(kernel: Kernel, images: Images) -> None:
    """Raise UsageError unless the kernel takes images once (`Kernel`), and these fit it."""
    if isinstance(kernel, ScreeningKernel):
        raise UsageError(
            f"{kernel.entry} runs images again and again and compares them; emit the program with "
            "emit, or call screen"
        )
    check_shape(kernel, images)


def check_shape(kernel: Kernel, images: Images) -> None:
    """Raise UsageError unless the images are as many and as large as the kernel takes."""
    if images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != kernel.image_bytes:
        raise UsageError(
            f"images of {kernel.entry} must be uint8 of shape (count, {kernel.image_bytes}), and "
            f"{images.dtype} of shape {images.shape} was given"
        )
    if len(images) >= 1 << 31:
        raise UsageError(f"{len(images)} images were given; a batch holds 2^31 - 1, so split it")
