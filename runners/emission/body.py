"""The text of one kernel's body while it grows: lines, registers, labels, addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from oracle.errors import UsageError
from oracle.program.operands import Place, Use
from oracle.program.program import Program, walk

_PREFIXES = {"b16": "%h", "b32": "%r", "b64": "%rd", "pred": "%p"}
# Base registers of the prologue, by the space of the buffer and the spelling of the state space.
_BASES = {
    ("global", "global"): "%image",
    ("global", ""): "%image_generic",
    ("shared", "shared"): "%shared",
    ("shared", "shared::cta"): "%shared",
    ("shared", ""): "%shared_generic",
}


class Body:
    """Instructions in order, and what they make the kernel declare.

    The image lies in "global", or in "shared" where it was copied there; `used` are registers of
    the prologue that the body reads.
    """

    def __init__(self, image_space: str = "global") -> None:
        self.image_space = image_space
        self.lines: list[str] = []
        self.used: set[str] = set()
        self._scratch: dict[str, int] = {}
        self._labels = 0

    def add(self, *instructions: str, guard: str = "") -> None:
        """Append instructions, with their guard predicate (such as "@%p0") if they have one."""
        before = f"    {guard} " if guard else "    "
        self.lines += [f"{before}{instruction};" for instruction in instructions]

    def comment(self, text: str) -> None:
        """Append a line of comment."""
        self.lines.append(f"    // {text}")

    def label(self, name: str) -> None:
        """Append a label."""
        self.lines.append(f"{name}:")

    def scratch(self, type_: str) -> str:
        """Return a register that nothing has used yet: "b16", "b32", "b64" or "pred"."""
        number = self._scratch.get(type_, 0)
        self._scratch[type_] = number + 1
        return f"{_PREFIXES[type_]}{number}"

    def labels(self, *words: str) -> tuple[str, ...]:
        """Return labels that nothing has used yet; those of one call share a number."""
        self._labels += 1
        return tuple(f"{word}_{self._labels}" for word in words)

    @contextmanager
    def repeated(self, word: str, times: int) -> Iterator[None]:
        """Append what is appended meanwhile as a loop, under a label that begins with a word."""
        (again,) = self.labels(word)
        count, predicate = self.scratch("b32"), self.scratch("pred")
        self.add(f"mov.b32 {count}, {times}")
        self.label(again)
        yield
        self.add(f"sub.u32 {count}, {count}, 1", f"setp.ne.u32 {predicate}, {count}, 0")
        self.add(f"bra {again}", guard=f"@{predicate}")

    def use(self, register: str) -> str:
        """Return a register of the prologue, noting that it is needed."""
        self.used.add(register)
        return register

    def spelled(self, space: str) -> str:
        """Return how a state space, or an opcode that names one, is spelled for this image."""
        return space if self.image_space == "global" else space.replace("global", self.image_space)

    def declarations(self) -> list[str]:
        """Return the declarations of the scratch registers."""
        return [
            f"    .reg .{type_} {_PREFIXES[type_]}<{count}>;"
            for type_, count in self._scratch.items()
        ]

    def base(self, program: Program, buffer: str, space: str) -> str:
        """Return the register with the start of the image, or of the warp's shared memory.

        The space is spelled as `{.ss}`: "" (generic), "global", "shared" or "shared::cta". Raises
        UsageError if the buffer does not lie in it.
        """
        lies_in = program.buffer(buffer).space
        if (lies_in, space) not in _BASES:
            raise UsageError(
                f"buffer {buffer!r} lies in {lies_in} memory and is accessed through .{space}; use "
                f".{lies_in} or generic addressing"
            )
        return self.use(_BASES[lies_in, space])

    def address(
        self, program: Program, place: Place, space: str, *, immediate: int = 0, lane: str = ""
    ) -> str:
        """Return the operand, such as "[%rd0+16]", that addresses a place.

        So many bytes stand in the instruction, a register holds the rest; a 64-bit register that
        differs from lane to lane is added.
        """
        register = self.base(program, place.buffer, space)
        rest = program.offset(place.buffer) + place.offset - immediate
        for addend in filter(None, (rest, lane)):
            total = self.scratch("b64")
            self.add(f"add.s64 {total}, {register}, {addend}")
            register = total
        return displaced(register, immediate)


def displaced(register: str, immediate: int) -> str:
    """Return "[register+immediate]"; PTX writes a negative one as "+-16"."""
    return f"[{register}+{immediate}]" if immediate else f"[{register}]"


def braced(registers: Sequence[str]) -> str:
    """Return registers as a vector operand."""
    return "{" + ", ".join(registers) + "}"


class OperandRegisters(NamedTuple):
    """The PTX registers of every bank of a program.

    A name that only ever holds registers of one type is `%name_0`, `%name_1`, …; one that holds
    several gets a bank per type, told apart by capital letters, which no name has. If a step lists
    registers of a bank, all operands that name it share them: they are declared untyped then where
    they have several types ("untyped bits" go with any type of their size, PTX ISA 5.2.1).
    """

    counts: Mapping[tuple[str, str], int]
    """How many registers a name has in a type."""
    shared: Mapping[tuple[str, int], str]
    """Type of the banks of which a step lists registers, by name and size of one, in bits."""

    def of(self, use: Use) -> tuple[str, ...]:
        """Return the registers of an operand."""
        return tuple(
            f"{self._prefix(bank, self.shared.get((bank, bits), use.holds.register_type))}{number}"
            for bank, bits, number in use.registers
        )

    def declarations(self) -> list[str]:
        """Return the declarations, in the order in which the program first names them."""
        return [
            f"    .reg .{type_} {self._prefix(name, type_)}<{count}>;"
            for (name, type_), count in self.counts.items()
        ]

    def _prefix(self, name: str, type_: str) -> str:
        types = sum(1 for other, _ in self.counts if other == name)
        return f"%{name}_" if types == 1 else f"%{name}_{type_.upper()}_"


def operand_registers(program: Program) -> OperandRegisters:
    """Allot registers to the operands of a program."""
    uses = [(step, use) for step in walk(program.steps) for use in step.uses]
    types: dict[tuple[str, int], set[str]] = {bank: set() for bank in program.shared_banks}
    for step, use in uses if types else ():
        # A float's register addresses nothing.
        addresses = use.written and step.address is not None
        type_ = f"b{use.holds.bits}" if addresses else use.holds.register_type
        for bank, bits, _ in use.registers:
            types.get((bank, bits), set()).add(type_)
    shared = {
        (name, bits): next(iter(found)) if len(found) == 1 else f"b{bits}"
        for (name, bits), found in types.items()
    }
    counts: dict[tuple[str, str], int] = {}
    for _, use in uses:
        for bank, bits, number in use.registers:
            key = bank, shared.get((bank, bits), use.holds.register_type)
            counts[key] = max(number + 1, counts.get(key, 0))
    return OperandRegisters(counts, shared)
