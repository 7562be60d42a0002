"""Which PTX registers the operands of a program have, and how they stand in a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from oracle.program.operands import Use, listed
from oracle.program.program import Program, walk

Registers = Iterable[tuple[str, str]]
"""Types and names, such as "b32" and "%d_<4>"."""


def declared(registers: Registers) -> list[str]:
    """Return the lines that declare registers, one for each type."""
    names: dict[str, list[str]] = {}
    for type_, name in registers:
        names.setdefault(type_, []).append(name)
    return [f"    .reg .{type_} {', '.join(named)};" for type_, named in names.items()]


def operand_registers(program: Program) -> tuple[Callable[[Use], tuple[str, ...]], Registers]:
    """Allot PTX registers to a program; return what gives those of an operand, and all of them.

    A name of one type is `%name_0`, …; one of several has a bank per type, told apart by capital
    letters. Banks of which a step lists registers are shared, and untyped if of several types
    ("untyped bits" go with any type of their size, PTX ISA 5.2.1).
    """
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
        # Of a bank that is named as a whole, the last register has the highest number.
        for bank, bits, number in use.registers if listed(use.name) else use.registers[-1:]:
            key = bank, shared.get((bank, bits), use.holds.register_type)
            counts[key] = max(number + 1, counts.get(key, 0))

    alike = Counter(name for name, _ in counts)
    prefixes = {
        (name, type_): f"%{name}_" if alike[name] == 1 else f"%{name}_{type_.upper()}_"
        for name, type_ in counts
    }

    def registers_of(use: Use) -> tuple[str, ...]:
        type_ = use.holds.register_type
        return tuple(
            f"{prefixes[bank, shared.get((bank, bits), type_)]}{number}"
            for bank, bits, number in use.registers
        )

    return registers_of, [(key[1], f"{prefixes[key]}<{count}>") for key, count in counts.items()]


def displaced(register: str, immediate: int) -> str:
    """Return "[register+immediate]"; PTX writes a negative one as "+-16"."""
    return f"[{register}+{immediate}]" if immediate else f"[{register}]"


def braced(registers: Sequence[str]) -> str:
    """Return registers as a vector operand."""
    return "{" + ", ".join(registers) + "}"
