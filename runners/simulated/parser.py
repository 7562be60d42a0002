"""PTX text to `KernelText`, refusing by line whatever is no PTX, or PTX that is not read.

Source: PTX ISA 4 (Syntax), 5 (State Spaces, Types, and Variables), 6 (Instruction Operands), 7 (the
ABI), 11 (Directives). What describes the program for debuggers and tuners is passed over.
"""

import operator
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from typing import NoReturn, TypeVar

from runners.simulated.syntax import (
    CALLS,
    TYPE_BITS,
    WARP_SIZE,
    Address,
    Function,
    Group,
    ImmediateText,
    Initial,
    InstructionText,
    KernelText,
    Name,
    Operand,
    Pair,
    SimulatedTrap,
    TextScope,
    TrapKind,
    Variable,
    VectorText,
    refuse,
)

AnItem = TypeVar("AnItem")

_KEPT_MODULES = 32
"""Parsed modules that are kept: shrinking goes back and forth between a few."""
_KEPT = 1 << 14
"""Instructions, lists of operands, operands and their parts that are kept, 0.5 KiB for each
instruction (2026-11): two of three stand in earlier programs."""
_DEEPEST_SCOPE = 100
"""Braces of a body inside each other."""
_LARGEST_FAMILY = 1 << 24
"""Registers that one declaration may make."""
_BITS = 64  # of an integer constant (PTX ISA 4.5.1)
_MASK = (1 << _BITS) - 1

_SPACE, _WORD, _SIGNS = re.compile(r"\s*"), re.compile(r"\w+"), re.compile(r"[-+\s]*")
_ANYTHING = re.compile(r"[\w$%.]+|<<|>>|&&|\|\||[<>=!]=|.", re.S)
_IDENTIFIER = r"[a-zA-Z_$%][\w$]*"
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
_SIGN = re.compile(r"[-+~]|!(?!=)")
_OPERATOR = re.compile(r"<<|>>|<=|>=|==|!=|&&|\|\||[-+*/&|^<>]|%(?![\w$])")
# An operand without parentheses: no comma that divides a list is inside of one.
_ONE = r"\s*+([^\s,;()\[\]{}][^,;()\[\]{}]*+|\[[^,;()\[\]{}]++\]|\{[^;()\[\]{}]++\})\s*+"
_LIST = re.compile(rf"{_ONE}(?:,{_ONE})*+")
_EACH = re.compile(_ONE)
_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?(?:\*/|\Z)|^[ \t]*#[^\n]*', re.S | re.M)
_TO_SEMICOLON = re.compile(r"[^;{}]*;")
_TO_LINE_END = re.compile(r"[^\n]*")
_NAME = re.compile(_IDENTIFIER)
_LABEL = re.compile(rf"({_IDENTIFIER})\s*:(?!:)\s*(\.(?:branch|call)targets|\.callprototype)?")
_INSTRUCTION = re.compile(
    rf"(?:@\s*(!?)\s*({_IDENTIFIER})\s*)?"
    r"([a-zA-Z]\w*+(?:(?:\.|::)[a-zA-Z0-9_]++)*+)(?![\w$%])\s*+([^;]*+);"
)
_DIRECTIVE = re.compile(r"\.[a-zA-Z_]\w*")
_DOTTED = re.compile(r"\s*([0-9]+)\.([0-9]+)(?![\w.])")
_SECTION = re.compile(r"\.?[\w.$]+\s*\{[^}]*\}")
_TYPE = re.compile(r"\.(v[248]\s*\.)?\s*([a-z]+[0-9a-z]*)\s")
_COUNT = re.compile(r"<\s*(\w+)\s*>")
_ALIGN = re.compile(r"\.align\s+(\w+)\s*")
_ATTRIBUTE = re.compile(r"\.attribute\s*\([^)]*\)\s*")
# What is said of a pointer is a promise to optimisers (PTX ISA 7.1.1, .ptr).
_POINTER = re.compile(r"\.ptr\b\s*(?:\.[a-z]+\b(?<!align)\s*)?(?:\.align\s+\w+)?")
# Directives in front of a body that bound the launch or help an optimiser (PTX ISA 11.4, 11.7).
_PERFORMANCE = re.compile(
    r"\.pragma\b[^;{]*;\s*"
    r"|\.(?:maxntid|reqntid|minnctapersm|maxnctapersm|maxnreg|noreturn|reqnctapercluster"
    r"|explicitcluster|maxclusterrank|blocksareclusters|abi_preserve(?:_control)?)\b[^.{;]*"
)


