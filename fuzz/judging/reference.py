"""Runs a kernel on the simulated device, and refuses kernels that have no single right result.

Only what the ISA decides is a reference: no races, nothing that was never written, no clocks, no
addresses as values. Each image runs twice, the second time at another address and with other
garbage in what nobody wrote; what differs then is not the kernel's to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fuzz.findings.launches import TYPES, Setup, own_text
from fuzz.judging.edges import Edges
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.scalar import APPROXIMATE
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


def rounded(text: str) -> tuple[str, int]:
    """Return a text whose sums and products all name their rounding, and how many did not."""
    return _ROUNDED.subn(r"\1.rn\2", text)


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


def approximations(ptx: str, entry: str) -> tuple[str, ...]:
    """Return the opcodes of a kernel of whose results the ISA bounds the error alone."""
    found = re.findall(rf"(?<![\w.]){APPROXIMATE.pattern}[\w.]*", own_text(ptx, entry))
    return tuple(dict.fromkeys(found))


class Expected(NamedTuple):
    """What the simulated device makes of images; the axes are those of the images."""

    image: Image
    """uint8."""
    approximate: NDArray[np.bool_]
    """Bytes that depend on approximate instructions: what is there is one of several results."""

    def beside(self, actual: Image) -> Image:
        """Return the image with those bytes as they came out, which nobody calls wrong."""
        return np.where(self.approximate, actual, self.image)


class Left(NamedTuple):
    """An image on which the kernel cannot be judged."""

    why: str
    kind: TrapKind | None = None
    """What stopped it; None where the result is nothing that the kernel decides."""


def refused_by(device: SimulatedDevice, ptx: str, entry: str) -> SimulatedTrap | None:
    """Return why the simulated device does not run an entry of a module; None if it does."""
    try:
        found = device.load(ptx).kernels.get(entry)
    except SimulatedTrap as trap:
        return trap
    return found if isinstance(found, SimulatedTrap) else None


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

    def after(self, ptx: str, setup: Setup, image: Image, *, sure: bool = True) -> Expected | Left:
        """Return an image as the kernel leaves it; without `sure` it runs once alone."""
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
        return Expected(found[0].image, found[0].approximate)


_EDGES = 4
"""One of so many elements of every other image is at an edge of the kernel's own, or is not."""


def image_of(
    setup: Setup, *, seed: int, number: int, edges: Mapping[str, Edges] | None = None
) -> NDArray[np.uint8]:
    """Return an image, uint8 (image_bytes,); what is nobody's is random, too.

    Of every other image some elements, or nearly all, are `edges` of the kernel, by their types.
    """
    whole = filled("b", 64, setup.image_bytes, seed=seed, image=1 + 4 * number, buffer=0)
    image = np.frombuffer(whole, np.uint8).copy()
    for index, (name, row) in enumerate(setup.buffers.items(), start=1):
        bits, kind = TYPES[row.type], row.type.rstrip("0123456789")
        names = {"seed": seed, "image": number, "buffer": index}
        if row.fill != "drawn":
            numbers = np.arange(-(-row.bytes * 8 // bits)) * (row.fill == "count")
            data = numbers.astype(f"<u{bits // 8}").tobytes()[: row.bytes]
        elif row.below is not None:
            data = below(row.below, bits, row.bytes, **names)
        else:
            data = filled(kind, bits, row.bytes, **names)
        part = image[setup.offsets[name] :][: row.bytes]
        part[:] = np.frombuffer(data, np.uint8)
        found = edges and edges.get(row.type)
        if number % 2 and row.fill == "drawn" and row.below is None and found:
            words = part[: row.bytes * 8 // bits * bits // 8].view(f"<u{bits // 8}")
            draw = np.random.default_rng([seed, number, index])
            # Two inputs at rare constants at once are met where nearly all elements are such.
            often = number % 4 == 3
            chosen = np.flatnonzero((draw.integers(_EDGES, size=words.size) == 0) ^ often)
            turns = draw.integers(4, size=chosen.size)
            last = found.exact if often else found.derived
            offers = (found.exact, found.near, found.derived, last)
            words[chosen] = np.choose(turns, [draw.choice(one, chosen.size) for one in offers])
    return image
