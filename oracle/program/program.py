"""Programs: what warps do to one memory image, and what the ISA leaves undefined of it.

An *image* is the global buffers, back to back, each at a multiple of its alignment, the whole
rounded up to 256 bytes; shared buffers lie so in memory of the warp's own, undefined at first.
A batch of images is uint8 (count, image_bytes), one warp, or warpgroup, a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.isa.forms import LANES, WARPGROUP, Form
from oracle.program import operands
from oracle.program.operands import Place, check, check_range
from oracle.program.steps import Copy, OneWarp, Op, PlainAccess, Step
from oracle.program.steps import walk as walk
from oracle.program.warpgroup import (
    ALIGNMENT,
    MAX_MBARRIERS,
    MBARRIER_BYTES,
    AsyncProduct,
    WarpgroupSync,
)

MAX_WORK = 2048
"""Most work of a program, see `work`; drawn programs have 350 at most (30,000 of them, 2026-11)."""
MAX_BYTES = {"global": 1 << 21, "shared": 227 << 10}
"""Most bytes of a space: drawn images have 1 MiB, a block 227 KiB of shared memory."""
FEWEST, MOST = 32, 255
"""Registers to which a thread of a warpgroup can be bound; more than 255 it never has."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """Buffers and the steps taken on them; UsageError says what cannot be."""

    buffers: tuple[operands.Buffer, ...]
    steps: tuple[Step, ...]
    warps: int = 1
    """That take them on one image: 1, or the 4 of a warpgroup."""
    registers: int = 0
    """Most that a thread of a warpgroup may have (`.maxnreg`, 11.4.1); 0: as many as there are."""

    def __post_init__(self) -> None:
        for buffer in self.buffers:
            operands.check_buffer(buffer)
        names = [buffer.name for buffer in self.buffers]
        check(len(set(names)) == len(names), f"buffer names repeat: {', '.join(names)}")
        spaces = {buffer.name: buffer.space for buffer in self.buffers}
        check("global" in spaces.values(), "no buffer is global; results need one to be seen in")
        check(self.warps in (1, WARPGROUP), f"{self.warps} warps given; there are 1 or {WARPGROUP}")
        text = f"{self.registers} registers given; a thread of a warpgroup has {FEWEST} to {MOST}"
        check(self.registers == 0 or (self.warps > 1 and FEWEST <= self.registers <= MOST), text)
        for space, most in MAX_BYTES.items():
            size = self._lay_out(space)[1]
            check(size <= most, f"{space} buffers take {size} bytes; at most {most} are possible")
        amount = work(self.steps)
        text = (
            "the program takes {} steps, counted as often as they may run; at most {} are possible"
        )
        check(amount <= MAX_WORK, text, amount, MAX_WORK)
        for step in walk(self.steps):
            for span in (*step.bytes_read, *step.bytes_written):
                if span.buffer not in spaces:
                    text = f"a step names buffer {span.buffer!r}; the program has "
                    raise UsageError(text + (", ".join(names) or "none"))
                check_range(span.start, *operands.OFFSETS, "offset of a place, in bytes,")
            for use in step.uses:
                _ = use.registers  # as many as the operand has
            if isinstance(step.uniform, operands.Word):
                name = step.uniform.place.buffer
                text = "a word is read from shared buffer {!r}; words are read from the image"
                check(spaces[name] == "global", f"{text}, so name a global buffer", name)
        for step in self.steps:
            check(not step.by_turn, "no loop is around what depends on its turn: {}", step)
        _check_warps(self.steps, self.warps, spaces)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.buffers, self.steps, self.warps))

    __getstate__ = operands.fields_alone

    def buffer(self, name: str) -> operands.Buffer:
        """Return the buffer of this name; UsageError if there is none."""
        if name not in self._named:
            raise UsageError(f"the program has no buffer {name!r}")
        return self._named[name]

    @cached_property
    def _named(self) -> dict[str, operands.Buffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    @cached_property
    def _offsets(self) -> dict[str, int]:
        return {**self._lay_out("global")[0], **self._lay_out("shared")[0]}

    def _lay_out(self, space: str) -> tuple[dict[str, int], int]:
        """Offsets of the buffers of a space, and the bytes that they take."""
        least = ALIGNMENT if self.warps > 1 and space == "shared" else 1
        offsets, end = dict[str, int](), 0
        for buffer in self.buffers:
            if buffer.space == space:
                offsets[buffer.name] = _rounded(end, max(buffer.alignment, least))
                end = offsets[buffer.name] + buffer.size
        if space == "shared":
            end = _rounded(end, MBARRIER_BYTES) + MBARRIER_BYTES * len(self._numbers)
        return offsets, _rounded(end, operands.IMAGE_ALIGNMENT)

    @cached_property
    def _numbers(self) -> tuple[int, ...]:
        steps = (step for step in walk(self.steps) if isinstance(step, Copy | WarpgroupSync))
        return tuple(sorted({step.mbarrier for step in steps if step.mbarrier is not None}))

    @cached_property
    def mbarriers(self) -> Mapping[int, int]:
        """Bytes from the start of shared memory to mbarriers, behind all buffers."""
        ends = (self._offsets[one.name] + one.size for one in self.buffers if one.space == "shared")
        first = _rounded(max(ends, default=0), MBARRIER_BYTES)
        return {one: first + MBARRIER_BYTES * at for at, one in enumerate(self._numbers)}

    @property
    def threads(self) -> int:
        """Threads that work on one image: 32, or the 128 of a warpgroup."""
        return self.warps * LANES

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
        return self._lay_out("global")[1]

    @cached_property
    def shared_bytes(self) -> int:
        """Shared memory for an image, in bytes, rounded up to IMAGE_ALIGNMENT; 0 without any."""
        return self._lay_out("shared")[1]


def space_of(program: Program, step: Step) -> str:
    """Return the state space that a step accesses memory through; "" is generic addressing."""
    (span, *_) = (*step.bytes_read, *step.bytes_written)
    space: str = getattr(step.instruction, "space", program.buffer(span.buffer).space)
    return space


def work(steps: tuple[Step, ...]) -> int:
    """Return how many steps are taken at most, where both arms of every branch are."""
    return sum(step.cost + step.turns * sum(map(work, step.blocks.values())) for step in steps)


def by_register(step: Step, use: operands.Use) -> bool:
    """Tell whether an operand's registers matter: listed, set one by one, or with an address."""
    own = step.sets is not None or step.address is not None
    return operands.listed(use.name) or (use.written and own)


