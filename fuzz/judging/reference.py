"""What a kernel does on the simulated device, and which kernels nobody can be judged by.

Only what the ISA decides is a reference: no races, nothing that was never written, no clocks, no
addresses as values. Each image runs twice, the second time at another address and with other
garbage in what nobody wrote; what differs then is not the kernel's to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fuzz.findings.launches import Setup
from oracle.errors import UsageError
from oracle.statements import without_comments
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind

Image = NDArray[np.uint8]

_UNDECIDED = re.compile(
    r"%(?:clock|globaltimer|n?smid|n?warpid|gridid|pm\d|envreg|total_smem_size|aggr_smem_size)\w*"
    r"|\b(?:activemask|elect\.sync)\b"
)
"""What the device decides, or its compiler (PTX ISA 10, 9.7.13.9, 9.7.13.17)."""
_ROUNDED = re.compile(
    r"\b(add|sub|mul)((?:\.ftz)?(?:\.sat)?\.(?:f16x2|bf16x2|f16|bf16|f32|f64)\b)", re.ASCII
)
"""Without a rounding a compiler may fuse a product and a sum (PTX ISA 9.7.3.3 to .5)."""
_VARIABLE = re.compile(r"^\s*(?:\.(?:visible|weak|extern)\s+)*\.global\b[^;=\[]*", re.MULTILINE)
_APPROXIMATE = re.compile(r"\b(?:ex2|lg2|sin|cos|tanh|rcp|rsqrt|sqrt|div)\.(?:approx|full)")


def rounded(ptx: str) -> tuple[str, int]:
    """Return a module whose sums and products all name their rounding, and how many lacked it."""
    return _ROUNDED.subn(r"\1.rn\2", ptx)


def undecided(ptx: str) -> str:
    """Say where a kernel first asks for what the device decides; "" if it nowhere does."""
    text = without_comments(ptx)
    found = _UNDECIDED.search(text)
    if found is None:
        return ""
    line = text.count("\n", 0, found.start()) + 1
    return (
        f"line {line}: {found[0]} is what the device or the compiler decides, so that nothing that "
        "follows from it can be compared; take it out"
    )


def check_forgetful(ptx: str) -> None:
    """Raise UsageError for a module with variables in global memory, which launches may change."""
    found = _VARIABLE.search(without_comments(ptx))
    if found is not None:
        raise UsageError(
            f"the module has {' '.join(found[0].split())} in global memory, which a launch may "
            "leave changed to the next one, and the simulated device does not know the kernel"
        )


def is_approximate(ptx: str) -> bool:
    """Whether a module has instructions of whose results the ISA bounds the error alone."""
    return _APPROXIMATE.search(without_comments(ptx)) is not None


@dataclass(frozen=True, kw_only=True, eq=False)
class Left:
    """An image on which the kernel cannot be judged."""

    why: str
    kind: TrapKind | None = None
    """What stopped it; None where the result is nothing that the kernel decides."""


@dataclass(kw_only=True)
class Reference:
    """The simulated device as the one that knows."""

    target: str
    most_steps: int | None = None
    """Of one run; None: as many as any may take."""
    steps: int = field(default=0, init=False)
    """Most that a run took."""

    def __post_init__(self) -> None:
        self.device = SimulatedDevice(self.target)
        self._other = SimulatedDevice(self.target, otherwise=True)

    def refusal(self, ptx: str) -> str:
        """Return why the device does not load a module; "" if it does."""
        try:
            self.device.load(ptx)
        except SimulatedTrap as trap:
            return str(trap)
        return ""

    def after(self, ptx: str, setup: Setup, image: Image, *, sure: bool = True) -> Image | Left:
        """Return an image as the kernel leaves it.

        Parameters
        ----------
        sure
            Whether to run it the second time, too.
        """
        try:
            found = [
                device.load(ptx).launch_grid(
                    setup.entry, image, setup.launch, most_steps=self.most_steps
                )
                for device in (self.device, self._other)[: 1 + sure]
            ]
        except SimulatedTrap as trap:
            return Left(why=str(trap), kind=trap.trap.kind)
        self.steps = max(self.steps, found[0].steps)
        if not np.array_equal(found[0].image, found[-1].image):
            return Left(
                why="what comes out depends on an address, a clock, who is active, or on a "
                "register, memory or a lane that the kernel never gave a value"
            )
        return found[0].image
