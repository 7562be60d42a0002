"""Constants, operands and initialisers of PTX text (PTX ISA 4.5, 6)."""

import operator
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain
from typing import NoReturn, TypeVar

from runners.simulated.syntax import (
    WARP_SIZE,
    Address,
    Group,
    ImmediateText,
    Initial,
    Name,
    Operand,
    Pair,
    VectorText,
)
from runners.simulated.traps import TrapKind

AnItem = TypeVar("AnItem")

KEPT = 1 << 14
"""Instructions, lists of operands, operands and their parts that are kept, 0.5 KiB for each
instruction (2026-11): two of three stand in earlier programs."""
_INTEGER_BITS = 64
"""Bits of an integer constant (PTX ISA 4.5.1)."""
_MASK = (1 << _INTEGER_BITS) - 1
_LONGEST = 128
"""Characters of the longest constant that is looked at: 64 bits in binary need 67."""
_DEEPEST = 30
"""Parentheses, or braces of values, inside each other."""
_SPACE = re.compile(r"\s*")
_ANYTHING = re.compile(r"[\w$%.]+|<<|>>|&&|\|\||[<>=!]=|.", re.S)
IDENTIFIER = r"[a-zA-Z_$%][\w$]*"
"""Pattern of a name (PTX ISA 4.4)."""
_OPERAND_NAME = re.compile(
    # Behind a dot stands an element of a vector, or what a video instruction selects.
    r"(?!WARP_SZ\b)(?:[a-zA-Z_$]|%(?=[\w$]))[\w$]*+(?:\.(?:[a-zA-Z]++|[bh][0-7]++)\b)*+"
)
_NOT = re.compile(rf"!\s*(?={_OPERAND_NAME.pattern})")
_WARP_SIZE = re.compile(r"WARP_SZ\b")
_FLOAT = re.compile(
    r"0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b"
    r"|[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+\.(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
)
_NUMBER = re.compile(rf"(?!{_FLOAT.pattern})[0-9][0-9a-zA-Z]*")
_INTEGER = re.compile(
    r"(?:0[xX](?P<_16>[0-9a-fA-F]+)|0[bB](?P<_2>[01]+)|(?P<_8>0[0-7]*)|(?P<_10>[1-9][0-9]*))U?"
)
_SIGNS = re.compile(r"[-+\s]*")
_SIGN = re.compile(r"[-+~]|!(?!=)")
_OPERATOR = re.compile(r"<<|>>|<=|>=|==|!=|&&|\|\||[-+*/&|^<>]|%(?![\w$])")
# An operand without parentheses: no comma that divides a list is inside of one.
_ONE = r"\s*+([^\s,;()\[\]{}][^,;()\[\]{}]*+|\[[^,;()\[\]{}]++\]|\{[^;()\[\]{}]++\})\s*+"
_LIST = re.compile(rf"{_ONE}(?:,{_ONE})*+")
_EACH = re.compile(_ONE)
_NUMBERS = re.compile(r"\{([\s0-9,]*+)\}")


class Refusal(Exception):  # noqa: N818 (what it carries is a sentence)
    """Carries why a text is not read; what reads the module adds the line."""

    def __init__(self, message: str, kind: TrapKind = TrapKind.PARSE) -> None:
        super().__init__(message)
        self.kind = kind


def integer(text: str) -> int:
    """Return an integer constant."""
    match = _INTEGER.fullmatch(text) if len(text) <= _LONGEST else None
    value = int(match[match.lastgroup or 0], int((match.lastgroup or "")[1:])) if match else -1
    if match is None or value > _MASK:
        raise Refusal(
            f"{text[:40]!r} is no integer constant; there are hexadecimal (0x1f), octal (017), "
            f"binary (0b11) and decimal ones of up to {_INTEGER_BITS} bits"
        )
    return value


def _floating(text: str) -> tuple[int, int]:
    """Return bits and width of a floating-point constant; decimal ones have 64 bits."""
    if text[1] in "fFdD":
        return int(text[2:], 16), 32 if text[1] in "fF" else 64
    if len(text) > _LONGEST:
        raise Refusal(f"{text[:40]!r} is too long for a constant")
    return int.from_bytes(struct.pack("<d", float(text)), "little"), 64


def _wrapped(value: int) -> int:
    """Return the low 64 bits of a value as a signed number."""
    value &= _MASK
    return value - (1 << _INTEGER_BITS) if value >> (_INTEGER_BITS - 1) else value


def _quotient(a: int, b: int) -> int:
    if b == 0:
        raise Refusal("a constant expression divides by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _shift(amount: int) -> int:
    return min(amount & _MASK, _INTEGER_BITS)


# From the loosest, 0, to the tightest (PTX ISA 4.5.4), as in C. A remainder is that of unsigned
# operands (4.5.6); ptxas 11.7 to 13.5 have it so.
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
    "%": (9, lambda a, b: (a & _MASK) - (b & _MASK) * _quotient(a & _MASK, b & _MASK)),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert, "!": operator.not_,
}  # fmt: skip


