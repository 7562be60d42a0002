"""PTX text to `Listing`, refusing by line whatever is no PTX, or PTX that is not read.

Source: PTX ISA 4 (Syntax), 5 (State Spaces, Types, and Variables), 7 (Abstracting the ABI), 11
(Directives). What describes the program for debuggers and tuners is passed over.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import NoReturn, TypeVar

from runners.simulated.literals import BadConstant, initial_of, integer, operands_of
from runners.simulated.syntax import (
    CALLS,
    TYPE_BITS,
    Function,
    Guard,
    Initial,
    Instruction,
    Listing,
    Name,
    Register,
    Scope,
    Statement,
    Variable,
    Vector,
)
from runners.simulated.traps import TrapKind, refuse

AnItem = TypeVar("AnItem")

# How many parsed modules are kept. A campaign runs one module on many batches of images, and
# shrinking goes back and forth between a few.
_KEPT = 32
_KEPT_STATEMENTS = 1 << 14
"""Instructions that are kept, 0.5 KiB each (2026-11): two of three stand in earlier programs."""


_IDENTIFIER = r"[a-zA-Z_$%][\w$]*"
"""Pattern of a name (PTX ISA 4.4)."""
_NAME = re.compile(_IDENTIFIER)
_DIRECTIVE = re.compile(r"\.[a-zA-Z_]\w*")
_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?(?:\*/|\Z)|^[ \t]*#[^\n]*', re.S | re.M)
_SPACE = re.compile(r"\s*")
_ANYTHING = re.compile(r"[\w$%.]+|.", re.S)


_LABEL = re.compile(rf"({_IDENTIFIER})\s*:(?!:)\s*(\.branchtargets|\.callprototype)?")
_INSTRUCTION = re.compile(
    rf"(?:@\s*(!?)\s*({_IDENTIFIER})\s*)?"
    r"([a-zA-Z]\w*+(?:(?:\.|::)[a-zA-Z0-9_]++)*+)(?![\w$%])\s*+([^;]*+);"
)
_DOTTED = re.compile(r"\s*([0-9]+)\.([0-9]+)(?![\w.])")
_TO_SEMICOLON = re.compile(r"[^;{}]*;")
_TO_LINE_END = re.compile(r"[^\n]*")

_TYPE = re.compile(r"\.(v[248]\s*\.)?\s*([a-z]+[0-9a-z]*)\s")
_DECLARATOR = re.compile(rf"\s*({_IDENTIFIER})\s*(?:<([^>]*)>)?((?:\s*\[[^\]]*\])*)\s*")
_ALIGN = re.compile(r"\.align\s+(\w+)\s*")
_ATTRIBUTE = re.compile(r"\.attribute\s*\([^)]*\)\s*")
_POINTER = re.compile(r"\.ptr\b\s*(?:\.(?:global|shared|local|const|param)\b\s*)?")
_MARK = re.compile(r"\{[\s0-9,]*+\}|[{},;]")
"""What may end an initialiser, or is around what does not; a flat table is passed as a whole."""
_LARGEST_FAMILY = 1 << 24
"""Registers that one declaration may make."""

_LINKING = (".visible", ".extern", ".weak", ".common")
_SPACES = (".shared", ".local", ".param", ".global", ".const")
# Directives whose lines say nothing about what a program does (PTX ISA 11.5, 11.4).
_PASSED_LINES = (".loc", ".file")
# Directives in front of a body that bound the launch or help an optimiser (PTX ISA 11.4, 11.7).
_PERFORMANCE = re.compile(
    r"\.(?:maxntid|reqntid|minnctapersm|maxnctapersm|maxnreg|noreturn|pragma|reqnctapercluster"
    r"|explicitcluster|maxclusterrank|blocksareclusters|abi_preserve(?:_control)?)\b([^.{;]*);?\s*"
)
_DEEPEST = 100
"""Braces inside each other."""


def _blank(match: re.Match[str]) -> str:
    text = match[0]
    if text.startswith('"'):
        return text
    return "\n" * text.count("\n") or " "


def _without_comments(text: str) -> str:
    """Return PTX with comments and lines of a preprocessor blanked, and lines as they were."""
    return _COMMENT.sub(_blank, text)


def _read(text: str, place: int) -> Statement | None:
    """Return the instruction at a place of a text; None if there is none.

    Raises
    ------
    BadConstant
        If its operands are none.
    """
    match = _INSTRUCTION.match(text, place)
    if match is None:
        return None
    negated, register, opcode, rest = match.groups()
    operands = operands_of(rest.strip(), calls=opcode in CALLS)
    guard = None if register is None else Guard(register, bool(negated))
    return Statement(match[0], match.start(3) - place, guard, opcode, operands)


@lru_cache(maxsize=_KEPT_STATEMENTS)
def statement_of(text: str) -> Statement | None:
    """Return the instruction that a text is, up to its semicolon; None if it is none."""
    if ":" in text and _LABEL.match(text):
        return None
    with suppress(BadConstant):
        return _read(text, 0)
    return None


@dataclass(eq=False)
class _Body:
    """A function's body while it is read."""

    scopes: list[Scope]
    """All of them."""
    open: list[Scope]
    """Those around the place, the outermost first."""
    instructions: list[Instruction] = field(default_factory=list)


