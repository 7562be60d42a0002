"""Constants and constant expressions (PTX ISA 4.5)."""

import re
import struct
from collections.abc import Callable

from runners.simulated.traps import TrapKind

INTEGER_BITS = 64
"""Bits of an integer constant (PTX ISA 4.5.1)."""
_LONGEST = 128
"""Characters of the longest constant that is looked at: 64 bits in binary need 67."""
WARP_SIZE = 32
"""What WARP_SZ stands for (PTX ISA 4.5.3)."""

TOKEN = re.compile(
    r"\s*(?:(?P<float>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b"
    r"|[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+\.(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<integer>[0-9][0-9a-zA-Z]*)"
    r"|(?P<name>(?:[a-zA-Z_]|[$%][\w$])[\w$]*(?:\.[a-zA-Z]+\b)*)"
    r"|(?P<operator><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!?:<>()\[\]{},=]))"
)
"""One token of an operand or an initialiser."""

_INTEGER = re.compile(
    r"(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*))U?"
)
_BASES = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}


class BadConstant(Exception):  # noqa: N818 (what it carries is a sentence)
    """Carries why something is no constant; the reader adds the line."""

    def __init__(self, message: str, kind: TrapKind = TrapKind.PARSE) -> None:
        super().__init__(message)
        self.kind = kind


def integer(text: str) -> int:
    """Return the value of an integer constant: hexadecimal, octal, binary or decimal."""
    match = _INTEGER.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        what = "no integer constant" if len(text) <= _LONGEST else "too long for a constant"
        raise BadConstant(
            f"{text[:40]!r} is {what}; there are hexadecimal (0x1f), octal (017), binary (0b11) "
            f"and decimal ones of up to {INTEGER_BITS} bits"
        )
    base = match.lastgroup or "decimal"
    value = int(match[base], _BASES[base])
    if value >> INTEGER_BITS:
        raise BadConstant(f"the constant {text} has more than {INTEGER_BITS} bits")
    return value


def floating(text: str) -> tuple[int, int]:
    """Return bits and width of a floating-point constant; decimal ones have 64 bits."""
    if text[:2] in ("0f", "0F"):
        return int(text[2:], 16), 32
    if text[:2] in ("0d", "0D"):
        return int(text[2:], 16), 64
    if len(text) > _LONGEST:
        raise BadConstant(f"{text[:40]!r} is too long for a constant")
    return int.from_bytes(struct.pack("<d", float(text)), "little"), 64


def wrapped(value: int) -> int:
    """Return the low 64 bits of a value as a signed number."""
    value &= (1 << INTEGER_BITS) - 1
    return value - (1 << INTEGER_BITS) if value >> (INTEGER_BITS - 1) else value


def _quotient(a: int, b: int) -> int:
    if b == 0:
        raise BadConstant("a constant expression divides by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    """Return the remainder of unsigned operands (PTX ISA 4.5.6); ptxas 11.7 to 13.5 have it so."""
    mask = (1 << INTEGER_BITS) - 1
    a, b = a & mask, b & mask
    return a - b * _quotient(a, b)


def _shift(amount: int) -> int:
    return min(amount & ((1 << INTEGER_BITS) - 1), INTEGER_BITS)


# From the loosest to the tightest (PTX ISA 4.5.4), as in C.
_LEVELS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a or b))},
    {"&&": lambda a, b: int(bool(a and b))},
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {
        "<": lambda a, b: int(a < b),
        "<=": lambda a, b: int(a <= b),
        ">": lambda a, b: int(a > b),
        ">=": lambda a, b: int(a >= b),
    },
    {"<<": lambda a, b: a << _shift(b), ">>": lambda a, b: a >> _shift(b)},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {
        "*": lambda a, b: a * b,
        "/": _quotient,
        "%": _remainder,
    },
)
_UNARY: dict[str, Callable[[int], int]] = {
    "-": lambda a: -a,
    "+": lambda a: a,
    "~": lambda a: ~a,
    "!": lambda a: int(not a),
}
_ENDS = frozenset(",]})")
"""What may follow an expression."""
_DEEPEST = 30
"""Parentheses inside each other."""


class Tokens:
    """The tokens of a text, from left to right."""

    def __init__(self, text: str) -> None:
        self.items: list[tuple[str, str]] = []
        """Kind and text."""
        place, end = 0, len(text.rstrip())
        while place < end:
            match = TOKEN.match(text, place)
            if match is None:
                raise BadConstant(f"unexpected {text[place:].split()[0][:40]!r}")
            kind = match.lastgroup or ""
            self.items.append((kind, match[kind]))
            place = match.end()
        self.place = 0
        """Index of the next token."""
        self._depth = 0

    @property
    def kind(self) -> str:
        """Kind of the next token; empty at the end."""
        return self.items[self.place][0] if self.place < len(self.items) else ""

    @property
    def text(self) -> str:
        """Text of the next token; empty at the end."""
        return self.items[self.place][1] if self.place < len(self.items) else ""

    def take(self) -> str:
        """Return the next token and go on."""
        text = self.text
        self.place += 1
        return text

    def accept(self, operator: str) -> bool:
        """Go on if the next token is this one."""
        if self.text != operator:
            return False
        self.place += 1
        return True

    def expect(self, operator: str) -> None:
        """Go on if the next token is this one, else refuse."""
        if not self.accept(operator):
            raise self.unexpected()

    def unexpected(self) -> BadConstant:
        """Return the refusal of the next token."""
        text = self.text[:40]
        return BadConstant(f"unexpected {text!r}" if text else "something is missing")

    def expression(self) -> int:
        """Take an integer constant expression."""
        following = self.items[self.place + 1 : self.place + 2]
        if self.kind == "integer" and (not following or following[0][1] in _ENDS):
            return integer(self.take())  # nearly all are
        self._depth += 1
        if self._depth > _DEEPEST:
            raise BadConstant("parentheses are too deep", TrapKind.UNSUPPORTED)
        value = self._level(0)
        if self.accept("?"):
            chosen = self.expression()
            self.expect(":")
            other = self.expression()
            value = chosen if value else other
        self._depth -= 1
        return value

    def _level(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._primary()
        value = self._level(level + 1)
        operators = _LEVELS[level]
        while self.kind == "operator" and self.text in operators:
            compute = operators[self.take()]
            value = wrapped(compute(value, self._level(level + 1)))
        return value

    def _primary(self) -> int:
        signs = []
        while self.text in _UNARY:
            signs.append(_UNARY[self.take()])
        if self.kind == "integer":
            value = integer(self.take())
        elif self.accept("("):
            # A cast, as (.u64) in front of an expression, would need a token of its own.
            value = self.expression()
            self.expect(")")
        elif self.text == "WARP_SZ":
            self.take()
            value = WARP_SIZE
        else:
            raise self.unexpected()
        for sign in reversed(signs):
            value = sign(value)
        return wrapped(value) if signs else value