class Reader:
    """A place in a text, and what is read there: constants, operands and initialisers."""

    end = "something is missing"  # what is said where the text ends too early

    def __init__(self, text: str) -> None:
        self.text, self.place, self._depth = text, 0, 0
        self.skip()

    def skip(self) -> None:
        """Go on to what is not blank."""
        if match := _SPACE.match(self.text, self.place):
            self.place = match.end()

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Go behind a match at the place, and behind the blanks that follow it."""
        match = pattern.match(self.text, self.place)
        if match is not None:
            self.place = match.end()
            self.skip()
        return match

    def need(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Go behind a match, or refuse."""
        return self.take(pattern) or self.unexpected()

    def accept(self, token: str) -> bool:
        """Go behind a token, if it stands here."""
        if not self.text.startswith(token, self.place):
            return False
        self.place += len(token)
        self.skip()
        return True

    def expect(self, token: str) -> None:
        """Go behind a token, or refuse; nothing stands for the end."""
        if not (self.accept(token) if token else self.place >= len(self.text)):
            self.unexpected()

    def stands(self, characters: str) -> bool:
        """Return whether one of these characters stands here."""
        return self.place < len(self.text) and self.text[self.place] in characters

    def unexpected(self) -> NoReturn:
        """Refuse what stands here."""
        found = _ANYTHING.match(self.text, self.place)
        raise Refusal(self.end if found is None else f"unexpected {found[0][:40]!r}")

    def sequence(self, take: Callable[[], AnItem], end: str) -> tuple[AnItem, ...]:
        """Take what commas divide, up to an end."""
        found = [take()]
        while self.accept(","):
            found.append(take())
        self.expect(end)
        return tuple(found)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Refusal("parentheses or braces are too deep", TrapKind.UNSUPPORTED)
        yield
        self._depth -= 1

    def expression(self) -> int:
        """Take a constant expression."""
        with self._inside():
            value = self._binary(0)
            if self.accept("?"):
                chosen = self.expression()
                self.expect(":")
                other = self.expression()
                value = chosen if value else other
        return value

    def _binary(self, level: int) -> int:
        """Take an expression of operators of this level and tighter ones."""
        value = self._primary()
        while match := _OPERATOR.match(self.text, self.place):
            tightness, compute = _BINARY[match[0]]
            if tightness < level:
                break
            self.take(_OPERATOR)
            value = _wrapped(int(compute(value, self._binary(tightness + 1))))
        return value

    def _primary(self) -> int:
        signs = []
        while match := self.take(_SIGN):
            signs.append(_UNARY[match[0]])
        if match := self.take(_NUMBER):
            value = integer(match[0])
        elif self.take(_WARP_SIZE):
            value = WARP_SIZE
        else:
            # A cast, as (.u64) in front of an expression, would need a token of its own.
            self.expect("(")
            value = self.expression()
            self.expect(")")
        for sign in reversed(signs):
            value = int(sign(value))
        return _wrapped(value) if signs else value

    def value(self) -> Name | ImmediateText:
        """Take a name, with an offset where it is that of a variable, or a constant."""
        negated = self.take(_NOT) is not None
        if name := self.take(_OPERAND_NAME):
            return Name(name[0], self.expression() if self.stands("+-") else 0, negated)
        start, signs = self.place, self.need(_SIGNS)[0]
        number = self.take(_FLOAT)
        if number is None:
            self.place = start
            return ImmediateText(self.expression())
        value, bits = _floating(number[0])
        if self.stands("+-*/"):
            raise Refusal("expressions of floating-point constants are not known")
        return ImmediateText(value ^ ((signs.count("-") & 1) << (bits - 1)), bits)

    def operand(self, calls: bool = False) -> Operand:
        """Take an operand; with `calls`, parentheses hold the parameters of a call."""
        if self.accept("["):
            name = self.take(_OPERAND_NAME)
            offset = 0 if name else self.expression()
            while name and self.stands("+-"):
                offset += self.expression()
            places = self.sequence(self.operand, "]") if self.accept(",") else None
            if places is None:
                self.expect("]")
            return Address(name[0] if name else "", offset, places or ())
        if self.accept("{"):
            return VectorText(self.sequence(self.value, "}"))
        if calls and self.accept("("):
            return Group(() if self.accept(")") else self.sequence(self.value, ")"))
        value = self.value()
        if isinstance(value, Name) and self.accept("|"):
            second = self.value()
            return Pair(value, second) if isinstance(second, Name) else self.unexpected()
        return value

    def initials(self) -> tuple[Initial, ...]:
        """Take the values of an initialiser, flat."""
        if numbers := _NUMBERS.match(self.text, self.place):
            with suppress(Refusal):
                given = [integer(text.strip()) for text in numbers[1].split(",")]
                self.take(_NUMBERS)
                return tuple(Initial(ImmediateText(number)) for number in given)
        if self.stands("}"):
            return ()
        if self.accept("{"):
            with self._inside():
                return tuple(chain(*self.sequence(self.initials, "}")))
        if not self.accept("generic"):
            return (Initial(self.value()),)
        self.expect("(")
        value = self.value()
        self.expect(")")
        if self.stands("+-") and isinstance(value, Name):
            value = Name(value.text, value.offset + self.expression())
        return (Initial(value, generic=True),)


@lru_cache(maxsize=KEPT)
def operands_of(text: str, *, calls: bool = False) -> tuple[Operand, ...]:
    """Return the operands that the text of an instruction has behind its opcode.

    With `calls`, parentheses hold the parameters of a call, and not an expression. Raises what says
    why they are none.
    """
    if not calls and _LIST.fullmatch(text):
        # One by one: an operand comes again in other company.
        with suppress(Refusal):
            return tuple(map(_alone, _EACH.findall(text)))
    reader = Reader(text)
    return reader.sequence(lambda: reader.operand(calls), "") if text else ()


@lru_cache(maxsize=KEPT)
def _alone(text: str) -> Operand:
    """Return the operand that a text is."""
    text = text.rstrip()
    if _OPERAND_NAME.fullmatch(text):
        return Name(text)
    if text.startswith("{"):
        parts = [part.strip() for part in text[1:-1].split(",")]
        if all(map(_OPERAND_NAME.fullmatch, parts)):
            return VectorText(tuple(map(Name, parts)))
    reader = Reader(text)
    (operand,) = reader.sequence(reader.operand, "")
    return operand