class _Parser:
    """A place in the text of a module, and what was found up to there."""

    def __init__(self, text: str) -> None:
        self.text = _without_comments(text)
        self.place = 0
        self._line, self._counted = 1, 0
        """The line of a place that was looked at."""
        self.scope = Scope()
        self.entries: dict[str, Function] = {}
        self.functions: dict[str, Function] = {}
        self.said: dict[str, object] = {}

    def _skip(self) -> None:
        """Go on to what is not blank."""
        match = _SPACE.match(self.text, self.place)
        if match is not None:
            self.place = match.end()

    def _here(self) -> int:
        """Return the line of the place."""
        self._line += self.text.count("\n", self._counted, self.place)
        self._counted = self.place
        return self._line

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Go behind a match at the place, and behind the blanks that follow it."""
        match = pattern.match(self.text, self.place)
        if match is not None:
            self.place = match.end()
            self._skip()
        return match

    def _accept(self, token: str) -> bool:
        """Go behind a token, if it stands here."""
        if not self.text.startswith(token, self.place):
            return False
        self.place += len(token)
        self._skip()
        return True

    def _expect(self, token: str) -> None:
        """Go behind a token, or refuse."""
        if not self._accept(token):
            self._unexpected()

    def _need(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Go behind a match, or refuse."""
        return self._take(pattern) or self._unexpected()

    def _list(self, end: str, take: Callable[[], AnItem]) -> list[AnItem]:
        """Take what commas divide, up to an end."""
        found = [take()]
        while self._accept(","):
            found.append(take())
        self._expect(end)
        return found

    def _unexpected(self) -> NoReturn:
        """Refuse what stands here."""
        if self.place >= len(self.text):
            self._refuse("the text ends in the middle of something")
        found = _ANYTHING.match(self.text, self.place)
        self._refuse(f"unexpected {found[0][:40] if found else ''!r}")

    def _refuse(self, message: str, kind: TrapKind = TrapKind.PARSE) -> NoReturn:
        """Refuse the module at this line."""
        refuse(kind, self._here(), message)

    def _integer(self, text: str) -> int:
        """Return the value of a constant."""
        try:
            return integer(text.strip())
        except BadConstant as error:
            self._refuse(str(error), error.kind)

    def _type(self) -> tuple[str, int]:
        """Take a type; return it and the elements of a vector."""
        match = self._take(_TYPE)
        if match is None:
            self._unexpected()
        if match[2] not in TYPE_BITS:
            self._refuse(f"type .{match[2]} is not known", TrapKind.UNSUPPORTED)
        return match[2], int(match[1][1]) if match[1] else 1

    def _variables(self, space: str, linking: str) -> list[Variable]:
        """Take the variables of a declaration behind its state space."""
        alignment = None
        while (match := self._take(_ALIGN)) or self._take(_ATTRIBUTE):
            alignment = self._integer(match[1]) if match else alignment
        kind, parts = self._type()
        return self._list(";", lambda: self._variable(space, alignment, kind, parts, linking))

    def _variable(
        self, space: str, alignment: int | None, kind: str, parts: int, linking: str = ""
    ) -> Variable:
        line = self._here()
        match = self._need(_DECLARATOR)
        if match[2] is not None or kind == "pred":
            self._refuse(f"{match[1]} is no variable of memory")
        element = TYPE_BITS[kind] // 8 * parts
        alignment = element if alignment is None else alignment
        if alignment < 1 or alignment & (alignment - 1):
            self._refuse(f"alignment {alignment} is no power of two")
        initial = self._initial()
        size = element
        open_ended = False
        for extent in re.findall(r"\[([^\]]*)\]", match[3]):
            if extent.strip():
                size *= self._extent(extent)
            else:
                open_ended = True
        if open_ended:
            # Without an initialiser the launch says how large it is (PTX ISA 5.1.7, extern).
            if not initial and linking != ".extern":
                self._refuse(f"{match[1]} has no size")
            size *= -(-len(initial) * (element // parts) // size)
        elif linking == ".extern" and space == "shared":
            size = 0
        return Variable(
            line=line, name=match[1], space=space, type=kind, alignment=alignment, size=size,
            initial=initial,
        )  # fmt: skip

    def _extent(self, text: str) -> int:
        try:
            (value,) = operands_of(text.strip())
        except (BadConstant, ValueError) as error:
            self._refuse(f"no size of an array: {error}")
        count = getattr(value, "value", -1)
        if count < 0:
            self._refuse(f"{text} is no size of an array")
        return int(count)

    def _initial(self) -> tuple[Initial, ...]:
        if not self._accept("="):
            return ()
        start = self.place
        depth = 0
        self.place = len(self.text)
        for mark in _MARK.finditer(self.text, start):
            if mark[0] == "{":
                depth += 1
            elif mark[0] == "}":
                depth -= 1
            elif mark[0] == ";" or (mark[0] == "," and depth == 0):
                self.place = mark.start()
                break
        try:
            return initial_of(self.text[start : self.place])
        except BadConstant as error:
            self._refuse(str(error), error.kind)

    def _parameters(self) -> tuple[Variable, ...]:
        """Take formal parameters up to the closing parenthesis."""
        return () if self._accept(")") else tuple(self._list(")", self._parameter))

    def _parameter(self) -> Variable:
        space = self._need(_DIRECTIVE)[0][1:]
        if space not in ("param", "reg"):
            self._refuse(f".{space} is no space of a parameter")
        match = self._take(_ALIGN)
        alignment = None if match is None else self._integer(match[1])
        kind, parts = self._type()
        if self._take(_POINTER):
            # What is said of a pointer is a promise to optimisers (PTX ISA 7.1.1, .ptr).
            self._take(_ALIGN)
        if space == "reg":
            line, name = self._here(), self._need(_NAME)[0]
            return Variable(line=line, name=name, space="reg", type=kind, alignment=1, size=0)
        return self._variable(space, alignment, kind, parts)

    def _registers(self, scope: Scope, line: int) -> None:
        """Take registers behind `.reg`, in the line of the declaration, into a scope."""
        kind, parts = self._type()
        self._list(";", lambda: self._register(scope, line, kind, parts))

    def _register(self, scope: Scope, line: int, kind: str, parts: int) -> None:
        match = self._need(_DECLARATOR)
        name = match[1]
        if scope.declares(name) or name in scope.families:
            refuse(TrapKind.PARSE, line, f"register {name} is declared twice")
        if match[2] is None:
            scope.registers[name] = Register(scope.key(name), kind, parts)
            for letter, color in zip("xyzw"[:parts], "rgba", strict=False) if parts > 1 else ():
                part = Register(f"{scope.key(name)}.{letter}", kind)
                scope.registers[f"{name}.{letter}"] = scope.registers[f"{name}.{color}"] = part
            return
        count = self._integer(match[2])
        if count > _LARGEST_FAMILY or parts > 1:
            refuse(
                TrapKind.UNSUPPORTED,
                line,
                f"{count} registers of .v{parts} are declared at once; up to "
                f"{_LARGEST_FAMILY} scalar ones are read",
            )
        scope.families[name] = (count, kind)

    def module(self) -> Listing:
        self._skip()
        while self.place < len(self.text):
            self._item()
        for directive in ("version", "target", "address_size"):
            if directive not in self.said:
                refuse(TrapKind.PARSE, 1, f"the module has no .{directive}")
        version, target = self.said["version"], self.said["target"]
        assert isinstance(version, tuple) and isinstance(target, str)  # noqa: PT018
        return Listing(
            version=version,
            target=target,
            entries=MappingProxyType(self.entries),
            functions=MappingProxyType(self.functions),
            scope=self.scope,
        )

    def _item(self) -> None:
        line = self._here()
        directive = linking = self._need(_DIRECTIVE)[0]
        if directive in _LINKING:
            directive = self._need(_DIRECTIVE)[0]
        if directive == ".version":
            dotted = self._need(_DOTTED)
            if len(dotted[0]) > 20:
                self._refuse(f"there is no PTX ISA {dotted[0][:20]}…")
            self.said["version"] = (int(dotted[1]), int(dotted[2]))
        elif directive == ".target":
            self.said["target"] = self._need(_NAME)[0]
            while self._accept(","):
                self._need(_NAME)
        elif directive == ".address_size":
            bits = self._need(re.compile(r"\w+"))[0]
            if self._integer(bits) != 64:
                self._refuse(f"address size {bits}; only 64 is run", TrapKind.UNSUPPORTED)
            self.said["address_size"] = 64
        elif directive in (".entry", ".func"):
            self._function(directive == ".entry")
        elif directive == ".section":
            self._need(re.compile(r"\.?[\w.$]+"))
            self._pass_braces()
        else:
            self._directive(self.scope, directive, linking, line)

    def _directive(self, scope: Scope, directive: str, linking: str, line: int) -> None:
        """Take what a directive of a module or a body declares, or pass over it."""
        if directive == ".reg" and scope is not self.scope:
            self._registers(scope, line)
        elif directive in _SPACES:
            for variable in self._variables(directive[1:], linking):
                self._declare(scope, variable)
        elif directive == ".pragma":
            self._need(_TO_SEMICOLON)
        elif directive in _PASSED_LINES:
            self._take(_TO_LINE_END)
        else:
            self._refuse(f"{directive} is not known here", TrapKind.UNSUPPORTED)

    def _pass_braces(self) -> None:
        self._expect("{")
        end = self.text.find("}", self.place)
        if end < 0:
            self.place = len(self.text)
            self._unexpected()
        self.place = end
        self._expect("}")

    def _declare(self, scope: Scope, variable: Variable) -> None:
        old = scope.variables.get(variable.name)
        # What is declared as `.extern` may be defined afterwards.
        again = old is not None and scope is self.scope and not old.size
        if not again and (old is not None or scope.declares(variable.name)):
            refuse(TrapKind.PARSE, variable.line, f"{variable.name} is declared twice")
        scope.variables[variable.name] = variable

    def _function(self, is_entry: bool) -> None:
        results: tuple[Variable, ...] = ()
        if not is_entry and self._accept("("):
            results = self._parameters()
        line = self._here()
        name = self._need(_NAME)[0]
        parameters = self._parameters() if self._accept("(") else ()
        while self._take(_PERFORMANCE):
            pass
        body: _Body | None = None
        if not self._accept(";"):
            self._expect("{")
            body = self._body((*results, *parameters))
        function = Function(
            line=line,
            name=name,
            is_entry=is_entry,
            results=results,
            parameters=parameters,
            body=None if body is None else tuple(body.instructions),
            scopes=() if body is None else tuple(body.scopes),
        )
        known = self.entries if is_entry else self.functions
        old = known.get(name)
        if old is not None and old.body is not None and body is not None:
            refuse(TrapKind.PARSE, line, f"{name} is defined twice")
        if old is None or old.body is None:
            known[name] = function
        if is_entry and body is None:
            del known[name]

    def _body(self, formals: tuple[Variable, ...]) -> _Body:
        outermost = Scope(parent=self.scope)
        body = _Body(scopes=[outermost], open=[outermost])
        for formal in formals:
            if outermost.declares(formal.name):
                refuse(TrapKind.PARSE, formal.line, f"{formal.name} is declared twice")
            if formal.space == "reg":
                outermost.registers[formal.name] = Register(formal.name, formal.type)
            else:
                outermost.variables[formal.name] = formal
        while body.open:
            if self._accept("}"):
                body.open.pop()
            elif self._accept("{"):
                if len(body.open) >= _DEEPEST:
                    self._refuse("braces are too deep", TrapKind.UNSUPPORTED)
                inner = Scope(parent=body.open[-1], number=len(body.scopes))
                body.scopes.append(inner)
                body.open.append(inner)
            else:
                self._statement(body)
        return body

    def _statement(self, body: _Body) -> None:
        text = self.text
        if text.startswith(".", self.place):
            line = self._here()
            directive = linking = self._need(_DIRECTIVE)[0]
            if directive == ".extern":
                directive = self._need(_DIRECTIVE)[0]
            self._directive(body.open[-1], directive, linking, line)
            return
        # Most instructions stand in other programs, too.
        known = statement_of(text[self.place : text.find(";", self.place) + 1])
        if known is not None:
            self._instruction(body, known)
            return
        label = self._take(_LABEL)
        if label is not None:
            self._label(body, label)
            return
        try:
            found = _read(text, self.place)
        except BadConstant as error:
            if (match := _INSTRUCTION.match(text, self.place)) is not None:
                self.place = match.start(3)
            self._refuse(str(error), error.kind)
        if found is None:
            self._unexpected()
        self._instruction(body, found)

    def _instruction(self, body: _Body, found: Statement) -> None:
        """Take an instruction at the place."""
        end = self.place + len(found.text)
        # A guard may stand in the line before its instruction, and lines are those of opcodes.
        self.place += found.start
        body.instructions.append(Instruction(self._here(), found, body.open[-1]))
        self.place = end
        self._skip()

    def _label(self, body: _Body, match: re.Match[str]) -> None:
        scope, name = body.open[-1], match[1]
        if match[2] == ".branchtargets":
            line = self._here()
            try:
                given = operands_of(self._need(_TO_SEMICOLON)[0].rstrip("; \t\n"))
            except BadConstant as error:
                refuse(error.kind, line, str(error))
            parts = given[0].parts if given and isinstance(given[0], Vector) else given
            scope.targets[name] = tuple(part.text for part in parts if isinstance(part, Name))
            return
        if match[2] is not None:
            self._need(_TO_SEMICOLON)
            return
        if name in scope.labels:
            self._refuse(f"label {name} stands twice")
        scope.labels[name] = len(body.instructions)


@lru_cache(maxsize=_KEPT)
def parse(text: str) -> Listing:
    """Parse a PTX module.

    Parameters
    ----------
    text
        The module. Parsed modules are kept, so that the same text is parsed once.

    Raises
    ------
    SimulatedTrap
        With kind `PARSE` and the line, where the text is no PTX; with `UNSUPPORTED` and the line,
        where it is PTX of a kind that is not read.
    """
    return _Parser(text).module()
