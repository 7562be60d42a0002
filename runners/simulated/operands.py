"""Operands of an instruction, checked when it is decoded and fetched when it runs."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from runners.simulated.memory import WINDOWS, Space, constant_of
from runners.simulated.silicon import AnyUnit, Silicon
from runners.simulated.special import SPECIAL, UNKNOWN
from runners.simulated.syntax import (
    TYPE_BITS,
    Address,
    Immediate,
    Instruction,
    Name,
    Operand,
    Register,
    Scope,
    Variable,
    Vector,
    member,
)
from runners.simulated.traffic import Addresses
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.warps import DTYPES, Key, Values, Warps, constant


@dataclass(slots=True, eq=False)
class FromRegister:
    """Fetches what lies among the registers."""

    key: Key

    def __call__(self, warps: Warps) -> Values:
        """Return its bits."""
        return warps.registers[self.key]


Source = FromRegister | Callable[[Warps], Values]
"""What fetches an operand: (1 or 32 lanes, warps or 1) raw bits."""

_TAKES_ADDRESSES = re.compile(r"(?:mov|call|cvta(?!\.to))\b")
"""Instructions of which an operand is the address of a variable (ptxas 12.4 and 13.5)."""

SINK = "_"
"""Name of a destination that is not wanted (PTX ISA 6.4.3)."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a variable lies."""

    space: Space
    offset: int
    """Address in its space."""


def float_bits(given: Immediate, bits: int) -> int:
    """Return the bits of a floating-point constant in the format of this width."""
    if given.float_bits == bits:
        return given.value
    seen = np.array(given.value, f"u{given.float_bits // 8}").view(f"f{given.float_bits // 8}")
    with np.errstate(all="ignore"):
        return int(seen.astype(f"f{bits // 8}").view(f"u{bits // 8}"))


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What the instructions of one expansion of a function have in common."""

    version: tuple[int, int]
    """PTX ISA version of the module."""
    silicon: Silicon
    prefix: str
    """Prefix of the keys of this expansion's registers."""
    locations: Mapping[Variable, Location]
    """Addresses of all variables in memory."""
    in_function: bool
    """Whether parameters are those of a device function."""
    functions: Mapping[str, int]
    """Addresses of the module's functions."""
    known: dict[tuple[Scope, str, int], str] = field(default_factory=dict)
    """Keys of registers that were found to have so many bits, by scope and name."""
    meanings: dict[Scope, dict[str, str]] = field(default_factory=dict)
    """What names were found to mean, by scope."""

    @cached_property
    def kind(self) -> str:
        """What matters to instructions beside their names."""
        return f"{self.version} {self.in_function}"


