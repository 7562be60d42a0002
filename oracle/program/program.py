"""Programs of warp-level matrix instructions: what one warp does to one memory image.

A program is a tuple of steps over named buffers, without register numbers, addresses and text.
Everything is frozen, hashable and made of tuples, to be cached, compared and shrunk.

One warp works on one *image*: the program's global buffers, back to back in the order of
`Program.buffers`, each at a multiple of its alignment, the whole rounded up to 256 bytes. Images
start at multiples of 256 bytes. Shared buffers are laid out in the same way in memory of the
warp's own; it starts out undefined and reaches the image only through steps.

Operands stand in registers, which steps name (`oracle.program.registers`), so that operands share
them as one likes. Whether each use meets what it needs is `oracle.program.definedness`'s matter:
here is refused only what cannot be written down at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.program.operands import Use
from oracle.program.places import IMAGE_ALIGNMENT, Buffer, Word, check
from oracle.program.registers import listed
from oracle.program.steps import Step

MAX_WORK = 2048
"""Most work of a program, see `work`; drawn programs have 350 at most (30,000 of them, 2026-11)."""
MAX_BYTES = {"global": 1 << 21, "shared": 227 << 10}
"""Most bytes of a space that a warp works on: drawn images have 1 MiB, a block 227 KiB of shared
memory (CUDA C++ Programming Guide, "Compute Capabilities", 9.0 and 10.0)."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """Buffers and the steps that one warp takes on them.

    UsageError says what cannot be: buffers, vectors, words in shared memory, `MAX_WORK`,
    `MAX_BYTES`.
    """

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
    """Tell whether the registers of an operand matter, not only the value that it names.

    That is where a step lists them, where one of them holds an address, or where a fragment may be
    what was set register by register.
    """
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