def _fail(message: str, kind: TrapKind = TrapKind.PARSE) -> NoReturn:
    """Refuse the text; what reads the module adds the line."""
    refuse(kind, 0, message)


def _integer(text: str) -> int:
    match = _INTEGER.fullmatch(text) if len(text) < 128 else None  # binary ones need 67
    value = int(match[match.lastgroup or 0], int((match.lastgroup or "")[1:])) if match else -1
    if match is None or value > _MASK:
        _fail(
            f"{text[:40]!r} is no integer constant; there are hexadecimal (0x1f), octal (017), "
            f"binary (0b11) and decimal ones of up to {_BITS} bits"
        )
    return value


def _wrapped(value: int) -> int:
    """Return the low 64 bits of a value as a signed number."""
    value &= _MASK
    return value - (1 << _BITS) if value >> (_BITS - 1) else value


def _quotient(a: int, b: int) -> int:
    if b == 0:
        _fail("a constant expression divides by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# From the loosest to the tightest, as in C (PTX ISA 4.5.4). A remainder is that of unsigned numbers
# (4.5.6); ptxas 11.7 to 13.5 have it so.
_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (0, lambda a, b: bool(a or b)),
    "&&": (1, lambda a, b: bool(a and b)),
    "|": (2, operator.or_),
    "^": (3, operator.xor),
    "&": (4, operator.and_),
    "==": (5, operator.eq),
    "!=": (5, operator.ne),
    "<": (6, operator.lt),
    "<=": (6, operator.le),
    ">": (6, operator.gt),
    ">=": (6, operator.ge),
    "<<": (7, lambda a, b: a << min(b & _MASK, _BITS)),
    ">>": (7, lambda a, b: a >> min(b & _MASK, _BITS)),
    "+": (8, operator.add),
    "-": (8, operator.sub),
    "*": (9, operator.mul),
    "/": (9, _quotient),
    "%": (9, lambda a, b: (a & _MASK) - (b & _MASK) * _quotient(a & _MASK, b & _MASK)),
}
_NOTHING = TextScope()
_UNARY: dict[str, Callable[[int], int]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert, "!": operator.not_,
}  # fmt: skip