def fresh_bank(program: Program, like: str) -> str:
    """Return a name like another that no registers of a program have."""
    used = {one.bank for step in walk(program.steps) for use in step.uses for one in use.registers}
    numbered = (f"{like[:24]}{number or ''}" for number in range(len(used) + 1))
    return next(name for name in numbered if name not in used)


def requirements(program: Program) -> frozenset[Form]:
    """Return the forms of instructions that a program uses."""
    return frozenset(step.instruction for step in walk(program.steps) if step.instruction)


def _rounded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


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
    if (given := getattr(images, "dtype", type(images).__name__)) != np.uint8:
        raise UsageError(f"images are {given}; they must be an array of uint8, so convert them")
    wanted = f"(count, {program.image_bytes}), a row for each image of this program"
    fits = images.shape[1:] == (program.image_bytes,)
    check(fits, f"images have shape {images.shape}; it must be {wanted}")


def different(expected: NDArray[np.uint8], actual: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return the numbers of images that differ, of two batches; equal words are told first."""
    flat, also = (np.ascontiguousarray(images).reshape(-1) for images in (expected, actual))
    whole = len(flat) // 8 * 8
    one, other = (images[:whole].view(np.uint64) for images in (flat, also))
    if np.array_equal(one, other) and np.array_equal(flat[whole:], also[whole:]):
        return np.zeros(0, np.intp)
    return np.flatnonzero((expected != actual).any(axis=1))


def _check_warps(
    steps: tuple[Step, ...], warps: int, spaces: Mapping[str, str], owner: int | None = None
) -> dict[str, int | None]:
    """Check that steps are those of so many warps; return who has each bank of registers.

    `spaces` are those of buffers, `owner` is the warp that takes the steps alone.
    """
    group, threads, owners = warps > 1, warps * LANES, dict[str, int | None]()
    for step in steps:
        if isinstance(step, OneWarp):
            check(group, f"one warp cannot take {step}; give the program {WARPGROUP} warps")
            inside = [_check_warps(step.body, 1, spaces, step.warp)]
        else:
            inside = [_check_warps(some, warps, spaces, owner) for some in step.blocks.values()]
        if group or owner is not None:
            inside.append({one.bank: owner for use in step.uses for one in use.registers})
        for found in inside:
            for bank, other in found.items():
                text = "registers {} are those of one warp alone and of others; rename them"
                check(owners.setdefault(bank, other) == other, text, bank)
        if isinstance(step, AsyncProduct | WarpgroupSync) or isinstance(
            step.uniform, operands.Turn
        ):
            check(group, f"one warp cannot take {step}; give the program {WARPGROUP} warps")
            for tile in step.tiles.values() if isinstance(step, AsyncProduct) else ():
                text = f"a descriptor names {tile.place.buffer!r}, which is not shared"
                check(spaces[tile.place.buffer] == "shared", f"{text}; it reads shared memory")
        elif isinstance(step, Copy) and (step.is_async or step.mbarrier is not None):
            check_range(step.mbarrier or 0, 0, MAX_MBARRIERS - 1, "number of an mbarrier")
            ends = spaces[step.source.buffer], spaces[step.destination.buffer]
            text = "an asynchronous copy is one of a warpgroup, from global to shared memory"
            check(group and owner is None and ends == ("global", "shared"), text)
        elif isinstance(step, PlainAccess):
            text = "{} lanes of {} threads load; all have to"
            check(step.lanes == threads or step.stores, text, step.lanes, threads)
            check_range(step.lanes, 1, threads, "lanes that access registers")
        elif group and isinstance(step, Op):
            text = "{} is not taken by all warps of a warpgroup; let one take it"
            check(not (step.form.opaque or step.stores), text, step.form.mnemonic)
    return owners
