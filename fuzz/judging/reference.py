"""Runs a kernel on the simulated device, and refuses kernels that have no single right result.

Only what the ISA decides is a reference: no races, nothing that was never written, no clocks, no
addresses as values. Each image runs twice, the second time at another address and with other
garbage in what nobody wrote; what differs then is not the kernel's to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fuzz.findings.launches import TYPES, BufferRow, Setup, own_text
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from strategies.contents.buffers import below, filled

Image = NDArray[np.uint8]

_UNDECIDED = re.compile(
    r"%(?:clock|globaltimer|n?smid|n?warpid|gridid|pm\d|envreg|total_smem_size|aggr_smem_size)\w*"
    r"|\b(?:activemask|elect\.sync)\b|\b(?P<order>(?:atom|red)\b[\w.:]*\.add[\w.:]*\.b?f\d+x?\w*)"
)
"""What the device decides, or its compiler (PTX ISA 10, 9.7.13.9, 9.7.13.17), and sums whose
rounding goes by an order that the ISA leaves open (9.7.13, atom and red)."""
_ROUNDED = re.compile(
    r"(?<![\w.])(add|sub|mul)((?:\.ftz)?(?:\.sat)?\.(?:f16x2|bf16x2|f16|bf16|f32|f64)\b)", re.ASCII
)
"""Without a rounding a compiler may fuse a product and a sum (PTX ISA 9.7.3.3 to .5)."""
_VARIABLE = re.compile(
    r"^\s*(?:\.(?:visible|weak|extern)\s+)*\.global\b[^;=\[]*?([\w$%]+)\s*(?=[;=\[])", re.MULTILINE
)
_APPROXIMATE = re.compile(r"\b(?:ex2|lg2|sin|cos|tanh|rcp|rsqrt|sqrt|div)\.(?:approx|full)")


def rounded(ptx: str) -> str:
    """Return a module whose sums and products all name their rounding."""
    return _ROUNDED.sub(r"\1.rn\2", ptx)


def without_rounding(text: str) -> int:
    """Return how many sums and products of a text do not name their rounding."""
    return len(_ROUNDED.findall(text))


def undecided(text: str) -> str:
    """Say where a text first asks for what the device decides; "" if it nowhere does."""
    found = _UNDECIDED.search(text)
    if found is None:
        return ""
    line = text.count("\n", 0, found.start()) + 1
    what = f"the order of {found[0]}" if found["order"] else found[0]
    return (
        f"line {line}: {what} is what the device or the compiler decides, so that nothing that "
        "follows from it can be compared; take it out"
    )


def forgetting(text: str) -> str:
    """Say which variable in global memory a launch may leave changed; "" if there is none."""
    for found in _VARIABLE.finditer(text):
        if len(re.findall(rf"(?<![\w$%]){re.escape(found[1])}(?![\w$])", text)) > 1:
            return f"a launch may leave {' '.join(found[0].split())} changed to the next one"
    return ""


def is_approximate(ptx: str, entry: str) -> bool:
    """Whether a kernel has instructions of whose results the ISA bounds the error alone."""
    return _APPROXIMATE.search(own_text(ptx, entry)) is not None


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
    """Most steps of one run; None: as many as any run may take."""
    steps: int = field(default=0, init=False)
    """Most that a run took."""

    def __post_init__(self) -> None:
        self.device = SimulatedDevice(self.target)
        self._other = SimulatedDevice(self.target, otherwise=True)

    def at_most(self, times: int) -> Reference:
        """Return one for smaller kernels: what takes so many times the steps runs for ever."""
        return Reference(target=self.target, most_steps=times * self.steps + 1000)

    def refusal(self, ptx: str, entry: str) -> str:
        """Return why the device does not load an entry of a module; "" if it does."""
        try:
            found = self.device.load(ptx).kernels.get(entry)
        except SimulatedTrap as trap:
            return str(trap)
        return str(found) if isinstance(found, SimulatedTrap) else ""

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


def image_of(setup: Setup, *, seed: int, number: int) -> NDArray[np.uint8]:
    """Return an image, uint8 (image_bytes,); what is nobody's is random, too."""
    whole = filled("b", 64, setup.image_bytes, seed=seed, image=1 + 4 * number, buffer=0)
    image = np.frombuffer(whole, np.uint8).copy()
    for index, (name, row) in enumerate(setup.buffers.items(), start=1):
        start = setup.offsets[name]
        data = _contents(row, seed=seed, image=number, buffer=index)
        image[start : start + row.bytes] = np.frombuffer(data, np.uint8)
    return image


def _contents(row: BufferRow, *, seed: int, image: int, buffer: int) -> bytes:
    bits = TYPES[row.type]
    if row.fill == "zeros":
        return bytes(row.bytes)
    if row.fill == "count":
        count = -(-row.bytes * 8 // bits)
        return np.arange(count).astype(f"<u{bits // 8}").tobytes()[: row.bytes]
    if row.below is not None:
        return below(row.below, bits, row.bytes, seed=seed, image=image, buffer=buffer)
    kind = row.type.rstrip("0123456789")
    return filled(kind, bits, row.bytes, seed=seed, image=image, buffer=buffer)
