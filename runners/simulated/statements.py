"""Operands of instructions, from their text."""

import re
from contextlib import suppress
from functools import lru_cache

from runners.simulated.literals import BadConstant, Tokens, floating, integer
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
