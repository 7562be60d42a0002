"""Operands and initialisers from their text, with constants and their expressions (PTX ISA 4.5, 6).

A list of operands is read one by one where no comma is inside of one, and token by token elsewhere.
"""

import operator
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar

from runners.simulated.syntax import (
    Address,
    Group,
    Immediate,
    Initial,
    Name,
    Operand,
    Pair,
    Vector,
)
from runners.simulated.traps import TrapKind

AnItem = TypeVar("AnItem")

INTEGER_BITS = 64
"""Bits of an integer constant (PTX ISA 4.5.1)."""
_LONGEST = 128
"""Characters of the longest constant that is looked at: 64 bits in binary need 67."""
WARP_SIZE = 32
"""What WARP_SZ stands for (PTX ISA 4.5.3)."""

_TOKEN = re.compile(
    r"\s*(?:(?P<float>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b"
    r"|[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+\.(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<integer>[0-9][0-9a-zA-Z]*)"
    r"|(?P<name>(?:[a-zA-Z_$]|%(?=[\w$]))[\w$]*(?:\.[a-zA-Z]+\b)*)"
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


# From the loosest, 0, to the tightest (PTX ISA 4.5.4), as in C.
_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (0, lambda a, b: int(bool(a or b))),
    "&&": (1, lambda a, b: int(bool(a and b))),
    "|": (2, operator.or_),
    "^": (3, operator.xor),
    "&": (4, operator.and_),
    "==": (5, operator.eq),
    "!=": (5, operator.ne),
    "<": (6, operator.lt),
    "<=": (6, operator.le),
    ">": (6, operator.gt),
    ">=": (6, operator.ge),
    "<<": (7, lambda a, b: a << _shift(b)),
    ">>": (7, lambda a, b: a >> _shift(b)),
    "+": (8, operator.add),
    "-": (8, operator.sub),
    "*": (9, operator.mul),
    "/": (9, _quotient),
    "%": (9, _remainder),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "!": operator.not_,
}
_ENDS = frozenset((*",]})", ""))
"""What may follow an expression."""
_DEEPEST = 30
"""Parentheses inside each other."""


class _Grammar:
    """Reads the tokens of a text, from left to right."""

    def __init__(self, text: str) -> None:
        self._items: list[tuple[str, str]] = []
        place, end = 0, len(text.rstrip())
        while place < end:
            match = _TOKEN.match(text, place)
            if match is None:
                raise BadConstant(f"unexpected {text[place:].split()[0][:40]!r}")
            kind = match.lastgroup or ""
            self._items.append((kind, match[kind]))
            place = match.end()
        self._items += [("", "")] * 2
        self._place, self._depth = 0, 0
        self.kind, self.text = self._items[0]
        """Of the next token; empty at the end."""

    def take(self) -> str:
        """Return the next token's text and go on."""
        text = self.text
        self._go(self._place + 1)
        return text

    def _go(self, place: int) -> None:
        self._place = place
        self.kind, self.text = self._items[place]

    def accept(self, operator: str) -> bool:
        """Go on if the next token is this one."""
        found = self.text == operator
        if found:
            self._go(self._place + 1)
        return found

    def expect(self, operator: str) -> None:
        """Go on if the next token is this one, else refuse; nothing stands for the end."""
        if self.text != operator:
            raise self._unexpected()
        if operator:
            self.take()

    def _unexpected(self) -> BadConstant:
        text = self.text[:40]
        return BadConstant(f"unexpected {text!r}" if text else "something is missing")

    @property
    def is_name(self) -> bool:
        """Whether the next token is that of a register, a label or a variable."""
        return self.kind == "name" and self.text != "WARP_SZ"

    def expression(self) -> int:
        """Take an integer constant expression."""
        if self.kind == "integer" and self._items[self._place + 1][1] in _ENDS:
            return integer(self.take())  # nearly all are
        self._depth += 1
        if self._depth > _DEEPEST:
            raise BadConstant("parentheses are too deep", TrapKind.UNSUPPORTED)
        value = self._binary(0)
        if self.accept("?"):
            chosen = self.expression()
            self.expect(":")
            other = self.expression()
            value = chosen if value else other
        self._depth -= 1
        return value

    def _binary(self, level: int) -> int:
        """Take an expression of operators of this level and tighter ones."""
        value = self._primary()
        while self.kind == "operator" and (row := _BINARY.get(self.text)) and row[0] >= level:
            self.take()
            value = wrapped(int(row[1](value, self._binary(row[0] + 1))))
        return value

    def _primary(self) -> int:
        signs = []
        while self.text in _UNARY:
            signs.append(_UNARY[self.take()])
        if self.kind == "integer":
            value = integer(self.take())
        elif self.accept("WARP_SZ"):
            value = WARP_SIZE
        else:
            # A cast, as (.u64) in front of an expression, would need a token of its own.
            self.expect("(")
            value = self.expression()
            self.expect(")")
        for sign in reversed(signs):
            value = int(sign(value))
        return wrapped(value) if signs else value

    def sequence(self, take: Callable[[], AnItem], end: str) -> tuple[AnItem, ...]:
        """Take what commas divide, up to an end."""
        found = [take()]
        while self.accept(","):
            found.append(take())
        self.expect(end)
        return tuple(found)

    def operand(self, calls: bool = False) -> Operand:
        """Take an operand."""
        if self.accept("["):
            return self._address()
        if self.accept("{"):
            return Vector(self.sequence(self.value, "}"))
        if calls and self.accept("("):
            return Group(() if self.accept(")") else self.sequence(self.value, ")"))
        value = self.value()
        if isinstance(value, Name) and self.accept("|"):
            second = self.value()
            if not isinstance(second, Name):
                raise self._unexpected()
            return Pair(value, second)
        return value

    def _address(self) -> Address:
        base = self.take() if self.is_name else ""
        offset = 0 if base else self.expression()
        while base and self.text in ("+", "-"):
            offset += self.expression()
        self.expect("]")
        return Address(base, offset)

    def value(self) -> Name | Immediate:
        """Take a name, with an offset where it is that of a variable, or a constant."""
        kind, following = self._items[self._place + 1]
        negated = self.text == "!" and kind == "name" and following != "WARP_SZ"
        if negated:
            self.take()
        if self.is_name:
            text = self.take()
            return Name(text, self.expression() if self.text in ("+", "-") else 0, negated)
        negative = False
        start = self._place
        while self.text in ("-", "+"):
            negative ^= self.take() == "-"
        if self.kind != "float":
            self._go(start)
            return Immediate(self.expression())
        value, bits = floating(self.take())
        if self.text in ("+", "-", "*", "/"):
            raise BadConstant("expressions of floating-point constants are not known")
        return Immediate(value ^ (negative << (bits - 1)), bits)

    def initials(self) -> list[Initial]:
        """Take the values of an initialiser, flat."""
        found: list[Initial] = []
        depth = 0
        while True:
            while self.accept("{"):
                depth += 1
            if not depth or self.text != "}":
                found.append(self._initial())
            while depth and self.accept("}"):
                depth -= 1
            if not self.accept(","):
                break
        self.expect("}" if depth else "")
        return found

    def _initial(self) -> Initial:
        if not self.accept("generic"):
            return Initial(self.value())
        self.expect("(")
        value = self.value()
        self.expect(")")
        if self.text in ("+", "-") and isinstance(value, Name):
            value = Name(value.text, value.offset + self.expression())
        return Initial(value, generic=True)


