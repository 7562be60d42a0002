"""What a planted fault is."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from oracle.errors import UsageError
from runners.faults.rewriters import Rewriter, rewriter
from runners.faults.statements import Edit, statements
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


def _mnemonics(pattern: str) -> tuple[str, ...]:
    """Return the instructions that a pattern of opcodes begins with."""
    found = _MNEMONIC.search(pattern)
    return (found.group().replace("\\", "").replace("(?:mma|load)", "mma"),) if found else ()


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One planted fault. Exactly one of `rewriter` and `damage` is given."""

    name: str
    meaning: str
    """One line: what happens."""
    stands_for: str
    """The kind of real bug that this is a model of."""
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
            object.__setattr__(self, "guilty", _mnemonics(self.opcodes.pattern))
        if not self.guilty:
            raise UsageError(f"fault {self.name} needs to say which instructions are guilty")

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


def whole(
    name: str, pattern: str, rewrite: Rewriter, meaning: str, stands_for: str, **more: Any
) -> Fault:
    """Return a fault that rewrites the text, where edits of single statements do not do."""
    return Fault(
        name=name, meaning=meaning, stands_for=stands_for, opcodes=re.compile(pattern),
        rewriter=rewrite, **more,
    )  # fmt: skip


def text(name: str, pattern: str, edit: Edit, meaning: str, stands_for: str, **more: Any) -> Fault:
    """Return a fault that edits every statement whose opcode a pattern finds."""
    return whole(name, pattern, rewriter(pattern, edit), meaning, stands_for, **more)


def unit(
    name: str, pattern: str, kind: type[Unit], change: Change, meaning: str, stands_for: str,
    **more: Any,
) -> Fault:  # fmt: skip
    """Return a fault of the units that carry out what a pattern of opcodes finds."""
    opcodes = re.compile(pattern)
    return Fault(
        name=name, meaning=meaning, stands_for=stands_for, opcodes=opcodes,
        damage=Damage(opcodes=opcodes, unit=kind, change=change), **more,
    )  # fmt: skip


def wire(
    name: str, pattern: str, corrupt: Corruption, meaning: str, stands_for: str, **more: Any
) -> Fault:
    """Return a fault of the wires that bring the results of what a pattern of opcodes finds."""
    opcodes = re.compile(pattern)
    return Fault(
        name=name, meaning=meaning, stands_for=stands_for, opcodes=opcodes,
        damage=Damage(opcodes=opcodes, corrupt=corrupt), **more,
    )  # fmt: skip
