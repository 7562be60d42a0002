"""Programs of warp-level matrix instructions: what one warp does to one memory image.

An *image* is the global buffers, back to back, each at a multiple of its alignment, the whole
rounded up to 256 bytes; shared buffers lie so in memory of the warp's own, undefined at first.
A batch of images is uint8 (count, image_bytes), one warp a row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.program.operands import (
    IMAGE_ALIGNMENT,
    Buffer,
    Place,
    Use,
    Word,
    check,
    check_range,
    listed,
)
from oracle.program.steps import Step

MAX_WORK = 2048
"""Most work of a program, see `work`; drawn programs have 350 at most (30,000 of them, 2026-11)."""
MAX_BYTES = {"global": 1 << 21, "shared": 227 << 10}
"""Most bytes of a space: drawn images have 1 MiB, a block 227 KiB of shared memory."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """Buffers and the steps that one warp takes on them; UsageError says what cannot be."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        names = [buffer.name for buffer in self.buffers]
        check(len(set(names)) == len(names), f"buffer names repeat: {', '.join(names)}")
        spaces = {buffer.name: buffer.space for buffer in self.buffers}
        check("global" in spaces.values(), "no buffer is global; results need one to be seen in")
        for space, most in MAX_BYTES.items():
            size = _lay_out(self.buffers, space)[1]
            check(size <= most, f"{space} buffers take {size} bytes; at most {most} are possible")
        amount = work(self.steps)
        text = f"the program takes {amount} steps, counted as often as they may run; at most "
        check(amount <= MAX_WORK, f"{text}{MAX_WORK} are possible")
        for step in walk(self.steps):
            for span in (*step.bytes_read, *step.bytes_written):
                if span.buffer not in spaces:
                    text = f"a step names buffer {span.buffer!r}; the program has "
                    raise UsageError(text + (", ".join(names) or "none"))
            for use in step.uses:
                _ = use.registers  # as many as the operand has
            if isinstance(step.uniform, Word):
                name = step.uniform.place.buffer
                text = f"a word is read from shared buffer {name!r}; words are read from the image"
                check(spaces[name] == "global", f"{text}, so name a global buffer")

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of this name; UsageError if there is none."""
        found = self._named.get(name)
        if found is None:
            raise UsageError(f"the program has no buffer {name!r}")
        return found

    @cached_property
    def _named(self) -> dict[str, Buffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    @cached_property
    def _offsets(self) -> dict[str, int]:
        return {**_lay_out(self.buffers, "global")[0], **_lay_out(self.buffers, "shared")[0]}

    def offset(self, buffer: str) -> int:
        """Bytes from the start of the image, or of the warp's shared memory, to a buffer."""
        self.buffer(buffer)
        return self._offsets[buffer]

    @cached_property
    def shared_banks(self) -> frozenset[tuple[str, int]]:
        """Banks, by name and bits, of which some step uses registers, whatever their types are."""
        return frozenset(
            (register.bank, register.bits)
            for step in walk(self.steps)
            for use in step.uses
            if by_register(step, use)
            for register in use.registers
        )

    @cached_property
    def image_bytes(self) -> int:
        """Size of one image, in bytes: the global buffers, rounded up to IMAGE_ALIGNMENT."""
        return _lay_out(self.buffers, "global")[1]

    @cached_property
    def shared_bytes(self) -> int:
        """Shared memory of one warp, in bytes, rounded up to IMAGE_ALIGNMENT; 0 without any."""
        return _lay_out(self.buffers, "shared")[1]


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Iterate over steps and the steps inside branches and loops, in the order of the text."""
    for step in steps:
        yield step
        for inside in step.blocks.values():
            yield from walk(inside)


def work(steps: tuple[Step, ...]) -> int:
    """Return how many steps are taken at most, where both arms of every branch are."""
    return sum(step.cost + step.turns * sum(map(work, step.blocks.values())) for step in steps)


def by_register(step: Step, use: Use) -> bool:
    """Tell whether an operand's registers matter: listed, set one by one, or with an address."""
    own = step.sets is not None or step.address is not None
    return listed(use.name) or (use.written and own)


def space_of(program: Program, step: Step) -> str:
    """Return the state space that a step accesses memory through; "" is generic addressing."""
    (span, *_) = (*step.bytes_read, *step.bytes_written)
    space: str = getattr(step.instruction, "space", program.buffer(span.buffer).space)
    return space


def fresh_bank(program: Program, like: str) -> str:
    """Return a name like another that no registers of a program have."""
    used = {one.bank for step in walk(program.steps) for use in step.uses for one in use.registers}
    numbered = (f"{like[:24]}{number or ''}" for number in range(len(used) + 1))
    return next(name for name in numbered if name not in used)


def requirements(program: Program) -> frozenset[Form]:
    """Return the forms of instructions that a program uses."""
    return frozenset(step.instruction for step in walk(program.steps) if step.instruction)