_KEPT = 1 << 14
"""Lists of operands, operands and their parts that are kept: programs of a campaign share most."""

# An operand without parentheses: no comma that divides a list is inside of one.
_ONE = r"\s*+([^\s,;()\[\]{}][^,;()\[\]{}]*+|\[[^,;()\[\]{}]++\]|\{[^;()\[\]{}]++\})\s*+"
_LIST = re.compile(rf"{_ONE}(?:,{_ONE})*+")
_EACH = re.compile(_ONE)
_NAME = re.compile(r"(?!WARP_SZ\b)[a-zA-Z_$%][\w$]*+(?:\.[a-zA-Z]++\b)*+")
_NUMBERS = re.compile(r"\s*+\{([\s0-9,]*+)\}\s*+")


@lru_cache(maxsize=_KEPT)
def operands_of(text: str, *, calls: bool = False) -> tuple[Operand, ...]:
    """Return the operands that the text of an instruction has behind its opcode.

    With `calls`, parentheses hold the parameters of a call, and not an expression.

    Raises
    ------
    BadConstant
        If they are none.
    """
    if not calls and _LIST.fullmatch(text):
        # One by one: an operand comes again in other company.
        with suppress(BadConstant):
            return tuple(map(_alone, _EACH.findall(text)))
    grammar = _Grammar(text)
    return grammar.sequence(lambda: grammar.operand(calls), "") if text else ()


@lru_cache(maxsize=_KEPT)
def _alone(text: str) -> Operand:
    """Return the operand that a text is."""
    text = text.rstrip()
    if _NAME.fullmatch(text):
        return Name(text)
    if text.startswith("{"):
        return Vector(tuple(map(_part, text[1:-1].split(","))))
    grammar = _Grammar(text)
    (operand,) = grammar.sequence(grammar.operand, "")
    return operand


@lru_cache(maxsize=_KEPT)
def _part(text: str) -> Name | Immediate:
    """Return the part of a vector that a text is."""
    grammar = _Grammar(text)
    part = grammar.value()
    grammar.expect("")
    return part


@lru_cache(maxsize=_KEPT)
def _number(text: str) -> Initial:
    """Return the initial value that the digits of a text are."""
    return Initial(Immediate(integer(text.strip())))


def initial_of(text: str) -> tuple[Initial, ...]:
    """Return the values of an initialiser, flat.

    Raises
    ------
    BadConstant
        If it is none.
    """
    if numbers := _NUMBERS.fullmatch(text):
        with suppress(BadConstant):
            return tuple(map(_number, numbers[1].split(",")))
    return tuple(_Grammar(text).initials())
