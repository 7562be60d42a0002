"""Draws contents for a kernel, and runs it on the simulated device as the one that knows.

Only what the ISA decides is a reference: no races, nothing unwritten, no clocks, no addresses as
values. Contents are also what the kernel compares with: random ones rarely are the number that a
branch asks for.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fuzz.findings.launches import TYPES, BufferRow, Setup, own_text
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.parser import parse
from runners.simulated.scalar import APPROXIMATE
from runners.simulated.syntax import ImmediateText, InstructionText
from strategies.contents.expansion import below, filled

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
_ELSEWHERE = re.compile(r"(?:ld|ldu|st|bra|call|bar|barrier)\b")
"""Instructions whose constants no result turns on: addresses, and numbers of threads."""
_CONVERTS = re.compile(r"\bcvt\S*(?:\.[su]\d+\.b?f\d|\.b?f\d+\.[su]\d)")
_COMPARED = frozenset({"setp", "set", "mov", "min", "max", "slct"})
"""First words of instructions that compare, or give a register what is compared."""
_PACKED = {16: "<e", 32: "<f", 64: "<d"}


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
    approximate: NDArray[np.bool_]
    """Bytes that depend on approximate instructions: what is there is one of several results."""

    def beside(self, actual: Image) -> Image:
        """Return the image with those bytes as they came out, which nobody calls wrong."""
        return np.where(self.approximate, actual, self.image)


class Left(NamedTuple):
    """An image on which the kernel cannot be judged."""

    why: str
    kind: TrapKind | None = None  # what stopped it; None: the kernel does not decide the result


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
    most_steps: int | None = None  # of one run; None: as many as any run may take
    steps: int = field(default=0, init=False)  # most that a run took

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


class Edges(NamedTuple):
    """Words of a type at which results may turn; neither is empty."""

    exact: NDArray[np.uint64]
    """What the kernel compares with, or, if it compares with none, all of its constants."""
    near: NDArray[np.uint64]  # one more and one less than any constant


def edges_of(ptx: str, setup: Setup) -> Mapping[str, Edges]:
    """Return the edges of an entry by the types of its buffers; none where it cannot be read."""
    text = own_text(ptx, setup.entry)
    try:
        listing = parse(text)
    except SimulatedTrap:
        return {}
    bodies = [each.body or () for each in (*listing.entries.values(), *listing.functions.values())]
    named = [pair for body in bodies for one in body for pair in _named(one)]
    given = [one for one in setup.arguments.values() if not isinstance(one, BufferRow)]
    compared = any(word in _COMPARED for word, _ in named)
    exact = [number for word, number in named if word in _COMPARED or not compared] + given
    every = [number for _, number in named] + given
    converts, made = bool(_CONVERTS.search(text)), {}
    for kind in {row.type for row in setup.buffers.values()}:
        exactly, all_ = (_words(some, kind, converts) for some in (exact, every))
        if exactly.size:
            mask, step = np.uint64((1 << TYPES[kind]) - 1), np.uint64(1)
            made[kind] = Edges(exactly, np.unique(np.append(all_ - step, all_ + step) & mask))
    return made


def _named(one: InstructionText) -> Iterator[tuple[str, int | float]]:
    """Iterate over the constants of an instruction, each with its first word."""
    for given in one.operands if not _ELSEWHERE.match(one.opcode) else ():
        if isinstance(given, ImmediateText):
            bits = given.float_bits
            raw = given.value.to_bytes(bits // 8, "little") if bits else b""
            number = struct.unpack(_PACKED[bits], raw)[0] if bits else given.value
            yield one.opcode.partition(".")[0], number


def _words(numbers: list[int | float], type_: str, converts: bool) -> NDArray[np.uint64]:
    """Return numbers as words of a type; `converts`: integers as floating-point ones, and back."""
    bits = TYPES[type_]
    found = dict[int, None]()
    for number in numbers:
        if isinstance(number, int):
            found[number & (1 << bits) - 1] = None
        elif converts and abs(number) < 2.0**63:
            found[int(number) & (1 << bits) - 1] = None
        if bits > 8 and (converts or isinstance(number, float)):
            try:
                packed = struct.pack(_PACKED[32 if type_ == "bf16" else bits], float(number))
            except OverflowError:
                continue
            found[int.from_bytes(packed, "little") >> (16 if type_ == "bf16" else 0)] = None
    return np.array([one & (1 << bits) - 1 for one in found], np.uint64)


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
            turns = draw.integers(2, size=chosen.size)
            words[chosen] = np.choose(turns, [draw.choice(one, chosen.size) for one in found])
    return image
