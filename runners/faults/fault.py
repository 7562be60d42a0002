"""What a planted fault is."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from oracle.errors import UsageError
from runners.faults.rewriters import Edit, Rewriter, by_entry, rewriter, statements
from runners.simulated.silicon import Corruption, Damage, Unit


class FaultPlace(StrEnum):
    """Where a fault sits."""

    PTX = "ptx"
    """In the text, as a compiler or a pass would break it: works on every runner."""
    DEVICE = "device"
    """Inside the simulated device."""


_MNEMONIC = re.compile(
    r"wmma\\\.(?:\(\?:mma\|load\)|load\\\.[abc]|load|mma|store)|mma\\\.sync|(?:ld|st|mov)matrix"
)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One planted fault. Exactly one of `rewriter` and `damage` is given."""

    name: str
    meaning: str
    """One line: what happens."""
    opcodes: re.Pattern[str]
    """Which instructions it touches, searched in the opcode."""
    guilty: tuple[str, ...] = ()
    """Words for what is wrong, of which the line of a finding has to have one: mnemonics with the
    matrix that is loaded, or the steps that make what it touches. Given here where the opcodes do
    not tell."""
    rewriter: Rewriter | None = None
    damage: Damage | None = None
    rare: bool = False
    """Whether so few images on so few multiprocessors show it that screening has to look for it."""

    def __post_init__(self) -> None:
        if (self.rewriter is None) == (self.damage is None):
            raise UsageError(f"fault {self.name} needs either a rewriter or a damage")
        if not self.guilty:
            # The instruction with which a pattern of opcodes begins.
            found = _MNEMONIC.search(self.opcodes.pattern)
            if found is None:
                raise UsageError(f"fault {self.name} needs to say which instructions are guilty")
            name = found.group().replace("\\", "").replace("(?:mma|load)", "mma")
            object.__setattr__(self, "guilty", (name,))

    @property
    def place(self) -> FaultPlace:
        """Where it sits."""
        return FaultPlace.DEVICE if self.rewriter is None else FaultPlace.PTX

    def rewrite(self, ptx: str) -> str:
        """Return the text as the fault leaves it; unchanged if it is not in the text.

        Text with instructions that no assembler takes, which lack operands say, may stay as it is.
        """
        try:
            return ptx if self.rewriter is None else self.rewriter(ptx)
        except (LookupError, ValueError):
            return ptx

    def applies(self, ptx: str) -> bool:
        """Return whether a module holds something that the fault touches.

        A fault that applies need not change a result: that may take operands that reveal it.
        """
        if self.rewriter is not None:
            return self.rewrite(ptx) != ptx
        return any(True for _ in statements(ptx, self.opcodes))


Change = Callable[[Any], Unit]


def changed(**fields: Any) -> Change:
    """Return what replaces fields of a unit."""
    return lambda unit: replace(unit, **fields)


def whole(name: str, pattern: str, rewrite: Rewriter, meaning: str, **more: Any) -> Fault:
    """Return a fault that rewrites each entry, where edits of single statements do not do."""
    opcodes, rewriter = re.compile(pattern), by_entry(rewrite)
    return Fault(name=name, meaning=meaning, opcodes=opcodes, rewriter=rewriter, **more)


def text(name: str, pattern: str, edit: Edit, meaning: str, **more: Any) -> Fault:
    """Return a fault that edits every statement whose opcode a pattern finds."""
    opcodes, rewrite = re.compile(pattern), rewriter(pattern, edit)
    return Fault(name=name, meaning=meaning, opcodes=opcodes, rewriter=rewrite, **more)


def unit(
    name: str, pattern: str, kind: type[Unit], change: Change, meaning: str, **more: Any
) -> Fault:
    """Return a fault of the units that carry out what a pattern of opcodes finds."""
    opcodes = re.compile(pattern)
    damage = Damage(opcodes=opcodes, unit=kind, change=change)
    return Fault(name=name, meaning=meaning, opcodes=opcodes, damage=damage, **more)


def wire(name: str, pattern: str, corrupt: Corruption, meaning: str, **more: Any) -> Fault:
    """Return a fault of the wires that bring the results of what a pattern of opcodes finds."""
    opcodes = re.compile(pattern)
    damage = Damage(opcodes=opcodes, corrupt=corrupt)
    return Fault(name=name, meaning=meaning, opcodes=opcodes, damage=damage, **more)