def _lay_out(buffers: tuple[Buffer, ...], space: str) -> tuple[dict[str, int], int]:
    """Offsets of the buffers of a space, and the bytes that they take."""
    offsets: dict[str, int] = {}
    end = 0
    for buffer in buffers:
        if buffer.space == space:
            offsets[buffer.name] = -(-end // buffer.alignment) * buffer.alignment
            end = offsets[buffer.name] + buffer.size
    return offsets, -(-end // IMAGE_ALIGNMENT) * IMAGE_ALIGNMENT


def position(program: Program, place: Place) -> int:
    """Return the byte of the image, or of the warp's shared memory, at a place."""
    return program.offset(place.buffer) + place.offset


def locate(program: Program, byte: int) -> Place | None:
    """Return the place of a byte of the image, None for padding; UsageError beyond its end."""
    check_range(byte, 0, program.image_bytes - 1, "byte of the image")
    for buffer in program.buffers:
        offset = byte - program.offset(buffer.name)
        if buffer.space == "global" and 0 <= offset < buffer.size:
            return Place(buffer=buffer.name, offset=offset)
    return None


def writable(program: Program) -> NDArray[np.bool_]:
    """Return which bytes of the image steps of a defined program write, bool (image_bytes,)."""
    mask = np.zeros(program.image_bytes, dtype=bool)
    for step in walk(program.steps):
        for span in step.bytes_written:
            if program.buffer(span.buffer).space == "global":
                mask[program.offset(span.buffer) + span.offsets] = True
    return mask


def check_images(program: Program, images: NDArray[Any]) -> None:
    """Raise UsageError unless an array is a batch of images of a program."""
    given = getattr(images, "dtype", type(images).__name__)
    check(given == np.uint8, f"images are {given}; they must be an array of uint8, so convert them")
    wanted = f"(count, {program.image_bytes}), a row for each image of this program"
    fits = images.ndim == 2 and images.shape[1] == program.image_bytes
    check(fits, f"images have shape {images.shape}; it must be {wanted}")


def different(expected: NDArray[np.uint8], actual: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return the numbers of images that differ, of two batches; equal words are told first."""
    flat, also = (np.ascontiguousarray(images).reshape(-1) for images in (expected, actual))
    whole = len(flat) // 8 * 8
    one, other = (images[:whole].view(np.uint64) for images in (flat, also))
    if np.array_equal(one, other) and np.array_equal(flat[whole:], also[whole:]):
        return np.zeros(0, np.intp)
    return np.flatnonzero((expected != actual).any(axis=1))


class Way(StrEnum):
    """How the registers of one operand lie in those of another."""

    SAME = "in the same registers"
    REVERSED = "in the same registers reversed"
    SWAPPED = "in the same registers with pairs swapped"
    ROTATED = "in the same registers rotated"
    SHUFFLED = "in the same registers in another order"
    ONE = "in one register, given for all of it"
    REPEATED = "with a register given more than once"
    PART = "partly in the same registers"
    ADDRESS = "with the address of the load among its registers"


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """One way in which the operands of a step share registers."""

    operand: str
    """Field of the step: "d", "registers", ..."""
    other: str
    """The other operand; "" where one shares with itself."""
    way: Way

    def __str__(self) -> str:
        if not self.other:
            return f"{self.operand.upper()} {self.way}"
        return f"{self.operand.upper()} and {self.other.upper()} {self.way}"


def overlaps(step: Step, shared: Collection[tuple[str, int]]) -> tuple[Overlap, ...]:
    """Return how operands of a step share registers; `shared`: `Program.shared_banks`."""
    found: list[Overlap] = []
    for use in step.uses:
        different = len(set(use.registers))
        if different < len(use.registers):
            way = Way.ONE if different == 1 else Way.REPEATED
            found.append(Overlap(operand=use.field, other="", way=way))
        if use.written and step.address is not None:
            found.append(Overlap(operand=use.field, other="", way=Way.ADDRESS))
    # D is the operand that is compared; so a step's result comes first in each pair.
    for one, other in combinations(sorted(step.uses, key=lambda use: not use.written), 2):
        if (met := way_of(one, other, shared)) is not None:
            found.append(Overlap(operand=one.field, other=other.field, way=met))
    return tuple(found)


def way_of(one: Use, other: Use, shared: Collection[tuple[str, int]]) -> Way | None:
    """Return how two operands share registers, as in `overlaps`; None if they do not."""
    first, second = one.registers, other.registers
    common = set(first) & set(second)
    typed = one.holds.register_type == other.holds.register_type
    if not any(typed or (register.bank, register.bits) in shared for register in common):
        return None
    if first == second:
        return Way.SAME
    if len(common) < min(len(set(first)), len(set(second))):
        return Way.PART
    # All of the shorter one is in the longer one.
    first = tuple(register for register in first if register in common)
    second = tuple(register for register in second if register in common)
    if first == second or sorted(first) != sorted(second):
        return Way.PART
    if first == second[::-1]:
        return Way.REVERSED
    if all(first[index] == second[index ^ 1] for index in range(len(second) & ~1)):
        return Way.SWAPPED
    turns = ((*second[turn:], *second[:turn]) for turn in range(1, len(second)))
    return Way.ROTATED if first in turns else Way.SHUFFLED
