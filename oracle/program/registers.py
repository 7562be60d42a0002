"""Vectors of registers: which registers an operand of a step stands for.

A name, as `"d"`, stands for all registers of the bank of that name, in order. A vector, as `"d.3
d.2 x.1 d.0"`, lists them, some perhaps several times. A bank has registers of 32 and, apart from
them, of 64 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from oracle.errors import UsageError
from oracle.program.places import check_name

MOST_REGISTERS = 255
"""Registers of 32 bits of one thread, on every target since sm_35 (CUDA C++ Programming Guide,
Technical Specifications per Compute Capability)."""

MOST_LISTED = 8
"""Registers of the largest operand: a fragment of wmma, or C of mma.sync (9.7.14.4.1, .5)."""

_REGISTER = re.compile(r"([a-z][a-z0-9_]{0,30})\.(0|[1-9][0-9]{0,2})")


class Register(NamedTuple):
    """One register in each lane."""

    bank: str
    bits: int
    number: int

    def __str__(self) -> str:
        return f"{self.bank}.{self.number}"


def listed(text: str) -> bool:
    """Tell whether an operand lists its registers, rather than naming a bank."""
    return "." in text


def check_vector(text: str, what: str) -> None:
    """Raise UsageError unless a text can be an operand."""
    if listed(text):
        _parsed(text)
    else:
        check_name(text, what)


@lru_cache(maxsize=1 << 12)
def vector(text: str, count: int, bits: int) -> tuple[Register, ...]:
    """Return the registers that a name, or a list of `count`, stands for; or UsageError."""
    if not listed(text):
        return tuple(Register(text, bits, index) for index in range(count))
    named = _parsed(text)
    if len(named) != count:
        raise UsageError(
            f"the vector {text!r:.300} lists {len(named)} registers; this operand has {count}"
        )
    return tuple(Register(bank, bits, index) for bank, index in named)


def text_of(registers: Iterable[Register]) -> str:
    """Return the vector that lists some registers."""
    return " ".join(map(str, registers))


@lru_cache(maxsize=1 << 12)
def _parsed(text: str) -> tuple[tuple[str, int], ...]:
    parts = text.split(" ", MOST_LISTED)
    if len(parts) > MOST_LISTED:
        raise UsageError(
            f"the vector {text!r:.80} lists more than {MOST_LISTED} registers; no operand has more"
        )
    found = []
    for part in parts:
        match = _REGISTER.fullmatch(part)
        if match is None or int(match[2]) >= MOST_REGISTERS:
            raise UsageError(
                f"{part!r:.80} is no register of a vector; one is a name, a dot and a number "
                f"below {MOST_REGISTERS}, as in 'd.3 d.2 d.1 d.0'"
            )
        found.append((match[1], int(match[2])))
    return tuple(found)
