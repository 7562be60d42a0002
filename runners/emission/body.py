"""The text of one kernel's body while it grows: lines, scratch registers, labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

_PREFIXES = {"b16": "%h", "b32": "%r", "b64": "%rd", "pred": "%p"}


@dataclass(kw_only=True)
class Body:
    """Instructions in order, and what they make the kernel declare."""

    image_space: str = "global"
    """State space of the image: "global", or "shared" where it was copied there."""
    lines: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Registers of the prologue that the body reads, by name."""
    _scratch: dict[str, int] = field(default_factory=dict)
    _labels: int = 0

    def add(self, instruction: str, *, guard: str = "") -> None:
        """Append an instruction, with its guard predicate (such as "@%p0") if it has one."""
        self.lines.append(f"    {guard + ' ' if guard else ''}{instruction};")

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
        self.add(f"sub.u32 {count}, {count}, 1")
        self.add(f"setp.ne.u32 {predicate}, {count}, 0")
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


def braced(registers: Sequence[str]) -> str:
    """Return registers as a vector operand."""
    return "{" + ", ".join(registers) + "}"