class _Reader:
    """A place in a text, what is read there, and what of a module was found up to there."""

    version: tuple[int, int] | None = None
    target = ""
    _line, _counted = 1, 0  # the line of a place that was looked at

    def __init__(self, text: str, scope: TextScope = _NOTHING) -> None:
        self.text, self.place, self.scope = text, 0, scope
        self.entries: dict[str, Function] = {}
        self.functions: dict[str, Function] = {}
        self.skip()

    def skip(self) -> None:
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
        found = _ANYTHING.match(self.text, self.place)
        _fail(f"unexpected {found[0][:40]!r}" if found else "the text ends too early")

    def sequence(self, take: Callable[[], AnItem], end: str) -> tuple[AnItem, ...]:
        """Take what commas divide, up to an end."""
        found = [take()]
        while self.accept(","):
            found.append(take())
        self.expect(end)
        return tuple(found)

    def expression(self, level: int = 0) -> int:
        """Take a constant expression of operators of this level and tighter ones."""
        value = self._primary()
        while match := _OPERATOR.match(self.text, self.place):
            tightness, compute = _BINARY[match[0]]
            if tightness < level:
                break
            self.take(_OPERATOR)
            value = _wrapped(int(compute(value, self.expression(tightness + 1))))
        if not level and self.accept("?"):
            chosen = self.expression()
            self.expect(":")
            other = self.expression()
            value = chosen if value else other
        return value

    def _primary(self) -> int:
        signs = []
        while match := self.take(_SIGN):
            signs.append(_UNARY[match[0]])
        if match := self.take(_NUMBER):
            value = _integer(match[0])
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
        text = number[0]
        bits = 32 if text[1] in "fF" else 64
        if text[1] in "fFdD":
            value = int(text[2:], 16)
        else:
            value = int.from_bytes(struct.pack("<d", float(text)), "little")
        if self.stands("+-*/"):
            _fail("expressions of floating-point constants are not known")
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
        if self.stands("}"):
            return ()
        if self.accept("{"):
            return tuple(chain(*self.sequence(self.initials, "}")))
        if self.accept("generic"):
            self.expect("(")
            value = self.value()
            self.expect(")")
            if not isinstance(value, Name):
                self.unexpected()
            offset = self.expression() if self.stands("+-") else 0
            return (Address(value.text, value.offset + offset),)
        return (self.value(),)

    def here(self) -> int:
        self._line += self.text.count("\n", self._counted, self.place)
        self._counted = self.place
        return self._line

    def directive(self, scope: TextScope) -> None:
        """Take what a directive of a module or a body declares, or pass over it."""
        line, outside = self.here(), scope is self.scope
        directive = linking = self.need(_DIRECTIVE)[0]
        if directive == ".extern" or (outside and directive in (".visible", ".weak", ".common")):
            directive = self.need(_DIRECTIVE)[0]
        match directive:
            case ".version" if outside:
                dotted = self.need(_DOTTED)
                if len(dotted[0]) > 20:
                    _fail(f"there is no PTX ISA {dotted[0][:20]}…")
                self.version = int(dotted[1]), int(dotted[2])
            case ".target" if outside:
                self.target = self.need(_NAME)[0]
                while self.accept(","):
                    self.need(_NAME)
            case ".address_size" if outside:
                # Without one, ptxas 13.0 and 13.5 have addresses of 64 bits on sm_90, and refuse a
                # text that needs the 32 which are the ISA's default (11.1.3).
                if (size := _integer(self.need(_WORD)[0])) != 64:
                    _fail(f"address size {size}; only 64 is run", TrapKind.UNSUPPORTED)
            case ".entry" | ".func" if outside:
                self._function(directive == ".entry")
            case ".section" if outside:
                self.need(_SECTION)
            case ".reg" if not outside:
                kind, parts = self._type()
                if kind == "b128":
                    # It is moved as two of 64 bits, and nothing computes with it (5.2.1).
                    kind, parts = "b64", 2
                self.sequence(lambda: self._register(scope, line, kind, parts), ";")
            case ".shared" | ".local" | ".param" | ".global" | ".const":
                alignment = None
                while (found := self.take(_ALIGN)) or self.take(_ATTRIBUTE):
                    alignment = _integer(found[1]) if found else alignment
                space, (kind, parts) = directive[1:], self._type()
                for variable in self.sequence(
                    lambda: self._variable(space, alignment, kind, parts, linking), ";"
                ):
                    old = scope.variables.get(variable.name)
                    # What is declared as `.extern` may be defined afterwards.
                    if not (outside and old is not None and not old.size):
                        self._fresh(scope, variable.name, variable.line)
                    scope.variables[variable.name] = variable
            case ".pragma":
                self.need(_TO_SEMICOLON)
            case ".loc" | ".file":  # say nothing about what a program does (11.5, 11.4)
                self.take(_TO_LINE_END)
            case _:
                _fail(f"{directive} is not known here", TrapKind.UNSUPPORTED)

    def _fresh(self, scope: TextScope, name: str, line: int) -> None:
        if name in scope.families or scope.own(name) is not None:
            refuse(TrapKind.PARSE, line, f"{name} is declared twice")

    def _type(self) -> tuple[str, int]:
        _, many, kind = self.need(_TYPE).group(0, 1, 2)
        if kind not in TYPE_BITS:
            _fail(f"type .{kind} is not known", TrapKind.UNSUPPORTED)
        return kind, int(many[1]) if many else 1

    def _register(self, scope: TextScope, line: int, kind: str, parts: int) -> None:
        name = self.need(_NAME)[0]
        count = _integer(self.need(_COUNT)[1]) if self.stands("<") else None
        self._fresh(scope, name, line)
        if count is None:
            scope.declare(name, kind, parts)
        elif count > _LARGEST_FAMILY:
            said = f"{count} registers are declared at once; up to {_LARGEST_FAMILY} are read"
            refuse(TrapKind.UNSUPPORTED, line, said)
        else:
            scope.families[name] = (count, kind, parts)

    def _variable(
        self, space: str, alignment: int | None, kind: str, parts: int, linking: str = ""
    ) -> Variable:
        """Take a variable behind its state space and type."""
        line, name = self.here(), self.need(_NAME)[0]
        if space == "reg":
            return Variable(line, name, space, kind, 1, 0)
        element = size = TYPE_BITS[kind] // 8 * parts
        open_ended = False
        while self.accept("["):
            open_ended |= self.stands("]")
            if not self.stands("]"):
                start, extent = self.place, self.value()
                if not isinstance(extent, ImmediateText) or extent.float_bits or extent.value < 0:
                    said = self.text[start : self.place].strip()
                    _fail(f"{said} is no size of an array")
                size *= extent.value
            self.expect("]")
        if kind == "pred" or self.stands("<"):
            _fail(f"{name} is no variable of memory")
        alignment = element if alignment is None else alignment
        if alignment < 1 or alignment & (alignment - 1):
            _fail(f"alignment {alignment} is no power of two")
        initial = self.initials() if self.accept("=") else ()
        if open_ended:
            # Without an initialiser the launch says how large it is (PTX ISA 5.1.7, extern).
            if not initial and linking != ".extern":
                _fail(f"{name} has no size")
            size *= -(-len(initial) * (element // parts) // size)
        elif linking == ".extern" and space == "shared":
            size = 0
        return Variable(line, name, space, kind, alignment, size, initial)

    def _parameters(self) -> tuple[Variable, ...]:
        """Take formal parameters, if there are any, in parentheses."""

        def parameter() -> Variable:
            # Hidden are descriptors of tensors that a host passes (nvcc 13.1; no page has it).
            space = self.need(_DIRECTIVE)[0].replace(".hidden", "") or self.need(_DIRECTIVE)[0]
            if space not in (".param", ".reg"):
                _fail(f"{space} is no space of a parameter")
            match = self.take(_ALIGN)
            kind, parts = self._type()
            self.take(_POINTER)
            return self._variable(space[1:], match and _integer(match[1]), kind, parts)

        if not self.accept("(") or self.accept(")"):
            return ()
        return self.sequence(parameter, ")")

    def _function(self, is_entry: bool) -> None:
        results = () if is_entry else self._parameters()
        line, name = self.here(), self.need(_NAME)[0]
        parameters = self._parameters()
        while self.take(_PERFORMANCE):
            pass
        body: tuple[InstructionText, ...] | None = None
        scopes: list[TextScope] = []
        if not self.accept(";"):
            self.expect("{")
            body = tuple(self._body((*results, *parameters), scopes))
        known = self.entries if is_entry else self.functions
        old = known.get(name)
        if old is not None and old.body is not None and body is not None:
            refuse(TrapKind.PARSE, line, f"{name} is defined twice")
        if (old is None or old.body is None) and not (is_entry and body is None):
            known[name] = Function(name, is_entry, results, parameters, body, tuple(scopes))

    def _body(
        self, formals: tuple[Variable, ...], scopes: list[TextScope]
    ) -> list[InstructionText]:
        """Take a body behind its brace; its scopes are added, the outermost first."""
        scope = TextScope(self.scope)
        scopes.append(scope)
        for formal in formals:
            self._fresh(scope, formal.name, formal.line)
            if formal.space == "reg":
                scope.declare(formal.name, formal.type)
            else:
                scope.variables[formal.name] = formal
        around = [scope]
        body: list[InstructionText] = []
        while around:
            scope = around[-1]
            if not self.stands("{}"):
                self._statement(scope, body)
            elif self.accept("}"):
                around.pop()
            else:
                self.expect("{")
                if len(around) >= _DEEPEST_SCOPE:
                    _fail("braces are too deep", TrapKind.UNSUPPORTED)
                labels, targets = scope.labels.new_child(), scope.targets.new_child()
                around.append(TextScope(scope, len(scopes), labels=labels, targets=targets))
                scopes.append(around[-1])
        return body

    def _statement(self, scope: TextScope, body: list[InstructionText]) -> None:
        text = self.text
        if text.startswith(".", self.place):
            self.directive(scope)
            return
        # Most instructions stand in other programs, too.
        found = statement_of(text[self.place : text.find(";", self.place) + 1])
        if found is None:
            if label := self.take(_LABEL):
                self._label(scope, label, len(body))
                return
            match = _INSTRUCTION.match(text, self.place) or self.unexpected()
            try:
                found = _instruction(match)
            except SimulatedTrap:
                self.place = match.start(3)
                raise
        end = self.place + len(found.whole)
        # A guard may stand in the line before its instruction, and lines are those of opcodes.
        self.place = end - len(found.text)
        body.append(InstructionText(*found[:5], self.here(), scope))
        self.place = end
        self.skip()

    def _label(self, scope: TextScope, match: re.Match[str], index: int) -> None:
        name = match[1]
        if match[2] in (".branchtargets", ".calltargets"):
            given = () if self.accept(";") else self.sequence(self.operand, ";")
            parts = given[0].parts if given and isinstance(given[0], VectorText) else given
            scope.targets[name] = tuple(part.text for part in parts if isinstance(part, Name))
        elif match[2] is not None:
            self.need(_TO_SEMICOLON)
        elif name in scope.labels.maps[0]:
            _fail(f"label {name} stands twice")
        else:
            scope.labels[name] = index


@lru_cache(maxsize=_KEPT)
def operands_of(text: str, *, calls: bool = False) -> tuple[Operand, ...]:
    """Return the operands that the text of an instruction has behind its opcode.

    With `calls`, parentheses hold the parameters of a call, and not an expression. Raises
    `SimulatedTrap` without a line where they are none.
    """
    if not calls and _LIST.fullmatch(text):
        # One by one: an operand comes again in other company.
        with suppress(SimulatedTrap):
            return tuple(map(_alone, _EACH.findall(text)))
    reader = _Reader(text)
    return reader.sequence(lambda: reader.operand(calls), "") if text else ()


@lru_cache(maxsize=_KEPT)
def _alone(text: str) -> Operand:
    text = text.rstrip()
    if _OPERAND_NAME.fullmatch(text):
        return Name(text)
    reader = _Reader(text)
    (operand,) = reader.sequence(reader.operand, "")
    return operand


def _instruction(match: re.Match[str]) -> InstructionText:
    negated, register, opcode, rest = match.groups()
    operands = operands_of(rest.strip(), calls=opcode in CALLS)
    guard = None if register is None else Name(register, 0, bool(negated))
    text = match.string[match.start(3) : match.end()]
    return InstructionText(match[0], text, guard, opcode, operands)


@lru_cache(maxsize=_KEPT)
def statement_of(text: str) -> InstructionText | None:
    """Return the instruction that a text is, up to its semicolon; None if it is none."""
    if not (":" in text and _LABEL.match(text)) and (match := _INSTRUCTION.match(text)):
        with suppress(SimulatedTrap):
            return _instruction(match)
    return None


@lru_cache(maxsize=_KEPT_MODULES)
def parse(text: str) -> KernelText:
    """Parse a PTX module; the last ones are kept, so that the same text is parsed once.

    Raises `SimulatedTrap` with the line: of kind `PARSE` where the text is no PTX, `UNSUPPORTED`
    where it is PTX of a kind that is not read.
    """
    # In place of a comment stand as many lines; strings stay.
    text = _COMMENT.sub(lambda c: c[0] if c[0][0] == '"' else "\n" * c[0].count("\n") or " ", text)
    module = _Reader(text, TextScope())
    try:
        while module.place < len(module.text):
            module.directive(module.scope)
    except SimulatedTrap as error:
        raise error.at(module.here()) from None
    except RecursionError:
        refuse(TrapKind.UNSUPPORTED, module.here(), "parentheses or braces are too deep")
    if module.version is None or not module.target:
        missing = "target" if module.version else "version"
        refuse(TrapKind.PARSE, 1, f"the module has no .{missing}")
    entries, functions = module.entries, module.functions
    return KernelText(module.version, module.target, entries, functions, module.scope)
