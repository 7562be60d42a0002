"""Operands and initialisers from their text, with constants and their expressions (PTX ISA 4.5, 6).

A list of operands is read one by one where no comma is inside of one, and token by token elsewhere.
"""

import operator
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

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
    "%": (9, lambda a, b: a - b * _quotient(a, b)),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "!": operator.not_,
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
            value = int(sign(value))
        return wrapped(value) if signs else value


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
    return _read(text, calls)


@lru_cache(maxsize=_KEPT)
def _alone(text: str) -> Operand:
    """Return the operand that a text is."""
    text = text.rstrip()
    if _NAME.fullmatch(text):
        return Name(text)
    if text.startswith("{"):
        return Vector(tuple(map(_part, text[1:-1].split(","))))
    (operand,) = _read(text, False)
    return operand


@lru_cache(maxsize=_KEPT)
def _part(text: str) -> Name | Immediate:
    """Return the part of a vector that a text is."""
    tokens = Tokens(text)
    part = _value(tokens)
    if tokens.kind:
        raise tokens.unexpected()
    return part


@lru_cache(maxsize=_KEPT)
def _number(text: str) -> Initial:
    """Return the initial value that the digits of a text are."""
    return Initial(Immediate(integer(text.strip())))


def _read(text: str, calls: bool) -> tuple[Operand, ...]:
    """Return the operands of a list, token by token."""
    if not text:
        return ()
    tokens = Tokens(text)
    found = [_operand(tokens, calls)]
    while tokens.accept(","):
        found.append(_operand(tokens, calls))
    if tokens.kind:
        raise tokens.unexpected()
    return tuple(found)


def _operand(tokens: Tokens, calls: bool) -> Operand:
    if tokens.accept("["):
        return _address(tokens)
    if tokens.accept("{"):
        return Vector(_parts(tokens, "}"))
    if calls and tokens.accept("("):
        return Group(() if tokens.accept(")") else _parts(tokens, ")"))
    value = _value(tokens)
    if isinstance(value, Name) and tokens.accept("|"):
        second = _value(tokens)
        if not isinstance(second, Name):
            raise tokens.unexpected()
        return Pair(value, second)
    return value


def _parts(tokens: Tokens, end: str) -> tuple[Name | Immediate, ...]:
    parts = [_value(tokens)]
    while tokens.accept(","):
        parts.append(_value(tokens))
    tokens.expect(end)
    return tuple(parts)


def _value(tokens: Tokens) -> Name | Immediate:
    """Take a name, with an offset where it is that of a variable, or a constant."""
    negated = False
    if tokens.text == "!" and tokens.items[tokens.place + 1 : tokens.place + 2] != []:
        following = tokens.items[tokens.place + 1]
        if following[0] == "name" and following[1] != "WARP_SZ":
            tokens.take()
            negated = True
    if tokens.kind == "name" and tokens.text != "WARP_SZ":
        text = tokens.take()
        offset = 0
        if tokens.text in ("+", "-"):
            offset = tokens.expression()
        return Name(text, offset, negated)
    return constant(tokens)


def constant(tokens: Tokens) -> Immediate:
    """Take a constant."""
    negative = False
    start = tokens.place
    while tokens.text in ("-", "+"):
        negative ^= tokens.take() == "-"
    if tokens.kind == "float":
        value, bits = floating(tokens.take())
        if tokens.text in ("+", "-", "*", "/"):
            raise BadConstant("expressions of floating-point constants are not known")
        return Immediate(value ^ (negative << (bits - 1)), bits)
    tokens.place = start
    return Immediate(tokens.expression())


def _address(tokens: Tokens) -> Address:
    if tokens.kind == "name" and tokens.text != "WARP_SZ":
        base = tokens.take()
        offset = 0
        while tokens.text in ("+", "-"):
            offset += tokens.expression()
    else:
        base, offset = "", tokens.expression()
    tokens.expect("]")
    return Address(base, offset)


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
    tokens = Tokens(text)
    found: list[Initial] = []
    depth = 0
    while True:
        while tokens.accept("{"):
            depth += 1
        if depth and tokens.text == "}":
            pass
        elif tokens.kind == "name" and tokens.text == "generic":
            tokens.take()
            tokens.expect("(")
            found.append(Initial(_value(tokens), generic=True))
            tokens.expect(")")
            found[-1] = _moved(found[-1], tokens)
        else:
            found.append(Initial(_value(tokens)))
        while depth and tokens.accept("}"):
            depth -= 1
        if not tokens.accept(","):
            break
    if tokens.kind or depth:
        raise tokens.unexpected()
    return tuple(found)


def _moved(initial: Initial, tokens: Tokens) -> Initial:
    if tokens.text not in ("+", "-") or not isinstance(initial.value, Name):
        return initial
    offset = initial.value.offset + tokens.expression()
    return Initial(Name(initial.value.text, offset), generic=True)
