"""Operands of an instruction, checked when it is decoded and fetched when it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from runners.simulated.memory import SHARED_WINDOW, Space
from runners.simulated.syntax import (
    TYPE_BITS,
    Address,
    Entry,
    Immediate,
    Instruction,
    Name,
    Operand,
    Vector,
)
from runners.simulated.traffic import Addresses
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.warps import DTYPES, LANES, Values, Warps

Source = Callable[[Warps], Values]

_SPECIAL: dict[str, Source] = {
    "%tid.x": lambda w: (
        np.arange(LANES, dtype=np.uint32)[:, None]
        + (w.indices % (w.threads // LANES) * LANES).astype(np.uint32)
    ),
    "%ctaid.x": lambda w: w.blocks.astype(np.uint32)[None, :],
    "%ntid.x": lambda w: np.full((1, 1), w.threads, np.uint32),
    "%laneid": lambda _: np.arange(LANES, dtype=np.uint32)[:, None],
    "%smid": lambda w: w.sms[None, :],
    "%warpid": lambda w: w.slots[None, :],
    "%clock": lambda w: np.full((1, 1), w.time & 0xFFFF_FFFF, np.uint32),
    "%globaltimer": lambda w: np.full((1, 1), w.time, np.uint64),
}
"""Special registers (PTX ISA 10)."""
_SPECIAL_BITS = {"%globaltimer": 64}
"""Width of those that have not 32 bits."""


def constant(value: int, bits: int) -> Values:
    """Return (1, 1) raw bits of an integer, wrapped to the width."""
    if bits == 1:
        return np.full((1, 1), bool(value))
    return np.full((1, 1), value & ((1 << bits) - 1), DTYPES[bits])


@dataclass(frozen=True, kw_only=True)
class Operands:
    """The operands of one instruction in its entry."""

    instruction: Instruction
    entry: Entry
    version: tuple[int, int]
    """PTX ISA version of the module."""
    shared_offsets: dict[str, int]
    """Offset of each shared array in its block's shared memory, in bytes."""

    @property
    def line(self) -> int:
        """The instruction's line."""
        return self.instruction.line

    def unsupported(self, why: str) -> NoReturn:
        """Refuse the instruction."""
        refuse(TrapKind.UNSUPPORTED, self.line, f"{self.instruction.opcode}: {why}")

    def expect(self, *counts: int) -> tuple[Operand, ...]:
        """Return the operands if there are as many as one of `counts`, else refuse."""
        given = self.instruction.operands
        if len(given) not in counts:
            wanted = " or ".join(str(count) for count in counts)
            self.unsupported(f"has {len(given)} operands where {wanted} are known")
        return given

    def width(self, register: str) -> int:
        """Return the declared width of a register in bits."""
        kind = self.entry.registers.get(register)
        if kind is None:
            refuse(TrapKind.PARSE, self.line, f"{register} is not declared")
        return TYPE_BITS[kind]

    def destination(self, operand: Operand, bits: int) -> str:
        """Return the name of a register of this width that is written."""
        if not isinstance(operand, Name):
            self.unsupported("the destination is no register")
        self._check_width(operand.text, bits)
        return operand.text

    def registers(self, operand: Operand, count: int, bits: int) -> tuple[str, ...]:
        """Return the register names of a vector of `count` registers of this width."""
        parts = operand.parts if isinstance(operand, Vector) else (operand,)
        if len(parts) != count:
            self.unsupported(f"a vector of {len(parts)} registers where {count} are needed")
        return tuple(self.destination(part, bits) for part in parts)

    def source(self, operand: Operand, bits: int) -> Source:
        """Return what fetches an operand of this width: a register or a constant."""
        line = self.line
        if isinstance(operand, Immediate):
            if operand.float_bits not in (0, bits):
                self.unsupported(f"a constant of {operand.float_bits} bits where {bits} are needed")
            value = constant(operand.value, bits)
            return lambda _: value
        if not isinstance(operand, Name):
            self.unsupported("an operand is neither register nor constant")
        name = operand.text
        if name in _SPECIAL:
            width = _SPECIAL_BITS.get(name, 32)
            if bits != width:
                self.unsupported(f"{name} has {width} bits, not {bits}")
            return _SPECIAL[name]
        if name in self.shared_offsets:
            # The address of a shared variable, in the shared window (PTX ISA 6.4.2).
            value = constant(self.shared_offsets[name], bits)
            return lambda _: value
        self._check_width(name, bits)
        return lambda warps: warps.read(name, line)

    def address(self, operand: Operand, space: Space) -> Callable[[Warps], Addresses]:
        """Return what computes a bracketed address as (1 or 32 lanes, warps or 1) uint64."""
        if not isinstance(operand, Address):
            self.unsupported("the address is not in brackets")
        base = operand.base
        if base in self.shared_offsets:
            window = 0 if space is Space.SHARED else SHARED_WINDOW
            if space is Space.GLOBAL:
                self.unsupported(f"{base} is in shared memory")
            whole = constant(self.shared_offsets[base] + window + operand.offset, 64)
            return lambda _: whole
        bits = self.width(base)
        if bits != 64 and not (bits == 32 and space is Space.SHARED):
            self.unsupported(f"an address of {bits} bits in {space} space")
        offset = np.uint64(operand.offset & 0xFFFF_FFFF_FFFF_FFFF)
        line = self.line

        def compute(warps: Warps) -> Addresses:
            return warps.read(base, line).astype(np.uint64) + offset

        return compute

    def _check_width(self, register: str, bits: int) -> None:
        if self.width(register) != bits:
            self.unsupported(
                f"{register} is declared .{self.entry.registers[register]}; {bits} bits are needed"
            )