@dataclass(slots=True)
class Operands:
    """The operands of one instruction in the expansion of its function."""

    instruction: Instruction
    surroundings: Surroundings
    line: int = field(init=False)
    silicon: Silicon = field(init=False)

    def __post_init__(self) -> None:
        self.line, self.silicon = self.instruction.line, self.surroundings.silicon

    @property
    def names(self) -> tuple[tuple[str, str, int], ...] | None:
        """The names in the operands, each as a member of a family; None for calls and pairs."""
        found: list[str] = []
        for operand in self.instruction.operands:
            if isinstance(operand, Name):
                found.append(operand.text)
            elif isinstance(operand, Address):
                found.append(operand.base or SINK)
            elif isinstance(operand, Vector):
                found += [part.text for part in operand.parts if isinstance(part, Name)]
            elif not isinstance(operand, Immediate):
                return None
        return tuple([(name, *member(name)) for name in dict.fromkeys(found)])

    def meaning(self, names: tuple[tuple[str, str, int], ...]) -> tuple[str, ...] | None:
        """Return what names stand for; with the text, all that a decoder is told.

        None where that is not registers and variables alone.
        """
        scope, surroundings = self.instruction.scope, self.surroundings
        meanings = surroundings.meanings.setdefault(scope, {})
        # The keys of registers are their names, in the outermost scope of an entry.
        families = {} if surroundings.prefix or scope.number else scope.families
        found = [surroundings.kind]
        for name, family, number in names:
            meaning = meanings.get(name)
            if meaning is None:
                known = families.get(family)
                if known is not None and number < known[0] and name not in scope.registers:
                    meaning = known[1] if known[2] == 1 else self._meaning(name)
                else:
                    meaning = meanings[name] = self._meaning(name)
            found.append(meaning)
        return None if "" in found else tuple(found)

    def _meaning(self, name: str) -> str:
        """Return the register or variable that a name means; empty if it is neither."""
        known = self.instruction.scope.find(name)
        if isinstance(known, Register):
            key = self.surroundings.prefix + known.key
            return known.type if key == name and known.parts == 1 else f"{key} {known}"
        if known is not None:
            location = self.surroundings.locations[known]
            return f"{location.space} {location.offset}"
        return name if name in SPECIAL or name == SINK else ""

    def unit(self, sound: AnyUnit) -> AnyUnit:
        """Return the unit that executes the instruction, as broken as it is, for a sound one."""
        return self.silicon.unit(self.instruction.opcode, sound)

    def unsupported(self, why: str) -> NoReturn:
        """Refuse the instruction."""
        refuse(TrapKind.UNSUPPORTED, self.line, f"{self.instruction.opcode}: {why}")

    def need(self, architecture: int) -> None:
        """Refuse the instruction unless the module's target is this architecture or a later one."""
        if self.silicon.target.architecture < architecture:
            self.lacks(f"sm_{architecture}")

    def lacks(self, needed: str) -> NoReturn:
        """Refuse the instruction, which other targets have."""
        name = self.silicon.target.name
        opcode = self.instruction.opcode
        refuse(TrapKind.ILLEGAL, self.line, f"{opcode} needs {needed}; the module is for {name}")

    def expect(self, *counts: int) -> tuple[Any, ...]:
        """Return the operands if there are as many as one of `counts`, else refuse."""
        given = self.instruction.operands
        if len(given) not in counts:
            wanted = " or ".join(str(count) for count in counts)
            self.unsupported(f"has {len(given)} operands where {wanted} are known")
        return given

    def register(self, name: str) -> Register:
        """Return the register of this name."""
        found = self.instruction.scope.find(name)
        if not isinstance(found, Register):
            refuse(TrapKind.PARSE, self.line, f"{name} is not declared")
        return found

    def width(self, name: str) -> int:
        """Return the declared width of a register in bits."""
        return TYPE_BITS[self.register(name).type]

    def guard(self) -> tuple[str | None, bool]:
        """Return the key of the predicate in front, and whether it is negated."""
        guard = self.instruction.guard
        if guard is None:
            return None, False
        if self.width(guard.text) != 1:
            refuse(TrapKind.PARSE, self.line, f"guard {guard.text} is no predicate")
        return self.key(guard.text), guard.negated

    def key(self, name: str) -> str:
        """Return where a register lies among those of the warps."""
        return self.surroundings.prefix + self.register(name).key

    def destination(self, operand: Operand, bits: int, *, wider: bool = False) -> str:
        """Return the key of a register of this width that is written.

        With `wider`, it may have more bits (PTX ISA 9.4.1).
        """
        if not isinstance(operand, Name) or operand.negated or operand.offset:
            self.unsupported("the destination is no register")
        name = operand.text
        if name == SINK:
            return SINK
        known = self.surroundings.known.get((self.instruction.scope, name, bits))
        if known is not None:
            return known
        register = self.register(name)
        self._check_width(name, register, bits, wider)
        return self._known(name, register, bits)

    def _known(self, name: str, register: Register, bits: int) -> str:
        """Return the key of a register, once it is known to have so many bits."""
        key = self.surroundings.prefix + register.key
        if TYPE_BITS[register.type] == bits:
            self.surroundings.known[self.instruction.scope, name, bits] = key
        return key

    def registers(self, operand: Operand, count: int, bits: int) -> tuple[str, ...]:
        """Return the keys of a vector of `count` registers of this width."""
        return tuple(self.destination(part, bits) for part in self.parts(operand, count))

    def sources(self, operand: Operand, count: int, bits: int) -> tuple[Source, ...]:
        """Return what fetches a vector of `count` registers of this width.

        Constants may stand among several, and for a single one in wmma (ptxas 12.4 and 13.5).
        """
        parts = self.parts(operand, count)
        in_wmma = self.instruction.opcode.startswith("wmma.")
        if count == 1 and isinstance(parts[0], Immediate) and not in_wmma:
            self._no_register("a constant")
        return tuple(self.source(part, bits) for part in parts)

    def _no_register(self, what: str) -> NoReturn:
        """Refuse what stands where a register has to be, as every ptxas does."""
        opcode = self.instruction.opcode
        refuse(TrapKind.PARSE, self.line, f"{opcode}: {what} stands where a register has to")

    def parts(self, operand: Operand, count: int) -> tuple[Any, ...]:
        """Return the elements of a vector: in braces, or a vector register."""
        if isinstance(operand, Name) and f"{operand.text}.w" in SPECIAL:
            operand = Vector(tuple(Name(f"{operand.text}.{letter}") for letter in "xyzw"))
        elif isinstance(operand, Name) and count > 1 and operand.text != SINK:
            register = self.register(operand.text)
            if register.parts > 1:
                operand = Vector(
                    tuple(Name(f"{operand.text}.{letter}") for letter in "xyzw"[: register.parts])
                )
        parts = operand.parts if isinstance(operand, Vector) else (operand,)
        if len(parts) != count:
            self.unsupported(f"a vector of {len(parts)} registers where {count} are needed")
        return parts

    def source(
        self, operand: Operand, bits: int, *, wider: bool = False, copied: bool = False
    ) -> Source:
        """Return what fetches an operand of this width: a register, a constant or an address.

        With `wider`, a register may have more bits, whose low ones count. With `copied`, one that
        was never written is no reason to trap: compilers copy what they know to be undefined.
        """
        if isinstance(operand, Immediate):
            if operand.float_bits and bits < 32:
                self.unsupported(f"a floating-point constant where {bits} bits are needed")
            value = float_bits(operand, bits) if operand.float_bits else operand.value
            return FromRegister((value, bits))
        if not isinstance(operand, Name):
            self.unsupported("an operand is neither register nor constant")
        name = operand.text
        plain = not (operand.negated or operand.offset or copied)
        if plain and (known := self.surroundings.known.get((self.instruction.scope, name, bits))):
            return FromRegister(known)
        special = SPECIAL.get(name)
        if special is not None:
            if bits != special.bits and 1 in (bits, special.bits):
                self.unsupported(f"{name} has {special.bits} bits, not {bits}")
            whole = special.fetch
            if bits == special.bits:
                return whole
            dtype = DTYPES[bits]
            return lambda warps: whole(warps).astype(dtype)
        found = self.instruction.scope.find(name)
        if isinstance(found, Variable):
            if not _TAKES_ADDRESSES.match(self.instruction.opcode):
                self._no_register(f"the address of {name}")
            location = self.surroundings.locations[found]
            return FromRegister((location.offset + operand.offset, bits))
        if found is None:
            if UNKNOWN.fullmatch(name):
                self.unsupported(f"the special register {name} is not simulated")
            if name in self.surroundings.functions and self.instruction.opcode.startswith("mov"):
                return FromRegister((self.surroundings.functions[name], bits))
            refuse(TrapKind.PARSE, self.line, f"{name} is not declared")
        self._check_width(name, found, bits, wider)
        if operand.offset:
            self.unsupported(f"{name} with an offset")
        key = self.surroundings.prefix + found.key
        if operand.negated:
            if bits != 1:
                self.unsupported(f"! in front of {name}, which is no predicate")
            return lambda warps: ~warps.registers[key]
        if copied:
            has = TYPE_BITS[found.type]
            fetch = lambda warps: warps.read_copied(key, has)  # noqa: E731
        else:
            fetch = FromRegister(self._known(name, found, bits))
        if wider and TYPE_BITS[found.type] > bits:
            dtype = DTYPES[bits]
            return lambda warps: fetch(warps).astype(dtype)
        return fetch

    def space(self, operand: Operand, named: Space) -> Space:
        """Return the space that an address, or a variable, is in, where a space was named.

        A function's parameters lie in local memory, a kernel's do not.
        """
        if named is not Space.PARAM:
            return named
        name = operand.base if isinstance(operand, Address) else getattr(operand, "text", "")
        found = self.instruction.scope.find(name)
        if isinstance(found, Variable):
            return self.surroundings.locations[found].space
        return Space.LOCAL if self.surroundings.in_function else Space.PARAM

    def address(self, operand: Operand, space: Space) -> Callable[[Warps], Addresses]:
        """Return what computes a bracketed address as (1 or 32 lanes, warps or 1) uint64."""
        if not isinstance(operand, Address):
            self.unsupported("the address is not in brackets")
        if operand.coordinates:
            self.unsupported("an address with coordinates, of a texture, a surface or a tensor")
        base = operand.base
        if not base:
            if space is not Space.LOCAL:
                self._no_register(f"the address {operand.offset}, in {space} space,")
            whole = constant(operand.offset, 64)
            return lambda _: whole
        found = self.instruction.scope.find(base)
        if isinstance(found, Variable):
            location = self.surroundings.locations[found]
            if space not in (location.space, Space.GENERIC):
                self.unsupported(f"{base} is in {location.space} memory")
            window = WINDOWS[location.space] if space is Space.GENERIC else 0
            whole = constant(location.offset + window + operand.offset, 64)
            return lambda _: whole
        bits = self.width(base)
        if bits != 64 and not (bits == 32 and space not in (Space.GENERIC, Space.GLOBAL)):
            self.unsupported(f"an address of {bits} bits in {space} space")
        key = self.key(base)
        if bits == 64 and not operand.offset:
            return FromRegister(key)
        offset = constant_of(operand.offset)
        if bits == 64:
            return lambda warps: warps.registers[key] + offset
        # Base and offset make 32 bits, which wrap (H200, ptxas at -O0 and -O3, 2026-11-23).
        narrow = offset.astype(np.uint32)
        return lambda warps: (warps.registers[key] + narrow).astype(np.uint64)

    def _check_width(self, name: str, register: Register, bits: int, wider: bool) -> None:
        has = TYPE_BITS[register.type]
        if has != bits and not (wider and has > bits):
            self.unsupported(f"{name} is declared .{register.type}; {bits} bits are needed")
        if register.parts > 1:
            self.unsupported(f"{name} is a vector of {register.parts} registers")
