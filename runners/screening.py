"""What a runner promises that can screen: every multiprocessor runs all images and compares them.

The expected images come from the caller; what the device wrote down is all that comes back.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from oracle.errors import UsageError
from runners.cuda.libraries import DeviceHealth
from runners.kernels import KernelModule, ScreeningKernel
from runners.ledger import Ledger
from runners.protocol import Compiled, Failure, Images, Later, Runner, check_shape

_NUMBERS = itertools.count()


@dataclass(frozen=True, kw_only=True, eq=False)
class References:
    """Images of one program and what it has to make of them, in memory that must not change.

    A runner need not be given them twice. Raises UsageError if the two are not alike, or empty.
    """

    images: Images  # uint8 (count, image_bytes), before the program
    expected: Images  # uint8 (count, image_bytes), after it
    drawn: tuple[int, ...] = ()  # numbers of the images in their recipe; empty: as they lie here
    number: int = field(default_factory=_NUMBERS.__next__)
    """Tells these from all others of this process."""

    def only(self, index: int) -> References:
        """Return one image with what must come out."""
        part = slice(index, index + 1)
        return References(images=self.images[part], expected=self.expected[part])

    def __post_init__(self) -> None:
        if self.images.shape != self.expected.shape or not len(self.images):
            raise UsageError(
                f"{self.images.shape} images and {self.expected.shape} expected ones were given; "
                "there must be as many, of the same size, and at least one"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Screened:
    """A screening launch that ended."""

    ledger: Ledger
    seconds: float  # from the launch to its end
    health: DeviceHealth | None  # while it ran; None where not asked for, or there are no readings


Screening: TypeAlias = Later[Screened | Failure]  # a screening launch on its way


@runtime_checkable
class Screener(Runner, Protocol):
    """A runner that can screen."""

    def prepare(self, module: KernelModule) -> Compiled | Failure:
        """Translate a module without waiting for the device; the first launch of it may fail."""
        ...

    def screen(
        self, compiled: Compiled, references: References, *, limit: int, entry: str | None = None,
        examine: bool = False,
    ) -> Screening:  # fmt: skip
        """Start a launch in which every multiprocessor takes `limit` images.

        They are taken from the first to the last and again, by a kernel of `emit_screening`;
        without an `entry`, the only one. Launches and batches run in the order in which they were
        asked for. `examine`: whether to read the device's sensors meanwhile. Raises UsageError as
        `screening_kernel` does.
        """
        ...


def screening_kernel(
    module: KernelModule, entry: str | None, references: References, limit: int
) -> ScreeningKernel:
    """Return the kernel that is asked for.

    Raises UsageError if there is none, it is no screening kernel, the images do not fit it or the
    limit is not in 1 to 2^31 - 1.
    """
    kernel = module.kernel(entry)
    if not isinstance(kernel, ScreeningKernel):
        raise UsageError(
            f"{kernel.entry} runs images once and does not compare; emit it with emit_screening"
        )
    check_shape(kernel, references.images)
    if not 0 < limit < 1 << 31:
        raise UsageError(f"a limit of {limit} images was given; it must lie in 1 to 2^31 - 1")
    return kernel
